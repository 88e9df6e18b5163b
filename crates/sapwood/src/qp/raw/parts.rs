//! Branches written: taken apart and put together, copied with a child more.

use core::ptr;

use super::node::{
    BIG, BIG_MAP, Branch, END, FRESH, LABELS_AT, RANKS_AT, bit_of, block_of, cells_at, end_of,
    header, label_of, labels_of, padded, size_of, word_of,
};

/// A branch taken apart, to be changed and written anew.
pub(crate) struct Parts {
    pub(crate) offset: usize,
    pub(crate) end: bool,
    labels: usize,
    label: [u8; 256],
    cell: [u32; 257],
}

impl Parts {
    pub(crate) fn new(offset: usize) -> Self {
        Parts {
            offset,
            end: false,
            labels: 0,
            label: [0; 256],
            cell: [0; 257],
        }
    }

    /// # Safety
    /// `b` is a whole branch.
    pub(crate) unsafe fn read(b: Branch) -> Self {
        let mut parts = Parts::new(b.offset());
        parts.end = b.h & END != 0;
        parts.labels = labels_of(b.h);
        if b.h & BIG == 0 {
            let labels = parts.label.as_mut_ptr();
            // SAFETY: a small branch has as many labels.
            unsafe { ptr::copy_nonoverlapping(b.p.add(LABELS_AT), labels, parts.labels) };
        } else {
            let mut k = 0;
            for w in 0..4 {
                // SAFETY: a big branch.
                let mut word = unsafe { b.map_word(w) };
                while word != 0 && k < 256 {
                    parts.label[k] = label_of(w, word, 0);
                    word &= word - 1;
                    k += 1;
                }
            }
        }
        for i in 0..b.children() {
            // SAFETY: i is below the number of children.
            parts.cell[i] = unsafe { b.cell(i) };
        }
        parts
    }

    /// A branch of these children, in order.
    pub(crate) fn from_children(offset: usize, children: &[(Option<u8>, u32)]) -> Self {
        let mut parts = Parts::new(offset);
        for (i, &(byte, cell)) in children.iter().enumerate() {
            parts.cell[i] = cell;
            match byte {
                None => parts.end = true,
                Some(byte) => {
                    parts.label[parts.labels] = byte;
                    parts.labels += 1;
                }
            }
        }
        parts
    }

    pub(crate) fn children(&self) -> usize {
        self.labels + usize::from(self.end)
    }

    pub(crate) fn header(&self) -> u32 {
        header(self.offset, self.labels, self.end)
    }

    /// Adds a child at its place and returns its index.
    pub(crate) fn insert(&mut self, byte: Option<u8>, cell: u32) -> usize {
        let n = self.children();
        let at = match byte {
            None => {
                debug_assert!(!self.end);
                0
            }
            Some(byte) => {
                let k = self.label[..self.labels].partition_point(|&l| l < byte);
                self.label.copy_within(k..self.labels, k + 1);
                self.label[k] = byte;
                self.labels += 1;
                k + usize::from(self.end)
            }
        };
        self.cell.copy_within(at..n, at + 1);
        self.cell[at] = cell;
        self.end |= byte.is_none();
        at
    }

    /// Takes the `i`th child out.
    pub(crate) fn remove(&mut self, i: usize) {
        let n = self.children();
        self.cell.copy_within(i + 1..n, i);
        if self.end && i == 0 {
            self.end = false;
        } else {
            let k = i - usize::from(self.end);
            self.label.copy_within(k + 1..self.labels, k);
            self.labels -= 1;
        }
    }

    /// Writes the branch at `p`, with these extra header bits.
    ///
    /// # Safety
    /// `p` is 8-aligned, has room for `size_of(self.header())` rounded up to 8 bytes, and nobody reads it.
    pub(crate) unsafe fn write(&self, p: *mut u8, bits: u32) {
        let h = self.header() | bits;
        let b = Branch { p, h };
        // SAFETY: the block is ours and large enough for the layout that the header says.
        unsafe {
            b.set_header(h);
            if h & BIG == 0 {
                let last = self.label[self.labels - 1];
                for k in 0..padded(self.labels) {
                    *p.add(LABELS_AT + k) = if k < self.labels { self.label[k] } else { last };
                }
            } else {
                let mut map = [0u64; 4];
                for &l in &self.label[..self.labels] {
                    map[word_of(l)] |= bit_of(l);
                }
                let mut rank = 0u32;
                for (w, word) in map.iter().enumerate() {
                    // At most 192 labels come before the last word, so a rank fits a byte.
                    *p.add(RANKS_AT + w) = rank as u8;
                    p.add(BIG_MAP + 8 * w).cast::<u64>().write(*word);
                    rank += word.count_ones();
                }
            }
            for i in 0..self.children() {
                b.set_cell(i, self.cell[i]);
            }
            clear_tail(b);
        }
    }
}

