//! Values that count their drops.
#![allow(dead_code)] // Each test uses only a part of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sapwood::arena::{ArenaOptions, Backing, DebugMode};
use sapwood::qp::{QpMap, QpStore};

/// Counts the drops of each value. Each test has one static ledger, so that even a value dropped
/// twice finds it.
pub struct Ledger {
    drops: Mutex<Vec<u32>>,
}

impl Ledger {
    pub const fn new() -> Self {
        Ledger {
            drops: Mutex::new(Vec::new()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u32>> {
        self.drops.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A value with a tag that the test chooses.
    pub fn value(&'static self, tag: u32) -> Counted {
        let mut drops = self.lock();
        drops.push(0);
        Counted {
            ledger: self,
            id: drops.len() - 1,
            tag,
            bomb: false,
        }
    }

    /// A value whose drop panics.
    pub fn bomb(&'static self, tag: u32) -> Counted {
        let mut value = self.value(tag);
        value.bomb = true;
        value
    }

    /// The number of values that are not dropped yet. Panics if a value was dropped twice.
    pub fn alive(&self) -> usize {
        let drops = self.lock();
        for (id, &n) in drops.iter().enumerate() {
            assert!(n <= 1, "value {id} was dropped {n} times");
        }
        drops.iter().filter(|n| **n == 0).count()
    }
}

pub struct Counted {
    ledger: &'static Ledger,
    id: usize,
    pub tag: u32,
    bomb: bool,
}

/// A clone is a new value with the same tag.
impl Clone for Counted {
    fn clone(&self) -> Self {
        self.ledger.value(self.tag)
    }
}

impl PartialEq for Counted {
    fn eq(&self, other: &Self) -> bool {
        self.tag == other.tag
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.ledger.lock()[self.id] += 1;
        if self.bomb {
            panic!("a value's drop panics");
        }
    }
}

pub fn key(i: u32) -> Vec<u8> {
    // Keys that are prefixes of each other, in wide and narrow branches.
    match i % 4 {
        0 => i.to_string().into_bytes(),
        1 => vec![b'p'; i as usize],
        2 => vec![i as u8],
        _ => [b"text/".as_slice(), i.to_string().as_bytes()].concat(),
    }
}

pub fn map_of(ledger: &'static Ledger, n: u32) -> QpMap<Counted> {
    let options = ArenaOptions::default().debug(DebugMode::Poison);
    let mut map = QpMap::with_options(options).unwrap();
    for i in 0..n {
        assert!(map.insert(key(i), ledger.value(i)).unwrap().is_none());
    }
    map
}

pub fn store_of(ledger: &'static Ledger, n: u32) -> QpStore<Counted> {
    let options = ArenaOptions::default().backing(Backing::Mmap { reserve: 1 << 26 });
    let store = QpStore::builder()
        .options(options.debug(DebugMode::Poison))
        .build()
        .unwrap();
    let mut txn = store.begin();
    for i in 0..n {
        txn.insert(key(i), ledger.value(i)).unwrap();
    }
    txn.commit();
    store
}

pub fn panics(f: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(f)).is_err()
}
