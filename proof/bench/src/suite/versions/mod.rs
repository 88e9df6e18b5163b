//! The suite `versions`: stores with many readers and one writer.
//!
//! | cases | what runs |
//! |---|---|
//! | `readers-N` | N readers, no writer |
//! | `rw-1wNr` | N readers beside a writer that is never idle |
//! | `event-loop` | two event loops beside a writer that is never idle: a turn has 64 tasks, each a transaction of one lookup, and a loop reports a quiescent state once a turn; the writer's transactions have one operation, too |
//! | `txn-TxO` | one reader beside one writer; both do loops of T transactions of O operations |
//! | `items-N` | a store of N items, one thread: memory, then reads, then writes |
//! | `commit1-N`, `commit1000-N` | transactions of 1 and of 1000 operations on N items, one thread |
//! | `save` | snapshots of Sapwood's store saved to a file over and over, beside transactions of one operation |
//!
//! With four million items only `sapwood` runs and a lock over a `BTreeMap`.
//!
//! Unless said otherwise, a loop is 32 transactions of 32 operations. The number of items stays
//! within a few hundred of N, because the writer inserts each key that it removes again a little
//! later.
//!
//! | metric | what it is |
//! |---|---|
//! | `reader_mops` | lookups in millions per second of processor time of the readers |
//! | `reader_wall_mops` | the same per second of wall-clock time, all readers together |
//! | `writer_mops` | inserts and removals per second of processor time of the writer |
//! | `writer_wall_mops` | the same per second of wall-clock time |
//! | `commit_wall_mops` | transactions per second of wall-clock time |
//! | `commit_mops` | transactions, begun, filled and committed, per second of processor time |
//! | `commit_max_us` | the longest transaction by wall-clock time; the least of the rounds is the one without noise |
//! | `commit_p50_us`, `commit_p99_us`, `commit_p999_us`, `commit_p9999_us` | percentiles of the transactions' times: 50, 99, 99.9, 99.99 |
//! | `compact_step_max_us` | the longest step of a compaction in these transactions: it is a part of every 16th transaction's time |
//! | `save_ms`, `save_beside_ms` | saving a snapshot of all symbols, by wall-clock time: without a writer, and beside one |
//! | `commit_beside_wall_mops`, `commit_beside_max_us` | the writer's transactions beside the saving; in `save`, `commit_wall_mops` and `commit_max_us` are the same without saving |
//! | `bytes_per_item` | all memory, the keys too, malloc's rounding and headers included |
//!
//! `sapwood`, `rwlock-qp`, `arcswap-qp`, `urcu-qp` and `urcu-qsbr-qp` have the same trie. A
//! comparison between them compares only their methods to protect readers.

mod run;
mod save;
mod work;

use arc_swap::ArcSwap;
use sapwood_model::data::{self, DataSet};

use self::run::{Measured, run_store};
use self::work::{Keys, Plan, Work};
use super::Options;
use crate::machine;
use crate::peers::arcswap::ArcSwapImbl;
use crate::peers::left_right::LeftRight;
use crate::peers::rwlock;
use crate::peers::skiplist::Skiplist;
use crate::report::{Report, Samples};
use crate::stores::{Memb, Published, Qsbr, Sapwood, Store, Urcu, Version};

/// A store with its type erased.
struct Lane {
    name: &'static str,
    note: &'static str,
    available: fn() -> Result<(), String>,
    run: fn(&Keys, &Work) -> Measured,
}

fn lane<S: Store>() -> Lane {
    Lane {
        name: S::NAME,
        note: S::NOTE,
        available: S::available,
        run: run_store::<S>,
    }
}

/// All stores, in the order in which tables list them.
fn lanes() -> Vec<Lane> {
    vec![
        lane::<Sapwood>(),
        lane::<rwlock::Qp>(),
        lane::<Published<ArcSwap<Version>>>(),
        lane::<Urcu<Memb>>(),
        lane::<Urcu<Qsbr>>(),
        lane::<rwlock::Btree>(),
        lane::<ArcSwapImbl>(),
        lane::<LeftRight>(),
        lane::<Skiplist>(),
    ]
}

/// The keys of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The kernel's symbols, or the same number of domain names if there are none: all of them, or
    /// a sample of this size.
    Symbols(usize),
    /// This many domain names.
    Domains(usize),
}

struct Case {
    name: String,
    source: Source,
    work: Work,
}

/// Stores with at least as many items take their time to fill: only these run then.
const MANY: usize = 4_000_000;
const WITH_MANY: [&str; 2] = [Sapwood::NAME, rwlock::Btree::NAME];

