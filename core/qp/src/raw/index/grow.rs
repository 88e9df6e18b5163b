//! Growth and shrinking: one table follows another, and keys are moved a few buckets at a time.

use core::sync::atomic::Ordering;

use smallvec::SmallVec;

use super::bucket::{OUT_MAX, Search, Words};
use super::table::{
    self, NOTHING, Put, Table, grown, homes_at_least, homes_for, most_keys, urgent_keys,
};
use super::{Chunks, Index, Taken};
use crate::raw::leaf::Value;
use crate::raw::mem::byte_of;
use crate::raw::view::prefetch;

/// A step ends when it has moved this number of keys, those of about four full buckets. The buckets
/// that are not moved yet fill by a further fiftieth during a move.
const KEYS: usize = 32;
/// `KEYS` for a step of a move that is late.
const KEYS_BEHIND: usize = 96;
/// The greatest number of buckets that a step reads.
const BUCKETS: usize = 12;
/// The next table has chunks for this number of buckets behind the homes that keys were moved to.
/// It is not full, so keys lie no farther behind.
const AHEAD: u32 = 16;
/// The greatest number of homes of a first table, which is made in one step: 32 KiB.
const FIRST_MAX: u32 = 512;

impl<V: ?Sized + Value, const SHARED: bool> Index<V, SHARED> {
    /// One step of growth, which is called after each change with the number of keys. It begins a
    /// larger or smaller table if it is time, and moves a few keys. The work is bounded. In a
    /// shared index one thread at a time does it, and others return at once.
    ///
    /// # Safety
    /// As for `insert`. Without `SHARED`, `len` is exact. With it, `len` may be somewhat out of
    /// date, but not while there are fewer than some hundred keys for each thread.
    #[inline]
    pub(crate) unsafe fn step(&self, chunks: &mut impl Chunks, len: usize) {
        if self.is_due(len) {
            // SAFETY: the caller's promise.
            unsafe { self.step_due(chunks, len) };
        }
    }

    /// # Safety
    /// As for `step`.
    #[cold]
    unsafe fn step_due(&self, chunks: &mut impl Chunks, len: usize) {
        if !self.take_turn() {
            // Usually another thread moves the keys. If it makes no progress (the system may have
            // descheduled it), the table would soon be full, so then all writers wait.
            if !self.is_urgent(len) {
                return;
            }
            self.wait_for_turn();
        }
        let mut taken = self.taken();
        // SAFETY: the caller's promise, and it is this thread's turn.
        let done = unsafe { self.work_on(chunks, len, &mut taken) };
        self.set_taken(taken);
        if done.is_none() {
            // Without memory, the next attempt is made when the number of keys has changed a
            // little.
            let later = 1 + len / 64;
            self.set_limits(len + later, len.saturating_sub(later).max(1));
        }
        self.end_turn();
    }

    #[inline]
    fn is_pressed(&self) -> bool {
        SHARED && self.work.pressed.load(Ordering::Relaxed) != 0
    }

    #[inline]
    fn is_urgent(&self, len: usize) -> bool {
        SHARED && (len > self.urgent.load(Ordering::Relaxed) || self.is_pressed())
    }

    pub(super) fn set_limits(&self, high: usize, low: usize) {
        self.high.store(high, Ordering::Relaxed);
        self.low.store(low, Ordering::Relaxed);
    }

    /// Sets the limits so that each step has work to do.
    fn set_busy(&self) {
        self.set_limits(0, usize::MAX);
    }

    pub(super) fn set_calm(&self, homes: u32) {
        self.urgent.store(urgent_keys(homes), Ordering::Relaxed);
        self.set_limits(most_keys(homes), Self::fewest(homes));
    }

    /// The number of keys below which a table is too large. The smallest table is too large only
    /// without keys.
    fn fewest(homes: u32) -> usize {
        if homes <= Self::SMALLEST {
            1
        } else {
            most_keys(homes) / 4
        }
    }

    /// The homes of the smallest table. A shared index keeps room for the keys that many threads
    /// may insert before one of them calls `step`.
    const SMALLEST: u32 = if SHARED { 4 } else { 1 };

