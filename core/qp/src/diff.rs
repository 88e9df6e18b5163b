//! The differences between two versions of a store.

use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;
use core::iter::FusedIterator;

use super::raw::inline::EntryRef;
use super::raw::mem::Trusted;
use super::raw::node::{INLINE, KIND, LEAF};
use super::raw::version::Kept;
use super::raw::view::View;
use crate::{Key, ReadEntry, Value};

/// One difference between two versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<'a, V: ?Sized + Value> {
    /// The key is only in the new version.
    Added(Key<'a>, &'a V),
    /// The key is only in the old version.
    Removed(Key<'a>, &'a V),
    /// The key was written again: the key, its old value and its new value.
    Changed(Key<'a>, &'a V, &'a V),
}

impl<'a, V: ?Sized + Value> Change<'a, V> {
    /// The key.
    ///
    /// O(1).
    pub fn key(&self) -> &Key<'a> {
        match self {
            Change::Added(key, _) | Change::Removed(key, _) | Change::Changed(key, _, _) => key,
        }
    }
}

/// The differences between two versions in ascending order of keys; from
/// [`QpStore::diff`](super::QpStore::diff).
///
/// It walks both tries side by side. Equal cells at the head of both walks are the same subtree,
/// which it skips whole. [`QpStore::diff`](super::QpStore::diff) describes the cost.
pub struct Diff<'a, V: ?Sized + Value> {
    old: Side<'a, V>,
    new: Side<'a, V>,
    /// Both are versions of one store, so that equal cells mean equal subtrees.
    shared: bool,
    versions: (&'a Kept<V>, &'a Kept<V>),
}

struct Side<'a, V: ?Sized + Value> {
    view: View<'a, V, Trusted>,
    /// The subtrees and entries that are still to be walked, the next one last.
    todo: Vec<Part>,
    /// Branches and clusters that were read.
    #[cfg(test)]
    opened: usize,
}

/// A part of a version.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// A branch or a cluster.
    Node(u32),
    Entry(EntryRef),
}

impl Part {
    fn of(cell: u32) -> Self {
        match cell & KIND {
            LEAF => Part::Entry(EntryRef::leaf(cell)),
            _ => Part::Node(cell),
        }
    }
}

impl<'a, V: ?Sized + Value> Side<'a, V> {
    fn new(view: View<'a, V, Trusted>) -> Self {
        Side {
            view,
            todo: Vec::from_iter((view.root != 0).then_some(Part::of(view.root))),
            #[cfg(test)]
            opened: 0,
        }
    }

    /// The offset of a branch. Clusters count as deeper than any branch, and entries as deeper than
    /// any cluster.
    fn depth(&self, part: Part) -> usize {
        match part {
            Part::Node(cell) if cell & KIND == 0 => {
                self.view.branch(cell, 0).map_or(usize::MAX, |b| b.offset())
            }
            Part::Node(_) => usize::MAX - 1,
            Part::Entry(_) => usize::MAX,
        }
    }

    /// Replaces the next subtree by its children.
    fn open(&mut self) {
        let Some(Part::Node(cell)) = self.todo.pop() else {
            return;
        };
        #[cfg(test)]
        {
            self.opened += 1;
        }
        let from = self.todo.len();
        match cell & KIND {
            INLINE => {
                let n = self.view.cluster(cell).map_or(0, |c| c.leaves());
                let entries = (0..n).map(|i| Part::Entry(EntryRef::held(cell, i)));
                self.todo.extend(entries);
            }
            _ => self
                .view
                .each_child(cell, |child| self.todo.push(Part::of(child))),
        }
        self.todo[from..].reverse();
    }

    /// Takes the next part, which is an entry.
    fn take(&mut self, entry: EntryRef) -> Option<ReadEntry<'a, V>> {
        self.todo.pop();
        self.view.entry(entry)
    }
}

impl<'a, V: ?Sized + Value> Diff<'a, V> {
    pub(crate) fn new(old: &'a Kept<V>, new: &'a Kept<V>) -> Self {
        Diff {
            old: Side::new(old.view()),
            new: Side::new(new.view()),
            shared: old.same_store(new),
            versions: (old, new),
        }
    }
}

impl<'a, V: ?Sized + Value> Iterator for Diff<'a, V> {
    type Item = Change<'a, V>;

