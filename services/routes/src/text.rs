//! Reads and writes routes as lines of text: a prefix, and after it the next hop or nothing.

use std::io::{BufRead, Read};
use std::net::IpAddr;

use ipnet::IpNet;

use crate::{Error, Place, Route, RouteSource};

/// The longest line that is read, in bytes.
pub const MAX_LINE: usize = 4096;

/// Reads lines of `prefix [next-hop]`.
///
/// White space separates the prefix from the next hop, which is the rest of the line. An address
/// without a length is the route to one host. A `#` at the beginning of a line or after white space
/// begins a comment. A byte order mark before the first line is left out. A text may have both
/// families.
#[derive(Debug)]
pub struct TextRoutes<R> {
    input: R,
    line: Vec<u8>,
    next_hop: String,
    number: u64,
    truncate: bool,
    truncated: u64,
}

impl<R: BufRead> TextRoutes<R> {
    /// A reader that begins at the first line. With `truncate` it clears the bits after a prefix's
    /// length; otherwise such bits make a line bad.
    pub fn new(input: R, truncate: bool) -> Self {
        TextRoutes {
            input,
            line: Vec::new(),
            next_hop: String::new(),
            number: 0,
            truncate,
            truncated: 0,
        }
    }

    /// Reads the next line into `line`; `None` at the end of the input. The inner error is the
    /// fault of a line that is too long.
    fn read_line(&mut self) -> Result<Option<Result<(), String>>, Error> {
        self.line.clear();
        let read = (&mut self.input)
            .take(MAX_LINE as u64 + 1)
            .read_until(b'\n', &mut self.line)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        if self.line.last() != Some(&b'\n') && read > MAX_LINE {
            self.input.skip_until(b'\n')?;
            let what = format!("the line has more than {MAX_LINE} bytes");
            return Ok(Some(Err(what)));
        }
        Ok(Some(Ok(())))
    }

    fn bad(&self, what: String) -> Error {
        Error::Bad(Place {
            unit: "line",
            number: self.number,
            what,
        })
    }
}

impl<R: BufRead> RouteSource for TextRoutes<R> {
    fn next_route(&mut self) -> Result<Option<Route<'_>>, Error> {
        let net = loop {
            match self.read_line()? {
                None => return Ok(None),
                Some(Err(what)) => return Err(self.bad(what)),
                Some(Ok(())) => {}
            }
            let Ok(line) = std::str::from_utf8(&self.line) else {
                let is_utf16 =
                    self.line.starts_with(b"\xff\xfe") || self.line.starts_with(b"\xfe\xff");
                let what = if is_utf16 {
                    "UTF-16, not UTF-8"
                } else {
                    "not UTF-8"
                };
                return Err(self.bad(what.into()));
            };
            let line = if self.number == 1 {
                without_mark(line)
            } else {
                line
            };
            let text = without_comment(line).trim_ascii();
            if text.is_empty() {
                continue;
            }
            let (prefix, next_hop) = match text.split_once(|c: char| c.is_ascii_whitespace()) {
                Some((prefix, rest)) => (prefix, rest.trim_ascii_start()),
                None => (text, ""),
            };
            let (net, exact) = parse_prefix(prefix).map_err(|what| self.bad(what))?;
            if !exact && !self.truncate {
                return Err(self.bad(format!(
                    "{prefix} has bits set after its length; {} may be meant",
                    net.trunc()
                )));
            }
            if next_hop.contains(|c: char| c.is_control()) {
                return Err(self.bad("a tab or another control character in the next hop".into()));
            }
            self.truncated += u64::from(!exact);
            self.next_hop.clear();
            self.next_hop.push_str(next_hop);
            break net.trunc();
        };
        let next_hop = &self.next_hop;
        Ok(Some(Route { net, next_hop }))
    }

    fn remarks(&self) -> Vec<(u64, &'static str)> {
        vec![(self.truncated, "prefixes truncated to their length")]
    }
}

/// The first line of a text without the byte order mark that some editors put before it.
///
/// ```
/// use sapwood_routes::without_mark;
///
/// assert_eq!(without_mark("\u{feff}10.0.0.0/8"), "10.0.0.0/8");
/// ```
pub fn without_mark(line: &str) -> &str {
    line.strip_prefix('\u{feff}').unwrap_or(line)
}

/// The part of a line before its comment. A `#` begins a comment at the beginning of the line or
/// after white space.
///
/// ```
/// use sapwood_routes::without_comment;
///
/// assert_eq!(without_comment("10.0.0.0/8 a#b # a comment"), "10.0.0.0/8 a#b ");
/// ```
pub fn without_comment(line: &str) -> &str {
    let bytes = line.as_bytes();
    let begins =
        |at: &usize| bytes[*at] == b'#' && (*at == 0 || bytes[*at - 1].is_ascii_whitespace());
    match (0..bytes.len()).find(begins) {
        Some(at) => &line[..at],
        None => line,
    }
}

/// Parses a prefix, or an address as the prefix of one host. Also returns whether all bits after
/// the length are zero.
///
/// # Errors
///
/// The fault of the text.
pub fn parse_prefix(text: &str) -> Result<(IpNet, bool), String> {
    // A message shows the first 60 characters only.
    let shown = || {
        text.chars()
            .take(60)
            .collect::<String>()
            .escape_debug()
            .to_string()
    };
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let address: IpAddr = address
        .parse()
        .map_err(|_| format!("\"{}\" is not a prefix: it has no address", shown()))?;
    let whole = if address.is_ipv4() { 32 } else { 128 };
    let length = match length {
        None => whole,
        Some(digits) if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) => {
            return Err(format!(
                "\"{}\" is not a prefix: its length is not a number",
                shown()
            ));
        }
        Some(digits) => digits
            .parse()
            .ok()
            .filter(|length| *length <= whole)
            .ok_or_else(|| {
                format!(
                    "\"{}\" is not a prefix: its length is more than {whole}",
                    shown()
                )
            })?,
    };
    let net = IpNet::new(address, length).map_err(|e| format!("\"{}\": {e}", shown()))?;
    Ok((net, net.addr() == net.network()))
}

