//! One bucket: a cache line of twelve tags, a word of state, and twelve leaf cells.
//!
//! ```text
//! word 0        tags of the slots 0..8, slot 0 in the lowest byte; 0 = empty
//! word 1        bits 0..32: tags of the slots 8..12; bits 32..64: state
//! 16..64        twelve leaf cells, u32
//!
//! state   bit 32       LOCK: a writer is at work
//!         bit 33       MOVED: the keys that are at home here are in the next table
//!         bits 34..40  out: keys that are at home here and lie in a bucket behind
//!         bits 40..48  reach: they lie at most so many buckets behind
//!         bits 48..56  spilled: keys that are at home here and found no slot; all ones: not known any more
//!         bits 56..64  filter: one bit for each tag (its lowest three bits) of the keys that lie behind; 0 if none do
//! ```
//!
//! The filter keeps most misses from looking behind: a third of the homes of a full table have keys there, two or three.
//!
//! Both words are only ever read and written whole, so nothing depends on the order of bytes in them.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Slots of a bucket.
pub(super) const SLOTS: usize = 12;
/// Bytes of a bucket.
pub(super) const LINE: usize = 64;

pub(super) const LOCK: u64 = 1 << 32;
pub(super) const MOVED: u64 = 1 << 33;
pub(super) const OUT: u32 = 34;
/// The most keys of a home that lie elsewhere: so many leaves, and twelve, does a lookup compare if all hashes are equal.
pub(super) const OUT_MAX: u32 = 0x3f;
pub(super) const REACH: u32 = 40;
/// The furthest that they may lie.
pub(super) const REACH_MAX: u32 = 0xff;
pub(super) const SPILLED: u32 = 48;
/// A count of spilled keys that is not known any more: it stays.
pub(super) const STICKY: u32 = 0xff;
pub(super) const FILTER: u32 = 56;

const ONES: u64 = 0x0101_0101_0101_0101;
const LOWS: u64 = 0x7f7f_7f7f_7f7f_7f7f;

/// The tag of a hash: from its low byte, never 0. The bucket follows from the high half.
#[inline(always)]
pub(super) fn tag_of(hash: u64) -> u8 {
    let low = hash as u8;
    low | u8::from(low == 0)
}

/// The bit of a tag in a home's filter.
pub(super) fn filter_bit(tag: u8) -> u8 {
    1 << (tag % 8)
}

/// A copy of a bucket's two words.
#[derive(Clone, Copy)]
pub(super) struct Words {
    pub(super) low: u64,
    pub(super) high: u64,
}

impl Words {
    /// The slots with this tag, as bits.
    #[inline(always)]
    pub(super) fn matches(self, tag: u8) -> u32 {
        #[cfg(target_arch = "x86_64")]
        {
            use core::arch::x86_64::{
                _mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8,
            };
            // SAFETY: SSE2 is part of x86-64; no memory is touched.
            let hits = unsafe {
                let words = _mm_set_epi64x(self.high as i64, self.low as i64);
                _mm_movemask_epi8(_mm_cmpeq_epi8(words, _mm_set1_epi8(tag as i8)))
            };
            hits as u32 & 0xfff
        }
        #[cfg(not(target_arch = "x86_64"))]
        self.matches_by_word(tag)
    }

    /// The same without vectors.
    #[cfg(any(test, not(target_arch = "x86_64")))]
    pub(super) fn matches_by_word(self, tag: u8) -> u32 {
        let pattern = u64::from(tag).wrapping_mul(ONES);
        zero_bytes(self.low ^ pattern) | (zero_bytes(self.high ^ pattern) & 0xf) << 8
    }

    /// The slots in use, as bits.
    #[inline(always)]
    pub(super) fn used(self) -> u32 {
        self.matches(0) ^ 0xfff
    }

    /// The empty slots, as bits.
    #[inline(always)]
    pub(super) fn free(self) -> u32 {
        self.matches(0)
    }

    #[inline(always)]
    pub(super) fn tag(self, slot: usize) -> u8 {
        if slot < 8 {
            (self.low >> (8 * slot)) as u8
        } else {
            (self.high >> (8 * (slot - 8))) as u8
        }
    }

