//! Every value is dropped exactly once, and not before its last reader has released it.

use crate::support::ledger::{Counted, Ledger, key, map_of, panics, store_of};
use sapwood::arena::ArenaOptions;
use sapwood::qp::{QpMap, QpStore};

// Maps

#[test]
fn replaced_and_removed_values_are_handed_out() {
    static L: Ledger = Ledger::new();
    let mut map = map_of(&L, 60);
    let old = map.insert(key(5), L.value(1005)).unwrap().unwrap();
    assert_eq!((old.tag, L.alive()), (5, 61));
    drop(old);
    assert_eq!(L.alive(), 60);
    let gone = map.remove(key(5)).unwrap();
    assert_eq!((gone.tag, L.alive()), (1005, 60));
    drop(gone);
    drop((map.pop_first(), map.pop_last(), map.remove_entry(key(6))));
    assert_eq!((map.len(), L.alive()), (56, 56));
    *map.get_mut(key(8)).unwrap() = L.value(8);
    drop(map.first_entry().unwrap().insert(L.value(9)));
    let value = map
        .entry(key(9))
        .unwrap()
        .or_insert_with(|| unreachable!("the key is present"));
    assert_eq!(value.tag, 9);
    map.entry(key(5)).unwrap().or_insert_with(|| L.value(5));
    assert_eq!((map.len(), L.alive()), (57, 57));
    map.verify().unwrap();
    drop(map);
    assert_eq!(L.alive(), 0);
}

#[test]
fn bulk_removals_drop_each_value_once() {
    static L: Ledger = Ledger::new();
    let mut map = map_of(&L, 100);
    map.retain(|_, v| v.tag % 3 > 0);
    assert_eq!((map.len(), L.alive()), (66, 66));
    let there = map.prefix("p").count();
    assert_eq!(map.remove_prefix("p"), there);
    assert_eq!(L.alive(), 66 - there);
    assert_eq!(map.remove_prefix("absent"), 0);
    map.retain(|_, _| true);
    assert_eq!(map.len(), L.alive());
    map.clear();
    assert_eq!((map.len(), L.alive()), (0, 0));
    map.insert("again", L.value(0)).unwrap();
    map.retain(|_, _| false);
    assert_eq!(L.alive(), 0);
    map.verify().unwrap();
    map.insert("again", L.value(0)).unwrap();
    assert_eq!(map.remove_prefix(""), 1);
    assert_eq!(L.alive(), 0);
    map.verify().unwrap();
}

#[test]
fn moving_between_maps_drops_replaced_values_only() {
    static L: Ledger = Ledger::new();
    let mut map = map_of(&L, 80);
    let mut upper = map.split_off(key(3)).unwrap();
    assert_eq!((map.len() + upper.len(), L.alive()), (80, 80));
    for i in 0..10 {
        // Some of these replace values, some are new to the upper half.
        upper.insert(key(i), L.value(i)).unwrap();
    }
    let all = L.alive();
    assert_eq!(map.len() + upper.len(), all);
    let both = map.keys().filter(|k| upper.contains_key(k)).count();
    assert!(both > 0);
    map.append(&mut upper).unwrap();
    assert_eq!((map.len(), L.alive(), upper.len()), (80, 80, 0));
    map.compact().unwrap();
    map.compact().unwrap();
    assert_eq!(L.alive(), 80);
    let mut empty = QpMap::new();
    empty.append(&mut map).unwrap();
    drop(map);
    assert_eq!(L.alive(), 80);
    drop(empty);
    assert_eq!(L.alive(), 0);
}

#[test]
fn a_partly_consumed_iterator_drops_the_rest() {
    static L: Ledger = Ledger::new();
    for taken in 0..=20 {
        let mut entries = map_of(&L, 20).into_iter();
        let mut held = Vec::new();
        for i in 0..taken {
            let next = if i % 2 == 0 {
                entries.next()
            } else {
                entries.next_back()
            };
            held.push(next.unwrap());
        }
        assert_eq!((entries.len(), L.alive()), (20 - taken, 20));
        drop(entries);
        assert_eq!(L.alive(), taken);
        drop(held);
        assert_eq!(L.alive(), 0);
    }
}

