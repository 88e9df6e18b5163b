//! Naive oracles, operation generators and data-set generators for Sapwood's tests and benchmarks.
//!
//! - [`oracle`]: maps that are obviously right and slow; a porter starts there.
//! - [`keys`]: seeded generators of awkward keys.
//! - [`ops`]: operations on a map, drawn from a seed or (feature `arbitrary`) from a fuzzer's
//!   bytes, and what the oracle answers to each.
//! - [`choices`]: the decisions of a test, drawn from a seed or from a fuzzer's bytes.
//! - [`range_ops`]: the same for maps from ranges of numbers.
//! - [`history`]: records what threads do to a shared map, and checks that it is linearizable.
//! - [`shared_ops`]: lets many threads work on few keys of a [`SharedMap`](shared_ops::SharedMap),
//!   recorded so.
//! - [`soak`]: lets them work for long, and says what the map must hold at the end.
//! - [`seed_formulas`]: what the Linux kernel's maple tree asks its allocator for.
//! - [`data`]: key sets, routing tables and range workloads for benchmarks, real ones of this
//!   machine and generated ones.
//!
//! Everything generated is a function of its seed: the same seed gives the same keys on every
//! machine. Which operations of several threads meet is up to the machine.
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
pub mod ops;
pub mod oracle;
pub mod range_ops;
pub mod seed_formulas;
pub mod shared_ops;
pub mod soak;
