//! One live map for many processes on a machine: one process writes it, and any number of others
//! read it in place, without locks and without system calls.
//!
//! A live map is a folder, for example in `/dev/shm`. The writer is a [`LiveStore`], which has all
//! methods of [`QpStore`](sapwood::qp::QpStore). A [`LiveReader`] in another process sees each
//! commit as a whole, as soon as it asks again.
//!
//! ```
//! use sapwood_live::{LiveReader, LiveStore};
//! # let folder = std::env::temp_dir().join(format!("sapwood-live-doc-{}", std::process::id()));
//! let store = LiveStore::<u64>::create(&folder)?;
//! let mut txn = store.begin();
//! txn.insert("example.org", 7)?;
//! txn.commit();
//!
//! // In another process:
//! let mut reader = LiveReader::<u64>::open(&folder)?;
//! assert_eq!(reader.view().get("example.org"), Some(&7));
//! reader.quiescent()?;
//! # drop(reader);
//! # store.remove()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The protocol
//!
//! | file | written by | what it has |
//! |---|---|---|
//! | `control` | the writer | which data is the present one, and the number of the newest grace period |
//! | `data-N` | the writer | the map, as [`build_in`](sapwood::Builder::build_in) publishes it |
//! | `readers/r-PID-N` | one reader | the newest grace period that it has announced; 0 while it is offline |
//!
//! The writer holds a lock (`flock`) on `control` as long as it lives, and each reader one on its
//! file. So the kernel tells who is dead, in any namespace.
//!
//! A reader announces the newest grace period, and then reads. The writer frees what a commit has
//! replaced when every reader has announced a period that began after it, or is offline, or dead.
//! Each reader writes to a file of its own: what it writes there harms nobody else.
//!
//! When the writer dies, readers go on with its last commit. [`LiveStore::open`] in another process
//! takes the map over: it checks every node of the last commit, copies it into new data, and points
//! `control` there. Readers move in their next [`quiescent`](LiveReader::quiescent).

#![deny(unsafe_code)]
#![cfg(target_os = "linux")]

mod error;
mod place;
mod raw;
mod slots;
mod store;

pub use error::Error;
pub use raw::reader::{LiveOffline, LiveReader};
pub use slots::LiveReaderInfo;
pub use store::{LiveStore, LiveStoreBuilder};
