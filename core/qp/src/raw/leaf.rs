//! Leaves in the arena, read and written through pointers.

use core::marker::PhantomData;
use core::{ptr, slice};

use sapwood_format::leaf::{self, LONG};

pub(crate) use sapwood_format::leaf::{MAX_KEY, MAX_VALUE};

pub(crate) use super::value::{Stored, Value};
use crate::Pieces;

/// The layout of leaves with values of type `V`.
pub(crate) struct LeafOf<V: ?Sized>(PhantomData<V>);

impl<V: ?Sized + Stored> LeafOf<V> {
    /// Values with a larger alignment than a block's are boxed.
    pub(crate) const BOXED: bool = V::BOXED;
    /// Whether something must be dropped with a leaf.
    pub(crate) const NEEDS_DROP: bool = V::NEEDS_DROP;
    /// The place of the key's length, in bytes from the leaf.
    pub(crate) const LEN_AT: usize = V::LEN_AT;

    /// The place of the bytes of a key of this length.
    #[inline(always)]
    pub(crate) const fn key_at(key_len: usize) -> usize {
        leaf::key_at(Self::LEN_AT, key_len)
    }

    /// Bytes of a leaf, before rounding to units, with a key of this length and a value of that
    /// length (0 where lengths do not vary).
    #[inline(always)]
    pub(crate) fn size_with(key_len: usize, value_len: usize) -> usize {
        leaf::size(Self::LEN_AT, key_len) + V::behind(value_len)
    }

    /// Bytes of the leaf of a key with a new value, before rounding to units.
    #[inline(always)]
    pub(crate) fn size_for(key_len: usize, new: &V::New<'_>) -> usize {
        Self::size_with(key_len, V::new_len(new))
    }

    /// Bytes of a leaf, before rounding to units.
    ///
    /// # Safety
    /// `p` points at a leaf.
    #[inline(always)]
    pub(crate) unsafe fn size(p: *const u8) -> usize {
        // SAFETY: the caller's promise.
        unsafe { Self::size_with(Self::key_len(p), V::value_len(p)) }
    }

    /// Bytes of a leaf's block.
    ///
    /// # Safety
    /// `p` points at a leaf.
    #[inline(always)]
    pub(crate) unsafe fn block(p: *const u8) -> usize {
        // SAFETY: the caller's promise.
        unsafe { (Self::size(p) + 7) & !7 }
    }

    /// Bytes of the block of a key's leaf. If values have one size, the length of the key
    /// determines it. Otherwise it is that of this leaf, or 0 without a leaf.
    ///
    /// # Safety
    /// The leaf, if any, is one in the memory at `base`.
    #[cfg(feature = "std")]
    #[inline(always)]
    pub(crate) unsafe fn block_of_key(key_len: usize, p: Option<*const u8>) -> usize {
        match p {
            // SAFETY: the caller's promise.
            Some(p) if V::VARIES => unsafe { Self::block(p) },
            None if V::VARIES => 0,
            _ => (Self::size_with(key_len, 0) + 7) & !7,
        }
    }

    /// # Safety
    /// `p` points at a leaf.
    #[inline(always)]
    pub(crate) unsafe fn key_len(p: *const u8) -> usize {
        // SAFETY: the length is inside the leaf.
        unsafe {
            let short = usize::from(*p.add(Self::LEN_AT));
            if short < LONG {
                short
            } else {
                leaf::key_len(p.add(Self::LEN_AT).cast::<[u8; 3]>().read())
            }
        }
    }

