//! Leaves that lie in memory in the order of their keys, as a build or a compaction has laid them.
//!
//! A walk over such leaves needs no branches: the next leaf begins where one ends. The leaves of a
//! whole trie are a few runs of leaves side by side, one for each chunk of the arena. The order
//! ends when the next leaf is made or freed.

use alloc::vec::Vec;

use super::leaf::{LeafOf, Value};
use super::mem::Mem;
use super::view::View;

/// Runs are not worth their memory if they have fewer leaves than this on average.
const LEAST: usize = 16;

/// Leaves side by side: the cell of the first leaf, and the cell of a leaf that would follow the
/// last one.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    first: u32,
    end: u32,
}

/// The cell of a leaf behind the leaf `cell`, which has this size.
#[inline(always)]
fn after(cell: u32, size: usize) -> u32 {
    // Cells count units of 8 bytes, above the two bits for the kind of the node.
    cell + 4 * size.div_ceil(8) as u32
}

/// The runs of a trie whose leaves are made in the order of their keys.
#[derive(Default)]
pub(crate) struct Order {
    runs: Vec<Run>,
}

impl Order {
    /// Adds the next leaf, of this size.
    pub(crate) fn add(&mut self, cell: u32, size: usize) {
        let end = after(cell, size);
        match self.runs.last_mut() {
            Some(run) if run.end == cell => run.end = end,
            _ => self.runs.push(Run { first: cell, end }),
        }
    }

    /// The finished order of `len` leaves; it is empty if there are too many runs.
    pub(crate) fn finish(mut self, len: usize) -> Self {
        if self.runs.len() > len.div_ceil(LEAST) {
            self.runs = Vec::new();
        }
        self.runs.shrink_to_fit();
        self
    }

    /// Ends the order, because a leaf was made or freed.
    #[inline(always)]
    pub(crate) fn end(&mut self) {
        self.runs.clear();
    }

    /// All runs; none if the leaves are not in order.
    #[inline(always)]
    pub(crate) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.runs.capacity() * size_of::<Run>()
    }
}

/// A walk along runs.
#[derive(Clone, Copy)]
pub(crate) struct Along<'a> {
    /// The next leaf, unless it is `end`.
    at: u32,
    end: u32,
    rest: &'a [Run],
}

impl<'a> Along<'a> {
    pub(crate) fn new(runs: &'a [Run]) -> Self {
        Along {
            at: 0,
            end: 0,
            rest: runs,
        }
    }

    /// The next leaf.
    #[inline(always)]
    pub(crate) fn next<V: ?Sized + Value, M: Mem>(&mut self, view: &View<'_, V, M>) -> Option<u32> {
        if self.at == self.end {
            let (run, rest) = self.rest.split_first()?;
            (self.at, self.end, self.rest) = (run.first, run.end, rest);
        }
        let leaf = self.at;
        // SAFETY: runs cover live leaves from start to end; `leaf` returned a whole one.
        let size = unsafe { LeafOf::<V>::size(view.leaf(leaf)?) };
        self.at = after(leaf, size);
        Some(leaf)
    }
}
