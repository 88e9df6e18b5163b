//! The map of the rules of all lists.

use std::fmt;
use std::ops::Bound;
use std::path::Path;

use sapwood::qp::{OpenError, OrderedRead, QpFile, QpMap, ReadEntry, SaveError};

use crate::meta::{META_KEY, Meta};
use crate::names::asked_name;
use crate::value::{self, NotRules};
use crate::verdict::{Verdict, verdict};

/// The rules of all lists, by their names.
///
/// It is a map of byte strings whose keys are those of domain names, and one entry more
/// ([`META_KEY`](crate::META_KEY)), which says what the lists are. [`save`](Self::save) writes a
/// file that any reader of maps opens: [`QpFile`], the C library, the Python and Go modules.
pub struct ListMap {
    map: QpMap<[u8]>,
    meta: Meta,
}

impl ListMap {
    pub(crate) fn new(map: QpMap<[u8]>, meta: Meta) -> Self {
        ListMap { map, meta }
    }

    /// The entries, with that of the lists.
    ///
    /// O(1).
    pub fn entries(&self) -> &dyn OrderedRead<[u8]> {
        &self.map
    }

    /// What it knows of its lists.
    ///
    /// O(1).
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Number of names that have rules.
    ///
    /// O(1).
    pub fn len(&self) -> usize {
        self.map.len() - 1
    }

    /// Whether no name has a rule.
    ///
    /// O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rule that answers a question for a name in text, of this type.
    ///
    /// As [`verdict`], and O(length of the name).
    ///
    /// # Errors
    /// The fault of the name, for people.
    pub fn verdict(&self, name: &[u8], rtype: u16) -> Result<Option<Verdict>, String> {
        let key = asked_name(name)?.key;
        verdict(&self.map, &self.meta, &key, rtype).map_err(|error| error.to_string())
    }

    /// Saves the map to a file, as [`QpMap::save`]: the old file or the whole new one is there.
    ///
    /// O(entries).
    ///
    /// ```
    /// use sapwood::qp::QpFile;
    /// use sapwood_lists::{Loader, Meta, Options, Source, open};
    ///
    /// # let path = std::env::temp_dir().join(format!("sapwood-doc-{}.lists", std::process::id()));
    /// let list = Source::text("a", "ads.example\n");
    /// let (map, _) = Loader::new(vec![list], Options::default()).build()?;
    /// map.save(&path)?;
    /// let (file, meta): (QpFile<[u8]>, Meta) = open(&path)?;
    /// assert_eq!((file.len(), meta.lists()[0].rules), (2, 1));
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SaveError`]; a file that was there before is unchanged.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), SaveError> {
        self.map.save(path)
    }
}

impl fmt::Debug for ListMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListMap")
            .field("entries", &self.len())
            .field("meta", &self.meta)
            .finish()
    }
}

/// Opens a file that [`ListMap::save`] wrote, and checks all of it.
///
/// O(bytes of the file).
///
/// # Errors
/// [`OpenListError`]: it is no file of a map, or no map of rules.
pub fn open(path: impl AsRef<Path>) -> Result<(QpFile<[u8]>, Meta), OpenListError> {
    let path = path.as_ref();
    let file = QpFile::<[u8]>::open(path)?;
    let meta = check(&file)?;
    Ok((file, meta))
}

/// Why a file does not open as a map of rules.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenListError {
    /// It is no file of a map, or cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It is another map.
    #[error(transparent)]
    NotRules(#[from] NotRules),
}

/// The entries of a map that are names with rules, in their order. The root comes first, before the
/// entry that says what the lists are.
///
/// O(entries).
///
/// ```
/// use sapwood_lists::{Loader, Options, Source, rule_entries};
///
/// let list = Source::text("a", "x.example\n.\n");
/// let (map, _) = Loader::new(vec![list], Options::default()).build()?;
/// let keys: Vec<_> = rule_entries(map.entries()).map(|(key, _)| key.to_vec()).collect();
/// assert_eq!(keys, [&b""[..], b"example\0x\0"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn rule_entries(map: &dyn OrderedRead<[u8]>) -> impl Iterator<Item = ReadEntry<'_, [u8]>> {
    let all = map.range((Bound::Unbounded, Bound::Unbounded));
    all.filter(|(key, _)| &**key != META_KEY)
}

/// Checks that a map has rules and nothing else; returns what it knows of its lists.
///
/// O(entries).
///
/// ```
/// use sapwood::qp::QpMap;
///
/// let mut map = QpMap::<[u8]>::new();
/// map.insert("a", b"value")?;
/// assert!(sapwood_lists::check(&map).is_err());
/// # Ok::<(), sapwood::Error>(())
/// ```
///
/// # Errors
/// [`NotRules`]: a value is another one.
pub fn check(map: &dyn OrderedRead<[u8]>) -> Result<Meta, NotRules> {
    let meta = Meta::of(map)?;
    for (key, value) in rule_entries(map) {
        sapwood::key::dns_name_to_text(&key).map_err(|_| NotRules)?;
        let rules = value::terms(value)?;
        let has_list = |list: u16| usize::from(list) < meta.lists().len();
        if rules.is_empty() || !rules.iter().all(|terms| has_list(terms.list)) {
            return Err(NotRules);
        }
    }
    Ok(meta)
}
