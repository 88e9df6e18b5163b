//! Live tables of routes, for the queries.

use std::net::IpAddr;
use std::path::Path;

use ipnet::IpNet;
use sapwood::lpm::IpFib;
use sapwood::qp::OpenCause;
use sapwood_live::{CheckedLiveReader, Error as LiveError, LiveIdle, LiveReader, LiveTextReader};

use super::data_bytes;
use crate::errors::Error;
use crate::routes::load::Routes;

/// The attempts to read a whole table in front of a writer.
const TRIES: usize = 100;

/// A reader of a live table, whose values are the numbers of its next hops.
pub struct LiveTable {
    table: LiveIdle<IpFib<u32>>,
    next_hops: LiveTextReader,
}

impl LiveTable {
    /// Opens the live table in a folder.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Ok(LiveTable {
            table: LiveReader::open(path)?.idle(),
            next_hops: LiveTextReader::open(path)?,
        })
    }

    /// The longest prefix that covers an address, and its next hop.
    pub fn lookup(&mut self, address: IpAddr) -> Result<Option<(IpNet, String)>, Error> {
        let table = &mut self.table;
        self.next_hops.find(|text| {
            let found = table.read(|view| {
                let found = view.lookup(address);
                found.map(|(net, number)| (net, *number))
            })?;
            Ok(match found {
                None => Some(None),
                Some((net, number)) => text(number).map(|hop| Some((net, hop))),
            })
        })
    }

    /// All prefixes that cover an address, shortest first.
    pub fn matches(&mut self, address: IpAddr) -> Result<Vec<(IpNet, String)>, Error> {
        let table = &mut self.table;
        self.next_hops.find(|text| {
            let found: Vec<(IpNet, u32)> = table.read(|view| match address {
                IpAddr::V4(address) => {
                    let found = view.v4().matches(address);
                    found.map(|(net, number)| (net.into(), *number)).collect()
                }
                IpAddr::V6(address) => {
                    let found = view.v6().matches(address);
                    found.map(|(net, number)| (net.into(), *number)).collect()
                }
            })?;
            let found = found.into_iter();
            Ok(found
                .map(|(net, number)| Some((net, text(number)?)))
                .collect())
        })
    }
}

/// All routes of a live table. Beside a writer, each was there at some time.
pub fn whole(path: &Path) -> Result<Routes, Error> {
    let mut table = CheckedLiveReader::<IpFib<u32>>::open(path)?;
    let mut next_hops = LiveTextReader::open(path)?;
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
pub fn verified(path: &Path) -> Result<Result<(usize, usize), OpenCause>, Error> {
    let mut table = CheckedLiveReader::<IpFib<u32>>::open(path)?;
    let mut tries = TRIES;
    loop {
        table.quiescent()?;
        let view = table.view()?;
        let checked = view.v4().verify().and_then(|_| view.v6().verify());
        tries -= 1;
        match checked {
            Err(_) if tries > 0 && table.has_writer()? => {}
            Err(error) => return Ok(Err(OpenCause::Corrupt(error.to_string()))),
            Ok(_) => return Ok(Ok((whole(path)?.len(), data_bytes(path)?))),
        }
    }
}
