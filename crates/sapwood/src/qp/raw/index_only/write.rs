//! Changes of a map that has only the index. See the folder for the protocol.

use alloc::vec::Vec;

use sapwood_arena::{Area, ArenaFull};

use super::IndexOnly;
use crate::qp::raw::index::CHUNK_BYTES;
use crate::qp::raw::leaf::LeafOf;
use crate::qp::raw::tree::{LEAF_KIND, leaf_cell, ref_of};
use crate::qp::raw::writers::lock::LockContention;
use crate::qp::raw::writers::ops::{Done, Mode, Test};
use crate::qp::raw::writers::shard::{Held, Inner};
use crate::qp::raw::writers::writer_pool::Blocks;

impl<V> IndexOnly<V> {
    /// As [`Structure::write`](crate::qp::raw::writers::ops::Structure::write).
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn put(
        &self,
        held: &mut Held<'_>,
        key: &[u8],
        value: V,
        mode: &mut Mode<'_, V>,
        values: &mut Vec<V>,
    ) -> Done<V> {
        let mut met = LockContention::default();
        let hash = self.index.hash(key);
        // SAFETY: the guard is held throughout; `put` is called under the stripe, with what was found there.
        let done = unsafe {
            loop {
                let mut passed = None;
                if let Mode::If(test) = mode {
                    let Some(leaf) = self.find_hashed(hash, key) else {
                        break Done::Absent(value);
                    };
                    if !test(&*LeafOf::<V>::value_ptr(self.pointer(leaf))) {
                        break Done::Exists(leaf, value);
                    }
                    passed = Some(leaf);
                }
                let stripe = self.lock(hash, &mut met);
                let found = self.find_hashed(hash, key);
                let done = match (&*mode, found) {
                    (Mode::New, Some(leaf)) => Done::Exists(leaf, value),
                    (Mode::Replace, None) => Done::Absent(value),
                    (Mode::If(_), _) if found != passed => {
                        drop(stripe);
                        met.locks += 1;
                        continue;
                    }
                    (_, Some(old)) => self.replace(held, hash, key, value, old),
                    (_, None) => self.insert(held, hash, key, value),
                };
                drop(stripe);
                break done;
            }
        };
        match done {
            Done::Inserted(_) => held.add_len(1),
            // SAFETY: out of the index just now, by us.
            Done::Replaced(old) => unsafe { self.retire_leaf::<V>(&mut held.inner, old) },
            _ => {}
        }
        self.settle(&mut held.inner, met, values);
        // SAFETY: the guard is held, and no stripe.
        unsafe { self.step(&mut held.inner) };
        done
    }

    /// A new leaf.
    fn make(&self, held: &mut Held<'_>, key: &[u8], value: V) -> Result<u32, (V, ArenaFull)> {
        let size = LeafOf::<V>::size(key.len());
        match (held.inner).alloc(&self.depot, size, LEAF_KIND, Area::Leaves) {
            Ok(r) => {
                let leaf = leaf_cell(r);
                // SAFETY: a new block of that size.
                unsafe { LeafOf::<V>::write(self.pointer(leaf), key, value) };
                Ok(leaf)
            }
            Err(full) => Err((value, full)),
        }
    }

    /// # Safety
    /// The guard and the key's stripe are held; `old` is the key's leaf.
    #[inline]
    unsafe fn replace(
        &self,
        held: &mut Held<'_>,
        hash: u64,
        key: &[u8],
        value: V,
        old: u32,
    ) -> Done<V> {
        match self.make(held, key, value) {
            Ok(new) => {
                // SAFETY: the caller's promise: the stripe makes us alone with the key.
                unsafe { self.index.replace(self.depot.base(), hash, old, new) };
                Done::Replaced(old)
            }
            Err((value, full)) => Done::NoMemory(value, full),
        }
    }

    /// # Safety
    /// The guard and the key's stripe are held; the key is not there.
    #[inline]
    unsafe fn insert(&self, held: &mut Held<'_>, hash: u64, key: &[u8], value: V) -> Done<V> {
        if !self.reserve_entry() {
            return Done::Full(value);
        }
        let leaf = match self.make(held, key, value) {
            Ok(leaf) => leaf,
            Err((value, full)) => {
                self.return_entry();
                return Done::NoMemory(value, full);
            }
        };
        let mut blocks = Blocks::new(&self.depot, &mut held.inner);
        let len = || self.len();
        // SAFETY: as in `replace`. A stripe's holder waits for whose turn it is; those wait for buckets and memory only.
        if unsafe { (self.index).insert_alone(&mut blocks, hash, leaf, len) } {
            return Done::Inserted(leaf);
        }
        let full = blocks.full;
        self.return_entry();
        let bytes = (LeafOf::<V>::size(key.len()) + 7) & !7;
        // SAFETY: the leaf was not published; the value is out before the block is freed.
        let value = unsafe {
            let value = LeafOf::<V>::take(self.pointer(leaf));
            (held.inner).free(&self.depot, ref_of(leaf), bytes, LEAF_KIND);
            value
        };
        // No table has a slot for dozens of equal hashes.
        let hopeless = ArenaFull {
            requested: CHUNK_BYTES,
            limit: self.arena_memory().committed,
        };
        Done::NoMemory(value, full.unwrap_or(hopeless))
    }

    /// As [`Structure::remove`](crate::qp::raw::writers::ops::Structure::remove).
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn cut(
        &self,
        held: &mut Held<'_>,
        key: &[u8],
        mut test: Option<&mut Test<'_, V>>,
        values: &mut Vec<V>,
    ) -> Option<u32> {
        let mut met = LockContention::default();
        let hash = self.index.hash(key);
        // SAFETY: the guard is held throughout; the index is changed under the stripe.
        let removed = unsafe {
            loop {
                let mut passed = None;
                if let Some(test) = &mut test {
                    passed = self.find_hashed(hash, key);
                    let value = passed.map(|leaf| &*LeafOf::<V>::value_ptr(self.pointer(leaf)));
                    if !value.is_some_and(&mut **test) {
                        break None;
                    }
                }
                let stripe = self.lock(hash, &mut met);
                let found = self.find_hashed(hash, key);
                if test.is_some() && found != passed {
                    drop(stripe);
                    met.locks += 1;
                    continue;
                }
                if let Some(leaf) = found {
                    self.index.remove(self.depot.base(), hash, leaf);
                }
                drop(stripe);
                break found;
            }
        };
        if let Some(leaf) = removed {
            held.add_len(-1);
            self.return_entry();
            // SAFETY: out of the index just now, by us.
            unsafe { self.retire_leaf::<V>(&mut held.inner, leaf) };
        }
        self.settle(&mut held.inner, met, values);
        // SAFETY: the guard is held, and no stripe.
        unsafe { self.step(&mut held.inner) };
        removed
    }

    /// Lets the index grow or shrink by a step, when it is time.
    ///
    /// # Safety
    /// This thread holds a guard, and no stripe.
    #[inline]
    unsafe fn step(&self, inner: &mut Inner) {
        let about = self.about(inner);
        let mut blocks = Blocks::new(&self.depot, inner);
        // SAFETY: the caller's promise.
        unsafe { self.index.step(&mut blocks, about) };
    }
}
