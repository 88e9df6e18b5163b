//! The unsafe core of the range map: nodes in the arena, read from a root word downward.
//!
//! The obligations, once for all files of this directory:
//!
//! - A reference in the root word or in a cell names a live node of the kind that its level says:
//!   leaves at level 0, inner nodes above. A block is freed only after it was unlinked and a grace
//!   period is over.
//! - A leaf that readers can reach does not change. An inner node changes only in its cells, its
//!   gap words and the mark that it was replaced, each by one atomic store of the writer. While a
//!   snapshot is kept, only the marks change, and blocks that were retired after it was made are
//!   not freed.
//! - A cell's node may be replaced in place only by a node with the same upper bound. So the bounds
//!   in an inner node hold for every node that its cells ever had.
//! - The arena does not move.

#![allow(unsafe_code)]
// Without the standard library there is the owned map only.
#![cfg_attr(not(feature = "std"), allow(dead_code))]

mod below;
#[cfg(feature = "std")]
pub(crate) mod bulk;
#[cfg(feature = "std")]
pub(crate) mod copy;
#[cfg(all(test, not(any(loom, shuttle))))]
mod crashes;
pub(crate) mod draft;
pub(crate) mod entries;
pub(crate) mod finger;
mod inner;
mod leaf;
pub(crate) mod node;
mod nodes;
pub(crate) mod owned;
pub(crate) mod path;
#[cfg(feature = "std")]
pub(crate) mod published;
mod rank;
pub(crate) mod read;
mod search;
pub(crate) mod seen;
#[cfg(feature = "std")]
pub(crate) mod space;
pub(crate) mod splice;
#[cfg(feature = "std")]
pub(crate) mod table;
#[cfg(feature = "std")]
pub(crate) mod txn;
#[cfg(feature = "std")]
pub(crate) mod unknown;
pub(crate) mod values;
pub(crate) mod verify;
pub(crate) mod view;
#[cfg(feature = "std")]
pub(crate) mod write;
