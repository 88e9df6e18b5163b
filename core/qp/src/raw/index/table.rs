//! Tables of buckets: a block with a header and a directory, and the chunks that the directory
//! names.
//!
//! Header and directory lie in the arena, too, so a table that readers may still read is retired as
//! a node is.

use core::sync::atomic::{AtomicU32, Ordering};

use sapwood_arena::{Ref, UNIT};

use super::Chunks;
use super::bucket::{Bucket, LINE, OUT_MAX, SLOTS, Search, Words, tag_of};
use sapwood_format::bucket::{
    self as format, HEAD, HOMES_AT, NEXT_AT, SHIFT_AT, TOTAL_AT, head_bytes,
};
pub(super) use sapwood_format::bucket::{NOTHING, WINDOW};

/// The distance from home at which a key counts as too far: few keys lie there unless the table is
/// too full.
const FAR: u32 = 64;
/// The number of buckets behind the last home.
const SPARE: u32 = 7;
/// The greatest number of homes: more than fit into an arena.
const HOMES_MAX: u32 = 1 << 28;
/// Bytes that a chunk's block has beyond the chunk, to align it.
const SLACK: usize = LINE - UNIT;
/// The greatest number of buckets of a chunk, as a shift. 32 KiB are mapped and cleared in about
/// ten microseconds.
const SHIFT_MAX: u32 = 9;
const SHIFT_MIN: u32 = 5;

/// Bytes of the largest chunk, for which a table that grows asks.
#[cfg(feature = "std")]
pub(crate) const CHUNK_BYTES: usize = (LINE << SHIFT_MAX) + SLACK;

/// Bytes of a chunk's block.
fn chunk_bytes(buckets: u32) -> usize {
    buckets as usize * LINE + SLACK
}

/// The share of slots that are taken in a full table, as numerator and denominator.
const FULL: (usize, usize) = (75, 100);

/// The number of keys for which a table of this number of homes is meant.
pub(super) fn most_keys(homes: u32) -> usize {
    homes as usize * SLOTS * FULL.0 / FULL.1
}

/// The homes of a table that is meant for this number of keys.
pub(super) fn homes_at_least(keys: usize) -> u32 {
    u32::try_from(keys * FULL.1 / (SLOTS * FULL.0) + 1).unwrap_or(HOMES_MAX)
}

/// The number of keys beyond which keys would soon find no slot.
pub(super) fn urgent_keys(homes: u32) -> usize {
    most_keys(homes) + homes as usize / 2
}

/// The homes of the table after one that is full.
pub(super) fn grown(homes: u32) -> u32 {
    if homes < 8 {
        homes + homes / 2 + 1
    } else {
        homes
            .saturating_add(homes / 7 * 2 + homes % 7 * 2 / 7)
            .min(HOMES_MAX)
    }
}

/// The homes of a table for this number of keys, with as much room as one that has grown.
pub(super) fn homes_for(keys: usize) -> u32 {
    grown(homes_at_least(keys))
}

/// The result of putting a leaf into a table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    Done,
    /// The leaf has a slot, but so far from home that the table must be too full.
    Far,
    /// The leaf's home was moved to the next table.
    Moved,
    /// The leaf found no slot, and nothing was changed.
    Full,
}

/// Stands for the distance of a leaf from home when it has no slot.
const NOWHERE: u32 = u32::MAX;

/// A table. It is valid as long as the arena lies at `base`.
#[derive(Clone, Copy)]
pub(super) struct Table {
    base: *mut u8,
    head: *mut u8,
}

impl Table {
    /// # Safety
    /// `at` is a table of this arena. The arena does not move and the table stays alive while the
    /// result is used.
    #[inline(always)]
    pub(super) unsafe fn at(base: *mut u8, at: u32) -> Self {
        // SAFETY: the caller's promise.
        let head = unsafe { base.add(at as usize * UNIT) };
        Table { base, head }
    }

