//! Changes by user space (`ProgramMap::write_many`), compared with a `BTreeMap`, also while
//! programs write other keys.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sapwood_bpf::layout::Kind;
use sapwood_bpf::layout::program_map as k;
use sapwood_bpf::{
    BpfArena, Bytes, Error, ProgramMap, ProgramMapBuilder, StoredValue, Write, WriteError,
};
use sapwood_format::header;

use crate::asks::{Kernel, User};
use crate::kernel::Poke;
use crate::pair::{PARTS, with};
use crate::side::{EAGAIN, EINVAL, ENOENT, Side, What};
use crate::storm;
use crate::{ANY, can};

/// Keys of lengths around each border, of few letters, so that they share prefixes. No program of
/// the tests writes a key that begins like these.
fn key(rng: &mut fastrand::Rng, longest: usize) -> Vec<u8> {
    let lengths = [
        0, 1, 6, 7, 8, 30, 31, 32, 33, 62, 63, 64, 253, 254, 255, 256, 1000, 4096,
    ];
    let len = match rng.usize(..4) {
        0 => lengths[rng.usize(..lengths.len())],
        _ => rng.usize(..5),
    };
    let mut key = vec![b'0'];
    key.extend((0..len).map(|_| b'0' + rng.u8(..3)));
    // Some keys are longer than the map's longest.
    key.truncate(longest + rng.usize(..3) / 2);
    key
}

/// What a change does to the oracle, and its result.
fn expect<V: Clone + PartialEq>(
    oracle: &mut BTreeMap<Vec<u8>, V>,
    change: &Write<'_, V>,
    (longest, most): (usize, usize),
) -> Result<(), WriteError<V>> {
    let key = change.key();
    if key.len() > longest {
        return Err(WriteError::TooLong);
    }
    let there = oracle.get(key).cloned();
    let is_new = there.is_none();
    let new = match (change.clone(), there) {
        (Write::Remove(_), Some(_)) => {
            oracle.remove(key);
            return Ok(());
        }
        (Write::InsertNew(..), Some(_)) => return Err(WriteError::Exists),
        (Write::Remove(_) | Write::Replace(..) | Write::CompareExchange { .. }, None) => {
            return Err(WriteError::Absent);
        }
        (Write::CompareExchange { expected, .. }, Some(found)) if found != expected => {
            return Err(WriteError::Changed { found });
        }
        (Write::CompareExchange { value, .. }, _) => value,
        (Write::Insert(_, value) | Write::InsertNew(_, value) | Write::Replace(_, value), _) => {
            value
        }
    };
    if is_new && oracle.len() == most {
        return Err(WriteError::Full);
    }
    oracle.insert(key.to_vec(), new);
    Ok(())
}

/// Random changes, one to some hundred a call. `limits`: bytes of the longest key, and the entries
/// at which the map is full. Returns the oracle, and the number of changes that other writers or
/// want of memory prevented.
fn changes<V>(
    map: &ProgramMap<V>,
    rng: &mut fastrand::Rng,
    limits: (usize, usize),
    calls: usize,
    value: fn(u64) -> V,
) -> (BTreeMap<Vec<u8>, V>, usize)
where
    V: StoredValue + Clone + PartialEq + Debug,
{
    let mut oracle = BTreeMap::new();
    let (mut prevented, mut full, mut exchanged) = (0, 0, 0);
    let kinds = if map.value_bytes() == 8 { 6 } else { 5 };
    for call in 0..calls {
        let count = if call % 4 == 0 { 1 } else { rng.usize(1..900) };
        let keys: Vec<_> = (0..count).map(|_| key(rng, limits.0)).collect();
        let all: Vec<_> = keys
            .iter()
            .map(|key| {
                let new = value(rng.u64(..3));
                match rng.usize(..kinds) {
                    0 => Write::Insert(key, new),
                    1 | 2 => Write::InsertNew(key, new),
                    3 => Write::Replace(key, new),
                    4 => Write::Remove(key),
                    _ => Write::CompareExchange {
                        key,
                        expected: value(rng.u64(..3)),
                        value: new,
                    },
                }
            })
            .collect();
        let results = map.write_many(&all).unwrap();
        assert_eq!(results.len(), all.len());
        for (change, result) in all.iter().zip(results) {
            if matches!(result, Err(WriteError::NoMemory | WriteError::Busy)) {
                prevented += 1;
                continue;
            }
            let expected = expect(&mut oracle, change, limits);
            assert_eq!(result, expected, "{change:?}");
            full += usize::from(result == Err(WriteError::Full));
            let exchange = matches!(change, Write::CompareExchange { .. });
            exchanged += usize::from(exchange && result.is_ok());
        }
        for key in &keys {
            let there = oracle.get(key).cloned();
            assert_eq!(map.get(key).unwrap(), there, "{key:?}");
        }
    }
    assert_eq!(exchanged > 0, kinds == 6, "{exchanged}");
    assert_eq!(full > 0, limits.1 < 1000, "{full}");
    (oracle, prevented)
}

