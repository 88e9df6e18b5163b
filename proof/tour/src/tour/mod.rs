//! The tour: shows what the library does on data of this machine, and checks all answers
//! against `BTreeMap`.
//!
//! Each chapter is a module here with a type that is a [`Chapter`], and a line in [`CHAPTERS`]. It
//! prints what it does, compares every answer with the oracle, and returns its figures for
//! `--json`.

mod building;
mod data;
mod files;
mod kernel;
mod lookups;
pub mod measure;
mod ranges;
mod readers;
mod routes;
mod spans;
mod table;
mod versions;

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use anstyle::{Effects, Style};
use clap::Args;
use serde_json::{Map, Value, json};

use crate::errors::{Answer, Error, Outcome};
use crate::figures::{cpu_time, figure, grouped, median, mega, table, timed};
use crate::routes::load::Routes;
use data::Set;

/// The arguments of `tour`.
#[derive(Debug, Args)]
#[command(
    after_help = "The tour takes about a minute, with --quick about fifteen seconds. It uses the \
symbols of the running kernel and the paths below /usr where it can read them, a million generated \
domain names (--quick: 100,000), a generated table of routes, as many generated ranges as domain \
names, the mappings of its own process, and your files. It writes only to a temporary folder, \
which it removes. Each table names the units of its figures. The exit code is 1 when an answer is \
wrong.

Examples:
  cargo run --release -- tour
  cargo run --release -- tour --quick words.txt
  cargo run --release -- tour --routes rib.bz2
  cargo run --release -- tour --json > tour.json"
)]
pub struct TourArgs {
    /// Files with keys of your own, one in each line.
    pub files: Vec<PathBuf>,
    /// A file with routes of your own: a table, a text or an MRT table dump.
    #[arg(long, value_name = "FILE")]
    pub routes: Option<PathBuf>,
    /// Use a tenth of the domain names and of the ranges, a fifth of the routes, and fewer rounds.
    #[arg(short, long)]
    pub quick: bool,
    /// Print one JSON document with all figures instead of text.
    #[arg(long)]
    pub json: bool,
    /// Use at most this many keys of each kind, this many routes and this many ranges.
    #[arg(long, hide = true, value_name = "N")]
    pub limit: Option<usize>,
}

/// A part of the tour.
trait Chapter {
    /// The name of the chapter in the document of `--json`.
    fn name(&self) -> &'static str;
    /// The heading of the chapter.
    fn title(&self) -> &'static str;
    /// Runs the chapter and prints its text; returns its figures.
    fn run(&self, tour: &mut Tour) -> Result<Value, Error>;
}

/// All chapters in order. Later ones use the maps that the first one builds.
const CHAPTERS: [&dyn Chapter; 9] = [
    &building::Building,
    &lookups::Lookups,
    &versions::Versions,
    &readers::Readers,
    &files::Files,
    &table::Speed,
    &routes::Routes,
    &ranges::Ranges,
    &kernel::Kernel,
];

/// The data and options that all chapters share.
struct Tour {
    /// The sets of keys with their maps. The first one is the main example; there is at least one.
    sets: Vec<Set>,
    /// Whether to run fewer rounds on less data.
    quick: bool,
    json: bool,
    /// The limit of keys of each kind, of routes and of ranges.
    limit: usize,
    /// The user's routes, and the sentence that describes them.
    routes: Option<(Routes, String)>,
    checks: u64,
}

impl Tour {
    /// Prints text, each of its lines broken into lines of the screen, except for `--json`.
    fn say(&self, text: impl AsRef<str>) -> Result<(), Error> {
        self.print(&fold(text.as_ref()))
    }

    /// Prints lines as they are, except for `--json`.
    fn print(&self, text: &str) -> Result<(), Error> {
        if self.json {
            return Ok(());
        }
        // This stream drops colours for pipes and under NO_COLOR.
        let mut out = anstream::stdout().lock();
        for line in text.lines() {
            let indent = if line.trim().is_empty() { "" } else { "  " };
            writeln!(out, "{indent}{}", line.trim_end())?;
        }
        Ok(out.flush()?)
    }

