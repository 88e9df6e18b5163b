//! The hash of the index that programs in other languages search. It is for machines without a
//! product of 128 bits, such as the kernel's for BPF programs.
//!
//! The key is hashed as it lies in a leaf: length, bytes, and zeros up to a multiple of four words,
//! so that four words are hashed without a branch. A word `w` with the secret `s` of its place
//! gives `(lo(w) + lo(s)) * (hi(w) + hi(s))`, sums modulo 2^32, product of 64 bits, and all of
//! these are added. That is NH (Black, Halevi, Krawczyk, Krovetz, Rogaway, "UMAC: fast and secure
//! message authentication", 1999): two keys that were chosen without knowledge of the secrets have
//! equal sums with a probability of 2^-32. The products do not depend on each other. At the end,
//! and after each 32 words of a long key, the sum is mixed, so that all bits of the hash depend on
//! all of it.

use crate::leaf;

/// The number of words of a key that are hashed before the sum is mixed: as many as the longest key
/// with a length of one byte has. Each has a secret of its own.
pub const SECRETS: usize = 32;

/// The number of words that are hashed at a time. Words that the key lacks are zeros.
pub const STEP: usize = 4;

/// The hash of a key.
///
/// ```
/// use sapwood_format::hash::{SECRETS, hash};
/// let secrets: [u64; SECRETS] = core::array::from_fn(|i| (i as u64 + 1) << 33 | 5);
/// assert_ne!(hash(&secrets, b"larch"), hash(&secrets, b"Larch"));
/// ```
#[inline(never)]
pub fn hash(secrets: &[u64; SECRETS], key: &[u8]) -> u64 {
    let mut head = [0u8; 8];
    head[..3].copy_from_slice(&leaf::length(key.len()));
    let filled = leaf::key_at(0, key.len());
    let (first, rest) = key.split_at(key.len().min(8 - filled));
    head[filled..filled + first.len()].copy_from_slice(first);
    let mut sum = product(u64::from_le_bytes(head), secrets[0]);
    let mut place = 1;
    for bytes in rest.chunks(8) {
        if place == SECRETS {
            sum = mix(sum);
            place = 0;
        }
        let word = match bytes.try_into() {
            Ok(bytes) => u64::from_le_bytes(bytes),
            Err(_) => {
                let mut last = [0; 8];
                last[..bytes.len()].copy_from_slice(bytes);
                u64::from_le_bytes(last)
            }
        };
        sum = sum.wrapping_add(product(word, secrets[place]));
        place += 1;
    }
    while place % STEP != 0 {
        sum = sum.wrapping_add(product(0, secrets[place]));
        place += 1;
    }
    mix(sum)
}

/// The number that one word adds to the sum.
#[inline(always)]
pub const fn product(word: u64, secret: u64) -> u64 {
    let low = (word as u32).wrapping_add(secret as u32);
    let high = ((word >> 32) as u32).wrapping_add((secret >> 32) as u32);
    low as u64 * high as u64
}

/// The factor of [`mix`]: that of Steele, Lea and Flood's SplitMix.
pub const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bijection whose upper and lower bits depend on all bits.
#[inline(always)]
pub const fn mix(sum: u64) -> u64 {
    let sum = (sum ^ sum >> 32).wrapping_mul(FACTOR);
    sum ^ sum >> 32
}
