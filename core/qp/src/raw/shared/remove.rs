//! Removals from a shared trie, and what follows them. The parent module describes the protocol.

use sapwood_arena::ArenaFull;
use sapwood_qsbr::GarbageLimit;

use super::swap::{Blocks, Counts, New, Tried};
use super::trie::{Slot, Trie};
use super::write::{last_slot, slot_at};
use crate::raw::leaf::{LeafOf, Value};
use crate::raw::node::{CLUSTER, KIND, LEAF};
use crate::raw::parts::Parts;
use crate::raw::path::{JOIN_AT, Path, joined};
use crate::raw::slots::Border;
use crate::raw::writers::lock::LockContention;
use crate::raw::writers::ops::Lack;
use crate::raw::writers::shard::Held;
use sapwood_format::branch;

impl<V: ?Sized + Value> Trie<V> {
    /// Reserves room for the garbage of a removal. Where there is only room for the leaf, but the
    /// leaf's slot in its cluster can die, returns the error of the rest.
    ///
    /// # Safety
    /// The leaf was found under the guard, as `end` or in it.
    pub(super) unsafe fn reserve_removal(
        &self,
        held: &mut Held<'_>,
        key: &[u8],
        leaf: u32,
        end: u32,
    ) -> Result<Result<(), GarbageLimit>, GarbageLimit> {
        // SAFETY: the caller's promise.
        unsafe {
            let room = self.reserve_attempt(held, key, Some(leaf));
            if room.is_err() {
                if end & CLUSTER == 0 || !self.slots_die {
                    return room.map(Ok);
                }
                held.inner.reserve(LeafOf::<V>::block(self.pointer(leaf)))?;
            }
            Ok(room)
        }
    }

    /// Whether the end of this path, which this thread has changed, may be small enough now to join
    /// a sibling.
    ///
    /// # Safety
    /// The guard is held.
    pub(super) unsafe fn has_shrunk(&self, path: &Path) -> bool {
        if path.end & CLUSTER == 0 {
            return true;
        }
        // SAFETY: the caller's promise; the path's branches are not freed.
        unsafe {
            let now = self.load(last_slot(path));
            now != path.end && (now & CLUSTER == 0 || self.cluster(now).leaves() <= JOIN_AT)
        }
    }

