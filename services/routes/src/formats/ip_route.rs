//! The text of `ip route` and `ip -6 route`, also with `-o`, and what its JSON has in common.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::best::{Best, LineFormat};
use crate::hop::{Hop, hop_name, null_of};
use crate::text::shown;

/// The remark on routes of other types.
pub(crate) const NOT_UNICAST: &str = "routes that are not unicast, or for some packets only";
/// The remark on routes without a next hop that can be used.
pub(crate) const DEAD: &str = "routes whose next hops are all dead";

/// The types of routes that no table of prefixes has.
const OTHER_TYPES: [&str; 6] = [
    "local",
    "broadcast",
    "multicast",
    "anycast",
    "nat",
    "xresolve",
];

/// The words with another word behind them that does not matter here.
const WITH_WORD: [&str; 23] = [
    "proto",
    "scope",
    "src",
    "mtu",
    "advmss",
    "hoplimit",
    "window",
    "rtt",
    "rttvar",
    "cwnd",
    "initcwnd",
    "initrwnd",
    "ssthresh",
    "realm",
    "realms",
    "preference",
    "reordering",
    "features",
    "quickack",
    "congctl",
    "rto_min",
    "error",
    "expires",
];

/// The words that stand for themselves and do not matter here.
const FLAGS: [&str; 13] = [
    "onlink",
    "linkdown",
    "pervasive",
    "offload",
    "trap",
    "notify",
    "cache",
    "offload_failed",
    "rt_offload",
    "rt_trap",
    "rt_offload_failed",
    "unresolved",
    "fastopen_no_cookie",
];

/// One of the next hops of a route.
#[derive(Debug, Default)]
pub(crate) struct Member {
    pub(crate) gateway: Option<IpAddr>,
    pub(crate) device: Option<String>,
    pub(crate) weight: Option<u32>,
    pub(crate) dead: bool,
}

impl Member {
    fn is_empty(&self) -> bool {
        self.gateway.is_none() && self.device.is_none()
    }
}

/// A route while it is read.
#[derive(Debug, Default)]
pub(crate) struct Open {
    /// `None` for the default route of a family that is not known yet.
    pub(crate) net: Option<IpNet>,
    /// The type, if it is not `unicast`.
    pub(crate) kind: Option<String>,
    pub(crate) metric: u32,
    /// Whether the route is not for all packets.
    pub(crate) special: bool,
    pub(crate) table: Option<String>,
    /// Whether the route is known to be one of IPv6, or of IPv4.
    pub(crate) six: Option<bool>,
    pub(crate) object: Option<String>,
    pub(crate) members: Vec<Member>,
}

impl Open {
    /// Takes the text of a destination.
    pub(crate) fn to(&mut self, text: &str, best: &mut Best) -> Result<(), String> {
        self.net = match text {
            "default" => None,
            text => Some(best.net(text)?),
        };
        Ok(())
    }

    /// Hands the route to the others.
    pub(crate) fn finish(self, best: &mut Best) -> Result<(), String> {
        let kind = self.kind.as_deref().unwrap_or("unicast");
        let null = null_of(kind);
        if null.is_none() && kind != "unicast" {
            if !OTHER_TYPES.contains(&kind) {
                return Err(format!("\"{}\" is no type of a route", shown(kind)));
            }
            best.remarks.note(NOT_UNICAST);
            return Ok(());
        }
        if self.special {
            best.remarks.note(NOT_UNICAST);
            return Ok(());
        }
        if self
            .table
            .is_some_and(|table| table != "main" && table != "254")
        {
            best.remarks.note("routes of other tables than main");
            return Ok(());
        }
        let gateway = self.members.iter().find_map(|member| member.gateway);
        let is_six = self.six.unwrap_or(gateway.is_some_and(|to| to.is_ipv6()));
        let net = self.net.unwrap_or(match is_six {
            true => Ipv6Net::default().into(),
            false => Ipv4Net::default().into(),
        });
        let hop = match null {
            Some(null) => Some(Hop::Null(null)),
            None if self.members.iter().all(Member::is_empty) => {
                let object = self.object.map(|id| format!("nhid {id}"));
                Some(Hop::Name(object.unwrap_or_default()))
            }
            None => {
                let usable = self.members.iter().filter(|member| !member.dead);
                Hop::of_members(usable.map(|member| {
                    let name = hop_name(member.gateway, member.device.as_deref());
                    (name, member.weight.unwrap_or(1))
                }))
            }
        };
        match hop {
            Some(hop) => best.offer(net, self.metric, hop),
            None => best.remarks.note(DEAD),
        }
        Ok(())
    }

