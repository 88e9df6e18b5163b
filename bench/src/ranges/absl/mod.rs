//! Abseil's `absl::btree_map`, where `libabsl-dev` and a C++ compiler are installed: starts to ends
//! and values, as `std-btreemap` keeps them, with cursors instead of repeated searches. Lookups and
//! iteration are whole passes in C++.

mod raw;

use super::{Engine, EntrySum, Query, Tally};

/// `absl::btree_map`.
pub struct Absl(raw::Map);

impl Engine for Absl {
    const NAME: &'static str = "absl-btree";

    fn empty() -> Result<Self, String> {
        raw::Map::new().map(Self)
    }

    fn store(&mut self, start: u64, end: u64, value: u64) {
        self.0.store(start, end, value);
    }

    fn erase(&mut self, index: u64) -> Option<u64> {
        self.0.erase(index)
    }

    fn clear(&mut self, start: u64, end: u64) {
        self.0.clear(start, end);
    }

    fn get(&self, index: u64) -> Option<u64> {
        self.0.get(index)
    }

    fn loads(&self, indices: &[u64]) -> Tally {
        self.0.loads(indices, false)
    }

    fn loads_dependent(&self, indices: &[u64]) -> Tally {
        self.0.loads(indices, true)
    }

    fn entries(&self) -> EntrySum {
        self.0.entries()
    }

    fn gap(&self, query: Query) -> Option<u64> {
        self.0.gap(query)
    }

    fn mapped_bytes(&self) -> usize {
        self.0.bytes()
    }
}
