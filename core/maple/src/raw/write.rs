//! Changes. A change makes a draft, takes blocks, writes the new nodes, makes them visible with one
//! store, and retires the nodes that they replace.

use core::mem::ManuallyDrop;

use sapwood_arena::ArenaFull;

use super::below::subtree;
use super::draft::{Cut, Outcome};
use super::node::{INNER, Inner, LEAF, Leaf, VALUE};
use super::path::Root;
use super::space::{Held, no_heap};
use super::table::{Drafted, MapleShared, Writer};
use super::values::{Apart, Values};
use crate::garbage::Block;
use sapwood_format::maple::word::Word;
use sapwood_qsbr::GarbageLimit;

/// An error that says what was refused.
pub(crate) trait Refusal: From<ArenaFull> + From<GarbageLimit> {}

impl<E: From<ArenaFull> + From<GarbageLimit>> Refusal for E {}

/// The source of a change's blocks.
pub(crate) enum Supply<'a> {
    /// The arena; the change fails when it has none left.
    Arena,
    /// Blocks of exactly the sizes that the draft asks for: values first, then nodes.
    Exact(&'a mut Vec<Held>),
    /// The blocks that are held for stores whose ranges were not known.
    Unknown,
}

/// The memory that a planned change takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost<W> {
    pub(crate) nodes: usize,
    pub(crate) values: usize,
    pub(crate) bytes: usize,
    /// The draft of the change.
    pub(crate) draft: Option<Drafted<W>>,
}

impl<V, W: Word> MapleShared<V, W> {
    /// Drafts the change that makes `a..=b` one entry (`put`), or a gap.
    pub(crate) fn draft(&self, writer: &mut Writer<V, W>, range: (W, W), put: bool) {
        writer.drafts += 1;
        writer.newest = Some(Drafted {
            number: writer.drafts,
            range,
            put,
        });
        let mem = writer.mem();
        let Writer {
            draft,
            root,
            limits,
            ..
        } = writer;
        // SAFETY: the tree is the writer's, which is borrowed; what it reaches is live.
        unsafe {
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
            if self.published.native {
                make_native(draft, mem, *root, limits, range, put);
            } else {
                draft.make::<false>(mem, *root, limits, range, put);
            }
            #[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(miri))))]
            draft.make::<false>(mem, *root, limits, range, put);
        }
        if writer.txn.is_some() {
            writer.draft.copy_up(true);
        } else if writer.kept {
            writer.kept = self.versions().snapshots() > 0;
            if writer.kept {
                writer.draft.copy_up(false);
            }
        }
    }

    /// The memory that the draft takes.
    pub(crate) fn cost(&self, writer: &Writer<V, W>, put: bool) -> Cost<W> {
        let values = match (self.published.values, writer.draft.outcome) {
            (Values::InSlots, _) | (_, Outcome::Same) => 0,
            _ => usize::from(put) + usize::from(writer.draft.cut.is_some()),
        };
        let mut cost = Cost {
            nodes: 0,
            values,
            bytes: values * Apart::<V>::BYTES,
            draft: writer.newest,
        };
        for bytes in writer.draft.sizes(&writer.limits) {
            cost.nodes += 1;
            cost.bytes += bytes;
        }
        cost
    }

    /// Whether this is the newest draft and was not carried out yet: then nothing has changed
    /// since. A draft of another map with the same number is of the same change, so it does no
    /// harm.
    pub(crate) fn is_newest(writer: &Writer<V, W>, draft: Option<Drafted<W>>) -> bool {
        draft.is_some() && writer.newest == draft
    }

    /// Holds the blocks that the draft takes, room for its garbage below the limit, and room in the
    /// lists, so that carrying the draft out takes nothing from the process's heap.
    /// [`drop_held`](Self::drop_held) gives back what the change did not use.
    pub(crate) fn hold<E: Refusal>(
        &self,
        writer: &mut Writer<V, W>,
        put: bool,
        dropped: &mut Vec<V>,
    ) -> Result<Vec<Held>, E> {
        let held = self.hold_all(writer, put, dropped);
        if held.is_err() {
            writer.space.garbage.release();
        }
        held
    }

