//! The case `closest` of the suite `names`: what a name server asks of a name, in two sizes.
//!
//! Each round builds every engine from nothing with the names in a random order, and asks it for
//! three lists of names. The answers of each list were compared before with those of a sorted list.
//!
//! | metric | what it is |
//! |---|---|
//! | `closest_hit_ns` | nanoseconds for each stored name |
//! | `closest_below_ns` | the same for names of five labels that are not stored, each below a stored name |
//! | `closest_miss_ns` | the same for names without a stored name above them: stored ones with one byte changed |
//!
//! Ordered maps give the whole answer: the name's entry, the longest name above it, the topmost
//! cut, the closest encloser, its wildcard, and the predecessor. `std-btreemap` searches for the
//! entries on both sides of the name, and looks up the names above it as far as these entries agree
//! with it. `hashbrown-foldhash` and `sapwood-points` keep no order: they look up the name and all
//! names above it, up to five, and give only what these lookups tell. That is no encloser, no
//! wildcard and no predecessor.

use std::time::Instant;

use sapwood::key::dns_name;
use sapwood_model::data;

use super::Options;
use crate::answer::{self, AnswerSum};
use crate::engines::{self, Lane};
use crate::keylist::KeyList;
use crate::report::{Measure, Report, Samples};

/// The cases: thirty thousand names, and a million.
pub const CASES: [&str; 2] = ["closest-30k", "closest-1m"];

/// Labels of the names below stored ones.
const LABELS: usize = 5;

/// What a case stores and asks for.
struct Names {
    stored: KeyList,
    /// For each metric the names that are asked for, and the answers.
    asked: [(&'static str, KeyList, AnswerSum); 3],
    how: String,
}

impl Names {
    fn new(name: &str, options: &Options) -> Self {
        let full = if name == CASES[0] { 30_000 } else { 1_000_000 };
        let set = data::domains(options.size(full, full / 33), 1);
        let count = options.size(131_072, 8192);
        let keys = |names: &[Box<[u8]>]| -> Vec<Box<[u8]>> {
            let texts = names.iter().map(|name| String::from_utf8_lossy(name));
            let keys = texts.filter_map(|text| dns_name(&*text).ok());
            keys.map(|key| Box::from(&key[..])).collect()
        };
        let stored = KeyList::numbered(&keys(&set.keys));
        let sorted = stored.sorted();
        let mut rng = fastrand::Rng::with_seed(2);
        let mut below = Vec::new();
        while below.len() < count {
            let mut name = stored.key(rng.usize(..stored.len())).to_vec();
            for _ in answer::ends(&name.clone()).count()..LABELS {
                name.extend_from_slice(format!("{:05x}", rng.u32(..1 << 20)).as_bytes());
                name.push(answer::SEPARATOR);
            }
            if sorted.place_of(&name).is_none() {
                below.push(name);
            }
        }
        let mut missing = keys(&set.mutated(3 * count, 3));
        missing.retain(|name| {
            let answer = answer::of_list(&sorted, name);
            answer.above.ancestor.is_none() && !answer.order.exists
        });
        let list = |names: &mut dyn Iterator<Item = &[u8]>| {
            KeyList::new(names.take(count).map(|name| (name, 0)))
        };
        let hits = stored.shuffled(4);
        let asked = [
            (
                "closest_hit_ns",
                list(&mut hits.iter().map(|(name, _)| name)),
            ),
            (
                "closest_below_ns",
                list(&mut below.iter().map(|name| &**name)),
            ),
            (
                "closest_miss_ns",
                list(&mut missing.iter().map(|name| &**name)),
            ),
        ];
        let [hits, below, missing] = asked.each_ref().map(|(_, names)| names.len());
        let how = format!(
            "{} names; asked for {hits} of them, {below} below them and {missing} others; {}",
            stored.len(),
            set.how
        );
        let asked = asked.map(|(metric, names)| {
            let answers = AnswerSum::of(&names, |name| answer::of_list(&sorted, name));
            (metric, names, answers)
        });
        Self { stored, asked, how }
    }
}

/// The engines that have an answer.
fn able(lanes: &[Lane]) -> Vec<&Lane> {
    let none = KeyList::new::<&[u8]>([]);
    let answers =
        |lane: &&Lane| (lane.form)(&none).is_ok() && (lane.build)(&none).closest(&none).is_some();
    lanes.iter().filter(answers).collect()
}

/// The cases that are to be run: none if no engine has an answer.
pub fn chosen(options: &Options, lanes: &[Lane]) -> Vec<&'static str> {
    let mut cases = options.chosen(CASES);
    if !cases.is_empty() && able(lanes).is_empty() {
        cases.clear();
    }
    cases
}

/// Runs a case with those engines that have an answer; `cases_left` cases, it included, share what
/// time there is.
pub fn run(
    name: &str,
    options: &Options,
    lanes: &[Lane],
    cases_left: usize,
    report: &mut Report,
) -> Result<(), String> {
    if options.is_over() {
        report.begin(format!(
            "{name}: left out, as the time is over: use --cases {name}"
        ));
        return Ok(());
    }
    let names = Names::new(name, options);
    report.begin(format!("{name}: {}", names.how));
    let mut lanes = able(lanes);
    let engines: Vec<_> = lanes.iter().map(|lane| lane.name).collect();
    let mut samples = Samples::new(name, &engines);
    for round in options.rounds(&format!("names: {name}"), cases_left) {
        let pairs = names.stored.shuffled(u64::from(round));
        lanes.rotate_left(usize::from(round > 0));
        for lane in &lanes {
            engines::settle();
            let mut built = (lane.build)(&pairs);
            built.finish();
            for (metric, asked, wanted) in &names.asked {
                // Once without a clock: caches are as warm for the first list as for the others.
                let answers = built.closest(asked).unwrap_or_default();
                if !answers.agrees_with(*wanted) {
                    return Err(format!("WRONG: {name}: {}: {metric}", lane.name));
                }
                let start = Instant::now();
                let again = built.closest(asked);
                let time = start.elapsed();
                if again != Some(answers) {
                    return Err(format!("WRONG: {name}: {}: {metric}, again", lane.name));
                }
                let each = time.as_secs_f64() * 1e9 / asked.len() as f64;
                samples.add(lane.name, &Measure::new(metric, each, "ns"));
            }
        }
    }
    report.end(samples, &["hashbrown-foldhash", "std-btreemap"]);
    Ok(())
}
