//! Tables of routes in files: prefixes of both families, and what each leads to.
//!
//! The file is a trie of bit strings with a list beside it, as a `BitFile` is, with a layout hash
//! of its own. Four bits before each prefix have its family, 4 or 6, so that prefixes of one family
//! never cover those of the other. `docs/lpm.md` has the layout.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use ipnet::IpNet;
use sapwood_arena::HeaderError;
use sapwood_format::header;

use super::bits::{AsBits, BitFile, BitFileBuilder, BitPrefix};
use super::saved_hop::{HopRef, MEMBER, MEMBERS, PAYLOADS, SavedHop, Word, entry};
use crate::{Error, OpenCause, OpenError, SaveError};
use sapwood_qp::QpShape;

/// Bits of the family before an address.
const FAMILY: usize = 4;

/// A prefix with its family in front.
struct Tagged {
    bytes: [u8; 17],
    bits: usize,
}

impl Tagged {
    /// The family and the first `len` bits of an address.
    fn new(address: IpAddr, len: u8) -> Self {
        let (family, left): (u128, _) = match address {
            IpAddr::V4(address) => (4, u128::from(address.to_bits()) << 96),
            IpAddr::V6(address) => (6, address.to_bits()),
        };
        let mut bytes = [0; 17];
        bytes[..16].copy_from_slice(&(family << 124 | left >> FAMILY).to_be_bytes());
        bytes[16] = (left as u8) << FAMILY;
        let bits = FAMILY + usize::from(len);
        Tagged { bytes, bits }
    }

    /// The family and all bits of an address.
    fn whole(address: IpAddr) -> Self {
        Self::new(address, if address.is_ipv4() { 32 } else { 128 })
    }

    fn of(net: IpNet) -> Self {
        Self::new(net.addr(), net.prefix_len())
    }
}

impl AsBits for Tagged {
    fn with_bits<R>(&self, f: impl FnOnce(BitPrefix<'_>) -> R) -> R {
        match BitPrefix::truncated(&self.bytes, self.bits) {
            Ok(bits) => f(bits),
            Err(_) => unreachable!("a prefix has at most 132 bits with its family"),
        }
    }
}

/// The prefix that has these bits behind its family.
fn net_of(bits: BitPrefix<'_>) -> Option<IpNet> {
    let mut all = [0; 17];
    for (i, byte) in bits.bytes().enumerate() {
        *all.get_mut(i)? = byte;
    }
    let [front @ .., last] = all;
    let front = u128::from_be_bytes(front);
    let left = front << FAMILY | u128::from(last >> FAMILY);
    let len = u8::try_from(bits.len().checked_sub(FAMILY)?).ok()?;
    let address: IpAddr = match front >> 124 {
        4 => Ipv4Addr::from_bits((left >> 96) as u32).into(),
        6 => Ipv6Addr::from_bits(left).into(),
        _ => return None,
    };
    IpNet::new(address, len).ok()
}

/// Builds a [`FibFile`]: prefixes of both families, and what each leads to.
///
/// ```
/// use sapwood::lpm::{FibFile, FibFileBuilder, NullRoute, SavedHop};
/// # let path = std::env::temp_dir().join(format!("sapwood-doc-{}.routes", std::process::id()));
/// let mut builder = FibFileBuilder::new();
/// let core = builder.hop(&SavedHop::Name("192.0.2.1"))?;
/// builder.insert("10.0.0.0/8".parse()?, core)?;
/// builder.insert("2001:db8::/32".parse()?, core)?;
/// let none = builder.hop(&SavedHop::Null(NullRoute::Blackhole))?;
/// builder.insert("10.9.0.0/16".parse()?, none)?;
/// builder.save(&path)?;
///
/// let file = FibFile::open(&path)?;
/// let (net, hop) = file.lookup("10.1.2.3".parse()?).unwrap();
/// assert_eq!((net, file.hop(hop)), ("10.0.0.0/8".parse()?, Some(SavedHop::Name("192.0.2.1"))));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct FibFileBuilder {
    table: BitFileBuilder<u32>,
    /// The entries of the list, by their bytes. Those of a large group are one.
    listed: HashMap<Box<[u8]>, u32>,
    /// The number of entries of the list.
    entries: u32,
}

