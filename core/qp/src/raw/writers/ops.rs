//! Whole operations on a structure that many writers change, for callers with a guard. An operation
//! takes a shard, makes the change, releases the shard, and drops the values that it reclaimed
//! meanwhile.

use alloc::vec::Vec;
use core::ops::Deref;

use sapwood_arena::ArenaFull;
use sapwood_qsbr::{GarbageLimit, Guard};

use super::lock::LockContention;
use super::shard::{Held, Inner};
use super::writer_pool::WriterPool;
use crate::QpSharedMemory;
use crate::raw::leaf::{LeafOf, Value};
use crate::{Error, Rejected};

/// A test of a value.
pub(crate) type Test<'a, V> = dyn FnMut(&V) -> bool + 'a;

/// What an insertion does if the key is there, and if it is absent.
#[derive(Clone, Copy)]
pub enum Mode {
    /// Inserts or replaces.
    Put,
    /// Inserts only.
    New,
    /// Replaces only.
    Replace,
    /// Replaces only this leaf, which was found under the guard, so that no other leaf has its
    /// cell.
    Only(u32),
}

/// What a change lacks.
#[derive(Clone, Copy, Debug)]
pub enum Lack {
    /// Memory.
    Memory(ArenaFull),
    /// Room for its garbage.
    Garbage(GarbageLimit),
}

impl From<ArenaFull> for Lack {
    fn from(full: ArenaFull) -> Self {
        Lack::Memory(full)
    }
}

impl From<GarbageLimit> for Lack {
    fn from(limit: GarbageLimit) -> Self {
        Lack::Garbage(limit)
    }
}

impl From<Lack> for Error {
    fn from(lack: Lack) -> Self {
        match lack {
            Lack::Memory(full) => full.into(),
            Lack::Garbage(limit) => limit.into(),
        }
    }
}

/// The result of a write in a structure.
pub enum Done<N> {
    /// The key is new; this is its leaf.
    Inserted(u32),
    /// The leaf that was replaced.
    Replaced(u32),
    /// Nothing was done, because the key is there; this is its leaf.
    Exists(u32, N),
    /// Nothing was done, because the key is absent.
    Absent(N),
    /// Nothing was done, because the map has its greatest number of entries.
    Full(N),
    /// Nothing was done, for lack of memory or of room for garbage.
    Lacks(N, Lack),
}

/// The result of a change.
pub(crate) enum Outcome<'g, V: ?Sized, N> {
    /// The key is new; this is its value.
    Inserted(&'g V),
    /// The value that was replaced.
    Replaced(&'g V),
    /// The mode forbids the change: the value that is there, if any, and the value that was to be
    /// inserted.
    Refused(Option<&'g V>, N),
}

/// The result of a removal.
pub(crate) struct Removed<'g, V: ?Sized + Value> {
    /// The value that was removed.
    pub(crate) value: Option<&'g V>,
    /// Whether the map may be empty now.
    pub(crate) last: bool,
}

/// The changes of a structure that many writers change.
///
/// # Safety
/// Leaf cells that the functions return are those of whole leaves with values `V` in the arena of
/// the [`WriterPool`], which were linked under the caller's guard.
pub unsafe trait Changes<V: ?Sized + Value>: Deref<Target = WriterPool> {
    /// Inserts, replaces, or does nothing, by the mode.
    ///
    /// # Safety
    /// This thread holds a guard of the domain as long as it uses leaves of the result.
    unsafe fn write<'a>(
        &self,
        held: &mut Held<'_>,
        key: &[u8],
        value: V::New<'a>,
        mode: Mode,
        contention: &mut LockContention,
    ) -> Done<V::New<'a>>;

    /// Removes a key, or only this leaf of it, which was found under the guard; returns the leaf
    /// that was removed, which lives as long as the guard.
    ///
    /// # Errors
    /// What the removal lacks.
    ///
    /// # Safety
    /// This thread holds a guard of the domain as long as it uses leaves of the result.
    unsafe fn remove(
        &self,
        held: &mut Held<'_>,
        key: &[u8],
        only: Option<u32>,
        contention: &mut LockContention,
    ) -> Result<Option<u32>, Lack>;

    /// Lets the index grow or shrink by a step, if it is time.
    ///
    /// # Safety
    /// This thread holds a guard of the domain, and no lock but its shard.
    unsafe fn step(&self, inner: &mut Inner);
}

