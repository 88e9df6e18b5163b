//! Wide loads of labels, tags and short pieces of keys, which may also load what lies beside them:
//! some of the cells, or bytes of a block that were never written.
//!
//! In a shared trie a writer may replace such a cell at the same time. The bytes of the cell are
//! not used, but for the language any plain load of them is a data race. So the load is one
//! instruction of inline assembly, into which the compiler does not see. (The processor loads the
//! old or the new value of each byte.) On other processors, and under tools that look for races,
//! only labels and tags are loaded.

pub(crate) use loads::{begins, ends, equal24, equal32, greater8, greater32};

#[cfg(all(target_arch = "x86_64", not(miri), not(sapwood_exact_loads)))]
mod loads {
    use core::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_cvtsi64_si128, _mm_max_epu8, _mm_movemask_epi8,
        _mm_set1_epi64x,
    };

    /// The instruction that moves 16 bytes. A build with AVX uses AVX's, because some processors
    /// stall when legacy SSE instructions are mixed with AVX ones.
    #[cfg(target_feature = "avx")]
    macro_rules! load {
        ($rest:literal) => {
            concat!("vmovdqu ", $rest)
        };
    }
    #[cfg(not(target_feature = "avx"))]
    macro_rules! load {
        ($rest:literal) => {
            concat!("movdqu ", $rest)
        };
    }

    /// Loads 16 bytes from an offset on.
    ///
    /// # Safety
    /// There are as many at `p` and the offset.
    #[inline(always)]
    unsafe fn sixteen<const AT: usize>(p: *const u8) -> __m128i {
        let bytes;
        // SAFETY: the caller's promise; SSE2 is part of x86-64. It reads 16 bytes and does nothing
        // else.
        unsafe {
            core::arch::asm!(
                load!("{bytes}, xmmword ptr [{p} + {at}]"),
                p = in(reg) p,
                at = const AT,
                bytes = out(xmm_reg) bytes,
                options(pure, readonly, nostack, preserves_flags)
            );
        }
        bytes
    }

    /// The bytes that are not greater than those of `most`, as one bit for each.
    #[inline(always)]
    fn not_greater(bytes: __m128i, most: __m128i) -> u32 {
        // SAFETY: SSE2 is part of x86-64.
        unsafe { _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_max_epu8(bytes, most), most)) as u32 }
    }

    /// A byte eight times. The multiplication takes fewer instructions than the shuffles of
    /// `_mm_set1_epi8`.
    #[inline(always)]
    fn eight(byte: u8) -> i64 {
        (u64::from(byte) * 0x0101_0101_0101_0101) as i64
    }

    /// A byte in all places.
    #[inline(always)]
    fn all(byte: u8) -> __m128i {
        // SAFETY: SSE2 is part of x86-64.
        unsafe { _mm_set1_epi64x(eight(byte)) }
    }

    /// Whether a key of eight bytes or more begins with the `len` bytes at `p`, which are fewer.
    ///
    /// # Safety
    /// `p` points at eight bytes, of which those behind `len` may never have been written.
    #[inline(always)]
    pub(crate) unsafe fn begins(p: *const u8, len: usize, key: &[u8]) -> bool {
        // SAFETY: the caller's promise; the key has eight bytes.
        let unlike = unsafe { word::<0>(p) ^ word::<0>(key.as_ptr()) };
        unlike.trailing_zeros() as usize >= 8 * len
    }

    /// Whether a key of eight bytes or more ends with the `len` bytes before `end`, which are
    /// fewer.
    ///
    /// # Safety
    /// Before `end` are eight bytes, of which the first may never have been written.
    #[inline(always)]
    pub(crate) unsafe fn ends(end: *const u8, len: usize, key: &[u8]) -> bool {
        // SAFETY: the caller's promise; the key has eight bytes.
        let unlike = unsafe { word::<0>(end.sub(8)) ^ word::<0>(key.as_ptr().add(key.len() - 8)) };
        unlike.leading_zeros() as usize >= 8 * len
    }

    /// Eight bytes from an offset on, the first of them as the lowest.
    ///
    /// # Safety
    /// There are as many at `p` and the offset.
    #[inline(always)]
    unsafe fn word<const AT: usize>(p: *const u8) -> u64 {
        let word: u64;
        // SAFETY: the caller's promise; it reads eight bytes and does nothing else.
        unsafe {
            core::arch::asm!(
                "mov {word}, qword ptr [{p} + {at}]",
                p = in(reg) p,
                at = const AT,
                word = out(reg) word,
                options(pure, readonly, nostack, preserves_flags)
            );
        }
        word
    }

    /// For `n` labels, eight at most: the lowest bit of the result is that of the first label that
    /// is greater than the byte. Bit `n` is set.
    ///
    /// # Safety
    /// `p` points at 12 bytes.
    #[inline(always)]
    pub(crate) unsafe fn greater8(p: *const u8, n: usize, byte: u8) -> u32 {
        // SAFETY: the caller's promise; SSE2 is part of x86-64.
        let (labels, most) = unsafe {
            let labels = _mm_cvtsi64_si128(word::<4>(p) as i64);
            (labels, _mm_cvtsi64_si128(eight(byte)))
        };
        !not_greater(labels, most) | 1 << n
    }

    /// As `greater8`, for up to 32 labels.
    ///
    /// # Safety
    /// `p` points at 36 bytes.
    #[inline(always)]
    pub(crate) unsafe fn greater32(p: *const u8, n: usize, byte: u8) -> u64 {
        // SAFETY: the caller's promise.
        let (low, high) = unsafe { (sixteen::<4>(p), sixteen::<20>(p)) };
        let most = all(byte);
        let fits = not_greater(low, most) | not_greater(high, most) << 16;
        !u64::from(fits) | 1 << n
    }

    /// The bytes that equal another one, as one bit for each.
    #[inline(always)]
    fn equal(bytes: __m128i, other: __m128i) -> u32 {
        // SAFETY: SSE2 is part of x86-64.
        unsafe { _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, other)) as u32 }
    }

    /// The tags behind byte 4 that equal `tag`, as one bit for each of `n` tags. Higher bits have
    /// no meaning.
    ///
    /// # Safety
    /// `p` points at 20 bytes, and at `n + 4`.
    #[inline(always)]
    pub(crate) unsafe fn equal32(p: *const u8, n: usize, tag: u8) -> u32 {
        let last = n.max(16) - 16;
        // SAFETY: the caller's promise: the second load ends behind the last tag, or is the first.
        let (low, high) = unsafe { (sixteen::<4>(p), sixteen::<4>(p.add(last))) };
        let tag = all(tag);
        equal(low, tag) | equal(high, tag) << last
    }

    /// The tags behind byte 8 that equal `tag`, as one bit for each of `n` tags, 24 at most. Higher
    /// bits have no meaning.
    ///
    /// # Safety
    /// `p` points at 32 bytes.
    #[inline(always)]
    pub(crate) unsafe fn equal24(p: *const u8, _: usize, tag: u8) -> u32 {
        // SAFETY: the caller's promise.
        let (low, high) = unsafe { (sixteen::<8>(p), sixteen::<16>(p)) };
        let tag = all(tag);
        equal(low, tag) | equal(high, tag) << 8
    }
}

