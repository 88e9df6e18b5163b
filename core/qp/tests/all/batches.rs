//! Batches of changes have the same result as the same changes one by one.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::support::ledger::{Counted, Ledger, key, map_of, store_of};
use sapwood::arena::{ArenaOptions, Backing, DebugMode};
use sapwood::qp::Error;
use sapwood::qp::{Key, MAX_KEY, QpMap, QpStore, ReadEntry};
use sapwood::qsbr::Domain;
use sapwood_model::data;

type Model<V> = BTreeMap<Vec<u8>, V>;

/// A smaller count under Miri, where every step is slow.
const fn less(usual: usize, under_miri: usize) -> usize {
    if cfg!(miri) { under_miri } else { usual }
}

/// Maps with more entries than this run sixteen descents at a time.
const LARGE: usize = 1 << 18;

/// Keys that are often equal, and prefixes of each other; the empty key is among them.
fn any_key(rng: &mut fastrand::Rng) -> Vec<u8> {
    let len = rng.usize(..8);
    (0..len).map(|_| b"ab\0\xff."[rng.usize(..5)]).collect()
}

/// Distinct keys for a large map: two for each of many names, one a prefix of the other.
fn many_keys() -> Vec<Vec<u8>> {
    let names = data::domains(LARGE * 2 / 3, 5).keys;
    let longer = names.iter().map(|name| [name, &b"."[..]].concat());
    let keys: Vec<Vec<u8>> = longer
        .chain(names.iter().map(|name| name.to_vec()))
        .collect();
    assert!(keys.len() > LARGE + 40_000);
    keys
}

fn same<'a, V: PartialEq + std::fmt::Debug + 'a>(
    entries: impl Iterator<Item = ReadEntry<'a, V>>,
    model: &'a Model<V>,
) {
    assert!(entries.eq(model.iter().map(|(k, v)| (Key::from(k), v))));
}

#[test]
fn small_batches_are_single_changes_in_order() {
    for seed in 0..less(300, 1) as u64 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let options = ArenaOptions::default().debug(DebugMode::Poison);
        let mut map = QpMap::with_options(options.clone()).unwrap();
        let store = QpStore::builder()
            .options(options.backing(Backing::Mmap { reserve: 1 << 24 }))
            .build()
            .unwrap();
        let mut model = Model::new();
        for _ in 0..12 {
            let mut txn = store.begin();
            let n = rng.usize(..60);
            let entries: Vec<_> = (0..n).map(|i| (any_key(&mut rng), i)).collect();
            let before = model.len();
            model.extend(entries.iter().cloned());
            let new = model.len() - before;
            assert_eq!(map.insert_many(entries.clone()).unwrap(), new);
            assert_eq!(txn.insert_many(entries).unwrap(), new);
            same(txn.iter(), &model);

            let n = rng.usize(..40);
            let keys: Vec<_> = (0..n).map(|_| any_key(&mut rng)).collect();
            let gone = keys.iter().filter(|k| model.remove(*k).is_some()).count();
            assert_eq!(map.remove_many(&keys), gone);
            assert_eq!(txn.remove_many(&keys).unwrap(), gone);
            txn.commit();
            same(map.iter(), &model);
            same(store.snapshot().iter(), &model);
            map.verify().unwrap();
            store.verify().unwrap();
        }
    }
}

#[test]
fn nothing_is_nothing() {
    let mut map = QpMap::<u64>::new();
    assert_eq!(map.insert_many::<&str, _>([]).unwrap(), 0);
    assert_eq!(map.remove_many::<&str>(&[]), 0);
    assert_eq!(map.remove_many(&["", "absent"]), 0);
    assert_eq!(map.memory().total(), 0);
    assert_eq!(map.insert_many([("", 1)]).unwrap(), 1);
    assert_eq!(map.insert_many([("", 2), ("", 3)]).unwrap(), 0);
    assert_eq!(map.get(""), Some(&3));
    assert_eq!(map.remove_many(&["", ""]), 1);
    assert!(map.is_empty());
}

