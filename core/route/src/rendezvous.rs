//! Weighted rendezvous hashing with integers, which gives each bucket of flows a member of a group.
//!
//! In each bucket every member has a rank. The ranks of one member in all buckets are a
//! permutation, which its hash chooses: so a member has each rank once. Ranks become times to an
//! event whose rate is the member's weight, and the member with the first event gets the bucket.
//! Nothing else decides, so a bucket moves only from a member that leaves or to one that joins.

use alloc::vec;
use alloc::vec::Vec;

/// Bits of a bucket's number, and of a rank.
const BITS: u32 = 20;
/// Buckets of every group.
pub(super) const BUCKETS: usize = 1 << BITS;
const MASK: u32 = (1 << BITS) - 1;

/// A group of more members has a table of its buckets. In smaller groups a choice computes the rank
/// of each member.
pub(super) const FEW: usize = 64;

/// Ranks below this come before all others, whatever the weights say: so every member with a weight
/// has a bucket.
const SURE: u32 = 16;

/// The multipliers of the permutation, and their inverses modulo 2^20.
const FACTORS: [u32; 3] = [0x9_e377, 0x6_a09f, 0x2_545f];
const INVERSES: [u32; 3] = [
    inverse(FACTORS[0]),
    inverse(FACTORS[1]),
    inverse(FACTORS[2]),
];

/// Fractional bits of a time.
const FRACTION: u32 = 27;
/// `log2(1 + f) = f + f (1 - f) (C0 - f (C1 - f (C2 - f C3)))`, right within 2^-14.
const C: [u64; 4] = [59_385_195, 36_260_271, 20_403_902, 6_152_744];

/// The number whose product with an odd number is 1 modulo 2^20.
const fn inverse(of: u32) -> u32 {
    // Each step doubles the bits that are right; the first three are.
    let mut inverse = of;
    let mut bits = 3;
    while bits < BITS {
        inverse = inverse.wrapping_mul(2u32.wrapping_sub(of.wrapping_mul(inverse)));
        bits *= 2;
    }
    inverse & MASK
}

/// The bucket of a flow whose number was spread.
#[inline(always)]
pub(super) fn bucket(spread: u64) -> u32 {
    (spread >> (64 - BITS)) as u32
}

/// The rank in a bucket of the member with this hash.
#[inline(always)]
pub(super) fn rank(bucket: u32, hash: u64) -> u32 {
    let [a, b, c] = keys(hash);
    let x = (bucket ^ a).wrapping_mul(FACTORS[0]) & MASK;
    let x = (x ^ x >> (BITS / 2) ^ b).wrapping_mul(FACTORS[1]) & MASK;
    (x ^ x >> (BITS / 2) ^ c).wrapping_mul(FACTORS[2]) & MASK
}

/// The bucket in which the member with this hash has a rank.
fn bucket_of_rank(rank: u32, hash: u64) -> u32 {
    let [a, b, c] = keys(hash);
    let x = rank.wrapping_mul(INVERSES[2]) & MASK ^ c;
    let x = (x ^ x >> (BITS / 2)).wrapping_mul(INVERSES[1]) & MASK ^ b;
    (x ^ x >> (BITS / 2)).wrapping_mul(INVERSES[0]) & MASK ^ a
}

#[inline(always)]
fn keys(hash: u64) -> [u32; 3] {
    [0, BITS, 2 * BITS].map(|from| (hash >> from) as u32 & MASK)
}

/// `-log2(1 - u)` with 27 fractional bits, `u = (2 rank + 1) / 2^21`: the time to an event of the
/// rate 1, in the order of the ranks.
#[inline]
const fn time(rank: u32) -> u32 {
    let left = (2 << BITS) - 2 * rank - 1;
    let whole = left.ilog2();
    let one = 1u64 << FRACTION;
    let f = ((left as u64) << (FRACTION - whole)) - one;
    let sum = C[2] - ((C[3] * f) >> FRACTION);
    let sum = C[1] - ((sum * f) >> FRACTION);
    let sum = C[0] - ((sum * f) >> FRACTION);
    ((BITS - whole) << FRACTION)
        + (((one - f) * (one - ((sum * f) >> FRACTION))) >> FRACTION) as u32
}

/// What a member has in a bucket.
#[derive(Clone, Copy)]
pub(super) struct Draw {
    time: u32,
    weight: u32,
}

/// The time of the first rank that does not come before all others.
const SURE_UNTIL: u32 = time(SURE);

impl Draw {
    #[inline]
    fn new(rank: u32, weight: u32) -> Self {
        let time = time(rank);
        Draw { time, weight }
    }