    fn heading(&self, text: &str) -> Result<(), Error> {
        if self.json {
            return Ok(());
        }
        let bold = Style::new().effects(Effects::BOLD);
        let mut out = anstream::stdout().lock();
        writeln!(out, "\n{bold}{text}{bold:#}\n")?;
        Ok(out.flush()?)
    }

    /// Prints a table. The first column is text, the others are figures.
    fn table(&self, header: &[&str], rows: &[Vec<String>]) -> Result<(), Error> {
        self.print(&table(header, rows))
    }

    /// Counts an answer that was checked; a wrong one is the error that ends the tour.
    fn check(&mut self, right: bool, what: impl FnOnce() -> String) -> Result<(), Error> {
        self.checks += 1;
        if right {
            Ok(())
        } else {
            Err(Error::Wrong(what()))
        }
    }
}

/// How many bytes of text a line of the screen has at most, if its words allow it.
const WIDTH: usize = 96;

/// Breaks lines that are too long between words. The parts keep the indentation of the line.
fn fold(text: &str) -> String {
    let mut folded = String::new();
    for line in text.split('\n') {
        let words = line.trim_start();
        let indent = &line[..line.len() - words.len()];
        folded += indent;
        let mut len = indent.len();
        for word in words.split(' ') {
            if len > indent.len() && len + 1 + word.len() > WIDTH {
                folded = folded + "\n" + indent;
                len = indent.len();
            } else if len > indent.len() {
                folded.push(' ');
                len += 1;
            }
            folded += word;
            len += word.len();
        }
        folded.push('\n');
    }
    folded.pop();
    folded
}

/// Runs all chapters.
pub fn run(args: &TourArgs) -> Outcome {
    let began = Instant::now();
    let mut tour = Tour {
        sets: Vec::new(),
        quick: args.quick,
        json: args.json,
        limit: args.limit.unwrap_or(usize::MAX),
        // The file is read first, so that an error in it is reported at once.
        routes: args.routes.as_deref().map(routes::yours).transpose()?,
        checks: 0,
    };
    tour.heading(
        "Sapwood: ordered maps of byte strings, tables of routes, and maps of ranges, \
         with readers that never lock",
    )?;
    let (sets, missing) = data::load(args)?;
    for set in &sets {
        tour.say(format!(
            "{}: {} keys, {}",
            set.name,
            grouped(set.keys.len()),
            set.how
        ))?;
    }
    for missing in &missing {
        tour.say(format!("({missing})"))?;
    }
    let data: Vec<Value> = sets.iter().map(Set::describe).collect();
    tour.sets = sets;
    let mut chapters = Map::new();
    for (number, chapter) in (1..).zip(CHAPTERS) {
        tour.heading(&format!("{number}. {}", chapter.title()))?;
        let figures = chapter.run(&mut tour)?;
        chapters.insert(chapter.name().into(), figures);
    }
    let seconds = began.elapsed().as_secs_f64();
    tour.heading(&format!(
        "{} answers checked, all right, in {seconds:.0} seconds.",
        grouped(tour.checks as usize)
    ))?;
    if args.json {
        let document = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "quick": args.quick,
            "data": data,
            "missing": missing,
            "chapters": chapters,
            "checks": tour.checks,
            "seconds": seconds,
        });
        let mut out = std::io::stdout().lock();
        writeln!(out, "{document:#}")?;
        out.flush()?;
    }
    Ok(Answer::Yes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_folded_and_keep_their_indentation() {
        for text in ["", " ", "short", "\n  a line\nanother\n "] {
            assert_eq!(fold(text), text);
        }
        let words = vec!["eight888"; 20].join(" ");
        let folded = fold(&format!("first\n  {words}\nlast"));
        let lines: Vec<&str> = folded.split('\n').collect();
        assert_eq!(lines.len(), 4, "{folded}");
        assert!(lines.iter().all(|line| line.len() <= WIDTH), "{folded}");
        assert!(lines[1..3].iter().all(|line| line.starts_with("  e")));
        assert_eq!(lines[1..3].join(" ").split_whitespace().count(), 20);
        let long = "x".repeat(2 * WIDTH);
        assert_eq!(fold(&long), long);
    }
}
