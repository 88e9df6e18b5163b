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
//! - *tags*: a byte for each way: 0 for an empty way, else a byte of the key's hash.
//! - *marks*: bits 0 to 15: the way was hit since the marks were last cleared; bits 16 to 19: where
//!   the search for a victim begins. Readers set bits, so the word is changed only by
//!   read-modify-write, and the sequence does not cover it.
//! - *generation*: the generation of all entries in the set.
//! - *disturbances*: the number of invalidations and explicit insertions in the set.
//! - *stamp*: bits 63 to 1 the time in nanoseconds, bit 0 whether the entry is negative.
//!
//! Writers take the sequence with a compare-and-exchange, and publish with a Release store. Readers
//! copy a slot with relaxed loads between two looks at the sequence (Boehm, "Can seqlocks get along
//! with programming language memory models?", 2012).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering, fence};

use sapwood_arena::{ArenaFull, Lack};

use super::sync;
use super::tags::Tags;
use crate::Words;
use crate::hash::scaled;
use crate::stamp::Stamp;

/// The most slots of a set.
pub(crate) const WAYS: usize = 16;

/// The number of words before the first slot.
const HEAD: usize = 8;
const SEQUENCE: usize = 0;
const TAGS: usize = 1;
const MARKS: usize = 3;
const GENERATION: usize = 4;
const DISTURBANCES: usize = 5;

/// The marks of all ways. The bits above them are the hand, where the search for a victim begins.
const ALL: u64 = (1 << WAYS) - 1;

/// How often a reader or a writer looks again at a set that another thread is writing, before it
/// gives up.
const PATIENCE: u32 = 128;

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
    /// Cache lines of every set.
    stride: usize,
    words: PhantomData<(K, V)>,
}

/// A set: the address of its words. It is kept in a register, because the compiler does not know
/// that the table's own fields stay the same across atomic loads.
#[derive(Clone, Copy)]
struct Set<'t, K, V> {
    words: *const AtomicU64,
    table: PhantomData<(&'t [Line], K, V)>,
}

/// The place of a key.
pub(crate) struct Place<'t, K, V> {
    pub number: usize,
    set: Set<'t, K, V>,
    tag: u8,
}

/// The result of a reader's search.
pub(crate) enum Found<V> {
    /// An entry of the key.
    Entry(Seen<V>),
    /// No entry.
    Absent,
    /// A writer held the set, or the caller did not want the entry.
    Busy,
}

/// An entry, as a reader saw it.
pub(crate) struct Seen<V> {
    pub generation: u64,
    pub stamp: Stamp,
    pub value: V,
    pub way: usize,
    /// The set's sequence then. No writer was inside.
    #[cfg(feature = "std")]
    pub sequence: u64,
}

impl<K: Words, V: Words> Table<K, V> {
    /// Memory for this many entries.
    pub(crate) fn new(capacity: usize) -> Result<Self, ArenaFull> {
        let sets = capacity.div_ceil(WAYS);
        let (ways, wider) = match sets {
            0 => (0, 0),
            _ => (capacity / sets, capacity % sets),
        };
        let most = ways + usize::from(wider > 0);
        let stride = (HEAD + most * Set::<K, V>::SLOT).div_ceil(8);
        let empty = |_| Line([const { AtomicU64::new(0) }; 8]);
        let count = sets.saturating_mul(stride);
        let bytes = count.saturating_mul(size_of::<Line>());
        let refused = ArenaFull::lacks(Lack::AddressSpace, bytes, isize::MAX as usize);
        if sets > u32::MAX as usize {
            return Err(refused);
        }
        let mut lines = Vec::new();
        lines.try_reserve_exact(count).map_err(|_| refused)?;
        lines.extend((0..count).map(empty));
        Ok(Self {
            lines: lines.into_boxed_slice(),
            sets,
            ways,
            wider,
            stride,
            words: PhantomData,
        })
    }

    #[inline(always)]
    pub(crate) fn sets(&self) -> usize {
        self.sets
    }

    /// Slots of one set.
    #[inline(always)]
    pub(crate) fn ways(&self, set: usize) -> usize {
        self.ways + usize::from(set < self.wider)
    }

    /// Slots of all sets.
    pub(crate) fn capacity(&self) -> usize {
        self.sets * self.ways + self.wider
    }

