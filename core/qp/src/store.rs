//! The map with versions: one writer at a time, any number of readers and snapshots.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use std::path::Path;

use sapwood_arena::Arena;
use sapwood_qsbr::{Domain, Guard, StaysOnItsThread};
use zerocopy::{Immutable, IntoBytes};

use super::diff::Diff;
use super::iter::Iter;
use super::map::sorted_tree;
use super::memory::QpStoreMemory;
use super::raw::mem::Trusted;
use super::raw::tree::Tree;
use super::raw::version::{Kept, StoreShared, stable_arena};
use super::raw::view::View;
use super::read::{self, point_methods, read_methods};
use super::txn::QpTxn;
use super::{QpMap, file};
use crate::SaveError;
use crate::{Accepts, IntoValue, Value};
use crate::{Buildable, Builder, Error, OldestSnapshot, Readable};
use sapwood_common::raw::memory::MemoryOptions;
use sapwood_common::reading_methods;

/// The number of a committed version. The first version of a new store has 0; that of a loaded
/// store has the number of the saved version. Each commit that changed something adds one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub(crate) u64);

impl Version {
    /// The number.
    ///
    /// A pin, and O(key length).
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a builder chooses for a [`QpStore`] only.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct StoreChoices {
    cut_prefixes: bool,
}

impl Default for StoreChoices {
    fn default() -> Self {
        StoreChoices { cut_prefixes: true }
    }
}

/// An ordered map over byte strings with versions, with one writer at a time and readers that never
/// wait.
///
/// - A [`QpTxn`] collects changes and reads them. [`commit`](QpTxn::commit) publishes all of them
///   with one store. If the transaction is dropped, they are undone.
/// - A [`Reader`](sapwood_common::Reader) (one per thread) gives [`QpView`]s. A view is the newest
///   version, which does not change as long as the view is held. Reading takes no lock, retries
///   nothing and writes nothing.
/// - A [`QpSnapshot`] keeps a version alive until it is dropped, and may go to any thread. The
///   oldest snapshot holds back the memory of everything that was replaced or removed after it.
///
/// A transaction copies each branch on the path to a changed key once. So a commit's cost depends
/// on the number of changes and the depth of their keys, not on the size of the map. A store is a
/// handle, cheap to clone: all clones are handles of one store.
///
/// ```
/// use sapwood::qp::QpStore;
///
/// let store = QpStore::new()?;
/// let mut reader = store.reader("worker")?;
/// let mut txn = store.begin();
/// txn.insert("elder", 1)?;
/// txn.insert("elm", 2)?;
/// assert_eq!(txn.get("elm"), Some(&2)); // the transaction reads its own changes
/// assert_eq!(reader.view().get("elm"), None); // others do not see them yet
/// txn.commit();
/// assert_eq!(reader.view().get("elm"), Some(&2));
///
/// let before = store.snapshot();
/// let mut txn = store.begin();
/// txn.remove("elm")?;
/// txn.commit();
/// assert_eq!(before.get("elm"), Some(&2));
/// assert_eq!(reader.view().len(), 1);
/// reader.quiescent();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct QpStore<V: ?Sized + Value + Send + Sync + 'static> {
    shared: Arc<StoreShared<V>>,
}

