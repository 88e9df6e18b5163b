//! A map from ranges of `u64` to values: addresses, page numbers, identifiers and what owns them.
//!
//! [`MapleMap`] keeps entries that do not overlap, each an inclusive range with a value, and finds
//! gaps between them. It has one writer at a time and readers that never wait. Trade-offs first:
//!
//! - [`RangeMap`] is the same for one owner: changed in place, through `&mut`, for values of any
//!   type. Its changes take a third of the time. Without the feature `std` (default) it is the only
//!   map here, and needs `alloc`.
//! - A load takes a third to three fifths of the time that a `BTreeMap` of starts takes. An entry
//!   of a large map takes 0.4 to 0.5 of the bytes, an entry of a small map more (`docs/maple.md`).
//!   A store copies the leaf that it changes, because readers may look at it.
//! - A change can be **planned**: [`MapleMap::plan_store`] says exactly how many nodes it makes,
//!   [`MapleMap::reserve`] takes them, and then the change cannot fail.
//!   [`MapleMap::reserve_unknown`] takes the most that changes may need whose ranges are not known
//!   yet.
//! - Integer values lie in the leaves, and on request those of other `Copy` types of up to eight
//!   bytes. Every other value has a block of its own, which is not copied or moved. An entry that
//!   is cut in two needs a clone of its value.
//! - Nodes are replaced in place, and each step of a walk sees the map as it is then. A
//!   [`snapshot`](MapleMap::snapshot) stays as it is; while one is alive, a change also copies the
//!   inner nodes on its path.
//!
//! `docs/maple.md` has the layout and the measurements.
//!
//! ```
//! use sapwood::maple::MapleMap;
//!
//! let map = MapleMap::new();
//! map.store(0x1000..=0x1FFF, "text")?;
//! map.store(0x3000..=0x4FFF, "heap")?;
//! assert_eq!(map.get(0x1234), Some("text"));
//! assert_eq!(map.get(0x2000), None);
//!
//! let stack = map.alloc_range(0x1000, 0x1000..=0xFFFF, "stack")?;
//! assert_eq!(stack, 0x2000..=0x2FFF);
//!
//! // The range is cut out of the entries that it overlaps.
//! map.store(0x3800..=0x3FFF, "guard")?;
//! assert_eq!(map.get_entry(0x4000), Some((0x4000..=0x4FFF, "heap")));
//! assert_eq!(map.len(), 5);
//! # Ok::<(), sapwood::Error>(())
//! ```

#![cfg_attr(not(feature = "std"), no_std)]
#![deny(unsafe_code)]

extern crate alloc;

#[cfg(test)]
mod allocations;
#[cfg(feature = "std")]
mod builder;
#[cfg(feature = "std")]
mod cursor;
mod error;
#[cfg(feature = "std")]
mod file;
#[cfg(feature = "std")]
mod header;
mod index;
mod iter;
#[cfg(feature = "std")]
mod map;
#[cfg(feature = "std")]
mod map_iter;
mod memory;
mod owned;
#[cfg(feature = "std")]
mod plan;
#[cfg(feature = "std")]
mod published;
mod raw;
#[cfg(feature = "serde")]
mod serial;
mod sets;
#[cfg(feature = "std")]
mod snapshot;
mod split;
#[cfg(feature = "std")]
mod txn;
#[cfg(feature = "std")]
mod unknown;
mod view;
mod window;
#[cfg(feature = "std")]
mod writer;

#[cfg(feature = "std")]
pub use cursor::{Cursor, PausedCursor, Position};
#[cfg(feature = "std")]
pub use file::{MapleFile, is_range_file, save_strings};
pub use index::{Index, IndexRange, Word};
pub use iter::{Gaps, Iter};
#[cfg(feature = "std")]
pub use map::MapleMap;
#[cfg(feature = "std")]
pub use map_iter::{MapGaps, MapIter};
pub use memory::MapleMemory;
pub use owned::{IntoIter, IterMut, RangeMap, Removed};
#[cfg(feature = "std")]
pub use plan::{ErasePlan, EraseReservation, Reservation, StorePlan};
#[cfg(feature = "std")]
pub use published::PlainValue;
#[cfg(feature = "std")]
pub use raw::published::MaplePublished;
pub use sets::{Overlay, Piece};
#[cfg(feature = "std")]
pub use snapshot::MapleSnapshot;
pub use split::Split;
#[cfg(feature = "std")]
pub use txn::MapleTxn;
#[cfg(feature = "std")]
pub use unknown::UnknownReservation;
pub use view::{MapleFrozen, MapleView};
pub use window::Window;
#[cfg(feature = "std")]
pub use writer::MapleWriter;

use core::ops::RangeInclusive;

/// A range of indices.
type Range<K = u64> = RangeInclusive<K>;

/// The words of a first index and a last one.
type Words<K> = (<K as Index>::Word, <K as Index>::Word);

pub use error::{Error, Rejected};
#[cfg(feature = "std")]
pub use sapwood_common::{OpenCause, OpenError, SaveCause, SaveError, TableError};

// Parts that all structures share.
use sapwood_common::raw::figures;
#[cfg(not(feature = "std"))]
use sapwood_common::raw::points as sync;
#[cfg(feature = "std")]
use sapwood_common::raw::{garbage, kept, sync};
#[cfg(feature = "std")]
use sapwood_common::{Buildable, OldestSnapshot, Readable};
use sapwood_format::maple::gap;

#[cfg(feature = "std")]
sapwood_common::builder!();
