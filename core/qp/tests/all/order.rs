//! Walks over compacted maps follow their leaves in memory; any change ends that.

use std::collections::BTreeMap;
use std::fmt::Debug;

use sapwood::arena::ArenaOptions;
use sapwood::qp::{Key, QpMap, QpStore};

type Model<V> = BTreeMap<Vec<u8>, V>;

/// A smaller count under Miri, where every step is slow.
const fn less(usual: usize, under_miri: usize) -> usize {
    if cfg!(miri) { under_miri } else { usual }
}

/// Keys of all lengths, prefixes of each other, the empty one, and long ones.
fn nth_key(i: usize) -> Vec<u8> {
    match i % 5 {
        0 => vec![b'p'; i],
        1 => i.to_string().into_bytes(),
        2 => format!("text/{}", i * 7919 % 1000).into_bytes(),
        3 => vec![i as u8],
        _ => [&vec![b'l'; 250 + i][..], &i.to_be_bytes()].concat(),
    }
}

fn made<V>(n: usize, value: impl Fn(usize) -> V) -> (QpMap<V>, Model<V>) {
    let (mut map, mut model) = (QpMap::new(), Model::new());
    for i in 0..n {
        map.insert(nth_key(i), value(i)).unwrap();
        model.insert(nth_key(i), value(i));
    }
    (map, model)
}

fn same<V: PartialEq + Debug>(map: &QpMap<V>, model: &Model<V>) {
    map.verify().unwrap();
    let wanted = || model.iter().map(|(k, v)| (Key::from(k), v));
    assert!(map.iter().eq(wanted()));
    assert!(map.iter().rev().eq(wanted().rev()));
    assert!(map.keys().eq(model.keys().map(|k| &k[..])));
    assert!(map.values().eq(model.values()));
    assert!(map.range::<[u8], _>(..).eq(wanted()));
    assert_eq!(map.iter().len(), model.len());
}

#[test]
fn compacted_maps_of_all_sizes_are_walked_whole() {
    for n in [0, 1, 2, 3, less(40, 10), less(700, 17)] {
        let (mut map, model) = made(n, |i| i);
        map.compact().unwrap();
        same(&map, &model);
        same(&map.clone(), &model);
        let sorted = QpMap::from_sorted_iter(model.iter().map(|(k, v)| (k, *v))).unwrap();
        same(&sorted, &model);
    }
}

#[test]
fn values_of_any_size_and_alignment() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    #[repr(align(64))]
    struct Wide(u64);
    let n = less(300, 30);
    let (mut nothing, model) = made(n, |_| ());
    nothing.compact().unwrap();
    same(&nothing, &model);
    let (mut bytes, model) = made(n, |i| i as u8);
    bytes.compact().unwrap();
    same(&bytes, &model);
    let (mut large, model) = made(n, |i| [i; 9]);
    large.compact().unwrap();
    same(&large, &model);
    let (mut wide, model) = made(n, |i| Wide(i as u64));
    wide.compact().unwrap();
    same(&wide, &model);
}

#[test]
fn both_ends_meet() {
    let (mut map, model) = made(less(200, 20), |i| i);
    map.compact().unwrap();
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..less(300, 4) {
        let (mut found, mut wanted) = (map.iter(), model.iter());
        loop {
            let back = rng.bool();
            let item = if back {
                found.next_back()
            } else {
                found.next()
            };
            let right = if back {
                wanted.next_back()
            } else {
                wanted.next()
            };
            assert_eq!(item, right.map(|(k, v)| (Key::from(k), v)));
            if rng.u8(..20) == 0 {
                let rest = wanted.clone().map(|(k, v)| (Key::from(k), v));
                assert!(found.clone().eq(rest));
            }
            if item.is_none() {
                assert_eq!((found.next(), found.next_back()), (None, None));
                break;
            }
        }
    }
}

