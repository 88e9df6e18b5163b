//! Ranks: how many of a node's sorted numbers are below another. All of them are compared, several
//! at a time, as that takes less time than mispredicted branches. For the same reason the number of
//! comparisons is fixed, unless a node has very many numbers.
//!
//! Pivots are filled up with the highest number, which is below none. Bytes behind a leaf's ends
//! are compared as well, and then not counted.

use sapwood_format::maple::word::Word;

/// # Safety
/// `p` points at `n` sorted numbers, at least one; `LEAF_READ` bytes can be read for each 48 of
/// them or less, and `bytes` bytes. What `NATIVE` says is true.
#[inline(always)]
pub(super) unsafe fn below16<const NATIVE: bool>(
    p: *const u16,
    n: usize,
    x: u16,
    bytes: usize,
) -> usize {
    // SAFETY: the caller's promise.
    unsafe {
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
        {
            use core::arch::x86_64::*;
            // Most leaves are so long; how many entries they have, a branch would not foresee.
            if NATIVE && bytes >= 192 {
                return far16(p, n, x);
            }
            let (x, zero) = (_mm_set1_epi16(x as i16), _mm_setzero_si128());
            let not_below = |at: usize| {
                let numbers = _mm_loadu_si128(p.add(at).cast());
                _mm_cmpeq_epi16(_mm_subs_epu16(x, numbers), zero)
            };
            let sixteen = |at: usize| {
                let bytes = _mm_packs_epi16(not_below(at), not_below(at + 8));
                u64::from(_mm_movemask_epi8(bytes) as u32)
            };
            let mut from = 0;
            loop {
                let found = sixteen(from) | sixteen(from + 16) << 16 | sixteen(from + 32) << 32;
                let found = found | u64::MAX << (n - from).min(63);
                let first = found.trailing_zeros() as usize;
                if first < 48 || n - from <= 48 {
                    return from + first;
                }
                from += 48;
            }
        }
        #[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(miri))))]
        {
            let _ = bytes;
            below(p, n, x)
        }
    }
}

/// As [`below16`], 96 at a time.
///
/// # Safety
/// As for [`below16`]; 192 bytes can be read.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
#[target_feature(enable = "avx2,bmi1")]
#[inline]
unsafe fn far16(p: *const u16, n: usize, x: u16) -> usize {
    use core::arch::x86_64::*;
    // SAFETY: the caller's promise.
    unsafe {
        let (x, zero) = (_mm256_set1_epi16(x as i16), _mm256_setzero_si256());
        let mut from = 0;
        loop {
            let not_below = |at: usize| {
                let numbers = _mm256_loadu_si256(p.add(from + at).cast());
                _mm256_cmpeq_epi16(_mm256_subs_epu16(x, numbers), zero)
            };
            let thirty_two = |at: usize| {
                let bytes = _mm256_packs_epi16(not_below(at), not_below(at + 16));
                let bytes = _mm256_permute4x64_epi64::<0b11_01_10_00>(bytes);
                u64::from(_mm256_movemask_epi8(bytes) as u32)
            };
            let near = thirty_two(0) | thirty_two(32) << 32;
            let far = (thirty_two(64) | 1 << 32).trailing_zeros() as usize;
            // Both are counted: which one is needed, a branch would not foresee.
            let all_near = usize::from(near == 0).wrapping_neg();
            let first = (near.trailing_zeros() as usize + (far & all_near)).min(n - from);
            if first < 96 || n - from <= 96 {
                return from + first;
            }
            // The last 96 numbers: some of them for a second time.
            from += 96.min(n - from - 49);
        }
    }
}

