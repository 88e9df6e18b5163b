//! Follows a primary in a thread.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{Secondary, Zone, ZoneState};

/// A zone that a thread follows. The thread ends some time after it is dropped.
pub struct Followed {
    pub(super) zone: Zone,
    pub(super) wake: SyncSender<()>,
    state: Arc<Mutex<ZoneState>>,
}

impl Followed {
    /// The zone and its primary.
    ///
    /// O(1).
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// What is known of the zone. It never waits for the network.
    pub fn state(&self) -> ZoneState {
        let state = self.state.lock();
        state.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks the primary soon, whatever the SOA says.
    ///
    /// O(1).
    pub fn wake(&self) {
        // One that is there already is enough.
        let _ = self.wake.try_send(());
    }
}

/// The least time between two questions, however often NOTIFY comes.
const LEAST: Duration = Duration::from_secs(1);

/// Asks the primary in a thread whenever it is time, and calls a function when there is a new
/// version, or the zone's rules have been taken away or given back (then the first argument is
/// true), and when the trouble changes. If `withdraw`, the rules of an expired zone are taken away;
/// else they stay.
///
/// # Errors
/// Those of the system, when it makes the thread.
pub fn follow(
    mut secondary: Secondary,
    withdraw: bool,
    mut tell: impl FnMut(bool, &ZoneState) + Send + 'static,
) -> std::io::Result<Followed> {
    let (wake, woken) = sync_channel(1);
    let state = Arc::new(Mutex::new(secondary.state()));
    let followed = Followed {
        zone: secondary.zone().clone(),
        wake,
        state: Arc::clone(&state),
    };
    let mut before = secondary.state();
    let mut asked: Option<Instant> = None;
    let work = move || {
        loop {
            let now = Instant::now();
            let left = secondary.due().saturating_duration_since(now);
            let left = secondary.expires_in().map_or(left, |other| other.min(left));
            let mut is_woken = false;
            match woken.recv_timeout(left) {
                Ok(()) => is_woken = true,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let mut is_new = false;
            if is_woken || secondary.due() <= Instant::now() {
                if let Some(asked) = asked {
                    thread::sleep(LEAST.saturating_sub(asked.elapsed()));
                }
                // The fault is a part of the state.
                is_new = secondary.refresh().unwrap_or(false);
                asked = Some(Instant::now());
            }
            let now = secondary.state();
            is_new |= secondary.withdraw(withdraw && now.is_expired);
            let is_told = is_new
                || now.trouble != before.trouble
                || now.is_expired != before.is_expired
                || now.serial != before.serial;
            *state.lock().unwrap_or_else(PoisonError::into_inner) = now.clone();
            if is_told {
                tell(is_new, &now);
            }
            before = now;
        }
    };
    thread::Builder::new()
        .name("zone".into())
        .spawn(work)
        .map(|_| followed)
}
