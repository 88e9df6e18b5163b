//! Values that are byte strings of any length: their forms, limits and sizes; what happens to them
//! when memory runs out, in files, and in arenas that other processes read.

use std::collections::BTreeMap;

use sapwood::arena::{Arena, ArenaOptions, Backing, DebugMode};
use sapwood::qp::{Change, Key, PointMap, QpMap, QpShared, QpStore};
use sapwood::qp::{Error, Rejected};
use sapwood::qsbr::Domain;

use crate::support::values::{Value, bytes};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// The longest byte string, as in `ValueTooLong`.
const MAX_VALUE: usize = 268_435_456;

/// Lengths at which the form of a length, or the number of words, changes.
const LENGTHS: [usize; 15] = [
    0, 1, 5, 6, 7, 8, 14, 253, 254, 255, 256, 1000, 65_535, 65_536, 70_001,
];

fn filled(len: usize, with: u8) -> Vec<u8> {
    (0..len).map(|i| with ^ i as u8).collect()
}

fn same(map: &QpMap<[u8]>, model: &Model) {
    map.verify().unwrap();
    assert_eq!(map.len(), model.len());
    let model = || model.iter().map(|(k, v)| (Key::from(k), &v[..]));
    assert!(map.iter().eq(model()));
    assert!(map.iter().rev().eq(model().rev()));
    for (key, value) in model() {
        assert_eq!(map.get(key), Some(value));
    }
}

/// The size in bytes of the leaf of a key and a value.
fn leaf(key_len: usize, value_len: usize) -> usize {
    let key = if key_len < 255 { 1 } else { 3 } + key_len;
    let value = match value_len {
        0..=253 => 1,
        254..=65_535 => 3,
        _ => 5,
    } + value_len;
    (key + value).next_multiple_of(8)
}

#[test]
fn every_length_of_keys_and_values() {
    let lengths = if cfg!(miri) { &LENGTHS[..10] } else { &LENGTHS };
    let mut map: QpMap<[u8]> =
        QpMap::with_options(ArenaOptions::default().debug(DebugMode::Poison)).unwrap();
    map.add_index();
    let store = QpStore::<[u8]>::new().unwrap();
    let shared = QpShared::<[u8]>::builder().with_index().build().unwrap();
    let points = PointMap::<[u8]>::new().unwrap();
    let mut model = Model::new();
    for round in 0..3 {
        let mut leaves = 0;
        let mut txn = store.begin();
        for (i, &key_len) in lengths.iter().enumerate() {
            let Ok(_) = u16::try_from(key_len) else {
                continue;
            };
            for j in 0..lengths.len() {
                // Each round has other lengths at the same keys.
                let len = lengths[(j + round) % lengths.len()];
                let mut key = filled(key_len, i as u8);
                match key.last_mut() {
                    Some(last) => *last = j as u8,
                    None if j > 0 => continue,
                    None => {}
                }
                let value = filled(len, (round + i + j) as u8);
                leaves += leaf(key_len, len);
                let old = model.insert(key.clone(), value.clone());
                let found = map.insert(&key, &value).unwrap();
                assert_eq!(found.as_deref(), old.as_deref());
                assert_eq!(txn.insert(&key, &value).unwrap(), old.as_deref());
                assert_eq!(shared.insert(&key, &value).unwrap(), old.is_none());
                assert_eq!(points.insert(&key, &value).unwrap(), old.is_none());
            }
        }
        txn.commit();
        same(&map, &model);
        assert_eq!(map.memory().leaves, (model.len(), leaves));
        shared.reclaim(usize::MAX);
        points.reclaim(usize::MAX);
        assert_eq!(shared.memory().leaves, (model.len(), leaves));
        assert_eq!(points.memory().leaves, (model.len(), leaves));
        store.verify().unwrap();
        shared.verify().unwrap();
        points.verify().unwrap();
        let (snapshot, pin) = (store.snapshot(), points.pin());
        for (key, value) in &model {
            assert_eq!(snapshot.get(key), Some(&value[..]));
            assert_eq!(shared.get(key).as_ref(), Some(value));
            assert_eq!(pin.view().get(key), Some(&value[..]));
        }
        map.compact().unwrap();
        while shared.compact_step(10).unwrap() {}
        same(&map, &model);
        shared.verify().unwrap();
    }
    let upper = map.split_off([3]).unwrap();
    let mut upper_model = model.split_off(&[3][..]);
    same(&map, &model);
    same(&upper, &upper_model);
    let mut all = upper.clone();
    all.append(&mut map).unwrap();
    upper_model.append(&mut model);
    same(&all, &upper_model);
    let out: Model = all.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
    assert_eq!(out, upper_model);
}

