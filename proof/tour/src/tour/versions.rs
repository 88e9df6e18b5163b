//! Chapter: transactions, snapshots, differences.

use std::collections::BTreeMap;
use std::time::Duration;

use sapwood::qp::{Change, QpSnapshot, QpStore, ReadEntry};
use serde_json::{Value, json};

use super::data::{Set, as_entry};
use super::{Chapter, Tour, grouped, timed};
use crate::errors::Error;

/// The chapter on the effects of a commit, on snapshots and on differences.
pub struct Versions;

type Oracle = BTreeMap<Box<[u8]>, u64>;

impl Chapter for Versions {
    fn name(&self) -> &'static str {
        "versions"
    }

    fn title(&self) -> &'static str {
        "Transactions, snapshots, differences"
    }

    fn run(&self, tour: &mut Tour) -> Result<Value, Error> {
        let sets = std::mem::take(&mut tour.sets);
        let set = &sets[0];
        let store = QpStore::from_map(set.map.clone())?;
        let before = store.snapshot();
        tour.say(format!(
            "A QpStore has the {} {}. One transaction adds, removes and changes some keys. It \
             sees its own changes at once; readers see none of them until it commits.",
            grouped(store.snapshot().len()),
            set.name
        ))?;

        let (now, committing) = commit(tour, set, &store)?;

        tour.say("\nA snapshot keeps its version until it is dropped, on any thread:")?;
        tour.check(same(before.iter(), &set.oracle), || {
            "a snapshot changed".into()
        })?;
        tour.say(format!(
            "  version {}: {} entries; version {}: {} entries",
            before.version(),
            grouped(before.len()),
            store.version(),
            grouped(store.read(|view| view.len()))
        ))?;
        rollback(tour, &store, &now)?;
        let mut figures = difference(tour, set, &now, &before, &store)?;
        let verdict = store.verify();
        tour.check(verdict.is_ok(), || format!("the store: {verdict:?}"))?;
        tour.sets = sets;
        figures["commit_micros"] = (committing.as_secs_f64() * 1e6).into();
        Ok(figures)
    }
}

/// How many keys are removed, and how many are changed.
fn part(set: &Set) -> usize {
    (set.keys.len() / 10).min(1000)
}

/// Runs one transaction, and checks what it and readers see before and after its commit. Returns
/// all entries after it, and the time of the commit.
fn commit(tour: &mut Tour, set: &Set, store: &QpStore<u64>) -> Result<(Oracle, Duration), Error> {
    let mut reader = store
        .reader("tour")
        .map_err(|e| Error::Tour(e.to_string()))?;
    let part = part(set);
    let mut now = set.oracle.clone();
    let mut txn = store.begin();
    let view = reader.view();
    for (i, key) in set.misses.iter().take(2 * part).enumerate() {
        txn.insert(key, i as u64).map_err(sapwood::Error::from)?;
        now.insert(key.clone(), i as u64);
    }
    for key in &set.keys[..part] {
        let gone = txn.remove(key)?.is_some();
        tour.check(gone, || format!("removing \"{}\"", set.show(key)))?;
        now.remove(key);
    }
    for (i, key) in set.keys[part..2 * part].iter().enumerate() {
        txn.insert(key, u64::MAX - i as u64)
            .map_err(sapwood::Error::from)?;
        now.insert(key.clone(), u64::MAX - i as u64);
    }
    tour.check(same(txn.iter(), &now), || {
        "a transaction does not see its own changes".into()
    })?;
    tour.check(same(view.iter(), &set.oracle), || {
        "a reader's view has an uncommitted change".into()
    })?;
    let fresh = store.read(|newest| same(newest.iter(), &set.oracle));
    tour.check(fresh, || "a new view has an uncommitted change".into())?;
    let (version, commit) = timed(|| txn.commit());
    tour.check(same(view.iter(), &set.oracle), || {
        "a reader's view changed".into()
    })?;
    tour.check(same(reader.view().iter(), &now), || {
        "a new view does not have the commit".into()
    })?;
    reader.quiescent();
    tour.say(format!(
        "  committed as version {version} in {commit:.0?}: the view that a reader took before \
         still has the old entries, and its next view has the new ones",
    ))?;
    Ok((now, commit))
}

/// Rolls a transaction back, and checks that nothing has changed.
fn rollback(tour: &mut Tour, store: &QpStore<u64>, now: &Oracle) -> Result<(), Error> {
    let version = store.version();
    tour.say("\nA transaction that is rolled back or dropped changes nothing:")?;
    let mut txn = store.begin();
    let removed = txn.clear()?;
    txn.insert("only this", 1).map_err(sapwood::Error::from)?;
    tour.check(txn.len() == 1, || {
        "the length of a cleared transaction".into()
    })?;
    txn.rollback();
    tour.check(store.version() == version, || {
        "a rollback made a version".into()
    })?;
    tour.check(store.read(|view| same(view.iter(), now)), || {
        "a rollback changed entries".into()
    })?;
    tour.say(format!(
        "  removed {} entries and rolled back: the store has all of them",
        grouped(removed)
    ))
}

/// Checks the differences between a snapshot and the newest version.
fn difference(
    tour: &mut Tour,
    set: &Set,
    now: &Oracle,
    before: &QpSnapshot<u64>,
    store: &QpStore<u64>,
) -> Result<Value, Error> {
    tour.say("\nThe difference between two snapshots skips the branches that they share:")?;
    let after = store.snapshot();
    let (changes, time) = timed(|| QpStore::diff(before, &after).collect::<Vec<_>>());
    let (mut added, mut deleted, mut changed) = (0, 0, 0);
    let mut patched = set.oracle.clone();
    for change in &changes {
        match change {
            Change::Added(key, value) => {
                added += 1;
                patched.insert(key.clone().into(), **value);
            }
            Change::Removed(key, _) => {
                deleted += 1;
                patched.remove(&**key);
            }
            Change::Changed(key, old, new) => {
                changed += 1;
                tour.check(set.oracle.get(&**key) == Some(old), || {
                    "an old value".into()
                })?;
                patched.insert(key.clone().into(), **new);
            }
        }
    }
    tour.check(patched == *now, || {
        "the difference does not lead to the new version".into()
    })?;
    let right =
        (deleted, changed) == (part(set), part(set)) && changes.is_sorted_by_key(Change::key);
    tour.check(right, || {
        format!("a difference of {added} {deleted} {changed}")
    })?;
    tour.say(format!(
        "  {added} added, {deleted} removed, {changed} changed, found in {time:.0?} among {} entries",
        grouped(after.len())
    ))?;
    Ok(json!({
        "added": added,
        "removed": deleted,
        "changed": changed,
        "diff_micros": time.as_secs_f64() * 1e6,
    }))
}

fn same<'a>(entries: impl Iterator<Item = ReadEntry<'a, u64>>, oracle: &'a Oracle) -> bool {
    entries.eq(oracle.iter().map(as_entry))
}
