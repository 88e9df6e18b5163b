//! Every published map over byte strings, read through a copy and compared with an ordered map.

use std::collections::BTreeMap;
use std::fmt::Debug;

use sapwood::qp::{PointMap, QpShared, QpStore};
use sapwood_checked::{Bytes, CheckedReader, Source, Trouble, Values};
use sapwood_format::header;
use sapwood_model::keys::{KeyPool, near};
use sapwood_model::oracle::{self, ByteMap};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::support::{ALL, Copy, Entries, Error, Folder, Map, filled, reader};

type Reader<S> = CheckedReader<S, Bytes>;

fn owned<'a>(entries: impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)>) -> Vec<(Vec<u8>, Bytes)> {
    let entry = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), Bytes(value.clone()));
    entries.map(entry).collect()
}

/// Compares all methods with the entries.
fn compare<S: Source<Error = Error>>(
    reader: &Reader<S>,
    has_order: bool,
    entries: &Entries,
    seed: u64,
) {
    let mut keys = KeyPool::new(seed, entries.len() / 4 + 20);
    assert_eq!(reader.verify(), Ok(entries.len()));
    assert_eq!(reader.len(), Ok(entries.len()));
    assert_eq!(reader.is_empty(), Ok(entries.is_empty()));
    assert_eq!(reader.has_order(), Ok(has_order));
    let found: Result<BTreeMap<_, _>, _> = reader.unordered().collect();
    assert_eq!(found.unwrap().len(), entries.len());
    assert_eq!(reader.unordered().count(), entries.len());
    let mut asked: Vec<Vec<u8>> = (0..60).map(|_| keys.key()).collect();
    for key in entries.keys() {
        asked.push(key.clone());
        asked.push(near(key, keys.rng()));
        asked.push([key, &b"."[..]].concat());
    }
    let most = 400;
    if asked.len() > most {
        keys.rng().shuffle(&mut asked);
        asked.truncate(most);
    }
    for key in &asked {
        let value = entries.get(key);
        assert_eq!(reader.get(key), Ok(value.cloned().map(Bytes)), "{key:?}");
        assert_eq!(reader.contains(key), Ok(value.is_some()));
    }
    if !has_order {
        let refused = Err(Error::Trouble(Trouble::NoOrder));
        assert_eq!(reader.longest_prefix("a").map(drop), refused);
        assert_eq!(reader.first().map(drop), refused);
        assert_eq!(reader.last().map(drop), refused);
        assert_eq!(reader.predecessor("a").map(drop), refused);
        assert_eq!(reader.successor("a").map(drop), refused);
        assert_eq!(reader.ancestors("a").map(drop), refused);
        assert_eq!(reader.closest("a", 0, |_, _| false).map(drop), refused);
        assert_eq!(reader.denial("a", 0, |_, _| false).map(drop), refused);
        for mut walk in [reader.iter(), reader.from_key("a"), reader.prefix("a")] {
            assert_eq!(walk.next().unwrap().map(drop), refused);
            assert!(walk.next().is_none());
        }
        return;
    }
    let all: Result<Vec<_>, _> = reader.iter().collect();
    assert_eq!(all.unwrap(), owned(entries.iter()));
    for key in &asked {
        let from: Result<Vec<_>, _> = reader.from_key(key).take(9).collect();
        assert_eq!(from.unwrap(), owned(entries.range(key.clone()..).take(9)));
        let prefix = &key[..key.len().min(2)];
        let below: Result<Vec<_>, _> = reader.prefix(prefix).take(9).collect();
        let range = entries.range(prefix.to_vec()..);
        let range = range.take_while(|(key, _)| key.starts_with(prefix)).take(9);
        assert_eq!(below.unwrap(), owned(range));
        let longest = (0..=key.len()).rev().find_map(|len| {
            let entry = entries.get_key_value(&key[..len])?;
            owned(std::iter::once(entry)).pop()
        });
        assert_eq!(reader.longest_prefix(key), Ok(longest), "{key:?}");
    }
    let mut oracle = ByteMap::default();
    for (key, value) in entries {
        oracle.insert(key, value.clone());
    }
    compare_neighbours(reader, &oracle, &asked);
    compare_zone(reader, &oracle, &asked);
}

/// An entry of the oracle, as a reader returns it.
fn copied(entry: Option<(&[u8], &Vec<u8>)>) -> Option<(Vec<u8>, Bytes)> {
    entry.map(|(key, value)| (key.to_vec(), Bytes(value.clone())))
}

