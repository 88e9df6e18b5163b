//! Tables of routes: transactions and snapshots of both families, and files.
#![cfg(all(unix, not(miri)))]

use std::collections::BTreeMap;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::Path;

use sapwood::Builder;
use sapwood::lpm::Error;
use sapwood::lpm::ipnet::{IpNet, Ipv4Net, Ipv6Net};
use sapwood::lpm::{IpFib, Ipv4Fib, Ipv6Fib};
use sapwood::qp::OpenCause;
use sapwood::qsbr::Domain;
use sapwood::route::{Group, NullRoute, RouteTable};

use crate::support::{folder::Folder, lpm as table};

/// A random prefix out of a small set, so that prefixes nest and repeat.
fn net(rng: &mut fastrand::Rng) -> IpNet {
    let len = rng.u8(..=32);
    match rng.bool() {
        true => IpNet::V4(Ipv4Net::new(rng.u32(..).into(), len).unwrap().trunc()),
        false => IpNet::V6(Ipv6Net::new(rng.u128(..).into(), 4 * len).unwrap().trunc()),
    }
}

/// The value of the longest prefix of an address.
fn longest<V>(oracle: &BTreeMap<IpNet, V>, addr: std::net::IpAddr) -> Option<&V> {
    let covering = oracle.iter().filter(|(net, _)| net.contains(&addr));
    let longest = covering.max_by_key(|(net, _)| net.prefix_len());
    longest.map(|(_, value)| value)
}

/// Whether a change was refused for lack of memory or of room for garbage.
fn refused_for_room(error: &Error) -> bool {
    matches!(error, Error::ArenaFull(_) | Error::GarbageLimit(_))
}

/// Runs random transactions of both families. A refused change leaves its transaction unchanged,
/// and the rest of the transaction is committed. Garbage stays within the limit. Returns the number
/// of refused changes.
fn change_both(builder: Builder<IpFib<u32>>, seed: u64, rounds: u32, limit: usize) -> usize {
    let mut rng = fastrand::Rng::with_seed(seed);
    let fib = builder.root_bits(6).build().unwrap();
    let mut oracle = BTreeMap::new();
    let mut kept = Vec::new();
    let mut refused = 0;
    for round in 0..rounds {
        let mut after = oracle.clone();
        let mut txn = fib.begin();
        for _ in 0..rng.usize(..12) {
            let net = net(&mut rng);
            if rng.u8(..4) == 0 {
                let net = after.keys().nth(rng.usize(..8)).copied().unwrap_or(net);
                match txn.remove(net) {
                    Ok(old) => assert_eq!(old.copied(), after.remove(&net)),
                    Err(error) => {
                        assert!(refused_for_room(&error), "{error}");
                        refused += 1;
                    }
                }
            } else {
                match txn.insert(net, round) {
                    Ok(old) => assert_eq!(old.copied(), after.insert(net, round)),
                    Err(rejected) => {
                        assert!(refused_for_room(&rejected.error), "{}", rejected.error);
                        assert_eq!(rejected.value, round);
                        refused += 1;
                    }
                }
            }
            assert_eq!(txn.lookup_value(net.addr()), longest(&after, net.addr()));
            assert!(fib.domain().garbage() <= limit);
        }
        assert_eq!(txn.v4().len() + txn.v6().len(), after.len());
        match rng.u8(..3) {
            0 => txn.rollback(),
            _ => {
                txn.commit();
                oracle = after;
            }
        }
        assert!(fib.domain().garbage() <= limit);
        kept.push((fib.snapshot(), oracle.clone()));
        if kept.len() > 5 {
            let (snapshot, oracle) = kept.swap_remove(rng.usize(..kept.len()));
            assert_eq!(snapshot.len(), oracle.len());
            assert!(
                snapshot
                    .iter()
                    .eq(oracle.iter().map(|(net, value)| (*net, value)))
            );
            for _ in 0..20 {
                let addr = net(&mut rng).addr();
                assert_eq!(snapshot.lookup_value(addr), longest(&oracle, addr));
            }
        }
        fib.verify().unwrap();
    }
    assert!(fib.try_begin().is_some());
    let open = fib.v6().begin();
    let elsewhere = fib.clone();
    std::thread::spawn(move || assert!(elsewhere.try_begin().is_none()))
        .join()
        .unwrap();
    drop(open);
    assert_eq!(fib.v4().snapshots(), kept.len());
    drop(kept);
    fib.v4().reclaim(usize::MAX);
    fib.v6().reclaim(usize::MAX);
    assert_eq!(fib.v4().memory().waiting.0, 0);
    assert_eq!(fib.v6().memory().waiting.0, 0);
    refused
}

