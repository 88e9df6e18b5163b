//! An emptied map gives its memory back, all but 4 KiB, without a compaction: every kind of map, by
//! every way to empty it.

use sapwood::lpm::{BitFib, BitString, IpFib, Ipv4Fib};
use sapwood::maple::MapleMap;
use sapwood::qp::{PointMap, QpMap, QpShared, QpStore};
use sapwood::qsbr::Domain;
use sapwood::route::{Group, RouteTable};

/// Enough for branches, several chunks of memory, and for pages instead of a heap.
const ENTRIES: u32 = if cfg!(miri) { 40 } else { 30_000 };

fn ignore<T>(_: T) {}

fn keys() -> Vec<[u8; 8]> {
    let key = |i: u32| u64::from(i.wrapping_mul(2_654_435_761)) << 8 | u64::from(i % 7);
    (0..ENTRIES).map(|i| key(i).to_be_bytes()).collect()
}

/// What an empty map takes, and what it took when it was full.
#[track_caller]
fn gives_back(what: &str, new: usize, full: usize, emptied: usize) {
    if !cfg!(miri) {
        assert!(
            full > new + (256 << 10),
            "{what}: {full} bytes with entries"
        );
    }
    assert!(
        emptied <= new + 4096,
        "{what}: {emptied} bytes of {full}, a new map has {new}"
    );
}

#[test]
fn an_emptied_map_gives_its_memory_back_all_but_4_kib() {
    type Empty = fn(&mut QpMap<u64>);
    let ways: [(&str, Empty); 7] = [
        ("clear", QpMap::clear),
        ("remove", |map| {
            keys().iter().for_each(|key| ignore(map.remove(key)))
        }),
        ("remove_prefix", |map| ignore(map.remove_prefix(""))),
        ("retain", |map| map.retain(|_, _| false)),
        ("pop", |map| {
            while map.pop_first().and(map.pop_last()).is_some() {}
        }),
        ("entries", |map| {
            while let Some(entry) = map.first_entry() {
                entry.remove();
            }
        }),
        ("split_off", |map| drop(map.split_off("").unwrap())),
    ];
    for (way, empty) in ways {
        for index in [false, true] {
            let new = || {
                if index {
                    QpMap::with_index()
                } else {
                    QpMap::new()
                }
            };
            // A map that has had an entry, whose handle has more than a pointer.
            let mut small = new();
            small.insert("a", 1).unwrap();
            small.remove("a");
            let mut map = new();
            for key in keys() {
                map.insert(key, 1).unwrap();
            }
            let full = map.memory().total();
            empty(&mut map);
            assert!(map.is_empty());
            gives_back(way, 0, full, map.memory().total());
            assert_eq!(map.has_index(), index);
            map.verify().unwrap();
            // It can be filled again.
            for key in keys().iter().take(1000) {
                map.insert(key, 2).unwrap();
            }
            assert!(keys().iter().take(1000).all(|key| map.get(key) == Some(&2)));
            map.verify().unwrap();
        }
    }
}

#[test]
fn an_emptied_store_gives_its_memory_back_all_but_4_kib() {
    type Empty = fn(&QpStore<u64>);
    let ways: [(&str, Empty); 4] = [
        ("clear", |store| {
            let mut txn = store.begin();
            txn.clear().unwrap();
            txn.commit();
        }),
        ("remove", |store| {
            for chunk in keys().chunks(100) {
                let mut txn = store.begin();
                chunk
                    .iter()
                    .for_each(|key| ignore(txn.remove(key).unwrap()));
                txn.commit();
            }
        }),
        ("pop", |store| {
            let mut txn = store.begin();
            while txn.pop_first().unwrap().is_some() {}
            txn.commit();
        }),
        ("remove_prefix", |store| {
            let mut txn = store.begin();
            txn.remove_prefix("").unwrap();
            txn.commit();
        }),
    ];
    for (way, empty) in ways {
        let store = QpStore::new().unwrap();
        let new = store.memory().map.total();
        let mut txn = store.begin();
        for key in keys() {
            txn.insert(key, 1).unwrap();
        }
        txn.commit();
        let full = store.memory().map.total();
        let snapshot = store.snapshot();
        empty(&store);
        assert!(store.is_empty() && store.memory().map.total() >= full);
        assert!(keys().iter().all(|key| snapshot.get(key) == Some(&1)));
        drop(snapshot);
        store.reclaim(usize::MAX);
        gives_back(way, new, full, store.memory().map.total());
        store.verify().unwrap();
        let mut txn = store.begin();
        for key in keys() {
            txn.insert(key, 2).unwrap();
        }
        txn.commit();
        assert!(keys().iter().all(|key| store.get(key) == Some(2)));
        store.verify().unwrap();
        // Without a reader, no further call is needed.
        empty(&store);
        gives_back(way, new, full, store.memory().map.total());
    }
}

