//! Drafts: which nodes a change will replace, and by which, before it does anything. Plans count
//! the nodes of a draft; changes carry it out.
//!
//! At each level a run of nodes, the window, is replaced by new nodes. At level 0 the window is the
//! leaves that the range touches. Above, it is the parents of the window below: their children
//! before and behind that window stay, and the new nodes of the level below replace those inside.
//! The draft ends at the first level where one child of a node is replaced by one: one store into
//! the node's cell makes all nodes below visible.
//!
//! A window ends at an upper bound that does not change. When the last entry of a leaf is cut or
//! removed, the leaf's upper bound falls, and the gap before the next leaf's first entry grows:
//! then the next leaf joins the window, and only its gap word changes.
//!
//! A node that is not full enough takes in one neighbour, under the same parent if there is one.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

use sapwood_format::maple::word::Word;

use super::entries::{Entries, Limits, Part, Slot, leaf_gap};
use super::node::{Inner, Leaf, Mem, inner_size, leaf_holds};
use super::path::{Path, Root};
use super::splice::Splice;
use crate::gap::code;

/// A child of a new inner node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Child<W> {
    /// A live node, or with `new` the number of a new node of the level below.
    pub(crate) node: u32,
    pub(crate) new: bool,
    /// Its upper bound.
    pub(crate) upper: W,
    /// The code of its largest gap.
    pub(crate) gap: u16,
}

/// New nodes of one level above the leaves.
#[derive(Default)]
pub(crate) struct Level<W> {
    /// The children of all new nodes.
    pub(crate) children: Vec<Child<W>>,
    /// The children of each new node: from and to.
    pub(crate) parts: Vec<(usize, usize)>,
    /// The node that the only new one is a copy of, but for one child, which is the only one in
    /// `children`, and its place.
    pub(crate) copied: Option<(Inner<W>, usize)>,
}

/// An entry whose right part gets a value that is made of the entry's: because the left part stays,
/// or because values depend on where their entries begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut<W> {
    pub(crate) slot: *const u8,
    /// The first index of the entry.
    pub(crate) start: W,
}

/// The store that makes the new nodes visible.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome<W> {
    /// The map needs no change.
    Same,
    /// The map has no entries any more.
    Empty,
    /// The map has a new root, with `height` levels of inner nodes: the only new node of the
    /// highest level with new nodes, or a node that stays.
    Root { node: Child<W>, height: usize },
    /// One child of the node at this level of the path is replaced.
    Cell { level: usize, node: Child<W> },
}

/// Whole subtrees that are unlinked: children of an inner node at a level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) parent: u32,
    pub(crate) level: usize,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// A draft. Its vectors keep their memory from one draft to the next.
pub(crate) struct Draft<W> {
    pub(crate) entries: Entries<W>,
    pub(crate) leaves: Vec<Part<W>>,
    /// Levels from 1 up. There may be more than are used.
    levels: Vec<Level<W>>,
    /// Levels above 0 that have new nodes.
    pub(crate) used: usize,
    pub(crate) outcome: Outcome<W>,
    pub(crate) path: Path<W>,
    /// Nodes that are replaced, with their levels.
    pub(crate) gone: Vec<(u32, usize)>,
    pub(crate) spans: Vec<Span>,
    /// Slots of entries that are overwritten.
    pub(crate) dropped: Vec<*const u8>,
    /// The range of the change.
    pub(crate) range: (W, W),
    /// The entry whose right part gets a value of its own.
    pub(crate) cut: Option<Cut<W>>,
    /// How the only new leaf is spliced, if it is not made of the entries.
    pub(crate) spliced: Option<Splice<W>>,
    below: Vec<Child<W>>,
}

// SAFETY: the addresses are of leaves of the map that owns the draft, and are used only while its
// lock is held.
unsafe impl<W: Word> Send for Draft<W> {}

impl<W: Word> Draft<W> {
    pub(crate) fn new() -> Self {
        Draft {
            entries: Entries::<W>::default(),
            leaves: Vec::new(),
            levels: Vec::new(),
            used: 0,
            outcome: Outcome::Same,
            path: Path::<W>::nowhere(),
            gone: Vec::new(),
            spans: Vec::new(),
            dropped: Vec::new(),
            range: (W::ZERO, W::ZERO),
            cut: None,
            spliced: None,
            below: Vec::new(),
        }
    }

