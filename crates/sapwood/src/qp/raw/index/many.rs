//! Many lookups at once: a group's buckets are all asked for before the first is read, then its leaves.

use core::sync::atomic::Ordering;

use super::bucket::{self, tag_of};
use super::table::Table;
use super::{Found, Index};
use crate::qp::raw::leaf::LeafOf;
use crate::qp::raw::mem::byte_of;
use crate::qp::raw::node::LEAF;
use crate::qp::raw::view::prefetch;

/// Lookups that are under way at once, as in `batch`.
const LANES: usize = 16;
/// Instead of a leaf: the home alone tells that there is none.
const NONE: u32 = LEAF;
/// Instead of a leaf: one has to look closer.
const UNKNOWN: u32 = 0;

impl<V, const SHARED: bool> Index<V, SHARED> {
    /// Looks all keys up and calls `each(i, found)` in order.
    ///
    /// # Safety
    /// As for `find`; the guard is held as long as `each` uses leaves.
    pub(crate) unsafe fn find_many<K: AsRef<[u8]>>(
        &self,
        base: *mut u8,
        keys: &[K],
        mut each: impl FnMut(usize, Found),
    ) {
        let mut hashes = [0u64; LANES];
        let mut leaves = [UNKNOWN; LANES];
        for (g, group) in keys.chunks(LANES).enumerate() {
            bucket::point();
            let at = self.table.load(Ordering::Acquire);
            if at == 0 {
                group.iter().enumerate().for_each(|(i, _)| {
                    each(g * LANES + i, self.without_table());
                });
                continue;
            }
            // SAFETY: the guard keeps the table.
            let table = unsafe { Table::at(base, at) };
            for (hash, key) in hashes.iter_mut().zip(group) {
                *hash = self.hash(key.as_ref());
                // SAFETY: homes are below `total`; nothing is followed.
                unsafe {
                    let table = table.settle(*hash);
                    prefetch(table.line(table.home(*hash)).cast());
                }
            }
            for (leaf, hash) in leaves.iter_mut().zip(&hashes[..group.len()]) {
                // SAFETY: as above.
                *leaf = unsafe { self.likely(table.settle(*hash), *hash) };
                prefetch(base.wrapping_add(byte_of(*leaf)));
            }
            for (i, (key, leaf)) in group.iter().zip(leaves).enumerate() {
                let key = key.as_ref();
                // SAFETY: `likely` gave a leaf, and the guard keeps it.
                let is_it = |leaf| unsafe { LeafOf::<V>::is_key(base.add(byte_of(leaf)), key) };
                let found = match leaf {
                    NONE => Found::Absent,
                    leaf if leaf != UNKNOWN && is_it(leaf) => Found::Leaf(leaf),
                    // SAFETY: the caller's promise.
                    _ => unsafe { self.find(base, hashes[i], key) },
                };
                each(g * LANES + i, found);
            }
        }
    }

    /// The leaf that the hash's home says it is, nearly always rightly.
    ///
    /// # Safety
    /// As for `find`, with a table that is alive.
    #[inline(always)]
    unsafe fn likely(&self, table: Table, hash: u64) -> u32 {
        // SAFETY: homes are below `total`; the guard keeps the chunk.
        let Some(bucket) = (unsafe { table.bucket(table.home(hash)) }) else {
            return UNKNOWN;
        };
        let words = bucket.load();
        let hits = words.matches(tag_of(hash));
        if words.is_moved() {
            UNKNOWN
        } else if hits != 0 {
            bucket.leaf(hits.trailing_zeros() as usize)
        } else if words.out() == 0 && words.spilled() == 0 {
            NONE
        } else {
            UNKNOWN
        }
    }
}
