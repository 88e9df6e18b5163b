//! A window of the arena as the region of one map: so much of it, from so far on.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sapwood_arena::{ArenaFull, Region};

use super::arena::{Memory, PAGE};
use crate::layout::page;

/// Bytes that a window grows by at least.
const STEP: usize = 64 << 10;

/// The memory of one map.
pub(crate) struct Window {
    memory: Arc<Memory>,
    at: usize,
    capacity: usize,
    len: usize,
}

impl Window {
    /// Cuts a window of whole pages off the arena: memory that nobody was given before, so zeroed or never used. `None` when there
    /// is not so much left, and how much there is.
    pub(crate) fn cut(memory: &Arc<Memory>, bytes: usize) -> Result<Window, usize> {
        let used = memory.u64(page::USED_AT);
        let mut at = used.load(Ordering::Relaxed);
        loop {
            let left = memory.len().saturating_sub(at as usize);
            let capacity = bytes.max(PAGE).checked_next_multiple_of(PAGE);
            let Some(capacity) = capacity.filter(|capacity| *capacity <= left) else {
                return Err(left);
            };
            if (at as usize) < PAGE || at % PAGE as u64 != 0 {
                return Err(0);
            }
            let end = at + capacity as u64;
            match used.compare_exchange(at, end, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    return Ok(Window {
                        memory: Arc::clone(memory),
                        at: at as usize,
                        capacity,
                        len: 0,
                    });
                }
                Err(now) => at = now,
            }
        }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }
}

// SAFETY: the memory from `base` to `base + len` is mapped as long as `memory` is held, and is this window's alone: `cut` gives
// no byte out twice, as its counter only grows. (Who writes into an arena of ours without this library breaks that promise, as does
// who writes into any process's memory.) The base does not move and is aligned to a page. Pages are populated before they are
// counted, and zeroed when they are new.
unsafe impl Region for Window {
    fn base(&self) -> NonNull<u8> {
        // SAFETY: inside the mapping.
        unsafe { self.memory.base().add(self.at) }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn grow(&mut self, min_len: usize) -> Result<(), ArenaFull> {
        if min_len <= self.len {
            return Ok(());
        }
        let full = ArenaFull {
            requested: min_len,
            limit: self.capacity,
        };
        if min_len > self.capacity {
            return Err(full);
        }
        // Pages cost 6 to 13 us each, the system call a tenth of one: 64 KiB at a time are enough.
        let wanted = min_len
            .max(self.len + STEP)
            .next_multiple_of(PAGE)
            .min(self.capacity);
        for len in [wanted, min_len.next_multiple_of(PAGE)] {
            if self.memory.populate(self.at + self.len, self.at + len) {
                self.len = len;
                return Ok(());
            }
        }
        Err(full)
    }

    fn is_stable(&self) -> bool {
        true
    }

    fn reserved(&self) -> usize {
        self.capacity
    }
}
