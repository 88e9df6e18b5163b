//! Opens a file of routes: tells its kind by its contents, compressed or not, and chooses the
//! reader.

use std::fmt;
use std::io::{self, BufRead, Cursor, Read};

use sapwood_input::decompressed;

use crate::best::BestOfLines;
use crate::foreign::foreign;
use crate::formats::bird::{self, Bird};
use crate::formats::ip_route::{self, IpRoute};
use crate::formats::json::JsonRoutes;
use crate::formats::netstat::{self, Netstat};
use crate::formats::show_bgp::{self, ShowBgp};
use crate::lines::{Lines, without_comment, without_mark};
use crate::mrt::{MrtRoutes, Peer};
use crate::text::{PLAIN_TEXT, TextRoutes, first_word, is_systems, parse_prefix};
use crate::{Error, RouteSource};

/// The bytes from the beginning of a file that tell its format.
const SAMPLE: u64 = 1 << 16;

/// The form in which a file has routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Lines of a prefix and a next hop.
    Text,
    /// Lines of a prefix and an autonomous system: CAIDA's pfx2as, the files of pyasn.
    Pfx2as,
    /// The text of `ip route`.
    IpRoute,
    /// The text of `route -n` or `netstat -rn`.
    Netstat,
    /// The text of `show ip bgp` of FRR, Quagga and others.
    ShowBgp,
    /// The text of BIRD's `show route`.
    Bird,
    /// The JSON of `ip -j route`, or of FRR's `show bgp json` and `show ip route json`.
    Json,
    /// MRT records.
    Mrt,
}

/// The name of the format, for messages.
impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Text => "lines of prefixes and next hops",
            Format::Pfx2as => "pfx2as",
            Format::IpRoute => "the text of \"ip route\"",
            Format::Netstat => "the text of \"route -n\"",
            Format::ShowBgp => "the text of \"show ip bgp\"",
            Format::Bird => "the text of BIRD's \"show route\"",
            Format::Json => "JSON",
            Format::Mrt => "MRT",
        })
    }
}

/// How a file of routes is read.
///
/// ```
/// use sapwood_routes::{Format, Reading, RouteSource};
///
/// let text = "10.9.0.0/16 \n\tnexthop via 192.0.2.1 dev r0 weight 3 \n\tnexthop dev r1 weight 1\n\
///             blackhole 10.9.9.0/24\n";
/// let (format, mut routes) = Reading::default().open(text.as_bytes())?;
/// assert_eq!(format, Format::IpRoute);
/// let route = routes.next_route()?.unwrap();
/// assert_eq!(route.hop.to_string(), "192.0.2.1 weight 3, dev r1 weight 1");
/// let route = routes.next_route()?.unwrap();
/// assert_eq!(route.hop.to_string(), "blackhole");
/// # Ok::<(), sapwood_routes::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// The form of the file. `None`: its contents tell.
    pub format: Option<Format>,
    /// Whether bits after a prefix's length are cleared. Else they make a line bad.
    pub truncate: bool,
    /// Of which peer the routes of MRT records are taken.
    pub peer: Peer,
    /// Whether the routes are taken that stand before an end that comes too early: inside of an MRT
    /// record, of a JSON document or of a compressed file. Else such an end is an error.
    pub partial: bool,
}

impl Reading {
    /// Opens a file, which may be compressed by gzip or bzip2. Returns its format and a reader of
    /// its routes.
    ///
    /// A format is told by the first 64 KiB. Readers of [`Format::Text`], [`Format::Pfx2as`] keep
    /// one line; the others keep all routes, because the best one of a prefix may come last.
    ///
    /// # Errors
    ///
    /// [`Error::Foreign`] when the file is of another kind, [`Error::Io`] when its beginning cannot
    /// be read.
    pub fn open<'a>(
        &self,
        input: impl Read + 'a,
    ) -> Result<(Format, Box<dyn RouteSource + 'a>), Error> {
        let (start, rest) = peek(SAMPLE, decompressed(input, None)?, self.partial)?;
        let format = self.format.map_or_else(|| Format::of(&start), Ok)?;
        let input = Cursor::new(start).chain(rest);
        let lines = |input| Lines::new(input, self.partial);
        let truncate = self.truncate;
        let routes: Box<dyn RouteSource + 'a> = match format {
            Format::Text => Box::new(TextRoutes::of(lines(input), truncate, false)),
            Format::Pfx2as => Box::new(TextRoutes::of(lines(input), truncate, true)),
            Format::IpRoute => best(lines(input), IpRoute::default(), truncate),
            Format::Netstat => best(lines(input), Netstat::default(), truncate),
            Format::ShowBgp => best(lines(input), ShowBgp::default(), truncate),
            Format::Bird => best(lines(input), Bird::default(), truncate),
            Format::Json => Box::new(JsonRoutes::new(input, truncate, self.partial)),
            Format::Mrt => {
                let routes = MrtRoutes::new(input, self.peer);
                Box::new(routes.partial(self.partial))
            }
        };
        Ok((format, routes))
    }
}

fn best<'a, R: BufRead + 'a, F: crate::best::LineFormat + 'a>(
    lines: Lines<R>,
    format: F,
    truncate: bool,
) -> Box<dyn RouteSource + 'a> {
    Box::new(BestOfLines::new(lines, format, truncate))
}

