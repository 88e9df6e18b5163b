//! Code of the user that lies: keys that answer otherwise when they are asked again, values whose
//! comparison and hash change, iterators that lie about their length and order, bounds that move.
//! Whatever they say, a map stays whole, and a key is asked once for each operation.

use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::ops::{Bound, RangeBounds};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use sapwood::lpm::ipnet::Ipv4Net;
use sapwood::lpm::{AsBits, BitFib, BitPrefix, BitString, Ipv4Fib};
use sapwood::maple::MapleMap;
use sapwood::qp::{Entry, PointMap, QpMap, QpShared, QpStore};
use sapwood::route::{Group, Plain, RouteCache, RouteTable};

/// A key with other bytes each time that it is asked for them.
struct Liar {
    answers: Vec<Vec<u8>>,
    asked: AtomicUsize,
}

impl AsRef<[u8]> for Liar {
    fn as_ref(&self) -> &[u8] {
        let turn = self.asked.fetch_add(1, Relaxed);
        &self.answers[turn % self.answers.len()]
    }
}

/// Keys of all lengths, some of which are in the maps of these tests, some too long.
fn bytes(rng: &mut fastrand::Rng) -> Vec<u8> {
    match rng.u8(..12) {
        0 => Vec::new(),
        1 => vec![b'k'; 70_000],
        2 => vec![b'k'; 65_535],
        3..=5 => format!("k{:03}", rng.u8(..)).into_bytes(),
        6..=9 => format!("k{:02}", rng.u8(..100)).into_bytes(),
        _ => (0..rng.usize(..20)).map(|_| rng.u8(..3) * 100).collect(),
    }
}

fn liar(rng: &mut fastrand::Rng) -> Liar {
    Liar {
        answers: (0..rng.usize(2..4)).map(|_| bytes(rng)).collect(),
        asked: AtomicUsize::new(0),
    }
}

const ROUNDS: u64 = if cfg!(miri) { 30 } else { 3_000 };

/// Runs an operation with a liar and checks that it asked once. `None` is an operation that need
/// not ask, as the map is empty.
fn once<R>(rng: &mut fastrand::Rng, what: &str, call: impl FnOnce(&Liar) -> R) -> R {
    let key = liar(rng);
    let answer = call(&key);
    let asked = key.asked.load(Relaxed);
    assert!(asked <= 1, "{what} asked {asked} times");
    answer
}

#[test]
fn an_owned_map_asks_a_key_once_and_stays_whole() {
    for index in [false, true] {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut map: QpMap<u64> = QpMap::new();
        if index {
            map = QpMap::with_index();
        }
        for round in 0..ROUNDS {
            let rng = &mut rng;
            match rng.u8(..20) {
                0..=3 => drop(once(rng, "insert", |key| map.insert(key, round))),
                4 => drop(once(rng, "remove", |key| map.remove(key))),
                5 => drop(once(rng, "remove_entry", |key| map.remove_entry(key))),
                6 if round % 50 == 0 => {
                    _ = once(rng, "remove_prefix", |key| map.remove_prefix(key))
                }
                7 => once(rng, "get", |key| _ = map.get(key)),
                8 => once(rng, "get_mut", |key| _ = map.get_mut(key)),
                9 => once(rng, "get_key_value", |key| _ = map.get_key_value(key)),
                10 => once(rng, "predecessor", |key| _ = map.predecessor(key)),
                11 => once(rng, "successor", |key| _ = map.successor(key)),
                12 => once(rng, "longest_prefix", |key| _ = map.longest_prefix(key)),
                13 => once(rng, "prefix", |key| _ = map.prefix(key).count()),
                14 => once(rng, "closest", |key| {
                    _ = map.closest(key, b'.', |_, _| false)
                }),
                15 => {
                    let answer = catch_unwind(AssertUnwindSafe(|| {
                        once(rng, "index", |key| _ = map[key]);
                    }));
                    if let Err(panic) = answer {
                        let text = panic.downcast_ref::<String>().expect("a message");
                        assert!(text.starts_with("no entry for key"), "{text}");
                    }
                }
                16 if round % 50 == 0 => {
                    let rest = once(rng, "split_off", |key| map.split_off(key)).unwrap();
                    rest.verify().unwrap();
                    let mut rest = rest;
                    map.append(&mut rest).unwrap();
                }
                _ => entry(rng, &mut map, round),
            }
            if round % 16 == 0 {
                map.verify().unwrap();
            }
        }
        map.verify().unwrap();
        assert_eq!(map.iter().count(), map.len());
    }
}

