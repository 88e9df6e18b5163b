//! Live maps: served by one process, read by others.

use std::time::Duration;

use rustix::process::Signal;
use sapwood::qp::QpStore;
use sapwood_live::{CheckedLiveReader, Error as LiveError, LiveReader};
use serde_json::{Value, json};

use crate::common::Scratch;
use crate::server::{LIMIT, Server, figure, metric, wait_for};

const TREES: &str = "oak\t1\nelm\t2\nash\t3\n";

#[test]
fn names_are_read_while_they_change() {
    let s = Scratch::new();
    s.file("list", TREES);
    let mut server = Server::start(&s, &["names", "serve", "list", "--live", "map"]);
    s.run(&["names", "get", "--live", "map", "oak"])
        .code(0)
        .out("1\n")
        .quiet();
    s.run(&["names", "get", "map", "oak", "larch", "--live"])
        .code(1)
        .out("oak\t1\n")
        .complains("no key \"larch\"");
    server.answers("add larch 7\n", &["added\tlarch"]);
    s.run(&["names", "get", "--live", "map", "larch"])
        .code(0)
        .out("7\n");
    server.answers(
        "add larch 8\nremove larch\nremove larch\nadd the oak 9\nadd a tab\t5\n",
        &[
            "replaced\tlarch",
            "removed\tlarch",
            "absent\tlarch",
            "added\tthe oak",
            "added\ta tab",
        ],
    );
    server.answers(
        "get the oak\nget larch\nremove the oak\nremove a tab\n",
        &[
            "found\tthe oak\t9",
            "absent\tlarch",
            "removed\tthe oak",
            "removed\ta tab",
        ],
    );
    for (command, why) in [
        ("add larch x", "\"x\" is not a number"),
        ("add larch", "the value is missing: add KEY NUMBER"),
        (
            "add",
            "\"add\" is not a command; the commands are add ENTRY",
        ),
        ("commit", "there is nothing to commit"),
        ("rollback", "there is nothing to roll back"),
        ("nonsense 1 2", "\"nonsense 1 2\" is not a command"),
    ] {
        server.answers(&format!("{command}\n"), &[]);
        server.complains(why);
    }
    s.run(&["names", "count", "--live", "map"])
        .code(0)
        .out("3\n");
    server.answers("quit\n", &[]);
    assert_eq!(server.ends(), Some(0));
    s.run(&["names", "get", "--live", "map", "ash"])
        .code(0)
        .out("3\n");
}

#[test]
fn every_query_reads_live_maps() {
    let s = Scratch::new();
    s.file("list", "a\t1\na/b\t2\na/b/c\t3\nb\t4\n");
    s.build("file", "a\t1\na/b\t2\nb\t5\n");
    let _server = Server::start(&s, &["names", "serve", "list", "--live", "map"]);
    let live = |args: &[&str]| s.run(&[&["names"], args, &["--live"]].concat());
    live(&["has", "map", "a", "b"]).code(0);
    live(&["has", "map", "a", "c", "-v"])
        .code(1)
        .out("a\tyes\nc\tno\n");
    live(&["prefix", "map", "a/"])
        .code(0)
        .out("a/b\t2\na/b/c\t3\n");
    live(&["range", "map", "--from", "a/b", "--to", "b"])
        .code(0)
        .out("a/b\t2\na/b/c\t3\n");
    live(&["range", "map", "--reverse", "--limit", "1"])
        .code(0)
        .out("b\t4\n");
    live(&["next", "map", "a/b/c"]).code(0).out("b\t4\n");
    live(&["next", "map", "b"]).code(1).out("");
    live(&["prev", "map", "b", "--json"])
        .code(0)
        .out("{\"found\":{\"key\":\"a/b/c\",\"value\":3},\"query\":\"b\"}\n");
    live(&["longest", "map", "a/b/x"]).code(0).out("a/b\t2\n");
    live(&["longest", "map", "a/bx", "--all", "--separator", "/"])
        .code(0)
        .out("a\t1\n");
    live(&["count", "map", "a/"]).code(0).out("2\n");
    assert_eq!(
        live(&["stats", "map", "--json"]).documents()[0]["entries"],
        4
    );
    live(&["verify", "map"])
        .code(0)
        .says("ok: 4 entries")
        .says("checked header, structure, order of keys, number of entries");
    live(&["diff", "map", "file"])
        .code(1)
        .out("- a/b/c\t3\n~ b\t4\t5\n");
    live(&["diff", "map", "map"]).code(0).out("");
    s.run(&["names", "get", "map", "a"])
        .code(2)
        .complains("map: it is a directory with a live map; --live reads it");
    s.run(&["names", "get", "--live", "--no-verify", "map", "a"])
        .code(2);
}

