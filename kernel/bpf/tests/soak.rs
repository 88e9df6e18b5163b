//! A writer in user space and programs on all processors, for two seconds or `SAPWOOD_SOAK`
//! seconds. Each value shows that it belongs to its key. Another test runs programs on damaged
//! maps.
#![cfg(feature = "kernel")]

mod kernel;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kernel::{
    Answers, Damage, LOOKUP, NO_ENTRY, NODES, WALK, load, lookup, question, skipped, word,
};
use sapwood_bpf::{BpfArena, Programs, UserMap, Words, layout};

/// The result of a step of a walk.
fn walk(programs: &Programs, what: u32, window: u32, cursor: u64, key: &[u8]) -> i64 {
    let mut data = question([what, window], 40, key);
    data[8..16].copy_from_slice(&cursor.to_ne_bytes());
    programs.answer("sw_ask", &mut data);
    word(&data, 16) as i64
}

const KEYS: u64 = 3000;
/// The keys of smaller numbers are always there.
const STAYING: u64 = 1000;

fn key(i: u64) -> Vec<u8> {
    let tail = "x".repeat((i % 40) as usize);
    format!("{:x}/{i}{tail}", (i * i) % 97).into_bytes()
}

/// A value of a key: its version, and a hash of the key.
fn value(i: u64, version: u64) -> u64 {
    version << 32 | i << 1 | 1
}

#[test]
fn every_value_belongs_to_its_key() {
    if skipped() {
        return;
    }
    let seconds = std::env::var("SAPWOOD_SOAK")
        .ok()
        .and_then(|s| s.parse().ok());
    let long = Duration::from_secs(seconds.unwrap_or(2));
    let arena = BpfArena::create(64 << 20).unwrap();
    let processors = std::thread::available_parallelism().unwrap().get();
    let cursors = Words::create(&arena, "cursors", processors * layout::CURSOR_BYTES / 8).unwrap();
    let names = UserMap::<u64>::builder(&arena, "names")
        .with_index()
        .build()
        .unwrap();
    for i in 0..STAYING {
        names.insert(key(i), value(i, 0)).unwrap();
    }
    let window = names.window().number;
    let (stop, lookups, walks) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut rng = fastrand::Rng::with_seed(1);
            let mut version = 0;
            while !stop.load(Ordering::Relaxed) {
                version += 1;
                let i = rng.u64(..KEYS);
                if i >= STAYING && rng.bool() {
                    names.remove(key(i)).unwrap();
                } else {
                    names
                        .insert(key(i), value(i, version & 0xffff_ffff))
                        .unwrap();
                }
                if version % 64 == 0 {
                    names.compact_step(8).unwrap();
                    names.reclaim(1000);
                }
            }
        });
        let readers: Vec<_> = (0..processors)
            .map(|n| {
                let cursor = (cursors.window().at + n * layout::CURSOR_BYTES) as u64;
                let (stop, lookups, walks, arena) = (&stop, &lookups, &walks, &arena);
                scope.spawn(move || {
                    let looks = load(arena, LOOKUP);
                    let walker = load(arena, WALK);
                    let mut rng = fastrand::Rng::with_seed(n as u64);
                    // The newest versions by the trie and by the index. A new value is in the index
                    // a moment before it is in the trie.
                    let mut newest = [vec![0u64; KEYS as usize], vec![0u64; KEYS as usize]];
                    let began = Instant::now();
                    // This returns an error, because the other threads would not end after a panic.
                    while began.elapsed() < long && !stop.load(Ordering::Relaxed) {
                        for _ in 0..200 {
                            let (what, i) = (rng.u32(..3), rng.u64(..KEYS));
                            let found = lookup(&looks, what, window, &key(i));
                            let said = || Err(format!("key {i}: {found:x?}"));
                            let there = match found {
                                Ok(there) => there,
                                Err(NO_ENTRY) if i >= STAYING => continue,
                                Err(_) => return said(),
                            };
                            if there & 0xffff_ffff != i << 1 | 1 {
                                return said();
                            }
                            // A lookup that uses both may return the older value.
                            if let Some(newest) = newest.get_mut(what as usize) {
                                let old = &mut newest[i as usize];
                                if there >> 32 < *old {
                                    return said();
                                }
                                *old = there >> 32;
                            }
                        }
                        lookups.fetch_add(200, Ordering::Relaxed);
                        // The walk meets all keys that stay, in order.
                        let count = walk(&walker, 9, window, cursor, b"");
                        if count <= 0 || (count as u64 >> 32) < STAYING {
                            return Err(format!("a walk: {count:#x}"));
                        }
                        walks.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                })
            })
            .collect();
        let ends: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        stop.store(true, Ordering::Relaxed);
        for end in ends {
            assert_eq!(end.unwrap(), Ok(()));
        }
    });
    names.verify().unwrap();
    println!("{lookups:?} lookups, {walks:?} walks by programs");
    assert!(lookups.into_inner() > 0 && walks.into_inner() > 0);
}

