//! Values whose live instances are counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A counter of the values that it made.
#[derive(Clone, Default)]
pub struct Counter(Arc<AtomicUsize>);

/// A number that counts as long as it is alive. It owns heap memory, so that a sanitizer sees a
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

    /// The number of live values.
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