/// Everything that an entry offers.
fn entry(rng: &mut fastrand::Rng, map: &mut QpMap<u64>, round: u64) {
    let key = liar(rng);
    let first = key.answers[0].clone();
    let was = map.get(&first).copied();
    let Ok(entry) = map.entry(&key) else {
        assert!(first.len() > 65_535);
        return;
    };
    assert_eq!(entry.key(), first);
    assert_eq!(matches!(entry, Entry::Occupied(_)), was.is_some());
    match (entry, rng.u8(..4)) {
        (Entry::Occupied(entry), 0 | 1) => assert_eq!(Some(entry.remove()), was),
        (Entry::Occupied(mut entry), 2) => assert_eq!(Some(entry.insert(round)), was),
        (Entry::Vacant(entry), 0) => assert_eq!(*entry.try_insert(round).unwrap(), round),
        (Entry::Vacant(entry), 1) => drop(format!("{entry:?}")),
        (entry, _) => {
            _ = *entry
                .and_modify(|value| *value += 1)
                .or_insert_with_key(|key| {
                    assert_eq!(key, first);
                    round
                })
        }
    }
    assert_eq!(key.asked.load(Relaxed), 1);
}

#[test]
fn a_store_asks_a_key_once_and_stays_whole() {
    let mut rng = fastrand::Rng::with_seed(2);
    let store = QpStore::new().unwrap();
    for round in 0..ROUNDS / 10 {
        let mut txn = store.begin();
        for _ in 0..rng.u8(..12) {
            let rng = &mut rng;
            match rng.u8(..8) {
                0..=3 => drop(once(rng, "insert", |key| txn.insert(key, round))),
                4 => drop(once(rng, "remove", |key| txn.remove(key))),
                5 if round % 20 == 0 => {
                    drop(once(rng, "remove_prefix", |key| txn.remove_prefix(key)));
                }
                6 => once(rng, "get", |key| _ = txn.get(key)),
                _ => once(rng, "successor", |key| _ = txn.successor(key)),
            }
        }
        txn.commit();
        store.verify().unwrap();
    }
    let snapshot = store.snapshot();
    assert_eq!(snapshot.iter().count(), snapshot.len());
}

/// A value that says by chance whether it equals another.
#[derive(Clone)]
struct Coin(#[allow(dead_code, reason = "values of one size, that differ")] u64);

thread_local!(static COIN: Cell<u64> = const { Cell::new(1) });

fn toss() -> u64 {
    let mut rng = fastrand::Rng::with_seed(COIN.get());
    COIN.set(rng.u64(..));
    COIN.get()
}

impl PartialEq for Coin {
    fn eq(&self, _: &Coin) -> bool {
        toss() % 2 == 0
    }
}

impl Eq for Coin {}

impl Hash for Coin {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (toss() % 3).hash(state);
    }
}

