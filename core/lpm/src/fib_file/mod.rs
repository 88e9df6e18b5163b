//! Tables of routes in files: prefixes of both families, and what each leads to.
//!
//! The file is a trie of bit strings with a list beside it, as a `BitFile` is, with a layout hash
//! of its own. Four bits before each prefix have its family, 4 or 6, so that prefixes of one family
//! never cover those of the other. `docs/lpm.md` has the layout.

mod builder;
mod hop;
mod key;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;

use ipnet::IpNet;
use sapwood_format::header;
use sapwood_qp::QpShape;
use sapwood_qp::parts::Layouts;

pub use builder::FibFileBuilder;
#[doc(hidden)]
pub use hop::FIB_FILE_LAYOUT;
pub use hop::{HopRef, SavedHop};

use super::bits::{BitFile, OLD_TABLES};
use crate::{OpenCause, OpenError};
use hop::{MEMBER, Word, entry};
use key::{FAMILY, Tagged, net_of};

/// The layouts of tables of routes: with inline clusters, and without.
const ROUTES: Layouts = [
    |_, _| header::routes_hash(header::ROUTES_FORMAT),
    |_, _| header::routes_hash(1),
];

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
        match BitFile::open_as(path, &ROUTES, verify) {
            Ok(file) => Ok(FibFile { file }),
            Err(cause) if cause.is_other_layout() => Err(old_file(path).unwrap_or(cause)),
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
    pub fn lookup_net(&self, net: IpNet) -> Option<(IpNet, HopRef)> {
        let (len, word) = self.file.lookup(Tagged::of(net))?;
        found(net.addr(), len, *word)
    }

    /// All prefixes that cover a prefix, itself included, shortest first.
    ///
    /// As [`matches`](Self::matches).
    pub fn covering(&self, net: IpNet) -> impl Iterator<Item = (IpNet, HopRef)> {
        let matches = self.file.matches(Tagged::of(net));
        matches.filter_map(move |(len, word)| found(net.addr(), len, *word))
    }

    /// The prefix itself, if it is there, and all prefixes inside it, in order.
    ///
    /// As [`lookup`](Self::lookup), and O(1) on average for each.
    ///
    /// ```
    /// use sapwood::lpm::{FibFile, FibFileBuilder, SavedHop};
    /// # let path = std::env::temp_dir().join(format!("sapwood-doc-in-{}.routes", std::process::id()));
    /// let mut builder = FibFileBuilder::new();
    /// for (net, hop) in [("10.0.0.0/8", 1), ("10.1.0.0/16", 2), ("10.1.2.0/24", 3)] {
    ///     let hop = builder.hop(&SavedHop::Number(hop))?;
    ///     builder.insert(net.parse()?, hop)?;
    /// }
    /// builder.save(&path)?;
    /// let file = FibFile::open(&path)?;
    /// let nets = |found: &mut dyn Iterator<Item = (ipnet::IpNet, _)>| {
    ///     found.map(|(net, _)| net.to_string()).collect::<Vec<_>>()
    /// };
    /// let net = "10.1.0.0/16".parse()?;
    /// assert_eq!(nets(&mut file.covered_by(net)), ["10.1.0.0/16", "10.1.2.0/24"]);
    /// assert_eq!(nets(&mut file.covering(net)), ["10.0.0.0/8", "10.1.0.0/16"]);
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn covered_by(&self, net: IpNet) -> impl Iterator<Item = (IpNet, HopRef)> {
        let all = self.file.covered_by(Tagged::of(net));
        all.filter_map(|(bits, word)| Some((net_of(bits.as_prefix())?, HopRef(*word))))
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

    /// All routes as a caller holds them, in order. `hold` makes the caller's value of what a
    /// prefix leads to, once for each different one; `holds` says for an error what the caller
    /// holds, such as "numbers".
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
    let first = match BitFile::<u32>::open_as(path, &OLD_TABLES, false) {
        Ok(file) => file.iter().next()?.0,
        Err(_) => {
            let file = BitFile::<u64>::open_as(path, &OLD_TABLES, false).ok()?;
            file.iter().next()?.0
        }
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
