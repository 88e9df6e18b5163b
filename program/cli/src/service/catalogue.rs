//! All metrics that commands export, with their kinds, labels and help.
//!
//! Names and units follow the conventions of Prometheus, which `promtool check metrics` checks.
//! Tests compare this list with what commands export, with the table in `docs/operations.md` and
//! with the dashboards under `packaging/grafana`.

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It goes up and down.
    Gauge,
    /// It only grows while a process runs.
    Counter,
    /// It counts durations by class.
    Histogram,
}

impl Kind {
    /// The word that the text format has for it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
            Kind::Histogram => "histogram",
        }
    }
}

/// A metric, whatever its value is.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The name, with the unit at its end.
    pub name: &'static str,
    /// The kind.
    pub kind: Kind,
    /// The labels besides those that all metrics of the command have.
    pub labels: &'static [&'static str],
    /// What it is, in one sentence.
    pub help: &'static str,
}

impl Metric {
    const fn new(
        kind: Kind,
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Metric {
            name,
            kind,
            labels,
            help,
        }
    }

    /// A metric that goes up and down.
    pub const fn gauge(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Metric::new(Kind::Gauge, name, labels, help)
    }

    /// A metric that only grows.
    pub const fn counter(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Metric::new(Kind::Counter, name, labels, help)
    }

    /// A metric of durations.
    pub const fn durations(name: &'static str, help: &'static str) -> Self {
        Metric::new(Kind::Histogram, name, &[], help)
    }
}

