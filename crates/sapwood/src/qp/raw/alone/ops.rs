//! Whole operations on a map that has only the index, for callers with a guard: a shard is taken, the change is made, and values
//! that were reclaimed on the way are dropped when the shard is free again.

use alloc::vec::Vec;

use sapwood_qsbr::{GarbageLimit, Guard};

use super::Alone;
pub(crate) use super::write::Test;
use crate::qp::raw::index::{Found, Together};
use crate::qp::raw::leaf::LeafOf;
use crate::qp::raw::shared::ops::Outcome;
use crate::qp::raw::shared::write::{Done, Mode};
use crate::{Error, Rejected};

/// What a removal did.
pub(crate) struct Removed<'g, V> {
    /// The value that was removed.
    pub(crate) value: Option<&'g V>,
    /// It may have been the last one.
    pub(crate) last: bool,
}

/// Where a walk stands.
pub(crate) struct Walk<'g, V> {
    map: &'g Alone<V>,
    guard: Guard<'g>,
    /// The hashes that are next; `None`: the end.
    from: Option<u32>,
    /// Those that are given next, from the back.
    ready: Together,
}

impl<V> Clone for Walk<'_, V> {
    fn clone(&self) -> Self {
        Walk {
            map: self.map,
            guard: self.guard,
            from: self.from,
            ready: self.ready.clone(),
        }
    }
}

impl<'g, V> Walk<'g, V> {
    #[inline]
    pub(crate) fn next(&mut self) -> Option<(&'g [u8], &'g V)> {
        loop {
            if let Some((_, leaf)) = self.ready.pop() {
                return Some(self.map.entry(self.guard, leaf));
            }
            let from = self.from?;
            let base = self.map.depot.base();
            // SAFETY: the guard is held for 'g.
            self.from = unsafe { (self.map.index).leaves_from(base, from, &mut self.ready) };
        }
    }
}

