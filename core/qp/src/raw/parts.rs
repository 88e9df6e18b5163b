//! Branches taken apart, changed and written anew; copies of whole nodes.

use core::ptr;

use super::node::{self, BIG, Branch, FRESH, LABELS_AT, MAP_AT};
use sapwood_format::branch::{self, LABELS_MAX, mapped, padded};

/// A branch taken apart, to be changed and written anew.
pub(crate) struct Parts {
    pub(crate) offset: usize,
    labels: usize,
    label: [u8; LABELS_MAX],
    cell: [u32; LABELS_MAX + 1],
}

impl Parts {
    /// A branch of one child, to which others are added.
    pub(crate) fn new(offset: usize, first: u32) -> Self {
        let mut parts = Parts {
            offset,
            labels: 0,
            label: [0; 256],
            cell: [0; 257],
        };
        parts.cell[0] = first;
        parts
    }

    /// A branch of two children.
    pub(crate) fn pair(offset: usize, left: u32, label: u8, right: u32) -> Self {
        let mut parts = Parts::new(offset, left);
        parts.push(label, right);
        parts
    }

    /// # Safety
    /// `b` is a whole branch.
    pub(crate) unsafe fn read(b: Branch) -> Self {
        let mut parts = Parts::new(b.offset(), 0);
        parts.labels = branch::labels_of(b.h);
        if b.h & BIG == 0 {
            let labels = parts.label.as_mut_ptr();
            // SAFETY: a small branch has this number of labels.
            unsafe { ptr::copy_nonoverlapping(b.p.add(LABELS_AT), labels, parts.labels) };
        } else {
            let mut before = 0;
            for byte in 0..=255u8 {
                // SAFETY: a big branch has a child for each byte.
                let child = unsafe { b.child(byte) };
                if child > before && before < parts.labels {
                    parts.label[before] = byte;
                    before += 1;
                }
            }
        }
        for i in 0..b.children() {
            // SAFETY: i is below the number of children.
            parts.cell[i] = unsafe { b.cell(i) };
        }
        parts
    }

    pub(crate) fn children(&self) -> usize {
        self.labels + 1
    }

    /// The cell of child `i`.
    pub(crate) fn cell(&self, i: usize) -> u32 {
        self.cell[i]
    }

    /// The least byte of child `i + 1`.
    pub(crate) fn label(&self, i: usize) -> u8 {
        self.label[i]
    }

    pub(crate) fn header(&self) -> u32 {
        branch::header(self.offset, self.labels)
    }

    /// Adds a child behind the last.
    pub(crate) fn push(&mut self, label: u8, cell: u32) {
        debug_assert!(self.labels == 0 || self.label[self.labels - 1] < label);
        self.label[self.labels] = label;
        self.labels += 1;
        self.cell[self.labels] = cell;
    }

    /// Replaces child `i` by two children.
    pub(crate) fn split(&mut self, i: usize, left: u32, label: u8, right: u32) {
        let n = self.labels;
        self.label.copy_within(i..n, i + 1);
        self.label[i] = label;
        self.cell.copy_within(i..n + 1, i + 1);
        self.cell[i] = left;
        self.cell[i + 1] = right;
        self.labels += 1;
    }

    /// Removes child `i` of at least two; its bytes lead to a neighbour then.
    pub(crate) fn remove(&mut self, i: usize) {
        let n = self.labels;
        self.label.copy_within((i.max(1))..n, i.max(1) - 1);
        self.cell.copy_within(i + 1..n + 1, i);
        self.labels -= 1;
    }

    /// Replaces children `i` and `i + 1` by one child.
    pub(crate) fn join(&mut self, i: usize, cell: u32) {
        self.remove(i + 1);
        self.cell[i] = cell;
    }

