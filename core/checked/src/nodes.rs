//! Branches, clusters and leaves of a window that others write. They are read word by word, and
//! checked before use.
//!
//! All reads are atomic, so a change during a read gives other words, and is not a data race. A
//! reference is followed only to bytes inside the window.

use sapwood_format::branch::{self, BIG, FRESH, LABELS_AT, LOCKS, MAP_AT};
use sapwood_format::cluster::{self, SLOTS_MAX};
use sapwood_format::header;
use sapwood_format::{CLUSTER, KIND, LEAF, Window, byte_of, is_branch, leaf};

use crate::{Trouble, bytes};

/// The nodes in a window, for one operation.
#[derive(Clone)]
pub struct Nodes<W> {
    pub(crate) window: W,
    /// Bytes of a value, which lies before the key; 0 when values are byte strings.
    value_bytes: usize,
    /// Whether values are byte strings, which lie behind the key.
    strings: bool,
}

/// A branch whose header and labels were read and are consistent.
#[derive(Clone, Copy)]
pub struct Branch {
    at: usize,
    header: u32,
    /// The labels, one bit each.
    labels: [u64; 4],
}

/// A cluster whose header was read. It lies inside the window.
#[derive(Clone, Copy)]
pub struct Cluster {
    at: usize,
    header: u32,
}

/// The borders of a cluster's leaves: for each slot, where its key parts from the one before.
#[derive(Clone, Copy)]
pub(crate) struct Borders {
    base: usize,
    leaves: usize,
    distances: [u8; SLOTS_MAX],
    bytes: [u8; SLOTS_MAX],
}

/// A leaf that lies inside the window.
#[derive(Clone, Copy)]
pub struct Leaf {
    at: usize,
    key_at: usize,
    key_len: usize,
    value_at: usize,
    value_len: usize,
    end: usize,
}

/// The length of the longest common prefix of two keys, or `None` when they are equal.
pub(crate) fn mismatch(a: &[u8], b: &[u8]) -> Option<usize> {
    let common = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    (common < a.len() || common < b.len()).then_some(common)
}

/// A mask of the labels in a word up to `byte`.
fn up_to(byte: u8) -> u64 {
    u64::MAX >> (63 - byte % 64)
}

impl Branch {
    pub(crate) fn offset(&self) -> usize {
        branch::offset_of(self.header)
    }

    pub(crate) fn children(&self) -> usize {
        branch::children_of(self.header)
    }

    /// The places at which its block begins and ends.
    pub fn block(&self) -> (usize, usize) {
        (self.at, self.at + branch::block_of(self.header))
    }

    /// The child that a key belongs to: the number of labels that are not greater than its byte.
    pub(crate) fn child(&self, key: &[u8]) -> usize {
        let Some(&byte) = key.get(self.offset()) else {
            return 0;
        };
        let word = usize::from(byte / 64);
        let before: u32 = self.labels[..word]
            .iter()
            .map(|word| word.count_ones())
            .sum();
        (before + (self.labels[word] & up_to(byte)).count_ones()) as usize
    }

    /// Adds a label. Returns whether it is greater than all labels before it.
    fn add(&mut self, label: u8) -> bool {
        let (word, bit) = (usize::from(label / 64), 1 << (label % 64));
        let ascends = self.labels[word] < bit && self.labels[word + 1..].iter().all(|w| *w == 0);
        self.labels[word] |= bit;
        ascends
    }
}

impl Cluster {
    /// The places at which its block begins and ends.
    pub fn block(&self) -> (usize, usize) {
        (self.at, self.at + cluster::block_of(self.header))
    }

    pub(crate) fn leaves(&self) -> usize {
        cluster::leaves_of(self.header)
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn header(&self) -> u32 {
        self.header
    }

    /// The place of the cell in a slot.
    pub(crate) fn cell_at(&self, slot: usize) -> usize {
        debug_assert!(slot < self.leaves());
        self.at + cluster::cells_at(self.header) + 4 * slot
    }
}

impl Borders {
    /// The offset at which the leaf in a slot parts from the one before.
    fn offset(&self, slot: usize) -> usize {
        self.base + usize::from(self.distances[slot])
    }

