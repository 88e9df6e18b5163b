//! Records of runs: the reader of the files that this program writes, comparisons of the
//! engines in them, and pictures.
//!
//! The command `report` and the documents of this repository show the same pictures, which are made
//! only from records.
//!
//! - [`record`]: the reader. [`metric`]: what a metric's name and unit say.
//! - [`compare`]: each of ours beside the best peer. [`series`]: cases that differ in one number,
//!   and latencies by percentile.
//! - [`draw`]: text, colours and frames of pictures. [`bars`], [`ratios`] and [`lines`]: the kinds
//!   of pictures.
//! - [`pictures`]: the pictures of the documents.

pub mod bars;
pub mod compare;
pub mod draw;
pub mod lines;
pub mod metric;
pub mod pictures;
pub mod ratios;
pub mod record;
pub mod series;

pub use record::{Record, RecordError, Row, is_comparison, read_records};

/// The processors of the repository's records, in the order in which documents show them.
pub const PROCESSORS: [&str; 2] = ["EPYC", "Xeon"];