impl<V: ?Sized + Value + Send + Sync + 'static> Clone for QpStore<V> {
    fn clone(&self) -> Self {
        QpStore {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<V: ?Sized + Value + Send + Sync + 'static> Buildable for QpStore<V> {
    type Choices = StoreChoices;
    type Builder = Builder<Self>;
}

impl<V: ?Sized + Value + Send + Sync + 'static> Builder<QpStore<V>> {
    /// An empty store.
    ///
    /// O(1): it reserves address space, in which pages come as they are used.
    ///
    /// # Errors
    /// [`Error::ArenaFull`] when the backing cannot be had.
    ///
    /// # Panics
    /// When the backing moves as it grows: [`Backing::Auto`](sapwood_arena::Backing), which is the
    /// default of [`ArenaOptions`](sapwood_arena::ArenaOptions), and `Backing::Heap`.
    pub fn build(self) -> Result<QpStore<V>, Error> {
        let tree = Tree::new(stable_arena(self.memory.clone().stable())?);
        Ok(self.build_over(tree, None))
    }

    /// An empty store whose clusters hold their entries, as those of a [`QpMap`] do: it takes less
    /// memory. Iterators take longer, because they give each key as a copy; `for_each` of a view
    /// lends it, by half of the instructions. A change of an entry copies its cluster, so values
    /// must be plain bytes, which cannot change behind a reference, up to 64 of them; longer ones
    /// get leaves, as in other stores.
    ///
    /// A [difference](QpStore::diff) of versions of such a store compares values: one that was
    /// written again with the same bytes is no change.
    ///
    /// O(1).
    ///
    /// # Errors
    /// As [`build`](Self::build).
    ///
    /// # Panics
    /// As [`build`](Self::build).
    ///
    /// ```
    /// use sapwood::qp::QpStore;
    /// let store = QpStore::<u64>::builder().build_inline()?;
    /// let mut txn = store.begin();
    /// txn.insert("elm", 1)?;
    /// txn.insert("elder", 2)?;
    /// txn.commit();
    /// assert_eq!(store.get("elm"), Some(1));
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    ///
    /// A value that changes behind a reference would change in one of its copies only:
    ///
    /// ```compile_fail,E0277
    /// use sapwood::qp::QpStore;
    /// let store = QpStore::<std::sync::atomic::AtomicU64>::builder().build_inline()?;
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    pub fn build_inline(self) -> Result<QpStore<V>, Error>
    where
        V: IntoBytes + Immutable,
    {
        let arena = stable_arena(self.memory.clone().stable())?;
        let tree = self.inline_tree(arena);
        Ok(self.build_over(tree, None))
    }

    /// Whether a store whose clusters hold their entries keeps the bytes that the keys of a cluster
    /// share once, and cuts them from each key. That is the default. With `false`, keys stay whole:
    /// all keys that a view gives lie in place ([`Key::in_place`](super::Key::in_place)), and their
    /// references live as long as the view's guard or snapshot. Live blocks take 20 to 21 bytes a
    /// name beyond the key, value included, where cut keys take 12 to 19 and leaves 22; file paths
    /// take 30, more than with leaves. Steps of iterators take two thirds of the instructions, with
    /// the reading of the key (notes of one measurement, docs/qp.md).
    ///
    /// It holds for this store: files that it [saves](QpSnapshot::save) are the same, and a store
    /// that is loaded from one has its own builder's choice. Readers of a published store read both
    /// forms. Stores with leaves have whole keys anyway.
    ///
    /// O(1).
    ///
    /// ```
    /// use sapwood::qp::QpStore;
    /// let store = QpStore::<u64>::builder().cut_prefixes(false).build_inline()?;
    /// let mut txn = store.begin();
    /// txn.insert("www.example.com", 1)?;
    /// txn.insert("www.example.net", 2)?;
    /// txn.commit();
    /// let snapshot = store.snapshot();
    /// let (key, _) = snapshot.first_key_value().unwrap();
    /// let key: &[u8] = key.in_place().unwrap(); // lives as long as the snapshot
    /// assert_eq!(key, b"www.example.com");
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    pub fn cut_prefixes(mut self, cut: bool) -> Self {
        self.choices.cut_prefixes = cut;
        self
    }

    /// As [`build_inline`](Self::build_inline), with these entries, which come in ascending order
    /// of keys. Of equal keys, the last wins.
    ///
    /// O(sum of all key lengths).
    ///
    /// # Errors
    /// As [`QpMap::from_sorted_iter`].
    ///
    /// # Panics
    /// As [`build`](Self::build).
    pub fn build_inline_sorted<K: AsRef<[u8]>, N: IntoValue<V>>(
        self,
        entries: impl IntoIterator<Item = (K, N)>,
    ) -> Result<QpStore<V>, Error>
    where
        V: IntoBytes + Immutable + Accepts<N>,
    {
        let arena = stable_arena(self.memory.clone().stable())?;
        let tree = sorted_tree(self.inline_tree(arena), entries)?;
        Ok(self.build_over(tree, None))
    }

    /// An empty trie whose clusters hold their entries, as the builder chose.
    pub(super) fn inline_tree(&self, arena: Arena) -> Tree<V> {
        Tree::of_plain(arena).cut_prefixes(self.choices.cut_prefixes)
    }

    /// A store of this tree. If `header` is given, the root is also written at that place in the
    /// arena.
    pub(super) fn build_over(self, tree: Tree<V>, header: Option<usize>) -> QpStore<V> {
        let mut shared = StoreShared::new(tree, self.domain.unwrap_or_default());
        if let Some(at) = header {
            shared.publish_at(at);
        }
        QpStore {
            shared: Arc::new(shared),
        }
    }
}

