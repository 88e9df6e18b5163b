//! Properties of the global table of January 2024: constants that were counted once.
//!
//! The source is the list `prefixes.txt.gz` in the test data of the Go package bart
//! (github.com/gaissmai/bart).

/// The prefixes of one length.
pub(super) struct Length {
    pub(super) len: u8,
    /// How many prefixes of this length there are.
    pub(super) count: u32,
    /// How many of a thousand are inside a shorter prefix.
    pub(super) covered: u16,
}

/// A part of the address space, and its share of the prefixes.
pub(super) struct Region {
    /// The first 16 bits of the part.
    pub(super) bits: u16,
    /// How many of these bits the part has.
    pub(super) len: u8,
    /// The share of its prefixes relative to other parts; 0 if the seed decides.
    pub(super) weight: u32,
}

/// The runs of direct neighbours of one length.
#[derive(Clone, Copy)]
pub(super) struct Runs {
    /// The share of runs of one prefix.
    pub(super) single: f64,
    /// The mean length of the other runs.
    pub(super) mean: f64,
}

/// The properties of a family that the model needs.
pub(super) struct Global {
    pub(super) width: u8,
    pub(super) lengths: &'static [Length],
    pub(super) regions: fn() -> Vec<Region>,
    /// The prefix length of the blocks that uncovered longer prefixes share.
    pub(super) block: u8,
    /// How many such blocks there are.
    pub(super) blocks: u32,
    /// The weight of a block by its place between 0 and 1; the busiest block is at 0.
    pub(super) busy: fn(f64) -> f64,
    /// The runs of prefixes of a length.
    pub(super) runs: fn(u8) -> Runs,
    /// The factor of the choice of a covering prefix for a prefix of a length: how much more the
    /// prefixes that are one bit shorter count.
    pub(super) cover: fn(u8) -> f64,
    /// Twice the exponent by which some covering prefixes of one length are chosen more often.
    pub(super) skew: u32,
    /// The share of runs that start near an earlier prefix of the same length: at most 64 prefixes
    /// of this length away.
    pub(super) near: f64,
    /// Twice the exponent by which places at the low end of a covering prefix are chosen more
    /// often.
    pub(super) low: u32,
}

const fn of(len: u8, count: u32, covered: u16) -> Length {
    Length {
        len,
        count,
        covered,
    }
}

/// IPv4: 901,899 prefixes.
pub(super) const V4: Global = Global {
    width: 32,
    lengths: &[
        of(8, 16, 0),
        of(9, 13, 308),
        of(10, 38, 0),
        of(11, 103, 39),
        of(12, 299, 104),
        of(13, 581, 165),
        of(14, 1203, 148),
        of(15, 2100, 221),
        of(16, 13_490, 238),
        of(17, 8235, 456),
        of(18, 13_798, 498),
        of(19, 24_870, 395),
        of(20, 42_611, 545),
        of(21, 50_750, 546),
        of(22, 108_623, 453),
        of(23, 96_510, 570),
        of(24, 537_698, 514),
        of(25, 20, 1000),
        of(26, 3, 1000),
        of(27, 11, 1000),
        of(28, 18, 944),
        of(29, 17, 1000),
        of(30, 3, 1000),
        of(31, 3, 1000),
        of(32, 886, 993),
    ],
    // The usable first octets, without private networks (10) and loopback (127).
    regions: || {
        let usable = (1..=223).filter(|octet| ![10, 127].contains(octet));
        let region = |octet: u16| Region {
            bits: octet << 8,
            len: 8,
            weight: 0,
        };
        usable.map(region).collect()
    },
    block: 16,
    blocks: 13_148,
    // Of the blocks of the real table, the busiest tenth have more than 92 uncovered prefixes each,
    // half have more than 17, and a quarter have less than 5.
    busy: |at| (1.0 - at) * (1.0 - at) * (1.0 - at) + 0.01,
    runs: |len| match len {
        24 => Runs {
            single: 0.477,
            mean: 5.3,
        },
        _ => Runs {
            single: 0.6,
            mean: 3.9,
        },
    },
    cover: |_| 1.46,
    skew: 7,
    near: 0.7,
    low: 6,
};

