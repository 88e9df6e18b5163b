//! Memory that runs out: an operation completes or changes nothing, and nothing is lost.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

use sapwood::arena::{ArenaOptions, Backing, DebugMode};
use sapwood::qp::Error;
use sapwood::qp::{Entry, Key, QpMap, QpStore};

type Model<V> = BTreeMap<Vec<u8>, V>;

/// A smaller count under Miri, where every step is slow.
const fn less(usual: usize, under_miri: usize) -> usize {
    if cfg!(miri) { under_miri } else { usual }
}

fn same<V: PartialEq + Debug>(map: &QpMap<V>, model: &Model<V>) {
    map.verify().unwrap();
    assert_eq!(map.len(), model.len());
    assert!(map.iter().eq(model.iter().map(|(k, v)| (Key::from(k), v))));
}

fn small_store<V: Send + Sync>(options: ArenaOptions) -> Result<QpStore<V>, Error> {
    let reserve = 1 << 26;
    QpStore::builder()
        .options(options.backing(Backing::Mmap { reserve }))
        .build()
}

fn nth_key(i: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(i as u64);
    let len = rng.usize(1..24);
    (0..len).map(|_| b"abcd.0"[rng.usize(..6)]).collect()
}

#[test]
fn a_full_map_is_unchanged_and_usable_again_after_removals() {
    for limit in [4 << 10, 20 << 10, less(200 << 10, 30 << 10)] {
        let mut map = QpMap::with_options(ArenaOptions::default().limit(limit)).unwrap();
        let mut model = Model::new();
        let mut refused = 0;
        for i in 0.. {
            let (key, value) = (nth_key(i), format!("{i}"));
            let new = !model.contains_key(&key);
            match map.insert(&key, value.clone()) {
                Ok(old) => assert_eq!(old, model.insert(key, value)),
                Err(rejected) => {
                    assert!(new, "replacing needs no memory");
                    assert_eq!(rejected.value, value);
                    assert!(matches!(rejected.error, Error::ArenaFull(_)), "{rejected}");
                    assert_eq!(map.get(&key), None);
                    let Ok(Entry::Vacant(vacant)) = map.entry(&key) else {
                        panic!("a refused key is absent");
                    };
                    assert_eq!(vacant.try_insert(value.clone()).unwrap_err().value, value);
                    refused += 1;
                    if refused == 20 {
                        break;
                    }
                }
            }
        }
        assert!(model.len() > limit / 200);
        same(&map, &model);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            for i in 0..1_000 {
                map.entry([b'z', i as u8, (i >> 8) as u8])
                    .unwrap()
                    .or_insert(String::new());
            }
        }));
        assert!(panicked.is_err(), "or_insert panics when the arena is full");
        map.remove_prefix("z");
        same(&map, &model);
        let half: Vec<_> = model.keys().step_by(2).cloned().collect();
        for key in half.iter() {
            assert_eq!(map.remove(key), model.remove(key));
        }
        same(&map, &model);
        // Insert only half of them again: the freed memory may be fragmented.
        for key in half.into_iter().step_by(2) {
            map.insert(&key, String::new()).unwrap();
            model.insert(key, String::new());
        }
        same(&map, &model);
    }
}

#[test]
fn compaction_of_a_full_map_fails_or_succeeds_whole() {
    let limit = 40 << 10;
    let mut map = QpMap::with_options(ArenaOptions::default().limit(limit)).unwrap();
    let mut model = Model::new();
    for i in 0.. {
        if map.insert(nth_key(i), i).is_err() {
            break;
        }
        model.insert(nth_key(i), i);
        if i % less(64, 512) == 0 {
            match map.compact() {
                Ok(()) => {}
                Err(error) => assert!(matches!(error, Error::ArenaFull(_))),
            }
            same(&map, &model);
        }
    }
    same(&map, &model);
}

/// Appends `from` to `to`, and checks that every entry is where the documentation says.
fn append_and_check(to: &mut QpMap<usize>, from: &mut QpMap<usize>) -> bool {
    let here: Model<usize> = to.iter().map(|(k, v)| (k.to_vec(), *v)).collect();
    let there: Model<usize> = from.iter().map(|(k, v)| (k.to_vec(), *v)).collect();
    let done = to.append(from).is_ok();
    to.verify().unwrap();
    from.verify().unwrap();
    assert!(!done || from.is_empty());
    for (key, value) in &there {
        let moved = to.get(key) == Some(value) && from.get(key).is_none();
        let stayed = to.get(key) == here.get(key) && from.get(key) == Some(value);
        assert!(moved || stayed, "{}", key.escape_ascii());
    }
    for (key, value) in &here {
        assert!(there.contains_key(key) || to.get(key) == Some(value));
    }
    assert!(
        to.keys()
            .chain(from.keys())
            .all(|k| here.contains_key(&k[..]) || there.contains_key(&k[..]))
    );
    done
}

