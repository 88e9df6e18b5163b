//! Progress bars on stderr: only on a terminal, and only for work that takes long.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The time after which work gets a bar.
const PATIENCE: Duration = Duration::from_millis(600);

/// A progress bar that appears when the work takes long. Dropping it clears it from the screen.
pub struct Progress {
    bar: ProgressBar,
    began: Instant,
    shown: bool,
}

impl Progress {
    /// A bar that counts up to `total`, or without an end; its unit is bytes or steps.
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

    /// Sets the position that the work has reached.
    pub fn at(&mut self, position: u64) {
        if !self.shown && self.began.elapsed() >= PATIENCE {
            // The target draws nothing when stderr is no terminal.
            self.bar
                .set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
            self.shown = true;
        }
        self.bar.set_position(position);
    }

    /// Moves the position by one.
    pub fn step(&mut self) {
        self.at(self.bar.position() + 1);
    }

    /// Sets the text that names the current work.
    pub fn doing(&self, what: impl Into<String>) {
        self.bar.set_message(what.into());
    }

    /// Clears the bar from the screen while `work` prints.
    pub fn hide<R>(&self, work: impl FnOnce() -> R) -> R {
        self.bar.suspend(work)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
