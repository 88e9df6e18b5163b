//! The suites, and their common parts: options, rounds and time limits.

mod bpf;
mod c;
mod cache;
mod closest;
mod covering;
mod go;
mod lists;
pub mod live;
mod names;
mod ranges;
mod routes;
mod sets;
mod sync;
mod threads;
mod versions;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use crate::report::{Measure, Report};

#[cfg(test)]
pub use go::CASES as GO_CASES;

/// The suites.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Suite {
    /// Maps over seven sets of names and binary keys: lookups, inserts, scans and memory, with one
    /// thread and with many.
    Names,
    /// Maps with many readers and one writer: readers, transactions, commits and event loops;
    /// methods to protect readers over the same trie.
    Versions,
    /// Longest-prefix match over routing tables: lookups, also of flows and of bit strings, updates
    /// beside readers, and memory.
    Routes,
    /// Caches of routes: lookups, inserts, refreshes, churn and hit rate, with one thread and two.
    Cache,
    /// Maps of ranges: lookups, changes, searches for gaps, memory, and the nodes that changes
    /// request; recorded address spaces; readers beside a writer, and many writers.
    Ranges,
    /// One map that many processes read: reads, changes, the time until another process sees a
    /// change, and memory, beside embedded stores and a server.
    Live,
    /// One writer's commits on many machines: commits, the time until followers show them, bytes,
    /// and recovery, beside watched keys of etcd.
    Sync,
    /// A block list: its reading, its change beside a reader, memory and questions, beside a hash
    /// set and name servers.
    Lists,
    /// The Go module: lookups in saved and live maps, beside Rust's checked readers of the same
    /// files, and maps, radix trees and tables in Go. Needs Go.
    Go,
    /// The C library: what its border costs, beside maps and tables in C.
    C,
    /// Maps inside the kernel, against the kernel's own: lookups and changes by programs, memory,
    /// and forwarded packets. Needs the feature `bpf`, and root.
    Bpf,
}

impl Suite {
    /// Runs the suite, prints its tables during the run, and returns all measurements.
    pub fn run(self, options: &Options) -> Result<Report, String> {
        match self {
            Suite::Names => names::run(options),
            Suite::Versions => versions::run(options),
            Suite::Routes => routes::run(options),
            Suite::Cache => cache::run(options),
            Suite::Ranges => ranges::run(options),
            Suite::Live => live::run(options),
            Suite::Sync => sync::run(options),
            Suite::Lists => lists::run(options),
            Suite::Go => go::run(options),
            Suite::C => c::run(options),
            Suite::Bpf => bpf::run(options),
        }
    }

    /// The number of rounds of a suite that needs more than the others.
    pub fn rounds(self, quick: bool) -> Option<u32> {
        (matches!(self, Suite::Bpf) && !quick).then_some(9)
    }

    /// The time limit of a run of all cases. The last round may end some minutes later; no other
    /// case begins after the limit.
    fn time(self, quick: bool) -> Option<Duration> {
        match self {
            _ if quick => Some(QUICK),
            // A round of all cases takes ten minutes, most of them for a million names.
            Suite::Names => Some(NAMES),
            _ => None,
        }
    }
}

/// The options of a run from the command line.
pub struct Options {
    /// Whether to use small sets and few rounds.
    pub quick: bool,
    /// The number of rounds for each case.
    pub rounds: u32,
    /// The folder of data sets.
    pub data: Option<PathBuf>,
    cases: Vec<String>,
    engines: Vec<String>,
    deadline: Option<Instant>,
}

/// The time limit of a run with `--quick`.
const QUICK: Duration = Duration::from_secs(45);
/// The time limit of the suite `names` when neither cases nor rounds are named.
const NAMES: Duration = Duration::from_secs(14 * 60);

impl Options {
    /// Options with five rounds, or two on a quick run, unless `rounds` says otherwise; fewer
    /// rounds run when the suite's time ends.
    pub fn new(
        suite: Suite,
        quick: bool,
        rounds: Option<u32>,
        data: Option<PathBuf>,
        cases: Vec<String>,
        engines: Vec<String>,
    ) -> Self {
        let all = cases.is_empty() && rounds.is_none();
        let time = suite.time(quick).filter(|_| quick || all);
        let deadline = time.map(|time| Instant::now() + time);
        let rounds = rounds.or_else(|| suite.rounds(quick));
        let rounds = rounds.unwrap_or(if quick { 2 } else { 5 });
        Self {
            quick,
            rounds,
            data,
            cases,
            engines,
            deadline,
        }
    }

    /// Whether to run a case: no case is named, or this one is, or the part before one of its
    /// hyphens is.
    pub fn wants_case(&self, case: &str) -> bool {
        let named = |wanted: &String| {
            case.strip_prefix(wanted.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        self.cases.is_empty() || self.cases.iter().any(named)
    }

    /// Whether to run an engine.
    pub fn wants_engine(&self, engine: &str) -> bool {
        self.engines.is_empty() || self.engines.iter().any(|wanted| wanted == engine)
    }

    /// The cases among these that are to be run.
    pub fn chosen<const N: usize>(&self, cases: [&'static str; N]) -> Vec<&'static str> {
        let cases = cases.into_iter();
        cases.filter(|case| self.wants_case(case)).collect()
    }

    /// The rounds of a case, each announced on stderr. `cases_left` cases, this one included, share
    /// the remaining time. The first round always runs.
    pub fn rounds(&self, case: &str, cases_left: usize) -> impl Iterator<Item = u32> {
        let end = self.deadline.map(|deadline| {
            let now = Instant::now();
            now + deadline.saturating_duration_since(now) / cases_left.max(1) as u32
        });
        (0..self.rounds)
            .take_while(move |round| *round == 0 || end.is_none_or(|end| Instant::now() < end))
            .inspect(move |round| eprintln!("{case}: round {} of {}", round + 1, self.rounds))
    }

    /// Whether the time limit of a full run has passed, so that no other case begins.
    pub fn is_over(&self) -> bool {
        !self.quick && self.deadline.is_some_and(|end| Instant::now() >= end)
    }

    /// `full`, or `quick` on a quick run.
    pub fn size(&self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }
}

/// Millions a second.
fn mega_rate(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64() / 1e6
}

/// A rate in millions a second.
fn mops(metric: &'static str, count: usize, time: Duration) -> Measure {
    Measure::new(metric, mega_rate(count, time), "Mop/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_named_whole_or_by_their_first_part() {
        let options = Options::new(
            Suite::Names,
            true,
            None,
            None,
            vec!["commit1".into(), "btf".into()],
            vec![],
        );
        assert!(options.wants_case("commit1-121k") && options.wants_case("btf"));
        assert!(!options.wants_case("commit1000-121k") && !options.wants_case("b"));
        assert!(options.wants_engine("any"));
        assert_eq!(options.rounds("a case", 3).count(), 2);
    }
}
