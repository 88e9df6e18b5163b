//! `sapwood ranges`: building, queries, allocation, exit codes, damaged files.

use crate::common::{Ran, Scratch};
use serde_json::{Value, json};

const TEXT: &str = "# A few ports.
20 21    ftp
22 22    ssh   # secure
 0x50 80 web server\r
\t443 443

1024 2047 many
";

/// Builds the map `name` from a text, and expects exit code 0.
fn build(s: &Scratch, name: &str, text: impl AsRef<[u8]>) -> Ran {
    let ran = s.run_with(&["ranges", "build", "-", "-o", name], text.as_ref());
    ran.code(0).out("");
    ran
}

fn map() -> Scratch {
    let s = Scratch::new();
    build(&s, "m", TEXT);
    s
}

#[test]
fn build_says_what_it_made() {
    let s = Scratch::new();
    s.file("text", TEXT);
    let ran = s.run(&["ranges", "build", "text", "-o", "m"]);
    let bytes = std::fs::metadata(s.path("m")).unwrap().len();
    let summary = format!("sapwood: m: 5 ranges in a file of {bytes} bytes\n");
    ran.code(0).out("").complains(&summary);
    s.run(&["ranges", "build", "-q", "text", "-o", "m"])
        .code(0)
        .quiet();
    build(&s, "empty", "# nothing\n")
        .complains("standard input: warning: no ranges, empty is an empty map")
        .complains("empty: 0 ranges in a file of ");
    s.run(&["ranges", "export", "empty"]).code(0).out("");
    s.run(&["ranges", "stats", "empty"])
        .code(0)
        .says("ranges       0\n");
    s.run(&["ranges", "get", "empty", "0"])
        .code(1)
        .complains("no range has 0: it is in the gap 0..=18446744073709551615\n");
    s.run(&["ranges", "gaps", "empty"])
        .code(0)
        .out("0\t18446744073709551615\t18446744073709551616\n");
}

#[test]
fn get() {
    let s = map();
    s.run(&["ranges", "get", "m", "21"])
        .code(0)
        .out("20\t21\tftp\n")
        .quiet();
    s.run(&["ranges", "get", "m", "0x50", "443", "2047"])
        .code(0)
        .out("80\t80\t80\tweb server\n443\t443\t443\n2047\t1024\t2047\tmany\n");
    s.run(&["ranges", "get", "m", "21", "23", "--hex"])
        .code(1)
        .out("0x15\t0x14\t0x15\tftp\n")
        .complains("sapwood: no range has 0x17: it is in the gap 0x17..=0x4f\n");
    s.run_with(&["ranges", "get", "m", "-"], b" 22\r\n\n0x0\n1024")
        .code(1)
        .out("22\t22\t22\tssh\n1024\t1024\t2047\tmany\n")
        .complains("no range has 0: it is in the gap 0..=19\n");
    s.run(&["ranges", "get", "m", "port"])
        .code(2)
        .out("")
        .complains("sapwood: \"port\" is not a number, decimal or 0x");
    s.run_with(&["ranges", "get", "m", "-"], b"22\n18446744073709551616\n")
        .code(2)
        .complains("sapwood: standard input: line 2: 18446744073709551616 does not fit 64 bits\n");
    s.run(&["ranges", "get", "m"]).code(2).complains("<INDEX>");
    let ran = s.run(&["ranges", "get", "m", "22", "443", "5000", "--json"]);
    assert_eq!(
        ran.code(1).quiet().documents(),
        [
            json!({"query": 22, "found": {"start": 22, "end": 22, "value": "ssh"}, "gap": null}),
            json!({"query": 443, "found": {"start": 443, "end": 443, "value": null}, "gap": null}),
            json!({"query": 5000, "found": null, "gap": {"start": 2048, "end": u64::MAX, "size": u64::MAX - 2047}}),
        ]
    );
}

