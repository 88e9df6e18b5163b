//! What every command that runs until a signal has: metrics for Prometheus, messages to the service
//! manager, and spans of its work.
//!
//! A command makes a [`Service`] before it begins its work, registers its metrics at
//! [`Service::metrics`], says [`Service::ready`] when others can use what it made, and then calls
//! [`Service::tick`] in its loop at least ten times a second.

pub mod catalogue;
mod file;
mod http;
pub mod log;
pub mod metrics;
pub mod notify;
pub mod place;

use std::time::{Duration, Instant};

use crate::errors::{Error, complain};
use metrics::Metrics;
use notify::Notify;
use place::Place;

/// The time between two publications of the metrics.
pub const EVERY: Duration = Duration::from_secs(1);

/// A command that runs until a signal, as its surroundings see it.
pub struct Service {
    metrics: Metrics,
    notify: Notify,
    publish_at: Instant,
    /// The last fault of a publication, so that it is reported once.
    fault: Option<String>,
}

impl Service {
    /// Checks that metrics can be written to a file, or begins to serve them at an address. All of
    /// them have these labels.
    pub fn begin(to: Option<&Place>, labels: &[(&str, &str)]) -> Result<Self, Error> {
        Ok(Service {
            metrics: Metrics::begin(to, labels)?,
            notify: Notify::begin(),
            publish_at: Instant::now(),
            fault: None,
        })
    }

    /// The metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Publishes the metrics for the first time, and tells the service manager that others can use
    /// what this command serves. `update` sets the metrics.
    pub fn ready(&mut self, status: &str, update: impl FnOnce()) -> Result<(), Error> {
        update();
        self.publish()?;
        self.notify.ready(status);
        Ok(())
    }

    /// Tells the service manager what the command does now, when that is news and the last status
    /// is a second old.
    pub fn status(&mut self, status: &str) {
        self.notify.status(status);
    }

    /// Tells the service manager that a reload begins.
    pub fn reloading(&mut self) {
        self.notify.reloading();
    }

    /// Tells the service manager that a reload has ended, and how.
    pub fn reloaded(&mut self, status: &str) {
        self.notify.ready(status);
    }

    /// Tells the service manager that the loop turns. When a publication is due, sets the metrics
    /// by `update` and publishes them; a fault is reported on stderr once.
    pub fn tick(&mut self, update: impl FnOnce()) {
        self.notify.alive();
        if self.metrics.is_wanted() && Instant::now() >= self.publish_at {
            update();
            self.publish_or_complain();
        }
    }

    /// Tells the service manager that the command ends, and publishes the last metrics.
    pub fn stopping(&mut self, update: impl FnOnce()) {
        self.notify.stopping();
        update();
        self.publish_or_complain();
    }

    fn publish(&mut self) -> Result<(), Error> {
        self.publish_at = Instant::now() + EVERY;
        self.metrics.publish()
    }

    fn publish_or_complain(&mut self) {
        match self.publish() {
            Ok(()) => self.fault = None,
            Err(error) => {
                let what = error.to_string();
                if self.fault.as_ref() != Some(&what) {
                    complain(&what);
                    self.fault = Some(what);
                }
            }
        }
    }
}
