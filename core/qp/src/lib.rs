//! The qp-trie: ordered maps over byte strings.
//!
//! A qp-trie is a Patricia trie whose branches hold only the children that exist. A branch names
//! the one key byte at which its children differ. The key bytes between branches are not stored in
//! branches: a lookup compares the whole key once, at the leaf. The idea is Dan Bernstein's and
//! Tony Finch's. `docs/qp.md` has the layout and the figures.
//!
//! - [`QpMap`]: an owned map with `BTreeMap`'s methods and more.
//! - [`QpStore`]: a map with versions: transactions, readers that never wait, snapshots,
//!   differences.
//! - [`QpShared`]: an ordered map that many threads change at once.
//! - [`PointMap`]: a map without order that many threads change at once. It finds whole keys only,
//!   by a hash index over leaves.
//! - [`QpFile`]: a saved map, mapped into memory and checked.
#![cfg_attr(not(feature = "std"), no_std)]
#![deny(unsafe_code)]

extern crate alloc;

#[cfg(feature = "std")]
mod any;
mod batch;
mod closest;
mod cursor;
#[cfg(feature = "std")]
mod diff;
mod entry;
mod error;
#[cfg(feature = "std")]
mod file;
mod iter;
mod iter_mut;
mod key;
mod map;
mod memory;
#[cfg(feature = "std")]
mod ordered_read;
mod points;
mod raw;
mod read;
#[cfg(feature = "std")]
mod shared;
#[cfg(feature = "std")]
mod store;
#[cfg(feature = "std")]
mod txn;

#[cfg(feature = "std")]
pub use any::{AnyFile, AnyValues};
pub use closest::{Closest, Denial};
pub use cursor::Cursor;
#[cfg(feature = "std")]
pub use diff::{Change, Diff};
pub use entry::{Entry, OccupiedEntry, VacantEntry};
#[cfg(feature = "std")]
pub use file::{QpFile, QpShape};
pub use iter::{Iter, Keys, Range, Values};
pub use iter_mut::{IterMut, ValuesMut};
pub use key::Key;
pub(crate) use key::Pieces;
pub use map::{IntoIter, QpMap};
pub use memory::QpMemory;
#[cfg(feature = "std")]
pub use memory::{QpSharedMemory, QpStoreMemory};
#[cfg(feature = "std")]
pub use ordered_read::{KeyBounds, OrderedRange, OrderedRead};
#[cfg(feature = "std")]
pub use raw::mem::Checked;
pub use raw::mem::Trusted;
pub use raw::value::{Accepts, IntoValue, Value};
#[cfg(feature = "std")]
pub use shared::{
    AttachedMap, AttachedView, Contention, Exchange, Order, Ordered, PointMap, PointMapIter,
    PointMapView, QpShared, QpSharedRange, QpSharedView, SharedMap, SharedView, SweepPlace,
    Unordered,
};
#[cfg(feature = "std")]
pub use store::{QpSnapshot, QpStore, QpView, Version};
#[cfg(feature = "std")]
pub use txn::QpTxn;

/// What `sapwood-lpm` reads tables of bit strings with: no part of the surface.
#[cfg(feature = "std")]
#[doc(hidden)]
pub mod parts {
    pub use crate::file::{Layouts, save_as};
    pub use crate::raw::inline::EntryRef;
    pub use crate::raw::{batch::LANES, bits::Alternatives, cursor::Cursor, mem::Mem, view::View};
    pub use crate::read::{range, seek, tails};
    pub use crate::store::StoreChoices;
}

/// An entry of a map: its key and its value.
pub type ReadEntry<'a, V> = (Key<'a>, &'a V);

/// The longest key, in bytes.
pub const MAX_KEY: usize = raw::leaf::MAX_KEY;

pub use error::{Error, Rejected};
#[cfg(feature = "std")]
pub use sapwood_common::{OpenCause, OpenError, SaveCause, SaveError, TableError};

// Parts that all structures share.
use sapwood_common::raw::{figures, seed};
#[cfg(feature = "std")]
use sapwood_common::raw::{garbage, kept, sync};
#[cfg(feature = "std")]
use sapwood_common::{Buildable, OldestSnapshot, Readable};

#[cfg(feature = "std")]
sapwood_common::builder!();
