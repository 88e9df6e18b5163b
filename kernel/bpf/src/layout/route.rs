//! The layout of a route cache's window, and the verdicts of the program `xdp-route`.
//!
//! ```text
//!    0 | header page of an arena
//! 1024 | sets | bytes of a set | where sets begin | fresh | generation | secret 0 | secret 1 | secret 2 |  one line: all that
//!      |                                                                                            |  a lookup needs
//! 1088 | slots of a set | sets with one more | keep | negative ttl | life | counters' mask | capacity |
//! 1152 | where the next sweep begins |
//! 4096 | counters: 128 bytes for each processor: the last time, then the events
//!      | sets, from the next page on
//!
//! a set: a head of one line, then one line for each slot
//!
//!    0          8          16         24         32           40             48 .. 64
//!  +----------+----------+----------+----------+------------+--------------+---------+
//!  | sequence | tags 0-7 |tags 8-15 | marks    | generation | disturbances |    -    |
//!  +----------+----------+----------+----------+------------+--------------+---------+
//!  | stamp    | key, 24 bytes                  | value, 32 bytes                     |
//!  +----------+--------------------------------+-------------------------------------+
//! ```

use sapwood_arena::EXTRA_AT;

numbers! { CONSTANTS:
    /// The place of the number of sets.
    SETS: usize = EXTRA_AT;
    /// The place of the bytes of a set.
    STRIDE: usize = EXTRA_AT + 8;
    /// The place of the first set's place, which counts bytes from the window's beginning.
    SETS_AT: usize = EXTRA_AT + 16;
    /// The place of the nanoseconds for which lookups return an answer.
    FRESH: usize = EXTRA_AT + 24;
    /// The place of the generation of entries, which each invalidation of all entries increments.
    GENERATION: usize = EXTRA_AT + 32;
    /// The place of the three secrets of the hash.
    SECRETS: usize = EXTRA_AT + 40;
    /// The place of the number of slots of each set.
    WAYS: usize = EXTRA_AT + 64;
    /// The place of the number of sets that have one slot more.
    WIDER: usize = EXTRA_AT + 72;
    /// The place of the nanoseconds for which an entry keeps its slot.
    KEEP: usize = EXTRA_AT + 80;
    /// The place of the nanoseconds for which lookups return a failure; [`NEVER`] when failures are
    /// not kept.
    NEGATIVE as "NEGATIVE_TTL": usize = EXTRA_AT + 88;
    /// The place of the longer one of both times for which lookups return an entry.
    LIFE: usize = EXTRA_AT + 96;
    /// The place of the number of places for counters, minus one. That number is a power of two.
    CPU_MASK: usize = EXTRA_AT + 104;
    /// The place of the number of all slots.
    CAPACITY: usize = EXTRA_AT + 112;
    /// The place of the set at which the next sweep begins. It has a cache line of its own.
    CURSOR: usize = EXTRA_AT + 128;
    /// The place of the counters.
    COUNTERS: usize = 4096;
    /// Bytes of the counters of a processor.
    COUNTERS_BYTES: usize = 128;
    /// The maximum number of slots of a set.
    SLOTS: usize = 16;
    /// Bytes of a set's head, and also of a slot.
    LINE: usize = 64;
    /// In a head: the sequence, which is odd while a writer holds the set.
    SEQUENCE as "SET_SEQUENCE": usize = 0;
    /// In a head: a tag of one byte for each slot; 0 for an empty slot.
    TAGS as "SET_TAGS": usize = 8;
    /// In a head: the slots that were hit, a bit each, and from bit 16 on the slot at which the
    /// next search for a victim begins.
    MARKS as "SET_MARKS": usize = 24;
    /// In a head: the generation of all entries of the set.
    SET_GENERATION: usize = 32;
    /// In a head: the number of invalidations of keys in the set.
    DISTURBANCES as "SET_DISTURBANCES": usize = 40;
    /// In a slot: the time, shifted left by one, and in bit 0 whether the entry is a failure.
    STAMP as "SLOT_STAMP": usize = 0;
    /// In a slot: the key.
    KEY as "SLOT_KEY": usize = 8;
    /// In a slot: the value.
    VALUE as "SLOT_VALUE": usize = 32;
    /// Bytes of a key.
    KEY_BYTES: usize = 24;
    /// Bytes of a value.
    VALUE_BYTES: usize = 32;
    /// The maximum number of attempts to read or lock a set.
    PATIENCE: usize = 128;
}