    #[inline(always)]
    pub(super) fn base(&self) -> *mut u8 {
        self.base
    }

    #[inline(always)]
    fn word(&self, at: usize) -> u32 {
        // SAFETY: the first three words of the header never change after the table is made.
        unsafe { self.head.add(at).cast::<u32>().read() }
    }

    #[inline(always)]
    pub(super) fn homes(&self) -> u32 {
        self.word(HOMES_AT)
    }

    #[inline(always)]
    pub(super) fn total(&self) -> u32 {
        self.word(TOTAL_AT)
    }

    #[inline(always)]
    fn shift(&self) -> u32 {
        self.word(SHIFT_AT)
    }

    /// The table after this one.
    #[inline(always)]
    pub(super) fn next(&self) -> &AtomicU32 {
        // SAFETY: the header is alive and 8-aligned; this word is accessed only as an atomic.
        unsafe { &*self.head.add(NEXT_AT).cast() }
    }

    #[inline(always)]
    fn entry(&self, chunk: u32) -> &AtomicU32 {
        debug_assert!(chunk < self.chunks());
        // SAFETY: callers ask for chunks of buckets below `total`.
        unsafe { &*self.head.add(HEAD).cast::<AtomicU32>().add(chunk as usize) }
    }

    /// The number of chunks of the whole table.
    pub(super) fn chunks(&self) -> u32 {
        format::chunks(self.total(), self.shift())
    }

    /// The chunk of a bucket.
    #[inline(always)]
    pub(super) fn chunk_of(&self, bucket: u32) -> u32 {
        bucket >> self.shift()
    }

    /// The buckets of a chunk.
    fn buckets_of(&self, chunk: u32) -> u32 {
        format::buckets_of(self.total(), self.shift(), chunk)
    }

    /// Bytes of a chunk's block.
    pub(super) fn bytes_of(&self, chunk: u32) -> usize {
        chunk_bytes(self.buckets_of(chunk))
    }

    /// The home of a hash. The home of a larger hash is never before it.
    #[inline(always)]
    pub(super) fn home(&self, hash: u64) -> u32 {
        format::home(hash, self.homes())
    }

    /// The least and the greatest hash with this home.
    pub(super) fn hashes(&self, home: u32) -> (u64, u64) {
        format::hashes(home, self.homes())
    }

    /// The table in which to look a hash up: this one, or the next one if the chunk of its home is
    /// gone.
    ///
    /// # Safety
    /// As for `bucket`; this is the table where lookups begin.
    #[inline(always)]
    pub(super) unsafe fn settle(self, hash: u64) -> Table {
        let next = self.next().load(Ordering::Acquire);
        if next == 0 {
            return self;
        }
        // During a move some lookups go to this table and some to the next. The choice takes no
        // branch, because the processor would often mispredict it. A chunk of a table where lookups
        // begin is gone only if it was moved to the next one.
        let chunk = self.chunk_of(self.home(hash));
        let gone = self.entry(chunk).load(Ordering::Acquire) == 0;
        let here = self.head.addr() - self.base.addr();
        let step = (next as usize * UNIT).wrapping_sub(here) & usize::from(gone).wrapping_neg();
        Table {
            head: self.head.wrapping_add(step),
            ..self
        }
    }

    /// A bucket; `None` if its chunk is not there.
    ///
    /// # Safety
    /// The bucket is below `total`. In a shared index the caller keeps chunks from being freed.
    #[inline(always)]
    pub(super) unsafe fn bucket<'a>(&self, bucket: u32) -> Option<&'a Bucket> {
        // SAFETY: the caller's promise.
        let p = unsafe { self.line(bucket) };
        // SAFETY: a chunk in the directory is alive and whole, and is accessed only as atomics.
        (!p.is_null()).then(|| unsafe { &*p })
    }

