//! How many nodes changes ask for: by their plans, by what was really made, and by the kernel's
//! formulas.
//!
//! The formulas want to know of a change what it does to the tree, and how far up. A map does not
//! tell, so that is found out from how many nodes of which level, and how many entries, there are
//! before and after a change, and from how many nodes it made:
//!
//! - Only a split leaves more leaves than before.
//! - Of the others, one that stores and leaves no entry less did not empty a leaf, and one that
//!   does without more than one leaf did more than fill one up: they reached across leaves. All
//!   others count as those that fill a leaf up.
//! - One that erases, leaves as many nodes and made an even number of them moved a leaf's upper
//!   bound, which is nothing that the kernel's tree has to do: it counts as a node store.
//! - A level above the leaves took part if it has more nodes after a split, or fewer after anything
//!   else, or if this many nodes were made that it must have.
//!
//! Of the vacant and the sufficient height only the one that the change met can be known like this;
//! the other is taken to be no higher. So wherever there is a choice, it is the one by which the
//! formulas ask for less: what they are said to ask for is a lower bound.

use sapwood_model::seed_formulas::{self as formulas, Write};

/// How often each number of nodes was asked for.
pub type Histogram = formulas::Requests;

/// How many nodes some changes asked for.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    /// By their plans.
    pub planned: Histogram,
    /// The nodes that they made.
    pub used: u64,
    /// By the kernel's formulas, before its series: the worst case.
    pub worst: Histogram,
    /// By those after it: with vacant and sufficient heights.
    pub vacant: Histogram,
}

/// A tree.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shape {
    /// Levels, that of the leaves included; none in an empty tree.
    pub(super) levels: usize,
    /// Leaves.
    pub(super) leaves: usize,
    /// All other nodes.
    pub(super) inner: usize,
    /// Entries.
    pub(super) entries: usize,
}

/// A change: what was asked for it, and what it did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    /// Whether it stored something.
    pub(super) stores: bool,
    /// The nodes that were asked for.
    pub(super) planned: usize,
    /// The nodes that were made.
    pub(super) used: u64,
    /// The tree that it met.
    pub(super) before: Shape,
    /// The tree that it left.
    pub(super) after: Shape,
}

impl Requests {
    /// Counts a change in.
    pub(super) fn add(&mut self, change: Change) {
        self.planned.add(change.planned);
        self.used += change.used;
        let levels = change.before.levels;
        let (kind, changed) = change.kind();
        let reach = levels - changed;
        self.worst.add(formulas::worst(kind, levels));
        self.vacant
            .add(formulas::vacant(kind, levels, reach, reach));
    }
}

impl Change {
    /// What it was to the tree, and at how many levels, from the leaves up, more happened than that
    /// one child of a node was replaced by one.
    fn kind(self) -> (Write, usize) {
        let Self { before, after, .. } = self;
        let grown = |now: usize, then: usize| now as isize - then as isize;
        let leaves = grown(after.leaves, before.leaves);
        let inner = grown(after.inner, before.inner);
        match self.used as usize {
            0 => (Write::ExactFit, 0),
            _ if before.levels == 0 => (Write::NewRoot, 0),
            1 => (Write::NodeStore, 0),
            _ if leaves > 0 => {
                // A new root is none of the nodes that splits add.
                let roots = grown(after.levels, before.levels).max(0);
                let split = 1 + (inner - roots).max(0) as usize;
                (Write::Split, split.min(before.levels))
            }
            made => {
                // At most two nodes a level, and one above them.
                let least = (made - 1).div_ceil(2);
                let changed = least.max(1 + (-inner).max(0) as usize);
                let moved = leaves == 0 && inner == 0 && made.is_multiple_of(2);
                let spans =
                    leaves < -1 || self.stores && (after.entries >= before.entries || moved);
                if spans {
                    (Write::Spanning, changed.min(before.levels))
                } else if moved {
                    (Write::NodeStore, 0)
                } else {
                    (Write::Rebalance, changed.min(before.levels - 1))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_levels() {
        use Write::*;
        // Levels, leaves, inner nodes, entries.
        let usual = (3, 90, 7, 2000);
        let cases = [
            // Stores, nodes made, before and after, kind, levels changed, worst, vacant.
            (false, 0, usual, usual, ExactFit, 0, 0, 0),
            (true, 1, (0, 0, 0, 0), (1, 1, 0, 1), NewRoot, 0, 1, 1),
            (true, 1, usual, (3, 90, 7, 2001), NodeStore, 0, 1, 1),
            (true, 3, (1, 1, 0, 40), (2, 2, 1, 41), Split, 1, 3, 3),
            (true, 3, usual, (3, 91, 7, 2001), Split, 1, 7, 3),
            (true, 5, usual, (3, 91, 8, 2001), Split, 2, 7, 5),
            (true, 7, usual, (4, 91, 10, 2001), Split, 3, 7, 7),
            (false, 2, usual, (3, 89, 7, 1999), Rebalance, 1, 5, 3),
            (false, 3, usual, (3, 89, 6, 1999), Rebalance, 2, 5, 5),
            (false, 3, usual, (3, 90, 7, 1999), Rebalance, 1, 5, 3),
            (true, 3, usual, (3, 90, 7, 1999), Rebalance, 1, 5, 3),
            (false, 2, usual, (3, 90, 7, 1999), NodeStore, 0, 1, 1),
            (true, 2, usual, (3, 90, 7, 1999), Spanning, 1, 10, 4),
            (true, 3, usual, (3, 90, 7, 2001), Spanning, 1, 10, 4),
            (false, 3, usual, (3, 80, 7, 1700), Spanning, 1, 10, 4),
            (true, 5, usual, (3, 60, 5, 1400), Spanning, 3, 10, 10),
        ];
        for (stores, used, before, after, kind, levels, worst, vacant) in cases {
            let shape = |(levels, leaves, inner, entries)| Shape {
                levels,
                leaves,
                inner,
                entries,
            };
            let change = Change {
                stores,
                planned: used as usize,
                used,
                before: shape(before),
                after: shape(after),
            };
            assert_eq!(change.kind(), (kind, levels), "{change:?}");
            let mut requests = Requests::default();
            requests.add(change);
            assert_eq!(requests.planned.nodes(), used);
            assert_eq!(requests.worst.nodes(), worst, "{change:?}");
            assert_eq!(requests.vacant.nodes(), vacant, "{change:?}");
        }
    }
}
