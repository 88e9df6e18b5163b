//! The point index: a hash index over the leaves of a trie, which every change updates.
//!
//! A lookup of one key touches two cache lines: a bucket ([`bucket`]) and the leaf. The trie always
//! has all keys. Where the index does not know a key, it says so ([`Found::AskTrie`]), so answers
//! stay right when the index lacks memory.
//!
//! # Layout
//!
//! Buckets of twelve leaves lie in a table ([`table`]) in the order of the hashes. A key's *home*
//! is `high half of the hash * homes >> 32`. Its tag comes from the low byte. A key whose home is
//! full lies in the next bucket with room. Its home counts such keys (`out`), and has some bits of
//! their tags (`filter`) and the greatest distance at which one lies (`reach`). The distance may be
//! 255, because a table that is nearly full has long runs of full buckets. A key that finds no room
//! there either is *spilled*: its home only counts it (`spilled`), and lookups that do not find it
//! ask the trie.
//!
//! # Growth
//!
//! A table that is 75 % full is followed by one with two sevenths more homes. A table that is a
//! quarter as full as that is followed by a smaller one. Each change of the map then moves a few
//! buckets, from the first to the last ([`grow`]). Buckets keep their order, so the new table fills
//! from the front while the old one is freed from the front: together they take little more memory
//! than one. The spilled keys of a bucket are unknown when it is moved. From then on, the new
//! buckets that may be their homes answer every miss with `AskTrie`. Keys are spilled only for lack
//! of memory, or when dozens of hashes are equal. The state ends when the map is empty, or after
//! [`Index::clear`] and the insertion of all leaves.
//!
//! Writers of a shared map know the number of keys only roughly. So when a key must lie far from
//! its home, the next step estimates how full the table is. A step also estimates it before it
//! shrinks the table.
//!
//! # Why readers need no lock
//!
//! Readers hold a guard: chunks, tables and leaves that they can reach are not freed meanwhile.
//! Writers of one key come one after the other. A reader reads the bucket of the home. If its
//! filter has the key's tag, the reader then reads the buckets within reach, and the home again. A
//! key that is in the index throughout is found, or the answer is `AskTrie`:
//!
//! - *Nobody moves it.* It stays in its slot; the leaf of a replaced value is stored over the old
//!   one. From before the lookup until after it, the key lies at home, or its home counts it in
//!   `out`, `reach` and `filter`, or in `spilled`.
//! - *It is moved to the next table*, which has it before MOVED is set at its home. A reader that
//!   sees MOVED at first goes to the next table. A reader that does not see it finds the key in the
//!   old table, because slots in the home itself stay as they were when MOVED was set. Slots behind
//!   the home are cleared, because keys of other homes still lie in those buckets, but only after
//!   MOVED was set. So a reader that sees such a slot cleared (Acquire) sees MOVED when it reads
//!   the home again.
//! - *Its chunk is gone from the directory*: then all keys with homes there were moved, and the
//!   reader goes to the next table.
//! - *A slot is used again between the load of its tag and the load of its cell.* A cell is stored
//!   before its tag and never cleared, so the cell is that of the tag that was seen, or a newer
//!   one. The comparison of keys decides.
//!
//! A leaf that a reader follows is alive. The reader saw the slot in use, or the home without
//! MOVED, after its guard began. So the leaf was in the index after that, and if it is retired
//! later, it waits for the guard. Slots of a moved home may name leaves that were freed, but no
//! lookup uses them. A lookup for this home sees MOVED. No keys of later homes lie there. Earlier
//! homes are MOVED too, because buckets are moved in order. For the same reason a leaf that is
//! found in the old table is a right answer: it was the key's leaf at the moment when the home was
//! read without MOVED.
//!
//! A key that is absent throughout is never found, because keys are compared whole.
//!
//! A lookup ends, because it searches [`HOPS`] tables at most. A reader whose key was moved on from
//! each of them asks the trie. Without a trie the reader takes the turn for the time of a lookup,
//! and nothing is moved meanwhile.
//!
//! # Without a trie
//!
//! An index may stand [`alone`]. Then it has all keys, and no key is spilled.
//!
//! # Locks
//!
//! Writers of a shared index lock the home, and then at most one bucket behind it. A mover locks
//! one or two old buckets, and then new ones. Locks are always taken towards later buckets, or from
//! an old table to a new one, so no cycle of waits is possible. Nobody removes or replaces a leaf
//! in a bucket without the bucket's lock. A mover holds it while it reads keys, so they are alive.
//! An owned index (`SHARED` false) has no locks and no read-modify-write instruction.
//!
//! Writers hold a guard too, because a bucket that they wait for may be moved and its chunk freed.

