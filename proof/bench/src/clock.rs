//! The processor time of a thread.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A stop watch that stops while the thread is off its core.
pub struct CpuClock {
    start: Duration,
}

impl CpuClock {
    /// Starts at the processor time that the thread has used so far.
    pub fn start() -> Self {
        Self { start: now() }
    }

    /// The processor time since the start; call it on the same thread.
    pub fn elapsed(&self) -> Duration {
        now() - self.start
    }
}

fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
