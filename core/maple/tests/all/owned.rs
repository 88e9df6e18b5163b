//! The owned range map compared with its naive oracle: answers, contents and invariants after every
//! step; what changes return; splits, joins, drops, and memory that runs out.

use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::support::ledger::{Counted, Ledger};
use crate::support::maple::{Number, is_memory, loud_heap};
use crate::support::owned::{Model, OwnedPair, tiny_owned};
use crate::support::steps::steps;
use sapwood::arena::ArenaOptions;
use sapwood::maple::{Error, RangeMap, Split};
use sapwood_model::range_ops::{Domain, RangeOp, RangeOps};

type Range = RangeInclusive<u64>;

/// Runs over every domain; returns the greatest height of a tree.
fn every_domain<V: Number>(
    map: impl Fn() -> RangeMap<V>,
    make: impl Fn(u64) -> V + Copy,
    ops: usize,
    every: usize,
) -> usize {
    let mut height = 0;
    for domain in Domain::ALL {
        let mut pair = OwnedPair::new(map(), make);
        for (turn, op) in RangeOps::new(domain, 1).take(steps(ops)).enumerate() {
            pair.step(turn, &op);
            if turn % every == 0 {
                pair.agree();
                height = height.max(pair.map.memory().height);
            }
        }
        pair.agree();
        let copy = pair.map.clone();
        assert!(copy == pair.map);
        let entries: Vec<_> = copy
            .into_iter()
            .map(|(range, v)| (range, v.number()))
            .collect();
        assert_eq!(entries, pair.model.to_vec());
    }
    height
}

#[test]
fn numbers_in_tiny_nodes() {
    let height = every_domain(|| tiny_owned(loud_heap()), |n| n, 3_000, 1);
    assert!(height >= 2 || steps(3_000) < 3_000, "height {height}");
}

#[test]
fn numbers_in_usual_nodes() {
    let height = every_domain(RangeMap::new, |n| n, 4_000, 1);
    assert!(height >= 1 || steps(4_000) < 4_000, "height {height}");
}

/// Values that own memory, in slots of 16 bytes.
#[test]
fn values_in_slots() {
    every_domain(|| tiny_owned(loud_heap()), |n| (Box::new(n), n), 1_500, 3);
    every_domain(RangeMap::new, |n| (Box::new(n), n), 1_500, 3);
}

/// A value that is too large for a slot, and has an alignment of its own.
#[derive(Clone, Debug, PartialEq)]
#[repr(align(64))]
struct Large(Box<u64>, [u64; 9]);

impl Number for Large {
    fn number(&self) -> u64 {
        assert_eq!(self.1, [*self.0; 9]);
        assert_eq!(std::ptr::from_ref(self).addr() % 64, 0);
        *self.0
    }
}

#[test]
fn values_in_boxes() {
    every_domain(
        || tiny_owned(loud_heap()),
        |n| Large(Box::new(n), [n; 9]),
        1_500,
        3,
    );
}

/// Values without bytes, and with few.
#[test]
fn small_values() {
    let mut map = RangeMap::new();
    for i in 0..500_u64 {
        map.store(3 * i..=3 * i + i % 3, ()).unwrap();
    }
    map.clear_range(100..=900).unwrap();
    map.verify().unwrap();
    assert_eq!(map.first(), Some((0..=0, &())));
    let mut map = RangeMap::new();
    for i in 0..500_u64 {
        map.store(3 * i..=3 * i + i % 3, i as u8).unwrap();
    }
    map.verify().unwrap();
    assert!((0..500).all(|i| map.get(3 * i) == Some(&(i as u8))));
}

#[test]
fn each_value_is_dropped_once() {
    static LEDGER: Ledger = Ledger::new();
    impl PartialEq for Splitting {
        fn eq(&self, other: &Self) -> bool {
            self.number() == other.number()
        }
    }
    /// A value that is not cloned by the map.
    #[derive(Clone)]
    struct Splitting(Counted);
    impl Number for Splitting {
        fn number(&self) -> u64 {
            u64::from(self.0.tag)
        }
    }
    every_domain(
        RangeMap::new,
        |n| Splitting(LEDGER.value(n as u32)),
        2_000,
        7,
    );
    assert_eq!(LEDGER.alive(), 0);
}

