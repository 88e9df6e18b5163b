//! What all maps with many writers have in common, with a trie ([`shared`](super::shared)) or
//! without ([`index_only`](super::index_only)).
//!
//! Each writer works in a shard: free blocks, what waits for readers, counts. A thread takes the
//! shard of its number, or another that is free.
//!
//! | file | what it is |
//! |---|---|
//! | [`ops`] | what a structure adds; whole operations for callers with a guard |
//! | [`writer_pool`] | memory, shards and limits |
//! | [`shard`] | what a writer has for itself |
//! | [`block_pool`] | a writer's free blocks |
//! | [`garbage`] | what was retired and waits for readers |
//! | [`lock`], `models` | locks of two bits in a word, and loom's proof of them |
//! | [`accounts`] | reports of memory; accounts checked |

pub(crate) mod accounts;
pub(crate) mod block_pool;
pub(crate) mod garbage;
pub(crate) mod lock;
#[cfg(all(test, loom))]
mod models;
pub(crate) mod ops;
pub(crate) mod shard;
pub(crate) mod writer_pool;