    fn next(&mut self) -> Option<Self::Item> {
        use Part::{Entry, Node};
        loop {
            match (self.old.todo.last(), self.new.todo.last()) {
                (None, None) => return None,
                (Some(&Entry(a)), None) => {
                    return self.old.take(a).map(|(k, v)| Change::Removed(k, v));
                }
                (None, Some(&Entry(b))) => {
                    return self.new.take(b).map(|(k, v)| Change::Added(k, v));
                }
                (Some(Node(_)), None) => self.old.open(),
                (None, Some(Node(_))) => self.new.open(),
                (Some(a), Some(b)) if a == b && self.shared => {
                    self.old.todo.pop();
                    self.new.todo.pop();
                }
                (Some(&Entry(a)), Some(&Entry(b))) => {
                    let (ka, kb) = (self.old.view.key(a)?, self.new.view.key(b)?);
                    return match ka.cmp(kb) {
                        Ordering::Less => self.old.take(a).map(|(k, v)| Change::Removed(k, v)),
                        Ordering::Greater => self.new.take(b).map(|(k, v)| Change::Added(k, v)),
                        Ordering::Equal => {
                            let (key, old) = self.old.take(a)?;
                            let (_, new) = self.new.take(b)?;
                            let (version, other) = self.versions;
                            if version.has_same(other, old, new) {
                                continue;
                            }
                            Some(Change::Changed(key, old, new))
                        }
                    };
                }
                (Some(&a), Some(&b)) => {
                    // A branch with a greater offset lies below the other one, or beside it.
                    let (oa, ob) = (self.old.depth(a), self.new.depth(b));
                    if oa <= ob {
                        self.old.open();
                    }
                    if ob <= oa {
                        self.new.open();
                    }
                }
            }
        }
    }
}

impl<V: ?Sized + Value> FusedIterator for Diff<'_, V> {}

impl<V: ?Sized + Value> fmt::Debug for Diff<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Diff").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::super::QpStore;

    /// Walks a difference; returns the number of changes, and of branches and clusters that were
    /// read.
    fn walked(
        old: &super::super::QpSnapshot<u64>,
        new: &super::super::QpSnapshot<u64>,
    ) -> (usize, usize) {
        let mut diff = QpStore::diff(old, new);
        let changes = diff.by_ref().count();
        (changes, diff.old.opened + diff.new.opened)
    }

    fn key(i: u64) -> Vec<u8> {
        i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec()
    }

    /// A store of `n` entries, and the number of its branches and clusters.
    fn filled(n: u64) -> (QpStore<u64>, usize) {
        let store = QpStore::new().unwrap();
        let mut txn = store.begin();
        for i in 0..n {
            txn.insert(key(i), i).unwrap();
        }
        txn.commit();
        let memory = store.memory().map;
        (store, memory.branches.0 + memory.clusters.0)
    }

    fn change_ten(store: &QpStore<u64>, n: u64) {
        let mut txn = store.begin();
        for i in 0..10 {
            txn.insert(key(i * n / 10), u64::MAX).unwrap();
        }
        txn.commit();
    }

    fn compact(store: &QpStore<u64>) {
        while store.compact_step(100).unwrap() {}
    }

    const SIZES: [u64; 2] = if cfg!(miri) {
        [60, 240]
    } else {
        [2_000, 100_000]
    };

    #[test]
    fn without_a_compaction_the_nodes_walked_follow_the_changes() {
        for n in SIZES {
            let (store, nodes) = filled(n);
            let old = store.snapshot();
            change_ten(&store, n);
            let new = store.snapshot();
            let (changes, opened) = walked(&old, &new);
            assert_eq!(changes, 10);
            // Ten paths in each version, each of at most eight nodes, because keys have eight
            // bytes.
            assert!(opened <= 2 * 10 * 8, "{opened} of {nodes} nodes");
            assert_eq!(walked(&new, &new), (0, 0));
        }
    }

    #[test]
    fn across_a_compaction_all_nodes_are_walked_in_both_versions() {
        for n in SIZES {
            let (store, nodes) = filled(n);
            let old = store.snapshot();
            change_ten(&store, n);
            compact(&store);
            let new = store.snapshot();
            let (changes, opened) = walked(&old, &new);
            // Entries did not move, so no other entry is a change.
            assert_eq!(changes, 10);
            assert_eq!(opened, 2 * nodes, "{n} entries");
            // From the first snapshot after the compaction on, differences are small again.
            change_ten(&store, n);
            let (changes, opened) = walked(&new, &store.snapshot());
            assert!(changes == 10 && opened <= 2 * 10 * 8, "{opened}");
        }
    }

    #[test]
    fn a_step_of_compaction_costs_a_difference_what_it_moved() {
        let n = SIZES[1];
        let (store, nodes) = filled(n);
        let old = store.snapshot();
        store.compact_step(50).unwrap();
        let (changes, opened) = walked(&old, &store.snapshot());
        // It reads what was moved, in both versions, and at most the path of one key besides.
        assert_eq!(changes, 0);
        assert!((50..=2 * (50 + 8)).contains(&opened), "{opened} of {nodes}");
    }
}
