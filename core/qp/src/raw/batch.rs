//! Interleaved descents of many keys: each waits for its cache line while the others work.
//!
//! A group of keys descends level by level. Every cache line is prefetched a whole round before it
//! is read. A descent that has ended leaves the list of active descents by arithmetic, not by a
//! branch, which the processor would mispredict once for every key.

use super::inline::EntryRef;
use super::mem::Mem;
use super::node::{KIND, LEAF, is_leaf};
use super::view::{View, prefetch};
use crate::raw::leaf::Value;
use sapwood_format::cluster::tag;

/// The number of descents that run interleaved: about as many cache misses as a core keeps in
/// flight.
pub const LANES: usize = 16;

/// The cell that stands for no place.
const NOWHERE: u32 = LEAF;

/// Finds all keys; calls `each(i, entry)` in order, with no entry for a key that is absent.
pub(crate) fn find_many<V: ?Sized + Value, M: Mem, K: AsRef<[u8]>>(
    view: &View<'_, V, M>,
    keys: &[K],
    mut each: impl FnMut(usize, EntryRef),
) {
    for (g, group) in keys.chunks(LANES).enumerate() {
        let mut lanes: [&[u8]; LANES] = [&[]; LANES];
        for (lane, key) in lanes.iter_mut().zip(group) {
            *lane = key.as_ref();
        }
        let ends = descend(view, &lanes, group.len());
        // If the key is there, the first entry with its tag is nearly always the key's.
        let mut entries = [EntryRef::NONE; LANES];
        let mut more = 0u32;
        for lane in 0..group.len() {
            let end = ends[lane];
            if is_leaf(end) {
                if end != NOWHERE {
                    entries[lane] = EntryRef::leaf(end);
                }
                continue;
            }
            let Some(c) = view.cluster(end) else { continue };
            // SAFETY: a cluster that `view.cluster` returned is whole; hits are entries.
            unsafe {
                let hits = c.with_tag(tag(lanes[lane]));
                if hits != 0 {
                    entries[lane] = c.entry(hits.trailing_zeros() as usize);
                    view.fetch_whole(entries[lane], lanes[lane].len());
                }
                more |= u32::from(hits & hits.wrapping_sub(1) != 0) << lane;
            }
        }
        for (lane, key) in lanes[..group.len()].iter().enumerate() {
            let entry = entries[lane];
            let mut found = match entry.is_some() && view.has_key(entry, key) {
                true => entry,
                false => EntryRef::NONE,
            };
            if !found.is_some() && more >> lane & 1 == 1 {
                found = view.find_in(ends[lane], key).unwrap_or(EntryRef::NONE);
            }
            each(g * LANES + lane, found);
        }
    }
}

/// Fetches, interleaved, what single changes of these keys will read: the branches on the path of
/// each key, its cluster, and the leaf nearest to it.
pub(crate) fn warm<'k, V: ?Sized + Value, M: Mem>(
    view: &View<'_, V, M>,
    keys: impl Iterator<Item = &'k [u8]>,
) {
    let mut lanes: [&[u8]; LANES] = [&[]; LANES];
    let mut n = 0;
    for (lane, key) in lanes.iter_mut().zip(keys) {
        *lane = key;
        n += 1;
    }
    let ends = descend(view, &lanes, n);
    for (lane, end) in ends[..n].iter().enumerate() {
        if !is_leaf(*end) {
            if let Some(c) = view.cluster(*end) {
                // SAFETY: as above.
                view.fetch(unsafe { c.entry(c.blind(lanes[lane])) });
            }
        }
    }
}

/// Descends with up to 16 keys to the leaves or clusters that they lead to, and prefetches those.
#[inline(always)]
pub(super) fn descend<V: ?Sized + Value, M: Mem>(
    view: &View<'_, V, M>,
    keys: &[&[u8]; LANES],
    n: usize,
) -> [u32; LANES] {
    let start = if view.root == 0 { NOWHERE } else { view.root };
    let mut cells = [start; LANES];
    let mut mins = [0usize; LANES];
    let mut active: [u8; LANES] = core::array::from_fn(|lane| lane as u8);
    let mut left = if start & KIND == 0 { n } else { 0 };
    while left > 0 {
        let mut kept = 0;
        for i in 0..left {
            // Lane numbers are below 16; the remainder shows this to the compiler.
            let lane = usize::from(active[i]) % LANES;
            let (cell, min) = view
                .step(cells[lane], mins[lane], keys[lane])
                .unwrap_or((NOWHERE, 0));
            let p = view.mem.hint(cell);
            prefetch(p);
            prefetch(p.wrapping_add(64));
            cells[lane] = cell;
            if !M::TRUSTED {
                mins[lane] = min;
            }
            active[kept % LANES] = lane as u8;
            kept += usize::from(cell & KIND == 0);
        }
        left = kept;
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::QpMap;

    #[test]
    fn interleaved_descents_end_where_single_ones_do() {
        let mut map = QpMap::new();
        let mut keys: Vec<Vec<u8>> = vec![vec![]];
        for i in 0..70u8 {
            keys.push(vec![b'a' + i % 3, i]);
            keys.push(vec![b'a'; usize::from(i)]);
        }
        let long: Vec<Vec<u8>> = keys.iter().map(|k| [&k[..], b"!"].concat()).collect();
        for n in [0, 1, 2, keys.len()] {
            map.extend(keys[..n].iter().map(|k| (k, n)));
            let view = map.view();
            for group in [&keys, &long].into_iter().flat_map(|k| k.chunks(LANES - 3)) {
                warm(&view, group.iter().map(|k| &k[..]));
                let mut ends = Vec::new();
                find_many(&view, group, |i, entry| {
                    assert_eq!(i, ends.len());
                    ends.push(entry.some());
                });
                let wanted: Vec<_> = group.iter().map(|k| view.find(k)).collect();
                assert_eq!(ends, wanted);
            }
            map.verify().unwrap();
        }
    }
}
