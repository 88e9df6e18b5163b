//! Lists of domain names: every line is a name, nothing, or refused; the tally counts them. What is
//! taken is a key that its own text gives back, and host names are those of a naive reader.
#![no_main]

use std::net::IpAddr;

use libfuzzer_sys::fuzz_target;
use sapwood::key::{DNS_KEY_MAX, dns_name};
use sapwood_lists::names::{
    ListFormat, ListTally, asked_name, line_content, line_parts, listed_name, shown_name,
};

/// What the inputs that begin with an odd byte are made of: pieces of lists.
const PIECES: [&str; 32] = [
    "a",
    "b",
    "z9",
    "-",
    "_",
    ".",
    ".",
    ".",
    "*",
    "*.",
    "\\",
    "\\.",
    "\\046",
    "\\ ",
    "#",
    ";",
    " ",
    "\t",
    "\r",
    "\n",
    "\n",
    "\u{feff}",
    "\u{fc}",
    "\u{5d0}",
    "\u{3002}",
    "\u{ad}",
    "xn--",
    "192.0.2.1",
    "::1",
    "||",
    "^",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
];

/// The bytes of a line that are not escaped, each with its place; none behind a last backslash.
fn bare(line: &[u8]) -> Vec<(usize, u8)> {
    let (mut all, mut at) = (Vec::new(), 0);
    while at < line.len() {
        match line[at] {
            b'\\' => at += 1,
            byte => all.push((at, byte)),
        }
        at += 1;
    }
    all
}

/// The content of a line, by another way than the library's: from the places of bytes.
fn content(mut line: &[u8]) -> &[u8] {
    while let Some(rest) = line.strip_prefix(b"\xef\xbb\xbf").or_else(|| {
        line.split_first()
            .filter(|(byte, _)| byte.is_ascii_whitespace())
            .map(|(_, rest)| rest)
    }) {
        line = rest;
    }
    let bare = bare(line);
    let is_space = |at: usize| {
        bare.iter()
            .any(|(place, byte)| *place == at && byte.is_ascii_whitespace())
    };
    let begins = |(at, byte): &&(usize, u8)| b"#;".contains(byte) && (*at == 0 || is_space(at - 1));
    let mut end = bare.iter().find(begins).map_or(line.len(), |(at, _)| *at);
    while end > 0 && is_space(end - 1) {
        end -= 1;
    }
    &line[..end]
}

/// The key of a text of ASCII without backslashes that a plain list may have.
fn host(text: &str) -> Option<Vec<u8>> {
    let (wild, rest) = match text {
        "*" => return Some(b"*\0".to_vec()),
        _ => text
            .strip_prefix("*.")
            .map_or((false, text), |rest| (true, rest)),
    };
    let is_of_hosts = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !rest.bytes().all(is_of_hosts) || text.parse::<IpAddr>().is_ok() {
        return None;
    }
    let mut labels: Vec<&str> = match text {
        "" | "." => Vec::new(),
        _ => rest.strip_suffix('.').unwrap_or(rest).split('.').collect(),
    };
    if wild && rest.is_empty() {
        labels.clear();
    }
    if labels
        .iter()
        .any(|label| label.is_empty() || label.len() > 63)
    {
        return None;
    }
    if wild {
        labels.insert(0, "*");
    }
    let labels = labels.iter().rev();
    let key: Vec<u8> = labels
        .flat_map(|label| [label.to_ascii_lowercase().as_bytes(), b"\0"].concat())
        .collect();
    // On the wire, a name ends with the root, and has at most 255 bytes.
    (key.len() < 255).then_some(key)
}

fn check_line(line: &[u8], tally: &mut ListTally) -> bool {
    let text = line_content(line);
    assert_eq!(text, content(line), "{}", line.escape_ascii());
    assert_eq!(line_content(text), text, "{}", line.escape_ascii());
    let (key, value) = line_parts(line);
    assert_eq!(line_content(key), key);
    if let Some(value) = value {
        assert!(line.ends_with(value) && line[line.len() - value.len() - 1] == b'\t');
    } else {
        assert_eq!(key, text);
    }
    if text.is_empty() {
        return false;
    }
    let listed = listed_name(text);
    if text.is_ascii() && !text.contains(&b'\\') {
        let plain = std::str::from_utf8(text).unwrap();
        let found = listed.as_ref().ok().map(|name| name.key.clone());
        assert_eq!(found, host(plain), "{plain:?}");
    }
    match listed {
        Ok(name) => {
            tally.take();
            assert!(name.text.is_ascii() && name.key.len() <= DNS_KEY_MAX);
            assert_eq!(dns_name(&*name.text).as_ref(), Ok(&name.key));
            // Whoever asks for what a list has finds it.
            assert_eq!(
                asked_name(text).map(|asked| asked.key).as_ref(),
                Ok(&name.key)
            );
            let shown = shown_name(&name.key).unwrap();
            assert_eq!(
                line_content(shown.as_bytes()),
                shown.as_bytes(),
                "{shown:?}"
            );
            if !shown.is_empty() {
                assert_eq!(
                    listed_name(shown.as_bytes()).map(|again| again.key),
                    Ok(name.key)
                );
            }
        }
        Err(why) => {
            assert!(!why.is_empty() && why.len() < 2000, "{why}");
            tally.refuse(text);
        }
    }
    // A question may have what no list has.
    if let Ok(asked) = asked_name(text) {
        let shown = shown_name(&asked.key).unwrap();
        assert_eq!(
            listed_name(shown.as_bytes()).map(|again| again.key),
            Ok(asked.key),
            "{shown:?}"
        );
    }
    let _ = ListFormat::of_line(line);
    true
}

fuzz_target!(|bytes: &[u8]| {
    let made: Vec<u8>;
    let list = match bytes.split_first() {
        Some((first, rest)) if first % 2 == 1 => {
            let pieces = rest
                .iter()
                .map(|byte| PIECES[usize::from(*byte) % PIECES.len()].as_bytes());
            made = pieces.flatten().copied().collect();
            &made
        }
        _ => bytes,
    };
    let mut tally = ListTally::default();
    let lines = list.split(|byte| *byte == b'\n');
    let with_text = lines.filter(|line| check_line(line, &mut tally)).count() as u64;
    let refused = tally.refused();
    assert!(refused <= with_text);
    match tally.check() {
        Ok(()) => assert!(2 * refused <= with_text),
        Err(not) => {
            assert!(2 * refused > with_text);
            assert_eq!((not.refused, not.lines), (refused, with_text));
            assert_eq!(not.looks_like, tally.looks_like());
            assert!(!not.to_string().is_empty());
        }
    }
    // Any bytes as a key: a text that reads the same again, in lower case as all keys, or none.
    if let Ok(shown) = shown_name(list) {
        let again = listed_name(shown.as_bytes()).map(|name| name.key);
        assert_eq!(again, Ok(list.to_ascii_lowercase()));
    }
});
