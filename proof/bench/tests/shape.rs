//! Runs the program on its smallest cases and checks its output.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

fn run(suite: &str, arguments: &[&str]) -> (Value, String) {
    // Tests run in parallel, and several of them may run the same suite.
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (json, csv) = (
        folder.join(format!("{suite}-{run}.json")),
        folder.join(format!("{suite}-{run}.csv")),
    );
    let output = Command::new(env!("CARGO_BIN_EXE_sapwood-bench"))
        .args([suite, "--quick", "--rounds", "1", "--json"])
        .arg(&json)
        .arg("--csv")
        .arg(&csv)
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = std::fs::read_to_string(json).unwrap();
    (
        serde_json::from_str(&text).unwrap(),
        std::fs::read_to_string(csv).unwrap(),
    )
}

/// Checks that every row has exactly the promised fields, with sensible values; returns "case
/// engine metric" of each row.
fn check(report: &Value, suite: &str) -> Vec<String> {
    assert_eq!(report["suite"], suite);
    assert!(report["machine"].is_string());
    assert_eq!(report.as_object().unwrap().len(), 3);
    let fields = [
        "case", "engine", "max", "metric", "min", "rounds", "unit", "value",
    ];
    let rows = report["rows"].as_array().unwrap();
    let names = rows.iter().map(|row| {
        let mut keys: Vec<_> = row.as_object().unwrap().keys().collect();
        keys.sort();
        assert_eq!(keys, fields);
        let number = |field: &str| row[field].as_f64().unwrap();
        assert!(
            number("min") <= number("value") && number("value") <= number("max"),
            "{row}"
        );
        // A wait may be zero, and so may a share, and a number of answers or of allocations; every
        // other value is positive.
        let least = if ["share", "ns", "answers", "allocs"].contains(&row["unit"].as_str().unwrap())
        {
            0.0
        } else {
            f64::MIN_POSITIVE
        };
        assert!(number("value") >= least && row["rounds"] == 1, "{row}");
        let text = |field: &str| row[field].as_str().unwrap();
        format!("{} {} {}", text("case"), text("engine"), text("metric"))
    });
    names.collect()
}

#[test]
fn names() {
    let (report, csv) = run(
        "names",
        &["--cases", "random-binary", "--engines", "blart,std-hashmap"],
    );
    let expected = [
        "random-binary std-hashmap bytes_per_key",
        "random-binary std-hashmap hit_mops",
        "random-binary std-hashmap hit_chained_mops",
        "random-binary std-hashmap miss_mops",
        "random-binary std-hashmap insert_mops",
        "random-binary blart bytes_per_key",
        "random-binary blart hit_mops",
        "random-binary blart hit_chained_mops",
        "random-binary blart miss_mops",
        "random-binary blart insert_mops",
        "random-binary blart scan_mkeys",
        "random-binary blart seek_mops",
        "random-binary blart range10_mops",
        "random-binary blart range100_mops",
        "random-binary blart pred_mops",
    ];
    assert_eq!(check(&report, "names"), expected);
    assert!(csv.starts_with("# date: ") && csv.contains("\n# command: cargo run --release "));
    assert!(!csv.contains(env!("CARGO_TARGET_TMPDIR")));
}

#[test]
fn closest() {
    let engines = "sapwood-index,hashbrown-foldhash,std-hashmap";
    let (report, csv) = run("names", &["--cases", "closest-30k", "--engines", engines]);
    let expected = [
        "closest-30k sapwood-index closest_hit_ns",
        "closest-30k sapwood-index closest_below_ns",
        "closest-30k sapwood-index closest_miss_ns",
        "closest-30k hashbrown-foldhash closest_hit_ns",
        "closest-30k hashbrown-foldhash closest_below_ns",
        "closest-30k hashbrown-foldhash closest_miss_ns",
    ];
    assert_eq!(check(&report, "names"), expected);
    assert!(csv.contains("\n# closest-30k: "));
}