    /// A pointer to a bucket, or null if its chunk is not there.
    ///
    /// # Safety
    /// The bucket is below `total`.
    #[inline(always)]
    pub(super) unsafe fn line(&self, bucket: u32) -> *const Bucket {
        let shift = self.shift();
        let entry = self.entry(bucket >> shift).load(Ordering::Acquire);
        if entry == 0 {
            return core::ptr::null();
        }
        let at = format::chunk_at(entry) + format::place_of(bucket, shift);
        // SAFETY: the bucket is inside the chunk.
        unsafe { self.base.add(at).cast() }
    }

    /// The end of the buckets in which a key with this home may lie.
    #[inline(always)]
    pub(super) fn window(&self, home: u32) -> u32 {
        (home + WINDOW).min(self.total())
    }

    /// Puts a leaf into the table. A leaf that finds no slot is counted as spilled. In an index
    /// that stands alone, the result is `Full` instead.
    ///
    /// # Safety
    /// As for `Index::insert`.
    #[inline]
    pub(super) unsafe fn put<const SHARED: bool>(&self, hash: u64, leaf: u32, alone: bool) -> Put {
        let home = self.home(hash);
        // SAFETY: homes are below `total`.
        let Some(first) = (unsafe { self.bucket(home) }) else {
            return Put::Moved;
        };
        let mut words = first.lock::<SHARED>();
        if words.is_moved() {
            first.unlock_high(words);
            return Put::Moved;
        }
        let free = words.free();
        if free != 0 {
            // From the first slot on, so that keys of other homes are in the last slots.
            let slot = free.trailing_zeros() as usize;
            first.set_leaf(slot, leaf);
            words.set_tag(slot, tag_of(hash));
            first.unlock(words);
            return Put::Done;
        }
        // SAFETY: the home is locked, not moved, and full.
        let (mut words, far) = unsafe { self.put_behind::<SHARED>(home, words, hash, leaf) };
        if far == NOWHERE && !alone {
            words.spill();
        }
        first.unlock_high(words);
        if far < (self.total() / 16).clamp(2, FAR) {
            Put::Done
        } else if far < NOWHERE || !alone {
            Put::Far
        } else {
            Put::Full
        }
    }

    /// Puts a leaf into a bucket behind its home, which is full. Returns the home's new words and
    /// the leaf's distance from it, or `NOWHERE`.
    ///
    /// # Safety
    /// The caller has locked the home, whose words these are, and it has not moved.
    #[inline(never)]
    unsafe fn put_behind<const SHARED: bool>(
        &self,
        home: u32,
        mut words: Words,
        hash: u64,
        leaf: u32,
    ) -> (Words, u32) {
        let end = if words.out() < OUT_MAX {
            self.window(home)
        } else {
            home
        };
        for at in home + 1..end {
            // SAFETY: below `total`. The home is locked and has not moved, so no bucket behind it
            // has moved. Far behind it there may be no chunk yet.
            let Some(bucket) = (unsafe { self.bucket(at) }) else {
                break;
            };
            if SHARED && bucket.load().free() == 0 {
                continue;
            }
            let mut theirs = bucket.lock::<SHARED>();
            let free = theirs.free();
            if free == 0 {
                bucket.unlock_high(theirs);
                continue;
            }
            let slot = 31 - free.leading_zeros() as usize;
            bucket.set_leaf(slot, leaf);
            theirs.set_tag(slot, tag_of(hash));
            bucket.unlock(theirs);
            words.go_out(at - home, tag_of(hash));
            return (words, at - home);
        }
        (words, NOWHERE)
    }

    /// Removes a leaf from the table, or replaces it by another; returns false if the home has
    /// moved.
    ///
    /// # Safety
    /// As for `Index::remove` and `Index::replace`.
    #[inline]
    pub(super) unsafe fn change<const SHARED: bool>(
        &self,
        hash: u64,
        old: u32,
        new: Option<u32>,
    ) -> bool {
        let home = self.home(hash);
        // SAFETY: homes are below `total`.
        let Some(first) = (unsafe { self.bucket(home) }) else {
            return false;
        };
        let mut words = first.lock::<SHARED>();
        if words.is_moved() {
            first.unlock_high(words);
            return false;
        }
        if let Some(slot) = slot_of(first, words, tag_of(hash), old) {
            first.change(&mut words, slot, new);
            first.unlock(words);
        } else {
            // SAFETY: the home is locked and has not moved.
            let words = unsafe { self.change_behind::<SHARED>(home, words, hash, old, new) };
            first.unlock_high(words);
        }
        true
    }

