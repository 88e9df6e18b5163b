//! Reading a published map that nobody need trust: every node is copied and checked first.

use alloc::vec::{self, Vec};
use core::fmt;
use core::iter::FusedIterator;
use core::marker::PhantomData;

use sapwood_arena::{HEADER_LEN, HeaderError, OpenError, ROOTS_AT};
pub use sapwood_checked::Trouble;
use sapwood_format::Window as Memory;
use sapwood_format::maple::{LEVELS, header, root_of};
use zerocopy::FromBytes;

use super::Range;
use super::gap::code;
use super::header::{Facts, read_header};
use super::raw::copies::{InnerCopy, LeafCopy, place_of};
use super::raw::published::ALIGNED;
use super::raw::search::Fit;
use super::raw::table::Values;
use super::window::Window;
use crate::OpenCause;

/// The place of the root word.
const ROOT_AT: usize = ROOTS_AT + 8 * header::ROOT;

/// A reader of a published map ([`Builder::build_in`](crate::Builder::build_in)) that trusts
/// nothing: it copies each node, checks the copy, and returns copies of the entries.
///
/// Whatever bytes the memory has, and whatever others write there meanwhile, no call reads outside
/// the memory, each ends, and none panics.
///
/// The map's writer may be at work, in this process or another, or may have been killed in the
/// middle of a change. A change becomes visible by one store, so the map is as it was before the
/// change or as it is after. While a writer is at work, its grace periods do not wait for this
/// reader unless the caller makes them. Memory that is reused during a call then looks damaged or
/// changed, and the caller tries again: a call ends with [`Trouble::Changed`] if the path that it
/// took is no longer that of the map. This finds nearly all such cases, but not all.
///
/// Values and borders have no checksums: a bit that is wrong there may go unseen.
pub struct CheckedMaple<V, W> {
    memory: W,
    facts: Facts,
    values: PhantomData<fn() -> V>,
}

/// The cells that lead from the root word to a node, with what was found there.
#[derive(Clone)]
struct Path {
    root: u64,
    cells: [(usize, u32); LEVELS],
    depth: usize,
}

impl Path {
    fn push(&mut self, cell: (usize, u32)) {
        self.cells[self.depth] = cell;
        self.depth += 1;
    }

    /// Whether the path is still that of the map.
    fn still<W: Memory>(&self, memory: &W) -> Result<(), Trouble> {
        let cells = &self.cells[..self.depth];
        match memory.u64(ROOT_AT) == self.root
            && cells.iter().all(|&(at, child)| memory.u32(at) == child)
        {
            true => Ok(()),
            false => Err(Trouble::Changed),
        }
    }

    /// What was read at the path's end, if the path is still that of the map.
    fn verdict<W: Memory, T>(&self, memory: &W, read: Result<T, Trouble>) -> Result<T, Trouble> {
        self.still(memory)?;
        read
    }
}

/// A leaf that was found, and its bounds.
struct Seen {
    leaf: LeafCopy,
    at: usize,
    upper: u64,
    path: Path,
}

/// A node to look at: its place, and its level.
type Node = (usize, usize);

/// Entries of a leaf, and the first index behind the leaf.
type Found<V> = (Vec<(u64, u64, V)>, Option<u64>);

