//! Transactions, versions, differences and compaction of a store, on one thread.

use std::collections::BTreeMap;

use sapwood::arena::{ArenaOptions, Backing, DebugMode};
use sapwood::qp::Error;
use sapwood::qp::{Change, Key, QpMap, QpStore, ReadEntry, Version};

type Model = BTreeMap<Vec<u8>, u64>;

const MANY: u64 = if cfg!(miri) { 300 } else { 100_000 };

fn store_with(debug: DebugMode) -> QpStore<u64> {
    let options = ArenaOptions::default().backing(Backing::Mmap { reserve: 1 << 30 });
    QpStore::builder()
        .options(options.debug(debug))
        .build()
        .unwrap()
}

fn key(i: u64) -> Vec<u8> {
    format!("{:x}/{}", i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40, i).into_bytes()
}

/// A store of the first `n` keys.
fn filled(n: u64) -> (QpStore<u64>, Model) {
    let model: Model = (0..n).map(|i| (key(i), i)).collect();
    let options = ArenaOptions::default().backing(Backing::Mmap { reserve: 1 << 30 });
    let entries = model.iter().map(|(k, v)| (k, *v));
    (
        QpStore::builder()
            .options(options)
            .build_sorted(entries)
            .unwrap(),
        model,
    )
}

fn same(found: impl Iterator<Item = (Vec<u8>, u64)>, model: &Model) {
    assert!(found.eq(model.iter().map(|(k, v)| (k.clone(), *v))));
}

/// The entries of an iterator, with owned keys and values.
fn owned<'a>(
    entries: impl Iterator<Item = ReadEntry<'a, u64>>,
) -> impl Iterator<Item = (Vec<u8>, u64)> {
    entries.map(|(k, v)| (k.to_vec(), *v))
}

fn commit_one(store: &QpStore<u64>, key: impl AsRef<[u8]>, value: u64) -> Version {
    let mut txn = store.begin();
    txn.insert(key, value).unwrap();
    txn.commit()
}

