//! What the classes of live maps share: readers, writers, and what a fork means for both.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{
    PyBlockingIOError, PyFileExistsError, PyFileNotFoundError, PyPermissionError, PyRuntimeError,
    PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyString};
use sapwood::qp::{OrderedRead, QpStore};
use sapwood_live::{
    CheckedLiveReader, CheckedMap, CheckedNames, Error, Live, LiveBuilder, LiveIdle, LiveMap,
    LiveReader, LiveReaderInfo, LiveValue, NameMap, Process, ReadBy,
};

use crate::address::shown;
use crate::errors::{no_space, refused, system};
use crate::name_reader::Names;
use crate::numbers::whole;
use crate::pairs::pairs;

/// The readers that a pool keeps while nobody reads.
const KEPT: usize = 64;

/// The time between two looks for signals, such as that of Ctrl-C, while a reader waits for a map.
const LOOK: Duration = Duration::from_millis(50);

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

/// Opens a map, and waits up to so many seconds for one that is not there yet. `open` gets the time
/// that it may wait itself.
pub fn patiently<T: Send>(
    py: Python<'_>,
    wait: Option<f64>,
    open: impl Fn(Duration) -> Result<T, Error> + Sync,
) -> PyResult<T> {
    let limit = match wait {
        None => Duration::ZERO,
        // Longer than anybody waits.
        Some(seconds) if seconds > 1e15 => Duration::MAX,
        Some(seconds) => Duration::try_from_secs_f64(seconds).map_err(|_| {
            PyValueError::new_err(format!(
                "wait is a number of seconds from 0 on, not {seconds}"
            ))
        })?,
    };
    let begun = Instant::now();
    loop {
        let left = limit.saturating_sub(begun.elapsed());
        match py.detach(|| open(left.min(LOOK))) {
            Err(Error::NotYet { .. }) if !left.is_zero() => py.check_signals()?,
            done => return done.map_err(not_live),
        }
    }
}

/// Who may register as a reader, as `create` and `take_over` get it.
pub fn read_by(who: Option<&Bound<'_, PyAny>>) -> PyResult<Option<ReadBy>> {
    let Some(who) = who else { return Ok(None) };
    if let Ok(text) = who.cast::<PyString>() {
        match text.to_str()? {
            "owner" => return Ok(Some(ReadBy::Owner)),
            "everybody" => return Ok(Some(ReadBy::Everybody)),
            _ => {}
        }
    } else if who.is_instance_of::<PyInt>()
        && let Some(group) = whole::<u32>(who)?
    {
        return Ok(Some(ReadBy::Group(group)));
    } else {
        let text = format!("read_by is a str or the int of a group, not {}", shown(who));
        return Err(PyTypeError::new_err(text));
    }
    let text = format!(
        "read_by is \"owner\", \"everybody\" or the number of a group, not {}",
        shown(who)
    );
    Err(PyValueError::new_err(text))
}

/// A live map in this process: readers of it, or its writer.
pub trait Standing {
    /// Whether the writer knows of the readers. `TypeError` for the writer itself.
    fn registered(&self) -> PyResult<bool>;

    /// The answer to what `LiveReading` and `LiveWriting` in `_mapping.py` ask.
    fn asked<'py>(&self, py: Python<'py>, what: &str) -> PyResult<Bound<'py, PyAny>>;
}

/// What opens a live map again, for pickles: its path, and named arguments of open().
pub fn opened<'py, 'p>(
    py: Python<'py>,
    path: &'p PathBuf,
    live: &dyn Standing,
) -> PyResult<(&'p PathBuf, Bound<'py, PyDict>)> {
    let how = PyDict::new(py);
    how.set_item("registered", live.registered()?)?;
    Ok((path, how))
}

/// A reader of a live map that holds nothing back between two calls.
pub trait Pooled: Sized {
    /// Whether the map's writer knows of it.
    const REGISTERED: bool;

    /// Opens the map in a directory, and waits this long for one that is not there yet.
    fn open(folder: &Path, wait: Duration) -> Result<Self, Error>;

    /// How many times processes have taken the map over.
    fn generation(&mut self) -> Result<u64, Error>;

    /// Whether the map's writer lives.
    fn has_writer(&mut self) -> Result<bool, Error>;
}

impl<M: LiveMap> Pooled for LiveIdle<M> {
    const REGISTERED: bool = true;

    fn open(folder: &Path, wait: Duration) -> Result<Self, Error> {
        Ok(LiveReader::open_within(folder, wait)?.idle())
    }

