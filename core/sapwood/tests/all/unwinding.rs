//! Values whose `drop` panics, or uses their own store: maps and stores stay usable, and the other
//! values are dropped.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use crate::support::ledger::{Counted, Ledger, key, map_of, panics, store_of};
use sapwood::arena::{ArenaOptions, Backing};
use sapwood::lpm::IpFib;
use sapwood::lpm::ipnet::{IpNet, Ipv4Net, Ipv6Net};
use sapwood::maple::MapleMap;
use sapwood::qp::{PointMap, QpMap, QpShared, QpStore};
use sapwood::route::{Group, RouteTable};

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
    assert_eq!(
        map.len(),
        L.alive(),
        "every value outside the map was dropped"
    );
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
    assert_eq!(
        map.len(),
        L.alive(),
        "every value outside the map was dropped"
    );
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
    // The same with a value in the queue of retired values.
    let store = store_with_a_bomb(&L);
    let snapshot = store.snapshot();
    let mut txn = store.begin();
    txn.clear().unwrap();
    txn.commit();
    drop(store);
    assert!(panics(|| drop(snapshot)));
    assert_eq!(L.alive(), 0);
}

/// A value whose drop reads and writes its own store.
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

/// Runs `f` with a store and a source of values that call back, in a thread that must end in time.
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

// Tables, range maps and maps for many writers whose values panic when dropped

/// A next hop. Its drop panics while a panic is due.
#[derive(Clone, Debug)]
struct Hop(Arc<Armed>, u32);

/// The number of drops that will panic.
#[derive(Default, Debug)]
struct Armed(AtomicUsize);

impl Armed {
    fn hop(self: &Arc<Self>, number: u32) -> Hop {
        Hop(Arc::clone(self), number)
    }
}

impl PartialEq for Hop {
    fn eq(&self, other: &Self) -> bool {
        self.1 == other.1
    }
}

impl Eq for Hop {}

impl std::hash::Hash for Hop {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.1.hash(state);
    }
}

impl Drop for Hop {
    fn drop(&mut self) {
        let armed = &self.0.0;
        if armed.load(Ordering::Relaxed) > 0 && !std::thread::panicking() {
            armed.fetch_sub(1, Ordering::Relaxed);
            panic!("a next hop's drop panics");
        }
    }
}

#[test]
fn a_panic_while_a_transaction_of_both_families_drops_values_leaves_the_tables_usable() {
    let mut times = 0;
    for commits in [false, true] {
        for at in 0..20 {
            let bombs = Arc::<Armed>::default();
            let fib = IpFib::builder().root_bits(6).build().unwrap();
            let net = |i: u32| IpNet::V4(Ipv4Net::new((i << 24).into(), 8).unwrap());
            let other = |i: u32| IpNet::V6(Ipv6Net::new((u128::from(i) << 120).into(), 8).unwrap());
            for i in 1..10 {
                fib.insert(net(i), bombs.hop(i)).unwrap();
                fib.insert(other(i), bombs.hop(i)).unwrap();
            }
            let mut expected = fib.len();
            let panicked = panics(|| {
                let mut txn = fib.begin();
                for i in 1..10 {
                    if i == at % 10 {
                        bombs.0.store(1 + (at / 10) as usize, Ordering::Relaxed);
                    }
                    drop(txn.insert(net(i), bombs.hop(i + 20)));
                    drop(txn.remove(other(i)));
                    drop(txn.insert(other(i), bombs.hop(i + 30)));
                    drop(txn.remove(net(i)));
                }
                match commits {
                    true => txn.commit(),
                    false => txn.rollback(),
                }
                expected = if commits { 9 } else { 18 };
                fib.v4().reclaim(usize::MAX);
                fib.v6().reclaim(usize::MAX);
            });
            bombs.0.store(0, Ordering::Relaxed);
            fib.verify().unwrap();
            times += usize::from(panicked);
            if !panicked {
                assert_eq!(fib.len(), expected);
            }
            fib.insert(net(40), bombs.hop(40)).unwrap();
            fib.verify().unwrap();
            assert!(fib.try_begin().is_some());
        }
    }
    assert!(times > 20, "{times}");
}

