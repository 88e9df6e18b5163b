//! Views, which read one version of a trie: lookups and the descents that searches begin with.

use core::marker::PhantomData;

use smallvec::SmallVec;

pub(crate) use sapwood_arena::prefetch;

use super::inline::{EntryRef, Held, Inline};
use super::leaf::{LeafOf, Value, mismatch};
use super::mem::{Mem, Trusted};
#[cfg(feature = "std")]
use super::node::CLUSTER;
use super::node::{Branch, Cluster, KIND, is_leaf};
use super::order::Run;
use super::path::{Frame, Path};
use crate::{Key, Pieces};
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

    /// The index of the child that a key leads to, and its cell.
    #[inline(always)]
    pub(crate) fn choose(&self, b: Branch, key: &[u8]) -> Option<(usize, u32)> {
        if M::TRUSTED {
            // SAFETY: a trusted branch is whole and well formed.
            return Some(unsafe { b.choose(key) });
        }
        let index = self.index(b, key);
        Some((index, self.child(b, index)?))
    }

    /// One step of a descent: from a branch to the child that a key leads to. Returns the child and
    /// the least offset that a branch may have there.
    #[inline(always)]
    pub(crate) fn step(&self, cell: u32, min: usize, key: &[u8]) -> Option<(u32, usize)> {
        let b = self.branch(cell, min)?;
        let (_, next) = self.choose(b, key)?;
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

    /// The entry of a key.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<EntryRef> {
        let cell = self.end(key)?;
        self.find_in(cell, key)
    }

    /// The entry of a key in the leaf or cluster that it leads to.
    #[inline(always)]
    pub(crate) fn find_in(&self, end: u32, key: &[u8]) -> Option<EntryRef> {
        self.place_in(end, key).map(|(_, entry)| entry)
    }

    /// The entry of a key in the leaf or cluster that it leads to, with the entry's number in the
    /// cluster.
    #[inline(always)]
    pub(crate) fn place_in(&self, end: u32, key: &[u8]) -> Option<(usize, EntryRef)> {
        if is_leaf(end) {
            return self
                .leaf_has_key(end, key)
                .then_some((0, EntryRef::leaf(end)));
        }
        self.fetch_behind(end, 1);
        let tag = tag(key);
        let c = self.cluster(end)?;
        // SAFETY: a cluster that `mem` returned is whole.
        let mut hits = unsafe { c.with_tag(tag) };
        while hits != 0 {
            let index = hits.trailing_zeros() as usize;
            // SAFETY: as above; hits are entries.
            let entry = unsafe { c.entry(index) };
            if (!M::DEAD || entry.is_some()) && self.has_key_in(c, entry, key) {
                return Some((index, entry));
            }
            hits &= hits - 1;
        }
        None
    }

    /// The place of a key, which may be absent, among the entries of the leaf or cluster that it
    /// leads to.
    #[inline(always)]
    pub(crate) fn near(&self, end: u32, key: &[u8]) -> Option<Near> {
        if is_leaf(end) {
            return self.compare(0, EntryRef::leaf(end), key);
        }
        self.fetch_behind(end, 2);
        let c = self.cluster(end)?;
        let (slot, index, entry) = Self::led_to(c, key);
        let near = self.beside(c, index, entry, key)?;
        Some(Near { slot, ..near })
    }

    /// The slot of a cluster to which the borders lead a key, and the entry that shares the longest
    /// prefix with the key. That is the slot's own entry, unless the slot is dead.
    #[inline(always)]
    pub(crate) fn led_to(c: Cluster, key: &[u8]) -> (usize, usize, EntryRef) {
        // SAFETY: callers have the cluster from `mem`, so it is whole, and has the entry.
        unsafe {
            let slot = c.blind(key);
            let entry = c.entry(slot);
            if M::DEAD && !entry.is_some() {
                let (index, cell, _) = c.beside_dead(slot);
                return (slot, index, EntryRef::leaf(cell));
            }
            (slot, slot, entry)
        }
    }

    /// The place of a key beside entry number `index` of a cluster.
    #[inline(always)]
    pub(crate) fn beside(
        &self,
        c: Cluster,
        index: usize,
        entry: EntryRef,
        key: &[u8],
    ) -> Option<Near> {
        let found = self.key_in(c, entry)?;
        let head = found.head.len();
        // SAFETY: only keys of an inline cluster, which is whole, have a head.
        let same = M::INLINE
            && head != 0
            && key.len() >= head
            && unsafe { Inline::of(c).is_prefix_of(key) };
        let part = match same {
            true => mismatch(found.tail, &key[head..]).map(|at| head + at),
            false => found.mismatch(key),
        };
        Some(Near::of(entry, index, found, part, key))
    }

    /// The entry that shares the longest prefix with a key, in the leaf or cluster that the key
    /// leads to, and its number in the cluster. It reads no entry.
    #[inline(always)]
    pub(crate) fn blind(&self, end: u32, key: &[u8]) -> Option<(usize, EntryRef)> {
        if is_leaf(end) {
            return Some((0, EntryRef::leaf(end)));
        }
        self.fetch_behind(end, 2);
        let (_, index, entry) = Self::led_to(self.cluster(end)?, key);
        Some((index, entry))
    }

    /// The place of a key beside the entry that `blind` found.
    #[inline(always)]
    pub(crate) fn compare(&self, index: usize, entry: EntryRef, key: &[u8]) -> Option<Near> {
        let found = self.key(entry)?;
        Some(Near::of(entry, index, found, found.mismatch(key), key))
    }

    /// Where an entry begins, for a prefetch.
    #[inline(always)]
    fn hint(&self, entry: EntryRef) -> *const u8 {
        if M::INLINE && entry.is_held() {
            if let Some(c) = self.cluster(entry.cell()) {
                // SAFETY: a cluster that `mem` returned is whole, and has the entry.
                return unsafe { Inline::of(c).place::<V>(entry.index()) };
            }
        }
        self.mem.hint(entry.cell())
    }

    /// Prefetches the first cache line of an entry.
    #[inline(always)]
    pub(crate) fn fetch(&self, entry: EntryRef) {
        prefetch(self.hint(entry));
    }

    /// Prefetches what a comparison of an entry with a key of this length reads.
    #[inline(always)]
    pub(crate) fn fetch_whole(&self, entry: EntryRef, len: usize) {
        let p = self.hint(entry);
        prefetch(p);
        prefetch(p.wrapping_add(8 + len));
    }

    /// Whether the key of a leaf is this one.
    #[inline(always)]
    fn leaf_has_key(&self, cell: u32, key: &[u8]) -> bool {
        self.leaf(cell)
            // SAFETY: `leaf` returned a whole leaf.
            .is_some_and(|p| unsafe { LeafOf::<V>::is_key(p, key) })
    }

    /// Whether the key of an entry of a cluster is this one.
    #[inline(always)]
    fn has_key_in(&self, c: Cluster, entry: EntryRef, key: &[u8]) -> bool {
        // A damaged file may have any cell in a cluster of cells.
        if !c.is_inline() {
            return self.leaf_has_key(entry.cell(), key);
        }
        // SAFETY: a cluster that `mem` returned is whole, and has the entry.
        let block = unsafe { Inline::of(c) };
        if !self.is_whole(block, entry.index()) {
            return false;
        }
        // SAFETY: as above, and the entry is whole.
        match unsafe { block.slot_of::<V>(entry.index(), key) } {
            Ok(slot) => slot.is_some(),
            Err(leaf) => self.leaf_has_key(leaf, key),
        }
    }

    /// Whether an entry of an inline cluster lies in it. In trusted memory all do.
    #[inline(always)]
    fn is_whole(&self, block: Inline, i: usize) -> bool {
        #[cfg(feature = "std")]
        if !M::TRUSTED {
            // SAFETY: callers have the block from `mem`, with a slot `i`.
            return i < block.capacity && unsafe { block.is_whole::<V>(i) };
        }
        let _ = (block, i);
        true
    }

    /// Whether the key of an entry is this one.
    #[inline(always)]
    pub(crate) fn has_key(&self, entry: EntryRef, key: &[u8]) -> bool {
        if !M::INLINE || !entry.is_held() {
            return self.leaf_has_key(entry.cell(), key);
        }
        self.cluster(entry.cell())
            .is_some_and(|c| self.has_key_in(c, entry, key))
    }

    /// The value of a key.
    ///
    /// Whatever is not needed for most keys is in functions of its own. They are called last, so
    /// that the descent and the search by tag need no frame.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<&'a V> {
        let end = self.end(key)?;
        if is_leaf(end) || !(8..=32).contains(&key.len()) {
            return Self::get_at_end(self.mem, end, key);
        }
        self.fetch_behind(end, if M::INLINE { 2 } else { 1 });
        let c = self.cluster(end)?;
        // SAFETY: a cluster that `mem` returned is whole; hits are its entries.
        unsafe {
            let hits = c.with_tag(tag(key));
            if hits & hits.wrapping_sub(1) != 0 {
                return Self::get_among(self.mem, end, hits, key);
            }
            match hits {
                0 => None,
                _ => Self::get_at(self.mem, end, hits.trailing_zeros() as usize, key),
            }
        }
    }

    /// The value of a key in the leaf or cluster that it leads to.
    #[inline(never)]
    fn get_at_end(mem: M, end: u32, key: &[u8]) -> Option<&'a V> {
        // SAFETY: a version of which one leaf or cluster is left.
        let view = unsafe { Self::new(mem, end) };
        let entry = view.find_in(end, key)?;
        view.value(entry)
    }

    /// The value of a key if it is one of these entries of a cluster.
    ///
    /// # Safety
    /// As for `get_at`.
    #[inline(never)]
    unsafe fn get_among(mem: M, end: u32, mut hits: u32, key: &[u8]) -> Option<&'a V> {
        while hits != 0 {
            // SAFETY: the caller's promise.
            let found = unsafe { Self::get_at(mem, end, hits.trailing_zeros() as usize, key) };
            if found.is_some() {
                return found;
            }
            hits &= hits - 1;
        }
        None
    }

    /// The value of entry number `i` of a cluster, if its key is this one.
    ///
    /// # Safety
    /// The cell is one of a version with this memory, as for `new`, and its cluster has the entry.
    /// The key has 8 to 32 bytes.
    #[inline(never)]
    unsafe fn get_at(mem: M, end: u32, i: usize, key: &[u8]) -> Option<&'a V> {
        // SAFETY: the caller's promise.
        unsafe {
            // So no comparison calls another function.
            core::hint::assert_unchecked(key.len() >= 8 && key.len() <= 32);
            let view = Self::new(mem, end);
            let c = view.cluster(end)?;
            if !c.is_inline() {
                let cell = c.cell(i);
                if M::DEAD && cell == 0 {
                    return None;
                }
                let p = view.leaf(cell)?;
                return LeafOf::<V>::is_key(p, key).then(|| &*LeafOf::<V>::value_ptr(p));
            }
            let block = Inline::of(c);
            if !view.is_whole(block, i) {
                return None;
            }
            match block.slot_of::<V>(i, key) {
                Ok(slot) => slot.map(|slot| &*V::slot_value(slot)),
                Err(leaf) => Self::get_at_end(mem, leaf, key),
            }
        }
    }

    /// The key of an entry, and the place of its value.
    #[inline(always)]
    pub(crate) fn parts(&self, entry: EntryRef) -> Option<(Pieces<'a>, *mut V)> {
        if M::INLINE && entry.is_held() {
            return self.parts_in(self.cluster(entry.cell())?, entry);
        }
        self.leaf_parts(entry.cell())
    }

    /// The key of an entry of a cluster, and the place of its value.
    #[inline(always)]
    fn parts_in(&self, c: Cluster, entry: EntryRef) -> Option<(Pieces<'a>, *mut V)> {
        if !M::INLINE || !c.is_inline() {
            return self.leaf_parts(entry.cell());
        }
        // SAFETY: a cluster that `mem` returned is whole, lives for 'a, and has the entry.
        unsafe {
            let block = Inline::of(c);
            match self.held(block, entry.index())? {
                Held::Leaf(outside) => self.leaf_parts(outside),
                Held::Here { tail, len } => {
                    let slot = Inline::slot::<V>(tail, len);
                    Some((block.pieces(tail, len), V::slot_value(slot)))
                }
            }
        }
    }

    /// The key of a leaf, and the place of its value.
    #[inline(always)]
    fn leaf_parts(&self, leaf: u32) -> Option<(Pieces<'a>, *mut V)> {
        let p = self.leaf(leaf)?;
        // SAFETY: a whole leaf that lives for 'a.
        Some(unsafe {
            (
                Pieces::whole(LeafOf::<V>::key(p)),
                LeafOf::<V>::value_ptr(p),
            )
        })
    }

    /// The key of an entry, the slot of its value, and the bytes that this takes behind the key.
    pub(crate) fn bits(&self, entry: EntryRef) -> Option<(Pieces<'a>, *const u8, usize)> {
        let mut leaf = entry.cell();
        if M::INLINE && entry.is_held() {
            let c = self.cluster(leaf)?;
            // SAFETY: a cluster that `mem` returned is whole, and has the entry.
            unsafe {
                let block = Inline::of(c);
                if !self.is_whole(block, entry.index()) {
                    return None;
                }
                match block.held::<V>(entry.index()) {
                    Held::Leaf(outside) => leaf = outside,
                    Held::Here { tail, len } => {
                        let behind = tail.add(len);
                        let slot = Inline::slot::<V>(tail, len);
                        return Some((self.key(entry)?, slot, V::slot_len(behind)));
                    }
                }
            }
        }
        let p = self.leaf(leaf)?;
        // SAFETY: a whole leaf that lives for 'a.
        Some(unsafe {
            let behind = V::behind(V::value_len(p));
            (LeafOf::<V>::pieces(p), LeafOf::<V>::slot(p), behind)
        })
    }

    /// The value of an entry.
    #[inline(always)]
    pub fn value(&self, entry: EntryRef) -> Option<&'a V> {
        let (_, value) = self.parts(entry)?;
        // SAFETY: a whole value that lives for 'a.
        Some(unsafe { &*value })
    }

    /// The key of a leaf.
    #[cfg(feature = "std")]
    #[inline(always)]
    pub(crate) fn leaf_key(&self, cell: u32) -> Option<&'a [u8]> {
        let p = self.leaf(cell)?;
        // SAFETY: a whole leaf that lives for 'a.
        Some(unsafe { LeafOf::<V>::key(p) })
    }

    /// The key and the value of a leaf.
    #[inline(always)]
    pub(crate) fn leaf_entry(&self, cell: u32) -> Option<(&'a [u8], &'a V)> {
        let p = self.leaf(cell)?;
        // SAFETY: a whole leaf that lives for 'a.
        Some(unsafe { (LeafOf::<V>::key(p), &*LeafOf::<V>::value_ptr(p)) })
    }

    /// The key and the value of an entry.
    #[inline(always)]
    pub fn entry(&self, entry: EntryRef) -> Option<(Key<'a>, &'a V)> {
        if !M::INLINE || !entry.is_held() {
            return self.whole_entry(entry.cell());
        }
        let c = self.cluster(entry.cell())?;
        // SAFETY: a cluster that `mem` returned is whole, lives for 'a, and has the entry.
        unsafe {
            let block = Inline::of(c);
            match self.held(block, entry.index())? {
                Held::Leaf(leaf) => self.whole_entry(leaf),
                Held::Here { tail, len } => {
                    let value = &*V::slot_value(Inline::slot::<V>(tail, len));
                    Some((Key::held(block, tail, len), value))
                }
            }
        }
    }

    /// The entry that a leaf has.
    #[inline(always)]
    fn whole_entry(&self, leaf: u32) -> Option<(Key<'a>, &'a V)> {
        let (key, value) = self.leaf_entry(leaf)?;
        Some((Key::from(key), value))
    }

    /// Entry `i` of a cluster. `None` if it is not whole.
    ///
    /// # Safety
    /// `mem` returned the cluster, which has such an entry.
    #[inline(always)]
    pub(crate) unsafe fn held(&self, block: Inline, i: usize) -> Option<Held> {
        // SAFETY: the caller's promise.
        self.is_whole(block, i)
            .then(|| unsafe { block.held::<V>(i) })
    }

    /// The key of an entry.
    #[inline(always)]
    pub(crate) fn key(&self, entry: EntryRef) -> Option<Pieces<'a>> {
        self.parts(entry).map(|(key, _)| key)
    }

    /// The key of an entry of a cluster.
    #[inline(always)]
    pub(crate) fn key_in(&self, c: Cluster, entry: EntryRef) -> Option<Pieces<'a>> {
        self.parts_in(c, entry).map(|(key, _)| key)
    }

    /// The first entry below a cell.
    pub(crate) fn first_below(&self, mut cell: u32, mut min: usize) -> Option<EntryRef> {
        while cell & KIND == 0 {
            let b = self.branch(cell, min)?;
            min = b.offset() + 1;
            cell = self.child(b, 0)?;
        }
        if is_leaf(cell) {
            return Some(EntryRef::leaf(cell));
        }
        let c = self.cluster(cell)?;
        // SAFETY: a cluster that `mem` returned is whole.
        unsafe {
            if M::DEAD {
                return Some(EntryRef::leaf(c.alive_from(0).1));
            }
            Some(c.entry(0))
        }
    }

    /// Calls `each` with the cells in a branch or cluster, in order, but not with those of dead
    /// slots.
    #[cfg(feature = "std")]
    pub(crate) fn each_child(&self, cell: u32, each: impl FnMut(u32)) {
        if cell & KIND == 0 {
            if let Some(b) = self.branch(cell, 0) {
                (0..b.children())
                    .filter_map(|i| self.child(b, i))
                    .for_each(each);
            }
        } else if cell & KIND == CLUSTER {
            if let Some(c) = self.cluster(cell) {
                // SAFETY: a cluster that `mem` returned is whole.
                let cells = (0..c.leaves()).map(|i| unsafe { c.cell(i) });
                cells.filter(|cell| *cell != 0).for_each(each);
            }
        }
    }

    /// The leaf of the key that ends at the offset of a branch, if there is one. It is the first
    /// leaf below the first child.
    pub(crate) fn end_here(&self, b: Branch) -> Option<EntryRef> {
        let first = self.child(b, 0)?;
        if is_leaf(first) {
            let entry = EntryRef::leaf(first);
            return (self.key(entry)?.len() == b.offset()).then_some(entry);
        }
        if first & KIND == 0 {
            // All keys below agree beyond the offset.
            return None;
        }
        let c = self.cluster(first)?;
        // SAFETY: a cluster that `mem` returned is whole.
        unsafe {
            if c.leaves() == 1 {
                let entry = c.entry(0);
                return (self.key(entry)?.len() == b.offset()).then_some(entry);
            }
            let ends_here = c.border(1) == b.offset() && c.byte(1) == 0;
            let first = ends_here.then(|| c.entry(0));
            first.filter(|first| !M::DEAD || first.is_some())
        }
    }

    /// Calls `each` with the leaf cells of the stored keys that are prefixes of `key`, the longest
    /// first, until it returns true.
    ///
    /// The leaf that the key leads to tells how far any stored key agrees with it. In the cluster,
    /// another leaf is a prefix if its key ends at its border to the leaves behind it, which the
    /// borders tell without a read of the leaf. Above the cluster, a prefix is the key that ends at
    /// a branch's offset.
    pub(crate) fn prefixes_up(&self, key: &[u8], each: impl FnMut(EntryRef) -> bool) -> Option<()> {
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
        mut each: impl FnMut(EntryRef) -> bool,
    ) -> Option<()> {
        let &Path { end, near, .. } = path;
        let agree = near.part.unwrap_or(key.len());
        if wanted(agree) && self.key(near.entry)?.len() == agree && each(near.entry) {
            return Some(());
        }
        if !is_leaf(end) {
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
                    if !ends_here {
                        continue;
                    }
                    let entry = c.entry(i - 1);
                    if (!M::DEAD || entry.is_some()) && each(entry) {
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
    pub(crate) fn longest_prefix(&self, key: &[u8]) -> Option<EntryRef> {
        let mut longest = None;
        self.prefixes_up(key, |entry| {
            longest = Some(entry);
            true
        });
        longest
    }

    /// The leaves of all stored keys that are prefixes of `key`, shortest first.
    pub(crate) fn prefixes_of(&self, key: &[u8]) -> SmallVec<[EntryRef; 8]> {
        let mut found = SmallVec::new();
        self.prefixes_up(key, |entry| {
            found.push(entry);
            false
        });
        found.reverse();
        found
    }

    /// The leaves whose keys start with `prefix`, in memory without dead slots.
    pub(crate) fn subtree(&self, prefix: &[u8]) -> Option<Subtree> {
        const { assert!(!M::DEAD) };
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
        let mut entry = EntryRef::leaf(cell);
        if cell & KIND == 0 {
            entry = self.first_below(cell, min)?;
        } else if !is_leaf(cell) {
            let c = self.cluster(cell)?;
            // SAFETY: a cluster that `mem` returned is whole.
            unsafe {
                from = c.blind(prefix);
                entry = c.entry(from);
                to = from + 1;
                while from > 0 && c.border(from) >= prefix.len() {
                    from -= 1;
                }
                while to < c.leaves() && c.border(to) >= prefix.len() {
                    to += 1;
                }
            }
        }
        self.key(entry)?.starts_with(prefix).then_some(Subtree {
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
    /// The entry that shares the longest prefix with the key.
    pub(crate) entry: EntryRef,
    /// The entry's number in the cluster.
    pub(crate) index: usize,
    /// The slot that the borders lead to. It is the entry's, unless it is dead.
    #[cfg_attr(not(feature = "std"), expect(dead_code, reason = "for shared maps"))]
    pub(crate) slot: usize,
    /// The offset at which the key first differs from that entry; `None` if the entry is the key's.
    pub(crate) part: Option<usize>,
    /// The byte of that entry's key there; `None` if it ends there, or is the key.
    pub(crate) theirs: Option<u8>,
    /// Whether the key sorts before that entry.
    pub(crate) before: bool,
}

impl Near {
    /// No place.
    pub(crate) const NONE: Near = Near {
        entry: EntryRef::NONE,
        index: 0,
        slot: 0,
        part: None,
        theirs: None,
        before: false,
    };

    /// The place of a key that first differs at `part` from entry number `index`, whose key is
    /// `found`.
    #[inline(always)]
    fn of(
        entry: EntryRef,
        index: usize,
        found: Pieces<'_>,
        part: Option<usize>,
        key: &[u8],
    ) -> Self {
        let theirs = part.and_then(|at| found.at(at));
        Near {
            entry,
            index,
            slot: index,
            part,
            theirs,
            // A key that ends sorts first: `None < Some`.
            before: part.is_some_and(|at| key.get(at).copied() < theirs),
        }
    }
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
