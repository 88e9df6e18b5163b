//! The page by which the processes of a live map find each other.
//!
//! | word | what it is |
//! |---|---|
//! | 0, 1, 2 | magic, version, kind of structure |
//! | 3 | the number of the present data in the low half, 0 when the map was removed; in the high half how many times its files have grown |
//! | 4 | the newest grace period |
//! | 5 | the period below which checked readers are evicted |
//! | 6 | the newest period that is over |
//! | 7 | the newest data whose sizes are in the words below, which may be in the making |
//! | 8 to 15 | the layouts of the parts |
//! | 16 to 23, 24 to 31 | the bytes of the parts of data with an even number, and an odd one |

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::FlockOperation;

use crate::error::Error;
use crate::place::{Place, identity, is_locked, try_lock, try_lock_for_a_while};
use crate::raw::map::{Page, is_page};
use crate::raw::maps::LiveMap;
use crate::raw::process::Process;
use crate::raw::window::read_twice;

/// What a process wants to find in a directory.
pub(crate) struct Wanted {
    /// The number of the kind of structure, and its name in messages.
    pub(crate) kind: (u64, &'static str),
    /// The layouts of the parts.
    pub(crate) layouts: Vec<u64>,
    /// Those that they may have instead.
    pub(crate) earlier: Vec<Vec<u64>>,
}

impl Wanted {
    pub(crate) fn of<M: LiveMap>() -> Self {
        Wanted {
            kind: M::KIND,
            layouts: M::layouts(),
            earlier: M::earlier_layouts(),
        }
    }
}

const MAGIC: u64 = u64::from_le_bytes(*b"SWLIVE\0\0");
const VERSION: u64 = 3;

const MAGIC_AT: usize = 0;
const VERSION_AT: usize = 1;
const KIND_AT: usize = 2;
const DATA_AT: usize = 3;
const GRACE_AT: usize = 4;
const EVICTED_AT: usize = 5;
const OVER_AT: usize = 6;
const SIZED_AT: usize = 7;
const LAYOUTS_AT: usize = 8;
const BYTES_AT: usize = 16;

/// The most parts that a map can have.
pub(crate) const PARTS: usize = 8;

/// The numbers of the page, with the names that the reader in Go gives them.
#[cfg(test)]
pub(crate) const LAYOUT: [(&str, u64); 12] = [
    ("controlMagic", MAGIC),
    ("controlVersion", VERSION),
    ("controlMagicAt", MAGIC_AT as u64),
    ("controlVersionAt", VERSION_AT as u64),
    ("controlKindAt", KIND_AT as u64),
    ("controlDataAt", DATA_AT as u64),
    ("controlGraceAt", GRACE_AT as u64),
    ("controlEvictedAt", EVICTED_AT as u64),
    ("controlOverAt", OVER_AT as u64),
    ("controlSizedAt", SIZED_AT as u64),
    ("controlLayoutsAt", LAYOUTS_AT as u64),
    ("controlBytesAt", BYTES_AT as u64),
];

/// The state of the data: their number, and how many times their files have grown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State(u64);

impl State {
    /// The number of the data; 0 when there are none any more.
    #[inline]
    pub(crate) fn number(self) -> u64 {
        self.0 & u64::from(u32::MAX)
    }
}

/// The control page.
#[derive(Debug)]
pub(crate) struct Control {
    page: Words,
    /// Device and number of the file.
    identity: (u64, u64),
    lock: Mutex<Option<WriterLock>>,
}

/// The file of the page, with the lock of the writer.
#[derive(Debug)]
struct WriterLock {
    file: File,
    of: Process,
}

impl WriterLock {
    fn of(file: File) -> WriterLock {
        let of = Process::current();
        WriterLock { file, of }
    }
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        // A child of this process has the lock, too, until it calls `exec`, and must not keep it.
        // A child that drops its copy leaves the lock to its parent.
        if self.of.is_current() {
            let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
        }
    }
}

#[derive(Debug)]
enum Words {
    Mapped(Page),
    /// The page of somebody who may shorten the file, which would be a fault in a mapping. It is
    /// read by system calls.
    Foreign(File),
}

impl Control {
    /// Makes the page of a new map, and locks it. There are no data yet.
    pub(crate) fn make(path: &Path, kind: u64, layouts: &[u64]) -> Result<Control, Error> {
        let made = || {
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create_new(true).open(path)?;
            try_lock(&file)?;
            sapwood_arena::allocate(&file, 0..Page::BYTES as u64)?;
            Ok((identity(&file.metadata()?), Page::map(&file, true)?, file))
        };
        let (identity, page, file) = made().map_err(Error::io("making", path))?;
        page.word(KIND_AT).store(kind, Ordering::Relaxed);
        debug_assert!(layouts.len() <= PARTS);
        for (part, layout) in layouts.iter().enumerate() {
            let word = page.word(LAYOUTS_AT + part);
            word.store(*layout, Ordering::Relaxed);
        }
        page.word(VERSION_AT).store(VERSION, Ordering::Relaxed);
        page.word(GRACE_AT).store(1, Ordering::Relaxed);
        page.word(MAGIC_AT).store(MAGIC, Ordering::Release);
        Ok(Control {
            page: Words::Mapped(page),
            identity,
            lock: Mutex::new(Some(WriterLock::of(file))),
        })
    }