impl<V> Alone<V> {
    /// The leaf cell of a key.
    #[inline]
    pub(crate) fn find<'g>(&'g self, guard: Guard<'g>, key: &[u8]) -> Option<u32> {
        debug_assert!(guard.belongs_to(self.domain()), "the view has asked");
        // SAFETY: the guard, of the map's domain, is held for 'g.
        unsafe { self.find_hashed(self.index.hash(key), key) }
    }

    /// Looks many keys up: `each(i, leaf)`, with 0 for a key that is not there.
    pub(crate) fn find_many<'g, K: AsRef<[u8]>>(
        &'g self,
        guard: Guard<'g>,
        keys: &[K],
        large: bool,
        mut each: impl FnMut(usize, u32),
    ) {
        if !large {
            for (i, key) in keys.iter().enumerate() {
                each(i, self.find(guard, key.as_ref()).unwrap_or(0));
            }
            return;
        }
        // SAFETY: the guard is held for 'g.
        unsafe {
            (self.index).find_many(self.depot.base(), keys, |i, found| {
                let leaf = match found {
                    Found::Leaf(leaf) => leaf,
                    _ => 0,
                };
                each(i, leaf);
            });
        }
    }

    /// The value of a leaf that was met under the guard.
    #[inline]
    pub(crate) fn value<'g>(&'g self, _: Guard<'g>, leaf: u32) -> &'g V {
        // SAFETY: the leaf was in the map under the guard, so it is not freed while that is held.
        unsafe { &*LeafOf::<V>::value_ptr(self.pointer(leaf)) }
    }

    /// Key and value of a leaf that was met under the guard.
    #[inline]
    pub(crate) fn entry<'g>(&'g self, guard: Guard<'g>, leaf: u32) -> (&'g [u8], &'g V) {
        // SAFETY: as for `value`; keys never change.
        let key = unsafe { LeafOf::<V>::key(self.pointer(leaf)) };
        (key, self.value(guard, leaf))
    }

    /// A walk over all entries.
    pub(crate) fn walk<'g>(&'g self, guard: Guard<'g>) -> Walk<'g, V> {
        Walk {
            map: self,
            guard,
            from: Some(0),
            ready: Together::new(),
        }
    }

    /// Some keys, of those whose hashes begin with `from` or a little more; where to go on.
    pub(crate) fn some_keys(&self, _: Guard<'_>, from: u32) -> (Vec<Vec<u8>>, Option<u32>) {
        let mut leaves = Together::new();
        // SAFETY: the guard is held, also while the keys are copied.
        unsafe {
            let next = (self.index).leaves_from(self.depot.base(), from, &mut leaves);
            let copy = |(_, leaf): &(u64, u32)| LeafOf::<V>::key(self.pointer(*leaf)).to_vec();
            (leaves.iter().map(copy).collect(), next)
        }
    }

    /// Inserts, replaces, or does nothing, by the mode. When memory is lacking, free memory is collected from all writers
    /// and the change is tried once more.
    pub(crate) fn change<'g>(
        &'g self,
        guard: Guard<'g>,
        key: &[u8],
        value: V,
        mode: &mut Mode<'_, V>,
    ) -> Result<Outcome<'g, V>, Rejected<V>> {
        let mut value = value;
        let mut again = true;
        loop {
            let mut values = Vec::new();
            // SAFETY: the guard is held for 'g. The shard is free at the end of the statement, before values are dropped.
            let done = unsafe { self.write(&mut self.shard(), key, value, mode, &mut values) };
            drop(values);
            let refused = |value, error| Err(Rejected { value, error });
            return match done {
                Done::Inserted(leaf) => Ok(Outcome::Inserted(self.value(guard, leaf))),
                Done::Replaced(leaf) => Ok(Outcome::Replaced(self.value(guard, leaf))),
                Done::Exists(leaf, value) => {
                    Ok(Outcome::Refused(Some(self.value(guard, leaf)), value))
                }
                Done::Absent(value) => Ok(Outcome::Refused(None, value)),
                Done::Full(value) => refused(
                    value,
                    Error::Full {
                        max_entries: self.most().unwrap_or_default(),
                    },
                ),
                Done::NoMemory(back, full) => {
                    let mut values = Vec::new();
                    if again && self.scavenge(&mut values) {
                        again = false;
                        value = back;
                        continue;
                    }
                    refused(back, full.into())
                }
            };
        }
    }

    /// Removes a key, if its value passes the test.
    pub(crate) fn take<'g>(
        &'g self,
        guard: Guard<'g>,
        key: &[u8],
        test: Option<&mut Test<'_, V>>,
    ) -> Removed<'g, V> {
        let mut values = Vec::new();
        let mut held = self.shard();
        // SAFETY: as in `change`.
        let leaf = unsafe { self.remove(&mut held, key, test, &mut values) };
        let last = leaf.is_some() && held.inner.about == 0;
        drop(held);
        drop(values);
        Removed {
            value: leaf.map(|leaf| self.value(guard, leaf)),
            last,
        }
    }

    /// Frees up to `budget` leaves and blocks that nobody can hold any more; hands out the leaves' values. An empty map keeps
    /// no memory.
    pub(crate) fn reclaim(&self, budget: usize, values: &mut Vec<V>) -> usize {
        let empty = self.len() == 0 && self.empty_index();
        self.reclaim_all(budget, values, empty)
    }

    /// Makes what free memory there is usable by everybody, after a block could not be had; whether there was any.
    fn scavenge(&self, values: &mut Vec<V>) -> bool {
        let found = self.reclaim(usize::MAX, values) > 0;
        self.drain_pools() || found
    }

    /// Asks whether a change may make garbage, without waiting.
    pub(crate) fn try_admit(&self, key_len: usize) -> Result<(), GarbageLimit> {
        let domain = self.domain();
        if domain.hard_limit().is_none() {
            return Ok(());
        }
        let bytes = LeafOf::<V>::size(key_len);
        domain.try_admit(bytes).or_else(|_| {
            let mut values = Vec::new();
            self.reclaim(usize::MAX, &mut values);
            domain.try_admit(bytes)
        })
    }

    /// Asks whether a change may make garbage, and waits or fails by the domain's policy. The caller holds no guard.
    pub(crate) fn admit(&self, key_len: usize) -> Result<(), GarbageLimit> {
        let domain = self.domain();
        if domain.hard_limit().is_none() || self.try_admit(key_len).is_ok() {
            return Ok(());
        }
        let mut values = Vec::new();
        domain.admit_with(LeafOf::<V>::size(key_len), || {
            self.reclaim(usize::MAX, &mut values);
            values.clear();
            domain.garbage() > 0
        })
    }
}
