//! The cases `sets-v4` and `sets-v6` of the suite `routes`: sets of addresses, and aggregated
//! tables.
//!
//! The prefixes are those of the global table with `--data`, else of one made after it. Two sets
//! have two thirds of them each, drawn at random, in a random order. Each result is compared with
//! that of one sweep over the ends of all prefixes, and the aggregated tables with each other by
//! their number of prefixes.
//!
//! | metric | what it is |
//! |---|---|
//! | `collect_ms` | making a set of its prefixes |
//! | `union_ms`, `intersection_ms`, `difference_ms` | combining the two sets into a new one |
//! | `prefixes_ms` | walking over the fewest prefixes of a set |
//! | `ortc_ms` | the fewest routes with the same next hops, of a table that is there |
//! | `ortc_share` | how many of the routes those are |
//! | `wrong` | the number of wrong results |
//!
//! `iprange` has sets as binary tries, and `prefix-trie` a table that aggregates itself.

use std::collections::BTreeMap;

use fastrand::Rng;
use ipnet::{Ipv4Net, Ipv6Net};
use iprange::IpRange;
use prefix_trie::PrefixMap;
use sapwood::lpm::{self, AddrSet, V4, V6};
use sapwood_model::oracle::Prefix;

use super::Options;
use crate::alloc;
use crate::clock::CpuClock;
use crate::report::{Measure, Report, Samples};
use crate::routes::Family;

/// Ranges of addresses, left-aligned in 128 bits: first and last ones.
type Ranges = Vec<(u128, u128)>;

