//! Limits hold for snapshots and for operations on many entries: what would pass the limit of
//! memory or the hard limit of garbage fails and changes nothing.

use sapwood::Error;
use sapwood::arena::{ArenaOptions, Lack};
use sapwood::lpm::{BitFib, BitString, IpFib, Ipv4Fib};
use sapwood::maple::MapleMap;
use sapwood::qp::{PointMap, QpMap, QpShared, QpStore};
use sapwood::qsbr::{Domain, LimitPolicy};
use sapwood::route::{Group, RouteTable};

const HARD: usize = 64 << 10;

fn domain() -> Domain {
    Domain::builder()
        .hard_limit(HARD)
        .policy(LimitPolicy::Error)
        .build()
}

fn v4(i: u32) -> ipnet::Ipv4Net {
    ipnet::Ipv4Net::new_assert((i << 8).into(), 24)
}

/// Bytes of this process that the system backs.
#[cfg(target_os = "linux")]
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[test]
#[cfg(all(target_os = "linux", not(miri)))]
fn snapshots_of_tables_stay_within_the_limit_of_memory() {
    use crate::process::{child, task};
    if task().is_none() {
        // Other tests of this process take memory, too.
        let test = "limits::snapshots_of_tables_stay_within_the_limit_of_memory";
        assert!(child(test, "snapshots").contains("1 passed"));
        return;
    }
    let limit = 8 << 20;
    // Roots that have many pages, as those of large tables.
    let fib = IpFib::builder().root_bits(18).memory_limit(limit);
    let fib = fib.build().unwrap();
    let table = RouteTable::builder().root_bits(18).memory_limit(limit);
    let table = table.build().unwrap();
    let before = resident();
    let mut kept = Vec::new();
    for i in 0..250_u32 {
        // Each snapshot is of a version of its own, whose change is elsewhere.
        fib.insert(v4(i << 8).into(), i).unwrap();
        table.insert(v4(i << 8).into(), Group::single(i)).unwrap();
        kept.push((fib.snapshot(), table.snapshot()));
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 20 << 20, "250 snapshots of each take {grown} bytes");
    let memory = fib.memory();
    assert!(memory.v4.arena.frontier <= limit && memory.v4.snapshots == 250);
    for (i, (fib, table)) in (0..).zip(&kept) {
        assert_eq!(fib.len(), i as usize + 1);
        if i % 60 == 0 {
            assert_eq!(fib.iter().count(), i as usize + 1);
        }
        let address = |i: u32| std::net::IpAddr::from((i << 16).to_be_bytes());
        assert_eq!(fib.lookup_value(address(i)), Some(&i));
        assert_eq!(fib.lookup_value(address(i + 1)), None);
        assert_eq!(table.group(address(i)), Some(&Group::single(i)));
    }
    // Snapshots of versions of which each differs in all pages of the root.
    let default = "0.0.0.0/0".parse().unwrap();
    let refused = (0..250).find_map(|i| {
        let done = fib.insert(default, i).err();
        kept.push((fib.snapshot(), table.snapshot()));
        done
    });
    let refused = refused.expect("a limit of 8 MiB").error;
    assert!(
        matches!(&refused, sapwood::lpm::Error::ArenaFull(full) if full.lack == Lack::Memory),
        "{refused}"
    );
    assert!(fib.memory().v4.arena.frontier <= limit);
    assert!(resident().saturating_sub(before) < 30 << 20);
    fib.verify().unwrap();
    drop(kept);
    fib.insert(default, 1000).unwrap();
    fib.v4().reclaim(usize::MAX);
    assert_eq!(fib.memory().v4.waiting.0, 0, "nothing waits for snapshots");
}

#[test]
fn snapshots_of_tables_stay_within_the_hard_limit_of_garbage() {
    let domain = domain();
    let fib = Ipv4Fib::builder()
        .root_bits(12)
        .domain(&domain)
        .build()
        .unwrap();
    let mut kept = Vec::new();
    let (mut inserted, mut refused) = (0, 0);
    for i in 0..4096_u32 {
        match fib.insert(v4(i << 12), i) {
            Ok(_) => inserted += 1,
            Err(rejected) => {
                assert!(
                    Error::from(rejected.error.clone())
                        .garbage_limit()
                        .is_some()
                );
                refused += 1;
            }
        }
        assert!(domain.garbage() <= HARD, "{} bytes", domain.garbage());
        kept.push((fib.snapshot(), inserted));
    }
    assert!(
        refused > 0 && inserted > 4,
        "{inserted} inserted, {refused} refused"
    );
    assert!(
        kept.iter()
            .all(|(snapshot, len)| snapshot.iter().count() == *len)
    );
    kept.clear();
    fib.insert(v4(7), 7).unwrap();
    fib.verify().unwrap();
}

