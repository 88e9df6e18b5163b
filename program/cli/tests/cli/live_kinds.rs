//! Live tables of routes and live maps of ranges.

use rustix::process::Signal;
use sapwood::lpm::IpFib;
use sapwood_live::LiveReader;

use crate::common::Scratch;
use crate::server::{LIMIT, Server, figure, wait_for};

const ROUTES: &str = "10.0.0.0/8 192.0.2.1\n10.1.0.0/16 192.0.2.2\n2001:db8::/32 dev eth0\n";

#[test]
fn routes_are_read_while_they_change() {
    let s = Scratch::new();
    s.file("list", ROUTES);
    let mut server = Server::start(&s, &["routes", "serve", "list", "--live", "map"]);
    s.run(&["routes", "lookup", "--live", "map", "10.1.2.3"])
        .code(0)
        .out("10.1.0.0/16\t192.0.2.2\n")
        .quiet();
    server.answers(
        "add 10.1.2.0/24 a new one\nadd 10.1.0.0/16 192.0.2.3\nget 10.1.0.0/16\n",
        &[
            "added\t10.1.2.0/24",
            "replaced\t10.1.0.0/16",
            "found\t10.1.0.0/16\t192.0.2.3",
        ],
    );
    s.run(&["routes", "lookup", "--live", "map", "10.1.2.3", "--all"])
        .code(0)
        .out("10.0.0.0/8\t192.0.2.1\n10.1.0.0/16\t192.0.2.3\n10.1.2.0/24\ta new one\n");
    s.run(&["routes", "covering", "--live", "map", "10.1.2.0/23"])
        .code(0)
        .out("10.0.0.0/8\t192.0.2.1\n10.1.0.0/16\t192.0.2.3\n");
    s.run(&["routes", "covered", "--live", "map", "10.1.0.0/16"])
        .code(0)
        .out("10.1.0.0/16\t192.0.2.3\n10.1.2.0/24\ta new one\n");
    s.run(&["routes", "aggregate", "--live", "map", "-s"])
        .code(0)
        .out("4 routes, 4 when aggregated\n");
    server.answers(
        "remove 10.1.2.0/24\nremove 10.1.2.0/24\nget 10.1.2.0/24\n",
        &[
            "removed\t10.1.2.0/24",
            "absent\t10.1.2.0/24",
            "absent\t10.1.2.0/24",
        ],
    );
    for (command, why) in [
        (
            "add 10.0.0.1/8 x",
            "10.0.0.1/8 has bits set after its length",
        ),
        ("add nonsense", "nonsense"),
        ("add ", "the route is missing: add PREFIX NEXT-HOP"),
        ("remove 10.0.0.0/8 x", "\"x\" after the prefix"),
    ] {
        server.answers(&format!("{command}\n"), &[]);
        server.complains(why);
    }
    s.run(&[
        "routes",
        "lookup",
        "--live",
        "map",
        "192.0.2.1",
        "2001:db8::1",
        "--json",
    ])
    .code(1)
    .says("{\"found\":null,\"query\":\"192.0.2.1\"}")
    .says("\"next_hop\":\"dev eth0\"");
    s.run(&["routes", "lookup", "map", "10.1.2.3"])
        .code(2)
        .complains("map: it is a directory with a live map; --live reads it");
    // A reader that stays finds what is newest, and holds nothing back while it waits.
    let mut reader = Server::spawn(&s, &["routes", "lookup", "--live", "map", "-"]);
    reader.answers("10.1.2.3\n", &["10.1.2.3\t10.1.0.0/16\t192.0.2.3"]);
    server.answers("add 10.1.0.0/16 192.0.2.4\n", &["replaced\t10.1.0.0/16"]);
    reader.answers("10.1.2.3\n", &["10.1.2.3\t10.1.0.0/16\t192.0.2.4"]);
    assert_eq!(figure(&mut server, "readers"), 1);
    assert_eq!(figure(&mut server, "readers_holding_back"), 0);
}

