//! A window of the arena as the region of one map: so much of it, from so far on.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sapwood_arena::Region;

use super::arena::{Memory, PAGE};
use super::space;
use crate::layout::page;

/// Bytes that a window grows by at least.
const STEP: usize = 64 << 10;

/// The memory of one map.
pub(crate) struct Window {
    memory: Arc<Memory>,
    number: u32,
    at: usize,
    capacity: usize,
    len: usize,
}

impl Window {
    /// The window of this number with this many bytes from `at` on, whole pages.
    ///
    /// # Safety
    /// No one else has any of them, in this process or another, until this is dropped, and they are
    /// zeros or were never used.
    pub(crate) unsafe fn new(
        memory: &Arc<Memory>,
        number: u32,
        at: usize,
        capacity: usize,
    ) -> Window {
        debug_assert!(at >= PAGE && at + capacity <= memory.len());
        Window {
            memory: Arc::clone(memory),
            number,
            at,
            capacity,
            len: 0,
        }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Where its list entry says how much of it has memory.
    fn say(&self) {
        let word = |field| self.memory.entry(self.number, field);
        word(page::WINDOW_USED_OF).store(0, Ordering::Release);
        word(page::WINDOW_USED).store(self.len as u64, Ordering::Release);
        word(page::WINDOW_USED_OF).store(self.at as u64, Ordering::Release);
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        space::release(&self.memory, |held| {
            if held.at == self.at {
                held.region = false;
            }
        });
    }
}

// SAFETY: the memory from `base` to `base + len` is mapped as long as `memory` is held, and is this
// window's alone, by the promise to `new`. (Who writes into an arena of ours without this library
// breaks that promise, as does who writes into any process's memory.) The base does not move and is
// aligned to a page. Pages are populated before they are counted, and zeroed when they are new;
// those that were given back are there again, as zeros, when they are next touched.
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

    fn extend(&mut self, min_len: usize) -> bool {
        // Pages cost 6 to 13 us each, the system call a tenth of one: 64 KiB at a time are enough.
        let wanted = min_len
            .max(self.len + STEP)
            .next_multiple_of(PAGE)
            .min(self.capacity);
        for len in [wanted, min_len.next_multiple_of(PAGE)] {
            if self.memory.populate(self.at + self.len, self.at + len) {
                self.len = len;
                self.say();
                return true;
            }
        }
        false
    }

    fn is_stable(&self) -> bool {
        true
    }

    fn release(&mut self, range: Range<usize>) -> bool {
        let end = range.end.min(self.len);
        self.memory.free_pages(self.at + range.start, self.at + end)
    }

    fn reserved(&self) -> usize {
        self.capacity
    }
}