fn compare_neighbours<S: Source<Error = Error>>(
    reader: &Reader<S>,
    oracle: &ByteMap<Vec<u8>>,
    asked: &[Vec<u8>],
) {
    assert_eq!(reader.first(), Ok(copied(oracle.iter().next())));
    assert_eq!(reader.last(), Ok(copied(oracle.iter().next_back())));
    for key in asked {
        let (before, after) = (oracle.predecessor(key), oracle.successor(key));
        assert_eq!(reader.predecessor(key), Ok(copied(before)), "{key:?}");
        assert_eq!(reader.successor(key), Ok(copied(after)), "{key:?}");
        let above = oracle.ancestors(key).into_iter();
        let above: Vec<_> = above.filter_map(|entry| copied(Some(entry))).collect();
        assert_eq!(reader.ancestors(key), Ok(above), "{key:?}");
    }
}

/// Compares `closest` and `denial`; labels end with a dot, and with a byte that most keys have.
fn compare_zone<S: Source<Error = Error>>(
    reader: &Reader<S>,
    oracle: &ByteMap<Vec<u8>>,
    asked: &[Vec<u8>],
) {
    let is_cut = |value: &[u8]| value.first().is_some_and(|byte| byte % 3 == 0);
    for separator in [b'.', b'a', 0] {
        for name in asked.iter().take(80) {
            let found = reader.denial(name, separator, |_, Bytes(value)| is_cut(value));
            let found = found.unwrap();
            let stored = |entry: &Option<(Vec<u8>, Bytes)>| {
                let (key, value) = entry.as_ref()?;
                let (key, stored) = oracle.iter().find(|(stored, _)| stored == key)?;
                assert_eq!(stored, &value.0);
                Some(key)
            };
            let closest = &found.closest;
            let around = oracle::Closest {
                exact: stored(&closest.exact),
                exists: closest.exists,
                encloser: closest.encloser,
                ancestor: stored(&closest.ancestor),
                wildcard: stored(&closest.wildcard),
                predecessor: stored(&closest.predecessor),
                cut: stored(&closest.cut),
            };
            let beside = oracle::Denial {
                closest: around,
                wildcard_exists: found.wildcard_exists,
                predecessor: stored(&found.predecessor),
                wildcard_predecessor: stored(&found.wildcard_predecessor),
            };
            let want = oracle.denial(name, separator, |value| is_cut(value));
            assert_eq!(beside, want, "{name:?} {separator}");
            let alone = reader.closest(name, separator, |_, Bytes(value)| is_cut(value));
            assert_eq!(alone.unwrap(), found.closest);
        }
    }
}

/// Names as a zone has them, with wildcards, names without entries, and cuts.
#[test]
fn zones_answer_as_an_ordered_map() {
    let folder = Folder::new();
    let names = [
        "",
        "a.",
        "a.b.",
        "a.b.c.",
        "a.*.",
        "a.b.*.",
        "a.e.*.f.",
        "a.sub.",
        "a.sub.ns.",
        "a.z.",
        "b.x.y.",
        "b.x.y.z.",
    ];
    for kind in ALL {
        let map = Map::new(&folder, kind);
        if !map.has_order() {
            continue;
        }
        let mut entries = Entries::new();
        for (at, name) in names.iter().enumerate() {
            let value = [at as u8, 0, 0, 0, 0, 0, 0, 0];
            map.put(name.as_bytes(), &value);
            entries.insert(name.as_bytes().to_vec(), value.to_vec());
            let copy = map.copy(&folder, kind);
            compare(&reader(&copy), true, &entries, at as u64);
        }
    }
}

#[test]
fn as_an_ordered_map() {
    let folder = Folder::new();
    for (i, name) in ALL.into_iter().enumerate() {
        for (round, ops) in [0, 1, 2, 5, 40, 400, 3000].into_iter().enumerate() {
            let map = Map::new(&folder, name);
            let seed = (i * 10 + round) as u64;
            let entries = filled(&map, seed, ops);
            let copy = map.copy(&folder, name);
            compare(&reader(&copy), map.has_order(), &entries, seed);
        }
    }
}

#[test]
fn a_snapshot_of_a_store() {
    let folder = Folder::new();
    for name in ["store", "old store", "text store", "old text store"] {
        let map = Map::new(&folder, name);
        let entries = filled(&map, 77, 500);
        let copy = map.copy(&folder, name);
        let reader = reader(&copy);
        compare(&reader.snapshot().unwrap(), true, &entries, 78);
    }
}

