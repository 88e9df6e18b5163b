//! The case `vrf`: many small tables in one process, as a provider's edge has them. Each has a
//! hundred routes, a default route among them.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use sapwood::lpm::Family as _;
use sapwood_model::data::routes as model;
use sapwood_model::oracle::{LpmByLength, Prefix};

use crate::alloc;
use crate::clock::CpuClock;
use crate::report::{Measure, Report, Samples};
use crate::routes::{Built, Family, Lane, Tally, V4};
use crate::suite::{Options, mega_rate};

/// The numbers of tables, with the names of their metrics: bytes of a table, and lookups in random
/// tables.
const TABLES: [(usize, &str, &str); 3] = [
    (10, "bytes_per_table_10", "vrf_mlps_10"),
    (200, "bytes_per_table_200", "vrf_mlps_200"),
    (1000, "bytes_per_table_1000", "vrf_mlps_1000"),
];

/// Routes of a table.
const ROUTES: usize = 100;
/// Addresses that are looked up in a table before the next table's turn.
const TURN: usize = 8;

/// The routes of one table, and the addresses that are looked up in it with the right answers.
struct Customer {
    routes: Vec<(Ipv4Net, u32)>,
    addrs: Vec<Ipv4Addr>,
    answers: Vec<Option<u32>>,
    /// The checksums of the answers of each turn.
    tallies: Vec<Tally>,
}

impl Customer {
    fn new(number: usize, lookups: usize) -> Self {
        let seed = number as u64;
        let mut prefixes = model::random_v4(ROUTES - 1, seed);
        prefixes.retain(|prefix| *prefix != Prefix::default());
        prefixes.push(Prefix::default());
        let hops = model::next_hops(prefixes.len(), seed);
        let routes: Vec<_> = prefixes.into_iter().zip(hops).collect();
        let oracle: LpmByLength<u32> = routes.iter().copied().collect();
        let bits = model::random_addresses(V4::WIDTH, lookups, seed);
        let answer = |bits: &u128| oracle.lookup(*bits).map(|(_, hop)| *hop);
        let answers: Vec<_> = bits.iter().map(answer).collect();
        Customer {
            routes: routes
                .into_iter()
                .map(|(net, hop)| (V4::net(net), hop))
                .collect(),
            addrs: bits.iter().map(|bits| V4::addr(*bits)).collect(),
            tallies: answers.chunks(TURN).map(Tally::of).collect(),
            answers,
        }
    }
}

type Tables = Vec<Box<dyn Built<V4>>>;

/// Runs the case.
pub fn run(options: &Options, lanes: &[Lane<V4>], cases_left: usize, report: &mut Report) {
    let most = TABLES[options.size(TABLES.len(), 2) - 1].0;
    let lookups = options.size(1024, 64);
    report.begin(format!(
        "vrf: up to {most} tables of {ROUTES} random prefixes of 8 to 32 bits, with a default route"
    ));
    // A table of DPDK takes hundreds of megabytes, whatever is in it.
    let lanes: Vec<_> = lanes
        .iter()
        .filter(|lane| !lane.name.starts_with("dpdk"))
        .collect();
    let names: Vec<_> = lanes.iter().map(|lane| lane.name).collect();
    let mut samples = Samples::new("vrf", &names);
    let customers: Vec<_> = (0..most)
        .map(|number| Customer::new(number, lookups))
        .collect();
    for round in options.rounds("routes: vrf", cases_left) {
        for at in 0..lanes.len() {
            let lane = lanes[(at + round as usize) % lanes.len()];
            for (count, bytes, rate) in TABLES {
                if count > most {
                    continue;
                }
                match measure(lane, &customers[..count]) {
                    Ok((each, rated)) => {
                        samples.add(lane.name, &Measure::new(bytes, each, "B"));
                        samples.add(lane.name, &Measure::new(rate, rated, "M/s"));
                    }
                    Err(reason) if round == 0 => {
                        report.note(format!("vrf: {}: {count} tables: {reason}", lane.name));
                    }
                    Err(_) => {}
                }
            }
        }
    }
    report.end(samples, &["prefix-trie"]);
}

/// Bytes of a table, and lookups in millions a second, some in each table in turn.
fn measure(lane: &Lane<V4>, customers: &[Customer]) -> Result<(f64, f64), String> {
    alloc::trim();
    let build = || -> Result<Tables, String> {
        customers
            .iter()
            .map(|of| (lane.build)(&of.routes))
            .collect()
    };
    let (tables, allocated) = alloc::counted(build);
    let tables = tables?;
    let mapped: Option<usize> = tables.iter().map(|table| table.mapped_bytes()).sum();
    let mapped = mapped.ok_or("it does not report its memory")?;
    let bytes = (allocated.max(0) as usize + mapped) as f64 / tables.len() as f64;
    for (table, of) in tables.iter().zip(customers) {
        if table.answers(&of.addrs) != of.answers {
            let wrong = format!("WRONG: {}: answers of one of many tables", lane.name);
            assert!(!lane.name.starts_with("sapwood"), "{wrong}");
            return Err(wrong);
        }
    }
    let turns = customers[0].addrs.len() / TURN;
    let clock = CpuClock::start();
    let mut right = true;
    for turn in 0..turns {
        for (table, of) in tables.iter().zip(customers) {
            right &= table.tally(&of.addrs[turn * TURN..][..TURN]) == of.tallies[turn];
        }
    }
    let time = clock.elapsed();
    assert!(right, "{}: other answers than before", lane.name);
    Ok((bytes, mega_rate(turns * TURN * tables.len(), time)))
}

/// Every engine gives the oracle's answers in many tables, and Sapwood's are small.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::Lanes;

    #[test]
    fn engines_of_many_tables() {
        let customers: Vec<_> = (0..40).map(|number| Customer::new(number, 64)).collect();
        for lane in V4::lanes() {
            if !lane.name.starts_with("sapwood") {
                continue;
            }
            let (bytes, rate) = measure(&lane, &customers).unwrap();
            assert!(
                bytes < (64 << 10) as f64 && rate > 0.,
                "{}: {bytes}",
                lane.name
            );
        }
    }
}
