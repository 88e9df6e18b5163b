//! Whole tries: built from sorted entries, or copied in the order of their keys.

use alloc::vec::Vec;

use sapwood_arena::{Area, Arena, ArenaFull, ArenaOptions};

use super::bulk;
use super::cursor::Cursor;
use super::inline::EntryRef;
use super::leaf::{LeafOf, Value, mismatch};
use super::mem::Trusted;
use super::order::Order;
use super::parts::Parts;
use super::path::{fits_block, is_outside, prefix_of};
use super::slots::{Border, Entry, Slots};
use super::tree::{self, LEAF_KIND, Owned, Tree};
use super::view::View;
use crate::Pieces;
use sapwood_format::cluster::{FILL_MAX, REACH, capacity_for, tag};
use smallvec::SmallVec;

/// A leaf that is in no cluster yet, or a branch with all nodes below it, and the border to the
/// item before it.
#[derive(Clone, Copy)]
struct Item {
    cell: u32,
    /// The tag of a leaf; a branch has none.
    tag: Option<u8>,
    border: Border,
    /// Bytes of a leaf's key, and of its value behind it, for inline clusters.
    len: usize,
    behind: usize,
}

/// The state of a branch that is not built yet.
struct Level {
    /// The offset at which its keys first differ from each other.
    offset: usize,
    /// The numbers of its first item, and of the first item behind the last border at the offset.
    first: usize,
    group: usize,
}

/// Builds clusters and branches from leaves that come in order. It writes each node once.
///
/// Items that differ at an offset become a branch if they do not fit one cluster. Otherwise they
/// are left to the level above. In a branch, neighbours share a cluster as long as they fit.
#[derive(Default)]
struct Packer {
    items: Vec<Item>,
    levels: Vec<Level>,
}

impl Packer {
    /// Adds the next leaf, with the tag and length of its key and the border between it and the
    /// leaf before it.
    fn push<V: ?Sized + Value>(
        &mut self,
        tree: &mut Tree<V>,
        leaf: u32,
        (tag, len): (u8, usize),
        border: Option<Border>,
    ) -> Result<(), ArenaFull> {
        if let Some(border) = border {
            self.close(tree, Some(border.at))?;
            let next = self.items.len();
            let above = self.levels.last().map(|level| (level.offset, level.group));
            match (self.levels.last_mut(), above) {
                (Some(level), Some((offset, _))) if offset == border.at => level.group = next,
                (_, above) => self.levels.push(Level {
                    offset: border.at,
                    first: above.map_or(0, |(_, group)| group),
                    group: next,
                }),
            }
        }
        // SAFETY: callers have made the leaf.
        let behind = V::behind(unsafe { V::value_len(tree.pointer(leaf)) });
        self.items.push(Item {
            cell: leaf,
            tag: Some(tag),
            border: border.unwrap_or(Border { at: 0, byte: 0 }),
            len,
            behind,
        });
        Ok(())
    }

    /// Ends the levels whose offset is greater than `at`, or all levels if `at` is `None`.
    fn close<V: ?Sized + Value>(
        &mut self,
        tree: &mut Tree<V>,
        at: Option<usize>,
    ) -> Result<(), ArenaFull> {
        while let Some(level) = self.levels.last() {
            if at.is_some_and(|at| level.offset <= at) {
                break;
            }
            let (offset, first) = (level.offset, level.first);
            if !fits(tree, &self.items[first..], offset) {
                let branch = self.branch(tree, offset, first)?;
                let border = self.items[first].border;
                self.items.truncate(first);
                self.items.push(Item {
                    cell: branch,
                    tag: None,
                    border,
                    len: 0,
                    behind: 0,
                });
            }
            self.levels.pop();
        }
        Ok(())
    }

