//! Changes of a trie: leaves are linked and unlinked, and values replaced, by one algorithm for
//! both policies.

use sapwood_arena::{Area, ArenaFull};
use smallvec::SmallVec;

use super::inline::EntryRef;
use super::leaf::{LeafOf, Value};
use super::node::{CLUSTER, INLINE, KIND, LEAF, is_leaf};
use super::parts::Parts;
use super::path::{Frames, JOIN_AT, Path, Plan, joined};
use super::slots::{self, Border, Entry, Slots};
use super::tree::{
    BRANCH_KIND, CLUSTER_KIND, Link, Owned, Policy, Tree, branch_cell, cluster_cell, ref_of,
};
use super::view::Subtree;
use sapwood_format::branch;
use sapwood_format::cluster::{self, FILL_MAX, capacity_for, tag};

/// A node that was made of two siblings, and whether it was linked in their place.
pub(super) struct Joined {
    pub(super) old: [u32; 2],
    pub(super) cell: u32,
    pub(super) linked: bool,
}

/// Cells that one change unlinked: the top of a subtree, or some leaves.
pub(crate) type Tops = SmallVec<[u32; 32]>;

impl<V: ?Sized + Value> Tree<V> {
    /// The key of a live leaf. The arena must not change while it is used.
    fn key_of<'k>(&self, leaf: u32) -> &'k [u8] {
        // SAFETY: callers have the leaf from this trie, and use the key before anything is freed.
        unsafe { LeafOf::<V>::key(self.pointer(leaf)) }
    }

    /// The entry of a leaf in a cluster: its cell and tag.
    fn entry_of(&self, leaf: u32) -> Entry {
        Entry {
            cell: leaf,
            tag: tag(self.key_of(leaf)),
        }
    }

    /// The leaves of a leaf or cluster.
    fn slots_of(&self, end: u32) -> Slots {
        match end & LEAF {
            // SAFETY: callers have the cluster from this trie.
            0 => unsafe { Slots::read(self.cluster(end)) },
            _ => Slots::new(self.entry_of(end)),
        }
    }

    /// Allocates a cluster for `leaves` leaves with `capacity` slots. Without memory for them, the
    /// cluster has only the slots that the leaves need. Returns the cell and the number of slots.
    fn alloc_cluster(&mut self, leaves: usize, capacity: usize) -> Result<(u32, usize), ArenaFull> {
        let mut alloc = |capacity| {
            let bytes = cluster::block(capacity);
            let r = self.arena.alloc(bytes, CLUSTER_KIND, Area::Nodes)?;
            Ok((cluster_cell(r), capacity))
        };
        let least = capacity_for(leaves);
        match alloc(capacity) {
            Err(_) if least < capacity => alloc(least),
            made => made,
        }
    }

    /// Makes a cluster of leaves `from..to`, which is not linked yet. A single leaf needs no
    /// cluster.
    pub(super) fn make_cluster<P: Policy>(
        &mut self,
        policy: &mut P,
        slots: &Slots,
        (from, to): (usize, usize),
        capacity: usize,
    ) -> Result<u32, ArenaFull> {
        if to - from == 1 {
            return Ok(slots.entry(from).cell);
        }
        let (cell, capacity) = self.alloc_cluster(to - from, capacity)?;
        let h = slots.header(from, to, capacity);
        // SAFETY: a new block of that size.
        unsafe { slots.write(from, to, h, self.pointer(cell), P::BITS) };
        policy.made(cell);
        Ok(cell)
    }

    /// Makes a branch, which is not linked yet.
    ///
    /// An owned trie with inline clusters has few leaves. It puts its branches into their area, so
    /// that they lie close together: among the clusters, each would be alone in its cache lines.
    fn make_branch<P: Policy>(&mut self, policy: &mut P, parts: &Parts) -> Result<u32, ArenaFull> {
        if P::IN_PLACE && self.inline {
            let apart = self.make_branch_in(Area::Leaves, policy, parts);
            if apart.is_ok() {
                return apart;
            }
        }
        self.make_branch_in(Area::Nodes, policy, parts)
    }

