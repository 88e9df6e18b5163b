//! A table: what readers see, the writer behind its lock, versions and snapshots.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::Hash;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use sapwood_arena::{Area, Arena, ArenaFull, ArenaOptions, Ref};
use sapwood_qsbr::{Domain, GarbageLimit, Guard, RetireQueue};

use super::blocks::{Block, Blocks};
use super::build::Entry;
use super::change::Stop;
use super::node::{Mem, ROOT, VALUE, Word};
use super::read::{Copied, Published, Reading, has_native};
use super::root::{Open, Over, Overlay, Root, Target};
use super::values::{self, Values};
use super::view::View;
use crate::lpm::family::Key;
use crate::sync::{self, Mutex, MutexGuard};

/// A single change waits until so many blocks can be handed to the grace period together.
const SEAL: usize = 64;

/// What all handles of a table share.
pub(crate) struct Shared<V> {
    mem: Mem,
    /// The block of the root.
    root: u32,
    bits: u32,
    native: bool,
    /// The first shelf, or 0; of its own line, as the writer stores to it.
    shelf: CachePadded<AtomicU32>,
    len: AtomicUsize,
    domain: Domain,
    writer: Mutex<Writer<V>>,
    versions: Mutex<Versions>,
}

// SAFETY: `mem` is the arena's, which the writer owns; readers use it only to read published blocks.
unsafe impl<V: Send + Sync> Send for Shared<V> {}
// SAFETY: as above; `&V` goes to other threads (Sync), and the thread that reclaims drops (Send).
unsafe impl<V: Send + Sync> Sync for Shared<V> {}

/// Versions, and those that snapshots keep.
#[derive(Default)]
struct Versions {
    /// The newest version. Root words are stored under this lock, so that a snapshot copies one version.
    current: u64,
    /// Snapshots by version.
    live: BTreeMap<u64, usize>,
}

/// The writing side, behind its lock.
pub(crate) struct Writer<V> {
    pub(crate) blocks: Blocks,
    pub(crate) values: Values<V>,
    queue: RetireQueue<Block>,
    /// Blocks that the change or the open transaction does without, with their bytes.
    retired: Vec<(Block, usize)>,
    retired_bytes: usize,
    /// Blocks that the newest versions do without, and that are not in the queue yet: it takes many at once.
    left: Vec<(Block, usize)>,
    left_bytes: usize,
    /// Values that it gave to prefixes and took from them.
    taken: Vec<u32>,
    given: Vec<u32>,
    overlay: Overlay,
    /// The shelf and the number of prefixes as the open transaction has them.
    shelf: u32,
    len: usize,
    /// Where an incremental compaction goes on.
    pub(crate) compaction: super::compact::Compaction,
}

// SAFETY: what the blocks' pointer reaches is the arena's, which the writer owns.
unsafe impl<V: Send> Send for Writer<V> {}

/// What became of an insertion.
pub(crate) type Put<V> = Result<Option<u32>, (V, crate::Error)>;

impl<V: Eq + Hash> Writer<V> {
    fn new(arena: Arena, domain: &Domain, seed: u64) -> Self {
        Writer {
            blocks: Blocks::new(arena),
            values: Values::new(seed),
            queue: RetireQueue::new(domain),
            retired: Vec::new(),
            retired_bytes: 0,
            left: Vec::new(),
            left_bytes: 0,
            taken: Vec::new(),
            given: Vec::new(),
            overlay: Overlay::default(),
            shelf: 0,
            len: 0,
            compaction: Default::default(),
        }
    }

