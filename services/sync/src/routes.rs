//! Routes, as a log has them: a prefix with one next hop, or with a group of them.
//!
//! | bytes | key |
//! |---|---|
//! | 0 | 4 or 6 |
//! | 1 to 4, or 1 to 16 | the prefix's address |
//! | last | its length in bits |
//!
//! So the order of keys is the order of prefixes: IPv4 first, by address, the shorter one first.
//!
//! | bytes | value |
//! |---|---|
//! | 0 | 1: one next hop; 2: a group |
//! | 1 … | the text of the one next hop; or the members of the group, and then its backups |
//!
//! Members and backups are a count, and for each its weight, the bytes of its text, and the text.
//! These numbers have seven bits a byte, the lowest ones first, the highest bit saying that more
//! follow. Members are in ascending order of texts, and none comes twice. A text is UTF-8 without
//! control characters. One route has one value only, so digests of equal tables are equal: other
//! bytes are refused.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::Error;
use crate::changes::{push_number, take_bytes, take_number};

/// The key of a prefix. Bits of the address after the prefix do not count.
pub fn key(net: IpNet) -> Vec<u8> {
    let net = net.trunc();
    let mut key = match net.addr() {
        IpAddr::V4(addr) => [&[4][..], &addr.octets()].concat(),
        IpAddr::V6(addr) => [&[6][..], &addr.octets()].concat(),
    };
    key.push(net.prefix_len());
    key
}

/// The prefix of a key.
///
/// ```
/// use sapwood_sync::routes;
///
/// let key = routes::key("10.1.0.0/16".parse()?);
/// assert_eq!(key, [4, 10, 1, 0, 0, 16]);
/// assert_eq!(routes::prefix(&key)?.to_string(), "10.1.0.0/16");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Change`] when the bytes are no such key.
pub fn prefix(key: &[u8]) -> Result<IpNet, Error> {
    let parts = key.split_first().and_then(|(family, rest)| {
        let (length, addr) = rest.split_last()?;
        let addr: IpAddr = match family {
            4 => Ipv4Addr::from(<[u8; 4]>::try_from(addr).ok()?).into(),
            6 => Ipv6Addr::from(<[u8; 16]>::try_from(addr).ok()?).into(),
            _ => return None,
        };
        IpNet::new(addr, *length).ok()
    });
    let net = parts.filter(|net| net.trunc() == *net);
    net.ok_or_else(|| {
        let shown = key[..key.len().min(20)].escape_ascii();
        Error::Change(format!("the key \"{shown}\" is not that of a prefix"))
    })
}

/// The next hops of a route, with their weights, in ascending order of texts.
type Weighted = Vec<(Box<str>, u32)>;

/// The next hops of a route: one text, or a group of texts with weights, and backups that take the
/// flows while no member can.
///
/// ```
/// use sapwood_sync::routes::Hops;
///
/// let one = Hops::one("192.0.2.1")?;
/// assert_eq!(one.text(), Some("192.0.2.1"));
/// let group = Hops::group([("192.0.2.1", 2), ("192.0.2.2", 1)], [("198.51.100.1", 1)])?;
/// assert_eq!(group.text(), None);
/// assert_eq!(Hops::from_value(&group.to_value())?, group);
/// # Ok::<(), sapwood_sync::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Hops {
    members: Weighted,
    backups: Weighted,
}

impl Hops {
    /// One next hop.
    ///
    /// # Errors
    /// [`Error::Change`] for a text with control characters.
    pub fn one(text: impl AsRef<str>) -> Result<Self, Error> {
        Self::group([(text, 1)], [])
    }

    /// A group of members with weights, and its backups.
    ///
    /// # Errors
    /// [`Error::Change`] for a text with control characters, and for one that comes twice among the
    /// members or among the backups.
    pub fn group<T: AsRef<str>>(
        members: impl IntoIterator<Item = (T, u32)>,
        backups: impl IntoIterator<Item = (T, u32)>,
    ) -> Result<Self, Error> {
        Ok(Hops {
            members: in_order(members)?,
            backups: in_order(backups)?,
        })
    }

