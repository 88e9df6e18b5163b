//! Allocations that fail, at every place where they can: a failed operation changes nothing, and no
//! value is lost or dropped twice.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use sapwood::arena::{ArenaOptions, Backing, DebugMode};
use sapwood::qp::{Entry, QpMap, QpStore, QpView, ReadEntry};
use sapwood::qp::{Error, Rejected};
use sapwood::qsbr::Domain;
use sapwood_fuzz::Input;
use sapwood_fuzz::counted::{Counted, Counter};
use sapwood_model::ops::{Op, as_slice, retains};

type Model = BTreeMap<Vec<u8>, u64>;

/// An arena that is too small, or fails at times, or both.
fn options(input: &Input<'_>) -> ArenaOptions {
    let fail = [0, 2, 3, 5, 7, 11, 23, 61][input.below(8)];
    let limit = 1 << (9 + input.below(10));
    let debug = [DebugMode::Poison, DebugMode::Off][input.below(2)];
    let chunk = 512 << input.below(4);
    ArenaOptions::default()
        .fail_every(fail)
        .limit(limit)
        .chunk(chunk)
        .debug(debug)
}

fn expected(error: &Error) {
    match error {
        Error::ArenaFull(_) | Error::GarbageLimit(_) => {}
        other => panic!("not an error for lack of memory: {other}"),
    }
}

fn same_as(found: impl Iterator<Item = (Vec<u8>, u64)>, model: &Model) {
    assert!(found.eq(model.iter().map(|(k, v)| (k.clone(), *v))));
}

fn owned((key, value): ReadEntry<Counted>) -> (Vec<u8>, u64) {
    (key.to_vec(), value.get())
}

/// Checks that the map holds the entries of the model, each value once.
fn same(map: &QpMap<Counted>, model: &Model, counter: &Counter) {
    if let Err(wrong) = map.verify() {
        panic!("{wrong}");
    }
    assert_eq!(map.len(), model.len());
    same_as(map.iter().map(owned), model);
    assert_eq!(counter.alive(), model.len(), "values alive");
}

/// Checks that a rejected value is the one that the caller passed.
fn given_back(rejected: Rejected<Counted>, value: u64) {
    assert_eq!(rejected.value.get(), value);
    expected(&rejected.error);
}

fn change_map(
    map: &mut QpMap<Counted>,
    model: &mut Model,
    op: &Op,
    input: &Input<'_>,
    counter: &Counter,
) {
    match op {
        Op::Insert(key, value) if value % 2 == 0 => match map.insert(key, counter.make(*value)) {
            Ok(old) => assert_eq!(old.map(|v| v.get()), model.insert(key.clone(), *value)),
            Err(rejected) => given_back(rejected, *value),
        },
        Op::Insert(key, value) => match map.entry(key).unwrap() {
            Entry::Occupied(mut entry) => {
                assert_eq!(entry.insert(counter.make(*value)).get(), model[key]);
                model.insert(key.clone(), *value);
            }
            Entry::Vacant(entry) => match entry.try_insert(counter.make(*value)) {
                Ok(found) => {
                    assert_eq!(found.get(), *value);
                    assert_eq!(model.insert(key.clone(), *value), None);
                }
                Err(rejected) => given_back(rejected, *value),
            },
        },
        // Removing a key needs no memory.
        Op::Remove(key) => assert_eq!(map.remove(key).map(|v| v.get()), model.remove(key)),
        Op::RemovePrefix(prefix) => {
            let before = model.len();
            model.retain(|key, _| !key.starts_with(prefix));
            assert_eq!(map.remove_prefix(prefix), before - model.len());
        }
        Op::PopFirst => {
            let found = map.pop_first().map(|(k, v)| (k.to_vec(), v.get()));
            assert_eq!(found, model.pop_first());
        }
        Op::PopLast => {
            let found = map.pop_last().map(|(k, v)| (k.to_vec(), v.get()));
            assert_eq!(found, model.pop_last());
        }
        Op::Retain(bit) => {
            map.retain(|_, value| retains(*bit, value.get()));
            model.retain(|_, value| retains(*bit, *value));
        }
        Op::Clear => {
            map.clear();
            model.clear();
        }
        Op::Compact => {
            if let Err(error) = map.compact() {
                expected(&error);
            }
        }
        Op::SplitOff(key) => match map.split_off(key) {
            Ok(upper) => {
                upper.verify().unwrap();
                same_as(upper.iter().map(owned), &model.split_off(key));
            }
            Err(error) => expected(&error),
        },
        Op::Append(list) => {
            // The appended map lies in an arena that has no room but for its own entries, and that
            // never fails at random: if an entry does not fit here, its place there must still be
            // free.
            let entries: Model = list.iter().cloned().collect();
            let filled = |limit: usize| {
                let tight = ArenaOptions::default().chunk(512).limit(limit);
                let sorted = entries.iter().map(|(k, v)| (k, counter.make(*v)));
                QpMap::from_sorted_iter_in(tight.debug(DebugMode::Poison), sorted)
            };
            let mut other = filled(1 << 30).unwrap();
            if !other.is_empty() {
                let frontier = other.memory().arena.frontier;
                other = filled(frontier).unwrap();
            }
            if let Err(error) = map.append(&mut other) {
                expected(&error);
                other.verify().unwrap();
                let left: Model = other.iter().map(owned).collect();
                assert!(!left.is_empty());
                assert!(
                    left.iter().all(|(k, v)| entries.get(k) == Some(v)),
                    "not what was given"
                );
                let moved = entries.into_iter().filter(|(k, _)| !left.contains_key(k));
                model.extend(moved);
                assert_eq!(counter.alive(), model.len() + left.len(), "values alive");
            } else {
                assert!(other.is_empty());
                model.extend(entries);
            }
        }
        Op::Get(_) if input.below(8) == 0 => {
            // A map built in one call, in an arena like this one, is complete or does not exist.
            let sorted = model.iter().map(|(k, v)| (k, counter.make(*v)));
            match QpMap::from_sorted_iter_in(options(input), sorted) {
                Ok(copy) => {
                    copy.verify().unwrap();
                    same_as(copy.iter().map(owned), model);
                }
                Err(error) => expected(&error),
            }
        }
        Op::Get(key) => assert_eq!(map.get(key).map(Counted::get), model.get(key).copied()),
        Op::Range(lower, upper, _) => {
            let range = map.range::<[u8], _>((as_slice(lower), as_slice(upper)));
            let bounds = (lower.as_ref(), upper.as_ref());
            let wanted = model
                .iter()
                .filter(|(k, _)| std::ops::RangeBounds::<Vec<u8>>::contains(&bounds, *k));
            assert!(range.map(owned).eq(wanted.map(|(k, v)| (k.clone(), *v))));
        }
        _ => {}
    }
}

