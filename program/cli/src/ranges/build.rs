//! `ranges build`: builds a map from a text.

use std::fs;
use std::ops::RangeInclusive;

use sapwood::maple::Error as MapError;
use tracing::field::Empty;

use super::forms::Lines;
use super::table::Ranges;
use crate::cli::ranges::{BuildArgs, TextArgs};
use crate::errors::{Answer, Error, Outcome, complain, shown};
use crate::numbers::Base;
use crate::records::{MARK, Record, each_record, report_others};
use crate::span;
use crate::target::target;

/// The counts of the summary.
#[derive(Default)]
struct Counts {
    bad: u64,
    overlapping: u64,
}

/// The ranges, and for each number of a text the line that it came from.
#[derive(Default)]
struct Builder {
    ranges: Ranges,
    lines: Vec<u64>,
}

/// Builds the map and writes it.
pub fn run(args: &BuildArgs) -> Outcome {
    let target = target(&args.output, Some(&args.list.input))?;
    let (ranges, counts) = read(&args.list)?;
    ranges.save(&target, &args.output)?;
    report(args, &ranges, &counts);
    Ok(Answer::Yes)
}

/// The ranges of a list.
pub fn list(args: &TextArgs) -> Result<Ranges, Error> {
    Ok(read(args)?.0)
}

/// Reads all lines.
fn read(args: &TextArgs) -> Result<(Ranges, Counts), Error> {
    let load = span!(INFO, "load", list = %shown(&args.input), entries = Empty);
    let mut builder = Builder::default();
    let mut lines = Lines::new(args);
    let overwrite = args.overwrite || lines.overwrites();
    let mut counts = Counts::default();
    counts.bad = each_record(&args.input, false, !args.skip_bad, |number, record| {
        Ok(match record {
            Record::TooLong(bytes) => Err(format!("a line of {bytes} bytes is too long")),
            Record::Whole(line) => {
                let line = line
                    .strip_prefix(MARK)
                    .filter(|_| number == 1)
                    .unwrap_or(line);
                match lines.parse(line) {
                    Ok(None) => Ok(()),
                    Ok(Some((range, text))) => {
                        builder.take(overwrite, &mut counts, number, range, &text)?
                    }
                    Err(what) => Err(what),
                }
            }
        })
    })?;
    load.record("entries", builder.ranges.map().len());
    report_others(counts.bad, &shown(&args.input), "");
    Ok((builder.ranges, counts))
}

impl Builder {
    /// Stores the range of a line. The inner result has the fault of a bad line.
    fn take(
        &mut self,
        overwrite: bool,
        counts: &mut Counts,
        line: u64,
        range: RangeInclusive<u64>,
        text: &str,
    ) -> Result<Result<(), String>, Error> {
        let number = self.ranges.push(text)?;
        self.lines.push(line);
        let map = self.ranges.map();
        let (start, end) = match map
            .insert_new(range.clone(), number)
            .map_err(MapError::from)
        {
            Ok(()) => return Ok(Ok(())),
            Err(MapError::Occupied { start, end }) => (start, end),
            Err(error) => return Err(error.into()),
        };
        if overwrite {
            counts.overlapping += 1;
            map.store(range, number).map_err(MapError::from)?;
            return Ok(Ok(()));
        }
        let earlier = map
            .get(start)
            .map_or(0, |number| self.lines[number as usize]);
        let base = Base::new(end > 0xffff_ffff);
        Ok(Err(format!(
            "{} overlaps {} of line {earlier}",
            base.span(&range),
            base.span(&(start..=end)),
        )))
    }
}

/// Prints the summary and the warnings.
fn report(args: &BuildArgs, ranges: &Ranges, counts: &Counts) {
    let output = args.output.display();
    let count = ranges.map().len();
    if count == 0 {
        let input = shown(&args.list.input);
        complain(&format!(
            "{input}: warning: no ranges, {output} is an empty map"
        ));
    }
    if args.list.quiet {
        return;
    }
    let mut summary = format!("{output}: {count} ranges");
    if let Ok(metadata) = fs::metadata(&args.output) {
        summary += &format!(" in a file of {} bytes", metadata.len());
    }
    for (count, what) in [
        (counts.overlapping, "lines replaced parts of earlier ones"),
        (counts.bad, "bad and left out"),
    ] {
        if count > 0 {
            summary += &format!("; {count} {what}");
        }
    }
    complain(&summary);
}
