//! Slots: each holds a value that readers reach without a lock, and that a writer replaces with one
//! store.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::cell::UnsafeCell;
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

use sapwood_qsbr::{Domain, Guard, RetireQueue};

use crate::sync::{self, Mutex, MutexGuard};

/// A slot. The values that it held before are freed after a grace period, or with the slot.
///
/// The first value lies in the slot itself, behind the word that says so: what a reader needs then
/// is one line of the cache, or neighbours, for which it waits at once.
#[repr(C, align(64))]
pub(crate) struct Slot<T> {
    /// A value of a box; null: `first`.
    thing: AtomicPtr<T>,
    first: UnsafeCell<MaybeUninit<T>>,
    domain: Domain,
    replaced: Mutex<RetireQueue<Replaced<T>>>,
}

// SAFETY: `first` is written before others have the slot, and dropped when nobody reads it any
// more. In between it is read as a shared `T`.
unsafe impl<T: Send + Sync> Sync for Slot<T> {}

/// A value that was in a slot.
struct Replaced<T>(NonNull<T>);

// SAFETY: it owns a value that any thread may have made, and any may drop.
unsafe impl<T: Send> Send for Replaced<T> {}

impl<T> Replaced<T> {
    /// # Safety
    /// The value is the slot's own, which is at `first`, or a box's. The grace period since it was
    /// replaced is over, or nobody can hold a reference that the slot gave.
    unsafe fn free(self, first: *mut T) {
        match ptr::eq(self.0.as_ptr(), first) {
            // SAFETY: the slot's own value leaves it once. By the caller's promise nobody reads it.
            true => unsafe { first.drop_in_place() },
            // SAFETY: it came from a box and is in no slot. Nobody reads it, as above.
            false => drop(unsafe { Box::from_raw(self.0.as_ptr()) }),
        }
    }
}

impl<T: Send + Sync + 'static> Slot<T> {
    /// A slot that holds a value. It stays where it is.
    pub(crate) fn new(domain: &Domain, thing: T) -> Arc<Self> {
        Arc::new(Self {
            thing: AtomicPtr::new(ptr::null_mut()),
            first: UnsafeCell::new(MaybeUninit::new(thing)),
            domain: domain.clone(),
            replaced: Mutex::new(RetireQueue::new(domain)),
        })
    }

    /// The value in the slot.
    ///
    /// # Panics
    /// If the guard is of another domain.
    #[inline(always)]
    pub(crate) fn get<'g>(&'g self, guard: Guard<'g>) -> &'g T {
        assert!(guard.belongs_to(&self.domain), "a guard of another domain");
        let thing = self.thing.load(Ordering::Acquire);
        match thing.is_null() {
            // SAFETY: it is freed as a box is.
            true => unsafe { &*self.first() },
            // A branch, and no choice of an address: the processor need not know `thing` to go on.
            // SAFETY: it was a box. That is freed after a grace period of this domain that began
            // when it was replaced, and the guard holds this grace period back; or with `self`,
            // which is borrowed.
            false => unsafe { boxed(thing) },
        }
    }

    fn lock(&self) -> MutexGuard<'_, RetireQueue<Replaced<T>>> {
        // A panic leaves nothing half done: values are dropped after they left the queue.
        sync::lock(&self.replaced)
    }

    /// Stores another value. Readers see the one or the other. The old value counts as `bytes` of
    /// garbage while it waits; no limit refuses it.
    pub(crate) fn replace(&self, thing: T, bytes: usize) {
        let thing = Box::into_raw(Box::new(thing));
        let mut replaced = self.lock();
        // Release for the new one, Acquire to free the old one on this thread.
        let old = self.thing.swap(thing, Ordering::AcqRel);
        replaced.push(Replaced(self.place(old)), bytes);
        replaced.seal();
    }

    /// Frees up to `budget` replaced values that no reader can hold any more. Returns how many, and
    /// whether any are left.
    pub(crate) fn reclaim(&self, budget: usize) -> (usize, bool) {
        let mut replaced = self.lock();
        // SAFETY: the queue waited for a grace period since the thing was replaced.
        let freed = replaced.reclaim(budget, |old| unsafe { old.free(self.first()) });
        (freed, !replaced.is_empty())
    }
}

impl<T> Slot<T> {
    /// The place of the slot's own value.
    fn first(&self) -> *mut T {
        self.first.get().cast()
    }

    /// The place of the value that a pointer means.
    fn place(&self, thing: *mut T) -> NonNull<T> {
        let first = NonNull::from(&self.first).cast();
        NonNull::new(thing).unwrap_or(first)
    }
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        let first = self.first();
        let replaced = sync::get_mut(&mut self.replaced);
        // SAFETY: every reference that the slot gave borrows it, so there is none.
        replaced.drain(|old| unsafe { old.free(first) });
        let thing = *self.thing.get_mut();
        // SAFETY: as above.
        unsafe { Replaced(self.place(thing)).free(first) };
    }
}

/// The value of a box, out of the way of lookups that find a slot's own value.
///
/// # Safety
/// There is a value at this place for the caller's lifetime.
#[cold]
#[inline(never)]
unsafe fn boxed<'g, T>(thing: *const T) -> &'g T {
    // SAFETY: the caller's promise.
    unsafe { &*thing }
}

impl<T> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_hold_things_up() {
        let (domain, thing) = (Domain::new(), Arc::new(7));
        let slot = Slot::new(&domain, Arc::clone(&thing));
        let mut reader = domain.register("reader").unwrap();
        let seen = slot.get(reader.guard());
        slot.replace(Arc::new(8), 8);
        assert_eq!((slot.reclaim(9), domain.garbage()), ((0, true), 8));
        assert_eq!((**seen, Arc::strong_count(&thing)), (7, 2));
        reader.quiescent();
        assert_eq!(slot.reclaim(9), (1, false));
        assert_eq!(Arc::strong_count(&thing), 1);
        assert_eq!(**slot.get(reader.guard()), 8);
        slot.replace(Arc::clone(&thing), 8);
        slot.replace(Arc::new(9), 8);
        drop(slot);
        assert_eq!(Arc::strong_count(&thing), 1);
    }

    #[test]
    #[should_panic = "a guard of another domain"]
    fn guards_of_others() {
        let slot = Slot::new(&Domain::new(), 7);
        slot.get(Domain::new().register("reader").unwrap().guard());
    }
}
