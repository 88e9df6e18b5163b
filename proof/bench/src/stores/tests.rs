//! Checks every available store: its answers, its snapshots, and its readers beside a writer.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use arc_swap::ArcSwap;

use super::*;
use crate::peers::arcswap::ArcSwapImbl;
use crate::peers::left_right::LeftRight;
use crate::peers::rwlock;
use crate::peers::skiplist::Skiplist;

/// Pairs: keys with even values stay, keys with odd values are removed and inserted.
fn keys(count: u64) -> KeyList {
    let keys: Vec<_> = (0..count).map(|at| format!("key/{}", at * 7919)).collect();
    KeyList::new(keys.iter().map(|key| key.as_bytes()).zip(2..))
}

fn odd(keys: &KeyList) -> impl Iterator<Item = (&[u8], u64)> {
    keys.iter().filter(|(_, value)| value & 1 == 1)
}

fn change(writer: &mut impl Writer, of: impl FnOnce(&mut dyn FnMut(&[u8], Option<u64>))) {
    let mut txn = writer.begin();
    of(&mut |key, value| match value {
        Some(value) => txn.insert(key, value),
        None => txn.remove(key),
    });
    txn.commit();
    writer.pause();
}

fn put(writer: &mut impl Writer, keys: &KeyList) {
    change(writer, |put| {
        keys.iter().for_each(|(key, value)| put(key, Some(value)));
    });
}

fn put_odd(writer: &mut impl Writer, keys: &KeyList) {
    change(writer, |put| {
        odd(keys).for_each(|(key, value)| put(key, Some(value)));
    });
}

fn take_odd(writer: &mut impl Writer, keys: &KeyList) {
    change(writer, |put| {
        odd(keys).for_each(|(key, _)| put(key, None));
    });
}

fn answers<S: Store>() -> bool {
    if let Err(reason) = S::available() {
        assert!(S::NAME.starts_with("urcu"), "{}: {reason}", S::NAME);
        return false;
    }
    let name = S::NAME;
    let keys = keys(500);
    let (count, half) = (keys.len(), keys.len() as u64 / 2);
    let store = S::new();
    let see = |from, count| store.reader().read(&keys, from, count);
    assert_eq!(see(1, 1).absent, 1, "{name}: a new store is empty");

    put(&mut store.writer(), &keys);
    let all = Seen {
        found: count as u64,
        ..Seen::default()
    };
    assert_eq!(see(0, count), all, "{name}");
    let snapshot = store.snapshot();
    let mut writer = store.writer();
    take_odd(&mut writer, &keys);
    drop(writer);
    let less = Seen {
        found: half,
        absent: half,
        wrong: 0,
    };
    assert_eq!(see(0, count), less, "{name}");
    if let Some(get) = snapshot {
        assert_eq!(Seen::of(&keys, 0, count, get), all, "{name}: the snapshot");
    }

    // A replaced value counts as wrong, and so does a missing key that should have stayed.
    let mut writer = store.writer();
    change(&mut writer, |put| {
        put(keys.key(0), Some(4));
        put(keys.key(2), None);
    });
    drop(writer);
    assert_eq!(see(0, 3).wrong, 2, "{name}");
    put(&mut store.writer(), &keys);
    assert_eq!(see(0, count), all, "{name}: put back");

    beside(&store, &keys);
    true
}

/// Runs two readers beside a writer: each answer must be right for the state before or after a
/// change.
fn beside(store: &impl Store, keys: &KeyList) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut reader = store.reader();
                while !stop.load(Relaxed) {
                    let seen = reader.read(keys, 0, keys.len());
                    assert_eq!((seen.count(), seen.wrong), (keys.len() as u64, 0));
                    reader.pause();
                }
            });
        }
        let mut writer = store.writer();
        for _ in 0..50 {
            take_odd(&mut writer, keys);
            put_odd(&mut writer, keys);
        }
        stop.store(true, Relaxed);
    });
}

#[test]
fn every_store_answers() {
    let there = [
        answers::<Sapwood>(),
        answers::<rwlock::Qp>(),
        answers::<Published<ArcSwap<Version>>>(),
        answers::<Urcu<Memb>>(),
        answers::<Urcu<Qsbr>>(),
        answers::<rwlock::Btree>(),
        answers::<ArcSwapImbl>(),
        answers::<LeftRight>(),
        answers::<Skiplist>(),
    ];
    assert!(there.into_iter().filter(|there| *there).count() >= 7);
}