#[test]
fn threads() {
    let peers = "dashmap,rwlock-hashbrown";
    let (report, csv) = run(
        "names",
        &["--case", "threads-random-binary", "--engines", peers],
    );
    let rows = check(&report, "names");
    for row in [
        "threads-random-binary-1 dashmap lookup_mops",
        "threads-random-binary-1 dashmap update_mops",
        "threads-random-binary-1 dashmap bytes_per_key",
        "threads-random-binary-1 dashmap insert_mops",
        "threads-random-binary-2 dashmap bytes_per_key",
        "threads-random-binary-2 dashmap replace_mops",
        "threads-random-binary-2 rwlock-hashbrown lookup_cpu_mops",
        "threads-random-binary-2 rwlock-hashbrown update_cpu_mops",
        "threads-random-binary-2 rwlock-hashbrown met_lock_share",
        "threads-random-binary-2 rwlock-hashbrown waited_ns_per_op",
    ] {
        assert!(rows.iter().any(|known| known == row), "no {row}");
    }
    assert!(
        !rows
            .iter()
            .any(|row| row.contains("dashmap met_lock_share"))
    );
    assert!(!rows.iter().any(|row| row.contains("mixed")));
    assert!(csv.contains(" cores\n"));

    let mixed = [
        "--cases",
        "threads-mixed-random-binary",
        "--engines",
        "papaya",
    ];
    let rows = check(&run("names", &mixed).0, "names");
    let expected = [
        "reader_alone_cpu_mops",
        "reader_apart_cpu_mops",
        "reader_beside_cpu_mops",
        "writers1_cpu_mops",
        "writers2_apart_cpu_mops",
        "writers2_cpu_mops",
        "insert_mops",
    ];
    assert_eq!(
        rows,
        expected.map(|metric| format!("threads-mixed-random-binary papaya {metric}"))
    );
}

#[test]
fn versions() {
    let cases = "readers-1,readers-10,rw-1w1r,event-loop,items-10,commit1-1k,commit1000-1k";
    let (report, csv) = run("versions", &["--cases", cases]);
    let rows = check(&report, "versions");
    for store in [
        "sapwood",
        "rwlock-qp",
        "arcswap-qp",
        "urcu-qp",
        "urcu-qsbr-qp",
        "rwlock-btreemap",
        "arcswap-imbl",
        "left-right",
        "crossbeam-skipmap",
    ] {
        // The library may not be installed.
        if store.starts_with("urcu") && csv.contains(&format!("# without {store}: ")) {
            continue;
        }
        for row in [
            "readers-1 S reader_mops",
            "readers-10 S reader_wall_mops",
            "event-loop S reader_wall_mops",
            "event-loop S commit_wall_mops",
            "rw-1w1r S writer_mops",
            "rw-1w1r S commit_mops",
            "items-10 S bytes_per_item",
            "commit1-1k S commit_mops",
            "commit1000-1k S commit_max_us",
        ] {
            let row = row.replace('S', store);
            assert!(rows.contains(&row), "no {row}");
        }
    }
}

#[test]
fn routes() {
    let engines = "sapwood,sapwood-batch,sapwood-table,sapwood-table-batch,sapwood-bits,\
        sapwood-bits-inline,prefix-trie,iptrie";
    let cases = [
        "--cases",
        "v6-gen,v4-100k-random,v4-full",
        "--engines",
        engines,
    ];
    let (report, csv) = run("routes", &cases);
    let rows = check(&report, "routes");
    for engine in [
        "sapwood",
        "sapwood-batch",
        "sapwood-table",
        "sapwood-table-batch",
        "sapwood-bits",
        "sapwood-bits-inline",
        "prefix-trie",
    ] {
        for metric in [
            "bytes_per_prefix",
            "wrong",
            "random_mlps",
            "intable_mlps",
            "insert_ns",
            "remove_ns",
            "update_p50_us",
            "update_p999_us",
            "update_max_us",
            "reader_mlps",
            "build_ms",
            "drop_ms",
        ] {
            for case in ["v6-gen", "v4-100k-random"] {
                let row = format!("{case} {engine} {metric}");
                assert!(rows.contains(&row), "{row}");
            }
        }
    }
    assert!(!rows.contains(&"v6-gen iptrie remove_ns".to_owned()));
    assert!(csv.contains("# WRONG: iptrie: `remove` "));
    assert!(csv.contains("# v4-full: no routes: --data names no folder\n"));
    let wrong = report["rows"].as_array().unwrap().iter();
    let wrong = wrong.filter(|row| row["metric"] == "wrong" && row["value"] != 0.0);
    assert_eq!(wrong.count(), 0);
}

#[test]
fn cache() {
    let peers = "sapwood,sapwood-apart,quick_cache";
    // Each name also selects the case for two threads.
    let cases = "size-0,size-8,churn,hostile-first";
    let rows = check(
        &run("cache", &["--cases", cases, "--engines", peers]).0,
        "cache",
    );
    let expected = [
        "size-0 sapwood get_ns",
        "size-0 sapwood insert_ns",
        "size-0 quick_cache get_ns",
        "size-0 quick_cache insert_ns",
        "size-8 sapwood get_ns",
        "size-8 sapwood refresh_ns",
        "size-8 sapwood insert_ns",
        "size-8 quick_cache get_ns",
        "size-8 quick_cache refresh_ns",
        "size-8 quick_cache insert_ns",
        "churn sapwood churn_ns",
        "churn quick_cache churn_ns",
        "hostile-first sapwood hit_rate",
        "hostile-first quick_cache hit_rate",
        "size-0-2t sapwood get_ns",
        "size-0-2t sapwood insert_ns",
        "size-0-2t sapwood-apart get_ns",
        "size-0-2t sapwood-apart insert_ns",
        "size-0-2t quick_cache get_ns",
        "size-0-2t quick_cache insert_ns",
        "size-8-2t sapwood get_ns",
        "size-8-2t sapwood refresh_ns",
        "size-8-2t sapwood insert_ns",
        "size-8-2t sapwood-apart get_ns",
        "size-8-2t sapwood-apart refresh_ns",
        "size-8-2t sapwood-apart insert_ns",
        "size-8-2t quick_cache get_ns",
        "size-8-2t quick_cache refresh_ns",
        "size-8-2t quick_cache insert_ns",
        "churn-2t sapwood churn_ns",
        "churn-2t sapwood-apart churn_ns",
        "churn-2t quick_cache churn_ns",
        "hostile-first-2t sapwood hit_rate",
        "hostile-first-2t sapwood-apart hit_rate",
        "hostile-first-2t quick_cache hit_rate",
    ];
    assert_eq!(rows, expected);
}

