//! Longest prefixes of IPv4 addresses.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use sapwood_bpf::{BpfArena, Ipv4Map, objects};
use sapwood_model::data::routes as model;
use sapwood_model::oracle::LpmByLength;
use sapwood_model::oracle::lpm::to_v4;

use crate::bpf::rig::{self, Questions};
use crate::clock::CpuClock;
use crate::report::{Measure, Report, Samples};
use crate::suite::Options;

pub const CASES: [&str; 2] = ["lpm-100k", "lpm-full"];

const ENGINES: [&str; 2] = ["sapwood-bpf", "kernel-lpm-trie"];

/// Runs these cases.
pub fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    let cases = options.chosen(CASES);
    for (at, name) in cases.iter().enumerate() {
        match routes(name, options) {
            Ok(case) => case.run(options, cases.len() - at, report)?,
            Err(missing) => {
                report.begin(format!("{name}: {missing}"));
            }
        }
    }
    Ok(())
}

/// A table, and addresses with the answers to them.
struct Case {
    name: &'static str,
    how: String,
    /// Next hops are never 0: that stands for none.
    routes: Vec<(Ipv4Net, u32)>,
    hits: Vec<(u32, u32)>,
    /// Few, or none, where the table covers nearly all addresses.
    misses: Vec<(u32, u32)>,
}

fn routes(name: &'static str, options: &Options) -> Result<Case, String> {
    let (prefixes, how) = match name {
        "lpm-full" => {
            let folder = options.data.as_ref().ok_or("--data names no folder")?;
            let file = folder.join("bgp-prefixes-2024-01.txt.gz");
            let all = model::routes_gz(&file).map_err(|e| e.to_string())?.v4;
            let step = all.len().div_ceil(options.size(all.len(), 20_000)).max(1);
            let some: Vec<_> = all.into_iter().step_by(step).collect();
            (some, "the global table of January 2024")
        }
        _ => (
            model::random_v4(options.size(100_000, 10_000), 1),
            "random prefixes of 8 to 32 bits, seed 1",
        ),
    };
    let hops = model::next_hops(prefixes.len(), 1);
    let routes: Vec<_> = prefixes
        .iter()
        .copied()
        .zip(hops.into_iter().map(|hop| hop + 1))
        .collect();
    let oracle: LpmByLength<u32> = routes.iter().copied().collect();
    let many = options.size(131_072, 8192);
    let answer = |bits: u128| {
        let hop = oracle.lookup(bits).map_or(0, |(_, hop)| *hop);
        (u32::from(to_v4(bits)), hop)
    };
    let hits = model::addresses_within(&prefixes, 32, many, 2);
    let misses = model::random_addresses(32, 4 * many, 3);
    let nets = routes.iter().map(|(prefix, hop)| {
        let net = Ipv4Net::new_assert(prefix.v4_addr(), prefix.len);
        (net, *hop)
    });
    let mut misses: Vec<_> = misses
        .into_iter()
        .map(answer)
        .filter(|(_, hop)| *hop == 0)
        .collect();
    misses.truncate(many);
    Ok(Case {
        name,
        how: format!("{} prefixes; {how}", routes.len()),
        routes: nets.collect(),
        hits: hits.into_iter().map(answer).collect(),
        misses,
    })
}

/// A prefix as the kernel's trie takes it.
fn key(net: &Ipv4Net) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&u32::from(net.prefix_len()).to_ne_bytes());
    key[4..].copy_from_slice(&Ipv4Addr::octets(&net.network()));
    key
}

/// The tables.
struct Tables {
    ours: Ipv4Map<u32>,
    trie: MapHandle,
}

