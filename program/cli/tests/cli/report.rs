//! `sapwood report`: pages of records and of saved maps, and inputs that are neither.

use std::path::{Path, PathBuf};

use sapwood_records::metric::title;
use sapwood_records::numbers::short;
use serde_json::Value;

use crate::common::Scratch;

/// A record whose names would be markup, if they were not escaped.
pub const RECORD: &str = "# date: 2026-01-31
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

/// The folder of the repository's records.
pub fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proof/bench/record")
}

fn page(s: &Scratch, args: &[&str]) -> String {
    let args = [&["report"], args, &["-o", "page.html"]].concat();
    s.run(&args).code(0).out("").quiet();
    std::fs::read_to_string(s.path("page.html")).unwrap()
}

/// The parts of a text between two marks.
fn between<'t>(text: &'t str, from: &'t str, to: &'t str) -> impl Iterator<Item = &'t str> {
    let parts = text.split(from).skip(1);
    parts.map(move |part| part.split(to).next().unwrap())
}

/// The text of an element's contents.
fn plain(markup: &str) -> String {
    let mut text = String::new();
    for part in markup.split('<') {
        text += part.split_once('>').map_or(part, |(_, text)| text);
    }
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&amp;", "&")
}

/// The rows of the tables of a part of a page, as texts of their cells.
fn rows(part: &str) -> Vec<Vec<String>> {
    let rows = between(part, "<tr>", "</tr>");
    let cells = rows.map(|row| {
        let cells = row.split("<t").skip(1);
        cells.map(|cell| plain(&format!("<t{cell}"))).collect()
    });
    cells.collect()
}

/// Nothing in a page is loaded, and nothing runs.
#[track_caller]
fn stands_alone(page: &str) {
    let page = page.to_lowercase();
    for part in [
        "<script",
        "http",
        "src=",
        "url(",
        "@import",
        "<link",
        "<img",
        "<iframe",
        "<object",
        "javascript:",
        " onload",
        "<foreignobject",
    ] {
        assert!(!page.contains(part), "the page has {part}");
    }
    for target in between(&page, "href=\"", "\"") {
        let anchor = target.strip_prefix('#').expect("links stay in the page");
        assert!(page.contains(&format!("id=\"{anchor}\"")), "{target}");
    }
}

#[test]
fn a_page_shows_a_record_and_escapes_its_texts() {
    let s = Scratch::new();
    s.file("r.csv", RECORD);
    let text = page(&s, &["--records", "r.csv"]);
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
    assert_eq!(page(&s, &["--records", "r.csv"]), text);
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
        .code(2)
        .complains("cannot read standard input: stream did not contain valid UTF-8");
    s.run_with(&[&report[..], &["-"]].concat(), b"what is this\n")
        .code(2)
        .complains("sapwood: standard input");
}