#[test]
fn ranges() {
    let engines = "sapwood,std-btreemap,nodit,range-set-blaze";
    let cases = "1k,vma,dense-256";
    let (report, csv) = run("ranges", &["--cases", cases, "--engines", engines]);
    let rows = check(&report, "ranges");
    let reads = ["load_ns", "load_dependent_ns", "iter_ns", "bytes_per_entry"];
    for case in ["1k", "vma", "dense-256"] {
        for engine in ["sapwood", "std-btreemap", "nodit"] {
            for metric in reads.into_iter().chain(["store_ns"]) {
                let row = format!("{case} {engine} {metric}");
                assert!(rows.contains(&row), "no {row}");
            }
            // A map without gaps is not searched for gaps.
            for metric in ["gap_common_ns", "gap_rare_ns"] {
                let row = format!("{case} {engine} {metric}");
                assert_eq!(rows.contains(&row), case != "dense-256", "{row}");
            }
        }
    }
    let nodes = |case: &str, metric: &str| {
        let rows = report["rows"].as_array().unwrap();
        let is_it = |row: &&Value| row["case"] == case && row["metric"] == metric;
        let row = rows.iter().find(is_it).expect("ours has it");
        assert!(row["engine"] == "sapwood" && row["unit"] == "nodes");
        row["value"].as_f64().unwrap()
    };
    for case in ["1k", "vma", "dense-256"] {
        let requested = nodes(case, "nodes_requested");
        assert_eq!(requested, nodes(case, "nodes_used"));
        assert!(nodes(case, "nodes_requested_vacant") <= nodes(case, "nodes_requested_worst"));
    }
    assert!(csv.contains("# 1k: sapwood: 10000 changes, requests planned: 1:"));
    assert!(rows.contains(&"1k range-set-blaze gap_rare_ns".to_owned()));
    assert!(rows.contains(&"dense-256 range-set-blaze store_ns".to_owned()));
    assert!(!rows.contains(&"1k range-set-blaze store_ns".to_owned()));
    assert!(csv.contains("# vma: without range-set-blaze: it removes single indices"));
}

#[test]
fn ranges_replayed_and_shared() {
    let cases = "replay-cc,replay-python,beside-1w1r,beside-1w4r,writers-2";
    let engines = "sapwood,std-btreemap,rwlock-btreemap";
    let (report, _) = run("ranges", &["--cases", cases, "--engines", engines]);
    let rows = check(&report, "ranges");
    for case in ["replay-cc", "replay-python"] {
        for engine in ["sapwood", "std-btreemap"] {
            for metric in ["store_ns", "load_ns", "gap_rare_ns"] {
                let row = format!("{case} {engine} {metric}");
                assert!(rows.contains(&row), "no {row}");
            }
        }
    }
    for engine in ["sapwood", "rwlock-btreemap"] {
        let changes = ["change_mops", "p50_us", "p99_us", "worst_us"];
        let loads = ["load_alone_mops", "load_mops"];
        for metric in changes.into_iter().chain(loads) {
            let row = format!("beside-1w4r {engine} {metric}");
            assert!(rows.contains(&row), "no {row}");
            let row = format!("writers-2 {engine} {metric}");
            assert_eq!(rows.contains(&row), !loads.contains(&metric), "{row}");
        }
    }
}

#[test]
fn lists() {
    let engines = "sapwood,sapwood-fingerprints,hashbrown";
    let (report, csv) = run("lists", &["--cases", "lists-200k", "--engines", engines]);
    let rows = check(&report, "lists");
    for engine in engines.split(',') {
        let metrics = [
            "load_s",
            "reload_s",
            "reload_gap_ms",
            "rss_mb",
            "peak_mb",
            "bytes_per_rule",
            "ask_mops",
        ];
        for metric in metrics {
            let row = format!("lists-200k {engine} {metric}");
            assert!(rows.contains(&row), "{row} is not in {rows:?}");
        }
    }
    assert!(rows.contains(&"lists-200k sapwood file_mb".to_owned()));
    assert!(csv.contains("10000 names, each with all below it"), "{csv}");
}