#[test]
fn a_leaf_takes_three_bytes_more_than_one_of_a_fixed_value() {
    let keys: Vec<String> = (0..10_000u64)
        .map(|i| format!("{:x}", i * 0x9e37_79b9))
        .collect();
    let mut fixed = QpMap::with_leaves(ArenaOptions::default()).unwrap();
    let mut texts: QpMap<[u8]> = QpMap::with_leaves(ArenaOptions::default()).unwrap();
    for key in &keys {
        fixed.insert(key, 7u64).unwrap();
        texts.insert(key, &7u64.to_le_bytes()).unwrap();
    }
    let (fixed, texts) = (fixed.memory(), texts.memory());
    assert_eq!(
        (fixed.branches, fixed.clusters),
        (texts.branches, texts.clusters)
    );
    assert!(texts.leaves.1 <= fixed.leaves.1 + 3 * keys.len());
}

#[test]
fn a_value_that_is_too_long_is_refused_by_every_way_in() {
    // Nothing is written to it, so it only takes address space.
    let long = vec![0; MAX_VALUE + 1];
    let wrong = Error::ValueTooLong { len: long.len() };
    assert!(wrong.to_string().contains("268435457"));
    let mut map: QpMap<[u8]> = QpMap::new();
    assert_eq!(map.insert("a", &long).unwrap_err().error, wrong);
    assert_eq!(map.insert_many([("a", &long)]).unwrap_err().error, wrong);
    assert_eq!(
        QpMap::<[u8]>::from_sorted_iter([("a", &long)]).err(),
        Some(wrong.clone())
    );
    assert!(map.is_empty());
    let store = QpStore::<[u8]>::new().unwrap();
    assert_eq!(store.begin().insert("a", &long).unwrap_err().error, wrong);
    let sorted = QpStore::<[u8]>::builder().build_sorted([("a", &long)]);
    assert_eq!(sorted.err(), Some(wrong.clone()));
    let shared = QpShared::<[u8]>::new().unwrap();
    assert_eq!(shared.insert("a", &long).unwrap_err().error, wrong);
    assert_eq!(shared.insert_new("a", &long).unwrap_err().error, wrong);
    assert_eq!(shared.replace("a", &long).unwrap_err().error, wrong);
    let refused = shared.compare_exchange("a", b"", &long);
    assert_eq!(refused.unwrap_err().error, wrong);
    shared.insert("a", b"there").unwrap();
    assert_eq!(
        shared.update("a", |_| long.clone().into()),
        Err(wrong.clone())
    );
    let pin = shared.pin();
    assert_eq!(
        pin.view().get_or_insert_with("b", || long.clone().into()),
        Err(wrong)
    );
    assert_eq!(shared.get("a").as_deref(), Some(&b"there"[..]));
    // The key is checked as well.
    let key = vec![0; 65_536];
    assert_eq!(
        map.insert(&key, b"").unwrap_err().error,
        Error::KeyTooLong { len: 65_536 }
    );
    assert_eq!(
        shared.insert(&key, b"").unwrap_err().error,
        Error::KeyTooLong { len: 65_536 }
    );
}

#[test]
#[cfg(not(miri))]
fn a_value_of_many_megabytes() {
    let long = filled(20 << 20, 5);
    let store = QpStore::<[u8]>::new().unwrap();
    let mut txn = store.begin();
    txn.insert("long", &long).unwrap();
    txn.insert("short", b"a").unwrap();
    txn.commit();
    assert!(store.pin().view().get("long") == Some(&long));
    let before = store.snapshot();
    let mut txn = store.begin();
    txn.insert("long", b"b").unwrap();
    txn.commit();
    let after = store.snapshot();
    let changes: Vec<_> = QpStore::diff(&before, &after).collect();
    assert!(changes == [Change::Changed(Key::from("long"), &long[..], &b"b"[..])]);
    assert!(store.oldest_snapshot().unwrap().bytes >= long.len());
    drop(changes);
    drop(before);
    store.reclaim(usize::MAX);
    store.verify().unwrap();
    assert_eq!(store.memory().waiting.1, 0);
}

/// Entries by reference, in the form that maps of byte strings take.
fn pairs<K>(list: &[(K, Vec<u8>)]) -> impl Iterator<Item = (&K, &Vec<u8>)> {
    list.iter().map(|(key, value)| (key, value))
}

