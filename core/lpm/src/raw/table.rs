//! A table: the published part, the writer behind its lock, versions and snapshots.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::Hash;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use sapwood_arena::{Area, Arena, ArenaFull, ArenaOptions, prefetch};
use sapwood_qsbr::{Domain, Guard};

use super::grow::{LEAST_BITS, MOST_BITS, grow_at};
use super::node::{Mem, ROOT, VALUE};
use super::pages::{Frozen, Head, Heads};
use super::read::{Published, Reading, has_native};
use super::root::{Open, Root};
use super::values;
use super::view::View;
use super::writer::Writer;
use crate::family::Key;
use crate::kept::{KeptVersion, Versions};
use crate::sync::{Mutex, WriterGuard, WriterLock};
use sapwood_format::lpm::{header, root_word};

/// The state that all handles of a table share.
pub(crate) struct FibShared<V> {
    pub(super) mem: Mem,
    /// The block of the root and its bits, as [`root_word`] has them: one word, which a root that
    /// grows replaces.
    head: CachePadded<AtomicU64>,
    /// Whether the root grows with the table.
    pub(super) grows: bool,
    native: bool,
    /// The first block of root prefixes, or 0. It has a cache line of its own, as the writer stores
    /// to it.
    pub(super) root_prefixes: CachePadded<AtomicU32>,
    pub(super) len: AtomicUsize,
    /// Where the words of the arena's header are, for readers in other languages.
    published: Option<usize>,
    pub(super) domain: Domain,
    writer: WriterLock<Writer<V>>,
    pub(super) versions: Arc<Versions>,
    /// By the number of the page: where its words are that were saved for snapshots. For each size
    /// of a root its own.
    heads: [Heads; 4],
    /// Held while a transaction of this table and another is published, and while both are kept.
    commits: Mutex<()>,
}

// SAFETY: `mem` is the arena's, which the writer owns; readers use it only to read published
// blocks.
unsafe impl<V: Send + Sync> Send for FibShared<V> {}
// SAFETY: as above; `&V` goes to other threads (Sync), and the thread that reclaims drops (Send).
unsafe impl<V: Send + Sync> Sync for FibShared<V> {}

impl<V: Eq + Hash> FibShared<V> {
    /// An empty table with a root of this many bits, or with one that grows.
    pub(crate) fn new(
        options: ArenaOptions,
        bits: Option<u8>,
        domain: Domain,
        seed: u64,
    ) -> Result<Self, ArenaFull> {
        let first = bits.map_or(LEAST_BITS, u32::from);
        let mut shared = FibShared::new_in(Arena::new(options), first, domain, seed)?;
        if bits.is_none() {
            shared.grows = true;
            shared.writer.get_mut().grow_at = grow_at(first);
        }
        Ok(shared)
    }

    /// An empty table with a root of this many bits, which does not grow, in this arena.
    pub(crate) fn new_in(
        mut arena: Arena,
        bits: u32,
        domain: Domain,
        seed: u64,
    ) -> Result<Self, ArenaFull> {
        let words = 1_usize << bits;
        let root = arena.alloc_zeroed(words * 8, ROOT, Area::Nodes)?.get();
        let mem = Mem(arena.base());
        Ok(FibShared {
            mem,
            head: AtomicU64::new(root_word(root, bits)).into(),
            grows: false,
            native: has_native(),
            root_prefixes: AtomicU32::new(0).into(),
            len: AtomicUsize::new(0),
            published: None,
            writer: WriterLock::new(Writer::new(arena, &domain, seed)),
            versions: Versions::new(&domain),
            heads: Default::default(),
            commits: Mutex::new(()),
            domain,
        })
    }
}

impl<V> FibShared<V> {
    pub(crate) fn commits(&self) -> &Mutex<()> {
        &self.commits
    }