    /// Whether a member with this draw comes before one with the other, which is before it in the
    /// order of the hashes.
    #[inline]
    fn is_before(self, other: Self) -> bool {
        if self.time.min(other.time) < SURE_UNTIL {
            return self.time < other.time || self.time == other.time && self.weight > other.weight;
        }
        let times = |time: u32, weight: u32| u64::from(time) * u64::from(weight);
        times(self.time, other.weight) < times(other.time, self.weight)
    }
}

/// The position of the member that gets a bucket. `members`: positions, hashes and weights, in the
/// order of the hashes. `None` if no member has a weight.
///
/// Cost: O(members).
#[inline]
pub(super) fn best(members: impl Iterator<Item = (usize, u64, u32)>, bucket: u32) -> Option<usize> {
    let mut best: Option<(usize, Draw)> = None;
    for (at, hash, weight) in members {
        let draw = Draw::new(rank(bucket, hash), weight);
        if weight > 0 && best.is_none_or(|(_, best)| draw.is_before(best)) {
            best = Some((at, draw));
        }
    }
    best.map(|(at, _)| at)
}

/// As [`best`], of at most 64 members with one weight.
///
/// Cost: O(members), without a branch for each.
#[inline(always)]
pub(super) fn best_of_even(hashes: impl Iterator<Item = u64>, bucket: u32) -> usize {
    let keys = hashes.enumerate();
    let keys = keys.map(|(at, hash)| rank(bucket, hash) * FEW as u32 + at as u32);
    keys.fold(u32::MAX, u32::min) as usize % FEW
}

/// What [`best_of_four`] needs of four members: the keys of two in each word, the first one's in
/// the low bits. A product of 20 bits by 20 has 40, and those above 2^64 are cut off. So one
/// multiplication serves both.
#[derive(Clone, Copy)]
pub(super) struct Four([[u64; 3]; 2]);

const SECOND: u32 = 64 - BITS;
const BOTH: u64 = MASK as u64 | (MASK as u64) << SECOND;
const HALVES: u64 = (MASK as u64 >> (BITS / 2)) | (MASK as u64 >> (BITS / 2)) << SECOND;

impl Four {
    pub(super) fn new([a, b, c, d]: [u64; 4]) -> Self {
        let pair = |first, second| {
            let (first, second) = (keys(first), keys(second));
            [0, 1, 2].map(|i| u64::from(first[i]) | u64::from(second[i]) << SECOND)
        };
        Four([pair(a, b), pair(c, d)])
    }
}

/// As [`best_of_even`], of four members.
#[inline(always)]
pub(super) fn best_of_four(four: &Four, bucket: u32) -> usize {
    let both = u64::from(bucket) | u64::from(bucket) << SECOND;
    let ranks = |[a, b, c]: [u64; 3]| {
        let x = (both ^ a).wrapping_mul(u64::from(FACTORS[0])) & BOTH;
        let x = (x ^ (x >> (BITS / 2) & HALVES) ^ b).wrapping_mul(u64::from(FACTORS[1])) & BOTH;
        (x ^ (x >> (BITS / 2) & HALVES) ^ c).wrapping_mul(u64::from(FACTORS[2])) & BOTH
    };
    let [first, second] = four.0.map(ranks);
    let low = |ranks: u64| (ranks as u32 & MASK) << 2;
    let high = |ranks: u64| (ranks >> (SECOND - 2)) as u32;
    let two = low(first).min(high(first) | 1);
    let others = (low(second) | 2).min(high(second) | 3);
    two.min(others) as usize % 4
}

/// The member of each bucket, as a position in `members`, which are hashes and weights in the order
/// of the hashes. At least one has a weight.
///
/// Members take their buckets in the order of their ranks, up to a time by which nearly all buckets
/// are taken: O(buckets * log(members)).
pub(super) fn buckets(members: &[(u64, u32)]) -> Vec<u16> {
    const NOBODY: Draw = Draw { time: 0, weight: 0 };
    let mut first = vec![(NOBODY, 0u16); BUCKETS];
    let total: u64 = members.iter().map(|(_, weight)| u64::from(*weight)).sum();
    // After this many times the mean time to a bucket's first event, so few buckets are left that
    // the draws of all members there are fewer than those before.
    let rounds = u128::from(3 * members.len().ilog2() / 4 + 1);
    for (at, &(hash, weight)) in members.iter().enumerate() {
        if weight == 0 {
            continue;
        }
        // log2(e) is less than 3/2.
        let until = rounds * u128::from(weight) * (3 << (FRACTION - 1)) / u128::from(total);
        for rank in 0..1 << BITS {
            let draw = Draw::new(rank, weight);
            if rank >= SURE && u128::from(draw.time) > until {
                break;
            }
            let (best, best_at) = &mut first[bucket_of_rank(rank, hash) as usize];
            if best.weight == 0 || draw.is_before(*best) {
                (*best, *best_at) = (draw, at as u16);
            }
        }
    }
    let all = || members.iter().enumerate();
    let all = || all().map(|(at, &(hash, weight))| (at, hash, weight));
    let buckets = first.iter().enumerate();
    let buckets = buckets.map(|(bucket, (draw, at))| match draw.weight {
        0 => best(all(), bucket as u32).map_or(0, |at| at as u16),
        _ => *at,
    });
    buckets.collect()
}

