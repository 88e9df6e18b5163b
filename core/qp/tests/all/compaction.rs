//! Long runs of compaction beside readers.

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