impl<V: ?Sized + Value + Send + Sync + 'static> Builder<QpStore<V>> {
    /// A store whose first version has these entries, which come in ascending order of keys. Of
    /// equal keys, the last wins.
    ///
    /// O(sum of all key lengths).
    ///
    /// # Errors
    /// As [`QpMap::from_sorted_iter`].
    ///
    /// # Panics
    /// As [`build`](Self::build).
    pub fn build_sorted<K: AsRef<[u8]>, N: IntoValue<V>>(
        self,
        entries: impl IntoIterator<Item = (K, N)>,
    ) -> Result<QpStore<V>, Error>
    where
        V: Accepts<N>,
    {
        let arena = stable_arena(self.memory.clone().stable())?;
        let tree = sorted_tree(Tree::new(arena), entries)?;
        Ok(self.build_over(tree, None))
    }
}

impl<V: Send + Sync + 'static> QpStore<V> {
    /// A store whose first version has the entries of a map. It keeps the map's limit of memory.
    ///
    /// O(sum of all key lengths).
    ///
    /// # Errors
    /// [`Error::ArenaFull`] when there is not enough memory; the map is dropped.
    pub fn from_map(map: QpMap<V>) -> Result<Self, Error> {
        let mut builder = Self::builder();
        builder.memory.limit = map.limit();
        builder.build_sorted(map)
    }
}