    /// Removes a leaf from the cluster at the end of a path: its slot dies. If only a third of the
    /// slots, or one, would be left, or if it is the last slot, a cluster without dead slots
    /// replaces the cluster; of two leaves, the other one does. Without memory or `room` for
    /// garbage, the slot dies as long as the cluster keeps two leaves.
    ///
    /// # Safety
    /// The guard is held; the path led to the leaf.
    pub(super) unsafe fn take_out(
        &self,
        held: &mut Held<'_>,
        path: &Path,
        old: New,
        room: Result<(), GarbageLimit>,
        contention: &mut LockContention,
    ) -> Result<Tried, Lack> {
        let index = path.near.index;
        let place = (last_slot(path), path.end);
        // SAFETY: the caller's promise.
        unsafe {
            let bury = |held: &mut Held<'_>, least, contention: &mut LockContention| {
                let (cells, counts) = ((index, old.leaf, 0), Counts::Less(old));
                self.set_in(held, place, cells, counts, contention, |c| {
                    self.slots_die && index + 1 < c.leaves() && c.alive() > least
                })
            };
            let leaves = self.cluster(path.end).leaves();
            if let Some(tried) = bury(held, (leaves / 3 + 1).max(2), contention) {
                return Ok(tried);
            }
            let lack = match room {
                Ok(()) => match self.renew(held, place, Some((index, old)), contention) {
                    Ok((tried, _)) => return Ok(tried),
                    Err(full) => full.into(),
                },
                Err(limit) => limit.into(),
            };
            bury(held, 2, contention).ok_or(lack)
        }
    }

    /// Unlinks a leaf that is a child of the last branch of a path, or the only entry. The branch
    /// is replaced by a smaller one, or by its other child.
    ///
    /// # Safety
    /// As for `take_out`.
    pub(super) unsafe fn unlink_child(
        &self,
        held: &mut Held<'_>,
        path: &Path,
        old: New,
        contention: &mut LockContention,
    ) -> Result<Tried, ArenaFull> {
        let mut blocks = Blocks::default();
        let counts = Counts::Less(old);
        // SAFETY: the caller's promise.
        unsafe {
            let Some((last, above)) = path.frames.split_last() else {
                return Ok(self.swap(
                    held,
                    (Slot::Root, old.leaf),
                    counts,
                    blocks,
                    contention,
                    || Some(0),
                ));
            };
            let labels = branch::labels_of(self.branch(last.cell).h);
            let cell = match labels {
                1 => 0,
                _ => self.block_for_labels(held, &mut blocks, labels - 1)?,
            };
            let slot = (slot_at(path, above.len()), last.cell);
            Ok(
                self.swap_branch(held, slot, counts, blocks, contention, |b| {
                    let mut parts = Parts::read(b);
                    if parts.cell(last.index()) != old.leaf {
                        return None;
                    }
                    parts.remove(last.index());
                    if labels == 1 {
                        return Some(parts.cell(0));
                    }
                    parts.write(self.pointer(cell), 0);
                    Some(cell)
                }),
            )
        }
    }

    /// Joins the cluster where a key was with a sibling, if both are small. If other writers change
    /// these nodes meanwhile, or without memory or room for garbage, it stays as it is.
    ///
    /// # Safety
    /// The guard is held.
    pub(super) unsafe fn join(
        &self,
        held: &mut Held<'_>,
        key: &[u8],
        contention: &mut LockContention,
    ) {
        // SAFETY: the caller's promise, for the whole body.
        unsafe {
            let Some(end) = self.view().end(key) else {
                return;
            };
            if end & LEAF == 0 && self.cluster(end).leaves() > JOIN_AT {
                return;
            }
            let Some(path) = self.view().path(key).filter(|path| path.end == end) else {
                return;
            };
            let Some((last, above)) = path.frames.split_last() else {
                return;
            };
            if self.reserve_attempt(held, key, None).is_err() {
                return;
            }
            let parts = Parts::read(self.plain_branch(last.cell));
            let index = last.index();
            let mut blocks = Blocks::default();
            for left in [index.checked_sub(1), Some(index)].into_iter().flatten() {
                if left + 1 >= parts.children() {
                    continue;
                }
                let (one, two) = (parts.cell(left), parts.cell(left + 1));
                if one & KIND == 0 || two & KIND == 0 {
                    continue;
                }
                let ends =
                    one & LEAF != 0 && LeafOf::<V>::key_len(self.pointer(one)) == parts.offset;
                let border = Border {
                    at: parts.offset,
                    byte: if ends { 0 } else { parts.label(left) },
                };
                let Some(all) = joined(&self.slots_of(one), border, &self.slots_of(two)) else {
                    continue;
                };
                let labels = parts.children() - 1;
                let Ok(cluster) = self.block_for_leaves(held, &mut blocks, all.len()) else {
                    return;
                };
                let branch = match labels {
                    1 => Ok(0),
                    _ => self.block_for_labels(held, &mut blocks, labels - 1),
                };
                let Ok(branch) = branch else { return };
                let slot = (slot_at(&path, above.len()), last.cell);
                let tried = self.swap_branch(held, slot, Counts::Same, blocks, contention, |b| {
                    let mut parts = Parts::read(b);
                    if (parts.cell(left), parts.cell(left + 1)) != (one, two) {
                        return None;
                    }
                    let now = joined(&self.slots_of(one), border, &self.slots_of(two))?;
                    if now.len() != all.len() {
                        return None;
                    }
                    self.write_leaves(&now, (0, now.len()), cluster);
                    if labels == 1 {
                        return Some(cluster);
                    }
                    parts.join(left, cluster);
                    parts.write(self.pointer(branch), 0);
                    Some(branch)
                });
                if let Tried::Done = tried {
                    for cell in [one, two].into_iter().filter(|cell| cell & LEAF == 0) {
                        self.retire_node(&mut held.inner, cell);
                    }
                }
                return;
            }
        }
    }
}