    /// Makes a branch, which is not linked yet, in this area.
    pub(super) fn make_branch_in<P: Policy>(
        &mut self,
        area: Area,
        policy: &mut P,
        parts: &Parts,
    ) -> Result<u32, ArenaFull> {
        let bytes = branch::block_of(parts.header());
        let cell = branch_cell(self.arena.alloc(bytes, BRANCH_KIND, area)?);
        // SAFETY: a new block of that size.
        unsafe { parts.write(self.pointer(cell), P::BITS) };
        policy.made(cell);
        Ok(cell)
    }

    /// Frees a branch or cluster that was made and not linked; a leaf stays.
    fn unmake<P: Policy>(&mut self, policy: &mut P, cell: u32) {
        if !is_leaf(cell) {
            // SAFETY: the node is live and linked nowhere.
            unsafe {
                let h = self.header(cell);
                policy.gone(&mut self.arena, cell, h);
            }
        }
    }

    /// Replaces a branch by another one with this content.
    ///
    /// # Safety
    /// `cell` is the live branch that `link`, which may be changed, names.
    pub(super) unsafe fn put_branch<P: Policy>(
        &mut self,
        policy: &mut P,
        link: Link,
        cell: u32,
        parts: &Parts,
    ) -> Result<(), ArenaFull> {
        // SAFETY: the caller's promise.
        unsafe {
            let h = self.header(cell);
            let (old, new) = (branch::block_of(h), branch::block_of(parts.header()));
            if P::mutable(h) && new <= old {
                // This needs no memory, so an owned removal cannot fail.
                parts.write(self.pointer(cell), P::BITS);
                if new < old {
                    let blocks = ((old, BRANCH_KIND), (new, BRANCH_KIND));
                    self.arena.shrink(ref_of(cell), blocks.0, blocks.1);
                }
                return Ok(());
            }
            let new = self.make_branch(policy, parts)?;
            self.set_link(link, new);
            policy.gone(&mut self.arena, cell, h);
        }
        Ok(())
    }

    /// Replaces the child that a path goes to below its branch number `depth` by two children.
    ///
    /// # Safety
    /// The path is that of the trie as it is now. Each child is linked nowhere else, or is the one
    /// that is replaced.
    pub(super) unsafe fn part_child<P: Policy>(
        &mut self,
        policy: &mut P,
        frames: &Frames,
        depth: usize,
        (left, label, right): (u32, u8, u32),
    ) -> Result<(), ArenaFull> {
        let frame = frames[depth];
        // SAFETY: the caller's promise.
        unsafe {
            let link = self.own_path(policy, &frames[..depth])?;
            let mut parts = Parts::read(self.branch(frame.cell));
            parts.split(frame.index(), left, label, right);
            self.put_branch(policy, link, frame.cell, &parts)
        }
    }

    /// Replaces the node below the first `depth` branches of a path by a branch of two children.
    ///
    /// # Safety
    /// As for `part_child`.
    pub(super) unsafe fn part_above<P: Policy>(
        &mut self,
        policy: &mut P,
        frames: &Frames,
        depth: usize,
        (at, left, label, right): (usize, u32, u8, u32),
    ) -> Result<(), ArenaFull> {
        // SAFETY: the caller's promise.
        unsafe {
            let link = self.own_path(policy, &frames[..depth])?;
            let pair = self.make_branch(policy, &Parts::pair(at, left, label, right))?;
            self.set_link(link, pair);
        }
        Ok(())
    }

    /// Links a new leaf as the plan `Label` says.
    ///
    /// # Safety
    /// `leaf` is an unlinked leaf; the plan is that of the path in the trie as it is now.
    pub(super) unsafe fn add_child<P: Policy>(
        &mut self,
        policy: &mut P,
        path: &Path,
        depth: usize,
        border: Border,
        leaf: u32,
    ) -> Result<(), ArenaFull> {
        let (left, right) = path.beside(leaf, path.cell(depth + 1));
        // SAFETY: the caller's promise.
        unsafe { self.part_child(policy, &path.frames, depth, (left, border.byte, right)) }
    }

