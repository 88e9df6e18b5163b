//! The closest stored names to a name that is not stored.

use sapwood::key::dns_name;
use sapwood::qp::QpMap;
use sapwood_bpf::{BpfArena, Words, layout};
use sapwood_model::data;
use sapwood_programs as objects;

use crate::bpf::engines::{Changed, Engine, Hash, Ours, Parts};
use crate::bpf::rig::{self, Questions};
use crate::keylist::KeyList;
use crate::report::{Measure, Report, Samples};
use crate::suite::Options;

pub const CASES: [&str; 1] = ["closest"];

const OURS: &str = "sapwood-bpf";
const HASH: &str = "kernel-hash";

/// The number of labels of each queried name, and so of the lookups in the hash table.
const LABELS: usize = 5;

/// Runs the case.
pub fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    for name in options.chosen(CASES) {
        measure(name, options, report)?;
    }
    Ok(())
}

/// The stored names, and absent names of five labels, each below a stored one, with the value of
/// the longest stored name above it.
fn lists(options: &Options) -> Result<(KeyList, KeyList, String), String> {
    let set = data::domains(options.size(1_000_000, 30_000), 1);
    let mut stored = QpMap::new();
    let mut parents = Vec::new();
    for (name, value) in set.keys.iter().zip(1u64..) {
        let text = String::from_utf8_lossy(name);
        let key = dns_name(&*text).map_err(|e| e.to_string())?;
        stored.insert(&key, value).map_err(|e| e.to_string())?;
        if text.split('.').count() < LABELS {
            parents.push(text.into_owned());
        }
    }
    let mut rng = fastrand::Rng::with_seed(2);
    let mut asked = Vec::new();
    while asked.len() < options.size(131_072, 8192) {
        let parent = &parents[rng.usize(..parents.len())];
        let more = LABELS - parent.split('.').count();
        let labels = (0..more).map(|_| format!("{:05x}.", rng.u32(..1 << 20)));
        let name = labels.collect::<String>() + parent;
        let key = dns_name(&name).map_err(|e| e.to_string())?;
        let found = stored.closest(&key, 0, |_, _| false);
        match (found.exact, found.ancestor) {
            (None, Some((_, value))) => asked.push((key, *value)),
            _ => continue,
        }
    }
    let present = KeyList::new(stored.iter().map(|(key, value)| (key, *value)));
    let asked = KeyList::new(asked);
    let how = format!(
        "{} names; asked for names of {LABELS} labels below them; {}",
        present.len(),
        set.how
    );
    Ok((present, asked, how))
}

fn measure(name: &'static str, options: &Options, report: &mut Report) -> Result<(), String> {
    let (present, asked, how) = lists(options)?;
    report.begin(format!("{name}: {how}"));
    let longest = present.iter().chain(asked.iter());
    let longest = longest.map(|(key, _)| key.len()).max().unwrap_or(0);
    let key_bytes = rig::hash_key(longest);
    let arena = BpfArena::create(4 << 30).map_err(|e| e.to_string())?;
    let programs = rig::load(&arena, objects::BENCH_CLOSEST, key_bytes, present.len())?;
    let mut questions = Questions::room(&arena, "asked", asked.len(), longest)?;
    let cursor = Words::create(&arena, "cursor", layout::CURSOR_BYTES / 8);
    let cursor = cursor.map_err(|e| e.to_string())?;
    let order = present.shuffled(1);
    let all = Changed::new(&order, key_bytes);
    let ours = Ours::new(&arena, Parts::Trie, &order)?;
    ours.tidy()?;
    let _hash = Hash::new(&programs, true, &all)?;
    // The program takes both windows in one number.
    let windows = ours.window() | cursor.window().number << 8;
    // The loop that is subtracted from the table's time cuts the labels off, too.
    let engines = [
        (OURS, "sw_run_closest", "sw_run_empty", windows),
        (HASH, "sw_run_up", "sw_run_up_empty", 0),
    ];
    let mut samples = Samples::new(name, &[OURS, HASH]);
    for round in options.rounds(&format!("bpf: {name}"), 1) {
        questions.set(asked.shuffled(u64::from(round) + 3).iter());
        for (engine, program, empty, window) in engines {
            if !options.wants_engine(engine) {
                continue;
            }
            let empty = rig::ask(&programs, empty, &questions, 0)?.each;
            let answers = rig::ask(&programs, program, &questions, window)?;
            if answers.wrong > 0 {
                return Err(format!("WRONG: {engine}: {} answers", answers.wrong));
            }
            let each = (answers.each - empty).max(0.0);
            samples.add(engine, &Measure::new("closest_ns", each, "ns"));
        }
    }
    report.end(samples, &[HASH]);
    Ok(())
}
