//! Ranges in the forms in which they are found: spans, address spaces, memory maps of a machine,
//! tables of blocks, CSV.

use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

use sapwood_routes::without_comment;

use super::text::{MAX_VALUE, parse_line};
use crate::cli::ranges::{ListForm, TextArgs};
use crate::numbers::number;

/// A range and its value.
type Entry = (RangeInclusive<u64>, String);

/// The two numbers of a line, and its value.
type Fields = ((u64, u64), String);

/// Reads the lines of a list.
pub struct Lines {
    form: ListForm,
    half_open: bool,
    /// The places of start, end and value in a line of CSV, once its header was read.
    columns: Option<[usize; 3]>,
}

impl Lines {
    /// Reads as the arguments say.
    pub fn new(args: &TextArgs) -> Self {
        Lines {
            form: args.form,
            half_open: args.half_open || args.form == ListForm::Maps,
            columns: None,
        }
    }

    /// Whether a line replaces what it overlaps: what is inside of another range comes after it.
    pub fn overwrites(&self) -> bool {
        self.form == ListForm::Iomem
    }

    /// The range of a line and its value; `None` if the line has none. The error is the fault of
    /// the line.
    pub fn parse(&mut self, line: &[u8]) -> Result<Option<Entry>, String> {
        if self.form == ListForm::List && !self.half_open {
            let entry = parse_line(line)?;
            return Ok(entry.map(|(range, value)| (range, value.to_owned())));
        }
        let text = std::str::from_utf8(line).map_err(|_| "not UTF-8")?;
        let text = text.trim_ascii();
        let (bounds, value) = match self.form {
            ListForm::Csv => match self.fields(text)? {
                Some(found) => found,
                None => return Ok(None),
            },
            ListForm::Maps if text.is_empty() => return Ok(None),
            ListForm::Maps => maps(text)?,
            _ => {
                let text = without_comment(text).trim_ascii();
                if text.is_empty() {
                    return Ok(None);
                }
                match self.form {
                    ListForm::Iomem => iomem(text)?,
                    ListForm::Blocks => blocks(text)?,
                    ListForm::Spans => spans(text)?,
                    _ => {
                        let (start, rest) = word(text);
                        let (end, value) = word(rest);
                        ((number(start)?, number(end)?), value.to_owned())
                    }
                }
            }
        };
        let (start, mut end) = bounds;
        if self.half_open {
            if end <= start {
                return Err(format!(
                    "the range ends at {end}, not behind its start {start}"
                ));
            }
            end -= 1;
        }
        if start > end {
            return Err(format!("the range ends at {end}, before its start {start}"));
        }
        if value.len() > MAX_VALUE {
            let bytes = value.len();
            let what = format!("value of {bytes} bytes is too long (the limit is {MAX_VALUE})");
            return Err(what);
        }
        if value.contains(|c: char| c.is_control()) {
            return Err("a tab or another control character in the value".into());
        }
        Ok(Some((start..=end, value)))
    }

    /// A line of CSV. The first one may name the columns.
    fn fields(&mut self, text: &str) -> Result<Option<Fields>, String> {
        if text.is_empty() {
            return Ok(None);
        }
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .trim(csv::Trim::All)
            .from_reader(text.as_bytes());
        let record = match reader.records().next() {
            Some(Ok(record)) => record,
            Some(Err(error)) => return Err(format!("no line of CSV: {error}")),
            None => return Ok(None),
        };
        let columns = match self.columns {
            Some(columns) => columns,
            None => {
                let column = |names: &[&str]| {
                    let mut fields = record.iter();
                    fields.position(|field| names.contains(&field.to_ascii_lowercase().as_str()))
                };
                let named = [
                    column(&["start", "first", "from", "begin", "low"]),
                    column(&["end", "last", "to", "high"]),
                ];
                let value = column(&["value", "name", "owner", "country", "description"]);
                if let [Some(start), Some(end)] = named {
                    self.columns = Some([start, end, value.unwrap_or(usize::MAX)]);
                    return Ok(None);
                }
                *self.columns.insert([0, 1, 2])
            }
        };
        let [start, end, value] = columns.map(|column| record.get(column));
        let (Some(start), Some(end)) = (start, end) else {
            return Err("a line of CSV without a start and an end".into());
        };
        let value = value.unwrap_or("").to_owned();
        Ok(Some(((address(start)?, address(end)?), value)))
    }
}

