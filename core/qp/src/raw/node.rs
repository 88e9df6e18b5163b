//! Branches and clusters in the arena: searched, read and written through pointers.

use core::sync::atomic::{AtomicU32, Ordering};

use sapwood_format::{branch, cluster, inline};

use super::borders::Borders;
use super::inline::EntryRef;
use super::wide;

#[cfg(feature = "std")]
pub(crate) use sapwood_format::branch::LARGEST;
pub(crate) use sapwood_format::branch::{BIG, FRESH, LABELS_AT, MAP_AT};
pub(crate) use sapwood_format::{CLUSTER, INLINE, KIND, LEAF};

/// Whether a cell is a leaf's.
#[inline(always)]
pub(crate) fn is_leaf(cell: u32) -> bool {
    cell & KIND == LEAF
}

/// The header word of a branch or cluster.
///
/// # Safety
/// `p` is 8-aligned and points at a branch or cluster that stays alive.
#[inline(always)]
unsafe fn header_at(p: *mut u8) -> u32 {
    // SAFETY: the caller's promise; the header changes only before publication.
    unsafe { (*p.cast::<AtomicU32>()).load(Ordering::Relaxed) }
}

/// Sets or clears header bits of an unpublished branch or cluster.
///
/// # Safety
/// The caller may change it.
#[inline(always)]
pub(crate) unsafe fn set_header(p: *mut u8, h: u32) {
    // SAFETY: the header is a 4-aligned u32 at the start.
    unsafe { (*p.cast::<AtomicU32>()).store(h, Ordering::Relaxed) }
}

/// A branch in the arena. All methods need `p` to point at a whole branch whose header is `h`.
#[derive(Clone, Copy)]
pub struct Branch {
    pub(crate) p: *mut u8,
    pub(crate) h: u32,
}

impl Branch {
    /// # Safety
    /// `p` is 8-aligned and points at a branch that stays alive while the result is used.
    #[inline(always)]
    pub(crate) unsafe fn at(p: *mut u8) -> Self {
        // SAFETY: the caller's promise.
        let h = unsafe { header_at(p) };
        Branch { p, h }
    }

    #[inline(always)]
    pub(crate) fn offset(self) -> usize {
        branch::offset_of(self.h)
    }

    #[inline(always)]
    pub(crate) fn children(self) -> usize {
        branch::children_of(self.h)
    }

    /// The `i`th child's cell.
    ///
    /// # Safety
    /// `i < self.children()`.
    #[inline(always)]
    pub(crate) unsafe fn cell(self, i: usize) -> u32 {
        // SAFETY: cells are 4-aligned u32 inside the branch; they are written with Release.
        unsafe { (*self.cell_ptr(i)).load(Ordering::Acquire) }
    }

    /// # Safety
    /// `i < self.children()`.
    #[inline(always)]
    pub(crate) unsafe fn cell_ptr(self, i: usize) -> *const AtomicU32 {
        // SAFETY: in bounds of the branch by the caller's promise.
        unsafe { self.p.add(branch::cells_at(self.h) + 4 * i).cast() }
    }

    /// # Safety
    /// `i < self.children()`, and the caller may change the branch.
    #[inline(always)]
    pub(crate) unsafe fn set_cell(self, i: usize, cell: u32) {
        // SAFETY: the caller's promise.
        unsafe { (*self.cell_ptr(i)).store(cell, Ordering::Release) }
    }

    /// Label `i`: the least byte of child `i + 1`.
    ///
    /// # Safety
    /// `i + 1 < self.children()`.
    pub(crate) unsafe fn label(self, i: usize) -> u8 {
        if self.h & BIG == 0 {
            // SAFETY: a small branch has this label.
            return unsafe { *self.p.add(LABELS_AT + i) };
        }
        // Only a damaged file has no such byte.
        let reaches = |byte: &u8| self.mapped(*byte) > i;
        (0..=255).find(reaches).unwrap_or(255)
    }

    /// The child of a byte in a big branch.
    #[inline(always)]
    fn mapped(self, byte: u8) -> usize {
        // SAFETY: a big branch has a map of 256 bytes.
        let mapped = unsafe { *self.p.add(MAP_AT + usize::from(byte)) };
        branch::child_of_map(self.h, mapped)
    }

