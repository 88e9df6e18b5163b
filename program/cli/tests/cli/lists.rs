//! Block lists and response policies: maps that are built, asked, compared and served.

use rustix::process::Signal;
use serde_json::json;

use crate::common::Scratch;
use crate::server::Server;
use crate::service::{start, value, wait_value};

const ADS: &str = "! Title: ads\n||ads.example^\n||track.ads.example^\n@@||good.ads.example^\n\
                   ||t.example^$dnstype=AAAA\n||pay.example^$dnsrewrite=192.0.2.9\nx.example##.ad\n";
const HOSTS: &str = "127.0.0.1 localhost\n0.0.0.0 a.example b.example\n192.0.2.7 c.example\n";
const ZONE: &str = "$TTL 60\n@ SOA ns. root. 1 2 3 4 5\n@ NS ns.\nads.example CNAME rpz-passthru.\n\
                    *.bad.example CNAME rpz-drop.\n1.rpz-ip CNAME .\n";

fn lists() -> Scratch {
    let s = Scratch::new();
    s.file("ads", ADS);
    s.file("hosts", HOSTS);
    s.file("zone", ZONE);
    s
}

#[test]
fn lists_of_all_kinds_become_one_map_that_says_why() {
    let s = lists();
    s.run(&["lists", "build", "ads", "hosts", "zone", "-o", "map"])
        .code(0)
        .complains(
            "ads: a list for AdGuard or another ad blocker, 5 rules in 7 lines, 4 kept; 1 about \
             addresses, pages or patterns",
        )
        .complains(
            "hosts: a hosts file, 3 rules in 3 lines, 3 kept; 1 about names of the machine itself",
        )
        .complains(
            "zone: a response policy zone, 2 rules in 6 lines, 1 kept; 1 with other triggers",
        )
        .complains("map: 8 names in a file of ");
    s.run(&[
        "lists",
        "ask",
        "map",
        "www.track.ads.example",
        "X.Good.ads.example.",
        "b.example",
    ])
    .code(0)
    .out(
        "www.track.ads.example\tnxdomain\tads.example\tads:2\tthe only rule\n\
             X.Good.ads.example.\tpass\tgood.ads.example\tads:4\tthe class comes first\n\
             b.example\tnxdomain\tb.example\thosts:2\tthe only rule\n",
    );
    s.run(&[
        "lists",
        "ask",
        "map",
        "t.example",
        "c.example",
        "x.y.bad.example",
    ])
    .code(1)
    .out(
        "t.example\tnone\nc.example\taddresses 192.0.2.7\tc.example\thosts:3\tthe only rule\n\
             x.y.bad.example\tdrop\t*.bad.example\tzone:5\tthe only rule\n",
    );
    let ran = s.run(&[
        "lists",
        "ask",
        "map",
        "--type",
        "aaaa",
        "t.example",
        "none.example",
        "--json",
    ]);
    let found = ran.code(1).documents();
    let t = json!({
        "name": "t.example", "action": "nxdomain", "answer": "nxdomain", "rule": "t.example",
        "class": "ordinary", "list": "ads", "line": 5, "why": "the only rule", "others": 0,
    });
    assert_eq!(
        found,
        [t, json!({ "name": "none.example", "action": "none" })]
    );
    // Names on stdin get no line.
    s.run_with(
        &["lists", "ask", "map", "-"],
        b"pay.example # why\n\na..b\n",
    )
    .code(2)
    .out("pay.example\taddresses 192.0.2.9\tpay.example\tads\tthe only rule\n")
    .complains("line 3: \"a..b\" is not a domain name");
    s.run(&["lists", "ask", "map", "--type", "no", "a"])
        .code(2)
        .complains("\"no\" is no type of records");
    // The first list comes first, so an exception of a zone has its turn.
    s.run(&["lists", "build", "-q", "zone", "ads", "-o", "map"])
        .code(0)
        .says("");
    s.run(&["lists", "ask", "map", "ads.example"])
        .code(0)
        .out("ads.example\tpass\tads.example\tzone:4\tthe earlier zone\n");
    s.run(&[
        "lists",
        "build",
        "-q",
        "ads",
        "--exceptions",
        "hosts",
        "-o",
        "map",
    ])
    .code(0);
    s.run(&["lists", "ask", "map", "a.example"])
        .code(0)
        .out("a.example\tpass\ta.example\thosts:2\tthe only rule\n");
}

