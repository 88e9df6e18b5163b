//! Longest-prefix match over bit strings of 0 to 2,048 bits, on the qp-trie. `docs/lpm.md` has the
//! layout.

mod code;
mod fib;
mod file;
mod read;
mod string;
mod txn;
mod view;

pub(crate) use code::END_OF_PREFIXES;
pub use fib::BitFib;
pub use file::{BitFile, BitFileBuilder};
pub(crate) use file::{NAME, NAME_AT, OLD_TABLES};
pub use read::{BitChildren, BitIter, BitMatches};
pub use string::{AsBits, BitPrefix, BitString, MAX_BITS};
pub use txn::BitTxn;
pub use view::{BitSnapshot, BitView};