#[test]
fn go() {
    let output = Command::new(env!("CARGO_BIN_EXE_sapwood-bench"))
        .args(["go", "--quick", "--cases", "ranges"])
        .env("SAPWOOD_GO", "no-such-go")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("Go is missing: no-such-go: "),
        "{said}"
    );
    if Command::new("go").arg("version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "there is no Go");
        println!("skipped: there is no Go in the path; see ci/setup.sh");
        return;
    }

    let (report, csv) = run("go", &[]);
    let rows = check(&report, "go");
    let names = [
        "hit_mops",
        "miss_mops",
        "closest_hit_ns",
        "closest_below_ns",
        "closest_miss_ns",
    ];
    let routes = ["random_mlps", "intable_mlps"];
    let checked = "sapwood-rust-checked";
    let live: &[&str] = &["sapwood-go", checked];
    let trie = [live, &["map[string]", "go-immutable-radix"]].concat();
    let table = [live, &["bart"]].concat();
    let list = [live, &["map[string]"]].concat();
    let cases: [(&str, &[&str], &[&str]); 8] = [
        ("names", &trie, &names),
        ("names-live", live, &names),
        ("routes-v4", &table, &routes),
        ("routes-v6", &table, &routes),
        ("routes-live", live, &routes),
        ("ranges", live, &["load_ns"]),
        ("ranges-live", live, &["load_ns"]),
        ("lists", &list, &["ask_mops"]),
    ];
    let mut expected = Vec::new();
    for (case, engines, metrics) in cases {
        for engine in engines {
            let allocs = (*engine != checked).then_some(&"allocs");
            let metrics = metrics.iter().chain(allocs);
            expected.extend(metrics.map(|metric| format!("{case} {engine} {metric}")));
        }
    }
    assert_eq!(rows, expected);
    let allocs = report["rows"].as_array().unwrap().iter();
    let mut allocs =
        allocs.filter(|row| row["metric"] == "allocs" && row["engine"] == "sapwood-go");
    assert!(allocs.all(|row| row["value"] == 0.0));
    assert!(csv.contains("\n# go1."), "{csv}");
}

#[test]
fn bpf() {
    let cases = "random-binary,lpm-100k,xdp-route-v4-1,xdp-route-v6-1k,xdp-route-netns-v4,drop-1m";
    let (report, csv) = run("bpf", &["--cases", cases]);
    if let Some(why) = report["skipped"].as_str() {
        assert!(std::env::var_os("SAPWOOD_BPF_MUST_RUN").is_none(), "{why}");
        println!("skipped: {why}");
        assert_eq!(report["rows"], Value::Array(vec![]));
        assert!(csv.contains("# skipped: "));
        return;
    }
    let rows = check(&report, "bpf");
    for engine in [
        "sapwood-bpf",
        "sapwood-bpf-index",
        "sapwood-bpf-both",
        "kernel-hash",
        "kernel-hash-noprealloc",
    ] {
        for metric in [
            "memory_mb",
            "lookup_ns",
            "miss_ns",
            "hot_ns",
            "walk_ns",
            "update_user_ns",
        ] {
            let row = format!("random-binary {engine} {metric}");
            // An index alone has no order to walk in.
            let is_there = (engine, metric) != ("sapwood-bpf-index", "walk_ns");
            assert_eq!(rows.contains(&row), is_there, "{row}");
        }
    }
    for engine in ["sapwood-bpf", "kernel-lpm-trie"] {
        for metric in ["memory_mb", "lookup_ns", "hot_ns", "update_user_ns"] {
            let row = format!("lpm-100k {engine} {metric}");
            assert!(rows.contains(&row), "no {row}");
        }
    }
    for row in [
        "drop-1m sapwood-bpf-index drop_ms",
        "drop-1m kernel-hash drop_ms",
        "drop-1m sapwood-bpf-index held_us",
        "drop-1m sapwood-bpf-at-once held_us",
        "drop-1m kernel-hash held_us",
        "random-binary sapwood-bpf-index walk_user_ns",
        "random-binary sapwood-bpf-index update_bpf_ns",
        "xdp-route-v4-1 sapwood-xdp-cache packet_ns",
        "xdp-route-v6-1k sapwood-xdp-resolver mpps",
        "xdp-route-v6-1k sapwood-xdp-fib call_ns",
        "xdp-route-netns-v4 sapwood-xdp-fib kpps",
        "xdp-route-netns-v4 kernel-forwarding kpps",
    ] {
        assert!(rows.iter().any(|known| known == row), "no {row}");
    }
    assert!(csv.contains(" of more than 254 bytes\n"));
}
