//! Random operations on a route table; the naive oracle checks each answer.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use sapwood::lpm::Family;
use sapwood::lpm::ipnet::{IpNet, Ipv4Net, Ipv6Net};
use sapwood::route::{Decision, FamilyRoutes, Group, NullRoute, RouteTable, VoidGroups};
use sapwood_model::choices::Choices;

/// A random prefix out of a small set, so that prefixes nest and repeat.
fn net(choices: &mut impl Choices) -> IpNet {
    let len = choices.below(7) as u8;
    let bits = choices.below(64);
    if choices.flip() {
        let addr = Ipv4Addr::from((bits as u32) << 26);
        IpNet::V4(Ipv4Net::new(addr, len).unwrap().trunc())
    } else {
        let addr = (bits as u128) << 122;
        IpNet::V6(Ipv6Net::new(addr.into(), len).unwrap().trunc())
    }
}

fn group(choices: &mut impl Choices) -> Group<u32> {
    let n = match choices.below(9) {
        0 => return Group::null(NullRoute::ALL[choices.below(4)]),
        n @ 1..=4 => n - 1,
        // One, or more than lookups keep beside the prefix.
        n => 5 * (n % 2) + 1,
    };
    Group::new((0..n).map(|_| (choices.below(6) as u32, choices.below(3) as u32)))
}

/// Runs up to `steps` random operations, and verifies after each `every`th, while a reader holds
/// its findings for some of them. Returns the number of operations.
pub fn run_table(choices: &mut impl Choices, steps: usize, every: usize) -> usize {
    let void = match choices.flip() {
        true => VoidGroups::Cover,
        false => VoidGroups::Drop,
    };
    let table = RouteTable::builder().root_bits(6).void_groups(void);
    let table = table.build().unwrap();
    let mut reader = table.reader("held").unwrap();
    let mut oracle = BTreeMap::<IpNet, Group<u32>>::new();
    let flows: Vec<u64> = (0..4)
        .map(|i| (choices.below(1 << 16) as u64) << (i * 16))
        .collect();
    let mut done = 0;
    while done < steps && choices.more() {
        let held: Vec<_> = (0..64u32)
            .filter_map(|bits| reader.view().group(Ipv4Addr::from(bits << 26).into()))
            .collect();
        let before: Vec<_> = held.iter().copied().cloned().collect();
        for _ in 0..(1 + choices.below(8)).min(steps - done) {
            step(&table, &mut oracle, &flows, void, choices);
            if done % every == 0 {
                agree(&table, &oracle);
            }
            done += 1;
        }
        assert!(held.into_iter().eq(&before), "changed under a reader");
        reader.quiescent();
        if choices.below(8) == 0 {
            table.reclaim(choices.below(40));
        }
    }
    agree(&table, &oracle);
    for net in oracle.into_keys() {
        table.remove(net).unwrap();
    }
    table.verify().unwrap();
    assert!(table.is_empty() && table.groups() == 0);
    done
}

fn step(
    table: &RouteTable<u32>,
    oracle: &mut BTreeMap<IpNet, Group<u32>>,
    flows: &[u64],
    void: VoidGroups,
    choices: &mut impl Choices,
) {
    match choices.below(22) {
        0..=9 => {
            let (net, group) = (net(choices), group(choices));
            let old = table.insert(net, group.clone()).unwrap();
            assert_eq!(old, oracle.insert(net, group));
        }
        10..=14 => {
            let net = net(choices);
            assert_eq!(table.remove(net).unwrap(), oracle.remove(&net));
        }
        15 => {
            // Usually a group that is present.
            let old = oracle.values().nth(choices.below(9)).cloned();
            let (old, new) = (old.unwrap_or_else(|| group(choices)), group(choices));
            let mut changed = 0;
            for group in oracle.values_mut().filter(|group| **group == old) {
                *group = new.clone();
                changed += 1;
            }
            assert_eq!(table.replace_group(&old, &new), changed);
        }
        kind @ 16..=17 => {
            let (hop, weight) = (choices.below(6) as u32, choices.below(3) as u32);
            let mut changed = 0;
            for group in oracle.values_mut().filter(|g| g.weight(&hop).is_some()) {
                *group = if kind == 16 {
                    group.without(&hop)
                } else {
                    group.with(hop, weight)
                };
                changed += 1;
            }
            let done = match kind {
                16 => table.remove_member(&hop),
                _ => table.set_weight(&hop, weight),
            };
            assert_eq!(done, changed);
        }
        18..=19 => transaction(table, oracle, choices),
        _ => {
            let net = net(choices);
            assert_eq!(table.get(net), oracle.get(&net).cloned());
        }
    }
    for _ in 0..4 {
        let addr = net(choices).addr();
        families_agree(table, addr, flows);
        let mut covering: Vec<_> = oracle
            .iter()
            .filter(|(net, _)| net.contains(&addr))
            .collect();
        covering.sort_by_key(|(net, _)| net.prefix_len());
        let said = |group: &&Group<u32>| {
            let weighted = group.members().any(|(_, weight)| weight > 0);
            weighted || group.null_route().is_some() || void == VoidGroups::Drop
        };
        let used = covering.iter().rev().find(|(_, group)| said(group));
        for flow in flows {
            let expected = used.and_then(|(_, group)| group.member(*flow).copied());
            assert_eq!(table.lookup(addr, *flow), expected, "{addr}");
            let decision = match (covering.last(), used) {
                (None, _) => Decision::NoRoute,
                (_, None) => Decision::Void,
                (_, Some((_, group))) => match (group.null_route(), expected) {
                    (Some(kind), _) => Decision::Null(kind),
                    (None, Some(hop)) => Decision::Hop(hop),
                    (None, None) => Decision::Void,
                },
            };
            table.read(|view| {
                let is = view.decide(addr, *flow);
                assert_eq!(is.hop().copied(), decision.hop());
                assert_eq!(is.goes_on(), decision.goes_on());
                let is_null = |is: Decision<&u32>| match is {
                    Decision::Null(null) => Some(null),
                    _ => None,
                };
                assert_eq!(is_null(is), used.and_then(|(_, group)| group.null_route()));
                assert_eq!(is == Decision::Void, decision == Decision::Void);
            });
        }
        table.read(|view| {
            let found: Vec<_> = view.matches(addr).collect();
            let wanted: Vec<_> = covering
                .iter()
                .map(|(net, group)| (**net, *group))
                .collect();
            assert_eq!(found, wanted);
            assert!(view.matches(addr).rev().eq(wanted.into_iter().rev()));
            assert_eq!(view.route(addr), used.map(|(net, group)| (**net, *group)));
        });
    }
}

