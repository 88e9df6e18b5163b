//! What `wide` does, in plain Rust: only labels and tags are loaded. For processors without its
//! vectors, and for tools that look for races.

use super::borders::Borders;

/// Sets bit `i` for each `i` below `n` for which `test` returns true for byte `4 + i`.
///
/// # Safety
/// `p` points at `n + 4` bytes.
#[inline(always)]
unsafe fn passing(p: *const u8, n: usize, test: impl Fn(u8) -> bool) -> u64 {
    // SAFETY: the caller's promise.
    (0..n).fold(0, |bits, i| {
        bits | u64::from(test(unsafe { *p.add(4 + i) })) << i
    })
}

/// # Safety
/// `p` points at `len` bytes, and the key has as many.
#[inline(always)]
pub(crate) unsafe fn begins(p: *const u8, len: usize, key: &[u8]) -> bool {
    // SAFETY: the caller's promise.
    (0..len).all(|i| unsafe { *p.add(i) } == key[i])
}

/// # Safety
/// Before `end` are `len` bytes, and the key has as many.
#[inline(always)]
pub(crate) unsafe fn ends(end: *const u8, len: usize, key: &[u8]) -> bool {
    // SAFETY: the caller's promise.
    unsafe { begins(end.sub(len), len, &key[key.len() - len..]) }
}

/// # Safety
/// `p` points at `n + 4` bytes.
#[inline(always)]
pub(crate) unsafe fn greater8(p: *const u8, n: usize, byte: u8) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { passing(p, n, |label| label > byte) as u32 | 1 << n }
}

/// # Safety
/// `p` points at `n + 4` bytes.
#[inline(always)]
pub(crate) unsafe fn greater32(p: *const u8, n: usize, byte: u8) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { passing(p, n, |label| label > byte) | 1 << n }
}

/// # Safety
/// `p` points at `n + 4` bytes.
#[inline(always)]
pub(crate) unsafe fn equal32(p: *const u8, n: usize, tag: u8) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { passing(p, n, |other| other == tag) as u32 }
}

/// # Safety
/// `p` points at `n + 8` bytes.
#[inline(always)]
pub(crate) unsafe fn equal24(p: *const u8, n: usize, tag: u8) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { equal32(p.add(4), n, tag) }
}

/// Nothing: there are no vectors.
///
/// # Safety
/// None is needed here.
#[inline(always)]
pub(crate) unsafe fn search(_: Borders, _: &[u8]) -> Option<usize> {
    None
}
