//! What the classes of live maps share: readers, writers, and what a fork means for both.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use pyo3::exceptions::{
    PyBlockingIOError, PyFileExistsError, PyFileNotFoundError, PyPermissionError, PyRuntimeError,
    PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use sapwood_live::{Error, Live, LiveIdle, LiveMap, LiveReader, LiveReaderInfo, Process};

use crate::errors::{no_space, refused, system};

/// The readers that a pool keeps while nobody reads.
const KEPT: usize = 64;

/// A reader or a writer of this process. A child of a fork has a copy, which it must neither use
/// nor drop: its memory and its files are still those of the parent.
pub struct Ours<T> {
    value: Option<T>,
    process: Process,
}

impl<T> Ours<T> {
    pub fn new(value: T) -> Self {
        Ours {
            value: Some(value),
            process: Process::current(),
        }
    }

    fn is_ours(&self) -> bool {
        self.process.is_current()
    }

    /// The value; none in a child of a fork.
    fn get(&mut self) -> Option<&mut T> {
        match self.is_ours() {
            true => self.value.as_mut(),
            false => None,
        }
    }
}

impl<T> Drop for Ours<T> {
    fn drop(&mut self) {
        if !self.is_ours() {
            std::mem::forget(self.value.take());
        }
    }
}

/// The exception for an error of a live map.
pub fn not_live(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::Io { error, .. } => system(&error, text),
        Error::Unregistered { .. } => PyPermissionError::new_err(text),
        Error::NoSpace { .. } => no_space(text),
        Error::Exists { .. } => PyFileExistsError::new_err(text),
        Error::Owned { .. } => PyBlockingIOError::new_err(text),
        Error::NotYet { .. } | Error::Removed { .. } | Error::NoMap { .. } => {
            PyFileNotFoundError::new_err(text)
        }
        Error::Foreign { .. } => PyPermissionError::new_err(text),
        Error::Forked { .. } => PyRuntimeError::new_err(text),
        Error::Map(error) => refused(error),
        _ => PyValueError::new_err(text),
    }
}

/// Readers of a live map. Each is used by one thread at a time, and is offline in between.
pub struct Pool<M: LiveMap> {
    folder: PathBuf,
    idle: Mutex<Vec<Ours<LiveIdle<M>>>>,
    process: Process,
}

impl<M: LiveMap> Pool<M> {
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let pool = Pool {
            folder: folder.to_owned(),
            idle: Mutex::default(),
            process: Process::current(),
        };
        pool.with(|_| Ok(()))?;
        Ok(pool)
    }

    /// The readers that nobody uses. A child of a fork may have a lock that a thread of its parent
    /// held, and that nobody will release: then there are none.
    fn idle(&self) -> Option<MutexGuard<'_, Vec<Ours<LiveIdle<M>>>>> {
        if self.process.is_current() {
            return Some(self.idle.lock().unwrap_or_else(PoisonError::into_inner));
        }
        match self.idle.try_lock() {
            Ok(idle) => Some(idle),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Calls `f` with a reader that no other thread uses. No lock is held meanwhile.
    pub fn with<R>(
        &self,
        f: impl FnOnce(&mut LiveIdle<M>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        // Those of a process that has forked are dropped without a trace.
        let kept = self.idle().and_then(|mut idle| idle.pop());
        let kept = kept.filter(Ours::is_ours);
        let mut reader = match kept {
            Some(reader) => reader,
            None => Ours::new(LiveReader::open(&self.folder)?.idle()),
        };
        let Some(ours) = reader.get() else {
            unreachable!("no fork happens within this function");
        };
        let result = f(ours);
        if let Some(mut idle) = self.idle() {
            match &result {
                // The next call opens the map that may have been made in its place.
                Err(Error::Removed { .. }) => idle.clear(),
                _ if idle.len() < KEPT => idle.push(reader),
                _ => (),
            }
        }
        result
    }

    /// Calls `f` with the newest map.
    pub fn read<R>(&self, f: impl FnOnce(M::View<'_>) -> R) -> Result<R, Error> {
        self.with(|reader| reader.read(f))
    }

    /// How many times processes have taken the map over.
    pub fn generation(&self) -> Result<u64, Error> {
        self.with(|reader| {
            reader.read(|_| ())?;
            Ok(reader.generation())
        })
    }

    /// Whether the map's writer lives.
    pub fn has_writer(&self) -> Result<bool, Error> {
        self.with(|reader| reader.has_writer())
    }
}

/// The writer of a live map, until it is closed.
pub struct Writer<M: LiveMap> {
    live: Mutex<Option<Arc<Ours<Live<M>>>>>,
    process: Process,
}

impl<M: LiveMap> Writer<M> {
    pub fn new(live: Live<M>) -> Self {
        Writer {
            live: Mutex::new(Some(Arc::new(Ours::new(live)))),
            process: Process::current(),
        }
    }

    fn live(&self) -> MutexGuard<'_, Option<Arc<Ours<Live<M>>>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `f` with the map.
    pub fn with<R>(&self, f: impl FnOnce(&Live<M>) -> R) -> PyResult<R> {
        // Before the lock, which a thread of the parent may have held.
        if !self.process.is_current() {
            let text = "a child of a fork cannot write the live map of its parent";
            return Err(PyRuntimeError::new_err(text));
        }
        let live = self.live().clone();
        let closed = || PyValueError::new_err("the live map is closed");
        let live = live.ok_or_else(closed)?;
        live.value.as_ref().map(f).ok_or_else(closed)
    }

    /// Ends writing as soon as no other thread is in a call.
    pub fn close(&self) {
        if !self.process.is_current() {
            return; // what a child has is the parent's
        }
        let live = self.live().take();
        drop(live);
    }

    /// Deletes the map.
    pub fn remove(&self) -> PyResult<()> {
        self.with(|_| ())?;
        let mut kept = self.live();
        let alone = kept.take().map(Arc::try_unwrap);
        match alone {
            Some(Ok(mut live)) => match live.value.take() {
                Some(map) => map.remove_map().map_err(not_live),
                None => Ok(()),
            },
            Some(Err(shared)) => {
                *kept = Some(shared);
                let text = "another thread uses the live map";
                Err(PyRuntimeError::new_err(text))
            }
            None => Ok(()),
        }
    }

    /// The readers in all processes, each as a dict.
    pub fn readers<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let readers = self.with(|map| map.readers())?;
        let dict = |reader: LiveReaderInfo| {
            let dict = PyDict::new(py);
            dict.set_item("pid", reader.pid)?;
            dict.set_item("name", reader.name)?;
            dict.set_item("online", reader.seen != 0)?;
            dict.set_item("holds_back", reader.holds_back)?;
            Ok(dict)
        };
        readers.into_iter().map(dict).collect()
    }
}
