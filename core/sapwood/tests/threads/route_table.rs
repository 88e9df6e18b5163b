//! The route table compared with a naive oracle, and beside readers.
#![cfg(not(shuttle))]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

use crate::support::route_table::run_table;
use sapwood::lpm::Error;
use sapwood::lpm::ipnet::{IpNet, Ipv4Net};
use sapwood::qsbr::Domain;
use sapwood::route::{Decision, Group, NullRoute, RouteTable, VoidGroups};

fn ops(usual: u64) -> u64 {
    let ops = std::env::var("SAPWOOD_OPS").map_or(usual, |n| n.parse().expect("a number"));
    if cfg!(miri) {
        ops.min(100)
    } else {
        ops.min(usual)
    }
}

#[test]
fn as_the_oracle() {
    let mut rng = fastrand::Rng::with_seed(1);
    let steps = ops(1_500) as usize;
    assert_eq!(run_table(&mut rng, steps, 50), steps);
}

#[test]
fn refused() {
    let table = RouteTable::builder().root_bits(6).build().unwrap();
    let net: IpNet = "10.0.0.1/8".parse().unwrap();
    let rejected = table.insert(net, Group::single(1)).unwrap_err();
    assert_eq!(rejected.value, Group::single(1));
    assert!(matches!(rejected.error, Error::HostBitsSet { .. }));
    assert!(table.remove(net).is_ok_and(|old| old.is_none()));
    assert_eq!((table.len(), table.groups()), (0, 0));
    table.verify().unwrap();
}

#[test]
fn equal_groups_are_one() {
    let table = RouteTable::builder().root_bits(6).build().unwrap();
    for n in 0..50u32 {
        let net = Ipv4Net::new((n << 24).into(), 8).unwrap();
        let group = Group::new([(n % 2, 1), (7, 1)]);
        table.insert(net.into(), group).unwrap();
    }
    assert_eq!(table.groups(), 2);
    // One store replaces the group of all its prefixes. Two slots then have the same group, and
    // count as one from then on.
    let (old, new) = (Group::new([(0, 1), (7, 1)]), Group::new([(7, 1), (1, 1)]));
    assert_eq!(table.replace_group(&old, &new), 25);
    assert_eq!(table.replace_group(&old, &new), 0);
    table.verify().unwrap();
    assert_eq!(table.replace_group(&new, &Group::single(3)), 50);
    assert!((0..50u32).all(|n| table.lookup(Ipv4Addr::from(n << 24).into(), 5) == Some(3)));
    table.verify().unwrap();
}

#[test]
fn a_group_without_members() {
    let table = RouteTable::builder().root_bits(6).build().unwrap();
    table
        .insert("10.0.0.0/8".parse().unwrap(), Group::single(1))
        .unwrap();
    table
        .insert("10.1.0.0/16".parse().unwrap(), Group::single(2))
        .unwrap();
    assert_eq!(table.remove_member(&2), 1);
    let (addr, other) = ("10.1.2.3".parse().unwrap(), "192.0.2.1".parse().unwrap());
    table.read(|view| {
        // The prefix still matches, but has no next hop.
        assert_eq!(view.lookup(addr, 7), None);
        assert_eq!(view.group(addr), Some(&Group::new([])));
        assert_eq!((view.lookup(other, 7), view.group(other)), (None, None));
        assert_eq!(view.decide(addr, 7), Decision::Void);
        assert_eq!(view.decide(other, 7), Decision::NoRoute);
    });
    assert_eq!(table.emptied(), ["10.1.0.0/16".parse().unwrap()]);
    // A table of the other choice, in which the shorter prefix covers it until that is void, too.
    let routes = table.snapshot();
    let routes = routes.iter().map(|(net, group)| (net, group.clone()));
    let covers = RouteTable::builder().void_groups(VoidGroups::Cover);
    let covers = covers.root_bits(6).build_from(routes).unwrap();
    covers.read(|view| {
        let wide = "10.0.0.0/8".parse().unwrap();
        assert_eq!(view.lookup(addr, 7), Some(&1));
        assert_eq!(view.route(addr), Some((wide, &Group::single(1))));
        assert_eq!(view.group(addr), Some(&Group::new([])));
        assert_eq!(view.matches(addr).count(), 2);
        let mut hops = [&0; 2];
        let addrs = ["10.1.2.3".parse().unwrap(), "192.0.2.1".parse().unwrap()];
        view.v4().lookup_batch_or(&addrs, &[7, 8], &0, &mut hops);
        assert_eq!(hops, [&1, &0]);
    });
    let null = Group::null(NullRoute::Blackhole);
    covers.insert("10.1.2.0/24".parse().unwrap(), null).unwrap();
    covers.read(|view| {
        // A null route is none of the groups that shorter prefixes cover.
        assert_eq!(view.decide(addr, 7), Decision::Null(NullRoute::Blackhole));
        assert_eq!(view.lookup(addr, 7), None);
    });
    assert_eq!(covers.remove_member(&1), 1);
    let elsewhere = "10.1.9.9".parse().unwrap();
    covers.read(|view| assert_eq!(view.decide(elsewhere, 7), Decision::Void));
    assert_eq!(covers.emptied().len(), 2);
}

