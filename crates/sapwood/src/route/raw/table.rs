//! The memory of a cache: sets of up to sixteen slots, each set under one sequence lock.
//!
//! ```text
//! a set: one line that says what is where, then its slots
//!
//!     0          8                     24         32           40             48 .. 64
//!   +----------+----------+----------+----------+------------+--------------+-------+
//!   | sequence | tags                | marks    | generation | disturbances | -     |
//!   +----------+----------+----------+----------+------------+--------------+-------+
//!   | stamp    | key words ...       | value words ...                              |  slot 0
//!   +----------+---------------------+----------------------------------------------+
//!   | ...                                                                              up to slot 15
//! ```
//!
//! - *sequence*: odd while a writer holds the set, one more pair for each change.
//! - *tags*: a byte for each way: 0 for an empty one, else a byte of the key's hash.
//! - *marks*: bits 0 to 15: the way was hit since the marks were last cleared; bits 16 to 19: where the search for a victim begins.
//!   Readers set bits, so it is changed by read-modify-write only, and is not under the sequence.
//! - *generation*: that of all entries in the set.
//! - *disturbances*: how many invalidations and explicit insertions the set has seen.
//! - *stamp*: bits 63 to 1 the time in nanoseconds, bit 0 whether the entry is negative.
//!
//! Writers take the sequence with a compare-and-exchange, and publish with a Release store. Readers copy a slot with relaxed
//! loads between two looks at the sequence (Boehm, "Can seqlocks get along with programming language memory models?", 2012).

use alloc::boxed::Box;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering, fence};

use super::sync;
use crate::route::hash::scaled;
use crate::route::plain::Words;

/// The most slots of a set.
pub(crate) const WAYS: usize = 16;

/// The words before the first slot, and what they are.
const HEAD: usize = 8;
const SEQUENCE: usize = 0;
const TAGS: usize = 1;
const MARKS: usize = 3;
const GENERATION: usize = 4;
const DISTURBANCES: usize = 5;

/// The marks of all ways; above them, the hand.
const ALL: u64 = (1 << WAYS) - 1;

/// How often a reader or a writer looks again at a set that another one is writing, before it does without.
const PATIENCE: u32 = 128;

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// A cache line.
#[repr(C, align(64))]
struct Line([AtomicU64; 8]);

/// The sets.
pub(crate) struct Table<K, V> {
    lines: Box<[Line]>,
    sets: usize,
    /// Slots of every set; the first `wider` sets have one more.
    ways: usize,
    wider: usize,
    words: PhantomData<(K, V)>,
}

/// Where a key belongs.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub set: usize,
    tag: u8,
}

/// What a reader found.
pub(crate) enum Found<V> {
    /// An entry of the key: its generation, stamp and value, and its way.
    Entry(u64, Stamp, V, usize),
    /// None.
    Absent,
    /// A writer was in the way all the time.
    Busy,
}

/// When an entry was resolved, and whether it says that there is no route.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp(u64);

/// The last time that a stamp can hold.
pub(crate) const LAST: u64 = u64::MAX >> 1;

impl Stamp {
    #[inline(always)]
    pub fn new(time: u64, negative: bool) -> Self {
        Self(time << 1 | u64::from(negative))
    }

    #[inline(always)]
    pub fn time(self) -> u64 {
        self.0 >> 1
    }

    #[inline(always)]
    pub fn negative(self) -> bool {
        self.0 & 1 != 0
    }
}

impl<K: Words, V: Words> Table<K, V> {
    const SLOT: usize = 1 + K::COUNT + V::COUNT;

    /// Memory for so many entries.
    pub fn new(capacity: usize) -> Self {
        let sets = capacity.div_ceil(WAYS);
        assert!(sets <= u32::MAX as usize, "capacity");
        let (ways, wider) = match sets {
            0 => (0, 0),
            _ => (capacity / sets, capacity % sets),
        };
        let mut table = Self {
            lines: Box::default(),
            sets,
            ways,
            wider,
            words: PhantomData,
        };
        let empty = || Line([const { AtomicU64::new(0) }; 8]);
        table.lines = (0..sets * table.stride()).map(|_| empty()).collect();
        table
    }

    /// Lines of a set.
    #[inline(always)]
    fn stride(&self) -> usize {
        let most = self.ways + usize::from(self.wider > 0);
        (HEAD + most * Self::SLOT).div_ceil(8)
    }

    #[inline(always)]
    pub fn sets(&self) -> usize {
        self.sets
    }

    /// Slots of one set.
    #[inline(always)]
    pub fn ways(&self, set: usize) -> usize {
        self.ways + usize::from(set < self.wider)
    }