#[test]
fn both_families_change_together() {
    assert_eq!(change_both(IpFib::builder(), 4, 200, usize::MAX), 0);
}

/// A few allocations fail regularly, also while transactions change the table.
#[test]
fn every_nth_request_fails_in_transactions_of_both_families() {
    for every in 2..24 {
        let options = table::loud().fail_every(every);
        let refused = change_both(IpFib::builder().options(options), every, 60, usize::MAX);
        assert!(refused > 0, "every {every}");
    }
}

#[test]
fn transactions_of_both_families_at_a_limit_of_garbage() {
    for limit in [0, 1, 200, 700] {
        let domain = Domain::builder().hard_limit(limit).build();
        let builder = IpFib::builder().domain(&domain);
        let refused = change_both(builder, limit as u64, 60, limit);
        assert!(refused > 0, "limit {limit}");
        assert_eq!(domain.garbage(), 0, "limit {limit}");
    }
}

fn small_group(rng: &mut fastrand::Rng) -> Group<u32> {
    if rng.u8(..6) == 0 {
        return Group::null(NullRoute::ALL[rng.usize(..4)]);
    }
    Group::new((0..rng.u32(..4)).map(|_| (rng.u32(..4), rng.u32(..3))))
}

/// Runs random transactions of routes, with changes of members between them; some changes are
/// refused. Returns the number of refused changes.
fn change_routes(builder: Builder<RouteTable<u32>>, seed: u64, rounds: usize) -> usize {
    let mut rng = fastrand::Rng::with_seed(seed);
    let table = builder.root_bits(6).build().unwrap();
    let mut oracle = BTreeMap::<IpNet, Group<u32>>::new();
    let mut kept = None;
    let mut refused = 0;
    for round in 0..rounds {
        let mut after = oracle.clone();
        let mut txn = table.begin();
        for _ in 0..rng.usize(..12) {
            let net = net(&mut rng);
            if rng.u8(..4) == 0 {
                let net = after.keys().nth(rng.usize(..8)).copied().unwrap_or(net);
                match txn.remove(net) {
                    Ok(had) => assert_eq!(had, after.remove(&net).is_some()),
                    Err(error) => {
                        assert!(refused_for_room(&error), "{error}");
                        refused += 1;
                    }
                }
            } else {
                let group = small_group(&mut rng);
                match txn.insert(net, group.clone()) {
                    Ok(had) => assert_eq!(had, after.insert(net, group).is_some()),
                    Err(rejected) => {
                        assert!(refused_for_room(&rejected.error), "{}", rejected.error);
                        assert_eq!(rejected.value, group);
                        refused += 1;
                    }
                }
            }
            assert_eq!(txn.group(net.addr()), longest(&after, net.addr()));
        }
        match rng.u8(..3) {
            0 => txn.rollback(),
            _ => {
                txn.commit();
                oracle = after;
            }
        }
        table.verify().unwrap();
        let hop = rng.u32(..4);
        let changed = oracle.values_mut().filter(|g| g.weight(&hop).is_some());
        let changed = changed.map(|group| *group = group.without(&hop)).count();
        assert_eq!(table.remove_member(&hop), changed);
        table.verify().unwrap();
        let now = table.snapshot();
        assert!(
            now.iter()
                .eq(oracle.iter().map(|(net, group)| (*net, group)))
        );
        if round % 16 == 0 {
            kept = Some((now, oracle.clone()));
        }
        if let Some((snapshot, oracle)) = &kept {
            let all = oracle.iter().map(|(net, group)| (*net, group));
            assert!(snapshot.iter().eq(all));
        }
    }
    drop(kept);
    // One route after the other, repeated as needed: the next allocation after a failed one may
    // succeed.
    for net in oracle.into_keys() {
        let gone = (0..20).find_map(|_| {
            table.reclaim(usize::MAX);
            table.remove(net).ok()
        });
        assert!(gone.is_none_or(|group| group.is_some()));
    }
    table.verify().unwrap();
    assert_eq!(table.is_empty(), table.groups() == 0);
    refused
}