impl<V: ?Sized + Value + Send + Sync + 'static> QpStore<V> {
    /// Sets the number of the first version.
    pub(super) fn begin_at(&self, version: Version) {
        self.shared.versions().begin_at(version.0);
    }

    /// An empty store with a domain of its own.
    ///
    /// As [`build`](Builder::build).
    ///
    /// # Errors
    /// [`Error::ArenaFull`] when the system refuses the address space.
    pub fn new() -> Result<Self, Error> {
        Self::builder().build()
    }

    /// A builder, which sets what [`new`](Self::new) leaves at its default.
    ///
    /// O(1).
    pub fn builder() -> Builder<Self> {
        Builder::begin(MemoryOptions::default(), StoreChoices::default())
    }

    reading_methods!(QpView<'g, V>);

    /// Number of entries of the newest version. It takes one load.
    #[inline]
    pub fn len(&self) -> usize {
        self.shared.len()
    }

    /// Whether the newest version has no entry.
    ///
    /// O(1).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A copy of a key's value in the newest version. Two calls may read two versions. A
    /// [`pin`](Self::pin) or a [`reader`](Self::reader) gives a view of one version, with
    /// references.
    ///
    /// A pin, and O(key length).
    ///
    /// ```
    /// use sapwood::qp::QpStore;
    /// let store = QpStore::new()?;
    /// let mut txn = store.begin();
    /// txn.insert("elm", 1)?;
    /// assert_eq!((store.get("elm"), store.len()), (None, 0)); // not committed
    /// txn.commit();
    /// assert_eq!((store.get("elm"), store.len()), (Some(1), 1));
    /// assert!(store.contains_key("elm") && !store.is_empty());
    /// assert_eq!(store.pin().view().get("elm"), Some(&1));
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<V::Owned>
    where
        V: ToOwned,
    {
        self.read(|view| view.get(key).map(V::to_owned))
    }

    /// Whether the newest version has the key.
    ///
    /// A pin, and O(key length).
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> bool {
        self.read(|view| view.contains_key(key))
    }

    /// Keeps the newest version alive. This takes a lock for a short time; reads of the snapshot
    /// take none.
    pub fn snapshot(&self) -> QpSnapshot<V> {
        QpSnapshot {
            kept: self.shared.keep(),
        }
    }

    /// The number of snapshots that are alive. It waits for no transaction.
    ///
    /// O(versions that snapshots keep).
    pub fn snapshots(&self) -> usize {
        self.shared.versions().snapshots()
    }

    /// The oldest version that snapshots keep, and what it holds back. It waits for no transaction,
    /// so a monitor can call it while a writer is blocked at the hard limit of garbage.
    /// [`Domain::stalls`] reports the same for all structures of the domain, and waits for none
    /// either.
    ///
    /// O(log of the versions that snapshots keep).
    pub fn oldest_snapshot(&self) -> Option<OldestSnapshot> {
        self.shared.versions().oldest()
    }

    /// The number of the newest version.
    ///
    /// O(1).
    pub fn version(&self) -> Version {
        Version(self.shared.version())
    }

    /// Begins a transaction. If another thread has one open, it waits for its end.
    ///
    /// O(1), apart from the wait.
    ///
    /// # Panics
    /// When this thread has a transaction of the store open, for which it would wait forever.
    #[track_caller]
    pub fn begin(&self) -> QpTxn<'_, V> {
        QpTxn::new(&self.shared, self.shared.write())
    }

    /// Begins a transaction, unless another is open.
    ///
    /// O(1).
    pub fn try_begin(&self) -> Option<QpTxn<'_, V>> {
        Some(QpTxn::new(&self.shared, self.shared.try_write()?))
    }

    /// The changes between two snapshots, in order of keys. A key that was written in between is
    /// `Changed`, even if the new value equals the old one; but not in a store made by
    /// [`build_inline`](Builder::build_inline), which compares the bytes of the values.
    ///
    /// The difference skips subtrees that both versions share, so it reads only the branches and
    /// clusters on the paths to the changes. A compaction moves branches and clusters, which the
    /// versions then do not share. Across a [`compact_step`](Self::compact_step), the difference
    /// also reads what the step moved, in both versions; across a whole compaction, it reads all
    /// branches and clusters. Entries do not move, unless they lie in their clusters, and the
    /// difference does not read those without a change. To keep differences small, make the
    /// snapshot to compare with after a compaction, not before. Snapshots of different stores are
    /// compared whole, entries included.
    ///
    /// O(1); the walk reads the branches and clusters on the paths to the changes, and what a
    /// compaction between the versions has moved.
    ///
    /// ```
    /// use sapwood::qp::{Change, QpStore};
    /// let store = QpStore::new()?;
    /// let old = store.snapshot();
    /// let mut txn = store.begin();
    /// txn.insert("a", 1)?;
    /// txn.commit();
    /// let new = store.snapshot();
    /// let changes: Vec<_> = QpStore::diff(&old, &new).collect();
    /// assert_eq!(changes, [Change::Added(b"a".into(), &1)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn diff<'a>(old: &'a QpSnapshot<V>, new: &'a QpSnapshot<V>) -> Diff<'a, V> {
        Diff::new(&old.kept, &new.kept)
    }

    /// Frees up to `budget` nodes that no reader and no snapshot can hold any more; returns their
    /// number.
    ///
    /// O(budget), and a look at each reader.
    ///
    /// Every commit frees some nodes. This call is for an idle loop, or for the time after a stall.
    /// When all nodes are freed that a compaction left, it gives free pages back to the system, in
    /// proportion to the budget; the next calls go on. The call that frees the last node of an
    /// empty store gives all memory back to the system, in proportion to what the store had.
    /// The calling thread drops the values, after it has released the writer's lock. It returns 0
    /// when a transaction is open.
    pub fn reclaim(&self, budget: usize) -> usize {
        let mut values = Vec::new();
        let Some(mut writer) = self.shared.try_write() else {
            return 0;
        };
        let freed = self.shared.reclaim(&mut writer, budget, &mut values);
        writer.give_back(budget);
        freed
    }

    /// Moves up to `budget` branches into fresh memory in depth-first order, as a commit of its
    /// own; returns whether there is more to do. Readers neither wait nor retry meanwhile. Repeated
    /// calls compact the whole map. The call after the last step begins a new compaction.
    ///
    /// O(budget), and the path to where it goes on. A step gives at most 512 KiB back to the
    /// system. Only above the domain's soft limit of garbage it frees all nodes that it can.
    ///
    /// # Errors
    /// [`Error::ArenaFull`] or [`Error::GarbageLimit`]; no entry is lost, and a later call goes on
    /// with the compaction.
    ///
    /// # Panics
    /// When this thread has a transaction of the store open, for which it would wait forever.
    #[track_caller]
    pub fn compact_step(&self, budget: usize) -> Result<bool, Error> {
        QpTxn::new(&self.shared, self.shared.write()).compact(budget)
    }

    /// What the store's memory holds. It waits for an open transaction;
    /// [`snapshots`](Self::snapshots) and [`oldest_snapshot`](Self::oldest_snapshot) do not.
    ///
    /// It reads the accounts and walks nothing.
    ///
    /// # Panics
    /// When this thread has a transaction of the store open, for which it would wait forever.
    #[track_caller]
    pub fn memory(&self) -> QpStoreMemory {
        let writer = self.shared.write();
        QpStoreMemory::from_writer(&writer, self.snapshots())
    }

    /// Walks the newest version and checks every invariant. Compares the accounts with the nodes
    /// that are there. It waits for an open transaction.
    ///
    /// O(sum of all key lengths).
    ///
    /// # Errors
    /// A text that says what is wrong.
    ///
    /// # Panics
    /// When this thread has a transaction of the store open, for which it would wait forever.
    #[track_caller]
    pub fn verify(&self) -> Result<(), alloc::string::String> {
        self.shared.write().verify()
    }
}

