//! Where everything is in the window of a route cache; and what the program `xdp-route` says.
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
//! a set: a line that says what is where, then its slots, a line each
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
    /// Where the number of sets is.
    SETS: usize = EXTRA_AT;
    /// Where the bytes of a set are.
    STRIDE: usize = EXTRA_AT + 8;
    /// Where it is said where the first set is, in bytes from the window's beginning.
    SETS_AT: usize = EXTRA_AT + 16;
    /// Where the nanoseconds are for which an answer is given again.
    FRESH: usize = EXTRA_AT + 24;
    /// Where the generation of entries is: one more with each invalidation of all.
    GENERATION: usize = EXTRA_AT + 32;
    /// Where the three secrets of the hash are.
    SECRETS: usize = EXTRA_AT + 40;
    /// Where the slots of each set are said.
    WAYS: usize = EXTRA_AT + 64;
    /// Where it is said how many sets have one slot more.
    WIDER: usize = EXTRA_AT + 72;
    /// Where the nanoseconds are for which an entry keeps its slot.
    KEEP: usize = EXTRA_AT + 80;
    /// Where the nanoseconds are for which a failure is given again; [`NEVER`]: failures are not
    /// kept.
    NEGATIVE as "NEGATIVE_TTL": usize = EXTRA_AT + 88;
    /// Where the longer one of both is for which something is given again.
    LIFE: usize = EXTRA_AT + 96;
    /// Where the number of counters' places is, less one; they are a power of two.
    CPU_MASK: usize = EXTRA_AT + 104;
    /// Where the number of all slots is.
    CAPACITY: usize = EXTRA_AT + 112;
    /// Where the next sweep's set is; a line of its own.
    CURSOR: usize = EXTRA_AT + 128;
    /// Where the counters begin.
    COUNTERS: usize = 4096;
    /// Bytes of the counters of a processor.
    COUNTERS_BYTES: usize = 128;
    /// The most slots of a set.
    SLOTS: usize = 16;
    /// Bytes of a set's head, and of a slot.
    LINE: usize = 64;
    /// In a head: odd while a writer is inside.
    SEQUENCE as "SET_SEQUENCE": usize = 0;
    /// In a head: a byte for each slot; 0 for an empty one.
    TAGS as "SET_TAGS": usize = 8;
    /// In a head: which slots were hit, and from bit 16 on where the search for a victim goes on.
    MARKS as "SET_MARKS": usize = 24;
    /// In a head: the generation of all its entries.
    SET_GENERATION: usize = 32;
    /// In a head: how many invalidations of keys the set saw.
    DISTURBANCES as "SET_DISTURBANCES": usize = 40;
    /// In a slot: the time, shifted left by one, and whether it is a failure.
    STAMP as "SLOT_STAMP": usize = 0;
    /// In a slot: the key.
    KEY as "SLOT_KEY": usize = 8;
    /// In a slot: the value.
    VALUE as "SLOT_VALUE": usize = 32;
    /// Bytes of a key.
    KEY_BYTES: usize = 24;
    /// Bytes of a value.
    VALUE_BYTES: usize = 32;
    /// How often a set is looked at that another one is writing.
    PATIENCE: usize = 128;
}

/// A time that is none.
pub const NEVER: u64 = u64::MAX;

/// What is counted, in the order of the words behind the last time.
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
    /// What the program `xdp-route` does with a packet, and why: the number of its counter.
    pub enum RouteVerdict {
        /// Forwarded, as the cache knew. What is not forwarded passes to the kernel.
        Cached = 0: "cached",
        /// Forwarded, as the kernel's table said.
        Resolved = 1: "resolved",
        /// Forwarded, as the table in the arena said.
        Table = 2: "table",
        /// No way out: the packet is for this machine, or for nobody.
        NoRoute = 3: "no-route",
        /// No way out, as the cache knew.
        Negative = 4: "negative",
        /// The next hop's link address is not known; the kernel asks for it.
        NoNeighbour = 5: "no-neighbour",
        /// More bytes than go out there at once.
        TooLong = 6: "too-long",
        /// A packet that has made its last hop.
        Expired = 7: "expired",
        /// Options that routers look at.
        Options = 8: "options",
        /// To a group, or to or from addresses that are not forwarded.
        NotUnicast = 9: "not-unicast",
        /// A packet that ends early, or whose lengths cannot be.
        Malformed = 10: "malformed",
        /// Not IP.
        Other = 11: "other",
    }
}

impl RouteVerdict {
    /// Whether the program sent the packet on.
    pub fn is_forwarded(self) -> bool {
        matches!(
            self,
            RouteVerdict::Cached | RouteVerdict::Resolved | RouteVerdict::Table
        )
    }
}

/// The program `xdp-route` asks the kernel's table, for each packet.
pub const MODE_RESOLVER: u32 = 0;
/// It asks the cache, and the kernel's table for what the cache does not know.
pub const MODE_CACHE: u32 = 1;
/// It asks the tables that mirror the kernel's.
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
    all.push(("XDP_ROUTE_MODE_RESOLVER".into(), MODE_RESOLVER.into()));
    all.push(("XDP_ROUTE_MODE_CACHE".into(), MODE_CACHE.into()));
    all.push(("XDP_ROUTE_MODE_TABLE".into(), MODE_TABLE.into()));
    all
}
