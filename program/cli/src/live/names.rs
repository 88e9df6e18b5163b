//! Live maps of names, for the queries.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use sapwood::qp::{OpenCause, OpenError, QpFile, QpStore};
use sapwood_live::{
    CheckedLiveReader, CheckedNames, Error as LiveError, LiveIdle, LiveReader, LiveStatus,
};
use tempfile::NamedTempFile;

use super::known_or_checked;
use crate::errors::Error;
use crate::names::view::{Names, Source};
use crate::names::{Map, Opened, SavedValue};

/// The attempts to read the file of a map that grows meanwhile.
const TRIES: usize = 5;

impl<V: ?Sized + SavedValue> Source<V> for LiveIdle<QpStore<V>> {
    fn read(
        &mut self,
        work: &mut dyn FnMut(&dyn Names<V>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.read(|view| work(&view))?
    }
}

impl<V: ?Sized + SavedValue> Source<V> for CheckedNames<QpStore<V>> {
    fn read(
        &mut self,
        work: &mut dyn FnMut(&dyn Names<V>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.ask(|map| work(map))?
    }
}

/// What has numbers as values, or else texts.
pub enum Either<N, T> {
    /// The values are numbers.
    Numbers(N),
    /// The values are texts.
    Texts(T),
}

impl<N, T> Either<N, T> {
    /// A live map of numbers, or else of texts.
    fn open(
        numbers: Result<N, LiveError>,
        texts: impl FnOnce() -> Result<T, LiveError>,
    ) -> Result<Self, LiveError> {
        match numbers {
            Err(first @ LiveError::Layout { .. }) => match texts() {
                Err(LiveError::Layout { .. }) => Err(first),
                texts => texts.map(Either::Texts),
            },
            numbers => numbers.map(Either::Numbers),
        }
    }
}

/// A reader of a live map of either kind. It holds back what it may read.
pub type Online = Either<LiveReader<QpStore<u64>>, LiveReader<QpStore<[u8]>>>;

fn online(path: &Path, wait: Duration) -> Result<Online, LiveError> {
    Either::open(LiveReader::open_within(path, wait), || {
        LiveReader::open(path)
    })
}

/// A reader of which the writer does not know.
type Unregistered = Either<CheckedLiveReader<QpStore<u64>>, CheckedLiveReader<QpStore<[u8]>>>;

fn unregistered(path: &Path) -> Result<Unregistered, LiveError> {
    let numbers = CheckedLiveReader::open_unregistered(path);
    Either::open(numbers, || CheckedLiveReader::open_unregistered(path))
}

/// Opens a live map for queries. It holds nothing back between them.
pub fn open(path: &Path, wait: Duration) -> Result<Opened, Error> {
    let known = || {
        Ok(match online(path, wait)? {
            Either::Numbers(map) => Opened::Numbers(Box::new(map.idle())),
            Either::Texts(map) => Opened::Texts(Box::new(map.idle())),
        })
    };
    let checked = || {
        Ok(match unregistered(path)? {
            Either::Numbers(map) => Opened::Numbers(Box::new(CheckedNames::new(map))),
            Either::Texts(map) => Opened::Texts(Box::new(CheckedNames::new(map))),
        })
    };
    Ok(known_or_checked(path, known, checked)?)
}

/// What keeps a map as it is: the reader that holds the live map back, or a copy of its file.
pub type Held = (Option<Online>, Option<NamedTempFile>);

/// The newest version of a live map as a file, all of which is checked. It stays as it is as long
/// as what is beside it lives.
pub fn whole(path: &Path, wait: Duration) -> Result<(Result<Map, OpenError>, Held), Error> {
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
        let map = Map::either_kind(QpFile::open_published(&file), || {
            QpFile::open_published(&file)
        });
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
