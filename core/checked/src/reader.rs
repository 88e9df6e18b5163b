//! The checked reader of a map over byte strings.

use std::fmt;
use std::marker::PhantomData;

use sapwood_format::{Window, header};

use crate::find::Lookup;
use crate::index::Index;
use crate::nodes::Nodes;
use crate::source::attempts;
use crate::value::NO_VALUE;
use crate::version::Version;
use crate::walks::{CheckedEntries, CheckedIter};
use crate::{Bytes, CheckedValue, Publisher, Source, Trouble, Values, verify};

/// A reader of a map over byte strings. Another process, or programs in the kernel, may write the
/// map meanwhile, or its writer may be dead. The reader returns copies, and checks every word
/// before it relies on it.
///
/// # What is promised
///
/// - Whatever bytes the window holds, and whatever is written meanwhile, the reader reads nothing
///   outside the window, and every operation ends. It returns a result, or an error that the source
///   makes of a [`Trouble`].
/// - While nobody writes, answers are exact, and [`verify`](Self::verify) checks that the map is
///   intact.
/// - While a process or a program writes, each returned entry was in the map at some time during
///   the operation. Walks ascend strictly, and find every key that is there throughout. This holds
///   as long as freed memory is not reused during the operation.
/// - Where the writer's grace periods do not wait for the reader, the writer may reuse such memory.
///   The reader therefore checks the path from the root again after each read, and begins anew if
///   the path has changed. This detects nearly all such cases, but not all.
///
/// A damaged map may refer to unused pages of its window. A read of such a page takes memory.
pub struct CheckedReader<S, V> {
    source: S,
    values: PhantomData<fn() -> V>,
}

impl<S: Source, V: CheckedValue> CheckedReader<S, V> {
    /// A reader of the map of this source.
    ///
    /// # Errors
    /// Those of the source; [`Trouble::Values`] when the values have another size, or the map was
    /// made with another type; [`Trouble::Damaged`].
    pub fn new(source: S) -> Result<Self, S::Error> {
        let reader = CheckedReader {
            source,
            values: PhantomData,
        };
        reader.nodes()?;
        reader.source.still_valid()?;
        Ok(reader)
    }

    /// A reader of the same map that leaves its values as bytes.
    pub(crate) fn raw(&self) -> CheckedReader<&S, Bytes> {
        CheckedReader {
            source: &self.source,
            values: PhantomData,
        }
    }

