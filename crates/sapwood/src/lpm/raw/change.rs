//! Changing: the blocks of a table are replaced, never changed, from the prefix up to the root
//! word.
//!
//! A change makes all of its new blocks first, which may fail, and then links them, which cannot
//! fail. It notes the blocks that it makes and those that it unlinks, so that the caller can undo
//! it or retire the old blocks.

use sapwood_arena::ArenaFull;

use super::blocks::{Blocks, Tail};
use super::node::Prefixes;
use crate::lpm::family::Key;
use sapwood_format::lpm::{CHILD, SLOTS, STRIDE, Set, child_of, slots_of};

/// Why a change was not made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The change would change nothing: the prefix has this value already, or a prefix to be
    /// removed is not there.
    Same(u32),
    Full(ArenaFull),
}

impl From<ArenaFull> for Stop {
    fn from(full: ArenaFull) -> Self {
        Stop::Full(full)
    }
}

/// The block that replaces another one, and the value that the prefix had.
type Changed = Result<(u32, u32), Stop>;

impl Blocks {
    /// The node that replaces `node` (0: none) when the prefix of `left` bits below it gets `value`
    /// (0: is removed). `base` is the value at the node's slot. The result is 0 when the node would
    /// be empty.
    ///
    /// # Safety
    /// `node` is 0 or live.
    pub(crate) unsafe fn change<K: Key>(
        &mut self,
        node: u32,
        base: u32,
        rest: K,
        left: u32,
        value: u32,
    ) -> Changed {
        if left <= STRIDE {
            // SAFETY: the caller's promise.
            return unsafe { self.change_here(node, base, Set::heap(left, rest.top(left)), value) };
        }
        let slot = rest.top(STRIDE);
        let (rest, left) = (rest.skip(STRIDE), left - STRIDE);
        if node == 0 {
            // SAFETY: there is none.
            let (below, old) = unsafe { self.change(0, 0, rest, left, value) }?;
            let made = self.node_of_one(slot, CHILD | below, base, Tail::default())?;
            return Ok((made, old));
        }
        // SAFETY: the caller's promise.
        let n = unsafe { self.mem.node(node) };
        let cell = n.slot(slot);
        let child = child_of(cell);
        let here = match child {
            0 => cell,
            // SAFETY: a live node's children are live.
            _ => unsafe { self.mem.node(child) }.base(),
        };
        // SAFETY: as above.
        let (below, old) = unsafe { self.change(child, here, rest, left, value) }?;
        let new = if below == 0 { here } else { CHILD | below };
        // SAFETY: the caller's promise.
        let changed =
            unsafe { self.node_with(node, slot, new, base, Tail::from_prefixes(n.prefixes())) }?;
        Ok((changed, old))
    }

    /// As [`change`](Self::change), for a prefix that ends inside this node.
    ///
    /// # Safety
    /// `node` is 0 or live.
    unsafe fn change_here(&mut self, node: u32, base: u32, heap: usize, value: u32) -> Changed {
        // SAFETY: the caller's promise.
        let n = (node != 0).then(|| unsafe { self.mem.node(node) });
        let Prefixes { mut set, values } = n.map_or_else(Prefixes::default, |n| n.prefixes());
        let (at, there) = (set.rank(heap), set.has(heap));
        let old = if there { values[at] } else { 0 };
        if old == value {
            return Err(Stop::Same(old));
        }
        // The value that lookups find where this prefix was or will be the longest.
        let seen = match value {
            0 => set
                .cover(heap, 2)
                .map_or(0, |cover| values[set.rank(cover)]),
            _ => value,
        };
        let put = if value == 0 {
            set.remove(heap);
            None
        } else {
            set.insert(heap);
            Some(value)
        };
        let tail = Tail {
            set,
            before: &values[..at],
            put,
            behind: &values[at + usize::from(there)..],
        };
        let slots = slots_of(heap);
        let Some(n) = n else {
            let made = match slots.len() {
                1 => self.node_of_one(slots.start, seen, base, tail)?,
                _ => {
                    let mut cells = [0; SLOTS];
                    cells[slots].fill(seen);
                    self.node(&cells, base, tail)?
                }
            };
            return Ok((made, old));
        };
        if slots.len() == 1 {
            let cell = n.slot(slots.start);
            let cell = self.with_base(cell, seen)?;
            // SAFETY: the caller's promise.
            let made = unsafe { self.node_with(node, slots.start, cell, base, tail) }?;
            return Ok((made, old));
        }
        let mut cells = n.expand();
        for slot in slots {
            // Slots that a longer prefix covers stay as they are.
            if set.cover((SLOTS | slot) << 1, heap << 1).is_none() {
                cells[slot] = self.with_base(cells[slot], seen)?;
            }
        }
        self.gone.push(n.block(node));
        if set.is_empty() && cells.iter().all(|&cell| cell == 0) {
            return Ok((0, old));
        }
        Ok((self.node(&cells, base, tail)?, old))
    }

