//! A reader, alone and beside a writer that never rests, in turns.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::errors::Error;

/// What a reader got done in a while.
pub struct Pace {
    /// Lookups, each checked.
    pub lookups: u64,
    /// Processor time of its thread.
    pub cpu: Duration,
}

/// What came of it.
#[derive(Default)]
pub struct Paces {
    /// Millions of lookups a second of the reader's processor time, a round each: alone.
    pub alone: Vec<f64>,
    /// Beside the writer.
    pub beside: Vec<f64>,
    /// Lookups in all.
    pub lookups: u64,
    /// How long the writer wrote.
    pub writing: Duration,
}

impl Paces {
    fn add(&mut self, pace: &Pace) -> f64 {
        self.lookups += pace.lookups;
        pace.lookups as f64 / pace.cpu.as_secs_f64().max(1e-9) / 1e6
    }

    /// Lets the reader read alone, and then beside the writer until the reader has done. `write`
    /// writes until it is told to stop, and gets the number of the round.
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
