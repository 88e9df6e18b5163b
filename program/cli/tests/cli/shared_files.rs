//! Saved files that Rust, C and Python read and write, too, byte for byte.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::common::Scratch;

/// A scratch directory with the committed files.
fn scratch() -> Scratch {
    let s = Scratch::new();
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../core/sapwood/tests/files");
    for entry in fs::read_dir(files).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        s.file(name, fs::read(&path).unwrap());
    }
    s
}

fn same(s: &Scratch, one: &str, other: &str) {
    let bytes = [one, other].map(|name| fs::read(s.path(name)).unwrap());
    assert!(bytes[0] == bytes[1], "{one} and {other} differ");
}

#[test]
fn tables_of_routes() {
    let s = scratch();
    let text = "10.0.0.0/8 core\n192.0.2.0/24 lab\n2001:db8::/32 core\n";
    s.file("text", text);
    s.run(&["routes", "build", "text", "-o", "built"]).code(0);
    same(&s, "built", "names.routes");
    s.run(&["routes", "export", "names.routes"])
        .code(0)
        .out(text);

    let numbers = "10.0.0.0/8 64500\n10.1.2.0/24 4294967295\n2001:db8::/32 7\n";
    s.run(&["routes", "export", "numbers.routes"])
        .code(0)
        .out(numbers);
    s.run(&["routes", "lookup", "numbers.routes", "10.1.2.3", "--all"])
        .code(0)
        .out("10.0.0.0/8 64500\n10.1.2.0/24 4294967295\n".replace(' ', "\t"));
    for (table, routes) in [
        ("groups.routes", 2),
        ("nulls.routes", 2),
        ("names.routes", 3),
    ] {
        let documents = s.run(&["routes", "verify", table, "--json"]).documents();
        assert_eq!(
            (&documents[0]["ok"], &documents[0]["routes"]),
            (&json!(true), &json!(routes))
        );
    }
    s.run(&["routes", "lookup", "nulls.routes", "10.1.2.3"])
        .code(0)
        .says("blackhole");
    let group = s.run(&["routes", "lookup", "groups.routes", "10.1.2.3"]);
    group.code(0).says("1 weight 1").says("2 weight 3");
    s.run(&[
        "routes",
        "diff",
        "numbers.routes",
        "groups.routes",
        "--summary",
    ])
    .code(1);
}

#[test]
fn maps_of_ranges() {
    let s = scratch();
    let text = "0 9 left\n20 29 right\n9223372036854775808 18446744073709551615\n";
    s.file("text", text);
    s.run(&["ranges", "build", "text", "-o", "built"]).code(0);
    same(&s, "built", "texts.ranges");
    s.run(&["ranges", "export", "texts.ranges"])
        .code(0)
        .out(text);
    s.run(&["ranges", "export", "numbers.ranges"])
        .code(0)
        .out("5 9 7\n20 18446744073709551615 18446744073709551615\n");
    s.run(&["ranges", "verify", "numbers.ranges"])
        .code(0)
        .says("ok: 2 ranges in ");
}

#[test]
fn old_files_are_refused_by_name() {
    let s = scratch();
    for (args, told) in [
        (
            ["routes", "export", "program-1.routes"],
            "a table of routes in format 1 of the program `sapwood`, of an earlier version; build \
             it anew by `sapwood routes build`",
        ),
        (
            ["routes", "stats", "library-1.routes"],
            "a table of routes in format 1 of the library",
        ),
        (
            ["ranges", "export", "program-1.ranges"],
            "a map of ranges in format 1 of the program `sapwood`, of an earlier version; build \
             it anew by `sapwood ranges build`",
        ),
        (
            ["routes", "export", "texts.ranges"],
            "not a sound table of routes: it is a map of ranges",
        ),
        (
            ["ranges", "export", "names.routes"],
            "not a sound map of ranges: it is a table of routes",
        ),
    ] {
        s.run(&args).code(2).out("").complains(told);
    }
    s.run(&["routes", "verify", "program-1.routes"])
        .code(1)
        .says("format 1 of the program");
    s.run(&["ranges", "verify", "program-1.ranges"])
        .code(1)
        .says("format 1 of the program");
}
