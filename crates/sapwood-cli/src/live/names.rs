//! Live maps of names, for the queries.

use std::path::Path;

use sapwood::qp::{OpenCause, OpenError, QpFile, QpStore};
use sapwood_live::{Error as LiveError, LiveIdle, LiveReader, LiveStatus};

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

/// A reader of a live map of either kind. It holds back what it may read.
pub enum Online {
    /// A map of names to numbers.
    Numbers(LiveReader<QpStore<u64>>),
    /// A map of names to texts.
    Texts(LiveReader<QpStore<[u8]>>),
}

impl Online {
    /// Opens a live map of numbers, or else of texts.
    fn open(path: &Path) -> Result<Self, Error> {
        match LiveReader::open(path) {
            Ok(map) => Ok(Online::Numbers(map)),
            Err(first @ LiveError::Layout { .. }) => match LiveReader::open(path) {
                Ok(map) => Ok(Online::Texts(map)),
                Err(LiveError::Layout { .. }) => Err(first.into()),
                Err(error) => Err(error.into()),
            },
            Err(error) => Err(error.into()),
        }
    }
}

/// Opens a live map for queries. It holds nothing back between them.
pub fn open(path: &Path) -> Result<Opened, Error> {
    Ok(match Online::open(path)? {
        Online::Numbers(map) => Opened::Numbers(Box::new(map.idle())),
        Online::Texts(map) => Opened::Texts(Box::new(map.idle())),
    })
}

/// The newest version of a live map as a file, all of which is checked. It stays as it is as long
/// as the reader beside it lives.
pub fn whole(path: &Path) -> Result<(Result<Map, OpenError>, Online), Error> {
    let mut tries = TRIES;
    loop {
        let held = Online::open(path)?;
        let status = LiveStatus::read(path)?;
        let data = status.data.first().cloned().unwrap_or_default();
        let map = Map::either_kind(QpFile::open_published(&data), || {
            QpFile::open_published(&data)
        });
        tries -= 1;
        // The writer may have made the file longer between the look at its length and that at the
        // root, or an heir may have replaced it.
        let torn = matches!(&map, Err(error) if is_torn(&error.cause));
        if !torn || !status.has_writer || tries == 0 {
            return Ok((map, held));
        }
    }
}

/// Whether a change at the wrong moment may have caused an error.
fn is_torn(cause: &OpenCause) -> bool {
    use sapwood::arena::OpenError;
    matches!(
        cause,
        OpenCause::Corrupt(_) | OpenCause::Image(OpenError::Io(_) | OpenError::Header(_))
    )
}
