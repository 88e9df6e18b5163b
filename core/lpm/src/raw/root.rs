//! The root's words as a change sees them: the published words, or a transaction's own.

use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use sapwood_arena::ArenaFull;

use super::blocks::Blocks;
use super::node::Mem;
use super::pages::{self, page_of};
use super::read::Words;
use super::writer::Writer;
use crate::sync;
use sapwood_format::lpm::Word;

/// The published root, as its writer uses it.
#[derive(Clone, Copy)]
pub(crate) struct Root<'a>(pub(crate) &'a [AtomicU64]);

impl Root<'_> {
    #[inline]
    pub(crate) fn get(self, slot: usize) -> Word {
        Word(self.0[slot].load(Ordering::Relaxed))
    }

    /// Stores a word once: lookups that begin afterwards find it.
    #[inline]
    pub(crate) fn set(self, slot: usize, word: Word) {
        sync::point();
        self.0[slot].store(word.0, Ordering::Release);
    }

    #[inline]
    pub(crate) fn len(self) -> usize {
        self.0.len()
    }
}

/// The words that a change reads and stores.
pub(crate) trait Target<V> {
    fn get(&self, slot: usize) -> Word;

    /// Stores a word of a slot that [`admit`](Self::admit) has made ready.
    fn set(&mut self, slot: usize, word: Word);

    /// Decides about the `bytes` bytes that the change would retire, and makes ready to store words
    /// of these slots. When it fails, nothing is changed.
    fn admit(
        &mut self,
        writer: &mut Writer<V>,
        slots: Range<usize>,
        bytes: usize,
    ) -> Result<(), crate::Error>;
}

/// A transaction's words: copies of the pages that it changes, in blocks of the arena.
#[derive(Default)]
pub(crate) struct Overlay {
    /// By the number of the page: its block, or 0.
    pages: Vec<u32>,
    count: usize,
}

impl Overlay {
    #[inline]
    pub(crate) fn get(&self, mem: Mem, root: Root<'_>, slot: usize) -> Word {
        match self.pages.get(page_of(slot)) {
            // SAFETY: a block of the transaction, which is alone in writing it.
            Some(&r) if r != 0 => unsafe { pages::word(mem, r, slot) },
            _ => root.get(slot),
        }
    }

    /// Stores a word of a slot whose page is there.
    #[inline]
    pub(crate) fn set(&mut self, mem: Mem, slot: usize, word: Word) {
        let r = self.pages[page_of(slot)];
        assert!(r != 0, "a page that was made ready");
        // SAFETY: a block of the transaction, which nobody else knows.
        unsafe { pages::set_word(mem, r, slot, word) };
    }

    /// How many of these pages are not there.
    #[inline]
    pub(crate) fn lacking(&self, pages: Range<usize>) -> usize {
        pages.filter(|&page| !self.has(page)).count()
    }

    #[inline]
    fn has(&self, page: usize) -> bool {
        self.pages.get(page).is_some_and(|&r| r != 0)
    }

    /// Copies those of these pages that are not there.
    pub(crate) fn copy(
        &mut self,
        blocks: &mut Blocks,
        root: Root<'_>,
        pages: Range<usize>,
    ) -> Result<(), ArenaFull> {
        if self.pages.len() < pages.end {
            self.pages.resize(pages.end, 0);
        }
        for page in pages {
            if !self.has(page) {
                let r = blocks.page(root)?;
                // SAFETY: a new block for a page.
                unsafe { pages::copy_page(blocks.mem, root, page, r) };
                self.pages[page] = r;
                self.count += 1;
            }
        }
        Ok(())
    }

    /// The number of pages.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The words that differ: slot, old, new.
    pub(crate) fn changes<'a>(
        &'a self,
        mem: Mem,
        root: Root<'a>,
    ) -> impl Iterator<Item = (usize, Word, Word)> + 'a {
        let pages = self.pages.iter().enumerate().filter(|&(_, &r)| r != 0);
        pages.flat_map(move |(page, &r)| {
            pages::slots_of(root, page).filter_map(move |slot| {
                // SAFETY: a block of the transaction, which is alone in writing it.
                let new = unsafe { pages::word(mem, r, slot) };
                let old = root.get(slot);
                (old != new).then_some((slot, old, new))
            })
        })
    }

    /// The pages with their blocks, which are the caller's now.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = (usize, u32)> + use<> {
        self.count = 0;
        let pages = core::mem::take(&mut self.pages);
        pages.into_iter().enumerate().filter(|&(_, r)| r != 0)
    }
}

/// A transaction's words, to be read.
#[derive(Clone, Copy)]
pub(crate) struct Open<'a> {
    pub(crate) mem: Mem,
    pub(crate) overlay: &'a Overlay,
    pub(crate) root: Root<'a>,
    pub(crate) root_prefixes: u32,
}

impl Words for Open<'_> {
    fn word(self, slot: usize) -> Word {
        self.overlay.get(self.mem, self.root, slot)
    }

    fn hint(self, slot: usize) -> *const u8 {
        self.root.0.as_ptr().wrapping_add(slot).cast()
    }

    fn root_prefixes(self) -> u32 {
        self.root_prefixes
    }
}
