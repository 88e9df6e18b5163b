//! Compares every installed engine with the oracle.

use sapwood_model::data::routes::{addresses_within, random_addresses, routes_v4, routes_v6};
use sapwood_model::oracle::{LpmByLength, Prefix};

use super::*;

fn agrees<F: Lanes>(mut prefixes: Vec<Prefix>) {
    prefixes.push(Prefix::default());
    let pairs: Vec<_> = prefixes.iter().copied().zip(0..).collect();
    let routes: Vec<_> = pairs
        .iter()
        .map(|(prefix, hop)| (F::net(*prefix), *hop))
        .collect();
    let mut bits = addresses_within(&prefixes, F::WIDTH, 2000, 1);
    bits.extend(random_addresses(F::WIDTH, 500, 2));
    let addrs: Vec<_> = bits.iter().map(|bits| F::addr(*bits)).collect();
    let expect = |oracle: &LpmByLength<u32>| -> Vec<Option<u32>> {
        let found = bits.iter().map(|bits| oracle.lookup(*bits));
        found.map(|found| found.map(|(_, hop)| *hop)).collect()
    };
    let full: LpmByLength<u32> = pairs.iter().copied().collect();
    // A third of the routes, the default route included.
    let some: Vec<_> = routes.iter().copied().rev().step_by(3).collect();
    let mut less = full.clone();
    for (prefix, _) in pairs.iter().rev().step_by(3) {
        less.remove(*prefix);
    }
    let mut there = 0;
    for lane in F::lanes() {
        let Ok(mut built) = (lane.build)(&routes) else {
            assert!(lane.name.starts_with("dpdk"), "{}", lane.name);
            continue;
        };
        let name = lane.name;
        if name.starts_with("dpdk") {
            // The engine may not be installed, and not every kind takes a default route. The suite,
            // not this test, checks such answers.
            let answers = built.answers(&addrs);
            assert_eq!(built.tally(&addrs), Tally::of(&answers), "{name}");
            continue;
        }
        there += 1;
        assert!(built.answers(&addrs) == expect(&full), "{name}: full");
        assert_eq!(built.tally(&addrs), Tally::of(&expect(&full)), "{name}");
        if lane.unsafe_remove.is_some() {
            continue;
        }
        built.remove(&some);
        assert!(
            built.answers(&addrs) == expect(&less),
            "{name}: some removed"
        );
        built.insert(&some);
        assert!(built.answers(&addrs) == expect(&full), "{name}: put back");
        let shared = built.share();
        let stop = Stop::default();
        let reads = std::thread::scope(|scope| {
            let reader = scope.spawn(|| shared.read_until(&stop, &addrs));
            stop.wait_for_reader();
            for (net, hop) in &some {
                shared.remove(*net);
                shared.insert(*net, *hop);
            }
            stop.stop();
            reader.join().unwrap()
        });
        assert!(reads >= BURST as u64, "{name}: the reader read nothing");
    }
    assert!(there >= 6, "{there} engines");
}

#[test]
fn every_engine_answers_v4() {
    agrees::<V4>(routes_v4(3000, 1));
}

#[test]
fn every_engine_answers_v6() {
    agrees::<V6>(routes_v6(3000, 1));
}

/// Every engine finds the same covering prefixes as a list that is looked through.
fn covers_agree<F: covers::CoverLanes>(mut prefixes: Vec<Prefix>) {
    prefixes.push(Prefix::default());
    prefixes.sort_unstable();
    prefixes.dedup();
    let pairs: Vec<_> = prefixes.iter().copied().zip(0..).collect();
    let routes: Vec<_> = pairs.iter().map(|(p, hop)| (F::net(*p), *hop)).collect();
    let bits = addresses_within(&prefixes, F::WIDTH, 300, 1);
    let addrs: Vec<_> = bits.iter().map(|bits| F::addr(*bits)).collect();
    let nets: Vec<_> = prefixes.iter().step_by(7).copied().collect();
    let naive = |asked: &mut dyn Iterator<Item = Prefix>| {
        let mut all = Vec::new();
        for asked in asked {
            // In order, of those that cover one prefix the shorter ones come first.
            let covering = pairs.iter().filter(|(p, _)| p.covers(asked));
            all.extend(covering.map(|(_, hop)| Some(*hop)));
            all.push(None);
        }
        all
    };
    let hosts = naive(&mut bits.iter().map(|bits| Prefix::truncated(*bits, F::WIDTH)));
    let inside = naive(&mut nets.iter().copied());
    let asked: Vec<_> = nets.iter().map(|p| F::net(*p)).collect();
    let lanes = F::cover_lanes();
    assert_eq!(lanes.len(), 3);
    for lane in lanes {
        let built = (lane.build)(&routes).unwrap();
        let [one, other] = built.answers(&addrs, &asked);
        assert!(one == hosts, "{}", lane.name);
        assert!(other.is_empty() || other == inside, "{}", lane.name);
        assert_eq!(built.of_addresses(&addrs), Tally::of(&hosts));
        let tally = built.of_prefixes(&asked);
        assert!(tally.is_none_or(|tally| tally == Tally::of(&inside)));
    }
}

#[test]
fn every_engine_finds_all_covering_prefixes() {
    covers_agree::<V4>(routes_v4(2000, 1));
    covers_agree::<V6>(routes_v6(2000, 1));
}