fn against_a_tree<V>(arena: &BpfArena, name: &str, longest: usize, value: fn(u64) -> V)
where
    V: StoredValue + Clone + PartialEq + Debug,
{
    against_a_tree_by(arena, name, longest, |builder| builder, value);
}

/// As [`against_a_tree`], of maps that `sized` makes of the builder.
fn against_a_tree_by<V>(
    arena: &BpfArena,
    name: &str,
    longest: usize,
    sized: fn(ProgramMapBuilder<V>) -> ProgramMapBuilder<V>,
    value: fn(u64) -> V,
) where
    V: StoredValue + Clone + PartialEq + Debug,
{
    for (i, parts) in PARTS.into_iter().enumerate() {
        let builder = ProgramMap::<V>::builder(arena, &format!("{name}{i}"));
        let map = with(sized(builder), parts)
            .max_entries(100)
            .longest_key(longest)
            .bytes(16 << 20)
            .user_writes()
            .build()
            .unwrap();
        let mut rng = fastrand::Rng::with_seed(i as u64);
        let service = map.spawn_service(Duration::from_micros(200)).unwrap();
        let (oracle, prevented) = changes(&map, &mut rng, (longest, 100), 40, value);
        service.stop().unwrap();
        assert_eq!(map.verify().unwrap().entries, oracle.len());
        map.for_each(|key, value| assert_eq!(oracle.get(key), Some(&value)))
            .unwrap();
        println!("{name} {parts:?}: {prevented} prevented");
        assert!(prevented < 1000, "{prevented}");
    }
}

#[test]
fn user_space_writes_as_a_tree_does() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(256 << 20).unwrap();
    against_a_tree::<u64>(&arena, "short", 254, |n| n);
    against_a_tree::<[u64; 4]>(&arena, "wide", 254, |n| [n, !n, n + 1, 7]);
    against_a_tree::<[u64; 8]>(&arena, "widest", 40, |n| [n; 8]);
}

/// The bytes of words.
fn bytes(words: &[u64]) -> Bytes {
    Bytes(words.iter().flat_map(|word| word.to_ne_bytes()).collect())
}

#[test]
fn user_space_writes_values_of_a_size_that_is_known_at_run_time() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(256 << 20).unwrap();
    against_a_tree(&arena, "usual", 254, |n| bytes(&[n]));
    let sized = |builder: ProgramMapBuilder<Bytes>| builder.value_bytes(24);
    against_a_tree_by(&arena, "three", 254, sized, |n| bytes(&[n, !n, 7]));
    let sized = |builder: ProgramMapBuilder<Bytes>| builder.value_bytes(64);
    against_a_tree_by(&arena, "eight", 40, sized, |n| bytes(&[n; 8]));
    let sized = |builder: ProgramMapBuilder<Bytes>| builder.value_bytes(72);
    against_a_tree_by(&arena, "nine", 254, sized, |n| {
        bytes(&[n, 2, 3, 4, 5, 6, 7, 8, !n])
    });
    let sized = |builder: ProgramMapBuilder<Bytes>| builder.value_bytes(4096);
    against_a_tree_by(&arena, "longest", 40, sized, |n| {
        bytes(&std::array::from_fn::<u64, 512, _>(|i| n + i as u64))
    });
    for size in [0, 7, 12, 4104, usize::MAX] {
        let builder = ProgramMap::<Bytes>::builder(&arena, "none").value_bytes(size);
        match builder.build() {
            Err(Error::Setting { what, why }) => {
                assert_eq!(
                    (what, why),
                    ("value_bytes", format!("8, 16 … 4096, not {size}"))
                );
            }
            other => panic!("{size}: {other:?}"),
        }
    }
}