#[cfg_attr(not(feature = "std"), allow(dead_code))]
mod alone;
mod bucket;
mod grow;
mod hash;
mod many;
mod table;
#[cfg(test)]
mod tests;
mod verify;

use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use sapwood_arena::Ref;

use self::bucket::{Search, Words, tag_of, wait};
use self::hash::Secrets;
use self::table::{NOTHING, Put, Table};
use super::leaf::{LeafOf, Value};
use super::mem::byte_of;
#[cfg(feature = "std")]
use sapwood_format::hash::SECRETS;

pub(crate) use self::table::Taken;
#[cfg(feature = "std")]
pub(crate) use self::{alone::Together, table::CHUNK_BYTES};

/// The memory of an index. An owned map frees blocks at once, a shared map retires them.
pub(crate) trait Chunks {
    /// The address of the arena. An owned arena may move in `alloc`.
    fn base(&self) -> *mut u8;

    /// Allocates a block; `None` without memory, and then the index grows later.
    fn alloc(&mut self, bytes: usize) -> Option<Ref>;

    /// Whether the operation under way may free blocks of `bytes` bytes, as garbage may be limited.
    /// If not, the blocks stay in use for now.
    fn may_free(&mut self, bytes: usize) -> bool {
        let _ = bytes;
        true
    }

    /// Frees a block; in a shared map after a grace period.
    ///
    /// # Safety
    /// The block came from `alloc` with the same number of bytes, and no reader that begins now
    /// reaches it.
    unsafe fn free(&mut self, block: Ref, bytes: usize);

    /// Frees a block that nobody else has seen.
    ///
    /// # Safety
    /// The block came from `alloc` with the same number of bytes, and was not published.
    unsafe fn discard(&mut self, block: Ref, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.free(block, bytes) };
    }
}

/// The answer of the index for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The cell of the key's leaf.
    Leaf(u32),
    /// The key is not in the map.
    Absent,
    /// The index does not know; the trie does.
    AskTrie,
}

/// The number of tables that a lookup searches before it asks the trie or waits for its turn.
/// Between two tables, writers have changed a good part of all keys.
const HOPS: usize = if cfg!(shuttle) { 1 } else { 8 };

/// The answer of one table for a key.
enum Look {
    Found(Found),
    /// The key is at home in the next table.
    Moved,
}

/// A hash index over leaves with values `V`.
///
/// All its words are atomics. Without `SHARED` it uses only loads and stores, and a writer must be
/// alone.
#[repr(C)]
pub struct Index<V: ?Sized + Value, const SHARED: bool> {
    /// The table where lookups begin; 0 if there is none.
    table: AtomicU32,
    /// Number of keys that were inserted when there was no table and no memory for one.
    homeless: AtomicU32,
    secrets: Secrets,
    /// With more keys than this, or fewer than `low`, a step has work to do.
    high: AtomicUsize,
    low: AtomicUsize,
    /// With more keys than this, every writer waits for the turn to move keys.
    urgent: AtomicUsize,
    /// The place in the arena where `table` is published for others, in bytes from the base; 0 if
    /// it is not.
    published: usize,
    /// Whether there is no trie, so that a key without a slot is not in the map. See [`alone`].
    alone: bool,
    /// Whether the map is another process's, which publishes its table: see
    /// [`attached`](Index::attached).
    attached: bool,
    #[cfg(test)]
    mask: u64,
    /// The number of times that the next table was too small.
    #[cfg(test)]
    moved_both: AtomicUsize,
    work: Work,
    values: PhantomData<fn() -> V>,
}

