//! The point index: a hash index over the leaves of a trie, kept in step with it.
//!
//! A lookup of one key touches two cache lines: a bucket ([`bucket`]) and the leaf. The trie is
//! always the truth: where the index does not know, it says so ([`Found::AskTrie`]), so it can do
//! without memory that it does not get.
//!
//! # Layout
//!
//! Buckets of twelve leaves lie in a table ([`table`]) in the order of the hashes: a key's *home*
//! is `high half of the hash * homes >> 32`, its tag comes from the low byte. A key whose home is
//! full lies in the next bucket with room; its home counts such keys (`out`), knows how far behind
//! they are at most (`reach`, up to 255: in a table that is nearly full, long runs of buckets are),
//! and some bits of their tags (`filter`). A key that finds no room there either is only counted,
//! at its home (`spilled`), and lookups that do not find it ask the trie.
//!
//! # Growth
//!
//! A table that is 75 % full is followed by one with two sevenths more homes, one that is a quarter
//! as full as that by a smaller one. Each change of the map then moves a few buckets, from the
//! first to the last ([`grow`]). Order is kept, so the new table fills from the front while the old
//! one is freed from the front: together they take little more than one. What is spilled in a
//! bucket that is moved, nobody knows: the new buckets that it could be at home in say `AskTrie` to
//! every miss from then on. That takes a lack of memory or dozens of equal hashes. It is over when
//! the map was empty, or after [`Index::clear`] and the insertion of all leaves.
//!
//! Writers of a shared map know the number of keys but roughly. So a key that has to lie far from
//! its home makes the next step look at how full the table is; and before it shrinks the table,
//! too, it looks.
//!
//! # Why readers need no lock
//!
//! Readers hold a guard: chunks, tables and leaves that they can reach are not freed meanwhile.
//! Writers of one key come one after the other. A reader reads the bucket of the home; if its
//! filter has the key's tag, the buckets within reach; and then the home again. A key that is in
//! the index all the while is found, or the answer is `AskTrie`:
//!
//! - *Nobody moves it.* It never changes its slot. A replaced value's leaf is stored over the old
//!   one in place. It lies at home, or it is counted in the home's `out`, `reach` and `filter`, or
//!   in `spilled`, from before the lookup until after.
//! - *It is moved to the next table*, which has it before MOVED is set at its home. A reader that
//!   sees MOVED at first goes to the next table. One that does not finds it in the old table: slots
//!   in the home itself stay as they were when MOVED was set, for ever. Slots behind are cleared,
//!   because other homes' keys go on living there, but only after MOVED was set: who sees one
//!   cleared (Acquire) sees MOVED when it looks at the home again.
//! - *Its chunk is gone from the directory*: then all that was at home there was moved. On to the
//!   next table.
//! - *A slot is used again between the load of its tag and the load of its cell.* A cell is stored
//!   before its tag and never cleared, so the cell belongs to the tag that was seen or is a newer
//!   one. The key decides.
//!
//! What a reader follows is alive. It saw the slot in use, or the home without MOVED, after its
//! guard began; so the leaf was in the index after that, and what is retired later waits for the
//! guard. Slots of a moved home may hold leaves that are long freed, but no lookup uses them: from
//! this home it sees MOVED, other homes' keys do not lie there, and homes before are MOVED too, as
//! buckets are moved in order. The same makes a leaf that is found in the old table an honest
//! answer: it was the key's leaf at the moment when the home was read without MOVED.
//!
//! A key that is absent all the while is never found: keys are compared whole.
//!
//! A lookup ends: it looks into [`HOPS`] tables at most. A reader that is so slow that its key was
//! moved on from each of them asks the trie. Without a trie it takes the turn, for as long as a
//! lookup lasts: nothing is moved meanwhile.
//!
//! # Without a trie
//!
//! An index may stand [`alone`]: then it is the truth, and no key is spilled.
//!
//! # Locks
//!
//! Writers of a shared index lock the home, and then at most one bucket behind it; a mover locks an
//! old bucket or two, and then new ones. It is always ahead or from an old table to a new one, so
//! no circle of waiting is possible. Nobody takes a leaf out of a bucket, or replaces it, without
//! that bucket's lock; a mover holds it while it reads keys, so they are alive. An owned index
//! (`SHARED` false) has no locks and no read-modify-write instruction.
//!
//! Writers hold a guard too: a bucket that they wait for may be moved, and its chunk given back.

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

