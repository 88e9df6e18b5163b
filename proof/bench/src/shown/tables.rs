//! The tables of the pages from our records. [`published`] has the tables beside published figures.

use super::pages::{Ask, Cell, How, Table};
use super::published;

/// The names of all tables.
#[cfg(test)]
pub const NAMES: [&str; 29] = [
    "readme",
    "published-bpf",
    "published-bpf-updates",
    "published-bpf-threads",
    "published-ranges",
    "published-versions-alone",
    "published-versions-beside",
    "published-versions-writer",
    "published-versions-operations",
    "published-versions-items",
    "published-cache",
    "names-ordered",
    "names-hits",
    "names-misses",
    "names-inserts",
    "names-bytes",
    "threads",
    "versions",
    "commits",
    "routes-v4",
    "routes-v6",
    "routes-sparse",
    "cache",
    "ranges-1m",
    "ranges-1k",
    "ranges-vma",
    "bpf",
    "bpf-changes",
    "bpf-routes",
];

/// The table with a name.
pub fn named(name: &str) -> Option<Table> {
    Some(match name {
        "readme" => readme(),
        "published-bpf" => published::bpf(),
        "published-bpf-updates" => published::bpf_updates(),
        "published-bpf-threads" => published::bpf_threads(),
        "published-ranges" => published::ranges(),
        "published-versions-alone" => {
            published::versions("readers-", "", "reader_mops", &published::ALONE)
        }
        "published-versions-beside" => {
            published::versions("rw-1w", "r", "reader_mops", &published::BESIDE)
        }
        "published-versions-writer" => {
            published::versions("rw-1w", "r", "writer_mops", &published::WRITER)
        }
        "published-versions-operations" => published::operations(),
        "published-versions-items" => published::items(),
        "published-cache" => published::cache(),
        "names-ordered" => names_ordered(),
        "names-hits" => names_points("hit_mops", &["sapwood-index-batch16"]),
        "names-misses" => names_points("miss_mops", &[]),
        "names-inserts" => names_points("insert_mops", &["sapwood-shared"]),
        "names-bytes" => names_bytes(),
        "threads" => threads(),
        "versions" => versions(),
        "commits" => commits(),
        "routes-v4" => routes("v4-full", &ROUTES_V4),
        "routes-v6" => routes("v6-full", &ROUTES_V6),
        "routes-sparse" => routes("v4-100k-random", &ROUTES_V4),
        "cache" => cache(),
        "ranges-1m" => ranges("1m"),
        "ranges-1k" => ranges("1k"),
        "ranges-vma" => ranges("vma"),
        "ranges-replay" => ranges_shared("replay-cc", &REPLAYED),
        "ranges-beside" => ranges_shared("beside-1w1r", &SHARED),
        "bpf" => bpf(),
        "bpf-changes" => bpf_changes(),
        "bpf-routes" => bpf_routes(),
        _ => return None,
    })
}

/// The key sets, with their names and cases.
const SETS: [(&str, &str); 5] = [
    ("kernel symbols, 121k", "kallsyms"),
    ("BTF strings, 125k", "btf"),
    ("file paths, 100k", "paths"),
    ("domain names, 20k", "domains-real"),
    ("domain names, 1M", "domains-1m"),
];

pub fn text(text: &str) -> Cell {
    Cell::Text(text.to_owned())
}

