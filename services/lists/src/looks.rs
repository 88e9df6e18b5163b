//! Lists of names that are not plain: the forms that they have, and how a reader notices.

use std::fmt;
use std::net::IpAddr;

/// A form in which others write lists of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListFormat {
    /// An address and names, as in `/etc/hosts`.
    Hosts,
    /// Rules of AdGuard and of other ad blockers: `||name^`.
    AdBlock,
    /// Options of dnsmasq: `address=/name/`.
    Dnsmasq,
    /// Options of Unbound: `local-zone: "name" …`.
    Unbound,
    /// A response policy zone: `name CNAME .`.
    Rpz,
    /// Records of a zone.
    Zone,
    /// A page of the web, such as that of an error.
    Html,
    /// UTF-16.
    Utf16,
    /// Bytes that are no text, such as a compressed file.
    Binary,
}

impl fmt::Display for ListFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ListFormat::Hosts => "a hosts file",
            ListFormat::AdBlock => "a list for AdGuard or another ad blocker",
            ListFormat::Dnsmasq => "a list for dnsmasq",
            ListFormat::Unbound => "a list for Unbound",
            ListFormat::Rpz => "a response policy zone (RPZ)",
            ListFormat::Zone => "a zone file",
            ListFormat::Html => "a page of the web (HTML)",
            ListFormat::Utf16 => "a text in UTF-16, not in UTF-8",
            ListFormat::Binary => "a binary or compressed file",
        })
    }
}

/// How compressed files begin: gzip, bzip2, xz, zstd, and those of zip.
const COMPRESSED: [&[u8]; 5] = [
    b"\x1f\x8b",
    b"BZh",
    b"\xfd7zXZ\0",
    b"\x28\xb5\x2f\xfd",
    b"PK\x03\x04",
];

/// Types of records that lists and zones have.
const TYPES: [&str; 16] = [
    "A", "AAAA", "CAA", "CNAME", "DNAME", "DNSKEY", "DS", "MX", "NS", "NSEC", "PTR", "RRSIG",
    "SOA", "SRV", "TXT", "TLSA",
];

impl ListFormat {
    /// All of them.
    pub const ALL: [ListFormat; 9] = [
        ListFormat::Hosts,
        ListFormat::AdBlock,
        ListFormat::Dnsmasq,
        ListFormat::Unbound,
        ListFormat::Rpz,
        ListFormat::Zone,
        ListFormat::Html,
        ListFormat::Utf16,
        ListFormat::Binary,
    ];

    /// The form that a line has, if it can be told.
    ///
    /// ```
    /// use sapwood_lists::names::ListFormat;
    ///
    /// assert_eq!(ListFormat::of_line(b"0.0.0.0 ads.example"), Some(ListFormat::Hosts));
    /// assert_eq!(ListFormat::of_line(b"ads.example"), None);
    /// ```
    pub fn of_line(line: &[u8]) -> Option<Self> {
        if line.starts_with(b"\xff\xfe") || line.starts_with(b"\xfe\xff") {
            return Some(ListFormat::Utf16);
        }
        if line.contains(&0) || COMPRESSED.iter().any(|start| line.starts_with(start)) {
            return Some(ListFormat::Binary);
        }
        let text = std::str::from_utf8(line).ok()?.trim();
        let words: Vec<&str> = text.split_ascii_whitespace().take(6).collect();
        let first = *words.first()?;
        let starts = |all: &[&str]| all.iter().any(|start| text.starts_with(start));
        if words.len() > 1 && first.parse::<IpAddr>().is_ok() {
            Some(ListFormat::Hosts)
        } else if starts(&["$TTL", "$ORIGIN", "$INCLUDE", "@ ", "@\t"]) {
            Some(ListFormat::Zone)
        } else if starts(&["||", "@@", "!", "[Ad", "|http", "/"]) || has_ad_marks(text) {
            Some(ListFormat::AdBlock)
        } else if starts(&["local-zone:", "local-data:", "server:"]) {
            Some(ListFormat::Unbound)
        } else if first.contains("=/") || first.starts_with("host-record=") {
            Some(ListFormat::Dnsmasq)
        } else if text.starts_with('<') {
            Some(ListFormat::Html)
        } else {
            of_record(&words)
        }
    }
}

/// Whether a text has what rules of ad blockers have behind a name.
fn has_ad_marks(text: &str) -> bool {
    text.ends_with('^')
        || ["##", "#@#", "#?#", "^$"]
            .iter()
            .any(|mark| text.contains(mark))
}

/// The form of a line that has a record: a name, perhaps a time to live and a class, a type, data.
fn of_record(words: &[&str]) -> Option<ListFormat> {
    let is_type = |word: &&str| TYPES.iter().any(|kind| kind.eq_ignore_ascii_case(word));
    let at = words.iter().skip(1).take(3).position(is_type)? + 1;
    let data = *words.get(at + 1)?;
    let is_policy = words[at].eq_ignore_ascii_case("CNAME")
        && (data == "." || data == "*." || data.to_ascii_lowercase().starts_with("rpz-"));
    Some(match is_policy {
        true => ListFormat::Rpz,
        false => ListFormat::Zone,
    })
}

/// Counts lines that have names and lines that were refused, and remembers what the latter look
/// like.
#[derive(Clone, Debug, Default)]
pub struct ListTally {
    taken: u64,
    refused: u64,
    looks: [u64; ListFormat::ALL.len()],
}

