//! Reads routes of MRT table dumps: the unicast RIBs of `TABLE_DUMP_V2` (RFC 6396, RFC 8050).
//!
//! bgpkit-parser reads the records, the table of peers, and the attributes of the one entry that is
//! wanted. This module walks from entry to entry itself, for two reasons: an entry that is cut off
//! must be an error, but bgpkit-parser leaves out the rest; and of the twenty to sixty entries that
//! a prefix has in public dumps, only one is needed.

use std::fmt::Write;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bgpkit_parser::models::{
    Afi, AsnLength, EntryType, MrtMessage, NetworkPrefix, Safi, TableDumpV2Message, TableDumpV2Type,
};
use bgpkit_parser::parser::bgp::attributes::parse_attributes;
use bgpkit_parser::{ParserError, RawMrtRecord, chunk_mrt_record};
use ipnet::IpNet;

use crate::{Error, Place, Route, RouteSource};

/// How many peers the error names when the dump does not have the wanted one.
const NAMED: usize = 12;

/// The peer whose routes are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Peer {
    /// Take the first entry of every prefix, of any peer.
    #[default]
    First,
    /// Take the entries of the peer with this address, and skip prefixes without one.
    Address(IpAddr),
}

/// Reads the routes of an MRT table dump.
#[derive(Debug)]
pub struct MrtRoutes<R> {
    input: R,
    peer: Peer,
    /// The indexes of the wanted peer, after the table of peers was read.
    wanted: Option<Vec<u16>>,
    record: u64,
    /// Where the current record begins, in bytes from the beginning of the input.
    from: u64,
    /// Where the current record ends.
    to: u64,
    next_hop: String,
    origin: Option<u32>,
    prefixes: u64,
    foreign: u64,
    others: u64,
}

impl<R: Read> MrtRoutes<R> {
    /// A reader that begins at the first record.
    pub fn new(input: R, peer: Peer) -> Self {
        MrtRoutes {
            input,
            peer,
            wanted: None,
            record: 0,
            from: 0,
            to: 0,
            next_hop: String::new(),
            origin: None,
            prefixes: 0,
            foreign: 0,
            others: 0,
        }
    }

    /// The autonomous system that originates the last route that was read: the last one of its
    /// path. `None` if the path is empty or ends with a set of several.
    pub fn origin(&self) -> Option<u32> {
        self.origin
    }

    /// Reads the next record without parsing its body; `None` at the end.
    fn read_record(&mut self) -> Result<Option<RawMrtRecord>, Error> {
        self.record += 1;
        self.from = self.to;
        let error = match chunk_mrt_record(&mut self.input) {
            Ok(record) => {
                self.to += record.total_bytes_len() as u64;
                return Ok(Some(record));
            }
            Err(error) => error,
        };
        match error.error {
            ParserError::EofExpected => Ok(None),
            ParserError::IoError(error) | ParserError::EofError(error) => {
                if error.kind() == io::ErrorKind::UnexpectedEof {
                    return Err(Error::Broken(self.place("the file ends within the record")));
                }
                Err(Error::Io(error))
            }
            error => Err(Error::Broken(self.place(error))),
        }
    }

    fn place(&self, what: impl std::fmt::Display) -> Place {
        Place {
            unit: "record",
            number: self.record,
            what: format!("at byte {}: {what}", self.from),
        }
    }

    /// Reads the table of peers, and finds the indexes of the wanted peer.
    fn read_peers(&mut self, record: RawMrtRecord) -> Result<(), Error> {
        let peers = match record.parse().map(|record| record.message) {
            Ok(MrtMessage::TableDumpV2Message(TableDumpV2Message::PeerIndexTable(peers))) => peers,
            Ok(_) => return Ok(()),
            Err(error) => return Err(Error::Broken(self.place(error))),
        };
        let Peer::Address(address) = self.peer else {
            return Ok(());
        };
        let peers = peers.id_peer_map;
        let ours = peers.iter().filter(|(_, peer)| peer.peer_ip == address);
        let ours: Vec<u16> = ours.map(|(index, _)| *index).collect();
        if ours.is_empty() {
            let mut there: Vec<IpAddr> = peers.values().map(|peer| peer.peer_ip).collect();
            there.sort();
            there.dedup();
            let mut what = format!(
                "the dump has no peer {address}; its peers ({} in all) are",
                there.len()
            );
            for peer in there.iter().take(NAMED) {
                let _ = write!(what, " {peer}");
            }
            return Err(Error::Broken(self.place(what)));
        }
        self.wanted = Some(ours);
        Ok(())
    }

