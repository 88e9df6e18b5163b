//! The root's words as a change sees them: the published words, or a transaction's own.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use super::read::Words;
use crate::sync;
use sapwood_format::lpm::Word;

/// Words that a transaction copies at once.
const PAGE: usize = 512;

/// The published root, as its writer uses it.
#[derive(Clone, Copy)]
pub(crate) struct Root<'a>(pub(crate) &'a [AtomicU64]);

impl Root<'_> {
    pub(crate) fn get(self, slot: usize) -> Word {
        Word(self.0[slot].load(Ordering::Relaxed))
    }

    /// Stores a word once: lookups that begin afterwards find it.
    #[inline]
    pub(crate) fn set(self, slot: usize, word: Word) {
        sync::point();
        self.0[slot].store(word.0, Ordering::Release);
    }

    pub(crate) fn len(self) -> usize {
        self.0.len()
    }
}

/// The words that a change reads and stores.
pub(crate) trait Target {
    fn get(&self, slot: usize) -> Word;
    fn set(&mut self, slot: usize, word: Word);
}

impl Target for Root<'_> {
    fn get(&self, slot: usize) -> Word {
        Root::get(*self, slot)
    }

    fn set(&mut self, slot: usize, word: Word) {
        Root::set(*self, slot, word);
    }
}

/// A transaction's words: copies of the pages that it changes.
#[derive(Default)]
pub(crate) struct Overlay {
    pages: Vec<Option<Box<[u64]>>>,
}

/// A transaction's words over the published ones.
pub(crate) struct Over<'a> {
    pub(crate) overlay: &'a mut Overlay,
    pub(crate) root: Root<'a>,
}

impl Target for Over<'_> {
    fn get(&self, slot: usize) -> Word {
        self.overlay.get(self.root, slot)
    }

    fn set(&mut self, slot: usize, word: Word) {
        let root = self.root;
        if self.overlay.pages.is_empty() {
            let pages = root.len().div_ceil(PAGE);
            self.overlay.pages.resize_with(pages, || None);
        }
        let page = self.overlay.pages[slot / PAGE].get_or_insert_with(|| {
            let start = slot / PAGE * PAGE;
            (start..(start + PAGE).min(root.len()))
                .map(|slot| root.get(slot).0)
                .collect()
        });
        page[slot % PAGE] = word.0;
    }
}

impl Overlay {
    pub(crate) fn get(&self, root: Root<'_>, slot: usize) -> Word {
        match self.pages.get(slot / PAGE) {
            Some(Some(page)) => Word(page[slot % PAGE]),
            _ => root.get(slot),
        }
    }

    /// The words that differ: slot, old, new.
    pub(crate) fn changes<'a>(
        &'a self,
        root: Root<'a>,
    ) -> impl Iterator<Item = (usize, Word, Word)> + 'a {
        let pages = self.pages.iter().enumerate();
        let pages = pages.filter_map(|(i, page)| Some((i * PAGE, page.as_ref()?)));
        pages.flat_map(move |(start, page)| {
            page.iter().enumerate().filter_map(move |(i, &new)| {
                let old = root.get(start + i);
                (old != Word(new)).then_some((start + i, old, Word(new)))
            })
        })
    }

    pub(crate) fn clear(&mut self) {
        self.pages.clear();
    }
}

/// A transaction's words, to be read.
#[derive(Clone, Copy)]
pub(crate) struct Open<'a> {
    pub(crate) overlay: &'a Overlay,
    pub(crate) root: Root<'a>,
    pub(crate) root_prefixes: u32,
}

impl Words for Open<'_> {
    fn word(self, slot: usize) -> Word {
        self.overlay.get(self.root, slot)
    }

    fn hint(self, slot: usize) -> *const u8 {
        self.root.0.as_ptr().wrapping_add(slot).cast()
    }

    fn root_prefixes(self) -> u32 {
        self.root_prefixes
    }
}
