//! The memory of a live map, word by word, for readers that check what they read.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use sapwood_checked::{Publisher, Source, Trouble, Window};

use super::map::Mapping;
use super::process::Process;
use crate::error::Error;
use crate::place::Control;

/// The bytes of address space for a part: all that references can reach.
const RESERVE: usize = 8 << 30;
/// The attempts to read the same word twice.
const TRIES: usize = 8;

/// A part of a live map, whose every word is checked by whoever reads it.
#[derive(Clone, Debug)]
pub struct LiveWindow(Arc<Words>);

#[derive(Debug)]
enum Words {
    /// The file of a user whom this process trusts not to shorten it: it is mapped. The number is
    /// that of its bytes, when they were asked for last.
    Mapped {
        mapping: Mapping,
        file: File,
        len: AtomicUsize,
    },
    /// The file of anybody. It is read by system calls, which a file that becomes shorter cannot
    /// turn into a fault.
    Read { file: File, len: AtomicUsize },
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
        let len = AtomicUsize::new(whole(meta.size()));
        Ok(LiveWindow(Arc::new(match ours {
            true => Words::Mapped {
                mapping: {
                    let file = file.try_clone().map_err(io("opening"))?;
                    Mapping::new(file, RESERVE, false).map_err(io("mapping"))?
                },
                file,
                len,
            },
            false => Words::Read { file, len },
        })))
    }

    /// Asks for the length of the file anew: the map may have grown.
    pub(crate) fn grow(&self) {
        let (Words::Mapped { file, len, .. } | Words::Read { file, len }) = &*self.0;
        let now = file.metadata().map_or(0, |meta| whole(meta.size()));
        len.store(now, Ordering::Relaxed);
    }
}

/// The bytes of whole words that can be mapped.
fn whole(bytes: u64) -> usize {
    let most = RESERVE as u64;
    (bytes.min(most) & !7) as usize
}

impl Window for LiveWindow {
    fn len(&self) -> usize {
        let (Words::Mapped { len, .. } | Words::Read { len, .. }) = &*self.0;
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
            Words::Mapped { mapping, len, .. } => {
                let inside = at % 8 == 0 && at + 8 <= len.load(Ordering::Relaxed);
                assert!(inside, "a word at {at} of a part of a live map");
                // SAFETY: inside the file when its length was asked for, and so inside the mapping;
                // aligned. Whoever can write the file does not shorten it.
                let word = unsafe { AtomicU64::from_ptr(mapping.base().as_ptr().add(at).cast()) };
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
    pub(crate) name: String,
    pub(crate) folder: std::path::PathBuf,
    /// How the reader learns that it was evicted; none for an heir, who reads alone.
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
}

impl LiveSource {
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
        match trouble {
            Trouble::Changed => Error::Busy {
                path: self.folder.clone(),
            },
            trouble => self.damaged(trouble),
        }
    }

    fn refresh(&self) {
        self.window.grow();
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
        match slot.seen.load(Ordering::Relaxed) < slot.control.evicted() {
            true => Err(Error::Evicted {
                path: self.folder.clone(),
            }),
            false => Ok(()),
        }
    }
}
