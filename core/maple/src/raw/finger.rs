//! Steps through the entries of a tree that changes: each step sees the map as it is then.
//!
//! A finger stays in its leaf as long as the leaf is part of the map: the parent's cell still names
//! it, and the parent has not been replaced. Otherwise it finds its place again from the root.

use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use super::node::{Inner, Leaf, Mem};
use super::path::Root;
use super::read::{Found, Tree};
use crate::sync;

/// The place of the newest tree.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
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
}

impl Source<'_> {
    #[inline(always)]
    pub(crate) fn tree(self) -> Tree {
        sync::point();
        let root = Root::from_word(self.root.load(Ordering::Acquire));
        Tree {
            mem: self.mem(),
            root,
            native: self.native,
            settles: self.settles,
        }
    }

    #[inline(always)]
    fn mem(self) -> Mem {
        Mem(self.base.load(Ordering::Relaxed))
    }
}

/// An entry: its borders, and the address of its slot.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) slot: *const u8,
}

impl Entry {
    #[inline(always)]
    pub(crate) fn new(leaf: &Leaf, k: usize, slot: usize) -> Entry {
        let (start, end, slot) = leaf.entry(k, slot);
        Entry { start, end, slot }
    }
}

/// A place among the entries, for steps in one direction.
#[derive(Clone, Copy)]
pub(crate) struct Finger<'a> {
    source: Source<'a>,
    at: Option<Found>,
    /// The entry of the last step.
    k: usize,
    /// Where the next step begins, if it continues from the last one.
    next: u64,
}

impl<'a> Finger<'a> {
    /// # Safety
    /// Nothing that the source's root reaches, or reached since, is freed while this is used.
    pub(crate) unsafe fn new(source: Source<'a>) -> Self {
        Finger {
            source,
            at: None,
            k: 0,
            next: 0,
        }
    }

    /// Whether a leaf is part of the map.
    #[inline(always)]
    fn is_current(&self, at: &Found) -> bool {
        match at.parent {
            Some((parent, i)) => parent.child(i) == at.node && self.is_part(parent),
            None => self.is_root(at.node),
        }
    }

    /// Whether an inner node is part of the tree. A snapshot's nodes are, also when the map has
    /// replaced them.
    #[inline(always)]
    fn is_part(&self, inner: Inner) -> bool {
        !inner.is_replaced() || self.source.frozen
    }

    fn is_root(&self, node: u32) -> bool {
        sync::point();
        let word = self.source.root.load(Ordering::Acquire);
        word == Root { node, height: 0 }.word()
    }

    fn seek(&mut self, x: u64) -> Option<&Found> {
        // SAFETY: the promise of `new`.
        self.at = unsafe { self.source.tree().find(x) };
        self.at.as_ref()
    }