impl<V: ?Sized + Value + Send + Sync + fmt::Debug + 'static> fmt::Debug for QpStore<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let snapshot = self.snapshot();
        f.debug_struct("QpStore")
            .field("version", &snapshot.version())
            .field("entries", &snapshot.iter())
            .finish()
    }
}

impl<V: ?Sized + Value + Send + Sync + 'static> Readable for QpStore<V> {
    type View<'g> = QpView<'g, V>;

    fn domain(&self) -> &Domain {
        self.shared.domain()
    }

    #[inline]
    fn view<'g>(&'g self, guard: Guard<'g>) -> QpView<'g, V> {
        QpView::new(&self.shared, guard)
    }
}

/// One version of a store, read under a guard. A view stays on its thread.
pub struct QpView<'g, V: ?Sized + Value> {
    view: View<'g, V>,
    len: usize,
    _local: StaysOnItsThread,
}

impl<V: ?Sized + Value> Clone for QpView<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V: ?Sized + Value> Copy for QpView<'_, V> {}

impl<'g, V: ?Sized + Value + Send + Sync> QpView<'g, V> {
    #[inline]
    fn new(shared: &'g StoreShared<V>, guard: Guard<'g>) -> Self {
        let (view, len) = shared.view(guard);
        QpView::of(view, len)
    }

