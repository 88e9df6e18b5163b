//! Figures of the commands that run until a signal: served by HTTP, checked by `promtool`, and
//! equal to what was done.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sapwood::qp::QpStore;
use sapwood_cli::service::catalogue::{COMMON, LIVE, Metric};
use sapwood_live::LiveReader;

use crate::common::{Ran, Scratch};
use crate::server::{LIMIT, Server, wait_for};

/// Sends bytes to an address, and returns all that comes back.
fn exchange(address: SocketAddr, request: &str) -> String {
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(LIMIT)).unwrap();
    client.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer
}

/// The figures that an address serves. A command that has begun to listen may not have any yet.
#[track_caller]
pub fn scrape(address: SocketAddr) -> String {
    let until = Instant::now() + LIMIT;
    let answer = loop {
        let answer = exchange(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        if !answer.starts_with("HTTP/1.1 503 ") || Instant::now() > until {
            break answer;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let (head, text) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    let kind = "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n";
    assert!(head.contains(kind), "{head}");
    text.to_owned()
}

/// The address in the line that says where figures are served.
#[track_caller]
pub fn address_in(line: &str) -> SocketAddr {
    let (_, address) = line.split_once("metrics at http://").unwrap();
    address.strip_suffix("/metrics").unwrap().parse().unwrap()
}

/// The value of a series: its name, and labels that it has.
pub fn value(text: &str, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let line = text.lines().find(|line| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with([' ', '{']))
            && labels
                .iter()
                .all(|(label, value)| line.contains(&format!("{label}=\"{value}\"")))
    })?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Expects exactly these metrics, with their kinds, and no complaint of `promtool`.
#[track_caller]
pub fn check(text: &str, metrics: &[&[Metric]], absent: &[&str]) {
    let found: Vec<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .map(str::to_owned)
        .collect();
    let mut wanted: Vec<String> = metrics
        .iter()
        .flat_map(|list| list.iter())
        .filter(|metric| !absent.contains(&metric.name))
        .map(|metric| format!("{} {}", metric.name, metric.kind.name()))
        .collect();
    wanted.sort();
    assert_eq!(found, wanted, "{text}");
    for metric in metrics.iter().flat_map(|list| list.iter()) {
        for line in text.lines().filter(|line| {
            let rest = line.strip_prefix(metric.name);
            rest.is_some_and(|rest| rest.starts_with('{'))
        }) {
            for label in metric.labels {
                assert!(
                    line.contains(&format!("{label}=\"")),
                    "no {label} in {line}"
                );
            }
        }
    }
    promtool(text);
}

/// Expects that `promtool check metrics` accepts a text without a word; prints a message where the
/// program is missing.
#[track_caller]
fn promtool(text: &str) {
    let started = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: promtool is not installed (ci/packages.sh says how)");
            return;
        }
        Err(error) => panic!("promtool: {error}"),
    };
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(text.as_bytes()).unwrap();
    drop(pipe);
    let ran = Ran(child.wait_with_output().unwrap());
    ran.code(0).out("").quiet();
}

/// Starts a server of a live map with its figures at an address, which it returns, too.
pub fn start(s: &Scratch, args: &[&str]) -> (Server, SocketAddr) {
    let args = [args, &["--metrics", "127.0.0.1:0"]].concat();
    let server = Server::spawn(s, &args);
    let address = address_in(&server.complains("metrics at "));
    server.complains(", live");
    (server, address)
}

/// Waits until a figure has a value; returns all of them.
#[track_caller]
pub fn wait_value(address: SocketAddr, name: &str, labels: &[(&str, &str)], wanted: f64) -> String {
    let mut text = String::new();
    let until = Instant::now() + LIMIT;
    while value(&text, name, labels) != Some(wanted) {
        assert!(Instant::now() < until, "{name} is not {wanted} in:\n{text}");
        std::thread::sleep(Duration::from_millis(20));
        text = scrape(address);
    }
    text
}

