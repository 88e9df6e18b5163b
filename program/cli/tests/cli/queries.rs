//! `sapwood names`: every query, its formats and exit codes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::common::Scratch;
use serde_json::json;

/// A map of a few trees.
fn trees() -> Scratch {
    let s = Scratch::new();
    s.build("map", "ash\t1\nbeech\t2\nbeechnut\t3\nelm\t4\noak\t5\n");
    s
}

fn zones() -> Scratch {
    let s = Scratch::new();
    let text = b"org\t1\nexample.org\t2\nwww.Example.org\t3\nexample.net\t4\nexamples.org\t5\n";
    s.run_with(&["names", "build", "--dns", "-", "-o", "zones"], text)
        .code(0);
    s
}

#[test]
fn get() {
    let s = trees();
    s.run(&["names", "get", "map", "oak"])
        .code(0)
        .out("5\n")
        .quiet();
    s.run(&["names", "get", "map", "oak", "fir", "ash"])
        .code(1)
        .out("oak\t5\nash\t1\n")
        .complains("sapwood: no key \"fir\"");
    s.run_with(&["names", "get", "map", "-", "elm"], b"oak\nash")
        .code(0)
        .out("oak\t5\nash\t1\nelm\t4\n");
    s.run_with(&["names", "get", "map", "-", "--null"], b"oak\0ash\0")
        .code(0)
        .out("oak\t5\0ash\t1\0");
    let ran = s.run(&["names", "get", "map", "oak", "fir", "--json"]);
    assert_eq!(
        ran.code(1).documents(),
        [
            json!({"key": "oak", "value": 5}),
            json!({"key": "fir", "value": null})
        ]
    );
    s.run(&["names", "get", "map", "--hex", "6f616b"])
        .code(0)
        .out("5\n");
    s.run(&["names", "get", "map", "--hex", "6f6"])
        .code(2)
        .complains("\"6f6\" is not a key in hexadecimal digits");
    s.run(&["names", "get", "map", "--", "-dash"]).code(1);
    s.run(&["names", "get", "map"]).code(2).complains("<KEY>");
    s.run(&["names", "get", "map", &"x".repeat(70_000)]).code(1);
    s.run_with(&["names", "get", "map", "-"], &[b'x'; 200_000])
        .code(1)
        .complains("no key \"(line 1, of 200000 bytes)\"");
}

#[test]
fn has() {
    let s = trees();
    s.run(&["names", "has", "map", "oak", "elm"])
        .code(0)
        .out("")
        .quiet();
    s.run(&["names", "has", "map", "oak", "fir"])
        .code(1)
        .out("")
        .quiet();
    s.run(&["names", "has", "-v", "map", "oak"])
        .code(0)
        .out("yes\n");
    s.run(&["names", "has", "-v", "map", "oak", "fir"])
        .code(1)
        .out("oak\tyes\nfir\tno\n");
    s.run_with(&["names", "has", "map", "-"], b"oak\nash\n")
        .code(0);
    let ran = s.run(&["names", "has", "map", "fir", "--json"]);
    assert_eq!(
        ran.code(1).documents(),
        [json!({"key": "fir", "present": false})]
    );
}

#[test]
fn prefix() {
    let s = trees();
    s.run(&["names", "prefix", "map", "beech"])
        .code(0)
        .out("beech\t2\nbeechnut\t3\n");
    s.run(&["names", "prefix", "map", "beech", "-r", "-n1"])
        .code(0)
        .out("beechnut\t3\n");
    s.run(&["names", "prefix", "map", "x"]).code(0).out("");
    let ran = s.run(&["names", "prefix", "map", "a", "--json"]);
    assert_eq!(ran.code(0).documents(), [json!({"key": "ash", "value": 1})]);
}

