//! A map from ranges of `u64` to values: addresses, page numbers, identifiers and what owns them.
//!
//! [`MapleMap`] keeps entries that do not overlap, each an inclusive range with a value, and finds
//! gaps between them. One writer at a time, readers that never wait. Trade-offs first:
//!
//! - A load takes a fraction of what a `BTreeMap` of starts takes, and an entry about half the
//!   bytes. A store copies the leaf that it changes, for the sake of readers.
//! - A change can be **planned**: [`MapleMap::plan_store`] says exactly how many nodes it takes,
//!   [`MapleMap::reserve`] takes them, and then the change cannot fail.
//!   [`MapleMap::reserve_unknown`] does that for changes whose ranges are not known yet, with the
//!   worst that they may need.
//! - Values that are integers, or `Copy` types of up to eight bytes on request, lie in the leaves;
//!   others in a block each, which is never copied or moved while readers may look at it. An entry
//!   that is cut in two needs a clone of its value.
//! - Nodes are replaced in place, and a walk sees each entry as it is when it comes there. A
//!   [`snapshot`](MapleMap::snapshot) stays as it is; while one is alive, a change also copies the
//!   inner nodes on its path.
//!
//! The layout is drawn in `docs/maple.md`, with what was measured.
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
//! // What lies in between is cut out of its neighbours.
//! map.store(0x3800..=0x3FFF, "guard")?;
//! assert_eq!(map.get_entry(0x4000), Some((0x4000..=0x4FFF, "heap")));
//! assert_eq!(map.len(), 5);
//! # Ok::<(), sapwood::Error>(())
//! ```

#[cfg(test)]
mod allocations;
mod builder;
mod cursor;
mod file;
mod gap;
mod iter;
mod map;
mod memory;
mod plan;
mod raw;
mod snapshot;
mod unknown;
mod view;
mod window;
mod writer;

pub use cursor::{Cursor, PausedCursor, Position};
pub use file::MapleFile;
pub use iter::{Gaps, Iter, MapGaps, MapIter};
pub use map::MapleMap;
pub use memory::MapleMemory;
pub use plan::{ErasePlan, EraseReservation, Reservation, StorePlan};
pub use snapshot::MapleSnapshot;
pub use unknown::UnknownReservation;
pub use view::MapleView;
pub use window::Window;
pub use writer::MapleWriter;

use core::ops::RangeInclusive;

use crate::Error;

/// A range of indices.
type Range = RangeInclusive<u64>;

/// The bounds of a range that has at least one index.
fn bounds(range: &RangeInclusive<u64>) -> Result<(u64, u64), Error> {
    let (start, end) = (*range.start(), *range.end());
    if range.is_empty() {
        return Err(Error::EmptyRange { start, end });
    }
    Ok((start, end))
}
