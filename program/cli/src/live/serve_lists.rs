//! `lists serve`: keeps a live map of the rules of lists.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use prometheus::IntGaugeVec;
use sapwood::qp::QpStore;
use sapwood_lists::names::asked_name;
use sapwood_lists::{Loader, Meta, Summary, verdict};
use sapwood_live::{Live, Unpublished};
use serde_json::{Value, json};

use super::changes::{Asked, Difference, Made};
use super::metrics::State;
use super::serve::{self, BUDGET, Served, Signals};
use crate::cli::lists::ServeListsArgs;
use crate::errors::{Error, Outcome};
use crate::keys::KeyForm;
use crate::lists::load;
use crate::lists::zones::{FollowedZones, Zones};
use crate::output::Output;
use crate::service::catalogue::{
    LISTS_KEPT, LISTS_REFUSED, LISTS_RULES, ZONE_CHECKED, ZONE_EXPIRED, ZONE_SERIAL, ZONE_TROUBLE,
};
use crate::service::metrics::Metrics;
use crate::span;

/// A live map of rules.
struct Rules {
    store: Live<QpStore<[u8]>>,
    loader: Loader<'static>,
    metrics: RulesMetrics,
    /// The lists, in messages about all of them.
    lists: PathBuf,
    meta: Meta,
    zones: Option<FollowedZones>,
    /// Whether lists are read because a zone has come.
    by_zone: Arc<AtomicBool>,
}

/// Serves a map.
pub fn run(args: &ServeListsArgs) -> Outcome {
    let all = args.rules.lists.iter().chain(&args.rules.exceptions);
    let paths: Vec<&Path> = all.map(PathBuf::as_path).collect();
    if paths.contains(&Path::new("-")) {
        let what = "\"lists serve\" needs files: standard input cannot be read again";
        return Err(Error::Usage(what.into()));
    }
    let _serve = span!(INFO, "serve", map = %args.keep.live.display());
    let begun = serve::begin(&paths, &args.keep)?;
    let metrics = RulesMetrics::new(begun.metrics())?;
    let signals = Signals::begin()?;
    let mut zones = Zones::begin(&args.rules)?;
    zones.refresh_missing()?;
    let loader = load::loader(&args.rules, args.allow_shrunk, &zones)?;
    let folder = &args.keep.live;
    let (store, made) = serve::keep(folder, &args.keep)?;
    let is_new = made.is_some();
    let names = paths.iter().map(|path| path.display().to_string());
    let names = names.chain(args.rules.zone.iter().map(ToString::to_string));
    let names: Vec<String> = names.collect();
    let mut rules = Rules {
        store,
        loader,
        metrics,
        lists: names.join(", ").into(),
        meta: Meta::default(),
        zones: None,
        by_zone: Arc::default(),
    };
    // Nobody reads a new map before it is published.
    let (difference, summary) = rules.load(is_new)?;
    made.map_or(Ok(()), Unpublished::publish)?;
    if !args.rules.quiet {
        load::report(&summary);
    }
    let flags = [Arc::clone(&rules.by_zone), signals.hang_up()];
    rules.zones = Some(zones.follow(args, flags)?);
    let live = format!("{} names, live", rules.names());
    serve::report(folder, &live, is_new, difference, args.rules.quiet);
    let mut out = Output::lines(args.keep.json);
    out.form = KeyForm::Dns;
    serve::serve(rules, &args.keep, out, (signals, begun), difference)
}

impl Rules {
    /// Makes the store what the lists say.
    fn load(&mut self, is_new: bool) -> Result<(Difference, Summary), Error> {
        let span = Difference::span();
        let summary = match is_new {
            true => self.loader.fill(&self.store)?,
            false => self.loader.reload(&self.store)?,
        };
        let difference = Difference {
            added: summary.added,
            removed: summary.removed,
            changed: summary.changed,
        };
        difference.note_in(&span);
        self.meta = summary.meta.clone();
        Ok((difference, summary))
    }