#[test]
fn range() {
    let s = trees();
    let all = "ash\t1\nbeech\t2\nbeechnut\t3\nelm\t4\noak\t5\n";
    s.run(&["names", "range", "map"]).code(0).out(all);
    s.run(&["names", "range", "map", "--from", "beech", "--to", "oak"])
        .out("beech\t2\nbeechnut\t3\nelm\t4\n");
    s.run(&[
        "names",
        "range",
        "map",
        "--from",
        "beech",
        "--exclude-from",
        "--to",
        "oak",
        "--include-to",
    ])
    .out("beechnut\t3\nelm\t4\noak\t5\n");
    s.run(&[
        "names",
        "range",
        "map",
        "--to",
        "c",
        "--reverse",
        "--limit",
        "2",
    ])
    .out("beechnut\t3\nbeech\t2\n");
    s.run(&["names", "range", "map", "--from", "z", "--to", "a"])
        .code(0)
        .out("")
        .complains("--from sorts after --to");
    s.run(&["names", "range", "map", "--exclude-from"]).code(2);
    let ran = s.run(&["names", "range", "map", "--from", "oak", "--json"]);
    assert_eq!(ran.documents(), [json!({"key": "oak", "value": 5})]);
}

#[test]
fn neighbours() {
    let s = trees();
    s.run(&["names", "next", "map", "beech"])
        .code(0)
        .out("beechnut\t3\n");
    s.run(&["names", "next", "map", "b"])
        .code(0)
        .out("beech\t2\n");
    s.run(&["names", "next", "map", "oak"]).code(1).out("");
    s.run(&["names", "prev", "map", "beech"])
        .code(0)
        .out("ash\t1\n");
    s.run(&["names", "prev", "map", "ash"]).code(1).out("");
    let ran = s.run(&["names", "next", "map", "x", "--json"]);
    assert_eq!(
        ran.code(1).documents(),
        [json!({"query": "x", "found": null})]
    );
    let ran = s.run(&["names", "prev", "map", "x", "--json"]);
    assert_eq!(
        ran.code(0).documents(),
        [json!({"query": "x", "found": {"key": "oak", "value": 5}})]
    );
}

#[test]
fn longest() {
    let s = Scratch::new();
    s.build("map", "/\n/usr\n/usr/lib\n/us\n");
    s.run(&["names", "longest", "map", "/usr/lib64/x"])
        .code(0)
        .out("/usr/lib\t3\n");
    s.run(&["names", "longest", "map", "/usr/lib64/x", "-s/"])
        .code(0)
        .out("/usr\t2\n");
    s.run(&["names", "longest", "map", "/usr/x", "--all"])
        .out("/\t1\n/us\t4\n/usr\t2\n");
    s.run(&[
        "names",
        "longest",
        "map",
        "/usr/x",
        "--all",
        "--separator",
        "/",
    ])
    .out("/\t1\n/usr\t2\n");
    s.run(&["names", "longest", "map", "usr"]).code(1).out("");
    s.run_with(&["names", "longest", "map", "-"], b"/usr\n/x\n")
        .code(0)
        .out("/usr\t/usr\t2\n/x\t/\t1\n");
    let ran = s.run(&["names", "longest", "map", "/us", "x", "--json"]);
    assert_eq!(
        ran.code(1).documents(),
        [
            json!({"query": "/us", "found": {"key": "/us", "value": 4}}),
            json!({"query": "x", "found": null})
        ]
    );
    let ran = s.run(&["names", "longest", "map", "/", "--all", "--json"]);
    assert_eq!(
        ran.code(0).documents(),
        [json!({"query": "/", "found": [{"key": "/", "value": 1}]})]
    );
    s.run(&["names", "longest", "map", "/", "-s", "ab"])
        .code(2)
        .complains("the separator must be one character of one byte");
    s.run_with(&["names", "longest", "map", "-"], &[b'/'; 200_000])
        .code(2)
        .complains("the key is too long");
}

#[test]
fn count_and_stats() {
    let s = trees();
    s.run(&["names", "count", "map"]).code(0).out("5\n");
    s.run(&["names", "count", "map", "beech"])
        .code(0)
        .out("2\n");
    let ran = s.run(&["names", "count", "map", "b", "--json"]);
    assert_eq!(ran.documents(), [json!({"prefix": "b", "count": 2})]);
    s.run(&["names", "stats", "map"])
        .code(0)
        .says("entries      5\n")
        .says("key bytes    22 (4.4 a key)")
        .says("branches on average")
        .says("bytes a key");
    let documents = s.run(&["names", "stats", "map", "--json"]).documents();
    let stats = &documents[0];
    assert_eq!(
        (&stats["entries"], &stats["key_bytes"]),
        (&json!(5), &json!(22))
    );
    assert!(stats["depth_mean"].as_f64() >= Some(0.0));
    assert!(stats["clusters"]["count"].as_u64() >= Some(1));
    assert_eq!(
        stats["file_bytes"],
        std::fs::metadata(s.path("map")).unwrap().len()
    );
}

