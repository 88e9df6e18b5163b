//! Values that are changed in place under their key's lock, and counts for each processor.

use std::time::{Duration, Instant};

use libbpf_rs::{MapCore, MapFlags};
use sapwood_bpf::layout::program_map as k;
use sapwood_bpf::{BpfArena, Bytes, Error, ProgramMap, ProgramMapBuilder, Words, Write};
use zerocopy::{FromBytes, IntoBytes};

use crate::asks::{ANY, E2BIG, EBUSY, EINVAL, ENOENT, EOPNOTSUPP, NOEXIST, Side, What};
use crate::kernel::{Answers, Poke, word};
use crate::side::ASK;
use crate::storm::pin;
use crate::values::{Kernel, Storm, bytes, check, cpus, kernel, settle, sides, words};
use crate::{PARTS, can, with};

/// The changes in interrupts of all processors, while `during` runs: their sum.
fn with_interrupts(arena: &BpfArena, storm: &Storm, during: impl FnOnce()) -> u64 {
    let Kernel(programs) = kernel(arena);
    let map = programs.map("interrupts").unwrap();
    for cpu in 0..64u32 {
        let mut mine = storm.clone();
        mine.seed = u64::from(cpu) << 40;
        map.update(&cpu.to_ne_bytes(), mine.as_bytes(), MapFlags::ANY)
            .unwrap();
    }
    let link = programs
        .program("sw_values_interrupt")
        .unwrap()
        .attach()
        .unwrap();
    during();
    drop(link);
    // A run that has begun ends within this time.
    std::thread::sleep(Duration::from_millis(50));
    let mut done = 0;
    for cpu in 0..64u32 {
        let mine = map.lookup(&cpu.to_ne_bytes(), MapFlags::ANY).unwrap();
        let mine = Storm::read_from_bytes(&mine.unwrap()).unwrap();
        assert_eq!((mine.torn, mine.other), (0, 0), "{mine:?}");
        done += u64::from(mine.done);
    }
    done
}

/// All processors, and programs that interrupt them, add to values of four words in place: no
/// addition is lost, while other entries come and go beside them.
#[test]
fn changes_in_place_come_one_after_the_other() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    for (i, parts) in PARTS.into_iter().enumerate() {
        for size in [32, 256] {
            let map = with(
                ProgramMap::<Bytes>::builder(&arena, &format!("{size} {i}")),
                parts,
            )
            .value_bytes(size)
            .max_entries(1000)
            .bytes(8 << 20)
            .user_writes()
            .build()
            .unwrap();
            const KEYS: u32 = 5;
            let names = (0..KEYS).map(u32::to_le_bytes);
            for name in names.clone() {
                let zeros = bytes(&vec![0; size / 8]);
                assert_eq!(map.insert(name, zeros).unwrap(), Ok(()));
            }
            let service = map.spawn_service(Duration::from_millis(1)).unwrap();
            let mut sum = 0;
            let mut storm = Storm::new(&map, KEYS, 0, 0);
            storm.kind = 1;
            let interrupts = with_interrupts(&arena, &storm, || {
                let threads = std::thread::scope(|scope| {
                    let threads: Vec<_> = (0..cpus())
                        .map(|cpu| {
                            let (arena, map) = (&arena, &map);
                            scope.spawn(move || {
                                pin(cpu as usize);
                                let Kernel(programs) = kernel(arena);
                                let mut done = 0;
                                for run in 0..100 {
                                    let seed = u64::from(cpu) << 32 | run;
                                    let storm = Storm::new(map, KEYS, 300, seed);
                                    let storm = storm.run(&programs, "sw_updates");
                                    assert_eq!(storm.no_entry, 0, "{storm:?}");
                                    done += u64::from(storm.done);
                                }
                                done
                            })
                        })
                        .collect();
                    let done = threads.into_iter().map(|thread| thread.join().unwrap());
                    done.collect::<Vec<_>>()
                });
                assert!(threads.iter().all(|done| *done > 15_000), "{threads:?}");
                sum = threads.iter().sum::<u64>();
            });
            println!("{parts:?}, {size} bytes: {sum} changes, {interrupts} in interrupts");
            let mut found = 0;
            for name in names {
                let value = words(map.get(name).unwrap().unwrap());
                assert!(value.iter().all(|word| *word == value[0]), "{value:?}");
                found += value[0];
            }
            assert_eq!(found, sum + interrupts);
            settle(&map);
            service.stop().unwrap();
            check(&map, map.len());
        }
    }
}

