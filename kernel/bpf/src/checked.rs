//! Readers of maps that another process, or programs in the kernel, write: those of
//! `sapwood-checked`, over windows of an arena.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sapwood_checked::{Publisher, Source, Trouble, Window};

use crate::arena::{BpfArena, WindowInfo};
use crate::error::Error;
use crate::layout::{Kind, program_map};
use crate::raw::arena::{Memory, PAGE};

pub use sapwood_checked::{Bytes, CheckedValue, StoredValue};

/// The memory of a window, as a checked reader reads it.
#[derive(Clone)]
pub struct WindowMemory {
    memory: Arc<Memory>,
    at: usize,
    len: usize,
}

impl WindowMemory {
    /// The window of `len` bytes at `at`, a page's beginning.
    pub(crate) fn new(memory: &Arc<Memory>, at: usize, len: usize) -> WindowMemory {
        debug_assert!(at % PAGE == 0 && len % 8 == 0 && len >= PAGE && at + len <= memory.len());
        WindowMemory {
            memory: Arc::clone(memory),
            at,
            len,
        }
    }
}

impl fmt::Debug for WindowMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WindowMemory")
            .field("at", &self.at)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl Window for WindowMemory {
    fn len(&self) -> usize {
        self.len
    }

    fn u32(&self, at: usize) -> u32 {
        self.memory.u32(self.at + at).load(Ordering::Acquire)
    }

    fn u64(&self, at: usize) -> u64 {
        self.memory.u64(self.at + at).load(Ordering::Acquire)
    }
}

/// The map of one name in an arena, as a [`CheckedReader`] finds it.
pub struct WindowSource {
    arena: BpfArena,
    window: WindowInfo,
}

impl WindowSource {
    /// The map's window at the time when the reader was made. A process that takes the map over
    /// moves it, and readers follow.
    pub fn window(&self) -> &WindowInfo {
        &self.window
    }

    /// Whether programs write the map, and its values have a count for each processor
    /// ([`per_processor`](crate::ProgramMapBuilder::per_processor)): then [`Bytes::sum`] of a value
    /// is the count of all.
    ///
    /// # Errors
    /// [`Error::NoWindow`] when the map was closed.
    pub fn is_per_processor(&self) -> Result<bool, Error> {
        let (memory, _) = self.open()?;
        Ok(self.window.kind == Kind::KernelQp && memory.u32(program_map::EACH) != 0)
    }
}

impl Source for WindowSource {
    type Window = WindowMemory;
    type Error = Error;

    fn open(&self) -> Result<(WindowMemory, Publisher), Error> {
        let WindowInfo {
            number, kind, name, ..
        } = &self.window;
        let Some((at, len)) = self.arena.window_place(*number, *kind)? else {
            return Err(Error::NoWindow {
                name: name.clone(),
                kind: kind.name(),
                there: "it was closed".to_owned(),
            });
        };
        let publisher = match kind {
            Kind::Qp => Publisher::Process,
            _ => Publisher::Programs,
        };
        Ok((WindowMemory::new(self.arena.memory(), at, len), publisher))
    }

    fn error(&self, trouble: Trouble) -> Error {
        error_of(trouble, &self.window.name)
    }
}

impl fmt::Debug for WindowSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.window.fmt(f)
    }
}

/// The error of an operation on the map of this name.
pub(crate) fn error_of(trouble: Trouble, name: &str) -> Error {
    match trouble {
        Trouble::Changed => Error::Busy(name.to_owned()),
        Trouble::Values(values) => Error::Value {
            name: name.to_owned(),
            why: values.to_string(),
        },
        Trouble::NoOrder => Error::Setting {
            what: "order",
            why: format!("{name} has only an index, and so no order"),
        },
        Trouble::Damaged(why, at) => Error::Damaged(format!("{name}, byte {at}: {why}")),
        trouble => Error::Damaged(format!("{name}: {trouble}")),
    }
}

/// The value of the bytes of an entry.
pub(crate) fn value_of<V: CheckedValue>(bytes: &[u8]) -> Result<V, Error> {
    V::of(bytes).ok_or_else(|| Error::Damaged(format!("a value of {} bytes", bytes.len())))
}

/// Entries of a [`CheckedReader`], in order if its map has one. The iterator ends after an error.
pub type CheckedEntries<'a, V> = sapwood_checked::CheckedEntries<'a, WindowSource, V>;
/// Entries of a [`CheckedReader`] in ascending order of keys. The iterator ends after an error.
pub type CheckedIter<'a, V> = sapwood_checked::CheckedIter<'a, WindowSource, V>;

/// A reader of a map over byte strings in an arena. Another process or programs may write the map
/// meanwhile, or its owner may be dead. The reader returns copies, and checks every word before it
/// relies on it.
///
/// # What is promised
///
/// - Whatever bytes the window holds, and whatever is written meanwhile, the reader reads nothing
///   outside the window, and every operation ends. It returns a result, [`Error::Damaged`] or
///   [`Error::Busy`].
/// - While nobody writes, answers are exact, and
///   [`verify`](sapwood_checked::CheckedReader::verify) checks that the map is intact.
/// - While a process or a program writes, each returned entry was in the map at some time during
///   the operation. Walks ascend strictly, and find every key that is there throughout. This holds
///   as long as freed memory is not reused during the operation.
/// - The owner's grace periods do not wait for a reader, so the owner may reuse such memory. The
///   reader therefore checks the path from the root again after each read, and begins anew if the
///   path has changed. This detects nearly all such cases, but not all. For exact answers, read in
///   the owner's process or in a program.
///
/// A damaged map may refer to unused pages of its window. A read of such a page takes memory.
///
/// The process that owns the map should read the map itself.
///
/// Errors are those of this crate: [`Error::Busy`] when changes disturbed every attempt,
/// [`Error::Setting`] when a map that has only an index is asked for its order, [`Error::NoWindow`]
/// when the map was closed, [`Error::Damaged`].
///
/// ```no_run
/// use sapwood_bpf::BpfArena;
/// let arena = BpfArena::open("/sys/fs/bpf/names")?;
/// let blocked = arena.reader::<u64>("blocked")?;
/// println!("{:?}", blocked.get("example.org")?);
/// for entry in blocked.prefix("example.") {
///     let (key, value) = entry?;
///     println!("{} {value}", String::from_utf8_lossy(&key));
/// }
/// # Ok::<(), sapwood_bpf::Error>(())
/// ```
pub type CheckedReader<V> = sapwood_checked::CheckedReader<WindowSource, V>;

impl BpfArena {
    /// Opens a reader of the map with this name. The map is of [`Kind::Qp`] or [`Kind::KernelQp`].
    ///
    /// # Errors
    /// [`Error::NoWindow`]; [`Error::Value`] when its values have another size, or its owner made
    /// it with another type; [`Error::Damaged`].
    pub fn reader<V: CheckedValue>(&self, name: &str) -> Result<CheckedReader<V>, Error> {
        let window = match self.window(name, Kind::KernelQp) {
            Ok(window) => window,
            Err(_) => self.window(name, Kind::Qp)?,
        };
        self.reader_of(window)
    }

    /// Opens a reader as [`reader`](Self::reader) does, of the map in this window.
    pub(crate) fn reader_of<V: CheckedValue>(
        &self,
        window: WindowInfo,
    ) -> Result<CheckedReader<V>, Error> {
        let arena = self.clone();
        CheckedReader::new(WindowSource { arena, window })
    }
}
