//! The multi-version map: one writer at a time, any number of readers and snapshots.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use std::path::Path;

use sapwood_qsbr::{Domain, Guard, StaysOnItsThread};
use zerocopy::{Immutable, IntoBytes};

use super::diff::Diff;
use super::file::SaveError;
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
use crate::memory::MemoryOptions;
use crate::qp::{Accepts, IntoValue, Value};
use crate::reader::reading_methods;
use crate::{Buildable, Builder, Error, OldestSnapshot, Readable};

/// Address space that a store reserves by default: as much as 31-bit references reach.
pub(crate) const RESERVE: usize = 8 << 30;

/// The number of a committed version: 0 for the first, or that of the saved one which was loaded;
/// one more for each commit that changed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub(crate) u64);

impl Version {
    /// The number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An ordered map over byte strings with versions: one writer at a time, readers that never wait.
///
/// - A [`QpTxn`] collects changes and sees them; [`commit`](QpTxn::commit) publishes all of them
///   with one store, dropping it leaves no trace.
/// - A [`Reader`](crate::Reader) (one per thread) gives [`QpView`]s: the newest version, exact and
///   unchanging for as long as the view is held. Reading takes no lock, retries nothing and writes
///   nothing.
/// - A [`QpSnapshot`] keeps a version alive, on any thread, for as long as it likes. The oldest
///   snapshot holds back the memory of everything that was changed after it.
///
/// A change copies the branches on the way to its key once per transaction: a commit's cost depends
/// on what it changed and the depth of those keys, not on the size of the map. Handles are cheap to
/// clone.
///
/// ```
/// use sapwood::qp::QpStore;
///
/// let store = QpStore::new()?;
/// let mut reader = store.reader("worker")?;
/// let mut txn = store.begin();
/// txn.insert("elder", 1)?;
/// txn.insert("elm", 2)?;
/// assert_eq!(txn.get("elm"), Some(&2)); // it reads what it wrote
/// assert_eq!(reader.view().get("elm"), None); // nobody else does yet
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
    type Choices = ();
}

impl<V: ?Sized + Value + Send + Sync + 'static> Builder<QpStore<V>> {
    /// An empty store.
    ///
    /// # Errors
    /// [`Error::ArenaFull`] when the backing cannot be had.
    ///
    /// # Panics
    /// When the backing is one that moves as it grows ([`Backing::Auto`](sapwood_arena::Backing),
    /// which [`ArenaOptions`](sapwood_arena::ArenaOptions) have unless they are told otherwise, and
    /// `Backing::Heap`).
    pub fn build(self) -> Result<QpStore<V>, Error> {
        let tree = Tree::new(stable_arena(self.memory.clone().stable())?);
        Ok(self.build_over(tree, None))
    }

    /// A store of this tree, whose root is also kept at this place of the arena.
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
    /// A store of entries in ascending order of keys, as its first version. Of equal keys, the last
    /// wins.
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
        let tree = sorted_tree(stable_arena(self.memory.clone().stable())?, entries)?;
        Ok(self.build_over(tree, None))
    }
}

impl<V: Send + Sync + 'static> QpStore<V> {
    /// A store whose first version is a map's entries.
    ///
    /// # Errors
    /// [`Error::ArenaFull`] when no memory can be had; the map is dropped.
    pub fn from_map(map: QpMap<V>) -> Result<Self, Error> {
        Self::builder().build_sorted(map)
    }
}

