//! The route cache, which keeps answers of a slow resolver for a short time in fixed memory.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use sapwood_arena::ArenaFull;

use super::answer::{Lookup, Unresolved};
use super::choices::Choices;
use super::config::RouteCacheBuilder;
use super::counters::{CacheStats, Counters, Event, Mine, Own};
#[cfg(feature = "std")]
use super::flight::{Answer, Flights, Turn};
use super::hash::Secrets;
use super::hooks::{CacheHooks, Gone, NoHooks};
use super::raw::probe;
#[cfg(feature = "std")]
use super::raw::table::Seen;
use super::raw::table::{Found, Place, Table, WAYS, Writer};
use super::stamp::{Span, Stamp, Time};
use crate::{Plain, Words};

/// A cache of a slow resolver's answers, such as next hops, shared by all threads.
///
/// - The cache returns an answer while it is younger than `fresh` (100 ms), counted from **before**
///   its resolver was called. An older answer is resolved again and written into its slot.
///   [`sweep`](Self::sweep) removes answers older than `keep` (1 s).
/// - A cache takes all of its memory when it is made (but see
///   [`single_flight`](RouteCacheBuilder::single_flight)): sets of up to sixteen slots, each slot
///   with one entry. A lookup reads the head of one set and, usually, one slot. Entries that were
///   hit stay longer than others.
/// - Readers take no lock. A hit writes nothing that other threads write, except a mark the first
///   time that an entry is hit, and counters by more threads than
///   [`threads`](RouteCacheBuilder::threads). Writers lock one set for some tens of stores; no
///   lock is held while a resolver runs.
/// - A thread that looks up the same keys again and again may have a reader with a front of its
///   own, by `reader` (with `std`).
/// - The caller gives the time, in nanoseconds of a monotonic clock. If a thread's time steps back
///   all the same, all entries age, so that no entry is fresh any more.
///
/// Keys and values are [`Plain`] data. Works without `std`.
///
/// ```
/// use sapwood::route::{RouteCache, Unresolved};
///
/// let cache: RouteCache<(u128, u32), u64> = RouteCache::new(1024);
/// let ask = |key: &(u128, u32)| if key.0 == 0 { Err("no route") } else { Ok(key.0 as u64 + 7) };
///
/// let (key, now) = ((1, 99), 5_000_000);
/// let hash = cache.hash(&key);
/// assert_eq!(cache.get_or_resolve(&key, hash, now, ask), Ok(8)); // calls the resolver
/// assert_eq!(cache.get_or_resolve(&key, hash, now + 1000, ask), Ok(8)); // finds the entry
/// assert_eq!(cache.get(&key, now + 200_000_000), None); // too old
///
/// let unknown = (0, 99);
/// let answer = cache.get_or_resolve(&unknown, cache.hash(&unknown), now, ask);
/// assert_eq!(answer, Err(Unresolved::Error("no route")));
/// let stats = cache.stats();
/// assert_eq!((stats.hit, stats.miss, stats.error, stats.occupancy), (1, 3, 1, 1));
/// ```
///
/// A type of [`CacheHooks`] hears of every event. Without it, the cache is as if there were none.
pub struct RouteCache<K: Plain, V: Plain, H: CacheHooks<K, V> = NoHooks> {
    pub(super) table: Table<K::Words, V::Words>,
    hooks: H,
    secrets: Secrets,
    pub(super) counters: Counters,
    fresh: u64,
    keep: u64,
    negative: Option<u64>,
    /// For how long values and failures are returned.
    lives: [Span; 2],
    life: u64,
    /// The generation. Sets with another one have entries from before `invalidate_all`.
    generation: AtomicU64,
    /// By how much entries have aged because clocks stepped back.
    offset: AtomicU64,
    /// Where the next sweep begins.
    cursor: CachePadded<AtomicUsize>,
    #[cfg(feature = "std")]
    flights: Option<Flights<K::Words, V::Words>>,
}

/// The state of a key in the cache.
enum State<W> {
    Fresh(W),
    Negative,
    Stale,
    Absent,
    /// A writer held the set for too long.
    Busy,
}

/// What a thread finds at the first look.
pub(super) enum Glance<W> {
    /// A fresh value, which is counted as a hit.
    Fresh(W),
    /// No entry. It is counted as a miss if the caller looks no further.
    Absent,
    /// One of the rare cases.
    Unsure,
}

