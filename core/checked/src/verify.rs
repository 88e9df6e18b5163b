//! The check of every invariant of a map that another process or programs wrote.

use sapwood_format::bucket::{Home, STICKY, WINDOW, Words, tag_of};
use sapwood_format::{Window, header};
use std::collections::{HashMap, HashSet};

use crate::Trouble;
use crate::bytes::Met;
use crate::index::{Bucket, Index, Slot, Table};
use crate::nodes::{Entry, Nodes};
use crate::path::Path;

/// The maximum number of entries that may differ between trie and index. Each is from a writer that
/// was interrupted when its process died.
const UNDER_WAY: u32 = 128;

/// The kind of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Node {
    /// A branch.
    Branch,
    /// A cluster.
    Cluster,
    /// A leaf.
    Leaf,
    /// A table of the index, or a chunk of its buckets.
    Table,
}

/// The counts of a walk over a map.
#[derive(Default)]
pub struct Census {
    /// The number of entries.
    pub entries: usize,
    /// The number of branches.
    pub branches: usize,
    /// The number of clusters.
    pub clusters: usize,
    /// The maximum number of branches above a leaf.
    pub depth: usize,
    /// Entries that do not lie in their home bucket.
    pub displaced: usize,
    /// Entries for which the index has no slot.
    pub spilled: usize,
}

/// The number of entries, if all invariants hold and no two nodes share a byte. Changes that a
/// process's death interrupted are allowed.
pub(crate) fn verify_alone(nodes: &Nodes<impl Window>) -> Result<usize, Trouble> {
    let has_index = nodes.has_index();
    let trie = has_index != header::ONLY_INDEX;
    // An index has leaves.
    let index_only = !trie && nodes.root() != 0;
    if has_index > 2 || index_only || (has_index != 0 && nodes.has_inline()) {
        return Err(Trouble::Damaged("no map has such a header", 0));
    }
    let mut met = Met::default();
    let index = (has_index != 0).then(|| Index::new(nodes));
    let note = |_, block| match met.mark(block) {
        true => Ok(()),
        false => Err("a node over another node"),
    };
    verify(nodes, trie, index, false, note).map(|census| census.entries)
}

/// Walks over the whole map. `note` records each node with the bounds of its block, and returns an
/// error if the node cannot lie there. It must refuse the second of two nodes in one place. With
/// `exact`, no writer has died: nothing is locked, and the trie and the index have the same
/// entries.
///
/// # Errors
/// [`Trouble::Damaged`], with the first invariant that does not hold, and its place.
pub fn verify<W: Window>(
    nodes: &Nodes<W>,
    trie: bool,
    index: Option<Index<'_, W>>,
    exact: bool,
    note: impl FnMut(Node, (usize, usize)) -> Result<(), &'static str>,
) -> Result<Census, Trouble> {
    let mut check = Check {
        nodes,
        trie,
        exact,
        note,
        census: Census::default(),
    };
    let leaves = trie.then(|| check.trie()).transpose()?;
    if let Some(index) = index {
        check.index(&index, leaves.as_deref())?;
    }
    Ok(check.census)
}

struct Check<'a, W, F> {
    nodes: &'a Nodes<W>,
    trie: bool,
    exact: bool,
    note: F,
    census: Census,
}

impl<W: Window, F: FnMut(Node, (usize, usize)) -> Result<(), &'static str>> Check<'_, W, F> {
    fn note(&mut self, node: Node, block: (usize, usize)) -> Result<(), Trouble> {
        (self.note)(node, block).map_err(|why| Trouble::Damaged(why, block.0))
    }

