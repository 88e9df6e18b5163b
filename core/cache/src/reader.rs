//! A thread's own front of a cache: copies of the entries that it found most recently.
//!
//! An entry of the front is good while the sequence of its set is the one that it had when the
//! entry was copied: then nobody has written the set since. The generation of the cache and the
//! time are checked as for the set itself. So the front answers as the set would at this moment.
//! `docs/route.md` has the measurements.

use alloc::boxed::Box;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use super::answer::{Lookup, Unresolved};
use super::cache::{Glance, RouteCache};
use super::counters::{Event, Own};
use super::hooks::{CacheHooks, NoHooks};
use super::raw::sync;
use super::stamp::Stamp;
use super::thread::Stay;
use crate::{Plain, Words};

/// The number of entries of a front, a power of two.
const ENTRIES: usize = 256;

/// Of this many lookups that the front does not answer, one entry is copied into it. The schedules
/// of shuttle are short, so there each one is.
const EVERY: u32 = if cfg!(shuttle) { 1 } else { 4 };

/// The front is judged each time after this many lookups that it did not answer.
const WINDOW: u32 = 1024;

/// The front goes on if it has answered at least this many lookups for each one that it has not. If
/// it answers fewer, mispredicted branches cost more than it saves.
const WORTH: u64 = 3;

/// Otherwise the front is not asked during this many hits of the thread.
const REST: u64 = 1 << 18;

/// The sequence of sets that do not exist.
static NONE: AtomicU64 = AtomicU64::new(0);

/// A thread's handle of a [`RouteCache`], by [`RouteCache::reader`]. It keeps copies of entries
/// that the thread looks up again and again, and answers from them in about half of the time.
///
/// - Its lookups answer as those of the cache do, and are counted as these. An entry that is too
///   old, that was removed, replaced or evicted, or that is from before an
///   [`invalidate_all`](RouteCache::invalidate_all) is not returned: each lookup compares a word
///   that every writer of the entry's set changes.
/// - It has 256 copies, at places that follow from the key: 88 bytes each for keys of 24 bytes and
///   values of 32. It pays for up to some hundred keys. If it answers fewer than three of four
///   lookups, it asks the cache alone for a while.
/// - It stays on its thread. A reader that is forgotten, not dropped, keeps one of 256 numbers of
///   threads for good.
/// - A thread without counters of its own ([`threads`](super::RouteCacheBuilder::threads)) is
///   answered by the cache alone.
///
/// ```
/// use sapwood::route::RouteCache;
///
/// let cache: RouteCache<u32, u64> = RouteCache::new(1024);
/// let mut reader = cache.reader();
/// let (key, now) = (7, 5_000_000);
/// let hash = cache.hash(&key);
/// for _ in 0..10 {
///     assert_eq!(reader.get_or_resolve(&key, hash, now, |_| Ok::<_, ()>(70)), Ok(70));
/// }
/// assert_eq!(reader.get(&key, now), Some(70));
/// cache.insert(&key, hash, now, 71);
/// assert_eq!(reader.get(&key, now), Some(71));
/// cache.invalidate(&key);
/// assert_eq!(reader.get(&key, now), None);
/// assert_eq!((cache.stats().hit, cache.stats().miss), (11, 2));
/// ```
pub struct CacheReader<'c, K: Plain, V: Plain, H: CacheHooks<K, V> = NoHooks> {
    cache: &'c RouteCache<K, V, H>,
    own: Option<Own<'c>>,
    /// The number of the thread's hits from which on the front is asked.
    rests_until: u64,
    /// The hits of the thread when this window began.
    start: u64,
    /// The lookups of this window that the front may still miss.
    left: u32,
    entries: Box<[Entry<'c, K::Words, V::Words>; ENTRIES]>,
    _stay: Stay,
}

/// A copy of an entry.
#[derive(Clone, Copy)]
struct Entry<'c, K, V> {
    /// The sequence of its set.
    set: &'c AtomicU64,
    key: K,
    /// What the sequence was.
    sequence: u64,
    generation: u64,
    stamp: Stamp,
    value: V,
}

impl<K: Words, V: Words> Entry<'_, K, V> {
    /// No sequence is ever that of this entry.
    fn none() -> Self {
        Self {
            set: &NONE,
            key: K::fill(|| 0),
            sequence: 1,
            generation: 0,
            stamp: Stamp(0),
            value: V::fill(|| 0),
        }
    }
}

