//! The unsafe core of the range map: nodes in the arena, read from a root word downward.
//!
//! The obligations, once for all files of this folder:
//!
//! - A reference in the root word or in a cell names a live node of the kind that its level says:
//!   leaves at level 0, inner nodes above. Blocks are only freed after they were unlinked and a
//!   grace period is over.
//! - A leaf that readers can reach never changes. An inner node changes in its cells, gap words and
//!   the mark that it was replaced, each by one atomic store of the writer. While a snapshot is
//!   kept, only the marks change, and nothing is freed that was retired after it was made.
//! - A cell's node may be replaced in place only by one with the same upper bound, so that what an
//!   inner node says of its children's bounds is true of every node that its cells ever had.
//! - The arena does not move.

#![allow(unsafe_code)]

pub(crate) mod copy;
pub(crate) mod draft;
pub(crate) mod entries;
pub(crate) mod finger;
mod inner;
mod leaf;
pub(crate) mod node;
pub(crate) mod path;
mod rank;
pub(crate) mod read;
pub(crate) mod search;
pub(crate) mod space;
pub(crate) mod splice;
pub(crate) mod table;
pub(crate) mod unknown;
pub(crate) mod verify;
pub(crate) mod write;
