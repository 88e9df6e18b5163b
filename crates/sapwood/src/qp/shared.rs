//! The map that many threads change at once.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use core::ops::ControlFlow;
use core::time::Duration;

use sapwood_arena::{ArenaOptions, Backing};
use sapwood_qsbr::{Domain, Guard, Pinned, Reader, TooManyReaders};

use super::QpSharedMemory;
use super::map::{QpMap, sorted_tree};
use super::raw::index::Index;
use super::raw::shared::shard::Contended;
use super::raw::shared::trie::Trie;
use super::raw::tree::Tree;
use super::raw::version::stable_arena;
use super::shared_view::{Exchange, QpSharedView};
use super::store::RESERVE;
use crate::seed::seed;
use crate::{Error, Rejected};

/// An ordered map over byte strings that any number of threads read and change at once.
///
/// - Readers take no lock, retry nothing and write nothing. They need a guard: a [`pin`](Self::pin) for a few
///   operations, or a [`QpSharedReader`] for a thread with a loop.
/// - Writers lock the one or two branches that they replace, and nobody else: writers of keys far from each other do
///   not meet. There is no global lock.
/// - Operations on one key are linearizable. Iteration is ordered and weakly consistent; queries that combine entries
///   are exact under [`QpSharedView::exact`].
/// - Memory of removed entries returns after a grace period; an emptied map keeps none.
///
/// Methods of the map itself take a guard for their duration and give copies; those of a [`QpSharedView`] give
/// references. Handles are cheap to clone.
///
/// ```
/// use sapwood::qp::QpShared;
/// let map = QpShared::new()?;
/// std::thread::scope(|scope| {
///     for worker in 0..4u32 {
///         let map = &map;
///         scope.spawn(move || {
///             for i in 0..100u32 {
///                 map.insert(format!("{worker}/{i:03}"), i).unwrap();
///             }
///         });
///     }
/// });
/// assert_eq!(map.len(), 400);
/// assert_eq!(map.get("2/017"), Some(17));
/// let pin = map.pin();
/// let keys: Vec<_> = pin.view().prefix("3/").map(|(key, _)| key).take(2).collect();
/// assert_eq!(keys, [b"3/000", b"3/001"]);
/// # Ok::<(), sapwood::Error>(())
/// ```
pub struct QpShared<V: Send + Sync + 'static> {
    trie: Arc<Trie<V>>,
}

impl<V: Send + Sync + 'static> Clone for QpShared<V> {
    fn clone(&self) -> Self {
        QpShared {
            trie: Arc::clone(&self.trie),
        }
    }
}

/// How a shared map is made.
///
/// ```
/// use sapwood::{Error, qp::QpShared};
/// let map = QpShared::builder().max_entries(2).build()?;
/// map.insert("a", 1)?;
/// map.insert("b", 2)?;
/// assert_eq!(map.insert("c", 3).unwrap_err().error, Error::Full { max_entries: 2 });
/// # Ok::<(), sapwood::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct QpSharedBuilder<V> {
    options: ArenaOptions,
    domain: Option<Domain>,
    most: Option<usize>,
    index: bool,
    values: PhantomData<fn() -> V>,
}

