//! Ranges as lines of text: `start end value`.

use std::ops::RangeInclusive;

use sapwood::qp::MAX_KEY;
use sapwood_routes::without_comment;

use crate::numbers::{Base, number};

/// The length of the longest value in bytes, of which a line has room for a comment, too.
pub const MAX_VALUE: usize = MAX_KEY - size_of::<u64>();

/// Parses a line into a range and its value; `None` if the line is empty or a comment. The error is
/// the fault of the line.
pub fn parse_line(line: &[u8]) -> Result<Option<(RangeInclusive<u64>, &str)>, String> {
    let line = std::str::from_utf8(line).map_err(|_| "not UTF-8")?;
    let text = without_comment(line).trim_ascii();
    if text.is_empty() {
        return Ok(None);
    }
    let (start, rest) = word(text);
    let (end, value) = word(rest);
    let start = number(start)?;
    if end.is_empty() {
        return Err("no end of the range after its start".into());
    }
    let end = number(end)?;
    if start > end {
        return Err(format!("the range ends at {end}, before its start {start}"));
    }
    if value.len() > MAX_VALUE {
        return Err(format!(
            "value of {} bytes is too long (the limit is {MAX_VALUE})",
            value.len()
        ));
    }
    if value.contains(|c: char| c.is_control()) {
        return Err("a tab or another control character in the value".into());
    }
    Ok(Some((start..=end, value)))
}

/// Parses the range and the value of the command `add`.
pub fn parse_entry(text: &[u8]) -> Result<(RangeInclusive<u64>, &str), String> {
    parse_line(text)?.ok_or_else(|| "the range is missing: add START END VALUE".into())
}

/// Parses the number of `remove` and `get`, as it is shown.
pub fn parse_index(text: &[u8]) -> Result<Vec<u8>, String> {
    let index = number(&String::from_utf8_lossy(text.trim_ascii()))?;
    Ok(index.to_string().into_bytes())
}

/// The fault of a new range that overlaps one that is there.
pub fn overlap(new: &RangeInclusive<u64>, old: &RangeInclusive<u64>) -> String {
    let base = Base::new(*old.end() > 0xffff_ffff);
    let (new, old) = (base.span(new), base.span(old));
    format!("{new} overlaps {old}; --overwrite allows it")
}

/// The first word of a text, and the rest after it.
fn word(text: &str) -> (&str, &str) {
    match text.split_once(|c: char| c.is_ascii_whitespace()) {
        Some((word, rest)) => (word, rest.trim_ascii_start()),
        None => (text, ""),
    }
}

/// The line that parses as this range with this value, if one does.
pub fn show_line(range: &RangeInclusive<u64>, value: &str, base: Base) -> Option<String> {
    let mut line = format!("{} {}", base.show(*range.start()), base.show(*range.end()));
    if !value.is_empty() {
        line.push(' ');
        line.push_str(value);
    }
    let same = parse_line(line.as_bytes()) == Ok(Some((range.clone(), value)));
    same.then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        for (line, start, end, value) in [
            ("1 2 three", 1, 2, "three"),
            (
                "\t 0x10  0x1F\t the value # and a comment\r",
                16,
                31,
                "the value",
            ),
            ("7 7", 7, 7, ""),
            ("0 18446744073709551615 a#b", 0, u64::MAX, "a#b"),
            ("5 6 7 8", 5, 6, "7 8"),
            ("5 6 \u{e4}\u{a0}", 5, 6, "\u{e4}\u{a0}"),
        ] {
            assert_eq!(
                parse_line(line.as_bytes()),
                Ok(Some((start..=end, value))),
                "{line}"
            );
        }
        for line in ["", " \t\r", "# 1 2 three", "  #1 2"] {
            assert_eq!(parse_line(line.as_bytes()), Ok(None), "{line}");
        }
    }

    #[test]
    fn bad_lines_say_why() {
        for (line, why) in [
            (&b"1"[..], "no end of the range after its start"),
            (b"1 # 2", "no end of the range after its start"),
            (b"one 2", "\"one\" is not a number, decimal or 0x\u{2026}"),
            (b"1 2x", "\"2x\" is not a number, decimal or 0x\u{2026}"),
            (b"1-2 x", "\"1-2\" is not a number, decimal or 0x\u{2026}"),
            (
                b"0 18446744073709551616",
                "18446744073709551616 does not fit 64 bits",
            ),
            (b"3 2 x", "the range ends at 2, before its start 3"),
            (
                b"1 2 a\x01b",
                "a tab or another control character in the value",
            ),
            (b"1 2 \xff", "not UTF-8"),
        ] {
            assert_eq!(parse_line(line), Err(why.into()));
        }
        let long = |bytes: usize| format!("1 2 {}", "x".repeat(bytes));
        assert!(parse_line(long(MAX_VALUE).as_bytes()).is_ok());
        let error = parse_line(long(MAX_VALUE + 1).as_bytes()).unwrap_err();
        assert_eq!(
            error,
            "value of 65528 bytes is too long (the limit is 65527)"
        );
    }

    #[test]
    fn values_that_no_line_can_have_are_not_shown() {
        for value in ["#a", "a #b", " a", "a ", "a\nb", "a\tb", "a\0"] {
            assert_eq!(show_line(&(1..=2), value, Base::Ten), None, "{value:?}");
        }
        let shown = show_line(&(16..=31), "a b", Base::Sixteen);
        assert_eq!(shown.as_deref(), Some("0x10 0x1f a b"));
        let shown = show_line(&(0..=u64::MAX), "", Base::Ten);
        assert_eq!(shown.as_deref(), Some("0 18446744073709551615"));
    }
}
