//! Lookups of single keys in an owned map, and its point index.

use super::map::QpMap;
use super::raw::inline::EntryRef;
use super::raw::view::View;
use crate::{ReadEntry, Value};

impl<V: ?Sized + Value> QpMap<V> {
    /// An empty map with a point index: a hash index over its entries, which every change updates.
    ///
    /// Lookups of single keys ([`get`](Self::get), [`contains_key`](Self::contains_key),
    /// [`get_many`](Self::get_many) and their like) then touch two cache lines, whatever the number
    /// of entries. Ordered operations still use the trie. The index costs 6 to 10 bytes a key and
    /// some time at each insertion and removal. The hash seed is random, so nobody can choose keys
    /// that collide.
    ///
    /// ```
    /// use sapwood::qp::QpMap;
    /// let mut map = QpMap::with_index();
    /// map.insert("rowan", 1)?;
    /// assert_eq!(map.get("rowan"), Some(&1));
    /// assert!(map.has_index());
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    pub fn with_index() -> Self {
        let mut map = QpMap::new();
        map.add_index();
        map
    }

    /// Adds a point index, unless the map has one: see [`with_index`](Self::with_index).
    /// O(entries).
    ///
    /// An index names leaves, so a map that holds entries is first laid out anew, with a leaf for
    /// each of them. If there is no memory for that, the map stays as it is, without an index
    /// ([`has_index`](Self::has_index)). While the index itself lacks memory, lookups use the trie;
    /// the index grows later.
    pub fn add_index(&mut self) {
        let tree = self.tree_mut();
        if tree.points.is_none() && tree.make_leaves().is_ok() {
            tree.index_all();
        }
    }

    /// Removes the point index and frees its memory. The entries stay in leaves until
    /// [`compact`](Self::compact).
    ///
    /// O(bytes of the index).
    pub fn remove_index(&mut self) {
        if let Some(tree) = &mut self.tree {
            tree.drop_index();
        }
    }

    /// Whether the map has a point index.
    ///
    /// O(1).
    pub fn has_index(&self) -> bool {
        self.tree.as_ref().is_some_and(|tree| tree.points.is_some())
    }

    #[inline(always)]
    fn find(&self, key: &[u8]) -> Option<(View<'_, V>, EntryRef)> {
        let tree = self.tree.as_deref()?;
        Some((tree.view(), tree.find(key)?))
    }

    /// The value of a key. O(key length); touches one leaf. With a point index, it touches two
    /// cache lines.
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<&V> {
        let tree = self.tree.as_deref()?;
        match tree.points {
            None => tree.view().get(key.as_ref()),
            Some(_) => tree.get_by_index(key.as_ref()),
        }
    }

    /// The stored key and its value.
    ///
    /// As [`get`](Self::get).
    pub fn get_key_value(&self, key: impl AsRef<[u8]>) -> Option<ReadEntry<'_, V>> {
        let (view, entry) = self.find(key.as_ref())?;
        view.entry(entry)
    }

    /// Whether the key is stored.
    ///
    /// As [`get`](Self::get).
    #[inline]
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> bool {
        self.find(key.as_ref()).is_some()
    }

    /// Looks up many keys at once: `out[i]` becomes the value of `keys[i]`.
    ///
    /// O(sum of the key lengths).
    ///
    /// In maps larger than the cache, 16 lookups run interleaved. Without an index, they take a
    /// half to three quarters of the time of single lookups.
    ///
    /// # Panics
    /// When `keys` and `out` differ in length.
    pub fn get_many<'s, K: AsRef<[u8]>>(&'s self, keys: &[K], out: &mut [Option<&'s V>]) {
        assert_eq!(keys.len(), out.len(), "`keys` and `out` differ in length");
        let Some(tree) = self.tree.as_deref() else {
            return out.fill(None);
        };
        let view = tree.view();
        tree.find_many(keys, self.is_large(), |i, entry| {
            out[i] = entry.some().and_then(|entry| view.value(entry));
        });
    }
}
