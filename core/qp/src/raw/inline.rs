//! Inline clusters in the arena, read through pointers, and references to entries of any kind.

use core::mem::MaybeUninit;
use core::{ptr, slice};

use sapwood_format::inline::{self, Extent, OUTSIDE};
use sapwood_format::{INLINE, KIND};

use super::leaf::Value;
use super::node::Cluster;
use super::wide;
use crate::Pieces;

/// An entry: its leaf, or its inline cluster and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRef {
    cell: u32,
    index: u32,
}

impl EntryRef {
    /// No entry.
    pub(crate) const NONE: EntryRef = EntryRef { cell: 0, index: 0 };

    /// The entry of a leaf; none for the empty cell.
    #[inline(always)]
    pub(crate) fn leaf(cell: u32) -> Self {
        EntryRef { cell, index: 0 }
    }

    /// Entry number `index` of an inline cluster.
    #[inline(always)]
    pub(crate) fn held(cell: u32, index: usize) -> Self {
        EntryRef {
            cell,
            index: index as u32,
        }
    }

    /// The cell of the leaf or inline cluster.
    #[inline(always)]
    pub(crate) fn cell(self) -> u32 {
        self.cell
    }

    /// The entry's number in its inline cluster.
    #[inline(always)]
    pub(crate) fn index(self) -> usize {
        self.index as usize
    }

    /// Whether it lies in an inline cluster.
    #[inline(always)]
    pub(crate) fn is_held(self) -> bool {
        self.cell & KIND == INLINE
    }

    /// Whether there is an entry.
    #[inline(always)]
    pub(crate) fn is_some(self) -> bool {
        self.cell != 0
    }

    /// The reference, if there is an entry.
    #[inline(always)]
    pub fn some(self) -> Option<Self> {
        self.is_some().then_some(self)
    }
}

/// An inline cluster. All methods need `p` to point at a whole one, with this capacity.
#[derive(Clone, Copy)]
pub(crate) struct Inline {
    pub(crate) p: *mut u8,
    pub(crate) capacity: usize,
    pub(crate) extent: Extent,
}

/// Where the key and the value of an entry in an inline cluster are.
pub(crate) enum Held {
    /// In the block: the tail, and the place behind it.
    Here { tail: *const u8, len: usize },
    /// In a leaf of its own.
    Leaf(u32),
}

impl Inline {
    /// # Safety
    /// `c` is a whole inline cluster.
    #[inline(always)]
    pub(crate) unsafe fn of(c: Cluster) -> Self {
        // SAFETY: the second word of a block; it changes only before publication.
        let word = unsafe { c.p.add(4).cast::<u32>().read() };
        Inline {
            p: c.p,
            capacity: c.capacity(),
            extent: Extent::of(word),
        }
    }