    /// Bytes of all sets.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.lines)
    }

    #[inline(always)]
    fn set(&self, number: usize) -> Set<'_, K, V> {
        debug_assert!(number < self.sets);
        // SAFETY: `number < sets`, by the obligation of this directory, and each set has `stride`
        // lines.
        let line = unsafe { self.lines.as_ptr().add(number * self.stride) };
        Set {
            words: line.cast(),
            table: PhantomData,
        }
    }

    /// The place of a key with this hash, if there is any set.
    #[inline(always)]
    pub(crate) fn place(&self, hash: u64) -> Option<Place<'_, K, V>> {
        if self.sets == 0 {
            return None;
        }
        let number = scaled(hash, self.sets);
        Some(Place {
            number,
            set: self.set(number),
            tag: (hash as u8).max(1),
        })
    }

    /// The number of entries in a set.
    pub(crate) fn count(&self, set: usize) -> usize {
        self.set(set).tags().taken().count()
    }

    /// Locks a set for writing, unless others have it for too long.
    #[inline(always)]
    pub(crate) fn try_lock(&self, set: usize) -> Option<Writer<'_, K, V>> {
        (0..PATIENCE).find_map(|patience| self.lock_once(set, patience))
    }

    /// Locks a set for writing. Writers hold the lock for some tens of stores.
    #[inline(always)]
    pub(crate) fn lock(&self, set: usize) -> Writer<'_, K, V> {
        let mut patience = 0;
        loop {
            if let Some(writer) = self.lock_once(set, patience) {
                return writer;
            }
            patience = patience.saturating_add(1);
        }
    }

    #[inline(always)]
    fn lock_once(&self, number: usize, patience: u32) -> Option<Writer<'_, K, V>> {
        let set = self.set(number);
        let word = set.word(SEQUENCE);
        let sequence = word.load(Ordering::Relaxed);
        let free = sequence & 1 == 0
            && word
                .compare_exchange(sequence, sequence + 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        if !free {
            sync::spin(patience);
            return None;
        }
        // Readers that see any store of this writer also see that the sequence is odd.
        fence(Ordering::Release);
        Some(Writer {
            set,
            ways: self.ways(number),
            sequence,
        })
    }
}

impl<'t, K: Words, V: Words> Set<'t, K, V> {
    const SLOT: usize = 1 + K::COUNT + V::COUNT;

    #[inline(always)]
    fn word(self, at: usize) -> &'t AtomicU64 {
        sync::point();
        // SAFETY: a set has `stride` lines, enough for the head and the slots of its ways, and
        // callers ask for no others, by the obligation of this directory; lines are arrays of eight
        // words without padding, one after the other.
        unsafe { &*self.words.add(at) }
    }

    #[inline(always)]
    fn slot(self, way: usize, at: usize) -> &'t AtomicU64 {
        debug_assert!(way < WAYS && at < Self::SLOT);
        self.word(HEAD + way * Self::SLOT + at)
    }

    #[inline(always)]
    fn tags(self) -> Tags {
        Tags([0, 1].map(|at| self.word(TAGS + at).load(Ordering::Relaxed)))
    }

    #[inline(always)]
    fn has_key(self, way: usize, key: &K) -> bool {
        let (mut at, mut differ) = (1, 0);
        key.each(|word| {
            differ |= word ^ self.slot(way, at).load(Ordering::Relaxed);
            at += 1;
        });
        differ == 0
    }
}

impl<K: Words, V: Words> Clone for Place<'_, K, V> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Words, V: Words> Copy for Place<'_, K, V> {}

impl<'t, K: Words, V: Words> Place<'t, K, V> {
    /// As [`find`](Self::find), but waits for writers a while.
    #[cold]
    pub(crate) fn find_patiently(self, key: &K) -> Found<V> {
        for patience in 0..PATIENCE {
            match self.find(key) {
                Found::Busy => sync::spin(patience),
                found => return found,
            }
        }
        Found::Busy
    }

    /// The entry of a key, without a lock.
    #[inline(always)]
    pub(crate) fn find(self, key: &K) -> Found<V> {
        self.find_if(key, |_, _| true)
    }