    /// `change` for a leaf that does not lie at home; returns the home's new words.
    ///
    /// # Safety
    /// The caller has locked the home, whose words these are, and it has not moved.
    #[inline(never)]
    unsafe fn change_behind<const SHARED: bool>(
        &self,
        home: u32,
        mut words: Words,
        hash: u64,
        old: u32,
        new: Option<u32>,
    ) -> Words {
        let tag = tag_of(hash);
        for at in home + 1..=home + words.reach() {
            // SAFETY: as in `put_behind`.
            let Some(bucket) = (unsafe { self.bucket(at) }) else {
                break;
            };
            // Nobody else changes this leaf's slot while its home is locked.
            let Some(slot) = slot_of(bucket, bucket.load(), tag, old) else {
                continue;
            };
            let mut theirs = bucket.lock::<SHARED>();
            bucket.change(&mut theirs, slot, new);
            bucket.unlock(theirs);
            if new.is_none() {
                words.come_back();
            }
            return words;
        }
        if new.is_none() {
            words.unspill();
        }
        words
    }
}

/// The slot that holds a leaf.
#[inline(always)]
fn slot_of(bucket: &Bucket, words: Words, tag: u8, leaf: u32) -> Option<usize> {
    let mut hits = words.matches(tag);
    while hits != 0 {
        let slot = hits.trailing_zeros() as usize;
        if bucket.leaf(slot) == leaf {
            return Some(slot);
        }
        hits &= hits - 1;
    }
    None
}

/// The blocks that a table or an index takes of the arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Number of blocks.
    pub(crate) blocks: usize,
    /// Their bytes.
    pub(crate) bytes: usize,
}

impl Taken {
    pub(super) fn add(&mut self, bytes: usize) {
        self.blocks += 1;
        self.bytes += bytes;
    }

    fn remove(&mut self, bytes: usize) {
        self.blocks -= 1;
        self.bytes -= bytes;
    }
}

/// Makes a table without chunks; returns the reference of its header.
pub(super) fn make(chunks: &mut impl Chunks, homes: u32, taken: &mut Taken) -> Option<u32> {
    let total = homes + (homes / 2).min(SPARE);
    let shift = total.ilog2().saturating_sub(5).clamp(SHIFT_MIN, SHIFT_MAX);
    let bytes = head_bytes(format::chunks(total, shift));
    let r = chunks.alloc(bytes)?;
    // SAFETY: the block is new and has this number of bytes.
    unsafe {
        let p = chunks.base().add(r.byte_offset());
        p.write_bytes(0, bytes);
        p.add(HOMES_AT).cast::<u32>().write(homes);
        p.add(TOTAL_AT).cast::<u32>().write(total);
        p.add(SHIFT_AT).cast::<u32>().write(shift);
    }
    taken.add(bytes);
    Some(r.get())
}

/// Makes a table with all its chunks; returns the reference of its header.
pub(super) fn make_whole(chunks: &mut impl Chunks, homes: u32, taken: &mut Taken) -> Option<u32> {
    let at = make(chunks, homes, taken)?;
    // SAFETY: the table was made just now, and nobody else knows it.
    unsafe {
        for chunk in 0..Table::at(chunks.base(), at).chunks() {
            if make_chunk(chunks, at, chunk, taken).is_none() {
                each_block(chunks.base(), at, |block, bytes| {
                    taken.remove(bytes);
                    chunks.discard(block, bytes);
                });
                return None;
            }
        }
    }
    Some(at)
}

