//! An index without a trie. It has all keys of the map, so every key must have a slot.
//!
//! Where an index beside a trie spills a key, this one makes room. An insertion that finds no slot
//! takes the turn, begins a larger table or moves keys to it, and tries again. It ends when there
//! is room, or when there is no memory; then it has changed nothing. A bucket whose keys find no
//! slot in the next table is not moved. The mover takes back the keys that it put there. The home
//! is locked and not MOVED meanwhile, so no reader looks for them there. Such a next table has
//! become too small while it stood half filled for lack of memory. So a third table is made, whole
//! and large enough for the keys of both, and all keys are moved there at once
//! ([`move_both`](Index::move_both)). Those of the second table are moved first, because readers
//! reach the third table through it.
//!
//! # Walks
//!
//! A walk goes through all hashes in ascending order, by the keys of one home of the current table
//! at a time. If the home was moved, the walk goes to the next table, but only for the hashes of
//! the home that it came from. Keys behind them may lie in either table. A key keeps its hash
//! wherever it is moved. So no key comes twice, and no key that is there throughout is missed. A
//! step of a walk searches at most as many tables as a lookup, and then takes the turn, too.

use core::sync::atomic::Ordering;

use smallvec::SmallVec;

use super::bucket::{Bucket, SLOTS, Search, Words};
use super::table::{self, NOTHING, Put, Table, grown, homes_for, most_keys};
use super::{Chunks, HOPS, Index, Taken};
use crate::raw::leaf::{LeafOf, Value};
use crate::raw::mem::byte_of;
use crate::raw::view::prefetch;

/// A table of this number of homes that is a quarter full has a slot for each key, unless dozens of
/// hashes are nearly equal. Hashes are secret and random.
const HOPELESS: u32 = 64;

/// The leaves of one home, with their hashes.
pub(crate) type Together = SmallVec<[(u64, u32); 2 * SLOTS]>;

impl<V: ?Sized + Value, const SHARED: bool> Index<V, SHARED> {
    /// Makes this the index of a map that has no trie.
    pub(crate) fn without_trie(self) -> Self {
        Index {
            alone: true,
            ..self
        }
    }

    /// Adds a leaf whose key is not in the index; returns whether it did. Without memory it changes
    /// nothing. `len` counts the keys.
    ///
    /// # Safety
    /// As for `insert`.
    #[inline]
    pub(crate) unsafe fn insert_alone(
        &self,
        chunks: &mut impl Chunks,
        hash: u64,
        leaf: u32,
        len: impl Fn() -> usize,
    ) -> bool {
        debug_assert!(self.alone);
        super::bucket::point();
        let mut at = self.table.load(Ordering::Acquire);
        loop {
            if at == 0 || at == NOTHING {
                // SAFETY: the caller's promise.
                at = unsafe { self.first_table(chunks) };
                if at == 0 {
                    return false;
                }
            }
            // SAFETY: a table that the guard keeps.
            let table = unsafe { Table::at(chunks.base(), at) };
            // SAFETY: the caller's promise.
            match unsafe { table.put::<SHARED>(hash, leaf, true) } {
                Put::Done => return true,
                Put::Far => {
                    self.press();
                    return true;
                }
                Put::Moved => at = table.next().load(Ordering::Acquire),
                Put::Full => {
                    // SAFETY: the caller's promise.
                    if unsafe { self.make_room(chunks, at, len()) }.is_none() {
                        return false;
                    }
                    at = self.table.load(Ordering::Acquire);
                }
            }
        }
    }

    /// Makes room for a key that found no slot in the table `full`: moves keys on, or begins a
    /// larger table. `None` if there is no memory, or if no table helps.
    ///
    /// # Safety
    /// As for `insert`.
    #[cold]
    unsafe fn make_room(&self, chunks: &mut impl Chunks, full: u32, len: usize) -> Option<()> {
        let whole = self.table.load(Ordering::Acquire) == full;
        self.wait_for_turn();
        let mut taken = self.taken();
        // SAFETY: the caller's promise, and it is this thread's turn.
        let done = unsafe { self.room(chunks, full, whole, len, &mut taken) };
        self.set_taken(taken);
        self.end_turn();
        done
    }