    /// # Safety
    /// As for `step`; it is the caller's turn.
    unsafe fn work_on(
        &self,
        chunks: &mut impl Chunks,
        len: usize,
        taken: &mut Taken,
    ) -> Option<()> {
        let at = self.table.load(Ordering::Acquire);
        if at == 0 {
            if len == 0 {
                self.set_limits(0, 0);
                return Some(());
            }
            let homes = homes_for(len).clamp(Self::SMALLEST, FIRST_MAX);
            return self.make_first(chunks, homes, taken);
        }
        if !SHARED && len == 0 {
            // SAFETY: nobody else uses the index, and there are no keys.
            unsafe { self.give_back(chunks, taken) };
            return Some(());
        }
        // SAFETY: the current table.
        let t = unsafe { Table::at(chunks.base(), at) };
        let homes = t.homes();
        if t.next().load(Ordering::Acquire) == 0 {
            let pressed = self.is_pressed();
            if pressed {
                self.work.pressed.store(0, Ordering::Relaxed);
            }
            let most = most_keys(homes);
            // SAFETY: the table is whole.
            let about = || unsafe { estimate(t) };
            let wanted = if len > most || (pressed && about() > most / 7 * 6) {
                grown(homes).max(homes_for(len).min(homes.saturating_mul(4)))
            } else if len >= Self::fewest(homes) {
                self.set_calm(homes);
                return Some(());
            } else if SHARED && about() > most / 2 {
                // The number of keys that the caller gave is out of date.
                self.set_limits(most, (len / 2).max(1));
                return Some(());
            } else if homes <= Self::SMALLEST {
                // SAFETY: the caller's promise.
                unsafe { self.close(chunks, at, taken) };
                return Some(());
            } else {
                let about = if SHARED { about().max(len) } else { len };
                homes_for(about).clamp(Self::SMALLEST, homes - 1)
            };
            // Other writers insert meanwhile. From here on they wait when the smaller table would
            // be too full.
            let shrinks = SHARED && wanted < homes;
            if shrinks {
                self.urgent.store(urgent_keys(wanted), Ordering::Relaxed);
            }
            super::bucket::point();
            let Some(next) = table::make(chunks, wanted, taken) else {
                self.urgent.store(urgent_keys(homes), Ordering::Relaxed);
                return None;
            };
            // SAFETY: the arena may have moved; the table's place in it is the same.
            let t = unsafe { Table::at(chunks.base(), at) };
            // SAFETY: the table is whole.
            if shrinks && unsafe { estimate(t) } > most_keys(wanted) {
                // Many keys came before the writers knew. SAFETY: nobody knows the next table.
                unsafe { table::discard(chunks, next, taken) };
                self.set_calm(homes);
                self.set_limits(most, (len / 2).max(1));
                return Some(());
            }
            t.next().store(next, Ordering::Release);
            self.work.cursor.store(0, Ordering::Relaxed);
        }
        // SAFETY: the caller's promise.
        unsafe { self.move_some(chunks, at, len, taken) }
    }

    /// Makes the first table for a key; returns 0 without memory, and counts the key as homeless.
    ///
    /// # Safety
    /// As for `insert`.
    #[cold]
    pub(super) unsafe fn first_table(&self, chunks: &mut impl Chunks) -> u32 {
        self.wait_for_turn();
        if self.table.load(Ordering::Acquire) == 0 {
            let mut taken = self.taken();
            let made = self.make_first(chunks, Self::SMALLEST, &mut taken);
            if made.is_none() && !self.alone {
                let homeless = self.homeless.load(Ordering::Relaxed);
                self.homeless.store(homeless + 1, Ordering::Release);
            }
            self.set_taken(taken);
        }
        let at = self.table.load(Ordering::Acquire);
        self.end_turn();
        at
    }

    /// Makes room for `len` keys in an index without keys, so that their insertion moves none.
    ///
    /// # Safety
    /// Nobody else uses the index, and there are no keys.
    pub(crate) unsafe fn reserve(&self, chunks: &mut impl Chunks, len: usize) {
        if self.table.load(Ordering::Relaxed) == 0 && len > 0 {
            let mut taken = self.taken();
            let homes = homes_at_least(len).max(Self::SMALLEST);
            // Without memory, the index grows later.
            if self.make_first(chunks, homes, &mut taken).is_some() {
                self.set_limits(most_keys(homes), 1);
            }
            self.set_taken(taken);
        }
    }

