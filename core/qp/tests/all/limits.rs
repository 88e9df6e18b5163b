//! The limits of maps and stores: lengths of keys, sizes of branches and values, and the limit of
//! memory.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

use sapwood::arena::{ArenaOptions, Backing, DebugMode};
use sapwood::qp::Error;
use sapwood::qp::{Key, MAX_KEY, QpMap, QpStore};

type Model<V> = BTreeMap<Vec<u8>, V>;

/// A smaller count under Miri, where every step is slow.
const fn less(usual: usize, under_miri: usize) -> usize {
    if cfg!(miri) { under_miri } else { usual }
}

fn same<V: PartialEq + Debug>(map: &QpMap<V>, model: &Model<V>) {
    map.verify().unwrap();
    assert_eq!(map.len(), model.len());
    assert!(map.iter().eq(model.iter().map(|(k, v)| (Key::from(k), v))));
}

fn small_store<V: Send + Sync>(options: ArenaOptions) -> Result<QpStore<V>, Error> {
    let reserve = 1 << 26;
    QpStore::builder()
        .options(options.backing(Backing::Mmap { reserve }))
        .build()
}

// Keys

#[test]
fn keys_of_all_legal_lengths_are_kept() {
    let mut map = QpMap::with_options(ArenaOptions::default().debug(DebugMode::Poison)).unwrap();
    let mut model = Model::new();
    for len in [
        0,
        1,
        2,
        7,
        8,
        255,
        256,
        257,
        4095,
        4096,
        MAX_KEY - 1,
        MAX_KEY,
    ] {
        for fill in [0, b'a', 255] {
            let mut key = vec![fill; len];
            model.insert(key.clone(), len);
            assert_eq!(
                map.insert(&key, len).unwrap().is_some(),
                len == 0 && fill > 0
            );
            if let Some(last) = key.last_mut() {
                *last = 1;
                model.insert(key.clone(), len + 1);
                map.insert(&key, len + 1).unwrap();
            }
        }
    }
    assert_eq!(MAX_KEY, 65_535);
    same(&map, &model);
    for (key, value) in &model {
        assert_eq!(map.get(key), Some(value));
        assert_eq!(map.get_key_value(key), Some((Key::from(key), value)));
    }
    while let Some((key, value)) = model.pop_last() {
        assert_eq!(map.remove(&key), Some(value));
    }
    same(&map, &model);
}

#[test]
fn a_key_that_is_too_long_is_refused_by_every_way_in() {
    let long = vec![7u8; MAX_KEY + 1];
    let refused = Error::KeyTooLong { len: 65_536 };
    let mut map = QpMap::from([("a", "1".to_string()), ("b", "2".to_string())]);
    let rejected = map.insert(&long, "back".to_string()).unwrap_err();
    assert_eq!(
        (rejected.value.as_str(), &rejected.error),
        ("back", &refused)
    );
    assert_eq!(
        rejected.to_string(),
        "key of 65536 bytes is too long (the limit is 65,535)"
    );
    assert_eq!(map.entry(&long).unwrap_err(), refused);
    assert_eq!(QpMap::from_sorted_iter([(&long, 1)]).unwrap_err(), refused);
    let panicked = catch_unwind(AssertUnwindSafe(|| map.extend([(&long, String::new())])));
    assert!(panicked.is_err());
    same(
        &map,
        &Model::from([(b"a".into(), "1".into()), (b"b".into(), "2".into())]),
    );

    let store = small_store(ArenaOptions::default()).unwrap();
    let mut txn = store.begin();
    txn.insert("a", 1).unwrap();
    let rejected = txn.insert(&long, 5).unwrap_err();
    assert_eq!((rejected.value, rejected.error), (5, refused.clone()));
    assert!(txn.insert_many([(&long, 6)]).is_err());
    assert_eq!(txn.len(), 1);
    txn.commit();
    store.verify().unwrap();
    let built = QpStore::<i32>::builder().build_sorted([(&long, 1)]);
    assert_eq!(built.err(), Some(refused));
}

