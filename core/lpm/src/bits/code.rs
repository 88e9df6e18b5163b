//! Bit strings as keys of a qp-trie.
//!
//! Four bits make a byte. The one to three bits that may be left at the end make one byte more. A
//! byte is the number, from 1 to 30, of a node of the binary tree of depth 4 without its root. A
//! walk that visits each node before its children gives the numbers, so the order of keys is the
//! order of prefixes:
//!
//! ```text
//!            0…                                    1…
//!            1                                     16
//!       00…            01…                    10…            11…
//!       2              9                      17             24
//!    000…   001…    010…   011…            100…   101…    110…   111…
//!    3      6       10     13              18     21      25     28
//!  0000 0001 ...                                               1110 1111
//!  4    5    7  8   11 12  14 15           19 20  22 23   26 27  29  30
//! ```
//!
//! The alternatives of a byte are the bytes above it in the tree: byte 8 (`0011`) has 6 (`001…`), 2
//! (`00…`) and 1 (`0…`). The keys that a prefix covers start with the prefix's key, except that its
//! last byte may be replaced by any byte below it in the tree.

use smallvec::SmallVec;

use super::string::{BitPrefix, BitString, MAX_BITS};
use sapwood_qp::parts::Alternatives;

/// A key. Those of up to 256 bits are on the stack.
pub(super) type Key = SmallVec<[u8; 64]>;

/// The keys of prefixes have a first byte that is less than this.
pub(crate) const END_OF_PREFIXES: u8 = 31;

/// The longest key.
const MAX_KEY: usize = MAX_BITS / 4;

/// The number of the node of `bits` bits, 1 to 4. `value` is its bits, padded with zeros to four.
const fn code(bits: u8, value: u8) -> u8 {
    // A 1 at depth d passes the subtree of its sibling, of 2^(5-d) - 1 nodes; each level passes the
    // node above.
    bits + 2 * value - value.count_ones() as u8
}

/// The number of nodes below a node of `bits` bits, itself included.
const fn below(bits: u8) -> u8 {
    (1 << (5 - bits)) - 1
}

/// The two bytes for eight bits.
static PAIRS: [[u8; 2]; 256] = {
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [code(4, byte as u8 >> 4), code(4, byte as u8 & 15)];
        byte += 1;
    }
    pairs
};

/// The node of each number: the number of its bits, and these padded to four. 0 bits: not a node.
static NODES: [(u8, u8); 32] = {
    let mut nodes = [(0, 0); 32];
    let mut bits = 1;
    while bits <= 4 {
        let mut value = 0;
        while value < 16 {
            nodes[code(bits, value) as usize] = (bits, value);
            value += 1 << (4 - bits);
        }
        bits += 1;
    }
    nodes
};

/// The bytes above each byte, from the lowest up.
static ABOVE: [Alternatives; 32] = {
    let mut all = [[0; 3]; 32];
    let mut number = 1;
    while number < 31 {
        let (bits, value) = NODES[number];
        let mut up = 1;
        while up < bits {
            let shift = 4 - bits + up;
            all[number][up as usize - 1] = code(bits - up, value >> shift << shift);
            up += 1;
        }
        number += 1;
    }
    all
};

/// The bytes that may replace a byte of a query, as the last byte of a shorter prefix.
#[inline(always)]
pub(super) fn alternatives(byte: u8) -> Alternatives {
    ABOVE[usize::from(byte % 32)]
}

/// The key of a prefix.
#[inline]
pub(super) fn encode(prefix: BitPrefix<'_>) -> Key {
    let bytes = prefix.raw();
    let len = prefix.len().div_ceil(4);
    let mut key = if len <= 64 {
        let mut buffer = [0; 64];
        pairs(&mut buffer, bytes);
        Key::from_buf_and_len(buffer, len)
    } else {
        let mut key = Key::from_elem(0, 2 * bytes.len());
        pairs(&mut key, bytes);
        key.truncate(len);
        key
    };
    let rest = prefix.len() % 4;
    if let (true, Some(last), Some(byte)) = (rest != 0, key.last_mut(), bytes.last()) {
        let four = if len % 2 == 0 { byte & 15 } else { byte >> 4 };
        *last = code(rest as u8, four & (0xf0_u8 >> rest));
    }
    key
}

