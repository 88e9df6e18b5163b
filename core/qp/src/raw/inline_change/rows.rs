//! Blocks that are made of rows.

use core::ptr;

use sapwood_arena::{Area, ArenaFull};
use smallvec::SmallVec;

use crate::raw::inline::{EntryRef, Held, Inline};
use crate::raw::leaf::{LeafOf, Value};
use crate::raw::node::{self, Cluster, is_leaf};
use crate::raw::path::{fits_block, is_outside, prefix_of};
use crate::raw::slots::Border;
use crate::raw::tree::{CLUSTER_KIND, LEAF_KIND, Owned, Policy, Tree, inline_cell, leaf_cell};
use sapwood_format::cluster::{REACH, capacity_for, tag};
use sapwood_format::inline::{self, Extent};

/// The source of an entry of a new block.
#[derive(Clone, Copy)]
pub(super) enum Source {
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
pub(super) struct Row {
    pub(super) source: Source,
    pub(super) tag: u8,
    /// The border to the entry before it.
    pub(super) border: Border,
    /// Bytes of the key.
    pub(super) len: usize,
    /// Bytes behind the tail.
    pub(super) behind: usize,
}

impl Row {
    /// Bytes in the heap, below a prefix of this length.
    pub(super) fn bytes<V: ?Sized + Value>(&self, prefix: usize) -> usize {
        match self.source {
            Source::Outside(_) => V::ENTRIES.outside(),
            _ => V::ENTRIES.entry(self.len - prefix, self.behind),
        }
    }

    /// Whether the length of the tail below a prefix of this length can be written.
    fn has_short_tail(&self, prefix: usize) -> bool {
        matches!(self.source, Source::Outside(_)) || self.len - prefix <= inline::TAIL_MAX
    }

    /// Whether a new entry has a tail too long for a block with a prefix of this length. The block
    /// may have lost a part of its prefix since the entry was found to fit.
    pub(super) fn is_too_long(&self, prefix: usize) -> bool {
        matches!(self.source, Source::New) && is_outside(self.len, prefix, self.behind)
    }
}

pub(super) type Rows = SmallVec<[Row; 26]>;

/// An entry that is inserted: its key, and its value unless a leaf outside has it already.
pub(super) struct New<'k, 'v, V: ?Sized + Value> {
    pub(super) key: &'k [u8],
    pub(super) value: Option<V::New<'v>>,
    /// Bytes of the value behind the tail.
    pub(super) behind: usize,
}

impl<V: ?Sized + Value> New<'_, '_, V> {
    /// Nothing is inserted.
    pub(super) fn none() -> Self {
        New {
            key: &[],
            value: None,
            behind: 0,
        }
    }
}

/// The measures of a block.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) base: usize,
    pub(super) capacity: usize,
    pub(super) extent: Extent,
}

impl Shape {
    /// A block for these rows, with room for as many as it has slots, but for `room` bytes at most.
    pub(super) fn of<V: ?Sized + Value>(
        rows: &[Row],
        base: usize,
        prefix: usize,
        room: usize,
    ) -> Self {
        let capacity = capacity_for(rows.len());
        let (mut bytes, mut short) = (0, true);
        for row in rows {
            bytes += row.bytes::<V>(prefix);
            short &= row.has_short_tail(prefix);
        }
        // A wrong estimate must end here, before anything is written.
        assert!(short, "a tail is too long for its block");
        let room = room.min((capacity - rows.len()) * (bytes / rows.len()));
        let end = V::ENTRIES.heap_at(capacity, prefix) + bytes;
        assert!(end <= inline::END_MAX, "entries are too large for a block");
        let block = inline::block((end + room).min(inline::END_MAX));
        Shape {
            base,
            capacity,
            extent: Extent {
                end,
                block,
                prefix,
                dead: 0,
            },
        }
    }