#[test]
fn lists() {
    let s = map();
    let list = |more: &[&str]| s.run(&[&["ranges", "list", "m"], more].concat());
    list(&[])
        .code(0)
        .out("20\t21\tftp\n22\t22\tssh\n80\t80\tweb server\n443\t443\n1024\t2047\tmany\n")
        .quiet();
    list(&["--from", "21", "--to", "0x50"])
        .code(0)
        .out("20\t21\tftp\n22\t22\tssh\n80\t80\tweb server\n");
    list(&["--from", "23", "--to", "79"]).code(0).out("");
    list(&["--from", "1500", "--hex"])
        .code(0)
        .out("0x400\t0x7ff\tmany\n");
    list(&["--reverse", "--limit", "2"])
        .code(0)
        .out("1024\t2047\tmany\n443\t443\n");
    list(&["-n1"]).code(0).out("20\t21\tftp\n");
    list(&["--from", "9", "--to", "8"])
        .code(2)
        .complains("sapwood: --from 9 is after --to 8\n");
    list(&["--from", "x"])
        .code(2)
        .complains("is not a number, decimal or 0x");
    assert_eq!(
        list(&["--from", "443", "--json"]).code(0).documents(),
        [
            json!({"start": 443, "end": 443, "value": null}),
            json!({"start": 1024, "end": 2047, "value": "many"}),
        ]
    );
}

#[test]
fn gaps() {
    let s = map();
    let gaps = |more: &[&str]| s.run(&[&["ranges", "gaps", "m"], more].concat());
    gaps(&["--to", "1024"])
        .code(0)
        .out("0\t19\t20\n23\t79\t57\n81\t442\t362\n444\t1023\t580\n")
        .quiet();
    gaps(&["--from", "30", "--to", "500", "--min", "51"])
        .code(0)
        .out("81\t442\t362\n444\t500\t57\n");
    gaps(&["--min", "1K", "--hex"])
        .code(0)
        .out("0x800\t0xffffffffffffffff\t0xfffffffffffff800\n");
    gaps(&["--from", "1024", "--to", "2047"]).code(0).out("");
    gaps(&["--min", "1X"])
        .code(2)
        .complains("\"1X\" is not a size");
    assert_eq!(
        gaps(&["--from", "23", "--to", "100", "--json"]).documents(),
        [
            json!({"start": 23, "end": 79, "size": 57}),
            json!({"start": 81, "end": 100, "size": 20}),
        ]
    );
}

#[test]
fn export_builds_the_same() {
    let s = map();
    let text = "20 21 ftp\n22 22 ssh\n80 80 web server\n443 443\n1024 2047 many\n";
    s.run(&["ranges", "export", "m"]).code(0).out(text).quiet();
    let ran = s.run(&["ranges", "export", "m", "--hex"]);
    ran.code(0).says("0x400 0x7ff many\n");
    build(&s, "again", &ran.0.stdout);
    let [one, two] = ["m", "again"].map(|name| std::fs::read(s.path(name)).unwrap());
    assert!(one == two, "the files differ");
    let ends = "0 0\n18446744073709551615 18446744073709551615 \u{e4} b#c\n";
    build(&s, "ends", ends);
    s.run(&["ranges", "export", "ends"]).code(0).out(ends);
}