#[test]
fn each_row_of_the_repositorys_records_is_in_a_table_of_its_case() {
    let s = Scratch::new();
    let folder = recorded();
    let folder = folder.to_str().unwrap();
    let text = page(&s, &["--records", folder]);
    stands_alone(&text);
    let documents = s
        .run(&["report", "--records", folder, "--json"])
        .code(0)
        .documents();
    let left_out = documents[0]["left_out"].as_array().unwrap();
    assert!(
        left_out
            .iter()
            .any(|name| name == "house-epyc-2026-11-22.csv")
    );
    let records = sapwood_records::read_records(&recorded()).unwrap();
    assert_eq!(
        documents[0]["records"].as_array().unwrap().len(),
        records.len()
    );
    for (i, record) in records.iter().enumerate() {
        let id = format!("<section id=\"record-{}\">", i + 1);
        let section = text.split(&id).nth(1).unwrap();
        let section = section.split("</section>").next().unwrap();
        assert!(section.starts_with(&format!("<h3>{} ", record.name)));
        let mut left: Vec<_> = record.rows.iter().collect();
        let end = "</details></figure></details>";
        for part in between(section, "<details class=\"case\">", end) {
            let case = plain(between(part, "<summary><b>", "</b>").next().unwrap());
            let table = rows(part);
            left.retain(|row| {
                let column = table[0].iter().position(|head| *head == title(row));
                let engine = table.iter().find(|cells| cells[0] == row.engine);
                let cell = column.zip(engine).map(|(column, engine)| &engine[column]);
                let shown = |cell: &str| {
                    let value = short(row.value);
                    cell == value || cell.starts_with(&format!("{value} ("))
                };
                !(row.case == case && cell.is_some_and(|cell| cell.split("; ").any(shown)))
            });
        }
        assert!(left.is_empty(), "{}: not in a table: {left:?}", record.name);
    }
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
    let text = page(&s, &["--records", "r.json"]);
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
fn the_shapes_of_small_maps() {
    let s = Scratch::new();
    s.build("words.qp", "ash\nbeech\nelm\n");
    s.run_with(
        &["routes", "build", "-", "-o", "r.lpm"],
        b"10.0.0.0/8 via <b>hop\n10.1.0.0/16 via <b>hop\n2001:db8::/32 via fe80::1\n",
    )
    .code(0);
    s.run_with(
        &["ranges", "build", "-", "-o", "p.ranges"],
        b"1 4 a\n10 10 b\n14 17 a\n",
    )
    .code(0);
    let args = [
        "report", "--map", "words.qp", "r.lpm", "--map", "p.ranges", "--json",
    ];
    let document = s.run(&args).code(0).quiet().documents().remove(0);
    let maps = document["maps"].as_array().unwrap();
    let words = &maps[0];
    assert_eq!(words["kind"], "a map of names to numbers");
    assert_eq!(
        (&words["entries"], &words["trie"]["key_bytes"]),
        (&3.into(), &11.into())
    );
    // Three leaves in one cluster, below no branch. A leaf has a value, a length and a key.
    assert_eq!(words["trie"]["depths"], serde_json::json!([3]));
    assert_eq!(words["trie"]["fills"], serde_json::json!([0, 0, 0, 1]));
    assert_eq!(words["trie"]["branches"]["count"], 0);
    assert_eq!(words["trie"]["leaf_bytes"], 3 * 16);
    let stats = s
        .run(&["names", "stats", "words.qp", "--json"])
        .documents()
        .remove(0);
    assert_eq!(words["file_bytes"], stats["file_bytes"]);
    assert_eq!(
        words["trie"]["clusters"]["bytes"],
        stats["clusters"]["bytes"]
    );
    let routes = &maps[1];
    assert_eq!(
        (&routes["kind"], &routes["entries"]),
        (&"a table of routes".into(), &3.into())
    );
    let lengths = serde_json::json!([{"of": "/8", "count": 1}, {"of": "/16", "count": 1}]);
    assert_eq!(routes["counts"]["ipv4_lengths"], lengths);
    let hops = routes["counts"]["next_hops"].as_array().unwrap();
    assert_eq!(
        (&hops[0]["of"], &hops[0]["count"]),
        (&"via <b>hop".into(), &2.into())
    );
    // Three routes, and the names of two next hops.
    assert_eq!(routes["trie"]["entries"], 5);
    let ranges = &maps[2];
    assert_eq!(
        (&ranges["kind"], &ranges["entries"]),
        (&"a map of ranges".into(), &3.into())
    );
    let sizes = serde_json::json!([{"of": "1", "count": 1}, {"of": "4 to 7", "count": 2}]);
    assert_eq!(ranges["counts"]["sizes"], sizes);
    let gaps = serde_json::json!([{"of": "2 to 3", "count": 1}, {"of": "4 to 7", "count": 1}]);
    assert_eq!(ranges["counts"]["gaps"], gaps);
    assert_eq!(ranges["memory"]["leaves"]["count"], 1);
    // A file of ranges is no trie.
    assert!(ranges["trie"].is_null());

    let text = page(&s, &["--map", "words.qp", "r.lpm", "p.ranges"]);
    stands_alone(&text);
    assert!(!text.contains("<b>hop") && text.contains("&lt;b&gt;hop"));
    let all = rows(&text);
    for cells in [
        &["no branch", "3", "100"][..],
        &["3 leaves", "1", "100"],
        &["/16", "1", "50.0"],
        &["via <b>hop", "2", "66.7"],
        &["4 to 7", "2", "66.7"],
    ] {
        let row = all
            .iter()
            .any(|row| row.iter().map(|c| &**c).eq(cells.iter().copied()));
        assert!(row, "no {cells:?} in {all:?}");
    }
    // The kinds of bytes of the first map add up to its file.
    let first = text.split("<section id=\"map-1\">").nth(1).unwrap();
    let kinds = rows(first.split("</table>").next().unwrap());
    let bytes = kinds
        .iter()
        .skip(1)
        .map(|row| row[1].replace(',', "").parse::<u64>().unwrap());
    assert_eq!(bytes.sum::<u64>(), words["file_bytes"].as_u64().unwrap());
}

#[test]
fn deep_maps_have_as_many_leaves_at_all_depths_as_entries() {
    let s = Scratch::new();
    let keys: String = (0..3000)
        .map(|i| format!("{}{i}\n", "a".repeat(i % 90)))
        .collect();
    s.build("deep.qp", keys);
    let document = s
        .run(&["report", "--map", "deep.qp", "--json"])
        .code(0)
        .documents()
        .remove(0);
    let trie = &document["maps"][0]["trie"];
    let list = |name: &str| -> Vec<u64> {
        let list = trie[name].as_array().unwrap().iter();
        list.map(|count| count.as_u64().unwrap()).collect()
    };
    let (depths, fills) = (list("depths"), list("fills"));
    assert_eq!(depths.iter().sum::<u64>(), 3000);
    assert_eq!(depths.len() as u64 - 1, trie["depth_max"].as_u64().unwrap());
    let sum: u64 = depths
        .iter()
        .enumerate()
        .map(|(depth, leaves)| depth as u64 * leaves)
        .sum();
    let mean = trie["depth_mean"].as_f64().unwrap();
    assert!((sum as f64 / 3000.0 - mean).abs() < 1e-9 && mean > 1.0);
    assert_eq!(
        fills.iter().sum::<u64>(),
        trie["clusters"]["count"].as_u64().unwrap()
    );
}

#[test]
fn what_is_no_input_is_named_and_leaves_no_page() {
    let s = Scratch::new();
    s.build("good.qp", "ash\nbeech\n");
    let map = std::fs::read(s.path("good.qp")).unwrap();
    s.file("torn.qp", &map[..map.len() - 100]);
    let mut flipped = map.clone();
    let at = flipped.len() - 1;
    flipped[at] ^= 1;
    s.file("flipped.qp", flipped);
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
        (
            ["--records", "absent.csv"],
            "cannot read absent.csv: No such file",
        ),
        (
            ["--records", "columns.csv"],
            "columns.csv: line 6: not a record: its columns are \"suite,",
        ),
        (
            ["--records", "row.csv"],
            "row.csv: line 7: no row: its value is \"fast\", not a number",
        ),
        (
            ["--records", "short.csv"],
            "short.csv: line 7: no row: it has 7 fields, not 9",
        ),
        (
            ["--records", "text.csv"],
            "text.csv: line 1: not a record: its columns are \"some text\"",
        ),
        (
            ["--records", "bytes.csv"],
            "bytes.csv: it is not a text in UTF-8",
        ),
        (
            ["--records", "torn.json"],
            "torn.json: not a record as JSON: EOF",
        ),
        (["--records", "empty"], "empty: no record is in this folder"),
        (
            ["--records", "mixed"],
            "mixed/other.csv: line 1: not a record: its columns are \"a,b\"",
        ),
        (["--map", "torn.qp"], "torn.qp: not a sound map: "),
        (["--map", "flipped.qp"], "flipped.qp: not a sound map: "),
        (["--map", "r.csv"], "r.csv: not a sound map: "),
        (
            ["--map", "absent.qp"],
            "cannot read absent.qp: No such file",
        ),
    ] {
        let [option, input] = input;
        s.run(&["report", option, input, "-o", "page.html"])
            .code(2)
            .out("")
            .complains(&format!("sapwood: {why}"));
        assert_eq!(s.names(), before, "{input}");
    }
    for (args, why) in [
        (&["-o", "page.html"][..], "--records <DIR|FILE>"),
        (&["--records", "r.csv"], "--output <PAGE>"),
        (
            &["--records", "r.csv", "-o", "r.csv"],
            "cannot write r.csv: it is the input",
        ),
        (
            &["--records", "mixed", "-o", "mixed/good.csv"],
            "cannot write mixed/good.csv: it is the input",
        ),
        (
            &["--map", "good.qp", "-o", "empty"],
            "cannot write empty: is a directory",
        ),
        (
            &["--map", "good.qp", "-o", "none/page.html"],
            "cannot write none/page.html: No such file",
        ),
        (&["--map", "good.qp", "-o", "-"], "-o must name a file"),
    ] {
        s.run(&[&["report"], args].concat())
            .code(2)
            .out("")
            .complains(why);
        assert_eq!(s.names(), before, "{args:?}");
    }
    // A page that is there stays as it is.
    s.file("page.html", "old");
    s.run(&["report", "--map", "torn.qp", "-o", "page.html"])
        .code(2);
    assert_eq!(std::fs::read(s.path("page.html")).unwrap(), b"old");
    s.run(&["report", "--map", "good.qp", "-o", "page.html"])
        .code(0);
    assert!(std::fs::metadata(s.path("page.html")).unwrap().len() > 5000);
}