#[test]
#[cfg(not(miri))]
fn large_batches_are_single_changes_in_order() {
    let keys = many_keys();
    let mut rng = fastrand::Rng::with_seed(3);
    let store = QpStore::new().unwrap();
    let mut txn = store.begin();
    let (mut many, mut single) = (QpMap::new(), QpMap::new());
    // The batch passes the bound, and some groups contain a key twice.
    let entries: Vec<(&[u8], usize)> = (0..keys.len() + 60_000)
        .map(|i| match keys.get(i) {
            Some(key) if i % 7 > 0 => (&key[..], i),
            _ => (&keys[rng.usize(..i.clamp(1, keys.len()))][..], i),
        })
        .collect();
    for (key, value) in &entries {
        single.insert(key, *value).unwrap();
    }
    assert!(single.len() > LARGE);
    assert_eq!(
        many.insert_many(entries.iter().copied()).unwrap(),
        single.len()
    );
    assert_eq!(
        txn.insert_many(entries.iter().copied()).unwrap(),
        single.len()
    );
    assert!(many == single);
    many.verify().unwrap();
    assert!(txn.iter().eq(single.iter()));

    // New keys, present keys and absent keys, in one batch.
    let more: Vec<(Vec<u8>, usize)> = (0..5_000)
        .map(|i| match i % 3 {
            0 => (keys[rng.usize(..keys.len())].clone(), i),
            1 => ([&keys[rng.usize(..keys.len())][..], b"/new"].concat(), i),
            _ => (any_key(&mut rng), i),
        })
        .collect();
    let new = more
        .iter()
        .filter(|(k, v)| single.insert(k, *v).unwrap().is_none());
    let new = new.count();
    assert_eq!(many.insert_many(more.clone()).unwrap(), new);
    assert_eq!(txn.insert_many(more.clone()).unwrap(), new);
    assert!(many == single);
    let mut doomed: Vec<&[u8]> = more.iter().map(|(k, _)| &k[..]).collect();
    doomed.extend(keys.iter().step_by(5).map(|k| &k[..]));
    let gone = doomed.iter().filter(|k| single.remove(k).is_some()).count();
    assert_eq!(many.remove_many(&doomed), gone);
    assert_eq!(txn.remove_many(&doomed).unwrap(), gone);
    assert!(many == single);
    txn.commit();
    assert!(store.snapshot().iter().eq(single.iter()));
    many.verify().unwrap();
    store.verify().unwrap();
}

#[test]
fn a_key_that_is_too_long_ends_a_small_batch_there() {
    let long = vec![b'x'; MAX_KEY + 1];
    let entries = |n: u8| {
        (0..n).map(|i| {
            if i == 20 {
                (long.clone(), i)
            } else {
                (vec![b'k', i], i)
            }
        })
    };
    let store = QpStore::new().unwrap();
    let mut txn = store.begin();
    let mut map = QpMap::new();
    let (mut a, mut b) = (entries(30), entries(30));
    for rejected in [
        map.insert_many(a.by_ref()).unwrap_err(),
        txn.insert_many(b.by_ref()).unwrap_err(),
    ] {
        assert_eq!(rejected.value, 20);
        assert_eq!(rejected.error, Error::KeyTooLong { len: MAX_KEY + 1 });
    }
    assert_eq!((map.len(), txn.len()), (20, 20));
    map.verify().unwrap();
    // The batch did not take the later entries.
    assert_eq!(map.insert_many(a).unwrap(), 9);
    assert_eq!(txn.insert_many(b).unwrap(), 9);
    assert!(map.values().copied().eq((0..30).filter(|i| *i != 20)));
    assert!(txn.iter().eq(map.iter()));
    // Removing the long key removes an absent key.
    assert_eq!(map.remove_many(&[&long[..], &[b'k', 3]]), 1);
    assert_eq!(txn.remove_many(&[&long[..], &[b'k', 3]]).unwrap(), 1);
    txn.commit();
    store.verify().unwrap();
}

