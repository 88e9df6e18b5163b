//! The entry of one key.

use core::fmt;
use core::marker::PhantomData;

use smallvec::SmallVec;

use super::raw::inline::EntryRef;
use super::raw::tree::Tree;
use crate::{Error, Rejected};

/// The entry of a key in a [`QpMap`](super::QpMap): occupied or vacant.
pub enum Entry<'a, K, V> {
    /// The key is there.
    Occupied(OccupiedEntry<'a, K, V>),
    /// The key is absent.
    Vacant(VacantEntry<'a, K, V>),
}

/// The entry of a key that is there.
pub struct OccupiedEntry<'a, K, V> {
    tree: &'a mut Tree<V>,
    entry: EntryRef,
    /// A copy of the key's bytes, which may lie in pieces in the map.
    bytes: SmallVec<[u8; 48]>,
    key: PhantomData<K>,
}

/// The place of a key that is absent.
pub struct VacantEntry<'a, K, V> {
    tree: &'a mut Tree<V>,
    /// A copy of the key's bytes: a key may answer otherwise when it is asked again.
    bytes: SmallVec<[u8; 48]>,
    key: PhantomData<K>,
}

impl<'a, K: AsRef<[u8]>, V> Entry<'a, K, V> {
    /// The value of the key; inserts this one if the key is absent.
    ///
    /// As [`VacantEntry::insert`] if the key is absent, else O(1).
    ///
    /// # Panics
    /// When the arena is full; see [`VacantEntry::try_insert`].
    #[inline]
    pub fn or_insert(self, value: V) -> &'a mut V {
        self.or_insert_with(|| value)
    }

    /// The value of the key; makes one and inserts it if the key is absent.
    ///
    /// As [`VacantEntry::insert`] if the key is absent, else O(1).
    ///
    /// # Panics
    /// When the arena is full.
    #[inline]
    pub fn or_insert_with(self, make: impl FnOnce() -> V) -> &'a mut V {
        match self {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(make()),
        }
    }

    /// The value of the key; makes one from the key and inserts it if the key is absent.
    ///
    /// As [`VacantEntry::insert`] if the key is absent, else O(1).
    ///
    /// # Panics
    /// When the arena is full.
    #[inline]
    pub fn or_insert_with_key(self, make: impl FnOnce(&[u8]) -> V) -> &'a mut V {
        match self {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let value = make(entry.key());
                entry.insert(value)
            }
        }
    }

    /// The value of the key; inserts the default if the key is absent.
    ///
    /// As [`VacantEntry::insert`] if the key is absent, else O(1).
    ///
    /// # Panics
    /// When the arena is full.
    #[inline]
    pub fn or_default(self) -> &'a mut V
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }

    /// Changes the value if the key is there.
    ///
    /// O(1).
    pub fn and_modify(mut self, change: impl FnOnce(&mut V)) -> Self {
        if let Entry::Occupied(entry) = &mut self {
            change(entry.get_mut());
        }
        self
    }

    /// The key.
    ///
    /// O(1).
    pub fn key(&self) -> &[u8] {
        match self {
            Entry::Occupied(entry) => entry.key(),
            Entry::Vacant(entry) => entry.key(),
        }
    }
}

impl<'a, K: AsRef<[u8]>, V> OccupiedEntry<'a, K, V> {
    /// The entry of a key in `tree`.
    #[inline]
    pub(crate) fn new(tree: &'a mut Tree<V>, key: &[u8], entry: EntryRef) -> Self {
        OccupiedEntry {
            tree,
            entry,
            bytes: SmallVec::from_slice(key),
            key: PhantomData,
        }
    }

    /// The key.
    ///
    /// O(1).
    pub fn key(&self) -> &[u8] {
        &self.bytes
    }

    /// The value.
    ///
    /// O(1).
    pub fn get(&self) -> &V {
        self.tree.value_at(self.entry)
    }

    /// A mutable reference to the value.
    ///
    /// O(1).
    pub fn get_mut(&mut self) -> &mut V {
        self.tree.value_mut(self.entry)
    }

    /// A mutable reference to the value that lives as long as the map is borrowed.
    ///
    /// O(1).
    #[inline]
    pub fn into_mut(self) -> &'a mut V {
        self.tree.value_mut(self.entry)
    }

    /// Replaces the value and returns the old one.
    ///
    /// O(1).
    pub fn insert(&mut self, value: V) -> V {
        core::mem::replace(self.get_mut(), value)
    }

    /// Removes the entry and returns its value.
    ///
    /// O(key length), as the removal of a key.
    #[inline]
    pub fn remove(self) -> V {
        match self.tree.remove(&self.bytes) {
            Some(value) => value,
            None => unreachable!("the key of an entry is in the map"),
        }
    }
}

impl<'a, K: AsRef<[u8]>, V> VacantEntry<'a, K, V> {
    /// The entry of a key that is absent from `tree` and is not too long.
    #[inline]
    pub(crate) fn new(tree: &'a mut Tree<V>, key: &[u8]) -> Self {
        VacantEntry {
            tree,
            bytes: SmallVec::from_slice(key),
            key: PhantomData,
        }
    }

    /// The key.
    ///
    /// O(1).
    pub fn key(&self) -> &[u8] {
        &self.bytes
    }

    /// Inserts the value.
    ///
    /// As [`try_insert`](Self::try_insert).
    ///
    /// # Panics
    /// When the arena is full.
    #[inline]
    pub fn insert(self, value: V) -> &'a mut V {
        match self.try_insert(value) {
            Ok(value) => value,
            Err(rejected) => panic!("inserting into a QpMap: {rejected}"),
        }
    }

    /// Inserts the value.
    ///
    /// O(key length); one branch or cluster is written, and sometimes a cluster is split.
    ///
    /// # Errors
    /// [`Error::ArenaFull`], with the value given back; the map is unchanged.
    #[inline]
    pub fn try_insert(self, value: V) -> Result<&'a mut V, Rejected<V>> {
        match self.tree.insert_absent(&self.bytes, value) {
            Ok(entry) => Ok(self.tree.value_mut(entry)),
            Err((value, full)) => Err(Rejected {
                value,
                error: Error::ArenaFull(full),
            }),
        }
    }
}

impl<K: AsRef<[u8]>, V: fmt::Debug> fmt::Debug for Entry<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Entry::Occupied(entry) => entry.fmt(f),
            Entry::Vacant(entry) => entry.fmt(f),
        }
    }
}

impl<K: AsRef<[u8]>, V: fmt::Debug> fmt::Debug for OccupiedEntry<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Occupied(\"{}\": {:?})",
            self.key().escape_ascii(),
            self.get()
        )
    }
}

impl<K: AsRef<[u8]>, V> fmt::Debug for VacantEntry<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vacant(\"{}\")", self.key().escape_ascii())
    }
}