/// Where the index gets its memory: an owned map frees at once, a shared one retires.
pub(crate) trait Chunks {
    /// Where the arena lies now. An owned arena may move in `alloc`.
    fn base(&self) -> *mut u8;

    /// A block, or `None` when there is no memory: growth is then put off.
    fn alloc(&mut self, bytes: usize) -> Option<Ref>;

    /// Whether blocks of this many bytes may be given back by the operation under way: what waits
    /// for readers may be limited. If not, they stay in use for the time being.
    fn may_free(&mut self, bytes: usize) -> bool {
        let _ = bytes;
        true
    }

    /// Gives a block back; in a shared map after a grace period.
    ///
    /// # Safety
    /// The block came from `alloc` with as many bytes, and nobody who begins to read now gets to
    /// it.
    unsafe fn free(&mut self, block: Ref, bytes: usize);

    /// Gives a block back that nobody else has seen.
    ///
    /// # Safety
    /// The block came from `alloc` with as many bytes, and was not published.
    unsafe fn discard(&mut self, block: Ref, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.free(block, bytes) };
    }
}

/// What the index knows about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The cell of its leaf.
    Leaf(u32),
    /// The key is not in the map.
    Absent,
    /// Only the trie knows.
    AskTrie,
}

/// The tables that a lookup looks into before it asks the trie or waits for its turn. Between two
/// of them, writers have changed a good part of all keys.
const HOPS: usize = if cfg!(shuttle) { 1 } else { 8 };

/// What one table knows.
enum Look {
    Found(Found),
    /// The key is at home in the next table.
    Moved,
}

/// A hash index over leaves with values `V`.
///
/// Everything in it is an atomic, but without `SHARED` only loads and stores are used: writers need
/// to be alone.
#[repr(C)]
pub struct Index<V: ?Sized + Value, const SHARED: bool> {
    /// The table where lookups begin, 0 = none.
    table: AtomicU32,
    /// Keys that were inserted when there was no table and no memory for one.
    homeless: AtomicU32,
    secrets: Secrets,
    /// With more keys than this or less than `low`, there is something to do.
    high: AtomicUsize,
    low: AtomicUsize,
    /// With more keys than this there is no time to lose.
    urgent: AtomicUsize,
    /// Where in the arena others find `table`, in bytes from the base; 0: nowhere.
    published: usize,
    /// There is no trie: a key that finds no slot is not in the map. See [`alone`].
    alone: bool,
    #[cfg(test)]
    mask: u64,
    /// How often the next table was too small.
    #[cfg(test)]
    moved_both: AtomicUsize,
    work: Work,
    values: PhantomData<fn() -> V>,
}

/// What the thread whose turn it is to change tables works with; not in the line that lookups need.
#[derive(Default)]
#[repr(align(64))]
struct Work {
    /// 1 while a thread has the turn.
    turn: AtomicU32,
    /// The next bucket to be moved.
    cursor: AtomicU32,
    /// 1 when a key was inserted too far from home.
    pressed: AtomicU32,
    blocks: AtomicUsize,
    bytes: AtomicUsize,
}

