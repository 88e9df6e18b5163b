//! Lookups by the trie: one descent, whose words are read again before its answer counts.
//!
//! A lookup checks what it needs so that it reads nothing outside the window: of a branch the
//! header, and not the order of all labels. It compares the whole key, so it finds no wrong entry.

use sapwood_format::branch::{self, BIG, LABELS_AT, LOCKS, MAP_AT};
use sapwood_format::cluster::tag;
use sapwood_format::{KIND, LEAF, Window, is_branch};

use crate::Trouble;
use crate::clusters::Cluster;
use crate::nodes::{Entry, Nodes};

/// A word that was read: its place, the bits that count, and the word.
type Seen = (usize, u32, u32);

/// The words that a lookup read.
pub(crate) struct Lookup {
    root: u32,
    seen: Vec<Seen>,
    /// The offsets of the branches on the path.
    offsets: Vec<usize>,
    /// The cell of the leaf or cluster to which the key's path leads, or 0.
    pub(crate) end: u32,
}

impl Default for Lookup {
    fn default() -> Self {
        // Most paths fit, so one allocation for each list suffices.
        Lookup {
            root: 0,
            seen: Vec::with_capacity(32),
            offsets: Vec::with_capacity(16),
            end: 0,
        }
    }
}

impl Lookup {
    /// The value of a key, which `take` makes of its bytes, if the words of the path are unchanged
    /// after the read.
    pub(crate) fn get<R>(
        &mut self,
        nodes: &Nodes<impl Window>,
        key: &[u8],
        take: impl Fn(&[u8]) -> R,
    ) -> Result<Option<R>, Trouble> {
        let found = self.find(nodes, key);
        let found = found.map(|entry| entry.map(|entry| nodes.with_value(&entry, take)));
        // A writer may be changing the bytes that look damaged.
        self.look_again(nodes)?;
        found
    }

    /// The length of the longest prefix of a key that is a key of the trie, and its value, as for
    /// [`get`](Self::get).
    pub(crate) fn longest_prefix<R>(
        &mut self,
        nodes: &Nodes<impl Window>,
        query: &[u8],
        take: impl Fn(&[u8]) -> R,
    ) -> Result<Option<(usize, R)>, Trouble> {
        let longest = self.longest_at_end(nodes, query);
        let taken = |entry: Entry| (entry.key_len(), nodes.with_value(&entry, &take));
        let longest = longest.map(|entry| entry.map(taken));
        self.look_again(nodes)?;
        if let Some(found) = longest? {
            return Ok(Some(found));
        }
        // All keys below a branch agree up to its offset. So a prefix that is not at the path's end
        // is as long as the offset of a branch on the path.
        for offset in std::mem::take(&mut self.offsets).into_iter().rev() {
            if let Some(value) = self.get(nodes, &query[..offset], &take)? {
                return Ok(Some((offset, value)));
            }
        }
        Ok(None)
    }

