//! A map behind the C functions: the same verbs for all, each compared with the oracle.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::{Arc, Mutex};

use fastrand::Rng;
use sapwood_capi::domain::{sapwood_domain, sapwood_domain_new};
use sapwood_capi::map::*;
use sapwood_capi::maps::*;
use sapwood_capi::point_map::*;
use sapwood_capi::reader::*;
use sapwood_capi::shared_map::*;
use sapwood_capi::store::*;
use sapwood_capi::txn::*;
use sapwood_capi::value::*;
use sapwood_capi::view::*;
use sapwood_model::oracle::ByteMap;

use crate::live::LiveEnds;

/// How often each pointer was retired.
#[derive(Default)]
pub struct Ledger(pub Mutex<HashMap<u64, u32>>);

unsafe extern "C" fn retire(value: *mut c_void, ctx: *mut c_void) {
    // SAFETY: the context is the ledger of the map, which outlives it.
    let ledger = unsafe { &*ctx.cast::<Ledger>() };
    *ledger
        .0
        .lock()
        .unwrap()
        .entry(value.addr() as u64)
        .or_default() += 1;
}

/// Values of a kind for numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Numbers = 0,
    Pointers = 1,
    Bytes = 2,
}

impl Kind {
    pub fn make(self, number: u64, place: &mut [u8; 8]) -> sapwood_value {
        *place = number.to_le_bytes();
        match self {
            Kind::Numbers => sapwood_value { number },
            Kind::Pointers => sapwood_value {
                pointer: std::ptr::without_provenance_mut(number as usize),
            },
            Kind::Bytes => sapwood_value {
                bytes: sapwood_bytes {
                    data: place.as_ptr().cast(),
                    len: 8,
                },
            },
        }
    }

    pub fn read(self, value: &sapwood_value) -> u64 {
        // SAFETY: the map has values of this kind, which are valid now.
        unsafe {
            match self {
                Kind::Numbers => value.number,
                Kind::Pointers => value.pointer.addr() as u64,
                Kind::Bytes => {
                    assert_eq!(value.bytes.len, 8);
                    u64::from_le_bytes(value.bytes.data.cast::<[u8; 8]>().read())
                }
            }
        }
    }
}

/// A map behind the C functions.
pub enum Door {
    Map(*mut sapwood_map),
    Store(*mut sapwood_store, *mut sapwood_txn),
    Shared(*mut sapwood_shared),
    Point(*mut sapwood_point),
}

pub struct Driver {
    pub door: Door,
    pub kind: Kind,
    pub domain: *mut sapwood_domain,
    pub reader: *mut sapwood_reader,
    pub ledger: Arc<Ledger>,
    pub made: u64,
    /// The readers in other processes, if the map is live.
    pub live: Option<LiveEnds>,
}

pub type Insert<M> = unsafe extern "C" fn(M, *const c_void, usize, *const sapwood_value) -> c_int;

/// A key as C gives it.
pub fn raw(key: &[u8]) -> (*const c_void, usize) {
    (key.as_ptr().cast(), key.len())
}

pub const NOTHING: sapwood_entry = sapwood_entry::NONE;

impl Driver {
    pub fn new(kind: Kind, make: impl FnOnce(&mut sapwood_options) -> Door) -> Self {
        let ledger = Arc::<Ledger>::default();
        let (mut domain, mut reader) = (null_mut(), null_mut());
        let mut options = sapwood_options {
            values: kind as c_int,
            ..Default::default()
        };
        if kind == Kind::Pointers {
            options.retire = Some(retire);
            options.ctx = Arc::as_ptr(&ledger).cast_mut().cast();
        }
        // SAFETY: the arguments are as the header asks for.
        unsafe {
            assert_eq!(sapwood_domain_new(null(), &raw mut domain), 0);
            let name = c"oracle".as_ptr();
            assert_eq!(sapwood_reader_new(domain, name, &raw mut reader), 0);
        }
        options.domain = domain;
        let door = make(&mut options);
        Driver {
            door,
            kind,
            domain,
            reader,
            ledger,
            made: 0,
            live: None,
        }
    }

