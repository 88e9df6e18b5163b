//! What only a map without order is.

use core::fmt;
use core::iter::FusedIterator;

use sapwood_arena::Arena;
use sapwood_qsbr::{Domain, Guard};

use super::{Order, SharedMap, SharedMapBuilder, SharedView};
use crate::qp::iter::Shown;
use crate::qp::raw::index::Index;
use crate::qp::raw::index_only::{IndexOnly, ops::Walk};
use crate::seed::seed;

/// A map over byte strings without order, that any number of threads read and change at once: the
/// point index of [`QpShared`](super::QpShared), without its trie.
///
/// - A lookup touches two cache lines, whatever the number of entries. Readers take no lock. They
///   need a guard: a [`pin`](SharedMap::pin), or a [`Reader`](crate::Reader).
/// - An insertion writes the leaf (key and value) and one bucket. Writers of different keys hardly
///   meet: they lock a bucket or two, and one of some dozens of stripes, by the hash of the key.
/// - Tables grow and shrink a few buckets at each change; no change waits for a whole table.
/// - Operations on one key are linearizable. [Walks](SharedView::iter) have no order, and are
///   weakly consistent.
/// - It takes the keys, the values, 1 to 8 bytes an entry to fill whole words, and 6 to 8 bytes an
///   entry for the tables. The hash is seeded at random, so nobody can choose keys that collide.
///
/// A table that could not grow, for want of memory, fills to the last slot; then an insertion is
/// [`ArenaFull`](crate::Error::ArenaFull). The first insertion after memory has come back may have
/// to move many entries at once.
///
/// There are no ranges, prefixes or neighbours of keys: for those, take
/// [`QpShared`](super::QpShared), with an index if lookups of whole keys matter too.
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

/// How a [`PointMap`] is made.
pub type PointMapBuilder<V> = SharedMapBuilder<Unordered, V>;

/// A [`PointMap`] under a guard.
pub type PointMapView<'g, V> = SharedView<'g, Unordered, V>;

/// The order of [`PointMap`]: none.
#[derive(Clone, Copy, Debug)]
pub struct Unordered(());

impl Order for Unordered {
    type Raw<V: Send + Sync + 'static> = IndexOnly<V>;
    type Iter<'g, V: Send + Sync + 'static> = PointMapIter<'g, V>;
    const ONLY_INDEX: bool = true;

    fn iter<'g, V: Send + Sync + 'static>(
        raw: &'g IndexOnly<V>,
        guard: Guard<'g>,
    ) -> PointMapIter<'g, V> {
        PointMapIter {
            walk: Walk::new(raw, guard),
        }
    }

    fn empty<V: Send + Sync + 'static>(
        arena: Arena,
        domain: Domain,
        most: Option<usize>,
        index: Option<Index<V, true>>,
    ) -> IndexOnly<V> {
        let index = index.unwrap_or_else(|| Index::new(seed()));
        IndexOnly::new(arena, domain, most, index)
    }
}

/// Entries of a [`PointMap`](super::PointMap) in no order, while others write.
///
/// Weakly consistent, also while tables grow and shrink: no key comes twice; a key that is there
/// throughout is not skipped; of keys that are inserted or removed meanwhile some come and some do
/// not. Each value was the key's at some time of the walk. It holds its guard.
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
pub struct PointMapIter<'g, V> {
    walk: Walk<'g, V>,
}

impl<V> Clone for PointMapIter<'_, V> {
    fn clone(&self) -> Self {
        PointMapIter {
            walk: self.walk.clone(),
        }
    }
}

impl<'g, V: 'g> Iterator for PointMapIter<'g, V> {
    type Item = (&'g [u8], &'g V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.walk.next()
    }
}

impl<V> FusedIterator for PointMapIter<'_, V> {}

impl<V: fmt::Debug> fmt::Debug for PointMapIter<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.clone().map(|(k, v)| (k.escape_ascii(), v));
        f.debug_map().entries(shown.map(Shown::of)).finish()
    }
}
