//! Tables of routes: transactions and snapshots of both families, and files.
#![cfg(all(unix, not(miri)))]

use std::collections::BTreeMap;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::Path;

use sapwood::lpm::ipnet::{IpNet, Ipv4Net, Ipv6Net};
use sapwood::lpm::{BitFileBuilder, BitString, IpFib, Ipv4Fib, Ipv6Fib};
use sapwood::qp::OpenCause;
use sapwood::route::{Group, RouteTable};

use crate::support::folder::Folder;

/// One of few prefixes, so that they nest and repeat.
fn net(rng: &mut fastrand::Rng) -> IpNet {
    let len = rng.u8(..=32);
    match rng.bool() {
        true => IpNet::V4(Ipv4Net::new(rng.u32(..).into(), len).unwrap().trunc()),
        false => IpNet::V6(Ipv6Net::new(rng.u128(..).into(), 4 * len).unwrap().trunc()),
    }
}

#[test]
fn both_families_change_together() {
    let mut rng = fastrand::Rng::with_seed(4);
    let fib = IpFib::builder().root_bits(6).build().unwrap();
    let mut oracle = BTreeMap::new();
    let mut kept = Vec::new();
    for round in 0..200u32 {
        let mut after = oracle.clone();
        let mut txn = fib.begin();
        for _ in 0..rng.usize(..12) {
            let net = net(&mut rng);
            if rng.u8(..4) == 0 {
                let net = after.keys().nth(rng.usize(..8)).copied().unwrap_or(net);
                assert_eq!(txn.remove(net).unwrap().copied(), after.remove(&net));
            } else {
                let old = txn.insert(net, round).unwrap().copied();
                assert_eq!(old, after.insert(net, round));
            }
            let wanted = after
                .iter()
                .filter(|(other, _)| other.contains(&net.addr()));
            let wanted = wanted.max_by_key(|(net, _)| net.prefix_len());
            assert_eq!(txn.lookup_value(net.addr()), wanted.map(|(_, value)| value));
        }
        match rng.u8(..3) {
            0 => txn.rollback(),
            _ => {
                txn.commit();
                oracle = after;
            }
        }
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
                let wanted = oracle.iter().filter(|(net, _)| net.contains(&addr));
                let wanted = wanted.max_by_key(|(net, _)| net.prefix_len());
                assert_eq!(snapshot.lookup_value(addr), wanted.map(|(_, value)| value));
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
}

#[test]
fn a_snapshot_has_all_of_a_transaction_or_none() {
    let fib = IpFib::<u32>::builder().root_bits(6).build().unwrap();
    // Another handle, put together from the tables of the first.
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
        // One family's file is a file of both, and not of the other.
        fib.v4().snapshot().save(&path).unwrap();
        let v4 = Ipv4Fib::<u32>::builder().load(&path).unwrap();
        assert!(v4.snapshot().iter().eq(fib.v4().snapshot().iter()));
        let both = IpFib::<u32>::builder().load(&path).unwrap();
        assert_eq!((both.len(), both.v6().len()), (v4.len(), 0));
        if !v4.is_empty() {
            let refused = Ipv6Fib::<u32>::builder().load(&path).unwrap_err();
            assert!(refused.to_string().contains("other family"), "{refused}");
        }
        let routes = RouteTable::<u32>::builder().root_bits(6).build().unwrap();
        for (net, value) in &all {
            let group = Group::new((0..value % 4).map(|i| (value % 7 + i, i)));
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
        let names = routes.groups() > 0;
        assert_eq!(IpFib::<u32>::builder().load(&path).is_err(), names);
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
fn torn_and_hostile_files_are_refused() {
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
    // Whole files that are no tables: a family, a length, a group that there is not.
    let bits = |bytes: &[u8], len| BitString::truncated(bytes, len).unwrap();
    for (prefix, value, name, why) in [
        (bits(&[5, 10], 16), 0, &[0, 0, 0, 0][..], "not a prefix"),
        (
            bits(&[4, 10, 0, 0, 0, 1], 48),
            0,
            &[0, 0, 0, 0],
            "not a prefix",
        ),
        (bits(&[4], 7), 0, &[0, 0, 0, 0], "not a prefix"),
        (bits(&[4, 10], 16), 1, &[0, 0, 0, 0], "the group 1 of 1"),
        (bits(&[4, 10], 16), 0, &[1, 0, 0, 0], "not a group"),
        (
            bits(&[4, 10], 16),
            0,
            &[0, 0, 0, 0, 1, 0, 0, 0, 7],
            "not a group",
        ),
        (bits(&[4, 10], 16), 0, &[0, 0], "not a group"),
    ] {
        let mut file = BitFileBuilder::<u32>::new();
        file.insert(prefix, value).unwrap();
        file.push_name(name).unwrap();
        file.save(&path).unwrap();
        let error = refused(&path);
        assert!(error.contains(why), "{error}");
    }
    // Room for the table is asked for like any other.
    routes.snapshot().save(&path).unwrap();
    let small = RouteTable::<u32>::builder().memory_limit(4 << 10);
    let error = small.load(&path).unwrap_err();
    assert!(matches!(error.cause, OpenCause::Table(_)), "{error}");
}

/// A value whose end asks the other family's table where its memory is.
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
    for (i, members) in [1u16, 999, 1_000, 1_001, 1_024, 3_000]
        .into_iter()
        .enumerate()
    {
        let group = Group::new((0..members).map(|i| (hop(i), 1)));
        assert_eq!(group.members().count(), usize::from(members));
        let net = Ipv4Net::new([i as u8, 0, 0, 0].into(), 8).unwrap();
        routes.insert(net.into(), group).unwrap();
    }
    // Members that come again are added up, in small groups and in large ones.
    for members in [20u16, 33, 100] {
        let twice = Group::new((0..2 * members).map(|i| (hop(i % members), 2)));
        assert_eq!(twice.members().count(), usize::from(members));
        assert!(twice.members().all(|(_, weight)| weight == 4));
    }
    routes.snapshot().save(&path).unwrap();
    let again = RouteTable::<[u8; 60]>::builder().load(&path).unwrap();
    assert!(again.snapshot().iter().eq(routes.snapshot().iter()));
}
