//! Tries that one writer changes, by one algorithm and two policies: `Owned` changes in place,
//! `Cow` copies the path.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::marker::PhantomData;

use sapwood_arena::{Area, Arena, ArenaFull, Kind, Ref};

use super::inline::Inline;
use super::leaf::{LeafOf, Value};
use super::mem::{Trusted, byte_of};
#[cfg(feature = "std")]
use super::node::is_leaf;
use super::node::{Branch, CLUSTER, Cluster, INLINE, KIND, LEAF};
use super::order::Order;
use super::parts;
use super::path::Frame;
use super::points::Points;
use super::view::View;
#[cfg(feature = "std")]
use sapwood_format::inline::BLOCK_MAX;
use sapwood_format::inline::PREFIX_MAX;
use sapwood_format::{self as format, branch, cluster};

/// Accounting kind of branches.
pub(crate) const BRANCH_KIND: Kind = Kind(0);
/// Accounting kind of clusters.
pub(crate) const CLUSTER_KIND: Kind = Kind(1);
/// Accounting kind of leaves.
pub(crate) const LEAF_KIND: Kind = Kind(2);

/// Bytes of room for another entry or two with whole keys.
const WHOLE_ROOM: usize = 48;

/// Bytes and kind of the block of a branch or cluster, by its cell and header.
#[inline(always)]
pub(crate) fn block_of(cell: u32, h: u32) -> (usize, Kind) {
    match cell & CLUSTER {
        0 => (branch::block_of(h), BRANCH_KIND),
        _ => (cluster::block_of(h), CLUSTER_KIND),
    }
}

/// Bytes and kind of the block of a branch or of a cluster of either kind.
///
/// # Safety
/// The cell is a live one of the memory at `base`, with header `h`.
#[inline(always)]
pub(crate) unsafe fn block_at(base: *mut u8, cell: u32, h: u32) -> (usize, Kind) {
    if cell & KIND != INLINE {
        return block_of(cell, h);
    }
    // SAFETY: the caller's promise.
    let block = unsafe { Inline::of(Cluster::of(base.add(byte_of(cell)), cell)) };
    (block.extent.block, CLUSTER_KIND)
}

/// The reference in a cell.
#[inline(always)]
pub(crate) fn ref_of(cell: u32) -> Ref {
    // A cell that names a node has a reference: place 0 is the header's.
    match Ref::new(format::reference_of(cell)) {
        Some(r) => r,
        None => unreachable!("an empty cell has no block"),
    }
}

/// The cell of a branch.
#[inline(always)]
pub(crate) fn branch_cell(r: Ref) -> u32 {
    format::branch_cell(r.get())
}

/// The cell of a cluster.
#[inline(always)]
pub(crate) fn cluster_cell(r: Ref) -> u32 {
    format::cluster_cell(r.get())
}

/// The cell of an inline cluster.
#[inline(always)]
pub(crate) fn inline_cell(r: Ref) -> u32 {
    format::branch_cell(r.get()) | INLINE
}

/// The cell of a leaf.
#[inline(always)]
pub(crate) fn leaf_cell(r: Ref) -> u32 {
    format::leaf_cell(r.get())
}

/// The policy of a change: what becomes of the nodes that it makes or unlinks.
pub(crate) trait Policy {
    /// Header bits of new branches and clusters.
    const BITS: u32;
    /// Whether every node may be changed in place.
    const IN_PLACE: bool;

    /// Whether a branch or cluster may be changed in place.
    fn mutable(h: u32) -> bool;

    /// Takes note of a node that was made.
    fn made(&mut self, cell: u32);

    /// Frees or retires a branch or cluster that the newest version does not reach any more.
    ///
    /// # Safety
    /// The cell is a live branch or cluster of the arena with header `h`, unlinked from the newest
    /// version.
    unsafe fn gone(&mut self, arena: &mut Arena, cell: u32, h: u32);

    /// Retires a leaf whose block has this many bytes, unless nodes are freed at once; returns
    /// whether it did.
    fn retire_leaf(&mut self, cell: u32, bytes: impl FnOnce() -> usize) -> bool;
}

/// The policy of an owned trie, which nobody else reads: nodes change in place and are freed at
/// once.
pub(crate) struct Owned;

impl Policy for Owned {
    const BITS: u32 = 0;
    const IN_PLACE: bool = true;

    #[inline(always)]
    fn mutable(_: u32) -> bool {
        true
    }

    #[inline(always)]
    fn made(&mut self, _: u32) {}