#[test]
fn appending_to_a_full_map_loses_nothing() {
    let mut failed = 0;
    for seed in 0..less(200, 3) {
        let mut to = QpMap::with_options(ArenaOptions::default().limit(8 << 10)).unwrap();
        let mut from = QpMap::new();
        for i in 0..80 + seed {
            let _ = to.insert(nth_key(seed * 1000 + i), i);
            from.insert(nth_key(seed * 777 + i * 3), i + 10_000)
                .unwrap();
        }
        failed += usize::from(!append_and_check(&mut to, &mut from));
    }
    assert!(failed > 0);
}

#[test]
fn appending_from_a_full_map_to_a_full_map_loses_nothing() {
    let mut failed = 0;
    for seed in 0..less(300, 3) {
        let limit = |bytes| ArenaOptions::default().limit(bytes);
        let mut to = QpMap::with_options(limit(4096)).unwrap();
        let mut from = QpMap::with_options(limit(4096 + 512 * (seed % 8))).unwrap();
        for i in 0..600 {
            let _ = to.insert(nth_key(seed * 1000 + i), i);
            let _ = from.insert(nth_key(seed * 777 + i * 3), i + 10_000);
        }
        failed += usize::from(!append_and_check(&mut to, &mut from));
    }
    assert!(failed > 0);
}

#[test]
fn every_nth_request_fails_in_a_map() {
    for n in (1..40).step_by(less(1, 13)) {
        let options = ArenaOptions::default()
            .debug(DebugMode::Poison)
            .fail_every(n);
        let Ok(mut map) = QpMap::with_options(options) else {
            assert!(n <= 2, "only the first requests make an arena");
            continue;
        };
        let mut model = Model::new();
        let mut failures = 0;
        let mut rng = fastrand::Rng::with_seed(n);
        for i in 0..less(600, 20) {
            let key = nth_key(rng.usize(..120));
            match rng.u8(..20) {
                0..12 => match map.insert(&key, i) {
                    Ok(old) => assert_eq!(old, model.insert(key, i)),
                    Err(rejected) => {
                        failures += 1;
                        assert_eq!(rejected.value, i);
                    }
                },
                12..15 => assert_eq!(map.remove(&key), model.remove(&key)),
                15 => match map.entry(&key).unwrap() {
                    Entry::Occupied(mut entry) => {
                        assert_eq!(Some(entry.insert(i)), model.insert(key, i));
                    }
                    Entry::Vacant(entry) => match entry.try_insert(i) {
                        Ok(value) => {
                            assert_eq!(*value, i);
                            assert_eq!(model.insert(key, i), None);
                        }
                        Err(_) => failures += 1,
                    },
                },
                16 => failures += usize::from(map.compact().is_err()),
                17 => {
                    let mut other: QpMap<usize> = (0..3)
                        .map(|j| (nth_key(rng.usize(..120) + j), i + j))
                        .collect();
                    failures += usize::from(!append_and_check(&mut map, &mut other));
                    model = map.iter().map(|(k, v)| (k.to_vec(), *v)).collect();
                }
                18 => match map.split_off(&key) {
                    Ok(upper) => same(&upper, &model.split_off(&key)),
                    Err(_) => failures += 1,
                },
                _ => {
                    map.retain(|_, v| *v % 3 > 0);
                    model.retain(|_, v| *v % 3 > 0);
                }
            }
            same(&map, &model);
        }
        // A map asks for memory less than once in ten changes.
        assert!(failures > 0 || n > 16 || cfg!(miri), "n = {n}");
    }
}

#[test]
fn every_nth_request_fails_while_building() {
    let entries: Model<usize> = (0..less(400, 30)).map(|i| (nth_key(i), i)).collect();
    for n in (1..40).step_by(less(1, 13)) {
        let options = ArenaOptions::default().fail_every(n);
        match QpMap::from_sorted_iter_in(options, &entries) {
            Ok(map) => assert!(
                map.iter()
                    .map(|(k, v)| (k, *v))
                    .eq(entries.iter().map(|(k, v)| (Key::from(k), v)))
            ),
            Err(error) => assert!(matches!(error, Error::ArenaFull(_))),
        }
    }
    let most = (0..64).map(|kib| ArenaOptions::default().limit(kib << 10));
    let built = most
        .map(|o| QpMap::from_sorted_iter_in(o, &entries).is_ok())
        .collect::<Vec<_>>();
    assert!(!built[0] && built[63] && built.is_sorted(), "{built:?}");
}

