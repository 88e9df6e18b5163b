//! Sets of addresses as texts.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;

use ipnet::IpNet;

use super::IpSet;

/// Why something is not a set of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetError {
    /// The ends of a range are of different families.
    #[error("{first} and {last} are of different families")]
    Families {
        /// The first address.
        first: IpAddr,
        /// The last address.
        last: IpAddr,
    },
    /// The last address of a range is before its first.
    #[error("{last} is before {first}")]
    Backwards {
        /// The first address.
        first: IpAddr,
        /// The last address.
        last: IpAddr,
    },
    /// A line of a text is neither a prefix nor an address nor a range.
    #[error("line {line}: {what}")]
    Line {
        /// The number of the line, from 1 on.
        line: usize,
        /// What is wrong.
        what: String,
    },
}

/// A part of a text in a message.
fn shown(text: &str) -> String {
    text.escape_debug().take(60).collect()
}

fn address(text: &str) -> Result<IpAddr, String> {
    let text = text.trim();
    let parsed = text.parse();
    parsed.map_err(|_| alloc::format!("\"{}\" is not an address", shown(text)))
}

/// The ends of what a line has.
fn line(text: &str) -> Result<(IpAddr, IpAddr), String> {
    if let Some((first, last)) = text.split_once('-') {
        return Ok((address(first)?, address(last)?));
    }
    if !text.contains('/') {
        let address = text.parse::<IpAddr>().map_err(|_| {
            alloc::format!("\"{}\" is not a prefix, an address or a range", shown(text))
        })?;
        return Ok((address, address));
    }
    let net: IpNet =
        (text.parse()).map_err(|_| alloc::format!("\"{}\" is not a prefix", shown(text)))?;
    if net != net.trunc() {
        return Err(alloc::format!(
            "{net} has bits set after its length; {} may be meant",
            net.trunc()
        ));
    }
    Ok((net.network(), net.broadcast()))
}

/// A text with a prefix, an address or a range (`192.0.2.1-192.0.2.9`) in each line. Empty lines
/// are skipped, and a # begins a comment.
///
/// O(n log n) for n lines.
impl FromStr for IpSet {
    type Err = SetError;

    fn from_str(text: &str) -> Result<Self, SetError> {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (number, text) in (1..).zip(text.lines()) {
            let text = text.split('#').next().unwrap_or_default().trim();
            if text.is_empty() {
                continue;
            }
            let wrong = |what| SetError::Line { line: number, what };
            let (first, last) = line(text).map_err(wrong)?;
            match (first, last) {
                (IpAddr::V4(first), IpAddr::V4(last)) if first <= last => v4.push(first..=last),
                (IpAddr::V6(first), IpAddr::V6(last)) if first <= last => v6.push(first..=last),
                (IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_)) => {
                    return Err(wrong(SetError::Backwards { first, last }.to_string()));
                }
                _ => return Err(wrong(SetError::Families { first, last }.to_string())),
            }
        }
        let v4 = super::Ipv4Set::from_ranges(v4);
        Ok(IpSet::from_sets(v4, super::Ipv6Set::from_ranges(v6)))
    }
}

/// The fewest prefixes, a line each: a text that [`IpSet::from_str`] reads again.
impl fmt::Display for IpSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.prefixes().try_for_each(|net| writeln!(f, "{net}"))
    }
}
