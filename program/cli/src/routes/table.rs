//! The file of a table: prefixes of both families as bit strings, and a list of next hops.
//!
//! Four bits before each prefix have its family, 4 or 6, so that prefixes of one family never cover
//! those of the other. The value of a prefix is the number of its next hop in the list of names. A
//! route without a next hop has an empty name.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use ipnet::IpNet;
use sapwood::lpm::{BitFile, BitFileBuilder, BitPrefix, BitString};
use sapwood::qp::{OpenCause, QpShape, SaveCause};

use crate::errors::Error;
use crate::names::open_error;
use crate::span;

/// Bits of the family before an address.
const FAMILY: usize = 4;

/// The bits of the family and the first `len` bits of an address.
fn bits_of(address: IpAddr, len: u8) -> Result<BitString, sapwood::Error> {
    let (family, left): (u128, _) = match address {
        IpAddr::V4(address) => (4, u128::from(address.to_bits()) << 96),
        IpAddr::V6(address) => (6, address.to_bits()),
    };
    let mut bytes = [0; 17];
    bytes[..16].copy_from_slice(&(family << 124 | left >> FAMILY).to_be_bytes());
    bytes[16] = (left as u8) << FAMILY;
    Ok(BitPrefix::truncated(&bytes, FAMILY + usize::from(len))?.into())
}

/// The bits of the family and all bits of an address.
fn whole(address: IpAddr) -> Result<BitString, sapwood::Error> {
    bits_of(address, if address.is_ipv4() { 32 } else { 128 })
}

/// The prefix that has these bits.
fn net_of(bits: &BitString) -> Option<IpNet> {
    let bits = bits.as_prefix();
    let mut padded = [0; 17];
    padded
        .iter_mut()
        .zip(bits.bytes())
        .for_each(|(to, byte)| *to = byte);
    let (front, last) = padded.split_last_chunk::<1>()?;
    let front = u128::from_be_bytes(front.try_into().ok()?);
    let left = front << FAMILY | u128::from(last[0] >> FAMILY);
    let len = u8::try_from(bits.len().checked_sub(FAMILY)?).ok()?;
    let address: IpAddr = match front >> 124 {
        4 => Ipv4Addr::from_bits((left >> 96) as u32).into(),
        6 => Ipv6Addr::from_bits(left).into(),
        _ => return None,
    };
    IpNet::new(address, len).ok()
}

/// A table that is being built, to be saved as a file.
#[derive(Default)]
pub struct TableBuilder {
    table: BitFileBuilder<u32>,
    names: HashMap<Box<str>, u32>,
    /// How many routes have each next hop, by its number.
    uses: Vec<u32>,
}

impl TableBuilder {
    /// Adds or replaces a route; returns whether it replaced one.
    pub fn insert(&mut self, net: IpNet, next_hop: &str) -> Result<bool, Error> {
        let number = match self.names.get(next_hop) {
            Some(number) => *number,
            None => {
                let number = self.table.push_name(next_hop)?;
                self.names.insert(next_hop.into(), number);
                self.uses.push(0);
                number
            }
        };
        let bits = bits_of(net.network(), net.prefix_len())?;
        let old = self
            .table
            .insert(bits, number)
            .map_err(sapwood::Error::from)?;
        self.uses[number as usize] += 1;
        if let Some(old) = old {
            self.uses[old as usize] -= 1;
        }
        Ok(old.is_some())
    }

    /// Number of routes.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Number of next hops that at least one route has.
    pub fn next_hops(&self) -> usize {
        self.uses.iter().filter(|uses| **uses > 0).count()
    }

    /// Writes a new file and renames it to `target`. `output` is its name in errors.
    pub fn save(&self, target: &Path, output: &Path) -> Result<(), Error> {
        let _save = span!(INFO, "save", file = %output.display(), entries = self.len());
        self.table.save(target).map_err(|error| match error.cause {
            SaveCause::Io(source) => Error::write(output)(source),
            cause => Error::write(output)(io::Error::other(cause)),
        })
    }
}

/// A table in a file.
pub struct Table(BitFile<u32>);