/// A structure that many writers change: a trie, or an index without a trie.
///
/// # Safety
/// As for [`Changes`].
pub unsafe trait Structure<V: ?Sized + Value>: Changes<V> {
    /// A place in a walk over keys.
    type Place;

    /// The leaf cell of a key.
    ///
    /// # Safety
    /// This thread holds a guard of the domain as long as it uses the leaf.
    unsafe fn find(&self, key: &[u8]) -> Option<u32>;

    /// Looks up many keys of a large structure: calls `each(i, leaf)`, with 0 for a key that is
    /// absent.
    ///
    /// # Safety
    /// As for `find`.
    unsafe fn find_many<K: AsRef<[u8]>>(&self, keys: &[K], each: impl FnMut(usize, u32));

    /// The next keys of a walk that begins at a place, or at the first key. Also returns the next
    /// place, unless the walk is over.
    fn next_keys(
        &self,
        guard: Guard<'_>,
        from: Option<Self::Place>,
    ) -> (Vec<Vec<u8>>, Option<Self::Place>);

    /// Whether there is no entry.
    fn is_vacant(&self) -> bool;

    /// Whether the writer of this shard may have removed the last entry.
    fn may_be_vacant(&self, inner: &Inner) -> bool;

    /// Frees the memory of the index if the map is empty; returns whether it is.
    fn empty(&self) -> bool;

    /// A report of the memory. It waits for changes under way.
    fn memory(&self) -> QpSharedMemory;

    /// Walks the whole structure and checks every invariant. It waits for changes under way; new
    /// writers wait meanwhile.
    fn verify(&self) -> Result<(), alloc::string::String>;
}

/// The operations of every [`Structure`].
pub(crate) trait Operations<V: ?Sized + Value>: Structure<V> {
    /// The leaf cell of a key.
    #[inline]
    fn find_guarded(&self, guard: Guard<'_>, key: &[u8]) -> Option<u32> {
        debug_assert!(
            guard.belongs_to(self.domain()),
            "the view checked the guard's domain"
        );
        // SAFETY: the guard, of the map's domain, is held while the leaf is used under it.
        unsafe { self.find(key) }
    }

