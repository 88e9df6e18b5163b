//! A map that programs write and a `BTreeMap` with the same contents: random operations on both,
//! and comparisons.

use std::collections::BTreeMap;

use sapwood_bpf::{ProgramMap, ProgramMapBuilder};
use sapwood_model::choices::Choices;

use crate::side::{
    E2BIG, EAGAIN, EEXIST, ENODATA, ENOENT, ENOMEM, EOPNOTSUPP, EXIST, NOEXIST, Side, What,
};

/// Keys of all lengths that share prefixes, with few and with many labels at an offset.
pub fn key(choices: &mut impl Choices) -> Vec<u8> {
    let (len, letters) = match choices.below(8) {
        0 => (choices.below(255), 256),
        1 => (choices.below(20), 3),
        2 => (choices.below(3), 256),
        3 => (choices.below(4), 41),
        _ => (choices.below(6), 5),
    };
    (0..len).map(|_| choices.below(letters) as u8).collect()
}

/// Keys of up to this many bytes, made of few letters in long runs: they part at offsets that are
/// near each other and far from each other, and some are prefixes of others.
fn long_key(choices: &mut impl Choices, longest: usize) -> Vec<u8> {
    let mut key = Vec::new();
    for _ in 0..choices.below(6) {
        let letter = b'a' + choices.below(3) as u8;
        let run = [1, 1, 2, 30, 250, 300, 1500][choices.below(7)];
        key.resize(key.len() + run, letter);
    }
    key.truncate(longest);
    key
}

/// A map's map of the same contents, and how it is asked.
struct Pair<'a, V> {
    map: &'a ProgramMap<V>,
    oracle: BTreeMap<Vec<u8>, [u64; 8]>,
    words: usize,
    most: usize,
    /// Whether the map has an index, and a trie.
    parts: (bool, bool),
    /// The number of operations that found no memory.
    failed: usize,
}

impl<V> Pair<'_, V> {
    /// One operation on both. An operation without memory must change nothing.
    fn change(&mut self, side: &mut (impl Side + ?Sized), choices: &mut impl Choices, key: &[u8]) {
        let window = self.map.window().number;
        let there = self.oracle.contains_key(key);
        let choice = choices.below(8);
        if choice == 7 {
            self.pop(side, choices, key);
        } else if choice < 2 {
            let what = match choices.flip() {
                true => What::Remove,
                false => What::Take,
            };
            let (result, value) = side.ask(what, window, 0, key, &[]);
            if result == ENOMEM {
                self.failed += 1;
                return;
            }
            let old = self.oracle.remove(key);
            match (old, what) {
                (None, _) => assert_eq!(result, ENOENT, "remove {key:?}"),
                (Some(_), What::Remove) => assert_eq!(result, 0, "remove {key:?}"),
                (Some(old), _) => {
                    assert!(result > 0, "take {key:?}: {result}");
                    assert_eq!(value[..self.words], old[..self.words], "take {key:?}");
                }
            }
        } else {
            let flags = choices.below(3) as u64;
            let value: [u64; 8] = std::array::from_fn(|i| match i < self.words {
                true => choices.below(usize::MAX) as u64,
                false => 0,
            });
            let what = match self.words {
                1 if choices.flip() => What::Insert,
                _ => What::InsertValue,
            };
            let (result, _) = side.ask(what, window, flags, key, &value);
            let wanted = match (there, flags) {
                (true, NOEXIST) => EEXIST,
                (false, EXIST) => ENOENT,
                (false, _) if self.oracle.len() == self.most => E2BIG,
                _ => 0,
            };
            match result {
                ENOMEM => {
                    assert_eq!(wanted, 0);
                    self.failed += 1;
                }
                _ => {
                    assert_eq!(result, wanted, "insert {key:?} {flags} {there}");
                    if result == 0 {
                        self.oracle.insert(key.to_vec(), value);
                    }
                }
            }
        }
    }

    /// Takes the first entry of both, or the first if its key is not greater than the first bytes
    /// of this one.
    fn pop(&mut self, side: &mut (impl Side + ?Sized), choices: &mut impl Choices, key: &[u8]) {
        let window = self.map.window().number;
        let time = |key: &[u8]| {
            let mut bytes = [0; 8];
            let len = key.len().min(8);
            bytes[..len].copy_from_slice(&key[..len]);
            u64::from_be_bytes(bytes)
        };
        let (what, until) = match choices.flip() {
            true => (What::PopFirst, u64::MAX),
            false => (What::PopDue, time(key)),
        };
        let (result, value, image) = side.ask_for_key(what, window, until, &[], &[]);
        let first = self.oracle.first_key_value();
        match first {
            _ if !self.parts.1 => assert_eq!(result, EOPNOTSUPP),
            None => assert_eq!(result, ENOENT),
            Some((first, _)) if time(first) > until => {
                assert_eq!(result, EAGAIN, "{first:?} {until}");
                assert!(is_image(&image, first), "{first:?} {image:?}");
            }
            Some(_) if result == ENOMEM => self.failed += 1,
            Some((first, wanted)) => {
                assert_eq!(result, 0, "{first:?}");
                assert!(is_image(&image, first), "{first:?} {image:?}");
                assert_eq!(value[..self.words], wanted[..self.words], "{first:?}");
                assert_eq!(value[self.words..], [0; 8][self.words..], "{first:?}");
                self.oracle.pop_first();
            }
        }
    }

    /// Compares lookups with the oracle's.
    fn look(&self, side: &mut (impl Side + ?Sized), key: &[u8]) {
        let window = self.map.window().number;
        let wanted = self.oracle.get(key);
        for what in [What::Trie, What::Index, What::Lookup] {
            let (result, value) = side.ask(what, window, 0, key, &[]);
            let has = match what {
                What::Trie => self.parts.1,
                What::Index => self.parts.0,
                _ => true,
            };
            if what == What::Trie && !has {
                assert_eq!(result, EOPNOTSUPP, "{key:?}");
                continue;
            }
            match wanted {
                Some(wanted) if has && !(what == What::Index && result == ENODATA) => {
                    assert!(result > 0, "{what:?} {key:?}: {result}");
                    assert_eq!(
                        value[..self.words],
                        wanted[..self.words],
                        "{what:?} {key:?}"
                    );
                }
                _ => assert!(
                    [ENOENT, ENODATA].contains(&result),
                    "{what:?} {key:?}: {result}"
                ),
            }
        }
    }

    fn check(&self) {
        let shape = self.map.verify().unwrap();
        assert_eq!(shape.entries, self.oracle.len());
        assert_eq!(self.map.len(), self.oracle.len());
        assert_eq!(shape.refused, 0);
        let m = self.map.memory().unwrap();
        assert_eq!(m.live, m.branches + m.clusters + m.leaves);
        assert_eq!(
            m.fixed + m.offered + m.live + m.retired + m.waiting + m.free,
            m.frontier
        );
    }
}

