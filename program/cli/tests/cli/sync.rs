//! `sync`: publishers and followers over a log in a folder.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::common::Scratch;
use crate::server::{LIMIT, Server, wait_for};

/// A list of names with texts.
pub const LIST: &str = "ads.example\tblock\ngood.ads.example\tallow\nspam.example\tblock\n";

/// Starts a publisher of names, and waits until it leads.
#[track_caller]
pub fn publish(s: &Scratch, more: &[&str]) -> Server {
    let args = [
        "sync", "publish", "names", "list", "--values", "text", "--map", "blocked",
    ];
    let server = Server::spawn(s, &[&args, &["--folder", "log"][..], more].concat());
    server.complains(" in term ");
    server
}

/// Starts a follower into the live folder of its name.
pub fn follow(s: &Scratch, name: &str, more: &[&str]) -> Server {
    let args = [
        "sync", "follow", "--map", "blocked", "--folder", "log", "--live", name,
    ];
    Server::spawn(s, &[&args, &["--name", name][..], more].concat())
}

/// Waits for a line on stdout.
#[track_caller]
pub fn prints(server: &Server, text: &str) {
    loop {
        match server.out.recv_timeout(LIMIT) {
            Ok(line) if line.contains(text) => return,
            Ok(_) => {}
            Err(_) => panic!("no \"{text}\""),
        }
    }
}

/// What `sync status` says, and its exit code.
pub fn status(s: &Scratch) -> (Option<i32>, Value) {
    let ran = s.run(&[
        "sync", "status", "--map", "blocked", "--folder", "log", "--json",
    ]);
    (ran.0.status.code(), ran.documents().remove(0))
}

/// Waits until a live map has this value for a name.
#[track_caller]
pub fn has(s: &Scratch, live: &str, name: &str, value: &str) {
    wait_for(&format!("{name} is {value:?} in {live}"), || {
        let ran = s.run(&["names", "get", "--live", live, name]);
        String::from_utf8_lossy(&ran.0.stdout).trim_end() == value
    });
}

#[test]
fn followers_are_killed_and_come_back() {
    let s = Scratch::new();
    s.file("list", LIST);
    let mut leader = publish(&s, &["--name", "one"]);
    let mut first = follow(&s, "a", &[]);
    let second = follow(&s, "b", &["--json"]);
    prints(&first, "restored\t1\t3");
    prints(&second, "\"event\":\"restored\"");
    for live in ["a", "b"] {
        has(&s, live, "good.ads.example", "allow");
    }
    leader.answers("add new.example block\n", &["added\tnew.example"]);
    prints(&first, "commit\t2\t4");
    prints(&second, "\"commit\":2");

    first.child.kill().unwrap();
    first.child.wait().unwrap();
    // Readers go on with what the killed one had.
    has(&s, "a", "new.example", "block");
    leader.answers(
        "begin\nremove spam.example\nadd late.example allow\nadd ads.example allow\ncommit\n",
        &[
            "begun\t0",
            "gathered\tspam.example",
            "gathered\tlate.example",
            "gathered\tads.example",
            "committed\t3",
        ],
    );
    prints(&second, "\"commit\":3");
    has(&s, "a", "spam.example", "block");
    let back = follow(&s, "a", &[]);
    prints(&back, "restored\t3\t4");
    for live in ["a", "b"] {
        has(&s, live, "late.example", "allow");
        has(&s, live, "ads.example", "allow");
        has(&s, live, "spam.example", "");
        let verified = s.run(&["names", "verify", "--live", live]);
        verified.code(0).says("ok: 4 entries");
    }

    wait_for("both reports", || {
        let (code, status) = status(&s);
        let followers = status["followers"].as_array().unwrap();
        code == Some(0) && followers.iter().all(|f| f["commit"] == 3) && followers.len() == 2
    });
    let (_, status) = status(&s);
    assert_eq!(status["leader"], "one");
    assert_eq!(
        (&status["kind"], &status["commit"]),
        (&json!("names"), &json!(3))
    );
    assert_eq!(
        status["followers"][0],
        json!({"name": "a", "commit": 3, "lag": 0, "trouble": null})
    );
    assert_eq!(status["snapshot"], Value::Null);
    let ran = s.run(&["sync", "status", "--map", "blocked", "--folder", "log"]);
    ran.code(0)
        .says("leader\tone\n")
        .says("behind\t0\n")
        .says("follower\tb\t3\t0\t\n");

    for server in [&back, &second] {
        server.signal(Signal::TERM);
    }
    for mut server in [back, second] {
        assert_eq!(server.ends(), Some(0));
    }
    leader.answers(
        "get ads.example\nget none\nquit\n",
        &["found\tads.example\tallow", "absent\tnone"],
    );
    assert_eq!(leader.ends(), Some(0));
    let ran = s.run(&["sync", "status", "--map", "blocked", "--folder", "log"]);
    ran.code(1).says("leader\t-\n");
}