    /// Makes a branch of the items from `first` on, which differ at the offset or behind it.
    fn branch<V: ?Sized + Value>(
        &self,
        tree: &mut Tree<V>,
        offset: usize,
        first: usize,
    ) -> Result<u32, ArenaFull> {
        let items = &self.items[first..];
        let mut parts: Option<Parts> = None;
        let mut from = 0;
        while from < items.len() {
            // One group, and the next groups that fit into the same cluster.
            let mut to = group(items, from, offset);
            while to < items.len() {
                let next = group(items, to, offset);
                if !fits(tree, &items[from..next], offset) {
                    break;
                }
                to = next;
            }
            let cell = pack(tree, &items[from..to])?;
            match &mut parts {
                None => parts = Some(Parts::new(offset, cell)),
                Some(parts) => parts.push(items[from].border.byte, cell),
            }
            from = to;
        }
        let Some(parts) = parts else {
            unreachable!("a level has items")
        };
        tree.make_branch_in(Area::Nodes, &mut Owned, &parts)
    }

    /// Ends all levels; returns the root.
    fn finish<V: ?Sized + Value>(&mut self, tree: &mut Tree<V>) -> Result<u32, ArenaFull> {
        self.close(tree, None)?;
        if self.items.is_empty() {
            return Ok(0);
        }
        pack(tree, &self.items)
    }
}

/// Whether items that differ at `offset` or behind it can be one cluster.
fn fits<V: ?Sized + Value>(tree: &Tree<V>, items: &[Item], offset: usize) -> bool {
    let fits = items.len() <= FILL_MAX
        && items.iter().all(|item| item.tag.is_some())
        && items[1..]
            .iter()
            .all(|item| item.border.at - offset <= REACH);
    if !fits || !tree.inline || items.len() == 1 {
        return fits;
    }
    let least = items[1..].iter().map(|item| item.border.at).min();
    let base = least.unwrap_or(offset);
    let all = tree.prefix_for(base);
    let held = items
        .iter()
        .filter(|item| !is_outside(item.len, all, item.behind));
    let prefix = prefix_of(all, held.map(|item| item.len));
    let bytes = items
        .iter()
        .map(|item| match is_outside(item.len, all, item.behind) {
            true => V::ENTRIES.outside(),
            false => V::ENTRIES.entry(item.len - prefix, item.behind),
        })
        .sum();
    fits_block::<V>(items.len(), prefix, bytes)
}

/// The end of the run of items that have the same byte at the offset as the item `from`.
fn group(items: &[Item], from: usize, offset: usize) -> usize {
    let rest = items[from + 1..].iter();
    let len = rest.take_while(|item| item.border.at > offset).count();
    from + 1 + len
}

/// The cell for items: that of the one branch or leaf, or of a new cluster of the leaves.
fn pack<V: ?Sized + Value>(tree: &mut Tree<V>, items: &[Item]) -> Result<u32, ArenaFull> {
    if tree.inline && items.len() > 1 {
        let leaves: SmallVec<[(u32, Border); FILL_MAX]> =
            items.iter().map(|item| (item.cell, item.border)).collect();
        return tree.pack_leaves(&leaves);
    }
    let entry = |item: &Item| Entry {
        cell: item.cell,
        tag: item.tag.unwrap_or(0),
    };
    let mut slots = Slots::new(entry(&items[0]));
    for item in &items[1..] {
        slots.push(item.border, entry(item));
    }
    let capacity = capacity_for(slots.len());
    tree.make_cluster(&mut Owned, &slots, (0, slots.len()), capacity)
}

/// Builds a trie from entries in ascending order.
pub(crate) struct Builder<V: ?Sized + Value> {
    tree: Tree<V>,
    packer: Packer,
    /// The leaf of the last key, or 0.
    last: u32,
    order: Order,
    /// Whether each leaf was made behind the leaf before it, and none was freed.
    in_order: bool,
}

/// The result of a push: where an entry sorts relative to the last one.
pub(crate) enum Pushed<V: ?Sized + Value> {
    /// The entry was added.
    Added,
    /// The entry has the key of the last one, whose value it replaced; this is the old value.
    Replaced(V::Taken),
    /// The entry sorts before the last one.
    Unsorted,
}

