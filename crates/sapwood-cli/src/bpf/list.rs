//! Reads lists of names to be blocked.

use std::net::IpAddr;
use std::path::Path;

use sapwood::key::dns_name;
use sapwood_bpf::NameRule;

use crate::errors::{Error, shown};
use crate::progress::Progress;
use crate::records::{Record, Records, leave_out, report_others, too_long};

/// Reads a list. A line that has no names is reported and left out; under `strict` it is an error.
pub fn read(path: &Path, strict: bool) -> Result<Vec<(String, NameRule)>, Error> {
    let mut records = Records::open(path, false)?;
    let unit = records.unit();
    let mut progress = Progress::new(format!("reading {}", path.display()), records.total, true);
    let mut all = Vec::new();
    let mut bad = 0;
    while let Some((number, record)) = records.read()? {
        let names = match record {
            Record::TooLong(bytes) => Err(too_long(bytes)),
            Record::Whole(line) => parse(line),
        };
        match names {
            Ok(names) => all.extend(names),
            Err(what) if strict => {
                return Err(Error::Record {
                    path: path.into(),
                    unit,
                    number,
                    what,
                });
            }
            Err(what) => {
                let what = format!("{unit} {number}: {what}");
                leave_out(&mut bad, &progress, &shown(path), what);
            }
        }
        if number % 4096 == 0 {
            progress.at(records.bytes());
        }
    }
    drop(progress);
    report_others(bad, &shown(path), "");
    Ok(all)
}

/// Parses the names of a line, with their rules.
fn parse(line: &[u8]) -> Result<Vec<(String, NameRule)>, String> {
    let end = line.iter().position(|&byte| byte == b'#');
    let line = &line[..end.unwrap_or(line.len())];
    let text = std::str::from_utf8(line)
        .map_err(|_| format!("\"{}\" is not UTF-8", line.escape_ascii()))?;
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let hosts = words.len() > 1 && words[0].parse::<IpAddr>().is_ok();
    if hosts {
        words.remove(0);
    } else if words.len() > 1 {
        return Err(format!(
            "\"{}\" is more than one name",
            text.trim().escape_debug()
        ));
    }
    words.into_iter().map(rule).collect()
}

fn rule(word: &str) -> Result<(String, NameRule), String> {
    let (name, rule) = match word.strip_prefix('!') {
        Some(name) => (name, NameRule::Allow),
        None => (word, NameRule::Block),
    };
    dns_name(name)
        .map_err(|error| format!("\"{}\" is not a domain name: {error}", name.escape_debug()))?;
    Ok((name.to_owned(), rule))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let block = |name: &str| (name.to_owned(), NameRule::Block);
        assert_eq!(parse(b"  # nothing"), Ok(vec![]));
        assert_eq!(parse(b"ads.example # why"), Ok(vec![block("ads.example")]));
        assert_eq!(parse(b"ads.example\r"), Ok(vec![block("ads.example")]));
        let good = ("good.example".to_owned(), NameRule::Allow);
        assert_eq!(parse(b"!good.example"), Ok(vec![good]));
        assert_eq!(
            parse(b"0.0.0.0\ta.example b.example"),
            Ok(vec![block("a.example"), block("b.example")])
        );
        assert_eq!(parse(b"::1 a.example"), Ok(vec![block("a.example")]));
        // An address alone is read as a name.
        assert_eq!(parse(b"10.0.0.1"), Ok(vec![block("10.0.0.1")]));
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