#[test]
fn damaged_maps() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(16 << 20).unwrap();
    let cursors = Words::create(&arena, "cursors", layout::CURSOR_BYTES / 8).unwrap();
    let names = UserMap::<u64>::builder(&arena, "names")
        .bytes(1 << 20)
        .with_index()
        .build()
        .unwrap();
    for i in 0..KEYS {
        names.insert(key(i), value(i, 0)).unwrap();
    }
    let looks = load(&arena, LOOKUP);
    let walker = load(&arena, WALK);
    let (window, cursor) = (names.window().number, cursors.window().at as u64);
    let damage = Damage::new(&arena, names.window());
    let (whole, last) = (&damage.whole, damage.last);
    let mut rng = fastrand::Rng::with_seed(77);
    let mut strange = 0;
    // Each loop of a program ends after a quarter of a second at the latest, and there are a few of
    // them in a call.
    let soon = Duration::from_secs(10);
    let mut ask_all = |rng: &mut fastrand::Rng| {
        for what in 0..3 {
            let i = rng.u64(..KEYS);
            let began = Instant::now();
            let found = lookup(&looks, what, window, &key(i));
            assert!(
                began.elapsed() < soon,
                "a lookup took {:?}",
                began.elapsed()
            );
            strange += u64::from(found != Ok(value(i, 0)));
        }
        for what in [0, 1, 2, 3, 4, 8, 5, 7, 6, 7, 7] {
            let began = Instant::now();
            walk(&walker, what, window, cursor, &key(rng.u64(..KEYS)));
            assert!(began.elapsed() < soon, "{what} took {:?}", began.elapsed());
        }
    };
    let began = Instant::now();
    for round in 0..60 {
        // Many words at once, so that lookups meet them. Each is changed a little, copied from
        // elsewhere, or random.
        let mut spots = Vec::new();
        for _ in 0..60 {
            let at = rng.usize(NODES..last - 64);
            let len = rng.usize(1..32);
            let words: Vec<u64> = (0..len)
                .map(|i| match round % 3 {
                    0 => whole[at + i] ^ 1 << rng.u32(..64),
                    1 => whole[rng.usize(NODES..last)],
                    _ => rng.u64(..),
                })
                .collect();
            damage.words(at, &words);
            spots.push((at, len));
        }
        ask_all(&mut rng);
        if round % 10 == 0 {
            damage.words(8, &[rng.u64(..), rng.u64(..)]);
            ask_all(&mut rng);
            damage.put_back(8, 2);
        }
        for (at, len) in spots {
            damage.put_back(at, len);
        }
        if began.elapsed() > Duration::from_secs(20) {
            break;
        }
    }
    // The window has only random bytes.
    let noise = damage.noise(&mut rng);
    damage.words(NODES, &noise[NODES..]);
    for _ in 0..10 {
        ask_all(&mut rng);
    }
    println!("{strange} strange answers");
    assert!(strange > 10, "{strange}");
    damage.put_back(NODES, whole.len() - NODES);
    for i in 0..KEYS {
        for what in 0..3 {
            assert_eq!(lookup(&looks, what, window, &key(i)), Ok(value(i, 0)));
        }
    }
    names.verify().unwrap();
}