#[test]
fn stdin_of_a_reader_finds_the_newest_version() {
    let s = Scratch::new();
    s.file("list", TREES);
    let mut server = Server::start(&s, &["names", "serve", "list", "--live", "map"]);
    let mut reader = Server::spawn(&s, &["names", "get", "--live", "map", "-"]);
    reader.answers("oak\n", &["oak\t1"]);
    server.answers("add oak 100\n", &["replaced\toak"]);
    reader.answers("oak\n", &["oak\t100"]);
    // It holds nothing back while it waits.
    let status = || {
        s.run(&["live", "status", "map", "--json"])
            .documents()
            .remove(0)
    };
    wait_for("offline", || status()["readers"][0]["state"] == "offline");
    assert_eq!(status()["readers"][0]["pid"], reader.child.id());
    assert_eq!(status()["holding_back"], 0);
    reader.stdin = None;
    assert_eq!(reader.ends(), Some(0));
    assert_eq!(status()["readers"], json!([]));
}

#[test]
fn gathered_changes_are_one_change() {
    let s = Scratch::new();
    s.file("list", TREES);
    let mut server = Server::start(&s, &["names", "serve", "list", "--live", "map"]);
    server.answers(
        "begin\nadd pine 5\nremove oak\nremove larch\n",
        &[
            "begun\t0",
            "gathered\tpine",
            "gathered\toak",
            "gathered\tlarch",
        ],
    );
    server.answers("begin\n", &[]);
    server.complains("changes are gathered already");
    s.run(&["names", "has", "--live", "map", "oak"]).code(0);
    s.run(&["names", "has", "--live", "map", "pine"]).code(1);
    let reader = LiveReader::<QpStore<u64>>::open(s.path("map")).unwrap();
    let before = reader.view();
    server.answers("commit\n", &["committed\t2"]);
    s.run(&["names", "has", "--live", "map", "oak"]).code(1);
    s.run(&["names", "has", "--live", "map", "pine"]).code(0);
    assert_eq!((before.get("oak"), before.get("pine")), (Some(&1), None));
    assert_eq!(
        (reader.view().get("oak"), reader.view().get("pine")),
        (None, Some(&5))
    );
    server.answers(
        "begin\nadd fir 6\nrollback\n",
        &["begun\t0", "gathered\tfir", "rolled-back\t1"],
    );
    s.run(&["names", "has", "--live", "map", "fir"]).code(1);
    assert!(figure(&mut server, "commits_total") == 2);
}

#[test]
fn the_list_is_read_again() {
    let s = Scratch::new();
    s.file("list", TREES);
    let args = ["names", "serve", "list", "--live", "map", "--watch"];
    let mut server = Server::start(&s, &args);
    // Written in place.
    s.file("list", "oak\t1\nelm\t20\nfir\t4\n");
    server.complains("list: 1 added, 1 removed, 1 changed");
    s.run(&["names", "range", "--live", "map"])
        .out("elm\t20\nfir\t4\noak\t1\n");
    // Another file gets the name. Changes by commands that it does not have are gone.
    server.answers("add larch 7\n", &["added\tlarch"]);
    let new = s.file("new", "oak\t1\n");
    std::fs::rename(new, s.path("list")).unwrap();
    server.complains("list: 0 added, 3 removed, 0 changed");
    s.run(&["names", "range", "--live", "map"]).out("oak\t1\n");
    // A list that cannot be read changes nothing.
    std::fs::remove_file(s.path("list")).unwrap();
    server.answers("reload\n", &[]);
    server.complains("cannot read list: ");
    s.run(&["names", "range", "--live", "map"]).out("oak\t1\n");
    s.file("list", "ash\t3\noak\t1\n");
    server.complains("list: 1 added, 0 removed, 0 changed");
    assert_eq!(figure(&mut server, "reload_errors_total"), 1);
    server.answers("reload\n", &["reloaded\t0\t0\t0"]);
}