#[test]
fn sorted_entries_with_equal_keys_keep_the_last() {
    let mut model = Model::new();
    let mut entries = Vec::new();
    for i in 0..300u64 {
        let key = (i / 7).to_be_bytes().to_vec();
        let value = filled((i * 37 % 300) as usize, i as u8);
        model.insert(key.clone(), value.clone());
        entries.push((key, value));
    }
    let map = QpMap::<[u8]>::from_sorted_iter(pairs(&entries)).unwrap();
    same(&map, &model);
    // A walk over consecutive leaves uses their lengths.
    let alone = QpMap::<[u8]>::from_sorted_iter(&model).unwrap();
    same(&alone, &model);
    let store = QpStore::<[u8]>::builder()
        .build_sorted(pairs(&entries))
        .unwrap();
    let snapshot = store.snapshot();
    assert!(
        snapshot
            .iter()
            .eq(model.iter().map(|(k, v)| (Key::from(k), &v[..])))
    );
    let shared = QpShared::<[u8]>::builder()
        .build_sorted(pairs(&entries))
        .unwrap();
    assert_eq!(shared.len(), model.len());
    shared.verify().unwrap();
    entries.reverse();
    let unsorted = QpMap::<[u8]>::from_sorted_iter(pairs(&entries)).err();
    assert!(matches!(unsorted, Some(Error::NotSorted { .. })));
}

#[test]
fn a_full_map_is_unchanged_by_a_replacement_that_has_no_room() {
    let n = if cfg!(miri) { 200 } else { 3_000 };
    for (index, seed) in [(false, 1), (true, 2)] {
        for every in [2, 3, 7] {
            let options = ArenaOptions::default().debug(DebugMode::Poison);
            let mut map: QpMap<[u8]> =
                QpMap::with_options(options.fail_every(every).limit(64 << 10)).unwrap();
            if index {
                map.add_index();
            }
            let mut model = Model::new();
            let mut rng = fastrand::Rng::with_seed(seed);
            let (mut refused, mut over) = (0, 0);
            for i in 0..n {
                let key = filled(rng.usize(..6), rng.u8(..4));
                if rng.u8(..4) == 0 {
                    // A removal needs no memory.
                    let (found, there) = (map.remove(&key), model.remove(&key));
                    assert_eq!(found.as_deref(), there.as_deref());
                    continue;
                }
                let value = filled(rng.usize(..400), i as u8);
                match map.insert(&key, &value) {
                    Ok(old) => {
                        assert_eq!(old.as_deref(), model.insert(key, value).as_deref());
                    }
                    Err(Rejected { error, .. }) => {
                        assert!(matches!(error, Error::ArenaFull(_)), "{error}");
                        assert_eq!(map.get(&key), model.get(&key).map(|value| &value[..]));
                        refused += 1;
                        over += usize::from(model.contains_key(&key));
                    }
                }
                if i % 16 == 0 {
                    map.verify().unwrap();
                }
            }
            assert!(refused > over && over > 0, "{refused} {over}");
            same(&map, &model);
        }
    }
}

#[test]
fn many_at_once_and_few_kept() {
    let mut map: QpMap<[u8]> = QpMap::new();
    let list: Vec<_> = (0..500u64).map(|i| (i.to_be_bytes(), bytes(i))).collect();
    assert_eq!(map.insert_many(pairs(&list)).unwrap(), 500);
    assert_eq!(map.insert_many(pairs(&list)).unwrap(), 0);
    map.retain(|_, value| value.number() % 3 == 0);
    assert_eq!(map.len(), 167);
    let mut out = vec![None; 500];
    let keys: Vec<_> = list.iter().map(|(key, _)| key).collect();
    map.get_many(&keys, &mut out);
    let kept = |i: usize| i % 3 == 0;
    assert!((0..500).all(|i| out[i] == kept(i).then_some(&list[i].1[..])));
    assert_eq!(map.remove_many(&keys), 167);
    map.verify().unwrap();
    let shared = QpShared::<[u8]>::new().unwrap();
    assert_eq!(shared.insert_many(pairs(&list)).unwrap(), 500);
    assert_eq!(shared.retain(|_, value| value.number() % 2 == 0), Ok(250));
    assert_eq!(shared.remove_many(&keys), Ok(250));
    shared.verify().unwrap();
}

