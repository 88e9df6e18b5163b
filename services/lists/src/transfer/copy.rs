//! The copy of a zone: a file with a record in each line, the SOA first.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use super::TransferError;
use super::item::{Item, SOA, Soa};
use crate::records;

/// The longest line: the data of a record, two digits a byte, and its name.
const MOST: u64 = 1 << 18;

/// Reads the SOA of a copy. A file that does not begin with the SOA of this zone is an error.
pub fn soa(path: &Path, apex: &[u8]) -> io::Result<Soa> {
    let mut line = String::new();
    BufReader::new(File::open(path)?)
        .take(MOST)
        .read_line(&mut line)?;
    let record = records::record(&line, b"\0").ok();
    let record = record.filter(|record| record.record.rtype == SOA && record.owner == apex);
    let soa = record.and_then(|record| Soa::new(&record.record.data));
    soa.ok_or_else(|| io::Error::other("it does not begin with the SOA of the zone"))
}

/// A copy that is written beside its place.
pub struct NewCopy {
    place: PathBuf,
    part: PathBuf,
    file: BufWriter<File>,
    soa: Soa,
    bytes: u64,
    limit: u64,
}

impl NewCopy {
    /// Begins a copy with the SOA of its zone.
    pub fn begin(place: &Path, item: &Item, limit: u64) -> Result<Self, TransferError> {
        let soa = item.soa();
        let soa = soa.ok_or_else(|| TransferError::Wrong("the first record is no SOA".into()))?;
        let part = place.with_extension("part");
        let file = File::create(&part).map_err(TransferError::copy(&part))?;
        let mut copy = NewCopy {
            place: place.into(),
            part,
            file: BufWriter::with_capacity(1 << 16, file),
            soa,
            bytes: 0,
            limit,
        };
        copy.put(item)?;
        Ok(copy)
    }

    /// Writes a record.
    pub fn put(&mut self, item: &Item) -> Result<(), TransferError> {
        let (name, ttl, rest) = item.parts();
        self.line(&format!("{name} {ttl} IN {rest}\n"))
    }

    fn line(&mut self, line: &str) -> Result<(), TransferError> {
        self.bytes += line.len() as u64;
        if self.bytes > self.limit {
            return Err(TransferError::TooLarge(self.limit));
        }
        let written = self.file.write_all(line.as_bytes());
        written.map_err(TransferError::copy(&self.part))
    }

    /// Puts the copy in its place. Returns its SOA.
    pub fn finish(mut self) -> Result<Soa, TransferError> {
        let written = self.file.flush().and_then(|()| {
            self.file.get_ref().sync_all()?;
            fs::rename(&self.part, &self.place)
        });
        written.map_err(TransferError::copy(&self.place))?;
        Ok(self.soa.clone())
    }
}

impl Drop for NewCopy {
    /// What was not finished goes.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.part);
    }
}

/// What becomes of a record.
struct Change {
    /// Whether the old version has to have it.
    had: bool,
    /// Its time to live in the new version, if it has it.
    now: Option<u32>,
    is_met: bool,
}

/// The changes from one version to a later one, of all versions between them.
pub struct Changes {
    all: BTreeMap<(String, String), Change>,
    bytes: u64,
    limit: u64,
}

impl Changes {
    pub fn new(limit: u64) -> Self {
        Changes {
            all: BTreeMap::new(),
            bytes: 0,
            limit,
        }
    }

    /// Takes a record that goes (`is_there` is false) or comes.
    pub fn take(&mut self, item: &Item, is_there: bool) -> Result<(), TransferError> {
        let (name, ttl, rest) = item.parts();
        let had = !is_there;
        let now = is_there.then_some(ttl);
        self.bytes += (name.len() + rest.len()) as u64 + 64;
        if self.bytes > self.limit {
            return Err(TransferError::TooLarge(self.limit));
        }
        let new = || Change {
            had,
            now: had.then_some(ttl),
            is_met: false,
        };
        let change = self.all.entry((name, rest)).or_insert_with(new);
        if change.now.is_some() != had {
            let (name, _, _) = item.parts();
            let what = if had { "goes twice" } else { "comes twice" };
            return Err(wrong(&format!("a record of {name} {what}")));
        }
        change.now = now;
        Ok(())
    }

    /// Makes the new copy of the old one. `item` is the new SOA.
    pub fn apply(mut self, old: &Path, item: &Item, limit: u64) -> Result<NewCopy, TransferError> {
        let mut copy = NewCopy::begin(old, item, limit)?;
        let fault = || TransferError::copy(old);
        let mut input = BufReader::with_capacity(1 << 16, File::open(old).map_err(fault())?);
        let (mut line, mut is_soa) = (String::new(), true);
        loop {
            line.clear();
            let read = (&mut input).take(MOST).read_line(&mut line);
            if read.map_err(fault())? == 0 {
                break;
            }
            // The SOA comes first.
            if std::mem::take(&mut is_soa) {
                continue;
            }
            let mut parts = line.trim_end().splitn(4, ' ');
            let (Some(name), Some(_), Some("IN"), Some(rest)) =
                (parts.next(), parts.next(), parts.next(), parts.next())
            else {
                return Err(fault()(io::Error::other("a line is no record of a copy")));
            };
            let Some(change) = self.all.get_mut(&(name.into(), rest.into())) else {
                copy.line(&line)?;
                continue;
            };
            if !change.had {
                return Err(wrong(&format!("a record of {name} comes that is there")));
            }
            change.is_met = true;
            if let Some(ttl) = change.now {
                copy.line(&format!("{name} {ttl} IN {rest}\n"))?;
            }
        }
        for ((name, rest), change) in &self.all {
            match (change.had, change.is_met, change.now) {
                (true, false, _) => {
                    return Err(wrong(&format!("a record of {name} goes that is not there")));
                }
                (false, _, Some(ttl)) => copy.line(&format!("{name} {ttl} IN {rest}\n"))?,
                _ => {}
            }
        }
        Ok(copy)
    }
}

fn wrong(what: &str) -> TransferError {
    TransferError::Wrong(what.into())
}
