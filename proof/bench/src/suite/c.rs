//! The suite `c`: what the border of the C library costs, and the C library beside others in C.
//!
//! Each round makes the same lookups by each engine in turn, over tables that were built once. The
//! sums of the answers are compared in each round.
//!
//! | metric | what it is |
//! |---|---|
//! | `lookup_ns` | nanoseconds for each lookup of a pass |
//!
//! In the case `names`, `sapwood-rust` is a `QpMap` with the point index and `sapwood-c` a
//! `sapwood_map` with it; half of the keys are stored. In the case `v4`, `sapwood-rust` and
//! `sapwood-c` look one address up a call, `sapwood-rust-batch` and `sapwood-c-bulk` bursts of 32,
//! and `dpdk-fib` (`rte_fib`) as well. `sapwood-rust` is compiled into the loop, as in programs in
//! Rust; the functions of C are called, but for `sapwood-c-inline`, which is `sapwood_inline.h`,
//! compiled into a loop in C.

use std::time::Instant;

use ipnet::Ipv4Net;
use sapwood::lpm::{IpFib, V4};
use sapwood::qp::QpMap;
use sapwood_model::data::{self, routes as model};

use super::Options;
use crate::capi::{Fib, FibInline, Names, Uthash};
use crate::engines;
use crate::keylist::{Form, KeyList, Tally};
use crate::report::{Measure, Report, Samples};
use crate::routes::{self, Family, Lanes};

/// A pass of lookups, which returns a checksum of the answers.
type Pass<'a> = (&'static str, Box<dyn Fn() -> u64 + 'a>);

/// Runs the suite.
pub fn run(options: &Options) -> Result<Report, String> {
    let mut report = Report::new("c");
    println!("{}", report.machine);
    let cases = options.chosen(["names", "v4"]);
    for (at, case) in cases.iter().enumerate() {
        let left = cases.len() - at;
        match *case {
            "names" => names(options, left, &mut report)?,
            _ => v4(options, left, &mut report)?,
        }
    }
    Ok(report)
}

/// Measures passes of `count` lookups, whose checksums must be equal.
fn measure(
    case: &str,
    options: &Options,
    left: usize,
    count: usize,
    mut passes: Vec<Pass<'_>>,
    report: &mut Report,
) -> Result<(), String> {
    passes.retain(|(name, _)| options.wants_engine(name));
    let engines: Vec<_> = passes.iter().map(|(name, _)| *name).collect();
    let mut samples = Samples::new(case, &engines);
    let Some((_, first)) = passes.first() else {
        return Ok(());
    };
    let wanted = first();
    for round in options.rounds(&format!("c: {case}"), left) {
        passes.rotate_left(usize::from(round > 0));
        for (name, pass) in &passes {
            // Once without a clock: the caches are warm with this engine's memory.
            pass();
            let start = Instant::now();
            let found = pass();
            let time = start.elapsed();
            if found != wanted {
                return Err(format!("WRONG: {case}: {name}"));
            }
            let each = time.as_secs_f64() * 1e9 / count as f64;
            samples.add(name, &Measure::new("lookup_ns", each, "ns"));
        }
    }
    report.end(samples, &["sapwood-rust"]);
    Ok(())
}

/// A checksum of a tally.
fn checksum(tally: Tally) -> u64 {
    tally.sum.wrapping_mul(31).wrapping_add(tally.found)
}

fn names(options: &Options, left: usize, report: &mut Report) -> Result<(), String> {
    let set = data::domains(options.size(100_000, 10_000), 1);
    let pairs = KeyList::numbered(&set.keys);
    let absent = set.mutated(pairs.len(), 2);
    let absent: Vec<(&[u8], u64)> = absent.iter().map(|key| (&**key, 0)).collect();
    let asked = KeyList::new(pairs.iter().chain(absent)).shuffled(3);
    report.begin(format!(
        "names: {} names, {} lookups, half of them of names that are not stored; {}",
        pairs.len(),
        asked.len(),
        set.how
    ));
    let mut rust = QpMap::with_index();
    for (key, value) in pairs.iter() {
        rust.insert(key, value).map_err(|error| error.to_string())?;
    }
    let c = Names::build(&pairs);
    let mut passes: Vec<Pass<'_>> = vec![
        (
            "sapwood-rust",
            Box::new(|| checksum(Tally::of(&asked, |key| rust.get(key).copied()))),
        ),
        ("sapwood-c", Box::new(|| checksum(c.lookups(&asked)))),
    ];
    match Uthash::build(&pairs) {
        Ok(map) => {
            let asked = &asked;
            passes.push(("uthash", Box::new(move || checksum(map.lookups(asked)))));
        }
        Err(reason) => report.note(format!("uthash: left out: {reason}")),
    }
    for lane in engines::lanes() {
        if !matches!(lane.name, "judysl" | "hashbrown-foldhash") {
            continue;
        }
        match (lane.form)(&pairs) {
            Ok(form) => {
                let in_form = |keys: &KeyList| match form {
                    Form::Plain => KeyList::new(keys.iter()),
                    _ => keys.in_form(form),
                };
                let map = (lane.build)(&in_form(&pairs));
                let asked = in_form(&asked);
                passes.push((lane.name, Box::new(move || checksum(map.lookups(&asked)))));
            }
            Err(reason) => report.note(format!("{}: left out: {reason}", lane.name)),
        }
    }
    measure("names", options, left, asked.len(), passes, report)
}