impl ListTally {
    /// Counts a line that has a name.
    pub fn take(&mut self) {
        self.taken += 1;
    }

    /// Counts a line that was refused.
    pub fn refuse(&mut self, line: &[u8]) {
        self.refused += 1;
        if let Some(format) = ListFormat::of_line(line) {
            self.looks[format as usize] += 1;
        }
    }

    /// How many lines were refused.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The form that the refused lines have, if most of those that can be told have one.
    pub fn looks_like(&self) -> Option<ListFormat> {
        let mut looks = self.looks;
        // What only a few lines of a file show.
        for (sign, others) in [
            (ListFormat::Rpz, ListFormat::Zone),
            (ListFormat::Utf16, ListFormat::Binary),
            (ListFormat::Html, ListFormat::AdBlock),
        ] {
            if looks[sign as usize] > 0 {
                looks[sign as usize] += std::mem::take(&mut looks[others as usize]);
            }
        }
        let formats = ListFormat::ALL.into_iter();
        let most = formats.max_by_key(|format| looks[*format as usize])?;
        (looks[most as usize] > 0).then_some(most)
    }

    /// Checks that no more lines were refused than taken.
    ///
    /// # Errors
    ///
    /// [`NotAList`]: the text is no plain list, and what was taken of it is not what was meant.
    pub fn check(&self) -> Result<(), NotAList> {
        match self.refused > self.taken {
            false => Ok(()),
            true => Err(NotAList {
                refused: self.refused,
                lines: self.taken + self.refused,
                looks_like: self.looks_like(),
            }),
        }
    }
}

/// Most lines of a text were refused: it is not a plain list of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{refused} of {lines} lines have no name{}; a plain list has one name in each line", looks(*looks_like))]
pub struct NotAList {
    /// How many lines were refused.
    pub refused: u64,
    /// How many lines have anything but a comment.
    pub lines: u64,
    /// What the text looks like.
    pub looks_like: Option<ListFormat>,
}

fn looks(format: Option<ListFormat>) -> String {
    format.map_or(String::new(), |format| format!(", it looks like {format}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_other_forms_are_told() {
        for (line, format) in [
            (&b"0.0.0.0 a.example"[..], ListFormat::Hosts),
            (b"::1\tlocalhost ip6-localhost", ListFormat::Hosts),
            (b"||a.example^", ListFormat::AdBlock),
            (b"||a.example^$important", ListFormat::AdBlock),
            (b"@@||a.example^", ListFormat::AdBlock),
            (b"! Title: a list", ListFormat::AdBlock),
            (b"[Adblock Plus 2.0]", ListFormat::AdBlock),
            (b"a.example##.banner", ListFormat::AdBlock),
            (b"/ads[0-9]/", ListFormat::AdBlock),
            (b"address=/a.example/0.0.0.0", ListFormat::Dnsmasq),
            (b"server=/a.example/", ListFormat::Dnsmasq),
            (b"local=/a.example/", ListFormat::Dnsmasq),
            (
                b"local-zone: \"a.example\" always_nxdomain",
                ListFormat::Unbound,
            ),
            (b"a.example CNAME .", ListFormat::Rpz),
            (b"*.a.example 60 IN cname .", ListFormat::Rpz),
            (b"a.example IN CNAME rpz-passthru.", ListFormat::Rpz),
            (b"$TTL 2h", ListFormat::Zone),
            (b"@ IN SOA ns.example. root.example. (", ListFormat::Zone),
            (b"www 3600 IN A 192.0.2.1", ListFormat::Zone),
            (b"a.example.\tIN\tCNAME\tb.example.", ListFormat::Zone),
            (b"<!DOCTYPE html>", ListFormat::Html),
            (b"\xff\xfea\0.\0", ListFormat::Utf16),
            (b"\0a\0.", ListFormat::Binary),
            (b"\x1f\x8b\x08", ListFormat::Binary),
        ] {
            assert_eq!(
                ListFormat::of_line(line),
                Some(format),
                "{}",
                line.escape_ascii()
            );
        }
        for line in [
            &b""[..],
            b"a.example",
            b"a.example b.example",
            b"a..b",
            b"a b c",
            b"10.0.0.1",
            b"\xff",
        ] {
            assert_eq!(ListFormat::of_line(line), None, "{}", line.escape_ascii());
        }
        for (place, format) in ListFormat::ALL.into_iter().enumerate() {
            assert_eq!(format as usize, place);
        }
    }

    #[test]
    fn a_text_of_which_most_is_refused_is_no_list() {
        let mut tally = ListTally::default();
        assert_eq!(tally.check(), Ok(()));
        tally.refuse(b"0.0.0.0 a.example");
        let error = tally.check().unwrap_err();
        assert_eq!(
            error.to_string(),
            "1 of 1 lines have no name, it looks like a hosts file; a plain list has one name in \
             each line"
        );
        tally.take();
        assert_eq!(tally.check(), Ok(()), "as many are good");
        tally.refuse(b"a b");
        let error = tally.check().unwrap_err();
        assert_eq!((error.refused, error.lines), (2, 3));
        assert_eq!(error.looks_like, Some(ListFormat::Hosts));
        let mut tally = ListTally::default();
        tally.refuse(b"what is this");
        assert_eq!(
            tally.check().unwrap_err().to_string(),
            "1 of 1 lines have no name; a plain list has one name in each line"
        );
    }
}