#[cfg(test)]
mod tests {
    use super::super::hash::mixed;
    use super::*;

    #[test]
    fn a_member_has_each_rank_once() {
        for hash in [0, 1, u64::MAX, 0x1234_5678_9abc_def0] {
            let step = if cfg!(miri) { 9973 } else { 1 };
            for bucket in (0..1 << BITS).step_by(step) {
                assert_eq!(bucket_of_rank(rank(bucket, hash), hash), bucket);
            }
        }
    }

    #[test]
    fn times_are_those_of_events() {
        let mut last = 0;
        for rank in (0..1 << BITS).step_by(if cfg!(miri) { 9973 } else { 1 }) {
            let is = time(rank);
            let u = (2.0 * f64::from(rank) + 1.0) / f64::from(2 << BITS);
            let right = -(1.0 - u).log2() * f64::from(1 << FRACTION);
            assert!(is > last, "{rank}");
            let error = (f64::from(is) - right).abs();
            assert!(error < right / 2000.0 + 1.0, "{rank}: {is} for {right}");
            last = is;
        }
    }

    #[test]
    fn four_members_at_once() {
        let mut state = 5;
        let mut next = || {
            state = mixed(state + 1);
            state
        };
        for round in 0..2000 {
            let [a, b, c, d] = [next(), next(), next(), next()];
            // Those that there are not stand for the first.
            let four = [[a, b, c, d], [a, b, c, a], [a, b, a, a]][round % 3];
            let bucket = bucket(next());
            let wanted = best_of_even(four.into_iter(), bucket);
            assert_eq!(best_of_four(&Four::new(four), bucket), wanted);
        }
    }

    /// All ways to choose are one.
    #[test]
    fn tables_have_the_members_that_are_computed() {
        if cfg!(miri) {
            return; // Minutes, and nothing here is unsafe.
        }
        let weights: [fn(u64) -> u32; 4] = [
            |_| 7,
            |at| at as u32 % 4,
            |at| if at == 3 { u32::MAX } else { 1 },
            |at| 1 << (at % 32),
        ];
        for weight in weights {
            for members in [2, 64, 100] {
                let mut all: Vec<_> = (0..members).map(|at| (mixed(at + 1), weight(at))).collect();
                all.sort_unstable();
                let table = buckets(&all);
                let even = all.iter().all(|(_, weight)| *weight == 7) && members <= 64;
                let mut seen = vec![0u32; all.len()];
                table.iter().for_each(|at| seen[usize::from(*at)] += 1);
                for (at, (_, weight)) in all.iter().enumerate() {
                    assert_eq!(seen[at] > 0, *weight > 0, "{weight}");
                }
                for bucket in (0..BUCKETS).step_by(997) {
                    let each = all.iter().enumerate();
                    let each = each.map(|(at, &(hash, weight))| (at, hash, weight));
                    let right = usize::from(table[bucket]);
                    assert_eq!(best(each, bucket as u32), Some(right));
                    if even {
                        let hashes = all.iter().map(|(hash, _)| *hash);
                        assert_eq!(best_of_even(hashes, bucket as u32), right);
                    }
                }
            }
        }
    }

    /// Answers that must be the same on every machine, and in other languages. A program in another
    /// language made them, from the description in docs/route.md.
    #[test]
    fn golden() {
        assert_eq!(rank(7, 0x1234_5678_9abc_def0), GOLDEN_RANK);
        assert_eq!([0, 15, 524_288, 1_048_575].map(time), GOLDEN_TIMES);
        assert_eq!(SURE_UNTIL, 3_047);
        if cfg!(miri) {
            return; // Minutes, and nothing here is unsafe.
        }
        let all = buckets(&[(1 << 50 | 1, 1), (2 << 50 | 2, 2), (3 << 50 | 3, 5)]);
        let sum = all.iter().enumerate().fold(0u64, |sum, (at, member)| {
            mixed(sum ^ ((at as u64) << 16 | u64::from(*member)))
        });
        assert_eq!(all[..16], GOLDEN);
        assert_eq!(sum, GOLDEN_SUM);
    }
    const GOLDEN_RANK: u32 = 223_485;
    const GOLDEN_TIMES: [u32; 4] = [92, 2_863, 134_217_912, 2_818_572_288];
    const GOLDEN: [u16; 16] = [2, 0, 1, 2, 2, 0, 0, 0, 2, 0, 0, 2, 0, 2, 0, 2];
    const GOLDEN_SUM: u64 = 0x74e7_6b73_5693_a53d;
}
