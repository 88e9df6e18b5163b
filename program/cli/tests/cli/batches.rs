//! Queries in batches: a bad one is reported, and the others are answered.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::common::{PROGRAM, Scratch};

/// A map of names, one of domain names, a table of routes and a map of ranges.
fn maps() -> Scratch {
    let s = Scratch::new();
    s.build("words", "ash\noak\n");
    let ran = |args: &[&str], text: &str| {
        s.run_with(args, text.as_bytes()).code(0).out("");
    };
    ran(
        &["names", "build", "--dns", "-", "-o", "zones"],
        "a.example\nb.example\n",
    );
    ran(&["routes", "build", "-", "-o", "routes"], "10.0.0.0/8 x\n");
    ran(&["ranges", "build", "-", "-o", "ranges"], "1 9 low\n");
    s
}

/// Each command with its map and an option, three queries of which the second is bad, the answers
/// of the others, and the report of the bad one.
#[rustfmt::skip]
const BATCHES: [(&[&str], &str, &str, &str); 7] = [
    (&["names", "get", "--dns", "zones", "-"], "a.example\nb..c\nb.example\n",
        "a.example\t1\nb.example\t2\n", "\"b..c\" is not a domain name: empty label at byte 2"),
    (&["names", "has", "-v", "--dns", "zones", "-"], "a.example\na b\nb.example\n",
        "a.example\tyes\nb.example\tyes\n", "\"a b\" is more than one name"),
    (&["names", "longest", "--dns", "zones", "-"], "x.a.example\n\\9\nb.example\n",
        "x.a.example\ta.example\t1\nb.example\tb.example\t2\n", "bad escape at byte 0"),
    (&["names", "closest", "zones", "-", "--cut", "2"], "a.example\nb..c\nb.example\n", "",
        "\"b..c\" is not a domain name: empty label at byte 2"),
    (&["names", "get", "--hex", "words", "-"], "617368\n6\n6f616b\n",
        "617368\t1\n6f616b\t2\n", "\"6\" is not a key in hexadecimal digits"),
    (&["routes", "lookup", "routes", "-"], "10.1.1.1\n10.1.1\n\u{feff}10.2.2.2\r\n",
        "10.1.1.1\t10.0.0.0/8\tx\n10.2.2.2\t10.0.0.0/8\tx\n", "\"10.1.1\" is not an address"),
    (&["ranges", "get", "ranges", "-"], "1\none\n 9 \n",
        "1\t1\t9\tlow\n9\t1\t9\tlow\n", "\"one\" is not a number, decimal or 0x\u{2026}"),
];

#[test]
fn a_bad_line_is_reported_and_the_others_are_answered() {
    let s = maps();
    for (args, queries, answers, fault) in BATCHES {
        let ran = s.run_with(args, queries.as_bytes());
        ran.code(2)
            .complains("sapwood: standard input: line 2: ")
            .complains(fault)
            .complains("sapwood: bad queries: 1 of 3\n");
        if answers.is_empty() {
            ran.says("a.example\texact\ta.example\t1\n")
                .says("b.example\tcut\tb.example\t2\n");
        } else {
            ran.out(answers);
        }
    }
}

#[test]
fn strict_stops_at_the_first_bad_line() {
    let s = maps();
    for (args, queries, answers, fault) in BATCHES {
        let ran = s.run_with(&[args, &["--strict"]].concat(), queries.as_bytes());
        ran.code(2)
            .complains("sapwood: standard input: line 2: ")
            .complains(fault);
        assert!(!ran.stderr().contains("bad queries"), "{ran}");
        match answers.split_once('\n') {
            Some((first, _)) => ran.out(format!("{first}\n")),
            None => ran.says("a.example\texists\tyes\n"),
        };
        assert!(!ran.0.stdout.starts_with(b"b.example"), "{ran}");
        assert!(
            !ran.0
                .stdout
                .windows(11)
                .any(|text| text == b"\nb.example\t"),
            "{ran}"
        );
    }
}

