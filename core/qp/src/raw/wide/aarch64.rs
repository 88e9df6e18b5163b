//! NEON, which all processors of 64-bit ARM have, apart from targets that say otherwise.
// Up to Rust 1.86, the instructions are unsafe functions, and so is whatever uses them.
#![allow(unused_unsafe)]

use core::arch::aarch64::*;
use core::arch::asm;

/// Sixteen bytes.
pub(super) type Half = uint8x16_t;

/// Sixteen bytes from an offset on.
///
/// # Safety
/// There are as many at `p` and the offset.
#[inline(always)]
pub(super) unsafe fn sixteen<const AT: usize>(p: *const u8) -> Half {
    let bytes;
    // SAFETY: the caller's promise. It reads 16 bytes and does nothing else.
    unsafe {
        asm!(
            "ldur {bytes:q}, [{p}, #{at}]",
            p = in(reg) p,
            at = const AT,
            bytes = out(vreg) bytes,
            options(pure, readonly, nostack, preserves_flags)
        );
    }
    bytes
}

/// Eight bytes from an offset on, the first of them as the lowest.
///
/// # Safety
/// There are as many at `p` and the offset.
#[inline(always)]
pub(super) unsafe fn word<const AT: usize>(p: *const u8) -> u64 {
    let word: u64;
    // SAFETY: the caller's promise; it reads eight bytes and does nothing else.
    unsafe {
        asm!(
            "ldur {word}, [{p}, #{at}]",
            p = in(reg) p,
            at = const AT,
            word = out(reg) word,
            options(pure, readonly, nostack, preserves_flags)
        );
    }
    word
}

/// The bit of each byte in a word of eight.
const BITS: u64 = 0x8040_2010_0804_0201;

/// A bit for each byte, of bytes that have all bits or none.
#[inline(always)]
fn mask(low: Half, high: Half) -> u32 {
    // SAFETY: NEON is there.
    unsafe {
        let bits = vreinterpretq_u8_u64(vdupq_n_u64(BITS));
        let pairs = vpaddq_u8(vandq_u8(low, bits), vandq_u8(high, bits));
        let fours = vpaddq_u8(pairs, pairs);
        vgetq_lane_u32::<0>(vreinterpretq_u32_u8(vpaddq_u8(fours, fours)))
    }
}

/// The bytes of a word that are greater than another byte, as one bit for each.
#[inline(always)]
pub(super) fn greater8(word: u64, byte: u8) -> u32 {
    // SAFETY: NEON is there.
    unsafe {
        let greater = vcgt_u8(vcreate_u8(word), vdup_n_u8(byte));
        u32::from(vaddv_u8(vand_u8(greater, vcreate_u8(BITS))))
    }
}

/// The bytes that are greater than another byte, as one bit for each.
#[inline(always)]
pub(super) fn greater32(low: Half, high: Half, byte: u8) -> u32 {
    // SAFETY: NEON is there.
    unsafe {
        let most = vdupq_n_u8(byte);
        mask(vcgtq_u8(low, most), vcgtq_u8(high, most))
    }
}

/// The bytes that equal another byte, as one bit for each.
#[inline(always)]
pub(super) fn equal(low: Half, high: Half, byte: u8) -> (u32, u32) {
    // SAFETY: NEON is there.
    let bits = unsafe {
        let all = vdupq_n_u8(byte);
        mask(vceqq_u8(low, all), vceqq_u8(high, all))
    };
    (bits & 0xffff, bits >> 16)
}

/// Sixteen bytes of a key, which nobody changes.
///
/// # Safety
/// There are as many at `p`.
#[inline(always)]
pub(super) unsafe fn of_key(p: *const u8) -> Half {
    // SAFETY: the caller's promise.
    unsafe { vld1q_u8(p) }
}

/// Two words as sixteen bytes.
#[inline(always)]
pub(super) fn half(low: u64, high: u64) -> Half {
    // SAFETY: NEON is there.
    unsafe { vcombine_u8(vcreate_u8(low), vcreate_u8(high)) }
}