impl Format {
    /// Tells the format of a file by its beginning, of which the first 64 KiB are enough.
    ///
    /// O(bytes).
    ///
    /// # Errors
    ///
    /// [`Error::Foreign`] when this is no beginning of a file of routes.
    pub fn of(start: &[u8]) -> Result<Format, Error> {
        if is_mrt(start) {
            return Ok(Format::Mrt);
        }
        if let Some(kind) = foreign(start) {
            return Err(Error::Foreign(kind.into()));
        }
        // A line that the sample cuts tells nothing.
        let whole = match start.len() as u64 >= SAMPLE {
            true => start
                .rsplitn(2, |byte| *byte == b'\n')
                .last()
                .unwrap_or(start),
            false => start,
        };
        let text = String::from_utf8_lossy(whole);
        let lines = without_mark(&text).lines();
        let lines = lines.filter(|line| !line.trim_ascii().is_empty());
        let told = lines.enumerate().find_map(format_of_line);
        Ok(told.unwrap_or(Format::Text))
    }
}

/// Tells the format of a file, which is not compressed, by its beginning. Returns a reader of the
/// whole file, too.
///
/// # Errors
///
/// As [`Reading::open`].
pub fn format_of<'a>(input: impl BufRead + 'a) -> Result<(Format, Box<dyn BufRead + 'a>), Error> {
    let (start, rest) = peek(SAMPLE, input, false)?;
    let format = Format::of(&start)?;
    Ok((format, Box::new(Cursor::new(start).chain(rest))))
}

/// The format that a line has, if no other format has such lines.
fn format_of_line((number, line): (usize, &str)) -> Option<Format> {
    let trimmed = line.trim_ascii();
    if number == 0 && trimmed.starts_with(['{', '[']) {
        return Some(Format::Json);
    }
    if number == 0 && trimmed.starts_with(';') {
        return Some(Format::Pfx2as);
    }
    if trimmed == PLAIN_TEXT {
        return Some(Format::Text);
    }
    let is_bgp = trimmed.starts_with("BGP table version");
    if is_bgp || show_bgp::headings(line).is_some() {
        return Some(Format::ShowBgp);
    }
    if netstat::headings(line).is_some() || trimmed.starts_with("Kernel IP") {
        return Some(Format::Netstat);
    }
    if bird::is_line(line) {
        return Some(Format::Bird);
    }
    if ip_route::is_line(line) {
        return Some(Format::IpRoute);
    }
    let (first, rest) = first_word(without_comment(trimmed));
    let (second, third) = first_word(rest);
    let is_address = first.parse::<std::net::IpAddr>().is_ok();
    if is_address && second.parse::<u8>().is_ok() && is_systems(third) {
        return Some(Format::Pfx2as);
    }
    let is_hop = second
        .split('%')
        .next()
        .is_some_and(|hop| parse_prefix(hop).is_ok());
    (parse_prefix(first).is_ok() && is_hop).then_some(Format::Text)
}

/// Whether a file begins with the header of an MRT record: a time, a type and a subtype, a length.
fn is_mrt(start: &[u8]) -> bool {
    let Some(header) = start.first_chunk::<12>() else {
        return false;
    };
    let [_, _, _, _, kind @ .., a, b, c, d] = *header;
    let [high, kind, high_subtype, subtype] = kind;
    let length = u32::from_be_bytes([a, b, c, d]);
    let known = matches!(kind, 5 | 7..=13 | 16 | 17 | 32 | 33 | 48 | 49 | 64);
    high == 0 && known && high_subtype == 0 && subtype < 64 && length < 1 << 26
}

/// Takes the first `many` bytes, or all bytes if the input is shorter. With `partial`, an input
/// that ends too early is shorter, and whoever reads on meets the end again.
fn peek<R: Read>(many: u64, mut input: R, partial: bool) -> io::Result<(Vec<u8>, R)> {
    let mut start = Vec::new();
    match input.by_ref().take(many).read_to_end(&mut start) {
        Err(error) if partial && error.kind() == io::ErrorKind::UnexpectedEof => {}
        read => drop(read?),
    }
    Ok((start, input))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"10.0.0.0/8 a\n";

    #[test]
    fn a_file_is_told_and_whole() {
        let (format, mut rest) = format_of(TEXT).unwrap();
        assert_eq!(format, Format::Text);
        let mut whole = Vec::new();
        rest.read_to_end(&mut whole).unwrap();
        assert_eq!(whole, TEXT);
        assert!(matches!(format_of(&[0][..]), Err(Error::Foreign(_))));
    }

    #[test]
    fn a_line_that_the_sample_cuts_tells_nothing() {
        let mut text = "10.0.0.0/8 a\n".repeat(SAMPLE as usize / 13);
        text.push_str("10.0.0.0/8 via 192.0.2.1 dev eth0");
        assert_eq!(Format::of(text.as_bytes()).unwrap(), Format::Text);
        text.push('\n');
        assert_eq!(Format::of(text.as_bytes()).unwrap(), Format::IpRoute);
    }

    #[test]
    fn the_header_of_mrt_is_known() {
        assert!(is_mrt(&[1, 2, 3, 4, 0, 13, 0, 1, 0, 0, 0, 9, 7]));
        assert!(!is_mrt(&[1, 2, 3, 4, 0, 13, 0, 1, 0, 0, 0]));
        assert!(!is_mrt(&[1, 2, 3, 4, 0, 99, 0, 1, 0, 0, 0, 9]));
        assert!(!is_mrt(&[1, 2, 3, 4, 0, 13, 0, 1, 0xff, 0, 0, 9]));
        assert!(!is_mrt(b"10.0.0.0/8 192.0.2.1"));
    }
}
