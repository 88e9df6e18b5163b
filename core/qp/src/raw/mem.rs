//! Memories that cells point into. A cell becomes a pointer at once in memory that this process
//! wrote, and after checks in memory from a file.

use core::sync::atomic::{AtomicU32, Ordering};

#[cfg(feature = "std")]
use super::inline::Inline;
#[cfg(feature = "std")]
use super::leaf::LeafOf;
use super::leaf::Value;
use super::node::{Branch, Cluster};
use sapwood_format::KIND;
#[cfg(feature = "std")]
use sapwood_format::{
    CLUSTER, INLINE, LEAF, branch, cluster, inline, inline::Extent, leaf::LONG,
    leaf::value_length_bytes,
};

/// A memory that cells point into.
///
/// # Safety
/// A node that a method returns is whole and inside the memory.
pub unsafe trait Mem: Copy {
    /// Whether cells are followed without checks.
    const TRUSTED: bool;
    /// Whether clusters may hold their entries.
    const INLINE: bool;
    /// Whether slots of clusters may be dead: they have the cell 0.
    const DEAD: bool;

    /// The branch behind a cell, whose offset is at least `min`.
    ///
    /// # Safety
    /// When `TRUSTED`: the cell is a live branch cell of this memory's trie.
    unsafe fn branch(self, cell: u32, min: usize) -> Option<Branch>;

    /// The cluster behind a cell. Unless `TRUSTED`, the entries of an inline cluster may be
    /// anything.
    ///
    /// # Safety
    /// When `TRUSTED`: the cell is a live cluster cell of this memory's trie.
    unsafe fn cluster(self, cell: u32) -> Option<Cluster>;

    /// The leaf behind a cell.
    ///
    /// # Safety
    /// When `TRUSTED`: the cell is a live leaf cell of this memory's trie, with values of type `V`.
    unsafe fn leaf<V: ?Sized + Value>(self, cell: u32) -> Option<*mut u8>;

    /// A pointer to the node of a cell, for a prefetch only.
    fn hint(self, cell: u32) -> *const u8;

    /// The cell at a place in units of 4 bytes.
    ///
    /// # Safety
    /// It is the place of a cell of a branch or cluster that a method has returned.
    #[inline(always)]
    unsafe fn cell_at(self, place: u32) -> u32 {
        let at = self.hint(0).wrapping_add(place as usize * 4);
        // SAFETY: the caller's promise: the cell is inside; cells are written with Release.
        unsafe { (*at.cast::<AtomicU32>()).load(Ordering::Acquire) }
    }
}

pub(crate) use sapwood_format::byte_of;

/// Memory that this process wrote. If it is `LIVE`, writers replace cells while readers read them.
#[derive(Clone, Copy)]
pub struct Own<const LIVE: bool> {
    pub(crate) base: *mut u8,
}

/// Memory that this process wrote.
pub type Trusted = Own<false>;
/// Memory that this process wrote, in which writers replace cells while readers read them.
#[cfg(feature = "std")]
pub(crate) type Live = Own<true>;

// SAFETY: cells of a live trie point at whole nodes, by the structure's invariants.
unsafe impl<const LIVE: bool> Mem for Own<LIVE> {
    const TRUSTED: bool = true;
    const INLINE: bool = !LIVE;
    const DEAD: bool = LIVE;

    #[inline(always)]
    unsafe fn branch(self, cell: u32, _min: usize) -> Option<Branch> {
        #[cfg(feature = "std")]
        if LIVE {
            crate::sync::point();
        }
        // SAFETY: the caller's promise: it is a branch's cell, which has no bits of a kind.
        unsafe {
            core::hint::assert_unchecked(cell & KIND == 0);
            Some(Branch::at(self.base.add(byte_of(cell))))
        }
    }

    #[inline(always)]
    unsafe fn cluster(self, cell: u32) -> Option<Cluster> {
        #[cfg(feature = "std")]
        if LIVE {
            crate::sync::point();
        }
        // SAFETY: the caller's promise.
        unsafe {
            let p = self.base.add(byte_of(cell));
            Some(match Self::INLINE {
                true => Cluster::of(p, cell),
                false => Cluster::at(p),
            })
        }
    }