    /// A view of a version with this many entries.
    #[inline]
    pub(super) fn of(view: View<'g, V>, len: usize) -> Self {
        QpView {
            view,
            len,
            _local: StaysOnItsThread::default(),
        }
    }

    #[inline(always)]
    #[doc(hidden)]
    pub fn view(&self) -> View<'g, V> {
        self.view
    }

    /// Number of entries.
    ///
    /// O(1).
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    fn is_large(&self) -> bool {
        self.len >= read::BATCH_FROM / 32
    }

    read_methods!([] 'g [&] self Trusted);
    point_methods!([] 'g [&] self Trusted);
}

impl<V: ?Sized + Value + Send + Sync + fmt::Debug> fmt::Debug for QpView<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().fmt(f)
    }
}

impl<'g, V: ?Sized + Value + Send + Sync> IntoIterator for QpView<'g, V> {
    type Item = crate::ReadEntry<'g, V>;
    type IntoIter = Iter<'g, V>;

    fn into_iter(self) -> Iter<'g, V> {
        self.iter()
    }
}

/// A version of a store that stays alive until the snapshot is dropped. Any thread may read it.
pub struct QpSnapshot<V: ?Sized + Value + Send + Sync + 'static> {
    kept: Kept<V>,
}

impl<V: ?Sized + Value + Send + Sync + 'static> QpSnapshot<V> {
    #[inline(always)]
    #[doc(hidden)]
    pub fn view(&self) -> View<'_, V> {
        self.kept.view()
    }

    /// Number of entries.
    ///
    /// O(1).
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    fn is_large(&self) -> bool {
        self.len() >= read::BATCH_FROM / 32
    }

    /// The version's number.
    ///
    /// O(1).
    pub fn version(&self) -> Version {
        Version(self.kept.version())
    }

    read_methods!(['s] 's [&'s ] self Trusted);
    point_methods!(['s] 's [&'s ] self Trusted);

    /// Saves the version to a file for [`QpFile::open`](super::QpFile::open), as [`QpMap::save`]
    /// does. The bytes differ from those of a saved map only in the version's number and the
    /// checksum over it. Writers may change the store meanwhile. O(entries), with a second copy of
    /// them in memory.
    ///
    /// ```
    /// use sapwood::qp::{QpFile, QpStore};
    /// # let path = std::env::temp_dir().join(format!("sapwood-doc-{}.store", std::process::id()));
    /// let store = QpStore::new()?;
    /// let mut txn = store.begin();
    /// txn.insert("ash", 1u64)?;
    /// txn.commit();
    /// store.snapshot().save(&path)?;
    /// assert_eq!(QpFile::<u64>::open(&path)?.get("ash"), Some(&1));
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SaveError`]; a file that was there before is unchanged.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), SaveError>
    where
        V: IntoBytes + Immutable,
    {
        file::save(&self.view(), self.len(), self.version().0, path.as_ref())
    }
}

impl<V: ?Sized + Value + Send + Sync + 'static> Clone for QpSnapshot<V> {
    fn clone(&self) -> Self {
        QpSnapshot {
            kept: self.kept.clone(),
        }
    }
}

impl<V: ?Sized + Value + Send + Sync + fmt::Debug + 'static> fmt::Debug for QpSnapshot<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QpSnapshot")
            .field("version", &self.version())
            .field("entries", &self.iter())
            .finish()
    }
}

impl<'s, V: ?Sized + Value + Send + Sync + 'static> IntoIterator for &'s QpSnapshot<V> {
    type Item = crate::ReadEntry<'s, V>;
    type IntoIter = Iter<'s, V>;

    fn into_iter(self) -> Iter<'s, V> {
        self.iter()
    }
}
