//! The tree of a published range map, each of whose nodes is checked before use.

use std::ops::RangeInclusive;

use sapwood_format::maple::gap::{Fit, Search, code};
use sapwood_format::maple::{LEVELS, header, root_of};
use sapwood_format::{UNIT, Window, header as page};

use super::nodes::{Bounds, Inner, Leaf, place_of};
use crate::value::NO_VALUE;
use crate::{CheckedValue, Trouble, Values, bytes};

/// The place of the root word.
const ROOT_AT: usize = page::root_at(header::ROOT);
/// The bounds of the root.
const ALL: Bounds = (0, u64::MAX);

/// The cells that lead from the root word to a node, with what was found there.
#[derive(Clone)]
struct Path {
    root: u64,
    cells: [(usize, u32); LEVELS],
    depth: usize,
}

/// A node to look at: its place, its level and its bounds.
type Node = (usize, usize, Bounds);

/// A leaf that was found, and its place.
struct Seen {
    leaf: Leaf,
    at: usize,
    path: Path,
}

/// A map in a window, whose header was read and is sound.
pub(super) struct Tree<W> {
    window: W,
    value_bytes: usize,
    /// Bytes of a slot.
    slot: usize,
    /// Whether slots refer to values, which have blocks of their own.
    apart: bool,
}

impl<W: Window> Tree<W> {
    /// The map in a window, if its values are of this type.
    pub(super) fn new<V: CheckedValue>(window: W) -> Result<Self, Trouble> {
        if window.len() < page::PAGE {
            return Err(Trouble::Damaged("no room for a header page", window.len()));
        }
        let word = |index| window.u64(page::root_at(index));
        let damaged = |why, index| Err(Trouble::Damaged(why, page::root_at(index)));
        let value_bytes = word(header::VALUE_BYTES);
        if value_bytes >= window.len() as u64 {
            return damaged("values of a size that no map has", header::VALUE_BYTES);
        }
        let bytes = value_bytes as usize;
        if !V::fits(bytes) {
            return Err(Trouble::Values(Values::Bytes(bytes)));
        }
        let hash = window.u64(page::LAYOUT_AT);
        if V::range_layout_hash().is_some_and(|expected| expected != hash) {
            return Err(Trouble::Values(Values::Layout { bytes, hash }));
        }
        let apart = match (word(header::SLOT), word(header::APART)) {
            (slot, 0) if slot == value_bytes && slot <= 8 => false,
            (4, 1) => true,
            _ => return damaged("slots that no map has", header::SLOT),
        };
        Ok(Tree {
            window,
            value_bytes: bytes,
            slot: if apart { 4 } else { bytes },
            apart,
        })
    }

    /// What was read at a path's end, if the path is still that of the map.
    fn verdict<T>(&self, path: &Path, read: Result<T, Trouble>) -> Result<T, Trouble> {
        let mut cells = path.cells[..path.depth].iter();
        match self.window.u64(ROOT_AT) == path.root
            && cells.all(|&(at, child)| self.window.u32(at) == child)
        {
            true => read,
            false => Err(Trouble::Changed),
        }
    }

    /// The root of the tree, if the map is not empty.
    fn root(&self) -> Result<Option<(Path, Node)>, Trouble> {
        let root = self.window.u64(ROOT_AT);
        let (node, height) = root_of(root);
        if root == 0 {
            return Ok(None);
        }
        if height > LEVELS {
            let what = "a tree has more levels than there can be";
            return Err(Trouble::Damaged(what, ROOT_AT));
        }
        let path = Path {
            root,
            cells: [(0, 0); LEVELS],
            depth: 0,
        };
        let at = place_of(&self.window, ROOT_AT, node)?;
        Ok(Some((path, (at, height, ALL))))
    }

    fn leaf(&self, path: &Path, (at, _, bounds): Node, spare: Vec<u64>) -> Result<Leaf, Trouble> {
        let leaf = Leaf::read(&self.window, at, self.slot, bounds, spare);
        self.verdict(path, leaf)
    }

    fn inner(&self, path: &Path, (at, _, bounds): Node, spare: Vec<u64>) -> Result<Inner, Trouble> {
        self.verdict(path, Inner::read(&self.window, at, bounds, spare))
    }

    /// Goes on from a node of this level to a child.
    fn down(
        &self,
        path: &mut Path,
        level: usize,
        inner: &Inner,
        i: usize,
    ) -> Result<Node, Trouble> {
        let (cell, child) = inner.child(i);
        path.cells[path.depth] = (cell, child);
        path.depth += 1;
        let at = self.verdict(path, place_of(&self.window, cell, child))?;
        Ok((at, level - 1, inner.bounds(i)))
    }

