//! Readers of live maps.

use std::fmt;
use std::fs::{File, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

use super::map::{Mapping, Page};
use super::maps::LiveMap;
use super::process::{Process, not_ours};
use super::window::Announced;
use crate::control::{Control, State, Wanted};
use crate::error::Error;
use crate::place::{Place, is_locked, random, try_lock};
use crate::slots::{MAPPED_AT, PID_AT, PREFIX, SEEN_AT};

/// The attempts to open data that new owners replace meanwhile.
const TRIES: usize = 100;

/// The time between two looks for a map that is not there yet.
const PAUSE: Duration = Duration::from_millis(2);

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
    /// What is mapped: which data, and how long their files were.
    state: State,
    /// Whether others may write the map.
    is_foreign: bool,
    /// Whether the reader came online, and could not map what there is now.
    is_behind: bool,
    slot: Slot,
}

impl<M: LiveMap> LiveReader<M> {
    /// Opens the live map in a directory that only this user or root can write: the directory, the
    /// control page and the data. What they write is trusted: the reader reads it without checks,
    /// as [`QpFile`](sapwood::qp::QpFile) trusts that nobody changes its file.
    ///
    /// # Errors
    /// [`Error::NotYet`] when there is no map in the directory; [`Error::Foreign`] when others can
    /// write it; [`Error::Unregistered`] when this process may not make a file in the directory
    /// `readers`, since the writer must know a reader that trusts the memory; [`Error::NoMap`];
    /// [`Error::Kind`]; [`Error::Layout`]; [`Error::NoSpace`]; the system's error.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, Error> {
        Self::trusting(Place::new(folder.as_ref()))
    }

    /// As [`open`](Self::open), and waits this long for a map that is not there yet.
    ///
    /// ```
    /// use sapwood::qp::QpStore;
    /// use sapwood_live::{Live, LiveReader};
    /// use std::time::Duration;
    /// # let folder = std::env::temp_dir().join(format!("sapwood-live-wait-{}", std::process::id()));
    /// # let path = folder.clone();
    /// let writer = std::thread::spawn(move || Live::<QpStore<u64>>::create(&path));
    /// let reader = LiveReader::<QpStore<u64>>::open_within(&folder, Duration::from_secs(60))?;
    /// assert_eq!(reader.view().len(), 0);
    /// # drop(reader);
    /// # writer.join().unwrap()?.remove_map()?;
    /// # Ok::<(), sapwood_live::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`open`](Self::open); [`Error::NotYet`] after this time.
    pub fn open_within(folder: impl AsRef<Path>, limit: Duration) -> Result<Self, Error> {
        within(limit, || Self::open(folder.as_ref()))
    }

    /// As [`open`](Self::open), with a descriptor of the directory, which another process may have
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
        let mut reader = unsafe { Self::foreign(Place::new(folder.as_ref())) }?;
        reader.is_foreign = true;
        Ok(reader)
    }

    /// # Safety
    /// As for `open_foreign`.
    unsafe fn foreign(place: Place) -> Result<Self, Error> {
        let slot = Slot::open::<M>(place, How::Trusting)?;
        let (data, state) = slot.map_data(M::parts())?;
        Ok(LiveReader {
            // SAFETY: the data are those of such a map: the caller's promise. They stay mapped as
            // long as `self` has them, and the reader is online.
            attached: unsafe { M::attach(&bases(&data)) }.map_err(|why| slot.place.no_map(why))?,
            data,
            state,
            is_behind: false,
            is_foreign: false,
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
    /// In a child of `fork`. When the reader was [`offline`](Self::offline), and this process could
    /// not map the memory that the map has got meanwhile: [`quiescent`](Self::quiescent) says why.
    #[inline]
    pub fn view(&self) -> M::View<'_> {
        if !self.slot.is_ours() {
            not_ours();
        }
        assert!(!self.is_behind, "call quiescent: the map has grown");
        // SAFETY: this reader has announced a grace period and announces none while the view
        // borrows it, so the writer frees nothing that the view reaches, and refers to nothing
        // behind what is mapped. A new owner leaves the data as they are.
        unsafe { M::view(&self.attached) }
    }

    /// Announces that the reader holds nothing, so that the writer may free what was replaced. If
    /// the map has grown, the reader maps it anew; if another process has taken the map over, the
    /// reader moves to its data.
    ///
    /// # Errors
    /// [`Error::Removed`] when the map was removed: then [`reopen`](Self::reopen) moves to the one
    /// that may have been made in its place. As [`open`](Self::open), for the data of the new
    /// owner. Then the reader stays where it is. [`Error::Forked`].
    #[inline]
    pub fn quiescent(&mut self) -> Result<(), Error> {
        self.slot.check()?;
        // The period comes first: whoever has announced it knows how long the data were before.
        let period = self.slot.period();
        match self.slot.state() == self.state && !self.is_behind {
            true => {
                self.slot.put(period);
                Ok(())
            }
            false => self.move_on(period),
        }
    }

    /// Moves to the data that there are now, and announces this period.
    #[cold]
    fn move_on(&mut self, period: u64) -> Result<(), Error> {
        if self.is_behind {
            return self.come_online();
        }
        match self.settle() {
            Ok(()) => {
                self.slot.say(period);
                Ok(())
            }
            Err(error) => {
                // Nobody frees memory of data that were left, or removed.
                if self.slot.state().number() != self.state.number() {
                    self.slot.say(period);
                }
                Err(error)
            }
        }
    }

    /// Maps what there is now. The reader is online, and no view is left.
    fn settle(&mut self) -> Result<(), Error> {
        let state = self.slot.state();
        let (number, old) = (state.number(), self.state.number());
        let mapped = self.data.iter().map(Mapping::len).enumerate();
        let has_room = |(part, len): (usize, usize)| {
            let bytes = self.slot.announced.control.bytes(number, part);
            bytes.is_some_and(|bytes| bytes <= len as u64)
        };
        if number != old || !mapped.into_iter().all(has_room) {
            let (data, state) = self.slot.map_data(M::parts())?;
            // SAFETY: as in `foreign`; no view is left of the old data.
            let attached = unsafe { M::attach(&bases(&data)) };
            self.attached = attached.map_err(|why| self.slot.place.no_map(why))?;
            self.data = data;
            self.state = state;
        } else {
            // What this mapping has not, the state would tell later.
            self.state = state;
        }
        self.is_behind = false;
        Ok(())
    }

    /// Brings the reader online.
    fn come_online(&mut self) -> Result<(), Error> {
        self.slot.check()?;
        self.slot.come_online();
        if self.slot.state() == self.state && !self.is_behind {
            return Ok(());
        }
        let settled = self.settle();
        if settled.is_err() {
            // The writer may use what is not mapped here.
            self.slot.say(0);
            self.is_behind = true;
        }
        settled
    }

    /// Takes the reader offline, until the result is dropped. It then holds nothing back.
    pub fn offline(&mut self) -> LiveOffline<'_> {
        self.slot.say(0);
        LiveOffline { reader: self }
    }

    /// Takes the reader offline for as long as it is not asked.
    pub fn idle(self) -> LiveIdle<M> {
        self.slot.say(0);
        LiveIdle { reader: self }
    }

    /// Opens the map that is in the directory now, where this one has been removed and another one
    /// was made.
    ///
    /// # Errors
    /// As [`open`](Self::open). Then the reader stays where it is.
    pub fn reopen(&mut self) -> Result<(), Error> {
        let place = self.slot.place.clone();
        if !self.is_foreign {
            place.belongs_to_us()?;
        }
        // SAFETY: the caller of `open_foreign` promised it of all that may write the directory.
        let new = unsafe { Self::foreign(place) }?;
        *self = LiveReader {
            is_foreign: self.is_foreign,
            ..new
        };
        Ok(())
    }

    /// Whether the directory still has the map that this reader reads. Otherwise it was removed, by
    /// whatever means, and may have been made anew: see [`reopen`](Self::reopen). It costs a system
    /// call.
    pub fn is_current(&self) -> bool {
        self.slot.is_current()
    }

    /// How many times other processes have taken the map over.
    pub fn generation(&self) -> u64 {
        self.state.number() - 1
    }

    /// Whether the map's writer lives. When it is dead, the map stays as it is until another
    /// process takes it over. A map that was removed has none.
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
            .field("data", &self.state.number())
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
        self.reader.come_online()?;
        let online = Online(&self.reader);
        Ok(f(online.0.view()))
    }

    /// Brings the reader online.
    ///
    /// # Errors
    /// As [`LiveReader::quiescent`].
    pub fn online(self) -> Result<LiveReader<M>, Error> {
        let mut reader = self.reader;
        reader.come_online()?;
        Ok(reader)
    }

    /// As [`LiveReader::reopen`].
    ///
    /// # Errors
    /// As [`LiveReader::open`].
    pub fn reopen(&mut self) -> Result<(), Error> {
        self.reader.reopen()?;
        self.reader.slot.say(0);
        Ok(())
    }

    /// As [`LiveReader::is_current`].
    pub fn is_current(&self) -> bool {
        self.reader.is_current()
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

/// How a reader takes part in grace periods, and whom it trusts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// It trusts the memory, and has a file that the writer looks into.
    Trusting,
    /// It checks what it reads, and has a file. `ours`: nobody but this user and root can write the
    /// map.
    Checking { ours: bool },
    /// It checks what it reads, and the writer does not know of it.
    Unregistered { ours: bool },
}

