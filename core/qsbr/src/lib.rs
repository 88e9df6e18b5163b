//! Quiescent-state-based reclamation (QSBR): readers pay nothing, and writers learn when memory may
//! be reused.
//!
//! # Trade-offs
//!
//! - **Reads are free, but readers have a duty.** [`Reader::guard`] writes nothing and fences
//!   nothing. In return a reader calls [`Reader::quiescent`] once in each turn of its loop, and
//!   goes [`offline`](Reader::offline) before it blocks. A reader that does neither holds back all
//!   garbage of its [`Domain`]. Code without a loop uses `Domain::pin`, which costs a few
//!   nanoseconds for each use.
//! - **Writers do not wait for readers**, unless a hard limit of garbage says so
//!   ([`LimitPolicy::Block`]) or they call [`Domain::synchronize`]. Memory that a writer unlinks is
//!   queued ([`RetireQueue`], [`Domain::defer`]), and a later reclaim or poll frees it after a
//!   grace period. There is no background thread.
//! - **Garbage is bounded only by a limit**: [`DomainBuilder::hard_limit`]. [`Domain::stalls`]
//!   names the readers and snapshots that hold it back.
//! - Compared with epochs (crossbeam-epoch), reads cost nothing. Compared with hazard pointers, one
//!   stalled reader holds back all newer garbage, not a few objects.
//!
//! # Words
//!
//! - **Unlink**: make an object unreachable for readers that come later.
//! - **Quiescent state**: a moment at which a reader holds no reference into shared structures.
//! - **Grace period**: a time in which every reader has had a quiescent state. An object that was
//!   unlinked before it began can be freed when it is over.
//! - **Generation**: the number of a grace period, see [`Domain::advance`].
//! - **Garbage**: bytes that wait for a grace period.
//!
//! # Example
//!
//! ```
//! use sapwood_qsbr::Domain;
//! use std::sync::atomic::{AtomicPtr, Ordering};
//!
//! let domain = Domain::new();
//! let config = AtomicPtr::new(Box::into_raw(Box::new(String::from("old"))));
//!
//! std::thread::scope(|s| {
//!     let mut reader = domain.register("reader").unwrap();
//!     let config = &config;
//!     s.spawn(move || {
//!         for _ in 0..1000 {
//!             let _guard = reader.guard();
//!             // SAFETY: set by the writer below, which waits for a grace period before it frees; the reference
//!             // does not leave this turn of the loop.
//!             let text = unsafe { &*config.load(Ordering::Acquire) };
//!             assert!(text == "old" || text == "new");
//!             reader.quiescent();
//!         }
//!     });
//!
//!     let new = Box::into_raw(Box::new(String::from("new")));
//!     let old = config.swap(new, Ordering::AcqRel);
//!     domain.synchronize();
//!     // SAFETY: unlinked before the grace period, which every reader has passed.
//!     drop(unsafe { Box::from_raw(old) });
//! });
//! # // SAFETY: all threads have ended.
//! # drop(unsafe { Box::from_raw(config.into_inner()) });
//! ```
//!
//! # Features
//!
//! - `std` (default): the clock of stall reports, `Domain::pin`, waits that sleep. Without it the
//!   crate needs `core` and `alloc`, and waits spin.
//! - `tokio`: `tokio_hooks`, readers that go offline when tokio's workers park.
//!
//! # How it works, and why it is right
//!
//! The domain counts generations. Each reader has a slot of its own: 0 while offline, else the
//! newest generation that it had seen at its last quiescent state. Generation *g* has elapsed when
//! every slot is 0 or at least *g*.
//!
//! - *Online reader.* A slot has *g* only after the reader loaded a generation of at least *g*
//!   (Acquire). So the reader sees all unlinkings before *g* began (Release in `advance`), and its
//!   later reads cannot find the unlinked objects. Its earlier reads come before the slot's store
//!   (Release), which the scanner loads (Acquire), so they come before the reuse. This needs no
//!   fence.
//! - *Reader that comes online.* It stores its slot, then fences, then reads. The scanner comes
//!   after the unlinking, fences, then loads the slots. One of the fences is first, so either the
//!   scanner sees the slot, or the reader sees the unlinking. New readers are the same case: their
//!   slot is on the list before they come online.
//!
//! Linux and liburcu use the same method. See M. Desnoyers, P. McKenney et al., *User-Level
//! Implementations of Read-Copy Update*, IEEE TPDS 23 (2012). Loom checks the models in
//! `src/models.rs`.
#![cfg_attr(not(any(feature = "std", loom)), no_std)]

extern crate alloc;

mod builder;
mod chunks;
mod defer;
mod domain;
mod holder;
#[cfg(all(test, loom))]
mod models;
#[cfg(feature = "std")]
mod pin;
mod reader;
mod retire;
mod slots;
mod source;
mod stall;
mod sync;
#[cfg(feature = "tokio")]
pub mod tokio_hooks;

pub use builder::{DomainBuilder, GarbageLimit, LimitPolicy, TooManyReaders, WaitsForItself};
pub use domain::{Domain, Generation};
pub use holder::{Hold, Holder};
#[cfg(feature = "std")]
pub use pin::Pinned;
#[doc(hidden)]
pub use reader::StaysOnItsThread;
pub use reader::{Guard, Offline, Reader};
pub use retire::RetireQueue;
pub use source::GraceSource;
pub use stall::{Stall, StallKind};
/// Locks for the structures where there is no system.
#[cfg(not(loom))]
#[doc(hidden)]
pub use sync::spin;

/// The README's example has to compile and run.
#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
struct Readme;
