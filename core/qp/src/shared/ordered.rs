//! The methods that only an ordered map has.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::iter::FusedIterator;
use core::ops::Bound;

use sapwood_arena::Arena;
use sapwood_qsbr::{Domain, Guard};

use super::{Order, SharedMap, SharedView};
use crate::iter::Shown;
use crate::map::sorted_tree;
use crate::raw::batch;
use crate::raw::index::Index;
use crate::raw::mem::Live;
use crate::raw::shared::trie::Trie;
use crate::raw::shared::walk::Walk;
use crate::raw::tree::Tree;
use crate::raw::version::stable_arena;
use crate::raw::view::View;
use crate::raw::writers::ops::{Lack, Operations};
use crate::seed::seed;
use crate::{Accepts, IntoValue};
use crate::{Builder, Error};
use crate::{Key, QpMap, ReadEntry, Value};

/// Copies of an entry.
type Copies<V> = (Box<[u8]>, <V as ToOwned>::Owned);
/// An entry that was removed, and whether the map may be empty now.
type Popped<'g, V> = (Key<'g>, &'g V, bool);

/// The reading methods of an ordered map that others change meanwhile, for a type with
/// `fn view(&self) -> View<'g, V, Live>` and `fn iter(&self)`.
macro_rules! ordered_reads {
    () => {
        /// The entries between two bounds, in order, from both ends. There are none if the bounds
        /// have crossed.
        ///
        /// O(lengths of the bounds), which are copied; each step is O(1) on average.
        pub fn range<K, R>(&self, bounds: R) -> $crate::QpSharedRange<'g, V>
        where
            K: AsRef<[u8]> + ?Sized,
            R: core::ops::RangeBounds<K>,
        {
            let owned = |bound: core::ops::Bound<&K>| bound.map(|key| key.as_ref().to_vec());
            $crate::QpSharedRange::new(
                self.view(),
                owned(bounds.start_bound()),
                owned(bounds.end_bound()),
            )
        }

        /// The entries whose keys start with `prefix` (the key equal to it included), in order.
        ///
        /// O(length of the prefix); each step is O(1) on average.
        pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> $crate::QpSharedRange<'g, V> {
            let (low, high) = $crate::raw::shared::walk::prefix_bounds(prefix.as_ref());
            $crate::QpSharedRange::new(self.view(), low, high)
        }

        /// The entry with the least key.
        ///
        /// O(length of its key).
        pub fn first_key_value(&self) -> Option<$crate::ReadEntry<'g, V>> {
            self.iter().next()
        }

        /// The entry with the greatest key.
        ///
        /// O(length of its key).
        pub fn last_key_value(&self) -> Option<$crate::ReadEntry<'g, V>> {
            self.iter().next_back()
        }

        $crate::read::near_methods!([] 'g [&] self);

        /// The entry with the longest key that is a prefix of `key` (`key` itself included).
        ///
        /// The entry was there and its key is a prefix. Beside writers, it may have been the
        /// longest at no moment, because the walk may see one change without an earlier one. See
        /// [`exact`]($crate::SharedView::exact).
        ///
        /// As [`ancestors`](Self::ancestors).
        pub fn longest_prefix(&self, key: impl AsRef<[u8]>) -> Option<$crate::ReadEntry<'g, V>> {
            self.ancestors(key).pop()
        }

        /// All entries whose keys are prefixes of `key` (`key` itself included), shortest first.
        /// Beside writers, the same holds as for [`longest_prefix`](Self::longest_prefix).
        ///
        /// O(key length + entries that are found).
        pub fn ancestors(
            &self,
            key: impl AsRef<[u8]>,
        ) -> alloc::vec::Vec<$crate::ReadEntry<'g, V>> {
            let key = key.as_ref();
            // A branch that was inserted between the two walks down may hold a key that is no
            // prefix.
            $crate::read::ancestors(self.view(), key, |ancestor| key.starts_with(ancestor))
        }

        /// The entries whose keys are prefixes of `key` and end where a component of `key` ends.
        /// Such a prefix ends in `separator`, is followed by it in `key`, is empty, or is the whole
        /// key. The shortest comes first.
        ///
        /// As [`ancestors`](Self::ancestors).
        pub fn ancestors_at(
            &self,
            key: impl AsRef<[u8]>,
            separator: u8,
        ) -> alloc::vec::Vec<$crate::ReadEntry<'g, V>> {
            let key = key.as_ref();
            $crate::read::ancestors(self.view(), key, |ancestor| {
                key.starts_with(ancestor) && $crate::read::at_separator(ancestor, key, separator)
            })
        }
    };
}
pub(super) use ordered_reads;