pub fn head(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A figure from a record that has `sapwood`, the engine that most suites have.
pub fn of(
    suite: &'static str,
    case: &'static str,
    engine: &'static str,
    metric: &'static str,
    how: How,
) -> Cell {
    Cell::Both(ask(suite, case, engine, metric, how))
}

fn ask(
    suite: &'static str,
    case: &'static str,
    engine: &'static str,
    metric: &'static str,
    how: How,
) -> Ask {
    let ours = match suite {
        "names" if case.starts_with("threads") => "sapwood-shared",
        "bpf" => "sapwood-bpf",
        _ => "sapwood",
    };
    Ask {
        suite,
        case,
        ours,
        engine,
        metric,
        how,
    }
}

/// A table with a row per engine, and a column per case and metric.
fn engines(
    suite: &'static str,
    engines: &[(&str, &'static str)],
    columns: &[(&str, &'static str, &'static str)],
) -> Table {
    let mut heads = vec![String::new()];
    heads.extend(columns.iter().map(|(name, ..)| (*name).to_owned()));
    let row = |(name, engine): &(&str, &'static str)| {
        let figures = columns
            .iter()
            .map(|(_, case, metric)| of(suite, case, engine, metric, How::Plain));
        std::iter::once(text(name)).chain(figures).collect()
    };
    Table {
        head: heads,
        rows: engines.iter().map(row).collect(),
    }
}

fn readme() -> Table {
    let figure = |name, suite, case, engine, metric| {
        Cell::Named(name, ask(suite, case, engine, metric, How::Plain))
    };
    let names = |what: &str, case, metric, hash| {
        vec![
            text(what),
            figure("`QpMap`", "names", case, "sapwood", metric),
            figure("`BTreeMap`", "names", case, "std-btreemap", metric),
            if hash {
                figure("hashbrown", "names", case, "hashbrown-foldhash", metric)
            } else {
                text("")
            },
        ]
    };
    let versions = |what: &str, case, metric| {
        vec![
            text(what),
            figure("`QpStore`", "versions", case, "sapwood", metric),
            figure(
                "a lock over `BTreeMap`",
                "versions",
                case,
                "rwlock-btreemap",
                metric,
            ),
            figure("arc-swap", "versions", case, "arcswap-imbl", metric),
        ]
    };
    let routes = |what: &str, metric| {
        vec![
            text(what),
            figure("`Ipv4Fib`", "routes", "v4-full", "sapwood", metric),
            figure("prefix-trie", "routes", "v4-full", "prefix-trie", metric),
            figure(
                "ip_network_table",
                "routes",
                "v4-full",
                "ip_network_table",
                metric,
            ),
        ]
    };
    let ranges = |what: &str, case, metric| {
        vec![
            text(what),
            figure("`MapleMap`", "ranges", case, "sapwood", metric),
            figure("`BTreeMap`", "ranges", case, "std-btreemap", metric),
            figure("Abseil", "ranges", case, "absl-btree", metric),
        ]
    };
    let cached = |what: &str, metric| {
        vec![
            text(what),
            figure("`RouteCache`", "cache", "size-8192", "sapwood", metric),
            figure(
                "a lock over a hash map",
                "cache",
                "size-8192",
                "rwlock-foldhash",
                metric,
            ),
            figure("papaya", "cache", "size-8192", "papaya", metric),
        ]
    };
    Table {
        head: head(&["", "here", "beside it", ""]),
        rows: vec![
            names(
                "kernel symbols: scan, million keys/s",
                "kallsyms",
                "scan_mkeys",
                false,
            ),
            names("… lookup, M/s", "kallsyms", "hit_mops", true),
            vec![
                text("… lookup with the index, M/s"),
                figure(
                    "`with_index`",
                    "names",
                    "kallsyms",
                    "sapwood-index",
                    "hit_mops",
                ),
                figure(
                    "`BTreeMap`",
                    "names",
                    "kallsyms",
                    "std-btreemap",
                    "hit_mops",
                ),
                figure(
                    "hashbrown",
                    "names",
                    "kallsyms",
                    "hashbrown-foldhash",
                    "hit_mops",
                ),
            ],
            names(
                "… bytes a key beyond the key",
                "kallsyms",
                "bytes_per_key",
                true,
            ),
            names(
                "20,000 domain names: scan",
                "domains-real",
                "scan_mkeys",
                false,
            ),
            versions(
                "lookups beside a busy writer, M/s",
                "rw-1w1r",
                "reader_mops",
            ),
            routes("full IPv4 table: lookup, M/s", "intable_mlps"),
            routes("… insertion, ns", "insert_ns"),
            ranges("a million ranges: load, ns", "1m", "load_ns"),
            ranges("a thousand ranges: change, ns", "1k", "store_ns"),
            cached("cached next hop: get, ns", "get_ns"),
        ],
    }
}

fn names_ordered() -> Table {
    let maps = [
        ("`QpMap`", "sapwood"),
        ("`QpStore`", "sapwood-store"),
        ("`QpShared`", "sapwood-shared"),
    ];
    let metrics = [
        "scan_mkeys",
        "seek_mops",
        "range10_mops",
        "range100_mops",
        "pred_mops",
        "insert_mops",
    ];
    let mut rows = Vec::new();
    for (set, case) in SETS {
        for (map, engine) in maps {
            let figures =
                metrics.map(|metric| of("names", case, engine, metric, How::Of("std-btreemap")));
            let mut row = vec![text(set), text(map)];
            row.extend(figures);
            rows.push(row);
        }
    }
    Table {
        head: head(&[
            "of `BTreeMap`'s speed",
            "",
            "scan",
            "search",
            "and 10 entries",
            "and 100",
            "predecessor",
            "insert",
        ]),
        rows,
    }
}

/// Single-key operations, as multiples of a hash map's speed.
fn names_points(metric: &'static str, more: &[&'static str]) -> Table {
    let mut lanes = vec!["sapwood", "sapwood-index"];
    lanes.extend(more);
    let title = |engine: &str| match engine {
        "sapwood" => "`QpMap`",
        "sapwood-index" => "with index",
        "sapwood-index-batch16" => "with index, 16 at once",
        _ => "`QpShared`",
    };
    let mut heads = head(&["", "hashbrown, M/s", "BTreeMap / hashbrown"]);
    heads.extend(
        lanes
            .iter()
            .map(|lane| format!("{} / hashbrown", title(lane))),
    );
    let rows = SETS.map(|(set, case)| {
        let figure = |engine, how| of("names", case, engine, metric, how);
        let hash = How::Of("hashbrown-foldhash");
        let mut row = vec![
            text(set),
            figure("hashbrown-foldhash", How::Plain),
            figure("std-btreemap", hash),
        ];
        row.extend(lanes.iter().map(|lane| figure(lane, hash)));
        row
    });
    Table {
        head: heads,
        rows: rows.into(),
    }
}

fn names_bytes() -> Table {
    let lanes = [
        "sapwood",
        "sapwood-index",
        "sapwood-store",
        "sapwood-shared",
        "std-btreemap",
        "hashbrown-foldhash",
    ];
    let rows = SETS.map(|(set, case)| {
        let figures = lanes.map(|lane| of("names", case, lane, "bytes_per_key", How::Plain));
        std::iter::once(text(set)).chain(figures).collect()
    });
    Table {
        head: head(&[
            "bytes a key beyond the key",
            "`QpMap`",
            "with index",
            "`QpStore`",
            "`QpShared`",
            "BTreeMap",
            "hashbrown",
        ]),
        rows: rows.into(),
    }
}

fn threads() -> Table {
    let lanes = [
        ("`QpShared`", "sapwood-shared"),
        ("`QpShared` with index", "sapwood-shared-index"),
        ("`PointMap`", "sapwood-points"),
        ("scc", "scc-hashmap"),
        ("papaya", "papaya"),
        ("dashmap", "dashmap"),
        ("RwLock over hashbrown", "rwlock-hashbrown"),
        ("crossbeam SkipMap", "crossbeam-skipmap"),
        ("masstree", "masstree"),
    ];
    let (one, two) = ("threads-kallsyms-1", "threads-kallsyms-2");
    let columns = [
        ("lookups, 1 thread", one, "lookup_mops"),
        ("2 threads", two, "lookup_mops"),
        ("updates, 1 thread", one, "update_mops"),
        ("2 threads", two, "update_mops"),
        ("replacements, 1 thread", one, "replace_mops"),
        ("2 threads", two, "replace_mops"),
        ("bytes a key", one, "bytes_per_key"),
    ];
    engines("names", &lanes, &columns)
}

/// The stores, with their names and engines.
const STORES: [(&str, &str); 9] = [
    ("`QpStore`", "sapwood"),
    ("same trie, liburcu (QSBR)", "urcu-qsbr-qp"),
    ("same trie, liburcu", "urcu-qp"),
    ("same trie, arc-swap", "arcswap-qp"),
    ("same trie, RwLock", "rwlock-qp"),
    ("RwLock over BTreeMap", "rwlock-btreemap"),
    ("arc-swap over imbl", "arcswap-imbl"),
    ("left-right over BTreeMap", "left-right"),
    ("crossbeam SkipMap (no transactions)", "crossbeam-skipmap"),
];

fn versions() -> Table {
    let columns = [
        ("reads alone", "readers-1", "reader_mops"),
        ("beside a writer", "rw-1w1r", "reader_mops"),
        ("four, beside a writer", "rw-1w4r", "reader_mops"),
        ("that writer, one reader", "rw-1w1r", "writer_mops"),
        ("in an event loop", "event-loop", "reader_mops"),
        ("bytes an item, 100k", "items-100000", "bytes_per_item"),
    ];
    engines("versions", &STORES, &columns)
}

fn commits() -> Table {
    let columns = [
        ("1k items, M/s", "commit1-1k", "commit_mops"),
        ("worst, µs", "commit1-1k", "commit_max_us"),
        ("121k items, M/s", "commit1-12*", "commit_mops"),
        ("worst, µs", "commit1-12*", "commit_max_us"),
        ("1M items, M/s", "commit1-1m", "commit_mops"),
        ("worst, µs", "commit1-1m", "commit_max_us"),
    ];
    engines("versions", &STORES, &columns)
}

const ROUTES_V4: [(&str, &str); 7] = [
    ("`Ipv4Fib`", "sapwood"),
    ("`Ipv4Fib`, 32 at once", "sapwood-batch"),
    ("`RouteTable`", "sapwood-table"),
    ("`BitFib`", "sapwood-bits"),
    ("prefix-trie", "prefix-trie"),
    ("ip_network_table", "ip_network_table"),
    ("DPDK rte_fib, in bulk", "dpdk-fib"),
];
const ROUTES_V6: [(&str, &str); 8] = [
    ("`Ipv6Fib`", "sapwood"),
    ("`Ipv6Fib`, 32 at once", "sapwood-batch"),
    ("`RouteTable`", "sapwood-table"),
    ("`BitFib`", "sapwood-bits"),
    ("prefix-trie", "prefix-trie"),
    ("ip_network_table", "ip_network_table"),
    ("DPDK rte_fib6, in bulk", "dpdk-fib6"),
    ("DPDK rte_lpm6, in bulk", "dpdk-lpm6"),
];

fn routes(case: &'static str, lanes: &[(&str, &'static str)]) -> Table {
    let columns = [
        ("random, M/s", case, "random_mlps"),
        ("inside, M/s", case, "intable_mlps"),
        ("insert, ns", case, "insert_ns"),
        ("remove, ns", case, "remove_ns"),
        ("a change beside a reader, µs", case, "update_p50_us"),
        ("p99.9, µs", case, "update_p999_us"),
        ("that reader, M/s", case, "reader_mlps"),
        ("bytes a prefix", case, "bytes_per_prefix"),
    ];
    engines("routes", lanes, &columns)
}