#[test]
fn every_nth_request_fails_in_a_store() {
    for n in (1..40).step_by(less(1, 13)) {
        let options = ArenaOptions::default()
            .debug(DebugMode::Poison)
            .fail_every(n);
        let Ok(store) = small_store::<usize>(options) else {
            assert!(n <= 2);
            continue;
        };
        let mut committed: Model<usize> = Model::new();
        let mut failures = 0;
        let mut rng = fastrand::Rng::with_seed(n);
        let mut kept = None;
        for i in 0..less(120, 6) {
            let mut model = committed.clone();
            let mut txn = store.begin();
            for j in 0..rng.usize(1..12) {
                let key = nth_key(rng.usize(..120));
                let failed = match rng.u8(..12) {
                    0..8 => match txn.insert(&key, i + j) {
                        Ok(old) => {
                            assert_eq!(old.copied(), model.insert(key, i + j));
                            false
                        }
                        Err(rejected) => rejected.value == i + j,
                    },
                    8..11 => match txn.remove(&key) {
                        Ok(old) => {
                            assert_eq!(old.copied(), model.remove(&key));
                            false
                        }
                        Err(error) => matches!(error, Error::ArenaFull(_)),
                    },
                    _ => match txn.remove_prefix(&key) {
                        Ok(removed) => {
                            let before = model.len();
                            model.retain(|k, _| !k.starts_with(&key));
                            assert_eq!(removed, before - model.len());
                            false
                        }
                        Err(error) => matches!(error, Error::ArenaFull(_)),
                    },
                };
                failures += usize::from(failed);
                assert_eq!(txn.len(), model.len());
                assert!(txn.iter().eq(model.iter().map(|(k, v)| (Key::from(k), v))));
            }
            if rng.u8(..4) == 0 {
                txn.rollback();
            } else {
                txn.commit();
                committed = model;
            }
            store.verify().unwrap();
            failures += usize::from(store.compact_step(1 + rng.usize(..20)).is_err());
            store.verify().unwrap();
            let now = store.snapshot();
            assert!(
                now.iter()
                    .eq(committed.iter().map(|(k, v)| (Key::from(k), v)))
            );
            if i % 16 == 0 {
                kept = Some((now, committed.clone()));
            }
            if let Some((snapshot, model)) = &kept {
                assert!(
                    snapshot
                        .iter()
                        .eq(model.iter().map(|(k, v)| (Key::from(k), v)))
                );
            }
        }
        assert!(failures > 0 || cfg!(miri), "n = {n}");
        drop(kept);
        store.reclaim(usize::MAX);
        assert_eq!(store.memory().waiting, (0, 0));
        store.verify().unwrap();
    }
}

#[test]
fn a_full_store_keeps_its_version_and_goes_on_after_reclaiming() {
    let store = small_store(ArenaOptions::default().limit(64 << 10)).unwrap();
    let mut txn = store.begin();
    let mut n = 0;
    let error = loop {
        match txn.insert(nth_key(n), n) {
            Ok(_) => n += 1,
            Err(rejected) => break rejected,
        }
    };
    assert_eq!(error.value, n);
    assert!(matches!(error.error, Error::ArenaFull(_)));
    let len = txn.len();
    txn.commit();
    store.verify().unwrap();
    let version = store.version();
    assert_eq!(store.read(|view| view.len()), len);
    // A full store can still drop all entries, and then has room again.
    let mut txn = store.begin();
    assert_eq!(txn.clear().unwrap(), len);
    txn.commit();
    assert!(store.version() > version);
    store.reclaim(usize::MAX);
    assert_eq!(store.memory().map.arena.live, 0);
    let mut txn = store.begin();
    for i in 0..n {
        txn.insert(nth_key(i), i).unwrap();
    }
    txn.commit();
    store.verify().unwrap();
    assert_eq!(store.read(|view| view.len()), len);
}

#[test]
#[should_panic(expected = "readers need a base that stays")]
fn a_store_needs_a_backing_that_stays() {
    let _ = QpStore::<u8>::builder()
        .options(ArenaOptions::default())
        .build();
}
