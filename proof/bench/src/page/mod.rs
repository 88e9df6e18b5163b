//! The command `report`: one page about records of runs.

mod figures;
mod records;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use sapwood_cli::errors::{Answer, Error, Outcome, shown};
use sapwood_cli::output::document;
use sapwood_cli::records::input;
use sapwood_cli::report::page::Page;
use sapwood_cli::target::{replace, target};
use serde_json::{Value, json};

use crate::records::draw::THEME;
use crate::records::record::{in_order, sort};
use crate::records::{Record, RecordError, compare, is_comparison};

/// The arguments of `report`.
#[derive(Args)]
pub struct ReportArgs {
    /// Records: files, "-" for stdin, or directories whose CSV and JSON files are read. Files of a
    /// directory that only compare two builds, with "before", "-build-" or "house-" in their names,
    /// are left out.
    #[arg(long, value_name = "DIR|FILE", num_args = 1.., required = true)]
    records: Vec<PathBuf>,
    /// The page, a file that is created or replaced.
    #[arg(short, long, value_name = "PAGE", required_unless_present = "json")]
    output: Option<PathBuf>,
    /// Print one JSON document with all numbers.
    #[arg(long)]
    json: bool,
}

/// Reads the records and writes the page, or prints the document.
pub fn run(args: &ReportArgs) -> Outcome {
    let (files, left_out) = files(&args.records)?;
    let target = match &args.output {
        Some(output) => {
            // A record of a directory is an input, too.
            let checked: Result<Vec<_>, _> = files
                .iter()
                .map(|file| target(output, Some(file)))
                .collect();
            checked?.pop().map(|target| (target, output))
        }
        None => None,
    };
    let mut records = files
        .iter()
        .map(|file| record(file))
        .collect::<Result<Vec<_>, _>>()?;
    sort(&mut records);
    if let Some((target, output)) = target {
        let page = page(&records, &left_out)?;
        replace(&target, page.as_bytes()).map_err(Error::write(output))?;
    }
    match args.json {
        true => document(&json!({
            "records": records.iter().map(record_json).collect::<Vec<_>>(),
            "left_out": left_out,
        })),
        false => Ok(Answer::Yes),
    }
}

fn page(records: &[Record], left_out: &[String]) -> Result<String, Error> {
    let page = Page {
        about: match records.len() {
            1 => "One record of benchmarks.".to_owned(),
            count => format!("{count} records of benchmarks."),
        },
        overview: Some(records::overview(records, left_out)?),
        chapters: records::chapters(records)?,
        style: style(),
    };
    Ok(page.html())
}

/// The style of records, and the colours of pictures on dark pages.
fn style() -> String {
    let mut style = include_str!("page.css").to_owned();
    style += "@media (prefers-color-scheme: dark) {\n";
    for (light, dark) in THEME {
        // A picture has its colours as attributes, which any rule overrides.
        let _ = writeln!(
            style,
            "svg [fill=\"{light}\"] {{ fill: {dark} }} svg [stroke=\"{light}\"] {{ stroke: {dark} }}"
        );
    }
    style + "}\n"
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
            let what = "no record is in this directory: no file whose name ends in .csv or .json";
            let what = format!("{}: {what}", path.display());
            return Err(Error::Usage(what));
        }
        files.extend(found);
    }
    left_out.sort();
    Ok((in_order(files), left_out))
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

#[cfg(test)]
mod tests;