/// Maps for many writers, with the difference that only one kind is ordered.
macro_rules! shared {
    ($kind:ident, $new:expr, $ways:expr) => {{
        for (way, empty) in $ways {
            let map: $kind<u64> = $new;
            let new = map.memory().total();
            for key in keys() {
                map.insert(key, 1).unwrap();
            }
            let full = map.memory().total();
            let pin = map.pin();
            empty(&map);
            drop(pin);
            map.reclaim(usize::MAX);
            gives_back(way, new, full, map.memory().total());
            map.verify().unwrap();
            for key in keys() {
                map.insert(key, 2).unwrap();
            }
            assert!(keys().iter().all(|key| map.get(key) == Some(2)));
            map.verify().unwrap();
        }
    }};
}

#[test]
fn an_emptied_map_for_many_writers_gives_its_memory_back_all_but_4_kib() {
    type Empty = fn(&QpShared<u64>);
    let ways: [(&str, Empty); 4] = [
        ("clear", |map| ignore(map.clear().unwrap())),
        ("remove", |map| {
            keys()
                .iter()
                .for_each(|key| assert!(map.remove(key).unwrap()))
        }),
        ("retain", |map| ignore(map.retain(|_, _| false).unwrap())),
        ("pop", |map| while map.pop_first().unwrap().is_some() {}),
    ];
    shared!(QpShared, QpShared::new().unwrap(), ways);
    shared!(
        QpShared,
        QpShared::builder().with_index().build().unwrap(),
        ways
    );
}

#[test]
fn an_emptied_point_map_gives_its_memory_back_all_but_4_kib() {
    type Empty = fn(&PointMap<u64>);
    let ways: [(&str, Empty); 3] = [
        ("clear", |map| ignore(map.clear().unwrap())),
        ("remove", |map| {
            keys()
                .iter()
                .for_each(|key| assert!(map.remove(key).unwrap()))
        }),
        ("retain", |map| ignore(map.retain(|_, _| false).unwrap())),
    ];
    shared!(PointMap, PointMap::new().unwrap(), ways);
}

fn nets() -> Vec<ipnet::Ipv4Net> {
    let net = |i: u32| ipnet::Ipv4Net::new_assert((i << 7).into(), 20 + (i % 6) as u8).trunc();
    (0..ENTRIES).map(net).collect()
}

#[test]
fn an_emptied_table_gives_its_memory_back_all_but_4_kib() {
    let bits = if cfg!(miri) { 6 } else { 18 };
    for by_txn in [false, true] {
        let fib = Ipv4Fib::builder().root_bits(bits).build().unwrap();
        let new = fib.memory().total();
        for round in 0..3 {
            for (i, net) in nets().into_iter().enumerate() {
                fib.insert(net, i as u32 / 8).unwrap();
            }
            fib.insert("0.0.0.0/0".parse().unwrap(), 1).unwrap();
            fib.verify().unwrap();
            let full = fib.memory().total();
            let snapshot = fib.snapshot();
            if by_txn {
                let mut txn = fib.begin();
                nets()
                    .into_iter()
                    .for_each(|net| ignore(txn.remove(net).unwrap()));
                txn.remove("0.0.0.0/0".parse().unwrap()).unwrap();
                txn.commit();
            } else {
                fib.remove("0.0.0.0/0".parse().unwrap()).unwrap();
                nets()
                    .into_iter()
                    .for_each(|net| ignore(fib.remove(net).unwrap()));
            }
            assert!(fib.is_empty() && snapshot.len() > ENTRIES as usize / 10);
            fib.verify().unwrap();
            assert_eq!(snapshot.lookup_value([255, 1, 1, 1].into()), Some(&1));
            drop(snapshot);
            fib.reclaim(usize::MAX);
            gives_back(
                &format!("{by_txn} {round}"),
                new,
                full,
                fib.memory().total(),
            );
            fib.verify().unwrap();
            assert_eq!(fib.lookup([10, 1, 1, 1].into()), None);
        }
    }
}

