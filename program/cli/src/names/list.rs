//! Lists of names: texts with one key, or a key, a tab and a value, in each line.

use std::borrow::Cow;

use sapwood::qp::{MAX_KEY, QpMap, QpTxn};
use sapwood_lists::names::{ListTally, line_content, line_parts};
use tracing::field::Empty;

use super::SavedValue;
use crate::cli::{ListArgs, ValueKind};
use crate::errors::{Error, complain, shown};
use crate::keys::KeyForm;
use crate::records::{LIMIT, MARK, Record, each_record, report_others, too_long};
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
    has_mark: bool,
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
    let mut map = QpMap::new();
    let mut counts = Counts::default();
    let mut tally = ListTally::default();
    counts.bad = each_record(&args.input, args.null, args.strict, |number, record| {
        let entry = match record {
            Record::TooLong(bytes) if V::KIND == ValueKind::Text => Err(format!(
                "record of {bytes} bytes is too long (the limit is {LIMIT})"
            )),
            Record::TooLong(bytes) => Err(too_long(bytes)),
            Record::Whole(text) => parse::<V>(text, number, args, &mut counts),
        };
        let stored = match entry {
            Ok(None) => {
                counts.empty += 1;
                return Ok(Ok(()));
            }
            Ok(Some((key, value))) => {
                V::store(&mut map, &key, value, number).map(|stored| (key.len() as u64, stored))
            }
            Err(what) => Err(what),
        };
        match stored {
            Ok((key_bytes, stored)) => {
                tally.take();
                match stored? {
                    true => counts.duplicates += 1,
                    false => counts.key_bytes += key_bytes,
                }
                Ok(Ok(()))
            }
            Err(what) => {
                tally.refuse(match record {
                    Record::Whole(text) => text,
                    Record::TooLong(_) => b"",
                });
                Ok(Err(what))
            }
        }
    })?;
    if args.dns {
        let path = args.input.clone();
        tally.check().map_err(|what| Error::List { path, what })?;
    }
    load.record("entries", map.len());
    Ok((map, counts))
}

/// The key of a record, and the part after the tab.
type Parts<'t> = (Cow<'t, [u8]>, Option<&'t [u8]>);

/// Splits a record into its parts; `None` if it has nothing.
fn parse<'t, V: ?Sized + ListedValue>(
    text: &'t [u8],
    number: u64,
    args: &ListArgs,
    counts: &mut Counts,
) -> Result<Option<Parts<'t>>, String> {
    let text = match text.strip_suffix(b"\r") {
        Some(stripped) if args.crlf || args.dns => stripped,
        Some(_) => {
            counts.carriage_returns += 1;
            text
        }
        None => text,
    };
    if args.dns {
        let (name, value) = match (args.keys_only, V::KIND) {
            (true, _) => (line_content(text), None),
            (_, ValueKind::Text) => line_parts(text),
            (_, ValueKind::Numbers) => {
                let (name, value) = split::<V>(line_content(text));
                // Spaces may be before the tab.
                (line_content(name), value.map(<[u8]>::trim_ascii))
            }
        };
        return match name {
            b"" => Ok(None),
            name => Ok(Some((KeyForm::Dns.parse_listed(name)?, value))),
        };
    }
    counts.has_mark |= number == 1 && text.starts_with(MARK);
    let (key, value) = match args.keys_only {
        true => (text, None),
        false => split::<V>(text),
    };
    match text {
        b"" => Ok(None),
        _ => Ok(Some((parse_key(key, KeyForm::Bytes)?, value))),
    }
}

/// Splits a text at the tab between key and value, if it has one.
fn split<V: ?Sized + ListedValue>(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match place_of::<V>(b'\t', text) {
        Some(tab) => (&text[..tab], Some(&text[tab + 1..])),
        None => (text, None),
    }
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

/// Parses the key of an entry into its stored bytes.
pub fn parse_listed(key: &[u8], form: KeyForm) -> Result<Cow<'_, [u8]>, String> {
    let key = if form == KeyForm::Dns {
        key.trim_ascii()
    } else {
        key
    };
    fits(form.parse_listed(key)?)
}

/// Parses a key that is asked for into its stored bytes.
pub fn parse_key(key: &[u8], form: KeyForm) -> Result<Cow<'_, [u8]>, String> {
    fits(form.parse(key)?)
}

fn fits(key: Cow<'_, [u8]>) -> Result<Cow<'_, [u8]>, String> {
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
    if counts.has_mark {
        complain(&format!(
            "{input}: warning: it begins with a byte order mark, which is part of the first key"
        ));
    }
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
        (
            counts.empty,
            if args.dns {
                "empty or comments"
            } else {
                "empty"
            },
        ),
        (counts.bad, "bad and left out"),
    ] {
        if count > 0 {
            summary += &format!("; {count} {unit} {what}");
        }
    }
    complain(&summary);
}
