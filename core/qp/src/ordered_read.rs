//! Ordered maps of any kind behind one trait: for programs that choose the kind when they run.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Bound;

use crate::raw::mem::{Checked, Trusted};
use crate::{Closest, Denial, QpSharedRange, Range, ReadEntry, Value};

/// Two bounds of keys.
pub type KeyBounds<'k> = (Bound<&'k [u8]>, Bound<&'k [u8]>);

/// An ordered map that is read, of any kind: owned, a version, a snapshot, a transaction, a file, a
/// shared map under a guard.
///
/// The trait is object-safe, and the methods are those of the maps themselves, at the same costs
/// and a call through a table more.
///
/// ```
/// use sapwood::qp::{OrderedRead, QpMap, QpStore};
///
/// fn after(map: &dyn OrderedRead<u32>, key: &[u8]) -> Option<u32> {
///     map.successor(key).map(|(_, value)| *value)
/// }
///
/// let owned = QpMap::from([("ash", 1), ("elm", 2)]);
/// assert_eq!(after(&owned, b"ash"), Some(2));
/// let store = QpStore::new()?;
/// let mut txn = store.begin();
/// txn.insert("oak", 3)?;
/// txn.commit();
/// assert_eq!(after(&store.snapshot(), b"ash"), Some(3));
/// # Ok::<(), sapwood::Error>(())
/// ```
pub trait OrderedRead<V: ?Sized + Value> {
    /// Number of entries. Where a map does not count them, this is a walk.
    fn entries(&self) -> usize;

    /// The value of a key.
    fn get(&self, key: &[u8]) -> Option<&V>;

    /// The key and the value of an entry.
    fn get_key_value(&self, key: &[u8]) -> Option<ReadEntry<'_, V>>;

    /// Looks up many keys: `out[i]` becomes the value of `keys[i]`.
    ///
    /// # Panics
    /// When `keys` and `out` differ in length.
    fn get_many<'a>(&'a self, keys: &[&[u8]], out: &mut [Option<&'a V>]) {
        assert_eq!(keys.len(), out.len(), "keys and places for their values");
        for (key, out) in keys.iter().zip(out) {
            *out = self.get(key);
        }
    }

    /// The entry with the least key.
    fn first_key_value(&self) -> Option<ReadEntry<'_, V>>;

    /// The entry with the greatest key.
    fn last_key_value(&self) -> Option<ReadEntry<'_, V>>;

    /// The entry with the greatest key less than `key`.
    fn predecessor(&self, key: &[u8]) -> Option<ReadEntry<'_, V>>;

    /// The entry with the least key greater than `key`.
    fn successor(&self, key: &[u8]) -> Option<ReadEntry<'_, V>>;

    /// The entry with the longest key that is a prefix of `key`.
    fn longest_prefix(&self, key: &[u8]) -> Option<ReadEntry<'_, V>>;

    /// All entries whose keys are prefixes of `key`, shortest first.
    fn ancestors(&self, key: &[u8]) -> Vec<ReadEntry<'_, V>>;

    /// Those of the [`ancestors`](Self::ancestors) that end where a component of `key` ends.
    fn ancestors_at(&self, key: &[u8], separator: u8) -> Vec<ReadEntry<'_, V>>;

    /// The entries between two bounds, in order, from both ends.
    fn range(&self, bounds: KeyBounds<'_>) -> OrderedRange<'_, V>;

    /// The entries whose keys start with `prefix`, in order, from both ends.
    fn prefix(&self, prefix: &[u8]) -> OrderedRange<'_, V>;

    /// The answer of a zone for a name: see [`Closest`].
    fn closest<'a>(
        &'a self,
        name: &[u8],
        separator: u8,
        is_cut: &mut dyn FnMut(&[u8], &V) -> bool,
    ) -> Closest<'a, V>;

    /// What proves that a name is not there: see [`Denial`].
    fn denial<'a>(
        &'a self,
        name: &[u8],
        separator: u8,
        is_cut: &mut dyn FnMut(&[u8], &V) -> bool,
    ) -> Denial<'a, V>;
}

/// Entries of an [`OrderedRead`], in ascending order of keys, from both ends.
pub struct OrderedRange<'a, V: ?Sized + Value>(Walk<'a, V>);

/// A dispatch by kind is quicker than a call through a table.
enum Walk<'a, V: ?Sized + Value> {
    Trusted(Range<'a, V, Trusted>),
    Checked(Range<'a, V, Checked>),
    Shared(QpSharedRange<'a, V>),
    Other(Box<dyn DoubleEndedIterator<Item = ReadEntry<'a, V>> + 'a>),
}

impl<'a, V: ?Sized + Value> OrderedRange<'a, V> {
    /// The entries that an iterator gives in ascending order of keys, from both ends: for other
    /// implementations of [`OrderedRead`].
    pub fn new(entries: impl DoubleEndedIterator<Item = ReadEntry<'a, V>> + 'a) -> Self {
        OrderedRange(Walk::Other(Box::new(entries)))
    }
}

impl<'a, V: ?Sized + Value> From<Range<'a, V, Trusted>> for OrderedRange<'a, V> {
    fn from(range: Range<'a, V, Trusted>) -> Self {
        OrderedRange(Walk::Trusted(range))
    }
}

impl<'a, V: ?Sized + Value> From<Range<'a, V, Checked>> for OrderedRange<'a, V> {
    fn from(range: Range<'a, V, Checked>) -> Self {
        OrderedRange(Walk::Checked(range))
    }
}

