//! Longest-prefix match over IPv4, IPv6 and any bit string.

mod bits;
mod family;
mod fib;
mod ip;
mod memory;
mod raw;
mod snapshot;
mod txn;
mod view;

pub use bits::{
    AsBits, BitChildren, BitFib, BitFibBuilder, BitFile, BitFileBuilder, BitIter, BitMatches,
    BitPrefix, BitReader, BitSnapshot, BitString, BitTxn, BitView, MAX_BITS,
};
pub use family::{Family, V4, V6};
pub use fib::{Fib, FibBuilder, Ipv4Fib, Ipv6Fib, NextHop};
pub use ip::IpFib;
pub use ipnet;
pub use memory::FibMemory;
pub use snapshot::{Children, FibSnapshot, Iter};
pub use txn::FibTxn;
pub use view::{FibReader, FibView, Matches};
