//! Sizes of gaps in 16 bits: a float that grows with the size, rounded up.
//!
//! Sizes below 2048 are their own codes. The code of a larger size is an exponent and the ten bits
//! behind the leading one, rounded up. So codes never understate a size, and a larger size never
//! has a smaller code.

/// Bits of precision, the leading one included.
const BITS: u32 = 11;

/// The code of a size. A larger size has the same code or a larger one.
#[inline(always)]
pub(crate) fn code(size: u64) -> u16 {
    let exponent = (u64::BITS - size.leading_zeros()).saturating_sub(BITS);
    // At most 2^11, when rounding carries: the exponent's bits then grow by one, as they should.
    let mantissa = (size >> exponent) + u64::from(size & ((1 << exponent) - 1) != 0);
    ((u64::from(exponent) << (BITS - 1)) + mantissa) as u16
}

#[cfg(test)]
mod tests {
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
        let mut rng = fastrand::Rng::with_seed(1);
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
        let mut sizes: Vec<u64> = near.collect();
        for _ in 0..2000 {
            sizes.push(rng.u64(..) >> rng.u32(0..64));
        }
        sizes.sort_unstable();
        for pair in sizes.windows(2) {
            assert!(code(pair[0]) <= code(pair[1]), "{pair:?}");
            // The error of rounding stays within one part in 1024.
            assert!(pair[1] / 1000 * 999 <= pair[0] || code(pair[0]) < code(pair[1]));
        }
    }
}
