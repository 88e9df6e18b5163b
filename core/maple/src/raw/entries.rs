//! The entries that a draft collects from old leaves and cuts into new ones.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

use sapwood_format::maple::LINE;
use sapwood_format::maple::word::Word;

use super::node::{Encoding, LEAF_LEAST, Leaf, inner_size};
use crate::gap::code;

/// The source of an entry's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(*const u8);

impl Slot {
    /// The value that is stored.
    pub(crate) const NEW: Slot = Slot(core::ptr::without_provenance(1));
    /// A copy of the value of an entry that is cut in two.
    pub(crate) const CLONE: Slot = Slot(core::ptr::without_provenance(2));

    /// The slot of an entry that is there.
    pub(crate) fn from_ptr(at: *const u8) -> Slot {
        Slot(at)
    }

    /// The bytes: those of the new value, of the copy, or of an entry that is there.
    #[inline(always)]
    pub(crate) fn bytes(self, new: *const u8, clone: *const u8) -> *const u8 {
        match self {
            Slot::NEW => new,
            Slot::CLONE => clone,
            Slot(at) => at,
        }
    }
}

/// The limits of nodes, which are chosen when the map is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of a leaf.
    pub(crate) leaf: usize,
    /// Entries of a leaf that is not the root, at least.
    pub(crate) least: usize,
    /// Children of an inner node.
    pub(crate) fanout: usize,
    /// Bytes of a slot.
    pub(crate) slot: usize,
    /// Whether the right part of an entry always gets a value of its own.
    pub(crate) shifts: bool,
    /// Whether leaves get room for more entries, which are put in place: only in maps without
    /// readers.
    pub(crate) roomy: bool,
}

impl Limits {
    /// The encoding of a leaf of `n` entries, up to `last`, which can write others, too. A leaf of
    /// few entries has wide borders, as nobody knows yet where the others will be.
    fn spread<W: Word>(&self, mut encoding: Encoding<W>, n: usize, last: W) -> Encoding<W> {
        if n < self.least {
            (encoding.width, encoding.shift) = (W::WIDEST, 0);
        }
        encoding.centered(last)
    }

    /// The number of children that an inner node's pivots are filled up for, of which it has `n`. A
    /// search looks at all pivots. Where nodes have as many as others may get, it takes the same
    /// steps everywhere; small maps are smaller without.
    pub(crate) fn filled(&self, n: usize) -> usize {
        if self.roomy { n } else { self.fanout }
    }

    /// The leaf of one entry.
    pub(crate) fn first<W: Word>(&self, start: W, end: W) -> Part<W> {
        let encoding = self.spread(Encoding::<W>::new(&[start], &[end]), 1, end);
        let (room, bytes) = self.room(1, encoding);
        Part {
            from: 0,
            to: 1,
            encoding,
            room,
            bytes,
        }
    }

    /// The number of entries that a new leaf of `n` gets room for, and its bytes.
    fn room<W: Word>(&self, n: usize, encoding: Encoding<W>) -> (usize, usize) {
        let least = encoding.size(n, self.slot);
        if !self.roomy {
            return (n, least);
        }
        let bytes = self.leaf.next_multiple_of(LINE).max(least);
        let mut room = (bytes - Leaf::<W>::HEAD) / ((2 << encoding.width) + self.slot);
        while encoding.places(room, self.slot).2 > bytes {
            room -= 1;
        }
        (room.min(u8::MAX.into()), bytes)
    }
}

impl Limits {
    /// # Panics
    /// When nodes of these limits make no tree.
    pub(crate) fn check(&self) {
        assert!(
            self.least >= 2 && self.leaf < 255 * 64,
            "leaves of {} bytes",
            self.leaf
        );
        assert!(
            (4..=128).contains(&self.fanout),
            "{} children of a node",
            self.fanout
        );
    }

    /// Bytes of the largest node.
    pub(crate) fn largest<W: Word>(&self) -> usize {
        let leaf = self.leaf.next_multiple_of(64).max(LEAF_LEAST);
        leaf.max(inner_size::<W>(self.fanout, self.fanout))
    }
}

/// Sorted entries.
#[derive(Default)]
pub(crate) struct Entries<W> {
    pub(crate) starts: Vec<W>,
    pub(crate) ends: Vec<W>,
    pub(crate) slots: Vec<Slot>,
}

// SAFETY: the slots' addresses are of leaves of the map that owns the list, and are used only while
// its lock is held.
unsafe impl<W: Word> Send for Entries<W> {}

/// A run of entries that becomes a leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<W> {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) encoding: Encoding<W>,
    /// The number of entries that the leaf has room for.
    pub(crate) room: usize,
    /// Bytes of the leaf.
    pub(crate) bytes: usize,
}

impl<W: Word> Entries<W> {
    pub(crate) fn clear(&mut self) {
        self.starts.clear();
        self.ends.clear();
        self.slots.clear();
    }

    /// Makes room for `count` entries.
    pub(crate) fn reserve(&mut self, count: usize) -> Result<(), TryReserveError> {
        let more = count.saturating_sub(self.len());
        self.starts.try_reserve(more)?;
        self.ends.try_reserve(more)?;
        self.slots.try_reserve(more)
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, start: W, end: W, slot: Slot) {
        self.starts.push(start);
        self.ends.push(end);
        self.slots.push(slot);
    }

