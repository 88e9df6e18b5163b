//! `sapwood tour`: what the library does, shown on data of this machine and checked against `BTreeMap`.
//!
//! A chapter is a file here with a type that is a [`Chapter`], and a line in [`CHAPTERS`]. It says what it does, does
//! it, holds every answer against the oracle, and returns its figures for `--json`.

mod building;
mod data;
mod files;
mod lookups;
pub mod measure;
mod readers;
mod table;
mod versions;

use std::io::Write;
use std::time::{Duration, Instant};

use anstyle::{Effects, Style};
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Map, Value, json};

use crate::cli::TourArgs;
use crate::errors::{Answer, Error, Outcome};
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
const CHAPTERS: [&dyn Chapter; 6] = [
    &building::Building,
    &lookups::Lookups,
    &versions::Versions,
    &readers::Readers,
    &files::Files,
    &table::Speed,
];

/// What chapters share.
struct Tour {
    /// The data, and the maps made of them; the first one is the main example. Never empty.
    sets: Vec<Set>,
    /// Fewer rounds.
    quick: bool,
    json: bool,
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
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header(header.iter().copied());
        table.add_rows(rows.iter().cloned());
        for column in 1..header.len() {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        self.say(table.to_string())
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
        checks: 0,
    };
    tour.heading("Sapwood: ordered maps over byte strings, with readers that never wait")?;
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

/// A number with commas.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Millions a second.
fn mega(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-9) / 1e6
}

/// A figure with about three digits.
fn figure(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The result of `work` and its time.
fn timed<R>(work: impl FnOnce() -> R) -> (R, Duration) {
    let began = Instant::now();
    let result = std::hint::black_box(work());
    (result, began.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(1234567), "1,234,567");
        assert_eq!(grouped(123), "123");
        assert_eq!(figure(123.4), "123");
        assert_eq!(figure(0.5), "0.50");
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }
}
