//! Whole operations on a shared trie for callers with a guard: a shard is taken, the change is made, and values that
//! were reclaimed on the way are dropped when the shard is free again.

use alloc::vec::Vec;

use sapwood_arena::ArenaFull;
use sapwood_qsbr::{GarbageLimit, Guard};

use super::trie::Trie;
use super::write::{Done, Mode};
use crate::qp::raw::leaf::LeafOf;
use crate::qp::raw::mem::Live;
use crate::qp::raw::view::View;
use crate::{Error, Rejected};

/// What came of a change.
pub(crate) enum Outcome<'g, V> {
    /// The key is new: its value.
    Inserted(&'g V),
    /// The value that was replaced.
    Replaced(&'g V),
    /// The mode forbids it: what is there, and the value that was to be inserted.
    Refused(Option<&'g V>, V),
}

impl<V> Trie<V> {
    /// What readers see now.
    #[inline(always)]
    pub(crate) fn guarded_view<'g>(&'g self, guard: Guard<'g>) -> View<'g, V, Live> {
        debug_assert!(guard.belongs_to(self.domain()), "the view has asked");
        // SAFETY: the guard, of the trie's domain, is held for 'g.
        unsafe { self.view() }
    }

    /// The leaf cell of a key.
    #[inline]
    pub(crate) fn find_guarded(&self, _: Guard<'_>, key: &[u8]) -> Option<u32> {
        // SAFETY: the guard is held for 'g.
        unsafe { self.find(key) }
    }

    /// Looks many keys up: `each(i, leaf)`, with 0 for a key that is not there.
    pub(crate) fn find_many_guarded<'g, K: AsRef<[u8]>>(
        &'g self,
        guard: Guard<'g>,
        keys: &[K],
        large: bool,
        mut each: impl FnMut(usize, u32),
    ) {
        let view = self.guarded_view(guard);
        match &self.index {
            // SAFETY: the guard is held for 'g.
            Some(index) if large => unsafe { self.find_many_indexed(index, keys, each) },
            None if large => crate::qp::raw::batch::find_many(&view, keys, each),
            _ => {
                for (i, key) in keys.iter().enumerate() {
                    each(i, self.find_guarded(guard, key.as_ref()).unwrap_or(0));
                }
            }
        }
    }

    /// The value of a leaf that was met under the guard.
    fn value<'g>(&'g self, _: Guard<'g>, leaf: u32) -> &'g V {
        // SAFETY: the leaf was live under the guard, so it is not freed while that is held.
        unsafe { &*LeafOf::<V>::value_ptr(self.pointer(leaf)) }
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

    /// Removes a key if its value passes the test.
    pub(crate) fn take<'g>(
        &'g self,
        guard: Guard<'g>,
        key: &[u8],
        test: &mut dyn FnMut(&V) -> bool,
    ) -> Result<Option<&'g V>, ArenaFull> {
        let mut again = true;
        loop {
            let mut values = Vec::new();
            // SAFETY: as in `change`.
            let removed = unsafe { self.remove(&mut self.shard(), key, test, &mut values) };
            drop(values);
            match removed {
                Ok(leaf) => return Ok(leaf.map(|leaf| self.value(guard, leaf))),
                Err(full) => {
                    let mut values = Vec::new();
                    if !again || !self.scavenge(&mut values) {
                        return Err(full);
                    }
                    again = false;
                }
            }
        }
    }

    /// One step of a compaction; whether there is more to do.
    pub(crate) fn compact(&self, _: Guard<'_>, budget: usize) -> Result<bool, ArenaFull> {
        let mut values = Vec::new();
        // SAFETY: the guard is held.
        unsafe { self.compact_step(budget, &mut values) }
    }

    /// How much garbage a change may make: the old leaf, and the largest branch.
    fn garbage_of(key_len: usize) -> usize {
        LeafOf::<V>::size(key_len) + crate::qp::raw::node::LARGEST
    }

    /// Asks whether a change may make garbage, without waiting.
    pub(crate) fn try_admit(&self, key_len: usize) -> Result<(), GarbageLimit> {
        let domain = self.domain();
        if domain.hard_limit().is_none() {
            return Ok(());
        }
        let bytes = Self::garbage_of(key_len);
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
        domain.admit_with(Self::garbage_of(key_len), || {
            self.reclaim(usize::MAX, &mut values);
            values.clear();
            domain.garbage() > 0
        })
    }
}