fn run_map(input: &Input<'_>) {
    let counter = Counter::default();
    let Ok(mut map) = QpMap::with_options(options(input)) else {
        return;
    };
    let mut model = Model::new();
    for op in input.ops(300, 100_000) {
        change_map(&mut map, &mut model, &op, input, &counter);
        same(&map, &model, &counter);
    }
    drop(map);
    assert_eq!(counter.alive(), 0, "values left behind");
}

fn same_view(view: QpView<'_, Counted>, model: &Model) {
    assert_eq!(view.len(), model.len());
    same_as(view.iter().map(owned), model);
}

/// A store whose arena and whose domain have limits, and a reader that reports its quiescent states
/// late.
fn run_store(input: &Input<'_>) {
    let counter = Counter::default();
    let domain = match input.below(3) {
        0 => Domain::builder().hard_limit(256 << input.below(8)).build(),
        _ => Domain::new(),
    };
    let reserve = 1 << 20;
    let options = options(input).backing(Backing::Mmap { reserve });
    let Ok(store) = QpStore::builder().options(options).domain(&domain).build() else {
        return;
    };
    let mut reader = store.reader("fuzz").unwrap();
    let mut model = Model::new();
    let mut kept = Vec::new();
    let mut ops = input.ops(250, 60_000);
    loop {
        let length = 1 + input.below(8);
        let mut next = model.clone();
        let mut txn = store.begin();
        let mut done = 0;
        for op in ops.by_ref().take(length) {
            done += 1;
            match &op {
                Op::Insert(key, value) => match txn.insert(key, counter.make(*value)) {
                    Ok(old) => assert_eq!(old.map(Counted::get), next.insert(key.clone(), *value)),
                    Err(rejected) => given_back(rejected, *value),
                },
                Op::Remove(key) => match txn.remove(key) {
                    Ok(old) => assert_eq!(old.map(Counted::get), next.remove(key)),
                    Err(error) => expected(&error),
                },
                Op::RemovePrefix(prefix) => match txn.remove_prefix(prefix) {
                    Ok(n) => {
                        let before = next.len();
                        next.retain(|key, _| !key.starts_with(prefix));
                        assert_eq!(n, before - next.len());
                    }
                    Err(error) => expected(&error),
                },
                Op::Clear => match txn.clear() {
                    Ok(n) => {
                        assert_eq!(n, next.len());
                        next.clear();
                    }
                    Err(error) => expected(&error),
                },
                Op::Append(list) => {
                    let mut taken = 0;
                    let entries = list.iter().inspect(|_| taken += 1);
                    match txn.insert_many(entries.map(|(k, v)| (k, counter.make(*v)))) {
                        Ok(_) => {}
                        Err(rejected) => {
                            taken -= 1;
                            given_back(rejected, list[taken].1);
                        }
                    }
                    next.extend(list[..taken].iter().cloned());
                }
                Op::Get(key) => assert_eq!(txn.get(key).map(Counted::get), next.get(key).copied()),
                _ => {}
            }
            assert_eq!(txn.len(), next.len());
            same_as(txn.iter().map(owned), &next);
        }
        if input.below(6) == 0 {
            txn.rollback();
        } else {
            same_view(reader.view(), &model);
            txn.commit();
            model = next;
        }
        if let Err(wrong) = store.verify() {
            panic!("{wrong}");
        }
        same_view(reader.view(), &model);
        match input.below(12) {
            0 => {
                if let Err(error) = store.compact_step(1 + input.below(20)) {
                    expected(&error);
                }
                store.verify().unwrap();
                same_view(reader.view(), &model);
            }
            1 => kept.push((store.snapshot(), model.clone())),
            2 => kept.clear(),
            3 | 4 => reader.quiescent(),
            5 => {
                store.reclaim(input.below(40));
            }
            _ => {}
        }
        for (snapshot, model) in &kept {
            same_as(snapshot.iter().map(owned), model);
        }
        if done < length {
            break;
        }
    }
    kept.clear();
    drop(reader);
    store.reclaim(usize::MAX);
    store.verify().unwrap();
    assert_eq!(store.memory().waiting, (0, 0), "all garbage is gone");
    assert_eq!(counter.alive(), model.len(), "values alive");
    drop(store);
    assert_eq!(counter.alive(), 0, "values left behind");
}

fuzz_target!(|bytes: &[u8]| {
    let input = Input::new(bytes);
    match input.below(2) {
        0 => run_map(&input),
        _ => run_store(&input),
    }
});
