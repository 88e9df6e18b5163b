//! Sixteen tags of a byte each, compared at once.

/// The tags of a set.
#[derive(Clone, Copy)]
pub(super) struct Tags(pub [u64; 2]);

/// Some ways of a set, a bit for each.
#[derive(Clone, Copy)]
pub(super) struct Ways(u32);

impl Tags {
    /// The ways with this tag, exactly: an empty way may still have the words of a key that was
    /// removed.
    #[inline(always)]
    pub(super) fn equal(self, tag: u8) -> Ways {
        Ways(equal(self.0, tag))
    }

    /// The ways that are not empty.
    #[inline(always)]
    pub(super) fn taken(self) -> Ways {
        Ways(0xffff ^ equal(self.0, 0))
    }

    /// The tag of a way.
    pub(super) fn get(self, way: usize) -> u8 {
        (self.0[way / 8] >> (8 * (way % 8))) as u8
    }
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
#[inline(always)]
fn equal([low, high]: [u64; 2], tag: u8) -> u32 {
    use core::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};
    // SAFETY: every x86-64 processor has SSE2.
    unsafe {
        let tags = _mm_set_epi64x(high as i64, low as i64);
        _mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8(tag as i8))) as u32
    }
}

#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
#[inline(always)]
fn equal(tags: [u64; 2], tag: u8) -> u32 {
    portable(tags, tag)
}

#[cfg(any(test, not(all(target_arch = "x86_64", target_feature = "sse2"))))]
#[inline(always)]
fn portable(tags: [u64; 2], tag: u8) -> u32 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const SEVEN: u64 = 0x7f * LOW;
    let [low, high] = tags.map(|tags| {
        let differ = tags ^ (u64::from(tag) * LOW);
        let same = !((((differ & SEVEN) + SEVEN) | differ) >> 7) & LOW;
        // Gathers the lowest bits of all bytes: that of byte i goes to bit 56 + i, and no other bit
        // goes there.
        (same.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
    });
    low | high << 8
}

impl Ways {
    /// The number of ways.
    pub(super) fn count(self) -> usize {
        self.0.count_ones() as usize
    }
}

impl Iterator for Ways {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let way = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(way)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn tags_are_found() {
        let low = u64::from_le_bytes([0, 5, 9, 0xff, 5, 1, 0x80, 0]);
        let high = u64::from_le_bytes([1, 0, 5, 0, 3, 0, 9, 0]);
        let tags = Tags([low, high]);
        let equal = |tag| tags.equal(tag).collect::<Vec<_>>();
        assert_eq!(equal(5), [1, 4, 10]);
        assert_eq!(equal(0xff), [3]);
        assert_eq!(equal(0x80), [6]);
        // Not the empty ones above it.
        assert_eq!(equal(1), [5, 8]);
        assert_eq!(equal(7), []);
        assert_eq!(equal(0), [0, 7, 9, 11, 13, 15]);
        assert!(tags.taken().eq([1, 2, 3, 4, 5, 6, 8, 10, 12, 14]));
        assert!((0..8).all(|way| tags.get(way) == low.to_le_bytes()[way]));
        assert!((0..8).all(|way| tags.get(way + 8) == high.to_le_bytes()[way]));
        assert_eq!(Tags([u64::MAX; 2]).taken().count(), 16);
    }

    #[test]
    fn both_ways_to_compare_agree() {
        let mut word = 1u64;
        let mut next = || {
            word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(7);
            word & (word >> 9)
        };
        for _ in 0..300 {
            let tags = [next(), next()];
            for tag in [0, 1, 2, 0x7f, 0x80, 0xff, next() as u8] {
                assert_eq!(equal(tags, tag), portable(tags, tag), "{tags:x?} {tag}");
            }
        }
    }
}
