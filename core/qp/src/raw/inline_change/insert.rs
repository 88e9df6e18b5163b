//! Insertions: into a block with room, into one that grows, or after a split.

use core::ptr;

use sapwood_arena::{Area, ArenaFull};

use crate::raw::inline::Inline;
use crate::raw::leaf::Value;
use crate::raw::node;
use crate::raw::path::{Frames, Path, Plan, is_outside};
use crate::raw::slots::{middle, open};
use crate::raw::tree::{CLUSTER_KIND, Policy, Tree, inline_cell};
use sapwood_format::cluster::{capacity_for, tag};
use sapwood_format::inline::{self, Extent};

use super::rows::{New, Row, Source, write_outside, write_tail};

impl<V: ?Sized + Value> Tree<V> {
    /// Links a new entry for a key that is absent, whose path this is. On failure it returns the
    /// value.
    pub(crate) fn link_inline<'v, P: Policy>(
        &mut self,
        policy: &mut P,
        key: &[u8],
        path: &mut Path,
        value: V::New<'v>,
    ) -> Result<(), (V::New<'v>, ArenaFull)> {
        let behind = V::slot_behind(&value);
        let spare = V::spare(&value);
        let mut new = New {
            key,
            value: Some(value),
            behind,
        };
        // The leaf of the new entry, if it has one.
        let mut leaf = 0;
        let linked = loop {
            let Some(plan) = self.view().plan(path, key, behind) else {
                unreachable!("cells of a trie in trusted memory lead to leaves")
            };
            if let Plan::Split = plan {
                if let Err(full) = self.split_block(policy, path) {
                    break Err(full);
                }
                let Some(anew) = self.view().path(key) else {
                    unreachable!("the trie is not empty")
                };
                *path = anew;
                continue;
            }
            if leaf == 0 && self.needs_leaf(&plan, path, key, behind) {
                leaf = self.leaf_of(&mut new)?;
            }
            // SAFETY: the plan is that of the trie as it is now; the leaf is new.
            break unsafe { self.carry_out(policy, plan, path, &mut new, leaf) };
        };
        if leaf != 0 && linked.is_ok() {
            policy.made(leaf);
        }
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
            Plan::Two { border } => is_outside(key.len(), self.prefix_for(border.at), behind),
            Plan::Into { border, anew, .. } => {
                // SAFETY: the path ends at a live block.
                let c = unsafe { self.cluster(path.end) };
                // SAFETY: as above.
                let prefix = unsafe { Inline::of(c) }.extent.prefix;
                let prefix = match anew {
                    true => prefix.min(self.prefix_for(border.at)),
                    false => prefix,
                };
                is_outside(key.len(), prefix, behind)
            }
            Plan::Split => false,
        }
    }

    /// Carries out the plan of an insertion.
    ///
    /// # Safety
    /// The plan is that of the path in the trie as it is now. `leaf` is the new entry's leaf, or 0.
    unsafe fn carry_out<P: Policy>(
        &mut self,
        policy: &mut P,
        plan: Plan,
        path: &Path,
        new: &mut New<'_, '_, V>,
        leaf: u32,
    ) -> Result<(), ArenaFull> {
        let behind = new.behind;
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
                Plan::Label { depth, border } => self.add_child(policy, path, depth, border, leaf),
                Plan::Pair { depth, border } => self.add_branch(policy, path, depth, border, leaf),
                Plan::Two { border } => {
                    let mut rows = self.rows_of(path.end);
                    let mine = row(border);
                    rows[0].border = border;
                    rows.insert(usize::from(!path.before()), mine);
                    self.settle::<P>(&mut rows);
                    let link = self.own_path(policy, &path.frames)?;
                    let cell = self.make_part(policy, &rows, new)?;
                    self.set_link(link, cell);
                    self.moved(policy, &rows, cell);
                    Ok(())
                }
                Plan::Into {
                    at,
                    border,
                    behind: edge,
                    anew,
                } => {
                    let mine = row(border);
                    if !anew {
                        let edge = at + usize::from(edge);
                        if let Some(cell) = self.with_room(policy, path, &mine)? {
                            self.put_here::<P>(cell, (at, edge), &mine, new);
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
                    self.replace_block(policy, (&path.frames, path.end), &mut rows, new)
                }
            }
        }
    }

    /// The block at the end of a path, with room for an entry: it, a copy of it, or a larger one.
    /// `None` if it must be written anew, or for lack of memory for a larger one.
    ///
    /// # Safety
    /// As for `carry_out`.
    #[inline(always)]
    unsafe fn with_room<P: Policy>(
        &mut self,
        policy: &mut P,
        path: &Path,
        row: &Row,
    ) -> Result<Option<u32>, ArenaFull> {
        // SAFETY: the caller's promise.
        unsafe {
            let cell = path.end;
            let mutable = P::mutable(self.header(cell));
            if self.has_room(cell, row) {
                return match mutable {
                    true => Ok(Some(cell)),
                    false => self.own_end(policy, path).map(Some),
                };
            }
            if mutable && self.reuse_dead::<P>(cell, row) && self.has_room(cell, row) {
                return Ok(Some(cell));
            }
            match row.border.at >= self.cluster(cell).base() {
                true => self.grow_block(policy, path, row),
                false => Ok(None),
            }
        }
    }

    /// Replaces the block at the end of a path by another one.
    ///
    /// # Safety
    /// The frames are those of the path to `end` in the trie as it is now; rows that name entries
    /// name the block's.
    pub(super) unsafe fn replace_block<P: Policy>(
        &mut self,
        policy: &mut P,
        (frames, end): (&Frames, u32),
        rows: &mut [Row],
        new: &mut New<'_, '_, V>,
    ) -> Result<(), ArenaFull> {
        self.settle::<P>(rows);
        // SAFETY: the caller's promise.
        unsafe {
            let link = self.own_path(policy, frames)?;
            let cell = self.make_part(policy, rows, new)?;
            self.set_link(link, cell);
            self.moved(policy, rows, cell);
            self.free_bits(policy, end);
        }
        Ok(())
    }

    /// Whether a block has room for an entry.
    ///
    /// # Safety
    /// The block is live.
    #[inline(always)]
    unsafe fn has_room(&self, cell: u32, row: &Row) -> bool {
        // SAFETY: the caller's promise.
        let (block, n) = unsafe {
            let c = self.cluster(cell);
            (Inline::of(c), c.leaves())
        };
        let Extent {
            end,
            prefix,
            block: size,
            ..
        } = block.extent;
        let most = size.min(inline::END_MAX);
        n < block.capacity && end + row.bytes::<V>(prefix) <= most && !row.is_too_long(prefix)
    }

    /// Puts an entry into a block that has room for it, at a place among the entries and at one
    /// among the borders.
    ///
    /// # Safety
    /// As for `carry_out`. The block may be changed.
    #[inline(always)]
    unsafe fn put_here<P: Policy>(
        &mut self,
        cell: u32,
        (at, edge): (usize, usize),
        row: &Row,
        new: &mut New<'_, '_, V>,
    ) {
        // SAFETY: the caller's promise: the block is live, and nobody else uses it.
        unsafe {
            let c = self.cluster(cell);
            let block = Inline::of(c);
            let (n, Extent { end, prefix, .. }) = (c.leaves(), block.extent);
            let bytes = row.bytes::<V>(prefix);
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
            let h = inline::header(c.base(), n + 1, block.capacity);
            node::set_header(block.p, h | P::BITS);
        }
    }

    /// Writes a block anew in its place if a part of it is dead; returns whether the entry may be
    /// put there afterwards: its border is not before the block's base.
    ///
    /// # Safety
    /// The block is live and may be changed.
    unsafe fn reuse_dead<P: Policy>(&mut self, cell: u32, row: &Row) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            if Inline::of(self.cluster(cell)).extent.dead == 0 {
                return false;
            }
            let mut rows = self.rows_of(cell);
            self.write_again::<P>(cell, &mut rows, true);
            row.border.at >= self.cluster(cell).base()
        }
    }

    /// Replaces the block at the end of a path by a larger one, in which there is room for this
    /// entry and some more; returns its cell. Its heap is copied whole. `None` if it must be
    /// written anew, because too much of it is dead, or for lack of memory.
    ///
    /// # Safety
    /// As for `carry_out`.
    unsafe fn grow_block<P: Policy>(
        &mut self,
        policy: &mut P,
        path: &Path,
        row: &Row,
    ) -> Result<Option<u32>, ArenaFull> {
        // SAFETY: the caller's promise: the block is live, and nobody else changes it.
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
            let bytes = row.bytes::<V>(prefix);
            let room = (capacity - n) * (heap / n).max(bytes);
            let most = to + heap + room.min(self.room_max().saturating_add(bytes));
            if most > inline::END_MAX || 4 * old.extent.dead > heap || row.is_too_long(prefix) {
                return Ok(None);
            }
            let block = inline::block(most);
            let Ok(r) = self.arena.alloc(block, CLUSTER_KIND, Area::Nodes) else {
                return Ok(None);
            };
            let link = self.own_path(policy, &path.frames);
            let link = link.inspect_err(|_| self.arena.free(r, block, CLUSTER_KIND))?;
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
            node::set_header(p, inline::header(c.base(), n, capacity) | P::BITS);
            policy.made(cell);
            self.set_link(link, cell);
            self.free_bits(policy, path.end);
            Ok(Some(cell))
        }
    }

    /// Parts the block at the end of a path in two.
    pub(super) fn split_block<P: Policy>(
        &mut self,
        policy: &mut P,
        path: &Path,
    ) -> Result<(), ArenaFull> {
        let mut rows = self.rows_of(path.end);
        let cut = middle(rows.len(), |i| rows[i].border.at);
        let border = rows[cut].border;
        let (one, two) = rows.split_at_mut(cut);
        self.settle::<P>(one);
        self.settle::<P>(two);
        let mut none = New::none();
        let left = self.make_part(policy, one, &mut none)?;
        let made = self.make_part(policy, two, &mut none).and_then(|right| {
            // SAFETY: the path is that of the trie as it is now; both parts are new.
            let linked = unsafe { self.link_parts(policy, path, (left, border, right)) };
            linked
                .map(|()| right)
                .inspect_err(|_| self.unmake_part(policy, two, right))
        });
        let right = match made {
            Ok(right) => right,
            Err(full) => {
                self.unmake_part(policy, one, left);
                return Err(full);
            }
        };
        // SAFETY: the block was unlinked just now, and its entries are in the parts.
        unsafe {
            self.moved(policy, one, left);
            self.moved(policy, two, right);
            self.free_bits(policy, path.end);
        }
        Ok(())
    }
}
