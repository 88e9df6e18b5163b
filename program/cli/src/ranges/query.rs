//! The queries: `ranges get`, `list`, `gaps`, `export`.

use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::table::Ranges;
use super::text::show_line;
use crate::cli::ranges::{ExportArgs, Form, GapsArgs, GetArgs, ListArgs};
use crate::errors::{Answer, Error, Outcome, complain};
use crate::live;
use crate::live::ranges::LiveRanges;
use crate::numbers::{Base, count_json, length, number};
use crate::output::Output;
use crate::queries::{self, Batch};
use crate::records::{Record, is_single, line_text};

/// A range with its value as a document. An empty value is null.
pub fn entry_json(range: &RangeInclusive<u64>, text: &str) -> Value {
    let value = Some(text).filter(|text| !text.is_empty());
    json!({ "start": range.start(), "end": range.end(), "value": value })
}

/// A gap as a document.
pub fn gap_json(range: &RangeInclusive<u64>) -> Value {
    json!({ "start": range.start(), "end": range.end(), "size": count_json(length(range)) })
}

/// Prints a range with its value, after the number of the question if it is given.
fn entry(
    out: &mut Output,
    base: Base,
    index: Option<u64>,
    range: &RangeInclusive<u64>,
    text: &str,
) -> Result<(), Error> {
    let index = index.map(|index| base.show(index));
    let [start, end] = [range.start(), range.end()].map(|number| base.show(*number));
    let fields = [index.as_deref(), Some(&start), Some(&end), Some(text)];
    let fields = fields.iter().flatten().filter(|field| !field.is_empty());
    out.fields(&fields.map(|field| field.as_bytes()).collect::<Vec<_>>())
}

/// The map of a command.
enum Source {
    Saved(Ranges),
    Live(Box<LiveRanges>),
}

impl Source {
    /// The range that has a number, and its text; or the gap that has it.
    fn locate(&mut self, index: u64) -> Result<(RangeInclusive<u64>, Option<String>), Error> {
        match self {
            Source::Live(ranges) => ranges.locate(index),
            Source::Saved(ranges) => {
                let (range, number) = ranges.map().read(|view| {
                    let (range, number) = view.locate(index);
                    (range, number.copied())
                });
                Ok((range, number.map(|number| ranges.text(number).to_owned())))
            }
        }
    }
}

/// A whole map: of a file, or a copy of a live one, for which it waits this long.
pub fn whole(path: &Path, wait: Option<Duration>) -> Result<Ranges, Error> {
    match wait {
        Some(wait) => live::ranges::whole(path, wait),
        None => Ok(Ranges::open(path)?.0),
    }
}

/// Prints the ranges that have the given numbers.
pub fn get(args: &GetArgs) -> Outcome {
    let mut ranges = match args.live.wait() {
        Some(wait) => Source::Live(Box::new(LiveRanges::open(&args.map, wait)?)),
        None => Source::Saved(Ranges::open(&args.map)?.0),
    };
    let mut out = Output::lines(args.form.json);
    let base = Base::new(args.form.hex);
    let single = is_single(&args.indices);
    let mut all = true;
    let batch = Batch {
        field: "query",
        null: false,
        strict: args.strict,
    };
    let given = args.indices.iter().map(OsStr::new);
    queries::each(given, &batch, &mut out, |out, record, place| {
        let index = match record {
            Record::TooLong(bytes) => Err(format!("{bytes} bytes are not a number")),
            Record::Whole(text) => match line_text(text) {
                None if place.is_some() => return Ok(Ok(())),
                text => number(&text.unwrap_or_default()),
            },
        };
        let index = match index {
            Ok(index) => index,
            Err(what) => return Ok(Err(what)),
        };
        let (range, found) = ranges.locate(index)?;
        all &= found.is_some();
        if args.form.json {
            let entry = found.as_ref().map(|text| entry_json(&range, text));
            let gap = found.is_none().then(|| gap_json(&range));
            out.document(&json!({ "query": index, "found": entry, "gap": gap }))?;
        } else if let Some(text) = &found {
            entry(out, base, (!single).then_some(index), &range, text)?;
        } else {
            let (index, gap) = (base.show(index), base.span(&range));
            complain(&format!("no range has {index}: it is in the gap {gap}"));
        }
        Ok(Ok(()))
    })?;
    Ok(Answer::from_bool(all))
}

/// Prints the ranges of a window.
pub fn list(args: &ListArgs) -> Outcome {
    let window = args.window.range()?;
    let ranges = whole(&args.map, args.live.wait())?;
    let mut out = Output::lines(args.form.json);
    let base = Base::new(args.form.hex);
    let mut write = |(range, number): (RangeInclusive<u64>, &u32)| {
        let text = ranges.text(*number);
        match args.form.json {
            true => out.document(&entry_json(&range, text)),
            false => entry(&mut out, base, None, &range, text),
        }
    };
    let limit = args.listing.limit.unwrap_or(usize::MAX);
    ranges.map().read(|view| {
        let mut entries = view.range(window);
        match args.listing.reverse {
            true => entries.rev().take(limit).try_for_each(&mut write),
            false => entries.by_ref().take(limit).try_for_each(&mut write),
        }
    })?;
    out.flush()?;
    Ok(Answer::Yes)
}

/// Prints the gaps of a window.
pub fn gaps(args: &GapsArgs) -> Outcome {
    let window = args.window.range()?;
    let ranges = whole(&args.map, args.live.wait())?;
    let mut out = Output::lines(args.form.json);
    let least = u128::from(args.min.unwrap_or(0));
    ranges.map().read(|view| {
        view.gaps(window)
            .filter(|gap| length(gap) >= least)
            .try_for_each(|gap| gap_line(&mut out, &args.form, &gap))
    })?;
    out.flush()?;
    Ok(Answer::Yes)
}

/// Prints a gap.
fn gap_line(out: &mut Output, form: &Form, gap: &RangeInclusive<u64>) -> Result<(), Error> {
    if form.json {
        return out.document(&gap_json(gap));
    }
    let base = Base::new(form.hex);
    let [start, end] = [gap.start(), gap.end()].map(|number| base.show(*number));
    let size = length(gap);
    let size = if form.hex {
        format!("{size:#x}")
    } else {
        size.to_string()
    };
    out.fields(&[start.as_bytes(), end.as_bytes(), size.as_bytes()])
}

/// Prints the text from which the same map is built.
pub fn export(args: &ExportArgs) -> Outcome {
    let ranges = whole(&args.map, args.live.wait())?;
    let mut out = Output::lines(false);
    let base = Base::new(args.hex);
    ranges.each(0..=u64::MAX, |range, text| {
        let line = show_line(&range, text, base).ok_or_else(|| Error::NotAMap {
            path: args.map.clone(),
            what: format!(
                "{}: a text cannot have the value \"{}\"",
                base.span(&range),
                text.escape_debug()
            ),
        })?;
        out.fields(&[line.as_bytes()])
    })?;
    out.flush()?;
    Ok(Answer::Yes)
}
