//! Python objects as values of maps: a map stores numbers, and this table has their objects.
//!
//! The table counts for each number how many entries of the map have it. Strings, bytes and
//! integers that are equal have one number; other objects have one each. A number whose last entry
//! has gone is given out again, unless somebody still reads: a batch of lookups that runs without
//! the interpreter's lock, or an iterator, may have read the number before, and will ask for its
//! object.
//!
//! No code of users runs while the table is locked: objects are dropped after the lock is released.

use std::collections::{BTreeSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use hashbrown::HashTable;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBytes, PyInt, PyString};

use crate::drops::let_go;

/// The most numbers that a table gives out.
const MOST: usize = i32::MAX as usize;

struct Slot {
    object: Option<Py<PyAny>>,
    hash: u64,
    uses: usize,
}

/// The objects of a map by number.
#[derive(Default)]
pub struct Objects {
    slots: Vec<Slot>,
    free: Vec<u32>,
    numbers: HashTable<u32>,
    hasher: RandomState,
    /// Rises when somebody begins to read.
    clock: u64,
    /// When each of those who read now has begun.
    reading: BTreeSet<u64>,
    /// Numbers without an entry, each with the time at which its last entry went.
    resting: VecDeque<(u64, u32)>,
}

/// Whether equal objects of this type may stand for each other.
fn is_plain(object: &Bound<'_, PyAny>) -> bool {
    object.is_exact_instance_of::<PyString>()
        || object.is_exact_instance_of::<PyInt>()
        || object.is_exact_instance_of::<PyBytes>()
}