impl<K: Plain, V: Plain, H: CacheHooks<K, V>> RouteCache<K, V, H> {
    /// A handle for this thread, whose lookups of the same keys again and again are quicker.
    ///
    /// O(1), with memory for 256 copies of entries.
    pub fn reader(&self) -> CacheReader<'_, K, V, H> {
        // The thread asks for its number.
        self.counters.mine();
        let own = self.counters.own();
        let entries: Box<[_]> = (0..ENTRIES).map(|_| Entry::none()).collect();
        let Ok(entries) = entries.try_into() else {
            unreachable!("there are so many")
        };
        CacheReader {
            cache: self,
            own,
            rests_until: 0,
            start: own.map_or(0, Own::hits),
            left: WINDOW,
            entries,
            _stay: Stay::new(),
        }
    }
}

impl<'c, K: Plain, V: Plain, H: CacheHooks<K, V>> CacheReader<'c, K, V, H> {
    /// The cache.
    ///
    /// O(1).
    pub fn cache(&self) -> &'c RouteCache<K, V, H> {
        self.cache
    }

    /// As [`RouteCache::get`].
    ///
    /// O(words of key and value).
    #[inline(always)]
    pub fn get(&mut self, key: &K, now: u64) -> Option<V> {
        let cache = self.cache;
        match self.lookup_by(key, || cache.hash(key), now) {
            Lookup::Value(value) => Some(value),
            Lookup::Negative | Lookup::Absent => None,
        }
    }

    /// As [`RouteCache::lookup`].
    ///
    /// O(words of key and value).
    #[inline(always)]
    pub fn lookup(&mut self, key: &K, hash: u64, now: u64) -> Lookup<V> {
        self.lookup_by(key, || hash, now)
    }

    /// As [`RouteCache::get_or_resolve`].
    ///
    /// O(words of key and value); otherwise the resolver and one write into the set.
    ///
    /// # Errors
    ///
    /// The resolver's error, which is not stored unless there is a `negative_ttl`.
    ///
    /// # Panics
    ///
    /// When the resolver panics. The cache is as it was.
    #[inline]
    pub fn get_or_resolve<E>(
        &mut self,
        key: &K,
        hash: u64,
        now: u64,
        resolver: impl FnOnce(&K) -> Result<V, E>,
    ) -> Result<V, Unresolved<E>> {
        let words = key.to_words();
        match self.glance::<false>(&words, || hash, now) {
            Glance::Fresh(words) => Ok(V::from_words(words)),
            Glance::Absent | Glance::Unsure => self.cache.resolve(key, words, hash, now, resolver),
        }
    }

    /// A lookup that needs the hash only where the front does not answer.
    #[inline(always)]
    fn lookup_by(&mut self, key: &K, hash: impl Fn() -> u64, now: u64) -> Lookup<V> {
        let words = key.to_words();
        let glance = self.glance::<true>(&words, &hash, now);
        self.cache.told(glance, words, hash, now)
    }

    #[inline(always)]
    fn glance<const LAST: bool>(
        &mut self,
        words: &K::Words,
        hash: impl Fn() -> u64,
        now: u64,
    ) -> Glance<V::Words> {
        let cache = self.cache;
        let Some(own) = self.own else {
            return cache.glance_shared::<LAST>(words, hash(), now);
        };
        if own.hits() >= self.rests_until {
            if let Some(value) = self.copied(cache, own, words, &hash, now) {
                return Glance::Fresh(value);
            }
            self.left -= 1;
            if self.left % EVERY == 0 {
                self.copy(own, *words, hash(), now);
            }
        }
        cache.glance_by::<LAST>(own, words, hash(), now)
    }

    /// The value of a key, if the front has it and it is good.
    #[inline(always)]
    fn copied(
        &self,
        cache: &RouteCache<K, V, H>,
        own: Own<'_>,
        words: &K::Words,
        hash: impl Fn() -> u64,
        now: u64,
    ) -> Option<V::Words> {
        let entry = &self.entries[place(words)];
        let mine = own.mine();
        if !same(&entry.key, words) || !mine.runs_on(now) {
            return None;
        }
        sync::point();
        let good = entry.set.load(Ordering::Acquire) == entry.sequence
            && cache.is_fresh(entry.generation, entry.stamp, now);
        if !good {
            return None;
        }
        // The entry has had its mark since it was copied.
        cache.probe_hit(words, hash);
        mine.count(Event::Hit);
        Some(entry.value)
    }

    /// Copies the entry of a key if it is fresh. From time to time this judges whether the front
    /// pays. It returns nothing: a value that came from here through memory would go through memory
    /// on the hot path, too.
    #[cold]
    #[inline(never)]
    fn copy(&mut self, own: Own<'_>, words: K::Words, hash: u64, now: u64) {
        if self.left == 0 {
            self.judge(own.hits());
        }
        if let Some((seen, at)) = self.cache.see(&words, hash, now) {
            self.entries[place(&words)] = Entry {
                set: at.sequence(),
                key: words,
                sequence: seen.sequence,
                generation: seen.generation,
                stamp: seen.stamp,
                value: seen.value,
            };
        }
    }

    /// Begins a window, now or after a rest.
    fn judge(&mut self, hits: u64) {
        let window = u64::from(WINDOW);
        // Nearly all lookups that the front did not answer are among the hits.
        if hits.wrapping_sub(self.start) < (WORTH + 1) * window {
            self.rests_until = hits + REST;
        }
        self.start = self.rests_until.max(hits);
        self.left = WINDOW;
    }
}

