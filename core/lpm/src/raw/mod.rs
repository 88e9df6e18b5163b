//! The unsafe core of the tables: blocks in the arena, read through root words, replaced and never
//! changed.
//!
//! The obligations, once for all files of this directory:
//!
//! - A reference in a root word, node or block of root prefixes names a live block of the kind that
//!   its place says. Blocks are only freed after they were unlinked, and after the grace period and
//!   all snapshots that reach them.
//! - A block that a reader can reach never changes. A block with a FRESH mark belongs to the open
//!   transaction, and everything above it has the mark too.
//! - The arena does not move.

#![allow(unsafe_code)]

pub(crate) mod attached;
pub(crate) mod blocks;
pub(crate) mod build;
pub(crate) mod change;
pub(crate) mod compact;
pub(crate) mod grow;
pub(crate) mod node;
pub(crate) mod open;
pub(crate) mod pages;
pub(crate) mod read;
pub(crate) mod root;
pub(crate) mod table;
pub(crate) mod update;
pub(crate) mod values;
pub(crate) mod verify;
pub(crate) mod view;
pub(crate) mod walk;
pub(crate) mod writer;
