//! Tests that reserved changes take nothing from the process's heap.

use super::{MapleMap, Range, UnknownReservation};
use crate::Error;
use sapwood_arena::{ArenaOptions, Backing};
use sapwood_model::allocations::{Counting, allocations};
use sapwood_model::oracle::RangeMap;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Ranges of mixed sizes over a space in which they overlap, cut and cover each other.
struct Ranges {
    rng: fastrand::Rng,
    /// The number of indices: some hundred for each entry.
    space: u64,
}

impl Ranges {
    fn new(seed: u64, entries: u64) -> Self {
        Ranges {
            rng: fastrand::Rng::with_seed(seed),
            space: entries * 256,
        }
    }

    /// The next change: whether it is a store, and its range. Most ranges are small; one in 4096
    /// covers a tenth of all.
    fn next(&mut self) -> (bool, Range) {
        let rng = &mut self.rng;
        let start = rng.u64(..self.space);
        let len = match rng.u32(..4096) {
            0 => self.space / 10,
            1..=40 => rng.u64(1..8_000),
            41..=2_000 => rng.u64(1..=16) * 16,
            _ => rng.u64(1..300),
        };
        (rng.u8(..4) > 0, start..=start + (len - 1))
    }
}

/// Runs a change; counts how often it asked for memory.
fn counted<T>(change: impl FnOnce() -> T) -> (u64, T) {
    let before = allocations();
    let done = change();
    (allocations() - before, done)
}

/// Changes of a map, while a reader holds garbage back for some hundreds of them now and then.
fn beside_a_reader<V: Clone + Send + Sync + 'static>(
    map: &MapleMap<V>,
    changes: usize,
    mut change: impl FnMut(usize),
) {
    let mut reader = map.reader("holds garbage back").unwrap();
    for i in 0..changes {
        if i % 1_000 < 700 {
            reader.quiescent();
        }
        change(i);
    }
}

fn same(map: &MapleMap<u64>, oracle: &RangeMap<u64>) {
    map.verify().unwrap();
    map.read(|view| assert!(view.iter().eq(oracle.iter())));
}

/// A small number of changes for Miri; fewer where the tests against the oracles are short, as
/// under sanitizers.
fn count(changes: usize) -> usize {
    let ops = std::env::var("SAPWOOD_OPS").map(|ops| ops.parse::<usize>().unwrap());
    match ops {
        _ if cfg!(miri) => 60,
        Ok(ops) => changes.min(2 * ops),
        Err(_) => changes,
    }
}

fn planned(map: &MapleMap<u64>, entries: u64, changes: usize) {
    let mut ranges = Ranges::new(entries, entries);
    let mut oracle = RangeMap::new();
    let (mut nodes, mut asked) = (0, 0);
    let mut kept = None;
    beside_a_reader(map, changes, |i| {
        let (put, range) = ranges.next();
        // Snapshots for some changes of each thousand: these copy their path to the root.
        if i % 1_000 == 800 {
            kept = Some(map.snapshot());
        } else if i % 1_000 == 950 || i + 1 == changes {
            kept = None;
        }
        let (taken, ()) = if put {
            let plan = map.plan_store(range.clone(), &0).unwrap();
            let before = allocations();
            let reserved = map.reserve(plan).unwrap();
            asked += allocations() - before;
            nodes += reserved.nodes();
            counted(|| reserved.store(i as u64))
        } else {
            let plan = map.plan_clear(range.clone()).unwrap();
            let reserved = map.reserve_erase(plan).unwrap();
            counted(|| reserved.erase())
        };
        assert_eq!(taken, 0, "change {i}: {range:?}");
        if entries < 10_000 {
            match put {
                true => oracle.store(range, i as u64),
                false => oracle.clear_range(range),
            }
        }
    });
    assert!(asked > 0 && nodes > 0, "reservations make room");
    assert_eq!(map.snapshots(), 0);
    if entries < 10_000 {
        same(map, &oracle);
    }
}

#[test]
fn planned_stores_take_nothing_from_the_heap() {
    planned(&MapleMap::new(), 60_000, count(800_000));
    planned(&MapleMap::new(), 1_000, count(100_000));
    let tiny = MapleMap::builder().nodes(128, 4).build();
    planned(&tiny, 5_000, count(100_000));
}

