//! Long runs of compaction beside readers.

use sapwood::arena::{ArenaOptions, Backing};
use sapwood::qp::QpStore;

/// Rounds of compaction under churn must not raise the memory without end.
#[test]
fn memory_stays_bounded_under_endless_compaction() {
    let (keys, rounds) = if cfg!(miri) { (60, 3) } else { (5_000u32, 60) };
    let store = QpStore::new().unwrap();
    let mut reader = store.reader("reader").unwrap();
    let mut txn = store.begin();
    for i in 0..keys {
        txn.insert(format!("name-{:05}", i * 7919 % 99_991), u64::from(i))
            .unwrap();
    }
    txn.commit();
    let live = store.memory().map.arena.live;
    let mut most = 0;
    for round in 0..rounds {
        let mut i = 0u32;
        while store.compact_step(32).unwrap() {
            let mut txn = store.begin();
            let key = format!("name-{:05}", (i % keys) * 7919 % 99_991);
            txn.insert(&key, round).unwrap();
            txn.commit();
            i += 1;
            reader.quiescent();
        }
        store.reclaim(usize::MAX);
        store.verify().unwrap();
        most = most.max(store.memory().map.arena.frontier);
    }
    assert_eq!(reader.view().len(), keys as usize);
    assert!(
        most < 5 * live + (64 << 10),
        "the frontier rose to {most} bytes with {live} bytes live"
    );
    // Every key is still present.
    let view = reader.view();
    for i in 0..keys {
        assert!(view.contains_key(format!("name-{:05}", i * 7919 % 99_991)));
    }
}

/// What readers held back until a compaction had ended goes back to the system afterwards.
#[test]
#[cfg(not(miri))]
fn memory_goes_back_when_readers_have_left() {
    const KEYS: u32 = 60_000;
    let options = ArenaOptions::default().backing(Backing::Mmap { reserve: 1 << 30 });
    let builder = || QpStore::<u64>::builder().options(options.clone());
    for store in [builder().build(), builder().build_inline()] {
        let store = store.unwrap();
        for from in (0..KEYS).step_by(1000) {
            let mut txn = store.begin();
            for i in from..from + 1000 {
                txn.insert(format!("name-{:05}", i * 7919 % 99_991), u64::from(i))
                    .unwrap();
            }
            txn.commit();
        }
        let snapshot = store.snapshot();
        while store.compact_step(1000).unwrap() {}
        store.reclaim(usize::MAX);
        let held = store.memory().map.arena;
        drop(snapshot);
        // Each call gives a part back.
        store.reclaim(KEYS as usize);
        let mut least = store.memory().map.arena.committed;
        for _ in 0..100 {
            store.reclaim(1);
            let memory = store.memory().map.arena;
            assert!(least - memory.committed <= 512 << 10, "{memory:?}");
            least = memory.committed;
        }
        let after = store.memory().map.arena;
        assert!(after.committed < held.committed, "{held:?} {after:?}");
        assert!(after.committed < 2 * after.live, "{after:?}");
        assert_eq!(store.len(), KEYS as usize);
        store.verify().unwrap();
    }
}
