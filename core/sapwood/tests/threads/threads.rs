//! Readers, writers and snapshots on many threads: every version is seen whole, and no memory is
//! held back for ever.
//!
//! `SAPWOOD_SOAK_SECONDS` (default 1) sets how long the tests with writers and readers run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use sapwood::arena::{ArenaOptions, Backing, DebugMode};
use sapwood::qp::{Key, QpSnapshot, QpStore, QpView};
use sapwood::qsbr::Domain;

fn soak() -> Duration {
    let seconds = match std::env::var("SAPWOOD_SOAK_SECONDS") {
        Ok(text) => text.parse().expect("SAPWOOD_SOAK_SECONDS is a number"),
        Err(_) => 1.0,
    };
    Duration::from_secs_f64(if cfg!(miri) { 0.2 } else { seconds })
}

fn store_in(options: ArenaOptions, domain: &Domain) -> QpStore<u64> {
    let reserve = 1 << 28;
    let options = options.backing(Backing::Mmap { reserve });
    QpStore::builder()
        .options(options)
        .domain(domain)
        .build()
        .unwrap()
}

fn small_store() -> QpStore<u64> {
    store_in(ArenaOptions::default(), &Domain::new())
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

// One writer, many readers: the accounts.

const ACCOUNTS: u64 = if cfg!(miri) { 12 } else { 200 };

fn account(i: u64) -> Vec<u8> {
    match i % 3 {
        0 => format!("account/{i}").into_bytes(),
        1 => [b"account/" as &[u8], &i.to_be_bytes()].concat(),
        _ => vec![i as u8; 1 + (i % 7) as usize * 5],
    }
}

/// Checks the invariants of every version: the balances add up to a constant, the pair moves
/// together, the number of entries is right, and `stamp` never decreases.
fn check_version(view: QpView<'_, u64>, last_stamp: &mut u64) {
    let stamp = *view.get("stamp").unwrap();
    assert!(
        stamp >= *last_stamp,
        "versions go forwards: {stamp} after {last_stamp}"
    );
    *last_stamp = stamp;
    assert_eq!(view.get("pair/left"), view.get("pair/right"));
    assert_eq!(view.get("pair/left"), Some(&stamp));
    let moving: Vec<_> = view.prefix("moving/").collect();
    assert_eq!(moving.len(), 1, "a key that moves is in one place");
    assert_eq!(moving[0].1, &stamp);
    let fixed = ["pair/left", "pair/right", "stamp"];
    let is_account =
        |k: &[u8]| !k.starts_with(b"moving/") && !fixed.iter().any(|f| f.as_bytes() == k);
    let sum: u64 = view
        .iter()
        .filter(|(k, _)| is_account(k))
        .map(|(_, v)| v)
        .sum();
    assert_eq!(sum, ACCOUNTS * 1000);
    assert_eq!(view.iter().count(), view.len());
    assert_eq!(view.iter().rev().count(), view.len());
}

fn transfer(store: &QpStore<u64>, stamp: u64, rng: &mut fastrand::Rng) {
    let mut txn = store.begin();
    let place = |stamp: u64| format!("moving/{}", stamp.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    if stamp > 0 {
        assert_eq!(txn.remove(place(stamp - 1)).unwrap(), Some(&(stamp - 1)));
    }
    txn.insert(place(stamp), stamp).unwrap();
    for key in ["pair/left", "stamp", "pair/right"] {
        txn.insert(key, stamp).unwrap();
    }
    for _ in 0..rng.usize(1..6) {
        let (from, to) = (account(rng.u64(..ACCOUNTS)), account(rng.u64(..ACCOUNTS)));
        let there = txn.get(&from).copied().unwrap_or(0);
        let amount = rng.u64(..=there);
        // An empty account is removed.
        if there == amount {
            txn.remove(&from).unwrap();
        } else {
            txn.insert(&from, there - amount).unwrap();
        }
        let balance = txn.get(&to).copied().unwrap_or(0) + amount;
        if balance > 0 {
            txn.insert(&to, balance).unwrap();
        }
    }
    match rng.u8(..10) {
        0 => {
            txn.rollback();
            transfer(store, stamp, rng);
        }
        _ => assert_eq!(txn.commit().get(), store.version().get()),
    }
}

/// Runs the accounts with a store whose entries are leaves, and with one whose clusters hold them.
fn bank(options: ArenaOptions) {
    let domain = Domain::new();
    bank_of(&store_in(options.clone(), &domain), &domain);
    let options = options.backing(Backing::Mmap { reserve: 1 << 28 });
    let builder = QpStore::builder().options(options).domain(&domain);
    bank_of(&builder.build_inline().unwrap(), &domain);
}

fn bank_of(store: &QpStore<u64>, domain: &Domain) {
    let mut txn = store.begin();
    for i in 0..ACCOUNTS {
        assert_eq!(txn.insert(account(i), 1000).unwrap(), None);
    }
    for key in ["pair/left", "stamp", "pair/right", "moving/0"] {
        txn.insert(key, 0).unwrap();
    }
    txn.commit();
    let stop = AtomicBool::new(false);
    let versions = AtomicU64::new(0);
    let looks = AtomicUsize::new(0);
    thread::scope(|s| {
        let (stop, looks, versions) = (&stop, &looks, &versions);
        for i in 0..2 {
            s.spawn(move || {
                let mut reader = store.reader(&format!("reader {i}")).unwrap();
                let mut last = 0;
                let mut round = i;
                while !stop.load(Ordering::Relaxed) {
                    check_version(reader.view(), &mut last);
                    looks.fetch_add(1, Ordering::Relaxed);
                    round += 1;
                    if round % 3 == 0 {
                        reader.quiescent();
                    }
                    if round % 17 == 0 {
                        let _offline = reader.offline();
                        thread::yield_now();
                    }
                }
            });
        }
        s.spawn(move || {
            let mut last = 0;
            while !stop.load(Ordering::Relaxed) {
                store.read(|view| check_version(view, &mut last));
                looks.fetch_add(1, Ordering::Relaxed);
            }
        });
        s.spawn(move || {
            let mut kept: Vec<(QpSnapshot<u64>, u64)> = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let snapshot = store.snapshot();
                let stamp = *snapshot.get("stamp").unwrap();
                kept.push((snapshot, stamp));
                for (snapshot, stamp) in &kept {
                    assert_eq!(snapshot.get("pair/left"), Some(stamp));
                    assert_eq!(snapshot.get("pair/right"), Some(stamp));
                    assert_eq!(snapshot.iter().count(), snapshot.len());
                }
                if kept.len() == 5 {
                    kept.remove(stamp as usize % 5);
                }
            }
        });
        s.spawn(move || {
            let begun = Instant::now();
            let mut rng = fastrand::Rng::with_seed(11);
            let mut stamp = 0;
            while begun.elapsed() < soak() {
                stamp += 1;
                transfer(store, stamp, &mut rng);
                if stamp % 8 == 0 {
                    store.compact_step(20).unwrap();
                }
                if stamp % 64 == 0 {
                    store.verify().unwrap();
                }
            }
            versions.store(stamp, Ordering::Relaxed);
            stop.store(true, Ordering::Relaxed);
        });
    });
    let (looks, versions) = (looks.into_inner(), versions.into_inner());
    println!("{versions} versions, {looks} looks");
    assert!(versions > 3 && looks > 3);
    assert_all_reclaimed(store);
    assert_eq!(domain.garbage(), 0);
}

#[test]
fn readers_see_each_version_whole() {
    bank(ArenaOptions::default());
}

#[test]
fn readers_see_each_version_whole_with_poisoned_memory() {
    bank(ArenaOptions::default().debug(DebugMode::Poison));
}

#[test]
#[cfg(all(unix, not(miri)))]
fn readers_see_each_version_whole_with_protected_memory() {
    bank(ArenaOptions::default().debug(DebugMode::Protect));
}

#[test]
fn all_values_of_a_version_are_its_number() {
    let store = small_store();
    let keys: Vec<String> = (0..40).map(|i| format!("{:b}", i * i)).collect();
    let mut txn = store.begin();
    for key in &keys {
        txn.insert(key, 1).unwrap();
    }
    txn.commit();
    let (stop, len) = (AtomicBool::new(false), store.read(|view| view.len()));
    thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                let mut reader = store.reader("reader").unwrap();
                while !stop.load(Ordering::Relaxed) {
                    let view = reader.view();
                    let number = *view.first_key_value().unwrap().1;
                    assert!(view.values().all(|v| *v == number));
                    assert_eq!(view.values().count(), len);
                    let mut found = vec![None; keys.len()];
                    view.get_many(&keys, &mut found);
                    assert!(found.iter().all(|v| *v == Some(&number)));
                    reader.quiescent();
                }
            });
        }
        let begun = Instant::now();
        while begun.elapsed() < soak() / 2 {
            let mut txn = store.begin();
            let number = store.version().get() + 1;
            for key in &keys {
                txn.insert(key, number).unwrap();
            }
            assert_eq!(txn.commit().get(), number);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_all_reclaimed(&store);
}

