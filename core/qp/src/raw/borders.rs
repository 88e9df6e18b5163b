//! The search of the borders of a cluster for a key.

/// The borders of a cluster of either kind: the arrays `d` and `c`.
#[derive(Clone, Copy)]
pub(crate) struct Borders {
    /// Where `d` begins; `c` follows behind `capacity` bytes.
    pub(crate) d: *const u8,
    pub(crate) capacity: usize,
    /// The number of entries.
    pub(crate) n: usize,
    /// The offset in the key from which `d` counts.
    pub(crate) base: usize,
}

impl Borders {
    /// The number of the entry that a key leads to.
    ///
    /// # Safety
    /// They are those of a whole cluster, which nobody changes.
    #[inline(always)]
    pub(crate) unsafe fn search(self, key: &[u8]) -> usize {
        if key.len() <= self.base {
            return 0;
        }
        // SAFETY: the caller's promise; the processor can do what it was asked for.
        unsafe {
            #[cfg(all(target_arch = "x86_64", not(miri), not(sapwood_exact_loads)))]
            if vectors::there() {
                return vectors::search(self.d, self.capacity, self.n, self.base, key);
            }
            self.search_each(key)
        }
    }

    /// `search`, border by border. It is not inlined, so that the loop has all registers: inlined
    /// into a search, it made the search take a seventh more time.
    ///
    /// # Safety
    /// As for `search`; the key is longer than `base`.
    #[inline(never)]
    unsafe fn search_each(self, key: &[u8]) -> usize {
        let bytes = self.d.wrapping_add(self.capacity);
        let key = &key[self.base..];
        // `at` is the key's place so far. `limit` is the offset of the last border that the key
        // sorts before: borders behind it with greater offsets are not on the key's path.
        let (mut at, mut limit) = (0, 256);
        for i in 1..self.n {
            // SAFETY: the caller's promise; behind the key's end, its first byte is read instead.
            let (d, right) = unsafe {
                let d = usize::from(*self.d.add(i));
                let inside = d < key.len();
                let byte = *key.get_unchecked(if inside { d } else { 0 });
                (d, inside & (byte >= *bytes.add(i)))
            };
            let asked = d < limit;
            at = if asked & right { i } else { at };
            let next = if right { 256 } else { d };
            limit = if asked { next } else { limit };
        }
        at
    }
}

/// The search with all borders at once, by a shuffle of the key's bytes, for processors with AVX2.
#[cfg(all(target_arch = "x86_64", not(miri), not(sapwood_exact_loads)))]
mod vectors {
    // Up to Rust 1.85, the instructions are unsafe functions, and so is whatever uses them.
    #![allow(unsafe_op_in_unsafe_fn)]

    use core::arch::asm;
    use core::arch::x86_64::{
        __m128i, __m256i, _mm_loadu_si128, _mm_set_epi64x, _mm256_adds_epu8,
        _mm256_broadcastsi128_si256, _mm256_cmpeq_epi8, _mm256_max_epu8, _mm256_movemask_epi8,
        _mm256_or_si256, _mm256_set1_epi8, _mm256_shuffle_epi8, _mm256_storeu_si256,
        _mm256_sub_epi8,
    };

    use super::Borders;

    /// Whether the processor has the instructions.
    #[inline(always)]
    pub(super) fn there() -> bool {
        #[cfg(feature = "std")]
        return std::arch::is_x86_feature_detected!("avx2");
        #[cfg(not(feature = "std"))]
        return cfg!(target_feature = "avx2");
    }

