//! Changes of a shared trie. See the folder for the protocol.

use alloc::vec::Vec;

use sapwood_arena::{Area, ArenaFull};
use smallvec::SmallVec;

use super::trie::{Slot, Trie};
use crate::qp::raw::leaf::{LeafOf, mismatch};
use crate::qp::raw::node::{self, Branch, LEAF, SMALL_MAX};
use crate::qp::raw::parts::{self, Parts};
use crate::qp::raw::tree::{LEAF_KIND, SMALL_KIND, branch_cell, kind_of, leaf_cell, ref_of};
use crate::qp::raw::writers::lock::{self, LockContention};
use crate::qp::raw::writers::ops::{Done, Mode, Test};
use crate::qp::raw::writers::shard::Held;
use crate::sync;

/// A branch on the way down.
#[derive(Clone, Copy)]
struct Frame {
    cell: u32,
    /// The child that the way goes to.
    index: u16,
    /// An offset is at most 65,535.
    offset: u16,
}

impl Frame {
    fn slot(self) -> Slot {
        Slot::Child {
            branch: self.cell,
            index: usize::from(self.index),
        }
    }
}

/// The way from the root to a leaf, as it was when it was walked.
struct Way {
    frames: SmallVec<[Frame; 16]>,
    leaf: u32,
}

impl Way {
    /// The slot that the last frame's branch, or the leaf if there is no frame, hangs in.
    fn top(&self) -> Slot {
        self.frames.last().map_or(Slot::Root, |frame| frame.slot())
    }
}

/// One attempt.
enum Tried {
    Done,
    /// Something changed on the way: begin anew.
    Again,
    Full,
    NoMemory(ArenaFull),
}

/// A leaf to be linked or unlinked, and the hash of its key.
#[derive(Clone, Copy)]
struct New {
    leaf: u32,
    hash: u64,
}

/// The child of a key that parts from all keys of a branch at the branch's offset.
struct Child {
    byte: Option<u8>,
    new: New,
}

impl<V> Trie<V> {
    /// Walks down by the bytes of a key; `None` when the trie is empty. Off the way it takes any child.
    ///
    /// # Safety
    /// This thread holds a guard.
    unsafe fn walk(&self, key: &[u8]) -> Option<Way> {
        // SAFETY: the caller's promise.
        let view = unsafe { self.view() };
        let mut way = Way {
            frames: SmallVec::new(),
            leaf: view.root,
        };
        if way.leaf == 0 {
            return None;
        }
        while way.leaf & LEAF == 0 {
            let b = view.branch(way.leaf, 0)?;
            let index = view.index(b, key).unwrap_or(0);
            way.frames.push(Frame {
                cell: way.leaf,
                index: index as u16,
                offset: b.offset() as u16,
            });
            way.leaf = view.child(b, index)?;
        }
        Some(way)
    }