    /// Gives a prefix a value (0: takes it away; it was there). Nothing is visible yet but, for a prefix that ends inside
    /// the root, its words in the target, and only when this succeeds.
    ///
    /// `admit` is asked about the bytes that would be retired before anything is.
    fn apply<K: Key>(
        &mut self,
        target: &mut impl Target,
        bits: u32,
        (key, len): (K, u8),
        value: u32,
        admit: impl FnOnce(&mut Self, usize) -> Result<(), GarbageLimit>,
    ) -> Result<u32, crate::Error> {
        let len = u32::from(len);
        let slot = key.top(bits);
        let made = if len > bits {
            let child = target.get(slot).child();
            // SAFETY: a word's child is 0 or live.
            unsafe {
                self.blocks
                    .change(child, 0, key.skip(bits), len - bits, value)
            }
        } else {
            // SAFETY: the shelf is 0 or live.
            unsafe { self.blocks.change_shelf(self.shelf, key, len, value) }
        };
        let (new, old) = match made {
            Ok(made) => made,
            Err(Stop::Same(old)) => return Ok(old),
            Err(Stop::Full(full)) => {
                self.blocks.undo();
                return Err(full.into());
            }
        };
        let bytes = self.gone_bytes();
        if let Err(limit) = admit(self, bytes) {
            self.blocks.undo();
            return Err(limit.into());
        }
        if len > bits {
            target.set(slot, target.get(slot).with_child(new));
        } else {
            self.shelf = new;
            let (mark, seen) = match value {
                0 => self.cover(key, len),
                _ => (len + 1, value),
            };
            for slot in slot..slot + (1 << (bits - len)) {
                let word = target.get(slot);
                // Slots that a longer prefix covers are not ours.
                if word.mark() <= len + 1 {
                    target.set(slot, word.with_value(mark, seen));
                }
            }
        }
        self.leave_gone();
        self.book(old, value);
        Ok(old)
    }

    /// Bytes that would be retired if the change under way were made.
    fn gone_bytes(&self) -> usize {
        let gone = self.blocks.gone.iter();
        // SAFETY: what is gone is live still.
        let stays = |b: &&Block| !self.blocks.marks || unsafe { !self.blocks.is_fresh(**b) };
        gone.filter(stays).map(|b| b.bytes()).sum()
    }

    /// The change is made: what it does without is retired, or freed where nobody saw it.
    fn leave_gone(&mut self) {
        self.blocks.made.clear();
        let mut gone = core::mem::take(&mut self.blocks.gone);
        for block in gone.drain(..) {
            if !self.blocks.marks {
                self.leave(block, block.bytes());
            // SAFETY: live until now, and what the transaction made was seen by nobody.
            } else if unsafe { self.blocks.is_fresh(block) } {
                // SAFETY: as above; unlinked just now.
                unsafe { self.blocks.free(block) };
            } else {
                self.retired.push((block, block.bytes()));
                self.retired_bytes += block.bytes();
            }
        }
        self.blocks.gone = gone;
    }

    /// A block that the newest version does without.
    #[inline]
    fn leave(&mut self, block: Block, bytes: usize) {
        self.blocks.arena.retire(bytes, block.kind());
        self.left_bytes += bytes;
        self.left.push((block, bytes));
    }

    /// Mark and value of the longest prefix that is shorter than this one, which ends inside the root.
    fn cover<K: Key>(&self, key: K, len: u32) -> (u32, u32) {
        let mut best = (0, 0);
        let Some(most) = len.checked_sub(1) else {
            return best;
        };
        let reading = Reading {
            mem: self.blocks.mem,
            words: Copied {
                words: &[],
                shelf: self.shelf,
            },
            bits: 0,
            native: false,
        };
        reading.on_shelves(key, most as u8, |(len, value)| {
            best = (u32::from(len) + 1, value);
        });
        best
    }

    /// A version was published: what it does without has been left behind, and goes to the queue when it is much.
    fn settle(&mut self, version: u64) {
        let mut taken = core::mem::take(&mut self.taken);
        for value in taken.drain(..) {
            if self.values.release(self.blocks.mem, value) {
                self.leave(Block::value(value), values::bytes::<V>());
            }
        }
        self.taken = taken;
        let mut retired = core::mem::take(&mut self.retired);
        for (block, bytes) in retired.drain(..) {
            self.leave(block, bytes);
        }
        self.retired = retired;
        self.retired_bytes = 0;
        self.given.clear();
        if self.left.len() >= SEAL {
            self.queue_left(version);
        }
    }

    /// Hands what was left behind to the queue, under the number of a version that does without it.
    fn queue_left(&mut self, version: u64) {
        self.left_bytes = 0;
        self.queue.extend(self.left.drain(..));
        self.queue.seal_tagged(version);
    }

    /// Blocks and bytes that wait for readers and snapshots.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let (len, bytes) = (self.left.len(), self.left_bytes);
        (self.queue.len() + len, self.queue.bytes() + bytes)
    }

    /// Prefixes, the open transaction's included.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn shelf(&self) -> u32 {
        self.shelf
    }
}

