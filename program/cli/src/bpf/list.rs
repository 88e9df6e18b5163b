//! Reads lists of names to be blocked.

use std::net::IpAddr;
use std::path::Path;

use sapwood_lists::names::{ListTally, line_content, listed_name};
use sapwood_xdp::NameRule;

use crate::errors::{Error, shown};
use crate::records::{Record, each_record, report_others, too_long};

/// Reads a list. A line that has no names is reported and left out; under `strict` it is an error.
pub fn read(path: &Path, strict: bool) -> Result<Vec<(String, NameRule)>, Error> {
    let mut all = Vec::new();
    let mut tally = ListTally::default();
    let bad = each_record(path, false, strict, |_, record| {
        let line = match record {
            Record::Whole(line) => line_content(line),
            Record::TooLong(_) => b"",
        };
        let names = match record {
            Record::TooLong(bytes) => Err(too_long(bytes)),
            Record::Whole(_) => parse(line),
        };
        Ok(match names {
            Ok(names) => {
                (0..names.len().min(1)).for_each(|_| tally.take());
                all.extend(names);
                Ok(())
            }
            Err(what) => {
                tally.refuse(line);
                Err(what)
            }
        })
    })?;
    report_others(bad, &shown(path), "");
    let path = path.into();
    tally.check().map_err(|what| Error::List { path, what })?;
    Ok(all)
}

/// Parses the names of a line, with their rules.
fn parse(line: &[u8]) -> Result<Vec<(String, NameRule)>, String> {
    let words = line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let is_address =
        |word: &[u8]| std::str::from_utf8(word).is_ok_and(|word| word.parse::<IpAddr>().is_ok());
    match words.clone().next() {
        None => Ok(Vec::new()),
        Some(first) if is_address(first) && words.clone().nth(1).is_some() => {
            words.skip(1).map(rule).collect()
        }
        // A line with several words is refused as a whole.
        Some(_) => rule(line).map(|rule| vec![rule]),
    }
}

fn rule(word: &[u8]) -> Result<(String, NameRule), String> {
    let (name, rule) = match word.strip_prefix(b"!") {
        Some(name) => (name, NameRule::Allow),
        None => (word, NameRule::Block),
    };
    Ok((listed_name(name)?.text.into_owned(), rule))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let block = |name: &str| (name.to_owned(), NameRule::Block);
        let line = |line: &[u8]| parse(line_content(line));
        assert_eq!(line(b"  # nothing"), Ok(vec![]));
        assert_eq!(line(b"ads.example # why"), Ok(vec![block("ads.example")]));
        assert_eq!(line(b"ads.example\r"), Ok(vec![block("ads.example")]));
        let good = ("good.example".to_owned(), NameRule::Allow);
        assert_eq!(parse(b"!good.example"), Ok(vec![good]));
        assert_eq!(
            parse(b"0.0.0.0\ta.example b.example"),
            Ok(vec![block("a.example"), block("b.example")])
        );
        assert_eq!(parse(b"::1 a.example"), Ok(vec![block("a.example")]));
        assert_eq!(
            parse("b\u{fc}cher.example".as_bytes()),
            Ok(vec![block("xn--bcher-kva.example")])
        );
        assert_eq!(parse(b"*.a.example"), Ok(vec![block("*.a.example")]));
        assert_eq!(
            parse(b"0.0.0.0 *.a.example b.example"),
            Ok(vec![block("*.a.example"), block("b.example")])
        );
        let good = ("*.xn--bcher-kva.example".to_owned(), NameRule::Allow);
        assert_eq!(parse("!*.b\u{fc}cher.example".as_bytes()), Ok(vec![good]));
        for (line, why) in [
            (&b"10.0.0.1"[..], "it is an address"),
            (b"||a.example^", "no host name has the | at byte 0"),
            (b"a*.example", "a * is a wildcard only as the first label"),
            (b"a.*.example", "a * is a wildcard only as the first label"),
            (
                b"0.0.0.0 *x.example",
                "a * is a wildcard only as the first label",
            ),
            (
                "\u{2603}\u{fe0f}\u{200d}.example".as_bytes(),
                "IDNA allows no such label",
            ),
            (b"!||a.example^", "no host name has the |"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        assert!(
            parse(b"a.example b.example")
                .unwrap_err()
                .contains("more than one name")
        );
        assert!(
            parse(b"a..example")
                .unwrap_err()
                .contains("empty label at byte 2")
        );
        assert!(parse(b"\xff").unwrap_err().contains("is not UTF-8"));
    }
}
