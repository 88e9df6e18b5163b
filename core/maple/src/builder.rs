//! The builder's methods for range maps.

use super::map::MapleMap;
use super::raw::owned::FANOUT;
use super::raw::table::Config;
use super::raw::values::{Values, is_plain};
use crate::{Buildable, Builder, Index, Split};
use sapwood_common::raw::memory::MemoryOptions;

/// Bytes of a leaf, at most. Measured: see `docs/maple.md`.
const LEAF: usize = 512;

/// The choices that only range maps have.
#[doc(hidden)]
pub struct MapleChoices<V, W = u64> {
    pub(super) values: Values,
    pub(super) split: Split<V, W>,
    pub(super) leaf: usize,
    pub(super) fanout: usize,
}

impl<V, W: Copy> Clone for MapleChoices<V, W> {
    fn clone(&self) -> Self {
        MapleChoices { ..*self }
    }
}

impl<V, W> core::fmt::Debug for MapleChoices<V, W> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("MapleChoices")
            .field("values", &self.values)
            .field("split", &self.split)
            .finish_non_exhaustive()
    }
}

impl<V: Clone + Send + Sync + 'static, K: Index> Buildable for MapleMap<V, K> {
    type Choices = MapleChoices<V, K::Word>;
    type Builder = Builder<Self>;
}

pub(super) fn begin<V: Clone + Send + Sync + 'static, K: Index>() -> Builder<MapleMap<V, K>> {
    let values = if is_plain::<V>() {
        Values::InSlots
    } else {
        Values::Apart
    };
    let choices = MapleChoices {
        values,
        split: Split::by_clone(),
        leaf: LEAF,
        fanout: FANOUT,
    };
    Builder::begin(memory(), choices)
}

/// The memory of a map whose builder was told nothing about it.
pub(super) fn memory() -> MemoryOptions {
    MemoryOptions::default()
}

impl<V: Clone + Send + Sync + 'static, K: Index> Builder<MapleMap<V, K>> {
    /// Puts values of `Copy` types of up to eight bytes into the leaves. Integers are there without
    /// this call.
    ///
    /// A change copies a leaf with its values while readers may look at the old leaf. For types
    /// that are not `Copy` that would be wrong (two copies of one counter), so their values have
    /// blocks of their own.
    ///
    /// O(1).
    ///
    /// ```
    /// use sapwood::maple::MapleMap;
    /// #[derive(Clone, Copy, Debug, PartialEq)]
    /// struct Owner(u32);
    /// let map = MapleMap::builder().values_in_slots().build();
    /// map.store(0..=9, Owner(1))?;
    /// assert_eq!(map.get(3), Some(Owner(1)));
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    ///
    /// # Panics
    /// When values have more than eight bytes, or an alignment of more.
    pub fn values_in_slots(mut self) -> Self
    where
        V: Copy,
    {
        assert!(
            size_of::<V>() <= 8 && align_of::<V>() <= 8,
            "values of {} bytes do not fit into slots",
            size_of::<V>()
        );
        self.choices.values = Values::InSlots;
        self
    }

    /// How the value of an entry is split when a change cuts the entry. Without this call, each
    /// part has the value, or a clone of it.
    ///
    /// O(1).
    ///
    /// ```
    /// use sapwood::maple::{MapleMap, Split};
    /// // Values are offsets in a file, which go on where an entry is cut.
    /// let map = MapleMap::builder().split(Split::at(|offset: &u64, by| offset + by)).build();
    /// map.store(0x1000..=0x4FFF, 0)?;
    /// map.clear_range(0x2000..=0x2FFF)?;
    /// assert_eq!((map.get(0x1000), map.get(0x3000)), (Some(0), Some(0x2000)));
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    ///
    /// # Panics
    /// With [`Split::never`]: a map whose readers may hold a value clones it where it is needed.
    pub fn split(mut self, split: Split<V, K::Word>) -> Self {
        assert!(!split.refuses(), "the values of a `MapleMap` are cloned");
        self.choices.split = split;
        self
    }

    /// The most bytes of a leaf, and the most children of an inner node. Tests choose small ones.
    ///
    /// # Panics
    /// When a leaf is too small for a few entries, or there are fewer than 4 children.
    #[doc(hidden)]
    pub fn nodes(mut self, leaf: usize, fanout: usize) -> Self {
        self.choices.leaf = leaf;
        self.choices.fanout = fanout;
        self
    }

    /// An empty map.
    ///
    /// O(1): address space is reserved with the first entry.
    ///
    /// # Panics
    /// When the backing moves as it grows: [`Backing::Auto`](sapwood_arena::Backing), the default
    /// of [`ArenaOptions`](sapwood_arena::ArenaOptions), and `Backing::Heap` do.
    pub fn build(self) -> MapleMap<V, K> {
        let domain = self.domain_or_new();
        let config = Config {
            options: self.memory.stable(),
            values: self.choices.values,
            split: self.choices.split,
            leaf: self.choices.leaf,
            fanout: self.choices.fanout,
        };
        MapleMap::with(config, domain)
    }
}
