//! The numbers of versions, and which versions snapshots keep.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use sapwood_qsbr::{Domain, Hold, Holder};

use super::sync::{self, Mutex, MutexGuard};

/// The oldest version that snapshots keep. It holds back all nodes that were replaced after it.
///
/// ```
/// use sapwood::qp::QpStore;
/// let store = QpStore::new()?;
/// assert!(store.oldest_snapshot().is_none());
/// let snapshot = store.snapshot();
/// for round in 0..10 {
///     let mut txn = store.begin();
///     txn.insert("elm", round)?;
///     txn.commit();
/// }
/// let oldest = store.oldest_snapshot().unwrap();
/// assert_eq!((oldest.version, oldest.bytes), (0, store.memory().waiting.1));
/// println!("{oldest}"); // version 0 by thread main for 0.001 s: 640 bytes wait
/// # let _ = snapshot;
/// # Ok::<(), sapwood::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OldestSnapshot {
    /// The number of the version.
    pub version: u64,
    /// The name of the thread that made the version's first snapshot, if the thread has one.
    pub thread: Option<String>,
    /// For how long the version has been kept; 0 without the feature `std`, as there is no clock.
    pub age: Duration,
    /// Bytes of garbage that later versions retired. They wait at least for the end of the
    /// version's snapshots.
    pub bytes: usize,
}

impl fmt::Display for OldestSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (age, bytes) = (self.age.as_secs_f64(), self.bytes);
        let name = name(self.version, self.thread.as_deref());
        write!(f, "{name} for {age:.3} s: {bytes} bytes wait")
    }
}

/// The name of a version in reports.
fn name(version: u64, thread: Option<&str>) -> String {
    match thread {
        Some(thread) => alloc::format!("version {version} by thread {thread}"),
        None => alloc::format!("version {version}"),
    }
}

/// The versions of one structure. Their lock is held for a moment only, and not while a writer
/// waits.
#[derive(Default)]
pub struct Versions(Mutex<Numbers>);

/// The newest version, and the versions that snapshots keep.
#[derive(Default)]
pub struct Numbers {
    newest: u64,
    /// Bytes that all versions up to the newest one retired and handed to the grace period.
    retired: u64,
    kept: BTreeMap<u64, Keepers>,
}

/// The snapshots of one version.
struct Keepers {
    count: usize,
    /// When the first snapshot was made, and by which thread.
    made: Made,
    /// Bytes that the version and earlier ones retired: snapshots of it do not hold them back.
    retired: u64,
}

/// A moment, and the thread that ran then.
#[cfg(feature = "std")]
struct Made(std::time::Instant, std::thread::Thread);

#[cfg(feature = "std")]
impl Made {
    fn now() -> Self {
        Made(std::time::Instant::now(), std::thread::current())
    }

    fn age(&self) -> Duration {
        self.0.elapsed()
    }

    fn thread(&self) -> Option<&str> {
        self.1.name()
    }
}

/// Without a system there are no clock and no names.
#[cfg(not(feature = "std"))]
struct Made;

#[cfg(not(feature = "std"))]
impl Made {
    fn now() -> Self {
        Made
    }

    fn age(&self) -> Duration {
        Duration::ZERO
    }

    fn thread(&self) -> Option<&str> {
        None
    }
}

impl Versions {
    /// The versions of a structure whose garbage waits in this domain. The domain reports on them.
    pub fn new(domain: &Domain) -> Arc<Self> {
        let versions = Arc::<Self>::default();
        let holder: Weak<Self> = Arc::downgrade(&versions);
        domain.add_holder(holder);
        versions
    }

    /// Gives the first version another number.
    pub fn begin_at(&self, number: u64) {
        self.lock().newest = number;
    }

    /// The lock under which a version is published, so that a snapshot gets one version and its
    /// number.
    pub fn lock(&self) -> MutexGuard<'_, Numbers> {
        sync::lock(&self.0)
    }

    /// The number of the newest version.
    pub fn newest(&self) -> u64 {
        self.lock().newest
    }

    /// The number of snapshots.
    pub fn snapshots(&self) -> usize {
        self.lock().kept.values().map(|keepers| keepers.count).sum()
    }

    /// The oldest version that is kept.
    pub fn oldest(&self) -> Option<OldestSnapshot> {
        let numbers = self.lock();
        let (&version, keepers) = numbers.kept.first_key_value()?;
        Some(OldestSnapshot {
            version,
            thread: keepers.made.thread().map(String::from),
            age: keepers.made.age(),
            bytes: numbers.held_back(keepers),
        })
    }

    /// Keeps the newest version; `copy` copies what the snapshot needs of it.
    pub fn keep<T>(self: &Arc<Self>, copy: impl FnOnce() -> T) -> (KeptVersion, T) {
        let mut numbers = self.lock();
        let copied = copy();
        let (number, retired) = (numbers.newest, numbers.retired);
        let keepers = numbers.kept.entry(number).or_insert_with(|| Keepers {
            count: 0,
            made: Made::now(),
            retired,
        });
        keepers.count += 1;
        let versions = Arc::clone(self);
        (KeptVersion { versions, number }, copied)
    }
}

impl Holder for Versions {
    fn holds(&self) -> Vec<Hold> {
        let numbers = self.lock();
        let hold = |(&version, keepers): (&u64, &Keepers)| Hold {
            name: name(version, keepers.made.thread()),
            age: keepers.made.age(),
            versions: numbers.newest - version,
            bytes: numbers.held_back(keepers),
        };
        numbers.kept.iter().map(hold).collect()
    }
}

impl Numbers {
    /// Counts a version that is being published; returns its number.
    pub fn publish(&mut self) -> u64 {
        self.newest += 1;
        self.newest
    }

    /// Counts bytes of garbage that are tagged with the newest version, which does not reach them.
    pub fn retire(&mut self, bytes: usize) {
        self.retired += bytes as u64;
        if let Some(keepers) = self.kept.get_mut(&self.newest) {
            keepers.retired = self.retired;
        }
    }

    /// The newest version, and the oldest that is kept. Garbage that a later version than the
    /// oldest retired must stay.
    pub fn bounds(&self) -> (u64, u64) {
        let oldest = self.kept.keys().next().copied();
        (self.newest, oldest.unwrap_or(u64::MAX))
    }

    /// The newest version that is kept.
    #[inline]
    pub fn newest_kept(&self) -> Option<u64> {
        self.kept.last_key_value().map(|(&version, _)| version)
    }

    /// The number of the version that is published next.
    pub fn next(&self) -> u64 {
        self.newest + 1
    }

    /// Bytes that later versions retired, and that wait for the end of this one.
    fn held_back(&self, keepers: &Keepers) -> usize {
        (self.retired - keepers.retired) as usize
    }
}

/// A version that is kept until this is dropped.
pub struct KeptVersion {
    versions: Arc<Versions>,
    number: u64,
}

impl KeptVersion {
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl Clone for KeptVersion {
    fn clone(&self) -> Self {
        if let Some(keepers) = self.versions.lock().kept.get_mut(&self.number) {
            keepers.count += 1;
        }
        KeptVersion {
            versions: Arc::clone(&self.versions),
            number: self.number,
        }
    }
}

impl Drop for KeptVersion {
    fn drop(&mut self) {
        let mut numbers = self.versions.lock();
        if let Some(keepers) = numbers.kept.get_mut(&self.number) {
            keepers.count -= 1;
            if keepers.count == 0 {
                numbers.kept.remove(&self.number);
            }
        }
    }
}