    /// # Safety
    /// `p` points at a leaf that lives for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn key<'a>(p: *const u8) -> &'a [u8] {
        // SAFETY: the key bytes follow the length and never change.
        unsafe {
            let short = usize::from(*p.add(Self::LEN_AT));
            let (at, len) = match short < LONG {
                true => (Self::key_at(0), short),
                false => (Self::key_at(LONG), Self::key_len(p)),
            };
            slice::from_raw_parts(p.add(at), len)
        }
    }

    /// Whether the leaf's key is this one.
    ///
    /// # Safety
    /// `p` points at a leaf.
    #[inline(always)]
    pub(crate) unsafe fn is_key(p: *const u8, key: &[u8]) -> bool {
        // SAFETY: if the length byte agrees with a short key, that number of bytes follows it.
        unsafe {
            if key.len() < LONG {
                usize::from(*p.add(Self::LEN_AT)) == key.len()
                    && is_same(p.add(Self::key_at(0)), key)
            } else {
                Self::key(p) == key
            }
        }
    }

    /// A pointer to the value.
    ///
    /// # Safety
    /// `p` points at a leaf.
    #[inline(always)]
    pub(crate) unsafe fn value_ptr(p: *const u8) -> *mut V {
        // SAFETY: the caller's promise.
        unsafe { V::value_ptr(p) }
    }

    /// Writes a leaf.
    ///
    /// # Safety
    /// `p` is a block of `size_for(key.len(), &value)` bytes rounded up to 8, which nobody reads.
    #[inline]
    pub(crate) unsafe fn write(p: *mut u8, key: &[u8], value: V::New<'_>) {
        debug_assert!(key.len() <= MAX_KEY);
        // SAFETY: the block has room; the last word is cleared first so that padding is zero.
        unsafe {
            let block = (Self::size_for(key.len(), &value) + 7) & !7;
            p.add(block - 8).cast::<u64>().write(0);
            if !V::VARIES {
                // The value is written first because it is the first part of the block.
                return Self::write_fixed(p, key, value);
            }
            Self::write_key(p, key);
            V::write(p, value);
        }
    }

    /// # Safety
    /// As for `write`.
    #[inline(always)]
    unsafe fn write_fixed(p: *mut u8, key: &[u8], value: V::New<'_>) {
        // SAFETY: the caller's promise.
        unsafe {
            V::write(p, value);
            Self::write_key(p, key);
        }
    }

    /// # Safety
    /// As for `write`.
    #[inline(always)]
    unsafe fn write_key(p: *mut u8, key: &[u8]) {
        // SAFETY: the caller's promise.
        unsafe {
            Self::write_length(p, key.len());
            ptr::copy_nonoverlapping(key.as_ptr(), p.add(Self::key_at(key.len())), key.len());
        }
    }

    /// # Safety
    /// As for `write`.
    #[inline(always)]
    unsafe fn write_length(p: *mut u8, len: usize) {
        let length = leaf::length(len);
        // SAFETY: the caller's promise.
        unsafe {
            if len < LONG {
                *p.add(Self::LEN_AT) = length[0];
            } else {
                p.add(Self::LEN_AT).cast::<[u8; 3]>().write(length);
            }
        }
    }

    /// Bytes of a leaf, before rounding to units, with this many bytes behind the key.
    #[inline(always)]
    pub(crate) fn size_behind(key_len: usize, behind: usize) -> usize {
        leaf::size(Self::LEN_AT, key_len) + behind
    }

    /// The leaf's key.
    ///
    /// # Safety
    /// As for `key`.
    #[inline(always)]
    pub(crate) unsafe fn pieces<'a>(p: *const u8) -> Pieces<'a> {
        // SAFETY: the caller's promise.
        Pieces::whole(unsafe { Self::key(p) })
    }

    /// Where the bits of the value are: as the slot of an entry in an inline cluster, if the value
    /// is one that such a cluster may hold.
    ///
    /// # Safety
    /// `p` points at a leaf.
    #[inline(always)]
    pub(crate) unsafe fn slot(p: *const u8) -> *const u8 {
        match V::VARIES {
            // SAFETY: the value lies behind the key.
            true => unsafe {
                let len = Self::key_len(p);
                p.add(Self::key_at(len) + len)
            },
            false => p,
        }
    }

    /// Writes a leaf with the bits of the value in a slot, which take `behind` bytes behind the
    /// key.
    ///
    /// # Safety
    /// `p` is a block of `size_behind(key.len(), behind)` bytes rounded up to 8, which nobody
    /// reads; `slot` is one with a value.
    pub(crate) unsafe fn write_bits(p: *mut u8, key: Pieces<'_>, slot: *const u8, behind: usize) {
        let len = key.len();
        // SAFETY: the block has room; the last word is cleared first so that padding is zero.
        unsafe {
            let block = (Self::size_behind(len, behind) + 7) & !7;
            p.add(block - 8).cast::<u64>().write(0);
            let at = p.add(Self::key_at(len));
            if V::VARIES {
                ptr::copy_nonoverlapping(slot, at.add(len), behind);
            } else {
                ptr::copy_nonoverlapping(slot, p, Self::LEN_AT);
            }
            Self::write_length(p, len);
            ptr::copy_nonoverlapping(key.head.as_ptr(), at, key.head.len());
            ptr::copy_nonoverlapping(key.tail.as_ptr(), at.add(key.head.len()), key.tail.len());
        }
    }

    /// Moves out what must be dropped.
    ///
    /// # Safety
    /// `p` points at a leaf whose value nobody uses afterwards.
    #[inline]
    pub(crate) unsafe fn take(p: *mut u8) -> V::Held {
        // SAFETY: the caller's promise.
        unsafe { V::take(p) }
    }

    /// Frees what a leaf has outside its block, after its value was moved out bit by bit.
    ///
    /// # Safety
    /// `p` points at a leaf whose value nobody uses afterwards.
    #[inline]
    pub(crate) unsafe fn forget(p: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { V::forget(p) }
    }
}

