//! The maps, driven through the C functions by random operations, answer as the naive oracle does.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ptr::{from_ref, null, null_mut};
use std::sync::Mutex;

use fastrand::Rng;
use sapwood_capi::domain::{sapwood_domain, sapwood_domain_free, sapwood_domain_new};
use sapwood_capi::iter::*;
use sapwood_capi::map::*;
use sapwood_capi::point_map::*;
use sapwood_capi::reader::*;
use sapwood_capi::shared_map::*;
use sapwood_capi::store::*;
use sapwood_capi::txn::*;
use sapwood_capi::value::*;
use sapwood_capi::view::*;
use sapwood_model::keys::KeyPool;
use sapwood_model::oracle::ByteMap;

/// The number of operations for each map.
fn operations() -> usize {
    std::env::var("SAPWOOD_OPS").map_or(20_000, |ops| ops.parse().expect("a number"))
}

/// How often each pointer was retired.
#[derive(Default)]
struct Ledger(Mutex<HashMap<u64, u32>>);

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
enum Kind {
    Numbers = 0,
    Pointers = 1,
    Bytes = 2,
}

impl Kind {
    fn make(self, number: u64, place: &mut [u8; 8]) -> sapwood_value {
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

    fn read(self, value: &sapwood_value) -> u64 {
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
enum Door {
    Map(*mut sapwood_map),
    Store(*mut sapwood_store, *mut sapwood_txn),
    Shared(*mut sapwood_shared),
    Point(*mut sapwood_point),
}

struct Driver {
    door: Door,
    kind: Kind,
    domain: *mut sapwood_domain,
    reader: *mut sapwood_reader,
    ledger: Box<Ledger>,
    made: u64,
}

type Insert<M> = unsafe extern "C" fn(M, *const c_void, usize, *const sapwood_value) -> c_int;

/// A key as C gives it.
fn raw(key: &[u8]) -> (*const c_void, usize) {
    (key.as_ptr().cast(), key.len())
}

const NOTHING: sapwood_entry = sapwood_entry::NONE;

impl Driver {
    fn new(kind: Kind, make: impl FnOnce(&mut sapwood_options) -> Door) -> Self {
        let ledger = Box::<Ledger>::default();
        let (mut domain, mut reader) = (null_mut(), null_mut());
        let mut options = sapwood_options {
            values: kind as c_int,
            ..Default::default()
        };
        if kind == Kind::Pointers {
            options.retire = Some(retire);
            options.ctx = from_ref(&*ledger).cast_mut().cast();
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
        }
    }

    /// Inserts by one of the three verbs, and compares the answer.
    fn insert(&mut self, oracle: &mut ByteMap<u64>, key: &[u8], verb: usize) {
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
                    // Without a transaction a store has only the first verb.
                    if verb != 0 {
                        return;
                    }
                    sapwood_store_insert(store, data, len, value)
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

    fn remove(&mut self, oracle: &mut ByteMap<u64>, key: &[u8]) {
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

    fn get(&self, oracle: &ByteMap<u64>, key: &[u8]) {
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

    fn get_many(&self, oracle: &ByteMap<u64>, keys: &[Vec<u8>]) {
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

    fn len(&self) -> usize {
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
    fn view(&self) -> Option<sapwood_view> {
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

    /// An entry as the oracle has it.
    fn entry<'a>(&self, entry: &'a sapwood_entry) -> Option<(&'a [u8], u64)> {
        if entry.key.data.is_null() {
            return None;
        }
        // SAFETY: the entry is valid now.
        let key = unsafe { std::slice::from_raw_parts(entry.key.data.cast(), entry.key.len) };
        Some((key, self.kind.read(&entry.value)))
    }

    fn neighbours(&self, oracle: &ByteMap<u64>, key: &[u8], view: &sapwood_view) {
        let (data, len) = raw(key);
        let find = |f: &dyn Fn(*mut sapwood_entry) -> c_int| {
            let mut entry = NOTHING;
            let result = f(&raw mut entry);
            assert_eq!(result == 0, !entry.key.data.is_null());
            entry
        };
        let copied = |entry: Option<(&[u8], &u64)>| entry.map(|(key, &n)| (key.to_vec(), n));
        let same = |found: sapwood_entry, wanted: Option<(&[u8], &u64)>| {
            let found = self.entry(&found).map(|(key, n)| (key.to_vec(), n));
            assert_eq!(found, copied(wanted), "{}", key.escape_ascii());
        };
        // SAFETY: as above.
        unsafe {
            same(
                find(&|e| sapwood_view_first(view, e)),
                oracle.first_key_value(),
            );
            same(
                find(&|e| sapwood_view_last(view, e)),
                oracle.last_key_value(),
            );
            same(
                find(&|e| sapwood_view_after(view, data, len, e)),
                oracle.successor(key),
            );
            same(
                find(&|e| sapwood_view_before(view, data, len, e)),
                oracle.predecessor(key),
            );
            let longest = find(&|e| sapwood_view_longest_prefix(view, data, len, e));
            same(longest, oracle.longest_prefix(key));
            let mut all = [NOTHING; 4];
            let count = sapwood_view_prefixes(view, data, len, all.as_mut_ptr(), all.len());
            let wanted = oracle.ancestors(key);
            assert_eq!(count as usize, wanted.len());
            for (found, wanted) in all.into_iter().zip(wanted) {
                same(found, Some(wanted));
            }
        }
    }

    fn closest(&self, oracle: &ByteMap<u64>, name: &[u8], view: &sapwood_view) {
        unsafe extern "C" fn is_cut(entry: *const sapwood_entry, kind: *mut c_void) -> c_int {
            // SAFETY: both are what `sapwood_view_closest` was given or gives.
            let (entry, kind) = unsafe { (&*entry, *kind.cast::<Kind>()) };
            c_int::from(kind.read(&entry.value) % 3 == 0)
        }
        let (data, len) = raw(name);
        let mut kind = self.kind;
        let mut chain = [NOTHING; 64];
        let mut out = sapwood_closest {
            size: size_of::<sapwood_closest>(),
            chain: chain.as_mut_ptr(),
            chain_room: chain.len(),
            chain_len: 0,
            encloser: 0,
            exists: 0,
            reserved: 0,
            exact: NOTHING,
            ancestor: NOTHING,
            wildcard: NOTHING,
            predecessor: NOTHING,
            cut: NOTHING,
        };
        let ctx = (&raw mut kind).cast();
        // SAFETY: as above.
        let result =
            unsafe { sapwood_view_closest(view, data, len, Some(is_cut), ctx, &raw mut out) };
        let wanted = oracle.closest(name, 0, |n| n % 3 == 0);
        let key = |entry: &sapwood_entry| self.entry(entry).map(|(key, _)| key.to_vec());
        let owned = |key: Option<&[u8]>| key.map(<[u8]>::to_vec);
        assert_eq!(
            result,
            if wanted.exact.is_some() {
                0
            } else {
                -libc::ENOENT
            }
        );
        assert_eq!(key(&out.exact), owned(wanted.exact));
        assert_eq!(out.exists != 0, wanted.exists);
        assert_eq!(out.encloser, wanted.encloser);
        assert_eq!(key(&out.ancestor), owned(wanted.ancestor));
        assert_eq!(key(&out.wildcard), owned(wanted.wildcard));
        assert_eq!(key(&out.predecessor), owned(wanted.predecessor));
        assert_eq!(key(&out.cut), owned(wanted.cut));
        let last = out
            .chain_len
            .checked_sub(1)
            .map(|last| key(&chain[last]).unwrap());
        assert_eq!(last, owned(wanted.ancestor));
    }

    /// A walk with random turns, against a list of keys and a place in it.
    fn walk(&self, oracle: &ByteMap<u64>, pool: &mut KeyPool, view: &sapwood_view) {
        let mut iter = null_mut();
        // SAFETY: as above.
        unsafe { assert_eq!(sapwood_iter_new(view, &raw mut iter), 0) };
        let mut keys: Vec<(&[u8], u64)> = oracle.iter().map(|(key, &n)| (key, n)).collect();
        // The place, and whether it is at the entry of that number or before it.
        let (mut at, mut on) = (0, false);
        for _ in 0..40 {
            let key = pool.key();
            let (data, len) = raw(&key);
            let before =
                |keys: &[(&[u8], u64)], key: &[u8]| keys.partition_point(|(k, _)| *k < key);
            let mut entry = NOTHING;
            // SAFETY: as above.
            unsafe {
                match pool.rng().u32(..16) {
                    0 => {
                        assert_eq!(sapwood_iter_seek(iter, data, len), 0);
                        (at, on) = (before(&keys, &key), false);
                    }
                    1 => {
                        let cut = key.len().min(pool.rng().usize(..4));
                        assert_eq!(sapwood_iter_prefix(iter, data, cut), 0);
                        keys = oracle
                            .iter()
                            .filter(|(k, _)| k.starts_with(&key[..cut]))
                            .map(|(key, &n)| (key, n))
                            .collect();
                        (at, on) = (0, false);
                    }
                    2 => {
                        let high = pool.key();
                        let (to, to_len) = raw(&high);
                        assert_eq!(sapwood_iter_range(iter, data, len, to, to_len), 0);
                        keys = (oracle.iter().map(|(key, &n)| (key, n)))
                            .filter(|(k, _)| *k >= &key[..] && *k < &high[..])
                            .collect();
                        (at, on) = (0, false);
                    }
                    3 => {
                        assert_eq!(sapwood_iter_range(iter, null(), 0, null(), 0), 0);
                        keys = oracle.iter().map(|(key, &n)| (key, n)).collect();
                        (at, on) = (0, false);
                    }
                    4 => {
                        let cut = key.len().min(1 + pool.rng().usize(..4));
                        assert_eq!(sapwood_iter_skip(iter, data, cut), 0);
                        let prefix = &key[..cut];
                        (at, on) = (
                            keys.partition_point(|(k, _)| *k < prefix || k.starts_with(prefix)),
                            false,
                        );
                    }
                    5 => {
                        assert_eq!(sapwood_iter_to_end(iter), 0);
                        (at, on) = (keys.len(), false);
                    }
                    6..11 => {
                        let result = sapwood_iter_next(iter, &raw mut entry);
                        at += usize::from(on);
                        let wanted = keys.get(at).copied();
                        assert_eq!(result == 0, wanted.is_some());
                        assert_eq!(self.entry(&entry), wanted);
                        on = wanted.is_some();
                    }
                    _ => {
                        let result = sapwood_iter_prev(iter, &raw mut entry);
                        let wanted = at.checked_sub(1).map(|at| keys[at]);
                        assert_eq!(result == 0, wanted.is_some());
                        assert_eq!(self.entry(&entry), wanted);
                        (at, on) = (at.saturating_sub(1), wanted.is_some());
                    }
                }
            }
        }
        // SAFETY: as above.
        unsafe { sapwood_iter_free(iter) };
    }

    fn drive(mut self, seed: u64, size: usize) {
        let mut oracle = ByteMap::new();
        let mut pool = KeyPool::new(seed, size);
        let mut before_txn = None;
        let operations = operations();
        for _ in 0..operations {
            let key = pool.key();
            match pool.rng().u32(..100) {
                0..40 => {
                    let verb = pool.rng().usize(..3);
                    self.insert(&mut oracle, &key, verb);
                }
                40..60 => self.remove(&mut oracle, &key),
                60..80 => self.get(&oracle, &key),
                80..82 if before_txn.is_none() => {
                    let keys: Vec<_> = (0..pool.rng().usize(..150)).map(|_| pool.key()).collect();
                    self.get_many(&oracle, &keys);
                }
                82..90 => {
                    if let Some(view) = self.view() {
                        self.neighbours(&oracle, &key, &view);
                        self.closest(&oracle, &key, &view);
                    }
                }
                90 => {
                    if let Some(view) = self.view() {
                        self.walk(&oracle, &mut pool, &view);
                    }
                }
                91 => assert_eq!(self.len(), oracle.len()),
                92 => self.transact(&mut oracle, &mut before_txn, pool.rng()),
                93..96 => {
                    // SAFETY: as above.
                    unsafe { assert_eq!(sapwood_reader_quiescent(self.reader), 0) };
                }
                _ => self.look_at_ledger(&oracle),
            }
        }
        println!("{operations} operations");
        self.finish(oracle, before_txn);
    }

    /// Begins a transaction of a store, or ends it in one of two ways.
    fn transact(
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
    fn look_at_ledger(&self, oracle: &ByteMap<u64>) {
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

    fn finish(self, oracle: ByteMap<u64>, before_txn: Option<ByteMap<u64>>) {
        let oracle = before_txn.unwrap_or(oracle);
        // SAFETY: as above.
        unsafe {
            if let Door::Store(_, txn) = self.door {
                sapwood_txn_rollback(txn);
            }
            self.look_at_ledger(&oracle);
            match self.door {
                Door::Map(map) => sapwood_map_free(map),
                Door::Store(store, _) => sapwood_store_free(store),
                Door::Shared(map) => sapwood_shared_free(map),
                Door::Point(map) => sapwood_point_free(map),
            }
            sapwood_reader_free(self.reader);
            sapwood_domain_free(self.domain);
        }
        if self.kind == Kind::Pointers {
            let ledger = self.ledger.0.lock().unwrap();
            assert!(ledger.values().all(|&times| times == 1));
            assert!(oracle.iter().all(|(_, number)| ledger.contains_key(number)));
        }
    }
}

/// A door made by `sapwood_X_new`.
macro_rules! door {
    ($new:ident) => {
        |options: &mut sapwood_options| {
            let mut made = null_mut();
            // SAFETY: as above.
            unsafe { assert_eq!($new(from_ref(options), &raw mut made), 0) };
            made
        }
    };
}

const KINDS: [Kind; 3] = [Kind::Numbers, Kind::Pointers, Kind::Bytes];

#[test]
fn owned_maps_answer_as_the_oracle() {
    for (seed, kind) in KINDS.into_iter().enumerate() {
        for index in [0, INDEX] {
            let make = |options: &mut sapwood_options| {
                options.flags |= index;
                options.domain = null();
                Door::Map(door!(sapwood_map_new)(options))
            };
            Driver::new(kind, make).drive(seed as u64 + 1, 300);
        }
    }
}

#[test]
fn stores_answer_as_the_oracle() {
    for (seed, kind) in KINDS.into_iter().enumerate() {
        let make = |options: &mut sapwood_options| {
            Door::Store(door!(sapwood_store_new)(options), null_mut())
        };
        Driver::new(kind, make).drive(seed as u64 + 11, 300);
    }
}

#[test]
fn shared_maps_answer_as_the_oracle() {
    for (seed, kind) in KINDS.into_iter().enumerate() {
        for index in [0, INDEX] {
            let make = |options: &mut sapwood_options| {
                options.flags |= index;
                Door::Shared(door!(sapwood_shared_new)(options))
            };
            Driver::new(kind, make).drive(seed as u64 + 21, 300);
        }
    }
}

#[test]
fn point_maps_answer_as_the_oracle() {
    for (seed, kind) in KINDS.into_iter().enumerate() {
        let make = |options: &mut sapwood_options| Door::Point(door!(sapwood_point_new)(options));
        Driver::new(kind, make).drive(seed as u64 + 31, 300);
    }
}