#[test]
fn a_list_is_read_once_for_the_lines_of_all_arguments() {
    let s = lists();
    s.run(&["lists", "build", "-q", "ads", "hosts", "-o", "map"])
        .code(0);
    // Whoever opens the list from now on is counted, and gets its text.
    let path = s.path("hosts");
    std::fs::remove_file(&path).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let readings = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&readings);
    std::thread::spawn(move || {
        while let Ok(mut list) = std::fs::File::options().write(true).open(&path) {
            count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let _ = std::io::Write::write_all(&mut list, HOSTS.as_bytes());
            drop(list);
            // Until the reader has seen the end.
            std::thread::sleep(std::time::Duration::from_millis(300));
        }
    });
    let names = [
        "c.example",
        "a.example",
        "x.ads.example",
        "b.example",
        "a.example",
    ];
    let mut args = vec!["lists", "ask", "map", "none.example", "a..b"];
    args.extend(names);
    s.run(&args).code(2).complains("empty label").out(
        "none.example\tnone\n\
         c.example\taddresses 192.0.2.7\tc.example\thosts:3\tthe only rule\n\
         a.example\tnxdomain\ta.example\thosts:2\tthe only rule\n\
         x.ads.example\tnxdomain\tads.example\tads:2\tthe only rule\n\
         b.example\tnxdomain\tb.example\thosts:2\tthe only rule\n\
         a.example\tnxdomain\ta.example\thosts:2\tthe only rule\n",
    );
    assert_eq!(readings.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[test]
fn fingerprints_answer_as_the_map_does() {
    let s = lists();
    s.run(&["lists", "build", "-q", "ads", "hosts", "zone", "-o", "map"])
        .code(0);
    s.run(&[
        "lists",
        "build",
        "--fingerprints",
        "ads",
        "hosts",
        "zone",
        "-o",
        "small",
    ])
    .code(0)
    .complains("small: 8 names in a file of ");
    let names = [
        "www.ads.example",
        "good.ads.example",
        "x.bad.example",
        "c.example",
        "pay.example",
    ];
    let ask = |map: &str| {
        let ran = s.run(&[&["lists", "ask", map][..], &names].concat());
        ran.code(0).0.stdout.clone()
    };
    assert_eq!(ask("map"), ask("small"));
    let ran = s.run(&["lists", "stats", "small", "--json"]);
    let document = &ran.code(0).documents()[0];
    assert_eq!(
        (&document["kind"], &document["names"]),
        (&json!("fingerprints"), &json!(8))
    );
    s.run(&["lists", "diff", "map", "small"])
        .code(2)
        .complains("small has fingerprints, and no names to compare");
    let mut bytes = std::fs::read(s.path("small")).unwrap();
    bytes[40] ^= 1;
    s.file("small", bytes);
    s.run(&["lists", "ask", "small", "x"])
        .code(2)
        .complains("small: this is no table of fingerprints: its checksum is another one");
}

#[test]
fn numbers_and_differences_are_shown() {
    let s = lists();
    s.run(&["lists", "build", "-q", "ads", "hosts", "-o", "old"])
        .code(0);
    let ran = s.run(&["lists", "stats", "old"]);
    let out = String::from_utf8(ran.code(0).0.stdout.clone()).unwrap();
    for line in [
        "kind\tmap\n",
        "names\t7\n",
        "addresses\t2\n",
        "pass\t1\n",
        "nxdomain\t4\n",
        "list\tads\tadblock, 7 lines, 5 rules, 4 kept, 1 left out, 0 bad\n",
    ] {
        assert!(out.contains(line), "{line}: {out}");
    }
    s.file(
        "hosts",
        "0.0.0.0 a.example d.example\n192.0.2.8 c.example\n",
    );
    s.run(&["lists", "build", "-q", "ads", "hosts", "-o", "new"])
        .code(0);
    s.run(&["lists", "diff", "old", "new"]).code(1).out(
        "- b.example\tnxdomain, exact, list 1\n\
         ~ c.example\taddresses 192.0.2.7, exact, list 1\taddresses 192.0.2.8, exact, list 1\n\
         + d.example\tnxdomain, exact, list 1\n",
    );
    s.run(&["lists", "diff", "--summary", "old", "new"])
        .code(1)
        .out("1 added, 1 removed, 1 changed\n");
    s.run(&["lists", "diff", "new", "new"]).code(0).out("");
    // The root is a name as others.
    s.file("all", ".\n");
    s.run(&["lists", "build", "-q", "all", "-o", "root"])
        .code(0);
    s.run(&["lists", "stats", "root"])
        .code(0)
        .says("names\t1\n")
        .says("nxdomain\t1\n");
    s.run(&["lists", "diff", "root", "root"]).code(0);
    s.run(&["lists", "diff", "new", "root"])
        .code(1)
        .says("+ .\tnxdomain, exact, list 0\n");
    s.file("words", "oak\n");
    s.run(&["names", "build", "-q", "words", "-o", "words.qp"])
        .code(0);
    s.run(&["lists", "stats", "words.qp"])
        .code(2)
        .complains("words.qp: not a sound map of rules");
    s.run(&[
        "names", "build", "-q", "--values", "text", "words", "-o", "words.qp",
    ])
    .code(0);
    s.run(&["lists", "ask", "words.qp", "oak"])
        .code(2)
        .complains("words.qp: not a map of \"lists build\": a value is not that of a list's rules");
}

#[test]
fn lists_are_checked_and_what_is_no_list_is_refused() {
    let s = lists();
    s.run(&["lists", "check", "ads", "hosts", "zone"])
        .code(0)
        .out("ads\tadblock\t7\t5\t1\t0\nhosts\thosts\t3\t3\t1\t0\nzone\trpz\t6\t2\t4\t0\n");
    s.file("bad", "a.example\nb|c\nd.example\n");
    s.run(&["lists", "check", "bad"])
        .code(1)
        .out("bad\tplain\t3\t2\t0\t1\n")
        .complains("bad: line 2: \"b|c\" is not a domain name: no host name has the | at byte 1");
    let ran = s.run(&["lists", "check", "bad", "--json"]);
    assert_eq!(ran.code(1).documents()[0]["lists"][0]["refused"], json!(1));
    s.run(&["lists", "check", "--strict", "bad"])
        .code(2)
        .complains("bad: line 2: ");
    s.file("page", "<!DOCTYPE html>\n<html>\n<p>404\n");
    s.file("packed", b"\xfd7zXZ\0\0\0");
    s.file("cut", b"\x1f\x8b\x08\0\0\0\0\0");
    s.file("empty", "# nothing\n");
    for (list, why) in [
        (
            "page",
            "page: this is no list: it looks like a page of the web (HTML)",
        ),
        (
            "packed",
            "packed: this is no list: it looks like a binary or compressed file",
        ),
        ("cut", "cannot read cut: "),
        (
            "empty",
            "empty: it has no rule; an empty list has to be allowed",
        ),
        ("missing", "cannot read missing: No such file"),
    ] {
        s.run(&["lists", "build", list, "-o", "map"])
            .code(2)
            .complains(why);
        assert!(!s.path("map").exists());
    }
    s.run(&["lists", "build", "--allow-empty", "empty", "-o", "map"])
        .code(0)
        .complains("map: 0 names in a file of ");
    s.run(&["lists", "build", "ads", "-o", "ads"])
        .code(2)
        .complains("it is the input");
    s.run(&["lists", "build", "map", "-o", "map2"])
        .code(2)
        .complains("map is a map of names, not a text");
    s.run(&["lists", "build", "--format", "hosts", "ads", "-o", "map"])
        .code(2)
        .complains("ads: 6 of 7 lines are not those of a hosts file");
    s.run(&["lists", "build", "--format", "no", "ads", "-o", "map"])
        .code(2)
        .complains("\"no\" is no format; the formats are plain, hosts");
    s.run(&["lists", "build", "--block", "no", "ads", "-o", "map"])
        .code(2)
        .complains("the actions are nxdomain, nodata, refused, drop, truncate, null");
    s.run_with(
        &[
            "lists", "build", "--block", "null", "--below", "-", "-o", "map",
        ],
        b"x.example\n",
    )
    .code(0)
    .complains("standard input: a plain list of names, 1 rules in 1 lines, 1 kept");
    s.run(&["lists", "ask", "map", "a.x.example"])
        .code(0)
        .out("a.x.example\tnull\tx.example\tstandard input\tthe only rule\n");
}

#[test]
fn live_maps_follow_their_lists_and_keep_the_old_rules_in_trouble() {
    let s = lists();
    let mut server = Server::start(
        &s,
        &[
            "lists", "serve", "ads", "hosts", "--live", "live", "--watch",
        ],
    );
    let ask = |name: &str| s.run(&["lists", "ask", "--live", "live", name]);
    ask("b.example")
        .code(0)
        .out("b.example\tnxdomain\tb.example\thosts:2\tthe only rule\n");
    server.answers(
        "get www.ads.example\nget none.example\nadd x 1\nstats\n",
        &[
            "found\twww.ads.example\tnxdomain",
            "absent\tnone.example",
            "entries\t7",
        ],
    );
    server.complains("rules come from lists: change a list, and reload");
    s.file("hosts", "0.0.0.0 a.example d.example\n0.0.0.0 e.example\n");
    server.complains("ads, hosts: 2 added, 2 removed, 0 changed");
    ask("d.example").code(0);
    ask("b.example").code(1);
    // A list that is cut, is a page, or shrinks to nothing: the old rules stay.
    for (text, why) in [
        (
            "0.0.0.0 a.example\n",
            "hosts: it has 1 rules, and had 3; that it shrinks so",
        ),
        (
            "<html>\n<p>\n",
            "hosts: this is no list: it looks like a page of the web (HTML)",
        ),
        ("", "hosts: it has no rule; an empty list has to be allowed"),
    ] {
        s.file("hosts", text);
        server.complains(why);
        ask("e.example")
            .code(0)
            .out("e.example\tnxdomain\te.example\thosts\tthe only rule\n");
    }
    s.run(&["lists", "stats", "--live", "live"]).code(0);
    s.run(&["lists", "serve", "-", "--live", "other"])
        .code(2)
        .complains("\"lists serve\" needs files");
}

#[test]
fn metrics_of_lists_are_served() {
    let s = lists();
    s.file("bad", "a.example\nb|c\n");
    let (mut server, address) = start(&s, &["lists", "serve", "ads", "bad", "--live", "live"]);
    let text = wait_value(address, "sapwood_live_entries", &[], 5.0);
    for (name, list, expected) in [
        ("sapwood_lists_rules", "ads", 5.0),
        ("sapwood_lists_kept_rules", "ads", 4.0),
        ("sapwood_lists_refused_lines", "bad", 1.0),
    ] {
        assert_eq!(
            value(&text, name, &[("list", list)]),
            Some(expected),
            "{name}"
        );
    }
    s.file("bad", "");
    server.answers("reload\n", &[]);
    wait_value(address, "sapwood_live_reload_errors_total", &[], 1.0);
}

#[test]
fn a_killed_server_is_followed_by_another_and_its_rules_stay_meanwhile() {
    let s = lists();
    let args = ["lists", "serve", "ads", "hosts", "--live", "live"];
    let mut server = Server::start(&s, &args);
    server.signal(Signal::KILL);
    assert_eq!(server.ends(), None);
    let ask = |name: &str| s.run(&["lists", "ask", "--live", "live", name]);
    ask("b.example").code(0);
    // A list that is no list any more does not end the old rules.
    s.file("hosts", "<html>\n");
    s.run(&args).code(2).complains("hosts: this is no list");
    ask("b.example").code(0);
    s.file("hosts", "0.0.0.0 a.example b.example\n0.0.0.0 c.example\n");
    let server = Server::spawn(&s, &args);
    server
        .complains("live: taken over from a process that has ended; 0 added, 0 removed, 1 changed");
    ask("c.example")
        .code(0)
        .out("c.example\tnxdomain\tc.example\thosts:2\tthe only rule\n");
    // A map of other values is not taken over.
    s.file("words", "oak\n");
    let args = [
        "names", "serve", "words", "--values", "text", "--live", "other",
    ];
    Server::start(&s, &args).signal(Signal::TERM);
    let ran = s.run(&["lists", "ask", "--live", "other", "oak"]);
    ran.code(2).complains("other: not a map of \"lists build\"");
}

/// NSD as the primary of a zone; killed at the end of a test.
struct Nsd(std::process::Child);

impl Drop for Nsd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Nsd {
    fn start(s: &Scratch, port: u16, notify: u16) -> Option<Self> {
        let program = "/usr/sbin/nsd";
        if !std::path::Path::new(program).exists() {
            println!("skipped: zones of nsd; it is not installed (ci/packages.sh says how)");
            return None;
        }
        let at = s.path(".").display().to_string();
        let config = format!(
            "server:\n  ip-address: 127.0.0.1\n  port: {port}\n  username: \"\"\n  \
             chroot: \"\"\n  zonesdir: \"{at}\"\n  pidfile: \"{at}/pid\"\n  database: \"\"\n  \
             xfrdfile: \"{at}/xfrd\"\n  xfrdir: \"{at}\"\n  zonelistfile: \"{at}/list\"\n\
             remote-control:\n  control-enable: no\n\
             key:\n  name: k\n  algorithm: hmac-sha512\n  secret: \"c2VjcmV0\"\n\
             zone:\n  name: rpz.test\n  zonefile: rpz\n  provide-xfr: 127.0.0.1 k\n  \
             notify: 127.0.0.1@{notify} k\n"
        );
        let config = s.file("nsd.conf", config);
        let child = std::process::Command::new(program)
            .args(["-d", "-c"])
            .arg(config)
            .stderr(std::process::Stdio::null())
            .spawn();
        Some(Nsd(child.unwrap()))
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn rpz(serial: u32, names: &[&str]) -> String {
    let soa = format!("$TTL 60\n@ SOA ns mail {serial} 3600 600 86400 60\n@ NS ns\n");
    let rules = names.iter().map(|name| format!("{name} CNAME .\n"));
    soa + &rules.collect::<String>()
}

#[test]
fn zones_come_from_nsd_and_its_notify_wakes_them() {
    let s = lists();
    let (port, notify) = (free_port(), free_port());
    s.file("rpz", rpz(7, &["one.test", "two.test"]));
    s.file(
        "key",
        "key \"k\" { algorithm hmac-sha512; secret \"c2VjcmV0\"; };\n",
    );
    let Some(nsd) = Nsd::start(&s, port, notify) else {
        return;
    };
    let zone = format!("rpz.test@127.0.0.1:{port}");
    let with_key = format!("{zone},key=key");
    crate::server::wait_for("NSD", || {
        let build = [
            "lists", "build", "-q", "hosts", "--zone", &with_key, "-o", "map",
        ];
        s.run(&build).0.status.success()
    });
    s.run(&["lists", "ask", "map", "one.test", "b.example"])
        .code(0)
        .out(format!(
            "one.test\tnxdomain\tone.test\t{zone}\tthe only rule\n\
         b.example\tnxdomain\tb.example\thosts:2\tthe only rule\n"
        ));
    // Without the key, and from nowhere.
    s.run(&["lists", "build", "--zone", &zone, "-o", "other"])
        .code(2)
        .complains(&format!("{zone}: the primary answers "));
    s.run(&["lists", "check", "--zone", "rpz.test@127.0.0.1:1"])
        .code(2)
        .complains("rpz.test@127.0.0.1:1: the primary does not answer");
    s.run(&[
        "lists", "build", "--zone", &with_key, "--zone", &zone, "-o", "other",
    ])
    .code(2)
    .complains("this zone is given twice");

    let listen = format!("127.0.0.1:{notify}");
    let args = [
        "lists",
        "serve",
        "hosts",
        "--zone",
        &with_key,
        "--zone-dir",
        "copies",
        "--live",
        "live",
        "--notify",
        &listen,
    ];
    let (mut server, address) = start(&s, &args);
    let of_zone = [("list", &*zone)];
    wait_value(address, "sapwood_lists_zone_serial", &of_zone, 7.0);
    s.file("rpz", rpz(8, &["one.test", "three.test"]));
    let pid = rustix::process::Pid::from_child(&nsd.0);
    rustix::process::kill_process(pid, Signal::HUP).unwrap();
    server.complains(&format!("{zone}: the serial 8 has come"));
    server.complains("1 added, 1 removed, 0 changed");
    wait_value(address, "sapwood_lists_zone_serial", &of_zone, 8.0);
    let ask = |name: &str| s.run(&["lists", "ask", "--live", "live", name]);
    ask("three.test").code(0);
    ask("two.test").code(1);

    // The primary goes away: its rules stay, here and for the next server.
    drop(nsd);
    server.answers("reload\n", &["reloaded\t0\t0\t0"]);
    server.complains(&format!("{zone}: the primary does not answer"));
    let text = wait_value(address, "sapwood_lists_zone_trouble", &of_zone, 1.0);
    assert_eq!(
        value(&text, "sapwood_lists_zone_expired", &of_zone),
        Some(0.0)
    );
    ask("three.test").code(0);
    server.signal(Signal::KILL);
    server.ends();
    // A primary that takes connections and says nothing has ten seconds. Nobody waits for it.
    let _silent = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let begun = std::time::Instant::now();
    let server = Server::spawn(&s, &args);
    server.complains(&format!("{zone}: the copy has the serial 8"));
    server.complains("taken over from a process that has ended; 0 added, 0 removed, 0 changed");
    assert!(begun.elapsed().as_secs() < 9, "{:?}", begun.elapsed());
    ask("three.test").code(0);
    server.complains(&format!("{zone}: the primary does not answer"));
}
