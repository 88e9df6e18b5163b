//! Plain lists of domain names: one name in each line, and comments.
//!
//! The functions take lines without their ends, and read no files: programs differ in where their
//! lines come from, and in what stands beside a name.
//!
//! ```
//! use sapwood_lists::names::{ListTally, line_content, listed_name};
//!
//! let text = "\u{feff}# blocked\nads.example  # why\r\n*.b\u{fc}cher.example\n||x.example^\n";
//! let (mut names, mut tally) = (Vec::new(), ListTally::default());
//! for line in text.lines().map(|line| line_content(line.as_bytes())) {
//!     match listed_name(line) {
//!         _ if line.is_empty() => {}
//!         Ok(name) => {
//!             tally.take();
//!             names.push(name.text.into_owned());
//!         }
//!         Err(_) => tally.refuse(line),
//!     }
//! }
//! assert_eq!(names, ["ads.example", "*.xn--bcher-kva.example"]);
//! assert!(tally.check().is_ok(), "most lines have names");
//! ```

use std::borrow::Cow;
use std::fmt::Write;
use std::net::IpAddr;

use idna::AsciiDenyList;
use sapwood::key::{DnsNameError, dns_name, dns_name_to_text};

pub use crate::looks::{ListFormat, ListTally, NotAList};

/// How many bytes of a text a message shows.
const SHOWN: usize = 80;

/// The content of a line: what is before its comment, without white space around it. It is empty
/// if the line has nothing else.
///
/// A comment begins with `#` or `;` at the beginning of the line or behind white space. A byte
/// order mark at the beginning goes, too. A backslash takes its meaning from the character behind
/// it, as in zone files.
///
/// ```
/// use sapwood_lists::names::line_content;
///
/// assert_eq!(line_content(b"\xef\xbb\xbf a.example ; note\r"), b"a.example");
/// assert_eq!(line_content(b"a\\#b.example\\  # a space at the end"), b"a\\#b.example\\ ");
/// assert_eq!(line_content(b"  # nothing"), b"");
/// ```
pub fn line_content(line: &[u8]) -> &[u8] {
    let line = line_start(line);
    &line[..parts(line).0]
}

/// The key and the value of a line: what is before the first tab, read as [`line_content`], and all
/// that is behind the tab. A comment before the tab hides it.
///
/// ```
/// use sapwood_lists::names::line_parts;
///
/// assert_eq!(line_parts(b" a.example\tred ; #1"), (&b"a.example"[..], Some(&b"red ; #1"[..])));
/// assert_eq!(line_parts(b"a.example # no\tvalue"), (&b"a.example"[..], None));
/// ```
pub fn line_parts(line: &[u8]) -> (&[u8], Option<&[u8]>) {
    let line = line_start(line);
    match line.iter().position(|byte| *byte == b'\t') {
        Some(tab) if parts(line).1 >= tab => (line_content(&line[..tab]), Some(&line[tab + 1..])),
        _ => (line_content(line), None),
    }
}

/// A line without byte order marks and white space at its beginning. Texts that were put together
/// have marks in the middle, too.
fn line_start(mut line: &[u8]) -> &[u8] {
    loop {
        line = line.trim_ascii_start();
        match line.strip_prefix(b"\xef\xbb\xbf") {
            Some(rest) => line = rest,
            None => return line,
        }
    }
}

/// Where the content of a line ends, and where its comment begins.
fn parts(line: &[u8]) -> (usize, usize) {
    let (mut at, mut end, mut is_behind_space) = (0, 0, true);
    while let Some(byte) = line.get(at) {
        match byte {
            b'#' | b';' if is_behind_space => break,
            byte if byte.is_ascii_whitespace() => is_behind_space = true,
            byte => {
                is_behind_space = false;
                at += usize::from(*byte == b'\\');
                end = line.len().min(at + 1);
            }
        }
        at += 1;
    }
    (end, at)
}

/// A domain name, as a text without letters beyond ASCII and as a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainName<'t> {
    /// The name as it was given, with A-labels (`xn--…`) in place of labels in other scripts.
    pub text: Cow<'t, str>,
    /// The key that [`dns_name`] makes of the text.
    pub key: Vec<u8>,
}

