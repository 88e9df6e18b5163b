//! The command `report`: pages of records, and inputs that are none.

#[path = "../../../program/cli/tests/cli/browser.rs"]
mod browser;
#[path = "../../../program/cli/tests/cli/common/mod.rs"]
mod common;
#[path = "../../../program/cli/tests/cli/page.rs"]
mod page;

use browser::{browse, chromium, has_all, of, picture};
use common::Scratch;
use page::{between, plain, rows, stands_alone};
use serde_json::Value;

/// The directory of the repository's records.
const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/record");

/// A record whose names would be markup, if they were not escaped.
const RECORD: &str = "# date: 2026-01-31
# commit: 0123456789ab
# command: cargo run -- names --csv <i>FILE</i>
# machine: A & B, 2 cores
# <b>set: 3 keys
suite,case,engine,metric,value,unit,rounds,min,max
names,<b>set,sapwood,hit_mops,8,Mop/s,3,7,9
names,<b>set,sapwood,bytes_per_key,24,B,1,24,24
names,<b>set,\"rival\"\">\",hit_mops,2,Mop/s,3,1.5,2.5
names,<b>set,\"rival\"\">\",bytes_per_key,12,B,1,12,12
names,readers-1,sapwood,reader_mops,3,M/s,1,3,3
names,readers-4,sapwood,reader_mops,9,M/s,1,9,9
names,readers-1,<script>alert(1)</script>,commit_p50_us,5,us,1,5,5
names,readers-1,<script>alert(1)</script>,commit_max_us,70,us,1,70,70
names,<b>set,sapwood-index,hit_mops,1,Mop/s,1,1,1
";

fn page_of(s: &Scratch, records: &str) -> String {
    s.run(&["report", "--records", records, "-o", "page.html"])
        .code(0)
        .out("")
        .quiet();
    std::fs::read_to_string(s.path("page.html")).unwrap()
}

#[test]
fn a_page_shows_a_record_and_escapes_its_texts() {
    let s = Scratch::new();
    s.file("r.csv", RECORD);
    let text = page_of(&s, "r.csv");
    stands_alone(&text);
    assert!(text.starts_with("<!DOCTYPE html><html lang=\"en\">"));
    for tag in ["<b>set", "<script", "rival\">", "<i>"] {
        assert!(!text.contains(tag), "{tag}");
    }
    // Ours beside the best peer.
    let all = rows(&text);
    let row = |cells: &[&str]| {
        all.iter()
            .any(|row| row.iter().map(|c| &**c).eq(cells.iter().copied()))
    };
    let hit = [
        "<b>set",
        "hit, Mop/s",
        "rival\"> 2.00",
        "4.00× (8.00)",
        "0.50× (1.00)",
    ];
    assert!(row(&hit), "{all:?}");
    let bytes = [
        "<b>set",
        "bytes per key, B",
        "rival\"> 12.0",
        "0.50× (24.0)",
        "–",
    ];
    assert!(row(&bytes), "{all:?}");
    // All figures of a case.
    assert!(row(&["sapwood", "8.00 (7.00–9.00)", "24.0"]));
    assert!(row(&["rival\">", "2.00 (1.50–2.50)", "12.0"]));
    // Scaling, latency, and the overview.
    assert!(row(&["reader, M/s", "sapwood", "3.00", "9.00"]));
    let latency = "readers-1: commit, µs";
    assert!(row(&[latency, "<script>alert(1)</script>", "5.00", "70.0"]));
    let glance = ["r.csv", "A & B", "2026-01-31", "9", "3", "1", "2", "0.50×"];
    assert!(row(&glance), "{all:?}");
    // Each picture has a title, a description, a caption with its source, and a table.
    let figures: Vec<_> = between(&text, "<figure>", "</figure>").collect();
    assert_eq!(
        figures.len(),
        4 + 3,
        "ratios, scaling, latency, memory, and three cases"
    );
    for figure in figures {
        for part in [
            "<svg",
            "role=\"img\" aria-label=\"",
            "<title>",
            "<desc>",
            "<table>",
        ] {
            assert!(figure.contains(part), "no {part}: {figure}");
        }
        let caption = plain(
            between(figure, "<figcaption>", "</figcaption>")
                .next()
                .unwrap(),
        );
        for part in [
            "r.csv",
            "A & B, 2 cores",
            "2026-01-31",
            "commit 0123456789ab",
            "names --csv <i>FILE</i>",
        ] {
            assert!(caption.contains(part), "no {part}: {caption}");
        }
    }
    assert_eq!(page_of(&s, "r.csv"), text);
}

