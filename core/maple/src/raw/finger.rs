//! Steps through the entries of a tree that changes: each step sees the map as it is then.
//!
//! A finger stays in its leaf as long as the leaf is part of the map: the parent's cell still names
//! it, and the parent has not been replaced. Otherwise it finds its place again from the root.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use sapwood_format::maple::word::Word;

use super::node::{Inner, Leaf, Mem};
use super::path::Root;
use super::read::{Found, Tree};
use crate::sync;

/// The place of the newest tree.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a, W> {
    /// The arena's base, stored before the first root.
    pub(crate) base: &'a AtomicPtr<u8>,
    pub(crate) root: &'a AtomicU64,
    pub(crate) native: bool,
    /// Bytes of a slot.
    pub(crate) slot: usize,
    /// Whether the nodes of the tree stay as they are, as in a snapshot.
    pub(crate) frozen: bool,
    /// As of [`Tree`].
    pub(crate) settles: bool,
    pub(crate) words: PhantomData<W>,
}

impl<W: Word> Source<'_, W> {
    #[inline(always)]
    pub(crate) fn tree(self) -> Tree<W> {
        sync::point();
        let root = Root::from_word(self.root.load(Ordering::Acquire));
        Tree {
            mem: self.mem(),
            root,
            native: self.native,
            settles: self.settles,
            words: PhantomData,
        }
    }

    #[inline(always)]
    fn mem(self) -> Mem {
        Mem(self.base.load(Ordering::Relaxed))
    }
}

/// An entry: its borders, and the address of its slot.
#[derive(Clone, Copy)]
pub(crate) struct Entry<W> {
    pub(crate) start: W,
    pub(crate) end: W,
    pub(crate) slot: *const u8,
}

impl<W: Word> Entry<W> {
    #[inline(always)]
    pub(crate) fn new(leaf: &Leaf<W>, k: usize, slot: usize) -> Entry<W> {
        let (start, end, slot) = leaf.entry(k, slot);
        Entry { start, end, slot }
    }
}

/// A place among the entries, for steps in one direction.
#[derive(Clone, Copy)]
pub(crate) struct Finger<'a, W> {
    source: Source<'a, W>,
    at: Option<Found<W>>,
    /// The entry of the last step.
    k: usize,
    /// Where the next step begins, if it continues from the last one.
    next: W,
}

impl<'a, W: Word> Finger<'a, W> {
    /// # Safety
    /// Nothing that the source's root reaches, or reached since, is freed while this is used.
    pub(crate) unsafe fn new(source: Source<'a, W>) -> Self {
        Finger {
            source,
            at: None,
            k: 0,
            next: W::ZERO,
        }
    }

    /// Whether a leaf is part of the map.
    #[inline(always)]
    fn is_current(&self, at: &Found<W>) -> bool {
        match at.parent {
            Some((parent, i)) => parent.child(i) == at.node && self.is_part(parent),
            None => self.is_root(at.node),
        }
    }

    /// Whether an inner node is part of the tree. A snapshot's nodes are, also when the map has
    /// replaced them.
    #[inline(always)]
    fn is_part(&self, inner: Inner<W>) -> bool {
        !inner.is_replaced() || self.source.frozen
    }

    fn is_root(&self, node: u32) -> bool {
        sync::point();
        let word = self.source.root.load(Ordering::Acquire);
        word == Root { node, height: 0 }.word()
    }

    fn seek(&mut self, x: W) -> Option<&Found<W>> {
        // SAFETY: the promise of `new`.
        self.at = unsafe { self.source.tree().find(x) };
        self.at.as_ref()
    }

    /// The leaf of another child of the parent.
    fn turn(&self, at: &Found<W>, parent: Inner<W>, i: usize) -> Found<W> {
        let node = parent.child(i);
        let mem = self.source.mem();
        if i + 1 < parent.len() {
            // The walk needs the leaf behind it next.
            super::read::prefetch_node(mem.at(parent.child(i + 1)));
        }
        Found {
            // SAFETY: the promise of `new`; a leaf's parent has leaves.
            leaf: unsafe { Leaf::<W>::at(mem.at(node)) },
            node,
            lower: match i {
                0 => at.parent_lower,
                _ => parent.pivot(i - 1).above(),
            },
            upper: if i + 1 < parent.len() {
                parent.pivot(i)
            } else {
                at.parent_upper
            },
            parent: Some((parent, i)),
            ..*at
        }
    }

    /// The first entry that ends at or after `x`, which lies behind the entry of the step before.
    #[inline(always)]
    pub(crate) fn forward(&mut self, x: W) -> Option<Entry<W>> {
        if let Some(at) = &self.at {
            let k = self.k + 1;
            if x == self.next && k < at.leaf.len() && self.is_current(at) {
                let entry = Entry::<W>::new(&at.leaf, k, self.source.slot);
                self.k = k;
                self.next = entry.end.above();
                return Some(entry);
            }
        }
        self.forward_far(x)
    }