    /// The source.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// The bytes of a value; `None` when values are byte strings, which have different lengths.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn value_bytes(&self) -> Result<Option<usize>, S::Error> {
        let bytes = self.nodes()?.value_bytes();
        self.source.still_valid()?;
        Ok(bytes)
    }

    /// The nodes in the current window.
    pub(crate) fn nodes(&self) -> Result<Nodes<S::Window>, S::Error> {
        Ok(self.nodes_and_publisher()?.0)
    }

    fn nodes_and_publisher(&self) -> Result<(Nodes<S::Window>, Publisher), S::Error> {
        let (window, publisher) = self.source.open()?;
        let nodes = nodes_of::<_, V>(window, publisher);
        Ok((nodes.map_err(|trouble| self.error(trouble))?, publisher))
    }

    /// Checks that the map has the values of maps with this layout hash: of the same type, or byte
    /// strings. The map may have clusters of another kind.
    ///
    /// # Errors
    /// [`Trouble::Values`]; those of [`new`](Self::new).
    pub fn check_layout(&self, expected: u64) -> Result<(), S::Error> {
        let nodes = self.nodes()?;
        let hash = nodes.window.u64(header::LAYOUT_AT);
        self.source.still_valid()?;
        let align = |hash| {
            let bytes = nodes.value_bytes();
            layout_of::<Bytes>(bytes, hash).map(|(align, _)| align)
        };
        if align(expected).is_some_and(|expected| align(hash) == Some(expected)) {
            return Ok(());
        }
        Err(self.error(Trouble::Values(match nodes.value_bytes() {
            Some(bytes) => Values::Bytes(bytes),
            None => Values::Strings,
        })))
    }

    pub(crate) fn error(&self, trouble: Trouble) -> S::Error {
        self.source.error(trouble)
    }

    /// Repeats `read` until no change disturbs it.
    pub(crate) fn undisturbed<R>(
        &self,
        mut read: impl FnMut(&Nodes<S::Window>) -> Result<R, Trouble>,
    ) -> Result<R, S::Error> {
        attempts(&self.source, || Ok(read(&self.nodes()?)))
    }

    /// The value of these bytes of an entry.
    pub(crate) fn value(&self, bytes: &[u8]) -> Result<V, S::Error> {
        self.some(V::of(bytes))
    }

    /// A value, unless its type does not have it.
    fn some(&self, value: Option<V>) -> Result<V, S::Error> {
        value.ok_or_else(|| self.error(NO_VALUE))
    }

    /// The value of a key.
    ///
    /// # Errors
    /// [`Trouble::Damaged`]; [`Trouble::Changed`] when changes disturbed every attempt; those of
    /// the source.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<V>, S::Error> {
        let key = key.as_ref();
        let mut lookup = Lookup::default();
        let found = self.undisturbed(|nodes| match nodes.has_only_index() {
            true => Index::new(nodes).get(key, V::of),
            false => lookup.get(nodes, key, V::of),
        })?;
        found.map(|value| self.some(value)).transpose()
    }

    /// Whether the map has a key.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool, S::Error> {
        Ok(self.get(key)?.is_some())
    }

    /// The entry whose key is the longest prefix of `query`.
    ///
    /// # Errors
    /// As [`get`](Self::get); [`Trouble::NoOrder`] when the map has only an index.
    pub fn longest_prefix(
        &self,
        query: impl AsRef<[u8]>,
    ) -> Result<Option<(Vec<u8>, V)>, S::Error> {
        let query = query.as_ref();
        let mut lookup = Lookup::default();
        let found = self.undisturbed(|nodes| match nodes.has_only_index() {
            true => Err(Trouble::NoOrder),
            false => lookup.longest_prefix(nodes, query, V::of),
        })?;
        let found = found.map(|(len, value)| Ok((query[..len].to_vec(), self.some(value)?)));
        found.transpose()
    }

    /// Whether the map has an order, which is that of a trie. Without one, [`iter`](Self::iter) and
    /// the other ordered methods return an error.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn has_order(&self) -> Result<bool, S::Error> {
        let only_index = self.nodes()?.has_only_index();
        self.source.still_valid()?;
        Ok(!only_index)
    }

    /// Whether the map has an index for lookups of whole keys.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn has_index(&self) -> Result<bool, S::Error> {
        let has_index = self.nodes()?.has_index() != 0;
        self.source.still_valid()?;
        Ok(has_index)
    }

    /// All entries, in order of their keys if the map has an order.
    ///
    /// While the map is written or resized, no key comes twice, and every key that is there
    /// throughout is found.
    pub fn unordered(&self) -> CheckedEntries<'_, S, V> {
        CheckedEntries::new(self)
    }

    /// All entries, in order of their keys. The first item is [`Trouble::NoOrder`] when the map has
    /// only an index.
    pub fn iter(&self) -> CheckedIter<'_, S, V> {
        CheckedIter::new(self, Vec::new(), Vec::new())
    }

    /// The entries whose keys are not less than `key`.
    pub fn from_key(&self, key: impl AsRef<[u8]>) -> CheckedIter<'_, S, V> {
        CheckedIter::new(self, key.as_ref().to_vec(), Vec::new())
    }

    /// The entries whose keys begin with `prefix`.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> CheckedIter<'_, S, V> {
        let prefix = prefix.as_ref().to_vec();
        CheckedIter::new(self, prefix.clone(), prefix)
    }

    /// The number of entries: of a store, the number that its newest version states; of other maps,
    /// by a walk over all entries.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn len(&self) -> Result<usize, S::Error> {
        let (nodes, publisher) = self.nodes_and_publisher()?;
        let stated = nodes.stated_len();
        self.source.still_valid()?;
        if publisher == Publisher::Process && stated > 0 {
            return Ok(stated);
        }
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
    pub fn is_empty(&self) -> Result<bool, S::Error> {
        let first = self.unordered().next().transpose()?;
        Ok(first.is_none())
    }

    /// A reader of the version that a store has now.
    ///
    /// All its answers are of this version, and no commit disturbs its operations. For this, the
    /// writer frees nothing that the version reaches as long as the snapshot is used: its grace
    /// periods wait for this reader, or it is dead. Otherwise the snapshot's operations may end
    /// with [`Trouble::Damaged`], or with wrong answers. In maps other than stores, nodes change in
    /// place, and so do the answers.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn snapshot(&self) -> Result<CheckedReader<Version<'_, S>, V>, S::Error> {
        CheckedReader::new(Version::newest(&self.source)?)
    }

    /// Checks every invariant of the trie and the index (`docs/qp.md`, `docs/shared.md`), that both
    /// have the same entries, and that no two nodes share a byte. Returns the number of entries.
    /// Nobody may write the map meanwhile, because a change may look like damage.
    ///
    /// Changes that the writer's death interrupted do not count as damage: the counts of a locked
    /// bucket, and up to 128 entries that only one of trie and index has.
    ///
    /// # Errors
    /// [`Trouble::Damaged`], with the first invariant that does not hold, and its place.
    pub fn verify(&self) -> Result<usize, S::Error> {
        self.source.refresh();
        let (nodes, publisher) = self.nodes_and_publisher()?;
        let result = verify::verify_alone(&nodes);
        self.source.still_valid()?;
        let found = result.map_err(|trouble| self.error(trouble))?;
        let stated = nodes.stated_len();
        if publisher == Publisher::Process && stated > 0 && stated != found {
            let root = header::root_at(header::ROOT);
            let trouble = Trouble::Damaged("a number of entries that is wrong", root);
            return Err(self.error(trouble));
        }
        Ok(found)
    }
}