    /// Makes room for any draft in a tree with up to `height` levels of inner nodes, of which
    /// `leaves` new leaves are the most: such a draft then takes nothing from the process's heap.
    pub(crate) fn reserve(
        &mut self,
        limits: &Limits,
        height: usize,
        leaves: usize,
    ) -> Result<(), TryReserveError> {
        fn room<T>(list: &mut Vec<T>, count: usize) -> Result<(), TryReserveError> {
            list.try_reserve(count.saturating_sub(list.len()))
        }
        let most = leaf_holds::<W>(limits.leaf, limits.slot, 1);
        // The entries of two leaves, one of them cut in two, and the new one.
        self.entries.reserve(2 * most + 3)?;
        room(&mut self.dropped, 2 * most)?;
        room(&mut self.leaves, leaves + 1)?;
        room(&mut self.below, leaves + 2)?;
        // At each level the window's two nodes, and with a neighbour those below it.
        room(&mut self.gone, (height + 1) * (height + 6))?;
        room(&mut self.spans, 2 * height)?;
        // A root can be split, and the new one again, where nodes are tiny.
        let levels = height + leaves.ilog2() as usize + 2;
        room(&mut self.levels, levels)?;
        if self.levels.len() < levels {
            self.levels.resize_with(levels, Level::<W>::default);
        }
        let children = 2 * limits.fanout + leaves + 2;
        for level in &mut self.levels {
            room(&mut level.children, children)?;
            room(&mut level.parts, children.div_ceil(limits.fanout) + 1)?;
        }
        Ok(())
    }

    /// New nodes of levels above 0, from level 1 up.
    pub(crate) fn levels(&self) -> &[Level<W>] {
        &self.levels[..self.used]
    }

