//! A log in a temporary directory, and what tests do with it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sapwood::qp::QpStore;
use sapwood_sync::{
    Changes, Digest, Error, FolderLog, Follower, FollowerOptions, Kind, Publisher,
    PublisherOptions, Snapshots, StoreTarget,
};

pub type Store = Arc<QpStore<[u8]>>;
pub type Oracle = BTreeMap<Vec<u8>, Vec<u8>>;

/// A log with its snapshots, in a directory of its own.
pub struct Place {
    pub log: Arc<FolderLog>,
    pub snapshots: Snapshots,
    folder: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (log, snapshots) = open(folder.path());
        Place {
            log,
            snapshots,
            folder,
        }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Becomes the leader.
    pub async fn lead(&self, set: impl FnOnce(&mut PublisherOptions)) -> Result<Publisher, Error> {
        let mut options = PublisherOptions::new("leader");
        options.wait = false;
        set(&mut options);
        let (log, snapshots) = (self.log.clone(), self.snapshots.clone());
        Publisher::lead(log, snapshots, Kind::Names, options).await
    }

    /// A follower into a store.
    pub fn follow(&self, name: &str, store: &Store) -> Follower<StoreTarget<Store>> {
        let mut options = FollowerOptions::new(name);
        options.report_every = Duration::from_millis(50);
        options.retry_at_most = Duration::from_millis(100);
        let (log, snapshots) = (self.log.clone(), self.snapshots.clone());
        Follower::start(
            log,
            snapshots,
            Kind::Names,
            StoreTarget(store.clone()),
            options,
        )
    }
}

pub fn open(folder: &Path) -> (Arc<FolderLog>, Snapshots) {
    (
        Arc::new(FolderLog::new(folder.join("log"), "map").unwrap()),
        Snapshots::in_folder(folder.join("snapshots"), "map").unwrap(),
    )
}

pub fn store() -> Store {
    Arc::new(QpStore::new().unwrap())
}

/// The entries of a store.
pub fn entries(store: &QpStore<[u8]>) -> Oracle {
    let snapshot = store.snapshot();
    snapshot
        .iter()
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect()
}

/// The digest of entries, added up anew.
pub fn digest(entries: &Oracle) -> Digest {
    let mut digest = Digest::default();
    for (key, value) in entries {
        digest.add(key, value);
    }
    digest
}

/// A commit that puts one key.
pub fn put(key: &str, value: &str) -> Changes {
    let mut changes = Changes::new();
    changes.put(key, value).unwrap();
    changes
}

/// Random changes of a few hundred keys; made in the oracle as well.
pub fn random(rng: &mut fastrand::Rng, most: usize, oracle: &mut Oracle) -> Changes {
    let mut changes = Changes::new();
    for _ in 0..rng.usize(0..=most) {
        let key = format!("key/{}", rng.u32(0..300)).into_bytes();
        if rng.u8(0..3) == 0 {
            changes.remove(&key).unwrap();
            oracle.remove(&key);
        } else {
            let value = vec![rng.u8(..); rng.usize(0..40)];
            changes.put(&key, &value).unwrap();
            oracle.insert(key, value);
        }
    }
    changes
}

/// Waits until something is so; panics after ten seconds.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not within ten seconds: {what}");
}
