//! A trie that many writers change at once.
//!
//! Branches are locked one by one ([`lock`](super::writers::lock)), and only those that a change
//! replaces or whose cells it sets; readers look at no lock. The protocol is ROWEX (Leis,
//! Scheibner, Kemper, Neumann, "The ART of practical synchronization", 2016), but for the order of
//! the locks: child before parent. The one that is replaced is copied under its own lock alone; its
//! parent, which more writers want, is locked for the time of one store.
//!
//! - All bytes of a published branch but its cells and its lock bits are constant. Another child
//!   means another branch, built beside the old one and put into its place with one store; the old
//!   one is then obsolete for ever, frozen as it was, and freed after a grace period.
//! - Of a published cluster only cells change: a leaf makes place for another one of the same key.
//!   A cluster has no lock: whoever copies it, or sets a cell in it, holds the lock of the slot
//!   that it hangs in, and has seen it there. Another leaf means another cluster. A full one is
//!   made two first, as a change of its own.
//! - What a branch says of the keys below it (they agree up to its offset) holds for as long as
//!   anybody can read it. So a writer that went down without a lock need only find that the cell
//!   that it wants to set still holds what it saw there, in a branch that is not obsolete; else it
//!   begins anew.
//!
//! What all writers have in common, and each for itself, is in [`writers`](super::writers).
//!
//! | file | what it is |
//! |---|---|
//! | [`ops`] | the trie as one of the structures that many writers change |
//! | [`trie`] | root and slots |
//! | [`write`] | the changes |
//! | [`swap`] | what they have in common: blocks, and the store that publishes them |
//! | [`points`] | the point index, in step with them |
//! | [`walk`] | ordered walks beside writers |
//! | [`compact`] | compaction beside writers |
//! | [`verify`] | all of it checked |

mod compact;
mod ops;
mod points;
mod swap;
pub(crate) mod trie;
mod verify;
pub(crate) mod walk;
mod write;
