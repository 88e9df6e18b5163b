//! One resolver for a key at a time: who comes second waits for the first.

use alloc::boxed::Box;
use std::sync::PoisonError;

use super::raw::sync::{Condvar, Mutex, lock};

/// Keys that can be under way at once. Two keys that share a berth are resolved side by side.
const BERTHS: usize = 64;

/// Who is under way.
pub(crate) struct Flights {
    berths: Box<[Berth]>,
}

struct Berth {
    /// The hash that is being resolved.
    leader: Mutex<Option<u64>>,
    landed: Condvar,
}

/// What to do about a key.
pub(crate) enum Turn<'f> {
    /// Resolve it; others wait until this is dropped.
    Lead(#[allow(dead_code)] Leader<'f>),
    /// Resolve it; another key has the berth.
    Alone,
    /// Another thread has resolved it meanwhile, or failed to: look again.
    Again,
}

/// Leads until it is dropped, also by a panic of the resolver.
pub(crate) struct Leader<'f>(&'f Berth);

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        // Nothing panics while the lock is held.
        *lock(&self.0.leader) = None;
        self.0.landed.notify_all();
    }
}

impl Flights {
    pub fn new() -> Self {
        let berth = |_| Berth {
            leader: Mutex::new(None),
            landed: Condvar::new(),
        };
        Self {
            berths: (0..BERTHS).map(berth).collect(),
        }
    }

    /// This thread's turn for a key with this hash; waits while another one leads.
    pub fn turn(&self, hash: u64) -> Turn<'_> {
        let berth = &self.berths[hash as usize % BERTHS];
        let mut leader = lock(&berth.leader);
        match *leader {
            None => {
                *leader = Some(hash);
                Turn::Lead(Leader(berth))
            }
            Some(other) if other != hash => Turn::Alone,
            Some(_) => {
                while *leader == Some(hash) {
                    leader = berth
                        .landed
                        .wait(leader)
                        .unwrap_or_else(PoisonError::into_inner);
                }
                Turn::Again
            }
        }
    }
}
