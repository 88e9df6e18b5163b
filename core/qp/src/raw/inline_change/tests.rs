//! Maps with inline clusters change as a model does, and values are dropped once.

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;

use crate::{QpMap, Value};
use sapwood_arena::ArenaOptions;

/// Keys of many shapes: short and long, with long prefixes in common, some of them prefixes of
/// others.
fn key(rng: &mut fastrand::Rng, kind: usize) -> Vec<u8> {
    const LENGTHS: [usize; 12] = [0, 1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 300];
    match kind {
        0 => (0..rng.usize(..9)).map(|_| rng.u8(..3) * 90).collect(),
        1 => rng.u64(..).to_be_bytes().to_vec(),
        2 => {
            let mut key = vec![b'p'; rng.usize(..5) * 70];
            key.extend((0..rng.usize(..4)).map(|_| rng.u8(..4) * 60));
            if rng.bool() {
                key.extend(core::iter::repeat_n(b'z', LENGTHS[rng.usize(..12)]));
            }
            key
        }
        _ => {
            let len = LENGTHS[rng.usize(..12)];
            (0..len).map(|_| rng.u8(..2) * 255).collect()
        }
    }
}

fn changes<V: ?Sized + Value>(
    seed: u64,
    insert: impl Fn(&mut QpMap<V>, &[u8], u64) -> Option<u64>,
    taken: impl Fn(V::Taken) -> u64,
    seen: impl Fn(&V) -> u64,
) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let steps = if cfg!(miri) { 60 } else { 3000 };
    // The same keys, cut and whole.
    for round in 0..8 {
        let (kind, whole) = (round % 4, round >= 4);
        let mut map: QpMap<V> = match whole {
            false => QpMap::new(),
            true => QpMap::with_whole_keys(ArenaOptions::default()).unwrap(),
        };
        let mut model: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
        for step in 0..steps {
            let key = key(&mut rng, kind);
            // Growth, a time of both, and a removal of all.
            let remove = match step * 3 / steps {
                0 => rng.u8(..8) == 0,
                1 => rng.bool(),
                _ => rng.u8(..8) != 0,
            };
            if remove {
                let gone = match model.range(key.clone()..).next() {
                    Some((near, _)) if rng.bool() => near.clone(),
                    _ => key,
                };
                assert_eq!(map.remove(&gone).map(&taken), model.remove(&gone));
            } else {
                let number = rng.u64(..200);
                let old = insert(&mut map, &key, number);
                assert_eq!(old, model.insert(key, number), "{step} of {kind}");
            }
            if !cfg!(miri) || step % 16 == 0 {
                map.verify().unwrap();
            }
            if step % 64 == 0 {
                let all: Vec<_> = map.iter().map(|(k, v)| (k.to_vec(), seen(v))).collect();
                let want: Vec<_> = model.iter().map(|(k, v)| (k.clone(), *v)).collect();
                assert_eq!(all, want);
                for (key, number) in &model {
                    assert_eq!(map.get(key).map(&seen), Some(*number));
                    let next = map.successor(key).map(|(key, _)| key.to_vec());
                    let behind = (
                        core::ops::Bound::Excluded(key.clone()),
                        core::ops::Bound::Unbounded,
                    );
                    let want = model.range::<Vec<u8>, _>(behind).next();
                    assert_eq!(next.as_ref(), want.map(|(key, _)| key));
                }
            }
            if step % 500 == 499 {
                map.compact().unwrap();
                map.verify().unwrap();
                let prefix = self::key(&mut rng, kind);
                let prefix = &prefix[..prefix.len().min(3)];
                let before = model.len();
                model.retain(|key, _| !key.starts_with(prefix));
                assert_eq!(map.remove_prefix(prefix), before - model.len());
                map.verify().unwrap();
            }
        }
        for key in model.into_keys() {
            assert!(map.remove(&key).is_some());
        }
        map.verify().unwrap();
        assert!(map.is_empty());
    }
}

#[test]
fn maps_of_numbers_change_as_a_model() {
    changes::<u64>(
        1,
        |map, key, number| map.insert(key, number).unwrap(),
        |value| value,
        |value| *value,
    );
}

#[test]
fn maps_of_bytes_and_of_nothing_change_as_a_model() {
    changes::<u8>(
        2,
        |map, key, number| {
            let old = map.insert(key, number as u8).unwrap();
            old.map(u64::from)
        },
        u64::from,
        |value| u64::from(*value),
    );
}

#[test]
fn maps_of_byte_strings_change_as_a_model() {
    fn text(number: u64) -> Vec<u8> {
        let len = [0, 1, 8, 63, 64, 65, 300][number as usize % 7];
        let mut text = number.to_le_bytes().to_vec();
        text.resize(8 + len, 7);
        text
    }
    let number = |text: &[u8]| u64::from_le_bytes(text[..8].try_into().unwrap());
    changes::<[u8]>(
        3,
        |map, key, n| map.insert(key, &text(n)).unwrap().map(|old| number(&old)),
        |value| number(&value),
        number,
    );
}

