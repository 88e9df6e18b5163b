//! A table in a file: saved whole, opened checked, with a list of names beside it.
//!
//! Names are keys of the same trie. Such a key is no prefix's: byte 255, the name's number (4
//! bytes, big-endian), the name. The values of these keys are zeros. The keys in a cluster differ
//! before the name, so that each name lies in one piece, behind the prefix of the cluster.

use alloc::string::String;
use core::fmt;
use std::path::Path;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::BitFib;
use super::code::{self, encode};
use super::read::bit_methods;
use super::string::AsBits;
use crate::{Builder, Error, Rejected};
use sapwood_format::header;
use sapwood_qp::parts::{self, Layouts, View};
use sapwood_qp::{Builder as QpBuilder, Checked, MAX_KEY, OpenCause, OpenError, QpFile, QpMap};
use sapwood_qp::{QpShape, QpStore, SaveError};

/// First byte of the keys of names.
pub(crate) const NAME: u8 = 255;
/// Bytes before the name.
pub(crate) const NAME_AT: usize = 5;

/// The layouts of tables: with inline clusters, and without.
const TABLES: Layouts = [header::bits_hash, OLD_TABLES[0]];

/// The layout of tables that earlier versions saved is that of a map.
pub(crate) const OLD_TABLES: Layouts =
    [|size, align| header::layout_hash(size, align, header::FORMAT); 2];

/// The layout hash of a table with these values.
pub(super) fn layout<V>() -> u64 {
    header::bits_hash(size_of::<V>(), align_of::<V>())
}

fn name_key(index: u32) -> [u8; NAME_AT] {
    let [a, b, c, d] = index.to_be_bytes();
    [NAME, a, b, c, d]
}

/// Builds a [`BitFile`]: a table of prefixes, with a list of names beside it.
///
/// ```
/// use std::net::Ipv4Addr;
/// use sapwood::lpm::{BitFile, BitFileBuilder, BitString, ipnet::Ipv4Net};
/// # let path = std::env::temp_dir().join(format!("sapwood-doc-{}.routes", std::process::id()));
///
/// let mut builder = BitFileBuilder::<u32>::new();
/// let via = builder.push_name("192.0.2.1")?;
/// let net: Ipv4Net = "10.0.0.0/8".parse()?;
/// builder.insert(BitString::try_from(net)?, via)?;
/// builder.save(&path)?;
///
/// let file = BitFile::<u32>::open(&path)?;
/// let (len, next_hop) = file.lookup(Ipv4Addr::new(10, 9, 8, 7)).unwrap();
/// assert_eq!(len, 8);
/// assert_eq!(file.name(*next_hop), Some(&b"192.0.2.1"[..]));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BitFileBuilder<V> {
    map: QpMap<V>,
    names: u32,
}

impl<V: IntoBytes + FromBytes + Immutable> BitFileBuilder<V> {
    /// An empty table.
    ///
    /// O(1).
    pub fn new() -> Self {
        Self::default()
    }

    /// Inserts or replaces; returns the value that was replaced.
    ///
    /// O(bits of the prefix); as [`QpMap::insert`].
    ///
    /// # Errors
    /// [`Error::ArenaFull`], with the value given back.
    pub fn insert(&mut self, prefix: impl AsBits, value: V) -> Result<Option<V>, Rejected<V>> {
        let inserted = self.map.insert(prefix.with_bits(encode), value);
        inserted.map_err(|rejected| rejected.error_into())
    }

    /// Adds a name at the end of the list; returns its number, from 0. The list may have the same
    /// name twice.
    ///
    /// O(length of the name).
    ///
    /// # Errors
    /// [`Error::NameTooLong`] for names of more than 65,530 bytes, [`Error::ArenaFull`],
    /// [`Error::Full`] after 4,294,967,295 names.
    pub fn push_name(&mut self, name: impl AsRef<[u8]>) -> Result<u32, Error> {
        let (name, index) = (name.as_ref(), self.names);
        let Some(next) = index.checked_add(1) else {
            let max_entries = index as usize;
            return Err(Error::Full { max_entries });
        };
        if name.len() > MAX_KEY - NAME_AT {
            return Err(Error::NameTooLong { len: name.len() });
        }
        self.map
            .insert([&name_key(index), name].concat(), V::new_zeroed())?;
        self.names = next;
        Ok(index)
    }

    /// Number of prefixes.
    ///
    /// O(1).
    pub fn len(&self) -> usize {
        self.map.len() - self.names as usize
    }

