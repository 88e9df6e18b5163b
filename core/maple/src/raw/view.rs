//! Views of a tree: what readers ask.

use core::convert::Infallible;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering};

use sapwood_format::maple::header;

use super::finger::{Entry, Finger, Source};
use super::node::{Leaf, Mem};
use super::read::{Found, Tree};
use super::seen::Published;
use super::values::{Apart, Values};
use crate::gap::Fit;
use sapwood_format::maple::word::Word;

/// The tree that a root word named, for as long as nothing is freed that it reaches.
pub(crate) struct Frozen<'g, V, W> {
    tree: Published,
    values: PhantomData<(&'g V, W)>,
}

impl<V, W: Word> Frozen<'_, V, W> {
    #[inline]
    pub(crate) fn view(&self) -> View<'_, V, W> {
        // SAFETY: the view that this was made of has promised it for its lifetime.
        unsafe { View::new(&self.tree) }
    }
}

/// A map, for reading.
pub(crate) struct View<'g, V, W> {
    tree: &'g Published,
    /// The word of the root, which is not `tree`'s in other processes.
    root: &'g AtomicU64,
    values: PhantomData<(&'g V, W)>,
}

impl<V, W: Word> Clone for View<'_, V, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V, W: Word> Copy for View<'_, V, W> {}

impl<'g, V, W: Word> View<'g, V, W> {
    /// # Safety
    /// For `'g`, no node is freed that the root reaches, or has reached since this was made. Slots
    /// hold values of this type, or references of their blocks.
    pub(super) unsafe fn new(tree: &'g Published) -> Self {
        View {
            tree,
            root: &tree.root,
            values: PhantomData,
        }
    }

    /// A view of the tree whose root word is this one.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    #[inline]
    pub(super) unsafe fn with_root(tree: &'g Published, root: &'g AtomicU64) -> Self {
        View {
            tree,
            root,
            values: PhantomData,
        }
    }

    #[inline(always)]
    pub(crate) fn source(self) -> Source<'g, W> {
        Source {
            base: &self.tree.base,
            root: self.root,
            native: self.tree.native,
            slot: self.tree.slot,
            frozen: self.tree.frozen,
            settles: self.tree.settles,
            words: PhantomData,
        }
    }

    #[inline(always)]
    pub(crate) fn tree(self) -> Tree<W> {
        self.source().tree()
    }

    /// The tree that the root word names now.
    pub(crate) fn freeze(self) -> Frozen<'g, V, W> {
        Frozen {
            tree: self
                .tree
                .freeze_at(self.root.load(Ordering::Acquire), self.len()),
            values: PhantomData,
        }
    }

    /// Steps through entries.
    pub(crate) fn finger(self) -> Finger<'g, W> {
        // SAFETY: the promise of `new`.
        unsafe { Finger::new(self.source()) }
    }

    /// Folds over the entries from the first one that ends at or after `x` to the last one that
    /// starts at or before `to`, as [`Finger::fold`] does.
    #[inline]
    pub(crate) fn fold<B>(
        self,
        finger: &mut Finger<'g, W>,
        (x, to): (W, W),
        result: B,
        mut each: impl FnMut(B, W, W, &'g V) -> B,
    ) -> B {
        match self.tree.values {
            // The loop asks no more where the values lie.
            Values::InSlots => finger.fold(x, to, result, |result, entry| {
                // SAFETY: as in `value`.
                let value = unsafe { &*entry.slot.cast::<V>() };
                each(result, entry.start, entry.end, value)
            }),
            _ => finger.fold(x, to, result, |result, entry| {
                each(result, entry.start, entry.end, self.value(entry.slot))
            }),
        }
    }

    /// The leaf whose bounds hold `x`.
    pub(crate) fn find(self, x: W) -> Option<Found<W>> {
        // SAFETY: the promise of `new`.
        unsafe { self.tree().find(x) }
    }

    /// The first index of the place that a search finds.
    pub(crate) fn place(self, fit: &Fit<W>) -> Option<W> {
        // SAFETY: the promise of `new`.
        let found = fit.search(|fit| Ok::<_, Infallible>(unsafe { self.tree().place(fit) }));
        match found {
            Ok(found) => found,
        }
    }

    pub(crate) fn len(self) -> usize {
        match self.tree.word(header::LEN) {
            Some(word) => word.load(Ordering::Acquire) as usize,
            None => self.tree.len.load(Ordering::Acquire),
        }
    }

    /// The value of an entry, by its slot, which is one of the map's.
    #[inline(always)]
    pub(crate) fn value(self, slot: *const u8) -> &'g V {
        // SAFETY: an entry's slot holds a value, or the reference of its block, or its address;
        // none is freed or changed for `'g`.
        unsafe {
            match self.tree.values {
                Values::InSlots => &*slot.cast::<V>(),
                Values::Apart => {
                    let base = Mem(self.tree.base.load(Ordering::Relaxed));
                    let r = slot.cast::<u32>().read();
                    &*Apart::<V>::place(base.at(r))
                }
                Values::Boxed => &**slot.cast::<*const V>(),
            }
        }
    }

    /// The entry that holds `x`.
    #[inline(always)]
    pub(crate) fn entry(self, x: W) -> Option<Entry<W>> {
        // SAFETY: the promise of `new`.
        let (leaf, k) = unsafe { self.tree().entry(x) }?;
        Some(Entry::<W>::new(&leaf, k, self.tree.slot))
    }

    /// An entry of a leaf that was found here.
    pub(crate) fn entry_of(self, leaf: &Leaf<W>, k: usize) -> Entry<W> {
        Entry::<W>::new(leaf, k, self.tree.slot)
    }

    /// The value of the entry that holds `x`.
    #[inline(always)]
    pub(crate) fn get(self, x: W) -> Option<&'g V> {
        // SAFETY: the promise of `new`.
        let (leaf, k) = unsafe { self.tree().entry(x) }?;
        Some(self.value(leaf.slot(k, self.tree.slot)))
    }
}