    #[inline]
    unsafe fn gone(&mut self, arena: &mut Arena, cell: u32, h: u32) {
        // SAFETY: unlinked, and nobody else reads an owned trie.
        unsafe {
            let (bytes, kind) = block_at(arena.base(), cell, h);
            arena.free(ref_of(cell), bytes, kind);
        }
    }

    #[inline(always)]
    fn retire_leaf(&mut self, _: u32, _: impl FnOnce() -> usize) -> bool {
        false
    }
}

/// The policy of a store, whose published nodes others read: the path is copied, and lists name the
/// nodes that are to be freed.
#[cfg(feature = "std")]
#[derive(Default)]
pub(crate) struct Cow {
    /// Nodes that the open transaction made, with those that it has unlinked since.
    pub(crate) fresh: Vec<u32>,
    /// Branches and clusters that the open transaction made and unlinked; no reader saw them.
    pub(crate) dead: Vec<u32>,
    /// Published branches and clusters, and leaves of any age, that the new version does not reach.
    pub(crate) retired: Vec<u32>,
    /// Bytes of the published nodes in `retired`.
    pub(crate) retired_bytes: usize,
}

#[cfg(feature = "std")]
impl Policy for Cow {
    const BITS: u32 = super::node::FRESH;
    const IN_PLACE: bool = false;

    #[inline(always)]
    fn mutable(h: u32) -> bool {
        h & super::node::FRESH != 0
    }

    #[inline]
    fn made(&mut self, cell: u32) {
        self.fresh.push(cell);
    }

    #[inline]
    unsafe fn gone(&mut self, arena: &mut Arena, cell: u32, h: u32) {
        if h & super::node::FRESH != 0 {
            self.dead.push(cell);
        } else {
            // SAFETY: the caller's promise.
            self.retired_bytes += unsafe { block_at(arena.base(), cell, h) }.0;
            self.retired.push(cell);
        }
    }

    /// A leaf that the transaction itself made waits for a grace period, too, so that references
    /// to its value stay valid.
    #[inline]
    fn retire_leaf(&mut self, cell: u32, bytes: impl FnOnce() -> usize) -> bool {
        self.retired_bytes += bytes();
        self.retired.push(cell);
        true
    }
}

/// The place of a cell: the root, or a child slot of a branch.
#[derive(Clone, Copy)]
pub(crate) enum Link {
    Root,
    Child { branch: u32, index: usize },
}

/// A trie with its arena. It owns its nodes.
pub(crate) struct Tree<V: ?Sized + Value> {
    pub(crate) arena: Arena,
    pub(crate) root: u32,
    pub(crate) len: usize,
    pub(crate) order: Order,
    /// Whether clusters hold their entries.
    pub(crate) inline: bool,
    /// The longest prefix that an inline cluster cuts: 0 where keys stay whole.
    pub(crate) prefix_max: usize,
    /// Whether inline clusters get no room for more entries: in an image.
    pub(crate) tight: bool,
    /// Whether each entry has a leaf for good.
    pub(crate) only_leaves: bool,
    /// The point index, if there is one.
    pub(crate) points: Option<Box<Points<V>>>,
    values: PhantomData<V>,
}

// SAFETY: a tree owns its values and its arena; raw pointers appear only inside calls.
unsafe impl<V: ?Sized + Value + Send> Send for Tree<V> {}
// SAFETY: `&Tree` gives out `&V` and `&[u8]` only.
unsafe impl<V: ?Sized + Value + Sync> Sync for Tree<V> {}

impl<V: ?Sized + Value> Tree<V> {
    pub(crate) fn new(arena: Arena) -> Self {
        Tree {
            arena,
            root: 0,
            len: 0,
            order: Order::default(),
            inline: false,
            prefix_max: PREFIX_MAX,
            tight: false,
            only_leaves: false,
            points: None,
            values: PhantomData,
        }
    }

    /// A trie whose clusters hold their entries, if the type of values allows it.
    pub(crate) fn new_inline(arena: Arena) -> Self {
        let mut tree = Tree::new(arena);
        tree.inline = V::INLINE;
        tree
    }

    /// A trie of a store whose clusters hold their entries, if the values need no drop.
    #[cfg(feature = "std")]
    pub(crate) fn of_plain(arena: Arena) -> Self {
        let mut tree = Tree::new(arena);
        tree.inline = V::INLINE && !V::NEEDS_DROP;
        tree
    }

    /// The trie, which is empty, with keys that lose the prefix of their inline cluster or stay
    /// whole.
    pub(crate) fn cut_prefixes(mut self, cut: bool) -> Self {
        self.prefix_max = if cut { PREFIX_MAX } else { 0 };
        self
    }

