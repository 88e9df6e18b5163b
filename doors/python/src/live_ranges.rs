//! `LiveRanges`: a map of ranges that another process writes, and `LiveRangesWriter`, which writes
//! one.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use sapwood::maple::{MapleMap, MapleView, PlainValue};
use sapwood_live::{CheckedLiveReader, Error, Live};

use crate::address::shown;
use crate::errors::refused;
use crate::fib_table::absent;
use crate::live::{self, Pool, Standing, ToChange, Trusting, Writer, not_live, patiently};
use crate::live_texts::{Texts, attempted, object};
use crate::numbers::whole;
use crate::range_keys::{Key, Range, Search, place, range_or_index};
use crate::range_reader::{Entry, RangeReader, Ranges, View, find, wide};
use crate::snapshot_iter::{Kind, listed};

enum Map {
    Reader(Trusting<MapleMap<u64>>),
    /// A map of the program `sapwood`, whose values are the numbers of texts.
    Texts(Trusting<MapleMap<u32>>),
    /// The same for readers that the writer does not know of.
    Checked(Pool<CheckedLiveReader<MapleMap<u64>>>),
    CheckedTexts(Pool<CheckedLiveReader<MapleMap<u32>>>),
    Writer(Arc<Writer<MapleMap<u64>>>),
}

/// A live map, and the texts of its numbers if it is one of the program.
struct Table {
    map: Map,
    texts: Option<Texts>,
}

impl Table {
    fn live(&self) -> &dyn Standing {
        match &self.map {
            Map::Reader(pool) => pool,
            Map::Texts(pool) => pool,
            Map::Checked(pool) => pool,
            Map::CheckedTexts(pool) => pool,
            Map::Writer(writer) => &**writer,
        }
    }

    fn object(
        &self,
        py: Python<'_>,
        (range, value): Entry,
    ) -> PyResult<Option<(Range, Py<PyAny>)>> {
        let value = object(py, self.texts.as_ref(), value)?;
        Ok(value.map(|value| (range, value.unbind())))
    }
}

impl Ranges for Table {
    fn read(&self, f: &mut dyn FnMut(View<'_>)) -> PyResult<()> {
        let numbers = |view: MapleView<'_, u64>| f(View::Numbers(view));
        match &self.map {
            Map::Reader(pool) => pool.read(numbers).map_err(not_live),
            Map::Checked(pool) => copied(pool).map(|map| map.read(numbers)),
            Map::Writer(writer) => writer.with(|map| map.read(numbers)),
            Map::Texts(pool) => pool.read(|view| f(View::Names(view))).map_err(not_live),
            Map::CheckedTexts(pool) => {
                copied(pool).map(|map| map.read(|view| f(View::Names(view))))
            }
        }
    }

    /// A map that is read with checks is not copied for it.
    fn at(&self, index: u64) -> PyResult<Option<Entry>> {
        match &self.map {
            Map::Checked(pool) => pool.ask(|view| view.get(index)).map_err(not_live),
            Map::CheckedTexts(pool) => {
                let found = pool.ask(|view| view.get(index)).map_err(not_live)?;
                Ok(found.map(|(range, value)| (range, value.into())))
            }
            _ => find!((self as &dyn Ranges), view => view.get_entry(index).map(wide)),
        }
    }

    fn one(
        &self,
        py: Python<'_>,
        find: &dyn Fn() -> PyResult<Option<Entry>>,
    ) -> PyResult<Option<(Range, Py<PyAny>)>> {
        attempted(|| match find()? {
            Some(entry) => Ok(self.object(py, entry)?.map(Some)),
            None => Ok(Some(None)),
        })
    }

    fn all(&self, py: Python<'_>, within: &Range) -> PyResult<Vec<(Range, Py<PyAny>)>> {
        attempted(|| {
            let table: &dyn Ranges = self;
            let entries: Vec<Entry> =
                find!(table, view => view.range(within.clone()).map(wide).collect())?;
            let entries = entries.into_iter();
            entries.map(|entry| self.object(py, entry)).collect()
        })
    }
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
#[pyclass(frozen, extends = RangeReader, subclass, module = "sapwood")]
pub struct LiveRanges {
    table: Arc<Table>,
    path: PathBuf,
}

impl LiveRanges {
    fn of(map: Map, texts: Option<Texts>, path: PathBuf) -> PyClassInitializer<Self> {
        let table = Arc::new(Table { map, texts });
        let reader = RangeReader(table.clone());
        PyClassInitializer::from(reader).add_subclass(LiveRanges { table, path })
    }
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
    ) -> PyResult<Py<Self>> {
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
        Py::new(class.py(), Self::of(map, texts, path))
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
        let entries = self.table.all(py, &within)?.into_iter();
        let entries = entries.map(|(range, value)| Ok((place(py, &range)?, value.into_bound(py))));
        let entries = entries.collect::<PyResult<_>>()?;
        listed(py, Kind::of(kind)?, back, entries)
    }

    /// What LiveReading and LiveWriting in python/sapwood/_mapping.py ask for.
    fn _live<'py>(&self, py: Python<'py>, what: &str) -> PyResult<Bound<'py, PyAny>> {
        self.table.live().asked(py, what)
    }

    /// What opens the map again, for pickles: its path, and named arguments of open().
    fn _opened<'py>(&self, py: Python<'py>) -> PyResult<(&PathBuf, Bound<'py, PyDict>)> {
        live::opened(py, &self.path, self.table.live())
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let (class, this) = (slf.get_type().name()?, slf.get());
        let entries = slf.len()?;
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
        let class = LiveRanges::of(Map::Writer(writer.clone()), None, path);
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
        let at = Key::or_slice(key)?;
        if matches!(at, Key::Index(_)) && !slf.as_super().as_super().get().__contains__(key)? {
            return Err(absent(key));
        }
        slf.get()
            .change(slf.py(), |map| map.clear_range(at.range()))
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
    #[pyo3(signature = (size, value, /, *, start=None, stop=None, align=1, rest=None, guard=0,
        tightest=false, highest=false, near=None, starting_at=None))]
    #[allow(clippy::too_many_arguments)]
    fn alloc<'py>(
        &self,
        size: u64,
        value: &Bound<'py, PyAny>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        align: u64,
        rest: Option<u64>,
        guard: u64,
        tightest: bool,
        highest: bool,
        near: Option<&Bound<'_, PyAny>>,
        starting_at: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let search = Search {
            start,
            stop,
            align,
            rest,
            guard,
            tightest,
            highest,
            near,
            starting_at,
        };
        let window = search.window(size)?;
        let number = number_of(value)?;
        let alloc = |map: &MapleMap<u64>| Ok(map.alloc_range(size, window, number)?);
        place(value.py(), &self.change(value.py(), alloc)?)
    }
}