    /// These rows in a block of this size and with that many slots, if they fit.
    pub(super) fn in_block<V: ?Sized + Value>(
        tree: &Tree<V>,
        rows: &[Row],
        (capacity, block): (usize, usize),
    ) -> Option<Self> {
        let shape = Self::tight(tree, rows, true);
        let Extent { end, prefix, .. } = shape.extent;
        let heap = |capacity| V::ENTRIES.heap_at(capacity, prefix);
        let end = end - heap(shape.capacity) + heap(capacity);
        (end <= block && capacity >= shape.capacity).then_some(Shape {
            capacity,
            extent: Extent {
                end,
                block,
                ..shape.extent
            },
            ..shape
        })
    }

    /// As `of`, with the prefix that all keys share, if the trie cuts it.
    pub(super) fn tight<V: ?Sized + Value>(tree: &Tree<V>, rows: &[Row], least: bool) -> Self {
        let room = if least { 0 } else { tree.room_max() };
        Self::of::<V>(rows, base_of(rows), tree.prefix_of_rows(rows), room)
    }
}

/// The least offset at which neighbours differ; for one row, the whole of its key.
pub(super) fn base_of(rows: &[Row]) -> usize {
    let least = rows[1..].iter().map(|row| row.border.at).min();
    least.unwrap_or(rows[0].len)
}

/// Takes rows `from..to`, but not all, out.
pub(super) fn take_out(rows: &mut Rows, (from, to): (usize, usize)) {
    if from > 0 && to < rows.len() {
        let least = (from..=to).min_by_key(|i| rows[*i].border.at);
        rows[to].border = rows[least.unwrap_or(to)].border;
    }
    rows.drain(from..to);
}

/// Writes the tail of an entry with its length; returns the slot of the value.
///
/// # Safety
/// There is room at `at`, which nobody reads.
#[inline(always)]
pub(super) unsafe fn write_tail<V: ?Sized + Value>(
    at: *mut u8,
    head: &[u8],
    tail: &[u8],
) -> *mut u8 {
    let len = head.len() + tail.len();
    // SAFETY: the caller's promise.
    unsafe {
        *at.add(V::ENTRIES.head) = len as u8;
        let to = at.add(V::ENTRIES.head + 1);
        if !head.is_empty() {
            ptr::copy_nonoverlapping(head.as_ptr(), to, head.len());
        }
        ptr::copy_nonoverlapping(tail.as_ptr(), to.add(head.len()), tail.len());
        Inline::slot::<V>(to, len)
    }
}

/// Writes an entry that is a leaf of its own.
///
/// # Safety
/// As for `write_tail`.
#[inline(always)]
pub(crate) unsafe fn write_outside<V: ?Sized + Value>(at: *mut u8, leaf: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        *at.add(V::ENTRIES.head) = inline::OUTSIDE;
        let cell = at.add(V::ENTRIES.cell_at()).cast::<u32>();
        cell.write_unaligned(leaf);
    }
}

/// The cell of a block that is written over, and a copy of the block, in which its old entries
/// are.
pub(super) type Copied = (u32, *mut u8);

/// No block is written over. (No cell is 0.)
pub(super) const IN_PLACE: Copied = (0, ptr::null_mut());

impl<V: ?Sized + Value> Tree<V> {
    /// The length of the prefix of a block of these rows.
    pub(super) fn prefix_of_rows(&self, rows: &[Row]) -> usize {
        let held = rows
            .iter()
            .filter(|row| !matches!(row.source, Source::Outside(_)));
        prefix_of(self.prefix_for(base_of(rows)), held.map(|row| row.len))
    }

    /// Whether rows can be one block.
    pub(super) fn fits(&self, rows: &[Row]) -> bool {
        let base = base_of(rows);
        let prefix = self.prefix_of_rows(rows);
        let in_reach = rows[1..].iter().all(|row| row.border.at - base <= REACH);
        let tails = rows.iter().all(|row| row.has_short_tail(prefix));
        let bytes = rows.iter().map(|row| row.bytes::<V>(prefix)).sum();
        in_reach && tails && fits_block::<V>(rows.len(), prefix, bytes)
    }

