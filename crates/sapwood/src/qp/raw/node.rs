//! Branches in the arena: searched by key byte, read and written through pointers.

use core::sync::atomic::{AtomicU32, Ordering};

pub(crate) use crate::qp::format::LEAF;
#[cfg(feature = "std")]
pub(crate) use crate::qp::format::branch::LARGEST;
pub(crate) use crate::qp::format::branch::{
    BIG, BIG_MAP, END, FRESH, LABELS_AT, RANKS_AT, SMALL_MAX, bit_of, block_of, cells_at,
    children_of, end_of, first_at, header, is_sound, is_up_to_8, is_up_to_32, label_of, labels_of,
    offset_of, padded, size_of, word_of,
};

/// Low bit pattern of a SWAR search.
const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// A branch in the arena. All methods need `p` to point at a whole branch whose header is `h`.
#[derive(Clone, Copy)]
pub struct Branch {
    pub(crate) p: *mut u8,
    pub(crate) h: u32,
}

impl Branch {
    /// # Safety
    /// `p` is 8-aligned and points at a branch that stays alive while the result is used.
    #[inline(always)]
    pub(crate) unsafe fn at(p: *mut u8) -> Self {
        // SAFETY: the caller's promise; the header is only ever changed before publication.
        let h = unsafe { (*p.cast::<AtomicU32>()).load(Ordering::Relaxed) };
        Branch { p, h }
    }

    #[inline(always)]
    pub(crate) fn offset(self) -> usize {
        offset_of(self.h)
    }

    #[inline(always)]
    pub(crate) fn children(self) -> usize {
        children_of(self.h)
    }

    /// The `i`th child's cell, END first.
    ///
    /// # Safety
    /// `i < self.children()`.
    #[inline(always)]
    pub(crate) unsafe fn cell(self, i: usize) -> u32 {
        // SAFETY: cells are 4-aligned u32 inside the branch; they are written with Release.
        unsafe { (*self.cell_ptr(i)).load(Ordering::Acquire) }
    }

    /// # Safety
    /// `i < self.children()`.
    #[inline(always)]
    pub(crate) unsafe fn cell_ptr(self, i: usize) -> *const AtomicU32 {
        // SAFETY: in bounds of the branch by the caller's promise.
        unsafe { self.p.add(cells_at(self.h) + 4 * i).cast() }
    }

    /// # Safety
    /// `i < self.children()`, and the caller may change the branch.
    #[inline(always)]
    pub(crate) unsafe fn set_cell(self, i: usize, cell: u32) {
        // SAFETY: the caller's promise.
        unsafe { (*self.cell_ptr(i)).store(cell, Ordering::Release) }
    }

    /// Sets or clears header bits of an unpublished branch.
    ///
    /// # Safety
    /// The caller may change the branch.
    #[inline(always)]
    pub(crate) unsafe fn set_header(self, h: u32) {
        // SAFETY: the header is a 4-aligned u32 at the start of the branch.
        unsafe { (*self.p.cast::<AtomicU32>()).store(h, Ordering::Relaxed) }
    }

    /// The label of the `i`th child, or `None` for the END child.
    ///
    /// # Safety
    /// `i < self.children()`.
    #[inline]
    pub(crate) unsafe fn label(self, i: usize) -> Option<u8> {
        let i = i.wrapping_sub(end_of(self.h));
        if i == usize::MAX {
            return None;
        }
        if self.h & BIG == 0 {
            // SAFETY: a small branch has this label.
            return Some(unsafe { *self.p.add(LABELS_AT + i) });
        }
        let mut rest = i as u32;
        for w in 0..4 {
            // SAFETY: a big branch has four bitmap words.
            let word = unsafe { self.map_word(w) };
            let n = word.count_ones();
            if rest < n {
                return Some(label_of(w, word, rest));
            }
            rest -= n;
        }
        // Only a damaged file gets here: its count and its bitmap disagree.
        Some(255)
    }