    /// Links a new leaf as the plan `Pair` says.
    ///
    /// # Safety
    /// As for `add_child`.
    pub(super) unsafe fn add_branch<P: Policy>(
        &mut self,
        policy: &mut P,
        path: &Path,
        depth: usize,
        border: Border,
        leaf: u32,
    ) -> Result<(), ArenaFull> {
        let (left, right) = path.beside(leaf, path.cell(depth));
        let pair = (border.at, left, border.byte, right);
        // SAFETY: the caller's promise.
        unsafe { self.part_above(policy, &path.frames, depth, pair) }
    }

    /// Replaces the cluster at the end of a path by the two parts into which it is split.
    ///
    /// # Safety
    /// The path is that of the trie as it is now; both parts are new.
    pub(super) unsafe fn link_parts<P: Policy>(
        &mut self,
        policy: &mut P,
        path: &Path,
        (left, border, right): (u32, Border, u32),
    ) -> Result<(), ArenaFull> {
        let depth = path.frames.len();
        // SAFETY: the caller's promise.
        unsafe {
            if path.parent() == Some(border.at) {
                let children = (left, border.byte, right);
                self.part_child(policy, &path.frames, depth - 1, children)
            } else {
                let pair = (border.at, left, border.byte, right);
                self.part_above(policy, &path.frames, depth, pair)
            }
        }
    }

    /// Links a new leaf for a key that is absent.
    ///
    /// # Safety
    /// `leaf` is an unlinked leaf of `key`; the path is the key's in the trie as it is now.
    pub(crate) unsafe fn link_new<P: Policy>(
        &mut self,
        policy: &mut P,
        key: &[u8],
        path: &mut Path,
        leaf: u32,
    ) -> Result<(), ArenaFull> {
        loop {
            let Some(plan) = self.view().plan(path, key, 0) else {
                unreachable!("cells of a trie in trusted memory lead to leaves")
            };
            // SAFETY: the caller's promise; nothing has changed since the path was walked.
            return unsafe {
                match plan {
                    Plan::Split => {
                        self.split(policy, path)?;
                        let Some(anew) = self.view().path(key) else {
                            unreachable!("the trie is not empty")
                        };
                        *path = anew;
                        continue;
                    }
                    Plan::Label { depth, border } => {
                        self.add_child(policy, path, depth, border, leaf)
                    }
                    Plan::Pair { depth, border } => {
                        self.add_branch(policy, path, depth, border, leaf)
                    }
                    Plan::Two { border } => {
                        let (left, right) = path.beside(leaf, path.end);
                        let mut slots = self.slots_of(left);
                        slots.push(border, self.entry_of(right));
                        let link = self.own_path(policy, &path.frames)?;
                        let cell = self.make_cluster(policy, &slots, (0, 2), capacity_for(2))?;
                        self.set_link(link, cell);
                        Ok(())
                    }
                    Plan::Into {
                        at,
                        border,
                        behind,
                        anew,
                    } => {
                        let entry = Entry {
                            cell: leaf,
                            tag: tag(key),
                        };
                        self.put_into(policy, path, at, entry, (border, behind), anew)
                    }
                }
            };
        }
    }

    /// Puts a leaf into the cluster at the end of a path.
    ///
    /// # Safety
    /// As for `link_new`; the other arguments are those of the plan.
    unsafe fn put_into<P: Policy>(
        &mut self,
        policy: &mut P,
        path: &Path,
        at: usize,
        entry: Entry,
        (border, behind): (Border, bool),
        anew: bool,
    ) -> Result<(), ArenaFull> {
        // SAFETY: the caller's promise. The arena may move with an allocation, so pointers are made
        // anew.
        unsafe {
            let link = self.own_path(policy, &path.frames)?;
            let c = self.cluster(path.end);
            let n = c.leaves();
            if P::mutable(c.h) && n < c.capacity() && !anew {
                let place = (c.p, c.capacity());
                slots::insert_leaf(c, place, at, entry, (border, behind), P::BITS);
                return Ok(());
            }
            let capacity = capacity_with_room::<P>(n + 1);
            let new = if anew {
                let mut slots = Slots::read(c);
                slots.insert(at, entry, border, behind);
                self.make_cluster(policy, &slots, (0, n + 1), capacity)?
            } else {
                let (new, capacity) = self.alloc_cluster(n + 1, capacity)?;
                let place = (self.pointer(new), capacity);
                let c = self.cluster(path.end);
                slots::insert_leaf(c, place, at, entry, (border, behind), P::BITS);
                policy.made(new);
                new
            };
            self.set_link(link, new);
            let h = self.header(path.end);
            policy.gone(&mut self.arena, path.end, h);
        }
        Ok(())
    }