    /// Writes the branch at `p`, with these extra header bits.
    ///
    /// # Safety
    /// `p` is 8-aligned, has room for the header's block, and nobody reads it.
    pub(crate) unsafe fn write(&self, p: *mut u8, bits: u32) {
        let h = self.header();
        let b = Branch { p, h };
        // SAFETY: the block is the caller's, and large enough for the layout that the header says.
        unsafe {
            clear_last(p, branch::block_of(h));
            node::set_header(p, h | bits);
            if h & BIG == 0 {
                let last = self.label[self.labels - 1];
                for k in 0..padded(self.labels) {
                    *p.add(LABELS_AT + k) = if k < self.labels { self.label[k] } else { last };
                }
            } else {
                let mut child = 0;
                for byte in 0..256 {
                    while child < self.labels && usize::from(self.label[child]) <= byte {
                        child += 1;
                    }
                    *p.add(MAP_AT + byte) = mapped(self.labels, child);
                }
            }
            for i in 0..self.children() {
                b.set_cell(i, self.cell[i]);
            }
        }
    }
}

/// Zeroes the last word of a block, so that the bytes of saved images are deterministic.
///
/// # Safety
/// The block has `block` bytes, and is the caller's to write.
#[inline(always)]
pub(super) unsafe fn clear_last(p: *mut u8, block: usize) {
    // SAFETY: a block has at least 8 bytes.
    unsafe { p.add(block - 8).cast::<u64>().write(0) };
}

/// Copies a whole branch or cluster of `block` bytes, with other header bits.
///
/// # Safety
/// `src` has this header and `block` bytes. `dst` has the same size, and nobody reads it.
#[inline]
pub(crate) unsafe fn copy_whole(src: *const u8, h: u32, block: usize, dst: *mut u8, bits: u32) {
    // SAFETY: both blocks have the same size and do not overlap. The header is not read, because
    // other writers may mark it.
    unsafe {
        let (from, to) = (src.add(4).cast::<u32>(), dst.add(4).cast::<u32>());
        ptr::copy_nonoverlapping(from, to, block / 4 - 1);
        node::set_header(dst, h & !FRESH | bits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(seed: usize, n: usize) -> Vec<u8> {
        let mut all: Vec<u8> = (0..=255).collect();
        let mut x = seed as u64 + 1;
        for i in (1..256usize).rev() {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            all.swap(i, (x >> 33) as usize % (i + 1));
        }
        all.truncate(n);
        all.sort_unstable();
        all
    }

    #[test]
    fn every_size_finds_the_child_of_each_byte() {
        for n in 1..=256usize {
            let chosen = labels(n, n);
            let mut parts = Parts::new(7, 4000);
            for (i, &label) in chosen.iter().enumerate() {
                parts.push(label, i as u32 * 4);
            }
            let mut block = vec![0u64; branch::block_of(parts.header()) / 8];
            let p = block.as_mut_ptr().cast::<u8>();
            // SAFETY: the block has the size that the header asks for.
            unsafe { parts.write(p, 0) };
            // SAFETY: just written.
            let b = unsafe { Branch::at(p) };
            assert_eq!((b.offset(), b.children()), (7, n + 1));
            for byte in 0..=255u8 {
                // SAFETY: b is whole.
                let child = unsafe { b.child(byte) };
                assert_eq!(child, chosen.partition_point(|l| *l <= byte), "{n} {byte}");
            }
            for (i, label) in chosen.iter().enumerate() {
                // SAFETY: the branch has this number of labels, and one child more.
                let (found, cell) = unsafe { (b.label(i), b.cell(i + 1)) };
                assert_eq!((found, cell), (*label, i as u32 * 4));
            }
            // SAFETY: b is whole.
            let again = unsafe { Parts::read(b) };
            assert_eq!(again.header(), parts.header());
            assert_eq!(again.label[..n], parts.label[..n]);
        }
    }

    #[test]
    fn children_are_split_and_joined() {
        let mut parts = Parts::pair(3, 4, b'm', 8);
        parts.split(0, 4, b'c', 12);
        parts.split(2, 8, b'x', 16);
        assert_eq!(
            (&parts.label[..3], &parts.cell[..4]),
            (&b"cmx"[..], &[4, 12, 8, 16][..])
        );
        let mut other = Parts::pair(3, 4, b'm', 8);
        other.split(1, 8, b'x', 16);
        parts.remove(1);
        assert_eq!(parts.label[..2], other.label[..2]);
        parts.remove(0);
        assert_eq!(
            (&parts.label[..1], &parts.cell[..2]),
            (&b"x"[..], &[8, 16][..])
        );
        other.join(1, 20);
        assert_eq!(
            (&other.label[..1], &other.cell[..2]),
            (&b"m"[..], &[4, 20][..])
        );
    }
}
