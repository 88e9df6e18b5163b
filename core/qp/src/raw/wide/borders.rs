//! The search of borders, all at once, by a shuffle of the key's bytes: with AVX2 or NEON.
// Up to Rust 1.85, what needs AVX2 is an unsafe function, and so is whatever uses it.
#![allow(unsafe_op_in_unsafe_fn)]

use super::lanes::{self, Bytes, Half};
use crate::raw::borders::Borders;

/// The first 16 bytes of an array, then the last 16. If it has fewer, both are its bytes with
/// `skip` others before them, which may be cells that a writer replaces.
///
/// # Safety
/// There are 16 bytes before the end of the array. The lanes are there.
#[inline]
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2"))]
unsafe fn load(array: *const u8, capacity: usize, skip: usize) -> Bytes {
    let last = array.wrapping_add(capacity).wrapping_sub(16);
    // SAFETY: the caller's promise.
    unsafe { lanes::pair(array.wrapping_sub(skip), last) }
}

/// Sixteen bytes of the key, from `start` on, or from where there are as many. Also tells where
/// they begin. If the key is shorter, it is all of it, and zeros.
///
/// # Safety
/// The key is not empty.
#[inline(always)]
unsafe fn window(key: &[u8], start: usize) -> (Half, usize) {
    let (p, len) = (key.as_ptr(), key.len());
    // SAFETY: the loads are inside the key.
    unsafe {
        if len >= 16 {
            let start = start.min(len - 16);
            return (lanes::of_key(p.add(start)), start);
        }
        if len < 8 {
            return (lanes::half(short(key), 0), 0);
        }
        let low = p.cast::<u64>().read_unaligned();
        let high = p.add(len - 8).cast::<u64>().read_unaligned();
        // The bytes from the ninth on; none if there are only eight.
        let half = 4 * (16 - len);
        (lanes::half(low, high >> half >> half), 0)
    }
}

/// A key of one to seven bytes, and zeros behind it. Some bytes are loaded twice, to the same
/// place.
fn short(key: &[u8]) -> u64 {
    let len = key.len();
    if let (Some(low), Some(high)) = (key.first_chunk(), key.last_chunk()) {
        let high = u64::from(u32::from_le_bytes(*high)) << (8 * (len - 4));
        return u64::from(u32::from_le_bytes(*low)) | high;
    }
    let byte = |i: usize| u64::from(key[i]) << (8 * i);
    byte(0) | byte(len / 2) | byte(len - 1)
}

/// `Borders::search`, if the processor has the vectors.
///
/// # Safety
/// As for that. The key is longer than `base`.
#[inline(always)]
pub(crate) unsafe fn search(borders: Borders, key: &[u8]) -> Option<usize> {
    let Borders {
        d,
        capacity,
        n,
        base,
    } = borders;
    // SAFETY: the caller's promise; the processor can do what it was asked for.
    lanes::are_there().then(|| unsafe { search_all(d, capacity, n, base, key) })
}

/// The borders come one by one, in registers.
///
/// # Safety
/// As for `search`. The vectors are there.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2"))]
unsafe fn search_all(d: *const u8, capacity: usize, n: usize, base: usize, key: &[u8]) -> usize {
    // Border `i` is bit `i + skip`, from the seventeenth on bit `i + 32 - capacity`.
    let skip = 16 - capacity.min(16);
    let numbers = (1u64 << n) - 2;
    let borders = (numbers & 0xffff) << skip | (numbers & !0xffff) << (32 - capacity);
    // SAFETY: the caller's promise. Before the arrays are the header and at least as many bytes
    // of tags, cells or places: 16 before the end of each.
    let (offsets, bytes, (first, start)) = unsafe {
        let bytes = load(d.add(capacity), capacity, skip);
        (load(d, capacity, skip), bytes, window(key, base))
    };
    let places = lanes::places(offsets, base - start);
    let mut picked = lanes::pick(first, places);
    let last = lanes::all((key.len() - base - 1).min(255) as u8);
    let inside = lanes::bits(lanes::not_less(last, offsets)) & borders;
    let far = lanes::bits(places) & inside;
    if far != 0 {
        // The window begins at `base`, and there are more bytes behind it.
        // SAFETY: the caller's promise.
        let (second, start) = unsafe { window(key, base + 16) };
        let offsets = lanes::less(offsets, lanes::all(16));
        let places = lanes::places(offsets, base + 16 - start);
        if lanes::bits(places) & far != 0 {
            let borders = Borders {
                d,
                capacity,
                n,
                base,
            };
            // SAFETY: the caller's promise.
            return unsafe { borders.search_each(key) };
        }
        picked = lanes::or(picked, lanes::pick(second, places));
    }
    let right = lanes::bits(lanes::not_less(picked, bytes)) & inside;
    let by_bit = lanes::array(offsets);
    // The borders that the key sorts before, and the end.
    let left = (right ^ borders) | 1 << 32;
    let mut next = left.trailing_zeros();
    let mut found = next;
    while next < 32 {
        // Borders behind it with greater offsets, or the same, are not on the key's path.
        // SAFETY: there are 32 bytes.
        let limit = lanes::all(unsafe { *by_bit.get_unchecked(next as usize) });
        let asked = (!lanes::bits(lanes::not_less(offsets, limit)) & borders) >> next;
        if asked == 0 {
            break;
        }
        let ask = next + asked.trailing_zeros();
        next = ask + (left >> ask).trailing_zeros();
        found = if next == ask { found } else { next };
    }
    let found = found as usize;
    let border = found - if found < 16 { skip } else { 32 - capacity };
    border.min(n) - 1
}