/// An ordered map over byte strings that any number of threads read and change at once.
///
/// - Readers take no lock. They need a guard: a [`pin`](SharedMap::pin) for a few operations, or a
///   [`Reader`](sapwood_common::Reader) for a thread with a loop. A registered reader of the trie
///   writes nothing and retries nothing.
/// - Writers lock the one or two branches that they replace, so writers of keys that lie far from
///   each other do not contend. There is no global lock.
/// - Operations on one key are linearizable. Iteration is ordered and weakly consistent. Queries
///   that combine entries are exact under [`exact`](SharedView::exact).
/// - The memory of removed entries is freed after a grace period.
///
/// Methods of the map itself take a guard for their duration and give copies. Methods of a
/// [`QpSharedView`] give references. A map is a handle, cheap to clone: all clones are handles of
/// one map.
///
/// ```
/// use sapwood::qp::QpShared;
/// let map = QpShared::new()?;
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
/// let keys: Vec<_> = pin.view().prefix("3/").map(|(key, _)| key).take(2).collect();
/// assert_eq!(keys, [b"3/000", b"3/001"]);
/// # Ok::<(), sapwood::Error>(())
/// ```
pub type QpShared<V> = SharedMap<Ordered, V>;

/// A [`QpShared`] under a guard.
pub type QpSharedView<'g, V> = SharedView<'g, Ordered, V>;

/// The order of the entries of [`QpShared`]: by keys.
#[derive(Clone, Copy, Debug)]
pub struct Ordered(());

impl Order for Ordered {
    type Raw<V: ?Sized + Value + Send + Sync + 'static> = Trie<V>;
    type Iter<'g, V: ?Sized + Value + Send + Sync + 'static> = QpSharedRange<'g, V>;
    const ONLY_INDEX: bool = false;

    fn iter<'g, V: ?Sized + Value + Send + Sync + 'static>(
        raw: &'g Trie<V>,
        guard: Guard<'g>,
    ) -> QpSharedRange<'g, V> {
        QpSharedRange::new(raw.guarded_view(guard), Bound::Unbounded, Bound::Unbounded)
    }

    fn empty<V: ?Sized + Value + Send + Sync + 'static>(
        arena: Arena,
        domain: Domain,
        most: Option<usize>,
        index: Option<Index<V, true>>,
    ) -> Trie<V> {
        Trie::new(Tree::new(arena), domain, most, index)
    }
}

impl<V: ?Sized + Value + Send + Sync + 'static> Builder<QpShared<V>> {
    /// Keeps a point index: a hash index over the entries, which every change updates. `get`,
    /// `contains_key` and `get_many` then touch two cache lines. Ordered operations still use the
    /// trie. The index costs 6 to 10 bytes a key and some time at each change. The hash seed is
    /// random, so nobody can choose keys that collide. The call is O(1).
    ///
    /// ```
    /// # use sapwood::qp::QpShared;
    /// let map = QpShared::builder().with_index().build()?;
    /// map.insert("cedar", 7)?;
    /// assert_eq!(map.get("cedar"), Some(7));
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    pub fn with_index(mut self) -> Self {
        self.choices.index = true;
        self
    }

    fn build_of(self, tree: Tree<V>) -> Result<QpShared<V>, Error> {
        let index = self.choices.index.then(|| Index::new(seed()));
        Ok(SharedMap::from_raw(self.trie(tree, index)?))
    }

    /// A shared trie over the nodes of an owned one.
    pub(super) fn trie(
        self,
        tree: Tree<V>,
        index: Option<Index<V, true>>,
    ) -> Result<Trie<V>, Error> {
        match self.choices.most {
            Some(max_entries) if tree.len > max_entries => Err(Error::Full { max_entries }),
            most => Ok(Trie::new(
                tree,
                self.domain.unwrap_or_default(),
                most,
                index,
            )),
        }
    }
}