#[test]
fn queries_with_keys_over_the_limit_find_what_they_should() {
    let longest = vec![7u8; MAX_KEY];
    let over = vec![7u8; MAX_KEY + 5];
    let mut map = QpMap::from([(&longest[..], 1), (b"", 2), (b"\x08", 3)]);
    assert_eq!(map.get(&over), None);
    assert!(!map.contains_key(&over));
    assert_eq!(map.remove(&over), None);
    assert_eq!(map.remove_prefix(&over), 0);
    assert_eq!(map.predecessor(&over), Some((Key::from(&longest), &1)));
    assert_eq!(map.successor(&over), Some((Key::from(b"\x08"), &3)));
    assert_eq!(map.longest_prefix(&over), Some((Key::from(&longest), &1)));
    assert_eq!(map.ancestors(&over).len(), 2);
    assert_eq!(map.prefix(&over).count(), 0);
    assert_eq!(map.range::<&[u8], _>(&over[..]..).count(), 1);
    let mut found = [None];
    map.get_many(&[&over], &mut found);
    assert_eq!(found, [None]);
    assert_eq!(map.split_off(&over).unwrap().len(), 1);
    assert_eq!(map.len(), 2);
}

#[test]
fn zeros_at_the_end_of_a_key_count() {
    let mut map = QpMap::new();
    let mut model = Model::new();
    let n = less(300, 40);
    for len in (0..n).rev() {
        for key in [vec![0; len], [&vec![0; len][..], &[1]].concat()] {
            assert_eq!(map.insert(&key, len).unwrap(), model.insert(key, len));
        }
    }
    same(&map, &model);
    let chain: Vec<_> = map
        .ancestors(vec![0; n / 2])
        .into_iter()
        .map(|(k, _)| k.len())
        .collect();
    assert_eq!(chain, Vec::from_iter(0..=n / 2));
    for len in 0..n {
        assert_eq!(map.remove(vec![0; len]), Some(len));
        assert_eq!(map.get(vec![0; len]), None);
        model.remove(&vec![0; len]);
    }
    same(&map, &model);
}

#[test]
fn chains_of_thousands_of_prefixes() {
    let step = less(47, 7_000);
    let whole: Vec<u8> = (0..MAX_KEY).map(|i| (i % 251) as u8).collect();
    let mut map = QpMap::new();
    let lengths: Vec<usize> = (0..=MAX_KEY).step_by(step).collect();
    let mut mixed = lengths.clone();
    fastrand::Rng::with_seed(1).shuffle(&mut mixed);
    for &len in &mixed {
        map.insert(&whole[..len], len).unwrap();
    }
    map.verify().unwrap();
    assert!(map.keys().map(|key| key.len()).eq(lengths.iter().copied()));
    assert_eq!(map.ancestors(&whole).len(), lengths.len());
    assert_eq!(map.longest_prefix(&whole).map(|(_, v)| v), lengths.last());
    assert_eq!(
        map.longest_prefix(&whole[..step * 3 - 1]).map(|(_, v)| *v),
        Some(step * 2)
    );
    assert_eq!(
        map.successor(&whole[..step]).map(|(_, v)| *v),
        Some(step * 2)
    );
    assert_eq!(map.predecessor(&whole[..step]).map(|(_, v)| *v), Some(0));
    assert_eq!(
        map.prefix(&whole[..step * 5 + 1]).count(),
        lengths.len() - 6
    );
    map.compact().unwrap();
    assert_eq!(map.remove_prefix(&whole[..step * 5]), lengths.len() - 5);
    assert_eq!(map.len(), 5);
    map.verify().unwrap();
}

#[test]
fn one_byte_steps_down_a_chain_in_a_store() {
    let n = less(2_500, 40);
    let whole = vec![b'x'; n];
    let store = small_store(ArenaOptions::default()).unwrap();
    let mut txn = store.begin();
    for len in 0..n {
        txn.insert(&whole[..len], len).unwrap();
    }
    txn.commit();
    store.verify().unwrap();
    let before = store.snapshot();
    let mut txn = store.begin();
    for len in (0..n).step_by(2) {
        assert_eq!(txn.remove(&whole[..len]).unwrap(), Some(&len));
    }
    txn.commit();
    store.verify().unwrap();
    assert_eq!(before.ancestors(&whole).len(), n);
    assert_eq!(store.read(|view| view.ancestors(&whole).len()), n / 2);
    assert_eq!(
        QpStore::diff(&before, &store.snapshot()).count(),
        n.div_ceil(2)
    );
}