impl<V: ?Sized + Value> Builder<V> {
    /// A builder of a trie, which must be empty, as its arena.
    pub(crate) fn new(tree: Tree<V>) -> Self {
        Builder {
            tree,
            packer: Packer::default(),
            last: 0,
            order: Order::default(),
            in_order: true,
        }
    }

    pub(crate) fn push<'a>(
        &mut self,
        key: &[u8],
        value: V::New<'a>,
    ) -> Result<Pushed<V>, (V::New<'a>, ArenaFull)> {
        let mut border = None;
        if self.last != 0 {
            let p = self.tree.pointer(self.last);
            // SAFETY: `last` is a live leaf; the arena is not touched while its key is used.
            let last = unsafe { LeafOf::<V>::key(p) };
            let Some(at) = mismatch(last, key) else {
                // SAFETY: the builder owns the leaf.
                return match unsafe { V::overwrite(p, value) } {
                    Ok(old) => Ok(Pushed::Replaced(old)),
                    Err(value) => self.push_over(key, value).map(Pushed::Replaced),
                };
            };
            if last.get(at) > key.get(at) {
                return Ok(Pushed::Unsorted);
            }
            border = Some(Border::between(last, key, at));
        }
        let spare = V::spare(&value);
        let leaf = self.tree.make_leaf(key, value)?;
        if let Err(full) = self
            .packer
            .push(&mut self.tree, leaf, (tag(key), key.len()), border)
        {
            // SAFETY: the leaf is in no item.
            let value = unsafe { self.tree.take_leaf(leaf) };
            return Err((V::again(spare, value), full));
        }
        self.last = leaf;
        // SAFETY: the leaf was made just now.
        let size = unsafe { LeafOf::<V>::size(self.tree.pointer(leaf)) };
        self.order.add(leaf, size);
        self.tree.len += 1;
        Ok(Pushed::Added)
    }

    /// Replaces the last leaf by a new leaf of the same key.
    fn push_over<'a>(
        &mut self,
        key: &[u8],
        value: V::New<'a>,
    ) -> Result<V::Taken, (V::New<'a>, ArenaFull)> {
        let leaf = self.tree.make_leaf(key, value)?;
        if let Some(item) = self.packer.items.last_mut() {
            debug_assert_eq!(item.cell, self.last);
            item.cell = leaf;
        }
        let old = core::mem::replace(&mut self.last, leaf);
        // The old leaf lay in the middle of a run.
        self.in_order = false;
        // SAFETY: no item names the old leaf any more.
        Ok(unsafe { self.tree.take_value(old) })
    }

    pub(crate) fn finish(mut self) -> Result<Tree<V>, ArenaFull> {
        let root = self.packer.finish(&mut self.tree)?;
        self.packer.items.clear();
        let mut tree = core::mem::replace(
            &mut self.tree,
            Tree::new(Arena::new(ArenaOptions::default())),
        );
        tree.root = root;
        if self.in_order && !tree.inline {
            tree.order = core::mem::take(&mut self.order).finish(tree.len);
        }
        Ok(tree)
    }
}

impl<V: ?Sized + Value> Drop for Builder<V> {
    /// Drops the values of a builder that was not finished.
    fn drop(&mut self) {
        let tops = self.packer.items.drain(..).map(|item| item.cell).collect();
        // SAFETY: each leaf is below one of the items, and the trie itself is empty.
        unsafe { bulk::drop_values::<V>(self.tree.arena.base(), tops) };
    }
}

impl<V: ?Sized + Value> Tree<V> {
    /// Moves all entries into `fresh`, built anew in key order. On failure the trie stays as it
    /// was.
    pub(crate) fn move_into(&mut self, fresh: Arena) -> Result<(), ArenaFull> {
        let inline = V::INLINE && self.points.is_none() && !self.only_leaves;
        self.lay_out(fresh, inline)
    }

    /// Gives each entry a leaf of its own. On failure the trie stays as it was.
    pub(crate) fn make_leaves(&mut self) -> Result<(), ArenaFull> {
        match self.inline {
            true if self.root != 0 => {
                let fresh = Arena::new(self.arena.options().clone());
                self.lay_out(fresh, false)
            }
            _ => {
                self.inline = false;
                Ok(())
            }
        }
    }