/// An entry that a reader saw, and where.
#[cfg(feature = "std")]
pub(super) type Sight<'c, K, V> = (
    Seen<<V as Plain>::Words>,
    Place<'c, <K as Plain>::Words, <V as Plain>::Words>,
);

/// The state that must not change between the call of a resolver and the storing of its answer.
struct Ticket {
    generation: u64,
    disturbances: u64,
}

/// A key, with what an operation knows of it.
#[derive(Clone, Copy)]
struct Query<'c, W> {
    words: W,
    hash: u64,
    time: Time,
    mine: Mine<'c>,
}

impl<K: Plain, V: Plain> RouteCache<K, V> {
    /// A cache for this many entries, with the default times and a hash seed of its own.
    ///
    /// O(entries), whose memory it takes at once.
    pub fn new(capacity: usize) -> Self {
        Self::builder().capacity(capacity).build()
    }

    /// A builder, which sets what [`new`](Self::new) leaves at its default.
    ///
    /// O(1).
    pub fn builder() -> RouteCacheBuilder<K, V> {
        RouteCacheBuilder::new()
    }
}

impl<K: Plain, V: Plain, H: CacheHooks<K, V>> RouteCache<K, V, H> {
    pub(super) fn with(config: RouteCacheBuilder<K, V, H>) -> Result<Self, ArenaFull> {
        let Choices {
            capacity,
            fresh,
            keep,
            negative,
            ..
        } = config.choices;
        Ok(Self {
            table: Table::new(capacity)?,
            secrets: config.choices.secrets(),
            hooks: config.hooks,
            counters: Counters::new(config.threads),
            fresh,
            keep,
            negative,
            lives: [fresh, negative.unwrap_or(0)].map(Span::new),
            life: fresh.max(negative.unwrap_or(0)),
            generation: AtomicU64::new(0),
            offset: AtomicU64::new(0),
            cursor: CachePadded::new(AtomicUsize::new(0)),
            #[cfg(feature = "std")]
            flights: config.single_flight.then(Flights::new),
        })
    }

    /// The hooks that hear of the cache's events.
    ///
    /// O(1).
    pub fn hooks(&self) -> &H {
        &self.hooks
    }

    /// The hash of a key, for the methods that take one.
    ///
    /// These methods take any other hash of the key as well, as long as all calls use the same one.
    /// Then the caller answers for keys that an attacker chooses. The upper 32 bits choose the set.
    ///
    /// O(words of the key).
    #[inline(always)]
    pub fn hash(&self, key: &K) -> u64 {
        self.secrets.hash(&key.to_words())
    }

    /// The value of a key, if the cache has a fresh one.
    ///
    /// O(words of key and value): the head of one set and, nearly always, one slot.
    #[inline(always)]
    pub fn get(&self, key: &K, now: u64) -> Option<V> {
        self.get_hashed(key, self.hash(key), now)
    }

    /// As [`get`](Self::get), with the key's hash.
    #[inline(always)]
    pub fn get_hashed(&self, key: &K, hash: u64, now: u64) -> Option<V> {
        match self.lookup(key, hash, now) {
            Lookup::Value(value) => Some(value),
            Lookup::Negative | Lookup::Absent => None,
        }
    }

    /// As [`get_hashed`](Self::get_hashed), but tells a cached failure from no entry.
    #[inline(always)]
    pub fn lookup(&self, key: &K, hash: u64, now: u64) -> Lookup<V> {
        let words = key.to_words();
        let glance = self.glance::<true>(&words, hash, now);
        self.told(glance, words, || hash, now)
    }

    /// The answer to a lookup, after the first look.
    #[inline(always)]
    pub(super) fn told(
        &self,
        glance: Glance<V::Words>,
        words: K::Words,
        hash: impl FnOnce() -> u64,
        now: u64,
    ) -> Lookup<V> {
        match glance {
            Glance::Fresh(words) => Lookup::Value(V::from_words(words)),
            Glance::Absent => Lookup::Absent,
            Glance::Unsure => self.look_again(words, hash(), now),
        }
    }

    /// Handles the rare cases of a lookup. It takes the key's words by value: for a reference, the
    /// hot path would have to write them to memory.
    #[cold]
    #[inline(never)]
    fn look_again(&self, words: K::Words, hash: u64, now: u64) -> Lookup<V> {
        let query = self.query(words, hash, now);
        let state = self.find_patiently(&query, Span::new(0));
        self.count(&query, &state);
        match state {
            State::Fresh(words) => Lookup::Value(V::from_words(words)),
            State::Negative => Lookup::Negative,
            State::Stale | State::Absent | State::Busy => Lookup::Absent,
        }
    }