    /// The inline cluster of a cell.
    ///
    /// # Safety
    /// It is a live one.
    pub(super) unsafe fn block_at(&self, cell: u32, copied: Copied) -> Inline {
        let p = match copied.0 == cell {
            true => copied.1,
            false => self.pointer(cell),
        };
        // SAFETY: the caller's promise; a copy has the same bytes.
        unsafe { Inline::of(Cluster::of(p, cell)) }
    }

    /// Adds the rows of a leaf or inline cluster.
    pub(super) fn add_rows(&self, rows: &mut Rows, cell: u32, first: Border) {
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
            let (base, n) = (c.base(), c.leaves());
            let [tags, d, bytes] = block.arrays();
            rows.reserve(n);
            for i in 0..n {
                let (source, len, behind) = match block.held::<V>(i) {
                    Held::Leaf(leaf) => {
                        let p = self.pointer(leaf);
                        let behind = V::behind(V::value_len(p));
                        (Source::Outside(leaf), LeafOf::<V>::key_len(p), behind)
                    }
                    Held::Here { tail, len } => {
                        let entry = Source::Held(EntryRef::held(cell, i));
                        (entry, block.extent.prefix + len, V::slot_len(tail.add(len)))
                    }
                };
                let border = match i {
                    0 => first,
                    _ => Border {
                        at: base + usize::from(*d.add(i)),
                        byte: *bytes.add(i),
                    },
                };
                rows.push(Row {
                    source,
                    tag: *tags.add(i),
                    border,
                    len,
                    behind,
                });
            }
        }
    }

    pub(super) fn rows_of(&self, cell: u32) -> Rows {
        let mut rows = Rows::new();
        self.add_rows(&mut rows, cell, Border { at: 0, byte: 0 });
        rows
    }

    /// Decides which leaves move into a block of these rows, and which stay outside: those with
    /// long tails or values, and those for which there is no room. In a store those that were
    /// outside stay there, so that a change retires few of them.
    pub(super) fn settle<P: Policy>(&self, rows: &mut [Row]) {
        let is_leaf = |row: &Row| matches!(row.source, Source::Leaf(_) | Source::Outside(_));
        if !rows.iter().any(is_leaf) {
            return;
        }
        let base = base_of(rows);
        let all = self.prefix_for(base);
        let mut bytes = 0;
        let mut moves = 0_u32;
        for (i, row) in rows.iter_mut().enumerate() {
            if let Source::Leaf(leaf) = row.source {
                row.source = Source::Outside(leaf);
                moves |= 1 << i;
            }
            bytes += row.bytes::<V>(all);
        }
        if P::IN_PLACE {
            moves = u32::MAX;
        }
        for i in 0..rows.len() {
            let row = rows[i];
            let Source::Outside(leaf) = row.source else {
                continue;
            };
            if moves & 1 << i == 0 || is_outside(row.len, all, row.behind) {
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
    pub(super) unsafe fn write_block<P: Policy>(
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
            for array in [tags, places, d, c] {
                ptr::write_bytes(array.add(rows.len()), 0, capacity - rows.len());
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
            node::set_header(p, inline::header(base, rows.len(), capacity) | P::BITS);
        }
    }

    /// The key of an entry that is in a block or leaf, and the slot of its value.
    ///
    /// # Safety
    /// It is live.
    pub(super) unsafe fn source<'a>(
        &self,
        row: &Row,
        copied: Copied,
    ) -> (crate::Pieces<'a>, *const u8) {
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
    pub(super) fn alloc_block(&mut self, rows: &[Row]) -> Result<(u32, Shape), ArenaFull> {
        let shape = Shape::tight(self, rows, self.tight);
        let alloc = |tree: &mut Self, shape: Shape| {
            let bytes = shape.extent.block;
            let r = tree.arena.alloc(bytes, CLUSTER_KIND, Area::Nodes)?;
            Ok((inline_cell(r), shape))
        };
        alloc(self, shape).or_else(|full| {
            let least = Shape::tight(self, rows, true);
            match least.extent.block < shape.extent.block {
                true => alloc(self, least),
                false => Err(full),
            }
        })
    }

    /// Makes a block of rows, or a leaf of one row, which is not linked yet. On failure, what is to
    /// be inserted stays in `new`.
    pub(super) fn make_part<P: Policy>(
        &mut self,
        policy: &mut P,
        rows: &[Row],
        new: &mut New<'_, '_, V>,
    ) -> Result<u32, ArenaFull> {
        if let [row] = rows {
            return self.make_single(policy, row);
        }
        let (cell, shape) = self.alloc_block(rows)?;
        // SAFETY: a new block of that shape; the sources are live.
        unsafe { self.write_block::<P>(self.pointer(cell), shape, rows, new, IN_PLACE) };
        policy.made(cell);
        Ok(cell)
    }

    /// Makes a leaf with the bits of an entry, unless it is a leaf.
    pub(super) fn make_single<P: Policy>(
        &mut self,
        policy: &mut P,
        row: &Row,
    ) -> Result<u32, ArenaFull> {
        if let Source::Outside(cell) | Source::Leaf(cell) = row.source {
            return Ok(cell);
        }
        let size = LeafOf::<V>::size_behind(row.len, row.behind);
        let cell = leaf_cell(self.arena.alloc(size, LEAF_KIND, Area::Leaves)?);
        // SAFETY: a new block of that size; the source is live.
        unsafe {
            let (key, slot) = self.source(row, IN_PLACE);
            LeafOf::<V>::write_bits(self.pointer(cell), key, slot, row.behind);
        }
        policy.made(cell);
        Ok(cell)
    }

    /// Frees the memory of a part that was made and not linked.
    pub(super) fn unmake_part<P: Policy>(&mut self, policy: &mut P, rows: &[Row], cell: u32) {
        let was_there = |row: &Row| match row.source {
            Source::Outside(there) | Source::Leaf(there) => there == cell,
            _ => false,
        };
        if !rows.iter().any(was_there) {
            // SAFETY: the part is linked nowhere, and its bits are copies.
            unsafe { self.free_bits(policy, cell) };
        }
    }

    /// Frees or retires the block of a leaf or inline cluster as plain memory.
    ///
    /// # Safety
    /// It is live and unlinked, and its values have moved or are copies.
    pub(crate) unsafe fn free_bits<P: Policy>(&mut self, policy: &mut P, cell: u32) {
        // SAFETY: the caller's promise.
        unsafe {
            if is_leaf(cell) {
                let bytes = || LeafOf::<V>::block(self.pointer(cell));
                if !policy.retire_leaf(cell, bytes) {
                    self.free_leaf(cell, |_| ());
                }
            } else {
                let h = self.header(cell);
                policy.gone(&mut self.arena, cell, h);
            }
        }
    }

    /// Frees the leaves that have moved into a new block.
    ///
    /// # Safety
    /// They are unlinked, and `made` is the block, or one of them.
    pub(super) unsafe fn moved<P: Policy>(&mut self, policy: &mut P, rows: &[Row], made: u32) {
        for row in rows {
            if let Source::Leaf(leaf) = row.source {
                if leaf != made {
                    // SAFETY: the caller's promise.
                    unsafe { self.free_bits(policy, leaf) };
                }
            }
        }
    }

    /// Sets the second word of a block.
    ///
    /// # Safety
    /// The caller may change the block.
    #[inline(always)]
    pub(super) unsafe fn set_extent(&mut self, p: *mut u8, extent: Extent) {
        // SAFETY: the caller's promise.
        unsafe { p.add(4).cast::<u32>().write(extent.word()) };
    }

    /// Makes a block of leaves in their order, or leaves the only one as it is; returns its cell.
    /// The leaves move into the block, except long ones.
    pub(crate) fn pack_leaves(&mut self, leaves: &[(u32, Border)]) -> Result<u32, ArenaFull> {
        let mut rows = Rows::new();
        for (leaf, border) in leaves {
            self.add_rows(&mut rows, *leaf, *border);
        }
        self.settle::<Owned>(&mut rows);
        let cell = self.make_part(&mut Owned, &rows, &mut New::none())?;
        // SAFETY: the bits of the leaves are in the block.
        unsafe { self.moved(&mut Owned, &rows, cell) };
        Ok(cell)
    }
}
