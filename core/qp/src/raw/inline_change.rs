//! Changes of owned tries with inline clusters: entries go into blocks and out of them, and blocks
//! are parted and joined.
//!
//! A block is written anew from *rows*, which name the entries of old blocks and leaves. Rows keep
//! no pointers, so memory may move while new blocks are made. The bits of values are copied, and
//! the old blocks are freed as plain memory when the new ones are linked. So each value is dropped
//! once, and a change that finds no memory leaves everything as it was.

use core::ptr;

use sapwood_arena::{Area, ArenaFull};
use smallvec::SmallVec;

use super::inline::{EntryRef, Held, Inline};
use super::leaf::{LeafOf, Value};
use super::node::{self, Cluster, KIND, is_leaf};
use super::parts::Parts;
use super::path::{JOIN_AT, JOIN_MAX, Path, Plan, fits_block, is_outside, prefix_of};
use super::slots::{Border, close, lost_border, middle, open};
use super::tree::{CLUSTER_KIND, LEAF_KIND, Owned, Policy, Tree, inline_cell, leaf_cell, ref_of};
use sapwood_format::cluster::{REACH, capacity_for, tag};
use sapwood_format::inline::{self, Extent};

/// The source of an entry of a new block.
#[derive(Clone, Copy)]
enum Source {
    /// An entry in an old block.
    Held(EntryRef),
    /// A leaf that moves into the block.
    Leaf(u32),
    /// A leaf of its own.
    Outside(u32),
    /// The entry that is inserted.
    New,
}

/// An entry of a new block.
#[derive(Clone, Copy)]
struct Row {
    source: Source,
    tag: u8,
    /// The border to the entry before it.
    border: Border,
    /// Bytes of the key.
    len: usize,
    /// Bytes behind the tail.
    behind: usize,
}

impl Row {
    /// Bytes in the heap, below a prefix of this length.
    fn bytes<V: ?Sized + Value>(&self, prefix: usize) -> usize {
        match self.source {
            Source::Outside(_) => V::ENTRIES.outside(),
            _ => V::ENTRIES.entry(self.len - prefix, self.behind),
        }
    }
}

type Rows = SmallVec<[Row; 26]>;

/// An entry that is inserted: its key, and its value unless a leaf outside has it already.
struct New<'k, 'v, V: ?Sized + Value> {
    key: &'k [u8],
    value: Option<V::New<'v>>,
}

impl<V: ?Sized + Value> New<'_, '_, V> {
    /// Nothing is inserted.
    fn none() -> Self {
        New {
            key: &[],
            value: None,
        }
    }
}

/// The measures of a block.
#[derive(Clone, Copy)]
struct Shape {
    base: usize,
    capacity: usize,
    extent: Extent,
}

impl Shape {
    /// The least block for these rows, or one with room for as many as it has slots.
    fn of<V: ?Sized + Value>(rows: &[Row], base: usize, prefix: usize, least: bool) -> Self {
        let capacity = capacity_for(rows.len());
        let bytes: usize = rows.iter().map(|row| row.bytes::<V>(prefix)).sum();
        let room = match least {
            true => 0,
            false => (capacity - rows.len()) * (bytes / rows.len()),
        };
        let end = V::ENTRIES.heap_at(capacity, prefix) + bytes;
        let last = (end + room).min(inline::END_MAX.max(end));
        let block = inline::block(last);
        Shape {
            base,
            capacity,
            extent: Extent {
                end,
                block: block.min(inline::BLOCK_MAX),
                prefix,
                dead: 0,
            },
        }
    }

    /// As `of`, with the prefix that all keys share.
    fn tight<V: ?Sized + Value>(rows: &[Row], least: bool) -> Self {
        let base = base_of(rows);
        Self::of::<V>(rows, base, prefix_of_rows(rows, base), least)
    }
}

/// The least offset at which neighbours differ; for one row, the whole of its key.
fn base_of(rows: &[Row]) -> usize {
    let least = rows[1..].iter().map(|row| row.border.at).min();
    least.unwrap_or(rows[0].len)
}

/// The length of the prefix of a block of these rows.
fn prefix_of_rows(rows: &[Row], base: usize) -> usize {
    let held = rows
        .iter()
        .filter(|row| !matches!(row.source, Source::Outside(_)));
    prefix_of(base, held.map(|row| row.len))
}

/// Whether rows can be one block.
fn fits<V: ?Sized + Value>(rows: &[Row]) -> bool {
    let base = base_of(rows);
    let prefix = prefix_of_rows(rows, base);
    let in_reach = rows[1..].iter().all(|row| row.border.at - base <= REACH);
    let tails = rows.iter().all(|row| {
        matches!(row.source, Source::Outside(_)) || row.len - prefix <= inline::TAIL_MAX
    });
    let bytes = rows.iter().map(|row| row.bytes::<V>(prefix)).sum();
    in_reach && tails && fits_block::<V>(rows.len(), prefix, bytes)
}

/// Writes the tail of an entry with its length; returns the slot of the value.
///
/// # Safety
/// There is room at `at`, which nobody reads.
#[inline(always)]
unsafe fn write_tail<V: ?Sized + Value>(at: *mut u8, head: &[u8], tail: &[u8]) -> *mut u8 {
    let len = head.len() + tail.len();
    // SAFETY: the caller's promise.
    unsafe {
        *at.add(V::ENTRIES.head) = len as u8;
        let to = at.add(V::ENTRIES.head + 1);
        ptr::copy_nonoverlapping(head.as_ptr(), to, head.len());
        ptr::copy_nonoverlapping(tail.as_ptr(), to.add(head.len()), tail.len());
        Inline::slot::<V>(to, len)
    }
}

/// Writes an entry that is a leaf of its own.
///
/// # Safety
/// As for `write_tail`.
#[inline(always)]
unsafe fn write_outside<V: ?Sized + Value>(at: *mut u8, leaf: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        *at.add(V::ENTRIES.head) = inline::OUTSIDE;
        let cell = at.add(V::ENTRIES.cell_at()).cast::<u32>();
        cell.write_unaligned(leaf);
    }
}

/// The block of an old entry while its block is written over: a copy of it.
type Copied = Option<(u32, *mut u8)>;

impl<V: ?Sized + Value> Tree<V> {
    /// The inline cluster of a cell.
    ///
    /// # Safety
    /// It is a live one.
    unsafe fn block_at(&self, cell: u32, copied: Copied) -> Inline {
        let p = match copied {
            Some((moved, p)) if moved == cell => p,
            _ => self.pointer(cell),
        };
        // SAFETY: the caller's promise; a copy has the same bytes.
        unsafe { Inline::of(Cluster::of(p, cell)) }
    }

