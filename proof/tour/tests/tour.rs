//! The tour.

#[path = "../../../program/cli/tests/cli/common/mod.rs"]
mod common;

use common::Scratch;
#[test]
fn a_small_tour() {
    let s = Scratch::new();
    s.file("words", b"oak\nash\n\xe4sche\nelm\nelms\n");
    let ran = s.run(&["tour", "--quick", "--limit", "2000", "words"]);
    ran.code(0)
        .says("1. Building maps")
        .says("6. Speed and memory next to std's maps")
        .says("std BTreeMap")
        .says("7. Routes")
        .says("every next hop was an old or a new one")
        .says("8. Ranges")
        .says("would have to reserve")
        .says("answers checked, all right")
        // Output that is no terminal has no colours and no progress bars.
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
        .says("by a table of all routes instead")
        .quiet();
    s.run(&[&tour[..], &["empty"]].concat())
        .code(2)
        .out("")
        .complains("empty: it has no routes to measure");
    s.run(&[&tour[..], &["bad"]].concat())
        .code(2)
        .complains("sapwood: bad: line 2: \"10.0.0.0/80\" is not a prefix");
}

#[test]
fn all_commands_of_the_program_are_there() {
    let s = Scratch::new();
    s.build("words", "oak\nash\n");
    s.run(&["names", "get", "words", "ash"]).code(0).out("2\n");
    let help = s.run(&["help"]);
    for command in ["tour", "names", "routes", "ranges", "report"] {
        help.code(0).says(&format!("\n  {command} "));
    }
}