    /// # Safety
    /// The branch is big and `w < 4`.
    #[inline(always)]
    pub(super) unsafe fn map_word(self, w: usize) -> u64 {
        // SAFETY: bytes 8..40 of a big branch are its bitmap, 8-aligned.
        unsafe { self.p.add(BIG_MAP + 8 * w).cast::<u64>().read() }
    }

    /// Which label is `byte`: its index among the labels, END not counted.
    ///
    /// # Safety
    /// The branch is whole. The index may be out of bounds when the branch is not well formed.
    #[inline(always)]
    unsafe fn label_index(self, byte: u8) -> Option<usize> {
        if is_up_to_8(self.h) {
            // One to eight labels, in one path, so that the processor has nothing to guess.
            // SAFETY: every branch has at least 16 bytes. Up to four labels are padded to 4 bytes and followed by
            // cells; padding repeats the last label, so the first match is a real one unless there is none.
            let hit = unsafe {
                match8(
                    wide::eight(self.p, labels_of(self.h)),
                    u64::from(byte).wrapping_mul(ONES),
                )
            };
            let i = hit.trailing_zeros() as usize / 8;
            // Without a match i is 8.
            (i < labels_of(self.h)).then_some(i)
        } else if is_up_to_32(self.h) {
            // SAFETY: more than eight labels and at most 32.
            unsafe { self.find_of_32(byte) }
        } else {
            let w = word_of(byte);
            // SAFETY: more than 32 labels means the big layout, which has four words and ranks.
            let (word, rank) = unsafe { (self.map_word(w), *self.p.add(RANKS_AT + w)) };
            let bit = bit_of(byte);
            (word & bit != 0).then(|| usize::from(rank) + (word & (bit - 1)).count_ones() as usize)
        }
    }

    /// # Safety
    /// The branch is whole and has 9 to 32 labels.
    #[inline(always)]
    unsafe fn find_of_32(self, byte: u8) -> Option<usize> {
        let n = labels_of(self.h);
        #[cfg(all(target_arch = "x86_64", not(miri), not(sapwood_exact_loads)))]
        {
            use core::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set1_epi8};
            // SAFETY: with nine labels a branch has 4 + 12 + 36 bytes, so 32 bytes from byte 4 are inside; what lies
            // behind the labels is masked out.
            let hits = unsafe {
                let want = _mm_set1_epi8(byte as i8);
                let (low, high) = wide::thirty_two(self.p);
                let low = _mm_movemask_epi8(_mm_cmpeq_epi8(low, want)) as u32;
                let high = _mm_movemask_epi8(_mm_cmpeq_epi8(high, want)) as u32;
                low | high << 16
            };
            let hits = hits & (u32::MAX >> (32 - n));
            (hits != 0).then(|| hits.trailing_zeros() as usize)
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri), not(sapwood_exact_loads))))]
        {
            let pattern = u64::from(byte).wrapping_mul(ONES);
            for k in (0..n).step_by(8) {
                // SAFETY: labels k and on, padded to four.
                let hit = unsafe { match8(wide::eight(self.p.add(k), n - k), pattern) };
                let i = k + hit.trailing_zeros() as usize / 8;
                if hit != 0 && i < n {
                    return Some(i);
                }
            }
            None
        }
    }

    /// The index among the children of the one labelled `byte`.
    ///
    /// # Safety
    /// The branch is whole. The index may be out of bounds when the branch is not well formed.
    #[inline(always)]
    pub(crate) unsafe fn find(self, byte: u8) -> Option<usize> {
        // SAFETY: the caller's promise.
        unsafe { self.label_index(byte) }.map(|i| i + end_of(self.h))
    }

    /// The cell of the child labelled `byte`.
    ///
    /// # Safety
    /// The branch is whole and well formed.
    #[inline(always)]
    pub(crate) unsafe fn find_cell(self, byte: u8) -> Option<u32> {
        // SAFETY: the caller's promise; the index is that of a label.
        unsafe {
            let i = self.label_index(byte)?;
            let cell = self.p.add(first_at(self.h) + 4 * i).cast::<AtomicU32>();
            Some((*cell).load(Ordering::Acquire))
        }
    }

    /// How many children sort before a child labelled `byte` (`None`: END).
    ///
    /// # Safety
    /// The branch is whole.
    #[inline]
    pub(crate) unsafe fn rank(self, byte: Option<u8>) -> usize {
        let Some(byte) = byte else { return 0 };
        let n = labels_of(self.h);
        let before = if n <= SMALL_MAX {
            let mut k = 0;
            // SAFETY: a small branch has this label.
            while k < n && unsafe { *self.p.add(LABELS_AT + k) } < byte {
                k += 1;
            }
            k
        } else {
            let w = word_of(byte);
            // SAFETY: big layout.
            let (word, rank) = unsafe { (self.map_word(w), *self.p.add(RANKS_AT + w)) };
            usize::from(rank) + (word & (bit_of(byte) - 1)).count_ones() as usize
        };
        before + end_of(self.h)
    }
}

