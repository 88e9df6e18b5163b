//! `QpStore` with threads whose interleaving shuttle chooses: commits, compaction and reclamation
//! beside views, snapshots and differences.

use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;

use sapwood::Builder;
use sapwood::arena::{ArenaOptions, Backing, DebugMode};
use sapwood::qp::Error;
use sapwood::qp::{Change, Key, QpSnapshot, QpStore, QpTxn, QpView, ReadEntry, Value};
use sapwood::qsbr::Domain;

use crate::support::progress::{Progress, beside};
use crate::{check_random, runs};

type Model = BTreeMap<&'static str, u64>;

/// Siblings, chains of prefixes, and branches that split and merge.
const KEYS: [&str; 9] = ["", "a", "ab", "abc", "abd", "abe", "b", "x", "xyz"];

/// A number as the value of a store, whose type decides where the store has its entries.
trait Number: Value + Clone + Send + Sync + 'static {
    fn new(number: u64) -> Self;

    fn number(&self) -> u64;

    /// A store with these entries, which ascend.
    fn store(
        builder: Builder<QpStore<Self>>,
        entries: impl Iterator<Item = (&'static str, u64)>,
    ) -> QpStore<Self>;
}

/// In leaves. Values are boxed, so that Miri and the sanitizers see a value that is dropped too
/// early or twice.
impl Number for Box<u64> {
    fn new(number: u64) -> Self {
        Box::new(number)
    }

    fn number(&self) -> u64 {
        **self
    }

    fn store(
        builder: Builder<QpStore<Self>>,
        entries: impl Iterator<Item = (&'static str, u64)>,
    ) -> QpStore<Self> {
        let entries = entries.map(|(key, number)| (key, Box::new(number)));
        builder.build_sorted(entries).unwrap()
    }
}

/// In inline clusters.
impl Number for u64 {
    fn new(number: u64) -> Self {
        number
    }

    fn number(&self) -> u64 {
        *self
    }

