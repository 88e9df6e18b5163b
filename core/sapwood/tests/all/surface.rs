//! The API that `QpMap` shares with `BTreeMap`, compared with `BTreeMap`; and the API beyond that.
#![allow(clippy::type_complexity)]

use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use sapwood::key::{dns_name, reverse_components};
use sapwood::qp::{
    Entry, Key, QpFile, QpMap, QpShared, QpSnapshot, QpStore, QpTxn, QpView, ReadEntry,
};
use sapwood::{Pin, Reader};

type Model = BTreeMap<Vec<u8>, u32>;

fn cases() -> ProptestConfig {
    ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 400 },
        failure_persistence: (!cfg!(miri))
            .then(|| Box::new(FileFailurePersistence::WithSource("regressions")) as Box<_>),
        ..ProptestConfig::default()
    }
}

/// Keys that are often equal, prefixes of each other, and full of zeros; and some other keys.
fn any_key() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop::sample::select(vec![0u8, 1, b'a', b'b', 255]);
    prop_oneof![
        6 => prop::collection::vec(byte, 0..6),
        1 => prop::collection::vec(any::<u8>(), 0..20),
        1 => any::<u8>().prop_map(|b| vec![b'w', b]),
    ]
}

fn any_model() -> impl Strategy<Value = Model> {
    prop::collection::btree_map(any_key(), any::<u32>(), 0..120)
}

fn any_bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        any_key().prop_map(Bound::Included),
        any_key().prop_map(Bound::Excluded),
        Just(Bound::Unbounded),
    ]
}

/// A map with the same entries, made by random insertions and removals, or from sorted entries.
fn made_from(model: &Model, seed: u64) -> QpMap<u32> {
    let mut rng = fastrand::Rng::with_seed(seed);
    if seed % 3 == 0 {
        return QpMap::from_sorted_iter(model.iter().map(|(k, v)| (k, *v))).unwrap();
    }
    let mut entries: Vec<_> = model.iter().collect();
    rng.shuffle(&mut entries);
    let mut map = QpMap::new();
    for (i, (key, value)) in entries.iter().enumerate() {
        if i % 3 == 0 {
            map.insert([key, &b"gone"[..]].concat(), 0).unwrap();
        }
        map.insert(key, **value).unwrap();
    }
    map.retain(|key, _| model.contains_key(key));
    map.verify().unwrap();
    map
}

fn borrowed(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(|key| &key[..])
}

/// Whether bounds are crossed: `BTreeMap::range` panics on them; `QpMap` returns an empty range.
fn crossed(lower: &Bound<Vec<u8>>, upper: &Bound<Vec<u8>>) -> bool {
    match (lower, upper) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Excluded(a), Bound::Excluded(b)) => a >= b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a > b,
    }
}

