//! Snapshots of stores in files, from which stores are loaded.
#![cfg(all(unix, not(miri)))]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use sapwood::arena::write_image;
use sapwood::lpm::{BitFib, BitFileBuilder, BitString};
use sapwood::qp::{Change, OpenCause, QpFile, QpMap, QpStore};

use crate::saved_files::committed;
use crate::support::folder::{Folder, decoded};
use crate::support::values::{Value, bytes};

type Model = BTreeMap<Vec<u8>, u64>;

/// Values that can be saved to a file and read from it.
trait Saved: Value + Debug {
    fn save(store: &QpStore<Self>, path: &std::path::Path);
    fn load(path: &std::path::Path) -> QpStore<Self>;
    fn file_version(path: &std::path::Path) -> u64;
}

macro_rules! saved {
    ($($value:ty),*) => {
        $(impl Saved for $value {
            fn save(store: &QpStore<Self>, path: &std::path::Path) {
                store.snapshot().save(path).unwrap();
            }

            fn load(path: &std::path::Path) -> QpStore<Self> {
                QpStore::builder().load(path).unwrap()
            }

            fn file_version(path: &std::path::Path) -> u64 {
                QpFile::<$value>::open(path).unwrap().version().get()
            }
        })*
    };
}

saved!(u64, [u8]);

fn same<V: Saved + ?Sized>(store: &QpStore<V>, model: &Model) {
    store.verify().unwrap();
    let snapshot = store.snapshot();
    let there = snapshot
        .iter()
        .map(|(key, value)| (key.to_vec(), value.number()));
    assert!(there.eq(model.iter().map(|(key, n)| (key.clone(), *n))));
}

/// Commits, saves and loads alternately, and compares with a model. Version numbers continue.
fn commits_go_on<V: Saved + ?Sized>(name: &str) {
    let folder = Folder::new(name);
    let path = folder.file("store");
    let mut store = QpStore::<V>::new().unwrap();
    let mut model = Model::new();
    let mut version = 0;
    let mut rng = fastrand::Rng::with_seed(7);
    let rounds = 60usize;
    for round in 0..rounds {
        let before = store.snapshot();
        let old = model.clone();
        let mut txn = store.begin();
        for _ in 0..rng.usize(1..40) {
            let key: Vec<u8> = (0..rng.usize(..6)).map(|_| rng.u8(..4)).collect();
            // The store grows, and is empty at the end.
            if rng.usize(..rounds) < round {
                txn.remove(&key).unwrap();
                model.remove(&key);
            } else {
                let number = rng.u64(..1_000);
                V::txn_insert(&mut txn, &key, number).unwrap();
                model.insert(key, number);
            }
        }
        if round + 1 == rounds {
            txn.clear().unwrap();
            model.clear();
        }
        version = txn.commit().get().max(version);
        let after = store.snapshot();
        let changed = QpStore::diff(&before, &after).map(|change| match change {
            Change::Added(key, _) | Change::Changed(key, ..) | Change::Removed(key, _) => {
                key.to_vec()
            }
        });
        let keys = old.keys().chain(model.keys());
        let mut differ: Vec<_> = keys
            .filter(|key| old.get(*key) != model.get(*key))
            .collect();
        differ.sort();
        differ.dedup();
        let changed: Vec<_> = changed.collect();
        for key in &differ {
            assert!(changed.contains(key), "{key:?}");
        }
        V::save(&store, &path);
        assert_eq!(V::file_version(&path), version);
        // Later commits do not change the file.
        let again = V::load(&path);
        assert_eq!(again.version().get(), version);
        same(&again, &model);
        store = again;
    }
    assert!(version > rounds as u64 / 2 && model.is_empty());
}

#[test]
fn stores_of_numbers_and_of_byte_strings() {
    commits_go_on::<u64>("stores-numbers");
    commits_go_on::<[u8]>("stores-strings");
}

#[test]
fn maps_and_files_of_other_maps() {
    let folder = Folder::quick("stores-others");
    let path = folder.file("map");
    let map = QpMap::from([("ash", 1u64), ("elm", 2)]);
    map.save(&path).unwrap();
    let store = QpStore::<u64>::builder().load(&path).unwrap();
    assert_eq!((store.version().get(), store.len()), (0, 2));
    assert!(store.snapshot().iter().eq(map.iter()));
    let wrong = QpStore::<u32>::builder().load(&path).unwrap_err();
    assert!(matches!(wrong.cause, OpenCause::Values { .. }), "{wrong}");
    let wrong = QpStore::<[u8]>::builder().load(&path).unwrap_err();
    assert!(
        matches!(wrong.cause, OpenCause::NotByteStrings { .. }),
        "{wrong}"
    );
    // Each handle has its own domain, or the given one.
    let domain = sapwood::qsbr::Domain::new();
    let builder = QpStore::<u64>::builder().domain(&domain);
    assert!(builder.load(&path).unwrap().domain().ptr_eq(&domain));
    // A limit is respected.
    let large: QpMap<u64> = (0..100_000u64).map(|i| (i.to_be_bytes(), i)).collect();
    large.save(&path).unwrap();
    let refused = QpStore::<u64>::builder().memory_limit(64 << 10).load(&path);
    let refused = refused.unwrap_err();
    assert!(
        matches!(
            refused.cause,
            OpenCause::Table(sapwood::TableError::ArenaFull(_))
        ),
        "{refused}"
    );
    assert!(
        refused.to_string().contains("cannot be filled"),
        "{refused}"
    );
    assert!(QpStore::<u64>::builder().load(folder.file("none")).is_err());
}