/// A reader's own file, and the control page: how it takes part in grace periods.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) place: Place,
    announced: Arc<Announced>,
    /// None of a reader that the writer does not know of.
    known: Option<Known>,
}

/// The page that the writer looks into, and its file.
#[derive(Debug)]
struct Known {
    page: Page,
    path: PathBuf,
    /// The lock, where the mapping does not hold it.
    _lock: Option<File>,
}

impl Slot {
    /// Makes a reader's file, and comes online.
    pub(crate) fn open<M: LiveMap>(place: Place, how: How) -> Result<Slot, Error> {
        let ours = match how {
            How::Trusting => true,
            How::Checking { ours } | How::Unregistered { ours } => ours,
        };
        for _ in 0..TRIES {
            let control = Control::read(&place, &Wanted::of::<M>(), ours)?;
            let known = match how {
                How::Unregistered { .. } => None,
                _ => Some(register(&place, how != How::Trusting)?),
            };
            let slot = Slot {
                place: place.clone(),
                announced: Arc::new(Announced {
                    control,
                    seen: AtomicU64::new(0),
                    process: Process::current(),
                    is_known: known.is_some(),
                }),
                known,
            };
            slot.come_online();
            // The file must be in the directory of the map whose page was opened.
            if slot.is_current() {
                return Ok(slot);
            }
        }
        Err(place.not_yet())
    }

