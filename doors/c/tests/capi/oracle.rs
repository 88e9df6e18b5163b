//! The maps, driven through the C functions by random operations, answer as the naive oracle does.

use std::ffi::{CString, c_int, c_void};
use std::ptr::{from_ref, null, null_mut};

use sapwood_capi::closest::*;
use sapwood_capi::domain::sapwood_domain_free;
use sapwood_capi::file::*;
use sapwood_capi::iter::*;
use sapwood_capi::map::*;
use sapwood_capi::maps::*;
use sapwood_capi::point_map::*;
use sapwood_capi::reader::*;
use sapwood_capi::shared_map::*;
use sapwood_capi::snapshot::*;
use sapwood_capi::store::*;
use sapwood_capi::txn::*;
use sapwood_capi::value::*;
use sapwood_capi::view::*;
use sapwood_model::keys::KeyPool;
use sapwood_model::oracle::{ByteMap, Closest};

use crate::door::{Door, Driver, Kind, NOTHING, raw};

/// The number of operations for each map.
fn operations() -> usize {
    std::env::var("SAPWOOD_OPS").map_or(6_000, |ops| ops.parse().expect("a number"))
}

/// The kinds of values, each with a seed: one round, or as many as `SAPWOOD_ROUNDS` says. The map
/// grows with the operations, and a walk takes time in proportion to the map, so several short
/// rounds take less time than one long round.
fn kinds() -> impl Iterator<Item = (u64, Kind)> {
    let rounds = std::env::var("SAPWOOD_ROUNDS").map_or(1, |n| n.parse().expect("a number"));
    (0..rounds).flat_map(|round| (round * 100..).zip(KINDS))
}