/// The nodes in a window, if it holds a map with values of this type.
fn nodes_of<W: Window, V: CheckedValue>(
    window: W,
    publisher: Publisher,
) -> Result<Nodes<W>, Trouble> {
    if window.len() < header::PAGE {
        return Err(Trouble::Damaged("no room for a header page", window.len()));
    }
    let at = header::root_at(header::VALUE_BYTES);
    let bytes = window.u64(at);
    let by_process = publisher == Publisher::Process;
    let strings = bytes == header::BYTE_STRINGS && by_process;
    if bytes % 8 != 0 && !strings || bytes >= window.len() as u64 {
        return Err(Trouble::Damaged("values of a size that no map has", at));
    }
    let bytes = bytes as usize;
    if strings && V::align().is_some() {
        return Err(Trouble::Values(Values::Strings));
    }
    if !strings && !V::fits(bytes) {
        return Err(Trouble::Values(Values::Bytes(bytes)));
    }
    let hash = by_process.then(|| window.u64(header::LAYOUT_AT));
    let nodes = Nodes::new(window, bytes);
    let Some(hash) = hash else {
        // The hash lies where programs write, too.
        return Ok(nodes.of_programs());
    };
    match layout_of::<V>(nodes.value_bytes(), hash) {
        Some((align, format)) => Ok(nodes.of_format(align, format)),
        None => Err(Trouble::Values(Values::Layout { bytes, hash })),
    }
}

/// What a layout hash says of a map whose values have this many bytes, or are byte strings: their
/// alignment, and the number of the format. `None` when no map of such values has it.
fn layout_of<V: CheckedValue>(bytes: Option<usize>, hash: u64) -> Option<(usize, u64)> {
    let (size, aligns) = match (bytes, V::align()) {
        (None, _) => (header::BYTE_STRINGS as usize, &[8][..]),
        (Some(size), Some(align)) => return header::layout_of(size, &[align], hash),
        (Some(size), None) => (size, &[8, 4, 2, 1][..]),
    };
    header::layout_of(size, aligns, hash)
}

impl<S: fmt::Debug, V> fmt::Debug for CheckedReader<S, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedReader")
            .field("source", &self.source)
            .finish()
    }
}