// Snapshots

#[test]
fn snapshots_are_read_on_other_threads_and_outlive_the_store() {
    let store = small_store();
    let (send, receive) = mpsc::channel::<(QpSnapshot<u64>, u64)>();
    let checker = thread::spawn(move || {
        let mut kept: Vec<_> = receive.iter().collect();
        kept.reverse();
        for (snapshot, n) in &kept {
            assert_eq!(snapshot.version().get(), *n);
            assert_eq!(snapshot.len() as u64, *n);
            assert!(snapshot.iter().map(|(_, v)| *v).eq(0..*n));
        }
        kept.len()
    });
    let rounds = if cfg!(miri) { 10 } else { 400 };
    for n in 0..rounds {
        send.send((store.snapshot(), n)).unwrap();
        let mut txn = store.begin();
        txn.insert(n.to_be_bytes(), n).unwrap();
        txn.commit();
    }
    assert!(store.memory().snapshots as u64 <= rounds);
    drop((send, store));
    assert_eq!(checker.join().unwrap() as u64, rounds);
}

#[test]
fn a_snapshot_outlives_many_commits_and_then_all_of_it_is_freed() {
    let store = small_store();
    commit(&store, &[("a", 1), ("b", 2), ("c", 3)]);
    let snapshot = store.snapshot();
    let rounds = if cfg!(miri) { 30 } else { 20_000 };
    for i in 0..rounds {
        commit(&store, &[("b", i), ("d", i)]);
    }
    let memory = store.memory();
    assert!(
        memory.waiting.0 as u64 >= rounds,
        "the snapshot holds garbage back"
    );
    assert!(snapshot.iter().eq([
        (Key::from("a"), &1),
        (Key::from("b"), &2),
        (Key::from("c"), &3)
    ]));
    drop(snapshot);
    assert_all_reclaimed(&store);
}

