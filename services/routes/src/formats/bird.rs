//! The text of BIRD's `show route`, of versions 1 to 3, also with `all`.

use std::net::IpAddr;

use ipnet::IpNet;
use sapwood::lpm::NullRoute;

use super::show_bgp::NO_BEST;
use crate::best::{Best, LineFormat};
use crate::hop::{Hop, hop_name};
use crate::text::{parse_prefix, shown};

/// A route of a prefix, or the ways of one.
#[derive(Debug)]
struct Open {
    null: Option<NullRoute>,
    primary: bool,
    members: Vec<(String, u32)>,
}

/// The reader of lines.
#[derive(Debug, Default)]
pub(crate) struct Bird {
    net: Option<IpNet>,
    /// The route that is read.
    open: Option<Open>,
    /// The primary route of the prefix, or the first if none is said to be.
    chosen: Option<(bool, Hop)>,
}

impl Bird {
    fn close_route(&mut self) {
        let Some(open) = self.open.take() else {
            return;
        };
        let hop = match open.null {
            Some(null) => Hop::Null(null),
            None => Hop::of_members(open.members).unwrap_or(Hop::Name(String::new())),
        };
        if self
            .chosen
            .as_ref()
            .is_none_or(|(primary, _)| open.primary && !primary)
        {
            self.chosen = Some((open.primary, hop));
        }
    }

    /// Takes a kind with its protocol and preference, as `unicast [bgp1 12:00:00] * (100)`.
    fn route(&mut self, text: &str) -> Result<(), String> {
        self.close_route();
        let (kind, details) = text.split_once('[').ok_or("no protocol in brackets")?;
        let (_, state) = details
            .split_once(']')
            .ok_or("no end of the protocol's bracket")?;
        let mut words = kind.split_ascii_whitespace();
        let mut open = Open {
            null: None,
            primary: state.split_ascii_whitespace().next() == Some("*"),
            members: Vec::new(),
        };
        match words.next() {
            Some("unicast" | "multipath") | None => {}
            Some("blackhole") => open.null = Some(NullRoute::Blackhole),
            Some("unreachable") => open.null = Some(NullRoute::Unreachable),
            Some("prohibit" | "prohibited") => open.null = Some(NullRoute::Prohibit),
            Some("via" | "dev") => open.members.push(way(kind)?),
            Some(other) => return Err(format!("\"{}\" is no kind of a route", shown(other))),
        }
        self.open = Some(open);
        Ok(())
    }
}

/// A next hop and its weight: `via 192.0.2.1 on eth0 weight 2`, or `dev eth0`.
fn way(text: &str) -> Result<(String, u32), String> {
    let mut words = text.split_ascii_whitespace();
    let (mut gateway, mut device, mut weight) = (None::<IpAddr>, None, 1);
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .ok_or_else(|| format!("nothing after \"{word}\""))
        };
        match word {
            "via" => {
                let text = value()?;
                let wrong = |_| format!("\"{}\" is not the address of a gateway", shown(text));
                gateway = Some(text.parse().map_err(wrong)?);
            }
            "on" | "dev" => device = Some(value()?.trim_matches('"')),
            "weight" => {
                let text = value()?;
                let wrong = |_| format!("\"{}\" is not a weight", shown(text));
                weight = text.parse().map_err(wrong)?;
            }
            "onlink" => {}
            "mpls" => return Err("mpls: a next hop with labels, which no text can name".into()),
            word => return Err(format!("\"{}\" is no word of a next hop", shown(word))),
        }
    }
    Ok((hop_name(gateway, device), weight))
}

impl LineFormat for Bird {
    fn line(&mut self, line: &str, best: &mut Best) -> Result<(), String> {
        // A code of the control protocol in front, as of a raw session.
        let line = match line.split_at_checked(5) {
            Some((code, rest)) if is_code(code) => rest,
            _ => line,
        };
        let text = line.trim_ascii();
        let is_greeting = text.starts_with("BIRD ") || text.starts_with("Access restricted");
        if text.is_empty() || is_greeting || text.starts_with("Table ") {
            return self.end(best);
        }
        if !line.starts_with([' ', '\t']) {
            self.end(best)?;
            let (net, rest) = crate::text::first_word(text);
            let net = best.net(net)?;
            self.route(rest)?;
            self.net = Some(net);
            return Ok(());
        }
        let first = crate::text::first_word(text).0;
        let is_way = first == "via" || first == "dev";
        if is_way && !text.contains('[') {
            let (Some(open), Some(_)) = (&mut self.open, self.net) else {
                return Ok(());
            };
            open.members.push(way(text)?);
            return Ok(());
        }
        // The details of `all` have a colon after their first word.
        if first.ends_with(':') || text.contains(": ") && !text.contains('[') {
            return Ok(());
        }
        match self.net {
            Some(_) => self.route(text),
            None => Ok(()),
        }
    }

    fn end(&mut self, best: &mut Best) -> Result<(), String> {
        self.close_route();
        let (net, chosen) = (self.net.take(), self.chosen.take());
        match (net, chosen) {
            (Some(net), Some((_, hop))) => best.offer(net, 0, hop),
            (Some(_), None) => best.remarks.note(NO_BEST),
            (None, _) => {}
        }
        Ok(())
    }
}

/// Whether this is a code of the control protocol and the sign after it.
fn is_code(text: &str) -> bool {
    let is_digits = |code: &str| code.len() == 4 && code.bytes().all(|byte| byte.is_ascii_digit());
    let code = text.strip_suffix(['-', ' ']);
    code.is_some_and(is_digits)
}

/// Whether a line can only be one of BIRD's.
pub(crate) fn is_line(line: &str) -> bool {
    let is_greeting = line.starts_with("BIRD ") && line.contains("ready");
    if is_greeting || line.starts_with("Table ") && line.trim_ascii_end().ends_with(':') {
        return true;
    }
    let (net, rest) = crate::text::first_word(line);
    let kinds = [
        "unicast",
        "blackhole",
        "unreachable",
        "prohibit",
        "prohibited",
        "multipath",
        "via",
        "dev",
        "[",
    ];
    parse_prefix(net).is_ok()
        && kinds.iter().any(|kind| rest.starts_with(kind))
        && rest.contains('[')
        && rest.contains(']')
        && rest.trim_ascii_end().ends_with([')', ']'])
}
