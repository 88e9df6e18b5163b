//! The option of one resolver for a key at a time: a thread that comes second waits for the first,
//! and takes its answer.
//!
//! A thread that would wait for itself does not wait: neither for a key that it is resolving, nor
//! for a thread that waits, directly or through others, for a key of this one. Caches share the
//! list of who waits for whom, because a resolver may ask another cache.

use alloc::boxed::Box;
use alloc::vec::Vec;
use std::sync::PoisonError;

use super::raw::sync::{Condvar, Mutex, lock};
use super::reader::same;
use super::stamp::Stamp;
use crate::Words;
use crate::sync::this_thread;

/// The number of berths. Each has a lock, and the keys are divided among them by their hash.
const BERTHS: usize = 64;
/// The number of keys that each berth has room for from the beginning.
const ROOM: usize = 4;

/// The threads that wait: each with the thread that it waits for, and with the flight. There is no
/// circle. The lock is held for some steps of the list only, by a thread that may hold a berth's.
static WAITING: std::sync::Mutex<Vec<Waiting>> = std::sync::Mutex::new(Vec::new());

struct Waiting {
    thread: usize,
    leader: usize,
    /// The address of the berth, and the number of the entry there.
    flight: (usize, u64),
}

/// Notes that this thread waits for a leader, unless that would close a circle.
fn may_wait(leader: usize, flight: (usize, u64)) -> bool {
    let thread = this_thread();
    let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut last = Some(leader);
    while let Some(at) = last {
        if at == thread {
            return false;
        }
        last = waiting.iter().find(|w| w.thread == at).map(|w| w.leader);
    }
    waiting.push(Waiting {
        thread,
        leader,
        flight,
    });
    true
}

/// The keys that are being resolved.
pub(crate) struct Flights<K, V> {
    berths: Box<[Berth<K, V>]>,
}

struct Berth<K, V> {
    leaders: Mutex<Leaders<K, V>>,
    landed: Condvar,
}

/// The flights of a berth: at most one of each hash that is under way, and those that have landed
/// and have waiting threads that have not looked yet. Each has a number of its own, which is not
/// used again.
struct Leaders<K, V> {
    all: Vec<Flight<K, V>>,
    next: u64,
}

struct Flight<K, V> {
    hash: u64,
    number: u64,
    /// The thread that resolves the key.
    leader: usize,
    /// The number of threads that wait for it.
    waiters: usize,
    /// The key was invalidated or inserted meanwhile: nobody may take the answer.
    spoilt: bool,
    /// Set when it has landed: its answer, unless there is none that others may take.
    landed: Option<Option<Answer<K, V>>>,
}

/// What a resolver said: the key, when it was asked, and the value, or that there is none.
#[derive(Clone, Copy)]
pub(crate) struct Answer<K, V> {
    key: K,
    pub(crate) stamp: Stamp,
    pub(crate) value: Option<V>,
}

impl<K: Words, V: Words> Answer<K, V> {
    pub(super) fn new(key: K, stamp: Stamp, value: Option<V>) -> Self {
        Answer { key, stamp, value }
    }

    /// Whether it is the answer to this key. Another key may have the same hash.
    pub(super) fn is_to(&self, key: &K) -> bool {
        same(&self.key, key)
    }
}

/// What a thread does about a key.
pub(crate) enum Turn<'f, K: Words, V: Words> {
    /// It resolves the key; others wait until this is dropped.
    Lead(Leader<'f, K, V>),
    /// It resolves the key, and nobody waits for it: it would wait for itself otherwise.
    Alone,
    /// Another thread has resolved the key meanwhile, or failed to: the thread looks it up again,
    /// and takes this answer, if there is one, when the cache has none.
    Again(Option<Answer<K, V>>),
}

/// The right to resolve a key, until this is dropped, also by a panic of the resolver.
pub(crate) struct Leader<'f, K: Words, V: Words> {
    berth: &'f Berth<K, V>,
    number: u64,
}