/// Zeroes the last word of the block when the cells do not fill it, so that saved images and
/// comparisons of memory are deterministic.
///
/// # Safety
/// The block is the caller's to write.
#[inline(always)]
unsafe fn clear_tail(b: Branch) {
    if size_of(b.h) & 4 != 0 {
        // SAFETY: the block is rounded up to 8 bytes.
        unsafe { b.p.add(size_of(b.h)).cast::<u32>().write(0) };
    }
}

/// Writes a branch of two children.
///
/// # Safety
/// `p` is a block of 16 bytes that nobody else uses. `a` sorts before `b`; only `a` may be END.
#[inline]
pub(crate) unsafe fn write_pair(
    p: *mut u8,
    offset: usize,
    a: (Option<u8>, u32),
    b: (Option<u8>, u32),
    bits: u32,
) {
    let (last, h) = match (a.0, b.0) {
        (None, Some(last)) => (last, header(offset, 1, true)),
        (Some(_), Some(last)) => (last, header(offset, 2, false)),
        _ => unreachable!("END sorts first and is unique"),
    };
    let first = a.0.unwrap_or(last);
    let branch = Branch { p, h: h | bits };
    // SAFETY: 4 header + 4 labels + 8 cells fit the block.
    unsafe {
        branch.set_header(h | bits);
        p.add(LABELS_AT)
            .cast::<[u8; 4]>()
            .write([first, last, last, last]);
        branch.set_cell(0, a.1);
        branch.set_cell(1, b.1);
    }
}

/// Copies small branch `src` to `dst` with one more child; both stay small.
///
/// # Safety
/// `src` is small and has room for a label more in the small layout; `dst` is a block for the result,
/// not overlapping `src`, that nobody reads.
pub(crate) unsafe fn copy_inserted(
    src: Branch,
    dst: *mut u8,
    byte: Option<u8>,
    cell: u32,
    bits: u32,
) {
    let n = labels_of(src.h);
    let old_end = end_of(src.h);
    // SAFETY: src is whole.
    let at = unsafe { src.rank(byte) };
    let labels = n + usize::from(byte.is_some());
    let h = header(src.offset(), labels, old_end == 1 || byte.is_none()) | bits;
    debug_assert!(h & BIG == 0);
    let out = Branch { p: dst, h };
    // SAFETY: the layouts of both headers bound every access.
    unsafe {
        out.set_header(h);
        let (from, to) = (src.p.add(LABELS_AT), dst.add(LABELS_AT));
        let k = match byte {
            Some(byte) => {
                let k = at - old_end;
                ptr::copy_nonoverlapping(from, to, k);
                *to.add(k) = byte;
                ptr::copy_nonoverlapping(from.add(k), to.add(k + 1), n - k);
                labels
            }
            None => {
                ptr::copy_nonoverlapping(from, to, n);
                n
            }
        };
        let last = *to.add(k - 1);
        for i in k..padded(k) {
            *to.add(i) = last;
        }
        let total = n + old_end;
        let cells = src.p.add(cells_at(src.h)).cast::<u32>();
        let new = dst.add(cells_at(h)).cast::<u32>();
        ptr::copy_nonoverlapping(cells, new, at);
        new.add(at).write(cell);
        ptr::copy_nonoverlapping(cells.add(at), new.add(at + 1), total - at);
        clear_tail(out);
    }
}