    /// Splits the cluster at the end of a path in two.
    ///
    /// # Safety
    /// As for `link_new`.
    unsafe fn split<P: Policy>(&mut self, policy: &mut P, path: &Path) -> Result<(), ArenaFull> {
        let slots = self.slots_of(path.end);
        let middle = slots.middle();
        let border = slots.border(middle);
        // One of the two gets another leaf next.
        let room = |leaves: usize| capacity_with_room::<P>(leaves + usize::from(P::IN_PLACE));
        let left = self.make_cluster(policy, &slots, (0, middle), room(middle))?;
        let rest = slots.len() - middle;
        let made = self
            .make_cluster(policy, &slots, (middle, slots.len()), room(rest))
            .and_then(|right| {
                // SAFETY: the caller's promise; both are new.
                let linked = unsafe { self.link_parts(policy, path, (left, border, right)) };
                linked.inspect_err(|_| self.unmake(policy, right))
            });
        if let Err(full) = made {
            self.unmake(policy, left);
            return Err(full);
        }
        // SAFETY: the cluster was unlinked just now.
        unsafe {
            let h = self.header(path.end);
            policy.gone(&mut self.arena, path.end, h);
        }
        Ok(())
    }

    /// Unlinks the leaf at the end of a key's path.
    ///
    /// # Safety
    /// The path is the key's in the trie as it is now, and the key is there.
    pub(crate) unsafe fn unlink_at<P: Policy>(
        &mut self,
        policy: &mut P,
        key: &[u8],
        path: &Path,
    ) -> Result<(), ArenaFull> {
        if is_leaf(path.end) {
            // SAFETY: the path is that of the trie as it is now.
            unsafe { self.remove_child(policy, &path.frames)? };
            return Ok(());
        }
        let i = path.near.index;
        // SAFETY: as above.
        unsafe {
            let left = self.len_of(path.end) - 1;
            self.take_out(policy, &path.frames, path.end, (i, i + 1))?;
            if left <= JOIN_AT {
                self.join(policy, key);
            }
        }
        Ok(())
    }

    /// The number of leaves in a leaf or cluster; 0 for a branch.
    fn len_of(&self, cell: u32) -> usize {
        match cell & KIND {
            0 => 0,
            LEAF => 1,
            // SAFETY: callers have the cell from this trie.
            _ => unsafe { self.cluster(cell) }.leaves(),
        }
    }

    /// Removes leaves `from..to`, but not all leaves, from the cluster at the end of a path.
    ///
    /// # Safety
    /// The frames are those of the path to the cluster `end` in the trie as it is now.
    unsafe fn take_out<P: Policy>(
        &mut self,
        policy: &mut P,
        frames: &Frames,
        end: u32,
        (from, to): (usize, usize),
    ) -> Result<(), ArenaFull> {
        // SAFETY: the caller's promise.
        unsafe {
            let link = self.own_path(policy, frames)?;
            let c = self.cluster(end);
            let (h, n, capacity) = (c.h, c.leaves(), c.capacity());
            let left = n - (to - from);
            // The cluster keeps slots for a few more leaves.
            let much = capacity >= capacity_for(left + 3) + 8;
            if P::mutable(h) && left > 1 && to - from == 1 && !much {
                slots::remove_leaf(c, (c.p, capacity), from, P::BITS);
                return Ok(());
            }
            let mut slots = Slots::read(c);
            slots.remove(from, to);
            if P::mutable(h) && left > 1 {
                // This needs no memory, so an owned removal cannot fail.
                let fewer = slots.header(0, left, capacity_with_room::<P>(left).min(capacity));
                slots.write(0, left, fewer, c.p, P::BITS);
                let (old, new) = (cluster::block_of(h), cluster::block_of(fewer));
                if new < old {
                    let blocks = ((old, CLUSTER_KIND), (new, CLUSTER_KIND));
                    self.arena.shrink(ref_of(end), blocks.0, blocks.1);
                }
                return Ok(());
            }
            let new = self.make_cluster(policy, &slots, (0, left), capacity_for(left))?;
            self.set_link(link, new);
            policy.gone(&mut self.arena, end, h);
        }
        Ok(())
    }