/// Takes items from both ends of both iterators, in the order of `turns`, and compares them; then
/// calls them again at their ends.
fn same_from_both_ends<A, B, T>(mut ours: A, mut theirs: B, turns: u64)
where
    A: DoubleEndedIterator<Item = T>,
    B: DoubleEndedIterator<Item = T>,
    T: PartialEq + std::fmt::Debug,
{
    let mut turn = turns;
    loop {
        let (a, b) = match turn & 1 {
            0 => (ours.next(), theirs.next()),
            _ => (ours.next_back(), theirs.next_back()),
        };
        assert_eq!(a, b);
        if a.is_none() {
            break;
        }
        turn = turn.rotate_right(1);
    }
    assert!(ours.next().is_none() && ours.next_back().is_none() && ours.next().is_none());
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn ranges_of_all_bounds_from_both_ends(
        model in any_model(), lower in any_bound(), upper in any_bound(), turns: u64,
    ) {
        let mut map = made_from(&model, turns);
        let bounds = (borrowed(&lower), borrowed(&upper));
        let expected: Vec<_> = if crossed(&lower, &upper) {
            Vec::new()
        } else {
            model.range::<[u8], _>(bounds).map(|(k, v)| (Key::from(k), v)).collect()
        };
        same_from_both_ends(map.range::<[u8], _>(bounds), expected.iter().cloned(), turns);
        let shown = format!("{:?}", map.range::<[u8], _>(bounds));
        prop_assert!(shown.matches(": ").count() >= expected.len());
        let expected: Vec<_> = expected.into_iter().map(|(k, v)| (k.to_vec(), *v)).collect();
        let ours = map.range_mut::<[u8], _>(bounds).map(|(k, v)| {
            let was = *v;
            *v = v.wrapping_add(1);
            (k.to_vec(), was)
        });
        same_from_both_ends(ours, expected.clone().into_iter(), turns.rotate_left(7));
        for (key, value) in &model {
            let changed = expected.iter().any(|(k, _)| k == key);
            prop_assert_eq!(map[key], value.wrapping_add(u32::from(changed)));
        }
    }

    #[test]
    fn whole_iterators_from_both_ends(model in any_model(), turns: u64) {
        let mut map = made_from(&model, turns);
        let mut model = model;
        same_from_both_ends(map.iter(), model.iter().map(|(k, v)| (Key::from(k), v)), turns);
        same_from_both_ends(map.keys(), model.keys().map(Key::from), turns);
        same_from_both_ends(map.values(), model.values(), turns);
        let wanted = model.iter().map(|(k, v)| (Key::from(k), v));
        same_from_both_ends((&map).into_iter(), wanted, turns);
        let wanted = model.iter_mut().map(|(k, v)| (Key::from(k), v));
        same_from_both_ends(map.iter_mut(), wanted, turns);
        same_from_both_ends(map.values_mut(), model.values_mut(), turns);
        for (_, value) in &mut map {
            *value ^= 5;
        }
        for value in model.values_mut() {
            *value ^= 5;
        }
        prop_assert_eq!(map.iter().len(), model.len());
        let mut part = map.keys();
        part.next();
        part.next_back();
        prop_assert_eq!(part.len(), model.len().saturating_sub(2));
        prop_assert_eq!(part.clone().count(), part.len());
        let ours = map.into_iter().map(|(k, v)| (Vec::from(k), v));
        same_from_both_ends(ours, model.into_iter(), turns);
    }

    #[test]
    fn neighbours_prefixes_and_ancestors(model in any_model(), probes in prop::collection::vec(any_key(), 1..20)) {
        let map = made_from(&model, probes.len() as u64);
        fn own(e: Option<ReadEntry<'_, u32>>) -> Option<(Vec<u8>, u32)> {
            e.map(|(k, v)| (k.to_vec(), *v))
        }
        let of = |e: Option<(&Vec<u8>, &u32)>| e.map(|(k, v)| (k.clone(), *v));
        for key in probes.iter().chain(model.keys()) {
            let above = (Bound::Excluded(&key[..]), Bound::Unbounded);
            prop_assert_eq!(own(map.successor(key)), of(model.range::<[u8], _>(above).next()));
            let below = (Bound::Unbounded, Bound::Excluded(&key[..]));
            prop_assert_eq!(own(map.predecessor(key)), of(model.range::<[u8], _>(below).next_back()));
            let under = model.iter().filter(|(k, _)| k.starts_with(key));
            let under = under.map(|(k, v)| (Key::from(k), v));
            same_from_both_ends(map.prefix(key), under.collect::<Vec<_>>().into_iter(), 0b0110_1001);
            let over = model.iter().filter(|(k, _)| key.starts_with(k));
            let over: Vec<_> = over.map(|(k, v)| (Key::from(k), v)).collect();
            prop_assert_eq!(map.longest_prefix(key), over.last().cloned());
            prop_assert_eq!(map.ancestors(key), over);
            prop_assert_eq!(map.get(key), model.get(key));
            prop_assert_eq!(map.contains_key(key), model.contains_key(key));
        }
        prop_assert_eq!(own(map.first_key_value()), of(model.first_key_value()));
        prop_assert_eq!(own(map.last_key_value()), of(model.last_key_value()));
    }

    #[test]
    fn entries_do_what_those_of_btreemap_do(steps in prop::collection::vec((0u8..10, any_key(), any::<u32>()), 0..150)) {
        let mut map = QpMap::new();
        let mut model = Model::new();
        for (what, key, value) in steps {
            let ours = map.entry(&key).unwrap();
            prop_assert_eq!(ours.key(), &key[..]);
            let theirs = model.entry(key.clone());
            match what {
                0 => prop_assert_eq!(ours.or_insert(value), theirs.or_insert(value)),
                1 => prop_assert_eq!(ours.or_insert_with(|| value), theirs.or_insert_with(|| value)),
                2 => prop_assert_eq!(ours.or_default(), theirs.or_default()),
                3 => {
                    let ours = ours.and_modify(|v| *v ^= 1).or_insert_with_key(|k| k.len() as u32);
                    *ours ^= 8;
                    *theirs.and_modify(|v| *v ^= 1).or_insert(key.len() as u32) ^= 8;
                }
                _ => match (ours, theirs) {
                    (Entry::Occupied(mut ours), std::collections::btree_map::Entry::Occupied(mut theirs)) => {
                        prop_assert_eq!(ours.get(), theirs.get());
                        *ours.get_mut() ^= 3;
                        *theirs.get_mut() ^= 3;
                        match what {
                            4 | 5 => prop_assert_eq!(ours.insert(value), theirs.insert(value)),
                            6 => prop_assert_eq!(ours.into_mut(), theirs.into_mut()),
                            _ => prop_assert_eq!(ours.remove(), theirs.remove()),
                        }
                    }
                    (Entry::Vacant(ours), std::collections::btree_map::Entry::Vacant(theirs)) => {
                        prop_assert_eq!(ours.key(), &theirs.key()[..]);
                        if what < 8 {
                            prop_assert_eq!(ours.insert(value), theirs.insert(value));
                        }
                    }
                    (ours, _) => panic!("{ours:?}"),
                },
            }
            if what == 9 {
                let (ours, theirs) = (map.first_entry(), model.first_entry());
                prop_assert_eq!(ours.map(|e| e.remove()), theirs.map(|e| e.remove()));
                let (ours, theirs) = (map.last_entry(), model.last_entry());
                prop_assert_eq!(ours.map(|mut e| e.insert(1)), theirs.map(|mut e| e.insert(1)));
            }
            map.verify().unwrap();
        }
        prop_assert!(map.iter().eq(model.iter().map(|(k, v)| (Key::from(k), v))));
    }

    #[test]
    fn comparisons_hashes_and_copies(a in any_model(), b in any_model(), seed: u64) {
        let (x, y) = (made_from(&a, seed), made_from(&b, seed + 1));
        let again = made_from(&a, seed + 2);
        prop_assert_eq!(&x, &again);
        prop_assert_eq!(x == y, a == b);
        prop_assert_eq!(x.cmp(&y), a.cmp(&b));
        prop_assert_eq!(x.partial_cmp(&y), a.partial_cmp(&b));
        let hasher = BuildHasherDefault::<DefaultHasher>::new();
        prop_assert_eq!(hasher.hash_one(&x), hasher.hash_one(&again));
        let mut copy = x.clone();
        copy.verify().unwrap();
        prop_assert_eq!(&copy, &x);
        copy.insert("one more", 0).unwrap();
        prop_assert!(copy != x);
        let mut extended = x.clone();
        extended.extend(b.iter().map(|(k, v)| (k, *v)));
        let mut both = a.clone();
        both.extend(b.clone());
        prop_assert!(extended.iter().eq(both.iter().map(|(k, v)| (Key::from(k), v))));
        let collected: QpMap<u32> = a.iter().chain(&b).map(|(k, v)| (k, *v)).collect();
        prop_assert_eq!(collected, extended);
    }

    #[test]
    fn sorted_builds_take_sorted_entries_only(keys in prop::collection::vec(any_key(), 0..12), sort in 0u8..4) {
        let mut keys = keys;
        if sort > 0 {
            keys.sort();
        }
        let built = QpMap::from_sorted_iter(keys.iter().enumerate().map(|(i, k)| (k, i)));
        match keys.windows(2).position(|pair| pair[0] > pair[1]) {
            Some(at) => prop_assert_eq!(built.unwrap_err(), sapwood::qp::Error::NotSorted { index: at + 1 }),
            None => {
                let model: BTreeMap<_, _> = keys.iter().enumerate().map(|(i, k)| (k, i)).collect();
                let map = built.unwrap();
                map.verify().unwrap();
                prop_assert!(map.iter().eq(model.iter().map(|(k, v)| (Key::from(k), v))));
            }
        }
    }
}

