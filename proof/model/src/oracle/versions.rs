//! [`Versions`]: a naive multi-version store, as a list of whole copies.

use super::ByteMap;

/// A naive multi-version map: one whole [`ByteMap`] per committed version, and one for the open
/// transaction.
///
/// Version 0 is the empty map. Version numbers are positions in the list.
///
/// ```
/// use sapwood_model::oracle::{Change, Versions};
///
/// let mut store = Versions::new();
/// store.begin().insert(b"a", 1);
/// let old = store.commit();
/// store.begin().insert(b"a", 2);
/// let new = store.commit();
/// assert_eq!(store.version(old).get(b"a"), Some(&1));
/// assert_eq!(store.diff(old, new), [Change::Changed { key: b"a", old: &1, new: &2 }]);
/// ```
#[derive(Clone, Debug)]
pub struct Versions<V> {
    committed: Vec<ByteMap<V>>,
    open: Option<ByteMap<V>>,
}

impl<V> Default for Versions<V> {
    fn default() -> Self {
        Self {
            committed: vec![ByteMap::new()],
            open: None,
        }
    }
}

impl<V> Versions<V> {
    /// A store with the empty version 0.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The map of the open transaction, to read and to change.
    ///
    /// # Panics
    ///
    /// If no transaction is open.
    pub fn txn(&mut self) -> &mut ByteMap<V> {
        self.open.as_mut().expect("no transaction is open")
    }

    /// Whether a transaction is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Commits the open transaction; returns the number of its version.
    ///
    /// # Panics
    ///
    /// If no transaction is open.
    pub fn commit(&mut self) -> usize {
        self.committed
            .push(self.open.take().expect("no transaction is open"));
        self.latest_version()
    }

    /// Drops the open transaction.
    ///
    /// # Panics
    ///
    /// If no transaction is open.
    pub fn rollback(&mut self) {
        self.open.take().expect("no transaction is open");
    }

    /// The number of the last committed version.
    #[must_use]
    pub fn latest_version(&self) -> usize {
        self.committed.len() - 1
    }

    /// The last committed version.
    #[must_use]
    pub fn latest(&self) -> &ByteMap<V> {
        self.version(self.latest_version())
    }

    /// The map of a committed version.
    ///
    /// # Panics
    ///
    /// If there is no such version.
    #[must_use]
    pub fn version(&self, version: usize) -> &ByteMap<V> {
        &self.committed[version]
    }
}

impl<V: Clone> Versions<V> {
    /// Opens a transaction on a copy of the latest version.
    ///
    /// # Panics
    ///
    /// If one is open.
    pub fn begin(&mut self) -> &mut ByteMap<V> {
        assert!(self.open.is_none(), "a transaction is open");
        self.open
            .insert(self.committed[self.committed.len() - 1].clone())
    }
}

impl<V: PartialEq> Versions<V> {
    /// The differences between two versions, in key order.
    ///
    /// # Panics
    ///
    /// If there is no such version.
    #[must_use]
    pub fn diff(&self, old: usize, new: usize) -> Vec<Change<'_, V>> {
        diff(self.version(old), self.version(new))
    }
}

/// One difference between two maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a, V> {
    /// Only the new map has the key.
    Added {
        /// The key.
        key: &'a [u8],
        /// The value in the new map.
        new: &'a V,
    },
    /// Only the old map has the key.
    Removed {
        /// The key.
        key: &'a [u8],
        /// The value in the old map.
        old: &'a V,
    },
    /// Both maps have the key, with different values.
    Changed {
        /// The key.
        key: &'a [u8],
        /// The value in the old map.
        old: &'a V,
        /// The value in the new map.
        new: &'a V,
    },
}

impl<'a, V> Change<'a, V> {
    /// The key that differs.
    #[must_use]
    pub fn key(&self) -> &'a [u8] {
        match self {
            Change::Added { key, .. }
            | Change::Removed { key, .. }
            | Change::Changed { key, .. } => key,
        }
    }
}

/// The differences between two maps, in key order. Equal values are no difference.
#[must_use]
pub fn diff<'a, V: PartialEq>(old: &'a ByteMap<V>, new: &'a ByteMap<V>) -> Vec<Change<'a, V>> {
    let mut changes = Vec::new();
    for (key, was) in old.iter() {
        match new.get(key) {
            None => changes.push(Change::Removed { key, old: was }),
            Some(is) if is != was => changes.push(Change::Changed {
                key,
                old: was,
                new: is,
            }),
            Some(_) => {}
        }
    }
    for (key, is) in new.iter() {
        if !old.contains_key(key) {
            changes.push(Change::Added { key, new: is });
        }
    }
    changes.sort_by_key(Change::key);
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rollback_leaves_no_trace() {
        let mut store = Versions::new();
        store.begin().insert(b"k", 1);
        assert_eq!(store.commit(), 1);
        store.begin().clear();
        assert!(store.txn().is_empty() && store.is_open());
        store.rollback();
        assert_eq!(
            (store.latest_version(), store.latest().get(b"k")),
            (1, Some(&1))
        );
    }

    #[test]
    fn diff_is_in_key_order() {
        let mut store = Versions::new();
        let txn = store.begin();
        txn.insert(b"b", 1);
        txn.insert(b"c", 1);
        txn.insert(b"d", 1);
        let old = store.commit();
        let txn = store.begin();
        txn.insert(b"a", 2);
        txn.remove(b"b");
        txn.insert(b"c", 2);
        txn.insert(b"d", 1);
        let new = store.commit();
        assert_eq!(
            store.diff(old, new),
            [
                Change::Added { key: b"a", new: &2 },
                Change::Removed { key: b"b", old: &1 },
                Change::Changed {
                    key: b"c",
                    old: &1,
                    new: &2
                },
            ]
        );
    }
}
