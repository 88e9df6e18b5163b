//! The check of every invariant of an index, by a walk over it.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use super::bucket::{SLOTS, STICKY, tag_of};
use super::table::{self, NOTHING, Table};
use super::{Index, Taken};
use crate::raw::leaf::Value;
use sapwood_format::bucket::Home;

/// The counts of a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Number of keys that have a slot.
    pub(crate) keys: usize,
    /// Number of keys that have a slot, but not at home.
    pub(crate) displaced: usize,
    /// Number of keys without a slot.
    pub(crate) spilled: usize,
    /// Number of buckets whose misses always ask the trie.
    pub(crate) sticky: usize,
    /// Number of homes of all tables in use.
    pub(crate) homes: usize,
}

/// The number of homes, from the first on, whose keys were moved from a table to the third one.
/// Chunks that are not there have no keys.
///
/// # Safety
/// The table is in use.
unsafe fn moved_of(t: Table) -> u32 {
    // SAFETY: below `total`.
    let stays = |home: &u32| unsafe { t.bucket(*home) }.is_some_and(|b| !b.load().is_moved());
    (0..t.homes()).find(stays).unwrap_or(t.homes())
}

impl<V: ?Sized + Value, const SHARED: bool> Index<V, SHARED> {
    /// Checks that the index has exactly these leaves, each once or counted as spilled, and that
    /// all of its counts and accounts are right.
    ///
    /// # Safety
    /// Nobody else uses the index, the arena lies at `base`, and the leaves are alive.
    pub(crate) unsafe fn verify(
        &self,
        base: *mut u8,
        leaves: impl IntoIterator<Item = u32>,
    ) -> Result<Shape, String> {
        let at = self.table.load(Ordering::Relaxed);
        let mut shape = Shape::default();
        if at == 0 {
            let (count, homeless) = (leaves.into_iter().count(), self.homeless());
            if count != homeless || self.taken() != Taken::default() {
                return Err(format!(
                    "{count} leaves, {homeless} keys without a table, {:?} taken by none",
                    self.taken()
                ));
            }
            shape.spilled = count;
            return Ok(shape);
        }
        // SAFETY: the caller's promise; the tables in use are alive.
        unsafe {
            let mut tables = vec![Table::at(base, at)];
            let mut taken = table::taken_by(base, at);
            let mut next = tables[0].next().load(Ordering::Relaxed);
            if next == NOTHING {
                return Err("a table in use was closed".into());
            }
            // The number of homes of each table that were moved on.
            let mut moved = vec![0];
            while next != 0 {
                if tables.len() == if self.alone { 3 } else { 2 } {
                    return Err("another move began before the first was over".into());
                }
                let more = table::taken_by(base, next);
                taken.blocks += more.blocks;
                taken.bytes += more.bytes;
                let new = Table::at(base, next);
                moved[0] = self.work.cursor.load(Ordering::Relaxed);
                if let [_, second] = tables[..] {
                    moved[1] = moved_of(second);
                }
                moved.push(0);
                tables.push(new);
                next = new.next().load(Ordering::Relaxed);
            }
            if taken != self.taken() {
                return Err(format!("{taken:?} taken, accounts say {:?}", self.taken()));
            }
            let homes = |t: &Table| vec![Home::default(); t.total() as usize];
            let mut counts: Vec<_> = tables.iter().map(homes).collect();
            let mut live = BTreeMap::new();
            for (i, t) in tables.iter().enumerate() {
                for leaf in self.check_slots(*t, moved[i], &mut counts[i], &mut shape)? {
                    if live.insert(leaf, i).is_some() {
                        return Err(format!("leaf {leaf:#x} is there twice"));
                    }
                }
            }
            for leaf in leaves {
                let hash = self.hash_of(base, leaf);
                let passed = tables.iter().zip(&moved);
                let right = passed
                    .take_while(|(t, moved)| t.home(hash) < **moved)
                    .count();
                match live.remove(&leaf) {
                    Some(i) if i == right => {}
                    Some(i) => return Err(format!("leaf {leaf:#x} in table {i}")),
                    None => {
                        counts[right][tables[right].home(hash) as usize].spilled += 1;
                        shape.spilled += 1;
                    }
                }
            }
            if let Some((leaf, _)) = live.first_key_value() {
                return Err(format!("stale leaf {leaf:#x}"));
            }
            for (i, (t, counts)) in tables.iter().zip(&counts).enumerate() {
                shape.sticky += self.check_counts(*t, i, moved[i], counts)?;
            }
        }
        Ok(shape)
    }

    fn homeless(&self) -> usize {
        self.homeless.load(Ordering::Relaxed) as usize
    }

    /// Checks the slots of the leaves of a table, from bucket `from` on; returns the leaves.
    ///
    /// # Safety
    /// As for `verify`.
    unsafe fn check_slots(
        &self,
        t: Table,
        from: u32,
        counts: &mut [Home],
        shape: &mut Shape,
    ) -> Result<Vec<u32>, String> {
        let mut leaves = Vec::new();
        shape.homes += t.homes() as usize;
        for b in from..t.total() {
            // SAFETY: below `total`.
            let Some(bucket) = (unsafe { t.bucket(b) }) else {
                continue;
            };
            let words = bucket.load();
            for slot in (0..SLOTS).filter(|slot| words.tag(*slot) != 0) {
                let leaf = bucket.leaf(slot);
                // SAFETY: the caller's promise.
                let hash = unsafe { self.hash_of(t.base(), leaf) };
                let home = t.home(hash);
                if words.tag(slot) != tag_of(hash) || home < from {
                    return Err(format!("leaf {leaf:#x} in bucket {b}: home {home}, or tag"));
                }
                if b < home || b >= t.window(home) {
                    return Err(format!("leaf {leaf:#x} in bucket {b}, home is {home}"));
                }
                if b != home {
                    shape.displaced += 1;
                    counts[home as usize].add(b - home, tag_of(hash));
                }
                leaves.push(leaf);
            }
        }
        shape.keys += leaves.len();
        Ok(leaves)
    }

    /// Compares a table's counts with its leaves; returns the number of buckets whose misses always
    /// ask the trie.
    ///
    /// # Safety
    /// As for `verify`.
    unsafe fn check_counts(
        &self,
        t: Table,
        number: usize,
        moved: u32,
        counts: &[Home],
    ) -> Result<usize, String> {
        let mut sticky = 0;
        for b in 0..t.total() {
            // SAFETY: below `total`.
            let Some(bucket) = (unsafe { t.bucket(b) }) else {
                // A table to which keys are moved has the chunks that they need.
                if b < moved || number > 0 {
                    continue;
                }
                return Err(format!("bucket {b} is not there"));
            };
            let words = bucket.load();
            if words.is_locked() || words.is_moved() != (b < moved) {
                return Err(format!("bucket {b} is locked, or moved too late or early"));
            }
            if b < moved {
                continue;
            }
            let wanted = counts[b as usize];
            if !wanted.fits(words) {
                return Err(format!("bucket {b} has {words:x?}, needs {wanted:?}"));
            }
            if words.spilled() == STICKY {
                sticky += 1;
            } else if words.spilled() != wanted.spilled {
                return Err(format!(
                    "bucket {b} spilled {}, counts {}",
                    wanted.spilled,
                    words.spilled()
                ));
            }
        }
        Ok(sticky)
    }
}
