//! The check of every invariant of a trie, by a walk over it.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use smallvec::SmallVec;

use super::inline::{EntryRef, Held, Inline};
use super::leaf::{LeafOf, Value};
use super::mem::Mem;
use super::node::{Branch, CLUSTER, Cluster, KIND, LEAF};
use super::order::Along;
use super::tree::Tree;
use super::view::View;
use crate::Pieces;
use sapwood_format::inline::{self, Extent, KEY_MAX, PREFIX_MAX, TAIL_MAX};
use sapwood_format::{branch, cluster};

/// The counts of a walk, for a comparison with the arena's accounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Walked {
    /// Number of entries.
    pub(crate) leaves: usize,
    /// Number of leaves: entries that lie in no inline cluster.
    pub(crate) own_leaves: usize,
    pub(crate) leaf_bytes: usize,
    pub(crate) key_bytes: usize,
    pub(crate) branches: usize,
    pub(crate) branch_bytes: usize,
    pub(crate) clusters: usize,
    pub(crate) cluster_bytes: usize,
    /// Number of leaves in clusters.
    pub(crate) clustered: usize,
    /// The longest prefix of an inline cluster.
    pub(crate) prefix_max: usize,
    /// Sum of the numbers of branches above each leaf.
    pub(crate) depth_sum: usize,
    pub(crate) depth_max: usize,
    /// Number of leaves at each depth, from no branch above on.
    pub(crate) depths: Vec<usize>,
    /// Number of clusters with each number of leaves, from none on.
    pub(crate) fills: Vec<usize>,
}

/// Counts one more of those with a number.
fn count(counts: &mut Vec<usize>, number: usize) {
    if counts.len() <= number {
        counts.resize(number + 1, 0);
    }
    counts[number] += 1;
}

/// What a branch says of the keys below one of its children.
#[derive(Clone, Copy)]
struct Run {
    /// The offset of the branch; all keys agree before it.
    offset: usize,
    /// Bytes at the offset are at least `low` and less than `high`.
    low: u16,
    high: u16,
    /// Whether a key may end at the offset.
    may_end: bool,
    /// Number of leaves that the walk met before the branch.
    before: usize,
}

/// A cell that is to be walked, below the first `depth` runs.
struct Todo {
    cell: u32,
    depth: usize,
    run: Option<Run>,
}

struct Walk<'w, 'v, V: ?Sized + Value, M> {
    view: &'w View<'v, V, M>,
    seen: Walked,
    limit: usize,
    last: Option<Pieces<'v>>,
    along: Along<'v>,
    /// The runs of the branches above the place of the walk.
    runs: SmallVec<[Run; 16]>,
    todo: SmallVec<[Todo; 64]>,
}

/// Walks a trie in order and checks every branch, cluster and leaf. It visits at most `limit`
/// leaves, so that it ends even in a hostile file that shares subtrees.
pub(crate) fn walk<V: ?Sized + Value, M: Mem>(
    view: &View<'_, V, M>,
    limit: usize,
) -> Result<Walked, String> {
    let mut walk = Walk {
        view,
        seen: Walked::default(),
        limit,
        last: None,
        along: Along::new(view.order),
        runs: SmallVec::new(),
        todo: SmallVec::new(),
    };
    if view.root != 0 {
        walk.todo.push(Todo {
            cell: view.root,
            depth: 0,
            run: None,
        });
    }
    while let Some(Todo { cell, depth, run }) = walk.todo.pop() {
        walk.runs.truncate(depth);
        walk.runs.extend(run);
        match cell & KIND {
            0 => walk.branch(cell)?,
            LEAF => walk.leaf(cell, None)?,
            CLUSTER => walk.cluster(cell)?,
            _ => walk.block(cell)?,
        }
    }
    if !view.order.is_empty() && walk.along.next(view).is_some() {
        return Err("more leaves in order than in the trie".into());
    }
    Ok(walk.seen)
}

