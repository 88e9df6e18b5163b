//! Private copies of nodes that others write. Each is checked before it is used.

use sapwood_format::Window;
use sapwood_format::maple::gap::{Search, code};
use sapwood_format::maple::{
    InnerHead, LEAF_HEAD, LINE, LeafHead, inner_bytes, leaf_bytes, leaf_places,
};
use zerocopy::IntoBytes;

use crate::{Trouble, bytes};

/// The most pivots of a node.
const PIVOTS: usize = 128;

/// The first and the last index that lie in a node.
pub(super) type Bounds = (u64, u64);

fn damaged(at: usize, what: &'static str) -> Trouble {
    Trouble::Damaged(what, at)
}

/// The place of the node that the word at `from` refers to. A line of it lies inside the window.
pub(super) fn place_of(window: &impl Window, from: usize, node: u32) -> Result<usize, Trouble> {
    let at = node as usize * 8;
    match bytes::inside(window, at, LINE) {
        true => Ok(at),
        false => Err(damaged(from, "a reference leads out of the memory")),
    }
}

/// The words of a node, of which the first was read already, in the memory of an earlier copy.
fn copy(
    window: &impl Window,
    at: usize,
    head: u64,
    bytes: usize,
    mut words: Vec<u64>,
) -> Result<Vec<u64>, Trouble> {
    if !bytes::inside(window, at, bytes) {
        return Err(damaged(at, "a node reaches out of the memory"));
    }
    words.clear();
    words.reserve(bytes / 8);
    words.push(head);
    words.extend((1..bytes / 8).map(|word| window.u64(at + 8 * word)));
    Ok(words)
}

/// The number of `N` bytes at this place of a copy.
fn number<const N: usize>(words: &[u64], at: usize) -> [u8; N] {
    let mut number = [0; N];
    number.copy_from_slice(&words.as_bytes()[at..at + N]);
    number
}

/// A copy of a leaf. Its entries are in order and within its bounds.
pub(super) struct Leaf {
    /// All of the leaf; head, borders and length agree.
    words: Vec<u64>,
    head: LeafHead,
    slot: usize,
    bounds: Bounds,
}

impl Leaf {
    /// Copies and checks the leaf at `at`, a multiple of 8 whose line lies inside the window.
    /// `spare` is memory for the copy.
    pub(super) fn read(
        window: &impl Window,
        at: usize,
        slot: usize,
        bounds: Bounds,
        spare: Vec<u64>,
    ) -> Result<Leaf, Trouble> {
        let word = window.u64(at);
        let head = LeafHead::from_word(word.to_le());
        let LeafHead { n, width, .. } = head;
        if n == 0 {
            return Err(damaged(at, "a leaf has no entries"));
        }
        if !(1..=3).contains(&width) || head.shift > 63 {
            return Err(damaged(at, "a leaf has an encoding that there is not"));
        }
        let (starts, values, _) = leaf_places(LEAF_HEAD, n, width, slot);
        if (head.starts, head.values) != (starts, values) {
            return Err(damaged(at, "a leaf's arrays are not where they should be"));
        }
        let bytes = leaf_bytes(LEAF_HEAD, n, width, slot);
        if head.lines * LINE != bytes {
            return Err(damaged(at, "a leaf does not have the bytes of its entries"));
        }
        let leaf = Leaf {
            words: copy(window, at, word, bytes, spare)?,
            head,
            slot,
            bounds,
        };
        leaf.check().map_err(|what| damaged(at, what))?;
        Ok(leaf)
    }

