//! Turns of writers: which thread has a transaction or a reservation of a structure open.
//!
//! A thread that changes a structure beside its own open transaction would wait for itself. It gets
//! an error instead. A transaction also ends on the thread that began it, as a lock does.
//!
//! In a child of `fork` only one thread is left. What another one had open then stays open, so who
//! would wait for it gets an error, too.

use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Failure, Outcome};
use crate::handle::Thread;
use crate::process;

/// The turn of one structure's writers, shared by its handle and by what is open.
#[derive(Clone, Debug, Default)]
pub struct Turns(Arc<Mutex<Option<Open>>>);

/// The thread that has something open, and the process in which it began.
#[derive(Clone, Copy, Debug)]
struct Open {
    thread: Thread,
    process: u32,
}

/// The failure of a thread that would wait for itself.
#[cold]
pub fn own() -> Failure {
    Failure::new(
        libc::EDEADLK,
        "this thread has a transaction or a reservation open, and would wait for itself",
    )
}

/// The failure of a thread that would wait for one which the process does not have.
#[cold]
pub fn left_behind() -> Failure {
    Failure::new(
        libc::EDEADLK,
        "this process is a child of fork, and the structure had a transaction or a reservation \
         open at the fork: it would be waited for in vain",
    )
}

impl Turns {
    fn set(&self, open: Option<Open>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = open;
    }

    /// A failure if this thread has something open, or a thread of the parent had at the fork.
    /// Every change asks this first.
    pub fn check(&self) -> Outcome<()> {
        let open = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match open {
            None => Ok(()),
            Some(open) if open.thread == Thread::here() => Err(own()),
            Some(open) if open.process != process::current() => Err(left_behind()),
            Some(_) => Ok(()),
        }
    }

    /// Begins a turn, after the structure's lock was taken.
    pub fn begin(&self, checked: bool) -> Turn {
        let thread = Thread::here();
        self.set(Some(Open {
            thread,
            process: process::current(),
        }));
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
