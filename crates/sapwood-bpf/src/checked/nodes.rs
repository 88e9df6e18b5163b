//! Branches and leaves of a window that others write: read word by word, and checked before they
//! are believed.
//!
//! Everything is read through atomics, so what changes meanwhile gives other words, never anything
//! worse. A reference is followed only to bytes that the window has.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sapwood::qp::Published;
use sapwood::qp::format::branch::{self, BIG, BIG_MAP, LABELS_AT, LOCKS, RANKS_AT};
use sapwood::qp::format::{LEAF, byte_of, leaf};
use sapwood_arena::EXTRA_AT;

use crate::error::Error;
use crate::layout::root;
use crate::raw::arena::{Memory, PAGE};

/// Why a read came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// What lies at this byte of the window cannot be what it should be.
    Damaged(&'static str, usize),
    /// It was changed while it was read.
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

/// Words that others write. Each is loaded whole, and with Acquire: what is loaded after it is at
/// least as new.
pub(crate) trait Window {
    /// Bytes from the window's beginning; nothing behind them is read.
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

/// The nodes in a window, as far as one operation relies on them.
#[derive(Clone)]
pub(crate) struct Nodes<W> {
    pub(super) window: W,
    pub(super) value_bytes: usize,
}

/// A branch whose header and labels were read and fit each other.
#[derive(Clone, Copy)]
pub(crate) struct Branch {
    pub(super) at: usize,
    header: u32,
    /// The labels, a bit each.
    map: [u64; 4],
}

/// A leaf that lies inside.
#[derive(Clone, Copy)]
pub(crate) struct Leaf {
    at: usize,
    key_at: usize,
    key_len: usize,
}

impl Branch {
    pub(super) fn offset(&self) -> usize {
        branch::offset_of(self.header)
    }

    fn end(&self) -> usize {
        branch::end_of(self.header)
    }

    pub(super) fn children(&self) -> usize {
        branch::children_of(self.header)
    }

    /// Where its block begins and ends.
    pub(crate) fn block(&self) -> (usize, usize) {
        (self.at, self.at + branch::block_of(self.header))
    }

    /// The number of children before one with this byte (`None`: END).
    pub(super) fn rank(&self, byte: Option<u8>) -> usize {
        let Some(byte) = byte else { return 0 };
        let word = branch::word_of(byte);
        let before: u32 = self.map[..word].iter().map(|word| word.count_ones()).sum();
        let below = self.map[word] & (branch::bit_of(byte) - 1);
        (before + below.count_ones()) as usize + self.end()
    }

    /// The child with this byte of the key (`None`: the key ends).
    pub(super) fn find(&self, byte: Option<u8>) -> Option<usize> {
        let there = match byte {
            None => self.end() == 1,
            Some(byte) => self.map[branch::word_of(byte)] & branch::bit_of(byte) != 0,
        };
        there.then(|| self.rank(byte))
    }

    /// The byte of the `i`th child; `None`: END.
    pub(super) fn label(&self, i: usize) -> Option<u8> {
        let mut rest = i.checked_sub(self.end())? as u32;
        for (at, word) in self.map.iter().enumerate() {
            if rest < word.count_ones() {
                return Some(branch::label_of(at, *word, rest));
            }
            rest -= word.count_ones();
        }
        None
    }
}

impl Leaf {
    /// Where its block begins and ends.
    pub(crate) fn block(&self) -> (usize, usize) {
        (self.at, self.end().next_multiple_of(8))
    }

    fn end(&self) -> usize {
        self.key_at + self.key_len
    }
}

impl<W: Window> Nodes<W> {
    /// The nodes of a window whose values have this many bytes, a multiple of 8.
    pub(crate) fn new(window: W, value_bytes: usize) -> Nodes<W> {
        Nodes {
            window,
            value_bytes,
        }
    }

    fn root_word(&self, index: usize) -> u64 {
        self.window.u64(root(index) as usize)
    }

    /// The root cell.
    pub(crate) fn root(&self) -> u32 {
        // A leaf that is nowhere.
        u32::try_from(self.root_word(Published::ROOT)).unwrap_or(LEAF)
    }

    /// Whether there is an index, as the header page says.
    pub(super) fn has_index(&self) -> u64 {
        self.root_word(Published::HAS_INDEX)
    }

    /// Whether there is no trie.
    pub(super) fn has_only_index(&self) -> bool {
        self.has_index() == Published::ONLY_INDEX
    }

    /// The reference of the index's table where lookups begin.
    pub(super) fn table(&self) -> u32 {
        self.root_word(Published::TABLE) as u32
    }

    /// The secrets of the index's hash.
    pub(super) fn secrets(&self) -> [u64; Published::SECRETS] {
        std::array::from_fn(|i| self.window.u64(EXTRA_AT + 8 * i))
    }

    /// Whether this many bytes from `at` on are inside, behind the header page.
    pub(super) fn inside(&self, at: usize, bytes: usize) -> bool {
        let len = self.window.len();
        at >= PAGE && bytes <= len && at <= len - bytes
    }

    /// The branch of a cell; its offset must be `min` at least.
    pub(crate) fn branch(&self, cell: u32, min: usize) -> Result<Branch, Trouble> {
        let at = byte_of(cell);
        let damaged = |why| Err(Trouble::Damaged(why, at));
        if cell & LEAF != 0 || !self.inside(at, 16) {
            return damaged("a branch outside the window");
        }
        let mut branch = Branch {
            at,
            header: self.window.u32(at) & !LOCKS,
            map: [0; 4],
        };
        if !branch::is_sound(branch.header, min) {
            return damaged("no branch has such a header here");
        }
        if !self.inside(at, branch::block_of(branch.header)) {
            return damaged("a branch that ends outside the window");
        }
        let labels = branch::labels_of(branch.header);
        if branch.header & BIG != 0 {
            for (i, word) in branch.map.iter_mut().enumerate() {
                *word = self.window.u64(at + BIG_MAP + 8 * i);
            }
        } else {
            let mut before = None;
            for i in (0..labels).step_by(4) {
                let word = self.window.u32(at + LABELS_AT + i).to_ne_bytes();
                for &label in &word[..(labels - i).min(4)] {
                    if before.is_some_and(|before| before >= label) {
                        return damaged("labels that do not ascend");
                    }
                    before = Some(label);
                    branch.map[branch::word_of(label)] |= branch::bit_of(label);
                }
            }
        }
        let count: u32 = branch.map.iter().map(|word| word.count_ones()).sum();
        match count as usize == labels {
            true => Ok(branch),
            false => damaged("labels that are not as many as the header says"),
        }
    }

    /// Checks what only a whole check looks at: padding of labels, ranks, and, if it has to be
    /// free, the lock.
    pub(super) fn check_spare(&self, branch: &Branch, free: bool) -> Result<(), Trouble> {
        let damaged = |why| Err(Trouble::Damaged(why, branch.at));
        if free && self.window.u32(branch.at) != branch.header {
            return damaged("a branch that is locked");
        }
        if branch.header & BIG != 0 {
            let ranks = self.window.u32(branch.at + RANKS_AT).to_ne_bytes();
            let mut before = 0;
            for (word, rank) in branch.map.iter().zip(ranks) {
                if u32::from(rank) != before {
                    return damaged("ranks that do not fit the bitmap");
                }
                before += word.count_ones();
            }
        } else {
            let labels = branch::labels_of(branch.header);
            let last = branch.label(branch.children() - 1);
            let padding = self.copy(branch.at + LABELS_AT, branch::padded(labels));
            if padding[labels..].iter().any(|label| Some(*label) != last) {
                return damaged("labels that are padded with something else");
            }
        }
        Ok(())
    }

    /// The cell of the `i`th child, END first.
    pub(super) fn cell(&self, branch: &Branch, i: usize) -> u32 {
        debug_assert!(i < branch.children());
        let cells = branch.at + branch::cells_at(branch.header);
        self.window.u32(cells + 4 * i)
    }

    /// Whether a branch has the header that it had, when everything read so far was read.
    pub(super) fn is_still(&self, branch: &Branch) -> bool {
        self.window.u32(branch.at) & !LOCKS == branch.header
    }

    /// The leaf of a cell.
    pub(crate) fn leaf(&self, cell: u32) -> Result<Leaf, Trouble> {
        let at = byte_of(cell);
        if cell & LEAF == 0 || !self.inside(at, self.value_bytes + 8) {
            return Err(Trouble::Damaged("a leaf outside the window", at));
        }
        let [a, b, c, ..] = self.window.u64(at + self.value_bytes).to_ne_bytes();
        let key_len = leaf::key_len([a, b, c]);
        if usize::from(a) == leaf::LONG && key_len < leaf::LONG {
            let why = "a length that is written as if it were longer";
            return Err(Trouble::Damaged(why, at));
        }
        match self.inside(at, leaf::size(self.value_bytes, key_len)) {
            true => Ok(Leaf {
                at,
                key_at: at + leaf::key_at(self.value_bytes, key_len),
                key_len,
            }),
            false => Err(Trouble::Damaged("a leaf that ends outside the window", at)),
        }
    }

    /// Copies bytes that are inside.
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
        self.copy(leaf.at, self.value_bytes)
    }

    /// Key and value of a leaf.
    pub(crate) fn entry(&self, leaf: &Leaf) -> Copied {
        (self.key(leaf), self.value(leaf))
    }

    /// Whether only zeros follow a leaf's key in its block.
    pub(super) fn is_padded(&self, leaf: &Leaf) -> bool {
        let (end, block) = (leaf.end(), leaf.block().1);
        self.copy(end, block - end).iter().all(|byte| *byte == 0)
    }
}

/// A key and the bytes of its value.
pub(crate) type Copied = (Vec<u8>, Vec<u8>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_ranks() {
        let labels = [0u8, 1, 63, 64, 200, 255];
        let mut map = [0u64; 4];
        for label in labels {
            map[branch::word_of(label)] |= branch::bit_of(label);
        }
        for end in [false, true] {
            let branch = Branch {
                at: PAGE,
                header: branch::header(5, labels.len(), end),
                map,
            };
            let first = usize::from(end);
            assert_eq!(branch.children(), 6 + first);
            assert_eq!(branch.find(None), end.then_some(0));
            for (i, label) in labels.into_iter().enumerate() {
                assert_eq!(branch.label(i + first), Some(label));
                assert_eq!(branch.find(Some(label)), Some(i + first));
                assert_eq!(branch.rank(Some(label)), i + first);
            }
            assert_eq!(branch.find(Some(62)), None);
            assert_eq!(branch.rank(Some(62)), 2 + first);
        }
    }
}
