//! `RangeTransaction`: changes of a `RangeMap` that others see together, or not at all.
//!
//! A block changes a copy, which is a `RangeMap` as well and remembers where it was changed. At the
//! end of the block, what the copy has there is put into the map, in one transaction of the
//! library. Meanwhile the map is its thread's: other threads that change the map wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

use crate::range_keys::Range;
use crate::range_table::RangeTable;
use crate::ranges::RangeMap;

/// How often a thread that waits looks for signals, and for an end whose notice it has missed.
const LOOK: Duration = Duration::from_millis(10);

/// Locks what no panic leaves half changed.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread that has a map for itself. The process tells a child of a fork that the thread of a
/// transaction is not there any more.
type Owner = (u32, ThreadId);

fn me() -> Owner {
    (std::process::id(), std::thread::current().id())
}

/// Whose turn it is to change a map: anybody's, or one thread's for some time.
#[derive(Default)]
pub struct Turn {
    /// Locked with the interpreter's lock only, so that a child of a fork never finds it locked.
    owner: Mutex<Option<Owner>>,
    waiting: Mutex<()>,
    over: Condvar,
}

impl Turn {
    /// Whether this thread may change the map now; an error if it waited for itself.
    pub fn is_mine(&self) -> PyResult<bool> {
        let Some((process, thread)) = *locked(&self.owner) else {
            return Ok(true);
        };
        let (here, this) = me();
        if thread == this {
            let text = "this thread has a transaction or a modify() of the map, and changes the \
                        map outside of it";
            return Err(PyRuntimeError::new_err(text));
        }
        Ok(process != here)
    }

    /// Waits a moment for the end of another thread's turn.
    pub fn wait(&self, py: Python<'_>) -> PyResult<()> {
        // A child of a fork may find the lock of those who waited in its parent.
        py.detach(|| match self.waiting.try_lock() {
            Ok(waiting) => drop(self.over.wait_timeout(waiting, LOOK)),
            Err(_) => std::thread::sleep(LOOK),
        });
        py.check_signals()
    }
}

/// A thread's turn to change a map, until it is dropped.
pub struct Held(Arc<RangeTable>);

impl Held {
    /// Takes the turn, after those who have it.
    pub fn new(py: Python<'_>, table: &Arc<RangeTable>) -> PyResult<Self> {
        table.changing(py, |_| {
            *locked(&table.turn.owner) = Some(me());
            Ok(Held(table.clone()))
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let turn = &self.0.turn;
        *locked(&turn.owner) = None;
        turn.over.notify_all();
    }
}

/// What the copy has that a transaction changes.
#[derive(Default)]
pub struct Draft {
    changed: Mutex<Vec<Range>>,
    ended: AtomicBool,
}

impl Draft {
    /// Remembers ranges that were changed.
    pub fn note(&self, ranges: &[Range]) {
        locked(&self.changed).extend_from_slice(ranges);
    }

    /// The indices that were changed, as ranges in order that do not touch.
    pub fn changed(&self) -> Vec<Range> {
        let mut all = locked(&self.changed).clone();
        all.sort_unstable_by_key(|range| *range.start());
        all.dedup_by(|next, before| {
            let joins = *next.start() <= before.end().saturating_add(1);
            if joins && next.end() > before.end() {
                *before = *before.start()..=*next.end();
            }
            joins
        });
        all
    }

    /// An error when the transaction has ended.
    pub fn open(&self) -> PyResult<()> {
        match self.ended.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(PyValueError::new_err("the transaction has ended")),
        }
    }

    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

enum State {
    New,
    Open { held: Held, copy: Py<RangeMap> },
    Ended,
}

/// A transaction, from RangeMap.transaction(): a context that changes the map at its end.
#[pyclass(frozen, generic, module = "sapwood")]
pub struct RangeTransaction {
    map: Py<RangeMap>,
    state: Mutex<State>,
}

impl RangeTransaction {
    pub fn new(map: Py<RangeMap>) -> Self {
        RangeTransaction {
            map,
            state: Mutex::new(State::New),
        }
    }
}

impl Drop for RangeTransaction {
    /// A block that nobody ended has changed nothing.
    fn drop(&mut self) {
        if let State::Open { copy, .. } = &*locked(&self.state) {
            copy.get().table.end();
        }
    }
}

#[pymethods]
impl RangeTransaction {
    /// Begins the transaction, and returns the copy of the map that it changes.
    fn __enter__(&self, py: Python<'_>) -> PyResult<Py<RangeMap>> {
        let before = std::mem::replace(&mut *locked(&self.state), State::Ended);
        if !matches!(before, State::New) {
            *locked(&self.state) = before;
            let text = "a transaction has one block: transaction() makes another one";
            return Err(PyValueError::new_err(text));
        }
        let table = &self.map.get().table;
        let held = Held::new(py, table)?;
        let copy = RangeMap::of(table.copied(py, Some(Draft::default()))?);
        let copy = Py::new(py, copy)?;
        *locked(&self.state) = State::Open {
            held,
            copy: copy.clone_ref(py),
        };
        Ok(copy)
    }

    /// Ends the transaction: changes the map, or after an exception does not.
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let before = std::mem::replace(&mut *locked(&self.state), State::Ended);
        let (held, copy) = match before {
            State::Open { held, copy } => (held, copy),
            other => {
                *locked(&self.state) = other;
                return Err(PyValueError::new_err("the transaction is not in its block"));
            }
        };
        let (map, copy) = (&self.map.get().table, &copy.get().table);
        copy.end();
        let done = match kind.is_none() {
            true => map.take_over(py, copy, held),
            false => {
                drop(held);
                Ok(())
            }
        };
        copy.let_go(py);
        done.map(|()| false)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.map)?;
        // The collector may run while this thread has the state, but not when it is open.
        match self.state.try_lock().as_deref() {
            Ok(State::Open { copy, .. }) => visit.call(copy),
            _ => Ok(()),
        }
    }

    fn __clear__(&self) {
        let open = std::mem::replace(&mut *locked(&self.state), State::Ended);
        drop(open);
    }
}