    /// Slots of all sets.
    pub fn capacity(&self) -> usize {
        self.sets * self.ways + self.wider
    }

    /// Bytes of all sets.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.lines)
    }

    /// Where a key with this hash belongs; there must be a set.
    #[inline(always)]
    pub fn place(&self, hash: u64) -> Place {
        debug_assert!(self.sets > 0);
        Place {
            set: scaled(hash, self.sets),
            tag: (hash as u8).max(1),
        }
    }

    #[inline(always)]
    fn word(&self, set: usize, at: usize) -> &AtomicU64 {
        sync::point();
        let stride = self.stride();
        debug_assert!(set < self.sets && at < 8 * stride);
        // SAFETY: `set < sets` and `at` is in its `stride` lines, by the obligation of this folder; lines are arrays
        // of eight words without padding, one after the other.
        unsafe {
            &*self
                .lines
                .as_ptr()
                .add(set * stride)
                .cast::<AtomicU64>()
                .add(at)
        }
    }

    #[inline(always)]
    fn sequence(&self, set: usize) -> &AtomicU64 {
        self.word(set, SEQUENCE)
    }

    #[inline(always)]
    fn tags(&self, set: usize) -> Tags {
        Tags([0, 1].map(|at| self.word(set, TAGS + at).load(Ordering::Relaxed)))
    }

    #[inline(always)]
    fn marks(&self, set: usize) -> &AtomicU64 {
        self.word(set, MARKS)
    }

    /// How many invalidations and insertions the set has seen.
    #[inline(always)]
    pub fn disturbances(&self, set: usize) -> u64 {
        self.word(set, DISTURBANCES).load(Ordering::Acquire)
    }

    #[inline(always)]
    fn slot(&self, set: usize, way: usize, at: usize) -> &AtomicU64 {
        debug_assert!(at < Self::SLOT);
        self.word(set, HEAD + way * Self::SLOT + at)
    }

    #[inline(always)]
    fn has_key(&self, set: usize, way: usize, key: &K) -> bool {
        let (mut at, mut differ) = (1, 0);
        key.each(|word| {
            differ |= word ^ self.slot(set, way, at).load(Ordering::Relaxed);
            at += 1;
        });
        differ == 0
    }

    /// The entry of a key, without a lock.
    #[inline(always)]
    pub fn find(&self, place: Place, key: &K) -> Found<V> {
        for patience in 0..PATIENCE {
            match self.try_find(place, key) {
                Found::Busy => sync::spin(patience),
                found => return found,
            }
        }
        Found::Busy
    }

    #[inline(always)]
    fn try_find(&self, Place { set, tag }: Place, key: &K) -> Found<V> {
        let before = self.sequence(set).load(Ordering::Acquire);
        for way in self.tags(set).equal(tag) {
            if !self.has_key(set, way, key) {
                continue;
            }
            let generation = self.word(set, GENERATION).load(Ordering::Relaxed);
            let stamp = Stamp(self.slot(set, way, 0).load(Ordering::Relaxed));
            let mut at = 1 + K::COUNT;
            let value = V::fill(|| {
                at += 1;
                self.slot(set, way, at - 1).load(Ordering::Relaxed)
            });
            fence(Ordering::Acquire);
            if before & 1 != 0 || self.sequence(set).load(Ordering::Relaxed) != before {
                return Found::Busy;
            }
            return Found::Entry(generation, stamp, value, way);
        }
        // A key whose tag is not there, or whose words are not, is absent now or was a moment ago, whatever a writer does.
        Found::Absent
    }

    /// Notes that a way was hit. Usually it was before, and nothing is written.
    #[inline(always)]
    pub fn mark(&self, set: usize, way: usize) {
        let marks = self.marks(set);
        if marks.load(Ordering::Relaxed) & (1 << way) == 0 {
            marks.fetch_or(1 << way, Ordering::Relaxed);
        }
    }

    /// How many entries a set has.
    pub fn count(&self, set: usize) -> usize {
        self.tags(set).taken().0.count_ones() as usize
    }

    /// Takes a set for writing, unless others have it all the time.
    #[inline(always)]
    pub fn try_lock(&self, set: usize) -> Option<Writer<'_, K, V>> {
        (0..PATIENCE).find_map(|patience| self.lock_once(set, patience))
    }

    /// Takes a set for writing. Writers hold it for some tens of stores.
    pub fn lock(&self, set: usize) -> Writer<'_, K, V> {
        let mut patience = 0;
        loop {
            if let Some(writer) = self.lock_once(set, patience) {
                return writer;
            }
            patience = patience.saturating_add(1);
        }
    }

    #[inline(always)]
    fn lock_once(&self, set: usize, patience: u32) -> Option<Writer<'_, K, V>> {
        let word = self.sequence(set);
        let sequence = word.load(Ordering::Relaxed);
        let free = sequence & 1 == 0
            && word
                .compare_exchange(sequence, sequence + 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        if !free {
            sync::spin(patience);
            return None;
        }
        // Readers who see any store of this writer also see that the sequence is odd.
        fence(Ordering::Release);
        Some(Writer {
            table: self,
            set,
            sequence,
        })
    }
}

