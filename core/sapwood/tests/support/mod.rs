//! Applies the model's operations to the real maps, and compares.
#![allow(dead_code)] // Each test, and each fuzz target, uses only a part of it.

use std::ops::{Bound, ControlFlow, RangeBounds};

use sapwood::arena::{ArenaOptions, DebugMode};
use sapwood::qp::{Change, Key, QpMap, QpSnapshot, QpStore, QpTxn, QpView, ReadEntry};
use sapwood_model::ops::{Direction, Op, Outcome, as_slice, retains};
use sapwood_model::oracle::{self, ByteMap};

pub use super::values::Value;
use super::values::{cuts, denial_of, keys_of};

/// Options that detect misuse: freed memory is poisoned, chunks are small.
pub fn loud() -> ArenaOptions {
    ArenaOptions::default().debug(DebugMode::Poison)
}

fn entries<'a, V: ?Sized + Value>(items: impl IntoIterator<Item = ReadEntry<'a, V>>) -> Outcome {
    Outcome::entries(items.into_iter().map(|(key, value)| (key, value.number())))
}

fn entry<V: ?Sized + Value>(item: Option<ReadEntry<'_, V>>) -> Outcome {
    Outcome::entry(item.map(|(key, value)| (key, value.number())))
}

/// The entries between two bounds, by an iterator, by a cursor and by `for_each`.
macro_rules! ascending {
    ($map:expr, $lower:expr, $upper:expr) => {{
        let bounds = (as_slice($lower), as_slice($upper));
        let mut lent = Vec::new();
        let end = $map.for_each::<[u8], _, ()>(bounds, |key, value| {
            lent.push((key.to_vec(), value.number()));
            ControlFlow::Continue(())
        });
        let found = entries($map.range::<[u8], _>(bounds));
        assert!(end.is_continue());
        assert_eq!(Outcome::Entries(lent), found);
        let within = (Bound::Unbounded, bounds.1);
        let by_cursor = walk!($map, $lower, within, seek, next, prev);
        assert_eq!(Outcome::Entries(by_cursor), found);
        found
    }};
}

/// The same in descending order.
macro_rules! descending {
    ($map:expr, $lower:expr, $upper:expr) => {{
        let bounds = (as_slice($lower), as_slice($upper));
        let found = entries($map.range::<[u8], _>(bounds).rev());
        let within = (bounds.0, Bound::Unbounded);
        let by_cursor = walk!($map, $upper, within, seek_back, prev, next);
        assert_eq!(Outcome::Entries(by_cursor), found);
        found
    }};
}

/// The entries from a bound on, as long as they are within others, by a cursor that goes to and
/// fro.
macro_rules! walk {
    ($map:expr, $near:expr, $within:expr, $seek:ident, $next:ident, $back:ident) => {{
        let mut cursor = $map.cursor();
        let copy = |entry: Option<(&[u8], &_)>| entry.map(|(k, v)| (k.to_vec(), Value::number(v)));
        let mut at = match as_slice($near) {
            Bound::Included(key) => copy(cursor.$seek(key)),
            Bound::Excluded(key) => match copy(cursor.$seek(key)) {
                Some((k, _)) if k == key => copy(cursor.$next()),
                other => other,
            },
            Bound::Unbounded => {
                while cursor.$back().is_some() {}
                copy(cursor.$next())
            }
        };
        let (mut last, mut list) = (None, Vec::new());
        while let Some((key, value)) = at
            && RangeBounds::<[u8]>::contains(&$within, &key[..])
        {
            assert_eq!(copy(cursor.entry()).as_ref(), Some(&(key.clone(), value)));
            if last.is_some() {
                assert_eq!(copy(cursor.$back()), last);
                cursor.$next();
            }
            last = Some((key, value));
            list.extend(last.clone());
            at = copy(cursor.$next());
        }
        list
    }};
}

