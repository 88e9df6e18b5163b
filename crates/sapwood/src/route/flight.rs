//! The option of one resolver for a key at a time: a thread that comes second waits for the first.

use alloc::boxed::Box;
use alloc::vec::Vec;
use std::sync::PoisonError;

use super::raw::sync::{Condvar, Mutex, lock};

/// The number of berths. Each has a lock, and the keys are divided among them by their hash.
const BERTHS: usize = 64;
/// The number of keys that each berth has room for from the beginning.
const ROOM: usize = 4;

/// The keys that are being resolved.
pub(crate) struct Flights {
    berths: Box<[Berth]>,
}

struct Berth {
    leaders: Mutex<Leaders>,
    landed: Condvar,
}

/// The hashes that are being resolved, at most one entry for each. Each entry has a number of its
/// own, which is not used again.
struct Leaders {
    all: Vec<(u64, u64)>,
    next: u64,
}

/// What a thread does about a key.
pub(crate) enum Turn<'f> {
    /// It resolves the key; others wait until this is dropped.
    Lead(#[allow(dead_code)] Leader<'f>),
    /// Another thread has resolved the key meanwhile, or failed to: the thread looks it up again.
    Again,
}

/// The right to resolve a key, until this is dropped, also by a panic of the resolver.
pub(crate) struct Leader<'f> {
    berth: &'f Berth,
    number: u64,
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        // Nothing panics while the lock is held.
        let mut leaders = lock(&self.berth.leaders);
        leaders.all.retain(|(_, number)| *number != self.number);
        drop(leaders);
        self.berth.landed.notify_all();
    }
}

impl Flights {
    pub(super) fn new() -> Self {
        let berth = |_| Berth {
            leaders: Mutex::new(Leaders {
                all: Vec::with_capacity(ROOM),
                next: 0,
            }),
            landed: Condvar::new(),
        };
        Self {
            berths: (0..BERTHS).map(berth).collect(),
        }
    }

    /// The turn of this thread for a key with this hash. Waits while another thread resolves the
    /// key.
    ///
    /// It takes memory only when a berth has more than four resolvers at once, and more than ever
    /// before.
    pub(super) fn turn(&self, hash: u64) -> Turn<'_> {
        let berth = &self.berths[hash as usize % BERTHS];
        let mut leaders = lock(&berth.leaders);
        let Some(&entry) = leaders.all.iter().find(|(other, _)| *other == hash) else {
            let number = leaders.next;
            leaders.next += 1;
            leaders.all.push((hash, number));
            return Turn::Lead(Leader { berth, number });
        };
        // A later leader of the same key is another entry, and this thread does not wait for it.
        while leaders.all.contains(&entry) {
            leaders = berth
                .landed
                .wait(leaders)
                .unwrap_or_else(PoisonError::into_inner);
        }
        Turn::Again
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn every_key_has_a_leader_of_its_own() {
        let keys = if cfg!(miri) { 300 } else { 10_000 };
        let flights = Flights::new();
        let mut leaders: Vec<_> = (0..keys).map(|hash| flights.turn(hash)).collect();
        assert!(leaders.iter().all(|turn| matches!(turn, Turn::Lead(_))));
        // Threads that come second wait only for the leader of their own key.
        let flights = &flights;
        thread::scope(|scope| {
            // A thread that was slow to start finds no leader any more, and leads.
            let second = |hash| scope.spawn(move || drop(flights.turn(hash)));
            let waiting: Vec<_> = (0..4).map(|i| second(i * BERTHS as u64)).collect();
            thread::sleep(Duration::from_millis(5));
            let early = waiting.iter().filter(|thread| thread.is_finished());
            let early = early.count();
            leaders.clear();
            assert_eq!(early, 0, "threads that did not wait for their leaders");
        });
        assert!(matches!(flights.turn(0), Turn::Lead(_)));
    }
}
