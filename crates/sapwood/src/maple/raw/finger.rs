//! Steps through the entries of a tree that changes: each sees the map as it is then.
//!
//! A finger stays in its leaf as long as the leaf is part of the map: the parent's cell still names it, and the parent has
//! not been replaced. Otherwise it finds its place again from the root.

use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use super::node::{Inner, Leaf, Mem};
use super::path::Root;
use super::read::{Found, Tree};
use crate::sync;

/// Where the newest tree is.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    /// The arena's base, stored before the first root.
    pub(crate) base: &'a AtomicPtr<u8>,
    pub(crate) root: &'a AtomicU64,
    pub(crate) native: bool,
}

impl Source<'_> {
    #[inline(always)]
    pub(crate) fn tree(self) -> Tree {
        sync::point();
        let root = Root::of(self.root.load(Ordering::Acquire));
        Tree {
            mem: self.mem(),
            root,
            native: self.native,
        }
    }

    #[inline(always)]
    fn mem(self) -> Mem {
        Mem(self.base.load(Ordering::Relaxed))
    }
}

/// An entry: its borders, and where its slot is.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) leaf: Leaf,
    pub(crate) k: usize,
}

impl Entry {
    fn of(leaf: Leaf, k: usize) -> Entry {
        Entry {
            start: leaf.start(k),
            end: leaf.end(k),
            leaf,
            k,
        }
    }
}

/// A place among the entries, for steps one way.
#[derive(Clone, Copy)]
pub(crate) struct Finger<'a> {
    source: Source<'a>,
    at: Option<Found>,
    /// The entry of the last step.
    k: usize,
}

impl<'a> Finger<'a> {
    /// # Safety
    /// Nothing that the source's root reaches, or reached since, is freed while this is used.
    pub(crate) unsafe fn new(source: Source<'a>) -> Self {
        Finger {
            source,
            at: None,
            k: 0,
        }
    }

    /// Whether the leaf is part of the map.
    #[inline(always)]
    fn is_current(&self, at: &Found) -> bool {
        match at.parent {
            Some((parent, i)) => parent.child(i) == at.node && !parent.is_replaced(),
            None => {
                sync::point();
                let word = self.source.root.load(Ordering::Acquire);
                word == Root {
                    node: at.node,
                    height: 0,
                }
                .word()
            }
        }
    }

    fn seek(&mut self, x: u64) -> Option<Found> {
        // SAFETY: the promise of `new`.
        self.at = unsafe { self.source.tree().find(x) };
        self.at
    }

    /// The leaf of a parent's other child.
    fn turn(&mut self, at: &Found, parent: Inner, i: usize) -> Found {
        let node = parent.child(i);
        super::read::prefetch_node(self.source.mem().at(node));
        let found = Found {
            // SAFETY: the promise of `new`; a leaf's parent has leaves.
            leaf: unsafe { Leaf::at(self.source.mem().at(node)) },
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
        };
        self.at = Some(found);
        found
    }

    /// The first entry that ends at or after `x`, which lies behind the entry of the step before.
    #[inline]
    pub(crate) fn forward(&mut self, mut x: u64) -> Option<Entry> {
        if let Some(at) = self.at.filter(|at| self.is_current(at)) {
            let k = self.k + 1;
            if k < at.leaf.len() && at.leaf.end(self.k) < x && at.leaf.end(k) >= x {
                self.k = k;
                return Some(Entry::of(at.leaf, k));
            }
            if let Some((parent, i)) = at.parent {
                if k == at.leaf.len() && i + 1 < parent.len() && x == at.upper.wrapping_add(1) {
                    let next = self.turn(&at, parent, i + 1);
                    // A parent that has been replaced since may lead to what is no longer there.
                    if !parent.is_replaced() {
                        self.k = 0;
                        return Some(Entry::of(next.leaf, 0));
                    }
                }
            }
        }
        loop {
            let at = self.seek(x)?;
            self.k = at.leaf.rank(x);
            if self.k < at.leaf.len() {
                return Some(Entry::of(at.leaf, self.k));
            }
            // Only the last leaf has indices behind its last entry.
            self.at = None;
            if at.upper == u64::MAX {
                return None;
            }
            x = at.upper + 1;
        }
    }

    /// The last entry that starts at or before `x`, which lies before the entry of the step before.
    #[inline]
    pub(crate) fn backward(&mut self, mut x: u64) -> Option<Entry> {
        if let Some(at) = self.at.filter(|at| self.is_current(at)) {
            if self.k > 0 && at.leaf.start(self.k) > x && at.leaf.start(self.k - 1) <= x {
                self.k -= 1;
                return Some(Entry::of(at.leaf, self.k));
            }
        }
        loop {
            let at = self.seek(x)?;
            let k = at.leaf.rank(x);
            let inside = k < at.leaf.len() && at.leaf.start(k) <= x;
            if let Some(k) = (k + usize::from(inside)).checked_sub(1) {
                self.k = k;
                return Some(Entry::of(at.leaf, k));
            }
            self.at = None;
            x = at.lower.checked_sub(1)?;
        }
    }
}