    /// The leaf whose bounds hold `x`.
    fn find(&self, x: u64) -> Result<Option<Seen>, Trouble> {
        let Some((mut path, mut node)) = self.root()? else {
            return Ok(None);
        };
        let mut spare = Vec::new();
        while node.1 > 0 {
            let inner = self.inner(&path, node, spare)?;
            node = self.down(&mut path, node.1, &inner, inner.find(x))?;
            spare = inner.into_spare();
        }
        let leaf = self.leaf(&path, node, spare)?;
        let at = node.0;
        Ok(Some(Seen { leaf, at, path }))
    }

    /// The first entries that end at or after `x`, up to `most` of them: those of one leaf, which
    /// are of one moment. There are none behind the last entry.
    pub(super) fn entries<V: CheckedValue>(
        &self,
        x: u64,
        most: usize,
    ) -> Result<Vec<(RangeInclusive<u64>, V)>, Trouble> {
        let Some(Seen { leaf, at, path }) = self.find(x)? else {
            return Ok(Vec::new());
        };
        let entry = |k| {
            let (start, end) = leaf.bounds_of(k);
            let value = self.verdict(&path, self.value(at, leaf.slot(k)))?;
            Ok((start..=end, value))
        };
        (leaf.rank(x)..leaf.len()).take(most).map(entry).collect()
    }

    /// The value of an entry of the leaf at `leaf`, by its slot.
    fn value<V: CheckedValue>(&self, leaf: usize, slot: &[u8]) -> Result<V, Trouble> {
        if !self.apart {
            return V::of(slot).ok_or(NO_VALUE);
        }
        let mut reference = [0; 4];
        reference.copy_from_slice(slot);
        let at = u32::from_ne_bytes(reference) as usize * UNIT;
        let whole = self.value_bytes.next_multiple_of(UNIT).max(UNIT);
        if !bytes::inside(&self.window, at, whole) {
            return Err(Trouble::Damaged("a value lies out of the memory", leaf));
        }
        bytes::with_copy(&self.window, at, self.value_bytes, V::of).ok_or(NO_VALUE)
    }

    /// The first index of the place that a search finds.
    pub(super) fn place(&self, fit: &Fit) -> Result<Option<u64>, Trouble> {
        let mut search = Search::new(fit);
        let found = match self.root()? {
            Some((path, root)) => self.place_below(&path, root, &mut search)?,
            None => search.look(ALL.0, ALL.1),
        };
        Ok(search.end(found))
    }

    /// The place with which a search ends below a node.
    fn place_below(
        &self,
        path: &Path,
        node: Node,
        search: &mut Search<'_>,
    ) -> Result<Option<u64>, Trouble> {
        if node.1 == 0 {
            return Ok(self.leaf(path, node, Vec::new())?.place(search));
        }
        let fit = search.fit();
        let inner = self.inner(path, node, Vec::new())?;
        let mut i = inner.find(if fit.highest { fit.to } else { fit.from });
        loop {
            let (from, to) = inner.bounds(i);
            if inner.gap(i) >= code(fit.size) {
                let mut path = path.clone();
                let child = self.down(&mut path, node.1, &inner, i)?;
                let found = self.place_below(&path, child, search)?;
                if found.is_some() {
                    return Ok(found);
                }
            }
            i = match fit.highest {
                false if to < fit.to && i + 1 < inner.len() => i + 1,
                true if from > fit.from && i > 0 => i - 1,
                _ => return Ok(None),
            };
        }
    }

    /// Checks the whole tree; returns the number of entries.
    pub(super) fn verify<V: CheckedValue>(&self) -> Result<usize, Trouble> {
        let mut count = 0;
        if let Some((path, root)) = self.root()? {
            self.walk::<V>(&path, root, &mut count)?;
        }
        Ok(count)
    }

    /// Checks a node and all below it, and counts the entries. Returns the code of its largest gap.
    fn walk<V: CheckedValue>(
        &self,
        path: &Path,
        node: Node,
        count: &mut usize,
    ) -> Result<u16, Trouble> {
        if node.1 == 0 {
            let leaf = self.leaf(path, node, Vec::new())?;
            for k in 0..leaf.len() {
                self.verdict(path, self.value::<V>(node.0, leaf.slot(k)))?;
            }
            *count += leaf.len();
            return Ok(leaf.largest_gap());
        }
        let inner = self.inner(path, node, Vec::new())?;
        let mut largest = 0;
        for i in 0..inner.len() {
            let mut path = path.clone();
            let child = self.down(&mut path, node.1, &inner, i)?;
            let gap = self.walk::<V>(&path, child, count)?;
            if gap > inner.gap(i) {
                let what = "a gap word says less than there is";
                return self.verdict(&path, Err(Trouble::Damaged(what, node.0)));
            }
            largest = largest.max(gap);
        }
        Ok(largest)
    }
}
