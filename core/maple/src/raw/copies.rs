//! Private copies of nodes that others write. Each is checked, and then decoded as the map's own
//! nodes are.

use alloc::vec::Vec;

use sapwood_arena::HEADER_LEN;
use sapwood_format::Window;
use sapwood_format::maple::{InnerHead, LINE, LeafHead, inner_bytes, leaf_bytes, leaf_places};

use super::entries::leaf_gap;
use super::node::{Inner, Leaf};
use super::search::{Fit, highest_in, lowest_in};
use crate::checked::Trouble;

/// The most pivots of a node.
const PIVOTS: usize = 128;

fn damaged(at: usize, what: &'static str) -> Trouble {
    Trouble::Damaged(what, at)
}

/// The place of the node that the word at `from` refers to. A line of it lies inside the window.
pub(crate) fn place_of<W: Window>(window: &W, from: usize, node: u32) -> Result<usize, Trouble> {
    let at = node as usize * 8;
    if at < HEADER_LEN || at + LINE > window.len() {
        return Err(damaged(from, "a reference leads out of the memory"));
    }
    Ok(at)
}

/// The words of a node, of which the first was read already, in the memory of an earlier copy.
fn copy<W: Window>(
    window: &W,
    at: usize,
    head: u64,
    bytes: usize,
    mut words: Vec<u64>,
) -> Result<Vec<u64>, Trouble> {
    if at + bytes > window.len() {
        return Err(damaged(at, "a node reaches out of the memory"));
    }
    words.clear();
    words.reserve(bytes / 8);
    words.push(head);
    words.extend((1..bytes / 8).map(|word| window.u64(at + 8 * word)));
    Ok(words)
}

/// A copy of a leaf. Its entries are in order and within its bounds.
pub(crate) struct LeafCopy {
    /// All of the leaf; head, borders and length agree.
    words: Vec<u64>,
    slot: usize,
}

impl LeafCopy {
    /// Copies and checks the leaf at `at`, a multiple of 8 whose line lies inside the window.
    /// `spare` is memory for the copy.
    pub(crate) fn read<W: Window>(
        window: &W,
        at: usize,
        slot: usize,
        (lower, upper): (u64, u64),
        spare: Vec<u64>,
    ) -> Result<LeafCopy, Trouble> {
        let word = window.u64(at).to_le();
        let head = LeafHead::from_word(word);
        let LeafHead { n, width, .. } = head;
        if n == 0 {
            return Err(damaged(at, "a leaf has no entries"));
        }
        if !(1..=3).contains(&width) || head.shift > 63 {
            return Err(damaged(at, "a leaf has an encoding that there is not"));
        }
        let (starts, values, _) = leaf_places(n, width, slot);
        if (head.starts, head.values) != (starts, values) {
            return Err(damaged(at, "a leaf's arrays are not where they should be"));
        }
        let bytes = leaf_bytes(n, width, slot);
        if head.lines * LINE != bytes {
            return Err(damaged(at, "a leaf does not have the bytes of its entries"));
        }
        let words = copy(window, at, word.to_le(), bytes, spare)?;
        let copied = LeafCopy { words, slot };
        copied
            .check(lower, upper)
            .map_err(|what| damaged(at, what))?;
        Ok(copied)
    }

    fn check(&self, lower: u64, upper: u64) -> Result<(), &'static str> {
        let leaf = self.leaf();
        let last = leaf.len() - 1;
        let mut before = None;
        for k in 0..=last {
            let (start, end) = leaf.units(k);
            if start > end || before.is_some_and(|before| start <= before) {
                return Err("a leaf's entries are not in order");
            }
            before = Some(end);
        }
        let encoding = leaf.encoding();
        let (_, end) = leaf.units(last);
        let past = (1 << encoding.shift) - 1;
        let distance = end << encoding.shift | past;
        if distance >> encoding.shift != end || encoding.base.checked_add(distance).is_none() {
            return Err("a leaf's entry ends behind the last index");
        }
        if leaf.start(0) < lower || leaf.last() > upper {
            return Err("a leaf's entries are not within its bounds");
        }
        // Only the last leaf has indices behind its last entry.
        if upper != u64::MAX && leaf.last() != upper {
            return Err("a leaf does not end at its bound");
        }
        Ok(())
    }

    #[inline]
    fn leaf(&self) -> Leaf {
        // SAFETY: the words are a whole leaf, as `read` has checked: its arrays lie inside, and so
        // do the bytes that searches read. Nobody changes them.
        unsafe { Leaf::at(self.words.as_ptr().cast()) }
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.leaf().len()
    }

    /// Number of entries that end before `x`.
    pub(crate) fn rank(&self, x: u64) -> usize {
        self.leaf().rank::<false>(x)
    }

    /// The bounds of an entry, and the bytes of its slot.
    pub(crate) fn entry(&self, k: usize) -> (u64, u64, &[u8]) {
        let (start, end, slot) = self.leaf().entry(k, self.slot);
        // SAFETY: the slots of all entries lie in the copy, as `read` has checked.
        let slot = unsafe { core::slice::from_raw_parts(slot, self.slot) };
        (start, end, slot)
    }

    /// The first index of the place that a search finds.
    pub(crate) fn place(&self, (lower, upper): (u64, u64), fit: &Fit) -> Option<u64> {
        match fit.highest {
            false => lowest_in(self.leaf(), lower, upper, fit),
            true => highest_in(self.leaf(), lower, upper, fit),
        }
    }

    /// The code of the largest gap.
    pub(crate) fn largest_gap(&self, (lower, upper): (u64, u64)) -> u16 {
        leaf_gap(self.leaf(), lower, upper)
    }
}