    /// Bytes of each new node, in the order in which they are made.
    pub(crate) fn sizes<'a>(&'a self, limits: &Limits) -> impl Iterator<Item = usize> + use<'a, W> {
        let leaves = self.leaves.iter().map(|part| part.bytes);
        let parts = self.levels().iter().flat_map(|level| &level.parts);
        let limits = *limits;
        leaves.chain(parts.map(move |&(from, to)| {
            let n = to - from;
            inner_size::<W>(n, limits.filled(n))
        }))
    }

    /// Drafts the change that makes `a..=b` one entry (`put`), or a gap.
    ///
    /// # Safety
    /// The tree is live, and not changed until the draft is carried out or made anew.
    pub(crate) unsafe fn make<const NATIVE: bool>(
        &mut self,
        mem: Mem,
        root: Root,
        limits: &Limits,
        (a, b): (W, W),
        put: bool,
    ) {
        self.entries.clear();
        self.leaves.clear();
        self.gone.clear();
        self.spans.clear();
        self.dropped.clear();
        self.below.clear();
        self.range = (a, b);
        self.cut = None;
        self.spliced = None;
        self.used = 0;
        self.outcome = Outcome::Same;
        if root.node == 0 {
            if put {
                self.entries.push(a, b, Slot::NEW);
                self.cut(limits, W::ZERO, true, false);
                self.finish(limits, 0);
            }
            return;
        }
        // SAFETY: the caller's promise.
        let first = unsafe { Path::<W>::to::<NATIVE>(mem, root, a) };
        let upper = first.upper(0);
        // A leaf with room is changed in place, before a draft is made.
        if b <= upper && !limits.roomy && self.splice(mem, &first, limits, (a, b), put) {
            self.path = first;
            return;
        }
        let last = if b <= upper {
            first
        } else {
            // SAFETY: the caller's promise.
            unsafe { Path::<W>::to::<NATIVE>(mem, root, b) }
        };
        let mut window = Window {
            mem,
            first,
            last,
            kept: false,
        };
        if !self.collect(&mut window, limits, (a, b), put) {
            return;
        }
        if b > upper {
            self.subtrees(&window);
        }
        if self.leaf_level(&mut window, limits, b, put) {
            self.upper_levels(&mut window, limits);
        }
        self.path = window.first;
    }

    /// Collects the window's entries as they will be. Returns whether anything changes.
    fn collect(
        &mut self,
        window: &mut Window<W>,
        limits: &Limits,
        (a, b): (W, W),
        put: bool,
    ) -> bool {
        let slot = limits.slot;
        let (left, right) = (window.first_leaf(), window.last_leaf());
        let spans = window.spans();
        // The first entry that the range may touch, and the first behind it.
        let from = left.rank::<false>(a);
        let touched = spans || (from < left.len() && left.start(from) <= b);
        if !touched && !put {
            return false;
        }
        self.entries.take(left, 0, from, slot);
        let mut over = from;
        let cut_left = from < left.len() && left.start(from) < a;
        if cut_left {
            self.entries
                .take_cut(left, from, slot, left.start(from), a - W::ONE);
            over += 1;
        }
        if put {
            self.entries.push(a, b, Slot::NEW);
        }
        let behind = if b == W::MAX {
            right.len()
        } else {
            right.rank::<false>(b + W::ONE)
        };
        let cut_right = behind < right.len() && right.start(behind) <= b;
        if spans {
            window.kept = behind == 0 && !cut_right;
            self.drop_slots(left, over, left.len(), slot);
            self.drop_slots(right, 0, behind, slot);
        } else {
            self.drop_slots(left, over, behind, slot);
        }
        if window.kept {
            return true;
        }
        let mut rest = behind;
        if cut_right {
            let end = right.end(behind);
            let both = !spans && cut_left && behind == from;
            if both || limits.shifts {
                let at = right.slot(behind, slot);
                self.cut = Some(Cut {
                    slot: at,
                    start: right.start(behind),
                });
                self.entries.push(b + W::ONE, end, Slot::CLONE);
                if !both {
                    self.dropped.push(at);
                }
            } else {
                self.entries.take_cut(right, behind, slot, b + W::ONE, end);
            }
            rest += 1;
        }
        self.entries.take(right, rest, right.len(), slot);
        true
    }

    fn drop_slots(&mut self, leaf: Leaf<W>, from: usize, to: usize, slot: usize) {
        for k in from..to {
            self.dropped.push(leaf.slot(k, slot));
        }
    }

    /// Notes the subtrees between the first leaf of the window and the last.
    fn subtrees(&mut self, window: &Window<W>) {
        let Window { first, last, .. } = window;
        for level in 1..=first.height {
            let (from, to) = (first.index(level) + 1, last.index(level));
            if first.node[level] == last.node[level] {
                self.spans.push(Span {
                    parent: first.node[level],
                    level,
                    from,
                    to,
                });
                break;
            }
            self.spans.push(Span {
                parent: first.node[level],
                level,
                from,
                to: first.inner(level).len(),
            });
            self.spans.push(Span {
                parent: last.node[level],
                level,
                from: 0,
                to,
            });
        }
    }

    /// Decides which leaves there will be. Returns whether levels above have to change.
    fn leaf_level(&mut self, window: &mut Window<W>, limits: &Limits, b: W, put: bool) -> bool {
        let slot = limits.slot;
        if !window.kept && !window.last.is_last(0) {
            let upper = window.last.upper(0);
            if self.entries.ends.last() != Some(&upper) {
                // The leaf's upper bound would fall: the next leaf joins.
                window.right(0, &mut self.gone);
                window.kept = true;
            }
        }
        let whole = window.is_whole(0);
        if self.entries.len() == 0 && !window.kept {
            if whole {
                self.gone.push((window.first.node[0], 0));
                window.push_last(0, &mut self.gone);
                window.push_above(0, &mut self.gone);
                self.outcome = Outcome::Empty;
                return false;
            }
            // The last leaf of the tree is removed: the leaf before it takes over its bound.
            window.left(0, &mut self.gone);
            self.entries.take_before(window.first_leaf(), slot);
        } else if self.entries.len() != 0 && self.entries.len() < limits.least {
            if window.kept {
                let next = window.last_leaf();
                self.entries.take(next, 0, next.len(), slot);
                window.kept = false;
            } else if !whole {
                if window.take_neighbour(0, &mut self.gone) {
                    let next = window.last_leaf();
                    self.entries.take(next, 0, next.len(), slot);
                } else {
                    self.entries.take_before(window.first_leaf(), slot);
                }
            }
        }
        self.gone.push((window.first.node[0], 0));
        if !window.kept {
            window.push_last(0, &mut self.gone);
        }
        let lower = window.first.lower(0);
        let rightmost = window.last.is_last(0) && !window.kept;
        let append = put && rightmost && self.entries.ends.last() == Some(&b);
        self.cut(limits, lower, rightmost, append);
        if window.kept {
            let leaf = window.last_leaf();
            let upper = window.last.upper(0);
            let from = self.entries.ends.last().map_or(lower, |&end| end + W::ONE);
            let end = if window.last.is_last(0) {
                W::MAX
            } else {
                leaf.last()
            };
            self.below.push(Child {
                node: window.last.node[0],
                new: false,
                upper,
                gap: leaf_gap(leaf, from, end),
            });
        } else if let Some(last) = self.below.last_mut() {
            last.upper = window.last.upper(0);
        }
        if window.is_whole(0) {
            window.push_above(0, &mut self.gone);
            self.finish(limits, 0);
            return false;
        }
        true
    }

    /// Cuts the entries into leaves and notes these for the level above. `rightmost` says that they
    /// are the last leaves of the tree.
    fn cut(&mut self, limits: &Limits, mut lower: W, rightmost: bool, append: bool) {
        if self.entries.len() == 0 {
            return;
        }
        self.entries.cut(limits, append, &mut self.leaves);
        for (i, part) in self.leaves.iter().enumerate() {
            let upper = self.entries.ends[part.to - 1];
            let mut gap = self.entries.gap(part.from, part.to, lower);
            if rightmost && part.to == self.entries.len() {
                gap = gap.max(code(W::MAX - upper));
            }
            self.below.push(Child {
                node: i as u32,
                new: true,
                upper,
                gap,
            });
            lower = upper.above();
        }
    }

    /// Drafts the levels above one where the window was the whole level: a new root over the new
    /// nodes.
    fn finish(&mut self, limits: &Limits, mut height: usize) {
        while self.below.len() > 1 {
            height += 1;
            let mut below = core::mem::take(&mut self.below);
            self.next_level().children.append(&mut below);
            self.below = below;
            self.part(limits, false);
        }
        self.outcome = match self.below.pop() {
            Some(node) => Outcome::Root { node, height },
            None => Outcome::Empty,
        };
    }

    fn upper_levels(&mut self, window: &mut Window<W>, limits: &Limits) {
        for height in 1..=window.first.height {
            let (left, right) = (window.first.inner(height), window.last.inner(height));
            let (from, to) = (window.first.index(height), window.last.index(height));
            let one = window.first.node[height] == window.last.node[height] && from == to;
            if let (true, &[node]) = (one, &self.below[..]) {
                self.outcome = Outcome::Cell {
                    level: height,
                    node,
                };
                return;
            }
            let upper = window.last.upper(height);
            let level = self.next_level();
            level.take(left, 0, from, W::MAX);
            self.levels[self.used - 1].children.append(&mut self.below);
            let level = &mut self.levels[self.used - 1];
            level.take(right, to + 1, right.len(), upper);
            let whole = window.is_whole(height);
            if whole && level.children.len() == 1 {
                // The root would have one child: this child becomes the root.
                self.gone.push((window.first.node[height], height));
                window.push_last(height, &mut self.gone);
                self.below.append(&mut self.levels[self.used - 1].children);
                self.used -= 1;
                window.push_above(height, &mut self.gone);
                self.finish(limits, height - 1);
                return;
            }
            if !whole && level.children.len() < limits.fanout / 2 {
                if window.take_neighbour(height, &mut self.gone) {
                    let next = window.last.inner(height);
                    let upper = window.last.upper(height);
                    self.levels[self.used - 1].take(next, 0, next.len(), upper);
                } else {
                    let before = window.first.inner(height);
                    let upper = window.first.upper(height);
                    let level = &mut self.levels[self.used - 1];
                    let count = level.children.len();
                    level.take(before, 0, before.len(), upper);
                    level.children.rotate_left(count);
                }
            }
            self.gone.push((window.first.node[height], height));
            window.push_last(height, &mut self.gone);
            self.part(limits, window.last.is_last(height));
            if window.is_whole(height) {
                window.push_above(height, &mut self.gone);
                self.finish(limits, height);
                return;
            }
        }
    }

    /// Continues a draft up to the root where it would change a cell: an inner node that a snapshot
    /// sees, or that is not a transaction's own, is copied, not changed. In a transaction (`txn`),
    /// it goes up to the first node that is fresh.
    pub(crate) fn copy_up(&mut self, txn: bool) {
        let Outcome::Cell { level, mut node } = self.outcome else {
            return;
        };
        let height = self.path.height;
        for above in level..=height {
            let (inner, at) = (self.path.inner(above), self.path.index(above));
            if txn && inner.is_fresh() {
                self.outcome = Outcome::Cell { level: above, node };
                return;
            }
            let copy = self.next_level();
            copy.copied = Some((inner, at));
            copy.children.push(node);
            copy.parts.push((0, inner.len()));
            node = Child {
                node: 0,
                new: true,
                upper: W::ZERO,
                gap: inner.largest_gap_but(at).max(node.gap),
            };
            self.gone.push((self.path.node[above], above));
        }
        self.outcome = Outcome::Root { node, height };
    }

    fn next_level(&mut self) -> &mut Level<W> {
        if self.levels.len() == self.used {
            self.levels.push(Level::<W>::default());
        }
        self.used += 1;
        let level = &mut self.levels[self.used - 1];
        level.children.clear();
        level.parts.clear();
        level.copied = None;
        level
    }

    /// Cuts the children of the newest level into nodes and notes these for the level above. If the
    /// last node of the level is among them, the node before it stays as full as it can be, as
    /// entries may come in order.
    fn part(&mut self, limits: &Limits, rightmost: bool) {
        let level = &mut self.levels[self.used - 1];
        let n = level.children.len();
        let count = n.div_ceil(limits.fanout);
        let least = limits.fanout / 2;
        if count == 2 && rightmost && n - least <= limits.fanout {
            level.parts.extend([(0, n - least), (n - least, n)]);
        } else {
            level
                .parts
                .extend((0..count).map(|i| (n * i / count, n * (i + 1) / count)));
        }
        for (i, &(from, to)) in level.parts.iter().enumerate() {
            let children = &level.children[from..to];
            self.below.push(Child {
                node: i as u32,
                new: true,
                upper: children[children.len() - 1].upper,
                gap: children.iter().map(|child| child.gap).max().unwrap_or(0),
            });
        }
    }
}