    fn generation(&mut self) -> Result<u64, Error> {
        self.read(|_| ())?;
        Ok(LiveIdle::generation(self))
    }

    fn has_writer(&mut self) -> Result<bool, Error> {
        LiveIdle::has_writer(self)
    }
}

/// One that the writer does not know of.
impl<M: CheckedMap> Pooled for CheckedLiveReader<M> {
    const REGISTERED: bool = false;

    fn open(folder: &Path, wait: Duration) -> Result<Self, Error> {
        Self::open_unregistered_within(folder, wait)
    }

    fn generation(&mut self) -> Result<u64, Error> {
        self.quiescent()?;
        Ok(CheckedLiveReader::generation(self))
    }

    fn has_writer(&mut self) -> Result<bool, Error> {
        CheckedLiveReader::has_writer(self)
    }
}

impl<M: NameMap> Pooled for CheckedNames<M> {
    const REGISTERED: bool = false;

    fn open(folder: &Path, wait: Duration) -> Result<Self, Error> {
        <CheckedLiveReader<M> as Pooled>::open(folder, wait).map(CheckedNames::new)
    }

    fn generation(&mut self) -> Result<u64, Error> {
        Pooled::generation(self.reader())
    }

    fn has_writer(&mut self) -> Result<bool, Error> {
        Pooled::has_writer(self.reader())
    }
}

/// Readers of a live map. Each is used by one thread at a time, and is offline in between.
pub struct Pool<R> {
    folder: PathBuf,
    idle: Mutex<Vec<Ours<R>>>,
    process: Process,
}

/// Those that trust the memory, of which the writer knows.
pub type Trusting<M> = Pool<LiveIdle<M>>;

impl<R: Pooled> Pool<R> {
    pub fn open(folder: &Path, wait: Duration) -> Result<Self, Error> {
        let first = Ours::new(R::open(folder, wait)?);
        Ok(Pool {
            folder: folder.to_owned(),
            idle: Mutex::new(vec![first]),
            process: Process::current(),
        })
    }

    /// The readers that nobody uses. A child of a fork may have a lock that a thread of its parent
    /// held, and that nobody will release: then there are none.
    fn idle(&self) -> Option<MutexGuard<'_, Vec<Ours<R>>>> {
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
    pub fn with<T>(&self, f: impl FnOnce(&mut R) -> Result<T, Error>) -> Result<T, Error> {
        // Those of a process that has forked are dropped without a trace.
        let kept = self.idle().and_then(|mut idle| idle.pop());
        let kept = kept.filter(Ours::is_ours);
        let mut reader = match kept {
            Some(reader) => reader,
            None => Ours::new(R::open(&self.folder, Duration::ZERO)?),
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
}

impl<R: Pooled> Standing for Pool<R> {
    fn registered(&self) -> PyResult<bool> {
        Ok(R::REGISTERED)
    }

    fn asked<'py>(&self, py: Python<'py>, what: &str) -> PyResult<Bound<'py, PyAny>> {
        match what {
            "generation" => self
                .with(R::generation)
                .map_err(not_live)?
                .into_bound_py_any(py),
            "has_writer" => self
                .with(R::has_writer)
                .map_err(not_live)?
                .into_bound_py_any(py),
            other => Err(not_asked("reader", other)),
        }
    }
}

fn not_asked(who: &str, what: &str) -> PyErr {
    PyValueError::new_err(format!("a {who} cannot be asked for {what:?}"))
}