impl<V: Eq + Hash> Shared<V> {
    /// An empty table with a root of so many bits.
    pub(crate) fn new(
        options: ArenaOptions,
        bits: u32,
        domain: Domain,
        seed: u64,
    ) -> Result<Self, ArenaFull> {
        let mut arena = Arena::new(options);
        let words = 1_usize << bits;
        let root = arena.alloc(words * 8, ROOT, Area::Nodes)?.get();
        let mem = Mem(arena.base());
        // SAFETY: a new block of that size.
        unsafe { mem.hint(root).write_bytes(0, words * 8) };
        Ok(Shared {
            mem,
            root,
            bits,
            native: has_native(),
            shelf: AtomicU32::new(0).into(),
            len: AtomicUsize::new(0),
            writer: Mutex::new(Writer::new(arena, &domain, seed)),
            domain,
            versions: Mutex::default(),
        })
    }
}

impl<V> Shared<V> {
    pub(crate) fn domain(&self) -> &Domain {
        &self.domain
    }

    pub(crate) fn bits(&self) -> u32 {
        self.bits
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Fetches what a change of this prefix will need first, while the caller does something else.
    #[inline]
    pub(crate) fn expect<K: Key>(&self, key: K) {
        let word = self.root().get(key.top(self.bits));
        // A node of a full table has 150 bytes, and its prefixes are at its end.
        let node = self.mem.hint(word.child());
        for line in 0..4 {
            super::read::prefetch(node.wrapping_add(64 * line));
        }
    }

    /// The root, in the hands of whoever holds the writer's lock.
    pub(crate) fn root(&self) -> Root<'_> {
        // SAFETY: the root lives as long as the arena, and is only used as atomics.
        Root(unsafe { core::slice::from_raw_parts(self.mem.root(self.root), 1 << self.bits) })
    }

    /// The newest version, while the guard is held.
    ///
    /// # Panics
    /// When the guard is of another domain.
    #[inline]
    pub(crate) fn view<'g>(&'g self, guard: Guard<'g>) -> View<'g, V, Published<'g>> {
        assert!(
            guard.belongs_to(&self.domain),
            "a guard of the table's own domain"
        );
        // SAFETY: the root lives as long as the table; what its words reach is freed only a grace period after
        // it was unlinked, and the guard holds that grace period back.
        unsafe {
            let words = Published::new(self.mem.root(self.root), &self.shelf);
            View::new(self.reading(words))
        }
    }

    #[inline(always)]
    fn reading<W>(&self, words: W) -> Reading<W> {
        Reading {
            mem: self.mem,
            words,
            bits: self.bits,
            native: self.native,
        }
    }

    /// The table as the open transaction has it.
    fn open<'a>(&'a self, writer: &'a Writer<V>) -> Reading<Open<'a>> {
        self.reading(Open {
            overlay: &writer.overlay,
            root: self.root(),
            shelf: writer.shelf,
        })
    }

    /// As [`open`](Self::open), with values.
    pub(crate) fn open_view<'a>(&'a self, writer: &'a Writer<V>) -> View<'a, V, Open<'a>> {
        // SAFETY: the writer is not changed for `'a`, and nothing that it reaches is freed but by changes to it.
        unsafe { View::new(self.open(writer)) }
    }

    /// The value of a block that [`put`](Self::put) or [`take`](Self::take) gave, while the writer is left alone.
    pub(crate) fn value_of<'a>(&'a self, _: &'a Writer<V>, block: u32) -> &'a V {
        // SAFETY: the block was retired by the writer at the earliest, and frees nothing for `'a`.
        unsafe { values::value(self.mem.hint(block)) }
    }

    pub(crate) fn write(&self) -> MutexGuard<'_, Writer<V>> {
        sync::lock(&self.writer)
    }

    pub(crate) fn try_write(&self) -> Option<MutexGuard<'_, Writer<V>>> {
        sync::try_lock(&self.writer)
    }

    /// The number of the newest version.
    pub(crate) fn version(&self) -> u64 {
        sync::lock(&self.versions).current
    }

    /// How many snapshots there are.
    pub(crate) fn kept(&self) -> usize {
        sync::lock(&self.versions).live.values().sum()
    }

    /// Keeps the newest version: copies the root.
    pub(crate) fn keep(self: &Arc<Self>) -> Kept<V> {
        let mut versions = sync::lock(&self.versions);
        let root = self.root();
        let words = (0..root.len()).map(|slot| root.get(slot).0).collect();
        let version = versions.current;
        *versions.live.entry(version).or_insert(0) += 1;
        Kept {
            words,
            shelf: self.shelf.load(Ordering::Relaxed),
            len: self.len.load(Ordering::Relaxed),
            version,
            shared: Arc::clone(self),
        }
    }
}

