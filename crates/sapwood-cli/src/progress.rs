//! Progress bars: on stderr, for what takes longer than a moment, and only on a terminal.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How long something may take without a bar.
const PATIENCE: Duration = Duration::from_millis(600);

/// A bar that shows itself when the work turns out to be long. Gone from the screen when dropped.
pub struct Progress {
    bar: ProgressBar,
    began: Instant,
    shown: bool,
}

impl Progress {
    /// Counts up to `total`, or without an end.
    pub fn new(what: impl Into<String>, total: Option<u64>, bytes: bool) -> Self {
        let bar = match total {
            Some(total) => ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden()),
            None => ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()),
        };
        let template = match (total.is_some(), bytes) {
            (true, true) => "{msg} [{bar:30}] {bytes}/{total_bytes}, {eta} left",
            (true, false) => "{msg} [{bar:30}] {percent}%",
            (false, true) => "{msg} {spinner} {bytes}",
            (false, false) => "{msg} {spinner} {pos}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what.into());
        Progress {
            bar,
            began: Instant::now(),
            shown: false,
        }
    }

    /// The work has come to `position`.
    pub fn at(&mut self, position: u64) {
        if !self.shown && self.began.elapsed() >= PATIENCE {
            // Draws nothing when stderr is no terminal.
            self.bar
                .set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
            self.shown = true;
        }
        self.bar.set_position(position);
    }

    /// One step further.
    pub fn step(&mut self) {
        self.at(self.bar.position() + 1);
    }

    /// Says what is being done now.
    pub fn doing(&self, what: impl Into<String>) {
        self.bar.set_message(what.into());
    }

    /// Does something that prints, with the bar out of its way.
    pub fn hide<R>(&self, work: impl FnOnce() -> R) -> R {
        self.bar.suspend(work)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