impl FibFileBuilder {
    /// An empty table.
    ///
    /// O(1).
    pub fn new() -> Self {
        Self::default()
    }

    /// A reference to what prefixes lead to, for [`insert`](Self::insert). Equal ones are stored
    /// once.
    ///
    /// O(bytes of names, and members).
    ///
    /// # Errors
    /// [`Error::NameTooLong`] for names and plain values of more than 65,529 bytes,
    /// [`Error::ArenaFull`], [`Error::Full`] when the list has 2^30 entries.
    ///
    /// # Panics
    /// When a member of a group is a group or a null route.
    pub fn hop(&mut self, hop: &SavedHop<'_>) -> Result<HopRef, Error> {
        let mut key = Vec::new();
        match hop {
            SavedHop::Number(number) => {
                if let Some(small) = u32::try_from(*number).ok().filter(|n| *n < PAYLOADS) {
                    return Ok(Word::Number(small).encode());
                }
                key.push(entry::NUMBER);
                key.extend(number.to_le_bytes());
            }
            SavedHop::Name(name) => {
                key.push(entry::NAME);
                key.extend(name.as_bytes());
            }
            SavedHop::Bytes(bytes) => {
                key.push(entry::BYTES);
                key.extend(*bytes);
            }
            SavedHop::Null(null) => return Ok(Word::Null(*null).encode()),
            SavedHop::Group(members) => {
                key.push(entry::GROUP);
                for (member, weight) in members {
                    let nested = matches!(member, SavedHop::Group(_) | SavedHop::Null(_));
                    assert!(!nested, "a member of a group is {}", member.kind());
                    key.extend(weight.to_le_bytes());
                    key.extend(self.hop(member)?.0.to_le_bytes());
                }
            }
        }
        if let Some(position) = self.listed.get(&key[..]) {
            return Ok(Word::Listed(*position).encode());
        }
        let position = match &key[..] {
            [entry::GROUP, members @ ..] => {
                let (first, more) = members.split_at(members.len().min(MEMBERS * MEMBER));
                let position = self.push(&[&[entry::GROUP], first].concat())?;
                for more in more.chunks(MEMBERS * MEMBER) {
                    self.push(&[&[entry::MEMBERS], more].concat())?;
                }
                position
            }
            other => self.push(other)?,
        };
        self.listed.insert(key.into(), position);
        Ok(Word::Listed(position).encode())
    }

    /// Adds an entry to the list.
    fn push(&mut self, entry: &[u8]) -> Result<u32, Error> {
        if self.entries >= PAYLOADS {
            let max_entries = PAYLOADS as usize;
            return Err(Error::Full { max_entries });
        }
        let position = self.table.push_name(entry)?;
        self.entries = position + 1;
        Ok(position)
    }

    /// Inserts or replaces what a prefix leads to; returns what was replaced.
    ///
    /// O(bits of the prefix).
    ///
    /// # Errors
    /// [`Error::HostBitsSet`], [`Error::ArenaFull`].
    ///
    /// # Panics
    /// When the reference is of another file, and this one's list is shorter.
    pub fn insert(&mut self, net: IpNet, hop: HopRef) -> Result<Option<HopRef>, Error> {
        if net != net.trunc() {
            return Err(Error::HostBitsSet { prefix: net });
        }
        let known = hop.position().is_none_or(|at| at < self.entries);
        assert!(known, "a reference of another file");
        let old = self.table.insert(Tagged::of(net), hop.0)?;
        Ok(old.map(HopRef))
    }

    /// Number of prefixes.
    ///
    /// O(1).
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is no prefix.
    ///
    /// O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Saves the table. The file is written beside `path`, flushed, and renamed, so `path` always
    /// names the whole old file or the whole new one.
    ///
    /// O(prefixes, and bytes of the list), and the writing of the file.
    ///
    /// # Errors
    /// [`SaveError`]; a file that was there before is untouched.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), SaveError> {
        self.table.save_as(header::routes_hash(), path.as_ref())
    }
}

impl fmt::Debug for FibFileBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FibFileBuilder")
            .field("prefixes", &self.len())
            .field("listed", &self.entries)
            .finish()
    }
}