    fn check(&self) -> Result<(), &'static str> {
        let last = self.len() - 1;
        let mut before = None;
        for k in 0..=last {
            let (start, end) = self.units(k);
            if start > end || before.is_some_and(|before| start <= before) {
                return Err("a leaf's entries are not in order");
            }
            before = Some(end);
        }
        let (_, end) = self.units(last);
        let distance = self.last_of(end);
        if distance >> self.head.shift != end || self.base().checked_add(distance).is_none() {
            return Err("a leaf's entry ends behind the last index");
        }
        let (first, last) = (self.bounds_of(0).0, self.bounds_of(last).1);
        if first < self.bounds.0 || last > self.bounds.1 {
            return Err("a leaf's entries are not within its bounds");
        }
        // Only the last leaf has indices behind its last entry.
        if self.bounds.1 != u64::MAX && last != self.bounds.1 {
            return Err("a leaf does not end at its bound");
        }
        Ok(())
    }

    fn base(&self) -> u64 {
        self.words[1]
    }

    /// The borders of an entry as they are written: its first unit and its last one.
    fn units(&self, k: usize) -> (u64, u64) {
        let border = |array| {
            let at = array + (k << self.head.width);
            match self.head.width {
                1 => u16::from_ne_bytes(number(&self.words, at)).into(),
                2 => u32::from_ne_bytes(number(&self.words, at)).into(),
                _ => u64::from_ne_bytes(number(&self.words, at)),
            }
        };
        (border(self.head.starts), border(LEAF_HEAD))
    }

    /// The distance from the base of the last index in a unit.
    fn last_of(&self, unit: u64) -> u64 {
        unit << self.head.shift | ((1 << self.head.shift) - 1)
    }

    /// Number of entries, at least one.
    pub(super) fn len(&self) -> usize {
        self.head.n
    }

    /// Number of entries that end before `x`.
    pub(super) fn rank(&self, x: u64) -> usize {
        let ends_before = |&k: &usize| self.bounds_of(k).1 < x;
        (0..self.len()).take_while(ends_before).count()
    }

    /// The first and the last index of an entry.
    pub(super) fn bounds_of(&self, k: usize) -> Bounds {
        let (start, end) = self.units(k);
        let at = |distance| self.base().wrapping_add(distance);
        (at(start << self.head.shift), at(self.last_of(end)))
    }

    /// The bytes of an entry's slot.
    pub(super) fn slot(&self, k: usize) -> &[u8] {
        &self.words.as_bytes()[self.head.values + k * self.slot..][..self.slot]
    }

    /// The gaps before, between and behind the entries, in order.
    fn gaps(&self) -> impl DoubleEndedIterator<Item = Bounds> {
        (0..=self.len()).filter_map(|k| {
            let from = match k {
                0 => self.bounds.0,
                _ => self.bounds_of(k - 1).1.checked_add(1)?,
            };
            let to = match k < self.len() {
                true => self.bounds_of(k).0.checked_sub(1)?,
                false => self.bounds.1,
            };
            (from <= to).then_some((from, to))
        })
    }

    /// The first index of the place with which a search ends.
    pub(super) fn place(&self, search: &mut Search<'_>) -> Option<u64> {
        let highest = search.fit().highest;
        let place = |(from, to)| search.look(from, to);
        match highest {
            false => self.gaps().find_map(place),
            true => self.gaps().rev().find_map(place),
        }
    }

    /// The code of the largest gap.
    pub(super) fn largest_gap(&self) -> u16 {
        code(
            self.gaps()
                .map(|(from, to)| to - from + 1)
                .max()
                .unwrap_or(0),
        )
    }
}

/// A copy of an inner node. Its pivots are in order and within its bounds.
pub(super) struct Inner {
    /// All of the node; head, pivots and length agree.
    words: Vec<u64>,
    head: InnerHead,
    bounds: Bounds,
    /// The place of the node in the window.
    at: usize,
}

impl Inner {
    /// Copies and checks the inner node at `at`, a multiple of 8 whose line lies inside the window.
    /// `spare` is memory for the copy.
    pub(super) fn read(
        window: &impl Window,
        at: usize,
        bounds: Bounds,
        spare: Vec<u64>,
    ) -> Result<Inner, Trouble> {
        let word = window.u64(at);
        let head = InnerHead::from_word(word.to_le());
        let InnerHead { n, filled, lines } = head;
        // What is neither part of the head nor the mark of a node that was replaced.
        if word.to_le() >> 16 & 0xFF != 0 || word.to_le() >> 33 != 0 {
            return Err(damaged(at, "an inner node has a head that there is not"));
        }
        if n < 2 || filled < n - 1 || filled > PIVOTS || filled % 4 != 0 {
            return Err(damaged(at, "an inner node has a wrong number of children"));
        }
        let bytes = inner_bytes(8, n, filled);
        if lines * LINE != bytes {
            let what = "an inner node does not have the bytes of its children";
            return Err(damaged(at, what));
        }
        let words = copy(window, at, word, bytes, spare)?;
        let (pivots, fill) = words[1..=filled].split_at(n - 1);
        let ascending = pivots.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascending || fill.iter().any(|&pivot| pivot != u64::MAX) {
            return Err(damaged(at, "an inner node's pivots are not in order"));
        }
        if pivots[0] < bounds.0 || pivots[n - 2] >= bounds.1 {
            let what = "an inner node's pivots are not within its bounds";
            return Err(damaged(at, what));
        }
        Ok(Inner {
            words,
            head,
            bounds,
            at,
        })
    }

    /// The memory, for another copy.
    pub(super) fn into_spare(self) -> Vec<u64> {
        self.words
    }

    /// Number of children.
    pub(super) fn len(&self) -> usize {
        self.head.n
    }

    /// The last indices of all children but the last one.
    fn pivots(&self) -> &[u64] {
        &self.words[1..self.len()]
    }

    /// The child whose bounds hold `x`.
    pub(super) fn find(&self, x: u64) -> usize {
        self.pivots().partition_point(|&pivot| pivot < x)
    }

    /// A child, and the place of its cell in the window.
    pub(super) fn child(&self, i: usize) -> (usize, u32) {
        let cell = self.head.cells_at() + 4 * i;
        (
            self.at + cell,
            u32::from_ne_bytes(number(&self.words, cell)),
        )
    }

    /// The bounds of a child.
    pub(super) fn bounds(&self, i: usize) -> Bounds {
        let from = match i {
            0 => self.bounds.0,
            _ => self.pivots()[i - 1] + 1,
        };
        (from, *self.pivots().get(i).unwrap_or(&self.bounds.1))
    }

    /// The code of the largest gap below a child.
    pub(super) fn gap(&self, i: usize) -> u16 {
        u16::from_ne_bytes(number(&self.words, self.head.gaps_at() + 2 * i))
    }
}