    /// As [`find`](Self::find), if `wants` is true of the entry's generation and stamp. It is asked
    /// before the value is copied, so that less is held in registers, and before it is known that
    /// no writer was inside.
    #[inline(always)]
    pub(crate) fn find_if(self, key: &K, wants: impl Fn(u64, Stamp) -> bool) -> Found<V> {
        let set = self.set;
        let before = set.word(SEQUENCE).load(Ordering::Acquire);
        for way in set.tags().equal(self.tag) {
            if !set.has_key(way, key) {
                continue;
            }
            let generation = set.word(GENERATION).load(Ordering::Relaxed);
            let stamp = Stamp(set.slot(way, 0).load(Ordering::Relaxed));
            if !wants(generation, stamp) {
                return Found::Busy;
            }
            let mut at = 1 + K::COUNT;
            let value = V::fill(|| {
                at += 1;
                set.slot(way, at - 1).load(Ordering::Relaxed)
            });
            fence(Ordering::Acquire);
            // An odd number means a writer, and each number comes only once.
            if set.word(SEQUENCE).load(Ordering::Relaxed) != before & !1 {
                return Found::Busy;
            }
            return Found::Entry(Seen {
                generation,
                stamp,
                value,
                way,
                #[cfg(feature = "std")]
                sequence: before,
            });
        }
        // A key without its tag or its words in the set is absent, or was a moment ago, whatever a
        // writer does.
        Found::Absent
    }

    /// The set's sequence. While it stays the same, so does all that the set holds, and no mark is
    /// cleared.
    #[cfg(feature = "std")]
    #[inline(always)]
    pub(crate) fn sequence(&self) -> &'t AtomicU64 {
        self.set.word(SEQUENCE)
    }

    /// Notes that a way was hit. This writes nothing if the way has its mark already, as is usual.
    #[inline(always)]
    pub(crate) fn mark(&self, way: usize) {
        let marks = self.set.word(MARKS);
        if marks.load(Ordering::Relaxed) >> way & 1 == 0 {
            first_hit(marks, way);
        }
    }

    /// The number of invalidations and insertions in the set.
    #[inline(always)]
    pub(crate) fn disturbances(&self) -> u64 {
        self.set.word(DISTURBANCES).load(Ordering::Acquire)
    }
}

/// Sets a mark. Inline, its bit would be computed for each hit.
#[cold]
#[inline(never)]
fn first_hit(marks: &AtomicU64, way: usize) {
    marks.fetch_or(1 << way, Ordering::Relaxed);
}

/// A set that nobody else writes.
pub(crate) struct Writer<'t, K: Words, V: Words> {
    set: Set<'t, K, V>,
    ways: usize,
    sequence: u64,
}

