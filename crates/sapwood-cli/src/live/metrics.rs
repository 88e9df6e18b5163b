//! The figures of a live map: for the command `stats`, and for Prometheus in a file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use prometheus::{Encoder, IntCounter, IntGauge, Registry, TextEncoder};
use sapwood_live::LiveReaderInfo;

use crate::errors::Error;

/// The state of a live map.
pub struct State {
    /// Number of entries.
    pub entries: usize,
    /// Bytes of memory that the map takes.
    pub bytes: usize,
    /// Bytes of old versions that wait for readers.
    pub garbage: usize,
    /// How many times processes have taken the map over.
    pub generation: u64,
    /// The readers in all processes.
    pub readers: Vec<LiveReaderInfo>,
}

/// The counts of a command that serves a map.
#[derive(Clone, Copy, Default)]
pub struct Done {
    /// Changes that were made as a whole.
    pub commits: u64,
    /// Readings of the list, the first one included.
    pub reloads: u64,
    /// Readings of the list that failed.
    pub reload_errors: u64,
}

/// A figure: its name, whether it only grows, its help, its value.
type Figure = (&'static str, bool, &'static str, u64);

/// All figures.
pub fn figures(state: &State, done: Done) -> [Figure; 10] {
    let of = |is: fn(&LiveReaderInfo) -> bool| state.readers.iter().filter(|r| is(r)).count();
    let gauge = |name, help, value: usize| (name, false, help, value as u64);
    let count = |name, help, value| (name, true, help, value);
    [
        gauge("entries", "Entries of the map.", state.entries),
        gauge("bytes", "Bytes of memory that the map takes.", state.bytes),
        gauge(
            "garbage_bytes",
            "Bytes of old versions that wait for readers.",
            state.garbage,
        ),
        (
            "generation",
            false,
            "How many times processes have taken the map over.",
            state.generation,
        ),
        gauge("readers", "Readers in all processes.", state.readers.len()),
        gauge(
            "readers_holding_back",
            "Readers that hold old versions back.",
            of(|reader| reader.holds_back),
        ),
        gauge(
            "readers_evicted",
            "Readers that are evicted.",
            of(|reader| reader.evicted),
        ),
        count("commits_total", "Changes that were made.", done.commits),
        count(
            "reloads_total",
            "Times that the list was read, the first one included.",
            done.reloads,
        ),
        count(
            "reload_errors_total",
            "Times that the list could not be read or adopted.",
            done.reload_errors,
        ),
    ]
}

/// The text of figures in the format of Prometheus.
fn text(map: &Path, figures: &[Figure]) -> Result<Vec<u8>, prometheus::Error> {
    let labels = [("map".to_owned(), map.to_string_lossy().into_owned())];
    let prefix = Some("sapwood_live".to_owned());
    let registry = Registry::new_custom(prefix, Some(labels.into()))?;
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

/// Writes the figures of a map into a new file beside the old one, and renames it.
pub fn write(file: &Path, map: &Path, figures: &[Figure]) -> Result<(), Error> {
    let write = || -> io::Result<()> {
        let text = text(map, figures).map_err(io::Error::other)?;
        let beside = beside(file)?;
        let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, file));
        written.inspect_err(|_| drop(fs::remove_file(&beside)))
    };
    write().map_err(Error::write(file))
}

/// Checks that figures can be written beside a file.
pub fn check(file: &Path) -> Result<(), Error> {
    let check = || -> io::Result<()> {
        if file.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let beside = beside(file)?;
        fs::write(&beside, "")?;
        fs::remove_file(beside)
    };
    check().map_err(Error::write(file))
}

/// The path of the new file: a hidden one, which collectors of metrics leave alone.
fn beside(file: &Path) -> io::Result<PathBuf> {
    let name = file.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let name = name.to_string_lossy();
    Ok(file.with_file_name(format!(".{name}.{}", std::process::id())))
}