/// Reads a name that a list has.
///
/// Its characters are those of host names: letters, digits, hyphens, underscores and dots. A first
/// label `*` is a wildcard: it stands for all names below the rest. Labels in other scripts become
/// A-labels (UTS 46, nontransitional). Any other character is a part of a name only behind a
/// backslash, or as `\DDD`: without one, the line has another form than a list of names. So has one
/// with an address.
///
/// ```
/// use sapwood_lists::names::listed_name;
///
/// assert_eq!(listed_name("_dmarc.b\u{fc}cher.example".as_bytes())?.text, "_dmarc.xn--bcher-kva.example");
/// assert_eq!(listed_name(br"0\/25.2.0.192.in-addr.arpa")?.key, b"arpa\0in-addr\x00192\x000\x002\x000/25\0");
/// for wrong in ["||x.example^", "0.0.0.0 x.example", "a*.example", "192.0.2.1", "a..example"] {
///     assert!(listed_name(wrong.as_bytes()).is_err());
/// }
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
///
/// The fault of the text, for people.
pub fn listed_name(text: &[u8]) -> Result<DomainName<'_>, String> {
    let given = utf8(text)?;
    let wrong = |what: String| format!("\"{}\" is not a domain name: {what}", shown(text));
    // The most frequent case.
    if text.iter().all(|byte| is_of_hosts(*byte)) && !is_address(given) {
        return named(given);
    }
    if given.contains(|c: char| c.is_ascii_whitespace()) && host_fault(given).is_some() {
        return Err(format!("\"{}\" is more than one name", shown(text)));
    }
    if is_address(given) {
        return Err(wrong("it is an address".into()));
    }
    if let Some(what) = host_fault(given) {
        return Err(wrong(what));
    }
    let name = named(given)?;
    if matches!(name.text, Cow::Owned(_)) && host_fault(&name.text).is_some() {
        // Some letters of other scripts stand for punctuation of ASCII.
        return Err(wrong("it has a character that no host name has".into()));
    }
    Ok(name)
}

/// Reads a name that somebody asks for. It may have any characters but white space, because
/// questions may: only labels in other scripts change, as in [`listed_name`], so that they are
/// found.
///
/// ```
/// use sapwood_lists::names::{asked_name, listed_name};
///
/// let (asked, listed) = ("B\u{dc}CHER.example.".as_bytes(), "b\u{fc}cher.example".as_bytes());
/// assert_eq!(asked_name(asked)?.key, listed_name(listed)?.key);
/// assert!(asked_name(b"a/b.example").is_ok());
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
///
/// The fault of the text, for people.
pub fn asked_name(text: &[u8]) -> Result<DomainName<'_>, String> {
    let mut before = 0;
    for byte in text {
        if byte.is_ascii_whitespace() && before != b'\\' {
            return Err(format!("\"{}\" is more than one name", shown(text)));
        }
        before = *byte;
    }
    named(utf8(text)?)
}

/// The text of a key, which [`listed_name`] reads as this key.
///
/// ```
/// use sapwood_lists::names::{asked_name, listed_name, shown_name};
///
/// let key = asked_name(b"A/b.example")?.key;
/// assert_eq!(shown_name(&key).as_deref(), Ok(r"a\/b.example"));
/// assert_eq!(listed_name(br"a\/b.example")?.key, key);
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
///
/// [`DnsNameError::NotAKey`] if the key is not one of [`dns_name`].
pub fn shown_name(key: &[u8]) -> Result<String, DnsNameError> {
    let text = dns_name_to_text(key)?;
    if host_fault(&text).is_none() && !is_address(&text) {
        return Ok(text);
    }
    // An address has a backslash before its first digit that does not begin an escape: \049.
    let mut all = String::with_capacity(text.len() + 8);
    let is_address = is_address(&text);
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' => {
                all.push('\\');
                all.extend(bytes.next().map(|(_, byte)| char::from(byte)));
            }
            byte if at == 0 && is_address => {
                // Writing to a string cannot fail.
                let _ = write!(all, "\\{byte:03}");
            }
            b'*' if is_wildcard(&text) && at == 0 => all.push('*'),
            byte if is_of_hosts(byte) => all.push(char::from(byte)),
            byte => all.extend(['\\', char::from(byte)]),
        }
    }
    Ok(all)
}