#[test]
fn an_heir_that_does_not_know_the_values() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let poke = Poke::new(&arena);
    for (i, parts) in PARTS.into_iter().enumerate() {
        let name = format!("left{i}");
        let map = with(ProgramMap::<[u64; 3]>::builder(&arena, &name), parts);
        let map = map
            .max_entries(1000)
            .bytes(8 << 20)
            .user_writes()
            .build()
            .unwrap();
        assert_eq!(map.insert("a", [1, 2, 3]).unwrap(), Ok(()));
        map.leave();
        let map = ProgramMap::<Bytes>::adopt(&arena, &name).unwrap();
        assert_eq!((map.value_bytes(), map.len()), (24, 1));
        assert_eq!(map.get("a").unwrap(), Some(bytes(&[1, 2, 3])));
        assert_eq!(map.insert_new("b", bytes(&[4, 5, 6])).unwrap(), Ok(()));
        for wrong in [&[][..], &[4], &[4, 5, 6, 7]] {
            let refused = map.insert("a", bytes(wrong));
            let text = refused.unwrap_err().to_string();
            let len = wrong.len() * 8;
            assert!(text.contains(&format!("24 bytes, not {len}")), "{text}");
        }
        map.service().unwrap();
        let mut all = BTreeMap::new();
        map.for_each(|key, value| assert!(all.insert(key.to_vec(), value).is_none()))
            .unwrap();
        let two = [("a", bytes(&[1, 2, 3])), ("b", bytes(&[4, 5, 6]))];
        assert_eq!(all, two.map(|(key, value)| (key.into(), value)).into());
        map.leave();
        let map = ProgramMap::<[u64; 3]>::adopt(&arena, &name).unwrap();
        assert_eq!(map.get("b").unwrap(), Some([4, 5, 6]));
        assert_eq!(map.verify().unwrap().entries, 2);
        map.leave();
        let window = arena.window(&name, Kind::KernelQp).unwrap();
        let at = (window.at + header::root_at(header::VALUE_BYTES)) as u64;
        for wrong in [0, 7, 4104, u64::MAX] {
            poke.words(at, &[wrong]);
            let refused = ProgramMap::<Bytes>::adopt(&arena, &name);
            assert!(matches!(refused, Err(Error::Value { .. })), "{refused:?}");
        }
    }
}

#[test]
fn user_space_writes_long_keys() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(256 << 20).unwrap();
    against_a_tree::<u64>(&arena, "long", 4096, |n| n);
    against_a_tree::<[u64; 3]>(&arena, "longer", 4096, |n| [n, 1, !n]);
}

#[test]
fn user_space_writes_while_programs_write() {
    if !can() {
        return;
    }
    for parts in PARTS {
        let arena = BpfArena::create(64 << 20).unwrap();
        let map = with(ProgramMap::<[u64; 4]>::builder(&arena, "both"), parts)
            .max_entries(40_000)
            .bytes(32 << 20)
            .user_writes()
            .build()
            .unwrap();
        let window = map.window().number;
        let service = map.spawn_service(Duration::from_micros(200)).unwrap();
        let ends = AtomicBool::new(false);
        let (oracle, prevented) = std::thread::scope(|scope| {
            let programs = scope.spawn(|| {
                let Kernel(programs) = Kernel::new(&arena);
                let mut counts = storm::Counts::default();
                let mut seed = 0;
                while !ends.load(Ordering::Relaxed) || seed < 50 {
                    seed += 1;
                    counts.add(storm::run(&programs, window, seed, 60));
                }
                counts
            });
            let mut rng = fastrand::Rng::with_seed(5);
            let value = |n: u64| [n, n, !n, 9];
            let done = changes(&map, &mut rng, (254, 40_000), 40, value);
            ends.store(true, Ordering::Relaxed);
            let counts = programs.join().unwrap();
            assert!(counts.done > 0 && counts.found > 0, "{counts:?}");
            assert_eq!(
                (counts.torn, counts.other, counts.full),
                (0, 0, 0),
                "{counts:?}"
            );
            done
        });
        service.stop().unwrap();
        let mut ours = 0;
        map.for_each(|key, value| {
            if key.first().is_none_or(|first| *first == b'0') {
                assert_eq!(oracle.get(key), Some(&value), "{key:?}");
                ours += 1;
            }
        })
        .unwrap();
        assert_eq!(ours, oracle.len());
        let shape = map.verify().unwrap();
        assert!(shape.entries > ours && shape.refused == 0, "{shape:?}");
        println!("{parts:?}: {prevented} prevented, {shape:?}");
    }
}