impl Table {
    /// Opens a table, after checking all of it or only its header.
    pub fn open(path: &Path, verify: bool) -> Result<Self, Error> {
        let opened = match verify {
            true => Self::open_checked(path),
            false => BitFile::open_unverified(path)
                .map(Table)
                .map_err(|error| error.cause),
        };
        opened.map_err(|error| open_error(path, "table of routes", error))
    }

    /// Whether the header of the file is that of a table.
    pub fn is_one(path: &Path) -> bool {
        BitFile::<u32>::open_unverified(path).is_ok()
    }

    /// Opens a table after checking all of it.
    pub fn open_checked(path: &Path) -> Result<Self, OpenCause> {
        let file = BitFile::<u32>::open(path).map_err(|error| error.cause)?;
        for (bits, number) in file.iter() {
            if net_of(&bits).is_none() {
                return Err(OpenCause::Corrupt(format!(
                    "{bits} is not a prefix of IPv4 or IPv6"
                )));
            }
            if *number >= file.names_len() {
                return Err(OpenCause::Corrupt(format!(
                    "{bits}: the table has no next hop {number}"
                )));
            }
        }
        Ok(Table(file))
    }

    /// Number of routes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The length of the file in bytes.
    pub fn file_bytes(&self) -> usize {
        self.0.file_bytes()
    }

    /// The shape of the file's trie, in which next hops are entries, too.
    pub fn shape(&self) -> Result<QpShape, String> {
        self.0.shape()
    }

    /// All next hops in order of their numbers, also those that no route has any more.
    pub fn next_hops(&self) -> Vec<Cow<'_, str>> {
        self.0.names().map(String::from_utf8_lossy).collect()
    }

    /// All routes in order, with the numbers of their next hops.
    pub fn iter(&self) -> impl Iterator<Item = (IpNet, u32)> {
        let routes = self.0.iter();
        routes.filter_map(|(bits, number)| Some((net_of(&bits)?, *number)))
    }

    /// The longest prefix that covers an address, and its next hop.
    pub fn lookup(&self, address: IpAddr) -> Option<(IpNet, Cow<'_, str>)> {
        let (len, number) = self.0.lookup(whole(address).ok()?)?;
        self.found(address, len, *number)
    }

    /// All prefixes that cover an address, shortest first.
    pub fn matches(&self, address: IpAddr) -> Vec<(IpNet, Cow<'_, str>)> {
        let Ok(bits) = whole(address) else {
            return Vec::new();
        };
        let matches = self.0.matches(bits);
        matches
            .filter_map(|(len, number)| self.found(address, len, *number))
            .collect()
    }

    fn found(&self, address: IpAddr, len: usize, number: u32) -> Option<(IpNet, Cow<'_, str>)> {
        let len = u8::try_from(len.checked_sub(FAMILY)?).ok()?;
        let net = IpNet::new(address, len).ok()?.trunc();
        // Only a damaged file has a number for which no name is stored.
        let name = self.0.name(number).unwrap_or_default();
        Some((net, String::from_utf8_lossy(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_have_the_prefix_they_were_made_of() {
        for text in [
            "0.0.0.0/0",
            "::/0",
            "10.0.0.0/8",
            "255.255.255.255/32",
            "1.2.3.128/25",
            "64.0.0.0/2",
            "2001:db8::/32",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128",
            "::1/128",
            "8000::/1",
            "::/127",
        ] {
            let net: IpNet = text.parse().unwrap();
            let bits = bits_of(net.addr(), net.prefix_len()).unwrap();
            assert_eq!(bits.len(), FAMILY + usize::from(net.prefix_len()));
            assert_eq!(net_of(&bits), Some(net));
        }
        for (bytes, len) in [
            (&[][..], 0),
            (&[0x40], 3),
            (&[0x50], 4),
            (&[0x4f; 5], 37),
            (&[0x6f; 17], 133),
        ] {
            assert_eq!(
                net_of(&BitPrefix::truncated(bytes, len).unwrap().into()),
                None
            );
        }
    }
}