#[test]
fn an_emptied_table_of_both_families_and_one_of_groups_give_their_memory_back() {
    let fib = IpFib::builder().root_bits(12).build().unwrap();
    let table = RouteTable::builder().root_bits(12).build().unwrap();
    let new = (
        fib.memory().total(),
        table.memory().prefixes.total() + table.memory().groups.1,
    );
    let nets = || nets().into_iter().map(ipnet::IpNet::from);
    for (i, net) in nets().enumerate() {
        fib.insert(net, i as u32).unwrap();
        table.insert(net, Group::single(i as u32 / 4)).unwrap();
    }
    let total = || {
        (
            fib.memory().total(),
            table.memory().prefixes.total() + table.memory().groups.1,
        )
    };
    let full = total();
    for net in nets() {
        fib.remove(net).unwrap();
        table.remove(net).unwrap();
    }
    table.reclaim(usize::MAX);
    assert!(fib.is_empty() && table.is_empty());
    gives_back("both families", new.0, full.0, total().0);
    gives_back("groups", new.1, full.1, total().1);
    fib.verify().unwrap();
    table.verify().unwrap();
}

#[test]
fn an_emptied_table_of_bits_gives_its_memory_back_all_but_4_kib() {
    let fib = BitFib::new().unwrap();
    let new = fib.memory().map.total();
    let bits = |i: u32| BitString::from_number(i.into(), 40).unwrap();
    let fill = || {
        let mut txn = fib.begin();
        (0..ENTRIES).for_each(|i| ignore(txn.insert(bits(i), i).unwrap()));
        txn.commit();
        fib.memory().map.total()
    };
    let full = fill();
    let mut txn = fib.begin();
    assert_eq!(txn.clear().unwrap(), ENTRIES as usize);
    txn.commit();
    gives_back("clear", new, full, fib.memory().map.total());
    assert_eq!(fill(), full);
    (0..ENTRIES).for_each(|i| ignore(fib.remove(bits(i)).unwrap()));
    fib.reclaim(usize::MAX);
    gives_back("remove", new, full, fib.memory().map.total());
    fib.verify().unwrap();
}

#[test]
fn an_emptied_range_map_gives_its_memory_back_all_but_4_kib() {
    type Empty<V> = fn(&MapleMap<V>);
    fn empties<V: Clone + Send + Sync + 'static>(value: V, ways: [(&str, Empty<V>); 3]) {
        for (way, empty) in ways {
            let map = MapleMap::new();
            map.store(0..=1, value.clone()).unwrap();
            map.clear().unwrap();
            map.reclaim(usize::MAX);
            let new = map.memory().total();
            let fill = || {
                for i in 0..u64::from(ENTRIES) {
                    map.store(4 * i..=4 * i + 2, value.clone()).unwrap();
                }
                map.memory().total()
            };
            let full = fill();
            let snapshot = map.snapshot();
            empty(&map);
            assert!(map.is_empty() && snapshot.view().get(4).is_some());
            drop(snapshot);
            map.reclaim(usize::MAX);
            gives_back(way, new, full, map.memory().total());
            map.verify().unwrap();
            fill();
            empty(&map);
            gives_back(way, new, full, map.memory().total());
        }
    }
    fn ways<V: Clone + Send + Sync + 'static>() -> [(&'static str, Empty<V>); 3] {
        [
            ("clear", |map| map.clear().unwrap()),
            ("clear_range", |map| map.clear_range(0..=u64::MAX).unwrap()),
            ("remove", |map| {
                for i in 0..u64::from(ENTRIES) {
                    map.remove(4 * i).unwrap();
                }
            }),
        ]
    }
    empties(7_u64, ways());
    empties(String::from("apart"), ways());
}

#[test]
fn an_emptied_map_with_a_reader_gives_its_memory_back_after_the_grace_period() {
    let domain = Domain::new();
    let store = QpStore::builder().domain(&domain).build().unwrap();
    let new = store.memory().map.total();
    let mut reader = domain.register("reader").unwrap();
    let mut txn = store.begin();
    for key in keys() {
        txn.insert(key, 1_u64).unwrap();
    }
    txn.commit();
    let full = store.memory().map.total();
    let view = store.view(reader.guard());
    let mut txn = store.begin();
    txn.clear().unwrap();
    txn.commit();
    assert!(keys().iter().all(|key| view.get(key) == Some(&1)));
    assert!(store.memory().map.total() >= full);
    reader.quiescent();
    store.reclaim(usize::MAX);
    gives_back("reader", new, full, store.memory().map.total());
}