    /// The child of a byte: the number of labels that are not greater than the byte.
    ///
    /// # Safety
    /// The branch is whole. The result may be out of bounds when the branch is big and not well
    /// formed.
    #[inline(always)]
    pub(crate) unsafe fn child(self, byte: u8) -> usize {
        let n = branch::labels_of(self.h);
        if branch::is_up_to_8(self.h) {
            // SAFETY: every branch has at least 16 bytes: up to four labels are padded to 4 bytes
            // and followed by cells.
            let greater = unsafe { wide::greater8(self.p, n, byte) };
            greater.trailing_zeros() as usize
        } else if self.h & BIG == 0 {
            // SAFETY: with nine labels a branch has 4 + 12 + 40 bytes.
            let greater = unsafe { wide::greater32(self.p, n, byte) };
            greater.trailing_zeros() as usize
        } else {
            self.mapped(byte)
        }
    }

    /// The number of the child that a key leads to, and its cell. A descent waits for this at each
    /// level, so it does not read the place of the cells from the header again.
    ///
    /// # Safety
    /// The branch is whole and well formed.
    #[inline(always)]
    pub(crate) unsafe fn choose(self, key: &[u8]) -> (usize, u32) {
        let offset = self.offset();
        // SAFETY: the caller's promise: the child is one of the branch's.
        unsafe {
            if offset >= key.len() {
                return (0, self.cell(0));
            }
            let byte = key[offset];
            // Each of the three computes the place, so that none of them is computed in two halves.
            let (child, at) = if branch::is_up_to_8(self.h) {
                let greater = wide::greater8(self.p, branch::labels_of(self.h), byte);
                let child = greater.trailing_zeros() as usize;
                (child, branch::small_cells_at(self.h) + 4 * child)
            } else if self.h & BIG == 0 {
                let greater = wide::greater32(self.p, branch::labels_of(self.h), byte);
                let child = greater.trailing_zeros() as usize;
                (child, branch::small_cells_at(self.h) + 4 * child)
            } else {
                let child = self.mapped(byte);
                (child, branch::BIG_CELLS + 4 * child)
            };
            let cell = self.p.add(at).cast::<AtomicU32>();
            (child, (*cell).load(Ordering::Acquire))
        }
    }

    /// The number of the child that a key leads to.
    ///
    /// # Safety
    /// As for `child`.
    #[inline(always)]
    pub(crate) unsafe fn child_of(self, key: &[u8]) -> usize {
        let offset = self.offset();
        if offset < key.len() {
            // SAFETY: the caller's promise.
            unsafe { self.child(key[offset]) }
        } else {
            0
        }
    }
}

/// A cluster in the arena, of cells or inline. All methods need `p` to point at a whole one whose
/// header is `h`. The searches are the same for both.
#[derive(Clone, Copy)]
pub struct Cluster {
    pub(crate) p: *mut u8,
    pub(crate) h: u32,
    /// The cluster's cell. Only its kind counts where nobody asks for entries of an inline cluster.
    cell: u32,
}