#[test]
fn built_at_once() {
    let nets = ["10.0.0.0/8", "2001:db8::/32", "10.0.0.0/8", "10.1.0.0/16"];
    let routes = nets.iter().zip([1, 2, 3, 2]);
    let routes = routes.map(|(net, hop)| (net.parse().unwrap(), Group::single(hop)));
    let table = RouteTable::builder()
        .root_bits(6)
        .build_from(routes)
        .unwrap();
    table.verify().unwrap();
    // The first group of the repeated prefix was freed.
    assert_eq!((table.len(), table.groups()), (3, 2));
    assert_eq!(table.lookup("10.2.0.1".parse().unwrap(), 5), Some(3));
    assert_eq!(table.replace_group(&Group::single(2), &Group::single(4)), 2);
    assert_eq!(table.lookup("2001:db8::1".parse().unwrap(), 5), Some(4));
    table.verify().unwrap();
    let unclean = [("10.0.0.1/8".parse().unwrap(), Group::single(1))];
    let refused = RouteTable::builder().build_from(unclean).unwrap_err();
    assert!(matches!(refused, Error::HostBitsSet { .. }));
}

#[test]
fn a_full_table_refuses_and_loses_nothing() {
    let table = RouteTable::builder()
        .root_bits(6)
        .memory_limit(64 << 10)
        .build()
        .unwrap();
    let net = |n: u32| IpNet::from(Ipv4Net::new((n << 8).into(), 24).unwrap());
    let full = (0..100_000).find(|n| table.insert(net(*n), Group::single(n % 7)).is_err());
    let full = full.expect("64 KiB are not enough");
    assert!(full > 1000, "{full}");
    let rejected = table.insert(net(full), Group::single(99)).unwrap_err();
    assert!(
        matches!(rejected.error, Error::ArenaFull(_)),
        "{rejected:?}"
    );
    assert_eq!(rejected.value, Group::single(99));
    assert_eq!((table.len(), table.groups()), (full as usize, 7));
    assert!((0..full).all(|n| table.get(net(n)) == Some(Group::single(n % 7))));
    table.verify().unwrap();
}

#[test]
fn groups_that_are_replaced_count_as_garbage() {
    let domain = Domain::builder().hard_limit(3_000).build();
    let builder = RouteTable::builder().root_bits(6).domain(&domain);
    let table = builder.build().unwrap();
    let net: IpNet = "10.0.0.0/8".parse().unwrap();
    table.insert(net, Group::new([(1, 1), (2, 1)])).unwrap();
    let mut reader = table.reader("still").unwrap();
    let held = reader.view().group("10.1.2.3".parse().unwrap()).unwrap();
    for weight in 2..22 {
        assert_eq!(table.set_weight(&1, weight), 1);
    }
    // Each replaced group, beyond the limit.
    let garbage = domain.garbage();
    assert!((20 * 150..20 * 400).contains(&garbage), "{garbage}");
    assert!(table.memory().to_string().contains("groups: 1, "));
    assert_eq!(held.weight(&1), Some(1));
    // Meanwhile a change of prefixes is refused.
    let refused = table.insert(net, Group::single(3)).unwrap_err();
    assert!(matches!(refused.error, Error::GarbageLimit(_)));
    reader.quiescent();
    table.reclaim(usize::MAX);
    assert_eq!(domain.garbage(), 0);
    table.insert(net, Group::single(3)).unwrap();
    table.verify().unwrap();
}

