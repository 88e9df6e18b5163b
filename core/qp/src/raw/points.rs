//! The point index of an owned trie. Lookups of whole keys ask it first, and every change of the
//! entries updates it.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use sapwood_arena::{Area, Arena, Kind, Ref};

use super::cursor::Cursor;
use super::index::{Chunks, Found, Index};
use super::inline::EntryRef;
use super::leaf::{LeafOf, Value};
use super::tree::Tree;
use crate::seed::seed;

/// Accounting kind of the index's blocks.
pub(crate) const INDEX_KIND: Kind = Kind(4);

/// An index without locks.
pub(crate) type Points<V> = Index<V, false>;

/// The owned arena as the memory of the index; blocks are freed at once.
struct Blocks<'a>(&'a mut Arena);

impl Chunks for Blocks<'_> {
    fn base(&self) -> *mut u8 {
        self.0.base()
    }

    fn alloc(&mut self, bytes: usize) -> Option<Ref> {
        self.0.alloc(bytes, INDEX_KIND, Area::Leaves).ok()
    }

    unsafe fn free(&mut self, block: Ref, bytes: usize) {
        // SAFETY: the caller's promise; nobody else reads an owned trie.
        unsafe { self.0.free(block, bytes, INDEX_KIND) };
    }
}

impl<V: ?Sized + Value> Tree<V> {
    /// The entry of a key.
    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Option<EntryRef> {
        if let Some(points) = &self.points {
            // SAFETY: `&self`: nothing changes meanwhile.
            match unsafe { points.find(self.arena.base(), points.hash(key), key) } {
                Found::Leaf(leaf) => return Some(EntryRef::leaf(leaf)),
                Found::Absent => return None,
                Found::AskTrie => return self.ask_trie(key),
            }
        }
        self.view().find(key)
    }

    /// The value of a key in a map with an index. It is not inlined, so that lookups in maps that
    /// have none are short.
    #[inline(never)]
    pub(crate) fn get_by_index(&self, key: &[u8]) -> Option<&V> {
        let entry = self.find(key)?;
        self.view().value(entry)
    }

    /// Looks a key up in the trie when the index does not know it. It is not inlined, so that
    /// lookups by the index are short.
    #[cold]
    #[inline(never)]
    fn ask_trie(&self, key: &[u8]) -> Option<EntryRef> {
        self.view().find(key)
    }

    /// Calls `each(i, entry)` for many keys, with no entry for a key that is absent.
    pub(crate) fn find_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        large: bool,
        mut each: impl FnMut(usize, EntryRef),
    ) {
        match &self.points {
            // SAFETY: `&self`: nothing changes meanwhile.
            Some(points) if large => unsafe {
                points.find_many(self.arena.base(), keys, |i, key, found| {
                    let entry = match found {
                        Found::Leaf(leaf) => EntryRef::leaf(leaf),
                        Found::Absent => EntryRef::NONE,
                        Found::AskTrie => self.ask_trie(key).unwrap_or(EntryRef::NONE),
                    };
                    each(i, entry);
                });
            },
            None if large => super::batch::find_many(&self.view(), keys, each),
            _ => {
                for (i, key) in keys.iter().enumerate() {
                    each(i, self.find(key.as_ref()).unwrap_or(EntryRef::NONE));
                }
            }
        }
    }

    /// Adds a leaf that was linked and counted.
    #[inline]
    pub(crate) fn point_added(&mut self, key: &[u8], leaf: u32) {
        if let Some(points) = &self.points {
            let mut blocks = Blocks(&mut self.arena);
            // SAFETY: `&mut self`; the leaf is new and alive.
            unsafe {
                points.insert(&mut blocks, points.hash(key), leaf);
                points.step(&mut blocks, self.len);
            }
        }
    }

    /// Removes a leaf that was unlinked and is not counted any more; it is still whole.
    #[inline]
    pub(crate) fn point_removed(&mut self, leaf: u32) {
        if let Some(points) = &self.points {
            // SAFETY: `&mut self`; the leaf is alive and was added.
            unsafe {
                let key = LeafOf::<V>::key(self.pointer(leaf));
                points.remove(self.arena.base(), points.hash(key), leaf);
                points.step(&mut Blocks(&mut self.arena), self.len);
            }
        }
    }

    /// Replaces a leaf by another one of the same key; the old leaf is still whole.
    pub(crate) fn point_replaced(&mut self, key: &[u8], old: u32, new: u32) {
        if let Some(points) = &self.points {
            // SAFETY: `&mut self`; both leaves are alive, and the old one was added.
            unsafe { points.replace(self.arena.base(), points.hash(key), old, new) };
        }
    }

    /// Empties the index after all leaves were dropped and the arena was cleared.
    pub(crate) fn points_cleared(&mut self) {
        if self.points.is_some() {
            self.points = Some(Box::new(Index::new(seed())));
        }
    }

    /// Makes an index of all leaves. It replaces an old index, whose memory must be gone with the
    /// arena that it lay in.
    pub(crate) fn index_all(&mut self) {
        let points = Box::new(Index::new(seed()));
        let mut blocks = Blocks(&mut self.arena);
        // SAFETY: `&mut self`; the index is new.
        unsafe { points.reserve(&mut blocks, self.len) };
        self.points = Some(points);
        for leaf in self.leaves() {
            if let Some(points) = &self.points {
                // SAFETY: `&mut self`; the leaves are alive, and each comes once.
                unsafe {
                    let hash = points.hash(LeafOf::<V>::key(self.pointer(leaf)));
                    points.insert(&mut Blocks(&mut self.arena), hash, leaf);
                }
            }
        }
    }

    /// All leaves in key order, of a trie without inline clusters.
    fn leaves(&self) -> Vec<u32> {
        let view = self.view();
        let mut cursor = Cursor::new();
        cursor.first(&view);
        let mut leaves = Vec::with_capacity(self.len);
        while cursor.entry.is_some() {
            leaves.push(cursor.entry.cell());
            cursor.next(&view);
        }
        leaves
    }

    /// Removes the index and frees its memory.
    pub(crate) fn drop_index(&mut self) {
        if let Some(points) = self.points.take() {
            // SAFETY: `&mut self`, and nobody uses it any more.
            unsafe { points.clear(&mut Blocks(&mut self.arena)) };
        }
    }

    /// Checks the index against the trie.
    pub(crate) fn verify_points(&self) -> Result<(), String> {
        let Some(points) = &self.points else {
            return Ok(());
        };
        // SAFETY: `&self`; leaves are alive.
        unsafe { points.verify(self.arena.base(), self.leaves()) }?;
        let (taken, counted) = (
            points.taken().bytes,
            self.arena.memory().kinds[usize::from(INDEX_KIND.0)].bytes,
        );
        if taken != counted {
            return Err(alloc::format!(
                "the index took {taken} bytes, the accounts say {counted}"
            ));
        }
        Ok(())
    }
}