#[test]
fn signals() {
    let s = Scratch::new();
    s.file("list", TREES);
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = Server::start(&s, &["names", "serve", "list", "--live", "map"]);
        server.signal(signal);
        assert_eq!(server.ends(), Some(0));
        s.run(&["names", "get", "--live", "map", "oak"])
            .code(0)
            .out("1\n");
        s.run(&["live", "status", "map"])
            .code(1)
            .says("writer\tdead\n");
    }
    s.file("list", TREES);
    let mut server = Server::start(&s, &["names", "serve", "list", "--live", "map", "--remove"]);
    s.file("list", "oak\t4\n");
    server.signal(Signal::HUP);
    server.complains("list: 0 added, 2 removed, 1 changed");
    s.run(&["names", "get", "--live", "map", "oak"])
        .code(0)
        .out("4\n");
    // The end of stdin ends nothing.
    server.stdin = None;
    s.file("list", "oak\t5\n");
    std::thread::sleep(Duration::from_millis(300));
    server.signal(Signal::HUP);
    server.complains("list: 0 added, 0 removed, 1 changed");
    server.signal(Signal::TERM);
    assert_eq!(server.ends(), Some(0));
    assert_eq!(s.names(), ["list"]);
}

#[test]
fn a_killed_server_is_followed_by_another() {
    let s = Scratch::new();
    s.file("list", TREES);
    let mut server = Server::start(&s, &["names", "serve", "list", "--live", "map"]);
    server.answers("add larch 7\n", &["added\tlarch"]);
    let mut reader = LiveReader::<QpStore<u64>>::open(s.path("map")).unwrap();
    // A second server is refused while the first one lives.
    s.run(&["names", "serve", "list", "--live", "map"])
        .code(2)
        .complains("another process writes the live map in map");
    server.child.kill().unwrap();
    server.ends();
    assert_eq!(reader.view().get("larch"), Some(&7));
    s.run(&["live", "status", "map"])
        .code(1)
        .says("kind\tstore\nwriter\tdead\ngeneration\t0\n")
        .says(&format!("reader\t{}\t", std::process::id()));
    let mut heir = Server::start(&s, &["names", "serve", "list", "--live", "map"]);
    heir.complains("taken over from a process that has ended; 0 added, 1 removed, 0 changed");
    reader.quiescent().unwrap();
    assert_eq!((reader.generation(), reader.view().get("larch")), (1, None));
    assert_eq!(reader.view().get("ash"), Some(&3));
    assert_eq!(figure(&mut heir, "generation"), 1);
    s.run(&["live", "status", "map"])
        .code(0)
        .says("generation\t1\n");
}

#[test]
fn other_values_and_keys() {
    let s = Scratch::new();
    s.file("list", "www.example.org\tpoplar \t x\nexample.com\n");
    let args = [
        "names", "serve", "--dns", "--values", "text", "list", "--live", "map", "--json",
    ];
    let mut server = Server::start(&s, &args);
    s.run(&[
        "names",
        "longest",
        "--live",
        "--dns",
        "map",
        "a.WWW.example.org",
    ])
    .code(0)
    .out("www.example.org\tpoplar \t x\n");
    server.answers(
        "add example.net a text\nget Example.NET\nremove example.com\nget example.com\nreload\n",
        &[
            r#"{"done":"added","key":"example.net"}"#,
            r#"{"done":"found","key":"example.net","value":"a text"}"#,
            r#"{"done":"removed","key":"example.com"}"#,
            r#"{"done":"absent","key":"example.com"}"#,
            r#"{"added":1,"changed":0,"done":"reloaded","removed":1}"#,
        ],
    );
    server.answers(
        "begin\nadd a b\ncommit\n",
        &[
            r#"{"changes":0,"done":"begun"}"#,
            r#"{"done":"gathered","key":"a"}"#,
            r#"{"changes":1,"done":"committed"}"#,
        ],
    );
    server.answers("add a..b c\n", &[]);
    server.complains("\"a..b\" is not a domain name");
    server.answers("stats\n", &[]);
    let stats: Value = serde_json::from_str(&server.out.recv_timeout(LIMIT).unwrap()).unwrap();
    assert_eq!(
        (&stats["entries"], &stats["commits_total"]),
        (&json!(3), &json!(5))
    );
    drop(server);
    s.run(&["names", "serve", "list", "--live", "map"])
        .code(2)
        .complains("the live map in map has other values or another layout")
        .complains("remove the directory to begin with a new map");
}

