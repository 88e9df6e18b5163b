//! Values of up to 4,096 bytes, which are replaced as a whole.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sapwood_bpf::{BpfArena, Bytes, Error, ProgramMap, ProgramMapBuilder, Programs, Words};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::asks::{ANY, EEXIST, EINVAL, ENOENT, ENOMEM, EXIST, NOEXIST, Side, User, What};
use crate::kernel::{Answers, load};
use crate::side::ASK;
use crate::storm::pin;
use crate::{PARTS, can, key, with};

const VALUES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/values.bpf.o"));

/// The programs of this test.
pub struct Kernel(pub Programs);

impl Side for Kernel {
    fn exchange(&mut self, question: &[u8; ASK]) -> [u8; ASK] {
        let mut answer = *question;
        self.0.answer("sw_ask_values", &mut answer);
        answer
    }
}

pub fn kernel(arena: &BpfArena) -> Kernel {
    Kernel(load(arena, VALUES))
}

pub fn sides(arena: &BpfArena) -> Vec<Box<dyn Side>> {
    let mut sides: Vec<Box<dyn Side>> = vec![Box::new(kernel(arena))];
    match User::new(arena, "gcc") {
        Some(user) => sides.push(Box::new(user)),
        None => println!("skipped: no gcc"),
    }
    sides
}

pub fn bytes(words: &[u64]) -> Bytes {
    Bytes(words.iter().flat_map(|word| word.to_ne_bytes()).collect())
}

pub fn words(Bytes(value): Bytes) -> Vec<u64> {
    let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap());
    value.chunks(8).map(word).collect()
}

/// Takes steps of service until programs can have memory again.
fn service(map: &ProgramMap<Bytes>) {
    map.service().unwrap();
    std::thread::sleep(Duration::from_micros(200));
}

/// The accounts add up, and nothing but the entries is in use.
pub fn check(map: &ProgramMap<Bytes>, entries: usize) {
    let shape = map.verify().unwrap();
    assert_eq!((shape.entries, shape.refused), (entries, 0));
    let m = map.memory().unwrap();
    assert_eq!(m.live, m.branches + m.clusters + m.leaves);
    let all = m.fixed + m.offered + m.live + m.retired + m.waiting + m.free;
    assert_eq!(all, m.frontier);
}

/// Random operations on a map with long values, and on a tree.
fn against_a_tree(
    map: &ProgramMap<Bytes>,
    side: &mut (impl Side + ?Sized),
    source: &Words,
    rng: &mut fastrand::Rng,
) {
    let (window, count) = (map.window().number, map.value_bytes() / 8);
    let mut tree: BTreeMap<Vec<u8>, Vec<u64>> = BTreeMap::new();
    let mut prevented = 0;
    for step in 0..600 {
        let mut name = key(rng);
        if let (true, Some((there, _))) = (rng.bool(), tree.range(name.clone()..).next()) {
            name = there.clone();
        }
        let there = tree.contains_key(&name);
        let flags = [ANY, NOEXIST, EXIST][rng.usize(..3)];
        let wanted = match (there, flags) {
            (true, NOEXIST) => EEXIST,
            (false, EXIST) => ENOENT,
            _ => 0,
        };
        // What was done, what it should have given, and the value if it was done.
        let (result, wanted, value) = match rng.usize(..6) {
            0 => {
                let (result, _) = side.ask(What::Remove, window, 0, &name, &[]);
                (result, if there { 0 } else { ENOENT }, None)
            }
            1 => {
                let first = rng.u64(..);
                let (result, _) = side.ask(What::Insert, window, flags, &name, &[first]);
                let mut value = vec![0; count];
                value[0] = first;
                (result, wanted, Some(value))
            }
            2 => {
                let more = [rng.u64(..), count as u64];
                let (result, _) = side.ask(What::UpdateWith, window, 0, &name, &more);
                let old = tree.get(&name).cloned().unwrap_or_default();
                let new = old.into_iter().map(|word| word.wrapping_add(more[0]));
                (result, if there { 0 } else { ENOENT }, Some(new.collect()))
            }
            _ => {
                // Equal distances, as changes in place expect.
                let (first, apart) = (rng.u64(..), rng.u64(..));
                let word = |i: usize| first.wrapping_add(apart.wrapping_mul(i as u64));
                let value: Vec<u64> = (0..count).map(word).collect();
                for (i, word) in value.iter().enumerate() {
                    source.set(i, *word);
                }
                let from = [source.window().at as u64, 8 * count as u64];
                let (result, _) = side.ask(What::SetFrom, window, flags, &name, &from);
                (result, wanted, Some(value))
            }
        };
        if result == ENOMEM && wanted == 0 {
            prevented += 1;
            service(map);
            continue;
        }
        assert_eq!(result, wanted, "step {step}, {name:?}");
        match value {
            Some(value) if result == 0 => drop(tree.insert(name.clone(), value)),
            None if result == 0 => drop(tree.remove(&name)),
            _ => (),
        }
        let (found, seen) = side.ask(What::Lookup, window, 0, &name, &[]);
        match tree.get(&name) {
            Some(value) => {
                assert!(found > 0, "{found}");
                let first = value.len().min(8);
                assert_eq!(seen[..first], value[..first], "step {step}, {name:?}");
                assert_eq!(map.get(&name).unwrap(), Some(bytes(value)));
            }
            None => assert_eq!(found, ENOENT),
        }
        if step % 4 == 0 {
            map.service().unwrap();
        }
        if step % 50 == 0 {
            check(map, tree.len());
        }
    }
    assert!(prevented < 100, "{prevented} changes found no memory");
    let mut all = BTreeMap::new();
    map.for_each(|key, value| assert_eq!(all.insert(key.to_vec(), words(value)), None))
        .unwrap();
    assert_eq!(all, tree);
    // Long values need sw_qp_set_from; other lengths than that of the map are refused, and so is
    // what is no place.
    let at = source.window().at as u64;
    let long = map.value_bytes() > 64;
    let (refused, _) = side.ask(What::InsertValue, window, ANY, b"short", &[1]);
    assert_eq!(refused, if long { EINVAL } else { 0 });
    for wrong in [
        [at, 8 * count as u64 + 8],
        [at, 0],
        [0, 8 * count as u64],
        [(-2i64) as u64, 8 * count as u64],
    ] {
        let (refused, _) = side.ask(What::SetFrom, window, ANY, b"wrong", &wrong);
        assert_eq!(refused, EINVAL, "{wrong:?}");
    }
    assert_eq!(map.get("wrong").unwrap(), None);
    let entries = tree.len() + usize::from(!long);
    check(map, entries);
}