    /// Inserts by one of the three verbs, and compares the answer.
    pub fn insert(&mut self, oracle: &mut ByteMap<u64>, key: &[u8], verb: usize) {
        self.made += 8;
        let (number, there) = (self.made, oracle.contains_key(key));
        let mut place = [0; 8];
        let value = self.kind.make(number, &mut place);
        let wanted = match (verb, there) {
            (0, there) => c_int::from(!there),
            (1, true) => -libc::EEXIST,
            (1, false) => 1,
            (_, true) => 0,
            (_, false) => -libc::ENOENT,
        };
        fn of<M>(verbs: [Insert<M>; 3], verb: usize) -> Insert<M> {
            verbs[verb]
        }
        let ((data, len), value) = (raw(key), &raw const value);
        // SAFETY: as above.
        let result = unsafe {
            match self.door {
                Door::Map(map) => of(
                    [
                        sapwood_map_insert,
                        sapwood_map_insert_new,
                        sapwood_map_replace,
                    ],
                    verb,
                )(map, data, len, value),
                Door::Store(store, txn) if txn.is_null() => {
                    of(
                        [
                            sapwood_store_insert,
                            sapwood_store_insert_new,
                            sapwood_store_replace,
                        ],
                        verb,
                    )(store, data, len, value)
                }
                Door::Store(_, txn) => of(
                    [
                        sapwood_txn_insert,
                        sapwood_txn_insert_new,
                        sapwood_txn_replace,
                    ],
                    verb,
                )(txn, data, len, value),
                Door::Shared(map) => of(
                    [
                        sapwood_shared_insert,
                        sapwood_shared_insert_new,
                        sapwood_shared_replace,
                    ],
                    verb,
                )(map, data, len, value),
                Door::Point(map) => of(
                    [
                        sapwood_point_insert,
                        sapwood_point_insert_new,
                        sapwood_point_replace,
                    ],
                    verb,
                )(map, data, len, value),
            }
        };
        assert_eq!(result, wanted, "verb {verb} of {}", key.escape_ascii());
        if result >= 0 {
            oracle.insert(key, number);
        }
    }

    pub fn remove(&mut self, oracle: &mut ByteMap<u64>, key: &[u8]) {
        let (data, len) = raw(key);
        // SAFETY: as above.
        let result = unsafe {
            match self.door {
                Door::Map(map) => sapwood_map_remove(map, data, len),
                Door::Store(store, txn) if txn.is_null() => sapwood_store_remove(store, data, len),
                Door::Store(_, txn) => sapwood_txn_remove(txn, data, len),
                Door::Shared(map) => sapwood_shared_remove(map, data, len),
                Door::Point(map) => sapwood_point_remove(map, data, len),
            }
        };
        let there = oracle.remove(key).is_some();
        assert_eq!(result, if there { 0 } else { -libc::ENOENT });
    }

    pub fn get(&self, oracle: &ByteMap<u64>, key: &[u8]) {
        let ((data, len), mut value) = (raw(key), NOTHING.value);
        let value = &raw mut value;
        // SAFETY: as above.
        let result = unsafe {
            match self.door {
                Door::Map(map) => sapwood_map_get(map, data, len, value),
                Door::Store(store, txn) if txn.is_null() => {
                    sapwood_store_get(store, self.reader, data, len, value)
                }
                Door::Store(_, txn) => sapwood_txn_get(txn, data, len, value),
                Door::Shared(map) => sapwood_shared_get(map, self.reader, data, len, value),
                Door::Point(map) => sapwood_point_get(map, self.reader, data, len, value),
            }
        };
        // SAFETY: it was initialized above.
        let found = (result == 0).then(|| self.kind.read(unsafe { &*value }));
        assert!(result == 0 || result == -libc::ENOENT);
        assert_eq!(found.as_ref(), oracle.get(key), "{}", key.escape_ascii());
    }

