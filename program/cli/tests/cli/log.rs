//! Spans of the program's work, as `--log` and `SAPWOOD_LOG` show them.

use serde_json::Value;

use crate::common::Scratch;
use crate::server::Server;

/// The spans that ended, as documents.
fn spans(lines: &[String]) -> Vec<Value> {
    lines
        .iter()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .inspect(|line| {
            assert_eq!(line["fields"]["message"], "close", "{line}");
            assert_eq!(line["target"], "sapwood", "{line}");
            assert!(line["fields"]["time.busy"].is_string(), "{line}");
        })
        .map(|line| line["span"].clone())
        .collect()
}

/// Expects spans of these names in this order, and returns them.
#[track_caller]
fn expect(server: &mut Server, names: &[&str]) -> Vec<Value> {
    let mut lines = Vec::new();
    for _ in names {
        lines.push(server.complains("\"message\":\"close\""));
    }
    let spans = spans(&lines);
    let found: Vec<_> = spans.iter().map(|span| &span["name"]).collect();
    assert_eq!(found, names, "{spans:?}");
    spans
}

#[test]
fn spans_have_their_fields() {
    let s = Scratch::new();
    s.file("list", "oak\t1\nelm\t2\nash\t3\n");
    for (what, list) in [("routes", "10.0.0.0/8 a\n"), ("ranges", "1 5 one\n")] {
        s.file(what, list);
        let folder = format!("{what}-map");
        let log = ["--log=info", "--log-format=json"];
        let args = [&[what, "serve", what, "--live", &folder], &log[..]].concat();
        let mut server = Server::spawn(&s, &args);
        // The map and its texts are made together.
        let spans = expect(&mut server, &["load", "inherit", "commit", "difference"]);
        assert_eq!(spans[0]["entries"], 1, "{what}");
        assert_eq!(spans[3]["added"], 1, "{what}");
    }
    let log = ["--log", "info", "--log-format", "json"];
    let serve = ["names", "serve", "list", "--live", "map"];
    let mut server = Server::spawn(&s, &[&serve[..], &log].concat());
    let spans = expect(&mut server, &["load", "inherit", "commit", "difference"]);
    assert_eq!(
        (&spans[0]["list"], &spans[0]["entries"]),
        (&"list".into(), &3.into())
    );
    assert_eq!(
        (&spans[1]["folder"], &spans[1]["new"]),
        (&"map".into(), &true.into())
    );
    assert_eq!(spans[2]["map"], "map");
    let counts = |span: &Value| ["added", "removed", "changed"].map(|name| span[name].as_u64());
    assert_eq!(counts(&spans[3]), [Some(3), Some(0), Some(0)]);
    s.file("list", "oak\t5\nelm\t2\nfir\t4\n");
    server.answers("reload\n", &["reloaded\t1\t1\t1"]);
    let spans = expect(&mut server, &["load", "commit", "difference", "reload"]);
    assert_eq!(counts(&spans[2]), [Some(1), Some(1), Some(1)]);
    assert_eq!(spans[3]["list"], "list");
    // Without a difference there is no commit. Single changes are of the level debug.
    server.answers(
        "add fir 5\nreload\n",
        &["replaced\tfir", "reloaded\t0\t0\t1"],
    );
    expect(&mut server, &["load", "commit", "difference", "reload"]);
    server.answers("reload\n", &["reloaded\t0\t0\t0"]);
    expect(&mut server, &["load", "difference", "reload"]);
    server.child.kill().unwrap();
    server.ends();
    // The one that takes the map over says so. The variables are as good as the options.
    let mut command = Server::command(&s, &serve);
    command.env("SAPWOOD_LOG", "sapwood=debug");
    command.env("SAPWOOD_LOG_FORMAT", "json");
    let mut server = Server::of(command);
    let spans = expect(&mut server, &["load", "inherit", "difference"]);
    assert_eq!(spans[1]["new"], false);
    assert_eq!(spans[1]["generation"], 1);
    server.answers("add fir 6\nquit\n", &["replaced\tfir"]);
    let spans = expect(&mut server, &["change", "serve"]);
    assert_eq!(spans[0]["asked"], 1);
    assert_eq!(spans[1]["map"], "map");
}

#[test]
fn the_log_is_off_unless_it_is_asked_for() {
    let s = Scratch::new();
    s.file("list", "oak\t1\n");
    let build = ["names", "build", "list", "-o", "words.qp", "-q"];
    s.run(&build).code(0).quiet().out("");
    s.run(&[&build[..], &["--log", "off"]].concat())
        .code(0)
        .quiet();
    s.run(&[&build[..], &["--log", "warn"]].concat())
        .code(0)
        .quiet();
    let said = s.run(&[&["--log", "info"], &build[..]].concat());
    let said = said.code(0).out("").stderr();
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(
        lines[0].contains(" INFO load{list=list entries=1}: sapwood: close time.busy="),
        "{said}"
    );
    assert!(
        lines[1].contains(" INFO save{file=words.qp entries=1}: sapwood: close time.busy="),
        "{said}"
    );
    for (kind, list) in [("routes", "10.0.0.0/8 a\n"), ("ranges", "1 5 one\n")] {
        s.file("list", list);
        let build = [kind, "build", "list", "-o", "other", "-q", "--log=info"];
        let ran = s.run(&build);
        ran.code(0)
            .complains(" INFO save{file=other entries=1}: sapwood: close ");
    }
    let bad = s.run(&["--log", "loud", "names", "count", "words.qp"]);
    bad.code(2)
        .complains("give off, error, warn, info, debug or trace");
    let bad = s.run(&["--log-format", "xml", "names", "count", "words.qp"]);
    bad.code(2).complains("text, json");
    s.run(&["names", "count", "words.qp", "--log", ""])
        .code(0)
        .quiet();
}