impl<V: ?Sized + Value, const SHARED: bool> Index<V, SHARED> {
    /// An index without keys, which takes no memory. Who does not know the seed cannot choose keys
    /// that collide.
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
            #[cfg(test)]
            mask: u64::MAX,
            #[cfg(test)]
            moved_both: AtomicUsize::new(0),
            work: Work::default(),
            values: PhantomData,
        }
    }

    /// An index that others search: its hash is the portable one, and the reference of the table
    /// where lookups begin is also kept in the arena, in the aligned word at this many bytes from
    /// the base.
    #[cfg(feature = "std")]
    pub(crate) fn published(seed: u64, at: usize) -> Self {
        debug_assert!(at != 0 && at % 8 == 0);
        Index {
            secrets: Secrets::portable(seed),
            published: at,
            ..Index::new(seed)
        }
    }

    /// The secrets of the portable hash, if it is that.
    #[cfg(feature = "std")]
    pub(crate) fn portable_words(&self) -> Option<&[u64; SECRETS]> {
        self.secrets.words_of_portable()
    }

    /// Lookups that begin now begin in this table.
    fn set_table(&self, base: *mut u8, table: u32) {
        self.table.store(table, Ordering::Release);
        if self.published != 0 {
            // SAFETY: a word of the arena's header, which only atomics use.
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
    /// `leaf` is a leaf of the arena at `base`, alive.
    #[inline(always)]
    unsafe fn hash_of(&self, base: *mut u8, leaf: u32) -> u64 {
        // SAFETY: the caller's promise.
        self.hash(unsafe { LeafOf::<V>::key(base.add(byte_of(leaf))) })
    }

    /// Looks a key up. Any number of threads may, beside writers.
    ///
    /// # Safety
    /// `base` is where the arena lies, `hash` is the key's. In a shared index the caller holds a
    /// guard, since before the call and as long as it uses the leaf.
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

    /// `find` for the one key in ten that the first look does not settle; it begins anew. Apart, so
    /// that `find` is short: then the processor works on more lookups at once.
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

    /// Looks into a table and those after it, as many as `hops` in all; `None` when the key was
    /// moved on even so.
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
                // The last key was gone when this table was given up.
                return Some(Found::Absent);
            }
            // SAFETY: the next table is published before a key moves there; the guard keeps it.
            table = unsafe { Table::at(table.base(), next) };
        }
        None
    }

    /// `find` for a reader that writers have outrun: whole tables were moved while it looked. The
    /// trie knows. Without one, nothing is moved while this thread has the turn.
    ///
    /// # Safety
    /// As for `find`.
    #[cold]
    #[inline(never)]
    unsafe fn find_late(&self, base: *mut u8, hash: u64, key: &[u8]) -> Found {
        if !self.alone {
            return Found::AskTrie;
        }
        self.wait_for_turn();
        let at = self.table.load(Ordering::Acquire);
        let mut found = None;
        if at != 0 {
            // SAFETY: the caller's promise. The chain of tables ends, as nobody makes another.
            found = unsafe { self.follow(Table::at(base, at), hash, key, usize::MAX) };
        }
        self.end_turn();
        found.unwrap_or(Found::Absent)
    }

    #[cold]
    #[inline(never)]
    fn without_table(&self) -> Found {
        match self.homeless.load(Ordering::Acquire) {
            0 => Found::Absent,
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

    /// Looks into the buckets behind the home.
    ///
    /// # Safety
    /// As for `look`, which looked at the home.
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
                // Keys that are not at home lie at the back.
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
            // A key that was moved meanwhile is cleared behind its home, but not before MOVED was
            // set. SAFETY: as above.
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
    /// `hash` is that of the leaf's key, the leaf is alive until it was removed or replaced.
    /// Without `SHARED` nobody else uses the index. With it, the caller holds a guard, and is alone
    /// with this key; it may not hold anything that `chunks` waits for.
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

    /// The table is too full: the numbers of keys that `step` is told must be out of date. With
    /// exact ones, it is equal hashes, which no table helps against.
    #[cold]
    fn press(&self) {
        if SHARED {
            self.work.pressed.store(1, Ordering::Relaxed);
            self.high.store(0, Ordering::Relaxed);
        }
    }

    /// Puts the leaf `new` in the place of `old`, which has the same key.
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

    /// A key without a table is replaced or removed; or there is a table by now.
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

    /// Whether `step` has anything to do.
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

    /// What the index takes of the arena, without what was given back and waits for a grace period.
    /// All of it is there: nothing lies in other memory.
    pub(crate) fn taken(&self) -> Taken {
        Taken {
            blocks: self.work.blocks.load(Ordering::Relaxed),
            bytes: self.work.bytes.load(Ordering::Relaxed),
        }
    }

    /// Only the one whose turn it is changes the account.
    fn set_taken(&self, taken: Taken) {
        self.work.blocks.store(taken.blocks, Ordering::Relaxed);
        self.work.bytes.store(taken.bytes, Ordering::Relaxed);
    }
}