/// Inserts entries in one call until the memory ends somewhere in a batch.
fn fill(limit: usize, before: &[Vec<u8>], after: impl Fn(usize) -> Vec<u8>) -> usize {
    let options = ArenaOptions::default().limit(limit);
    let mut map = QpMap::with_options(options).unwrap();
    map.insert_many(before.iter().map(|k| (k, usize::MAX)))
        .unwrap();
    let mut taken = 0;
    let entries = (0..).map(|i| (after(i), i)).inspect(|_| taken += 1);
    let rejected = map.insert_many(entries).unwrap_err();
    assert!(matches!(rejected.error, Error::ArenaFull(_)));
    let failed = rejected.value;
    assert!(
        (failed + 1..failed + 17).contains(&taken),
        "{taken} taken, {failed} failed"
    );
    map.verify().unwrap();
    assert_eq!(map.len(), before.len() + failed);
    assert_eq!(map.get(after(failed)), None);
    assert!((0..failed).all(|i| map.get(after(i)) == Some(&i)));
    // The map is still usable: removals make room, and insertions fill it again.
    let some: Vec<_> = (0..failed).step_by(2).map(&after).collect();
    assert_eq!(map.remove_many(&some), some.len());
    let back = some.iter().step_by(2).map(|k| (k, 0));
    assert_eq!(map.insert_many(back).unwrap(), some.len().div_ceil(2));
    map.verify().unwrap();
    taken - failed - 1
}

#[test]
fn a_full_arena_ends_a_batch_there() {
    let after = |i: usize| format!("{:x}/{i}", i.wrapping_mul(0x9e37_79b9) & 0xffff).into_bytes();
    for limit in [8 << 10, less(40 << 10, 9 << 10), less(300 << 10, 10 << 10)] {
        assert_eq!(
            fill(limit, &[], after),
            0,
            "a small map takes no entry ahead"
        );
    }
}

#[test]
#[cfg(not(miri))]
fn a_full_arena_ends_a_batch_in_a_large_map() {
    let keys = many_keys();
    let bytes = {
        let mut map = QpMap::new();
        map.insert_many(keys.iter().map(|k| (k, 0usize))).unwrap();
        map.memory().arena.committed
    };
    let after = |i: usize| format!("/{:x}/{i}", i.wrapping_mul(0x9e37_79b9) & 0xffff).into_bytes();
    // The place in a group where the insertion fails is random.
    let ahead: Vec<usize> = [100 << 10, 125 << 10, 150 << 10, 175 << 10]
        .iter()
        .map(|more| fill(bytes + more, &keys, after))
        .collect();
    assert!(ahead.iter().any(|n| *n > 0), "{ahead:?}");
}

#[test]
#[cfg(not(miri))]
fn a_long_key_ends_a_batch_in_a_large_map() {
    let keys = many_keys();
    let mut map = QpMap::new();
    map.insert_many(keys.iter().map(|k| (k, 0usize))).unwrap();
    let long = vec![b'x'; MAX_KEY + 1];
    let mut entries = (0..40usize).map(|i| {
        let key = if i == 21 {
            long.clone()
        } else {
            format!("/{i}").into_bytes()
        };
        (key, i)
    });
    let rejected = map.insert_many(entries.by_ref()).unwrap_err();
    assert_eq!(rejected.value, 21);
    assert_eq!(map.len(), keys.len() + 21);
    assert_eq!(entries.next().unwrap().1, 22);
    assert_eq!(map.insert_many(entries).unwrap(), 17);
    map.verify().unwrap();
}

#[test]
fn a_full_store_ends_a_batch_there() {
    let options = ArenaOptions::default().backing(Backing::Mmap { reserve: 1 << 26 });
    let store = QpStore::builder()
        .options(options.limit(64 << 10))
        .build()
        .unwrap();
    let mut txn = store.begin();
    let entries = |from: usize| (from..).map(|i| (format!("{i:x}"), i));
    let rejected = txn.insert_many(entries(0)).unwrap_err();
    assert!(matches!(rejected.error, Error::ArenaFull(_)));
    let n = rejected.value;
    assert!(n > 100);
    assert_eq!(txn.len(), n);
    assert!((0..n).all(|i| txn.get(format!("{i:x}")) == Some(&i)));
    assert_eq!(txn.get(format!("{n:x}")), None);
    txn.commit();
    store.verify().unwrap();
    assert_eq!(store.snapshot().len(), n);
}