    /// The number of slots.
    pub(crate) fn len(&self) -> usize {
        self.leaves
    }

    /// The slot of a leaf that shares the longest prefix with a key. If the key is there, its slot.
    pub(crate) fn search(&self, key: &[u8]) -> usize {
        let (mut found, mut least) = (0, usize::MAX);
        for slot in 1..self.leaves {
            let offset = self.offset(slot);
            if offset < least {
                match key.get(offset) {
                    Some(byte) if *byte >= self.bytes[slot] => (found, least) = (slot, usize::MAX),
                    _ => least = offset,
                }
            }
        }
        found
    }

    /// The slot of the first leaf whose key is greater than a key that is not there, or the number
    /// of leaves. The key parts at `at` from the leaf in the slot `found` of
    /// [`search`](Self::search), and is less than that leaf's key if `less`.
    pub(crate) fn place(&self, found: usize, at: usize, less: bool) -> usize {
        let mut slot = found;
        if less {
            while slot > 0 && self.offset(slot) > at {
                slot -= 1;
            }
            return slot;
        }
        slot += 1;
        while slot < self.leaves && self.offset(slot) > at {
            slot += 1;
        }
        slot
    }

    /// The border between two slots that have only dead ones between them: the first of the least.
    fn between(&self, left: usize, right: usize) -> usize {
        let all = left + 1..=right;
        all.min_by_key(|slot| self.offset(*slot)).unwrap_or(right)
    }

    /// Whether the keys of a slot share more bytes with those of a slot before it than with those
    /// of one behind it.
    pub(crate) fn is_nearer(&self, before: usize, slot: usize, behind: usize) -> bool {
        let (left, right) = (self.between(before, slot), self.between(slot, behind));
        self.offset(left) > self.offset(right)
    }

    /// Whether two keys part as the border between their slots says. Slots between them are dead.
    pub(crate) fn part(&self, slots: (usize, usize), left: &[u8], right: &[u8]) -> bool {
        let border = self.between(slots.0, slots.1);
        let (offset, label) = (self.offset(border), self.bytes[border]);
        let between = match (left.get(offset), right.get(offset)) {
            (None, _) => label == 0,
            (Some(left), Some(right)) => *left < label && label <= *right,
            (Some(_), None) => false,
        };
        between && mismatch(left, right) == Some(offset)
    }
}

impl Leaf {
    pub(crate) fn key_len(&self) -> usize {
        self.key_len
    }

    /// The places at which its block begins and ends.
    pub fn block(&self) -> (usize, usize) {
        (self.at, self.end.next_multiple_of(8))
    }
}

impl<W: Window> Nodes<W> {
    /// The nodes of a window whose values have this many bytes, a multiple of 8, or are
    /// [`header::BYTE_STRINGS`].
    pub fn new(window: W, value_bytes: usize) -> Nodes<W> {
        let strings = value_bytes as u64 == header::BYTE_STRINGS;
        Nodes {
            window,
            value_bytes: if strings { 0 } else { value_bytes },
            strings,
        }
    }

    /// Bytes of a value, unless values are byte strings.
    pub(crate) fn value_bytes(&self) -> Option<usize> {
        (!self.strings).then_some(self.value_bytes)
    }

    fn root_word(&self, index: usize) -> u64 {
        self.window.u64(header::root_at(index))
    }

    /// The root cell.
    pub fn root(&self) -> u32 {
        self.root_word(header::ROOT) as u32
    }

    /// The number of entries that the header page states, which is 0 unless the map is a store.
    pub(crate) fn stated_len(&self) -> usize {
        (self.root_word(header::ROOT) >> 32) as usize
    }

