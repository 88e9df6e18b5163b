//! Runs the program on its smallest cases and checks what it writes.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

fn run(suite: &str, arguments: &[&str]) -> (Value, String) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (json, csv) = (
        folder.join(format!("{suite}.json")),
        folder.join(format!("{suite}.csv")),
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

/// Every row has just the promised fields, with sensible values; returns "case engine metric" of each.
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
        assert!(
            number("value") > 0.0 && row["rounds"] == 1 && row["unit"].is_string(),
            "{row}"
        );
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
    ];
    assert_eq!(check(&report, "names"), expected);
    assert!(csv.starts_with("# date: ") && csv.contains("\n# command: cargo run --release "));
    assert!(!csv.contains(env!("CARGO_TARGET_TMPDIR")));
}

#[test]
fn versions() {
    let cases = "readers-1,rw-1w1r,items-10,commit1-1k,commit1000-1k";
    let rows = check(&run("versions", &["--cases", cases]).0, "versions");
    for store in [
        "sapwood",
        "rwlock-btreemap",
        "arcswap-imbl",
        "left-right",
        "crossbeam-skipmap",
    ] {
        for row in [
            "readers-1 S reader_mops",
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
