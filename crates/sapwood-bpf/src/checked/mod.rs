//! Readers of maps that another process, or programs in the kernel, write.

mod index;
mod nodes;
mod path;
mod verify;

use sapwood_format::header;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::Ordering;
use zerocopy::FromBytes;

use self::path::Path;

pub(crate) use self::index::{Index, Look, Secrets, Seen, Table};
pub(crate) use self::nodes::{Copied, Nodes, Place, Trouble, Window};
pub(crate) use self::verify::{Census, Node, verify};
use crate::arena::{BpfArena, WindowInfo};
use crate::error::Error;
use crate::layout::{Kind, root};

/// The maximum number of attempts of an operation that changes disturb, or that meets what looks
/// damaged.
const TRIES: usize = 64;
const TRIES_DAMAGED: usize = 4;

/// A value that a [`CheckedReader`] returns: plain bytes.
pub trait CheckedValue: Sized {
    /// Whether a value of this type can have this many bytes.
    fn fits(bytes: usize) -> bool;

    /// The value of these bytes. Their number satisfies [`fits`](Self::fits).
    fn of(bytes: &[u8]) -> Option<Self>;

    /// The layout hash that a map with such values has, if the map must have been made with this
    /// type.
    fn layout_hash() -> Option<u64>;
}

impl<V: FromBytes> CheckedValue for V {
    fn fits(bytes: usize) -> bool {
        bytes == size_of::<V>()
    }

    fn of(bytes: &[u8]) -> Option<V> {
        V::read_from_bytes(bytes).ok()
    }

    fn layout_hash() -> Option<u64> {
        Some(header::layout_hash(
            size_of::<V>(),
            align_of::<V>(),
            header::FORMAT,
        ))
    }
}

pub(crate) fn value_of<V: CheckedValue>(bytes: &[u8]) -> Result<V, Error> {
    V::of(bytes).ok_or_else(|| Error::Damaged(format!("a value of {} bytes", bytes.len())))
}

/// A value of any size: a byte string, or the bytes of a value whose type the reader does not know.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bytes(pub Vec<u8>);

impl CheckedValue for Bytes {
    fn fits(_: usize) -> bool {
        true
    }

    fn of(bytes: &[u8]) -> Option<Bytes> {
        Some(Bytes(bytes.to_vec()))
    }

    fn layout_hash() -> Option<u64> {
        None
    }
}

/// A reader of a map over byte strings in an arena. Another process or programs may write the map
/// meanwhile, or its owner may be dead. The reader returns copies, and checks every word before it
/// relies on it.
///
/// # What is promised
///
/// - Whatever bytes the window holds, and whatever is written meanwhile, the reader reads nothing
///   outside the window, and every operation ends. It returns a result, [`Error::Damaged`] or
///   [`Error::Busy`].
/// - While nobody writes, answers are exact, and [`verify`](Self::verify) checks that the map is
///   intact.
/// - While a process or a program writes, each returned entry was in the map at some time during
///   the operation. Walks ascend strictly, and find every key that is there throughout. This holds
///   as long as freed memory is not reused during the operation.
/// - The owner's grace periods do not wait for a reader, so the owner may reuse such memory. The
///   reader therefore checks the path from the root again after each read, and begins anew if the
///   path has changed. This detects nearly all such cases, but not all. For exact answers, read in
///   the owner's process or in a program.
///
/// A damaged map may refer to unused pages of its window. A read of such a page takes memory.
///
/// The process that owns the map should read the map itself.
///
/// ```no_run
/// use sapwood_bpf::BpfArena;
/// let arena = BpfArena::open("/sys/fs/bpf/names")?;
/// let blocked = arena.reader::<u64>("blocked")?;
/// println!("{:?}", blocked.get("example.org")?);
/// for entry in blocked.prefix("example.") {
///     let (key, value) = entry?;
///     println!("{} {value}", String::from_utf8_lossy(&key));
/// }
/// # Ok::<(), sapwood_bpf::Error>(())
/// ```
pub struct CheckedReader<V> {
    arena: BpfArena,
    window: WindowInfo,
    values: PhantomData<fn() -> V>,
}

