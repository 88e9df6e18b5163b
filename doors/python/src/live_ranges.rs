//! `LiveRanges`: a map of ranges that another process writes, and `LiveRangesWriter`, which writes
//! one.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyType};
use sapwood::maple::{MapleMap, PlainValue};
use sapwood_live::{CheckedLiveReader, Error, Live};

use crate::address::shown;
use crate::errors::refused;
use crate::fib_table::absent;
use crate::live::{self, Pool, Standing, Trusting, Writer, not_live, patiently};
use crate::live_texts::{Texts, attempted, object};
use crate::numbers::whole;
use crate::pairs::ToChange;
use crate::range_keys::{Key, Range, between, range_if, range_or_index, window};
use crate::snapshot_iter::{Kind, Place, listed};

enum Map {
    Reader(Trusting<MapleMap<u64>>),
    /// A map of the program `sapwood`, whose values are the numbers of texts.
    Texts(Trusting<MapleMap<u32>>),
    /// The same for readers that the writer does not know of.
    Checked(Pool<CheckedLiveReader<MapleMap<u64>>>),
    CheckedTexts(Pool<CheckedLiveReader<MapleMap<u32>>>),
    Writer(Arc<Writer<MapleMap<u64>>>),
}

/// Evaluates an expression for the newest map, in one read.
macro_rules! on {
    ($this:expr, $view:ident => $answer:expr) => {
        match &$this.map {
            Map::Reader(pool) => pool.read(|$view| $answer).map_err(not_live),
            Map::Texts(pool) => pool.read(|$view| $answer).map_err(not_live),
            Map::Checked(pool) => copied(pool).map(|map| map.read(|$view| $answer)),
            Map::CheckedTexts(pool) => copied(pool).map(|map| map.read(|$view| $answer)),
            Map::Writer(writer) => writer.with(|map| map.read(|$view| $answer)),
        }
    };
}

/// All of a map that is read with checks. Each entry was there at some time; of entries that
/// overlap, because the map changed meanwhile, the later one counts.
fn copied<V: PlainValue + Copy>(
    pool: &Pool<CheckedLiveReader<MapleMap<V>>>,
) -> PyResult<MapleMap<V>> {
    let all = pool.ask(|view| view.iter().collect::<Result<Vec<_>, _>>());
    let copy = MapleMap::new();
    for (range, value) in all.map_err(not_live)? {
        let stored = copy.store(range, value);
        stored.map_err(|rejected| refused(rejected.error))?;
    }
    Ok(copy)
}

/// A map of ranges of indices that another process writes, read in place: readers take no lock, and
/// each lookup sees the map before a change or after it.
///
/// The map is a directory, which LiveRanges.create() makes, or the program `sapwood`
/// (`ranges serve`). Values are int, or str in maps of the program. The reader holds nothing back
/// between two calls. Threads may share it, and children of a fork may go on reading. It is a
/// collections.abc.Mapping with the keys of RangeMap; beside a writer, each entry that a view
/// yields was there at some time, so one may reach back over others that it has replaced.
///
/// >>> import os, tempfile
/// >>> from sapwood import LiveRanges
/// >>> path = os.path.join(tempfile.mkdtemp(), "owners")
/// >>> writer = LiveRanges.create(path)
/// >>> owners = LiveRanges.open(path)  # in any process
/// >>> writer[100:200] = 7
/// >>> owners[150], 200 in owners, owners.entry(150), owners.find_gap(50, start=100)
/// (7, False, (range(100, 200), 7), range(200, 250))
/// >>> writer.remove_map()
#[pyclass(frozen, mapping, subclass, weakref, module = "sapwood")]
pub struct LiveRanges {
    map: Map,
    /// The texts of the numbers, if it is a map of the program.
    texts: Option<Texts>,
    path: PathBuf,
}

type Entry = (Range, u64);
type Pair<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

fn place<'py>(py: Python<'py>, range: &Range) -> PyResult<Bound<'py, PyAny>> {
    Place::Range(*range.start(), *range.end()).object(py)
}

impl LiveRanges {
    fn live(&self) -> &dyn Standing {
        match &self.map {
            Map::Reader(pool) => pool,
            Map::Texts(pool) => pool,
            Map::Checked(pool) => pool,
            Map::CheckedTexts(pool) => pool,
            Map::Writer(writer) => &**writer,
        }
    }

