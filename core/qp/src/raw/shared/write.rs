//! Changes of a shared trie. The parent module describes the protocol.

use sapwood_arena::ArenaFull;
use sapwood_qsbr::GarbageLimit;

use super::swap::{Blocks, Counts, New, Tried};
use super::trie::{Slot, Trie};
use crate::raw::leaf::{LeafOf, Value};
use crate::raw::node::{self, CLUSTER, LEAF};
use crate::raw::parts::Parts;
use crate::raw::path::{Frame, Path, Plan};
use crate::raw::slots::{self, Border, Entry, Slots};
use crate::raw::view::Near;
use crate::raw::writers::lock::LockContention;
use crate::raw::writers::ops::{Changes, Done, Lack, Mode};
use crate::raw::writers::shard::{Held, Inner};
use crate::sync;
use sapwood_format::branch;
use sapwood_format::cluster::{self, capacity_for, tag};

/// The most bytes that one attempt unlinks beside a leaf: the largest branch and two clusters.
const GARBAGE: usize = node::LARGEST + 2 * cluster::block(cluster::FILL_MAX);

/// The slot by which a path leaves a branch.
fn slot_of(frame: &Frame) -> Slot {
    Slot::Child {
        branch: frame.cell,
        index: frame.index(),
    }
}

/// The slot of the node below the first `depth` branches of a path.
pub(super) fn slot_at(path: &Path, depth: usize) -> Slot {
    match depth.checked_sub(1) {
        None => Slot::Root,
        Some(above) => slot_of(&path.frames[above]),
    }
}

/// The slot of the leaf or cluster at the end of a path.
pub(super) fn last_slot(path: &Path) -> Slot {
    slot_at(path, path.frames.len())
}

/// A value that is to be stored: as the caller gave it, or in a leaf that is not linked yet.
enum Kept<'a, V: ?Sized + Value> {
    Value(V::New<'a>),
    Leaf(u32, V::Spare<'a>),
}

// SAFETY: the leaves were found on paths from the root under the guard, or linked by the change
// itself.
unsafe impl<V: ?Sized + Value> Changes<V> for Trie<V> {
    #[inline(always)]
    unsafe fn write<'a>(
        &self,
        held: &mut Held<'_>,
        key: &[u8],
        value: V::New<'a>,
        mode: Mode,
        contention: &mut LockContention,
    ) -> Done<V::New<'a>> {
        // The value, or the leaf that holds it.
        let mut value = Kept::<V>::Value(value);
        let hash = self.hash(key);
        // SAFETY: the guard is held throughout; nobody else knows the leaf until it is linked.
        unsafe {
            loop {
                let path = match mode {
                    Mode::Replace | Mode::Only(_) => self.view().path_of_present(key),
                    Mode::Put | Mode::New => self.view().path(key),
                };
                let there = there(&path);
                if refuses(mode, there) {
                    if !self.index_agrees(hash, key, there) {
                        contention.locks += 1;
                        sync::wait();
                        continue;
                    }
                    let value = self.value_of(held, value);
                    return match there {
                        Some(leaf) => Done::Exists(leaf, value),
                        None => Done::Absent(value),
                    };
                }
                if let Err(limit) = self.reserve_attempt(held, key, there) {
                    return Done::Lacks(self.value_of(held, value), limit.into());
                }
                let (leaf, spare) = match value {
                    Kept::Leaf(leaf, spare) => (leaf, spare),
                    Kept::Value(given) => {
                        let spare = V::spare(&given);
                        match self.make_leaf::<V>(&mut held.inner, key, given) {
                            Ok(leaf) => (leaf, spare),
                            Err((value, full)) => return Done::Lacks(value, full.into()),
                        }
                    }
                };
                value = Kept::Leaf(leaf, spare);
                let new = New { leaf, hash };
                let tried = match path {
                    None => self.link_root(held, new, contention),
                    Some(path) => match there {
                        Some(old) => self.replace(held, &path, old, new, contention),
                        None => self.add(held, &path, key, new, contention),
                    },
                };
                match tried {
                    Tried::Done => return there.map_or(Done::Inserted(leaf), Done::Replaced),
                    Tried::Again => {}
                    Tried::Full => {
                        return Done::Full(self.unmake_leaf::<V>(&mut held.inner, leaf, spare));
                    }
                    Tried::NoMemory(full) => {
                        let value = self.unmake_leaf::<V>(&mut held.inner, leaf, spare);
                        return Done::Lacks(value, full.into());
                    }
                }
            }
        }
    }

    unsafe fn remove(
        &self,
        held: &mut Held<'_>,
        key: &[u8],
        only: Option<u32>,
        contention: &mut LockContention,
    ) -> Result<Option<u32>, Lack> {
        let hash = self.hash(key);
        // SAFETY: the guard is held throughout.
        unsafe {
            loop {
                let path = self.view().path_of_present(key);
                let leaf = there(&path);
                let wanted = only.is_none() || leaf == only;
                let (Some(path), Some(leaf), true) = (path, leaf, wanted) else {
                    if self.index_agrees(hash, key, leaf) {
                        return Ok(None);
                    }
                    contention.locks += 1;
                    sync::wait();
                    continue;
                };
                let room = self.reserve_removal(held, key, leaf, path.end)?;
                let old = New { leaf, hash };
                let tried = match path.end & CLUSTER {
                    0 => self.unlink_child(held, &path, old, contention)?,
                    _ => self.take_out(held, &path, old, room, contention)?,
                };
                if let Tried::Done = tried {
                    if self.has_shrunk(&path) {
                        self.join(held, key, contention);
                    }
                    return Ok(Some(leaf));
                }
            }
        }
    }

    #[inline]
    unsafe fn step(&self, inner: &mut Inner) {
        // SAFETY: the caller's promise: no branch is locked.
        unsafe { self.index_step(inner) };
    }
}

