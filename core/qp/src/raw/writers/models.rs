//! Models of the lock protocol for loom: every order of its memory accesses, up to the preemptions
//! that `LOOM_MAX_PREEMPTIONS` allows.
//! `RUSTFLAGS="--cfg loom" cargo test -p sapwood-qp --lib --release models`.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::lock::{LockContention, Parking, is_idle, plain};
use crate::sync::{AtomicU32, Ordering};

/// The header of a small branch.
const HEADER: u32 = 0x0102_0007;

struct Word {
    word: AtomicU32,
    parking: Parking,
    /// The lock of the word guards this value. Loom reports any two accesses that are not ordered.
    value: UnsafeCell<usize>,
}

// SAFETY: the value is accessed only under the lock, which the models check.
unsafe impl Sync for Word {}

impl Word {
    fn new() -> Arc<Self> {
        Arc::new(Word {
            word: AtomicU32::new(HEADER),
            parking: Parking::new(),
            value: UnsafeCell::new(0),
        })
    }

    /// Adds one under the lock; returns whether the word was still live.
    fn add(&self) -> bool {
        let Some(h) = self
            .parking
            .acquire(&self.word, &mut LockContention::default())
        else {
            return false;
        };
        assert_eq!(h, HEADER, "the other bits never change");
        // SAFETY: the lock is held.
        self.value.with_mut(|value| unsafe { *value += 1 });
        self.parking.release(&self.word);
        true
    }
}

#[test]
fn one_at_a_time_and_nobody_sleeps_for_ever() {
    loom::model(|| {
        let shared = Word::new();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || assert!(shared.add()))
            })
            .collect();
        assert!(shared.add());
        for thread in threads {
            thread.join().unwrap();
        }
        // SAFETY: all threads have ended.
        shared.value.with(|value| assert_eq!(unsafe { *value }, 3));
        assert!(is_idle(shared.word.load(Ordering::Relaxed)));
    });
}

#[test]
fn sleepers_wake_up_when_the_branch_is_abandoned() {
    loom::model(|| {
        let shared = Word::new();
        let thread = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.add())
        };
        assert!(
            shared
                .parking
                .acquire(&shared.word, &mut LockContention::default())
                .is_some()
        );
        // SAFETY: the lock is held.
        shared.value.with_mut(|value| unsafe { *value += 10 });
        shared.parking.abandon(&shared.word);
        let first = thread.join().unwrap();
        // SAFETY: the thread has ended.
        let value = shared.value.with(|value| unsafe { *value });
        assert_eq!(value, if first { 11 } else { 10 });
        assert!(!shared.add(), "obsolete for ever");
        assert_eq!(plain(shared.word.load(Ordering::Relaxed)), HEADER);
    });
}

#[test]
fn child_then_parent_does_not_deadlock() {
    loom::model(|| {
        let parent = Word::new();
        let child = Word::new();
        let thread = {
            let (parent, child) = (Arc::clone(&parent), Arc::clone(&child));
            thread::spawn(move || both(&parent, &child))
        };
        both(&parent, &child);
        assert!(parent.add());
        thread.join().unwrap();
        // SAFETY: the thread has ended.
        parent.value.with(|value| assert_eq!(unsafe { *value }, 3));
    });

    fn both(parent: &Word, child: &Word) {
        let held = child
            .parking
            .acquire(&child.word, &mut LockContention::default());
        assert!(held.is_some());
        assert!(parent.add());
        child.parking.release(&child.word);
    }
}

#[test]
fn what_was_done_under_the_lock_is_seen_by_who_finds_it_obsolete() {
    loom::model(|| {
        let shared = Word::new();
        let replacement = Arc::new(AtomicU32::new(0));
        let thread = {
            let (shared, replacement) = (Arc::clone(&shared), Arc::clone(&replacement));
            thread::spawn(move || {
                let held = shared
                    .parking
                    .acquire(&shared.word, &mut LockContention::default());
                assert!(held.is_some());
                replacement.store(7, Ordering::Release);
                shared.parking.abandon(&shared.word);
            })
        };
        // A writer that finds the branch obsolete begins anew from the root, which it reads with
        // Acquire. So it needs no ordering from the word itself.
        if shared
            .parking
            .acquire(&shared.word, &mut LockContention::default())
            .is_some()
        {
            shared.parking.release(&shared.word);
        }
        thread.join().unwrap();
        assert_eq!(replacement.load(Ordering::Acquire), 7);
    });
}
