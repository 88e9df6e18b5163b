//! What the methods of `Fib` are made of: prefixes in a table, and their objects by number.

use std::cmp::Ordering;

use ipnet::IpNet;
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use sapwood::Builder;
use sapwood::lpm::{IpFib, IpFibView};

use crate::address::Key;
use crate::errors::refused;
use crate::fib::Fib;
use crate::objects::SharedObjects;
use crate::snapshot_iter::{Kind, Numbered, Place, SnapshotIter};

/// The longest prefix that covers this key, and its value.
pub fn longest(view: &IpFibView<'_, u32>, key: Key) -> Option<(IpNet, u32)> {
    let found = match key {
        Key::Address(address) => view.lookup(address),
        Key::Prefix(net) => view.lookup_net(net),
    };
    found.map(|(net, value)| (net, *value))
}

/// All prefixes that cover this key, shortest first; a prefix itself is not among them.
pub fn above(view: &IpFibView<'_, u32>, key: Key) -> Vec<(IpNet, u32)> {
    let all = view.covering(key.prefix());
    let all = all.map(|(net, value)| (net, *value));
    match key {
        Key::Address(_) => all.collect(),
        Key::Prefix(prefix) => all.filter(|(net, _)| *net != prefix).collect(),
    }
}

/// The objects of a table, in the order of its prefixes.
type Held = Vec<(IpNet, Py<PyAny>)>;

/// `KeyError` for a key that is not there.
pub fn absent(key: &Bound<'_, PyAny>) -> PyErr {
    PyKeyError::new_err(key.clone().unbind())
}

impl Fib {
    fn builder(root_bits: u8) -> Builder<IpFib<u32>> {
        IpFib::builder().root_bits(root_bits)
    }

    /// A table of these prefixes and values. Of equal prefixes, the last wins.
    pub(crate) fn of(
        py: Python<'_>,
        root_bits: u8,
        routes: impl IntoIterator<Item = PyResult<(IpNet, Py<PyAny>)>>,
    ) -> PyResult<Fib> {
        let objects = SharedObjects::default();
        let mut entries: Vec<(IpNet, u32)> = Vec::new();
        for route in routes {
            let (net, value) = route?;
            let number = objects.with(py, |objects| objects.take(value.bind(py)))?;
            entries.push((net, number));
        }
        Self::with_numbers(py, root_bits, objects, entries)
    }

    /// A table of prefixes with numbers that were taken from `objects` once for each.
    pub(crate) fn with_numbers(
        py: Python<'_>,
        root_bits: u8,
        objects: SharedObjects,
        mut entries: Vec<(IpNet, u32)>,
    ) -> PyResult<Fib> {
        if !matches!(root_bits, 6 | 12 | 18 | 24) {
            let text = format!("root_bits is 6, 12, 18 or 24, not {root_bits}");
            return Err(PyValueError::new_err(text));
        }
        let mut doubles = Vec::new();
        let table = py.detach(|| {
            entries.sort_by_key(|(net, _)| *net);
            entries.dedup_by(|later, earlier| {
                let same = later.0 == earlier.0;
                if same {
                    doubles.push(std::mem::replace(&mut earlier.1, later.1));
                }
                same
            });
            Self::builder(root_bits).build_from(entries)
        });
        objects.with(py, |objects| {
            doubles.iter().for_each(|number| objects.give_back(*number));
        });
        Ok(Fib {
            table: table.map_err(refused)?,
            objects,
            root_bits,
        })
    }

    /// The value of a key, as `fib[key]` finds it.
    #[inline]
    pub(crate) fn find(&self, py: Python<'_>, key: Key) -> Option<Py<PyAny>> {
        self.objects.with(py, |objects| {
            let number = self.table.read(|view| match key {
                Key::Address(address) => view.lookup_value(address).copied(),
                Key::Prefix(net) => view.get(net).copied(),
            })?;
            objects.get(number).map(|object| object.clone_ref(py))
        })
    }

    pub(crate) fn put(&self, net: IpNet, value: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
        let py = value.py();
        self.objects.with(py, |objects| {
            let number = objects.take(value)?;
            match self.table.insert(net, number) {
                Ok(None) => Ok(None),
                Ok(Some(old)) => {
                    let object = objects.get(old).map(|object| object.clone_ref(py));
                    objects.give_back(old);
                    Ok(object)
                }
                Err(rejected) => {
                    objects.give_back(number);
                    Err(refused(rejected.error))
                }
            }
        })
    }

