//! Numbered things that readers reach without a lock, and that a writer replaces with one store.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use sapwood_qsbr::{Domain, Guard, RetireQueue};

/// The first part has so many slots, each further one twice as many as the one before.
const FIRST: usize = 64;
const PARTS: usize = 26;

/// The slots. A slot's number is used again only after a grace period, so that who has read a number finds what was
/// stored there, or what replaced it, and nothing else.
pub(crate) struct Slots<T> {
    parts: [OnceLock<Box<[AtomicPtr<T>]>>; PARTS],
    domain: Domain,
    writer: Mutex<Writer<T>>,
}

struct Writer<T> {
    retired: RetireQueue<Retired<T>>,
    free: Vec<u32>,
    next: u32,
}

/// What nobody can reach any more who comes new.
enum Retired<T> {
    Thing(NonNull<T>),
    /// A slot and what is in it: who has read the number before still finds that.
    Number(u32),
}

// SAFETY: it owns things that it was given by any thread, and gives out shared references on any thread.
unsafe impl<T: Send + Sync> Send for Retired<T> {}
// SAFETY: shared, it only says that something is there.
unsafe impl<T: Send + Sync> Sync for Retired<T> {}

/// # Safety
/// It came from a box, is in no slot, and the grace period since it was is over, or no reader can be left.
unsafe fn free<T>(thing: NonNull<T>) {
    // SAFETY: by the caller's promise nobody holds a reference, and nobody frees it again.
    drop(unsafe { Box::from_raw(thing.as_ptr()) });
}

impl<T: Send + Sync + 'static> Slots<T> {
    pub fn new(domain: &Domain) -> Self {
        Self {
            parts: [const { OnceLock::new() }; PARTS],
            domain: domain.clone(),
            writer: Mutex::new(Writer {
                retired: RetireQueue::new(domain),
                free: Vec::new(),
                next: 0,
            }),
        }
    }

    fn place(number: u32) -> (usize, usize) {
        let at = number as usize / FIRST + 1;
        let part = at.ilog2() as usize;
        (part, number as usize - FIRST * ((1 << part) - 1))
    }

    #[inline]
    fn slot(&self, number: u32) -> Option<&AtomicPtr<T>> {
        let (part, at) = Self::place(number);
        self.parts[part].get()?.get(at)
    }

    /// What a slot holds.
    ///
    /// # Panics
    /// If the guard is of another domain.
    #[inline]
    pub fn get<'g>(&'g self, guard: Guard<'g>, number: u32) -> Option<&'g T> {
        assert!(guard.belongs_to(&self.domain), "a guard of another domain");
        let thing = self.slot(number)?.load(Ordering::Acquire);
        // SAFETY: a slot holds null or what `add` or `replace` made of a box. It is freed after a grace period of this domain
        // that began when it was unlinked, and the guard holds that up; or with `self`, which is borrowed.
        unsafe { thing.as_ref() }
    }

    fn lock(&self) -> MutexGuard<'_, Writer<T>> {
        // Nothing that is half done is left by a panic: things are dropped after they were unlinked.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a thing in a slot of its own; the slot's number.
    ///
    /// # Panics
    /// When there are four billion.
    pub fn add(&self, thing: T) -> u32 {
        let thing = Box::into_raw(Box::new(thing));
        let mut writer = self.lock();
        let number = writer.free.pop().unwrap_or_else(|| {
            let number = writer.next;
            writer.next = number.checked_add(1).expect("too many");
            number
        });
        let (part, at) = Self::place(number);
        let part = self.parts[part].get_or_init(|| {
            let empty = |_| AtomicPtr::new(ptr::null_mut());
            (0..FIRST << part).map(empty).collect()
        });
        part[at].store(thing, Ordering::Release);
        number
    }

    /// Stores another thing in a slot: readers see the one or the other.
    ///
    /// # Panics
    /// If the slot is empty.
    pub fn replace(&self, number: u32, thing: T) {
        let thing = Box::into_raw(Box::new(thing));
        let mut writer = self.lock();
        // Release for the new one, Acquire to free the old one on this thread.
        let slot = self.slot(number).expect("a slot that is there");
        let old = NonNull::new(slot.swap(thing, Ordering::AcqRel)).expect("a slot that is full");
        writer.retire(Retired::Thing(old));
    }

    /// Says that nobody new gets this number. Who has it still finds what is there; the slot is empty after a grace period.
    /// Called once for each `add`, and not followed by `replace`.
    pub fn remove(&self, number: u32) {
        self.lock().retire(Retired::Number(number));
    }

    /// Frees up to `budget` things whose readers have gone; returns how many.
    pub fn reclaim(&self, budget: usize) -> usize {
        let mut writer = self.lock();
        let Writer { retired, free, .. } = &mut *writer;
        retired.reclaim(budget, |retired| match retired {
            // SAFETY: the queue waited for a grace period since the thing was unlinked.
            Retired::Thing(thing) => unsafe { self::free(thing) },
            Retired::Number(number) => {
                let slot = self
                    .slot(number)
                    .map(|s| s.swap(ptr::null_mut(), Ordering::AcqRel));
                if let Some(thing) = slot.and_then(NonNull::new) {
                    // SAFETY: as above, since the number was; it is in no slot from here on.
                    unsafe { self::free(thing) };
                    free.push(number);
                }
            }
        })
    }
}

