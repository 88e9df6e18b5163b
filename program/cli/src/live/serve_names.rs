//! `names serve`: keeps a live map of names.

use std::borrow::Cow;
use std::path::Path;

use sapwood::qp::{QpMap, QpStore};
use sapwood_live::{Live, Unpublished};
use serde_json::Value;

use super::changes::{Asked, Change, Difference, Made};
use super::metrics::State;
use super::serve::{self, BUDGET, Served, Signals};
use crate::cli::{NamesServeArgs, ValueKind};
use crate::diff::differences;
use crate::errors::{Error, Outcome};
use crate::names::list::{self, ListedValue};
use crate::output::Output;
use crate::progress::Progress;
use crate::span;

/// A live map of names.
struct Names<'a, V: ?Sized + ListedValue> {
    store: Live<QpStore<V>>,
    args: &'a NamesServeArgs,
}

/// Serves a map with values of the kind that the options say.
pub fn run(args: &NamesServeArgs) -> Outcome {
    match args.list.values {
        ValueKind::Numbers => run_with::<u64>(args),
        ValueKind::Text => run_with::<[u8]>(args),
    }
}

fn run_with<V: ?Sized + ListedValue>(args: &NamesServeArgs) -> Outcome {
    let _serve = span!(INFO, "serve", map = %args.keep.live.display());
    let begun = serve::begin(&[&args.list.input], &args.keep)?;
    let (map, counts) = list::read::<V>(&args.list)?;
    let signals = Signals::begin()?;
    let folder = &args.keep.live;
    let (store, made) = serve::keep(folder, &args.keep)?;
    let is_new = made.is_some();
    let names = Names { store, args };
    let difference = names.adopt(&map)?;
    made.map_or(Ok(()), Unpublished::publish)?;
    let summary = format!("{} keys of {} bytes, live", map.len(), counts.key_bytes);
    let place = folder.display().to_string();
    list::report(&args.list, &counts, map.len(), &place, &summary);
    drop(map);
    serve::report(folder, "", is_new, difference, args.list.quiet);
    let mut out = Output::lines(args.keep.json);
    out.form = args.list.form();
    serve::serve(names, &args.keep, out, (signals, begun), difference)
}

impl<V: ?Sized + ListedValue> Names<'_, V> {
    /// Makes the store what a map is, in one commit. If that fails, the store stays as it was.
    fn adopt(&self, map: &QpMap<V>) -> Result<Difference, sapwood::Error> {
        let span = Difference::span();
        let old = self.store.snapshot();
        let mut txn = self.store.begin();
        let mut progress = Progress::new("changing the live map", Some(map.len() as u64), false);
        let new = (0u64..).zip(map.iter()).map(|(step, entry)| {
            if step % 4096 == 0 {
                progress.at(step);
            }
            entry
        });
        let difference = differences(old.iter(), new, Ord::cmp, |change| match change.new {
            Some(value) => V::put(&mut txn, &change.key, value).map(drop),
            None => Ok(txn.remove(change.key).map(drop)?),
        })?;
        difference.note_in(&span);
        match difference.is_empty() {
            true => txn.rollback(),
            false => {
                let _commit = span!(INFO, "commit", map = %self.args.keep.live.display());
                txn.commit();
            }
        }
        Ok(difference)
    }
}

impl<V: ?Sized + ListedValue> Served for Names<'_, V> {
    type Value = V::Parsed;

    fn list(&self) -> &Path {
        &self.args.list.input
    }

    fn parse_entry(&self, text: &[u8]) -> Result<(Vec<u8>, V::Parsed), String> {
        let (key, value) = list::split_command::<V>(text);
        let value = V::parsed(value.unwrap_or_default())?;
        let key = list::parse_listed(key, self.args.list.form())?;
        Ok((key.into_owned(), value))
    }

    fn parse_key(&self, text: &[u8]) -> Result<Vec<u8>, String> {
        list::parse_key(text, self.args.list.form()).map(Cow::into_owned)
    }

    fn make(&mut self, changes: &[Asked<V::Parsed>]) -> Result<Vec<Made>, Error> {
        let mut txn = self.store.begin();
        let mut made = Vec::new();
        for Asked { key, change } in changes {
            made.push(match change {
                Change::Add(value) => Made::new(true, V::put(&mut txn, key, V::borrow(value))?),
                Change::Remove => Made::new(false, txn.remove(key)?.is_some()),
            });
        }
        txn.commit();
        Ok(made)
    }

    fn reload(&mut self) -> Result<Difference, Error> {
        let (map, counts) = list::read::<V>(&self.args.list)?;
        list::warn(&self.args.list, &counts);
        Ok(self.adopt(&map)?)
    }

    fn get(&self, key: &[u8]) -> Option<(Vec<u8>, Value)> {
        let snapshot = self.store.snapshot();
        let value = snapshot.get(key)?;
        Some((value.text().into_owned(), value.json()))
    }

    fn state(&self) -> State {
        let memory = self.store.memory();
        let mut state = State {
            entries: self.store.len(),
            bytes: memory.map.total(),
            memory: vec![
                ("branches", memory.map.branches.1),
                ("clusters", memory.map.clusters.1),
                ("leaves", memory.map.leaves.1),
                ("free", memory.map.arena.free),
            ],
            garbage: memory.waiting.1,
            generation: self.store.generation(),
            readers: self.store.readers(),
            ..State::default()
        };
        state.note(self.store.domain());
        state
    }

    fn reclaim(&mut self) {
        self.store.reclaim(BUDGET);
    }

    fn remove(self) -> Result<(), Error> {
        Ok(self.store.remove_map()?)
    }
}
