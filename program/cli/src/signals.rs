//! Holds signals back while a command writes a file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

/// A guard that holds back the signals that would end the program. A file is created and renamed
/// under it, so that no signal leaves a temporary file behind. Under it, a file that is too large
/// is an error instead of a signal.
pub struct HeldSignals {
    came: Vec<(i32, Arc<AtomicBool>)>,
}

impl HeldSignals {
    /// Holds signals back from now on. A signal for which no handler can be registered keeps its
    /// effect.
    pub fn begin() -> Self {
        let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
        let hold = |signal| {
            let flag = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(signal, Arc::clone(&flag)).ok()?;
            Some((signal, flag))
        };
        HeldSignals {
            came: [SIGHUP, SIGINT, SIGTERM]
                .into_iter()
                .filter_map(hold)
                .collect(),
        }
    }
}

impl Drop for HeldSignals {
    /// Runs the default action of each signal that came meanwhile.
    fn drop(&mut self) {
        for (signal, flag) in &self.came {
            if flag.load(Ordering::Relaxed) {
                let _ = signal_hook::low_level::emulate_default_handler(*signal);
            }
        }
    }
}
