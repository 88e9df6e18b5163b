//! The path from the root to an entry. A key finds it, a walk moves it to the next entry, and it
//! can be checked again.

use sapwood_format::cluster::tag;
use sapwood_format::{KIND, LEAF, Window, is_branch};

use crate::Trouble;
use crate::clusters::{Borders, Cluster};
use crate::nodes::{Branch, Copied, Entry, Nodes, mismatch};

#[derive(Clone, Copy)]
struct Frame {
    cell: u32,
    branch: Branch,
    index: usize,
}

/// Where a key that is not there parts from the keys of the trie.
struct Parting {
    /// The first byte in which it differs from the entry to which its path leads.
    at: usize,
    /// Whether it is less than that entry's key.
    less: bool,
    /// The highest cell on the path, if there is one, below which all keys share the bytes before
    /// and that byte.
    below: Option<u32>,
}

/// The trouble of an entry that the path to it contradicts.
fn unfit(entry: &Entry) -> Trouble {
    Trouble::Damaged("a key that does not fit its place", entry.block().0)
}

/// A path in a trie, which ends at an entry or is empty.
#[derive(Default)]
pub(crate) struct Path {
    root: u32,
    frames: Vec<Frame>,
    /// The root, or the cell to which the last branch leads. It is the cell of a cluster or of the
    /// leaf.
    end: u32,
    /// The cluster of `end`, if it is one, and words of it that were read, with their places: the
    /// one that says where the entry is, and those of dead slots on the way to it.
    cluster: Option<Cluster>,
    slots: Vec<(usize, u32)>,
    /// The borders of its entries, and the slot of the entry.
    within: Option<(Borders, usize)>,
    /// The slot of the entry before, if it is in the same cluster.
    before: usize,
    /// The entry, unless the path is empty.
    pub(crate) entry: Option<Entry>,
    /// The first frame that does not lead to the entry before as well: in this frame the walk
    /// turned to another child. If it is behind the last one, the entry before is in the same
    /// cluster.
    turned: Option<usize>,
    /// The number of branches and clusters that were read.
    pub(crate) steps: u64,
}

impl Path {
    /// Descends from a cell to one that is not a branch's, by the children that `pick` returns.
    fn down(
        &mut self,
        nodes: &Nodes<impl Window>,
        mut cell: u32,
        pick: impl Fn(&Branch) -> usize,
    ) -> Result<(), Trouble> {
        self.leave_cluster();
        loop {
            // This is kept also when the cell is damaged, because a change may be the cause.
            self.end = cell;
            self.entry = None;
            if !is_branch(cell) {
                return Ok(());
            }
            let min = self.frames.last().map_or(0, |top| top.branch.offset() + 1);
            let branch = nodes.branch(cell, min)?;
            self.steps += 1;
            let index = pick(&branch);
            self.frames.push(Frame {
                cell,
                branch,
                index,
            });
            cell = nodes.cell(&branch, index);
        }
    }

    fn leave_cluster(&mut self) {
        self.cluster = None;
        self.slots.clear();
        self.within = None;
    }

    /// Enters what is at the path's end: a leaf, or a cluster, which is returned with its borders.
    fn enter(&mut self, nodes: &Nodes<impl Window>) -> Result<Option<(Cluster, Borders)>, Trouble> {
        if self.end & KIND == LEAF {
            self.entry = Some(nodes.leaf(self.end)?);
            return Ok(None);
        }
        let cluster = nodes.cluster(self.end)?;
        self.cluster = Some(cluster);
        self.steps += 1;
        let min = self.frames.last().map_or(0, |top| top.branch.offset());
        Ok(Some((cluster, nodes.borders(&cluster, min)?)))
    }