#[test]
fn shown_as_a_map_with_escaped_keys() {
    let map = QpMap::from([(&b"plain"[..], 1), (b"\0\xff\"\n", 2), (b"", 3)]);
    assert_eq!(
        format!("{map:?}"),
        r#"{"": 3, "\x00\xff\"\n": 2, "plain": 1}"#
    );
    assert_eq!(
        format!("{:?}", map.keys()),
        r#"["", "\x00\xff\"\n", "plain"]"#
    );
    assert_eq!(format!("{:?}", map.values()), "[3, 2, 1]");
    assert_eq!(
        format!("{:?}", map.iter().nth(1)),
        format!("{:?}", Some((b"\0\xff\"\n", &2)))
    );
    assert_eq!(format!("{:?}", QpMap::<u8>::new()), "{}");
    let mut map = map;
    assert_eq!(
        format!("{:?}", map.entry("plain").unwrap()),
        r#"Occupied("plain": 1)"#
    );
    assert_eq!(
        format!("{:?}", map.entry("absent").unwrap()),
        r#"Vacant("absent")"#
    );
}

#[test]
fn indexing_an_absent_key_panics_with_the_key() {
    let map = QpMap::from([("a", 1)]);
    assert_eq!((map["a"], map[&b"a"[..]], map[&"a".to_string()]), (1, 1, 1));
    let panicked = catch_unwind(AssertUnwindSafe(|| map["b\n"])).unwrap_err();
    assert_eq!(
        panicked.downcast_ref::<String>().unwrap(),
        "no entry for key \"b\\n\""
    );
}