    /// The longest prefix of an inline cluster whose keys first differ at this offset.
    #[inline(always)]
    pub(crate) fn prefix_for(&self, base: usize) -> usize {
        base.min(self.prefix_max)
    }

    /// The most bytes of room for more entries in an inline cluster. Whole keys are long, and room
    /// for three of them is a sixth of a block.
    pub(crate) fn room_max(&self) -> usize {
        match self.prefix_max {
            0 => WHOLE_ROOM,
            _ => usize::MAX,
        }
    }

    /// The newest version.
    #[inline(always)]
    pub(crate) fn view(&self) -> View<'_, V> {
        let mem = Trusted {
            base: self.arena.base(),
        };
        // SAFETY: all nodes below `root` are live, and `&self` keeps them unchanged.
        unsafe { View::new(mem, self.root) }
    }

    /// The newest version of a trie that nobody else changes, with the order of its leaves.
    #[inline(always)]
    pub(crate) fn owned_view(&self) -> View<'_, V> {
        let mut view = self.view();
        view.order = self.order.runs();
        view
    }

    #[inline(always)]
    pub(crate) fn pointer(&self, cell: u32) -> *mut u8 {
        // SAFETY: cells point inside the arena.
        unsafe { self.arena.base().add(byte_of(cell)) }
    }

    /// # Safety
    /// `cell` is a live branch.
    #[inline(always)]
    pub(crate) unsafe fn branch(&self, cell: u32) -> Branch {
        // SAFETY: the caller's promise.
        unsafe { Branch::at(self.pointer(cell)) }
    }

    /// # Safety
    /// `cell` is a live cluster.
    #[inline(always)]
    pub(crate) unsafe fn cluster(&self, cell: u32) -> Cluster {
        // SAFETY: the caller's promise.
        unsafe { Cluster::of(self.pointer(cell), cell) }
    }

    /// The header of a branch or cluster.
    ///
    /// # Safety
    /// `cell` is a live one.
    #[inline(always)]
    pub(crate) unsafe fn header(&self, cell: u32) -> u32 {
        // SAFETY: both begin with their header.
        unsafe { self.branch(cell) }.h
    }

    /// # Safety
    /// The link names a live cell slot that may be changed.
    #[inline(always)]
    pub(crate) unsafe fn set_link(&mut self, link: Link, cell: u32) {
        match link {
            Link::Root => self.root = cell,
            // SAFETY: the caller's promise.
            Link::Child { branch, index } => unsafe { self.branch(branch).set_cell(index, cell) },
        }
    }

    /// Makes a leaf that is not linked yet; on failure it returns the value.
    pub(crate) fn make_leaf<'a>(
        &mut self,
        key: &[u8],
        value: V::New<'a>,
    ) -> Result<u32, (V::New<'a>, ArenaFull)> {
        let size = LeafOf::<V>::size_for(key.len(), &value);
        self.order.end();
        match self.arena.alloc(size, LEAF_KIND, Area::Leaves) {
            Ok(r) => {
                let cell = leaf_cell(r);
                // SAFETY: a new block of that size.
                unsafe { LeafOf::<V>::write(self.pointer(cell), key, value) };
                Ok(cell)
            }
            Err(full) => Err((value, full)),
        }
    }

    /// Frees a leaf's block and returns what must be dropped.
    ///
    /// # Safety
    /// The leaf is live, unlinked, and nobody reads it any more.
    pub(crate) unsafe fn take_leaf(&mut self, cell: u32) -> V::Held {
        // SAFETY: the caller's promise.
        unsafe { self.free_leaf(cell, |p| LeafOf::<V>::take(p)) }
    }

    /// Frees a leaf's block and returns its value.
    ///
    /// # Safety
    /// As for `take_leaf`.
    pub(crate) unsafe fn take_value(&mut self, cell: u32) -> V::Taken {
        // SAFETY: the caller's promise.
        unsafe { self.free_leaf(cell, |p| V::take_value(p)) }
    }

    /// Frees a leaf's block after `take` has moved its value out.
    ///
    /// # Safety
    /// As for `take_leaf`; `take` moves the value out.
    #[inline(always)]
    pub(super) unsafe fn free_leaf<R>(&mut self, cell: u32, take: impl FnOnce(*mut u8) -> R) -> R {
        let p = self.pointer(cell);
        self.order.end();
        // SAFETY: the caller's promise; the value is out before the block is freed.
        unsafe {
            let size = LeafOf::<V>::size(p);
            let value = take(p);
            self.arena.free(ref_of(cell), size, LEAF_KIND);
            value
        }
    }

    /// Bytes of published branches and clusters on the path of a key, and of a cluster that may be
    /// joined. A change of the key makes no more garbage, its leaf apart.
    #[cfg(feature = "std")]
    pub(crate) fn path_bytes(&self, key: &[u8]) -> usize {
        let view = self.view();
        let mut cell = self.root;
        let mut bytes = match self.inline {
            true => BLOCK_MAX,
            false => cluster::block(cluster::FILL_MAX),
        };
        while cell != 0 && !is_leaf(cell) {
            // SAFETY: cells below the root are live.
            unsafe {
                let h = self.header(cell);
                if h & super::node::FRESH == 0 {
                    bytes += block_at(self.arena.base(), cell, h).0;
                }
            }
            if cell & KIND != 0 {
                break;
            }
            match view.step(cell, 0, key) {
                Some((next, _)) => cell = next,
                None => break,
            }
        }
        bytes
    }

    /// Makes the branch or cluster behind `link` changeable: it stays, or a copy replaces it.
    ///
    /// # Safety
    /// `cell` is the live branch or cluster that `link`, which may be changed, names.
    #[inline]
    pub(crate) unsafe fn own<P: Policy>(
        &mut self,
        policy: &mut P,
        link: Link,
        cell: u32,
    ) -> Result<u32, ArenaFull> {
        // SAFETY: the caller's promise.
        let h = unsafe { self.header(cell) };
        if P::mutable(h) {
            return Ok(cell);
        }
        // SAFETY: as above.
        unsafe { self.renew(policy, link, cell) }
    }

    /// Replaces the branch or cluster behind `link` by a copy in a new block.
    ///
    /// # Safety
    /// As for `own`.
    pub(crate) unsafe fn renew<P: Policy>(
        &mut self,
        policy: &mut P,
        link: Link,
        cell: u32,
    ) -> Result<u32, ArenaFull> {
        // SAFETY: the caller's promise. The arena may have moved, so pointers are made anew.
        unsafe {
            let h = self.header(cell);
            let (bytes, kind) = block_at(self.arena.base(), cell, h);
            let r = self.arena.alloc(bytes, kind, Area::Nodes)?;
            let new = format::branch_cell(r.get()) | cell & KIND;
            parts::copy_whole(self.pointer(cell), h, bytes, self.pointer(new), P::BITS);
            policy.made(new);
            self.set_link(link, new);
            policy.gone(&mut self.arena, cell, h);
            Ok(new)
        }
    }

    /// Makes the branches of a path changeable; returns the link below the last one.
    ///
    /// # Safety
    /// The frames are those of a path from the root, as it is now.
    #[inline]
    pub(crate) unsafe fn own_path<P: Policy>(
        &mut self,
        policy: &mut P,
        frames: &[Frame],
    ) -> Result<Link, ArenaFull> {
        let mut link = Link::Root;
        let from = match P::IN_PLACE {
            true => frames.len().saturating_sub(1),
            false => 0,
        };
        for frame in &frames[from..] {
            // SAFETY: the links above were made changeable.
            let branch = unsafe { self.own(policy, link, frame.cell) }?;
            let index = frame.index();
            link = Link::Child { branch, index };
        }
        Ok(link)
    }

    /// Calls `each` with every cell at and below `top`, children before their parents. The entries
    /// of an inline cluster have no cells.
    ///
    /// `each` may free a node, because its children were read before.
    pub(crate) fn each_cell(&mut self, top: u32, mut each: impl FnMut(&mut Self, u32)) {
        let mut stack = Vec::new();
        if top != 0 {
            stack.push((top, false));
        }
        while let Some((cell, children_done)) = stack.pop() {
            if cell & LEAF != 0 || children_done {
                each(self, cell);
                continue;
            }
            stack.push((cell, true));
            let from = stack.len();
            // SAFETY: a live node, visited before it is handed out.
            unsafe { each_child(self.arena.base(), cell, |child| stack.push((child, false))) };
            stack[from..].reverse();
        }
    }
}

/// Calls `each` with the cells in a branch or cluster, in order, but not with those of dead slots.
///
/// # Safety
/// The cell is a live branch or cluster in the memory at `base`.
pub(crate) unsafe fn each_child(base: *mut u8, cell: u32, each: impl FnMut(u32)) {
    let p = base.wrapping_add(byte_of(cell));
    // SAFETY: the caller's promise.
    unsafe {
        if cell & CLUSTER != 0 {
            let c = Cluster::at(p);
            let cells = (0..c.leaves()).map(|i| c.cell(i));
            cells.filter(|cell| *cell != 0).for_each(each);
        } else {
            let b = Branch::at(p);
            (0..b.children()).map(|i| b.cell(i)).for_each(each);
        }
    }
}