    /// Whether there is no prefix.
    ///
    /// O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Saves table and names. The file is written beside `path`, flushed, and renamed, so `path`
    /// always names the whole old file or the whole new one.
    ///
    /// O(sum of all key lengths), and the writing of the file.
    ///
    /// # Errors
    /// [`SaveError`]; a file that was there before is untouched.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), SaveError> {
        self.save_as(layout::<V>(), path.as_ref())
    }

    /// As [`save`](Self::save), with the layout hash of another kind of file.
    pub(crate) fn save_as(&self, layout: u64, path: &Path) -> Result<(), SaveError> {
        self.map.save_as(layout, path)
    }
}

impl<V> Default for BitFileBuilder<V> {
    fn default() -> Self {
        BitFileBuilder {
            map: QpMap::new(),
            names: 0,
        }
    }
}

impl<V> fmt::Debug for BitFileBuilder<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BitFileBuilder")
            .field("prefixes", &(self.map.len() - self.names as usize))
            .field("names", &self.names)
            .finish()
    }
}

impl<P: AsBits, V: IntoBytes + FromBytes + Immutable> Extend<(P, V)> for BitFileBuilder<V> {
    /// # Panics
    /// When there is no memory: [`BitFileBuilder::insert`] returns that as an error.
    fn extend<I: IntoIterator<Item = (P, V)>>(&mut self, prefixes: I) {
        for (prefix, value) in prefixes {
            if let Err(rejected) = self.insert(prefix, value) {
                panic!("extending a BitFileBuilder: {rejected}");
            }
        }
    }
}

/// A saved table, mapped into memory and read where it lies.
///
/// As for a [`QpFile`], every reference is checked before it is followed, and the file must not be
/// changed in place while it is open; saving again replaces it.
pub struct BitFile<V> {
    file: QpFile<V>,
    names: u32,
}

impl<V: FromBytes + Immutable + Send + Sync + 'static> Builder<BitFib<V>> {
    /// Loads a table from a file that [`BitSnapshot::save`](super::BitSnapshot::save) or
    /// [`BitFileBuilder::save`] wrote with values of the same size and alignment, after checking
    /// all of it. The table's first version has the number that the saved one had.
    ///
    /// O(bytes of the file).
    ///
    /// ```
    /// use sapwood::lpm::{BitFib, BitString};
    /// # let path = std::env::temp_dir().join(format!("sapwood-doc-{}.bit", std::process::id()));
    /// let fib = BitFib::new()?;
    /// fib.insert(BitString::from_number(0b101, 3)?, 7u64)?;
    /// fib.snapshot().save(&path)?;
    /// let again = BitFib::<u64>::builder().load(&path)?;
    /// assert_eq!(again.version(), fib.version());
    /// assert_eq!(again.get(BitString::from_number(0b101, 3)?), Some(7));
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong. A file with names beside the prefixes is refused.
    ///
    /// # Panics
    /// As [`build`](Self::build).
    pub fn load(self, path: impl AsRef<Path>) -> Result<BitFib<V>, OpenError> {
        self.load_by(path.as_ref(), QpBuilder::load_file)
    }

    /// As [`load`](Self::load), for a table whose clusters hold their entries, as
    /// [`build_inline`](Self::build_inline) makes it.
    ///
    /// O(bytes of the file).
    ///
    /// ```
    /// use sapwood::lpm::{BitFib, BitString};
    /// # let path = std::env::temp_dir().join(format!("sapwood-doc-{}.inbit", std::process::id()));
    /// let fib = BitFib::new()?;
    /// fib.insert(BitString::from_number(0b101, 3)?, 7u64)?;
    /// fib.snapshot().save(&path)?;
    /// let again = BitFib::<u64>::builder().load_inline(&path)?;
    /// assert_eq!(again.lookup(BitString::from_number(0b1011, 4)?), Some((3, 7)));
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`load`](Self::load).
    ///
    /// # Panics
    /// As [`build`](Self::build).
    pub fn load_inline(self, path: impl AsRef<Path>) -> Result<BitFib<V>, OpenError>
    where
        V: IntoBytes,
    {
        self.load_by(path.as_ref(), QpBuilder::load_file_inline)
    }

    /// The table of a file without names, whose entries `load` takes over.
    fn load_by(
        self,
        path: &Path,
        load: impl FnOnce(QpBuilder<QpStore<V>>, &QpFile<V>) -> Result<QpStore<V>, OpenCause>,
    ) -> Result<BitFib<V>, OpenError> {
        let file = BitFile::open(path)?;
        let store = match file.names {
            0 => load(self.store(), &file.file),
            names => Err(OpenCause::Corrupt(format!(
                "the file has {names} names beside the table; open it as a BitFile"
            ))),
        };
        Ok(BitFib {
            store: store.map_err(OpenError::at(path))?,
        })
    }
}