#[test]
fn the_limit_of_garbage_ends_a_batch_of_removals_there() {
    let domain = Domain::builder().hard_limit(4 << 10).build();
    let options = ArenaOptions::default().backing(Backing::Mmap { reserve: 1 << 26 });
    let store = QpStore::builder()
        .options(options)
        .domain(&domain)
        .build()
        .unwrap();
    let keys: Vec<String> = (0..less(2_000, 200)).map(|i| format!("{i:x}")).collect();
    let mut txn = store.begin();
    txn.insert_many(keys.iter().map(|k| (k, 1u64))).unwrap();
    txn.commit();
    let reader = store.reader("holds all back").unwrap();
    let view = reader.view();
    let mut txn = store.begin();
    let error = txn.remove_many(&keys).unwrap_err();
    assert!(matches!(error, Error::GarbageLimit(_)), "{error}");
    let gone = keys.len() - txn.len();
    assert!((1..keys.len()).contains(&gone));
    // The keys before the failing one are gone, in the order of the batch.
    assert!(keys[..gone].iter().all(|k| !txn.contains_key(k)));
    assert!(keys[gone..].iter().all(|k| txn.contains_key(k)));
    txn.commit();
    assert_eq!(view.len(), keys.len());
    store.verify().unwrap();
}

#[test]
fn values_are_dropped_once() {
    static L: Ledger = Ledger::new();
    let mut map = map_of(&L, 50);
    let entry = |i: u32| (key(i % 80), L.value(i));
    // 30 keys are new; 50 values are replaced, and then all.
    assert_eq!(map.insert_many((0..160).map(entry)).unwrap(), 30);
    assert_eq!((map.len(), L.alive()), (80, 80));
    assert!((0..80).all(|i| map.get(key(i)).is_some_and(|v| v.tag == i + 80)));
    let keys: Vec<_> = (60..100).map(key).collect();
    assert_eq!(map.remove_many(&keys), 20);
    assert_eq!((map.len(), L.alive()), (60, 60));

    let long = vec![0; MAX_KEY + 1];
    let with_long = [entry(1), (long, L.value(7)), entry(2), entry(3)];
    let rejected = map.insert_many(with_long).unwrap_err();
    assert_eq!((rejected.value.tag, L.alive()), (7, 61));
    drop(rejected);
    assert_eq!(L.alive(), 60);
    map.verify().unwrap();
    drop(map);
    assert_eq!(L.alive(), 0);
}

#[test]
fn a_storeful_of_values_is_dropped_once() {
    static L: Ledger = Ledger::new();
    let store = store_of(&L, 50);
    let mut txn = store.begin();
    let entries = (0..160).map(|i| (key(i % 80), L.value(i)));
    assert_eq!(txn.insert_many(entries).unwrap(), 30);
    let keys: Vec<_> = (60..100).map(key).collect();
    assert_eq!(txn.remove_many(&keys).unwrap(), 20);
    txn.rollback();
    assert_eq!(L.alive(), 50);
    let mut txn = store.begin();
    let entries = (0..160).map(|i| (key(i % 80), L.value(i)));
    assert_eq!(txn.insert_many(entries).unwrap(), 30);
    assert_eq!(txn.remove_many(&keys).unwrap(), 20);
    txn.commit();
    store.reclaim(usize::MAX);
    assert_eq!((store.snapshot().len(), L.alive()), (60, 60));
    store.verify().unwrap();
    drop(store);
    assert_eq!(L.alive(), 0);
}

#[test]
fn a_panic_among_the_entries_leaves_those_before_it() {
    static L: Ledger = Ledger::new();
    let mut map: QpMap<Counted> = map_of(&L, 10);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let entries = (10..40).map(|i| {
            assert!(i < 30, "the iterator panics");
            (key(i), L.value(i))
        });
        map.insert_many(entries).unwrap();
    }));
    assert!(panicked.is_err());
    assert_eq!((map.len(), L.alive()), (30, 30));
    map.verify().unwrap();

    map.insert("bomb", L.bomb(1)).unwrap();
    let keys = [key(1), b"bomb".to_vec(), key(2)];
    assert!(catch_unwind(AssertUnwindSafe(|| map.remove_many(&keys))).is_err());
    assert!(map.get("bomb").is_none() && map.get(key(1)).is_none());
    assert!(map.get(key(2)).is_some());
    map.verify().unwrap();
    drop(map);
    assert_eq!(L.alive(), 0);
}
