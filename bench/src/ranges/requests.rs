//! How many nodes writes ask for: by their plans, by what was really made, and by the kernel's formulas.

use std::collections::BTreeMap;
use std::fmt;

/// How many writes asked for how many nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram(BTreeMap<u64, u64>);

impl Histogram {
    /// Counts one write in.
    pub fn add(&mut self, nodes: u64) {
        *self.0.entry(nodes).or_default() += 1;
    }

    /// The sum of the nodes.
    pub fn sum(&self) -> u64 {
        self.0.iter().map(|(nodes, writes)| nodes * writes).sum()
    }

    /// How many writes there were.
    pub fn writes(&self) -> u64 {
        self.0.values().sum()
    }
}

/// As the kernel's series prints it: `nodes:writes`. Writes that ask for nothing are not listed.
impl fmt::Display for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut space = "";
        for (nodes, writes) in self.0.iter().filter(|(nodes, _)| **nodes > 0) {
            write!(f, "{space}{nodes}:{writes}")?;
            space = " ";
        }
        Ok(())
    }
}

/// What some writes asked for.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    /// By their plans.
    pub planned: Histogram,
    /// The nodes that they made.
    pub used: u64,
    /// By the formulas of the kernel before its series: the worst case.
    pub worst: Histogram,
    /// By those after it: with vacant and sufficient heights.
    pub vacant: Histogram,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_histogram_is_printed_as_the_series_prints_it() {
        let mut histogram = Histogram::default();
        for nodes in [3, 0, 1, 3, 5] {
            histogram.add(nodes);
        }
        assert_eq!(histogram.to_string(), "1:1 3:2 5:1");
        assert_eq!((histogram.sum(), histogram.writes()), (12, 5));
    }
}