    /// The header page's word on whether there is an index.
    pub(crate) fn has_index(&self) -> u64 {
        self.root_word(header::HAS_INDEX)
    }

    /// Whether the map has an index and no trie.
    pub(crate) fn has_only_index(&self) -> bool {
        self.has_index() == header::ONLY_INDEX
    }

    /// The reference of the index's table where lookups begin.
    pub(crate) fn table(&self) -> u32 {
        self.root_word(header::TABLE) as u32
    }

    /// The secrets of the index's hash.
    pub(crate) fn secrets(&self) -> [u64; sapwood_format::hash::SECRETS] {
        std::array::from_fn(|i| self.window.u64(header::EXTRA_AT + 8 * i))
    }

    /// Whether this many bytes from `at` on lie inside the window, behind the header page.
    pub(crate) fn inside(&self, at: usize, bytes: usize) -> bool {
        bytes::inside(&self.window, at, bytes)
    }

    /// The place and the header of a cell's branch, which lies inside the window. Its offset must
    /// be at least `min`.
    pub(crate) fn branch_header(&self, cell: u32, min: usize) -> Result<(usize, u32), Trouble> {
        let at = byte_of(cell);
        let damaged = |why| Err(Trouble::Damaged(why, at));
        if !is_branch(cell) || !self.inside(at, 16) {
            return damaged("a branch outside the window");
        }
        let header = self.window.u32(at) & !LOCKS;
        if !branch::is_sound(header, min) {
            return damaged("no branch has such a header here");
        }
        match self.inside(at, branch::block_of(header)) {
            true => Ok((at, header)),
            false => damaged("a branch that ends outside the window"),
        }
    }

    /// The branch of a cell. Its offset must be at least `min`.
    pub fn branch(&self, cell: u32, min: usize) -> Result<Branch, Trouble> {
        let (at, header) = self.branch_header(cell, min)?;
        let damaged = |why| Err(Trouble::Damaged(why, at));
        let mut branch = Branch {
            at,
            header,
            labels: [0; 4],
        };
        if branch.header & BIG != 0 {
            let mut before = 0;
            for at_byte in (0..256).step_by(4) {
                let word = self.window.u32(at + MAP_AT + at_byte).to_ne_bytes();
                for (byte, mapped) in (at_byte..).zip(word) {
                    let child = branch::child_of_map(branch.header, mapped);
                    if child == before + 1 {
                        branch.add(byte as u8);
                    } else if child != before {
                        return damaged("a map of bytes that skips children");
                    }
                    before = child;
                }
            }
            if before != branch::labels_of(branch.header) {
                return damaged("a map of bytes that has not all children");
            }
        } else {
            let labels = branch::labels_of(branch.header);
            for i in (0..labels).step_by(4) {
                let word = self.window.u32(at + LABELS_AT + i).to_ne_bytes();
                for &label in &word[..(labels - i).min(4)] {
                    if !branch.add(label) {
                        return damaged("labels that do not ascend");
                    }
                }
            }
        }
        Ok(branch)
    }

    /// Checks the parts that only `verify` checks: the padding of labels, and the lock if it must
    /// be free.
    pub(crate) fn check_branch(&self, branch: &Branch, free: bool) -> Result<(), Trouble> {
        let damaged = |why| Err(Trouble::Damaged(why, branch.at));
        if free && self.window.u32(branch.at) != branch.header {
            return damaged("a branch that is locked");
        }
        if branch.header & BIG == 0 {
            let labels = branch::labels_of(branch.header);
            let padded = self.copy(branch.at + LABELS_AT, branch::padded(labels));
            if padded[labels..]
                .iter()
                .any(|label| *label != padded[labels - 1])
            {
                return damaged("labels that are padded with something else");
            }
        }
        Ok(())
    }