/// A saved table of routes, mapped into memory and read where it lies.
///
/// The snapshots of [`IpFib`](crate::IpFib), [`Fib`](crate::Fib) and `RouteTable` save such files,
/// and so do the program `sapwood`, the library for C, and the package for Python. Each reads the
/// files of the others.
///
/// Every reference is checked before it is followed. The file must not be changed in place while it
/// is open; saving again replaces it.
pub struct FibFile {
    file: BitFile<u32>,
}

impl FibFile {
    /// Opens a file. This reads the whole file and checks the header, the checksums, the trie, each
    /// prefix, and what it leads to.
    ///
    /// O(bytes of the file).
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let file = Self::open_at(path, true).and_then(|file| {
            file.check_routes().map_err(OpenCause::Corrupt)?;
            Ok(file)
        });
        file.map_err(OpenError::at(path))
    }

    /// Opens a file after checking its header only, in a time that does not depend on its size.
    /// Damage in the rest of the file gives wrong answers, but no access outside the file;
    /// [`verify`](Self::verify) finds it.
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong.
    pub fn open_unverified(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        Self::open_at(path, false).map_err(OpenError::at(path))
    }

    fn open_at(path: &Path, verify: bool) -> Result<Self, OpenCause> {
        match BitFile::open_as(path, header::routes_hash(), verify) {
            Ok(file) => Ok(FibFile { file }),
            Err(OpenCause::Image(error)) => Err(match error {
                sapwood_arena::OpenError::Header(HeaderError::Layout { .. }) => {
                    old_file(path).unwrap_or_else(|| OpenCause::of_image(error))
                }
                error => OpenCause::Image(error),
            }),
            Err(cause) => Err(cause),
        }
    }

    /// Checks each prefix and what it leads to.
    fn check_routes(&self) -> Result<(), String> {
        let mut kinds = Vec::new();
        for (position, bytes) in self.file.names().enumerate() {
            let kind = self.check_entry(bytes, &kinds);
            let kind = kind.ok_or_else(|| {
                format!(
                    "entry {position} of the list, of {} bytes, is none",
                    bytes.len()
                )
            })?;
            kinds.push(kind);
        }
        for (bits, word) in self.file.iter() {
            if net_of(bits.as_prefix()).is_none() {
                return Err(format!("{bits} is not a prefix of IPv4 or IPv6"));
            }
            let known = match Word::decode(HopRef(*word)) {
                Some(Word::Listed(at)) => kinds
                    .get(at as usize)
                    .is_some_and(|kind| *kind != entry::MEMBERS),
                word => word.is_some(),
            };
            if !known {
                return Err(format!(
                    "{bits} leads to {word:#x}, which the file does not have"
                ));
            }
        }
        Ok(())
    }

    /// The kind of an entry of the list, if it is one. Those before it have these kinds.
    fn check_entry(&self, bytes: &[u8], before: &[u8]) -> Option<u8> {
        let (kind, content) = bytes.split_first()?;
        let plain = |(_, word)| match Word::decode(word) {
            Some(Word::Number(_)) => true,
            // Members come before their group.
            Some(Word::Listed(at)) => before
                .get(at as usize)
                .is_some_and(|kind| matches!(*kind, entry::NAME | entry::NUMBER | entry::BYTES)),
            _ => false,
        };
        let fits = match *kind {
            entry::NAME => core::str::from_utf8(content).is_ok(),
            entry::NUMBER => content.len() == 8,
            entry::BYTES => true,
            entry::GROUP | entry::MEMBERS => {
                let follows = matches!(before.last(), Some(&(entry::GROUP | entry::MEMBERS)));
                (*kind == entry::GROUP || follows)
                    && content.len() % MEMBER == 0
                    && members_of(content).all(plain)
            }
            _ => false,
        };
        fits.then_some(*kind)
    }

    /// Number of prefixes.
    ///
    /// O(1).
    pub fn len(&self) -> usize {
        self.file.len()
    }

    /// Whether there is no prefix.
    ///
    /// O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The longest prefix of an address, and what it leads to.
    ///
    /// O(number of branches on the path), without memory from the heap.
    pub fn lookup(&self, address: IpAddr) -> Option<(IpNet, HopRef)> {
        let (len, word) = self.file.lookup(Tagged::whole(address))?;
        found(address, len, *word)
    }

    /// What the longest prefix of an address leads to.
    ///
    /// As [`lookup`](Self::lookup).
    #[inline]
    pub fn lookup_value(&self, address: IpAddr) -> Option<HopRef> {
        Some(HopRef(*self.file.lookup(Tagged::whole(address))?.1))
    }

    /// The longest prefix that covers a prefix, itself included, and what it leads to.
    ///
    /// As [`lookup`](Self::lookup).
    pub fn covering(&self, net: IpNet) -> Option<(IpNet, HopRef)> {
        let (len, word) = self.file.lookup(Tagged::of(net))?;
        found(net.addr(), len, *word)
    }

    /// All prefixes of an address, shortest first.
    ///
    /// O(number of branches on the path).
    pub fn matches(&self, address: IpAddr) -> impl Iterator<Item = (IpNet, HopRef)> {
        let matches = self.file.matches(Tagged::whole(address));
        matches.filter_map(move |(len, word)| found(address, len, *word))
    }

    /// What exactly this prefix leads to.
    ///
    /// O(bits of the prefix).
    pub fn get(&self, net: IpNet) -> Option<HopRef> {
        self.file.get(Tagged::of(net)).copied().map(HopRef)
    }

    /// All prefixes, IPv4 first, each family in the order of addresses.
    ///
    /// Each step is O(1) on average.
    pub fn iter(&self) -> impl Iterator<Item = (IpNet, HopRef)> {
        let all = self.file.iter();
        all.filter_map(|(bits, word)| Some((net_of(bits.as_prefix())?, HopRef(*word))))
    }

    /// The next hop, the group, or the null route of a reference of this file. `None` only when the
    /// file was opened without a check and is damaged.
    ///
    /// A search for a listed one, and O(members) of a group.
    pub fn hop(&self, hop: HopRef) -> Option<SavedHop<'_>> {
        let position = match Word::decode(hop)? {
            Word::Number(number) => return Some(SavedHop::Number(number.into())),
            Word::Null(null) => return Some(SavedHop::Null(null)),
            Word::Listed(position) => position,
        };
        let (kind, mut content) = self.file.name(position)?.split_first()?;
        if *kind != entry::GROUP {
            return listed(*kind, content);
        }
        let mut members = Vec::new();
        let mut at = position;
        loop {
            for (weight, word) in members_of(content) {
                let hop = match Word::decode(word)? {
                    Word::Number(number) => SavedHop::Number(number.into()),
                    Word::Listed(position) => {
                        let (kind, content) = self.file.name(position)?.split_first()?;
                        listed(*kind, content)?
                    }
                    Word::Null(_) => return None,
                };
                members.push((hop, weight));
            }
            at += 1;
            match self.file.name(at).and_then(<[u8]>::split_first) {
                Some((&entry::MEMBERS, more)) => content = more,
                _ => return Some(SavedHop::Group(members)),
            }
        }
    }

    /// The list of the file by position: names, numbers from 2^30 on, bytes and groups. `None`
    /// stands for more members of the group before. No prefix need lead to an entry any more.
    ///
    /// Each step is as [`hop`](Self::hop).
    pub fn listed(&self) -> impl Iterator<Item = Option<SavedHop<'_>>> {
        let all = 0..self.file.names_len();
        all.map(|position| self.hop(Word::Listed(position).encode()))
    }

    /// All routes as a caller holds them, in order. `hold` makes the caller's value of what a prefix
    /// leads to, once for each different one; `holds` says for an error what the caller holds, such
    /// as "a table of numbers".
    ///
    /// O(prefixes).
    ///
    /// # Errors
    /// [`OpenCause::NotHeld`] when `hold` returns `None`, [`OpenCause::Corrupt`].
    pub fn routes_as<T: Clone>(
        &self,
        holds: &str,
        mut hold: impl FnMut(&SavedHop<'_>) -> Option<T>,
    ) -> Result<Vec<(IpNet, T)>, OpenCause> {
        let mut known: HashMap<HopRef, T> = HashMap::new();
        let mut all = Vec::with_capacity(self.len());
        for (net, hop) in self.iter() {
            if let Some(value) = known.get(&hop) {
                all.push((net, value.clone()));
                continue;
            }
            let Some(found) = self.hop(hop) else {
                return Err(OpenCause::Corrupt(format!("{net} leads to nothing")));
            };
            let Some(value) = hold(&found) else {
                let kind = found.kind();
                let what = format!("{kind} for {net}, \"{found}\"; the caller holds {holds}");
                return Err(OpenCause::NotHeld(what));
            };
            known.insert(hop, value.clone());
            all.push((net, value));
        }
        Ok(all)
    }

    /// Bytes of the file.
    ///
    /// O(1).
    pub fn file_bytes(&self) -> usize {
        self.file.file_bytes()
    }

    /// The shape of the trie, in which the entries of the list are entries, too; from a walk over
    /// all of it.
    ///
    /// # Errors
    /// A message that says what is wrong.
    pub fn shape(&self) -> Result<QpShape, String> {
        self.file.shape()
    }

    /// Checks all that [`open`](Self::open) checks behind the header.
    ///
    /// O(bytes of the file).
    ///
    /// # Errors
    /// A message that says what is wrong.
    pub fn verify(&self) -> Result<(), String> {
        self.file.verify()?;
        self.check_routes()
    }
}