impl<'v, V: ?Sized + Value, M: Mem> Walk<'_, 'v, V, M> {
    fn branch(&mut self, cell: u32) -> Result<(), String> {
        let min = self.runs.last().map_or(0, |run| run.offset + 1);
        let b = self
            .view
            .branch(cell, min)
            .ok_or_else(|| format!("branch cell {cell:#x} is not well formed"))?;
        if b.offset() < min {
            return Err(format!("offset {} under offset {min}", b.offset()));
        }
        check_branch(b, cell)?;
        self.seen.branches += 1;
        self.seen.branch_bytes += branch::block_of(b.h);
        let depth = self.runs.len();
        for i in (0..b.children()).rev() {
            // SAFETY: these are labels and children of a whole branch.
            let (low, high, child) = unsafe {
                let low = i.checked_sub(1).map_or(0, |i| u16::from(b.label(i)));
                let last = i + 1 == b.children();
                let high = if last { 256 } else { u16::from(b.label(i)) };
                (low, high, b.cell(i))
            };
            self.todo.push(Todo {
                cell: child,
                depth,
                run: Some(Run {
                    offset: b.offset(),
                    low,
                    high,
                    may_end: i == 0,
                    before: self.seen.leaves,
                }),
            });
        }
        Ok(())
    }

    fn cluster(&mut self, cell: u32) -> Result<(), String> {
        let c = self
            .view
            .cluster(cell)
            .ok_or_else(|| format!("cluster cell {cell:#x} is not well formed"))?;
        check_slots(c, cell)?;
        self.seen.clusters += 1;
        self.seen.cluster_bytes += cluster::block_of(c.h);
        let before = self.seen.leaves;
        // The border between leaves with dead slots between them: the first of the least.
        let mut border: Option<(usize, u8)> = None;
        for i in 0..c.leaves() {
            // SAFETY: these are leaves of a whole cluster, and borders between them.
            unsafe {
                let (at, byte) = (c.border(i), c.byte(i));
                if i > 0 && border.is_none_or(|(least, _)| at < least) {
                    border = Some((at, byte));
                }
                let leaf = c.cell(i);
                let may_be_dead = M::DEAD && i + 1 < c.leaves();
                if leaf == 0 && may_be_dead {
                    continue;
                }
                let first = self.seen.leaves == before;
                self.leaf(leaf, border.take().filter(|_| !first))?;
                self.tag(c, i, cell)?;
            }
        }
        let alive = self.seen.leaves - before;
        self.seen.clustered += alive;
        count(&mut self.seen.fills, alive);
        Ok(())
    }

    /// Checks that tag `i` of a cluster is that of the entry that the walk met last.
    ///
    /// # Safety
    /// The cluster is whole, and has the entry.
    unsafe fn tag(&self, c: Cluster, i: usize, cell: u32) -> Result<(), String> {
        let key = self.last.map(|key| key.to_box());
        // SAFETY: the caller's promise.
        match key.as_deref().map(cluster::tag) == Some(unsafe { c.tag(i) }) {
            true => Ok(()),
            false => Err(format!("cluster {cell:#x}: tag {i} is not the key's")),
        }
    }

    /// An inline cluster.
    fn block(&mut self, cell: u32) -> Result<(), String> {
        let c = self
            .view
            .cluster(cell)
            .ok_or_else(|| format!("inline cluster {cell:#x} is not well formed"))?;
        // SAFETY: the cluster is whole.
        let block = unsafe { Inline::of(c) };
        // SAFETY: as above, and these values are in it.
        let places = unsafe { check_block::<V>(c, block, cell)? };
        self.seen.clusters += 1;
        self.seen.cluster_bytes += block.extent.block;
        self.seen.clustered += c.leaves();
        count(&mut self.seen.fills, c.leaves());
        let (mut live, prefix) = (0, block.extent.prefix);
        self.seen.prefix_max = self.seen.prefix_max.max(prefix);
        for (i, place) in places.iter().enumerate() {
            // SAFETY: these are entries of a whole cluster, and borders between them.
            unsafe {
                let border = (i > 0).then(|| (c.border(i), c.byte(i)));
                let key = self.view.key(EntryRef::held(cell, i));
                let key = key.ok_or_else(|| format!("entry {i} of {cell:#x} is not whole"))?;
                let bytes = match block.held::<V>(i) {
                    Held::Leaf(leaf) => {
                        self.leaf(leaf, border)?;
                        V::ENTRIES.outside()
                    }
                    Held::Here { tail, len } => {
                        if len > TAIL_MAX {
                            return Err(format!(
                                "entry {i} of {cell:#x} has a tail of {len} bytes"
                            ));
                        }
                        if key.len() > KEY_MAX {
                            return Err(format!(
                                "entry {i} of {cell:#x} holds a key of {} bytes",
                                key.len()
                            ));
                        }
                        self.entry(key, border)?;
                        V::ENTRIES.entry(len, V::slot_len(tail.add(len)))
                    }
                };
                let shares = |key: Pieces<'_>| key.starts_with(block.prefix());
                if !self.last.is_some_and(shares) || prefix > PREFIX_MAX {
                    return Err(format!("entry {i} of {cell:#x} has another prefix"));
                }
                self.tag(c, i, cell)?;
                if place + bytes > block.extent.end {
                    return Err(format!("entry {i} of {cell:#x} ends behind the heap"));
                }
                live += bytes;
            }
        }
        let heap = V::ENTRIES.heap_at(block.capacity, prefix);
        if heap + live + block.extent.dead != block.extent.end {
            return Err(format!(
                "inline cluster {cell:#x}: {live} live bytes of {:?}",
                block.extent
            ));
        }
        Ok(())
    }

    fn leaf(&mut self, cell: u32, border: Option<(usize, u8)>) -> Result<(), String> {
        if cell & KIND != LEAF {
            return Err(format!("cell {cell:#x} is not a leaf"));
        }
        let key = self
            .view
            .key(EntryRef::leaf(cell))
            .ok_or_else(|| format!("leaf cell {cell:#x} is outside the memory"))?;
        if !self.view.order.is_empty() && self.along.next(self.view) != Some(cell) {
            return Err(format!(
                "leaf {key:?} is not at its place in the order of leaves"
            ));
        }
        let p = self.view.leaf(cell);
        // SAFETY: the leaf is whole, as its key was read.
        self.seen.leaf_bytes += p.map_or(0, |p| unsafe { LeafOf::<V>::block(p) });
        self.seen.own_leaves += 1;
        self.entry(key, border)
    }

    /// An entry, which is the next one of the walk.
    fn entry(&mut self, key: Pieces<'v>, border: Option<(usize, u8)>) -> Result<(), String> {
        self.seen.leaves += 1;
        let limit = self.limit;
        if self.seen.leaves > limit {
            return Err(format!("there are more entries than {limit}"));
        }
        self.seen.key_bytes += key.len();
        self.seen.depth_sum += self.runs.len();
        self.seen.depth_max = self.seen.depth_max.max(self.runs.len());
        count(&mut self.seen.depths, self.runs.len());
        for run in &self.runs {
            let inside = match key.at(run.offset) {
                None => run.may_end && key.len() == run.offset,
                Some(byte) => (run.low..run.high).contains(&u16::from(byte)),
            };
            if !inside {
                return Err(format!(
                    "a key of {} bytes under bytes {} to {} at offset {}",
                    key.len(),
                    run.low,
                    run.high,
                    run.offset
                ));
            }
        }
        if let Some(last) = self.last {
            if last.cmp(key).is_ge() {
                return Err(format!("keys out of order: {last:?} then {key:?}"));
            }
            let part = last.unlike(key).unwrap_or(0);
            if let Some((at, byte)) = border {
                let (left, right) = (last.at(at), key.at(at));
                let fits = at == part && right >= Some(byte);
                if !fits || (byte == 0) != left.is_none() || left >= Some(byte) {
                    return Err(format!(
                        "{last:?} and {key:?} do not first differ at {at}, by byte {byte}"
                    ));
                }
            }
            // Keys below the same branch agree before its offset.
            let before = self.seen.leaves - 1;
            let both = self.runs.iter().rev().find(|run| run.before < before);
            if let Some(Run { offset, .. }) = both.filter(|run| part < run.offset) {
                return Err(format!(
                    "{last:?} and {key:?} differ at {part}, before offset {offset}"
                ));
            }
        }
        self.last = Some(key);
        Ok(())
    }
}