impl BpfArena {
    /// Opens a reader of the map with this name. The map is of [`Kind::Qp`] or [`Kind::KernelQp`].
    ///
    /// # Errors
    /// [`Error::NoWindow`]; [`Error::Value`] when its values have another size, or its owner made
    /// it with another type; [`Error::Damaged`].
    pub fn reader<V: CheckedValue>(&self, name: &str) -> Result<CheckedReader<V>, Error> {
        let window = match self.window(name, Kind::KernelQp) {
            Ok(window) => window,
            Err(_) => self.window(name, Kind::Qp)?,
        };
        self.reader_of(window)
    }

    /// Opens a reader as [`reader`](Self::reader) does, of the map in this window.
    pub(crate) fn reader_of<V: CheckedValue>(
        &self,
        window: WindowInfo,
    ) -> Result<CheckedReader<V>, Error> {
        let reader = CheckedReader {
            arena: self.clone(),
            window,
            values: PhantomData,
        };
        reader.nodes()?;
        Ok(reader)
    }
}

impl<V: CheckedValue> CheckedReader<V> {
    /// The map's window at the time when the reader was made. A process that takes the map over
    /// moves it, and readers follow.
    pub fn window(&self) -> &WindowInfo {
        &self.window
    }

    /// The bytes of a value; `None` when values are byte strings, which have different lengths.
    ///
    /// # Errors
    /// As [`BpfArena::reader`].
    pub fn value_bytes(&self) -> Result<Option<usize>, Error> {
        Ok(self.nodes()?.value_bytes())
    }

    /// The nodes in the current window.
    fn nodes(&self) -> Result<Nodes<Place>, Error> {
        let WindowInfo {
            number, kind, name, ..
        } = &self.window;
        let Some((at, len)) = self.arena.window_place(*number, *kind)? else {
            return Err(Error::NoWindow {
                name: name.clone(),
                kind: kind.name(),
                there: "it was closed".to_owned(),
            });
        };
        let memory = self.arena.memory();
        let bytes = memory.u64(at + root(header::VALUE_BYTES) as usize);
        let bytes = bytes.load(Ordering::Acquire);
        let refuse = |why: String| Error::Value {
            name: name.clone(),
            why,
        };
        let strings = bytes == header::BYTE_STRINGS && *kind == Kind::Qp;
        if bytes % 8 != 0 && !strings || bytes >= len as u64 {
            return Err(Error::Damaged(format!("{name}: values of {bytes} bytes")));
        }
        let bytes = bytes as usize;
        if strings && V::layout_hash().is_some() {
            return Err(refuse("they are byte strings".to_owned()));
        }
        if !strings && !V::fits(bytes) {
            return Err(refuse(format!("its values have {bytes} bytes")));
        }
        if *kind == Kind::Qp {
            let hash = memory.u64(at + 16);
            let hash = hash.load(Ordering::Relaxed);
            if V::layout_hash().is_some_and(|expected| expected != hash) {
                return Err(refuse(format!(
                    "they have {bytes} bytes, but another alignment or layout ({hash:#018x})"
                )));
            }
        }
        Ok(Nodes::new(Place::new(memory, at, len), bytes))
    }

    /// Checks that the map has this layout: values of the same type, or byte strings.
    pub(crate) fn verify_layout(&self, expected: u64) -> Result<(), Error> {
        let hash = self.arena.memory().u64(self.window.at + 16);
        match hash.load(Ordering::Relaxed) == expected {
            true => Ok(()),
            false => Err(Error::Value {
                name: self.window.name.clone(),
                why: match self.value_bytes()? {
                    Some(bytes) => format!("its values have {bytes} bytes each"),
                    None => "they are byte strings".to_owned(),
                },
            }),
        }
    }

    fn error(&self, trouble: Trouble) -> Error {
        trouble.error(&self.window.name)
    }

    /// Repeats `read` until no change disturbs it.
    fn undisturbed<R>(
        &self,
        mut read: impl FnMut(&Nodes<Place>) -> Result<R, Trouble>,
    ) -> Result<R, Error> {
        let mut damaged = 0;
        let mut last = Trouble::Changed;
        for _ in 0..TRIES {
            let nodes = self.nodes()?;
            match read(&nodes) {
                Ok(result) => return Ok(result),
                Err(trouble) => last = trouble,
            }
            damaged += usize::from(last != Trouble::Changed);
            if damaged == TRIES_DAMAGED {
                break;
            }
        }
        Err(self.error(last))
    }

