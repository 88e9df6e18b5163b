//! Neighbours of keys, and the entries above them.

use crate::nodes::{Copied, Nodes};
use crate::path::Path;
use crate::{CheckedReader, CheckedValue, Source, Trouble};

/// An entry, copied.
pub(crate) type Entry<V> = (Vec<u8>, V);

impl<S: Source, V: CheckedValue> CheckedReader<S, V> {
    /// The entry with the least key.
    ///
    /// # Errors
    /// As [`longest_prefix`](Self::longest_prefix).
    pub fn first(&self) -> Result<Option<(Vec<u8>, V)>, S::Error> {
        self.beside(|path, nodes| path.entry(nodes, b"", false, false))
    }

    /// The entry with the greatest key.
    ///
    /// # Errors
    /// As [`longest_prefix`](Self::longest_prefix).
    pub fn last(&self) -> Result<Option<(Vec<u8>, V)>, S::Error> {
        self.beside(|path, nodes| path.before(nodes, None))
    }

    /// The entry with the least key that is greater than `key`, which need not be there.
    ///
    /// # Errors
    /// As [`longest_prefix`](Self::longest_prefix).
    pub fn successor(&self, key: impl AsRef<[u8]>) -> Result<Option<(Vec<u8>, V)>, S::Error> {
        let key = key.as_ref();
        self.beside(|path, nodes| path.entry(nodes, key, true, false))
    }

    /// The entry with the greatest key that is less than `key`, which need not be there.
    ///
    /// # Errors
    /// As [`longest_prefix`](Self::longest_prefix).
    pub fn predecessor(&self, key: impl AsRef<[u8]>) -> Result<Option<(Vec<u8>, V)>, S::Error> {
        let key = key.as_ref();
        self.beside(|path, nodes| path.before(nodes, Some(key)))
    }

    /// The entries whose keys are prefixes of `key`, shortest first; `key` itself counts. Beside a
    /// writer, each was there at some time.
    ///
    /// # Errors
    /// As [`longest_prefix`](Self::longest_prefix).
    pub fn ancestors(&self, key: impl AsRef<[u8]>) -> Result<Vec<(Vec<u8>, V)>, S::Error> {
        let key = key.as_ref();
        let mut above = Vec::new();
        let mut most = Some(key.len());
        while let Some(len) = most {
            let Some((found, value)) = self.longest_prefix(&key[..len])? else {
                break;
            };
            most = found.len().checked_sub(1);
            above.push((found, value));
        }
        above.reverse();
        Ok(above)
    }

    /// The entry that a path finds from the root on.
    fn beside(
        &self,
        find: impl Fn(&mut Path, &Nodes<S::Window>) -> Result<Option<Copied>, Trouble>,
    ) -> Result<Option<Entry<V>>, S::Error> {
        let mut path = Path::default();
        let found = self.undisturbed(|nodes| match nodes.has_only_index() {
            true => Err(Trouble::NoOrder),
            false => find(&mut path, nodes),
        })?;
        let found = found.map(|(key, value)| Ok((key, self.value(&value)?)));
        found.transpose()
    }
}
