//! Many lookups at once: interleaved descents, each waiting for its cache line while the others work.
//!
//! A group of keys goes down level by level. Two things make it quick: every line is asked for a whole round
//! before it is needed, and a descent that has ended leaves the list of active ones by arithmetic, not by a
//! branch that the processor would guess wrong once for every key.

use super::mem::Mem;
use super::node::LEAF;
use super::view::{Step, View, prefetch};

/// How many descents are under way at once: about as many misses as a core keeps in flight.
const LANES: usize = 16;

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
        let cells = descend(view, &lanes, group.len());
        for (lane, key) in lanes[..group.len()].iter().enumerate() {
            let cell = cells[lane];
            let hit = cell > LEAF && view.has_key(cell, key);
            each(g * LANES + lane, if hit { cell } else { 0 });
        }
    }
}

/// Takes up to 16 keys down to the leaves that they may be at; `LEAF` alone stands for nowhere.
#[inline]
fn descend<V, M: Mem>(view: &View<'_, V, M>, keys: &[&[u8]; LANES], n: usize) -> [u32; LANES] {
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
            let (step, min) = view.step(cells[lane], mins[lane], keys[lane]);
            let cell = match step {
                Step::Down(cell) => cell,
                Step::Miss => LEAF,
            };
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
