//! `LiveFib`: a table of routes that another process writes, and `LiveFibWriter`, which writes one.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use ipnet::IpNet;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyType};
use sapwood::lpm::{IpFib, IpFibView};
use sapwood_live::{CheckedIp, CheckedLiveReader, Error, Live};

use crate::address::{Key, key_of, prefix_of, shown};
use crate::batch::{self, Addresses};
use crate::errors::refused;
use crate::fib_table::{absent, longest};
use crate::live::{self, Pool, Standing, ToChange, Trusting, Writer, not_live, patiently};
use crate::live_texts::{TRIES, Texts, attempted, object};
use crate::numbers::whole;
use crate::snapshot_iter::{Kind, listed};

enum Table {
    Reader(Trusting<IpFib<u32>>),
    /// Readers that the writer does not know of.
    Checked(Pool<CheckedLiveReader<IpFib<u32>>>),
    Writer(Arc<Writer<IpFib<u32>>>),
}

/// A table of routes that another process writes, read in place: readers take no lock, and each
/// lookup sees the table before a change or after it.
///
/// The table is a directory, which LiveFib.create() makes, or the program `sapwood`
/// (`routes serve`). Values are int, or str in tables of the program. The reader holds nothing back
/// between two calls. Threads may share it, and children of a fork may go on reading. It is a
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
    /// The texts of the numbers, if it is a table of the program.
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

    /// The number that `f` finds, and its object.
    fn find<'py, T>(
        &self,
        py: Python<'py>,
        f: impl Fn() -> PyResult<Option<(T, u32)>>,
    ) -> PyResult<Option<(T, Bound<'py, PyAny>)>> {
        attempted(|| {
            let Some((found, number)) = f()? else {
                return Ok(Some(None));
            };
            let object = object(py, self.texts.as_ref(), number.into())?;
            Ok(object.map(|object| Some((found, object))))
        })
    }

    fn value<'py>(&self, py: Python<'py>, key: Key) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = self.find(py, || Ok(self.number(key)?.map(|number| ((), number))))?;
        Ok(found.map(|((), object)| object))
    }

    fn live(&self) -> &dyn Standing {
        match &self.table {
            Table::Reader(pool) => pool,
            Table::Checked(pool) => pool,
            Table::Writer(writer) => &**writer,
        }
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

#[pymethods]
impl LiveFib {
    /// Opens the live table in a directory. With wait=seconds, it waits so long for a table that is
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

    /// Makes an empty live table in a directory, which is made if it is not there, and returns its
    /// writer; `root_bits` is as for Fib, `read_by` as for LiveNames.create(). FileExistsError when
    /// the directory has a live map.
    #[classmethod]
    #[pyo3(signature = (path, /, *, root_bits=18, read_by=None))]
    fn create(
        class: &Bound<'_, PyType>,
        path: PathBuf,
        root_bits: u8,
        read_by: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<LiveFibWriter>> {
        LiveFibWriter::of(class.py(), (path, false), root_bits, read_by)
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
        LiveFibWriter::of(class.py(), (path, true), root_bits, read_by)
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
        for (number, text) in texts.all(py)? {
            dict.set_item(number, text)?;
        }
        Ok(dict)
    }

    /// An iterator for views.
    fn _walk<'py>(&self, py: Python<'py>, kind: &str, back: bool) -> PyResult<Bound<'py, PyAny>> {
        let kind = Kind::of(kind)?;
        let entries = attempted(|| {
            let mut entries = Vec::new();
            for (net, number) in self.all(py)? {
                let value = match kind {
                    // Keys do not need the values, whose texts may be many reads.
                    Kind::Keys => Some(py.None().into_bound(py)),
                    _ => object(py, self.texts.as_ref(), number.into())?,
                };
                let Some(value) = value else { return Ok(None) };
                entries.push((PyString::new(py, &net.to_string()).into_any(), value));
            }
            Ok(Some(entries))
        })?;
        listed(py, kind, back, entries)
    }

    /// What LiveReading and LiveWriting in python/sapwood/_mapping.py ask for.
    fn _live<'py>(&self, py: Python<'py>, what: &str) -> PyResult<Bound<'py, PyAny>> {
        self.live().asked(py, what)
    }

    /// What opens the table again, for pickles: its path, and named arguments of open().
    fn _opened<'py>(&self, py: Python<'py>) -> PyResult<(&PathBuf, Bound<'py, PyDict>)> {
        live::opened(py, &self.path, self.live())
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let (class, this) = (slf.get_type().name()?, slf.get());
        let prefixes = this.__len__()?;
        Ok(format!(
            "<sapwood.{class} {:?}: {prefixes} prefixes>",
            this.path
        ))
    }
}

/// The writer of a live table of routes, which other processes read with LiveFib.open().
///
/// LiveFib.create() and LiveFib.take_over() make it. It is also a reader, and a
/// collections.abc.MutableMapping. Values are int from 0 to 2**32 - 1. The table has a writer until
/// close(), or until the process ends; it stays in its directory until remove_map(). A child of a
/// fork cannot write it.
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
pub struct LiveFibWriter {
    writer: Arc<Writer<IpFib<u32>>>,
}

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
        (path, take_over): (PathBuf, bool),
        root_bits: u8,
        read_by: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<Self>> {
        let who = live::read_by(read_by)?;
        if !matches!(root_bits, 6 | 12 | 18 | 24) {
            let text = format!("root_bits is 6, 12, 18 or 24, not {root_bits}");
            return Err(PyValueError::new_err(text));
        }
        let builder = Live::<IpFib<u32>>::builder().map(|fib| fib.root_bits(root_bits));
        let writer = Writer::new(py, (&path, take_over), who, builder, |map| map.verify());
        let writer = writer.map_err(not_live)?;
        let table = LiveFib {
            table: Table::Writer(writer.clone()),
            texts: None,
            path,
        };
        let class = PyClassInitializer::from(table);
        Py::new(py, class.add_subclass(LiveFibWriter { writer }))
    }

    /// Calls `f` with the table, without the interpreter's lock.
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&Live<IpFib<u32>>) -> Result<R, sapwood::Error> + Send,
    ) -> PyResult<R> {
        let done = self.writer.with(|map| py.detach(|| f(map)))?;
        done.map_err(refused)
    }
}

#[pymethods]
impl LiveFibWriter {
    /// Inserts a prefix or replaces its value; returns the old value, or None.
    #[pyo3(signature = (prefix, value, /))]
    fn insert(&self, prefix: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
        let (net, number) = (prefix_of(prefix)?, number_of(value)?);
        self.with(prefix.py(), |map| Ok(map.insert(net, number)?))
    }

    fn _take(&self, prefix: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
        let net = prefix_of(prefix)?;
        self.with(prefix.py(), |map| Ok(map.remove(net)?))
    }

    /// Removes all prefixes, in one transaction.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |map| {
            let mut txn = map.begin();
            let all: Vec<IpNet> = map.snapshot().iter().map(|(net, _)| net).collect();
            for net in all {
                txn.remove(net)?;
            }
            txn.commit();
            Ok(())
        })
    }

    fn _change(&self, py: Python<'_>, changes: ToChange<'_>) -> PyResult<()> {
        let changes = changes.read(prefix_of, number_of)?;
        self.with(py, |map| {
            let mut txn = map.begin();
            for net in changes.gone {
                txn.remove(net)?;
            }
            for (net, number) in changes.new {
                txn.insert(net, number)?;
            }
            txn.commit();
            Ok(())
        })
    }
}
