//! A version of a table as safe code reads it: references to values in place of blocks.

use core::marker::PhantomData;

use smallvec::SmallVec;

use super::read::{Published, Reading, Words};
use super::values;
use super::walk::Walk;
use crate::FibParts;
use crate::family::Key;

/// A version that is kept for `'a`.
pub(crate) struct View<'a, V, W> {
    reading: Reading<W>,
    values: PhantomData<&'a V>,
}

impl<V, W: Copy> Clone for View<'_, V, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V, W: Copy> Copy for View<'_, V, W> {}

/// A prefix found: bits, length, value.
pub(crate) type Found<'a, K, V> = (K, u8, &'a V);

impl<'a, V, W: Words> View<'a, V, W> {
    /// # Safety
    /// What the reading reaches is of a table with values of type `V`, and is kept for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn new(reading: Reading<W>) -> Self {
        View {
            reading,
            values: PhantomData,
        }
    }

    #[inline(always)]
    fn get(self, r: u32) -> &'a V {
        // SAFETY: values that a version reaches are live blocks while it is kept.
        unsafe { values::value(self.reading.mem.hint(r)) }
    }

    #[inline(always)]
    fn option(self, r: u32) -> Option<&'a V> {
        if r == 0 { None } else { Some(self.get(r)) }
    }

    #[inline(always)]
    pub(crate) fn value<K: Key>(self, key: K) -> Option<&'a V> {
        self.option(self.reading.value(key))
    }

    #[inline(always)]
    pub(crate) fn value_or<K: Key>(self, key: K, default: &'a V) -> &'a V {
        self.or(self.reading.value(key), default)
    }

    #[inline(always)]
    fn or(self, r: u32, default: &'a V) -> &'a V {
        if r == 0 { default } else { self.get(r) }
    }

    /// Calls `one` with the value of each address, and stores its results.
    #[inline(always)]
    pub(crate) fn values<A: Copy, K: Key, R: Copy>(
        self,
        addrs: &[A],
        key: impl Fn(A) -> K,
        out: &mut [R],
        one: impl Fn(Option<&'a V>) -> R,
    ) {
        self.reading
            .values(addrs, key, out, |r| one(self.option(r)));
    }

    pub(crate) fn longest<K: Key>(self, key: K, most: u8) -> Option<(u8, &'a V)> {
        let (len, r) = self.reading.longest(key, most)?;
        Some((len, self.get(r)))
    }

    pub(crate) fn exact<K: Key>(self, key: K, len: u8) -> Option<&'a V> {
        self.option(self.reading.exact(key, len))
    }

    pub(crate) fn matches<K: Key>(self, key: K, most: u8) -> SmallVec<[(u8, &'a V); 8]> {
        let all = self.reading.matches(key, most);
        all.into_iter().map(|(len, r)| (len, self.get(r))).collect()
    }

    pub(crate) fn walk<K: Key>(self, width: u8, key: K, len: u8) -> Steps<'a, K, V, W> {
        Steps {
            walk: Walk::within(self.reading, u32::from(width), key, u32::from(len)),
            view: self,
        }
    }

    /// A walk over this prefix and all that come after it in order.
    pub(crate) fn walk_from<K: Key>(self, width: u8, key: K, len: u8) -> Steps<'a, K, V, W> {
        Steps {
            walk: Walk::from(self.reading, u32::from(width), key, u32::from(len)),
            view: self,
        }
    }
}

impl<V> View<'_, V, Published<'_>> {
    /// See `FibView::parts`.
    pub(crate) fn parts(self) -> FibParts {
        let reading = self.reading;
        FibParts {
            root: reading.words.root().cast(),
            memory: reading.mem.0,
            root_bits: reading.bits,
            counts_bits: reading.native || cfg!(target_feature = "popcnt"),
        }
    }
}

/// A walk that gives out values.
pub(crate) struct Steps<'a, K, V, W> {
    walk: Walk<K, W>,
    view: View<'a, V, W>,
}

impl<'a, K: Key, V, W: Words> Iterator for Steps<'a, K, V, W> {
    type Item = Found<'a, K, V>;

    fn next(&mut self) -> Option<Self::Item> {
        let (key, len, r) = self.walk.next()?;
        Some((key, len, self.view.get(r)))
    }
}