    /// The cell of the `i`th child.
    pub(crate) fn cell(&self, branch: &Branch, i: usize) -> u32 {
        debug_assert!(i < branch.children());
        let cells = branch.at + branch::cells_at(branch.header);
        self.window.u32(cells + 4 * i)
    }

    /// Whether a branch still has the header that was read, checked after all earlier reads.
    pub(crate) fn is_still(&self, branch: &Branch) -> bool {
        self.window.u32(branch.at) & !LOCKS == branch.header
    }

    /// The cluster of a cell.
    pub fn cluster(&self, cell: u32) -> Result<Cluster, Trouble> {
        let at = byte_of(cell);
        let damaged = |why| Err(Trouble::Damaged(why, at));
        if cell & KIND != CLUSTER || !self.inside(at, cluster::block(4)) {
            return damaged("a cluster outside the window");
        }
        let header = self.window.u32(at) & !FRESH;
        if !cluster::is_sound(header) {
            return damaged("no cluster has such a header");
        }
        match self.inside(at, cluster::block_of(header)) {
            true => Ok(Cluster { at, header }),
            false => damaged("a cluster that ends outside the window"),
        }
    }

    /// The borders of a cluster's leaves. No offset may be less than `min`.
    pub(crate) fn borders(&self, cluster: &Cluster, min: usize) -> Result<Borders, Trouble> {
        let leaves = cluster.leaves();
        let mut borders = Borders {
            base: cluster::base_of(cluster.header),
            leaves,
            distances: [0; SLOTS_MAX],
            bytes: [0; SLOTS_MAX],
        };
        for (part, bytes) in [
            (cluster::borders_at(cluster.header), &mut borders.distances),
            (cluster::bytes_at(cluster.header), &mut borders.bytes),
        ] {
            for (i, bytes) in bytes[..leaves.next_multiple_of(4)]
                .chunks_exact_mut(4)
                .enumerate()
            {
                let word = self.window.u32(cluster.at + part + 4 * i);
                bytes.copy_from_slice(&word.to_ne_bytes());
            }
        }
        match (1..leaves).all(|slot| borders.offset(slot) >= min) {
            true => Ok(borders),
            false => Err(Trouble::Damaged(
                "leaves that part before the branch above them",
                cluster.at,
            )),
        }
    }

    /// Checks the parts that only `verify` checks: the slots behind the last leaf, the border
    /// before the first, and the lock if it must be free.
    pub(crate) fn check_cluster(&self, cluster: &Cluster, free: bool) -> Result<(), Trouble> {
        let damaged = |why| Err(Trouble::Damaged(why, cluster.at));
        let (header, leaves) = (cluster.header, cluster.leaves());
        if free && self.window.u32(cluster.at) != header {
            return damaged("a cluster that is locked");
        }
        let capacity = cluster::capacity_of(header);
        let is_zero = |at, len| {
            self.copy(cluster.at + at, len)
                .iter()
                .all(|byte| *byte == 0)
        };
        let spare = capacity - leaves;
        let borders = [cluster::borders_at(header), cluster::bytes_at(header)];
        let zeros = is_zero(cluster::TAGS_AT + leaves, spare)
            && is_zero(cluster::cells_at(header) + 4 * leaves, 4 * spare)
            && borders
                .iter()
                .all(|at| is_zero(*at, 1) && is_zero(at + leaves, spare));
        match zeros {
            true => Ok(()),
            false => damaged("a cluster with something in a slot that has no leaf"),
        }
    }

    /// The tags of a cluster's leaves.
    pub(crate) fn tags(&self, cluster: &Cluster) -> Vec<u8> {
        self.copy(cluster.at + cluster::TAGS_AT, cluster.leaves())
    }

    /// The cell of the leaf in a slot of a cluster.
    pub(crate) fn slot(&self, cluster: &Cluster, slot: usize) -> u32 {
        self.window.u32(cluster.cell_at(slot))
    }