#[test]
fn filling_with_a_key_that_is_too_long_panics() {
    let long = vec![0; 65_536];
    let panicked = catch_unwind(|| QpMap::from_iter([(long, 1)])).unwrap_err();
    assert!(
        panicked
            .downcast_ref::<String>()
            .unwrap()
            .contains("too long")
    );
}

#[test]
fn batched_lookups_agree_with_single_ones_in_small_and_large_maps() {
    for n in [
        0,
        1,
        15,
        16,
        17,
        1_000,
        if cfg!(miri) { 1_001 } else { 80_000 },
    ] {
        let key = |i: u32| format!("{:x}.name.{i}", i.wrapping_mul(2_654_435_761)).into_bytes();
        let mut map: QpMap<u32> = (0..n).map(|i| (key(i), i)).collect();
        map.insert("", 7).unwrap();
        if n > 50_000 {
            assert!(
                map.memory().arena.frontier > 2 << 20,
                "larger than the cache"
            );
        }
        let mut keys: Vec<Vec<u8>> = (0..n.min(3_000))
            .map(|i| key(i * (n / n.clamp(1, 3_000))))
            .collect();
        for i in 0..keys.len() {
            // Absent keys: longer, shorter, with other bytes.
            keys.push([&keys[i][..], b"x"].concat());
            keys.push(keys[i][..keys[i].len() / 2].to_vec());
            keys.push(key(n + i as u32));
        }
        keys.push(Vec::new());
        fastrand::Rng::with_seed(4).shuffle(&mut keys);
        let same = |found: Vec<Option<&u32>>| {
            assert!(
                found
                    .iter()
                    .zip(&keys)
                    .all(|(found, key)| *found == map.get(key))
            );
            assert!(found.contains(&Some(&7)) && (n < 2 || found.contains(&None)));
        };
        let mut found = vec![Some(&0); keys.len()];
        map.get_many(&keys, &mut found);
        same(found);
        let store = QpStore::<u32>::from_map(map.clone()).unwrap();
        let snapshot = store.snapshot();
        let mut found = vec![None; keys.len()];
        snapshot.get_many(&keys, &mut found);
        same(found);
        store.read(|view| {
            let mut found = vec![None; keys.len()];
            view.get_many(&keys, &mut found);
            same(found);
        });
        let txn = store.begin();
        let mut found = vec![None; keys.len()];
        txn.get_many(&keys, &mut found);
        same(found);
        map.get_many::<&[u8]>(&[], &mut []);
    }
}

#[test]
#[should_panic(expected = "`keys` and `out` differ in length")]
fn batched_lookups_need_as_many_places_as_keys() {
    QpMap::from([("a", 1)]).get_many(&["a", "b"], &mut [None]);
}