fn check_branch(b: Branch, cell: u32) -> Result<(), String> {
    let n = branch::labels_of(b.h);
    if b.h != branch::header(b.offset(), n) {
        return Err(format!("branch {cell:#x}: header {:#x}", b.h));
    }
    let mut last = None;
    for i in 0..n {
        // SAFETY: a whole branch has this label.
        let label = unsafe { b.label(i) };
        if last.is_some_and(|last| last >= label) {
            return Err(format!("branch {cell:#x}: label {label} after {last:?}"));
        }
        last = Some(label);
        for (byte, child) in [(Some(label), i + 1), (label.checked_sub(1), i)] {
            // SAFETY: as above.
            let found = byte.map_or(child, |byte| unsafe { b.child(byte) });
            if found != child {
                return Err(format!(
                    "branch {cell:#x}: byte {byte:?} goes to child {found}, not {child}"
                ));
            }
        }
    }
    for i in 0..b.children() {
        // SAFETY: i is below the number of children of a whole branch.
        let child = unsafe { b.cell(i) };
        if child < 4 {
            return Err(format!("branch {cell:#x}: child {i} is empty"));
        }
    }
    Ok(())
}

fn check_slots(c: Cluster, cell: u32) -> Result<(), String> {
    if !cluster::is_sound(c.h) {
        return Err(format!("cluster {cell:#x}: header {:#x}", c.h));
    }
    for i in 0..c.capacity() {
        // SAFETY: these are slots of a whole cluster.
        unsafe {
            let border = (c.border(i) - c.base(), c.byte(i));
            if i == 0 || i >= c.leaves() {
                let used = i >= c.leaves() && (c.cell(i), c.tag(i)) != (0, 0);
                if used || border != (0, 0) {
                    return Err(format!("cluster {cell:#x}: slot {i} should be zeros"));
                }
            }
        }
    }
    Ok(())
}

