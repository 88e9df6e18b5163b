//! Readers of live maps.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::marker::PhantomData;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use sapwood::qp::{QpStore, QpView, Value};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::map::{Mapping, Page};
use crate::error::Error;
use crate::place::{Control, Place, try_lock};
use crate::slots::{PID_AT, PREFIX, SEEN_AT};

/// The bytes of address space for data: all that references can reach.
const RESERVE: usize = 8 << 30;

/// The attempts to open data that heirs replace meanwhile.
const TRIES: usize = 100;

/// A reader of a live map in any process. It takes no lock, and makes no system call but in
/// [`open`](Self::open), and when another process has taken the map over.
///
/// Call [`quiescent`](Self::quiescent) from time to time, such as once in each round of an event
/// loop, and go [`offline`](Self::offline) before blocking. A reader that does neither holds back
/// the memory that the writer's commits replace. Each thread has a reader of its own.
///
/// A reader must not be used in a child of `fork`.
pub struct LiveReader<V: ?Sized> {
    place: Place,
    control: Control,
    slot: Page,
    file: PathBuf,
    data: Mapping,
    /// The number of the data.
    number: u64,
    values: PhantomData<fn() -> V>,
}

impl<V: ?Sized + Value + FromBytes + IntoBytes + Immutable + Send + Sync + 'static> LiveReader<V> {
    /// Opens the live map in a folder that only this user or root can write: the folder, the
    /// control page and the data. What they write is trusted: the reader reads it without checks,
    /// as [`QpFile`](sapwood::qp::QpFile) trusts that nobody changes its file.
    ///
    /// # Errors
    /// [`Error::Foreign`] when others can write the map; [`Error::NoMap`], also when its writer has
    /// not built it yet; [`Error::Layout`]; the system's error: the reader needs the right to make
    /// a file in the folder `readers`.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, Error> {
        let place = Place::new(folder.as_ref());
        place.belongs_to_us()?;
        // SAFETY: only processes of this user and of root can write the memory.
        unsafe { Self::open_foreign(folder) }
    }

    /// As [`open`](Self::open), whoever can write the map.
    ///
    /// # Errors
    /// As [`open`](Self::open), but for [`Error::Foreign`].
    ///
    /// # Safety
    /// The memory is read without checks. Every process that may write the control page or the data
    /// must be one that writes live maps.
    pub unsafe fn open_foreign(folder: impl AsRef<Path>) -> Result<Self, Error> {
        let place = Place::new(folder.as_ref());
        let control = Control::read(&place, QpStore::<V>::layout_hash())?;
        let (slot, file) = register(&place)?;
        let announced = slot.word(SEEN_AT);
        come_online(announced, &control);
        let (data, number) = match open_data(&place, &control) {
            Ok(opened) => opened,
            Err(error) => {
                let _ = std::fs::remove_file(file);
                return Err(error);
            }
        };
        Ok(LiveReader {
            place,
            control,
            slot,
            file,
            data,
            number,
            values: PhantomData,
        })
    }

    /// The newest commit. It does not change as long as the view is held.
    ///
    /// ```compile_fail,E0502
    /// # let mut reader = sapwood_live::LiveReader::<u64>::open("/dev/shm/map").unwrap();
    /// let view = reader.view();
    /// reader.quiescent().unwrap(); // the view must be gone by now
    /// view.get("a");
    /// ```
    #[inline]
    pub fn view(&self) -> QpView<'_, V> {
        // SAFETY: the data are those of a store with these values: see `open_foreign`.
        // This reader has announced a grace period and announces none while the view borrows it,
        // so the writer frees nothing that the view reaches. An heir leaves the data as they are.
        unsafe { QpView::of_published(self.data.base()) }
    }

    /// Announces that the reader holds nothing, so that the writer may free what was replaced. If
    /// another process has taken the map over, the reader moves to its data.
    ///
    /// # Errors
    /// As [`open`](Self::open), for the data of the heir. Then the reader stays where it is.
    #[inline]
    pub fn quiescent(&mut self) -> Result<(), Error> {
        let announced = self.slot.word(SEEN_AT);
        announced.store(self.control.grace(), Ordering::Release);
        match self.control.data() == self.number {
            true => Ok(()),
            false => self.move_on(),
        }
    }

    #[cold]
    fn move_on(&mut self) -> Result<(), Error> {
        let (data, number) = open_data(&self.place, &self.control)?;
        self.data = data;
        self.number = number;
        Ok(())
    }

    /// Takes the reader offline, until the result is dropped. It then holds nothing back.
    pub fn offline(&mut self) -> LiveOffline<'_> {
        self.slot.word(SEEN_AT).store(0, Ordering::Release);
        LiveOffline {
            announced: self.slot.word(SEEN_AT),
            control: &self.control,
        }
    }

    /// How many times other processes have taken the map over.
    pub fn generation(&self) -> u64 {
        self.number - 1
    }

    /// Whether the map's writer lives. When it is dead, the map stays as it is until another
    /// process takes it over.
    ///
    /// # Errors
    /// The system's error.
    pub fn has_writer(&self) -> Result<bool, Error> {
        let path = self.place.control();
        let file = File::open(&path).map_err(Error::io("opening", &path))?;
        let locked = try_lock(&file).map_err(Error::io("locking", &path))?;
        Ok(!locked)
    }
}