    /// Looks up many keys of a large structure, as [`Structure::find_many`] does.
    fn find_many_guarded<'g, K: AsRef<[u8]>>(
        &'g self,
        _: Guard<'g>,
        keys: &[K],
        each: impl FnMut(usize, u32),
    ) {
        // SAFETY: the guard is held for 'g.
        unsafe { self.find_many(keys, each) }
    }

    /// The value of a leaf that was found under the guard.
    #[inline]
    fn value<'g>(&'g self, _: Guard<'g>, leaf: u32) -> &'g V {
        // SAFETY: the leaf was linked under the guard, so it is not freed while the guard is held.
        unsafe { &*LeafOf::<V>::value_ptr(self.pointer(leaf)) }
    }

    /// Key and value of a leaf that was found under the guard.
    #[inline]
    fn entry<'g>(&'g self, guard: Guard<'g>, leaf: u32) -> (&'g [u8], &'g V) {
        // SAFETY: as for `value`; keys never change.
        let key = unsafe { LeafOf::<V>::key(self.pointer(leaf)) };
        (key, self.value(guard, leaf))
    }

    /// Counts a change that was made, retires the old leaf, and frees nodes whose grace period is
    /// over. Their values are dropped after the shard is released. Returns whether the map may be
    /// empty now.
    ///
    /// # Safety
    /// This thread holds a guard of the domain, and no lock but the shard; the old leaf, if any,
    /// was unlinked just now, by this thread.
    #[inline]
    unsafe fn finish(
        &self,
        mut held: Held<'_>,
        contention: LockContention,
        entries: isize,
        old: Option<u32>,
    ) -> bool {
        let mut values: Vec<V::Held> = Vec::new();
        if entries != 0 {
            held.add_len(entries);
        }
        // SAFETY: the caller's promise.
        unsafe {
            if let Some(old) = old {
                self.retire_leaf::<V>(&mut held.inner, old);
            }
            self.step(&mut held.inner);
        }
        self.settle::<V>(&mut held.inner, contention, &mut values);
        let vacant = self.may_be_vacant(&held.inner);
        drop(held);
        drop(values);
        vacant
    }

    /// Inserts, replaces, or does nothing, by the mode. A change that lacks something runs once
    /// more after free memory and room of all writers were collected.
    fn change<'g, 'a>(
        &'g self,
        guard: Guard<'g>,
        key: &[u8],
        value: V::New<'a>,
        mode: Mode,
    ) -> Result<Outcome<'g, V, V::New<'a>>, Rejected<V::New<'a>>> {
        let mut value = value;
        let mut again = true;
        loop {
            let mut held = self.shard();
            let mut contention = LockContention::default();
            // SAFETY: the guard is held for 'g; `write` has released its locks.
            let done = unsafe {
                let done = self.write(&mut held, key, value, mode, &mut contention);
                let (entries, old) = match done {
                    Done::Inserted(_) => (1, None),
                    Done::Replaced(old) => (0, Some(old)),
                    _ => (0, None),
                };
                self.finish(held, contention, entries, old);
                done
            };
            let refused = |value, error| Err(Rejected { value, error });
            return match done {
                Done::Inserted(leaf) => Ok(Outcome::Inserted(self.value(guard, leaf))),
                Done::Replaced(leaf) => Ok(Outcome::Replaced(self.value(guard, leaf))),
                Done::Exists(leaf, value) => {
                    Ok(Outcome::Refused(Some(self.value(guard, leaf)), value))
                }
                Done::Absent(value) => Ok(Outcome::Refused(None, value)),
                Done::Full(value) => {
                    let max_entries = self.most().unwrap_or_default();
                    refused(value, Error::Full { max_entries })
                }
                Done::Lacks(back, lack) => {
                    if again && self.scavenge(lack) {
                        again = false;
                        value = back;
                        continue;
                    }
                    refused(back, lack.into())
                }
            };
        }
    }

    /// Replaces the value of a key if it passes the test. The test may run several times; its last
    /// answer counts.
    ///
    /// The test is the user's code. It runs while this thread holds no shard and no lock, so it may
    /// call anything. A value that it has passed is replaced only if it is still in its leaf.
    fn change_if<'g, 'a>(
        &'g self,
        guard: Guard<'g>,
        key: &[u8],
        value: V::New<'a>,
        test: &mut Test<'_, V>,
    ) -> Result<Outcome<'g, V, V::New<'a>>, Rejected<V::New<'a>>> {
        let mut value = value;
        loop {
            let Some(leaf) = self.find_guarded(guard, key) else {
                return Ok(Outcome::Refused(None, value));
            };
            let found = self.value(guard, leaf);
            if !test(found) {
                return Ok(Outcome::Refused(Some(found), value));
            }
            match self.change(guard, key, value, Mode::Only(leaf))? {
                Outcome::Refused(_, back) => value = back,
                done => return Ok(done),
            }
        }
    }

    /// Removes a key if its value passes the test, which runs as in
    /// [`change_if`](Self::change_if).
    fn take_if<'g>(
        &'g self,
        guard: Guard<'g>,
        key: &[u8],
        test: &mut Test<'_, V>,
    ) -> Result<Removed<'g, V>, Lack> {
        while let Some(leaf) = self.find_guarded(guard, key) {
            if !test(self.value(guard, leaf)) {
                break;
            }
            let removed = self.take(guard, key, Some(leaf))?;
            if removed.value.is_some() {
                return Ok(removed);
            }
        }
        Ok(Removed {
            value: None,
            last: false,
        })
    }

    /// Removes a key, or only this leaf of it, which was found under the guard.
    #[inline]
    fn take<'g>(
        &'g self,
        guard: Guard<'g>,
        key: &[u8],
        only: Option<u32>,
    ) -> Result<Removed<'g, V>, Lack> {
        let mut again = true;
        loop {
            let mut held = self.shard();
            let mut contention = LockContention::default();
            // SAFETY: as in `change`.
            let (removed, vacant) = unsafe {
                let removed = self.remove(&mut held, key, only, &mut contention);
                let old = removed.as_ref().ok().copied().flatten();
                if old.is_some() {
                    self.return_entry();
                }
                let vacant = self.finish(held, contention, -isize::from(old.is_some()), old);
                (removed, vacant)
            };
            match removed {
                Ok(leaf) => {
                    let value = leaf.map(|leaf| self.value(guard, leaf));
                    let last = value.is_some() && vacant;
                    return Ok(Removed { value, last });
                }
                Err(lack) if again && self.scavenge(lack) => again = false,
                Err(lack) => return Err(lack),
            }
        }
    }

    /// Frees up to `budget` nodes of all shards that no reader can hold any more; adds their values
    /// to `values`. If the map is empty, pools return their free memory.
    fn reclaim(&self, budget: usize, values: &mut Vec<V::Held>) -> usize {
        let empty = self.is_vacant() && self.empty();
        self.reclaim_all::<V>(budget, values, empty)
    }

    /// Collects free memory of all writers after a change lacked something; returns whether another
    /// attempt may succeed.
    fn scavenge(&self, lack: Lack) -> bool {
        let mut values = Vec::new();
        let found = self.reclaim(usize::MAX, &mut values) > 0;
        match lack {
            Lack::Memory(_) => self.drain_pools() || found,
            // Other writers may have returned the room that they had reserved.
            Lack::Garbage(_) => true,
        }
    }

    /// Runs a change until it has the memory and the room for garbage that it needs. Each attempt
    /// has a guard of its own, because that guard holds memory back. Between attempts the call
    /// waits for room for garbage, if the domain's policy says so. The caller need not hold a
    /// guard; if it does, that guard holds memory back, too.
    #[inline]
    fn with_room<T, R>(
        &self,
        given: T,
        mut change: impl FnMut(T) -> Result<R, (T, Error)>,
    ) -> Result<R, (T, Error)> {
        let (mut given, mut tries) = (given, 0);
        loop {
            let (back, error) = match change(given) {
                Ok(done) => return Ok(done),
                Err(refused) => refused,
            };
            let hope = match &error {
                Error::ArenaFull(full) => {
                    tries += 1;
                    tries < TRIES && self.scavenge(Lack::Memory(*full))
                }
                Error::GarbageLimit(limit) => self.wait_for_room(limit.requested).is_ok(),
                _ => false,
            };
            if !hope {
                return Err((back, error));
            }
            given = back;
        }
    }

    /// Waits for room for garbage, or fails, by the domain's policy.
    #[cold]
    fn wait_for_room(&self, bytes: usize) -> Result<(), GarbageLimit> {
        let mut values = Vec::new();
        self.reclaim(usize::MAX, &mut values);
        values.clear();
        self.domain().admit_with(bytes, || {
            self.reclaim(usize::MAX, &mut values);
            values.clear();
            self.domain().garbage() > 0
        })
    }
}

/// The total number of attempts of a change that lacks memory.
const TRIES: u32 = 4;

impl<V: ?Sized + Value, S: Structure<V>> Operations<V> for S {}
