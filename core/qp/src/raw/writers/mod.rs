//! The common part of all maps with many writers, with a trie ([`shared`](super::shared)) or
//! without ([`index_only`](super::index_only)).
//!
//! Each writer works in a shard, which has free blocks, garbage that waits for readers, and counts.
//! A thread takes the shard of its number, or another one that is free.
//!
//! | file | what it is |
//! |---|---|
//! | [`ops`] | the traits of a structure; whole operations for callers with a guard |
//! | [`writer_pool`] | memory, shards and limits |
//! | [`shard`] | the state of one writer |
//! | [`block_pool`] | a writer's free blocks |
//! | [`garbage`] | retired nodes that wait for readers |
//! | [`lock`], `models` | locks of two bits in a word, and their models for loom |
//! | [`accounts`] | reports of memory; checks of accounts |

pub(crate) mod accounts;
pub(crate) mod block_pool;
pub(crate) mod garbage;
pub(crate) mod lock;
#[cfg(all(test, loom))]
mod models;
pub(crate) mod ops;
pub(crate) mod shard;
pub(crate) mod writer_pool;
