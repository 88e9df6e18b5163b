//! A table: what readers see, the writer behind its lock, versions and snapshots.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::Hash;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use sapwood_arena::{Area, Arena, ArenaFull, ArenaOptions};
use sapwood_qsbr::{Domain, Guard};

use super::blocks::Block;
use super::node::{Mem, ROOT, VALUE};
use super::read::{Copied, Published, Reading, has_native};
use super::root::{Open, Root};
use super::values;
use super::view::View;
use super::writer::Writer;
use crate::lpm::family::Key;
use crate::sync::{self, Mutex, MutexGuard};

/// Words of a published table's header: the first shelf, and the number of prefixes. Those before it never change: bytes of
/// a value, bits of an address, and the root with its bits.
pub(crate) const ROOT_WORD: usize = 2;
pub(crate) const SHELF_WORD: usize = 3;
pub(crate) const LEN_WORD: usize = 4;

/// What all handles of a table share.
pub(crate) struct Shared<V> {
    pub(super) mem: Mem,
    /// The block of the root.
    root: u32,
    pub(super) bits: u32,
    native: bool,
    /// The first shelf, or 0; of its own line, as the writer stores to it.
    pub(super) shelf: CachePadded<AtomicU32>,
    pub(super) len: AtomicUsize,
    /// Where the words of the arena's header are, for readers in other languages.
    published: Option<usize>,
    pub(super) domain: Domain,
    writer: Mutex<Writer<V>>,
    pub(super) versions: Mutex<Versions>,
}

// SAFETY: `mem` is the arena's, which the writer owns; readers use it only to read published blocks.
unsafe impl<V: Send + Sync> Send for Shared<V> {}
// SAFETY: as above; `&V` goes to other threads (Sync), and the thread that reclaims drops (Send).
unsafe impl<V: Send + Sync> Sync for Shared<V> {}

/// Versions, and those that snapshots keep.
#[derive(Default)]
pub(super) struct Versions {
    /// The newest version. Root words are stored under this lock, so that a snapshot copies one version.
    pub(super) current: u64,
    /// Snapshots by version.
    pub(super) live: BTreeMap<u64, usize>,
}

impl<V: Eq + Hash> Shared<V> {
    /// An empty table with a root of so many bits.
    pub(crate) fn new(
        options: ArenaOptions,
        bits: u32,
        domain: Domain,
        seed: u64,
    ) -> Result<Self, ArenaFull> {
        Shared::new_in(Arena::new(options), bits, domain, seed)
    }

    /// As [`new`](Self::new), in this arena.
    pub(crate) fn new_in(
        mut arena: Arena,
        bits: u32,
        domain: Domain,
        seed: u64,
    ) -> Result<Self, ArenaFull> {
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
            published: None,
            writer: Mutex::new(Writer::new(arena, &domain, seed)),
            domain,
            versions: Mutex::default(),
        })
    }
}

impl<V> Shared<V> {
    /// Others find the table by the words of the arena's header, at `at`, from now on.
    ///
    /// # Panics
    /// When there is no such header.
    pub(crate) fn publish_at(&mut self, value_bytes: u64, width: u64, at: usize) {
        let root = u64::from(self.bits) << 32 | u64::from(self.root);
        let mut writer = sync::lock(&self.writer);
        let told = writer
            .blocks
            .arena
            .set_roots([value_bytes, width, root, 0, 0, 0, 0, 0]);
        assert!(told.is_ok(), "an arena with a root has a header");
        drop(writer);
        self.published = Some(at);
    }

    /// Says to all readers which shelf and how many prefixes a new version has.
    pub(super) fn tell(&self, shelf: u32, len: usize) {
        self.shelf.store(shelf, Ordering::Release);
        self.len.store(len, Ordering::Release);
        let Some(at) = self.published else { return };
        for (index, word) in [(SHELF_WORD, u64::from(shelf)), (LEN_WORD, len as u64)] {
            // SAFETY: inside the header, aligned; its words are only used as atomics.
            let place = unsafe { AtomicU64::from_ptr(self.mem.0.add(at + 8 * index).cast()) };
            place.store(word, Ordering::Release);
        }
    }

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
    pub(super) fn open<'a>(&'a self, writer: &'a Writer<V>) -> Reading<Open<'a>> {
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

impl<V> Drop for Shared<V> {
    fn drop(&mut self) {
        if !core::mem::needs_drop::<V>() && !values::is_boxed::<V>() {
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
