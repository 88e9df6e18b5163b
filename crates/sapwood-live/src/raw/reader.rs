//! Readers of live maps.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::map::{Mapping, Page};
use super::maps::LiveMap;
use super::process::{Process, not_ours};
use super::window::Announced;
use crate::error::Error;
use crate::place::{Control, Place, try_lock};
use crate::slots::{PID_AT, PREFIX, SEEN_AT};

/// The bytes of address space for each part of the data: all that references can reach.
const RESERVE: usize = 8 << 30;

/// The attempts to open data that heirs replace meanwhile.
const TRIES: usize = 100;

/// A reader of a live map in any process. It takes no lock, and makes no system call but in
/// [`open`](Self::open), and when another process has taken the map over.
///
/// Call [`quiescent`](Self::quiescent) from time to time, such as once in each round of an event
/// loop, and go [`offline`](Self::offline) before blocking. A reader that does neither holds back
/// the memory that the writer replaces. Each thread has a reader of its own.
///
/// In a child of `fork` a reader cannot be used: it panics, or is [`Error::Forked`], and its drop
/// leaves the parent's reader as it is. A child opens readers of its own. It must not use a view
/// that its parent had.
///
/// ```
/// use sapwood::lpm::IpFib;
/// use sapwood_live::{Live, LiveReader};
/// # let folder = std::env::temp_dir().join(format!("sapwood-live-fib-{}", std::process::id()));
/// let routes = Live::<IpFib<u32>>::create(&folder)?;
/// routes.insert("10.0.0.0/8".parse()?, 7)?;
///
/// // In another process:
/// let reader = LiveReader::<IpFib<u32>>::open(&folder)?;
/// assert_eq!(reader.view().lookup_value("10.1.2.3".parse()?), Some(&7));
/// # drop(reader);
/// # routes.remove_map()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LiveReader<M: LiveMap> {
    // Dropped before the memory that it refers to.
    attached: M::Attached,
    data: Vec<Mapping>,
    /// The number of the data.
    number: u64,
    slot: Slot,
}

impl<M: LiveMap> LiveReader<M> {
    /// Opens the live map in a folder that only this user or root can write: the folder, the
    /// control page and the data. What they write is trusted: the reader reads it without checks,
    /// as [`QpFile`](sapwood::qp::QpFile) trusts that nobody changes its file.
    ///
    /// # Errors
    /// [`Error::Foreign`] when others can write the map; [`Error::NoMap`], also when its writer has
    /// not built it yet; [`Error::Kind`]; [`Error::Layout`]; the system's error: the reader needs
    /// the right to make a file in the folder `readers`.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, Error> {
        Self::trusting(Place::new(folder.as_ref()))
    }

    /// As [`open`](Self::open), with a descriptor of the folder, which another process may have
    /// passed (`SCM_RIGHTS`). So a reader needs no path to the map.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_at(folder: OwnedFd) -> Result<Self, Error> {
        Self::trusting(Place::at(folder))
    }

    fn trusting(place: Place) -> Result<Self, Error> {
        place.belongs_to_us()?;
        // SAFETY: only processes of this user and of root can write the memory.
        unsafe { Self::foreign(place) }
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
        // SAFETY: the caller's promise.
        unsafe { Self::foreign(Place::new(folder.as_ref())) }
    }

    /// # Safety
    /// As for `open_foreign`.
    unsafe fn foreign(place: Place) -> Result<Self, Error> {
        let slot = Slot::open::<M>(place, false, true)?;
        let (data, number) = slot.open_data(M::parts(), map)?;
        Ok(LiveReader {
            // SAFETY: the data are those of such a map: the caller's promise. They stay mapped as
            // long as `self` has them, and the reader is online.
            attached: unsafe { M::attach(&bases(&data)) }.map_err(|why| slot.place.no_map(why))?,
            data,
            number,
            slot,
        })
    }

    /// The newest map. A view of a store stays on one version. In other views, each call sees what
    /// is newest then.
    ///
    /// ```compile_fail,E0502
    /// # use sapwood::qp::QpStore;
    /// # let mut reader = sapwood_live::LiveReader::<QpStore<u64>>::open("/dev/shm/map").unwrap();
    /// let view = reader.view();
    /// reader.quiescent().unwrap(); // the view must be gone by now
    /// view.get("a");
    /// ```
    ///
    /// # Panics
    /// In a child of `fork`.
    #[inline]
    pub fn view(&self) -> M::View<'_> {
        if !self.slot.is_ours() {
            not_ours();
        }
        // SAFETY: this reader has announced a grace period and announces none while the view
        // borrows it, so the writer frees nothing that the view reaches. An heir leaves the data as
        // they are.
        unsafe { M::view(&self.attached) }
    }

    /// Announces that the reader holds nothing, so that the writer may free what was replaced. If
    /// another process has taken the map over, the reader moves to its data.
    ///
    /// # Errors
    /// As [`open`](Self::open), for the data of the heir. Then the reader stays where it is.
    /// [`Error::Forked`].
    #[inline]
    pub fn quiescent(&mut self) -> Result<(), Error> {
        self.slot.check()?;
        self.slot.announce();
        match self.slot.data() == self.number {
            true => Ok(()),
            false => self.move_on(),
        }
    }

    #[cold]
    fn move_on(&mut self) -> Result<(), Error> {
        let (data, number) = self.slot.open_data(M::parts(), map)?;
        // SAFETY: as in `foreign`; no view is left of the old data.
        let attached = unsafe { M::attach(&bases(&data)) };
        self.attached = attached.map_err(|why| self.slot.place.no_map(why))?;
        self.data = data;
        self.number = number;
        Ok(())
    }

    /// Takes the reader offline, until the result is dropped. It then holds nothing back.
    pub fn offline(&mut self) -> LiveOffline<'_> {
        self.slot.offline()
    }

    /// Takes the reader offline for as long as it is not asked.
    pub fn idle(self) -> LiveIdle<M> {
        self.slot.say(0);
        LiveIdle { reader: self }
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
        self.slot.has_writer()
    }
}

