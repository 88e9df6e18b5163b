//! Reads and writes routes as lines of text: a prefix, and after it the next hop or nothing.

use std::io::BufRead;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;

use crate::best::{TRUNCATED, too_many_bits};
use crate::hop::parse_hop;
use crate::lines::{Lines, without_comment};
use crate::{Error, Route, RouteSource};

/// The comment that makes a text one of plain lines, whatever its lines look like.
pub const PLAIN_TEXT: &str = "# routes: a prefix and its next hop in each line";

/// Reads lines of `prefix [next-hop]`.
///
/// White space separates the prefix from the next hop, which is the rest of the line
/// ([`parse_hop`](crate::parse_hop)). A prefix is an address, a slash and a length; or an address
/// and a netmask, as in `10.0.0.0 255.0.0.0 192.0.2.1`; or the first two of three columns, as in
/// `1.0.0.0 24 15169`; or `default` before the address of a next hop, which tells the family. Any
/// other address without a length is the route to one host; `10.0.0.0 8` may be one or the other
/// and is refused. A `#` at the beginning of a line or after white space begins a comment, and a
/// `;` at the beginning of a line does. A byte order mark before the first line is left out. A text
/// may have both families.
#[derive(Debug)]
pub struct TextRoutes<R> {
    lines: Lines<R>,
    next_hop: String,
    truncate: bool,
    truncated: u64,
    /// Whether next hops must be numbers of autonomous systems.
    systems: bool,
}

impl<R: BufRead> TextRoutes<R> {
    /// A reader that begins at the first line. With `truncate` it clears the bits after a prefix's
    /// length; otherwise such bits make a line bad.
    pub fn new(input: R, truncate: bool) -> Self {
        Self::of(Lines::new(input, false), truncate, false)
    }

    pub(crate) fn of(lines: Lines<R>, truncate: bool, systems: bool) -> Self {
        TextRoutes {
            lines,
            next_hop: String::new(),
            truncate,
            truncated: 0,
            systems,
        }
    }
}

impl<R: BufRead> RouteSource for TextRoutes<R> {
    fn next_route(&mut self) -> Result<Option<Route<'_>>, Error> {
        while self.lines.read()? {
            let text = without_comment(self.lines.text()).trim_ascii();
            if text.is_empty() || text.starts_with(';') {
                continue;
            }
            let checked = || {
                let (net, exact, next_hop) = net_and_rest(text)?;
                if !exact && !self.truncate {
                    let prefix = text[..text.len() - next_hop.len()].trim_ascii_end();
                    return Err(too_many_bits(prefix, net));
                }
                if next_hop.contains(|c: char| c.is_control()) {
                    let what = "a tab or another control character in the next hop";
                    return Err(what.to_owned());
                }
                if self.systems && !is_systems(next_hop) {
                    let hop = shown(next_hop);
                    return Err(format!(
                        "\"{hop}\" is not the number of an autonomous system"
                    ));
                }
                Ok((net, exact, next_hop))
            };
            let (net, exact, next_hop) = match checked() {
                Ok(found) => found,
                Err(what) => return Err(self.lines.bad(what)),
            };
            self.truncated += u64::from(!exact);
            self.next_hop.clear();
            self.next_hop.push_str(next_hop);
            let net = net.trunc();
            let hop = parse_hop(&self.next_hop);
            return Ok(Some(Route { net, hop }));
        }
        Ok(None)
    }

    fn remarks(&self) -> Vec<(u64, String)> {
        let truncated = (self.truncated, TRUNCATED.into());
        [truncated].into_iter().chain(self.lines.remark()).collect()
    }
}

