//! The change of a range: in place, in one leaf that has room, or by a draft.

use alloc::boxed::Box;
use alloc::vec::Vec;
#[cfg(feature = "std")]
use core::any::Any;
#[cfg(feature = "std")]
use core::cell::Cell;
use core::mem::{forget, needs_drop};

use sapwood_arena::ArenaFull;

use super::slots::{Filling, place};
use super::{Owned, Refused, path};
use crate::gap::code;
use crate::raw::below::subtree;
use crate::raw::draft::{Draft, Outcome};
use crate::raw::finger::Entry;
use crate::raw::leaf::{Border, by_width};
use crate::raw::node::{INNER, Inner, LEAF, Leaf};
use crate::raw::path::{Path, Root};
use sapwood_format::maple::word::Word;

/// What a change returns: a value that another one has replaced in its place. An error gives the
/// value back that was to be stored.
pub(super) type Changed<V, W> = Result<Option<V>, (Option<Filling<V>>, Refused<W>)>;

/// The right part of an entry that a change cuts, where its value is not the entry's.
struct RightPart<V> {
    /// The entry's slot.
    slot: *const u8,
    value: V,
    /// Whether the left part stays, too.
    both: bool,
}

impl<V, W: Word> Owned<V, W> {
    /// Makes a change. `out` gets the slots of entries that the range covers, those of one leaf in
    /// order; from then on their values are the caller's.
    #[inline]
    pub(super) fn change(
        &mut self,
        range: (W, W),
        mut value: Option<Filling<V>>,
        out: &mut impl FnMut(*const u8),
    ) -> Changed<V, W> {
        let root = self.root();
        if root.node == 0 {
            return self.first(range, value);
        } else {
            // SAFETY: the tree is live, and borrowed; the path ends at a leaf.
            let (path, leaf) = unsafe {
                let path = path(self.mem(), root, range.0, self.published.native);
                (path, Leaf::<W>::at(self.mem().at(path.node[0])))
            };
            let from = leaf.rank::<false>(range.0);
            // SAFETY: the leaf's borders have the type that its width says.
            let changed = unsafe {
                by_width!(W, leaf.encoding().width, B => self.change_leaf::<B>(&path, (leaf, from), range, value, out))
            };
            match changed {
                Ok(result) => return result,
                Err(back) => value = back,
            }
        }
        self.restructure(range, value, out)
    }

    /// Makes a change of an empty map.
    fn first(&mut self, (a, b): (W, W), value: Option<Filling<V>>) -> Changed<V, W> {
        if value.is_none() {
            return Ok(None);
        }
        let part = self.limits.first(a, b);
        match self.take(part.bytes, LEAF) {
            Ok(node) => {
                let slots = (part.room, self.limits.slot);
                let slot = core::iter::once(Filling::bytes(&value));
                // SAFETY: a new block of the part's size.
                unsafe {
                    Leaf::<W>::write(self.mem().at(node), part.encoding, slots, &[a], &[b], slot);
                }
                forget(value);
                self.published.publish_root(Root { node, height: 0 });
                self.published.publish_len(1);
                Ok(None)
            }
            Err(full) => Err((value, Refused::Full(full))),
        }
    }