fn utf8(text: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(text)
        .map_err(|_| format!("\"{}\" is not UTF-8; \\DDD stands for a byte", shown(text)))
}

/// The name of a text, after its labels in other scripts became A-labels.
fn named(given: &str) -> Result<DomainName<'_>, String> {
    let wrong = |what: String| {
        let shown = shown(given.as_bytes());
        format!("\"{shown}\" is not a domain name: {what}")
    };
    let text = match given.is_ascii() {
        true => Cow::Borrowed(given),
        false if given.contains('\\') => {
            let what =
                "it has both a backslash and letters beyond ASCII; write A-labels (xn--\u{2026})";
            return Err(wrong(what.into()));
        }
        false => {
            let ascii = idna::domain_to_ascii_cow(given.as_bytes(), AsciiDenyList::EMPTY);
            let ascii = ascii.map_err(|_| wrong("IDNA allows no such label".into()))?;
            // Some characters stand for nothing; a name of them alone would be the root.
            let is_dot = |c: char| ".\u{3002}\u{ff0e}\u{ff61}".contains(c);
            if ascii.is_empty() || ascii.ends_with('.') && !given.ends_with(is_dot) {
                return Err(wrong("its last label is empty to IDNA".into()));
            }
            Cow::Owned(ascii.into_owned())
        }
    };
    let key = dns_name(&*text).map_err(|error| wrong(error.to_string()))?;
    Ok(DomainName { text, key })
}

/// The first character that no host name has, without a backslash before it. Letters beyond ASCII
/// are left to IDNA.
fn host_fault(text: &str) -> Option<String> {
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b'*' if at == 0 && is_wildcard(text) => {}
            b'*' => {
                let what = "a * is a wildcard only as the first label (\\* if it is meant)";
                return Some(what.into());
            }
            byte if is_of_hosts(byte) || !byte.is_ascii() => {}
            byte if byte.is_ascii_graphic() => {
                let byte = char::from(byte);
                return Some(format!(
                    "no host name has the {byte} at byte {at} (\\{byte} if it is meant)"
                ));
            }
            byte => {
                let shown = byte.escape_ascii();
                return Some(format!(
                    "no host name has the {shown} at byte {at} (\\{byte:03} if it is meant)"
                ));
            }
        }
    }
    None
}

/// Whether the first label is `*` alone.
fn is_wildcard(text: &str) -> bool {
    text == "*" || text.starts_with("*.")
}

/// Whether a text is an address. Most names are told apart by their last character.
pub(crate) fn is_address(text: &str) -> bool {
    let ends_so = text.ends_with(|last: char| last.is_ascii_digit()) || text.contains(':');
    ends_so && text.parse::<IpAddr>().is_ok()
}