/// A mapping whose value is the distance from what it maps: a cut shifts it, a join restores it.
/// The model is a page array.
#[test]
fn offsets_follow_their_pages() {
    const PAGES: u64 = 400;
    let mut rng = fastrand::Rng::with_seed(4);
    let mut map = RangeMap::with_split(Split::at(|at: &(u64, u8), by| (at.0 + by, at.1)));
    let mut pages = vec![None; PAGES as usize];
    for turn in 0..steps(3_000) {
        let from = rng.u64(..PAGES);
        let most = 1 << rng.u32(..7);
        let to = (from + rng.u64(..most)).min(PAGES - 1);
        let inside = from as usize..=to as usize;
        match rng.u8(..6) {
            0 => {
                let removed = map.take_range(from..=to).unwrap();
                let there = pages[inside].iter_mut().filter_map(Option::take);
                let removed = removed.into_iter().flat_map(|(range, (at, mode))| {
                    (0..=range.end() - range.start()).map(move |i| (at + i, mode))
                });
                assert!(removed.eq(there));
            }
            1 | 2 => {
                let mode = rng.u8(..3);
                let changed = |_: Range, value: &mut (u64, u8)| value.1 = mode;
                let join = |left: &(u64, u8), len: u64, right: &(u64, u8)| {
                    *right == (left.0 + len + 1, left.1)
                };
                map.modify_range_by(from..=to, changed, join).unwrap();
                pages[inside]
                    .iter_mut()
                    .flatten()
                    .for_each(|(_, old)| *old = mode);
                // No two neighbours that touch the range could be joined.
                let near = map
                    .range(from.saturating_sub(1)..=to + 1)
                    .collect::<Vec<_>>();
                for pair in near.windows(2) {
                    let ((left, value), (right, other)) = (&pair[0], &pair[1]);
                    let touch = left.end() + 1 == *right.start();
                    assert!(!touch || !join(value, left.end() - left.start(), other));
                }
            }
            _ => {
                let value = (rng.u64(..1 << 40), rng.u8(..3));
                map.store(from..=to, value).unwrap();
                for (i, page) in pages[inside].iter_mut().enumerate() {
                    *page = Some((value.0 + i as u64, value.1));
                }
            }
        }
        if turn % 16 == 0 {
            map.verify().unwrap();
            for (i, page) in (0..).zip(&pages) {
                let found = map.get_entry(i);
                let found = found.map(|(range, value)| (value.0 + i - range.start(), value.1));
                assert_eq!(found, *page, "page {i}");
            }
        }
    }
}

/// With values that cannot be split, a change that needs it is refused, and the map is as it was.
#[test]
fn values_that_are_never_split() {
    struct Unique(u64);
    let mut map = RangeMap::with_split(Split::never());
    for i in 0..200 {
        map.store(10 * i..=10 * i + 8, Unique(i)).unwrap();
    }
    let refused = map.store(43..=44, Unique(0)).unwrap_err();
    let wanted = Error::Split { start: 40, end: 48 };
    assert_eq!((refused.value.0, refused.error), (0, wanted.clone()));
    assert_eq!(map.clear_range(43..=44), Err(wanted.clone()));
    assert_eq!(map.take_range(45..=100).err(), Some(wanted));
    // Over many leaves, beginning and ending inside of entries.
    map.clear_range(43..=1_944).unwrap();
    map.verify().unwrap();
    assert_eq!(map.len(), 11);
    assert_eq!(
        map.get_entry(41).map(|(range, v)| (range, v.0)),
        Some((40..=42, 4))
    );
    let right = map.get_entry(1_945).map(|(range, v)| (range, v.0));
    assert_eq!(right, Some((1_945..=1_948, 194)));
}