/// A version of a table, and what it has.
type Version = (
    sapwood::lpm::FibSnapshot<sapwood::lpm::V4, u32>,
    Vec<(ipnet::Ipv4Net, u32)>,
);

#[test]
fn snapshots_show_their_version_whatever_changes() {
    for bits in [6, 12, 18] {
        if cfg!(miri) && bits > 6 {
            continue;
        }
        let fib = Ipv4Fib::builder().root_bits(bits).build().unwrap();
        let mut random = fastrand::Rng::with_seed(bits.into());
        let mut model = std::collections::BTreeMap::new();
        let mut versions: Vec<Version> = Vec::new();
        let rounds = if cfg!(miri) { 60 } else { 400 };
        for round in 0..rounds {
            let mut net = || {
                let len = [0, 4, 8, 13, 17, 18, 20, 24, 32][random.usize(..9)];
                ipnet::Ipv4Net::new_assert(random.u32(..).into(), len).trunc()
            };
            let nets = [net(), net(), net()];
            match round % 5 {
                0 | 1 => {
                    fib.insert(nets[0], round).unwrap();
                    model.insert(nets[0], round);
                }
                2 => {
                    let mut txn = fib.begin();
                    for net in nets {
                        txn.insert(net, round).unwrap();
                        model.insert(net, round);
                    }
                    // A snapshot that is made while a transaction is open is of the version before.
                    if round % 2 == 0 {
                        let before = versions.last().map(|(_, entries)| entries.clone());
                        let snapshot = fib.snapshot();
                        let entries = snapshot.iter().map(|(net, value)| (net, *value)).collect();
                        assert!(before.is_none_or(|before| before.len() <= snapshot.len() + 600));
                        versions.push((snapshot, entries));
                    }
                    txn.commit();
                }
                3 => {
                    if let Some((net, _)) = model.clone().iter().nth(random.usize(..=model.len())) {
                        fib.remove(*net).unwrap();
                        model.remove(net);
                    }
                    let mut txn = fib.begin();
                    txn.insert(nets[1], 7).unwrap();
                    txn.rollback();
                }
                _ => drop(fib.compact_step(40).unwrap()),
            }
            if random.u8(..3) == 0 {
                let mut entries: Vec<_> = model.iter().map(|(net, value)| (*net, *value)).collect();
                entries.sort_by_key(|(net, _)| (net.addr(), net.prefix_len()));
                versions.push((fib.snapshot(), entries));
            }
            while versions.len() > 12 {
                versions.swap_remove(random.usize(..versions.len()));
            }
            if round % 80 == 79 {
                fib.verify().unwrap();
                for (snapshot, entries) in &versions {
                    assert!(
                        snapshot
                            .iter()
                            .map(|(net, value)| (net, *value))
                            .eq(entries.clone())
                    );
                }
            }
        }
        versions.clear();
        fib.reclaim(usize::MAX);
        assert_eq!(fib.memory().waiting, (0, 0));
        fib.verify().unwrap();
    }
}

#[test]
fn a_transactions_pages_stay_within_the_limit_of_memory() {
    let limit = 3 << 20;
    let fib = Ipv4Fib::builder().root_bits(18).memory_limit(limit);
    let fib = fib.build().unwrap();
    let mut txn = fib.begin();
    // The copy of a root of 2 MiB has no room beside it.
    let refused = txn.insert("0.0.0.0/0".parse().unwrap(), 1).unwrap_err();
    assert!(Error::from(refused.error.clone()).arena_full().is_some());
    txn.insert(v4(5), 5).unwrap();
    assert_eq!(txn.lookup_value([0, 0, 5, 1].into()), Some(&5));
    assert_eq!(txn.lookup_value([9, 0, 5, 1].into()), None);
    txn.commit();
    assert!(fib.memory().arena.frontier <= limit);
    assert_eq!((fib.len(), fib.get(v4(5))), (1, Some(5)));
    fib.verify().unwrap();
}

