//! Pages of the root that snapshots still read.
//!
//! A snapshot copies nothing. The change that replaces words of the root for the first time since
//! the newest snapshot was made saves their pages first, in blocks of the arena: so the limit of
//! memory holds for what snapshots keep, and the blocks count as garbage, which a hard limit
//! bounds. The list of a page's saved versions begins at its [`Head`]:
//!
//! ```text
//! head                     block of words before v9        block of words before v5
//! | until: 9 | block: * -> | until: 5 | block: * | words   | until: 0 | block: 0 | words
//!                                              '-------- -->
//! ```
//!
//! A version below `until` has its words in the list, a later one in the root. A reader loads the
//! word of the root first and `until` second. If the word was replaced since its version, then the
//! page was saved before that, and `until` says so. A saved block is retired by the version that
//! replaced its words, so it stays as long as snapshots of earlier versions. Then its `until` is
//! not above any version that is kept, so nobody follows the references that are left to it.

use alloc::boxed::Box;
use core::ops::Range;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use sapwood_arena::{Area, ArenaFull, Kind, Ref};

use super::blocks::Blocks;
use super::node::Mem;
use super::read::Words;
use super::root::Root;
use crate::garbage::Block;
use crate::sync;
use sapwood_format::lpm::Word;

/// The kind of saved pages, and of a transaction's own pages, in the arena's accounts.
pub(crate) const PAGES: Kind = Kind(5);

/// Words of a page.
const WORDS: usize = 512;
/// Bytes before the words of a block: the next block's `until`, and its reference.
const BEFORE: usize = 16;

/// Where the former words of one page of the root are.
#[derive(Default)]
pub(crate) struct Head {
    until: AtomicU64,
    block: AtomicU32,
}

impl Head {
    /// Whether a version has its words in the root.
    #[inline]
    pub(crate) fn is_in_root(&self, version: u64) -> bool {
        self.until.load(Ordering::Relaxed) <= version
    }
}

/// The heads of all pages of a root, which the first snapshot makes.
#[derive(Default)]
pub(crate) struct Heads(AtomicPtr<Box<[Head]>>);

impl Heads {
    pub(crate) fn get(&self) -> Option<&[Head]> {
        // SAFETY: null, or of a box that lives as long as this.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }.map(|heads| &heads[..])
    }

    /// Makes the heads of a root with this number of words, unless they are there.
    pub(crate) fn make(&self, words: usize) {
        if self.get().is_some() {
            return;
        }
        let pages = 0..words.div_ceil(WORDS);
        let made = Box::new(pages.map(|_| Head::default()).collect());
        let made = Box::into_raw(made);
        let none = core::ptr::null_mut();
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        let other = self.0.compare_exchange(none, made, order.0, order.1);
        if other.is_err() {
            // SAFETY: made above, and nobody else knows it.
            drop(unsafe { Box::from_raw(made) });
        }
    }
}

impl Drop for Heads {
    fn drop(&mut self) {
        let heads = *self.0.get_mut();
        if !heads.is_null() {
            // SAFETY: `make` made it by `into_raw`, and nobody reads it any more.
            drop(unsafe { Box::from_raw(heads) });
        }
    }
}

/// The page of a slot.
#[inline(always)]
pub(crate) fn page_of(slot: usize) -> usize {
    slot / WORDS
}

/// The pages of some slots.
#[inline]
pub(crate) fn pages_of(slots: &Range<usize>) -> Range<usize> {
    page_of(slots.start)..page_of(slots.end - 1) + 1
}

/// The slots of a page.
#[inline]
pub(crate) fn slots_of(root: Root<'_>, page: usize) -> Range<usize> {
    page * WORDS..((page + 1) * WORDS).min(root.len())
}

/// Bytes of a page's block.
#[inline]
pub(crate) fn page_bytes(root: Root<'_>) -> usize {
    BEFORE + 8 * root.len().min(WORDS)
}

/// A page's block.
pub(crate) fn block_of(root: Root<'_>, r: u32) -> Block {
    Block::new(r, PAGES, page_bytes(root))
}

impl Blocks {
    /// A new block for a page, with unspecified words.
    pub(crate) fn page(&mut self, root: Root<'_>) -> Result<u32, ArenaFull> {
        let bytes = page_bytes(root);
        let full = match self.arena.alloc(bytes, PAGES, Area::Leaves) {
            Ok(r) => return Ok(r.get()),
            Err(full) if self.arena.failed_by_injection() => return Err(full),
            Err(full) => full,
        };
        self.clear_pool();
        let again = self.arena.alloc(bytes, PAGES, Area::Leaves);
        again.map(Ref::get).map_err(|_| full)
    }

    /// Frees a page's block that no snapshot reads.
    ///
    /// # Safety
    /// It came from [`page`](Self::page), and is not used again.
    pub(crate) unsafe fn free_page(&mut self, root: Root<'_>, r: u32) {
        if let Some(r) = Ref::new(r) {
            // SAFETY: the caller's promise.
            unsafe { self.arena.free(r, page_bytes(root), PAGES) };
        }
    }
}

/// The word of a slot in a page's block.
#[inline(always)]
fn word_at(mem: Mem, r: u32, slot: usize) -> *mut u64 {
    let at = BEFORE + 8 * (slot % WORDS);
    mem.hint(r).wrapping_add(at).cast()
}

