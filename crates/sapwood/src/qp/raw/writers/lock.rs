//! Locks of one bit in a word that readers use for something else: the header of a branch, the
//! root's own word.
//!
//! Two bits have four states:
//!
//! | MARK | LOCKED | |
//! |---|---|---|
//! | 0 | 0 | free |
//! | 0 | 1 | held by a writer |
//! | 1 | 1 | held, and others sleep until it is free |
//! | 1 | 0 | obsolete for ever: the branch was replaced or taken out |
//!
//! Readers ignore both bits. A writer that finds a word held spins for a moment, then marks it and
//! sleeps in one of a few parking lots, which are shared by all words of a map. All other bits of
//! the word are constant while it may be locked. The protocol is checked by loom (the models are in
//! `models.rs`).

use crate::sync::{self, AtomicU32, Condvar, Mutex, Ordering};
use core::time::Duration;

/// `LOCKED`: held by a writer. `MARK` with it: somebody sleeps; without: obsolete.
pub(crate) use sapwood_format::branch::{FRESH as LOCKED, MARK};
const STATE: u32 = LOCKED | MARK;

/// Rounds of spinning before a writer goes to sleep.
#[cfg(not(any(loom, shuttle)))]
const SPINS: u32 = 7;
#[cfg(any(loom, shuttle))]
const SPINS: u32 = 0;

const LOTS: usize = if cfg!(loom) { 1 } else { 16 };

/// The contention that one operation met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockContention {
    /// Locks that were held by others, and changes by others that made it begin anew.
    pub(crate) locks: u32,
    /// How long it waited.
    pub(crate) waited: Duration,
}

/// Where writers sleep.
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

    /// Locks a word and returns its other bits; `None` when it is obsolete.
    #[inline]
    pub(crate) fn acquire(&self, word: &AtomicU32, met: &mut LockContention) -> Option<u32> {
        sync::point();
        let h = word.load(Ordering::Relaxed);
        if h & STATE == 0
            && word
                .compare_exchange(h, h | LOCKED, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        {
            return Some(h);
        }
        self.acquire_slow(word, met)
    }

    #[cold]
    #[inline(never)]
    fn acquire_slow(&self, word: &AtomicU32, met: &mut LockContention) -> Option<u32> {
        met.locks += 1;
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
            met.waited += since.elapsed();
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
            // Whoever frees the word sees the mark, and wakes us after we sleep: it needs the lot's
            // lock for that.
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

    /// Frees a word that this thread holds.
    #[inline]
    pub(crate) fn release(&self, word: &AtomicU32) {
        sync::point();
        let before = word.fetch_and(!STATE, Ordering::Release);
        debug_assert!(before & LOCKED != 0, "released by who holds it");
        if before & MARK != 0 {
            self.wake(word);
        }
    }

    /// Makes a word that this thread holds obsolete: nobody locks it again.
    #[inline]
    pub(crate) fn abandon(&self, word: &AtomicU32) {
        sync::point();
        // Between the two writes nobody else changes the word but to add the mark.
        let mut before = word.load(Ordering::Relaxed);
        debug_assert!(before & LOCKED != 0, "abandoned by who holds it");
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

/// Whether the word is that of a live branch that nobody holds: what a walk at rest must find.
pub(crate) fn is_idle(h: u32) -> bool {
    h & STATE == 0
}

/// The word without the lock's state.
#[inline(always)]
pub(crate) fn plain(h: u32) -> u32 {
    h & !STATE
}