#[test]
fn a_standby_takes_over() {
    let s = Scratch::new();
    s.file("list", LIST);
    let mut first = publish(&s, &["--name", "first"]);
    let args = [
        "sync", "publish", "names", "list", "--values", "text", "--map", "blocked",
    ];
    s.run(&[&args, &["--folder", "log"][..]].concat())
        .code(2)
        .complains("blocked: first leads");
    let other = ["--folder", "log", "--wait", "--name", "second"];
    let mut second = Server::spawn(&s, &[&args, &other[..]].concat());
    second.complains("blocked: first leads; waiting");
    let follower = follow(&s, "live", &[]);
    prints(&follower, "restored\t1\t3");
    s.file("list", "other.example\tblock\n");
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    // It reads the list as it is now.
    let said = second.complains(" in term ");
    assert!(
        said.contains("1 names, commit 2 in term 2; 1 added, 3 removed"),
        "{said}"
    );
    prints(&follower, "commit\t2\t1");
    has(&s, "live", "other.example", "block");
    assert_eq!(status(&s).1["leader"], "second");
    second.signal(Signal::TERM);
    assert_eq!(second.ends(), Some(0));

    // One that waits ends by a signal.
    let _leader = publish(&s, &["--name", "third"]);
    let mut waits = Server::spawn(&s, &[&args, &other[..]].concat());
    waits.complains("third leads; waiting");
    waits.signal(Signal::INT);
    assert_eq!(waits.ends(), Some(0));
}

#[test]
fn a_list_is_read_again() {
    let s = Scratch::new();
    s.file("list", LIST);
    let leader = publish(&s, &["--watch", "--metrics", "leader.prom", "--strict"]);
    let mut follower = follow(&s, "live", &["--metrics", "follower.prom", "--remove"]);
    prints(&follower, "restored\t1\t3");
    s.file("list", "ads.example\tblock\nnew.example\tblock\n");
    leader.complains("list: 1 added, 2 removed, 0 changed");
    prints(&follower, "commit\t2\t2");
    let mut long = vec![b'x'; 70_000];
    long.extend_from_slice(b"\tblock\n");
    s.file("list", long);
    leader.complains("the map stays as it was");
    has(&s, "live", "new.example", "block");
    s.file("list", "ads.example\tallow\n");
    leader.signal(Signal::HUP);
    prints(&follower, "commit\t3\t1");
    let metric = |file: &str, name: &str| {
        let text = std::fs::read_to_string(s.path(file)).unwrap_or_default();
        let start = format!("sapwood_sync_{name}{{");
        let line = text.lines().find(|line| line.starts_with(&start))?;
        line.rsplit(' ').next()?.parse::<u64>().ok()
    };
    wait_for("figures", || {
        metric("leader.prom", "commit") == Some(3)
            && metric("leader.prom", "followers") == Some(1)
            && metric("leader.prom", "lag_commits") == Some(0)
            && metric("follower.prom", "commits_total") == Some(2)
            && metric("follower.prom", "restored_total") == Some(1)
            && metric("follower.prom", "trouble") == Some(0)
    });
    leader.signal(Signal::USR1);
    leader.complains("blocked: a snapshot of commit 3 is saved");
    follower.signal(Signal::TERM);
    assert_eq!(follower.ends(), Some(0));
    assert!(!s.path("live").exists());
}