    /// Makes a change in the leaf of a path, in place; `from` entries of it end before the range.
    /// Gives the value back if it cannot be made so.
    ///
    /// # Safety
    /// The path ends at this leaf, whose borders have this type.
    #[inline]
    pub(super) unsafe fn change_leaf<B: Border>(
        &mut self,
        path: &Path<W>,
        (leaf, from): (Leaf<W>, usize),
        (a, b): (W, W),
        value: Option<Filling<V>>,
        out: &mut impl FnMut(*const u8),
    ) -> Result<Changed<V, W>, Option<Filling<V>>> {
        let (n, slot, put) = (leaf.len(), self.limits.slot, value.is_some());
        let rightmost = path.is_last(0);
        // Only the last leaf of all has indices behind its last entry, and may end elsewhere then.
        // SAFETY: the caller's promise, here and in each closure's use below.
        let (start, end) = (
            |k| unsafe { leaf.start_as::<B>(k) },
            |k| unsafe { leaf.end_as::<B>(k) },
        );
        if !rightmost && b > end(n - 1) {
            return Err(value);
        }
        let cut_left = from < n && start(from) < a;
        let mut behind = from;
        while behind < n && end(behind) <= b {
            behind += 1;
        }
        let cut_right = behind < n && start(behind) <= b;
        let both = cut_left && cut_right && behind == from;
        // Entries from `from` to `to` are covered; those that are cut stay in their places.
        let from = from + usize::from(cut_left);
        let to = behind.max(from);
        if !put && from == to && !cut_left && !cut_right {
            return Ok(Ok(None));
        }
        let len = n - (to - from) + usize::from(put) + usize::from(both);
        if len == 0 && path.height == 0 {
            (from..to).for_each(|k| out(leaf.slot(k, slot)));
            self.published.publish_root(Root::EMPTY);
            self.published.publish_len(0);
            // SAFETY: the leaf was all nodes.
            unsafe { self.give(path.node[0], leaf.bytes(), LEAF) };
            self.emptied();
            return Ok(Ok(None));
        }
        let least = match path.height {
            0 => 1,
            _ => self.limits.least,
        };
        if len < least
            || len > leaf.room()
            || !leaf.can_write(a, b, put, cut_left, cut_right)
            || (!rightmost && !put && behind == n)
        {
            return Err(value);
        }
        let right = match cut_right {
            true => match self.right_part(Entry::<W>::new(&leaf, behind, slot), (a, b)) {
                Ok(right) => right,
                Err(refused) => return Ok(Err((value, refused))),
            },
            false => None,
        };
        if !put && path.height > 0 {
            // A gap grows, to both sides.
            let first = match from {
                _ if cut_left => a,
                0 => path.lower(0),
                from => end(from - 1) + W::ONE,
            };
            let last = match behind {
                _ if cut_right => b,
                behind if behind < n => start(behind) - W::ONE,
                _ => W::MAX,
            };
            path.raise_gaps(1, code((last - first).saturating_add(W::ONE)));
        }
        (from..to).for_each(|k| out(leaf.slot(k, slot)));
        // SAFETY: the leaf is this map's and has room, and its encoding can write the new borders.
        // A value is in one place: those of covered entries are the caller's, and new ones are only
        // in the leaf.
        let late = unsafe {
            if both {
                let last = end(from - 1);
                let (_, clone) = put_right(right);
                let (new, clone_at) = (Filling::bytes(&value), Filling::bytes(&clone));
                let right = (b + W::ONE, last, clone_at);
                match put {
                    true => leaf.replace::<B, 2>(slot, (from, to), [(a, b, new), right]),
                    false => leaf.replace::<B, 1>(slot, (from, to), [right]),
                }
                leaf.set_end::<B>(from - 1, a - W::ONE);
                forget((value, clone));
                None
            } else {
                let (late, _) = put_right(right);
                if cut_right {
                    leaf.set_start::<B>(behind, b + W::ONE);
                }
                if cut_left {
                    leaf.set_end::<B>(from - 1, a - W::ONE);
                }
                match put {
                    true => {
                        let new = Filling::bytes(&value);
                        leaf.replace::<B, 1>(slot, (from, to), [(a, b, new)]);
                    }
                    false if from < to => leaf.replace::<B, 0>(slot, (from, to), []),
                    false => {}
                }
                forget(value);
                late
            }
        };
        self.add_len(len, n);
        Ok(Ok(late))
    }

    /// The right part of an entry that reaches beyond `b`, if its value is not the entry's.
    fn right_part(
        &self,
        entry: Entry<W>,
        (a, b): (W, W),
    ) -> Result<Option<RightPart<V>>, Refused<W>> {
        let both = entry.start < a;
        if !both && !self.split.shifts() {
            return Ok(None);
        }
        let slot = entry.slot;
        // SAFETY: a live entry's slot.
        let value = unsafe { &*place::<V>(slot) };
        match self.split.at_offset(value, b + W::ONE - entry.start) {
            Some(value) => Ok(Some(RightPart { slot, value, both })),
            None => Err(Refused::Split(entry.start, entry.end)),
        }
    }

