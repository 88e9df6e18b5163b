//! A map with one owner, who changes it in place: nobody else reads it meanwhile.
//!
//! The nodes are those of a map with readers, but for one thing: a leaf has room for more entries
//! than it has. A change of one leaf that has room moves entries in the leaf's own block. Every
//! other change makes a draft, carries it out, and frees at once what it replaces.

mod change;
mod slots;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, forget, needs_drop};
use core::sync::atomic::Ordering;

use sapwood_arena::{Area, Arena, ArenaFull, ArenaOptions, Kind, PAGE, Ref};
use sapwood_format::maple::LINE;

use self::slots::{Filling, is_boxed, place, slot_bytes};
use super::below::leaves_below;
use super::entries::Limits;
use super::finger::{Entry, Finger};
use super::leaf::by_width;
use super::node::{Leaf, Mem, POOLED, leaf_holds};
use super::path::{Path, Root};
use super::read::has_native;
use super::seen::Published;
use super::values::Values;
use super::verify::Check;
use super::view::View;
use crate::split::Split;
use sapwood_format::maple::word::Word;

/// The most children of an inner node. Measured: see `docs/maple.md`.
pub(crate) const FANOUT: usize = 36;

/// The most free blocks that a map keeps beside the arena's.
const SPARE: usize = 4;

/// The most memory in bytes that a map keeps when its last entry is removed.
const KEPT_MOST: usize = 4 * PAGE;

/// Entries that a leaf has room for, whatever their borders, where indices have 64 bits.
const LEAF_ENTRIES: usize = 32;

/// A map that is changed in place.
pub(crate) struct Owned<V, W: Word> {
    published: Published,
    arena: Arena,
    /// Free blocks of [`whole`](Self::whole) bytes, for the next leaves: 0, or a reference.
    spare: [u32; SPARE],
    limits: Limits,
    split: Split<V, W>,
    values: PhantomData<V>,
}

/// Why a change was not made.
#[derive(Debug)]
pub(crate) enum Refused<W> {
    Full(ArenaFull),
    /// The value of this entry cannot be split.
    Split(W, W),
}

/// An entry that was taken out: its first index, its last one, and the value.
pub(crate) type Ranged<V, W> = (W, W, V);

/// What a change took out; an error gives the value back that was to be stored.
type Exchanged<V, W> = Result<Vec<Ranged<V, W>>, (Option<V>, Refused<W>)>;

impl<V, W: Word> Owned<V, W> {
    pub(crate) fn new(options: ArenaOptions, split: Split<V, W>) -> Self {
        let leaf = 16 + LEAF_ENTRIES * (16 + slot_bytes::<V>());
        Owned::with_nodes(options, split, (leaf.next_multiple_of(64), FANOUT))
    }

    /// A map whose nodes have these most bytes and children.
    pub(crate) fn with_nodes(
        options: ArenaOptions,
        split: Split<V, W>,
        (leaf, fanout): (usize, usize),
    ) -> Self {
        let slot = slot_bytes::<V>();
        let limits = Limits {
            leaf,
            least: leaf_holds::<W>(leaf, slot, W::WIDEST).div_ceil(2),
            fanout,
            slot,
            // The owned map sees to it.
            shifts: false,
            roomy: true,
        };
        limits.check();
        let values = match is_boxed::<V>() {
            true => Values::Boxed,
            false => Values::InSlots,
        };
        Owned {
            published: Published::owned(values, slot, has_native()),
            arena: Arena::new(options),
            spare: [0; SPARE],
            limits,
            split,
            values: PhantomData,
        }
    }

    #[inline(always)]
    fn mem(&self) -> Mem {
        Mem(self.arena.base())
    }

    #[inline(always)]
    fn root(&self) -> Root {
        Root::from_word(self.published.root.load(Ordering::Relaxed))
    }

    /// Notes where the memory is.
    fn follow(&mut self) {
        *self.published.base.get_mut() = self.arena.base();
    }

    pub(crate) fn height(&self) -> usize {
        self.root().height
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.published.len.load(Ordering::Relaxed)
    }

    fn add_len(&mut self, more: usize, less: usize) {
        let len = self.published.len.get_mut();
        *len = *len + more - less;
    }

    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    pub(crate) fn split(&self) -> &Split<V, W> {
        &self.split
    }