impl<W: Word> Level<W> {
    /// Appends children of a node that stay; `upper` is the node's upper bound, which its last
    /// child has.
    fn take(&mut self, inner: Inner<W>, from: usize, to: usize, upper: W) {
        self.children.extend((from..to).map(|i| Child {
            node: inner.child(i),
            new: false,
            upper: if i + 1 < inner.len() {
                inner.pivot(i)
            } else {
                upper
            },
            gap: inner.gap(i),
        }));
    }
}

/// The first and the last node of the window at each level.
struct Window<W> {
    mem: Mem,
    first: Path<W>,
    last: Path<W>,
    /// The last leaf stays as it is.
    kept: bool,
}

impl<W: Word> Window<W> {
    fn leaf(&self, node: u32) -> Leaf<W> {
        // SAFETY: the paths' nodes at level 0 are live leaves, as the caller of `make` promised.
        unsafe { Leaf::<W>::at(self.mem.at(node)) }
    }

    fn first_leaf(&self) -> Leaf<W> {
        self.leaf(self.first.node[0])
    }

    fn last_leaf(&self) -> Leaf<W> {
        self.leaf(self.last.node[0])
    }

    /// Whether the window has more than one leaf.
    fn spans(&self) -> bool {
        self.first.node[0] != self.last.node[0]
    }

