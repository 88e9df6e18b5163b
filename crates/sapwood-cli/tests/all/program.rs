//! The program around the maps: help, completions, manual pages, the tour.

use crate::common::Scratch;

#[test]
fn version_and_help() {
    let s = Scratch::new();
    s.run(&["--version"])
        .code(0)
        .out(concat!("sapwood ", env!("CARGO_PKG_VERSION"), "\n"));
    s.run(&["--help"])
        .code(0)
        .says("Examples:")
        .says("Exit codes:");
    for command in [
        &["names"][..],
        &["names", "build"],
        &["names", "get"],
        &["names", "has"],
        &["names", "prefix"],
        &["names", "range"],
        &["names", "next"],
        &["names", "prev"],
        &["names", "longest"],
        &["names", "count"],
        &["names", "stats"],
        &["names", "verify"],
        &["names", "diff"],
        &["routes"],
        &["routes", "build"],
        &["routes", "lookup"],
        &["routes", "stats"],
        &["routes", "verify"],
        &["routes", "diff"],
        &["routes", "export"],
        &["routes", "bench"],
        &["ranges"],
        &["ranges", "build"],
        &["ranges", "get"],
        &["ranges", "list"],
        &["ranges", "gaps"],
        &["ranges", "alloc"],
        &["ranges", "stats"],
        &["ranges", "verify"],
        &["ranges", "export"],
        &["maps"],
        &["tour"],
        &["completions"],
        &["man"],
    ] {
        s.run(&[command, &["--help"]].concat())
            .code(0)
            .says("Example")
            .says(&format!("sapwood {}", command.join(" ")))
            .quiet();
    }
    s.run(&["nonsense"]).code(2).complains("nonsense");
}

#[test]
fn completions() {
    let s = Scratch::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = s.run(&["completions", shell]);
        ran.code(0).says("longest").quiet();
    }
    s.run(&["completions", "cobol"]).code(2);
}

#[test]
fn manual_pages() {
    let s = Scratch::new();
    s.run(&["man"]).code(0).says(".TH").says("tour");
    s.run(&["man", "names", "build"])
        .code(0)
        .says("sapwood\\-names\\-build")
        .says("renamed");
    s.run(&["man", "names", "nonsense"])
        .code(2)
        .complains("there is no command \"nonsense\"");
    s.run(&["man", "--out", "pages"]).code(0).out("");
    let mut pages: Vec<_> = std::fs::read_dir(s.path("pages"))
        .unwrap()
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    for page in [
        "sapwood.1",
        "sapwood-names.1",
        "sapwood-names-longest.1",
        "sapwood-routes-build.1",
        "sapwood-ranges-alloc.1",
        "sapwood-maps.1",
        "sapwood-tour.1",
    ] {
        assert!(pages.iter().any(|p| p == page), "{page} in {pages:?}");
    }
    assert!(!pages.iter().any(|p| p.contains("measure")), "{pages:?}");
    for page in pages {
        assert!(std::fs::metadata(s.path("pages").join(page)).unwrap().len() > 100);
    }
    s.file("file", "");
    s.run(&["man", "--out", "file"])
        .code(2)
        .complains("cannot write file: ");
}

#[test]
fn a_small_tour() {
    let s = Scratch::new();
    s.file("words", b"oak\nash\n\xe4sche\nelm\nelms\n");
    let ran = s.run(&["tour", "--quick", "--limit", "2000", "words"]);
    ran.code(0)
        .says("1. Building maps")
        .says("6. Speed and memory beside std's maps")
        .says("std BTreeMap")
        .says("7. Routes")
        .says("every next hop an old or a new one")
        .says("8. Ranges")
        .says("would have to take")
        .says("answers checked, all right")
        // No colours and no bars where nobody sees them.
        .quiet();
    assert!(!ran.0.stdout.contains(&0x1b));
    assert_eq!(s.names(), ["words"]);
}

#[test]
fn a_small_tour_in_json() {
    let s = Scratch::new();
    let ran = s.run(&["tour", "--quick", "--limit", "1000", "--json"]);
    ran.code(0).quiet();
    let document: serde_json::Value = serde_json::from_slice(&ran.0.stdout).unwrap();
    for chapter in [
        "building", "lookups", "versions", "readers", "files", "table", "routes", "ranges",
        "kernel",
    ] {
        assert!(!document["chapters"][chapter].is_null(), "{chapter}");
    }
    let data = document["data"].as_array().unwrap();
    assert_eq!(data.last().unwrap()["keys"], 1000);
    let routes = &document["chapters"]["routes"];
    assert_eq!(routes["ipv4"]["routes"], 1000);
    assert!(routes["ipv6"]["intable_mlps"].as_f64() > Some(0.0));
    assert_eq!(routes["cache"]["packets"], 50_000);
    let ranges = &document["chapters"]["ranges"];
    assert_eq!(ranges["ranges"], 1000);
    assert!(ranges["maps"][0]["load_ns"].as_f64() > Some(0.0));
    assert!(ranges["maps"][1]["bytes_per_range"].as_f64() >= Some(0.0));
    let reservation = &ranges["reservation"];
    assert_eq!(reservation["nodes_planned"], reservation["nodes_made"]);
    assert!(reservation["nodes_planned"].as_u64() > Some(0));
    let maps = &document["chapters"]["table"]["sets"][0]["maps"];
    assert_eq!(maps.as_array().unwrap().len(), 5);
    assert!(maps[0]["hit_mops"].as_f64() > Some(0.0));
}

#[test]
fn a_tour_of_odd_files() {
    let s = Scratch::new();
    s.run(&["tour", "--quick", "--limit", "100", "none"])
        .code(2)
        .complains("cannot read none: No such file");
    s.file("empty", "");
    s.file("one", "single");
    s.file("letters", "a\nb\nc\nd\n");
    s.run(&[
        "tour", "--quick", "--limit", "100", "empty", "one", "letters",
    ])
    .code(0)
    .says("no keys in empty");
}

#[test]
fn a_tour_of_ones_own_routes() {
    let s = Scratch::new();
    s.file("routes", "10.0.0.0/8 a\n10.1.0.0/16 b\n");
    s.file("empty", "# none\n");
    s.file("bad", "10.0.0.0/8 a\n10.0.0.0/80 b\n");
    let tour = ["tour", "--quick", "--limit", "100", "--routes"];
    s.run(&[&tour[..], &["routes"]].concat())
        .code(0)
        .says("2 IPv4 and 0 IPv6 routes of routes.")
        .says("a table of all routes instead")
        .quiet();
    s.run(&[&tour[..], &["empty"]].concat())
        .code(2)
        .out("")
        .complains("empty: no routes to measure with");
    s.run(&[&tour[..], &["bad"]].concat())
        .code(2)
        .complains("sapwood: bad: line 2: \"10.0.0.0/80\" is not a prefix");
}
