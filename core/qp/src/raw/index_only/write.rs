//! Changes of a map that has only the index. The parent module describes the protocol.

use sapwood_arena::ArenaFull;
use sapwood_qsbr::GarbageLimit;

use super::IndexOnly;
use crate::raw::index::CHUNK_BYTES;
use crate::raw::leaf::{LeafOf, Value};
use crate::raw::writers::lock::LockContention;
use crate::raw::writers::ops::{Changes, Done, Lack, Mode};
use crate::raw::writers::shard::{Held, Inner};
use crate::raw::writers::writer_pool::Blocks;

// SAFETY: the index named the leaves under the guard, or the change itself linked them.
unsafe impl<V: ?Sized + Value> Changes<V> for IndexOnly<V> {
    unsafe fn write<'a>(
        &self,
        held: &mut Held<'_>,
        key: &[u8],
        value: V::New<'a>,
        mode: Mode,
        contention: &mut LockContention,
    ) -> Done<V::New<'a>> {
        let hash = self.index.hash(key);
        // SAFETY: the guard is held throughout; the index is changed under the stripe, with the
        // leaf that was found under it.
        unsafe {
            let _stripe = self.lock(hash, contention);
            match (mode, self.find_hashed(hash, key)) {
                (Mode::New, Some(leaf)) => Done::Exists(leaf, value),
                (Mode::Replace | Mode::Only(_), None) => Done::Absent(value),
                (Mode::Only(leaf), Some(found)) if found != leaf => {
                    contention.locks += 1;
                    Done::Exists(found, value)
                }
                (_, Some(old)) => self.replace(held, hash, key, value, old),
                (_, None) => self.insert(held, hash, key, value),
            }
        }
    }

    #[inline]
    unsafe fn remove(
        &self,
        held: &mut Held<'_>,
        key: &[u8],
        only: Option<u32>,
        contention: &mut LockContention,
    ) -> Result<Option<u32>, Lack> {
        let hash = self.index.hash(key);
        // SAFETY: as in `write`.
        unsafe {
            let _stripe = self.lock(hash, contention);
            let found = self.find_hashed(hash, key);
            if only.is_some() && found != only {
                contention.locks += 1;
                return Ok(None);
            }
            if let Some(leaf) = found {
                self.reserve_leaf(held, key, leaf)?;
                self.index.remove(self.depot.base(), hash, leaf);
            }
            Ok(found)
        }
    }

    #[inline]
    unsafe fn step(&self, inner: &mut Inner) {
        let about = self.about(inner);
        let mut blocks = Blocks::new(&self.depot, inner);
        // SAFETY: the caller's promise.
        unsafe { self.index.step(&mut blocks, about) };
    }
}

impl<V: ?Sized + Value> IndexOnly<V> {
    /// Reserves room for the leaf of a key, which becomes garbage.
    ///
    /// # Safety
    /// The leaf was found under the guard.
    #[inline]
    unsafe fn reserve_leaf(
        &self,
        held: &mut Held<'_>,
        key: &[u8],
        leaf: u32,
    ) -> Result<(), GarbageLimit> {
        // SAFETY: the caller's promise.
        let bytes =
            unsafe { LeafOf::<V>::block_of_key(key.len(), Some(self.pointer(leaf).cast_const())) };
        held.inner.reserve(bytes)
    }

    /// # Safety
    /// The guard and the key's stripe are held; `old` is the key's leaf.
    #[inline]
    unsafe fn replace<'a>(
        &self,
        held: &mut Held<'_>,
        hash: u64,
        key: &[u8],
        value: V::New<'a>,
        old: u32,
    ) -> Done<V::New<'a>> {
        // SAFETY: the caller's promise.
        if let Err(limit) = unsafe { self.reserve_leaf(held, key, old) } {
            return Done::Lacks(value, limit.into());
        }
        match self.make_leaf::<V>(&mut held.inner, key, value) {
            Ok(new) => {
                // SAFETY: the caller's promise: under the stripe nobody else changes the key.
                unsafe { self.index.replace(self.depot.base(), hash, old, new) };
                Done::Replaced(old)
            }
            Err((value, full)) => Done::Lacks(value, full.into()),
        }
    }

    /// # Safety
    /// The guard and the key's stripe are held; the key is not there.
    #[inline]
    unsafe fn insert<'a>(
        &self,
        held: &mut Held<'_>,
        hash: u64,
        key: &[u8],
        value: V::New<'a>,
    ) -> Done<V::New<'a>> {
        if !self.reserve_entry() {
            return Done::Full(value);
        }
        let spare = V::spare(&value);
        let leaf = match self.make_leaf::<V>(&mut held.inner, key, value) {
            Ok(leaf) => leaf,
            Err((value, full)) => {
                self.return_entry();
                return Done::Lacks(value, full.into());
            }
        };
        let mut blocks = Blocks::new(&self.depot, &mut held.inner);
        let len = || self.len();
        // SAFETY: as in `replace`. The holder of a stripe may wait for the holder of the turn,
        // which waits only for buckets and memory.
        if unsafe { (self.index).insert_alone(&mut blocks, hash, leaf, len) } {
            return Done::Inserted(leaf);
        }
        let lack = blocks.lack;
        self.return_entry();
        // SAFETY: the leaf was not published.
        let value = unsafe { self.unmake_leaf::<V>(&mut held.inner, leaf, spare) };
        // No table has a slot for dozens of equal hashes.
        let hopeless = ArenaFull::new(CHUNK_BYTES, self.arena_memory().committed);
        Done::Lacks(value, lack.unwrap_or(hopeless.into()))
    }
}
