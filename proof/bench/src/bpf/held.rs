//! Measures how long the kernel keeps real-time threads from running.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use rustix::thread::{self as tasks, ClockId, CpuSet, Timespec};

use super::space;

/// The length of one sleep in nanoseconds.
const SLEEP: u64 = 100_000;

/// A thread on each processor with a priority above all but the kernel. It sleeps a tenth of a
/// millisecond at a time, and records the longest delay of its wake-ups.
pub struct Watch {
    worst: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<(), String>>>,
}

impl Watch {
    /// Starts the threads.
    pub fn start() -> Result<Self, String> {
        let may = tasks::sched_getaffinity(None).map_err(|e| format!("processors: {e}"))?;
        let mut watch = Self {
            worst: Arc::default(),
            ends: Arc::default(),
            threads: Vec::new(),
        };
        let (ready, all_ready) = mpsc::channel();
        for processor in (0..CpuSet::MAX_CPU).filter(|one| may.is_set(*one)) {
            let (worst, ends) = (watch.worst.clone(), watch.ends.clone());
            let ready = ready.clone();
            watch.threads.push(thread::spawn(move || {
                let stands = stand(processor);
                let watches = stands.is_ok();
                _ = ready.send(stands.clone());
                drop(ready);
                while watches && !ends.load(Ordering::Relaxed) {
                    look(&worst)?;
                }
                stands
            }));
        }
        drop(ready);
        // Dropping the watch ends its threads, also when some of them could not start.
        all_ready.iter().collect::<Result<(), String>>()?;
        watch.worst();
        Ok(watch)
    }

    /// The longest delay in microseconds since the last call.
    pub fn worst(&self) -> f64 {
        self.worst.swap(0, Ordering::Relaxed) as f64 / 1e3
    }

    /// Ends the threads; fails if one did not watch to the end.
    pub fn end(mut self) -> Result<(), String> {
        self.join()
    }

    fn join(&mut self) -> Result<(), String> {
        self.ends.store(true, Ordering::Relaxed);
        let threads = self.threads.drain(..).map(JoinHandle::join);
        let gone = || Err("a thread that watches a processor has ended".to_owned());
        let ends = threads.map(|end| end.unwrap_or_else(|_| gone()));
        ends.fold(Ok(()), Result::and)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        _ = self.join();
    }
}

/// Has the calling thread run on this processor, with a priority above all others.
fn stand(processor: usize) -> Result<(), String> {
    let mut here = CpuSet::new();
    here.set(processor);
    tasks::sched_setaffinity(None, &here).map_err(|e| format!("processor {processor}: {e}"))?;
    let thread = tasks::gettid().as_raw_nonzero().to_string();
    space::run(
        Command::new("chrt").args(["--fifo", "--pid", "50", &thread]),
        "",
    )
    .map(drop)
}

/// Sleeps a few times in a row.
fn look(worst: &AtomicU64) -> Result<(), String> {
    let mut next = now();
    for _ in 0..100 {
        next += SLEEP;
        let until = Timespec {
            tv_sec: (next / 1_000_000_000) as i64,
            tv_nsec: (next % 1_000_000_000) as i64,
        };
        tasks::clock_nanosleep_absolute(ClockId::Monotonic, &until)
            .map_err(|e| format!("sleeping: {e}"))?;
        let woken = now();
        worst.fetch_max(woken - next, Ordering::Relaxed);
        // Time that was overslept is not slept again.
        next = woken;
    }
    Ok(())
}

fn now() -> u64 {
    let time = rustix::time::clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_watch_sees_something_and_begins_anew() {
        let watch = match Watch::start() {
            Ok(watch) => watch,
            Err(why) => {
                assert!(why.contains("chrt"), "{why}");
                println!("skipped: {why}");
                return;
            }
        };
        thread::sleep(Duration::from_millis(20));
        // No thread wakes without any delay.
        assert!(watch.worst() > 0.0);
        thread::sleep(Duration::from_millis(20));
        assert!(watch.worst() > 0.0);
        watch.end().unwrap();
    }
}
