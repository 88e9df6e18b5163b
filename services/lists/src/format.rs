//! The formats of lists, and how they are recognised.

use std::fmt;
use std::str::FromStr;

use crate::looks::ListFormat;
use crate::names::{line_content, listed_name};

/// A format of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// A name in each line; `*.name` for the names below it, `.name` for both.
    Plain,
    /// An address and names in each line, as in `/etc/hosts`.
    Hosts,
    /// Options of dnsmasq: `address=`, `server=` and `local=`.
    Dnsmasq,
    /// Options of Unbound: `local-zone` and `local-data`.
    Unbound,
    /// A response policy zone.
    Rpz,
    /// Rules of AdGuard and of other ad blockers.
    AdBlock,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 6] = [
        Format::Plain,
        Format::Hosts,
        Format::Dnsmasq,
        Format::Unbound,
        Format::Rpz,
        Format::AdBlock,
    ];

    /// The word for it, as [`FromStr`] reads it.
    ///
    /// O(1).
    ///
    /// ```
    /// use sapwood_lists::Format;
    ///
    /// assert_eq!("adblock".parse::<Format>()?.word(), "adblock");
    /// # Ok::<(), String>(())
    /// ```
    pub fn word(self) -> &'static str {
        match self {
            Format::Plain => "plain",
            Format::Hosts => "hosts",
            Format::Dnsmasq => "dnsmasq",
            Format::Unbound => "unbound",
            Format::Rpz => "rpz",
            Format::AdBlock => "adblock",
        }
    }

    /// The format of a text, from its beginning. Whole lines count only, unless `is_all` says that
    /// the text has no more. A text without any sign is a plain list.
    ///
    /// O(length of the text), of which some hundred lines are read at most.
    ///
    /// ```
    /// use sapwood_lists::Format;
    ///
    /// assert_eq!(Format::of_text(b"# ads\n0.0.0.0 ads.example\n", true), Ok(Format::Hosts));
    /// assert!(Format::of_text(b"<html>\n<p>404\n", true).is_err());
    /// ```
    ///
    /// # Errors
    /// What the text looks like, if it is no list.
    pub fn of_text(text: &[u8], is_all: bool) -> Result<Self, ListFormat> {
        Self::recognise(text, is_all, false)
    }

    /// As [`of_text`](Self::of_text). With `marks`, a name may have `!` in front of it.
    pub(crate) fn recognise(text: &[u8], is_all: bool, marks: bool) -> Result<Self, ListFormat> {
        let mut lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
        if !is_all && lines.len() > 1 {
            lines.pop();
        }
        let mut signs = [0_usize; Format::ALL.len()];
        let mut others = [0_usize; ListFormat::ALL.len()];
        let mut seen = 0;
        for line in lines {
            // A mark of UTF-16 is no comment.
            let content = line_content(line);
            let line = line.trim_ascii();
            if content.is_empty() || seen == LINES {
                continue;
            }
            seen += 1;
            let mut sign = |format: Format| signs[format as usize] += 1;
            let marked = content.strip_prefix(b"!").filter(|_| marks);
            if marked.is_some_and(|name| listed_name(name).is_ok()) {
                sign(Format::Plain);
                continue;
            }
            match ListFormat::of_line(content) {
                Some(ListFormat::Hosts) => sign(Format::Hosts),
                Some(ListFormat::AdBlock) => sign(Format::AdBlock),
                Some(ListFormat::Dnsmasq) => sign(Format::Dnsmasq),
                Some(ListFormat::Unbound) => sign(Format::Unbound),
                Some(ListFormat::Rpz | ListFormat::Zone) => sign(Format::Rpz),
                Some(other) => others[other as usize] += 1,
                None if is_plain(line) => sign(Format::Plain),
                None => {}
            }
        }
        let most = Format::ALL
            .into_iter()
            .rev()
            .max_by_key(|format| signs[*format as usize]);
        let format = most.unwrap_or(Format::Plain);
        let other = ListFormat::ALL
            .into_iter()
            .rev()
            .max_by_key(|other| others[*other as usize]);
        match other.filter(|other| others[*other as usize] > 0) {
            // A list has no line of these; one is a damaged line, and more are another file.
            Some(other) if others[other as usize] > signs[format as usize] => Err(other),
            _ if signs[format as usize] == 0 => Ok(Format::Plain),
            _ => Ok(format),
        }
    }
}

/// How many lines with content are looked at.
const LINES: usize = 400;

/// Whether a line is one of a plain list.
fn is_plain(line: &[u8]) -> bool {
    let name = line_content(line);
    let name = name
        .strip_prefix(b".")
        .filter(|rest| !rest.is_empty())
        .unwrap_or(name);
    listed_name(name).is_ok()
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Plain => "a plain list of names",
            Format::Hosts => "a hosts file",
            Format::Dnsmasq => "a list for dnsmasq",
            Format::Unbound => "a list for Unbound",
            Format::Rpz => "a response policy zone",
            Format::AdBlock => "a list for AdGuard or another ad blocker",
        })
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = Format::ALL.into_iter().find(|format| format.word() == word);
        found.ok_or_else(|| {
            let words = Format::ALL.map(Format::word).join(", ");
            format!("\"{word}\" is no format; the formats are {words}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_recognised_from_their_first_lines() {
        for (text, format) in [
            ("", Format::Plain),
            ("# only comments\n", Format::Plain),
            ("a.example\n.b.example\n*.c.example\n", Format::Plain),
            (
                "# hosts\n127.0.0.1 localhost\n::1 localhost\n0.0.0.0 a.example\n",
                Format::Hosts,
            ),
            ("! Title: x\n||a.example^\nb.example\n", Format::AdBlock),
            ("[Adblock Plus]\n@@||a.example^\n", Format::AdBlock),
            ("address=/a.example/\nserver=/b.example/\n", Format::Dnsmasq),
            (
                "server:\n  local-zone: \"a.example\" refuse\n",
                Format::Unbound,
            ),
            (
                "$TTL 60\n@ SOA a. b. 1 2 3 4 5\n@ NS a.\na.example CNAME .\n",
                Format::Rpz,
            ),
        ] {
            assert_eq!(Format::of_text(text.as_bytes(), true), Ok(format), "{text}");
        }
        for (bytes, looks) in [
            (&b"<!DOCTYPE html>\n<html>\n<p>x\n"[..], ListFormat::Html),
            (b"\x1f\x8b\x08\0\0abc", ListFormat::Binary),
            (b"\xff\xfea\0.\0b\0\n", ListFormat::Utf16),
        ] {
            assert_eq!(Format::of_text(bytes, true), Err(looks));
        }
        // The last line of a beginning may be cut.
        assert_eq!(
            Format::of_text(b"a.example\n0.0.0.0 b", false),
            Ok(Format::Plain)
        );
    }

    #[test]
    fn words_are_read_as_their_formats() {
        for format in Format::ALL {
            assert_eq!(format.word().parse(), Ok(format));
            assert_eq!(Format::ALL[format as usize], format);
        }
        let error = "zone".parse::<Format>().unwrap_err();
        assert_eq!(
            error,
            "\"zone\" is no format; the formats are plain, hosts, dnsmasq, unbound, rpz, adblock"
        );
    }
}