    /// Whether the window is all nodes of a level.
    fn is_whole(&self, level: usize) -> bool {
        self.first.is_first(level) && self.last.is_last(level)
    }

    fn right(&mut self, level: usize, gone: &mut Vec<(u32, usize)>) -> bool {
        let first = self.first.node;
        // The first node of the window at a level is noted when the level is done.
        self.last.right(level, |at, node| {
            if first[at] != node {
                gone.push((node, at));
            }
        })
    }

    fn left(&mut self, level: usize, gone: &mut Vec<(u32, usize)>) -> bool {
        let last = self.last.node;
        self.first.left(level, |at, node| {
            if last[at] != node {
                gone.push((node, at));
            }
        })
    }

    /// Takes in a neighbour of the window at a level, under the same parent if there is one.
    /// Returns true for the right neighbour, false for the left one.
    fn take_neighbour(&mut self, level: usize, gone: &mut Vec<(u32, usize)>) -> bool {
        let right = self.last.siblings(level).1;
        let left = self.first.siblings(level).0;
        if right || (!left && !self.last.is_last(level)) {
            self.right(level, gone);
            return true;
        }
        self.left(level, gone);
        false
    }

    /// Notes the last node at a level as replaced, unless it is the first.
    fn push_last(&self, level: usize, gone: &mut Vec<(u32, usize)>) {
        if self.last.node[level] != self.first.node[level] {
            gone.push((self.last.node[level], level));
        }
    }
    /// Notes the nodes above a level where the window is the whole level as replaced.
    fn push_above(&self, level: usize, gone: &mut Vec<(u32, usize)>) {
        for above in level + 1..=self.first.height {
            gone.push((self.first.node[above], above));
            self.push_last(above, gone);
        }
    }
}