/// Four words that together cover all bytes of 8 to 32. They overlap by as much as the length
/// requires, and no branch depends on the length.
///
/// # Safety
/// `len` bytes can be read at `p`; `len` is 8 to 32.
#[inline(always)]
pub(crate) unsafe fn four_words(p: *const u8, len: usize) -> [u64; 4] {
    // SAFETY: each word begins at or after the first byte, and ends at or before the last one.
    let word = |at: usize| unsafe { p.add(at).cast::<u64>().read_unaligned() };
    let last = len - 8;
    [
        word(0),
        word(last.min(8)),
        word(len.max(16) - 16),
        word(last),
    ]
}

/// Whether the bytes at `p` are those of the key. Keys of 8 to 32 bytes take no call and no branch
/// on the length.
///
/// # Safety
/// `key.len()` bytes can be read at `p`.
#[inline(always)]
pub(crate) unsafe fn is_same(p: *const u8, key: &[u8]) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        if key.len().wrapping_sub(8) <= 24 {
            let (a, b) = (
                four_words(p, key.len()),
                four_words(key.as_ptr(), key.len()),
            );
            (a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]) == 0
        } else {
            is_same_other(p, key)
        }
    }
}

/// `is_same` for keys of fewer than 8 or more than 32 bytes.
///
/// # Safety
/// As for `is_same`.
#[inline(never)]
unsafe fn is_same_other(p: *const u8, key: &[u8]) -> bool {
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(p, key.len()) == key }
}

/// Length of the common prefix, or `None` if both are equal.
#[inline]
pub(crate) fn mismatch(a: &[u8], b: &[u8]) -> Option<usize> {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
    let unlike = |x: u64, y: u64| (x ^ y).trailing_zeros() as usize / 8;
    let n = a.len().min(b.len());
    for (i, (x, y)) in a[..n]
        .chunks_exact(8)
        .zip(b[..n].chunks_exact(8))
        .enumerate()
    {
        let (x, y) = (word(x), word(y));
        if x != y {
            return Some(8 * i + unlike(x, y));
        }
    }
    if n >= 8 {
        // The last eight bytes; those of them that were compared already are the same.
        let (x, y) = (word(&a[n - 8..n]), word(&b[n - 8..n]));
        if x != y {
            return Some(n - 8 + unlike(x, y));
        }
    } else if n >= 4 {
        let half = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap_or_default());
        for at in [0, n - 4] {
            let unlike = half(&a[at..at + 4]) ^ half(&b[at..at + 4]);
            if unlike != 0 {
                return Some(at + unlike.trailing_zeros() as usize / 8);
            }
        }
    } else if let Some(i) = (0..n).find(|i| a[*i] != b[*i]) {
        return Some(i);
    }
    (a.len() != b.len()).then_some(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_keys_are_the_same() {
        let a: Vec<u8> = (0..80).map(|i| i * 3).collect();
        for n in 0..80 {
            let same = |b: &[u8]| {
                assert_eq!(b.len(), n);
                // SAFETY: there are more than `n` bytes.
                unsafe { is_same(a.as_ptr(), b) }
            };
            let mut b = a[..n].to_vec();
            assert!(same(&b));
            for i in 0..n {
                b[i] ^= 1 << (i % 8);
                assert!(!same(&b), "byte {i} of {n}");
                b[i] = a[i];
            }
        }
    }

    #[test]
    fn mismatch_is_the_common_prefix() {
        let a: Vec<u8> = (0..40).collect();
        for n in 0..40 {
            assert_eq!(mismatch(&a[..n], &a[..n]), None);
            for m in 0..n {
                assert_eq!(mismatch(&a[..n], &a[..m]), Some(m));
                let mut b = a[..n].to_vec();
                b[m] ^= 0x80;
                assert_eq!(mismatch(&a[..n], &b), Some(m));
            }
        }
    }
}