    /// The text of the one next hop of weight 1; `None` for a group.
    pub fn text(&self) -> Option<&str> {
        match (&self.members[..], &self.backups[..]) {
            ([(text, 1)], []) => Some(text),
            _ => None,
        }
    }

    /// The members with their weights, in ascending order of texts.
    pub fn members(&self) -> impl ExactSizeIterator<Item = (&str, u32)> {
        self.members.iter().map(|(text, weight)| (&**text, *weight))
    }

    /// The backups with their weights, in ascending order of texts.
    pub fn backups(&self) -> impl ExactSizeIterator<Item = (&str, u32)> {
        self.backups.iter().map(|(text, weight)| (&**text, *weight))
    }

    /// The value of a route with these next hops.
    pub fn to_value(&self) -> Vec<u8> {
        if let Some(text) = self.text() {
            return [&[1], text.as_bytes()].concat();
        }
        let mut value = vec![2];
        for hops in [&self.members, &self.backups] {
            push_number(&mut value, hops.len() as u64);
            for (text, weight) in hops {
                push_number(&mut value, (*weight).into());
                push_number(&mut value, text.len() as u64);
                value.extend_from_slice(text.as_bytes());
            }
        }
        value
    }

    /// The next hops in a value.
    ///
    /// # Errors
    /// [`Error::Change`] for bytes that [`to_value`](Self::to_value) does not make.
    pub fn from_value(value: &[u8]) -> Result<Self, Error> {
        let bad = |what: &str| Error::Change(format!("the value of a route: {what}"));
        let hops = match value.split_first() {
            Some((1, text)) => {
                let text = check_text(text).map_err(|what| bad(&format!("its next hop {what}")))?;
                Hops::one(text)?
            }
            Some((2, mut rest)) => {
                let mut both = [Vec::new(), Vec::new()];
                for hops in &mut both {
                    *hops = take_hops(&mut rest).ok_or_else(|| bad("it is no group"))?;
                }
                let [members, backups] = both;
                Hops::group(members, backups)?
            }
            _ => return Err(bad("neither a next hop nor a group")),
        };
        match hops.to_value() == value {
            true => Ok(hops),
            false => Err(bad("it could be written in another way, or has more bytes")),
        }
    }
}

/// Sorts the next hops of a group.
fn in_order<T: AsRef<str>>(hops: impl IntoIterator<Item = (T, u32)>) -> Result<Weighted, Error> {
    let mut all = Weighted::new();
    for (text, weight) in hops {
        let text = text.as_ref();
        check_text(text.as_bytes()).map_err(|what| {
            Error::Change(format!("the next hop \"{}\" {what}", text.escape_debug()))
        })?;
        all.push((text.into(), weight));
    }
    all.sort();
    match all.windows(2).find(|two| two[0].0 == two[1].0) {
        None => Ok(all),
        Some(two) => Err(Error::Change(format!(
            "the next hop \"{}\" comes twice in a group",
            two[0].0
        ))),
    }
}

/// Takes members or backups from the front; `None` when the bytes are none.
fn take_hops(from: &mut &[u8]) -> Option<Vec<(String, u32)>> {
    let count = take_number(from)?;
    let mut hops = Vec::new();
    for _ in 0..count {
        let weight = take_number(from)?.try_into().ok()?;
        let bytes = take_number(from)?;
        let text = std::str::from_utf8(take_bytes(from, bytes)?).ok()?;
        hops.push((text.to_owned(), weight));
    }
    Some(hops)
}