#[test]
fn the_garbage_of_a_store_is_that_of_the_old_values() {
    let limit = 64 << 10;
    let domain = Domain::builder().hard_limit(limit).build();
    let store = QpStore::<[u8]>::builder().domain(&domain).build().unwrap();
    let mut txn = store.begin();
    txn.insert("a", &filled(40 << 10, 1)).unwrap();
    txn.insert("b", b"").unwrap();
    txn.commit();
    let held = store.snapshot();
    let mut txn = store.begin();
    txn.insert("a", b"").unwrap();
    txn.commit();
    assert!(domain.garbage() >= 40 << 10);
    // New values are no garbage, whatever their length; long old values are garbage.
    let mut txn = store.begin();
    txn.insert("b", &filled(40 << 10, 1)).unwrap();
    txn.commit();
    let mut txn = store.begin();
    assert!(matches!(
        txn.insert("b", b"").unwrap_err().error,
        Error::GarbageLimit(_)
    ));
    drop(txn);
    assert!(domain.garbage() <= limit);
    drop(held);
    let mut txn = store.begin();
    txn.insert("b", b"").unwrap();
    txn.commit();
    store.verify().unwrap();
}

/// The facts that other processes find: the place of the values, and their number.
#[test]
#[cfg(not(miri))]
fn a_published_map_says_that_its_values_are_byte_strings() {
    use sapwood::arena::HeaderMode;
    let options = |hash| {
        ArenaOptions::default()
            .backing(Backing::Mmap { reserve: 1 << 24 })
            .header(HeaderMode::Page)
            .layout_hash(hash)
    };
    let hash = QpShared::<[u8]>::layout_hash();
    // A point map has no trie, and so no dead slots.
    assert_ne!(hash, PointMap::<[u8]>::layout_hash());
    assert_ne!(hash, QpShared::<u64>::layout_hash());
    assert_ne!(hash, QpShared::<[u64; 0]>::layout_hash());
    let list: Vec<_> = (0..300u64).map(|i| (i.to_be_bytes(), bytes(i))).collect();
    let map = QpShared::<[u8]>::builder()
        .with_index()
        .build_sorted_in(Arena::create(options(hash)).unwrap(), pairs(&list))
        .unwrap();
    let points = PointMap::<[u8]>::builder()
        .build_in(Arena::create(options(hash)).unwrap())
        .unwrap();
    for (key, value) in &list {
        points.insert(key, value).unwrap();
        assert_eq!(map.get(key).as_ref(), Some(value));
    }
    for (key, value) in &list {
        assert!(!map.insert(key, &value[1..]).unwrap());
        assert!(!points.insert(key, &value[1..]).unwrap());
        assert_eq!(map.get(key).as_deref(), Some(&value[1..]));
        assert_eq!(points.get(key).as_deref(), Some(&value[1..]));
    }
    map.verify().unwrap();
    points.verify().unwrap();
}

#[cfg(all(unix, not(miri)))]
mod files {
    use std::fs;

    use sapwood::arena::{HEADER_LEN, write_image};
    use sapwood::qp::{OpenCause, QpFile};

    use super::*;
    use crate::support::folder::{Folder, decoded};

    fn sample(n: u64) -> QpMap<[u8]> {
        let mut map = QpMap::new();
        for i in 0..n {
            let key = format!("{:x}/{i}", i.wrapping_mul(0x9e37_79b9) & 0xffff);
            map.insert(key, &bytes(i * 64 + i % 63)).unwrap();
        }
        map
    }

    #[test]
    fn a_saved_map_is_read_where_it_lies() {
        let folder = Folder::new("texts");
        let path = folder.file("map");
        for n in [0, 1, 2, 30, 3_000] {
            let mut map = sample(n);
            map.save(&path).unwrap();
            let bytes = fs::read(&path).unwrap();
            for file in [QpFile::<[u8]>::open(&path), QpFile::open_unverified(&path)] {
                let file = file.unwrap();
                file.verify().unwrap();
                assert!(file.iter().eq(map.iter()) && file.iter().rev().eq(map.iter().rev()));
                assert!(map.iter().all(|(key, value)| file.get(key) == Some(value)));
                let keys: Vec<_> = map.keys().collect();
                let mut out = vec![None; keys.len()];
                file.get_many(&keys, &mut out);
                assert!(out.into_iter().map(Option::unwrap).eq(map.values()));
                let shape = file.shape().unwrap();
                let bytes = map.keys().map(|key| key.len()).sum();
                assert_eq!((shape.entries, shape.key_bytes), (map.len(), bytes));
                // Only values that do not fit into a cluster have leaves.
                let apart = map.values().filter(|value| value.len() > 64).count();
                assert!((apart > 0) == (shape.leaf_bytes > 0) || n < 2, "{shape}");
            }
            // The bytes depend only on the entries, not on the history of the map.
            map.compact().unwrap();
            map.insert("more", b"x").unwrap();
            map.remove("more");
            map.save(&path).unwrap();
            assert!(fs::read(&path).unwrap() == bytes);
            let store = QpStore::<[u8]>::builder().build_sorted(&map).unwrap();
            store.snapshot().save(&path).unwrap();
            assert!(fs::read(&path).unwrap() == bytes);
            let layout = |cause| matches!(cause, OpenCause::ByteStrings { .. });
            assert!(QpFile::<u64>::open(&path).is_err_and(|error| layout(error.cause)));
            assert!(QpFile::<[u8; 1]>::open(&path).is_err_and(|error| layout(error.cause)));
            assert!(QpFile::<()>::open(&path).is_err_and(|error| layout(error.cause)));
        }
        QpMap::from([("a", 1u64)]).save(&path).unwrap();
        let error = QpFile::<[u8]>::open(&path).unwrap_err();
        let fixed = (8, align_of::<u64>());
        assert!(
            matches!(error.cause, OpenCause::NotByteStrings { size, align } if (size, align) == fixed),
            "{error}"
        );
    }