#[test]
fn every_nth_request_fails_in_transactions_of_routes() {
    assert_eq!(change_routes(RouteTable::builder(), 1, 60), 0);
    for every in 2..24 {
        let options = table::loud().fail_every(every);
        let refused = change_routes(RouteTable::builder().options(options), every, 60);
        assert!(refused > 0, "every {every}");
    }
    for limit in [0, 1, 200, 700] {
        let domain = Domain::builder().hard_limit(limit).build();
        let refused = change_routes(RouteTable::builder().domain(&domain), limit as u64, 60);
        assert!(refused > 0, "limit {limit}");
    }
}

#[test]
fn a_snapshot_has_all_of_a_transaction_or_none() {
    let fib = IpFib::<u32>::builder().root_bits(6).build().unwrap();
    // Another handle, made from the tables of the first.
    let other = IpFib::from_tables(fib.v4().clone(), fib.v6().clone());
    let (v4, v6) = (
        "10.0.0.0/8".parse().unwrap(),
        "2001:db8::/32".parse().unwrap(),
    );
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..2_000 {
                let mut txn = fib.begin();
                txn.insert(v4, round).unwrap();
                txn.insert(v6, round).unwrap();
                txn.commit();
            }
        });
        while !writer.is_finished() {
            let snapshot = other.snapshot();
            let values: Vec<u32> = snapshot.iter().map(|(_, value)| *value).collect();
            assert!(values.is_empty() || values[0] == values[1], "{values:?}");
        }
    });
}

#[test]
fn tables_come_back_from_files() {
    let folder = Folder::quick("tables");
    let path = folder.file("fib");
    let mut rng = fastrand::Rng::with_seed(8);
    for round in 0..40 {
        let all: BTreeMap<IpNet, u32> = (0..rng.usize(..200))
            .map(|i| (net(&mut rng), i as u32))
            .collect();
        let fib = IpFib::from_iter(all.clone());
        fib.snapshot().save(&path).unwrap();
        let again = IpFib::<u32>::builder().root_bits(12).load(&path).unwrap();
        again.verify().unwrap();
        assert!(
            again
                .snapshot()
                .iter()
                .eq(all.iter().map(|(net, value)| (*net, value)))
        );
        // A file of one family is a file of both, but not of the other family.
        fib.v4().snapshot().save(&path).unwrap();
        let v4 = Ipv4Fib::<u32>::builder().load(&path).unwrap();
        assert!(v4.snapshot().iter().eq(fib.v4().snapshot().iter()));
        let both = IpFib::<u32>::builder().load(&path).unwrap();
        assert_eq!((both.len(), both.v6().len()), (v4.len(), 0));
        if !v4.is_empty() {
            let refused = Ipv6Fib::<u32>::builder().load(&path).unwrap_err();
            assert!(
                refused.to_string().contains("of the other family"),
                "{refused}"
            );
        }
        let routes = RouteTable::<u32>::builder().root_bits(6).build().unwrap();
        for (net, value) in &all {
            let group = match value % 9 {
                8 => Group::null(NullRoute::ALL[*value as usize % 4]),
                _ => Group::new((0..value % 4).map(|i| (value % 7 + i, i))),
            };
            routes.insert(*net, group).unwrap();
        }
        if round == 0 {
            let many = Group::new((0..5_000).map(|i| (i, 1)));
            routes.insert("10.0.0.0/8".parse().unwrap(), many).unwrap();
        }
        routes.snapshot().save(&path).unwrap();
        let again = RouteTable::<u32>::builder().load(&path).unwrap();
        again.verify().unwrap();
        assert!(again.snapshot().iter().eq(routes.snapshot().iter()));
        assert_eq!(again.groups(), routes.groups());
        let single = |(_, group): (IpNet, &Group<u32>)| group.members().map(|m| m.1).eq([1]);
        let plain = routes.snapshot().iter().all(single);
        assert_eq!(IpFib::<u32>::builder().load(&path).is_ok(), plain);
    }
}