/// Runs the suite.
pub fn run(options: &Options) -> Result<Report, String> {
    let mut lanes = lanes();
    lanes.retain(|lane| options.wants_engine(lane.name));
    let symbols = symbols(options);
    let mut cases = cases(options, symbols.keys.len());
    cases.retain(|case| options.wants_case(&case.name));
    let saves = options.wants_case(save::CASE) && options.wants_engine(Sapwood::NAME);
    if lanes.is_empty() || (cases.is_empty() && !saves) {
        return Err("no such engine or case".into());
    }
    let mut report = Report::new("versions");
    lanes.retain(|lane| match (lane.available)() {
        Ok(()) => true,
        Err(reason) => {
            let note = format!("without {}: {reason}", lane.name);
            report.notes.push(note);
            false
        }
    });
    if lanes.is_empty() {
        return Err(report.notes.join("; "));
    }
    report
        .notes
        .push(format!("{} keys; {}", symbols.keys.len(), symbols.how));
    report.notes.push(format!("{} cores", machine::cores()));
    report.notes.extend(
        lanes
            .iter()
            .map(|lane| format!("{}: {}", lane.name, lane.note)),
    );
    println!("{}\n{}", report.machine, report.notes.join("\n"));

    let mut loaded: Option<(Source, Keys)> = None;
    for (at, case) in cases.iter().enumerate() {
        if loaded
            .as_ref()
            .is_none_or(|(source, _)| *source != case.source)
        {
            let keys = match case.source {
                Source::Symbols(count) => Keys::new(&symbols.keys[..count]),
                Source::Domains(count) => Keys::new(&data::domains(count, 1).keys),
            };
            loaded = Some((case.source, keys));
        }
        let (_, keys) = loaded.as_ref().expect("the keys were just loaded");
        run_case(case, keys, options, &lanes, cases.len() - at, &mut report);
    }
    if saves {
        save::run(&Keys::new(&symbols.keys), options, &mut report)?;
    }
    Ok(report)
}

fn run_case(
    case: &Case,
    keys: &Keys,
    options: &Options,
    lanes: &[Lane],
    cases_left: usize,
    report: &mut Report,
) {
    println!("\n## {}: {} items", case.name, keys.len());
    let runs = |lane: &&Lane| keys.len() < MANY || WITH_MANY.contains(&lane.name);
    let lanes: Vec<_> = lanes.iter().filter(runs).collect();
    if lanes.is_empty() {
        return;
    }
    let names: Vec<_> = lanes.iter().map(|lane| lane.name).collect();
    let mut samples = Samples::new(&case.name, &names);
    for round in options.rounds(&format!("versions: {}", case.name), cases_left) {
        for step in 0..lanes.len() {
            let lane = lanes[(step + round as usize) % lanes.len()];
            for measure in (lane.run)(keys, &case.work) {
                samples.add(lane.name, &measure);
            }
        }
    }
    report.end(samples, &[rwlock::Btree::NAME, rwlock::Qp::NAME]);
}

/// The kernel's symbols, or keys that look like them.
fn symbols(options: &Options) -> DataSet {
    let mut set =
        data::kallsyms().unwrap_or_else(|missing| missing.instead(data::symbols(121_000, 1)));
    if options.quick {
        set.thin(20_000);
    }
    // A prefix of the shuffled list is a sample of the whole kernel, not of one part of it.
    fastrand::Rng::with_seed(1).shuffle(&mut set.keys);
    set
}

/// The numbers of readers of the cases.
fn readers(quick: bool, cores: usize) -> Vec<usize> {
    if quick {
        return vec![1, 2, 4, 10];
    }
    // With more cores, powers of two up to their number follow.
    let more = std::iter::successors(Some(16), |n| Some(2 * n));
    (1..=10).chain(more.take_while(|n| *n <= cores)).collect()
}

fn cases(options: &Options, symbols: usize) -> Vec<Case> {
    let window = std::time::Duration::from_millis(options.size(300, 40) as u64);
    let usual = Plan {
        transactions: 32,
        operations: 32,
    };
    let all = Source::Symbols(symbols);
    let mut cases = Vec::new();
    let mut case = |name: String, source, work| cases.push(Case { name, source, work });

    let threads = readers(options.quick, machine::cores());
    for (name, writer) in [("readers-N", None), ("rw-1wNr", Some(usual))] {
        for readers in &threads {
            let work = Work::Threads {
                readers: *readers,
                plan: usual,
                writer,
                window,
            };
            case(name.replace('N', &readers.to_string()), all, work);
        }
    }
    let task = Plan {
        transactions: 64,
        operations: 1,
    };
    let loops = Work::Threads {
        readers: 2,
        plan: task,
        writer: Some(task),
        window,
    };
    case("event-loop".into(), all, loops);
    for power in (0..=10).step_by(options.size(1, 5)) {
        let plan = Plan {
            transactions: 1024 >> power,
            operations: 1 << power,
        };
        let work = Work::Threads {
            readers: 1,
            plan,
            writer: Some(plan),
            window,
        };
        case(
            format!("txn-{}x{}", plan.transactions, plan.operations),
            all,
            work,
        );
    }
    for items in [10, 100, 1000, 10_000, 100_000, 1_000_000] {
        if items <= options.size(1_000_000, 10_000) {
            let work = Work::Items {
                plan: usual,
                window,
            };
            case(format!("items-{items}"), Source::Domains(items), work);
        }
    }
    let sources = if options.quick {
        vec![Source::Symbols(1000.min(symbols)), all]
    } else {
        vec![
            Source::Symbols(1000.min(symbols)),
            all,
            Source::Domains(1_000_000),
            Source::Domains(MANY),
        ]
    };
    for source in sources {
        let (Source::Symbols(count) | Source::Domains(count)) = source;
        let count = if count < 1_000_000 {
            format!("{}k", count / 1000)
        } else {
            format!("{}m", count / 1_000_000)
        };
        for operations in [1, 1000] {
            let work = Work::Commits { operations, window };
            case(format!("commit{operations}-{count}"), source, work);
        }
    }
    cases
}