// Readers that end and panic

#[test]
fn readers_that_end_or_panic_hold_nothing_back() {
    let store = small_store();
    commit(&store, &[("a", 1)]);
    thread::scope(|s| {
        let ended = s.spawn(|| {
            let reader = store.reader("ends without a word").unwrap();
            reader.view().get("a").copied()
        });
        assert_eq!(ended.join().unwrap(), Some(1));
        let panicked = s.spawn(|| {
            let reader = store.reader("panics with a view").unwrap();
            let view = reader.view();
            commit(&store, &[("a", 2)]);
            panic!("with {view:?}");
        });
        assert!(panicked.join().is_err());
        let pinned = s.spawn(|| {
            store.read(|view| {
                commit(&store, &[("a", 3)]);
                panic!("with {view:?} pinned");
            })
        });
        assert!(pinned.join().is_err());
    });
    assert!(store.memory().waiting.0 > 0);
    assert_all_reclaimed(&store);
    assert_eq!(store.domain().readers(), 0);
}

// Writers

#[test]
fn one_transaction_at_a_time() {
    let store = small_store();
    let mut txn = store.begin();
    txn.insert("a", 1).unwrap();
    assert!(store.try_begin().is_none());
    assert_eq!(store.reclaim(10), 0);
    let begun = AtomicBool::new(false);
    let barrier = Barrier::new(2);
    thread::scope(|s| {
        s.spawn(|| {
            assert!(store.try_begin().is_none());
            barrier.wait();
            let second = store.begin();
            begun.store(true, Ordering::SeqCst);
            assert_eq!(second.get("a"), Some(&1));
        });
        barrier.wait();
        thread::sleep(Duration::from_millis(50));
        assert!(
            !begun.load(Ordering::SeqCst),
            "begin waits for the open transaction"
        );
        // Readers do not wait.
        assert_eq!(store.read(|view| view.len()), 0);
        assert_eq!(store.snapshot().len(), 0);
        txn.commit();
    });
    assert!(begun.into_inner());
    assert!(store.try_begin().is_some());
}

