//! Hashes of a few words with secrets, by folding products of 64 by 64 bits as foldhash does, with
//! one more multiplication, and hashes that are the same on every machine.

use core::hash::{Hash, Hasher};

use crate::plain::Words;

/// The secret numbers of a hash.
#[derive(Clone)]
pub struct Secrets([u64; 3]);

impl Secrets {
    /// Secrets that follow from a seed.
    pub fn new(seed: u64) -> Self {
        // SplitMix64 (Steele, Lea, Flood, 2014).
        let mut state = seed;
        Self(core::array::from_fn(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mixed(state)
        }))
    }

    /// The numbers.
    pub fn words(&self) -> [u64; 3] {
        self.0
    }

    /// The hash of some words. All bits are good.
    ///
    /// Folding alone is not enough. Of keys that count up, the upper bits of the last product are
    /// multiples of one secret. For seven seeds of a hundred, they crowd into a few places (test
    /// `every_seed_spreads_counters`).
    #[inline(always)]
    pub fn hash<W: Words>(&self, words: &W) -> u64 {
        let [start, fold, end] = self.0;
        let mut sum = start;
        let mut first = None;
        // Both factors contain a secret, so that no known word makes the product zero.
        words.each(|word| match first.take() {
            None => first = Some(word),
            Some(other) => sum = folded(sum ^ other, fold ^ word),
        });
        if let Some(word) = first {
            sum = folded(sum ^ word, end);
        }
        let even = spread(sum);
        even ^ (even >> 32)
    }
}

/// SplitMix64's output function.
#[inline]
pub const fn mixed(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Mixes a number by Fibonacci hashing, so that its upper 32 bits are good enough for [`scaled`],
/// whichever bits differ.
#[inline(always)]
pub fn spread(flow: u64) -> u64 {
    (flow ^ (flow >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A hasher that gives the same on every machine: FNV-1a over the bytes, with the lowest byte of a
/// number first, then SplitMix64's output function.
pub struct StableHasher(u64);

impl StableHasher {
    #[inline]
    pub fn hash_one(value: &impl Hash) -> u64 {
        let mut hasher = Self(0xcbf2_9ce4_8422_2325);
        value.hash(&mut hasher);
        hasher.finish()
    }
}

macro_rules! little_endian {
    ($($name:ident $of:ty as $wide:ty),*) => {$(
        fn $name(&mut self, n: $of) {
            self.write(&(n as $wide).to_le_bytes());
        }
    )*};
}

impl Hasher for StableHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    little_endian!(
        write_u16 u16 as u16, write_u32 u32 as u32, write_u64 u64 as u64, write_u128 u128 as u128,
        write_usize usize as u64, write_i16 i16 as i16, write_i32 i32 as i32, write_i64 i64 as i64,
        write_i128 i128 as i128, write_isize isize as i64
    );

    #[inline]
    fn finish(&self) -> u64 {
        mixed(self.0)
    }
}

#[inline(always)]
pub fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// A number from 0 to below `n`, as evenly spread as the upper 32 bits of the hash.
#[inline(always)]
pub fn scaled(hash: u64, n: usize) -> usize {
    (((hash >> 32) * n as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hashes that must be the same on every machine.
    #[test]
    fn golden() {
        assert_eq!(StableHasher::hash_one(&7u32), GOLDEN_NUMBER);
        assert_eq!(StableHasher::hash_one(&"eth0"), GOLDEN_TEXT);
        assert_eq!(
            StableHasher::hash_one(&7usize),
            StableHasher::hash_one(&7u64)
        );
    }
    const GOLDEN_NUMBER: u64 = 0xbcee_5e48_bcf7_52e2;
    const GOLDEN_TEXT: u64 = 0x74cc_6a07_9dcd_0d21;

    /// The variances of what falls into 512 places by the upper bits, and into 256 by the lowest,
    /// divided by their means. Both are about 1 if a hash is random.
    fn variances(hashes: impl Iterator<Item = u64>, n: f64) -> [f64; 2] {
        let (mut high, mut low) = (vec![0.; 512], vec![0.; 256]);
        for hash in hashes {
            high[scaled(hash, 512)] += 1.;
            low[hash as usize & 0xff] += 1.;
        }
        [high, low].map(|counts: Vec<f64>| {
            let mean = n / counts.len() as f64;
            counts.iter().map(|c| (c - mean) * (c - mean)).sum::<f64>() / n
        })
    }

    /// Keys that count up in one word, wherever it stands, are spread as random ones are, with any
    /// seed.
    #[test]
    fn every_seed_spreads_counters() {
        let (seeds, n) = if cfg!(miri) { (1, 512) } else { (500, 4096) };
        for seed in 0..seeds {
            let secrets = Secrets::new(seed);
            for shift in [0, 8, 24, 48] {
                let one = variances((0..n).map(|i| secrets.hash(&[i << shift])), n as f64);
                let two = variances((0..n).map(|i| secrets.hash(&[7, i << shift])), n as f64);
                let three = variances((0..n).map(|i| secrets.hash(&[7, i << shift, 9])), n as f64);
                for found in [one, two, three].concat() {
                    assert!(found < 2., "seed {seed}, bit {shift}: {found}");
                }
            }
        }
    }

    #[test]
    fn bits_are_spread() {
        // Keys that differ in one bit each, and in counters: every output bit is set about half of
        // the time.
        let secrets = Secrets::new(7);
        for shift in [0, 20, 40, 55] {
            let mut ones = [0u32; 64];
            let n = 512;
            for i in 0..n {
                let hash = secrets.hash(&[i << shift, 0, 5]);
                (0..64).for_each(|bit| ones[bit] += (hash >> bit & 1) as u32);
            }
            for (bit, ones) in ones.iter().enumerate() {
                assert!((150..362).contains(ones), "bit {bit} at {shift}: {ones}");
            }
        }
        assert_ne!(Secrets::new(1).hash(&[1, 2]), Secrets::new(2).hash(&[1, 2]));
        assert_ne!(secrets.hash(&[1]), secrets.hash(&[1, 0]));
        assert!((0..100).all(|i| scaled(secrets.hash(&[i]), 3) < 3));
    }
}
