//! The owned map.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Index, RangeBounds};

#[cfg(feature = "std")]
use sapwood_arena::Backing;
use sapwood_arena::{Arena, ArenaOptions};

use super::entry::{Entry, OccupiedEntry, VacantEntry};
use super::iter::{Iter, Shown};
use super::iter_mut::{IterMut, ValuesMut};
use super::memory::QpMemory;
use super::raw::build::{Builder, Pushed};
use super::raw::leaf::MAX_KEY;
use super::raw::mem::Trusted;
use super::raw::tree::Tree;
use super::raw::value::{Accepts, IntoValue, Value, storing};
use super::raw::verify;
use super::raw::view::View;
use super::read::{self, read_methods};
use crate::{Error, Key, ReadEntry, Rejected};

/// An owned, ordered map over byte strings, changed through `&mut`.
///
/// The methods are `BTreeMap`'s. Keys are anything that is `AsRef<[u8]>`, and their order is the
/// lexicographic order of bytes. Keys have 0 to 65,535 bytes of any value and may be prefixes of
/// each other. Keys are copied into the map.
///
/// - `get`: O(key length), about one cache line per level that is not in cache and one for the
///   leaf.
/// - `insert`, `remove`: as `get`, and one branch is written. A removal never needs memory.
/// - Values are of any type, or byte strings. A `QpMap<[u8]>` copies the bytes that are inserted,
///   and returns `&[u8]` that lie in the map.
/// - Memory beyond the key bytes: 12 to 20 bytes a key with 8-byte values, for keys that are names.
///   Neighbours in order share a block, which has the bytes that all its keys begin with once. So
///   keys with long parts in common, as file paths, take less than their own bytes.
///
/// An empty map allocates nothing.
///
/// ```
/// use sapwood::qp::QpMap;
///
/// let mut map = QpMap::new();
/// assert_eq!(map.insert("beech", 3)?, None);
/// assert_eq!(map.insert("ash", 1)?, None);
/// assert_eq!(map.insert("ash", 2)?, Some(1));
/// assert_eq!(map.first_key_value(), Some(("ash".into(), &2)));
/// assert_eq!(map.successor("ash").unwrap().0, b"beech");
/// assert_eq!(map.remove("beech"), Some(3));
/// assert_eq!(map.len(), 1);
/// # Ok::<(), sapwood::Error>(())
/// ```
pub struct QpMap<V: ?Sized + Value> {
    // An empty map is only this pointer.
    pub(crate) tree: Option<Box<Tree<V>>>,
}

/// An arena that has its first memory already, so that a backing that cannot be had is an error
/// now.
fn arena(options: ArenaOptions) -> Result<Arena, Error> {
    let mut arena = Arena::new(options);
    arena.set_roots([0; 8])?;
    Ok(arena)
}

/// The key itself, or an error if it is too long.
#[inline(always)]
pub(crate) fn checked(key: &[u8]) -> Result<&[u8], Error> {
    if key.len() > MAX_KEY {
        return Err(Error::KeyTooLong { len: key.len() });
    }
    Ok(key)
}

/// A trie built from entries in ascending order of keys.
pub(crate) fn sorted_tree<V: ?Sized + Value + Accepts<N>, N: IntoValue<V>, K: AsRef<[u8]>>(
    empty: Tree<V>,
    entries: impl IntoIterator<Item = (K, N)>,
) -> Result<Tree<V>, Error> {
    let mut builder = Builder::new(empty);
    for (index, (key, value)) in entries.into_iter().enumerate() {
        let key = checked(key.as_ref())?;
        let pushed = storing::<V, _, _>(value, |value| {
            let full = |(value, full)| Rejected {
                value,
                error: Error::ArenaFull(full),
            };
            builder.push(key, value).map_err(full)
        });
        match pushed? {
            Pushed::Added => {}
            Pushed::Replaced(old) => drop(old),
            Pushed::Unsorted => return Err(Error::NotSorted { index }),
        }
    }
    Ok(builder.finish()?)
}

