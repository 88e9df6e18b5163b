//! Records in the text of zone files, read by the crate `domain`.

use std::net::IpAddr;

use domain::base::iana::Class as DnsClass;
use domain::base::name::ToName;
use domain::base::rdata::ComposeRecordData;
use domain::base::{Name, Rtype};
use domain::dep::octseq::OctetsInto;
use domain::zonefile::inplace::{Entry, Zonefile};
use sapwood::key::dns_name_from_wire;

use crate::rule::{Action, Record};

/// The number of the type of aliases.
pub const CNAME: u16 = 5;

/// A record and the name that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRecord {
    /// The name in wire form.
    pub owner: Vec<u8>,
    /// The record.
    pub record: Record,
}

impl OwnedRecord {
    /// What a rule does that answers with this record.
    ///
    /// # Errors
    /// The fault of the data.
    pub fn action(self) -> Result<Action, String> {
        if self.record.rtype == CNAME {
            let key = dns_name_from_wire(&self.record.data);
            return key.map(Action::Name).map_err(|error| error.to_string());
        }
        Ok(match self.record.address() {
            Some(address) => Action::Addresses(vec![address]),
            None => Action::Records(vec![self.record]),
        })
    }
}

/// The wire form of a name in text, which is relative to an origin in wire form.
///
/// # Errors
/// What is wrong.
pub fn name(text: &str, origin: &[u8]) -> Result<Vec<u8>, String> {
    // A record has everything that a name in a zone file may have.
    Ok(record(&format!("{text} 0 IN NULL \\# 0"), origin)?.owner)
}

/// Reads one record. Names in it are relative to an origin in wire form.
///
/// # Errors
/// What is wrong.
pub fn record(text: &str, origin: &[u8]) -> Result<OwnedRecord, String> {
    let mut zone = Zonefile::with_capacity(text.len() + 1);
    zone.extend_from_slice(text.as_bytes());
    zone.extend_from_slice(b"\n");
    zone.set_default_class(DnsClass::IN);
    let origin = Name::from_octets(origin.to_vec()).map_err(|error| error.to_string())?;
    zone.set_origin(origin.octets_into());
    let entry = zone.next_entry().map_err(|error| {
        // Its place is that in this text alone.
        let what = error.to_string();
        what.split_once(' ')
            .map_or(what.clone(), |(_, what)| what.into())
    })?;
    let Some(Entry::Record(record)) = entry else {
        return Err("it is no record".into());
    };
    if record.class() != DnsClass::IN {
        return Err(format!("the class is {}, not IN", record.class()));
    }
    let mut data = Vec::new();
    // Writing to a vector cannot fail.
    let _ = record.data().compose_rdata(&mut data);
    Ok(OwnedRecord {
        owner: record.owner().to_vec().as_slice().to_vec(),
        record: Record {
            rtype: record.rtype().to_int(),
            ttl: record.ttl().as_secs(),
            data,
        },
    })
}

/// The number of a type of records, such as `AAAA` or `TYPE65`.
///
/// O(1).
///
/// ```
/// assert_eq!(sapwood_lists::record_type("aaaa"), Ok(28));
/// ```
///
/// # Errors
/// It is none.
pub fn rtype(word: &str) -> Result<u16, String> {
    let found = word.to_ascii_uppercase().parse::<Rtype>();
    found
        .map(Rtype::to_int)
        .map_err(|_| format!("\"{}\" is no type of records", word.escape_debug()))
}

/// Whether an address leads nowhere or to the machine itself: lists block names with it.
pub fn is_null(address: IpAddr) -> bool {
    address.is_unspecified() || address.is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: &[u8] = b"\x03rpz\0";

    #[test]
    fn records_are_read_as_they_are_sent() {
        for (text, owner, rtype, ttl, data) in [
            (
                "a 60 IN A 192.0.2.1",
                &b"\x01a\x03rpz\0"[..],
                1,
                60,
                &[192, 0, 2, 1][..],
            ),
            (
                "A.Example. IN 60 CNAME .",
                b"\x01A\x07Example\0",
                5,
                60,
                b"\0",
            ),
            ("@ CNAME *.", b"\x03rpz\0", 5, 3600, b"\x01*\0"),
            (
                "*.a 1 TXT \"x y\" ( z\n )",
                b"\x01*\x01a\x03rpz\0",
                16,
                1,
                b"\x03x y\x01z",
            ),
            (
                "a 1 MX 10 b",
                b"\x01a\x03rpz\0",
                15,
                1,
                b"\0\x0a\x01b\x03rpz\0",
            ),
            (
                r"a\.b. 1 A 192.0.2.1 ; note",
                b"\x03a.b\0",
                1,
                1,
                &[192, 0, 2, 1],
            ),
            (
                "a 1 TYPE65400 \\# 2 0a0b",
                b"\x01a\x03rpz\0",
                65400,
                1,
                b"\x0a\x0b",
            ),
        ] {
            let found = record(text, ORIGIN).unwrap();
            let record = Record {
                rtype,
                ttl,
                data: data.to_vec(),
            };
            let owner = owner.to_vec();
            assert_eq!(found, OwnedRecord { owner, record }, "{text}");
        }
        for wrong in [
            "",
            "a",
            "a 60 IN A",
            "a 60 IN A 192.0.2",
            "a CH TXT x",
            "a NOTYPE x",
            "a 1 A 1.2.3.4 x",
        ] {
            let error = record(wrong, ORIGIN).unwrap_err();
            assert!(!error.is_empty(), "{wrong}");
        }
        assert_eq!(name("x", ORIGIN).unwrap(), b"\x01x\x03rpz\0");
        assert_eq!(name("x.", ORIGIN).unwrap(), b"\x01x\0");
        assert!(name("x y", ORIGIN).is_err());
    }

    #[test]
    fn records_become_actions() {
        let action = |text| record(text, ORIGIN).unwrap().action().unwrap();
        assert_eq!(action("a A 192.0.2.1").to_string(), "addresses 192.0.2.1");
        assert_eq!(action("a AAAA ::1").to_string(), "addresses ::1");
        assert_eq!(
            action("a CNAME *.b.example.").to_string(),
            "name *.b.example"
        );
        assert_eq!(action("a TXT hi").to_string(), "records TXT \\# 3 026869");
    }

    #[test]
    fn types_have_numbers() {
        assert_eq!(rtype("aaaa"), Ok(28));
        assert_eq!(rtype("TYPE65"), Ok(65));
        assert_eq!(rtype("HTTPS"), Ok(65));
        assert!(rtype("x").is_err());
    }
}
