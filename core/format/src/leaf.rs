//! The bytes of a leaf: value, key length, key; or, where values are byte strings, key length, key,
//! value length, value.
//!
//! With values of a fixed size:
//!
//! ```text
//! 0                value, a multiple of 8 bytes where it is published
//! value bytes      u8 key length, or 255 and the length as u16, little-endian
//! 1 or 3 more      key bytes; zeros up to a multiple of 8
//! ```
//!
//! The value comes first, so that it is aligned with the block. A hit on a short key reads one
//! cache line.
//!
//! With byte strings as values, which lie behind the key:
//!
//! ```text
//! 0                u8 key length, or 255 and the length as u16, little-endian
//! 1 or 3           key bytes
//! behind the key   u8 value length up to 253, or 254 and the length as u16, or 255 and as u32
//! 1, 3 or 5 more   value bytes; zeros up to a multiple of 8
//! ```
//!
//! So a key lies there as behind a value of 0 bytes. The bytes behind it in its last word are not
//! zeros.

/// The longest key.
pub const MAX_KEY: usize = 65_535;
/// The least length that takes two bytes more. It is also the byte that says so.
pub const LONG: usize = 255;

/// The longest value that is a byte string: 256 MiB.
pub const MAX_VALUE: usize = 1 << 28;
/// The byte that says that the length of a byte string follows as u16.
pub const VALUE_U16: u8 = 254;
/// The byte that says that the length of a byte string follows as u32.
pub const VALUE_U32: u8 = 255;

/// The offset of the bytes of a key of this length, behind a value of `value_bytes` bytes.
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

/// The bytes of a key's length. A length below [`LONG`] has only the first.
#[inline(always)]
pub const fn length(key_len: usize) -> [u8; 3] {
    if key_len < LONG {
        [key_len as u8, 0, 0]
    } else {
        let [low, high] = (key_len as u16).to_le_bytes();
        [LONG as u8, low, high]
    }
}

/// The length of a key whose leaf has these bytes behind the value.
#[inline(always)]
pub const fn key_len(length: [u8; 3]) -> usize {
    let [first, low, high] = length;
    if (first as usize) < LONG {
        first as usize
    } else {
        u16::from_le_bytes([low, high]) as usize
    }
}

/// The number of bytes of a byte string's length, from the first of them.
#[inline(always)]
pub const fn value_length_bytes(first: u8) -> usize {
    match first {
        VALUE_U16 => 3,
        VALUE_U32 => 5,
        _ => 1,
    }
}

/// The bytes of a byte string's length, and their number.
#[inline(always)]
pub const fn value_length(value_len: usize) -> ([u8; 5], usize) {
    if value_len < VALUE_U16 as usize {
        return ([value_len as u8, 0, 0, 0, 0], 1);
    }
    let [a, b, c, d] = (value_len as u32).to_le_bytes();
    match value_len <= u16::MAX as usize {
        true => ([VALUE_U16, a, b, 0, 0], 3),
        false => ([VALUE_U32, a, b, c, d], 5),
    }
}

/// The length of a byte string, from its bytes. Bytes behind the length are 0.
#[inline(always)]
pub const fn value_len(length: [u8; 5]) -> usize {
    let [first, a, b, c, d] = length;
    match first {
        VALUE_U16 => u16::from_le_bytes([a, b]) as usize,
        VALUE_U32 => u32::from_le_bytes([a, b, c, d]) as usize,
        _ => first as usize,
    }
}

/// Bytes that a byte string takes behind the key, with its length, before rounding to units.
#[inline(always)]
pub const fn bytes_behind(value_len: usize) -> usize {
    value_length(value_len).1 + value_len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_byte_strings_come_back() {
        for len in [0, 1, 253, 254, 255, 256, 65_535, 65_536, MAX_VALUE] {
            let (bytes, n) = value_length(len);
            assert_eq!((value_length_bytes(bytes[0]), value_len(bytes)), (n, len));
            assert_eq!(bytes_behind(len), n + len);
        }
    }
}
