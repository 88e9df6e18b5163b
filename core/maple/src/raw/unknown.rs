//! Blocks for stores whose ranges are not known yet: the most that each may need.
//!
//! A store makes at most `leaves` leaves, and at each level above as many nodes as the children of
//! two nodes and the new children between them fill. The number of leaves bounds the number of
//! levels by then, as nodes are at least half full. Another store that would raise that bound
//! reserves more before it does anything.

use sapwood_arena::{Area, ArenaFull, MAX_UNITS, UNIT};

use super::entries::Limits;
use super::node::leaf_holds;
use super::space::{Held, Space, no_heap};
use super::table::Writer;
use crate::garbage::Block;
use sapwood_format::maple::word::Word;

impl<V, W: Word> Writer<V, W> {
    /// As [`Unknown::ensure`], and makes room in every list that these stores use: they then take
    /// nothing from the process's heap.
    pub(crate) fn hold_unknown(&mut self, more: usize) -> Result<(), ArenaFull> {
        let leaves = self.leaves();
        let Writer { space, unknown, .. } = self;
        unknown.ensure(space, leaves, more)?;
        let result = self.room_for_unknown();
        if result.is_err() {
            let Writer { space, unknown, .. } = self;
            unknown.release(space, more);
        }
        result
    }

    fn room_for_unknown(&mut self) -> Result<(), ArenaFull> {
        let Writer {
            space,
            unknown,
            draft,
            limits,
            nodes,
            gone,
            ..
        } = self;
        let (height, leaves) = (unknown.height, unknown.leaves);
        let made = unknown.worst(height) + 2;
        // Blocks that these stores retire exist now, or one of these stores or another change makes
        // them.
        let blocks = space.in_use() + (unknown.stores + 1) * made;
        space.room_for_garbage(blocks)?;
        draft
            .reserve(limits, height, leaves)
            .and_then(|()| nodes.try_reserve(made.saturating_sub(nodes.len())))
            .and_then(|()| gone.try_reserve(blocks.saturating_sub(gone.len())))
            .map_err(|refused| no_heap(refused, blocks * size_of::<Block>()))
    }
}

/// The blocks that are held for later stores.
pub(crate) struct Unknown {
    /// Stores that are left.
    pub(crate) stores: usize,
    /// Levels above the leaves that the blocks are enough for.
    height: usize,
    nodes: Vec<Held>,
    values: Vec<Held>,
    /// The most leaves that one store makes.
    leaves: usize,
    fanout: usize,
    bytes: usize,
    /// Values lie apart.
    apart: bool,
}

impl Unknown {
    pub(crate) fn new<W: Word>(limits: &Limits, apart: bool) -> Self {
        // The entries of two leaves, and the new one. One of the leaves may be the neighbour of a
        // leaf with too few.
        let entries = 2 * leaf_holds::<W>(limits.leaf, limits.slot, 1) + 2;
        Unknown {
            stores: 0,
            height: 0,
            nodes: Vec::new(),
            values: Vec::new(),
            leaves: entries.div_ceil(leaf_holds::<W>(limits.leaf, limits.slot, W::WIDEST)) + 1,
            fanout: limits.fanout,
            bytes: limits.largest::<W>(),
            apart,
        }
    }

    /// The most nodes that a store makes in a tree with `height` levels above the leaves.
    fn worst(&self, height: usize) -> usize {
        // One leaf more may stay as it is, with new bounds.
        let mut level = self.leaves + 1;
        let mut nodes = self.leaves;
        for _ in 0..height {
            level = (2 * (self.fanout - 1) + level).div_ceil(self.fanout);
            nodes += level;
        }
        while level > 1 {
            level = level.div_ceil(self.fanout);
            nodes += level;
        }
        nodes
    }

