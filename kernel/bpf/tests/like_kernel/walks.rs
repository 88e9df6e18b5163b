//! Walks: from key to key, and whole ones, while entries come, go and change.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore, MapFlags};
use sapwood_bpf::{BpfArena, ProgramMap, UserMap, Words, layout};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::kernel::{Ends, skipped};
use crate::writers::{INSERT_AND_REMOVE, pinned};
use crate::{ANY, Asking, E2BIG, EOPNOTSUPP, NOEXIST, Of, What, number, ours, set, window, zeros};

/// The least number whose key comes behind that of another, in the order of bytes.
fn behind(keys: impl IntoIterator<Item = u64>, key: u64) -> Option<u64> {
    let keys = keys.into_iter().map(u64::swap_bytes);
    let greater = keys.filter(|other| *other > key.swap_bytes());
    greater.min().map(u64::swap_bytes)
}

#[test]
fn empty_maps_and_small_ones() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let asking = Asking::new(&arena, 100);
    let [index, trie, both] = ours(&arena, 100);
    for n in [0u64, 1, 2, 100] {
        for map in [&trie, &both] {
            let of = window(map);
            for i in 0..n {
                assert_eq!(asking.insert(of, i * 77, ANY, i), 0);
                assert_eq!(asking.insert(Of::Hash, i * 77, ANY, i), 0);
            }
            let all = set((0..n).map(|i| i * 77));
            // Each key once. Ours are in order, those of a HASH are not.
            let kernels = asking.kernels_keys(1000);
            assert_eq!((kernels.len(), set(kernels)), (n as usize, all.clone()));
            let ours = asking.our_keys(map.window().number, 1000);
            assert!(ours.is_sorted_by_key(|key| key.swap_bytes()));
            assert_eq!((ours.len(), set(ours)), (n as usize, all.clone()));
            for i in 0..n {
                assert_eq!(asking.remove(of, i * 77), 0);
            }
            let mut left = asking.kernels_keys(1000).into_iter();
            assert!(left.all(|key| asking.remove(Of::Hash, key) == 0));
            assert_eq!(asking.kernels_keys(1000), []);
            assert_eq!(asking.our_keys(map.window().number, 1000), []);
        }
    }
    // A map without a trie has no order, and a process walks over it.
    let of = window(&index);
    assert_eq!(asking.insert(of, 3, ANY, 4), 0);
    assert_eq!(asking.ask(of, What::Next, 2, 0, 0).0, EOPNOTSUPP);
    let mut all = Vec::new();
    index
        .for_each(|key, value| all.push((number(key), value)))
        .unwrap();
    assert_eq!(all, [(3, 4)]);
    // No changes at once.
    assert_eq!(index.write_many(&[]).unwrap(), []);
}

