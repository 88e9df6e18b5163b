//! Longest-prefix match over IPv4, IPv6 and any bit string.

pub use ipnet;

mod bits;

pub use bits::{
    AsBits, BitChildren, BitFib, BitFibBuilder, BitFile, BitFileBuilder, BitIter, BitMatches,
    BitPrefix, BitReader, BitSnapshot, BitString, BitTxn, BitView, MAX_BITS,
};