#[test]
fn the_closest_enclosing_zone_is_the_longest_prefix() {
    let zones = [
        "org",
        "example.org",
        "a.b.example.org",
        "xample.org",
        "com",
        "co\\.m.example.org",
    ];
    let map: QpMap<&str> = zones.iter().map(|z| (dns_name(z).unwrap(), *z)).collect();
    let closest = |name: &str| {
        map.longest_prefix(dns_name(name).unwrap())
            .map(|(_, zone)| *zone)
    };
    assert_eq!(closest("www.EXAMPLE.org"), Some("example.org"));
    assert_eq!(closest("example.org."), Some("example.org"));
    assert_eq!(closest("b.example.org"), Some("example.org"));
    assert_eq!(closest("x.a.b.example.org"), Some("a.b.example.org"));
    assert_eq!(closest("sample.org"), Some("org"));
    assert_eq!(closest("www.m.example.org"), Some("example.org"));
    assert_eq!(closest("net"), None);
    let chain = map.ancestors(dns_name("x.a.b.example.org").unwrap());
    assert!(
        chain
            .iter()
            .map(|(_, z)| **z)
            .eq(["org", "example.org", "a.b.example.org"])
    );
    let below: Vec<_> = map
        .prefix(dns_name("example.org").unwrap())
        .map(|(_, z)| *z)
        .collect();
    assert_eq!(
        below,
        ["example.org", "a.b.example.org", "co\\.m.example.org"]
    );
}

#[test]
fn ancestors_at_a_separator_end_where_components_end() {
    let names = [
        "",
        "org",
        "org.exam",
        "org.example",
        "org.example.",
        "org.example.w",
        "org.example.www",
    ];
    let map: QpMap<&str> = names.iter().map(|n| (n, *n)).collect();
    let found = |key: &str| -> Vec<&str> {
        map.ancestors_at(key, b'.')
            .into_iter()
            .map(|(_, v)| *v)
            .collect()
    };
    let key = reverse_components("www.example.org", b'.');
    assert_eq!(key, b"org.example.www");
    assert_eq!(
        found("org.example.www"),
        ["", "org", "org.example", "org.example.", "org.example.www"]
    );
    assert_eq!(
        found("org.example.ww"),
        ["", "org", "org.example", "org.example."]
    );
    assert_eq!(found("org.example"), ["", "org", "org.example"]);
    assert_eq!(found("org.examp"), ["", "org"]);
    assert_eq!(found("organ"), [""]);
    assert_eq!(map.ancestors("org.example.www").len(), 7);
}

// Which types may move to other threads, and lifetimes: checked at compile time.

fn send_and_sync<T: Send + Sync>() {}
fn send<T: Send>() {}

trait Unlike<Why> {
    const CHECKED: () = ();
}
struct IfSend;
struct IfSync;
impl<T: ?Sized> Unlike<()> for T {}
impl<T: ?Sized + Send> Unlike<IfSend> for T {}

trait UnlikeSync<Why> {
    const CHECKED: () = ();
}
impl<T: ?Sized> UnlikeSync<()> for T {}
impl<T: ?Sized + Sync> UnlikeSync<IfSync> for T {}

/// Does not compile for a type that is `Send`: two implementations fit.
macro_rules! not_send {
    ($($type:ty),* $(,)?) => { $(let () = <$type as Unlike<_>>::CHECKED;)* };
}
macro_rules! not_sync {
    ($($type:ty),* $(,)?) => { $(let () = <$type as UnlikeSync<_>>::CHECKED;)* };
}