/// The first word of a text, and the rest after it.
fn word(text: &str) -> (&str, &str) {
    match text.split_once(|c: char| c.is_ascii_whitespace()) {
        Some((word, rest)) => (word, rest.trim_ascii_start()),
        None => (text, ""),
    }
}

/// A hexadecimal number without 0x.
fn hex(text: &str) -> Result<u64, String> {
    number(&format!("0x{text}"))
}

/// A number, or an IPv4 address.
fn address(text: &str) -> Result<u64, String> {
    match text.parse::<Ipv4Addr>() {
        Ok(address) => Ok(u32::from(address).into()),
        Err(_) => number(text),
    }
}

/// A line of `/proc/PID/maps`; the value is what is allowed and what is mapped.
fn maps(text: &str) -> Result<Fields, String> {
    let (span, rest) = word(text);
    let (start, end) = span.split_once('-').ok_or("no span START-END")?;
    let (allowed, rest) = word(rest);
    // Offset, device and inode.
    let rest = (0..3).fold(rest, |rest, _| word(rest).1);
    let value = format!("{allowed} {rest}").trim_ascii().to_owned();
    Ok(((hex(start)?, hex(end)?), value))
}

/// A line of `/proc/iomem` or `/proc/ioports`.
fn iomem(text: &str) -> Result<Fields, String> {
    let (span, name) = text.split_once(" : ").ok_or("no \" : \" behind the span")?;
    let (start, end) = span.split_once('-').ok_or("no span START-END")?;
    Ok(((hex(start)?, hex(end)?), name.trim_ascii().to_owned()))
}

/// A line of a table of blocks, as Unicode's: `0000..007F; Basic Latin`. One number is a range,
/// too.
fn blocks(text: &str) -> Result<Fields, String> {
    let (span, name) = text.split_once(';').ok_or("no \";\" behind the span")?;
    let span = span.trim_ascii();
    let (start, end) = span.split_once("..").unwrap_or((span, span));
    Ok(((hex(start)?, hex(end)?), name.trim_ascii().to_owned()))
}

