//! Walks over the entries of a checked reader.

use std::fmt;

use sapwood_format::{Window, header};

use crate::index::{Index, Secrets};
use crate::nodes::{Copied, Nodes};
use crate::path::Path;
use crate::{CheckedReader, CheckedValue, Source, Trouble};

/// Entries of a [`CheckedReader`], in order if its map has one. The iterator ends after an error.
pub struct CheckedEntries<'a, S: Source, V> {
    reader: &'a CheckedReader<S, V>,
    /// The ordered walk, if the map has an order.
    ordered: Option<CheckedIter<'a, S, V>>,
    /// The next hash prefix, and the entries that were read before it.
    from: Option<u32>,
    ready: Vec<Copied>,
    /// The secrets of the hash by which the walk is ordered.
    secrets: Option<Secrets>,
    given: usize,
}

impl<'a, S: Source, V: CheckedValue> CheckedEntries<'a, S, V> {
    pub(crate) fn new(reader: &'a CheckedReader<S, V>) -> Self {
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

    fn advance(&mut self) -> Result<Option<(Vec<u8>, V)>, S::Error> {
        loop {
            if let Some((key, value)) = self.ready.pop() {
                return Ok(Some((key, self.reader.value(&value)?)));
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
                let root = header::root_at(header::TABLE);
                let trouble = Trouble::Damaged("an index with more entries than room", root);
                return Err(self.reader.error(trouble));
            }
        }
    }
}

impl<S: Source, V: CheckedValue> Iterator for CheckedEntries<'_, S, V> {
    type Item = Result<(Vec<u8>, V), S::Error>;

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

impl<S: Source, V: CheckedValue> std::iter::FusedIterator for CheckedEntries<'_, S, V> {}

impl<S: Source, V> fmt::Debug for CheckedEntries<'_, S, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedEntries")
            .field("given", &self.given)
            .finish_non_exhaustive()
    }
}

/// Entries of a [`CheckedReader`] in ascending order of keys. The iterator ends after an error.
pub struct CheckedIter<'a, S: Source, V> {
    reader: &'a CheckedReader<S, V>,
    /// The nodes to which the path refers, if there is a path.
    nodes: Option<Nodes<S::Window>>,
    path: Path,
    /// The least key to return; it was returned already when `strict`.
    from: Vec<u8>,
    strict: bool,
    prefix: Vec<u8>,
    given: usize,
    over: bool,
}

impl<'a, S: Source, V: CheckedValue> CheckedIter<'a, S, V> {
    pub(crate) fn new(reader: &'a CheckedReader<S, V>, from: Vec<u8>, prefix: Vec<u8>) -> Self {
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
    fn entry(&mut self, nodes: &Nodes<S::Window>, stands: bool) -> Result<Option<Copied>, Trouble> {
        self.path.entry(nodes, &self.from, self.strict, stands)
    }

    fn advance(&mut self) -> Result<Option<(Vec<u8>, V)>, S::Error> {
        let (reader, stood) = (self.reader, self.nodes.take());
        // An old path may lead nowhere, so only a walk from the root can tell damage.
        let found = stood.and_then(|nodes| Some((self.entry(&nodes, true).ok()?, nodes)));
        let (found, nodes) = match found {
            Some(found) => {
                reader.source().still_valid()?;
                found
            }
            None if reader.has_order()? => {
                reader.undisturbed(|nodes| Ok((self.entry(nodes, false)?, nodes.clone())))?
            }
            None => return Err(reader.error(Trouble::NoOrder)),
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
        Ok(Some((key, self.reader.value(&value)?)))
    }
}

impl<S: Source, V: CheckedValue> Iterator for CheckedIter<'_, S, V> {
    type Item = Result<(Vec<u8>, V), S::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let next = self.advance().transpose();
        self.over = !matches!(next, Some(Ok(_)));
        next
    }
}

impl<S: Source, V: CheckedValue> std::iter::FusedIterator for CheckedIter<'_, S, V> {}

impl<S: Source, V> fmt::Debug for CheckedIter<'_, S, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedIter")
            .field("given", &self.given)
            .finish()
    }
}