impl<V: Eq + Hash> Shared<V> {
    /// Makes room for `bytes` more garbage, by the domain's policy.
    fn admit(
        &self,
        writer: &mut Writer<V>,
        bytes: usize,
        dropped: &mut Vec<V>,
    ) -> Result<(), GarbageLimit> {
        if self.domain.hard_limit().is_none() && !self.domain.over_soft_limit() {
            return Ok(());
        }
        let bytes = bytes + writer.retired_bytes + writer.left_bytes;
        if self.domain.over_soft_limit() || self.domain.try_admit(bytes).is_err() {
            self.reclaim(writer, usize::MAX, dropped);
        }
        self.domain.admit_with(bytes, || {
            self.reclaim(writer, usize::MAX, dropped);
            !writer.queue.is_empty()
        })
    }

    /// Frees up to `budget` blocks that nobody can hold any more; hands out their values.
    pub(crate) fn reclaim(
        &self,
        writer: &mut Writer<V>,
        budget: usize,
        dropped: &mut Vec<V>,
    ) -> usize {
        if writer.queue.is_empty() && writer.left.is_empty() {
            return 0;
        }
        let (current, oldest) = {
            let versions = sync::lock(&self.versions);
            let oldest = versions.live.keys().next().copied();
            (versions.current, oldest.unwrap_or(u64::MAX))
        };
        writer.queue_left(current);
        let Writer { blocks, queue, .. } = writer;
        // What was retired by version r is part of all versions before r that have it.
        queue.reclaim_while(
            budget,
            |_, version| version <= oldest,
            // SAFETY: unlinked by a version whose grace period is over, and no snapshot is older.
            |block| unsafe { free_retired(blocks, block, dropped) },
        )
    }