#[test]
fn any_change_ends_the_order() {
    type Change = fn(&mut QpMap<usize>, &mut Model<usize>);
    let changes: [Change; 12] = [
        |map, model| {
            map.insert("new", 1).unwrap();
            model.insert("new".into(), 1);
        },
        |map, model| assert_eq!(map.remove(nth_key(7)), model.remove(&nth_key(7))),
        |map, model| {
            assert_eq!(
                map.insert(nth_key(7), 0).unwrap(),
                model.insert(nth_key(7), 0)
            )
        },
        |map, model| {
            // The number of leaves and bytes is the same as before.
            assert_eq!(map.remove(nth_key(11)), model.remove(&nth_key(11)));
            map.insert("!!", 11).unwrap();
            model.insert(b"!!".to_vec(), 11);
        },
        |map, model| {
            map.entry("/").unwrap().or_insert(5);
            model.insert(b"/".to_vec(), 5);
        },
        |map, model| {
            map.pop_first().unwrap();
            model.pop_first().unwrap();
            map.pop_last().unwrap();
            model.pop_last().unwrap();
        },
        |map, model| {
            map.remove_prefix("text/");
            model.retain(|k, _| !k.starts_with(b"text/"));
        },
        |map, model| {
            map.retain(|_, v| *v % 3 == 0);
            model.retain(|_, v| *v % 3 == 0);
        },
        |map, model| {
            let upper = map.split_off("p").unwrap();
            same(&upper, &model.split_off(&b"p"[..]));
        },
        |map, model| {
            let mut other = QpMap::from([("0", 1), ("zzz", 2)]);
            other.compact().unwrap();
            map.append(&mut other).unwrap();
            same(&other, &Model::new());
            model.extend([(b"0".to_vec(), 1), (b"zzz".to_vec(), 2)]);
        },
        |map, model| {
            map.clear();
            model.clear();
            assert_eq!(map.iter().next(), None);
            map.insert("one", 1).unwrap();
            model.insert(b"one".to_vec(), 1);
        },
        |map, model| {
            for value in map.values_mut().chain([&mut 0]) {
                *value += 1;
            }
            model.values_mut().for_each(|v| *v += 1);
            assert_eq!(map.get_mut(nth_key(3)), model.get_mut(&nth_key(3)));
        },
    ];
    let (map, model) = made(less(150, 30), |i| i);
    for change in changes {
        let (mut map, mut model) = (map.clone(), model.clone());
        map.compact().unwrap();
        change(&mut map, &mut model);
        same(&map, &model);
        map.insert("again", 0).unwrap();
        model.insert(b"again".to_vec(), 0);
        same(&map, &model);
        map.compact().unwrap();
        same(&map, &model);
    }
}

#[test]
fn a_store_made_of_a_compact_map_has_its_own_order() {
    let (mut map, mut model) = made(less(150, 30), |i| i);
    map.compact().unwrap();
    let store = QpStore::from_map(map).unwrap();
    let before = store.snapshot();
    let old = model.clone();
    let mut txn = store.begin();
    txn.remove(nth_key(8)).unwrap();
    txn.insert("new", 1).unwrap();
    model.remove(&nth_key(8));
    model.insert(b"new".to_vec(), 1);
    assert!(txn.iter().eq(model.iter().map(|(k, v)| (Key::from(k), v))));
    txn.commit();
    store.verify().unwrap();
    assert!(before.iter().eq(old.iter().map(|(k, v)| (Key::from(k), v))));
    assert!(
        store
            .snapshot()
            .iter()
            .eq(model.iter().map(|(k, v)| (Key::from(k), v)))
    );
}

#[test]
fn compaction_without_room_for_all_leaves_at_once() {
    for limit in (8..64).step_by(less(2, 24)) {
        let options = ArenaOptions::default().limit(limit << 10);
        let mut map = QpMap::with_options(options).unwrap();
        let mut model = Model::new();
        for i in 0.. {
            if i == 400 || map.insert(nth_key(i), i).is_err() {
                break;
            }
            model.insert(nth_key(i), i);
        }
        // The compaction completes or changes nothing.
        let compacted = map.compact().is_ok();
        same(&map, &model);
        assert!(compacted || model.len() < 400);
    }
}