    /// Unlinks the node at the end of a path.
    ///
    /// # Safety
    /// The frames are those of a path in the trie as it is now.
    pub(super) unsafe fn remove_child<P: Policy>(
        &mut self,
        policy: &mut P,
        frames: &Frames,
    ) -> Result<(), ArenaFull> {
        let Some((last, above)) = frames.split_last() else {
            self.root = 0;
            return Ok(());
        };
        // SAFETY: the caller's promise.
        unsafe {
            let link = self.own_path(policy, above)?;
            let mut parts = Parts::read(self.branch(last.cell));
            parts.remove(last.index());
            if parts.children() > 1 {
                return self.put_branch(policy, link, last.cell, &parts);
            }
            self.set_link(link, parts.cell(0));
            let h = self.header(last.cell);
            policy.gone(&mut self.arena, last.cell, h);
        }
        Ok(())
    }

    /// Joins the leaf or cluster that a key leads to with a sibling, if both have few leaves
    /// together. Without memory it stays as it is.
    fn join<P: Policy>(&mut self, policy: &mut P, key: &[u8]) {
        let made = self.join_siblings(policy, key, |tree, policy, one, border, two| {
            let all = joined(&tree.slots_of(one), border, &tree.slots_of(two));
            let Some(all) = all else { return Ok(None) };
            let (n, capacity) = (all.len(), capacity_for(all.len()));
            let cell = tree.make_cluster(policy, &all, (0, n), capacity)?;
            Ok(Some(cell))
        });
        match made {
            Some(Joined { old, linked, .. }) if linked => {
                for old in old {
                    self.unmake(policy, old);
                }
            }
            Some(Joined { cell, .. }) => self.unmake(policy, cell),
            None => {}
        }
    }

