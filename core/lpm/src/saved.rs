//! Tables of routes in files.
//!
//! The format is that of [`BitFile`]. Each prefix has the byte 4 or 6 in front, which names its
//! family. So a file of one family can be loaded into a table of both.

use alloc::format;
use alloc::vec::Vec;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::bits::{AsBits, BitFile, BitFileBuilder, BitPrefix, BitString};
use super::family::Family;
use super::fib::{Fib, NextHop};
use super::ip::IpFib;
use super::{FibSnapshot, IpSnapshot};
use crate::{Builder, Error};
use crate::{OpenCause, OpenError, SaveCause, SaveError};

/// The number of bits that name a prefix's family.
const TAG: usize = 8;

/// A prefix with its family in front.
struct Tagged {
    bytes: [u8; 17],
    bits: usize,
}

impl From<IpNet> for Tagged {
    fn from(net: IpNet) -> Self {
        let mut bytes = [0; 17];
        bytes[0] = match net {
            IpNet::V4(_) => 4,
            IpNet::V6(_) => 6,
        };
        match net.network() {
            std::net::IpAddr::V4(addr) => bytes[1..5].copy_from_slice(&addr.octets()),
            std::net::IpAddr::V6(addr) => bytes[1..].copy_from_slice(&addr.octets()),
        }
        let bits = TAG + usize::from(net.prefix_len());
        Tagged { bytes, bits }
    }
}

