//! The metrics of the programs in the kernel, for Prometheus.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec};
use sapwood::qsbr::Stall;
use sapwood::route::CacheStats;
use sapwood_bpf::{HopTables, UserStore};
use sapwood_routes::{MirrorStats, RouteMirror, XdpRouter};
use sapwood_xdp::{NamesCounts, StoreRooms, XdpNames};

use super::serve::Daemon;
use super::served::Served;
use crate::errors::Error;
use crate::live::set_stalls;
use crate::service::catalogue::*;
use crate::service::metrics::{Metrics, raise, set};

/// The metrics of `bpf names run`.
pub struct NamesMetrics {
    packets: IntCounterVec,
    interfaces: IntGauge,
    rules: IntGauge,
    bytes: IntGauge,
    memory: IntGaugeVec,
    garbage: IntGauge,
    periods: IntCounter,
    stalls: IntGaugeVec,
    /// Rules that were changed: the word for the change.
    pub changes: IntCounterVec,
}

impl NamesMetrics {
    /// Registers the metrics.
    pub fn new(metrics: &Metrics) -> Result<Self, Error> {
        let changes = metrics.counters(&NAMES_CHANGES)?;
        for change in ["blocked", "allowed", "freed"] {
            changes.with_label_values(&[change]);
        }
        Ok(NamesMetrics {
            packets: metrics.counters(&NAMES_PACKETS)?,
            interfaces: metrics.gauge(&NAMES_INTERFACES)?,
            rules: metrics.gauge(&NAMES_RULES)?,
            bytes: metrics.gauge(&NAMES_BYTES)?,
            memory: metrics.gauges(&NAMES_MEMORY)?,
            garbage: metrics.gauge(&NAMES_GARBAGE)?,
            periods: metrics.counter(&NAMES_PERIODS)?,
            stalls: metrics.gauges(&NAMES_STALLS)?,
            changes,
        })
    }

    /// Sets the metrics. Counts that the kernel does not give stay as they are.
    pub fn update(&self, state: &NamesState) {
        for (verdict, count) in state.counts.iter().flat_map(|counts| counts.iter()) {
            raise(&self.packets.with_label_values(&[verdict.name()]), count);
        }
        set(&self.interfaces, state.interfaces);
        set(&self.rules, state.rules);
        set(&self.bytes, state.bytes);
        for (kind, bytes) in state.memory {
            set(&self.memory.with_label_values(&[kind]), bytes);
        }
        set(&self.garbage, state.garbage);
        raise(&self.periods, state.periods);
        set_stalls(&self.stalls, &state.stalls);
    }
}

