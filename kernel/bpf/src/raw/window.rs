//! A window of the arena as the region of one map.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sapwood_arena::Region;

use super::arena::{Memory, PAGE};
use super::space;
use crate::layout::page;

/// The least number of bytes by which a window grows.
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
    /// The window of this number, with `capacity` bytes from `at` on, whole pages.
    ///
    /// # Safety
    /// Until this is dropped, no other user in this or another process may have any of these bytes.
    /// They must be zeros or unused.
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

    /// Writes to the list entry how many bytes of the window have memory.
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

// SAFETY: the memory from `base` to `base + len` is mapped as long as `memory` is held, and belongs
// to this window alone, by the contract of `new`. (A process that writes into an arena without this
// library breaks that contract, as does one that writes into another process's memory.) The base
// does not move and is aligned to a page. Pages are populated before they are counted, and new
// pages are zeros. Freed pages come back as zeros at the next access.
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
        // A page costs 6 to 13 us, and the system call a tenth of that: 64 KiB at a time are
        // enough.
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