impl<V: ?Sized> Drop for LiveReader<V> {
    fn drop(&mut self) {
        self.slot.word(SEEN_AT).store(0, Ordering::Release);
        let _ = std::fs::remove_file(&self.file);
    }
}

impl<V: ?Sized> fmt::Debug for LiveReader<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveReader")
            .field("folder", &self.place.path())
            .field("data", &self.number)
            .finish_non_exhaustive()
    }
}

/// A reader that is offline. The drop brings it online again.
#[derive(Debug)]
pub struct LiveOffline<'r> {
    announced: &'r AtomicU64,
    control: &'r Control,
}

impl Drop for LiveOffline<'_> {
    fn drop(&mut self) {
        come_online(self.announced, self.control);
    }
}

/// Announces the newest grace period, before any later read.
fn come_online(announced: &AtomicU64, control: &Control) {
    announced.store(control.grace(), Ordering::Release);
    // Pairs with the fence of the writer, between its commit and its look at this word: either the
    // writer sees the announcement, or this reader reads what was committed.
    fence(Ordering::SeqCst);
}

/// Makes a file for a reader, which is offline.
fn register(place: &Place) -> Result<(Page, PathBuf), Error> {
    let pid = std::process::id();
    let folder = place.readers();
    loop {
        let name = format!("{pid}-{:016x}", random());
        let path = folder.join(format!(".{name}"));
        let made = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o644)
            .open(&path);
        let file = match made {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
            other => other.map_err(Error::io("making", &path))?,
        };
        let done = || -> std::io::Result<(Page, PathBuf)> {
            file.set_len(Page::BYTES as u64)?;
            try_lock(&file)?;
            let slot = Page::map(file, true)?;
            slot.word(PID_AT).store(pid.into(), Ordering::Relaxed);
            // From here on the writer sees it, with its lock.
            let last = folder.join(format!("{PREFIX}{name}"));
            std::fs::rename(&path, &last)?;
            Ok((slot, last))
        };
        return done().map_err(|error| {
            let _ = std::fs::remove_file(&path);
            Error::io("making", &path)(error)
        });
    }
}

/// A number that no other reader has, for a file's name.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new()
        .build_hasher()
        .finish()
}

/// Opens the present data. The reader is online.
fn open_data(place: &Place, control: &Control) -> Result<(Mapping, u64), Error> {
    let mut last = None;
    for _ in 0..TRIES {
        let number = control.data();
        if number == 0 {
            return Err(place.no_map("its writer has not built it yet"));
        }
        let path = place.data(number);
        match File::open(&path) {
            Ok(file) => {
                let data = Mapping::new(file, RESERVE, false);
                return Ok((data.map_err(Error::io("mapping", &path))?, number));
            }
            // An heir has replaced them.
            Err(error) => last = Some(Error::io("opening", &path)(error)),
        }
    }
    Err(last.unwrap_or_else(|| place.no_map("its data change all the time")))
}