#[test]
fn whole_live_tables_and_heirs() {
    let s = Scratch::new();
    s.file("list", ROUTES);
    s.run(&["routes", "build", "list", "-o", "file"]).code(0);
    // The list may be a table.
    let args = ["routes", "serve", "file", "--live", "map"];
    let mut server = Server::start(&s, &args);
    s.run(&["routes", "export", "--live", "map"])
        .code(0)
        .out(ROUTES);
    s.run(&["routes", "diff", "--live", "map", "file"])
        .code(0)
        .out("");
    server.answers("add 10.3.0.0/16 third\n", &["added\t10.3.0.0/16"]);
    s.run(&["routes", "diff", "--live", "file", "map"])
        .code(1)
        .out("+ 10.3.0.0/16\tthird\n");
    let stats = s.run(&["routes", "stats", "--live", "map", "--json"]);
    let stats = &stats.documents()[0];
    assert_eq!(
        (&stats["routes"], &stats["next_hops"]),
        (&4.into(), &4.into())
    );
    s.run(&["routes", "verify", "--live", "map"])
        .code(0)
        .says("map: ok: 4 routes")
        .says("checked structure, prefixes, next hops");
    server.child.kill().unwrap();
    server.ends();
    s.run(&["routes", "lookup", "--live", "map", "10.3.0.1"])
        .code(0)
        .out("10.3.0.0/16\tthird\n");
    let mut reader = LiveReader::<IpFib<u32>>::open(s.path("map")).unwrap();
    let first = *reader
        .view()
        .lookup_value("10.0.0.1".parse().unwrap())
        .unwrap();
    let mut heir = Server::start(&s, &["routes", "serve", "list", "--live", "map", "--watch"]);
    heir.complains("taken over from a process that has ended; 0 added, 1 removed, 0 changed");
    s.run(&["routes", "export", "--live", "map"])
        .code(0)
        .out(ROUTES);
    // The numbers of next hops stay.
    reader.quiescent().unwrap();
    assert_eq!(
        reader.view().lookup_value("10.0.0.1".parse().unwrap()),
        Some(&first)
    );
    assert_eq!(reader.generation(), 1);
    s.file("list", "10.0.0.0/8 192.0.2.9\n10.4.0.0/16 192.0.2.1\n");
    heir.complains("list: 1 added, 2 removed, 1 changed");
    s.run(&["routes", "export", "--live", "map"])
        .code(0)
        .out("10.0.0.0/8 192.0.2.9\n10.4.0.0/16 192.0.2.1\n");
    heir.answers(
        "begin\nremove 10.4.0.0/16\nadd ::/0 all\ncommit\n",
        &[
            "begun\t0",
            "gathered\t10.4.0.0/16",
            "gathered\t::/0",
            "committed\t2",
        ],
    );
    s.run(&["routes", "export", "--live", "map"])
        .code(0)
        .out("10.0.0.0/8 192.0.2.9\n::/0 all\n");
    s.run(&["names", "get", "--live", "map", "x"])
        .code(2)
        .complains("the live map in map is no store, but a table of routes");
    s.run(&["live", "status", "map"])
        .code(0)
        .says("kind\ttable of routes\n");
}

#[test]
fn next_hops_that_no_route_has_are_removed() {
    let s = Scratch::new();
    s.file("list", ROUTES);
    let args = ["routes", "serve", "list", "--live", "map", "--remove"];
    let mut server = Server::start(&s, &args);
    let texts = || {
        let ran = s.run(&["names", "count", "--live", "map/texts"]);
        ran.code(0);
        String::from_utf8(ran.0.stdout).unwrap()
    };
    server.answers("add 10.0.0.0/8 another\n", &["replaced\t10.0.0.0/8"]);
    assert_eq!(texts(), "4\n");
    wait_for("the text goes", || texts() == "3\n");
    server.answers("add 10.0.0.0/8 192.0.2.1\n", &["replaced\t10.0.0.0/8"]);
    s.run(&["routes", "lookup", "--live", "map", "10.0.0.1"])
        .code(0)
        .out("10.0.0.0/8\t192.0.2.1\n");
    server.signal(Signal::TERM);
    assert_eq!(server.ends(), Some(0));
    assert_eq!(s.names(), ["list"]);
}

const RANGES: &str = "0 9 first\n100 199 second\n300 300\n";