    /// The bytes that all keys share.
    ///
    /// # Safety
    /// The block lives for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn prefix<'a>(self) -> &'a [u8] {
        // SAFETY: in bounds of the block.
        unsafe { slice::from_raw_parts(self.prefix_ptr(), self.extent.prefix) }
    }

    /// The key with this tail.
    ///
    /// # Safety
    /// It is a tail in this block, which lives for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn pieces<'a>(self, tail: *const u8, len: usize) -> Pieces<'a> {
        // SAFETY: the caller's promise.
        unsafe {
            Pieces {
                head: self.prefix(),
                tail: slice::from_raw_parts(tail, len),
            }
        }
    }

    /// Copies the bytes that all keys share.
    ///
    /// # Safety
    /// As for `copy_piece`.
    #[inline(always)]
    pub(crate) unsafe fn copy_prefix(self, to: *mut u8) {
        // SAFETY: the caller's promise; the borders lie behind the prefix, at least eight bytes.
        unsafe {
            match self.extent.prefix {
                ..=8 => copy::<8>(self.prefix_ptr(), to),
                len => self.copy_piece(self.prefix_ptr(), len, to),
            }
        }
    }

    /// Copies `len` bytes of this block.
    ///
    /// # Safety
    /// The block is whole, and nobody writes it. There is room for them and for [`SPARE`] bytes
    /// more at `to`, whose content has no meaning afterwards.
    #[inline(always)]
    pub(crate) unsafe fn copy_piece(self, from: *const u8, len: usize, to: *mut u8) {
        let behind = self.p.wrapping_add(self.extent.block) as usize - from as usize;
        // SAFETY: the caller's promise; as many bytes are in the block.
        unsafe {
            match len {
                ..=16 if behind >= 16 => copy::<16>(from, to),
                ..=32 if behind >= 32 => copy::<32>(from, to),
                _ => ptr::copy_nonoverlapping(from, to, len),
            }
        }
    }

    /// Where those bytes begin.
    #[inline(always)]
    fn prefix_ptr(self) -> *const u8 {
        self.p.wrapping_add(inline::prefix_at(self.capacity))
    }

    /// Whether a key begins with the bytes that all keys share.
    ///
    /// # Safety
    /// The block is whole. The key has as many bytes.
    #[inline(always)]
    pub(crate) unsafe fn is_prefix_of(self, key: &[u8]) -> bool {
        // SAFETY: the borders lie behind the prefix, at least eight bytes.
        unsafe { begins_with(self.prefix_ptr(), self.extent.prefix, key) }
    }

    /// The tags, and both arrays of the borders.
    ///
    /// # Safety
    /// The block is whole.
    #[inline(always)]
    pub(crate) unsafe fn arrays(self) -> [*const u8; 3] {
        // SAFETY: in bounds of the block.
        unsafe {
            let d = self
                .p
                .add(inline::borders_at(self.capacity, self.extent.prefix));
            [self.p.add(inline::TAGS_AT), d, d.add(self.capacity)].map(<*mut u8>::cast_const)
        }
    }

    /// The first byte of entry `i` in the heap.
    ///
    /// # Safety
    /// There is an entry `i`; values are of type `V`.
    #[inline(always)]
    pub(crate) unsafe fn place<V: ?Sized + Value>(self, i: usize) -> *mut u8 {
        // SAFETY: in bounds of the block.
        unsafe {
            let place = *self.p.add(inline::places_at(self.capacity) + i);
            self.p.add(usize::from(place) * V::ENTRIES.step)
        }
    }

    /// Entry `i`.
    ///
    /// # Safety
    /// As for `place`.
    #[inline(always)]
    pub(crate) unsafe fn held<V: ?Sized + Value>(self, i: usize) -> Held {
        // SAFETY: the caller's promise; an entry is whole.
        unsafe {
            let at = self.place::<V>(i);
            let tail = at.add(V::ENTRIES.head + 1);
            match *at.add(V::ENTRIES.head) {
                OUTSIDE => {
                    let cell = at.add(V::ENTRIES.cell_at()).cast::<u32>();
                    Held::Leaf(cell.read_unaligned())
                }
                len => Held::Here {
                    tail,
                    len: usize::from(len),
                },
            }
        }
    }

    /// The leaves of those entries in a range that are leaves of their own.
    ///
    /// # Safety
    /// As for `place`, for all of the range, as long as the iterator is used.
    #[cfg(feature = "std")]
    pub(crate) unsafe fn leaves<V: ?Sized + Value>(
        self,
        range: core::ops::Range<usize>,
    ) -> impl Iterator<Item = u32> {
        // SAFETY: the caller's promise.
        range.filter_map(move |i| match unsafe { self.held::<V>(i) } {
            Held::Leaf(leaf) => Some(leaf),
            Held::Here { .. } => None,
        })
    }

    /// Whether entry `i` of a block whose bytes may be anything lies in it.
    ///
    /// # Safety
    /// The block has a slot `i`, and as many bytes as it says.
    #[cfg(feature = "std")]
    #[inline]
    pub(crate) unsafe fn is_whole<V: ?Sized + Value>(self, i: usize) -> bool {
        let size = self.extent.block;
        // SAFETY: the caller's promise; each byte is read after it was found to be inside.
        unsafe {
            let at = usize::from(*self.p.add(inline::places_at(self.capacity) + i));
            let at = at * V::ENTRIES.step;
            let tail = at + V::ENTRIES.head + 1;
            if tail > size {
                return false;
            }
            let end = match *self.p.add(tail - 1) {
                OUTSIDE => at + V::ENTRIES.outside(),
                len if V::VARIES => {
                    let behind = tail + usize::from(len);
                    if behind >= size {
                        return false;
                    }
                    behind + V::slot_len(self.p.add(behind))
                }
                len => tail + usize::from(len),
            };
            end <= size
        }
    }

    /// The slot of the value of an entry with this tail: see `Stored`.
    ///
    /// # Safety
    /// It is an entry in a block, with a value of type `V`.
    #[inline(always)]
    pub(crate) unsafe fn slot<V: ?Sized + Value>(tail: *const u8, len: usize) -> *mut u8 {
        // SAFETY: both lie in the entry.
        let slot = unsafe {
            match V::VARIES {
                true => tail.add(len),
                false => tail.sub(V::ENTRIES.head + 1),
            }
        };
        slot.cast_mut()
    }

    /// The slot of entry `i` if its key is this one. If the entry is a leaf of its own, it returns
    /// the leaf.
    ///
    /// # Safety
    /// As for `place`.
    #[inline(always)]
    pub(crate) unsafe fn slot_of<V: ?Sized + Value>(
        self,
        i: usize,
        key: &[u8],
    ) -> Result<Option<*mut u8>, u32> {
        // SAFETY: the caller's promise.
        unsafe {
            let prefix = self.extent.prefix;
            match self.held::<V>(i) {
                Held::Leaf(leaf) => Err(leaf),
                Held::Here { tail, len }
                    if prefix + len == key.len()
                        && is_same((self.prefix_ptr(), prefix), (tail, len), key) =>
                {
                    Ok(Some(Self::slot::<V>(tail, len)))
                }
                Held::Here { .. } => Ok(None),
            }
        }
    }
}