fn cache() -> Table {
    let lanes = [
        ("`RouteCache`", "sapwood"),
        ("lock over hashbrown", "rwlock-foldhash"),
        ("papaya", "papaya"),
        ("dashmap", "dashmap"),
        ("quick_cache", "quick_cache"),
        ("moka", "moka"),
    ];
    let columns = [
        ("get, 8 entries, ns", "size-8", "get_ns"),
        ("512", "size-512", "get_ns"),
        ("8,192", "size-8192", "get_ns"),
        ("8,192, two threads", "size-8192-2t", "get_ns"),
        ("insert, 8,192", "size-8192", "insert_ns"),
        ("hits after hostile keys", "hostile-first", "hit_rate"),
    ];
    engines("cache", &lanes, &columns)
}

fn ranges(case: &'static str) -> Table {
    let lanes = [
        ("`MapleMap`", "sapwood"),
        ("BTreeMap of starts", "std-btreemap"),
        ("nodit", "nodit"),
        ("rangemap", "rangemap"),
        ("range-set-blaze", "range-set-blaze"),
        ("`absl::btree_map`", "absl-btree"),
        ("the kernel's maple tree", "kernel-maple"),
    ];
    let columns = [
        ("load, ns", case, "load_ns"),
        ("iterate, an entry", case, "iter_ns"),
        ("change", case, "store_ns"),
        ("lowest gap, common", case, "gap_common_ns"),
        ("rare", case, "gap_rare_ns"),
        ("bytes an entry", case, "bytes_per_entry"),
    ];
    engines("ranges", &lanes, &columns)
}