    fn hold_all<E: Refusal>(
        &self,
        writer: &mut Writer<V, W>,
        put: bool,
        dropped: &mut Vec<V>,
    ) -> Result<Vec<Held>, E> {
        let cost = self.cost(writer, put);
        self.tidy(writer, dropped);
        self.list_gone(writer);
        let bytes = self.gone_bytes(writer);
        self.admit(writer, bytes, dropped)?;
        self.hold_more(writer)?;
        self.room_in_txn(writer)?;
        let (made, left) = (cost.values + cost.nodes, writer.gone.len());
        writer.space.room_for_garbage(left)?;
        let mut held = Vec::new();
        held.try_reserve_exact(made)
            .and_then(|()| writer.nodes.try_reserve(made))
            .map_err(|refused| no_heap(refused, made * size_of::<Held>()))?;
        let Writer {
            space,
            draft,
            limits,
            ..
        } = writer;
        let mut result = Ok(());
        for _ in 0..cost.values {
            result = result.and_then(|()| space.hold_value().map(|block| held.push(block)));
        }
        for bytes in draft.sizes(limits) {
            let area = sapwood_arena::Area::Nodes;
            result = result.and_then(|()| space.hold(bytes, area).map(|block| held.push(block)));
        }
        match result {
            Ok(()) => Ok(held),
            Err(full) => {
                self.drop_held(writer, &mut held);
                Err(full.into())
            }
        }
    }

    /// Gives back what is left of blocks that were held, and of room for garbage.
    pub(crate) fn drop_held(&self, writer: &mut Writer<V, W>, held: &mut Vec<Held>) {
        for block in held.drain(..) {
            // SAFETY: held, and not used.
            unsafe { writer.space.drop_held(block) };
        }
        writer.space.garbage.release();
    }

    /// Holds more blocks, so that those for later stores suffice after a store that takes none of
    /// them.
    fn hold_more(&self, writer: &mut Writer<V, W>) -> Result<(), ArenaFull> {
        // A map without leaves needs no more than it did before.
        if !writer.unknown.is_held() || matches!(writer.draft.outcome, Outcome::Empty) {
            return Ok(());
        }
        writer.hold_unknown(0)
    }

    /// Lists the blocks that the draft unlinks.
    fn list_gone(&self, writer: &mut Writer<V, W>) {
        let mem = writer.mem();
        let Writer { draft, gone, .. } = writer;
        let apart = self.published.values == Values::Apart;
        let slot = self.published.slot;
        gone.clear();
        // SAFETY: the nodes that the draft names are live and of these levels.
        unsafe {
            for &(node, level) in &draft.gone {
                gone.push(block::<W>(mem, node, level));
            }
            if apart {
                let values = draft.dropped.iter();
                gone.extend(values.map(|at| Block::new(at.cast::<u32>().read(), VALUE, 0)));
            }
            for span in &draft.spans {
                let parent = Inner::<W>::at(mem.at(span.parent));
                for i in span.from..span.to {
                    let child = parent.child(i);
                    subtree::<W>(mem, child, span.level - 1, &mut |node, level| {
                        gone.push(block::<W>(mem, node, level));
                        if level == 0 && apart {
                            let leaf = Leaf::<W>::at(mem.at(node));
                            let values = (0..leaf.len()).map(|k| leaf.slot(k, slot).cast::<u32>());
                            gone.extend(values.map(|at| Block::new(at.read(), VALUE, 0)));
                        }
                    });
                }
            }
        }
    }

    fn gone_bytes(&self, writer: &Writer<V, W>) -> usize {
        let Writer { gone, space, .. } = writer;
        gone.iter().map(|&block| space.bytes(block)).sum()
    }
}

impl<V: Clone, W: Word> MapleShared<V, W> {
    /// Makes `a..=b` one entry with the value, or a gap without one. On an error nothing has
    /// changed, and the value is given back.
    pub(crate) fn change<E: Refusal>(
        &self,
        writer: &mut Writer<V, W>,
        range: (W, W),
        value: Option<V>,
        dropped: &mut Vec<V>,
    ) -> Result<(), (Option<V>, E)> {
        self.draft(writer, range, value.is_some());
        if let Outcome::Same = writer.draft.outcome {
            return Ok(());
        }
        self.list_gone(writer);
        if self.domain().hard_limit().is_some() || self.domain().over_soft_limit() {
            let bytes = self.gone_bytes(writer);
            if let Err(limit) = self.admit(writer, bytes, dropped) {
                return Err((value, limit.into()));
            }
        }
        let room = self.hold_more(writer);
        let done = match room.and_then(|()| self.room_in_txn(writer)) {
            Ok(()) => self.carry_out(writer, value, Supply::Arena),
            Err(full) => Err((value, full)),
        };
        writer.space.garbage.release();
        done.map_err(|(value, full)| (value, full.into()))?;
        self.tidy(writer, dropped);
        Ok(())
    }

