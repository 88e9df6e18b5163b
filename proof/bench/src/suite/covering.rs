//! The cases `covering-v4` and `covering-v6` of the suite `routes`: all prefixes that cover an
//! address, and all that cover a prefix.
//!
//! The table is the global one with `--data`, else one made after it. The addresses are in random
//! prefixes of the table, with random bits after them; the prefixes are those of the table in a
//! random order, a third of them one to eight bits longer. In the first round the answers to a part
//! of the questions are compared with those of one hash map per prefix length, each length asked.
//! In all rounds checksums of the answers of all engines are compared.
//!
//! | metric | what it is |
//! |---|---|
//! | `address_mlps` | addresses a second, in millions, each with the next hops of all its prefixes |
//! | `prefix_mlps` | the same of prefixes |
//! | `wrong` | the number of passes and compared answers that were wrong |

use std::collections::BTreeMap;

use fastrand::Rng;
use sapwood_model::data::routes as model;
use sapwood_model::oracle::{LpmByLength, Prefix};

use super::{Options, mega_rate};
use crate::alloc;
use crate::clock::CpuClock;
use crate::report::{Measure, Report, Samples};
use crate::routes::Family;
use crate::routes::covers::CoverLanes;

/// The answers of the oracle to questions: next hops of shorter prefixes first, then an end.
fn naive(table: &LpmByLength<u32>, questions: &[Prefix]) -> Vec<Option<u32>> {
    let mut all = Vec::new();
    for question in questions {
        let covering = (0..=question.len).map(|len| Prefix::truncated(question.bits, len));
        all.extend(
            covering
                .filter_map(|at| table.get(at))
                .map(|hop| Some(*hop)),
        );
        all.push(None);
    }
    all
}

/// Runs a case over these routes.
pub fn run<F: CoverLanes + Family>(
    name: &'static str,
    (routes, how): (Vec<(Prefix, u32)>, String),
    options: &Options,
    cases_left: usize,
    report: &mut Report,
) {
    report.begin(format!("{name}: {how}"));
    let prefixes: Vec<_> = routes.iter().map(|(prefix, _)| *prefix).collect();
    let asked = options.size(1_000_000, 20_000);
    let addresses = model::addresses_within(&prefixes, F::WIDTH, asked, 3);
    let mut rng = Rng::with_seed(5);
    let longer: Vec<Prefix> = (0..asked)
        .map(|_| {
            let prefix = prefixes[rng.usize(0..prefixes.len())];
            let more = if rng.u8(0..3) == 0 { rng.u8(1..9) } else { 0 };
            let len = (prefix.len + more).min(F::WIDTH);
            let random = rng.u128(..).checked_shr(prefix.len.into()).unwrap_or(0);
            Prefix::truncated(prefix.bits | random, len)
        })
        .collect();
    let oracle: LpmByLength<u32> = routes.iter().copied().collect();
    let part = asked.min(options.size(50_000, 5_000));
    let hosts = addresses[..part]
        .iter()
        .map(|bits| Prefix::truncated(*bits, F::WIDTH));
    let expected = [
        naive(&oracle, &hosts.collect::<Vec<_>>()),
        naive(&oracle, &longer[..part]),
    ];
    let addrs: Vec<_> = addresses.iter().map(|bits| F::addr(*bits)).collect();
    let nets: Vec<_> = longer.iter().map(|prefix| F::net(*prefix)).collect();
    let routes: Vec<_> = routes.iter().map(|(p, hop)| (F::net(*p), *hop)).collect();

    let mut lanes = F::cover_lanes();
    lanes.retain(|lane| options.wants_engine(lane.name));
    let names: Vec<_> = lanes.iter().map(|lane| lane.name).collect();
    let mut samples = Samples::new(name, &names);
    let mut wrong: BTreeMap<&'static str, usize> = BTreeMap::new();
    let (mut of_addresses, mut of_prefixes) = (None, None);
    for round in options.rounds(&format!("routes: {name}"), cases_left) {
        let turn = usize::from(round > 0 && !lanes.is_empty());
        lanes.rotate_left(turn);
        for lane in &lanes {
            alloc::trim();
            let built = match (lane.build)(&routes) {
                Ok(built) => built,
                Err(reason) => {
                    report.note(format!("{name}: without {}: {reason}", lane.name));
                    continue;
                }
            };
            let mistakes = wrong.entry(lane.name).or_default();
            if round == 0 {
                let [one, other] = built.answers(&addrs[..part], &nets[..part]);
                *mistakes += usize::from(one != expected[0]);
                *mistakes += usize::from(!other.is_empty() && other != expected[1]);
            }
            let clock = CpuClock::start();
            let tally = built.of_addresses(&addrs);
            let rate = mega_rate(asked, clock.elapsed());
            *mistakes += usize::from(*of_addresses.get_or_insert(tally) != tally);
            samples.add(lane.name, &Measure::new("address_mlps", rate, "M/s"));
            let clock = CpuClock::start();
            let Some(tally) = built.of_prefixes(&nets) else {
                continue;
            };
            let rate = mega_rate(asked, clock.elapsed());
            *mistakes += usize::from(*of_prefixes.get_or_insert(tally) != tally);
            samples.add(lane.name, &Measure::new("prefix_mlps", rate, "M/s"));
        }
    }
    super::routes::tell(name, wrong, &mut samples, report);
    report.end(samples, &["prefix-trie"]);
}
