//! The hash of a key. Its seed is random, its upper half is evenly distributed, and for most
//! lengths it takes no branch.

use alloc::boxed::Box;
use core::hash::Hasher;

use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;

use crate::raw::leaf::four_words;
use sapwood_format::hash::{SECRETS, hash};

/// The secrets of one index.
///
/// Keys of 8 to 32 bytes are hashed here, as foldhash does it: words are xored with secrets and
/// multiplied, and the two halves of the product are xored. All lengths take the same path, so
/// there is no branch that the processor could mispredict. Keys of other lengths are hashed by
/// foldhash itself.
///
/// Both end with one more multiplication, as foldhash's quality form does, because the upper half
/// alone gives the home in a table that is nearly full. Foldhash's fast form is too uneven for
/// that. Of 60,000 keys "key 1", "key 2" …, it puts a hundred into one bucket for some seeds. For
/// keys that form a lattice of numbers, its variance is a third to four times that of a random
/// hash.
///
/// An index that programs in other languages search has another hash, which those programs compute,
/// too: see [`format::hash`](sapwood_format::hash).
#[repr(C)]
pub(super) struct Secrets {
    words: [u64; 5],
    seed: u64,
    portable: Option<Box<[u64; SECRETS]>>,
    seeds: SharedSeed,
}

impl Secrets {
    pub(super) fn new(seed: u64) -> Self {
        let seeds = SharedSeed::from_u64(seed);
        let words = core::array::from_fn(|i| {
            let mut hasher = FoldHasher::with_seed(seed, &seeds);
            hasher.write_u64(i as u64);
            hasher.finish()
        });
        Secrets {
            words,
            seed,
            portable: None,
            seeds,
        }
    }

    /// Secrets for the hash that programs in other languages compute.
    #[cfg(feature = "std")]
    pub(super) fn portable(seed: u64) -> Self {
        let mut secrets = Secrets::new(seed);
        let words = core::array::from_fn(|i| {
            let mut hasher = FoldHasher::with_seed(seed, &secrets.seeds);
            hasher.write_u64(5 + i as u64);
            hasher.finish()
        });
        secrets.portable = Some(Box::new(words));
        secrets
    }

    /// The secrets that another process published.
    #[cfg(feature = "std")]
    pub(super) fn of_portable(words: &[u64; SECRETS]) -> Self {
        let mut secrets = Secrets::new(0);
        secrets.portable = Some(Box::new(*words));
        secrets
    }

    /// The secrets that others need to compute the hash.
    #[cfg(feature = "std")]
    pub(super) fn words_of_portable(&self) -> Option<&[u64; SECRETS]> {
        self.portable.as_deref()
    }

    #[inline(always)]
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        if let Some(words) = &self.portable {
            return hash(words, key);
        }
        let len = key.len();
        if len.wrapping_sub(8) > 24 {
            return self.hash_other(key);
        }
        // SAFETY: 8 to 32 bytes.
        let [a, b, c, d] = unsafe { four_words(key.as_ptr(), len) };
        let w = &self.words;
        let both = fold(a ^ w[0], b ^ w[1]) ^ fold(c ^ w[2], d ^ w[3]);
        // Keys of different lengths can have the same words.
        fold(both.rotate_right(len as u32), w[4])
    }

    /// The hash of keys of fewer than 8 or more than 32 bytes.
    #[inline(never)]
    fn hash_other(&self, key: &[u8]) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.seed, &self.seeds);
        hasher.write(key);
        hasher.finish()
    }
}

/// The two halves of the product, xored.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use sapwood_format::hash::{STEP, mix, product};

    /// The variances of the numbers of keys of a home, and of half a home with one tag, divided by
    /// their means. Both are 1 if the hash is random.
    fn spread(secrets: &Secrets, keys: impl Iterator<Item = Vec<u8>>, n: usize) -> [f64; 2] {
        let homes = n as u64 / 9;
        let mut counts = vec![0u32; homes as usize];
        let mut tags = vec![0u32; 512];
        for key in keys.take(n) {
            let hash = secrets.hash(&key);
            counts[(((hash >> 32) * homes) >> 32) as usize] += 1;
            tags[(hash >> 63 << 8 | hash & 0xff) as usize] += 1;
        }
        [counts, tags].map(|counts| {
            let mean = n as f64 / counts.len() as f64;
            let off = |count: &u32| (f64::from(*count) - mean).powi(2);
            counts.iter().map(off).sum::<f64>() / n as f64
        })
    }

    /// A function that makes a key from a number.
    type Family = fn(u64) -> Vec<u8>;

    fn wide(i: u64) -> Vec<u8> {
        [(i % 256) << 40, (i / 256) << 7]
            .map(u64::to_be_bytes)
            .concat()
    }

    #[test]
    fn keys_are_spread_evenly() {
        let (n, seeds) = if cfg!(miri) { (900, 1u64) } else { (60_000, 8) };
        let families: [(&str, Family); 8] = [
            ("key i", |i| format!("key {i}").into_bytes()),
            ("/a/long/path/i", |i| {
                format!("/a/long/path/{i}/x").into_bytes()
            }),
            ("i big-endian", |i| i.to_be_bytes().to_vec()),
            ("i little-endian", |i| (i << 20).to_le_bytes().to_vec()),
            ("a lattice", wide),
            ("a lattice in 24", |i| [wide(i), vec![0; 8]].concat()),
            ("a lattice in 32", |i| [vec![7; 16], wide(i)].concat()),
            ("zeros and one bit or two", |i| {
                let mut key = vec![0; 8 + (i % 25) as usize];
                let i = (i / 25) as usize;
                let bits = key.len() * 8;
                key[i % bits / 8] ^= 1 << (i % 8);
                let j = i / bits * 5 % bits;
                key[j / 8] ^= 2 << (j % 7);
                key
            }),
        ];
        for (name, key) in families {
            let mut keys: Vec<_> = (0..n as u64).map(key).collect();
            keys.sort();
            keys.dedup();
            let n = keys.len();
            for seed in 0..seeds {
                let seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                for make in [Secrets::new, Secrets::portable] {
                    let [homes, tags] = spread(&make(seed), keys.iter().cloned(), n);
                    let most = if cfg!(miri) { [2.0, 2.0] } else { [1.12, 1.4] };
                    assert!(
                        (0.9 / most[0]..most[0]).contains(&homes)
                            && (1.0 / most[1]..most[1]).contains(&tags),
                        "{name}, {n} keys, seed {seed}: {homes:.2} {tags:.2}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_portable_hash_is_that_of_the_leaf() {
        let secrets = Secrets::portable(7);
        let words = secrets.words_of_portable().unwrap();
        for len in (0..300).chain([1000, 65_535]) {
            let key: Vec<u8> = (0..len).map(|i| (i * 7 + len) as u8).collect();
            // The key as it lies in a leaf.
            let mut bytes = if len < 255 {
                vec![len as u8]
            } else {
                vec![255, len as u8, (len >> 8) as u8]
            };
            bytes.extend(&key);
            bytes.resize(bytes.len().next_multiple_of(8 * STEP), 0);
            let mut sum = 0u64;
            for (i, word) in bytes.chunks(8).enumerate() {
                if i > 0 && i % SECRETS == 0 {
                    sum = mix(sum);
                }
                let word = u64::from_le_bytes(word.try_into().unwrap());
                sum = sum.wrapping_add(product(word, words[i % SECRETS]));
            }
            assert_eq!(secrets.hash(&key), mix(sum), "{len}");
        }
    }
}