/// A copy of an inner node. Its pivots are in order and within its bounds.
pub(crate) struct InnerCopy {
    /// All of the node; head, pivots and length agree.
    words: Vec<u64>,
    cells: usize,
}

impl InnerCopy {
    /// Copies and checks the inner node at `at`, a multiple of 8 whose line lies inside the window.
    /// `spare` is memory for the copy.
    pub(crate) fn read<W: Window>(
        window: &W,
        at: usize,
        (lower, upper): (u64, u64),
        spare: Vec<u64>,
    ) -> Result<InnerCopy, Trouble> {
        let word = window.u64(at).to_le();
        let head = InnerHead::from_word(word);
        let InnerHead { n, filled, lines } = head;
        // What is neither part of the head nor the mark of a node that was replaced.
        if word >> 16 & 0xFF != 0 || word >> 33 != 0 {
            return Err(damaged(at, "an inner node has a head that there is not"));
        }
        if n < 2 || filled < n - 1 || filled > PIVOTS || filled % 4 != 0 {
            return Err(damaged(at, "an inner node has a wrong number of children"));
        }
        let bytes = inner_bytes(n, filled);
        if lines * LINE != bytes {
            return Err(damaged(
                at,
                "an inner node does not have the bytes of its children",
            ));
        }
        let words = copy(window, at, word.to_le(), bytes, spare)?;
        let pivots = &words[1..=filled];
        let (pivots, fill) = pivots.split_at(n - 1);
        let ascending = pivots.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascending || fill.iter().any(|&pivot| pivot != u64::MAX) {
            return Err(damaged(at, "an inner node's pivots are not in order"));
        }
        if pivots[0] < lower || pivots[n - 2] >= upper {
            return Err(damaged(
                at,
                "an inner node's pivots are not within its bounds",
            ));
        }
        Ok(InnerCopy {
            words,
            cells: at + head.cells_at(),
        })
    }

    #[inline]
    fn inner(&self) -> Inner {
        // SAFETY: the words are a whole inner node, as `read` has checked: its arrays lie inside.
        unsafe { Inner::at(self.words.as_ptr().cast()) }
    }

    /// The memory, for another copy.
    pub(crate) fn into_spare(self) -> Vec<u64> {
        self.words
    }

    /// Number of children.
    pub(crate) fn len(&self) -> usize {
        self.inner().len()
    }

    /// The child whose bounds hold `x`.
    pub(crate) fn find(&self, x: u64) -> usize {
        self.inner().find::<false>(x)
    }

    /// A child, and the place of its cell in the window.
    pub(crate) fn child(&self, i: usize) -> (usize, u32) {
        (self.cells + 4 * i, self.inner().child(i))
    }

    /// The bounds of a child of this node, whose own bounds are these.
    pub(crate) fn bounds(&self, i: usize, (lower, upper): (u64, u64)) -> (u64, u64) {
        let inner = self.inner();
        let from = match i {
            0 => lower,
            _ => inner.pivot(i - 1) + 1,
        };
        let to = match i + 1 < inner.len() {
            true => inner.pivot(i),
            false => upper,
        };
        (from, to)
    }

    /// The code of the largest gap below a child.
    pub(crate) fn gap(&self, i: usize) -> u16 {
        self.inner().gap(i)
    }
}