/// # Safety
/// As for [`below16`], for each 32 numbers.
#[inline(always)]
pub(super) unsafe fn below32<const NATIVE: bool>(
    p: *const u32,
    n: usize,
    x: u32,
    bytes: usize,
) -> usize {
    // SAFETY: the caller's promise.
    unsafe {
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
        {
            use core::arch::x86_64::*;
            if NATIVE && bytes >= 256 {
                return far32(p, n, x);
            }
            // There are only comparisons of signed numbers.
            let sign = _mm_set1_epi32(i32::MIN);
            let x = _mm_set1_epi32(x as i32 ^ i32::MIN);
            let below = |at: usize| {
                let numbers = _mm_loadu_si128(p.add(at).cast());
                _mm_cmpgt_epi32(x, _mm_xor_si128(numbers, sign))
            };
            let sixteen = |at: usize| {
                let low = _mm_packs_epi32(below(at), below(at + 4));
                let high = _mm_packs_epi32(below(at + 8), below(at + 12));
                u64::from(_mm_movemask_epi8(_mm_packs_epi16(low, high)) as u32)
            };
            let mut from = 0;
            loop {
                let found = !(sixteen(from) | sixteen(from + 16) << 16);
                let found = found | u64::MAX << (n - from).min(63);
                let first = found.trailing_zeros() as usize;
                if first < 32 || n - from <= 32 {
                    return from + first;
                }
                from += 32;
            }
        }
        #[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(miri))))]
        {
            let _ = bytes;
            below(p, n, x)
        }
    }
}

/// As [`below32`], 64 at a time.
///
/// # Safety
/// As for [`below32`]; 256 bytes can be read.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
#[target_feature(enable = "avx2,bmi1")]
#[inline]
unsafe fn far32(p: *const u32, n: usize, x: u32) -> usize {
    use core::arch::x86_64::*;
    // SAFETY: the caller's promise.
    unsafe {
        let sign = _mm256_set1_epi32(i32::MIN);
        let x = _mm256_set1_epi32(x as i32 ^ i32::MIN);
        let mut from = 0;
        loop {
            let mut below = 0;
            for chunk in 0..8 {
                let numbers = _mm256_loadu_si256(p.add(from + chunk * 8).cast());
                let lanes = _mm256_cmpgt_epi32(x, _mm256_xor_si256(numbers, sign));
                let mask = _mm256_movemask_ps(_mm256_castsi256_ps(lanes)) as u32;
                below |= u64::from(mask) << (chunk * 8);
            }
            let first = (!below).trailing_zeros() as usize;
            let first = first.min(n - from);
            if first < 64 || n - from <= 64 {
                return from + first;
            }
            from += 64.min(n - from - 33);
        }
    }
}

/// With `NATIVE`, the processor has what `has_native` asks for.
///
/// # Safety
/// As for [`below16`], for each 20 numbers; what `NATIVE` says is true.
#[inline(always)]
pub(super) unsafe fn below64<const NATIVE: bool>(p: *const u64, n: usize, x: u64) -> usize {
    // SAFETY: the caller's promise.
    unsafe {
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
        if NATIVE {
            return twenties(p, n, x);
        }
        below(p, n, x)
    }
}

/// As [`below64`], of numbers that are filled up with the highest one to `filled`, a multiple of
/// four.
///
/// # Safety
/// `p` points at as many sorted numbers; what `NATIVE` says is true.
#[inline(always)]
pub(super) unsafe fn below_filled<const NATIVE: bool>(
    p: *const u64,
    n: usize,
    filled: usize,
    x: u64,
) -> usize {
    // SAFETY: the caller's promise.
    unsafe {
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
        if NATIVE {
            return fours(p, filled, x);
        }
        let _ = filled;
        below(p, n, x)
    }
}

/// As [`below_filled`], of the words of a map that are wider.
///
/// # Safety
/// `p` points at as many sorted words; what `NATIVE` says is true.
#[inline(always)]
pub(super) unsafe fn below_wide<const NATIVE: bool, W: Word>(
    p: *const u8,
    n: usize,
    filled: usize,
    x: W,
) -> usize {
    // SAFETY: the caller's promise.
    unsafe {
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
        if NATIVE {
            return wide_fours(p, filled, x.to_u128());
        }
        let _ = filled;
        below_words(p, n, x)
    }
}

