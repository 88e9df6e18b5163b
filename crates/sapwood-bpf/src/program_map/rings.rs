//! Rings between user space and programs: one side puts references in, the other takes them out, in
//! their order.
//!
//! Both counts only grow (modulo 2^32). A side stores its own and reads the other's, which it does
//! not believe.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::layout::program_map as k;
use crate::raw::arena::Memory;

/// One ring, as user space sees it.
pub(super) struct Ring {
    memory: Arc<Memory>,
    /// Where its head is, and its slots are, in bytes from the arena's beginning.
    head: usize,
    slots: usize,
    capacity: u32,
    /// What this side has put in, or taken out.
    count: u32,
}

/// The other side's count cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damaged;

impl Ring {
    /// A ring of this many slots, a power of two. `window` is where the window is, `slots` where in
    /// it the slots are.
    pub(super) fn new(
        memory: &Arc<Memory>,
        window: usize,
        number: usize,
        slots: usize,
        capacity: u32,
    ) -> Ring {
        let ring = Ring {
            memory: Arc::clone(memory),
            head: window + k::RINGS + number * k::RING_BYTES,
            slots: window + slots,
            capacity,
            count: 0,
        };
        ring.store(k::RING_MASK, capacity - 1);
        ring.store(k::RING_SLOTS, (slots / 8) as u32);
        ring
    }

    /// A ring that a dead owner made: its head says where the slots are and how many. `None` when
    /// they are not all in the window before `end`.
    pub(super) fn found(
        memory: &Arc<Memory>,
        window: usize,
        number: usize,
        end: usize,
    ) -> Option<Ring> {
        let head = window + k::RINGS + number * k::RING_BYTES;
        let load = |at: usize| memory.u32(head + at).load(Ordering::Acquire);
        let capacity = load(k::RING_MASK).checked_add(1)?;
        let slots = load(k::RING_SLOTS) as usize * 8;
        let fits = slots >= k::HEADS_END && slots + capacity as usize * 4 <= end;
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

    /// How many insertions leave to removals.
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

    /// What programs have not taken.
    pub(super) fn offered(&self) -> Result<u32, Damaged> {
        let left = self.count.wrapping_sub(self.programs());
        (left <= self.capacity).then_some(left).ok_or(Damaged)
    }

    /// Puts references in; there is room.
    pub(super) fn put(&mut self, references: &[u32]) {
        for &reference in references {
            let slot = self.memory.u32(self.slot(self.count));
            slot.store(reference, Ordering::Relaxed);
            self.count = self.count.wrapping_add(1);
        }
        self.store(k::RING_USER, self.count);
    }

    /// What was put in and not taken out.
    pub(super) fn all_offered(&self) -> Result<Vec<u32>, Damaged> {
        let left = self.offered()?;
        Ok(self.read(self.count.wrapping_sub(left), left))
    }

    /// What programs have put in and was not fetched.
    pub(super) fn waiting(&self) -> Result<Vec<u32>, Damaged> {
        let there = self.programs().wrapping_sub(self.count);
        match there <= self.capacity {
            true => Ok(self.read(self.count, there)),
            false => Err(Damaged),
        }
    }

    fn read(&self, from: u32, count: u32) -> Vec<u32> {
        let slot = |i| self.memory.u32(self.slot(from.wrapping_add(i)));
        (0..count)
            .map(|i| slot(i).load(Ordering::Relaxed))
            .collect()
    }

    /// Fetches what programs have put in. After damage, everything up to where they say they are is
    /// lost.
    pub(super) fn fetch(&mut self) -> Result<Vec<u32>, Damaged> {
        let programs = self.programs();
        let all = self.waiting();
        self.count = match &all {
            Ok(all) => self.count.wrapping_add(all.len() as u32),
            Err(Damaged) => programs,
        };
        self.store(k::RING_USER, self.count);
        all
    }
}