    /// Checks the trie, and returns the cells of its leaves. Entries of inline clusters have none.
    fn trie(&mut self) -> Result<Vec<u32>, Trouble> {
        let nodes = self.nodes;
        let mut path = Path::default();
        let mut before: Option<Vec<u8>> = None;
        let mut leaves = Vec::new();
        path.first(nodes)?;
        while let Some(entry) = path.entry {
            // Each branch and each cluster enters the path once, because `note` refuses it the
            // second time. So the walk ends.
            for branch in path.new_branches() {
                nodes.check_branch(branch, self.exact)?;
                self.note(Node::Branch, branch.block())?;
                self.census.branches += 1;
            }
            if let Some(cluster) = path.new_cluster() {
                nodes.check_cluster(cluster, self.exact)?;
                self.note(Node::Cluster, cluster.block())?;
                self.census.clusters += 1;
            }
            self.census.depth = self.census.depth.max(path.depth());
            let key = nodes.key(&entry);
            if let Some(leaf) = entry.leaf() {
                self.leaf(&entry)?;
                leaves.push(leaf);
            }
            let damaged = |why| Err(Trouble::Damaged(why, entry.block().0));
            let ascends = before.as_ref().is_none_or(|before| *before < key);
            if !ascends || !path.leads_to(&key, before.as_deref()) {
                return damaged("a key that does not fit its place");
            }
            if !path.fits_cluster(nodes, &key) {
                return damaged("a key that its cluster has another tag or prefix for");
            }
            self.census.entries += 1;
            before = Some(key);
            path.step(nodes)?;
        }
        Ok(leaves)
    }

    /// Records a leaf.
    fn leaf(&mut self, leaf: &Entry) -> Result<(), Trouble> {
        self.note(Node::Leaf, leaf.block())?;
        match self.nodes.is_padded(leaf) {
            true => Ok(()),
            false => Err(Trouble::Damaged(
                "a leaf that does not end in zeros",
                leaf.block().0,
            )),
        }
    }

    /// Checks the index. With a trie, `trie` has the cells of its leaves. Without one, the leaves
    /// are the index's.
    fn index(&mut self, index: &Index<'_, W>, trie: Option<&[u32]>) -> Result<(), Trouble> {
        let tables = index.tables()?;
        for table in &tables {
            self.table(index, *table)?;
        }
        let homes = |table: &Table| vec![Home::default(); table.homes as usize];
        let mut homes: Vec<_> = tables.iter().map(homes).collect();
        let mut keys = HashMap::new();
        for i in 0..tables.len() {
            for number in 0..tables[i].total {
                let Some(bucket) = index.first(tables[i], number)? else {
                    // The contents of a bucket that was moved are no longer used.
                    self.must_not_be("a bucket that is not there", tables[i].at)?;
                    continue;
                };
                for slot in index.slots(bucket) {
                    let place = (i, number);
                    if let Some(key) = self.slot(index, &tables, &mut homes[i], place, slot)? {
                        if keys.insert(key, slot.cell).is_some() {
                            return Err(Trouble::Damaged("a key twice", bucket.at));
                        }
                    }
                }
            }
        }
        let mut differ = 0;
        match trie {
            None => self.census.entries = keys.len(),
            Some(_) if tables.is_empty() => {}
            Some(trie) => {
                let leaves: HashSet<u32> = trie.iter().copied().collect();
                differ = keys.values().filter(|cell| !leaves.contains(cell)).count() as u32;
                for cell in trie {
                    let key = self.nodes.key(&self.nodes.leaf(*cell)?);
                    let hash = index.hash(&key);
                    if keys.contains_key(&key) {
                        continue;
                    }
                    self.census.spilled += 1;
                    if let Some((i, _)) = at_home(index, &tables, hash)? {
                        homes[i][tables[i].home(hash) as usize].spilled += 1;
                    }
                }
            }
        }
        for (table, homes) in tables.iter().zip(&homes) {
            differ += self.counts(index, *table, homes)?;
        }
        match differ > if self.exact { 0 } else { UNDER_WAY } {
            true => Err(Trouble::Damaged(
                "an index that does not have what the trie has",
                tables[0].at,
            )),
            false => Ok(()),
        }
    }