#[test]
fn a_record_may_come_by_stdin() {
    let s = Scratch::new();
    s.file("r.csv", RECORD);
    let report = ["report", "--json", "--records"];
    let of_file = s.run(&[&report[..], &["r.csv"]].concat());
    let of_stdin = s.run_with(&[&report[..], &["-"]].concat(), RECORD.as_bytes());
    let [file, stdin] = [of_file, of_stdin].map(|ran| ran.code(0).documents().remove(0));
    assert_eq!(file["records"][0]["rows"], stdin["records"][0]["rows"]);
    assert_ne!(file["records"][0]["rows"], serde_json::json!([]));
    s.run_with(&[&report[..], &["-"]].concat(), b"\xff\n")
        .code(1)
        .complains("cannot read standard input: stream did not contain valid UTF-8");
    s.run_with(&[&report[..], &["-"]].concat(), b"what is this\n")
        .code(1)
        .complains("sapwood-bench: standard input");
}

#[test]
fn records_that_only_compare_builds_are_left_out() {
    let ran = Scratch::new().run(&["report", "--records", RECORDED, "--json"]);
    let document = ran.code(0).documents().remove(0);
    let left_out = document["left_out"].as_array().unwrap();
    assert!(
        left_out
            .iter()
            .any(|name| name == "house-epyc-2026-11-22.csv")
    );
    assert!(document["records"].as_array().unwrap().len() > 20);
}

#[test]
fn json_of_the_bench_is_a_record() {
    let s = Scratch::new();
    s.file(
        "r.json",
        r#"{"suite": "routes", "machine": "M", "rows": [
            {"case": "v4", "engine": "sapwood", "metric": "insert_ns", "value": 50, "unit": "ns",
             "rounds": 1, "min": 50, "max": 50},
            {"case": "v4", "engine": "other", "metric": "insert_ns", "value": 200, "unit": "ns",
             "rounds": 1, "min": 200, "max": 200}]}"#,
    );
    let text = page_of(&s, "r.json");
    assert!(text.contains("no commit recorded") && text.contains("4.00×"));
    let ran = s.run(&["report", "--records", "r.json", "--json", "-o", "page.html"]);
    let document = &ran.code(0).documents()[0];
    let record = &document["records"][0];
    assert_eq!(
        (&record["record"], &record["date"]),
        (&"r.json".into(), &Value::Null)
    );
    assert_eq!(record["ratios"][0]["ratio"], 4.0);
    assert_eq!(record["ratios"][0]["peer"], "other");
    assert_eq!(record["rows"][1]["value"], 200.0);
}