impl<'a, V: ?Sized + Value> From<QpSharedRange<'a, V>> for OrderedRange<'a, V> {
    fn from(range: QpSharedRange<'a, V>) -> Self {
        OrderedRange(Walk::Shared(range))
    }
}

/// The same call for a walk of any kind.
macro_rules! step {
    ($walk:expr, $range:ident => $step:expr) => {
        match $walk {
            Walk::Trusted($range) => $step,
            Walk::Checked($range) => $step,
            Walk::Shared($range) => $step,
            Walk::Other($range) => $step,
        }
    };
}

impl<'a, V: ?Sized + Value> Iterator for OrderedRange<'a, V> {
    type Item = ReadEntry<'a, V>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        step!(&mut self.0, range => range.next())
    }
}

impl<V: ?Sized + Value> DoubleEndedIterator for OrderedRange<'_, V> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        step!(&mut self.0, range => range.next_back())
    }
}

impl<V: ?Sized + Value> fmt::Debug for OrderedRange<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrderedRange").finish_non_exhaustive()
    }
}

/// Implements [`OrderedRead`] for a type whose own methods have the same names.
#[doc(hidden)]
#[macro_export]
macro_rules! ordered_read {
    ([$($generics:tt)*] $type:ty, $value:ty, $entries:expr, $range:expr $(, $many:ident)?) => {
        impl<$($generics)*> $crate::OrderedRead<$value> for $type {
            fn entries(&self) -> usize {
                $entries(self)
            }

            fn get(&self, key: &[u8]) -> Option<&$value> {
                self.get(key)
            }

            fn get_key_value(&self, key: &[u8]) -> Option<$crate::ReadEntry<'_, $value>> {
                self.get_key_value(key)
            }

            $(fn $many<'a>(&'a self, keys: &[&[u8]], out: &mut [Option<&'a $value>]) {
                self.$many(keys, out);
            })?

            fn first_key_value(&self) -> Option<$crate::ReadEntry<'_, $value>> {
                self.first_key_value()
            }

            fn last_key_value(&self) -> Option<$crate::ReadEntry<'_, $value>> {
                self.last_key_value()
            }

            fn predecessor(&self, key: &[u8]) -> Option<$crate::ReadEntry<'_, $value>> {
                self.predecessor(key)
            }

            fn successor(&self, key: &[u8]) -> Option<$crate::ReadEntry<'_, $value>> {
                self.successor(key)
            }

            fn longest_prefix(&self, key: &[u8]) -> Option<$crate::ReadEntry<'_, $value>> {
                self.longest_prefix(key)
            }

            fn ancestors(&self, key: &[u8]) -> Vec<$crate::ReadEntry<'_, $value>> {
                self.ancestors(key)
            }

            fn ancestors_at(
                &self,
                key: &[u8],
                separator: u8,
            ) -> Vec<$crate::ReadEntry<'_, $value>> {
                self.ancestors_at(key, separator)
            }

            fn range(&self, bounds: $crate::KeyBounds<'_>) -> $crate::OrderedRange<'_, $value> {
                $range(self.range::<[u8], _>(bounds))
            }

            fn prefix(&self, prefix: &[u8]) -> $crate::OrderedRange<'_, $value> {
                $range(self.prefix(prefix))
            }

            fn closest<'a>(
                &'a self,
                name: &[u8],
                separator: u8,
                is_cut: &mut dyn FnMut(&[u8], &$value) -> bool,
            ) -> $crate::Closest<'a, $value> {
                self.closest(name, separator, |key, value| is_cut(key, value))
            }

            fn denial<'a>(
                &'a self,
                name: &[u8],
                separator: u8,
                is_cut: &mut dyn FnMut(&[u8], &$value) -> bool,
            ) -> $crate::Denial<'a, $value> {
                self.denial(name, separator, |key, value| is_cut(key, value))
            }
        }
    };
}

mod maps {
    use alloc::vec::Vec;

    use zerocopy::{FromBytes, Immutable};

    use crate::{
        AttachedView, Ordered, OrderedRange, QpFile, QpMap, QpSharedView, QpSnapshot, QpTxn,
        QpView, Value,
    };

    ordered_read!([V: ?Sized + Value] QpMap<V>, V, QpMap::len, OrderedRange::from, get_many);
    ordered_read!([V: ?Sized + Value + Send + Sync] QpView<'_, V>, V,
        QpView::len, OrderedRange::from, get_many);
    ordered_read!([V: ?Sized + Value + Send + Sync + 'static] QpSnapshot<V>, V,
        QpSnapshot::len, OrderedRange::from, get_many);
    ordered_read!([V: ?Sized + Value + Send + Sync + 'static] QpTxn<'_, V>, V,
        QpTxn::len, OrderedRange::from, get_many);
    ordered_read!([V: ?Sized + Value + FromBytes + Immutable] QpFile<V>, V,
        QpFile::len, OrderedRange::from, get_many);
    ordered_read!([V: ?Sized + Value + Send + Sync + 'static] QpSharedView<'_, V>, V,
        QpSharedView::len, OrderedRange::from, get_many);
    // Readers in other processes do not know the number of entries.
    ordered_read!([V: ?Sized + Value + Send + Sync + 'static] AttachedView<'_, Ordered, V>, V,
        |view: &AttachedView<'_, Ordered, V>| view.iter().count(), OrderedRange::from, get_many);
}
