//! The group `threads` of the suite `names`: maps that many threads read and write at once.
//!
//! It reproduces the tables that came with the qp-trie map proposed for the Linux kernel's BPF (Hou
//! Tao, 2022): lookups and updates over five key sets with 1 to 16 threads, and the memory. Here
//! the number of threads is at most twice the number of cores, and the notes give the number of
//! cores.
//!
//! | cases | what runs |
//! |---|---|
//! | `threads-KEYSET-N` | N threads look up, then update, then replace |
//! | `threads-mixed-KEYSET` | two readers, and up to two writers that insert absent keys and remove them again |
//!
//! | metric of `threads-KEYSET-N` | what it is |
//! |---|---|
//! | `lookup_mops` | lookups of present keys a second of wall-clock time, in millions, all threads together, each from another place in one random order, which differs from that of the inserts and updates |
//! | `update_mops` | removals and inserts a second of wall-clock time, all threads together. Each thread has its own part of the keys, removes 256 of them, inserts them again with new values, and continues with the next 256. The kernel's benchmark counts in the same way: each thread stores all keys of its part and deletes them again, and both count |
//! | `replace_mops` | new values for present keys a second of wall-clock time, all threads on all keys |
//! | `lookup_cpu_mops`, `update_cpu_mops`, `replace_cpu_mops` | the same operations per second of processor time of the threads, whatever the number of cores: a map that scales keeps this rate while threads are added |
//! | `met_lock_share` | the share of the removals and inserts that met a lock which another thread held; only of maps that can tell |
//! | `waited_ns_per_op` | the time that they waited for the lock, in nanoseconds of wall-clock time, divided by the number of all of them |
//! | `bytes_per_key` | memory beyond the key bytes after the build, malloc's rounding and headers included |
//! | `insert_mops` | inserts a second by one thread into a map that grows from empty; with one thread, and mixed |
//!
//! | metric of `threads-mixed-KEYSET` | what it is |
//! |---|---|
//! | `reader_alone_cpu_mops` | lookups per second of processor time of two readers, while nobody writes |
//! | `reader_apart_cpu_mops` | the same while two writers are busy in *another* map: the cost of sharing the machine's caches and cores |
//! | `reader_beside_cpu_mops` | the same while two writers are busy in this map |
//! | `writers1_cpu_mops` | inserts and removals of absent keys per second of processor time of one writer |
//! | `writers2_apart_cpu_mops` | the sum of two writers, each in its own map and by its own processor time: the limit of the machine |
//! | `writers2_cpu_mops` | the sum of two writers in one map, on different keys: twice `writers1_cpu_mops` if they do not disturb each other |

mod work;

use std::collections::HashSet;

use self::work::{Keys, Round};
use super::Options;
use super::names::Case as KeySet;
use crate::concurrent::{self, Lane};
use crate::machine;
use crate::report::{Report, Samples};

/// The key sets of the kernel's tables.
const KEYSETS: [&str; 5] = ["random-binary", "kallsyms", "btf", "paths", "domains-1m"];

/// The engine that tables show ratios to.
const BASE: &str = "dashmap";

/// The numbers of threads; only those that suit the number of cores are run.
const THREADS: [usize; 5] = [1, 2, 4, 8, 16];

/// The cases of one key set; the maps are built once for all of them.
pub struct Group {
    keyset: &'static str,
    cases: Vec<Case>,
}

/// One case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    /// This many threads that all do the same work.
    Threads(usize),
    /// Readers beside writers.
    Mixed,
}

impl Case {
    fn name(self, keyset: &str) -> String {
        match self {
            Self::Threads(threads) => format!("threads-{keyset}-{threads}"),
            Self::Mixed => format!("threads-mixed-{keyset}"),
        }
    }
}

/// The engines that are to be run.
pub fn lanes(options: &Options) -> Vec<Lane> {
    let mut lanes = concurrent::lanes();
    lanes.retain(|lane| options.wants_engine(lane.name));
    lanes
}

/// The groups that are to be run: none unless cases are named, because they take longer than all
/// other cases.
pub fn groups(options: &Options) -> Vec<Group> {
    if options.cases.is_empty() {
        return Vec::new();
    }
    let most = 2 * machine::cores();
    let threads = THREADS.into_iter().filter(|threads| *threads <= most);
    let all: Vec<_> = threads.map(Case::Threads).chain([Case::Mixed]).collect();
    let groups = KEYSETS.iter().map(|keyset| Group {
        keyset,
        cases: all
            .iter()
            .copied()
            .filter(|case| options.wants_case(&case.name(keyset)))
            .collect(),
    });
    groups.filter(|group| !group.cases.is_empty()).collect()
}