#[test]
fn what_is_no_record_is_named_and_leaves_no_page() {
    let s = Scratch::new();
    s.file("r.csv", RECORD);
    s.file("columns.csv", RECORD.replace("rounds", "repetition"));
    s.file("row.csv", RECORD.replace(",8,Mop/s", ",fast,Mop/s"));
    s.file("short.csv", RECORD.replace(",7,9\n", "\n"));
    s.file("text.csv", "some text\n");
    s.file("bytes.csv", b"\xff\xfe\x00");
    s.file("torn.json", "{\"suite\": \"names\", \"rows\": [");
    std::fs::create_dir(s.path("empty")).unwrap();
    std::fs::create_dir(s.path("mixed")).unwrap();
    s.file("mixed/good.csv", RECORD);
    s.file("mixed/other.csv", "a,b\n1,2\n");
    let before = s.names();
    for (input, why) in [
        ("absent.csv", "cannot read absent.csv: No such file"),
        (
            "columns.csv",
            "columns.csv: line 6: not a record: its columns are \"suite,",
        ),
        (
            "row.csv",
            "row.csv: line 7: no row: its value is \"fast\", not a number",
        ),
        (
            "short.csv",
            "short.csv: line 7: no row: it has 7 fields, not 9",
        ),
        (
            "text.csv",
            "text.csv: line 1: not a record: its columns are \"some text\"",
        ),
        ("bytes.csv", "bytes.csv: it is not a text in UTF-8"),
        ("torn.json", "torn.json: not a record as JSON: EOF"),
        ("empty", "empty: no record is in this directory"),
        (
            "mixed",
            "mixed/other.csv: line 1: not a record: its columns are \"a,b\"",
        ),
    ] {
        s.run(&["report", "--records", input, "-o", "page.html"])
            .code(1)
            .out("")
            .complains(&format!("sapwood-bench: {why}"));
        assert_eq!(s.names(), before, "{input}");
    }
    for (args, code, why) in [
        (&["-o", "page.html"][..], 2, "--records <DIR|FILE>"),
        (&["--records", "r.csv"], 2, "--output <PAGE>"),
        (
            &["--records", "r.csv", "-o", "r.csv"],
            1,
            "cannot write r.csv: it is the input",
        ),
        (
            &["--records", "mixed", "-o", "mixed/good.csv"],
            1,
            "cannot write mixed/good.csv: it is the input",
        ),
    ] {
        s.run(&[&["report"], args].concat())
            .code(code)
            .out("")
            .complains(why);
        assert_eq!(s.names(), before, "{args:?}");
    }
    // A page that is there stays as it is.
    s.file("page.html", "old");
    s.run(&["report", "--records", "torn.json", "-o", "page.html"])
        .code(1);
    assert_eq!(std::fs::read(s.path("page.html")).unwrap(), b"old");
}

/// The page of all records of the repository, in a browser.
#[test]
fn report_browser_reads_the_page() {
    let Some(chromium) = chromium() else { return };
    let s = Scratch::new();
    s.file("r.csv", RECORD);
    for (records, least) in [("r.csv", 7), (RECORDED, 41)] {
        s.run(&["report", "--records", records, "-o", "page.html"])
            .code(0);
        let dom = browse(&chromium, &s, "page.html", &["--dump-dom"]);
        let page = std::fs::read_to_string(s.path("page.html")).unwrap();
        let tags = [
            "<figure>", "<svg ", "<table", "<rect", "<text ", "<tr>", "<td>",
        ];
        has_all(&dom, &page, &tags, least);
        has_all(
            &dom,
            &page,
            &["<polyline", "<circle", "<section", "<li>"],
            1,
        );
        assert!(!dom.contains("<script") && !dom.contains("<b>set"));
    }

    s.run(&["report", "--records", "r.csv", "-o", "page.html"])
        .code(0);
    let (size, light) = picture(&chromium, &s, "page.html", false);
    assert_eq!((size, light.len()), ((1000, 3000), 3_000_000));
    // The bars of two of ours and of a peer, on white; then in the colours for a dark page.
    for colour in [0x1a7f37, 0x547db0, 0x7cc28c] {
        assert!(of(&light, colour) > 200, "{colour:06x}");
    }
    let (_, dark) = picture(&chromium, &s, "page.html", true);
    for colour in [0x3fb950, 0x6ca4e8, 0x2f7d45] {
        assert!(of(&dark, colour) > 200, "{colour:06x}");
    }
    assert!(of(&dark, 0xffffff) == 0);
}