/// Declares metrics, and a list of them.
macro_rules! metrics {
    ($(#[$doc:meta])* $list:ident: $($name:ident = $metric:expr;)*) => {
        $(
            #[allow(missing_docs)]
            pub const $name: Metric = $metric;
        )*
        $(#[$doc])*
        pub const $list: &[Metric] = &[$($name),*];
    };
}

metrics! {
    /// What each command exports.
    COMMON:
    BUILD = Metric::gauge("sapwood_build_info", &["version"], "1, with the program's version.");
    UPDATED = Metric::gauge("sapwood_updated_timestamp_seconds", &[],
        "When the command set its metrics last; it does so every second.");
}

metrics! {
    /// What `names serve`, `routes serve`, `ranges serve` and `lists serve` export, with the label
    /// `map`.
    LIVE:
    LIVE_ENTRIES = Metric::gauge("sapwood_live_entries", &[], "Entries of the map.");
    LIVE_BYTES = Metric::gauge("sapwood_live_bytes", &[], "Bytes of memory that the map takes.");
    LIVE_MEMORY = Metric::gauge("sapwood_live_memory_bytes", &["kind"],
        "Bytes of the map's blocks by kind, and of free memory below the highest block.");
    LIVE_LIMIT = Metric::gauge("sapwood_live_limit_bytes", &[],
        "The most bytes that each part of the map may take.");
    LIVE_GARBAGE = Metric::gauge("sapwood_live_garbage_bytes", &[],
        "Bytes of old versions that wait for readers.");
    LIVE_GARBAGE_LIMIT = Metric::gauge("sapwood_live_garbage_limit_bytes", &[],
        "The most bytes that readers may hold back; absent without a limit.");
    LIVE_GENERATION = Metric::gauge("sapwood_live_generation", &[],
        "How many times processes have taken the map over.");
    LIVE_PERIODS = Metric::counter("sapwood_live_grace_periods_total", &[],
        "Grace periods that this process has begun.");
    LIVE_READERS = Metric::gauge("sapwood_live_readers", &[], "Readers in all processes.");
    LIVE_HOLDING = Metric::gauge("sapwood_live_readers_holding_back", &[],
        "Readers that hold old versions back.");
    LIVE_EVICTED = Metric::gauge("sapwood_live_readers_evicted", &[],
        "Readers that are evicted.");
    LIVE_STALL = Metric::gauge("sapwood_live_reader_stall_seconds", &["process", "reader"],
        "For how long a reader holds old versions back; the longest 20.");
    LIVE_STALLS = Metric::gauge("sapwood_live_stalls", &["kind"],
        "What holds garbage back for more than a second, by kind: reader, pinned, source (readers \
         in other processes), snapshot.");
    LIVE_COMMITS = Metric::counter("sapwood_live_commits_total", &[], "Changes that were made.");
    LIVE_CHANGES = Metric::counter("sapwood_live_changes_total", &["change"],
        "Entries that were added, changed or removed.");
    LIVE_REFUSED = Metric::counter("sapwood_live_refused_total", &[],
        "Changes by commands that failed for lack of memory, and left the map as it was.");
    LIVE_COMMIT_TIME = Metric::durations("sapwood_live_commit_seconds",
        "How long changes by commands took.");
    LIVE_RELOADS = Metric::counter("sapwood_live_reloads_total", &[],
        "Times that the list was read, the first one included.");
    LIVE_RELOAD_ERRORS = Metric::counter("sapwood_live_reload_errors_total", &[],
        "Times that the list could not be read or adopted.");
    LIVE_RELOAD_TIME = Metric::durations("sapwood_live_reload_seconds",
        "How long it took to read the list again and to make the map what it says.");
    LIVE_RELOADED = Metric::gauge("sapwood_live_reloaded_timestamp_seconds", &[],
        "When the map was made what the list says.");
}

metrics! {
    /// What `lists serve` exports beside those of live maps.
    LISTS:
    LISTS_RULES = Metric::gauge("sapwood_lists_rules", &["list"], "Rules in the text of a list.");
    LISTS_KEPT = Metric::gauge("sapwood_lists_kept_rules", &["list"],
        "Rules of a list that the map has; others make the rest unnecessary.");
    LISTS_REFUSED = Metric::gauge("sapwood_lists_refused_lines", &["list"],
        "Lines of a list that are not understood.");
    ZONE_SERIAL = Metric::gauge("sapwood_lists_zone_serial", &["list"],
        "Serial of the copy of a zone that comes from its primary.");
    ZONE_CHECKED = Metric::gauge("sapwood_lists_zone_checked_timestamp_seconds", &["list"],
        "When the primary of a zone said that the copy is its last version.");
    ZONE_EXPIRED = Metric::gauge("sapwood_lists_zone_expired", &["list"],
        "1 while that is longer ago than the zone's SOA allows, else 0.");
    ZONE_TROUBLE = Metric::gauge("sapwood_lists_zone_trouble", &["list"],
        "1 while the primary of a zone does not answer as it has to, else 0.");
}

metrics! {
    /// What `bpf names run` exports.
    BPF_NAMES:
    NAMES_PACKETS = Metric::counter("sapwood_bpf_names_packets_total", &["verdict"],
        "Packets by what the filter did with them, and why; \"dropped\" are queries that it dropped.");
    NAMES_INTERFACES = Metric::gauge("sapwood_bpf_names_interfaces", &[],
        "Interfaces that the filter is attached to.");
    NAMES_RULES = Metric::gauge("sapwood_bpf_names_rules", &[], "Names that have a rule.");
    NAMES_BYTES = Metric::gauge("sapwood_bpf_names_bytes", &[],
        "Bytes of memory that the list takes.");
    NAMES_MEMORY = Metric::gauge("sapwood_bpf_names_memory_bytes", &["kind"],
        "Bytes of the list's blocks by kind.");
    NAMES_GARBAGE = Metric::gauge("sapwood_bpf_names_garbage_bytes", &[],
        "Bytes of replaced blocks that wait for programs.");
    NAMES_PERIODS = Metric::counter("sapwood_bpf_names_grace_periods_total", &[],
        "Grace periods that this process has begun.");
    NAMES_STALLS = Metric::gauge("sapwood_bpf_names_stalls", &["kind"],
        "What holds garbage back for more than a second, by kind.");
    NAMES_CHANGES = Metric::counter("sapwood_bpf_names_changes_total", &["change"],
        "Rules that were changed by commands: blocked, allowed, freed.");
}

metrics! {
    /// What `bpf serve` exports.
    BPF_SERVE:
    SERVE_ARENAS = Metric::gauge("sapwood_bpf_serve_arenas", &["state"],
        "Pinned arenas: open, or failed to open.");
    SERVE_MAPS = Metric::gauge("sapwood_bpf_serve_maps", &["state"],
        "Maps that programs write: served, owned by another process, or refused.");
    SERVE_ADOPTED = Metric::counter("sapwood_bpf_serve_adopted_total", &[],
        "Times that a map was taken over.");
    SERVE_ENTRIES = Metric::gauge("sapwood_bpf_serve_entries", &["arena", "map"],
        "Entries of a map.");
    SERVE_MEMORY = Metric::gauge("sapwood_bpf_serve_memory_bytes", &["arena", "map", "kind"],
        "Bytes of a map by kind: fixed, offered, live, retired, waiting, free.");
    SERVE_STEPS = Metric::counter("sapwood_bpf_serve_steps_total", &["arena", "map"],
        "Steps of service.");
    SERVE_BLOCKS = Metric::counter("sapwood_bpf_serve_blocks_total", &["arena", "map", "what"],
        "Blocks that were given to programs, fetched from them, and freed.");
    SERVE_DROPS = Metric::counter("sapwood_bpf_serve_drops_total", &["arena", "map", "reason"],
        "Changes by programs that were refused since the map was made: busy, no_memory, full.");
    SERVE_STARVED = Metric::gauge("sapwood_bpf_serve_starved", &["arena", "map"],
        "1 while no memory is left for programs, else 0.");
    SERVE_STALLED = Metric::gauge("sapwood_bpf_serve_stalled", &["arena", "map"],
        "1 while programs hold memory back for more than two seconds, else 0.");
}

metrics! {
    /// What `bpf route run` exports, whatever the source of next hops is.
    BPF_ROUTE:
    ROUTE_PACKETS = Metric::counter("sapwood_bpf_route_packets_total", &["verdict"],
        "Packets by what the program did with them, and why it passed them to the kernel.");
    ROUTE_INTERFACES = Metric::gauge("sapwood_bpf_route_interfaces", &[],
        "Interfaces that the programs are attached to.");
    ROUTE_VLANS = Metric::gauge("sapwood_bpf_route_vlans", &[],
        "VLANs that the program forwards from and to.");
}

metrics! {
    /// What `bpf route run --by cache` exports besides.
    BPF_CACHE:
    CACHE_EVENTS = Metric::counter("sapwood_bpf_route_cache_events_total", &["event"],
        "Events in the cache: hit, miss, refresh, insert, evict, full, swept and others.");
    CACHE_ENTRIES = Metric::gauge("sapwood_bpf_route_cache_entries", &[],
        "Slots of the cache that are taken.");
    CACHE_SLOTS = Metric::gauge("sapwood_bpf_route_cache_slots", &[], "Slots of the cache.");
}

metrics! {
    /// What `bpf route run --by table`, and `sync follow --xdp` of routes, export besides.
    BPF_MIRROR:
    MIRROR_ROUTES = Metric::gauge("sapwood_bpf_route_mirror_routes", &[],
        "Routes of the kernel that the mirror has.");
    MIRROR_INJECTED = Metric::gauge("sapwood_bpf_route_mirror_injected_routes", &[],
        "Routes that a follower has put beside the kernel's.");
    MIRROR_UNRESOLVED = Metric::gauge("sapwood_bpf_route_mirror_unresolved_routes", &[],
        "Those of them that are left to the kernel, because no next hop is known.");
    MIRROR_GROUPS = Metric::gauge("sapwood_bpf_route_mirror_groups", &[],
        "Groups of next hops in use.");
    MIRROR_EVENTS = Metric::counter("sapwood_bpf_route_mirror_events_total", &["event"],
        "What the mirror did and met: dump, notice, lost, change, refused, link.");
    MIRROR_FAILING = Metric::gauge("sapwood_bpf_route_mirror_failing", &[],
        "1 while the mirror repeats an attempt that failed, else 0.");
    MIRROR_BYTES = Metric::gauge("sapwood_bpf_route_mirror_bytes", &[],
        "Bytes of memory that the tables take.");
    MIRROR_GARBAGE = Metric::gauge("sapwood_bpf_route_mirror_garbage_bytes", &[],
        "Bytes of replaced blocks that wait for programs.");
    MIRROR_PERIODS = Metric::counter("sapwood_bpf_route_mirror_grace_periods_total", &[],
        "Grace periods that this process has begun.");
}

metrics! {
    /// What `sync publish` and `sync follow` export.
    SYNC:
    SYNC_TERM = Metric::gauge("sapwood_sync_term", &[],
        "The leader's term.");
    SYNC_COMMIT = Metric::gauge("sapwood_sync_commit", &[],
        "The newest commit in the log, or the one that a follower's readers see.");
    SYNC_ENTRIES = Metric::gauge("sapwood_sync_entries", &[],
        "Entries of the map.");
    SYNC_COMMITS = Metric::counter("sapwood_sync_commits_total", &[],
        "Commits written or applied since the start.");
    SYNC_CHANGES = Metric::counter("sapwood_sync_changes_total", &[],
        "Changes in the commits that a follower has applied.");
    SYNC_BYTES = Metric::counter("sapwood_sync_bytes_total", &[],
        "Bytes of log entries written or read since the start.");
    SYNC_LAG = Metric::gauge("sapwood_sync_lag_commits", &[],
        "Commits in the log that a follower's readers do not see; of a publisher, the largest one.");
    SYNC_FOLLOWERS = Metric::gauge("sapwood_sync_followers", &[],
        "Living followers, as the publisher knows.");
    SYNC_SNAPSHOT = Metric::gauge("sapwood_sync_snapshot_commit", &[],
        "The commit of the newest snapshot, as the publisher knows.");
    SYNC_RESTORED = Metric::counter("sapwood_sync_restored_total", &[],
        "Times that a follower's map was compared with a snapshot and the log after it.");
    SYNC_REPLACED = Metric::counter("sapwood_sync_replaced_total", &[],
        "Times that a follower's log had become another one, or was written anew from an earlier \
         state, and was adopted.");
    SYNC_LOST = Metric::gauge("sapwood_sync_log_lost", &[],
        "1 while a follower's log is gone, empty or an earlier state of itself, and is not adopted; \
         else 0.");
    SYNC_EVICTED = Metric::counter("sapwood_sync_evicted_total", &[],
        "Evictions: by this publisher, or of this follower.");
    SYNC_TROUBLE = Metric::gauge("sapwood_sync_trouble", &[],
        "1 while something is wrong, else 0.");
}

/// The lists of all commands.
pub const ALL: [&[Metric]; 9] = [
    COMMON, LIVE, LISTS, BPF_NAMES, BPF_SERVE, BPF_ROUTE, BPF_CACHE, BPF_MIRROR, SYNC,
];

/// All metrics.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    ALL.into_iter().flatten()
}