impl<V: Send + Sync + 'static> QpSharedBuilder<V> {
    /// The arena's options. The backing must be one that does not move; the default reserves 16 GiB of address
    /// space and commits memory as it is used, in small pages: so no insertion waits for long. With
    /// [`huge_pages`](ArenaOptions::huge_pages), lookups in maps larger than the cache are up to a fifth quicker, and
    /// an insertion that touches a new huge page takes 0.2 to 5 ms.
    pub fn options(mut self, options: ArenaOptions) -> Self {
        self.options = options;
        self
    }

    /// The domain whose grace periods the map waits for; several maps may share one. Default: its own.
    pub fn domain(mut self, domain: &Domain) -> Self {
        self.domain = Some(domain.clone());
        self
    }

    /// The most entries that there may be: one more is [`Error::Full`]. Default: as many as memory has room for.
    ///
    /// Counting them costs writers a shared counter.
    pub fn max_entries(mut self, most: usize) -> Self {
        self.most = Some(most);
        self
    }

    /// Keeps a point index: a hash index over the entries, in step with the map. `get`, `contains_key` and `get_many` then
    /// touch two cache lines, for about 7 bytes a key and some time at each change; what is ordered goes on using
    /// the trie. The hash is seeded at random, so nobody can choose keys that collide.
    ///
    /// ```
    /// # use sapwood::qp::QpShared;
    /// let map = QpShared::builder().with_index().build()?;
    /// map.insert("cedar", 7)?;
    /// assert_eq!(map.get("cedar"), Some(7));
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    pub fn with_index(mut self) -> Self {
        self.index = true;
        self
    }

    /// An empty map.
    ///
    /// # Errors
    /// [`Error::ArenaFull`] when the backing cannot be had.
    ///
    /// # Panics
    /// When the backing is one that moves as it grows ([`Backing::Auto`], [`Backing::Heap`]).
    pub fn build(self) -> Result<QpShared<V>, Error> {
        let tree = Tree::new(stable_arena(self.options.clone())?);
        Ok(self.finish(tree))
    }

    /// A map of entries in ascending order of keys. Of equal keys, the last wins.
    ///
    /// # Errors
    /// As [`QpMap::from_sorted_iter`]; [`Error::Full`].
    ///
    /// # Panics
    /// As [`build`](Self::build).
    pub fn build_sorted<K: AsRef<[u8]>>(
        self,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<QpShared<V>, Error> {
        let tree = sorted_tree(stable_arena(self.options.clone())?, entries)?;
        self.fits(&tree)?;
        Ok(self.finish(tree))
    }

    fn fits(&self, tree: &Tree<V>) -> Result<(), Error> {
        match self.most {
            Some(max_entries) if tree.len > max_entries => Err(Error::Full { max_entries }),
            _ => Ok(()),
        }
    }

    fn finish(self, tree: Tree<V>) -> QpShared<V> {
        let index = self.index.then(|| Index::new(seed()));
        QpShared {
            trie: Arc::new(self.trie(tree, index)),
        }
    }

    fn trie(self, tree: Tree<V>, index: Option<Index<V, true>>) -> Trie<V> {
        Trie::new(tree, self.domain.unwrap_or_default(), self.most, index)
    }

    pub(super) fn has_index(&self) -> bool {
        self.index
    }

    /// A map whose root cell is kept in the arena as well, at so many bytes from the base.
    pub(super) fn finish_published(
        self,
        tree: Tree<V>,
        index: Option<Index<V, true>>,
        root_at: usize,
    ) -> Result<QpShared<V>, Error> {
        self.fits(&tree)?;
        let mut trie = self.trie(tree, index);
        trie.publish(root_at);
        Ok(QpShared {
            trie: Arc::new(trie),
        })
    }
}