    /// Takes the words behind the destination, or behind `nexthop` on a line of its own.
    fn words<'a>(&mut self, mut words: impl Iterator<Item = &'a str>) -> Result<(), String> {
        let mut member = Member::default();
        while let Some(word) = words.next() {
            let mut value = || {
                words
                    .next()
                    .ok_or_else(|| format!("nothing after \"{word}\""))
            };
            match word {
                "nexthop" => {
                    let full = std::mem::take(&mut member);
                    self.members.extend((!full.is_empty()).then_some(full));
                }
                "via" => {
                    let mut text = value()?;
                    // The family stands here when it is not that of the route.
                    if let "inet" | "inet6" = text {
                        self.six.get_or_insert(text == "inet");
                        text = value()?;
                    }
                    let gateway = text.parse();
                    let wrong = |_| format!("\"{}\" is not the address of a gateway", shown(text));
                    member.gateway = Some(gateway.map_err(wrong)?);
                }
                "dev" => member.device = Some(value()?.into()),
                "weight" => member.weight = Some(number(word, value()?)?),
                "metric" => self.metric = number(word, value()?)?,
                "table" => self.table = Some(value()?.into()),
                "nhid" => self.object = Some(value()?.into()),
                "pref" => {
                    value()?;
                    self.six.get_or_insert(true);
                }
                "from" | "tos" | "dsfield" => {
                    value()?;
                    self.special = true;
                }
                "dead" => member.dead = true,
                "encap" => {
                    return Err("encap: a next hop in a tunnel, which no text can name".into());
                }
                word if WITH_WORD.contains(&word) => {
                    if value()? == "lock" {
                        value()?;
                    }
                }
                word if FLAGS.contains(&word) => {}
                word => return Err(format!("\"{}\" is no word of \"ip route\"", shown(word))),
            }
        }
        self.members.extend((!member.is_empty()).then_some(member));
        Ok(())
    }
}

fn number(word: &str, text: &str) -> Result<u32, String> {
    let wrong = |_| format!("\"{}\" after \"{word}\" is not a number", shown(text));
    text.parse().map_err(wrong)
}

/// The reader of lines.
#[derive(Debug, Default)]
pub(crate) struct IpRoute {
    /// The route whose next hops may follow.
    open: Option<Open>,
}

impl LineFormat for IpRoute {
    fn line(&mut self, line: &str, best: &mut Best) -> Result<(), String> {
        let mut words = line.split_ascii_whitespace().filter(|word| *word != "\\");
        let Some(first) = words.next() else {
            return Ok(());
        };
        if line.starts_with([' ', '\t']) {
            let added = match (&mut self.open, first) {
                (Some(open), "nexthop") => open.words(words),
                // The details of a route, or the rest of one that was refused.
                (_, "nexthop" | "cache") => return Ok(()),
                _ => Err(format!("\"{}\" is no word of a next hop", shown(first))),
            };
            if added.is_err() {
                self.open = None;
            }
            return added;
        }
        self.end(best)?;
        let mut open = Open::default();
        let is_kind =
            null_of(first).is_some() || first == "unicast" || OTHER_TYPES.contains(&first);
        let destination = match is_kind {
            true => {
                open.kind = Some(first.into());
                words.next().ok_or("nothing after the type of the route")?
            }
            false => first,
        };
        open.to(destination, best)?;
        open.words(words)?;
        self.open = Some(open);
        Ok(())
    }

    fn end(&mut self, best: &mut Best) -> Result<(), String> {
        self.open.take().map_or(Ok(()), |open| open.finish(best))
    }
}

/// Whether a line can only be one of `ip route`.
pub(crate) fn is_line(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    let Some(first) = words.next() else {
        return false;
    };
    let is_net = |text: &str| text == "default" || crate::text::parse_prefix(text).is_ok();
    if null_of(first).is_some() || OTHER_TYPES.contains(&first) || first == "unicast" {
        return words.next().is_some_and(is_net);
    }
    if line.starts_with([' ', '\t']) {
        return first == "nexthop"
            && words
                .next()
                .is_some_and(|word| word == "via" || word == "dev");
    }
    let (second, rest): (_, Vec<&str>) = (words.next(), words.collect());
    let known = |word: &&str| {
        let others = ["metric", "nexthop", "table", "pref", "dev"];
        others.contains(word) || WITH_WORD.contains(word) || FLAGS.contains(word)
    };
    is_net(first)
        && match second {
            Some("via") => rest
                .first()
                .is_some_and(|to| *to == "inet6" || to.parse::<IpAddr>().is_ok()),
            Some("dev") => rest.get(1).is_some_and(known),
            Some("nhid" | "metric" | "proto" | "scope" | "src") => rest.len() > 1,
            Some("nexthop" | "\\") => true,
            _ => false,
        }
}
