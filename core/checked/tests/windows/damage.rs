//! Damaged copies: every operation ends with an answer or an error, and reads nothing outside the
//! window, which the window asserts. `SAPWOOD_OPS` sets how many damaged copies of each map are
//! read (default 150).

use fastrand::Rng;
use sapwood_checked::{Bytes, CheckedReader, Trouble};
use sapwood_model::keys::KeyPool;

use crate::support::{ALL, Copy, Error, Folder, Map, filled, reader};

/// Calls all methods. Returns how many calls returned an error.
fn ask_all(copy: &Copy, has_order: bool, keys: &mut KeyPool) -> usize {
    let most = copy.words.len() + 2;
    let mut errors = 0;
    let reader = match CheckedReader::<_, Bytes>::new(copy) {
        Ok(reader) => reader,
        Err(_) => return 1,
    };
    for _ in 0..10 {
        errors += usize::from(reader.get(keys.key()).is_err());
        errors += usize::from(has_order && reader.longest_prefix(keys.key()).is_err());
    }
    let walk = reader.unordered();
    let walked = walk.inspect(|entry| errors += usize::from(entry.is_err()));
    assert!(walked.count() <= most, "more entries than room");
    if has_order {
        let mut before: Option<Vec<u8>> = None;
        for entry in reader.from_key(keys.key()) {
            errors += usize::from(entry.is_err());
            let key = entry.map_or(None, |(key, _)| Some(key));
            assert!(key.is_none() || before.is_none() || before < key);
            before = key;
        }
        for _ in 0..10 {
            errors += ask_beside(&reader, &keys.key());
        }
        let prefix = keys.key();
        let walked = reader.prefix(&prefix[..prefix.len().min(1)]).count();
        assert!(walked <= most, "more entries than room");
    }
    errors + usize::from(reader.verify().is_err())
}

/// Asks for what lies beside a key and above it: whatever the window holds, it does. Returns how
/// many calls returned an error.
fn ask_beside(reader: &CheckedReader<&Copy, Bytes>, key: &[u8]) -> usize {
    let (before, after) = (reader.predecessor(key), reader.successor(key));
    assert!(!matches!(&before, Ok(Some((found, _))) if &found[..] >= key));
    assert!(!matches!(&after, Ok(Some((found, _))) if &found[..] <= key));
    let above = reader.ancestors(key);
    for pair in above.iter().flat_map(|above| above.windows(2)) {
        assert!(pair[1].0.starts_with(&pair[0].0) && key.starts_with(&pair[1].0));
    }
    let found = reader.denial(key, b'.', |_, Bytes(value)| value.len() % 2 == 0);
    if let Ok(found) = &found {
        let closest = &found.closest;
        assert!(closest.encloser <= key.len());
        for (found, _) in closest.ancestor.iter().chain(&closest.cut) {
            assert!(key.starts_with(found));
        }
        assert!(
            closest
                .exact
                .iter()
                .all(|(found, _)| found == key && closest.exists)
        );
        for (found, _) in closest.predecessor.iter().chain(&found.predecessor) {
            assert!(&found[..] < key);
        }
    }
    usize::from(before.is_err())
        + usize::from(after.is_err())
        + usize::from(above.is_err())
        + usize::from(found.is_err())
        + usize::from(reader.last().is_err())
}

/// The number of damaged copies.
fn rounds() -> usize {
    std::env::var("SAPWOOD_OPS").map_or(150, |ops| ops.parse().unwrap())
}

#[test]
fn bits_words_and_parts() {
    let folder = Folder::new();
    for (i, name) in ALL.into_iter().enumerate() {
        let map = Map::new(&folder, name);
        let entries = filled(&map, i as u64, 600);
        let mut copy = map.copy(&folder, name);
        let used = copy.words.iter().rposition(|word| *word != 0).unwrap() + 1;
        let whole = copy.words.clone();
        let mut rng = Rng::with_seed(i as u64);
        let mut keys = KeyPool::new(i as u64, 200);
        let mut caught = 0;
        let rounds = rounds();
        for round in 0..rounds {
            let at = match round % 8 {
                // The root words, and the secrets of the hash.
                0 => rng.usize(6..14),
                1 => rng.usize(128..160),
                _ => rng.usize(512..used),
            };
            match rng.u8(..4) {
                0 => copy.words[at] ^= 1 << rng.u8(..64),
                1 => copy.words[at] = rng.u64(..),
                2 => copy.words[at] = whole[rng.usize(512..used)],
                _ => {
                    let (from, len) = (rng.usize(512..used), rng.usize(1..40));
                    let len = len.min(used - at).min(used - from);
                    let part = whole[from..from + len].to_vec();
                    copy.words[at..at + len].copy_from_slice(&part);
                }
            }
            caught += usize::from(ask_all(&copy, map.has_order(), &mut keys) > 0);
            copy.words.clone_from(&whole);
        }
        assert!(caught > rounds / 8, "{name}: {caught} of {rounds}");
        assert_eq!(reader(&copy).verify(), Ok(entries.len()), "{name}");
    }
}

#[test]
fn truncated() {
    let folder = Folder::new();
    for (i, name) in ALL.into_iter().enumerate() {
        let map = Map::new(&folder, name);
        filled(&map, i as u64, 300);
        let mut copy = map.copy(&folder, name);
        let used = copy.words.iter().rposition(|word| *word != 0).unwrap() + 1;
        let mut keys = KeyPool::new(i as u64, 200);
        let mut rng = Rng::with_seed(i as u64);
        let whole = std::mem::take(&mut copy.words);
        let mut caught = 0;
        for round in 0..13 + rounds() / 4 {
            let len = match round {
                0..=12 => round * 64,
                _ => rng.usize(512..used),
            };
            copy.words = whole[..len].to_vec();
            if len < 512 {
                let refused = CheckedReader::<_, u64>::new(&copy).err();
                let short = Trouble::Damaged("no room for a header page", 8 * len);
                assert_eq!(refused, Some(Error::Trouble(short)));
                continue;
            }
            caught += usize::from(ask_all(&copy, map.has_order(), &mut keys) > 0);
        }
        // The rest of the memory may be free.
        assert!(caught > rounds() / 16, "{name}: {caught}");
    }
}

#[test]
fn noise() {
    let mut rng = Rng::with_seed(1);
    let mut keys = KeyPool::new(1, 100);
    let folder = Folder::new();
    for name in ALL {
        let map = Map::new(&folder, name);
        filled(&map, 1, 100);
        let mut copy = map.copy(&folder, name);
        for _ in 0..rounds() / 10 {
            for word in &mut copy.words[512..] {
                *word = match rng.u8(..3) {
                    0 => rng.u64(..),
                    1 => rng.u64(..1 << 16) | rng.u64(..1 << 16) << 32,
                    _ => (rng.u64(..4096) * 4 + rng.u64(..4)) << 32 | (rng.u64(..4096) * 4),
                };
            }
            ask_all(&copy, map.has_order(), &mut keys);
        }
    }
}

/// A store whose root word states another number of entries.
#[test]
fn a_number_of_entries_that_is_wrong() {
    let folder = Folder::new();
    let map = Map::new(&folder, "store");
    map.put(b"larch", &[1; 8]);
    let mut copy = map.copy(&folder, "store");
    copy.words[8] += 1 << 32;
    let wrong = Trouble::Damaged("a number of entries that is wrong", 64);
    assert_eq!(reader(&copy).verify(), Err(Error::Trouble(wrong)));
    assert_eq!(
        wrong.to_string(),
        "damaged at byte 64: a number of entries that is wrong"
    );
}