impl Driver {
    /// An entry as the oracle has it.
    fn entry<'a>(&self, entry: &'a sapwood_entry) -> Option<(&'a [u8], u64)> {
        if entry.key.data.is_null() {
            return None;
        }
        // SAFETY: the entry is valid now.
        let key = unsafe { std::slice::from_raw_parts(entry.key.data.cast(), entry.key.len) };
        Some((key, self.kind.read(&entry.value)))
    }

    pub fn neighbours(&self, oracle: &ByteMap<u64>, key: &[u8], view: &sapwood_view) {
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

    pub fn closest(&self, oracle: &ByteMap<u64>, name: &[u8], view: &sapwood_view) {
        unsafe extern "C" fn is_cut(entry: *const sapwood_entry, kind: *mut c_void) -> c_int {
            // SAFETY: both are what `sapwood_view_closest` was given or gives.
            let (entry, kind) = unsafe { (&*entry, *kind.cast::<Kind>()) };
            c_int::from(kind.read(&entry.value) % 3 == 0)
        }
        let (data, len) = raw(name);
        let mut kind = self.kind;
        let mut chain = [NOTHING; 64];
        let entries = chain.as_mut_ptr();
        let empty = || sapwood_closest {
            size: size_of::<sapwood_closest>(),
            chain: entries,
            chain_room: 64,
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
        let mut out = empty();
        let ctx = (&raw mut kind).cast();
        // SAFETY: as above.
        let result =
            unsafe { sapwood_view_closest(view, data, len, Some(is_cut), ctx, &raw mut out) };
        let wanted = oracle.closest(name, 0, |n| n % 3 == 0);
        self.same_closest(result, &out, &chain, &wanted);
        let mut out = sapwood_denial {
            size: size_of::<sapwood_denial>(),
            wildcard_exists: 0,
            reserved: 0,
            predecessor: NOTHING,
            wildcard_predecessor: NOTHING,
            closest: empty(),
        };
        chain = [NOTHING; 64];
        // SAFETY: as above.
        let result =
            unsafe { sapwood_view_denial(view, data, len, Some(is_cut), ctx, &raw mut out) };
        let wanted = oracle.denial(name, 0, |n| n % 3 == 0);
        self.same_closest(result, &out.closest, &chain, &wanted.closest);
        let key = |entry: &sapwood_entry| self.entry(entry).map(|(key, _)| key.to_vec());
        let owned = |key: Option<&[u8]>| key.map(<[u8]>::to_vec);
        assert_eq!(out.wildcard_exists != 0, wanted.wildcard_exists);
        assert_eq!(key(&out.predecessor), owned(wanted.predecessor));
        assert_eq!(
            key(&out.wildcard_predecessor),
            owned(wanted.wildcard_predecessor)
        );
    }

    fn same_closest(
        &self,
        result: c_int,
        out: &sapwood_closest,
        chain: &[sapwood_entry],
        wanted: &Closest<'_>,
    ) {
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
    pub fn walk(&self, oracle: &ByteMap<u64>, pool: &mut KeyPool, view: &sapwood_view) {
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
                    15 => {
                        assert_eq!(sapwood_iter_pause(iter), 0);
                        let next = sapwood_iter_next(iter, &raw mut entry);
                        assert_eq!(next, -libc::EPERM);
                        let again = self.view().unwrap();
                        assert_eq!(sapwood_iter_resume(iter, &raw const again), 0);
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

    pub fn drive(mut self, seed: u64, size: usize) {
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
                60..80 => {
                    self.get(&oracle, &key);
                    self.look_through_readers(before_txn.as_ref().unwrap_or(&oracle), &mut pool);
                }
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
                    if let Some(live) = &self.live {
                        live.quiescent();
                    }
                }
                _ => self.look_at_ledger(&oracle),
            }
        }
        println!("{operations} operations");
        self.finish(oracle, before_txn, &mut pool);
    }

    /// A saved map or a snapshot has the same entries, and gives the same answers.
    fn look_at_copies(&self, oracle: &ByteMap<u64>, pool: &mut KeyPool) {
        let mut view = std::mem::MaybeUninit::<sapwood_view>::uninit();
        let at = view.as_mut_ptr();
        let (mut file, mut snapshot) = (null_mut(), null_mut());
        let folder = tempfile::tempdir().unwrap();
        let path = CString::new(folder.path().join("map").to_str().unwrap()).unwrap();
        let kind = self.kind as c_int;
        // SAFETY: as above.
        unsafe {
            match self.door {
                // Miri has no `fsync` of folders.
                Door::Map(map) if self.kind != Kind::Pointers && !cfg!(miri) => {
                    assert_eq!(sapwood_map_save(map, path.as_ptr()), 0);
                    assert_eq!(sapwood_file_open(path.as_ptr(), kind, 0, &raw mut file), 0);
                    assert_eq!(sapwood_file_view(file, at), 0);
                }
                Door::Store(store, _) => {
                    assert_eq!(sapwood_store_snapshot(store, &raw mut snapshot), 0);
                    assert_eq!(sapwood_snapshot_view(snapshot, at), 0);
                }
                _ => return,
            }
            let (view, mut len) = (view.assume_init_ref(), 0);
            assert_eq!(sapwood_view_len(view, &raw mut len), 0);
            assert_eq!(len, oracle.len());
            for _ in 0..50 {
                let key = pool.key();
                self.neighbours(oracle, &key, view);
                self.closest(oracle, &key, view);
            }
            self.walk(oracle, pool, view);
            sapwood_file_free(file);
            sapwood_snapshot_free(snapshot);
        }
    }

    fn finish(
        mut self,
        oracle: ByteMap<u64>,
        before_txn: Option<ByteMap<u64>>,
        pool: &mut KeyPool,
    ) {
        let oracle = before_txn.unwrap_or(oracle);
        // SAFETY: as above.
        unsafe {
            if let Door::Store(_, txn) = &mut self.door {
                sapwood_txn_rollback(*txn);
                *txn = null_mut();
            }
            self.look_at_copies(&oracle, pool);
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
        if let Some(live) = self.live.take() {
            live.inherit(self.kind, &oracle);
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
    for (seed, kind) in kinds() {
        for index in [0, SAPWOOD_INDEX] {
            let make = |options: &mut sapwood_options| {
                options.flags |= index;
                options.domain = null();
                Door::Map(door!(sapwood_map_new)(options))
            };
            Driver::new(kind, make).drive(seed + 1, 300);
        }
    }
}

#[test]
fn stores_answer_as_the_oracle() {
    for (seed, kind) in kinds() {
        let make = |options: &mut sapwood_options| {
            Door::Store(door!(sapwood_store_new)(options), null_mut())
        };
        Driver::new(kind, make).drive(seed + 11, 300);
    }
}

#[test]
fn shared_maps_answer_as_the_oracle() {
    for (seed, kind) in kinds() {
        for index in [0, SAPWOOD_INDEX] {
            let make = |options: &mut sapwood_options| {
                options.flags |= index;
                Door::Shared(door!(sapwood_shared_new)(options))
            };
            Driver::new(kind, make).drive(seed + 21, 300);
        }
    }
}

#[test]
fn point_maps_answer_as_the_oracle() {
    for (seed, kind) in kinds() {
        let make = |options: &mut sapwood_options| Door::Point(door!(sapwood_point_new)(options));
        Driver::new(kind, make).drive(seed + 31, 300);
    }
}