    /// As [`change`](Self::change), with blocks of the newest draft that were held; cannot fail,
    /// and takes nothing from the process's heap.
    pub(crate) fn change_held(
        &self,
        writer: &mut Writer<V, W>,
        value: Option<V>,
        held: &mut Vec<Held>,
    ) {
        if let Outcome::Same = writer.draft.outcome {
            return;
        }
        self.list_gone(writer);
        let done = self.carry_out(writer, value, Supply::Exact(held));
        assert!(done.is_ok(), "held blocks are enough");
    }

    /// As [`change`](Self::change), with blocks that are held for ranges that were not known;
    /// cannot fail, and takes nothing from the process's heap.
    pub(crate) fn change_unknown(
        &self,
        writer: &mut Writer<V, W>,
        range: (W, W),
        value: Option<V>,
    ) {
        self.draft(writer, range, value.is_some());
        if !matches!(writer.draft.outcome, Outcome::Same) {
            self.list_gone(writer);
            let done = self.carry_out(writer, value, Supply::Unknown);
            assert!(done.is_ok(), "held blocks are enough");
        }
        let Writer { space, unknown, .. } = writer;
        unknown.release(space, 1);
    }

    /// Carries out the newest draft.
    fn carry_out(
        &self,
        writer: &mut Writer<V, W>,
        value: Option<V>,
        mut supply: Supply<'_>,
    ) -> Result<(), (Option<V>, ArenaFull)> {
        writer.newest = None;
        // A panic of the map's user comes before anything is done. In slots, a clone is the same
        // bytes.
        let apart = self.published.values == Values::Apart;
        let copy = match writer.draft.cut {
            Some(Cut { slot, start }) if apart || self.split.shifts() => {
                // SAFETY: the slot of a live entry, which has a live value, or refers to one.
                let value = unsafe {
                    match apart {
                        true => {
                            let r = slot.cast::<u32>().read();
                            &*Apart::<V>::place(writer.mem().at(r))
                        }
                        false => &*slot.cast::<V>(),
                    }
                };
                let (_, end) = writer.draft.range;
                self.split.at_offset(value, end + W::ONE - start)
            }
            _ => None,
        };
        let value = match self.find_blocks(writer, &mut supply, value.is_some(), copy.is_some()) {
            Ok(()) => value.map(ManuallyDrop::new),
            Err(full) => return Err((value, full)),
        };
        let mem = writer.mem();
        let mut values = writer.nodes.iter().copied();
        let mut new = 0_u32;
        let clone: u32;
        let mut new_at = (&raw const new).cast::<u8>();
        if let Some(value) = &value {
            if apart {
                new = values.next().unwrap_or(0);
                new_at = (&raw const new).cast();
                // SAFETY: a new block for a value, which takes the value over.
                unsafe {
                    let value: *const V = &raw const **value;
                    Apart::<V>::place(mem.at(new)).copy_from_nonoverlapping(value, 1);
                }
            } else {
                new_at = (&raw const **value).cast();
            }
        }
        let copy = copy.map(ManuallyDrop::new);
        let mut clone_at = match (&copy, writer.draft.cut) {
            (Some(copy), _) => (&raw const **copy).cast(),
            (None, Some(cut)) => cut.slot,
            (None, None) => core::ptr::null(),
        };
        if let (Some(copy), true) = (&copy, apart) {
            clone = values.next().unwrap_or(0);
            clone_at = (&raw const clone).cast();
            // SAFETY: a new block for a value, which takes the value over.
            unsafe {
                let copy: *const V = &raw const **copy;
                Apart::<V>::place(mem.at(clone)).copy_from_nonoverlapping(copy, 1);
            }
        }
        let made = writer.nodes.len() - values.len();
        for value in writer.nodes.drain(..made) {
            if let Some(txn) = &mut writer.txn {
                txn.made(value);
            }
        }
        // SAFETY: the blocks are of the draft's sizes; the slots' bytes are there until this
        // returns.
        unsafe {
            let Writer {
                draft,
                nodes,
                limits,
                ..
            } = &*writer;
            writer.len += draft.write(mem, limits, nodes, (new_at, clone_at));
            self.publish(writer);
        }
        Ok(())
    }