    /// The value of a key: the fresh one of the cache, or else the resolver's, which is stored.
    ///
    /// As [`get`](Self::get); otherwise the resolver and one write into the set.
    ///
    /// `now` must have been read before this call, so that the age of the answer counts from before
    /// the resolver was called. If the key, or everything, is invalidated while the resolver runs,
    /// its answer is returned but not stored.
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
        &self,
        key: &K,
        hash: u64,
        now: u64,
        resolver: impl FnOnce(&K) -> Result<V, E>,
    ) -> Result<V, Unresolved<E>> {
        let words = key.to_words();
        match self.glance::<false>(&words, hash, now) {
            Glance::Fresh(words) => Ok(V::from_words(words)),
            Glance::Absent | Glance::Unsure => self.resolve(key, words, hash, now, resolver),
        }
    }

    fn answer<E>(state: State<V::Words>) -> Result<V, Unresolved<E>> {
        match state {
            State::Fresh(words) => Ok(V::from_words(words)),
            _ => Err(Unresolved::Negative),
        }
    }

    #[inline(never)]
    pub(super) fn resolve<E>(
        &self,
        key: &K,
        words: K::Words,
        hash: u64,
        now: u64,
        resolver: impl FnOnce(&K) -> Result<V, E>,
    ) -> Result<V, Unresolved<E>> {
        let query = &self.query(words, hash, now);
        let generation = self.generation.load(Ordering::Acquire);
        let state = self.find_patiently(query, Span::new(0));
        if let State::Fresh(_) | State::Negative = state {
            self.count(query, &state);
            return Self::answer(state);
        }
        #[cfg(feature = "std")]
        let mut turn = None;
        #[cfg(feature = "std")]
        if let Some(flights) = &self.flights {
            loop {
                let next = flights.turn(query.hash);
                // The thread that resolved the key may have begun after this thread read its clock.
                let mut state = self.find_patiently(query, Span::new(self.fresh));
                if let (State::Absent | State::Stale | State::Busy, Turn::Again(Some(answer))) =
                    (&state, &next)
                {
                    state = self.taken(query, answer);
                }
                if let State::Fresh(_) | State::Negative = state {
                    self.count(query, &state);
                    return Self::answer(state);
                }
                match next {
                    Turn::Lead(leader) => {
                        turn = Some(leader);
                        break;
                    }
                    Turn::Alone => break,
                    Turn::Again(_) => {}
                }
            }
        }
        self.count(query, &state);
        let place = self.table.place(query.hash);
        let disturbances = place.as_ref().map(Place::disturbances);
        let answer = resolver(key);
        if answer.is_err() {
            query.mine.count(Event::Error);
        }
        let is_stored = answer.is_ok() || self.negative.is_some();
        let value = answer.as_ref().ok().map(|value| value.to_words());
        if let (Some(place), Some(disturbances), true) = (&place, disturbances, is_stored) {
            let ticket = Ticket {
                generation,
                disturbances,
            };
            match self.table.try_lock(place.number) {
                Some(writer) => self.store(query, place, writer, value, Some(ticket)),
                None => {
                    query.mine.count(Event::Busy);
                    self.tell_left(query.words, value);
                }
            }
        } else {
            self.tell_left(query.words, value);
        }
        #[cfg(feature = "std")]
        if let Some(leader) = turn.filter(|_| is_stored) {
            leader.land(|| {
                // Not an answer from before an invalidation that a waiting thread knows of.
                let same = generation == self.generation.load(Ordering::Acquire)
                    && disturbances == place.as_ref().map(Place::disturbances);
                let stamp = query.time.stamp(value.is_none());
                same.then(|| Answer::new(query.words, stamp, value))
            });
        }
        answer.map_err(Unresolved::Error)
    }

    /// The state of a key by the answer that another thread's resolver gave.
    #[cfg(feature = "std")]
    fn taken(
        &self,
        query: &Query<'_, K::Words>,
        answer: &Answer<K::Words, V::Words>,
    ) -> State<V::Words> {
        let span = self.lives[usize::from(answer.stamp.negative())];
        let ahead = Span::new(self.fresh);
        if !answer.is_to(&query.words) || !query.time.is_within(answer.stamp, span, ahead) {
            return State::Absent;
        }
        match answer.value {
            Some(words) => State::Fresh(words),
            None => State::Negative,
        }
    }

    /// No thread takes the answer of a resolver that is running now for a key that has no set.
    fn spoil(&self, hash: u64) {
        #[cfg(feature = "std")]
        if let Some(flights) = &self.flights {
            flights.spoil(hash);
        }
        let _ = hash;
    }

    /// Stores a value of the time `now`, and replaces the key's entry. Resolvers that are running
    /// now do not replace it by their answers.
    ///
    /// O(words of key and value), under the lock of one set.
    #[inline]
    pub fn insert(&self, key: &K, hash: u64, now: u64, value: V) {
        let query = self.query(key.to_words(), hash, now);
        let Some(place) = self.table.place(hash) else {
            self.spoil(hash);
            return self.tell_left(query.words, Some(value.to_words()));
        };
        let mut writer = self.table.lock(place.number);
        writer.disturb();
        self.store(&query, &place, writer, Some(value.to_words()), None);
    }

    /// Removes a key; returns whether it was there. Resolvers that are running for it now do not
    /// store their answers.
    ///
    /// As [`insert`](Self::insert).
    pub fn invalidate(&self, key: &K) -> bool {
        self.invalidate_hashed(key, self.hash(key))
    }

    /// As [`invalidate`](Self::invalidate), with the key's hash.
    pub fn invalidate_hashed(&self, key: &K, hash: u64) -> bool {
        let Some(place) = self.table.place(hash) else {
            self.spoil(hash);
            return false;
        };
        let mut writer = self.table.lock(place.number);
        writer.disturb();
        let Some(way) = writer.way_of(&place, &key.to_words()) else {
            return false;
        };
        let mut gone = Gone::none();
        gone.note::<K, V, H>(&writer, way);
        writer.remove(way);
        let valid = writer.generation() == self.generation.load(Ordering::Acquire);
        drop(writer);
        self.counters.mine().count(Event::Invalidated);
        probe::delete(hash, place.number);
        gone.tell_removed(&self.hooks);
        valid
    }

    /// Removes everything in constant time: all entries, and the answers of running resolvers, are
    /// of an older generation from now on.
    pub fn invalidate_all(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Removes entries older than `keep`, and those from before an
    /// [`invalidate_all`](Self::invalidate_all). It looks at about `budget` slots, and the next
    /// call continues there. Returns how many entries it removed.
    ///
    /// O(budget).
    pub fn sweep(&self, now: u64, budget: usize) -> usize {
        let mine = self.counters.mine();
        let time = self.time(mine, now);
        let sets = self.table.sets();
        let count = budget.div_ceil(WAYS).min(sets);
        if count == 0 {
            return 0;
        }
        let start = self.cursor.fetch_add(count, Ordering::Relaxed);
        (0..count)
            .map(|i| self.sweep_set(mine, time, start.wrapping_add(i) % sets))
            .sum()
    }

    fn sweep_set(&self, mine: Mine<'_>, time: Time, set: usize) -> usize {
        if self.table.count(set) == 0 {
            return 0;
        }
        // A set that is locked now gets its turn again.
        let Some(mut writer) = self.table.try_lock(set) else {
            return 0;
        };
        let generation = self.generation.load(Ordering::Acquire);
        let mut gone = Gone::none();
        let mut removed = self.restart(mine, &mut writer, generation, &mut gone);
        let mut swept = 0;
        for way in writer.entries() {
            if self.expired(writer.stamp(way), time) {
                gone.note::<K, V, H>(&writer, way);
                writer.remove(way);
                swept += 1;
            }
        }
        drop(writer);
        removed += swept;
        mine.add(Event::Swept, swept);
        for _ in 0..removed {
            probe::delete(0, set);
        }
        gone.tell_removed(&self.hooks);
        removed
    }

    /// The counters of the cache, and how full it is. They are exact while nobody uses the cache.
    ///
    /// O(capacity), to count the entries.
    pub fn stats(&self) -> CacheStats {
        CacheStats {
            occupancy: self.occupancy(),
            capacity: self.capacity(),
            ..self.counters.sum()
        }
    }

    /// The number of slots that are taken, counted one by one.
    ///
    /// O(capacity).
    pub fn occupancy(&self) -> usize {
        (0..self.table.sets())
            .map(|set| self.table.count(set))
            .sum()
    }

    /// The number of slots.
    ///
    /// O(1).
    pub fn capacity(&self) -> usize {
        self.table.capacity()
    }

    /// The bytes that the cache took when it was made.
    ///
    /// O(1).
    pub fn memory(&self) -> usize {
        size_of_val(self) + self.table.bytes() + self.counters.bytes()
    }

    /// Checks the cache's invariants while nobody uses it.
    ///
    /// O(capacity).
    ///
    /// # Errors
    ///
    /// A message that says what is wrong.
    pub fn verify(&self) -> Result<(), String> {
        for set in 0..self.table.sets() {
            let writer = self
                .table
                .try_lock(set)
                .ok_or_else(|| format!("set {set} is locked"))?;
            if let Some(way) = writer.entries().find(|way| *way >= self.table.ways(set)) {
                return Err(format!("set {set} has no way {way}"));
            }
            writer
                .check()
                .map_err(|what| format!("set {set}: {what}"))?;
        }
        let stats = self.stats();
        let left = stats
            .insert
            .wrapping_sub(stats.evict + stats.swept + stats.invalidated);
        if left != stats.occupancy as u64 {
            return Err(format!("{left} entries should be there: {stats:?}"));
        }
        Ok(())
    }

    #[inline(always)]
    fn query(&self, words: K::Words, hash: u64, now: u64) -> Query<'_, K::Words> {
        let mine = self.counters.mine();
        Query {
            words,
            hash,
            time: self.time(mine, now),
            mine,
        }
    }

    /// The time of entries: the caller's time, plus what was added when clocks stepped back.
    #[inline(always)]
    fn time(&self, mine: Mine<'_>, now: u64) -> Time {
        self.note(mine, now);
        Time::new(now.wrapping_add(self.offset.load(Ordering::Relaxed)))
    }

    /// Notes the time, and ages all entries if it stepped back.
    #[inline(always)]
    fn note(&self, mine: Mine<'_>, now: u64) {
        let older = mine.note(now, &self.counters, self.life);
        if older != 0 {
            self.step_back(mine, older);
        }
    }

    /// Ages all entries after a clock stepped back. Nobody knows how long the clock had run before
    /// the step. So no entry is fresh any more, but the entries keep their slots if they can.
    #[cold]
    fn step_back(&self, mine: Mine<'_>, older: u64) {
        mine.count(Event::ClockBack);
        if older >= self.keep.saturating_add(self.life) {
            self.invalidate_all();
        } else {
            self.offset.fetch_add(older, Ordering::AcqRel);
        }
    }

    /// The first look at a key, which nearly always is enough. An absent key is a miss if `LAST`:
    /// the caller does not look any further.
    #[inline(always)]
    fn glance<const LAST: bool>(&self, words: &K::Words, hash: u64, now: u64) -> Glance<V::Words> {
        match self.counters.own() {
            Some(own) => self.glance_by::<LAST>(own, words, hash, now),
            None => self.glance_shared::<LAST>(words, hash, now),
        }
    }

    /// As [`glance`](Self::glance), by a thread that shares its counters, or has not used any yet.
    #[inline(always)]
    pub(super) fn glance_shared<const LAST: bool>(
        &self,
        words: &K::Words,
        hash: u64,
        now: u64,
    ) -> Glance<V::Words> {
        let mine = self.counters.mine();
        self.note(mine, now);
        self.look::<LAST>(mine, words, hash, now)
    }

    /// As [`glance`](Self::glance), by a thread that knows its counters.
    #[inline(always)]
    pub(super) fn glance_by<const LAST: bool>(
        &self,
        own: Own<'_>,
        words: &K::Words,
        hash: u64,
        now: u64,
    ) -> Glance<V::Words> {
        if !own.mine().runs_on(now) {
            return Glance::Unsure;
        }
        self.look::<LAST>(own.mine(), words, hash, now)
    }

    /// The first look of a thread that has noted the time.
    #[inline(always)]
    fn look<const LAST: bool>(
        &self,
        mine: Mine<'_>,
        words: &K::Words,
        hash: u64,
        now: u64,
    ) -> Glance<V::Words> {
        let absent = || {
            if LAST {
                mine.count(Event::Miss);
                self.tell_miss(words, hash);
            }
            Glance::Absent
        };
        let Some(place) = self.table.place(hash) else {
            return absent();
        };
        let seen = match place.find_if(words, |generation, stamp| {
            self.is_fresh(generation, stamp, now) && !stamp.negative()
        }) {
            Found::Entry(seen) => seen,
            Found::Absent => return absent(),
            Found::Busy => return Glance::Unsure,
        };
        place.mark(seen.way);
        probe::hit(hash, place.number);
        mine.count(Event::Hit);
        self.tell_hit(words, hash);
        Glance::Fresh(seen.value)
    }

    /// The fresh value of a key with what proves later that it is still there. It gets its mark,
    /// and nothing is counted.
    #[cfg(feature = "std")]
    pub(super) fn see(&self, words: &K::Words, hash: u64, now: u64) -> Option<Sight<'_, K, V>> {
        let place = self.table.place(hash)?;
        match place.find_if(words, |generation, stamp| {
            self.is_fresh(generation, stamp, now) && !stamp.negative()
        }) {
            Found::Entry(seen) => {
                place.mark(seen.way);
                Some((seen, place))
            }
            Found::Absent | Found::Busy => None,
        }
    }

    /// Tells tracers and hooks of a hit that was not looked for in its set.
    #[cfg(feature = "std")]
    #[inline(always)]
    pub(super) fn probe_hit(&self, words: &K::Words, hash: impl Fn() -> u64) {
        #[cfg(feature = "usdt")]
        if let Some(place) = self.table.place(hash()) {
            probe::hit(hash(), place.number);
        }
        if H::ON {
            self.tell_hit(words, hash());
        }
    }

    #[inline(always)]
    fn tell_hit(&self, words: &K::Words, hash: u64) {
        if H::ON {
            self.hooks.hit(&K::from_words(*words), hash);
        }
    }

    #[inline(always)]
    fn tell_miss(&self, words: &K::Words, hash: u64) {
        if H::ON {
            self.hooks.miss(&K::from_words(*words), hash);
        }
    }

    /// Tells of a value that the cache was given and does not have.
    #[inline(always)]
    fn tell_left(&self, words: K::Words, value: Option<V::Words>) {
        if let (true, Some(value)) = (H::ON, value) {
            self.hooks.left(&K::from_words(words), V::from_words(value));
        }
    }

    /// Whether an entry of this generation and stamp, if it has a value, is returned to a thread
    /// that has noted the time `now`.
    #[inline(always)]
    pub(super) fn is_fresh(&self, generation: u64, stamp: Stamp, now: u64) -> bool {
        let time = Time::new(now.wrapping_add(self.offset.load(Ordering::Relaxed)));
        generation == self.generation.load(Ordering::Acquire)
            && time.is_within(stamp, self.lives[0], Span::new(0))
    }

    /// The state of a key, not counted; this waits a while for a writer. Entries that are up to
    /// `ahead` later than this thread's time are good.
    fn find_patiently(&self, query: &Query<'_, K::Words>, ahead: Span) -> State<V::Words> {
        match self.table.place(query.hash) {
            Some(place) => self.state_of(query, place, place.find_patiently(&query.words), ahead),
            None => State::Absent,
        }
    }

    #[inline(always)]
    fn state_of(
        &self,
        query: &Query<'_, K::Words>,
        place: Place<'_, K::Words, V::Words>,
        found: Found<V::Words>,
        ahead: Span,
    ) -> State<V::Words> {
        let seen = match found {
            Found::Entry(seen) => seen,
            Found::Absent => return State::Absent,
            Found::Busy => return State::Busy,
        };
        if seen.generation != self.generation.load(Ordering::Acquire) {
            return State::Absent;
        }
        // A thread that read the clock later resolved an entry of the future, or the clock stepped
        // back since.
        let negative = seen.stamp.negative();
        let span = self.lives[usize::from(negative)];
        if !query.time.is_within(seen.stamp, span, ahead) {
            return State::Stale;
        }
        place.mark(seen.way);
        probe::hit(query.hash, place.number);
        if negative {
            State::Negative
        } else {
            State::Fresh(seen.value)
        }
    }

    #[inline(always)]
    fn count<W>(&self, query: &Query<'_, K::Words>, state: &State<W>) {
        match state {
            State::Fresh(_) => query.mine.count(Event::Hit),
            State::Absent | State::Busy => query.mine.count(Event::Miss),
            State::Negative => {
                query.mine.count(Event::Hit);
                query.mine.count(Event::Negative);
            }
            State::Stale => {
                query.mine.count(Event::Miss);
                query.mine.count(Event::Stale);
            }
        }
        match state {
            State::Fresh(_) | State::Negative => self.tell_hit(&query.words, query.hash),
            _ => self.tell_miss(&query.words, query.hash),
        }
    }

    fn expired(&self, stamp: Stamp, time: Time) -> bool {
        let limit = match stamp.negative() {
            true => self.negative.unwrap_or(0),
            false => self.keep,
        };
        // An entry of the far future is from before a step of the clock.
        time.distance(stamp) >= limit
    }

    /// Empties a set of an older generation than this one; returns how many entries it had.
    #[inline(always)]
    fn restart(
        &self,
        mine: Mine<'_>,
        writer: &mut Writer<'_, K::Words, V::Words>,
        generation: u64,
        gone: &mut Gone<K::Words, V::Words>,
    ) -> usize {
        if writer.generation() == generation {
            return 0;
        }
        if H::ON {
            for way in writer.entries() {
                gone.note::<K, V, H>(writer, way);
            }
        }
        let count = writer.restart(generation);
        mine.add(Event::Invalidated, count);
        count
    }

    /// Stores a value, or the fact that there is none.
    #[inline(always)]
    fn store(
        &self,
        query: &Query<'_, K::Words>,
        place: &Place<'_, K::Words, V::Words>,
        mut writer: Writer<'_, K::Words, V::Words>,
        value: Option<V::Words>,
        ticket: Option<Ticket>,
    ) {
        let mine = query.mine;
        let given = value;
        let stamp = query.time.stamp(value.is_none());
        let value = value.unwrap_or_else(|| Words::fill(|| 0));
        // Read once: if the generation changes afterwards, the set has the old one, and the entry
        // is not found.
        let generation = self.generation.load(Ordering::Acquire);
        if let Some(ticket) = &ticket {
            let moved =
                ticket.generation != generation || ticket.disturbances != writer.disturbances();
            if moved {
                mine.count(Event::Overtaken);
                drop(writer);
                return self.tell_left(query.words, given);
            }
        }
        let mut gone = Gone::none();
        self.restart(mine, &mut writer, generation, &mut gone);
        if let Some(way) = writer.way_of(place, &query.words) {
            // Another resolver began later and ended earlier.
            let ahead = writer.stamp(way).after(stamp);
            if ticket.is_some() && (1..self.fresh).contains(&ahead) {
                mine.count(Event::Overtaken);
                drop(writer);
                return self.tell_left(query.words, given);
            }
            gone.note::<K, V, H>(&writer, way);
            writer.rewrite(way, stamp, &value);
            drop(writer);
            place.mark(way);
            mine.count(Event::Refresh);
            probe::refresh(query.hash, place.number);
            if H::ON {
                (self.hooks).refresh(
                    &K::from_words(query.words),
                    given.map(V::from_words).as_ref(),
                );
                gone.tell_left(&self.hooks);
            }
            return;
        }
        let mut evicted = None;
        let way = match writer.vacant() {
            Some(way) => way,
            None => {
                let way = writer.victim();
                mine.count(Event::Evict);
                let full = !self.expired(writer.stamp(way), query.time);
                if full {
                    mine.count(Event::Full);
                    probe::full(query.hash, place.number);
                }
                probe::delete(0, place.number);
                if H::ON {
                    evicted = Some((writer.key(way), writer.value(way), full));
                }
                way
            }
        };
        writer.write(way, place, &query.words, stamp, &value);
        drop(writer);
        mine.count(Event::Insert);
        probe::insert(query.hash, place.number);
        if H::ON {
            gone.tell_removed(&self.hooks);
            if let Some((words, value, full)) = evicted {
                let key = K::from_words(words);
                self.hooks.evict(&key, full);
                self.tell_left(words, value);
            }
            (self.hooks).insert(
                &K::from_words(query.words),
                given.map(V::from_words).as_ref(),
            );
        }
    }
}

impl<K: Plain, V: Plain, H: CacheHooks<K, V>> Drop for RouteCache<K, V, H> {
    /// The values that are left leave now, if there are hooks.
    fn drop(&mut self) {
        if !H::ON {
            return;
        }
        for set in 0..self.table.sets() {
            let writer = self.table.lock(set);
            for way in writer.entries() {
                self.tell_left(writer.key(way), writer.value(way));
            }
        }
    }
}

impl<K: Plain, V: Plain, H: CacheHooks<K, V>> fmt::Debug for RouteCache<K, V, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouteCache")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
