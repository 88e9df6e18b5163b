//! The unsafe core of the qp-trie: nodes in the arena, read through views, changed through trees.
//!
//! The obligations, once for all files of this folder:
//!
//! - A cell below a root names a live node of the kind that its tag says. Nodes are only freed after
//!   they were unlinked, and (in a store) after the grace period and all snapshots that reach them.
//! - A published branch never changes. A branch with the FRESH bit is not published. In a shared trie, the cells and
//!   the lock bits of a published branch change, by the protocol in `shared`, and nothing else of it does.
//! - Pointers are made from `base + reference` and not kept across an allocation, which may move an
//!   owned arena.

#![allow(unsafe_code)]

pub(crate) mod batch;
#[cfg(feature = "std")]
pub(crate) mod bits;
pub(crate) mod build;
pub(crate) mod bulk;
#[cfg(feature = "std")]
pub(crate) mod compact;
pub(crate) mod cursor;
pub(crate) mod forward;
#[cfg(feature = "std")]
pub(crate) mod image;
pub(crate) mod index;
#[cfg(feature = "std")]
pub(crate) mod index_only;
pub(crate) mod leaf;
pub(crate) mod mem;
pub(crate) mod node;
pub(crate) mod order;
pub(crate) mod parts;
pub(crate) mod points;
#[cfg(feature = "std")]
pub(crate) mod shared;
pub(crate) mod span;
pub(crate) mod span_mut;
pub(crate) mod tree;
pub(crate) mod verify;
#[cfg(feature = "std")]
pub(crate) mod version;
pub(crate) mod view;
#[cfg(feature = "std")]
pub(crate) mod writers;

/// Numbers that programs in other languages are compiled with; see `Published::layout`.
#[cfg(feature = "std")]
pub(crate) fn published_layout() -> [(&'static str, u64); 20] {
    use index::layout as index;
    [
        ("END", node::END.into()),
        ("BIG", node::BIG.into()),
        ("LEAF", node::LEAF.into()),
        ("SMALL_MAX", node::SMALL_MAX as u64),
        // A branch for each byte of the longest key, one for its end, and the leaf.
        ("DEPTH_MAX", leaf::MAX_KEY as u64 + 2),
        ("TABLE_HOMES", 0),
        ("TABLE_TOTAL", 4),
        ("TABLE_SHIFT", 8),
        ("TABLE_NEXT", 12),
        ("TABLE_DIRECTORY", index::HEAD),
        ("TABLE_NOTHING", index::NOTHING),
        ("BUCKET_BYTES", index::LINE),
        ("BUCKET_SLOTS", index::SLOTS),
        ("BUCKET_LEAVES", 16),
        ("BUCKET_LOCK", index::LOCK),
        ("BUCKET_MOVED", index::MOVED),
        ("BUCKET_OUT", index::OUT),
        ("BUCKET_REACH", index::REACH),
        ("BUCKET_SPILLED", index::SPILLED),
        ("BUCKET_FILTER", index::FILTER),
    ]
}