impl<V: Send + Sync + 'static> QpShared<V> {
    /// An empty map with a domain of its own.
    ///
    /// # Errors
    /// [`Error::ArenaFull`] when no address space can be had.
    pub fn new() -> Result<Self, Error> {
        Self::builder().build()
    }

    /// A map that is made to measure.
    pub fn builder() -> QpSharedBuilder<V> {
        QpSharedBuilder {
            // A fault on a huge page clears 2 MiB, and may wait for the system to find them: see `options`.
            options: ArenaOptions::default()
                .backing(Backing::Mmap { reserve: RESERVE })
                .huge_pages(false),
            domain: None,
            most: None,
            index: false,
            values: PhantomData,
        }
    }

    /// A shared map of an owned map's entries.
    ///
    /// # Errors
    /// [`Error::ArenaFull`] when no memory can be had; the map is dropped.
    pub fn from_map(map: QpMap<V>) -> Result<Self, Error> {
        Self::builder().build_sorted(map)
    }

    /// The domain whose grace periods the map waits for.
    pub fn domain(&self) -> &Domain {
        self.trie.domain()
    }

    /// A guard for a few operations on this thread. Costs a few nanoseconds; holds back memory while it lives.
    #[inline]
    pub fn pin(&self) -> QpSharedPin<'_, V> {
        QpSharedPin {
            trie: &self.trie,
            pinned: self.domain().pin(),
        }
    }

    /// Registers this thread (or the one that the reader is sent to): guards cost it nothing.
    ///
    /// # Errors
    /// When the domain has as many readers as it may have.
    pub fn reader(&self, name: &str) -> Result<QpSharedReader<V>, TooManyReaders> {
        Ok(QpSharedReader {
            reader: self.domain().register(name)?,
            trie: Arc::clone(&self.trie),
        })
    }

    /// The map under a guard that the caller holds, for users of several maps at once.
    ///
    /// # Panics
    /// When the guard is of another domain.
    pub fn view<'g>(&'g self, guard: Guard<'g>) -> QpSharedView<'g, V> {
        QpSharedView::new(&self.trie, guard)
    }

    /// Runs `f` under a pin of its own, after making room for garbage.
    fn with<R>(&self, f: impl FnOnce(QpSharedView<'_, V>) -> R) -> R {
        let pinned = self.domain().pin();
        f(QpSharedView::new(&self.trie, pinned.guard()))
    }

    /// Number of entries: exact while nobody writes; else each operation counts from a moment within it.
    pub fn len(&self) -> usize {
        self.trie.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.with(|view| view.is_empty())
    }

    /// The most entries that there may be, if that was limited.
    pub fn max_entries(&self) -> Option<usize> {
        self.trie.most()
    }

    /// A copy of a key's value.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<V>
    where
        V: Clone,
    {
        self.with(|view| view.get(key).cloned())
    }

    /// Whether the key is stored.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> bool {
        self.with(|view| view.contains_key(key))
    }

    /// Makes room for garbage, by the domain's policy; then runs `f` with the value.
    fn admitted<R>(
        &self,
        key: &[u8],
        value: V,
        f: impl FnOnce(QpSharedView<'_, V>, V) -> Result<R, Rejected<V>>,
    ) -> Result<R, Rejected<V>> {
        match self.trie.admit(key.len()) {
            Ok(()) => self.with(|view| f(view, value)),
            Err(limit) => Err(Rejected {
                value,
                error: limit.into(),
            }),
        }
    }

    /// Inserts or replaces; whether the key is new.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], [`Error::ArenaFull`], [`Error::GarbageLimit`], [`Error::Full`], with the value given
    /// back; the map is unchanged.
    pub fn insert(&self, key: impl AsRef<[u8]>, value: V) -> Result<bool, Rejected<V>> {
        let key = key.as_ref();
        self.admitted(key, value, |view, value| {
            view.insert(key, value).map(|old| old.is_none())
        })
    }

    /// Inserts a key that is not there.
    ///
    /// # Errors
    /// [`Error::Exists`] when it is there; else as [`insert`](Self::insert).
    pub fn insert_new(&self, key: impl AsRef<[u8]>, value: V) -> Result<(), Rejected<V>> {
        let key = key.as_ref();
        self.admitted(key, value, |view, value| {
            view.insert_new(key, value).map(drop)
        })
    }

    /// Replaces the value of a key that is there.
    ///
    /// # Errors
    /// [`Error::Absent`] when it is not there; else as [`insert`](Self::insert).
    pub fn replace(&self, key: impl AsRef<[u8]>, value: V) -> Result<(), Rejected<V>> {
        let key = key.as_ref();
        self.admitted(key, value, |view, value| view.replace(key, value).map(drop))
    }

    /// Replaces the value of a key if it equals `current`.
    ///
    /// # Errors
    /// [`Error::Absent`], [`Error::Differs`]; else as [`insert`](Self::insert).
    ///
    /// ```
    /// # use sapwood::{Error, qp::QpShared};
    /// let map = QpShared::new()?;
    /// map.insert("hits", 1)?;
    /// map.compare_exchange("hits", &1, 2)?;
    /// let rejected = map.compare_exchange("hits", &1, 3).unwrap_err();
    /// assert_eq!((rejected.error, rejected.value), (Error::Differs, 3));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn compare_exchange(
        &self,
        key: impl AsRef<[u8]>,
        current: &V,
        new: V,
    ) -> Result<(), Rejected<V>>
    where
        V: PartialEq,
    {
        let key = key.as_ref();
        self.admitted(key, new, |view, new| {
            match view.compare_exchange(key, current, new)? {
                Exchange::Done(_) => Ok(()),
                Exchange::Refused { found, value } => Err(Rejected {
                    value,
                    error: match found {
                        Some(_) => Error::Differs,
                        None => Error::Absent,
                    },
                }),
            }
        })
    }

    /// A copy of a key's value, after inserting the one that `make` makes if the key is not there.
    ///
    /// No lock is held while `make` runs: another thread may insert the key meanwhile, and then its value wins.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn get_or_insert_with(
        &self,
        key: impl AsRef<[u8]>,
        make: impl FnOnce() -> V,
    ) -> Result<V, Error>
    where
        V: Clone,
    {
        let key = key.as_ref();
        self.trie.admit(key.len())?;
        self.with(|view| view.get_or_insert_with(key, make).cloned())
    }

    /// Removes a key; whether it was there.
    ///
    /// # Errors
    /// [`Error::ArenaFull`], as a branch with a child less is built beside the old one; [`Error::GarbageLimit`].
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        let key = key.as_ref();
        self.trie.admit(key.len())?;
        let removed = self.with(|view| view.remove(key).map(|old| old.is_some()))?;
        if removed && self.trie.is_vacant() {
            self.reclaim(usize::MAX);
        }
        Ok(removed)
    }

    /// Copies of the entry with the least key greater than `key`, whether `key` is there or not.
    pub fn next_after(&self, key: impl AsRef<[u8]>) -> Option<(Vec<u8>, V)>
    where
        V: Clone,
    {
        self.with(|view| {
            let (key, value) = view.next_after(key)?;
            Some((key.to_vec(), value.clone()))
        })
    }

    /// Calls `each` with the entries in ascending order until it breaks; weakly consistent, as
    /// [`QpSharedRange`](super::QpSharedRange) says.
    pub fn for_each<B>(&self, each: impl FnMut(&[u8], &V) -> ControlFlow<B>) -> ControlFlow<B> {
        self.with(|view| view.for_each(each))
    }

    /// Removes all entries that are there; returns how many. Keys inserted meanwhile may stay.
    ///
    /// # Errors
    /// As [`remove`](Self::remove); what was removed before stays removed.
    pub fn clear(&self) -> Result<usize, Error> {
        let mut removed = 0;
        let mut key: Option<Vec<u8>> = None;
        loop {
            let next = self.with(|view| {
                let next = match &key {
                    None => view.first_key_value(),
                    Some(key) => view.next_after(key),
                };
                next.map(|(key, _)| key.to_vec())
            });
            let Some(next) = next else {
                return Ok(removed);
            };
            removed += usize::from(self.remove(&next)?);
            key = Some(next);
        }
    }

    /// Frees up to `budget` nodes that no reader can hold any more; returns how many. Writers do some of it on the
    /// way; this is for an idle loop, or after a stall. Values are dropped here, on the calling thread.
    pub fn reclaim(&self, budget: usize) -> usize {
        let mut values = Vec::new();
        self.trie.reclaim(budget, &mut values)
    }

    /// Moves up to `budget` branches into fresh memory, in key order and in clusters that fit cache lines, beside readers and
    /// writers, or sweeps what they left; returns whether there is more to do. Call it again and again to compact the whole map; when the end is
    /// reached, the next call begins anew. The first step of a compaction holds writers up for a moment.
    ///
    /// Iteration gains most: neighbours in order become neighbours in memory.
    ///
    /// # Errors
    /// [`Error::ArenaFull`] or [`Error::GarbageLimit`]: nothing is lost, the compaction goes on later.
    ///
    /// ```
    /// # let map = sapwood::qp::QpShared::new()?;
    /// # map.insert("a", 1)?;
    /// while map.compact_step(1000)? {}
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    pub fn compact_step(&self, budget: usize) -> Result<bool, Error> {
        // A branch over text has about 24 bytes.
        self.trie.admit(budget.saturating_mul(64))?;
        self.with(|view| view.compact_step(budget))
    }

    /// What writers met so far.
    pub fn contention(&self) -> Contention {
        Contention::of(self.trie.contended())
    }

    /// Where the memory is. Waits for writers that are at work.
    pub fn memory(&self) -> QpSharedMemory {
        self.trie.memory()
    }

    /// Walks the map and checks every invariant, and the accounts against what is there. Writers wait meanwhile.
    ///
    /// # Errors
    /// What is wrong, for a person to read.
    pub fn verify(&self) -> Result<(), String> {
        self.trie.verify()
    }
}