/// IPv6: 160,147 prefixes.
pub(super) const V6: Global = Global {
    width: 128,
    lengths: &[
        of(16, 1, 0),
        of(19, 1, 0),
        of(20, 16, 0),
        of(21, 3, 0),
        of(22, 7, 0),
        of(23, 8, 0),
        of(24, 30, 100),
        of(25, 8, 125),
        of(26, 15, 0),
        of(27, 20, 100),
        of(28, 193, 440),
        of(29, 4371, 12),
        of(30, 650, 435),
        of(31, 284, 458),
        of(32, 22_548, 254),
        of(33, 2926, 809),
        of(34, 2603, 720),
        of(35, 1043, 622),
        of(36, 5996, 566),
        of(37, 880, 753),
        of(38, 1617, 524),
        of(39, 1377, 821),
        of(40, 13_418, 763),
        of(41, 903, 532),
        of(42, 2301, 796),
        of(43, 1001, 434),
        of(44, 14_365, 717),
        of(45, 1553, 816),
        of(46, 3039, 532),
        of(47, 3153, 786),
        of(48, 75_488, 595),
        of(49, 11, 1000),
        of(50, 3, 1000),
        of(52, 1, 1000),
        of(55, 1, 1000),
        of(56, 24, 958),
        of(58, 20, 1000),
        of(60, 2, 0),
        of(64, 184, 973),
        of(112, 2, 1000),
        of(122, 1, 1000),
        of(124, 4, 1000),
        of(125, 9, 1000),
        of(126, 19, 1000),
        of(127, 42, 1000),
        of(128, 6, 1000),
    ],
    // The blocks of the registries in 2000::/3, by their first sixteen bits.
    regions: || {
        V6_REGIONS
            .map(|(bits, weight)| Region {
                bits,
                len: 16,
                weight,
            })
            .into()
    },
    block: 32,
    blocks: 5872,
    // The busiest hundredth have more than 109 uncovered prefixes each, half have 2 or less.
    busy: |at| 1.0 / at.max(0.0005),
    runs: |len| match len {
        ..=32 => Runs {
            single: 0.94,
            mean: 8.0,
        },
        48 => Runs {
            single: 0.707,
            mean: 5.7,
        },
        _ => Runs {
            single: 0.68,
            mean: 5.0,
        },
    },
    // Holders divide allocations of /20 into /32s. For longer prefixes the size hardly matters.
    cover: |len| if len <= 32 { 2.3 } else { 1.11 },
    skew: 5,
    near: 0.7,
    low: 2,
};

/// The first sixteen bits of the regions with twenty or more prefixes up to /32, and the number of
/// these prefixes.
const V6_REGIONS: [(u16, u32); 45] = [
    (0x2001, 902),
    (0x2400, 341),
    (0x2401, 229),
    (0x2402, 279),
    (0x2403, 226),
    (0x2404, 282),
    (0x2405, 203),
    (0x2406, 187),
    (0x2407, 220),
    (0x2408, 470),
    (0x2409, 597),
    (0x240a, 4163),
    (0x240e, 508),
    (0x2600, 289),
    (0x2602, 33),
    (0x2603, 116),
    (0x2604, 372),
    (0x2605, 397),
    (0x2606, 374),
    (0x2607, 481),
    (0x2610, 37),
    (0x2800, 168),
    (0x2803, 641),
    (0x2804, 5458),
    (0x2806, 97),
    (0x2a00, 1211),
    (0x2a01, 725),
    (0x2a02, 1156),
    (0x2a03, 733),
    (0x2a04, 558),
    (0x2a05, 513),
    (0x2a06, 470),
    (0x2a07, 473),
    (0x2a09, 555),
    (0x2a0a, 475),
    (0x2a0b, 558),
    (0x2a0c, 479),
    (0x2a0d, 514),
    (0x2a0e, 422),
    (0x2a0f, 520),
    (0x2a10, 425),
    (0x2a11, 362),
    (0x2a12, 343),
    (0x2a13, 114),
    (0x2c0f, 403),
];