impl<T> Writer<T> {
    fn retire(&mut self, retired: Retired<T>) {
        self.retired.push(retired, size_of::<T>());
        self.retired.seal();
    }
}

impl<T> Drop for Slots<T> {
    fn drop(&mut self) {
        let writer = self.writer.get_mut();
        let writer = writer.unwrap_or_else(PoisonError::into_inner);
        writer.retired.drain(|retired| {
            if let Retired::Thing(thing) = retired {
                // SAFETY: every reference borrows `self`, so there is none; and what was replaced is in no slot.
                unsafe { free(thing) };
            }
        });
        for slot in self.parts.iter_mut().filter_map(OnceLock::get_mut) {
            for thing in slot.iter_mut().filter_map(|t| NonNull::new(*t.get_mut())) {
                // SAFETY: as above; a thing is in one slot only, and the slots go.
                unsafe { free(thing) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::sync::Arc;

    #[test]
    fn places() {
        let mut next = (0, 0);
        for number in 0..5000 {
            assert_eq!(Slots::<u8>::place(number), next);
            next = match next {
                (part, at) if at + 1 == FIRST << part => (part + 1, 0),
                (part, at) => (part, at + 1),
            };
        }
        assert!(Slots::<u8>::place(u32::MAX).0 <= PARTS);
    }

    #[test]
    fn readers_hold_things_up() {
        let (domain, thing) = (Domain::new(), Arc::new(7));
        let slots = Slots::new(&domain);
        let mut reader = domain.register("reader").unwrap();
        let number = slots.add(Arc::clone(&thing));
        let seen = slots.get(reader.guard(), number).unwrap();
        slots.replace(number, Arc::new(8));
        assert_eq!(slots.reclaim(9), 0);
        assert_eq!((**seen, Arc::strong_count(&thing)), (7, 2));
        reader.quiescent();
        assert_eq!(slots.reclaim(9), 1);
        assert_eq!(Arc::strong_count(&thing), 1);
        assert_eq!(slots.get(reader.guard(), number).map(|t| **t), Some(8));
        // A number comes back after a grace period, not before.
        slots.remove(number);
        assert_eq!(slots.get(reader.guard(), number).map(|t| **t), Some(8));
        let other = slots.add(Arc::clone(&thing));
        assert_ne!(other, number);
        reader.quiescent();
        assert_eq!(slots.reclaim(9), 1);
        assert!(slots.get(reader.guard(), number).is_none());
        assert_eq!(slots.add(Arc::clone(&thing)), number);
        assert_eq!(Arc::strong_count(&thing), 3);
        slots.remove(other);
        drop(slots);
        assert_eq!(Arc::strong_count(&thing), 1);
    }
}
