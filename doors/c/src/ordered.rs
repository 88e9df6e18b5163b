//! Reading in order: one trait for all that can be read so, and a place for any of them.

use std::ops::Bound;

use sapwood::qp::{
    AttachedView, Checked, Closest, Denial, Ordered as InOrder, QpFile, QpMap, QpSharedRange,
    QpSharedView, QpSnapshot, QpTxn, QpView, Range, Trusted,
};
use zerocopy::{FromBytes, Immutable};

use crate::value::{CValue, Key};

/// An entry.
pub type Entry<'a, V> = (&'a [u8], &'a V);

/// Two bounds of keys.
pub type Bounds<'k> = (Bound<&'k [u8]>, Bound<&'k [u8]>);

/// What can be read in order.
pub trait Ordered<V: ?Sized + CValue> {
    /// Number of entries.
    fn entries(&self) -> usize;
    /// The value of a key.
    fn get(&self, key: &[u8]) -> Option<&V>;
    /// The values of many keys.
    fn get_many<'a>(&'a self, keys: &[Key], out: &mut [Option<&'a V>]);
    /// The entry with the greatest key less than this one.
    fn before(&self, key: &[u8]) -> Option<Entry<'_, V>>;
    /// The entry with the least key greater than this one.
    fn after(&self, key: &[u8]) -> Option<Entry<'_, V>>;
    /// The first entry, or the last one.
    fn end(&self, last: bool) -> Option<Entry<'_, V>>;
    /// The entry with the longest key that is a prefix of this one.
    fn longest_prefix(&self, key: &[u8]) -> Option<Entry<'_, V>>;
    /// The entries whose keys are prefixes of this one.
    fn ancestors(&self, key: &[u8]) -> Vec<Entry<'_, V>>;
    /// The answer for a name.
    fn closest<'a>(
        &'a self,
        name: &[u8],
        separator: u8,
        is_cut: &mut dyn FnMut(&'a [u8], &'a V) -> bool,
    ) -> Closest<'a, V>;
    /// What proves that a name is not there.
    fn denial<'a>(
        &'a self,
        name: &[u8],
        separator: u8,
        is_cut: &mut dyn FnMut(&'a [u8], &'a V) -> bool,
    ) -> Denial<'a, V>;
    /// The entries between two bounds.
    fn range(&self, bounds: Bounds<'_>) -> Walk<'_, V>;
}

/// A walk over entries, from both ends.
pub enum Walk<'a, V: ?Sized + CValue> {
    /// In memory that the library wrote.
    Trusted(Range<'a, V, Trusted>),
    /// In a file.
    Checked(Range<'a, V, Checked>),
    /// In a map that others change.
    Shared(QpSharedRange<'a, V>),
}

impl<'a, V: ?Sized + CValue> Walk<'a, V> {
    /// The next entry.
    #[inline]
    pub fn step(&mut self) -> Option<Entry<'a, V>> {
        match self {
            Walk::Trusted(range) => range.next(),
            Walk::Checked(range) => range.next(),
            Walk::Shared(range) => range.next(),
        }
    }

    /// The next entry from the other end.
    #[inline]
    pub fn step_back(&mut self) -> Option<Entry<'a, V>> {
        match self {
            Walk::Trusted(range) => range.next_back(),
            Walk::Checked(range) => range.next_back(),
            Walk::Shared(range) => range.next_back(),
        }
    }
}

macro_rules! ordered {
    ([$($generics:tt)*] $type:ty as $short:ty, $walk:ident) => {
        ordered!([$($generics)*] $type as $short, $walk, <$short>::len);
    };
    ([$($generics:tt)*] $type:ty as $short:ty, $walk:ident, $entries:expr) => {
        impl<$($generics)*> Ordered<V> for $type {
            fn entries(&self) -> usize {
                ($entries)(self)
            }
            fn get(&self, key: &[u8]) -> Option<&V> {
                <$short>::get(self, key)
            }
            fn get_many<'a>(&'a self, keys: &[Key], out: &mut [Option<&'a V>]) {
                <$short>::get_many(self, keys, out);
            }
            fn before(&self, key: &[u8]) -> Option<Entry<'_, V>> {
                self.predecessor(key)
            }
            fn after(&self, key: &[u8]) -> Option<Entry<'_, V>> {
                self.successor(key)
            }
            fn end(&self, last: bool) -> Option<Entry<'_, V>> {
                if last { self.last_key_value() } else { self.first_key_value() }
            }
            fn longest_prefix(&self, key: &[u8]) -> Option<Entry<'_, V>> {
                <$short>::longest_prefix(self, key)
            }
            fn ancestors(&self, key: &[u8]) -> Vec<Entry<'_, V>> {
                <$short>::ancestors(self, key)
            }
            fn closest<'a>(
                &'a self,
                name: &[u8],
                separator: u8,
                is_cut: &mut dyn FnMut(&'a [u8], &'a V) -> bool,
            ) -> Closest<'a, V> {
                <$short>::closest(self, name, separator, is_cut)
            }
            fn denial<'a>(
                &'a self,
                name: &[u8],
                separator: u8,
                is_cut: &mut dyn FnMut(&'a [u8], &'a V) -> bool,
            ) -> Denial<'a, V> {
                <$short>::denial(self, name, separator, is_cut)
            }
            fn range(&self, bounds: Bounds<'_>) -> Walk<'_, V> {
                Walk::$walk(<$short>::range::<[u8], _>(self, bounds))
            }
        }
    };
}

ordered!([V: ?Sized + CValue] QpMap<V> as QpMap<V>, Trusted);
ordered!([V: ?Sized + CValue] QpView<'static, V> as QpView<'_, V>, Trusted);
ordered!([V: ?Sized + CValue] QpSnapshot<V> as QpSnapshot<V>, Trusted);
ordered!([V: ?Sized + CValue] QpTxn<'static, V> as QpTxn<'_, V>, Trusted);
ordered!([V: ?Sized + CValue + FromBytes + Immutable] QpFile<V> as QpFile<V>, Checked);
ordered!([V: ?Sized + CValue] QpSharedView<'static, V> as QpSharedView<'_, V>, Shared);
// Readers in other processes do not know the number of entries.
ordered!([V: ?Sized + CValue] AttachedView<'static, InOrder, V> as AttachedView<'_, InOrder, V>,
    Shared, |view: &AttachedView<'_, InOrder, V>| view.iter().count());

/// What a view reads. The views of stores and shared maps lie in it; the rest lies in its handle.
pub enum Source<V: ?Sized + CValue> {
    /// A version of a store.
    Store(QpView<'static, V>),
    /// A shared map.
    Shared(QpSharedView<'static, V>),
    /// A shared map of another process.
    Attached(AttachedView<'static, InOrder, V>),
    /// An owned map, a snapshot, a transaction or a file.
    Handle(&'static dyn Ordered<V>),
}

impl<V: ?Sized + CValue> Clone for Source<V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V: ?Sized + CValue> Copy for Source<V> {}

impl<V: ?Sized + CValue> Source<V> {
    /// What it is, for reading.
    ///
    /// # Safety
    /// What is read with it is used only as long as the source may be.
    #[inline]
    pub unsafe fn reading(&self) -> &'static dyn Ordered<V> {
        let borrowed: &dyn Ordered<V> = match self {
            Source::Store(view) => view,
            Source::Shared(view) => view,
            Source::Attached(view) => view,
            Source::Handle(handle) => *handle,
        };
        // SAFETY: the caller's promise. What is read lies in the structure, not in the source.
        unsafe { std::mem::transmute::<&dyn Ordered<V>, &'static dyn Ordered<V>>(borrowed) }
    }
}
