//! The tree as readers find it: in this process, and, where the map is published in an arena, in
//! others.

use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use sapwood_format::maple::header;

use super::path::Root;
use super::values::Values;
use crate::sync;

/// A tree as readers see it: the map's newest one, or the one of a snapshot.
pub(crate) struct Published {
    pub(super) root: CachePadded<AtomicU64>,
    /// The arena's base, once there is a root.
    pub(super) base: AtomicPtr<u8>,
    pub(super) len: AtomicUsize,
    pub(super) values: Values,
    pub(super) slot: usize,
    pub(super) native: bool,
    /// Whether the nodes of the tree stay as they are.
    pub(super) frozen: bool,
    /// Whether searches lower gap words that say too much.
    pub(super) settles: bool,
    /// The offset from the base of the root words in the arena's header page, by which other
    /// processes read the tree.
    pub(super) header: Option<usize>,
}

impl Published {
    /// An empty tree that only its owner reads, while it stays as it is.
    pub(super) fn owned(values: Values, slot: usize, native: bool) -> Published {
        Published {
            root: CachePadded::default(),
            base: AtomicPtr::new(core::ptr::null_mut()),
            len: AtomicUsize::new(0),
            values,
            slot,
            native,
            frozen: true,
            settles: true,
            header: None,
        }
    }

    /// A word of the header page, if the map is published.
    #[inline]
    pub(super) fn word(&self, index: usize) -> Option<&AtomicU64> {
        let at = self.header? + 8 * index;
        let base = self.base.load(Ordering::Relaxed);
        // SAFETY: a word of the header page, aligned, which is accessed only as an atomic. The page
        // is mapped as long as the tree is: the arena of a published map has a header page from the
        // beginning, and so has what `MaplePublished` reads.
        Some(unsafe { AtomicU64::from_ptr(base.add(at).cast()) })
    }

    /// Makes this the root that readers find.
    pub(super) fn publish_root(&self, root: Root) {
        sync::store_point();
        self.root.store(root.word(), Ordering::Release);
        if let Some(word) = self.word(header::ROOT) {
            sync::store_point();
            word.store(root.word(), Ordering::Release);
        }
    }

    /// Makes this the number of entries.
    #[inline]
    pub(super) fn publish_len(&self, len: usize) {
        self.len.store(len, Ordering::Release);
        if let Some(word) = self.word(header::LEN) {
            #[cfg(test)]
            sync::store_point();
            word.store(len as u64, Ordering::Release);
        }
    }

    /// The tree as it is now, for a snapshot. The writer publishes nothing meanwhile.
    pub(super) fn freeze(&self) -> Published {
        let root = self.root.load(Ordering::Relaxed);
        self.freeze_at(root, self.len.load(Ordering::Relaxed))
    }

    /// The tree with the root word `root`, which has `len` entries.
    pub(super) fn freeze_at(&self, root: u64, len: usize) -> Published {
        Published {
            root: AtomicU64::new(root).into(),
            base: AtomicPtr::new(self.base.load(Ordering::Relaxed)),
            len: AtomicUsize::new(len),
            frozen: true,
            header: None,
            ..*self
        }
    }
}