// Branches

/// Grows a branch through all sizes in one order and shrinks it in another; checks everything at
/// each size.
fn grow_and_shrink(depth: usize, with_end: bool, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let stem = vec![b'm'; depth];
    let mut keys: Vec<Vec<u8>> = (0..=255u8).map(|b| [&stem[..], &[b]].concat()).collect();
    if with_end {
        keys.push(stem.clone());
    }
    rng.shuffle(&mut keys);
    let mut map = QpMap::new();
    let mut model = Model::new();
    if depth > 0 {
        map.insert("other", 1000).unwrap();
        model.insert(b"other".into(), 1000);
    }
    // Walking keys of 64 KB at each of 500 steps takes long.
    let often = if depth > 2_000 || cfg!(miri) { 64 } else { 1 };
    let check = |map: &QpMap<usize>, model: &Model<usize>, i: usize, keys: &[Vec<u8>]| {
        if i % often == 0 || i + 1 == keys.len() {
            same(map, model);
            for key in keys {
                assert_eq!(map.get(key), model.get(key));
            }
            assert!(
                map.prefix(&stem)
                    .rev()
                    .map(|(k, _)| k.len())
                    .all(|l| l >= depth)
            );
        }
    };
    for (i, key) in keys.iter().enumerate() {
        assert_eq!(map.insert(key, i).unwrap(), None);
        model.insert(key.clone(), i);
        check(&map, &model, i, &keys);
    }
    assert_eq!(map.prefix(&stem).count(), 256 + usize::from(with_end));
    let full = keys.clone();
    rng.shuffle(&mut keys);
    for (i, key) in keys.iter().enumerate() {
        assert_eq!(map.remove(key), model.remove(key));
        check(&map, &model, i, &full);
    }
    assert_eq!(map.len(), usize::from(depth > 0));
}

#[test]
fn branches_of_every_size_without_a_key_that_ends() {
    for (seed, depth) in [0, 1, 8, 63, 1000, MAX_KEY - 1].into_iter().enumerate() {
        if !cfg!(miri) || depth == 1 {
            grow_and_shrink(depth, false, seed as u64);
        }
    }
}

#[test]
fn branches_of_every_size_with_a_key_that_ends() {
    for (seed, depth) in [0, 1, 8, 63, 1000, MAX_KEY - 1].into_iter().enumerate() {
        if !cfg!(miri) || depth == 1 {
            grow_and_shrink(depth, true, 100 + seed as u64);
        }
    }
}

#[test]
fn full_branches_below_full_branches() {
    let mut map = QpMap::new();
    let wide = less(256, 18) as u16;
    for a in 0..wide {
        for b in 0..wide {
            map.insert([a as u8, b as u8], a * 256 + b).unwrap();
        }
        map.insert([a as u8], a).unwrap();
    }
    map.verify().unwrap();
    assert_eq!(map.len(), usize::from(wide) * (usize::from(wide) + 1));
    let mut last = None;
    for (key, _) in &map {
        assert!(last.is_none_or(|last| last < key));
        last = Some(key);
    }
    map.retain(|key, _| key.len() == 1);
    assert_eq!(map.len(), usize::from(wide));
    map.verify().unwrap();
}

// Values

fn values_of<V: Clone + PartialEq + Debug + Send + Sync + 'static>(make: impl Fn(usize) -> V) {
    let mut rng = fastrand::Rng::with_seed(3);
    let mut map = QpMap::with_options(ArenaOptions::default().debug(DebugMode::Poison)).unwrap();
    let mut model = Model::new();
    for i in 0..less(1_500, 60) {
        let key: Vec<u8> = (0..rng.usize(..5)).map(|_| rng.u8(..4)).collect();
        match rng.u8(..8) {
            0 | 1 => assert_eq!(map.remove(&key), model.remove(&key)),
            2 => {
                if let Some(value) = map.get_mut(&key) {
                    *value = make(i);
                    model.insert(key, make(i));
                }
            }
            _ => assert_eq!(
                map.insert(&key, make(i)).unwrap(),
                model.insert(key, make(i))
            ),
        }
        if i % 100 == 0 {
            map.compact().unwrap();
            same(&map, &model);
        }
    }
    same(&map, &model);
    let at = std::ptr::from_ref(map.values().next().unwrap());
    assert_eq!(at as usize % align_of::<V>(), 0);
    let store = QpStore::<V>::builder()
        .options(ArenaOptions::default().backing(Backing::Mmap { reserve: 1 << 26 }))
        .build_sorted(map)
        .unwrap();
    let snapshot = store.snapshot();
    let mut txn = store.begin();
    let keys: Vec<_> = model.keys().cloned().collect();
    for key in keys.iter().step_by(2) {
        assert_eq!(txn.remove(key).unwrap(), model.get(key));
        txn.insert(key, make(77)).unwrap();
    }
    txn.commit();
    store.verify().unwrap();
    assert!(
        snapshot
            .iter()
            .eq(model.iter().map(|(k, v)| (Key::from(k), v)))
    );
    assert_eq!(
        store.read(|view| view.get(&keys[0]).cloned()),
        Some(make(77))
    );
}

