//! Locks by two bits of a word: the header of a branch, which readers use, or the root's lock word.
//!
//! Two bits have four states:
//!
//! | MARK | LOCKED | |
//! |---|---|---|
//! | 0 | 0 | free |
//! | 0 | 1 | held by a writer |
//! | 1 | 1 | held, and other writers sleep until it is free |
//! | 1 | 0 | obsolete for ever: the branch was replaced or unlinked |
//!
//! Readers ignore both bits. A writer that finds a word held spins for a moment. Then it marks the
//! word and sleeps in one of a few parking lots, which all words of a map share. All other bits of
//! the word are constant while it may be locked. Loom checks the protocol, with the models in
//! `models.rs`.

use crate::sync::{self, AtomicU32, Condvar, Mutex, Ordering};
use core::time::Duration;

/// `LOCKED`: a writer holds the word. `MARK` with `LOCKED`: another writer sleeps. `MARK` without
/// `LOCKED`: the branch is obsolete.
pub(crate) use sapwood_format::branch::{FRESH as LOCKED, MARK};
const STATE: u32 = LOCKED | MARK;

/// Rounds of spinning before a writer goes to sleep.
#[cfg(not(any(loom, shuttle)))]
const SPINS: u32 = 7;
#[cfg(any(loom, shuttle))]
const SPINS: u32 = 0;

const LOTS: usize = if cfg!(loom) { 1 } else { 16 };

/// The contention of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockContention {
    /// Number of locks that others held, and of changes by others that made the operation begin
    /// anew.
    pub(crate) locks: u32,
    /// The time that the operation waited.
    pub(crate) waited: Duration,
}

/// The parking lots of a map, where writers sleep.
pub(crate) struct Parking {
    lots: [Lot; LOTS],
}

#[derive(Default)]
struct Lot {
    mutex: Mutex<()>,
    free: Condvar,
}

impl Parking {
    pub(crate) fn new() -> Self {
        Parking {
            lots: core::array::from_fn(|_| Lot::default()),
        }
    }

    fn lot(&self, word: &AtomicU32) -> &Lot {
        let address = core::ptr::from_ref(word).addr();
        &self.lots[(address >> 4 ^ address >> 10) % LOTS]
    }

    /// Locks a word and returns its other bits; `None` if it is obsolete.
    #[inline]
    pub(crate) fn acquire(&self, word: &AtomicU32, contention: &mut LockContention) -> Option<u32> {
        sync::point();
        let h = word.load(Ordering::Relaxed);
        if h & STATE == 0
            && word
                .compare_exchange(h, h | LOCKED, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        {
            return Some(h);
        }
        self.acquire_slow(word, contention)
    }

    #[cold]
    #[inline(never)]
    fn acquire_slow(&self, word: &AtomicU32, contention: &mut LockContention) -> Option<u32> {
        contention.locks += 1;
        #[cfg(not(any(loom, shuttle)))]
        let since = std::time::Instant::now();
        let mut round = 0;
        let got = loop {
            sync::point();
            let h = word.load(Ordering::Relaxed);
            match h & STATE {
                0 => {
                    let taken =
                        word.compare_exchange(h, h | LOCKED, Ordering::Acquire, Ordering::Relaxed);
                    if taken.is_ok() {
                        break Some(h);
                    }
                }
                MARK => break None,
                _ if round < SPINS => {
                    for _ in 0..1u32 << round {
                        sync::spin();
                    }
                    round += 1;
                }
                _ => self.park(word),
            }
        };
        #[cfg(not(any(loom, shuttle)))]
        {
            contention.waited += since.elapsed();
        }
        got
    }

    /// Sleeps until the word is not held.
    fn park(&self, word: &AtomicU32) {
        let lot = self.lot(word);
        let mut held = sync::lock(&lot.mutex);
        loop {
            sync::point();
            let h = word.load(Ordering::Relaxed);
            if h & LOCKED == 0 {
                return;
            }
            // The writer that releases the word sees the mark. It needs the lot's lock to wake this
            // thread, so it does so after this thread sleeps.
            let marked = h & MARK != 0
                || word
                    .compare_exchange(h, h | MARK, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok();
            if marked {
                held = lot
                    .free
                    .wait(held)
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
            }
        }
    }

    /// Releases a word that this thread holds.
    #[inline]
    pub(crate) fn release(&self, word: &AtomicU32) {
        sync::point();
        let before = word.fetch_and(!STATE, Ordering::Release);
        debug_assert!(before & LOCKED != 0, "only its holder releases a word");
        if before & MARK != 0 {
            self.wake(word);
        }
    }

    /// Makes a word that this thread holds obsolete. Nobody locks it again.
    #[inline]
    pub(crate) fn abandon(&self, word: &AtomicU32) {
        sync::point();
        // Between the two writes, another writer can only add the mark.
        let mut before = word.load(Ordering::Relaxed);
        debug_assert!(before & LOCKED != 0, "only its holder abandons a word");
        while let Err(now) = word.compare_exchange(
            before,
            before & !LOCKED | MARK,
            Ordering::Release,
            Ordering::Relaxed,
        ) {
            before = now;
        }
        if before & MARK != 0 {
            self.wake(word);
        }
    }

    #[cold]
    fn wake(&self, word: &AtomicU32) {
        let lot = self.lot(word);
        let held = sync::lock(&lot.mutex);
        lot.free.notify_all();
        drop(held);
    }
}

/// Whether the word is that of a live branch that nobody holds, as it must be while no writer is at
/// work.
pub(crate) fn is_idle(h: u32) -> bool {
    h & STATE == 0
}

/// The word without the lock's state.
#[inline(always)]
pub(crate) fn plain(h: u32) -> u32 {
    h & !STATE
}
