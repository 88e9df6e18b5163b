//! The bytes of a leaf: value, key length, key.
//!
//! ```text
//! 0                value, a multiple of 8 bytes where it is published
//! value bytes      u8 key length, or 255 and the length as u16, little-endian
//! 1 or 3 more      key bytes; zeros up to a multiple of 8
//! ```
//!
//! The value comes first so that it is aligned with the block; a hit on a short key touches one
//! line.

/// The longest key.
pub const MAX_KEY: usize = 65_535;
/// Lengths from here on take two bytes more. It is also the byte that says so.
pub const LONG: usize = 255;

/// Where the bytes of a key of this length are, behind a value of `value_bytes` bytes.
#[inline(always)]
pub const fn key_at(value_bytes: usize, key_len: usize) -> usize {
    value_bytes + if key_len < LONG { 1 } else { 3 }
}

/// Bytes of a leaf, before rounding to units.
#[inline(always)]
pub const fn size(value_bytes: usize, key_len: usize) -> usize {
    key_at(value_bytes, key_len) + key_len
}

/// Bytes of a leaf's block.
#[inline(always)]
pub const fn block(value_bytes: usize, key_len: usize) -> usize {
    (size(value_bytes, key_len) + 7) & !7
}

/// The bytes that say how long a key is. A length below [`LONG`] has only the first.
#[inline(always)]
pub const fn length(key_len: usize) -> [u8; 3] {
    if key_len < LONG {
        [key_len as u8, 0, 0]
    } else {
        let [low, high] = (key_len as u16).to_le_bytes();
        [LONG as u8, low, high]
    }
}

/// How long a key is whose leaf has these bytes behind the value.
#[inline(always)]
pub const fn key_len(length: [u8; 3]) -> usize {
    let [first, low, high] = length;
    if (first as usize) < LONG {
        first as usize
    } else {
        u16::from_le_bytes([low, high]) as usize
    }
}
