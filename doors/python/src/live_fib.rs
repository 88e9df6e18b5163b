//! `LiveFib`: a table of routes that another process writes, and `LiveFibWriter`, which writes one.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use ipnet::IpNet;
use pyo3::exceptions::{PyKeyError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};
use sapwood::lpm::{IpFib, IpFibView};
use sapwood_live::{CheckedIp, CheckedLiveReader, Error, Live, ReadBy};

use crate::address::{Key, key_of, prefix_of, shown};
use crate::batch::{self, Addresses};
use crate::errors::refused;
use crate::fib_table::{absent, longest};
use crate::live::{self, Pool, Trusting, Writer, builder, not_live, patiently};
use crate::live_texts::Texts;
use crate::numbers::whole;
use crate::pairs::{at_most_one, pairs};
use crate::snapshot_iter::{Kind, listed};

/// The attempts to find a number and its text while the writer changes both, and to read a whole
/// table.
const TRIES: usize = 1000;

/// What makes a reader again from a pickle, with its arguments: path, and whether the writer knows
/// of it.
pub type Pickled<'py> = (Bound<'py, PyAny>, (PathBuf, bool));

enum Table {
    Reader(Trusting<IpFib<u32>>),
    /// Readers that the writer does not know of.
    Checked(Pool<CheckedLiveReader<IpFib<u32>>>),
    Writer(Writer<IpFib<u32>>),
}

/// A table of routes that another process writes, read in place: readers take no lock, and each
/// lookup sees the table before a change or after it.
///
/// The table is a folder, which LiveFib.create() makes, or the program `sapwood` (`routes serve`).
/// Values are int, or str in tables of the program. The reader holds nothing back between two
/// calls. Threads may share it, and children of a fork may go on reading. It is a
/// collections.abc.Mapping; beside a writer, each entry that a view yields was there at some time.
///
/// >>> import os, tempfile
/// >>> from sapwood import LiveFib
/// >>> path = os.path.join(tempfile.mkdtemp(), "origins")
/// >>> writer = LiveFib.create(path)
/// >>> origins = LiveFib.open(path)  # in any process
/// >>> writer.update({"10.0.0.0/8": 64500, "2001:db8::/32": 64501})
/// >>> origins["10.1.2.3"], origins.lookup("2001:db8::1"), len(origins)
/// (64500, ('2001:db8::/32', 64501), 2)
/// >>> origins.lookup_many(["10.1.2.3", "192.0.2.1"]).tolist()
/// [64500, -1]
/// >>> writer.remove_map()
#[pyclass(frozen, mapping, subclass, weakref, module = "sapwood")]
pub struct LiveFib {
    table: Table,
    /// The texts of the numbers, under the numbers as four bytes, most significant first.
    texts: Option<Texts>,
    path: PathBuf,
}

impl LiveFib {
    /// Calls `f` with a view, or `checked` where the memory is read with checks.
    fn read<R>(
        &self,
        f: impl FnOnce(IpFibView<'_, u32>) -> R,
        checked: impl FnMut(CheckedIp<'_, u32>) -> Result<R, Error>,
    ) -> PyResult<R> {
        match &self.table {
            Table::Reader(pool) => pool.read(f).map_err(not_live),
            Table::Checked(pool) => pool.ask(checked).map_err(not_live),
            Table::Writer(writer) => writer.with(|map| map.read(f)),
        }
    }

    /// The number of an address, or of exactly this prefix.
    fn number(&self, key: Key) -> PyResult<Option<u32>> {
        self.read(
            |view| {
                let number = match key {
                    Key::Address(address) => view.lookup_value(address),
                    Key::Prefix(net) => view.get(net),
                };
                number.copied()
            },
            |table| match key {
                Key::Address(address) => Ok(table.lookup(address)?.map(|(_, number)| number)),
                Key::Prefix(net) => table.get(net),
            },
        )
    }

    /// The longest prefix that covers an address or a prefix, and its number.
    fn longest(&self, key: Key) -> PyResult<Option<(IpNet, u32)>> {
        self.read(
            |view| longest(&view, key),
            |table| {
                let (address, found) = match key {
                    Key::Address(address) => (address, table.lookup(address)?),
                    Key::Prefix(net) => (net.addr(), table.covering(net)?.pop()),
                };
                Ok(found.and_then(|(len, number)| {
                    let net = IpNet::new(address, len).ok()?;
                    Some((net.trunc(), number))
                }))
            },
        )
    }

    /// The object of a number; none when its text has been removed meanwhile.
    fn object<'py>(&self, py: Python<'py>, number: u32) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(texts) = &self.texts else {
            return Ok(Some(number.into_pyobject(py)?.into_any()));
        };
        match texts.of(number)? {
            Some(text) => Ok(Some(text.into_pyobject(py)?.into_any())),
            None => Ok(None),
        }
    }

