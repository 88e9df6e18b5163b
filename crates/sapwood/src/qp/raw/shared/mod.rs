//! A trie that many writers change at once: what they share, and what each has for itself.
//!
//! Branches are locked one by one ([`lock`]), and only those that a change replaces or whose cells it sets; readers look
//! at no lock. The protocol is ROWEX (Leis, Scheibner, Kemper, Neumann, "The ART of practical synchronization", 2016),
//! but for the order of the locks: child before parent. The one that is replaced is copied under its own lock alone; its
//! parent, which more writers want, is locked for the time of one store.
//!
//! - All bytes of a published branch but its cells and its lock bits are constant. Another child means another branch,
//!   built beside the old one and put into its place with one store; the old one is then obsolete for ever, frozen as
//!   it was, and freed after a grace period.
//! - What a branch says of the keys below it (they agree up to its offset) holds for as long as anybody can read it. So a
//!   writer that went down without a lock need only find that the cell that it wants to set still holds what it
//!   saw there, in a branch that is not obsolete; else it begins anew.
//!
//! Each writer works in a shard: free blocks, what waits for readers, counts. A thread takes the shard of its number,
//! or another that is free.
//!
//! | file | what it is |
//! |---|---|
//! | [`lock`], `models` | the locks in the branches' headers, and loom's proof of them |
//! | [`pool`] | a writer's free blocks |
//! | [`shard`] | what a writer has for itself |
//! | [`commons`] | memory, shards and limits, for a trie or an index alone |
//! | [`trie`] | root and slots |
//! | [`garbage`] | what waits for readers |
//! | [`write`] | the changes |
//! | [`points`] | the point index, in step with them |
//! | [`walk`] | ordered walks beside writers |
//! | [`compact`] | compaction beside writers |
//! | [`verify`] | all of it checked |
//! | [`ops`] | whole operations for callers with a guard |

pub(crate) mod commons;
pub(crate) mod compact;
pub(crate) mod garbage;
pub(crate) mod lock;
#[cfg(all(test, loom))]
mod models;
pub(crate) mod ops;
pub(crate) mod points;
pub(crate) mod pool;
pub(crate) mod shard;
pub(crate) mod trie;
pub(crate) mod verify;
pub(crate) mod walk;
pub(crate) mod write;