/// # Safety
/// `r` is a page's live block that has the slot, and that nobody writes.
#[inline]
pub(crate) unsafe fn word(mem: Mem, r: u32, slot: usize) -> Word {
    // SAFETY: the caller's promise.
    Word(unsafe { word_at(mem, r, slot).read() })
}

/// # Safety
/// `r` is a page's live block that has the slot, and that nobody else knows.
#[inline]
pub(crate) unsafe fn set_word(mem: Mem, r: u32, slot: usize, word: Word) {
    // SAFETY: the caller's promise.
    unsafe { word_at(mem, r, slot).write(word.0) };
}

/// Copies the words of a page into its block.
///
/// # Safety
/// `r` is a live block for a page of this root, and nobody else knows it.
pub(crate) unsafe fn copy_page(mem: Mem, root: Root<'_>, page: usize, r: u32) {
    for slot in slots_of(root, page) {
        // SAFETY: the caller's promise.
        unsafe { set_word(mem, r, slot, root.get(slot)) };
    }
}

/// Saves a page for the versions below `until`.
///
/// # Safety
/// `r` is a live block for a page of this root, which stays as long as versions below `until` are
/// kept; nobody else knows it. The caller holds the lock of the versions.
pub(crate) unsafe fn save_page(
    mem: Mem,
    root: Root<'_>,
    heads: &[Head],
    page: usize,
    (r, until): (u32, u64),
) {
    let head = &heads[page];
    // SAFETY: the caller's promise.
    unsafe {
        copy_page(mem, root, page, r);
        link(mem, head, r);
    }
    sync::point();
    head.block.store(r, Ordering::Release);
    sync::point();
    head.until.store(until, Ordering::Release);
}

/// Writes the beginning of a block that becomes the first of its list.
///
/// # Safety
/// `r` is a page's live block, and nobody else knows it.
unsafe fn link(mem: Mem, head: &Head, r: u32) {
    let (until, block) = (
        head.until.load(Ordering::Relaxed),
        head.block.load(Ordering::Relaxed),
    );
    let p = mem.hint(r);
    // SAFETY: the caller's promise.
    unsafe {
        p.cast::<u64>().write(until);
        p.add(8).cast::<u64>().write(block.into());
    }
}

/// Puts the words of a transaction's page into the root. With `until`, the page's block has the
/// former words afterwards, for the versions below.
///
/// # Safety
/// As for [`save_page`]; the block has the new words.
pub(crate) unsafe fn publish_page(
    mem: Mem,
    root: Root<'_>,
    heads: &[Head],
    page: usize,
    (r, until): (u32, Option<u64>),
) {
    let slots = slots_of(root, page);
    let mut new = [0; WORDS];
    for slot in slots.clone() {
        // SAFETY: the caller's promise.
        new[slot % WORDS] = unsafe { word(mem, r, slot) }.0;
    }
    if let Some(until) = until {
        // SAFETY: the caller's promise.
        unsafe { save_page(mem, root, heads, page, (r, until)) };
    }
    for slot in slots {
        let word = Word(new[slot % WORDS]);
        if root.get(slot) != word {
            root.set(slot, word);
        }
    }
}

/// The root as one version had it.
#[derive(Clone, Copy)]
pub(crate) struct Frozen<'a> {
    root: Root<'a>,
    heads: &'a [Head],
    mem: Mem,
    version: u64,
    root_prefixes: u32,
}

impl<'a> Frozen<'a> {
    /// # Safety
    /// For `'a` this version, which had these root prefixes, is kept: blocks that it retired or a
    /// later version retires stay.
    pub(crate) unsafe fn new(
        root: Root<'a>,
        heads: &'a [Head],
        mem: Mem,
        (version, root_prefixes): (u64, u32),
    ) -> Self {
        Frozen {
            root,
            heads,
            mem,
            version,
            root_prefixes,
        }
    }

    /// The word of a slot whose page was saved for this version.
    #[cold]
    fn saved(self, head: &Head, slot: usize) -> Word {
        sync::point();
        let mut r = head.block.load(Ordering::Acquire);
        loop {
            let p = self.mem.hint(r);
            // SAFETY: a block of words that were replaced after this version, which is kept, so
            // the block stays and does not change. So does the next one if it is one, too.
            unsafe {
                if p.cast::<u64>().read() <= self.version {
                    return word(self.mem, r, slot);
                }
                r = p.add(8).cast::<u64>().read() as u32;
            }
        }
    }
}

impl Words for Frozen<'_> {
    #[inline(always)]
    fn word(self, slot: usize) -> Word {
        sync::point();
        let word = Word(self.root.0[slot].load(Ordering::Acquire));
        sync::point();
        let head = &self.heads[page_of(slot)];
        if head.until.load(Ordering::Acquire) <= self.version {
            return word;
        }
        self.saved(head, slot)
    }

    #[inline(always)]
    fn hint(self, slot: usize) -> *const u8 {
        self.root.0.as_ptr().wrapping_add(slot).cast()
    }

    fn root_prefixes(self) -> u32 {
        self.root_prefixes
    }
}
