//! One flat memory with 32-bit references, exact accounting and pluggable backing.
//!
//! An [`Arena`] is one contiguous memory from which a data structure allocates its blocks. A block
//! is known by its [`Ref`], a distance from the base in units of 8 bytes, so nothing inside the
//! memory depends on its address: it can move when it grows, another process can map it, and it can
//! be saved and opened again.
//!
//! - **Exact.** Sizes are multiples of 8 bytes, without rounding to powers of two and without a
//!   header for each block. [`Memory`] accounts for every byte; [`Arena::verify`] checks that the
//!   accounts add up.
//! - **Bounded.** Allocating and freeing take a bounded number of steps, whatever the size of the
//!   arena. Growth copies no large table; only the heap backing copies its memory, and pages may
//!   move. Freed neighbours are merged at once.
//! - **Fallible.** When there is no memory, an allocation fails with [`ArenaFull`] and changes
//!   nothing. [`Arena::ensure`] makes an operation of many blocks all or nothing.
//! - **Shareable.** The arena does not read or write live and retired blocks, so readers on other
//!   threads, or in other processes, need no lock.
//!
//! In return the owner states a block's size again when it frees it, and answers for safety: a
//! [`Ref`] is not a Rust reference. An arena is meant to be the raw core under a safe structure.
//!
//! ```
//! use sapwood_arena::{Area, Arena, ArenaOptions, Kind};
//!
//! const PAIR: Kind = Kind(0);
//! let mut arena = Arena::new(ArenaOptions::default());
//! let r = arena.alloc(16, PAIR, Area::Nodes)?;
//! let pair = arena.base().wrapping_add(r.byte_offset()).cast::<[u64; 2]>();
//! // SAFETY: 16 bytes, aligned to 8, known only here.
//! unsafe { pair.write([3, 4]) };
//! assert_eq!(arena.memory().kinds[0].count, 1);
//! arena.verify().unwrap();
//! # Ok::<(), sapwood_arena::ArenaFull>(())
//! ```
//!
//! # Backings
//!
//! | [`Backing`] | base | for |
//! |---|---|---|
//! | `Auto` (default) | moves | maps with one owner: heap while small, then pages |
//! | `Heap` | moves | the same, without `mmap` |
//! | `HeapFixed` | stays | shared with readers, without `mmap` |
//! | `Mmap` | stays | shared with readers: address space is reserved, pages come as they are used |
//! | `Growing` | stays | the same; a small reservation, which grows where it lies |
//! | `File`, `Memfd` | stays | shared with other processes |
//!
//! # Features
//!
//! `std` (default): everything that needs an operating system. Without it: heap backings, `no_std`
//! with `alloc`.

#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod account;
mod arena;
mod bitmap;
mod blocks;
pub mod compact;
mod debug;
mod frontier;
mod header;
mod idle;
#[cfg(feature = "std")]
mod image;
mod lend;
mod lists;
mod options;
mod pool;
mod prefetch;
mod reference;
mod region;
mod resize;
#[cfg(all(test, feature = "std"))]
mod tests;

pub use account::{AreaMemory, KindMemory, Memory};
pub use arena::Arena;
pub use compact::{EvacuationStep, STEP_MOST};
pub use frontier::FEW_BLOCKS;
#[doc(hidden)]
pub use header::HEADER_LAYOUT;
pub use header::{
    EXTRA_AT, FORMAT_VERSION, HEADER_LEN, Header, HeaderError, MAGIC, ROOTS_AT, body_checksum,
};
#[cfg(feature = "std")]
pub use image::{ImageMap, OpenError, write_image};
pub use options::{ArenaOptions, Backing, DebugMode, HeaderMode};
pub use pool::Pool;
pub use prefetch::prefetch;
pub use reference::{Area, Kind, MAX_UNITS, Ref, UNIT};
pub use region::{ArenaFull, AutoRegion, HeapRegion, Lack, PAGE, Region};
#[cfg(all(unix, feature = "std", not(miri)))]
pub use region::{FileMap, FileRegion, MmapRegion, MovableMmap, allocate};

/// The examples of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
