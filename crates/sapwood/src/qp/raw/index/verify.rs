//! Every invariant of an index, walked.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use super::bucket::{SLOTS, STICKY, tag_of};
use super::table::{self, NOTHING, Table};
use super::{Index, Taken};
use crate::qp::raw::leaf::Value;
use sapwood_format::bucket::Home;

/// What a walk met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Keys that have a slot.
    pub(crate) keys: usize,
    /// Those of them that do not lie at home.
    pub(crate) displaced: usize,
    /// Keys that have none.
    pub(crate) spilled: usize,
    /// Buckets whose misses always ask the trie.
    pub(crate) sticky: usize,
    /// Homes of all tables in use.
    pub(crate) homes: usize,
}

impl<V: ?Sized + Value, const SHARED: bool> Index<V, SHARED> {
    /// Checks that the index holds just these leaves, each once or counted as spilled, and that all
    /// of its counts and accounts are right.
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
            let next = tables[0].next().load(Ordering::Relaxed);
            let mut cursor = 0;
            if next == NOTHING {
                return Err("a table in use was given up".into());
            }
            if next != 0 {
                let new = Table::at(base, next);
                if new.next().load(Ordering::Relaxed) != 0 {
                    return Err("a second move began before the first was over".into());
                }
                let more = table::taken_by(base, next);
                taken.blocks += more.blocks;
                taken.bytes += more.bytes;
                cursor = self.work.cursor.load(Ordering::Relaxed);
                tables.push(new);
            }
            if taken != self.taken() {
                return Err(format!("{taken:?} taken, accounts say {:?}", self.taken()));
            }
            let homes = |t: &Table| vec![Home::default(); t.total() as usize];
            let mut counts: Vec<_> = tables.iter().map(homes).collect();
            let mut live = BTreeMap::new();
            for (i, t) in tables.iter().enumerate() {
                let from = if i == 0 { cursor } else { 0 };
                for leaf in self.check_slots(*t, from, &mut counts[i], &mut shape)? {
                    if live.insert(leaf, i).is_some() {
                        return Err(format!("leaf {leaf:#x} is there twice"));
                    }
                }
            }
            for leaf in leaves {
                let hash = self.hash_of(base, leaf);
                let right = usize::from(next != 0 && tables[0].home(hash) < cursor);
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
                let from = if i == 0 { cursor } else { 0 };
                shape.sticky += self.check_counts(*t, from, counts)?;
            }
        }
        Ok(shape)
    }

    fn homeless(&self) -> usize {
        self.homeless.load(Ordering::Relaxed) as usize
    }

    /// Checks where the leaves of a table lie, from bucket `from` on; the leaves.
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

    /// Compares a table's counts with what they should be; how many are not known any more.
    ///
    /// # Safety
    /// As for `verify`.
    unsafe fn check_counts(&self, t: Table, moved: u32, counts: &[Home]) -> Result<usize, String> {
        let mut sticky = 0;
        for b in 0..t.total() {
            // SAFETY: below `total`.
            let Some(bucket) = (unsafe { t.bucket(b) }) else {
                if b < moved || t.next().load(Ordering::Relaxed) == 0 {
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