    fn store(
        builder: Builder<QpStore<Self>>,
        entries: impl Iterator<Item = (&'static str, u64)>,
    ) -> QpStore<Self> {
        builder.build_inline_sorted(entries).unwrap()
    }
}

fn builder<V: Number>() -> Builder<QpStore<V>> {
    let options = ArenaOptions::default()
        .backing(Backing::HeapFixed(1 << 16))
        .debug(DebugMode::Poison);
    QpStore::builder().options(options)
}

#[derive(Clone, Copy, Debug)]
enum Edit {
    Insert(&'static str, u64),
    Remove(&'static str),
    RemovePrefix(&'static str),
}

impl Edit {
    fn random(rng: &mut fastrand::Rng, value: u64) -> Edit {
        let key = KEYS[rng.usize(0..KEYS.len())];
        match rng.u8(0..8) {
            0..=4 => Edit::Insert(key, value),
            5 | 6 => Edit::Remove(key),
            _ => Edit::RemovePrefix(key),
        }
    }

    fn on_txn<V: Number>(self, txn: &mut QpTxn<'_, V>) {
        match self {
            Edit::Insert(key, value) => drop(txn.insert(key, V::new(value)).unwrap()),
            Edit::Remove(key) => drop(txn.remove(key).unwrap()),
            Edit::RemovePrefix(key) => drop(txn.remove_prefix(key).unwrap()),
        }
    }

    fn on_model(self, model: &mut Model) {
        match self {
            Edit::Insert(key, value) => drop(model.insert(key, value)),
            Edit::Remove(key) => drop(model.remove(&key[..])),
            Edit::RemovePrefix(prefix) => model.retain(|key, _| !key.starts_with(prefix)),
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<Edit>),
    RollBack(Vec<Edit>),
    Compact,
    Reclaim,
}

impl Step {
    fn random(rng: &mut fastrand::Rng, value: u64) -> Step {
        let edits = (0..rng.usize(1..4)).map(|_| Edit::random(rng, value));
        let edits = edits.collect();
        match rng.u8(0..10) {
            0..=5 => Step::Commit(edits),
            6 => Step::RollBack(edits),
            7 | 8 => Step::Compact,
            _ => Step::Reclaim,
        }
    }

    fn on_store<V: Number>(&self, store: &QpStore<V>) {
        match self {
            Step::Commit(edits) => {
                let mut txn = store.begin();
                edits.iter().for_each(|edit| edit.on_txn(&mut txn));
                txn.commit();
            }
            Step::RollBack(edits) => {
                let mut txn = store.begin();
                edits.iter().for_each(|edit| edit.on_txn(&mut txn));
                txn.rollback();
            }
            Step::Compact => drop(store.compact_step(2).unwrap()),
            Step::Reclaim => drop(store.reclaim(usize::MAX)),
        }
    }
}

/// A list of steps, and the entries after each of them.
#[derive(Debug)]
struct Script {
    steps: Vec<Step>,
    models: Vec<Model>,
}

impl Script {
    fn new(start: Model, steps: Vec<Step>) -> Script {
        let mut models = vec![start];
        for step in &steps {
            let mut model = models[models.len() - 1].clone();
            if let Step::Commit(edits) = step {
                edits.iter().for_each(|edit| edit.on_model(&mut model));
            }
            models.push(model);
        }
        Script { steps, models }
    }

    fn random(seed: u64, steps: u64) -> Script {
        let mut rng = fastrand::Rng::with_seed(seed);
        let start = KEYS.into_iter().filter(|_| rng.bool());
        let start = start.map(|key| (key, 0)).collect();
        let steps = (1..=steps).map(|value| Step::random(&mut rng, value));
        Script::new(start, steps.collect())
    }

    /// The model of a version that was the newest at some time between these steps.
    fn model(&self, from: usize, to: usize, found: &[(Vec<u8>, u64)]) -> &Model {
        let mut models = self.models[from..=to].iter();
        let model = models.find(|model| is(model, found));
        model.unwrap_or_else(|| panic!("{found:?} in {from}..={to} of {self:?}"))
    }
}

fn is(model: &Model, found: &[(Vec<u8>, u64)]) -> bool {
    let found = found.iter().map(|(key, value)| (&key[..], *value));
    found.eq(model.iter().map(|(key, value)| (key.as_bytes(), *value)))
}

fn all<'a, V: Number>(entries: impl Iterator<Item = ReadEntry<'a, V>>) -> Vec<(Vec<u8>, u64)> {
    entries
        .map(|(key, value)| {
            // A writer may run while a reader is between two entries.
            shuttle::thread::yield_now();
            (key.to_vec(), value.number())
        })
        .collect()
}

/// Checks that a view is of one version, and stays on it.
fn ask<V: Number>(view: QpView<'_, V>, script: &Script, from: usize, to: usize) {
    let model = script.model(from, to, &all(view.iter()));
    assert_eq!(view.len(), model.len());
    for key in KEYS {
        shuttle::thread::yield_now();
        assert_eq!(view.get(key).map(V::number), model.get(key).copied());
        let longest = model.keys().rfind(|other| key.starts_with(**other));
        let found = view.longest_prefix(key).map(|(other, _)| other);
        assert_eq!(found, longest.map(Key::from), "{key}");
    }
    assert!(is(model, &all(view.prefix(""))));
}

/// A snapshot, with the contents that it had when it was made.
struct Held<'s, V: Number> {
    snapshot: QpSnapshot<V>,
    model: &'s Model,
}

impl<'s, V: Number> Held<'s, V> {
    fn new(store: &QpStore<V>, script: &'s Script, progress: &Progress) -> Held<'s, V> {
        let from = progress.done();
        let snapshot = store.snapshot();
        let to = progress.begun();
        let model = script.model(from, to, &all(snapshot.iter()));
        Held { snapshot, model }
    }

    fn check(&self) {
        assert!(is(self.model, &all(self.snapshot.iter())));
    }

    fn diff(&self, new: &Held<'_, V>) {
        let mut model = BTreeMap::new();
        for (key, value) in self.model {
            model.insert(key.as_bytes().to_vec(), *value);
        }
        for change in QpStore::diff(&self.snapshot, &new.snapshot) {
            shuttle::thread::yield_now();
            match change {
                Change::Added(key, value) => {
                    assert_eq!(model.insert(key.to_vec(), value.number()), None);
                }
                Change::Removed(key, value) => {
                    assert_eq!(model.remove(&key[..]), Some(value.number()));
                }
                Change::Changed(key, old, value) => {
                    assert_eq!(
                        model.insert(key.to_vec(), value.number()),
                        Some(old.number())
                    );
                }
            }
        }
        assert!(is(new.model, &model.into_iter().collect::<Vec<_>>()));
    }
}

fn read<V: Number>(
    store: &QpStore<V>,
    script: &Script,
    progress: &Progress,
    rng: &mut fastrand::Rng,
) {
    let mut handle = store.reader("test").unwrap();
    let mut held: Vec<Held<'_, V>> = Vec::new();
    for _ in 0..4 {
        let from = progress.done();
        match rng.u8(0..4) {
            0 | 1 => {
                let view = handle.view();
                ask(view, script, from, progress.begun());
            }
            2 => store.read(|view| ask(view, script, from, progress.begun())),
            _ => held.push(Held::new(store, script, progress)),
        }
        handle.quiescent();
        held.iter().for_each(Held::check);
        if let [old, .., new] = &held[..] {
            old.diff(new);
            held.swap_remove(0);
        }
    }
}

/// Runs a writer with the script's steps, and two readers, under random schedules, for both kinds
/// of stores.
fn scene(script: Script, seed: u64, schedules: usize) {
    let script = Arc::new(script);
    scene_of::<Box<u64>>(&script, seed, schedules);
    scene_of::<u64>(&script, seed, schedules);
}

fn scene_of<V: Number>(script: &Arc<Script>, seed: u64, schedules: usize) {
    let script = Arc::clone(script);
    let check = move || {
        let start = script.models[0].iter();
        let store = V::store(builder(), start.map(|(key, value)| (*key, *value)));
        let write = |number: usize| script.steps[number].on_store(&store);
        let readers = Arc::clone(&script);
        beside(
            &store,
            script.steps.len(),
            write,
            move |store, progress, number| {
                let mut rng = fastrand::Rng::with_seed(seed ^ number << 32);
                read(store, &readers, progress, &mut rng);
            },
        );
        store.verify().unwrap();
        let end = &script.models[script.steps.len()];
        store.read(|view| assert!(is(end, &all(view.iter()))));
        // No thread holds a reference: all garbage is freed.
        store.reclaim(usize::MAX);
        let memory = store.memory();
        assert_eq!((memory.snapshots, memory.waiting), (0, (0, 0)));
    };
    check_random(check, schedules);
}

#[test]
fn views_snapshots_and_differences_are_of_one_version() {
    for seed in 0..100 {
        scene(Script::random(seed, 6), seed, runs(100));
    }
}

#[test]
fn every_edit_beside_readers() {
    let start: Model = KEYS.into_iter().map(|key| (key, 0)).collect();
    for start in [Model::new(), start] {
        for key in KEYS {
            for edit in [
                Edit::Insert(key, 1),
                Edit::Remove(key),
                Edit::RemovePrefix(key),
            ] {
                let steps = vec![Step::Commit(vec![edit]), Step::Compact, Step::Reclaim];
                scene(Script::new(start.clone(), steps), 7, runs(60));
            }
        }
    }
}

/// Two writers increment counters, and a third thread compacts and reclaims: no commit is lost.
#[test]
fn writers_take_turns() {
    turns::<Box<u64>>();
    turns::<u64>();
}

fn turns<V: Number>() {
    let check = || {
        let store = V::store(builder(), iter::empty());
        let writers = [0, 1].map(|_| {
            let store = store.clone();
            shuttle::thread::spawn(move || {
                for _ in 0..4 {
                    let mut txn = store.begin();
                    let count = txn.get("count").map_or(0, V::number);
                    txn.insert("count", V::new(count + 1)).unwrap();
                    txn.commit();
                }
            })
        });
        for _ in 0..4 {
            store.compact_step(1).unwrap();
            store.reclaim(usize::MAX);
            if let Some(txn) = store.try_begin() {
                txn.rollback();
            }
        }
        for writer in writers {
            writer.join().unwrap();
        }
        store.verify().unwrap();
        assert_eq!(store.read(|view| view.get("count").map(V::number)), Some(8));
    };
    check_random(check, 20 * runs(40));
}

/// At a hard limit of garbage, a commit is refused as a whole while a reader holds the garbage
/// back.
#[test]
fn a_limit_refuses_whole_transactions() {
    limited::<Box<u64>>();
    limited::<u64>();
}

fn limited<V: Number>() {
    let check = || {
        let domain = Domain::builder().hard_limit(400).build();
        let builder = builder::<V>().domain(&domain);
        let store = V::store(builder, KEYS.into_iter().map(|key| (key, 0)));
        let reader = {
            let store = store.clone();
            shuttle::thread::spawn(move || {
                let handle = store.reader("test").unwrap();
                for _ in 0..3 {
                    let found = all(handle.view().iter());
                    assert_eq!(found.len(), KEYS.len());
                    // Each commit writes all keys with its number.
                    assert!(
                        found.iter().all(|(_, value)| *value == found[0].1),
                        "{found:?}"
                    );
                }
            })
        };
        for number in 1..=4 {
            let mut txn = store.begin();
            let done = KEYS.into_iter().try_for_each(|key| {
                let done = txn.insert(key, V::new(number)).map(drop);
                done.map_err(|rejected| rejected.error)
            });
            match done {
                Ok(()) => drop(txn.commit()),
                Err(error) => {
                    assert!(matches!(error, Error::GarbageLimit(_)), "{error}");
                    txn.rollback();
                }
            }
            assert!(domain.garbage() <= 400);
        }
        reader.join().unwrap();
        store.verify().unwrap();
    };
    check_random(check, 10 * runs(40));
}