/// What `bpf names run` shows of its filter.
pub struct NamesState {
    counts: Option<NamesCounts>,
    interfaces: usize,
    rules: usize,
    bytes: usize,
    memory: [(&'static str, usize); 6],
    garbage: usize,
    periods: u64,
    stalls: Vec<Stall>,
}

impl NamesState {
    /// That of a filter with a list of its own.
    pub fn of_list(filter: &XdpNames) -> Self {
        let map = filter.rules().map();
        let memory = map.memory();
        NamesState {
            counts: filter.counts().ok(),
            interfaces: filter.links().len(),
            rules: memory.entries,
            bytes: memory.total(),
            memory: [
                ("branches", memory.branches.1),
                ("clusters", memory.clusters.1),
                ("leaves", memory.leaves.1),
                ("index", memory.index),
                ("pooled", memory.pooled),
                ("free", memory.arena.free),
            ],
            garbage: memory.waiting.1,
            periods: map.domain().generation().get(),
            stalls: map.domain().stalls(),
        }
    }

    /// That of a filter with a store.
    pub fn of_store(filter: &XdpNames<StoreRooms>, store: &UserStore<u64>) -> Self {
        let memory = store.memory();
        NamesState {
            counts: filter.counts().ok(),
            interfaces: filter.links().len(),
            rules: memory.map.entries,
            bytes: memory.map.total(),
            memory: [
                ("branches", memory.map.branches.1),
                ("clusters", memory.map.clusters.1),
                ("leaves", memory.map.leaves.1),
                ("index", memory.map.index),
                ("pooled", 0),
                ("free", memory.map.arena.free),
            ],
            garbage: memory.waiting.1,
            periods: store.domain().generation().get(),
            stalls: store.domain().stalls(),
        }
    }
}

/// The metrics of `bpf serve`.
pub struct ServeMetrics {
    arenas: IntGaugeVec,
    maps: IntGaugeVec,
    adopted: IntCounter,
    entries: IntGaugeVec,
    memory: IntGaugeVec,
    steps: IntCounterVec,
    blocks: IntCounterVec,
    drops: IntCounterVec,
    starved: IntGaugeVec,
    stalled: IntGaugeVec,
    /// The arenas and maps that have series.
    shown: RefCell<BTreeSet<(String, String)>>,
}

/// The kinds of a map's bytes.
const KINDS: [&str; 6] = ["fixed", "offered", "live", "retired", "waiting", "free"];
/// What is done with blocks.
const BLOCKS: [&str; 3] = ["given", "fetched", "freed"];
/// Why changes are refused.
const REASONS: [&str; 3] = ["busy", "no_memory", "full"];

impl ServeMetrics {
    /// Registers the metrics.
    pub fn new(metrics: &Metrics) -> Result<Self, Error> {
        Ok(ServeMetrics {
            arenas: metrics.gauges(&SERVE_ARENAS)?,
            maps: metrics.gauges(&SERVE_MAPS)?,
            adopted: metrics.counter(&SERVE_ADOPTED)?,
            entries: metrics.gauges(&SERVE_ENTRIES)?,
            memory: metrics.gauges(&SERVE_MEMORY)?,
            steps: metrics.counters(&SERVE_STEPS)?,
            blocks: metrics.counters(&SERVE_BLOCKS)?,
            drops: metrics.counters(&SERVE_DROPS)?,
            starved: metrics.gauges(&SERVE_STARVED)?,
            stalled: metrics.gauges(&SERVE_STALLED)?,
            shown: RefCell::default(),
        })
    }

    /// Sets the metrics. Maps that are no longer served have none.
    pub fn update(&self, daemon: &Daemon) {
        let (mut open, mut served, mut owned, mut refused) = (0, 0, 0, 0);
        let mut now = BTreeSet::new();
        for opened in daemon.opened() {
            open += 1;
            served += opened.maps.len();
            owned += opened.owned;
            refused += opened.refused.len();
            let arena = opened.path.display().to_string();
            for map in &opened.maps {
                self.update_map(&arena, map);
                now.insert((arena.clone(), map.window().name.clone()));
            }
        }
        for (state, count) in [("open", open), ("failed", daemon.failed())] {
            set(&self.arenas.with_label_values(&[state]), count);
        }
        for (state, count) in [("served", served), ("owned", owned), ("refused", refused)] {
            set(&self.maps.with_label_values(&[state]), count);
        }
        raise(&self.adopted, daemon.adopted);
        let before = self.shown.replace(now.clone());
        for (arena, map) in before.difference(&now) {
            self.forget(arena, map);
        }
    }

    fn update_map(&self, arena: &str, served: &Served) {
        let map = &*served.window().name;
        let place = [arena, map];
        set(&self.entries.with_label_values(&place), served.map().len());
        if let Some(memory) = served.memory() {
            let bytes = [
                memory.fixed,
                memory.offered,
                memory.live,
                memory.retired,
                memory.waiting,
                memory.free,
            ];
            for (kind, bytes) in KINDS.into_iter().zip(bytes) {
                set(&self.memory.with_label_values(&[arena, map, kind]), bytes);
            }
        }
        let work = &served.work;
        let steps = work.steps.load(Ordering::Relaxed);
        raise(&self.steps.with_label_values(&place), steps);
        let blocks = [&work.given, &work.fetched, &work.freed];
        for (what, count) in BLOCKS.into_iter().zip(blocks) {
            let count = count.load(Ordering::Relaxed);
            raise(&self.blocks.with_label_values(&[arena, map, what]), count);
        }
        let drops = served.map().drops();
        let sums = drops.iter().fold([0; 3], |[busy, memory, full], one| {
            [busy + one.busy, memory + one.no_memory, full + one.full]
        });
        for (reason, count) in REASONS.into_iter().zip(sums) {
            raise(&self.drops.with_label_values(&[arena, map, reason]), count);
        }
        let (starved, stalled) = served.troubles();
        set(&self.starved.with_label_values(&place), starved.into());
        set(&self.stalled.with_label_values(&place), stalled.into());
    }

    /// Removes the series of a map.
    fn forget(&self, arena: &str, map: &str) {
        let place = [arena, map];
        for gauges in [&self.entries, &self.starved, &self.stalled] {
            let _ = gauges.remove_label_values(&place);
        }
        let _ = self.steps.remove_label_values(&place);
        for kind in KINDS {
            let _ = self.memory.remove_label_values(&[arena, map, kind]);
        }
        for what in BLOCKS {
            let _ = self.blocks.remove_label_values(&[arena, map, what]);
        }
        for reason in REASONS {
            let _ = self.drops.remove_label_values(&[arena, map, reason]);
        }
    }
}

/// The metrics of `bpf route run`, and of the router of `sync follow`.
pub struct RouteMetrics {
    packets: IntCounterVec,
    interfaces: IntGauge,
    vlans: IntGauge,
    cache: Option<CacheMetrics>,
    mirror: Option<MirrorMetrics>,
}

impl RouteMetrics {
    /// Registers the metrics of this router.
    pub fn new(metrics: &Metrics, router: &XdpRouter) -> Result<Self, Error> {
        Ok(RouteMetrics {
            packets: metrics.counters(&ROUTE_PACKETS)?,
            interfaces: metrics.gauge(&ROUTE_INTERFACES)?,
            vlans: metrics.gauge(&ROUTE_VLANS)?,
            cache: match router.cache() {
                Some(_) => Some(CacheMetrics::new(metrics)?),
                None => None,
            },
            mirror: match router.mirror() {
                Some(_) => Some(MirrorMetrics::new(metrics)?),
                None => None,
            },
        })
    }

    /// Notes the number of VLANs.
    pub fn vlans(&self, count: usize) {
        set(&self.vlans, count);
    }

    /// Sets the metrics. Counts that the kernel does not give stay as they are.
    pub fn update(&self, router: &XdpRouter) {
        let counts = router.counts();
        for (verdict, count) in counts.iter().flat_map(|counts| counts.iter()) {
            raise(&self.packets.with_label_values(&[verdict.name()]), count);
        }
        set(&self.interfaces, router.links().len());
        if let (Some(metrics), Some(cache)) = (&self.cache, router.cache()) {
            metrics.update(&cache.stats());
        }
        if let (Some(metrics), Some(mirror)) = (&self.mirror, router.mirror()) {
            metrics.update(mirror);
        }
    }
}

/// The metrics of the cache.
struct CacheMetrics {
    events: IntCounterVec,
    entries: IntGauge,
    slots: IntGauge,
}

impl CacheMetrics {
    fn new(metrics: &Metrics) -> Result<Self, Error> {
        Ok(CacheMetrics {
            events: metrics.counters(&CACHE_EVENTS)?,
            entries: metrics.gauge(&CACHE_ENTRIES)?,
            slots: metrics.gauge(&CACHE_SLOTS)?,
        })
    }

    fn update(&self, stats: &CacheStats) {
        for (event, count) in [
            ("hit", stats.hit),
            ("miss", stats.miss),
            ("refresh", stats.refresh),
            ("insert", stats.insert),
            ("evict", stats.evict),
            ("full", stats.full),
            ("stale", stats.stale),
            ("negative", stats.negative),
            ("error", stats.error),
            ("swept", stats.swept),
            ("invalidated", stats.invalidated),
            ("overtaken", stats.overtaken),
            ("busy", stats.busy),
            ("clock_back", stats.clock_back),
        ] {
            raise(&self.events.with_label_values(&[event]), count);
        }
        set(&self.entries, stats.occupancy);
        set(&self.slots, stats.capacity);
    }
}

/// The metrics of the mirror of the kernel's routes.
struct MirrorMetrics {
    routes: IntGauge,
    injected: IntGauge,
    unresolved: IntGauge,
    groups: IntGauge,
    events: IntCounterVec,
    failing: IntGauge,
    bytes: IntGauge,
    garbage: IntGauge,
    periods: IntCounter,
}

impl MirrorMetrics {
    fn new(metrics: &Metrics) -> Result<Self, Error> {
        Ok(MirrorMetrics {
            routes: metrics.gauge(&MIRROR_ROUTES)?,
            injected: metrics.gauge(&MIRROR_INJECTED)?,
            unresolved: metrics.gauge(&MIRROR_UNRESOLVED)?,
            groups: metrics.gauge(&MIRROR_GROUPS)?,
            events: metrics.counters(&MIRROR_EVENTS)?,
            failing: metrics.gauge(&MIRROR_FAILING)?,
            bytes: metrics.gauge(&MIRROR_BYTES)?,
            garbage: metrics.gauge(&MIRROR_GARBAGE)?,
            periods: metrics.counter(&MIRROR_PERIODS)?,
        })
    }

    fn update(&self, mirror: &RouteMirror<HopTables>) {
        let stats: MirrorStats = mirror.stats();
        set(&self.routes, stats.routes as usize);
        set(&self.injected, stats.injected as usize);
        set(&self.unresolved, stats.unresolved as usize);
        set(&self.groups, stats.groups as usize);
        for (event, count) in [
            ("dump", stats.dumps),
            ("notice", stats.notices),
            ("lost", stats.lost),
            ("change", stats.changes),
            ("refused", stats.refused),
            ("link", stats.links),
        ] {
            raise(&self.events.with_label_values(&[event]), count);
        }
        set(&self.failing, usize::from(stats.failure.is_some()));
        let map = mirror.tables().map();
        let memory = map.memory();
        set(&self.bytes, memory.total());
        set(&self.garbage, memory.v4.waiting.1 + memory.v6.waiting.1);
        raise(&self.periods, map.domain().generation().get());
    }
}
