//! Turns of writers: which thread has a transaction or a reservation of a structure open.
//!
//! A thread that changes a structure beside its own open transaction would wait for itself. It gets
//! an error instead. A transaction also ends on the thread that began it, as a lock does.

use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Failure, Outcome};
use crate::handle::Thread;

/// The turn of one structure's writers, shared by its handle and by what is open.
#[derive(Clone, Debug, Default)]
pub struct Turns(Arc<Mutex<Option<Thread>>>);

impl Turns {
    fn set(&self, thread: Option<Thread>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = thread;
    }

    /// A failure if this thread has something open. Every change asks this first.
    pub fn check(&self) -> Outcome<()> {
        let open = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if open != Some(Thread::here()) {
            return Ok(());
        }
        Err(Failure::new(
            libc::EDEADLK,
            "this thread has a transaction or a reservation open, and would wait for itself",
        ))
    }

    /// Begins a turn, after the structure's lock was taken.
    pub fn begin(&self, checked: bool) -> Turn {
        let thread = Thread::here();
        self.set(Some(thread));
        Turn {
            turns: self.clone(),
            thread,
            checked,
        }
    }
}

/// An open turn. It ends when this is dropped, which must happen before the lock is released.
#[derive(Debug)]
pub struct Turn {
    turns: Turns,
    thread: Thread,
    checked: bool,
}

impl Turn {
    /// A failure on any other thread than the one that began.
    pub fn check(&self, what: &str) -> Outcome<()> {
        self.thread.check(what, self.checked)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.set(None);
    }
}