/// Applies one operation to the map.
pub fn apply<V: ?Sized + Value>(map: &mut QpMap<V>, op: &Op) -> Outcome {
    match op {
        Op::Insert(key, value) => Outcome::Value(V::map_insert(map, key, *value).unwrap()),
        Op::Remove(key) => Outcome::Value(map.remove(key).map(V::taken)),
        Op::Get(key) => Outcome::Value(map.get(key).map(V::number)),
        Op::Prefix(prefix, Direction::Forward) => entries(map.prefix(prefix)),
        Op::Prefix(prefix, Direction::Backward) => entries(map.prefix(prefix).rev()),
        Op::Range(lower, upper, Direction::Forward) => ascending!(map, lower, upper),
        Op::Range(lower, upper, Direction::Backward) => descending!(map, lower, upper),
        Op::Predecessor(key) => entry(map.predecessor(key)),
        Op::Successor(key) => entry(map.successor(key)),
        Op::LongestPrefix(key) => entry(map.longest_prefix(key)),
        Op::Ancestors(key) => entries(map.ancestors(key)),
        Op::AncestorsSep(key, separator) => entries(map.ancestors_at(key, *separator)),
        Op::Closest(name, separator) => keys_of(&map.closest(name, *separator, cuts)).into(),
        Op::Denial(name, separator) => denial_of(&map.denial(name, *separator, cuts)).into(),
        Op::RemovePrefix(prefix) => {
            let there = entries(map.prefix(prefix));
            let Outcome::Entries(list) = &there else {
                unreachable!()
            };
            assert_eq!(map.remove_prefix(prefix), list.len());
            there
        }
        Op::PopFirst => Outcome::Entry(map.pop_first().map(|(k, v)| (k.into(), V::taken(v)))),
        Op::PopLast => Outcome::Entry(map.pop_last().map(|(k, v)| (k.into(), V::taken(v)))),
        Op::Retain(bit) => {
            V::map_retain(map, |value| retains(*bit, value));
            Outcome::Done
        }
        Op::SplitOff(key) => {
            let upper = map.split_off(key).unwrap();
            upper.verify().unwrap();
            Outcome::Entries(
                upper
                    .into_iter()
                    .map(|(k, v)| (k.into(), V::taken(v)))
                    .collect(),
            )
        }
        Op::Append(list) => {
            let mut other = V::map_of(list);
            map.append(&mut other).unwrap();
            assert!(other.is_empty());
            Outcome::Done
        }
        Op::Compact => {
            map.compact().unwrap();
            Outcome::Done
        }
        Op::GetMany(keys) => {
            let mut out = vec![None; keys.len()];
            map.get_many(keys, &mut out);
            Outcome::Values(out.into_iter().map(|v| v.map(V::number)).collect())
        }
        Op::Clear => {
            map.clear();
            Outcome::Done
        }
    }
}