    /// Publishes what the change or the open transaction did.
    fn publish(&self, writer: &mut Writer<V>, words: impl FnOnce(Root<'_>, &mut Overlay)) -> u64 {
        let mut versions = sync::lock(&self.versions);
        words(self.root(), &mut writer.overlay);
        sync::point();
        self.shelf.store(writer.shelf, Ordering::Release);
        self.len.store(writer.len, Ordering::Release);
        versions.current += 1;
        versions.current
    }

    /// Gives a prefix a value, at once for everybody. The old value's block, which lives on while `writer` is held.
    pub(crate) fn put<K: Key>(
        &self,
        writer: &mut Writer<V>,
        at: (K, u8),
        value: V,
        dropped: &mut Vec<V>,
    ) -> Put<V> {
        self.with_value(writer, value, dropped, |shared, writer, value, dropped| {
            shared.set(writer, at, value, dropped)
        })
    }

    /// Takes a prefix away, at once for everybody. Its value's block, as for [`put`](Self::put).
    pub(crate) fn take<K: Key>(
        &self,
        writer: &mut Writer<V>,
        at: (K, u8),
        dropped: &mut Vec<V>,
    ) -> Result<Option<u32>, crate::Error> {
        self.set(writer, at, 0, dropped)
    }

    /// Finds or makes the block of a value, and undoes that when the rest fails.
    fn with_value(
        &self,
        writer: &mut Writer<V>,
        value: V,
        dropped: &mut Vec<V>,
        rest: impl FnOnce(&Self, &mut Writer<V>, u32, &mut Vec<V>) -> Result<Option<u32>, crate::Error>,
    ) -> Put<V> {
        let mem = self.mem;
        if let Some(block) = writer.values.find(mem, &value) {
            return match rest(self, writer, block, dropped) {
                Ok(old) => {
                    // Dropped without the lock.
                    if core::mem::needs_drop::<V>() {
                        dropped.push(value);
                    }
                    Ok(old)
                }
                Err(error) => Err((value, error)),
            };
        }
        let block = match writer.values.add(&mut writer.blocks.arena, value) {
            Ok(block) => block,
            Err((value, full)) => return Err((value, full.into())),
        };
        rest(self, writer, block, dropped).map_err(|error| {
            writer.values.forget(mem, block);
            // SAFETY: no prefix has it, nobody saw it.
            unsafe {
                let value = values::take(mem, block);
                values::free::<V>(&mut writer.blocks.arena, block, false);
                (value, error)
            }
        })
    }

    fn set<K: Key>(
        &self,
        writer: &mut Writer<V>,
        at: (K, u8),
        value: u32,
        dropped: &mut Vec<V>,
    ) -> Result<Option<u32>, crate::Error> {
        let mut versions = None;
        let mut target = Locked {
            shared: self,
            versions: &mut versions,
        };
        let old = writer.apply(&mut target, self.bits, at, value, |writer, bytes| {
            self.admit(writer, bytes, dropped)
        })?;
        if old == value {
            return Ok((old != 0).then_some(old));
        }
        let version = {
            let mut versions = versions.unwrap_or_else(|| sync::lock(&self.versions));
            self.shelf.store(writer.shelf, Ordering::Release);
            self.len.store(writer.len, Ordering::Release);
            versions.current += 1;
            versions.current
        };
        writer.settle(version);
        Ok((old != 0).then_some(old))
    }

    /// Copies the nodes below a root word into other memory.
    pub(crate) fn move_nodes(
        &self,
        writer: &mut Writer<V>,
        slot: usize,
        dropped: &mut Vec<V>,
    ) -> Result<(), crate::Error> {
        let word = self.root().get(slot);
        // SAFETY: a word's child is live.
        let new = match unsafe { writer.blocks.copy_nodes(word.child()) } {
            Ok(new) => new,
            Err(full) => {
                writer.blocks.undo();
                return Err(full.into());
            }
        };
        if let Err(limit) = self.admit(writer, writer.gone_bytes(), dropped) {
            writer.blocks.undo();
            return Err(limit.into());
        }
        let version = self.publish(writer, |root, _| root.set(slot, word.with_child(new)));
        writer.leave_gone();
        writer.settle(version);
        self.tidy(writer, dropped);
        Ok(())
    }

    /// What every single change does at its end: frees some of what earlier ones left behind.
    pub(crate) fn tidy(&self, writer: &mut Writer<V>, dropped: &mut Vec<V>) {
        if writer.left.is_empty() && !writer.queue.is_empty() {
            self.reclaim(writer, 4 * SEAL, dropped);
        }
    }

    /// As [`put`](Self::put), for the open transaction alone.
    pub(crate) fn put_open<K: Key>(
        &self,
        writer: &mut Writer<V>,
        at: (K, u8),
        value: V,
        dropped: &mut Vec<V>,
    ) -> Put<V> {
        self.with_value(writer, value, dropped, |shared, writer, value, dropped| {
            shared.set_open(writer, at, value, dropped)
        })
    }

    /// As [`take`](Self::take), for the open transaction alone.
    pub(crate) fn take_open<K: Key>(
        &self,
        writer: &mut Writer<V>,
        at: (K, u8),
        dropped: &mut Vec<V>,
    ) -> Result<Option<u32>, crate::Error> {
        self.set_open(writer, at, 0, dropped)
    }

    fn set_open<K: Key>(
        &self,
        writer: &mut Writer<V>,
        at: (K, u8),
        value: u32,
        dropped: &mut Vec<V>,
    ) -> Result<Option<u32>, crate::Error> {
        let mut overlay = core::mem::take(&mut writer.overlay);
        writer.blocks.marks = true;
        let mut target = Over {
            overlay: &mut overlay,
            root: self.root(),
        };
        let done = writer.apply(&mut target, self.bits, at, value, |writer, bytes| {
            self.admit(writer, bytes, dropped)
        });
        writer.blocks.marks = false;
        writer.overlay = overlay;
        done.map(|old| (old != 0).then_some(old))
    }

    /// Publishes the open transaction. Word by word: a lookup that runs meanwhile reads one word, so it answers as the
    /// old or as the new table does.
    pub(crate) fn commit(&self, writer: &mut Writer<V>) -> u64 {
        let unchanged = writer.taken.is_empty() && writer.given.is_empty();
        if unchanged && writer.retired.is_empty() {
            return self.version();
        }
        for (_, _, new) in writer.overlay.changes(self.root()) {
            // SAFETY: fresh blocks are seen by nobody but the writer.
            unsafe { unmark_node(self.mem, new.child()) };
        }
        // SAFETY: as above.
        unsafe { unmark_shelf(self.mem, writer.shelf) };
        let version = self.publish(writer, |root, overlay| {
            for (slot, _, new) in overlay.changes(root) {
                root.set(slot, new);
            }
            overlay.clear();
        });
        writer.settle(version);
        version
    }

    /// Forgets the open transaction; hands out the values that only it had.
    pub(crate) fn roll_back(&self, writer: &mut Writer<V>, dropped: &mut Vec<V>) {
        let overlay = core::mem::take(&mut writer.overlay);
        for (_, old, new) in overlay.changes(self.root()) {
            if old.child() != new.child() {
                // SAFETY: fresh blocks are seen by nobody but the writer, and each has one parent.
                unsafe { free_fresh_node(&mut writer.blocks, new.child()) };
            }
        }
        let shelf = self.shelf.load(Ordering::Relaxed);
        if shelf != writer.shelf {
            // SAFETY: as above.
            unsafe { free_fresh_shelf(&mut writer.blocks, writer.shelf) };
        }
        writer.shelf = shelf;
        writer.len = self.len();
        writer.retired.clear();
        writer.retired_bytes = 0;
        writer.taken.clear();
        for value in core::mem::take(&mut writer.given) {
            if writer.values.release(self.mem, value) {
                // SAFETY: only the transaction's prefixes had it.
                unsafe {
                    dropped.push(values::take(self.mem, value));
                    values::free::<V>(&mut writer.blocks.arena, value, false);
                }
            }
        }
    }

    /// The block of a value for [`build`](Self::build); no prefix has it yet.
    pub(crate) fn intern(
        &self,
        writer: &mut Writer<V>,
        value: V,
        dropped: &mut Vec<V>,
    ) -> Result<u32, ArenaFull> {
        if let Some(block) = writer.values.find(self.mem, &value) {
            dropped.push(value);
            return Ok(block);
        }
        let added = writer.values.add(&mut writer.blocks.arena, value);
        added.map_err(|(value, full)| {
            dropped.push(value);
            full
        })
    }

    /// Fills an empty table with prefixes in order of bits and length, none twice, with values from
    /// [`intern`](Self::intern).
    pub(crate) fn build<K: Key>(
        &self,
        writer: &mut Writer<V>,
        entries: &[Entry<K>],
        dropped: &mut Vec<V>,
    ) -> Result<(), ArenaFull> {
        debug_assert!(writer.len == 0 && writer.shelf == 0);
        let built = writer.blocks.build(entries, self.bits)?;
        for &(_, _, value) in entries {
            writer.values.retain(self.mem, value);
        }
        // Those that only prefixes had that came again later.
        let all: Vec<u32> = writer.values.blocks().collect();
        for block in all {
            if writer.values.count(self.mem, block) == 0 {
                writer.values.forget(self.mem, block);
                // SAFETY: no prefix has it, nobody saw it.
                unsafe {
                    dropped.push(values::take(self.mem, block));
                    values::free::<V>(&mut writer.blocks.arena, block, false);
                }
            }
        }
        writer.shelf = built.shelf;
        writer.len = entries.len();
        self.publish(writer, |root, _| {
            for (slot, &word) in built.words.iter().enumerate() {
                if word != root.get(slot) {
                    root.set(slot, word);
                }
            }
        });
        Ok(())
    }
}

impl<V: Eq + Hash> Writer<V> {
    /// Counts what a prefix has now and had before.
    fn book(&mut self, old: u32, new: u32) {
        if new != 0 {
            self.values.retain(self.blocks.mem, new);
            self.given.push(new);
        }
        if old != 0 {
            self.taken.push(old);
        }
        self.len = self.len + usize::from(new != 0) - usize::from(old != 0);
    }
}

/// The root that everybody reads; its first store takes the lock under which snapshots are made.
struct Locked<'a, 'v, V> {
    shared: &'a Shared<V>,
    versions: &'v mut Option<MutexGuard<'a, Versions>>,
}

impl<V> Target for Locked<'_, '_, V> {
    fn get(&self, slot: usize) -> Word {
        self.shared.root().get(slot)
    }

