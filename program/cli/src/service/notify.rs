//! Messages to the service manager: `sd_notify(3)`.
//!
//! Without `NOTIFY_SOCKET` in the environment nothing is sent. A message that cannot be sent is not
//! an error of the command: the service manager notices a missing one by its own clock.

use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// What the service manager is told, and when it was told last that the loop turns.
pub struct Notify {
    /// A third of the time after which the service manager ends a silent process.
    every: Option<Duration>,
    alive_at: Instant,
    /// The status that it was told last, and when it may be told another one.
    status: String,
    status_at: Instant,
}

/// The time between two statuses.
const STATUS_EVERY: Duration = Duration::from_secs(1);

impl Notify {
    /// Asks the environment how often the service manager wants to hear that the loop turns.
    pub fn begin() -> Self {
        Notify {
            every: sd_notify::watchdog_enabled().map(|time| time / 3),
            alive_at: Instant::now(),
            status: String::new(),
            status_at: Instant::now(),
        }
    }

    /// Others can use what this process serves.
    pub fn ready(&mut self, status: &str) {
        let _ = sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(status)]);
        self.told(status);
        self.alive();
    }

    /// What this process does now. A status that was told already is not told again, and a new one
    /// is told a second after the last one at the earliest: call this again and again.
    pub fn status(&mut self, status: &str) {
        if self.status != status && Instant::now() >= self.status_at {
            let _ = sd_notify::notify(&[NotifyState::Status(status)]);
            self.told(status);
        }
    }

    fn told(&mut self, status: &str) {
        self.status = status.to_owned();
        self.status_at = Instant::now() + STATUS_EVERY;
    }

    /// A reload begins. The service manager wants the time, to know which reload it asked for.
    pub fn reloading(&self) {
        if let Ok(now) = NotifyState::monotonic_usec_now() {
            let _ = sd_notify::notify(&[NotifyState::Reloading, now]);
        }
    }

    /// The loop turns.
    pub fn alive(&mut self) {
        let Some(every) = self.every else { return };
        if Instant::now() >= self.alive_at {
            self.alive_at = Instant::now() + every;
            let _ = sd_notify::notify(&[NotifyState::Watchdog]);
        }
    }

    /// The process is about to end.
    pub fn stopping(&self) {
        let _ = sd_notify::notify(&[NotifyState::Stopping]);
    }
}