    /// Whether the writer knows of the reader.
    pub(crate) fn is_known(&self) -> bool {
        self.known.is_some()
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
    pub(crate) fn say(&self, period: u64) {
        if self.is_ours() {
            self.put(period);
        }
    }

    /// The same in the process that made it.
    #[inline(always)]
    fn put(&self, period: u64) {
        if let Some(known) = &self.known {
            known.page.word(SEEN_AT).store(period, Ordering::Release);
        }
        self.announced.seen.store(period, Ordering::Relaxed);
    }

    /// The newest grace period.
    #[inline(always)]
    pub(crate) fn period(&self) -> u64 {
        self.announced.control.grace()
    }

    /// The state of the data.
    #[inline(always)]
    pub(crate) fn state(&self) -> State {
        self.announced.control.state()
    }

    /// Announces the newest grace period, before any later read.
    pub(crate) fn come_online(&self) {
        self.say(self.period());
        // Pairs with the fence of the writer, between its commit and its look at this word: either
        // the writer sees the announcement, or this reader reads what was committed.
        fence(Ordering::SeqCst);
    }

    pub(crate) fn has_writer(&self) -> Result<bool, Error> {
        self.announced.control.has_writer(&self.place)
    }

    /// Whether the directory has the page that was opened.
    pub(crate) fn is_current(&self) -> bool {
        self.announced.control.is_at(&self.place)
    }

    /// Opens the present data, of this many parts. The reader is online.
    pub(crate) fn open_data<P>(
        &self,
        parts: usize,
        open: impl Fn(&Path, (u64, usize)) -> Result<P, Error>,
    ) -> Result<(Vec<P>, State), Error> {
        let mut last = None;
        for _ in 0..TRIES {
            let state = self.state();
            let number = state.number();
            if number == 0 {
                let path = self.place.path().to_owned();
                return Err(Error::Removed { path });
            }
            let part = |part| open(&self.place.data(number, part), (number, part));
            match (0..parts).map(part).collect() {
                Ok(data) => return Ok((data, state)),
                // Perhaps a new owner has replaced them.
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| self.busy()))
    }

    /// Maps the present data, of this many parts, for a reader that trusts them. The reader is
    /// online.
    fn map_data(&self, parts: usize) -> Result<(Vec<Mapping>, State), Error> {
        let control = &self.announced.control;
        for _ in 0..TRIES {
            let (data, state) = self.open_data(parts, |path, (number, part)| {
                let io = |what| Error::io(what, path);
                let file = File::open(path).map_err(io("opening"))?;
                let bytes = control.bytes(number, part).ok_or_else(|| self.busy())?;
                Mapping::roomy(&file, bytes as usize).map_err(io("mapping"))
            })?;
            if let Some(known) = &self.known {
                for (part, mapping) in data.iter().enumerate() {
                    let word = known.page.word(MAPPED_AT + part);
                    word.store(mapping.len() as u64, Ordering::Release);
                }
            }
            // Pairs with the fence of the writer, after it has told of more bytes: either it sees
            // what was mapped, or this reader sees that there are more.
            fence(Ordering::SeqCst);
            if self.state() == state {
                return Ok((data, state));
            }
        }
        Err(self.busy())
    }

    fn busy(&self) -> Error {
        let path = self.place.path().to_owned();
        Error::Busy { path }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if !self.is_ours() {
            return;
        }
        self.put(0);
        if let Some(known) = &self.known {
            let _ = std::fs::remove_file(&known.path);
        }
    }
}

/// A reader that can come online.
pub(crate) trait ComesOnline: Send {
    fn come_online(&mut self);
}

impl<M: LiveMap> ComesOnline for LiveReader<M> {
    fn come_online(&mut self) {
        // A failure is told by `quiescent`, and `view` has nothing to show before.
        let _ = LiveReader::come_online(self);
    }
}

/// A reader that is offline. The drop brings it online again.
pub struct LiveOffline<'r> {
    pub(crate) reader: &'r mut dyn ComesOnline,
}