/// `START-END VALUE`, `START..END VALUE`, `PREFIX/LENGTH VALUE` or `N VALUE`, of numbers or IPv4
/// addresses.
fn spans(text: &str) -> Result<Fields, String> {
    let (span, value) = word(text);
    let bounds = if let Some((start, length)) = span.split_once('/') {
        let start = address(start)?;
        let length = number(length)?;
        let host = u64::from(u32::MAX).checked_shr(length.try_into().unwrap_or(u32::MAX));
        let host = host.filter(|_| length <= 32 && start <= u32::MAX.into());
        let host = host.ok_or_else(|| format!("\"{span}\" is not an IPv4 prefix"))?;
        if start & host != 0 {
            return Err(format!("the prefix \"{span}\" has bits behind its length"));
        }
        (start, start | host)
    } else {
        let pair = span.split_once("..").or_else(|| span.split_once('-'));
        let (start, end) = pair.unwrap_or((span, span));
        (address(start)?, address(end)?)
    };
    Ok((bounds, value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(form: ListForm, half_open: bool) -> Lines {
        Lines {
            form,
            half_open: half_open || form == ListForm::Maps,
            columns: None,
        }
    }

    fn parsed(form: ListForm, half_open: bool, line: &str) -> Option<(u64, u64, String)> {
        let entry = lines(form, half_open).parse(line.as_bytes()).unwrap()?;
        Some((*entry.0.start(), *entry.0.end(), entry.1))
    }

    #[test]
    fn each_form_is_read() {
        for (form, half_open, line, start, end, value) in [
            (ListForm::List, false, "1 2 a b", 1, 2, "a b"),
            (ListForm::List, true, "1 2 a", 1, 1, "a"),
            (ListForm::Spans, false, "0x10-0x1f a b # c", 16, 31, "a b"),
            (ListForm::Spans, false, "16..31", 16, 31, ""),
            (ListForm::Spans, true, "16..32 x", 16, 31, "x"),
            (ListForm::Spans, false, "443 https", 443, 443, "https"),
            (
                ListForm::Spans,
                false,
                "10.0.0.0/8 lan",
                10 << 24,
                (11 << 24) - 1,
                "lan",
            ),
            (
                ListForm::Spans,
                false,
                "0.0.0.0/0 all",
                0,
                u32::MAX.into(),
                "all",
            ),
            (
                ListForm::Spans,
                false,
                "1.2.3.4-1.2.3.9 a",
                0x0102_0304,
                0x0102_0309,
                "a",
            ),
            (
                ListForm::Maps,
                false,
                "55d0-55e0 r-xp 00002000 fd:01 1234                 /usr/bin/a b",
                0x55d0,
                0x55df,
                "r-xp /usr/bin/a b",
            ),
            (
                ListForm::Maps,
                false,
                "7f00-7f01 rw-p 00000000 00:00 0 ",
                0x7f00,
                0x7f00,
                "rw-p",
            ),
            (
                ListForm::Iomem,
                false,
                "  00001000-0009ffff : System RAM",
                0x1000,
                0x9ffff,
                "System RAM",
            ),
            (
                ListForm::Blocks,
                false,
                "0000..007F; Basic Latin",
                0,
                127,
                "Basic Latin",
            ),
            (
                ListForm::Blocks,
                false,
                "00AD ; Cf # SOFT HYPHEN",
                0xad,
                0xad,
                "Cf",
            ),
            (ListForm::Csv, false, "5, 9 ,\"a, b\"", 5, 9, "a, b"),
            (
                ListForm::Csv,
                false,
                "\"1.0.0.0\",\"1.0.0.255\",AU",
                1 << 24,
                (1 << 24) + 255,
                "AU",
            ),
        ] {
            let wanted = Some((start, end, value.to_owned()));
            assert_eq!(parsed(form, half_open, line), wanted, "{form:?}: {line}");
        }
        assert_eq!(parsed(ListForm::Spans, false, " # nothing"), None);
        assert_eq!(parsed(ListForm::Csv, false, ""), None);
    }

    #[test]
    fn a_header_of_csv_says_where_the_columns_are() {
        let mut lines = lines(ListForm::Csv, true);
        assert_eq!(lines.parse(b"name,Country,END,start"), Ok(None));
        let entry = lines.parse(b"x,AU,0x20,16").unwrap();
        assert_eq!(entry, Some((16..=31, "x".to_owned())));
        let fault = lines.parse(b"x,AU").unwrap_err();
        assert_eq!(fault, "a line of CSV without a start and an end");
    }

    #[test]
    fn bad_lines_say_why() {
        for (form, line, why) in [
            (
                ListForm::Spans,
                "10.0.0.1/8 a",
                "the prefix \"10.0.0.1/8\" has bits behind its length",
            ),
            (
                ListForm::Spans,
                "10.0.0.0/33 a",
                "\"10.0.0.0/33\" is not an IPv4 prefix",
            ),
            (
                ListForm::Spans,
                "9-3 a",
                "the range ends at 3, before its start 9",
            ),
            (
                ListForm::Spans,
                "web",
                "\"web\" is not a number, decimal or 0x\u{2026}",
            ),
            (ListForm::Maps, "55d0 r-xp", "no span START-END"),
            (
                ListForm::Maps,
                "55d0-55d0 r-xp",
                "the range ends at 21968, not behind its start 21968",
            ),
            (ListForm::Iomem, "0-1 RAM", "no \" : \" behind the span"),
            (ListForm::Blocks, "0..7F", "no \";\" behind the span"),
            (
                ListForm::Csv,
                "1,zwei,a",
                "\"zwei\" is not a number, decimal or 0x\u{2026}",
            ),
        ] {
            let fault = lines(form, false).parse(line.as_bytes()).unwrap_err();
            assert_eq!(fault, why, "{line}");
        }
    }
}
