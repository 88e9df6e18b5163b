//! Maps over byte strings that this process writes, with lookups by programs and by checked
//! readers.
#![cfg(feature = "kernel")]

mod kernel;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kernel::maps::{
    Both, Kind, Names, Number, Points, Stores, TextPoints, TextStores, Texts, TextsBoth, Trie, all,
    text,
};
use kernel::{
    Answers, INVALID, KEY_MAX, LOOKUP, NO_ENTRY, NO_ORDER, PREFIX, Room, WALK, key, load, lookup,
    lookup_of, question, skipped, word,
};
use sapwood_bpf::{BpfArena, Bytes, Error, ProgramMap, UserMap, UserPointMap};

type Oracle = BTreeMap<Vec<u8>, u64>;

tests_of_maps! {
    trie: Trie { as_the_oracle refusals }
    both: Both { as_the_oracle refusals }
    store: Stores { as_the_oracle }
    points: Points { as_the_oracle refusals }
    texts: Texts { as_the_oracle }
    texts_both: TextsBoth { as_the_oracle }
    text_points: TextPoints { as_the_oracle }
    text_stores: TextStores { as_the_oracle }
}

/// Keys of all lengths around the edges of a key's layout, and some that are too long for programs.
fn any_key(rng: &mut fastrand::Rng) -> Vec<u8> {
    match rng.u8(0..16) {
        0 => key(rng, KEY_MAX + 8, KEY_MAX - 40..KEY_MAX + 8),
        _ => key(rng, 600, 250..260),
    }
}

fn as_the_oracle<K: Kind>() {
    let arena = BpfArena::create(64 << 20).unwrap();
    let room = Room::new(&arena, "room");
    let map = K::builder(&arena, "names").build().unwrap();
    let reader = arena.reader::<Number>("names").unwrap();
    let programs = load(&arena, LOOKUP);
    let window = map.window().number;
    let ask = |what, key: &[u8]| lookup_of(&programs, what, window, &room.image(key));
    assert_eq!(ask(2, b""), Err(NO_ENTRY), "it is empty");
    assert!(reader.is_empty().unwrap());
    assert_eq!(reader.get("").unwrap().map(u64::from), None);
    assert_eq!(reader.verify().unwrap(), 0);
    let mut oracle = Oracle::new();
    let mut rng = fastrand::Rng::with_seed(1);
    for round in 0..6000u64 {
        let name = any_key(&mut rng);
        // The map grows, and shrinks to nothing at the end.
        if rng.u64(0..6000) < round {
            let old = oracle.keys().nth(rng.usize(0..oracle.len().max(1)));
            let old = old.cloned().unwrap_or_default();
            assert_eq!(map.take(&old), oracle.remove(&old).is_some());
        } else {
            map.put(&name, round + 1);
            oracle.insert(name.clone(), round + 1);
        }
        let other = any_key(&mut rng);
        for name in [&name, &other] {
            let want = oracle.get(name).copied();
            assert_eq!(reader.get(name).unwrap().map(u64::from), want);
            // Programs cannot look longer keys up, and an index without entries does not exist for
            // them.
            for &what in K::WHATS {
                if name.len() > KEY_MAX || (what == 1 && oracle.is_empty()) {
                    continue;
                }
                assert_eq!(
                    ask(what, name),
                    want.ok_or(NO_ENTRY),
                    "{what} {round} {} bytes {name:?}",
                    name.len()
                );
            }
        }
        let number = |entry: Result<(Vec<u8>, Number), Error>| {
            let (key, Number(value)) = entry.unwrap();
            (key, value)
        };
        let known = |(key, value): (&Vec<u8>, &u64)| (key.clone(), *value);
        if K::HAS_TRIE {
            let there = reader.from_key(&other).next().map(number);
            assert_eq!(there, oracle.range(other.clone()..).next().map(known));
            let prefix = &other[..other.len().min(2)];
            if round % 16 == 0 {
                let there = reader.prefix(prefix).map(number);
                let want = oracle
                    .range(prefix.to_vec()..)
                    .take_while(|(key, _)| key.starts_with(prefix));
                assert!(there.eq(want.map(known)), "{prefix:?}");
            }
        }
        if round % 500 == 0 {
            map.check();
            assert_eq!(reader.verify().unwrap(), oracle.len());
            assert!(all(&reader).into_iter().eq(oracle.clone()));
            assert_eq!(reader.len().unwrap(), oracle.len());
        }
        if round % 2000 == 1999 {
            for (key, value) in oracle.iter().filter(|(key, _)| key.len() <= KEY_MAX) {
                for &what in K::WHATS {
                    assert_eq!(ask(what, key), Ok(*value));
                }
                if !K::HAS_TRIE {
                    assert_eq!(ask(0, key), Err(NO_ORDER));
                }
            }
        }
    }
    while map.tidy(1000) {}
    assert!(all(&reader).into_iter().eq(oracle.clone()));
    assert_eq!(reader.verify().unwrap(), oracle.len());
    let long = vec![5; KEY_MAX];
    map.put(&long, 77);
    assert_eq!(reader.get(&long).unwrap(), Some(Number(77)));
    assert_eq!(ask(2, &long), Ok(77));
    assert_eq!(map.empty(), oracle.len() + 1);
    assert_eq!(ask(2, b"a"), Err(NO_ENTRY));
    assert_eq!(lookup(&programs, 2, 17, b""), Err(INVALID));
    assert!(reader.is_empty().unwrap());
}

