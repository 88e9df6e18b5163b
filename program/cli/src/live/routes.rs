//! Live tables of routes, for the queries.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use ipnet::IpNet;
use sapwood::lpm::IpFib;
use sapwood::qp::OpenCause;
use sapwood_live::{CheckedLiveReader, Error as LiveError, LiveIdle, LiveReader, LiveTextReader};

use super::{checked, data_bytes, known_or_checked};
use crate::errors::Error;
use crate::routes::load::Routes;

/// The attempts to read a whole table in front of a writer.
const TRIES: usize = 100;

/// A reader of a live table, whose values are the numbers of its next hops.
pub struct LiveTable {
    table: Routed,
    next_hops: LiveTextReader,
}

enum Routed {
    Known(Box<LiveIdle<IpFib<u32>>>),
    Checked(CheckedLiveReader<IpFib<u32>>),
}

impl Routed {
    fn lookup(&mut self, address: IpAddr) -> Result<Option<(IpNet, u32)>, LiveError> {
        match self {
            Routed::Known(table) => table.read(|view| {
                let found = view.lookup(address);
                found.map(|(net, number)| (net, *number))
            }),
            Routed::Checked(table) => {
                let found = table.read(|table| table.lookup(address))?;
                Ok(found.and_then(|(len, number)| Some((prefix(address, len)?, number))))
            }
        }
    }

    fn covering(&mut self, net: IpNet) -> Result<Vec<(IpNet, u32)>, LiveError> {
        match self {
            Routed::Known(table) => table.read(|view| {
                let found = view.covering(net);
                found.map(|(net, number)| (net, *number)).collect()
            }),
            Routed::Checked(table) => {
                let found = table.read(|table| table.covering(net))?;
                let found = found.into_iter();
                Ok(found
                    .filter_map(|(len, number)| Some((prefix(net.addr(), len)?, number)))
                    .collect())
            }
        }
    }

    fn covered(&mut self, net: IpNet) -> Result<Vec<(IpNet, u32)>, LiveError> {
        match self {
            Routed::Known(table) => table.read(|view| {
                let found = view.covered_by(net);
                found.map(|(net, number)| (net, *number)).collect()
            }),
            Routed::Checked(table) => table.read(|table| {
                let inside = |found: &Result<(IpNet, u32), LiveError>| match found {
                    Ok((found, _)) => net.contains(found),
                    Err(_) => true,
                };
                table.iter().filter(inside).collect()
            }),
        }
    }
}

/// The prefix of an address that has this length.
fn prefix(address: IpAddr, len: u8) -> Option<IpNet> {
    Some(IpNet::new(address, len).ok()?.trunc())
}

impl LiveTable {
    /// Opens the live table in a directory.
    pub fn open(path: &Path, wait: Duration) -> Result<Self, Error> {
        let known = || {
            Ok(LiveTable {
                table: Routed::Known(Box::new(LiveReader::open_within(path, wait)?.idle())),
                next_hops: LiveTextReader::open(path)?,
            })
        };
        let checked = || {
            Ok(LiveTable {
                table: Routed::Checked(CheckedLiveReader::open_unregistered(path)?),
                next_hops: LiveTextReader::open_unregistered(path)?,
            })
        };
        Ok(known_or_checked(path, known, checked)?)
    }

    /// The longest prefix that covers an address, and its next hop.
    pub fn lookup(&mut self, address: IpAddr) -> Result<Option<(IpNet, String)>, Error> {
        let table = &mut self.table;
        self.next_hops.find(|text| {
            Ok(match table.lookup(address)? {
                None => Some(None),
                Some((net, number)) => text(number).map(|hop| Some((net, hop))),
            })
        })
    }

    /// All prefixes that cover a prefix, itself included, shortest first.
    pub fn covering(&mut self, net: IpNet) -> Result<Vec<(IpNet, String)>, Error> {
        self.named(|table| table.covering(net))
    }

    /// A prefix and all prefixes inside it, in order.
    pub fn covered(&mut self, net: IpNet) -> Result<Vec<(IpNet, String)>, Error> {
        self.named(|table| table.covered(net))
    }

    /// What is found, with the names of the next hops.
    fn named(
        &mut self,
        find: impl Fn(&mut Routed) -> Result<Vec<(IpNet, u32)>, LiveError>,
    ) -> Result<Vec<(IpNet, String)>, Error> {
        let table = &mut self.table;
        self.next_hops.find(|text| {
            let found = find(table)?.into_iter();
            Ok(found
                .map(|(net, number)| Some((net, text(number)?)))
                .collect())
        })
    }
}

/// Opens the next hops of a live table, as [`checked`] opens the table.
fn next_hops(path: &Path) -> Result<LiveTextReader, LiveError> {
    known_or_checked(
        path,
        || LiveTextReader::open(path),
        || LiveTextReader::open_unregistered(path),
    )
}

/// All routes of a live table. Beside a writer, each was there at some time.
pub fn whole(path: &Path, wait: Duration) -> Result<Routes, Error> {
    let mut table = checked::<IpFib<u32>>(path, wait)?;
    let mut next_hops = next_hops(path)?;
    let mut tries = TRIES;
    next_hops.find(|text| {
        table.quiescent()?;
        let all: Result<Vec<(IpNet, u32)>, LiveError> = table.view()?.iter().collect();
        tries -= 1;
        let all = match all {
            // The writer evicts a reader that is too slow, and may change what it reads.
            Err(LiveError::Evicted { .. } | LiveError::Busy { .. }) if tries > 0 => {
                return Ok(None);
            }
            all => all?,
        };
        let mut numbers = std::collections::HashMap::new();
        let mut names = Vec::new();
        let mut routes = Vec::with_capacity(all.len());
        for (net, number) in all {
            let number = match numbers.get(&number) {
                Some(number) => *number,
                None => {
                    let Some(name) = text(number) else {
                        return Ok(None);
                    };
                    let new = names.len() as u32;
                    names.push(name);
                    numbers.insert(number, new);
                    new
                }
            };
            routes.push((net, number));
        }
        Ok(Some(Routes::new(routes, names)))
    })
}

/// Checks all of a live table; returns the number of routes and the bytes that they take, or what
/// is wrong. A table that changes meanwhile is checked again.
pub fn verified(path: &Path, wait: Duration) -> Result<Result<(usize, usize), OpenCause>, Error> {
    let mut table = checked::<IpFib<u32>>(path, wait)?;
    let mut tries = TRIES;
    loop {
        table.quiescent()?;
        let view = table.view()?;
        let checked = view.v4().verify().and_then(|_| view.v6().verify());
        tries -= 1;
        match checked {
            Err(_) if tries > 0 && table.has_writer()? => {}
            Err(error) => return Ok(Err(OpenCause::Corrupt(error.to_string()))),
            Ok(_) => return Ok(Ok((whole(path, wait)?.len(), data_bytes(path)?))),
        }
    }
}