#[test]
fn arguments_are_a_batch_too() {
    let s = maps();
    s.run(&[
        "names",
        "get",
        "--dns",
        "zones",
        "a.example",
        "b..c",
        "b.example",
    ])
    .code(2)
    .out("a.example\t1\nb.example\t2\n")
    .complains("sapwood: \"b..c\" is not a domain name: empty label at byte 2\n")
    .complains("bad queries: 1 of 3");
    s.run(&["routes", "lookup", "routes", "10.1", "10.0.0.1"])
        .code(2)
        .out("10.0.0.1\t10.0.0.0/8\tx\n")
        .complains("sapwood: \"10.1\" is not an address\n");
    s.run(&["ranges", "get", "ranges", "", "5"])
        .code(2)
        .out("5\t1\t9\tlow\n")
        .complains("\"\" is not a number");
}

#[test]
fn documents_tell_of_bad_lines_in_their_places() {
    let s = maps();
    let ran = s.run_with(
        &["names", "get", "--dns", "zones", "-", "--json"],
        b"a.example\nb..c\nc.example\n",
    );
    let documents = ran.code(2).documents();
    assert_eq!(documents[0], json!({"key": "a.example", "value": 1}));
    assert_eq!(documents[1]["key"], "b..c");
    let error = documents[1]["error"].as_str().unwrap();
    assert!(
        error.contains("line 2: \"b..c\" is not a domain name"),
        "{error}"
    );
    assert_eq!(documents[2], json!({"key": "c.example", "value": null}));
    let ran = s.run_with(
        &["routes", "lookup", "routes", "-", "--json"],
        b"x\n10.0.0.1\n",
    );
    let documents = ran.code(2).documents();
    assert_eq!(documents[0]["query"], "x");
    assert_eq!(documents[1]["found"]["next_hop"], "x");
}

#[test]
fn a_line_that_is_too_long_is_one_bad_line() {
    let s = maps();
    let long = "9".repeat(200_000);
    for (args, good, fault) in [
        (
            &["names", "longest", "words", "-"][..],
            "oak",
            "line 1: the key is too long",
        ),
        (
            &["names", "get", "--dns", "zones", "-"],
            "a.example",
            "line 1: key of 200001 bytes",
        ),
        (
            &["routes", "lookup", "routes", "-"],
            "10.0.0.1",
            "line 1: a line of 200001 bytes is not",
        ),
        (
            &["ranges", "get", "ranges", "-"],
            "5",
            "line 1: 200001 bytes are not a number",
        ),
    ] {
        let ran = s.run_with(args, format!("{long}\n{good}\n").as_bytes());
        ran.code(2)
            .complains(fault)
            .complains("bad queries: 1 of 2")
            .says(&format!("{good}\t"));
    }
    // A query may have any bytes, but a key has at most 65,535 of them.
    s.run_with(
        &["names", "get", "words", "-"],
        format!("{long}\noak").as_bytes(),
    )
    .code(1)
    .out("oak\t2\n");
}

#[test]
fn blank_lines_and_comments_between_domain_names_are_no_queries() {
    let s = maps();
    s.run_with(
        &["names", "get", "--dns", "zones", "-"],
        b"\n# two names\r\na.example # note\r\n  b.example\n\n",
    )
    .code(0)
    .out("a.example\t1\nb.example\t2\n")
    .quiet();
}

#[test]
fn whoever_waits_for_an_answer_gets_it_before_the_next_query() {
    let s = maps();
    let mut child = Command::new(PROGRAM)
        .args(["names", "get"])
        .arg(s.path("words"))
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut queries, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut answers = BufReader::new(answers).lines();
    for (query, answer) in [("oak\n", "oak\t2"), ("ash\n", "ash\t1")] {
        queries.write_all(query.as_bytes()).unwrap();
        assert_eq!(answers.next().unwrap().unwrap(), answer);
    }
    drop(queries);
    assert!(child.wait().unwrap().success());
}