#[test]
fn maps_go_where_their_values_may_go() {
    use std::cell::Cell;
    use std::rc::Rc;
    use std::sync::MutexGuard;
    send_and_sync::<QpMap<u64>>();
    send_and_sync::<QpFile<u64>>();
    send_and_sync::<QpStore<u64>>();
    send_and_sync::<QpSnapshot<String>>();
    send_and_sync::<sapwood::qp::IntoIter<u64>>();
    send_and_sync::<sapwood::qp::Iter<'_, u64>>();
    send::<QpMap<Cell<u8>>>();
    send::<Reader<QpStore<u64>>>();
    not_send!(QpMap<Rc<u8>>, QpMap<MutexGuard<'static, u8>>);
    not_sync!(QpMap<Cell<u8>>, QpMap<Rc<u8>>);
    not_send!(
        sapwood::qp::Iter<'static, Cell<u8>>,
        sapwood::qp::IterMut<'static, Rc<u8>>
    );
    not_send!(QpView<'static, u64>, QpTxn<'static, u64>);
    not_sync!(QpView<'static, u64>, Reader<QpStore<u64>>);
}

#[test]
fn what_is_borrowed_stays_on_its_thread() {
    use sapwood::lpm::{BitSnapshot, BitTxn, BitView, FibSnapshot, FibTxn, FibView, V4};
    use sapwood::maple::{MapleView, MapleWriter, Reservation};
    use sapwood::qp::{QpShared, QpSharedView};
    use sapwood::qsbr::Guard;
    send_and_sync::<QpSnapshot<u64>>();
    send_and_sync::<BitSnapshot<u64>>();
    send_and_sync::<FibSnapshot<V4, u64>>();
    not_send!(
        Guard<'static>,
        Pin<'static, QpStore<u64>>,
        Pin<'static, QpShared<u64>>
    );
    not_send!(BitView<'static, u64>, BitTxn<'static, u64>);
    not_send!(FibView<'static, V4, u64>, FibTxn<'static, V4, u64>);
    not_send!(MapleView<'static, u64>, QpSharedView<'static, u64>);
    not_send!(MapleWriter<'static, u64>, Reservation<'static, u64>);
    not_sync!(
        Guard<'static>,
        Pin<'static, QpStore<u64>>,
        FibView<'static, V4, u64>
    );
}

#[test]
fn maps_of_references_shorten_their_lifetimes() {
    fn shorter<'a>(map: QpMap<&'static str>, _: &'a str) -> QpMap<&'a str> {
        map
    }
    fn shorter_iter<'a>(
        iter: sapwood::qp::Iter<'a, &'static str>,
    ) -> sapwood::qp::Iter<'a, &'a str> {
        iter
    }
    let local = String::from("local");
    let mut map = shorter(QpMap::from([("a", "static")]), &local);
    map.insert("b", &local).unwrap();
    let fixed = QpMap::from([("a", "static")]);
    assert_eq!(shorter_iter(fixed.iter()).count() + 1, map.len());
}

/// Types are inferred from the map to the values and from the values to the map, as in `BTreeMap`.
#[test]
fn values_are_inferred_and_coerced() {
    let mut map = QpMap::new();
    map.insert("a", 1).unwrap();
    map.insert("b", 2u8).unwrap();
    assert_eq!(map.get("a"), Some(&1u8));
    let mut map: QpMap<u64> = QpMap::new();
    map.insert("a", "5".parse().unwrap()).unwrap();
    map.insert("b", Default::default()).unwrap();
    map.insert("c", 3u32.into()).unwrap();
    assert!(map.values().eq(&[5, 0, 3]));
    let mut map: QpMap<Option<Vec<u8>>> = QpMap::new();
    map.insert("a", None).unwrap();
    map.insert("b", Some((0..3).collect())).unwrap();
    assert_eq!(map["b"], Some(vec![0, 1, 2]));
    let mut map: QpMap<Box<dyn Fn(u32) -> u32>> = QpMap::new();
    map.insert("a", Box::new(|n| n + 1)).unwrap();
    assert_eq!(map["a"](1), 2);
    fn double(n: u32) -> u32 {
        2 * n
    }
    let shared: QpShared<fn(u32) -> u32> = QpShared::new().unwrap();
    shared.insert("a", double).unwrap();
    assert_eq!(shared.get("a").unwrap()(4), 8);
    let owned = String::from("text");
    let mut map: QpMap<&str> = QpMap::new();
    map.insert("a", &owned).unwrap();
    assert_eq!(map["a"], "text");
    let mut map: QpMap<[u8]> = QpMap::new();
    let bytes = vec![1u8, 2];
    map.insert("a", &bytes).unwrap();
    map.insert("b", &bytes[1..]).unwrap();
    map.insert("c", b"text").unwrap();
    map.insert("d", owned.as_bytes()).unwrap();
    assert!(map.values().map(<[u8]>::len).eq([2, 1, 4, 4]));
    // The value is changed in place, without changing its length.
    map.get_mut("c").unwrap().make_ascii_uppercase();
    map.values_mut().for_each(<[u8]>::reverse);
    assert_eq!(map.get("c"), Some(&b"TXET"[..]));
}
