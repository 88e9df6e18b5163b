//! The numbers of versions, and which versions snapshots keep.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use crate::sync::{self, Mutex, MutexGuard};

/// The versions of one structure.
#[derive(Default)]
pub(crate) struct Versions(Mutex<Numbers>);

/// The newest version, and how many snapshots keep each version.
#[derive(Default)]
pub(crate) struct Numbers {
    newest: u64,
    kept: BTreeMap<u64, usize>,
}

impl Versions {
    /// The lock under which a version is published, so that a snapshot gets one version and its
    /// number.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Numbers> {
        sync::lock(&self.0)
    }

    /// The number of the newest version.
    pub(crate) fn newest(&self) -> u64 {
        self.lock().newest
    }

    /// The number of snapshots.
    pub(crate) fn snapshots(&self) -> usize {
        self.lock().kept.values().sum()
    }

    /// Keeps the newest version, of which `copy` takes what the snapshot needs.
    pub(crate) fn keep<T>(self: &Arc<Self>, copy: impl FnOnce() -> T) -> (KeptVersion, T) {
        let mut numbers = self.lock();
        let copied = copy();
        let number = numbers.newest;
        numbers.add(number);
        let versions = Arc::clone(self);
        (KeptVersion { versions, number }, copied)
    }
}

impl Numbers {
    /// Counts a version that is being published; its number.
    pub(crate) fn publish(&mut self) -> u64 {
        self.newest += 1;
        self.newest
    }

    /// The newest version, and the oldest that is kept. Garbage that a later version than the
    /// oldest retired stays.
    pub(crate) fn bounds(&self) -> (u64, u64) {
        let oldest = self.kept.keys().next().copied();
        (self.newest, oldest.unwrap_or(u64::MAX))
    }

    fn add(&mut self, number: u64) {
        *self.kept.entry(number).or_insert(0) += 1;
    }
}

/// A version that is kept until this is dropped.
pub(crate) struct KeptVersion {
    versions: Arc<Versions>,
    number: u64,
}

impl KeptVersion {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

impl Clone for KeptVersion {
    fn clone(&self) -> Self {
        self.versions.lock().add(self.number);
        KeptVersion {
            versions: Arc::clone(&self.versions),
            number: self.number,
        }
    }
}

impl Drop for KeptVersion {
    fn drop(&mut self) {
        let mut numbers = self.versions.lock();
        if let Some(count) = numbers.kept.get_mut(&self.number) {
            *count -= 1;
            if *count == 0 {
                numbers.kept.remove(&self.number);
            }
        }
    }
}