    /// The entries that `find` finds in one read, as objects.
    fn all<'py>(
        &self,
        py: Python<'py>,
        find: impl Fn() -> PyResult<Vec<Entry>>,
    ) -> PyResult<Vec<Pair<'py>>> {
        attempted(|| {
            let pair = |(range, value): Entry| {
                let value = object(py, self.texts.as_ref(), value)?;
                value
                    .map(|value| Ok((place(py, &range)?, value)))
                    .transpose()
            };
            find()?.into_iter().map(pair).collect()
        })
    }

    fn one<'py>(
        &self,
        py: Python<'py>,
        find: impl Fn() -> PyResult<Option<Entry>>,
    ) -> PyResult<Option<Pair<'py>>> {
        Ok(self.all(py, || Ok(Vec::from_iter(find()?)))?.pop())
    }

    fn within<'py>(&self, py: Python<'py>, range: Range) -> PyResult<Vec<Pair<'py>>> {
        self.all(
            py,
            || on!(self, view => view.range(range.clone()).map(wide).collect()),
        )
    }

    /// The entry that holds an index. A map that is read with checks is not copied for it.
    fn entry_at(&self, index: u64) -> PyResult<Option<Entry>> {
        match &self.map {
            Map::Checked(pool) => pool.ask(|view| view.get(index)).map_err(not_live),
            Map::CheckedTexts(pool) => {
                let found = pool.ask(|view| view.get(index)).map_err(not_live)?;
                Ok(found.map(|(range, value)| (range, value.into())))
            }
            _ => on!(self, view => view.get_entry(index).map(wide)),
        }
    }

    fn find<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let at = Key::of(key)?;
        let found = self.one(key.py(), || {
            let entry = self.entry_at(at.first())?;
            Ok(entry.filter(|(range, _)| at.fits(range)))
        })?;
        Ok(found.map(|(_, value)| value))
    }
}

/// An entry with its value in 64 bits.
fn wide<V: Copy + Into<u64>>((range, value): (Range, &V)) -> Entry {
    (range, (*value).into())
}

#[pymethods]
impl LiveRanges {
    /// Opens the live map in a directory. With wait=seconds, it waits so long for a map that is not
    /// there yet. Only maps are read that no other user than root can write.
    ///
    /// With registered=False the reader writes nothing, and may read maps on read-only mounts and
    /// those of other users: see LiveNames.open(). Then all but the lookups of an index and of a
    /// range copy the map, which takes time for all of it.
    #[classmethod]
    #[pyo3(signature = (path, /, *, wait=None, registered=true))]
    fn open(
        class: &Bound<'_, PyType>,
        path: PathBuf,
        wait: Option<f64>,
        registered: bool,
    ) -> PyResult<Self> {
        let (map, texts) = patiently(class.py(), wait, |wait| {
            let numbers = match registered {
                true => Pool::open(&path, wait).map(Map::Reader),
                false => Pool::open(&path, wait).map(Map::Checked),
            };
            let Err(first @ Error::Layout { .. }) = numbers else {
                return numbers.map(|map| (map, None));
            };
            let texts = Texts::of_map(&path, registered)?.ok_or(first)?;
            let map = match registered {
                true => Map::Texts(Pool::open(&path, wait)?),
                false => Map::CheckedTexts(Pool::open(&path, wait)?),
            };
            Ok((map, Some(texts)))
        })?;
        Ok(LiveRanges { map, texts, path })
    }

    /// Makes an empty live map in a directory, which is made if it is not there, and returns its
    /// writer; `read_by` is as for LiveNames.create(). FileExistsError when the directory has a
    /// live map.
    #[classmethod]
    #[pyo3(signature = (path, /, *, read_by=None))]
    fn create(
        class: &Bound<'_, PyType>,
        path: PathBuf,
        read_by: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<LiveRangesWriter>> {
        LiveRangesWriter::of(class.py(), (path, false), read_by)
    }

    /// Takes over the live map of a writer that has ended, however it ended, and returns a writer;
    /// `read_by` is as for LiveNames.take_over(). BlockingIOError when the map has a writer;
    /// ValueError when the map is damaged, or has other values than int.
    #[classmethod]
    #[pyo3(signature = (path, /, *, read_by=None))]
    fn take_over(
        class: &Bound<'_, PyType>,
        path: PathBuf,
        read_by: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<LiveRangesWriter>> {
        LiveRangesWriter::of(class.py(), (path, true), read_by)
    }

    fn __len__(&self) -> PyResult<usize> {
        on!(self, view => view.len())
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.find(key)?.ok_or_else(|| absent(key))
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let at = Key::of(key)?;
        let entry = self.entry_at(at.first())?;
        Ok(entry.is_some_and(|(range, _)| at.fits(&range)))
    }

    /// The value at an index, or of the entry with exactly this range; `default` when there is
    /// none.
    #[pyo3(signature = (key, default=None, /))]
    fn get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.find(key)?.or(default))
    }

