//! How a cell becomes a pointer: at once, for memory that we made, or checked, for memory that came
//! from a file.

use core::sync::atomic::{AtomicU32, Ordering};

#[cfg(feature = "std")]
use super::leaf::LeafOf;
use super::leaf::Value;
use super::node::{Branch, Cluster};
#[cfg(feature = "std")]
use sapwood_format::{CLUSTER, KIND, LEAF, branch, cluster, leaf::LONG, leaf::value_length_bytes};

/// A memory that cells point into.
///
/// # Safety
/// A node that a method returns is whole and inside the memory.
pub unsafe trait Mem: Copy {
    /// Whether cells are taken at their word.
    const TRUSTED: bool;

    /// The branch behind a cell, whose offset is at least `min`.
    ///
    /// # Safety
    /// When `TRUSTED`: the cell is a live branch cell of this memory's trie.
    unsafe fn branch(self, cell: u32, min: usize) -> Option<Branch>;

    /// The cluster behind a cell.
    ///
    /// # Safety
    /// When `TRUSTED`: the cell is a live cluster cell of this memory's trie.
    unsafe fn cluster(self, cell: u32) -> Option<Cluster>;

    /// The leaf behind a cell.
    ///
    /// # Safety
    /// When `TRUSTED`: the cell is a live leaf cell of this memory's trie, with values of type `V`.
    unsafe fn leaf<V: ?Sized + Value>(self, cell: u32) -> Option<*mut u8>;

    /// Where the bytes of a cell are, for a prefetch; not to be followed.
    fn hint(self, cell: u32) -> *const u8;

    /// The cell at a place in units of 4 bytes.
    ///
    /// # Safety
    /// It is a cell of a branch or cluster that a method has returned.
    #[inline(always)]
    unsafe fn cell_at(self, place: u32) -> u32 {
        let at = self.hint(0).wrapping_add(place as usize * 4);
        // SAFETY: the caller's promise: it is inside; cells are written with Release.
        unsafe { (*at.cast::<AtomicU32>()).load(Ordering::Acquire) }
    }
}

pub(crate) use sapwood_format::byte_of;

/// Memory that this process wrote. If it is `LIVE`, writers replace cells beside the readers.
#[derive(Clone, Copy)]
pub struct Own<const LIVE: bool> {
    pub(crate) base: *mut u8,
}

/// Memory that this process wrote.
pub type Trusted = Own<false>;
/// Memory that this process wrote, in which writers replace cells beside the readers.
#[cfg(feature = "std")]
pub(crate) type Live = Own<true>;

// SAFETY: cells of a live trie point at whole nodes, by the structure's invariants.
unsafe impl<const LIVE: bool> Mem for Own<LIVE> {
    const TRUSTED: bool = true;

    #[inline(always)]
    unsafe fn branch(self, cell: u32, _min: usize) -> Option<Branch> {
        #[cfg(feature = "std")]
        if LIVE {
            crate::sync::point();
        }
        // SAFETY: the caller's promise.
        Some(unsafe { Branch::at(self.base.add(byte_of(cell))) })
    }

    #[inline(always)]
    unsafe fn cluster(self, cell: u32) -> Option<Cluster> {
        #[cfg(feature = "std")]
        if LIVE {
            crate::sync::point();
        }
        // SAFETY: the caller's promise.
        Some(unsafe { Cluster::at(self.base.add(byte_of(cell))) })
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

/// Memory that somebody else wrote: every node is checked to be inside before it is read.
#[cfg(feature = "std")]
#[derive(Clone, Copy)]
pub struct Checked {
    pub(crate) base: *mut u8,
    pub(crate) len: usize,
}

#[cfg(feature = "std")]
impl Checked {
    /// The pointer to `size` bytes at `at`, when they are inside.
    #[inline]
    fn inside(self, at: usize, size: usize) -> Option<*mut u8> {
        // The first 64 bytes at least are a header; reference 0 is no reference.
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
        if cell & KIND != CLUSTER {
            return None;
        }
        // SAFETY: as above.
        let c = unsafe { Cluster::at(self.inside(at, 8)?) };
        if !cluster::is_sound(c.h) {
            return None;
        }
        self.inside(at, cluster::block_of(c.h))?;
        Some(c)
    }

    #[inline]
    unsafe fn leaf<V: ?Sized + Value>(self, cell: u32) -> Option<*mut u8> {
        let at = byte_of(cell);
        if cell & KIND != LEAF || LeafOf::<V>::BOXED {
            return None;
        }
        let p = self.inside(at, LeafOf::<V>::key_at(0))?;
        // The longest form of a length, when the file has that much; else a key of its length does
        // not fit.
        let long = self.inside(at, LeafOf::<V>::key_at(LONG)).is_some();
        // SAFETY: the length byte is inside, and the long form is only read when it is inside too.
        let len = unsafe {
            if usize::from(*p.add(LeafOf::<V>::LEN_AT)) == LONG && !long {
                return None;
            }
            LeafOf::<V>::key_len(p)
        };
        if !V::VARIES {
            return self.inside(at, LeafOf::<V>::size_with(len, 0));
        }
        // The first byte of the value's length, the whole of it, then the value.
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