/// Bytes of a word that equal the pattern's byte: high bits set, the lowest one exact.
#[inline(always)]
fn match8(word: u64, pattern: u64) -> u64 {
    let x = word ^ pattern;
    x.wrapping_sub(ONES) & !x & HIGHS
}

/// Loads of labels that may take some of the cells behind them along.
///
/// In a shared trie a writer may replace such a cell at the same time. Its bytes are not looked at, but to the language
/// any plain load of them is a race, so the load is one instruction that the compiler does not see into. (The processor
/// loads bytes that change as one or the other.) Where that is not to be had, and under tools that look for races,
/// only labels are loaded.
mod wide {
    /// Eight bytes from byte 4 of a branch: at least its `n` labels, if they are not more.
    ///
    /// # Safety
    /// `p` points 4 bytes before `n` labels, padded to four; in all there are 12 bytes and more.
    #[inline(always)]
    #[cfg(all(target_arch = "x86_64", not(miri), not(sapwood_exact_loads)))]
    pub(super) unsafe fn eight(p: *const u8, _: usize) -> u64 {
        let word: u64;
        // SAFETY: the caller's promise; it reads eight bytes and does nothing else.
        unsafe {
            core::arch::asm!(
                "mov {word}, qword ptr [{p} + 4]",
                p = in(reg) p,
                word = out(reg) word,
                options(pure, readonly, nostack, preserves_flags)
            );
        }
        word
    }

    /// As above: only the labels; if there are up to four they come twice.
    ///
    /// # Safety
    /// As above.
    #[inline(always)]
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(sapwood_exact_loads))))]
    pub(super) unsafe fn eight(p: *const u8, n: usize) -> u64 {
        // SAFETY: the labels are padded to four.
        unsafe {
            let low = p.add(4).cast::<u32>();
            let high = low.add(usize::from(n > 4));
            let (low, high) = (low.read_unaligned(), high.read_unaligned());
            u64::from(u32::from_le(low)) | u64::from(u32::from_le(high)) << 32
        }
    }

    /// 32 bytes from byte 4 of a branch.
    ///
    /// # Safety
    /// `p` points at 36 bytes.
    #[inline(always)]
    #[cfg(all(target_arch = "x86_64", not(miri), not(sapwood_exact_loads)))]
    pub(super) unsafe fn thirty_two(
        p: *const u8,
    ) -> (core::arch::x86_64::__m128i, core::arch::x86_64::__m128i) {
        let (low, high);
        // SAFETY: the caller's promise; SSE2 is part of x86-64. It reads 32 bytes and does nothing else.
        unsafe {
            core::arch::asm!(
                "movdqu {low}, xmmword ptr [{p} + 4]",
                "movdqu {high}, xmmword ptr [{p} + 20]",
                p = in(reg) p,
                low = out(xmm_reg) low,
                high = out(xmm_reg) high,
                options(pure, readonly, nostack, preserves_flags)
            );
        }
        (low, high)
    }
}
