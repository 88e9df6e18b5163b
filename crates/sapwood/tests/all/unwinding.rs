//! Values whose `drop` panics, or uses the store that they were in: maps and stores stay usable,
//! and the other values are dropped.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use crate::support::ledger::{Counted, Ledger, key, map_of, panics, store_of};
use sapwood::arena::{ArenaOptions, Backing};
use sapwood::qp::{QpMap, QpStore};

// Maps whose values panic when dropped

#[test]
fn a_panic_while_a_map_is_dropped_leaves_no_value_behind() {
    static L: Ledger = Ledger::new();
    let mut map = map_of(&L, 40);
    drop(map.insert(key(13), L.bomb(13)));
    assert!(panics(|| drop(map)));
    assert_eq!(L.alive(), 0);
}

#[test]
fn a_panic_while_a_map_is_cleared_leaves_it_usable() {
    static L: Ledger = Ledger::new();
    let mut map = map_of(&L, 40);
    drop(map.insert(key(13), L.bomb(13)));
    assert!(panics(|| map.clear()));
    map.verify().unwrap();
    assert_eq!(map.len(), map.iter().count());
    assert_eq!(map.len(), L.alive(), "what is not in the map was dropped");
    map.insert("more", L.value(0)).unwrap();
    map.verify().unwrap();
    drop(map);
    assert_eq!(L.alive(), 0);
}

#[test]
fn a_panic_while_a_prefix_is_removed_leaves_the_map_usable() {
    static L: Ledger = Ledger::new();
    let mut map = map_of(&L, 40);
    drop(map.insert(key(13), L.bomb(13)));
    assert!(map.prefix("p").count() > 3);
    assert!(panics(|| _ = map.remove_prefix("p")));
    map.verify().unwrap();
    assert_eq!(map.len(), map.iter().count());
    assert_eq!(map.len(), L.alive(), "what is not in the map was dropped");
    drop(map);
    assert_eq!(L.alive(), 0);
}

#[test]
fn a_panic_while_entries_are_retained_leaves_the_map_usable() {
    static L: Ledger = Ledger::new();
    let mut map = map_of(&L, 40);
    drop(map.insert(key(13), L.bomb(13)));
    assert!(panics(|| map.retain(|_, v| v.tag % 2 == 0)));
    map.verify().unwrap();
    assert_eq!(map.len(), map.iter().count());
    assert_eq!(map.len(), L.alive());
    // The caller's own panic as well.
    assert!(panics(|| map.retain(|_, v| if v.tag < 20 {
        false
    } else {
        panic!("no")
    })));
    map.verify().unwrap();
    assert_eq!(map.len(), L.alive());
    drop(map);
    assert_eq!(L.alive(), 0);
}

#[test]
fn a_panic_while_a_build_fails_or_an_iterator_is_dropped_leaves_no_value_behind() {
    static L: Ledger = Ledger::new();
    assert!(panics(|| {
        let value = |i| if i == 3 { L.bomb(i) } else { L.value(i) };
        let mut list: Vec<_> = (0..20).map(|i| ([i as u8 + 1], value(i))).collect();
        list.push(([0], L.value(0)));
        let _ = QpMap::from_sorted_iter(list);
    }));
    assert_eq!(L.alive(), 0);
    let mut map = map_of(&L, 30);
    drop(map.insert(key(13), L.bomb(13)));
    let mut entries = map.into_iter();
    drop(entries.next());
    assert!(panics(|| drop(entries)));
    assert_eq!(L.alive(), 0);
}

// Stores whose values panic or call back when dropped

fn store_with_a_bomb(ledger: &'static Ledger) -> QpStore<Counted> {
    let store = store_of(ledger, 20);
    let mut txn = store.begin();
    txn.insert("bomb", ledger.bomb(99)).unwrap();
    txn.commit();
    store
}

#[test]
fn a_panic_while_a_commit_drops_values_leaves_the_store_usable() {
    static L: Ledger = Ledger::new();
    let store = store_with_a_bomb(&L);
    let mut txn = store.begin();
    txn.clear().unwrap();
    let panicked = panics(|| {
        txn.commit();
        store.reclaim(usize::MAX);
    });
    assert!(panicked);
    store.reclaim(usize::MAX);
    assert_eq!((L.alive(), store.read(|view| view.len())), (0, 0));
    assert_eq!(store.memory().waiting, (0, 0));
    store.verify().unwrap();
    let mut txn = store.try_begin().expect("the lock is free");
    txn.insert("a", L.value(0)).unwrap();
    txn.commit();
    drop(store);
    assert_eq!(L.alive(), 0);
}

