//! What the structures use inside: no part of the surface, and it changes without notice.

#![allow(unsafe_code)]

#[cfg(feature = "std")]
pub mod asked;
pub mod figures;
#[cfg(feature = "std")]
pub mod garbage;
pub mod hash;
#[cfg(feature = "std")]
pub mod kept;
#[cfg(feature = "std")]
pub mod memory;
pub mod pair;
pub mod points;
pub mod seed;
#[cfg(feature = "std")]
pub mod sync;

pub use sapwood_arena as arena;
pub use sapwood_qsbr as qsbr;

#[cfg(feature = "std")]
pub use crate::reader::FOREIGN_GUARD;

/// The choices of a builder: memory, domain, and those that only the structure has.
#[cfg(feature = "std")]
pub type Parts<M> = (
    memory::MemoryOptions,
    Option<sapwood_qsbr::Domain>,
    <M as crate::Buildable>::Choices,
);