impl<V: ?Sized + Value + Send + Sync + 'static> Builder<QpShared<V>> {
    /// A map of these entries, which come in ascending order of keys. Of equal keys, the last wins.
    ///
    /// O(sum of all key lengths).
    ///
    /// # Errors
    /// As [`QpMap::from_sorted_iter`]; [`Error::Full`].
    ///
    /// # Panics
    /// As [`build`](Self::build).
    pub fn build_sorted<K: AsRef<[u8]>, N: IntoValue<V>>(
        self,
        entries: impl IntoIterator<Item = (K, N)>,
    ) -> Result<QpShared<V>, Error>
    where
        V: Accepts<N>,
    {
        let arena = stable_arena(self.memory.clone().stable())?;
        let tree = sorted_tree(Tree::new(arena), entries)?;
        self.build_of(tree)
    }
}

impl<V: Send + Sync + 'static> QpShared<V> {
    /// A shared map with the entries of an owned map. It keeps the map's limit of memory, and has a
    /// point index if the map has one.
    ///
    /// O(sum of all key lengths).
    ///
    /// # Errors
    /// [`Error::ArenaFull`] when there is not enough memory; the map is dropped.
    pub fn from_map(map: QpMap<V>) -> Result<Self, Error> {
        let mut builder = Self::builder();
        builder.memory.limit = map.limit();
        builder.choices.index = map.has_index();
        builder.build_sorted(map)
    }
}

impl<V: ?Sized + Value + Send + Sync + 'static> QpShared<V> {
    /// Copies of the entry with the least key greater than `key`, whether `key` itself is there or
    /// not.
    ///
    /// O(length of `key` and of the key that is found).
    pub fn successor(&self, key: impl AsRef<[u8]>) -> Option<(Vec<u8>, V::Owned)>
    where
        V: ToOwned,
    {
        self.read(|view| {
            let (key, value) = view.successor(key)?;
            Some((key.to_vec(), value.to_owned()))
        })
    }

    /// Removes the entry with the least key, and returns copies of it. See
    /// [`SharedView::pop_first`].
    ///
    /// A lookup and a removal, again for each race that is lost.
    ///
    /// # Errors
    /// As [`remove`](SharedMap::remove).
    ///
    /// ```
    /// use sapwood::qp::QpShared;
    /// let due = QpShared::new()?;
    /// due.insert(20u64.to_be_bytes(), "late")?;
    /// due.insert(10u64.to_be_bytes(), "early")?;
    /// let (time, what) = due.pop_first()?.unwrap();
    /// assert_eq!((&time[..], what), (&10u64.to_be_bytes()[..], "early"));
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    pub fn pop_first(&self) -> Result<Option<Copies<V>>, Error>
    where
        V: ToOwned,
    {
        self.popping(|view| view.first_key_value().map(|(key, _)| key))
    }

    /// Removes the entry with the greatest key, and returns copies of it. See
    /// [`SharedView::pop_last`].
    ///
    /// A lookup and a removal, again for each race that is lost.
    ///
    /// # Errors
    /// As [`remove`](SharedMap::remove).
    pub fn pop_last(&self) -> Result<Option<Copies<V>>, Error>
    where
        V: ToOwned,
    {
        self.popping(|view| view.last_key_value().map(|(key, _)| key))
    }

    fn popping(
        &self,
        end: impl for<'g> Fn(&QpSharedView<'g, V>) -> Option<Key<'g>>,
    ) -> Result<Option<Copies<V>>, Error>
    where
        V: ToOwned,
    {
        let (popped, last) = self.retrying(|view| {
            Ok(match view.pop(&end)? {
                Some((key, value, last)) => (Some((key.into(), value.to_owned())), last),
                None => (None, false),
            })
        })?;
        if last {
            self.reclaim(usize::MAX);
        }
        Ok(popped)
    }

    /// One step of a compaction; returns whether there is more to do. It moves up to `budget`
    /// branches into fresh memory, in key order and in clusters that fit cache lines, or sweeps the
    /// memory that they left. Readers and writers go on meanwhile. Repeated calls compact the whole
    /// map. The call after the last step begins a new compaction. The first step of a compaction
    /// makes writers wait for a moment.
    ///
    /// O(budget), and the path to where it goes on. A step gives at most 512 KiB back to the
    /// system.
    ///
    /// Iteration gains most, because neighbours in order become neighbours in memory.
    ///
    /// # Errors
    /// [`Error::ArenaFull`] or [`Error::GarbageLimit`]; no entry is lost, and a later call goes on
    /// with the compaction. Where garbage is limited, a step moves as many branches as the limit
    /// has room for.
    ///
    /// ```
    /// # let map = sapwood::qp::QpShared::new()?;
    /// # map.insert("a", 1)?;
    /// while map.compact_step(1000)? {}
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    pub fn compact_step(&self, budget: usize) -> Result<bool, Error> {
        loop {
            match self.read(|view| view.raw.compact(view.guard, budget.max(1))) {
                Ok(more) => return Ok(more),
                Err(Lack::Garbage(limit)) => self.raw.wait_for_room(limit.requested)?,
                Err(full) => return Err(full.into()),
            }
        }
    }
}