#[test]
fn metrics_of_names_are_served_and_right() {
    let s = Scratch::new();
    s.file("list", "oak\t1\nelm\t2\nash\t3\n");
    let args = [
        "names",
        "serve",
        "list",
        "--live",
        "map",
        "--garbage-limit",
        "1M",
    ];
    let (mut server, address) = start(&s, &args);
    let text = wait_value(address, "sapwood_live_entries", &[("map", "map")], 3.0);
    check(
        &text,
        &[COMMON, LIVE],
        &["sapwood_live_reader_stall_seconds"],
    );
    let reader = LiveReader::<QpStore<u64>>::open(s.path("map")).unwrap();
    server.answers(
        "add larch 7\nadd oak 9\nremove elm\nremove fir\n",
        &[
            "added\tlarch",
            "replaced\toak",
            "removed\telm",
            "absent\tfir",
        ],
    );
    s.file("list", "oak\t1\n");
    server.answers("reload\n", &["reloaded\t0\t2\t1"]);
    std::fs::remove_file(s.path("list")).unwrap();
    server.answers("reload\n", &[]);
    server.complains("cannot read list");
    let text = wait_value(address, "sapwood_live_reload_errors_total", &[], 1.0);
    check(&text, &[COMMON, LIVE], &[]);
    let get = |name: &str, labels: &[(&str, &str)]| value(&text, name, labels).unwrap();
    for (name, wanted) in [
        ("sapwood_live_entries", 1.0),
        ("sapwood_live_commits_total", 5.0),
        ("sapwood_live_reloads_total", 3.0),
        ("sapwood_live_refused_total", 0.0),
        ("sapwood_live_commit_seconds_count", 4.0),
        ("sapwood_live_reload_seconds_count", 2.0),
        ("sapwood_live_readers", 1.0),
        ("sapwood_live_readers_holding_back", 1.0),
        ("sapwood_live_readers_evicted", 0.0),
        ("sapwood_live_generation", 0.0),
        ("sapwood_live_garbage_limit_bytes", 1048576.0),
        ("sapwood_live_limit_bytes", 8.0 * (1u64 << 30) as f64),
    ] {
        assert_eq!(get(name, &[]), wanted, "{name}");
    }
    for (change, wanted) in [("added", 4.0), ("changed", 2.0), ("removed", 3.0)] {
        let labels = [("change", change)];
        assert_eq!(
            get("sapwood_live_changes_total", &labels),
            wanted,
            "{change}"
        );
    }
    let kinds = ["branches", "clusters", "leaves", "free"];
    let kinds = kinds.map(|kind| get("sapwood_live_memory_bytes", &[("kind", kind)]));
    assert!(
        kinds.iter().sum::<f64>() <= get("sapwood_live_bytes", &[]),
        "{text}"
    );
    assert!(kinds[2] > 0.0 && get("sapwood_live_garbage_bytes", &[]) > 0.0);
    assert!(get("sapwood_live_grace_periods_total", &[]) >= 5.0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.unwrap().as_secs_f64();
    for name in ["updated", "live_reloaded"] {
        let age = now - get(&format!("sapwood_{name}_timestamp_seconds"), &[]);
        assert!((0.0..LIMIT.as_secs_f64()).contains(&age), "{name}: {age}");
    }
    // A reader that stands still is named, and its time grows.
    let process = std::process::id().to_string();
    let labels = [("process", &*process), ("reader", "r-")];
    let stall = |text: &str| {
        text.lines()
            .find(|line| line.starts_with("sapwood_live_reader_stall_seconds{"))
            .filter(|line| line.contains(&format!("process=\"{}\"", labels[0].1)))
            .and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
    };
    wait_for("a stall", || stall(&scrape(address)) > Some(0.9));
    let text = wait_value(address, "sapwood_live_stalls", &[("kind", "source")], 1.0);
    check(&text, &[COMMON, LIVE], &[]);
    drop(reader);
    let text = wait_value(address, "sapwood_live_garbage_bytes", &[], 0.0);
    assert_eq!(stall(&text), None);
    assert_eq!(
        value(&text, "sapwood_live_stalls", &[("kind", "source")]),
        Some(0.0)
    );
    server.answers("quit\n", &[]);
    assert_eq!(server.ends(), Some(0));
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn metrics_of_routes_and_ranges_are_served() {
    let absent = [
        "sapwood_live_reader_stall_seconds",
        "sapwood_live_garbage_limit_bytes",
    ];
    let s = Scratch::new();
    s.file("routes", "10.0.0.0/8 a\n10.1.0.0/16 b\n2001:db8::/32 a\n");
    s.file("ranges", "1 5 one\n10 20 two\n");
    for (what, entries, add, kind) in [
        ("routes", 3.0, "add 10.2.0.0/16 c\n", "nodes"),
        ("ranges", 2.0, "add 30 40 three\n", "leaves"),
    ] {
        let folder = format!("{what}-map");
        let (mut server, address) = start(&s, &[what, "serve", what, "--live", &folder]);
        let text = wait_value(address, "sapwood_live_entries", &[], entries);
        check(&text, &[COMMON, LIVE], &absent);
        server.answers(add, &[]);
        let text = wait_value(address, "sapwood_live_entries", &[], entries + 1.0);
        check(&text, &[COMMON, LIVE], &absent);
        assert_eq!(
            value(&text, "sapwood_live_changes_total", &[("change", "added")]),
            Some(entries + 1.0)
        );
        for kind in [kind, "texts"] {
            let bytes = value(&text, "sapwood_live_memory_bytes", &[("kind", kind)]);
            assert!(bytes > Some(0.0), "{kind} of {what}");
        }
    }
}

#[test]
fn only_the_metrics_are_served() {
    let s = Scratch::new();
    s.file("list", "oak\t1\n");
    let (mut server, address) = start(&s, &["names", "serve", "list", "--live", "map"]);
    for (request, code) in [
        ("GET / HTTP/1.1\r\n\r\n", "404 Not Found"),
        ("GET /metrics/../list HTTP/1.1\r\n\r\n", "404 Not Found"),
        (
            "POST /metrics HTTP/1.1\r\nContent-Length: 9\r\n\r\n",
            "405 Method Not Allowed",
        ),
        ("\0\0\0\0", "400 Bad Request"),
    ] {
        let answer = exchange(address, request);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {code}\r\n")),
            "{request}: {answer}"
        );
    }
    // Clients that say nothing delay neither the command nor, for long, others.
    let silent: Vec<_> = (0..40).map(|_| TcpStream::connect(address)).collect();
    server.answers("add larch 7\n", &["added\tlarch"]);
    wait_for("a place", || {
        let mut client = TcpStream::connect(address).unwrap();
        client.set_read_timeout(Some(LIMIT)).unwrap();
        let sent = client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n");
        let mut answer = String::new();
        sent.and_then(|()| client.read_to_string(&mut answer))
            .is_ok()
            && value(&answer, "sapwood_live_entries", &[]) == Some(2.0)
    });
    drop(silent);
    let taken = address.to_string();
    let serve = |to: &str| s.run(&["names", "serve", "list", "--live", "other", "--metrics", to]);
    serve(&taken)
        .code(2)
        .complains(&format!("cannot serve metrics at {taken}: "));
    serve(":9464")
        .code(2)
        .complains("127.0.0.1:9464 and [::1]:9464 serve this machine");
    serve("localhost:1")
        .code(2)
        .complains("\"localhost\" is no IP address");
    assert_eq!(s.names(), ["list", "map"]);
}

#[test]
fn metrics_are_served_over_ipv6() {
    let s = Scratch::new();
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        println!("skipped: there is no IPv6 here");
        return;
    }
    s.file("list", "oak\t1\n");
    let args = [
        "names",
        "serve",
        "list",
        "--live",
        "a \"b\"\\",
        "--metrics",
        "[::1]:0",
    ];
    let server = Server::spawn(&s, &args);
    let address = address_in(&server.complains("metrics at http://[::1]:"));
    server.complains(", live");
    wait_value(
        address,
        "sapwood_live_entries",
        &[("map", r#"a \"b\"\\"#)],
        1.0,
    );
    promtool(&scrape(address));
}