    /// Whether a cluster still has the header that was read, as [`is_still`](Self::is_still).
    pub(crate) fn is_still_cluster(&self, cluster: &Cluster) -> bool {
        self.window.u32(cluster.at) & !FRESH == cluster.header
    }

    /// The leaf of a cell.
    pub fn leaf(&self, cell: u32) -> Result<Leaf, Trouble> {
        let at = byte_of(cell);
        if cell & KIND != LEAF || !self.inside(at, self.value_bytes + 8) {
            return Err(Trouble::Damaged("a leaf outside the window", at));
        }
        let [a, b, c, ..] = self.window.u64(at + self.value_bytes).to_ne_bytes();
        let key_len = leaf::key_len([a, b, c]);
        if usize::from(a) == leaf::LONG && key_len < leaf::LONG {
            let why = "a length that is written as if it were longer";
            return Err(Trouble::Damaged(why, at));
        }
        let size = leaf::size(self.value_bytes, key_len);
        if !self.inside(at, size + usize::from(self.strings)) {
            return Err(Trouble::Damaged("a leaf that ends outside the window", at));
        }
        let mut leaf = Leaf {
            at,
            key_at: at + leaf::key_at(self.value_bytes, key_len),
            key_len,
            value_at: at,
            value_len: self.value_bytes,
            end: at + size,
        };
        if self.strings {
            self.find_string(&mut leaf)?;
        }
        Ok(leaf)
    }

    /// Finds the byte string behind the key of a leaf. The first byte of its length lies inside the
    /// window.
    fn find_string(&self, leaf: &mut Leaf) -> Result<(), Trouble> {
        let damaged = |why| Err(Trouble::Damaged(why, leaf.at));
        let at = leaf.end;
        let outside = "a value that ends outside the window";
        let bytes = leaf::value_length_bytes(self.copy(at, 1)[0]);
        if !self.inside(at, bytes) {
            return damaged(outside);
        }
        let mut length = [0; 5];
        length[..bytes].copy_from_slice(&self.copy(at, bytes));
        let len = leaf::value_len(length);
        if leaf::value_length(len).1 != bytes {
            return damaged("a value's length that is written as if it were longer");
        }
        if !self.inside(at, bytes + len) {
            return damaged(outside);
        }
        leaf.value_at = at + bytes;
        leaf.value_len = len;
        leaf.end = leaf.value_at + len;
        Ok(())
    }

    /// Copies bytes that lie inside the window.
    fn copy(&self, from: usize, len: usize) -> Vec<u8> {
        bytes::copy(&self.window, from, len)
    }

    pub(crate) fn key(&self, leaf: &Leaf) -> Vec<u8> {
        self.copy(leaf.key_at, leaf.key_len)
    }

    /// Whether a leaf has this key.
    pub(crate) fn has_key(&self, leaf: &Leaf, key: &[u8]) -> bool {
        leaf.key_len == key.len() && bytes::are(&self.window, leaf.key_at, key)
    }

    /// Calls `take` with the bytes of a leaf's value.
    pub(crate) fn with_value<R>(&self, leaf: &Leaf, take: impl Fn(&[u8]) -> R) -> R {
        bytes::with_copy(&self.window, leaf.value_at, leaf.value_len, take)
    }

    /// The bytes of a leaf's value.
    pub fn value(&self, leaf: &Leaf) -> Vec<u8> {
        self.copy(leaf.value_at, leaf.value_len)
    }

    /// The key and the value of a leaf.
    pub fn entry(&self, leaf: &Leaf) -> Copied {
        (self.key(leaf), self.value(leaf))
    }

    /// Whether the rest of a leaf's block has only zeros.
    pub(crate) fn is_padded(&self, leaf: &Leaf) -> bool {
        let (end, block) = (leaf.end, leaf.block().1);
        self.copy(end, block - end).iter().all(|byte| *byte == 0)
    }
}

/// A key and the bytes of its value.
pub type Copied = (Vec<u8>, Vec<u8>);
