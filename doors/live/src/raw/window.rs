//! The memory of a live map, word by word, for readers that check what they read.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sapwood_checked::{Publisher, Source, Trouble, Window};

use super::map::{MOST, Mapping};
use super::process::Process;
use crate::control::Control;
use crate::error::Error;
use crate::place::identity;

/// The attempts to read the same word twice.
const TRIES: usize = 8;

/// A part of a live map, whose every word is checked by whoever reads it.
#[derive(Clone, Debug)]
pub struct LiveWindow(Arc<Words>);

#[derive(Debug)]
enum Words {
    /// The file of a user whom this process trusts not to shorten it: it is mapped.
    Mapped(Mapped),
    /// The file of anybody. It is read by system calls, which a file that becomes shorter cannot
    /// turn into a fault.
    Read { file: File, len: AtomicUsize },
}

/// A file that is mapped anew when it has outgrown its mapping.
#[derive(Debug)]
struct Mapped {
    /// The newest mapping.
    base: AtomicPtr<u8>,
    /// The bytes that the file has, as far as it is mapped. The bases that are stored before a
    /// length, and later ones, have as many.
    len: AtomicUsize,
    path: PathBuf,
    /// Of the file.
    identity: (u64, u64),
    /// The mappings, of which other threads may still read the older ones.
    all: Mutex<Vec<Mapping>>,
}

impl Mapped {
    fn open(path: &Path, file: &File) -> io::Result<Mapped> {
        let meta = file.metadata()?;
        let len = whole(meta.size());
        let mapping = Mapping::roomy(file, len)?;
        Ok(Mapped {
            base: AtomicPtr::new(mapping.base().as_ptr()),
            len: AtomicUsize::new(len.min(mapping.len())),
            path: path.to_owned(),
            identity: identity(&meta),
            all: Mutex::new(vec![mapping]),
        })
    }

    /// Learns that the file has this many bytes now.
    #[cold]
    fn grow(&self, bytes: usize) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes <= self.len.load(Ordering::Relaxed) {
            return;
        }
        if all.last().is_none_or(|newest| newest.len() < bytes) {
            // The file may have gone, and another one have its name: then it does not grow.
            let Ok(file) = File::open(&self.path) else {
                return;
            };
            let is_it = file
                .metadata()
                .is_ok_and(|meta| identity(&meta) == self.identity && whole(meta.size()) >= bytes);
            let Some(mapping) = is_it.then(|| Mapping::roomy(&file, bytes).ok()).flatten() else {
                return;
            };
            self.base.store(mapping.base().as_ptr(), Ordering::Release);
            all.push(mapping);
        }
        self.len.store(bytes, Ordering::Release);
    }
}

impl LiveWindow {
    /// Opens a part. `ours`: nobody but this user and root can write it.
    pub(crate) fn open(path: &Path, ours: bool) -> Result<LiveWindow, Error> {
        let io = |what| Error::io(what, path);
        let file = File::open(path).map_err(io("opening"))?;
        let meta = file.metadata().map_err(io("looking at"))?;
        if !meta.is_file() {
            let why = "it is no file of a live map";
            return Err(io("opening")(std::io::Error::other(why)));
        }
        Ok(LiveWindow(Arc::new(match ours {
            true => Words::Mapped(Mapped::open(path, &file).map_err(io("mapping"))?),
            false => Words::Read {
                len: AtomicUsize::new(whole(meta.size())),
                file,
            },
        })))
    }

    fn is_mapped(&self) -> bool {
        matches!(&*self.0, Words::Mapped(_))
    }

    /// Learns whether the file has grown. `bytes`: how many the writer says that it has.
    pub(crate) fn grow(&self, bytes: Option<u64>) {
        match &*self.0 {
            Words::Mapped(mapped) => {
                let bytes = whole(bytes.unwrap_or(0));
                if bytes > mapped.len.load(Ordering::Relaxed) {
                    mapped.grow(bytes);
                }
            }
            Words::Read { file, len } => {
                let now = file.metadata().map_or(0, |meta| whole(meta.size()));
                len.store(now, Ordering::Relaxed);
            }
        }
    }
}

/// The bytes of whole words that can be mapped.
fn whole(bytes: u64) -> usize {
    (bytes.min(MOST as u64) & !7) as usize
}

impl Window for LiveWindow {
    fn len(&self) -> usize {
        let (Words::Mapped(Mapped { len, .. }) | Words::Read { len, .. }) = &*self.0;
        len.load(Ordering::Relaxed)
    }

