//! Values that know how many of them are alive.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the values made by it.
#[derive(Clone, Default)]
pub struct Counter(Arc<AtomicUsize>);

/// A number that is counted while it is alive. Its memory is the heap's, so that a sanitizer sees a
/// second drop.
pub struct Counted {
    number: Box<u64>,
    counter: Counter,
}

impl Counter {
    /// A new value.
    pub fn make(&self, number: u64) -> Counted {
        self.0.fetch_add(1, Ordering::Relaxed);
        Counted {
            number: Box::new(number),
            counter: self.clone(),
        }
    }

    /// How many are alive.
    pub fn alive(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counted {
    /// The number.
    pub fn get(&self) -> u64 {
        *self.number
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.counter.0.fetch_sub(1, Ordering::Relaxed);
    }
}