/// The key at which a walk is goes away. A walk over a HASH begins anew. Ours goes on.
#[test]
fn the_key_before_is_gone() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let asking = Asking::new(&arena, 64);
    let [_, trie, both] = ours(&arena, 64);
    let user = UserMap::<u64>::builder(&arena, "user").bytes(4 << 20);
    let user = user.build().unwrap();
    let all = || (0..64u64).map(|i| i * 1000);
    for map in [&trie, &both] {
        let of = window(map);
        for i in all() {
            assert_eq!(asking.insert(of, i, ANY, i), 0);
            assert_eq!(asking.insert(Of::Hash, i, ANY, i), 0);
            user.insert(i.to_ne_bytes(), i).unwrap();
        }
        let kernels = asking.0.map("hash").unwrap();
        let mut walk = kernels.keys();
        let first = walk.next().map(|key| number(&key));
        let here = walk
            .by_ref()
            .take(20)
            .last()
            .map(|key| number(&key))
            .unwrap();
        assert_eq!(asking.remove(Of::Hash, here), 0);
        assert_eq!(walk.next().map(|key| number(&key)), first, "it begins anew");
        // The same from a key that never was.
        for gone in all().step_by(3) {
            assert_eq!(asking.remove(of, gone), 0);
            assert!(user.remove(gone.to_ne_bytes()).unwrap());
            let left = all().filter(|i| i % 3000 != 0 || *i > gone);
            let wanted = behind(left, gone);
            let next = asking.ask_key(
                of,
                What::Next,
                0,
                crate::kernel::short(&gone.to_ne_bytes()),
                0,
                0,
            );
            assert_eq!((next.result == 1).then_some(next.number), wanted);
            let next = user.successor(gone.to_ne_bytes());
            assert_eq!(next.map(|(key, _)| number(&key)), wanted);
        }
        // Both end when each key is removed as it is met, and meet each once.
        let mut met = Vec::new();
        while let Some(key) = kernels.keys().next() {
            assert_eq!(asking.remove(Of::Hash, number(&key)), 0);
            met.push(number(&key));
        }
        assert_eq!(
            (met.len(), set(met)),
            (63, set(all().filter(|i| *i != here)))
        );
        let mut met = Vec::new();
        let mut next = asking.ask_key(of, What::Next, 0, [0; 256], 0, 0);
        while next.result == 1 {
            assert_eq!(asking.remove(of, next.number), 0);
            met.push(next.number);
            next = asking.ask_key(of, What::Next, 0, next.key, 0, 0);
        }
        assert_eq!(set(met), set(all().filter(|i| i % 3000 != 0)));
        assert_eq!(map.verify().unwrap().entries, 0);
    }
}

/// A process replaces each entry that its walk comes to. A HASH puts a replaced entry before those
/// of its bucket that the walk has met, so a walk may meet them again, and need not end.
#[test]
fn each_entry_is_replaced() {
    if skipped() {
        return;
    }
    let n = 200;
    let arena = BpfArena::create(64 << 20).unwrap();
    let asking = Asking::new(&arena, n as u32);
    let [_, trie, _] = ours(&arena, n);
    let of = window(&trie);
    for i in 0..n as u64 {
        assert_eq!(asking.insert(Of::Hash, i, NOEXIST, 0), 0);
        assert_eq!(asking.insert(of, i, NOEXIST, 0), 0);
    }
    let kernels = asking.0.map("hash").unwrap();
    let met: Vec<u64> = kernels
        .keys()
        .take(100 * n)
        .map(|key| {
            kernels
                .update(&key, &1u64.to_ne_bytes(), MapFlags::EXIST)
                .unwrap();
            number(&key)
        })
        .collect();
    println!(
        "HASH: {} steps over {n} entries, {} of them met",
        met.len(),
        set(met.clone()).len()
    );
    // Two entries of one bucket lead to each other for ever, unless no bucket has two.
    assert!(met.len() == 100 * n || met.len() == n, "{}", met.len());
    let mut met = Vec::new();
    let mut next = asking.ask_key(of, What::Next, 0, [0; 256], 0, 0);
    while next.result == 1 {
        assert_eq!(asking.insert(of, next.number, crate::EXIST, 1), 0);
        met.push(next.number);
        next = asking.ask_key(of, What::Next, 0, next.key, 0, 0);
    }
    assert_eq!((met.len(), set(met)), (n, set(0..n as u64)));
}

/// `struct walk` of the program.
#[derive(Clone, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Walk {
    map: [u32; 2],
    cursor: u64,
    what: u32,
    met: u32,
    done: u32,
    error: u32,
    sum: u64,
    result: i64,
    key: [u8; 256],
}

/// What a walk of a program does at each entry.
#[derive(Clone, Copy, Debug)]
enum At {
    Nothing = 0,
    Removes = 1,
    Replaces = 2,
    Inserts = 3,
}