impl<V: FromBytes + Immutable> BitFile<V> {
    /// Opens a file that [`BitFileBuilder::save`] or
    /// [`BitSnapshot::save`](super::BitSnapshot::save) wrote with values of the same size and
    /// alignment. This reads the whole file and checks the header, the checksums, the trie, and
    /// that each key is a prefix's or a name's.
    ///
    /// O(bytes of the file).
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        Self::open_as(path, &TABLES, true).map_err(OpenError::at(path))
    }

    /// Opens a file after checking its header only, in a time that does not depend on its size.
    /// Damage in the rest of the file gives wrong answers, but no access outside the file;
    /// [`verify`](Self::verify) finds it.
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong.
    pub fn open_unverified(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        Self::open_as(path, &TABLES, false).map_err(OpenError::at(path))
    }

    /// Opens a file of a kind that has these layouts. With `verify`, checks all of it.
    pub(crate) fn open_as(path: &Path, layouts: &Layouts, verify: bool) -> Result<Self, OpenCause> {
        let file = Self::with_names(QpFile::open_as(path, layouts, verify)?);
        let file = file.map_err(OpenCause::Corrupt)?;
        if verify {
            file.check_keys().map_err(OpenCause::Corrupt)?;
        }
        Ok(file)
    }

    fn with_names(file: QpFile<V>) -> Result<Self, String> {
        let last = file.last_key_value().and_then(|(key, _)| number_of(&key));
        let names = last.map_or(Some(0), |last| last.checked_add(1));
        match names.filter(|names| *names as usize <= file.len()) {
            Some(names) => Ok(BitFile { file, names }),
            None => Err("more names than entries".into()),
        }
    }

    /// Checks that each name has its number, and that every other key is a prefix's.
    fn check_keys(&self) -> Result<(), String> {
        let prefixes = self.len();
        for (i, key) in self.file.keys().enumerate() {
            let right = if i < prefixes {
                code::is_key(&key)
            } else {
                number_of(&key).is_some_and(|number| number as usize == i - prefixes)
            };
            if !right {
                return Err(alloc::format!("{key:?} is not a key of a table"));
            }
        }
        match self.names().count() {
            whole if whole == self.names as usize => Ok(()),
            whole => Err(alloc::format!("name {whole} is in two pieces")),
        }
    }

    #[inline(always)]
    fn trie(&self) -> View<'_, V, Checked> {
        self.file.view()
    }

    /// Number of prefixes.
    ///
    /// O(1).
    #[inline]
    pub fn len(&self) -> usize {
        self.file.len() - self.names as usize
    }

    bit_methods!(['s] 's [&'s ] self Checked);

    /// Number of names.
    ///
    /// O(1).
    pub fn names_len(&self) -> u32 {
        self.names
    }

    /// The name with this number.
    ///
    /// O(length of the name).
    pub fn name(&self, index: u32) -> Option<&[u8]> {
        parts::tails(self.file.prefix(name_key(index)), NAME_AT).next()
    }

    /// All names, in the order in which they were added.
    ///
    /// O(1); each step is O(1) on average.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        parts::tails(self.file.prefix([NAME]), NAME_AT)
    }

    /// Bytes of the file.
    ///
    /// O(1).
    pub fn file_bytes(&self) -> usize {
        self.file.file_bytes()
    }

    /// The shape of the trie, in which names are entries, too; from a walk over all of it.
    ///
    /// # Errors
    /// A message that says what is wrong.
    pub fn shape(&self) -> Result<QpShape, String> {
        self.file.shape()
    }

    /// Checks every invariant of the trie and of its keys.
    ///
    /// O(bytes of the file).
    ///
    /// # Errors
    /// A message that says what is wrong.
    pub fn verify(&self) -> Result<(), String> {
        self.file.verify()?;
        self.check_keys()
    }
}

/// The number of the name with this key.
fn number_of(key: &[u8]) -> Option<u32> {
    let (number, _) = key.strip_prefix(&[NAME])?.split_first_chunk()?;
    Some(u32::from_be_bytes(*number))
}

impl<V: FromBytes + Immutable + fmt::Debug> fmt::Debug for BitFile<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().fmt(f)
    }
}