    /// Number of names that have rules.
    fn names(&self) -> usize {
        self.store.len().saturating_sub(1)
    }
}

impl Served for Rules {
    type Value = ();

    fn list(&self) -> &Path {
        &self.lists
    }

    fn parse_entry(&self, _: &[u8]) -> Result<(Vec<u8>, ()), String> {
        Err("rules come from lists: change a list, and reload".into())
    }

    fn parse_key(&self, text: &[u8]) -> Result<Vec<u8>, String> {
        Ok(asked_name(text.trim_ascii())?.key)
    }

    fn make(&mut self, _: &[Asked<()>]) -> Result<Vec<Made>, Error> {
        let what = "rules come from lists: change a list, and reload";
        Err(Error::Usage(what.into()))
    }

    fn reload(&mut self) -> Result<Difference, Error> {
        if !self.by_zone.swap(false, Ordering::Acquire) {
            self.zones.iter().for_each(FollowedZones::wake);
        }
        Ok(self.load(false)?.0)
    }

    fn get(&self, key: &[u8]) -> Option<(Vec<u8>, Value)> {
        const A: u16 = 1;
        let snapshot = self.store.snapshot();
        let found = verdict(&snapshot, &self.meta, key, A).ok()??;
        let action = found.terms.action.to_string();
        let document = json!({ "answer": action, "rule": found.name(), "list": found.terms.list });
        Some((action.into_bytes(), document))
    }

    fn state(&self) -> State {
        let memory = self.store.memory();
        let mut state = State {
            entries: self.names(),
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

    fn show(&self) {
        self.metrics.show(&self.meta);
        if let Some(zones) = &self.zones {
            self.metrics.show_zones(zones);
        }
    }

    fn status(&self) -> Option<String> {
        let zones = self.zones.as_ref()?.status()?;
        Some(format!("{} names; {zones}", self.names()))
    }

    fn remove(self) -> Result<(), Error> {
        Ok(self.store.remove_map()?)
    }
}

/// The metrics of lists.
struct RulesMetrics {
    rules: IntGaugeVec,
    kept: IntGaugeVec,
    refused: IntGaugeVec,
    serial: IntGaugeVec,
    checked: IntGaugeVec,
    expired: IntGaugeVec,
    trouble: IntGaugeVec,
}

impl RulesMetrics {
    fn new(metrics: &Metrics) -> Result<Self, Error> {
        Ok(RulesMetrics {
            rules: metrics.gauges(&LISTS_RULES)?,
            kept: metrics.gauges(&LISTS_KEPT)?,
            refused: metrics.gauges(&LISTS_REFUSED)?,
            serial: metrics.gauges(&ZONE_SERIAL)?,
            checked: metrics.gauges(&ZONE_CHECKED)?,
            expired: metrics.gauges(&ZONE_EXPIRED)?,
            trouble: metrics.gauges(&ZONE_TROUBLE)?,
        })
    }

    fn show_zones(&self, zones: &FollowedZones) {
        for (name, state) in zones.states() {
            let checked = state.checked.map(|at| {
                let age = at.duration_since(SystemTime::UNIX_EPOCH);
                i64::try_from(age.unwrap_or_default().as_secs()).unwrap_or(i64::MAX)
            });
            for (gauges, number) in [
                (&self.serial, state.serial.map(i64::from)),
                (&self.checked, checked),
                (&self.expired, Some(i64::from(state.is_expired))),
                (&self.trouble, Some(i64::from(state.trouble.is_some()))),
            ] {
                if let Some(number) = number {
                    gauges.with_label_values(&[name.as_str()]).set(number);
                }
            }
        }
    }

    fn show(&self, meta: &Meta) {
        for list in meta.lists() {
            for (gauges, number) in [
                (&self.rules, list.rules),
                (&self.kept, list.kept),
                (&self.refused, list.refused),
            ] {
                let number = i64::try_from(number).unwrap_or(i64::MAX);
                gauges.with_label_values(&[list.name.as_str()]).set(number);
            }
        }
    }
}
