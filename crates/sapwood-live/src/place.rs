//! The folder of a live map, and the page by which its processes find each other.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::FlockOperation;

use crate::error::Error;
use crate::raw::map::{Page, is_page};
use crate::raw::window::read_twice;

const MAGIC: u64 = u64::from_le_bytes(*b"SWLIVE\0\0");
const VERSION: u64 = 2;

/// The attempts at the writer's lock, a millisecond apart.
const TRIES: u32 = 20;

/// Words of the control page.
const MAGIC_AT: usize = 0;
const VERSION_AT: usize = 1;
const KIND_AT: usize = 2;
const DATA_AT: usize = 3;
const GRACE_AT: usize = 4;
const EVICTED_AT: usize = 5;
/// The layouts of the parts, one word each.
const LAYOUTS_AT: usize = 8;

/// The folder of a live map.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    path: PathBuf,
    /// The folder's descriptor, if the path leads through it.
    _folder: Option<Arc<OwnedFd>>,
}

impl Place {
    pub(crate) fn new(path: &Path) -> Place {
        Place {
            path: path.to_owned(),
            _folder: None,
        }
    }

    /// The folder of a descriptor.
    pub(crate) fn at(folder: OwnedFd) -> Place {
        Place {
            path: format!("/proc/self/fd/{}", folder.as_raw_fd()).into(),
            _folder: Some(Arc::new(folder)),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn control(&self) -> PathBuf {
        self.path.join("control")
    }

    pub(crate) fn data(&self, number: u64, part: usize) -> PathBuf {
        self.path.join(format!("data-{number}-{part}"))
    }

    pub(crate) fn readers(&self) -> PathBuf {
        self.path.join("readers")
    }

    /// Checks that only this user and root can write the folder, the control page and the data.
    pub(crate) fn belongs_to_us(&self) -> Result<(), Error> {
        let user = rustix::process::geteuid().as_raw();
        let foreign = |path: PathBuf, why: &str| {
            let why = why.to_owned();
            Err(Error::Foreign { path, why })
        };
        let mut all = vec![self.path.clone(), self.control()];
        for entry in std::fs::read_dir(&self.path)
            .into_iter()
            .flatten()
            .flatten()
        {
            if entry.file_name().as_encoded_bytes().starts_with(b"data-") {
                all.push(entry.path());
            }
        }
        for (at, path) in all.into_iter().enumerate() {
            let meta = match std::fs::metadata(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    // An heir may remove old data meanwhile.
                    if at >= 2 {
                        continue;
                    }
                    return Err(self.no_map(format!("there is no {}", path.display())));
                }
                other => other.map_err(Error::io("looking at", &path))?,
            };
            if meta.uid() != user && meta.uid() != 0 {
                return foreign(path, "another user owns it");
            }
            if meta.mode() & 0o022 != 0 {
                return foreign(path, "other users can write it");
            }
        }
        Ok(())
    }

    /// The error for a folder without a live map.
    pub(crate) fn no_map(&self, why: impl Into<String>) -> Error {
        Error::NoMap {
            path: self.path.clone(),
            why: why.into(),
        }
    }
}

/// Takes a lock on a file that ends with its descriptor. Returns whether it could be had.
pub(crate) fn try_lock(file: &File) -> std::io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether another descriptor has the lock of a file. If none has it, this one takes it for a
/// moment, together with others that look.
pub(crate) fn is_locked(file: &File) -> bool {
    let locked = rustix::fs::flock(file, FlockOperation::NonBlockingLockShared).is_err();
    if !locked {
        let _ = rustix::fs::flock(file, FlockOperation::Unlock);
    }
    locked
}

/// The control page.
#[derive(Debug)]
pub(crate) struct Control {
    page: Words,
}

#[derive(Debug)]
enum Words {
    Mapped(Page),
    /// The page of somebody who may shorten the file, which would be a fault in a mapping. It is
    /// read by system calls.
    Foreign(File),
}

impl Control {
    /// Opens the page as the writer, and locks it. `new`: the page must not be there yet.
    pub(crate) fn write(
        place: &Place,
        kind: (u64, &'static str),
        layouts: &[u64],
        new: bool,
    ) -> Result<Control, Error> {
        let path = place.control();
        let io = |what| Error::io(what, &path);
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o644);
        let file = match new {
            true => options.create_new(true).open(&path),
            false => options.open(&path),
        };
        let file = match file {
            Err(error) if new && error.kind() == std::io::ErrorKind::AlreadyExists => {
                let path = place.path().to_owned();
                return Err(Error::Exists { path });
            }
            Err(error) if !new && error.kind() == std::io::ErrorKind::NotFound => {
                return Err(place.no_map("no file control"));
            }
            other => other.map_err(io("opening"))?,
        };
        // A reader that looks whether the writer lives has the lock for a moment.
        let mut tries = if new { 1 } else { TRIES };
        while !try_lock(&file).map_err(Error::io("locking", &path))? {
            tries -= 1;
            if tries == 0 {
                let path = place.path().to_owned();
                return Err(Error::Owned { path });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        if new {
            file.set_len(Page::BYTES as u64)
                .map_err(Error::io("making", &path))?;
        }
        let page = Page::map(file, true).map_err(Error::io("mapping", &path))?;
        if new {
            page.word(KIND_AT).store(kind.0, Ordering::Relaxed);
            for (part, layout) in layouts.iter().enumerate() {
                let word = page.word(LAYOUTS_AT + part);
                word.store(*layout, Ordering::Relaxed);
            }
            page.word(VERSION_AT).store(VERSION, Ordering::Relaxed);
            page.word(GRACE_AT).store(1, Ordering::Relaxed);
            page.word(MAGIC_AT).store(MAGIC, Ordering::Release);
        }
        let control = Control {
            page: Words::Mapped(page),
        };
        control.check(place, kind, layouts)?;
        Ok(control)
    }

    /// Opens the page as a reader. `ours`: nobody but this user and root can write it.
    pub(crate) fn read(
        place: &Place,
        kind: (u64, &'static str),
        layouts: &[u64],
        ours: bool,
    ) -> Result<Control, Error> {
        let control = Self::of_any_kind(place, ours)?;
        control.check(place, kind, layouts)?;
        Ok(control)
    }

    /// As [`read`](Self::read), whatever the structure of the map is.
    pub(crate) fn of_any_kind(place: &Place, ours: bool) -> Result<Control, Error> {
        let path = place.control();
        let file = match File::open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(place.no_map("no file control"));
            }
            other => other.map_err(Error::io("opening", &path))?,
        };
        let page = match ours {
            true => Page::map(file, false).map(Words::Mapped),
            false => is_page(&file).map(|()| Words::Foreign(file)),
        };
        let page = page.map_err(Error::io("mapping", &path))?;
        let control = Control { page };
        control.check_version(place)?;
        Ok(control)
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

    fn check(
        &self,
        place: &Place,
        (kind, wanted): (u64, &'static str),
        layouts: &[u64],
    ) -> Result<(), Error> {
        self.check_version(place)?;
        let found = self.load(KIND_AT);
        let path = place.path();
        if found != kind {
            return Err(Error::Kind {
                path: path.to_owned(),
                found,
                wanted,
            });
        }
        for (part, wanted) in layouts.iter().enumerate() {
            let found = self.load(LAYOUTS_AT + part);
            if found != *wanted {
                return Err(Error::Layout {
                    path: path.to_owned(),
                    found,
                    wanted: *wanted,
                });
            }
        }
        Ok(())
    }

    /// Lets go of the writer's lock, in a child of `fork`: the writer keeps it.
    pub(crate) fn let_go(&self) {
        if let Words::Mapped(page) = &self.page {
            page.close();
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

    /// The number of the present data; 0 while there is none.
    #[inline]
    pub(crate) fn data(&self) -> u64 {
        self.load(DATA_AT)
    }

    /// Makes data the present ones.
    pub(crate) fn set_data(&self, number: u64) {
        self.word(DATA_AT).store(number, Ordering::Release);
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

    /// Begins a grace period, and returns its number.
    pub(crate) fn begin_grace(&self) -> u64 {
        self.word(GRACE_AT).fetch_add(1, Ordering::SeqCst) + 1
    }
}