impl<K: Plain, V: Plain, H: CacheHooks<K, V>> fmt::Debug for CacheReader<'_, K, V, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheReader")
            .field("cache", self.cache)
            .finish_non_exhaustive()
    }
}

/// The place of a key in a front. This needs no secret: keys that an attacker chooses for one place
/// make the front useless, so that it rests.
#[inline(always)]
fn place<W: Words>(key: &W) -> usize {
    let mut sum = 0u64;
    key.each(|word| sum = sum.rotate_left(23) ^ word);
    (sum.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - ENTRIES.trailing_zeros())) as usize
}

/// Whether two keys have the same words.
#[inline(always)]
pub(crate) fn same<W: Words>(one: &W, other: &W) -> bool {
    let (mut differ, mut at) = (0, 0);
    one.each(|word| {
        let mut i = 0;
        other.each(|theirs| {
            if i == at {
                differ |= word ^ theirs;
            }
            i += 1;
        });
        at += 1;
    });
    differ == 0
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const FRESH: u64 = 100 * MS;

    type Cache = RouteCache<u64, [u64; 2]>;

    /// One set, so that all keys are neighbours.
    fn cache() -> Cache {
        let builder = Cache::builder().capacity(16).threads(256).seed(1);
        builder
            .negative_ttl(core::time::Duration::from_millis(5))
            .build()
    }

    fn insert(cache: &Cache, key: u64, now: u64, value: u64) {
        cache.insert(&key, cache.hash(&key), now, [key, value]);
    }

    impl CacheReader<'_, u64, [u64; 2]> {
        /// The value that the front alone answers.
        fn by_the_front(&self, key: u64, now: u64) -> Option<u64> {
            let own = self.own.unwrap();
            let found = self.copied(self.cache, own, &[key], || self.cache.hash(&key), now);
            found.map(|[of, value]| {
                assert_eq!(of, key);
                value
            })
        }

        /// Looks a key up until the front has it.
        fn warm(&mut self, key: u64, now: u64) {
            for _ in 0..EVERY {
                assert!(self.get(&key, now).is_some());
            }
        }
    }

    /// The front answers, until anything happens after which its copy might be wrong.
    #[test]
    fn copies_end_with_their_entries() {
        type Event = fn(&Cache);
        let now = 1000 * MS;
        let events: [(Event, u64, Option<u64>); 11] = [
            (|_| {}, now, Some(1)),
            (|_| {}, now + FRESH - 1, Some(1)),
            (|_| {}, now + FRESH, None),
            (|_| {}, now - 1, None),
            (|cache| assert!(cache.invalidate(&7)), now, None),
            (|cache| cache.invalidate_all(), now, None),
            (|cache| insert(cache, 7, 1000 * MS, 1), now, None),
            (|cache| insert(cache, 7, 1000 * MS, 2), now, None),
            // A neighbour: the key is there, but the front cannot know that.
            (|cache| insert(cache, 8, 1000 * MS, 2), now, None),
            (|cache| assert!(!cache.invalidate(&9)), now, None),
            (
                |cache| {
                    let late = 1000 * MS + FRESH;
                    let answer = cache.get_or_resolve(&7, cache.hash(&7), late, |_| Err(()));
                    assert_eq!(answer, Err(Unresolved::Error(())));
                },
                now + FRESH,
                None,
            ),
        ];
        for (at, (event, then, front)) in events.into_iter().enumerate() {
            let cache = cache();
            let mut reader = cache.reader();
            insert(&cache, 7, now, 1);
            assert_eq!(reader.by_the_front(7, now), None, "case {at}");
            reader.warm(7, now);
            assert_eq!(reader.by_the_front(7, now), Some(1), "case {at}");
            event(&cache);
            assert_eq!(reader.by_the_front(7, then), front, "case {at}");
            let found = reader.lookup(&7, cache.hash(&7), then);
            assert_eq!(found, cache.lookup(&7, cache.hash(&7), then), "case {at}");
            cache.verify().unwrap();
        }
    }

    /// A lookup that the front answers shows the cache its time: afterwards, an earlier one is a
    /// step back of the clock, by which all entries age.
    #[test]
    fn the_front_notes_the_time() {
        let (cache, now) = (cache(), 1000 * MS);
        let mut reader = cache.reader();
        insert(&cache, 7, now, 1);
        reader.warm(7, now);
        assert_eq!(reader.by_the_front(7, now + 50 * MS), Some(1));
        assert_eq!(reader.get(&7, now + 10 * MS), None);
        assert_eq!(cache.get(&7, now + 10 * MS), None);
        assert_eq!(cache.stats().clock_back, 1);
    }

    /// A key of zeros is not found in a front of no entries.
    #[test]
    fn an_empty_front_has_no_key() {
        let cache = cache();
        let mut reader = cache.reader();
        assert!((0..100).all(|key| reader.by_the_front(key, MS).is_none()));
        assert_eq!(reader.get(&0, MS), None);
        assert_eq!((cache.stats().hit, cache.stats().miss), (0, 1));
    }

    /// A failure has no value, and an entry of the future may have one: no front has them.
    #[test]
    fn only_fresh_values_are_copied() {
        let cache = cache();
        let mut reader = cache.reader();
        let fail = |now| cache.get_or_resolve(&0, cache.hash(&0), now, |_| Err(()));
        assert_eq!(fail(MS), Err(Unresolved::Error(())));
        insert(&cache, 1, 2 * MS, 1);
        // The time steps back, by which the entry of key 1 is of the future and then of the past.
        for _ in 0..2 * EVERY {
            assert_eq!(reader.lookup(&0, cache.hash(&0), 2 * MS), Lookup::Negative);
        }
        assert_eq!(reader.by_the_front(0, 2 * MS), None);
        for _ in 0..2 * EVERY {
            assert_eq!(reader.get(&1, 2 * MS - 1), None);
        }
        assert_eq!(reader.by_the_front(1, 2 * MS - 1), None);
    }

    /// What a reader looks up keeps its mark, also if the front answers: the entry is not evicted
    /// for keys that come once.
    #[test]
    fn what_the_front_answers_stays() {
        let cache = cache();
        let mut reader = cache.reader();
        insert(&cache, 7, MS, 1);
        for key in 100..300 {
            reader.warm(7, MS);
            assert_eq!(reader.by_the_front(7, MS), Some(1), "{key}");
            insert(&cache, key, MS, 2);
        }
        cache.verify().unwrap();
    }

    /// With too many keys the front rests, and begins anew later.
    #[test]
    fn a_front_that_does_not_pay_rests() {
        if cfg!(miri) {
            return;
        }
        // Eight times the keys: the hash has a new seed each time, and no set becomes full.
        let cache: Cache = RouteCache::builder().capacity(1 << 16).threads(256).build();
        let mut reader = cache.reader();
        let keys = 1 << 13;
        (0..keys).for_each(|key| insert(&cache, key, MS, key));
        let rests = |reader: &CacheReader<'_, u64, [u64; 2]>| {
            reader.own.unwrap().hits() < reader.rests_until
        };
        let mut all = (0..keys).cycle();
        let mut steps = |reader: &mut CacheReader<'_, u64, [u64; 2]>, n| {
            for key in all.by_ref().take(n) {
                assert_eq!(reader.get(&key, MS), Some([key, key]));
            }
        };
        steps(&mut reader, 2 * WINDOW as usize);
        assert!(rests(&reader));
        // A few keys: nothing is copied as long as it rests, and all are afterwards.
        let few = |reader: &mut CacheReader<'_, u64, [u64; 2]>, n| {
            for i in 0..n {
                assert_eq!(reader.get(&(i % 8), MS), Some([i % 8, i % 8]));
            }
        };
        few(&mut reader, REST);
        assert!(!rests(&reader));
        few(&mut reader, 10_000);
        assert!((0..8).all(|key| reader.by_the_front(key, MS) == Some(key)));
        assert!(!rests(&reader));
        let stats = cache.stats();
        assert_eq!(stats.miss, 0);
    }

    /// Threads without counters of their own have a reader that asks the cache.
    #[test]
    fn threads_that_share_counters() {
        let cache: Cache = RouteCache::builder().capacity(16).threads(0).build();
        let mut reader = cache.reader();
        insert(&cache, 7, MS, 1);
        for _ in 0..100 {
            assert_eq!(reader.get(&7, MS), Some([7, 1]));
        }
        assert_eq!(reader.get(&8, MS), None);
        assert!(reader.own.is_none());
        assert_eq!((cache.stats().hit, cache.stats().miss), (100, 1));
    }
}
