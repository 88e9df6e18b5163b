//! The answer of a zone for a name.

use crate::order::Entry;
use crate::source::attempts;
use crate::{Bytes, CheckedReader, CheckedValue, Source, Trouble};

/// The result of [`CheckedReader::closest`]: what a name server needs to answer for a name. The
/// parts are those of `Closest` of `sapwood::qp`, as copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedClosest<V> {
    /// The entry of the name itself.
    pub exact: Option<(Vec<u8>, V)>,
    /// Whether the name exists: it has an entry, or an entry lies below it.
    pub exists: bool,
    /// The length of the closest encloser in bytes: it is that prefix of the name.
    pub encloser: usize,
    /// The entry of the longest name at or above the asked name that has an entry.
    pub ancestor: Option<(Vec<u8>, V)>,
    /// The entry of the wildcard below the closest encloser; none when the name exists.
    pub wildcard: Option<(Vec<u8>, V)>,
    /// The entry with the greatest key less than the name.
    pub predecessor: Option<(Vec<u8>, V)>,
    /// The topmost entry at or above the name for which `is_cut` returned true.
    pub cut: Option<(Vec<u8>, V)>,
}

/// The result of [`CheckedReader::denial`]: what proves that a name is not there. The parts are
/// those of `Denial` of `sapwood::qp`, as copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedDenial<V> {
    /// What [`closest`](CheckedReader::closest) returns for the name.
    pub closest: CheckedClosest<V>,
    /// Whether the wildcard below the closest encloser exists: it has an entry, or an entry lies
    /// below it. False when the name exists.
    pub wildcard_exists: bool,
    /// The entry with the greatest key less than the name that is below no cut.
    pub predecessor: Option<(Vec<u8>, V)>,
    /// The entry with the greatest key less than the wildcard that is below no cut; none when the
    /// name exists.
    pub wildcard_predecessor: Option<(Vec<u8>, V)>,
}

/// The number of bytes that two keys share at their beginning.
fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Whether the prefix of this length of a name is the name itself or a name above it.
fn is_name(name: &[u8], len: usize, separator: u8) -> bool {
    len == 0 || len == name.len() || name.get(len - 1) == Some(&separator)
}

fn wildcard_of(encloser: &[u8], separator: u8) -> Vec<u8> {
    [encloser, &[b'*', separator]].concat()
}

impl<S: Source, V: CheckedValue> CheckedReader<S, V> {
    /// What the map has around a name whose labels each end with a separator: see `Closest` of
    /// `sapwood::qp`. `is_cut` may be asked several times about an entry.
    ///
    /// All parts are of one version of a store. In a map that changes in place, each was there at
    /// some time during the call. A few descents, and one for each name at or above the name.
    ///
    /// ```
    /// # use sapwood_checked::{CheckedReader, Fixed};
    /// # use sapwood::arena::{Arena, ArenaOptions, Backing, HeaderMode};
    /// # use sapwood::qp::QpStore;
    /// # let path = std::env::temp_dir().join(format!("sapwood-near-{}", std::process::id()));
    /// # let options = ArenaOptions::default()
    /// #     .backing(Backing::File(path.clone()))
    /// #     .header(HeaderMode::Page)
    /// #     .layout_hash(QpStore::<u64>::layout_hash());
    /// use sapwood::key::dns_name;
    /// let zone = [(dns_name("example.org")?, 1u64), (dns_name("www.example.org")?, 2)];
    /// QpStore::builder().build_sorted_in(Arena::create(options)?, zone)?;
    /// # let bytes = std::fs::read(&path)?;
    /// # std::fs::remove_file(&path)?;
    /// # let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    /// # let words: Vec<u64> = words.collect();
    /// let reader = CheckedReader::<_, u64>::new(Fixed(&words[..]))?;
    /// let name = dns_name("mail.example.org")?;
    /// let found = reader.closest(&name, 0, |_, _| false)?;
    /// assert!(!found.exists);
    /// assert_eq!(&name[..found.encloser], dns_name("example.org")?);
    /// assert_eq!(found.predecessor.map(|(_, value)| value), Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`longest_prefix`](Self::longest_prefix).
    pub fn closest(
        &self,
        name: impl AsRef<[u8]>,
        separator: u8,
        mut is_cut: impl FnMut(&[u8], &V) -> bool,
    ) -> Result<CheckedClosest<V>, S::Error> {
        let raw = self.raw();
        let found = raw.of_one_version(|| {
            raw.around(name.as_ref(), separator, &mut |key, value| {
                V::of(&value.0).is_some_and(|value| is_cut(key, &value))
            })
        })?;
        self.of_values(found)
    }

