//! Tables of routes that are built, to be saved as files.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use std::collections::HashMap;
use std::path::Path;

use ipnet::IpNet;
use sapwood_format::header;

use super::hop::{HopRef, MEMBER, MEMBERS, PAYLOADS, SavedHop, Word, entry};
use super::key::Tagged;
use crate::bits::BitFileBuilder;
use crate::{Error, SaveError};

/// Builds a [`FibFile`](super::FibFile): prefixes of both families, and what each leads to.
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
        let layout = header::routes_hash(header::ROUTES_FORMAT);
        self.table.save_as(layout, path.as_ref())
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