#[test]
fn clearing_a_store_stays_within_the_hard_limit_of_garbage() {
    let domain = domain();
    let store = QpStore::builder().domain(&domain).build().unwrap();
    let count = if cfg!(miri) { 4000 } else { 20_000_u32 };
    for chunk in 0..count / 100 {
        let mut txn = store.begin();
        for i in 0..100 {
            txn.insert((chunk * 100 + i).to_be_bytes(), i).unwrap();
        }
        txn.commit();
        store.reclaim(usize::MAX);
    }
    let reader = domain.register("reader").unwrap();
    for prefix in [&[][..], &[0], &[0, 0]] {
        let mut txn = store.begin();
        let refused = match prefix {
            [] => txn.clear().unwrap_err(),
            prefix => txn.remove_prefix(prefix).unwrap_err(),
        };
        assert!(
            Error::from(refused.clone()).garbage_limit().is_some(),
            "{prefix:?}: {refused}"
        );
        // Nothing is changed, and the transaction goes on with what fits.
        assert_eq!(txn.len(), count as usize);
        assert_eq!(txn.remove_prefix([0, 0, 1, 7]).unwrap(), 1);
        assert!(domain.garbage() <= HARD, "{} bytes", domain.garbage());
        txn.rollback();
        store.verify().unwrap();
    }
    let mut txn = store.begin();
    assert_eq!(txn.remove_prefix([0, 0, 1]).unwrap(), 256);
    txn.commit();
    assert!(domain.garbage() <= HARD);
    assert_eq!(store.len(), count as usize - 256);
    drop(reader);
    store.reclaim(usize::MAX);
    store.verify().unwrap();
}

#[test]
fn clearing_a_table_of_bits_stays_within_the_hard_limit_of_garbage() {
    let domain = domain();
    let fib = BitFib::builder().domain(&domain).build().unwrap();
    for i in 0..4000_u32 {
        fib.insert(BitString::from_number(i.into(), 40).unwrap(), i)
            .unwrap();
    }
    let mut txn = fib.begin();
    assert!(
        Error::from(txn.clear().unwrap_err().clone())
            .garbage_limit()
            .is_some()
    );
    assert_eq!(txn.len(), 4000);
    drop(txn);
    assert!(domain.garbage() <= HARD && fib.len() == 4000);
    fib.verify().unwrap();
}

#[test]
fn clearing_a_range_map_stays_within_the_hard_limit_of_garbage() {
    let domain = domain();
    let map = MapleMap::builder().domain(&domain).build();
    for i in 0..20_000_u64 {
        map.store(4 * i..=4 * i + 2, i).unwrap();
    }
    assert!(
        Error::from(map.clear().unwrap_err().clone())
            .garbage_limit()
            .is_some()
    );
    assert!(domain.garbage() <= HARD && map.len() == 20_000);
    map.clear_range(0..=4000).unwrap();
    assert!(domain.garbage() <= HARD);
    map.verify().unwrap();
}

#[test]
fn operations_on_many_entries_of_shared_maps_stay_within_the_hard_limit_of_garbage() {
    macro_rules! check {
        ($map:expr, $domain:expr) => {{
            let (map, domain) = ($map, $domain);
            let count = if cfg!(miri) { 3000 } else { 10_000_u32 };
            for i in 0..count {
                map.insert(i.to_be_bytes(), i).unwrap();
            }
            map.reclaim(usize::MAX);
            let reader = domain.register("reader").unwrap();
            let refused = map.retain(|_, _| false).unwrap_err();
            assert!(
                Error::from(refused.clone()).garbage_limit().is_some(),
                "{refused}"
            );
            assert!(domain.garbage() <= HARD, "{} bytes", domain.garbage());
            let refused = map.clear().unwrap_err();
            assert!(
                Error::from(refused.clone()).garbage_limit().is_some(),
                "{refused}"
            );
            assert!(domain.garbage() <= HARD, "{} bytes", domain.garbage());
            assert!(map.len() > 100);
            drop(reader);
            map.reclaim(usize::MAX);
            map.clear().unwrap();
            assert!(map.is_empty());
            map.verify().unwrap();
        }};
    }
    let of = domain();
    check!(QpShared::builder().domain(&of).build().unwrap(), &of);
    let of = domain();
    check!(PointMap::builder().domain(&of).build().unwrap(), &of);
}

