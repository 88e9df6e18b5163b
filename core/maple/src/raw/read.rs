//! Reading: the path down to a leaf, and the entry in it that holds an index.

use core::marker::PhantomData;

use sapwood_arena::prefetch;
use sapwood_format::maple::word::Word;

use super::node::{Inner, Leaf, Mem};
use super::path::Root;

/// Whether the processor has the wide comparisons that [`native`] asks for.
pub(crate) fn has_native() -> bool {
    #[cfg(all(
        target_arch = "x86_64",
        target_feature = "sse2",
        feature = "std",
        not(miri)
    ))]
    return std::arch::is_x86_feature_detected!("avx2")
        && std::arch::is_x86_feature_detected!("bmi2")
        && std::arch::is_x86_feature_detected!("popcnt");
    // Without the standard library, it has what the program was compiled for.
    #[cfg(not(all(
        target_arch = "x86_64",
        target_feature = "sse2",
        feature = "std",
        not(miri)
    )))]
    return cfg!(all(
        target_feature = "avx2",
        target_feature = "bmi2",
        target_feature = "popcnt",
        not(miri)
    ));
}

/// Prefetches the cache lines of a node of usual size.
#[inline(always)]
pub(crate) fn prefetch_node(p: *const u8) {
    (0..8).for_each(|line| prefetch(p.wrapping_add(line * 64)));
}

/// A tree, for reading.
#[derive(Clone, Copy)]
pub(crate) struct Tree<W> {
    pub(crate) mem: Mem,
    pub(crate) root: Root,
    /// What [`has_native`] said.
    pub(crate) native: bool,
    /// Whether searches lower gap words that say too much: those of a map that is changed in place.
    pub(crate) settles: bool,
    pub(crate) words: PhantomData<W>,
}

/// A leaf that a reader reached, with the bounds that the inner nodes gave it.
#[derive(Clone, Copy)]
pub(crate) struct Found<W> {
    pub(crate) leaf: Leaf<W>,
    pub(crate) node: u32,
    pub(crate) lower: W,
    /// The upper bound. That of the last leaf is the highest index.
    pub(crate) upper: W,
    /// The leaf's parent, if it is not the root, and the bounds of that.
    pub(crate) parent: Option<(Inner<W>, usize)>,
    pub(crate) parent_lower: W,
    pub(crate) parent_upper: W,
}

impl<W: Word> Tree<W> {
    /// The leaf whose bounds hold `x`.
    ///
    /// # Safety
    /// What the root reaches is not freed while this is used; the tree is not empty.
    #[inline(always)]
    unsafe fn leaf<const NATIVE: bool>(self, x: W) -> Leaf<W> {
        let mut node = self.root.node;
        // SAFETY: the caller's promise, and what levels say of nodes.
        unsafe {
            for _ in 0..self.root.height {
                let inner = Inner::<W>::at(self.mem.at(node));
                node = inner.child(inner.find::<NATIVE>(x));
                prefetch_node(self.mem.at(node));
            }
            Leaf::<W>::at(self.mem.at(node))
        }
    }

    /// The entry that holds `x`: its leaf and its place there.
    ///
    /// # Safety
    /// As for [`leaf`](Self::leaf).
    #[inline(always)]
    unsafe fn entry_by<const NATIVE: bool>(self, x: W) -> Option<(Leaf<W>, usize)> {
        // SAFETY: the caller's promise.
        let leaf = unsafe { self.leaf::<NATIVE>(x) };
        let k = leaf.rank::<NATIVE>(x);
        (k < leaf.len() && leaf.start(k) <= x).then_some((leaf, k))
    }

    /// # Safety
    /// As for [`leaf`](Self::leaf); the processor has what [`has_native`] asks for.
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    unsafe fn entry_native(self, x: W) -> Option<(Leaf<W>, usize)> {
        // SAFETY: the caller's promise.
        unsafe { self.entry_by::<true>(x) }
    }

    /// The entry that holds `x`: its leaf and its place there.
    ///
    /// # Safety
    /// What the root reaches is not freed while this is used.
    #[inline(always)]
    pub(crate) unsafe fn entry(self, x: W) -> Option<(Leaf<W>, usize)> {
        if self.root.node == 0 {
            return None;
        }
        // SAFETY: the caller's promise.
        unsafe {
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
            if self.native {
                return self.entry_native(x);
            }
            #[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(miri))))]
            let _ = self.native;
            self.entry_by::<false>(x)
        }
    }

    /// The leaf whose bounds hold `x`, with its bounds.
    ///
    /// # Safety
    /// As for [`entry`](Self::entry).
    #[inline(never)]
    pub(crate) unsafe fn find(self, x: W) -> Option<Found<W>> {
        let Root { mut node, height } = self.root;
        if node == 0 {
            return None;
        }
        let (mut lower, mut upper) = (W::ZERO, W::MAX);
        let (mut parent, mut parent_lower, mut parent_upper) = (None, W::ZERO, W::MAX);
        for _ in 0..height {
            // SAFETY: the caller's promise, and what levels say of nodes.
            let inner = unsafe { Inner::<W>::at(self.mem.at(node)) };
            let i = inner.find::<false>(x);
            (parent, parent_lower, parent_upper) = (Some((inner, i)), lower, upper);
            if i > 0 {
                lower = inner.pivot(i - 1).above();
            }
            if i + 1 < inner.len() {
                upper = inner.pivot(i);
            }
            node = inner.child(i);
            prefetch_node(self.mem.at(node));
        }
        Some(Found {
            // SAFETY: as above; level 0.
            leaf: unsafe { Leaf::<W>::at(self.mem.at(node)) },
            node,
            lower,
            upper,
            parent,
            parent_lower,
            parent_upper,
        })
    }
}