    /// The cell of a slot whose own value becomes `seen`.
    fn with_base(&mut self, cell: u32, seen: u32) -> Result<u32, ArenaFull> {
        let child = child_of(cell);
        if child == 0 {
            return Ok(seen);
        }
        // SAFETY: a live node's children are live.
        unsafe {
            if self.mem.node(child).base() == seen {
                return Ok(cell);
            }
            Ok(CHILD | self.copy(child, seen)?)
        }
    }

    /// The block that replaces `root_prefixes` (0: none) when the prefix of `left` bits in it gets
    /// `value` (0: is removed). The result is 0 when the block would be empty.
    ///
    /// # Safety
    /// `root_prefixes` is 0 or live.
    pub(crate) unsafe fn change_root_prefixes<K: Key>(
        &mut self,
        root_prefixes: u32,
        rest: K,
        left: u32,
        value: u32,
    ) -> Changed {
        let (mut set, mut kids, values, below): (Set, u64, &[u32], &[u32]) = if root_prefixes == 0 {
            (Set::default(), 0, &[], &[])
        } else {
            // SAFETY: the caller's promise.
            let s = unsafe { self.mem.root_prefixes(root_prefixes) };
            (s.set(), s.kids(), s.values(), s.below())
        };
        let words = || values.iter().chain(below).copied();
        // `new` replaces `there` old entries at `at` in the list of values, or in that of the
        // blocks below.
        let (at, there, new, old);
        if left > STRIDE {
            let slot = rest.top(STRIDE);
            let rank = (kids & ((1 << slot) - 1)).count_ones() as usize;
            there = (kids >> slot & 1) as usize;
            let child = if there == 0 { 0 } else { below[rank] };
            // SAFETY: blocks below a live block are live.
            (new, old) = unsafe {
                self.change_root_prefixes(child, rest.skip(STRIDE), left - STRIDE, value)
            }?;
            kids = kids & !(1 << slot) | u64::from(new != 0) << slot;
            at = values.len() + rank;
        } else {
            let bits = if left == 0 { 0 } else { rest.top(left) };
            let heap = Set::heap(left, bits);
            there = usize::from(set.has(heap));
            (at, new) = (set.rank(heap), value);
            old = if there == 0 { 0 } else { values[at] };
            if old == value {
                return Err(Stop::Same(old));
            }
            match value {
                0 => set.remove(heap),
                _ => set.insert(heap),
            }
        }
        if root_prefixes != 0 {
            // SAFETY: the caller's promise.
            self.gone
                .push(unsafe { self.mem.root_prefixes(root_prefixes) }.block(root_prefixes));
        }
        if set.is_empty() && kids == 0 {
            return Ok((0, old));
        }
        let words = words()
            .take(at)
            .chain((new != 0).then_some(new))
            .chain(words().skip(at + there));
        Ok((self.root_prefixes(set, kids, words)?, old))
    }
}
