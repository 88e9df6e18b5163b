//! The text of `show ip bgp` and `show bgp ipv6 unicast`, of FRR, Quagga and others.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;

use crate::best::{Best, LineFormat};
use crate::hop::Hop;
use crate::text::shown;

/// The remark on prefixes that BGP does not use.
pub(crate) const NO_BEST: &str = "prefixes without a best path";

/// Where the columns begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    network: usize,
}

/// The columns that a line of headings names.
pub(crate) fn headings(line: &str) -> Option<Columns> {
    let network = line.find("Network")?;
    let is_bgp = line.contains("Next Hop") && line.contains("Path");
    (is_bgp && line[..network].trim().is_empty()).then_some(Columns { network })
}

/// The reader of lines.
#[derive(Debug, Default)]
pub(crate) struct ShowBgp {
    columns: Option<Columns>,
    net: Option<IpNet>,
    /// The status of a path whose next hop is on the next line.
    waiting: Option<String>,
    /// The next hops of the best path and of those used beside it, as they were read.
    used: Vec<String>,
    has_best: bool,
}

impl ShowBgp {
    fn path(&mut self, status: &str, next_hop: &str) -> Result<(), String> {
        // In front of the status may be the result of a validation, and "@" and "<" behind.
        let is_best = status.contains('>');
        if !is_best && !status.contains('=') {
            return Ok(());
        }
        let text = next_hop.split(['@', '<', '(']).next().unwrap_or_default();
        let address: IpAddr = text.parse().map_err(|_| {
            let text = shown(next_hop);
            format!("\"{text}\" is not the address of a next hop")
        })?;
        let name = match address.is_unspecified() {
            true => String::new(),
            false => address.to_string(),
        };
        self.has_best |= is_best;
        self.used.push(name);
        Ok(())
    }
}

impl LineFormat for ShowBgp {
    fn line(&mut self, line: &str, best: &mut Best) -> Result<(), String> {
        if let Some(columns) = headings(line) {
            self.end(best)?;
            self.columns = Some(columns);
            return Ok(());
        }
        let Some(Columns { network }) = self.columns else {
            // What comes before the headings.
            return Ok(());
        };
        if line.trim().is_empty() {
            return Ok(());
        }
        // Behind the routes of a table: their number, or the beginning of the next table.
        if line.starts_with(|first: char| first.is_ascii_alphabetic()) && is_text(line) {
            self.end(best)?;
            self.columns = None;
            return Ok(());
        }
        let (status, rest) = match line.split_at_checked(network) {
            Some(parts) => parts,
            None => return Err("it ends before the column of networks".into()),
        };
        let mut words = rest.split_ascii_whitespace();
        if !rest.starts_with([' ', '\t']) {
            self.end(best)?;
            let text = words.next().unwrap_or_default();
            self.net = Some(classful(text).map_or_else(|| best.net(text), Ok)?);
        } else if let Some(status) = self.waiting.take() {
            let next_hop = words.next().unwrap_or_default();
            return self.path(&status, next_hop);
        } else if status.trim().is_empty() {
            // The rest of a path whose next hop was long.
            return Ok(());
        }
        if self.net.is_none() {
            return Err("a path without a network before it".into());
        }
        match words.next() {
            Some(next_hop) => self.path(status, next_hop),
            None => {
                self.waiting = Some(status.into());
                Ok(())
            }
        }
    }

    fn end(&mut self, best: &mut Best) -> Result<(), String> {
        let used = std::mem::take(&mut self.used);
        let (waiting, has_best) = (self.waiting.take(), std::mem::take(&mut self.has_best));
        let Some(net) = self.net.take() else {
            return Ok(());
        };
        let hop = Hop::of_members(used.into_iter().map(|name| (name, 1)));
        match hop.filter(|_| has_best) {
            Some(hop) => best.offer(net, 0, hop),
            None if waiting.is_some() => return Err(format!("{net} has no next hop")),
            None => best.remarks.note(NO_BEST),
        }
        Ok(())
    }
}

/// Whether a line is a sentence, and no line of a table.
fn is_text(line: &str) -> bool {
    let begins = [
        "Displayed",
        "Total",
        "BGP ",
        "Default ",
        "Status ",
        "Route ",
        "For address",
    ];
    begins.iter().any(|begin| line.starts_with(begin))
}

/// A network without a length has that of its class.
fn classful(text: &str) -> Option<IpNet> {
    let address: Ipv4Addr = text.parse().ok()?;
    let length = match address.octets()[0] {
        0 if address.is_unspecified() => 0,
        0..=127 => 8,
        128..=191 => 16,
        192..=223 => 24,
        _ => return None,
    };
    let net = IpNet::new(address.into(), length).ok()?;
    (net.addr() == net.network()).then_some(net)
}