    /// Opens the page of a map whose writer has ended, and locks it.
    pub(crate) fn inherit(place: &Place, wanted: &Wanted) -> Result<Control, Error> {
        let path = place.control();
        let io = |what| Error::io(what, &path);
        loop {
            let file = match OpenOptions::new().read(true).write(true).open(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Err(place.not_yet()),
                other => other.map_err(io("opening"))?,
            };
            // A reader that looks whether the writer lives has the lock for a moment.
            if !try_lock_for_a_while(&file).map_err(io("locking"))? {
                let path = place.path().to_owned();
                return Err(Error::Owned { path });
            }
            let page = Page::map(&file, true).map_err(|error| place.no_page(error))?;
            let meta = file.metadata().map_err(io("looking at"))?;
            let control = Control {
                page: Words::Mapped(page),
                identity: identity(&meta),
                lock: Mutex::new(Some(WriterLock::of(file))),
            };
            control.check(place, wanted)?;
            if control.state().number() == 0 {
                return Err(place.not_yet());
            }
            // Another writer may have removed the map before the lock, and made a new one.
            if control.is_at(place) {
                return Ok(control);
            }
        }
    }

    /// Opens the page as a reader. `ours`: nobody but this user and root can write it.
    pub(crate) fn read(place: &Place, wanted: &Wanted, ours: bool) -> Result<Control, Error> {
        let control = Self::of_any_kind(place, ours)?;
        control.check(place, wanted)?;
        Ok(control)
    }