impl<V: ?Sized + Value> QpMap<V> {
    /// An empty map in memory of its own.
    ///
    /// O(1).
    pub const fn new() -> Self {
        QpMap { tree: None }
    }

    /// An empty map in an arena with these options: another backing, a limit, a mode for tests.
    ///
    /// O(1).
    ///
    /// # Errors
    /// [`Error::ArenaFull`] when the backing cannot be had.
    pub fn with_options(options: ArenaOptions) -> Result<Self, Error> {
        Ok(QpMap {
            tree: Some(Box::new(Tree::new_inline(arena(options)?))),
        })
    }

    /// An empty map in memory of its own, which never has more than `bytes` bytes: entries, index,
    /// free blocks and the header. A change that needs more fails with [`Error::ArenaFull`].
    ///
    /// O(1).
    ///
    /// # Errors
    /// [`Error::ArenaFull`] when the limit has no room for the header of 64 bytes.
    ///
    /// ```
    /// use sapwood::qp::{Error, QpMap};
    /// let mut map = QpMap::with_memory_limit(64 << 10)?;
    /// let refused = (0..100_000u64).find_map(|i| map.insert(i.to_be_bytes(), i).err()).unwrap();
    /// assert!(matches!(refused.error, Error::ArenaFull(_)));
    /// assert_eq!(map.len() as u64, refused.value);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn with_memory_limit(bytes: usize) -> Result<Self, Error> {
        Self::with_options(ArenaOptions::default().limit(bytes))
    }

    /// An empty map in an arena with these options, whose entries have a leaf each, as those of a
    /// map with an index do. Its keys lie in one piece ([`Key::in_place`]), and neither keys nor
    /// values move until the map is compacted. It takes 4 to 14 bytes a name more.
    ///
    /// O(1).
    ///
    /// # Errors
    /// [`Error::ArenaFull`] when the backing cannot be had.
    ///
    /// ```
    /// use sapwood::arena::ArenaOptions;
    /// use sapwood::qp::QpMap;
    /// let mut map = QpMap::with_leaves(ArenaOptions::default())?;
    /// map.insert("ash", 1)?;
    /// map.insert("aspen", 2)?;
    /// let (key, _) = map.first_key_value().unwrap();
    /// assert_eq!(key.in_place(), Some(&b"ash"[..]));
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    pub fn with_leaves(options: ArenaOptions) -> Result<Self, Error> {
        let mut map = Self::with_options(options)?;
        let tree = map.tree_mut();
        (tree.inline, tree.only_leaves) = (false, true);
        Ok(map)
    }

    /// An empty map in an arena with these options, whose clusters keep each key whole, where other
    /// maps cut the bytes that the keys of a cluster share. So its keys lie in one piece
    /// ([`Key::in_place`]), but not in a leaf each. Live blocks take 20 to 21 bytes a name beyond
    /// the key, value included, where those of other maps take 12 to 19; file paths take 30, more
    /// than with leaves. Steps of iterators take two thirds of the instructions, with the reading
    /// of the key (notes of one measurement, docs/qp.md).
    ///
    /// O(1).
    ///
    /// # Errors
    /// [`Error::ArenaFull`] when the backing cannot be had.
    ///
    /// ```
    /// use sapwood::arena::ArenaOptions;
    /// use sapwood::qp::QpMap;
    /// let mut map = QpMap::with_whole_keys(ArenaOptions::default())?;
    /// map.insert("www.example.com", 1)?;
    /// map.insert("www.example.net", 2)?;
    /// let (key, _) = map.first_key_value().unwrap();
    /// assert_eq!(key.in_place(), Some(&b"www.example.com"[..]));
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    pub fn with_whole_keys(options: ArenaOptions) -> Result<Self, Error> {
        let tree = Tree::new_inline(arena(options)?).cut_prefixes(false);
        Ok(Self::from_tree(tree))
    }

    /// The limit of memory, if there is one.
    #[cfg_attr(not(feature = "std"), allow(dead_code))]
    pub(crate) fn limit(&self) -> Option<usize> {
        self.tree.as_ref()?.arena.options().chosen_limit()
    }

    /// A map of these entries, which are this map's, with its options, limit and index.
    ///
    /// # Panics
    /// When there is not enough memory.
    fn copied<K: AsRef<[u8]>, N: IntoValue<V>, I: Iterator<Item = (K, N)>>(
        &self,
        entries: impl Fn() -> I,
    ) -> Self
    where
        V: Accepts<N>,
    {
        let Some(tree) = &self.tree else {
            return QpMap::new();
        };
        // A file has one map. Faults are injected where a test asked for them.
        let options = tree.arena.options().clone().fail_every(0);
        #[cfg(feature = "std")]
        let options = match options.chosen_backing() {
            Backing::File(_) => options.backing(Backing::Auto),
            _ => options,
        };
        let empty = |options| {
            // An index names leaves.
            let mut empty = match tree.only_leaves || tree.points.is_some() {
                true => Tree::new(arena(options)?),
                false => Tree::new_inline(arena(options)?),
            };
            empty.prefix_max = tree.prefix_max;
            Ok::<_, Error>(empty)
        };
        let sorted = |options| sorted_tree(empty(options)?, entries()).map(Self::from_tree);
        let copy = sorted(options.clone()).or_else(|error| {
            // A compact copy takes less than the map; if a limit is nearly used up and it does
            // not, then the limit is what it takes.
            let limit = self.limit().ok_or(error)?;
            let unlimited = options.limit(usize::MAX);
            let mut copy = sorted(unlimited)?;
            copy.tree_mut().arena.limit_to(limit);
            Ok(copy)
        });
        match copy {
            Ok(mut copy) => {
                copy.tree_mut().only_leaves = tree.only_leaves;
                if self.has_index() {
                    copy.add_index();
                }
                copy
            }
            Err::<_, Error>(error) => panic!("cloning a QpMap: {error}"),
        }
    }

    pub(crate) fn from_tree(tree: Tree<V>) -> Self {
        QpMap {
            tree: Some(Box::new(tree)),
        }
    }

    pub(crate) fn tree_mut(&mut self) -> &mut Tree<V> {
        self.tree
            .get_or_insert_with(|| Box::new(Tree::new_inline(Arena::new(ArenaOptions::default()))))
    }

    /// Number of entries.
    ///
    /// O(1).
    #[inline]
    pub fn len(&self) -> usize {
        self.tree.as_ref().map_or(0, |tree| tree.len)
    }

    #[inline(always)]
    pub(crate) fn view(&self) -> View<'_, V> {
        match &self.tree {
            Some(tree) => tree.owned_view(),
            None => View::nothing(),
        }
    }

    pub(crate) fn is_large(&self) -> bool {
        self.tree
            .as_ref()
            .is_some_and(|tree| tree.arena.frontier() >= read::BATCH_FROM)
    }

    read_methods!(['s] 's [&'s ] self Trusted);

    /// Inserts or replaces; returns the value that was replaced.
    #[inline(always)]
    fn put<'a>(
        &mut self,
        key: &[u8],
        value: V::New<'a>,
    ) -> Result<Option<V::Taken>, Rejected<V::New<'a>>> {
        if let Err(error) = checked(key) {
            return Err(Rejected { value, error });
        }
        self.tree_mut()
            .insert(key, value)
            .map_err(|(value, full)| Rejected {
                value,
                error: full.into(),
            })
    }

    /// Removes a key and returns its value. A removal needs no memory.
    ///
    /// O(key length); one branch or cluster is written.
    pub fn remove(&mut self, key: impl AsRef<[u8]>) -> Option<V::Taken> {
        self.tree.as_mut()?.remove(key.as_ref())
    }

    /// Removes these keys, all of which are in the map.
    fn remove_all(&mut self, gone: Vec<Box<[u8]>>) {
        if gone.len() == self.len() {
            return self.clear();
        }
        for key in gone {
            self.remove(&key);
        }
    }

    /// Removes a key and returns the stored key and its value.
    ///
    /// As [`remove`](Self::remove), and a copy of the key.
    pub fn remove_entry(&mut self, key: impl AsRef<[u8]>) -> Option<(Box<[u8]>, V::Taken)> {
        let key = key.as_ref();
        self.remove(key).map(|value| (key.into(), value))
    }

    /// Removes the entries whose keys start with `prefix`; returns their number.
    ///
    /// O(length of the prefix + number of removed entries).
    pub fn remove_prefix(&mut self, prefix: impl AsRef<[u8]>) -> usize {
        let Some(tree) = self.tree.as_mut() else {
            return 0;
        };
        // The values are dropped after the map is whole again.
        tree.remove_prefix(prefix.as_ref()).0
    }

    /// Removes and returns the entry with the least key.
    ///
    /// O(length of its key), which is copied.
    pub fn pop_first(&mut self) -> Option<(Box<[u8]>, V::Taken)> {
        let key: Box<[u8]> = self.first_key_value()?.0.into();
        self.remove(&key).map(|value| (key, value))
    }

    /// Removes and returns the entry with the greatest key.
    ///
    /// O(length of its key), which is copied.
    pub fn pop_last(&mut self) -> Option<(Box<[u8]>, V::Taken)> {
        let key: Box<[u8]> = self.last_key_value()?.0.into();
        self.remove(&key).map(|value| (key, value))
    }

    /// Removes all entries and frees their memory.
    ///
    /// O(entries) if values have a destructor; otherwise it only gives the memory back.
    pub fn clear(&mut self) {
        if let Some(tree) = &mut self.tree {
            tree.clear();
        }
    }

    /// Moves all entries of `other` into this map. Where both have a key, `other`'s value stays.
    ///
    /// O(sum of the lengths of the keys of `other`); O(1) if nothing was ever inserted into this
    /// map.
    ///
    /// # Errors
    /// [`Error::ArenaFull`]; the entries that did not move are still in `other`.
    pub fn append(&mut self, other: &mut Self) -> Result<(), Error> {
        if self.tree.is_none() {
            core::mem::swap(&mut self.tree, &mut other.tree);
            return Ok(());
        }
        let Some(from) = other.tree.as_deref_mut() else {
            return Ok(());
        };
        while let Some(replaced) = self.tree_mut().move_first(from)? {
            drop(replaced);
        }
        other.clear();
        Ok(())
    }

    /// Moves the entries with keys at and after `key` into a new map with the same options.
    ///
    /// O(sum of the lengths of the keys that move).
    ///
    /// # Errors
    /// [`Error::ArenaFull`]; the map is unchanged.
    pub fn split_off(&mut self, key: impl AsRef<[u8]>) -> Result<Self, Error> {
        let Some(tree) = self.tree.as_deref_mut() else {
            return Ok(QpMap::new());
        };
        let fresh = Arena::new(tree.arena.options().clone());
        Ok(Self::from_tree(tree.split_into(key.as_ref(), fresh)?))
    }

    /// Copies all nodes into fresh memory in depth-first order and frees the old memory. Scans then
    /// read memory in order, and lookups touch fewer cache lines. In a map with an index, `iter`,
    /// `keys` and `values` read only the leaves until the next key is inserted or removed. While it
    /// runs, the map takes about twice its memory.
    ///
    /// O(entries).
    ///
    /// # Errors
    /// [`Error::ArenaFull`]; the map is unchanged.
    pub fn compact(&mut self) -> Result<(), Error> {
        if let Some(tree) = &mut self.tree {
            let fresh = Arena::new(tree.arena.options().clone());
            tree.move_into(fresh)?;
        }
        Ok(())
    }

    /// What the map's memory holds.
    ///
    /// It reads the accounts and walks nothing.
    pub fn memory(&self) -> QpMemory {
        match &self.tree {
            Some(tree) => QpMemory::from_tree(tree),
            None => QpMemory::default(),
        }
    }

    /// Walks the whole map and checks every invariant. Compares the arena's accounts with the nodes
    /// that are there.
    ///
    /// O(sum of all key lengths).
    ///
    /// # Errors
    /// A text that says what is wrong.
    pub fn verify(&self) -> Result<(), String> {
        match &self.tree {
            Some(tree) => verify::tree(tree, &[]),
            None => Ok(()),
        }
    }
}

