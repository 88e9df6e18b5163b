//! Small numbers for threads, so that each can have counters of its own.
//!
//! When a thread first asks, it takes the least number that no living thread has. It gives the
//! number back when it ends, or when its last [`Stay`] does. Giving back and taking are a Release
//! and an Acquire of one word, so the next owner sees everything that the last one wrote.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most threads that have numbers at once; others have [`NONE`].
pub(crate) const THREADS: usize = 256;

/// The number of a thread without a number.
pub(crate) const NONE: usize = usize::MAX;
const UNASKED: usize = usize::MAX - 1;

static TAKEN: [AtomicU64; THREADS / 64] = [const { AtomicU64::new(0) }; THREADS / 64];

thread_local! {
    // Without a destructor, so that reading it is one load.
    static NUMBER: Cell<usize> = const { Cell::new(UNASKED) };
    static HELD: Held = const { Held(Cell::new(NONE)) };
    // The handles of this thread that count by its number.
    static STAYS: Cell<usize> = const { Cell::new(0) };
    // The number, once the thread would have given it back but for these handles.
    static LEFT: Cell<usize> = const { Cell::new(NONE) };
}

/// Gives the number back.
struct Held(Cell<usize>);

impl Drop for Held {
    fn drop(&mut self) {
        // Destructors of other thread-locals may still ask for a number.
        NUMBER.set(NONE);
        let number = self.0.get();
        if STAYS.get() == 0 {
            give_back(number);
        } else {
            LEFT.set(number);
        }
    }
}

/// Keeps this thread's number from other threads, also while the thread's own values are destroyed.
/// It stays on its thread. If it is forgotten, no other thread ever gets the number.
pub(crate) struct Stay(PhantomData<*const ()>);

impl Stay {
    pub(crate) fn new() -> Self {
        STAYS.set(STAYS.get() + 1);
        Self(PhantomData)
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        STAYS.set(STAYS.get() - 1);
        if STAYS.get() == 0 {
            give_back(LEFT.replace(NONE));
        }
    }
}

fn give_back(number: usize) {
    if number != NONE {
        TAKEN[number / 64].fetch_and(!(1 << (number % 64)), Ordering::Release);
    }
}

/// The result of `find` for the number of this thread, which no other living thread has.
#[inline(always)]
pub(crate) fn number<T>(find: impl Fn(usize) -> Option<T>) -> Option<T> {
    let number = NUMBER.get();
    match find(number) {
        None if number == UNASKED => find(ask()),
        found => found,
    }
}

/// The number of this thread, or a number above all others if it has none or has not asked.
#[inline(always)]
pub(crate) fn known() -> usize {
    NUMBER.get()
}

#[cold]
fn ask() -> usize {
    // A thread whose destructor will not run any more gets no number.
    let number = HELD
        .try_with(|held| {
            let number = take();
            held.0.set(number);
            number
        })
        .unwrap_or(NONE);
    NUMBER.set(number);
    number
}

fn take() -> usize {
    for (at, word) in TAKEN.iter().enumerate() {
        let mut bits = word.load(Ordering::Relaxed);
        while bits != u64::MAX {
            let free = bits.trailing_ones() as usize;
            let more = bits | 1 << free;
            match word.compare_exchange_weak(bits, more, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return at * 64 + free,
                Err(now) => bits = now,
            }
        }
    }
    NONE
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::Barrier;

    fn mine() -> usize {
        number(|n| (n < THREADS).then_some(n)).unwrap()
    }

    #[test]
    fn living_threads_differ() {
        let barrier = Barrier::new(8);
        let numbers: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let mine = mine();
                        barrier.wait();
                        assert_eq!(super::number(Some), Some(mine));
                        mine
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(numbers.iter().all(|n| *n < THREADS));
        assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), 8);
        // Numbers that handles have kept longer than the thread come back with the last of them. If
        // one did not, none would be left for the last thread.
        for _ in 0..if cfg!(miri) { 3 } else { THREADS + 10 } {
            let kept = || {
                let number = mine();
                let stays = [Stay::new(), Stay::new()];
                drop(HELD.with(|held| Held(Cell::new(held.0.replace(NONE)))));
                let [first, last] = stays;
                drop(first);
                assert_eq!(LEFT.get(), number);
                assert_ne!(
                    TAKEN[number / 64].load(Ordering::Relaxed) & 1 << (number % 64),
                    0
                );
                drop(last);
                assert_eq!(LEFT.get(), NONE);
            };
            std::thread::spawn(kept).join().unwrap();
        }
        // Numbers come back: many more threads than there are numbers can live one after the other.
        for _ in 0..20 {
            let n = std::thread::spawn(mine).join().unwrap();
            assert!(n < THREADS);
        }
    }
}
