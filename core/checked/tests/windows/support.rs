//! Published maps, copied out of their files, and windows over the copies.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use fastrand::Rng;
use sapwood::arena::{Arena, ArenaOptions, Backing, HeaderMode};
use sapwood::qp::{PointMap, QpShared, QpStore};
use sapwood_checked::{Bytes, CheckedReader, Publisher, Source, Trouble, Window};
use sapwood_model::keys::KeyPool;

/// A copy of a published map, as a source of readers.
pub struct Copy {
    pub words: Vec<u64>,
    /// The calls of `still_valid` before which it returns an error.
    pub evicted_after: Cell<usize>,
}

/// The error of readers of a copy.
#[derive(Debug, PartialEq, Eq)]
pub enum Error {
    Trouble(Trouble),
    Evicted,
}

/// Words that refuse reads outside.
#[derive(Clone)]
pub struct Words<'a>(&'a [u64]);

impl Window for Words<'_> {
    fn len(&self) -> usize {
        size_of_val(self.0)
    }

    fn u32(&self, at: usize) -> u32 {
        assert!(at % 4 == 0 && at + 4 <= self.len(), "{at}");
        self.0.u32(at)
    }

    fn u64(&self, at: usize) -> u64 {
        assert!(at % 8 == 0 && at + 8 <= self.len(), "{at}");
        self.0[at / 8]
    }
}

impl<'a> Source for &'a Copy {
    type Window = Words<'a>;
    type Error = Error;

    fn open(&self) -> Result<(Words<'a>, Publisher), Error> {
        Ok((Words(&self.words), Publisher::Process))
    }

    fn error(&self, trouble: Trouble) -> Error {
        Error::Trouble(trouble)
    }

    fn still_valid(&self) -> Result<(), Error> {
        let left = self.evicted_after.get().checked_sub(1);
        self.evicted_after.set(left.ok_or(Error::Evicted)?);
        Ok(())
    }
}

/// A directory for the files of one test.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    /// An arena in a new file of this name.
    pub fn arena(&self, name: &str, layout: u64) -> Arena {
        let _ = std::fs::remove_file(self.0.path().join(name));
        let options = ArenaOptions::default()
            .backing(Backing::File(self.0.path().join(name)))
            .header(HeaderMode::Page)
            .layout_hash(layout);
        Arena::create(options).unwrap()
    }

    /// A file, to be read.
    pub fn open(&self, name: &str) -> Arc<std::fs::File> {
        std::fs::File::open(self.0.path().join(name))
            .unwrap()
            .into()
    }

    /// A copy of what the arena in this file has now.
    pub fn copy(&self, name: &str) -> Copy {
        let bytes = std::fs::read(self.0.path().join(name)).unwrap();
        let words = bytes.chunks_exact(8);
        let words = words.map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
        Copy {
            words: words.collect(),
            evicted_after: Cell::new(usize::MAX),
        }
    }
}

/// A kind of value: one of fixed size, or byte strings.
pub type Value = Vec<u8>;
pub type Entries = BTreeMap<Vec<u8>, Value>;

/// Whichever map, of numbers or of byte strings.
pub enum Map {
    Store(QpStore<u64>),
    Shared(QpShared<u64>),
    Points(PointMap<u64>),
    TextStore(QpStore<[u8]>),
    Texts(QpShared<[u8]>),
    TextPoints(PointMap<[u8]>),
}

/// The names of all maps.
pub const ALL: [&str; 11] = [
    "store",
    "old store",
    "shared",
    "old shared",
    "both",
    "points",
    "text store",
    "old text store",
    "texts",
    "texts both",
    "text points",
];

fn number(value: &[u8]) -> u64 {
    u64::from_ne_bytes(value[..8].try_into().unwrap())
}