fn refused(path: &Path) -> String {
    let routes = RouteTable::<u32>::builder().load(path).unwrap_err();
    assert!(
        routes
            .to_string()
            .starts_with(&format!("cannot open {}: ", path.display()))
    );
    routes.to_string()
}

#[test]
fn torn_files_and_full_memory_make_no_table() {
    let folder = Folder::quick("torn-routes");
    let path = folder.file("routes");
    let routes = RouteTable::<u32>::new().unwrap();
    for i in 0..20u32 {
        let net = Ipv4Net::new((i << 24).into(), 8).unwrap();
        routes
            .insert(net.into(), Group::new([(i, 1), (i + 1, 2)]))
            .unwrap();
    }
    routes.snapshot().save(&path).unwrap();
    let whole = fs::read(&path).unwrap();
    for len in 0..whole.len() {
        fs::write(&path, &whole[..len]).unwrap();
        refused(&path);
    }
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&path, &bytes).unwrap();
        refused(&path);
    }
    // Loading allocates the table's memory like any other.
    routes.snapshot().save(&path).unwrap();
    let small = RouteTable::<u32>::builder().root_bits(12);
    let small = small.memory_limit(4 << 10);
    let error = small.load(&path).unwrap_err();
    assert!(matches!(error.cause, OpenCause::Table(_)), "{error}");
}

/// A value whose drop queries the other family's table with the same memory.
#[derive(Clone)]
struct Asks(Option<IpFib<Asks>>, u32);

impl PartialEq for Asks {
    fn eq(&self, other: &Self) -> bool {
        self.1 == other.1
    }
}

impl Eq for Asks {}

impl Hash for Asks {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.1.hash(state);
    }
}

impl Drop for Asks {
    fn drop(&mut self) {
        if let Some(fib) = self.0.take() {
            assert!(fib.v4().memory().total() + fib.v6().memory().total() > 0);
        }
    }
}

#[test]
fn values_that_a_transaction_drops_may_use_both_tables() {
    let fib = IpFib::<Asks>::builder().root_bits(6).build().unwrap();
    let net = |i: u8| IpNet::V4(Ipv4Net::new([i, 0, 0, 0].into(), 8).unwrap());
    for commits in [false, true] {
        let mut txn = fib.begin();
        for i in 1..9 {
            let value = Asks(Some(fib.clone()), u32::from(i));
            txn.insert(net(i), value).unwrap();
        }
        for i in 1..9 {
            txn.remove(net(i)).unwrap();
        }
        match commits {
            true => txn.commit(),
            false => txn.rollback(),
        }
    }
    fib.verify().unwrap();
}

#[test]
fn large_groups_of_large_hops_are_saved() {
    let folder = Folder::quick("large-groups");
    let path = folder.file("routes");
    let hop = |i: u16| {
        let mut hop = [7u8; 60];
        hop[..2].copy_from_slice(&i.to_le_bytes());
        hop
    };
    let routes = RouteTable::<[u8; 60]>::builder()
        .root_bits(6)
        .build()
        .unwrap();
    for (i, members) in [1u16, 7_999, 8_000, 8_001, 16_001].into_iter().enumerate() {
        let group = Group::new((0..members).map(|i| (hop(i), 1)));
        assert_eq!(group.members().count(), usize::from(members));
        let net = Ipv4Net::new([i as u8, 0, 0, 0].into(), 8).unwrap();
        routes.insert(net.into(), group).unwrap();
    }
    // The weights of repeated members add up, in small groups and in large ones.
    for members in [20u16, 33, 100] {
        let twice = Group::new((0..2 * members).map(|i| (hop(i % members), 2)));
        assert_eq!(twice.members().count(), usize::from(members));
        assert!(twice.members().all(|(_, weight)| weight == 4));
    }
    routes.snapshot().save(&path).unwrap();
    let again = RouteTable::<[u8; 60]>::builder().load(&path).unwrap();
    assert!(again.snapshot().iter().eq(routes.snapshot().iter()));
}