    /// The value of a key.
    ///
    /// # Errors
    /// [`Error::Damaged`]; [`Error::Busy`] when changes disturbed every attempt;
    /// [`Error::NoWindow`] when the map was closed.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<V>, Error> {
        let key = key.as_ref();
        let mut path = Path::default();
        let found = self.undisturbed(|nodes| {
            if nodes.has_only_index() {
                return Index::new(nodes).get(key);
            }
            path.get(nodes, key)
        })?;
        found.map(|bytes| value_of(&bytes)).transpose()
    }

    /// Whether the map has a key.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        Ok(self.get(key)?.is_some())
    }

    /// Whether the map has an order, which is that of a trie. Without one, [`iter`](Self::iter) and
    /// the other ordered methods return an error.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn has_order(&self) -> Result<bool, Error> {
        Ok(!self.nodes()?.has_only_index())
    }

    /// All entries, in order of their keys if the map has an order.
    ///
    /// While the map is written or resized, no key comes twice, and every key that is there
    /// throughout is found.
    ///
    /// ```no_run
    /// # let arena = sapwood_bpf::BpfArena::open("/sys/fs/bpf/names")?;
    /// for entry in arena.reader::<u64>("hosts")?.unordered() {
    ///     let (key, value) = entry?;
    ///     println!("{} {value}", String::from_utf8_lossy(&key));
    /// }
    /// # Ok::<(), sapwood_bpf::Error>(())
    /// ```
    pub fn unordered(&self) -> CheckedEntries<'_, V> {
        CheckedEntries::new(self)
    }

    /// All entries, in order of their keys. The first item is [`Error::Setting`] when the map has
    /// only an index.
    pub fn iter(&self) -> CheckedIter<'_, V> {
        CheckedIter::new(self, Vec::new(), Vec::new())
    }

    /// The entries whose keys are not less than `key`.
    pub fn from_key(&self, key: impl AsRef<[u8]>) -> CheckedIter<'_, V> {
        CheckedIter::new(self, key.as_ref().to_vec(), Vec::new())
    }

    /// The entries whose keys begin with `prefix`.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> CheckedIter<'_, V> {
        let prefix = prefix.as_ref().to_vec();
        CheckedIter::new(self, prefix.clone(), prefix)
    }

    /// The number of entries, by a walk over all of them.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn len(&self) -> Result<usize, Error> {
        let mut count = 0;
        for entry in self.unordered() {
            entry?;
            count += 1;
        }
        Ok(count)
    }

    /// Whether there is no entry.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn is_empty(&self) -> Result<bool, Error> {
        let first = self.unordered().next().transpose()?;
        Ok(first.is_none())
    }

    /// Checks every invariant of the trie and the index (`docs/qp.md`, `docs/shared.md`), that both
    /// have the same entries, and that no two nodes share a byte. Returns the number of entries.
    /// Nobody may write the map meanwhile, because a change may look like damage.
    ///
    /// Changes that the owner's death interrupted do not count as damage: the counts of a locked
    /// bucket, and up to 128 entries that only one of trie and index has.
    ///
    /// # Errors
    /// [`Error::Damaged`], with the first invariant that does not hold, and its place.
    pub fn verify(&self) -> Result<usize, Error> {
        let nodes = self.nodes()?;
        verify::verify_alone(&nodes).map_err(|trouble| self.error(trouble))
    }
}

impl<V> fmt::Debug for CheckedReader<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedReader")
            .field("window", &self.window)
            .finish()
    }
}

/// Entries of a [`CheckedReader`], in order if its map has one. The iterator ends after an error.
pub struct CheckedEntries<'a, V> {
    reader: &'a CheckedReader<V>,
    /// The ordered walk, if the map has an order.
    ordered: Option<CheckedIter<'a, V>>,
    /// The next hash prefix, and the entries that were read before it.
    from: Option<u32>,
    ready: Vec<Copied>,
    /// The secrets of the hash by which the walk is ordered.
    secrets: Option<Secrets>,
    given: usize,
}

impl<'a, V: CheckedValue> CheckedEntries<'a, V> {
    fn new(reader: &'a CheckedReader<V>) -> Self {
        // If the map is closed by now, the first entry is the error.
        let ordered = reader.has_order().unwrap_or(true);
        CheckedEntries {
            reader,
            ordered: ordered.then(|| reader.iter()),
            from: Some(0),
            ready: Vec::new(),
            secrets: None,
            given: 0,
        }
    }