#[test]
fn routes_and_ranges_and_numbers_follow() {
    let s = Scratch::new();
    s.file(
        "routes",
        "10.0.0.0/8 192.0.2.1\n10.1.0.0/16 192.0.2.2\n2001:db8::/32 fe80::1 dev eth0\n",
    );
    s.file("ports", "20 29 mail\n80 89 web\n");
    s.file("words", "oak\t7\nelm\t9\n");
    let start = |kind: &str, list: &str, more: &[&str]| {
        let args = [
            "sync", "publish", kind, list, "--map", list, "--folder", "log",
        ];
        let server = Server::spawn(&s, &[&args, more].concat());
        server.complains(" in term 1");
        server
    };
    let mut routes = start("routes", "routes", &[]);
    let mut ports = start("ranges", "ports", &["--overwrite"]);
    let mut words = start("names", "words", &[]);
    let follow = |map: &str, more: &[&str]| {
        let live = format!("live-{map}");
        let args = [
            "sync", "follow", "--map", map, "--folder", "log", "--live", &live,
        ];
        let server = Server::spawn(&s, &[&args, more].concat());
        prints(&server, "restored\t1");
        server
    };
    let route = follow("routes", &[]);
    let range = follow("ports", &[]);
    let word = follow("words", &["--values", "numbers"]);
    let lookup = |address: &str| s.run(&["routes", "lookup", "--live", "live-routes", address]);
    lookup("10.1.2.3").code(0).out("10.1.0.0/16\t192.0.2.2\n");
    lookup("2001:db8::1")
        .code(0)
        .out("2001:db8::/32\tfe80::1 dev eth0\n");
    routes.answers(
        "add 10.2.0.0/16 192.0.2.3\nremove 10.1.0.0/16\nget 10.2.0.0/16\nget 10.1.0.0/16\nadd 10.0.0.1/8 x\n",
        &[
            "added\t10.2.0.0/16",
            "removed\t10.1.0.0/16",
            "found\t10.2.0.0/16\t192.0.2.3",
            "absent\t10.1.0.0/16",
        ],
    );
    routes.complains("10.0.0.1/8");
    prints(&route, "commit\t3\t3");
    lookup("10.1.2.3").code(0).out("10.0.0.0/8\t192.0.2.1\n");
    lookup("10.2.2.3").code(0).out("10.2.0.0/16\t192.0.2.3\n");

    let get = |index: &str| s.run(&["ranges", "get", "--live", "live-ports", index]);
    get("25").code(0).says("mail");
    ports.answers(
        "add 25 84 both\nget 25\nget 20\nget 89\nremove 22\nget 22\n",
        &[
            "replaced\t25..=84",
            "found\t25\t25\t84\tboth",
            "found\t20\t20\t24\tmail",
            "found\t89\t85\t89\tweb",
            "removed\t22",
            "absent\t22",
        ],
    );
    prints(&range, "commit\t3\t2");
    get("25").code(0).says("both");
    get("85").code(0).says("web");
    get("20").code(1);

    let value = |document: &Value| document["value"].clone();
    let ran = s.run(&["names", "get", "--live", "live-words", "oak", "--json"]);
    assert_eq!(value(&ran.code(0).documents()[0]), json!(7));
    words.answers(
        "add ash 3\nget ash\nadd ash x\n",
        &["added\tash", "found\tash\t3"],
    );
    words.complains("is not a number");
    prints(&word, "commit\t2\t3");

    // What the live maps have is what a check of them says, and heirs of another kind are refused.
    s.run(&["routes", "verify", "--live", "live-routes"])
        .code(0);
    s.run(&["ranges", "verify", "--live", "live-ports"]).code(0);
    drop(route);
    s.run(&[
        "sync",
        "follow",
        "--map",
        "ports",
        "--folder",
        "log",
        "--live",
        "live-routes",
    ])
    .code(2)
    .complains("remove the directory");
    s.run(&[
        "sync", "publish", "names", "words", "--map", "ports", "--folder", "log",
    ])
    .code(2)
    .complains("ports: this is a map of ranges, not of names");
    s.file("bad", "10.0.0.0/8 a\nnonsense\n");
    s.run(&[
        "sync", "publish", "routes", "bad", "--map", "bad", "--folder", "log",
    ])
    .code(2)
    .complains("bad: line 2");
    assert!(!s.path("log/bad").exists());
}

#[test]
fn the_map_of_a_new_follower_is_there_whole() {
    let s = Scratch::new();
    s.file("list", LIST);
    // Nobody leads yet, so there is nothing to find.
    let follower = follow(&s, "live", &[]);
    let wait = ["--wait", "60", "spam.example"];
    let reader = Server::spawn(
        &s,
        &[&["names", "get", "--live", "live"], &wait[..]].concat(),
    );
    s.run(&["names", "get", "--live", "live", "--wait", "0.5", "x"])
        .code(2)
        .complains("live has no live map yet");
    let _leader = publish(&s, &[]);
    prints(&reader, "block");
    prints(&follower, "restored\t1\t3");
    s.run(&["names", "count", "--live", "live"])
        .code(0)
        .out("3\n");
}

#[test]
fn a_follower_catches_up_once() {
    let s = Scratch::new();
    s.file("list", LIST);
    let once = |map: &str, live: &str| {
        s.run(&[
            "sync", "follow", "--map", map, "--folder", "log", "--live", live, "--once",
        ])
    };
    once("blocked", "live")
        .code(2)
        .complains("log/blocked: there is no log of a map there");
    let mut leader = publish(&s, &[]);
    once("blocked", "live").code(0).out("restored\t1\t3\n");
    leader.answers("add x block\nquit\n", &["added\tx"]);
    assert_eq!(leader.ends(), Some(0));
    // The log is there without a leader.
    once("blocked", "live").code(0).out("restored\t2\t4\n");
    has(&s, "live", "x", "block");
}