    /// As [`Structure::write`](crate::qp::raw::writers::ops::Structure::write).
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn put(
        &self,
        held: &mut Held<'_>,
        key: &[u8],
        value: V,
        mode: &mut Mode<'_, V>,
        values: &mut Vec<V>,
    ) -> Done<V> {
        let mut met = LockContention::default();
        let mut value = Some(value);
        let mut leaf = 0;
        let hash = self.hash(key);
        // SAFETY: the guard is held throughout; the leaf is ours until it is linked.
        let done = unsafe {
            loop {
                let way = self.walk(key);
                let near = way.as_ref().map(|way| self.pointer(way.leaf));
                let at = near.map(|near| mismatch(key, LeafOf::<V>::key(near)));
                let found = way.as_ref().filter(|_| at == Some(None));
                let refused = match (&mut *mode, found) {
                    (Mode::New, Some(way)) => Some(Ok(way.leaf)),
                    (Mode::Replace | Mode::If(_), None) => Some(Err(())),
                    (Mode::If(test), Some(way)) => {
                        let found = &*LeafOf::<V>::value_ptr(self.pointer(way.leaf));
                        (!test(found)).then_some(Ok(way.leaf))
                    }
                    _ => None,
                };
                if let Some(refused) = refused {
                    let there = found.map(|way| way.leaf);
                    if !self.index_agrees(hash, key, there) {
                        met.locks += 1;
                        sync::wait();
                        continue;
                    }
                    let value = self.unmake(held, leaf, value);
                    break match refused {
                        Ok(leaf) => Done::Exists(leaf, value),
                        Err(()) => Done::Absent(value),
                    };
                }
                if leaf == 0 {
                    let size = LeafOf::<V>::size(key.len());
                    let block = held.inner.alloc(&self.depot, size, LEAF_KIND, Area::Leaves);
                    match (block, value.take()) {
                        (Ok(r), Some(value)) => {
                            leaf = leaf_cell(r);
                            LeafOf::<V>::write(self.pointer(leaf), key, value);
                        }
                        (Err(full), Some(value)) => break Done::NoMemory(value, full),
                        (_, None) => unreachable!("the value is in the leaf, or here"),
                    }
                }
                let old = found.map(|way| way.leaf);
                let new = New { leaf, hash };
                let tried = match (way, at.flatten()) {
                    (None, _) => self.link(held, Slot::Root, 0, new, &mut met),
                    (Some(way), None) => self.link(held, way.top(), way.leaf, new, &mut met),
                    (Some(way), Some(at)) => self.part(held, way, key, at, new, &mut met),
                };
                match tried {
                    Tried::Done => {
                        break match old {
                            Some(old) => Done::Replaced(old),
                            None => Done::Inserted(leaf),
                        };
                    }
                    // The test is the user's and may panic: the value goes back to where that drops it.
                    Tried::Again if matches!(mode, Mode::If(_)) => {
                        value = Some(self.unmake(held, leaf, value));
                        leaf = 0;
                    }
                    Tried::Again => {}
                    Tried::Full => break Done::Full(self.unmake(held, leaf, value)),
                    Tried::NoMemory(full) => {
                        break Done::NoMemory(self.unmake(held, leaf, value), full);
                    }
                }
            }
        };
        match done {
            Done::Inserted(_) => held.add_len(1),
            // SAFETY: unlinked just now, by us.
            Done::Replaced(old) => unsafe { self.retire_node(&mut held.inner, old) },
            _ => {}
        }
        self.settle(&mut held.inner, met, values);
        // SAFETY: the guard is held, and all locks of branches are released.
        unsafe { self.index_step(&mut held.inner) };
        done
    }

    /// Takes the value back out of a leaf that was not linked.
    ///
    /// # Safety
    /// The leaf, if any, is ours.
    unsafe fn unmake(&self, held: &mut Held<'_>, leaf: u32, value: Option<V>) -> V {
        if let Some(value) = value {
            return value;
        }
        // SAFETY: the caller's promise; the value is out before the block is freed.
        unsafe {
            let (bytes, _) = self.block(leaf);
            let value = LeafOf::<V>::take(self.pointer(leaf));
            held.inner.free(&self.depot, ref_of(leaf), bytes, LEAF_KIND);
            value
        }
    }

    /// Puts a leaf into a slot that holds `old`: nothing, or the key's old leaf.
    ///
    /// # Safety
    /// The guard is held; the leaf is ours.
    unsafe fn link(
        &self,
        held: &mut Held<'_>,
        slot: Slot,
        old: u32,
        new: New,
        met: &mut LockContention,
    ) -> Tried {
        // SAFETY: slots were met under the guard, so their branches are not freed.
        unsafe {
            if !self.lock_slot(slot, old, met) {
                return Tried::Again;
            }
            if old == 0 && !self.reserve_entry() {
                self.unlock_slot(slot);
                return Tried::Full;
            }
            held.begin();
            if old == 0 {
                self.index_insert(held, new.hash, new.leaf);
                self.store(slot, new.leaf);
            } else {
                self.store(slot, new.leaf);
                self.index_replace(new.hash, old, new.leaf);
            }
            held.end();
            self.unlock_slot(slot);
        }
        Tried::Done
    }

