//! Readers in other processes as a source of grace periods.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use sapwood_qsbr::GraceSource;

use crate::control::Control;
use crate::place::{Place, is_locked, try_lock};

/// Words of a reader's file: what it has announced, its process, and how many bytes of each part
/// it has mapped.
pub(crate) const SEEN_AT: usize = 0;
pub(crate) const PID_AT: usize = 1;
pub(crate) const MAPPED_AT: usize = 8;

/// The bit beside the number of the process that says that the reader checks what it reads.
pub(crate) const CHECKED: u64 = 1 << 32;

/// The word of a reader's process, and of what the reader is.
pub(crate) fn who(pid: u32, checked: bool) -> u64 {
    u64::from(pid) | if checked { CHECKED } else { 0 }
}

/// The beginning of the names of readers' files. Files with other names are being made.
pub(crate) const PREFIX: &str = "r-";

/// A reader of a live map in some process, as the writer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveReaderInfo {
    /// The name of its file.
    pub name: String,
    /// Its process, as the reader says.
    pub pid: u32,
    /// The newest grace period that it has announced; 0 while it is offline.
    pub seen: u64,
    /// Whether it holds memory back: it has not announced the newest period.
    pub holds_back: bool,
    /// Whether it checks what it reads, as it says. Such a reader can be evicted.
    pub checked: bool,
    /// Whether it was evicted. Its next announcement brings it back.
    pub evicted: bool,
}

/// The readers that the writer knows.
#[derive(Debug)]
pub(crate) struct Readers {
    place: Place,
    control: Arc<Control>,
    /// The age of a period at which checked readers are evicted that it waits for.
    evict_after: Option<Duration>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The files of readers that may live.
    files: HashMap<OsString, File>,
    /// The newest period since whose beginning the directory is known.
    looked: u64,
    /// The periods that readers hold back, with the time when that was first seen.
    slow: Vec<(u64, Instant)>,
    /// Tells whether the directory has changed since it was read last.
    news: Option<News>,
    /// Whether nobody can find the map yet.
    is_unpublished: bool,
}

/// The kernel's notices of files in a directory. A file comes into the directory together with its
/// notice, so where there is no notice, there is no new reader.
#[derive(Debug)]
struct News(OwnedFd);

impl News {
    fn of(folder: &Path) -> Option<News> {
        let flags = CreateFlags::NONBLOCK | CreateFlags::CLOEXEC;
        let queue = inotify::init(flags).ok()?;
        // A reader's file comes by a rename; others may make theirs otherwise.
        let what = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        inotify::add_watch(&queue, folder, what).ok()?;
        Some(News(queue))
    }

    /// Whether there are any, which are forgotten.
    fn take(&self) -> bool {
        let mut buffer = [0; 4096];
        let mut any = false;
        loop {
            match rustix::io::read(&self.0, &mut buffer) {
                Ok(1..) => any = true,
                Err(Errno::AGAIN) => return any,
                // What is not known counts as news.
                Ok(0) | Err(_) => return true,
            }
        }
    }
}

impl Readers {
    pub(crate) fn new(
        place: &Place,
        control: &Arc<Control>,
        evict_after: Option<Duration>,
        is_unpublished: bool,
    ) -> Readers {
        let known = Known {
            is_unpublished,
            ..Known::default()
        };
        Readers {
            evict_after,
            place: place.clone(),
            control: Arc::clone(control),
            known: Mutex::new(known),
        }
    }

    /// Sets whether anybody can find the map, so that there may be readers.
    pub(crate) fn may_be_found(&self, is: bool) {
        self.known().is_unpublished = !is;
    }

    /// Asks the kernel for notices, as soon as the directory of readers is where it stays.
    pub(crate) fn watch(&self) {
        let mut known = self.known();
        known.news = News::of(&self.place.readers());
        // Whoever came before is in no notice.
        known.looked = 0;
    }

    /// Begins a period.
    pub(crate) fn begin(&self) -> u64 {
        self.start()
    }

