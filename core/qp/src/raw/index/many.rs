//! Interleaved lookups: the buckets of a group of keys are prefetched before the first bucket is
//! read, and then its leaves.
//!
//! The third pass uses what the second pass read of a home, so no bucket is read twice. The answer
//! is right, because the home was read without MOVED after the guard began. So a leaf that was read
//! from it is the key's at that moment, or a newer one, and the guard keeps it alive. A leaf from a
//! bucket behind the home is one that `look_behind` would find. This holds as long as the guard is
//! held, so the third pass only compares the key. If the key is another one, that lookup begins
//! anew, alone.

use core::ptr;
use core::sync::atomic::Ordering;

use super::bucket::{self, Bucket, Search, tag_of};
use super::table::Table;
use super::{Found, Index};
use crate::raw::leaf::{LeafOf, Value};
use crate::raw::mem::byte_of;
use crate::raw::node::LEAF;
use crate::raw::view::prefetch;

/// The number of lookups that run interleaved, as in `batch`.
const LANES: usize = 16;
/// Stands for a leaf when the home alone tells that the key is absent.
const NONE: u32 = LEAF;
/// Stands for a leaf when the home does not tell.
const UNKNOWN: u32 = 0;

/// One lookup of a group.
#[derive(Clone, Copy)]
struct Lane<'k> {
    key: &'k [u8],
    hash: u64,
    /// The bucket of its home, or null.
    home: *const Bucket,
    /// The leaf that may be the key's, or `NONE` or `UNKNOWN`.
    leaf: u32,
}

impl Lane<'_> {
    /// Prefetches the leaf. Half of all leaves end in the next cache line.
    #[inline(always)]
    fn prefetch<V: ?Sized + Value>(&self, base: *mut u8) {
        let leaf = base.wrapping_add(byte_of(self.leaf));
        prefetch(leaf);
        prefetch(leaf.wrapping_add(LeafOf::<V>::LEN_AT + self.key.len()));
    }
}

impl<V: ?Sized + Value, const SHARED: bool> Index<V, SHARED> {
    /// Looks all keys up and calls `each(i, key, found)` in order. Each key is asked for its bytes
    /// once.
    ///
    /// # Safety
    /// As for `find`; the guard is held as long as `each` uses leaves.
    pub(crate) unsafe fn find_many<K: AsRef<[u8]>>(
        &self,
        base: *mut u8,
        keys: &[K],
        mut each: impl FnMut(usize, &[u8], Found),
    ) {
        let mut lanes = [Lane {
            key: &[],
            hash: 0,
            home: ptr::null(),
            leaf: UNKNOWN,
        }; LANES];
        for (g, group) in keys.chunks(LANES).enumerate() {
            bucket::point();
            let at = self.table.load(Ordering::Acquire);
            if at == 0 {
                for (i, key) in group.iter().enumerate() {
                    each(g * LANES + i, key.as_ref(), self.without_table());
                }
                continue;
            }
            // SAFETY: the guard keeps the table.
            let table = unsafe { Table::at(base, at) };
            for (lane, key) in lanes.iter_mut().zip(group) {
                let key = key.as_ref();
                lane.key = key;
                lane.hash = self.hash(key);
                // SAFETY: homes are below `total`; nothing is followed.
                lane.home = unsafe {
                    let table = table.settle(lane.hash);
                    table.line(table.home(lane.hash))
                };
                prefetch(lane.home.cast());
            }
            let (mut unknown, mut count) = ([0u8; LANES], 0);
            for (i, lane) in lanes[..group.len()].iter_mut().enumerate() {
                // SAFETY: null, or a bucket that the guard keeps.
                lane.leaf = unsafe { likely(lane.home, lane.hash) };
                lane.prefetch::<V>(base);
                // There is no branch here, because the processor would often mispredict it.
                unknown[count % LANES] = i as u8;
                count += usize::from(lane.leaf == UNKNOWN);
            }
            for i in &unknown[..count] {
                let lane = &mut lanes[usize::from(*i) % LANES];
                // SAFETY: a table that the guard keeps.
                lane.leaf = unsafe { likely_behind(table, lane.hash) };
                lane.prefetch::<V>(base);
            }
            for (i, lane) in lanes[..group.len()].iter().enumerate() {
                let key = lane.key;
                // SAFETY: `likely` returned a leaf, and the guard keeps it.
                let is_it = |leaf| unsafe { LeafOf::<V>::is_key(base.add(byte_of(leaf)), key) };
                let found = if lane.leaf > NONE && is_it(lane.leaf) {
                    Found::Leaf(lane.leaf)
                } else if lane.leaf == NONE {
                    Found::Absent
                } else {
                    // SAFETY: the caller's promise.
                    unsafe { self.find_closer(base, lane.hash, key) }
                };
                each(g * LANES + i, key, found);
            }
        }
    }
}

/// The leaf in the hash's home with the key's tag, which is nearly always the key's.
///
/// # Safety
/// The pointer is null, or a bucket that the guard keeps.
#[inline(always)]
unsafe fn likely(home: *const Bucket, hash: u64) -> u32 {
    // SAFETY: the caller's promise.
    let Some(bucket) = (unsafe { home.as_ref() }) else {
        return UNKNOWN;
    };
    let words = bucket.load();
    if words.is_moved() {
        return UNKNOWN;
    }
    let tag = tag_of(hash);
    let hits = words.matches(tag);
    let leaf = bucket.first(hits);
    let none = u32::from(words.rules_out(tag));
    // `NONE` is 1 and `UNKNOWN` is 0.
    if hits != 0 { leaf } else { none }
}

/// The leaf behind the home that may be the key's, if the home was not moved to the next table.
///
/// # Safety
/// The table is one where lookups begin, and the guard keeps it.
#[inline]
unsafe fn likely_behind(table: Table, hash: u64) -> u32 {
    // SAFETY: homes are below `total`, and so are buckets within reach; the guard keeps chunks.
    unsafe {
        let table = table.settle(hash);
        let (home, tag) = (table.home(hash), tag_of(hash));
        let Some(words) = table.bucket(home).map(Bucket::load) else {
            return UNKNOWN;
        };
        if words.is_moved() || !words.may_be_behind(tag) {
            return UNKNOWN;
        }
        for at in home + 1..=home + words.reach() {
            let Some(bucket) = table.bucket(at) else {
                return UNKNOWN;
            };
            let hits = bucket.load().matches(tag);
            if hits != 0 {
                // Keys that are not at home lie in the last slots.
                return bucket.leaf(31 - hits.leading_zeros() as usize);
            }
        }
        UNKNOWN
    }
}