#[test]
fn ranges_are_read_while_they_change() {
    let s = Scratch::new();
    s.file("list", RANGES);
    let mut server = Server::start(&s, &["ranges", "serve", "list", "--live", "map"]);
    s.run(&["ranges", "get", "--live", "map", "5", "150", "300"])
        .code(0)
        .out("5\t0\t9\tfirst\n150\t100\t199\tsecond\n300\t300\t300\n");
    s.run(&["ranges", "get", "--live", "map", "50"])
        .code(1)
        .complains("no range has 50: it is in the gap 10..=99");
    server.answers(
        "add 20 29 third\nadd 20 29 3rd\nget 25\nget 30\nremove 25\nremove 25\n",
        &[
            "added\t20..=29",
            "replaced\t20..=29",
            "found\t25\t20\t29\t3rd",
            "absent\t30",
            "removed\t25",
            "absent\t25",
        ],
    );
    for (command, why) in [
        ("add 5 20 x", "5..=20 overlaps 0..=9; --overwrite allows it"),
        ("add 9 5 x", "the range ends at 5, before its start 9"),
        ("add ", "the range is missing: add START END VALUE"),
        ("get x", "\"x\" is not a number"),
    ] {
        server.answers(&format!("{command}\n"), &[]);
        server.complains(why);
    }
    s.run(&["ranges", "list", "--live", "map", "--from", "100"])
        .code(0)
        .out("100\t199\tsecond\n300\t300\n");
    s.run(&["ranges", "gaps", "--live", "map", "--to", "250"])
        .code(0)
        .out("10\t99\t90\n200\t250\t51\n");
    s.run(&["ranges", "export", "--live", "map"])
        .code(0)
        .out(RANGES);
    let stats = s.run(&["ranges", "stats", "--live", "map", "--json"]);
    assert_eq!(stats.documents()[0]["covered"], 111);
    s.run(&["ranges", "verify", "--live", "map"])
        .code(0)
        .says("map: ok: 3 ranges");
    let mut reader = Server::spawn(&s, &["ranges", "get", "--live", "map", "-", "--json"]);
    reader.answers(
        "5\n",
        &[r#"{"found":{"end":9,"start":0,"value":"first"},"gap":null,"query":5}"#],
    );
    server.answers("remove 0\n", &["removed\t0"]);
    reader.answers(
        "5\n",
        &[r#"{"found":null,"gap":{"end":99,"size":100,"start":0},"query":5}"#],
    );
}

#[test]
fn ranges_are_read_again_and_taken_over() {
    let s = Scratch::new();
    s.file("list", RANGES);
    let args = [
        "ranges",
        "serve",
        "list",
        "--live",
        "map",
        "--overwrite",
        "--watch",
        "--json",
    ];
    let mut server = Server::start(&s, &args);
    server.answers(
        "add 150 310 cut\nget 310\n",
        &[
            r#"{"done":"replaced","key":"150..=310"}"#,
            r#"{"done":"found","key":"310","value":{"end":310,"start":150,"value":"cut"}}"#,
        ],
    );
    s.run(&["ranges", "export", "--live", "map"])
        .code(0)
        .out("0 9 first\n100 149 second\n150 310 cut\n");
    server.child.kill().unwrap();
    server.ends();
    s.run(&["ranges", "get", "--live", "map", "310"])
        .code(0)
        .out("150\t310\tcut\n");
    let mut heir = Server::start(&s, &args);
    heir.complains("taken over from a process that has ended; 2 added, 2 removed, 0 changed");
    s.run(&["ranges", "export", "--live", "map"])
        .code(0)
        .out(RANGES);
    s.file("list", "0 9 1st\n100 199 second\n400 500 new\n");
    heir.complains("list: 1 added, 1 removed, 1 changed");
    s.run(&["ranges", "export", "--live", "map"])
        .code(0)
        .out("0 9 1st\n100 199 second\n400 500 new\n");
    heir.answers(
        "begin\nadd 5 8 mid\nremove 400\ncommit\nquit\n",
        &[
            r#"{"changes":0,"done":"begun"}"#,
            r#"{"done":"gathered","key":"5..=8"}"#,
            r#"{"done":"gathered","key":"400"}"#,
            r#"{"changes":2,"done":"committed"}"#,
        ],
    );
    assert_eq!(heir.ends(), Some(0));
    assert_eq!(
        heir.out.recv_timeout(LIMIT),
        Err(std::sync::mpsc::RecvTimeoutError::Disconnected)
    );
    s.run(&["ranges", "export", "--live", "map"])
        .code(0)
        .out("0 4 1st\n5 8 mid\n9 9 1st\n100 199 second\n");
    s.run(&["live", "status", "map"])
        .code(1)
        .says("kind\trange map\n");
}