/// The state for the thread whose turn it is to change tables. It is not in the cache line that
/// lookups need.
#[derive(Default)]
#[repr(align(64))]
struct Work {
    /// 1 while a thread has the turn.
    turn: AtomicU32,
    /// The next bucket to be moved.
    cursor: AtomicU32,
    /// 1 if a key was inserted too far from its home.
    pressed: AtomicU32,
    blocks: AtomicUsize,
    bytes: AtomicUsize,
}

impl<V: ?Sized + Value, const SHARED: bool> Index<V, SHARED> {
    /// An index without keys, which takes no memory. Whoever does not know the seed cannot choose
    /// keys that collide.
    pub(crate) fn new(seed: u64) -> Self {
        Index {
            table: AtomicU32::new(0),
            homeless: AtomicU32::new(0),
            high: AtomicUsize::new(0),
            low: AtomicUsize::new(0),
            urgent: AtomicUsize::new(0),
            secrets: Secrets::new(seed),
            published: 0,
            alone: false,
            attached: false,
            #[cfg(test)]
            mask: u64::MAX,
            #[cfg(test)]
            moved_both: AtomicUsize::new(0),
            work: Work::default(),
            values: PhantomData,
        }
    }

    /// An index that others search. Its hash is the portable one. The reference of the table where
    /// lookups begin is also published in the arena, in the aligned word at `at` bytes from the
    /// base.
    #[cfg(feature = "std")]
    pub(crate) fn published(seed: u64, at: usize) -> Self {
        debug_assert!(at != 0 && at % 8 == 0);
        Index {
            secrets: Secrets::portable(seed),
            published: at,
            ..Index::new(seed)
        }
    }

    /// The index of a map that another process changes and publishes, for lookups only. `words` are
    /// the secrets of the hash. The table is published in the aligned word at `at` bytes from the
    /// base; [`refresh`](Self::refresh) reads it.
    #[cfg(feature = "std")]
    pub(crate) fn attached(words: &[u64; SECRETS], at: usize, alone: bool) -> Self {
        Index {
            secrets: Secrets::of_portable(words),
            published: at,
            alone,
            attached: true,
            // Whether there are keys without a table is not published, so the trie must be asked.
            homeless: AtomicU32::new(1),
            ..Index::new(0)
        }
    }

    /// Takes the published table as the one where lookups begin.
    ///
    /// # Safety
    /// The index is attached, and the arena with its header page lies at `base`.
    #[inline(always)]
    pub(crate) unsafe fn refresh(&self, base: *mut u8) {
        debug_assert!(self.attached);
        // SAFETY: a word of the header page, which is accessed only as an atomic.
        let word = unsafe { AtomicU64::from_ptr(base.add(self.published).cast()) };
        // Stores to a line that stays in this processor's cache.
        self.table
            .store(word.load(Ordering::Acquire) as u32, Ordering::Release);
    }

    /// The secrets of the portable hash, if the index uses it.
    #[cfg(feature = "std")]
    pub(crate) fn portable_words(&self) -> Option<&[u64; SECRETS]> {
        self.secrets.words_of_portable()
    }

    /// Sets the table where lookups begin.
    fn set_table(&self, base: *mut u8, table: u32) {
        self.table.store(table, Ordering::Release);
        if self.published != 0 {
            // SAFETY: a word of the arena's header, which is accessed only as an atomic.
            let word = unsafe { AtomicU64::from_ptr(base.add(self.published).cast()) };
            word.store(u64::from(table), Ordering::Release);
        }
    }