    /// The same, with what proves that the name is not there: see `Denial` of `sapwood::qp`.
    ///
    /// # Errors
    /// As [`longest_prefix`](Self::longest_prefix).
    pub fn denial(
        &self,
        name: impl AsRef<[u8]>,
        separator: u8,
        mut is_cut: impl FnMut(&[u8], &V) -> bool,
    ) -> Result<CheckedDenial<V>, S::Error> {
        let raw = self.raw();
        let found = raw.of_one_version(|| {
            raw.beside_cuts(name.as_ref(), separator, &mut |key, value| {
                V::of(&value.0).is_some_and(|value| is_cut(key, &value))
            })
        })?;
        Ok(CheckedDenial {
            closest: self.of_values(found.closest)?,
            wildcard_exists: found.wildcard_exists,
            predecessor: self.of_value(found.predecessor)?,
            wildcard_predecessor: self.of_value(found.wildcard_predecessor)?,
        })
    }

    fn of_value(&self, entry: Option<Entry<Bytes>>) -> Result<Option<Entry<V>>, S::Error> {
        let entry = entry.map(|(key, Bytes(value))| Ok((key, self.value(&value)?)));
        entry.transpose()
    }

    fn of_values(&self, found: CheckedClosest<Bytes>) -> Result<CheckedClosest<V>, S::Error> {
        Ok(CheckedClosest {
            exact: self.of_value(found.exact)?,
            exists: found.exists,
            encloser: found.encloser,
            ancestor: self.of_value(found.ancestor)?,
            wildcard: self.of_value(found.wildcard)?,
            predecessor: self.of_value(found.predecessor)?,
            cut: self.of_value(found.cut)?,
        })
    }
}

/// Whether an entry is a cut.
type Cuts<'f> = dyn FnMut(&[u8], &Bytes) -> bool + 'f;

impl<S: Source> CheckedReader<S, Bytes> {
    /// Repeats `read` until the root is the same before and after it.
    fn of_one_version<R>(
        &self,
        mut read: impl FnMut() -> Result<R, S::Error>,
    ) -> Result<R, S::Error> {
        attempts(self.source(), || {
            let root = self.nodes()?.root();
            let found = read()?;
            Ok(match self.nodes()?.root() == root {
                true => Ok(found),
                false => Err(Trouble::Changed),
            })
        })
    }

    fn around(
        &self,
        name: &[u8],
        separator: u8,
        is_cut: &mut Cuts<'_>,
    ) -> Result<CheckedClosest<Bytes>, S::Error> {
        let mut above = self.ancestors(name)?;
        above.retain(|(key, _)| is_name(name, key.len(), separator));
        let exact = above.last().filter(|(key, _)| key == name).cloned();
        let predecessor = self.predecessor(name)?;
        // The keys that share most with the name are its neighbours. A map without entries has
        // none, and so not even the root.
        let mut agree = exact.as_ref().map(|_| name.len());
        if agree.is_none() {
            let after = self.successor(name)?;
            let beside = predecessor.iter().chain(&after);
            agree = beside.map(|(key, _)| common(key, name)).max();
        }
        let mut names = (0..=agree.unwrap_or(0)).rev();
        let encloser = names.find(|len| is_name(name, *len, separator));
        let encloser = encloser.unwrap_or(0);
        let exists = agree == Some(name.len());
        let mut wildcard = None;
        if !exists {
            let key = wildcard_of(&name[..encloser], separator);
            wildcard = self.get(&key)?.map(|value| (key, value));
        }
        let cut = above.iter().find(|(key, value)| is_cut(key, value));
        Ok(CheckedClosest {
            cut: cut.cloned(),
            exact,
            exists,
            encloser,
            ancestor: above.pop(),
            wildcard,
            predecessor,
        })
    }

    fn beside_cuts(
        &self,
        name: &[u8],
        separator: u8,
        is_cut: &mut Cuts<'_>,
    ) -> Result<CheckedDenial<Bytes>, S::Error> {
        let closest = self.around(name, separator, is_cut)?;
        let before = closest.predecessor.clone();
        let predecessor = self.uncut(before, separator, is_cut)?;
        let (mut wildcard_exists, mut wildcard_predecessor) = (false, None);
        if !closest.exists {
            let wildcard = wildcard_of(&name[..closest.encloser], separator);
            wildcard_exists = self.prefix(&wildcard).next().transpose()?.is_some();
            let before = self.predecessor(&wildcard)?;
            wildcard_predecessor = self.uncut(before, separator, is_cut)?;
        }
        Ok(CheckedDenial {
            closest,
            wildcard_exists,
            predecessor,
            wildcard_predecessor,
        })
    }

    /// An entry, or the topmost cut above it: the last entry up to it that is below no cut.
    fn uncut(
        &self,
        entry: Option<Entry<Bytes>>,
        separator: u8,
        is_cut: &mut Cuts<'_>,
    ) -> Result<Option<Entry<Bytes>>, S::Error> {
        let Some((key, value)) = entry else {
            return Ok(None);
        };
        let above = self.ancestors(&key)?.into_iter();
        let mut above = above
            .filter(|(above, _)| above.len() < key.len() && is_name(&key, above.len(), separator));
        let cut = above.find(|(above, value)| is_cut(above, value));
        Ok(Some(cut.unwrap_or((key, value))))
    }
}
