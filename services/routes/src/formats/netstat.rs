//! The text of `route -n`, `route -6 -n` and `netstat -rn`.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use sapwood::lpm::NullRoute;

use super::ip_route::NOT_UNICAST;
use crate::best::{Best, LineFormat};
use crate::hop::{Hop, hop_name};
use crate::text::{length_of, shown};

/// What the columns are, by the last line of headings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Columns {
    Four { has_metric: bool },
    Six,
}

/// The reader of lines.
#[derive(Debug, Default)]
pub(crate) struct Netstat {
    columns: Option<Columns>,
}

/// The columns that a line of headings names.
pub(crate) fn headings(line: &str) -> Option<Columns> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    match words[..] {
        ["Destination", "Gateway", "Genmask", "Flags", fourth, ..] => Some(Columns::Four {
            has_metric: fourth == "Metric",
        }),
        [
            "Destination",
            "Next",
            "Hop",
            "Flag" | "Flags",
            "Met" | "Metric",
            ..,
        ] => Some(Columns::Six),
        _ => None,
    }
}

impl LineFormat for Netstat {
    fn line(&mut self, line: &str, best: &mut Best) -> Result<(), String> {
        if let Some(columns) = headings(line) {
            self.columns = Some(columns);
            return Ok(());
        }
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        if words.is_empty() || line.starts_with("Kernel IP") {
            return Ok(());
        }
        match (self.columns, &words[..]) {
            (None, _) => Err("no line of headings comes before it".into()),
            (
                Some(Columns::Four { has_metric }),
                [to, gateway, mask, flags, fourth, _, _, device],
            ) => {
                let metric = if has_metric { *fourth } else { "0" };
                let to = match *to {
                    "default" => "0.0.0.0",
                    to => to,
                };
                let mask = mask.parse().ok().and_then(length_of);
                let mask =
                    mask.ok_or_else(|| format!("\"{}\" is not a netmask", shown(words[2])))?;
                let net = best.net(&format!("{to}/{mask}"))?;
                route(net, gateway, flags, metric, device, best)
            }
            (Some(Columns::Six), [to, gateway, flags, metric, .., device]) => {
                let to = match *to {
                    "default" | "[::]/0" => "::/0",
                    to => to,
                };
                let net = best.net(to)?;
                route(net, gateway, flags, metric, device, best)
            }
            (Some(_), words) => Err(format!("{} columns", words.len())),
        }
    }

    fn end(&mut self, _: &mut Best) -> Result<(), String> {
        Ok(())
    }
}

fn route(
    net: IpNet,
    gateway: &str,
    flags: &str,
    metric: &str,
    device: &str,
    best: &mut Best,
) -> Result<(), String> {
    // The kernel's own end of the IPv6 table, local addresses and groups of receivers.
    let is_local = flags.contains('n') && !flags.contains('!');
    if metric == "-1" || is_local || net.addr().is_multicast() {
        best.remarks.note(NOT_UNICAST);
        return Ok(());
    }
    let metric = metric.parse();
    let metric = metric.map_err(|_| "its metric is not a number".to_owned())?;
    if flags.contains('!') {
        best.remarks
            .note("rejecting routes, which are unreachable or prohibit (IPv6: any null route)");
        best.offer(net, metric, Hop::Null(NullRoute::Unreachable));
        return Ok(());
    }
    if device == "*" {
        best.remarks
            .note("routes without an interface, which are blackhole or throw: taken as blackhole");
        best.offer(net, metric, Hop::Null(NullRoute::Blackhole));
        return Ok(());
    }
    let to: IpAddr = match gateway {
        "*" => Ipv4Addr::UNSPECIFIED.into(),
        // IPv6 addresses are in brackets in some versions.
        text => {
            let text = text.trim_matches(['[', ']']);
            let wrong = |_| format!("\"{}\" is not the address of a gateway", shown(text));
            text.parse().map_err(wrong)?
        }
    };
    let gateway = (!to.is_unspecified()).then_some(to);
    if gateway.is_none() && flags.contains('G') {
        return Err("its gateway is not shown; \"ip route\" shows IPv6 gateways of IPv4".into());
    }
    best.offer(net, metric, Hop::Name(hop_name(gateway, Some(device))));
    Ok(())
}
