//! Branches, clusters and leaves of a window that others write. They are read word by word, and
//! checked before use.
//!
//! All reads are atomic, so a change during a read gives other words, and is not a data race. A
//! reference is followed only to bytes inside the window.

use sapwood_arena::EXTRA_AT;
use sapwood_format::branch::{self, BIG, FRESH, LABELS_AT, LOCKS, MAP_AT};
use sapwood_format::cluster::{self, SLOTS_MAX};
use sapwood_format::header;
use sapwood_format::{CLUSTER, KIND, LEAF, byte_of, is_branch, leaf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::layout::root;
use crate::raw::arena::{Memory, PAGE};

/// Why a read failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The bytes at this place of the window break the format.
    Damaged(&'static str, usize),
    /// A change disturbed the read.
    Changed,
}

impl Trouble {
    /// The error of an operation on the map of this name.
    pub(crate) fn error(self, name: &str) -> Error {
        match self {
            Trouble::Damaged(why, at) => Error::Damaged(format!("{name}, byte {at}: {why}")),
            Trouble::Changed => Error::Busy(name.to_owned()),
        }
    }
}

/// Words that others write. Each word is loaded atomically with Acquire, so later loads are at
/// least as new.
pub(crate) trait Window {
    /// The bytes of the window. Nothing behind them is read.
    fn len(&self) -> usize;

    /// The word at this byte, a multiple of 4 below `len`.
    fn u32(&self, at: usize) -> u32;

    /// The word at this byte, a multiple of 8 below `len`.
    fn u64(&self, at: usize) -> u64;
}

/// A window of an arena.
#[derive(Clone)]
pub(crate) struct Place {
    memory: Arc<Memory>,
    at: usize,
    len: usize,
}

impl Place {
    /// The window of `len` bytes at `at`, a page's beginning.
    pub(crate) fn new(memory: &Arc<Memory>, at: usize, len: usize) -> Place {
        debug_assert!(at % PAGE == 0 && len % 8 == 0 && len >= PAGE && at + len <= memory.len());
        Place {
            memory: Arc::clone(memory),
            at,
            len,
        }
    }
}

impl Window for Place {
    fn len(&self) -> usize {
        self.len
    }

    fn u32(&self, at: usize) -> u32 {
        self.memory.u32(self.at + at).load(Ordering::Acquire)
    }

    fn u64(&self, at: usize) -> u64 {
        self.memory.u64(self.at + at).load(Ordering::Acquire)
    }
}

/// The nodes in a window, for one operation.
#[derive(Clone)]
pub(crate) struct Nodes<W> {
    pub(super) window: W,
    /// Bytes of a value, which lies before the key; 0 when values are byte strings.
    value_bytes: usize,
    /// Whether values are byte strings, which lie behind the key.
    strings: bool,
}

/// A branch whose header and labels were read and are consistent.
#[derive(Clone, Copy)]
pub(crate) struct Branch {
    at: usize,
    header: u32,
    /// The labels, one bit each.
    labels: [u64; 4],
}

/// A cluster whose header was read. It lies inside the window.
#[derive(Clone, Copy)]
pub(crate) struct Cluster {
    at: usize,
    header: u32,
}

/// The borders of a cluster's leaves: for each slot, where its key parts from the one before.
#[derive(Clone, Copy)]
pub(super) struct Borders {
    base: usize,
    leaves: usize,
    distances: [u8; SLOTS_MAX],
    bytes: [u8; SLOTS_MAX],
}

/// A leaf that lies inside the window.
#[derive(Clone, Copy)]
pub(crate) struct Leaf {
    at: usize,
    key_at: usize,
    key_len: usize,
    value_at: usize,
    value_len: usize,
    end: usize,
}

/// The length of the longest common prefix of two keys, or `None` when they are equal.
pub(super) fn mismatch(a: &[u8], b: &[u8]) -> Option<usize> {
    let common = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    (common < a.len() || common < b.len()).then_some(common)
}

/// A mask of the labels in a word up to `byte`.
fn up_to(byte: u8) -> u64 {
    u64::MAX >> (63 - byte % 64)
}

impl Branch {
    pub(super) fn offset(&self) -> usize {
        branch::offset_of(self.header)
    }

    pub(super) fn children(&self) -> usize {
        branch::children_of(self.header)
    }

    /// The places at which its block begins and ends.
    pub(crate) fn block(&self) -> (usize, usize) {
        (self.at, self.at + branch::block_of(self.header))
    }

    /// The child that a key belongs to: the number of labels that are not greater than its byte.
    pub(super) fn child(&self, key: &[u8]) -> usize {
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
    pub(crate) fn block(&self) -> (usize, usize) {
        (self.at, self.at + cluster::block_of(self.header))
    }

    pub(super) fn leaves(&self) -> usize {
        cluster::leaves_of(self.header)
    }
}

impl Borders {
    /// The offset at which the leaf in a slot parts from the one before.
    fn offset(&self, slot: usize) -> usize {
        self.base + usize::from(self.distances[slot])
    }

    /// The slot of a leaf that shares the longest prefix with a key. If the key is there, its slot.
    pub(super) fn search(&self, key: &[u8]) -> usize {
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
    pub(super) fn place(&self, found: usize, at: usize, less: bool) -> usize {
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

    /// Whether two keys part as the border between a slot and the one before says.
    pub(super) fn part(&self, slot: usize, left: &[u8], right: &[u8]) -> bool {
        let (offset, label) = (self.offset(slot), self.bytes[slot]);
        let between = match (left.get(offset), right.get(offset)) {
            (None, _) => label == 0,
            (Some(left), Some(right)) => *left < label && label <= *right,
            (Some(_), None) => false,
        };
        between && mismatch(left, right) == Some(offset)
    }
}

impl Leaf {
    /// The places at which its block begins and ends.
    pub(crate) fn block(&self) -> (usize, usize) {
        (self.at, self.end.next_multiple_of(8))
    }
}

impl<W: Window> Nodes<W> {
    /// The nodes of a window whose values have this many bytes, a multiple of 8, or are
    /// [`header::BYTE_STRINGS`].
    pub(crate) fn new(window: W, value_bytes: usize) -> Nodes<W> {
        let strings = value_bytes as u64 == header::BYTE_STRINGS;
        Nodes {
            window,
            value_bytes: if strings { 0 } else { value_bytes },
            strings,
        }
    }

    /// Bytes of a value, unless values are byte strings.
    pub(super) fn value_bytes(&self) -> Option<usize> {
        (!self.strings).then_some(self.value_bytes)
    }

    fn root_word(&self, index: usize) -> u64 {
        self.window.u64(root(index) as usize)
    }

    /// The root cell.
    pub(crate) fn root(&self) -> u32 {
        self.root_word(header::ROOT) as u32
    }

    /// The header page's word on whether there is an index.
    pub(super) fn has_index(&self) -> u64 {
        self.root_word(header::HAS_INDEX)
    }

    /// Whether the map has an index and no trie.
    pub(super) fn has_only_index(&self) -> bool {
        self.has_index() == header::ONLY_INDEX
    }

    /// The reference of the index's table where lookups begin.
    pub(super) fn table(&self) -> u32 {
        self.root_word(header::TABLE) as u32
    }

    /// The secrets of the index's hash.
    pub(super) fn secrets(&self) -> [u64; sapwood_format::hash::SECRETS] {
        std::array::from_fn(|i| self.window.u64(EXTRA_AT + 8 * i))
    }

    /// Whether this many bytes from `at` on lie inside the window, behind the header page.
    pub(super) fn inside(&self, at: usize, bytes: usize) -> bool {
        let len = self.window.len();
        at >= PAGE && bytes <= len && at <= len - bytes
    }

    /// The branch of a cell. Its offset must be at least `min`.
    pub(crate) fn branch(&self, cell: u32, min: usize) -> Result<Branch, Trouble> {
        let at = byte_of(cell);
        let damaged = |why| Err(Trouble::Damaged(why, at));
        if !is_branch(cell) || !self.inside(at, 16) {
            return damaged("a branch outside the window");
        }
        let mut branch = Branch {
            at,
            header: self.window.u32(at) & !LOCKS,
            labels: [0; 4],
        };
        if !branch::is_sound(branch.header, min) {
            return damaged("no branch has such a header here");
        }
        if !self.inside(at, branch::block_of(branch.header)) {
            return damaged("a branch that ends outside the window");
        }
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
    pub(super) fn check_branch(&self, branch: &Branch, free: bool) -> Result<(), Trouble> {
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
    pub(super) fn cell(&self, branch: &Branch, i: usize) -> u32 {
        debug_assert!(i < branch.children());
        let cells = branch.at + branch::cells_at(branch.header);
        self.window.u32(cells + 4 * i)
    }

    /// Whether a branch still has the header that was read, checked after all earlier reads.
    pub(super) fn is_still(&self, branch: &Branch) -> bool {
        self.window.u32(branch.at) & !LOCKS == branch.header
    }

    /// The cluster of a cell.
    pub(crate) fn cluster(&self, cell: u32) -> Result<Cluster, Trouble> {
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
    pub(super) fn borders(&self, cluster: &Cluster, min: usize) -> Result<Borders, Trouble> {
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
    pub(super) fn check_cluster(&self, cluster: &Cluster, free: bool) -> Result<(), Trouble> {
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
    pub(super) fn tags(&self, cluster: &Cluster) -> Vec<u8> {
        self.copy(cluster.at + cluster::TAGS_AT, cluster.leaves())
    }

    /// The cell of the leaf in a slot of a cluster.
    pub(super) fn slot(&self, cluster: &Cluster, slot: usize) -> u32 {
        debug_assert!(slot < cluster.leaves());
        let cells = cluster.at + cluster::cells_at(cluster.header);
        self.window.u32(cells + 4 * slot)
    }

    /// Whether a cluster still has the header that was read, as [`is_still`](Self::is_still).
    pub(super) fn is_still_cluster(&self, cluster: &Cluster) -> bool {
        self.window.u32(cluster.at) & !FRESH == cluster.header
    }

    /// The leaf of a cell.
    pub(crate) fn leaf(&self, cell: u32) -> Result<Leaf, Trouble> {
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
        let mut bytes = Vec::with_capacity(len + 16);
        let first = from / 8 * 8;
        for at in (first..from + len).step_by(8) {
            bytes.extend_from_slice(&self.window.u64(at).to_ne_bytes());
        }
        bytes.truncate(from - first + len);
        bytes.drain(..from - first);
        bytes
    }

    pub(super) fn key(&self, leaf: &Leaf) -> Vec<u8> {
        self.copy(leaf.key_at, leaf.key_len)
    }

    pub(crate) fn value(&self, leaf: &Leaf) -> Vec<u8> {
        self.copy(leaf.value_at, leaf.value_len)
    }

    /// The key and the value of a leaf.
    pub(crate) fn entry(&self, leaf: &Leaf) -> Copied {
        (self.key(leaf), self.value(leaf))
    }

    /// Whether the rest of a leaf's block has only zeros.
    pub(super) fn is_padded(&self, leaf: &Leaf) -> bool {
        let (end, block) = (leaf.end, leaf.block().1);
        self.copy(end, block - end).iter().all(|byte| *byte == 0)
    }
}

/// A key and the bytes of its value.
pub(crate) type Copied = (Vec<u8>, Vec<u8>);

#[cfg(test)]
pub(super) mod tests {
    use std::sync::atomic::AtomicU64;

    use sapwood_format::{branch_cell, cluster_cell, leaf_cell};

    use super::*;

    /// A window in plain memory.
    pub(in super::super) struct Words(pub(in super::super) Vec<AtomicU64>);

    impl Words {
        pub(in super::super) fn new(words: usize) -> Words {
            Words((0..words).map(|_| AtomicU64::new(0)).collect())
        }

        /// Writes bytes from place `at` on.
        pub(in super::super) fn write(&self, at: usize, bytes: &[u8]) {
            for (at, byte) in (at..).zip(bytes) {
                let word = &self.0[at / 8];
                let mut all = word.load(Ordering::Relaxed).to_ne_bytes();
                all[at % 8] = *byte;
                word.store(u64::from_ne_bytes(all), Ordering::Release);
            }
        }

        pub(in super::super) fn byte(&self, at: usize) -> u8 {
            self.0[at / 8].load(Ordering::Relaxed).to_ne_bytes()[at % 8]
        }
    }

    impl Window for &Words {
        fn len(&self) -> usize {
            self.0.len() * 8
        }

        fn u32(&self, at: usize) -> u32 {
            assert!(at % 4 == 0);
            let word = self.u64(at / 8 * 8).to_ne_bytes();
            let half: [u8; 4] = word[at % 8..at % 8 + 4].try_into().unwrap();
            u32::from_ne_bytes(half)
        }

        fn u64(&self, at: usize) -> u64 {
            assert!(at % 8 == 0);
            self.0[at / 8].load(Ordering::Acquire)
        }
    }

    /// The reference of the first node.
    const FIRST: u32 = (PAGE / 8) as u32;

    fn damaged<T>(result: Result<T, Trouble>) -> Option<&'static str> {
        match result {
            Err(Trouble::Damaged(why, _)) => Some(why),
            _ => None,
        }
    }

    /// Writes a branch with these labels for the sixth byte as the first node.
    fn written(words: &Words, labels: &[u8]) -> u32 {
        let header = branch::header(5, labels.len());
        words.write(PAGE, &header.to_ne_bytes());
        if header & BIG == 0 {
            let last = [labels[labels.len() - 1]; 4];
            words.write(PAGE + LABELS_AT, labels);
            let padding = branch::padded(labels.len()) - labels.len();
            words.write(PAGE + LABELS_AT + labels.len(), &last[..padding]);
        } else {
            for byte in 0..=255 {
                let child = labels.iter().filter(|label| **label <= byte).count();
                let mapped = branch::mapped(labels.len(), child);
                words.write(PAGE + MAP_AT + usize::from(byte), &[mapped]);
            }
        }
        header
    }

    #[test]
    fn children_by_runs() {
        let words = Words::new(1024);
        let nodes = Nodes::new(&words, 8);
        let some: [u8; 6] = [0, 1, 63, 64, 200, 255];
        let many: Vec<u8> = (3..=250).step_by(3).collect();
        let all: Vec<u8> = (0..=255).collect();
        for labels in [
            &some[..],
            &[7],
            &many[..32],
            &many[..33],
            &many,
            &all[1..],
            &all,
        ] {
            let header = written(&words, labels);
            let branch = nodes
                .branch(branch_cell(FIRST), 5)
                .unwrap_or_else(|_| panic!());
            nodes.check_branch(&branch, true).unwrap();
            assert_eq!(branch.children(), labels.len() + 1);
            assert_eq!(branch.block(), (PAGE, PAGE + branch::block_of(header)));
            assert_eq!(branch.child(b"short"), 0);
            for byte in 0..=255 {
                let child = labels.iter().filter(|label| **label <= byte).count();
                assert_eq!(branch.child(&[9, 9, 9, 9, 9, byte, 9]), child);
            }
            // The state of locks is ignored, unless they must be free.
            words.write(PAGE, &(header | LOCKS).to_ne_bytes());
            let branch = nodes
                .branch(branch_cell(FIRST), 0)
                .unwrap_or_else(|_| panic!());
            assert!(nodes.is_still(&branch));
            nodes.check_branch(&branch, false).unwrap();
            nodes.check_branch(&branch, true).unwrap_err();
            assert!(damaged(nodes.branch(branch_cell(FIRST), 6)).is_some());
        }
    }

    #[test]
    fn labels_that_are_none() {
        let words = Words::new(1024);
        let nodes = Nodes::new(&words, 8);
        let cell = branch_cell(FIRST);
        for label in [0, 1, 9] {
            written(&words, &[1, 3, 9]);
            words.write(PAGE + LABELS_AT + 1, &[label]);
            assert!(damaged(nodes.branch(cell, 0)).is_some(), "{label}");
        }
        written(&words, &[1, 3, 9]);
        words.write(PAGE + LABELS_AT + 3, &[10]);
        let branch = nodes.branch(cell, 0).unwrap_or_else(|_| panic!());
        assert!(nodes.check_branch(&branch, false).is_err());
        let many: Vec<u8> = (0..=255).step_by(2).collect();
        for byte in [0, 1, 77, 128, 255] {
            written(&words, &many);
            let at = PAGE + MAP_AT + byte;
            let mapped = words.byte(at);
            for wrong in [mapped + 1, mapped.wrapping_sub(1)] {
                words.write(at, &[wrong]);
                // Two bytes have the same child, so the border between two children may be moved.
                let moves = byte % 2 == 1 && byte != 255 && wrong == mapped + 1
                    || byte % 2 == 0 && wrong.wrapping_add(1) == mapped;
                assert_eq!(
                    damaged(nodes.branch(cell, 0)).is_none(),
                    moves,
                    "{byte} {wrong}"
                );
            }
        }
    }

    /// Writes a cluster, and returns the places of its parts.
    fn cluster_of(words: &Words, base: usize, borders: &[(u8, u8)], capacity: usize) -> u32 {
        let header = cluster::header(base, borders.len(), capacity);
        words.write(PAGE, &header.to_ne_bytes());
        for (i, (distance, byte)) in borders.iter().enumerate() {
            words.write(PAGE + cluster::borders_at(header) + i, &[*distance]);
            words.write(PAGE + cluster::bytes_at(header) + i, &[*byte]);
        }
        header
    }

    #[test]
    fn searches_in_clusters() {
        let words = Words::new(1024);
        let nodes = Nodes::new(&words, 8);
        let keys: [&[u8]; 7] = [b"a", b"abba", b"abbey", b"abbot", b"b", b"bee", b"beech"];
        let borders = [
            (0, 0),
            (1, 0),
            (3, b'c'),
            (3, b'o'),
            (0, b'b'),
            (1, 0),
            (3, 0),
        ];
        let header = cluster_of(&words, 0, &borders, 8);
        let cell = cluster_cell(FIRST);
        let cluster = nodes.cluster(cell).unwrap_or_else(|_| panic!());
        assert_eq!((cluster.leaves(), cluster.block().1), (7, PAGE + 64));
        nodes.check_cluster(&cluster, true).unwrap();
        assert!(nodes.borders(&cluster, 1).is_err());
        let borders = nodes.borders(&cluster, 0).unwrap_or_else(|_| panic!());
        for (i, key) in keys.into_iter().enumerate() {
            assert_eq!(borders.search(key), i, "{key:?}");
            assert!(i == 0 || borders.part(i, keys[i - 1], key), "{key:?}");
            assert!(i == 0 || !borders.part(i, key, keys[i - 1]), "{key:?}");
        }
        for (left, right, part) in [
            ("abbn", "abbo", true),
            ("abba", "abbz", true),
            ("abbo", "abbp", false),
            ("abba", "abbn", false),
            ("abb", "abbo", false),
            ("abba", "abcz", false),
        ] {
            let (left, right) = (left.as_bytes(), right.as_bytes());
            assert_eq!(borders.part(3, left, right), part);
        }
        for (asked, place) in [
            ("", 0),
            ("aa", 1),
            ("abb", 1),
            ("abbb", 2),
            ("abbe", 2),
            ("abbf", 3),
            ("abc", 4),
            ("ax", 4),
            ("be", 5),
            ("beer", 7),
            ("bees", 7),
            ("c", 7),
        ] {
            let asked = asked.as_bytes();
            let found = borders.search(asked);
            let at = mismatch(asked, keys[found]).unwrap();
            assert_eq!(
                borders.place(found, at, asked < keys[found]),
                place,
                "{asked:?}"
            );
        }
        // Locks, and slots that have no leaf.
        words.write(PAGE, &(header | FRESH).to_ne_bytes());
        let cluster = nodes.cluster(cell).unwrap_or_else(|_| panic!());
        assert!(nodes.is_still_cluster(&cluster));
        nodes.check_cluster(&cluster, false).unwrap();
        nodes.check_cluster(&cluster, true).unwrap_err();
        for at in [
            cluster::TAGS_AT + 7,
            cluster::cells_at(header) + 28,
            cluster::cells_at(header) + 31,
            cluster::borders_at(header),
            cluster::borders_at(header) + 7,
            cluster::bytes_at(header),
            cluster::bytes_at(header) + 7,
        ] {
            words.write(PAGE + at, &[1]);
            nodes.check_cluster(&cluster, false).unwrap_err();
            words.write(PAGE + at, &[0]);
        }
        nodes.check_cluster(&cluster, false).unwrap();
    }

    #[test]
    fn nothing_is_read_outside() {
        let words = Words::new(PAGE / 8 + 4);
        let nodes = Nodes::new(&words, 8);
        for reference in [0, 1, FIRST - 1, FIRST + 4, FIRST + 5, u32::MAX >> 2] {
            assert!(damaged(nodes.branch(branch_cell(reference), 0)).is_some());
            assert!(damaged(nodes.cluster(cluster_cell(reference))).is_some());
            assert!(damaged(nodes.leaf(leaf_cell(reference))).is_some());
        }
        // Nodes that begin inside the window and end outside.
        for (header, sound) in [
            (cluster::header(0, 2, 4), true),
            (cluster::header(0, 2, 8), false),
        ] {
            words.write(PAGE, &header.to_ne_bytes());
            assert_eq!(nodes.cluster(cluster_cell(FIRST)).is_ok(), sound);
        }
        for (labels, sound) in [
            (4, true),
            (5, false),
            (32, false),
            (33, false),
            (256, false),
        ] {
            words.write(PAGE, &branch::header(0, labels).to_ne_bytes());
            words.write(PAGE + LABELS_AT, &[1, 2, 3, 4]);
            assert_eq!(
                nodes.branch(branch_cell(FIRST), 0).is_ok(),
                sound,
                "{labels}"
            );
        }
        for (len, sound) in [(23, true), (24, false), (254, false)] {
            words.write(PAGE + 8, &[len]);
            assert_eq!(nodes.leaf(leaf_cell(FIRST)).is_ok(), sound, "{len}");
        }
        // A cell has the kind of its node.
        assert!(damaged(nodes.leaf(leaf_cell(FIRST) | CLUSTER)).is_some());
        assert!(damaged(nodes.leaf(cluster_cell(FIRST))).is_some());
        assert!(damaged(nodes.branch(leaf_cell(FIRST), 0)).is_some());
        assert!(damaged(nodes.cluster(branch_cell(FIRST))).is_some());
    }
}