    /// # Safety
    /// As for `make_room`; it is the caller's turn.
    unsafe fn room(
        &self,
        chunks: &mut impl Chunks,
        full: u32,
        whole: bool,
        len: usize,
        taken: &mut Taken,
    ) -> Option<()> {
        let at = self.table.load(Ordering::Acquire);
        if at == 0 {
            return Some(());
        }
        // SAFETY: the current table.
        let t = unsafe { Table::at(chunks.base(), at) };
        if t.next().load(Ordering::Acquire) == 0 {
            if at != full || !whole {
                // The key found no slot during a move that has ended by now.
                return Some(());
            }
            let homes = t.homes();
            if homes >= HOPELESS && len < most_keys(homes) / 4 {
                return None;
            }
            let wanted = grown(homes).max(homes_for(len).min(homes.saturating_mul(4)));
            let next = table::make(chunks, wanted, taken)?;
            // SAFETY: the arena may have moved; the table's place in it is the same.
            let t = unsafe { Table::at(chunks.base(), at) };
            t.next().store(next, Ordering::Release);
            self.work.cursor.store(0, Ordering::Relaxed);
        }
        // SAFETY: the caller's promise.
        unsafe { self.move_some(chunks, at, len, taken) }
    }

    /// Tries once more to move a bucket, after making all chunks in which its keys may lie. The
    /// outer `None` says that there is no memory, the inner one that the keys still have no slot.
    ///
    /// # Safety
    /// As for `move_bucket`.
    #[cold]
    pub(super) unsafe fn move_further(
        &self,
        chunks: &mut impl Chunks,
        at: u32,
        next: u32,
        home: u32,
        taken: &mut Taken,
    ) -> Option<Option<usize>> {
        // SAFETY: the caller's promise; the tables' places in the arena are the same.
        unsafe {
            let (t, n) = (Table::at(chunks.base(), at), Table::at(chunks.base(), next));
            let (least, greatest) = t.hashes(home);
            let end = n.window(n.home(greatest));
            for chunk in n.chunk_of(n.home(least))..=n.chunk_of(end - 1) {
                table::make_chunk(chunks, next, chunk, taken)?;
            }
            let base = chunks.base();
            Some(self.move_bucket(base, Table::at(base, at), Table::at(base, next), home))
        }
    }

    /// Moves all keys of the table and of its next one, which is too small, to a third table.
    ///
    /// # Safety
    /// It is the caller's turn; `at` is the current table, and has a next one.
    #[cold]
    pub(super) unsafe fn move_both(
        &self,
        chunks: &mut impl Chunks,
        at: u32,
        taken: &mut Taken,
    ) -> Option<()> {
        // SAFETY: all three tables stay until the end, at the same places in the arena.
        unsafe {
            let base = chunks.base();
            let t = Table::at(base, at);
            let next = t.next().load(Ordering::Acquire);
            let n = Table::at(base, next);
            let mut third = n.next().load(Ordering::Acquire);
            if third == 0 {
                let homes = grown(t.homes().saturating_add(n.homes()));
                third = table::make_whole(chunks, homes, taken)?;
                super::bucket::point();
                Table::at(chunks.base(), next)
                    .next()
                    .store(third, Ordering::Release);
            }
            let base = chunks.base();
            let [t, n, last] = [at, next, third].map(|table| Table::at(base, table));
            for home in 0..n.homes() {
                if n.bucket(home)
                    .is_some_and(|bucket| !bucket.load().is_moved())
                {
                    self.move_bucket(base, n, last, home)?;
                }
            }
            for home in self.work.cursor.load(Ordering::Relaxed)..t.homes() {
                self.move_bucket(base, t, n, home)?;
                self.work.cursor.store(home + 1, Ordering::Relaxed);
            }
            let left = [at, next].map(|table| table::taken_by(base, table).bytes);
            if !chunks.may_free(left[0] + left[1]) {
                return None;
            }
            super::bucket::point();
            self.set_table(base, third);
            table::free(chunks, at, taken);
            table::free(chunks, next, taken);
            self.work.pressed.store(0, Ordering::Relaxed);
            self.set_calm(last.homes());
            #[cfg(test)]
            self.moved_both.fetch_add(1, Ordering::Relaxed);
        }
        Some(())
    }