/// The functions of the other module, in plain Rust: they load only labels and tags.
#[cfg(not(all(target_arch = "x86_64", not(miri), not(sapwood_exact_loads))))]
mod loads {
    /// Sets bit `i` for each `i` below `n` for which `test` returns true for byte `4 + i`.
    ///
    /// # Safety
    /// `p` points at `n + 4` bytes.
    #[inline(always)]
    unsafe fn passing(p: *const u8, n: usize, test: impl Fn(u8) -> bool) -> u64 {
        // SAFETY: the caller's promise.
        (0..n).fold(0, |bits, i| {
            bits | u64::from(test(unsafe { *p.add(4 + i) })) << i
        })
    }

    /// # Safety
    /// `p` points at `len` bytes, and the key has as many.
    #[inline(always)]
    pub(crate) unsafe fn begins(p: *const u8, len: usize, key: &[u8]) -> bool {
        // SAFETY: the caller's promise.
        (0..len).all(|i| unsafe { *p.add(i) } == key[i])
    }

    /// # Safety
    /// Before `end` are `len` bytes, and the key has as many.
    #[inline(always)]
    pub(crate) unsafe fn ends(end: *const u8, len: usize, key: &[u8]) -> bool {
        // SAFETY: the caller's promise.
        unsafe { begins(end.sub(len), len, &key[key.len() - len..]) }
    }

    /// # Safety
    /// `p` points at `n + 4` bytes.
    #[inline(always)]
    pub(crate) unsafe fn greater8(p: *const u8, n: usize, byte: u8) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { passing(p, n, |label| label > byte) as u32 | 1 << n }
    }

    /// # Safety
    /// `p` points at `n + 4` bytes.
    #[inline(always)]
    pub(crate) unsafe fn greater32(p: *const u8, n: usize, byte: u8) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { passing(p, n, |label| label > byte) | 1 << n }
    }

    /// # Safety
    /// `p` points at `n + 4` bytes.
    #[inline(always)]
    pub(crate) unsafe fn equal32(p: *const u8, n: usize, tag: u8) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { passing(p, n, |other| other == tag) as u32 }
    }

    /// # Safety
    /// `p` points at `n + 8` bytes.
    #[inline(always)]
    pub(crate) unsafe fn equal24(p: *const u8, n: usize, tag: u8) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { equal32(p.add(4), n, tag) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wide loads find what a comparison byte by byte finds, in random blocks.
    #[test]
    fn wide_searches_are_searches_byte_by_byte() {
        let mut rng = fastrand::Rng::with_seed(11);
        for _ in 0..if cfg!(miri) { 20 } else { 20_000 } {
            let few = rng.u8(2..);
            let block: Vec<u8> = (0..48).map(|_| rng.u8(..few)).collect();
            let (n, byte) = (rng.usize(1..=32), rng.u8(..few));
            let bits = |from: usize, n: usize, test: &dyn Fn(u8) -> bool| {
                (0..n).fold(0, |bits, i| bits | u64::from(test(block[from + i])) << i)
            };
            let below = |n: usize| (1 << n) - 1;
            let greater = bits(4, n, &|label| label > byte) | 1 << n;
            let p = block.as_ptr();
            // SAFETY: the block has 48 bytes.
            unsafe {
                let equal = u64::from(equal32(p, n, byte)) & below(n);
                assert_eq!(equal, bits(4, n, &|tag| tag == byte));
                assert_eq!(greater32(p, n, byte) & below(n + 1), greater);
                if n <= 8 {
                    let found = u64::from(greater8(p, n, byte));
                    assert_eq!(found & below(n + 1), greater);
                }
                if n <= 24 {
                    let equal = u64::from(equal24(p, n, byte)) & below(n);
                    assert_eq!(equal, bits(8, n, &|tag| tag == byte));
                }
            }
        }
    }
}