    /// The hash of a key.
    #[inline(always)]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        let hash = self.secrets.hash(key);
        #[cfg(test)]
        let hash = hash & self.mask;
        hash
    }

    /// The hash of a leaf's key.
    ///
    /// # Safety
    /// `leaf` is a live leaf of the arena at `base`.
    #[inline(always)]
    unsafe fn hash_of(&self, base: *mut u8, leaf: u32) -> u64 {
        // SAFETY: the caller's promise.
        self.hash(unsafe { LeafOf::<V>::key(base.add(byte_of(leaf))) })
    }

    /// Looks a key up. Any number of threads may do so beside writers.
    ///
    /// # Safety
    /// The arena lies at `base`, and `hash` is the key's. In a shared index the caller holds a
    /// guard from before the call for as long as it uses the leaf.
    #[inline]
    pub(crate) unsafe fn find(&self, base: *mut u8, hash: u64, key: &[u8]) -> Found {
        bucket::point();
        let at = self.table.load(Ordering::Acquire);
        if at == 0 {
            return self.without_table();
        }
        // SAFETY: the guard keeps the table. Homes are below `total`. A cell behind a tag is a
        // leaf, alive as long as the guard is.
        unsafe {
            let table = Table::at(base, at).settle(hash);
            if let Some(bucket) = table.bucket(table.home(hash)) {
                let (words, tag) = (bucket.load(), tag_of(hash));
                let hits = words.matches(tag);
                if hits == 0 {
                    if words.rules_out(tag) {
                        return Found::Absent;
                    }
                } else if !words.is_moved() {
                    let leaf = bucket.first(hits);
                    if LeafOf::<V>::is_key(base.add(byte_of(leaf)), key) {
                        return Found::Leaf(leaf);
                    }
                }
            }
            self.find_closer(base, hash, key)
        }
    }

    /// `find` for the one key in ten that the first bucket does not settle; it begins anew. It is
    /// not inlined, so that `find` is short and the processor works on more lookups at once.
    ///
    /// # Safety
    /// As for `find`.
    #[inline(never)]
    unsafe fn find_closer(&self, base: *mut u8, hash: u64, key: &[u8]) -> Found {
        let at = self.table.load(Ordering::Acquire);
        if at == 0 {
            return self.without_table();
        }
        // SAFETY: the guard keeps the table; the caller's promise.
        unsafe {
            let table = Table::at(base, at).settle(hash);
            let found = self.follow(table, hash, key, HOPS);
            found.unwrap_or_else(|| self.find_late(base, hash, key))
        }
    }

    /// Searches up to `hops` tables, from this one on; `None` if the key was moved on from all of
    /// them.
    ///
    /// # Safety
    /// As for `find`, with a table that is alive.
    #[inline]
    unsafe fn follow(&self, table: Table, hash: u64, key: &[u8], hops: usize) -> Option<Found> {
        let mut table = table;
        for _ in 0..hops {
            // SAFETY: the caller's promise.
            if let Look::Found(found) = unsafe { self.look(table, hash, key) } {
                return Some(found);
            }
            let next = table.next().load(Ordering::Acquire);
            if next == NOTHING || next == 0 {
                // The map was empty when this table was closed.
                return Some(Found::Absent);
            }
            // SAFETY: the next table is published before a key moves there; the guard keeps it.
            table = unsafe { Table::at(table.base(), next) };
        }
        None
    }

    /// `find` for a reader during whose search writers have moved [`HOPS`] whole tables. It asks
    /// the trie. Without a trie it takes the turn, during which nothing is moved.
    ///
    /// # Safety
    /// As for `find`.
    #[cold]
    #[inline(never)]
    unsafe fn find_late(&self, base: *mut u8, hash: u64, key: &[u8]) -> Found {
        if !self.alone {
            return Found::AskTrie;
        }
        if self.attached {
            // SAFETY: the caller's promise.
            return unsafe { self.find_attached(base, hash, key) };
        }
        self.wait_for_turn();
        let at = self.table.load(Ordering::Acquire);
        let mut found = None;
        if at != 0 {
            // SAFETY: the caller's promise. The chain of tables ends, because nobody makes another
            // one meanwhile.
            found = unsafe { self.follow(Table::at(base, at), hash, key, usize::MAX) };
        }
        self.end_turn();
        found.unwrap_or(Found::Absent)
    }

    /// `find_late` in another process, which cannot take the turn. It begins anew until writers
    /// move fewer than [`HOPS`] tables meanwhile.
    ///
    /// # Safety
    /// As for `find`.
    unsafe fn find_attached(&self, base: *mut u8, hash: u64, key: &[u8]) -> Found {
        loop {
            // SAFETY: the caller's promise.
            unsafe {
                self.refresh(base);
                let at = self.table.load(Ordering::Acquire);
                if at == 0 {
                    return Found::Absent;
                }
                if let Some(found) = self.follow(Table::at(base, at), hash, key, HOPS) {
                    return found;
                }
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn without_table(&self) -> Found {
        match self.homeless.load(Ordering::Acquire) {
            0 => Found::Absent,
            // Without a trie, a map without a table is empty.
            _ if self.alone => Found::Absent,
            _ => Found::AskTrie,
        }
    }

    /// # Safety
    /// As for `find`, with a table that is alive.
    #[inline(always)]
    unsafe fn look(&self, table: Table, hash: u64, key: &[u8]) -> Look {
        let home = table.home(hash);
        // SAFETY: homes are below `total`; the caller's guard.
        let Some(bucket) = (unsafe { table.bucket(home) }) else {
            return Look::Moved;
        };
        let words = bucket.load();
        if words.is_moved() {
            return Look::Moved;
        }
        let tag = tag_of(hash);
        let mut hits = words.matches(tag);
        while hits != 0 {
            let leaf = bucket.first(hits);
            // SAFETY: a cell behind a tag is a leaf, alive as long as the guard is.
            if unsafe { LeafOf::<V>::is_key(table.base().add(byte_of(leaf)), key) } {
                return Look::Found(Found::Leaf(leaf));
            }
            hits &= hits - 1;
        }
        if words.may_be_behind(tag) {
            // SAFETY: the caller's promise.
            return unsafe { self.look_behind(table, hash, key, words) };
        }
        Look::Found(match words.has_all() {
            true => Found::Absent,
            false => Found::AskTrie,
        })
    }

    /// Searches the buckets behind the home.
    ///
    /// # Safety
    /// As for `look`, which has read the home.
    #[inline(never)]
    unsafe fn look_behind(&self, table: Table, hash: u64, key: &[u8], words: Words) -> Look {
        let home = table.home(hash);
        for at in home + 1..=home + words.reach() {
            // SAFETY: below `total`; the caller's guard.
            let Some(bucket) = (unsafe { table.bucket(at) }) else {
                return Look::Moved;
            };
            let mut hits = bucket.load().matches(tag_of(hash));
            while hits != 0 {
                // Keys that are not at home lie in the last slots.
                let slot = 31 - hits.leading_zeros();
                let leaf = bucket.leaf(slot as usize);
                // SAFETY: as in `look`.
                if unsafe { LeafOf::<V>::is_key(table.base().add(byte_of(leaf)), key) } {
                    return Look::Found(Found::Leaf(leaf));
                }
                hits ^= 1 << slot;
            }
        }
        if SHARED {
            // The slot of a key that was moved meanwhile is cleared behind its home, but not before
            // MOVED was set. SAFETY: as above.
            let moved = unsafe { table.bucket(home) }.is_none_or(|home| home.load().is_moved());
            if moved {
                return Look::Moved;
            }
        }
        Look::Found(match words.has_all() {
            true => Found::Absent,
            false => Found::AskTrie,
        })
    }

    /// Adds a leaf whose key is not in the index.
    ///
    /// # Safety
    /// `hash` is that of the leaf's key. The leaf is alive until it was removed or replaced.
    /// Without `SHARED` nobody else uses the index. With it, the caller holds a guard, and no other
    /// writer changes this key. The caller holds nothing that `chunks` waits for.
    #[inline]
    pub(crate) unsafe fn insert(&self, chunks: &mut impl Chunks, hash: u64, leaf: u32) {
        bucket::point();
        let mut at = self.table.load(Ordering::Acquire);
        loop {
            if at == 0 || at == NOTHING {
                // SAFETY: the caller's promise.
                at = unsafe { self.first_table(chunks) };
                if at == 0 {
                    return;
                }
            }
            // SAFETY: a table that the guard keeps.
            let table = unsafe { Table::at(chunks.base(), at) };
            // SAFETY: the caller's promise.
            match unsafe { table.put::<SHARED>(hash, leaf, false) } {
                Put::Done | Put::Full => return,
                Put::Far => return self.press(),
                Put::Moved => {}
            }
            at = table.next().load(Ordering::Acquire);
        }
    }

    /// Notes that the table is too full. In a shared index, the numbers of keys that `step` gets
    /// must be out of date. In an owned index they are exact, so hashes must be equal, against
    /// which no table helps.
    #[cold]
    fn press(&self) {
        if SHARED {
            self.work.pressed.store(1, Ordering::Relaxed);
            self.high.store(0, Ordering::Relaxed);
        }
    }

    /// Replaces the leaf `old` by `new`, which has the same key.
    ///
    /// # Safety
    /// As for `insert`; `old` is in the index.
    #[inline]
    pub(crate) unsafe fn replace(&self, base: *mut u8, hash: u64, old: u32, new: u32) {
        // SAFETY: the caller's promise.
        unsafe { self.change(base, hash, old, Some(new)) };
    }

    /// Removes a leaf.
    ///
    /// # Safety
    /// As for `insert`; `leaf` is in the index.
    #[inline]
    pub(crate) unsafe fn remove(&self, base: *mut u8, hash: u64, leaf: u32) {
        // SAFETY: the caller's promise.
        unsafe { self.change(base, hash, leaf, None) };
    }

    /// # Safety
    /// As for `replace` and `remove`.
    #[inline]
    unsafe fn change(&self, base: *mut u8, hash: u64, old: u32, new: Option<u32>) {
        bucket::point();
        let mut at = self.table.load(Ordering::Acquire);
        loop {
            if at == 0 || at == NOTHING {
                at = self.change_homeless(new.is_none());
                if at == 0 {
                    return;
                }
            }
            // SAFETY: a table that the guard keeps.
            let table = unsafe { Table::at(base, at) };
            // SAFETY: the caller's promise.
            if unsafe { table.change::<SHARED>(hash, old, new) } {
                return;
            }
            at = table.next().load(Ordering::Acquire);
        }
    }

    /// Replaces or removes a key without a table; or returns the table, if there is one by now.
    #[cold]
    fn change_homeless(&self, removed: bool) -> u32 {
        self.wait_for_turn();
        let at = self.table.load(Ordering::Acquire);
        if at == 0 && removed {
            let homeless = self.homeless.load(Ordering::Relaxed);
            debug_assert!(homeless > 0, "a key that was never inserted is removed");
            let left = homeless.saturating_sub(1);
            self.homeless.store(left, Ordering::Release);
        }
        self.end_turn();
        at
    }

    /// Whether `step` has work to do.
    #[inline(always)]
    fn is_due(&self, len: usize) -> bool {
        len > self.high.load(Ordering::Relaxed) || len < self.low.load(Ordering::Relaxed)
    }

    /// Takes the turn, if nobody has it.
    #[inline]
    fn take_turn(&self) -> bool {
        if !SHARED {
            return true;
        }
        bucket::point();
        let turn = &self.work.turn;
        turn.load(Ordering::Relaxed) == 0 && turn.swap(1, Ordering::Acquire) == 0
    }

    #[inline]
    fn wait_for_turn(&self) {
        let mut tries = 0;
        while !self.take_turn() {
            wait(&mut tries);
        }
    }

    #[inline]
    fn end_turn(&self) {
        if SHARED {
            bucket::point();
            self.work.turn.store(0, Ordering::Release);
        }
    }

    /// What the index takes of the arena, without blocks that were retired and wait for a grace
    /// period. The index has no other memory.
    pub(crate) fn taken(&self) -> Taken {
        Taken {
            blocks: self.work.blocks.load(Ordering::Relaxed),
            bytes: self.work.bytes.load(Ordering::Relaxed),
        }
    }

    /// Sets the account. Only the thread whose turn it is does this.
    fn set_taken(&self, taken: Taken) {
        self.work.blocks.store(taken.blocks, Ordering::Relaxed);
        self.work.bytes.store(taken.bytes, Ordering::Relaxed);
    }
}
