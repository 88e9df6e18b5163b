//! Transactions of a map of ranges beside readers: each sees one whole or not at all.
//! `SAPWOOD_MOVES` sets the number of moved mappings.

use std::sync::atomic::{AtomicBool, Ordering};

use sapwood::maple::{MapleMap, MapleView};

use crate::support::ranges::{steps, tiny};

/// A mapping that moves, as many as there are slots for it.
const MOVER: u64 = u64::MAX;
const SLOTS: u64 = 64;

/// Where the mapping is: it is in one place only.
fn place(view: MapleView<'_, u64>) -> u64 {
    let mut places = (0..SLOTS).filter(|slot| view.get(10 * slot + 5) == Some(&MOVER));
    let place = places.next().expect("the mapping is nowhere");
    assert_eq!(places.next(), None, "the mapping is in two places");
    let walked = view.iter().filter(|(_, value)| **value == MOVER);
    assert!(
        walked
            .map(|(range, _)| range)
            .eq([10 * place..=10 * place + 9])
    );
    // One gap as large as the mapping is left, where nothing else is mapped.
    let gap = view.find_gap(10, 0..=10 * SLOTS - 1);
    assert!(gap.is_some_and(|gap| view.range(gap).next().is_none()));
    place
}

fn moves(map: &MapleMap<u64>, count: u64) {
    // All slots but one are mapped; the mapping moves to the free one.
    for slot in 0..SLOTS - 1 {
        let value = if slot == 0 { MOVER } else { slot };
        map.store(10 * slot..=10 * slot + 9, value).unwrap();
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let over = &over;
                scope.spawn(move || {
                    let mut handle = map.reader("test").unwrap();
                    let (mut asked, mut seen) = (0_u64, 0_u64);
                    while !over.load(Ordering::Relaxed) || asked < 100 {
                        let now = handle.view().freeze();
                        let first = place(now.view());
                        assert_eq!(place(now.view()), first, "it has moved meanwhile");
                        seen |= 1 << first;
                        asked += 1;
                        handle.quiescent();
                    }
                    seen
                })
            })
            .collect();
        let (mut at, mut free) = (0, SLOTS - 1);
        let mut rng = fastrand::Rng::with_seed(1);
        for turn in 0..count {
            // The neighbour of the free slot goes into the mapping's old place, now and then.
            if turn % 3 == 0 {
                map.move_range(10 * at..=10 * at + 9, 10 * free).unwrap();
                (at, free) = (free, at);
                continue;
            }
            let other = rng.u64(..SLOTS);
            let mut txn = map.begin();
            txn.move_range(10 * at..=10 * at + 9, 10 * free).unwrap();
            if other != at && other != free {
                txn.move_range(10 * other..=10 * other + 9, 10 * at)
                    .unwrap();
            }
            if turn % 5 == 0 {
                // It is dropped: nothing has moved.
                continue;
            }
            txn.commit();
            let left = if other != at && other != free {
                other
            } else {
                at
            };
            (at, free) = (free, left);
        }
        over.store(true, Ordering::Relaxed);
        for reader in readers {
            let seen = reader.join().unwrap();
            assert!(seen.count_ones() > 1 || count < 1_000, "{seen:#b}");
        }
    });
    println!("{count} moves");
    map.reclaim(usize::MAX);
    map.verify().unwrap();
    assert_eq!(map.memory().waiting, (0, 0));
}

fn count(usual: usize) -> u64 {
    let set = std::env::var("SAPWOOD_MOVES").ok();
    set.map_or(steps(usual) as u64, |moves| {
        moves.parse().expect("a number")
    })
}

#[test]
fn moved_mappings_in_tiny_nodes() {
    moves(&tiny().build(), count(100_000));
}

#[test]
fn moved_mappings_in_usual_nodes() {
    moves(&MapleMap::new(), count(200_000));
}