/// Makes a chunk of empty buckets, if it is not there.
///
/// # Safety
/// `table` is a table of the arena, and the caller is the only one that changes its directory.
pub(super) unsafe fn make_chunk(
    chunks: &mut impl Chunks,
    table: u32,
    chunk: u32,
    taken: &mut Taken,
) -> Option<()> {
    // SAFETY: the caller's promise.
    let t = unsafe { Table::at(chunks.base(), table) };
    if t.entry(chunk).load(Ordering::Relaxed) != 0 {
        return Some(());
    }
    let buckets = t.buckets_of(chunk);
    let r = chunks.alloc(chunk_bytes(buckets))?;
    let base = chunks.base();
    let word = format::entry_of(r.get());
    // SAFETY: the block has 56 bytes more than the buckets. The arena may have moved; the table's
    // place in it is the same.
    unsafe {
        base.add(format::chunk_at(word))
            .write_bytes(0, buckets as usize * LINE);
        let entry = Table::at(base, table).entry(chunk) as *const AtomicU32;
        (*entry).store(word, Ordering::Release);
    }
    taken.add(chunk_bytes(buckets));
    Some(())
}

/// Takes a chunk out of the directory and frees it.
///
/// # Safety
/// As for `make_chunk`; all keys with homes in the chunk were moved.
pub(super) unsafe fn free_chunk(
    chunks: &mut impl Chunks,
    table: u32,
    chunk: u32,
    taken: &mut Taken,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let t = Table::at(chunks.base(), table);
        let entry = t.entry(chunk).load(Ordering::Relaxed);
        t.entry(chunk).store(0, Ordering::Release);
        if let Some(r) = Ref::new(format::block_of(entry)) {
            let bytes = t.bytes_of(chunk);
            taken.remove(bytes);
            chunks.free(r, bytes);
        }
    }
}

/// Calls `each` with the blocks of a table and their bytes: its chunks, and then its header.
///
/// # Safety
/// `table` is a table of the arena at `base`. It is alive until `each` gets its header, and nobody
/// changes its directory.
unsafe fn each_block(base: *mut u8, table: u32, mut each: impl FnMut(Ref, usize)) {
    // SAFETY: the caller's promise.
    let t = unsafe { Table::at(base, table) };
    let count = t.chunks();
    for chunk in 0..count {
        let entry = t.entry(chunk).load(Ordering::Relaxed);
        if let Some(r) = Ref::new(format::block_of(entry)) {
            each(r, t.bytes_of(chunk));
        }
    }
    if let Some(r) = Ref::new(table) {
        each(r, head_bytes(count));
    }
}

/// Frees a table and its chunks. The chunks stay in its directory, for readers that still search
/// it.
///
/// # Safety
/// A lookup that begins now does not reach the table.
pub(super) unsafe fn free(chunks: &mut impl Chunks, table: u32, taken: &mut Taken) {
    // SAFETY: the caller's promise. Nothing is allocated meanwhile, so the table does not move.
    unsafe {
        each_block(chunks.base(), table, |block, bytes| {
            taken.remove(bytes);
            chunks.free(block, bytes);
        });
    }
}

/// Frees a table that nobody else has seen.
///
/// # Safety
/// As for `free`; the table was not published.
pub(super) unsafe fn discard(chunks: &mut impl Chunks, table: u32, taken: &mut Taken) {
    // SAFETY: as in `free`.
    unsafe {
        each_block(chunks.base(), table, |block, bytes| {
            taken.remove(bytes);
            chunks.discard(block, bytes);
        });
    }
}

/// The sum of the blocks of a table.
///
/// # Safety
/// `table` is a table of the arena at `base`, and nobody changes its directory.
pub(super) unsafe fn taken_by(base: *mut u8, table: u32) -> Taken {
    let mut taken = Taken::default();
    // SAFETY: the caller's promise.
    unsafe { each_block(base, table, |_, bytes| taken.add(bytes)) };
    taken
}
