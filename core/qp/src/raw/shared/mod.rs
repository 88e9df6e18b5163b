//! A trie that many writers change at once.
//!
//! A change locks only the branches that it replaces or whose cells it sets, each by itself
//! ([`lock`](super::writers::lock)). Readers ignore locks. The protocol is ROWEX (Leis, Scheibner,
//! Kemper, Neumann, "The ART of practical synchronization", 2016), but for the order of the locks:
//! child before parent. A branch that is replaced is copied under its own lock only. Its parent,
//! which more writers want, is locked for the time of one store.
//!
//! - All bytes of a published branch but its cells and its lock bits are constant. A branch with
//!   other children is built beside the old one, and replaces it with one store. The old branch is
//!   obsolete from then on: it does not change any more, and is freed after a grace period.
//! - In a published cluster only cells change: a leaf is replaced by another one of the same key,
//!   or by 0 when its key is removed, or takes a dead slot where it belongs. The last slot is never
//!   dead. A cluster has no lock of its own. A writer that copies it, or sets a cell in it, holds
//!   the lock of the slot that names the cluster, and has seen it there. Other leaves are added by
//!   a copy of the cluster, and dead slots dropped. A full cluster is split in two first, as a
//!   change of its own.
//! - All keys below a branch agree up to its offset, and this holds as long as anybody can read the
//!   branch. So a writer descends without locks. It then checks that the cell that it wants to set
//!   still holds what it saw, in a branch that is not obsolete. Otherwise it begins anew.
//!
//! The memory and the counts of writers are in [`writers`](super::writers).
//!
//! | file | what it is |
//! |---|---|
//! | [`ops`] | the trie as one of the structures that many writers change |
//! | [`trie`] | root and slots |
//! | [`write`] | the changes |
//! | [`remove`] | removals, and joins of small clusters |
//! | [`swap`] | the parts of all changes: blocks, and the store that publishes them |
//! | [`points`] | the updates of the point index |
//! | [`walk`] | ordered walks beside writers |
//! | [`compact`] | compaction beside writers |
//! | [`verify`] | the check of every invariant |

mod compact;
mod ops;
mod points;
mod remove;
mod swap;
pub(crate) mod trie;
mod verify;
pub(crate) mod walk;
mod write;