    #[inline(always)]
    pub(crate) fn view(&self) -> View<'_, V, W> {
        // SAFETY: only changes, which need the map whole, free or write nodes.
        unsafe { View::new(&self.published) }
    }

    /// Bytes of a leaf of the usual size.
    fn whole(&self) -> usize {
        self.limits.leaf.next_multiple_of(LINE)
    }

    /// A new block.
    fn take(&mut self, bytes: usize, kind: Kind) -> Result<u32, ArenaFull> {
        if bytes == self.whole() {
            if let Some(spare) = self.spare.iter_mut().find(|spare| **spare != 0) {
                self.arena.use_lent(bytes, POOLED, kind);
                return Ok(core::mem::take(spare));
            }
        }
        let block = self.arena.alloc(bytes, kind, Area::Nodes)?;
        self.follow();
        Ok(block.get())
    }

    /// Frees a block.
    ///
    /// # Safety
    /// The block belongs to the map, and nothing uses it any more. It has `bytes` bytes and the
    /// kind `kind`.
    unsafe fn give(&mut self, node: u32, bytes: usize, kind: Kind) {
        if bytes == self.whole() && self.arena.splits_runs() {
            if let Some(spare) = self.spare.iter_mut().find(|spare| **spare == 0) {
                self.arena.lend_live(bytes, kind, POOLED);
                *spare = node;
                return;
            }
        }
        if let Some(r) = Ref::new(node) {
            // SAFETY: the caller's promise.
            unsafe { self.arena.free(r, bytes, kind) };
        }
    }

    /// Gives memory back that an empty map does not use.
    fn emptied(&mut self) {
        if self.arena.committed() > KEPT_MOST {
            self.spare = [0; SPARE];
            self.arena.clear();
            self.follow();
        }
    }

    /// The value at an index, to be changed.
    #[inline]
    pub(crate) fn get_mut(&mut self, index: W) -> Option<&mut V> {
        let entry = self.view().entry(index)?;
        // SAFETY: the slot of a live entry; the map is borrowed for as long as the value.
        Some(unsafe { &mut *place::<V>(entry.slot) })
    }

    /// Steps through the entries that have an index in a range, with values that may be changed.
    pub(crate) fn walk_mut(&mut self, range: Option<(W, W)>) -> WalkMut<'_, V, W> {
        WalkMut {
            finger: self.view().finger(),
            left: range,
            values: PhantomData,
        }
    }

    /// Makes `a..=b` one entry with the value, or a gap without one. On an error nothing has
    /// changed, and the value is given back.
    #[inline]
    pub(crate) fn store(
        &mut self,
        range: (W, W),
        value: Option<V>,
    ) -> Result<(), (Option<V>, Refused<W>)> {
        // These are dropped at the end, when the map is whole again.
        let mut covered = Vec::new();
        let _late = self
            .change(range, value.map(Filling::new), &mut |slot| {
                if needs_drop::<V>() {
                    // SAFETY: the slot of an entry that is no longer there.
                    covered.push(unsafe { Filling::<V>::of(slot) });
                }
            })
            .map_err(given_back)?;
        Ok(())
    }

    /// As [`store`](Self::store), and returns what was there: the entries, and the parts of those
    /// that the range cuts.
    pub(crate) fn exchange(&mut self, (a, b): (W, W), value: Option<V>) -> Exchanged<V, W> {
        // Only the first entry and the last one can be cut.
        let mut cut = [None, None];
        let mut met = Vec::new();
        let mut walk = self.view().finger();
        let mut next = Some(a);
        while let Some(entry) = next.and_then(|from| walk.forward(from)) {
            if entry.start > b {
                break;
            }
            next = (entry.end < b).then(|| entry.end + W::ONE);
            let (from, to) = (entry.start.max(a), entry.end.min(b));
            let whole = (from, to) == (entry.start, entry.end);
            if !whole {
                // SAFETY: a live entry's slot.
                let there = unsafe { &*place::<V>(entry.slot) };
                match self.split.at_offset(there, from - entry.start) {
                    Some(part) => cut[usize::from(!met.is_empty())] = Some(part),
                    None => return Err((value, Refused::Split(entry.start, entry.end))),
                }
            }
            // SAFETY: the slot's value is used from here once the entry is no longer there, and
            // not at all if the change is refused.
            let there = whole.then(|| unsafe { ManuallyDrop::new(Filling::<V>::of(entry.slot)) });
            met.push((from, to, there));
        }
        let _late = self
            .change((a, b), value.map(Filling::new), &mut |_| {})
            .map_err(given_back)?;
        let mut cut = cut.into_iter().flatten();
        let removed = met.into_iter().filter_map(|(from, to, whole)| {
            let value = match whole {
                Some(value) => Some(ManuallyDrop::into_inner(value).into_value()),
                None => cut.next(),
            };
            value.map(|value| (from, to, value))
        });
        Ok(removed.collect())
    }

    /// Makes two entries that touch one, with the value of the left one.
    pub(crate) fn join(&mut self, left: Entry<W>, right: Entry<W>) -> Result<(), Refused<W>> {
        // SAFETY: a live entry's slot. Its value moves to the new entry; if the change is refused,
        // it stays where it is.
        let value = unsafe { Filling::<V>::of(left.slot) };
        let mut covered = None;
        let range = (left.start, right.end);
        let joined = self.change(range, Some(value), &mut |slot| {
            if slot != left.slot {
                // SAFETY: the slot of an entry that is no longer there.
                covered = Some(unsafe { Filling::<V>::of(slot) });
            }
        });
        joined.map(drop).map_err(|(value, refused)| {
            forget(value);
            refused
        })
    }

    /// Removes the whole entry that holds an index.
    #[inline]
    pub(crate) fn remove(&mut self, index: W) -> Result<Option<(W, W, V)>, Refused<W>> {
        let root = self.root();
        if root.node == 0 {
            return Ok(None);
        }
        // SAFETY: the tree is live, and borrowed; the path ends at a leaf.
        let (path, leaf) = unsafe {
            let path = path(self.mem(), root, index, self.published.native);
            (path, Leaf::<W>::at(self.mem().at(path.node[0])))
        };
        let k = leaf.rank::<false>(index);
        if k == leaf.len() || leaf.start(k) > index {
            return Ok(None);
        }
        let range = (leaf.start(k), leaf.end(k));
        let mut removed = None;
        // SAFETY: the slot of the entry, which is no longer there.
        let mut out = |slot| removed = Some(unsafe { Filling::<V>::of(slot) });
        // SAFETY: as in `change`.
        let changed = unsafe {
            by_width!(W, leaf.encoding().width, B => self.change_leaf::<B>(&path, (leaf, k), range, None, &mut out))
        };
        let result = match changed {
            Ok(result) => result,
            Err(_) => self.restructure(range, None, &mut out),
        };
        result.map_err(|(_, refused)| refused)?;
        Ok(removed.map(|value| (range.0, range.1, value.into_value())))
    }

    /// Takes all entries out.
    pub(crate) fn drain(&mut self) -> Vec<Ranged<V, W>> {
        let root = self.root();
        let mut entries = Vec::with_capacity(self.len());
        if root.node != 0 {
            // SAFETY: the tree is live until it is cleared below; each value is taken once.
            unsafe {
                leaves_below(self.mem(), root.node, root.height, &mut |_, leaf| {
                    leaf.decode(0, leaf.len(), self.limits.slot, |start, end, slot| {
                        entries.push((start, end, Filling::<V>::of(slot).into_value()));
                    });
                });
            }
            self.published.publish_root(Root::EMPTY);
            self.published.publish_len(0);
        }
        self.spare = [0; SPARE];
        self.arena.clear();
        self.follow();
        entries
    }

    /// Checks every invariant.
    pub(crate) fn verify(&self) -> Result<(), String> {
        let mut check = Check::<W>::new(self.mem(), &self.limits, false);
        // SAFETY: the tree is borrowed.
        unsafe { check.tree(self.root())? };
        let (met, counted) = (check.entries, self.len());
        if met != counted {
            return Err(format!("{met} entries, but {counted} are counted"));
        }
        check.accounts(&self.arena)
    }
}