    /// The number that `f` finds, and its object.
    fn find<'py, T>(
        &self,
        py: Python<'py>,
        f: impl Fn() -> PyResult<Option<(T, u32)>>,
    ) -> PyResult<Option<(T, Bound<'py, PyAny>)>> {
        for _ in 0..TRIES {
            let Some((found, number)) = f()? else {
                return Ok(None);
            };
            if let Some(object) = self.object(py, number)? {
                return Ok(Some((found, object)));
            }
        }
        Err(changed())
    }

    fn value<'py>(&self, py: Python<'py>, key: Key) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = self.find(py, || Ok(self.number(key)?.map(|number| ((), number))))?;
        Ok(found.map(|((), object)| object))
    }

    /// All prefixes with their numbers.
    fn all(&self, py: Python<'_>) -> PyResult<Vec<(IpNet, u32)>> {
        match &self.table {
            Table::Writer(writer) => writer.with(|map| {
                let all = py.detach(|| map.snapshot());
                all.iter().map(|(net, number)| (net, *number)).collect()
            }),
            Table::Reader(_) => {
                let walk = || whole_table(CheckedLiveReader::open(&self.path)?);
                py.detach(walk).map_err(not_live)
            }
            Table::Checked(_) => {
                let walk = || whole_table(CheckedLiveReader::open_unregistered(&self.path)?);
                py.detach(walk).map_err(not_live)
            }
        }
    }
}

/// All prefixes that a reader finds. A walk that changes disturb is done again.
fn whole_table(mut reader: CheckedLiveReader<IpFib<u32>>) -> Result<Vec<(IpNet, u32)>, Error> {
    for _ in 1..TRIES {
        let all = reader.view()?.iter().collect();
        match all {
            Err(Error::Evicted { .. } | Error::Busy { .. }) => reader.quiescent()?,
            all => return all,
        }
    }
    reader.view()?.iter().collect()
}

/// The error of a reader that finds numbers whose texts are gone, again and again.
pub fn changed() -> PyErr {
    PyRuntimeError::new_err("the live map changed during each attempt to read it")
}

#[pymethods]
impl LiveFib {
    /// Opens the live table in a folder. With wait=seconds, it waits so long for a table that is
    /// not there yet. Only tables are read that no other user than root can write.
    ///
    /// With registered=False the reader writes nothing, and may read tables on read-only mounts and
    /// those of other users: see LiveNames.open(). Lookups check what they read, so they take
    /// longer.
    #[classmethod]
    #[pyo3(signature = (path, /, *, wait=None, registered=true))]
    fn open(
        class: &Bound<'_, PyType>,
        path: PathBuf,
        wait: Option<f64>,
        registered: bool,
    ) -> PyResult<Self> {
        let (table, texts) = patiently(class.py(), wait, |wait| {
            let table = match registered {
                true => Table::Reader(Pool::open(&path, wait)?),
                false => Table::Checked(Pool::open(&path, wait)?),
            };
            Ok((table, Texts::of_map(&path, registered)?))
        })?;
        Ok(LiveFib { table, texts, path })
    }

    #[classmethod]
    fn _again(class: &Bound<'_, PyType>, path: PathBuf, registered: bool) -> PyResult<Self> {
        Self::open(class, path, None, registered)
    }