fn unknown(map: &MapleMap<u64>, entries: u64, changes: usize, at_once: usize) {
    let mut ranges = Ranges::new(entries + 1, entries);
    let mut oracle = RangeMap::new();
    let mut held: Option<UnknownReservation<u64>> = None;
    let mut kept = None;
    beside_a_reader(map, changes, |i| {
        let reserved = held.take().filter(|reserved| reserved.remaining() > 0);
        let mut reserved = reserved.unwrap_or_else(|| map.reserve_unknown(at_once).unwrap());
        if i % 1_000 == 800 {
            kept = Some(map.snapshot());
        } else if i % 1_000 == 950 {
            kept = None;
        }
        if i % 3 == 0 {
            // Another writer's change has to make more room.
            let (_, range) = ranges.next();
            map.store(range.clone(), i as u64).unwrap();
            oracle.store(range, i as u64);
        }
        let (put, mut range) = ranges.next();
        let (taken, ()) = counted(|| match put {
            true if i % 5 == 0 => {
                let size = range.end() - range.start() + 1;
                range = reserved.alloc_range(size, 0..=u64::MAX, i as u64).unwrap();
            }
            true => reserved.store(range.clone(), i as u64).unwrap(),
            false => reserved.clear_range(range.clone()).unwrap(),
        });
        assert_eq!(taken, 0, "change {i}: {range:?}");
        match put {
            true => oracle.store(range, i as u64),
            false => oracle.clear_range(range),
        }
        held = Some(reserved);
    });
    let (taken, ()) = counted(|| drop(held));
    assert_eq!(taken, 0);
    same(map, &oracle);
}

#[test]
fn unknown_stores_take_nothing_from_the_heap() {
    unknown(&MapleMap::new(), 5_000, count(50_000), 1);
    unknown(&MapleMap::new(), 1_000, count(25_000), 100);
    let tiny = MapleMap::builder().nodes(128, 4).build();
    unknown(&tiny, 2_000, count(25_000), 7);
}

#[test]
fn what_cannot_be_reserved_is_refused_beforehand() {
    let options = ArenaOptions::default().backing(Backing::Mmap { reserve: 1 << 20 });
    let map = MapleMap::builder().options(options).build();
    map.store(0..=9, 1).unwrap();
    for changes in [1 << 16, usize::MAX / 2, usize::MAX] {
        let refused = map.reserve_unknown(changes).unwrap_err();
        assert!(matches!(refused, Error::ArenaFull(_)), "{refused}");
        assert_eq!(map.memory().reserved, (0, 0));
    }
    let mut held = map.reserve_unknown(2).unwrap();
    map.reserve_unknown(usize::MAX).unwrap_err();
    held.store(5..=6, 2).unwrap();
    assert_eq!(map.memory().entries, 3);
    map.verify().unwrap();
}

/// One store replaces all entries of a large map: it retires all nodes and values.
#[test]
fn a_reserved_store_over_everything_takes_nothing_from_the_heap() {
    #[derive(Clone)]
    struct Apart(u64);
    let map = MapleMap::new();
    let fill = |count: u64| {
        for i in 0..count {
            map.store(i * 10..=i * 10 + 5, Apart(i)).unwrap();
        }
    };
    let count = count(20_000) as u64;
    fill(count);
    let plan = map.plan_store(0..=u64::MAX, &Apart(0)).unwrap();
    let reserved = map.reserve(plan).unwrap();
    assert_eq!(counted(|| reserved.store(Apart(1))).0, 0);
    assert_eq!(map.len(), 1);
    map.clear().unwrap();
    let mut reserved = map.reserve_unknown(2).unwrap();
    // What others store meanwhile counts as well.
    fill(count);
    let ((taken, _), left) = (
        counted(|| reserved.clear_range(5..=u64::MAX).unwrap()),
        map.get(3).map(|value| value.0),
    );
    assert_eq!((taken, left), (0, Some(0)));
    assert_eq!(
        counted(|| reserved.store(0..=u64::MAX, Apart(2)).unwrap()).0,
        0
    );
    map.verify().unwrap();
    assert_eq!(map.len(), 1);
}
