//! A new map has the memory for all its entries at once: programs insert all of them in one run,
//! and remove all of them in another, without any service in between.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use sapwood_bpf::{BpfArena, ProgramMap};

use crate::asks::Kernel;
use crate::kernel::Answers;
use crate::storm::{Counts, pin, question};
use crate::{PARTS, can, with};

/// The entries of a map.
const ENTRIES: u32 = 40_000;
/// Those of maps that one processor fills and empties, and how often. With a few thousand random
/// keys, or numbers whose lowest byte is first, one branch has 256 children of ten keys each: the
/// most nodes that are replaced for an entry.
const SIZES: [(u32, u32); 4] = [(300, 2), (2_500, 2), (3_500, 2), (ENTRIES, 10)];

/// Inserts or removes a part of the keys of a kind, in one run of a program. The error says what
/// was refused.
fn burst(
    programs: &sapwood_bpf::Programs,
    window: u32,
    kind: u32,
    part: (u32, u32),
    removes: bool,
) -> Result<(), String> {
    let (first, count) = part;
    let mut data = question(window, (kind, count), first.into(), removes.into());
    programs.answer("sw_burst", &mut data);
    let counts = Counts::of(&data);
    let all = Counts {
        done: count.into(),
        ..Counts::default()
    };
    match counts == all {
        true => Ok(()),
        false => Err(format!(
            "kind {kind}, from {first} on, removes: {removes}: {counts:?}"
        )),
    }
}

/// Steps of service, until all that programs retired is free. On an idle machine, a few steps in a
/// twentieth of a second do.
fn service(map: &ProgramMap<u64>) {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        map.service().unwrap();
        let m = map.memory().unwrap();
        if m.retired + m.waiting == 0 {
            // One more puts together what lies scattered.
            map.service().unwrap();
            return;
        }
        assert!(Instant::now() < until, "{m:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn all_entries_come_and_go_in_one_run() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(256 << 20).unwrap();
    let Kernel(programs) = Kernel::new(&arena);
    for (parts, kind, (entries, rounds)) in PARTS
        .into_iter()
        .flat_map(|parts| (0..4).map(move |kind| (parts, kind)))
        .flat_map(|(parts, kind)| SIZES.map(|size| (parts, kind, size)))
    {
        let name = format!("{parts:?} {kind} {entries}");
        let map = with(ProgramMap::<u64>::builder(&arena, &name), parts)
            .max_entries(entries as usize)
            .mean_key(if kind == 2 { 24 } else { 8 })
            .bytes(28 << 20)
            .build()
            .unwrap();
        let window = map.window().number;
        let before = map.memory().unwrap();
        for round in 0..rounds {
            burst(&programs, window, kind, (round, entries), false).expect(&name);
            if round == 0 {
                let shape = map.verify().unwrap();
                assert_eq!(shape.entries, entries as usize);
            }
            burst(&programs, window, kind, (round, entries), true).expect(&name);
            assert_eq!(map.len(), 0);
            service(&map);
        }
        let shape = map.verify().unwrap();
        assert_eq!((shape.entries, shape.refused), (0, 0));
        let m = map.memory().unwrap();
        // What lies ready for the next insertions comes on top, once.
        let more = m.frontier - before.frontier;
        assert!(more <= 1 << 20, "{more} bytes more than at first");
    }
}

#[test]
fn all_entries_come_and_go_on_all_processors_at_once() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(256 << 20).unwrap();
    let cpus = std::thread::available_parallelism().map_or(2, |n| n.get()) as u32;
    for parts in PARTS {
        let name = format!("{parts:?}");
        let map = with(ProgramMap::<u64>::builder(&arena, &name), parts)
            .max_entries(ENTRIES as usize)
            .bytes(28 << 20)
            .build()
            .unwrap();
        let window = map.window().number;
        let barrier = Barrier::new(cpus as usize);
        std::thread::scope(|scope| {
            for cpu in 0..cpus {
                let (arena, barrier, map) = (&arena, &barrier, &map);
                scope.spawn(move || {
                    pin(cpu as usize);
                    let Kernel(programs) = Kernel::new(arena);
                    let (first, end) = (ENTRIES * cpu / cpus, ENTRIES * (cpu + 1) / cpus);
                    // A thread that ended early would leave the other one at the barrier.
                    let mut refused = Vec::new();
                    for round in 0..10 {
                        for removes in [false, true] {
                            barrier.wait();
                            let part = (first, end - first);
                            let done = burst(&programs, window, round % 4, part, removes);
                            refused.extend(done.err());
                        }
                        if barrier.wait().is_leader() {
                            service(map);
                        }
                    }
                    assert_eq!(refused, [""; 0], "{parts:?}");
                });
            }
        });
        let shape = map.verify().unwrap();
        assert_eq!((shape.entries, shape.refused), (0, 0));
    }
}