impl fmt::Debug for FibFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.iter().map(|(net, hop)| (net, self.hop(hop)));
        f.debug_map().entries(all).finish()
    }
}

/// The prefix of an address that has this many bits with its family.
fn found(address: IpAddr, bits: usize, word: u32) -> Option<(IpNet, HopRef)> {
    let len = u8::try_from(bits.checked_sub(FAMILY)?).ok()?;
    let net = IpNet::new(address, len).ok()?.trunc();
    Some((net, HopRef(word)))
}

/// Weights and words of the members of a group.
fn members_of(content: &[u8]) -> impl Iterator<Item = (u32, HopRef)> {
    content.chunks_exact(MEMBER).filter_map(|member| {
        let (weight, word) = member.split_first_chunk()?;
        let word = u32::from_le_bytes(word.try_into().ok()?);
        Some((u32::from_le_bytes(*weight), HopRef(word)))
    })
}

/// The next hop of an entry that is no group.
fn listed(kind: u8, content: &[u8]) -> Option<SavedHop<'_>> {
    match kind {
        entry::NAME => core::str::from_utf8(content).ok().map(SavedHop::Name),
        entry::NUMBER => {
            let number = u64::from_le_bytes(content.try_into().ok()?);
            Some(SavedHop::Number(number))
        }
        entry::BYTES => Some(SavedHop::Bytes(content)),
        _ => None,
    }
}