/// A text of a list, as the log has it; or what is wrong with it.
pub(crate) fn check_text(text: &[u8]) -> Result<&str, &'static str> {
    let text = std::str::from_utf8(text).map_err(|_| "is not UTF-8")?;
    match text.contains(|c: char| c.is_control()) {
        true => Err("has a control character"),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group() -> Hops {
        Hops::group([("b", 300), ("a", 1)], [("c", 0)]).unwrap()
    }

    #[test]
    fn golden() {
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        assert_eq!(key(net("10.1.0.0/16")), [4, 10, 1, 0, 0, 16]);
        assert_eq!(key(net("10.1.2.3/16")), [4, 10, 1, 0, 0, 16]);
        assert_eq!(key(net("0.0.0.0/0")), [4, 0, 0, 0, 0, 0]);
        let mut v6 = [0; 18];
        (v6[0], v6[1], v6[2], v6[3], v6[4], v6[17]) = (6, 0x20, 1, 0xd, 0xb8, 32);
        assert_eq!(key(net("2001:db8::/32")), v6);
        assert_eq!(Hops::one("192.0.2.1").unwrap().to_value(), b"\x01192.0.2.1");
        assert_eq!(Hops::one("").unwrap().to_value(), b"\x01");
        let bytes = b"\x02\x02\x01\x01a\xac\x02\x01b\x01\x00\x01c";
        assert_eq!(group().to_value(), bytes);
        assert_eq!(Hops::from_value(bytes).unwrap(), group());
        let heavy = Hops::group([("a", 2)], []).unwrap();
        assert_eq!(heavy.to_value(), b"\x02\x01\x02\x01a\x00");
        assert_eq!(Hops::from_value(&heavy.to_value()).unwrap().text(), None);
        let none = Hops::group::<&str>([], []).unwrap();
        assert_eq!(Hops::from_value(b"\x02\x00\x00").unwrap(), none);
    }

    #[test]
    fn keys_are_in_the_order_of_prefixes() {
        let ordered = [
            "0.0.0.0/0",
            "10.0.0.0/8",
            "10.0.0.0/9",
            "10.0.0.0/32",
            "10.0.1.0/24",
            "11.0.0.0/8",
            "255.255.255.255/32",
            "::/0",
            "2001:db8::/32",
            "2001:db8::/128",
            "2001:db8:1::/48",
        ];
        let keys = ordered.map(|net| key(net.parse().unwrap()));
        assert!(keys.is_sorted());
        for (key, net) in keys.iter().zip(ordered) {
            assert_eq!(prefix(key).unwrap().to_string(), net);
        }
    }

    #[test]
    fn other_bytes_are_no_routes() {
        let bad: [&[u8]; 7] = [
            b"",
            &[4],
            &[4, 10, 0, 0, 0],
            &[4, 10, 0, 0, 0, 33],
            &[4, 10, 0, 0, 1, 8],
            &[5, 10, 0, 0, 0, 8],
            &[4; 18],
        ];
        for key in bad {
            let error = prefix(key).unwrap_err().to_string();
            assert!(error.contains("is not that of a prefix"), "{error}");
        }
        let bad: [(&[u8], &str); 10] = [
            (b"", "neither a next hop nor a group"),
            (b"\x03a", "neither a next hop nor a group"),
            (b"\x01a\n", "control character"),
            (b"\x01\xff", "is not UTF-8"),
            (b"\x02\x01\x01\x01a\x00", "another way"),
            (b"\x02\x02\x01\x01b\x01\x01a\x00", "another way"),
            (b"\x02\x02\x01\x01a\x02\x01a\x00", "comes twice"),
            (b"\x02\x01\x82\x00\x01a\x00", "another way"),
            (b"\x02\xff\xff\xff\xff\x0f", "is no group"),
            (b"\x02\x01\xff\xff\xff\xff\xff\x01\x01a\x00", "is no group"),
        ];
        for (value, says) in bad {
            let error = Hops::from_value(value).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        // Every cut and every flipped bit is refused, or is the one value of other next hops.
        let bytes = group().to_value();
        for end in 0..bytes.len() {
            assert!(Hops::from_value(&bytes[..end]).is_err(), "{end}");
        }
        for bit in 0..8 * bytes.len() {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            if let Ok(hops) = Hops::from_value(&other) {
                assert_ne!(hops, group());
                assert_eq!(hops.to_value(), other);
            }
        }
        assert!(Hops::one("a\tb").is_err());
    }
}