    /// Queries a file that may be damaged, and reads every byte of the answers.
    fn ask(file: &QpFile<[u8]>, model: &QpMap<[u8]>) {
        let sum = |value: &[u8]| value.iter().map(|byte| u64::from(*byte)).sum::<u64>();
        std::hint::black_box((
            file.verify().is_ok(),
            file.iter()
                .take(100)
                .map(|(_, value)| sum(value))
                .sum::<u64>(),
            file.iter()
                .rev()
                .take(100)
                .map(|(_, value)| sum(value))
                .sum::<u64>(),
            model
                .keys()
                .filter_map(|key| file.get(key))
                .map(sum)
                .sum::<u64>(),
            model
                .keys()
                .filter_map(|key| file.longest_prefix(key))
                .count(),
        ));
    }

    #[test]
    fn every_flipped_bit_is_refused_or_read_without_harm() {
        let folder = Folder::quick("texts-flipped");
        let path = folder.file("map");
        let map = sample(8);
        map.save(&path).unwrap();
        let whole = fs::read(&path).unwrap();
        let header = decoded(&whole);
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            fs::write(&path, &bytes).unwrap();
            assert!(QpFile::<[u8]>::open(&path).is_err(), "byte {at}");
            if at >= HEADER_LEN {
                // With a valid checksum again.
                write_image(&path, &[&bytes[HEADER_LEN..]], header).unwrap();
                if let Ok(file) = QpFile::<[u8]>::open(&path) {
                    ask(&file, &map);
                }
                ask(&QpFile::open_unverified(&path).unwrap(), &map);
            }
        }
    }

    /// Every form of a length, at the end of the file.
    #[test]
    fn lengths_that_reach_behind_the_end_are_refused() {
        let folder = Folder::quick("texts-lengths");
        let path = folder.file("map");
        for len in [0, 3, 5, 253, 254, 400, 65_535, 65_536] {
            let mut map: QpMap<[u8]> = QpMap::new();
            map.insert("k", &filled(len, 1)).unwrap();
            map.save(&path).unwrap();
            let whole = fs::read(&path).unwrap();
            let header = decoded(&whole);
            let root = header.roots[0] as usize / 4 * 8;
            let body = &whole[HEADER_LEN..];
            let at = root - HEADER_LEN + 2;
            for more in [
                vec![253],
                vec![254],
                vec![255],
                vec![254, 255, 255],
                vec![255, 255, 255, 255, 255],
                vec![255, 0, 0, 0, 128],
            ] {
                let mut body = body.to_vec();
                let end = body.len().min(at + more.len());
                body[at..end].copy_from_slice(&more[..end - at]);
                write_image(&path, &[&body], header).unwrap();
                let file = QpFile::<[u8]>::open_unverified(&path).unwrap();
                let fits = file.get("k").is_some_and(|value| value.len() <= body.len());
                assert_eq!(file.verify().is_ok(), fits, "{len} {more:?}");
                ask(&file, &map);
            }
        }
    }

    #[test]
    fn torn_files_are_refused() {
        let folder = Folder::quick("texts-torn");
        let path = folder.file("map");
        let map = sample(400);
        map.save(&path).unwrap();
        let whole = fs::read(&path).unwrap();
        for page in 1..whole.len() / 4096 {
            let at = page * 4096;
            for tail in [vec![], vec![0; whole.len() - at]] {
                fs::write(&path, [&whole[..at], &tail].concat()).unwrap();
                assert!(QpFile::<[u8]>::open(&path).is_err(), "page {page}");
                if let Ok(file) = QpFile::open_unverified(&path) {
                    ask(&file, &map);
                }
            }
        }
    }
}