    /// Makes an empty live table in a folder, which is made if it is not there, and returns its
    /// writer; `root_bits` is as for Fib, `read_by` as for LiveNames.create(). FileExistsError when
    /// the folder has a live map.
    #[classmethod]
    #[pyo3(signature = (path, /, *, root_bits=18, read_by=None))]
    fn create(
        class: &Bound<'_, PyType>,
        path: PathBuf,
        root_bits: u8,
        read_by: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<LiveFibWriter>> {
        LiveFibWriter::of(class.py(), path, root_bits, live::read_by(read_by)?, true)
    }

    /// Takes over the live table of a writer that has ended, however it ended, and returns a
    /// writer; `root_bits` is as for Fib, `read_by` as for LiveNames.take_over(). BlockingIOError
    /// when the table has a writer; ValueError when it is damaged. Tables of the program `sapwood`
    /// with values that are str are refused.
    #[classmethod]
    #[pyo3(signature = (path, /, *, root_bits=18, read_by=None))]
    fn take_over(
        class: &Bound<'_, PyType>,
        path: PathBuf,
        root_bits: u8,
        read_by: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<LiveFibWriter>> {
        if path.join("texts").exists() {
            let text = "the program `sapwood` writes this table, whose values are str";
            return Err(crate::errors::wrong_file(&path, text));
        }
        LiveFibWriter::of(class.py(), path, root_bits, live::read_by(read_by)?, false)
    }

    fn __len__(&self) -> PyResult<usize> {
        self.read(
            |view| view.len(),
            |table| Ok((table.v4().len()? + table.v6().len()?) as usize),
        )
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.value(key.py(), key_of(key)?)?
            .ok_or_else(|| absent(key))
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.number(key_of(key)?)?.is_some())
    }

    /// The value of exactly this prefix, or of the longest prefix of this address; `default` when
    /// there is none.
    #[pyo3(signature = (key, default=None, /))]
    fn get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.value(key.py(), key_of(key)?)?.or(default))
    }

    /// The value of exactly this prefix; an address is the prefix of this address alone.
    #[pyo3(signature = (prefix, default=None, /))]
    fn exact<'py>(
        &self,
        prefix: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let key = Key::Prefix(prefix_of(prefix)?);
        Ok(self.value(prefix.py(), key)?.or(default))
    }

    /// The longest prefix of an address, or the longest that covers a prefix (itself included), and
    /// its value; None when there is none.
    #[pyo3(signature = (key, /))]
    fn lookup<'py>(
        &self,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<(String, Bound<'py, PyAny>)>> {
        let at = key_of(key)?;
        let found = self.find(key.py(), || self.longest(at))?;
        Ok(found.map(|(net, value)| (net.to_string(), value)))
    }

    /// Looks up many addresses, as Fib.lookup_many() does, without the interpreter's lock. Returns
    /// an array of int64: the values if they are int, or their numbers in names(); -1 where an
    /// address has no prefix. With threads=n, up to n threads share a large batch, each with a
    /// reader of its own.
    #[pyo3(signature = (addresses, *, threads=1, mapped=false))]
    fn lookup_many<'py>(
        &self,
        addresses: &Bound<'py, PyAny>,
        threads: usize,
        mapped: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = addresses.py();
        let addresses = Addresses::of(addresses, mapped)?;
        let failed = Mutex::new(None);
        let found = batch::array(py, &addresses, batch::I64, threads, |part, out| {
            let out = out.as_chunks_mut().0;
            let find = |view: IpFibView<'_, u32>| batch::wide_numbers(view, part, out);
            let found = match &self.table {
                Table::Reader(pool) => pool.read(find).map_err(not_live),
                Table::Writer(writer) => writer.with(|map| map.read(find)),
                Table::Checked(pool) => pool
                    .with(|reader| batch::checked_numbers(reader, part, out))
                    .map_err(not_live),
            };
            if let Err(error) = found {
                *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
        })?;
        let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        failed.map_or(Ok(found), Err)
    }

    /// The values that are str, by number, as a dict; empty when the values are int.
    fn names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        let Some(texts) = &self.texts else {
            return Ok(dict);
        };
        for (number, text) in texts.all()? {
            dict.set_item(number, text)?;
        }
        Ok(dict)
    }

    /// An iterator for views.
    fn _walk<'py>(&self, py: Python<'py>, kind: &str, back: bool) -> PyResult<Bound<'py, PyAny>> {
        let kind = Kind::of(kind)?;
        'again: for _ in 0..TRIES {
            let mut entries = Vec::new();
            for (net, number) in self.all(py)? {
                let value = match kind {
                    // Keys do not need the values, whose texts may be many reads.
                    Kind::Keys => py.None().into_bound(py),
                    _ => match self.object(py, number)? {
                        Some(value) => value,
                        None => continue 'again,
                    },
                };
                entries.push((PyString::new(py, &net.to_string()).into_any(), value));
            }
            return listed(py, kind, back, entries);
        }
        Err(changed())
    }

    /// How many times processes have taken the table over.
    #[getter]
    fn generation(&self) -> PyResult<u64> {
        match &self.table {
            Table::Reader(pool) => pool.generation().map_err(not_live),
            Table::Checked(pool) => pool.generation().map_err(not_live),
            Table::Writer(writer) => writer.with(|map| map.generation()),
        }
    }

    /// Whether the table's writer lives. Without one, the table stays as it is until a process
    /// takes it over.
    fn has_writer(&self) -> PyResult<bool> {
        match &self.table {
            Table::Reader(pool) => pool.has_writer().map_err(not_live),
            Table::Checked(pool) => pool.has_writer().map_err(not_live),
            Table::Writer(writer) => writer.with(|_| true),
        }
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let (class, this) = (slf.get_type().name()?, slf.get());
        let prefixes = this.__len__()?;
        Ok(format!(
            "<sapwood.{class} {:?}: {prefixes} prefixes>",
            this.path
        ))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        let registered = match &slf.get().table {
            Table::Reader(_) => true,
            Table::Checked(_) => false,
            Table::Writer(_) => return Err(PyTypeError::new_err("a writer cannot be pickled")),
        };
        let again = slf.get_type().getattr("_again")?;
        Ok((again, (slf.get().path.clone(), registered)))
    }
}