    #[inline]
    fn set(&mut self, slot: usize, word: Word) {
        self.versions
            .get_or_insert_with(|| sync::lock(&self.shared.versions));
        self.shared.root().set(slot, word);
    }
}

/// # Safety
/// The block is retired, and nobody can hold it.
unsafe fn free_retired<V>(blocks: &mut Blocks, block: Block, dropped: &mut Vec<V>) {
    // SAFETY: the caller's promise.
    unsafe {
        if block.kind() == VALUE {
            dropped.push(values::take(blocks.mem, block.at()));
            values::free::<V>(&mut blocks.arena, block.at(), true);
        } else {
            if let Some(r) = Ref::new(block.at()) {
                let Blocks { arena, pool, .. } = blocks;
                pool.free_retired(arena, r, block.bytes(), block.kind());
            }
        }
    }
}

/// Takes the mark off the blocks of a transaction, from this node down.
///
/// # Safety
/// The node is 0 or live, and nobody else reads those with a mark.
unsafe fn unmark_node(mem: Mem, r: u32) {
    if r == 0 {
        return;
    }
    // SAFETY: the caller's promise; blocks below a marked node are live.
    unsafe {
        let n = mem.node(r);
        if !n.is_fresh() {
            return;
        }
        n.unmark();
        for (_, child) in n.children() {
            unmark_node(mem, child);
        }
    }
}

/// As [`unmark_node`], for shelves.
///
/// # Safety
/// The same.
unsafe fn unmark_shelf(mem: Mem, r: u32) {
    if r == 0 {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let s = mem.shelf(r);
        if !s.is_fresh() {
            return;
        }
        s.unmark();
        for &below in s.below() {
            unmark_shelf(mem, below);
        }
    }
}

/// Frees the blocks of a transaction, from this node down.
///
/// # Safety
/// The node is 0 or live, and nobody uses those with a mark again.
unsafe fn free_fresh_node(blocks: &mut Blocks, r: u32) {
    if r == 0 {
        return;
    }
    // SAFETY: the caller's promise; each marked block has one parent, which is marked.
    unsafe {
        let n = blocks.mem.node(r);
        if !n.is_fresh() {
            return;
        }
        for (_, child) in n.children() {
            free_fresh_node(blocks, child);
        }
        blocks.free(Block::node(r, n.cells().len(), n.count()));
    }
}

/// As [`free_fresh_node`], for shelves.
///
/// # Safety
/// The same.
unsafe fn free_fresh_shelf(blocks: &mut Blocks, r: u32) {
    if r == 0 {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let s = blocks.mem.shelf(r);
        if !s.is_fresh() {
            return;
        }
        for &below in s.below() {
            free_fresh_shelf(blocks, below);
        }
        blocks.free(Block::shelf(r, s.values().len() + s.below().len()));
    }
}

impl<V> Drop for Shared<V> {
    fn drop(&mut self) {
        if !core::mem::needs_drop::<V>() {
            return;
        }
        let mut writer = sync::lock(&self.writer);
        let mut values = Vec::new();
        let Writer {
            values: table,
            queue,
            left,
            ..
        } = &mut *writer;
        for block in table.blocks() {
            // SAFETY: nobody has a handle any more, so nobody reads.
            values.push(unsafe { values::take::<V>(self.mem, block) });
        }
        let left = left.drain(..).map(|(block, _)| block);
        let mut waiting: Vec<Block> = left.collect();
        queue.drain(|block| waiting.push(block));
        for block in waiting {
            if block.kind() == VALUE {
                // SAFETY: as above; a retired value is not in the table.
                values.push(unsafe { values::take::<V>(self.mem, block.at()) });
            }
        }
    }
}

/// A version that is kept alive.
pub(crate) struct Kept<V> {
    shared: Arc<Shared<V>>,
    words: Box<[u64]>,
    shelf: u32,
    pub(crate) len: usize,
    pub(crate) version: u64,
}

impl<V> Kept<V> {
    pub(crate) fn view(&self) -> View<'_, V, Copied<'_>> {
        let words = Copied {
            words: &self.words,
            shelf: self.shelf,
        };
        // SAFETY: while the version is in the list of snapshots, nothing that it reaches is freed.
        unsafe { View::new(self.shared.reading(words)) }
    }
}

impl<V> Drop for Kept<V> {
    fn drop(&mut self) {
        let mut versions = sync::lock(&self.shared.versions);
        if let Some(count) = versions.live.get_mut(&self.version) {
            *count -= 1;
            if *count == 0 {
                versions.live.remove(&self.version);
            }
        }
    }
}
