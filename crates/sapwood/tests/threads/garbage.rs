//! Readers that stand still: limits of garbage, and that everything is freed when they move on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use sapwood::Error;
use sapwood::arena::{ArenaOptions, Backing, DebugMode};
use sapwood::qp::QpStore;
use sapwood::qsbr::{Domain, LimitPolicy};

fn store_in(options: ArenaOptions, domain: &Domain) -> QpStore<u64> {
    let reserve = 1 << 28;
    let options = options.backing(Backing::Mmap { reserve });
    QpStore::builder()
        .options(options)
        .domain(domain)
        .build()
        .unwrap()
}

fn commit(store: &QpStore<u64>, entries: &[(&str, u64)]) -> u64 {
    let mut txn = store.begin();
    for (key, value) in entries {
        txn.insert(key, *value).unwrap();
    }
    txn.commit().get()
}

/// Everything that waits goes, now that nobody reads.
fn assert_all_reclaimed(store: &QpStore<u64>) {
    store.reclaim(usize::MAX);
    let memory = store.memory();
    assert_eq!(memory.waiting, (0, 0));
    assert_eq!(memory.map.arena.retired, 0);
    store.verify().unwrap();
}

#[test]
fn a_stalled_reader_brings_the_garbage_limit_and_its_end_frees_everything() {
    for debug in [DebugMode::Off, DebugMode::Poison] {
        let limit = 64 << 10;
        let domain = Domain::builder().hard_limit(limit).build();
        let store = store_in(ArenaOptions::default().debug(debug), &domain);
        commit(&store, &[("a", 0), ("b", 0), ("c", 0)]);
        let mut reader = store.reader("stalled").unwrap();
        let view = reader.view();
        let mut done = 0;
        let error = loop {
            let mut txn = store.begin();
            match txn.insert("b", done + 1) {
                Ok(old) => assert_eq!(old, Some(&done)),
                Err(rejected) => {
                    assert_eq!(rejected.value, done + 1);
                    assert_eq!((txn.len(), txn.get("b")), (3, Some(&done)));
                    break rejected.error;
                }
            }
            txn.commit();
            done += 1;
        };
        let Error::GarbageLimit(full) = error else {
            panic!("{error}")
        };
        assert_eq!(full.limit, limit);
        assert!(done > 100 && domain.garbage() <= limit && domain.garbage() > limit / 2);
        // Every kind of change is refused, nothing else is.
        let version = store.version();
        let mut txn = store.begin();
        assert!(matches!(txn.remove("a"), Err(Error::GarbageLimit(_))));
        assert!(matches!(
            txn.remove_prefix("a"),
            Err(Error::GarbageLimit(_))
        ));
        assert_eq!(txn.len(), 3);
        txn.commit();
        assert_eq!(store.version(), version);
        // A compaction reserves what it leaves, which of three entries is less than a change may.
        if let Err(error) = store.compact_step(1000) {
            assert!(matches!(error, Error::GarbageLimit(_)), "{error}");
            assert_eq!(store.version(), version);
        }
        assert!(domain.garbage() <= limit);
        assert_eq!(view.get("b"), Some(&0));
        assert_eq!(store.snapshot().get("b"), Some(&done));
        store.verify().unwrap();
        reader.quiescent();
        assert!(store.reclaim(usize::MAX) > 100);
        commit(&store, &[("b", done + 1)]);
        drop(reader);
        assert_all_reclaimed(&store);
        assert_eq!(domain.garbage(), 0);
    }
}