/// The number of times that an exact query runs beside writers before they must wait for it.
const EXACT_TRIES: usize = 8;

impl<'g, V: ?Sized + Value + Send + Sync + 'static> QpSharedView<'g, V> {
    #[inline(always)]
    fn view(&self) -> View<'g, V, Live> {
        self.raw.guarded_view(self.guard)
    }

    ordered_reads!();

    /// Removes the entry with the least key and returns it. The references live as long as the
    /// guard. Of several threads that pop at once, no two get the same entry.
    ///
    /// A lookup and a removal, again for each race that is lost.
    ///
    /// The entry was the first at some moment of the call. A lesser key that another thread inserts
    /// before the removal stays for the next pop. If other threads remove the first entry
    /// meanwhile, the search begins anew.
    ///
    /// O(length of its key), if no other writer is at the same branch.
    ///
    /// # Errors
    /// As [`SharedMap::remove`].
    pub fn pop_first(&self) -> Result<Option<ReadEntry<'g, V>>, Error> {
        let popped = self.pop(|view| view.first_key_value().map(|(key, _)| key))?;
        Ok(popped.map(|(key, value, _)| (key, value)))
    }

    /// Removes the entry with the greatest key and returns it, as [`pop_first`](Self::pop_first)
    /// does with the least key.
    ///
    /// A lookup and a removal, again for each race that is lost.
    ///
    /// # Errors
    /// As [`SharedMap::remove`].
    pub fn pop_last(&self) -> Result<Option<ReadEntry<'g, V>>, Error> {
        let popped = self.pop(|view| view.last_key_value().map(|(key, _)| key))?;
        Ok(popped.map(|(key, value, _)| (key, value)))
    }

    /// Removes the entry at one end; returns it, and whether the map may be empty now.
    fn pop(&self, end: impl Fn(&Self) -> Option<Key<'g>>) -> Result<Option<Popped<'g, V>>, Error> {
        while let Some(key) = end(self) {
            let removed = self.take(&key)?;
            if let Some(value) = removed.value {
                return Ok(Some((key, value, removed.last)));
            }
        }
        Ok(None)
    }

    /// Runs a query of several entries so that its result is exact for one moment. It runs the
    /// query again until nothing changes meanwhile. After a few attempts, it runs the query while
    /// writers wait.
    ///
    /// The cost of the query, nine times at most, and O(shards) for each.
    ///
    /// # Panics
    /// When the query changes the map, by this view or otherwise, or calls `compact_step`,
    /// `memory`, `contention` or `verify`, while writers wait for it: it would wait for itself.
    ///
    /// ```
    /// # let map = sapwood::qp::QpShared::new()?;
    /// map.insert("a", 1)?; let pin = map.pin(); let (zone, first) = pin.view().exact(|view|
    /// (view.longest_prefix("ab"), view.first_key_value())); assert_eq!(zone, first);
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    pub fn exact<R>(&self, query: impl Fn(QpSharedView<'g, V>) -> R) -> R {
        for _ in 0..EXACT_TRIES {
            if let Some(result) = self.raw.undisturbed(|| query(*self)) {
                return result;
            }
        }
        let _writers_wait = self.raw.stop_writers();
        query(*self)
    }

    /// Fetches into the cache what changes of these keys will read.
    pub(crate) fn warm<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        batch::warm(&self.view(), keys);
    }
}