impl<V: FromBytes + Send + Sync + 'static, W: Memory> CheckedMaple<V, W> {
    /// Reads the header page of the map.
    ///
    /// O(1).
    ///
    /// ```
    /// use sapwood::arena::{Arena, ArenaOptions, Backing, HeaderMode};
    /// use sapwood::maple::{CheckedMaple, MapleMap};
    /// use sapwood_format::Window;
    ///
    /// /// A copy of a file's words.
    /// struct Words(Vec<u64>);
    /// impl Window for Words {
    ///     fn len(&self) -> usize {
    ///         self.0.len() * 8
    ///     }
    ///     fn u32(&self, at: usize) -> u32 {
    ///         (self.u64(at / 8 * 8) >> (at % 8 * 8)) as u32
    ///     }
    ///     fn u64(&self, at: usize) -> u64 {
    ///         self.0[at / 8]
    ///     }
    /// }
    ///
    /// # let path = std::env::temp_dir().join(format!("sapwood-doc-{}.checked", std::process::id()));
    /// let options = ArenaOptions::default()
    ///     .backing(Backing::File(path.clone()))
    ///     .header(HeaderMode::Page)
    ///     .layout_hash(MapleMap::<u64>::layout_hash());
    /// let map = MapleMap::builder().build_in(Arena::create(options)?)?;
    /// map.store(5..=9, 1_u64)?;
    ///
    /// let bytes = std::fs::read(&path)?;
    /// let words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
    /// let reader = CheckedMaple::<u64, _>::new(Words(words.collect()))?;
    /// assert_eq!(reader.get(7)?, Some((5..=9, 1)));
    /// assert_eq!(reader.find_gap(10, 0..=99)?, Some(10..=19));
    /// assert_eq!(reader.verify()?, 1);
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`OpenCause::Image`] when there is no header page of a range map, [`OpenCause::Values`] when
    /// the map has values of another size or alignment, [`OpenCause::Corrupt`] when the page's
    /// numbers contradict each other.
    pub fn new(memory: W) -> Result<Self, OpenCause> {
        const { assert!(align_of::<V>() <= 8, "{}", ALIGNED) };
        let facts = facts_of::<V, W>(&memory)?;
        Ok(CheckedMaple {
            memory,
            facts,
            values: PhantomData,
        })
    }

    fn nodes(&self) -> Nodes<'_, V, W> {
        Nodes {
            memory: &self.memory,
            facts: self.facts,
            values: PhantomData,
        }
    }

    /// The entry that holds an index.
    ///
    /// O(log entries): each node on the path is copied and checked.
    ///
    /// # Errors
    /// [`Trouble`].
    pub fn get(&self, index: u64) -> Result<Option<(Range, V)>, Trouble> {
        let nodes = self.nodes();
        let Some(seen) = nodes.leaf(index)? else {
            return Ok(None);
        };
        let k = seen.leaf.rank(index);
        if k == seen.leaf.len() {
            return Ok(None);
        }
        let (start, end, slot) = seen.leaf.entry(k);
        if start > index {
            return Ok(None);
        }
        let value = nodes.value(seen.at, slot);
        let value = seen.path.verdict(&self.memory, value)?;
        Ok(Some((start..=end, value)))
    }

    /// The lowest `size` indices within a window that no entry has, or the place that the
    /// [`Window`] chooses: as [`MapleView::find_gap`](super::MapleView::find_gap).
    ///
    /// # Errors
    /// [`Trouble`].
    pub fn find_gap(&self, size: u64, within: impl Into<Window>) -> Result<Option<Range>, Trouble> {
        let Ok(fit) = within.into().fit(size) else {
            return Ok(None);
        };
        let nodes = self.nodes();
        let mut found = None;
        if let Some(nearest) = fit.nearest() {
            found = nodes.place(&nearest)?;
        }
        if found.is_none() {
            found = nodes.place(&fit)?;
        }
        Ok(found.map(|start| start..=start + (fit.size - 1)))
    }

    /// The first entry that ends at or after an index.
    ///
    /// O(log entries), as [`get`](Self::get).
    ///
    /// # Errors
    /// [`Trouble`].
    pub fn at_or_after(&self, index: u64) -> Result<Option<(Range, V)>, Trouble> {
        let (mut entries, _) = self.nodes().entries(index, 1)?;
        Ok(entries
            .pop()
            .map(|(start, end, value)| (start..=end, value)))
    }

    /// Some entries in order, from the first one that ends at or after an index on: all that one
    /// leaf has, as they were at one moment. There are none if there is no such entry. For walks
    /// that begin anew after a [`Trouble`].
    ///
    /// O(log entries), and a copy of the entries of one leaf.
    ///
    /// # Errors
    /// [`Trouble`].
    pub fn some_from(&self, index: u64) -> Result<Vec<(Range, V)>, Trouble> {
        let (entries, _) = self.nodes().entries(index, usize::MAX)?;
        let entries = entries.into_iter();
        Ok(entries.map(|(start, end, v)| (start..=end, v)).collect())
    }

    /// All entries in order.
    ///
    /// O(1); each step is O(1) on average, and each leaf takes O(log entries).
    pub fn iter(&self) -> CheckedIter<'_, V, W> {
        self.range(0..=u64::MAX)
    }

    /// The entries that have an index in a range, in order, each whole.
    ///
    /// Entries of one leaf are of one moment. The walk ends after the first [`Trouble`]; to go on,
    /// begin another one behind the last entry.
    ///
    /// O(1); each step costs as that of [`iter`](Self::iter).
    pub fn range(&self, range: Range) -> CheckedIter<'_, V, W> {
        CheckedIter::new(self.nodes(), &range)
    }

    /// Checks the whole map; returns the number of entries. Beside what every read checks, no gap
    /// word may understate a gap: a gap word may say too much, also for long after a writer was
    /// killed in the middle of a change.
    ///
    /// O(entries).
    ///
    /// # Errors
    /// [`Trouble`]: what is wrong and where.
    pub fn verify(&self) -> Result<usize, Trouble> {
        let nodes = self.nodes();
        let Some((path, root)) = nodes.root()? else {
            return Ok(0);
        };
        let mut count = 0;
        nodes.walk(&path, root, (0, u64::MAX), &mut count)?;
        Ok(count)
    }
}

