//! No step of a compaction, and no call with a budget, gives back more than a bounded piece of
//! memory to the system; all steps together give back what they leave.

use sapwood::arena::{Arena, ArenaOptions, HeaderMode, STEP_MOST};
use sapwood::lpm::Ipv4Fib;
use sapwood::qp::{QpShared, QpStore};

use crate::counted::{Counted, GivenBack, Taken};

/// As many bytes must go back in all that a step without a bound would be seen.
const MUCH: usize = 8 * STEP_MOST;
const BYTES: usize = 160 << 20;

fn arena(layout: u64) -> (Arena, GivenBack) {
    let (arena, given, _) = counted(layout);
    (arena, given)
}

fn counted(layout: u64) -> (Arena, GivenBack, Taken) {
    let (region, given) = Counted::new(BYTES);
    let taken = region.taken();
    let options = ArenaOptions::default()
        .header(HeaderMode::Page)
        .layout_hash(layout);
    let arena = Arena::with_region(Box::new(region), options).unwrap();
    (arena, given, taken)
}

fn key(i: u32) -> [u8; 8] {
    (u64::from(i.wrapping_mul(2_654_435_761)) << 8 | u64::from(i % 7)).to_be_bytes()
}

fn prefix(i: u32) -> ipnet::Ipv4Net {
    let address = i.wrapping_mul(0x9e37_79b1) & !0xff;
    ipnet::Ipv4Net::new_assert(address.into(), 24)
}

/// Takes all steps; returns their number and the bytes that they gave back.
fn steps(given: &GivenBack, mut step: impl FnMut() -> bool) -> (usize, usize) {
    let (mut steps, mut sum) = (0, 0);
    loop {
        let more = step();
        let bytes = given.take();
        assert!(bytes <= STEP_MOST, "{bytes} bytes in step {steps}");
        (steps, sum) = (steps + 1, sum + bytes);
        if !more {
            return (steps, sum);
        }
    }
}

#[test]
fn no_step_of_a_store_gives_back_more_than_its_bound() {
    const ENTRIES: u32 = 400_000;
    for budget in [64, 100_000] {
        let (arena, given) = arena(QpStore::<u64>::layout_hash());
        let store = QpStore::<u64>::builder().build_in(arena).unwrap();
        let all: Vec<u32> = (0..ENTRIES).collect();
        for part in all.chunks(1000) {
            let mut txn = store.begin();
            for &i in part {
                txn.insert(key(i), 1).unwrap();
            }
            txn.commit();
        }
        for part in all.chunks(1000) {
            let mut txn = store.begin();
            for &i in part.iter().filter(|&&i| i % 16 > 0) {
                txn.remove(key(i)).unwrap();
            }
            txn.commit();
        }
        store.reclaim(usize::MAX);
        assert_eq!(given.take(), 0);
        let (count, sum) = steps(&given, || store.compact_step(budget).unwrap());
        assert!(sum > MUCH / 4, "{sum} bytes in {count} steps");
        let memory = store.memory().map.arena;
        assert_eq!(memory.released, sum);
        store.verify().unwrap();
    }
}

#[test]
fn no_step_of_a_shared_map_gives_back_more_than_its_bound() {
    const ENTRIES: u32 = 400_000;
    for budget in [64, 100_000] {
        let (arena, given) = arena(QpShared::<u64>::layout_hash());
        let map = QpShared::<u64>::builder().build_in(arena).unwrap();
        for i in 0..ENTRIES {
            map.insert(key(i), 1).unwrap();
        }
        // Those that were inserted first stay.
        for i in ENTRIES / 16..ENTRIES {
            map.remove(key(i)).unwrap();
        }
        map.domain().synchronize();
        let mut sum = 0;
        // The first calls free the nodes, and the next ones go on with their pages.
        for _ in 0..BYTES / STEP_MOST {
            map.reclaim(4096);
            let bytes = given.take();
            assert!(bytes <= STEP_MOST, "{bytes} bytes");
            sum += bytes;
        }
        let (count, more) = steps(&given, || map.compact_step(budget).unwrap());
        sum += more;
        assert!(sum > MUCH, "{sum} bytes, {more} of them in {count} steps");
        map.verify().unwrap();
    }
}

#[test]
fn no_step_of_a_table_gives_back_more_than_its_bound() {
    const PREFIXES: u32 = 300_000;
    for budget in [64, 1 << 16] {
        let (arena, given) = arena(Ipv4Fib::<u32>::layout_hash());
        let fib = Ipv4Fib::<u32>::builder().build_in(arena).unwrap();
        for i in 0..PREFIXES {
            fib.insert(prefix(i), i % 100).unwrap();
        }
        assert_eq!(given.take(), 0);
        let (count, sum) = steps(&given, || fib.compact_step(budget).unwrap());
        assert!(sum > MUCH, "{sum} bytes in {count} steps");
        fib.verify().unwrap();
    }
}

/// Only long transactions may wait for huge pages.
#[test]
fn short_transactions_and_steps_of_a_store_take_small_pages() {
    const ENTRIES: u32 = 20_000;
    let (arena, _, taken) = counted(QpStore::<u64>::layout_hash());
    let store = QpStore::<u64>::builder().build_in(arena).unwrap();
    let before = taken.large();
    for i in 0..ENTRIES {
        let mut txn = store.begin();
        txn.insert(key(i), 1).unwrap();
        txn.commit();
    }
    let filled = taken.small();
    while store.compact_step(64).unwrap() {}
    assert!(filled > 100 && taken.small() > filled);
    assert_eq!(taken.large(), before);
    let mut txn = store.begin();
    for i in ENTRIES..2 * ENTRIES {
        txn.insert(key(i), 1).unwrap();
    }
    txn.commit();
    assert!(taken.large() > before + 100);
}

#[test]
fn short_steps_of_shared_maps_and_tables_take_small_pages() {
    let (arena, _, taken) = counted(QpShared::<u64>::layout_hash());
    let map = QpShared::<u64>::builder().build_in(arena).unwrap();
    for i in 0..20_000 {
        map.insert(key(i), 1).unwrap();
    }
    let before = taken.large();
    while map.compact_step(64).unwrap() {}
    assert!(taken.small() > 0);
    assert_eq!(taken.large(), before);

    let (arena, _, taken) = counted(Ipv4Fib::<u32>::layout_hash());
    let fib = Ipv4Fib::<u32>::builder().build_in(arena).unwrap();
    for i in 0..20_000 {
        fib.insert(prefix(i), 1).unwrap();
    }
    let before = taken.large();
    while fib.compact_step(64).unwrap() {}
    assert!(taken.small() > 0);
    assert_eq!(taken.large(), before);
}
