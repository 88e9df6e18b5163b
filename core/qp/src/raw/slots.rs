//! Clusters taken apart, changed and written anew; copies of clusters with one leaf more or less.

use core::ptr;

use super::node::{self, Cluster};
use super::parts::clear_last;
use sapwood_format::cluster::{self, FILL_MAX, REACH, SLOTS_MAX, TAGS_AT};

/// The border between two neighbours: the offset at which they first differ, and the byte that
/// tells on which side a key lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Border {
    pub(crate) at: usize,
    /// It is greater than the left leaf's byte, and not greater than the right leaf's. It is 0 if
    /// the left key ends there.
    pub(crate) byte: u8,
}

impl Border {
    /// The border between two keys that first differ at an offset.
    #[inline]
    pub(crate) fn between(left: &[u8], right: &[u8], at: usize) -> Self {
        Self::of(left.get(at).copied(), right.get(at).copied(), at)
    }

    /// The border between two keys that have these bytes at the offset where they first differ, or
    /// end there.
    #[inline(always)]
    pub(crate) fn of(left: Option<u8>, right: Option<u8>, at: usize) -> Self {
        debug_assert!(left < right);
        let byte = match (left, right) {
            (Some(_), Some(byte)) => byte,
            _ => 0,
        };
        Border { at, byte }
    }
}

/// The entry of a leaf in a cluster: its cell and tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) cell: u32,
    pub(crate) tag: u8,
}

/// Leaves in order with the borders between them, to be changed and written as clusters.
#[derive(Clone)]
pub(crate) struct Slots {
    n: usize,
    entry: [Entry; SLOTS_MAX],
    /// The border before each leaf but the first.
    border: [Border; SLOTS_MAX],
}

impl Slots {
    /// One leaf.
    pub(crate) fn new(first: Entry) -> Self {
        Slots {
            n: 1,
            entry: [first; SLOTS_MAX],
            border: [Border { at: 0, byte: 0 }; SLOTS_MAX],
        }
    }

    /// # Safety
    /// `c` is a whole cluster.
    pub(crate) unsafe fn read(c: Cluster) -> Self {
        // SAFETY: the caller's promise; these leaves and borders are in the cluster.
        unsafe {
            let entry = |i| Entry {
                cell: c.cell(i),
                tag: c.tag(i),
            };
            let mut slots = Slots::new(entry(0));
            for i in 1..c.leaves() {
                let border = Border {
                    at: c.border(i),
                    byte: c.byte(i),
                };
                slots.push(border, entry(i));
            }
            slots
        }
    }

