//! Lists of names: texts with one key, or a key, a tab and a value, in each line.

use std::borrow::Cow;

use sapwood::qp::{MAX_KEY, QpMap, QpTxn};
use tracing::field::Empty;

use super::SavedValue;
use crate::cli::{ListArgs, ValueKind};
use crate::errors::{Error, complain, shown};
use crate::keys::KeyForm;
use crate::progress::Progress;
use crate::records::{LIMIT, Record, Records, leave_out, report_others, too_long};
use crate::span;

/// The counts of a reading.
#[derive(Default)]
pub struct Counts {
    /// Bytes of all keys.
    pub key_bytes: u64,
    duplicates: u64,
    empty: u64,
    bad: u64,
    carriage_returns: u64,
}

/// The outcome of storing an entry: the fault of a bad one, or whether the key was there before.
type Stored = Result<Result<bool, sapwood::Error>, String>;

/// A value that a text has.
pub trait ListedValue: SavedValue {
    /// The kind of the values.
    const KIND: ValueKind;

    /// Stores the entry of a record: its key, the part after its tab, and its number.
    fn store(map: &mut QpMap<Self>, key: &[u8], value: Option<&[u8]>, number: u64) -> Stored;

    /// A value by itself.
    type Parsed;

    /// Parses a value.
    fn parsed(text: &[u8]) -> Result<Self::Parsed, String>;

    /// The value that was parsed.
    fn borrow(parsed: &Self::Parsed) -> &Self;

    /// Stores an entry in a transaction; returns whether the key was there before.
    fn put(txn: &mut QpTxn<'_, Self>, key: &[u8], value: &Self) -> Result<bool, sapwood::Error>;
}

impl ListedValue for u64 {
    const KIND: ValueKind = ValueKind::Numbers;

    fn store(map: &mut QpMap<u64>, key: &[u8], value: Option<&[u8]>, number: u64) -> Stored {
        let number = value.map_or(Ok(number), |text| parse_number(text, " after the tab"))?;
        let old = map.insert(key, number).map_err(sapwood::Error::from);
        Ok(old.map(|old| old.is_some()))
    }

    type Parsed = u64;

    fn parsed(text: &[u8]) -> Result<u64, String> {
        match text {
            b"" => Err("the value is missing: add KEY NUMBER".into()),
            text => parse_number(text, ""),
        }
    }

    fn borrow(parsed: &u64) -> &u64 {
        parsed
    }

    fn put(txn: &mut QpTxn<'_, u64>, key: &[u8], value: &u64) -> Result<bool, sapwood::Error> {
        Ok(txn.insert(key, *value)?.is_some())
    }
}

impl ListedValue for [u8] {
    const KIND: ValueKind = ValueKind::Text;

    fn store(map: &mut QpMap<[u8]>, key: &[u8], value: Option<&[u8]>, _: u64) -> Stored {
        let old = map.insert(key, value.unwrap_or_default());
        Ok(old.map(|old| old.is_some()).map_err(sapwood::Error::from))
    }

    type Parsed = Vec<u8>;

    fn parsed(text: &[u8]) -> Result<Vec<u8>, String> {
        Ok(text.into())
    }

    fn borrow(parsed: &Vec<u8>) -> &[u8] {
        parsed
    }

    fn put(txn: &mut QpTxn<'_, [u8]>, key: &[u8], value: &[u8]) -> Result<bool, sapwood::Error> {
        Ok(txn.insert(key, value)?.is_some())
    }
}

/// Reads a list into a map.
pub fn read<V: ?Sized + ListedValue>(args: &ListArgs) -> Result<(QpMap<V>, Counts), Error> {
    let load = span!(INFO, "load", list = %shown(&args.input), entries = Empty);
    let mut records = Records::open(&args.input, args.null)?;
    let mut map = QpMap::new();
    let form = args.form();
    let unit = records.unit();
    let mut counts = Counts::default();
    let mut progress = Progress::new(
        format!("reading {}", args.input.display()),
        records.total,
        true,
    );
    while let Some((number, record)) = records.read()? {
        let parsed = match record {
            Record::TooLong(bytes) if V::KIND == ValueKind::Text => Err(format!(
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
                parse::<V>(text, form, args).and_then(|(key, value)| {
                    let stored = V::store(&mut map, &key, value, number)?;
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
    load.record("entries", map.len());
    Ok((map, counts))
}

/// The key of a record, and the part after the tab.
type Parts<'t> = (Cow<'t, [u8]>, Option<&'t [u8]>);

/// Splits a record into its parts.
fn parse<'t, V: ?Sized + ListedValue>(
    text: &'t [u8],
    form: KeyForm,
    args: &ListArgs,
) -> Result<Parts<'t>, String> {
    let tab = place_of::<V>(b'\t', text);
    let (key, value) = match tab {
        Some(tab) if !args.keys_only => (&text[..tab], Some(&text[tab + 1..])),
        _ => (text, None),
    };
    Ok((parse_key(key, form)?, value))
}

/// The place of the byte between key and value.
fn place_of<V: ?Sized + ListedValue>(byte: u8, text: &[u8]) -> Option<usize> {
    let mut bytes = text.iter();
    match V::KIND {
        ValueKind::Numbers => bytes.rposition(|b| *b == byte),
        ValueKind::Text => bytes.position(|b| *b == byte),
    }
}

/// Splits the entry of a command: at a tab as in a list, or else at a space.
pub fn split_command<V: ?Sized + ListedValue>(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    let place = place_of::<V>(b'\t', text).or_else(|| place_of::<V>(b' ', text));
    match place {
        Some(place) => (&text[..place], Some(&text[place + 1..])),
        None => (text, None),
    }
}

/// Parses a key into its stored bytes.
pub fn parse_key(key: &[u8], form: KeyForm) -> Result<Cow<'_, [u8]>, String> {
    let key = form.parse(key)?;
    if key.len() > MAX_KEY {
        return Err(too_long(key.len() as u64));
    }
    Ok(key)
}

/// Parses a number; `place` says in messages where it is.
fn parse_number(text: &[u8], place: &str) -> Result<u64, String> {
    // A message shows the first 40 bytes only.
    let shown = text[..text.len().min(40)].escape_ascii();
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return Err(format!("\"{shown}\"{place} is not a number"));
    }
    std::str::from_utf8(text)
        .ok()
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(|| format!("{shown} does not fit 64 bits"))
}

/// Prints the warnings about the records of a list.
pub fn warn(args: &ListArgs, counts: &Counts) {
    let input = shown(&args.input);
    let unit = args.units();
    report_others(counts.bad, &input, &format!(" bad {unit}"));
    if counts.carriage_returns > 0 {
        complain(&format!(
            "{input}: warning: {} {unit} end in a carriage return, which is part of the key or \
             makes the number bad; --crlf removes it",
            counts.carriage_returns
        ));
    }
}

/// Prints the warnings about a list, and the counts of what was left out; `place` is where its
/// entries go, and `summary` what is said of them.
pub fn report(args: &ListArgs, counts: &Counts, entries: usize, place: &str, summary: &str) {
    let input = shown(&args.input);
    let unit = args.units();
    warn(args, counts);
    if entries == 0 {
        complain(&format!(
            "{input}: warning: no keys, {place} is an empty map"
        ));
    }
    if args.quiet {
        return;
    }
    let mut summary = format!("{place}: {summary}");
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