    /// Puts a leaf that is moved into the table after `next`, in which its home was moved on.
    ///
    /// # Safety
    /// As for `move_bucket`.
    #[cold]
    pub(super) unsafe fn put_further(&self, next: Table, hash: u64, leaf: u32) -> bool {
        debug_assert!(self.alone, "the next table has a next one");
        let after = next.next().load(Ordering::Acquire);
        // SAFETY: the caller's promise: a table whose home was moved has a next one.
        let put = unsafe { Table::at(next.base(), after).put::<SHARED>(hash, leaf, true) };
        matches!(put, Put::Done | Put::Far)
    }

    /// Takes the leaves in these slots, whose bucket cannot be moved, out of the next table again.
    ///
    /// # Safety
    /// As for `move_bucket`, of which it is a part; the bucket's leaves are alive.
    #[cold]
    pub(super) unsafe fn take_back(&self, base: *mut u8, next: Table, from: &Bucket, slots: u16) {
        let mut slots = slots;
        while slots != 0 {
            let leaf = from.leaf(slots.trailing_zeros() as usize);
            slots &= slots - 1;
            // SAFETY: the caller's promise.
            unsafe {
                let hash = self.hash_of(base, leaf);
                let mut table = next;
                while !table.change::<SHARED>(hash, leaf, None) {
                    table = Table::at(base, table.next().load(Ordering::Acquire));
                }
            }
        }
    }

    /// Takes all leaves of a home, of which some lie behind it, out of the next table again, and
    /// releases the home's lock.
    ///
    /// # Safety
    /// As for `take_back`.
    #[cold]
    pub(super) unsafe fn take_all_back(
        &self,
        base: *mut u8,
        t: Table,
        next: Table,
        home: u32,
        words: Words,
        behind: &[(u32, u16)],
    ) {
        // SAFETY: the caller's promise. While the home is locked, its leaves stay in their slots.
        unsafe {
            for (at, slots) in behind {
                if let Some(bucket) = t.bucket(*at) {
                    self.take_back(base, next, bucket, *slots);
                }
            }
            if let Some(first) = t.bucket(home) {
                self.take_back(base, next, first, words.used() as u16);
                first.unlock_high(words);
            }
        }
    }

    /// Collects the leaves whose hashes begin with `from` or a little more; returns the number to
    /// go on from, unless these were the last.
    ///
    /// # Safety
    /// As for `find`.
    pub(crate) unsafe fn leaves_from(
        &self,
        base: *mut u8,
        from: u32,
        out: &mut Together,
    ) -> Option<u32> {
        out.clear();
        super::bucket::point();
        let mut at = self.table.load(Ordering::Acquire);
        let (low, mut high) = (u64::from(from) << 32, u64::MAX);
        let mut hops = 0;
        while at != 0 && at != NOTHING {
            hops += 1;
            if hops == HOPS + 1 && self.attached {
                // Another process cannot take the turn, so it begins anew.
                // SAFETY: the caller's promise.
                unsafe { self.refresh(base) };
                (hops, at) = (0, self.table.load(Ordering::Acquire));
                continue;
            }
            if hops == HOPS + 1 {
                // Writers have moved many tables meanwhile; nothing is moved while this reader has
                // the turn.
                self.wait_for_turn();
                at = self.table.load(Ordering::Acquire);
                if at == 0 {
                    break;
                }
            }
            // SAFETY: the guard keeps the table.
            let table = unsafe { Table::at(base, at) };
            let home = table.home(low);
            high = high.min(table.hashes(home).1);
            // SAFETY: the caller's promise.
            if unsafe { self.read_home(base, table, home, (low, high), out) } {
                break;
            }
            out.clear();
            at = table.next().load(Ordering::Acquire);
        }
        if hops > HOPS {
            self.end_turn();
        }
        if at == 0 && high == u64::MAX {
            return None;
        }
        ((high >> 32) as u32).checked_add(1)
    }

