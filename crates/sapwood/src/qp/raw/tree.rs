//! Changing a trie: one algorithm, two policies (`Owned` changes in place, `Cow` copies the path).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::marker::PhantomData;

use sapwood_arena::{Area, Arena, ArenaFull, Kind, Ref};

use super::leaf::{LeafOf, mismatch};
use super::mem::{Trusted, byte_of};
use super::node::{self, BIG, Branch, LEAF, SMALL_MAX};
use super::order::Order;
use super::parts::{self, Parts};
use super::points::Points;
use super::view::View;
use crate::qp::format;

/// Accounting kind of branches with up to 32 labels.
pub(crate) const SMALL_KIND: Kind = Kind(0);
/// Accounting kind of branches with a bitmap.
pub(crate) const BIG_KIND: Kind = Kind(1);
/// Accounting kind of leaves.
pub(crate) const LEAF_KIND: Kind = Kind(2);

/// The kind of a branch with this header.
#[inline(always)]
pub(crate) fn kind_of(h: u32) -> Kind {
    if h & BIG == 0 { SMALL_KIND } else { BIG_KIND }
}

/// The reference in a cell.
#[inline(always)]
pub(crate) fn ref_of(cell: u32) -> Ref {
    // Cells that name a node are never 0 or 1: reference 0 is the header.
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

/// The cell of a leaf.
#[inline(always)]
pub(crate) fn leaf_cell(r: Ref) -> u32 {
    format::leaf_cell(r.get())
}

/// What happens to nodes that a change makes or leaves behind.
pub(crate) trait Policy {
    /// Header bits of new branches.
    const BITS: u32;

    /// Whether a branch may be changed in place.
    fn mutable(h: u32) -> bool;

    /// A branch or leaf was made.
    fn made(&mut self, cell: u32);

    /// A branch is no longer part of the newest version.
    ///
    /// # Safety
    /// The cell is a live branch of the arena with header `h`, unlinked from the newest version.
    unsafe fn gone(&mut self, arena: &mut Arena, cell: u32, h: u32);
}

/// Nobody else reads: change in place, free at once.
pub(crate) struct Owned;

impl Policy for Owned {
    const BITS: u32 = 0;

    #[inline(always)]
    fn mutable(_: u32) -> bool {
        true
    }

    #[inline(always)]
    fn made(&mut self, _: u32) {}

    #[inline]
    unsafe fn gone(&mut self, arena: &mut Arena, cell: u32, h: u32) {
        // SAFETY: unlinked, and nobody else reads an owned trie.
        unsafe { arena.free(ref_of(cell), node::block_of(h), kind_of(h)) };
    }
}

/// Others read what is published: copy the path, keep lists of what to free.
#[cfg(feature = "std")]
#[derive(Default)]
pub(crate) struct Cow {
    /// Nodes made by the open transaction, gone ones included.
    pub(crate) fresh: Vec<u32>,
    /// Branches made and left behind by the open transaction: no reader saw them.
    pub(crate) dead: Vec<u32>,
    /// Published nodes (and leaves of any age) that the new version does without.
    pub(crate) retired: Vec<u32>,
    /// Bytes of the published branches and leaves in `retired`.
    pub(crate) retired_bytes: usize,
}

#[cfg(feature = "std")]
impl Policy for Cow {
    const BITS: u32 = node::FRESH;

    #[inline(always)]
    fn mutable(h: u32) -> bool {
        h & node::FRESH != 0
    }

    #[inline]
    fn made(&mut self, cell: u32) {
        self.fresh.push(cell);
    }

    #[inline]
    unsafe fn gone(&mut self, _: &mut Arena, cell: u32, h: u32) {
        if h & node::FRESH != 0 {
            self.dead.push(cell);
        } else {
            self.retired_bytes += node::block_of(h);
            self.retired.push(cell);
        }
    }
}

/// Where a cell is kept: in the root, or in a child slot of a branch.
#[derive(Clone, Copy)]
pub(crate) enum Link {
    Root,
    Child { branch: u32, index: usize },
}

/// A trie with its arena. Owns its nodes, but does not drop values by itself: see `drop_values`.
pub(crate) struct Tree<V> {
    pub(crate) arena: Arena,
    pub(crate) root: u32,
    pub(crate) len: usize,
    pub(crate) order: Order,
    /// The point index, if there is one.
    pub(crate) points: Option<Box<Points<V>>>,
    values: PhantomData<V>,
}

// SAFETY: a tree owns its values and its arena; raw pointers appear only inside calls.
unsafe impl<V: Send> Send for Tree<V> {}
// SAFETY: `&Tree` gives out `&V` and `&[u8]` only.
unsafe impl<V: Sync> Sync for Tree<V> {}

impl<V> Tree<V> {
    pub(crate) fn new(arena: Arena) -> Self {
        Tree {
            arena,
            root: 0,
            len: 0,
            order: Order::default(),
            points: None,
            values: PhantomData,
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
    /// The link names a live cell slot that may be changed.
    #[inline(always)]
    pub(crate) unsafe fn set_link(&mut self, link: Link, cell: u32) {
        match link {
            Link::Root => self.root = cell,
            // SAFETY: the caller's promise.
            Link::Child { branch, index } => unsafe { self.branch(branch).set_cell(index, cell) },
        }
    }

    /// Makes a leaf that is not linked yet; on failure the value comes back.
    pub(crate) fn make_leaf(&mut self, key: &[u8], value: V) -> Result<u32, (V, ArenaFull)> {
        let size = LeafOf::<V>::size(key.len());
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

    /// Frees a leaf's block and returns its value.
    ///
    /// # Safety
    /// The leaf is live, unlinked, and nobody reads it any more.
    pub(crate) unsafe fn take_leaf(&mut self, cell: u32) -> V {
        let p = self.pointer(cell);
        self.order.end();
        // SAFETY: the caller's promise; the value is out before the block is freed.
        unsafe {
            let size = LeafOf::<V>::size(LeafOf::<V>::key_len(p));
            let value = LeafOf::<V>::take(p);
            self.arena.free(ref_of(cell), size, LEAF_KIND);
            value
        }
    }

    /// The leaf that shares the longest prefix with the key, and where the two part (`None`: equal).
    #[inline]
    pub(crate) fn near(&self, key: &[u8]) -> Option<(u32, Option<usize>)> {
        let view = self.view();
        let mut cell = self.root;
        if cell == 0 {
            return None;
        }
        while cell & LEAF == 0 {
            let b = view.branch(cell, 0)?;
            let i = view.index(b, key).unwrap_or(0);
            cell = view.child(b, i)?;
        }
        Some((cell, mismatch(key, view.key(cell)?)))
    }

    /// Bytes of published branches on the way to a key: what a copied path leaves behind at most.
    #[cfg(feature = "std")]
    pub(crate) fn path_bytes(&self, key: &[u8]) -> usize {
        let view = self.view();
        let mut cell = self.root;
        let mut bytes = 0;
        while cell != 0 && cell & LEAF == 0 {
            let Some(b) = view.branch(cell, 0) else { break };
            if b.h & node::FRESH == 0 {
                bytes += node::block_of(b.h);
            }
            match view.index(b, key).and_then(|i| view.child(b, i)) {
                Some(next) => cell = next,
                None => break,
            }
        }
        bytes
    }

    /// Makes the branch behind `link` changeable: itself, or a copy that takes its place.
    ///
    /// # Safety
    /// `cell` is the live branch that `link`, which may be changed, names.
    #[inline]
    pub(crate) unsafe fn own<P: Policy>(
        &mut self,
        policy: &mut P,
        link: Link,
        cell: u32,
    ) -> Result<u32, ArenaFull> {
        // SAFETY: the caller's promise.
        let h = unsafe { self.branch(cell) }.h;
        if P::mutable(h) {
            return Ok(cell);
        }
        let r = self
            .arena
            .alloc(node::block_of(h), kind_of(h), Area::Nodes)?;
        let new = branch_cell(r);
        // SAFETY: a new block of the same size; the arena may have moved, so pointers are made anew.
        unsafe {
            parts::copy_whole(self.branch(cell), self.pointer(new), P::BITS);
            policy.made(new);
            self.set_link(link, new);
            policy.gone(&mut self.arena, cell, h);
        }
        Ok(new)
    }

    /// Links a new leaf for a key that parts from the leaf `near` at byte `at`.
    ///
    /// # Safety
    /// `leaf` is an unlinked leaf of `key`; `near` and `at` are `self.near(key)`'s answer.
    pub(crate) unsafe fn link_new<P: Policy>(
        &mut self,
        policy: &mut P,
        key: &[u8],
        near: u32,
        at: usize,
        leaf: u32,
    ) -> Result<(), ArenaFull> {
        let mine = key.get(at).copied();
        let mut link = Link::Root;
        let mut cell = self.root;
        while cell & LEAF == 0 {
            // SAFETY: cells below the root are live.
            let b = unsafe { self.branch(cell) };
            if b.offset() > at {
                break;
            }
            if b.offset() == at {
                // SAFETY: `link` was made changeable on the way; the label is absent, or the near leaf
                // would agree at `at`.
                return unsafe { self.add_child(policy, link, cell, mine, leaf) };
            }
            // SAFETY: the near leaf agrees with the key before `at`, so the child exists.
            unsafe {
                let i = self.view().index(b, key).unwrap_or_default();
                let branch = self.own(policy, link, cell)?;
                link = Link::Child { branch, index: i };
                cell = self.branch(branch).cell(i);
            }
        }
        // SAFETY: near is a live leaf.
        let theirs = unsafe { LeafOf::<V>::key(self.pointer(near)) }
            .get(at)
            .copied();
        let r = self.arena.alloc(16, SMALL_KIND, Area::Nodes)?;
        let pair = branch_cell(r);
        let (a, b) = if mine < theirs {
            ((mine, leaf), (theirs, cell))
        } else {
            ((theirs, cell), (mine, leaf))
        };
        // SAFETY: a new block of 16 bytes; mine and theirs differ at `at`, so at most one is END.
        unsafe {
            parts::write_pair(self.pointer(pair), at, a, b, P::BITS);
            policy.made(pair);
            self.set_link(link, pair);
        }
        Ok(())
    }

    /// Adds a child to the branch behind `link`.
    ///
    /// # Safety
    /// `cell` is the live branch that `link`, which may be changed, names; it has no such child.
    unsafe fn add_child<P: Policy>(
        &mut self,
        policy: &mut P,
        link: Link,
        cell: u32,
        byte: Option<u8>,
        child: u32,
    ) -> Result<(), ArenaFull> {
        // SAFETY: the caller's promise, for the whole body. Pointers are made anew after `alloc`.
        unsafe {
            let b = self.branch(cell);
            let labels = node::labels_of(b.h) + usize::from(byte.is_some());
            let end = node::end_of(b.h) == 1 || byte.is_none();
            let h = node::header(b.offset(), labels, end);
            let size = node::block_of(h);
            if labels <= SMALL_MAX && size == node::block_of(b.h) && P::mutable(b.h) {
                // The padding has room: rewrite the block by way of the stack.
                let mut block = [0u64; 21];
                parts::copy_inserted(b, block.as_mut_ptr().cast(), byte, child, P::BITS);
                core::ptr::copy_nonoverlapping(block.as_ptr(), b.p.cast(), size / 8);
                return Ok(());
            }
            let r = self.arena.alloc(size, kind_of(h), Area::Nodes)?;
            let new = branch_cell(r);
            let b = self.branch(cell);
            if labels <= SMALL_MAX {
                parts::copy_inserted(b, self.pointer(new), byte, child, P::BITS);
            } else {
                let mut parts = Parts::read(b);
                parts.insert(byte, child);
                parts.write(self.pointer(new), P::BITS);
            }
            policy.made(new);
            self.set_link(link, new);
            policy.gone(&mut self.arena, cell, b.h);
        }
        Ok(())
    }

    /// Takes the `i`th child out of the branch behind `link`.
    ///
    /// # Safety
    /// `cell` is the live branch that `link`, which may be changed, names, and has a child `i`.
    pub(crate) unsafe fn remove_child<P: Policy>(
        &mut self,
        policy: &mut P,
        link: Link,
        cell: u32,
        i: usize,
    ) -> Result<(), ArenaFull> {
        // SAFETY: the caller's promise, for the whole body.
        unsafe {
            let b = self.branch(cell);
            if b.children() == 2 {
                let sibling = b.cell(1 - i);
                self.set_link(link, sibling);
                policy.gone(&mut self.arena, cell, b.h);
                return Ok(());
            }
            let mut parts = Parts::read(b);
            parts.remove(i);
            let h = parts.header();
            if P::mutable(b.h) {
                // Shrinking in place needs no memory, so an owned removal cannot fail.
                parts.write(b.p, P::BITS);
                let (old, new) = (node::block_of(b.h), node::block_of(h));
                self.arena
                    .shrink(ref_of(cell), (old, kind_of(b.h)), (new, kind_of(h)));
                return Ok(());
            }
            let r = self
                .arena
                .alloc(node::block_of(h), kind_of(h), Area::Nodes)?;
            let new = branch_cell(r);
            parts.write(self.pointer(new), P::BITS);
            policy.made(new);
            self.set_link(link, new);
            policy.gone(&mut self.arena, cell, b.h);
        }
        Ok(())
    }

    /// Walks to the subtree of the keys that start with `prefix`, making the way there changeable, and
    /// unlinks it. Returns its top.
    pub(crate) fn unlink_prefix<P: Policy>(
        &mut self,
        policy: &mut P,
        prefix: &[u8],
    ) -> Result<Option<u32>, ArenaFull> {
        let Some((top, _)) = self.view().subtree(prefix) else {
            return Ok(None);
        };
        // SAFETY: all cells come from the root downwards; links are made changeable on the way.
        unsafe { self.unlink(policy, prefix, top) }?;
        Ok(Some(top))
    }

    /// Unlinks the leaf or branch `top`, which lies on the way of `key`.
    ///
    /// # Safety
    /// `top` is a live cell that a descent with `key` meets.
    pub(crate) unsafe fn unlink<P: Policy>(
        &mut self,
        policy: &mut P,
        key: &[u8],
        top: u32,
    ) -> Result<(), ArenaFull> {
        if self.root == top {
            self.root = 0;
            return Ok(());
        }
        let mut link = Link::Root;
        let mut cell = self.root;
        loop {
            // SAFETY: `top` is below `cell`, so that is a live branch and `key` leads on from it.
            unsafe {
                let b = self.branch(cell);
                let index = self.view().index(b, key).unwrap_or_default();
                if b.cell(index) == top {
                    return self.remove_child(policy, link, cell, index);
                }
                let branch = self.own(policy, link, cell)?;
                link = Link::Child { branch, index };
                cell = self.branch(branch).cell(index);
            }
        }
    }

    /// Puts `new` where the leaf `old` of `key` is.
    ///
    /// # Safety
    /// `old` is the live leaf of `key`; `new` is an unlinked leaf of the same key.
    #[cfg(feature = "std")]
    pub(crate) unsafe fn replace<P: Policy>(
        &mut self,
        policy: &mut P,
        key: &[u8],
        old: u32,
        new: u32,
    ) -> Result<(), ArenaFull> {
        let mut link = Link::Root;
        let mut cell = self.root;
        while cell != old {
            // SAFETY: `old` is below `cell`.
            unsafe {
                let b = self.branch(cell);
                let index = self.view().index(b, key).unwrap_or_default();
                let branch = self.own(policy, link, cell)?;
                link = Link::Child { branch, index };
                cell = self.branch(branch).cell(index);
            }
        }
        // SAFETY: the link is changeable.
        unsafe { self.set_link(link, new) };
        Ok(())
    }

    /// Calls `each` with every cell at and below `top`, children before their branch.
    ///
    /// The branch may be freed by `each`; its children were read before.
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
            // SAFETY: a live branch, visited before it is handed out.
            unsafe {
                let b = self.branch(cell);
                for i in (0..b.children()).rev() {
                    stack.push((b.cell(i), false));
                }
            }
        }
    }

    // Owned changes.

    /// Inserts or replaces, changing in place; a value that was replaced comes back.
    pub(crate) fn insert(&mut self, key: &[u8], value: V) -> Result<Option<V>, (V, ArenaFull)> {
        let there = match &self.points {
            Some(_) => self.find(key),
            None => None,
        };
        let near = match there {
            Some(leaf) => Some((leaf, None)),
            None => self.near(key),
        };
        if let Some((leaf, None)) = near {
            // SAFETY: `&mut self`: nobody else reads the value.
            let slot = unsafe { &mut *LeafOf::<V>::value_ptr(self.pointer(leaf)) };
            return Ok(Some(core::mem::replace(slot, value)));
        }
        self.insert_absent(near, key, value).map(|_| None)
    }

    /// Inserts a key that `near` says is absent.
    pub(crate) fn insert_absent(
        &mut self,
        near: Option<(u32, Option<usize>)>,
        key: &[u8],
        value: V,
    ) -> Result<u32, (V, ArenaFull)> {
        let leaf = self.make_leaf(key, value)?;
        if let Some((near, at)) = near {
            // SAFETY: `leaf` is new and `near` is `self.near(key)`'s answer.
            let linked = unsafe { self.link_new(&mut Owned, key, near, at.unwrap_or(0), leaf) };
            if let Err(full) = linked {
                // SAFETY: never linked.
                return Err((unsafe { self.take_leaf(leaf) }, full));
            }
        } else {
            self.root = leaf;
        }
        self.len += 1;
        self.point_added(key, leaf);
        Ok(leaf)
    }

    /// Removes the leaf of a key, in place. Needs no memory.
    pub(crate) fn remove_leaf(&mut self, key: &[u8], leaf: u32) -> V {
        // SAFETY: the leaf is the key's, live; the owned policy allocates nothing when unlinking, so it
        // cannot fail, and afterwards the leaf is ours.
        unsafe {
            let unlinked = self.unlink(&mut Owned, key, leaf);
            debug_assert!(unlinked.is_ok());
            self.len -= 1;
            self.point_removed(leaf);
            self.take_leaf(leaf)
        }
    }
}
