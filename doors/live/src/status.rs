//! What a live map's directory tells, whatever the structure of the map is.

use std::fs::File;
use std::path::{Path, PathBuf};

use sapwood::lpm::{Fib, IpFib, V4, V6};
use sapwood::maple::MapleMap;
use sapwood::qp::{PointMap, QpShared, QpStore};

use crate::control::Control;
use crate::error::Error;
use crate::place::{Place, is_locked};
use crate::raw::maps::LiveMap;
use crate::routes::Routes;
use crate::slots::{LiveReaderInfo, seen_from_outside};

/// A live map as its directory shows it to any process that may read the directory.
///
/// ```
/// use sapwood::qp::QpStore;
/// use sapwood_live::{Live, LiveReader, LiveStatus};
/// # let folder = std::env::temp_dir().join(format!("sapwood-live-status-{}", std::process::id()));
/// let store = Live::<QpStore<u64>>::create(&folder)?;
/// let reader = LiveReader::<QpStore<u64>>::open(&folder)?;
/// let status = LiveStatus::read(&folder)?;
/// assert_eq!(status.kind, "store");
/// assert!(status.has_writer);
/// assert_eq!(status.readers[0].pid, std::process::id());
/// # drop(reader);
/// # store.remove_map()?;
/// # Ok::<(), sapwood_live::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LiveStatus {
    /// The structure, such as "store"; "kind N" for one that this library does not know.
    pub kind: String,
    /// Whether a process writes the map. Otherwise its last version stays, and
    /// [`Live::open`](crate::Live::open) takes the map over.
    pub has_writer: bool,
    /// How many times processes have taken the map over.
    pub generation: u64,
    /// The number of the newest grace period.
    pub period: u64,
    /// The readers that live, in all processes.
    pub readers: Vec<LiveReaderInfo>,
    /// The files of the present data; none while the first writer has not built the map.
    pub data: Vec<PathBuf>,
    /// The bytes of memory or disk that the present data take.
    pub data_bytes: u64,
}

/// The attempts to list the data of one moment, while new owners replace them.
const TRIES: usize = 100;

impl LiveStatus {
    /// Looks at a directory. It changes nothing there.
    ///
    /// # Errors
    /// [`Error::NoMap`] and the system's error.
    pub fn read(folder: impl AsRef<Path>) -> Result<LiveStatus, Error> {
        let place = Place::new(folder.as_ref());
        let control = Control::of_any_kind(&place, false)?;
        let path = place.control();
        let file = File::open(&path).map_err(Error::io("opening", &path))?;
        let has_writer = is_locked(&file);
        let readers = seen_from_outside(&place, &control);
        let readers = readers.map_err(Error::io("reading", &place.readers()))?;
        let mut tries = TRIES;
        let (number, data, data_bytes) = loop {
            let number = control.state().number();
            let found = data_of(&place, number)?;
            tries -= 1;
            if control.state().number() == number || tries == 0 {
                break (number, found.0, found.1);
            }
        };
        Ok(LiveStatus {
            kind: kind_name(control.kind()),
            has_writer,
            generation: number.saturating_sub(1),
            period: control.grace(),
            readers,
            data,
            data_bytes,
        })
    }
}

/// The files of the data with this number, in order of parts, and the bytes that they take.
fn data_of(place: &Place, number: u64) -> Result<(Vec<PathBuf>, u64), Error> {
    use std::os::unix::fs::MetadataExt;
    let (mut data, mut bytes) = (Vec::new(), 0);
    if number == 0 {
        return Ok((data, bytes));
    }
    loop {
        let path = place.data(number, data.len());
        match std::fs::metadata(&path) {
            Ok(meta) => bytes += meta.blocks() * 512,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok((data, bytes)),
            Err(error) => return Err(Error::io("looking at", &path)(error)),
        }
        data.push(path);
    }
}

/// The name of a kind of structure.
pub(crate) fn kind_name(number: u64) -> String {
    let known = [
        QpStore::<u64>::KIND,
        QpShared::<u64>::KIND,
        PointMap::<u64>::KIND,
        Fib::<V4, u32>::KIND,
        Fib::<V6, u32>::KIND,
        IpFib::<u32>::KIND,
        Routes::<u32>::KIND,
        MapleMap::<u32>::KIND,
    ];
    match known.iter().find(|(kind, _)| *kind == number) {
        Some((_, name)) => (*name).to_owned(),
        None => format!("kind {number}"),
    }
}