    /// Writes the table's words into the arena's header, at `at`, where readers in other languages
    /// find them.
    ///
    /// # Panics
    /// When there is no such header.
    pub(crate) fn publish_at(&mut self, value_bytes: u64, width: u64, at: usize) {
        debug_assert!(!self.grows, "the header's word of the root does not change");
        let root = self.head.load(Ordering::Relaxed);
        let writer = self.writer.get_mut();
        let told = writer
            .blocks
            .arena
            .set_roots([value_bytes, width, root, 0, 0, 0, 0, 0]);
        assert!(told.is_ok(), "an arena with a root has a header");
        self.published = Some(at);
    }

    /// Publishes the first block of root prefixes and the number of prefixes of a new version.
    pub(super) fn publish_head(&self, root_prefixes: u32, len: usize) {
        self.root_prefixes.store(root_prefixes, Ordering::Release);
        self.len.store(len, Ordering::Release);
        let Some(at) = self.published else { return };
        for (index, word) in [
            (header::SHELF, u64::from(root_prefixes)),
            (header::LEN, len as u64),
        ] {
            // SAFETY: inside the header, aligned; its words are only used as atomics.
            let place = unsafe { AtomicU64::from_ptr(self.mem.0.add(at + 8 * index).cast()) };
            place.store(word, Ordering::Release);
        }
    }

    pub(crate) fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Bits of an address that the root resolves.
    pub(crate) fn bits(&self) -> u32 {
        (self.head.load(Ordering::Relaxed) >> 32) as u32
    }

    /// Replaces the root: views that are made afterwards read this one.
    pub(super) fn set_root(&self, root: u32, bits: u32) {
        self.head.store(root_word(root, bits), Ordering::Release);
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// The number of prefixes, for views.
    #[inline]
    pub(crate) fn published_len(&self) -> &AtomicUsize {
        &self.len
    }

    /// Prefetches the memory that a change of this prefix needs first.
    #[inline]
    pub(crate) fn prefetch<K: Key>(&self, key: K) {
        let bits = self.bits();
        // A root that may still grow may be freed meanwhile.
        if self.grows && bits < MOST_BITS {
            return;
        }
        let word = self.root().get(key.top(bits));
        // A node of a full table has 150 bytes, and its prefixes are at its end.
        let node = self.mem.hint(word.child());
        for line in 0..4 {
            prefetch(node.wrapping_add(64 * line));
        }
    }

    /// The block of the root, and its bytes.
    pub(super) fn root_block(&self) -> (u32, usize) {
        let head = self.head.load(Ordering::Relaxed);
        (head as u32, 8 << (head >> 32))
    }

    /// The root, for the holder of the writer's lock or of a snapshot, and for those who know that
    /// it does not grow any more.
    pub(crate) fn root(&self) -> Root<'_> {
        let (root, bytes) = self.root_block();
        // SAFETY: the root is only used as atomics. It is replaced by the holder of the writer's
        // lock alone, while there is no snapshot; the last one lives as long as the arena.
        Root(unsafe { core::slice::from_raw_parts(self.mem.root(root), bytes / 8) })
    }