impl<V: Send + Sync + fmt::Debug + 'static> fmt::Debug for QpShared<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with(|view| view.fmt(f))
    }
}

/// How often writers met each other, from the map's beginning on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contention {
    /// Changes that were made or refused.
    pub operations: u64,
    /// Those that met a branch locked by another writer, or had to begin anew after another's change.
    pub met_lock: u64,
    /// Time that they waited for locks, all together.
    pub waited: Duration,
}

impl Contention {
    pub(super) fn of(contended: Contended) -> Self {
        Contention {
            operations: contended.operations,
            met_lock: contended.met,
            waited: contended.waited,
        }
    }
}

/// A guard of a [`QpShared`] for a few operations. Stays on its thread.
#[must_use = "references live as long as the pin"]
pub struct QpSharedPin<'m, V: Send + Sync + 'static> {
    trie: &'m Trie<V>,
    pinned: Pinned<'m>,
}

impl<V: Send + Sync + 'static> QpSharedPin<'_, V> {
    /// The map under this guard.
    #[inline]
    pub fn view(&self) -> QpSharedView<'_, V> {
        QpSharedView::new(self.trie, self.pinned.guard())
    }
}

impl<V: Send + Sync + 'static> fmt::Debug for QpSharedPin<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QpSharedPin").finish_non_exhaustive()
    }
}