/// The names of all cases of a full run on this machine, for messages.
pub fn names() -> String {
    format!(
        "threads-KEYSET-N and threads-mixed-KEYSET with {}; N up to {}",
        KEYSETS.join(", "),
        2 * machine::cores()
    )
}

impl Group {
    /// Runs the cases; `groups_left` groups, this one included, share the remaining time.
    pub fn run(&self, options: &Options, lanes: &[Lane], groups_left: usize, report: &mut Report) {
        let set = match KeySet::load(self.keyset, options) {
            Ok(set) => set,
            Err(missing) => {
                println!("\n## threads, {}: {missing}", self.keyset);
                report.notes.push(format!("threads: {missing}"));
                return;
            }
        };
        let mut notes = vec![format!(
            "threads, {}: {}; {} cores",
            self.keyset,
            set.how,
            machine::cores()
        )];
        println!("\n## {}", notes[0]);

        let mut able: Vec<&Lane> = Vec::new();
        for lane in lanes {
            match (lane.refuses)(&set.present).or_else(|| (lane.refuses)(&set.absent)) {
                None => able.push(lane),
                Some(reason) => {
                    notes.push(format!(
                        "{} cannot hold {}: {reason}",
                        lane.name, self.keyset
                    ));
                }
            }
        }
        let engines: Vec<_> = able.iter().map(|lane| lane.name).collect();
        let mut samples: Vec<_> = self
            .cases
            .iter()
            .map(|case| Samples::new(&case.name(self.keyset), &engines))
            .collect();
        for round in options.rounds(&format!("names: threads, {}", self.keyset), groups_left) {
            able.rotate_left(usize::from(round > 0));
            let keys = Keys::new(&set.present, &set.absent, u64::from(round));
            for lane in &able {
                let mut work = Round::new(lane, &keys, options, round == 0);
                for (case, samples) in self.cases.iter().zip(&mut samples) {
                    let measures = match *case {
                        Case::Threads(threads) => work.threads(threads),
                        Case::Mixed => work.mixed(),
                    };
                    for measure in &measures {
                        samples.add(lane.name, measure);
                    }
                }
                if let Some(loss) = work.end() {
                    notes.push(format!(
                        "{}: {}: round {}: {loss}",
                        self.keyset,
                        lane.name,
                        round + 1
                    ));
                }
            }
        }
        for (case, samples) in self.cases.iter().zip(samples) {
            println!("\n### {}", case.name(self.keyset));
            report.end(samples, &[BASE]);
        }
        for note in &notes[1..] {
            println!("{note}");
        }
        report.notes.append(&mut notes);
    }
}

/// The places of the distinct keys among some keys.
fn distinct(keys: &crate::keylist::KeyList) -> Vec<usize> {
    let mut seen = HashSet::new();
    (0..keys.len())
        .filter(|at| seen.insert(keys.key(*at)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Suite;

    fn options(quick: bool, cases: &[&str]) -> Options {
        let cases = cases.iter().map(|case| (*case).to_owned()).collect();
        Options::new(Suite::Names, quick, None, None, cases, vec![])
    }

    #[test]
    fn cases_can_be_chosen() {
        let all = groups(&options(false, &["threads"]));
        assert_eq!(all.len(), KEYSETS.len());
        assert_eq!(all[0].cases[..2], [Case::Threads(1), Case::Threads(2)]);
        assert_eq!(all[0].cases.last(), Some(&Case::Mixed));
        assert!(groups(&options(true, &[])).is_empty());
        assert_eq!(groups(&options(true, &["threads"])).len(), KEYSETS.len());
        assert_eq!(
            groups(&options(false, &["kallsyms", "random-binary"])).len(),
            0
        );

        let one = groups(&options(true, &["threads-btf-2", "threads-mixed-btf"]));
        assert_eq!(one.len(), 1);
        assert_eq!(one[0].keyset, "btf");
        assert_eq!(one[0].cases, [Case::Threads(2), Case::Mixed]);
        let mixed = groups(&options(true, &["threads-mixed"]));
        assert!(mixed.iter().all(|group| group.cases == [Case::Mixed]));
        assert_eq!(mixed.len(), KEYSETS.len());
    }
}
