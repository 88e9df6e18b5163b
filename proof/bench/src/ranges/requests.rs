//! The number of nodes that changes request: by their plans, by the nodes that they made, and by
//! the kernel's formulas.
//!
//! The formulas need to know the effect of a change on the tree, and the height that it reaches. A
//! map does not report that. It is derived from the numbers of nodes of each level and of entries
//! before and after the change, and from the number of nodes that it made:
//!
//! - Only a split leaves more leaves than before.
//! - Of the other changes, one that stores and leaves at least as many entries did not empty a
//!   leaf, and one that removes more than one leaf did more than fill one leaf up. Both reached
//!   across leaves. All others count as changes that fill a leaf up.
//! - A change that erases, leaves as many nodes, and made an even number of them moved a leaf's
//!   upper bound. The kernel's tree never has to do that, so the change counts as a node store.
//! - A level above the leaves took part if it has more nodes after a split, or fewer after another
//!   change, or if the number of new nodes requires it.
//!
//! Of the vacant and the sufficient height, only the one that the change met can be derived in this
//! way; the other is assumed to be no higher. Wherever there is a choice, the count takes the case
//! in which the formulas request less. The counts of the formulas are therefore lower bounds.

use sapwood_model::seed_formulas::{self as formulas, Write};

/// How often each number of nodes was requested.
pub type Histogram = formulas::Requests;

/// The numbers of nodes that some changes requested.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    /// The requests of the plans.
    pub planned: Histogram,
    /// The nodes that the changes made.
    pub used: u64,
    /// The requests of the kernel's formulas before its series: the worst case.
    pub worst: Histogram,
    /// The requests of the formulas after that series: with vacant and sufficient heights.
    pub vacant: Histogram,
}

/// The size of a tree.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shape {
    /// The number of levels, the leaves included; 0 in an empty tree.
    pub(super) levels: usize,
    /// The number of leaves.
    pub(super) leaves: usize,
    /// The number of all other nodes.
    pub(super) inner: usize,
    /// The number of entries.
    pub(super) entries: usize,
}

/// A change: its request and its effect.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    /// Whether the change stored something.
    pub(super) stores: bool,
    /// The number of nodes that the plan requested.
    pub(super) planned: usize,
    /// The number of nodes that the change made.
    pub(super) used: u64,
    /// The tree before the change.
    pub(super) before: Shape,
    /// The tree after the change.
    pub(super) after: Shape,
}

impl Requests {
    /// Adds a change.
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
    /// The kind of the change for the tree. Also the number of levels, from the leaves up, at which
    /// more happened than the replacement of one child by another.
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
                // A new root is not among the nodes that splits add.
                let roots = grown(after.levels, before.levels).max(0);
                let split = 1 + (inner - roots).max(0) as usize;
                (Write::Split, split.min(before.levels))
            }
            made => {
                // A change makes at most two nodes per level, and one above them.
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
        // The fields: levels, leaves, inner nodes, entries.
        let usual = (3, 90, 7, 2000);
        let cases = [
            // The fields: stores, nodes made, before and after, kind, levels changed, worst,
            // vacant.
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
