//! Records as they come, and as lines of a copy.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use domain::base::iana::Class;
use domain::base::name::ToName;
use domain::base::rdata::ComposeRecordData;
use domain::base::{Message, ParsedName, ParsedRecord};
use domain::rdata::ZoneRecordData;

use super::TransferError;
use crate::records;

pub const SOA: u16 = 6;

/// A record: its names are in lower case and not compressed.
pub struct Item {
    pub owner: Vec<u8>,
    pub rtype: u16,
    pub ttl: u32,
    pub data: Vec<u8>,
}

fn wrong(what: impl ToString) -> TransferError {
    TransferError::Wrong(what.to_string())
}

impl Item {
    /// Calls `each` with the records of a message's answer. All have to be in the zone.
    pub fn each(
        message: &Message<Vec<u8>>,
        apex: &impl ToName,
        mut each: impl FnMut(Item) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        for record in message.answer().map_err(wrong)? {
            each(Item::new(&record.map_err(wrong)?, apex)?)?;
        }
        Ok(())
    }

    fn new(record: &ParsedRecord<'_, Vec<u8>>, apex: &impl ToName) -> Result<Self, TransferError> {
        let owner = record.owner();
        if record.class() != Class::IN {
            return Err(wrong(format!("{owner} has the class {}", record.class())));
        }
        if !owner.ends_with(apex) {
            return Err(wrong(format!("{owner} is not in the zone")));
        }
        let rtype = record.rtype().to_int();
        // Options, signatures of messages, and types of questions are no part of a zone.
        if rtype == 0 || rtype == 41 || (249..=255).contains(&rtype) {
            return Err(wrong(format!("{owner} has the type {}", record.rtype())));
        }
        if rtype == SOA && !owner.name_eq(apex) {
            return Err(wrong(format!("{owner} has a SOA inside of the zone")));
        }
        let parsed = record.to_record::<ZoneRecordData<&[u8], ParsedName<&[u8]>>>();
        let parsed = parsed.map_err(|error| wrong(format!("a record of {owner}: {error}")))?;
        let parsed = parsed.ok_or_else(|| wrong(format!("a record of {owner} is not read")))?;
        let (mut name, mut data) = (Vec::new(), Vec::new());
        // Writing to a vector cannot fail.
        let _ = owner.compose_canonical(&mut name);
        let _ = parsed.data().compose_canonical_rdata(&mut data);
        Ok(Item {
            owner: name,
            rtype,
            ttl: record.ttl().as_secs(),
            data,
        })
    }

    /// What a SOA says.
    pub fn soa(&self) -> Option<Soa> {
        (self.rtype == SOA).then(|| Soa::new(&self.data)).flatten()
    }

    /// The parts of its line: name, time to live, and the rest.
    pub fn parts(&self) -> (String, u32, String) {
        let name = name_text(&self.owner);
        let data = &self.data;
        let rest = match (self.rtype, data.len()) {
            (1, 4) => <[u8; 4]>::try_from(&data[..])
                .map(|address| format!("A {}", Ipv4Addr::from(address)))
                .unwrap_or_default(),
            (28, 16) => <[u8; 16]>::try_from(&data[..])
                .map(|address| format!("AAAA {}", Ipv6Addr::from(address)))
                .unwrap_or_default(),
            (records::CNAME, _) => format!("CNAME {}", name_text(data)),
            (rtype, len) => {
                let mut rest = format!("TYPE{rtype} \\# {len} ");
                for byte in data {
                    let _ = write!(rest, "{byte:02x}");
                }
                rest
            }
        };
        (name, self.ttl, rest)
    }
}

/// The text of a name in wire form, in which every unusual byte is a number.
pub fn name_text(wire: &[u8]) -> String {
    let mut text = String::new();
    let mut rest = wire;
    while let [len @ 1..=63, behind @ ..] = rest {
        let (label, behind) = behind.split_at(behind.len().min(usize::from(*len)));
        for byte in label {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'*' => {
                    text.push(char::from(*byte));
                }
                _ => drop(write!(text, "\\{byte:03}")),
            }
        }
        text.push('.');
        rest = behind;
    }
    if text.is_empty() { ".".into() } else { text }
}

/// What a SOA says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Soa {
    /// Its data, for a question about changes.
    pub data: Vec<u8>,
    pub serial: u32,
    pub refresh: Duration,
    pub retry: Duration,
    pub expire: Duration,
}

impl Soa {
    /// Of the data of a record that was parsed before.
    pub fn new(data: &[u8]) -> Option<Self> {
        let numbers = data.len().checked_sub(20)?;
        let number = |at: usize| {
            let bytes = data.get(numbers + 4 * at..)?.first_chunk()?;
            Some(u32::from_be_bytes(*bytes))
        };
        let seconds = |at| number(at).map(|seconds| Duration::from_secs(seconds.into()));
        Some(Soa {
            data: data.into(),
            serial: number(0)?,
            refresh: seconds(1)?,
            retry: seconds(2)?,
            expire: seconds(3)?,
        })
    }
}

/// Whether a serial is later than another one (RFC 1982).
pub fn is_later(serial: u32, other: u32) -> bool {
    use domain::base::Serial;
    Serial(serial) > Serial(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_the_records_that_they_were() {
        let odd = b"\x05;\"$@(\x03a.b\x02*\\\x03rpz\0";
        for (rtype, data) in [
            (1, &[192, 0, 2, 1][..]),
            (
                28,
                &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
            ),
            (5, b"\0"),
            (5, b"\x01*\0"),
            (5, odd),
            (16, b"\x03;\" "),
            (65400, b""),
        ] {
            let item = Item {
                owner: odd.to_vec(),
                rtype,
                ttl: 60,
                data: data.to_vec(),
            };
            let (name, ttl, rest) = item.parts();
            let read = records::record(&format!("{name} {ttl} IN {rest}"), b"\0").unwrap();
            assert_eq!((read.owner, read.record.ttl), (item.owner, 60), "{rest}");
            assert_eq!(
                (read.record.rtype, read.record.data),
                (rtype, item.data),
                "{rest}"
            );
        }
    }

    #[test]
    fn serials_go_around() {
        for (a, b) in [(2, 1), (0, u32::MAX), (0x7fff_ffff, 0), (5, 0xffff_fff0)] {
            assert!(is_later(a, b) && !is_later(b, a), "{a} {b}");
        }
        assert!(!is_later(7, 7));
        assert!(!is_later(0x8000_0000, 0) && !is_later(0, 0x8000_0000));
    }

    #[test]
    fn a_soa_has_five_numbers() {
        let mut data = b"\0\0".to_vec();
        for number in [7_u32, 60, 30, 900, 5] {
            data.extend_from_slice(&number.to_be_bytes());
        }
        let soa = Soa::new(&data).unwrap();
        assert_eq!((soa.serial, soa.refresh.as_secs()), (7, 60));
        assert_eq!((soa.retry.as_secs(), soa.expire.as_secs()), (30, 900));
        assert!(Soa::new(&data[..19]).is_none());
    }
}