#[test]
fn values_of_all_lengths() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(512 << 20).unwrap();
    let source = Words::create(&arena, "source", 512).unwrap();
    for (s, mut side) in sides(&arena).into_iter().enumerate() {
        for (i, parts) in PARTS.into_iter().enumerate() {
            for size in [16, 64, 72, 328, 1000, 4096] {
                let name = format!("{size} {s}{i}");
                let mut rng = fastrand::Rng::with_seed(size as u64 + i as u64);
                let map = with(ProgramMap::<Bytes>::builder(&arena, &name), parts)
                    .value_bytes(size)
                    .grow(size == 1000)
                    .max_entries(700)
                    .bytes(16 << 20)
                    .build()
                    .unwrap();
                against_a_tree(&map, &mut *side, &source, &mut rng);
                // An heir finds it whole, and goes on.
                let entries = map.len();
                map.leave();
                let map = ProgramMap::<Bytes>::adopt(&arena, &name).unwrap();
                assert_eq!((map.value_bytes(), map.len()), (size, entries));
                let from = [source.window().at as u64, size as u64];
                let (done, _) = side.ask(What::SetFrom, map.window().number, ANY, b"heir", &from);
                assert_eq!(done, 0);
                check(&map, map.len());
            }
        }
    }
}

/// As `struct storm` in the program.
#[derive(Clone, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Storm {
    pub window: u32,
    pub keys: u32,
    pub seed: u64,
    pub count: u32,
    pub bytes: u32,
    pub kind: u32,
    pub done: u32,
    pub found: u32,
    pub torn: u32,
    pub no_entry: u32,
    pub no_memory: u32,
    pub busy: u32,
    pub other: u32,
    pub error: i64,
    pub key: [u64; 32],
}

impl Storm {
    pub fn new(map: &ProgramMap<Bytes>, keys: u32, count: u32, seed: u64) -> Storm {
        Storm {
            window: map.window().number,
            keys,
            seed,
            count,
            bytes: map.value_bytes() as u32,
            kind: 0,
            done: 0,
            found: 0,
            torn: 0,
            no_entry: 0,
            no_memory: 0,
            busy: 0,
            other: 0,
            error: 0,
            key: [0; 32],
        }
    }

    pub fn run(mut self, programs: &Programs, program: &str) -> Storm {
        programs.answer(program, self.as_mut_bytes());
        assert_eq!((self.torn, self.other), (0, 0), "{self:?}");
        self
    }
}

pub fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(2, |n| n.get()) as u32
}

/// Whether word i of a value is its first word and i times a number that shows the key.
fn is_whole(key: &[u8], value: &[u64]) -> bool {
    let number = u32::from_le_bytes(key.try_into().unwrap());
    let apart = 2 * u64::from(number) + 1;
    let word = |i: usize| value[0].wrapping_add(apart.wrapping_mul(i as u64));
    (0..value.len()).all(|i| value[i] == word(i))
}