/// A key that is locked: a change of it within its change is refused at once, and afterwards it is
/// free again. Nothing is locked after an error.
#[test]
fn a_change_within_a_change_is_refused() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let source = Words::create(&arena, "source", 64).unwrap();
    let mut side = kernel(&arena);
    for (i, parts) in PARTS.into_iter().enumerate() {
        let map = with(ProgramMap::<Bytes>::builder(&arena, &format!("{i}")), parts)
            .value_bytes(128)
            .max_entries(100)
            .bytes(4 << 20)
            .build()
            .unwrap();
        let window = map.window().number;
        let from = [source.window().at as u64, 128];
        for name in ["a", "b", "c"] {
            assert_eq!(
                side.ask(What::SetFrom, window, ANY, name.as_bytes(), &from)
                    .0,
                0
            );
        }
        let mut ask = [0; ASK];
        ask[4..8].copy_from_slice(&window.to_ne_bytes());
        ask[24..40].copy_from_slice(from.as_bytes());
        ask[88..90].copy_from_slice(&[1, b'b']);
        let begin = Instant::now();
        side.0.answer("sw_change_again", &mut ask);
        let result = i64::from_ne_bytes(ask[16..24].try_into().unwrap());
        assert_eq!(result, EBUSY, "{parts:?}");
        assert!(begin.elapsed() < Duration::from_secs(1));
        check(&map, 3);
        assert_eq!(map.drops().iter().map(|drops| drops.busy).sum::<u64>(), 1);
        for (name, wanted) in [("b", 0), ("d", ENOENT), ("b", 0)] {
            let (done, _) = side.ask(What::UpdateWith, window, 0, name.as_bytes(), &[1, 16]);
            assert_eq!(done, wanted);
        }
        assert_eq!(words(map.get("b").unwrap().unwrap()), [2; 16]);
        for (wrong, name) in [(31, &b"a"[..]), (window, &[1; 255])] {
            assert_eq!(
                side.ask(What::UpdateWith, wrong, 0, name, &[1, 16]).0,
                EINVAL
            );
        }
        check(&map, 3);
    }
    // A key that the index has no slot for.
    let map = ProgramMap::<Bytes>::builder(&arena, "over")
        .index_buckets(1)
        .value_bytes(128);
    let map = map.max_entries(200).bytes(4 << 20).build().unwrap();
    let window = map.window().number;
    let from = [source.window().at as u64, 128];
    for n in 0..200u32 {
        let name = n.to_le_bytes();
        assert_eq!(side.ask(What::SetFrom, window, NOEXIST, &name, &from).0, 0);
        map.service().unwrap();
    }
    assert!(map.verify().unwrap().spilled > 150);
    for n in 0..201u32 {
        let (done, _) = side.ask(
            What::UpdateWith,
            window,
            0,
            &n.to_le_bytes(),
            &[n.into(), 16],
        );
        assert_eq!(done, if n < 200 { 0 } else { ENOENT });
    }
    for n in 0..200u32 {
        let value = map.get(n.to_le_bytes()).unwrap().unwrap();
        assert_eq!(words(value), [u64::from(n); 16]);
    }
    check(&map, 200);
}

fn counts(arena: &BpfArena, name: &str) -> ProgramMapBuilder<Bytes> {
    ProgramMap::<Bytes>::builder(arena, name)
        .per_processor(true)
        .max_entries(100)
        .bytes(8 << 20)
}

/// All processors, and programs that interrupt them, count: each count is there once, and each
/// processor has those of its own.
#[test]
fn each_processor_counts_for_itself() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(128 << 20).unwrap();
    const KEYS: u32 = 20;
    for (i, parts) in PARTS.into_iter().enumerate() {
        for lru in [false, true] {
            if lru && parts.1 {
                continue;
            }
            let name = format!("counts {i} {lru}");
            let map = with(counts(&arena, &name), parts).lru(lru).build().unwrap();
            assert!(map.is_per_processor());
            let service = map.spawn_service(Duration::from_millis(1)).unwrap();
            let mut storm = Storm::new(&map, KEYS, 0, 0);
            storm.kind = 2;
            let mut mine = Vec::new();
            let interrupts = with_interrupts(&arena, &storm, || {
                mine = std::thread::scope(|scope| {
                    let threads: Vec<_> = (0..cpus())
                        .map(|cpu| {
                            let (arena, map) = (&arena, &map);
                            scope.spawn(move || {
                                pin(cpu as usize);
                                let Kernel(programs) = kernel(arena);
                                let mut done = 0;
                                for run in 0..50 {
                                    let seed = u64::from(cpu) << 32 | run;
                                    let storm = Storm::new(map, KEYS, 1000, seed);
                                    done += u64::from(storm.run(&programs, "sw_counts").done);
                                }
                                done
                            })
                        })
                        .collect();
                    threads
                        .into_iter()
                        .map(|thread| thread.join().unwrap())
                        .collect()
                });
            });
            println!("{name}: {mine:?}, {interrupts} in interrupts");
            assert!(mine.iter().all(|done| *done > 45_000), "{mine:?}");
            let reader = arena.reader::<Bytes>(&name).unwrap();
            assert!(reader.source().is_per_processor().unwrap());
            let mut found = vec![0; map.value_bytes() / 8];
            let mut sum = 0;
            for number in (0..KEYS).map(u32::to_le_bytes) {
                let counts = map.counts(number).unwrap().unwrap();
                assert_eq!(counts.len(), libbpf_rs::num_possible_cpus().unwrap());
                for (cpu, count) in counts.iter().enumerate() {
                    found[cpu] += count;
                }
                let all = map.sum(number).unwrap().unwrap();
                assert_eq!(all, counts.iter().sum::<u64>());
                let read = if parts.1 {
                    reader.get(number).unwrap()
                } else {
                    map.get(number).unwrap()
                };
                assert_eq!(read.unwrap().sum(), all);
                sum += all;
            }
            assert_eq!(sum, 3 * (mine.iter().sum::<u64>() + interrupts));
            for (cpu, done) in mine.iter().enumerate() {
                assert!(
                    found[cpu] >= 3 * done,
                    "processor {cpu}: {found:?} {mine:?}"
                );
            }
            assert_eq!(map.sum("absent").unwrap(), None);
            service.stop().unwrap();
            check(&map, KEYS as usize);
        }
    }
}