#[test]
fn one_refusal_leaves_the_other_changes_of_a_run() {
    if !can() {
        return;
    }
    for parts in PARTS {
        let arena = BpfArena::create(32 << 20).unwrap();
        let map = with(ProgramMap::<u64>::builder(&arena, "small"), parts)
            .bytes(1 << 20)
            .grow(true)
            .max_entries(60_000)
            .index_buckets(1000)
            .user_writes()
            .build()
            .unwrap();
        let mut oracle = BTreeMap::new();
        // The map fills up; each insertion stands between changes that take no memory.
        let (mut without, mut added) = (0, 0);
        for round in 0..1000u64 {
            let keys: Vec<Vec<u8>> = (0..50)
                .map(|i| format!("{:0250}", (round * 50 + i) ^ 0x155).into_bytes())
                .collect();
            let first = b"0".as_slice();
            let changes: Vec<_> = (keys.iter())
                .flat_map(|key| [Write::Insert(key, round), Write::Remove(first)])
                .collect();
            let results = map.write_many(&changes).unwrap();
            for (change, result) in changes.iter().zip(results) {
                match result {
                    Err(WriteError::NoMemory | WriteError::NoSlot) => {
                        assert!(
                            matches!(change, Write::Insert(..)),
                            "{change:?}: {result:?}"
                        );
                        without += 1;
                    }
                    result => {
                        assert_eq!(result, expect(&mut oracle, change, (254, 60_000)));
                        added += usize::from(result.is_ok());
                    }
                }
            }
            if without > 100 {
                break;
            }
        }
        println!("{parts:?}: {added} added, {without} found no memory");
        assert!(added > 500 && without > 100, "{added} {without}");
        let some: Vec<_> = oracle.keys().cloned().collect();
        let removals: Vec<_> = some.iter().map(|key| Write::Remove(key)).collect();
        for result in map.write_many(&removals[..200]).unwrap() {
            assert_eq!(result, Ok(()));
        }
        for key in &some[..200] {
            oracle.remove(key);
        }
        assert_eq!(map.verify().unwrap().entries, oracle.len());
        map.for_each(|key, value| assert_eq!(oracle.get(key), Some(&value)))
            .unwrap();
    }
}

#[test]
fn a_lock_that_stays_refuses_only_what_needs_it() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(32 << 20).unwrap();
    let poke = Poke::new(&arena);
    for parts in PARTS.into_iter().filter(|(_, trie)| *trie) {
        let map = with(ProgramMap::<u64>::builder(&arena, "held"), parts)
            .max_entries(1000)
            .bytes(4 << 20)
            .build()
            .unwrap();
        assert_eq!(map.insert("a", 1).unwrap(), Ok(()));
        let lock = (map.window().at + k::ROOT_LOCK) as u64;
        poke.words(lock, &[1 << 26]);
        let changes = [
            Write::InsertNew(b"b", 2),
            Write::Replace(b"a", 3),
            Write::Remove(b"a"),
            Write::Remove(b"c"),
        ];
        let refused = [
            Err(WriteError::Busy),
            // A value of one word is replaced without a lock.
            Ok(()),
            Err(WriteError::Busy),
            Err(WriteError::Absent),
        ];
        assert_eq!(map.write_many(&changes).unwrap(), refused);
        let drops: u64 = map.drops().iter().map(|drops| drops.busy).sum();
        assert_eq!(drops, 2);
        poke.words(lock, &[0]);
        let done = [Ok(()), Ok(()), Ok(()), Err(WriteError::Absent)];
        assert_eq!(map.write_many(&changes).unwrap(), done);
        assert_eq!(map.get("b").unwrap(), Some(2));
        assert_eq!(map.verify().unwrap().entries, 1);
    }
}

#[test]
fn a_program_and_user_space_see_each_other() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let mut side = Kernel::new(&arena);
    let map = ProgramMap::<u64>::builder(&arena, "seen").bytes(16 << 20);
    let map = map.max_entries(10_000).build().unwrap();
    let window = map.window().number;
    assert_eq!(map.insert("a", 1).unwrap(), Ok(()));
    let (result, _) = side.ask(What::Insert, window, ANY, b"a", &[2]);
    assert_eq!(result, 0);
    let found = Err(WriteError::Changed { found: 2 });
    assert_eq!(map.compare_exchange("a", 1, 3).unwrap(), found);
    assert_eq!(map.compare_exchange("a", 2, 3).unwrap(), Ok(()));
    assert_eq!(map.insert_new("a", 4).unwrap(), Err(WriteError::Exists));
    assert_eq!(map.replace("b", 4).unwrap(), Err(WriteError::Absent));
    assert_eq!(map.get("a").unwrap(), Some(3));
    let (result, _) = side.ask(What::Remove, window, 0, b"a", &[]);
    assert_eq!(result, 0);
    assert_eq!(map.remove("a").unwrap(), Err(WriteError::Absent));
    assert_eq!(
        map.compare_exchange("a", 3, 4).unwrap(),
        Err(WriteError::Absent)
    );
    let long = vec![1; 255];
    assert_eq!(map.insert(&long, 4).unwrap(), Err(WriteError::TooLong));
    assert!(map.is_empty());
    assert_eq!(map.write_many(&[]).unwrap(), []);
}