/// The line that parses as this route, if one does.
///
/// ```
/// use sapwood_routes::{Route, show_route};
///
/// let net = "10.0.0.0/8".parse()?;
/// assert_eq!(show_route(&Route { net, next_hop: "dev eth0" }), Some("10.0.0.0/8 dev eth0".into()));
/// assert_eq!(show_route(&Route { net, next_hop: "a #b" }), None);
/// # Ok::<(), ipnet::AddrParseError>(())
/// ```
pub fn show_route(route: &Route<'_>) -> Option<String> {
    let line = match route.next_hop {
        "" => route.net.to_string(),
        next_hop => format!("{} {next_hop}", route.net),
    };
    let mut again = TextRoutes::new(line.as_bytes(), false);
    let same = matches!(again.next_route(), Ok(Some(read)) if read == *route);
    same.then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: impl AsRef<[u8]>, truncate: bool) -> (Vec<String>, u64) {
        let mut routes = TextRoutes::new(text.as_ref(), truncate);
        let mut all = Vec::new();
        loop {
            match routes.next_route() {
                Ok(Some(route)) => all.push(format!("{}={}", route.net, route.next_hop)),
                Ok(None) => return (all, routes.remarks()[0].0),
                Err(Error::Bad(place)) => all.push(place.to_string()),
                Err(other) => panic!("{other}"),
            }
        }
    }

    #[test]
    fn lines() {
        let text = "# a table\n10.0.0.0/8 192.0.2.1\r\n\n \t \n10.1.2.3\t dev eth0  # the host\n\
                    2001:db8::/32\n::/0 fe80::1%eth0\n::ffff:1.2.3.4 a#b\n0.0.0.0/0 x";
        let (routes, truncated) = read(text, false);
        assert_eq!(
            routes,
            [
                "10.0.0.0/8=192.0.2.1",
                "10.1.2.3/32=dev eth0",
                "2001:db8::/32=",
                "::/0=fe80::1%eth0",
                "::ffff:1.2.3.4/128=a#b",
                "0.0.0.0/0=x",
            ]
        );
        assert_eq!(truncated, 0);
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_route() {
        let (routes, _) = read("\u{feff}10.0.0.0/8 a\r\n\u{feff}::/0 b", false);
        let bad = "line 2: \"\\u{feff}::/0\" is not a prefix: it has no address";
        assert_eq!(routes, ["10.0.0.0/8=a", bad]);
        let (routes, _) = read("\u{feff}# a table\n::/0 b", false);
        assert_eq!(routes, ["::/0=b"]);
    }

    #[test]
    fn bad_lines_have_numbers_and_reasons() {
        let long = format!("10.0.0.0/8 {}", "x".repeat(MAX_LINE));
        let text = format!(
            "hop 10.0.0.0/8\n10.0.0.0/33\n\n::/129\n10.0.0.1/8\n{long}\n10.0/8\n1.2.3.4/\n1.2.3.4/+8\n::1/8/9 a\n10.0.0.0/8 a\x01b\n10.0.0.0/8"
        );
        let (routes, _) = read(text, false);
        assert_eq!(
            routes,
            [
                "line 1: \"hop\" is not a prefix: it has no address",
                "line 2: \"10.0.0.0/33\" is not a prefix: its length is more than 32",
                "line 4: \"::/129\" is not a prefix: its length is more than 128",
                "line 5: 10.0.0.1/8 has bits set after its length; 10.0.0.0/8 may be meant",
                "line 6: the line has more than 4096 bytes",
                "line 7: \"10.0/8\" is not a prefix: it has no address",
                "line 8: \"1.2.3.4/\" is not a prefix: its length is not a number",
                "line 9: \"1.2.3.4/+8\" is not a prefix: its length is not a number",
                "line 10: \"::1/8/9\" is not a prefix: its length is not a number",
                "line 11: a tab or another control character in the next hop",
                "10.0.0.0/8=",
            ]
        );
        assert_eq!(read(b"10.0.0.0/8 \xff\n", false).0, ["line 1: not UTF-8"]);
        // The longest line that is read, with and without its end.
        for end in ["", "\n"] {
            let line = format!("::/0 {}{end}", "y".repeat(MAX_LINE - 5));
            assert_eq!(read(&line, false).0.len(), 1);
            assert!(read(&line, false).0[0].starts_with("::/0=y"));
        }
    }

    #[test]
    fn truncated_when_wanted() {
        let (routes, truncated) = read("10.1.2.3/8 a\n2001:db8::1/32\n10.0.0.0/8\n1.2.3.4/0", true);
        assert_eq!(
            routes,
            [
                "10.0.0.0/8=a",
                "2001:db8::/32=",
                "10.0.0.0/8=",
                "0.0.0.0/0="
            ]
        );
        assert_eq!(truncated, 3);
    }

    #[test]
    fn next_hops_that_no_line_can_have_are_not_shown() {
        let net = "::/0".parse().unwrap();
        for next_hop in ["#a", "a #b", " a", "a ", "a\nb", "a\0"] {
            assert_eq!(show_route(&Route { net, next_hop }), None, "{next_hop:?}");
        }
        for next_hop in ["", "a", "a b", "a#b", "ü"] {
            assert!(
                show_route(&Route { net, next_hop }).is_some(),
                "{next_hop:?}"
            );
        }
    }
}