/// The tags of a set.
#[derive(Clone, Copy)]
struct Tags([u64; 2]);

/// Some ways of a set: way `w` is bit `8 * (w % 8) + w / 8`.
#[derive(Clone, Copy)]
struct Ways(u64);

impl Tags {
    /// The ways with this tag. It is exact: the words of an empty way may be those of a key that was removed.
    #[inline(always)]
    fn equal(self, tag: u8) -> Ways {
        let all = u64::from(tag) * LOW;
        Ways(!Tags(self.0.map(|tags| tags ^ all)).taken().0 & (LOW | LOW << 1))
    }

    /// The ways that are not empty.
    #[inline(always)]
    fn taken(self) -> Ways {
        let [low, high] = self.0.map(|tags| (((tags & !HIGH) + !HIGH) | tags) & HIGH);
        Ways(low >> 7 | high >> 6)
    }
}

impl Iterator for Ways {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(bit / 8 + 8 * (bit % 8))
    }
}

/// A set that nobody else writes.
pub(crate) struct Writer<'t, K: Words, V: Words> {
    table: &'t Table<K, V>,
    set: usize,
    sequence: u64,
}

impl<K: Words, V: Words> Writer<'_, K, V> {
    fn set_tag(&self, way: usize, tag: u8) {
        let (word, shift) = (self.table.word(self.set, TAGS + way / 8), 8 * (way % 8));
        let tags = word.load(Ordering::Relaxed) & !(0xff << shift) | u64::from(tag) << shift;
        word.store(tags, Ordering::Relaxed);
    }

    pub fn generation(&self) -> u64 {
        self.table
            .word(self.set, GENERATION)
            .load(Ordering::Relaxed)
    }

    /// Empties the set for entries of another generation; returns how many there were.
    pub fn restart(&mut self, generation: u64) -> usize {
        let count = self.table.count(self.set);
        for at in [0, 1] {
            let word = self.table.word(self.set, TAGS + at);
            word.store(0, Ordering::Relaxed);
        }
        let marks = self.table.marks(self.set);
        marks.fetch_and(!ALL, Ordering::Relaxed);
        let word = self.table.word(self.set, GENERATION);
        word.store(generation, Ordering::Relaxed);
        count
    }

    pub fn disturbances(&self) -> u64 {
        self.table
            .word(self.set, DISTURBANCES)
            .load(Ordering::Relaxed)
    }

    /// From here on, answers of resolvers that are under way are old.
    pub fn disturb(&mut self) {
        let word = self.table.word(self.set, DISTURBANCES);
        word.store(self.disturbances() + 1, Ordering::Relaxed);
    }

    /// The way of a key.
    #[inline(always)]
    pub fn way_of(&self, place: Place, key: &K) -> Option<usize> {
        let mut ways = self.table.tags(self.set).equal(place.tag);
        ways.find(|way| self.table.has_key(self.set, *way, key))
    }

    /// An empty way.
    #[inline(always)]
    pub fn vacant(&self) -> Option<usize> {
        let taken = self.table.tags(self.set).taken().0;
        let (low, high) = (!taken & LOW, !taken & LOW << 1);
        let part = if low != 0 { low } else { high };
        let way = Ways(part).next()?;
        (way < self.table.ways(self.set)).then_some(way)
    }

    /// The way to make room in: the next one that was not hit. When all were, all but one count as not hit from here on.
    #[inline(always)]
    pub fn victim(&mut self) -> usize {
        let ways = self.table.ways(self.set);
        let word = self.table.marks(self.set);
        let marks = word.load(Ordering::Relaxed);
        let hand = (marks >> WAYS) as usize % WAYS;
        let all = (1u64 << ways) - 1;
        let cold = !marks & all;
        let way = match cold & (u64::MAX << hand) {
            0 if cold == 0 => hand % ways,
            0 => cold.trailing_zeros() as usize,
            ahead => ahead.trailing_zeros() as usize,
        };
        let next = ((way + 1) % ways) as u64;
        let keep = if cold == 0 { 0 } else { ALL & !(1 << way) };
        // A mark that a reader sets between the load and this is lost, if at all, with the others.
        word.fetch_and(keep, Ordering::Relaxed);
        word.fetch_or(next << WAYS, Ordering::Relaxed);
        way
    }

    pub fn stamp(&self, way: usize) -> Stamp {
        Stamp(self.table.slot(self.set, way, 0).load(Ordering::Relaxed))
    }

    /// The ways with entries.
    pub fn entries(&self) -> impl Iterator<Item = usize> + use<K, V> {
        self.table.tags(self.set).taken()
    }

    /// Writes a whole entry.
    #[inline(always)]
    pub fn write(&mut self, way: usize, place: Place, key: &K, stamp: Stamp, value: &V) {
        let mut at = 1;
        key.each(|word| {
            let slot = self.table.slot(self.set, way, at);
            slot.store(word, Ordering::Relaxed);
            at += 1;
        });
        self.rewrite(way, stamp, value);
        self.set_tag(way, place.tag);
    }

    /// Writes the stamp and the value of an entry that is there.
    #[inline(always)]
    pub fn rewrite(&mut self, way: usize, stamp: Stamp, value: &V) {
        let slot = self.table.slot(self.set, way, 0);
        slot.store(stamp.0, Ordering::Relaxed);
        let mut at = 1 + K::COUNT;
        value.each(|word| {
            let slot = self.table.slot(self.set, way, at);
            slot.store(word, Ordering::Relaxed);
            at += 1;
        });
    }

    /// Whether no key is in the set twice.
    pub fn check(&self) -> Result<(), &'static str> {
        for way in self.entries() {
            let mut at = 0;
            let key = K::fill(|| {
                at += 1;
                let word = self.table.slot(self.set, way, at);
                word.load(Ordering::Relaxed)
            });
            let tags = self.table.tags(self.set).0[way / 8];
            let tag = (tags >> (8 * (way % 8))) as u8;
            let place = Place { set: self.set, tag };
            if self.way_of(place, &key) != Some(way) {
                return Err("a key is there twice");
            }
        }
        Ok(())
    }

    pub fn remove(&mut self, way: usize) {
        self.set_tag(way, 0);
        let marks = self.table.marks(self.set);
        marks.fetch_and(!(1 << way), Ordering::Relaxed);
    }
}