    /// Adds the rows of a leaf or inline cluster.
    fn add_rows(&self, rows: &mut Rows, cell: u32, first: Border) {
        if is_leaf(cell) {
            // SAFETY: callers have the leaf from this trie.
            let (len, behind) = unsafe {
                let p = self.pointer(cell);
                (LeafOf::<V>::key_len(p), V::behind(V::value_len(p)))
            };
            return rows.push(Row {
                source: Source::Leaf(cell),
                // SAFETY: as above.
                tag: tag(unsafe { LeafOf::<V>::key(self.pointer(cell)) }),
                border: first,
                len,
                behind,
            });
        }
        // SAFETY: callers have the block from this trie, and it has these entries.
        unsafe {
            let c = self.cluster(cell);
            let block = Inline::of(c);
            for i in 0..c.leaves() {
                let (source, len, behind) = match block.held::<V>(i) {
                    Held::Leaf(leaf) => {
                        let p = self.pointer(leaf);
                        let behind = V::behind(V::value_len(p));
                        (Source::Leaf(leaf), LeafOf::<V>::key_len(p), behind)
                    }
                    Held::Here { tail, len } => {
                        let entry = Source::Held(EntryRef::held(cell, i));
                        (entry, block.extent.prefix + len, V::slot_len(tail.add(len)))
                    }
                };
                let border = match i {
                    0 => first,
                    _ => Border {
                        at: c.border(i),
                        byte: c.byte(i),
                    },
                };
                rows.push(Row {
                    source,
                    tag: c.tag(i),
                    border,
                    len,
                    behind,
                });
            }
        }
    }

    fn rows_of(&self, cell: u32) -> Rows {
        let mut rows = Rows::new();
        self.add_rows(&mut rows, cell, Border { at: 0, byte: 0 });
        rows
    }

    /// Decides which leaves move into a block of these rows, and which stay outside: those with long
    /// tails or values, and those for which there is no room.
    fn settle(rows: &mut [Row]) {
        let base = base_of(rows);
        let all = inline::prefix_for(base);
        let mut bytes = 0;
        for row in rows.iter_mut() {
            if let Source::Leaf(leaf) = row.source {
                row.source = Source::Outside(leaf);
            }
            bytes += row.bytes::<V>(all);
        }
        for i in 0..rows.len() {
            let row = rows[i];
            let Source::Outside(leaf) = row.source else {
                continue;
            };
            if is_outside(row.len - all, row.behind) {
                continue;
            }
            let inside = bytes - V::ENTRIES.outside() + V::ENTRIES.entry(row.len - all, row.behind);
            if fits_block::<V>(rows.len(), all, inside) {
                bytes = inside;
                rows[i].source = Source::Leaf(leaf);
            }
        }
    }

    /// Writes a block.
    ///
    /// # Safety
    /// `p` is a block of this shape, which nobody reads, and the rows are those of the shape. The
    /// sources are live. The new entry, if one of them is it, is `new`.
    unsafe fn write_block(
        &self,
        p: *mut u8,
        shape: Shape,
        rows: &[Row],
        new: &mut New<'_, '_, V>,
        copied: Copied,
    ) {
        let Shape {
            base,
            capacity,
            extent,
        } = shape;
        let prefix = extent.prefix;
        let mut end = V::ENTRIES.heap_at(capacity, prefix);
        // SAFETY: the caller's promise: all places are inside the block.
        unsafe {
            let tags = p.add(inline::TAGS_AT);
            let places = p.add(inline::places_at(capacity));
            let d = p.add(inline::borders_at(capacity, prefix));
            let c = d.add(capacity);
            for at in [tags.add(rows.len()), places.add(rows.len())] {
                ptr::write_bytes(at, 0, capacity - rows.len());
            }
            for at in [d.add(rows.len()), c.add(rows.len())] {
                ptr::write_bytes(at, 0, capacity - rows.len());
            }
            for (i, row) in rows.iter().enumerate() {
                *tags.add(i) = row.tag;
                *places.add(i) = (end / V::ENTRIES.step) as u8;
                let (at, byte) = match i {
                    0 => (0, 0),
                    _ => (row.border.at - base, row.border.byte),
                };
                *d.add(i) = at as u8;
                *c.add(i) = byte;
                let at = p.add(end);
                let key = match row.source {
                    Source::Outside(leaf) => {
                        write_outside::<V>(at, leaf);
                        LeafOf::<V>::pieces(self.pointer(leaf))
                    }
                    Source::New => {
                        let slot = write_tail::<V>(at, &new.key[prefix..], &[]);
                        if let Some(value) = new.value.take() {
                            V::slot_write(slot, value);
                        }
                        crate::Pieces::whole(new.key)
                    }
                    Source::Held(_) | Source::Leaf(_) => {
                        let (key, from) = self.source(row, copied);
                        let cut = prefix.min(key.head.len());
                        let tail = &key.tail[prefix - cut..];
                        let slot = write_tail::<V>(at, &key.head[cut..], tail);
                        let bytes = match V::VARIES {
                            true => row.behind,
                            false => V::ENTRIES.head,
                        };
                        ptr::copy_nonoverlapping(from, slot, bytes);
                        key
                    }
                };
                if i == 0 {
                    let to = p.add(inline::prefix_at(capacity));
                    let cut = prefix.min(key.head.len());
                    ptr::copy_nonoverlapping(key.head.as_ptr(), to, cut);
                    ptr::copy_nonoverlapping(key.tail.as_ptr(), to.add(cut), prefix - cut);
                }
                end += row.bytes::<V>(prefix);
            }
            debug_assert_eq!(end, extent.end);
            p.add(4)
                .cast::<u32>()
                .write(Extent { end, ..extent }.word());
            node::set_header(p, inline::header(base, rows.len(), capacity));
        }
    }