    /// The entry of a key.
    pub(crate) fn find(
        &mut self,
        nodes: &Nodes<impl Window>,
        key: &[u8],
    ) -> Result<Option<Entry>, Trouble> {
        self.descend(nodes, key)?;
        if self.end == 0 {
            return Ok(None);
        }
        if self.end & KIND == LEAF {
            let leaf = nodes.leaf(self.end)?;
            return Ok(nodes.has_key(&leaf, key).then_some(leaf));
        }
        let cluster = self.cluster(nodes)?;
        let wanted = tag(key);
        for first in (0..cluster.leaves()).step_by(4) {
            let tags = nodes.window.u32(cluster.tags_at() + first);
            for (slot, tag) in (first..cluster.leaves()).zip(tags.to_ne_bytes()) {
                if tag != wanted {
                    continue;
                }
                let entry = self.slot(nodes, &cluster, slot)?;
                let found = entry.filter(|entry| nodes.has_key(entry, key));
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
        Ok(None)
    }

    /// The entry at the end of a key's path whose key is the key's longest prefix.
    fn longest_at_end(
        &mut self,
        nodes: &Nodes<impl Window>,
        query: &[u8],
    ) -> Result<Option<Entry>, Trouble> {
        self.descend(nodes, query)?;
        if self.end == 0 {
            return Ok(None);
        }
        let is_prefix = |entry: &Entry| {
            let start = query.get(..entry.key_len());
            start.is_some_and(|start| nodes.has_key(entry, start))
        };
        if self.end & KIND == LEAF {
            return Ok(Some(nodes.leaf(self.end)?).filter(is_prefix));
        }
        let cluster = self.cluster(nodes)?;
        let mut longest: Option<Entry> = None;
        for slot in 0..cluster.leaves() {
            let Some(entry) = self.slot(nodes, &cluster, slot)? else {
                continue;
            };
            let longer = longest.is_none_or(|old| old.key_len() < entry.key_len());
            if longer && is_prefix(&entry) {
                longest = Some(entry);
            }
        }
        Ok(longest)
    }

    /// The cluster at the path's end, and records its header for a second look.
    fn cluster(&mut self, nodes: &Nodes<impl Window>) -> Result<Cluster, Trouble> {
        let cluster = nodes.cluster(self.end)?;
        self.seen.extend(cluster.words());
        Ok(cluster)
    }

    /// The entry in a slot, unless it is dead, and records the word that says where it is.
    fn slot(
        &mut self,
        nodes: &Nodes<impl Window>,
        cluster: &Cluster,
        slot: usize,
    ) -> Result<Option<Entry>, Trouble> {
        nodes.slot(cluster, slot, |at, word| {
            self.seen.push((at, u32::MAX, word))
        })
    }

    /// Reads a cell, and records it for a second look.
    fn read(&mut self, nodes: &Nodes<impl Window>, at: usize) -> u32 {
        let cell = nodes.window.u32(at);
        self.seen.push((at, u32::MAX, cell));
        cell
    }

    /// Follows a key's path to its end.
    fn descend(&mut self, nodes: &Nodes<impl Window>, key: &[u8]) -> Result<(), Trouble> {
        self.seen.clear();
        self.offsets.clear();
        self.end = 0;
        self.root = nodes.root();
        let (mut cell, mut min) = (self.root, 0);
        while cell != 0 && is_branch(cell) {
            let (at, header) = nodes.branch_header(cell, min)?;
            let offset = branch::offset_of(header);
            if offset > key.len() {
                self.seen.push((at, !LOCKS, header));
                return Ok(());
            }
            self.offsets.push(offset);
            let child = match key.get(offset) {
                Some(&byte) => child_of(&nodes.window, at, header, byte),
                None => 0,
            };
            if child > branch::labels_of(header) {
                let why = "a map of bytes that has other children";
                self.seen.push((at, !LOCKS, header));
                return Err(Trouble::Damaged(why, at));
            }
            cell = self.read(nodes, at + branch::cells_at(header) + 4 * child);
            self.seen.push((at, !LOCKS, header));
            if cell == 0 {
                return Err(Trouble::Damaged("a branch with an empty cell", at));
            }
            min = offset + 1;
        }
        self.end = cell;
        Ok(())
    }

    /// Reads all words again.
    pub(crate) fn look_again(&self, nodes: &Nodes<impl Window>) -> Result<(), Trouble> {
        let is_same = |(at, bits, word): &Seen| nodes.window.u32(*at) & bits == *word;
        match nodes.root() == self.root && self.seen.iter().all(is_same) {
            true => Ok(()),
            false => Err(Trouble::Changed),
        }
    }
}

/// The child of a byte in a branch that lies inside the window.
fn child_of(window: &impl Window, at: usize, header: u32, byte: u8) -> usize {
    if header & BIG != 0 {
        let word = window.u32(at + MAP_AT + usize::from(byte / 4 * 4));
        return branch::child_of_map(header, word.to_ne_bytes()[usize::from(byte % 4)]);
    }
    let labels = branch::labels_of(header);
    let mut child = 0;
    for first in (0..labels).step_by(4) {
        let word = window.u32(at + LABELS_AT + first).to_ne_bytes();
        let least = word[..(labels - first).min(4)].iter();
        child += least.filter(|label| **label <= byte).count();
    }
    child
}
