//! Questions to a live map over byte strings, for callers that cannot hold it back.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::ops::{Bound, RangeBounds};

use sapwood::qp::{Closest, Denial, Key, OrderedRange, ReadEntry};
use sapwood_checked::CheckedReader;

use crate::checked::CheckedLiveReader;
use crate::error::Error;
use crate::raw::maps::{LiveValue, NameMap};
use crate::raw::window::LiveSource;

/// The entries that a walk reads at once.
const CHUNK: usize = 32;

/// A [`CheckedLiveReader`] of a map over byte strings, with the questions of a view of such a map.
/// For code that reads views of maps, and also maps that it cannot hold back: on read-only mounts,
/// or of other users.
///
/// Each question is asked again when the writer evicts the reader meanwhile, and finds the newest
/// map. So two questions may find two versions of a store, also in one [`ask`](Self::ask), and a
/// walk finds every entry that is there throughout.
///
/// ```
/// use sapwood::qp::QpStore;
/// use sapwood_live::{CheckedLiveReader, CheckedNames, Live};
/// # let folder = std::env::temp_dir().join(format!("sapwood-live-ask-{}", std::process::id()));
/// let store = Live::<QpStore<u64>>::create(&folder)?;
/// let mut txn = store.begin();
/// txn.insert("elder", 1)?;
/// txn.insert("elm", 2)?;
/// txn.commit();
///
/// // In another process, for which the directory is read-only:
/// let reader = CheckedLiveReader::<QpStore<u64>>::open_unregistered(&folder)?;
/// let mut names = CheckedNames::new(reader);
/// let found = names.ask(|map| map.predecessor("elm").map(|(_, value)| *value))?;
/// assert_eq!(found, Some(1));
/// assert_eq!(names.ask(|map| map.range::<[u8], _>(..).rev().count())?, 2);
/// # drop(names);
/// # store.remove_map()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CheckedNames<M: NameMap> {
    asked: NamesAsked<M>,
}

impl<M: NameMap> CheckedNames<M> {
    /// The questions of a reader.
    pub fn new(reader: CheckedLiveReader<M>) -> Self {
        CheckedNames {
            asked: NamesAsked {
                reader: RefCell::new(reader),
                kept: Kept::default(),
                failed: RefCell::default(),
            },
        }
    }

    /// Calls `f` with the map. What it finds is kept until it returns: a walk over a whole map
    /// takes memory for all of it.
    ///
    /// # Errors
    /// The first error of a question: those of [`CheckedLiveReader::read`]. From then on `f` found
    /// nothing any more.
    pub fn ask<R>(&mut self, f: impl FnOnce(&NamesAsked<M>) -> R) -> Result<R, Error> {
        if self.asked.kept.len.get() > 0 {
            self.asked.kept = Kept::default();
        }
        *self.asked.failed.get_mut() = None;
        let done = f(&self.asked);
        match self.asked.failed.get_mut().take() {
            None => Ok(done),
            Some(error) => Err(error),
        }
    }

    /// The reader.
    pub fn reader(&mut self) -> &mut CheckedLiveReader<M> {
        self.asked.reader.get_mut()
    }
}

impl<M: NameMap> fmt::Debug for CheckedNames<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CheckedNames")
            .field(&self.asked.reader)
            .finish()
    }
}

type Read<M> = <<M as NameMap>::Value as LiveValue>::Read;
type Copied<M> = (Vec<u8>, Read<M>);
type Entry<'a, M> = ReadEntry<'a, <M as NameMap>::Value>;

/// The map as [`CheckedNames::ask`] shows it. The methods are those of a view, and give out copies,
/// which live as long as this.
pub struct NamesAsked<M: NameMap> {
    reader: RefCell<CheckedLiveReader<M>>,
    kept: Kept<Copied<M>>,
    failed: RefCell<Option<Error>>,
}

impl<M: NameMap> NamesAsked<M> {
    /// The answer to a question; none after an error.
    fn answer<R>(
        &self,
        mut question: impl FnMut(&CheckedReader<&LiveSource, Read<M>>) -> Result<R, Error>,
    ) -> Option<R> {
        if self.failed.borrow().is_some() {
            return None;
        }
        let read = self
            .reader
            .borrow_mut()
            .read(|checked| question(&M::names(checked)));
        match read {
            Ok(answer) => Some(answer),
            Err(error) => {
                *self.failed.borrow_mut() = Some(error);
                None
            }
        }
    }

