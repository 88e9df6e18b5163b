//! What one case does, and what the answers are.

use std::time::Duration;

use fastrand::Rng;

use super::Options;
use crate::ranges::{self, EntrySum, Op, Query, Tally};

/// The cases.
pub(super) const CASES: [&str; 8] = [
    "1k",
    "100k",
    "1m",
    "bytes-1m",
    "vma",
    "pages-1m-30erase",
    "sparse-256",
    "dense-256",
];

/// The work of one case.
pub(super) struct Work {
    /// The case.
    pub(super) name: &'static str,
    /// What it is, in a line for a report.
    pub(super) how: String,
    /// The changes that make the map.
    pub(super) build: Vec<Op>,
    /// Changes of the map as built; none where `build` is a stream, whose own changes are what counts.
    pub(super) churn: Vec<Op>,
    /// Indices to look up.
    pub(super) probes: Vec<u64>,
    /// Searches for a gap that is often there; none in a map without gaps.
    pub(super) common: Vec<Query>,
    /// One search for a gap that is there once, many times.
    pub(super) rare: Vec<Query>,
    /// How long to look for it.
    pub(super) patience: Duration,
    /// What the reference answers.
    pub(super) expected: Expected,
}

/// The reference's answers.
#[derive(Default)]
pub(super) struct Expected {
    /// To each probe.
    pub(super) answers: Vec<Option<u64>>,
    /// To all probes.
    pub(super) loads: Tally,
    /// What building erased.
    pub(super) built: Tally,
    /// The entries as built.
    pub(super) entries: EntrySum,
    /// To the searches for common gaps.
    pub(super) common: Tally,
    /// To one search for the rare gap.
    pub(super) rare: Tally,
    /// What the changes erased.
    pub(super) churned: Tally,
    /// The entries that they left.
    pub(super) left: EntrySum,
}
