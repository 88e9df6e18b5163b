//! Whole tries at once: from sorted entries, and copied in depth-first order.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use sapwood_arena::{Area, Arena, ArenaFull, ArenaOptions};

use super::bulk;
use super::leaf::{LeafOf, mismatch};
use super::mem::{Trusted, byte_of};
use super::node::{self, Branch, LEAF};
use super::order::Order;
use super::parts::{self, Parts};
use super::tree::{self, LEAF_KIND, Link, Tree};
use super::view::View;

/// Builds a trie from entries in ascending order, each branch written once, when it is complete.
pub(crate) struct Builder<V> {
    tree: Tree<V>,
    /// Open branches: offset, and where their children start in `children`.
    open: Vec<(usize, usize)>,
    children: Vec<(Option<u8>, u32)>,
    /// The leaf of the last key, or 0.
    last: u32,
    /// Everything since the top open branch: the last leaf, or the branch that holds it.
    top: u32,
    order: Order,
}

/// Where an entry stands relative to the last.
pub(crate) enum Pushed<V> {
    /// It was added.
    Added,
    /// It has the last entry's key, whose value was replaced by it and comes back.
    Replaced(V),
    /// It sorts before the last one.
    Unsorted,
}

impl<V> Builder<V> {
    /// The arena must be empty.
    pub(crate) fn new(arena: Arena) -> Self {
        Builder {
            tree: Tree::new(arena),
            open: Vec::new(),
            children: Vec::new(),
            last: 0,
            top: 0,
            order: Order::default(),
        }
    }

    fn last_key<'a>(&self) -> &'a [u8] {
        // SAFETY: `last` is a live leaf; the arena is not touched while the result is used.
        unsafe { LeafOf::<V>::key(self.tree.pointer(self.last)) }
    }

    pub(crate) fn push(&mut self, key: &[u8], value: V) -> Result<Pushed<V>, (V, ArenaFull)> {
        if self.last == 0 {
            self.last = self.tree.make_leaf(key, value)?;
            self.top = self.last;
            self.order.add::<V>(self.last, key.len());
            self.tree.len = 1;
            return Ok(Pushed::Added);
        }
        let last = self.last_key();
        let Some(at) = mismatch(last, key) else {
            // SAFETY: the builder owns the leaf.
            let slot = unsafe { &mut *LeafOf::<V>::value_ptr(self.tree.pointer(self.last)) };
            return Ok(Pushed::Replaced(core::mem::replace(slot, value)));
        };
        if last.get(at) > key.get(at) {
            return Ok(Pushed::Unsorted);
        }
        if let Err(full) = self.close(Some(at)) {
            return Err((value, full));
        }
        let label = self.last_key().get(at).copied();
        if self.open.last().is_none_or(|&(offset, _)| offset < at) {
            self.open.push((at, self.children.len()));
        }
        self.children.push((label, self.top));
        // From here on `top` is not linked twice: a failure below leaves it among the children.
        self.top = 0;
        self.last = self.tree.make_leaf(key, value)?;
        self.top = self.last;
        self.order.add::<V>(self.last, key.len());
        self.tree.len += 1;
        Ok(Pushed::Added)
    }

    /// Writes the open branches with an offset over `at` (`None`: all).
    fn close(&mut self, at: Option<usize>) -> Result<(), ArenaFull> {
        while let Some(&(offset, start)) = self.open.last() {
            if at.is_some_and(|at| offset <= at) {
                break;
            }
            if self.top != 0 {
                let label = self.last_key().get(offset).copied();
                self.children.push((label, self.top));
                self.top = 0;
            }
            let parts = Parts::from_children(offset, &self.children[start..]);
            self.top = self.tree.place(&parts)?;
            self.children.truncate(start);
            self.open.pop();
        }
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<Tree<V>, ArenaFull> {
        self.close(None)?;
        let mut tree = core::mem::replace(
            &mut self.tree,
            Tree::new(Arena::new(ArenaOptions::default())),
        );
        tree.root = core::mem::take(&mut self.top);
        self.last = 0;
        tree.order = core::mem::take(&mut self.order).finish(tree.len);
        Ok(tree)
    }
}

impl<V> Drop for Builder<V> {
    /// An unfinished builder drops the values that it took.
    fn drop(&mut self) {
        let tops = self.children.iter().map(|child| child.1);
        let tops = tops.chain([self.top]).filter(|&top| top != 0).collect();
        // SAFETY: each leaf is below one of the open children, and the trie itself is empty.
        unsafe { bulk::drop_values::<V>(self.tree.arena.base(), tops) };
    }
}

impl<V> Tree<V> {
    /// Writes a new branch.
    fn place(&mut self, parts: &Parts) -> Result<u32, ArenaFull> {
        let h = parts.header();
        let r = self
            .arena
            .alloc(node::block_of(h), tree::kind_of(h), Area::Nodes)?;
        let cell = tree::branch_cell(r);
        // SAFETY: a new block of that size.
        unsafe { parts.write(self.pointer(cell), 0) };
        Ok(cell)
    }