/// A snapshot reads the version that it was made of, although the source has a newer one.
#[test]
fn a_snapshot_stays_as_it_was() {
    let folder = Folder::new();
    let map = Map::new(&folder, "store");
    map.put(b"larch", &[1; 8]);
    let old = map.copy(&folder, "store").words[8];
    // A reader of the older version keeps its nodes.
    let Map::Store(store) = &map else {
        unreachable!("the map is a store")
    };
    let kept = store.snapshot();
    map.put(b"larch", &[2; 8]);
    map.put(b"beech", &[3; 8]);
    let mut copy = map.copy(&folder, "store");
    let newer = std::mem::replace(&mut copy.words[8], old);
    let changing = Changing {
        copy: &copy,
        newer,
        opened: 0.into(),
    };
    let reader = CheckedReader::<_, Bytes>::new(&changing).unwrap();
    let snapshot = reader.snapshot().unwrap();
    changing.opened.set(usize::MAX);
    assert_eq!(reader.len(), Ok(2));
    assert_eq!(reader.get("larch"), Ok(Some(Bytes(vec![2; 8]))));
    assert_eq!(snapshot.len(), Ok(1));
    assert_eq!(snapshot.get("larch"), Ok(Some(Bytes(vec![1; 8]))));
    assert_eq!(snapshot.get("beech"), Ok(None));
    assert_eq!(snapshot.iter().count(), 1);
    assert_eq!(kept.len(), 1);
}

/// A source whose root word changes.
struct Changing<'a> {
    copy: &'a Copy,
    newer: u64,
    opened: std::cell::Cell<usize>,
}

#[derive(Clone)]
struct Changed<'a>(&'a Changing<'a>);

impl sapwood_checked::Window for Changed<'_> {
    fn len(&self) -> usize {
        size_of_val(&self.0.copy.words[..])
    }

    fn u32(&self, at: usize) -> u32 {
        sapwood_checked::Window::u32(&self.0.copy.words[..], at)
    }

    fn u64(&self, at: usize) -> u64 {
        match at / 8 {
            8 if self.0.opened.get() == usize::MAX => self.0.newer,
            word => self.0.copy.words[word],
        }
    }
}

impl<'a> Source for &'a Changing<'a> {
    type Window = Changed<'a>;
    type Error = Error;

    fn open(&self) -> Result<(Changed<'a>, sapwood_checked::Publisher), Error> {
        Ok((Changed(self), sapwood_checked::Publisher::Process))
    }

    fn error(&self, trouble: Trouble) -> Error {
        Error::Trouble(trouble)
    }
}

/// Any map can be built of what a process left of any other.
#[test]
fn an_heir_has_the_same_entries() {
    let folder = Folder::new();
    for (i, name) in [
        "store",
        "old store",
        "shared",
        "old shared",
        "both",
        "points",
    ]
    .into_iter()
    .enumerate()
    {
        let map = Map::new(&folder, name);
        let entries = filled(&map, 60 + i as u64, 700);
        let copy = map.copy(&folder, name);
        drop(map);
        let left = CheckedReader::<_, u64>::new(&copy).unwrap();
        let layout = QpShared::<u64>::layout_hash();
        assert_eq!(left.check_layout(layout), Ok(()));
        assert_eq!(left.check_layout(QpStore::<u64>::layout_hash()), Ok(()));
        assert_eq!(left.verify(), Ok(entries.len()));
        let found: Result<BTreeMap<_, _>, _> = left.unordered().collect();
        let found = found.unwrap();
        let builder = QpShared::<u64>::builder().with_index();
        let heir = builder.build_sorted_in(folder.arena("heir", layout), found.clone());
        let points = PointMap::<u64>::builder().build_in(folder.arena("points heir", layout));
        let points = points.unwrap();
        for (key, value) in &found {
            points.insert(key, *value).unwrap();
        }
        drop((heir.unwrap(), points));
        for (heir, has_order) in [("heir", true), ("points heir", false)] {
            compare(&reader(&folder.copy(heir)), has_order, &entries, 60);
        }
    }
}

