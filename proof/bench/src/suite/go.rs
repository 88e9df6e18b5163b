//! The suite `go`: lookups by the Go module, beside the readers in Rust that check what they read,
//! over the same files in the same run, and beside peers in Go.
//!
//! | case | what is read | metrics |
//! |---|---|---|
//! | `names` | a saved map of domain names | `hit_mops`, `miss_mops`: a key that is there, or not. `closest_hit_ns`, `closest_below_ns`, `closest_miss_ns`: the longest name at or above a stored name, one below a stored name, and one without a stored name above |
//! | `names-live` | a live store of the same names, of which this process is the writer | the same |
//! | `routes-v4`, `routes-v6` | a saved table of routes | `random_mlps`: addresses drawn from the whole space. `intable_mlps`: addresses in a random prefix of the table |
//! | `routes-live` | a live table of IPv4 routes | the same |
//! | `ranges`, `ranges-live` | a saved map of ranges, and a live one | `load_ns`: the range that holds a number |
//! | `lists` | a saved map of a block list | `ask_mops`: the rule for a name |
//!
//! Of engines in Go `allocs` is the most allocations that a lookup of the case has. Times are
//! processor time of the thread. All questions are drawn at random, and each answer is compared
//! with that of an oracle before any time counts; during the measurement, sums of the answers are.
//!
//! Engines: `sapwood-go`; `sapwood-rust-checked` (`QpFile`, `FibFile`, and `CheckedLiveReader` of
//! live maps, which check each reference that they follow; of saved ranges `MapleFile`, which
//! checks the file when it reads it into memory); `map[string]` (for names above, a lookup for each
//! of them), `go-immutable-radix` (`Get` and `LongestPrefix`, of the same keys) and `bart`
//! (`Lookup`, which does not say which prefix it found).

use std::time::Duration;

use crate::go::{self, Benchmarks, checked};
use crate::live::Folder;
use crate::report::{Measure, Report, Samples};
use crate::suite::Options;

/// The cases.
pub const CASES: [&str; 8] = [
    "names",
    "names-live",
    "routes-v4",
    "routes-v6",
    "routes-live",
    "ranges",
    "ranges-live",
    "lists",
];
const OURS: &str = "sapwood-go";
const CHECKED: &str = "sapwood-rust-checked";
const ENGINES: [&str; 5] = [OURS, CHECKED, "map[string]", "go-immutable-radix", "bart"];

/// Runs the suite.
pub fn run(options: &Options) -> Result<Report, String> {
    let mut report = Report::new("go");
    // Of `names`, and not of `names-live`, which the option takes as a part of it.
    let cases = options.chosen(CASES);
    if cases.is_empty() {
        return Err(format!("no such case; cases: {}", CASES.join(", ")));
    }
    let folder = Folder::new(&std::env::temp_dir())?;
    let program = std::env::var("SAPWOOD_GO").unwrap_or_else(|_| "go".into());
    let benchmarks = Benchmarks::compile(&program, folder.path())?;
    println!("{}", report.machine);
    report.note(benchmarks.version.clone());
    let millis = options.size(300, 10);
    for (at, case) in cases.iter().enumerate() {
        let of_case = folder.path().join(case);
        let made = go::make(case, &of_case, options.size(100_000, 5000))?;
        report.begin(format!("{case}: {}", made.how));
        let mut samples = Samples::new(case, &ENGINES);
        let wrong = |why: String| format!("{case}: {why}");
        for round in options.rounds(&format!("go: {case}"), cases.len() - at) {
            for turn in 0..2 {
                if (round + turn) % 2 == 0 {
                    if options.wants_engine(CHECKED) {
                        let time = Duration::from_millis(millis as u64);
                        let all = checked::measure(case, &of_case, &made.asked, time);
                        for (asked, ns) in made.asked.iter().zip(all.map_err(wrong)?) {
                            let (value, unit) = go::value(asked.metric, ns);
                            samples.add(CHECKED, &Measure::new(asked.metric, value, unit));
                        }
                    }
                    continue;
                }
                let lines = benchmarks.run(case, folder.path(), millis).map_err(wrong)?;
                for engine in ENGINES {
                    let of_engine = || lines.iter().filter(|line| line.engine == engine);
                    if of_engine().next().is_none() || !options.wants_engine(engine) {
                        continue;
                    }
                    for asked in &made.asked {
                        let metric = asked.metric;
                        if let Some(line) = of_engine().find(|line| line.metric == metric) {
                            let (value, unit) = go::value(metric, line.ns);
                            samples.add(engine, &Measure::new(metric, value, unit));
                        }
                    }
                    let allocs = of_engine().fold(0.0, |most: f64, line| most.max(line.allocs));
                    if engine == OURS && allocs > 0.0 {
                        return Err(wrong(format!("{OURS} allocates {allocs} times a lookup")));
                    }
                    samples.add(engine, &Measure::new("allocs", allocs, "allocs"));
                }
            }
        }
        report.end(samples, &[CHECKED]);
    }
    Ok(report)
}
