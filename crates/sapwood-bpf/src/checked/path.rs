//! The path from the root to a leaf: found by a key, led on to the next leaf, and looked at again.

use sapwood::qp::format::LEAF;

use super::nodes::{Branch, Nodes, Trouble, Window};

#[derive(Clone, Copy)]
pub(super) struct Frame {
    cell: u32,
    pub(super) branch: Branch,
    index: usize,
}

/// A place in a trie: on a leaf, or nowhere.
#[derive(Default)]
pub(super) struct Path {
    root: u32,
    pub(super) frames: Vec<Frame>,
    /// The leaf's cell, or 0.
    pub(super) leaf: u32,
    /// The frames before this one are those that the leaf before was reached by; this one turned
    /// to another child.
    pub(super) turned: Option<usize>,
    /// Branches read.
    pub(super) steps: u64,
}

/// Bytes that two keys have in common, or `None` when they are the same.
pub(super) fn mismatch(a: &[u8], b: &[u8]) -> Option<usize> {
    let common = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    (common < a.len() || common < b.len()).then_some(common)
}

impl Path {
    /// From a cell down to a leaf, by the children that are picked: whether to a leaf.
    fn down(
        &mut self,
        nodes: &Nodes<impl Window>,
        mut cell: u32,
        pick: impl Fn(&Branch) -> Option<usize>,
    ) -> Result<bool, Trouble> {
        loop {
            // Also where it is no leaf: what is wrong with it may have been changed meanwhile.
            self.leaf = cell;
            if cell & LEAF != 0 {
                return Ok(true);
            }
            let min = self.frames.last().map_or(0, |top| top.branch.offset() + 1);
            let branch = nodes.branch(cell, min)?;
            self.steps += 1;
            let picked = pick(&branch);
            let index = picked.unwrap_or(0);
            self.frames.push(Frame {
                cell,
                branch,
                index,
            });
            cell = nodes.cell(&branch, index);
            if picked.is_none() {
                // So that the path can be looked at again.
                self.leaf = cell;
                return Ok(false);
            }
        }
    }

    /// To the first leaf below a cell.
    fn down_first(&mut self, nodes: &Nodes<impl Window>, cell: u32) -> Result<(), Trouble> {
        self.down(nodes, cell, |_| Some(0)).map(|_| ())
    }

    fn begin(&mut self, nodes: &Nodes<impl Window>) -> bool {
        self.frames.clear();
        self.leaf = 0;
        self.turned = None;
        self.root = nodes.root();
        self.root != 0
    }

    /// Follows a key as far as it leads: whether to a leaf.
    pub(super) fn follow(
        &mut self,
        nodes: &Nodes<impl Window>,
        key: &[u8],
    ) -> Result<bool, Trouble> {
        if !self.begin(nodes) {
            return Ok(false);
        }
        self.down(nodes, self.root, |branch| {
            match branch.offset() > key.len() {
                true => None,
                false => branch.find(key.get(branch.offset()).copied()),
            }
        })
    }

    /// To the first leaf.
    pub(super) fn first(&mut self, nodes: &Nodes<impl Window>) -> Result<(), Trouble> {
        if !self.begin(nodes) {
            return Ok(());
        }
        self.down_first(nodes, self.root)
    }

    /// To the least leaf whose key is not less than `key`, or is greater when `strict`.
    pub(super) fn seek(
        &mut self,
        nodes: &Nodes<impl Window>,
        key: &[u8],
        strict: bool,
    ) -> Result<(), Trouble> {
        if !self.begin(nodes) {
            return Ok(());
        }
        // Off the key's path, any leaf below tells where the key would leave it: the first.
        self.down(nodes, self.root, |branch| {
            let byte = key.get(branch.offset()).copied();
            Some(branch.find(byte).unwrap_or(0))
        })?;
        let found = nodes.key(&nodes.leaf(self.leaf)?);
        let Some(at) = mismatch(key, &found) else {
            return match strict {
                true => self.step(nodes).map(|()| self.turned = None),
                false => Ok(()),
            };
        };
        let mut below = self.leaf;
        while let Some(top) = self.frames.last_mut() {
            let offset = top.branch.offset();
            if offset < at {
                break;
            }
            if offset == at {
                let rank = top.branch.rank(key.get(at).copied());
                if rank < top.branch.children() {
                    top.index = rank;
                    let cell = nodes.cell(&top.branch, rank);
                    return self.down_first(nodes, cell);
                }
                self.frames.pop();
                return self.step(nodes).map(|()| self.turned = None);
            }
            below = top.cell;
            self.frames.pop();
        }
        match found.get(at) > key.get(at) {
            true => self.down_first(nodes, below),
            false => self.step(nodes).map(|()| self.turned = None),
        }
    }

    /// To the next leaf.
    pub(super) fn step(&mut self, nodes: &Nodes<impl Window>) -> Result<(), Trouble> {
        while let Some(top) = self.frames.last_mut() {
            if top.index + 1 < top.branch.children() {
                top.index += 1;
                let cell = nodes.cell(&top.branch, top.index);
                self.turned = Some(self.frames.len() - 1);
                return self.down_first(nodes, cell);
            }
            self.frames.pop();
        }
        self.leaf = 0;
        self.turned = None;
        Ok(())
    }

    /// Whether a key is one of those that this path leads to, and comes right after the one before.
    pub(super) fn leads_to(&self, key: &[u8], before: Option<&[u8]>) -> bool {
        let from = self.turned.unwrap_or(0);
        let labels = self.frames[from..].iter().all(|frame| {
            let offset = frame.branch.offset();
            offset <= key.len() && frame.branch.label(frame.index) == key.get(offset).copied()
        });
        labels
            && match (self.turned, before) {
                // Where neighbours part, and nowhere else, their paths do.
                (Some(turned), Some(before)) => {
                    mismatch(before, key) == Some(self.frames[turned].branch.offset())
                }
                _ => true,
            }
    }

    /// Looks at an empty path again: the map must have the root that it had.
    pub(super) fn is_over(&self, nodes: &Nodes<impl Window>) -> Result<(), Trouble> {
        let same = nodes.root() == self.root;
        same.then_some(()).ok_or(Trouble::Changed)
    }

    /// Looks at the path again: the root, or the last branches of a long path, must lead where they
    /// led.
    pub(super) fn look_again(
        &self,
        nodes: &Nodes<impl Window>,
        whole: bool,
    ) -> Result<(), Trouble> {
        const DEEPEST: usize = 16;
        let from = match whole {
            true => 0,
            false => self.frames.len().saturating_sub(DEEPEST),
        };
        let mut same = from > 0 || nodes.root() == self.root;
        for (i, frame) in self.frames.iter().enumerate().skip(from) {
            let next = self.frames.get(i + 1).map_or(self.leaf, |next| next.cell);
            same &= nodes.cell(&frame.branch, frame.index) == next && nodes.is_still(&frame.branch);
        }
        same.then_some(()).ok_or(Trouble::Changed)
    }
}