/// The cause for a file that an earlier version made. Its first prefix tells who did: the program
/// put four bits before a prefix, and the library a byte.
fn old_file(path: &Path) -> Option<OpenCause> {
    let first = match BitFile::<u32>::open_unverified(path) {
        Ok(file) => file.iter().next()?.0,
        Err(_) => BitFile::<u64>::open_unverified(path).ok()?.iter().next()?.0,
    };
    let (file, remedy) = match first.as_bytes().first()? {
        0x40..=0x4f | 0x60..=0x6f if net_of(first.as_prefix()).is_some() => (
            "a table of routes in format 1 of the program `sapwood`",
            "build it anew by `sapwood routes build`",
        ),
        4 | 6 if first.len() >= 8 => (
            "a table of routes in format 1 of the library",
            "save the table anew: Fib.save() in Python, a snapshot's `save` in Rust and C",
        ),
        _ => return None,
    };
    Some(OpenCause::OldFile { file, remedy })
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
            Tagged::of(net).with_bits(|bits| {
                assert_eq!(bits.len(), FAMILY + usize::from(net.prefix_len()));
                assert_eq!(net_of(bits), Some(net));
            });
        }
        for (bytes, len) in [
            (&[][..], 0),
            (&[0x40], 3),
            (&[0x50], 4),
            (&[0x4f; 5], 37),
            (&[0x6f; 17], 133),
            (&[0x6f; 18], 144),
        ] {
            assert_eq!(net_of(BitPrefix::truncated(bytes, len).unwrap()), None);
        }
    }
}
