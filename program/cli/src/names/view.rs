//! What the queries read: a saved map, one version of a live map, or its newest one in each
//! question.

use std::ops::Bound;

use sapwood::qp::{Denial, QpFile, QpStore, QpView, Value};
use sapwood_live::NamesAsked;

use super::SavedValue;
use crate::errors::Error;

/// An entry: its key and its value.
pub type Entry<'m, V> = (&'m [u8], &'m V);

/// Entries in order.
pub type Entries<'m, V> = Box<dyn DoubleEndedIterator<Item = Entry<'m, V>> + 'm>;

/// Both ends of a range of keys.
pub type Bounds<'k> = (Bound<&'k [u8]>, Bound<&'k [u8]>);

/// The questions that the commands ask.
pub trait Names<V: ?Sized + Value> {
    /// Number of entries.
    fn len(&self) -> usize;
    /// The value of a key.
    fn get(&self, key: &[u8]) -> Option<&V>;
    /// The entries whose keys start with a prefix.
    fn prefix(&self, prefix: &[u8]) -> Entries<'_, V>;
    /// The entries between two keys.
    fn range(&self, bounds: Bounds<'_>) -> Entries<'_, V>;
    /// The entry after a key.
    fn successor(&self, key: &[u8]) -> Option<Entry<'_, V>>;
    /// The entry before a key.
    fn predecessor(&self, key: &[u8]) -> Option<Entry<'_, V>>;
    /// The entry with the longest key that is a prefix of a key.
    fn longest_prefix(&self, key: &[u8]) -> Option<Entry<'_, V>>;
    /// All entries whose keys are prefixes of a key, shortest first.
    fn ancestors(&self, key: &[u8]) -> Vec<Entry<'_, V>>;
    /// Those of them that end at a separator.
    fn ancestors_at(&self, key: &[u8], separator: u8) -> Vec<Entry<'_, V>>;

    /// The key and the value of an entry.
    fn entry(&self, key: &[u8]) -> Option<Entry<'_, V>>;
    /// What a zone has around a domain name, and what proves that it is not there; `is_cut` tells
    /// the values of zone cuts.
    fn denial(&self, name: &[u8], is_cut: &dyn Fn(&V) -> bool) -> Denial<'_, V>;

    /// All entries.
    fn iter(&self) -> Entries<'_, V> {
        self.prefix(b"")
    }
}

/// All types have these methods with the same names.
macro_rules! names {
    ($map:ty) => {
        impl<V: ?Sized + SavedValue> Names<V> for $map {
            fn len(&self) -> usize {
                self.len()
            }

            fn get(&self, key: &[u8]) -> Option<&V> {
                self.get(key)
            }

            fn prefix(&self, prefix: &[u8]) -> Entries<'_, V> {
                Box::new(self.prefix(prefix))
            }

            fn range(&self, bounds: Bounds<'_>) -> Entries<'_, V> {
                Box::new(self.range::<[u8], _>(bounds))
            }

            fn successor(&self, key: &[u8]) -> Option<Entry<'_, V>> {
                self.successor(key)
            }

            fn predecessor(&self, key: &[u8]) -> Option<Entry<'_, V>> {
                self.predecessor(key)
            }

            fn longest_prefix(&self, key: &[u8]) -> Option<Entry<'_, V>> {
                self.longest_prefix(key)
            }

            fn ancestors(&self, key: &[u8]) -> Vec<Entry<'_, V>> {
                self.ancestors(key)
            }

            fn ancestors_at(&self, key: &[u8], separator: u8) -> Vec<Entry<'_, V>> {
                self.ancestors_at(key, separator)
            }

            fn entry(&self, key: &[u8]) -> Option<Entry<'_, V>> {
                self.get_key_value(key)
            }

            fn denial(&self, name: &[u8], is_cut: &dyn Fn(&V) -> bool) -> Denial<'_, V> {
                self.denial(name, 0, |_, value| is_cut(value))
            }
        }
    };
}

names!(QpFile<V>);
names!(QpView<'_, V>);
names!(NamesAsked<QpStore<V>>);

/// A map that is open for reading.
pub trait Source<V: ?Sized> {
    /// Calls `work` with the map; of a live map, with its newest version if the writer knows of the
    /// reader.
    fn read(
        &mut self,
        work: &mut dyn FnMut(&dyn Names<V>) -> Result<(), Error>,
    ) -> Result<(), Error>;
}

impl<V: ?Sized + SavedValue> Source<V> for QpFile<V> {
    fn read(
        &mut self,
        work: &mut dyn FnMut(&dyn Names<V>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        work(self)
    }
}