#[test]
fn a_panic_while_a_route_table_drops_next_hops_leaves_it_usable() {
    let mut panicked = 0;
    for at in 0..60 {
        let bombs = Arc::<Armed>::default();
        let table = RouteTable::builder().root_bits(6).build().unwrap();
        let net = |i: u32| IpNet::V4(Ipv4Net::new((i << 24).into(), 8).unwrap());
        let group = |i: u32| Group::new([(bombs.hop(i), 1), (bombs.hop(i + 1), 2)]);
        for i in 1..10 {
            table.insert(net(i), group(i)).unwrap();
        }
        let arm = |step: u32| {
            bombs
                .0
                .store(usize::from(step == at % 12), Ordering::Relaxed)
        };
        panicked += usize::from(panics(|| {
            arm(0);
            drop(table.insert(net(1), group(30)));
            arm(1);
            drop(table.remove(net(2)));
            arm(2);
            table.remove_member(&Hop(Arc::default(), 4));
            arm(3);
            let mut txn = table.begin();
            drop(txn.insert(net(5), group(31)));
            arm(4);
            drop(txn.remove(net(6)));
            arm(5 + at / 30);
            match at % 2 {
                0 => txn.commit(),
                _ => txn.rollback(),
            }
            arm(7);
            table.replace_group(&group(7), &group(50));
            arm(8);
            drop(table.snapshot());
            arm(9);
            table.reclaim(usize::MAX);
        }));
        bombs.0.store(0, Ordering::Relaxed);
        // A count may be too high, so that a group stays longer; the answers are right.
        let snapshot = table.snapshot();
        for (net, group) in snapshot.iter() {
            assert_eq!(table.get(net).as_ref(), Some(group));
            assert_eq!(table.lookup(net.addr(), 7).as_ref(), group.member(7));
        }
        table.insert(net(40), group(40)).unwrap();
        assert_eq!(
            table.lookup(net(40).addr(), 7).map(|hop| hop.1 / 2),
            Some(20)
        );
        assert!(table.try_begin().is_some());
    }
    assert!(panicked > 10, "{panicked}");
}

#[test]
fn a_panic_while_a_range_map_drops_values_leaves_it_usable() {
    static L: Ledger = Ledger::new();
    for at in 0..40u64 {
        let map = MapleMap::<Counted>::new();
        for i in 0..40 {
            let value = if i == at { L.bomb(7) } else { L.value(7) };
            map.store(10 * i..=10 * i + 8, value).unwrap();
        }
        let snapshot = map.snapshot();
        let panicked = panics(|| {
            map.store(10 * at + 2..=10 * at + 40, L.value(9)).unwrap();
            map.clear_range(0..=200).unwrap();
            map.clear_range(0..=u64::MAX).unwrap();
            drop(snapshot);
            map.reclaim(usize::MAX);
        });
        assert!(panicked);
        map.verify().unwrap();
        assert!(map.is_empty());
        map.store(0..=u64::MAX, L.value(1)).unwrap();
        assert_eq!(map.len(), 1);
        drop(map);
    }
    assert_eq!(L.alive(), 0);
}

#[test]
fn a_panic_while_a_shared_map_drops_values_leaves_it_usable() {
    static L: Ledger = Ledger::new();
    let map = QpShared::<Counted>::builder().with_index().build().unwrap();
    let points = PointMap::<Counted>::builder().build().unwrap();
    for round in 0..20 {
        for i in 0..60 {
            let value = |i| if i == 13 { L.bomb(i) } else { L.value(i) };
            map.insert(key(i), value(i)).unwrap();
            points.insert(key(i), value(i)).unwrap();
        }
        let panicked = panics(|| {
            map.retain(|_, _| false).unwrap();
            map.reclaim(usize::MAX);
        });
        assert!(panicked, "round {round}");
        assert!(panics(|| {
            points.retain(|_, _| false).unwrap();
            points.reclaim(usize::MAX);
        }));
        map.verify().unwrap();
        points.verify().unwrap();
        while panics(|| _ = (map.retain(|_, _| false), points.retain(|_, _| false))) {}
        assert_eq!((map.len(), points.len()), (0, 0));
    }
    while panics(|| _ = (map.reclaim(usize::MAX), points.reclaim(usize::MAX))) {}
    drop((map, points));
    assert_eq!(L.alive(), 0);
}
