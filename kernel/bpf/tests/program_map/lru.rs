//! Maps whose entries leave by themselves: when the map is full, and when they are not used.

use std::time::{Duration, Instant};

use sapwood_bpf::{BpfArena, Error, ProgramMap, ProgramMapBuilder, Programs, Write};

use crate::asks::{EOPNOTSUPP, Kernel, Side, What};
use crate::can;
use crate::kernel::Answers;
use crate::storm::{Counts, pin, question};

/// What `sw_burst` does with each key.
const INSERT: u32 = 0;
const REMOVE: u32 = 1;
const USE: u32 = 2;

/// A program inserts, removes or uses `count` keys from number `first` on, in one run. Keys are
/// random numbers.
fn burst(
    programs: &Programs,
    map: &ProgramMap<u64>,
    (first, count): (u32, u32),
    what: u32,
) -> Counts {
    let mut data = question(map.window().number, (0, count), first.into(), what);
    programs.answer("sw_burst", &mut data);
    Counts::of(&data)
}

fn lru(arena: &BpfArena, name: &str, entries: usize) -> ProgramMapBuilder<u64> {
    let builder = ProgramMap::builder(arena, name)
        .max_entries(entries)
        .mean_key(8);
    builder.bytes(24 << 20).with_index().lru(true)
}

#[test]
fn a_full_map_keeps_what_is_used() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let Kernel(programs) = Kernel::new(&arena);
    let map = lru(&arena, "lru", 1000).build().unwrap();
    let service = map.spawn_service(Duration::from_millis(1)).unwrap();
    // A hundred keys are used again and again, while thousands come once.
    assert_eq!(burst(&programs, &map, (0, 100), INSERT).done, 100);
    let mut kept = 100;
    for round in 1..60 {
        let new = burst(&programs, &map, (round * 1000, 200), INSERT);
        assert_eq!((new.done, new.full, new.busy), (200, 0, 0), "{new:?}");
        kept = kept.min(burst(&programs, &map, (0, 100), USE).found);
        assert!(map.len() <= 1000);
        // The next tick of the clock.
        std::thread::sleep(Duration::from_millis(3));
    }
    // The map knows what was not used for long among some forty entries.
    assert!(kept >= 70, "{kept} of 100 were kept");
    assert!(map.len() > 900, "{}", map.len());
    // Of those that came last, most are there.
    let last = burst(&programs, &map, (59_000, 200), USE);
    assert!(
        last.found >= 150 && last.found + last.no_entry == 200,
        "{last:?}"
    );
    let removed = burst(&programs, &map, (0, 100), REMOVE);
    assert!(
        removed.done >= 70 && removed.done + removed.no_entry == 100,
        "{removed:?}"
    );
    service.stop().unwrap();
    let shape = map.verify().unwrap();
    assert_eq!((shape.entries, shape.refused), (map.len(), 0));
}

/// A hundred thousand sources, and twice as many that come in one run on each processor: none is
/// refused.
#[test]
fn no_source_is_refused_for_want_of_memory() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let map = lru(&arena, "sources", 100_000).build().unwrap();
    let service = map.spawn_service(Duration::from_millis(1)).unwrap();
    let cpus = std::thread::available_parallelism().map_or(2, |n| n.get()) as u32;
    std::thread::scope(|scope| {
        for cpu in 0..cpus {
            let (arena, map) = (&arena, &map);
            scope.spawn(move || {
                pin(cpu as usize);
                let Kernel(programs) = Kernel::new(arena);
                for part in 0..20 {
                    let first = (cpu * 20 + part) * 10_000;
                    let new = burst(&programs, map, (first, 10_000), INSERT);
                    let done = (new.done, new.no_memory, new.full, new.other);
                    assert_eq!(done, (10_000 - new.busy, 0, 0, 0), "{new:?}");
                    // A processor of a virtual machine may stop while it has a lock.
                    assert!(new.busy < 10, "{new:?}");
                    // As many as come in ten milliseconds at a million a second.
                    std::thread::sleep(Duration::from_millis(10));
                }
            });
        }
    });
    service.stop().unwrap();
    assert!(map.len() > 95_000 && map.len() <= 100_000, "{}", map.len());
    let shape = map.verify().unwrap();
    assert_eq!((shape.entries, shape.refused), (map.len(), 0));
}

#[test]
fn what_is_not_used_is_gone() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let mut side = Kernel::new(&arena);
    let map = lru(&arena, "idle", 1000).max_idle(Duration::from_millis(300));
    let map = map.user_writes().build().unwrap();
    let window = map.window().number;
    let began = Instant::now();
    assert_eq!(burst(&side.0, &map, (0, 100), INSERT).done, 100);
    let at_once = burst(&side.0, &map, (0, 100), USE);
    if began.elapsed() < Duration::from_millis(250) {
        assert_eq!(at_once.found, 100, "{at_once:?}");
        assert_eq!(
            burst(&side.0, &map, (0, 100), INSERT).other,
            100,
            "they are there"
        );
    }
    std::thread::sleep(Duration::from_millis(350));
    let later = burst(&side.0, &map, (0, 100), USE);
    assert_eq!((later.found, later.no_entry), (0, 100));
    // A key that was there may come again, also as a new one; it cannot be replaced.
    assert_eq!(burst(&side.0, &map, (0, 50), INSERT).done, 50);
    let there = burst(&side.0, &map, (0, 100), USE);
    assert_eq!((there.found, there.no_entry), (50, 50));
    assert_eq!(map.len(), 100, "those that are gone keep their places");
    map.verify().unwrap();
    // An heir goes on.
    map.leave();
    let heir = ProgramMap::<u64>::adopt(&arena, "idle").unwrap();
    std::thread::sleep(Duration::from_millis(350));
    assert_eq!(burst(&side.0, &heir, (0, 100), USE).no_entry, 100);
    assert_eq!(
        heir.write_many(&[Write::Insert(b"new", 1)]).unwrap(),
        [Ok(())]
    );
    // Other maps have no uses, and tries none at all.
    let usual = ProgramMap::<u64>::builder(&arena, "usual").with_index();
    let usual = usual.max_entries(10).bytes(4 << 20).build().unwrap();
    assert_eq!(burst(&side.0, &usual, (0, 1), USE).error, EOPNOTSUPP);
    let refused = lru(&arena, "trie", 10).with_trie().build();
    assert!(
        matches!(refused, Err(Error::Setting { what: "lru", .. })),
        "{refused:?}"
    );
    assert_eq!(side.ask(What::Lookup, window, 0, b"absent", &[]).0, -2);
}