fn refusals<K: Kind>() {
    let arena = BpfArena::create(64 << 20).unwrap();
    let map = K::builder(&arena, "names").build().unwrap();
    let reader = arena.reader::<u64>("names").unwrap();
    map.put(b"one", 1);
    // A reader that does not know the type of the values.
    let bytes = arena.reader::<Bytes>("names").unwrap();
    assert_eq!(bytes.value_bytes().unwrap(), Some(8));
    let (name, value) = bytes.unordered().next().unwrap().unwrap();
    assert_eq!(
        (name, value.0),
        (b"one".to_vec(), 1u64.to_ne_bytes().to_vec())
    );
    let wrong = arena.reader::<[u64; 2]>("names");
    assert!(matches!(wrong, Err(Error::Value { .. })), "{wrong:?}");
    let wrong = arena.reader::<[u8; 8]>("names");
    assert!(matches!(wrong, Err(Error::Value { .. })), "{wrong:?}");
    let none = arena.reader::<u64>("others");
    assert!(matches!(none, Err(Error::NoWindow { .. })), "{none:?}");
    drop(map);
    assert!(matches!(reader.get("one"), Err(Error::NoWindow { .. })));
    let mut entries = reader.unordered();
    assert!(matches!(entries.next(), Some(Err(Error::NoWindow { .. }))));
    assert!(entries.next().is_none());
    let first = reader.iter().next();
    assert!(
        matches!(first, Some(Err(Error::NoWindow { .. }))),
        "{first:?}"
    );
}

/// A map that has shrunk returns its pages to the kernel, and programs find the remaining entries.
#[test]
fn pages_that_nobody_needs_go_back() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let names = UserMap::<u64>::builder(&arena, "names")
        .with_index()
        .build()
        .unwrap();
    let programs = load(&arena, LOOKUP);
    let window = names.window().clone();
    let key = |i: u64| format!("{:016x}.example", i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    // The pages of zeros among those that the map has taken so far.
    let zeros = || {
        let image = arena.image();
        let end = window.at + names.memory().arena.frontier;
        let pages = image[window.at..end].chunks_exact(4096);
        pages
            .filter(|page| page.iter().all(|byte| *byte == 0))
            .count()
    };
    let settle = || {
        while names.compact_step(4096).unwrap() {}
        names.domain().synchronize();
        names.reclaim(usize::MAX);
        names.verify().unwrap();
    };
    for round in 0..3 {
        for i in 0..40_000u64 {
            names.insert(key(i), i + round + 1).unwrap();
        }
        if round == 0 {
            assert!(zeros() < 64, "{} pages are not used", zeros());
        }
        for i in (0..40_000u64).filter(|i| i % 1000 != 0) {
            assert_eq!(names.remove(key(i)), Ok(true));
        }
        settle();
        settle();
        let memory = names.memory().arena;
        let after = zeros();
        // Nearly all memory is free, and most of it is in whole pages.
        assert!(memory.released * 5 > memory.frontier * 2, "{memory:?}");
        assert!(
            after * 4096 >= memory.released,
            "{after} pages of zeros, {memory:?}"
        );
        for i in (0..40_000u64).step_by(500) {
            let wanted = match i % 1000 {
                0 => Ok(i + round + 1),
                _ => Err(NO_ENTRY),
            };
            for what in 0..3 {
                let found = lookup(&programs, what, window.number, key(i).as_bytes());
                assert_eq!(found, wanted, "{round} {i} {what}");
            }
        }
    }
}

