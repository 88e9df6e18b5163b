//! Live maps of names, for the queries.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use sapwood::qp::{AnyFile, AnyValues, OpenCause, OpenError, OrderedRead, QpStore};
use sapwood_live::{
    CheckedLiveReader, CheckedNames, Error as LiveError, LiveIdle, LiveReader, LiveStatus,
};
use tempfile::NamedTempFile;

use super::known_or_checked;
use crate::errors::Error;
use crate::names::view::Source;
use crate::names::{Opened, SavedValue};

/// The attempts to read the file of a map that grows meanwhile.
const TRIES: usize = 5;

impl<V: ?Sized + SavedValue> Source<V> for LiveIdle<QpStore<V>> {
    fn read(
        &mut self,
        work: &mut dyn FnMut(&dyn OrderedRead<V>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.read(|view| work(&view))?
    }
}

impl<V: ?Sized + SavedValue> Source<V> for CheckedNames<QpStore<V>> {
    fn read(
        &mut self,
        work: &mut dyn FnMut(&dyn OrderedRead<V>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.ask(|map| work(map))?
    }
}

/// A live map of numbers, or else of byte strings.
fn either<N, B>(
    numbers: impl FnOnce() -> Result<N, LiveError>,
    bytes: impl FnOnce() -> Result<B, LiveError>,
) -> Result<AnyValues<N, B>, LiveError> {
    let is_other = |error: &LiveError| matches!(error, LiveError::Layout { .. });
    AnyValues::open(numbers, bytes, is_other)
}

/// A reader of a live map of either kind. It holds back what it may read.
pub type Online = AnyValues<LiveReader<QpStore<u64>>, LiveReader<QpStore<[u8]>>>;

fn online(path: &Path, wait: Duration) -> Result<Online, LiveError> {
    either(
        || LiveReader::open_within(path, wait),
        || LiveReader::open(path),
    )
}

/// A reader of which the writer does not know.
type Unregistered = AnyValues<CheckedLiveReader<QpStore<u64>>, CheckedLiveReader<QpStore<[u8]>>>;

fn unregistered(path: &Path) -> Result<Unregistered, LiveError> {
    either(
        || CheckedLiveReader::open_unregistered(path),
        || CheckedLiveReader::open_unregistered(path),
    )
}

/// Opens a live map for queries. It holds nothing back between them.
pub fn open(path: &Path, wait: Duration) -> Result<Opened, Error> {
    let known = || {
        Ok(match online(path, wait)? {
            AnyValues::Numbers(map) => Opened::Numbers(Box::new(map.idle())),
            AnyValues::Bytes(map) => Opened::Texts(Box::new(map.idle())),
        })
    };
    let checked = || {
        Ok(match unregistered(path)? {
            AnyValues::Numbers(map) => Opened::Numbers(Box::new(CheckedNames::new(map))),
            AnyValues::Bytes(map) => Opened::Texts(Box::new(CheckedNames::new(map))),
        })
    };
    Ok(known_or_checked(path, known, checked)?)
}

/// What keeps a map as it is: the reader that holds the live map back, or a copy of its file.
pub type Held = (Option<Online>, Option<NamedTempFile>);

/// The newest version of a live map as a file, all of which is checked. It stays as it is as long
/// as what is beside it lives.
pub fn whole(path: &Path, wait: Duration) -> Result<(Result<AnyFile, OpenError>, Held), Error> {
    let mut tries = TRIES;
    loop {
        let held = known_or_checked(
            path,
            || online(path, wait).map(Some),
            || unregistered(path).map(|_| None),
        )?;
        let status = LiveStatus::read(path)?;
        let data = status.data.first().cloned().unwrap_or_default();
        let (file, held) = match held {
            Some(reader) => (data, (Some(reader), None)),
            None => {
                let copy = copied(&data).map_err(Error::read(&data))?;
                (copy.path().to_owned(), (None, Some(copy)))
            }
        };
        let map = AnyFile::open_any_published(&file);
        tries -= 1;
        // The writer may have made the file longer between the look at its length and that at the
        // root, or have changed it while it was copied, or a new owner may have replaced it.
        let torn = matches!(&map, Err(error) if is_torn(&error.cause));
        if !torn || !status.has_writer || tries == 0 {
            return Ok((map, held));
        }
    }
}

/// A copy of a file that others change.
fn copied(data: &Path) -> std::io::Result<NamedTempFile> {
    let mut copy = NamedTempFile::new()?;
    std::io::copy(&mut File::open(data)?, &mut copy)?;
    Ok(copy)
}

/// Whether a change at the wrong moment may have caused an error.
fn is_torn(cause: &OpenCause) -> bool {
    use sapwood::arena::OpenError;
    matches!(
        cause,
        OpenCause::Corrupt(_) | OpenCause::Image(OpenError::Io(_) | OpenError::Header(_))
    )
}
