//! SSE2, which all processors have, and AVX2, which is found at run time.
// Up to Rust 1.85, the instructions are unsafe functions, and so is whatever uses them.
#![allow(unsafe_op_in_unsafe_fn)]

use core::arch::asm;
use core::arch::x86_64::*;

/// The instruction that moves 16 bytes. A build with AVX uses AVX's, because some processors stall
/// when legacy SSE instructions are mixed with AVX ones.
#[cfg(target_feature = "avx")]
macro_rules! load {
    ($rest:literal) => {
        concat!("vmovdqu ", $rest)
    };
}
#[cfg(not(target_feature = "avx"))]
macro_rules! load {
    ($rest:literal) => {
        concat!("movdqu ", $rest)
    };
}

/// Sixteen bytes.
pub(super) type Half = __m128i;

/// Sixteen bytes from an offset on.
///
/// # Safety
/// There are as many at `p` and the offset.
#[inline(always)]
pub(super) unsafe fn sixteen<const AT: usize>(p: *const u8) -> Half {
    let bytes;
    // SAFETY: the caller's promise; SSE2 is part of x86-64. It reads 16 bytes and does nothing
    // else.
    unsafe {
        asm!(
            load!("{bytes}, xmmword ptr [{p} + {at}]"),
            p = in(reg) p,
            at = const AT,
            bytes = out(xmm_reg) bytes,
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
            "mov {word}, qword ptr [{p} + {at}]",
            p = in(reg) p,
            at = const AT,
            word = out(reg) word,
            options(pure, readonly, nostack, preserves_flags)
        );
    }
    word
}

/// A byte eight times. The multiplication takes fewer instructions than the shuffles of
/// `_mm_set1_epi8`.
#[inline(always)]
fn eight(byte: u8) -> i64 {
    (u64::from(byte) * 0x0101_0101_0101_0101) as i64
}

/// The bytes that are greater than those of `most`, as one bit for each. Higher bits are set.
#[inline(always)]
fn greater(bytes: Half, most: Half) -> u32 {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { !_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_max_epu8(bytes, most), most)) as u32 }
}

/// The bytes of a word that are greater than another byte, as one bit for each. Higher bits have no
/// meaning.
#[inline(always)]
pub(super) fn greater8(word: u64, byte: u8) -> u32 {
    // SAFETY: SSE2 is part of x86-64.
    let (bytes, most) = unsafe {
        (
            _mm_cvtsi64_si128(word as i64),
            _mm_cvtsi64_si128(eight(byte)),
        )
    };
    greater(bytes, most)
}

/// The bytes that are greater than another byte, as one bit for each.
#[inline(always)]
pub(super) fn greater32(low: Half, high: Half, byte: u8) -> u32 {
    // SAFETY: SSE2 is part of x86-64.
    let most = unsafe { _mm_set1_epi64x(eight(byte)) };
    greater(low, most) & 0xffff | greater(high, most) << 16
}

/// The bytes that equal another byte, as one bit for each.
#[inline(always)]
pub(super) fn equal(low: Half, high: Half, byte: u8) -> (u32, u32) {
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let all = _mm_set1_epi64x(eight(byte));
        let bits = |bytes| _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, all)) as u32;
        (bits(low), bits(high))
    }
}

/// Sixteen bytes of a key, which nobody changes.
///
/// # Safety
/// There are as many at `p`.
#[inline(always)]
pub(super) unsafe fn of_key(p: *const u8) -> Half {
    // SAFETY: the caller's promise; SSE2 is part of x86-64.
    unsafe { _mm_loadu_si128(p.cast()) }
}

/// Two words as sixteen bytes.
#[inline(always)]
pub(super) fn half(low: u64, high: u64) -> Half {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { _mm_set_epi64x(high as i64, low as i64) }
}

/// Whether the processor has what the functions below need.
#[inline(always)]
pub(super) fn are_there() -> bool {
    #[cfg(feature = "std")]
    return std::arch::is_x86_feature_detected!("avx2");
    #[cfg(not(feature = "std"))]
    return cfg!(target_feature = "avx2");
}

/// 32 bytes.
pub(super) type Bytes = __m256i;

/// The 16 bytes at `first`, then those at `last`.
///
/// # Safety
/// They can be read. The processor has AVX2.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn pair(first: *const u8, last: *const u8) -> Bytes {
    let bytes: Bytes;
    // SAFETY: the caller's promise. It reads twice 16 bytes and does nothing else.
    unsafe {
        asm!(
            "vmovdqu {bytes:x}, xmmword ptr [{first}]",
            "vinserti128 {bytes:y}, {bytes:y}, xmmword ptr [{last}], 1",
            first = in(reg) first,
            last = in(reg) last,
            bytes = out(ymm_reg) bytes,
            options(pure, readonly, nostack, preserves_flags)
        );
    }
    bytes
}

/// A byte in all places.
///
/// # Safety
/// The processor has AVX2.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn all(byte: u8) -> Bytes {
    _mm256_set1_epi8(byte as i8)
}

/// The upper bits of all bytes.
///
/// # Safety
/// The processor has AVX2.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn bits(bytes: Bytes) -> u64 {
    u64::from(_mm256_movemask_epi8(bytes) as u32)
}

/// The bytes that are not less than others, as bytes with all bits.
///
/// # Safety
/// The processor has AVX2.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn not_less(bytes: Bytes, others: Bytes) -> Bytes {
    _mm256_cmpeq_epi8(_mm256_max_epu8(bytes, others), bytes)
}

/// The differences of bytes, modulo 256.
///
/// # Safety
/// The processor has AVX2.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn less(bytes: Bytes, by: Bytes) -> Bytes {
    _mm256_sub_epi8(bytes, by)
}

/// All bits of both.
///
/// # Safety
/// The processor has AVX2.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn or(bytes: Bytes, others: Bytes) -> Bytes {
    _mm256_or_si256(bytes, others)
}

/// Indices for `pick`: those in `indices` and `more`, whose upper bits are set from 16 on.
///
/// # Safety
/// The processor has AVX2.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn places(indices: Bytes, more: usize) -> Bytes {
    _mm256_adds_epu8(indices, all((0x70 + more) as u8))
}

/// The bytes of `window` with these indices, which `places` made; 0 from 16 on.
///
/// # Safety
/// The processor has AVX2.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn pick(window: Half, places: Bytes) -> Bytes {
    _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(window), places)
}

/// The bytes as an array.
///
/// # Safety
/// The processor has AVX2.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn array(bytes: Bytes) -> [u8; 32] {
    let mut array = [0; 32];
    // SAFETY: there is room for 32 bytes.
    unsafe { _mm256_storeu_si256(array.as_mut_ptr().cast(), bytes) };
    array
}