#[test]
fn building_that_fails_midway_drops_what_it_took() {
    static L: Ledger = Ledger::new();
    let sorted = |n: u32| (0..n).map(|i| (i.to_be_bytes(), L.value(i)));
    assert!(QpMap::from_sorted_iter(sorted(50).chain([([0; 4], L.value(0))])).is_err());
    assert_eq!(L.alive(), 0);
    let twice = (0..50u32).map(|i| ((i / 2).to_be_bytes(), L.value(i)));
    let map = QpMap::from_sorted_iter(twice).unwrap();
    assert_eq!((map.len(), L.alive()), (25, 25));
    assert!(
        map.values().all(|v| v.tag % 2 == 1),
        "the last of equal keys wins"
    );
    drop(map);
    assert_eq!(L.alive(), 0);
    let too_long = [(vec![], L.value(0)), (vec![1; 65_536], L.value(1))];
    assert!(QpMap::from_sorted_iter(too_long).is_err());
    assert_eq!(L.alive(), 0);
    for n in 1..60 {
        let entries = (0..60).map(|i: u32| ([b'a', (i / 16) as u8, i as u8], L.value(i)));
        let built = QpMap::from_sorted_iter_in(ArenaOptions::default().fail_every(n), entries);
        assert_eq!(L.alive(), built.as_ref().map_or(0, QpMap::len));
    }
    let panicked = panics(|| {
        let entries =
            sorted(30).inspect(|(_, v)| assert!(v.tag < 20, "the source of entries panics"));
        let _ = QpMap::from_sorted_iter(entries);
    });
    assert!(panicked);
    assert_eq!(L.alive(), 0);
}

#[test]
fn refused_insertions_give_the_value_back_once() {
    static L: Ledger = Ledger::new();
    let options = ArenaOptions::default().limit(4096);
    let mut map = QpMap::with_options(options).unwrap();
    let mut refused = Vec::new();
    for i in 0..300u32 {
        if let Err(rejected) = map.insert(i.to_be_bytes(), L.value(i)) {
            assert_eq!(rejected.value.tag, i);
            refused.push(rejected);
        }
    }
    assert!(!refused.is_empty());
    assert_eq!(L.alive(), 300);
    drop(refused);
    assert_eq!(L.alive(), map.len());
    let _ = map.compact();
    assert_eq!(L.alive(), map.len());
    drop(map);
    assert_eq!(L.alive(), 0);
}

#[test]
fn boxed_values_of_large_alignment_are_dropped_once() {
    static L: Ledger = Ledger::new();
    #[repr(align(64))]
    struct Wide(Counted);
    let mut map = QpMap::new();
    for i in 0..40 {
        map.insert(key(i), Wide(L.value(i))).unwrap();
    }
    map.compact().unwrap();
    drop(map.insert(key(0), Wide(L.value(40))).unwrap());
    let upper = map.split_off("p").unwrap();
    map.remove_prefix("1");
    assert_eq!(map.len() + upper.len(), L.alive());
    assert!(map.values().all(|v| v.0.tag <= 40));
    let store = QpStore::<Wide>::from_map(upper).unwrap();
    let mut txn = store.begin();
    let n = txn.clear().unwrap();
    txn.commit();
    store.reclaim(n * 4);
    assert_eq!(L.alive(), map.len());
    drop((store, map));
    assert_eq!(L.alive(), 0);
}

// Stores

#[test]
fn replaced_values_live_until_the_readers_that_saw_them_are_quiescent() {
    static L: Ledger = Ledger::new();
    let store = store_of(&L, 20);
    let mut reader = store.reader("reader").unwrap();
    let view = reader.view();
    let seen = view.get(key(3)).unwrap();
    let mut txn = store.begin();
    txn.insert(key(3), L.value(103)).unwrap();
    txn.remove(key(4)).unwrap();
    txn.commit();
    assert_eq!(store.reclaim(usize::MAX), 0);
    assert_eq!((seen.tag, L.alive()), (3, 21));
    assert_eq!(view.get(key(4)).map(|v| v.tag), Some(4));
    reader.quiescent();
    assert!(store.reclaim(usize::MAX) > 0);
    assert_eq!(L.alive(), 19);
    assert_eq!(reader.view().get(key(3)).map(|v| v.tag), Some(103));
    drop((reader, store));
    assert_eq!(L.alive(), 0);
}