/// As [`below64`], of the words of a map.
///
/// # Safety
/// At `p` are `n` sorted words.
#[inline]
pub(super) unsafe fn below_words<W: Word>(p: *const u8, mut n: usize, x: W) -> usize {
    let at = |k: usize| {
        // SAFETY: the caller's promise; all places stay within the words.
        unsafe { p.cast::<W>().add(k).read_unaligned() }
    };
    let mut from = 0;
    while n > 1 {
        let half = n / 2;
        from += if at(from + half - 1) < x { half } else { 0 };
        n -= half;
    }
    from + usize::from(n == 1 && at(from) < x)
}

/// Searches by halves; the only branch is that of the loop.
///
/// # Safety
/// At `p` are `n` sorted numbers.
#[inline(always)]
unsafe fn below<T: Copy + Ord>(p: *const T, mut n: usize, x: T) -> usize {
    let mut from = 0;
    // SAFETY: the caller's promise; `from + n` stays within the numbers.
    unsafe {
        while n > 1 {
            let half = n / 2;
            from += if p.add(from + half - 1).read() < x {
                half
            } else {
                0
            };
            n -= half;
        }
        from + usize::from(n == 1 && p.add(from).read() < x)
    }
}

/// # Safety
/// As for [`below64`].
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn twenties(p: *const u64, n: usize, x: u64) -> usize {
    use core::arch::x86_64::*;
    // SAFETY: the caller's promise.
    unsafe {
        let sign = _mm256_set1_epi64x(i64::MIN);
        let x = _mm256_set1_epi64x(x as i64 ^ i64::MIN);
        let mut from = 0;
        loop {
            let mut below = 0;
            for chunk in 0..5 {
                let numbers = _mm256_loadu_si256(p.add(from + chunk * 4).cast());
                let lanes = _mm256_cmpgt_epi64(x, _mm256_xor_si256(numbers, sign));
                below |= (_mm256_movemask_pd(_mm256_castsi256_pd(lanes)) as u64) << (chunk * 4);
            }
            let found = !below | u64::MAX << (n - from).min(63);
            let first = found.trailing_zeros() as usize;
            if first < 20 || n - from <= 20 {
                return from + first;
            }
            from += 20;
        }
    }
}

/// # Safety
/// At `p` are `n` sorted numbers, a multiple of four.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn fours(p: *const u64, n: usize, x: u64) -> usize {
    use core::arch::x86_64::*;
    // SAFETY: the caller's promise.
    unsafe {
        let sign = _mm256_set1_epi64x(i64::MIN);
        let x = _mm256_set1_epi64x(x as i64 ^ i64::MIN);
        let below = |chunk: usize| {
            let numbers = _mm256_loadu_si256(p.cast::<__m256i>().add(chunk));
            _mm256_cmpgt_epi64(x, _mm256_xor_si256(numbers, sign))
        };
        let mut count = _mm256_setzero_si256();
        let mut chunk = 0;
        // Three at a time, as nodes of the usual size have.
        while chunk + 3 <= n / 4 {
            let two = _mm256_add_epi64(below(chunk), below(chunk + 1));
            count = _mm256_sub_epi64(count, _mm256_add_epi64(two, below(chunk + 2)));
            chunk += 3;
        }
        while chunk < n / 4 {
            count = _mm256_sub_epi64(count, below(chunk));
            chunk += 1;
        }
        let count = _mm_add_epi64(
            _mm256_castsi256_si128(count),
            _mm256_extracti128_si256::<1>(count),
        );
        (_mm_cvtsi128_si64(count) + _mm_extract_epi64::<1>(count)) as usize
    }
}

