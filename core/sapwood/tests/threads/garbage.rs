//! Stalled readers: limits of garbage, and the freeing of all garbage when the readers continue.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sapwood::OldestSnapshot;
use sapwood::arena::{ArenaOptions, Backing, DebugMode};
use sapwood::lpm::Ipv4Fib;
use sapwood::maple::MapleMap;
use sapwood::qp::Error;
use sapwood::qp::QpStore;
use sapwood::qsbr::{Domain, LimitPolicy, Stall, StallKind};

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

/// Checks that all garbage is freed when no reader is left.
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
        // Every kind of change is refused, and no other operation is.
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
        // A compaction reserves its garbage, which for three entries is less than a change may
        // need.
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
    // In steps that fit, it completes.
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
        .expect("no reader is left, so there is room");
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
            // The reader stalls until the writer does.
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

/// The reports to another thread while a writer waits at the hard limit.
struct Told {
    snapshots: usize,
    oldest: Option<OldestSnapshot>,
    stalls: Vec<Stall>,
}

const KEPT_LIMIT: usize = 8 << 10;

fn domain_that_blocks() -> Domain {
    Domain::builder()
        .hard_limit(KEPT_LIMIT)
        .policy(LimitPolicy::Block)
        .stall_after(Duration::from_millis(1))
        .build()
}

/// Makes a snapshot on a thread with this name.
fn kept_by<S: Send>(name: &str, make: impl FnOnce() -> S + Send) -> S {
    thread::scope(|s| {
        let keeper = thread::Builder::new().name(name.to_string());
        keeper.spawn_scoped(s, make).unwrap().join().unwrap()
    })
}

/// Writes until a snapshot blocks the writer, and collects the reports; then drops the snapshot,
/// and the writer must finish.
fn blocked_by<S>(snapshot: S, write: impl Fn(u64) + Sync, ask: impl Fn() -> Told) -> Told {
    let rounds = if cfg!(miri) { 400 } else { 4_000 };
    let done = AtomicU64::new(0);
    let told = thread::scope(|s| {
        s.spawn(|| {
            for i in 0..rounds {
                write(i);
                done.store(i + 1, Ordering::Release);
            }
        });
        let start = Instant::now();
        let mut last = u64::MAX;
        let told = loop {
            thread::sleep(Duration::from_millis(10));
            let now = done.load(Ordering::Acquire);
            let told = ask();
            let held = told.oldest.as_ref().map_or(0, |oldest| oldest.bytes);
            // The writer has stalled, with much garbage.
            let blocked = now == last && held > KEPT_LIMIT / 2;
            if blocked || start.elapsed() > Duration::from_secs(60) {
                break told;
            }
            last = now;
        };
        // No assertion here: a failure would leave the scope waiting.
        drop(snapshot);
        told
    });
    assert_eq!(done.load(Ordering::Acquire), rounds);
    told
}

/// Checks that the report names the snapshot, its age and the garbage that it holds back.
fn assert_names(told: &Told, version: u64) {
    assert_eq!(told.snapshots, 1);
    let oldest = told.oldest.as_ref().unwrap();
    assert_eq!(oldest.version, version);
    assert_eq!(oldest.thread.as_deref(), Some("keeper"));
    assert!(oldest.bytes > KEPT_LIMIT / 2 && oldest.bytes <= KEPT_LIMIT);
    assert!(oldest.age >= Duration::from_millis(10));
    let name = format!("version {version} by thread keeper");
    assert!(oldest.to_string().starts_with(&name), "{oldest}");
    let kept = |stall: &&Stall| stall.kind == StallKind::Snapshot;
    let stall = told.stalls.iter().find(kept).unwrap();
    assert_eq!((&stall.name, stall.bytes), (&name, oldest.bytes));
    assert!(stall.stood_for >= oldest.age && stall.generations > 0);
    let report = stall.to_string();
    assert!(
        report.starts_with(&format!("snapshot of {name} for ")),
        "{report}"
    );
}

