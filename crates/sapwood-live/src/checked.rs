//! Readers that check what they read.

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::Path;

use crate::error::Error;
use crate::place::Place;
use crate::raw::maps::CheckedMap;
use crate::raw::reader::{LiveOffline, Slot};
use crate::raw::window::{LiveSource, LiveWindow};

/// A reader of a live map that checks every word before it relies on it, and returns copies. It may
/// read a map that anybody can write, and it can be evicted.
///
/// - Whatever lies in the memory, and whatever is written there meanwhile, it reads nothing outside
///   the map's files, and every operation ends.
/// - A writer that was built with [`evict_after`](crate::LiveBuilder::evict_after) does not wait
///   for it any longer than that. From then on its answers are [`Error::Evicted`], until it calls
///   [`quiescent`](Self::quiescent): so no answer comes from memory that the writer has used again.
/// - Files that other users can write are read by system calls, because a file that becomes shorter
///   would be a fault in mapped memory. That is slow. Files of this user and of root are mapped.
///
/// Lookups take longer than those of a [`LiveReader`](crate::LiveReader), which trusts the memory.
///
/// ```
/// use sapwood::qp::QpShared;
/// use sapwood_live::{CheckedLiveReader, Live};
/// # let folder = std::env::temp_dir().join(format!("sapwood-live-check-{}", std::process::id()));
/// let map = Live::<QpShared<u64>>::create(&folder)?;
/// map.insert("example.org", 7)?;
///
/// // In another process:
/// let mut reader = CheckedLiveReader::<QpShared<u64>>::open(&folder)?;
/// assert_eq!(reader.view()?.get("example.org")?, Some(7));
/// reader.quiescent()?;
/// # drop(reader);
/// # map.remove_map()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CheckedLiveReader<M: CheckedMap> {
    sources: Vec<LiveSource>,
    /// The number of the data.
    number: u64,
    ours: bool,
    slot: Slot,
    map: std::marker::PhantomData<fn() -> M>,
}

impl<M: CheckedMap> CheckedLiveReader<M> {
    /// Opens the live map in a folder.
    ///
    /// # Errors
    /// [`Error::NoMap`], also when its writer has not built it yet; [`Error::Kind`];
    /// [`Error::Layout`]; [`Error::Damaged`]; the system's error: the reader needs the right to
    /// make a file in the folder `readers`.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_place(Place::new(folder.as_ref()))
    }

    /// As [`open`](Self::open), with a descriptor of the folder.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_at(folder: OwnedFd) -> Result<Self, Error> {
        Self::open_place(Place::at(folder))
    }

    fn open_place(place: Place) -> Result<Self, Error> {
        let ours = match place.belongs_to_us() {
            Ok(()) => true,
            Err(Error::Foreign { .. }) => false,
            Err(error) => return Err(error),
        };
        let slot = Slot::open::<M>(place, true, ours)?;
        let (sources, number) = sources(&slot, M::parts(), ours)?;
        let reader = CheckedLiveReader {
            sources,
            number,
            ours,
            slot,
            map: std::marker::PhantomData,
        };
        reader.view()?;
        Ok(reader)
    }

    /// The map, for reading. Each call of its methods sees the newest map.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Evicted`].
    pub fn view(&self) -> Result<M::Checked<'_>, Error> {
        M::check(&self.sources)
    }

    /// Announces that the reader holds nothing. A reader that was evicted is back. If another
    /// process has taken the map over, the reader moves to its data.
    ///
    /// # Errors
    /// As [`open`](Self::open), for the data of the heir. Then the reader stays where it is.
    pub fn quiescent(&mut self) -> Result<(), Error> {
        self.slot.announce();
        if self.slot.data() != self.number {
            let (sources, number) = sources(&self.slot, M::parts(), self.ours)?;
            M::check(&sources)?;
            (self.sources, self.number) = (sources, number);
        }
        Ok(())
    }

    /// Takes the reader offline, until the result is dropped. It then holds nothing back.
    pub fn offline(&mut self) -> LiveOffline<'_> {
        self.slot.offline()
    }

    /// How many times other processes have taken the map over.
    pub fn generation(&self) -> u64 {
        self.number.saturating_sub(1)
    }

    /// Whether the map's writer lives: see [`LiveReader::has_writer`](crate::LiveReader::has_writer).
    ///
    /// # Errors
    /// The system's error.
    pub fn has_writer(&self) -> Result<bool, Error> {
        self.slot.has_writer()
    }
}

fn sources(slot: &Slot, parts: usize, ours: bool) -> Result<(Vec<LiveSource>, u64), Error> {
    let (windows, number) = slot.open_data(parts, |path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok((LiveWindow::open(path, ours)?, name.into_owned()))
    })?;
    let source = |(window, name)| LiveSource {
        window,
        name,
        folder: slot.place.path().to_owned(),
        slot: Some(slot.announced().clone()),
    };
    Ok((windows.into_iter().map(source).collect(), number))
}

impl<M: CheckedMap> fmt::Debug for CheckedLiveReader<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedLiveReader")
            .field("folder", &self.slot.place.path())
            .field("data", &self.number)
            .finish_non_exhaustive()
    }
}