/// # Safety
/// At `p` are `n` sorted numbers of 128 bits, a multiple of four.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn wide_fours(p: *const u8, n: usize, x: u128) -> usize {
    use core::arch::x86_64::*;
    // SAFETY: the caller's promise.
    unsafe {
        let sign = _mm256_set1_epi64x(i64::MIN);
        let flipped = |half: u64| _mm256_set1_epi64x(half as i64 ^ i64::MIN);
        let (low, high) = (flipped(x as u64), flipped((x >> 64) as u64));
        let mut count = _mm256_setzero_si256();
        for four in 0..n / 4 {
            let at = p.add(four * 64).cast::<__m256i>();
            let (a, b) = (_mm256_loadu_si256(at), _mm256_loadu_si256(at.add(1)));
            // The order within the four does not matter, as they are only counted.
            let lows = _mm256_xor_si256(_mm256_unpacklo_epi64(a, b), sign);
            let highs = _mm256_xor_si256(_mm256_unpackhi_epi64(a, b), sign);
            let equal = _mm256_cmpeq_epi64(high, highs);
            let by_low = _mm256_and_si256(equal, _mm256_cmpgt_epi64(low, lows));
            let below = _mm256_or_si256(_mm256_cmpgt_epi64(high, highs), by_low);
            count = _mm256_sub_epi64(count, below);
        }
        let count = _mm_add_epi64(
            _mm256_castsi256_si128(count),
            _mm256_extracti128_si256::<1>(count),
        );
        (_mm_cvtsi128_si64(count) + _mm_extract_epi64::<1>(count)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_count_alike() {
        let mut rng = fastrand::Rng::with_seed(7);
        let native = crate::raw::read::has_native();
        for n in 1..255_usize {
            let mut numbers: Vec<u64> = (0..n).map(|_| rng.u64(..) >> rng.u32(0..64)).collect();
            numbers.sort_unstable();
            let mut wide = numbers.clone();
            wide.resize(n.next_multiple_of(4), u64::MAX);
            let filled = wide.len();
            let mut narrow: Vec<u32> = numbers.iter().map(|&x| (x >> 32) as u32).collect();
            let mut short: Vec<u16> = numbers.iter().map(|&x| (x >> 48) as u16).collect();
            // What lies behind does not matter.
            for _ in 0..100 {
                wide.push(rng.u64(..));
                narrow.push(rng.u32(..));
                short.push(rng.u16(..));
            }
            let edges = [0, 1, u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1];
            for x in numbers.iter().copied().chain(edges) {
                let count = numbers.iter().filter(|&&number| number < x).count();
                // SAFETY: filled up above; what is native was asked.
                unsafe {
                    assert_eq!(below64::<false>(wide.as_ptr(), n, x), count);
                    assert_eq!(below_filled::<false>(wide.as_ptr(), n, filled, x), count);
                    if native {
                        assert_eq!(below64::<true>(wide.as_ptr(), n, x), count);
                        assert_eq!(below_filled::<true>(wide.as_ptr(), n, filled, x), count);
                    }
                    // Words of which the high halves decide, the low ones, or both.
                    for spread in [1 << 64, 1, (1 << 40) + 7] {
                        let word = |number: u64| u128::from(number) * spread;
                        let mut words: Vec<u128> = numbers.iter().copied().map(word).collect();
                        words.resize(filled, u128::MAX);
                        let x = word(x).saturating_add(u128::from(rng.bool()));
                        let count = words[..n].iter().filter(|&&number| number < x).count();
                        let p = words.as_ptr().cast();
                        assert_eq!(below_wide::<false, u128>(p, n, filled, x), count);
                        let far = native.then(|| below_wide::<true, u128>(p, n, filled, x));
                        assert_eq!(far.unwrap_or(count), count);
                    }
                    let x = (x >> 32) as u32;
                    let count = narrow[..n].iter().filter(|&&number| number < x).count();
                    assert_eq!(below32::<false>(narrow.as_ptr(), n, x, 0), count);
                    for bytes in [0, 256] {
                        let far = native.then(|| below32::<true>(narrow.as_ptr(), n, x, bytes));
                        assert_eq!(far.unwrap_or(count), count);
                    }
                    let x = (x >> 16) as u16;
                    let count = short[..n].iter().filter(|&&number| number < x).count();
                    assert_eq!(below16::<false>(short.as_ptr(), n, x, 0), count);
                    for bytes in [0, 256] {
                        let far = native.then(|| below16::<true>(short.as_ptr(), n, x, bytes));
                        assert_eq!(far.unwrap_or(count), count);
                    }
                }
            }
        }
    }
}