    /// Makes one node of the leaf or cluster that a key leads to and a sibling, and links it in
    /// their place. `make` makes it, or finds that they do not fit. The siblings are not freed.
    pub(super) fn join_siblings<P: Policy>(
        &mut self,
        policy: &mut P,
        key: &[u8],
        mut make: impl FnMut(&mut Self, &mut P, u32, Border, u32) -> Result<Option<u32>, ArenaFull>,
    ) -> Option<Joined> {
        let (frames, _) = self.view().walk(key)?;
        let (last, above) = frames.split_last()?;
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
            let first = EntryRef::held(one, 0);
            let ends = self.len_of(one) == 1 && self.key_at(first).len() == parts.offset;
            let border = Border {
                at: parts.offset,
                byte: if ends { 0 } else { parts.label(left) },
            };
            let Some(cell) = make(self, policy, one, border, two).ok()? else {
                continue;
            };
            // SAFETY: as above; the node is new.
            let linked = unsafe {
                self.own_path(policy, above).and_then(|link| {
                    if parts.children() > 2 {
                        parts.join(left, cell);
                        return self.put_branch(policy, link, last.cell, &parts);
                    }
                    self.set_link(link, cell);
                    let h = self.header(last.cell);
                    policy.gone(&mut self.arena, last.cell, h);
                    Ok(())
                })
            };
            return Some(Joined {
                old: [one, two],
                cell,
                linked: linked.is_ok(),
            });
        }
        None
    }

    /// Unlinks all leaves whose keys start with `prefix`; returns the cells that it unlinked. If
    /// these are some entries of an inline cluster, it returns the cluster and their numbers
    /// instead.
    pub(crate) fn unlink_prefix<P: Policy>(
        &mut self,
        policy: &mut P,
        prefix: &[u8],
    ) -> Result<(Tops, Option<Subtree>), ArenaFull> {
        let mut tops = Tops::new();
        let Some(subtree) = self.view().subtree(prefix) else {
            return Ok((tops, None));
        };
        let Subtree { cell, from, to, .. } = subtree;
        let Some(frames) = self.view().frames_to(prefix, cell) else {
            unreachable!("a subtree lies on the path of its prefix")
        };
        let some = to - from < self.len_of(cell);
        // SAFETY: the frames are those of the trie as it is now.
        unsafe {
            match cell & KIND {
                INLINE if some => return Ok((tops, Some(subtree))),
                CLUSTER if some => {
                    let c = self.cluster(cell);
                    tops.extend((from..to).map(|i| c.cell(i)));
                    self.take_out(policy, &frames, cell, (from, to))?;
                }
                _ => {
                    tops.push(cell);
                    self.remove_child(policy, &frames)?;
                }
            }
        }
        Ok((tops, None))
    }

    /// Replaces the leaf at the end of a key's path by `new`.
    ///
    /// # Safety
    /// The path is the key's in the trie as it is now, and the key is there; `new` is an unlinked
    /// leaf of the same key.
    pub(crate) unsafe fn replace<P: Policy>(
        &mut self,
        policy: &mut P,
        path: &Path,
        new: u32,
    ) -> Result<(), ArenaFull> {
        // SAFETY: the caller's promise.
        unsafe {
            let link = self.own_path(policy, &path.frames)?;
            if is_leaf(path.end) {
                self.set_link(link, new);
            } else {
                let end = self.own(policy, link, path.end)?;
                self.cluster(end).set_cell(path.near.index, new);
            }
        }
        Ok(())
    }

    // Owned changes.

    /// Inserts or replaces in place; returns the value that was replaced.
    pub(crate) fn insert<'a>(
        &mut self,
        key: &[u8],
        value: V::New<'a>,
    ) -> Result<Option<V::Taken>, (V::New<'a>, ArenaFull)> {
        let there = match &self.points {
            Some(_) => self.find(key),
            None => None,
        };
        let mut path = Path::new();
        let entry = match there {
            Some(entry) => entry,
            None if self.view().path_to(key, &mut path).is_none() => {
                return self.insert_first(key, value).map(|()| None);
            }
            None if path.near.part.is_some() => {
                return self.insert_at(&mut path, key, value).map(|()| None);
            }
            None => path.near.entry,
        };
        if entry.is_held() {
            return self.overwrite_inline(key, path, value).map(Some);
        }
        let leaf = entry.cell();
        // SAFETY: `&mut self`: nobody else reads the value.
        match unsafe { V::overwrite(self.pointer(leaf), value) } {
            Ok(old) => Ok(Some(old)),
            Err(value) => self.insert_over(leaf, key, value).map(Some),
        }
    }

    /// Inserts a key that is absent; returns its entry.
    pub(crate) fn insert_absent<'a>(
        &mut self,
        key: &[u8],
        value: V::New<'a>,
    ) -> Result<EntryRef, (V::New<'a>, ArenaFull)> {
        match self.view().path(key) {
            Some(mut path) => self.insert_at(&mut path, key, value)?,
            None => self.insert_first(key, value)?,
        }
        match self.find(key) {
            Some(entry) => Ok(entry),
            None => unreachable!("the key was inserted"),
        }
    }

    /// Replaces the leaf of a key by a new one; returns the old value.
    #[inline(never)]
    fn insert_over<'a>(
        &mut self,
        old: u32,
        key: &[u8],
        value: V::New<'a>,
    ) -> Result<V::Taken, (V::New<'a>, ArenaFull)> {
        let new = self.make_leaf(key, value)?;
        let Some(path) = self.view().path_of_present(key) else {
            unreachable!("the key was found")
        };
        // SAFETY: the path is the key's, which is there; a change in place needs no memory. Once
        // the old leaf is unlinked and the index does not name it, nobody else uses it.
        Ok(unsafe {
            let replaced = self.replace(&mut Owned, &path, new);
            debug_assert!(replaced.is_ok());
            self.point_replaced(key, old, new);
            self.take_value(old)
        })
    }

    /// Inserts the first key.
    fn insert_first<'a>(
        &mut self,
        key: &[u8],
        value: V::New<'a>,
    ) -> Result<(), (V::New<'a>, ArenaFull)> {
        let leaf = self.make_leaf(key, value)?;
        self.root = leaf;
        self.len += 1;
        self.point_added(key, leaf);
        Ok(())
    }

    /// Inserts a key that is absent, whose path this is.
    fn insert_at<'a>(
        &mut self,
        path: &mut Path,
        key: &[u8],
        value: V::New<'a>,
    ) -> Result<(), (V::New<'a>, ArenaFull)> {
        if self.inline {
            self.link_inline(&mut Owned, key, path, value)?;
            self.len += 1;
            return Ok(());
        }
        let spare = V::spare(&value);
        let leaf = self.make_leaf(key, value)?;
        // SAFETY: `leaf` is new, and the path is the key's.
        if let Err(full) = unsafe { self.link_new(&mut Owned, key, path, leaf) } {
            // SAFETY: the leaf was never linked.
            let value = unsafe { self.take_leaf(leaf) };
            return Err((V::again(spare, value), full));
        }
        self.len += 1;
        self.point_added(key, leaf);
        Ok(())
    }

    /// Removes a key in place. A removal needs no memory.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<V::Taken> {
        if self.points.is_some() {
            // The index tells at once if the key is absent.
            self.find(key)?;
        }
        let path = self.view().path_of_present(key)?;
        // SAFETY: the path is the key's, as it is now; values are moved out once.
        let value = unsafe {
            self.detach(
                key,
                &path,
                |p| V::take_value(p),
                |slot| V::slot_take_value(slot),
            )
        };
        if self.len == 0 {
            self.emptied();
        }
        Some(value)
    }

    /// Takes the entry at the end of a path out of the trie. `take_leaf` or `take_slot` moves its
    /// value out. It needs no memory.
    ///
    /// # Safety
    /// The path is that of the key, which is there, in the trie as it is now.
    pub(super) unsafe fn detach<R>(
        &mut self,
        key: &[u8],
        path: &Path,
        take_leaf: impl FnOnce(*mut u8) -> R,
        take_slot: impl FnOnce(*mut u8) -> R,
    ) -> R {
        self.len -= 1;
        // SAFETY: the caller's promise. The owned policy allocates nothing to unlink a leaf, so
        // that cannot fail. Afterwards nobody else uses the leaf.
        unsafe {
            if path.near.entry.is_held() {
                return self.take_inline(key, path, take_leaf, take_slot);
            }
            let leaf = path.near.entry.cell();
            let unlinked = self.unlink_at(&mut Owned, key, path);
            debug_assert!(unlinked.is_ok());
            self.point_removed(leaf);
            self.free_leaf(leaf, take_leaf)
        }
    }
}