/// Whether two objects have one number. This calls no code of users.
fn same(one: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> bool {
    one.is(other)
        || (is_plain(one) && one.get_type().is(other.get_type()) && one.eq(other).unwrap_or(false))
}

impl Objects {
    fn hash(&self, object: &Bound<'_, PyAny>) -> PyResult<u64> {
        let kind = object.get_type().as_ptr() as usize;
        Ok(match is_plain(object) {
            true => self.hasher.hash_one((kind, object.hash()?)),
            false => self.hasher.hash_one(object.as_ptr() as usize),
        })
    }

    /// The number of an object, which gets one more entry.
    pub fn take(&mut self, object: &Bound<'_, PyAny>) -> PyResult<u32> {
        let py = object.py();
        let hash = self.hash(object)?;
        let found = self.numbers.find(hash, |number| {
            let known = &self.slots[*number as usize].object;
            known
                .as_ref()
                .is_some_and(|known| same(known.bind(py), object))
        });
        if let Some(&number) = found {
            self.slots[number as usize].uses += 1;
            return Ok(number);
        }
        let slot = Slot {
            object: Some(object.clone().unbind()),
            hash,
            uses: 1,
        };
        let number = match self.free.pop() {
            Some(number) => {
                self.slots[number as usize] = slot;
                number
            }
            None if self.slots.len() == MOST => {
                let text = "the map has 2,147,483,647 different values, and no room for more";
                return Err(pyo3::exceptions::PyMemoryError::new_err(text));
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        let slots = &self.slots;
        self.numbers
            .insert_unique(hash, number, |number| slots[*number as usize].hash);
        Ok(number)
    }

    /// One more entry of a number that has some.
    pub fn again(&mut self, number: u32) {
        self.slots[number as usize].uses += 1;
    }

    /// One entry less. The number rests after its last one.
    pub fn give_back(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize];
        slot.uses -= 1;
        if slot.uses == 0 {
            let hash = slot.hash;
            if let Ok(found) = self.numbers.find_entry(hash, |found| *found == number) {
                found.remove();
            }
            self.resting.push_back((self.clock, number));
        }
    }

    /// No entries any more: all numbers rest.
    pub fn give_all_back(&mut self) {
        self.numbers.clear();
        for (number, slot) in self.slots.iter_mut().enumerate() {
            if std::mem::take(&mut slot.uses) > 0 {
                self.resting.push_back((self.clock, number as u32));
            }
        }
    }

    /// The object of a number that has an entry, or that somebody reads.
    pub fn get(&self, number: u32) -> Option<&Py<PyAny>> {
        self.slots.get(number as usize)?.object.as_ref()
    }

    /// The objects of all numbers that have entries.
    pub fn all(&self) -> impl Iterator<Item = Option<&Py<PyAny>>> {
        let used = |slot: &Slot| slot.uses > 0;
        self.slots
            .iter()
            .map(move |slot| slot.object.as_ref().filter(|_| used(slot)))
    }

    /// How many different values have entries.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// How often each number has an entry.
    pub fn uses(&self) -> impl Iterator<Item = usize> {
        self.slots.iter().map(|slot| slot.uses)
    }

    /// Bytes of the table, without the objects.
    pub fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
            + self.free.capacity() * size_of::<u32>()
            + self.numbers.allocation_size()
            + self.resting.capacity() * size_of::<(u64, u32)>()
    }

    /// Begins to read: numbers that have an object now keep it until the end.
    fn begin(&mut self) -> u64 {
        self.clock += 1;
        self.reading.insert(self.clock);
        self.clock
    }

    /// Takes the objects that nobody can ask for any more.
    fn settle(&mut self, dead: &mut Vec<Py<PyAny>>) {
        let oldest = self.reading.first().copied().unwrap_or(u64::MAX);
        while let Some(&(since, number)) = self.resting.front()
            && since < oldest
        {
            self.resting.pop_front();
            dead.extend(self.slots[number as usize].object.take());
            self.free.push(number);
        }
    }
}

impl Objects {
    /// A table with the same numbers for the same objects, as often as they have entries here.
    pub fn duplicate(&self, py: Python<'_>) -> Self {
        let slots = self.slots.iter().map(|slot| Slot {
            object: slot
                .object
                .as_ref()
                .filter(|_| slot.uses > 0)
                .map(|object| object.clone_ref(py)),
            ..*slot
        });
        let resting = self.resting.iter().map(|(_, number)| *number);
        Objects {
            slots: slots.collect(),
            free: self.free.iter().copied().chain(resting).collect(),
            numbers: self.numbers.clone(),
            hasher: self.hasher.clone(),
            ..Objects::default()
        }
    }
}

/// A table of objects behind a lock that is held for moments only.
#[derive(Default)]
pub struct SharedObjects(Mutex<Objects>);

impl From<Objects> for SharedObjects {
    fn from(objects: Objects) -> Self {
        SharedObjects(Mutex::new(objects))
    }
}

impl SharedObjects {
    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, Objects> {
        self.0
            .lock_py_attached(py)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `f` with the table locked; drops objects that have no entry any more when it is
    /// released. `f` calls no code of users.
    #[inline]
    pub fn with<R>(&self, py: Python<'_>, f: impl FnOnce(&mut Objects) -> R) -> R {
        let mut dead = Vec::new();
        let mut objects = self.lock(py);
        let result = f(&mut objects);
        if !objects.resting.is_empty() {
            objects.settle(&mut dead);
        }
        drop(objects);
        drop(dead);
        result
    }

    /// Begins to read: until the guard is dropped, numbers keep their objects.
    pub fn read<S: AsRef<SharedObjects>>(py: Python<'_>, objects: S) -> Reading<S> {
        let since = objects.as_ref().lock(py).begin();
        Reading { objects, since }
    }

    /// Shows all objects to the garbage collector. One that is locked, by this thread then, shows
    /// none: what it has is not collected.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let objects = match self.0.try_lock() {
            Ok(objects) => objects,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        for slot in &objects.slots {
            visit.call(&slot.object)?;
        }
        Ok(())
    }

    /// Lets go of all objects, for the garbage collector: nobody can reach the map any more.
    pub fn clear(&self, py: Python<'_>) {
        let mut objects = self.lock(py);
        let dead: Vec<_> = objects
            .slots
            .iter_mut()
            .map(|slot| slot.object.take())
            .collect();
        drop(objects);
        drop(dead);
    }
}

impl Drop for SharedObjects {
    fn drop(&mut self) {
        let objects = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        let_go(std::mem::take(&mut objects.slots));
    }
}

/// Somebody who reads: numbers keep their objects until it is dropped.
pub struct Reading<S: AsRef<SharedObjects>> {
    pub objects: S,
    since: u64,
}

impl<S: AsRef<SharedObjects>> Drop for Reading<S> {
    fn drop(&mut self) {
        Python::attach(|py| {
            self.objects.as_ref().with(py, |objects| {
                objects.reading.remove(&self.since);
            });
        });
    }
}