    /// Links the leaf of a key that parts at byte `at` from the leaf that its way leads to.
    ///
    /// # Safety
    /// The guard is held; the leaf is ours.
    unsafe fn part(
        &self,
        held: &mut Held<'_>,
        mut way: Way,
        key: &[u8],
        at: usize,
        new: New,
        met: &mut LockContention,
    ) -> Tried {
        // Every key below a branch agrees with the near leaf up to the branch's offset: so the new key leaves the way
        // above all branches with a greater offset than `at`.
        let near = way.leaf;
        let mut below = near;
        while let Some(frame) = way.frames.last().copied() {
            if usize::from(frame.offset) < at {
                break;
            }
            way.frames.pop();
            below = frame.cell;
            if usize::from(frame.offset) == at {
                let child = Child {
                    byte: key.get(at).copied(),
                    new,
                };
                // SAFETY: the caller's promise.
                return unsafe { self.add_child(held, way.top(), below, &child, met) };
            }
        }
        let slot = way.top();
        // SAFETY: the near leaf and the slot's branch were met under the guard.
        unsafe {
            let theirs = LeafOf::<V>::key(self.pointer(near)).get(at).copied();
            let mine = key.get(at).copied();
            let pair = match held.inner.alloc(&self.depot, 16, SMALL_KIND, Area::Nodes) {
                Ok(r) => branch_cell(r),
                Err(full) => return Tried::NoMemory(full),
            };
            let (a, b) = if mine < theirs {
                ((mine, new.leaf), (theirs, below))
            } else {
                ((theirs, below), (mine, new.leaf))
            };
            parts::write_pair(self.pointer(pair), at, a, b, 0);
            let locked = self.lock_slot(slot, below, met);
            let room = locked && self.reserve_entry();
            if !room {
                if locked {
                    self.unlock_slot(slot);
                }
                held.inner.free(&self.depot, ref_of(pair), 16, SMALL_KIND);
                return if locked { Tried::Full } else { Tried::Again };
            }
            held.begin();
            self.index_insert(held, new.hash, new.leaf);
            self.store(slot, pair);
            held.end();
            self.unlock_slot(slot);
        }
        Tried::Done
    }

    /// Replaces the branch `cell` in `slot` by one that has a child more.
    ///
    /// # Safety
    /// The guard is held; `cell` was met in the slot; the child's leaf is ours.
    unsafe fn add_child(
        &self,
        held: &mut Held<'_>,
        slot: Slot,
        cell: u32,
        child: &Child,
        met: &mut LockContention,
    ) -> Tried {
        // SAFETY: branches that were met under the guard are not freed; the new one is ours until it is stored.
        unsafe {
            let b = self.plain_branch(cell);
            let labels = node::labels_of(b.h) + usize::from(child.byte.is_some());
            let end = node::end_of(b.h) == 1 || child.byte.is_none();
            let h = node::header(b.offset(), labels, end);
            let (size, kind) = (node::block_of(h), kind_of(h));
            let new = match held.inner.alloc(&self.depot, size, kind, Area::Nodes) {
                Ok(r) => branch_cell(r),
                Err(full) => return Tried::NoMemory(full),
            };
            let free = |held: &mut Held<'_>| held.inner.free(&self.depot, ref_of(new), size, kind);
            // Its cells must not change while they are copied, nor afterwards.
            if self.parking.acquire(self.word_of(cell), met).is_none() {
                met.locks += 1;
                free(held);
                return Tried::Again;
            }
            // It is the branch that was met, so nobody has given it the label that it lacked: that makes another branch.
            debug_assert!(
                child
                    .byte
                    .map_or(node::end_of(b.h) == 0, |byte| b.find(byte).is_none())
            );
            if labels <= SMALL_MAX {
                parts::copy_inserted(b, self.pointer(new), child.byte, child.new.leaf, 0);
            } else {
                let mut parts = Parts::read(b);
                parts.insert(child.byte, child.new.leaf);
                parts.write(self.pointer(new), 0);
            }
            let locked = self.lock_slot(slot, cell, met);
            if !locked || !self.reserve_entry() {
                if locked {
                    self.unlock_slot(slot);
                }
                self.parking.release(self.word_of(cell));
                free(held);
                return if locked { Tried::Full } else { Tried::Again };
            }
            held.begin();
            self.index_insert(held, child.new.hash, child.new.leaf);
            self.store(slot, new);
            held.end();
            self.unlock_slot(slot);
            self.parking.abandon(self.word_of(cell));
            self.retire_node(&mut held.inner, cell);
        }
        Tried::Done
    }

    /// A branch without the state of its lock.
    ///
    /// # Safety
    /// The branch is not freed.
    unsafe fn plain_branch(&self, cell: u32) -> Branch {
        // SAFETY: the caller's promise.
        let b = unsafe { self.branch(cell) };
        Branch {
            p: b.p,
            h: lock::plain(b.h),
        }
    }

    /// The lock word of a branch.
    ///
    /// # Safety
    /// The branch is not freed.
    pub(crate) unsafe fn word_of(&self, cell: u32) -> &crate::sync::AtomicU32 {
        // SAFETY: the caller's promise.
        unsafe {
            self.word(Slot::Child {
                branch: cell,
                index: 0,
            })
        }
    }