    fn advance(&mut self) -> Result<Option<(Vec<u8>, V)>, Error> {
        loop {
            if let Some((key, value)) = self.ready.pop() {
                return Ok(Some((key, value_of(&value)?)));
            }
            let Some(from) = self.from.take() else {
                return Ok(None);
            };
            let (mut most, mut secrets) = (0, None);
            let (ready, from) = self.reader.undisturbed(|nodes| {
                let index = Index::new(nodes);
                most = nodes.window.len() / 8;
                secrets = Some(index.secrets);
                index.some(from)
            })?;
            if self.secrets.is_some() && self.secrets != secrets {
                // The map was taken over and built anew, so the walk cannot go on.
                return Err(self.reader.error(Trouble::Changed));
            }
            (self.ready, self.from, self.secrets) = (ready, from, secrets);
            self.given += self.ready.len();
            // A leaf has at least 8 bytes.
            if self.given > most {
                let name = &self.reader.window.name;
                return Err(Error::Damaged(format!("{name}: more entries than room")));
            }
        }
    }
}

impl<V: CheckedValue> Iterator for CheckedEntries<'_, V> {
    type Item = Result<(Vec<u8>, V), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(ordered) = &mut self.ordered {
            return ordered.next();
        }
        let next = self.advance().transpose();
        if !matches!(next, Some(Ok(_))) {
            self.from = None;
            self.ready.clear();
        }
        next
    }
}

impl<V: CheckedValue> std::iter::FusedIterator for CheckedEntries<'_, V> {}

impl<V> fmt::Debug for CheckedEntries<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedEntries")
            .field("given", &self.given)
            .finish_non_exhaustive()
    }
}

/// Entries of a [`CheckedReader`] in ascending order of keys. The iterator ends after an error.
pub struct CheckedIter<'a, V> {
    reader: &'a CheckedReader<V>,
    /// The nodes to which the path refers, if there is a path.
    nodes: Option<Nodes<Place>>,
    path: Path,
    /// The least key to return; it was returned already when `strict`.
    from: Vec<u8>,
    strict: bool,
    prefix: Vec<u8>,
    given: usize,
    over: bool,
}

impl<'a, V: CheckedValue> CheckedIter<'a, V> {
    fn new(reader: &'a CheckedReader<V>, from: Vec<u8>, prefix: Vec<u8>) -> Self {
        CheckedIter {
            reader,
            nodes: None,
            path: Path::default(),
            from,
            strict: false,
            prefix,
            given: 0,
            over: false,
        }
    }

    /// The next entry; `None` at the end. If `stands`, the path leads to the last entry.
    fn entry(&mut self, nodes: &Nodes<Place>, stands: bool) -> Result<Option<Copied>, Trouble> {
        self.path.entry(nodes, &self.from, self.strict, stands)
    }

    fn advance(&mut self) -> Result<Option<(Vec<u8>, V)>, Error> {
        let (reader, stood) = (self.reader, self.nodes.take());
        // An old path may lead nowhere, so only a walk from the root can tell damage.
        let found = stood.and_then(|nodes| Some((self.entry(&nodes, true).ok()?, nodes)));
        let (found, nodes) = match found {
            Some(found) => found,
            None if reader.has_order()? => {
                reader.undisturbed(|nodes| Ok((self.entry(nodes, false)?, nodes.clone())))?
            }
            None => {
                let name = &reader.window.name;
                return Err(Error::Setting {
                    what: "order",
                    why: format!("{name} has only an index, and so no order"),
                });
            }
        };
        // A leaf has at least 8 bytes. A walk that descends more often is always disturbed.
        let len = nodes.window.len();
        if self.given > len / 8 || self.path.steps > len as u64 / 4 + (1 << 20) {
            return Err(reader.error(Trouble::Changed));
        }
        let Some((key, value)) = found.filter(|(key, _)| key.starts_with(&self.prefix)) else {
            return Ok(None);
        };
        self.given += 1;
        self.from.clone_from(&key);
        self.strict = true;
        self.nodes = Some(nodes);
        Ok(Some((key, value_of(&value)?)))
    }
}

impl<V: CheckedValue> Iterator for CheckedIter<'_, V> {
    type Item = Result<(Vec<u8>, V), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let next = self.advance().transpose();
        self.over = !matches!(next, Some(Ok(_)));
        next
    }
}

impl<V: CheckedValue> std::iter::FusedIterator for CheckedIter<'_, V> {}

impl<V> fmt::Debug for CheckedIter<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedIter")
            .field("given", &self.given)
            .finish()
    }
}