    /// The leaf of another child of the parent.
    fn turn(&self, at: &Found, parent: Inner, i: usize) -> Found {
        let node = parent.child(i);
        let mem = self.source.mem();
        if i + 1 < parent.len() {
            // The walk needs the leaf behind it next.
            super::read::prefetch_node(mem.at(parent.child(i + 1)));
        }
        Found {
            // SAFETY: the promise of `new`; a leaf's parent has leaves.
            leaf: unsafe { Leaf::at(mem.at(node)) },
            node,
            lower: match i {
                0 => at.parent_lower,
                _ => parent.pivot(i - 1).wrapping_add(1),
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
    pub(crate) fn forward(&mut self, x: u64) -> Option<Entry> {
        if let Some(at) = &self.at {
            let k = self.k + 1;
            if x == self.next && k < at.leaf.len() && self.is_current(at) {
                let entry = Entry::new(&at.leaf, k, self.source.slot);
                self.k = k;
                self.next = entry.end.wrapping_add(1);
                return Some(entry);
            }
        }
        self.forward_far(x)
    }

    /// Folds over the entries from the first one that ends at or after `x` to the last one that
    /// starts at or before `to`. Each step sees the map as it is then, as the steps of
    /// [`forward`](Self::forward) do. One loop walks a leaf as long as it is part of the map.
    #[inline]
    pub(crate) fn fold<B>(
        &mut self,
        mut x: u64,
        to: u64,
        mut result: B,
        mut each: impl FnMut(B, Entry) -> B,
    ) -> B {
        if self.source.frozen {
            return self.fold_frozen(x, to, result, each);
        }
        let slot = self.source.slot;
        while let Some(mut entry) = self.forward_far(x) {
            let Some(at) = self.at else {
                unreachable!("the finger is in a leaf")
            };
            loop {
                if entry.start > to {
                    return result;
                }
                let end = entry.end;
                result = each(result, entry);
                if end >= to {
                    return result;
                }
                x = end + 1;
                let k = self.k + 1;
                if k >= at.leaf.len() || !self.is_current(&at) {
                    break;
                }
                entry = Entry::new(&at.leaf, k, slot);
                self.k = k;
            }
            self.next = x;
        }
        result
    }

    /// As [`fold`](Self::fold) over nodes that stay as they are: nothing is looked at twice.
    #[inline]
    fn fold_frozen<B>(
        &mut self,
        x: u64,
        to: u64,
        mut result: B,
        mut each: impl FnMut(B, Entry) -> B,
    ) -> B {
        let (slot, mem) = (self.source.slot, self.source.mem());
        if self.forward_far(x).is_none() {
            return result;
        }
        let (Some(mut at), mut k) = (self.at, self.k) else {
            return result;
        };
        loop {
            let (leaf, last) = (at.leaf, at.leaf.last());
            let count = match last <= to {
                true => leaf.len(),
                false => leaf.starting_by(to),
            };
            let entries = (k.min(count), count);
            result = leaf.fold(entries, slot, result, |result, start, end, slot| {
                each(result, Entry { start, end, slot })
            });
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
                    at.leaf = unsafe { Leaf::at(mem.at(node)) };
                }
                Some(_) if at.parent_upper < u64::MAX => {
                    // SAFETY: the promise of `new`.
                    match unsafe { self.source.tree().find(last + 1) } {
                        Some(next) => at = next,
                        None => return result,
                    }
                }
                _ => return result,
            }
        }
    }

    fn forward_far(&mut self, mut x: u64) -> Option<Entry> {
        if let Some(at) = &self.at {
            if let Some((parent, i)) = at.parent {
                let ends = self.k + 1 == at.leaf.len() && i + 1 < parent.len();
                if ends && x == self.next && self.is_current(at) {
                    let next = self.turn(at, parent, i + 1);
                    // A parent that has been replaced may lead to nodes that are no longer part of
                    // the map.
                    if self.is_part(parent) {
                        self.at = Some(next);
                        return Some(self.step(0, |entry| entry.end.wrapping_add(1)));
                    }
                }
            }
        }
        loop {
            let at = self.seek(x)?;
            let k = at.leaf.rank::<false>(x);
            if k < at.leaf.len() {
                return Some(self.step(k, |entry| entry.end.wrapping_add(1)));
            }
            // Only the last leaf has indices behind its last entry.
            let upper = at.upper;
            self.at = None;
            x = upper.checked_add(1)?;
        }
    }

    fn step(&mut self, k: usize, next: impl FnOnce(&Entry) -> u64) -> Entry {
        let Some(at) = &self.at else {
            unreachable!("the finger is in a leaf")
        };
        let entry = Entry::new(&at.leaf, k, self.source.slot);
        self.k = k;
        self.next = next(&entry);
        entry
    }

    /// The last entry that starts at or before `x`, which lies before the entry of the step before.
    #[inline(always)]
    pub(crate) fn backward(&mut self, x: u64) -> Option<Entry> {
        if let Some(at) = &self.at {
            if x == self.next && self.k > 0 && self.is_current(at) {
                let entry = Entry::new(&at.leaf, self.k - 1, self.source.slot);
                self.k -= 1;
                self.next = entry.start.wrapping_sub(1);
                return Some(entry);
            }
        }
        self.backward_far(x)
    }

    fn backward_far(&mut self, mut x: u64) -> Option<Entry> {
        loop {
            let at = self.seek(x)?;
            let k = at.leaf.rank::<false>(x);
            let inside = k < at.leaf.len() && at.leaf.start(k) <= x;
            if let Some(k) = (k + usize::from(inside)).checked_sub(1) {
                return Some(self.step(k, |entry| entry.start.wrapping_sub(1)));
            }
            let lower = at.lower;
            self.at = None;
            x = lower.checked_sub(1)?;
        }
    }
}