    /// Reads the route of a RIB record; `None` if the wanted peer has no entry.
    fn read_rib(
        &mut self,
        record: &RawMrtRecord,
        v4: bool,
        paths: bool,
    ) -> Result<Option<IpNet>, String> {
        if self.wanted.is_none() && self.peer != Peer::First {
            return Err("a RIB record comes before the table of peers".into());
        }
        let body = &record.message_bytes;
        let mut cursor = Cursor { body, at: 0 };
        cursor.take(4)?; // The sequence number.
        let net = cursor.prefix(v4)?;
        self.prefixes += 1;
        let mut found = None;
        for _ in 0..cursor.u16()? {
            let peer = cursor.u16()?;
            cursor.take(if paths { 8 } else { 4 })?; // The time of the entry, and the number of its path.
            let len = usize::from(cursor.u16()?);
            let from = cursor.at;
            cursor.take(len)?;
            let wanted = self
                .wanted
                .as_ref()
                .is_none_or(|wanted| wanted.contains(&peer));
            if wanted && found.is_none() {
                found = Some(from..cursor.at);
            }
        }
        if cursor.at != body.len() {
            return Err(format!(
                "{} bytes after its last entry",
                body.len() - cursor.at
            ));
        }
        let Some(attributes) = found else {
            self.foreign += 1;
            return Ok(None);
        };
        let afi = if v4 { Afi::Ipv4 } else { Afi::Ipv6 };
        let prefix = NetworkPrefix::new(net, None);
        let attributes = body.slice(attributes);
        let attributes = parse_attributes(
            attributes,
            &AsnLength::Bits32,
            paths,
            Some(afi),
            Some(Safi::Unicast),
            Some(&[prefix]),
        )
        .map_err(|error| format!("attributes of {net}: {error}"))?;
        let announced = || {
            attributes
                .get_reachable_nlri()?
                .next_hop
                .map(|hop| hop.global_addr())
        };
        // An IPv6 entry may also have the old attribute, which has no meaning there.
        let next_hop = match v4 {
            true => attributes.next_hop().or_else(announced),
            false => announced().or_else(|| attributes.next_hop()),
        };
        let next_hop = next_hop.ok_or_else(|| format!("{net} has no next hop"))?;
        let path = attributes.as_path();
        self.origin = path.and_then(|path| path.get_origin_opt()).map(u32::from);
        self.next_hop.clear();
        let _ = write!(self.next_hop, "{next_hop}");
        Ok(Some(net))
    }
}

impl<R: Read> RouteSource for MrtRoutes<R> {
    fn next_route(&mut self) -> Result<Option<Route<'_>>, Error> {
        use TableDumpV2Type::{
            PeerIndexTable, RibIpv4Unicast, RibIpv4UnicastAddPath, RibIpv6Unicast,
            RibIpv6UnicastAddPath,
        };
        let net = loop {
            let Some(record) = self.read_record()? else {
                if self.prefixes == 0 && self.others > 0 {
                    let what = format!(
                        "no prefixes: {} records, but none is a unicast RIB of a TABLE_DUMP_V2",
                        self.others
                    );
                    return Err(Error::Broken(self.place(what)));
                }
                return Ok(None);
            };
            let header = record.common_header;
            let subtype = match header.entry_type {
                EntryType::TABLE_DUMP_V2 => TableDumpV2Type::try_from(header.entry_subtype).ok(),
                _ => None,
            };
            let read = match subtype {
                Some(PeerIndexTable) => {
                    self.read_peers(record)?;
                    continue;
                }
                Some(RibIpv4Unicast) => self.read_rib(&record, true, false),
                Some(RibIpv4UnicastAddPath) => self.read_rib(&record, true, true),
                Some(RibIpv6Unicast) => self.read_rib(&record, false, false),
                Some(RibIpv6UnicastAddPath) => self.read_rib(&record, false, true),
                _ => {
                    self.others += 1;
                    continue;
                }
            };
            match read {
                Ok(Some(net)) => break net,
                Ok(None) => {}
                Err(what) => return Err(Error::Bad(self.place(what))),
            }
        };
        let next_hop = &self.next_hop;
        Ok(Some(Route { net, next_hop }))
    }

    fn remarks(&self) -> Vec<(u64, &'static str)> {
        vec![
            (self.foreign, "prefixes without an entry of the wanted peer"),
            (self.others, "records of other kinds"),
        ]
    }
}

/// A place in the body of a record.
struct Cursor<'a> {
    body: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], String> {
        let bytes = self.body.get(self.at..self.at + len);
        self.at += len;
        bytes.ok_or_else(|| {
            format!(
                "{} bytes of the record are missing",
                self.at - self.body.len()
            )
        })
    }

    fn u16(&mut self) -> Result<u16, String> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// Reads a prefix: its length in bits, and as many bytes as it needs. Further bits of the last
    /// byte have no meaning.
    fn prefix(&mut self, v4: bool) -> Result<IpNet, String> {
        let length = self.take(1)?[0];
        let whole = if v4 { 32 } else { 128 };
        if length > whole {
            return Err(format!("a prefix of {length} bits"));
        }
        let bytes = self.take(usize::from(length).div_ceil(8))?;
        let mut octets = [0; 16];
        octets[..bytes.len()].copy_from_slice(bytes);
        let address: IpAddr = match v4 {
            true => Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]).into(),
            false => Ipv6Addr::from(octets).into(),
        };
        let net = IpNet::new(address, length).map_err(|error| error.to_string())?;
        Ok(net.trunc())
    }
}
