//! The metrics of the programs in the kernel, for Prometheus.

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec};
use sapwood::route::CacheStats;
use sapwood_bpf::HopTables;
use sapwood_routes::{MirrorStats, RouteMirror, XdpRouter};
use sapwood_xdp::XdpNames;

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
    pub fn update(&self, filter: &XdpNames) {
        let counts = filter.counts();
        for (verdict, count) in counts.iter().flat_map(|counts| counts.iter()) {
            raise(&self.packets.with_label_values(&[verdict.name()]), count);
        }
        set(&self.interfaces, filter.links().len());
        let map = filter.rules().map();
        let memory = map.memory();
        set(&self.rules, memory.entries);
        set(&self.bytes, memory.total());
        for (kind, bytes) in [
            ("branches", memory.branches.1),
            ("clusters", memory.clusters.1),
            ("leaves", memory.leaves.1),
            ("index", memory.index),
            ("pooled", memory.pooled),
            ("free", memory.arena.free),
        ] {
            set(&self.memory.with_label_values(&[kind]), bytes);
        }
        set(&self.garbage, memory.waiting.1);
        raise(&self.periods, map.domain().generation().get());
        set_stalls(&self.stalls, &map.domain().stalls());
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