impl fmt::Debug for LiveOffline<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveOffline").finish_non_exhaustive()
    }
}

impl Drop for LiveOffline<'_> {
    fn drop(&mut self) {
        self.reader.come_online();
    }
}

/// Opens a map, and waits this long for one that is not there yet.
pub(crate) fn within<R>(limit: Duration, open: impl Fn() -> Result<R, Error>) -> Result<R, Error> {
    let begun = Instant::now();
    loop {
        match open() {
            Err(Error::NotYet { .. }) if begun.elapsed() < limit => {
                std::thread::sleep(PAUSE.min(limit.saturating_sub(begun.elapsed())));
            }
            done => return done,
        }
    }
}

/// Makes a file for a reader, which is offline.
fn register(place: &Place, checked: bool) -> Result<Known, Error> {
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
            Ok(file) => file,
            Err(error) => match error.kind() {
                ErrorKind::AlreadyExists => continue,
                // The map has been removed meanwhile.
                ErrorKind::NotFound => return Err(place.not_yet()),
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                    return Err(Error::Unregistered {
                        path: place.path().to_owned(),
                        error,
                    });
                }
                _ => return Err(Error::io("making", &path)(error)),
            },
        };
        let done = || -> std::io::Result<Known> {
            // The writer must be able to read it, whatever this process's mask says.
            file.set_permissions(Permissions::from_mode(0o644))?;
            sapwood_arena::allocate(&file, 0..Page::BYTES as u64)?;
            try_lock(&file)?;
            let page = Page::map(&file, true)?;
            let who = crate::slots::who(pid, checked);
            page.word(PID_AT).store(who, Ordering::Relaxed);
            // The mapping keeps the open file, and so the lock, on the systems that are known. No
            // descriptor is needed then.
            drop(file);
            let again = File::open(&path)?;
            let lock = match is_locked(&again) {
                true => None,
                false => {
                    try_lock(&again)?;
                    Some(again)
                }
            };
            // From here on the writer sees it, with its lock.
            let last = folder.join(format!("{PREFIX}{name}"));
            std::fs::rename(&path, &last)?;
            Ok(Known {
                page,
                path: last,
                _lock: lock,
            })
        };
        return done().map_err(|error| {
            let _ = std::fs::remove_file(&path);
            match error.kind() {
                ErrorKind::NotFound => place.not_yet(),
                _ => Error::io("making", &path)(error),
            }
        });
    }
}