    /// The leaves of a cluster that are not dead.
    ///
    /// # Safety
    /// `c` is a whole cluster of cells.
    #[cfg(feature = "std")]
    pub(crate) unsafe fn alive(c: Cluster) -> Self {
        // SAFETY: the caller's promise; these leaves and borders are in the cluster.
        unsafe {
            let entry = |i, cell| Entry {
                cell,
                tag: c.tag(i),
            };
            let (first, cell) = c.alive_from(0);
            let mut slots = Slots::new(entry(first, cell));
            // Leaves with dead slots between them first differ at the first of the least offsets
            // between them.
            let mut least: Option<Border> = None;
            for i in first + 1..c.leaves() {
                let border = Border {
                    at: c.border(i),
                    byte: c.byte(i),
                };
                let least_here = least
                    .filter(|least| least.at <= border.at)
                    .unwrap_or(border);
                let cell = c.cell(i);
                least = (cell == 0).then_some(least_here);
                if cell != 0 {
                    slots.push(least_here, entry(i, cell));
                }
            }
            slots
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.n
    }

    pub(crate) fn entry(&self, i: usize) -> Entry {
        self.entry[i]
    }

    /// The border before leaf `i`, which is not the first.
    pub(crate) fn border(&self, i: usize) -> Border {
        self.border[i]
    }

    /// Adds a leaf behind the last.
    pub(crate) fn push(&mut self, border: Border, entry: Entry) {
        self.border[self.n] = border;
        self.entry[self.n] = entry;
        self.n += 1;
    }

    /// Inserts a leaf as number `at`. `border` is the new border, before the leaf or behind it.
    pub(crate) fn insert(&mut self, at: usize, entry: Entry, border: Border, behind: bool) {
        let edge = at + usize::from(behind);
        self.entry.copy_within(at..self.n, at + 1);
        self.entry[at] = entry;
        self.border.copy_within(edge..self.n, edge + 1);
        self.border[edge] = border;
        self.n += 1;
    }

    /// Removes leaves `from..to`, but not all leaves.
    pub(crate) fn remove(&mut self, from: usize, to: usize) {
        if from > 0 && to < self.n {
            // The remaining neighbours first differ at the first of the least offsets between them.
            let least = (from..=to).min_by_key(|i| self.border[*i].at);
            self.border[to] = self.border[least.unwrap_or(to)];
        }
        self.entry.copy_within(to..self.n, from);
        self.border.copy_within(to..self.n, from);
        self.n -= to - from;
    }

    /// Adds the leaves of another one behind this border.
    pub(crate) fn append(&mut self, border: Border, other: &Slots) {
        self.push(border, other.entry[0]);
        for i in 1..other.n {
            self.push(other.border[i], other.entry[i]);
        }
    }

    /// The least and the greatest offset of the borders between leaves `from..to`, which are at
    /// least two.
    fn reach(&self, from: usize, to: usize) -> (usize, usize) {
        let offsets = self.border[from + 1..to].iter().map(|border| border.at);
        offsets.fold((usize::MAX, 0), |(low, high), at| {
            (low.min(at), high.max(at))
        })
    }

    /// Whether leaves `from..to` can be one cluster, or one leaf.
    pub(crate) fn fits(&self, from: usize, to: usize) -> bool {
        let (low, high) = self.reach(from, to);
        to - from == 1 || high - low <= REACH
    }

    /// The number of the border at which a full cluster is split: among those with the least
    /// offset, the one nearest to the middle.
    pub(crate) fn middle(&self) -> usize {
        middle(self.n, |i| self.border[i].at)
    }

    /// The header of a cluster of leaves `from..to`, which are at least two, with `capacity` slots.
    pub(crate) fn header(&self, from: usize, to: usize, capacity: usize) -> u32 {
        let (base, _) = self.reach(from, to);
        cluster::header(base, to - from, capacity)
    }

    /// Writes leaves `from..to` as a cluster.
    ///
    /// # Safety
    /// `p` is 8-aligned, has room for the header's block, and nobody reads it. The header is that
    /// of these leaves, which fit.
    pub(crate) unsafe fn write(&self, from: usize, to: usize, h: u32, p: *mut u8, bits: u32) {
        let c = Cluster::with(p, h);
        let capacity = c.capacity();
        // SAFETY: the block is the caller's, and large enough for the layout that the header says.
        unsafe {
            clear_last(p, cluster::block(capacity));
            node::set_header(p, h | bits);
            let (borders, bytes) = (p.add(cluster::borders_at(h)), p.add(cluster::bytes_at(h)));
            for i in 0..capacity {
                let there = from + i < to;
                let slot = if there { from + i } else { 0 };
                let (mut entry, mut border) = (self.entry[slot], self.border[slot]);
                if !there {
                    entry = Entry { cell: 0, tag: 0 };
                }
                if !there || i == 0 {
                    border = Border {
                        at: c.base(),
                        byte: 0,
                    };
                }
                *p.add(TAGS_AT + i) = entry.tag;
                c.set_cell(i, entry.cell);
                *borders.add(i) = (border.at - c.base()) as u8;
                *bytes.add(i) = border.byte;
            }
        }
    }
}

/// The number of the border at which a cluster of `n` entries is split: among those with the least
/// offset, the one nearest to the middle.
pub(crate) fn middle(n: usize, offset: impl Fn(usize) -> usize) -> usize {
    let (mut least, mut apart, mut found) = (usize::MAX, usize::MAX, 1);
    for i in 1..n {
        let (at, far) = (offset(i), (2 * i).abs_diff(n));
        if at < least || (at == least && far < apart) {
            (least, apart, found) = (at, far, i);
        }
    }
    found
}

/// The border that goes with entry `i`.
///
/// # Safety
/// `c` is whole and has an entry `i`.
#[inline]
pub(crate) unsafe fn lost_border(c: Cluster, i: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe {
        match i {
            0 => 1,
            i if i + 1 < c.leaves() && c.border(i) <= c.border(i + 1) => i + 1,
            i => i,
        }
    }
}

/// Copies `n` items from `src` to `dst`, which may be the same, with one more item at `at`: those
/// from `at` on move up by one.
///
/// # Safety
/// `src` has `n` items; `dst` has room for one more.
#[inline(always)]
pub(crate) unsafe fn open<T: Copy>(src: *const T, dst: *mut T, n: usize, at: usize, item: T) {
    // SAFETY: the caller's promise; the upper part is moved before the lower one.
    unsafe {
        ptr::copy(src.add(at), dst.add(at + 1), n - at);
        if !ptr::eq(src, dst) {
            ptr::copy_nonoverlapping(src, dst, at);
        }
        dst.add(at).write(item);
    }
}

/// Copies `n` items from `src` to `dst`, which may be the same, without the item at `at`: those
/// behind it move down by one. The item behind the last one becomes zero.
///
/// # Safety
/// `src` has `n` items, more than `at`; `dst` has room for `n` items.
#[inline(always)]
pub(crate) unsafe fn close<T: Copy + Default>(src: *const T, dst: *mut T, n: usize, at: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if !ptr::eq(src, dst) {
            ptr::copy_nonoverlapping(src, dst, at);
        }
        ptr::copy(src.add(at + 1), dst.add(at), n - 1 - at);
        if ptr::eq(src, dst) {
            dst.add(n - 1).write(T::default());
        }
    }
}

