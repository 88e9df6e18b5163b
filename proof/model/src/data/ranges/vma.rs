//! Generated changes of a large address space.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use fastrand::Rng;

use super::{Change, LAST, PAGE, Workload, span};

/// An address space of `n` ranges, and a program's changes of it: about as many erasures of random
/// entries as inserts into gaps. Half of the inserts are at the lowest free place after a random
/// entry, half at a given address.
///
/// At first ranges have 1 to 2048 pages, later 1 to 64; short ones are more frequent. At first six
/// of ten come after a gap. The number of entries stays between three and five quarters of `n`.
///
/// # Panics
///
/// If `n` is 0, or so large that the first ranges do not fit half of an address space of 47 bits
/// (above 100 million).
#[must_use]
pub fn vma(n: usize, seed: u64) -> Workload<impl Iterator<Item = Change> + Clone> {
    assert!(n > 0, "the address space has at least one range");
    let mut rng = Rng::with_seed(seed);
    // The lowest pages are never mapped.
    let mut page = 16;
    let initial: Vec<_> = (0..n)
        .map(|_| {
            page += if rng.u8(..10) < 6 {
                pages(&mut rng, 6)
            } else {
                0
            };
            let range = span(page, pages(&mut rng, 11));
            page = (range.end() + 1) / PAGE;
            range
        })
        .collect();
    assert!(page < LAST / PAGE / 2, "too many for an address space");
    let mut space = Space {
        starts: initial.iter().map(|range| *range.start()).collect(),
        ends: initial.iter().map(|r| (*r.start(), *r.end())).collect(),
        usual: n,
        rng,
    };
    Workload {
        initial,
        changes: std::iter::repeat_with(move || space.change()),
    }
}

/// A number of pages up to 2^`bits`. Its upper bound is a power of two, and all are equally likely.
fn pages(rng: &mut Rng, bits: u32) -> u64 {
    let most = 1 << rng.u32(0..=bits);
    rng.u64(1..=most)
}

/// The mapped ranges of an address space.
#[derive(Clone)]
struct Space {
    /// The starts of all entries, in no order.
    starts: Vec<u64>,
    /// The ends of the entries by their starts.
    ends: BTreeMap<u64, u64>,
    usual: usize,
    rng: Rng,
}

impl Space {
    fn change(&mut self) -> Change {
        let there = self.starts.len();
        let erase = match there {
            _ if there * 4 <= self.usual * 3 => false,
            _ if there * 4 >= self.usual * 5 => true,
            _ => self.rng.bool(),
        };
        if erase {
            let at = self.rng.usize(..there);
            let start = self.starts.swap_remove(at);
            let end = self.ends.remove(&start).expect("both have the entry");
            return Change::Erase(start..=end);
        }
        let from = match there {
            0 => 0,
            _ => self.starts[self.rng.usize(..there)],
        };
        let size = pages(&mut self.rng, 6) * PAGE;
        if self.rng.bool() {
            let start = self.gap(from, size).0;
            let place = start..=start + (size - 1);
            self.put(&place);
            let within = from..=LAST;
            return Change::Alloc {
                size,
                within,
                place,
            };
        }
        // The first gap after the entry is filled, or used in part: at its start, at its end or
        // between.
        let (start, bytes) = self.gap(from, PAGE);
        let size = size.min(bytes);
        let room = (bytes - size) / PAGE;
        let skipped = match self.rng.u8(..3) {
            0 => 0,
            1 => room.min(1 << 20),
            _ => self.rng.u64(..=room.min(1 << 20)),
        };
        let start = start + skipped * PAGE;
        let place = start..=start + (size - 1);
        self.put(&place);
        Change::Insert(place)
    }

    fn put(&mut self, place: &RangeInclusive<u64>) {
        self.starts.push(*place.start());
        self.ends.insert(*place.start(), *place.end());
    }

    /// The first gap of at least `size` bytes after the start of an entry: its start and its
    /// length.
    fn gap(&self, from: u64, size: u64) -> (u64, u64) {
        let mut free = from;
        for (start, end) in self.ends.range(from..) {
            if start - free >= size {
                return (free, start - free);
            }
            free = end + 1;
        }
        assert!(LAST - free >= size, "the address space is full");
        (free, LAST + 1 - free)
    }
}
