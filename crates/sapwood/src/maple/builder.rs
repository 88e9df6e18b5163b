//! How a map is made.

use core::marker::PhantomData;

use sapwood_arena::ArenaOptions;
use sapwood_qsbr::Domain;

use super::map::MapleMap;
use super::raw::table::{Config, Values, is_plain};
use crate::memory::MemoryOptions;

/// Address space that a map reserves unless it is told otherwise; also the most that one can take.
const RESERVE: usize = 8 << 30;
/// Bytes of a leaf, and children of an inner node, at most. Measured: see `docs/maple.md`.
const LEAF: usize = 512;
const FANOUT: usize = 36;

/// How a map is made.
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
#[derive(Clone, Debug)]
pub struct MapleBuilder<V> {
    memory: MemoryOptions,
    values: Values,
    leaf: usize,
    fanout: usize,
    domain: Option<Domain>,
    types: PhantomData<fn() -> V>,
}

impl<V: Clone + Send + Sync + 'static> MapleBuilder<V> {
    pub(super) fn new() -> Self {
        let values = if is_plain::<V>() {
            Values::InSlots
        } else {
            Values::Apart
        };
        MapleBuilder {
            memory: MemoryOptions::reserve(RESERVE),
            values,
            leaf: LEAF,
            fanout: FANOUT,
            domain: None,
            types: PhantomData,
        }
    }

    /// The most bytes of memory: nodes, values, reservations, garbage, free blocks and the header.
    /// A change that needs more is [`ArenaFull`](crate::Error::ArenaFull). Holds whatever
    /// [`options`](Self::options) say. Default: as much as the backing has room for.
    pub fn memory_limit(mut self, bytes: usize) -> Self {
        self.memory.limit = Some(bytes);
        self
    }

    /// The arena's options. The backing must be one that does not move; the default reserves 8 GiB
    /// of address space, which is also the most that a map can take, and commits memory as it is
    /// used.
    pub fn options(mut self, options: ArenaOptions) -> Self {
        self.memory.options = options;
        self
    }

    /// The domain whose grace periods the map waits for; several maps may share one. Default: its
    /// own. A hard limit of garbage is not asked for by a change with reserved blocks, which cannot
    /// fail: only when the blocks are reserved.
    pub fn domain(mut self, domain: &Domain) -> Self {
        self.domain = Some(domain.clone());
        self
    }

    /// Puts values into the leaves, as integers are by themselves: for `Copy` types of up to eight
    /// bytes.
    ///
    /// A value in a leaf is copied with it while readers may look at the old one. For types that
    /// are not `Copy` that could be wrong (two copies of one counter), so their values have blocks
    /// of their own.
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
        self.values = Values::InSlots;
        self
    }

    /// The most bytes of a leaf and children of an inner node: small ones, for tests.
    ///
    /// # Panics
    /// When a leaf is too small for a few entries, or there are fewer than 4 children.
    #[doc(hidden)]
    pub fn nodes(mut self, leaf: usize, fanout: usize) -> Self {
        self.leaf = leaf;
        self.fanout = fanout;
        self
    }

    /// An empty map.
    ///
    /// # Panics
    /// When the backing is one that moves as it grows ([`Backing::Auto`](sapwood_arena::Backing),
    /// which [`ArenaOptions`] have unless they are told otherwise, and `Backing::Heap`).
    pub fn build(self) -> MapleMap<V> {
        let config = Config {
            options: self.memory.stable(),
            values: self.values,
            leaf: self.leaf,
            fanout: self.fanout,
        };
        let domain = self.domain.unwrap_or_default();
        MapleMap::with(config, domain)
    }
}