    /// As [`read`](Self::read), whatever the structure of the map is.
    pub(crate) fn of_any_kind(place: &Place, ours: bool) -> Result<Control, Error> {
        let path = place.control();
        let file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(place.not_yet()),
            other => other.map_err(Error::io("opening", &path))?,
        };
        let meta = file.metadata().map_err(Error::io("looking at", &path))?;
        let page = match ours {
            true => Page::map(&file, false).map(Words::Mapped),
            false => is_page(&file).map(|()| Words::Foreign(file)),
        };
        let control = Control {
            page: page.map_err(|error| place.no_page(error))?,
            identity: identity(&meta),
            lock: Mutex::new(None),
        };
        control.check_version(place)?;
        if control.state().number() == 0 {
            return Err(place.not_yet());
        }
        Ok(control)
    }

    /// Makes way for a new map: removes a page that was never whole, or whose map is being removed,
    /// if nobody holds it.
    ///
    /// # Errors
    /// [`Error::Exists`] when it is that of a map; the system's error.
    pub(crate) fn make_way(place: &Place) -> Result<(), Error> {
        let path = place.control();
        let file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            other => other.map_err(Error::io("opening", &path))?,
        };
        let word = |at: usize| read_twice(&file, at as u64 * 8);
        let is_none = word(MAGIC_AT) == 0 || (word(MAGIC_AT) == MAGIC && word(DATA_AT) == 0);
        let is_file = file.metadata().is_ok_and(|meta| meta.is_file());
        if !is_none || !is_file || is_locked(&file) {
            let path = place.path().to_owned();
            return Err(Error::Exists { path });
        }
        std::fs::remove_file(&path).map_err(Error::io("removing", &path))
    }

    /// Whether this page is the one that the directory has now: the map was neither removed nor
    /// made again.
    pub(crate) fn is_at(&self, place: &Place) -> bool {
        let found = std::fs::metadata(place.control());
        found.is_ok_and(|meta| identity(&meta) == self.identity)
    }

    /// Whether a writer holds the page that the directory has, and that page is this one.
    pub(crate) fn has_writer(&self, place: &Place) -> Result<bool, Error> {
        let path = place.control();
        let file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            other => other.map_err(Error::io("opening", &path))?,
        };
        let meta = file.metadata().map_err(Error::io("looking at", &path))?;
        Ok(identity(&meta) == self.identity && is_locked(&file))
    }

    fn check_version(&self, place: &Place) -> Result<(), Error> {
        if self.load(MAGIC_AT) != MAGIC {
            return Err(place.no_map("control is not that of a live map"));
        }
        let version = self.load(VERSION_AT);
        if version != VERSION {
            return Err(place.no_map(format!("version {version}; this library has {VERSION}")));
        }
        Ok(())
    }

    fn check(&self, place: &Place, wanted: &Wanted) -> Result<(), Error> {
        self.check_version(place)?;
        let found = self.load(KIND_AT);
        let path = place.path();
        if found != wanted.kind.0 {
            return Err(Error::Kind {
                path: path.to_owned(),
                found,
                wanted: wanted.kind.1,
            });
        }
        let found = self.layouts(wanted.layouts.len());
        if wanted.earlier.contains(&found) {
            return Ok(());
        }
        let mut parts = found.into_iter().zip(&wanted.layouts);
        match parts.find(|(found, wanted)| found != *wanted) {
            None => Ok(()),
            Some((found, wanted)) => Err(Error::Layout {
                path: path.to_owned(),
                found,
                wanted: *wanted,
            }),
        }
    }

    /// The layouts of the map's parts, and of what lies in them.
    pub(crate) fn layouts(&self, parts: usize) -> Vec<u64> {
        (0..parts)
            .map(|part| self.load(LAYOUTS_AT + part))
            .collect()
    }

    /// Lets go of the writer's lock, in a child of `fork`: the writer keeps it.
    pub(crate) fn let_go(&self) {
        if let Words::Mapped(page) = &self.page {
            page.let_go();
        }
        // Nobody waits here for a thread that the fork has left behind.
        if let Ok(mut lock) = self.lock.try_lock() {
            *lock = None;
        }
    }

    /// The number of the kind of structure.
    pub(crate) fn kind(&self) -> u64 {
        self.load(KIND_AT)
    }

    #[inline]
    fn load(&self, at: usize) -> u64 {
        match &self.page {
            Words::Mapped(page) => page.word(at).load(Ordering::Acquire),
            Words::Foreign(file) => read_twice(file, at as u64 * 8),
        }
    }

    /// A word of the writer's.
    fn word(&self, at: usize) -> &AtomicU64 {
        match &self.page {
            Words::Mapped(page) => page.word(at),
            Words::Foreign(_) => unreachable!("the writer maps its page"),
        }
    }

    /// The state of the data.
    #[inline]
    pub(crate) fn state(&self) -> State {
        State(self.load(DATA_AT))
    }

    /// Makes data the present ones; with 0 the map is removed.
    pub(crate) fn set_data(&self, number: u64) {
        self.word(DATA_AT).store(number, Ordering::Release);
    }

    /// The bytes that a part of the data with this number has; none when they are so old that a
    /// second new owner has written the sizes of its own there.
    pub(crate) fn bytes(&self, number: u64, part: usize) -> Option<u64> {
        let bytes = self.load(Self::bytes_at(number, part));
        // A new owner writes the sizes of its data to the other words, and its number before them.
        (self.load(SIZED_AT) < number + 2).then_some(bytes)
    }

    /// Notes that a part of these data has grown, before anything refers to what is new. Readers
    /// see that in the state.
    pub(crate) fn set_bytes(&self, number: u64, part: usize, bytes: u64) {
        self.word(SIZED_AT).fetch_max(number, Ordering::SeqCst);
        self.word(Self::bytes_at(number, part))
            .store(bytes, Ordering::Release);
        // Data that are being made have no readers.
        if self.state().number() == number {
            self.word(DATA_AT).fetch_add(1 << 32, Ordering::SeqCst);
        }
    }

    fn bytes_at(number: u64, part: usize) -> usize {
        debug_assert!(part < PARTS);
        BYTES_AT + (number % 2) as usize * PARTS + part
    }

    /// The newest grace period.
    #[inline]
    pub(crate) fn grace(&self) -> u64 {
        self.load(GRACE_AT)
    }

    /// The readers that have announced no period since this one, or a later one, and are not
    /// offline, are evicted.
    #[inline]
    pub(crate) fn evicted(&self) -> u64 {
        self.load(EVICTED_AT)
    }

    /// Evicts the readers that have announced none of the periods since this one.
    pub(crate) fn evict(&self, period: u64) {
        self.word(EVICTED_AT).fetch_max(period, Ordering::SeqCst);
    }

    /// The newest period that is over: memory was used again that waited for it.
    #[inline]
    pub(crate) fn over(&self) -> u64 {
        self.load(OVER_AT)
    }

    /// Notes that a period is over, before memory that waited for it is used again. One thread at a
    /// time.
    pub(crate) fn set_over(&self, period: u64) {
        if self.over() < period {
            self.word(OVER_AT).store(period, Ordering::Release);
        }
    }

    /// Begins a grace period, and returns its number.
    pub(crate) fn begin_grace(&self) -> u64 {
        self.word(GRACE_AT).fetch_add(1, Ordering::SeqCst) + 1
    }
}