/// Whether a text is the number of an autonomous system, or several: `64500_64501`, `64500,64501`.
pub(crate) fn is_systems(text: &str) -> bool {
    let mut numbers = text.split(['_', ',']);
    numbers.all(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The first word of a text, and the rest.
pub(crate) fn first_word(text: &str) -> (&str, &str) {
    match text.split_once(|c: char| c.is_ascii_whitespace()) {
        Some((first, rest)) => (first, rest.trim_ascii_start()),
        None => (text, ""),
    }
}

/// The prefix at the beginning of a line, whether no bits are set after its length, and the rest.
fn net_and_rest(text: &str) -> Result<(IpNet, bool, &str), String> {
    let (first, rest) = first_word(text);
    if first == "default" {
        let net = default_before(rest)?;
        return Ok((net, true, rest));
    }
    if let Ok(address) = first.parse()
        && let Some((length, rest)) = length_after(address, rest)?
    {
        let net = IpNet::new(address, length).map_err(|error| error.to_string())?;
        return Ok((net, net.addr() == net.network(), rest));
    }
    let (net, exact) = parse_prefix(first)?;
    Ok((net, exact, rest))
}

/// The default route of the family that a next hop has.
fn default_before(next_hop: &str) -> Result<IpNet, String> {
    let (address, _) = first_word(next_hop);
    let address = address.split('%').next().unwrap_or_default();
    match address.parse() {
        Ok(address) => Ok(default_of(address)),
        Err(_) => Err("\"default\" of IPv4 or of IPv6? write 0.0.0.0/0 or ::/0".into()),
    }
}

/// The default route of the family of an address.
pub(crate) fn default_of(address: IpAddr) -> IpNet {
    match address {
        IpAddr::V4(_) => IpNet::V4(Default::default()),
        IpAddr::V6(_) => IpNet::V6(Default::default()),
    }
}

/// The length that follows an address as a netmask or in a column of its own, and the rest. `None`
/// if the address is a host.
fn length_after(address: IpAddr, rest: &str) -> Result<Option<(u8, &str)>, String> {
    let whole = if address.is_ipv4() { 32 } else { 128 };
    let (second, after) = first_word(rest);
    if let (true, Ok(mask)) = (address.is_ipv4(), second.parse::<Ipv4Addr>()) {
        if let Some(length) = length_of(mask) {
            return Ok(Some((length, after)));
        }
        let is_hop = first_word(after).0.parse::<IpAddr>().is_err();
        return match is_hop && mask.octets()[0] != 255 {
            true => Ok(None),
            false => Err(format!("{second} after {address} is not a netmask")),
        };
    }
    if second.is_empty() || !second.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(None);
    }
    let length = second.parse().ok().filter(|length| *length <= whole);
    if !after.is_empty() && first_word(after).1.is_empty() {
        let what = || format!("{} after {address} is not a length", shown(second));
        return Ok(Some((length.ok_or_else(what)?, after)));
    }
    let net = length.and_then(|length| IpNet::new(address, length).ok());
    match net {
        Some(net) if net.addr() == net.network() && net.prefix_len() < whole => Err(format!(
            "{address} {second} may be {net} or the host {address}/{whole}: write which"
        )),
        _ => Ok(None),
    }
}

/// The length of a netmask, whose ones are in front of its zeros.
pub(crate) fn length_of(mask: Ipv4Addr) -> Option<u8> {
    let (ones, bits) = (mask.to_bits().leading_ones(), mask.to_bits().count_ones());
    u8::try_from(ones).ok().filter(|_| ones == bits)
}

/// A text in a message: its first 60 characters.
pub(crate) fn shown(text: &str) -> String {
    let begin: String = text.chars().take(60).collect();
    begin.escape_debug().to_string()
}

/// Parses a prefix, or an address as the prefix of one host. Also returns whether all bits after
/// the length are zero.
///
/// # Errors
///
/// The fault of the text.
pub fn parse_prefix(text: &str) -> Result<(IpNet, bool), String> {
    let shown = || shown(text);
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
/// use sapwood::lpm::{NullRoute, SavedHop};
/// use sapwood_routes::{Route, show_route};
///
/// let net = "10.0.0.0/8".parse()?;
/// let show = |hop| show_route(&Route { net, hop });
/// assert_eq!(show(SavedHop::Name("dev eth0")), Some("10.0.0.0/8 dev eth0".into()));
/// assert_eq!(show(SavedHop::Null(NullRoute::Throw)), Some("10.0.0.0/8 throw".into()));
/// assert_eq!(show(SavedHop::Name("a #b")), None);
/// # Ok::<(), ipnet::AddrParseError>(())
/// ```
pub fn show_route(route: &Route<'_>) -> Option<String> {
    let line = match route.hop.to_string().as_str() {
        "" => route.net.to_string(),
        hop => format!("{} {hop}", route.net),
    };
    let mut again = TextRoutes::new(line.as_bytes(), false);
    let same = matches!(again.next_route(), Ok(Some(read)) if read == *route);
    same.then_some(line)
}

#[cfg(test)]
mod tests {
    use sapwood::lpm::{NullRoute, SavedHop};

    use super::*;
    use crate::MAX_LINE;

    fn read(text: impl AsRef<[u8]>, truncate: bool) -> (Vec<String>, u64) {
        let mut routes = TextRoutes::new(text.as_ref(), truncate);
        let mut all = Vec::new();
        loop {
            match routes.next_route() {
                Ok(Some(route)) => all.push(format!("{}={}", route.net, route.hop)),
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
                "line 6: the line has more than 65536 bytes",
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
        let show = |hop| show_route(&Route { net, hop });
        let long = "x".repeat(MAX_LINE);
        for name in [
            "#a",
            "a #b",
            " a",
            "a ",
            "a\nb",
            "a\0",
            "throw",
            "a weight 1",
            &long,
        ] {
            assert_eq!(show(SavedHop::Name(name)), None, "{name:?}");
        }
        for name in ["", "a", "a b", "a#b", "ü", "24", "255.0.0.0", "a, b"] {
            assert!(show(SavedHop::Name(name)).is_some(), "{name:?}");
        }
        assert!(show(SavedHop::Null(NullRoute::Prohibit)).is_some());
        // The text of a number is a name.
        assert_eq!(show(SavedHop::Number(7)), None);
        let group =
            |name| SavedHop::Group(vec![(SavedHop::Name(name), 1), (SavedHop::Name("b"), 2)]);
        assert!(show(group("a")).is_some());
        assert_eq!(show(group("a, c")), None);
        assert_eq!(show(SavedHop::Group(vec![])), None);
    }

    #[test]
    fn lengths_in_other_forms() {
        let (routes, _) = read(
            "10.0.0.0 255.0.0.0 192.0.2.1\n0.0.0.0 0.0.0.0 192.0.2.1\n10.1.2.3 255.255.255.255\n\
             1.0.0.0\t24\t15169\n2001:db8:: 32 64500_64501\n; a comment\ndefault 192.0.2.9\n\
             default fe80::1%eth0\n10.1.2.3 24\n10.1.2.3 192.0.2.1\n10.1.2.3 64500\n10.1.2.3 32",
            false,
        );
        let right = [
            "10.0.0.0/8=192.0.2.1",
            "0.0.0.0/0=192.0.2.1",
            "10.1.2.3/32=",
            "1.0.0.0/24=15169",
            "2001:db8::/32=64500_64501",
            "0.0.0.0/0=192.0.2.9",
            "::/0=fe80::1%eth0",
            "10.1.2.3/32=24",
            "10.1.2.3/32=192.0.2.1",
            "10.1.2.3/32=64500",
            "10.1.2.3/32=32",
        ];
        assert_eq!(routes, right);
        for (line, why) in [
            (
                "10.0.0.0 255.0.255.0 192.0.2.1",
                "255.0.255.0 after 10.0.0.0 is not a netmask",
            ),
            (
                "10.0.0.0 0.255.255.255 192.0.2.1",
                "0.255.255.255 after 10.0.0.0 is not a netmask",
            ),
            (
                "10.1.2.3 255.0.0.0 a",
                "10.1.2.3 255.0.0.0 has bits set after its length; 10.0.0.0/8 may be meant",
            ),
            ("1.0.0.0 33 15169", "33 after 1.0.0.0 is not a length"),
            (
                "1.0.0.1 24 15169",
                "1.0.0.1 24 has bits set after its length; 1.0.0.0/24 may be meant",
            ),
            (
                "1.0.0.0 24",
                "1.0.0.0 24 may be 1.0.0.0/24 or the host 1.0.0.0/32: write which",
            ),
            (
                "default dev eth0",
                "\"default\" of IPv4 or of IPv6? write 0.0.0.0/0 or ::/0",
            ),
        ] {
            assert_eq!(read(line, false).0, [format!("line 1: {why}")]);
        }
    }

    #[test]
    fn null_routes_and_groups() {
        let text = "10.0.0.0/8 blackhole\n10.1.0.0/16 a weight 2, b weight 1\n";
        let mut routes = TextRoutes::new(text.as_bytes(), false);
        let mut next = || {
            routes
                .next_route()
                .unwrap()
                .map(|route| format!("{:?}", route.hop))
        };
        assert_eq!(next().as_deref(), Some("Null(Blackhole)"));
        assert_eq!(
            next().as_deref(),
            Some("Group([(Name(\"a\"), 2), (Name(\"b\"), 1)])")
        );
        assert_eq!(next(), None);
    }
}
