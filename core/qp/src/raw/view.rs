//! Views, which read one version of a trie: lookups and the descents that searches begin with.

use core::marker::PhantomData;

use smallvec::SmallVec;

pub(crate) use sapwood_arena::prefetch;

use super::leaf::{LeafOf, Value, mismatch};
use super::mem::{Mem, Trusted};
use super::node::{Branch, Cluster, KIND, LEAF};
use super::order::Run;
use super::path::{Frame, Path};
use sapwood_format::cluster::tag;

/// One version of a trie: a root cell and the memory that it points into, readable for `'a`.
///
/// All methods are safe, because the constructor is unsafe and requires a root whose nodes stay
/// alive and unchanged for `'a`.
pub struct View<'a, V: ?Sized + Value, M = Trusted> {
    pub(crate) mem: M,
    pub(crate) root: u32,
    /// The runs of leaves that lie in order in memory, if they do.
    pub(crate) order: &'a [Run],
    alive: PhantomData<&'a V>,
}

impl<V: ?Sized + Value, M: Copy> Clone for View<'_, V, M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<V: ?Sized + Value, M: Copy> Copy for View<'_, V, M> {}

// SAFETY: a view gives out only `&V` and `&[u8]`.
unsafe impl<V: ?Sized + Value + Sync, M> Send for View<'_, V, M> {}
// SAFETY: as above.
unsafe impl<V: ?Sized + Value + Sync, M> Sync for View<'_, V, M> {}

impl<V: ?Sized + Value> View<'_, V> {
    /// The empty trie.
    pub(crate) fn nothing() -> Self {
        View {
            mem: Trusted {
                base: core::ptr::without_provenance_mut(64),
            },
            root: 0,
            order: &[],
            alive: PhantomData,
        }
    }
}