#[test]
fn snapshots_are_saved_and_checked() {
    let s = Scratch::new();
    s.file("list", LIST);
    let place = ["--map", "blocked", "--folder", "log"];
    let snapshot = |more: &[&str]| s.run(&[&["sync", "snapshot"], &place[..], more].concat());
    snapshot(&[])
        .code(2)
        .complains("there is no log of a map there");
    let mut leader = publish(&s, &["--name", "one"]);
    snapshot(&["--verify"])
        .code(1)
        .complains("blocked: there is no snapshot");
    snapshot(&[])
        .code(2)
        .complains("blocked: one leads, and saves snapshots itself");
    leader.answers("quit\n", &[]);
    assert_eq!(leader.ends(), Some(0));
    snapshot(&[])
        .code(0)
        .says("done\tsaved\n")
        .says("commit\t1\n")
        .says("entries\t3\n");
    let checked = snapshot(&["--verify", "--json"])
        .code(0)
        .documents()
        .remove(0);
    assert_eq!(
        (&checked["done"], &checked["entries"]),
        (&json!("ok"), &json!(3))
    );
    let object = s
        .path("log/snapshots/blocked")
        .join(checked["object"].as_str().unwrap());
    let whole = std::fs::read(&object).unwrap();
    let mut bytes = whole.clone();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&object, bytes).unwrap();
    snapshot(&["--verify"])
        .code(1)
        .complains("its hash is not the manifest's");
    std::fs::remove_file(&object).unwrap();
    snapshot(&["--verify"]).code(1);
    std::fs::write(&object, whole).unwrap();
    snapshot(&["--verify"]).code(0);
    s.run(&["sync", "snapshot", "--map", "snapshots", "--folder", "log"])
        .code(2);
}

#[test]
fn a_follower_that_cannot_go_on_says_so_and_serves_the_old_map() {
    let s = Scratch::new();
    s.file("list", LIST);
    let mut leader = publish(&s, &[]);
    let mut follower = follow(&s, "live", &["--values", "numbers"]);
    prints(
        &follower,
        "trouble\t\"ads.example\": the value \"block\" is not a number",
    );
    wait_for("the report of the trouble", || {
        let (code, status) = status(&s);
        let followers = status["followers"].as_array().unwrap();
        code == Some(1) && status["behind"] == 1 && followers[0]["trouble"].is_string()
    });
    leader.answers(
        "begin\nadd ads.example 1\nadd spam.example 2\nremove good.ads.example\ncommit\n",
        &["begun\t0", "gathered\tads.example"],
    );
    prints(&follower, "restored\t2\t2");
    prints(&follower, "follows");
    follower.signal(Signal::INT);
    assert_eq!(follower.ends(), Some(0));
    std::thread::sleep(Duration::from_millis(10));
}

/// With what this machine has: etcd or a folder, filters in the kernel or live maps.
#[test]
fn the_example_shows_what_it_says() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/sync/run.sh");
    for args in [&["--folder", "--live"][..], &[]] {
        let mut command = std::process::Command::new(script);
        command.args(args).env("SAPWOOD", crate::common::PROGRAM);
        let ran = crate::common::Ran(command.output().unwrap());
        ran.code(0)
            .says("edge-1 is back")
            .says("done: all of it was checked");
    }
}

#[test]
fn arguments_that_do_not_fit() {
    let s = Scratch::new();
    s.file("list", LIST);
    let publish = ["sync", "publish", "names", "list", "--values", "text"];
    let run = |more: &[&str]| s.run(&[&publish, more].concat());
    run(&["--map", "m"]).code(2).complains("--folder");
    run(&["--folder", "log"]).code(2).complains("--map");
    run(&["--map", "a/b", "--folder", "log"])
        .code(2)
        .complains("cannot be a name");
    let etcd = ["--map", "m", "--etcd", "http://127.0.0.1:1"];
    run(&etcd).code(2).complains("--snapshots");
    run(&[&etcd, &["--snapshots", "s", "--folder", "log"][..]].concat()).code(2);
    run(&["--map", "m", "--folder", "log", "--user", "u"])
        .code(2)
        .complains("--etcd");
    if cfg!(not(feature = "etcd")) {
        run(&[&etcd, &["--snapshots", "s"][..]].concat())
            .code(2)
            .complains("--features etcd");
    }
    s.run(&[
        "sync", "publish", "names", "-", "--map", "m", "--folder", "log", "--watch",
    ])
    .code(2)
    .complains("--watch needs a file");
    s.run(&["man", "sync", "follow"])
        .code(0)
        .says("restored COMMIT ENTRIES");
}