/// The leaf of the key of this path, if the key is there.
fn there(path: &Option<Path>) -> Option<u32> {
    let near = path.as_ref()?.near;
    near.part.is_none().then_some(near.entry.cell())
}

/// Whether a mode forbids the change of a key, whose leaf is `there` if it is there.
fn refuses(mode: Mode, there: Option<u32>) -> bool {
    match mode {
        Mode::Put => false,
        Mode::New => there.is_some(),
        Mode::Replace => there.is_none(),
        Mode::Only(leaf) => there != Some(leaf),
    }
}

impl<V: ?Sized + Value> Trie<V> {
    /// Reserves room for the garbage of one attempt to change a key, and for the leaf that the
    /// operation retires at its end.
    ///
    /// # Safety
    /// The leaf, if any, was found under the guard.
    #[inline]
    pub(super) unsafe fn reserve_attempt(
        &self,
        held: &mut Held<'_>,
        key: &[u8],
        old: Option<u32>,
    ) -> Result<(), GarbageLimit> {
        let old = old.map(|leaf| self.pointer(leaf).cast_const());
        // SAFETY: the leaf was found under the guard.
        let leaf = unsafe { LeafOf::<V>::block_of_key(key.len(), old) };
        held.inner.reserve(GARBAGE + leaf)
    }

    /// The value, taken out of its leaf if it is in one that was not linked.
    ///
    /// # Safety
    /// Nobody else knows the leaf, if there is one.
    unsafe fn value_of<'a>(&self, held: &mut Held<'_>, value: Kept<'a, V>) -> V::New<'a> {
        match value {
            Kept::Value(value) => value,
            // SAFETY: the caller's promise.
            Kept::Leaf(leaf, spare) => unsafe {
                self.unmake_leaf::<V>(&mut held.inner, leaf, spare)
            },
        }
    }

    /// The leaves of a leaf or cluster. Leaves of a cluster whose slot is not locked may be
    /// replaced meanwhile.
    ///
    /// # Safety
    /// The leaf or cluster was found under the guard.
    pub(super) unsafe fn slots_of(&self, end: u32) -> Slots {
        // SAFETY: the caller's promise.
        unsafe {
            match end & LEAF {
                0 => Slots::alive(self.cluster(end)),
                _ => Slots::new(Entry {
                    cell: end,
                    tag: tag(LeafOf::<V>::key(self.pointer(end))),
                }),
            }
        }
    }