    /// Makes the first table, with all its chunks.
    fn make_first(&self, chunks: &mut impl Chunks, homes: u32, taken: &mut Taken) -> Option<()> {
        let at = table::make_whole(chunks, homes, taken)?;
        // SAFETY: the table was made just now, and nobody else knows it.
        unsafe {
            if self.homeless.load(Ordering::Relaxed) > 0 {
                let t = Table::at(chunks.base(), at);
                for home in 0..homes {
                    self.stick(t, home);
                }
            }
        }
        self.set_calm(homes);
        super::bucket::point();
        self.set_table(chunks.base(), at);
        Some(())
    }

    /// Marks a bucket: from now on its spilled keys are not known.
    ///
    /// # Safety
    /// The bucket is there.
    unsafe fn stick(&self, t: Table, home: u32) {
        // SAFETY: the caller's promise.
        if let Some(bucket) = unsafe { t.bucket(home) } {
            let mut words = bucket.lock::<SHARED>();
            words.stick();
            bucket.unlock_high(words);
        }
    }

    /// Frees the smallest table, if it is empty.
    ///
    /// # Safety
    /// It is the caller's turn; the table has no next one.
    unsafe fn close(&self, chunks: &mut impl Chunks, at: u32, taken: &mut Taken) {
        // SAFETY: the current table is whole.
        unsafe {
            let t = Table::at(chunks.base(), at);
            if !chunks.may_free(table::taken_by(chunks.base(), at).bytes) {
                self.set_calm(t.homes());
                return;
            }
            let buckets: SmallVec<[_; 8]> = (0..t.total()).filter_map(|b| t.bucket(b)).collect();
            let mut words: SmallVec<[_; 8]> = buckets.iter().map(|b| b.lock::<SHARED>()).collect();
            let empty = words.iter().all(|words| words.is_empty());
            if empty {
                // A writer that comes too late for this table waits for the turn, and then finds no
                // table or a new one.
                t.next().store(NOTHING, Ordering::Release);
                words[..t.homes() as usize]
                    .iter_mut()
                    .for_each(Words::set_moved);
            }
            for (bucket, words) in buckets.iter().zip(words) {
                bucket.unlock_high(words);
            }
            if !empty {
                self.set_calm(t.homes());
                return;
            }
            super::bucket::point();
            self.set_table(chunks.base(), 0);
            self.set_limits(0, 0);
            table::free(chunks, at, taken);
        }
    }

    /// Frees all tables and forgets all keys, unless the memory may not be freed now. In a shared
    /// index, too, nobody else may use it meanwhile, except readers for which any answer is right.
    ///
    /// # Safety
    /// Nobody else changes the index.
    pub(crate) unsafe fn clear(&self, chunks: &mut impl Chunks) {
        self.wait_for_turn();
        let mut taken = self.taken();
        if chunks.may_free(taken.bytes) {
            // SAFETY: the caller's promise.
            unsafe { self.give_back(chunks, &mut taken) };
            debug_assert_eq!(taken, Taken::default());
            self.set_taken(taken);
        }
        self.end_turn();
    }

    /// # Safety
    /// As for `clear`; it is the caller's turn.
    unsafe fn give_back(&self, chunks: &mut impl Chunks, taken: &mut Taken) {
        let mut at = self.table.load(Ordering::Acquire);
        self.set_table(chunks.base(), 0);
        self.homeless.store(0, Ordering::Release);
        self.set_limits(0, 0);
        while at != 0 {
            // SAFETY: these are the tables in use, and lookups that begin now find none of them.
            unsafe {
                let next = Table::at(chunks.base(), at).next().load(Ordering::Acquire);
                table::free(chunks, at, taken);
                at = next;
            }
        }
    }