/// Whether the processor has what the functions below need.
#[inline(always)]
pub(super) fn are_there() -> bool {
    true
}

/// 32 bytes.
pub(super) type Bytes = [Half; 2];

/// Both halves, changed by `f`.
#[inline(always)]
fn each(a: Bytes, b: Bytes, f: impl Fn(Half, Half) -> Half) -> Bytes {
    [f(a[0], b[0]), f(a[1], b[1])]
}

/// The 16 bytes at `first`, then those at `last`.
///
/// # Safety
/// They can be read.
#[inline(always)]
pub(super) unsafe fn pair(first: *const u8, last: *const u8) -> Bytes {
    // SAFETY: the caller's promise.
    unsafe { [sixteen::<0>(first), sixteen::<0>(last)] }
}

/// A byte in all places.
///
/// # Safety
/// None is needed here.
#[inline(always)]
pub(super) unsafe fn all(byte: u8) -> Bytes {
    // SAFETY: NEON is there.
    unsafe { [vdupq_n_u8(byte); 2] }
}

/// The upper bits of all bytes.
///
/// # Safety
/// None is needed here.
#[inline(always)]
pub(super) unsafe fn bits(bytes: Bytes) -> u64 {
    // SAFETY: NEON is there.
    let [low, high] = bytes.map(|half| unsafe { vcltzq_s8(vreinterpretq_s8_u8(half)) });
    u64::from(mask(low, high))
}

/// The bytes that are not less than others, as bytes with all bits.
///
/// # Safety
/// None is needed here.
#[inline(always)]
pub(super) unsafe fn not_less(bytes: Bytes, others: Bytes) -> Bytes {
    // SAFETY: NEON is there.
    each(bytes, others, |a, b| unsafe { vcgeq_u8(a, b) })
}

/// The differences of bytes, modulo 256.
///
/// # Safety
/// None is needed here.
#[inline(always)]
pub(super) unsafe fn less(bytes: Bytes, by: Bytes) -> Bytes {
    // SAFETY: NEON is there.
    each(bytes, by, |a, b| unsafe { vsubq_u8(a, b) })
}

/// All bits of both.
///
/// # Safety
/// None is needed here.
#[inline(always)]
pub(super) unsafe fn or(bytes: Bytes, others: Bytes) -> Bytes {
    // SAFETY: NEON is there.
    each(bytes, others, |a, b| unsafe { vorrq_u8(a, b) })
}

/// Indices for `pick`: those in `indices` and `more`, whose upper bits are set from 16 on.
///
/// # Safety
/// None is needed here.
#[inline(always)]
pub(super) unsafe fn places(indices: Bytes, more: usize) -> Bytes {
    // SAFETY: NEON is there.
    each(indices, [half_of(0x70 + more as u8); 2], |a, b| unsafe {
        vqaddq_u8(a, b)
    })
}

/// A byte in sixteen places.
#[inline(always)]
fn half_of(byte: u8) -> Half {
    // SAFETY: NEON is there.
    unsafe { vdupq_n_u8(byte) }
}

/// The bytes of `window` with these indices, which `places` made; 0 from 16 on.
///
/// # Safety
/// None is needed here.
#[inline(always)]
pub(super) unsafe fn pick(window: Half, places: Bytes) -> Bytes {
    let begin = half_of(0x70);
    // SAFETY: NEON is there.
    places.map(|places| unsafe { vqtbl1q_u8(window, vsubq_u8(places, begin)) })
}

/// The bytes as an array.
///
/// # Safety
/// None is needed here.
#[inline(always)]
pub(super) unsafe fn array(bytes: Bytes) -> [u8; 32] {
    let mut array = [0; 32];
    // SAFETY: there is room for 32 bytes.
    unsafe {
        vst1q_u8(array.as_mut_ptr(), bytes[0]);
        vst1q_u8(array[16..].as_mut_ptr(), bytes[1]);
    }
    array
}