/// The error with the value that was to be stored.
fn given_back<V, W>((value, refused): (Option<Filling<V>>, Refused<W>)) -> (Option<V>, Refused<W>) {
    (value.map(Filling::into_value), refused)
}

/// The path to the leaf whose bounds hold `x`.
///
/// # Safety
/// The tree is live, not empty, and not changed while the path is used; `native` is what
/// [`has_native`] says.
#[inline(always)]
unsafe fn path<W: Word>(mem: Mem, root: Root, x: W, native: bool) -> Path<W> {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
    {
        /// # Safety
        /// As for `path`; the processor has what `has_native` asks for.
        #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
        unsafe fn by_vectors<W: Word>(mem: Mem, root: Root, x: W) -> Path<W> {
            // SAFETY: the caller's promise.
            unsafe { Path::<W>::to::<true>(mem, root, x) }
        }
        if native {
            // SAFETY: the caller's promise.
            return unsafe { by_vectors(mem, root, x) };
        }
    }
    let _ = native;
    // SAFETY: the caller's promise.
    unsafe { Path::<W>::to::<false>(mem, root, x) }
}

/// Steps through entries with values that may be changed.
pub(crate) struct WalkMut<'m, V, W> {
    finger: Finger<'m, W>,
    /// The indices that have not been passed.
    left: Option<(W, W)>,
    values: PhantomData<&'m mut V>,
}

impl<'m, V, W: Word> WalkMut<'m, V, W> {
    /// The next entry.
    pub(crate) fn next(&mut self) -> Option<(W, W, &'m mut V)> {
        let (from, to) = self.left.take()?;
        let Entry { start, end, slot } = self.finger.forward(from)?;
        if start > to {
            return None;
        }
        self.left = (end < to).then(|| (end + W::ONE, to));
        // SAFETY: the slot of a live entry, which is met once; the map is borrowed for 'm.
        Some((start, end, unsafe { &mut *place::<V>(slot) }))
    }
}

impl<V, W: Word> Drop for Owned<V, W> {
    fn drop(&mut self) {
        if needs_drop::<V>() {
            drop(self.drain());
        }
    }
}