impl<M: LiveMap> fmt::Debug for LiveReader<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveReader")
            .field("folder", &self.slot.place.path())
            .field("data", &self.number)
            .finish_non_exhaustive()
    }
}

/// A reader that is offline but for the time of a [`read`](Self::read), so that it never holds
/// memory back for long. For callers without a loop of their own. [`LiveReader::idle`] makes one.
///
/// ```
/// use sapwood::qp::QpStore;
/// use sapwood_live::{Live, LiveReader};
/// # let folder = std::env::temp_dir().join(format!("sapwood-live-idle-{}", std::process::id()));
/// let store = Live::<QpStore<u64>>::create(&folder)?;
/// let mut reader = LiveReader::<QpStore<u64>>::open(&folder)?.idle();
/// let mut txn = store.begin();
/// txn.insert("example.org", 7)?;
/// txn.commit();
/// assert_eq!(reader.read(|view| view.get("example.org").copied())?, Some(7));
/// # drop(reader);
/// # store.remove_map()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LiveIdle<M: LiveMap> {
    /// It is offline.
    reader: LiveReader<M>,
}

impl<M: LiveMap> LiveIdle<M> {
    /// Calls `f` with the newest map. If another process has taken the map over, the reader moves
    /// to its data first. It costs a fence, some ten nanoseconds.
    ///
    /// # Errors
    /// As [`LiveReader::quiescent`]; then `f` was not called.
    pub fn read<R>(&mut self, f: impl FnOnce(M::View<'_>) -> R) -> Result<R, Error> {
        self.reader.slot.check()?;
        self.reader.slot.come_online();
        if self.reader.slot.data() != self.reader.number {
            let moved = self.reader.move_on();
            if let Err(error) = moved {
                self.reader.slot.say(0);
                return Err(error);
            }
        }
        let online = Online(&self.reader);
        Ok(f(online.0.view()))
    }

    /// Brings the reader online.
    ///
    /// # Errors
    /// As [`LiveReader::quiescent`].
    pub fn online(self) -> Result<LiveReader<M>, Error> {
        let mut reader = self.reader;
        reader.slot.check()?;
        reader.slot.come_online();
        if reader.slot.data() != reader.number {
            reader.move_on()?;
        }
        Ok(reader)
    }

    /// As [`LiveReader::generation`], of the data that were read last.
    pub fn generation(&self) -> u64 {
        self.reader.generation()
    }

    /// As [`LiveReader::has_writer`].
    ///
    /// # Errors
    /// The system's error.
    pub fn has_writer(&self) -> Result<bool, Error> {
        self.reader.has_writer()
    }
}

impl<M: LiveMap> fmt::Debug for LiveIdle<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LiveIdle").field(&self.reader).finish()
    }
}

/// The reader is offline again when this is dropped.
struct Online<'r, M: LiveMap>(&'r LiveReader<M>);

impl<M: LiveMap> Drop for Online<'_, M> {
    fn drop(&mut self) {
        self.0.slot.say(0);
    }
}

fn bases(data: &[Mapping]) -> Vec<std::ptr::NonNull<u8>> {
    data.iter().map(Mapping::base).collect()
}