#[test]
fn many_ranges_come_back() {
    let s = Scratch::new();
    let mut rng = fastrand::Rng::with_seed(5);
    let mut at = 0;
    let mut lines: Vec<String> = (0..5000)
        .map(|i| {
            let start = at + rng.u64(..3) * rng.u64(..1 << 40);
            let end = start + rng.u64(..1 << 30);
            at = end + 1;
            format!("{start} {end} value {}\n", i % 100)
        })
        .collect();
    let sorted = lines.concat();
    rng.shuffle(&mut lines);
    build(&s, "m", lines.concat()).complains("m: 5000 ranges");
    s.run(&["ranges", "export", "m"]).code(0).out(&sorted);
    s.run(&["ranges", "verify", "m"])
        .code(0)
        .says("ok: 5000 ranges");
    // The gaps and the ranges together have all numbers.
    let gaps = s.run(&["ranges", "gaps", "m"]);
    let out = String::from_utf8(gaps.0.stdout.clone()).unwrap();
    let sizes = |text: &str, size: fn(&[u128]) -> u128| -> u128 {
        let lines = text.lines().map(|line| {
            let fields = line.split_ascii_whitespace().take(3);
            fields.map_while(|field| field.parse().ok()).collect()
        });
        lines.map(|line: Vec<u128>| size(&line)).sum()
    };
    let free = sizes(&out, |gap| gap[2]);
    assert_eq!(
        free + sizes(&sorted, |range| range[1] - range[0] + 1),
        1 << 64
    );
}

#[test]
fn overlaps() {
    let s = Scratch::new();
    s.file("text", "10 19 a\n\n30 39 b\n15 34 c\n30 30 d\n");
    s.run(&["ranges", "build", "text", "-o", "m"])
        .code(2)
        .out("")
        .complains("sapwood: text: line 4: 15..=34 overlaps 10..=19 of line 1\n");
    s.run(&["ranges", "build", "text", "-o", "m", "--skip-bad"])
        .code(0)
        .complains("text: line 4: 15..=34 overlaps 10..=19 of line 1; left out\n")
        .complains("text: line 5: 30..=30 overlaps 30..=39 of line 3; left out\n")
        .complains("m: 2 ranges in a file of ")
        .complains("; 2 bad and left out\n");
    s.run(&["ranges", "export", "m"]).out("10 19 a\n30 39 b\n");
    s.run(&["ranges", "build", "text", "-o", "m", "--overwrite"])
        .code(0)
        .complains("m: 5 ranges in a file of ")
        .complains("; 2 lines replaced parts of earlier ones\n");
    s.run(&["ranges", "export", "m"])
        .out("10 14 a\n15 29 c\n30 30 d\n31 34 c\n35 39 b\n");
    // The same range again, with large numbers.
    s.run_with(
        &["ranges", "build", "-", "-o", "m"],
        b"0xffff0000000000 0xffff0000000fff a\n0xffff0000000000 0xffff0000000fff b\n",
    )
    .code(2)
    .complains("line 2: 0xffff0000000000..=0xffff0000000fff overlaps 0xffff0000000000..=0xffff0000000fff of line 1\n");
}

/// Random lines over few numbers, compared with an array of the values of all numbers.
#[test]
fn later_lines_win() {
    let s = Scratch::new();
    let mut rng = fastrand::Rng::with_seed(8);
    for _ in 0..10 {
        let mut wanted = vec![None; 300];
        let mut text = String::new();
        for line in 0..rng.usize(..200) {
            let start = rng.usize(..wanted.len());
            let end = (start + rng.usize(..20)).min(wanted.len() - 1);
            wanted[start..=end].fill(Some(line));
            text += &format!("{start} {end} {line}\n");
        }
        let build = ["ranges", "build", "-q", "--overwrite", "-", "-o", "m"];
        s.run_with(&build, text.as_bytes()).code(0);
        let mut found = vec![None; wanted.len()];
        for range in s.run(&["ranges", "list", "m", "--json"]).documents() {
            let [start, end] = ["start", "end"].map(|key| range[key].as_u64().unwrap() as usize);
            assert!(found[start..=end].iter().all(Option::is_none), "{range}");
            let line = range["value"].as_str().unwrap().parse::<usize>();
            found[start..=end].fill(line.ok());
        }
        assert_eq!(found, wanted);
        s.run(&["ranges", "verify", "m"]).code(0);
    }
}