impl AsBits for Tagged {
    fn with_bits<R>(&self, f: impl FnOnce(BitPrefix<'_>) -> R) -> R {
        match BitPrefix::truncated(&self.bytes, self.bits) {
            Ok(bits) => f(bits),
            Err(_) => unreachable!("a prefix has at most 136 bits with its family"),
        }
    }
}

/// The prefix of bits with a family in front, if these are one.
fn net_of(bits: &BitString) -> Option<IpNet> {
    let (family, address) = bits.as_bytes().split_first()?;
    let len = u8::try_from(bits.len().checked_sub(TAG)?).ok()?;
    let mut octets = [0; 16];
    octets.get_mut(..address.len())?.copy_from_slice(address);
    match family {
        4 => {
            let [a, b, c, d, ..] = octets;
            Ipv4Net::new(Ipv4Addr::new(a, b, c, d), len)
                .ok()
                .map(IpNet::V4)
        }
        6 => Ipv6Net::new(Ipv6Addr::from(octets), len)
            .ok()
            .map(IpNet::V6),
        _ => None,
    }
}

/// Saves prefixes, and names beside them. The file is written beside `path`, flushed, and renamed.
pub fn save<V: IntoBytes + FromBytes + Immutable>(
    prefixes: impl Iterator<Item = (IpNet, V)>,
    names: impl Iterator<Item = Vec<u8>>,
    path: &Path,
) -> Result<(), SaveError> {
    let failed = |error: Error| {
        SaveError::at(path)(match error {
            Error::ArenaFull(full) => SaveCause::ArenaFull(full),
            error => SaveCause::Io(std::io::Error::other(error)),
        })
    };
    let mut file = BitFileBuilder::new();
    for (net, value) in prefixes {
        let inserted = file.insert(Tagged::from(net), value);
        inserted.map_err(|rejected| failed(rejected.error))?;
    }
    for name in names {
        file.push_name(name).map_err(failed)?;
    }
    file.save(path)
}

/// All prefixes of a file.
pub fn prefixes<V: FromBytes + Immutable>(
    file: &BitFile<V>,
) -> impl Iterator<Item = Result<(IpNet, &V), OpenCause>> {
    file.iter().map(|(bits, value)| match net_of(&bits) {
        Some(net) => Ok((net, value)),
        None => Err(OpenCause::Corrupt(format!(
            "{bits} is not a prefix of a table of routes"
        ))),
    })
}

/// All prefixes of a file without names.
fn load<V: NextHop + FromBytes + Immutable>(path: &Path) -> Result<Vec<(IpNet, V)>, OpenError> {
    let file = BitFile::<V>::open(path)?;
    let found = match file.names_len() {
        0 => prefixes(&file)
            .map(|found| found.map(|(net, value)| (net, value.clone())))
            .collect(),
        names => Err(OpenCause::Corrupt(format!(
            "the file has {names} names beside the table; open it as a BitFile or a RouteTable"
        ))),
    };
    found.map_err(OpenError::at(path))
}

impl<F: Family, V: NextHop + FromBytes + IntoBytes + Immutable> FibSnapshot<F, V> {
    /// Saves this version. The file is written beside `path`, flushed, and renamed, so `path`
    /// always names the whole old file or the whole new one. [`Builder::load`] makes a table of it.
    /// A [`BitFile`] reads it without loading; its prefixes then have the byte 4 or 6 in front.
    ///
    /// O(prefixes), and the writing of the file. It takes no lock.
    ///
    /// ```
    /// use sapwood::lpm::{BitFile, BitString, Ipv4Fib};
    /// # let path = std::env::temp_dir().join(format!("sapwood-doc-{}.fib", std::process::id()));
    /// let fib = Ipv4Fib::from_iter([("10.0.0.0/8".parse()?, 7u32)]);
    /// fib.snapshot().save(&path)?;
    /// let again = Ipv4Fib::<u32>::builder().load(&path)?;
    /// assert_eq!(again.lookup([10, 1, 2, 3].into()).unwrap().1, 7);
    /// let file = BitFile::<u32>::open(&path)?;
    /// assert_eq!(file.lookup(BitString::from_bytes(&[4, 10, 1, 2, 3], 40)?), Some((16, &7)));
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SaveError`]; a file that was there before is untouched.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), SaveError> {
        let prefixes = self.iter().map(|(net, value)| (net.into(), value.clone()));
        save(prefixes, core::iter::empty(), path.as_ref())
    }
}

impl<V: NextHop + FromBytes + IntoBytes + Immutable> IpSnapshot<V> {
    /// Saves this version, as [`FibSnapshot::save`] does; [`Builder::load`] makes a table of it.
    ///
    /// # Errors
    /// [`SaveError`]; a file that was there before is untouched.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), SaveError> {
        let prefixes = self.iter().map(|(net, value)| (net, value.clone()));
        save(prefixes, core::iter::empty(), path.as_ref())
    }
}

/// Makes a table of the content of a file.
pub fn filled<T>(path: &Path, make: impl FnOnce() -> Result<T, Error>) -> Result<T, OpenError> {
    make()
        .map_err(|error| OpenCause::Table(error.into()))
        .map_err(OpenError::at(path))
}

impl<F: Family, V: NextHop + FromBytes + Immutable> Builder<Fib<F, V>> {
    /// Loads a table from a file that [`FibSnapshot::save`] or [`IpSnapshot::save`] wrote, after
    /// checking all of it.
    ///
    /// O(bytes of the file), and a table built of sorted prefixes.
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong. A prefix of the other family is an error, too.
    ///
    /// # Panics
    /// As [`build`](Self::build).
    pub fn load(self, path: impl AsRef<Path>) -> Result<Fib<F, V>, OpenError> {
        let path = path.as_ref();
        let mut all = Vec::new();
        for (net, value) in load(path)? {
            let Some(net) = F::from_net(net) else {
                let cause = OpenCause::Corrupt(format!("{net} is of the other family"));
                return Err(OpenError::at(path)(cause));
            };
            all.push((net, value));
        }
        filled(path, || self.build_from(all))
    }
}

impl<V: NextHop + FromBytes + Immutable> Builder<IpFib<V>> {
    /// Loads a table from a file that [`IpSnapshot::save`] or [`FibSnapshot::save`] wrote, after
    /// checking all of it.
    ///
    /// O(bytes of the file), and tables built of sorted prefixes.
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong.
    ///
    /// # Panics
    /// As [`build`](Self::build).
    pub fn load(self, path: impl AsRef<Path>) -> Result<IpFib<V>, OpenError> {
        let path = path.as_ref();
        let all = load(path)?;
        filled(path, || self.build_from(all))
    }
}