#[test]
fn the_list_may_come_from_stdin() {
    let s = Scratch::new();
    let mut server = Server::spawn(&s, &["names", "serve", "-", "--live", "map", "--keys-only"]);
    server.answers("a b\nc\n", &[]);
    server.stdin = None;
    server.complains("map: 2 keys of 4 bytes, live");
    s.run(&["names", "range", "--live", "map"])
        .out("a b\t1\nc\t2\n");
    server.signal(Signal::HUP);
    server.complains("standard input cannot be read again");
    server.signal(Signal::TERM);
    assert_eq!(server.ends(), Some(0));
    s.run(&["names", "serve", "-", "--live", "other", "--watch"])
        .code(2)
        .complains("--watch needs a file");
    assert_eq!(s.names(), ["map"]);
}

#[test]
fn metrics_are_right() {
    let s = Scratch::new();
    s.file("list", TREES);
    let file = s.path("map.prom");
    let args = [
        "names",
        "serve",
        "list",
        "--live",
        "map",
        "--metrics",
        "map.prom",
    ];
    let mut server = Server::start(&s, &args);
    wait_for("the file", || metric(&file, "entries") == Some(3));
    let reader = LiveReader::<QpStore<u64>>::open(s.path("map")).unwrap();
    let reader = std::cell::RefCell::new(reader);
    for round in 0..100 {
        server.answers(&format!("add key{round} 1\nadd oak {round}\n"), &[]);
    }
    std::fs::remove_file(s.path("list")).unwrap();
    server.answers("reload\n", &[]);
    wait_for("commits", || metric(&file, "commits_total") == Some(201));
    wait_for("errors", || metric(&file, "reload_errors_total") == Some(1));
    for (name, value) in [
        ("entries", 103),
        ("readers", 1),
        ("readers_holding_back", 1),
        ("readers_evicted", 0),
        ("generation", 0),
        ("reloads_total", 2),
    ] {
        assert_eq!(metric(&file, name), Some(value), "{name}");
    }
    assert!(metric(&file, "garbage_bytes") > Some(1000));
    assert!(metric(&file, "bytes") > Some(4096));
    wait_for("garbage freed", || {
        reader.borrow_mut().quiescent().unwrap();
        metric(&file, "garbage_bytes") == Some(0)
    });
    wait_for("readers", || {
        metric(&file, "readers_holding_back") == Some(0)
    });
    drop(reader);
    server.answers("quit\n", &[]);
    assert_eq!(server.ends(), Some(0));
    assert_eq!(metric(&file, "readers"), Some(0));
    assert_eq!(s.names(), ["map", "map.prom"]);
    s.file("list", TREES);
    s.run(&[
        "names",
        "serve",
        "list",
        "--live",
        "new",
        "--metrics",
        "no/file",
    ])
    .code(2)
    .complains("cannot write no/file: ");
    assert_eq!(s.names(), ["list", "map", "map.prom"]);
}

#[test]
fn limits() {
    let s = Scratch::new();
    let many = |value: u64| -> String {
        (0..20_000)
            .map(|i| format!("key number {i:08}\t{value}\n"))
            .collect()
    };
    s.file("list", many(1));
    // What does not fit is refused, and no map stays.
    s.run(&["names", "serve", "list", "--live", "map", "--limit", "64K"])
        .code(2)
        .complains("cannot build the map: ");
    assert_eq!(s.names(), ["list"]);
    let args = [
        "names",
        "serve",
        "list",
        "--live",
        "map",
        "--garbage-limit",
        "64K",
    ];
    let mut server = Server::start(&s, &args);
    let reader = LiveReader::<QpStore<u64>>::open(s.path("map")).unwrap();
    // A reader that stands still holds old versions back, up to the limit.
    let mut failed = None;
    for round in 0..4000 {
        server.answers(&format!("add key number 00000001 {round}\n"), &[]);
        while server.out.try_recv().is_err() && failed.is_none() {
            failed = server.errors.try_recv().ok();
        }
        if failed.is_some() {
            break;
        }
    }
    let failed = failed.unwrap();
    assert!(failed.contains("garbage"), "{failed}");
    // A reload fails for the same reason, and is tried again until there is room.
    let list = many(1).replace("00000002\t1", "00000002\t2");
    s.file("list", list);
    server.signal(Signal::HUP);
    server.complains("; the map stays as it was");
    assert!(figure(&mut server, "garbage_bytes") <= 64 << 10);
    let reader = std::cell::RefCell::new(reader);
    wait_for("the reload", || {
        let mut reader = reader.borrow_mut();
        reader.quiescent().unwrap();
        reader.view().get("key number 00000002") == Some(&2)
    });
    server.complains("list: 0 added, 0 removed, 2 changed");
}

