//! One live map for many processes on a machine: one process writes it, and any number of others
//! read it in place, without locks and without system calls.
//!
//! A live map is a directory, for example in `/dev/shm`. The writer is a [`Live`] map, which has
//! all methods of the structure that it is: of a [`QpStore`](sapwood::qp::QpStore), a
//! [`QpShared`](sapwood::qp::QpShared), a [`PointMap`](sapwood::qp::PointMap), a
//! [`Fib`](sapwood::lpm::Fib), an [`IpFib`](sapwood::lpm::IpFib), a [`Routes`], or a
//! [`MapleMap`](sapwood::maple::MapleMap). A [`LiveReader`] in another process sees each change as
//! soon as it asks again, and each commit of a store as a whole.
//!
//! ```
//! use sapwood::qp::QpStore;
//! use sapwood_live::{Live, LiveReader};
//! # let folder = std::env::temp_dir().join(format!("sapwood-live-doc-{}", std::process::id()));
//! let store = Live::<QpStore<u64>>::create(&folder)?;
//! let mut txn = store.begin();
//! txn.insert("example.org", 7)?;
//! txn.commit();
//!
//! // In another process:
//! let mut reader = LiveReader::<QpStore<u64>>::open(&folder)?;
//! assert_eq!(reader.view().get("example.org"), Some(&7));
//! reader.quiescent()?;
//! # drop(reader);
//! # store.remove_map()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The protocol
//!
//! | file | written by | what it has |
//! |---|---|---|
//! | `control` | the writer | which data is the present one, how long its files are, and the number
//! of the newest grace period | | `data-N-P` | the writer | part P of the map, as
//! [`build_in`](sapwood::qp::Builder::build_in) publishes it | | `readers/r-PID-RANDOM` | one
//! reader | the newest grace period that it has announced; 0 while it is offline; how much it has
//! mapped |
//!
//! The writer holds a lock (`flock`) on `control` as long as it lives, and each reader one on its
//! file. So the kernel tells who is dead, in any namespace.
//!
//! A reader announces the newest grace period, and then reads. The writer frees what a commit has
//! replaced when every reader has announced a period that began after it, or is offline, or dead.
//! Each reader writes to a file of its own: what it writes there harms nobody else.
//!
//! A map is there whole or not at all: it is made in another directory, which is then renamed. Its
//! files have their space before they are used, so a full file system is an error, not a signal.
//!
//! When the writer dies, readers go on with its last commit. [`Live::open`] in another process
//! takes the map over: it checks every node of the last commit, copies it into new data, and points
//! `control` there. Readers move in their next [`quiescent`](LiveReader::quiescent).

#![deny(unsafe_code)]
#![cfg(target_os = "linux")]

mod checked;
mod control;
mod error;
#[cfg(test)]
mod go;
mod making;
mod names;
mod place;
mod raw;
mod routes;
mod slots;
mod status;
mod texts;
mod writer;

pub use checked::{CheckedIp, CheckedLiveReader, CheckedRanges, CheckedRoutes};
pub use error::Error;
pub use making::ReadBy;
pub use names::{CheckedNames, NamesAsked, NamesRange};
pub use raw::maps::{CheckedMap, LiveMap, LiveValue, NameMap};
pub use raw::process::Process;
pub use raw::reader::{LiveIdle, LiveOffline, LiveReader};
pub use raw::window::{LiveSource, LiveWindow};
pub use routes::{Routes, RoutesBuilder, RoutesView};
pub use slots::LiveReaderInfo;
pub use status::LiveStatus;
pub use texts::{LiveTextReader, LiveTexts};
pub use writer::{Live, LiveBuilder, Unpublished};
