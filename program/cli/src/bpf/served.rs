//! A map that `sapwood bpf serve` serves: its thread, its counts, and warnings about it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sapwood_bpf::{Bytes, Error, ProgramMap, ProgramMapMemory, WindowInfo};

use crate::errors::complain;

/// The time for which programs may hold memory back before that is reported.
const STALL: Duration = Duration::from_secs(2);
/// The time without a fault after which the next one is reported again.
const CALM: Duration = Duration::from_secs(10);

/// How often a map is serviced.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The time between two steps while programs write.
    pub every: Duration,
    /// The longest time between two steps, when nothing happens.
    pub rest: Duration,
}

/// What the steps of a map have done so far.
#[derive(Debug, Default)]
pub struct Work {
    /// Steps.
    pub steps: AtomicU64,
    /// Blocks put into rings.
    pub given: AtomicU64,
    /// Blocks fetched that programs had retired.
    pub fetched: AtomicU64,
    /// Blocks freed.
    pub freed: AtomicU64,
    /// A step has found no memory since this was last asked.
    starved: AtomicBool,
    /// Why the last step failed, if it did.
    failure: Mutex<Option<String>>,
    ends: AtomicBool,
}

/// A map with the thread that services it.
pub struct Served {
    map: Arc<ProgramMap<Bytes>>,
    /// What was done.
    pub work: Arc<Work>,
    thread: JoinHandle<()>,
    starved: Warning,
    refused: Warning,
    failed: Warning,
    stalled: Warning,
    /// Operations of programs that had found no memory, at the last look.
    no_memory: u64,
    waits: Waits,
}

/// Since when nothing was freed while something waits, and the count of freed blocks.
#[derive(Default)]
struct Waits(Option<(Instant, u64)>);

impl Waits {
    /// Notes the bytes that wait for programs, and the blocks freed so far. Returns whether nothing
    /// has been freed for [`STALL`].
    fn is_stalled(&mut self, waiting: usize, freed: u64, now: Instant) -> bool {
        self.0 = match self.0 {
            _ if waiting == 0 => None,
            Some((since, before)) if before == freed => Some((since, before)),
            _ => Some((now, freed)),
        };
        self.0
            .is_some_and(|(since, _)| now.duration_since(since) >= STALL)
    }
}

/// A fault that is reported once, and again when it comes back after some time.
#[derive(Default)]
pub struct Warning {
    last: Option<Instant>,
}

impl Warning {
    /// Notes whether the fault is there now. Returns whether it is to be reported.
    fn is_news(&mut self, fault: bool, now: Instant) -> bool {
        let news = fault && self.last.is_none();
        if fault {
            self.last = Some(now);
        } else if self
            .last
            .is_some_and(|last| now.duration_since(last) >= CALM)
        {
            self.last = None;
        }
        news
    }

    /// Whether the fault is there, or was there a moment ago.
    pub fn is_there(&self) -> bool {
        self.last.is_some()
    }
}

impl Served {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system's error. Then the map is left.
    pub fn start(map: ProgramMap<Bytes>, pace: Pace) -> Result<Served, Error> {
        let map = Arc::new(map);
        let work = Arc::new(Work::default());
        let (theirs, counts) = (Arc::clone(&map), Arc::clone(&work));
        let thread = std::thread::Builder::new()
            .name("sapwood-service".into())
            .spawn(move || serve(&theirs, &counts, pace));
        let thread = match thread {
            Ok(thread) => thread,
            Err(error) => {
                if let Some(map) = Arc::into_inner(map) {
                    map.leave();
                }
                return Err(Error::io("starting a thread", error));
            }
        };
        let no_memory = no_memory(&map);
        Ok(Served {
            map,
            work,
            thread,
            starved: Warning::default(),
            refused: Warning::default(),
            failed: Warning::default(),
            stalled: Warning::default(),
            no_memory,
            waits: Waits::default(),
        })
    }

    /// The map.
    pub fn map(&self) -> &ProgramMap<Bytes> {
        &self.map
    }

    /// The map's window.
    pub fn window(&self) -> &WindowInfo {
        self.map.window()
    }

    /// Whether the map lacks memory, and whether programs hold memory back.
    pub fn troubles(&self) -> (bool, bool) {
        (self.starved.is_there(), self.stalled.is_there())
    }