#[test]
fn checked_readers_that_stand_still_are_evicted() {
    let s = Scratch::new();
    s.file("list", TREES);
    let args = [
        "names",
        "serve",
        "list",
        "--live",
        "map",
        "--evict-after",
        "200",
    ];
    let mut server = Server::start(&s, &args);
    let trusting = LiveReader::<QpStore<u64>>::open(s.path("map")).unwrap();
    let mut checked = CheckedLiveReader::<QpStore<u64>>::open(s.path("map")).unwrap();
    server.answers("add oak 5\n", &["replaced\toak"]);
    wait_for("eviction", || {
        let asked = checked.view().and_then(|view| view.get("oak"));
        asked.is_err_and(|error| matches!(error, LiveError::Evicted { .. }))
    });
    wait_for("the status", || {
        let status = s
            .run(&["live", "status", "map", "--json"])
            .documents()
            .remove(0);
        status["evicted"] == 1 && status["holding_back"] == 1
    });
    assert_eq!(figure(&mut server, "readers_evicted"), 1);
    assert_eq!(trusting.view().get("oak"), Some(&5));
    checked.quiescent().unwrap();
    assert_eq!(checked.view().unwrap().get("oak").unwrap(), Some(5));
}

#[test]
fn damaged_folders_are_errors() {
    use std::os::unix::fs::PermissionsExt;
    let s = Scratch::new();
    s.file("list", TREES);
    let get = || s.run(&["names", "get", "--live", "map", "oak"]);
    let status = || s.run(&["live", "status", "map"]);
    get().code(2).complains("map has no live map yet");
    status().code(2).complains("map has no live map");
    std::fs::create_dir(s.path("map")).unwrap();
    get().code(2).complains("map has no live map");
    s.file("map/control", "short");
    get().code(2).complains("map");
    status().code(2).complains("map");
    s.file("map/control", [7; 4096]);
    get().code(2).complains("control is not that of a live map");
    s.run(&["names", "serve", "list", "--live", "map"])
        .code(2)
        .complains("control is not that of a live map; remove the directory");
    std::fs::remove_dir_all(s.path("map")).unwrap();

    let mut server = Server::start(&s, &["names", "serve", "list", "--live", "map"]);
    server.answers("quit\n", &[]);
    assert_eq!(server.ends(), Some(0));
    let mode = |mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(s.path("map/data-1-0"), mode).unwrap();
    };
    mode(0o666);
    get()
        .code(2)
        .complains("not to be trusted: ")
        .complains("other users can write it");
    mode(0o644);
    get().code(0);
    let sound = std::fs::read(s.path("map/data-1-0")).unwrap();
    let mut spoilt = sound.clone();
    spoilt[4096..].fill(0xff);
    s.file("map/data-1-0", &spoilt);
    s.run(&["names", "verify", "--live", "map"])
        .code(1)
        .says("map: not a sound map: ");
    s.run(&["names", "stats", "--live", "map"])
        .code(2)
        .complains("map: not a sound map: ");
    s.run(&["names", "serve", "list", "--live", "map"])
        .code(2)
        .complains("the live map in map is damaged: data-1-0: ")
        .complains("remove the directory");
    assert_eq!(std::fs::read(s.path("map/data-1-0")).unwrap(), spoilt);
    std::fs::remove_file(s.path("map/data-1-0")).unwrap();
    get().code(2).complains("data-1-0");
}
