//! `sapwood report`: one page about records of benchmarks and saved maps.

mod figures;
mod maps;
mod page;
mod records;
mod shape;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sapwood_records::record::{in_order, sort};
use sapwood_records::{Record, RecordError, compare, is_comparison};
use serde_json::{Value, json};

use crate::cli::report::ReportArgs;
use crate::errors::{Answer, Error, Outcome, shown};
use crate::output::document;
use crate::progress::Progress;
use crate::records::input;
use crate::target::{replace, target};
use shape::Shape;

/// What a page shows.
pub struct Inputs {
    /// The records, newest first.
    pub records: Vec<Record>,
    /// The names of the records that only compare builds.
    pub left_out: Vec<String>,
    /// The shapes of the maps, in the order of the arguments.
    pub shapes: Vec<Shape>,
}

/// Reads the inputs and writes the page, or prints the document.
pub fn run(args: &ReportArgs) -> Outcome {
    let target = match &args.output {
        Some(output) => {
            let given = args.records.iter().chain(&args.maps);
            let given = given.map(|path| target(output, Some(path)));
            let checked: Result<Vec<_>, _> = given.collect();
            checked?.pop().map(|target| (target, output))
        }
        None => None,
    };
    let (files, left_out) = files(&args.records)?;
    if let Some((target, output)) = &target {
        // A record of a folder is an input, too.
        for file in &files {
            if fs::canonicalize(file).is_ok_and(|file| file == *target) {
                return Err(Error::write(output)(io::Error::other("it is the input")));
            }
        }
    }
    let inputs = read(&files, &args.maps, left_out)?;
    if let Some((target, output)) = target {
        let page = page::page(&inputs)?;
        replace(&target, page.as_bytes()).map_err(Error::write(output))?;
    }
    match args.json {
        true => document(&inputs.json()),
        false => Ok(Answer::Yes),
    }
}

/// The files of records, and the names of those that are left out.
fn files(given: &[PathBuf]) -> Result<(Vec<PathBuf>, Vec<String>), Error> {
    let (mut files, mut left_out) = (Vec::new(), Vec::new());
    for path in given {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let mut found = Vec::new();
        for entry in fs::read_dir(path).map_err(Error::read(path))? {
            let file = entry.map_err(Error::read(path))?.path();
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            match name.ends_with(".csv") || name.ends_with(".json") {
                true if is_comparison(&name) => left_out.push(name.into_owned()),
                true => found.push(file),
                false => {}
            }
        }
        if found.is_empty() {
            let what = "no record is in this folder: no file whose name ends in .csv or .json";
            let what = format!("{}: {what}", path.display());
            return Err(Error::Usage(what));
        }
        files.extend(found);
    }
    left_out.sort();
    Ok((in_order(files), left_out))
}

fn read(files: &[PathBuf], maps: &[PathBuf], left_out: Vec<String>) -> Result<Inputs, Error> {
    let total = files.len() + maps.len();
    let mut progress = Progress::new("reading", Some(total as u64), false);
    let mut records = Vec::new();
    for file in files {
        progress.doing(format!("reading {}", file.display()));
        records.push(record(file)?);
        progress.step();
    }
    sort(&mut records);
    let mut shapes = Vec::new();
    for map in in_order(maps) {
        progress.doing(format!("walking {}", map.display()));
        shapes.push(Shape::read(map)?);
        progress.step();
    }
    Ok(Inputs {
        records,
        left_out,
        shapes,
    })
}

/// Reads a record from a file, or from stdin for `-`.
fn record(file: &Path) -> Result<Record, Error> {
    if file != Path::new("-") {
        return Record::read(file).map_err(record_error);
    }
    let (mut text, name) = (String::new(), shown(file));
    let (mut input, _) = input(file)?;
    input.read_to_string(&mut text).map_err(Error::read(file))?;
    Record::parse(&name, &text).map_err(record_error)
}

fn record_error(error: RecordError) -> Error {
    match error {
        RecordError::Read { path, source } => Error::Read { path, source },
        other => Error::Usage(other.to_string()),
    }
}

impl Inputs {
    /// All figures as one document.
    fn json(&self) -> Value {
        let records = self.records.iter().map(record_json);
        let maps = self.shapes.iter().map(Shape::json);
        json!({
            "records": records.collect::<Vec<_>>(),
            "left_out": self.left_out,
            "maps": maps.collect::<Vec<_>>(),
        })
    }
}

fn record_json(record: &Record) -> Value {
    let rows = record.rows.iter().map(|row| {
        json!({
            "suite": row.suite, "case": row.case, "engine": row.engine, "metric": row.metric,
            "value": row.value, "unit": row.unit, "rounds": row.rounds, "min": row.min,
            "max": row.max,
        })
    });
    let ratios = compare::ratios(record).into_iter().map(|ratio| {
        json!({
            "suite": ratio.ours.suite, "case": ratio.ours.case, "metric": ratio.ours.metric,
            "unit": ratio.ours.unit, "ours": ratio.ours.engine, "ours_value": ratio.ours.value,
            "peer": ratio.peer.engine, "peer_value": ratio.peer.value, "ratio": ratio.ratio,
        })
    });
    let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    json!({
        "record": record.name,
        "date": known(&record.date),
        "commit": known(&record.commit),
        "command": known(&record.command),
        "machine": record.machine,
        "notes": record.notes,
        "ratios": ratios.collect::<Vec<_>>(),
        "rows": rows.collect::<Vec<_>>(),
    })
}