impl Map {
    pub fn new(folder: &Folder, name: &str) -> Map {
        // Those of the format before have neither inline clusters nor dead slots.
        let (numbers, texts) = if name.starts_with("old") || name.ends_with("points") {
            (
                PointMap::<u64>::layout_hash(),
                PointMap::<[u8]>::layout_hash(),
            )
        } else if name.ends_with("store") {
            (
                QpStore::<u64>::layout_hash(),
                QpStore::<[u8]>::layout_hash(),
            )
        } else {
            (
                QpShared::<u64>::layout_hash(),
                QpShared::<[u8]>::layout_hash(),
            )
        };
        let numbers = folder.arena(name, numbers);
        let texts = folder.arena(&format!("{name}s"), texts);
        match name {
            "store" | "old store" => Map::Store(QpStore::builder().build_in(numbers).unwrap()),
            "shared" | "old shared" => Map::Shared(QpShared::builder().build_in(numbers).unwrap()),
            "both" => Map::Shared(QpShared::builder().with_index().build_in(numbers).unwrap()),
            "points" => Map::Points(PointMap::builder().build_in(numbers).unwrap()),
            "text store" | "old text store" => {
                Map::TextStore(QpStore::builder().build_in(texts).unwrap())
            }
            "texts" => Map::Texts(QpShared::builder().build_in(texts).unwrap()),
            "texts both" => Map::Texts(QpShared::builder().with_index().build_in(texts).unwrap()),
            _ => Map::TextPoints(PointMap::builder().build_in(texts).unwrap()),
        }
    }

    pub fn has_order(&self) -> bool {
        !matches!(self, Map::Points(_) | Map::TextPoints(_))
    }

    pub fn has_texts(&self) -> bool {
        matches!(self, Map::TextStore(_) | Map::Texts(_) | Map::TextPoints(_))
    }

    /// A copy of the map's memory.
    pub fn copy(&self, folder: &Folder, name: &str) -> Copy {
        match self.has_texts() {
            true => folder.copy(&format!("{name}s")),
            false => folder.copy(name),
        }
    }

    /// A value for this map.
    pub fn value(&self, rng: &mut Rng) -> Value {
        let len = match self.has_texts() {
            true => [0, 1, 7, 30, 63, 64, 65, 250, 253, 254, 255, 300, 3000][rng.usize(..13)],
            false => 8,
        };
        (0..len).map(|_| rng.u8(..)).collect()
    }

    pub fn put(&self, key: &[u8], value: &[u8]) {
        match self {
            Map::Store(map) => {
                let mut txn = map.begin();
                txn.insert(key, number(value)).unwrap();
                txn.commit();
            }
            Map::TextStore(map) => {
                let mut txn = map.begin();
                txn.insert(key, value).unwrap();
                txn.commit();
            }
            Map::Shared(map) => drop(map.insert(key, number(value)).unwrap()),
            Map::Points(map) => drop(map.insert(key, number(value)).unwrap()),
            Map::Texts(map) => drop(map.insert(key, value).unwrap()),
            Map::TextPoints(map) => drop(map.insert(key, value).unwrap()),
        }
    }

    pub fn take(&self, key: &[u8]) {
        match self {
            Map::Store(map) => {
                let mut txn = map.begin();
                txn.remove(key).unwrap();
                txn.commit();
            }
            Map::TextStore(map) => {
                let mut txn = map.begin();
                txn.remove(key).unwrap();
                txn.commit();
            }
            Map::Shared(map) => drop(map.remove(key).unwrap()),
            Map::Points(map) => drop(map.remove(key).unwrap()),
            Map::Texts(map) => drop(map.remove(key).unwrap()),
            Map::TextPoints(map) => drop(map.remove(key).unwrap()),
        }
    }
}

/// Puts keys into a map and takes some out again. Returns what the map then has.
pub fn filled(map: &Map, seed: u64, ops: usize) -> Entries {
    let mut keys = KeyPool::new(seed, ops / 3 + 1);
    let mut entries = Entries::new();
    for op in 0..ops {
        let mut key = keys.key();
        if op % 8 == 7 {
            key = lengthened(key, keys.rng());
        }
        if keys.rng().u8(..4) == 0 {
            map.take(&key);
            entries.remove(&key);
        } else {
            let value = map.value(keys.rng());
            map.put(&key, &value);
            entries.insert(key, value);
        }
    }
    entries
}

/// A key of up to 70, or of 250 or more bytes, which begins as one of a few.
fn lengthened(key: Vec<u8>, rng: &mut Rng) -> Vec<u8> {
    let len = [rng.usize(..70), rng.usize(250..400)][usize::from(rng.u8(..4) == 0)];
    let mut long = vec![b'k'; len];
    let tail = key.len().min(len);
    long[len - tail..].copy_from_slice(&key[..tail]);
    long
}

/// A reader of a copy, which returns the bytes of values.
pub fn reader(copy: &Copy) -> CheckedReader<&Copy, Bytes> {
    CheckedReader::new(copy).unwrap()
}