    #[inline]
    fn u32(&self, at: usize) -> u32 {
        let word = self.u64(at & !7).to_ne_bytes();
        let half = at & 4;
        u32::from_ne_bytes([word[half], word[half + 1], word[half + 2], word[half + 3]])
    }

    #[inline]
    fn u64(&self, at: usize) -> u64 {
        match &*self.0 {
            Words::Mapped(Mapped { base, len, .. }) => {
                let inside = at % 8 == 0 && at + 8 <= len.load(Ordering::Acquire);
                assert!(inside, "a word at {at} of a part of a live map");
                // SAFETY: inside what the file has had since the length was stored, and so inside
                // every mapping since then, all of which `self` keeps; aligned. Whoever can write
                // the file does not shorten it.
                let word =
                    unsafe { AtomicU64::from_ptr(base.load(Ordering::Relaxed).add(at).cast()) };
                word.load(Ordering::Acquire)
            }
            Words::Read { file, .. } => read_twice(file, at as u64),
        }
    }
}

/// A word of a file: what two reads in a row agree on, because a read of eight bytes may be torn. A
/// file that ends before has zeros there.
pub(crate) fn read_twice(file: &File, at: u64) -> u64 {
    let read = || {
        let mut bytes = [0; 8];
        let _ = file.read_exact_at(&mut bytes, at);
        u64::from_ne_bytes(bytes)
    };
    let mut last = read();
    for _ in 0..TRIES {
        let word = read();
        if word == last {
            break;
        }
        last = word;
    }
    last
}

/// A part of a live map, as the source of a checked reader.
#[derive(Debug)]
pub struct LiveSource {
    pub(crate) window: LiveWindow,
    /// The number of the data, and of the part.
    pub(crate) of: (u64, usize),
    pub(crate) name: String,
    pub(crate) folder: std::path::PathBuf,
    /// How the reader learns that it was evicted; none for a new owner, who reads alone.
    pub(crate) slot: Option<Arc<Announced>>,
}

/// A checked reader's announcement, and the control page.
#[derive(Debug)]
pub(crate) struct Announced {
    pub(crate) control: Control,
    /// What it announced last. Its file may be written by others of its user.
    pub(crate) seen: AtomicU64,
    /// The process that made the file.
    pub(crate) process: Process,
    /// Whether the writer knows of the reader, and waits for it.
    pub(crate) is_known: bool,
}

impl LiveSource {
    /// Whether the file has, or may have, more than this reader can see.
    pub(crate) fn is_cut(&self) -> bool {
        let (number, part) = self.of;
        let Some(slot) = &self.slot else { return false };
        let bytes = slot.control.bytes(number, part);
        self.window.is_mapped() && bytes.is_none_or(|bytes| whole(bytes) > self.window.len())
    }

    pub(crate) fn damaged(&self, why: impl std::fmt::Display) -> Error {
        Error::Damaged {
            path: self.folder.clone(),
            why: format!("{}: {why}", self.name),
        }
    }
}

impl Source for LiveSource {
    type Window = LiveWindow;
    type Error = Error;

    fn open(&self) -> Result<(LiveWindow, Publisher), Error> {
        Ok((self.window.clone(), Publisher::Process))
    }

    fn error(&self, trouble: Trouble) -> Error {
        // What looks damaged may lie behind what could be mapped, before the new owners came.
        if self.is_cut() {
            return Error::Evicted {
                path: self.folder.clone(),
            };
        }
        match trouble {
            Trouble::Changed => Error::Busy {
                path: self.folder.clone(),
            },
            trouble => self.damaged(trouble),
        }
    }

    fn refresh(&self) {
        let (number, part) = self.of;
        let control = self.slot.as_ref().map(|slot| &slot.control);
        self.window
            .grow(control.and_then(|control| control.bytes(number, part)));
    }

    fn still_valid(&self) -> Result<(), Error> {
        let Some(slot) = &self.slot else {
            return Ok(());
        };
        if !slot.process.is_current() {
            return Err(Error::Forked {
                path: self.folder.clone(),
            });
        }
        // What was read before came by loads with Acquire, so this load comes after them. If memory
        // was used again that this reader had read, then the writer evicted it before.
        let lost = match slot.is_known {
            true => slot.control.evicted(),
            // The writer uses memory again without a look at this reader.
            false => slot.control.over(),
        };
        match slot.seen.load(Ordering::Relaxed) < lost {
            true => Err(Error::Evicted {
                path: self.folder.clone(),
            }),
            false => Ok(()),
        }
    }
}