    fn keep(&self, entry: Copied<M>) -> Entry<'_, M> {
        let (key, value) = self.kept.keep(entry);
        (Key::from(&key[..]), LiveValue::of_read(value))
    }

    fn kept(&self, entry: Option<Copied<M>>) -> Option<Entry<'_, M>> {
        entry.map(|entry| self.keep(entry))
    }

    /// Number of entries: of a store in O(1), otherwise by a walk.
    pub fn len(&self) -> usize {
        self.answer(|map| map.len()).unwrap_or(0)
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.answer(|map| map.is_empty()).unwrap_or(true)
    }

    /// The value of a key.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<&M::Value> {
        self.get_key_value(key).map(|(_, value)| value)
    }

    /// The key and the value of an entry.
    pub fn get_key_value(&self, key: impl AsRef<[u8]>) -> Option<Entry<'_, M>> {
        let key = key.as_ref();
        let found = self.answer(|map| map.get(key))?;
        self.kept(found.map(|value| (key.to_vec(), value)))
    }

    /// Whether the map has a key.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> bool {
        self.answer(|map| map.contains(key.as_ref()))
            .unwrap_or(false)
    }

    /// The entry with the least key.
    pub fn first_key_value(&self) -> Option<Entry<'_, M>> {
        let found = self.answer(|map| map.first())?;
        self.kept(found)
    }

    /// The entry with the greatest key.
    pub fn last_key_value(&self) -> Option<Entry<'_, M>> {
        let found = self.answer(|map| map.last())?;
        self.kept(found)
    }

    /// The entry with the greatest key that is less than `key`.
    pub fn predecessor(&self, key: impl AsRef<[u8]>) -> Option<Entry<'_, M>> {
        let found = self.answer(|map| map.predecessor(key.as_ref()))?;
        self.kept(found)
    }

    /// The entry with the least key that is greater than `key`.
    pub fn successor(&self, key: impl AsRef<[u8]>) -> Option<Entry<'_, M>> {
        let found = self.answer(|map| map.successor(key.as_ref()))?;
        self.kept(found)
    }

    /// The entry with the longest key that is a prefix of `key`.
    pub fn longest_prefix(&self, key: impl AsRef<[u8]>) -> Option<Entry<'_, M>> {
        let found = self.answer(|map| map.longest_prefix(key.as_ref()))?;
        self.kept(found)
    }

    /// The entries whose keys are prefixes of `key`, shortest first.
    pub fn ancestors(&self, key: impl AsRef<[u8]>) -> Vec<Entry<'_, M>> {
        let found = self.answer(|map| map.ancestors(key.as_ref()));
        let found = found.unwrap_or_default().into_iter();
        found.map(|entry| self.keep(entry)).collect()
    }

    /// Those of the [`ancestors`](Self::ancestors) that end where a component of `key` ends: at its
    /// start or end, before a separator, or after one.
    pub fn ancestors_at(&self, key: impl AsRef<[u8]>, separator: u8) -> Vec<Entry<'_, M>> {
        let key = key.as_ref();
        let mut found = self.ancestors(key);
        found.retain(|(above, _)| {
            above.is_empty()
                || above.len() == key.len()
                || key.get(above.len()) == Some(&separator)
                || above.last() == Some(&separator)
        });
        found
    }

    /// The entries whose keys start with a prefix.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> NamesRange<'_, M> {
        let prefix = prefix.as_ref();
        // Behind all such keys comes the prefix whose last byte is greater by one.
        let mut end = prefix.to_vec();
        while end.last() == Some(&u8::MAX) {
            end.pop();
        }
        let end = match end.last_mut() {
            Some(last) => {
                *last += 1;
                Bound::Excluded(end)
            }
            None => Bound::Unbounded,
        };
        NamesRange::new(self, (Bound::Included(prefix.to_vec()), end))
    }

    /// The entries between two keys.
    pub fn range<K, R>(&self, range: R) -> NamesRange<'_, M>
    where
        K: ?Sized + AsRef<[u8]>,
        R: RangeBounds<K>,
    {
        let owned = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
        NamesRange::new(self, (owned(range.start_bound()), owned(range.end_bound())))
    }

    /// What a zone has around a name: see [`Closest`].
    pub fn closest(
        &self,
        name: impl AsRef<[u8]>,
        separator: u8,
        is_cut: impl FnMut(&[u8], &M::Value) -> bool,
    ) -> Closest<'_, M::Value> {
        self.denial(name, separator, is_cut).closest
    }

    /// The same, with what proves that the name is not there: see [`Denial`].
    pub fn denial(
        &self,
        name: impl AsRef<[u8]>,
        separator: u8,
        mut is_cut: impl FnMut(&[u8], &M::Value) -> bool,
    ) -> Denial<'_, M::Value> {
        let found = self.answer(|map| {
            map.denial(name.as_ref(), separator, |key, value| {
                is_cut(key, LiveValue::of_read(value))
            })
        });
        let Some(found) = found else {
            return Denial {
                closest: Closest {
                    exact: None,
                    exists: false,
                    encloser: 0,
                    ancestor: None,
                    wildcard: None,
                    predecessor: None,
                    cut: None,
                },
                wildcard_exists: false,
                predecessor: None,
                wildcard_predecessor: None,
            };
        };
        let closest = found.closest;
        Denial {
            closest: Closest {
                exact: self.kept(closest.exact),
                exists: closest.exists,
                encloser: closest.encloser,
                ancestor: self.kept(closest.ancestor),
                wildcard: self.kept(closest.wildcard),
                predecessor: self.kept(closest.predecessor),
                cut: self.kept(closest.cut),
            },
            wildcard_exists: found.wildcard_exists,
            predecessor: self.kept(found.predecessor),
            wildcard_predecessor: self.kept(found.wildcard_predecessor),
        }
    }
}

