//! Values are dropped exactly once: when they are overwritten, cut away, erased or rejected, or
//! when the map is dropped.

use std::sync::atomic::{AtomicBool, Ordering};

use sapwood::maple::MapleMap;
use sapwood_model::range_ops::{Domain, RangeOps};

use crate::support::ledger::{Counted, Ledger, panics};
use crate::support::maple::{Pair, loud, tiny_nodes, usual_nodes};
use crate::support::steps::steps;

/// Checks that no garbage waits for readers, and that every live value belongs to an entry.
fn settled(map: &MapleMap<Counted>, ledger: &Ledger) {
    map.reclaim(usize::MAX);
    assert_eq!(map.memory().waiting, (0, 0));
    assert_eq!(ledger.alive(), map.len());
}

#[test]
fn every_value_is_an_entrys() {
    static LEDGER: Ledger = Ledger::new();
    for domain in [Domain::Tiny, Domain::Bytes, Domain::Dense] {
        let mut pair = Pair::new(tiny_nodes(loud()), |n| LEDGER.value(n as u32));
        for op in RangeOps::new(domain, 5).take(steps(600)) {
            pair.step(&op);
            settled(&pair.map, &LEDGER);
        }
        pair.agree();
        drop(pair);
        assert_eq!(LEDGER.alive(), 0);
    }
}

#[test]
fn values_stay_while_a_guard_is_held() {
    static LEDGER: Ledger = Ledger::new();
    let mut pair = Pair::new(usual_nodes(loud()), |n| LEDGER.value(n as u32));
    for (turn, ops) in (0..steps(8).max(1)).zip(1..) {
        for op in RangeOps::new(Domain::Bytes, ops).take(steps(400)) {
            pair.step(&op);
        }
        let map = pair.map.clone();
        let mut reader = map.reader("holds values").unwrap();
        reader.quiescent();
        let view = reader.view();
        let held: Vec<_> = view
            .iter()
            .map(|(range, value)| (range, value, value.tag))
            .collect();
        assert!(!held.is_empty() || steps(400) < 100);
        for op in RangeOps::new(Domain::Bytes, 100 + turn as u64).take(steps(200)) {
            pair.step(&op);
        }
        pair.map.clear().unwrap();
        pair.model.clear();
        pair.map.reclaim(usize::MAX);
        for (range, value, tag) in &held {
            assert_eq!(value.tag, *tag, "{range:?}");
        }
        assert!(LEDGER.alive() >= held.len());
        drop(held);
        drop(reader);
        settled(&pair.map, &LEDGER);
    }
    drop(pair);
    assert_eq!(LEDGER.alive(), 0);
}

#[test]
fn reservations_and_copies_drop_their_values() {
    static LEDGER: Ledger = Ledger::new();
    let map: MapleMap<Counted> = tiny_nodes(loud());
    for i in 0..40_u32 {
        map.store(u64::from(i) * 10..=u64::from(i) * 10 + 5, LEDGER.value(i))
            .unwrap();
    }
    let copy = map.dup().unwrap();
    assert_eq!((copy.len(), LEDGER.alive()), (40, 80));
    drop(copy);
    let value = LEDGER.value(99);
    let plan = map.plan_store(33..=77, &value).unwrap();
    drop(map.reserve(plan).unwrap());
    let plan = map.plan_store(33..=77, &value).unwrap();
    let reservation = map.reserve(plan).unwrap();
    reservation.store(value);
    let mut unknown = map.reserve_unknown(2).unwrap();
    unknown.store(100..=200, LEDGER.value(98)).unwrap();
    drop(unknown);
    map.insert_new(100..=100, LEDGER.value(97)).unwrap_err();
    settled(&map, &LEDGER);
    drop(map);
    assert_eq!(LEDGER.alive(), 0);
}

/// A value whose clone panics while a switch is on.
struct Fragile(Counted, &'static AtomicBool);

impl Clone for Fragile {
    fn clone(&self) -> Self {
        assert!(!self.1.load(Ordering::Relaxed), "a value's clone panics");
        Fragile(self.0.clone(), self.1)
    }
}

#[test]
fn a_clone_that_panics_changes_nothing() {
    static LEDGER: Ledger = Ledger::new();
    static PANICS: AtomicBool = AtomicBool::new(false);
    let map: MapleMap<Fragile> = tiny_nodes(loud());
    let value = |tag| Fragile(LEDGER.value(tag), &PANICS);
    for i in 0..30 {
        map.store(i * 10..=i * 10 + 8, value(i as u32)).unwrap();
    }
    let contents = || {
        map.read(|view| {
            let entries = view.iter().map(|(range, value)| (range, value.0.tag));
            entries.collect::<Vec<_>>()
        })
    };
    let before = contents();
    let mut unknown = map.reserve_unknown(3).unwrap();
    let reserved = map.memory().reserved;
    PANICS.store(true, Ordering::Relaxed);
    assert!(panics(|| map.store(142..=145, value(99)).unwrap()));
    assert!(panics(|| map.clear_range(142..=145).unwrap()));
    assert!(panics(|| drop(map.remove(142))));
    assert!(panics(|| drop(map.dup())));
    let plan = map.plan_store(142..=145, &value(99)).unwrap();
    assert!(panics(|| map.reserve(plan).unwrap().store(value(99))));
    assert_eq!(map.memory().reserved, reserved);
    assert!(panics(|| unknown.store(142..=145, value(99)).unwrap()));
    map.verify().unwrap();
    assert_eq!(contents(), before);
    // These stores need no clone.
    map.store(140..=144, value(50)).unwrap();
    unknown.clear_range(150..=155).unwrap();
    PANICS.store(false, Ordering::Relaxed);
    unknown.store(172..=175, value(51)).unwrap();
    drop(unknown);
    assert_eq!(map.memory().reserved, (0, 0));
    map.verify().unwrap();
    assert_eq!(map.len(), 33);
    map.reclaim(usize::MAX);
    assert_eq!(LEDGER.alive(), 33);
    drop(map);
    assert_eq!(LEDGER.alive(), 0);
}