#[test]
fn bad_lines() {
    let s = Scratch::new();
    s.file(
        "text",
        "1 2 a\n\n5 4 b\n7\nx 9 c\n10 11 d\n12 99999999999999999999\n",
    );
    s.file("old", "precious");
    s.run(&["ranges", "build", "text", "-o", "old"])
        .code(2)
        .out("")
        .complains("sapwood: text: line 3: the range ends at 4, before its start 5\n");
    assert_eq!(std::fs::read(s.path("old")).unwrap(), b"precious");
    s.run(&["ranges", "build", "text", "-o", "m", "--skip-bad"])
        .code(0)
        .complains("text: line 3: the range ends at 4, before its start 5; left out\n")
        .complains("text: line 4: no end of the range after its start; left out\n")
        .complains("text: line 5: \"x\" is not a number, decimal or 0x…; left out\n")
        .complains("text: line 7: 99999999999999999999 does not fit 64 bits; left out\n")
        .complains("m: 2 ranges in a file of ")
        .complains("; 4 bad and left out\n");
    s.run(&["ranges", "export", "m"]).out("1 2 a\n10 11 d\n");
    let long = format!("1 2 {}\n3 4 {}\n", "x".repeat(65_527), "y".repeat(70_000));
    s.run_with(&["ranges", "build", "-", "-o", "m"], long.as_bytes())
        .code(2)
        .complains("sapwood: standard input: line 2: a line of 70005 bytes is too long\n");
    s.run_with(
        &["ranges", "build", "-", "-o", "m", "--skip-bad"],
        long.as_bytes(),
    )
    .code(0);
    let ran = s.run(&["ranges", "get", "m", "1"]);
    assert_eq!(ran.code(0).0.stdout.len(), "1\t2\t\n".len() + 65_527);
    let many = "nothing\n".repeat(50);
    let ran = s.run_with(
        &["ranges", "build", "-", "-o", "m", "--skip-bad"],
        many.as_bytes(),
    );
    let described = ran.code(0).stderr().matches("; left out").count();
    assert_eq!(described, 20, "{ran}");
    ran.complains("standard input: 30 more, left out")
        .complains("50 bad and left out");
}

#[test]
fn alloc() {
    let s = map();
    let alloc = |more: &[&str]| s.run(&[&["ranges", "alloc", "m"], more].concat());
    let before = std::fs::read(s.path("m")).unwrap();
    alloc(&["57", "nothing yet", "--from", "20", "--dry-run"])
        .code(0)
        .out("23\t79\n")
        .quiet();
    assert_eq!(std::fs::read(s.path("m")).unwrap(), before);
    alloc(&["57", "first fit", "--from", "20"])
        .code(0)
        .out("23\t79\n")
        .quiet();
    alloc(&["16", "aligned", "--align", "16", "--from", "20", "--hex"])
        .code(0)
        .out("0x60\t0x6f\n");
    alloc(&[
        "1K",
        "highest",
        "--align",
        "1K",
        "--highest",
        "--to",
        "0xffff",
    ])
    .code(0)
    .out("64512\t65535\n");
    let ran = alloc(&["5", "", "--json", "--dry-run"]);
    assert_eq!(
        ran.code(0).documents(),
        [json!({"size": 5, "found": {"start": 0, "end": 4, "size": 5}, "written": false})]
    );
    let ran = alloc(&["20", "", "--json"]);
    assert_eq!(
        ran.code(0).documents(),
        [json!({"size": 20, "found": {"start": 0, "end": 19, "size": 20}, "written": true})]
    );
    s.run(&["ranges", "list", "m", "--to", "0x70"]).out(
        "0\t19\n20\t21\tftp\n22\t22\tssh\n23\t79\tfirst fit\n80\t80\tweb server\n96\t111\taligned\n",
    );
    s.run(&["ranges", "verify", "m"])
        .code(0)
        .says("ok: 9 ranges");
    assert_eq!(s.names(), ["m"]);
}

