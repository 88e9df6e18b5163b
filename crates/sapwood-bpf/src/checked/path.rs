//! The path from the root to a leaf. A key finds it, a walk moves it to the next leaf, and it can
//! be checked again.

use sapwood_format::cluster::tag;
use sapwood_format::{LEAF, is_branch};

use super::nodes::{Borders, Branch, Cluster, Copied, Nodes, Trouble, Window, mismatch};

#[derive(Clone, Copy)]
struct Frame {
    cell: u32,
    branch: Branch,
    index: usize,
}

/// A path in a trie, which ends at a leaf or is empty.
#[derive(Default)]
pub(super) struct Path {
    root: u32,
    frames: Vec<Frame>,
    /// The root, or the cell to which the last branch leads. It is the cell of a cluster or of the
    /// leaf.
    end: u32,
    /// The cluster of `end`, if it is one, and the cells that were read in it: slot and cell.
    cluster: Option<Cluster>,
    slots: Vec<(usize, u32)>,
    /// The borders of its leaves, and the slot of the leaf.
    within: Option<(Borders, usize)>,
    /// The cell of the leaf, or 0.
    pub(super) leaf: u32,
    /// The first frame that does not lead to the leaf before as well: in this frame the walk turned
    /// to another child. If it is behind the last one, the leaf before is in the same cluster.
    turned: Option<usize>,
    /// The number of branches and clusters that were read.
    pub(super) steps: u64,
}

impl Path {
    /// Descends from a cell to one that is not a branch's, by the children that `pick` returns.
    /// Returns whether it arrived.
    fn down(
        &mut self,
        nodes: &Nodes<impl Window>,
        mut cell: u32,
        pick: impl Fn(&Branch) -> Option<usize>,
    ) -> Result<bool, Trouble> {
        self.leave_cluster();
        loop {
            // This is kept also when the cell is damaged, because a change may be the cause.
            self.end = cell;
            self.leaf = cell;
            if !is_branch(cell) {
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
                // This is kept so that the path can be checked again.
                self.end = cell;
                return Ok(false);
            }
        }
    }

    /// The cluster at the end of the path, unless that is a leaf.
    fn cluster_there(&mut self, nodes: &Nodes<impl Window>) -> Result<Option<Cluster>, Trouble> {
        if self.end & LEAF == 0 {
            self.cluster = Some(nodes.cluster(self.end)?);
            self.steps += 1;
        }
        Ok(self.cluster)
    }

    fn leave_cluster(&mut self) {
        self.cluster = None;
        self.slots.clear();
        self.within = None;
    }

    /// The cell in a slot of the cluster, which is recorded for a second check.
    fn slot(&mut self, nodes: &Nodes<impl Window>, cluster: &Cluster, slot: usize) -> u32 {
        let cell = nodes.slot(cluster, slot);
        self.slots.push((slot, cell));
        cell
    }

    /// Moves from the path's end to a leaf. In a cluster, `pick` chooses the leaf.
    fn enter(
        &mut self,
        nodes: &Nodes<impl Window>,
        pick: impl Fn(&Borders) -> usize,
    ) -> Result<(), Trouble> {
        let Some(cluster) = self.cluster_there(nodes)? else {
            return Ok(());
        };
        let min = self.frames.last().map_or(0, |top| top.branch.offset());
        let borders = nodes.borders(&cluster, min)?;
        self.turn(nodes, &cluster, borders, pick(&borders))
    }

    /// Moves to the leaf in a slot of the cluster.
    fn turn(
        &mut self,
        nodes: &Nodes<impl Window>,
        cluster: &Cluster,
        borders: Borders,
        slot: usize,
    ) -> Result<(), Trouble> {
        self.slots.clear();
        self.leaf = self.slot(nodes, cluster, slot);
        self.within = Some((borders, slot));
        // An empty cell is not the end of the walk.
        nodes.leaf(self.leaf).map(|_| ())
    }

    /// Moves to the first leaf below a cell.
    fn down_first(&mut self, nodes: &Nodes<impl Window>, cell: u32) -> Result<(), Trouble> {
        self.down(nodes, cell, |_| Some(0))?;
        self.enter(nodes, |_| 0)
    }

    fn begin(&mut self, nodes: &Nodes<impl Window>) -> bool {
        self.frames.clear();
        self.leave_cluster();
        self.leaf = 0;
        self.turned = None;
        self.root = nodes.root();
        self.root != 0
    }