impl<V: ?Sized + Value + Send + Sync + 'static> QpStore<V> {
    /// Gives the first version another number.
    pub(super) fn begin_at(&self, version: Version) {
        self.shared.versions().begin_at(version.0);
    }

    /// An empty store with a domain of its own.
    ///
    /// # Errors
    /// [`Error::ArenaFull`] when no address space can be had.
    pub fn new() -> Result<Self, Error> {
        Self::builder().build()
    }

    /// A store that is made to measure.
    pub fn builder() -> Builder<Self> {
        Builder::begin(MemoryOptions::reserve(RESERVE), ())
    }

    reading_methods!(QpView<'g, V>);

    /// Number of entries of the newest version: one load.
    #[inline]
    pub fn len(&self) -> usize {
        self.shared.len()
    }

    /// Whether the newest version has no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A copy of a key's value in the newest version. Two calls may ask two versions: a
    /// [`pin`](Self::pin) or a [`reader`](Self::reader) gives a view of one, with references.
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
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> bool {
        self.read(|view| view.contains_key(key))
    }

    /// Keeps the newest version. Takes a short lock; reading it takes none.
    pub fn snapshot(&self) -> QpSnapshot<V> {
        QpSnapshot {
            kept: self.shared.keep(),
        }
    }

    /// The number of snapshots that are alive. Waits for no transaction.
    pub fn snapshots(&self) -> usize {
        self.shared.versions().snapshots()
    }

    /// The oldest version that snapshots keep, and what it holds back. Waits for no transaction: a
    /// monitor can ask it while a writer is blocked at the hard limit of garbage. So does
    /// [`Domain::stalls`], for all structures of the domain.
    pub fn oldest_snapshot(&self) -> Option<OldestSnapshot> {
        self.shared.versions().oldest()
    }

    /// The number of the newest version.
    pub fn version(&self) -> Version {
        Version(self.shared.version())
    }

    /// Begins a transaction, waiting for the one that another thread has open, if any.
    ///
    /// # Panics
    /// When this thread has a transaction of the store open: it would wait for itself.
    #[track_caller]
    pub fn begin(&self) -> QpTxn<'_, V> {
        QpTxn::new(&self.shared, self.shared.write())
    }

    /// Begins a transaction, unless another is open.
    pub fn try_begin(&self) -> Option<QpTxn<'_, V>> {
        Some(QpTxn::new(&self.shared, self.shared.try_write()?))
    }

    /// What changed between two snapshots, in order of keys. A key is `Changed` when it was written
    /// in between, even with an equal value.
    ///
    /// Subtrees that both versions share are skipped, so the difference reads the branches and
    /// clusters on the paths to the changes only. A compaction moves branches and clusters, which
    /// are then not shared: across [`compact_step`](Self::compact_step), it also reads all that was
    /// moved, in both versions, and across a whole compaction all branches and clusters. Entries do
    /// not move, and those without a change are not read. Whoever takes differences from time to
    /// time makes the snapshot to compare with after a compaction. Snapshots of different stores
    /// are compared whole, entries included.
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
    /// assert_eq!(changes, [Change::Added(b"a", &1)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn diff<'a>(old: &'a QpSnapshot<V>, new: &'a QpSnapshot<V>) -> Diff<'a, V> {
        Diff::new(
            old.kept.view(),
            new.kept.view(),
            old.kept.same_store(&new.kept),
        )
    }

    /// Frees nodes that no reader and no snapshot can hold any more, up to `budget` of them;
    /// returns how many.
    ///
    /// Every commit frees some; this is for an idle loop, or after a stall. Values are dropped
    /// here, on the calling thread, after the writer's lock is released. Returns 0 when a
    /// transaction is open.
    pub fn reclaim(&self, budget: usize) -> usize {
        let mut values = Vec::new();
        let Some(mut writer) = self.shared.try_write() else {
            return 0;
        };
        self.shared.reclaim(&mut writer, budget, &mut values)
    }

    /// Moves up to `budget` branches into fresh memory in depth-first order, as a commit of its
    /// own; returns whether there is more to do. Readers notice nothing. Call it again and again to
    /// compact the whole map; when the end is reached, the next call begins anew.
    ///
    /// # Errors
    /// [`Error::ArenaFull`] or [`Error::GarbageLimit`]: nothing is lost, the compaction goes on
    /// later.
    ///
    /// # Panics
    /// When this thread has a transaction of the store open: it would wait for itself.
    #[track_caller]
    pub fn compact_step(&self, budget: usize) -> Result<bool, Error> {
        QpTxn::new(&self.shared, self.shared.write()).compact(budget)
    }

    /// Where the memory is. Waits for an open transaction; [`snapshots`](Self::snapshots) and
    /// [`oldest_snapshot`](Self::oldest_snapshot) do not.
    ///
    /// # Panics
    /// When this thread has a transaction of the store open: it would wait for itself.
    #[track_caller]
    pub fn memory(&self) -> QpStoreMemory {
        let writer = self.shared.write();
        QpStoreMemory::of(&writer, self.snapshots())
    }

    /// Walks the newest version and checks every invariant, and the accounts against what is there.
    /// Waits for an open transaction.
    ///
    /// # Errors
    /// What is wrong, for a person to read.
    ///
    /// # Panics
    /// When this thread has a transaction of the store open: it would wait for itself.
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

/// One version, read under a guard. Stays on its thread.
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
        QpView {
            view,
            len,
            _local: StaysOnItsThread::default(),
        }
    }

    #[inline(always)]
    pub(crate) fn view(&self) -> View<'g, V> {
        self.view
    }

    /// Number of entries.
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
    type Item = (&'g [u8], &'g V);
    type IntoIter = Iter<'g, V>;

    fn into_iter(self) -> Iter<'g, V> {
        self.iter()
    }
}

/// A version that is kept alive until this is dropped. May be read and sent anywhere.
pub struct QpSnapshot<V: ?Sized + Value + Send + Sync + 'static> {
    kept: Kept<V>,
}

impl<V: ?Sized + Value + Send + Sync + 'static> QpSnapshot<V> {
    #[inline(always)]
    pub(crate) fn view(&self) -> View<'_, V> {
        self.kept.view()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    fn is_large(&self) -> bool {
        self.len() >= read::BATCH_FROM / 32
    }

    /// The version's number.
    pub fn version(&self) -> Version {
        Version(self.kept.version())
    }

    read_methods!(['s] 's [&'s ] self Trusted);
    point_methods!(['s] 's [&'s ] self Trusted);

    /// Saves the version for [`QpFile::open`](super::QpFile::open), as [`QpMap::save`] does. The
    /// bytes are the same but for the version's number and the checksum over it; the store may be
    /// changed meanwhile. O(entries), with a second copy of them in memory.
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
    /// [`SaveError`]; a file that was there before is untouched.
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
    type Item = (&'s [u8], &'s V);
    type IntoIter = Iter<'s, V>;

    fn into_iter(self) -> Iter<'s, V> {
        self.iter()
    }
}