#[test]
fn order_is_refused() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let points = UserPointMap::<u64>::builder(&arena, "points")
        .bytes(1 << 20)
        .build()
        .unwrap();
    let kernel = ProgramMap::<u64>::builder(&arena, "kernel")
        .bytes(8 << 20)
        .max_entries(1000)
        .with_index()
        .build()
        .unwrap();
    let names = UserMap::<u64>::builder(&arena, "names")
        .bytes(1 << 20)
        .with_index()
        .build()
        .unwrap();
    let cursors = sapwood_bpf::Words::create(&arena, "cursors", 4096).unwrap();
    let (walk, prefix) = (load(&arena, WALK), load(&arena, PREFIX));
    let cursor = cursors.window().at as u64;
    let ordered = |window: u32| -> BTreeSet<i64> {
        let mut said = BTreeSet::new();
        for what in 0..7 {
            let mut data = question([what, window], 40, b"");
            data[8..16].copy_from_slice(&cursor.to_ne_bytes());
            walk.answer("sw_ask", &mut data);
            said.insert(word(&data, 16) as i64);
        }
        let mut data = question([window, 0], 24, b"key");
        prefix.answer("sw_ask_prefix", &mut data);
        said.insert(word(&data, 8) as i64);
        said
    };
    // The map is empty or not.
    for round in 0..2u64 {
        assert_eq!(ordered(points.window().number), BTreeSet::from([NO_ORDER]));
        assert_eq!(ordered(kernel.window().number), BTreeSet::from([NO_ORDER]));
        let said = ordered(names.window().number);
        assert!(!said.contains(&NO_ORDER), "{said:?}");
        points.insert("key", round).unwrap();
        names.insert("key", round).unwrap();
    }
    for name in ["points", "kernel"] {
        let reader = arena.reader::<u64>(name).unwrap();
        assert!(!reader.has_order().unwrap());
        for mut entries in [reader.iter(), reader.from_key("a"), reader.prefix("k")] {
            let entry = entries.next();
            assert!(
                matches!(entry, Some(Err(Error::Setting { .. }))),
                "{entry:?}"
            );
            assert!(entries.next().is_none());
        }
    }
    let reader = arena.reader::<u64>("points").unwrap();
    assert_eq!(all(&reader), [(b"key".to_vec(), 1)]);
    assert!(arena.reader::<u64>("names").unwrap().has_order().unwrap());
}

/// A key that stays, and the values that it may have: a version, and its number.
fn staying(i: u64, version: u64) -> (Vec<u8>, u64) {
    let key = format!("stays/{:x}/{i}", i.wrapping_mul(0x9e37_79b9) >> 20);
    (key.into_bytes(), version << 32 | i)
}