    /// The first 16 bytes of an array, then the last 16. If it has fewer, both are its bytes with
    /// `skip` others before them.
    ///
    /// The others may be cells that a writer replaces, so the loads are assembly: see `wide`.
    ///
    /// # Safety
    /// There are 16 bytes before the end of the array. The processor has AVX2.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load(array: *const u8, capacity: usize, skip: usize) -> __m256i {
        let bytes: __m256i;
        // SAFETY: the caller's promise. It reads twice 16 bytes and does nothing else.
        unsafe {
            asm!(
                "vmovdqu {bytes:x}, xmmword ptr [{first}]",
                "vinserti128 {bytes:y}, {bytes:y}, xmmword ptr [{last}], 1",
                first = in(reg) array.wrapping_sub(skip),
                last = in(reg) array.wrapping_add(capacity).wrapping_sub(16),
                bytes = out(ymm_reg) bytes,
                options(pure, readonly, nostack, preserves_flags)
            );
        }
        bytes
    }

    /// The upper bits of all bytes.
    ///
    /// # Safety
    /// The processor has AVX2.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn bits(bytes: __m256i) -> u64 {
        u64::from(_mm256_movemask_epi8(bytes) as u32)
    }

    /// The bytes that are not less than others, as bytes with all bits.
    ///
    /// # Safety
    /// The processor has AVX2.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn not_less(bytes: __m256i, others: __m256i) -> __m256i {
        _mm256_cmpeq_epi8(_mm256_max_epu8(bytes, others), bytes)
    }

    /// Sixteen bytes of the key, from `start` on, or from where there are as many. Also tells where
    /// they begin. If the key is shorter, it is all of it, and zeros.
    ///
    /// # Safety
    /// The key is not empty.
    #[inline(always)]
    unsafe fn window(key: &[u8], start: usize) -> (__m128i, usize) {
        let (p, len) = (key.as_ptr(), key.len());
        // SAFETY: the loads are inside the key; SSE2 is part of x86-64.
        unsafe {
            if len >= 16 {
                let start = start.min(len - 16);
                return (_mm_loadu_si128(p.add(start).cast()), start);
            }
            if len < 8 {
                return (_mm_set_epi64x(0, short(key) as i64), 0);
            }
            let low = p.cast::<u64>().read_unaligned();
            let high = p.add(len - 8).cast::<u64>().read_unaligned();
            // The bytes from the ninth on; none if there are only eight.
            let half = 4 * (16 - len);
            let high = high >> half >> half;
            (_mm_set_epi64x(high as i64, low as i64), 0)
        }
    }

    /// A key of one to seven bytes, and zeros behind it. Some bytes are loaded twice, to the same
    /// place.
    fn short(key: &[u8]) -> u64 {
        let len = key.len();
        if let (Some(low), Some(high)) = (key.first_chunk(), key.last_chunk()) {
            let high = u64::from(u32::from_le_bytes(*high)) << (8 * (len - 4));
            return u64::from(u32::from_le_bytes(*low)) | high;
        }
        let byte = |i: usize| u64::from(key[i]) << (8 * i);
        byte(0) | byte(len / 2) | byte(len - 1)
    }

    /// `Borders::search`.
    ///
    /// # Safety
    /// As for that. The processor has AVX2. The key is longer than `base`.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn search(
        d: *const u8,
        capacity: usize,
        n: usize,
        base: usize,
        key: &[u8],
    ) -> usize {
        // Border `i` is bit `i + skip`, from the seventeenth on bit `i + 32 - capacity`.
        let skip = 16 - capacity.min(16);
        let numbers = (1u64 << n) - 2;
        let borders = (numbers & 0xffff) << skip | (numbers & !0xffff) << (32 - capacity);
        // SAFETY: the caller's promise. Before the arrays are the header and at least as many bytes
        // of tags, cells or places: 16 before the end of each.
        let (offsets, bytes, (first, start)) = unsafe {
            let bytes = load(d.add(capacity), capacity, skip);
            (load(d, capacity, skip), bytes, window(key, base))
        };
        // The upper bit of an index is set if the byte is behind the window.
        let index =
            |offsets, from: usize| _mm256_adds_epu8(offsets, _mm256_set1_epi8((0x70 + from) as i8));
        let places = index(offsets, base - start);
        let mut found = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(first), places);
        let last = _mm256_set1_epi8((key.len() - base - 1).min(255) as i8);
        let inside = bits(not_less(last, offsets)) & borders;
        let far = bits(places) & inside;
        if far != 0 {
            // The window begins at `base`, and there are more bytes behind it.
            // SAFETY: the caller's promise.
            let (second, start) = unsafe { window(key, base + 16) };
            let offsets = _mm256_sub_epi8(offsets, _mm256_set1_epi8(16));
            let places = index(offsets, base + 16 - start);
            if bits(places) & far != 0 {
                let borders = Borders {
                    d,
                    capacity,
                    n,
                    base,
                };
                // SAFETY: the caller's promise.
                return unsafe { borders.search_each(key) };
            }
            let more = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(second), places);
            found = _mm256_or_si256(found, more);
        }
        let right = bits(not_less(found, bytes)) & inside;
        let mut by_bit = [0u8; 32];
        // SAFETY: there is room for 32 bytes.
        unsafe { _mm256_storeu_si256(by_bit.as_mut_ptr().cast(), offsets) };
        // The borders that the key sorts before, and the end.
        let left = (right ^ borders) | 1 << 32;
        let mut next = left.trailing_zeros();
        let mut at = next;
        while next < 32 {
            // Borders behind it with greater offsets, or the same, are not on the key's path.
            // SAFETY: there are 32 bytes.
            let limit = _mm256_set1_epi8(unsafe { *by_bit.get_unchecked(next as usize) } as i8);
            let asked = (!bits(not_less(offsets, limit)) & borders) >> next;
            if asked == 0 {
                break;
            }
            let ask = next + asked.trailing_zeros();
            next = ask + (left >> ask).trailing_zeros();
            at = if next == ask { at } else { next };
        }
        let at = at as usize;
        let border = at - if at < 16 { skip } else { 32 - capacity };
        border.min(n) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both searches find the same in random blocks, also if the borders are those of no keys.
    #[test]
    fn a_search_by_vectors_is_one_border_by_border() {
        let mut rng = fastrand::Rng::with_seed(3);
        for _ in 0..if cfg!(miri) { 50 } else { 50_000 } {
            let capacity = 4 * rng.usize(1..=8);
            let n = rng.usize(1..=capacity);
            let (reach, few) = ([4, 18, 40, 255][rng.usize(..4)], rng.u8(2..));
            let mut block: Vec<u8> = (0..16 + 2 * capacity).map(|_| rng.u8(..)).collect();
            for i in 0..capacity {
                block[16 + i] = rng.u8(..=reach);
                block[16 + capacity + i] = rng.u8(..few);
            }
            let key: Vec<u8> = (0..rng.usize(..60)).map(|_| rng.u8(..few)).collect();
            let borders = Borders {
                d: block[16..].as_ptr(),
                capacity,
                n,
                base: rng.usize(..20),
            };
            // SAFETY: the block has the arrays, and 16 bytes before them.
            unsafe {
                let found = borders.search(&key);
                let expected = match key.len() > borders.base {
                    true => borders.search_each(&key),
                    false => 0,
                };
                assert_eq!(found, expected, "{block:?} {n} {key:?}");
            }
        }
    }
}