    /// Makes a change by a draft: new nodes take the place of old ones.
    #[inline(never)]
    pub(super) fn restructure(
        &mut self,
        range: (W, W),
        value: Option<Filling<V>>,
        out: &mut impl FnMut(*const u8),
    ) -> Changed<V, W> {
        let mut scratch = Scratch::<W>::borrow();
        let put = value.is_some();
        scratch.make(self, range, put);
        if let Outcome::Same = scratch.draft.outcome {
            #[cfg(feature = "std")]
            scratch.give_back();
            return Ok(None);
        }
        // What the map's user does comes first: it may panic.
        let mut right = match self.across(range.1) {
            Some(entry) => match self.right_part(entry, range) {
                Ok(right) => right,
                Err(refused) => return Err((value, refused)),
            },
            None => None,
        };
        let base = self.arena.base();
        if let Err(full) = self.take_all(&mut scratch) {
            return Err((value, Refused::Full(full)));
        }
        // Where the memory has moved, the same draft is made again, with the new addresses.
        if base != self.arena.base() {
            scratch.make(self, range, put);
            if let (Some(part), Some(entry)) = (&mut right, self.across(range.1)) {
                part.slot = entry.slot;
            }
        }
        // SAFETY: the blocks are there and do not move; the parts are those of the draft's
        // change. A value is in one place, as in `change_leaf`.
        let late = unsafe {
            let (late, clone) = put_right(right);
            let slots = (Filling::bytes(&value), Filling::bytes(&clone));
            self.carry_out(&mut scratch, slots, out);
            forget((value, clone));
            late
        };
        #[cfg(feature = "std")]
        scratch.give_back();
        if self.root().node == 0 {
            self.emptied();
        }
        Ok(late)
    }

    /// The entry that holds an index and the one behind it.
    fn across(&self, index: W) -> Option<Entry<W>> {
        let entry = self.view().entry(index)?;
        (entry.end > index).then_some(entry)
    }

    /// Takes the blocks of a draft.
    fn take_all(&mut self, scratch: &mut Scratch<W>) -> Result<(), ArenaFull> {
        scratch.nodes.clear();
        let leaves = scratch.draft.leaves.len();
        let mut refused = Ok(());
        for (i, bytes) in scratch.draft.sizes(&self.limits).enumerate() {
            let kind = if i < leaves { LEAF } else { INNER };
            match self.take(bytes, kind) {
                Ok(node) => scratch.nodes.push(node),
                Err(full) => {
                    refused = Err(full);
                    break;
                }
            }
        }
        if refused.is_err() {
            self.give_all(scratch);
        }
        refused
    }

    /// Gives back blocks that were taken for a draft.
    fn give_all(&mut self, scratch: &mut Scratch<W>) {
        let Scratch { draft, nodes, .. } = scratch;
        let leaves = draft.leaves.len();
        for (i, (bytes, node)) in draft.sizes(&self.limits).zip(nodes.drain(..)).enumerate() {
            let kind = if i < leaves { LEAF } else { INNER };
            // SAFETY: taken for the draft, and linked nowhere.
            unsafe { self.give(node, bytes, kind) };
        }
    }

