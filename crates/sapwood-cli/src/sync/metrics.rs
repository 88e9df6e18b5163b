//! The figures of publishers and followers, for Prometheus in a file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use prometheus::{Encoder, IntCounter, IntGauge, Registry, TextEncoder};
use sapwood_sync::{FollowerStatus, PublisherStatus};

use crate::errors::{Error, complain};
pub use crate::live::metrics::check;

/// The time between two writings.
const EVERY: Duration = Duration::from_secs(1);

/// A figure: its name, whether it only grows, its help, its value.
type Figure = (&'static str, bool, &'static str, u64);

/// The figures of a publisher.
pub fn of_publisher(status: &PublisherStatus) -> Vec<Figure> {
    let trouble = u64::from(status.trouble.is_some());
    vec![
        ("term", false, "The leader's term.", status.epoch),
        (
            "commit",
            false,
            "The newest commit in the log.",
            status.commit,
        ),
        ("entries", false, "Entries of the map.", status.entries),
        (
            "commits_total",
            true,
            "Commits written in this term.",
            status.commits,
        ),
        (
            "bytes_total",
            true,
            "Bytes of log entries written in this term.",
            status.bytes,
        ),
        (
            "snapshot_commit",
            false,
            "The newest snapshot's commit.",
            status.snapshot,
        ),
        (
            "followers",
            false,
            "Living followers.",
            status.followers as u64,
        ),
        (
            "lag_commits",
            false,
            "Commits that the slowest follower is behind.",
            status.lag,
        ),
        (
            "evicted_total",
            true,
            "Followers evicted in this term.",
            status.evicted,
        ),
        ("trouble", false, "Whether something is wrong.", trouble),
    ]
}

/// The figures of a follower.
pub fn of_follower(status: &FollowerStatus) -> Vec<Figure> {
    let trouble = u64::from(status.trouble.is_some());
    let commit = status.commit.unwrap_or(0);
    vec![
        ("term", false, "The leader's term.", status.epoch),
        ("commit", false, "The commit that readers see.", commit),
        ("entries", false, "Entries of the map.", status.entries),
        ("commits_total", true, "Commits applied.", status.commits),
        (
            "changes_total",
            true,
            "Changes in the commits applied.",
            status.changes,
        ),
        (
            "bytes_total",
            true,
            "Bytes of log entries read.",
            status.bytes,
        ),
        (
            "lag_commits",
            false,
            "Commits in the log that readers do not see.",
            status.lag(),
        ),
        (
            "restored_total",
            true,
            "Times that the map was compared anew.",
            status.restored,
        ),
        (
            "evicted_total",
            true,
            "Times that the leader evicted this one.",
            status.evicted,
        ),
        (
            "trouble",
            false,
            "Whether something holds it back.",
            trouble,
        ),
    ]
}

/// A file of figures.
pub struct Figures {
    file: PathBuf,
    map: String,
    next: Instant,
    fault: Option<String>,
}

impl Figures {
    /// The figures of a map in this file.
    pub fn new(file: &Path, map: &str) -> Self {
        Figures {
            file: file.into(),
            map: map.into(),
            next: Instant::now(),
            fault: None,
        }
    }

    /// Writes the figures, if it is time.
    pub fn tick(&mut self, figures: impl FnOnce() -> Vec<Figure>) {
        if Instant::now() >= self.next {
            self.next = Instant::now() + EVERY;
            self.write(&figures());
        }
    }

    /// Writes the figures for the last time.
    pub fn last(mut self, figures: Vec<Figure>) {
        self.write(&figures);
    }

    /// Writes the figures into a new file beside the old one, and renames it. A fault that was not
    /// the last one already is told.
    fn write(&mut self, figures: &[Figure]) {
        let name = self.file.file_name().unwrap_or_default().to_string_lossy();
        let beside = self
            .file
            .with_file_name(format!(".{name}.{}", std::process::id()));
        let write = || -> io::Result<()> {
            let text = text(&self.map, figures).map_err(io::Error::other)?;
            let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, &self.file));
            written.inspect_err(|_| drop(fs::remove_file(&beside)))
        };
        let fault = write().map_err(Error::write(&self.file)).err();
        let fault = fault.map(|error| error.to_string());
        if let Some(fault) = fault
            .as_ref()
            .filter(|fault| self.fault.as_ref() != Some(fault))
        {
            complain(fault);
        }
        self.fault = fault;
    }
}

/// The text of figures in the format of Prometheus.
fn text(map: &str, figures: &[Figure]) -> Result<Vec<u8>, prometheus::Error> {
    let labels = [("map".to_owned(), map.to_owned())];
    let registry = Registry::new_custom(Some("sapwood_sync".into()), Some(labels.into()))?;
    for &(name, grows, help, value) in figures {
        if grows {
            let counter = IntCounter::new(name, help)?;
            counter.inc_by(value);
            registry.register(Box::new(counter))?;
        } else {
            let gauge = IntGauge::new(name, help)?;
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
            registry.register(Box::new(gauge))?;
        }
    }
    let mut text = Vec::new();
    TextEncoder::new().encode(&registry.gather(), &mut text)?;
    Ok(text)
}