impl<V: ?Sized + Value> QpMap<V> {
    /// A map of entries in ascending order of keys, built depth-first. This fills a map faster than
    /// insertions do, and its layout is the best for reading. Of equal keys, the last wins.
    ///
    /// O(sum of all key lengths).
    ///
    /// # Errors
    /// [`Error::NotSorted`] with the entry's position, [`Error::KeyTooLong`], [`Error::ArenaFull`].
    /// The entries taken so far are dropped.
    ///
    /// ```
    /// use sapwood::qp::QpMap;
    /// let map = QpMap::from_sorted_iter((0..1000u32).map(|i| (i.to_be_bytes(), i)))?;
    /// assert_eq!(map.get(7u32.to_be_bytes()), Some(&7));
    /// assert!(QpMap::from_sorted_iter([("b", 1), ("a", 2)]).is_err());
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    pub fn from_sorted_iter<K: AsRef<[u8]>, N: IntoValue<V>>(
        entries: impl IntoIterator<Item = (K, N)>,
    ) -> Result<Self, Error>
    where
        V: Accepts<N>,
    {
        Self::from_sorted_iter_in(ArenaOptions::default(), entries)
    }

    /// A map of entries in ascending order of keys, in an arena with these options. See
    /// [`from_sorted_iter`](Self::from_sorted_iter).
    ///
    /// O(sum of all key lengths).
    ///
    /// # Errors
    /// As `from_sorted_iter`.
    pub fn from_sorted_iter_in<K: AsRef<[u8]>, N: IntoValue<V>>(
        options: ArenaOptions,
        entries: impl IntoIterator<Item = (K, N)>,
    ) -> Result<Self, Error>
    where
        V: Accepts<N>,
    {
        let empty = Tree::new_inline(arena(options)?);
        Ok(Self::from_tree(sorted_tree(empty, entries)?))
    }