    #[inline(always)]
    unsafe fn leaf<V: ?Sized + Value>(self, cell: u32) -> Option<*mut u8> {
        // SAFETY: the caller's promise.
        Some(unsafe { self.base.add(byte_of(cell)) })
    }

    #[inline(always)]
    fn hint(self, cell: u32) -> *const u8 {
        self.base.wrapping_add(byte_of(cell))
    }
}

/// Memory that another process wrote. Before a node is read, it is checked to be inside.
#[cfg(feature = "std")]
#[derive(Clone, Copy)]
pub struct Checked {
    pub(crate) base: *mut u8,
    pub(crate) len: usize,
}

#[cfg(feature = "std")]
impl Checked {
    /// A pointer to `size` bytes at `at`, if they are inside.
    #[inline]
    fn inside(self, at: usize, size: usize) -> Option<*mut u8> {
        // At least the first 64 bytes are a header; 0 is no reference.
        (at >= 64 && size <= self.len && at <= self.len - size)
            // SAFETY: at + size <= len.
            .then(|| unsafe { self.base.add(at) })
    }
}

// SAFETY: every size is checked against the length of the memory before a pointer is returned. The
// children of a branch lie at growing offsets, so every descent ends.
#[cfg(feature = "std")]
unsafe impl Mem for Checked {
    const TRUSTED: bool = false;
    const INLINE: bool = true;
    const DEAD: bool = false;

    #[inline]
    unsafe fn branch(self, cell: u32, min: usize) -> Option<Branch> {
        let at = byte_of(cell);
        if cell & KIND != 0 {
            return None;
        }
        // SAFETY: 8 bytes are inside; base is page-aligned and cells are in units of 8 bytes.
        let b = unsafe { Branch::at(self.inside(at, 8)?) };
        if !branch::is_sound(b.h, min) {
            return None;
        }
        self.inside(at, branch::block_of(b.h))?;
        Some(b)
    }

    #[inline]
    unsafe fn cluster(self, cell: u32) -> Option<Cluster> {
        let at = byte_of(cell);
        // SAFETY: as above.
        let c = unsafe { Cluster::of(self.inside(at, 8)?, cell) };
        match cell & KIND {
            CLUSTER if cluster::is_sound(c.h) => self.inside(at, cluster::block_of(c.h))?,
            INLINE if inline::is_sound(c.h) => {
                // SAFETY: 8 bytes are inside.
                let Extent { block, prefix, .. } = unsafe { Inline::of(c) }.extent;
                let heap = inline::borders_at(c.capacity(), prefix) + 2 * c.capacity();
                if block < inline::block(heap) {
                    return None;
                }
                self.inside(at, block)?
            }
            _ => return None,
        };
        Some(c)
    }

    #[inline]
    unsafe fn leaf<V: ?Sized + Value>(self, cell: u32) -> Option<*mut u8> {
        let at = byte_of(cell);
        if cell & KIND != LEAF || LeafOf::<V>::BOXED {
            return None;
        }
        let p = self.inside(at, LeafOf::<V>::key_at(0))?;
        // The longest form of a length, if the file has that many bytes. If it has not, a key of
        // such a length does not fit either.
        let long = self.inside(at, LeafOf::<V>::key_at(LONG)).is_some();
        // SAFETY: the length byte is inside, and the long form is read only if it is inside too.
        let (is_long, len) = unsafe {
            let is_long = usize::from(*p.add(LeafOf::<V>::LEN_AT)) == LONG;
            if is_long && !long {
                return None;
            }
            (is_long, LeafOf::<V>::key_len(p))
        };
        // A short length in the long form: the key would end behind what is checked below.
        if is_long && len < LONG {
            return None;
        }
        if !V::VARIES {
            return self.inside(at, LeafOf::<V>::size_with(len, 0));
        }
        // Three checks: the first byte of the value's length, the whole length, then the value.
        let behind = LeafOf::<V>::key_at(len) + len;
        self.inside(at, behind + 1)?;
        // SAFETY: that byte is inside.
        let more = value_length_bytes(unsafe { *p.add(behind) });
        self.inside(at, behind + more)?;
        // SAFETY: key length, key and the length of the value are inside.
        let size = unsafe { LeafOf::<V>::size(p) };
        self.inside(at, size)
    }

    #[inline(always)]
    fn hint(self, cell: u32) -> *const u8 {
        self.base.wrapping_add(byte_of(cell))
    }
}