/// The bytes behind a key that a copy of its pieces may write.
pub(crate) const SPARE: usize = 32;

/// Copies `N` bytes, some of which may never have been written.
///
/// # Safety
/// `from` points at `N` bytes that nobody writes, and `to` at as many that nobody else uses.
#[inline(always)]
unsafe fn copy<const N: usize>(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        to.cast::<[MaybeUninit<u8>; N]>()
            .write(from.cast::<[MaybeUninit<u8>; N]>().read())
    }
}

/// Whether a key, of the length of both pieces, is the prefix and the tail together.
///
/// # Safety
/// There are `len` bytes at `tail`. Both pieces lie in one block: at least eight bytes can be read
/// before the end of the tail, and from the beginning of the prefix on.
#[inline(always)]
unsafe fn is_same(
    (prefix, cut): (*const u8, usize),
    (tail, len): (*const u8, usize),
    key: &[u8],
) -> bool {
    // SAFETY: the caller's promise.
    unsafe { ends_with(tail, len, key) && begins_with(prefix, cut, key) }
}

/// Whether a key begins with the `len` bytes at `p`.
///
/// # Safety
/// The key has as many bytes. At least eight bytes can be read at `p`.
#[inline(always)]
unsafe fn begins_with(p: *const u8, len: usize, key: &[u8]) -> bool {
    if len < 8 && key.len() >= 8 {
        // SAFETY: the caller's promise.
        return unsafe { wide::begins(p, len, key) };
    }
    // SAFETY: the caller's promise.
    unsafe { super::leaf::is_same(p, &key[..len]) }
}

/// Whether a key ends with the `len` bytes at `p`.
///
/// # Safety
/// The key has as many bytes. At least eight bytes can be read before the end of those at `p`.
#[inline(always)]
unsafe fn ends_with(p: *const u8, len: usize, key: &[u8]) -> bool {
    if len < 8 && key.len() >= 8 {
        // SAFETY: the caller's promise.
        return unsafe { wide::ends(p.add(len), len, key) };
    }
    // SAFETY: the caller's promise.
    unsafe { super::leaf::is_same(p, &key[key.len() - len..]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_in_a_block_are_the_key() {
        let block: Vec<u8> = (0..200).collect();
        let step = if cfg!(miri) { 7 } else { 1 };
        for cut in (0..40).step_by(step) {
            for len in (0..40).step_by(step) {
                let (prefix, tail) = (&block[40..40 + cut], &block[100..100 + len]);
                let mut key = [prefix, tail].concat();
                let (head, rest) = (block[40..].as_ptr(), block.as_ptr().wrapping_add(100));
                // SAFETY: there are bytes before and behind the pieces.
                let same = |key: &[u8]| unsafe { is_same((head, cut), (rest, len), key) };
                assert!(same(&key), "{cut} {len}");
                for i in 0..key.len() {
                    key[i] ^= 1 << (i % 8);
                    assert!(!same(&key), "byte {i} of {cut} and {len}");
                    key[i] ^= 1 << (i % 8);
                }
            }
        }
    }
}