/// A family with the sets of its peers.
pub trait SetFamily: Family<Net: Ord> {
    /// The engines, each as a function that runs one round over two lists of prefixes.
    fn engines() -> Vec<(&'static str, Run<Self>)>;
    /// The aggregated routes, by engine.
    fn aggregated(engine: &str, routes: &[(Self::Net, u32)]) -> Option<(usize, f64)>;
    /// The ends of a prefix, left-aligned.
    fn ends(net: Self::Net) -> (u128, u128);
}

/// The results of a round: union, intersection, difference; and measures.
type Round = ([Ranges; 3], Vec<Measure>);
type Run<F> = fn(&[<F as lpm::Family>::Net], &[<F as lpm::Family>::Net]) -> Round;

fn millis(clock: &CpuClock) -> f64 {
    clock.elapsed().as_secs_f64() * 1e3
}

/// The ranges of prefixes in order, joined where they touch.
fn joined<F: SetFamily>(nets: impl IntoIterator<Item = F::Net>) -> Ranges {
    let mut ends: Ranges = nets.into_iter().map(F::ends).collect();
    ends.sort_unstable();
    let mut all: Ranges = Vec::new();
    for (first, last) in ends {
        match all.last_mut() {
            Some(end) if end.1.checked_add(1).is_none_or(|next| first <= next) => {
                end.1 = end.1.max(last);
            }
            _ => all.push((first, last)),
        }
    }
    all
}

/// Union, intersection and difference by a sweep over the ends of both.
fn swept(a: &[(u128, u128)], b: &[(u128, u128)]) -> [Ranges; 3] {
    let mut points = BTreeMap::<u128, [i32; 2]>::new();
    for (set, ranges) in [a, b].into_iter().enumerate() {
        for (first, last) in ranges {
            points.entry(*first).or_default()[set] += 1;
            if let Some(behind) = last.checked_add(1) {
                points.entry(behind).or_default()[set] -= 1;
            }
        }
    }
    let mut found: [Ranges; 3] = Default::default();
    let (mut inside, mut since) = ([0, 0], None::<u128>);
    let mut add = |inside: [i32; 2], since: Option<u128>, last: u128| {
        let [a, b] = inside.map(|count| count > 0);
        for (ranges, has) in found.iter_mut().zip([a || b, a && b, a && !b]) {
            let (true, Some(first)) = (has, since) else {
                continue;
            };
            match ranges.last_mut() {
                Some(end) if end.1.checked_add(1) == Some(first) => end.1 = last,
                _ => ranges.push((first, last)),
            }
        }
    };
    for (at, change) in points {
        if at > 0 {
            add(inside, since, at - 1);
        }
        inside = [inside[0] + change[0], inside[1] + change[1]];
        since = Some(at);
    }
    add(inside, since, u128::MAX);
    found
}

fn sapwood_round<F: SetFamily>(a: &[F::Net], b: &[F::Net]) -> Round {
    let clock = CpuClock::start();
    let one: AddrSet<F> = a.iter().copied().collect();
    let collect = millis(&clock);
    let other: AddrSet<F> = b.iter().copied().collect();
    let clock = CpuClock::start();
    let union = one.union(&other);
    let of_union = millis(&clock);
    let clock = CpuClock::start();
    let both = one.intersection(&other);
    let of_both = millis(&clock);
    let clock = CpuClock::start();
    let less = one.difference(&other);
    let of_less = millis(&clock);
    let clock = CpuClock::start();
    std::hint::black_box(union.prefixes().count());
    let walk = millis(&clock);
    let results = [&union, &both, &less].map(|set| joined::<F>(set.prefixes()));
    (
        results,
        measures([collect, of_union, of_both, of_less, walk]),
    )
}

/// The measures of a round in their order.
fn measures(times: [f64; 5]) -> Vec<Measure> {
    let names = [
        "collect_ms",
        "union_ms",
        "intersection_ms",
        "difference_ms",
        "prefixes_ms",
    ];
    let all = names.into_iter().zip(times);
    all.map(|(name, time)| Measure::new(name, time, "ms"))
        .collect()
}

macro_rules! family {
    ($family:ty, $net:ty) => {
        impl SetFamily for $family {
            fn engines() -> Vec<(&'static str, Run<Self>)> {
                fn iprange(a: &[$net], b: &[$net]) -> Round {
                    let clock = CpuClock::start();
                    let mut one: IpRange<$net> = a.iter().copied().collect();
                    one.simplify();
                    let collect = millis(&clock);
                    let mut other: IpRange<$net> = b.iter().copied().collect();
                    other.simplify();
                    let clock = CpuClock::start();
                    let union = one.merge(&other);
                    let of_union = millis(&clock);
                    let clock = CpuClock::start();
                    let both = one.intersect(&other);
                    let of_both = millis(&clock);
                    let clock = CpuClock::start();
                    let less = one.exclude(&other);
                    let of_less = millis(&clock);
                    let clock = CpuClock::start();
                    std::hint::black_box(union.iter().count());
                    let walk = millis(&clock);
                    let results = [&union, &both, &less].map(|set| joined::<$family>(set.iter()));
                    (
                        results,
                        measures([collect, of_union, of_both, of_less, walk]),
                    )
                }
                vec![("sapwood", sapwood_round::<$family>), ("iprange", iprange)]
            }

            fn aggregated(engine: &str, routes: &[($net, u32)]) -> Option<(usize, f64)> {
                match engine {
                    "sapwood" => {
                        let fib = lpm::Fib::<$family, u32>::from_iter(routes.iter().copied());
                        let snapshot = fib.snapshot();
                        let clock = CpuClock::start();
                        let fewest = snapshot.aggregated();
                        Some((fewest.len(), millis(&clock)))
                    }
                    "prefix-trie" => {
                        let mut map: PrefixMap<$net, u32> = routes.iter().copied().collect();
                        let clock = CpuClock::start();
                        map.aggregate();
                        Some((map.len(), millis(&clock)))
                    }
                    _ => None,
                }
            }

            fn ends(net: $net) -> (u128, u128) {
                let left = 128 - u32::from(net.max_prefix_len());
                let first = u128::from(net.network().to_bits()) << left;
                let hosts = u128::MAX.checked_shr(net.prefix_len().into()).unwrap_or(0);
                (first, first | hosts)
            }
        }
    };
}
family!(V4, Ipv4Net);
family!(V6, Ipv6Net);

/// Runs a case over these routes.
pub fn run<F: SetFamily>(
    name: &'static str,
    (routes, how): (Vec<(Prefix, u32)>, String),
    options: &Options,
    cases_left: usize,
    report: &mut Report,
) {
    report.begin(format!("{name}: {how}"));
    let routes: Vec<_> = routes.iter().map(|(p, hop)| (F::net(*p), *hop)).collect();
    let mut rng = Rng::with_seed(6);
    let mut drawn = || -> Vec<F::Net> {
        let mut nets = Vec::new();
        for (net, _) in &routes {
            if rng.u8(0..3) > 0 {
                nets.push(*net);
            }
        }
        rng.shuffle(&mut nets);
        nets
    };
    let (a, b) = (drawn(), drawn());
    let expected = swept(
        &joined::<F>(a.iter().copied()),
        &joined::<F>(b.iter().copied()),
    );
    let mut engines = F::engines();
    engines.retain(|(name, _)| options.wants_engine(name));
    let mut aggregating = vec!["sapwood", "prefix-trie"];
    aggregating.retain(|name| options.wants_engine(name));
    let mut names: Vec<_> = engines.iter().map(|(name, _)| *name).collect();
    names.extend(aggregating.iter().filter(|name| **name != "sapwood"));
    let mut samples = Samples::new(name, &names);
    let mut wrong: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut fewest = None;
    for round in options.rounds(&format!("routes: {name}"), cases_left) {
        let turn = usize::from(round > 0 && !engines.is_empty());
        engines.rotate_left(turn);
        for (engine, run) in &engines {
            alloc::trim();
            let (results, measures) = run(&a, &b);
            measures
                .iter()
                .for_each(|measure| samples.add(engine, measure));
            let mistakes = results.iter().zip(&expected).filter(|(a, b)| a != b);
            *wrong.entry(engine).or_default() += mistakes.count();
        }
        for engine in &aggregating {
            alloc::trim();
            let Some((count, time)) = F::aggregated(engine, &routes) else {
                continue;
            };
            let share = count as f64 / routes.len() as f64;
            samples.add(engine, &Measure::new("ortc_ms", time, "ms"));
            samples.add(engine, &Measure::new("ortc_share", share, ""));
            *wrong.entry(engine).or_default() += usize::from(*fewest.get_or_insert(count) != count);
        }
    }
    super::routes::tell(name, wrong, &mut samples, report);
    report.end(samples, &["iprange", "prefix-trie"]);
}