    /// The key of an entry that is in a block or leaf, and the slot of its value.
    ///
    /// # Safety
    /// It is live.
    unsafe fn source<'a>(&self, row: &Row, copied: Copied) -> (crate::Pieces<'a>, *const u8) {
        // SAFETY: the caller's promise.
        unsafe {
            match row.source {
                Source::Held(entry) => {
                    let block = self.block_at(entry.cell(), copied);
                    let Held::Here { tail, len } = block.held::<V>(entry.index()) else {
                        unreachable!("a row says where its entry is")
                    };
                    let pieces = crate::Pieces {
                        head: block.prefix(),
                        tail: core::slice::from_raw_parts(tail, len),
                    };
                    (pieces, Inline::slot::<V>(tail, len))
                }
                Source::Leaf(cell) | Source::Outside(cell) => {
                    let p = self.pointer(cell);
                    (LeafOf::<V>::pieces(p), LeafOf::<V>::slot(p))
                }
                Source::New => unreachable!("a new entry lies nowhere"),
            }
        }
    }

    /// Allocates a block for rows: with room for more entries, if there is memory for it.
    fn alloc_block(&mut self, rows: &[Row]) -> Result<(u32, Shape), ArenaFull> {
        let shape = Shape::tight::<V>(rows, false);
        let mut alloc = |shape: Shape| {
            let bytes = shape.extent.block;
            let r = self.arena.alloc(bytes, CLUSTER_KIND, Area::Nodes)?;
            Ok((inline_cell(r), shape))
        };
        alloc(shape).or_else(|full| {
            let least = Shape::tight::<V>(rows, true);
            match least.extent.block < shape.extent.block {
                true => alloc(least),
                false => Err(full),
            }
        })
    }

    /// Makes a block of rows, or a leaf of one row, which is not linked yet. On failure, what is to
    /// be inserted stays in `new`.
    fn make_part(&mut self, rows: &[Row], new: &mut New<'_, '_, V>) -> Result<u32, ArenaFull> {
        if let [row] = rows {
            return self.make_single(row);
        }
        let (cell, shape) = self.alloc_block(rows)?;
        // SAFETY: a new block of that shape; the sources are live.
        unsafe { self.write_block(self.pointer(cell), shape, rows, new, None) };
        Ok(cell)
    }

    /// Makes a leaf with the bits of an entry, unless it is a leaf.
    fn make_single(&mut self, row: &Row) -> Result<u32, ArenaFull> {
        if let Source::Outside(cell) | Source::Leaf(cell) = row.source {
            return Ok(cell);
        }
        let size = LeafOf::<V>::size_behind(row.len, row.behind);
        let cell = leaf_cell(self.arena.alloc(size, LEAF_KIND, Area::Leaves)?);
        // SAFETY: a new block of that size; the source is live.
        unsafe {
            let (key, slot) = self.source(row, None);
            LeafOf::<V>::write_bits(self.pointer(cell), key, slot, row.behind);
        }
        Ok(cell)
    }

    /// Frees the memory of a part that was made and not linked.
    fn unmake_part(&mut self, rows: &[Row], cell: u32) {
        let was_there = |row: &Row| match row.source {
            Source::Outside(there) | Source::Leaf(there) => there == cell,
            _ => false,
        };
        if !rows.iter().any(was_there) {
            // SAFETY: the part is linked nowhere, and its bits are copies.
            unsafe { self.free_bits(cell) };
        }
    }

    /// Frees the block of a leaf or inline cluster as plain memory.
    ///
    /// # Safety
    /// It is live and unlinked, and its values have moved or are copies.
    unsafe fn free_bits(&mut self, cell: u32) {
        // SAFETY: the caller's promise.
        unsafe {
            if is_leaf(cell) {
                self.free_leaf(cell, |_| ());
            } else {
                let h = self.header(cell);
                Owned.gone(&mut self.arena, cell, h);
            }
        }
    }

    /// Frees the leaves that have moved into a new block.
    ///
    /// # Safety
    /// They are unlinked, and `made` is the block, or one of them.
    unsafe fn moved(&mut self, rows: &[Row], made: u32) {
        for row in rows {
            if let Source::Leaf(leaf) = row.source {
                if leaf != made {
                    // SAFETY: the caller's promise.
                    unsafe { self.free_bits(leaf) };
                }
            }
        }
    }

    /// Links a new entry for a key that is absent, whose path this is. On failure it returns the
    /// value.
    pub(crate) fn link_inline<'v>(
        &mut self,
        key: &[u8],
        mut path: Path,
        value: V::New<'v>,
    ) -> Result<(), (V::New<'v>, ArenaFull)> {
        let behind = V::slot_behind(&value);
        let spare = V::spare(&value);
        let mut new = New {
            key,
            value: Some(value),
        };
        // The leaf of the new entry, if it has one.
        let mut leaf = 0;
        let linked = loop {
            let Some(plan) = self.view().plan(&path, key, behind) else {
                unreachable!("cells of a trie in trusted memory lead to leaves")
            };
            if let Plan::Split = plan {
                if let Err(full) = self.split_block(&path) {
                    break Err(full);
                }
                let Some(anew) = self.view().path(key) else {
                    unreachable!("the trie is not empty")
                };
                path = anew;
                continue;
            }
            if leaf == 0 && self.needs_leaf(&plan, &path, key, behind) {
                let Some(value) = new.value.take() else {
                    unreachable!("the value is not used yet")
                };
                match self.make_leaf(key, value) {
                    Ok(made) => leaf = made,
                    Err((value, full)) => return Err((value, full)),
                }
            }
            // SAFETY: the plan is that of the trie as it is now; the leaf is new.
            break unsafe { self.carry_out(plan, &path, &mut new, leaf, behind) };
        };
        linked.map_err(|full| {
            let value = match new.value.take() {
                Some(value) => value,
                // SAFETY: the leaf was never linked.
                None => V::again(spare, unsafe { self.take_leaf(leaf) }),
            };
            (value, full)
        })
    }

    /// Whether the new entry gets a leaf of its own.
    fn needs_leaf(&self, plan: &Plan, path: &Path, key: &[u8], behind: usize) -> bool {
        match plan {
            Plan::Label { .. } | Plan::Pair { .. } => true,
            Plan::Two { border } => is_outside(key.len() - inline::prefix_for(border.at), behind),
            Plan::Into { border, anew, .. } => {
                // SAFETY: the path ends at a live block.
                let c = unsafe { self.cluster(path.end) };
                // SAFETY: as above.
                let prefix = unsafe { Inline::of(c) }.extent.prefix;
                let prefix = match anew {
                    true => prefix.min(inline::prefix_for(border.at)),
                    false => prefix,
                };
                is_outside(key.len() - prefix, behind)
            }
            Plan::Split => false,
        }
    }

    /// Carries out the plan of an insertion.
    ///
    /// # Safety
    /// The plan is that of the path in the trie as it is now. `leaf` is the new entry's leaf, or 0.
    unsafe fn carry_out(
        &mut self,
        plan: Plan,
        path: &Path,
        new: &mut New<'_, '_, V>,
        leaf: u32,
        behind: usize,
    ) -> Result<(), ArenaFull> {
        let sides = |there, label| match path.before() {
            true => (leaf, label, there),
            false => (there, label, leaf),
        };
        let row = |border| Row {
            source: match leaf {
                0 => Source::New,
                leaf => Source::Outside(leaf),
            },
            tag: tag(new.key),
            border,
            len: new.key.len(),
            behind,
        };
        // SAFETY: the caller's promise.
        unsafe {
            match plan {
                Plan::Split => Ok(()),
                Plan::Label { depth, border } => {
                    let children = sides(path.cell(depth + 1), border.byte);
                    self.part_child(&mut Owned, &path.frames, depth, children)
                }
                Plan::Pair { depth, border } => {
                    let (left, label, right) = sides(path.cell(depth), border.byte);
                    let pair = (border.at, left, label, right);
                    self.part_above(&mut Owned, &path.frames, depth, pair)
                }
                Plan::Two { border } => {
                    let mut rows = self.rows_of(path.end);
                    let mine = row(border);
                    rows[0].border = border;
                    rows.insert(usize::from(!path.before()), mine);
                    Self::settle(&mut rows);
                    let link = self.own_path(&mut Owned, &path.frames)?;
                    let cell = self.make_part(&rows, new)?;
                    self.set_link(link, cell);
                    self.moved(&rows, cell);
                    Ok(())
                }
                Plan::Into {
                    at,
                    border,
                    behind: edge,
                    anew,
                } => {
                    let mine = row(border);
                    if !anew && self.put_here(path.end, at, &mine, edge, new) {
                        return Ok(());
                    }
                    if !anew {
                        if let Some(grown) = self.grow_block(path, &mine) {
                            let put = self.put_here(grown, at, &mine, edge, new);
                            debug_assert!(put);
                            return Ok(());
                        }
                    }
                    let mut rows = self.rows_of(path.end);
                    rows.insert(at, mine);
                    if edge {
                        // The new border is behind the new entry; the old one stays before it.
                        rows[at].border = rows.get(at + 1).map_or(border, |row| row.border);
                        if let Some(row) = rows.get_mut(at + 1) {
                            row.border = border;
                        }
                    }
                    self.replace_block(path, &mut rows, new)
                }
            }
        }
    }

    /// Replaces the block at the end of a path by another one.
    ///
    /// # Safety
    /// The path is that of the trie as it is now; rows that name entries name the block's.
    unsafe fn replace_block(
        &mut self,
        path: &Path,
        rows: &mut [Row],
        new: &mut New<'_, '_, V>,
    ) -> Result<(), ArenaFull> {
        Self::settle(rows);
        // SAFETY: the caller's promise.
        unsafe {
            let link = self.own_path(&mut Owned, &path.frames)?;
            let cell = self.make_part(rows, new)?;
            self.set_link(link, cell);
            self.moved(rows, cell);
            self.free_bits(path.end);
        }
        Ok(())
    }

    /// Puts an entry into a block that has room for it; returns whether it has.
    ///
    /// # Safety
    /// As for `carry_out`.
    #[inline(always)]
    unsafe fn put_here(
        &mut self,
        cell: u32,
        at: usize,
        row: &Row,
        edge: bool,
        new: &mut New<'_, '_, V>,
    ) -> bool {
        // SAFETY: the caller's promise: the block is live, and nobody else uses it.
        unsafe {
            let c = self.cluster(cell);
            let block = Inline::of(c);
            let (n, Extent { end, prefix, .. }) = (c.leaves(), block.extent);
            let bytes = row.bytes::<V>(prefix);
            let most = block.extent.block.min(inline::END_MAX);
            if n == block.capacity || end + bytes > most {
                return false;
            }
            let entry = block.p.add(end);
            if let Source::Outside(leaf) = row.source {
                write_outside::<V>(entry, leaf);
            } else {
                let slot = write_tail::<V>(entry, &new.key[prefix..], &[]);
                if let Some(value) = new.value.take() {
                    V::slot_write(slot, value);
                }
            }
            let tags = block.p.add(inline::TAGS_AT);
            let places = block.p.add(inline::places_at(block.capacity));
            let d = block.p.add(inline::borders_at(block.capacity, prefix));
            let edge = at + usize::from(edge);
            open(tags, tags, n, at, row.tag);
            open(places, places, n, at, (end / V::ENTRIES.step) as u8);
            let c_bytes = d.add(block.capacity);
            open(d, d, n, edge, (row.border.at - c.base()) as u8);
            open(c_bytes, c_bytes, n, edge, row.border.byte);
            self.set_extent(
                block.p,
                Extent {
                    end: end + bytes,
                    ..block.extent
                },
            );
            node::set_header(block.p, inline::header(c.base(), n + 1, block.capacity));
        }
        true
    }

    /// Replaces the block at the end of a path by a larger one, in which there is room for this
    /// entry and some more; returns its cell. Its heap is copied whole. `None` if it must be written
    /// anew, because too much of it is dead, or for lack of memory.
    ///
    /// # Safety
    /// As for `carry_out`.
    unsafe fn grow_block(&mut self, path: &Path, row: &Row) -> Option<u32> {
        // SAFETY: the caller's promise: the block is live, and nobody else uses it.
        unsafe {
            let c = self.cluster(path.end);
            let old = Inline::of(c);
            let (n, prefix) = (c.leaves(), old.extent.prefix);
            let capacity = capacity_for(n + 1).max(old.capacity);
            let (from, to) = (
                V::ENTRIES.heap_at(old.capacity, prefix),
                V::ENTRIES.heap_at(capacity, prefix),
            );
            let heap = old.extent.end - from;
            let room = (capacity - n) * (heap / n).max(row.bytes::<V>(prefix));
            let most = to + heap + room;
            if most > inline::END_MAX || 4 * old.extent.dead > heap {
                return None;
            }
            let block = inline::block(most);
            let link = self.own_path(&mut Owned, &path.frames).ok()?;
            let r = self.arena.alloc(block, CLUSTER_KIND, Area::Nodes).ok()?;
            let cell = inline_cell(r);
            let extent = Extent {
                end: to + heap,
                block,
                ..old.extent
            };
            let (p, old) = (self.pointer(cell), Inline::of(self.cluster(path.end)));
            let arrays = |capacity| {
                let places = inline::places_at(capacity);
                let d = inline::borders_at(capacity, prefix);
                [inline::TAGS_AT, places, d, d + capacity]
            };
            for (from, to) in arrays(old.capacity).into_iter().zip(arrays(capacity)) {
                ptr::copy_nonoverlapping(old.p.add(from), p.add(to), old.capacity);
                ptr::write_bytes(p.add(to + old.capacity), 0, capacity - old.capacity);
            }
            let moved = ((to - from) / V::ENTRIES.step) as u8;
            let places = p.add(inline::places_at(capacity));
            for i in 0..n {
                *places.add(i) = (*places.add(i)).wrapping_add(moved);
            }
            let at = inline::prefix_at(capacity);
            let prefix_at = inline::prefix_at(old.capacity);
            ptr::copy_nonoverlapping(old.p.add(prefix_at), p.add(at), prefix);
            ptr::copy_nonoverlapping(old.p.add(from), p.add(to), heap);
            self.set_extent(p, extent);
            node::set_header(p, inline::header(c.base(), n, capacity));
            self.set_link(link, cell);
            self.free_bits(path.end);
            Some(cell)
        }
    }

    /// Sets the second word of a block.
    ///
    /// # Safety
    /// The caller may change the block.
    #[inline(always)]
    unsafe fn set_extent(&mut self, p: *mut u8, extent: Extent) {
        // SAFETY: the caller's promise.
        unsafe { p.add(4).cast::<u32>().write(extent.word()) };
    }

    /// Parts the block at the end of a path in two.
    fn split_block(&mut self, path: &Path) -> Result<(), ArenaFull> {
        let mut rows = self.rows_of(path.end);
        let cut = middle(rows.len(), |i| rows[i].border.at);
        let border = rows[cut].border;
        let (one, two) = rows.split_at_mut(cut);
        Self::settle(one);
        Self::settle(two);
        let mut none = New::none();
        let left = self.make_part(one, &mut none)?;
        let made = self.make_part(two, &mut none).and_then(|right| {
            let depth = path.frames.len();
            // SAFETY: the path is that of the trie as it is now; both parts are new.
            let linked = unsafe {
                if path.parent() == Some(border.at) {
                    let children = (left, border.byte, right);
                    self.part_child(&mut Owned, &path.frames, depth - 1, children)
                } else {
                    let pair = (border.at, left, border.byte, right);
                    self.part_above(&mut Owned, &path.frames, depth, pair)
                }
            };
            linked
                .map(|()| right)
                .inspect_err(|_| self.unmake_part(two, right))
        });
        let right = match made {
            Ok(right) => right,
            Err(full) => {
                self.unmake_part(one, left);
                return Err(full);
            }
        };
        // SAFETY: the block was unlinked just now, and its entries are in the parts.
        unsafe {
            self.moved(one, left);
            self.moved(two, right);
            self.free_bits(path.end);
        }
        Ok(())
    }

    /// Replaces the value of an entry whose path this is; returns the old one.
    pub(crate) fn overwrite_inline<'v>(
        &mut self,
        key: &[u8],
        mut path: Path,
        value: V::New<'v>,
    ) -> Result<V::Taken, (V::New<'v>, ArenaFull)> {
        // SAFETY: the path is the key's, and nobody else uses the trie.
        let held = unsafe { self.block_at(path.end, None).held::<V>(path.near.index) };
        let Held::Here { tail, len } = held else {
            return self.overwrite_outside(key, &path, value);
        };
        // SAFETY: as above.
        let slot = unsafe { Inline::slot::<V>(tail, len) };
        // SAFETY: as above.
        let value = match unsafe { V::slot_overwrite(slot, value) } {
            Ok(old) => return Ok(old),
            Err(value) => value,
        };
        // The new value has another length: the block is written anew with it.
        let spare = V::spare(&value);
        let behind = V::slot_behind(&value);
        let mut new = New {
            key,
            value: Some(value),
        };
        let mut leaf = 0;
        // SAFETY: as above. A block of one entry becomes its leaf.
        let alone = unsafe { self.cluster(path.end) }.leaves() == 1;
        if alone || behind > inline::HELD_MAX + 1 {
            let Some(value) = new.value.take() else {
                unreachable!("the value is not used yet")
            };
            leaf = self.make_leaf(key, value)?;
        }
        let replaced = loop {
            let mut rows = self.rows_of(path.end);
            let row = &mut rows[path.near.index];
            // SAFETY: the path is the key's as it is now, and the entry is in its block.
            let slot = unsafe { self.source(row, None).1 }.cast_mut();
            row.source = match leaf {
                0 => Source::New,
                leaf => Source::Outside(leaf),
            };
            row.behind = behind;
            Self::settle(&mut rows);
            let prefix = prefix_of_rows(&rows, base_of(&rows));
            let end: usize = rows.iter().map(|row| row.bytes::<V>(prefix)).sum();
            let capacity = capacity_for(rows.len());
            let end = end + V::ENTRIES.heap_at(capacity, prefix);
            if end > inline::END_MAX {
                if let Err(full) = self.split_block(&path) {
                    break Err(full);
                }
                let Some(anew) = self.view().path_of_present(key) else {
                    unreachable!("the key is there")
                };
                path = anew;
                if is_leaf(path.end) {
                    // The entry was parted from all others, so it is a leaf now.
                    return self.overwrite_leaf(key, &path, new.value.take(), leaf);
                }
                continue;
            }
            // SAFETY: as above.
            let old = unsafe { V::slot_take_value(slot) };
            // SAFETY: the path is that of the trie as it is now. On failure nothing was moved.
            match unsafe { self.replace_block(&path, &mut rows, &mut new) } {
                Ok(()) => return Ok(old),
                Err(full) => break Err(full),
            }
        };
        replaced.map_err(|full| {
            let value = match new.value.take() {
                Some(value) => value,
                // SAFETY: the leaf was never linked.
                None => V::again(spare, unsafe { self.take_leaf(leaf) }),
            };
            (value, full)
        })
    }

    /// Replaces the leaf at the end of a path.
    fn overwrite_leaf<'v>(
        &mut self,
        key: &[u8],
        path: &Path,
        value: Option<V::New<'v>>,
        leaf: u32,
    ) -> Result<V::Taken, (V::New<'v>, ArenaFull)> {
        let new = match value {
            Some(value) => self.make_leaf(key, value)?,
            None => leaf,
        };
        // SAFETY: the path is the key's, which is there; a change in place needs no memory.
        Ok(unsafe {
            let replaced = self.replace(&mut Owned, path, new);
            debug_assert!(replaced.is_ok());
            self.take_value(path.end)
        })
    }

    /// Replaces the value of an entry that is a leaf of its own.
    fn overwrite_outside<'v>(
        &mut self,
        key: &[u8],
        path: &Path,
        value: V::New<'v>,
    ) -> Result<V::Taken, (V::New<'v>, ArenaFull)> {
        // SAFETY: the path is the key's, and nobody else uses the trie. Memory may move with the
        // allocation, so pointers are made anew.
        unsafe {
            let Held::Leaf(old) = self.block_at(path.end, None).held::<V>(path.near.index) else {
                unreachable!("the entry is a leaf of its own")
            };
            let value = match V::overwrite(self.pointer(old), value) {
                Ok(old) => return Ok(old),
                Err(value) => value,
            };
            let new = self.make_leaf(key, value)?;
            let place = self.block_at(path.end, None).place::<V>(path.near.index);
            write_outside::<V>(place, new);
            Ok(self.take_value(old))
        }
    }

    /// Takes the entry at the end of a path out of its block. `take_leaf` or `take_slot` moves its
    /// value out. It needs no memory.
    ///
    /// # Safety
    /// The path is that of the key, which is there, in the trie as it is now.
    pub(crate) unsafe fn take_inline<R>(
        &mut self,
        key: &[u8],
        path: &Path,
        take_leaf: impl FnOnce(*mut u8) -> R,
        take_slot: impl FnOnce(*mut u8) -> R,
    ) -> R {
        let i = path.near.index;
        // SAFETY: the caller's promise.
        unsafe {
            let c = self.cluster(path.end);
            let block = Inline::of(c);
            let (taken, bytes) = match block.held::<V>(i) {
                Held::Leaf(leaf) => (self.free_leaf(leaf, take_leaf), V::ENTRIES.outside()),
                Held::Here { tail, len } => {
                    let behind = tail.add(len);
                    let bytes = V::ENTRIES.entry(len, V::slot_len(behind));
                    (take_slot(Inline::slot::<V>(tail, len)), bytes)
                }
            };
            let n = c.leaves();
            if n == 1 {
                let removed = self.remove_child(&mut Owned, &path.frames);
                debug_assert!(removed.is_ok());
                self.free_bits(path.end);
                return taken;
            }
            let (tags, places) = (
                block.p.add(inline::TAGS_AT),
                block.p.add(inline::places_at(block.capacity)),
            );
            let d = block
                .p
                .add(inline::borders_at(block.capacity, block.extent.prefix));
            let lost = lost_border(c, i);
            close(tags, tags, n, i);
            close(places, places, n, i);
            close(d, d, n, lost);
            let c_bytes = d.add(block.capacity);
            close(c_bytes, c_bytes, n, lost);
            let mut extent = block.extent;
            extent.dead += bytes;
            self.set_extent(block.p, extent);
            node::set_header(block.p, inline::header(c.base(), n - 1, block.capacity));
            self.tidy(path.end, Some(path));
            if n - 1 <= JOIN_AT {
                self.join_blocks(key);
            }
            taken
        }
    }

    /// After a removal: a block of one entry becomes a leaf, if there is memory for it. A block of
    /// which a third is dead, or that has many free slots, is written anew in its place.
    ///
    /// # Safety
    /// The path is that of the block in the trie as it is now.
    unsafe fn tidy(&mut self, cell: u32, path: Option<&Path>) {
        // SAFETY: the caller's promise.
        unsafe {
            let c = self.cluster(cell);
            let n = c.leaves();
            if let (1, Some(path)) = (n, path) {
                let rows = self.rows_of(cell);
                if let Ok(leaf) = self.make_single(&rows[0]) {
                    let Ok(link) = self.own_path(&mut Owned, &path.frames) else {
                        unreachable!("a change in place needs no memory")
                    };
                    self.set_link(link, leaf);
                    self.free_bits(cell);
                    return;
                }
            }
            let block = Inline::of(c);
            let heap = V::ENTRIES.heap_at(block.capacity, block.extent.prefix);
            let third = 3 * block.extent.dead > block.extent.end - heap;
            if third || block.capacity >= capacity_for(n + 3) + 8 {
                let mut rows = self.rows_of(cell);
                self.write_again(cell, &mut rows);
            }
        }
    }

    /// Writes a block anew in its place, with these of its entries.
    ///
    /// # Safety
    /// The block is live, and nobody else uses it.
    unsafe fn write_again(&mut self, cell: u32, rows: &mut [Row]) {
        for row in rows.iter_mut() {
            // Without memory for more, leaves stay outside.
            if let Source::Leaf(leaf) = row.source {
                row.source = Source::Outside(leaf);
            }
        }
        let mut copy = [const { core::mem::MaybeUninit::<u64>::uninit() }; inline::BLOCK_MAX / 8];
        // SAFETY: the caller's promise. The new block is not larger.
        unsafe {
            let p = self.pointer(cell);
            let c = self.cluster(cell);
            let Extent {
                block: old, prefix, ..
            } = Inline::of(c).extent;
            ptr::copy_nonoverlapping(p, copy.as_mut_ptr().cast(), old);
            let mut none = New::none();
            // With its old prefix, the block does not get larger.
            let shapes = [
                Shape::tight::<V>(rows, false),
                Shape::tight::<V>(rows, true),
                Shape::of::<V>(rows, c.base(), prefix, true),
            ];
            let fitting = shapes.iter().find(|shape| shape.extent.block <= old);
            let Some(&shape) = fitting else {
                unreachable!("a block with fewer entries is no larger")
            };
            let copied = Some((cell, copy.as_mut_ptr().cast()));
            self.write_block(p, shape, rows, &mut none, copied);
            if shape.extent.block < old {
                let blocks = ((old, CLUSTER_KIND), (shape.extent.block, CLUSTER_KIND));
                self.arena.shrink(ref_of(cell), blocks.0, blocks.1);
            }
        }
    }

    /// Joins the leaf or block that a key leads to with a sibling, if both have few entries
    /// together. Without memory it stays as it is.
    fn join_blocks(&mut self, key: &[u8]) {
        let Some((frames, _)) = self.view().walk(key) else {
            return;
        };
        let Some((last, above)) = frames.split_last() else {
            return;
        };
        // SAFETY: the path is that of the trie as it is now.
        let mut parts = unsafe { Parts::read(self.branch(last.cell)) };
        let index = last.index();
        for left in [index.checked_sub(1), Some(index)].into_iter().flatten() {
            if left + 1 >= parts.children() {
                continue;
            }
            let (one, two) = (parts.cell(left), parts.cell(left + 1));
            if one & KIND == 0 || two & KIND == 0 {
                continue;
            }
            let mut rows = self.rows_of(one);
            let ends = rows.len() == 1 && rows[0].len == parts.offset;
            let border = Border {
                at: parts.offset,
                byte: if ends { 0 } else { parts.label(left) },
            };
            self.add_rows(&mut rows, two, border);
            if rows.len() > JOIN_MAX {
                continue;
            }
            Self::settle(&mut rows);
            if !fits::<V>(&rows) {
                continue;
            }
            let mut none = New::none();
            let Ok(cell) = self.make_part(&rows, &mut none) else {
                return;
            };
            // SAFETY: as above; the children are unlinked before they are freed.
            unsafe {
                let linked = self.own_path(&mut Owned, above).and_then(|link| {
                    if parts.children() > 2 {
                        parts.join(left, cell);
                        return self.put_branch(&mut Owned, link, last.cell, &parts);
                    }
                    self.set_link(link, cell);
                    let h = self.header(last.cell);
                    Owned.gone(&mut self.arena, last.cell, h);
                    Ok(())
                });
                if linked.is_err() {
                    return self.unmake_part(&rows, cell);
                }
                for old in [one, two] {
                    if !is_leaf(old) {
                        self.free_bits(old);
                    }
                }
                self.moved(&rows, cell);
            }
            return;
        }
    }

    /// Takes entries `from..to`, but not all, out of the block at the end of a path; calls `each`
    /// with what must be dropped.
    ///
    /// # Safety
    /// The block is live, and nobody else uses it.
    pub(crate) unsafe fn take_run(
        &mut self,
        cell: u32,
        (from, to): (usize, usize),
        mut each: impl FnMut(V::Held),
    ) {
        let mut rows = self.rows_of(cell);
        // SAFETY: the caller's promise: each value is moved out once.
        unsafe {
            for row in &rows[from..to] {
                match row.source {
                    Source::Outside(leaf) | Source::Leaf(leaf) => each(self.take_leaf(leaf)),
                    _ => each(V::slot_take(self.source(row, None).1.cast_mut())),
                }
            }
            if from > 0 && to < rows.len() {
                let least = (from..=to).min_by_key(|i| rows[*i].border.at);
                rows[to].border = rows[least.unwrap_or(to)].border;
            }
            rows.drain(from..to);
            self.write_again(cell, &mut rows);
        }
    }

    /// Calls `each` with what must be dropped of all entries of an unlinked block, and frees it.
    ///
    /// # Safety
    /// The block is live and unlinked, and nobody uses it afterwards.
    pub(crate) unsafe fn take_block(&mut self, cell: u32, mut each: impl FnMut(V::Held)) {
        // SAFETY: the caller's promise: each value is moved out once.
        unsafe {
            for row in self.rows_of(cell) {
                match row.source {
                    Source::Outside(leaf) | Source::Leaf(leaf) => each(self.take_leaf(leaf)),
                    _ => each(V::slot_take(self.source(&row, None).1.cast_mut())),
                }
            }
            self.free_bits(cell);
        }
    }

    /// Frees what the values of a block have outside; they have moved.
    ///
    /// # Safety
    /// The block is live, and nobody uses its values afterwards.
    pub(crate) unsafe fn forget_block(&mut self, cell: u32) {
        for row in self.rows_of(cell) {
            // SAFETY: the caller's promise.
            unsafe {
                match row.source {
                    Source::Outside(leaf) | Source::Leaf(leaf) => {
                        LeafOf::<V>::forget(self.pointer(leaf));
                    }
                    _ => V::slot_forget(self.source(&row, None).1.cast_mut()),
                }
            }
        }
    }

    /// Makes a block of leaves in their order, or leaves the only one as it is; returns its cell.
    /// The leaves move into the block, except long ones.
    pub(crate) fn pack_leaves(&mut self, leaves: &[(u32, Border)]) -> Result<u32, ArenaFull> {
        let mut rows = Rows::new();
        for (leaf, border) in leaves {
            self.add_rows(&mut rows, *leaf, *border);
        }
        Self::settle(&mut rows);
        let cell = self.make_part(&rows, &mut New::none())?;
        // SAFETY: the bits of the leaves are in the block.
        unsafe { self.moved(&rows, cell) };
        Ok(cell)
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::rc::Rc;
    use alloc::vec::Vec;

    use crate::{QpMap, Value};

    /// Keys of many shapes: short and long, with long prefixes in common, some of them prefixes of
    /// others.
    fn key(rng: &mut fastrand::Rng, kind: usize) -> Vec<u8> {
        const LENGTHS: [usize; 12] = [0, 1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 300];
        match kind {
            0 => (0..rng.usize(..9)).map(|_| rng.u8(..3) * 90).collect(),
            1 => rng.u64(..).to_be_bytes().to_vec(),
            2 => {
                let mut key = vec![b'p'; rng.usize(..5) * 70];
                key.extend((0..rng.usize(..4)).map(|_| rng.u8(..4) * 60));
                if rng.bool() {
                    key.extend(core::iter::repeat_n(b'z', LENGTHS[rng.usize(..12)]));
                }
                key
            }
            _ => {
                let len = LENGTHS[rng.usize(..12)];
                (0..len).map(|_| rng.u8(..2) * 255).collect()
            }
        }
    }

    fn changes<V: ?Sized + Value>(
        seed: u64,
        insert: impl Fn(&mut QpMap<V>, &[u8], u64) -> Option<u64>,
        taken: impl Fn(V::Taken) -> u64,
        seen: impl Fn(&V) -> u64,
    ) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let steps = if cfg!(miri) { 60 } else { 3000 };
        for kind in 0..4 {
            let mut map: QpMap<V> = QpMap::new();
            let mut model: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
            for step in 0..steps {
                let key = key(&mut rng, kind);
                // Growth, a time of both, and a removal of all.
                let remove = match step * 3 / steps {
                    0 => rng.u8(..8) == 0,
                    1 => rng.bool(),
                    _ => rng.u8(..8) != 0,
                };
                if remove {
                    let gone = match model.range(key.clone()..).next() {
                        Some((near, _)) if rng.bool() => near.clone(),
                        _ => key,
                    };
                    assert_eq!(map.remove(&gone).map(&taken), model.remove(&gone));
                } else {
                    let number = rng.u64(..200);
                    let old = insert(&mut map, &key, number);
                    assert_eq!(old, model.insert(key, number), "{step} of {kind}");
                }
                if !cfg!(miri) || step % 16 == 0 {
                    map.verify().unwrap();
                }
                if step % 64 == 0 {
                    let all: Vec<_> = map.iter().map(|(k, v)| (k.to_vec(), seen(v))).collect();
                    let want: Vec<_> = model.iter().map(|(k, v)| (k.clone(), *v)).collect();
                    assert_eq!(all, want);
                    for (key, number) in &model {
                        assert_eq!(map.get(key).map(&seen), Some(*number));
                        let next = map.successor(key).map(|(key, _)| key.to_vec());
                        let behind = (
                            core::ops::Bound::Excluded(key.clone()),
                            core::ops::Bound::Unbounded,
                        );
                        let want = model.range::<Vec<u8>, _>(behind).next();
                        assert_eq!(next.as_ref(), want.map(|(key, _)| key));
                    }
                }
                if step % 500 == 499 {
                    map.compact().unwrap();
                    map.verify().unwrap();
                    let prefix = self::key(&mut rng, kind);
                    let prefix = &prefix[..prefix.len().min(3)];
                    let before = model.len();
                    model.retain(|key, _| !key.starts_with(prefix));
                    assert_eq!(map.remove_prefix(prefix), before - model.len());
                    map.verify().unwrap();
                }
            }
            for key in model.into_keys() {
                assert!(map.remove(&key).is_some());
            }
            map.verify().unwrap();
            assert!(map.is_empty());
        }
    }

    #[test]
    fn maps_of_numbers_change_as_a_model() {
        changes::<u64>(
            1,
            |map, key, number| map.insert(key, number).unwrap(),
            |value| value,
            |value| *value,
        );
    }

    #[test]
    fn maps_of_bytes_and_of_nothing_change_as_a_model() {
        changes::<u8>(
            2,
            |map, key, number| {
                let old = map.insert(key, number as u8).unwrap();
                old.map(u64::from)
            },
            u64::from,
            |value| u64::from(*value),
        );
    }

    #[test]
    fn maps_of_byte_strings_change_as_a_model() {
        fn text(number: u64) -> Vec<u8> {
            let len = [0, 1, 8, 63, 64, 65, 300][number as usize % 7];
            let mut text = number.to_le_bytes().to_vec();
            text.resize(8 + len, 7);
            text
        }
        let number = |text: &[u8]| u64::from_le_bytes(text[..8].try_into().unwrap());
        changes::<[u8]>(
            3,
            |map, key, n| map.insert(key, &text(n)).unwrap().map(|old| number(&old)),
            |value| number(&value),
            number,
        );
    }

    #[test]
    fn values_of_all_sizes_and_alignments_change_as_a_model() {
        #[repr(align(64))]
        struct Wide(u64);
        changes::<Wide>(
            4,
            |map, key, number| map.insert(key, Wide(number)).unwrap().map(|old| old.0),
            |value| value.0,
            |value| value.0,
        );
        changes::<[u64; 8]>(
            5,
            |map, key, number| map.insert(key, [number; 8]).unwrap().map(|old| old[7]),
            |value| value[7],
            |value| value[7],
        );
        changes::<[u64; 9]>(
            6,
            |map, key, number| map.insert(key, [number; 9]).unwrap().map(|old| old[8]),
            |value| value[8],
            |value| value[8],
        );
        changes::<(u8, u32)>(
            7,
            |map, key, number| {
                let old = map.insert(key, (1, number as u32)).unwrap();
                old.map(|old| u64::from(old.1))
            },
            |value| u64::from(value.1),
            |value| u64::from(value.1),
        );
    }

    #[test]
    fn each_value_is_dropped_once() {
        changes::<Rc<u64>>(
            8,
            |map, key, number| map.insert(key, Rc::new(number)).unwrap().map(|old| *old),
            |value| {
                assert_eq!(Rc::strong_count(&value), 1);
                *value
            },
            |value| **value,
        );
        let mut rng = fastrand::Rng::with_seed(9);
        let counted = Rc::new(0u64);
        for kind in 0..4 {
            let mut map: QpMap<Rc<u64>> = QpMap::new();
            for _ in 0..if cfg!(miri) { 40 } else { 1000 } {
                map.insert(key(&mut rng, kind), Rc::clone(&counted))
                    .unwrap();
            }
            assert_eq!(Rc::strong_count(&counted), 1 + map.len());
            let copy = map.clone();
            assert_eq!(Rc::strong_count(&counted), 1 + 2 * map.len());
            assert!(copy == map);
            drop(copy);
            let middle = map.keys().nth(map.len() / 2).map(|key| key.to_vec());
            let mut upper = map.split_off(middle.unwrap()).unwrap();
            map.verify().unwrap();
            upper.verify().unwrap();
            assert_eq!(Rc::strong_count(&counted), 1 + map.len() + upper.len());
            map.append(&mut upper).unwrap();
            map.verify().unwrap();
            assert_eq!(Rc::strong_count(&counted), 1 + map.len());
            map.retain(|_, _| rng.bool());
            map.verify().unwrap();
            assert_eq!(Rc::strong_count(&counted), 1 + map.len());
            map.add_index();
            map.verify().unwrap();
            map.remove_index();
            map.compact().unwrap();
            map.verify().unwrap();
            assert_eq!(Rc::strong_count(&counted), 1 + map.len());
            drop(map);
            assert_eq!(Rc::strong_count(&counted), 1);
        }
    }

    /// Allocations fail at random. A change that fails leaves the map as it was.
    #[test]
    fn a_change_without_memory_changes_nothing() {
        use sapwood_arena::ArenaOptions;
        let mut rng = fastrand::Rng::with_seed(10);
        for round in 0..if cfg!(miri) { 2 } else { 60 } {
            let options = ArenaOptions::default().fail_every(2 + round % 5);
            let mut map: QpMap<[u8]> = match QpMap::with_options(options) {
                Ok(map) => map,
                Err(_) => continue,
            };
            let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
            let mut refused = 0;
            for _ in 0..if cfg!(miri) { 60 } else { 400 } {
                let key = key(&mut rng, round as usize % 4);
                if rng.u8(..3) == 0 {
                    let gone = map.remove(&key).map(Vec::from);
                    assert_eq!(gone, model.remove(&key));
                } else {
                    let value = vec![rng.u8(..); rng.usize(..90)];
                    match map.insert(&key, &value) {
                        Ok(old) => {
                            let was = model.insert(key, value);
                            assert_eq!(old.map(Vec::from), was);
                        }
                        Err(_) => refused += 1,
                    }
                }
                map.verify().unwrap();
                assert_eq!(map.len(), model.len());
            }
            let same = |((k, v), (l, w)): ((crate::Key<'_>, &[u8]), (&Vec<u8>, &Vec<u8>))| {
                k == *l && v == &w[..]
            };
            assert!(map.iter().zip(&model).all(same));
            assert!(refused > 0 || cfg!(miri));
        }
    }
}