impl<K: Words, V: Words> Drop for Writer<'_, K, V> {
    #[inline(always)]
    fn drop(&mut self) {
        let word = self.table.sequence(self.set);
        word.store(self.sequence.wrapping_add(2), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_found() {
        let low = u64::from_le_bytes([0, 5, 9, 0xff, 5, 1, 0x80, 0]);
        let high = u64::from_le_bytes([1, 0, 5, 0, 3, 0, 9, 0]);
        let sorted = |ways: Ways| {
            let mut ways: alloc::vec::Vec<_> = ways.collect();
            ways.sort_unstable();
            ways
        };
        let equal = |tag| sorted(Tags([low, high]).equal(tag));
        assert_eq!(equal(5), [1, 4, 10]);
        assert_eq!(equal(0xff), [3]);
        assert_eq!(equal(0x80), [6]);
        // Not the empty ones above it.
        assert_eq!(equal(1), [5, 8]);
        assert_eq!(equal(7), []);
        let taken = |low, high| sorted(Tags([low, high]).taken());
        assert_eq!(taken(low, high), [1, 2, 3, 4, 5, 6, 8, 10, 12, 14]);
        assert_eq!(taken(0, 0), []);
        assert!(taken(u64::MAX, u64::MAX).into_iter().eq(0..16));
    }

    #[test]
    fn capacities_are_exact() {
        for capacity in (0..70).chain([1000, 8191, 8192, 8193]) {
            let table = Table::<[u64; 1], [u64; 1]>::new(capacity);
            assert_eq!(table.capacity(), capacity);
            let ways = (0..table.sets()).map(|set| table.ways(set));
            assert_eq!(ways.clone().sum::<usize>(), capacity);
            assert!(ways.max().is_none_or(|most| most <= WAYS));
        }
    }

    #[test]
    fn marked_ways_stay_longest() {
        let table = Table::<[u64; 1], [u64; 1]>::new(4);
        for way in [0, 1, 3] {
            table.mark(0, way);
        }
        let victims = |n| {
            let mut writer = table.lock(0);
            (0..n)
                .map(|_| writer.victim())
                .collect::<alloc::vec::Vec<_>>()
        };
        assert_eq!(victims(3), [2, 2, 2]);
        table.mark(0, 2);
        // All were hit: the hand decides, and marks begin anew.
        assert_eq!(victims(5), [3, 0, 1, 2, 3]);
    }
}
