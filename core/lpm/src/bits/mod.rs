//! Longest-prefix match over bit strings of 0 to 2,048 bits, on the qp-trie. `docs/lpm.md` has the
//! layout.

mod code;
mod fib;
mod file;
mod read;
mod string;
mod txn;
mod view;

pub use fib::BitFib;
pub(crate) use file::OLD_TABLES;
pub use file::{BitFile, BitFileBuilder};
pub use read::{BitChildren, BitIter, BitMatches};
pub use string::{AsBits, BitPrefix, BitString, MAX_BITS};
pub use txn::BitTxn;
pub use view::{BitSnapshot, BitView};