#[test]
fn a_store_writer_that_a_snapshot_blocks_is_explained() {
    let domain = domain_that_blocks();
    let store = store_in(ArenaOptions::default(), &domain);
    commit(&store, &[("a", 0), ("b", 0)]);
    let snapshot = kept_by("keeper", || store.snapshot());
    let ask = || Told {
        snapshots: store.snapshots(),
        oldest: store.oldest_snapshot(),
        stalls: domain.stalls(),
    };
    let told = blocked_by(snapshot, |i| assert!(commit(&store, &[("a", i)]) > 1), ask);
    assert_names(&told, 1);
    assert_eq!((store.snapshots(), store.oldest_snapshot()), (0, None));
    assert_all_reclaimed(&store);
    assert!(domain.stalls().is_empty());
}

#[test]
fn a_range_map_writer_that_a_snapshot_blocks_is_explained() {
    let domain = domain_that_blocks();
    let map: MapleMap<u64> = MapleMap::builder().domain(&domain).build();
    map.store(0..=9, 0).unwrap();
    let snapshot = kept_by("keeper", || map.snapshot());
    let ask = || Told {
        snapshots: map.snapshots(),
        oldest: map.oldest_snapshot(),
        stalls: domain.stalls(),
    };
    let told = blocked_by(snapshot, |i| map.store(0..=9, i).unwrap(), ask);
    assert_names(&told, 0);
    assert_eq!((map.snapshots(), map.oldest_snapshot()), (0, None));
    map.reclaim(usize::MAX);
    map.verify().unwrap();
    assert_eq!(map.memory().waiting, (0, 0));
    assert!(domain.stalls().is_empty());
}

#[test]
fn a_fib_writer_that_a_snapshot_blocks_is_explained() {
    let domain = domain_that_blocks();
    let fib: Ipv4Fib<u64> = Ipv4Fib::builder()
        .root_bits(6)
        .domain(&domain)
        .build()
        .unwrap();
    let net = "10.1.2.0/24".parse().unwrap();
    fib.insert(net, 7).unwrap();
    let snapshot = kept_by("keeper", || fib.snapshot());
    let ask = || Told {
        snapshots: fib.snapshots(),
        oldest: fib.oldest_snapshot(),
        stalls: domain.stalls(),
    };
    let told = blocked_by(
        snapshot,
        |i| assert!(fib.insert(net, i).unwrap().is_some()),
        ask,
    );
    assert_names(&told, 1);
    assert_eq!((fib.snapshots(), fib.oldest_snapshot()), (0, None));
    fib.reclaim(usize::MAX);
    fib.verify().unwrap();
    assert_eq!(fib.memory().waiting, (0, 0));
    assert!(domain.stalls().is_empty());
}

#[test]
fn a_snapshot_holds_back_what_later_versions_retired() {
    let store = store_in(ArenaOptions::default(), &Domain::new());
    for i in 0..10 {
        commit(&store, &[("a", i), ("b", i)]);
    }
    let old = store.snapshot();
    let same = old.clone();
    assert_eq!(store.oldest_snapshot().unwrap().bytes, 0);
    commit(&store, &[("a", 10)]);
    let between = store.oldest_snapshot().unwrap().bytes;
    let new = store.snapshot();
    commit(&store, &[("b", 11)]);
    let oldest = store.oldest_snapshot().unwrap();
    assert_eq!((oldest.version, store.snapshots()), (10, 3));
    store.reclaim(usize::MAX);
    // No reader is left, so the waiting garbage is what the snapshots hold back.
    assert_eq!(oldest.bytes, store.memory().waiting.1);
    drop(old);
    assert_eq!(store.oldest_snapshot().unwrap().version, 10);
    drop(same);
    let younger = store.oldest_snapshot().unwrap();
    assert_eq!((younger.version, store.snapshots()), (11, 1));
    assert_eq!(younger.bytes, oldest.bytes - between);
    store.reclaim(usize::MAX);
    assert_eq!(younger.bytes, store.memory().waiting.1);
    drop(new);
    assert_eq!(store.oldest_snapshot(), None);
    assert_all_reclaimed(&store);
}
