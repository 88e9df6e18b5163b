//! `sapwood tour`: what the library does, shown on data of this machine and checked against
//! `BTreeMap`.
//!
//! A chapter is a file here with a type that is a [`Chapter`], and a line in [`CHAPTERS`]. It says
//! what it does, does it, holds every answer against the oracle, and returns its figures for
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
use std::time::Instant;

use anstyle::{Effects, Style};
use serde_json::{Map, Value, json};

use crate::cli::TourArgs;
use crate::errors::{Answer, Error, Outcome};
use crate::figures::{cpu_time, figure, grouped, median, mega, table, timed};
use crate::routes::load::Routes;
use data::Set;

/// A part of the tour.
trait Chapter {
    /// What `--json` calls it.
    fn name(&self) -> &'static str;
    /// The heading.
    fn title(&self) -> &'static str;
    /// Shows it; returns its figures.
    fn run(&self, tour: &mut Tour) -> Result<Value, Error>;
}

/// All chapters, in order. Later ones use the maps that the first one builds.
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

/// What chapters share.
struct Tour {
    /// The data, and the maps made of them; the first one is the main example. Never empty.
    sets: Vec<Set>,
    /// Fewer rounds.
    quick: bool,
    json: bool,
    /// At most this many keys of each kind, routes, and ranges.
    limit: usize,
    /// The user's routes, and what they are.
    routes: Option<(Routes, String)>,
    checks: u64,
}

impl Tour {
    /// Prints a line of text, unless figures only are wanted.
    fn say(&self, text: impl AsRef<str>) -> Result<(), Error> {
        if self.json {
            return Ok(());
        }
        // Takes colours out where they are not wanted: NO_COLOR, pipes.
        let mut out = anstream::stdout().lock();
        for line in text.as_ref().lines() {
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

    /// Prints a table: the first column is text, the others are figures.
    fn table(&self, header: &[&str], rows: &[Vec<String>]) -> Result<(), Error> {
        self.say(table(header, rows))
    }

    /// An answer: right, or the end of the tour.
    fn check(&mut self, right: bool, what: impl FnOnce() -> String) -> Result<(), Error> {
        self.checks += 1;
        if right {
            Ok(())
        } else {
            Err(Error::Wrong(what()))
        }
    }
}

/// Goes through all chapters.
pub fn run(args: &TourArgs) -> Outcome {
    let began = Instant::now();
    let mut tour = Tour {
        sets: Vec::new(),
        quick: args.quick,
        json: args.json,
        limit: args.limit.unwrap_or(usize::MAX),
        // At once, so that a mistake in the file is told now.
        routes: args.routes.as_deref().map(routes::yours).transpose()?,
        checks: 0,
    };
    tour.heading("Sapwood: ordered maps over byte strings, tables of routes and maps of ranges, with readers that never wait")?;
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
        "{} answers checked, all right; {seconds:.0} seconds.",
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