sapwood::qp::ordered_read!([M: NameMap] NamesAsked<M>, M::Value, NamesAsked::len, OrderedRange::new);

impl<M: NameMap> fmt::Debug for NamesAsked<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamesAsked").finish_non_exhaustive()
    }
}

/// Entries of a map that is asked, in ascending order. A walk reads some dozens at once.
pub struct NamesRange<'a, M: NameMap> {
    asked: &'a NamesAsked<M>,
    /// What is left to give out.
    left: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    front: VecDeque<Entry<'a, M>>,
    back: VecDeque<Entry<'a, M>>,
}

impl<'a, M: NameMap> NamesRange<'a, M> {
    fn new(asked: &'a NamesAsked<M>, left: (Bound<Vec<u8>>, Bound<Vec<u8>>)) -> Self {
        NamesRange {
            asked,
            left,
            front: VecDeque::new(),
            back: VecDeque::new(),
        }
    }

    /// Reads the next entries from the front.
    fn read(&self) -> VecDeque<Entry<'a, M>> {
        let some = self.asked.answer(|map| {
            let (from, strict) = match &self.left.0 {
                Bound::Included(key) => (&key[..], false),
                Bound::Excluded(key) => (&key[..], true),
                Bound::Unbounded => (&[][..], false),
            };
            let entries = map.from_key(from);
            let entries = entries
                .filter(|entry| !strict || entry.as_ref().map_or(true, |(key, _)| key != from));
            entries.take(CHUNK).collect::<Result<Vec<_>, _>>()
        });
        let some = some.unwrap_or_default().into_iter();
        some.map(|entry| self.asked.keep(entry)).collect()
    }

    /// Reads the next entries from the back.
    fn read_back(&self) -> VecDeque<Entry<'a, M>> {
        let some = self.asked.answer(|map| {
            let mut some: Vec<Copied<M>> = Vec::new();
            while some.len() < CHUNK {
                let before = match (some.last(), &self.left.1) {
                    (Some((key, _)), _) | (None, Bound::Excluded(key)) => map.predecessor(key)?,
                    (None, Bound::Unbounded) => map.last()?,
                    (None, Bound::Included(key)) => match map.get(key)? {
                        Some(value) => Some((key.clone(), value)),
                        None => map.predecessor(key)?,
                    },
                };
                let Some(before) = before.filter(|(key, _)| self.has(key)) else {
                    break;
                };
                some.push(before);
            }
            Ok(some)
        });
        let some = some.unwrap_or_default().into_iter();
        some.map(|entry| self.asked.keep(entry)).collect()
    }

    /// Whether a key is left to give out.
    fn has(&self, key: &[u8]) -> bool {
        fn slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
            bound.as_ref().map(Vec::as_slice)
        }
        let left = (slice(&self.left.0), slice(&self.left.1));
        RangeBounds::<[u8]>::contains(&left, key)
    }
}

impl<'a, M: NameMap> Iterator for NamesRange<'a, M> {
    type Item = Entry<'a, M>;

    fn next(&mut self) -> Option<Entry<'a, M>> {
        if self.front.is_empty() {
            self.front = self.read();
        }
        let (key, value) = self.front.pop_front()?;
        if !self.has(&key) {
            self.front.clear();
            return None;
        }
        self.left.0 = Bound::Excluded(key.to_vec());
        Some((key, value))
    }
}

impl<M: NameMap> DoubleEndedIterator for NamesRange<'_, M> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.back.is_empty() {
            self.back = self.read_back();
        }
        let (key, value) = self.back.pop_front()?;
        if !self.has(&key) {
            self.back.clear();
            return None;
        }
        self.left.1 = Bound::Excluded(key.to_vec());
        Some((key, value))
    }
}

impl<M: NameMap> fmt::Debug for NamesRange<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamesRange").finish_non_exhaustive()
    }
}

type Chunk<T> = OnceCell<Box<[OnceCell<T>]>>;

/// Values that stay where they are while more come. Chunk `i` has room for `2^i` of them.
struct Kept<T> {
    chunks: Box<[Chunk<T>; usize::BITS as usize]>,
    len: Cell<usize>,
}

impl<T> Kept<T> {
    fn keep(&self, value: T) -> &T {
        let number = self.len.get() + 1;
        self.len.set(number);
        let chunk = number.ilog2();
        let slots = self.chunks[chunk as usize].get_or_init(|| {
            let slots = (0..1_usize << chunk).map(|_| OnceCell::new());
            slots.collect()
        });
        slots[number - (1 << chunk)].get_or_init(|| value)
    }
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Kept {
            chunks: Box::new([const { OnceCell::new() }; usize::BITS as usize]),
            len: Cell::new(0),
        }
    }
}