    /// Folds over the entries from the first one that ends at or after `x` to the last one that
    /// starts at or before `to`. It sees each leaf as it was when the walk came to it.
    #[inline]
    pub(crate) fn fold<B>(
        &mut self,
        mut x: W,
        to: W,
        mut result: B,
        mut each: impl FnMut(B, Entry<W>) -> B,
    ) -> B {
        if self.source.frozen {
            return self.fold_frozen(x, to, result, each);
        }
        while self.forward_far(x).is_some() {
            let Some(Found { leaf, .. }) = self.at else {
                unreachable!("the finger is in a leaf")
            };
            let last = leaf.last();
            result = self.fold_leaf(leaf, (self.k, to), result, &mut each);
            if last >= to {
                return result;
            }
            // The next step goes on behind the leaf's last entry.
            self.k = leaf.len() - 1;
            x = last + W::ONE;
            self.next = x;
        }
        result
    }

    /// Folds over the entries of a leaf, from one on, that start at or before `to`.
    #[inline(always)]
    fn fold_leaf<B>(
        &self,
        leaf: Leaf<W>,
        (k, to): (usize, W),
        result: B,
        each: &mut impl FnMut(B, Entry<W>) -> B,
    ) -> B {
        let count = match leaf.last() <= to {
            true => leaf.len(),
            false => leaf.starting_by(to),
        };
        let entries = (k.min(count), count);
        leaf.fold(
            entries,
            self.source.slot,
            result,
            |result, start, end, slot| each(result, Entry { start, end, slot }),
        )
    }

    /// As [`fold`](Self::fold) over nodes that stay as they are: nothing is looked at twice.
    #[inline]
    fn fold_frozen<B>(
        &mut self,
        x: W,
        to: W,
        mut result: B,
        mut each: impl FnMut(B, Entry<W>) -> B,
    ) -> B {
        let mem = self.source.mem();
        if self.forward_far(x).is_none() {
            return result;
        }
        let (Some(mut at), mut k) = (self.at, self.k) else {
            return result;
        };
        loop {
            let last = at.leaf.last();
            result = self.fold_leaf(at.leaf, (k, to), result, &mut each);
            if last >= to {
                return result;
            }
            k = 0;
            match &mut at.parent {
                Some((parent, i)) if *i + 1 < parent.len() => {
                    *i += 1;
                    let node = parent.child(*i);
                    if *i + 1 < parent.len() {
                        super::read::prefetch_node(mem.at(parent.child(*i + 1)));
                    }
                    // SAFETY: the promise of `new`; a leaf's parent has leaves.
                    at.leaf = unsafe { Leaf::<W>::at(mem.at(node)) };
                }
                Some(_) if at.parent_upper < W::MAX => {
                    // SAFETY: the promise of `new`.
                    match unsafe { self.source.tree().find(last + W::ONE) } {
                        Some(next) => at = next,
                        None => return result,
                    }
                }
                _ => return result,
            }
        }
    }

    #[inline(never)]
    fn forward_far(&mut self, mut x: W) -> Option<Entry<W>> {
        if let Some(at) = &self.at {
            if let Some((parent, i)) = at.parent {
                let ends = self.k + 1 == at.leaf.len() && i + 1 < parent.len();
                if ends && x == self.next && self.is_current(at) {
                    let next = self.turn(at, parent, i + 1);
                    // A parent that has been replaced may lead to nodes that are no longer part of
                    // the map.
                    if self.is_part(parent) {
                        self.at = Some(next);
                        return Some(self.step(0, |entry| entry.end.above()));
                    }
                }
            }
        }
        loop {
            let at = self.seek(x)?;
            let k = at.leaf.rank::<false>(x);
            if k < at.leaf.len() {
                return Some(self.step(k, |entry| entry.end.above()));
            }
            // Only the last leaf has indices behind its last entry.
            let upper = at.upper;
            self.at = None;
            x = upper.checked_add(W::ONE)?;
        }
    }

    fn step(&mut self, k: usize, next: impl FnOnce(&Entry<W>) -> W) -> Entry<W> {
        let Some(at) = &self.at else {
            unreachable!("the finger is in a leaf")
        };
        let entry = Entry::<W>::new(&at.leaf, k, self.source.slot);
        self.k = k;
        self.next = next(&entry);
        entry
    }

    /// The last entry that starts at or before `x`, which lies before the entry of the step before.
    #[inline(always)]
    pub(crate) fn backward(&mut self, x: W) -> Option<Entry<W>> {
        if let Some(at) = &self.at {
            if x == self.next && self.k > 0 && self.is_current(at) {
                let entry = Entry::<W>::new(&at.leaf, self.k - 1, self.source.slot);
                self.k -= 1;
                self.next = entry.start.below();
                return Some(entry);
            }
        }
        self.backward_far(x)
    }

    #[inline(never)]
    fn backward_far(&mut self, mut x: W) -> Option<Entry<W>> {
        loop {
            let at = self.seek(x)?;
            let k = at.leaf.rank::<false>(x);
            let inside = k < at.leaf.len() && at.leaf.start(k) <= x;
            if let Some(k) = (k + usize::from(inside)).checked_sub(1) {
                return Some(self.step(k, |entry| entry.start.below()));
            }
            let lower = at.lower;
            self.at = None;
            x = lower.checked_sub(W::ONE)?;
        }
    }
}