    /// Takes the blocks of the draft, those of values first, and puts them into `nodes`.
    fn find_blocks(
        &self,
        writer: &mut Writer<V, W>,
        supply: &mut Supply<'_>,
        put: bool,
        copied: bool,
    ) -> Result<(), ArenaFull> {
        let values = match self.published.values {
            Values::Apart => usize::from(put) + usize::from(copied),
            _ => 0,
        };
        let Writer {
            space,
            draft,
            nodes,
            unknown,
            limits,
            ..
        } = writer;
        nodes.clear();
        let leaves = draft.leaves.len();
        let kind_of = |i: usize| {
            if i < values {
                VALUE
            } else if i < values + leaves {
                LEAF
            } else {
                INNER
            }
        };
        let sizes = core::iter::repeat_n(Apart::<V>::BYTES, values).chain(draft.sizes(limits));
        match supply {
            Supply::Arena => {
                for (i, bytes) in sizes.enumerate() {
                    match space.alloc(bytes, kind_of(i)) {
                        Ok(r) => nodes.push(r),
                        Err(full) => {
                            let made = core::iter::repeat_n(Apart::<V>::BYTES, values);
                            let made = made.chain(draft.sizes(limits)).zip(nodes.drain(..));
                            for (i, (bytes, r)) in made.enumerate() {
                                // SAFETY: a block that was made just now and is linked nowhere.
                                unsafe { space.free(r, bytes, kind_of(i)) };
                            }
                            return Err(full);
                        }
                    }
                }
            }
            Supply::Exact(held) => {
                let count = values + draft.sizes(limits).count();
                assert_eq!(held.len(), count, "what is held is what the draft takes");
                for (i, (bytes, block)) in sizes.zip(held.drain(..)).enumerate() {
                    // SAFETY: held, and used once.
                    nodes.push(unsafe { space.use_held(block, bytes, kind_of(i)) });
                }
            }
            Supply::Unknown => {
                for (i, bytes) in sizes.enumerate() {
                    let block = if i < values {
                        unknown.value()
                    } else {
                        unknown.node()
                    };
                    // SAFETY: held, and used once.
                    nodes.push(unsafe { space.use_held(block, bytes, kind_of(i)) });
                }
            }
        }
        space.made += (nodes.len() - values) as u64;
        Ok(())
    }
}

impl<V, W: Word> MapleShared<V, W> {
    /// Makes the draft's nodes visible and retires the nodes that they replace.
    ///
    /// # Safety
    /// They are written.
    unsafe fn publish(&self, writer: &mut Writer<V, W>) {
        if writer.txn.is_some() {
            // SAFETY: the caller's promise.
            return unsafe { self.link(writer) };
        }
        match writer.draft.outcome {
            Outcome::Same => return,
            Outcome::Empty => {
                writer.root = Root::EMPTY;
                self.publish_root(writer);
            }
            Outcome::Root { node, height } => {
                writer.root = Root {
                    node: writer.draft.top(&writer.nodes, node),
                    height,
                };
                self.publish_root(writer);
            }
            Outcome::Cell { level, node } => {
                let new = writer.draft.top(&writer.nodes, node);
                let path = &writer.draft.path;
                // Gap words never understate a gap: they grow before the store, and shrink
                // afterwards.
                path.raise_gaps(level, node.gap);
                path.inner(level).set_child(path.index(level), new);
                path.settle_gaps(level, node.gap);
            }
        }
        if writer.kept {
            let bytes = self.gone_bytes(writer);
            let mut versions = self.versions().lock();
            versions.publish();
            versions.retire(bytes);
        }
        let mem = writer.mem();
        let mut gone = core::mem::take(&mut writer.gone);
        for block in gone.drain(..) {
            match block.kind() {
                // SAFETY: live until now; retired only below.
                LEAF => writer.len -= unsafe { Leaf::<W>::at(mem.at(block.at())) }.len(),
                // SAFETY: as above.
                INNER => unsafe { Inner::<W>::at(mem.at(block.at())) }.set_replaced(),
                _ => {}
            }
            writer.space.leave(block);
        }
        writer.gone = gone;
        self.publish_len(writer);
    }
}

/// # Safety
/// As for `Draft::make`; the processor has what `has_native` asks for.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) unsafe fn make_native<W: Word>(
    draft: &mut super::draft::Draft<W>,
    mem: super::node::Mem,
    root: Root,
    limits: &super::entries::Limits,
    range: (W, W),
    put: bool,
) {
    // SAFETY: the caller's promise.
    unsafe { draft.make::<true>(mem, root, limits, range, put) };
}

/// # Safety
/// The node is live, and of this level.
unsafe fn block<W: Word>(mem: super::node::Mem, node: u32, level: usize) -> Block {
    // SAFETY: the caller's promise.
    unsafe {
        if level == 0 {
            Block::new(node, LEAF, Leaf::<W>::at(mem.at(node)).bytes())
        } else {
            Block::new(node, INNER, Inner::<W>::at(mem.at(node)).bytes())
        }
    }
}