#[inline(always)]
fn pairs(key: &mut [u8], bytes: &[u8]) {
    for (pair, byte) in key.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&PAIRS[usize::from(*byte)]);
    }
}

/// The first key behind those of all prefixes that the prefix of this key covers.
pub(super) fn end_of(key: &[u8]) -> Key {
    let mut end = Key::from_slice(key);
    match end.last_mut() {
        Some(last) => *last += below(node(*last).0.max(1)),
        None => end.push(END_OF_PREFIXES),
    }
    end
}

#[inline(always)]
fn node(byte: u8) -> (u8, u8) {
    NODES.get(usize::from(byte)).copied().unwrap_or((0, 0))
}

/// The length in bits of the prefix with this key. The result for other keys is unspecified.
#[inline(always)]
pub(super) fn bits_of(key: &[u8]) -> usize {
    match key.split_last() {
        Some((last, whole)) => 4 * whole.len() + usize::from(node(*last).0),
        None => 0,
    }
}

/// Whether this is the key of a prefix.
pub(super) fn is_key(key: &[u8]) -> bool {
    let Some((last, whole)) = key.split_last() else {
        return true;
    };
    key.len() <= MAX_KEY && node(*last).0 != 0 && whole.iter().all(|byte| node(*byte).0 == 4)
}

/// The prefix with this key, if it is one.
pub(super) fn decode(key: &[u8]) -> Option<BitString> {
    if !is_key(key) {
        return None;
    }
    let bytes = key.chunks(2).map(|pair| {
        let low = pair.get(1).map_or(0, |byte| node(*byte).1);
        node(pair[0]).1 << 4 | low
    });
    Some(BitString::from_parts(bytes.collect(), bits_of(key) as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_a_walk() {
        fn walk(bits: u8, value: u8, next: &mut u8) {
            if bits > 0 {
                assert_eq!(code(bits, value), *next);
                assert_eq!(NODES[usize::from(*next)], (bits, value));
                *next += 1;
            }
            if bits < 4 {
                let above = *next - 1;
                for value in [value, value | 8 >> bits] {
                    let first = *next;
                    walk(bits + 1, value, next);
                    assert_eq!(*next - first, below(bits + 1));
                    let up = alternatives(first)[0];
                    assert_eq!(up, if bits > 0 { above } else { 0 });
                }
            }
        }
        let mut next = 1;
        walk(0, 0, &mut next);
        assert_eq!(next, END_OF_PREFIXES);
        assert_eq!(alternatives(8), [6, 2, 1]);
        assert_eq!(alternatives(16), [0; 3]);
    }

    #[test]
    fn keys_are_decoded_and_in_order() {
        let mut all = Vec::new();
        let most = if cfg!(miri) { 4 } else { 9 };
        for len in 0..=most {
            for value in 0..1 << len {
                all.push(BitString::from_number(value, len).unwrap());
            }
        }
        all.sort();
        let keys: Vec<Key> = all.iter().map(|p| encode(p.as_prefix())).collect();
        assert!(keys.is_sorted_by(|a, b| a < b));
        for (prefix, key) in all.iter().zip(&keys) {
            assert_eq!(decode(key).as_ref(), Some(prefix));
            assert_eq!(bits_of(key), prefix.len());
            let end = end_of(key);
            // All that it covers lies from its key to the end, and nothing else.
            let covered = keys.iter().filter(|k| *key <= **k && **k < end).count();
            assert_eq!(covered, (1 << (most + 1 - prefix.len())) - 1);
        }
        let mut rng = fastrand::Rng::with_seed(1);
        for len in [16, 255, 256, 257, 1000, 2045, 2047, 2048] {
            let bytes: Vec<u8> = (0..256).map(|_| rng.u8(..)).collect();
            let prefix = BitString::truncated(&bytes, len).unwrap();
            let unclean = BitPrefix::truncated(&bytes, len).unwrap();
            let key = encode(prefix.as_prefix());
            assert_eq!(key, encode(unclean));
            assert_eq!(key.len(), len.div_ceil(4));
            assert_eq!(decode(&key), Some(prefix));
        }
    }

    #[test]
    fn other_keys_are_none() {
        for key in [&[0][..], &[31], &[4, 0], &[1, 4], &[255, 4], &[4; 513]] {
            assert_eq!(decode(key), None);
        }
        assert!(decode(&[4; 512]).is_some());
        assert_eq!(decode(&[]), Some(BitString::new()));
    }
}