    /// Links the first leaf.
    ///
    /// # Safety
    /// The guard is held; nobody else knows the leaf.
    unsafe fn link_root(
        &self,
        held: &mut Held<'_>,
        new: New,
        contention: &mut LockContention,
    ) -> Tried {
        let blocks = Blocks::default();
        // SAFETY: the caller's promise.
        unsafe {
            self.swap(
                held,
                (Slot::Root, 0),
                Counts::More(new),
                blocks,
                contention,
                || Some(new.leaf),
            )
        }
    }

    /// Replaces the leaf of a key with one store, into the slot or the cluster.
    ///
    /// # Safety
    /// The guard is held. The path is the key's, and led to the old leaf. Nobody else knows the new
    /// one.
    unsafe fn replace(
        &self,
        held: &mut Held<'_>,
        path: &Path,
        old: u32,
        new: New,
        contention: &mut LockContention,
    ) -> Tried {
        let slot = last_slot(path);
        // SAFETY: the caller's promise. The leaves of a cluster change under the lock of its slot.
        unsafe {
            if !self.lock_slot(slot, path.end, contention) {
                return Tried::Again;
            }
            let in_cluster = path.end & CLUSTER != 0;
            let index = path.near.index;
            if in_cluster && self.cluster(path.end).cell(index) != old {
                self.unlock_slot(slot);
                contention.locks += 1;
                return Tried::Again;
            }
            held.begin();
            if in_cluster {
                sync::point();
                self.cluster(path.end).set_cell(index, new.leaf);
            } else {
                self.store(slot, new.leaf);
            }
            self.index_replace(new.hash, old, new.leaf);
            held.end();
            self.unlock_slot(slot);
        }
        Tried::Done
    }

    /// Links the leaf of a key that is absent, or makes room for it.
    ///
    /// # Safety
    /// The guard is held; the path is the key's; nobody else knows the leaf.
    unsafe fn add(
        &self,
        held: &mut Held<'_>,
        path: &Path,
        key: &[u8],
        new: New,
        contention: &mut LockContention,
    ) -> Tried {
        // SAFETY: the caller's promise, for the whole body.
        unsafe {
            if path.near.slot != path.near.index {
                if let Some(tried) = self.revive(held, path, key, new, contention) {
                    return tried;
                }
            }
            let Some(plan) = self.view().plan(path, key, 0) else {
                unreachable!("cells of a trie in trusted memory lead to leaves")
            };
            let entry = Entry {
                cell: new.leaf,
                tag: tag(key),
            };
            let result = match plan {
                Plan::Into {
                    at,
                    border,
                    behind,
                    anew,
                } => self.put_into(
                    held,
                    path,
                    (at, entry),
                    (border, behind),
                    anew,
                    new,
                    contention,
                ),
                Plan::Two { border } => self.make_two(held, path, entry, border, new, contention),
                Plan::Split => self.split(held, path, contention),
                Plan::Label { depth, border } => {
                    self.put_beside(held, path, depth, border, new, contention)
                }
                Plan::Pair { depth, border } => {
                    self.put_above(held, path, depth, border, new, contention)
                }
            };
            result.unwrap_or_else(Tried::NoMemory)
        }
    }

    /// Puts a leaf into the dead slot to which the borders lead its key, if they hold for the key:
    /// one store. `None` if they may not.
    ///
    /// The keys of the slot agree up to the greater one of its two borders, with each other and
    /// with the leaf at that border. If that leaf lives, the path has compared it with the key. The
    /// tag is nearly always that of the key that was there.
    ///
    /// # Safety
    /// As for `add`.
    #[inline(never)]
    unsafe fn revive(
        &self,
        held: &mut Held<'_>,
        path: &Path,
        key: &[u8],
        new: New,
        contention: &mut LockContention,
    ) -> Option<Tried> {
        let slot = path.near.slot;
        // SAFETY: the caller's promise; a dead slot is not the last one.
        unsafe {
            let c = self.cluster(path.end);
            let before = if slot > 0 { c.border(slot) } else { 0 };
            let behind = c.border(slot + 1);
            let deepest = before.max(behind);
            // A border has the byte 0 if the key before it ends there, and only then.
            let ends = behind == deepest && c.byte(slot + 1) == 0;
            let fits = path.near.part == Some(deepest)
                && ends == (key.len() == deepest)
                && c.tag(slot) == tag(key);
            if !fits {
                return None;
            }
            let (at, cells) = ((last_slot(path), path.end), (slot, 0, new.leaf));
            self.set_in(held, at, cells, Counts::More(new), contention, |_| true)
        }
    }