fn is_of_hosts(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

/// The beginning of a text, for messages.
pub(crate) fn shown(text: &[u8]) -> String {
    match std::str::from_utf8(text) {
        Ok(text) if text.chars().count() <= SHOWN => text.escape_debug().to_string(),
        Ok(text) => {
            let start: String = text.chars().take(SHOWN).collect();
            format!("{}\u{2026}", start.escape_debug())
        }
        Err(_) => text[..text.len().min(SHOWN)].escape_ascii().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: &str) -> Result<String, String> {
        listed_name(line_content(line.as_bytes())).map(|name| name.text.into_owned())
    }

    #[test]
    fn comments_marks_and_spaces_are_told_from_names() {
        for (line, content) in [
            ("", ""),
            (" \t\r", ""),
            ("#a.example", ""),
            ("; a.example", ""),
            ("\u{feff}", ""),
            ("\u{feff}# list", ""),
            ("\u{feff}a.example", "a.example"),
            ("  a.example\t\r", "a.example"),
            ("a.example # note # more", "a.example"),
            ("a.example\t;note", "a.example"),
            ("a.example#note", "a.example#note"),
            ("a.example;note", "a.example;note"),
            ("a.example\t7\t# note", "a.example\t7"),
            ("\t# note", ""),
            (r"a\032#b.example", r"a\032#b.example"),
            (r"a\ #b.example", r"a\ #b.example"),
            ("a.example\\", "a.example\\"),
            (r"a\\ # b", r"a\\"),
        ] {
            let found = line_content(line.as_bytes());
            assert_eq!(found, content.as_bytes(), "{line:?}");
        }
    }

    #[test]
    fn values_are_all_that_is_behind_the_first_tab() {
        for (line, key, value) in [
            ("a\tb\tc", "a", Some("b\tc")),
            ("\u{feff}\ta \t b # c", "a", Some(" b # c")),
            ("a\t", "a", Some("")),
            ("a\t# b", "a", Some("# b")),
            ("a #\tb", "a", None),
            ("# a\tb", "", None),
            ("a", "a", None),
            ("", "", None),
        ] {
            let value = value.map(str::as_bytes);
            assert_eq!(
                line_parts(line.as_bytes()),
                (key.as_bytes(), value),
                "{line:?}"
            );
        }
    }

    #[test]
    fn names_of_hosts_services_and_wildcards_are_taken() {
        for name in [
            "a.example",
            "A.Example.",
            "_dmarc.example",
            "a_b-c.example",
            "-a-.example",
            "xn--bcher-kva.example",
            "localhost",
            "1.0.0.127.in-addr.arpa",
            "*.a.example",
            "*",
            ".",
            r"a\.b.example",
            r"\042.b.example",
            r"0\/25.2.0.192.in-addr.arpa",
            r"a\|\|b\^.example",
            r"\000\255.example",
        ] {
            assert_eq!(text(name).as_deref(), Ok(name));
            assert_eq!(
                listed_name(name.as_bytes()).unwrap().key,
                dns_name(name).unwrap()
            );
        }
    }

    #[test]
    fn labels_in_other_scripts_become_a_labels() {
        for (given, ascii) in [
            ("\u{e4}b.example", "xn--b-zfa.example"),
            ("\u{c4}B.EXAMPLE", "xn--b-zfa.example"),
            // A letter and a mark that stand for one letter.
            ("a\u{308}b.example", "xn--b-zfa.example"),
            ("stra\u{df}e.example", "xn--strae-oqa.example"),
            ("*.\u{e4}b.example", "*.xn--b-zfa.example"),
            ("_x.\u{e4}b.example.", "_x.xn--b-zfa.example."),
            (
                "\u{4f8b}\u{3048}\u{3002}\u{30c6}\u{30b9}\u{30c8}",
                "xn--r8jz45g.xn--zckzah",
            ),
            // Full-width letters and digits are those of ASCII.
            ("\u{ff41}1.example", "a1.example"),
        ] {
            assert_eq!(text(given).as_deref(), Ok(ascii));
            let asked = asked_name(given.as_bytes()).unwrap();
            assert_eq!(asked.key, dns_name(ascii).unwrap());
        }
        for (wrong, why) in [
            ("\u{ff5c}x.example", "a character that no host name has"),
            ("\u{e4}|b.example", "no host name has the | at byte 2"),
            (
                "\u{e4}\\.b.example",
                "both a backslash and letters beyond ASCII",
            ),
            ("a\u{fffd}b.example", "IDNA allows no such label"),
            ("\u{ad}", "its last label is empty to IDNA"),
            ("*.\u{ad}", "its last label is empty to IDNA"),
            ("\u{ad}.example", "empty label at byte 0"),
        ] {
            let error = text(wrong).unwrap_err();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn what_no_list_of_names_means_is_refused() {
        for (line, why) in [
            (
                "||x.example^",
                "no host name has the | at byte 0 (\\| if it is meant)",
            ),
            ("@@||x.example^", "no host name has the @ at byte 0"),
            ("x.example##.banner", "no host name has the # at byte 9"),
            (
                "address=/x.example/0.0.0.0",
                "no host name has the = at byte 7",
            ),
            ("local-zone:", "no host name has the : at byte 10"),
            ("http://x.example/", "no host name has the : at byte 4"),
            ("x.example,y.example", "no host name has the , at byte 9"),
            ("\"x.example\"", "is not a domain name"),
            ("0.0.0.0 x.example", "is more than one name"),
            ("x.example CNAME .", "is more than one name"),
            ("x.example y.example", "is more than one name"),
            ("192.0.2.1", "it is an address"),
            ("2001:db8::1", "it is an address"),
            ("a.*.example", "a * is a wildcard only as the first label"),
            ("a*.example", "a * is a wildcard only as the first label"),
            ("**.example", "a * is a wildcard only as the first label"),
            ("*x.example", "a * is a wildcard only as the first label"),
            ("a..example", "empty label at byte 2"),
            (".example", "empty label at byte 0"),
            ("a\\", "bad escape at byte 1"),
            (
                "a\u{1}b",
                "no host name has the \\x01 at byte 1 (\\001 if it is meant)",
            ),
            ("a\0b", "no host name has the \\x00 at byte 1"),
        ] {
            let error = text(line).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        }
        let error = listed_name(b"caf\xe9.example").unwrap_err();
        assert_eq!(
            error,
            r#""caf\xe9.example" is not UTF-8; \DDD stands for a byte"#
        );
        assert!(
            asked_name(b"a.example b.example")
                .unwrap_err()
                .contains("more than one name")
        );
        assert!(asked_name(br"a\ b.example").is_ok());
        let long = "x".repeat(70_000);
        let error = text(&long).unwrap_err();
        assert!(
            error.len() < 300 && error.contains("label of more than 63 bytes"),
            "{error}"
        );
    }

    #[test]
    fn names_that_are_shown_read_as_the_same_names() {
        for byte in 0..=u8::MAX {
            for wire in [
                &[2, b'a', byte, 1, b'x', 0][..],
                &[1, byte, 1, b'x', 0],
                &[1, byte, 0],
                &[1, b'a', 1, byte, 0],
            ] {
                let key = sapwood::key::dns_name_from_wire(wire).unwrap();
                let shown = shown_name(&key).unwrap();
                let read = listed_name(line_content(shown.as_bytes()));
                assert_eq!(read.unwrap().key, key, "{shown}");
            }
        }
        for name in ["192.0.2.1", r"a\.b", "*.x", "."] {
            let key = dns_name(name).unwrap();
            let shown = shown_name(&key).unwrap();
            assert_eq!(listed_name(shown.as_bytes()).unwrap().key, key, "{shown}");
        }
        assert_eq!(shown_name(b"abc"), Err(DnsNameError::NotAKey));
    }

    #[test]
    fn any_bytes_are_a_name_or_a_fault() {
        let mut random = fastrand::Rng::with_seed(4);
        let parts: [&[u8]; 16] = [
            b"a",
            b".",
            b"*",
            b"\\",
            b" ",
            b"\t",
            b"#",
            b";",
            b"xn--",
            b"\xc3\xa4",
            b"\xef\xbb\xbf",
            b"\xff",
            b"\0",
            b"|",
            b"1",
            b"_",
        ];
        let mut taken = 0;
        for _ in 0..20_000 {
            let line: Vec<&[u8]> = (0..random.usize(..9))
                .map(|_| parts[random.usize(..16)])
                .collect();
            let line = line.concat();
            let content = line_content(&line);
            assert_eq!(line_content(content), content, "{}", line.escape_ascii());
            let (key, value) = line_parts(&line);
            assert!(value.is_some() || key == content);
            let Ok(name) = listed_name(content) else {
                continue;
            };
            taken += 1;
            assert_eq!(asked_name(content).as_ref(), Ok(&name));
            assert!(name.text.is_ascii());
            let shown = shown_name(&name.key).unwrap();
            assert_eq!(listed_name(shown.as_bytes()).unwrap().key, name.key);
        }
        assert!(taken > 1000, "{taken}");
    }
}