    /// Moves a few buckets from the table to its next one; `None` without memory, or without room
    /// for the garbage that this makes.
    ///
    /// # Safety
    /// It is the caller's turn; `at` is the current table, and has a next one.
    pub(super) unsafe fn move_some(
        &self,
        chunks: &mut impl Chunks,
        at: u32,
        len: usize,
        taken: &mut Taken,
    ) -> Option<()> {
        self.set_busy();
        let mut cursor = self.work.cursor.load(Ordering::Relaxed);
        let (mut keys, mut buckets) = (0, 0);
        // SAFETY: both tables stay until the end of the move. Chunks may move with the arena, so
        // pointers are made anew after each request for memory.
        unsafe {
            let t = Table::at(chunks.base(), at);
            let (homes, next) = (t.homes(), t.next().load(Ordering::Acquire));
            if self.alone
                && Table::at(chunks.base(), next)
                    .next()
                    .load(Ordering::Acquire)
                    != 0
            {
                return self.move_both(chunks, at, taken);
            }
            let quota = if self.is_urgent(len) {
                KEYS_BEHIND
            } else {
                KEYS
            };
            while cursor < homes && keys < quota && buckets < BUCKETS {
                let (t, n) = (Table::at(chunks.base(), at), Table::at(chunks.base(), next));
                let over = t.chunk_of(cursor);
                let ends = t.chunk_of(cursor + 1) != over;
                if ends && !chunks.may_free(t.bytes_of(over)) {
                    return None;
                }
                let (least, greatest) = t.hashes(cursor);
                let last = (n.home(greatest) + AHEAD).min(n.total() - 1);
                for chunk in n.chunk_of(n.home(least))..=n.chunk_of(last) {
                    table::make_chunk(chunks, next, chunk, taken)?;
                }
                let base = chunks.base();
                let (t, n) = (Table::at(base, at), Table::at(base, next));
                if cursor + 1 < homes {
                    self.prefetch_leaves(base, t, cursor + 1);
                }
                match self.move_bucket(base, t, n, cursor) {
                    Some(moved) => keys += moved,
                    None => match self.move_further(chunks, at, next, cursor, taken)? {
                        Some(moved) => keys += moved,
                        None => return self.move_both(chunks, at, taken),
                    },
                }
                buckets += 1;
                cursor += 1;
                self.work.cursor.store(cursor, Ordering::Relaxed);
                if ends {
                    table::free_chunk(chunks, at, over, taken);
                }
            }
            if cursor == homes {
                if !chunks.may_free(table::taken_by(chunks.base(), at).bytes) {
                    return None;
                }
                super::bucket::point();
                self.set_table(chunks.base(), next);
                table::free(chunks, at, taken);
                let homes = Table::at(chunks.base(), next).homes();
                self.work.pressed.store(0, Ordering::Relaxed);
                self.set_calm(homes);
            }
        }
        Some(())
    }

    /// Prefetches the leaves of a bucket that is about to be moved.
    ///
    /// # Safety
    /// The bucket is below `total`.
    unsafe fn prefetch_leaves(&self, base: *mut u8, t: Table, bucket: u32) {
        // SAFETY: the caller's promise; prefetches follow no pointer.
        unsafe {
            let Some(line) = t.bucket(bucket) else { return };
            let mut used = line.load().used();
            while used != 0 {
                let leaf = line.leaf(used.trailing_zeros() as usize);
                prefetch(base.wrapping_add(byte_of(leaf)));
                used &= used - 1;
            }
            if bucket + 1 < t.homes() {
                prefetch(t.line(bucket + 1).cast());
            }
        }
    }

    /// Moves the keys of a home; returns their number. `None` if one of them found no slot in an
    /// index that stands alone; then nothing was moved.
    ///
    /// # Safety
    /// It is the caller's turn. All buckets before this one were moved. The next table has the
    /// buckets in which these keys may lie.
    pub(super) unsafe fn move_bucket(
        &self,
        base: *mut u8,
        t: Table,
        next: Table,
        home: u32,
    ) -> Option<usize> {
        // SAFETY: leaves in locked buckets are alive; nobody else changes the keys of a locked
        // home.
        unsafe {
            let Some(first) = t.bucket(home) else {
                return Some(0);
            };
            let mut words = first.lock::<SHARED>();
            let mut used = words.used();
            let keys = used.count_ones() as usize;
            // All keys in the bucket are at home in it: keys of earlier homes were moved and
            // cleared.
            while used != 0 {
                let leaf = first.leaf(used.trailing_zeros() as usize);
                let hash = self.hash_of(base, leaf);
                debug_assert_eq!(t.home(hash), home);
                if !self.put_moved(next, hash, leaf) {
                    // The slots of the keys before it, which have found one.
                    let slots = words.used() ^ used;
                    self.take_back(base, next, first, slots as u16);
                    first.unlock_high(words);
                    return None;
                }
                used &= used - 1;
            }
            if words.spilled() != 0 {
                let (least, greatest) = t.hashes(home);
                for to in next.home(least)..=next.home(greatest) {
                    self.stick(next, to);
                }
            }
            let out = words.out() as usize;
            if out == 0 {
                words.set_moved();
                first.unlock_high(words);
            } else if !self.move_behind(base, t, next, home, words) {
                return None;
            }
            Some(keys + out)
        }
    }