/// The entries of a shared map in ascending order of keys, from both ends, while others write.
///
/// The walk is weakly consistent. Keys come in order and never twice. A key that is there
/// throughout is not skipped. Of keys that are inserted or removed meanwhile, some come and some do
/// not. The walk holds its guard. For a long walk that should not hold memory back, call
/// [`successor`](SharedView::successor) under a new guard for each step.
pub struct QpSharedRange<'g, V: ?Sized + Value> {
    walk: Walk<'g, V>,
}

impl<'g, V: ?Sized + Value> QpSharedRange<'g, V> {
    pub(super) fn new(
        view: View<'g, V, Live>,
        low: Bound<Vec<u8>>,
        high: Bound<Vec<u8>>,
    ) -> QpSharedRange<'g, V> {
        QpSharedRange {
            walk: Walk::new(view, low, high),
        }
    }
}

impl<V: ?Sized + Value> Clone for QpSharedRange<'_, V> {
    fn clone(&self) -> Self {
        QpSharedRange {
            walk: self.walk.clone(),
        }
    }
}

impl<'g, V: ?Sized + Value> Iterator for QpSharedRange<'g, V> {
    type Item = ReadEntry<'g, V>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.walk.next().map(|(key, value)| (key.into(), value))
    }
}

impl<V: ?Sized + Value> DoubleEndedIterator for QpSharedRange<'_, V> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.walk
            .next_back()
            .map(|(key, value)| (key.into(), value))
    }
}

impl<V: ?Sized + Value> FusedIterator for QpSharedRange<'_, V> {}

impl<V: ?Sized + Value + fmt::Debug> fmt::Debug for QpSharedRange<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.clone().map(Shown::entry))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use crate::QpShared;

    /// The prefixes of a key, longest first. `change` runs as soon as the first one is found.
    fn prefixes(map: &QpShared<u32>, key: &[u8], change: impl FnOnce()) -> Vec<Vec<u8>> {
        let pin = map.pin();
        let view = pin.view().view();
        let (mut found, mut change) = (Vec::new(), Some(change));
        view.prefixes_up(key, |leaf| {
            found.push(view.key(leaf).unwrap().to_box().into_vec());
            if let Some(change) = change.take() {
                change();
            }
            false
        });
        assert!(change.is_none(), "one was found");
        found
    }

    fn map(keys: &[&str]) -> QpShared<u32> {
        let map = QpShared::new().unwrap();
        for key in keys {
            map.insert(key, 1).unwrap();
        }
        map
    }

    #[test]
    fn prefixes_that_stay_are_found_once_whatever_changes() {
        // Branches at the ends of prefixes, so that the path up reads their first children.
        let names: Vec<String> = (0..60).map(|i| format!("abc{:02}", i)).collect();
        let names: Vec<&str> = names.iter().map(|name| &name[..]).collect();
        let all = [&["", "a", "ab", "abc"], &names[..]].concat();
        let want: Vec<Vec<u8>> = ["abc17", "abc", "ab", "a", ""].map(Vec::from).to_vec();
        let map_of_all = map(&all);
        assert_eq!(prefixes(&map_of_all, b"abc17", || {}), want);
        // All others are removed and inserted again; the values of prefixes change.
        let map_of_all = map(&all);
        let found = prefixes(&map_of_all, b"abc17", || {
            for name in &names {
                map_of_all.remove(name).unwrap();
            }
            for prefix in ["", "a", "ab", "abc"] {
                map_of_all.insert(prefix, 2).unwrap();
            }
            for name in &names {
                map_of_all.insert(name, 3).unwrap();
            }
        });
        assert_eq!(found, want);
        map_of_all.verify().unwrap();
    }
}