/// A program walks over the whole map, and changes it at each entry.
#[test]
fn programs_change_the_map_that_they_walk_over() {
    if skipped() {
        return;
    }
    let n = 500u64;
    let arena = BpfArena::create(64 << 20).unwrap();
    let cursor = Words::create(&arena, "cursors", layout::CURSOR_BYTES / 8).unwrap();
    for at in [At::Nothing, At::Removes, At::Replaces, At::Inserts] {
        let asking = Asking::new(&arena, 2 * n as u32);
        let [_, trie, both] = ours(&arena, 2 * n as usize);
        for of in [Of::Hash, window(&trie), window(&both)] {
            for i in 0..n {
                assert_eq!(asking.insert(of, i, NOEXIST, i), 0);
            }
            let mut walk = Walk {
                map: of.numbers(),
                cursor: cursor.window().at as u64,
                what: at as u32,
                ..zeros()
            };
            asking.run("sw_walk", &mut walk);
            println!("{of:?} {at:?}: {} met, {} done", walk.met, walk.done);
            let (met, all) = (u64::from(walk.met), n * (n - 1) / 2);
            assert_eq!(walk.result, met as i64, "{of:?} {at:?}");
            let count = |from: u64| {
                (from..from + n)
                    .filter(|i| asking.lookup(of, *i).is_ok())
                    .count()
            };
            let (old, new) = (count(0) as u64, count(1_000_000) as u64);
            match at {
                At::Nothing | At::Removes | At::Replaces => {
                    assert_eq!((met, walk.sum, walk.error), (n, all, 0), "{of:?} {at:?}");
                    assert_eq!(u64::from(walk.done), n);
                }
                // What comes meanwhile may be met, and leads to another one. What was there is met.
                At::Inserts => {
                    assert!(met >= n && met <= 2 * n && walk.done > 0, "{of:?} {walk:?}");
                    assert!(walk.error == 0 || i64::from(walk.error) == -E2BIG);
                    assert!(new > 0 && new <= u64::from(walk.done), "{of:?} {walk:?}");
                }
            }
            let wanted = if let At::Removes = at { 0 } else { n };
            assert_eq!(old, wanted, "{of:?} {at:?}");
            if let At::Replaces = at {
                assert!((0..n).all(|i| asking.lookup(of, i) == Ok(i + 1_000_000)));
            }
        }
        for map in [trie, both] {
            map.verify().unwrap();
        }
    }
}

/// Walks from key to key beside a program that inserts and removes other keys. Ours meet each key
/// that stays once. Those over a HASH may begin anew, and then they meet keys again.
#[test]
fn what_stays_is_met_once() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(128 << 20).unwrap();
    let asking = Asking::new(&arena, 4000);
    let map = ProgramMap::<u64>::builder(&arena, "trie").with_trie();
    let map = map.max_entries(4000).mean_key(8).bytes(64 << 20);
    let map = map.build().unwrap();
    let of = window(&map);
    let stays = |key: &u64| *key < 100;
    for key in 0..100 {
        assert_eq!(asking.insert(Of::Hash, key, NOEXIST, 0), 0);
        assert_eq!(asking.insert(of, key, NOEXIST, 0), 0);
    }
    let service = map.spawn_service(Duration::from_millis(1)).unwrap();
    let stop = AtomicBool::new(false);
    let [mut walks, mut again, mut missed] = [0; 3];
    std::thread::scope(|scope| {
        let _ends = Ends(&stop);
        scope.spawn(|| {
            pinned(0, || {
                let mut first = 1000;
                while !stop.load(Ordering::Relaxed) {
                    for of in [Of::Hash, of] {
                        asking.many(of, INSERT_AND_REMOVE, (first, 1), 200);
                    }
                    first += 200;
                }
            });
        });
        let began = Instant::now();
        while walks < 20 || began.elapsed() < Duration::from_millis(500) {
            let met = asking.our_keys(map.window().number, 100_000);
            let kept: Vec<u64> = met.into_iter().filter(stays).collect();
            assert_eq!((kept.len(), set(kept)), (100, set(0..100)));
            let met = asking.kernels_keys(20_000).into_iter().filter(stays);
            let met: Vec<u64> = met.collect();
            missed += usize::from(set(met.clone()).len() < 100);
            again += usize::from(met.len() > set(met).len());
            walks += 1;
        }
    });
    println!("HASH: of {walks} walks, {again} met keys again, and {missed} missed some");
    service.stop().unwrap();
    assert_eq!(map.verify().unwrap().entries, 100);
}
