//! The metrics of a live map: for the command `stats`, and for Prometheus.

use std::collections::HashMap;
use std::time::{Instant, SystemTime};

use prometheus::{Gauge, GaugeVec, Histogram, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};
use sapwood::qsbr::{Domain, Stall, StallKind};
use sapwood_live::LiveReaderInfo;

use super::changes::Difference;
use crate::cli::live::KeepArgs;
use crate::errors::Error;
use crate::service::catalogue::*;
use crate::service::metrics::{Metrics, raise, set};

/// The most readers that are named.
const NAMED: usize = 20;

/// The state of a live map.
#[derive(Default)]
pub struct State {
    /// Number of entries.
    pub entries: usize,
    /// Bytes of memory that the map takes.
    pub bytes: usize,
    /// Bytes by kind of block.
    pub memory: Vec<(&'static str, usize)>,
    /// Bytes of old versions that wait for readers.
    pub garbage: usize,
    /// How many times processes have taken the map over.
    pub generation: u64,
    /// Grace periods that this process has begun.
    pub periods: u64,
    /// What holds garbage back for long.
    pub stalls: Vec<Stall>,
    /// The readers in all processes.
    pub readers: Vec<LiveReaderInfo>,
}

impl State {
    /// Notes what a domain knows.
    pub fn note(&mut self, domain: &Domain) {
        self.periods = domain.generation().get();
        self.stalls = domain.stalls();
    }
}

/// The counts of a command that serves a map.
#[derive(Clone, Copy, Default)]
pub struct Done {
    /// Changes that were made as a whole.
    pub commits: u64,
    /// Entries that were changed.
    pub changes: Difference,
    /// Changes that failed.
    pub refused: u64,
    /// Readings of the list, the first one included.
    pub reloads: u64,
    /// Readings of the list that failed.
    pub reload_errors: u64,
}

/// The metrics of the command `stats`: their names and values.
pub fn figures(state: &State, done: Done) -> [(&'static str, u64); 10] {
    let count = |is: fn(&LiveReaderInfo) -> bool| {
        state.readers.iter().filter(|reader| is(reader)).count() as u64
    };
    [
        ("entries", state.entries as u64),
        ("bytes", state.bytes as u64),
        ("garbage_bytes", state.garbage as u64),
        ("generation", state.generation),
        ("readers", state.readers.len() as u64),
        ("readers_holding_back", count(|reader| reader.holds_back)),
        ("readers_evicted", count(|reader| reader.evicted)),
        ("commits_total", done.commits),
        ("reloads_total", done.reloads),
        ("reload_errors_total", done.reload_errors),
    ]
}

/// The metrics for Prometheus.
pub struct LiveMetrics {
    entries: IntGauge,
    bytes: IntGauge,
    memory: IntGaugeVec,
    garbage: IntGauge,
    generation: IntGauge,
    periods: IntCounter,
    readers: IntGauge,
    holding: IntGauge,
    evicted: IntGauge,
    stall: GaugeVec,
    stalls: IntGaugeVec,
    commits: IntCounter,
    changes: IntCounterVec,
    refused: IntCounter,
    reloads: IntCounter,
    reload_errors: IntCounter,
    reloaded: Gauge,
    /// How long changes by commands took.
    pub commit_time: Histogram,
    /// How long later readings of the list took.
    pub reload_time: Histogram,
    /// The readers that hold old versions back: the period that each announced last, and when that
    /// was first seen.
    slow: HashMap<String, (u64, Instant)>,
}

impl LiveMetrics {
    /// Registers the metrics.
    pub fn new(metrics: &Metrics, args: &KeepArgs) -> Result<Self, Error> {
        let limit = |metric, bytes: u64| -> Result<(), Error> {
            set(
                &metrics.gauge(metric)?,
                usize::try_from(bytes).unwrap_or(usize::MAX),
            );
            Ok(())
        };
        limit(&LIVE_LIMIT, args.limits.limit)?;
        if let Some(bytes) = args.limits.garbage_limit {
            limit(&LIVE_GARBAGE_LIMIT, bytes)?;
        }
        Ok(LiveMetrics {
            entries: metrics.gauge(&LIVE_ENTRIES)?,
            bytes: metrics.gauge(&LIVE_BYTES)?,
            memory: metrics.gauges(&LIVE_MEMORY)?,
            garbage: metrics.gauge(&LIVE_GARBAGE)?,
            generation: metrics.gauge(&LIVE_GENERATION)?,
            periods: metrics.counter(&LIVE_PERIODS)?,
            readers: metrics.gauge(&LIVE_READERS)?,
            holding: metrics.gauge(&LIVE_HOLDING)?,
            evicted: metrics.gauge(&LIVE_EVICTED)?,
            stall: metrics.seconds(&LIVE_STALL)?,
            stalls: metrics.gauges(&LIVE_STALLS)?,
            commits: metrics.counter(&LIVE_COMMITS)?,
            changes: metrics.counters(&LIVE_CHANGES)?,
            refused: metrics.counter(&LIVE_REFUSED)?,
            reloads: metrics.counter(&LIVE_RELOADS)?,
            reload_errors: metrics.counter(&LIVE_RELOAD_ERRORS)?,
            reloaded: metrics
                .seconds(&LIVE_RELOADED)?
                .with_label_values::<&str>(&[]),
            commit_time: metrics.durations(&LIVE_COMMIT_TIME)?,
            reload_time: metrics.durations(&LIVE_RELOAD_TIME)?,
            slow: HashMap::new(),
        })
    }

    /// Notes that the map is now what the list says.
    pub fn is_as_listed(&self) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        self.reloaded.set(now.unwrap_or_default().as_secs_f64());
    }

    /// Sets the metrics.
    pub fn update(&mut self, state: &State, done: Done) {
        set(&self.entries, state.entries);
        set(&self.bytes, state.bytes);
        set(&self.garbage, state.garbage);
        for (kind, bytes) in &state.memory {
            set(&self.memory.with_label_values(&[kind]), *bytes);
        }
        self.generation
            .set(i64::try_from(state.generation).unwrap_or(i64::MAX));
        raise(&self.periods, state.periods);
        set_stalls(&self.stalls, &state.stalls);
        self.update_readers(&state.readers);
        raise(&self.commits, done.commits);
        for (change, count) in [
            ("added", done.changes.added),
            ("changed", done.changes.changed),
            ("removed", done.changes.removed),
        ] {
            raise(&self.changes.with_label_values(&[change]), count);
        }
        raise(&self.refused, done.refused);
        raise(&self.reloads, done.reloads);
        raise(&self.reload_errors, done.reload_errors);
    }

    fn update_readers(&mut self, readers: &[LiveReaderInfo]) {
        let count = |is: fn(&LiveReaderInfo) -> bool| readers.iter().filter(|r| is(r)).count();
        set(&self.readers, readers.len());
        set(&self.holding, count(|reader| reader.holds_back));
        set(&self.evicted, count(|reader| reader.evicted));
        let now = Instant::now();
        let mut slow = HashMap::new();
        let mut stalls = Vec::new();
        for reader in readers.iter().filter(|reader| reader.holds_back) {
            let before = self.slow.get(&reader.name);
            let since = match before {
                Some((seen, since)) if *seen == reader.seen => *since,
                _ => now,
            };
            slow.insert(reader.name.clone(), (reader.seen, since));
            stalls.push((now - since, reader));
        }
        self.slow = slow;
        stalls.sort_by(|(a, _), (b, _)| b.cmp(a));
        self.stall.reset();
        for (stood, reader) in stalls.into_iter().take(NAMED) {
            let labels = [&*reader.pid.to_string(), &*reader.name];
            self.stall
                .with_label_values(&labels)
                .set(stood.as_secs_f64());
        }
    }
}

/// Sets how many of each kind hold garbage back.
pub fn set_stalls(gauges: &IntGaugeVec, stalls: &[Stall]) {
    for (kind, name) in [
        (StallKind::Reader, "reader"),
        (StallKind::Pinned, "pinned"),
        (StallKind::Source, "source"),
        (StallKind::Snapshot, "snapshot"),
    ] {
        let count = stalls.iter().filter(|stall| stall.kind == kind).count();
        set(&gauges.with_label_values(&[name]), count);
    }
}