#[test]
fn domain_names() {
    let s = zones();
    s.run(&["names", "longest", "--dns", "zones", "a.b.EXAMPLE.org."])
        .code(0)
        .out("example.org\t2\n");
    s.run(&[
        "names",
        "longest",
        "--dns",
        "zones",
        "examples.org.",
        "--all",
    ])
    .out("org\t1\nexamples.org\t5\n");
    s.run(&["names", "prefix", "--dns", "zones", "example.org"])
        .out("example.org\t2\nwww.example.org\t3\n");
    s.run(&["names", "next", "--dns", "zones", "org"])
        .out("example.org\t2\n");
    s.run(&["names", "has", "--dns", "zones", "WWW.EXAMPLE.ORG"])
        .code(0);
    s.run(&["names", "get", "--dns", "zones", "a..b"])
        .code(2)
        .complains("\"a..b\" is not a domain name");
    s.run_with(&["names", "get", "--dns", "zones", "-"], b"org\na..b\n")
        .code(2)
        .complains("standard input: line 2: \"a..b\" is not a domain name");
    let ran = s.run(&["names", "range", "--dns", "zones", "--to", "org", "--json"]);
    assert_eq!(ran.documents(), [json!({"key": "example.net", "value": 4})]);
    s.run(&["names", "get", "zones", "org"])
        .code(1)
        .complains("note: the keys of zones look like domain names; use --dns");
    s.run(&["names", "range", "zones", "--hex", "-n1"])
        .out("6e6574006578616d706c6500\t4\n");
    s.run(&["names", "get", "--dns", "--hex", "zones", "org"])
        .code(2);
    let s = trees();
    s.run(&["names", "range", "--dns", "map"])
        .code(2)
        .complains("key \"ash\" is not a domain name; was the map built with --dns?");
}

#[test]
fn keys_that_are_not_text() {
    let s = Scratch::new();
    s.build("map", b"\xff\xfe\t1\n");
    let key = OsStr::from_bytes(b"\xff\xfe");
    let args = ["names", "get", "map"].map(OsStr::new);
    s.run(&[&args[..], &[key]].concat()).code(0).out("1\n");
    let ran = s.run(&["names", "prefix", "map", "", "--json"]);
    assert_eq!(
        ran.documents(),
        [json!({"key": {"hex": "fffe"}, "value": 1})]
    );
    let args = ["names", "get", "map", "x"].map(OsStr::new);
    let absent = OsStr::from_bytes(b"\xfd\n");
    s.run(&[&args[..], &[absent]].concat())
        .code(1)
        .complains("no key \"\\xfd\\n\"");
}

#[test]
fn diff() {
    let s = trees();
    s.build("new", "ash\t1\nbeech\t9\nelm\t4\nfir\t6\noak\t5\n");
    s.run(&["names", "diff", "map", "map"]).code(0).out("");
    s.run(&["names", "diff", "map", "new"])
        .code(1)
        .out("~ beech\t2\t9\n- beechnut\t3\n+ fir\t6\n");
    s.run(&["names", "diff", "new", "map"])
        .code(1)
        .out("~ beech\t9\t2\n+ beechnut\t3\n- fir\t6\n");
    s.run(&["names", "diff", "--summary", "map", "new"])
        .code(1)
        .out("1 added, 1 removed, 1 changed\n");
    let ran = s.run(&["names", "diff", "map", "new", "--json"]);
    assert_eq!(
        ran.code(1).documents(),
        [
            json!({"change": "changed", "key": "beech", "old": 2, "new": 9}),
            json!({"change": "removed", "key": "beechnut", "old": 3, "new": null}),
            json!({"change": "added", "key": "fir", "old": null, "new": 6}),
        ]
    );
    let ran = s.run(&["names", "diff", "-s", "map", "map", "--json"]);
    assert_eq!(
        ran.documents(),
        [json!({"added": 0, "removed": 0, "changed": 0})]
    );
    s.run(&["names", "diff", "map", "none"])
        .code(2)
        .complains("cannot read none: No such file");
}