impl<K: Words, V: Words> Writer<'_, K, V> {
    fn set_tag(&self, way: usize, tag: u8) {
        let (word, shift) = (self.set.word(TAGS + way / 8), 8 * (way % 8));
        let tags = word.load(Ordering::Relaxed) & !(0xff << shift) | u64::from(tag) << shift;
        word.store(tags, Ordering::Relaxed);
    }

    pub(crate) fn generation(&self) -> u64 {
        self.set.word(GENERATION).load(Ordering::Relaxed)
    }

    /// Empties the set for entries of another generation; returns how many there were.
    pub(crate) fn restart(&mut self, generation: u64) -> usize {
        let count = self.set.tags().taken().count();
        for at in [0, 1] {
            let word = self.set.word(TAGS + at);
            word.store(0, Ordering::Relaxed);
        }
        let marks = self.set.word(MARKS);
        marks.fetch_and(!ALL, Ordering::Relaxed);
        let word = self.set.word(GENERATION);
        word.store(generation, Ordering::Relaxed);
        count
    }

    pub(crate) fn disturbances(&self) -> u64 {
        self.set.word(DISTURBANCES).load(Ordering::Relaxed)
    }

    /// Makes the answers of running resolvers old.
    pub(crate) fn disturb(&mut self) {
        let word = self.set.word(DISTURBANCES);
        word.store(self.disturbances() + 1, Ordering::Relaxed);
    }

    /// The way of a key.
    #[inline(always)]
    pub(crate) fn way_of(&self, place: &Place<'_, K, V>, key: &K) -> Option<usize> {
        self.tagged(place.tag, key)
    }

    #[inline(always)]
    fn tagged(&self, tag: u8, key: &K) -> Option<usize> {
        let mut ways = self.set.tags().equal(tag);
        ways.find(|way| self.set.has_key(*way, key))
    }

    /// An empty way.
    #[inline(always)]
    pub(crate) fn vacant(&self) -> Option<usize> {
        let way = self.set.tags().equal(0).next()?;
        (way < self.ways).then_some(way)
    }

    /// The way whose entry is evicted: the next one that was not hit. When all were hit, this
    /// clears all marks but one.
    #[inline(always)]
    pub(crate) fn victim(&mut self) -> usize {
        let ways = self.ways;
        let word = self.set.word(MARKS);
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
        // A mark that a reader sets between the load and this may be lost with the others.
        word.fetch_and(keep, Ordering::Relaxed);
        word.fetch_or(next << WAYS, Ordering::Relaxed);
        way
    }

    /// The key of a way with an entry.
    pub(crate) fn key(&self, way: usize) -> K {
        let mut at = 0;
        K::fill(|| {
            at += 1;
            self.set.slot(way, at).load(Ordering::Relaxed)
        })
    }

    /// The value of a way with an entry; none if it says that there is none.
    pub(crate) fn value(&self, way: usize) -> Option<V> {
        let mut at = K::COUNT;
        (!self.stamp(way).negative()).then(|| {
            V::fill(|| {
                at += 1;
                self.set.slot(way, at).load(Ordering::Relaxed)
            })
        })
    }

    pub(crate) fn stamp(&self, way: usize) -> Stamp {
        Stamp(self.set.slot(way, 0).load(Ordering::Relaxed))
    }

    /// The ways with entries.
    pub(crate) fn entries(&self) -> impl Iterator<Item = usize> + use<K, V> {
        self.set.tags().taken()
    }

    /// Writes a whole entry.
    #[inline(always)]
    pub(crate) fn write(
        &mut self,
        way: usize,
        place: &Place<'_, K, V>,
        key: &K,
        stamp: Stamp,
        value: &V,
    ) {
        let mut at = 1;
        key.each(|word| {
            let slot = self.set.slot(way, at);
            slot.store(word, Ordering::Relaxed);
            at += 1;
        });
        self.rewrite(way, stamp, value);
        self.set_tag(way, place.tag);
    }

    /// Writes the stamp and the value of an entry that is there.
    #[inline(always)]
    pub(crate) fn rewrite(&mut self, way: usize, stamp: Stamp, value: &V) {
        let slot = self.set.slot(way, 0);
        slot.store(stamp.0, Ordering::Relaxed);
        let mut at = 1 + K::COUNT;
        value.each(|word| {
            let slot = self.set.slot(way, at);
            slot.store(word, Ordering::Relaxed);
            at += 1;
        });
    }

    /// Whether no key is in the set twice.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        for way in self.entries() {
            let key = self.key(way);
            let tag = self.set.tags().get(way);
            if self.tagged(tag, &key) != Some(way) {
                return Err("a key is there twice");
            }
        }
        Ok(())
    }

    pub(crate) fn remove(&mut self, way: usize) {
        self.set_tag(way, 0);
        let marks = self.set.word(MARKS);
        marks.fetch_and(!(1 << way), Ordering::Relaxed);
    }
}

impl<K: Words, V: Words> Drop for Writer<'_, K, V> {
    #[inline(always)]
    fn drop(&mut self) {
        let word = self.set.word(SEQUENCE);
        word.store(self.sequence.wrapping_add(2), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_are_exact() {
        for capacity in (0..70).chain([1000, 8191, 8192, 8193]) {
            let table = Table::<[u64; 1], [u64; 1]>::new(capacity).unwrap();
            assert_eq!(table.capacity(), capacity);
            let ways = (0..table.sets()).map(|set| table.ways(set));
            assert_eq!(ways.clone().sum::<usize>(), capacity);
            assert!(ways.max().is_none_or(|most| most <= WAYS));
        }
    }

    #[test]
    fn marked_ways_stay_longest() {
        let table = Table::<[u64; 1], [u64; 1]>::new(4).unwrap();
        let mark = |way| table.place(0).into_iter().for_each(|place| place.mark(way));
        for way in [0, 1, 3] {
            mark(way);
        }
        let victims = |n| {
            let mut writer = table.lock(0);
            (0..n)
                .map(|_| writer.victim())
                .collect::<alloc::vec::Vec<_>>()
        };
        assert_eq!(victims(3), [2, 2, 2]);
        mark(2);
        // All ways were hit: the hand decides, and the marks are cleared.
        assert_eq!(victims(5), [3, 0, 1, 2, 3]);
    }
}