/// After any error the file is as it was.
#[test]
fn alloc_whole_or_not_at_all() {
    let s = map();
    let alloc = |more: &[&str]| s.run(&[&["ranges", "alloc", "m"], more].concat());
    let before = std::fs::read(s.path("m")).unwrap();
    alloc(&["58", "x", "--from", "20", "--to", "79"])
        .code(1)
        .out("")
        .complains("sapwood: no gap of 58 in 20..=79\n");
    alloc(&[
        "16", "x", "--from", "23", "--to", "40", "--align", "16", "--hex",
    ])
    .code(1)
    .out("")
    .complains("sapwood: no gap of 16 in 0x17..=0x28 that begins at a multiple of 16\n");
    let ran = alloc(&["58", "x", "--from", "20", "--to", "79", "--json"]);
    assert_eq!(
        ran.code(1).documents(),
        [json!({"size": 58, "found": null, "written": false})]
    );
    for wrong in [
        &["0", "x"][..],
        &["1", "x", "--align", "3"],
        &["1", "x", "--align", "0"],
        &["10", "x", "--from", "5", "--to", "9"],
        &["10", "x", "--from", "9", "--to", "5"],
        &["many", "x"],
        &["10"],
        &["10", " x"],
        &["10", "x #y"],
        &["10", "x\ty"],
        &["10", &"x".repeat(65_528)],
    ] {
        let ran = alloc(wrong);
        ran.code(2).out("");
        assert!(!ran.stderr().is_empty(), "{wrong:?}");
    }
    assert_eq!(std::fs::read(s.path("m")).unwrap(), before);
    s.run(&["ranges", "alloc", "none", "1", "x"])
        .code(2)
        .complains("sapwood: cannot read none: No such file");
    s.run(&["ranges", "alloc", ".", "1", "x"])
        .code(2)
        .complains("is a directory");
    // A directory in which only root can create files, so root does not see the error.
    let script = "mkdir shut && cp m shut/m && chmod 500 shut && \"$0\" ranges alloc shut/m 1 x; code=$?; chmod 700 shut; exit $code";
    let ran = s.shell(script);
    if ran.0.status.code() == Some(2) {
        ran.complains("sapwood: cannot write shut/m: ");
        assert_eq!(std::fs::read(s.path("shut/m")).unwrap(), before);
    }
    // No file may grow beyond the limit.
    let ran = s.shell("ulimit -f 1; exec \"$0\" ranges alloc m 1 x");
    if ran.0.status.code() == Some(2) {
        ran.complains("sapwood: cannot write m: ");
        assert_eq!(std::fs::read(s.path("m")).unwrap(), before);
    }
    assert!(
        s.names()
            .iter()
            .all(|name| ["m", "shut"].contains(&&**name))
    );
}

#[test]
fn no_room_is_given_twice() {
    let s = map();
    let script = "for i in 1 2 3 4 5 6 7 8; do \"$0\" ranges alloc m 3 \"number $i\" --from 3000 & done; wait";
    let ran = s.shell(script);
    ran.code(0).quiet();
    let out = String::from_utf8(ran.0.stdout).unwrap();
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    let wanted: Vec<String> = (0..8)
        .map(|i| format!("{}\t{}", 3000 + 3 * i, 3002 + 3 * i))
        .collect();
    assert_eq!(lines, wanted);
    s.run(&["ranges", "verify", "m"])
        .code(0)
        .says("ok: 13 ranges");
    assert_eq!(s.names(), ["m"]);
}

