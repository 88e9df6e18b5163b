//! The unsafe core of the tables: blocks in the arena, read through root words, replaced and never changed.
//!
//! The obligations, once for all files of this folder:
//!
//! - A reference in a root word, node or shelf names a live block of the kind that its place says. Blocks are only
//!   freed after they were unlinked, and after the grace period and all snapshots that reach them.
//! - A block that a reader can reach never changes. A block with a FRESH mark belongs to the open transaction, and
//!   everything above it has the mark too.
//! - The arena does not move.

#![allow(unsafe_code)]

pub(crate) mod blocks;
pub(crate) mod build;
pub(crate) mod change;
pub(crate) mod compact;
pub(crate) mod node;
pub(crate) mod open;
pub(crate) mod read;
pub(crate) mod root;
pub(crate) mod table;
pub(crate) mod update;
pub(crate) mod values;
pub(crate) mod verify;
pub(crate) mod view;
pub(crate) mod walk;
pub(crate) mod writer;

/// Numbers of the layout that programs in other languages are compiled with.
pub(crate) fn published_layout() -> [(&'static str, u64); 12] {
    [
        ("REF", node::REF.into()),
        ("CHILD", node::CHILD.into()),
        ("FRESH", node::FRESH.into()),
        ("STRIDE", node::STRIDE.into()),
        // In a root word.
        ("WORD_MARK", 27),
        ("WORD_VALUE", 32),
        // In a node.
        ("NODE_RUNS", 0),
        ("NODE_BASE", 8),
        ("NODE_COUNT", 12),
        ("NODE_SLOTS", 16),
        // In a shelf.
        ("SHELF_KIDS", 16),
        ("SHELF_VALUES", 24),
    ]
}