#[test]
fn writers_on_many_threads_take_turns() {
    let store = small_store();
    let each: u64 = if cfg!(miri) { 10 } else { 500 };
    thread::scope(|s| {
        for thread in 0..4u64 {
            let store = store.clone();
            s.spawn(move || {
                for i in 0..each {
                    let mut txn = store.begin();
                    let sum = txn.get("sum").copied().unwrap_or(0);
                    txn.insert("sum", sum + 1).unwrap();
                    txn.insert([thread as u8, i as u8, (i >> 8) as u8], i)
                        .unwrap();
                    txn.commit();
                }
            });
        }
    });
    assert_eq!(store.version().get(), 4 * each);
    assert_eq!(store.read(|view| view.get("sum").copied()), Some(4 * each));
    assert_eq!(store.read(|view| view.len() as u64), 4 * each + 1);
    assert_all_reclaimed(&store);
}

#[test]
fn a_panic_inside_a_transaction_rolls_back() {
    let store = small_store();
    let version = commit(&store, &[("a", 1), ("b", 2)]);
    for how in 0..3 {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut txn = store.begin();
            txn.insert("a", 10).unwrap();
            txn.remove("b").unwrap();
            match how {
                0 => panic!("with an open transaction"),
                1 => {
                    let entries = (0..9u64).map(|i| (i.to_be_bytes(), 1 / (5 - i)));
                    txn.insert_many(entries).unwrap();
                }
                _ => txn.iter().for_each(|(k, _)| assert!(k.is_empty())),
            }
        }));
        assert!(panicked.is_err());
        assert_eq!(store.version().get(), version);
        assert!(
            store
                .snapshot()
                .iter()
                .eq([(Key::from("a"), &1), (Key::from("b"), &2)])
        );
        store.verify().unwrap();
    }
    assert_eq!(commit(&store, &[("c", 3)]), version + 1);
    assert_all_reclaimed(&store);
}

#[test]
fn the_death_of_a_writer_thread_leaves_the_last_version() {
    let store = small_store();
    let dying = store.clone();
    let died = thread::spawn(move || {
        commit(&dying, &[("a", 1)]);
        let mut txn = dying.begin();
        txn.insert("a", 2).unwrap();
        panic!("a writer dies in a transaction");
    });
    assert!(died.join().is_err());
    assert_eq!(store.read(|view| view.get("a").copied()), Some(1));
    let mut txn = store
        .try_begin()
        .expect("the dead thread released the lock");
    assert_eq!(txn.insert("a", 3).unwrap(), Some(&1));
    txn.commit();
    assert_all_reclaimed(&store);
}

#[test]
fn several_stores_share_a_domain_and_one_guard() {
    let domain = Domain::new();
    let stores = [0, 1].map(|_| store_in(ArenaOptions::default(), &domain));
    let mut reader = domain.register("both").unwrap();
    for (i, store) in stores.iter().enumerate() {
        commit(store, &[("a", i as u64)]);
    }
    let guard = reader.guard();
    let views = [stores[0].view(guard), stores[1].view(guard)];
    commit(&stores[0], &[("a", 10)]);
    assert_eq!(stores[0].reclaim(usize::MAX), 0);
    assert_eq!(views.map(|v| *v.get("a").unwrap()), [0, 1]);
    reader.quiescent();
    assert_eq!(stores[0].reclaim(usize::MAX), 1);
    let foreign = Domain::new();
    let other = foreign.register("foreign").unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| stores[0].view(other.guard()).len()));
    assert!(
        panicked.is_err(),
        "a guard of another domain protects nothing here"
    );
}

#[test]
fn a_reader_may_be_sent_to_its_thread() {
    let store = Arc::new(small_store());
    commit(&store, &[("a", 1)]);
    let mut reader = store.reader("sent").unwrap();
    let found = thread::spawn(move || {
        let found = reader.view().get("a").copied();
        reader.quiescent();
        found
    });
    assert_eq!(found.join().unwrap(), Some(1));
    let few = Domain::builder().max_readers(2).build();
    let store = store_in(ArenaOptions::default(), &few);
    let two = [store.reader("1").unwrap(), store.reader("2").unwrap()];
    assert_eq!(store.reader("3").unwrap_err().max, 2);
    drop(two);
    assert!(store.reader("4").is_ok());
}