#[test]
fn values_of_all_sizes_and_alignments_change_as_a_model() {
    #[repr(align(64))]
    struct Wide(u64);
    changes::<Wide>(
        4,
        |map, key, number| map.insert(key, Wide(number)).unwrap().map(|old| old.0),
        |value| value.0,
        |value| value.0,
    );
    changes::<[u64; 8]>(
        5,
        |map, key, number| map.insert(key, [number; 8]).unwrap().map(|old| old[7]),
        |value| value[7],
        |value| value[7],
    );
    changes::<[u64; 9]>(
        6,
        |map, key, number| map.insert(key, [number; 9]).unwrap().map(|old| old[8]),
        |value| value[8],
        |value| value[8],
    );
    changes::<(u8, u32)>(
        7,
        |map, key, number| {
            let old = map.insert(key, (1, number as u32)).unwrap();
            old.map(|old| u64::from(old.1))
        },
        |value| u64::from(value.1),
        |value| u64::from(value.1),
    );
}

#[test]
fn each_value_is_dropped_once() {
    changes::<Rc<u64>>(
        8,
        |map, key, number| map.insert(key, Rc::new(number)).unwrap().map(|old| *old),
        |value| {
            assert_eq!(Rc::strong_count(&value), 1);
            *value
        },
        |value| **value,
    );
    let mut rng = fastrand::Rng::with_seed(9);
    let counted = Rc::new(0u64);
    for kind in 0..4 {
        let mut map: QpMap<Rc<u64>> = QpMap::new();
        for _ in 0..if cfg!(miri) { 16 } else { 1000 } {
            map.insert(key(&mut rng, kind), Rc::clone(&counted))
                .unwrap();
        }
        assert_eq!(Rc::strong_count(&counted), 1 + map.len());
        let copy = map.clone();
        assert_eq!(Rc::strong_count(&counted), 1 + 2 * map.len());
        assert!(copy == map);
        drop(copy);
        let middle = map.keys().nth(map.len() / 2).map(|key| key.to_vec());
        let mut upper = map.split_off(middle.unwrap()).unwrap();
        map.verify().unwrap();
        upper.verify().unwrap();
        assert_eq!(Rc::strong_count(&counted), 1 + map.len() + upper.len());
        map.append(&mut upper).unwrap();
        map.verify().unwrap();
        assert_eq!(Rc::strong_count(&counted), 1 + map.len());
        map.retain(|_, _| rng.bool());
        map.verify().unwrap();
        assert_eq!(Rc::strong_count(&counted), 1 + map.len());
        map.add_index();
        map.verify().unwrap();
        map.remove_index();
        map.compact().unwrap();
        map.verify().unwrap();
        assert_eq!(Rc::strong_count(&counted), 1 + map.len());
        drop(map);
        assert_eq!(Rc::strong_count(&counted), 1);
    }
}

/// Allocations fail at random. A change that fails leaves the map as it was.
#[test]
fn a_change_without_memory_changes_nothing() {
    use sapwood_arena::ArenaOptions;
    let mut rng = fastrand::Rng::with_seed(10);
    for round in 0..if cfg!(miri) { 2 } else { 60 } {
        let options = ArenaOptions::default().fail_every(2 + round % 5);
        let mut map: QpMap<[u8]> = match QpMap::with_options(options) {
            Ok(map) => map,
            Err(_) => continue,
        };
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let mut refused = 0;
        for _ in 0..if cfg!(miri) { 60 } else { 400 } {
            let key = key(&mut rng, round as usize % 4);
            if rng.u8(..3) == 0 {
                let gone = map.remove(&key).map(Vec::from);
                assert_eq!(gone, model.remove(&key));
            } else {
                let value = vec![rng.u8(..); rng.usize(..90)];
                match map.insert(&key, &value) {
                    Ok(old) => {
                        let was = model.insert(key, value);
                        assert_eq!(old.map(Vec::from), was);
                    }
                    Err(_) => refused += 1,
                }
            }
            map.verify().unwrap();
            assert_eq!(map.len(), model.len());
        }
        let all: Vec<_> = map.iter().map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
        assert_eq!(all, model.into_iter().collect::<Vec<_>>());
        assert!(refused > 0 || cfg!(miri));
    }
}

/// A block loses its prefix when only long entries are left in it. A new key that had fitted beside
/// the whole prefix does not fit any more.
#[test]
fn a_block_whose_prefix_gets_shorter_takes_long_keys() {
    // Tails of 128 bytes look like entries outside, and longer ones have no length.
    for fill in if cfg!(miri) { 56..57 } else { 40..60 } {
        let key = |i: u32, fill: usize| format!("{}{i:02}{}", "p".repeat(70), "z".repeat(fill));
        let mut map = QpMap::new();
        let put = |map: &mut QpMap<u64>, i: u32, fill| {
            map.insert(key(i, fill), u64::from(i)).unwrap();
            map.verify().unwrap();
        };
        // Two short keys, then long ones until all slots are used. The next short key makes the
        // block grow, with room for four like it; long ones need less.
        (0..2).for_each(|i| put(&mut map, i, 6));
        (2..16).for_each(|i| put(&mut map, i, 120));
        put(&mut map, 16, 57);
        (17..20).for_each(|i| put(&mut map, i, 120));
        // The short keys go. Their bytes are less than a third, so the block stays as it is.
        for (i, fill) in [(0, 6), (1, 6), (16, 57)] {
            assert_eq!(map.remove(key(i, fill)), Some(u64::from(i)));
        }
        (20..23).for_each(|i| put(&mut map, i, 120));
        // No slot is free: the block is written anew without the dead bytes, and without a prefix.
        put(&mut map, 23, fill);
        assert_eq!(map.get(key(23, fill)), Some(&23));
        let kept = (2..16).chain(17..24);
        assert!(map.values().copied().eq(kept));
    }
}
