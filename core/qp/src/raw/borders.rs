//! The search of the borders of a cluster for a key.

use super::wide;

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
            match wide::search(self, key) {
                Some(found) => found,
                None => self.search_each(key),
            }
        }
    }

    /// `search`, border by border. It is not inlined, so that the loop has all registers: inlined
    /// into a search, it made the search take a seventh more time.
    ///
    /// # Safety
    /// As for `search`; the key is longer than `base`.
    #[inline(never)]
    pub(crate) unsafe fn search_each(self, key: &[u8]) -> usize {
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
                let equal = u64::from(wide::equal32(p, n, byte)) & below(n);
                assert_eq!(equal, bits(4, n, &|tag| tag == byte));
                assert_eq!(wide::greater32(p, n, byte) & below(n + 1), greater);
                if n <= 8 {
                    let found = u64::from(wide::greater8(p, n, byte));
                    assert_eq!(found & below(n + 1), greater);
                }
                if n <= 24 {
                    let equal = u64::from(wide::equal24(p, n, byte)) & below(n);
                    assert_eq!(equal, bits(8, n, &|tag| tag == byte));
                }
            }
        }
    }
}