    /// Moves everything into `fresh` in depth-first order: branches before their children, leaves in key
    /// order. On failure the trie is as it was.
    pub(crate) fn move_into(&mut self, fresh: Arena) -> Result<(), ArenaFull> {
        let root = self.root;
        let leaves = self.arena.memory().kinds[usize::from(LEAF_KIND.0)].bytes;
        let (copy, new_root, order) = copy_depth_first(&self.view(), fresh, leaves)?;
        debug_assert!(root != 0 || new_root == 0);
        // The values have moved bit by bit: the old arena is dropped as plain memory.
        self.arena = copy;
        self.root = new_root;
        self.order = order.finish(self.len);
        if self.points.is_some() {
            self.index_all();
        }
        Ok(())
    }
}

/// Bytes of branches that are laid side by side before the walk goes deeper: a cache line.
const CLUSTER: usize = 64;

/// Copies a trie, leaves bit by bit, in key order. The caller sees to it that values are not dropped twice.
///
/// Branches are laid out in clusters: a branch, then as many of the branches below it, level by level, as fit a
/// cache line; then the subtrees below the cluster, each in the same way, in key order. A descent so meets two
/// or three branches in each line. With `leaves`, the bytes of all leaves, those lie side by side.
pub(crate) fn copy_depth_first<V>(
    view: &View<'_, V, Trusted>,
    fresh: Arena,
    leaves: usize,
) -> Result<(Arena, u32, Order), ArenaFull> {
    // Its root stays empty, so that dropping it on an error drops no value.
    let mut to: Tree<V> = Tree::new(fresh);
    // When there is no room for all at once, there may still be room for one after the other.
    let _ = to.arena.reserve(leaves, Area::Leaves);
    let mut root = 0;
    let mut order = Order::default();
    let mut stack = Vec::new();
    if view.root != 0 {
        stack.push((view.root, Link::Root));
    }
    let mut cluster = VecDeque::new();
    while let Some(top) = stack.pop() {
        if top.0 & LEAF != 0 {
            let new = copy_leaf(&mut to, view, top.0)?;
            if let Some(key) = view.key(top.0) {
                order.add::<V>(new, key.len());
            }
            put(&mut to, &mut root, top.1, new);
            continue;
        }
        cluster.push_back(top);
        let mut bytes = 0;
        // What does not fit is left to the stack, in reverse, so that it is popped in key order.
        let base = stack.len();
        while let Some((cell, link)) = cluster.pop_front() {
            // SAFETY: cells of the view are live branches here.
            let b = unsafe { Branch::at(view.mem.base.wrapping_add(byte_of(cell))) };
            let size = node::block_of(b.h);
            if bytes > 0 && bytes + size > CLUSTER {
                stack.push((cell, link));
                continue;
            }
            bytes += size;
            let r = to.arena.alloc(size, tree::kind_of(b.h), Area::Nodes)?;
            let new = tree::branch_cell(r);
            // SAFETY: a new block of the same size.
            unsafe { parts::copy_whole(b, to.pointer(new), 0) };
            put(&mut to, &mut root, link, new);
            for index in 0..b.children() {
                // SAFETY: index is below the number of children.
                let child = unsafe { b.cell(index) };
                let link = Link::Child { branch: new, index };
                if child & LEAF == 0 {
                    cluster.push_back((child, link));
                } else {
                    stack.push((child, link));
                }
            }
        }
        // The cluster's leaves and subtrees, back in key order.
        stack[base..].sort_unstable_by(|a, b| first_key(view, b.0).cmp(&first_key(view, a.0)));
    }
    let arena = core::mem::replace(&mut to.arena, Arena::new(ArenaOptions::default()));
    Ok((arena, root, order))
}

/// The least key below a cell.
fn first_key<'a, V>(view: &View<'a, V, Trusted>, cell: u32) -> Option<&'a [u8]> {
    view.first_below(cell, 0).and_then(|leaf| view.key(leaf))
}

/// Puts a copied node where its copied parent has it.
fn put<V>(to: &mut Tree<V>, root: &mut u32, link: Link, cell: u32) {
    match link {
        Link::Root => *root = cell,
        // SAFETY: the branch was copied before its children and is not published.
        Link::Child { .. } => unsafe { to.set_link(link, cell) },
    }
}

/// Copies a leaf, value and all.
fn copy_leaf<V>(
    to: &mut Tree<V>,
    view: &View<'_, V, Trusted>,
    cell: u32,
) -> Result<u32, ArenaFull> {
    let from = view.mem.base.wrapping_add(byte_of(cell));
    // SAFETY: cells of the view are live; the new block has the size of the old one. Padding inside a value
    // may be uninitialized, so words are moved as they are.
    unsafe {
        let size = LeafOf::<V>::size(LeafOf::<V>::key_len(from));
        let r = to.arena.alloc(size, LEAF_KIND, Area::Leaves)?;
        let new = tree::leaf_cell(r);
        core::ptr::copy_nonoverlapping(
            from.cast::<core::mem::MaybeUninit<u64>>(),
            to.pointer(new).cast(),
            size.div_ceil(8),
        );
        Ok(new)
    }
}
