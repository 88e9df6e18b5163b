//! The number of nodes that the Linux kernel's maple tree requests before one write, by formula.
//!
//! [`worst`] is the original formula. [`vacant`] is the formula since the kernel tracks how far up
//! a write can reach. Benchmarks compare both with the nodes of a plan of this library, on the same
//! writes and heights.

use std::collections::BTreeMap;
use std::fmt;

/// The kind of a write, in the kernel's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Write {
    /// The range is exactly that of an entry, so only the value changes.
    ExactFit,
    /// A new entry comes after the last one of a leaf that has room.
    Append,
    /// One bound inside a leaf moves.
    SlotStore,
    /// Only one leaf is written anew.
    NodeStore,
    /// The tree gets its first node.
    NewRoot,
    /// A leaf is full and becomes two.
    Split,
    /// A leaf becomes too empty and takes from a sibling, or joins it.
    Rebalance,
    /// The range reaches over more than one leaf.
    Spanning,
}

impl Write {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::ExactFit,
        Self::Append,
        Self::SlotStore,
        Self::NodeStore,
        Self::NewRoot,
        Self::Split,
        Self::Rebalance,
        Self::Spanning,
    ];
}

/// The nodes that are requested for the worst case of a kind of write, in a tree of `height`
/// levels. In a tree of height 1 the root is a leaf.
///
/// ```
/// use sapwood_model::seed_formulas::{Write, vacant, worst};
///
/// assert_eq!(worst(Write::Split, 4), 9);
/// // The leaf's parent has room.
/// assert_eq!(vacant(Write::Split, 4, 3, 1), 3);
/// ```
#[must_use]
pub fn worst(kind: Write, height: usize) -> usize {
    match kind {
        Write::ExactFit | Write::Append | Write::SlotStore => 0,
        Write::NodeStore | Write::NewRoot => 1,
        Write::Split => 2 * height + 1,
        Write::Rebalance => (2 * height).saturating_sub(1),
        Write::Spanning => 3 * height + 1,
    }
}

/// The nodes that are requested when it is known how far up a write can reach.
///
/// Levels count from the root, which is level 0. `vacant_height` is one more than the level of the
/// lowest ancestor that is not full. `sufficient_height` is one more than the level of the lowest
/// ancestor that may lose an entry. Both are 0 if there is no such ancestor. Heights above `height`
/// count as `height`.
#[must_use]
pub fn vacant(kind: Write, height: usize, vacant_height: usize, sufficient_height: usize) -> usize {
    let levels = |known: usize| height.saturating_sub(known);
    match kind {
        Write::ExactFit | Write::Append | Write::SlotStore => 0,
        Write::NodeStore | Write::NewRoot => 1,
        Write::Split => 2 * levels(vacant_height) + 1,
        Write::Rebalance => 2 * levels(vacant_height.min(sufficient_height)) + 1,
        Write::Spanning => 3 * levels(vacant_height.min(sufficient_height)) + 1,
    }
}

/// Counts of writes by the number of nodes that they request.
///
/// ```
/// use sapwood_model::seed_formulas::Requests;
///
/// let requests: Requests = [1, 3, 3, 0].into_iter().collect();
/// assert_eq!(requests.to_string(), "1:1 3:2");
/// assert_eq!((requests.nodes(), requests.asked()), (7, 3));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    counts: BTreeMap<usize, u64>,
}

impl Requests {
    /// Counts of no writes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a write that requests this many nodes.
    pub fn add(&mut self, nodes: usize) {
        *self.counts.entry(nodes).or_default() += 1;
    }

    /// How many writes request exactly `nodes` nodes.
    #[must_use]
    pub fn of(&self, nodes: usize) -> u64 {
        self.counts.get(&nodes).copied().unwrap_or(0)
    }

    /// The number of all writes, also of those that request no node.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.counts.values().sum()
    }

    /// The number of writes that request at least one node.
    #[must_use]
    pub fn asked(&self) -> u64 {
        self.writes() - self.of(0)
    }

    /// The sum of the nodes of all writes.
    #[must_use]
    pub fn nodes(&self) -> u64 {
        self.counts
            .iter()
            .map(|(nodes, writes)| *nodes as u64 * writes)
            .sum()
    }

    /// The largest number of nodes that one write requests.
    #[must_use]
    pub fn most(&self) -> usize {
        self.counts.keys().next_back().copied().unwrap_or(0)
    }
}

impl FromIterator<usize> for Requests {
    fn from_iter<I: IntoIterator<Item = usize>>(requests: I) -> Self {
        let mut counted = Self::new();
        requests.into_iter().for_each(|nodes| counted.add(nodes));
        counted
    }
}

/// Writes the counts as the kernel's patch series does: `nodes:writes`, least first, without the
/// writes that request no node.
impl fmt::Display for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = self.counts.iter().filter(|(nodes, _)| **nodes > 0);
        for (i, (nodes, writes)) in asked.enumerate() {
            let space = if i == 0 { "" } else { " " };
            write!(f, "{space}{nodes}:{writes}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table() {
        use Write::*;
        let cases = [
            // Kind, height, vacant and sufficient heights, before, after.
            (ExactFit, 5, 0, 0, 0, 0),
            (Append, 5, 0, 0, 0, 0),
            (SlotStore, 5, 0, 0, 0, 0),
            (NodeStore, 5, 0, 0, 1, 1),
            (NewRoot, 1, 0, 0, 1, 1),
            (Split, 3, 0, 0, 7, 7),
            (Split, 3, 2, 0, 7, 3),
            (Split, 3, 3, 0, 7, 1),
            (Rebalance, 3, 2, 1, 5, 5),
            (Rebalance, 3, 1, 2, 5, 5),
            (Rebalance, 4, 3, 3, 7, 3),
            (Spanning, 3, 0, 0, 10, 10),
            (Spanning, 3, 2, 1, 10, 7),
            (Spanning, 3, 2, 2, 10, 4),
        ];
        for (kind, height, v, s, before, after) in cases {
            assert_eq!(worst(kind, height), before, "{kind:?} {height}");
            assert_eq!(
                vacant(kind, height, v, s),
                after,
                "{kind:?} {height} {v} {s}"
            );
        }
    }

    #[test]
    fn knowing_more_never_asks_for_more() {
        for kind in Write::ALL {
            for height in 0..8 {
                for (v, s) in (0..10).flat_map(|v| (0..10).map(move |s| (v, s))) {
                    let asked = vacant(kind, height, v, s);
                    assert!(asked <= vacant(kind, height, 0, 0));
                    if kind != Write::Rebalance {
                        assert!(asked <= worst(kind, height));
                    }
                }
            }
        }
    }

    #[test]
    fn the_kernels_own_histogram() {
        let counts = [
            (1, 12_070),
            (3, 3_548_777),
            (5, 633_458),
            (7, 65_081),
            (9, 11_224),
            (10, 341),
            (11, 2_973),
            (13, 68),
        ];
        let mut requests = Requests::new();
        requests.add(0);
        for (nodes, writes) in counts {
            *requests.counts.entry(nodes).or_default() += writes;
        }
        let printed = "1:12070 3:3548777 5:633458 7:65081 9:11224 10:341 11:2973 13:68";
        assert_eq!(requests.to_string(), printed);
        assert_eq!(
            (requests.most(), requests.of(10), requests.of(2)),
            (13, 341, 0)
        );
        assert_eq!(requests.writes(), requests.asked() + 1);
        assert_eq!(requests.nodes(), 14_419_271);
    }
}