#[test]
fn a_transaction_reads_its_own_writes_and_nobody_else_does() {
    let store = store_with(DebugMode::Poison);
    commit_one(&store, "b", 2);
    let mut txn = store.begin();
    assert_eq!(txn.insert("a", 1).unwrap(), None);
    assert_eq!(txn.insert("b", 20).unwrap(), Some(&2));
    assert_eq!(txn.insert("c", 3).unwrap(), None);
    assert_eq!(txn.remove("absent").unwrap(), None);
    assert_eq!(txn.len(), 3);
    assert_eq!(txn.get("b"), Some(&20));
    assert_eq!(txn.get_key_value("b"), Some((Key::from("b"), &20)));
    assert!(txn.contains_key("a") && !txn.is_empty());
    assert_eq!(txn.first_key_value(), Some((Key::from("a"), &1)));
    assert_eq!(txn.last_key_value(), Some((Key::from("c"), &3)));
    assert_eq!(txn.successor("a").unwrap().1, &20);
    assert_eq!(txn.predecessor("c").unwrap().1, &20);
    assert_eq!(txn.longest_prefix("bb").unwrap().1, &20);
    assert_eq!(txn.ancestors("aa").len(), 1);
    assert!(txn.range("b"..).map(|(_, v)| *v).eq([20, 3]));
    assert!(txn.prefix("").rev().map(|(_, v)| *v).eq([3, 20, 1]));
    assert!(txn.keys().eq([b"a", b"b", b"c"]) && txn.values().eq(&[1, 20, 3]));
    assert_eq!(
        format!("{txn:?}"),
        r#"QpTxn { entries: {"a": 1, "b": 20, "c": 3} }"#
    );
    store.read(|view| assert!(view.iter().eq([(Key::from("b"), &2)])));
    assert_eq!(txn.remove("c").unwrap(), Some(&3));
    assert_eq!(txn.get("c"), None);
    assert_eq!(txn.remove_prefix("b").unwrap(), 1);
    assert_eq!(txn.len(), 1);
    assert_eq!(txn.clear().unwrap(), 1);
    assert!(txn.is_empty() && txn.iter().next().is_none());
    txn.insert("z", 26).unwrap();
    txn.commit();
    store.verify().unwrap();
    assert_eq!(store.read(|view| format!("{view:?}")), r#"{"z": 26}"#);
}

#[test]
fn a_store_answers_of_its_newest_version() {
    let store = store_with(DebugMode::Poison);
    assert_eq!(
        (store.len(), store.is_empty(), store.get("a")),
        (0, true, None)
    );
    let mut txn = store.begin();
    txn.insert("a", 1).unwrap();
    txn.insert("b", 2).unwrap();
    // Queries of the store beside an open transaction of the same thread.
    assert_eq!((store.len(), store.contains_key("a")), (0, false));
    txn.commit();
    assert_eq!((store.len(), store.is_empty()), (2, false));
    assert_eq!((store.get("a"), store.get("c")), (Some(1), None));
    assert!(store.contains_key("b") && !store.contains_key("c"));
    let pin = store.pin();
    assert_eq!(pin.view().get("b"), Some(&2));
    commit_one(&store, "b", 3);
    assert_eq!((pin.view().get("b"), store.get("b")), (Some(&3), Some(3)));
}

#[test]
fn versions_count_commits_that_changed_something() {
    let store = store_with(DebugMode::Off);
    assert_eq!(store.version().get(), 0);
    assert_eq!(store.begin().commit().get(), 0);
    assert_eq!(commit_one(&store, "a", 1).get(), 1);
    let mut txn = store.begin();
    assert_eq!(txn.remove("absent").unwrap(), None);
    assert_eq!(txn.remove_prefix("none").unwrap(), 0);
    assert!(txn.insert(vec![0; 65_536], 0).is_err());
    assert_eq!(txn.commit().get(), 1, "nothing was changed");
    let mut txn = store.begin();
    txn.insert("b", 1).unwrap();
    txn.rollback();
    assert_eq!(store.version().get(), 1);
    // Writing an equal value is a change.
    assert_eq!(commit_one(&store, "a", 1).get(), 2);
    assert_eq!(store.snapshot().version(), store.version());
    assert_eq!(store.version().to_string(), "2");
    let mut txn = store.begin();
    assert_eq!(txn.clear().unwrap(), 1);
    assert_eq!(txn.commit().get(), 3);
    assert_eq!(store.begin().commit().get(), 3);
}

#[test]
fn each_snapshot_keeps_its_version_in_any_order_of_release() {
    let store = store_with(DebugMode::Poison);
    let mut rng = fastrand::Rng::with_seed(5);
    let mut model = Model::new();
    let mut kept = Vec::new();
    for round in 0..if cfg!(miri) { 30 } else { 600 } {
        kept.push((store.snapshot(), model.clone()));
        let mut txn = store.begin();
        for _ in 0..rng.usize(1..8) {
            let key = key(rng.u64(..80));
            if rng.bool() {
                assert_eq!(
                    txn.insert(&key, round).unwrap().copied(),
                    model.insert(key, round)
                );
            } else {
                assert_eq!(txn.remove(&key).unwrap().copied(), model.remove(&key));
            }
        }
        txn.commit();
        if kept.len() > 12 {
            let (snapshot, model) = kept.swap_remove(rng.usize(..kept.len()));
            same(owned(snapshot.iter()), &model);
        }
        store.reclaim(rng.usize(..20));
        let (snapshot, old) = &kept[rng.usize(..kept.len())];
        same(owned(snapshot.iter()), old);
    }
    assert_eq!(store.memory().snapshots, kept.len());
    let clones: Vec<_> = kept.iter().map(|(s, m)| (s.clone(), m.clone())).collect();
    drop(kept);
    for (snapshot, model) in clones {
        same(owned(snapshot.iter()), &model);
    }
    store.reclaim(usize::MAX);
    assert_eq!(store.memory().waiting, (0, 0));
    same(owned(store.snapshot().iter()), &model);
    store.verify().unwrap();
}

#[test]
fn a_view_stays_on_its_version() {
    let store = store_with(DebugMode::Poison);
    commit_one(&store, "a", 1);
    let mut reader = store.reader("reader").unwrap();
    let old = reader.view();
    commit_one(&store, "a", 2);
    let new = reader.view();
    assert_eq!((old.get("a"), new.get("a")), (Some(&1), Some(&2)));
    assert_eq!(reader.read(|view| *view.get("a").unwrap()), 2);
    let kept = old.iter();
    assert!(kept.chain(new).map(|(_, v)| *v).eq([1, 2]));
    reader.quiescent();
    assert_eq!(store.reclaim(usize::MAX), 1);
    drop(reader.offline());
    assert!(reader.reader_mut().is_online());
}

// Differences

#[test]
fn a_difference_of_ten_keys_in_many_yields_ten() {
    let (store, model) = filled(MANY);
    let old = store.snapshot();
    let mut txn = store.begin();
    let mut wanted = BTreeMap::new();
    for i in 0..4 {
        let key = key(i * (MANY / 5));
        let before = *txn.insert(&key, 7_000_000 + i).unwrap().unwrap();
        wanted.insert(key, (Some(before), Some(7_000_000 + i)));
    }
    for i in 0..3 {
        let key = key(i * (MANY / 5) + 1);
        wanted.insert(key.clone(), (txn.remove(&key).unwrap().copied(), None));
    }
    for i in 0..3u64 {
        let key = [b"new", &i.to_be_bytes()[..]].concat();
        txn.insert(&key, i).unwrap();
        wanted.insert(key, (None, Some(i)));
    }
    txn.commit();
    let new = store.snapshot();
    let found = |old, new| -> Vec<_> {
        QpStore::diff(old, new)
            .map(|change| {
                let key = change.key().to_vec();
                match change {
                    Change::Added(_, v) => (key, (None, Some(*v))),
                    Change::Removed(_, v) => (key, (Some(*v), None)),
                    Change::Changed(_, a, b) => (key, (Some(*a), Some(*b))),
                }
            })
            .collect()
    };
    assert_eq!(found(&old, &new), Vec::from_iter(wanted.clone()));
    let reversed = wanted.into_iter().map(|(k, (a, b))| (k, (b, a)));
    assert_eq!(found(&new, &old), Vec::from_iter(reversed));
    assert_eq!(QpStore::diff(&new, &new).count(), 0);
    same(owned(old.iter()), &model);
}

#[test]
#[cfg(not(miri))]
fn the_cost_of_a_difference_follows_the_changes() {
    let mut fastest = Vec::new();
    for n in [2_000, 200_000] {
        let (store, _) = filled(n);
        let old = store.snapshot();
        for i in 0..10 {
            commit_one(&store, key(i * n / 10), 0);
        }
        let new = store.snapshot();
        let times = (0..20).map(|_| {
            let begun = std::time::Instant::now();
            assert_eq!(QpStore::diff(&old, &new).count(), 10);
            begun.elapsed()
        });
        fastest.push(times.min().unwrap());
    }
    // A hundred times the entries; depth and caches alone cost a small factor.
    assert!(fastest[1] < fastest[0] * 25, "{fastest:?}");
}

#[test]
fn differences_to_nothing_and_between_stores_are_whole() {
    let (store, model) = filled(500);
    let mut txn = store.begin();
    txn.clear().unwrap();
    let full = store.snapshot();
    txn.commit();
    let empty = store.snapshot();
    let removed = QpStore::diff(&full, &empty);
    same(
        removed.map(|c| match c {
            Change::Removed(k, v) => (k.to_vec(), *v),
            other => panic!("{other:?}"),
        }),
        &model,
    );
    assert!(QpStore::diff(&empty, &full).all(|c| matches!(c, Change::Added(..))));
    assert_eq!(QpStore::diff(&empty, &empty).count(), 0);
    let (twin, _) = filled(500);
    let twin = twin.snapshot();
    let changes: Vec<_> = QpStore::diff(&full, &twin).collect();
    assert_eq!(changes.len(), 500);
    assert!(
        changes
            .iter()
            .all(|c| matches!(c, Change::Changed(_, a, b) if a == b))
    );
}

#[test]
fn differences_of_keys_that_are_prefixes_of_each_other() {
    let store = store_with(DebugMode::Off);
    for len in 0..40 {
        commit_one(&store, vec![0; len], len as u64);
        commit_one(&store, [vec![0; len], vec![1]].concat(), len as u64);
    }
    let old = store.snapshot();
    let mut txn = store.begin();
    for len in (0..40).step_by(3) {
        txn.remove(vec![0; len]).unwrap();
    }
    txn.insert(vec![0; 60], 60).unwrap();
    txn.commit();
    let new = store.snapshot();
    let changes: Vec<_> = QpStore::diff(&old, &new).map(|c| c.key().len()).collect();
    assert_eq!(
        changes,
        [Vec::from_iter((0..40).step_by(3)), vec![60]].concat()
    );
}

// Costs

#[test]
fn the_nodes_that_a_commit_makes_do_not_grow_with_the_map() {
    let mut waiting = Vec::new();
    for n in [MANY / 100, MANY / 10, MANY] {
        let (store, _) = filled(n);
        // The snapshot holds garbage back, so that the garbage of each commit can be counted.
        let _held = store.snapshot();
        let rounds = 50;
        for i in 0..rounds {
            commit_one(&store, key(i * n / rounds), 1);
        }
        let (nodes, bytes) = store.memory().waiting;
        assert!(nodes as u64 >= rounds);
        waiting.push((nodes as f64 / rounds as f64, bytes as f64 / rounds as f64));
    }
    // About one more level for ten times the entries, and never more nodes than the depth.
    let (small, large) = (waiting[0], waiting[2]);
    assert!(large.0 <= small.0 + 6.0, "{waiting:?}");
    assert!(large.1 <= small.1 * 3.0, "{waiting:?}");
}

#[test]
fn a_transaction_copies_each_branch_once() {
    let (store, _) = filled(1000);
    let held = store.snapshot();
    let mut txn = store.begin();
    for round in 0..20 {
        for i in 0..1000 {
            txn.insert(key(i), round).unwrap();
        }
    }
    txn.commit();
    let memory = store.memory();
    let branches = memory.map.branches.0 + memory.map.clusters.0;
    // All old branches and leaves, and the leaves replaced on the way.
    assert!(memory.waiting.0 <= branches + 20 * 1000, "{memory:?}");
    store.verify().unwrap();
    assert_eq!(held.len(), 1000);
    drop(held);
    store.reclaim(usize::MAX);
    assert_eq!(store.memory().waiting, (0, 0));
}

#[test]
fn reclaim_keeps_to_its_budget() {
    let (store, _) = filled(1000);
    let held = store.snapshot();
    let mut txn = store.begin();
    txn.clear().unwrap();
    txn.commit();
    let (waiting, bytes) = store.memory().waiting;
    assert!(waiting > 1000 && bytes > 8 * waiting);
    assert_eq!(store.reclaim(usize::MAX), 0);
    drop(held);
    assert_eq!(store.reclaim(0), 0);
    assert_eq!(store.reclaim(1), 1);
    assert_eq!(store.reclaim(10), 10);
    assert_eq!(store.memory().waiting.0, waiting - 11);
    store.verify().unwrap();
    let txn = store.begin();
    assert_eq!(store.reclaim(10), 0, "not beside a transaction");
    drop(txn);
    assert_eq!(store.reclaim(usize::MAX), waiting - 11);
    assert_eq!(store.memory().waiting, (0, 0));
    let memory = store.memory().map;
    assert_eq!(
        (memory.entries, memory.leaves, memory.arena.live),
        (0, (0, 0), 0)
    );
}

#[test]
fn commits_alone_keep_up_with_the_garbage_they_make() {
    let (store, _) = filled(MANY / 10);
    let mut most = 0;
    for i in 0..MANY / 10 {
        commit_one(&store, key(i), i);
        most = most.max(store.memory().waiting.0);
    }
    assert!(most < 1_000, "{most} nodes waited without a reader");
}

// Compaction

fn churned(debug: DebugMode) -> (QpStore<u64>, Model) {
    let store = store_with(debug);
    let n = if cfg!(miri) { 60 } else { 3_000 };
    let mut rng = fastrand::Rng::with_seed(9);
    let mut model = Model::new();
    for round in 0..n / 4 {
        let mut txn = store.begin();
        for _ in 0..12 {
            let key = key(rng.u64(..n));
            if rng.u8(..3) > 0 {
                txn.insert(&key, round).unwrap();
                model.insert(key, round);
            } else {
                assert_eq!(txn.remove(&key).unwrap().copied(), model.remove(&key));
            }
        }
        txn.commit();
    }
    (store, model)
}

#[test]
fn compaction_in_steps_changes_no_entry_for_anybody() {
    for debug in [DebugMode::Off, DebugMode::Poison] {
        let (store, model) = churned(debug);
        let snapshot = store.snapshot();
        let mut reader = store.reader("reader").unwrap();
        let mut steps = 0;
        let before = store.memory().map;
        loop {
            let view = reader.view();
            let more = store.compact_step(16).unwrap();
            assert_eq!(view.len(), model.len());
            if steps % 16 == 0 {
                same(owned(view.iter()), &model);
                same(owned(reader.view().iter()), &model);
                store.verify().unwrap();
            }
            steps += 1;
            reader.quiescent();
            if !more {
                break;
            }
            assert!(steps < 100_000, "compaction ends");
        }
        assert!(steps > 2);
        same(owned(snapshot.iter()), &model);
        same(owned(reader.view().iter()), &model);
        assert_eq!(
            QpStore::diff(&snapshot, &store.snapshot()).count(),
            0,
            "the leaves are the same"
        );
        drop((snapshot, reader));
        store.reclaim(usize::MAX);
        let after = store.memory();
        assert_eq!(after.waiting, (0, 0));
        assert_eq!(
            (after.map.branches, after.map.clusters, after.map.leaves),
            (before.branches, before.clusters, before.leaves)
        );
        store.verify().unwrap();
    }
}

#[test]
fn compaction_goes_on_between_commits() {
    let (store, mut model) = churned(DebugMode::Poison);
    let mut rounds = 0;
    let mut idle = 0;
    while idle < 2 {
        idle += usize::from(!store.compact_step(5).unwrap());
        rounds += 1;
        // Changes before the compaction's position, after it, and at it.
        if rounds % 3 == 0 && rounds < 2_000 {
            let changed = key(rounds % 700);
            commit_one(&store, &changed, rounds);
            model.insert(changed, rounds);
            let mut txn = store.begin();
            let removed = key((rounds * 7) % 700);
            txn.remove(&removed).unwrap();
            model.remove(&removed);
            txn.commit();
        }
        if rounds % 50 == 0 {
            store.verify().unwrap();
            same(owned(store.snapshot().iter()), &model);
        }
        assert!(rounds < 1_000_000, "compaction ends");
    }
    store.verify().unwrap();
    same(owned(store.snapshot().iter()), &model);
}

#[test]
#[cfg(not(miri))]
fn compaction_gives_memory_back() {
    let (store, _) = filled(MANY);
    let mut txn = store.begin();
    for i in (0..MANY).filter(|i| i % 10 > 0) {
        txn.remove(key(i)).unwrap();
    }
    txn.commit();
    store.reclaim(usize::MAX);
    let before = store.memory().map.arena;
    for _ in 0..2 {
        while store.compact_step(1000).unwrap() {
            store.reclaim(usize::MAX);
        }
        store.reclaim(usize::MAX);
    }
    let after = store.memory().map.arena;
    assert!(
        after.released > before.released || after.frontier < before.frontier,
        "{before:?} {after:?}"
    );
    assert!(after.committed < before.committed, "{before:?} {after:?}");
    assert_eq!(store.read(|view| view.iter().count()) as u64, MANY / 10);
    store.verify().unwrap();
}

#[test]
fn compacting_nothing_and_one_entry_ends() {
    for n in 0..3 {
        let (store, model) = filled(n);
        let mut steps = 0;
        while store.compact_step(1).unwrap() {
            steps += 1;
            assert!(steps < 1000);
        }
        store.verify().unwrap();
        same(owned(store.snapshot().iter()), &model);
        while store.compact_step(usize::MAX).unwrap() {}
        while store.compact_step(0).unwrap() {}
        store.verify().unwrap();
    }
}

// Making stores

#[test]
fn a_store_from_a_map_has_its_entries_as_version_zero() {
    let map: QpMap<u64> = (0..500).map(|i| (key(i), i)).collect();
    let model: Model = owned(map.iter()).collect();
    let store = QpStore::from_map(map).unwrap();
    assert_eq!(store.version().get(), 0);
    same(owned(store.snapshot().iter()), &model);
    store.verify().unwrap();
    assert_eq!(store.memory().waiting, (0, 0));
    let empty = QpStore::from_map(QpMap::<u64>::new()).unwrap();
    assert!(empty.read(|view| view.is_empty()));
    commit_one(&empty, "a", 1);
    empty.verify().unwrap();
    let shown = format!("{empty:?}");
    assert_eq!(
        shown,
        r#"QpStore { version: Version(1), entries: {"a": 1} }"#
    );
}

#[test]
fn a_sorted_build_refuses_what_is_not_sorted() {
    let built = |entries: &[(&str, u64)]| QpStore::builder().build_sorted(entries.iter().copied());
    assert_eq!(
        built(&[("a", 1), ("c", 2), ("b", 3)]).err(),
        Some(Error::NotSorted { index: 2 })
    );
    assert_eq!(
        built(&[("aa", 1), ("a", 2)]).err(),
        Some(Error::NotSorted { index: 1 })
    );
    let store = built(&[("", 0), ("a", 1), ("a", 2), ("aa", 3)]).unwrap();
    assert!(store.snapshot().values().eq(&[0, 2, 3]));
    let small = ArenaOptions::default()
        .backing(Backing::Mmap { reserve: 1 << 20 })
        .limit(8 << 10);
    let many = (0..10_000u64).map(|i| (i.to_be_bytes(), i));
    let full = QpStore::builder().options(small).build_sorted(many);
    assert!(matches!(full, Err(Error::ArenaFull(_))));
}