    /// The most levels above the leaves, after `stores` stores.
    fn bound(&self, leaves: usize, stores: usize) -> usize {
        // A root has two children or more, every other node at least the least.
        let mut nodes = (leaves + self.leaves * stores) / 2;
        let mut height = 1;
        let least = self.fanout / 2;
        while nodes >= least {
            nodes /= least;
            height += 1;
        }
        height
    }

    /// Holds enough blocks for `more` further stores, and for those that blocks are held for
    /// already, also after one store that takes none of these blocks.
    pub(crate) fn ensure(
        &mut self,
        space: &mut Space,
        leaves: usize,
        more: usize,
    ) -> Result<(), ArenaFull> {
        // The sum saturates: an arena has fewer units, so the request is refused below.
        let stores = self.stores.saturating_add(more);
        if stores > MAX_UNITS as usize {
            return Err(ArenaFull::new(
                stores.saturating_mul(self.bytes),
                MAX_UNITS as usize * UNIT,
            ));
        }
        let height = self.height.max(self.bound(leaves + self.leaves, stores));
        let (nodes, values) = (self.nodes.len(), self.values.len());
        let wanted = stores * self.worst(height);
        let mut result = self.room(space, stores, height);
        while result.is_ok() && self.nodes.len() < wanted {
            result = space
                .hold(self.bytes, Area::Nodes)
                .map(|held| self.nodes.push(held));
        }
        while result.is_ok() && self.apart && self.values.len() < 2 * stores {
            result = space.hold_value().map(|held| self.values.push(held));
        }
        if result.is_err() {
            self.shrink_to(space, nodes, values);
        } else {
            self.stores = stores;
            self.height = height;
        }
        result
    }

    /// Makes room in the lists of held blocks, and in the pool that they are given back to.
    fn room(&mut self, space: &mut Space, stores: usize, height: usize) -> Result<(), ArenaFull> {
        let nodes = stores * self.worst(height);
        let values = if self.apart { 2 * stores } else { 0 };
        // No arena has more blocks of this size.
        let most = MAX_UNITS as usize / (self.bytes / UNIT);
        for (list, count) in [(&mut self.nodes, nodes), (&mut self.values, values)] {
            let more = count.min(most).saturating_sub(list.len());
            list.try_reserve(more)
                .map_err(|refused| no_heap(refused, more * size_of::<Held>()))?;
        }
        space.room_to_keep(self.bytes, Area::Nodes, nodes)?;
        if self.apart {
            space.room_to_keep(space.value_bytes(), Area::Leaves, values)?;
        }
        Ok(())
    }

    /// The number of blocks that are held.
    pub(crate) fn held(&self) -> usize {
        self.nodes.len() + self.values.len()
    }

    /// Whether a store that takes none of the held blocks needs [`ensure`](Self::ensure) before.
    pub(crate) fn is_held(&self) -> bool {
        self.stores > 0
    }

    fn shrink_to(&mut self, space: &mut Space, nodes: usize, values: usize) {
        for held in self.nodes.drain(nodes.min(self.nodes.len())..) {
            // SAFETY: held, and not used.
            unsafe { space.drop_held(held) };
        }
        for held in self.values.drain(values.min(self.values.len())..) {
            // SAFETY: as above.
            unsafe { space.drop_held(held) };
        }
    }

    /// Gives back the blocks that are not needed when there are `stores` fewer stores to come.
    pub(crate) fn release(&mut self, space: &mut Space, stores: usize) {
        self.stores -= stores;
        if self.stores == 0 {
            self.height = 0;
        }
        let nodes = self.stores * self.worst(self.height);
        self.shrink_to(space, nodes, 2 * self.stores);
    }

    /// A block for a node.
    pub(crate) fn node(&mut self) -> Held {
        match self.nodes.pop() {
            Some(held) => held,
            None => unreachable!("as many are held as a store can need"),
        }
    }

    /// A block for a value.
    pub(crate) fn value(&mut self) -> Held {
        match self.values.pop() {
            Some(held) => held,
            None => unreachable!("a store makes two values at most"),
        }
    }
}
