//! Wide loads of labels, tags, borders and short pieces of keys, which may also load what lies
//! beside them: some of the cells, or bytes of a block that were never written.
//!
//! In a shared trie a writer may replace such a cell at the same time. The bytes of the cell are
//! not used, but for the language any plain load of them is a data race. So each load is one
//! instruction of inline assembly, into which the compiler does not see. (The processor loads the
//! old or the new value of each byte.) On other processors, and under tools that look for races,
//! `narrow` takes the place of this module.

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod borders;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64 as lanes;
#[cfg(target_arch = "x86_64")]
use x86_64 as lanes;

use lanes::{sixteen, word};

pub(crate) use borders::search;

/// Whether a key of eight bytes or more begins with the `len` bytes at `p`, which are fewer.
///
/// # Safety
/// `p` points at eight bytes, of which those behind `len` may never have been written.
#[inline(always)]
pub(crate) unsafe fn begins(p: *const u8, len: usize, key: &[u8]) -> bool {
    // SAFETY: the caller's promise; the key has eight bytes.
    let unlike = unsafe { word::<0>(p) ^ word::<0>(key.as_ptr()) };
    unlike.trailing_zeros() as usize >= 8 * len
}

/// Whether a key of eight bytes or more ends with the `len` bytes before `end`, which are
/// fewer.
///
/// # Safety
/// Before `end` are eight bytes, of which the first may never have been written.
#[inline(always)]
pub(crate) unsafe fn ends(end: *const u8, len: usize, key: &[u8]) -> bool {
    // SAFETY: the caller's promise; the key has eight bytes.
    let unlike = unsafe { word::<0>(end.sub(8)) ^ word::<0>(key.as_ptr().add(key.len() - 8)) };
    unlike.leading_zeros() as usize >= 8 * len
}

/// For `n` labels, eight at most: the lowest bit of the result is that of the first label that is
/// greater than the byte. Bit `n` is set.
///
/// # Safety
/// `p` points at 12 bytes.
#[inline(always)]
pub(crate) unsafe fn greater8(p: *const u8, n: usize, byte: u8) -> u32 {
    // SAFETY: the caller's promise.
    lanes::greater8(unsafe { word::<4>(p) }, byte) | 1 << n
}

/// As `greater8`, for up to 32 labels.
///
/// # Safety
/// `p` points at 36 bytes.
#[inline(always)]
pub(crate) unsafe fn greater32(p: *const u8, n: usize, byte: u8) -> u64 {
    // SAFETY: the caller's promise.
    let (low, high) = unsafe { (sixteen::<4>(p), sixteen::<20>(p)) };
    u64::from(lanes::greater32(low, high, byte)) | 1 << n
}

/// The tags behind byte 4 that equal `tag`, as one bit for each of `n` tags. Higher bits have no
/// meaning.
///
/// # Safety
/// `p` points at 20 bytes, and at `n + 4`.
#[inline(always)]
pub(crate) unsafe fn equal32(p: *const u8, n: usize, tag: u8) -> u32 {
    let last = n.max(16) - 16;
    // SAFETY: the caller's promise: the second load ends behind the last tag, or is the first.
    let (low, high) = unsafe { (sixteen::<4>(p), sixteen::<4>(p.add(last))) };
    let (low, high) = lanes::equal(low, high, tag);
    low | high << last
}

/// The tags behind byte 8 that equal `tag`, as one bit for each of `n` tags, 24 at most. Higher
/// bits have no meaning.
///
/// # Safety
/// `p` points at 32 bytes.
#[inline(always)]
pub(crate) unsafe fn equal24(p: *const u8, _: usize, tag: u8) -> u32 {
    // SAFETY: the caller's promise.
    let (low, high) = unsafe { (sixteen::<8>(p), sixteen::<16>(p)) };
    let (low, high) = lanes::equal(low, high, tag);
    low | high << 8
}