/// Applies one operation to a transaction, if transactions have it; the others become reads.
pub fn apply_txn<V: ?Sized + Value>(txn: &mut QpTxn<'_, V>, op: &Op, model: &mut ByteMap<u64>) {
    match op {
        Op::Insert(key, value) => {
            let old = V::txn_insert(txn, key, *value).unwrap();
            assert_eq!(old, model.insert(key, *value));
        }
        Op::Remove(key) => {
            assert_eq!(txn.remove(key).unwrap().map(V::number), model.remove(key));
        }
        Op::RemovePrefix(prefix) => {
            assert_eq!(
                txn.remove_prefix(prefix).unwrap(),
                model.remove_prefix(prefix).len()
            );
        }
        Op::Clear => {
            assert_eq!(txn.clear().unwrap(), model.len());
            model.clear();
        }
        Op::Append(list) => {
            V::txn_insert_all(txn, list).unwrap();
            for (key, value) in list {
                model.insert(key, *value);
            }
        }
        Op::PopFirst => {
            let popped = txn.pop_first().unwrap();
            let popped = popped.map(|(key, value)| (key.into_vec(), value.number()));
            assert_eq!(popped, model.pop_first());
        }
        Op::PopLast => {
            let popped = txn.pop_last().unwrap();
            let popped = popped.map(|(key, value)| (key.into_vec(), value.number()));
            assert_eq!(popped, model.pop_last());
        }
        Op::Retain(_) | Op::SplitOff(_) | Op::Compact => {}
        read => {
            let found = match read {
                Op::Get(key) => Outcome::Value(txn.get(key).map(V::number)),
                Op::Prefix(prefix, Direction::Forward) => entries(txn.prefix(prefix)),
                Op::Prefix(prefix, Direction::Backward) => entries(txn.prefix(prefix).rev()),
                Op::Range(lower, upper, Direction::Forward) => ascending!(txn, lower, upper),
                Op::Range(lower, upper, Direction::Backward) => descending!(txn, lower, upper),
                Op::Predecessor(key) => entry(txn.predecessor(key)),
                Op::Successor(key) => entry(txn.successor(key)),
                Op::LongestPrefix(key) => entry(txn.longest_prefix(key)),
                Op::Ancestors(key) => entries(txn.ancestors(key)),
                Op::AncestorsSep(key, separator) => entries(txn.ancestors_at(key, *separator)),
                Op::Closest(name, separator) => {
                    keys_of(&txn.closest(name, *separator, cuts)).into()
                }
                Op::Denial(name, separator) => {
                    denial_of(&txn.denial(name, *separator, cuts)).into()
                }
                Op::GetMany(keys) => {
                    let mut out = vec![None; keys.len()];
                    txn.get_many(keys, &mut out);
                    Outcome::Values(out.into_iter().map(|v| v.map(V::number)).collect())
                }
                _ => unreachable!("changes are above"),
            };
            assert_eq!(found, read.apply(model), "{read:?}");
        }
    }
}

fn numbered<'a, V: ?Sized + Value>((key, value): ReadEntry<'a, V>) -> (Key<'a>, u64) {
    (key, value.number())
}

fn numbers(model: &ByteMap<u64>) -> impl DoubleEndedIterator<Item = (Key<'_>, u64)> {
    model.iter().map(|(key, n)| (Key::from(key), *n))
}

/// Compares all entries, in both directions.
pub fn same_map<V: ?Sized + Value>(map: &QpMap<V>, model: &ByteMap<u64>) {
    assert_eq!(map.len(), model.len());
    assert!(map.iter().map(numbered).eq(numbers(model)));
    assert!(map.iter().rev().map(numbered).eq(numbers(model).rev()));
}

/// Compares all entries of a snapshot.
pub fn same_snapshot<V: ?Sized + Value>(snapshot: &QpSnapshot<V>, model: &ByteMap<u64>) {
    assert_eq!(snapshot.len(), model.len());
    assert!(snapshot.iter().map(numbered).eq(numbers(model)));
}

/// Compares all entries of a view.
pub fn same_view<V: ?Sized + Value>(view: QpView<'_, V>, model: &ByteMap<u64>) {
    assert_eq!(view.len(), model.len());
    assert!(view.iter().map(numbered).eq(numbers(model)));
}

/// Compares the differences of two snapshots with those of their models. A store also reports a key
/// that was written again with an equal value; the model does not.
pub fn same_diff<V: ?Sized + Value>(
    old: &QpSnapshot<V>,
    new: &QpSnapshot<V>,
    old_model: &ByteMap<u64>,
    new_model: &ByteMap<u64>,
) {
    let found: Vec<_> = QpStore::diff(old, new)
        .filter(|c| !matches!(c, Change::Changed(_, a, b) if a == b))
        .map(|c| match c {
            Change::Added(k, v) => (k, None, Some(v.number())),
            Change::Removed(k, v) => (k, Some(v.number()), None),
            Change::Changed(k, a, b) => (k, Some(a.number()), Some(b.number())),
        })
        .collect();
    let wanted = oracle::diff(old_model, new_model);
    let wanted: Vec<_> = wanted
        .iter()
        .map(|c| match c {
            oracle::Change::Added { key, new } => (Key::from(key), None, Some(**new)),
            oracle::Change::Removed { key, old } => (Key::from(key), Some(**old), None),
            oracle::Change::Changed { key, old, new } => (Key::from(key), Some(**old), Some(**new)),
        })
        .collect();
    assert_eq!(found, wanted);
}