/// A thread's way into a [`QpShared`]: registered once, then its guards cost nothing.
///
/// Call [`quiescent`](Self::quiescent) from time to time (once per round of an event loop, say), or go
/// [`offline`](Self::offline) before blocking: else memory is held back.
pub struct QpSharedReader<V: Send + Sync + 'static> {
    reader: Reader,
    trie: Arc<Trie<V>>,
}

impl<V: Send + Sync + 'static> QpSharedReader<V> {
    /// The map, as it is at each operation.
    #[inline]
    pub fn view(&self) -> QpSharedView<'_, V> {
        QpSharedView::new(&self.trie, self.reader.guard())
    }

    /// Says that this thread holds nothing. No view can be alive: the borrow checker sees to it.
    #[inline]
    pub fn quiescent(&mut self) {
        self.reader.quiescent();
    }

    /// Takes the reader offline while the result lives: for a thread that is about to block.
    pub fn offline(&mut self) -> sapwood_qsbr::Offline<'_> {
        self.reader.offline()
    }

    /// The registered reader, for the hooks of an event loop.
    pub fn reader_mut(&mut self) -> &mut Reader {
        &mut self.reader
    }
}

impl<V: Send + Sync + 'static> fmt::Debug for QpSharedReader<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QpSharedReader").finish_non_exhaustive()
    }
}
