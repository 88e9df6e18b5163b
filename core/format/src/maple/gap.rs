//! Gaps between entries: their sizes in 16 bits, and what fits into one.
//!
//! The code of a size is a float that grows with the size, rounded up.
//! Sizes below 2048 are their own codes. The code of a larger size is an exponent and the ten bits
//! behind the leading one, rounded up. So codes never understate a size, and a larger size never
//! has a smaller code.

/// Bits of precision, the leading one included.
const BITS: u32 = 11;

/// The code of a size. A larger size has the same code or a larger one.
#[inline(always)]
pub const fn code(size: u64) -> u16 {
    let exponent = (u64::BITS - size.leading_zeros()).saturating_sub(BITS);
    // At most 2^11, when rounding carries: the exponent's bits then grow by one, as they should.
    let mantissa = (size >> exponent) + (size & ((1 << exponent) - 1) != 0) as u64;
    (((exponent as u64) << (BITS - 1)) + mantissa) as u16
}

/// The conditions of a search for a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Number of indices, at least 1.
    pub size: u64,
    /// A power of two that the first index is a multiple of.
    pub align: u64,
    /// The first index that may be used.
    pub from: u64,
    /// The last index that may be used.
    pub to: u64,
    /// Whether the search is for the highest place, not the lowest.
    pub highest: bool,
    /// Places from this index on, in the direction of the search, come first.
    pub near: Option<u64>,
}

impl Fit {
    /// The part of the window that comes first, if there is one and it is large enough.
    pub fn nearest(self) -> Option<Fit> {
        let near = self.near?;
        let (from, to) = match self.highest {
            false => (self.from.max(near), self.to),
            true => (self.from, self.to.min(near)),
        };
        (from <= to && to - from >= self.size - 1).then_some(Fit { from, to, ..self })
    }

    /// The lowest first index in a gap, or the highest one, as the search is.
    #[inline(always)]
    pub fn place(&self, start: u64, end: u64) -> Option<u64> {
        match self.highest {
            false => self.lowest(start, end),
            true => self.highest(start, end),
        }
    }

    /// The lowest first index in a gap.
    #[inline(always)]
    pub fn lowest(&self, start: u64, end: u64) -> Option<u64> {
        let (start, end) = (start.max(self.from), end.min(self.to));
        let start = start.checked_add(self.align - 1)? & !(self.align - 1);
        (start <= end && end - start >= self.size - 1).then_some(start)
    }

    /// The highest first index in a gap.
    #[inline(always)]
    pub fn highest(&self, start: u64, end: u64) -> Option<u64> {
        let (start, end) = (start.max(self.from), end.min(self.to));
        let last = end.checked_sub(self.size - 1)? & !(self.align - 1);
        (start <= end && last >= start).then_some(last)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    #[test]
    fn small_sizes_are_exact_and_the_largest_fits() {
        for size in 0..2048 {
            assert_eq!(u64::from(code(size)), size);
        }
        assert_eq!(code(2049), code(2050));
        assert_eq!(u32::from(code(u64::MAX)), (53 << 10) + 2048);
    }

    #[test]
    fn codes_never_fall() {
        let near = (0..64).flat_map(|bit| {
            let power = 1_u64 << bit;
            [
                power.wrapping_sub(2),
                power - 1,
                power,
                power + 1,
                power | 3,
            ]
        });
        let mixed = (0..2000_u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (n % 64));
        let mut sizes: Vec<u64> = near.chain(mixed).collect();
        sizes.sort_unstable();
        for pair in sizes.windows(2) {
            assert!(code(pair[0]) <= code(pair[1]), "{pair:?}");
            // The error of rounding stays within one part in 1024.
            assert!(pair[1] / 1000 * 999 <= pair[0] || code(pair[0]) < code(pair[1]));
        }
    }
}