#[test]
fn stats() {
    let s = map();
    s.run(&["ranges", "stats", "m"])
        .code(0)
        .says("ranges       5\n")
        .says("between      20..=2047 (0x14..=0x7ff)\n")
        .says("covered      1029\n")
        .says("gaps         3 between ranges, 999 in all\n")
        .says("largest gap  580, at 444..=1023 (0x1bc..=0x3ff)\n")
        .says("nodes        1 leaves, 0 above them; height 0\n")
        .says(" bytes, ");
    let documents = s.run(&["ranges", "stats", "m", "--json"]).documents();
    let stats = &documents[0];
    for (key, value) in [
        ("file", json!("m")),
        ("ranges", json!(5)),
        ("covered", json!(1029)),
        ("span", json!({"start": 20, "end": 2047, "size": 2028})),
        ("gaps", json!(3)),
        ("gaps_size", json!(999)),
        (
            "largest_gap",
            json!({"start": 444, "end": 1023, "size": 580}),
        ),
        ("nodes", json!(1)),
        ("height", json!(0)),
    ] {
        assert_eq!(stats[key], value, "{key}");
    }
    let bytes = std::fs::metadata(s.path("m")).unwrap().len();
    assert_eq!(stats["file_bytes"], bytes);
    assert_eq!(stats["memory"]["parts"]["leaves"]["count"], 1);
    assert!(
        stats["memory"]["bytes"].as_u64() >= stats["memory"]["parts"]["leaves"]["bytes"].as_u64()
    );
    build(&s, "all", "0 18446744073709551615 everything\n");
    s.run(&["ranges", "stats", "all"])
        .code(0)
        .says("covered      18446744073709551616\n")
        .says("gaps         0 between ranges, 0 in all\n");
    let documents = s.run(&["ranges", "stats", "all", "--json"]).documents();
    assert_eq!(documents[0]["covered"].as_f64(), Some(2f64.powi(64)));
    assert_eq!(documents[0]["largest_gap"], Value::Null);
}

#[test]
fn inputs_and_outputs_that_do_not_work() {
    let s = Scratch::new();
    s.file("text", TEXT);
    for (input, output, why) in [
        ("none", "m", "cannot read none: No such file"),
        (".", "m", "cannot read .: is a directory"),
        ("text", "text", "cannot write text: it is the input"),
        ("text", "none/m", "cannot write none/m: No such file"),
        ("text", "-", "-o must name a file"),
        ("text", ".", "cannot write .: is a directory"),
    ] {
        s.run(&["ranges", "build", input, "-o", output])
            .code(2)
            .out("")
            .complains(why);
    }
    build(&s, "map", TEXT);
    s.run(&["ranges", "build", "map", "-o", "m"])
        .code(2)
        .complains("sapwood: map is a map of ranges, not a text; \"ranges export\" makes a text");
    assert_eq!(s.names(), ["map", "text"]);
}

/// All commands that open a map, each with its arguments.
const QUERIES: [&[&str]; 6] = [
    &["ranges", "get", "bad", "20"],
    &["ranges", "list", "bad"],
    &["ranges", "gaps", "bad"],
    &["ranges", "alloc", "bad", "1", "x"],
    &["ranges", "stats", "bad"],
    &["ranges", "export", "bad"],
];

#[test]
fn what_is_no_map() {
    let s = map();
    let bytes = std::fs::read(s.path("m")).unwrap();
    s.run(&["ranges", "verify", "m"])
        .code(0)
        .says("m: ok: 5 ranges in ")
        .says("checked header, checksums, order of ranges, number of ranges");
    let documents = s.run(&["ranges", "verify", "m", "--json"]).documents();
    assert_eq!(documents[0]["ok"], true);
    assert_eq!(documents[0]["ranges"], 5);
    for (contents, why) in [
        (&b""[..], "too short"),
        (TEXT.as_bytes(), "too short"),
        (&TEXT.as_bytes().repeat(100), "not a sapwood memory"),
        (&bytes[..bytes.len() - 1], "bytes, but the header says"),
        (&bytes[..bytes.len() / 2], "too short"),
    ] {
        s.file("bad", contents);
        for query in QUERIES {
            s.run(query)
                .code(2)
                .out("")
                .complains("sapwood: bad: not a sound map of ranges: ")
                .complains(why);
        }
        s.run(&["ranges", "verify", "bad"])
            .code(1)
            .says("bad: not a sound map of ranges: ")
            .says(why);
        let documents = s.run(&["ranges", "verify", "bad", "--json"]).documents();
        assert_eq!(documents[0]["ok"], false);
        assert_eq!(std::fs::read(s.path("bad")).unwrap(), contents);
    }
    s.run(&["ranges", "verify", "none"]).code(2);
    for i in 0..24 {
        let mut flipped = bytes.clone();
        flipped[i * (bytes.len() - 1) / 23] ^= 1 << (i % 8);
        s.file("bad", flipped);
        s.run(&["ranges", "verify", "bad"]).code(1);
        s.run(&["ranges", "get", "bad", "20"]).code(2).out("");
    }
}

