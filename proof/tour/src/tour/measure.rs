//! Measures the memory of a map in a process of its own.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::{Parser, ValueEnum};
use sapwood::maple::MapleMap;
use sapwood::qp::QpMap;
use serde_json::{Value, json};

use super::spans::Spans;
use super::table::{BTree, Compacted, Foldhash, Std};
use crate::errors::{Error, Outcome};
use crate::output::document;

/// How memory is measured, for the readers of the figures.
pub const HOW: &str = "Memory: a process of its own fills each map, and reads the keys from a \
file one by one. The figure is the growth of its resident anonymous memory (RssAnon of \
/proc/self/status), all costs of the allocator included.";

/// The first argument of a process that measures.
const MEASURE: &str = "measure-memory";

/// The map to fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Rival {
    /// `QpMap`.
    Qp,
    /// `QpMap`, compacted.
    QpCompacted,
    /// `std::collections::HashMap`.
    Hash,
    /// hashbrown with foldhash.
    Foldhash,
    /// `std::collections::BTreeMap`.
    Btree,
    /// `MapleMap`; each key is a start and an end, 8 bytes each, big-endian.
    Ranges,
    /// `std::collections::BTreeMap` from starts to ends.
    RangesBtree,
}

/// The arguments of a process that measures one map.
#[derive(Debug, Parser)]
pub struct MeasureArgs {
    /// The map to fill.
    pub rival: Rival,
    /// The file of the keys, each after its length in two bytes, little-endian.
    pub keys: PathBuf,
}

/// The arguments of this process, if it was started to measure.
pub fn asked() -> Option<MeasureArgs> {
    let mut args = std::env::args_os().skip(1).peekable();
    (args.peek()? == MEASURE).then(|| MeasureArgs::parse_from(args))
}

/// Writes the file of the keys, each after its length.
pub fn write_keys<K: AsRef<[u8]>>(keys: impl Iterator<Item = K>, path: &Path) -> Result<(), Error> {
    let write = || {
        let mut out = BufWriter::new(File::create(path)?);
        for key in keys {
            let key = key.as_ref();
            // No key has more than 65,535 bytes.
            out.write_all(&(key.len() as u16).to_le_bytes())?;
            out.write_all(key)?;
        }
        out.flush()
    };
    write().map_err(Error::write(path))
}

/// Starts a process that fills a map with the keys of a file; returns the bytes of the map, or why
/// they were not measured.
pub fn bytes(rival: Rival, keys: &Path) -> Result<u64, String> {
    let name = rival.to_possible_value().map(|v| v.get_name().to_owned());
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let child = Command::new(program)
        .arg(MEASURE)
        .arg(name.unwrap_or_default())
        .arg(keys)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| e.to_string())?;
    let answer: Value = serde_json::from_slice(&child.stdout)
        .map_err(|_| String::from_utf8_lossy(&child.stderr).trim().to_owned())?;
    answer["bytes"].as_u64().ok_or_else(|| "no figure".into())
}

/// A map that is filled key by key.
pub trait Fill: Default {
    /// Inserts a key.
    fn put(&mut self, key: &[u8], value: u64) -> Result<(), Error>;

    /// Prepares the map for lookups after all insertions. The time is not measured.
    fn settle(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

impl Fill for MapleMap<u32> {
    fn put(&mut self, key: &[u8], value: u64) -> Result<(), Error> {
        Ok(self
            .store(range(key)?, value as u32)
            .map_err(sapwood::Error::from)?)
    }
}

impl Fill for Spans {
    fn put(&mut self, key: &[u8], value: u64) -> Result<(), Error> {
        self.store(range(key)?, value as u32);
        Ok(())
    }
}

/// Runs in the other process: fills one map and prints by how much its memory grew.
pub fn run(args: &MeasureArgs) -> Outcome {
    let bytes = match args.rival {
        Rival::Qp => grown::<QpMap<u64>>(&args.keys),
        Rival::QpCompacted => grown::<Compacted>(&args.keys),
        Rival::Hash => grown::<Std>(&args.keys),
        Rival::Foldhash => grown::<Foldhash>(&args.keys),
        Rival::Btree => grown::<BTree>(&args.keys),
        Rival::Ranges => grown::<MapleMap<u32>>(&args.keys),
        Rival::RangesBtree => grown::<Spans>(&args.keys),
    }?;
    document(&json!({ "bytes": bytes }))
}

/// Decodes the range in a key.
fn range(key: &[u8]) -> Result<RangeInclusive<u64>, Error> {
    let ends = key.split_first_chunk();
    let ends = ends.and_then(|(start, end)| Some((*start, end.try_into().ok()?)));
    let (start, end) = ends.ok_or_else(|| Error::Tour("a key is no range".into()))?;
    Ok(u64::from_be_bytes(start)..=u64::from_be_bytes(end))
}

fn grown<M: Fill>(path: &Path) -> Result<u64, Error> {
    let mut map = M::default();
    let file = File::open(path).map_err(Error::read(path))?;
    let mut keys = BufReader::with_capacity(1 << 16, file);
    let mut key = vec![0; usize::from(u16::MAX)];
    let before = resident()?;
    for value in 0.. {
        let mut len = [0; 2];
        match keys.read_exact(&mut len) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            read => read.map_err(Error::read(path))?,
        }
        let key = &mut key[..usize::from(u16::from_le_bytes(len))];
        keys.read_exact(key).map_err(Error::read(path))?;
        map.put(key, value)?;
    }
    map.settle()?;
    let after = resident()?;
    black_box(&map);
    // The process ends anyway.
    std::mem::forget(map);
    Ok(after.saturating_sub(before))
}

/// Bytes of anonymous memory that are resident.
fn resident() -> Result<u64, Error> {
    let path = Path::new("/proc/self/status");
    let status = std::fs::read_to_string(path).map_err(Error::read(path))?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))
        .and_then(|rest| rest.trim().strip_suffix("kB"))
        .and_then(|kib| kib.trim().parse::<u64>().ok())
        .map(|kib| kib * 1024)
        .ok_or_else(|| Error::Tour("this system does not tell RssAnon".into()))
}