#[test]
fn a_map_that_took_all_of_the_arena_has_no_room_for_changes() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(32 << 20).unwrap();
    let map = ProgramMap::<u64>::builder(&arena, "all").build().unwrap();
    let refused = map.insert("a", 1);
    assert!(matches!(refused, Err(Error::NoRoom { .. })), "{refused:?}");
    drop(map);
    let map = ProgramMap::<[u64; 2]>::builder(&arena, "half");
    let map = map.user_writes().build().unwrap();
    assert_eq!(map.insert("a", [1, 2]).unwrap(), Ok(()));
    let refused = map.compare_exchange("a", [1, 2], [3, 4]);
    assert!(matches!(refused, Err(Error::Setting { .. })), "{refused:?}");
    assert_eq!(map.get("a").unwrap(), Some([1, 2]));
}

fn exchanges(arena: &BpfArena, side: &mut impl Side, name: &str) {
    for (i, parts) in PARTS.into_iter().enumerate() {
        let builder = ProgramMap::<u64>::builder(arena, &format!("{name}{i}"));
        let map = with(builder, parts)
            .max_entries(1000)
            .bytes(8 << 20)
            .build()
            .unwrap();
        let window = map.window().number;
        let mut ask = |what, flags, value| side.ask(what, window, flags, b"key", &[value]);
        assert_eq!(ask(What::CompareExchange, 0, 1).0, ENOENT);
        let (place, value) = ask(What::GetOrInsert, 0, 5);
        assert!(place > 0 && value[0] == 5, "{place}");
        let (again, value) = ask(What::GetOrInsert, 0, 6);
        assert_eq!((again, value[0]), (place, 5));
        assert_eq!(ask(What::CompareExchange, 4, 7).0, EAGAIN);
        assert_eq!(map.get("key").unwrap(), Some(5));
        assert_eq!(ask(What::CompareExchange, 5, 7).0, 0);
        assert_eq!(map.get("key").unwrap(), Some(7));
        assert_eq!(ask(What::Remove, 0, 0).0, 0);
        assert_eq!(ask(What::CompareExchange, 7, 8).0, ENOENT);
        assert_eq!(map.verify().unwrap().entries, 0);
    }
    // Values of two words are not exchanged by one instruction.
    let map = ProgramMap::<[u64; 2]>::builder(arena, &format!("{name}wide"));
    let map = map.bytes(32 << 20).build().unwrap();
    let window = map.window().number;
    let (result, _) = side.ask(What::GetOrInsert, window, 0, b"key", &[1]);
    assert!(result > 0, "{result}");
    let (result, _) = side.ask(What::CompareExchange, window, 1, b"key", &[2]);
    assert_eq!(result, EINVAL);
    assert_eq!(map.get("key").unwrap(), Some([1, 0]));
}

#[test]
fn programs_exchange_values_and_insert_what_is_absent() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(128 << 20).unwrap();
    exchanges(&arena, &mut Kernel::new(&arena), "kernel");
    match User::new(&arena, "gcc") {
        Some(mut side) => exchanges(&arena, &mut side, "user"),
        None => println!("skipped: no gcc"),
    }
}

#[test]
fn an_heir_writes_where_its_predecessor_wrote() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(32 << 20).unwrap();
    let map = ProgramMap::<u64>::builder(&arena, "left").user_writes();
    let map = map.build().unwrap();
    assert_eq!(map.insert("a", 1).unwrap(), Ok(()));
    map.leave();
    let map = ProgramMap::<u64>::adopt(&arena, "left").unwrap();
    assert_eq!(map.compare_exchange("a", 1, 2).unwrap(), Ok(()));
    assert_eq!(map.insert("b", 3).unwrap(), Ok(()));
    assert_eq!(map.verify().unwrap().entries, 2);
    assert_eq!(arena.windows().unwrap().len(), 2);
    drop(map);
    assert_eq!(arena.windows().unwrap().len(), 0);
}