    #[inline(always)]
    pub(super) fn set_tag(&mut self, slot: usize, tag: u8) {
        let (word, at) = if slot < 8 {
            (&mut self.low, 8 * slot)
        } else {
            (&mut self.high, 8 * (slot - 8))
        };
        *word = *word & !(0xff << at) | u64::from(tag) << at;
    }

    #[inline(always)]
    pub(super) fn is_locked(self) -> bool {
        self.high & LOCK != 0
    }

    #[inline(always)]
    pub(super) fn is_moved(self) -> bool {
        self.high & MOVED != 0
    }

    #[inline(always)]
    pub(super) fn set_moved(&mut self) {
        self.high |= MOVED;
    }

    /// Keys that are at home here and lie in a bucket behind.
    #[inline(always)]
    pub(super) fn out(self) -> u32 {
        (self.high >> OUT) as u32 & OUT_MAX
    }

    /// How far behind they are at most.
    #[inline(always)]
    pub(super) fn reach(self) -> u32 {
        (self.high >> REACH) as u32 & REACH_MAX
    }

    /// What is known of the tags of the keys that lie behind.
    pub(super) fn filter(self) -> u8 {
        (self.high >> FILTER) as u8
    }

    /// Whether a key with this tag may lie behind.
    #[inline(always)]
    pub(super) fn may_be_behind(self, tag: u8) -> bool {
        self.high >> (FILTER + u32::from(tag % 8)) & 1 != 0
    }

    /// Whether every key that is at home here lies here or behind.
    #[inline(always)]
    pub(super) fn has_all(self) -> bool {
        self.high & u64::from(STICKY) << SPILLED == 0
    }

    /// Whether this bucket, where the tag is not, is enough to know that a key that is at home here is absent.
    #[inline(always)]
    pub(super) fn rules_out(self, tag: u8) -> bool {
        let filter = 1 << (FILTER + u32::from(tag % 8));
        self.high & (MOVED | u64::from(STICKY) << SPILLED | filter) == 0
    }

    fn set_out(&mut self, out: u32, reach: u32, filter: u8) {
        debug_assert!(out <= OUT_MAX && reach <= REACH_MAX);
        let all = u64::from(OUT_MAX) << OUT | u64::from(REACH_MAX) << REACH | 0xff << FILTER;
        let both = u64::from(out) << OUT | u64::from(reach) << REACH;
        self.high = self.high & !all | both | u64::from(filter) << FILTER;
    }

    /// One key more lies behind, so far, with this tag.
    pub(super) fn go_out(&mut self, far: u32, tag: u8) {
        let filter = self.filter() | filter_bit(tag);
        self.set_out(self.out() + 1, self.reach().max(far), filter);
    }

    /// One key less lies behind.
    pub(super) fn come_back(&mut self) {
        match self.out() {
            0 | 1 => self.set_out(0, 0, 0),
            out => self.set_out(out - 1, self.reach(), self.filter()),
        }
    }

    /// Keys that are at home here and found no slot, or `STICKY`.
    #[inline(always)]
    pub(super) fn spilled(self) -> u32 {
        (self.high >> SPILLED) as u32 & STICKY
    }

    /// One key more is spilled.
    pub(super) fn spill(&mut self) {
        if self.spilled() != STICKY {
            self.high += 1 << SPILLED;
        }
    }

    /// One key less is spilled.
    pub(super) fn unspill(&mut self) {
        let spilled = self.spilled();
        debug_assert!(spilled > 0, "a key that was never inserted is removed");
        if spilled != STICKY && spilled != 0 {
            self.high -= 1 << SPILLED;
        }
    }

    /// Nobody knows how many keys are spilled.
    pub(super) fn stick(&mut self) {
        self.high |= u64::from(STICKY) << SPILLED;
    }

    /// No keys, no lock, and nothing counted.
    pub(super) fn is_empty(self) -> bool {
        self.low == 0 && self.high == 0
    }
}