/// Checks the head of an inline cluster, and that its entries do not overlap; returns their places.
///
/// # Safety
/// The cluster is whole.
unsafe fn check_block<V: ?Sized + Value>(
    c: Cluster,
    block: Inline,
    cell: u32,
) -> Result<SmallVec<[usize; 24]>, String> {
    let Extent {
        end,
        block: bytes,
        prefix,
        ..
    } = block.extent;
    let heap = V::ENTRIES.heap_at(block.capacity, prefix);
    if !inline::is_sound(c.h) || end < heap || end > bytes {
        return Err(format!(
            "inline cluster {cell:#x}: {:#x} {:?}",
            c.h, block.extent
        ));
    }
    // SAFETY: the caller's promise; these are its slots.
    let place = |i| unsafe { *block.p.add(inline::places_at(block.capacity) + i) };
    for i in 0..block.capacity {
        // SAFETY: as above.
        unsafe {
            let border = (c.border(i) - c.base(), c.byte(i));
            let unused = i >= c.leaves();
            if (i == 0 || unused) && border != (0, 0) || unused && (place(i), c.tag(i)) != (0, 0) {
                return Err(format!(
                    "inline cluster {cell:#x}: slot {i} should be zeros"
                ));
            }
        }
    }
    let places = (0..c.leaves()).map(|i| usize::from(place(i)) * V::ENTRIES.step);
    let places: SmallVec<[usize; 24]> = places.collect();
    let mut sorted = places.clone();
    sorted.sort_unstable();
    for (i, at) in sorted.iter().enumerate() {
        let next = sorted.get(i + 1).copied().unwrap_or(end);
        if *at < heap || *at >= next {
            return Err(format!(
                "inline cluster {cell:#x}: an entry at {at} of {end}"
            ));
        }
    }
    Ok(places)
}

/// Checks a trie, and compares the arena's accounts with the counts of the walk. `retired` has, for
/// each kind, the number and the bytes of the blocks that are unlinked but not freed yet.
pub(crate) fn tree<V: ?Sized + Value>(
    tree: &Tree<V>,
    retired: &[(usize, usize)],
) -> Result<(), String> {
    let seen = walk(&tree.owned_view(), usize::MAX)?;
    if seen.leaves != tree.len {
        return Err(format!("{} leaves, but len is {}", seen.leaves, tree.len));
    }
    if seen.prefix_max > tree.prefix_max {
        return Err(format!(
            "a cluster cuts {} bytes of its keys, but {} are allowed",
            seen.prefix_max, tree.prefix_max
        ));
    }
    tree.arena.verify()?;
    tree.verify_points()?;
    let memory = tree.arena.memory();
    let found = [
        (seen.branches, seen.branch_bytes),
        (seen.clusters, seen.cluster_bytes),
        (seen.own_leaves, seen.leaf_bytes),
    ];
    for (kind, &(count, bytes)) in found.iter().enumerate() {
        let (more, more_bytes) = retired.get(kind).copied().unwrap_or_default();
        let account = &memory.kinds[kind];
        if (account.count, account.bytes) != (count + more, bytes + more_bytes) {
            return Err(format!(
                "kind {kind}: the walk found {count} blocks of {bytes} bytes, the accounts say {} of {}",
                account.count, account.bytes
            ));
        }
    }
    Ok(())
}