#[test]
fn a_reader_who_leaves_ends_it_quietly() {
    let s = Scratch::new();
    let text: String = (0..100_000).map(|i| format!("key number {i}\n")).collect();
    s.build("map", text);
    let ran = s.shell("\"$0\" names range map | head -n 1; echo done >&2");
    ran.code(0).out("key number 0\t1\n");
    assert_eq!(ran.stderr(), "done\n");
}

#[test]
fn output_that_is_full_is_an_error() {
    let s = trees();
    s.shell("\"$0\" names range map > /dev/full")
        .code(2)
        .complains("sapwood: cannot write the output: No space left on device");
}

/// A map of texts. One text has a tab, one is not UTF-8, and one is empty.
fn texts() -> Scratch {
    let s = Scratch::new();
    let lines =
        b"ash\tFraxinus\nbeech\tFagus\tsylvatica\nelm\noak\t\xff\xfe\nash\tFraxinus excelsior\n";
    s.run_with(
        &["names", "build", "--values", "text", "-", "-o", "map"],
        lines,
    )
    .code(0)
    .complains("map: 4 keys of 14 bytes in a file of ")
    .complains("; 1 lines came again, the last one won");
    s
}

#[test]
fn texts_are_stored_and_printed() {
    let s = texts();
    s.run(&["names", "get", "map", "ash"])
        .code(0)
        .out("Fraxinus excelsior\n")
        .quiet();
    s.run(&["names", "get", "map", "elm", "beech", "fir"])
        .code(1)
        .out("elm\t\nbeech\tFagus\tsylvatica\n")
        .complains("sapwood: no key \"fir\"");
    let ran = s.run(&["names", "get", "map", "ash", "oak", "fir", "--json"]);
    assert_eq!(
        ran.code(1).documents(),
        [
            json!({"key": "ash", "value": "Fraxinus excelsior"}),
            json!({"key": "oak", "value": {"hex": "fffe"}}),
            json!({"key": "fir", "value": null})
        ]
    );
    s.run(&["names", "has", "map", "ash"]).code(0);
    s.run(&["names", "prefix", "map", "", "--limit", "2"])
        .code(0)
        .out("ash\tFraxinus excelsior\nbeech\tFagus\tsylvatica\n");
    s.run(&["names", "range", "map", "--from", "b", "--to", "c"])
        .code(0)
        .out("beech\tFagus\tsylvatica\n");
    s.run(&["names", "next", "map", "a"])
        .code(0)
        .out("ash\tFraxinus excelsior\n");
    s.run(&["names", "prev", "map", "f", "--json"])
        .code(0)
        .out("{\"found\":{\"key\":\"elm\",\"value\":\"\"},\"query\":\"f\"}\n");
    s.run(&["names", "longest", "map", "ashen"])
        .code(0)
        .out("ash\tFraxinus excelsior\n");
    s.run(&["names", "count", "map"]).code(0).out("4\n");
    s.run(&["names", "verify", "map"]).code(0);
    s.run(&["names", "stats", "map"])
        .code(0)
        .says("keys and texts included");
    // A line that is too long for a record is left out, and the message has its length.
    let long = [b"a\t".to_vec(), vec![b'x'; 70_000]].concat();
    s.run_with(
        &["names", "build", "--values", "text", "-", "-o", "long"],
        &long,
    )
    .complains("record of 70002 bytes is too long");
}

#[test]
fn maps_of_texts_differ_by_their_texts() {
    let s = texts();
    let text = b"ash\tFraxinus\nbeech\tFagus\tsylvatica\noak\tQuercus\n";
    s.run_with(
        &["names", "build", "--values", "text", "-", "-o", "new"],
        text,
    )
    .code(0);
    s.run(&["names", "diff", "map", "new", "--summary"])
        .code(1)
        .out("0 added, 1 removed, 2 changed\n");
    s.run(&["names", "diff", "map", "map"]).code(0).out("");
    s.build("numbers", "ash\t1\n");
    s.run(&["names", "diff", "map", "numbers"])
        .code(2)
        .complains("the values of map are texts, those of numbers are numbers");
    s.run_with(
        &["names", "build", "--values", "text", "-k", "-", "-o", "x"],
        b"",
    )
    .code(2)
    .complains("--keys-only");
}