    /// Collects the leaves of a home with hashes between these two; returns false if the home was
    /// moved.
    ///
    /// # Safety
    /// As for `leaves_from`.
    unsafe fn read_home(
        &self,
        base: *mut u8,
        t: Table,
        home: u32,
        (low, high): (u64, u64),
        out: &mut Together,
    ) -> bool {
        // SAFETY: homes are below `total`; the guard keeps chunks. The home was read without MOVED
        // first, so leaves in it and in the buckets within reach were in the index under the guard:
        // see the parent module.
        unsafe {
            let Some(first) = t.bucket(home) else {
                return false;
            };
            let words = first.load();
            if words.is_moved() {
                return false;
            }
            take_cells(base, first, words.used(), out);
            if words.out() > 0 {
                for at in home + 1..=home + words.reach() {
                    let Some(bucket) = t.bucket(at) else {
                        return false;
                    };
                    let theirs = bucket.load();
                    let mut used = theirs.used();
                    let mut likely = 0;
                    while used != 0 {
                        let slot = used.trailing_zeros();
                        used &= used - 1;
                        let behind = words.may_be_behind(theirs.tag(slot as usize));
                        likely |= u32::from(behind) << slot;
                    }
                    take_cells(base, bucket, likely, out);
                }
            }
            if SHARED && t.bucket(home).is_none_or(|first| first.load().is_moved()) {
                return false;
            }
            let mut kept = 0;
            for i in 0..out.len() {
                let leaf = out[i].1;
                let hash = self.hash_of(base, leaf);
                let is_new = |(other, there): &(u64, u32)| {
                    *other != hash || !is_same_key::<V>(base, *there, leaf)
                };
                // The walk may have met a key twice that was removed and inserted meanwhile.
                if t.home(hash) == home
                    && (low..=high).contains(&hash)
                    && out[..kept].iter().all(is_new)
                {
                    out[kept] = (hash, leaf);
                    kept += 1;
                }
            }
            out.truncate(kept);
        }
        true
    }

    /// Calls `each` with all leaves.
    ///
    /// # Safety
    /// Nobody changes the index; the arena lies at `base`.
    pub(crate) unsafe fn each_leaf(&self, base: *mut u8, mut each: impl FnMut(u32)) {
        let mut at = self.table.load(Ordering::Relaxed);
        while at != 0 && at != NOTHING {
            // SAFETY: the table is in the chain of tables in use.
            let t = unsafe { Table::at(base, at) };
            for b in 0..t.total() {
                // SAFETY: below `total`.
                let Some(bucket) = (unsafe { t.bucket(b) }) else {
                    continue;
                };
                let words = bucket.load();
                let mut used = if words.is_moved() { 0 } else { words.used() };
                while used != 0 {
                    each(bucket.leaf(used.trailing_zeros() as usize));
                    used &= used - 1;
                }
            }
            at = t.next().load(Ordering::Relaxed);
        }
    }
}

/// Collects the cells of these slots, and prefetches their leaves.
#[inline]
fn take_cells(base: *mut u8, bucket: &Bucket, slots: u32, out: &mut Together) {
    let mut slots = slots;
    while slots != 0 {
        let leaf = bucket.leaf(slots.trailing_zeros() as usize);
        slots &= slots - 1;
        prefetch(base.wrapping_add(byte_of(leaf)));
        out.push((0, leaf));
    }
}

/// # Safety
/// Both are live leaves of the arena at `base`.
unsafe fn is_same_key<V: ?Sized + Value>(base: *mut u8, a: u32, b: u32) -> bool {
    // SAFETY: the caller's promise.
    unsafe { LeafOf::<V>::key(base.add(byte_of(a))) == LeafOf::<V>::key(base.add(byte_of(b))) }
}