    /// Puts a leaf into the cluster at the end of a path: a copy with the leaf replaces the
    /// cluster.
    ///
    /// The copy keeps dead slots, unless the place of the key is one: the borders beside a dead
    /// slot tell nothing about the key, because no leaf shows the bytes that they stand for.
    ///
    /// # Safety
    /// As for `add`.
    #[expect(clippy::too_many_arguments, reason = "the parts of a plan")]
    unsafe fn put_into(
        &self,
        held: &mut Held<'_>,
        path: &Path,
        (at, entry): (usize, Entry),
        (border, behind): (Border, bool),
        anew: bool,
        new: New,
        contention: &mut LockContention,
    ) -> Result<Tried, ArenaFull> {
        let mut blocks = Blocks::default();
        // SAFETY: the caller's promise.
        unsafe {
            let c = self.cluster(path.end);
            let Near {
                slot,
                index,
                entry: near,
                ..
            } = path.near;
            let anew = anew || slot != index;
            // The leaf that was compared with the key must still be the nearest one. If its slot is
            // dead now, and stays, the borders still tell of its key.
            let stands = || match slot == index {
                true => c.cell(slot) == near.cell() || (!anew && c.cell(slot) == 0),
                false => {
                    let (nearest, cell, _) = c.beside_dead(slot);
                    c.cell(slot) == 0 && (nearest, cell) == (index, near.cell())
                }
            };
            let leaves = 1 + if anew { c.alive() } else { c.leaves() };
            let cell = self.block_for_leaves(held, &mut blocks, leaves)?;
            let p = self.pointer(cell);
            let (place, counts) = ((last_slot(path), path.end), Counts::More(new));
            let tried = self.swap(held, place, counts, blocks, contention, || {
                if !stands() {
                    return None;
                }
                if anew {
                    let mut slots = Slots::alive(c);
                    if slots.len() + 1 != leaves {
                        return None;
                    }
                    slots.insert(c.alive_before(at), entry, border, behind);
                    self.write_leaves(&slots, (0, leaves), cell);
                } else {
                    let place = (p, capacity_for(leaves));
                    slots::insert_leaf(c, place, at, entry, (border, behind), 0);
                }
                Some(cell)
            });
            if let Tried::Done = tried {
                self.retire_node(&mut held.inner, path.end);
            }
            Ok(tried)
        }
    }

    /// Makes a cluster of the leaf at the end of a path and another leaf.
    ///
    /// # Safety
    /// As for `add`.
    unsafe fn make_two(
        &self,
        held: &mut Held<'_>,
        path: &Path,
        entry: Entry,
        border: Border,
        new: New,
        contention: &mut LockContention,
    ) -> Result<Tried, ArenaFull> {
        let mut blocks = Blocks::default();
        let cell = self.block_for_leaves(held, &mut blocks, 2)?;
        // SAFETY: the caller's promise.
        unsafe {
            let mut slots = self.slots_of(path.end);
            slots.insert(usize::from(!path.before()), entry, border, path.before());
            self.write_leaves(&slots, (0, 2), cell);
            let (slot, counts) = ((last_slot(path), path.end), Counts::More(new));
            Ok(self.swap(held, slot, counts, blocks, contention, || Some(cell)))
        }
    }