/// The writer of a live table of routes, which other processes read with LiveFib.open().
///
/// LiveFib.create() and LiveFib.take_over() make it. It is also a reader, and a
/// collections.abc.MutableMapping. Values are int from 0 to 2**32 - 1. The table has a writer until
/// close(), or until the process ends; it stays in its folder until remove_map(). A child of a fork
/// cannot write it.
///
/// >>> import os, tempfile
/// >>> from sapwood import LiveFib
/// >>> path = os.path.join(tempfile.mkdtemp(), "routes")
/// >>> with LiveFib.create(path, root_bits=12) as routes:
/// ...     routes["10.0.0.0/8"] = 1
/// ...     routes.update({"10.1.0.0/16": 2, "::/0": 3}, remove=["10.0.0.0/8"])
/// ...     list(routes.items())
/// [('10.1.0.0/16', 2), ('::/0', 3)]
/// >>> routes = LiveFib.take_over(path, root_bits=12)
/// >>> routes.generation, routes.pop("::/0"), len(routes)
/// (1, 3, 1)
/// >>> routes.remove_map()
#[pyclass(frozen, extends = LiveFib, module = "sapwood")]
pub struct LiveFibWriter;

fn number_of(value: &Bound<'_, PyAny>) -> PyResult<u32> {
    whole(value)?.ok_or_else(|| {
        let shown = shown(value);
        let text = format!("{shown} is no value of this table: they are int from 0 to 2**32 - 1");
        PyValueError::new_err(text)
    })
}

impl LiveFibWriter {
    fn of(
        py: Python<'_>,
        path: PathBuf,
        root_bits: u8,
        read_by: Option<ReadBy>,
        new: bool,
    ) -> PyResult<Py<Self>> {
        if !matches!(root_bits, 6 | 12 | 18 | 24) {
            let text = format!("root_bits is 6, 12, 18 or 24, not {root_bits}");
            return Err(PyValueError::new_err(text));
        }
        let live = py.detach(|| {
            let builder = builder::<IpFib<u32>>(read_by).map(|fib| fib.root_bits(root_bits));
            match new {
                true => builder.create(&path),
                false => builder.open(&path),
            }
        });
        let table = LiveFib {
            table: Table::Writer(Writer::new(live.map_err(not_live)?, |map| map.verify())),
            texts: None,
            path,
        };
        let class = PyClassInitializer::from(table).add_subclass(LiveFibWriter);
        Py::new(py, class)
    }