    fn lay_out(&mut self, fresh: Arena, inline: bool) -> Result<(), ArenaFull> {
        let root = self.root;
        let leaves = self.arena.memory().kinds[usize::from(LEAF_KIND.0)].bytes;
        let mut to = Tree::new(fresh);
        (to.inline, to.prefix_max) = (inline, self.prefix_max);
        let (copy, new_root, order) = copy_in_order(&self.view(), to, leaves)?;
        debug_assert!(root != 0 || new_root == 0);
        // The values were moved bit by bit, so the old arena is dropped as plain memory.
        self.arena = copy;
        self.root = new_root;
        self.order = order.finish(self.len);
        self.inline = inline;
        if self.points.is_some() {
            self.index_all();
        }
        Ok(())
    }
}

/// Copies a trie in key order, its leaves bit by bit. The caller must not let values be dropped
/// twice. `leaves` is the number of bytes of all leaves, for which it reserves room, so that they
/// lie side by side.
///
/// Branches and clusters are built anew, so the copy depends only on the entries.
pub(crate) fn copy_in_order<V: ?Sized + Value>(
    view: &View<'_, V, Trusted>,
    mut to: Tree<V>,
    leaves: usize,
) -> Result<(Arena, u32, Order), ArenaFull> {
    // The root stays empty until the end, so that an early return drops no value.
    let inline = to.inline;
    if !inline {
        // Without room for all leaves side by side, there may still be room for each of them.
        let _ = to.arena.reserve(leaves, Area::Leaves);
    }
    let mut order = Order::default();
    let mut packer = Packer::default();
    let mut last: Option<Pieces<'_>> = None;
    let mut cursor = Cursor::new();
    cursor.first(view);
    while let Some(entry) = cursor.entry.some() {
        let Some(key) = view.key(entry) else { break };
        let (new, size) = copy_entry(&mut to, view, entry)?;
        if !inline {
            order.add(new, size);
        }
        let border = last.and_then(|last| {
            let at = last.unlike(key)?;
            Some(Border::of(last.at(at), key.at(at), at))
        });
        // SAFETY: made just now, and the memory has not moved since.
        let tag = tag(unsafe { LeafOf::<V>::key(to.pointer(new)) });
        packer.push(&mut to, new, (tag, key.len()), border)?;
        last = Some(key);
        cursor.next(view);
    }
    let root = packer.finish(&mut to)?;
    let arena = core::mem::replace(&mut to.arena, Arena::new(ArenaOptions::default()));
    Ok((arena, root, order))
}

/// Makes a leaf with the bits of an entry; returns its cell and size.
fn copy_entry<V: ?Sized + Value>(
    to: &mut Tree<V>,
    view: &View<'_, V, Trusted>,
    entry: EntryRef,
) -> Result<(u32, usize), ArenaFull> {
    let Some((key, slot, behind)) = view.bits(entry) else {
        unreachable!("entries of a trie in trusted memory are whole")
    };
    let size = LeafOf::<V>::size_behind(key.len(), behind);
    let r = to.arena.alloc(size, LEAF_KIND, Area::Leaves)?;
    let new = tree::leaf_cell(r);
    // SAFETY: entries of the view are live; the new block has that size.
    unsafe { LeafOf::<V>::write_bits(to.pointer(new), key, slot, behind) };
    Ok((new, size))
}

#[cfg(test)]
mod tests {
    use crate::QpMap;

    #[test]
    fn sorted_entries_make_full_clusters_and_few_branches() {
        let keys = (0..1000u32).map(|i| format!("{:04}", i));
        let map: QpMap<u32> = QpMap::from_sorted_iter(keys.map(|key| (key, 1))).unwrap();
        map.verify().unwrap();
        let memory = map.memory();
        // Two groups of ten fit into one cluster.
        assert_eq!(memory.clusters.0, 50);
        assert_eq!(memory.branches.0, 11);
    }
}