impl Cluster {
    /// A cluster of cells.
    ///
    /// # Safety
    /// `p` is 8-aligned and points at a cluster that stays alive while the result is used.
    #[inline(always)]
    pub(crate) unsafe fn at(p: *mut u8) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::of(p, CLUSTER) }
    }

    /// The cluster of a cell.
    ///
    /// # Safety
    /// As for `at`; the cell has the cluster's kind.
    #[inline(always)]
    pub(crate) unsafe fn of(p: *mut u8, cell: u32) -> Self {
        // SAFETY: the caller's promise.
        let h = unsafe { header_at(p) };
        Cluster { p, h, cell }
    }

    /// A cluster of cells with this header, which may be another than that in memory.
    #[inline(always)]
    pub(crate) fn with(p: *mut u8, h: u32) -> Self {
        Cluster {
            p,
            h,
            cell: CLUSTER,
        }
    }

    /// Whether the cluster holds its entries.
    #[inline(always)]
    pub(crate) fn is_inline(self) -> bool {
        self.cell & KIND == INLINE
    }

    #[inline(always)]
    pub(crate) fn base(self) -> usize {
        cluster::base_of(self.h)
    }

    /// Number of entries.
    #[inline(always)]
    pub(crate) fn leaves(self) -> usize {
        cluster::leaves_of(self.h)
    }

    #[inline(always)]
    pub(crate) fn capacity(self) -> usize {
        cluster::capacity_of(self.h)
    }

    /// The `i`th leaf's cell, of a cluster of cells.
    ///
    /// # Safety
    /// `i < self.leaves()`.
    #[inline(always)]
    pub(crate) unsafe fn cell(self, i: usize) -> u32 {
        // SAFETY: cells are 4-aligned u32 inside the cluster; they are written with Release.
        unsafe { (*self.cell_ptr(i)).load(Ordering::Acquire) }
    }

    /// The number of leaves that are not dead. Beside writers it is that of some moment for each
    /// slot.
    ///
    /// # Safety
    /// This is a whole cluster of cells.
    #[cfg(feature = "std")]
    #[inline]
    pub(crate) unsafe fn alive(self) -> usize {
        // SAFETY: the caller's promise.
        unsafe { self.alive_before(self.leaves()) }
    }

    /// The same for the slots before this one.
    ///
    /// # Safety
    /// As for `alive`; `to <= self.leaves()`.
    #[cfg(feature = "std")]
    #[inline]
    pub(crate) unsafe fn alive_before(self, to: usize) -> usize {
        // SAFETY: the caller's promise.
        (0..to).filter(|i| unsafe { self.cell(*i) } != 0).count()
    }

    /// The first slot from `from` on that is not dead. The last slot of a cluster never is.
    ///
    /// # Safety
    /// This is a whole cluster of cells, and `from < self.leaves()`.
    #[inline(always)]
    pub(crate) unsafe fn alive_from(self, from: usize) -> (usize, u32) {
        let mut i = from;
        loop {
            // SAFETY: `i` stays below the number of leaves.
            let cell = unsafe { self.cell(i) };
            if cell != 0 || i + 1 >= self.leaves() {
                debug_assert_ne!(cell, 0, "the last slot of a cluster is not dead");
                return (i, cell);
            }
            i += 1;
        }
    }

    /// The last slot before `to` that is not dead, and its cell.
    ///
    /// # Safety
    /// This is a whole cluster of cells, and `to <= self.leaves()`.
    #[inline(always)]
    pub(crate) unsafe fn alive_until(self, to: usize) -> Option<(usize, u32)> {
        // SAFETY: the caller's promise.
        let all = (0..to).rev().map(|i| (i, unsafe { self.cell(i) }));
        all.into_iter().find(|(_, cell)| *cell != 0)
    }

    /// For a dead slot, the live slot whose leaf shares the longest prefix with the keys that
    /// belong in the dead one; its cell; and the length of that prefix.
    ///
    /// # Safety
    /// This is a whole cluster of cells, and `slot` is one of it, but not the last.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn beside_dead(self, slot: usize) -> (usize, u32, usize) {
        // SAFETY: the caller's promise; these are slots of the cluster, and borders between them.
        unsafe {
            let least = |from: usize, to: usize| {
                let borders = (from + 1..=to).map(|i| self.border(i));
                borders.min().unwrap_or(usize::MAX)
            };
            let (right, cell) = self.alive_from(slot + 1);
            let shared = least(slot, right);
            if let Some((left, before)) = self.alive_until(slot) {
                let there = least(left, slot);
                if there > shared {
                    return (left, before, there);
                }
            }
            (right, cell, shared)
        }
    }

    /// The `i`th entry.
    ///
    /// # Safety
    /// `i < self.leaves()`.
    #[inline(always)]
    pub(crate) unsafe fn entry(self, i: usize) -> EntryRef {
        match self.is_inline() {
            true => EntryRef::held(self.cell, i),
            // SAFETY: the caller's promise.
            false => EntryRef::leaf(unsafe { self.cell(i) }),
        }
    }

    /// # Safety
    /// `i < self.leaves()`, and this is a cluster of cells.
    #[inline(always)]
    unsafe fn cell_ptr(self, i: usize) -> *const AtomicU32 {
        debug_assert!(!self.is_inline());
        // SAFETY: in bounds of the cluster by the caller's promise.
        unsafe { self.p.add(cluster::cells_at(self.h) + 4 * i).cast() }
    }

    /// # Safety
    /// `i < self.leaves()`, and the caller may change the cluster.
    #[inline(always)]
    pub(crate) unsafe fn set_cell(self, i: usize, cell: u32) {
        // SAFETY: the caller's promise.
        unsafe { (*self.cell_ptr(i)).store(cell, Ordering::Release) }
    }

    /// The place of the tags, in bytes from `p`.
    #[inline(always)]
    fn tags_at(self) -> usize {
        match self.is_inline() {
            true => inline::TAGS_AT,
            false => cluster::TAGS_AT,
        }
    }

    /// The offsets of the borders; their bytes follow behind `capacity` of them.
    ///
    /// # Safety
    /// The cluster is whole.
    #[inline(always)]
    unsafe fn borders(self) -> *const u8 {
        // SAFETY: in bounds of the cluster; the length of the prefix does not change while it is
        // published.
        unsafe {
            let at = match self.is_inline() {
                true => inline::borders_at(self.capacity(), usize::from(*self.p.add(6))),
                false => cluster::borders_at(self.h),
            };
            self.p.add(at)
        }
    }

    /// The `i`th entry's tag.
    ///
    /// # Safety
    /// `i < self.leaves()`.
    #[inline(always)]
    pub(crate) unsafe fn tag(self, i: usize) -> u8 {
        // SAFETY: in bounds of the cluster by the caller's promise.
        unsafe { *self.p.add(self.tags_at() + i) }
    }

    /// The offset at which entry `i` first differs from the entry before it.
    ///
    /// # Safety
    /// `0 < i < self.leaves()`.
    #[inline(always)]
    pub(crate) unsafe fn border(self, i: usize) -> usize {
        // SAFETY: in bounds of the cluster by the caller's promise.
        let d = unsafe { *self.borders().add(i) };
        self.base() + usize::from(d)
    }

    /// The byte that bytes at the border's offset are compared with; 0 if the entry before it ends
    /// there.
    ///
    /// # Safety
    /// `0 < i < self.leaves()`.
    #[inline(always)]
    pub(crate) unsafe fn byte(self, i: usize) -> u8 {
        // SAFETY: in bounds of the cluster by the caller's promise.
        unsafe { *self.borders().add(self.capacity() + i) }
    }

    /// The entries with this tag, as one bit for each.
    ///
    /// # Safety
    /// The cluster is whole.
    #[inline(always)]
    pub(crate) unsafe fn with_tag(self, tag: u8) -> u32 {
        // SAFETY: a cluster has at least 32 bytes, and one of cells with more than 16 slots the
        // bytes up to the last tag.
        let hits = unsafe {
            match self.is_inline() {
                true => wide::equal24(self.p, self.leaves(), tag),
                false => wide::equal32(self.p, self.capacity(), tag),
            }
        };
        hits & (u32::MAX >> (32 - self.leaves()))
    }

    /// The entry that a key leads to by the borders alone. No other entry of the cluster shares a
    /// longer prefix with the key. It takes one pass over the borders and reads no entry.
    ///
    /// # Safety
    /// The cluster is whole.
    #[inline(always)]
    pub(crate) unsafe fn blind(self, key: &[u8]) -> usize {
        // SAFETY: the caller's promise.
        unsafe {
            let borders = Borders {
                d: self.borders(),
                capacity: self.capacity(),
                n: self.leaves(),
                base: self.base(),
            };
            borders.search(key)
        }
    }

    /// The place of an absent key: the number of entries before it. The key first differs from
    /// entry `near`, the result of `blind`, at offset `part`, and sorts before that entry or behind
    /// it.
    ///
    /// # Safety
    /// The cluster is whole and `near` one of its entries.
    #[inline(always)]
    pub(crate) unsafe fn place(self, near: usize, part: usize, before: bool) -> usize {
        let mut at = near;
        // SAFETY: these borders are between entries of the cluster.
        unsafe {
            if before {
                while at > 0 && self.border(at) > part {
                    at -= 1;
                }
            } else {
                at += 1;
                while at < self.leaves() && self.border(at) > part {
                    at += 1;
                }
            }
        }
        at
    }
}
