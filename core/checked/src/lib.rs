//! Checked readers of the published maps of [`sapwood`](https://docs.rs/sapwood): every word is
//! checked before it is relied on, and every answer is a copy.
//!
//! A map that `build_in` publishes lies in memory that others can map: another process, or the new
//! owner of a process that died. A [`CheckedReader`] reads such a map over byte strings (`QpStore`,
//! `QpShared`, `PointMap`), whatever the memory holds and whatever is written there meanwhile;
//! [`lpm`] has the reader of tables of prefixes, [`maple`] that of range maps. They read through a
//! [`Window`], so this crate has no unsafe code, and needs no memory of a certain kind. A reader's
//! [`Source`] says where the map is.
//!
//! `sapwood-live` and `sapwood-bpf` make such readers. The format is that of `sapwood-format`.
//!
//! ```
//! use sapwood_checked::{CheckedReader, Fixed};
//! use sapwood::arena::{Arena, ArenaOptions, Backing, HeaderMode};
//! use sapwood::qp::QpStore;
//!
//! # let path = std::env::temp_dir().join(format!("sapwood-checked-{}", std::process::id()));
//!
//! let options = ArenaOptions::default()
//!     .backing(Backing::File(path.clone()))
//!     .header(HeaderMode::Page)
//!     .layout_hash(QpStore::<u64>::layout_hash());
//! QpStore::builder().build_sorted_in(Arena::create(options)?, [("beech", 3u64), ("larch", 7)])?;
//! let bytes = std::fs::read(&path)?;
//! # std::fs::remove_file(&path)?;
//! let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
//! let words: Vec<u64> = words.collect();
//! let reader = CheckedReader::<_, u64>::new(Fixed(&words[..]))?;
//! assert_eq!(reader.verify()?, 2);
//! assert_eq!(reader.get("larch")?, Some(7));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod bytes;
mod closest;
mod clusters;
mod find;
mod index;
pub mod lpm;
pub mod maple;
mod nodes;
mod order;
mod path;
mod reader;
mod source;
#[cfg(test)]
mod tests;
mod value;
mod verify;
mod version;
mod walks;

pub use closest::{CheckedClosest, CheckedDenial};
pub use reader::CheckedReader;
pub use sapwood_format::Window;
pub use source::{Fixed, Publisher, Source, TRIES, Trouble, Values, attempts};
pub use value::{Bytes, CheckedValue, StoredValue};
pub use version::{Version, VersionWindow};
pub use walks::{CheckedEntries, CheckedIter};

/// The parts of a checked reader of byte strings, for a crate that knows more of a map than its
/// header page says: nodes, the index, and the check of every invariant. `sapwood-bpf` uses them
/// for maps that programs write. They are not part of the reader's surface.
pub mod parts {
    pub use crate::clusters::Cluster;
    pub use crate::index::{Bucket, Index, Look, Secrets, Seen, Slot, Table};
    pub use crate::nodes::{Branch, Copied, Entry, Nodes};
    pub use crate::verify::{Census, Node, verify};
}

/// The example of the crate's README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
