//! Keys of inline clusters, put together from the bytes that they share and their own.

use core::mem::MaybeUninit;
use core::{ptr, slice};

use super::inline::{EntryRef, Held, Inline, SPARE};
use super::leaf::Value;
use super::mem::Mem;
use super::view::View;
use crate::key::Bytes;
use crate::{Key, Pieces};

/// The longest key that is copied without an allocation.
const SHORT_MAX: usize = 126;

/// A short key, of which the first `len` bytes are written.
#[derive(Clone, Copy)]
pub(crate) struct Short {
    len: u8,
    bytes: MaybeUninit<[u8; SHORT_MAX]>,
}

impl Short {
    /// A copy of a key, if it is short.
    pub(crate) fn copy(pieces: Pieces<'_>) -> Option<Self> {
        let (head, tail) = (pieces.head, pieces.tail);
        if pieces.len() > SHORT_MAX {
            return None;
        }
        let mut bytes = MaybeUninit::<[u8; SHORT_MAX]>::uninit();
        let to = bytes.as_mut_ptr().cast::<u8>();
        // SAFETY: both pieces fit, and are the whole key.
        unsafe {
            ptr::copy_nonoverlapping(head.as_ptr(), to, head.len());
            ptr::copy_nonoverlapping(tail.as_ptr(), to.add(head.len()), tail.len());
        }
        Some(Short {
            len: pieces.len() as u8,
            bytes,
        })
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: whoever made the key has written its first `len` bytes.
        unsafe { slice::from_raw_parts(self.bytes.as_ptr().cast(), usize::from(self.len)) }
    }
}

impl<'a> Key<'a> {
    /// The key with this tail in an inline cluster.
    ///
    /// # Safety
    /// The cluster is whole, has such a tail, and lives for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn held(block: Inline, tail: *const u8, len: usize) -> Self {
        let head = block.extent.prefix;
        if head == 0 {
            // SAFETY: the caller's promise.
            return Key(Bytes::Whole(unsafe { slice::from_raw_parts(tail, len) }));
        }
        if head + len + SPARE > SHORT_MAX {
            // SAFETY: the caller's promise.
            return Key::from(unsafe { block.pieces(tail, len) });
        }
        let mut bytes = MaybeUninit::<[u8; SHORT_MAX]>::uninit();
        let to = bytes.as_mut_ptr().cast::<u8>();
        // SAFETY: the caller's promise; there is room.
        unsafe {
            block.copy_prefix(to);
            block.copy_piece(tail, len, to.add(head));
        }
        Key(Bytes::Short(Short {
            len: (head + len) as u8,
            bytes,
        }))
    }
}

/// The bytes of the longest key that a map has in two pieces: a prefix and a tail of a cluster have
/// at most 255 each.
const PIECES_MAX: usize = 512;

/// Puts the keys of an inline cluster together in one place, one after the other. The bytes that
/// they share are copied once.
pub(crate) struct Joiner {
    /// The cell of the cluster whose keys are here, or 0.
    cell: u32,
    head: usize,
    bytes: MaybeUninit<[u8; PIECES_MAX + SPARE]>,
}

impl Joiner {
    pub(crate) fn new() -> Self {
        Joiner {
            cell: 0,
            head: 0,
            bytes: MaybeUninit::uninit(),
        }
    }

    /// The keys that follow are those of this cluster, whose cell this is.
    ///
    /// # Safety
    /// The cluster is whole.
    #[inline(always)]
    pub(crate) unsafe fn enter(&mut self, cell: u32, block: Inline) {
        if self.cell != cell {
            (self.cell, self.head) = (cell, block.extent.prefix);
            // SAFETY: the caller's promise; a prefix fits.
            unsafe { block.copy_prefix(self.bytes.as_mut_ptr().cast()) };
        }
    }

    /// The key with this tail, until the next one.
    ///
    /// # Safety
    /// It is a tail in the cluster that was entered last, which is this one.
    #[inline(always)]
    pub(crate) unsafe fn join(&mut self, block: Inline, tail: *const u8, len: usize) -> &[u8] {
        let bytes = self.bytes.as_mut_ptr().cast::<u8>();
        // SAFETY: the caller's promise; both pieces fit, and were written.
        unsafe {
            block.copy_piece(tail, len, bytes.add(self.head));
            slice::from_raw_parts(bytes, self.head + len)
        }
    }

    /// An entry, whose key is lent until the next one; `None` if it is not whole.
    #[inline(always)]
    pub(crate) fn entry<'k, 'a: 'k, V: ?Sized + Value, M: Mem>(
        &'k mut self,
        view: &View<'a, V, M>,
        entry: EntryRef,
    ) -> Option<(&'k [u8], &'a V)> {
        if !M::INLINE || !entry.is_held() {
            return view.leaf_entry(entry.cell());
        }
        let c = view.cluster(entry.cell())?;
        // SAFETY: a cluster that `mem` returned is whole, lives for 'a, and has the entry.
        unsafe {
            let block = Inline::of(c);
            match view.held(block, entry.index())? {
                Held::Leaf(leaf) => view.leaf_entry(leaf),
                Held::Here { tail, len } => {
                    self.enter(entry.cell(), block);
                    let value = &*V::slot_value(Inline::slot::<V>(tail, len));
                    Some((self.join(block, tail, len), value))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sapwood_format::inline::{self, Extent};

    use super::*;

    /// Prefixes and tails of many lengths, with a few or many bytes of the block behind them.
    #[test]
    fn pieces_anywhere_in_a_block_are_the_key() {
        const CAPACITY: usize = 4;
        let lengths = [
            0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 62, 63, 64, 93, 94, 95, 127, 254,
        ];
        let step = if cfg!(miri) { 5 } else { 1 };
        let mut joiner = Joiner::new();
        let mut cell = 0;
        for head in lengths.into_iter().step_by(step) {
            for len in lengths.into_iter().step_by(step) {
                for behind in [0, 1, 15, 16, 17, 31, 32, 33] {
                    // Both arrays of the borders lie behind the prefix.
                    let prefix = inline::prefix_at(CAPACITY);
                    let at = prefix + head + 2 * CAPACITY;
                    let mut block: Vec<u8> = (0..at + len + behind).map(|i| i as u8 ^ 77).collect();
                    let block = Inline {
                        p: block.as_mut_ptr(),
                        capacity: CAPACITY,
                        extent: Extent {
                            end: block.len(),
                            block: block.len(),
                            prefix: head,
                            dead: 0,
                        },
                    };
                    cell += 1;
                    // SAFETY: the block has the prefix, what lies behind it, and the tail.
                    unsafe {
                        let tail = block.p.add(at).cast_const();
                        let key = [block.prefix(), slice::from_raw_parts(tail, len)].concat();
                        let what = format!("{head}, {len}, {behind} behind");
                        let held = Key::held(block, tail, len);
                        assert_eq!(held, key, "{what}");
                        assert_eq!(held.in_place().is_some(), head == 0, "{what}");
                        joiner.enter(cell, block);
                        assert_eq!(joiner.join(block, tail, len), key, "{what}");
                        assert_eq!(joiner.join(block, tail, len / 2), &key[..head + len / 2]);
                    }
                }
            }
        }
    }
}
