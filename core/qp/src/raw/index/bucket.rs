//! Buckets in the arena: loaded, locked and stored.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub(super) use sapwood_format::bucket::{LINE, LOCK, OUT_MAX, SLOTS, STICKY, Words, tag_of};

/// Searches in the slots of a bucket whose words were read.
pub(super) trait Search: Copy {
    /// The slots with this tag, as bits.
    fn matches(self, tag: u8) -> u32;

    /// The slots in use, as bits.
    #[inline(always)]
    fn used(self) -> u32 {
        self.free() ^ 0xfff
    }

    /// The empty slots, as bits.
    #[inline(always)]
    fn free(self) -> u32 {
        self.matches(0)
    }
}

impl Search for Words {
    #[inline(always)]
    fn matches(self, tag: u8) -> u32 {
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
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
        #[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
        self.slots_with(tag)
    }
}

/// A bucket in the arena.
#[repr(C)]
pub(super) struct Bucket {
    words: [AtomicU64; 2],
    refs: [AtomicU32; SLOTS],
}

const _: () = assert!(size_of::<Bucket>() == LINE);

impl Bucket {
    /// The words as a reader sees them. The reader also sees all that was written before a tag that
    /// it sees.
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
        // The remainder shows the compiler that the slot is below 12.
        self.refs[slot % 16 % SLOTS].load(Ordering::Acquire)
    }

    /// The leaf cell of the first hit; without a hit, whatever is in the last slot.
    #[inline(always)]
    pub(super) fn first(&self, hits: u32) -> u32 {
        point();
        let slot = (hits | 1 << (SLOTS - 1)).trailing_zeros() as usize;
        // SAFETY: there is a bit at or below the last slot's.
        unsafe { self.refs.get_unchecked(slot) }.load(Ordering::Acquire)
    }

    /// Stores a leaf cell; the caller stores its tag afterwards.
    #[inline(always)]
    pub(super) fn set_leaf(&self, slot: usize, leaf: u32) {
        point();
        self.refs[slot].store(leaf, Ordering::Release);
    }

    /// Replaces the leaf in a slot by another one of the same key, or removes it. The bucket is
    /// locked, and `words` are its words.
    #[inline(always)]
    pub(super) fn change(&self, words: &mut Words, slot: usize, new: Option<u32>) {
        match new {
            Some(new) => self.set_leaf(slot, new),
            None => words.set_tag(slot, 0),
        }
    }

    /// Locks the bucket; returns its words without the LOCK bit. An owned index has no locks.
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

    /// Publishes the tags of word 0 and releases the lock.
    #[inline(always)]
    pub(super) fn unlock(&self, words: Words) {
        point();
        self.words[0].store(words.low, Ordering::Release);
        self.unlock_high(words);
    }

    /// Releases the lock of a bucket whose word 0 has not changed.
    #[inline(always)]
    pub(super) fn unlock_high(&self, words: Words) {
        debug_assert!(!words.is_locked());
        point();
        self.words[1].store(words.high, Ordering::Release);
    }
}

/// A place where a test's scheduler may let another thread run.
#[inline(always)]
pub(super) fn point() {
    #[cfg(shuttle)]
    crate::sync::point();
}

/// One more turn of a loop that waits for another thread. It spins at first, and later lets other
/// threads run.
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