/// The bytes that are 0, as bits; exact for every byte.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn zero_bytes(x: u64) -> u32 {
    // The high bit of a byte: set where the byte is not 0. No carry leaves a byte.
    let some = ((x & LOWS) + LOWS) | x | LOWS;
    // One bit a byte, gathered in the top byte: the summands do not overlap.
    ((!some >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
}

#[cfg(all(not(test), target_arch = "x86_64"))]
const _: (u64, u64) = (ONES, LOWS);

/// A bucket in the arena.
#[repr(C)]
pub(super) struct Bucket {
    words: [AtomicU64; 2],
    refs: [AtomicU32; SLOTS],
}

const _: () = assert!(size_of::<Bucket>() == LINE);

impl Bucket {
    /// The words as a reader sees them: what was written before a tag that it sees, it sees too.
    #[inline(always)]
    pub(super) fn load(&self) -> Words {
        point();
        let low = self.words[0].load(Ordering::Acquire);
        point();
        let high = self.words[1].load(Ordering::Acquire);
        Words { low, high }
    }

    /// The leaf cell in a slot whose tag was seen.
    #[inline(always)]
    pub(super) fn leaf(&self, slot: usize) -> u32 {
        point();
        // The compiler cannot know that a match is below 12.
        self.refs[slot % 16 % SLOTS].load(Ordering::Acquire)
    }

    /// The leaf cell of the first hit; without one, of the last slot, whatever is there.
    #[inline(always)]
    pub(super) fn first(&self, hits: u32) -> u32 {
        point();
        let slot = (hits | 1 << (SLOTS - 1)).trailing_zeros() as usize;
        // SAFETY: there is a bit at or below the last slot's.
        unsafe { self.refs.get_unchecked(slot) }.load(Ordering::Acquire)
    }

    /// Stores a leaf cell; the tag comes after it.
    #[inline(always)]
    pub(super) fn set_leaf(&self, slot: usize, leaf: u32) {
        point();
        self.refs[slot].store(leaf, Ordering::Release);
    }

    /// Puts another leaf of the same key into a slot, or takes it out; `words` are this bucket's, which is locked.
    #[inline(always)]
    pub(super) fn change(&self, words: &mut Words, slot: usize, new: Option<u32>) {
        match new {
            Some(new) => self.set_leaf(slot, new),
            None => words.set_tag(slot, 0),
        }
    }

    /// Waits for the bucket to be the caller's; the words come without the LOCK bit. An owned index has
    /// no locks.
    #[inline(always)]
    pub(super) fn lock<const SHARED: bool>(&self) -> Words {
        if !SHARED {
            return Words {
                low: self.words[0].load(Ordering::Relaxed),
                high: self.words[1].load(Ordering::Relaxed),
            };
        }
        let mut tries = 0;
        loop {
            point();
            let high = self.words[1].load(Ordering::Relaxed);
            if high & LOCK == 0
                && self.words[1]
                    .compare_exchange_weak(high, high | LOCK, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                let low = self.words[0].load(Ordering::Relaxed);
                return Words { low, high };
            }
            wait(&mut tries);
        }
    }

    /// Publishes the tags of word 0 and ends the lock.
    #[inline(always)]
    pub(super) fn unlock(&self, words: Words) {
        point();
        self.words[0].store(words.low, Ordering::Release);
        self.unlock_high(words);
    }

    /// Ends the lock of a bucket whose word 0 is as it was.
    #[inline(always)]
    pub(super) fn unlock_high(&self, words: Words) {
        debug_assert!(!words.is_locked());
        point();
        self.words[1].store(words.high, Ordering::Release);
    }
}

/// A scheduler may let another thread run here.
#[inline(always)]
pub(super) fn point() {
    #[cfg(shuttle)]
    crate::sync::point();
}

/// One more turn of a loop that waits for another thread: soon, and later not before others ran.
#[inline]
pub(super) fn wait(tries: &mut u32) {
    #[cfg(shuttle)]
    {
        let _ = tries;
        crate::sync::spin();
    }
    #[cfg(not(shuttle))]
    {
        if *tries < 6 {
            for _ in 0..1 << *tries {
                core::hint::spin_loop();
            }
            *tries += 1;
        } else {
            #[cfg(feature = "std")]
            std::thread::yield_now();
            #[cfg(not(feature = "std"))]
            core::hint::spin_loop();
        }
    }
}