#[test]
fn tables_of_bits() {
    let folder = Folder::quick("stores-bits");
    let path = folder.file("table");
    let fib = BitFib::new().unwrap();
    let bits = |n: u64| BitString::from_number(u128::from(n % 512), 9).unwrap();
    for i in 0..300u64 {
        fib.insert(bits(i * 37), i).unwrap();
    }
    fib.snapshot().save(&path).unwrap();
    let again = BitFib::<u64>::builder().load(&path).unwrap();
    again.verify().unwrap();
    assert_eq!(again.version(), fib.version());
    assert!(again.snapshot().iter().eq(fib.snapshot().iter()));
    again.insert(bits(1), 7).unwrap();
    assert_eq!(again.version().get(), fib.version().get() + 1);
    let mut names = BitFileBuilder::new();
    names.insert(bits(1), 1u64).unwrap();
    names.push_name("left").unwrap();
    names.save(&path).unwrap();
    let refused = BitFib::<u64>::builder().load(&path).unwrap_err();
    assert!(refused.to_string().contains("1 names"), "{refused}");
    // The keys of a map are no prefixes.
    let map = QpMap::from([("ash", 1u64)]);
    map.save(&path).unwrap();
    let refused = BitFib::<u64>::builder().load(&path).unwrap_err();
    assert!(
        matches!(refused.cause, OpenCause::OtherKind { .. }),
        "{refused}"
    );
    // An earlier version saved maps and tables with one layout.
    let path = committed("leaves-30.map");
    let refused = BitFib::<u64>::builder().load(&path).unwrap_err();
    assert!(matches!(refused.cause, OpenCause::Corrupt(_)), "{refused}");
}

#[test]
fn torn_and_damaged_files_become_no_stores() {
    let folder = Folder::quick("stores-damaged");
    let path = folder.file("store");
    let store = QpStore::<[u8]>::new().unwrap();
    let mut txn = store.begin();
    for n in 0..12u64 {
        txn.insert(format!("{:x}", n * n), &bytes(n)).unwrap();
    }
    txn.commit();
    store.snapshot().save(&path).unwrap();
    let whole = fs::read(&path).unwrap();
    let load = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        QpStore::<[u8]>::builder().load(&path)
    };
    for len in 0..whole.len() {
        assert!(
            load(&whole[..len]).is_err(),
            "{len} bytes of {}",
            whole.len()
        );
    }
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        assert!(load(&bytes).is_err(), "byte {at}");
    }
    // With valid checksums: a version number that could not be increased.
    let mut header = decoded(&whole);
    header.roots[2] = u64::MAX;
    write_image(&path, &[&whole[sapwood::arena::HEADER_LEN..]], header).unwrap();
    let refused = QpStore::<[u8]>::builder().load(&path).unwrap_err();
    assert!(refused.to_string().contains("version"), "{refused}");
    assert_eq!(load(&whole).unwrap().len(), 12);
}

/// The writer works while snapshots are saved repeatedly; each file is one commit.
#[test]
fn files_are_whole_commits_beside_a_writer() {
    let folder = Folder::new("stores-beside");
    let path = folder.file("store");
    let store = QpStore::<u64>::new().unwrap();
    let commit = |value: u64| {
        let mut txn = store.begin();
        for key in 0..500u32 {
            txn.insert(key.to_be_bytes(), value).unwrap();
        }
        txn.commit()
    };
    commit(1);
    let stop = AtomicBool::new(false);
    let commits = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut value = 1;
            while !stop.load(Ordering::Relaxed) {
                value += 1;
                assert_eq!(commit(value).get(), value);
            }
            value
        });
        let mut last = 0;
        for _ in 0..30 {
            store.snapshot().save(&path).unwrap();
            let again = QpStore::<u64>::builder().load(&path).unwrap();
            let version = again.version().get();
            assert!(version >= last, "an older version was saved");
            last = version;
            let snapshot = again.snapshot();
            assert_eq!(snapshot.len(), 500);
            assert!(snapshot.values().all(|value| *value == version));
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap()
    });
    assert!(commits > 30, "{commits}");
}