    /// The entry that holds an index: its range and its value; None in a gap.
    #[pyo3(signature = (index, /))]
    fn entry<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<Option<Pair<'py>>> {
        let at = crate::range_keys::index(index)?;
        self.one(index.py(), || self.entry_at(at))
    }

    /// The first entry, or None.
    fn first<'py>(&self, py: Python<'py>) -> PyResult<Option<Pair<'py>>> {
        self.one(py, || on!(self, view => view.first().map(wide)))
    }

    /// The last entry, or None.
    fn last<'py>(&self, py: Python<'py>) -> PyResult<Option<Pair<'py>>> {
        self.one(py, || on!(self, view => view.last().map(wide)))
    }

    /// The first entry that begins behind an index, or None.
    #[pyo3(signature = (index, /))]
    fn next_after<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<Option<Pair<'py>>> {
        let at = crate::range_keys::index(index)?;
        self.one(
            index.py(),
            || on!(self, view => view.next_after(at).map(wide)),
        )
    }

    /// The last entry that ends before an index, or None.
    #[pyo3(signature = (index, /))]
    fn prev_before<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<Option<Pair<'py>>> {
        let at = crate::range_keys::index(index)?;
        self.one(
            index.py(),
            || on!(self, view => view.prev_before(at).map(wide)),
        )
    }

    /// An iterator for views, over the entries that have an index in a range.
    #[pyo3(signature = (kind, back, within=None))]
    fn _walk<'py>(
        &self,
        py: Python<'py>,
        kind: &str,
        back: bool,
        within: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let within = within.map_or(Ok(0..=u64::MAX), range_or_index)?;
        listed(py, Kind::of(kind)?, back, self.within(py, within)?)
    }

    /// A list of the gaps from `start` to before `stop`, clipped to it.
    #[pyo3(signature = (start=None, stop=None, /))]
    fn gaps<'py>(
        &self,
        py: Python<'py>,
        start: Option<&Bound<'py, PyAny>>,
        stop: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let within = between(start, stop)?;
        let gaps: Vec<Range> = on!(self, view => view.gaps(within).collect())?;
        let gaps = gaps.iter().map(|gap| place(py, gap));
        PyList::new(py, gaps.collect::<PyResult<Vec<_>>>()?)
    }

    /// The place that RangeMap.find_gap() finds; None when there is none.
    #[pyo3(signature = (size, /, *, start=None, stop=None, align=1, from_end=false, near=None))]
    #[allow(clippy::too_many_arguments)]
    fn find_gap<'py>(
        &self,
        py: Python<'py>,
        size: u64,
        start: Option<&Bound<'py, PyAny>>,
        stop: Option<&Bound<'py, PyAny>>,
        align: u64,
        from_end: bool,
        near: Option<u64>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let window = window(start, stop, align, from_end, near)?;
        if size == 0 || !align.is_power_of_two() {
            return Err(refused(match size {
                0 => sapwood::maple::Error::ZeroSize,
                _ => sapwood::maple::Error::Alignment { align },
            }));
        }
        let found = on!(self, view => view.find_gap(size, window))?;
        found.map(|range| place(py, &range)).transpose()
    }

    /// What LiveReading and LiveWriting in python/sapwood/_mapping.py ask for.
    fn _live<'py>(&self, py: Python<'py>, what: &str) -> PyResult<Bound<'py, PyAny>> {
        self.live().asked(py, what)
    }

    /// What opens the map again, for pickles: its path, and named arguments of open().
    fn _opened<'py>(&self, py: Python<'py>) -> PyResult<(&PathBuf, Bound<'py, PyDict>)> {
        live::opened(py, &self.path, self.live())
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let (class, this) = (slf.get_type().name()?, slf.get());
        let entries = this.__len__()?;
        Ok(format!(
            "<sapwood.{class} {:?}: {entries} entries>",
            this.path
        ))
    }
}

/// The writer of a live map of ranges, which other processes read with LiveRanges.open().
///
/// LiveRanges.create() and LiveRanges.take_over() make it. It is also a reader, and a
/// collections.abc.MutableMapping. Values are int from 0 to 2**64 - 1. Readers see each change as a
/// whole, or nothing of it yet. The map has a writer until close(), or until the process ends; it
/// stays in its directory until remove_map(). A child of a fork cannot write it.
///
/// >>> import os, tempfile
/// >>> from sapwood import LiveRanges
/// >>> path = os.path.join(tempfile.mkdtemp(), "memory")
/// >>> with LiveRanges.create(path) as memory:
/// ...     memory[0x1000:0x2000] = 1
/// ...     memory.alloc(0x800, 2, start=0x1000)
/// range(8192, 10240)
/// >>> memory = LiveRanges.take_over(path)
/// >>> memory.generation, memory.remove(0x2000), len(memory)
/// (1, (range(8192, 10240), 2), 1)
/// >>> memory.remove_map()
#[pyclass(frozen, extends = LiveRanges, module = "sapwood")]
pub struct LiveRangesWriter {
    writer: Arc<Writer<MapleMap<u64>>>,
}