/// The columns for recorded address spaces, and for maps with readers.
type Columns = [(&'static str, &'static str); 4];
const REPLAYED: Columns = [
    ("change, ns", "store_ns"),
    ("load, ns", "load_ns"),
    ("lowest gap, common, ns", "gap_common_ns"),
    ("bytes an entry", "bytes_per_entry"),
];
const SHARED: Columns = [
    ("loads alone, M/s", "load_alone_mops"),
    ("beside a writer, M/s", "load_mops"),
    ("changes, M/s", "change_mops"),
    ("p99, µs", "p99_us"),
];

fn ranges_shared(case: &'static str, columns: &Columns) -> Table {
    let lanes = [
        ("`MapleMap`", "sapwood"),
        ("BTreeMap of starts", "std-btreemap"),
        ("RwLock over BTreeMap", "rwlock-btreemap"),
        ("`absl::btree_map`", "absl-btree"),
        ("the kernel's maple tree", "kernel-maple"),
    ];
    engines(
        "ranges",
        &lanes,
        &columns.map(|(name, metric)| (name, case, metric)),
    )
}

/// The key sets of the suite `bpf`.
const KERNEL_SETS: [(&str, &str); 5] = [
    SETS[0],
    SETS[1],
    SETS[2],
    SETS[4],
    ("random bytes, 16k", "random-binary"),
];

