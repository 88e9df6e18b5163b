//! Lookups, walks and `verify` in tries of all shapes.

use fastrand::Rng;

use super::build::{Builder, Map, any_key, some_trie};
use super::{Words, get, nodes};
use crate::Trouble;
use crate::find::Lookup;
use crate::nodes::Copied;
use crate::path::Path;
use crate::verify::{Census, verify, verify_alone};

fn copied(entry: Option<(&Vec<u8>, &u64)>) -> Option<Copied> {
    entry.map(|(key, value)| (key.clone(), value.to_ne_bytes().to_vec()))
}

/// The entries from a key on, up to the first error.
pub(super) fn walk(words: &Words, from: &[u8]) -> (Vec<Copied>, Result<(), Trouble>) {
    let nodes = nodes(words);
    let (mut path, mut from, mut stands) = (Path::default(), from.to_vec(), false);
    let mut all = Vec::new();
    loop {
        let entry = path.entry(&nodes, &from, !all.is_empty(), stands);
        match entry {
            Ok(None) => return (all, Ok(())),
            Ok(Some((key, value))) => {
                assert!(all.is_empty() || from < key, "{from:?} before {key:?}");
                assert!(from <= key);
                from.clone_from(&key);
                stands = true;
                all.push((key, value));
            }
            Err(_) if stands => stands = false,
            Err(trouble) => return (all, Err(trouble)),
        }
        let bytes = words.0.len() * 8;
        assert!(
            all.len() <= bytes / 8 && path.steps <= bytes as u64,
            "no end"
        );
    }
}

fn u64_of(value: &[u8]) -> u64 {
    u64::from_ne_bytes(value.try_into().unwrap())
}

pub(super) fn as_it_is(entries: Vec<Copied>) -> Map {
    let entries = entries.into_iter();
    let numbers = entries.map(|(key, value)| (key, u64_of(&value)));
    numbers.collect()
}

/// Looks up keys that are there, and others.
pub(super) fn compare(words: &Words, map: &Map, rng: &mut Rng) {
    let nodes = nodes(words);
    let all: Vec<Copied> = map.iter().filter_map(|entry| copied(Some(entry))).collect();
    assert_eq!(walk(words, &[]), (all, Ok(())));
    let mut asked: Vec<Vec<u8>> = (0..60).map(|_| any_key(rng, 6)).collect();
    for key in map.keys() {
        if rng.usize(..map.len()) < 60 {
            asked.push(key.clone());
            asked.push([key, &[0][..]].concat());
            let mut other = key[..rng.usize(..=key.len())].to_vec();
            asked.push(other.clone());
            if let Some(last) = other.last_mut() {
                *last = last.wrapping_add(rng.u8(1..=3)).wrapping_sub(2);
            }
            asked.push(other);
        }
    }
    let mut path = Path::default();
    for key in asked {
        let found = get(&nodes, &key).unwrap();
        assert_eq!(
            found,
            map.get(&key).map(|value| value.to_ne_bytes().to_vec())
        );
        let mut lookup = Lookup::default();
        let longest = lookup.longest_prefix(&nodes, &key, <[u8]>::to_vec).unwrap();
        let prefixes = (0..=key.len()).rev().map(|len| (len, map.get(&key[..len])));
        let mut wanted = prefixes.filter_map(|(len, value)| Some((len, *value?)));
        let longest = longest.map(|(len, value)| (len, u64_of(&value)));
        assert_eq!(longest, wanted.next(), "{key:?}");
        let first = path.entry(&nodes, &key, false, false).unwrap();
        assert_eq!(first, copied(map.range(key.clone()..).next()), "{key:?}");
        let before = path.before(&nodes, Some(&key)).unwrap();
        let less = map.range(..key.clone()).next_back();
        assert_eq!(before, copied(less), "{key:?}");
        let mut after = path.entry(&nodes, &key, true, false).unwrap();
        let mut range = map.range(key.clone()..);
        if map.contains_key(&key) {
            range.next();
        }
        for entry in range.map(Some).chain([None]).take(40) {
            assert_eq!(after, copied(entry), "{key:?}");
            if let Some((before, _)) = after.take() {
                after = path.entry(&nodes, &before, true, true).unwrap();
            }
        }
    }
}

#[test]
fn random_tries() {
    let mut rng = Rng::with_seed(1);
    for round in 0..400 {
        let (words, _, map, wrote) = some_trie(&mut rng, [2, 10, 40, 1200][round % 4]);
        let nodes = nodes(&words);
        assert_eq!(verify_alone(&nodes), Ok(map.len()));
        let mut noted = [0; 3];
        let census = verify(&nodes, true, None, false, |node, (from, to)| {
            assert!(from < to && (from | to) % 8 == 0);
            noted[node as usize] += 1;
            Ok(())
        });
        let Census {
            entries,
            branches,
            clusters,
            ..
        } = census.unwrap_or_else(|_| panic!());
        assert_eq!(
            (entries, noted),
            (map.len(), [branches, clusters, wrote[3]])
        );
        assert_eq!([branches, clusters], wrote[..2]);
        // With all locks free.
        let exact = verify(&nodes, true, None, true, |_, _| Ok(()));
        assert_eq!(exact.is_ok(), wrote[2] == 0);
        compare(&words, &map, &mut rng);
    }
}

#[test]
fn the_longest_keys() {
    let keys = [65_534, 65_535, 65_535, 65_533, 300, 0, 65_200].into_iter();
    let mut map: Map = keys.map(|len| (vec![1; len], 5)).collect();
    map.insert([&[1; 65_534][..], &[2]].concat(), 6);
    map.insert([&[1; 65_280][..], &[2; 255]].concat(), 6);
    for seed in 0..20 {
        let words = Words::new(100_000);
        let mut rng = Rng::with_seed(seed);
        let of_ten = [seed as u32 % 11, seed as u32 % 3 * 5, 0];
        let mut builder = Builder::new(&words, &mut rng, of_ten);
        builder.build(&map);
        assert_eq!(verify_alone(&nodes(&words)), Ok(map.len()));
        compare(&words, &map, &mut rng);
    }
}