    /// The value of a key, if the path is unchanged after the read.
    pub(super) fn get(
        &mut self,
        nodes: &Nodes<impl Window>,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, Trouble> {
        let found = self.find(nodes, key);
        // A writer may be changing the bytes that look damaged.
        self.look_again(nodes, true)?;
        found
    }

    fn find(&mut self, nodes: &Nodes<impl Window>, key: &[u8]) -> Result<Option<Vec<u8>>, Trouble> {
        let is_long = |branch: &Branch| branch.offset() <= key.len();
        let pick = |branch: &Branch| is_long(branch).then(|| branch.child(key));
        if !self.begin(nodes) || !self.down(nodes, self.root, pick)? {
            return Ok(None);
        }
        let value = |cell| -> Result<Option<Vec<u8>>, Trouble> {
            let leaf = nodes.leaf(cell)?;
            Ok((nodes.key(&leaf) == key).then(|| nodes.value(&leaf)))
        };
        let Some(cluster) = self.cluster_there(nodes)? else {
            return value(self.end);
        };
        let wanted = tag(key);
        for (slot, tag) in nodes.tags(&cluster).into_iter().enumerate() {
            if tag == wanted {
                if let Some(value) = value(self.slot(nodes, &cluster, slot))? {
                    return Ok(Some(value));
                }
            }
        }
        Ok(None)
    }

    /// Moves to the first leaf.
    pub(super) fn first(&mut self, nodes: &Nodes<impl Window>) -> Result<(), Trouble> {
        match self.begin(nodes) {
            true => self.down_first(nodes, self.root),
            false => Ok(()),
        }
    }

    /// Moves to the least leaf whose key is not less than `key`, or is greater when `strict`.
    fn seek(
        &mut self,
        nodes: &Nodes<impl Window>,
        key: &[u8],
        strict: bool,
    ) -> Result<(), Trouble> {
        if !self.begin(nodes) {
            return Ok(());
        }
        // Off the key's path, any leaf below shows where the key would leave the path.
        self.down(nodes, self.root, |branch| Some(branch.child(key)))?;
        self.enter(nodes, |borders| borders.search(key))?;
        let found = nodes.key(&nodes.leaf(self.leaf)?);
        // All later steps depend on this path.
        self.look_again(nodes, true)?;
        let Some(at) = mismatch(key, &found) else {
            return match strict {
                true => self.step_apart(nodes),
                false => Ok(()),
            };
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
        match (below, self.cluster, self.within) {
            // All leaves below this cell share the bytes in which the key differs.
            (Some(cell), _, _) if less => self.down_first(nodes, cell),
            (Some(_), _, _) => {
                self.leave_cluster();
                self.step_apart(nodes)
            }
            (None, Some(cluster), Some((borders, slot))) => match borders.place(slot, at, less) {
                place if place < cluster.leaves() => self.turn(nodes, &cluster, borders, place),
                _ => {
                    self.leave_cluster();
                    self.step_apart(nodes)
                }
            },
            _ if less => Ok(()),
            _ => self.step_apart(nodes),
        }
    }

    /// Moves to the next leaf.
    pub(super) fn step(&mut self, nodes: &Nodes<impl Window>) -> Result<(), Trouble> {
        if let (Some(cluster), Some((borders, slot))) = (self.cluster, self.within) {
            if slot + 1 < cluster.leaves() {
                self.turned = Some(self.frames.len());
                return self.turn(nodes, &cluster, borders, slot + 1);
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
        self.leaf = 0;
        self.turned = None;
        Ok(())
    }

    /// Moves to the next leaf when the key of the leaf before is not known.
    fn step_apart(&mut self, nodes: &Nodes<impl Window>) -> Result<(), Trouble> {
        self.step(nodes)?;
        self.turned = None;
        Ok(())
    }

    /// The entry with the least key that is not less than `from`, or is greater when `strict`;
    /// `None` when there is none. It is an error when the path has changed. If `stands`, the path
    /// leads to `from`.
    pub(super) fn entry(
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

    fn read(
        &mut self,
        nodes: &Nodes<impl Window>,
        from: &[u8],
        strict: bool,
        stands: bool,
    ) -> Result<Option<Copied>, Trouble> {
        self.go(nodes, from, strict, stands)?;
        if self.leaf == 0 {
            return Ok(None);
        }
        let leaf = nodes.leaf(self.leaf)?;
        let (key, value) = nodes.entry(&leaf);
        let before = strict.then_some(from);
        let ascends = match before {
            Some(before) => key.as_slice() > before,
            None => key.as_slice() >= from,
        };
        if !ascends || !self.leads_to(&key, before) {
            let at = leaf.block().0;
            return Err(Trouble::Damaged("a key that does not fit its place", at));
        }
        Ok(Some((key, value)))
    }

    /// Moves to the next leaf, from the one before or from the root.
    fn go(
        &mut self,
        nodes: &Nodes<impl Window>,
        from: &[u8],
        strict: bool,
        stands: bool,
    ) -> Result<(), Trouble> {
        if stands {
            self.step(nodes)?;
            if self.leaf != 0 {
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
    pub(super) fn leads_to(&self, key: &[u8], before: Option<&[u8]>) -> bool {
        let turned = self.turned.unwrap_or(0);
        // The leaves of a cluster may part at the offset of the branch above it.
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
                    (None, Some((borders, slot))) => borders.part(slot, before, key),
                    (None, None) => false,
                },
                _ => true,
            }
    }

    /// The branches that are not on the path of the leaf before.
    pub(super) fn new_branches(&self) -> impl Iterator<Item = &Branch> {
        let before = self.turned.map_or(0, |turned| turned + 1);
        self.frames.iter().skip(before).map(|frame| &frame.branch)
    }

    /// The cluster of the leaf, unless the leaf before is in it, too.
    pub(super) fn new_cluster(&self) -> Option<&Cluster> {
        let same = self.turned == Some(self.frames.len());
        self.cluster.as_ref().filter(|_| !same)
    }

    /// The number of branches above the leaf.
    pub(super) fn depth(&self) -> usize {
        self.frames.len()
    }

    /// Whether the leaf's tag in its cluster is the tag of this key.
    pub(super) fn has_tag(&self, nodes: &Nodes<impl Window>, key: &[u8]) -> bool {
        match (&self.cluster, &self.within) {
            (Some(cluster), Some((_, slot))) => nodes.tags(cluster).get(*slot) == Some(&tag(key)),
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
        if let Some(cluster) = &self.cluster {
            let mut slots = self.slots.iter();
            same &= slots.all(|(slot, cell)| nodes.slot(cluster, *slot) == *cell)
                && nodes.is_still_cluster(cluster);
        }
        same.then_some(()).ok_or(Trouble::Changed)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicBool, Ordering};

    use fastrand::Rng;
    use sapwood_format::header;
    use sapwood_format::{self as format, branch, cluster, leaf};

    use super::super::nodes::tests::Words;
    use super::super::verify::{Census, verify, verify_alone};
    use super::*;
    use crate::layout::root;
    use crate::raw::arena::PAGE;

    type Map = BTreeMap<Vec<u8>, u64>;

    /// Writes random tries of all shapes that the format allows.
    struct Builder<'a> {
        words: &'a Words,
        rng: &'a mut Rng,
        /// The place of the next node.
        end: usize,
        /// How many of 10 nodes become clusters, on average.
        clusters: u32,
        /// The numbers of written nodes: branches, clusters, and locked ones of both.
        wrote: [usize; 3],
    }

    impl Builder<'_> {
        fn build(&mut self, map: &Map) {
            let keys: Vec<(&[u8], u64)> = map.iter().map(|(k, v)| (k.as_slice(), *v)).collect();
            let cell = match keys.is_empty() {
                true => 0,
                false => self.node(&keys),
            };
            let at = root(header::ROOT) as usize;
            self.words.write(at, &u64::from(cell).to_ne_bytes());
        }

        /// Writes a node to a new place, and returns its reference.
        fn write(&mut self, bytes: &[u8]) -> u32 {
            let at = self.end;
            self.words.write(at, bytes);
            // Some nodes have a gap behind them.
            self.end = (at + bytes.len()).next_multiple_of(8) + 32 * self.rng.usize(..3);
            (at / 8) as u32
        }

        fn leaf(&mut self, key: &[u8], value: u64) -> u32 {
            let mut bytes = value.to_ne_bytes().to_vec();
            let filled = leaf::key_at(8, key.len()) - 8;
            bytes.extend_from_slice(&leaf::length(key.len())[..filled]);
            bytes.extend_from_slice(key);
            bytes.resize(leaf::block(8, key.len()), 0);
            format::leaf_cell(self.write(&bytes))
        }

        /// A byte that separates the left key from the right one where they part.
        fn between(&mut self, left: &[u8], right: &[u8], at: usize) -> u8 {
            let most = right[at];
            match left.get(at) {
                Some(left) => self.rng.u8(left + 1..=most),
                None => self.rng.u8(..=most),
            }
        }

        fn node(&mut self, keys: &[(&[u8], u64)]) -> u32 {
            if let [(key, value)] = keys {
                return self.leaf(key, *value);
            }
            let part = |pair: &[(&[u8], u64)]| mismatch(pair[0].0, pair[1].0).unwrap();
            let parts: Vec<usize> = keys.windows(2).map(part).collect();
            let (least, most) = (*parts.iter().min().unwrap(), *parts.iter().max().unwrap());
            let fits = keys.len() <= cluster::SLOTS_MAX && most - least <= cluster::REACH;
            if fits && self.rng.u32(..10) < self.clusters {
                return self.cluster(keys, &parts, least, most);
            }
            // Runs of keys with the same byte. Some neighbouring runs are then joined, if they fit
            // a cluster.
            let mut runs: Vec<(usize, usize)> = Vec::new();
            let mut from = 0;
            for to in 1..=keys.len() {
                if to == keys.len() || parts[to - 1] == least {
                    runs.push((from, to));
                    from = to;
                }
            }
            let mut children: Vec<(usize, usize, bool)> = Vec::new();
            for (i, (from, to)) in runs.iter().copied().enumerate() {
                if let Some((first, end, joined)) = children.last_mut() {
                    let most = parts[*first..to - 1].iter().max().unwrap();
                    let fits = to - *first <= cluster::SLOTS_MAX && most - least <= 255;
                    // At least two runs remain.
                    let two = *first > 0 || i + 1 < runs.len();
                    if fits && two && self.rng.u32(..20) < self.clusters {
                        (*end, *joined) = (to, true);
                        continue;
                    }
                }
                children.push((from, to, false));
            }
            let (mut labels, mut cells) = (Vec::new(), Vec::new());
            for (from, to, joined) in children {
                if from > 0 {
                    labels.push(self.between(keys[from - 1].0, keys[from].0, least));
                }
                let inner = from..to - 1;
                cells.push(match joined {
                    true => {
                        let most = *parts[inner.clone()].iter().max().unwrap();
                        self.cluster(&keys[from..to], &parts[inner], least, most)
                    }
                    false => self.node(&keys[from..to]),
                });
            }
            self.branch(least, &labels, &cells)
        }

        fn branch(&mut self, offset: usize, labels: &[u8], cells: &[u32]) -> u32 {
            let locked = self.rng.u32(0..8) / 7 * branch::MARK;
            self.wrote[0] += 1;
            self.wrote[2] += usize::from(locked != 0);
            let header = branch::header(offset, labels.len()) | locked;
            let mut bytes = header.to_ne_bytes().to_vec();
            if labels.len() <= branch::SMALL_MAX {
                bytes.extend_from_slice(labels);
                bytes.resize(
                    4 + labels.len().next_multiple_of(4),
                    labels[labels.len() - 1],
                );
            } else {
                bytes.extend((0..=255).map(|byte| {
                    let child = labels.iter().filter(|label| **label <= byte).count();
                    (child - labels.len() / 256) as u8
                }));
            }
            bytes.extend(cells.iter().flat_map(|cell| cell.to_ne_bytes()));
            format::branch_cell(self.write(&bytes))
        }

        fn cluster(
            &mut self,
            keys: &[(&[u8], u64)],
            parts: &[usize],
            least: usize,
            most: usize,
        ) -> u32 {
            let base = self.rng.usize(most.saturating_sub(255)..=least);
            let room = self.rng.usize(keys.len().div_ceil(4)..=8) * 4;
            let header = cluster::header(base, keys.len(), room);
            let locked = self.rng.u32(0..8) / 7 * branch::FRESH;
            self.wrote[1] += 1;
            self.wrote[2] += usize::from(locked != 0);
            let cells: Vec<u32> = keys.iter().map(|(k, v)| self.leaf(k, *v)).collect();
            let mut bytes = (header | locked).to_ne_bytes().to_vec();
            bytes.extend(keys.iter().map(|(key, _)| tag(key)));
            bytes.resize(4 + room, 0);
            bytes.extend(cells.iter().flat_map(|cell| cell.to_ne_bytes()));
            bytes.resize(4 + 5 * room + 1, 0);
            bytes.extend(parts.iter().map(|part| (part - base) as u8));
            bytes.resize(4 + 6 * room + 1, 0);
            for (pair, &at) in keys.windows(2).zip(parts) {
                bytes.push(match pair[0].0.len() == at {
                    true => 0,
                    false => self.between(pair[0].0, pair[1].0, at),
                });
            }
            bytes.resize(4 + 7 * room, 0);
            format::cluster_cell(self.write(&bytes))
        }
    }

    /// A key of one of several kinds: many prefixes, all bytes, long ones with distant differences.
    fn key(rng: &mut Rng, kind: u32) -> Vec<u8> {
        let mut bytes =
            |len: usize, letters: u8| -> Vec<u8> { (0..len).map(|_| rng.u8(..=letters)).collect() };
        match kind {
            0 => bytes(3, 1),
            1 => bytes(2, 255),
            2 => bytes(1, 255),
            3 => bytes(40, 1),
            4 => {
                let mut key = vec![7; 700];
                let short = bytes(2, 255);
                let (at, len) = (usize::from(short[0]) * 2, usize::from(short[1]));
                key[at] = 8;
                key.truncate(at + len);
                key
            }
            _ => {
                let len = bytes(1, 6)[0].into();
                bytes(len, 3)
            }
        }
    }

    fn any_key(rng: &mut Rng, kinds: u32) -> Vec<u8> {
        let kind = rng.u32(..kinds);
        let mut key = key(rng, kind);
        if rng.u8(..4) == 0 {
            key.truncate(rng.usize(..=key.len()));
        }
        key
    }

    /// A trie of at most this many random keys, its end, and its contents.
    fn some_trie(rng: &mut Rng, most: usize) -> (Words, usize, Map, [usize; 3]) {
        let kinds = rng.u32(1..=6);
        let map: Map = (0..rng.usize(..=most))
            .map(|i| (any_key(rng, kinds), i as u64))
            .collect();
        let words = Words::new((PAGE + 4096 + map.len() * 900) / 8);
        let clusters = rng.u32(..=10);
        let mut builder = Builder {
            words: &words,
            rng,
            end: PAGE,
            clusters,
            wrote: [0; 3],
        };
        builder.build(&map);
        let (end, wrote) = (builder.end, builder.wrote);
        (words, end, map, wrote)
    }

    fn copied(entry: Option<(&Vec<u8>, &u64)>) -> Option<Copied> {
        entry.map(|(key, value)| (key.clone(), value.to_ne_bytes().to_vec()))
    }

    /// The entries from a key on, up to the first error.
    fn walk(words: &Words, from: &[u8]) -> (Vec<Copied>, Result<(), Trouble>) {
        let nodes = Nodes::new(words, 8);
        let (mut path, mut from, mut stands) = (Path::default(), from.to_vec(), false);
        let mut all = Vec::new();
        loop {
            let entry = path.entry(&nodes, &from, !all.is_empty(), stands);
            match entry {
                Ok(None) => return (all, Ok(())),
                Ok(Some((key, value))) => {
                    assert!(all.is_empty() || from < key, "{from:?} before {key:?}");
                    assert!(from <= key);
                    from.clone_from(&key);
                    stands = true;
                    all.push((key, value));
                }
                Err(_) if stands => stands = false,
                Err(trouble) => return (all, Err(trouble)),
            }
            let bytes = words.0.len() * 8;
            assert!(
                all.len() <= bytes / 8 && path.steps <= bytes as u64,
                "no end"
            );
        }
    }

    fn as_it_is(entries: Vec<Copied>) -> Map {
        let number = |value: Vec<u8>| u64::from_ne_bytes(value.try_into().unwrap());
        let entries = entries.into_iter();
        entries.map(|(key, value)| (key, number(value))).collect()
    }

    /// Looks up keys that are there, and others.
    fn compare(words: &Words, map: &Map, rng: &mut Rng) {
        let nodes = Nodes::new(words, 8);
        let all: Vec<Copied> = map.iter().filter_map(|entry| copied(Some(entry))).collect();
        assert_eq!(walk(words, &[]), (all, Ok(())));
        let mut asked: Vec<Vec<u8>> = (0..60).map(|_| any_key(rng, 6)).collect();
        for key in map.keys() {
            if rng.usize(..map.len()) < 60 {
                asked.push(key.clone());
                asked.push([key, &[0][..]].concat());
                let mut other = key[..rng.usize(..=key.len())].to_vec();
                asked.push(other.clone());
                if let Some(last) = other.last_mut() {
                    *last = last.wrapping_add(rng.u8(1..=3)).wrapping_sub(2);
                }
                asked.push(other);
            }
        }
        let mut path = Path::default();
        for key in asked {
            let found = path.get(&nodes, &key).unwrap();
            assert_eq!(
                found,
                map.get(&key).map(|value| value.to_ne_bytes().to_vec())
            );
            let first = path.entry(&nodes, &key, false, false).unwrap();
            assert_eq!(first, copied(map.range(key.clone()..).next()), "{key:?}");
            let mut after = path.entry(&nodes, &key, true, false).unwrap();
            let mut range = map.range(key.clone()..);
            if map.contains_key(&key) {
                range.next();
            }
            for entry in range.map(Some).chain([None]).take(40) {
                assert_eq!(after, copied(entry), "{key:?}");
                if let Some((before, _)) = after.take() {
                    after = path.entry(&nodes, &before, true, true).unwrap();
                }
            }
        }
    }

    #[test]
    fn random_tries() {
        let mut rng = Rng::with_seed(1);
        for round in 0..400 {
            let (words, _, map, wrote) = some_trie(&mut rng, [2, 10, 40, 1200][round % 4]);
            let nodes = Nodes::new(&words, 8);
            assert_eq!(verify_alone(&nodes), Ok(map.len()));
            let mut noted = [0; 3];
            let census = verify(&nodes, true, None, false, |node, (from, to)| {
                assert!(from < to && (from | to) % 8 == 0);
                noted[node as usize] += 1;
                Ok(())
            });
            let Census {
                entries,
                branches,
                clusters,
                ..
            } = census.unwrap_or_else(|_| panic!());
            assert_eq!((entries, noted), (map.len(), [branches, clusters, entries]));
            assert_eq!([branches, clusters], wrote[..2]);
            // With all locks free.
            let exact = verify(&nodes, true, None, true, |_, _| Ok(()));
            assert_eq!(exact.is_ok(), wrote[2] == 0);
            compare(&words, &map, &mut rng);
        }
    }

    #[test]
    fn the_longest_keys() {
        let keys = [65_534, 65_535, 65_535, 65_533, 300, 0, 65_200].into_iter();
        let mut map: Map = keys.map(|len| (vec![1; len], 5)).collect();
        map.insert([&[1; 65_534][..], &[2]].concat(), 6);
        map.insert([&[1; 65_280][..], &[2; 255]].concat(), 6);
        for seed in 0..20 {
            let words = Words::new(100_000);
            let mut rng = Rng::with_seed(seed);
            let mut builder = Builder {
                words: &words,
                rng: &mut rng,
                end: PAGE,
                clusters: seed as u32 % 11,
                wrote: [0; 3],
            };
            builder.build(&map);
            assert_eq!(verify_alone(&Nodes::new(&words, 8)), Ok(map.len()));
            compare(&words, &map, &mut rng);
        }
    }

    /// A checked reader finds the byte strings of a map of the library.
    #[test]
    fn byte_strings() {
        use sapwood::arena::{Arena, ArenaOptions, Backing, HeaderMode};
        use sapwood::qp::QpShared;
        use sapwood_format::header;

        use crate::layout::root;

        let mut rng = Rng::with_seed(7);
        let lengths = [0, 1, 6, 253, 254, 255, 1000, 65_535, 65_536, 70_000];
        let all: BTreeMap<Vec<u8>, Vec<u8>> = (0..400)
            .map(|i| {
                let len = lengths[i % if i < 20 { 10 } else { 7 }] + i / 40;
                (
                    any_key(&mut rng, 6),
                    (0..len).map(|j| (i + j) as u8).collect(),
                )
            })
            .collect();
        let path = std::env::temp_dir().join(format!("sapwood-strings-{}", std::process::id()));
        let options = ArenaOptions::default()
            .backing(Backing::File(path.clone()))
            .header(HeaderMode::Page)
            .layout_hash(QpShared::<[u8]>::layout_hash());
        let map = QpShared::<[u8]>::builder()
            .build_sorted_in(Arena::create(options).unwrap(), &all)
            .unwrap();
        let file = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        drop(map);
        let words = Words::new(file.len() / 8);
        words.write(0, &file);
        let bytes = (&words).u64(root(header::VALUE_BYTES) as usize) as usize;
        let nodes = Nodes::new(&words, bytes);
        assert_eq!(nodes.value_bytes(), None);
        assert_eq!(verify_alone(&nodes), Ok(all.len()));
        for (key, value) in &all {
            let found = Path::default().get(&nodes, key);
            assert_eq!(found.unwrap().as_ref(), Some(value));
        }
        // For any bytes, the result is an answer or an error, and nothing outside the window is
        // read.
        let end = file.iter().rposition(|byte| *byte != 0).unwrap();
        let mut caught = 0;
        for _ in 0..2_000 {
            let at = rng.usize(PAGE..=end);
            let old = words.byte(at);
            words.write(at, &[rng.u8(..)]);
            caught += usize::from(verify_alone(&nodes).is_err());
            for key in all.keys().take(20) {
                let _ = Path::default().get(&nodes, key);
            }
            words.write(at, &[old]);
        }
        assert!(caught > 10, "{caught}");
        assert_eq!(verify_alone(&nodes), Ok(all.len()));
    }

    /// `verify` finds damage, or the bytes are a valid map: then all methods agree.
    #[test]
    fn damaged_tries() {
        let mut rng = Rng::with_seed(2);
        let (mut caught, mut whole) = (0, 0);
        for round in 0..60 {
            let (words, end, map, _) = some_trie(&mut rng, [3, 30, 300][round % 3]);
            for _ in 0..60 {
                let len = [1, 1, 1, 4, 8, 100][rng.usize(..6)];
                let at = rng.usize(PAGE..end + 8);
                let at = if len == 1 { at } else { at / 4 * 4 };
                let len = len.min(words.0.len() * 8 - at);
                let from = rng.usize(PAGE..=PAGE.max(end - len));
                let old: Vec<u8> = (at..at + len).map(|at| words.byte(at)).collect();
                let kind = rng.u8(..3);
                let mut new = |i: usize, old: &u8| match kind {
                    0 => old ^ 1 << rng.u8(..8),
                    1 => rng.u8(..),
                    _ => words.byte(from + i),
                };
                let new: Vec<u8> = old.iter().enumerate().map(|(i, old)| new(i, old)).collect();
                words.write(at, &new);
                let verified = verify_alone(&Nodes::new(&words, 8));
                let (entries, _) = walk(&words, &[]);
                for _ in 0..5 {
                    let _ = Path::default().get(&Nodes::new(&words, 8), &any_key(&mut rng, 6));
                    let _ = walk(&words, &any_key(&mut rng, 6));
                }
                match verified {
                    Err(_) => caught += 1,
                    Ok(count) => {
                        whole += 1;
                        let there = as_it_is(entries);
                        assert_eq!(count, there.len());
                        compare(&words, &there, &mut rng);
                    }
                }
                words.write(at, &old);
            }
            assert_eq!(verify_alone(&Nodes::new(&words, 8)), Ok(map.len()));
        }
        assert!(caught > 500 && whole > 100, "{caught} {whole}");
    }

    /// A change of any byte that describes a cluster or a branch is found.
    #[test]
    fn every_byte_is_checked() {
        let keys = [
            "", "a", "ab", "abc", "abd", "b", "ba", "bb", "c", "larch", "larches", "x",
        ];
        let map: Map = keys
            .iter()
            .map(|key| (key.as_bytes().to_vec(), 1))
            .collect();
        for (seed, clusters) in [(0, 0), (1, 3), (2, 4), (3, 5), (4, 10)] {
            let words = Words::new(PAGE / 8 + 200);
            let mut rng = Rng::with_seed(seed);
            let mut builder = Builder {
                words: &words,
                rng: &mut rng,
                end: PAGE,
                clusters,
                wrote: [0; 3],
            };
            builder.build(&map);
            let end = builder.end;
            let nodes = Nodes::new(&words, 8);
            let mut path = Path::default();
            path.first(&nodes).unwrap();
            let mut blocks = Vec::new();
            while path.leaf != 0 {
                blocks.extend(path.new_branches().map(|branch| (branch.block(), false)));
                blocks.extend(path.new_cluster().map(|cluster| (cluster.block(), true)));
                path.step(&nodes).unwrap();
            }
            assert!(!blocks.is_empty() && end <= words.0.len() * 8);
            for ((from, _), is_cluster) in blocks {
                let header = nodes.window.u32(from);
                let used = match is_cluster {
                    true => cluster::size(cluster::capacity_of(header)),
                    false => branch::size_of(header),
                };
                for at in from..from + used {
                    let old = words.byte(at);
                    for new in (0..=255).filter(|new| *new != old) {
                        words.write(at, &[new]);
                        let answer = verify_alone(&nodes);
                        if answer.is_err() {
                            continue;
                        }
                        // Exceptions are locks, and bytes that lead to the same child as the old
                        // ones.
                        let is_lock = at == from + 3 && (new ^ old) & 0x7b == 0;
                        let leads = match is_cluster {
                            true => at > from + cluster::bytes_at(header),
                            false => (from + 4..from + branch::cells_at(header)).contains(&at),
                        };
                        if is_lock || leads {
                            // 0 says that a key ends there.
                            assert!(is_lock || !is_cluster || (old != 0 && new != 0), "{at}");
                            compare(&words, &map, &mut rng);
                        } else {
                            // Part of a leaf may look like another leaf.
                            let cells = match is_cluster {
                                true => cluster::cells_at(header)..cluster::borders_at(header),
                                false => branch::cells_at(header)..used,
                            };
                            assert!(cells.contains(&(at - from)), "{at}: {old} {new}");
                            let there = as_it_is(walk(&words, &[]).0);
                            compare(&words, &there, &mut rng);
                        }
                    }
                    words.write(at, &[old]);
                }
            }
        }
    }

    #[test]
    fn headers_are_looked_at_again() {
        let (words, _) = changed(0);
        let nodes = Nodes::new(&words, 8);
        let mut path = Path::default();
        for key in [&b"ab"[..], b"abx", b"b"] {
            path.find(&nodes, key).unwrap();
            path.look_again(&nodes, true).unwrap();
            let (top, cluster) = (path.root, path.end);
            for at in [top, cluster].map(format::byte_of) {
                let old = words.byte(at);
                words.write(at, &[old ^ 1]);
                assert_eq!(path.look_again(&nodes, true), Err(Trouble::Changed));
                // The state of a lock may be either.
                words.write(at, &[old]);
                words.write(at + 3, &[words.byte(at + 3) ^ 4]);
                path.look_again(&nodes, true).unwrap();
            }
        }
    }

    #[test]
    fn leaves_in_a_wrong_place() {
        let words = Words::new(PAGE / 8 + 100);
        let mut rng = Rng::with_seed(6);
        let mut builder = Builder {
            words: &words,
            rng: &mut rng,
            end: PAGE,
            clusters: 10,
            wrote: [0; 3],
        };
        let cell = builder.node(&entries_of(&["a", "ab", "ac"], 1));
        let other = builder.leaf(b"b", 1);
        words.write(root(header::ROOT) as usize, &u64::from(cell).to_ne_bytes());
        let nodes = Nodes::new(&words, 8);
        let entry = |from: &[u8], strict| Path::default().entry(&nodes, from, strict, false);
        let keys = [entry(b"", false), entry(b"a", true), entry(b"abx", true)];
        let keys = keys.map(|entry| entry.unwrap().unwrap().0);
        assert_eq!(keys, [&b"a"[..], b"ab", b"ac"]);
        // The keys ascend, but a search in the cluster would not find this one.
        let cluster = nodes.cluster(cell).unwrap_or_else(|_| panic!());
        assert_eq!(cluster.leaves(), 3);
        let header = nodes.window.u32(format::byte_of(cell));
        let third = format::byte_of(cell) + cluster::cells_at(header) + 8;
        words.write(third, &other.to_ne_bytes());
        assert!(matches!(entry(b"abx", true), Err(Trouble::Damaged(..))));
        assert!(matches!(verify_alone(&nodes), Err(Trouble::Damaged(..))));
        assert_eq!(Path::default().get(&nodes, b"b"), Ok(None));
    }

    #[test]
    fn noise() {
        let mut rng = Rng::with_seed(3);
        for _ in 0..2000 {
            let words = Words::new(PAGE / 8 + rng.usize(..400));
            let most = words.0.len() as u32 * 4;
            for (at, word) in words.0.iter().enumerate().skip(PAGE / 8) {
                let mut half = || match rng.u8(..6) {
                    0 => rng.u32(..),
                    1 => rng.u32(..300) | rng.u32(..4) << 16 | 2 << 27,
                    2 => cluster::header(rng.usize(..9), rng.usize(2..=8), 8),
                    3 => u32::from_ne_bytes([rng.u8(..4), rng.u8(4..9), rng.u8(9..), 255]),
                    _ => rng.u32(PAGE as u32 / 2..most + 1),
                };
                let halves = [half(), half()].map(u64::from);
                word.store(halves[at % 2] | halves[1 - at % 2] << 32, Ordering::Relaxed);
            }
            let cell = rng.u32(PAGE as u32 / 2..most + 1);
            words.write(root(header::ROOT) as usize, &u64::from(cell).to_ne_bytes());
            let _ = walk(&words, &any_key(&mut rng, 6));
            let _ = Path::default().get(&Nodes::new(&words, 8), &any_key(&mut rng, 6));
            let _ = verify_alone(&Nodes::new(&words, 8));
        }
    }

    /// Every operation ends, whatever is written meanwhile.
    #[test]
    fn written_meanwhile() {
        let mut rng = Rng::with_seed(4);
        for round in 0..40 {
            let (words, end, ..) = some_trie(&mut rng, 200);
            let over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut rng = Rng::with_seed(round);
                    while !over.load(Ordering::Relaxed) {
                        let from = rng.usize(PAGE / 8..end / 8);
                        let word = words.0[from].load(Ordering::Relaxed);
                        let to = &words.0[rng.usize(PAGE / 8..end / 8)];
                        let old = to.swap(word, Ordering::AcqRel);
                        to.store(old, Ordering::Release);
                    }
                });
                let nodes = Nodes::new(&words, 8);
                for _ in 0..50 {
                    let key = any_key(&mut rng, 6);
                    let _ = Path::default().get(&nodes, &key);
                    let _ = verify_alone(&nodes);
                    let (mut path, mut from, mut stands) = (Path::default(), key, false);
                    let mut left = words.0.len() * 2;
                    while let Ok(Some((key, _))) = path.entry(&nodes, &from, stands, stands) {
                        assert!(key > from || !stands);
                        (from, stands, left) = (key, true, left - 1);
                    }
                }
                over.store(true, Ordering::Relaxed);
            });
        }
    }

    /// A write: its place and its bytes.
    type Write = (usize, Vec<u8>);

    /// A window to which the test writes before the reads with these numbers.
    struct Staged<'a> {
        words: &'a Words,
        read: Cell<usize>,
        writes: [(usize, &'a Write); 2],
    }

    impl Staged<'_> {
        fn reads(&self) {
            let read = self.read.replace(self.read.get() + 1);
            for (_, (at, bytes)) in self.writes.iter().filter(|(when, _)| *when == read) {
                self.words.write(*at, bytes);
            }
        }
    }

    impl Window for &Staged<'_> {
        fn len(&self) -> usize {
            self.words.len()
        }

        fn u32(&self, at: usize) -> u32 {
            self.reads();
            self.words.u32(at)
        }

        fn u64(&self, at: usize) -> u64 {
            self.reads();
            self.words.u64(at)
        }
    }