#[test]
fn an_owned_map_keeps_its_limit_and_its_index_in_clones_and_parts() {
    let limit = 64 << 10;
    let full = |mut map: QpMap<u64>| {
        let refused = (1_000_000..1_100_000_u64).find_map(|i| map.insert(i.to_be_bytes(), i).err());
        let full = refused
            .is_some_and(|refused| Error::from(refused.error.clone()).arena_full().is_some());
        full && map.memory().arena.frontier <= limit
    };
    let mut map = QpMap::with_memory_limit(limit).unwrap();
    map.add_index();
    for i in 0..500_u64 {
        map.insert(i.to_be_bytes(), i).unwrap();
    }
    let mut copy = map.clone();
    assert!(copy.has_index() && copy == map);
    assert!((0..500).all(|i: u64| copy.get(i.to_be_bytes()) == Some(&i)));
    copy.verify().unwrap();
    let upper = copy.split_off(250_u64.to_be_bytes()).unwrap();
    assert!(upper.has_index() && copy.has_index() && upper.len() == 250);
    copy.compact().unwrap();
    assert!(copy.has_index());
    copy.clear();
    assert!(copy.has_index());
    for part in [copy, upper, map.clone(), map.clone().clone()] {
        assert!(full(part));
    }
    let mut texts: QpMap<[u8]> = QpMap::with_memory_limit(limit).unwrap();
    texts.add_index();
    texts.insert("a", b"text").unwrap();
    let mut copy = texts.clone();
    assert!(copy.has_index());
    assert!(copy.insert("b", &[7; 64 << 10][..]).is_err());
    // An empty map has its limit, too.
    assert!(full(QpMap::with_memory_limit(limit).unwrap().clone()));
    assert!(QpMap::<u64>::with_index().clone().has_index());
    assert_eq!(QpMap::<u64>::new().clone().memory().total(), 0);
}

#[test]
fn maps_that_become_shared_keep_their_limit_and_their_index() {
    let limit = 64 << 10;
    let map = || {
        let mut map = QpMap::with_memory_limit(limit).unwrap();
        map.add_index();
        map.insert(7_u64.to_be_bytes(), 7_u64).unwrap();
        map
    };
    let store = QpStore::from_map(map()).unwrap();
    let mut txn = store.begin();
    let refused = (0..100_000_u64).find_map(|i| txn.insert(i.to_be_bytes(), i).err());
    assert!(
        Error::from(refused.unwrap().error.clone())
            .arena_full()
            .is_some()
    );
    txn.commit();
    assert!(store.memory().map.arena.frontier <= limit && store.len() > 500);
    let shared = QpShared::from_map(map()).unwrap();
    assert!(shared.memory().index > 0);
    let refused = (0..100_000_u64).find_map(|i| shared.insert(i.to_be_bytes(), i).err());
    assert!(
        Error::from(refused.unwrap().error.clone())
            .arena_full()
            .is_some()
    );
    assert!(shared.memory().arena.frontier <= limit);
    // Without a limit there is none afterwards.
    let store = QpStore::from_map(QpMap::from([("a", 1)])).unwrap();
    assert!(store.memory().map.arena.reserved >= 1 << 20);
    let limited = ArenaOptions::default().limit(limit);
    assert_eq!(limited.chosen_limit(), Some(limit));
}

#[test]
fn a_second_range_map_keeps_the_limit() {
    let limit = 64 << 10;
    let map = MapleMap::builder().memory_limit(limit).build();
    map.store(0..=9, 1_u64).unwrap();
    let copy = map.dup().unwrap();
    let refused = (1..100_000_u64).find_map(|i| copy.store(20 * i..=20 * i + 9, i).err());
    assert!(
        Error::from(refused.unwrap().error.clone())
            .arena_full()
            .is_some()
    );
    assert!(copy.memory().arena.frontier <= limit);
    copy.verify().unwrap();
}
