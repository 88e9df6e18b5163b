//! Signals while a file is written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

/// Holds back the signals that would end the program between creating a file and renaming it, and
/// turns "file too large" from a signal into an error. Without this, a temporary file could be left
/// behind.
pub struct Held {
    came: Vec<(i32, Arc<AtomicBool>)>,
}

impl Held {
    /// From here on. A signal that cannot be held is not.
    pub fn begin() -> Self {
        let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
        let hold = |signal| {
            let flag = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(signal, Arc::clone(&flag)).ok()?;
            Some((signal, flag))
        };
        Held {
            came: [SIGHUP, SIGINT, SIGTERM]
                .into_iter()
                .filter_map(hold)
                .collect(),
        }
    }
}

impl Drop for Held {
    /// Does now what a signal that came would have done then.
    fn drop(&mut self) {
        for (signal, flag) in &self.came {
            if flag.load(Ordering::Relaxed) {
                let _ = signal_hook::low_level::emulate_default_handler(*signal);
            }
        }
    }
}