/// All processors set, remove and read while this process services and reads.
#[test]
fn readers_see_whole_values() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(256 << 20).unwrap();
    for (i, parts) in PARTS.into_iter().enumerate() {
        for size in [128, 4096] {
            let map = with(
                ProgramMap::<Bytes>::builder(&arena, &format!("{size} {i}")),
                parts,
            )
            .value_bytes(size)
            .max_entries(300)
            .mean_key(4)
            .bytes(32 << 20)
            .build()
            .unwrap();
            let service = map.spawn_service(Duration::from_micros(500)).unwrap();
            let ends = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..cpus())
                    .map(|cpu| {
                        let (ends, arena, map) = (&ends, &arena, &map);
                        scope.spawn(move || {
                            pin(cpu as usize);
                            let Kernel(programs) = kernel(arena);
                            let (mut done, mut found, mut seed) = (0, 0, u64::from(cpu) << 32);
                            // On a busy machine, a thread may begin late.
                            while !ends.load(Ordering::Relaxed) || done.min(found) < 200 {
                                seed += 1;
                                let storm =
                                    Storm::new(map, 200, 100, seed).run(&programs, "sw_values");
                                (done, found) = (done + storm.done, found + storm.found);
                            }
                            (done, found)
                        })
                    })
                    .collect();
                let until = Instant::now() + Duration::from_millis(500);
                let (mut seen, mut rng) = (0, fastrand::Rng::with_seed(1));
                while Instant::now() < until || seen < 100 {
                    let name = rng.u32(..200).to_le_bytes();
                    if let Some(value) = map.get(name).unwrap_or(None) {
                        assert!(is_whole(&name, &words(value)), "{name:?}");
                        seen += 1;
                    }
                    if seen % 64 == 0 {
                        let whole = |key: &[u8], value| assert!(is_whole(key, &words(value)));
                        let _ = map.for_each(whole);
                    }
                }
                ends.store(true, Ordering::Relaxed);
                for thread in threads {
                    let (done, found) = thread.join().unwrap();
                    println!("{parts:?}, {size} bytes: {done} changes, {found} found");
                }
            });
            settle(&map);
            service.stop().unwrap();
            check(&map, map.len());
            let whole = |key: &[u8], value| assert!(is_whole(key, &words(value)));
            map.for_each(whole).unwrap();
        }
    }
}

/// Waits until all that was retired is free.
pub fn settle(map: &ProgramMap<Bytes>) {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let m = map.memory().unwrap();
        if m.retired + m.waiting == 0 {
            return;
        }
        assert!(Instant::now() < until, "{m:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn sizes_that_no_map_has() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let builder = || ProgramMap::<Bytes>::builder(&arena, "none").bytes(16 << 20);
    let why = |builder: ProgramMapBuilder<Bytes>| match builder.build() {
        Err(Error::Setting { what, why }) => format!("{what}: {why}"),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        why(builder().value_bytes(4096).longest_key(255)),
        "longest_key: a value of 4096 bytes and a key of 255 have more than 4352 together"
    );
    assert_eq!(
        why(builder().value_bytes(1000).longest_key(4096)),
        "longest_key: a value of 1000 bytes and a key of 4096 have more than 4352 together"
    );
    assert_eq!(
        why(builder().value_bytes(4104)),
        "value_bytes: 8, 16 … 4096, not 4104"
    );
    assert_eq!(
        why(builder().value_bytes(16).per_processor(true)),
        "per_processor: the size of its values follows from the processors"
    );
    // The largest leaf, in a map with a trie and its index.
    let map = builder().value_bytes(248).longest_key(4096).mean_key(4096);
    let map = map.max_entries(50).user_writes().build().unwrap();
    let names: Vec<_> = (0..50u8).map(|n| vec![n; 4096]).collect();
    for (n, name) in names.iter().enumerate() {
        let value = bytes(&[n as u64; 31]);
        assert_eq!(map.insert(name, value).unwrap(), Ok(()));
    }
    for (n, name) in names.iter().enumerate() {
        assert_eq!(map.get(name).unwrap(), Some(bytes(&[n as u64; 31])));
    }
    check(&map, 50);
}

/// A new map has the memory for all its entries: they come in one run without service, and go.
#[test]
fn all_long_values_come_and_go_without_service() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(256 << 20).unwrap();
    let source = Words::create(&arena, "source", 512).unwrap();
    let mut side = kernel(&arena);
    for (i, parts) in PARTS.into_iter().enumerate() {
        for size in [72, 512, 2048, 4096] {
            let map = with(
                ProgramMap::<Bytes>::builder(&arena, &format!("{size} {i}")),
                parts,
            )
            .value_bytes(size)
            .max_entries(2000)
            .mean_key(4)
            .bytes(24 << 20)
            .build()
            .unwrap();
            let window = map.window().number;
            let from = [source.window().at as u64, size as u64];
            for round in 0..3u32 {
                for n in 0..2000u32 {
                    let name = (n * 7 + round).to_le_bytes();
                    let (done, _) = side.ask(What::SetFrom, window, NOEXIST, &name, &from);
                    assert_eq!(
                        done, 0,
                        "{parts:?}, {size} bytes, entry {n} of round {round}"
                    );
                }
                for n in 0..2000u32 {
                    let name = (n * 7 + round).to_le_bytes();
                    assert_eq!(side.ask(What::Remove, window, 0, &name, &[]).0, 0);
                }
                let until = Instant::now() + Duration::from_secs(20);
                loop {
                    map.service().unwrap();
                    let m = map.memory().unwrap();
                    if m.retired + m.waiting == 0 {
                        map.service().unwrap();
                        break;
                    }
                    assert!(Instant::now() < until, "{m:?}");
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
            check(&map, 0);
        }
    }
}