/// Checks the header page of a map.
fn facts_of<V: Send + Sync + 'static, W: Memory>(memory: &W) -> Result<Facts, OpenCause> {
    let len = memory.len();
    if len < HEADER_LEN {
        let error = OpenError::Header(HeaderError::TooShort { len });
        return Err(OpenCause::Image(error));
    }
    let mut page = [0; HEADER_LEN];
    for (i, bytes) in page.chunks_exact_mut(8).enumerate() {
        bytes.copy_from_slice(&memory.u64(8 * i).to_ne_bytes());
    }
    read_header::<V>(&page, len as u64)
}

/// The nodes of a map in a memory.
struct Nodes<'w, V, W> {
    memory: &'w W,
    facts: Facts,
    values: PhantomData<fn() -> V>,
}

impl<V, W> Clone for Nodes<'_, V, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V, W> Copy for Nodes<'_, V, W> {}

impl<V: FromBytes, W: Memory> Nodes<'_, V, W> {
    /// The root of the tree, if the map is not empty.
    fn root(&self) -> Result<Option<(Path, Node)>, Trouble> {
        let root = self.memory.u64(ROOT_AT);
        let (node, height) = root_of(root);
        if root == 0 {
            return Ok(None);
        }
        if height > LEVELS {
            return Err(Trouble::Damaged(
                "a tree has more levels than there can be",
                ROOT_AT,
            ));
        }
        let path = Path {
            root,
            cells: [(0, 0); LEVELS],
            depth: 0,
        };
        let at = place_of(self.memory, ROOT_AT, node)?;
        Ok(Some((path, (at, height))))
    }

    fn read_leaf(
        &self,
        path: &Path,
        at: usize,
        bounds: (u64, u64),
        spare: Vec<u64>,
    ) -> Result<LeafCopy, Trouble> {
        let leaf = LeafCopy::read(self.memory, at, self.facts.slot, bounds, spare);
        path.verdict(self.memory, leaf)
    }

    fn read_inner(
        &self,
        path: &Path,
        at: usize,
        bounds: (u64, u64),
        spare: Vec<u64>,
    ) -> Result<InnerCopy, Trouble> {
        let inner = InnerCopy::read(self.memory, at, bounds, spare);
        path.verdict(self.memory, inner)
    }

    /// Goes on to a child; returns its place.
    fn down(&self, path: &mut Path, inner: &InnerCopy, i: usize) -> Result<usize, Trouble> {
        let (cell, child) = inner.child(i);
        path.push((cell, child));
        path.verdict(self.memory, place_of(self.memory, cell, child))
    }

    /// The leaf whose bounds hold `x`.
    fn leaf(&self, x: u64) -> Result<Option<Seen>, Trouble> {
        let Some((mut path, (mut at, height))) = self.root()? else {
            return Ok(None);
        };
        let mut bounds = (0, u64::MAX);
        let mut spare = Vec::new();
        for _ in 0..height {
            let inner = self.read_inner(&path, at, bounds, spare)?;
            let i = inner.find(x);
            at = self.down(&mut path, &inner, i)?;
            bounds = inner.bounds(i, bounds);
            spare = inner.into_spare();
        }
        Ok(Some(Seen {
            leaf: self.read_leaf(&path, at, bounds, spare)?,
            at,
            upper: bounds.1,
            path,
        }))
    }

    /// The first entries that end at or after `x`, up to `most` of them: those of one leaf, which
    /// are of one moment. And the first index behind that leaf.
    fn entries(&self, mut x: u64, most: usize) -> Result<Found<V>, Trouble> {
        loop {
            let Some(seen) = self.leaf(x)? else {
                return Ok((Vec::new(), None));
            };
            let next = seen.upper.checked_add(1);
            let first = seen.leaf.rank(x);
            let last = seen.leaf.len().min(first.saturating_add(most));
            let mut entries = Vec::with_capacity(last - first);
            for k in first..last {
                let (start, end, slot) = seen.leaf.entry(k);
                let value = seen.path.verdict(self.memory, self.value(seen.at, slot))?;
                entries.push((start, end, value));
            }
            match next {
                // Only beside a writer is there a leaf behind one that ends before `x`.
                Some(next) if entries.is_empty() => x = next,
                next => return Ok((entries, next)),
            }
        }
    }

    /// The value of an entry of the leaf at `leaf`, by its slot.
    fn value(&self, leaf: usize, slot: &[u8]) -> Result<V, Trouble> {
        let size = size_of::<V>();
        let wrong = |what| Trouble::Damaged(what, leaf);
        if self.facts.values == Values::InSlots {
            return V::read_from_bytes(slot).map_err(|_| wrong("a slot is not a value's"));
        }
        let mut reference = [0; 4];
        reference.copy_from_slice(slot);
        let at = u32::from_ne_bytes(reference) as usize * 8;
        let whole = size.next_multiple_of(8).max(8);
        if at < HEADER_LEN || at + whole > self.memory.len() {
            return Err(wrong("a value lies out of the memory"));
        }
        let mut bytes = Vec::with_capacity(whole);
        for word in (at..at + whole).step_by(8) {
            bytes.extend_from_slice(&self.memory.u64(word).to_ne_bytes());
        }
        V::read_from_bytes(&bytes[..size]).map_err(|_| wrong("a block is not a value's"))
    }

    /// The first index of the place that a search finds.
    fn place(&self, fit: &Fit) -> Result<Option<u64>, Trouble> {
        let Some((path, root)) = self.root()? else {
            return Ok(match fit.highest {
                false => fit.lowest(0, u64::MAX),
                true => fit.highest(0, u64::MAX),
            });
        };
        self.place_below(&path, root, (0, u64::MAX), fit)
    }

    /// The place that a search finds below a node with these bounds.
    fn place_below(
        &self,
        path: &Path,
        (at, level): Node,
        bounds: (u64, u64),
        fit: &Fit,
    ) -> Result<Option<u64>, Trouble> {
        if level == 0 {
            return Ok(self
                .read_leaf(path, at, bounds, Vec::new())?
                .place(bounds, fit));
        }
        let inner = self.read_inner(path, at, bounds, Vec::new())?;
        let mut i = inner.find(if fit.highest { fit.to } else { fit.from });
        loop {
            let (from, to) = inner.bounds(i, bounds);
            if inner.gap(i) >= code(fit.size) {
                let mut path = path.clone();
                let at = self.down(&mut path, &inner, i)?;
                let found = self.place_below(&path, (at, level - 1), (from, to), fit)?;
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

    /// Checks a node with these bounds and all below it, and counts the entries. Returns the code
    /// of its largest gap.
    fn walk(
        &self,
        path: &Path,
        (at, level): Node,
        bounds: (u64, u64),
        count: &mut usize,
    ) -> Result<u16, Trouble> {
        if level == 0 {
            let leaf = self.read_leaf(path, at, bounds, Vec::new())?;
            for k in 0..leaf.len() {
                let value = self.value(at, leaf.entry(k).2);
                path.verdict(self.memory, value)?;
            }
            *count += leaf.len();
            return Ok(leaf.largest_gap(bounds));
        }
        let inner = self.read_inner(path, at, bounds, Vec::new())?;
        let mut largest = 0;
        for i in 0..inner.len() {
            let mut path = path.clone();
            let child = self.down(&mut path, &inner, i)?;
            let gap = self.walk(&path, (child, level - 1), inner.bounds(i, bounds), count)?;
            if gap > inner.gap(i) {
                let what = "a gap word says less than there is";
                return path.verdict(self.memory, Err(Trouble::Damaged(what, at)));
            }
            largest = largest.max(gap);
        }
        Ok(largest)
    }
}

/// The entries of a map in order, each checked.
pub struct CheckedIter<'w, V, W> {
    nodes: Nodes<'w, V, W>,
    /// Entries of the leaf under way.
    entries: vec::IntoIter<(u64, u64, V)>,
    /// The next index to look for, when these are used up.
    next: Option<u64>,
    /// The indices that have not been passed.
    left: Option<(u64, u64)>,
    /// Whether it has returned an entry.
    passed: bool,
}

impl<'w, V, W> CheckedIter<'w, V, W> {
    fn new(nodes: Nodes<'w, V, W>, range: &Range) -> Self {
        let left = (!range.is_empty()).then_some((*range.start(), *range.end()));
        CheckedIter {
            nodes,
            entries: Vec::new().into_iter(),
            next: left.map(|(from, _)| from),
            left,
            passed: false,
        }
    }
}

impl<V: FromBytes, W: Memory> CheckedIter<'_, V, W> {
    /// Copies the entries of the next leaf that has some.
    fn next_leaf(&mut self, from: u64, to: u64) -> Result<(), Trouble> {
        let Some(x) = self.next.filter(|&x| x <= to) else {
            return Ok(());
        };
        let (entries, next) = self.nodes.entries(x, usize::MAX)?;
        // An entry was stored across the place of the walk, which has passed others.
        if self.passed && entries.first().is_some_and(|&(start, ..)| start < from) {
            return Err(Trouble::Changed);
        }
        self.entries = entries.into_iter();
        self.next = next;
        Ok(())
    }
}

impl<V: FromBytes, W: Memory> Iterator for CheckedIter<'_, V, W> {
    type Item = Result<(Range, V), Trouble>;

    fn next(&mut self) -> Option<Self::Item> {
        let (from, to) = self.left.take()?;
        if self.entries.len() == 0 {
            if let Err(trouble) = self.next_leaf(from, to) {
                return Some(Err(trouble));
            }
        }
        let (start, end, value) = self.entries.next()?;
        if start > to {
            return None;
        }
        let next = end.checked_add(1).filter(|&next| next <= to);
        self.left = next.map(|next| (next, to));
        self.passed = true;
        Some(Ok((start..=end, value)))
    }
}

impl<V: FromBytes, W: Memory> FusedIterator for CheckedIter<'_, V, W> {}

impl<V, W> fmt::Debug for CheckedIter<'_, V, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedIter")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

impl<V, W> fmt::Debug for CheckedMaple<V, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedMaple")
            .field("slot", &self.facts.slot)
            .field("values", &self.facts.values)
            .finish_non_exhaustive()
    }
}