#[test]
fn changes_while_programs_look_up() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let map = UserPointMap::<u64>::builder(&arena, "points")
        .build()
        .unwrap();
    let programs = load(&arena, LOOKUP);
    let window = map.window().number;
    let stays = 300;
    for i in 0..stays {
        let (key, value) = staying(i, 1);
        map.insert(key, value).unwrap();
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut rng = fastrand::Rng::with_seed(2);
            let mut version = 1;
            while !stop.load(Ordering::Relaxed) {
                version += 1;
                // Tables grow and shrink all the time.
                for i in 0..3000u64 {
                    map.insert(format!("goes/{i}"), 7 << 40 | i).unwrap();
                    let (key, value) = staying(rng.u64(..stays), version);
                    map.replace(key, value).unwrap();
                }
                for i in 0..3000u64 {
                    assert!(map.remove(format!("goes/{i}")).unwrap());
                }
            }
            version
        });
        let mut rng = fastrand::Rng::with_seed(3);
        let mut newest = vec![0; stays as usize];
        let mut asked = 0;
        let until = Instant::now() + Duration::from_millis(1500);
        while Instant::now() < until {
            let i = rng.u64(..stays);
            let found = lookup(&programs, rng.u32(1..3), window, &staying(i, 0).0).unwrap();
            assert_eq!(found & 0xffff_ffff, i);
            let version = found >> 32;
            assert!(version >= newest[i as usize], "an older value came back");
            newest[i as usize] = version;
            let i = rng.u64(..3000);
            match lookup(&programs, 2, window, format!("goes/{i}").as_bytes()) {
                Ok(value) => assert_eq!(value, 7 << 40 | i),
                Err(code) => assert_eq!(code, NO_ENTRY),
            }
            asked += 2;
        }
        stop.store(true, Ordering::Relaxed);
        let versions = writer.join().unwrap();
        println!("{asked} lookups beside {versions} rounds of changes");
        assert!(asked > 100 && versions > 2);
    });
    map.verify().unwrap();
    assert_eq!(map.len() as u64, stays);
}

/// A program copies byte strings of all lengths, part by part, and values of other maps.
#[test]
fn values_are_copied() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let texts = UserMap::<[u8]>::builder(&arena, "texts")
        .bytes(32 << 20)
        .with_index()
        .build()
        .unwrap();
    let wide = UserMap::<[u64; 40]>::builder(&arena, "wide")
        .build()
        .unwrap();
    let programs = load(&arena, LOOKUP);
    // The value, joined from parts of 256 bytes.
    let copied = |window: u32, key: &[u8], len: usize| -> Result<Vec<u8>, i64> {
        let mut value = Vec::new();
        loop {
            let mut data = question([window, value.len() as u32], 16, key);
            data.resize(16 + 512, 7);
            programs.answer("sw_ask_value", &mut data);
            let found = word(&data, 8) as i64;
            if found < 0 {
                return Err(found);
            }
            assert_eq!(found as usize, len);
            let part = (len - value.len()).min(256);
            assert!(data[272 + part..].iter().all(|byte| *byte == 0));
            value.extend(&data[272..272 + part]);
            if value.len() == len {
                return Ok(value);
            }
        }
    };
    let window = texts.window().number;
    let mut rng = fastrand::Rng::with_seed(4);
    for key in [&b""[..], b"key", &[7; 100], &[8; 254]] {
        for len in [
            0, 1, 7, 8, 9, 252, 253, 254, 255, 256, 257, 511, 4_000, 65_535, 65_536, 70_001,
        ] {
            let value: Vec<u8> = (0..len).map(|_| rng.u8(..)).collect();
            texts.insert(key, &value).unwrap();
            assert!(copied(window, key, len) == Ok(value), "{len} bytes");
        }
    }
    // Behind the end there is nothing.
    let mut data = question([window, 70_001], 16, b"key");
    data.resize(16 + 512, 7);
    programs.answer("sw_ask_value", &mut data);
    assert_eq!(word(&data, 8), 70_001);
    assert!(data[272..].iter().all(|byte| *byte == 0));
    assert_eq!(copied(window, b"none", 0), Err(NO_ENTRY));
    wide.insert("key", std::array::from_fn(|i| i as u64))
        .unwrap();
    let value = copied(wide.window().number, b"key", 320).unwrap();
    assert!(value.chunks_exact(8).map(|part| word(part, 0)).eq(0..40));
    // The lookups of other tests distinguish byte strings from other values.
    texts.insert("n", &text(5)).unwrap();
    assert_eq!(lookup(&programs, 2, window, b"n"), Ok(5));
    texts.insert("n", &text(5)[1..]).unwrap();
    assert_eq!(lookup(&programs, 2, window, b"n"), Ok(u64::MAX));
}
