//! The bytes of a branch: header, labels, cells. Drawn in `docs/qp.md`.
//!
//! A *cell* is a `u32`: bit 0 says leaf, the other 31 bits are the reference in units of 8 bytes
//! (so the byte offset of a branch is `cell * 4`, and the empty cell is 0). Every branch starts with
//! one header word:
//!
//! ```text
//! bit 0..16   offset: the index of the key byte at which the children differ
//! bit 16..24  number of labels - 1 (1..=256 labels)
//! bit 24      END: the first cell is the child whose key ends at the offset
//! bit 25      BIG: bitmap layout (more than 32 labels)
//! bit 26      FRESH: made by the open transaction, not yet published, may be changed in place
//! bit 27..31  where the cell of the first label is, in units of 4 bytes
//! ```
//!
//! The last field follows from the others; it is there because a descent needs it at every level.

use core::sync::atomic::{AtomicU32, Ordering};

/// Tag of a leaf cell.
pub(crate) const LEAF: u32 = 1;
/// Header bit: the first cell belongs to the key that ends at the branch's offset.
pub(crate) const END: u32 = 1 << 24;
/// Header bit: bitmap layout.
pub(crate) const BIG: u32 = 1 << 25;
/// Header bit: unpublished, owned by the open transaction.
pub(crate) const FRESH: u32 = 1 << 26;

/// The most labels in the small layout.
pub(crate) const SMALL_MAX: usize = 32;
/// Bytes of the largest branch: a bitmap and 257 cells.
#[cfg(feature = "std")]
pub(crate) const LARGEST: usize = BIG_CELLS + 257 * 4 + 4;
/// Where the bitmap of a big branch starts: after the header and four rank bytes.
pub(super) const BIG_MAP: usize = 8;
/// Where the cells of a big branch start.
const BIG_CELLS: usize = 40;

/// Low bit pattern of a SWAR search.
const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// The key byte index at which the children differ.
#[inline(always)]
pub(crate) fn offset_of(header: u32) -> usize {
    (header & 0xffff) as usize
}

/// Number of labels, without the END child.
#[inline(always)]
pub(crate) fn labels_of(header: u32) -> usize {
    ((header >> 16) & 0xff) as usize + 1
}

/// 1 when the branch has an END child.
#[inline(always)]
pub(crate) fn end_of(header: u32) -> usize {
    ((header >> 24) & 1) as usize
}

/// Number of children, END included.
#[inline(always)]
pub(crate) fn children_of(header: u32) -> usize {
    labels_of(header) + end_of(header)
}

/// Where the cell of the first label is.
#[inline(always)]
pub(crate) fn first_at(header: u32) -> usize {
    (header >> 25) as usize & 0x3c
}

/// Where the cells start: END's first.
#[inline(always)]
pub(crate) fn cells_at(header: u32) -> usize {
    first_at(header) - 4 * end_of(header)
}

/// Where the cells end.
#[inline(always)]
pub(crate) fn end_at(header: u32) -> usize {
    first_at(header) + 4 * labels_of(header)
}

/// Bytes of the branch, before rounding to units.
#[inline(always)]
pub(crate) fn size_of(header: u32) -> usize {
    end_at(header)
}

/// Bytes of the branch's block.
#[inline(always)]
pub(crate) fn block_of(header: u32) -> usize {
    (size_of(header) + 7) & !7
}

/// Builds a header word; the layout follows from the number of labels.
#[inline]
pub(crate) fn header(offset: usize, labels: usize, end: bool) -> u32 {
    debug_assert!(offset <= 0xffff && (1..=256).contains(&labels));
    let (big, cells) = if labels > SMALL_MAX {
        (BIG, BIG_CELLS)
    } else {
        (0, 4 + ((labels + 3) & !3))
    };
    let first = cells as u32 / 4 + u32::from(end);
    offset as u32 | (labels as u32 - 1) << 16 | u32::from(end) << 24 | big | first << 27
}

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
            // SAFETY: label i of a small branch is at byte 4 + i.
            return Some(unsafe { *self.p.add(4 + i) });
        }
        let mut rest = i as u32;
        for w in 0..4 {
            // SAFETY: a big branch has four bitmap words.
            let mut word = unsafe { self.map_word(w) };
            let n = word.count_ones();
            if rest < n {
                for _ in 0..rest {
                    word &= word - 1;
                }
                return Some((w as u32 * 64 + word.trailing_zeros()) as u8);
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
        if self.h & 0x00f8_0000 == 0 {
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
        } else if self.h & 0x00e0_0000 == 0 {
            // SAFETY: more than eight labels and at most 32.
            unsafe { self.find_of_32(byte) }
        } else {
            let w = usize::from(byte >> 6);
            // SAFETY: more than 32 labels means the big layout, which has four words and ranks.
            let (word, rank) = unsafe { (self.map_word(w), *self.p.add(4 + w)) };
            let bit = 1u64 << (byte & 63);
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
            // SAFETY: label k of a small branch is at byte 4 + k.
            while k < n && unsafe { *self.p.add(4 + k) } < byte {
                k += 1;
            }
            k
        } else {
            let w = usize::from(byte >> 6);
            // SAFETY: big layout.
            let (word, rank) = unsafe { (self.map_word(w), *self.p.add(4 + w)) };
            usize::from(rank) + (word & ((1u64 << (byte & 63)) - 1)).count_ones() as usize
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
