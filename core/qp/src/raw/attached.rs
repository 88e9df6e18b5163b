//! Shared maps that another process changes and publishes, read in memory that is mapped here.

use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use sapwood_arena::{EXTRA_AT, ROOTS_AT};
use sapwood_format::hash::SECRETS;
use sapwood_format::header;
use zerocopy::{FromBytes, Immutable};

use super::batch;
use super::index::{Found, Index};
use super::index_only::ops::Walk;
use super::inline::EntryRef;
use super::leaf::{LeafOf, Value};
use super::mem::{Live, byte_of};
use super::view::View;
use crate::{AttachedMap, AttachedView, Order};

/// A map that another process publishes. What it reads of the header page stays as it is, but for
/// the root and the table.
pub(crate) struct Attached<V: ?Sized + Value> {
    base: *mut u8,
    index: Option<Index<V, true>>,
    values: PhantomData<fn() -> V>,
}

// SAFETY: the memory is only read, by atomics or where it does not change, and `&V` goes to other
// threads (Sync).
unsafe impl<V: ?Sized + Value + Sync> Send for Attached<V> {}
// SAFETY: as above.
unsafe impl<V: ?Sized + Value + Sync> Sync for Attached<V> {}

impl<V: ?Sized + Value> Attached<V> {
    /// A word of the header page.
    ///
    /// # Safety
    /// The page lies at `base`; `at` is a multiple of 8 inside it.
    #[inline(always)]
    unsafe fn word(base: *mut u8, at: usize) -> u64 {
        // SAFETY: the caller's promise; the words of the page are accessed only as atomics.
        unsafe { AtomicU64::from_ptr(base.add(at).cast()) }.load(Ordering::Acquire)
    }

    /// # Safety
    /// A published map with these values begins at `base`, and stays mapped as long as this is
    /// used.
    unsafe fn new(base: *mut u8) -> Self {
        // SAFETY: the caller's promise.
        let word = |at| unsafe { Self::word(base, at) };
        let parts = word(ROOTS_AT + 8 * header::HAS_INDEX);
        let index = (parts != 0).then(|| {
            let words: [u64; SECRETS] = core::array::from_fn(|i| word(EXTRA_AT + 8 * i));
            let at = ROOTS_AT + 8 * header::TABLE;
            Index::attached(&words, at, parts == header::ONLY_INDEX)
        });
        Attached {
            base,
            index,
            values: PhantomData,
        }
    }

    /// The trie, from its present root.
    ///
    /// # Safety
    /// Until the end of `'g`, the writers free nothing that the map has now or later.
    #[inline(always)]
    pub(crate) unsafe fn view<'g>(&self) -> View<'g, V, Live> {
        let mem = Live { base: self.base };
        // SAFETY: the caller's promise.
        unsafe {
            let root = Self::word(self.base, ROOTS_AT + 8 * header::ROOT);
            View::new(mem, root as u32)
        }
    }

    /// The leaf of a key.
    ///
    /// # Safety
    /// As for `view`, as long as the leaf is used.
    #[inline]
    unsafe fn find(&self, key: &[u8]) -> Option<u32> {
        // SAFETY: the caller's promise.
        unsafe {
            if let Some(index) = &self.index {
                index.refresh(self.base);
                match index.find(self.base, index.hash(key), key) {
                    Found::Leaf(leaf) => return Some(leaf),
                    Found::Absent => return None,
                    Found::AskTrie => (),
                }
            }
            self.view().find(key).map(EntryRef::cell)
        }
    }

    /// Key and value of a leaf.
    ///
    /// # Safety
    /// The leaf was in the map during `'g`, and is not freed before its end.
    #[inline(always)]
    unsafe fn entry<'g>(&self, leaf: u32) -> (&'g [u8], &'g V) {
        // SAFETY: the caller's promise.
        unsafe {
            let p = self.base.add(byte_of(leaf));
            (LeafOf::<V>::key(p), &*LeafOf::<V>::value_ptr(p))
        }
    }
}

impl<O: Order, V: ?Sized + Value + FromBytes + Immutable + Send + Sync + 'static>
    AttachedMap<O, V>
{
    /// A map that another process publishes ([`Builder::build_in`](crate::Builder::build_in)), in
    /// memory that is mapped here at `base`.
    ///
    /// # Safety
    /// The memory begins with the header page of a published map of this kind with these values. It
    /// stays mapped, at least for reading, as long as this and its views live. Only the map's
    /// writers change it.
    pub unsafe fn attach(base: NonNull<u8>) -> Self {
        // SAFETY: the caller's promise.
        Self::new(unsafe { Attached::new(base.as_ptr()) })
    }

    /// The map, for reading.
    ///
    /// # Safety
    /// Until the end of `'g`, the writers free nothing that was in the map when this was called, or
    /// that comes into it later: their grace periods wait for this reader.
    #[inline]
    pub unsafe fn view<'g>(&'g self) -> AttachedView<'g, O, V> {
        AttachedView::new(self.raw())
    }
}

/// The lookups of a view, whose grace period the caller of [`AttachedMap::view`] has promised.
impl<'g, V: ?Sized + Value> Attached<V> {
    #[inline(always)]
    pub(crate) fn trie_of(&'g self) -> View<'g, V, Live> {
        // SAFETY: `self` is borrowed from a view: the promise of its maker.
        unsafe { self.view() }
    }

    #[inline]
    pub(crate) fn entry_of(&'g self, key: &[u8]) -> Option<(&'g [u8], &'g V)> {
        // SAFETY: as above.
        unsafe { Some(self.entry(self.find(key)?)) }
    }

    /// Looks up many keys, whose waits for memory overlap.
    pub(crate) fn entries_of<K: AsRef<[u8]>>(
        &'g self,
        keys: &[K],
        mut each: impl FnMut(usize, Option<&'g V>),
    ) {
        // SAFETY: as above.
        let value = |leaf: u32| (leaf != 0).then(|| unsafe { self.entry(leaf) }.1);
        let Some(index) = &self.index else {
            return batch::find_many(&self.trie_of(), keys, |i, entry| {
                each(i, value(entry.cell()))
            });
        };
        // SAFETY: as above.
        unsafe {
            index.refresh(self.base);
            index.find_many(self.base, keys, |i, key, found| {
                let leaf = match found {
                    Found::Leaf(leaf) => leaf,
                    Found::Absent => 0,
                    Found::AskTrie => self.view().find(key).map_or(0, EntryRef::cell),
                };
                each(i, value(leaf));
            });
        }
    }

    /// All entries in the order of the index; `None` without an index.
    pub(crate) fn unordered(&'g self) -> Option<Walk<'g, V>> {
        let index = self.index.as_ref()?;
        // SAFETY: as above.
        unsafe {
            index.refresh(self.base);
            Some(Walk::from(index, self.base, 0))
        }
    }
}
