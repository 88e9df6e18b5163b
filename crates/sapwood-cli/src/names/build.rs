//! `names build`: builds a map from a text.

use std::borrow::Cow;
use std::fs;

use sapwood::qp::{MAX_KEY, QpMap, SaveCause};

use crate::cli::{BuildArgs, ValueKind};
use crate::errors::{Answer, Error, Outcome, complain, shown};
use crate::keys::KeyForm;
use crate::progress::Progress;
use crate::records::{LIMIT, Record, Records, leave_out, report_others, too_long};
use crate::signals::HeldSignals;
use crate::target::target;

/// The counts of the summary.
#[derive(Default)]
struct Counts {
    key_bytes: u64,
    duplicates: u64,
    empty: u64,
    bad: u64,
    carriage_returns: u64,
}

/// Builds the map and writes it.
pub fn run(args: &BuildArgs) -> Outcome {
    let target = target(&args.output, Some(&args.input))?;
    let mut records = Records::open(&args.input, args.null)?;
    let (saved, entries, counts) = match args.values {
        ValueKind::Numbers => {
            let mut map = QpMap::new();
            let counts = read(args, &mut records, |key, value, number| {
                let number = value.map_or(Ok(number), parse_number)?;
                let old = map.insert(key, number).map_err(sapwood::Error::from);
                Ok(old.map(|old| old.is_some()))
            })?;
            let _held = HeldSignals::begin();
            (map.save(&target), map.len(), counts)
        }
        ValueKind::Text => {
            let mut map = QpMap::<[u8]>::new();
            let counts = read(args, &mut records, |key, value, _| {
                let old = map.insert(key, value.unwrap_or_default());
                Ok(old.map(|old| old.is_some()).map_err(sapwood::Error::from))
            })?;
            let _held = HeldSignals::begin();
            (map.save(&target), map.len(), counts)
        }
    };
    saved.map_err(|error| match error.cause {
        SaveCause::Io(source) => Error::write(&args.output)(source),
        cause => Error::write(&args.output)(std::io::Error::other(cause)),
    })?;
    report(args, entries, &counts);
    Ok(Answer::Yes)
}

/// The outcome of storing an entry: the fault of a bad one, or whether the key was there before.
type Stored = Result<Result<bool, sapwood::Error>, String>;

/// Reads all records, and calls `store` with the key, the part after the tab, and the record's
/// number.
fn read(
    args: &BuildArgs,
    records: &mut Records,
    mut store: impl FnMut(&[u8], Option<&[u8]>, u64) -> Stored,
) -> Result<Counts, Error> {
    let form = if args.dns {
        KeyForm::Dns
    } else {
        KeyForm::Bytes
    };
    let unit = records.unit();
    let mut counts = Counts::default();
    let mut progress = Progress::new(
        format!("reading {}", args.input.display()),
        records.total,
        true,
    );
    while let Some((number, record)) = records.read()? {
        let parsed = match record {
            Record::TooLong(bytes) if args.values == ValueKind::Text => Err(format!(
                "record of {bytes} bytes is too long (the limit is {LIMIT})"
            )),
            Record::TooLong(bytes) => Err(too_long(bytes)),
            Record::Whole(text) => {
                let text = match text.strip_suffix(b"\r") {
                    Some(stripped) if args.crlf => stripped,
                    Some(_) => {
                        counts.carriage_returns += 1;
                        text
                    }
                    None => text,
                };
                if text.is_empty() {
                    counts.empty += 1;
                    continue;
                }
                parse(text, form, args).and_then(|(key, value)| {
                    let stored = store(&key, value, number)?;
                    Ok(stored.map(|old| if old { None } else { Some(key.len() as u64) }))
                })
            }
        };
        match parsed {
            Ok(stored) => match stored? {
                None => counts.duplicates += 1,
                Some(key_bytes) => counts.key_bytes += key_bytes,
            },
            Err(what) if args.strict => {
                return Err(Error::Record {
                    path: args.input.clone(),
                    unit,
                    number,
                    what,
                });
            }
            Err(what) => {
                let what = format!("{unit} {number}: {what}");
                leave_out(&mut counts.bad, &progress, &shown(&args.input), what);
            }
        }
        if number % 4096 == 0 {
            progress.at(records.bytes());
        }
    }
    Ok(counts)
}

/// The key of a record, and the part after the tab.
type Parts<'t> = (Cow<'t, [u8]>, Option<&'t [u8]>);

/// Splits a record into its parts.
fn parse<'t>(text: &'t [u8], form: KeyForm, args: &BuildArgs) -> Result<Parts<'t>, String> {
    let mut bytes = text.iter();
    let tab = match args.values {
        ValueKind::Numbers => bytes.rposition(|b| *b == b'\t'),
        ValueKind::Text => bytes.position(|b| *b == b'\t'),
    };
    let (key, value) = match tab {
        Some(tab) if !args.keys_only => (&text[..tab], Some(&text[tab + 1..])),
        _ => (text, None),
    };
    let key = form.parse(key)?;
    if key.len() > MAX_KEY {
        return Err(too_long(key.len() as u64));
    }
    Ok((key, value))
}

fn parse_number(text: &[u8]) -> Result<u64, String> {
    // A message shows the first 40 bytes only.
    let shown = text[..text.len().min(40)].escape_ascii();
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return Err(format!("\"{shown}\" after the tab is not a number"));
    }
    std::str::from_utf8(text)
        .ok()
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(|| format!("{shown} does not fit 64 bits"))
}

/// Prints the summary and the warnings.
fn report(args: &BuildArgs, entries: usize, counts: &Counts) {
    let input = shown(&args.input);
    let unit = if args.null { "records" } else { "lines" };
    report_others(counts.bad, &input, &format!(" bad {unit}"));
    if counts.carriage_returns > 0 {
        complain(&format!(
            "{input}: warning: {} {unit} end in a carriage return, which is part of the key or \
             makes the number bad; --crlf removes it",
            counts.carriage_returns
        ));
    }
    if entries == 0 {
        complain(&format!(
            "{input}: warning: no keys, {} is an empty map",
            args.output.display()
        ));
    }
    if args.quiet {
        return;
    }
    let mut summary = format!(
        "{}: {} keys of {} bytes",
        args.output.display(),
        entries,
        counts.key_bytes
    );
    if let Ok(metadata) = fs::metadata(&args.output) {
        summary += &format!(" in a file of {} bytes", metadata.len());
    }
    for (count, what) in [
        (counts.duplicates, "came again, the last one won"),
        (counts.empty, "empty"),
        (counts.bad, "bad and left out"),
    ] {
        if count > 0 {
            summary += &format!("; {count} {unit} {what}");
        }
    }
    complain(&summary);
}
