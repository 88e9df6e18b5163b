//! The unsafe core of the qp-trie: nodes in the arena, read through views, changed through trees.
//!
//! All unsafe blocks of this directory refer to these obligations:
//!
//! - A cell below a root names a live node of the kind that its tag says. Nodes are freed only
//!   after they were unlinked, and, in a store, after the grace period and after the end of all
//!   snapshots that reach them.
//! - A published branch or cluster never changes. A node with the FRESH bit is not published. In a
//!   shared trie, the protocol in `shared` changes the cells of published branches and clusters and
//!   the lock bits of published branches, and nothing else of them.
//! - Pointers are made from `base + reference`. They are not kept across an allocation, which may
//!   move an owned arena.

#![allow(unsafe_code)]

#[cfg(feature = "std")]
pub(crate) mod attached;
pub(crate) mod batch;
#[cfg(feature = "std")]
pub(crate) mod bits;
pub(crate) mod borders;
pub(crate) mod build;
pub(crate) mod bulk;
pub(crate) mod change;
pub(crate) mod closest;
#[cfg(feature = "std")]
pub(crate) mod compact;
#[cfg(feature = "std")]
mod cost;
pub(crate) mod cursor;
#[cfg(feature = "std")]
pub(crate) mod image;
pub(crate) mod index;
#[cfg(feature = "std")]
pub(crate) mod index_only;
pub(crate) mod inline;
pub(crate) mod inline_change;
pub(crate) mod keys;
pub(crate) mod leaf;
pub(crate) mod mem;
pub(crate) mod node;
pub(crate) mod order;
pub(crate) mod parts;
pub(crate) mod path;
pub(crate) mod points;
#[cfg(feature = "std")]
pub(crate) mod shared;
pub(crate) mod slots;
pub(crate) mod span;
pub(crate) mod span_mut;
pub(crate) mod tree;
pub(crate) mod value;
pub(crate) mod verify;
#[cfg(feature = "std")]
pub(crate) mod version;
pub(crate) mod view;
// Processors without these vectors, and tools that look for races, get plain Rust.
#[cfg_attr(
    not(all(
        any(
            all(target_arch = "x86_64", target_feature = "sse2"),
            all(
                target_arch = "aarch64",
                target_endian = "little",
                target_feature = "neon"
            )
        ),
        not(miri),
        not(sapwood_exact_loads)
    )),
    path = "narrow.rs"
)]
pub(crate) mod wide;
#[cfg(feature = "std")]
pub(crate) mod writers;