#[test]
fn snapshots_keep_their_values_and_only_theirs() {
    static L: Ledger = Ledger::new();
    let store = store_of(&L, 20);
    let mut kept = Vec::new();
    for round in 0..5 {
        kept.push(store.snapshot());
        let mut txn = store.begin();
        for i in 0..20 {
            txn.insert(key(i), L.value(round * 100 + i)).unwrap();
        }
        txn.commit();
        store.reclaim(usize::MAX);
    }
    assert_eq!(L.alive(), 120);
    // A later snapshot alone keeps no older value; an older snapshot keeps all newer values.
    kept.remove(0);
    store.reclaim(usize::MAX);
    assert_eq!(L.alive(), 100);
    let clone = kept[0].clone();
    kept.clear();
    store.reclaim(usize::MAX);
    assert!(
        clone.values().all(|v| v.tag < 100),
        "all values of its version are there"
    );
    assert!(L.alive() >= 40);
    drop(clone);
    store.reclaim(usize::MAX);
    assert_eq!((L.alive(), store.memory().waiting), (20, (0, 0)));
    drop(store);
    assert_eq!(L.alive(), 0);
}

#[test]
fn rolling_back_drops_new_values_and_keeps_old_ones() {
    static L: Ledger = Ledger::new();
    let store = store_of(&L, 20);
    let mut txn = store.begin();
    for i in 0..30 {
        txn.insert(key(i), L.value(i + 100)).unwrap();
        txn.insert(key(i), L.value(i + 200)).unwrap();
    }
    txn.remove(key(25)).unwrap();
    txn.remove_prefix("p").unwrap();
    assert_eq!(L.alive(), 80);
    txn.rollback();
    assert_eq!(L.alive(), 20);
    store.verify().unwrap();
    let mut txn = store.begin();
    txn.clear().unwrap();
    drop(txn);
    assert_eq!((L.alive(), store.read(|view| view.len())), (20, 20));
    store.verify().unwrap();
    drop(store);
    assert_eq!(L.alive(), 0);
}

#[test]
fn values_that_a_transaction_replaced_itself_go_after_its_commit() {
    static L: Ledger = Ledger::new();
    let store = store_of(&L, 0);
    let mut txn = store.begin();
    for i in 0..10 {
        let old = txn.insert("same", L.value(i)).unwrap();
        assert_eq!(old.map(|v| v.tag), i.checked_sub(1));
    }
    assert_eq!(txn.remove("same").unwrap().map(|v| v.tag), Some(9));
    txn.insert("same", L.value(10)).unwrap();
    txn.commit();
    store.reclaim(usize::MAX);
    assert_eq!(L.alive(), 1);
    store.verify().unwrap();
    drop(store);
    assert_eq!(L.alive(), 0);
}

#[test]
fn the_last_handle_drops_everything_that_waits() {
    static L: Ledger = Ledger::new();
    let store = store_of(&L, 20);
    let reader = store.reader("reader").unwrap();
    let view = reader.view();
    let snapshot = store.snapshot();
    let mut txn = store.begin();
    for i in 0..10 {
        txn.insert(key(i), L.value(i)).unwrap();
    }
    txn.commit();
    drop(store);
    assert_eq!(L.alive(), 30);
    assert_eq!(view.len(), snapshot.len());
    drop(reader);
    assert_eq!((L.alive(), snapshot.values().count()), (30, 20));
    drop(snapshot);
    assert_eq!(L.alive(), 0);
}

#[test]
fn building_a_store_that_fails_drops_what_it_took() {
    static L: Ledger = Ledger::new();
    let entries = [("a", L.value(0)), ("c", L.value(1)), ("b", L.value(2))];
    assert!(QpStore::builder().build_sorted(entries).is_err());
    assert_eq!(L.alive(), 0);
    let store = QpStore::from_map(map_of(&L, 30)).unwrap();
    assert_eq!(L.alive(), 30);
    drop(store);
    assert_eq!(L.alive(), 0);
}