/// The commands on one kind of file name the kind of another file.
#[test]
fn kinds_are_told_apart() {
    let s = map();
    s.build("names", "a\nb\n");
    s.run_with(&["routes", "build", "-", "-o", "routes"], b"::/0 x\n")
        .code(0);
    for (file, kind) in [("names", "a map of names"), ("routes", "a table of routes")] {
        std::fs::copy(s.path(file), s.path("bad")).unwrap();
        for query in QUERIES {
            let why = format!("sapwood: bad: not a sound map of ranges: it is {kind}\n");
            s.run(query).code(2).out("").complains(&why);
        }
        s.run(&["ranges", "verify", "bad"])
            .code(1)
            .says(&format!("not a sound map of ranges: it is {kind}"));
    }
    s.run(&["names", "count", "m"])
        .code(2)
        .complains("sapwood: m: not a sound map: it is a map of ranges\n");
    s.run(&["routes", "export", "m"])
        .code(2)
        .complains("sapwood: m: not a sound table of routes: it is a map of ranges\n");
    s.run(&["routes", "build", "m", "-o", "r"])
        .code(2)
        .complains("sapwood: m is a map of ranges\n");
    s.run(&["names", "verify", "routes"])
        .code(1)
        .says("not a sound map: it is a table of routes");
}

#[test]
fn lists_of_other_forms() {
    let s = Scratch::new();
    let build = |form: &str, text: &str| {
        let args = ["ranges", "build", "--form", form, "-", "-q", "-o", "m"];
        s.run_with(&args, text.as_bytes()).code(0).quiet();
        s.run(&["ranges", "list", "m"])
    };
    build("spans", "10.0.0.0/30 lan\n443 https\n0x50-0x51 web\n")
        .out("80\t81\tweb\n443\t443\thttps\n167772160\t167772163\tlan\n");
    build(
        "maps",
        "00001000-00002000 r-xp 00000000 fd:01 12   /bin/cat\n",
    )
    .out("4096\t8191\tr-xp /bin/cat\n");
    // What is inside of another range is what its numbers are.
    build(
        "iomem",
        "1000-4fff : System RAM\n  2000-2fff : Kernel code\n",
    )
    .out("4096\t8191\tSystem RAM\n8192\t12287\tKernel code\n12288\t20479\tSystem RAM\n");
    build("blocks", "# Blocks\n0000..007F; Basic Latin\n").out("0\t127\tBasic Latin\n");
    build("csv", "first,last,name\n1,2,\"a, b\"\n").out("1\t2\ta, b\n");
    let half = ["ranges", "build", "--half-open", "-", "-q", "-o", "m"];
    s.run_with(&half, b"1 3 a\n3 5 b\n").code(0).quiet();
    s.run(&["ranges", "list", "m"]).out("1\t2\ta\n3\t4\tb\n");
    s.run_with(&half, b"3 3 a\n")
        .code(2)
        .complains("line 1: the range ends at 3, not behind its start 3");
    // This process has mappings.
    if cfg!(target_os = "linux") {
        let args = [
            "ranges",
            "build",
            "--form",
            "maps",
            "/proc/self/maps",
            "-q",
            "-o",
            "m",
        ];
        s.run(&args).code(0).quiet();
        s.run(&["ranges", "list", "m"]).code(0).says("r-xp");
    }
}