/// The answer for an address without a route.
const NONE: u64 = u32::MAX as u64;

fn v4(options: &Options, left: usize, report: &mut Report) -> Result<(), String> {
    let prefixes = model::routes_v4(options.size(900_000, 20_000), 1);
    let hops = model::next_hops_clustered(prefixes.len(), 1);
    let bits = model::addresses_within(&prefixes, 32, options.size(1_000_000, 50_000), 3);
    report.begin(format!(
        "v4: {} prefixes made after the global table, {} addresses within them",
        prefixes.len(),
        bits.len()
    ));
    let routes: Vec<(Ipv4Net, u32)> = prefixes
        .iter()
        .map(|prefix| V4::net(*prefix))
        .zip(hops)
        .collect();
    let addrs: Vec<_> = bits.iter().map(|bits| V4::addr(*bits)).collect();
    let words: Vec<u32> = addrs.iter().map(|addr| addr.to_bits()).collect();
    let rust = IpFib::builder()
        .build_from(
            routes
                .iter()
                .map(|(net, hop)| ((*net).into(), u64::from(*hop))),
        )
        .map_err(|error| error.to_string())?;
    let reader = rust.reader("bench").map_err(|error| error.to_string())?;
    let table: Vec<_> = routes
        .iter()
        .map(|(net, hop)| (net.addr().octets(), net.prefix_len(), u64::from(*hop)))
        .collect();
    let c = Fib::build(&table);
    let mut passes: Vec<Pass<'_>> = vec![
        (
            "sapwood-rust",
            Box::new(|| {
                let view = reader.view().v4();
                addrs.iter().fold(0u64, |sum, addr| {
                    sum.wrapping_add(*view.lookup_value_or(*addr, &NONE))
                })
            }),
        ),
        ("sapwood-c", Box::new(|| c.lookups(&words, NONE))),
        (
            "sapwood-rust-batch",
            Box::new(|| {
                let view = reader.view().v4();
                let mut out = [&NONE; 32];
                let mut sum = 0u64;
                for burst in addrs.chunks(out.len()) {
                    view.lookup_batch_or(burst, &NONE, &mut out[..burst.len()]);
                    sum = out[..burst.len()]
                        .iter()
                        .fold(sum, |sum, hop| sum.wrapping_add(**hop));
                }
                sum
            }),
        ),
        ("sapwood-c-bulk", Box::new(|| c.bulk(&words, NONE))),
    ];
    match FibInline::build(Fib::build(&table)) {
        Ok(inline) => {
            let words = &words;
            passes.insert(
                2,
                (
                    "sapwood-c-inline",
                    Box::new(move || inline.lookups(words, NONE)),
                ),
            );
        }
        Err(reason) => report.note(format!("sapwood-c-inline: left out: {reason}")),
    }
    for lane in <V4 as Lanes>::lanes() {
        if lane.name != "dpdk-fib" {
            continue;
        }
        match (lane.build)(&routes) {
            Ok(built) => {
                let answers: Box<dyn routes::Built<V4>> = built;
                let wanted = c.lookups(&words, NONE);
                let sum = answers.answers(&addrs).into_iter().fold(0u64, |sum, hop| {
                    sum.wrapping_add(hop.map_or(NONE, u64::from))
                });
                if sum != wanted {
                    return Err("WRONG: v4: dpdk-fib".to_owned());
                }
                let addrs = &addrs;
                let tally = answers.tally(addrs);
                // Its passes have a checksum of another kind.
                passes.push((
                    "dpdk-fib",
                    Box::new(move || match answers.tally(addrs) == tally {
                        true => wanted,
                        false => !wanted,
                    }),
                ));
            }
            Err(reason) => report.note(format!("dpdk-fib: left out: {reason}")),
        }
    }
    measure("v4", options, left, addrs.len(), passes, report)
}