    /// Reports what lacks memory, and what programs hold back. The caller calls this every second.
    pub fn watch(&mut self, arena: &Path) {
        let now = Instant::now();
        let name = &self.map.window().name;
        let say = |what: &str| complain(&format!("{}: {name}: {what}", arena.display()));
        let starved = self.work.starved.swap(false, Ordering::Relaxed);
        if self.starved.is_news(starved, now) {
            say("no memory is left for programs: the window is full, or the system's memory");
        }
        let no_memory = no_memory(&self.map);
        let more = no_memory.saturating_sub(self.no_memory);
        self.no_memory = no_memory;
        if self.refused.is_news(more > 0, now) {
            say(&format!(
                "{more} changes by programs found no memory (-ENOMEM)"
            ));
        }
        let failure = self.work.failure.lock();
        let failure = failure.unwrap_or_else(PoisonError::into_inner).clone();
        if self.failed.is_news(failure.is_some(), now) {
            say(&failure.unwrap_or_default());
        }
        let bytes = self.map.memory().map_or(0, |memory| memory.waiting);
        let freed = self.work.freed.load(Ordering::Relaxed);
        let stalled = self.waits.is_stalled(bytes, freed, now);
        if self.stalled.is_news(stalled, now) {
            let name = &self.map.window().name;
            complain(&format!(
                "{}: {name}: programs of the kernel hold {bytes} bytes back for more than {} \
                 seconds",
                arena.display(),
                STALL.as_secs()
            ));
        }
    }

    /// Where the map's bytes are, if what programs wrote can be.
    pub fn memory(&self) -> Option<ProgramMapMemory> {
        self.map.memory().ok()
    }

    /// Ends the thread, and leaves the map to its programs and to another owner.
    pub fn leave(self) {
        self.work.ends.store(true, Ordering::Release);
        self.thread.thread().unpark();
        let _ = self.thread.join();
        if let Some(map) = Arc::into_inner(self.map) {
            map.leave();
        }
    }
}

fn no_memory(map: &ProgramMap<Bytes>) -> u64 {
    map.drops().iter().map(|drops| drops.no_memory).sum()
}

fn serve(map: &ProgramMap<Bytes>, work: &Work, pace: Pace) {
    let mut pause = pace.every;
    while !work.ends.load(Ordering::Acquire) {
        let done = map.service();
        work.steps.fetch_add(1, Ordering::Relaxed);
        let mut failure = work.failure.lock().unwrap_or_else(PoisonError::into_inner);
        pause = match done {
            Ok(done) => {
                *failure = None;
                let add = |count: &AtomicU64, more| count.fetch_add(more as u64, Ordering::Relaxed);
                add(&work.given, done.given);
                add(&work.fetched, done.fetched);
                add(&work.freed, done.freed);
                work.starved.fetch_or(done.starved, Ordering::Relaxed);
                match done.is_idle() {
                    true => (pause * 2).min(pace.rest),
                    false => pace.every,
                }
            }
            Err(error) => {
                *failure = Some(error.to_string());
                pace.rest
            }
        };
        drop(failure);
        std::thread::park_timeout(pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_waits_for_long_is_held() {
        let mut waits = Waits::default();
        let begin = Instant::now();
        let mut at = |seconds, waiting, freed| {
            waits.is_stalled(waiting, freed, begin + Duration::from_secs(seconds))
        };
        assert!(!at(0, 100, 5) && !at(1, 200, 5) && at(2, 300, 5));
        assert!(!at(3, 100, 6), "some was freed");
        assert!(!at(4, 0, 6) && !at(6, 100, 6) && !at(7, 100, 6) && at(8, 100, 6));
    }

    #[test]
    fn a_fault_is_news_once() {
        let mut warning = Warning::default();
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert!(!warning.is_news(false, at(0)));
        assert!(warning.is_news(true, at(1)) && warning.is_there());
        assert!(!warning.is_news(true, at(2)));
        assert!(!warning.is_news(false, at(5)) && warning.is_there());
        assert!(!warning.is_news(true, at(6)), "it was there a moment ago");
        assert!(!warning.is_news(false, at(16)) && !warning.is_there());
        assert!(warning.is_news(true, at(17)));
    }
}