    fn entries_of(keys: &[&'static str], value: u64) -> Vec<(&'static [u8], u64)> {
        keys.iter().map(|key| (key.as_bytes(), value)).collect()
    }

    /// A branch above two clusters, a write that replaces some of the nodes, and a write that
    /// reuses their memory for nodes that resemble them.
    fn changed(what: usize) -> (Words, [Write; 2]) {
        let words = Words::new(PAGE / 8 + 200);
        let mut rng = Rng::with_seed(5);
        let mut builder = Builder {
            words: &words,
            rng: &mut rng,
            end: PAGE,
            clusters: 10,
            wrote: [0; 3],
        };
        let left = builder.node(&entries_of(&["a", "ab", "ac"], 1));
        let right = builder.node(&entries_of(&["b", "ba", "bb"], 1));
        let top = builder.branch(0, b"b", &[left, right]);
        words.write(root(header::ROOT) as usize, &u64::from(top).to_ne_bytes());
        let cells = format::byte_of(top) + branch::cells_at((&words).u32(format::byte_of(top)));
        let copy = |from: u32, to: u32, len: usize| {
            let (from, to) = (format::byte_of(from), format::byte_of(to));
            (
                to,
                (from..from + len)
                    .map(|at| words.byte(at))
                    .collect::<Vec<u8>>(),
            )
        };
        let header = (&words).u32(format::byte_of(left));
        let size = cluster::size(cluster::capacity_of(header));
        let writes = match what {
            // A value is replaced.
            0 => {
                let at = format::byte_of(left) + cluster::cells_at(header) + 4;
                let old = (&words).u32(at);
                let new = builder.leaf(b"ab", 2);
                let other = builder.leaf(b"00", 3);
                [(at, new.to_ne_bytes().to_vec()), copy(other, old, 16)]
            }
            // A cluster is replaced by one with another key.
            1 => {
                let new = builder.node(&entries_of(&["a", "aa", "ab", "ac"], 1));
                let other = builder.node(&entries_of(&["x", "xa", "xb"], 3));
                let mut reuse = copy(other, left, size);
                reuse.1[..4].copy_from_slice(&header.to_ne_bytes());
                [(cells, new.to_ne_bytes().to_vec()), reuse]
            }
            // The branch is replaced.
            _ => {
                let third = builder.leaf(b"c", 1);
                let new = builder.branch(0, b"bc", &[left, right, third]);
                let other = builder.branch(0, b"x", &[right, third]);
                let at = root(header::ROOT) as usize;
                [(at, new.to_ne_bytes().to_vec()), copy(other, top, 16)]
            }
        };
        (words, writes)
    }

    #[test]
    fn memory_that_is_used_again() {
        let stay: [&[u8]; 6] = [b"a", b"ab", b"ac", b"b", b"ba", b"bb"];
        let mut disturbed = 0;
        for (what, ask) in (0..3).flat_map(|what| (0..6).map(move |ask| (what, ask))) {
            let mut reads = 0;
            for first in 0.. {
                for second in first.. {
                    let (words, [publish, reuse]) = changed(what);
                    let staged = Staged {
                        words: &words,
                        read: Cell::new(0),
                        writes: [(first, &publish), (second, &reuse)],
                    };
                    let nodes = Nodes::new(&staged, 8);
                    let mut tries = 0;
                    let mut again = |trouble| {
                        tries += 1;
                        assert!(tries < 8, "{trouble:?}");
                    };
                    let mut path = Path::default();
                    if let Some(key) = [&b"ab"[..], b"bb", b"aa"].get(ask) {
                        let found = loop {
                            match path.get(&nodes, key) {
                                Ok(found) => break found,
                                Err(trouble) => again(trouble),
                            }
                        };
                        let found = found.map(|value| value[0]);
                        match ask {
                            0 => assert!(matches!(found, Some(1 | 2)), "{found:?}"),
                            1 => assert_eq!(found, Some(1)),
                            _ => assert!(matches!(found, None | Some(1)), "{found:?}"),
                        }
                    } else {
                        let from = [&b""[..], b"abx", b"b"][ask - 3];
                        let (mut from, mut strict, mut stands) = (from.to_vec(), false, false);
                        let mut left: Vec<&[u8]> = stay.to_vec();
                        left.retain(|key| **key >= *from);
                        loop {
                            match path.entry(&nodes, &from, strict, stands) {
                                Ok(None) => break,
                                Ok(Some((key, value))) => {
                                    left.retain(|left| *left != key);
                                    assert!(value[0] == 1 || (&*key, value[0]) == (b"ab", 2));
                                    (from, strict, stands) = (key, true, true);
                                }
                                Err(_) if stands => stands = false,
                                Err(trouble) => again(trouble),
                            }
                        }
                        assert!(left.is_empty(), "{left:?}");
                    }
                    disturbed += tries;
                    reads = reads.max(staged.read.get());
                    if second > reads {
                        break;
                    }
                }
                if first > reads {
                    break;
                }
            }
        }
        assert!(disturbed > 1000, "{disturbed}");
    }
}