#[test]
fn memory() {
    let table = RouteTable::builder().root_bits(6).build().unwrap();
    let empty = table.memory();
    assert_eq!((empty.groups.0, empty.prefixes.v4.prefixes), (0, 0));
    for n in 0..200u32 {
        let net = Ipv4Net::new((n << 24).into(), 8).unwrap();
        table
            .insert(net.into(), Group::new([(n % 2, 1), (7, 1)]))
            .unwrap();
    }
    let full = table.memory();
    assert_eq!(
        (
            full.groups.0,
            full.prefixes.v4.prefixes,
            full.prefixes.v6.prefixes
        ),
        (2, 200, 0)
    );
    // Two small groups, which keep no buckets, and the maps that find them.
    assert!((2 * 150..2 * 1024).contains(&full.groups.1), "{full}");
    // A group of more than 64 members has a byte for each bucket.
    let net = "250.0.0.0/8".parse().unwrap();
    let many = Group::new((0..65).map(|hop| (hop, 1)));
    table.insert(net, many).unwrap();
    let grown = table.memory().groups.1 - full.groups.1;
    assert!((1 << 20..(1 << 20) + 8192).contains(&grown), "{grown}");
    table.remove(net).unwrap();
    assert!(full.total() > empty.total());
    assert!(full.to_string().contains("groups: 2, "), "{full}");
}

/// Next hops are versions. A reader never sees one that is neither from before nor from after the
/// change in progress.
#[test]
fn readers_see_before_or_after() {
    let table = RouteTable::builder().root_bits(6).build().unwrap();
    let wide: IpNet = "10.0.0.0/8".parse().unwrap();
    let exact: IpNet = "10.1.0.0/16".parse().unwrap();
    let addr: IpAddr = "10.1.2.3".parse().unwrap();
    // The short prefix is never the answer.
    table.insert(wide, Group::single(u64::MAX)).unwrap();
    table.insert(exact, Group::new([(0, 1), (1, 1)])).unwrap();
    let (least, most, done) = (AtomicU64::new(0), AtomicU64::new(1), AtomicBool::new(false));
    thread::scope(|scope| {
        for id in 0..2 {
            let (table, least, most, done) = (&table, &least, &most, &done);
            scope.spawn(move || {
                let mut reader = table.reader("reader").unwrap();
                let mut rng = fastrand::Rng::with_seed(id);
                while !done.load(SeqCst) {
                    let before = least.load(SeqCst);
                    let hop = *reader.view().lookup(addr, rng.u64(..)).expect("a route");
                    let after = most.load(SeqCst);
                    assert!(
                        (before..=after).contains(&hop),
                        "{before} <= {hop} <= {after}"
                    );
                    reader.quiescent();
                }
            });
        }
        let mut rng = fastrand::Rng::with_seed(9);
        for n in (2..ops(4_000) + 2).step_by(2) {
            let new = Group::new([(n, 1), (n + 1, 1)]);
            most.store(n + 1, SeqCst);
            match rng.u8(0..3) {
                // Another slot, or the same one.
                0 => drop(table.insert(exact, new).unwrap()),
                1 => assert_eq!(table.replace_group(&table.get(exact).unwrap(), &new), 1),
                _ => {
                    // The group also moves out of other groups' slots.
                    table.insert(wide, new.clone()).unwrap();
                    table.insert(exact, new).unwrap();
                    table.insert(wide, Group::single(u64::MAX)).unwrap();
                }
            }
            least.store(n, SeqCst);
            if n % 64 == 0 {
                thread::yield_now();
            }
        }
        done.store(true, SeqCst);
    });
    table.reclaim(usize::MAX);
    table.verify().unwrap();
    assert_eq!(table.groups(), 2);
}