    /// A mutable reference to the value of a key.
    ///
    /// O(key length).
    pub fn get_mut(&mut self, key: impl AsRef<[u8]>) -> Option<&mut V> {
        self.tree.as_mut()?.get_mut(key.as_ref())
    }

    /// Inserts or replaces; returns the value that was replaced.
    ///
    /// O(key length); one branch or cluster is written, and sometimes a cluster is split.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], [`Error::ValueTooLong`] or [`Error::ArenaFull`], with the value given
    /// back; the map is unchanged.
    ///
    /// ```
    /// use sapwood::qp::QpMap;
    /// let mut texts: QpMap<[u8]> = QpMap::new();
    /// assert_eq!(texts.insert("elm", b"Ulmus")?, None);
    /// assert_eq!(texts.insert("elm", b"Ulmus glabra")?.as_deref(), Some(&b"Ulmus"[..]));
    /// let elm: &[u8] = texts.get("elm").unwrap(); // a reference into the map, not a copy
    /// assert_eq!(elm, b"Ulmus glabra");
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    #[inline]
    pub fn insert<N: IntoValue<V>>(
        &mut self,
        key: impl AsRef<[u8]>,
        value: N,
    ) -> Result<Option<V::Taken>, Rejected<V::Held>>
    where
        V: Accepts<N>,
    {
        storing::<V, _, _>(value, |value| self.put(key.as_ref(), value))
    }
}