#[test]
fn counts_in_both_environments() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let poke = Poke::new(&arena);
    for (s, mut side) in sides(&arena).into_iter().enumerate() {
        for (i, parts) in PARTS.into_iter().enumerate() {
            let name = format!("counts {s}{i}");
            let map = with(counts(&arena, &name), parts)
                .max_entries(10)
                .build()
                .unwrap();
            let window = map.window().number;
            for n in 0..10u8 {
                assert_eq!(side.ask(What::Sum, window, 0, &[n], &[]).0, ENOENT);
                for more in [5, u64::MAX, 7] {
                    assert_eq!(side.ask(What::Count, window, 0, &[n], &[more]).0, 0);
                }
                let (done, sum) = side.ask(What::Sum, window, 0, &[n], &[]);
                assert_eq!((done, sum[0]), (0, 11));
                assert_eq!(map.sum([n]).unwrap(), Some(11));
            }
            assert_eq!(side.ask(What::Count, window, 0, b"more", &[1]).0, E2BIG);
            // A value is written as a whole, too.
            let count = map.value_bytes() / 8;
            let mut value = vec![0; count];
            value[0] = 40;
            let done = map
                .write_many(&[Write::Replace(&[3], bytes(&value))])
                .unwrap();
            assert_eq!(done, [Ok(())]);
            assert_eq!(side.ask(What::Count, window, 0, &[3], &[2]).0, 0);
            assert_eq!(map.sum([3]).unwrap(), Some(42));
            assert_eq!(side.ask(What::Remove, window, 0, &[3], &[]).0, 0);
            assert_eq!(map.sum([3]).unwrap(), None);
            check(&map, 9);
            // An heir goes on, but not with counts that cannot be.
            let at = (map.window().at + k::EACH) as u64 & !7;
            let room = u64::from(map.value_bytes() > 64);
            map.leave();
            let map = ProgramMap::<Bytes>::adopt(&arena, &name).unwrap();
            assert!(map.is_per_processor());
            assert_eq!(side.ask(What::Count, window, 0, &[4], &[1]).0, 0);
            assert_eq!(map.sum([4]).unwrap(), Some(12));
            let place = map.window().at;
            map.leave();
            let image = arena.image();
            let word = word(&image, at as usize);
            for wrong in [
                word & u64::from(u32::MAX) | 12 << 32,
                word & u64::from(u32::MAX) | 4104 << 32,
            ] {
                poke.words(at, &[wrong]);
                let refused = ProgramMap::<Bytes>::adopt(&arena, &name).unwrap_err();
                assert!(
                    matches!(&refused, Error::Damaged(why) if why.contains("counts of")),
                    "{refused}"
                );
            }
            if room == 1 {
                for wrong in [0, k::LANES_AT as u64 / 8, u64::from(u32::MAX)] {
                    poke.words(at, &[word & !u64::from(u32::MAX) | wrong]);
                    let refused = ProgramMap::<Bytes>::adopt(&arena, &name).unwrap_err();
                    assert!(
                        matches!(&refused, Error::Damaged(why) if why.contains("rooms")),
                        "{refused}"
                    );
                }
            }
            poke.words(at, &[word]);
            let map = ProgramMap::<Bytes>::adopt(&arena, &name).unwrap();
            assert_eq!((map.window().at, map.len()), (place, 9));
        }
        // Other maps have no counts.
        let plain = ProgramMap::<Bytes>::builder(&arena, &format!("plain {s}")).value_bytes(128);
        let plain = plain.max_entries(10).bytes(4 << 20).build().unwrap();
        let window = plain.window().number;
        assert!(!plain.is_per_processor());
        for what in [What::Count, What::Sum] {
            assert_eq!(side.ask(what, window, 0, b"a", &[1]).0, EOPNOTSUPP);
            assert_eq!(side.ask(what, 31, 0, b"a", &[1]).0, EINVAL);
        }
        match plain.sum("a") {
            Err(Error::Setting {
                what: "counts",
                why,
            }) => assert!(why.contains("one value")),
            other => panic!("{other:?}"),
        }
    }
}
