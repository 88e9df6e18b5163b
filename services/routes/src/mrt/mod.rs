//! Reads routes of MRT files: the unicast RIBs of `TABLE_DUMP_V2` (RFC 6396, RFC 8050) and of
//! `TABLE_DUMP`, and the updates of `BGP4MP`, applied in order.
//!
//! bgpkit-parser reads the records, the table of peers, and the attributes of the entries that are
//! wanted. This module walks from entry to entry of a `TABLE_DUMP_V2` itself, for two reasons: an
//! entry that is cut off must be an error, but bgpkit-parser leaves out the rest; and of the twenty
//! to sixty entries that a prefix has in public dumps, only a few are needed.

mod entry;
mod table;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::{self, Read};
use std::net::IpAddr;

use bgpkit_parser::models::{
    Bgp4MpEnum, Bgp4MpMessage, BgpMessage, BgpState, EntryType, MrtMessage, NetworkPrefix, Nlri,
    Safi, TableDumpV2Message, TableDumpV2Type,
};
use bgpkit_parser::{ParserError, RawMrtRecord, chunk_mrt_record, parse_table_dump_messages};
use ipnet::IpNet;
use sapwood::lpm::SavedHop;

use self::entry::{Cursor, of_attributes, path_of};
use self::table::{KEPT, Path, Table};
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

/// A prefix and the route that it has now: its next hop, if the route has one. `None` for no route.
pub type MrtChange = (IpNet, Option<Option<IpAddr>>);

/// Reads the routes of an MRT file.
///
/// The first entry of a prefix that has a next hop is its route. When updates withdraw it, the next
/// entry is. If no entry has a next hop, the route has an empty name. Of several dumps in one file
/// the union is taken, and the last entries of a prefix count. A next hop `::` with a link-local
/// address beside it is that address.
///
/// The table is kept in memory, and routes come in the order of prefixes when all records are read.
/// Of a dump, four entries of a prefix are kept. If all of them are withdrawn and the dump had
/// more, the prefix goes, and [`remarks`](RouteSource::remarks) count it. With a wanted peer, all
/// his entries are known.
#[derive(Debug)]
pub struct MrtRoutes<R> {
    input: R,
    peer: Peer,
    partial: bool,
    cut: bool,
    table: Table,
    /// The numbers of the peers of the current dump, by their positions; those that are not wanted
    /// have none.
    peers: Option<Vec<Option<u32>>>,
    /// Whether all records were read.
    ended: bool,
    record: u64,
    /// Where the current record begins, in bytes from the beginning of the input.
    from: u64,
    /// Where the current record ends.
    to: u64,
    next_hop: String,
    origin: Option<u32>,
    /// Records with routes, or with changes of routes.
    prefixes: u64,
    dumps: u64,
    foreign: u64,
    updates: u64,
    sent: u64,
    /// Records of other kinds.
    others: BTreeMap<(u16, u16), u64>,
}

impl<R: Read> MrtRoutes<R> {
    /// A reader that begins at the first record.
    pub fn new(input: R, peer: Peer) -> Self {
        MrtRoutes {
            input,
            peer,
            partial: false,
            cut: false,
            table: Table::default(),
            peers: None,
            ended: false,
            record: 0,
            from: 0,
            to: 0,
            next_hop: String::new(),
            origin: None,
            prefixes: 0,
            dumps: 0,
            foreign: 0,
            updates: 0,
            sent: 0,
            others: BTreeMap::new(),
        }
    }

    /// Sets whether a file may end inside of a record. The records before it are read.
    pub fn partial(mut self, partial: bool) -> Self {
        self.partial = partial;
        self
    }

    /// The autonomous system that originates the last route that was read: the last one of its
    /// path. `None` if the path is empty or ends with a set of several.
    pub fn origin(&self) -> Option<u32> {
        self.origin
    }

