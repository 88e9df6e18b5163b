//! Weighted rendezvous hashing with integers, which gives each bucket of a group a member.

use alloc::vec::Vec;

use super::hash::mixed;

/// Buckets of a group with two members or more.
pub(super) const BUCKETS: usize = 2048;

/// Fractional bits of a logarithm.
const FRACTION: u32 = 36;
/// log2(1 + i / 128).
const LOGS: [u64; 128] = logs();
/// log2(e), with 32 fractional bits.
const LOG2_E: u64 = 6_196_328_019;

/// The member of each bucket, as a position in `members`, which are hashes and weights in the order
/// of the hashes. There is a single bucket when one member has all flows, and none when no member
/// has a weight.
///
/// Cost: O(members) for each bucket.
pub(super) fn buckets(members: &[(u64, u32)]) -> Vec<u16> {
    let weighted = || {
        let all = members.iter().enumerate();
        all.filter(|(_, (_, weight))| *weight > 0)
    };
    match weighted().count() {
        0 => Vec::new(),
        1 => weighted().map(|(at, _)| at as u16).collect(),
        _ => {
            let all = || weighted().map(|(at, &(hash, weight))| (at, hash, weight));
            let best = |bucket| best(all(), bucket).map_or(0, |at| at as u16);
            (0..BUCKETS as u64).map(best).collect()
        }
    }
}

/// The position of the member that gets a bucket. `members`: positions, hashes and weights, in the
/// order of the hashes. `None` if no member has a weight.
///
/// Cost: O(members).
pub(super) fn best(members: impl Iterator<Item = (usize, u64, u32)>, bucket: u64) -> Option<usize> {
    let mut best = (None, u64::MAX, 1);
    for (at, hash, weight) in members.filter(|(.., weight)| *weight > 0) {
        let draw = draw(bucket, hash);
        // draw / weight is the time to the first event of a Poisson process whose rate is the
        // member's weight. The member with the first event gets the bucket.
        let sooner =
            u128::from(draw) * u128::from(best.2) < u128::from(best.1) * u128::from(weight);
        best = if sooner {
            (Some(at), draw, weight)
        } else {
            best
        };
    }
    best.0
}

/// `-log2(u)` of a bucket and a member, with 36 fractional bits, at least 1: `u = (2h + 1) / 2^33`,
/// `h` being the upper half of their hash.
fn draw(bucket: u64, hash: u64) -> u64 {
    let h = mixed(hash.wrapping_add((bucket + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))) >> 32;
    ((33 << FRACTION) - log2(2 * h + 1)).max(1)
}

/// The logarithm of a number from 1 to below 2^33, with 36 fractional bits, right within 2^-32. It
/// is the sum of a logarithm from a table and that of the rest,
/// `ln(1 + r) = r - r^2/2 + r^3/3 - r^4/4`, `r < 1/128`.
fn log2(v: u64) -> u64 {
    let whole = v.ilog2();
    let m = v << (32 - whole);
    let (i, rest) = ((m >> 25) & 127, m & ((1 << 25) - 1));
    let r = (rest << 11) / (128 + i);
    let power = |of: u64| (of * r) >> FRACTION;
    let (r2, r3, r4) = (power(r), power(power(r)), power(power(power(r))));
    let ln = r - r2 / 2 + r3 / 3 - r4 / 4;
    (u64::from(whole) << FRACTION) + LOGS[i as usize] + ((ln * LOG2_E) >> 32)
}

/// Computes the table by repeated squaring: each square gives one bit more.
const fn logs() -> [u64; 128] {
    let mut all = [0; 128];
    let mut i = 0;
    while i < 128 {
        let (mut m, mut bits) = ((128 + i as u128) << 56, 0);
        let mut bit = 0;
        while bit < FRACTION {
            m = (m * m) >> 63;
            let carry = (m >> 64) as u64;
            bits = bits << 1 | carry;
            m >>= carry;
            bit += 1;
        }
        all[i] = bits;
        i += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms() {
        assert_eq!((log2(1), log2(2), log2(1 << 32)), (0, 1 << 36, 32 << 36));
        let mut last = 0;
        for n in (1..1u64 << 33).step_by(if cfg!(miri) { 99_999_989 } else { 99_989 }) {
            let (is, right) = (log2(n), (n as f64).log2() * (1u64 << 36) as f64);
            assert!((is as f64 - right).abs() < 16.0, "{n}: {is} for {right}");
            assert!(is >= last, "{n}");
            last = is;
        }
        assert!(log2((1 << 33) - 1) <= 33 << 36);
    }

    /// Answers that must be the same on every machine, and in other languages. A program in another
    /// language made them, from the description in docs/route.md.
    #[test]
    fn golden() {
        let all = buckets(&[(1, 1), (2, 2), (3, 5)]);
        let sum = all.iter().enumerate().fold(0u64, |sum, (at, member)| {
            mixed(sum ^ ((at as u64) << 16 | u64::from(*member)))
        });
        assert_eq!(all[..16], GOLDEN);
        assert_eq!(sum, GOLDEN_SUM);
        assert_eq!(draw(7, 0x1234_5678_9abc_def0), GOLDEN_DRAW);
    }
    const GOLDEN: [u16; 16] = [1, 2, 0, 1, 2, 2, 0, 2, 2, 2, 2, 2, 2, 2, 1, 2];
    const GOLDEN_SUM: u64 = 0x8fec_1454_4d38_ff3e;
    const GOLDEN_DRAW: u64 = 110_626_181_613;
}