    /// Puts a leaf that is moved into the next table; returns false if that has no slot for it.
    ///
    /// # Safety
    /// As for `move_bucket`, of which it is a part.
    #[inline(always)]
    unsafe fn put_moved(&self, next: Table, hash: u64, leaf: u32) -> bool {
        // SAFETY: the caller's promise.
        match unsafe { next.put::<SHARED>(hash, leaf, self.alone) } {
            Put::Done | Put::Far => true,
            Put::Full => false,
            // SAFETY: as above.
            Put::Moved => unsafe { self.put_further(next, hash, leaf) },
        }
    }

    /// Moves the keys of a home that lie behind it, and releases the home's lock. Returns false if
    /// one of them found no slot; then nothing was moved.
    ///
    /// # Safety
    /// As for `move_bucket`, of which it is a part: the home is locked, and `words` are its words.
    #[inline(never)]
    unsafe fn move_behind(
        &self,
        base: *mut u8,
        t: Table,
        next: Table,
        home: u32,
        mut words: Words,
    ) -> bool {
        // Pairs of a bucket behind the home and its slots with keys of the home.
        let mut found = [(0u32, 0u16); OUT_MAX as usize];
        let mut count = 0;
        let (mut left, reach) = (words.out(), words.reach());
        // SAFETY: as in `move_bucket`.
        unsafe {
            for far in 1..=reach {
                if left == 0 {
                    break;
                }
                let Some(bucket) = t.bucket(home + far) else {
                    break;
                };
                let theirs = bucket.lock::<SHARED>();
                let (mut used, mut slots, mut fits) = (theirs.used(), 0, true);
                while used != 0 && left > 0 && fits {
                    // From the last slot on, because keys that are not at home lie there.
                    let slot = 31 - used.leading_zeros();
                    used ^= 1 << slot;
                    let leaf = bucket.leaf(slot as usize);
                    let hash = self.hash_of(base, leaf);
                    if t.home(hash) == home {
                        fits = self.put_moved(next, hash, leaf);
                        if fits {
                            slots |= 1 << slot;
                            left -= 1;
                        }
                    }
                }
                bucket.unlock_high(theirs);
                if slots != 0 {
                    found[count] = (home + far, slots);
                    count += 1;
                }
                if !fits {
                    self.take_all_back(base, t, next, home, words, &found[..count]);
                    return false;
                }
            }
            debug_assert_eq!(left, 0, "a key behind its home was not found");
            // This comes before any slot is cleared: a reader that misses a key reads the home
            // again.
            words.set_moved();
            if let Some(first) = t.bucket(home) {
                first.unlock_high(words);
            }
            for (at, mut slots) in found.into_iter().take(count) {
                let Some(bucket) = t.bucket(at) else {
                    continue;
                };
                let mut theirs = bucket.lock::<SHARED>();
                while slots != 0 {
                    theirs.set_tag(slots.trailing_zeros() as usize, 0);
                    slots &= slots - 1;
                }
                bucket.unlock(theirs);
            }
        }
        true
    }
}

/// An estimate of the number of keys in a table, from a few of its buckets.
///
/// # Safety
/// The table is alive, and no home was moved.
unsafe fn estimate(t: Table) -> usize {
    let homes = t.homes();
    let apart = homes.div_ceil(32) as usize;
    let (mut used, mut seen) = (0, 0);
    for home in (0..homes).step_by(apart) {
        // SAFETY: below `total`.
        if let Some(bucket) = unsafe { t.bucket(home) } {
            used += bucket.load().used().count_ones() as usize;
            seen += 1;
        }
    }
    used * homes as usize / seen.max(1)
}