    /// Whether each reader that trusts the memory has mapped this many bytes of a part, or has
    /// announced this period, which began after it could learn of them. One that is offline learns
    /// of them when it comes online.
    pub(crate) fn have_mapped(&self, part: usize, bytes: u64, period: u64) -> bool {
        let mut known = self.known();
        if !known.look_for(self, period) {
            return false;
        }
        let waits = |file: &File| {
            (1..period).contains(&word(file, SEEN_AT))
                && word(file, MAPPED_AT + part) < bytes
                && word(file, PID_AT) & CHECKED == 0
        };
        known
            .files
            .retain(|name, file| !waits(file) || self.lives(name, file));
        !known.files.values().any(waits)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All readers that live.
    pub(crate) fn all(&self) -> Vec<LiveReaderInfo> {
        let mut known = self.known();
        let files = &mut known.files;
        let _ = look(&self.place, files);
        files.retain(|name, file| self.lives(name, file));
        let all = files.iter();
        in_order(all.map(|(name, file)| LiveReaderInfo::new(name, file, &self.control)))
    }

    /// Whether a reader lives. Removes the file of a dead one.
    fn lives(&self, name: &OsString, file: &File) -> bool {
        // Nobody else locks the file of a living reader.
        let dead = try_lock(file).unwrap_or(false);
        if dead {
            let _ = std::fs::remove_file(self.place.readers().join(name));
        }
        !dead
    }
}

impl LiveReaderInfo {
    /// What a reader's file says.
    fn new(name: &OsStr, file: &File, control: &Control) -> Self {
        let (now, evicted) = (control.grace(), control.evicted());
        let (seen, who) = (word(file, SEEN_AT), word(file, PID_AT));
        let checked = who & CHECKED != 0;
        let evicted = checked && (1..evicted).contains(&seen);
        LiveReaderInfo {
            name: name.to_string_lossy().into_owned(),
            pid: who as u32,
            seen,
            holds_back: seen != 0 && seen < now && !evicted,
            checked,
            evicted,
        }
    }
}

/// Sorts readers by name.
fn in_order(all: impl Iterator<Item = LiveReaderInfo>) -> Vec<LiveReaderInfo> {
    let mut all: Vec<_> = all.collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// The readers that live, for a process that is not the writer. It changes nothing in the
/// directory.
pub(crate) fn seen_from_outside(
    place: &Place,
    control: &Control,
) -> std::io::Result<Vec<LiveReaderInfo>> {
    let mut files = HashMap::new();
    look(place, &mut files)?;
    files.retain(|_, file| is_locked(file));
    let all = files.iter();
    Ok(in_order(all.map(|(name, file)| {
        LiveReaderInfo::new(name, file, control)
    })))
}

/// Opens the files of readers that are not among `files`. When this process has no descriptors or
/// memory for one, that is an error: the reader may be reading.
fn look(place: &Place, files: &mut HashMap<OsString, File>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(place.readers())? {
        let entry = entry?;
        let name = entry.file_name();
        let is_reader = name.to_str().is_some_and(|name| name.starts_with(PREFIX));
        if !is_reader || files.contains_key(&name) {
            continue;
        }
        // The directory may hold anything: no pipe is waited for, and no link followed.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let opened = std::fs::OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits() as i32)
            .open(entry.path());
        match opened {
            Ok(file) if file.metadata()?.is_file() => {
                files.insert(name, file);
            }
            Ok(_) => (),
            // Of the others, one has just ended, one is no file, and one shows its file to
            // nobody: that one harms only itself.
            Err(error) if ours(&error) => return Err(error),
            Err(_) => (),
        }
    }
    Ok(())
}

/// Whether this process is to blame for an error: it has no descriptors or no memory.
fn ours(error: &std::io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(
        errno,
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::INTR)
    )
}

/// A word of a reader's file; 0 if the file is too short. The reader may do to its file what it
/// likes, so it is not mapped.
fn word(file: &File, at: usize) -> u64 {
    let mut bytes = [0; 8];
    match file.read_exact_at(&mut bytes, at as u64 * 8) {
        Ok(()) => u64::from_ne_bytes(bytes),
        Err(_) => 0,
    }
}

impl Known {
    /// Whether a period that has not ended is older than this, since it was first asked for.
    fn is_older(&mut self, period: u64, age: Duration) -> bool {
        match self.slow.iter().find(|(slow, _)| *slow >= period) {
            Some((_, since)) => since.elapsed() >= age,
            None => {
                self.slow.push((period, Instant::now()));
                false
            }
        }
    }

    /// Whether the directory has no new files since it was read last.
    fn is_unchanged(&mut self) -> bool {
        let unchanged = self.looked > 0 && self.news.as_ref().is_some_and(|news| !news.take());
        if !unchanged {
            // Until the directory has been read, it counts as changed.
            self.looked = 0;
        }
        unchanged
    }

    /// Reads the directory, unless it is known since this period began. Returns whether it could be
    /// read. A reader whose file comes later reads only what was published before the period.
    fn look_for(&mut self, readers: &Readers, period: u64) -> bool {
        // Nobody can have found the map.
        if self.is_unpublished {
            self.looked = period;
        }
        if self.looked < period && self.is_unchanged() {
            self.looked = period;
        }
        if self.looked < period && look(&readers.place, &mut self.files).is_ok() {
            // Of readers that are offline, the dead ones: the others are asked when they wait.
            self.files
                .retain(|name, file| word(file, SEEN_AT) != 0 || readers.lives(name, file));
            self.looked = period;
        }
        self.looked >= period
    }
}

impl GraceSource for Readers {
    fn start(&self) -> u64 {
        // The stores of this thread come before the looks at the readers.
        fence(Ordering::SeqCst);
        let period = self.control.begin_grace();
        self.known().look_for(self, period);
        period
    }

    fn elapsed(&self, period: u64) -> bool {
        let mut known = self.known();
        if !known.look_for(self, period) {
            return false;
        }
        let waits = |file: &File| (1..period).contains(&word(file, SEEN_AT));
        known
            .files
            .retain(|name, file| !waits(file) || self.lives(name, file));
        let evict = self
            .evict_after
            .is_some_and(|age| known.is_older(period, age));
        if evict {
            // From here on, a checked reader that announced an earlier period throws its answers
            // away. The store comes before all that frees memory.
            self.control.evict(period);
            fence(Ordering::SeqCst);
        }
        let evicted = period <= self.control.evicted();
        let waits = |file: &File| waits(file) && !(evicted && word(file, PID_AT) & CHECKED != 0);
        let over = !known.files.values().any(waits);
        if over {
            known.slow.retain(|(slow, _)| *slow > period);
            // Readers that are not known here learn from it that memory is used again.
            self.control.set_over(period);
        }
        // What the readers read comes before what the caller does now.
        fence(Ordering::SeqCst);
        over
    }

    fn name(&self) -> &str {
        "readers in other processes"
    }
}