#[test]
fn a_compaction_that_would_pass_the_garbage_limit_changes_nothing() {
    let limit = 4 << 10;
    let domain = Domain::builder().hard_limit(limit).build();
    let store = store_in(ArenaOptions::default(), &domain);
    for i in 0..1000u64 {
        let key = (i * 7919 % 1000).to_string();
        commit(&store, &[(&key, i)]);
    }
    store.reclaim(usize::MAX);
    let version = store.version();
    let refused = store.compact_step(usize::MAX);
    assert!(
        matches!(refused, Err(Error::GarbageLimit(_))),
        "{refused:?}"
    );
    assert_eq!((store.version(), domain.garbage()), (version, 0));
    store.verify().unwrap();
    // In steps that fit it comes to its end.
    let mut steps = 0;
    while store.compact_step(4).unwrap() {
        assert!(domain.garbage() <= limit && steps < 100_000);
        steps += 1;
        store.reclaim(usize::MAX);
    }
    assert_eq!(store.read(|view| view.len()), 1000);
    assert_all_reclaimed(&store);
}

#[test]
fn a_write_at_the_garbage_limit_reclaims_before_it_is_refused() {
    let domain = Domain::builder().hard_limit(8 << 10).build();
    let store = store_in(ArenaOptions::default(), &domain);
    commit(&store, &[("a", 0), ("b", 0)]);
    let mut reader = store.reader("stalled for a while").unwrap();
    assert_eq!(reader.view().len(), 2);
    let refused = (1..).find_map(|i| {
        let mut txn = store.begin();
        let refused = txn.insert("a", i).err();
        txn.commit();
        refused
    });
    assert!(refused.is_some());
    reader.quiescent();
    let mut txn = store.begin();
    txn.insert("a", 0)
        .expect("nobody reads any more, so there is room");
    txn.commit();
}

#[test]
fn many_retirements_under_a_stalled_reader_are_all_freed_after_it() {
    let store = store_in(ArenaOptions::default(), &Domain::new());
    let n: u64 = if cfg!(miri) { 50 } else { 100_000 };
    let reader = store.reader("stalled").unwrap();
    assert!(reader.view().is_empty());
    for i in 0..n {
        commit(&store, &[("the key", i)]);
    }
    assert_eq!(store.memory().waiting.0 as u64, n - 1);
    drop(reader);
    assert_eq!(store.reclaim(usize::MAX) as u64, n - 1);
    assert_all_reclaimed(&store);
}

#[test]
fn a_blocked_write_goes_on_when_the_reader_moves() {
    let domain = Domain::builder()
        .hard_limit(8 << 10)
        .policy(LimitPolicy::Block)
        .build();
    let store = store_in(ArenaOptions::default(), &domain);
    commit(&store, &[("a", 0), ("b", 0)]);
    let mut reader = store.reader("slow").unwrap();
    assert_eq!(reader.view().len(), 2);
    let done = AtomicU64::new(0);
    let rounds = if cfg!(miri) { 400 } else { 4_000 };
    thread::scope(|s| {
        s.spawn(|| {
            for i in 0..rounds {
                commit(&store, &[("a", i)]);
                done.store(i + 1, Ordering::Release);
            }
        });
        let mut last = 0;
        loop {
            // Stands still until the writer does.
            thread::sleep(Duration::from_millis(10));
            let now = done.load(Ordering::Acquire);
            if now == rounds {
                break;
            }
            if now == last {
                assert!(domain.garbage() <= 8 << 10);
                reader.quiescent();
            }
            last = now;
            if reader.view().get("a").is_some_and(|v| v % 2 == 1) {
                thread::yield_now();
            }
        }
    });
    drop(reader);
    assert_eq!(store.read(|view| view.get("a").copied()), Some(rounds - 1));
    assert_all_reclaimed(&store);
}

#[test]
fn a_blocked_write_in_a_pin_of_its_own_is_refused() {
    let domain = Domain::builder()
        .hard_limit(4 << 10)
        .policy(LimitPolicy::Block)
        .build();
    let store = store_in(ArenaOptions::default(), &domain);
    let refused = store.read(|_| {
        (0..10_000).find_map(|i| {
            let mut txn = store.begin();
            let refused = txn.insert("a", i).err();
            txn.commit();
            refused
        })
    });
    let error = refused.expect("waiting for oneself is an error").error;
    assert!(matches!(error, Error::GarbageLimit(_)));
    commit(&store, &[("a", 0)]);
    assert_all_reclaimed(&store);
}