/// A full arena refuses a change, which gives its value back; the map stays as it was.
#[test]
fn memory_runs_out() {
    let options = ArenaOptions::default().limit(32 << 10);
    let mut map = RangeMap::with_options(options, Split::by_clone());
    let mut model = Model::new();
    let mut rng = fastrand::Rng::with_seed(3);
    let mut refusals = 0;
    for turn in 0..steps(6_000) as u64 {
        let from = rng.u64(..1 << 40);
        match map.store(from..=from + 5, (Box::new(turn), turn)) {
            Ok(()) => model.store(from..=from + 5, turn),
            Err(rejected) => {
                assert_eq!(rejected.value.number(), turn);
                is_memory(rejected.error);
                refusals += 1;
                // What is removed makes room again.
                let first = *model.first().unwrap().0.start();
                if turn % 3 == 0 && map.remove(first).is_ok() {
                    model.remove(first);
                }
            }
        }
    }
    map.verify().unwrap();
    assert!(refusals > 0 || steps(6_000) < 6_000);
    assert!(map.iter().map(|(range, v)| (range, v.1)).eq(model.to_vec()));
    map.clear();
    map.store(0..=1, (Box::new(1), 1)).unwrap();
    assert_eq!(map.len(), 1);
}

/// Every nth request of memory fails: nothing is lost.
#[test]
fn every_nth_request_fails() {
    for n in 1..30 {
        let options = ArenaOptions::default().fail_every(n);
        let mut map = RangeMap::with_nodes(options, Split::by_clone(), (192, 4));
        let mut model = Model::new();
        for (turn, op) in (0..).zip(RangeOps::new(Domain::Pages, n).take(steps(400))) {
            let (done, range, value) = match &op {
                RangeOp::Store(range, value) if !range.is_empty() => {
                    let stored = map.store(range.clone(), (Box::new(*value), *value));
                    (stored.map_err(Error::from), range, Some(*value))
                }
                RangeOp::ClearRange(range) if !range.is_empty() => {
                    (map.clear_range(range.clone()), range, None)
                }
                _ => continue,
            };
            match (done, value) {
                (Ok(()), Some(value)) => model.store(range.clone(), value),
                (Ok(()), None) => model.clear_range(range.clone()),
                (Err(error), _) => is_memory(error),
            }
            if turn % 8 == 0 {
                map.verify().unwrap();
                assert!(map.iter().map(|(range, v)| (range, v.1)).eq(model.to_vec()));
            }
        }
    }
}

/// A split that panics leaves the map as it was.
#[test]
fn a_split_that_panics_changes_nothing() {
    // In one leaf, and over many.
    for entries in [1, if cfg!(miri) { 80 } else { 1_000 }] {
        let mut map = RangeMap::with_split(Split::at(|_: &String, _| panic!("no")));
        for i in 0..entries {
            map.store(100 * i..=100 * i + 50, i.to_string()).unwrap();
        }
        for range in [20..=30, 0..=30, 20..=100 * entries - 80] {
            let changed = catch_unwind(AssertUnwindSafe(|| {
                map.store(range.clone(), String::new()).unwrap();
            }));
            assert!(changed.is_err(), "{range:?}");
            map.verify().unwrap();
        }
        let there = map.into_iter();
        assert!(there.eq((0..entries).map(|i| (100 * i..=100 * i + 50, i.to_string()))));
    }
}

/// Small maps take little, and a cleared map nothing.
#[test]
fn memory_of_small_maps() {
    let mut map = RangeMap::new();
    assert_eq!(map.memory().arena.committed, 0);
    for i in 0..20_u64 {
        map.store(i << 13..=(i << 13) + 0xFFF, i).unwrap();
    }
    let memory = map.memory().arena;
    assert!(memory.committed + memory.overhead <= 5 << 9, "{memory:?}");
    map.clear();
    assert_eq!(map.memory().arena.committed, 0);
    let entries = if cfg!(miri) { 1_000 } else { 100_000 };
    for i in 0..entries {
        map.store(i << 13..=(i << 13) + 0xFFF, i).unwrap();
    }
    let full = map.memory();
    assert!(full.total() < entries as usize * 20, "{full}");
    map.clear_range(0..=u64::MAX).unwrap();
    assert!(map.memory().arena.committed <= 1 << 12);
}