    /// Reports a state that only a dead process can leave.
    fn must_not_be(&self, why: &'static str, at: usize) -> Result<(), Trouble> {
        match self.exact {
            true => Err(Trouble::Damaged(why, at)),
            false => Ok(()),
        }
    }

    /// Records a table and its chunks.
    fn table(&mut self, index: &Index<'_, W>, table: Table) -> Result<(), Trouble> {
        self.note(Node::Table, table.block())?;
        for chunk in 0..table.chunks() {
            if let Some(at) = index.chunk(table, chunk)? {
                self.note(Node::Table, (at, at + table.bytes_of(chunk)))?;
            }
        }
        Ok(())
    }

    /// Checks a slot of bucket `number` of the `i`th table. Returns its key, unless an interrupted
    /// move left it in another table, too. Without a trie, this records the leaf.
    fn slot(
        &mut self,
        index: &Index<'_, W>,
        tables: &[Table],
        homes: &mut [Home],
        (i, number): (usize, u32),
        slot: Slot,
    ) -> Result<Option<Vec<u8>>, Trouble> {
        let leaf = self.nodes.leaf(slot.cell)?;
        let key = self.nodes.key(&leaf);
        let hash = index.hash(&key);
        let home = tables[i].home(hash);
        let damaged = |why| Err(Trouble::Damaged(why, slot.bucket));
        if slot.tag != tag_of(hash) || number < home || number - home >= WINDOW {
            return damaged("a key in a bucket that is not its own");
        }
        if number != home {
            homes[home as usize].add(number - home, slot.tag);
            self.census.displaced += 1;
        }
        // If the key has its home in a table before this one, it was being moved.
        match at_home(index, tables, hash)? {
            Some((before, first)) if before < i => match first.words.is_locked() {
                true => Ok(None),
                false => damaged("a key in a table that is not its own"),
            },
            // The writer died before the home counted the key, so no lookup finds it.
            Some((right, first)) if right == i && !may_be_at(first.words, number - home, slot) => {
                match first.words.is_locked() {
                    true => Ok(None),
                    false => damaged("a key that its home does not count"),
                }
            }
            Some((right, _)) if right == i => {
                if !self.trie {
                    self.leaf(&leaf)?;
                }
                Ok(Some(key))
            }
            // The key was moved, and its removal here was interrupted.
            _ => Ok(None),
        }
    }

    /// Compares a table's counts with the true ones. Returns by how many spilled keys they differ.
    fn counts(&self, index: &Index<'_, W>, table: Table, homes: &[Home]) -> Result<u32, Trouble> {
        let mut differ = 0;
        for (number, home) in homes.iter().enumerate() {
            let Some(Bucket { at, words }) = index.first(table, number as u32)? else {
                continue;
            };
            if words.is_locked() {
                self.must_not_be("a bucket that is locked", at)?;
                continue;
            }
            if !home.fits(words) || (!self.trie && words.spilled() != 0) {
                return Err(Trouble::Damaged("counts that are wrong", at));
            }
            if words.spilled() != STICKY {
                differ += words.spilled().abs_diff(home.spilled);
            }
        }
        Ok(differ)
    }
}

/// Whether a home with these words may have a key in this slot of a bucket `far` behind it.
fn may_be_at(words: Words, far: u32, slot: Slot) -> bool {
    far == 0 || (words.out() > 0 && far <= words.reach() && words.may_be_behind(slot.tag))
}

/// The first table in which a hash has its home and from which it was not moved, and that home.
fn at_home<W: Window>(
    index: &Index<'_, W>,
    tables: &[Table],
    hash: u64,
) -> Result<Option<(usize, Bucket)>, Trouble> {
    for (i, table) in tables.iter().enumerate() {
        if let Some(first) = index.first(*table, table.home(hash))? {
            return Ok(Some((i, first)));
        }
    }
    Ok(None)
}