    /// Moves to the first of these slots of the cluster that is not dead; returns whether there is
    /// one. The path stays where it is if there is none.
    fn turn(
        &mut self,
        nodes: &Nodes<impl Window>,
        (cluster, borders): (&Cluster, &Borders),
        slots: impl Iterator<Item = usize>,
    ) -> Result<bool, Trouble> {
        for slot in slots {
            let seen = &mut self.slots;
            let entry = nodes.slot(cluster, slot, |at, word| seen.push((at, word)))?;
            if entry.is_some() {
                (self.entry, self.within) = (entry, Some((*borders, slot)));
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Moves to the first entry of the cluster from a slot on. The last slot is never dead.
    fn turn_up(
        &mut self,
        nodes: &Nodes<impl Window>,
        (cluster, borders): (&Cluster, &Borders),
        slot: usize,
    ) -> Result<(), Trouble> {
        self.slots.clear();
        self.entry = None;
        self.turn(nodes, (cluster, borders), slot..borders.len())?;
        Ok(())
    }

    /// Moves to the last entry of the cluster before a slot; returns whether there is one.
    fn turn_down(
        &mut self,
        nodes: &Nodes<impl Window>,
        (cluster, borders): (&Cluster, &Borders),
        slot: usize,
    ) -> Result<bool, Trouble> {
        self.slots.clear();
        self.turn(nodes, (cluster, borders), (0..slot).rev())
    }

    /// Moves to the entry of the cluster that shares the longest prefix with a key, or with the
    /// keys of its slot if that is dead.
    fn turn_to(
        &mut self,
        nodes: &Nodes<impl Window>,
        (cluster, borders): (&Cluster, &Borders),
        key: &[u8],
    ) -> Result<(), Trouble> {
        let slot = borders.search(key);
        self.turn_up(nodes, (cluster, borders), slot)?;
        let behind = match self.within {
            Some((_, behind)) if behind > slot => behind,
            _ => return Ok(()),
        };
        let entry = self.entry;
        let is_left = self.turn(nodes, (cluster, borders), (0..slot).rev())?;
        let before = self.within.map_or(0, |(_, before)| before);
        if !is_left || !borders.is_nearer(before, slot, behind) {
            (self.entry, self.within) = (entry, Some((*borders, behind)));
        }
        Ok(())
    }

    /// Moves to the first entry below a cell.
    fn down_first(&mut self, nodes: &Nodes<impl Window>, cell: u32) -> Result<(), Trouble> {
        self.down(nodes, cell, |_| 0)?;
        match self.enter(nodes)? {
            Some((cluster, borders)) => self.turn_up(nodes, (&cluster, &borders), 0),
            None => Ok(()),
        }
    }

    /// Moves to the last entry below a cell.
    fn down_last(&mut self, nodes: &Nodes<impl Window>, cell: u32) -> Result<(), Trouble> {
        self.down(nodes, cell, |branch| branch.children() - 1)?;
        match self.enter(nodes)? {
            Some((cluster, borders)) => {
                self.turn_up(nodes, (&cluster, &borders), borders.len() - 1)
            }
            None => Ok(()),
        }
    }

    fn begin(&mut self, nodes: &Nodes<impl Window>) -> bool {
        self.frames.clear();
        self.leave_cluster();
        self.entry = None;
        self.turned = None;
        self.root = nodes.root();
        self.root != 0
    }

    /// Moves to the first entry.
    pub(crate) fn first(&mut self, nodes: &Nodes<impl Window>) -> Result<(), Trouble> {
        match self.begin(nodes) {
            true => self.down_first(nodes, self.root),
            false => Ok(()),
        }
    }

    /// Moves from the root to an entry that shares the longest prefix with a key; returns where the
    /// key parts from it, or nothing when the entry has the key. The frames below the parting are
    /// gone then.
    fn approach(
        &mut self,
        nodes: &Nodes<impl Window>,
        key: &[u8],
    ) -> Result<Option<Parting>, Trouble> {
        // Off the key's path, any entry below shows where the key would leave the path.
        self.down(nodes, self.root, |branch| branch.child(key))?;
        if let Some((cluster, borders)) = self.enter(nodes)? {
            self.turn_to(nodes, (&cluster, &borders), key)?;
        }
        let found = self.entry.map_or(Vec::new(), |entry| nodes.key(&entry));
        // All later steps depend on this path.
        self.look_again(nodes, true)?;
        let Some(at) = mismatch(key, &found) else {
            return Ok(None);
        };
        let less = key.get(at) < found.get(at);
        let mut below = None;
        while self
            .frames
            .last()
            .is_some_and(|top| top.branch.offset() > at)
        {
            below = self.frames.pop().map(|top| top.cell);
        }
        Ok(Some(Parting { at, less, below }))
    }

    /// Moves to the least entry whose key is not less than `key`, or is greater when `strict`.
    fn seek(
        &mut self,
        nodes: &Nodes<impl Window>,
        key: &[u8],
        strict: bool,
    ) -> Result<(), Trouble> {
        if !self.begin(nodes) {
            return Ok(());
        }
        let Some(Parting { at, less, below }) = self.approach(nodes, key)? else {
            return match strict {
                true => self.step_apart(nodes),
                false => Ok(()),
            };
        };
        match (below, self.cluster, self.within) {
            // All keys below this cell share the bytes in which the key differs.
            (Some(cell), _, _) if less => self.down_first(nodes, cell),
            (Some(_), _, _) => {
                self.leave_cluster();
                self.step_apart(nodes)
            }
            (None, Some(cluster), Some((borders, slot))) => match borders.place(slot, at, less) {
                place if place < borders.len() => self.turn_up(nodes, (&cluster, &borders), place),
                _ => {
                    self.leave_cluster();
                    self.step_apart(nodes)
                }
            },
            _ if less => Ok(()),
            _ => self.step_apart(nodes),
        }
    }

    /// Moves to the greatest entry whose key is less than `key`, or to the last one.
    fn seek_back(&mut self, nodes: &Nodes<impl Window>, key: Option<&[u8]>) -> Result<(), Trouble> {
        if !self.begin(nodes) {
            return Ok(());
        }
        let Some(key) = key else {
            return self.down_last(nodes, self.root);
        };
        let Some(Parting { at, less, below }) = self.approach(nodes, key)? else {
            return self.step_back(nodes);
        };
        match (below, self.cluster, self.within) {
            (Some(cell), _, _) if !less => self.down_last(nodes, cell),
            (Some(_), _, _) => {
                self.leave_cluster();
                self.step_back(nodes)
            }
            (None, Some(cluster), Some((borders, slot))) => {
                let place = borders.place(slot, at, less);
                if self.turn_down(nodes, (&cluster, &borders), place)? {
                    return Ok(());
                }
                self.leave_cluster();
                self.step_back(nodes)
            }
            _ if less => self.step_back(nodes),
            _ => Ok(()),
        }
    }

    /// Moves to the entry before.
    fn step_back(&mut self, nodes: &Nodes<impl Window>) -> Result<(), Trouble> {
        if let (Some(cluster), Some((borders, slot))) = (self.cluster, self.within) {
            if self.turn_down(nodes, (&cluster, &borders), slot)? {
                return Ok(());
            }
        }
        while let Some(top) = self.frames.last_mut() {
            if top.index > 0 {
                top.index -= 1;
                let cell = nodes.cell(&top.branch, top.index);
                return self.down_last(nodes, cell);
            }
            self.frames.pop();
        }
        self.leave_cluster();
        self.entry = None;
        Ok(())
    }

    /// Moves to the next entry.
    pub(crate) fn step(&mut self, nodes: &Nodes<impl Window>) -> Result<(), Trouble> {
        if let (Some(cluster), Some((borders, slot))) = (self.cluster, self.within) {
            if slot + 1 < borders.len() {
                self.turned = Some(self.frames.len());
                self.before = slot;
                return self.turn_up(nodes, (&cluster, &borders), slot + 1);
            }
        }
        while let Some(top) = self.frames.last_mut() {
            if top.index + 1 < top.branch.children() {
                top.index += 1;
                let cell = nodes.cell(&top.branch, top.index);
                self.turned = Some(self.frames.len() - 1);
                return self.down_first(nodes, cell);
            }
            self.frames.pop();
        }
        self.leave_cluster();
        self.entry = None;
        self.turned = None;
        Ok(())
    }

    /// Moves to the next entry when the key of the entry before is not known.
    fn step_apart(&mut self, nodes: &Nodes<impl Window>) -> Result<(), Trouble> {
        self.step(nodes)?;
        self.turned = None;
        Ok(())
    }

    /// The entry with the least key that is not less than `from`, or is greater when `strict`;
    /// `None` when there is none. It is an error when the path has changed. If `stands`, the path
    /// leads to `from`.
    pub(crate) fn entry(
        &mut self,
        nodes: &Nodes<impl Window>,
        from: &[u8],
        strict: bool,
        stands: bool,
    ) -> Result<Option<Copied>, Trouble> {
        let read = self.read(nodes, from, strict, stands);
        match read {
            Ok(None) => self.is_over(nodes),
            _ => self.look_again(nodes, false),
        }?;
        read
    }

    /// The entry with the greatest key less than `key`, or the last one; `None` when there is none.
    /// It is an error when the path has changed.
    pub(crate) fn before(
        &mut self,
        nodes: &Nodes<impl Window>,
        key: Option<&[u8]>,
    ) -> Result<Option<Copied>, Trouble> {
        let read = self.read_before(nodes, key);
        match read {
            Ok(None) => self.is_over(nodes),
            _ => self.look_again(nodes, true),
        }?;
        read
    }

    fn read_before(
        &mut self,
        nodes: &Nodes<impl Window>,
        key: Option<&[u8]>,
    ) -> Result<Option<Copied>, Trouble> {
        self.seek_back(nodes, key)?;
        let Some(entry) = self.entry else {
            return Ok(None);
        };
        let (found, value) = nodes.entry(&entry);
        let descends = key.is_none_or(|key| found.as_slice() < key);
        if !descends || !self.leads_to(&found, None) {
            return Err(unfit(&entry));
        }
        Ok(Some((found, value)))
    }

    fn read(
        &mut self,
        nodes: &Nodes<impl Window>,
        from: &[u8],
        strict: bool,
        stands: bool,
    ) -> Result<Option<Copied>, Trouble> {
        self.go(nodes, from, strict, stands)?;
        let Some(entry) = self.entry else {
            return Ok(None);
        };
        let (key, value) = nodes.entry(&entry);
        let before = strict.then_some(from);
        let ascends = match before {
            Some(before) => key.as_slice() > before,
            None => key.as_slice() >= from,
        };
        if !ascends || !self.leads_to(&key, before) {
            return Err(unfit(&entry));
        }
        Ok(Some((key, value)))
    }

    /// Moves to the next entry, from the one before or from the root.
    fn go(
        &mut self,
        nodes: &Nodes<impl Window>,
        from: &[u8],
        strict: bool,
        stands: bool,
    ) -> Result<(), Trouble> {
        if stands {
            self.step(nodes)?;
            if self.entry.is_some() {
                return Ok(());
            }
            // The end counts only if a walk from the root confirms it.
        }
        match from.is_empty() && !strict {
            true => self.first(nodes),
            false => self.seek(nodes, from, strict),
        }
    }

    /// Whether this path leads to a key, and the key may come right after the one before.
    pub(crate) fn leads_to(&self, key: &[u8], before: Option<&[u8]>) -> bool {
        let turned = self.turned.unwrap_or(0);
        // The entries of a cluster may part at the offset of the branch above it.
        let from = turned.min(self.frames.len().saturating_sub(1));
        let runs = self.frames[from..].iter().all(|frame| {
            frame.branch.offset() <= key.len() && frame.branch.child(key) == frame.index
        });
        let search = |(borders, slot): (Borders, usize)| borders.search(key) == slot;
        runs && self.within.is_none_or(search)
            && match (self.turned, before) {
                // The paths of neighbours part exactly where their keys do.
                (Some(turned), Some(before)) => match (self.frames.get(turned), self.within) {
                    (Some(frame), _) => mismatch(before, key) == Some(frame.branch.offset()),
                    (None, Some((borders, slot))) => borders.part((self.before, slot), before, key),
                    (None, None) => false,
                },
                _ => true,
            }
    }

    /// The branches that are not on the path of the entry before.
    pub(crate) fn new_branches(&self) -> impl Iterator<Item = &Branch> {
        let before = self.turned.map_or(0, |turned| turned + 1);
        self.frames.iter().skip(before).map(|frame| &frame.branch)
    }

    /// The cluster of the entry, unless the entry before is in it, too.
    pub(crate) fn new_cluster(&self) -> Option<&Cluster> {
        let same = self.turned == Some(self.frames.len());
        self.cluster.as_ref().filter(|_| !same)
    }

    /// The number of branches above the entry.
    pub(crate) fn depth(&self) -> usize {
        self.frames.len()
    }

    /// Whether the entry's cluster has the tag of this key for it, and the key begins with what all
    /// keys of the cluster share.
    pub(crate) fn fits_cluster(&self, nodes: &Nodes<impl Window>, key: &[u8]) -> bool {
        match (&self.cluster, &self.within) {
            (Some(cluster), Some((_, slot))) => {
                nodes.tags(cluster).get(*slot) == Some(&tag(key)) && nodes.has_prefix(cluster, key)
            }
            _ => true,
        }
    }

    /// Checks an empty path again: the map must still have the same root.
    fn is_over(&self, nodes: &Nodes<impl Window>) -> Result<(), Trouble> {
        let same = nodes.root() == self.root;
        same.then_some(()).ok_or(Trouble::Changed)
    }

    /// Checks the path again. The cluster, and the root or the last branches of a long path, must
    /// still lead to the same cells.
    fn look_again(&self, nodes: &Nodes<impl Window>, whole: bool) -> Result<(), Trouble> {
        const DEEPEST: usize = 16;
        let from = match whole {
            true => 0,
            false => self.frames.len().saturating_sub(DEEPEST),
        };
        let mut same = from > 0 || nodes.root() == self.root;
        for (i, frame) in self.frames.iter().enumerate().skip(from) {
            let next = self.frames.get(i + 1).map_or(self.end, |next| next.cell);
            same &= nodes.cell(&frame.branch, frame.index) == next && nodes.is_still(&frame.branch);
        }
        let is_same = |(at, bits, word): (usize, u32, u32)| nodes.window.u32(at) & bits == word;
        let slots = self.slots.iter().map(|(at, word)| (*at, u32::MAX, *word));
        let mut words = self.cluster.iter().flat_map(Cluster::words).chain(slots);
        same &= words.all(is_same);
        same.then_some(()).ok_or(Trouble::Changed)
    }
}