    /// Carries a draft out.
    ///
    /// # Safety
    /// It is of this tree, and has its blocks. `slots` point at slots' bytes where the draft has a
    /// new value, and a right part's.
    unsafe fn carry_out(
        &mut self,
        scratch: &mut Scratch<W>,
        slots: (*const u8, *const u8),
        out: &mut impl FnMut(*const u8),
    ) {
        let Scratch { draft, nodes, gone } = scratch;
        let (mem, slot) = (self.mem(), self.limits.slot);
        // SAFETY: the caller's promise; old nodes are live until they are freed below.
        unsafe {
            let more = draft.write(mem, &self.limits, nodes, slots);
            draft.dropped.iter().for_each(|slot| out(*slot));
            gone.clear();
            gone.extend_from_slice(&draft.gone);
            for span in &draft.spans {
                let parent = Inner::<W>::at(mem.at(span.parent));
                for i in span.from..span.to {
                    subtree::<W>(mem, parent.child(i), span.level - 1, &mut |node, level| {
                        gone.push((node, level));
                        if level == 0 && needs_drop::<V>() {
                            let leaf = Leaf::<W>::at(mem.at(node));
                            (0..leaf.len()).for_each(|k| out(leaf.slot(k, slot)));
                        }
                    });
                }
            }
            match draft.outcome {
                Outcome::Same => {}
                Outcome::Empty => self.published.publish_root(Root::EMPTY),
                Outcome::Root { node, height } => {
                    let node = draft.top(nodes, node);
                    self.published.publish_root(Root { node, height });
                }
                Outcome::Cell { level, node } => {
                    let path = &draft.path;
                    let top = draft.top(nodes, node);
                    path.inner(level).set_child(path.index(level), top);
                    path.settle_gaps(level, node.gap);
                }
            }
            let mut less = 0;
            for &(node, level) in gone.iter() {
                let p = mem.at(node);
                let (bytes, kind) = match level {
                    0 => {
                        let leaf = Leaf::<W>::at(p);
                        less += leaf.len();
                        (leaf.bytes(), LEAF)
                    }
                    _ => (Inner::<W>::at(p).bytes(), INNER),
                };
                self.give(node, bytes, kind);
            }
            self.add_len(more, less);
        }
    }
}

/// Puts the value of a right part into its entry's slot, where that entry has no other part, and
/// returns the value that was there. Otherwise returns what the new entry's slot will hold.
///
/// # Safety
/// The slot is that of a live entry.
unsafe fn put_right<V>(right: Option<RightPart<V>>) -> (Option<V>, Option<Filling<V>>) {
    match right {
        None => (None, None),
        Some(part) if part.both => (None, Some(Filling::new(part.value))),
        // SAFETY: the caller's promise.
        Some(part) => (
            Some(unsafe { place::<V>(part.slot).replace(part.value) }),
            None,
        ),
    }
}

/// The lists of a change that is not made in place.
struct Scratch<W> {
    draft: Draft<W>,
    nodes: Vec<u32>,
    gone: Vec<(u32, usize)>,
}

/// Lists of more nodes are not kept for the next change.
#[cfg(feature = "std")]
const GONE_MOST: usize = 1 << 10;

#[cfg(feature = "std")]
std::thread_local! {
    /// The lists that this thread has used last, for each width of words: they have nothing of a
    /// map.
    static SCRATCH: [Cell<Option<Box<dyn Any>>>; 2] = const { [const { Cell::new(None) }; 2] };
}

impl<W: Word> Scratch<W> {
    #[cfg(feature = "std")]
    const PLACE: usize = (W::BITS > 64) as usize;

    /// The lists of this thread, or new ones.
    fn borrow() -> Box<Scratch<W>> {
        #[cfg(feature = "std")]
        {
            let kept = SCRATCH.try_with(|kept| kept[Self::PLACE].take());
            if let Some(kept) = kept.ok().flatten().and_then(|kept| kept.downcast().ok()) {
                return kept;
            }
        }
        Box::new(Scratch {
            draft: Draft::new(),
            nodes: Vec::new(),
            gone: Vec::new(),
        })
    }

    /// Drafts a change.
    fn make<V>(&mut self, owned: &Owned<V, W>, range: (W, W), put: bool) {
        let Owned { limits, .. } = owned;
        // SAFETY: the tree is live, and borrowed until the draft is carried out or made anew.
        unsafe {
            self.draft
                .make::<false>(owned.mem(), owned.root(), limits, range, put);
        }
    }

    /// Keeps the lists for the thread's next change.
    #[cfg(feature = "std")]
    fn give_back(self: Box<Self>) {
        if self.gone.capacity() <= GONE_MOST {
            // Where the thread ends, they are dropped.
            let _ = SCRATCH.try_with(|kept| kept[Self::PLACE].set(Some(self)));
        }
    }
}