/// Whether an image is that of a key. Of a long key, only the length is compared.
fn is_image(image: &[u8; 256], key: &[u8]) -> bool {
    match key.len() {
        255.. => image[0] == 255 && image[16..24] == (key.len() as u64).to_ne_bytes(),
        len => {
            let end = (len + 1).next_multiple_of(32);
            let zeros = image[1 + len..end].iter().all(|&byte| byte == 0);
            image[0] == len as u8 && image[1..=len] == *key && zeros
        }
    }
}

/// The parts of a map: index, trie.
pub fn with<V>(builder: ProgramMapBuilder<V>, parts: (bool, bool)) -> ProgramMapBuilder<V>
where
    V: sapwood_bpf::StoredValue,
{
    let builder = if parts.0 {
        builder.with_index()
    } else {
        builder
    };
    if parts.1 {
        builder.with_trie()
    } else {
        builder
    }
}

/// Up to `steps` random operations on one map, with a full comparison after every `every`
/// operations. Returns the number of operations that found no memory.
#[allow(clippy::too_many_arguments)]
pub fn against_the_oracle<V>(
    map: &ProgramMap<V>,
    side: &mut (impl Side + ?Sized),
    parts: (bool, bool),
    most: usize,
    choices: &mut impl Choices,
    steps: usize,
    every: usize,
) -> usize {
    let mut pair = Pair {
        map,
        oracle: BTreeMap::new(),
        words: size_of::<V>() / 8,
        most,
        parts,
        failed: 0,
    };
    for step in 0..steps {
        if !choices.more() {
            break;
        }
        let mut key = match side.longest() {
            longest if longest > 254 && choices.below(3) > 0 => long_key(choices, longest),
            _ => key(choices),
        };
        if choices.flip() && !pair.oracle.is_empty() {
            // A key that is there.
            let at = pair.oracle.range(key.clone()..).next();
            key = at.map_or(Vec::new(), |(key, _)| key.clone());
        }
        pair.change(side, choices, &key);
        pair.look(side, &key);
        if step % 4 == 0 {
            map.service().unwrap();
        }
        if step % every == 0 || step < 50 {
            pair.check();
        }
    }
    for key in pair.oracle.keys() {
        pair.look(side, key);
    }
    pair.check();
    // All keys are removed.
    let keys: Vec<_> = pair.oracle.keys().cloned().collect();
    for key in keys {
        let mut result = ENOMEM;
        for _ in 0..10_000 {
            result = side.ask(What::Remove, map.window().number, 0, &key, &[]).0;
            if result != ENOMEM {
                break;
            }
            map.service().unwrap();
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
        assert_eq!(result, 0);
        pair.oracle.remove(&key);
        map.service().unwrap();
    }
    pair.check();
    assert_eq!(map.memory().unwrap().live, 0);
    pair.failed
}

pub const PARTS: [(bool, bool); 3] = [(true, false), (false, true), (true, true)];

/// A wrong word: random, near a valid reference, or small.
pub fn wrong_word(choices: &mut impl Choices, units: u32) -> u64 {
    let mut half = || match choices.below(4) {
        0 => choices.below(1 << 32) as u32,
        1 => choices.below(units as usize * 4) as u32,
        2 => (choices.below(units as usize) << 2 | choices.below(4)) as u32,
        _ => (choices.below(300) << 16 | choices.below(64) | choices.below(16) << 27) as u32,
    };
    u64::from(half()) << 32 | u64::from(half())
}