    /// Calls `f` with the table, without the interpreter's lock.
    fn with<R: Send>(
        slf: &Bound<'_, Self>,
        f: impl FnOnce(&Live<IpFib<u32>>) -> R + Send,
    ) -> PyResult<R> {
        Self::writer(slf)?.with(|map| slf.py().detach(|| f(map)))
    }

    fn writer<'a>(slf: &'a Bound<'_, Self>) -> PyResult<&'a Writer<IpFib<u32>>> {
        match &slf.as_super().get().table {
            Table::Writer(writer) => Ok(writer),
            _ => Err(PyTypeError::new_err("this table has no writer here")),
        }
    }

    fn take(slf: &Bound<'_, Self>, prefix: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
        let net = prefix_of(prefix)?;
        Self::with(slf, |map| map.remove(net))?.map_err(refused)
    }
}

#[pymethods]
impl LiveFibWriter {
    fn __setitem__(
        slf: &Bound<'_, Self>,
        prefix: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        Self::insert(slf, prefix, value).map(drop)
    }

    fn __delitem__(slf: &Bound<'_, Self>, prefix: &Bound<'_, PyAny>) -> PyResult<()> {
        let old = Self::take(slf, prefix)?;
        old.map(drop).ok_or_else(|| absent(prefix))
    }

    /// Inserts a prefix or replaces its value; returns the old value, or None.
    #[pyo3(signature = (prefix, value, /))]
    fn insert(
        slf: &Bound<'_, Self>,
        prefix: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<Option<u32>> {
        let (net, number) = (prefix_of(prefix)?, number_of(value)?);
        let old = Self::with(slf, |map| map.insert(net, number))?;
        old.map_err(|rejected| refused(rejected.error))
    }

    /// Removes a prefix and returns its value. When it is not there, returns `default` or raises
    /// KeyError.
    #[pyo3(signature = (prefix, /, *default))]
    fn pop(
        slf: &Bound<'_, Self>,
        prefix: &Bound<'_, PyAny>,
        default: &Bound<'_, PyTuple>,
    ) -> PyResult<Py<PyAny>> {
        let default = at_most_one("pop", default)?;
        match Self::take(slf, prefix)? {
            Some(old) => Ok(old.into_pyobject(slf.py())?.into_any().unbind()),
            None => default.ok_or_else(|| PyKeyError::new_err(prefix.clone().unbind())),
        }
    }

    /// Removes all prefixes, in one transaction.
    fn clear(slf: &Bound<'_, Self>) -> PyResult<()> {
        let cleared = Self::with(slf, |map| {
            let mut txn = map.begin();
            let all: Vec<IpNet> = map.snapshot().iter().map(|(net, _)| net).collect();
            for net in all {
                txn.remove(net)?;
            }
            txn.commit();
            Ok::<_, sapwood::Error>(())
        })?;
        cleared.map_err(refused)
    }

    /// Removes the prefixes of an iterable, as far as they are there, and then inserts all items of
    /// a mapping or of an iterable of pairs, and the other named arguments, in one transaction.
    /// Readers may see a part of it for a moment. An error changes nothing.
    #[pyo3(signature = (items=None, /, *, remove=None, **others))]
    fn update(
        slf: &Bound<'_, Self>,
        items: Option<&Bound<'_, PyAny>>,
        remove: Option<&Bound<'_, PyAny>>,
        others: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let (mut new, mut gone) = (Vec::new(), Vec::new());
        for pair in pairs(items, others)? {
            let (prefix, value) = pair?;
            new.push((prefix_of(&prefix)?, number_of(&value)?));
        }
        if let Some(remove) = remove {
            for prefix in remove.try_iter()? {
                gone.push(prefix_of(&prefix?)?);
            }
        }
        let changed = Self::with(slf, |map| {
            let mut txn = map.begin();
            for net in gone {
                txn.remove(net)?;
            }
            for (net, number) in new {
                txn.insert(net, number)?;
            }
            txn.commit();
            Ok::<_, sapwood::Error>(())
        })?;
        changed.map_err(refused)
    }

    /// What LiveWriting in python/sapwood/_mapping.py asks the writer for.
    fn _writer<'py>(slf: &Bound<'py, Self>, what: &str) -> PyResult<Bound<'py, PyAny>> {
        Self::writer(slf)?.asked(slf.py(), what)
    }
}