/// Copies a whole branch with other header bits.
///
/// # Safety
/// `dst` is a block of `block_of(src.h)` bytes that nobody reads.
#[inline]
pub(crate) unsafe fn copy_whole(src: Branch, dst: *mut u8, bits: u32) -> Branch {
    // SAFETY: both blocks have the same size and do not overlap. The header is not read: other writers may mark it.
    unsafe {
        let words = block_of(src.h) / 4 - 1;
        let (from, to) = (src.p.add(LABELS_AT), dst.add(LABELS_AT));
        ptr::copy_nonoverlapping(from.cast::<u32>(), to.cast::<u32>(), words);
    }
    let out = Branch {
        p: dst,
        h: src.h & !FRESH | bits,
    };
    // SAFETY: dst is ours.
    unsafe { out.set_header(out.h) };
    out
}

#[cfg(test)]
mod tests {
    use super::super::node::{SMALL_MAX, block_of};
    use super::*;

    fn labels(seed: usize, n: usize) -> Vec<u8> {
        let mut all: Vec<u8> = (0..=255).collect();
        let mut x = seed as u64 + 1;
        for i in (1..256usize).rev() {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            all.swap(i, (x >> 33) as usize % (i + 1));
        }
        all.truncate(n);
        all
    }

    #[test]
    fn every_size_finds_its_labels_and_no_others() {
        for n in 1..=256usize {
            for end in [false, true] {
                if n == 1 && !end {
                    continue;
                }
                let mut parts = Parts::new(7);
                if end {
                    parts.insert(None, 4242);
                }
                let chosen = labels(n, n);
                for &l in &chosen {
                    parts.insert(Some(l), u32::from(l) * 2 + 2);
                }
                let mut block = vec![0u64; block_of(parts.header()) / 8];
                let p = block.as_mut_ptr().cast::<u8>();
                // SAFETY: the block has the size that the header asks for.
                unsafe { parts.write(p, 0) };
                // SAFETY: just written.
                let b = unsafe { Branch::at(p) };
                assert_eq!(b.children(), n + usize::from(end));
                assert_eq!(b.offset(), 7);
                let mut sorted = chosen.clone();
                sorted.sort_unstable();
                for byte in 0..=255u8 {
                    // SAFETY: b is whole.
                    let found = unsafe { b.find(byte) };
                    let expect = sorted.binary_search(&byte).ok();
                    assert_eq!(found, expect.map(|i| i + usize::from(end)), "{n} {byte}");
                    // SAFETY: as above.
                    let rank = unsafe { b.rank(Some(byte)) };
                    let before = sorted.partition_point(|&l| l < byte);
                    assert_eq!(rank, before + usize::from(end));
                    if let Some(i) = found {
                        // SAFETY: i was found.
                        unsafe {
                            assert_eq!(b.cell(i), u32::from(byte) * 2 + 2);
                            assert_eq!(b.label(i), Some(byte));
                        }
                    }
                }
                // SAFETY: b is whole.
                let again = unsafe { Parts::read(b) };
                assert_eq!(again.header(), parts.header());
                assert_eq!(again.label[..n], parts.label[..n]);
            }
        }
    }

    #[test]
    fn copy_inserted_equals_parts() {
        for n in 1..SMALL_MAX {
            for end in [false, true] {
                let mut parts = Parts::new(3);
                if end {
                    parts.insert(None, 8);
                }
                let all = labels(n, SMALL_MAX + 1);
                for &l in &all[..n] {
                    parts.insert(Some(l), u32::from(l) * 2 + 16);
                }
                let mut src = vec![0u64; block_of(parts.header()) / 8];
                // SAFETY: sized by the header.
                let b = unsafe {
                    parts.write(src.as_mut_ptr().cast(), 0);
                    Branch::at(src.as_mut_ptr().cast())
                };
                for byte in all[n..]
                    .iter()
                    .map(|&l| Some(l))
                    .chain((!end).then_some(None))
                {
                    // SAFETY: b is whole.
                    let mut want = unsafe { Parts::read(b) };
                    want.insert(byte, 99);
                    let words = block_of(want.header()) / 8;
                    let (mut x, mut y) = (vec![1u64; words], vec![2u64; words]);
                    // SAFETY: both blocks have the size of the result.
                    unsafe {
                        want.write(x.as_mut_ptr().cast(), 0);
                        copy_inserted(b, y.as_mut_ptr().cast(), byte, 99, 0);
                    }
                    assert_eq!(x, y, "{n} {end} {byte:?}");
                }
            }
        }
    }
}
