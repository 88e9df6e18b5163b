//! Naive oracles, operation generators and data-set generators for Sapwood's tests and benchmarks.
//!
//! - [`oracle`]: slow maps whose code is their definition; a porter starts there.
//! - [`keys`]: seeded generators of awkward keys.
//! - [`lists`]: block lists in all formats, in the proportions of public ones.
//! - [`ops`]: operations on a map, drawn from a seed or (feature `arbitrary`) from a fuzzer's
//!   bytes, and the oracle's answer to each.
//! - [`choices`]: the decisions of a test, drawn from a seed or from a fuzzer's bytes.
//! - [`range_ops`]: operations on a map from ranges of numbers, and the oracle's answers.
//! - [`history`]: records the operations of threads on a shared map, and checks that they are
//!   linearizable.
//! - [`shared_ops`]: runs many threads on few keys of a [`SharedMap`](shared_ops::SharedMap), and
//!   records their history.
//! - [`soak`]: runs them for a long time, and tells what the map must hold at the end.
//! - [`systems`]: name servers that have lists, and questions to them.
//! - [`seed_formulas`]: how many nodes the Linux kernel's maple tree requests before a write.
//! - [`data`]: key sets, routing tables and range workloads for benchmarks, real ones of this
//!   machine and generated ones.
//!
//! All generated data are a function of the seed: the same seed gives the same keys on every
//! machine. The interleaving of threads differs from run to run.
//!
//! ```
//! use sapwood_model::{ops::OpGen, oracle::ByteMap};
//!
//! let mut oracle = ByteMap::new();
//! for op in OpGen::new(7).take(1000) {
//!     let expected = op.apply(&mut oracle);
//!     // apply `op` to the map under test, and compare its answer with `expected`
//!     drop(expected);
//! }
//! ```

pub mod choices;
pub mod data;
pub mod history;
pub mod keys;
pub mod lists;
pub mod ops;
pub mod oracle;
pub mod range_ops;
mod raw;
pub mod seed_formulas;
pub mod shared_ops;
pub mod soak;
pub mod systems;

pub use raw::allocations;
