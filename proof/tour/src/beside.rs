//! Measures a reader by turns alone and beside a writer that never pauses.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::errors::Error;

/// The work of a reader in one slice of time.
pub struct Pace {
    /// How many lookups it made and checked.
    pub lookups: u64,
    /// The processor time of its thread.
    pub cpu: Duration,
}

/// The rates of a reader, alone and beside a writer.
#[derive(Default)]
pub struct Paces {
    /// The rate of each round alone, in millions of lookups a second of the reader's processor
    /// time.
    pub alone: Vec<f64>,
    /// The rate of each round beside the writer, in the same unit.
    pub beside: Vec<f64>,
    /// The number of all lookups.
    pub lookups: u64,
    /// The time that the writer wrote.
    pub writing: Duration,
}

impl Paces {
    fn add(&mut self, pace: &Pace) -> f64 {
        self.lookups += pace.lookups;
        pace.lookups as f64 / pace.cpu.as_secs_f64().max(1e-9) / 1e6
    }

    /// In each round, runs the reader alone, and then beside the writer until the reader ends.
    /// `write` gets the number of the round, and writes until the flag tells it to stop.
    pub fn measured(
        rounds: u64,
        mut read: impl FnMut() -> Result<Pace, Error> + Send,
        mut write: impl FnMut(u64, &AtomicBool) -> Result<(), Error> + Send,
        mut progress: impl FnMut(),
    ) -> Result<Self, Error> {
        let mut paces = Paces::default();
        for round in 0..rounds {
            let alone = paces.add(&read()?);
            paces.alone.push(alone);
            let stop = AtomicBool::new(false);
            let began = Instant::now();
            let (pace, written) = thread::scope(|scope| {
                let writer = scope.spawn(|| write(round, &stop));
                let pace = scope.spawn(&mut read).join();
                stop.store(true, Ordering::Relaxed);
                (pace, writer.join())
            });
            let gone = |_| Error::Tour("a thread panicked".into());
            let pace = pace.map_err(gone)??;
            written.map_err(gone)??;
            paces.writing += began.elapsed();
            let beside = paces.add(&pace);
            paces.beside.push(beside);
            progress();
        }
        Ok(paces)
    }
}