/// The most VLANs that the program `xdp-route` knows.
pub const VLANS: usize = 4096;

/// The most prefixes of routes with an MTU of their own that the program `xdp-route` tells apart.
pub const ROUTE_MTUS: usize = 4096;

/// A time that stands for "never".
pub const NEVER: u64 = u64::MAX;

/// The counted events, in the order of the words behind the last time.
pub const EVENTS: [&str; 14] = [
    "hit",
    "miss",
    "refresh",
    "insert",
    "evict",
    "full",
    "stale",
    "negative",
    "error",
    "swept",
    "invalidated",
    "overtaken",
    "busy",
    "clock_back",
];

const _: () = assert!(8 + 8 * EVENTS.len() <= COUNTERS_BYTES);

named! {
    /// What the program `xdp-route` did with a packet, and why. The value is the number of the
    /// verdict's counter.
    pub enum RouteVerdict {
        /// Forwarded by an answer of the cache. All packets that are not forwarded pass to the
        /// kernel.
        Cached = 0: "cached",
        /// Forwarded by an answer of the kernel's table.
        Resolved = 1: "resolved",
        /// Forwarded by the table in the arena.
        Table = 2: "table",
        /// Not forwarded: the packet is for this machine, or no route leads to its destination.
        NoRoute = 3: "no-route",
        /// Not forwarded, by a kept failure of the cache.
        Negative = 4: "negative",
        /// The next hop's link address is unknown. The kernel resolves it.
        NoNeighbour = 5: "no-neighbour",
        /// The packet has more bytes than the outgoing path allows.
        TooLong = 6: "too-long",
        /// The packet's hop limit is reached.
        Expired = 7: "expired",
        /// The packet has options that routers examine.
        Options = 8: "options",
        /// The destination is a group, or an address is one that routers do not forward.
        NotUnicast = 9: "not-unicast",
        /// The packet ends early, or its lengths contradict each other.
        Malformed = 10: "malformed",
        /// The packet is not IP.
        Other = 11: "other",
        /// The frame is for another link address.
        OtherHost = 12: "other-host",
        /// The kernel may drop the packet for its source: an address of this machine, one without a
        /// route, or one that `rp_filter` refuses.
        Source = 13: "source",
        /// The next hop is where the packet comes from, and the kernel tells the sender.
        SameInterface = 14: "same-interface",
        /// The packet is an ICMP message about an error. If there are several paths, it takes that
        /// of the packet that it quotes.
        IcmpError = 15: "icmp-error",
    }
}

impl RouteVerdict {
    /// Whether the program forwarded the packet.
    pub fn is_forwarded(self) -> bool {
        matches!(
            self,
            RouteVerdict::Cached | RouteVerdict::Resolved | RouteVerdict::Table
        )
    }
}

/// A mode of `xdp-route`: it asks the kernel's table for each packet.
pub const MODE_RESOLVER: u32 = 0;
/// A mode of `xdp-route`: it asks the cache, and the kernel's table for keys that the cache does
/// not have.
pub const MODE_CACHE: u32 = 1;
/// A mode of `xdp-route`: it asks the tables that mirror the kernel's.
pub const MODE_TABLE: u32 = 2;

/// The constants of the C header.
pub(super) fn constants() -> Vec<(String, u64)> {
    let words = CONSTANTS.iter();
    let mut all: Vec<_> = words
        .map(|(name, value)| (format!("ROUTE_{name}"), *value))
        .collect();
    all.push(("ROUTE_NEVER".into(), NEVER));
    for (i, event) in EVENTS.iter().enumerate() {
        all.push((
            format!("ROUTE_COUNT_{}", event.to_uppercase()),
            8 + 8 * i as u64,
        ));
    }
    all.extend(RouteVerdict::constants("XDP_ROUTE"));
    all.push(("XDP_ROUTE_COUNTS".into(), RouteVerdict::ALL.len() as u64));
    all.push(("XDP_ROUTE_VLANS".into(), VLANS as u64));
    all.push(("XDP_ROUTE_MTUS".into(), ROUTE_MTUS as u64));
    all.push(("XDP_ROUTE_MODE_RESOLVER".into(), MODE_RESOLVER.into()));
    all.push(("XDP_ROUTE_MODE_CACHE".into(), MODE_CACHE.into()));
    all.push(("XDP_ROUTE_MODE_TABLE".into(), MODE_TABLE.into()));
    all
}
