//! Validated payloads of the RPKI, and the validation of routes by them (RFC 6811).

use std::collections::BTreeMap;
use std::fmt;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use sapwood::lpm::{Error, IpFib, IpFibView};
use serde_json::Value;

/// A payload beside its prefix: who may originate it, and down to which length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Payload {
    /// The autonomous system.
    pub origin: u32,
    /// The longest prefix that it may announce.
    pub max_length: u8,
}

/// What the payloads say of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A payload that covers the route has its origin, and allows its length.
    Valid,
    /// Payloads cover the route, and none of them allows it.
    Invalid,
    /// No payload covers the route.
    NotFound,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            State::Valid => "valid",
            State::Invalid => "invalid",
            State::NotFound => "not-found",
        })
    }
}

/// All payloads by prefix. Equal lists of payloads are stored once.
pub type Payloads = IpFib<Box<[Payload]>>;

/// The state of a route. `None` for an origin that is no single system: a set of them.
///
/// One walk over the prefixes that cover the route, and over their payloads.
pub fn state(payloads: &IpFibView<'_, Box<[Payload]>>, route: IpNet, origin: Option<u32>) -> State {
    match route {
        IpNet::V4(net) => {
            let covering = payloads.v4().covering(net);
            by(covering.map(|(_, list)| list), route.prefix_len(), origin)
        }
        IpNet::V6(net) => {
            let covering = payloads.v6().covering(net);
            by(covering.map(|(_, list)| list), route.prefix_len(), origin)
        }
    }
}

fn by<'g>(
    covering: impl Iterator<Item = &'g Box<[Payload]>>,
    length: u8,
    origin: Option<u32>,
) -> State {
    let mut state = State::NotFound;
    for list in covering {
        state = State::Invalid;
        let allowed = |payload: &Payload| {
            // System 0 originates nothing: its payloads say that nobody may.
            Some(payload.origin) == origin && payload.origin != 0 && length <= payload.max_length
        };
        if list.iter().any(allowed) {
            return State::Valid;
        }
    }
    state
}

/// Makes the table of payloads.
pub fn table(all: &[(IpNet, Payload)]) -> Result<Payloads, Error> {
    let (mut v4, mut v6): (BTreeMap<Ipv4Net, Vec<_>>, BTreeMap<Ipv6Net, Vec<_>>) =
        Default::default();
    for (net, payload) in all {
        match net {
            IpNet::V4(net) => v4.entry(*net).or_default().push(*payload),
            IpNet::V6(net) => v6.entry(*net).or_default().push(*payload),
        }
    }
    let list = |mut list: Vec<Payload>| {
        list.sort_unstable();
        list.dedup();
        list.into_boxed_slice()
    };
    let v4 = v4.into_iter().map(|(net, all)| (IpNet::V4(net), list(all)));
    let v6 = v6.into_iter().map(|(net, all)| (IpNet::V6(net), list(all)));
    IpFib::builder().build_from(v4.chain(v6))
}

/// Reads payloads in the form of Routinator, rpki-client and others:
/// `{"roas": [{"asn": "AS64496", "prefix": "192.0.2.0/24", "maxLength": 24, "ta": "…"}]}`. A system
/// may be a number, and a payload without `maxLength` allows the length of its prefix.
pub fn read(json: &[u8]) -> Result<Vec<(IpNet, Payload)>, String> {
    let document: Value = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    let roas = document.get("roas").and_then(Value::as_array);
    let roas = roas.ok_or("it has no list \"roas\"")?;
    let payload = |(place, roa)| payload(roa).map_err(|what| format!("roas[{place}]: {what}"));
    roas.iter().enumerate().map(payload).collect()
}

fn payload(roa: &Value) -> Result<(IpNet, Payload), String> {
    let prefix = roa.get("prefix").and_then(Value::as_str);
    let prefix = prefix.ok_or("it has no text \"prefix\"")?;
    let net: IpNet = (prefix.parse()).map_err(|_| format!("{prefix:?} is not a prefix"))?;
    if net != net.trunc() {
        return Err(format!("{net} has bits set after its length"));
    }
    let origin = match roa.get("asn") {
        Some(Value::Number(number)) => number.as_u64().and_then(|n| u32::try_from(n).ok()),
        Some(Value::String(text)) => system(text),
        _ => None,
    };
    let origin = origin.ok_or("\"asn\" is no number of a system such as \"AS64496\"")?;
    let (least, most) = (net.prefix_len(), net.max_prefix_len());
    let max_length = match roa.get("maxLength") {
        None | Some(Value::Null) => least,
        Some(given) => {
            let length = given.as_u64().and_then(|n| u8::try_from(n).ok());
            let fits = length.filter(|length| (least..=most).contains(length));
            fits.ok_or_else(|| format!("maxLength {given} of {net} is not {least} to {most}"))?
        }
    };
    Ok((net, Payload { origin, max_length }))
}

/// The number of a system: `AS64496` or `64496`.
pub fn system(text: &str) -> Option<u32> {
    let digits = match text.get(..2) {
        Some(mark) if mark.eq_ignore_ascii_case("as") => &text[2..],
        _ => text,
    };
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten()
}