#[derive(Clone, Debug, PartialEq)]
#[repr(align(64))]
struct Aligned(u8);

#[derive(Clone, Debug, PartialEq)]
#[repr(align(4096))]
struct PageAligned([u8; 5]);

#[derive(Clone, Debug, PartialEq)]
#[repr(align(16))]
struct AlignedNothing;

#[test]
fn values_of_many_sizes() {
    values_of(|_| ());
    values_of(|i| i as u8);
    values_of(|i| i as u16);
    values_of(|i| i as u32);
    values_of(|i| [i as u8; 3]);
    values_of(|i| [i as u16; 3]);
    values_of(|i| (i, i as u8));
    values_of(|i| [i as u8; 1000]);
    values_of(|i| i % 2 == 0);
    values_of(|i| (i % 3 > 0).then_some(i as u32));
}

#[test]
fn values_that_own_memory() {
    values_of(|i| format!("value {i} of some length"));
    values_of(|i| vec![i; i % 5]);
    values_of(std::sync::Arc::new);
    values_of(|i| Box::new([i as u64; 4]));
}

#[test]
fn values_with_large_alignment() {
    values_of(|i| i as u128);
    values_of(|i| Aligned(i as u8));
    values_of(|i| PageAligned([i as u8; 5]));
    values_of(|_| AlignedNothing);
}

#[test]
#[cfg(not(miri))]
fn values_larger_than_a_chunk() {
    // Values are moved through the stack, several times in an unoptimised build.
    std::thread::Builder::new()
        .stack_size(64 << 20)
        .spawn(insert_values_larger_than_a_chunk)
        .unwrap()
        .join()
        .unwrap();
}

#[cfg(not(miri))]
fn insert_values_larger_than_a_chunk() {
    let mut map = QpMap::new();
    for i in 0..20u8 {
        map.insert([i], [i; 300_000]).unwrap();
    }
    for i in (0..20u8).step_by(2) {
        assert_eq!(map.remove([i]), Some([i; 300_000]));
    }
    map.compact().unwrap();
    map.verify().unwrap();
    assert!(
        map.iter()
            .all(|(key, value)| value.iter().all(|byte| *byte == key[0]))
    );
}

#[test]
fn values_behind_dyn_traits() {
    trait Legs: Send + Sync {
        fn legs(&self) -> u32;
    }
    struct Ant(u32);
    struct Spider;
    impl Legs for Ant {
        fn legs(&self) -> u32 {
            6 * self.0
        }
    }
    impl Legs for Spider {
        fn legs(&self) -> u32 {
            8
        }
    }
    let mut map: QpMap<Box<dyn Legs>> = QpMap::new();
    for i in 0..50u32 {
        map.insert(i.to_be_bytes(), Box::new(Ant(i))).unwrap();
    }
    assert_eq!(
        map.insert("", Box::new(Spider))
            .unwrap()
            .map(|old| old.legs()),
        None
    );
    assert_eq!(
        map.insert("", Box::new(Ant(3)))
            .unwrap()
            .map(|old| old.legs()),
        Some(8)
    );
    map.compact().unwrap();
    assert_eq!(
        map.values().map(|v| v.legs()).sum::<u32>(),
        18 + (0..50).sum::<u32>() * 6
    );
    map.verify().unwrap();
}
