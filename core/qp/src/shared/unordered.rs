//! The methods that only a map without order has.

use core::fmt;
use core::iter::FusedIterator;

use sapwood_arena::Arena;
use sapwood_qsbr::{Domain, Guard};

use super::{Order, SharedMap, SharedView};
use crate::iter::Shown;
use crate::raw::index::Index;
use crate::raw::index_only::{IndexOnly, ops::Walk};
use crate::seed::seed;
use crate::{ReadEntry, Value};

/// A map over byte strings without order that any number of threads read and change at once. It is
/// the point index of [`QpShared`](super::QpShared), without its trie.
///
/// - A lookup touches two cache lines, whatever the number of entries. Readers need a guard: a
///   [`pin`](SharedMap::pin), or a [`Reader`](sapwood_common::Reader). They take no lock, with one
///   exception. If writers move eight whole tables in a row during a lookup or a step of a walk,
///   the reader waits until it can look while no table is moved.
/// - An insertion writes the leaf (key and value) and one bucket. Writers of different keys rarely
///   contend: they lock one or two buckets, and one of some dozens of stripes, by the hash of the
///   key.
/// - Each change moves a few buckets of a table that grows or shrinks; no change waits for a whole
///   table.
/// - Operations on one key are linearizable. [Walks](SharedView::iter) have no order, and are
///   weakly consistent.
/// - An entry takes its key, its value, 1 to 8 bytes to fill whole words, and 6 to 10 bytes in the
///   tables. The hash seed is random, so nobody can choose keys that collide.
///
/// A table that lacks the memory to grow fills to the last slot. Then an insertion fails with
/// [`ArenaFull`](crate::Error::ArenaFull). The first insertion after memory has become free may
/// have to move many entries at once.
///
/// There are no ranges, prefixes or neighbours of keys. [`QpShared`](super::QpShared) has those,
/// and can have an index too.
///
/// ```
/// use sapwood::qp::PointMap;
/// let map = PointMap::new()?;
/// std::thread::scope(|scope| {
///     for worker in 0..4u32 {
///         let map = &map;
///         scope.spawn(move || {
///             for i in 0..100u32 {
///                 map.insert(format!("{worker}/{i:03}"), i).unwrap();
///             }
///         });
///     }
/// });
/// assert_eq!(map.len(), 400);
/// assert_eq!(map.get("2/017"), Some(17));
/// let pin = map.pin();
/// let sum: u32 = pin.view().iter().map(|(_, value)| value).sum();
/// assert_eq!(sum, 4 * 4950);
/// # Ok::<(), sapwood::Error>(())
/// ```
pub type PointMap<V> = SharedMap<Unordered, V>;

/// A [`PointMap`] under a guard.
pub type PointMapView<'g, V> = SharedView<'g, Unordered, V>;

/// The order of the entries of [`PointMap`]: none.
#[derive(Clone, Copy, Debug)]
pub struct Unordered(());

impl Order for Unordered {
    type Raw<V: ?Sized + Value + Send + Sync + 'static> = IndexOnly<V>;
    type Iter<'g, V: ?Sized + Value + Send + Sync + 'static> = PointMapIter<'g, V>;
    const ONLY_INDEX: bool = true;

    fn iter<'g, V: ?Sized + Value + Send + Sync + 'static>(
        raw: &'g IndexOnly<V>,
        guard: Guard<'g>,
    ) -> PointMapIter<'g, V> {
        PointMapIter {
            walk: Some(raw.walk_from(guard, 0)),
        }
    }

    fn empty<V: ?Sized + Value + Send + Sync + 'static>(
        arena: Arena,
        domain: Domain,
        most: Option<usize>,
        index: Option<Index<V, true>>,
    ) -> IndexOnly<V> {
        let index = index.unwrap_or_else(|| Index::new(seed()));
        IndexOnly::new(arena, domain, most, index)
    }
}

/// A place in a [sweep](SharedView::sweep) over a [`PointMap`]. It is a number: it keeps no memory,
/// and stays valid whatever happens to the map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepPlace(u32);

impl<'g, V: ?Sized + Value + Send + Sync + 'static> PointMapView<'g, V> {
    /// Calls `each` with at least `least` entries from a place on; returns the place to go on from,
    /// or `None` at the end. The first place is `SweepPlace::default()`.
    ///
    /// A walk in such steps can take a new guard for each step, so it holds memory back only for a
    /// step. A step reads one bucket after the other, each of about a dozen entries, and gives all
    /// entries of the last one. The promises of [`PointMapIter`] hold over all steps: no key comes
    /// twice, and a key that is there throughout is not skipped, even while tables grow and shrink
    /// between two steps.
    ///
    /// ```
    /// # use sapwood::qp::{PointMap, SweepPlace};
    /// let map = PointMap::new()?;
    /// for i in 0..1000u32 {
    ///     map.insert(i.to_be_bytes(), i)?;
    /// }
    /// let (mut sum, mut next) = (0, Some(SweepPlace::default()));
    /// while let Some(place) = next {
    ///     // One guard for each hundred entries.
    ///     next = map.read(|view| view.sweep(place, 100, |_, value| sum += value));
    /// }
    /// assert_eq!(sum, 499_500);
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    pub fn sweep(
        &self,
        from: SweepPlace,
        least: usize,
        mut each: impl FnMut(&'g [u8], &'g V),
    ) -> Option<SweepPlace> {
        let mut walk = self.raw.walk_from(self.guard, from.0);
        let mut given = 0;
        while given < least.max(1) {
            let (key, value) = walk.next()?;
            each(key, value);
            given += 1;
        }
        // The rest of the bucket.
        while let Some((key, value)) = walk.next_ready() {
            each(key, value);
        }
        walk.place().map(SweepPlace)
    }
}

/// The entries of a [`PointMap`](super::PointMap) in no order, while others write.
///
/// The walk is weakly consistent, even while tables grow and shrink. No key comes twice. A key that
/// is there throughout is not skipped. Of keys that are inserted or removed meanwhile, some come
/// and some do not. Each value was the key's value at some moment of the walk. The walk holds its
/// guard.
///
/// ```
/// # use sapwood::qp::PointMap;
/// let map = PointMap::new()?;
/// map.insert("a", 1)?;
/// map.insert("b", 2)?;
/// let pin = map.pin();
/// let mut keys: Vec<_> = pin.view().iter().map(|(key, _)| key).collect();
/// keys.sort();
/// assert_eq!(keys, [b"a", b"b"]);
/// # Ok::<(), sapwood::Error>(())
/// ```
pub struct PointMapIter<'g, V: ?Sized + Value> {
    /// There is none in a map without entries.
    walk: Option<Walk<'g, V>>,
}

impl<'g, V: ?Sized + Value> PointMapIter<'g, V> {
    pub(super) fn new(walk: Option<Walk<'g, V>>) -> Self {
        PointMapIter { walk }
    }
}

impl<V: ?Sized + Value> Clone for PointMapIter<'_, V> {
    fn clone(&self) -> Self {
        PointMapIter {
            walk: self.walk.clone(),
        }
    }
}

impl<'g, V: ?Sized + Value + 'g> Iterator for PointMapIter<'g, V> {
    type Item = ReadEntry<'g, V>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (key, value) = self.walk.as_mut()?.next()?;
        Some((key.into(), value))
    }
}

impl<V: ?Sized + Value> FusedIterator for PointMapIter<'_, V> {}

impl<V: ?Sized + Value + fmt::Debug> fmt::Debug for PointMapIter<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.clone().map(Shown::entry))
            .finish()
    }
}
