//! The suite `lists`: a block list of 200,000 or two million rules, its reading, its change, and
//! questions. Each engine has a process of its own.
//!
//! | metric | what it is |
//! |---|---|
//! | `load_s` | from the text until questions are answered; of a server, from its start |
//! | `reload_s` | the same for the text in which one of a hundred names is another one |
//! | `reload_gap_ms` | the longest time between two answers meanwhile |
//! | `rss_mb` | resident memory of the process after `load_s` |
//! | `peak_mb` | the most resident memory during `reload_s` |
//! | `bytes_per_rule` | resident memory that the rules take, for each; of a server, all it has |
//! | `file_mb` | the size of a saved map or table |
//! | `ask_mops` | questions a second, in millions, by one thread; of a server by UDP, 64 at once |
//!
//! Engines: `sapwood` (a `QpStore`, changed by the difference), `sapwood-fingerprints` (a table
//! that is made anew), `hashbrown` (a set of names that is made anew, and a search for the name and
//! all above it), and, if they are installed, the name servers `unbound` (local zones), `bind-rpz`
//! (a response policy zone) and `dnsmasq` (a file of servers), which read their files again at a
//! signal. All block the names of the list with all below them. Every answer is compared with what
//! the list says. With `--data`, 20,000 of the names are real.

use sapwood_model::lists::Format;

use crate::lists::{self, Set};
use crate::live::Folder;
use crate::report::{Report, Samples};
use crate::suite::Options;

const CASES: [&str; 2] = ["lists-200k", "lists-2m"];
const ENGINES: [&str; 6] = [
    "sapwood",
    "sapwood-fingerprints",
    "hashbrown",
    "unbound",
    "bind-rpz",
    "dnsmasq",
];

/// The format of an engine's list.
fn format(engine: &str) -> Format {
    match engine {
        "unbound" => Format::Unbound,
        "bind-rpz" => Format::Rpz,
        "dnsmasq" => Format::Dnsmasq,
        _ => Format::AdBlock,
    }
}

/// Runs the suite.
pub fn run(options: &Options) -> Result<Report, String> {
    let mut report = Report::new("lists");
    let cases = options.chosen(CASES);
    if cases.is_empty() {
        return Err(format!("no such case; cases: {}", CASES.join(", ")));
    }
    println!("{}", report.machine);
    for (at, case) in cases.iter().enumerate() {
        let count = match *case {
            "lists-200k" => options.size(200_000, 10_000),
            _ => options.size(2_000_000, 40_000),
        };
        let set = Set::new(count, options.data.as_deref())?;
        report.begin(format!("{case}: {count} names, each with all below it"));
        let mut samples = Samples::new(case, &ENGINES);
        for round in options.rounds(&format!("lists: {case}"), cases.len() - at) {
            let mut engines = ENGINES;
            engines.rotate_left(round as usize % ENGINES.len());
            for engine in engines {
                if !options.wants_engine(engine) {
                    continue;
                }
                let folder = Folder::new(&std::env::temp_dir())?;
                set.write(format(engine), folder.path())?;
                let asked = options.size(200_000, 6000);
                let measured = lists::run(engine, folder.path(), asked);
                match measured.map_err(|why| format!("{case}, {engine}: {why}"))? {
                    Ok(measures) => measures.iter().for_each(|m| samples.add(engine, m)),
                    Err(why) if round == 0 => report.note(format!("{engine}: {why}")),
                    Err(_) => (),
                }
            }
        }
        report.end(samples, &["hashbrown"]);
    }
    Ok(report)
}