impl<K: Words, V: Words> Leader<'_, K, V> {
    /// Gives the threads that wait the answer that `answer` returns. No thread begins to wait for
    /// it after `answer` was called.
    pub(super) fn land(self, answer: impl FnOnce() -> Option<Answer<K, V>>) {
        self.berth.land(self.number, answer);
    }
}

impl<K: Words, V: Words> Drop for Leader<'_, K, V> {
    fn drop(&mut self) {
        self.berth.land(self.number, || None);
    }
}

impl<K: Words, V: Words> Berth<K, V> {
    /// The name of a flight among those of all caches.
    fn name(&self, number: u64) -> (usize, u64) {
        (core::ptr::from_ref(self).addr(), number)
    }

    /// Lands a flight, if it is still under way.
    fn land(&self, number: u64, answer: impl FnOnce() -> Option<Answer<K, V>>) {
        // Nothing panics while the lock is held.
        let mut leaders = lock(&self.leaders);
        let under_way = |flight: &Flight<K, V>| flight.number == number && flight.landed.is_none();
        let Some(at) = leaders.all.iter().position(under_way) else {
            return;
        };
        if leaders.all[at].waiters == 0 {
            leaders.all.swap_remove(at);
            return;
        }
        let answer = answer().filter(|_| !leaders.all[at].spoilt);
        leaders.all[at].landed = Some(answer);
        let name = self.name(number);
        WAITING
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|waiting| waiting.flight != name);
        drop(leaders);
        self.landed.notify_all();
    }
}

impl<K: Words, V: Words> Flights<K, V> {
    pub(super) fn new() -> Self {
        let berth = |_| Berth {
            leaders: Mutex::new(Leaders {
                all: Vec::with_capacity(ROOM),
                next: 0,
            }),
            landed: Condvar::new(),
        };
        let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.reserve(BERTHS);
        drop(waiting);
        Self {
            berths: (0..BERTHS).map(berth).collect(),
        }
    }

    fn berth(&self, hash: u64) -> &Berth<K, V> {
        &self.berths[hash as usize % BERTHS]
    }

    /// The turn of this thread for a key with this hash. Waits while another thread resolves the
    /// key.
    ///
    /// It takes memory only when a berth has more than four flights at once, and more than ever
    /// before, and when more threads wait at once than ever before.
    pub(super) fn turn(&self, hash: u64) -> Turn<'_, K, V> {
        let berth = self.berth(hash);
        let mut leaders = lock(&berth.leaders);
        let same = |flight: &&mut Flight<K, V>| flight.hash == hash && flight.landed.is_none();
        let Some(flight) = leaders.all.iter_mut().find(same) else {
            let number = leaders.next;
            leaders.next += 1;
            leaders.all.push(Flight {
                hash,
                number,
                leader: this_thread(),
                waiters: 0,
                spoilt: false,
                landed: None,
            });
            return Turn::Lead(Leader { berth, number });
        };
        let number = flight.number;
        if !may_wait(flight.leader, berth.name(number)) {
            return Turn::Alone;
        }
        flight.waiters += 1;
        loop {
            leaders = berth
                .landed
                .wait(leaders)
                .unwrap_or_else(PoisonError::into_inner);
            // A later leader of the same key is another flight, and this thread does not wait for
            // it. A flight stays until all that wait for it have looked.
            let at = leaders.all.iter().position(|f| f.number == number);
            let Some(at) = at else {
                unreachable!("this thread waits for the flight")
            };
            if let Some(answer) = leaders.all[at].landed {
                leaders.all[at].waiters -= 1;
                if leaders.all[at].waiters == 0 {
                    leaders.all.swap_remove(at);
                }
                return Turn::Again(answer);
            }
        }
    }

    /// From now on, nobody may take the answer of the flight of this hash that is under way: it is
    /// from before an invalidation or insertion.
    pub(super) fn spoil(&self, hash: u64) {
        let mut leaders = lock(&self.berth(hash).leaders);
        let of_hash = |flight: &&mut Flight<K, V>| flight.hash == hash && flight.landed.is_none();
        if let Some(flight) = leaders.all.iter_mut().find(of_hash) {
            flight.spoilt = true;
        }
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
        let flights = Flights::<[u64; 1], [u64; 1]>::new();
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