#[test]
fn ranges_are_stored_and_removed() {
    let s = map();
    s.run(&["ranges", "store", "m", "30", "39", "new"])
        .code(0)
        .quiet();
    s.run(&["ranges", "store", "m", "35", "45", "other"])
        .code(1)
        .complains("35..=45 overlaps 30..=39; --overwrite allows it");
    s.run(&["ranges", "store", "--overwrite", "m", "35", "45", "other"])
        .code(0)
        .quiet();
    s.run(&["ranges", "list", "m", "--from", "30", "--to", "50"])
        .out("30\t34\tnew\n35\t45\tother\n");
    s.run(&["ranges", "store", "m", "9", "3"])
        .code(2)
        .complains("the range ends at 3, before its start 9");
    s.run(&["ranges", "remove", "m", "33", "36"])
        .code(0)
        .out("33\t34\tnew\n35\t36\tother\n");
    s.run(&["ranges", "remove", "m", "34"]).code(1).out("");
    s.run(&["ranges", "remove", "--whole", "--json", "m", "40"])
        .code(0)
        .out("{\"end\":45,\"size\":9,\"start\":37,\"value\":\"other\"}\n");
    s.run(&["ranges", "list", "m", "--from", "30", "--to", "50"])
        .out("30\t32\tnew\n");
    let missing = s.run(&["ranges", "remove", "none", "1"]);
    missing.code(2).complains("none");
}

#[test]
fn what_is_different() {
    let s = map();
    build(&s, "other", TEXT.replace("22 22    ssh", "22 24 SSH"));
    s.run(&["ranges", "diff", "m", "other"])
        .code(1)
        .out("-\t22\t22\tssh\n+\t22\t22\tSSH\n+\t23\t24\tSSH\n");
    s.run(&["ranges", "diff", "m", "m"]).code(0).out("");
    s.run(&["ranges", "diff", "--json", "other", "m"])
        .code(1)
        .out(
            "{\"end\":22,\"new\":\"ssh\",\"old\":\"SSH\",\"size\":1,\"start\":22}\n\
         {\"end\":24,\"new\":null,\"old\":\"SSH\",\"size\":2,\"start\":23}\n",
        );
}

#[test]
fn places_with_conditions() {
    let s = map();
    let place = |more: &[&str]| {
        let mut args = vec!["ranges", "alloc", "m", "4", "x", "--dry-run"];
        args.extend(more);
        s.run(&args)
    };
    place(&["--align", "10", "--rest", "3"])
        .code(0)
        .out("3\t6\n");
    place(&["--guard", "9", "--from", "15"])
        .code(0)
        .out("32\t35\n");
    place(&["--near", "78"]).code(0).out("76\t79\n");
    place(&["--tightest", "--to", "500"]).code(0).out("0\t3\n");
    place(&["--to", "90", "--guard", "60"])
        .code(1)
        .complains("no gap of 4 in 0..=90 with 60 free on both sides");
}

#[test]
fn several_files_become_one() {
    let s = Scratch::new();
    build(&s, "a", "0 9 x\n20 29 y\n");
    build(&s, "b", "10 19 x\n25 40 z\n");
    s.run(&["ranges", "merge", "a", "b", "-o", "all"])
        .code(1)
        .complains("b: 25..=40 overlaps 20..=29; --overwrite allows it");
    assert!(!s.path("all").exists());
    s.run(&["ranges", "merge", "--overwrite", "a", "b", "-o", "all"])
        .code(0)
        .quiet();
    s.run(&["ranges", "list", "all"])
        .out("0\t9\tx\n10\t19\tx\n20\t24\ty\n25\t40\tz\n");
    s.run(&[
        "ranges",
        "merge",
        "--overwrite",
        "--join",
        "a",
        "b",
        "-o",
        "a",
    ])
    .code(0)
    .quiet();
    s.run(&["ranges", "list", "a"])
        .out("0\t19\tx\n20\t24\ty\n25\t40\tz\n");
    s.run(&["ranges", "free", "a", "0", "100"]).code(0);
    s.run(&["ranges", "list", "a"]).code(0).out("");
}