    pub fn get_many(&self, oracle: &ByteMap<u64>, keys: &[Vec<u8>]) {
        let list: Vec<sapwood_bytes> = keys.iter().map(|key| sapwood_bytes::new(key)).collect();
        let mut values = vec![NOTHING.value; keys.len()];
        let mut found = vec![9u8; keys.len()];
        let (at, count) = (list.as_ptr(), list.len());
        let (to, there) = (values.as_mut_ptr(), found.as_mut_ptr());
        // SAFETY: as above.
        let result = unsafe {
            match self.door {
                Door::Map(map) => sapwood_map_get_many(map, at, count, to, there),
                Door::Store(store, _) => {
                    sapwood_store_get_many(store, self.reader, at, count, to, there)
                }
                Door::Shared(map) => {
                    sapwood_shared_get_many(map, self.reader, at, count, to, there)
                }
                Door::Point(map) => sapwood_point_get_many(map, self.reader, at, count, to, there),
            }
        };
        assert_eq!(result as usize, found.iter().filter(|&&f| f == 1).count());
        for ((key, value), found) in keys.iter().zip(&values).zip(found) {
            let found = (found == 1).then(|| self.kind.read(value));
            assert_eq!(found.as_ref(), oracle.get(key), "{}", key.escape_ascii());
        }
    }

    pub fn len(&self) -> usize {
        let mut len = usize::MAX;
        // SAFETY: as above.
        let result = unsafe {
            match self.door {
                Door::Map(map) => sapwood_map_len(map, &raw mut len),
                Door::Store(store, txn) if txn.is_null() => sapwood_store_len(store, &raw mut len),
                Door::Store(_, txn) => sapwood_txn_len(txn, &raw mut len),
                Door::Shared(map) => sapwood_shared_len(map, &raw mut len),
                Door::Point(map) => sapwood_point_len(map, &raw mut len),
            }
        };
        assert_eq!(result, 0);
        len
    }

    /// A view, if the map has order.
    pub fn view(&self) -> Option<sapwood_view> {
        let mut view = std::mem::MaybeUninit::<sapwood_view>::uninit();
        let at = view.as_mut_ptr();
        // SAFETY: as above.
        let result = unsafe {
            match self.door {
                Door::Map(map) => sapwood_map_view(map, at),
                Door::Store(store, txn) if txn.is_null() => {
                    sapwood_store_view(store, self.reader, at)
                }
                Door::Store(_, txn) => sapwood_txn_view(txn, at),
                Door::Shared(map) => sapwood_shared_view(map, self.reader, at),
                Door::Point(_) => return None,
            }
        };
        assert_eq!(result, 0);
        // SAFETY: the function has written it.
        Some(unsafe { view.assume_init() })
    }

    /// Begins a transaction of a store, or ends it in one of two ways.
    pub fn transact(
        &mut self,
        oracle: &mut ByteMap<u64>,
        before: &mut Option<ByteMap<u64>>,
        rng: &mut Rng,
    ) {
        let Door::Store(store, txn) = &mut self.door else {
            return;
        };
        // SAFETY: as above.
        unsafe {
            match before.take() {
                None => {
                    assert_eq!(sapwood_store_begin(*store, 0, &raw mut *txn), 0);
                    *before = Some(oracle.clone());
                }
                Some(old) if rng.bool() => {
                    sapwood_txn_rollback(*txn);
                    *txn = null_mut();
                    *oracle = old;
                }
                Some(_) => {
                    assert_eq!(sapwood_txn_commit(*txn, null_mut()), 0);
                    *txn = null_mut();
                }
            }
        }
    }

    /// No pointer was retired twice, and none that is still in the map.
    pub fn look_at_ledger(&self, oracle: &ByteMap<u64>) {
        if self.kind != Kind::Pointers {
            return;
        }
        let ledger = self.ledger.0.lock().unwrap();
        assert!(ledger.values().all(|&times| times == 1));
        assert!(
            oracle
                .iter()
                .all(|(_, number)| !ledger.contains_key(number))
        );
    }
}