impl<M: LiveMap> Pool<LiveIdle<M>> {
    /// Calls `f` with the newest map.
    pub fn read<T>(&self, f: impl FnOnce(M::View<'_>) -> T) -> Result<T, Error> {
        self.with(|reader| reader.read(f))
    }
}

impl<M: NameMap> Names<M::Value> for Trusting<M>
where
    for<'r> M::View<'r>: OrderedRead<M::Value>,
    Self: Send + Sync,
{
    fn read(&self, _: Python<'_>, f: &mut dyn FnMut(&dyn OrderedRead<M::Value>)) -> PyResult<()> {
        Pool::read(self, |view| f(&view)).map_err(not_live)
    }

    fn live(&self) -> Option<&dyn Standing> {
        Some(self)
    }
}

impl<M: NameMap> Names<M::Value> for Pool<CheckedNames<M>>
where
    Self: Send + Sync,
{
    fn read(&self, _: Python<'_>, f: &mut dyn FnMut(&dyn OrderedRead<M::Value>)) -> PyResult<()> {
        self.with(|reader| reader.ask(|names| f(names)))
            .map_err(not_live)
    }

    fn live(&self) -> Option<&dyn Standing> {
        Some(self)
    }
}

impl<M: CheckedMap> Pool<CheckedLiveReader<M>> {
    /// Calls `f` with the newest map, again when changes disturb it.
    pub fn ask<T>(&self, f: impl FnMut(M::Checked<'_>) -> Result<T, Error>) -> Result<T, Error> {
        self.with(|reader| reader.read(f))
    }
}

/// The writer of a live map, until it is closed.
pub struct Writer<M: LiveMap> {
    live: Mutex<Option<Arc<Ours<Live<M>>>>>,
    process: Process,
    verify: Verify<M>,
}

/// Checks every invariant of a map.
type Verify<M> = fn(&Live<M>) -> Result<(), String>;

impl<M: LiveMap> Writer<M> {
    /// The writer of a map that is made in a directory, or of the one that is there (`take_over`).
    pub fn new(
        py: Python<'_>,
        (folder, take_over): (&Path, bool),
        read_by: Option<ReadBy>,
        mut builder: LiveBuilder<M>,
        verify: Verify<M>,
    ) -> Result<Arc<Self>, Error>
    where
        Live<M>: Send,
        LiveBuilder<M>: Send,
    {
        if let Some(who) = read_by {
            builder = builder.read_by(who);
        }
        let live = py.detach(|| match take_over {
            true => builder.open(folder),
            false => builder.create(folder),
        });
        Ok(Arc::new(Writer {
            live: Mutex::new(Some(Arc::new(Ours::new(live?)))),
            process: Process::current(),
            verify,
        }))
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
    fn close(&self) {
        if !self.process.is_current() {
            return; // what a child has is the parent's
        }
        let live = self.live().take();
        drop(live);
    }

    /// Deletes the map.
    fn remove(&self) -> PyResult<()> {
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
    fn readers<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
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

impl<M: LiveMap + Sync> Standing for Writer<M> {
    fn registered(&self) -> PyResult<bool> {
        Err(PyTypeError::new_err("a writer cannot be pickled"))
    }

    fn asked<'py>(&self, py: Python<'py>, what: &str) -> PyResult<Bound<'py, PyAny>> {
        match what {
            "generation" => return self.with(|map| map.generation())?.into_bound_py_any(py),
            "has_writer" => return self.with(|_| true)?.into_bound_py_any(py),
            "readers" => return self.readers(py)?.into_bound_py_any(py),
            "verify" => {
                let verify = self.verify;
                let whole = self.with(|map| py.detach(|| verify(map)))?;
                whole.map_err(PyValueError::new_err)?;
            }
            "close" => self.close(),
            "remove_map" => self.remove()?,
            other => return Err(not_asked("writer", other)),
        }
        Ok(py.None().into_bound(py))
    }
}

impl<V: ?Sized + LiveValue> Names<V> for Writer<QpStore<V>>
where
    Self: Send + Sync,
{
    fn read(&self, _: Python<'_>, f: &mut dyn FnMut(&dyn OrderedRead<V>)) -> PyResult<()> {
        self.with(|map| map.read(|view| f(&view)))
    }

    fn live(&self) -> Option<&dyn Standing> {
        Some(self)
    }
}

/// What `update()` of a live map is called with: items, keys to remove, and named arguments.
#[derive(FromPyObject)]
pub struct ToChange<'py>(
    Option<Bound<'py, PyAny>>,
    Option<Bound<'py, PyAny>>,
    Bound<'py, PyDict>,
);

/// Keys that go, and entries that come after that.
pub struct Changes<K, V> {
    pub gone: Vec<K>,
    pub new: Vec<(K, V)>,
}

impl ToChange<'_> {
    /// Reads all keys and values, before anything is changed.
    pub fn read<K, V>(
        &self,
        key_of: impl Fn(&Bound<'_, PyAny>) -> PyResult<K>,
        value_of: impl Fn(&Bound<'_, PyAny>) -> PyResult<V>,
    ) -> PyResult<Changes<K, V>> {
        let ToChange(items, remove, others) = self;
        let (mut gone, mut new) = (Vec::new(), Vec::new());
        for pair in pairs(items.as_ref(), Some(others))? {
            let (key, value) = pair?;
            new.push((key_of(&key)?, value_of(&value)?));
        }
        if let Some(remove) = remove {
            for key in remove.try_iter()? {
                gone.push(key_of(&key?)?);
            }
        }
        Ok(Changes { gone, new })
    }
}
