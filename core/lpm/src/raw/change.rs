//! Changing: the blocks of a table are replaced, never changed, from the prefix up to the root
//! word.
//!
//! A change makes all of its new blocks first, which may fail, and then links them, which cannot
//! fail. It notes the blocks that it makes and those that it unlinks, so that the caller can undo
//! it or retire the old blocks.

use sapwood_arena::ArenaFull;

use super::blocks::{Blocks, Tail};
use super::node::{Lone, Prefixes};
use crate::family::Key;
use crate::garbage::Block;
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

/// What replaces a node.
enum New {
    /// A node; 0 for nothing.
    Node(u32),
    /// A prefix that no block has yet, because the node above may not be needed.
    Lone(Lone),
}

/// What replaces a node, and the value that the prefix had.
type Replaced = Result<(New, u32), Stop>;

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
        // SAFETY: the caller's promise.
        let (new, old) = unsafe { self.replace(node, base, (rest, left, value)) }?;
        Ok((self.place(new, base)?, old))
    }

    /// The node, or a block for the prefix.
    fn place(&mut self, new: New, base: u32) -> Result<u32, ArenaFull> {
        match new {
            New::Node(node) => Ok(node),
            New::Lone(lone) => self.lone(lone, base),
        }
    }

    /// As [`change`](Self::change), for a prefix of `left` bits.
    ///
    /// # Safety
    /// The same.
    unsafe fn replace<K: Key>(
        &mut self,
        node: u32,
        base: u32,
        (rest, left, value): (K, u32, u32),
    ) -> Replaced {
        if node == 0 {
            return match value {
                0 => Err(Stop::Same(0)),
                _ => Ok((self.alone((rest, left, value), base)?, 0)),
            };
        }
        // SAFETY: the caller's promise.
        let n = unsafe { self.mem.node(node) };
        if let Some(lone) = n.lone() {
            let block = n.block(node);
            return self.replace_lone((lone, block), base, (rest, left, value));
        }
        if left <= STRIDE {
            let heap = Set::heap(left, rest.top(left));
            // SAFETY: the caller's promise.
            return unsafe { self.change_here(node, base, heap, value) };
        }
        let slot = rest.top(STRIDE);
        let cell = n.slot(slot);
        let child = child_of(cell);
        let here = match child {
            0 => cell,
            // SAFETY: a live node's children are live.
            _ => unsafe { self.mem.node(child) }.base(),
        };
        let below = (rest.skip(STRIDE), left - STRIDE, value);
        // SAFETY: as above.
        let (below, old) = unsafe { self.replace(child, here, below) }?;
        let tail = Tail::from_prefixes(n.prefixes());
        if value == 0 {
            // SAFETY: the caller's promise.
            if let Some(lone) = unsafe { self.sole(node, &tail, Some((slot, &below))) } {
                return Ok((New::Lone(lone), old));
            }
        }
        let new = match self.place(below, here)? {
            0 => here,
            below => CHILD | below,
        };
        // SAFETY: the caller's promise.
        let changed = unsafe { self.node_with(node, slot, new, base, tail) }?;
        Ok((New::Node(changed), old))
    }

    /// One prefix, below nodes that take the bits that are too many for one block.
    fn alone<K: Key>(
        &mut self,
        (rest, left, value): (K, u32, u32),
        base: u32,
    ) -> Result<New, ArenaFull> {
        if let Some(lone) = Lone::new(rest.word(0), left, value) {
            return Ok(New::Lone(lone));
        }
        let below = self.alone_below((rest, left, value), 0)?;
        let slot = rest.top(STRIDE);
        let made = self.node_of_one(slot, CHILD | below, base, Tail::default())?;
        Ok(New::Node(made))
    }

    /// The block of one prefix that is longer than a stride, in the slot of a node above.
    pub(crate) fn alone_below<K: Key>(
        &mut self,
        (rest, left, value): (K, u32, u32),
        base: u32,
    ) -> Result<u32, ArenaFull> {
        let new = self.alone((rest.skip(STRIDE), left - STRIDE, value), base)?;
        self.place(new, base)
    }

    /// The block of one prefix.
    pub(crate) fn one<K: Key>(
        &mut self,
        prefix: (K, u32, u32),
        base: u32,
    ) -> Result<u32, ArenaFull> {
        let new = self.alone(prefix, base)?;
        self.place(new, base)
    }

    /// As [`replace`](Self::replace), where a lone prefix with this block is.
    fn replace_lone<K: Key>(
        &mut self,
        (lone, block): (Lone, Block),
        base: u32,
        (rest, left, value): (K, u32, u32),
    ) -> Replaced {
        if lone.len() == left && lone.matches(rest.word(0)) {
            if lone.value == value {
                return Err(Stop::Same(value));
            }
            self.gone.push(block);
            let new = match value {
                0 => New::Node(0),
                _ => New::Lone(Lone { value, ..lone }),
            };
            return Ok((new, lone.value));
        }
        if value == 0 {
            return Err(Stop::Same(0));
        }
        self.gone.push(block);
        let other = (K::from_word(lone.bits(), 0), lone.len(), lone.value);
        let both = if lone.len() < left {
            [other, (rest, left, value)]
        } else {
            [(rest, left, value), other]
        };
        Ok((New::Node(self.pair(both, base)?), 0))
    }

    /// A node with two prefixes, of which the first is not longer than the second.
    fn pair<K: Key>(&mut self, both: [(K, u32, u32); 2], base: u32) -> Result<u32, ArenaFull> {
        let [a, b] = both;
        let slot = a.0.top(STRIDE);
        if a.1 > STRIDE && slot == b.0.top(STRIDE) {
            let below = both.map(|(rest, left, value)| (rest.skip(STRIDE), left - STRIDE, value));
            let below = self.pair(below, 0)?;
            return self.node_of_one(slot, CHILD | below, base, Tail::default());
        }
        let mut slots = [0; SLOTS];
        let mut ends = [(0, 0); 2];
        let mut count = 0;
        let mut set = Set::default();
        for (rest, left, value) in both {
            if left <= STRIDE {
                let heap = Set::heap(left, rest.top(left));
                set.insert(heap);
                ends[count] = (heap, value);
                count += 1;
                slots[slots_of(heap)].fill(value);
            } else {
                let slot = rest.top(STRIDE);
                slots[slot] = CHILD | self.alone_below((rest, left, value), slots[slot])?;
            }
        }
        ends[..count].sort_unstable();
        let values = ends.map(|(_, value)| value);
        let prefixes = Prefixes {
            set,
            values: &values[..count],
        };
        self.node(&slots, base, Tail::from_prefixes(prefixes))
    }

    /// What a removal leaves of a node, when that is one prefix which no node needs. The node's own
    /// prefixes are those of `tail`, and `changed` is the slot where something else is below now.
    /// The blocks that the prefix then leaves are unlinked.
    ///
    /// # Safety
    /// `node` is live.
    unsafe fn sole(
        &mut self,
        node: u32,
        tail: &Tail<'_>,
        changed: Option<(usize, &New)>,
    ) -> Option<Lone> {
        if tail.set.len() > 1 {
            return None;
        }
        // SAFETY: the caller's promise.
        let n = unsafe { self.mem.node(node) };
        let except = changed.map(|(slot, _)| slot);
        let mut others = n.children().filter(|&(slot, _)| Some(slot) != except);
        let other = others.next();
        if others.next().is_some() {
            return None;
        }
        let below = match changed {
            None | Some((_, New::Node(0))) => None,
            Some((slot, New::Lone(lone))) => Some((slot, lone)),
            Some((_, New::Node(_))) => return None,
        };
        let lone = match (tail.set.iter().next(), other, below) {
            (Some(heap), None, None) => Lone::of_node(heap, tail.first()?)?,
            (None, None, Some((slot, lone))) => lone.seen_above(slot)?,
            (None, Some((slot, child)), None) => {
                // SAFETY: a live node's children are live.
                let child_node = unsafe { self.mem.node(child) };
                let lone = child_node.sole()?.seen_above(slot)?;
                self.gone.push(child_node.block(child));
                lone
            }
            _ => return None,
        };
        self.gone.push(n.block(node));
        Some(lone)
    }

    /// As [`replace`](Self::replace), for a prefix that ends inside this node.
    ///
    /// # Safety
    /// `node` is live, and no lone prefix.
    unsafe fn change_here(&mut self, node: u32, base: u32, heap: usize, value: u32) -> Replaced {
        // SAFETY: the caller's promise.
        let n = unsafe { self.mem.node(node) };
        let Prefixes { mut set, values } = n.prefixes();
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
        if value == 0 {
            // SAFETY: the caller's promise.
            if let Some(lone) = unsafe { self.sole(node, &tail, None) } {
                return Ok((New::Lone(lone), old));
            }
        }
        let slots = slots_of(heap);
        if slots.len() == 1 {
            let cell = n.slot(slots.start);
            let cell = self.with_base(cell, seen)?;
            // SAFETY: the caller's promise.
            let made = unsafe { self.node_with(node, slots.start, cell, base, tail) }?;
            return Ok((New::Node(made), old));
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
            return Ok((New::Node(0), old));
        }
        Ok((New::Node(self.node(&cells, base, tail)?), old))
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