/// The number of slots of a new cluster of this many leaves. A cluster that changes in place has
/// some slots more, so that fewer insertions need another block.
fn capacity_with_room<P: Policy>(leaves: usize) -> usize {
    match P::IN_PLACE && leaves > 8 {
        true => leaves.next_multiple_of(8).min(FILL_MAX.next_multiple_of(4)),
        false => capacity_for(leaves),
    }
}

#[cfg(test)]
mod tests {
    use crate::QpMap;

    /// The keys of each set differ at offsets that are farther apart than the borders of one
    /// cluster can hold. They are inserted in many orders.
    #[test]
    fn borders_out_of_reach_are_parted() {
        let mut rng = fastrand::Rng::with_seed(9);
        for _ in 0..if cfg!(miri) { 1 } else { 100 } {
            let mut map = QpMap::new();
            let mut all = std::collections::BTreeMap::new();
            for i in 0..if cfg!(miri) { 16 } else { 120 } {
                let mut key = vec![b'a'; rng.usize(..20) * 70];
                key.extend((0..rng.usize(..3)).map(|_| rng.u8(..3) * 90));
                if rng.bool() {
                    key.extend(std::iter::repeat_n(b'z', rng.usize(..300)));
                }
                if rng.u8(..4) == 0 {
                    assert_eq!(map.remove(&key), all.remove(&key));
                } else {
                    assert_eq!(map.insert(&key, i).unwrap(), all.insert(key, i));
                }
                if !cfg!(miri) || i == 15 {
                    map.verify().unwrap();
                }
            }
            let want = all.iter().map(|(k, v)| (crate::Key::from(&k[..]), v));
            assert!(map.iter().eq(want));
            for key in all.into_keys() {
                assert!(map.remove(&key).is_some());
                if !cfg!(miri) {
                    map.verify().unwrap();
                }
            }
        }
    }
}