    /// Appends entries of a leaf.
    #[inline]
    pub(crate) fn take(&mut self, leaf: Leaf<W>, from: usize, to: usize, slot: usize) {
        let count = to - from;
        self.starts.reserve(count);
        self.ends.reserve(count);
        self.slots.reserve(count);
        leaf.decode(from, to, slot, |start, end, at| {
            self.starts.push(start);
            self.ends.push(end);
            self.slots.push(Slot(at));
        });
    }

    /// Appends one entry of a leaf with other borders.
    pub(crate) fn take_cut(&mut self, leaf: Leaf<W>, k: usize, slot: usize, start: W, end: W) {
        self.push(start, end, Slot(leaf.slot(k, slot)));
    }

    /// Puts a leaf's entries before all others.
    pub(crate) fn take_before(&mut self, leaf: Leaf<W>, slot: usize) {
        let count = self.len();
        self.take(leaf, 0, leaf.len(), slot);
        self.starts.rotate_left(count);
        self.ends.rotate_left(count);
        self.slots.rotate_left(count);
    }

    /// The leaf that these entries make, if one has room for them.
    pub(crate) fn part(&self, from: usize, to: usize, limits: &Limits) -> Option<Part<W>> {
        let mut encoding = Encoding::<W>::new(&self.starts[from..to], &self.ends[from..to]);
        if limits.roomy {
            encoding = limits.spread(encoding, to - from, self.ends[to - 1]);
        }
        if to - from > u8::MAX as usize || encoding.places(to - from, limits.slot).2 > limits.leaf {
            return None;
        }
        let (room, bytes) = limits.room(to - from, encoding);
        Some(Part {
            from,
            to,
            encoding,
            room,
            bytes,
        })
    }

    /// Cuts the entries, at least one, into as few leaves of about equal lengths as they need. With
    /// `append`, for entries that come in order, the first leaf stays as full as it can be.
    pub(crate) fn cut(&self, limits: &Limits, append: bool, parts: &mut Vec<Part<W>>) {
        parts.clear();
        let n = self.len();
        if let Some(all) = self.part(0, n, limits) {
            parts.push(all);
            return;
        }
        if append && n > 2 * limits.least {
            let at = n - limits.least;
            if let (Some(left), Some(right)) = (self.part(0, at, limits), self.part(at, n, limits))
            {
                parts.extend([left, right]);
                return;
            }
        }
        for count in 2.. {
            parts.clear();
            parts.extend(
                (0..count).map_while(|i| self.part(n * i / count, n * (i + 1) / count, limits)),
            );
            if parts.len() == count {
                return;
            }
        }
    }

    /// The code of the largest gap before an entry of a run. The gap before the first entry begins
    /// at `lower`.
    pub(crate) fn gap(&self, from: usize, to: usize, lower: W) -> u16 {
        let mut largest = self.starts[from] - lower;
        for k in from + 1..to {
            largest = largest.max(self.starts[k] - self.ends[k - 1] - W::ONE);
        }
        code(largest)
    }
}

/// The code of the largest gap of a leaf with these bounds. `upper` is the upper bound for the
/// tree's last leaf, and the last entry's end for all others.
pub(crate) fn leaf_gap<W: Word>(leaf: Leaf<W>, lower: W, upper: W) -> u16 {
    let mut next = lower;
    let mut largest = upper - leaf.last();
    leaf.decode(0, leaf.len(), 0, |start, end, _| {
        largest = largest.max(start - next);
        next = end.above();
    });
    code(largest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::node::{LEAF_LEAST, leaf_holds};

    #[test]
    fn equal_parts_never_have_too_few() {
        let mut rng = fastrand::Rng::with_seed(3);
        for (leaf, slot) in [(128, 8), (512, 8), (512, 0), (512, 4), (1024, 8), (192, 1)] {
            let limits = Limits {
                leaf,
                least: leaf_holds::<u64>(leaf, slot, 3).div_ceil(2),
                fanout: 4,
                slot,
                shifts: false,
                roomy: rng.bool(),
            };
            for _ in 0..400 {
                let mut entries = Entries::<u64>::default();
                let (shift, most) = (rng.u32(0..3) * 4, 1 << rng.u32(1..40));
                let mut at = rng.u64(0..1 << 20) << shift;
                for _ in 0..rng.usize(limits.least..=2 * leaf_holds::<u64>(leaf, slot, 1).min(255))
                {
                    let end = at + (rng.u64(1..most) << shift) - 1;
                    entries.push(at, end, Slot::NEW);
                    at = end + 1 + (rng.u64(0..most) << shift);
                }
                let mut parts = Vec::new();
                entries.cut(&limits, rng.bool(), &mut parts);
                assert_eq!(
                    (parts[0].from, parts.last().unwrap().to),
                    (0, entries.len())
                );
                for pair in parts.windows(2) {
                    assert_eq!(pair[0].to, pair[1].from);
                }
                for part in parts {
                    assert!(part.to - part.from >= limits.least, "{part:?} {limits:?}");
                    assert!(part.bytes <= leaf.next_multiple_of(64).max(LEAF_LEAST));
                    let n = part.to - part.from;
                    assert!(part.room >= n && (limits.roomy || part.room == n));
                    assert!(part.encoding.places(part.room, slot).2 <= part.bytes);
                }
            }
        }
    }
}