/// Runs operations on an owned map and compares every answer with the model. Verifies after every
/// step while the map is small, at intervals when it is large. Returns the number of operations.
pub fn run_map<V: ?Sized + Value>(
    map: &mut QpMap<V>,
    ops: impl Iterator<Item = Op>,
    small: usize,
) -> u64 {
    let mut model = ByteMap::new();
    let mut n = 0;
    for op in ops {
        n += 1;
        let found = apply(map, &op);
        let wanted = op.apply(&mut model);
        assert_eq!(found, wanted, "operation {n}: {op:?}");
        assert_eq!(map.len(), model.len());
        if map.len() <= small || n % 1024 == 0 {
            if let Err(wrong) = map.verify() {
                panic!("after operation {n}, {op:?}: {wrong}");
            }
        }
        if n % 4096 == 0 {
            same_map(map, &model);
        }
    }
    map.verify().unwrap();
    same_map(map, &model);
    n
}

/// Runs a store against the model of versions: transactions of a few operations, committed or
/// rolled back, with snapshots that live for a while, a reader, differences, and compaction in
/// between.
pub fn run_store<V: ?Sized + Value>(
    store: &QpStore<V>,
    mut ops: impl Iterator<Item = Op>,
    mut random: impl FnMut(usize) -> usize,
    small: usize,
) -> u64 {
    let mut model: ByteMap<u64> = ByteMap::new();
    let mut kept: Vec<(QpSnapshot<V>, ByteMap<u64>)> = Vec::new();
    let mut reader = store.reader("differential").unwrap();
    let mut n = 0;
    let mut rounds = 0u64;
    loop {
        rounds += 1;
        let length = 1 + random(12);
        let mut next = model.clone();
        let mut txn = store.begin();
        let mut done = 0;
        for op in ops.by_ref().take(length) {
            apply_txn(&mut txn, &op, &mut next);
            assert_eq!(txn.len(), next.len());
            done += 1;
        }
        n += done as u64;
        if random(8) == 0 {
            txn.rollback();
        } else {
            let before = store.snapshot();
            same_view(reader.view(), &model);
            txn.commit();
            let after = store.snapshot();
            same_diff(&before, &after, &model, &next);
            model = next;
        }
        if model.len() <= small || rounds % 256 == 0 {
            if let Err(wrong) = store.verify() {
                panic!("after round {rounds}: {wrong}");
            }
        }
        same_view(reader.view(), &model);
        if random(3) == 0 {
            reader.quiescent();
        }
        if random(4) == 0 {
            store.compact_step(1 + random(40)).unwrap();
            store.verify().unwrap();
        }
        if random(10) == 0 {
            kept.push((store.snapshot(), model.clone()));
        }
        if random(40) == 0 {
            for (snapshot, model) in &kept {
                same_snapshot(snapshot, model);
            }
            if let [(a, ma), .., (b, mb)] = &kept[..] {
                same_diff(a, b, ma, mb);
                same_diff(b, a, mb, ma);
            }
            let keep = random(kept.len() + 1);
            kept.truncate(keep);
        }
        if random(20) == 0 {
            store.reclaim(usize::MAX);
        }
        if done < length {
            break;
        }
    }
    for (snapshot, model) in &kept {
        same_snapshot(snapshot, model);
    }
    drop(kept);
    drop(reader);
    store.reclaim(usize::MAX);
    store.verify().unwrap();
    let memory = store.memory();
    assert_eq!(memory.waiting, (0, 0), "all garbage is freed");
    assert_eq!(memory.snapshots, 0);
    n
}