    /// As [`Structure::remove`](crate::qp::raw::writers::ops::Structure::remove).
    ///
    /// # Errors
    /// [`ArenaFull`] when there is no memory for the branch that becomes smaller.
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn cut(
        &self,
        held: &mut Held<'_>,
        key: &[u8],
        mut test: Option<&mut Test<'_, V>>,
        values: &mut Vec<V>,
    ) -> Result<Option<u32>, ArenaFull> {
        let mut met = LockContention::default();
        let hash = self.hash(key);
        // SAFETY: the guard is held throughout.
        let removed = unsafe {
            loop {
                let way = self.walk(key);
                let there = way.filter(|way| LeafOf::<V>::is_key(self.pointer(way.leaf), key));
                let leaf = there.as_ref().map(|way| way.leaf);
                let passes = leaf.is_some_and(|leaf| match &mut test {
                    Some(test) => test(&*LeafOf::<V>::value_ptr(self.pointer(leaf))),
                    None => true,
                });
                let (Some(mut way), true) = (there, passes) else {
                    if self.index_agrees(hash, key, leaf) {
                        break Ok(None);
                    }
                    met.locks += 1;
                    sync::wait();
                    continue;
                };
                let old = New {
                    leaf: way.leaf,
                    hash,
                };
                let leaf = old.leaf;
                let tried = match way.frames.pop() {
                    None => self.unlink_root(held, old, &mut met),
                    Some(frame) => self.unlink(held, way.top(), frame, old, &mut met),
                };
                match tried {
                    Tried::Done => break Ok(Some(leaf)),
                    Tried::NoMemory(full) => break Err(full),
                    _ => {}
                }
            }
        };
        if let Ok(Some(leaf)) = removed {
            held.add_len(-1);
            self.return_entry();
            // SAFETY: unlinked just now, by us.
            unsafe { self.retire_node(&mut held.inner, leaf) };
        }
        self.settle(&mut held.inner, met, values);
        // SAFETY: the guard is held, and all locks of branches are released.
        unsafe { self.index_step(&mut held.inner) };
        removed
    }

    /// Takes the only leaf out.
    ///
    /// # Safety
    /// The guard is held.
    unsafe fn unlink_root(&self, held: &mut Held<'_>, old: New, met: &mut LockContention) -> Tried {
        // SAFETY: the root is no branch.
        unsafe {
            if !self.lock_slot(Slot::Root, old.leaf, met) {
                return Tried::Again;
            }
            held.begin();
            self.store(Slot::Root, 0);
            self.index_remove(old.hash, old.leaf);
            held.end();
            self.unlock_slot(Slot::Root);
        }
        Tried::Done
    }

    /// Takes a leaf out of the branch in `slot`, whose frame this is: the branch is replaced by a smaller one, or
    /// by its other child.
    ///
    /// # Safety
    /// The guard is held; the frame's branch was met in the slot, and the leaf in the frame's branch.
    unsafe fn unlink(
        &self,
        held: &mut Held<'_>,
        slot: Slot,
        frame: Frame,
        old: New,
        met: &mut LockContention,
    ) -> Tried {
        let (cell, index) = (frame.cell, usize::from(frame.index));
        // SAFETY: branches that were met under the guard are not freed; the new one is ours until it is stored.
        unsafe {
            let b = self.plain_branch(cell);
            let two = b.children() == 2;
            let end = node::end_of(b.h) == 1;
            let end_goes = end && index == 0;
            let labels = node::labels_of(b.h) - usize::from(!end_goes);
            let mut made = None;
            if !two {
                let h = node::header(b.offset(), labels, end && !end_goes);
                let (size, kind) = (node::block_of(h), kind_of(h));
                match held.inner.alloc(&self.depot, size, kind, Area::Nodes) {
                    Ok(r) => made = Some((branch_cell(r), size, kind)),
                    Err(full) => return Tried::NoMemory(full),
                }
            }
            let unlinked = self.lock_slot(frame.slot(), old.leaf, met) && {
                let next = match made {
                    None => b.cell(1 - index),
                    Some((new, ..)) => {
                        let mut parts = Parts::read(b);
                        parts.remove(index);
                        parts.write(self.pointer(new), 0);
                        new
                    }
                };
                let taken = self.lock_slot(slot, cell, met);
                if taken {
                    held.begin();
                    self.store(slot, next);
                    self.index_remove(old.hash, old.leaf);
                    held.end();
                    self.unlock_slot(slot);
                    self.parking.abandon(self.word_of(cell));
                } else {
                    self.parking.release(self.word_of(cell));
                }
                taken
            };
            if !unlinked {
                if let Some((new, size, kind)) = made {
                    held.inner.free(&self.depot, ref_of(new), size, kind);
                }
                return Tried::Again;
            }
            self.retire_node(&mut held.inner, cell);
        }
        Tried::Done
    }
}