/// Makes several changes in one transaction, which no reader sees before a commit; also checks a
/// snapshot from before.
fn transaction(
    table: &RouteTable<u32>,
    oracle: &mut BTreeMap<IpNet, Group<u32>>,
    choices: &mut impl Choices,
) {
    let before = table.snapshot();
    let mut after = oracle.clone();
    let mut txn = table.begin();
    for _ in 0..choices.below(6) {
        let net = net(choices);
        if choices.below(3) == 0 {
            assert_eq!(txn.remove(net).unwrap(), after.remove(&net).is_some());
        } else {
            let group = group(choices);
            let had = after.insert(net, group.clone()).is_some();
            assert_eq!(txn.insert(net, group).unwrap(), had);
        }
        assert_eq!(table.len(), oracle.len());
    }
    if choices.below(3) == 0 {
        txn.rollback();
    } else {
        txn.commit();
        let old = core::mem::replace(oracle, after);
        // Only the snapshot still has them.
        table.reclaim(usize::MAX);
        assert!(
            before
                .iter()
                .eq(old.iter().map(|(net, group)| (*net, group)))
        );
    }
}

/// Checks that the tables of the families answer as the route table does, one packet at a time and
/// many.
fn families_agree(table: &RouteTable<u32>, addr: IpAddr, flows: &[u64]) {
    fn check<F: Family>(
        routes: FamilyRoutes<'_, F, u32>,
        addr: F::Addr,
        wanted: &[&u32],
        flows: &[u64],
    ) {
        // More addresses than the lanes of one batch.
        let addrs = vec![addr; 10 * flows.len()];
        let mut hops = vec![&77; addrs.len()];
        routes.lookup_batch_or(&addrs, &flows.repeat(10), &99, &mut hops);
        assert_eq!(hops, wanted.repeat(10));
        for (flow, wanted) in flows.iter().zip(wanted) {
            assert_eq!(routes.lookup(addr, *flow).unwrap_or(&99), *wanted);
            assert_eq!(routes.lookup(addr, *flow).unwrap_or(&99), *wanted);
        }
        let group = routes.route(addr).map(|(_, group)| group);
        let member = group.and_then(|group| group.member(flows[0]));
        assert_eq!(member.unwrap_or(&99), wanted[0]);
        let (longest, all) = (routes.group(addr), routes.matches(addr));
        assert_eq!(all.last().map(|(_, group)| group), longest);
    }
    table.read(|view| {
        let hop = |flow: &u64| view.lookup(addr, *flow).unwrap_or(&99);
        let wanted: Vec<_> = flows.iter().map(hop).collect();
        match addr {
            IpAddr::V4(addr) => check(view.v4(), addr, &wanted, flows),
            IpAddr::V6(addr) => check(view.v6(), addr, &wanted, flows),
        }
    });
}

fn agree(table: &RouteTable<u32>, oracle: &BTreeMap<IpNet, Group<u32>>) {
    table.verify().unwrap();
    let all: Vec<_> = oracle.clone().into_iter().collect();
    let snapshot = table.snapshot();
    let there: Vec<_> = snapshot
        .iter()
        .map(|(net, group)| (net, group.clone()))
        .collect();
    assert_eq!(there, all);
    assert_eq!(table.len(), oracle.len());
    let void = all.iter().filter(|(_, group)| {
        group.null_route().is_none() && group.members().all(|(_, weight)| weight == 0)
    });
    assert_eq!(
        table.emptied(),
        void.map(|(net, _)| *net).collect::<Vec<_>>()
    );
    for bits in 0..64u32 {
        let addr = IpAddr::from(Ipv4Addr::from(bits << 26));
        let wanted = all.iter().filter(|(net, _)| net.contains(&addr));
        let wanted: Vec<_> = wanted.map(|(net, group)| (*net, group)).collect();
        assert_eq!(snapshot.matches(addr).collect::<Vec<_>>(), wanted);
    }
}