/// The cluster, copied to `dst` if that is another block of the same number of slots. Then the
/// change only moves the items behind it, and clears nothing.
///
/// # Safety
/// `src` is whole; `dst` is the caller's to write, with room for `capacity` slots.
#[inline(always)]
unsafe fn copied(src: Cluster, dst: *mut u8, capacity: usize) -> Cluster {
    if dst == src.p || capacity != src.capacity() {
        return src;
    }
    // SAFETY: the caller's promise; blocks are whole words.
    unsafe {
        let words = cluster::block(capacity) / 8;
        ptr::copy_nonoverlapping(src.p.cast::<u64>(), dst.cast(), words);
    }
    Cluster::with(dst, src.h)
}

/// The places of a cluster's four arrays.
struct Arrays {
    tags: *mut u8,
    cells: *mut u32,
    borders: *mut u8,
    bytes: *mut u8,
}

impl Arrays {
    /// # Safety
    /// `p` is the block of a cluster with this header.
    #[inline(always)]
    unsafe fn at(p: *mut u8, h: u32) -> Self {
        // SAFETY: the arrays are inside the block; cells are 4-aligned.
        unsafe {
            Arrays {
                tags: p.add(TAGS_AT),
                cells: p.add(cluster::cells_at(h)).cast(),
                borders: p.add(cluster::borders_at(h)),
                bytes: p.add(cluster::bytes_at(h)),
            }
        }
    }

    /// Zeroes the slots from `n` to `capacity`.
    ///
    /// # Safety
    /// As for `at`; the block is the caller's to write.
    unsafe fn clear_from(&self, n: usize, capacity: usize) {
        // SAFETY: in bounds of each array.
        unsafe {
            ptr::write_bytes(self.tags.add(n), 0, capacity - n);
            ptr::write_bytes(self.cells.add(n), 0, capacity - n);
            ptr::write_bytes(self.borders.add(n), 0, capacity - n);
            ptr::write_bytes(self.bytes.add(n), 0, capacity - n);
        }
    }
}

/// Writes at `dst` the cluster `src` with one leaf more, as number `at`. The new border is before
/// the leaf or behind it. The base stays, and the border fits. `dst` is another block of `capacity`
/// slots, or that of `src` with a free slot.
///
/// # Safety
/// `src` is whole; `dst` is the caller's to write, and nobody reads it.
pub(crate) unsafe fn insert_leaf(
    src: Cluster,
    (dst, capacity): (*mut u8, usize),
    at: usize,
    entry: Entry,
    (border, behind): (Border, bool),
    bits: u32,
) {
    let n = src.leaves();
    let h = cluster::header(src.base(), n + 1, capacity);
    let edge = at + usize::from(behind);
    // SAFETY: the caller's promise; there is room for one leaf more.
    unsafe {
        let src = copied(src, dst, capacity);
        let (from, to) = (Arrays::at(src.p, src.h), Arrays::at(dst, h));
        if dst != src.p {
            clear_last(dst, cluster::block(capacity));
            to.clear_from(n + 1, capacity);
        }
        open(from.tags, to.tags, n, at, entry.tag);
        open(from.cells, to.cells, n, at, entry.cell);
        open(
            from.borders,
            to.borders,
            n,
            edge,
            (border.at - src.base()) as u8,
        );
        open(from.bytes, to.bytes, n, edge, border.byte);
        node::set_header(dst, h | bits);
    }
}

