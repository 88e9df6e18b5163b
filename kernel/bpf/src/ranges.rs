//! Range maps: this process writes them, and programs read them.

use std::ops::RangeInclusive;

use sapwood::maple::{MapleMap, PlainValue, Split};

use crate::error::Error;
use crate::layout::Kind;
use crate::window_map::{MapInWindow, WindowMap, WindowMapBuilder};

/// A map from ranges of numbers in an arena: ports, addresses or identifiers with their policies.
/// This process writes it, with all methods of [`MapleMap`], and BPF programs look up the entry
/// that holds an index, and the lowest gap of a size (`sapwood/maple.bpf.h`).
///
/// Values are plain bytes. Programs get those of 1, 2, 4 and 8 bytes as numbers, and the place of
/// any other. Integers lie beside their ranges; other `Copy` types of up to 8 bytes do so with
/// [`values_in_slots`](UserRangesBuilder::values_in_slots).
///
/// A change is one store, so a lookup by a program answers as the map was before the change or as
/// it is after it. So is a transaction of many changes (`MapleMap::begin`).
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, UserRanges};
/// let arena = BpfArena::create(64 << 20)?;
/// let ports = UserRanges::<u32>::builder(&arena, "ports").build()?;
/// ports.store(0..=1023, 1)?;
/// ports.store(8000..9000, 2)?;
/// assert_eq!(ports.get(8080), Some(2));
/// println!("programs name it {}", ports.window().number);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Such a map belongs to the process that made it. When that process dies, programs go on reading
/// what it left.
pub type UserRanges<V> = WindowMap<MapleMap<V>>;

/// Builds a [`UserRanges`].
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, UserRanges};
/// let arena = BpfArena::create(64 << 20)?;
/// let tenants = UserRanges::<u64>::builder(&arena, "tenants").bytes(16 << 20);
/// let tenants = tenants.build_sorted([(0..=9, 7), (20..=29, 8)])?;
/// assert_eq!(tenants.find_gap(5, 0..=99), Some(10..=14));
/// # Ok::<(), sapwood_bpf::Error>(())
/// ```
pub type UserRangesBuilder<V> = WindowMapBuilder<MapleMap<V>>;

impl<V: PlainValue> UserRangesBuilder<V> {
    /// Puts values of any `Copy` type of up to eight bytes into the leaves, where a program finds
    /// them without another load. Integers are there without this call.
    ///
    /// O(1).
    ///
    /// # Panics
    /// When values have more than eight bytes.
    pub fn values_in_slots(mut self) -> Self {
        self.map = self.map.values_in_slots();
        self
    }

    /// How the value of an entry is split when a change cuts the entry. Without this call, each
    /// part has the value.
    ///
    /// O(1).
    ///
    /// # Panics
    /// With [`Split::never`].
    pub fn split(mut self, split: Split<V>) -> Self {
        self.map = self.map.split(split);
        self
    }

    /// The most bytes of a leaf, and the most children of an inner node. Tests choose some.
    ///
    /// # Panics
    /// As that of `Builder<MapleMap>`.
    #[doc(hidden)]
    pub fn nodes(mut self, leaf: usize, fanout: usize) -> Self {
        self.map = self.map.nodes(leaf, fanout);
        self
    }

    /// Builds a map of these entries, which come in order and do not overlap. It makes each node
    /// once. O(n).
    ///
    /// # Errors
    /// As [`build`](Self::build), and those of `Builder::build_sorted_in`: an entry that is empty,
    /// or does not lie behind the one before it.
    pub fn build_sorted(
        self,
        entries: impl IntoIterator<Item = (RangeInclusive<u64>, V)>,
    ) -> Result<UserRanges<V>, Error> {
        self.build_by(|map, memory| Ok(map.build_sorted_in(memory, entries)?))
    }
}

impl<V: PlainValue> MapInWindow for MapleMap<V> {
    const KIND: Kind = Kind::Ranges;
}