#[test]
fn a_panic_while_a_rollback_drops_values_leaves_the_store_usable() {
    static L: Ledger = Ledger::new();
    let store = store_of(&L, 20);
    let mut txn = store.begin();
    for i in 20..30 {
        txn.insert(key(i), if i == 23 { L.bomb(i) } else { L.value(i) })
            .unwrap();
    }
    assert!(panics(|| txn.rollback()));
    assert_eq!(L.alive(), 20, "the other new values were dropped");
    assert_eq!(store.read(|view| view.len()), 20);
    store.verify().unwrap();
    let mut txn = store.try_begin().expect("the lock is free");
    txn.insert("a", L.value(0)).unwrap();
    txn.commit();
    store.verify().unwrap();
    drop(store);
    assert_eq!(L.alive(), 0);
}

#[test]
fn a_panic_while_a_store_is_dropped_leaves_no_value_behind() {
    static L: Ledger = Ledger::new();
    let store = store_with_a_bomb(&L);
    assert!(panics(|| drop(store)));
    assert_eq!(L.alive(), 0);
    // The same with the value in the queue.
    let store = store_with_a_bomb(&L);
    let snapshot = store.snapshot();
    let mut txn = store.begin();
    txn.clear().unwrap();
    txn.commit();
    drop(store);
    assert!(panics(|| drop(snapshot)));
    assert_eq!(L.alive(), 0);
}

/// A value that reads and writes the store that it was in when it is dropped.
struct CallsBack {
    store: Arc<Mutex<Option<QpStore<CallsBack>>>>,
    calls: Arc<AtomicUsize>,
}

impl Drop for CallsBack {
    fn drop(&mut self) {
        let Some(store) = self.store.lock().unwrap().clone() else {
            return;
        };
        store.read(|view| assert!(view.len() < 1000));
        drop(store.snapshot());
        let mut txn = store.begin();
        drop(txn.remove("absent"));
        txn.commit();
        store.reclaim(1);
        self.calls.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs `f` with a store and a source of values that call back, in a thread that has to end.
fn in_time(f: impl FnOnce(&QpStore<CallsBack>, &dyn Fn() -> CallsBack) + Send + 'static) -> usize {
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let home = Arc::new(Mutex::new(None));
        let calls = Arc::new(AtomicUsize::new(0));
        let store = QpStore::<CallsBack>::builder()
            .options(ArenaOptions::default().backing(Backing::Mmap { reserve: 1 << 26 }))
            .build()
            .unwrap();
        *home.lock().unwrap() = Some(store.clone());
        f(&store, &|| CallsBack {
            store: Arc::clone(&home),
            calls: Arc::clone(&calls),
        });
        *home.lock().unwrap() = None;
        let n = calls.load(Ordering::Relaxed);
        drop(store);
        done.send(n).unwrap();
    });
    ended
        .recv_timeout(Duration::from_secs(60))
        .expect("no deadlock, no panic")
}

#[test]
fn a_value_dropped_by_a_commit_may_use_the_store() {
    let calls = in_time(|store, value| {
        for _ in 0..20 {
            let mut txn = store.begin();
            for i in 0..10 {
                txn.insert(key(i), value()).unwrap();
            }
            txn.commit();
        }
        store.reclaim(usize::MAX);
    });
    assert_eq!(calls, 190);
}

#[test]
fn a_value_dropped_by_a_rollback_may_use_the_store() {
    let calls = in_time(|store, value| {
        let mut txn = store.begin();
        txn.insert("a", value()).unwrap();
        txn.insert("b", value()).unwrap();
        txn.rollback();
    });
    assert_eq!(calls, 2);
}

#[test]
fn a_value_dropped_by_a_compaction_step_may_use_the_store() {
    let calls = in_time(|store, value| {
        let mut txn = store.begin();
        for i in 0..200 {
            txn.insert(key(i), value()).unwrap();
        }
        txn.commit();
        let pin = store.domain().pin();
        let mut txn = store.begin();
        txn.remove_prefix("p").unwrap();
        txn.commit();
        drop(pin);
        while store.compact_step(3).unwrap() {}
        store.reclaim(usize::MAX);
    });
    assert_eq!(calls, 50);
}
