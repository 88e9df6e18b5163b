//! The rules that a reading adds: in a map of their own, or in a store that nobody reads yet.

use std::ops::Bound;

use sapwood::qp::{OrderedRead, QpMap, QpStore, QpTxn, ReadEntry};

use crate::error::ListError;

/// Rules by their names.
pub enum Additions<'s> {
    /// In a map beside the one that is read.
    Own(QpMap<[u8]>),
    /// In a store that had nothing before.
    Store(Filling<'s>),
}

/// A store that is filled in many commits.
///
/// One commit would take twice the memory: clusters are written anew while they grow, and those of
/// an open transaction are freed when they are as many as what it made.
pub struct Filling<'s> {
    store: &'s QpStore<[u8]>,
    /// It is only missing between two commits.
    txn: Option<QpTxn<'s, [u8]>>,
    changes: usize,
}

/// Changes of one commit.
const CHANGES: usize = 1024;

impl<'s> Additions<'s> {
    /// In a store, which is emptied.
    pub fn filling(store: &'s QpStore<[u8]>) -> Self {
        Additions::Store(Filling {
            store,
            txn: Some(store.begin()),
            changes: 0,
        })
    }

    /// All of them.
    pub fn read(&self) -> Option<&dyn OrderedRead<[u8]>> {
        match self {
            Additions::Own(map) => Some(map),
            Additions::Store(filling) => {
                let txn = filling.txn.as_ref();
                txn.map(|txn| txn as &dyn OrderedRead<[u8]>)
            }
        }
    }

    /// The rules of a name.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        match self {
            Additions::Own(map) => map.get(key),
            Additions::Store(filling) => filling.txn.as_ref()?.get(key),
        }
    }

    /// The rules of a name and of those above it.
    pub fn ancestors(&self, key: &[u8]) -> Vec<ReadEntry<'_, [u8]>> {
        self.read().map_or(Vec::new(), |map| map.ancestors(key))
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.read().map_or(0, OrderedRead::entries)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first names behind another one, and their rules.
    pub fn part(&self, from: Option<&[u8]>, most: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let from = from.map_or(Bound::Unbounded, Bound::Excluded);
        let all = self.read().map(|map| map.range((from, Bound::Unbounded)));
        let part = all.into_iter().flatten().take(most);
        part.map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect()
    }

    /// Sets the rules of a name; without a rule, the name goes.
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), ListError> {
        match self {
            Additions::Own(map) if value.is_empty() => drop(map.remove(key)),
            Additions::Own(map) => drop(map.insert(key, value)?),
            Additions::Store(filling) => {
                filling.changes += 1;
                if filling.changes == CHANGES {
                    filling.commit();
                }
                let store = filling.store;
                let txn = filling.txn.get_or_insert_with(|| store.begin());
                match value.is_empty() {
                    true => drop(txn.remove(key)?),
                    false => drop(txn.insert(key, value)?),
                }
            }
        }
        Ok(())
    }

    /// Removes all.
    pub fn clear(&mut self) -> Result<(), ListError> {
        match self {
            Additions::Own(map) => map.clear(),
            Additions::Store(filling) => {
                filling.txn = None;
                let mut txn = filling.store.begin();
                txn.clear()?;
                txn.commit();
                filling.store.reclaim(usize::MAX);
                filling.commit();
            }
        }
        Ok(())
    }

    /// Makes a version of all of them, if they are in a store; nothing can be changed then.
    pub fn end(&mut self) {
        if let Additions::Store(filling) = self {
            filling.end();
        }
    }

    /// Bytes beside the map that is the outcome.
    pub fn bytes(&self) -> usize {
        match self {
            Additions::Own(map) => map.memory().total(),
            Additions::Store(_) => 0,
        }
    }
}

impl Filling<'_> {
    /// Makes a version of what there is, which frees what it has replaced.
    fn commit(&mut self) {
        self.end();
        self.txn = Some(self.store.begin());
        self.changes = 0;
    }

    fn end(&mut self) {
        if let Some(txn) = self.txn.take() {
            txn.commit();
        }
    }
}
