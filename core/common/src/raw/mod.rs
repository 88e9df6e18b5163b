//! What the structures use inside: no part of the surface, and it changes without notice.

#![allow(unsafe_code)]

#[cfg(feature = "std")]
pub mod asked;
pub mod figures;
pub mod garbage;
pub mod hash;
pub mod kept;
pub mod memory;
pub mod pair;
pub mod points;
pub mod seed;
pub mod sync;

pub use sapwood_arena as arena;
pub use sapwood_qsbr as qsbr;

pub use crate::reader::FOREIGN_GUARD;

/// The choices of a builder: memory, domain, and those that only the structure has.
pub type Parts<M> = (
    memory::MemoryOptions,
    Option<sapwood_qsbr::Domain>,
    <M as crate::Buildable>::Choices,
);
