//! The constants that C programs and the reader in Go share. `layout.h` and `doors/go/layout.go`
//! are generated from this file.

/// Declares an enumeration of numbers with names. The C constants have the same names in capitals.
macro_rules! named {
    ($(#[$of:meta])* pub enum $Name:ident { $($(#[$doc:meta])* $Case:ident = $number:literal: $name:literal,)* }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        #[non_exhaustive]
        pub enum $Name {
            $($(#[$doc])* $Case = $number,)*
        }

        impl $Name {
            /// All cases, by number.
            pub const ALL: [$Name; [$($number),*].len()] = [$($Name::$Case),*];

            /// The name.
            pub fn name(self) -> &'static str {
                match self {
                    $($Name::$Case => $name,)*
                }
            }

            /// The C constants of all cases: names with a prefix, and values.
            pub(super) fn constants(prefix: &str) -> impl Iterator<Item = (String, u64)> + '_ {
                $Name::ALL.into_iter().map(move |one| {
                    let name = one.name().to_uppercase().replace('-', "_");
                    (format!("{prefix}_{name}"), one as u64)
                })
            }
        }
    };
}

/// Declares constants, and a list of them for C. The C names are the same if no others are given.
macro_rules! numbers {
    ($list:ident: $($(#[$doc:meta])* $name:ident $(as $c:literal)?: $Type:ty = $value:expr;)*) => {
        $($(#[$doc])* pub const $name: $Type = $value;)*

        pub(super) const $list: &[(&str, u64)] = &[$((numbers!(@ $name $($c)?), $name as u64)),*];
    };
    (@ $name:ident) => { stringify!($name) };
    (@ $name:ident $c:literal) => { $c };
}

pub mod xdp_names;

use sapwood_arena::EXTRA_AT;

use sapwood::route::MirrorHop;
use sapwood_format as format;
use sapwood_format::header;

mod go;
pub mod ranges;
pub mod route;

/// The header page of the arena: the arena's identity and the entries of its windows.
///
/// ```text
///    0 | magic "SAPWBPF\0"               |
///    8 | version: u32  | zero: u32       |   a zero that the verifier does not know
///   16 | bytes of the arena              |
///   24 | bytes given to windows           |
///   32 | generation                      |   one more with each owner
///   40 | spare                           |   for barriers
///   48 | owner                           |   0: none; else process and start, `pid | start << 22`
///   56 | owner's namespace of processes  |   its inode
///   64 | windows, 32 times 64 bytes      |
/// 2112 | sleepable programs              |   0: none; else they may use the arena
/// ```
pub mod page {
    /// The first eight bytes.
    pub const MAGIC: u64 = u64::from_le_bytes(*b"SAPWBPF\0");
    /// The version of the arena's layout, which each change of the layout raises by one.
    pub const VERSION: u32 = 8;
    /// Where the version is.
    pub const VERSION_AT: usize = 8;
    /// Where the zero is that the verifier does not know.
    pub const ZERO_AT: usize = 12;
    /// Where the number of bytes of the arena is.
    pub const BYTES_AT: usize = 16;
    /// Where the number of bytes given to windows is, header page included.
    pub const USED_AT: usize = 24;
    /// Where the number of owners so far is.
    pub const GENERATION_AT: usize = 32;
    /// A word for barriers.
    pub const SPARE_AT: usize = 40;
    /// Where the owner is: the number of its process, and when the process started.
    pub const OWNER_AT: usize = 48;
    /// Where the namespace is in which the owner has its number.
    pub const OWNER_SPACE_AT: usize = 56;
    /// Where the windows' entries begin.
    pub const WINDOWS_AT: usize = 64;
    /// The most windows.
    pub const WINDOWS_MAX: usize = 32;
    /// Bytes of an entry.
    pub const WINDOW_BYTES: usize = 64;
    /// In an entry: the window's kind.
    pub const WINDOW_KIND: usize = 0;
    /// In an entry: where the window begins.
    pub const WINDOW_AT: usize = 8;
    /// In an entry: the window's bytes.
    pub const WINDOW_LEN: usize = 16;
    /// In an entry: the window's name, up to 24 bytes.
    pub const WINDOW_NAME: usize = 24;
    /// In an entry of a map that user space writes: the bytes from the window's beginning that have
    /// memory.
    pub const WINDOW_USED: usize = 48;
    /// In such an entry: where the window with this memory begins. It is another window while its
    /// successor is made.
    pub const WINDOW_USED_OF: usize = 56;
    /// The bytes of the longest name.
    pub const NAME_MAX: usize = 24;
    /// Where the word is that is not 0 when sleepable programs may use the arena. It never becomes
    /// 0 again.
    pub const SLEEPABLE_AT: usize = WINDOWS_AT + WINDOWS_MAX * WINDOW_BYTES;
}

/// The window of a map over byte strings that programs write: the words that other maps over byte
/// strings do not have.
///
/// ```text
/// header page    0 | as every window; roots at 48                                     |
///             1024 | 32 secrets of the index's hash                                   |
///             1280 | lock of the root's cell: u32                                     |   programs
///             1344 | granted entries: u32                                             |   programs
///             1408 | most entries, parts: u32 each; frontier, first block: u64 each;  |
///                  | longest key, number of lanes: u32 each                           |
///             1440 | uses of the slots, most ticks without use: u32 each              |
/// next pages  4096 | heads of the rings, 128 bytes each: one a class of blocks,   |
///                  | slabs, chunks                                                |
///            20480 | lanes, 8 KiB each                                                |   programs
///                  | slots of the rings | table | buckets | blocks                    |
///
/// lane           0 | writer: u32 | entries that it may add: u32 | sequence: u64       |
///               16 | places of four locks: u64 each                                   |
///               48 | slab, units left in it: u32 each | 64 | counts: u32 each         |
///               96 | drops by reason                                                  |
///              128 | tail of its retired blocks: u64 | 192 | their head: u64          |
///              256 | scratch                                                      |
///             4096 | stock, 32 bytes a class: number of blocks, seven references      |
///
/// head of a ring  0 | mask: u32 | slots: u32 | kept: u32 | user's count: u32 | ... | 64 | programs' count: u32 |
/// ```
pub mod program_map {
    numbers! { CONSTANTS:
        /// Where the lock of the root's cell is.
        ROOT_LOCK: usize = 1280;
        /// Where the number of entries is that lanes have been granted: those of the map, and those
        /// that lanes may still add.
        GRANTED: usize = 1344;
        /// Where the limit of entries is.
        MAX: usize = 1408;
        /// Where the parts are.
        PARTS: usize = 1412;
        /// Where the frontier is: the bytes from the window's beginning that are in use.
        FRONTIER: usize = 1416;
        /// Where the length of the longest key is.
        LONGEST: usize = 1432;
        /// Where the number of lanes is, a power of two.
        LANES: usize = 1436;
        /// Where the reference is of the uses of the index's slots, in a map whose entries leave by
        /// themselves; else 0. They have `USES_BYTES` for each bucket: a u32 for each
        /// slot, the tick of the last use.
        USES: usize = 1440;
        /// Where the number of ticks is after which an unused entry is gone; 0: never.
        IDLE: usize = 1444;
        /// Where the reference is of the rooms in which new long values wait, one for each lane; 0
        /// in a map of short values.
        ROOMS: usize = 1448;
        /// Where the bytes are from the count of one processor to that of the next, in a map that
        /// counts for each processor; else 0.
        EACH: usize = 1452;
        /// Bytes of the uses of a bucket.
        USES_BYTES: usize = 64;
        /// The base-2 logarithm of the nanoseconds of a tick.
        TICK: usize = 20;
        /// Where the heads of the rings begin.
        RINGS: usize = 4096;
        /// Bytes of a head.
        RING_BYTES: usize = 128;
        /// In a head: the number of slots less one.
        RING_MASK: usize = 0;
        /// In a head: the reference of the slots.
        RING_SLOTS: usize = 4;
        /// In a head: blocks that insertions leave to removals.
        RING_KEPT: usize = 8;
        /// In a head: the number of references that user space has put in or taken out.
        RING_USER: usize = 12;
        /// In a head: the number of references that programs have taken out or put in.
        RING_PROGRAMS: usize = 64;
        /// The number of classes of blocks. Each class has a ring. The next one has slabs, and the
        /// last one chunks.
        CLASSES: usize = 102;
        /// The number of the ring of slabs. A slab takes two slots: its reference, its units.
        SLABS: usize = CLASSES;
        /// The number of the ring of chunks for retired blocks.
        CHUNKS: usize = SLABS + 1;
        /// Units of a chunk. Each has a cell of a retired block: its reference in the lower half,
        /// its units in the upper one; 0 units: the reference is that of the next chunk.
        CHUNK_UNITS: usize = 128;
        /// Where the lanes begin.
        LANES_AT: usize = 20480;
        /// Bytes of a lane. Its first word has the processor of the writer that uses it plus one,
        /// in the lower half, and the entries that it may still add.
        LANE_BYTES: usize = 8192;
        /// The most lanes.
        LANES_MAX: usize = 64;
        /// In a lane: the sequence number.
        LANE_SEQUENCE: usize = 8;
        /// In a lane: the places of the four locks that its writer holds.
        LANE_HELD: usize = 16;
        /// In a lane: the reference of the rest of its slab.
        LANE_SLAB: usize = 48;
        /// In a lane: the units of that rest.
        LANE_SLAB_LEFT: usize = 52;
        /// In a lane: branches that it has added, modulo 2^32. The next counts are like this one.
        LANE_BRANCHES: usize = 64;
        /// In a lane: units of branches.
        LANE_BRANCH_UNITS: usize = 68;
        /// In a lane: units of leaves.
        LANE_LEAF_UNITS: usize = 72;
        /// In a lane: clusters.
        LANE_CLUSTERS: usize = 76;
        /// In a lane: units of clusters.
        LANE_CLUSTER_UNITS: usize = 80;
        /// In a lane: operations of its processor that failed: the number for each reason.
        LANE_DROPS: usize = 96;
        /// In a lane: where its next retired block is noted: the reference of the chunk in the
        /// upper half, the number of the cell in the lower one. Programs write it.
        LANE_TAIL: usize = 128;
        /// In a lane: where the retired blocks begin that user space has not fetched yet, in the
        /// same form. User space writes it.
        LANE_HEAD: usize = 192;
        /// In a lane: the scratch of the writer that uses it.
        LANE_SCRATCH: usize = 256;
        /// In a lane: the stock of blocks of each class: their number, and their references.
        LANE_STOCK: usize = 4096;
        /// Bytes of the stock of a class.
        STOCK_BYTES: usize = 32;
        /// The most blocks in a stock.
        STOCK_MAX: usize = 7;
        /// The most units of a slab, unless leaves are large.
        SLAB_UNITS: usize = 4096;
        /// The largest block whose class has blocks of no other size, in units. Blocks of each
        /// class above it have 8 units more.
        EXACT: usize = 40;
        /// The smallest block, in units.
        LEAST: usize = 2;
        /// The units at the window's end that no block has. No place that programs compute from a
        /// node lies further from the node.
        MARGIN: usize = 576;
        /// A part of the map: the index.
        INDEX: u32 = 1;
        /// A part of the map: the trie.
        TRIE: u32 = 2;
        /// The longest value.
        VALUE_MAX: usize = 4096;
        /// The units of the largest leaf.
        LEAF_UNITS: usize = EXACT + (CLASSES - 1 - (EXACT - LEAST)) * 8;
        /// The longest value that passes through the scratch of a lane: that of a program's
        /// `struct sw_qp_value`.
        VALUE_SHORT: usize = 64;
    }

    /// Where the word is that has the place of the first block, in bytes from the window's
    /// beginning.
    pub const NODES: usize = 1424;
    const _: () = assert!(RINGS + (CHUNKS + 1) * RING_BYTES <= LANES_AT);
    const _: () = assert!(LEAF_MAX >= VALUE_MAX + 1 + SHORT_KEY_MAX && LEAF_UNITS + 8 <= MARGIN);

    /// The bytes of the largest leaf: a value, and a key with its length.
    pub const LEAF_MAX: usize = LEAF_UNITS * 8;
    /// The most processors that a map counts for: a word for each is a value.
    pub const PROCESSORS_MAX: usize = VALUE_MAX / 8;

    /// Where the lanes end.
    pub const fn lanes_end(lanes: usize) -> usize {
        LANES_AT + lanes * LANE_BYTES
    }
    /// The bytes of the longest key that a map can be made for.
    pub const KEY_MAX: usize = 4096;
    /// The bytes of the longest key that lies in a `struct sw_key`; the default of the builder.
    pub const SHORT_KEY_MAX: usize = 254;

    /// The class of blocks for this many units.
    pub fn class(units: usize) -> usize {
        match units {
            0..=LEAST => 0,
            _ if units <= EXACT => units - LEAST,
            _ => EXACT - LEAST + 1 + (units - EXACT - 1) / 8,
        }
    }

    /// The units of a class's blocks.
    pub fn units(class: usize) -> usize {
        match class {
            _ if class <= EXACT - LEAST => class + LEAST,
            _ => EXACT + (class - (EXACT - LEAST)) * 8,
        }
    }
}

/// The lowest address of an owner's mapping. The lowest 32 bits of all of them are 0, so programs
/// use a place in the arena as a pointer.
pub const MAP_EXTRA: u64 = 1 << 44;

/// The most bytes of an arena.
pub const BYTES_MAX: usize = 1 << 32;

/// Bytes of scratch memory that an ordered walk takes (`qp_walk.bpf.h`): one page. No two walks may
/// share it.
pub const CURSOR_BYTES: usize = 4096;

/// Bytes of the arena that programs copy a long key to (`key.bpf.h`).
pub const KEY_ROOM_BYTES: usize = 4352;

/// A `struct sw_key`, the key of a program's question. It has all bytes of a key of up to
/// [`SHORT_KEY_MAX`](program_map::SHORT_KEY_MAX) bytes. For a longer key, it has the place `at` of
/// the bytes in the arena.
///
/// ```
/// let image = sapwood_bpf::layout::key_image(b"who", 0);
/// assert_eq!(image[..5], [3, b'w', b'h', b'o', 0]);
/// ```
pub fn key_image(key: &[u8], at: u64) -> [u8; 256] {
    let mut image = [0; 256];
    if key.len() <= program_map::SHORT_KEY_MAX {
        image[0] = key.len() as u8;
        image[1..=key.len()].copy_from_slice(key);
        return image;
    }
    image[0] = 255;
    image[8..16].copy_from_slice(&at.to_ne_bytes());
    image[16..24].copy_from_slice(&(key.len() as u64).to_ne_bytes());
    image
}

/// The most branches above a leaf that a walk can keep. A key of 254 bytes has 255 at most.
const CURSOR_DEPTH_MAX: u64 = 320;

named! {
    /// The kind of a window.
    pub enum Kind {
        /// Nothing.
        None = 0: "none",
        /// A map over byte strings that user space writes.
        Qp = 1: "qp",
        /// A table of IPv4 prefixes.
        Lpm4 = 2: "lpm4",
        /// A table of IPv6 prefixes.
        Lpm6 = 3: "lpm6",
        /// A map over byte strings that programs write.
        KernelQp = 4: "kernel-qp",
        /// A route cache.
        Route = 5: "route",
        /// Words that programs and this process use as they like.
        Words = 6: "words",
        /// Groups of next hops.
        Groups = 7: "groups",
        /// A range map that user space writes.
        Ranges = 8: "ranges",
    }
}

impl Kind {
    /// The kind of this number.
    pub fn from_number(number: u32) -> Option<Kind> {
        Kind::ALL.into_iter().find(|&kind| kind as u32 == number)
    }
}

/// Groups of next hops: a word for each group with the place of its version in use, a bit for each
/// link (1: down), and two versions of each group. Places are bytes from the window's beginning, or
/// from that of the version or the member.
pub mod groups {
    numbers! { CONSTANTS:
        /// Where the number of groups is.
        GROUPS: usize = 0;
        /// Where the number of links is.
        LINKS: usize = 4;
        /// Where the place of the links' words is.
        LINKS_AT: usize = 8;
        /// Where the groups' words are.
        SLOTS: usize = 64;
        /// In a version: the number of members that are no backups.
        PRIMARIES: usize = 0;
        /// In a version: the number of backups.
        BACKUPS: usize = 4;
        /// In a version: the members, first those that are no backups.
        MEMBERS: usize = 8;
        /// Bytes of a member.
        MEMBER_BYTES: usize = 64;
        /// In a member: the hash.
        MEMBER_HASH: usize = 0;
        /// In a member: the identity.
        MEMBER_ID: usize = 8;
        /// In a member: the weight.
        MEMBER_WEIGHT: usize = 16;
        /// In a member: the number of the link.
        MEMBER_LINK: usize = 20;
        /// In a member: the next hop.
        MEMBER_HOP: usize = 24;
        /// The most members.
        MEMBERS_MAX: usize = 64;
    }
}

/// Where a root of a window is, in bytes from its beginning.
pub(crate) const fn root(index: usize) -> u64 {
    header::root_at(index) as u64
}

/// All constants of `layout.h`: names and values.
pub fn constants() -> Vec<(String, u64)> {
    let mut all: Vec<(String, u64)> = Vec::new();
    let mut add = |name: &str, value: u64| all.push((format!("SW_{name}"), value));
    add("MAP_EXTRA", MAP_EXTRA);
    add("MAGIC", page::MAGIC);
    add("VERSION", page::VERSION.into());
    for (name, value) in [
        ("VERSION_AT", page::VERSION_AT),
        ("ZERO_AT", page::ZERO_AT),
        ("SPARE_AT", page::SPARE_AT),
        ("WINDOWS_AT", page::WINDOWS_AT),
        ("WINDOWS_MAX", page::WINDOWS_MAX),
        ("WINDOW_BYTES", page::WINDOW_BYTES),
        ("WINDOW_KIND", page::WINDOW_KIND),
        ("WINDOW_AT", page::WINDOW_AT),
        ("WINDOW_LEN", page::WINDOW_LEN),
        ("EXTRA_AT", EXTRA_AT),
    ] {
        add(name, value as u64);
    }
    for (name, value) in Kind::constants("KIND") {
        add(&name, value);
    }
    add("QP_VALUE_BYTES", root(header::VALUE_BYTES));
    add("QP_BYTE_STRINGS", header::BYTE_STRINGS);
    add("QP_VALUE_U16", format::leaf::VALUE_U16.into());
    add("QP_VALUE_U32", format::leaf::VALUE_U32.into());
    add("QP_HAS_INDEX", root(header::HAS_INDEX));
    add("QP_ONLY_INDEX", header::ONLY_INDEX);
    add("QP_ROOT", root(header::ROOT));
    add("QP_TABLE", root(header::TABLE));
    add("QP_STEP", root(header::STEP));
    add("QP_SECRETS", EXTRA_AT as u64);
    for (name, value) in format::LAYOUT {
        add(&format!("QP_{name}"), value);
    }
    add("QP_CURSOR_BYTES", CURSOR_BYTES as u64);
    add("QP_CURSOR_DEPTH_MAX", CURSOR_DEPTH_MAX);
    add("KEY_ROOM_BYTES", KEY_ROOM_BYTES as u64);
    add("DNS_KEY_MAX", sapwood::key::DNS_KEY_MAX as u64);
    add("DNS_ROOM_BYTES", xdp_names::ROOM_BYTES as u64);
    for (name, value) in xdp_names::constants() {
        add(&name, value);
    }
    for (name, value) in program_map::CONSTANTS {
        add(&format!("KQP_{name}"), *value);
    }
    for (name, value) in groups::CONSTANTS {
        add(&format!("GROUPS_{name}"), *value);
    }
    for (name, value) in ranges::CONSTANTS {
        add(&format!("RANGES_{name}"), *value);
    }
    add("LPM_VALUE_BYTES", root(format::lpm::header::VALUE_BYTES));
    add("LPM_WIDTH", root(format::lpm::header::WIDTH));
    add("LPM_ROOT", root(format::lpm::header::ROOT));
    add("LPM_SHELF", root(format::lpm::header::SHELF));
    add("LPM_LEN", root(format::lpm::header::LEN));
    for (name, value) in format::lpm::LAYOUT {
        add(&format!("LPM_{name}"), value);
    }
    add("HOP_BYTES", size_of::<MirrorHop>() as u64);
    add("HOP_FORWARD", MirrorHop::FORWARD.into());
    add("HOP_KERNEL", MirrorHop::KERNEL.into());
    add("HOP_RESOLVE", MirrorHop::RESOLVE.into());
    add("HOP_GROUP", MirrorHop::GROUP.into());
    add("HOP_TAGGED", MirrorHop::TAGGED.into());
    for (name, value) in route::constants() {
        add(&name, value);
    }
    all
}

/// The text of `layout.h`.
pub fn header() -> String {
    let mut text = String::from(
        "/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */\n\
         /* Written from kernel/bpf/src/layout.rs by `SAPWOOD_WRITE=1 cargo test -p sapwood-bpf --test layout`. */\n\
         #ifndef SAPWOOD_LAYOUT_H\n\
         #define SAPWOOD_LAYOUT_H\n\n",
    );
    for (name, value) in constants() {
        text += &if value > u64::from(u32::MAX) {
            format!("#define {name} {value:#x}ull\n")
        } else {
            format!("#define {name} {value}u\n")
        };
    }
    text += "\n#endif\n";
    text
}

/// The text of `doors/go/layout.go`: what the reader in Go relies on.
///
/// ```
/// assert!(sapwood_bpf::layout::go_source().contains("package sapwood"));
/// ```
pub fn go_source() -> String {
    go::source()
}
