//! Many lookups at once: interleaved descents, each waiting for its cache line while the others work.
//!
//! A group of keys goes down level by level. Two things make it quick: every line is asked for a whole round
//! before it is needed, and a descent that has ended leaves the list of active ones by arithmetic, not by a
//! branch that the processor would guess wrong once for every key.

use super::mem::Mem;
use super::node::LEAF;
use super::view::{Step, View, prefetch};

/// How many descents are under way at once: about as many misses as a core keeps in flight.
pub(crate) const LANES: usize = 16;

/// Finds all keys; calls `each(i, leaf cell)` in order, with 0 for a key that is absent.
pub(crate) fn find_many<V, M: Mem, K: AsRef<[u8]>>(
    view: &View<'_, V, M>,
    keys: &[K],
    mut each: impl FnMut(usize, u32),
) {
    for (g, group) in keys.chunks(LANES).enumerate() {
        let mut lanes: [&[u8]; LANES] = [&[]; LANES];
        for (lane, key) in lanes.iter_mut().zip(group) {
            *lane = key.as_ref();
        }
        let cells = descend(view, &lanes, group.len(), |_, cell, min, key| {
            match view.step(cell, min, key) {
                (Step::Down(cell), min) => (cell, min),
                (Step::Miss, _) => (LEAF, 0),
            }
        });
        for (lane, key) in lanes[..group.len()].iter().enumerate() {
            let cell = cells[lane];
            let hit = cell > LEAF && view.has_key(cell, key);
            each(g * LANES + lane, if hit { cell } else { 0 });
        }
    }
}

/// Reads, interleaved, what single changes of these keys are going to read: the branches on the way to each,
/// and the leaf next to it.
pub(crate) fn warm<'k, V, M: Mem>(view: &View<'_, V, M>, keys: impl Iterator<Item = &'k [u8]>) {
    let mut lanes: [&[u8]; LANES] = [&[]; LANES];
    let mut n = 0;
    for (lane, key) in lanes.iter_mut().zip(keys) {
        *lane = key;
        n += 1;
    }
    descend(view, &lanes, n, |_, cell, min, key| {
        let next = view.branch(cell, min).and_then(|b| {
            let index = view.index(b, key).unwrap_or(0);
            view.child(b, index)
        });
        (next.unwrap_or(LEAF), 0)
    });
}

/// Takes up to 16 keys down by `step` (of a lane, from a cell) to the leaves that they may be at; `LEAF` alone stands for
/// nowhere.
#[inline(always)]
pub(super) fn descend<V, M: Mem>(
    view: &View<'_, V, M>,
    keys: &[&[u8]; LANES],
    n: usize,
    mut step: impl FnMut(usize, u32, usize, &[u8]) -> (u32, usize),
) -> [u32; LANES] {
    let start = if view.root == 0 { LEAF } else { view.root };
    let mut cells = [start; LANES];
    let mut mins = [0usize; LANES];
    let mut active: [u8; LANES] = core::array::from_fn(|lane| lane as u8);
    let mut left = if start & LEAF == 0 { n } else { 0 };
    while left > 0 {
        let mut kept = 0;
        for i in 0..left {
            // Lane numbers are below 16; the mask tells the compiler.
            let lane = usize::from(active[i]) % LANES;
            let (cell, min) = step(lane, cells[lane], mins[lane], keys[lane]);
            prefetch(view.mem.hint(cell));
            cells[lane] = cell;
            if !M::TRUSTED {
                mins[lane] = min;
            }
            active[kept % LANES] = lane as u8;
            kept += usize::from(cell & LEAF == 0);
        }
        left = kept;
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qp::QpMap;

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
                find_many(&view, group, |i, leaf| {
                    assert_eq!(i, ends.len());
                    ends.push((leaf != 0).then_some(leaf));
                });
                let wanted: Vec<_> = group.iter().map(|k| view.find(k)).collect();
                assert_eq!(ends, wanted);
            }
            map.verify().unwrap();
        }
    }
}
