//! The size of a cache and the places of its parts. They are read once and checked. Values that are
//! read later may be anything, because no place depends on them.

use std::sync::atomic::Ordering::Relaxed;

use crate::error::Error;
use crate::layout::route::{self as at, COUNTERS, COUNTERS_BYTES, LINE, SLOTS};
use crate::raw::arena::{Memory, PAGE};

/// The size and the places of the parts of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub capacity: usize,
    pub sets: usize,
    /// The number of slots of each set, and the number of sets that have one more.
    pub ways: usize,
    pub wider: usize,
    /// Bytes of a set.
    pub stride: usize,
    /// The place of the first set, from the window's beginning.
    pub sets_at: usize,
    /// The number of places for counters, a power of two.
    pub processors: usize,
    pub fresh: u64,
    pub keep: u64,
    pub negative: Option<u64>,
    pub secrets: [u64; 3],
}

impl Shape {
    /// The shape of a cache with this many slots, for this many processors. `None` when it would
    /// have more than 1 TiB.
    pub fn new(capacity: usize, processors: usize) -> Option<Shape> {
        let sets = capacity.div_ceil(SLOTS);
        let (ways, wider) = match sets {
            0 => (0, 0),
            _ => (capacity / sets, capacity % sets),
        };
        let most = ways + usize::from(wider > 0);
        let processors = processors.clamp(1, 1 << 16).next_power_of_two();
        let shape = Shape {
            capacity,
            sets,
            ways,
            wider,
            stride: LINE * (1 + most),
            sets_at: (COUNTERS + processors * COUNTERS_BYTES).next_multiple_of(PAGE),
            processors,
            fresh: 0,
            keep: 0,
            negative: None,
            secrets: [0; 3],
        };
        (sets <= u32::MAX as usize && shape.checked_bytes()? <= 1 << 40).then_some(shape)
    }

    fn checked_bytes(&self) -> Option<usize> {
        self.sets
            .checked_mul(self.stride)?
            .checked_add(self.sets_at)
    }

    /// Bytes of the window.
    pub fn bytes(&self) -> usize {
        self.sets_at + self.sets * self.stride
    }

    /// How long lookups may return an entry at most: the longer one of both times.
    fn life(&self) -> u64 {
        self.fresh.max(self.negative.unwrap_or(0))
    }

    fn words(&self) -> [(usize, u64); 15] {
        [
            (at::SETS, self.sets as u64),
            (at::STRIDE, self.stride as u64),
            (at::SETS_AT, self.sets_at as u64),
            (at::FRESH, self.fresh),
            (at::SECRETS, self.secrets[0]),
            (at::SECRETS + 8, self.secrets[1]),
            (at::SECRETS + 16, self.secrets[2]),
            (at::WAYS, self.ways as u64),
            (at::WIDER, self.wider as u64),
            (at::KEEP, self.keep),
            (at::NEGATIVE, self.negative.unwrap_or(at::NEVER)),
            (at::LIFE, self.life()),
            (at::CPU_MASK, self.processors as u64 - 1),
            (at::CAPACITY, self.capacity as u64),
            (at::CURSOR, 0),
        ]
    }

    /// Writes the shape to the window, where programs read it.
    pub fn write(&self, memory: &Memory, window: usize) {
        for (at, word) in self.words() {
            memory.u64(window + at).store(word, Relaxed);
        }
    }

    /// Reads and checks the shape. The window has whole pages and lies inside the arena.
    pub fn read(memory: &Memory, window: usize, len: usize) -> Result<Shape, Error> {
        let word = |at: usize| memory.u64(window + at).load(Relaxed);
        let damaged = || Error::Damaged(format!("a route cache of {} slots", word(at::CAPACITY)));
        let number = |at| usize::try_from(word(at)).map_err(|_| damaged());
        let processors = number(at::CPU_MASK)?.checked_add(1).ok_or_else(damaged)?;
        let negative = word(at::NEGATIVE);
        let shape = Shape {
            fresh: word(at::FRESH),
            keep: word(at::KEEP),
            negative: (negative != at::NEVER).then_some(negative),
            secrets: [0, 1, 2].map(|i| word(at::SECRETS + 8 * i)),
            ..Shape::new(number(at::CAPACITY)?, processors).ok_or_else(damaged)?
        };
        // All other numbers follow from the capacity, so the stored ones must be equal to them.
        let same = shape
            .words()
            .into_iter()
            .all(|(place, expected)| place == at::CURSOR || word(place) == expected);
        if !same || shape.processors != processors || shape.bytes() > len {
            return Err(damaged());
        }
        Ok(shape)
    }

    /// The place of a set, from the window's beginning.
    ///
    /// # Panics
    /// When `index` is not less than the number of sets.
    pub fn set(&self, index: usize) -> usize {
        assert!(index < self.sets, "a set");
        self.sets_at + index * self.stride
    }

    /// The number of slots of a set.
    pub fn ways_of(&self, index: usize) -> usize {
        self.ways + usize::from(index < self.wider)
    }

    /// The hash of a key's words, as `sw_route_hash` computes it.
    pub fn hash(&self, words: [u64; 3]) -> u64 {
        let mut sum = 0u64;
        for (word, secret) in words.into_iter().zip(self.secrets) {
            let low = (word as u32).wrapping_add(secret as u32);
            let high = ((word >> 32) as u32).wrapping_add((secret >> 32) as u32);
            sum = sum.wrapping_add(u64::from(low) * u64::from(high));
        }
        sum = (sum ^ (sum >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        sum = (sum ^ (sum >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        sum ^ (sum >> 32)
    }

    /// The set and the tag of a hash. The cache must have at least one set.
    pub fn place(&self, hash: u64) -> (usize, u8) {
        let index = ((hash >> 32) * self.sets as u64) >> 32;
        (index as usize, (hash as u8).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_are_exact() {
        for capacity in (0..70).chain([1000, 8191, 8192, 8193]) {
            let shape = Shape::new(capacity, 3).unwrap();
            let ways = (0..shape.sets).map(|set| shape.ways_of(set));
            assert_eq!(ways.clone().sum::<usize>(), capacity);
            assert!(ways.max().is_none_or(|most| most <= SLOTS));
            assert_eq!(shape.processors, 4);
            assert_eq!(shape.sets_at % PAGE, 0);
        }
        assert_eq!(Shape::new(usize::MAX, 1), None);
    }
}