impl<'a, V: ?Sized + Value, M: Mem> View<'a, V, M> {
    /// # Safety
    /// When `M` is trusted: `root` is 0 or the root of a trie in `mem` with values `V`, all of
    /// whose nodes stay alive and unchanged for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn new(mem: M, root: u32) -> Self {
        View {
            mem,
            root,
            order: &[],
            alive: PhantomData,
        }
    }

    #[inline(always)]
    pub(crate) fn branch(&self, cell: u32, min: usize) -> Option<Branch> {
        // SAFETY: cells come from this view's root downwards; `new`'s promise.
        unsafe { self.mem.branch(cell, min) }
    }

    #[inline(always)]
    pub(crate) fn leaf(&self, cell: u32) -> Option<*mut u8> {
        // SAFETY: as above.
        unsafe { self.mem.leaf::<V>(cell) }
    }

    /// The child cell at `i`, if there is one.
    #[inline(always)]
    pub(crate) fn child(&self, b: Branch, i: usize) -> Option<u32> {
        if !M::TRUSTED && i >= b.children() {
            return None;
        }
        // SAFETY: in trusted memory, indices come from searches and from counting; in other memory
        // the index was checked just now.
        Some(unsafe { b.cell(i) })
    }

    /// The cluster behind a cell.
    #[inline(always)]
    pub(crate) fn cluster(&self, cell: u32) -> Option<Cluster> {
        // SAFETY: cells come from this view's root downwards; `new`'s promise.
        unsafe { self.mem.cluster(cell) }
    }

    /// Prefetches cache lines of a cluster behind its first one. Without this, they would be
    /// fetched only after the header was read.
    #[inline(always)]
    pub(crate) fn fetch_behind(&self, cluster: u32, lines: usize) {
        let p = self.mem.hint(cluster);
        for line in 1..=lines {
            prefetch(p.wrapping_add(64 * line));
        }
    }

    /// The index of the child that a key leads to.
    #[inline(always)]
    pub(crate) fn index(&self, b: Branch, key: &[u8]) -> usize {
        // SAFETY: a branch that `mem` returned is whole.
        unsafe { b.child_of(key) }
    }

    /// One step of a descent: from a branch to the child that a key leads to. Returns the child and
    /// the least offset that a branch may have there.
    #[inline(always)]
    pub(crate) fn step(&self, cell: u32, min: usize, key: &[u8]) -> Option<(u32, usize)> {
        let b = self.branch(cell, min)?;
        let next = if M::TRUSTED {
            // SAFETY: a trusted branch is whole and well formed.
            unsafe { b.cell_of(key) }
        } else {
            self.child(b, self.index(b, key))?
        };
        Some((next, b.offset() + 1))
    }

    /// The leaf or cluster that a key leads to; `None` if the trie is empty.
    #[inline(always)]
    pub(crate) fn end(&self, key: &[u8]) -> Option<u32> {
        let mut cell = self.root;
        if cell == 0 {
            return None;
        }
        let mut min = 0;
        while cell & KIND == 0 {
            (cell, min) = self.step(cell, min, key)?;
        }
        Some(cell)
    }

    /// The leaf cell of a key.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<u32> {
        let cell = self.end(key)?;
        self.find_in(cell, key)
    }

    /// The leaf cell of a key in the leaf or cluster that it leads to.
    #[inline(always)]
    pub(crate) fn find_in(&self, end: u32, key: &[u8]) -> Option<u32> {
        self.place_in(end, key).map(|(_, leaf)| leaf)
    }

    /// The leaf cell of a key in the leaf or cluster that it leads to, with the leaf's number in
    /// the cluster.
    #[inline(always)]
    pub(crate) fn place_in(&self, end: u32, key: &[u8]) -> Option<(usize, u32)> {
        if end & LEAF != 0 {
            return self.has_key(end, key).then_some((0, end));
        }
        self.fetch_behind(end, 1);
        let tag = tag(key);
        let c = self.cluster(end)?;
        // SAFETY: a cluster that `mem` returned is whole.
        let mut hits = unsafe { c.with_tag(tag) };
        while hits != 0 {
            let index = hits.trailing_zeros() as usize;
            // SAFETY: as above; hits are leaves.
            let leaf = unsafe { c.cell(index) };
            if self.has_key(leaf, key) {
                return Some((index, leaf));
            }
            hits &= hits - 1;
        }
        None
    }

    /// The place of a key, which may be absent, among the leaves of the leaf or cluster that it
    /// leads to.
    #[inline(always)]
    pub(crate) fn near(&self, end: u32, key: &[u8]) -> Option<Near> {
        let (index, leaf) = self.blind(end, key)?;
        self.compare(index, leaf, key)
    }

    /// The leaf that shares the longest prefix with a key, in the leaf or cluster that the key
    /// leads to, and its number in the cluster. It reads no leaf.
    #[inline(always)]
    pub(crate) fn blind(&self, end: u32, key: &[u8]) -> Option<(usize, u32)> {
        if end & LEAF != 0 {
            return Some((0, end));
        }
        self.fetch_behind(end, 2);
        let c = self.cluster(end)?;
        // SAFETY: a cluster that `mem` returned is whole, and has the leaf.
        unsafe {
            let index = c.blind(key);
            Some((index, c.cell(index)))
        }
    }

    /// The place of a key beside the leaf that `blind` found.
    #[inline(always)]
    pub(crate) fn compare(&self, index: usize, leaf: u32, key: &[u8]) -> Option<Near> {
        let found = self.key(leaf)?;
        let part = mismatch(key, found);
        Some(Near {
            leaf,
            index,
            part,
            before: part.is_some_and(|at| key.get(at) < found.get(at)),
        })
    }

    /// Prefetches the first cache line of a leaf.
    #[inline(always)]
    pub(crate) fn fetch(&self, leaf: u32) {
        prefetch(self.mem.hint(leaf));
    }

    /// Whether the key of a leaf is this one.
    #[inline(always)]
    pub(crate) fn has_key(&self, cell: u32, key: &[u8]) -> bool {
        self.leaf(cell)
            // SAFETY: `leaf` returned a whole leaf.
            .is_some_and(|p| unsafe { LeafOf::<V>::is_key(p, key) })
    }

    /// The value of a key.
    #[cfg(feature = "std")]
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<&'a V> {
        let cell = self.find(key)?;
        self.value(cell)
    }

    /// The value of a leaf cell.
    #[inline(always)]
    pub fn value(&self, cell: u32) -> Option<&'a V> {
        let p = self.leaf(cell)?;
        // SAFETY: a whole leaf that lives for 'a.
        Some(unsafe { &*LeafOf::<V>::value_ptr(p) })
    }

    /// The key and the value of a leaf cell.
    #[inline(always)]
    pub fn entry(&self, cell: u32) -> Option<(&'a [u8], &'a V)> {
        let p = self.leaf(cell)?;
        // SAFETY: a whole leaf that lives for 'a.
        Some(unsafe { (LeafOf::<V>::key(p), &*LeafOf::<V>::value_ptr(p)) })
    }

    /// The key of a leaf cell.
    #[inline(always)]
    pub fn key(&self, cell: u32) -> Option<&'a [u8]> {
        let p = self.leaf(cell)?;
        // SAFETY: a whole leaf that lives for 'a.
        Some(unsafe { LeafOf::<V>::key(p) })
    }

    /// The first leaf below a cell.
    pub(crate) fn first_below(&self, mut cell: u32, mut min: usize) -> Option<u32> {
        while cell & KIND == 0 {
            let b = self.branch(cell, min)?;
            min = b.offset() + 1;
            cell = self.child(b, 0)?;
        }
        if cell & LEAF != 0 {
            return Some(cell);
        }
        let c = self.cluster(cell)?;
        // SAFETY: a cluster that `mem` returned is whole.
        Some(unsafe { c.cell(0) })
    }

    /// Calls `each` with the cells in a branch or cluster, in order.
    #[cfg(feature = "std")]
    pub(crate) fn each_child(&self, cell: u32, each: impl FnMut(u32)) {
        if cell & KIND == 0 {
            if let Some(b) = self.branch(cell, 0) {
                (0..b.children())
                    .filter_map(|i| self.child(b, i))
                    .for_each(each);
            }
        } else if cell & LEAF == 0 {
            if let Some(c) = self.cluster(cell) {
                // SAFETY: a cluster that `mem` returned is whole.
                (0..c.leaves()).map(|i| unsafe { c.cell(i) }).for_each(each);
            }
        }
    }

    /// The leaf of the key that ends at the offset of a branch, if there is one. It is the first
    /// leaf below the first child.
    pub(crate) fn end_here(&self, b: Branch) -> Option<u32> {
        let first = self.child(b, 0)?;
        if first & LEAF != 0 {
            return (self.key(first)?.len() == b.offset()).then_some(first);
        }
        if first & KIND == 0 {
            // All keys below agree beyond the offset.
            return None;
        }
        let c = self.cluster(first)?;
        // SAFETY: a cluster that `mem` returned is whole, and has at least two leaves.
        unsafe { (c.border(1) == b.offset() && c.byte(1) == 0).then(|| c.cell(0)) }
    }

    /// Calls `each` with the leaf cells of the stored keys that are prefixes of `key`, the longest
    /// first, until it returns true.
    ///
    /// The leaf that the key leads to tells how far any stored key agrees with it. In the cluster,
    /// another leaf is a prefix if its key ends at its border to the leaves behind it, which the
    /// borders tell without a read of the leaf. Above the cluster, a prefix is the key that ends at
    /// a branch's offset.
    pub(crate) fn prefixes_up(&self, key: &[u8], each: impl FnMut(u32) -> bool) -> Option<()> {
        let path = self.path(key)?;
        self.prefixes_beside(key, &path, |_| true, each)
    }

    /// As `prefixes_up`, for a key whose path is known, and only for prefixes whose length is
    /// `wanted`. It reads nothing for other lengths.
    pub(crate) fn prefixes_beside(
        &self,
        key: &[u8],
        path: &Path,
        wanted: impl Fn(usize) -> bool,
        mut each: impl FnMut(u32) -> bool,
    ) -> Option<()> {
        let &Path { end, near, .. } = path;
        let agree = near.part.unwrap_or(key.len());
        if wanted(agree) && self.key(near.leaf)?.len() == agree && each(near.leaf) {
            return Some(());
        }
        if end & LEAF == 0 {
            let c = self.cluster(end)?;
            let mut least = usize::MAX;
            for i in (1..=near.index).rev() {
                // SAFETY: the cluster is whole, and has these leaves.
                unsafe {
                    let border = c.border(i);
                    if border > least {
                        continue;
                    }
                    least = border;
                    let ends_here = c.byte(i) == 0 && border <= agree && wanted(border);
                    if ends_here && each(c.cell(i - 1)) {
                        return Some(());
                    }
                }
            }
        }
        // If the path goes to the first child, all keys below it agree beyond the offset, or it is
        // the end itself.
        let beside =
            |frame: &&Frame| frame.index() > 0 && frame.offset() <= agree && wanted(frame.offset());
        for frame in path.frames.iter().rev().filter(beside) {
            let b = self.branch(frame.cell, 0)?;
            if self.end_here(b).is_some_and(&mut each) {
                break;
            }
        }
        Some(())
    }

    /// The leaf of the longest stored key that is a prefix of `key`.
    pub(crate) fn longest_prefix(&self, key: &[u8]) -> Option<u32> {
        let mut longest = None;
        self.prefixes_up(key, |leaf| {
            longest = Some(leaf);
            true
        });
        longest
    }

    /// The leaves of all stored keys that are prefixes of `key`, shortest first.
    pub(crate) fn prefixes_of(&self, key: &[u8]) -> SmallVec<[u32; 8]> {
        let mut found = SmallVec::new();
        self.prefixes_up(key, |leaf| {
            found.push(leaf);
            false
        });
        found.reverse();
        found
    }

    /// The leaves whose keys start with `prefix`.
    pub(crate) fn subtree(&self, prefix: &[u8]) -> Option<Subtree> {
        let mut cell = self.root;
        if cell == 0 {
            return None;
        }
        let mut min = 0;
        while cell & KIND == 0 {
            let b = self.branch(cell, min)?;
            if b.offset() >= prefix.len() {
                break;
            }
            cell = self.child(b, self.index(b, prefix))?;
            min = b.offset() + 1;
        }
        let (mut from, mut to) = (0, 1);
        let mut leaf = cell;
        if cell & KIND == 0 {
            leaf = self.first_below(cell, min)?;
        } else if cell & LEAF == 0 {
            let c = self.cluster(cell)?;
            // SAFETY: a cluster that `mem` returned is whole.
            unsafe {
                from = c.blind(prefix);
                leaf = c.cell(from);
                to = from + 1;
                while from > 0 && c.border(from) >= prefix.len() {
                    from -= 1;
                }
                while to < c.leaves() && c.border(to) >= prefix.len() {
                    to += 1;
                }
            }
        }
        self.key(leaf)?.starts_with(prefix).then_some(Subtree {
            cell,
            min,
            from,
            to,
        })
    }
}

/// The place of a key, which may be absent, in a leaf or cluster.
#[derive(Clone, Copy)]
pub(crate) struct Near {
    /// The leaf that shares the longest prefix with the key.
    pub(crate) leaf: u32,
    /// The leaf's number in the cluster.
    pub(crate) index: usize,
    /// The offset at which the key first differs from that leaf; `None` if the leaf is the key's.
    pub(crate) part: Option<usize>,
    /// Whether the key sorts before that leaf.
    pub(crate) before: bool,
}

/// All leaves below a cell, or some leaves of a cluster.
#[derive(Clone, Copy)]
pub(crate) struct Subtree {
    pub(crate) cell: u32,
    /// The least offset that a branch there may have.
    pub(crate) min: usize,
    /// In a cluster: the first leaf, and the leaf behind the last one.
    pub(crate) from: usize,
    pub(crate) to: usize,
}