    /// Splits the cluster at the end of a path in two.
    ///
    /// # Safety
    /// As for `add`.
    unsafe fn split(
        &self,
        held: &mut Held<'_>,
        path: &Path,
        contention: &mut LockContention,
    ) -> Result<Tried, ArenaFull> {
        let mut blocks = Blocks::default();
        // SAFETY: the caller's promise. Only the cells of a cluster change, so all else that is
        // read before its slot is locked stays the same.
        unsafe {
            let c = self.cluster(path.end);
            if c.alive() < c.leaves() {
                // Without the dead slots, there may be room.
                let place = (last_slot(path), path.end);
                let (tried, _) = self.renew(held, place, None, contention)?;
                return Ok(match tried {
                    Tried::Done => Tried::Again,
                    tried => tried,
                });
            }
            let slots = Slots::alive(c);
            let (middle, n) = (slots.middle(), slots.len());
            let border = slots.border(middle);
            let halves = (
                self.block_for_leaves(held, &mut blocks, middle)?,
                self.block_for_leaves(held, &mut blocks, n - middle)?,
            );
            let write = || {
                let slots = Slots::alive(c);
                if slots.len() != n {
                    return None;
                }
                let left = self.write_leaves(&slots, (0, middle), halves.0);
                Some((left, self.write_leaves(&slots, (middle, n), halves.1)))
            };
            let tried = match path.frames.split_last() {
                Some((last, above)) if last.offset() == border.at => {
                    let labels = branch::labels_of(self.branch(last.cell).h) + 1;
                    let cell = self.block_for_labels(held, &mut blocks, labels)?;
                    let slot = (slot_at(path, above.len()), last.cell);
                    self.swap_branch(held, slot, Counts::Same, blocks, contention, |b| {
                        let mut parts = Parts::read(b);
                        if parts.cell(last.index()) != path.end {
                            return None;
                        }
                        let (left, right) = write()?;
                        parts.split(last.index(), left, border.byte, right);
                        parts.write(self.pointer(cell), 0);
                        Some(cell)
                    })
                }
                _ => {
                    let cell = self.block_for_labels(held, &mut blocks, 1)?;
                    let slot = (last_slot(path), path.end);
                    self.swap(held, slot, Counts::Same, blocks, contention, || {
                        let (left, right) = write()?;
                        let pair = Parts::pair(border.at, left, border.byte, right);
                        pair.write(self.pointer(cell), 0);
                        Some(cell)
                    })
                }
            };
            if let Tried::Done = tried {
                self.retire_node(&mut held.inner, path.end);
                return Ok(Tried::Again);
            }
            Ok(tried)
        }
    }

    /// Makes a leaf a child of branch number `depth` of a path, beside the child that the path goes
    /// to.
    ///
    /// # Safety
    /// As for `add`.
    unsafe fn put_beside(
        &self,
        held: &mut Held<'_>,
        path: &Path,
        depth: usize,
        border: Border,
        new: New,
        contention: &mut LockContention,
    ) -> Result<Tried, ArenaFull> {
        let mut blocks = Blocks::default();
        let frame = path.frames[depth];
        let there = path.cell(depth + 1);
        // SAFETY: the caller's promise.
        unsafe {
            let labels = branch::labels_of(self.branch(frame.cell).h) + 1;
            let cell = self.block_for_labels(held, &mut blocks, labels)?;
            let slot = (slot_at(path, depth), frame.cell);
            Ok(
                self.swap_branch(held, slot, Counts::More(new), blocks, contention, |b| {
                    let mut parts = Parts::read(b);
                    // Another child there may have keys on both sides of the new one.
                    if parts.cell(frame.index()) != there {
                        return None;
                    }
                    let (left, right) = sides(path, there, new.leaf);
                    parts.split(frame.index(), left, border.byte, right);
                    parts.write(self.pointer(cell), 0);
                    Some(cell)
                }),
            )
        }
    }

    /// Makes a branch of a leaf and the node below the first `depth` branches of a path.
    ///
    /// # Safety
    /// As for `add`.
    unsafe fn put_above(
        &self,
        held: &mut Held<'_>,
        path: &Path,
        depth: usize,
        border: Border,
        new: New,
        contention: &mut LockContention,
    ) -> Result<Tried, ArenaFull> {
        let mut blocks = Blocks::default();
        let cell = self.block_for_labels(held, &mut blocks, 1)?;
        let there = path.cell(depth);
        let (left, right) = sides(path, there, new.leaf);
        // SAFETY: the caller's promise.
        unsafe {
            Parts::pair(border.at, left, border.byte, right).write(self.pointer(cell), 0);
            let (slot, counts) = ((slot_at(path, depth), there), Counts::More(new));
            Ok(self.swap(held, slot, counts, blocks, contention, || Some(cell)))
        }
    }
}

/// The cell that is there and a new leaf, in the order of their keys.
fn sides(path: &Path, there: u32, leaf: u32) -> (u32, u32) {
    match path.before() {
        true => (leaf, there),
        false => (there, leaf),
    }
}