fn bpf() -> Table {
    let lanes = [("index", "sapwood-bpf-index"), ("trie", "sapwood-bpf")];
    let metrics = ["lookup_ns", "hot_ns", "miss_ns", "memory_mb"];
    let mut rows = Vec::new();
    for (set, case) in KERNEL_SETS {
        for (name, engine) in lanes {
            let figures =
                metrics.map(|metric| of("bpf", case, engine, metric, How::Of("kernel-hash")));
            let mut row = vec![text(set), text(name)];
            row.extend(figures);
            rows.push(row);
        }
    }
    Table {
        head: head(&[
            "of HASH's time, and memory",
            "",
            "random keys",
            "a thousand hot keys",
            "misses",
            "memory",
        ]),
        rows,
    }
}

fn bpf_changes() -> Table {
    let lanes = [
        ("index", "sapwood-bpf-index"),
        ("trie", "sapwood-bpf"),
        ("both, the default", "sapwood-bpf-both"),
    ];
    let metrics = ["insert_bpf_ns", "update_bpf_ns", "update_user_ns"];
    let mut rows = Vec::new();
    for (set, case) in KERNEL_SETS {
        for (name, engine) in lanes {
            let figures =
                metrics.map(|metric| of("bpf", case, engine, metric, How::Of("kernel-hash")));
            let mut row = vec![text(set), text(name)];
            row.extend(figures);
            rows.push(row);
        }
    }
    Table {
        head: head(&[
            "of HASH's time",
            "",
            "insertions by programs",
            "updates by programs",
            "changes by user space",
        ]),
        rows,
    }
}

fn bpf_routes() -> Table {
    let lanes = [
        ("`FibMap`", "sapwood-bpf"),
        ("the kernel's LPM_TRIE", "kernel-lpm-trie"),
    ];
    let columns = [
        ("full table: lookup, ns", "lpm-full", "lookup_ns"),
        ("hot, ns", "lpm-full", "hot_ns"),
        ("change, ns", "lpm-full", "update_user_ns"),
        ("memory, MB", "lpm-full", "memory_mb"),
        ("100,000 random: lookup, ns", "lpm-100k", "lookup_ns"),
        ("hot, ns", "lpm-100k", "hot_ns"),
        ("memory, MB", "lpm-100k", "memory_mb"),
    ];
    engines("bpf", &lanes, &columns)
}