    /// Inserts all routes in one transaction, or none.
    pub(crate) fn put_all<'py, O>(&self, py: Python<'py>, routes: &[(IpNet, O)]) -> PyResult<()>
    where
        O: std::borrow::Borrow<Bound<'py, PyAny>>,
    {
        self.objects.with(py, |objects| {
            let mut txn = self.table.begin();
            let (mut taken, mut old) = (Vec::new(), Vec::new());
            let mut failed = None;
            for (net, value) in routes {
                let number = match objects.take(value.borrow()) {
                    Ok(number) => number,
                    Err(error) => {
                        failed = Some(error);
                        break;
                    }
                };
                taken.push(number);
                match txn.insert(*net, number) {
                    Ok(replaced) => old.extend(replaced.copied()),
                    Err(rejected) => {
                        failed = Some(refused(rejected.error));
                        break;
                    }
                }
            }
            let unused = match &failed {
                None => {
                    txn.commit();
                    old
                }
                Some(_) => {
                    txn.rollback();
                    taken
                }
            };
            unused.iter().for_each(|number| objects.give_back(*number));
            failed.map_or(Ok(()), Err)
        })
    }

    pub(crate) fn take(&self, py: Python<'_>, net: IpNet) -> PyResult<Option<Py<PyAny>>> {
        self.objects.with(py, |objects| {
            let Some(number) = self.table.remove(net).map_err(refused)? else {
                return Ok(None);
            };
            let object = objects.get(number).map(|object| object.clone_ref(py));
            objects.give_back(number);
            Ok(object)
        })
    }

    /// Another table with the prefixes that `choose` makes of those of this one, and the same
    /// objects.
    pub(crate) fn copy_of(
        &self,
        py: Python<'_>,
        choose: impl FnOnce(Vec<(IpNet, u32)>) -> Vec<(IpNet, u32)>,
    ) -> PyResult<Fib> {
        let (objects, entries) = self.objects.with(py, |from| {
            let entries = choose(self.entries());
            let to = SharedObjects::default();
            let mut numbers = vec![None; from.uses().count()];
            let copied = to.with(py, |to| {
                let mut number_of = |number: u32| -> PyResult<u32> {
                    if let Some(known) = numbers[number as usize] {
                        to.again(known);
                        return Ok(known);
                    }
                    let none = py.None();
                    let object = from.get(number).unwrap_or(&none);
                    let new = to.take(object.bind(py))?;
                    numbers[number as usize] = Some(new);
                    Ok(new)
                };
                let entries = entries.into_iter();
                entries
                    .map(|(net, number)| Ok((net, number_of(number)?)))
                    .collect::<PyResult<Vec<_>>>()
            });
            Ok::<_, PyErr>((to, copied?))
        })?;
        Self::with_numbers(py, self.root_bits, objects, entries)
    }

    /// All prefixes with their objects.
    fn held(&self, py: Python<'_>) -> Held {
        self.objects.with(py, |objects| {
            let object = |number| objects.get(number).map(|object| object.clone_ref(py));
            let entries = self.entries().into_iter();
            entries
                .filter_map(|(net, number)| Some((net, object(number)?)))
                .collect()
        })
    }

    /// The prefixes whose objects differ in a newer table, with both; `default` is for none.
    pub(crate) fn differences<'py>(
        &self,
        py: Python<'py>,
        newer: &Fib,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let default = default.unwrap_or_else(|| py.None());
        let (mut old, mut new) = (
            self.held(py).into_iter().peekable(),
            newer.held(py).into_iter().peekable(),
        );
        let mut changes = Vec::new();
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((old, _)), Some((new, _))) => old.cmp(new),
            };
            let (one, other) = (
                old.next_if(|_| order.is_le()),
                new.next_if(|_| order.is_ge()),
            );
            if let (Some((_, one)), Some((_, other))) = (&one, &other)
                && (one.is(other) || one.bind(py).eq(other)?)
            {
                continue;
            }
            let Some((net, _)) = one.as_ref().or(other.as_ref()) else {
                break;
            };
            let net = PyString::new(py, &net.to_string()).into_any().unbind();
            let [one, other] = [one, other].map(|held| match held {
                Some((_, object)) => object,
                None => default.clone_ref(py),
            });
            changes.push(PyTuple::new(py, [net, one, other])?);
        }
        PyList::new(py, changes)
    }

    /// Prefixes and values as a list of pairs.
    pub(crate) fn list<'py>(
        &self,
        py: Python<'py>,
        find: impl FnOnce() -> Vec<(IpNet, u32)>,
    ) -> PyResult<Bound<'py, PyList>> {
        let found: Vec<(String, Option<Py<PyAny>>)> = self.objects.with(py, |objects| {
            let object = |number| objects.get(number).map(|object| object.clone_ref(py));
            find()
                .into_iter()
                .map(|(net, number)| (net.to_string(), object(number)))
                .collect()
        });
        PyList::new(py, found)
    }

    pub(crate) fn iter(slf: &Bound<'_, Self>, kind: Kind, back: bool) -> SnapshotIter {
        let map = Numbered::Fib(slf.clone().unbind());
        SnapshotIter::new(slf.py(), map, kind, back, || {
            let entries = slf.get().entries().into_iter();
            entries
                .map(|(net, number)| (Place::Net(net), number))
                .collect()
        })
    }

    /// The first prefix.
    pub(crate) fn first(&self) -> Option<IpNet> {
        let snapshot = self.table.snapshot();
        snapshot.iter().map(|(net, _)| net).next()
    }

    /// All prefixes with their numbers, in order.
    pub(crate) fn entries(&self) -> Vec<(IpNet, u32)> {
        let snapshot = self.table.snapshot();
        snapshot
            .iter()
            .map(|(net, number)| (net, *number))
            .collect()
    }
}