/// Writes at `dst` the cluster `src`, which has at least three leaves, without leaf `i`. `dst` is
/// another block of `capacity` slots, or that of `src`.
///
/// # Safety
/// As for `insert_leaf`; there is a leaf `i`.
pub(crate) unsafe fn remove_leaf(
    src: Cluster,
    (dst, capacity): (*mut u8, usize),
    i: usize,
    bits: u32,
) {
    let n = src.leaves();
    let h = cluster::header(src.base(), n - 1, capacity);
    // SAFETY: the caller's promise.
    unsafe {
        let src = copied(src, dst, capacity);
        let lost = lost_border(src, i);
        let (from, to) = (Arrays::at(src.p, src.h), Arrays::at(dst, h));
        if dst != src.p {
            clear_last(dst, cluster::block(capacity));
            to.clear_from(n - 1, capacity);
        }
        close(from.tags, to.tags, n, i);
        close(from.cells, to.cells, n, i);
        close(from.borders, to.borders, n, lost);
        close(from.bytes, to.bytes, n, lost);
        node::set_header(dst, h | bits);
    }
}

/// Whether the number of leaves of a cluster allows one more.
#[inline(always)]
pub(crate) fn has_room(c: Cluster) -> bool {
    c.leaves() < FILL_MAX
}