impl Tables {
    /// Takes prefixes out and puts them in again; nanoseconds of processor time a change.
    fn change(&self, engine: &str, routes: &[(Ipv4Net, u32)]) -> Result<f64, String> {
        let clock = CpuClock::start();
        for (net, hop) in routes {
            if engine == "sapwood-bpf" {
                self.ours.remove(*net).map_err(|e| e.to_string())?;
                self.ours.insert(*net, *hop).map_err(|e| e.to_string())?;
            } else {
                let key = key(net);
                let put = self.trie.delete(&key);
                put.and_then(|()| self.trie.update(&key, &hop.to_ne_bytes(), MapFlags::ANY))
                    .map_err(|e| e.to_string())?;
            }
        }
        Ok(clock.elapsed().as_nanos() as f64 / (2 * routes.len()) as f64)
    }
}

impl Case {
    fn run(&self, options: &Options, cases_left: usize, report: &mut Report) -> Result<(), String> {
        report.begin(format!("{}: {}", self.name, self.how));
        let arena = BpfArena::create(1 << 30).map_err(|e| e.to_string())?;
        let programs = rig::load(&arena, objects::BENCH_PREFIXES, 8, self.routes.len())?;
        let room = |name, count| Questions::room_for_addresses(&arena, name, count);
        let mut hits = room("hits", self.hits.len())?;
        let mut misses = room("misses", self.misses.len().max(1))?;
        let mut hot = room("hot", 1000)?.again();
        let ours = Ipv4Map::builder(&arena, "routes")
            .bytes(512 << 20)
            .build_from(self.routes.iter().copied())
            .map_err(|e| e.to_string())?;
        let tables = Tables {
            ours,
            trie: rig::handle(&programs, "sw_lpm_trie")?,
        };
        for (net, hop) in &self.routes {
            let hop = hop.to_ne_bytes();
            let put = tables.trie.update(&key(net), &hop, MapFlags::ANY);
            put.map_err(|e| e.to_string())?;
        }
        let mut engines: Vec<_> = ENGINES
            .into_iter()
            .filter(|engine| options.wants_engine(engine))
            .collect();
        let mut samples = Samples::new(self.name, &ENGINES);
        for engine in &engines {
            let bytes = match *engine {
                "sapwood-bpf" => tables.ours.memory().total() as u64,
                _ => rig::memlock(&tables.trie)?,
            };
            samples.add(engine, &Measure::new("memory_mb", bytes as f64 / 1e6, "MB"));
        }
        for round in options.rounds(&format!("bpf: {}", self.name), cases_left) {
            let mut rng = fastrand::Rng::with_seed(round.into());
            let mut asked = self.hits.clone();
            rng.shuffle(&mut asked);
            hot.set_addresses(asked.iter().take(1000).copied());
            hits.set_addresses(asked);
            let mut asked = self.misses.clone();
            rng.shuffle(&mut asked);
            misses.set_addresses(asked);
            let turn = usize::from(round > 0 && engines.len() > 1);
            engines.rotate_left(turn);
            let mut lists = vec![("lookup_ns", &hits), ("hot_ns", &hot)];
            if self.misses.len() >= 1000 {
                lists.push(("miss_ns", &misses));
            }
            let window = tables.ours.window().number;
            for (metric, questions) in lists {
                let empty = rig::ask(&programs, "sw_run_empty", questions, 0)?.each;
                for engine in &engines {
                    let program = match *engine {
                        "sapwood-bpf" => "sw_run_fib",
                        _ => "sw_run_lpm_trie",
                    };
                    let answers = rig::ask(&programs, program, questions, window)?;
                    if answers.wrong > 0 {
                        return Err(format!(
                            "WRONG: {engine}: {metric}: {} answers",
                            answers.wrong
                        ));
                    }
                    let each = (answers.each - empty).max(0.0);
                    samples.add(engine, &Measure::new(metric, each, "ns"));
                }
            }
            let mut some = self.routes.clone();
            rng.shuffle(&mut some);
            some.truncate(options.size(4096, 512));
            for engine in &engines {
                let each = tables.change(engine, &some)?;
                samples.add(engine, &Measure::new("update_user_ns", each, "ns"));
            }
        }
        report.end(samples, &["kernel-lpm-trie"]);
        Ok(())
    }
}