fn number_of(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    whole(value)?.ok_or_else(|| {
        let shown = shown(value);
        let text = format!("{shown} is no value of this map: they are int from 0 to 2**64 - 1");
        PyValueError::new_err(text)
    })
}

impl LiveRangesWriter {
    fn of(
        py: Python<'_>,
        (path, take_over): (PathBuf, bool),
        read_by: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<Self>> {
        let (place, who) = ((&*path, take_over), live::read_by(read_by)?);
        let builder = Live::<MapleMap<u64>>::builder();
        let writer = Writer::new(py, place, who, builder, |map| map.verify());
        let writer = writer.map_err(not_live)?;
        let map = LiveRanges {
            map: Map::Writer(writer.clone()),
            texts: None,
            path,
        };
        let class = PyClassInitializer::from(map);
        Py::new(py, class.add_subclass(LiveRangesWriter { writer }))
    }

    /// Changes the map, without the interpreter's lock.
    fn change<R: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&MapleMap<u64>) -> Result<R, sapwood::maple::Error> + Send,
    ) -> PyResult<R> {
        let changed = self.writer.with(|map| py.detach(|| f(map)))?;
        changed.map_err(refused)
    }
}

#[pymethods]
impl LiveRangesWriter {
    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.store(key, value, false).map(drop)
    }

    fn __delitem__(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        if range_if(key)?.is_none() && !slf.as_super().get().__contains__(key)? {
            return Err(absent(key));
        }
        let range = range_or_index(key)?;
        slf.get().change(slf.py(), |map| map.clear_range(range))
    }

    /// Makes a range one entry, as RangeMap.store() does, and returns the range of the entry.
    #[pyo3(signature = (range, value, /, *, coalesce=false))]
    fn store<'py>(
        &self,
        range: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        coalesce: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (range, number) = (range_or_index(range)?, number_of(value)?);
        let stored = self.change(value.py(), |map| match coalesce {
            true => Ok(map.store_coalescing(range, number)?),
            false => {
                map.store(range.clone(), number)?;
                Ok(range)
            }
        })?;
        place(value.py(), &stored)
    }

    /// As store(), if no entry has an index of the range; otherwise OccupiedError.
    #[pyo3(signature = (range, value, /))]
    fn insert(&self, range: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let (range, number) = (range_or_index(range)?, number_of(value)?);
        self.change(value.py(), |map| Ok(map.insert_new(range, number)?))
    }

    fn _take(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
        let at = Key::of(key)?;
        self.change(key.py(), |map| {
            let mut writer = map.write();
            let found = writer.view().get_entry(at.first());
            let found = found.filter(|(range, _)| at.fits(range));
            let Some(number) = found.map(|(_, number)| *number) else {
                return Ok(None);
            };
            writer.clear_range(at.range())?;
            Ok(Some(number))
        })
    }

    fn _change(&self, py: Python<'_>, changes: ToChange<'_>) -> PyResult<()> {
        let changes = changes.read(range_or_index, number_of)?;
        self.change(py, |map| {
            let mut writer = map.write();
            for range in changes.gone {
                writer.clear_range(range)?;
            }
            for (range, number) in changes.new {
                writer.store(range, number)?;
            }
            Ok(())
        })
    }

    /// Removes the whole entry that holds an index; returns its range and its value. KeyError in a
    /// gap.
    #[pyo3(signature = (index, /))]
    fn remove<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, u64)> {
        let at = crate::range_keys::index(index)?;
        let removed = self.change(index.py(), |map| map.remove(at))?;
        let (range, number) = removed.ok_or_else(|| absent(index))?;
        Ok((place(index.py(), &range)?, number))
    }

    /// Removes all entries.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.change(py, |map| map.clear())
    }

    /// Stores at the place that find_gap() finds, and returns its range; NoGapError when there is
    /// none.
    #[pyo3(signature = (size, value, /, *, start=None, stop=None, align=1, from_end=false, near=None))]
    #[allow(clippy::too_many_arguments)]
    fn alloc<'py>(
        &self,
        size: u64,
        value: &Bound<'py, PyAny>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        align: u64,
        from_end: bool,
        near: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let window = window(start, stop, align, from_end, near)?;
        let number = number_of(value)?;
        let alloc = |map: &MapleMap<u64>| Ok(map.alloc_range(size, window, number)?);
        place(value.py(), &self.change(value.py(), alloc)?)
    }
}