impl<V> QpMap<V> {
    /// The entry of a key, for a change that depends on whether the key is there.
    ///
    /// O(key length), as [`get`](Self::get); inserting or removing by the entry costs as much
    /// again.
    ///
    /// ```
    /// use sapwood::qp::QpMap;
    /// let mut counts = QpMap::new();
    /// for word in ["oak", "elm", "oak"] {
    ///     *counts.entry(word)?.or_insert(0) += 1;
    /// }
    /// assert_eq!(counts["oak"], 2);
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::KeyTooLong`].
    #[inline]
    pub fn entry<K: AsRef<[u8]>>(&mut self, key: K) -> Result<Entry<'_, K, V>, Error> {
        let key = checked(key.as_ref())?;
        let tree = self.tree_mut();
        Ok(match tree.find(key) {
            Some(entry) => Entry::Occupied(OccupiedEntry::new(tree, key, entry)),
            None => Entry::Vacant(VacantEntry::new(tree, key)),
        })
    }

    /// The entry with the least key.
    ///
    /// O(length of its key).
    pub fn first_entry(&mut self) -> Option<OccupiedEntry<'_, Box<[u8]>, V>> {
        let key: Box<[u8]> = self.first_key_value()?.0.into();
        self.occupied(key)
    }

    /// The entry with the greatest key.
    ///
    /// O(length of its key).
    pub fn last_entry(&mut self) -> Option<OccupiedEntry<'_, Box<[u8]>, V>> {
        let key: Box<[u8]> = self.last_key_value()?.0.into();
        self.occupied(key)
    }

    fn occupied(&mut self, key: Box<[u8]>) -> Option<OccupiedEntry<'_, Box<[u8]>, V>> {
        let tree = self.tree.as_deref_mut()?;
        let entry = tree.find(&key)?;
        Some(OccupiedEntry::new(tree, &key, entry))
    }
}

impl<V: ?Sized + Value> QpMap<V> {
    /// All entries in order, with mutable references to their values.
    ///
    /// O(length of the first key); each step is O(1) on average.
    pub fn iter_mut(&mut self) -> IterMut<'_, V> {
        let len = self.len();
        IterMut::new(self.tree.as_deref_mut().map(Tree::all_mut), len)
    }

    /// Mutable references to all values, in order of their keys.
    ///
    /// As [`iter_mut`](Self::iter_mut).
    pub fn values_mut(&mut self) -> ValuesMut<'_, V> {
        ValuesMut(self.iter_mut())
    }

    /// The entries between two bounds, in order, with mutable references to their values.
    ///
    /// O(lengths of the bounds and of the keys at them); each step is O(1) on average.
    pub fn range_mut<K, R>(&mut self, bounds: R) -> IterMut<'_, V>
    where
        K: AsRef<[u8]> + ?Sized,
        R: RangeBounds<K>,
    {
        let span = self
            .tree
            .as_deref_mut()
            .map(|tree| tree.span_mut(|view| read::range(view, &bounds).span));
        IterMut::new(span, usize::MAX)
    }

    /// Removes the entries for which `keep` returns false. It sees the entries in order.
    ///
    /// O(entries), and O(key length) for each entry that goes.
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8], &mut V) -> bool) {
        let mut gone: Vec<Box<[u8]>> = Vec::new();
        for (key, value) in self.iter_mut() {
            if !keep(&key, value) {
                gone.push(key.into());
            }
        }
        self.remove_all(gone);
    }
}

impl<V: ?Sized + Value> Default for QpMap<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V: ?Sized + Value + fmt::Debug> fmt::Debug for QpMap<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.iter().map(Shown::entry))
            .finish()
    }
}

impl Clone for QpMap<[u8]> {
    /// A compact copy, with the map's options, its limit of memory, and an index if it has one.
    ///
    /// # Panics
    /// When there is not enough memory.
    fn clone(&self) -> Self {
        self.copied(|| self.iter())
    }
}

impl<V: Clone> Clone for QpMap<V> {
    /// A compact copy, with the map's options, its limit of memory, and an index if it has one.
    ///
    /// # Panics
    /// When there is not enough memory.
    fn clone(&self) -> Self {
        self.copied(|| self.iter().map(|(k, v)| (k, v.clone())))
    }
}

impl<V: ?Sized + Value + PartialEq> PartialEq for QpMap<V> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<V: ?Sized + Value + Eq> Eq for QpMap<V> {}

impl<V: ?Sized + Value + PartialOrd> PartialOrd for QpMap<V> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        self.iter().partial_cmp(other.iter())
    }
}

impl<V: ?Sized + Value + Ord> Ord for QpMap<V> {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.iter().cmp(other.iter())
    }
}

impl<V: ?Sized + Value + core::hash::Hash> core::hash::Hash for QpMap<V> {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        state.write_usize(self.len());
        for entry in self {
            entry.hash(state);
        }
    }
}

impl<K: AsRef<[u8]>, V> Extend<(K, V)> for QpMap<V> {
    /// # Panics
    /// When a key is too long or the arena is full. [`QpMap::insert`] returns these as errors.
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            if let Err(rejected) = self.insert(key, value) {
                panic!("extending a QpMap: {rejected}");
            }
        }
    }
}

impl<K: AsRef<[u8]>, V> FromIterator<(K, V)> for QpMap<V> {
    /// # Panics
    /// When a key is too long or the arena is full.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = QpMap::new();
        map.extend(entries);
        map
    }
}

impl<K: AsRef<[u8]>, V, const N: usize> From<[(K, V); N]> for QpMap<V> {
    fn from(entries: [(K, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<K: AsRef<[u8]> + ?Sized, V: ?Sized + Value> Index<&K> for QpMap<V> {
    type Output = V;

    /// # Panics
    /// When the key is absent.
    fn index(&self, key: &K) -> &V {
        let key = key.as_ref();
        match self.get(key) {
            Some(value) => value,
            None => panic!("no entry for key \"{}\"", key.escape_ascii()),
        }
    }
}

impl<'a, V: ?Sized + Value> IntoIterator for &'a QpMap<V> {
    type Item = ReadEntry<'a, V>;
    type IntoIter = Iter<'a, V>;

    fn into_iter(self) -> Iter<'a, V> {
        self.iter()
    }
}

impl<'a, V> IntoIterator for &'a mut QpMap<V> {
    type Item = (Key<'a>, &'a mut V);
    type IntoIter = IterMut<'a, V>;

    fn into_iter(self) -> IterMut<'a, V> {
        self.iter_mut()
    }
}

impl<V: ?Sized + Value> IntoIterator for QpMap<V> {
    type Item = (Box<[u8]>, V::Taken);
    type IntoIter = IntoIter<V>;

    fn into_iter(self) -> IntoIter<V> {
        IntoIter(self)
    }
}

/// The entries of a map, moved out of it in order.
#[derive(Debug)]
pub struct IntoIter<V: ?Sized + Value>(QpMap<V>);

impl<V: ?Sized + Value> Iterator for IntoIter<V> {
    type Item = (Box<[u8]>, V::Taken);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.pop_first()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.len(), Some(self.0.len()))
    }
}

impl<V: ?Sized + Value> DoubleEndedIterator for IntoIter<V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.pop_last()
    }
}

impl<V: ?Sized + Value> ExactSizeIterator for IntoIter<V> {}
impl<V: ?Sized + Value> core::iter::FusedIterator for IntoIter<V> {}
