//! The progress of a writer, for readers beside it, whose answers must be those of a state in
//! between.
#![allow(dead_code)] // Each test uses only a part of it.

#[cfg(shuttle)]
use shuttle::sync::atomic::{AtomicUsize, Ordering};
#[cfg(not(shuttle))]
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of steps that the writer has begun, and of those that it has completed.
#[derive(Default)]
pub struct Progress {
    begun: AtomicUsize,
    done: AtomicUsize,
}

impl Progress {
    /// Runs the writer's step with this number, from 0.
    pub fn step(&self, number: usize, step: impl FnOnce()) {
        self.begun.store(number + 1, Ordering::SeqCst);
        step();
        self.done.store(number + 1, Ordering::SeqCst);
    }

    pub fn done(&self) -> usize {
        self.done.load(Ordering::SeqCst)
    }

    pub fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }
}

/// Runs a writer and two readers of `map`, for one schedule. Each reader gets its number.
#[cfg(shuttle)]
pub fn beside<M: Clone + Send + 'static>(
    map: &M,
    steps: usize,
    step: impl Fn(usize),
    read: impl Fn(&M, &Progress, u64) + Clone + Send + 'static,
) {
    let progress = std::sync::Arc::new(Progress::default());
    let reader = |number| {
        let (map, progress, read) = (map.clone(), progress.clone(), read.clone());
        shuttle::thread::spawn(move || read(&map, &progress, number))
    };
    let readers = [0, 1].map(reader);
    (0..steps).for_each(|number| progress.step(number, || step(number)));
    for reader in readers {
        reader.join().unwrap();
    }
}
