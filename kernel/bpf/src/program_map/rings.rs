//! Rings between user space and programs: user space puts references in, and programs take them out
//! in the same order.
//!
//! Each side has a count, which only grows (modulo 2^32). A side stores its own count and reads the
//! other's. User space checks the count of programs before it uses it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::layout::program_map as k;
use crate::raw::arena::Memory;

/// One ring, as user space sees it.
pub(super) struct Ring {
    memory: Arc<Memory>,
    /// The places of its head and of its slots, in bytes from the arena's beginning.
    head: usize,
    slots: usize,
    capacity: u32,
    /// The references that user space has put in so far.
    count: u32,
}

/// The place in a window of the head of the ring with this number.
pub(super) fn head_of(number: usize) -> usize {
    k::RINGS + number * k::RING_BYTES
}

/// The error of a ring in which the count of programs is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damaged;

impl Ring {
    /// Makes a ring. `window` is the window's place in the arena, `head` and `slots` are the places
    /// of the head and of the slots in the window, all in bytes. `capacity` is the number of slots,
    /// a power of two.
    pub(super) fn new(
        memory: &Arc<Memory>,
        window: usize,
        head: usize,
        slots: usize,
        capacity: u32,
    ) -> Ring {
        let ring = Ring {
            memory: Arc::clone(memory),
            head: window + head,
            slots: window + slots,
            capacity,
            count: 0,
        };
        ring.store(k::RING_MASK, capacity - 1);
        ring.store(k::RING_SLOTS, (slots / 8) as u32);
        ring
    }

    /// Finds a ring that a dead owner made. The ring's head has the place and the number of slots.
    /// `None` when the slots do not all lie in the window within these bounds.
    pub(super) fn found(
        memory: &Arc<Memory>,
        window: usize,
        head: usize,
        (begin, end): (usize, usize),
    ) -> Option<Ring> {
        let head = window + head;
        let load = |at: usize| memory.u32(head + at).load(Ordering::Acquire);
        let capacity = load(k::RING_MASK).checked_add(1)?;
        let slots = load(k::RING_SLOTS) as usize * 8;
        let fits = slots >= begin && slots + capacity as usize * 4 <= end;
        (capacity.is_power_of_two() && fits).then(|| Ring {
            memory: Arc::clone(memory),
            head,
            slots: window + slots,
            capacity,
            count: load(k::RING_USER),
        })
    }

    pub(super) fn capacity(&self) -> u32 {
        self.capacity
    }

    fn store(&self, at: usize, value: u32) {
        let word = self.memory.u32(self.head + at);
        word.store(value, Ordering::Release);
    }

    /// Sets the number of slots that insertions leave to removals.
    pub(super) fn keep(&self, kept: u32) {
        self.store(k::RING_KEPT, kept);
    }

    fn programs(&self) -> u32 {
        let word = self.memory.u32(self.head + k::RING_PROGRAMS);
        word.load(Ordering::Acquire)
    }

    fn slot(&self, count: u32) -> usize {
        self.slots + (count & (self.capacity - 1)) as usize * 4
    }

    /// The number of references that programs have not taken yet.
    pub(super) fn offered(&self) -> Result<u32, Damaged> {
        let left = self.count.wrapping_sub(self.programs());
        (left <= self.capacity).then_some(left).ok_or(Damaged)
    }

    /// Puts references in. The caller makes sure that there is room.
    pub(super) fn put(&mut self, references: &[u32]) {
        for &reference in references {
            let slot = self.memory.u32(self.slot(self.count));
            slot.store(reference, Ordering::Relaxed);
            self.count = self.count.wrapping_add(1);
        }
        self.store(k::RING_USER, self.count);
    }

    /// Takes all references out that programs have not taken yet, as a program would.
    pub(super) fn take_back(&self) -> Result<Vec<u32>, Damaged> {
        loop {
            let programs = self.programs();
            let left = self.count.wrapping_sub(programs);
            if left > self.capacity {
                return Err(Damaged);
            }
            let all = self.read(programs, left);
            let word = self.memory.u32(self.head + k::RING_PROGRAMS);
            let taken =
                word.compare_exchange(programs, self.count, Ordering::AcqRel, Ordering::Acquire);
            if taken.is_ok() {
                return Ok(all);
            }
        }
    }

    /// The references that programs have not taken yet.
    pub(super) fn all_offered(&self) -> Result<Vec<u32>, Damaged> {
        let left = self.offered()?;
        Ok(self.read(self.count.wrapping_sub(left), left))
    }

    fn read(&self, from: u32, count: u32) -> Vec<u32> {
        let slot = |i| self.memory.u32(self.slot(from.wrapping_add(i)));
        (0..count)
            .map(|i| slot(i).load(Ordering::Relaxed))
            .collect()
    }
}