/// Whether a border at this offset fits into the cluster with its base as it is.
#[inline(always)]
pub(crate) fn is_in_reach(c: Cluster, at: usize) -> bool {
    at.wrapping_sub(c.base()) <= REACH
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::leaf::mismatch;

    /// Leaves with these keys, and the block of a cluster of them with `capacity` slots.
    fn cluster_of(keys: &[Vec<u8>], capacity: usize) -> (Slots, Vec<u64>) {
        let entry = |i: usize| Entry {
            cell: i as u32 * 4 + 1,
            tag: cluster::tag(&keys[i]),
        };
        let mut slots = Slots::new(entry(0));
        for i in 1..keys.len() {
            let at = mismatch(&keys[i - 1], &keys[i]).unwrap();
            slots.push(Border::between(&keys[i - 1], &keys[i], at), entry(i));
        }
        let mut block = vec![u64::MAX; cluster::block(capacity) / 8];
        let h = slots.header(0, slots.len(), capacity);
        // SAFETY: the block has room for `capacity` slots.
        unsafe { slots.write(0, slots.len(), h, block.as_mut_ptr().cast(), 0) };
        (slots, block)
    }

    #[test]
    fn leaves_go_in_and_out_as_in_slots_written_anew() {
        let mut rng = fastrand::Rng::with_seed(5);
        for _ in 0..if cfg!(miri) { 3 } else { 2000 } {
            let mut keys = std::collections::BTreeSet::new();
            let n = rng.usize(3..=FILL_MAX);
            while keys.len() < n {
                let len = rng.usize(..8);
                keys.insert((0..len).map(|_| rng.u8(..3) * 100).collect::<Vec<u8>>());
            }
            let keys: Vec<Vec<u8>> = keys.into_iter().collect();
            let capacity = cluster::capacity_for(n) + 4 * rng.usize(..2);
            let (slots, mut whole) = cluster_of(&keys, capacity);
            let i = rng.usize(..n);
            let mut less = slots.clone();
            less.remove(i, i + 1);
            // SAFETY: just written.
            let c = unsafe { Cluster::at(whole.as_mut_ptr().cast()) };
            for in_place in [false, true] {
                let mut from = whole.clone();
                let mut to = vec![7u64; cluster::block(capacity) / 8];
                // SAFETY: blocks of this many slots.
                let c = unsafe { Cluster::at(from.as_mut_ptr().cast()) };
                let dst = if in_place {
                    c.p
                } else {
                    to.as_mut_ptr().cast()
                };
                // SAFETY: as above.
                unsafe { remove_leaf(c, (dst, capacity), i, 0) };
                // SAFETY: just written.
                let c = unsafe { Cluster::at(dst) };
                // SAFETY: the cluster is whole.
                let read = unsafe { Slots::read(c) };
                let all = less.n;
                assert_eq!(read.entry[..all], less.entry[..all]);
                assert_eq!(read.border[1..all], less.border[1..all]);
                // The key first differs from a neighbour where it did before.
                let (at, behind) = match i {
                    0 => (slots.border[1], true),
                    i if i + 1 == n || less.border[i] == slots.border[i + 1] => {
                        (slots.border[i], false)
                    }
                    i => (slots.border[i + 1], true),
                };
                let mut again = vec![9u64; cluster::block(capacity) / 8];
                let back = if in_place {
                    dst
                } else {
                    again.as_mut_ptr().cast()
                };
                // SAFETY: blocks of this many slots.
                unsafe { insert_leaf(c, (back, capacity), i, slots.entry[i], (at, behind), 0) };
                let bytes = if in_place { &from } else { &again };
                assert_eq!(*bytes, whole, "leaf {i} of {keys:?}");
            }
            // `blind` and `place` find the place of every key, also of absent ones.
            for (i, key) in keys.iter().enumerate() {
                // SAFETY: the cluster is whole.
                unsafe {
                    assert_eq!(c.blind(key), i);
                    assert!(c.with_tag(cluster::tag(key)) >> i & 1 == 1);
                }
            }
            for _ in 0..if cfg!(miri) { 3 } else { 20 } {
                let key: Vec<u8> = (0..rng.usize(..9)).map(|_| rng.u8(..4) * 80).collect();
                let place = keys.partition_point(|k| *k < key);
                // SAFETY: the cluster is whole.
                unsafe {
                    let near = c.blind(&key);
                    let Some(part) = mismatch(&key, &keys[near]) else {
                        continue;
                    };
                    let before = key < keys[near];
                    assert_eq!(c.place(near, part, before), place, "{key:?} in {keys:?}");
                }
            }
        }
    }

    #[test]
    fn dead_slots_are_dropped_and_have_live_ones_beside_them() {
        let mut rng = fastrand::Rng::with_seed(6);
        for _ in 0..if cfg!(miri) { 3 } else { 2000 } {
            let mut keys = std::collections::BTreeSet::new();
            let n = rng.usize(2..=FILL_MAX);
            while keys.len() < n {
                let len = rng.usize(..8);
                keys.insert((0..len).map(|_| rng.u8(..3) * 100).collect::<Vec<u8>>());
            }
            let keys: Vec<Vec<u8>> = keys.into_iter().collect();
            let (mut slots, mut block) = cluster_of(&keys, cluster::capacity_for(n));
            // SAFETY: just written.
            let c = unsafe { Cluster::at(block.as_mut_ptr().cast()) };
            // The last slot is never dead.
            let dead: Vec<usize> = (0..n - 1).filter(|_| rng.u8(..3) > 0).collect();
            for i in dead.iter().rev() {
                // SAFETY: a slot of the cluster.
                unsafe { c.set_cell(*i, 0) };
                slots.remove(*i, i + 1);
            }
            // SAFETY: the cluster is whole, and dead slots are not the last one.
            unsafe {
                let alive = Slots::alive(c);
                let left = slots.n;
                assert_eq!((alive.n, c.alive()), (left, left));
                assert_eq!(alive.entry[..left], slots.entry[..left]);
                assert_eq!(alive.border[1..left], slots.border[1..left]);
                for i in dead {
                    let shared = |other: usize| mismatch(&keys[i], &keys[other]).unwrap();
                    let there = (0..n).filter(|j| c.cell(*j) != 0);
                    let (beside, cell, most) = c.beside_dead(i);
                    assert_eq!(cell, c.cell(beside));
                    assert_ne!(cell, 0);
                    assert_eq!(Some(most), there.map(shared).max(), "{i} in {keys:?}");
                    assert_eq!(most, shared(beside));
                }
            }
        }
    }

    #[test]
    fn a_run_of_leaves_goes() {
        let keys: Vec<Vec<u8>> = [&b"a"[..], b"ab", b"abc", b"abd", b"b", b"bx"]
            .map(<[u8]>::to_vec)
            .to_vec();
        for from in 0..keys.len() {
            for to in from + 1..=keys.len() {
                let left: Vec<_> = [&keys[..from], &keys[to..]].concat();
                if left.is_empty() {
                    continue;
                }
                let (mut slots, _) = cluster_of(&keys, 8);
                slots.remove(from, to);
                assert_eq!(slots.len(), left.len());
                for i in 1..left.len() {
                    let at = mismatch(&left[i - 1], &left[i]).unwrap();
                    let border = slots.border(i);
                    assert_eq!(border.at, at);
                    assert!(left[i - 1].get(at) < Some(&border.byte) || border.byte == 0);
                    assert!(border.byte <= left[i][at]);
                    assert_eq!(border.byte == 0, left[i - 1].len() == at);
                }
            }
        }
    }
}