    /// Reads on to the next prefix whose route a record may have changed, and returns the route
    /// that it has now. `None` at the end of the input; if records are added to it, later calls
    /// read them. So a pipe or a file that grows is followed. Call it from the beginning, and do
    /// not mix it with [`next_route`](RouteSource::next_route).
    ///
    /// ```
    /// use sapwood_routes::{MrtRoutes, Peer};
    ///
    /// let mut records = MrtRoutes::new(&b""[..], Peer::First);
    /// while let Some((net, route)) = records.next_change()? {
    ///     match route {
    ///         Some(next_hop) => println!("{net} by {next_hop:?}"),
    ///         None => println!("{net} is gone"),
    ///     }
    /// }
    /// # Ok::<(), sapwood_routes::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`next_route`](RouteSource::next_route).
    pub fn next_change(&mut self) -> Result<Option<MrtChange>, Error> {
        self.table.changed.get_or_insert_default();
        loop {
            let changed = self.table.changed.as_mut();
            if let Some(net) = changed.and_then(|changed| changed.pop_front()) {
                let route = self.table.get(&net);
                return Ok(Some((net, route.map(|(hop, _)| hop))));
            }
            if !self.take_record()? {
                return Ok(None);
            }
        }
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
            ParserError::EofExpected => {
                // A later call may find that the input has grown.
                self.record -= 1;
                Ok(None)
            }
            ParserError::IoError(error) | ParserError::EofError(error) => {
                if error.kind() != io::ErrorKind::UnexpectedEof {
                    return Err(Error::Io(error));
                }
                if self.partial {
                    self.cut = true;
                    return Ok(None);
                }
                Err(Error::Broken(self.place("the file ends within the record")))
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

    /// The number of a peer, if his routes are taken.
    fn number_of(&mut self, address: IpAddr) -> Option<u32> {
        let number = self.table.peer(address);
        let wanted = self.peer == Peer::First || self.peer == Peer::Address(address);
        wanted.then_some(number)
    }

    /// The error when there is no peer with the wanted address.
    fn check_peer(&self) -> Result<(), Error> {
        let Peer::Address(address) = self.peer else {
            return Ok(());
        };
        let there = self.table.peers();
        if there.contains(&address) {
            return Ok(());
        }
        let many = there.len();
        let mut what = format!("the dump has no peer {address}; its peers ({many} in all) are");
        for peer in there.iter().take(NAMED) {
            let _ = write!(what, " {peer}");
        }
        Err(Error::Broken(self.place(what)))
    }

    /// Reads the table of peers of a dump.
    fn read_peers(&mut self, record: RawMrtRecord) -> Result<(), Error> {
        let peers = match record.parse().map(|record| record.message) {
            Ok(MrtMessage::TableDumpV2Message(TableDumpV2Message::PeerIndexTable(peers))) => peers,
            Ok(_) => return Ok(()),
            Err(error) => return Err(Error::Broken(self.place(error))),
        };
        self.dumps += 1;
        let mut numbers = Vec::new();
        for (index, peer) in &peers.id_peer_map {
            let index = usize::from(*index);
            if numbers.len() <= index {
                numbers.resize(index + 1, None);
            }
            numbers[index] = self.number_of(peer.peer_ip);
        }
        self.peers = Some(numbers);
        self.check_peer()
    }

    /// Reads the paths of a RIB record.
    fn read_rib(&mut self, record: &RawMrtRecord, v4: bool, paths: bool) -> Result<(), String> {
        if self.peers.is_none() && self.peer != Peer::First {
            return Err("a RIB record comes before the table of peers".into());
        }
        let body = &record.message_bytes;
        let mut cursor = Cursor { body, at: 0 };
        cursor.take(4)?; // The sequence number.
        let net = cursor.prefix(v4)?;
        self.prefixes += 1;
        let mut found = Vec::new();
        for _ in 0..cursor.u16()? {
            let index = cursor.u16()?;
            cursor.take(4)?; // The time of the entry.
            let id = if paths { cursor.u32()? } else { 0 };
            let len = usize::from(cursor.u16()?);
            let attributes = cursor.take(len)?;
            let peer = match &self.peers {
                Some(peers) => peers.get(usize::from(index)).copied().flatten(),
                None => None,
            };
            // Without a table of peers, or a place in it, an entry is of a peer of its own.
            let peer = match (peer, self.peer) {
                (None, Peer::First) => Some(u32::MAX - u32::from(index)),
                (peer, _) => peer,
            };
            found.extend(peer.map(|peer| (peer, id, attributes)));
        }
        if cursor.at != body.len() {
            return Err(format!(
                "{} bytes after its last entry",
                body.len() - cursor.at
            ));
        }
        if found.is_empty() {
            self.foreign += 1;
            return Ok(());
        }
        let mut kept = Vec::new();
        let mut without = None;
        let mut had_more = false;
        for (peer, id, attributes) in found {
            if kept.len() == KEPT {
                had_more = true;
                break;
            }
            let path = match path_of(net, attributes, paths) {
                Ok(path) => path,
                // A fault behind an entry that is taken does no harm.
                Err(_) if !kept.is_empty() => {
                    had_more = true;
                    continue;
                }
                Err(what) => return Err(what),
            };
            let (next_hop, origin) = path;
            let hop = self.table.hop(next_hop);
            let path = Path {
                peer,
                id,
                hop,
                origin,
            };
            match next_hop {
                Some(_) => kept.push(path),
                None => drop(without.get_or_insert(path)),
            }
        }
        if kept.is_empty() {
            kept.extend(without);
        }
        self.table.dumped(net, &kept, had_more);
        Ok(())
    }

    /// Reads the entries of a record of the older dumps.
    fn read_old(&mut self, record: &RawMrtRecord) -> Result<(), String> {
        let subtype = record.common_header.entry_subtype;
        let entries = parse_table_dump_messages(subtype, record.message_bytes.clone());
        for entry in entries.map_err(|error| error.to_string())? {
            self.prefixes += 1;
            let Some(peer) = self.number_of(entry.peer_ip) else {
                self.foreign += 1;
                continue;
            };
            let (next_hop, origin) = of_attributes(&entry.attributes, entry.prefix.prefix);
            let hop = self.table.hop(next_hop);
            let path = Path {
                peer,
                id: 0,
                hop,
                origin,
            };
            self.table.announce(entry.prefix.prefix.trunc(), path);
        }
        Ok(())
    }

    /// Applies a message of BGP, or the end of a session.
    fn read_update(&mut self, record: RawMrtRecord) -> Result<(), String> {
        let message = record.parse().map_err(|error| error.to_string())?.message;
        match message {
            MrtMessage::Bgp4Mp(Bgp4MpEnum::StateChange(change)) => {
                let number = self.number_of(change.peer_ip);
                let ended = change.old_state == BgpState::Established
                    && change.new_state != BgpState::Established;
                if let Some(peer) = number.filter(|_| ended) {
                    self.table.forget(peer);
                }
            }
            MrtMessage::Bgp4Mp(Bgp4MpEnum::Message(message)) if message.is_local() => {
                self.sent += 1;
            }
            MrtMessage::Bgp4Mp(Bgp4MpEnum::Message(message)) => self.apply(message),
            _ => {}
        }
        Ok(())
    }

    fn apply(&mut self, message: Bgp4MpMessage) {
        let number = self.number_of(message.peer_ip);
        let BgpMessage::Update(update) = message.bgp_message else {
            return;
        };
        self.updates += 1;
        let Some(peer) = number else {
            return;
        };
        let is_unicast = |nlri: &&Nlri| nlri.safi == Safi::Unicast;
        let attributes = &update.attributes;
        let gone = attributes.get_unreachable_nlri().filter(is_unicast);
        let gone = gone.map_or(&[][..], |nlri| &nlri.prefixes[..]);
        for NetworkPrefix { prefix, path_id } in update.withdrawn_prefixes.iter().chain(gone) {
            let id = path_id.unwrap_or(0);
            self.table.withdraw(prefix.trunc(), peer, id);
        }
        let come = attributes.get_reachable_nlri().filter(is_unicast);
        let come = come.map_or(&[][..], |nlri| &nlri.prefixes[..]);
        for NetworkPrefix { prefix, path_id } in update.announced_prefixes.iter().chain(come) {
            let (next_hop, origin) = of_attributes(attributes, *prefix);
            let hop = self.table.hop(next_hop);
            let path = Path {
                peer,
                id: path_id.unwrap_or(0),
                hop,
                origin,
            };
            self.table.announce(prefix.trunc(), path);
        }
    }

    /// Reads a record into the table; false at the end.
    fn take_record(&mut self) -> Result<bool, Error> {
        use TableDumpV2Type::{
            PeerIndexTable, RibIpv4Unicast, RibIpv4UnicastAddPath, RibIpv6Unicast,
            RibIpv6UnicastAddPath,
        };
        let Some(record) = self.read_record()? else {
            return Ok(false);
        };
        let header = record.common_header;
        let subtype = match header.entry_type {
            EntryType::TABLE_DUMP_V2 => TableDumpV2Type::try_from(header.entry_subtype).ok(),
            _ => None,
        };
        let read = match (header.entry_type, subtype) {
            (_, Some(PeerIndexTable)) => {
                self.read_peers(record)?;
                return Ok(true);
            }
            (_, Some(RibIpv4Unicast)) => self.read_rib(&record, true, false),
            (_, Some(RibIpv4UnicastAddPath)) => self.read_rib(&record, true, true),
            (_, Some(RibIpv6Unicast)) => self.read_rib(&record, false, false),
            (_, Some(RibIpv6UnicastAddPath)) => self.read_rib(&record, false, true),
            (EntryType::TABLE_DUMP, _) if matches!(header.entry_subtype, 1 | 2) => {
                self.read_old(&record)
            }
            (EntryType::BGP4MP | EntryType::BGP4MP_ET, _) if header.entry_subtype < 12 => {
                self.read_update(record)
            }
            _ => {
                let kind = (header.entry_type as u16, header.entry_subtype);
                *self.others.entry(kind).or_default() += 1;
                return Ok(true);
            }
        };
        match read {
            Ok(()) => Ok(true),
            Err(what) => Err(Error::Bad(self.place(what))),
        }
    }

    /// Checks, when all records are read, that there was something to read.
    fn check_end(&mut self) -> Result<(), Error> {
        self.record += 1;
        self.from = self.to;
        let nothing = self.prefixes == 0 && self.updates == 0;
        if nothing && !self.others.is_empty() {
            let many: u64 = self.others.values().sum();
            let kinds: Vec<String> = self.others.keys().take(NAMED).map(kind_name).collect();
            let what = format!(
                "no prefixes: {many} records, but none is a unicast RIB or an update of BGP: {}",
                kinds.join(", ")
            );
            return Err(Error::Broken(self.place(what)));
        }
        if nothing {
            return Ok(());
        }
        self.check_peer()
    }
}

impl<R: Read> RouteSource for MrtRoutes<R> {
    fn next_route(&mut self) -> Result<Option<Route<'_>>, Error> {
        if !self.ended {
            while self.take_record()? {}
            self.ended = true;
            self.check_end()?;
        }
        let Some((net, next_hop, origin)) = self.table.pop() else {
            return Ok(None);
        };
        self.origin = (origin != 0).then_some(origin);
        self.next_hop.clear();
        if let Some(next_hop) = next_hop {
            let _ = write!(self.next_hop, "{next_hop}");
        }
        let hop = SavedHop::Name(&self.next_hop);
        Ok(Some(Route { net, hop }))
    }

    fn remarks(&self) -> Vec<(u64, String)> {
        let mut all: Vec<(u64, String)> = [
            (
                u64::from(self.cut),
                "input that ends too early: what was read before is taken",
            ),
            (
                self.dumps.saturating_sub(1),
                "dumps more, their union was taken",
            ),
            (self.updates, "updates"),
            (self.sent, "messages that the collector sent"),
            (self.foreign, "prefixes without an entry of the wanted peer"),
            (
                self.table.unknown,
                "withdrawn prefixes of which the dump had more entries than are kept",
            ),
        ]
        .map(|(count, what)| (count, what.into()))
        .into();
        let others = self.others.iter();
        all.extend(others.map(|(kind, count)| {
            (
                *count,
                format!("records of another kind: {}", kind_name(kind)),
            )
        }));
        all
    }
}

/// The name of a kind of records.
fn kind_name((kind, subtype): &(u16, u16)) -> String {
    let rib = |name| format!("TABLE_DUMP_V2 {name}");
    match (kind, subtype) {
        (11, _) => "OSPFv2".into(),
        (12, other) => format!("TABLE_DUMP of family {other}"),
        (13, 3) => rib("RIB_IPV4_MULTICAST"),
        (13, 5) => rib("RIB_IPV6_MULTICAST"),
        (13, 6) => rib("RIB_GENERIC"),
        (13, 7) => rib("GEO_PEER_TABLE"),
        (32 | 33, _) => "IS-IS".into(),
        (48 | 49, _) => "OSPFv3".into(),
        (kind, subtype) => format!("type {kind}, subtype {subtype}"),
    }
}