#[test]
fn values_of_another_type() {
    let folder = Folder::new();
    let map = Map::new(&folder, "store");
    map.put(b"larch", &[1; 8]);
    let numbers = map.copy(&folder, "store");
    let values = |values| Some(Error::Trouble(Trouble::Values(values)));
    assert_eq!(
        CheckedReader::<_, u64>::new(&numbers).unwrap().get("larch"),
        Ok(Some(0x0101_0101_0101_0101))
    );
    assert_eq!(
        CheckedReader::<_, [u64; 2]>::new(&numbers).err(),
        values(Values::Bytes(8))
    );
    let hash = QpStore::<u64>::layout_hash();
    let layout = Values::Layout { bytes: 8, hash };
    assert_eq!(
        CheckedReader::<_, [u32; 2]>::new(&numbers).err(),
        values(layout)
    );
    assert_eq!(
        layout.to_string(),
        format!("they have 8 bytes, but another alignment or layout ({hash:#018x})")
    );
    let bytes = reader(&numbers);
    assert_eq!(bytes.value_bytes(), Ok(Some(8)));
    assert_eq!(bytes.check_layout(hash), Ok(()));
    let old = QpShared::<u64>::layout_hash();
    assert_eq!(bytes.check_layout(old), Ok(()));
    let other = QpStore::<[u32; 2]>::layout_hash();
    assert_eq!(bytes.check_layout(other).err(), values(Values::Bytes(8)));
    assert_eq!(bytes.check_layout(hash + 1).err(), values(Values::Bytes(8)));
    let map = Map::new(&folder, "texts");
    map.put(b"larch", b"needles");
    let texts = map.copy(&folder, "texts");
    assert_eq!(
        CheckedReader::<_, u64>::new(&texts).err(),
        values(Values::Strings)
    );
    assert_eq!(reader(&texts).value_bytes(), Ok(None));
    assert_eq!(
        reader(&texts).check_layout(hash).err(),
        values(Values::Strings)
    );
}

/// A reader of values of any type knows the format by the layout hash, so it refuses a format that
/// comes after it.
#[test]
fn a_format_of_later() {
    let folder = Folder::new();
    for name in ["store", "old store", "text store", "shared"] {
        let map = Map::new(&folder, name);
        map.put(b"larch", &[1; 8]);
        let mut copy = map.copy(&folder, name);
        assert_eq!(reader(&copy).get("larch"), Ok(Some(Bytes(vec![1; 8]))));
        let (size, bytes) = if map.has_texts() { (1, 1) } else { (8, 8) };
        let hash = header::layout_hash(size, 8, header::SHARED_FORMAT + 1);
        copy.words[header::LAYOUT_AT / 8] = hash;
        let refused = Trouble::Values(Values::Layout { bytes, hash });
        let found = CheckedReader::<_, Bytes>::new(&copy).err();
        assert_eq!(found, Some(Error::Trouble(refused)), "{name}");
    }
}

/// Values whose entries begin at multiples of 4 and of 8, and those that no cluster holds.
#[test]
fn values_of_all_sizes() {
    fn check<V>(value: impl Fn(u64) -> V)
    where
        V: FromBytes
            + IntoBytes
            + Immutable
            + std::marker::Copy
            + PartialEq
            + Debug
            + Send
            + Sync
            + 'static,
    {
        let folder = Folder::new();
        let arena = folder.arena("store", QpStore::<V>::layout_hash());
        let store = QpStore::<V>::builder().build_in(arena).unwrap();
        let mut txn = store.begin();
        let mut expected = BTreeMap::new();
        for i in 0..300_u64 {
            let key = format!("{}/{}", i % 7, i * i).into_bytes();
            txn.insert(&key, value(i)).unwrap();
            expected.insert(key, value(i));
        }
        txn.commit();
        let copy = folder.copy("store");
        let typed = CheckedReader::<_, V>::new(&copy).unwrap();
        assert_eq!(typed.verify(), Ok(300));
        let found: Result<BTreeMap<_, _>, _> = typed.iter().collect();
        assert_eq!(found.unwrap(), expected);
        let bytes = reader(&copy);
        for (key, value) in &expected {
            assert_eq!(typed.get(key), Ok(Some(*value)));
            let raw = Bytes(value.as_bytes().to_vec());
            assert_eq!(bytes.get(key), Ok(Some(raw)));
        }
    }
    check(|i| i);
    check(|i| [i as u32, 7]);
    check(|i| [i as u8; 8]);
    check(|i| [i as u16; 12]);
    check(|i| [i; 8]);
    check(|i| [i; 9]);
    check(|_| [0_u8; 0]);
}