    /// The newest version, while the guard is held.
    ///
    /// # Panics
    /// When the guard is of another domain.
    #[inline]
    pub(crate) fn view<'g>(&'g self, guard: Guard<'g>) -> View<'g, V, Published<'g>> {
        assert!(
            guard.belongs_to(&self.domain),
            "{}",
            sapwood_common::raw::FOREIGN_GUARD
        );
        let head = self.head.load(Ordering::Acquire);
        // SAFETY: the root, and what its words reach, is freed only a grace period after it was
        // unlinked, and the guard holds that grace period back.
        unsafe {
            let root = self.mem.root(head as u32);
            let words = Published::new(root, &self.root_prefixes, Some(&self.head));
            View::new(self.reading(words, (head >> 32) as u32))
        }
    }

    #[inline(always)]
    fn reading<W>(&self, words: W, bits: u32) -> Reading<W> {
        Reading {
            mem: self.mem,
            words,
            bits,
            native: self.native,
        }
    }

    /// The table as the open transaction has it.
    pub(super) fn open<'a>(&'a self, writer: &'a Writer<V>) -> Reading<Open<'a>> {
        let words = Open {
            mem: self.mem,
            overlay: &writer.overlay,
            root: self.root(),
            root_prefixes: writer.root_prefixes,
        };
        self.reading(words, self.bits())
    }

    /// As [`open`](Self::open), with values.
    pub(crate) fn open_view<'a>(&'a self, writer: &'a Writer<V>) -> View<'a, V, Open<'a>> {
        // SAFETY: the writer is not changed for `'a`, and nothing that it reaches is freed but by
        // changes to it.
        unsafe { View::new(self.open(writer)) }
    }

    /// The value of a block that [`put`](Self::put) or [`take`](Self::take) returned. It lives
    /// until the next change by the writer.
    pub(crate) fn value_of<'a>(&'a self, _: &'a Writer<V>, block: u32) -> &'a V {
        // SAFETY: the writer retired the block at most, and it frees nothing during `'a`.
        unsafe { values::value(self.mem.hint(block)) }
    }

    #[track_caller]
    pub(crate) fn write(&self) -> WriterGuard<'_, Writer<V>> {
        self.writer.lock()
    }

    pub(crate) fn try_write(&self) -> Option<WriterGuard<'_, Writer<V>>> {
        self.writer.try_lock()
    }

    /// The number of the newest version.
    pub(crate) fn version(&self) -> u64 {
        self.versions.newest()
    }

    /// The snapshots.
    pub(crate) fn versions(&self) -> &Versions {
        &self.versions
    }

    /// Where the pages are that are saved for snapshots, once there was a snapshot.
    pub(super) fn heads(&self) -> Option<&[Head]> {
        self.heads_of(self.bits()).get()
    }

    fn heads_of(&self, bits: u32) -> &Heads {
        &self.heads[bits as usize / 6 - 1]
    }

    /// Bytes outside the arena for snapshots, however many there are.
    pub(crate) fn heads_bytes(&self) -> usize {
        let made = self.heads.iter().filter_map(Heads::get);
        made.map(size_of_val).sum()
    }

    /// Keeps the newest version.
    pub(crate) fn keep(self: &Arc<Self>) -> Kept<V> {
        loop {
            let bits = self.bits();
            self.heads_of(bits).make(1 << bits);
            let (version, (now, root_prefixes, len)) = self.versions.keep(|| {
                (
                    self.bits(),
                    self.root_prefixes.load(Ordering::Relaxed),
                    self.len.load(Ordering::Relaxed),
                )
            });
            // The root may have grown before the version was kept; it does not grow while it is.
            if now == bits {
                return Kept {
                    root_prefixes,
                    len,
                    version,
                    shared: Arc::clone(self),
                };
            }
        }
    }
}

impl<V> Drop for FibShared<V> {
    fn drop(&mut self) {
        if !core::mem::needs_drop::<V>() && !values::is_boxed::<V>() {
            return;
        }
        let mem = self.mem;
        let mut values = Vec::new();
        let Writer {
            values: table,
            garbage,
            ..
        } = self.writer.get_mut();
        for block in table.blocks() {
            // SAFETY: nobody has a handle any more, so nobody reads.
            values.push(unsafe { values::take::<V>(mem, block) });
        }
        garbage.drain(|block| {
            if block.kind() == VALUE {
                // SAFETY: as above; a retired value is not in the table.
                values.push(unsafe { values::take::<V>(mem, block.at()) });
            }
        });
    }
}

/// A version that is kept alive.
pub(crate) struct Kept<V> {
    shared: Arc<FibShared<V>>,
    root_prefixes: u32,
    pub(crate) len: usize,
    pub(crate) version: KeptVersion,
}

impl<V> Kept<V> {
    #[inline]
    pub(crate) fn view(&self) -> View<'_, V, Frozen<'_>> {
        let shared = &*self.shared;
        let heads = shared.heads().unwrap_or_default();
        let version = (self.version.number(), self.root_prefixes);
        // SAFETY: while the version is in the list of snapshots, nothing that it reaches is freed.
        unsafe {
            let words = Frozen::new(shared.root(), heads, shared.mem, version);
            View::new(shared.reading(words, shared.bits()))
        }
    }
}
