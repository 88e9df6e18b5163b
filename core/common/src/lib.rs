//! What the structures of Sapwood share: keys, builders, readers, errors and saved files.
//!
//! Programs use these by the crate `sapwood`, which re-exports them.

#![cfg_attr(not(feature = "std"), no_std)]
#![deny(unsafe_code)]

extern crate alloc;

mod builder;
mod error;
pub mod key;
mod plain;
#[doc(hidden)]
#[allow(missing_docs)]
pub mod raw;
mod reader;
#[cfg(feature = "std")]
mod saved;

pub use builder::{Buildable, Builder, Configure};
pub use error::Rejected;
pub use plain::{Plain, Words};
pub use raw::kept::OldestSnapshot;
#[cfg(feature = "std")]
pub use reader::Pin;
pub use reader::{Readable, Reader};
#[cfg(feature = "std")]
pub use saved::{OpenCause, OpenError, SaveCause, SaveError, TableError};