impl PartialOrd for Coin {
    fn partial_cmp(&self, other: &Coin) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Coin {
    fn cmp(&self, _: &Coin) -> std::cmp::Ordering {
        [-1, 0, 1i8][toss() as usize % 3].cmp(&0)
    }
}

/// Every method of a shared map.
macro_rules! shared {
    ($map:expr) => {{
        let mut rng = fastrand::Rng::with_seed(3);
        let map = $map;
        for round in 0..ROUNDS {
            let (rng, new) = (&mut rng, Coin(round));
            match rng.u8(..12) {
                0..=2 => drop(once(rng, "insert", |key| map.insert(key, new))),
                3 => drop(once(rng, "insert_new", |key| map.insert_new(key, new))),
                4 => drop(once(rng, "replace", |key| map.replace(key, new))),
                5 => drop(once(rng, "compare_exchange", |key| {
                    map.compare_exchange(key, &Coin(0), new)
                })),
                6 => drop(once(rng, "remove", |key| map.remove(key))),
                7 => drop(once(rng, "remove_if", |key| {
                    map.remove_if(key, |value| value == &new)
                })),
                8 => drop(once(rng, "update", |key| map.update(key, |_| Coin(1)))),
                9 => drop(once(rng, "get_or_insert_with", |key| {
                    map.get_or_insert_with(key, || new)
                })),
                10 => drop(once(rng, "get", |key| map.get(key))),
                _ if round % 50 == 0 => _ = map.retain(|_, value| value == &new).unwrap(),
                _ => once(rng, "contains_key", |key| _ = map.contains_key(key)),
            }
            if round % 16 == 0 {
                map.verify().unwrap();
            }
        }
        map.verify().unwrap();
        map.read(|view| assert_eq!(view.iter().count(), view.len()));
    }};
}

#[test]
fn shared_maps_ask_a_key_once_and_stay_whole() {
    shared!(QpShared::new().unwrap());
    shared!(QpShared::builder().with_index().build().unwrap());
    shared!(PointMap::new().unwrap());
}

/// Many keys at once: what a batch fetches is what it looks up and inserts.
#[test]
fn batches_ask_a_key_once_and_stay_whole() {
    let n = if cfg!(miri) { 100 } else { 40_000u64 };
    let name = |i: u64| format!("{:08}.example", i * 7919 % 100_000_000).into_bytes();
    let entries: Vec<_> = (0..n).map(|i| (name(i), i)).collect();
    let mut rng = fastrand::Rng::with_seed(4);
    for index in [false, true] {
        let mut map = if index {
            QpMap::with_index()
        } else {
            QpMap::new()
        };
        map.insert_many(entries.iter().cloned()).unwrap();
        for round in 0..20 {
            let mut liars: Vec<Liar> = (0..50).map(|_| liar(&mut rng)).collect();
            liars.extend((0..50).map(|i| Liar {
                answers: vec![name(i), name(i + 1), vec![b'k'; 70_000]],
                asked: AtomicUsize::new(0),
            }));
            let mut found = vec![None; liars.len()];
            map.get_many(&liars, &mut found);
            assert!(liars.iter().all(|key| key.asked.load(Relaxed) == 1));
            for (i, found) in found[50..].iter().enumerate() {
                assert_eq!(*found, Some(&(i as u64)).filter(|_| (i as u64) < n));
            }
            match round % 3 {
                0 => drop(map.insert_many(liars.into_iter().map(|key| (key, 7)))),
                1 => drop(map.remove_many(&liars)),
                _ => {}
            }
            map.insert_many(entries[..60.min(entries.len())].iter().cloned())
                .unwrap();
            map.verify().unwrap();
        }
    }
}

/// An iterator that lies about how many items come.
struct Boaster<I>(I, (usize, Option<usize>));

impl<I: Iterator> Iterator for Boaster<I> {
    type Item = I::Item;
    fn next(&mut self) -> Option<I::Item> {
        self.0.next()
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.1
    }
}

impl<I: Iterator> ExactSizeIterator for Boaster<I> {
    fn len(&self) -> usize {
        self.1.0
    }
}

#[test]
fn iterators_that_lie_about_length_and_order_leave_maps_whole() {
    let lies = [(0, Some(0)), (0, None), (3, Some(1)), (1000, Some(1000))];
    for lie in lies {
        let mut rng = fastrand::Rng::with_seed(5);
        let keys: Vec<Vec<u8>> = (0..40).map(|_| bytes(&mut rng)).collect();
        let short = |key: &&Vec<u8>| key.len() < 70_000;
        let all = || Boaster(keys.iter().filter(short).map(|key| (key, 1u64)), lie);
        let mut map = QpMap::new();
        map.extend(all());
        map.verify().unwrap();
        let len = map.len();
        assert_eq!(QpMap::from_iter(all()).len(), len);
        // Not in order: an error, and nothing is left.
        assert!(QpMap::from_sorted_iter(all()).is_err());
        assert!(QpShared::builder().build_sorted(all()).is_err());
        assert!(QpStore::builder().build_sorted(all()).is_err());
        let points = PointMap::new().unwrap();
        for (key, value) in all() {
            points.insert(key, value).unwrap();
        }
        points.verify().unwrap();
        assert_eq!(points.len(), len);
        let sorted = QpShared::builder()
            .build_sorted(Boaster(map.iter().map(|(k, v)| (k, *v)), lie))
            .unwrap();
        sorted.verify().unwrap();
        assert_eq!(sorted.len(), len);

        let nets = (0..20u32).map(|i| {
            let net = Ipv4Net::new((i * 77_777_777).into(), (i % 33) as u8).unwrap();
            (net.trunc(), Coin(0))
        });
        let mut fib = Ipv4Fib::builder().root_bits(6).build().unwrap();
        fib.extend(Boaster(nets.clone(), lie));
        fib.verify().unwrap();
        let built = Ipv4Fib::builder()
            .root_bits(6)
            .build_from(Boaster(nets, lie));
        built.unwrap().verify().unwrap();

        let ranges = (0..20u64).map(|i| (i * 13 % 7 * 10..=i * 13 % 7 * 10 + i, i));
        let ranges = MapleMap::from_iter(Boaster(ranges, lie));
        ranges.verify().unwrap();
    }
}

/// Bounds that are others each time.
struct Moving(Cell<usize>, [Vec<u8>; 3]);

impl Moving {
    fn bound(&self) -> Bound<&[u8]> {
        let turn = self.0.get();
        self.0.set(turn + 1);
        match turn % 4 {
            0 => Bound::Included(&self.1[turn % 3]),
            1 => Bound::Excluded(&self.1[turn % 3]),
            2 => Bound::Unbounded,
            _ => Bound::Included(&self.1[(turn + 1) % 3]),
        }
    }
}

impl RangeBounds<[u8]> for Moving {
    fn start_bound(&self) -> Bound<&[u8]> {
        self.bound()
    }
    fn end_bound(&self) -> Bound<&[u8]> {
        self.bound()
    }
}

#[test]
fn bounds_are_asked_once_each() {
    let mut map: QpMap<u32> = (0..100u32).map(|i| (format!("k{i:02}"), i)).collect();
    let shared = QpShared::new().unwrap();
    for (key, value) in &map {
        shared.insert(key, *value).unwrap();
    }
    let mut rng = fastrand::Rng::with_seed(6);
    for start in 0..100 {
        let keys = [bytes(&mut rng), bytes(&mut rng), bytes(&mut rng)];
        let moving = || Moving(Cell::new(start), keys.clone());
        let bounds = moving();
        let (low, high) = (bounds.bound(), bounds.bound());
        let inside = |key: &[u8]| RangeBounds::<[u8]>::contains::<[u8]>(&(low, high), key);
        let expected: Vec<u32> = map
            .iter()
            .filter(|(k, _)| inside(k))
            .map(|(_, v)| *v)
            .collect();
        let found: Vec<u32> = map.range::<[u8], _>(moving()).map(|(_, v)| *v).collect();
        assert_eq!(found, expected);
        let found: Vec<u32> = map
            .range_mut::<[u8], _>(moving())
            .map(|(_, v)| *v)
            .collect();
        assert_eq!(found, expected);
        let pin = shared.pin();
        let found = pin.view().range::<[u8], _>(moving()).map(|(_, v)| *v);
        assert_eq!(found.collect::<Vec<u32>>(), expected);
    }
}

#[test]
fn tables_of_values_that_lie_about_equality_stay_whole() {
    let net = |rng: &mut fastrand::Rng| {
        Ipv4Net::new((rng.u32(..) & 0xf0f0_0000).into(), rng.u8(..=32))
            .unwrap()
            .trunc()
    };
    let mut rng = fastrand::Rng::with_seed(7);
    let fib = Ipv4Fib::builder().root_bits(6).build().unwrap();
    for round in 0..ROUNDS / 3 {
        match rng.u8(..5) {
            0..=2 => drop(fib.insert(net(&mut rng), Coin(round)).unwrap()),
            3 => drop(fib.remove(net(&mut rng)).unwrap()),
            _ => {
                let mut txn = fib.begin();
                for _ in 0..4 {
                    txn.insert(net(&mut rng), Coin(round)).unwrap();
                }
                if rng.bool() {
                    txn.commit();
                }
            }
        }
        if round % 16 == 0 {
            fib.verify().unwrap();
        }
    }
    fib.compact().unwrap();
    fib.verify().unwrap();

    let routes = RouteTable::builder().root_bits(6).build().unwrap();
    for round in 0..ROUNDS / 3 {
        let members = || [(Coin(round), 1), (Coin(round + 1), 2)];
        match rng.u8(..6) {
            0..=2 => {
                let group = Group::new(members());
                drop(routes.insert(net(&mut rng).into(), group).unwrap());
            }
            3 => drop(routes.remove(net(&mut rng).into()).unwrap()),
            4 => _ = routes.set_weight(&Coin(round), 3),
            _ => _ = routes.lookup("240.16.1.1".parse().unwrap(), round),
        }
        if round % 16 == 0 {
            routes.verify().unwrap();
        }
    }
    routes.verify().unwrap();

    let ranges = MapleMap::new();
    for round in 0..ROUNDS / 3 {
        let start = rng.u64(..100);
        drop(ranges.store_coalescing(start..=start + rng.u64(..9), Coin(round)));
        if round % 16 == 0 {
            ranges.verify().unwrap();
        }
    }
    ranges.verify().unwrap();
}

/// A bit string that is another each time.
struct Flicker(Cell<usize>, [BitString; 2]);

impl AsBits for Flicker {
    fn with_bits<R>(&self, f: impl FnOnce(BitPrefix<'_>) -> R) -> R {
        let turn = self.0.get();
        self.0.set(turn + 1);
        f(self.1[turn % 2].as_prefix())
    }
}

#[test]
fn a_table_of_bit_strings_asks_a_prefix_once() {
    let mut rng = fastrand::Rng::with_seed(8);
    let fib = BitFib::new().unwrap();
    for round in 0..ROUNDS / 3 {
        let mut string = || BitString::from_number(rng.u128(..1 << 12), rng.usize(12..20)).unwrap();
        let prefix = Flicker(Cell::new(0), [string(), string()]);
        match rng.u8(..4) {
            0 | 1 => drop(fib.insert(&prefix, round).unwrap()),
            2 => drop(fib.remove(&prefix).unwrap()),
            _ => _ = fib.get(&prefix),
        }
        assert_eq!(prefix.0.get(), 1);
        if round % 16 == 0 {
            fib.verify().unwrap();
        }
    }
}

/// A key of a cache with other words each time.
#[derive(Clone, Copy)]
struct Words(u64);

impl Plain for Words {
    type Words = [u64; 1];
    fn to_words(self) -> [u64; 1] {
        [toss() % 50 + self.0]
    }
    fn from_words([word]: [u64; 1]) -> Self {
        Words(word)
    }
}

#[test]
fn a_cache_of_keys_that_lie_stays_whole() {
    for single_flight in [false, true] {
        let cache: RouteCache<Words, u64> = RouteCache::builder()
            .capacity(20)
            .single_flight(single_flight)
            .build();
        for round in 0..ROUNDS {
            let (key, now) = (Words(round % 5), round * 1_000_000);
            let hash = cache.hash(&key);
            match round % 5 {
                0 => _ = cache.get_or_resolve(&key, hash, now, |_| Ok::<_, ()>(1)),
                1 => cache.insert(&key, hash, now, 2),
                2 => _ = cache.get(&key, now),
                3 => _ = cache.invalidate(&key),
                _ => _ = cache.sweep(now, 16),
            }
            if round % 16 == 0 {
                cache.verify().unwrap();
            }
        }
        cache.verify().unwrap();
    }
}