/// A reader's own file, and the control page: how it takes part in grace periods.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) place: Place,
    announced: Arc<Announced>,
    page: Page,
    file: PathBuf,
}

impl Slot {
    /// Makes a reader's file, and comes online. `ours`: nobody but this user and root can write the
    /// map.
    pub(crate) fn open<M: LiveMap>(place: Place, checked: bool, ours: bool) -> Result<Slot, Error> {
        let control = Control::read(&place, M::KIND, &M::layouts(), ours)?;
        let (page, file) = register(&place, checked)?;
        let slot = Slot {
            place,
            announced: Arc::new(Announced {
                control,
                seen: AtomicU64::new(0),
                process: Process::current(),
            }),
            page,
            file,
        };
        slot.come_online();
        Ok(slot)
    }

    pub(crate) fn announced(&self) -> &Arc<Announced> {
        &self.announced
    }

    /// Whether this process made it.
    #[inline(always)]
    fn is_ours(&self) -> bool {
        self.announced.process.is_current()
    }

    /// An error in a child of the process that made it.
    #[inline(always)]
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.is_ours() {
            true => Ok(()),
            false => Err(self.forked()),
        }
    }

    #[cold]
    #[inline(never)]
    fn forked(&self) -> Error {
        Error::Forked {
            path: self.place.path().to_owned(),
        }
    }

    /// Announces a period, or that the reader is offline. A child of the process that made it has
    /// nothing to say: what lies there is the parent's.
    #[inline(always)]
    fn say(&self, period: u64) {
        if self.is_ours() {
            self.put(period);
        }
    }

    /// The same in the process that made it.
    #[inline(always)]
    fn put(&self, period: u64) {
        self.page.word(SEEN_AT).store(period, Ordering::Release);
        self.announced.seen.store(period, Ordering::Relaxed);
    }

    /// Announces the newest grace period: this reader has nothing of before. In the process that
    /// made it.
    #[inline(always)]
    pub(crate) fn announce(&self) {
        self.put(self.announced.control.grace());
    }

    /// The number of the present data.
    #[inline(always)]
    pub(crate) fn data(&self) -> u64 {
        self.announced.control.data()
    }

    /// Announces the newest grace period, before any later read. In the process that made it.
    fn come_online(&self) {
        self.announce();
        // Pairs with the fence of the writer, between its commit and its look at this word: either
        // the writer sees the announcement, or this reader reads what was committed.
        fence(Ordering::SeqCst);
    }

    pub(crate) fn offline(&self) -> LiveOffline<'_> {
        self.say(0);
        LiveOffline { slot: self }
    }

    pub(crate) fn has_writer(&self) -> Result<bool, Error> {
        let path = self.place.control();
        let file = File::open(&path).map_err(Error::io("opening", &path))?;
        let locked = try_lock(&file).map_err(Error::io("locking", &path))?;
        Ok(!locked)
    }

    /// Opens the present data, of this many parts. The reader is online.
    pub(crate) fn open_data<P>(
        &self,
        parts: usize,
        open: impl Fn(&Path) -> Result<P, Error>,
    ) -> Result<(Vec<P>, u64), Error> {
        let mut last = None;
        for _ in 0..TRIES {
            let number = self.data();
            if number == 0 {
                return Err(self
                    .place
                    .no_map("its writer has not built it yet, or has removed it"));
            }
            let all = (0..parts).map(|part| open(&self.place.data(number, part)));
            match all.collect() {
                Ok(data) => return Ok((data, number)),
                // Perhaps an heir has replaced them.
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| self.place.no_map("its data change all the time")))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.is_ours() {
            self.say(0);
            let _ = std::fs::remove_file(&self.file);
        }
    }
}

/// A reader that is offline. The drop brings it online again.
#[derive(Debug)]
pub struct LiveOffline<'r> {
    slot: &'r Slot,
}

impl Drop for LiveOffline<'_> {
    fn drop(&mut self) {
        if self.slot.is_ours() {
            self.slot.come_online();
        }
    }
}

/// Maps a part of the data.
fn map(path: &Path) -> Result<Mapping, Error> {
    let file = File::open(path).map_err(Error::io("opening", path))?;
    Mapping::new(file, RESERVE, false).map_err(Error::io("mapping", path))
}

/// Makes a file for a reader, which is offline.
fn register(place: &Place, checked: bool) -> Result<(Page, PathBuf), Error> {
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
            let who = crate::slots::who(pid, checked);
            slot.word(PID_AT).store(who, Ordering::Relaxed);
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
