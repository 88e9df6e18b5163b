//! `sapwood bpf` as a service: its figures, what it tells the service manager, and the capabilities
//! that its units leave it.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use sapwood_cli::service::catalogue::{BPF_CACHE, BPF_MIRROR, BPF_NAMES, BPF_ROUTE, COMMON};

use crate::bpf::Lab;
use crate::bpf_route::line;
use crate::common::{PROGRAM, Scratch};
use crate::netns::Netns;
use crate::notify::Manager;
use crate::operations::{allows_what_was_called, end, traced};
use crate::server::{LIMIT, Server};
use crate::service::{address_in, check, scrape, value};

/// What comes before the program, so that it has the capabilities of the units and no others.
pub const CAPABLE: [&str; 4] = [
    "setpriv",
    "--bounding-set",
    "-all,+bpf,+net_admin,+perfmon",
    "--no-new-privs",
];

/// The program in a namespace, with the capabilities of the units and no others. Its system calls
/// are traced, if that is possible here.
fn start(namespace: &Netns, s: &Scratch, args: &[&str]) -> Server {
    let mut command = traced(s, &CAPABLE).unwrap_or_else(|| {
        let mut command = Command::new(CAPABLE[0]);
        command.args(&CAPABLE[1..]).arg(PROGRAM);
        command
    });
    command
        .args(args)
        .args(["--metrics", "127.0.0.1:0"])
        .current_dir(s.path("."))
        .env("NOTIFY_SOCKET", s.path("notify"))
        .env("WATCHDOG_USEC", "600000")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    namespace.inside(move || Server::of(command))
}

/// Scrapes until a figure has at least this value; returns all of them.
#[track_caller]
fn scrape_until(
    namespace: &Netns,
    address: SocketAddr,
    name: &str,
    labels: &[(&str, &str)],
    wanted: f64,
) -> String {
    let until = Instant::now() + LIMIT;
    loop {
        let text = namespace.inside(|| scrape(address));
        if value(&text, name, labels) >= Some(wanted) {
            return text;
        }
        assert!(Instant::now() < until, "{name} is not {wanted} in:\n{text}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn metrics_of_a_filter() {
    let Some(lab) = Lab::new() else { return };
    let s = Scratch::new();
    s.file("list", "ads.example\n!good.ads.example\n");
    let manager = Manager::new(&s);
    let mut server = start(
        &lab.behind,
        &s,
        &["bpf", "names", "run", "list", "-i", "s0"],
    );
    let address = address_in(&server.complains("metrics at "));
    assert_eq!(manager.other(), ["READY=1", "STATUS=2 names"]);
    // Two queries of the three and the one that ends each round pass.
    let asked = ["x.ads.example", "good.ads.example", "org"];
    assert_eq!(lab.arrive(&asked), [false, true, true]);
    server.answers(
        "block org\nfree org\nblock net\nfree none\n",
        &["blocked\torg", "freed\torg", "blocked\tnet", "absent\tnone"],
    );
    let packets = "sapwood_bpf_names_packets_total";
    let passed = [("verdict", "passed")];
    scrape_until(&lab.behind, address, packets, &passed, 3.0);
    let blocked = [("change", "blocked")];
    let changes = "sapwood_bpf_names_changes_total";
    let text = scrape_until(&lab.behind, address, changes, &blocked, 2.0);
    check(&text, &[COMMON, BPF_NAMES], &[]);
    let get = |name: &str, labels: &[(&str, &str)]| value(&text, name, labels).unwrap();
    assert_eq!(get(packets, &passed), 3.0);
    assert_eq!(get(packets, &[("verdict", "dropped")]), 1.0);
    assert_eq!(get(changes, &[("change", "freed")]), 1.0);
    assert_eq!(get("sapwood_bpf_names_rules", &[]), 3.0);
    assert_eq!(get("sapwood_bpf_names_interfaces", &[]), 1.0);
    assert!(get("sapwood_bpf_names_grace_periods_total", &[]) >= 1.0);
    assert!(get("sapwood_bpf_names_memory_bytes", &[("kind", "leaves")]) > 0.0);
    manager.lives();
    end(&s, &server, Signal::TERM);
    assert_eq!(manager.other(), ["STOPPING=1"]);
    assert_eq!(server.ends(), Some(0));
    assert_eq!(lab.arrive(&asked), [true; 3]);
    if s.path("trace").exists() {
        allows_what_was_called(&s, "sapwood-bpf-names@.service");
    }
}

#[test]
fn metrics_of_a_router() {
    let Some([client, router, _server]) = line() else {
        return;
    };
    let ping = "ping -n -q -c 5 -i 0.05 -W 5 10.62.0.1";
    let ping: Vec<&str> = ping.split(' ').collect();
    // The kernel learns its neighbours.
    let done = client.run_for(&ping, LIMIT);
    assert!(done.status.success(), "{done:?}");
    for (by, lists) in [
        ("resolver", &[COMMON, BPF_ROUTE][..]),
        ("cache", &[COMMON, BPF_ROUTE, BPF_CACHE]),
        ("table", &[COMMON, BPF_ROUTE, BPF_MIRROR]),
    ] {
        let s = Scratch::new();
        let manager = Manager::new(&s);
        let run = "bpf route run -i r0 -i r1 --generic --by";
        let args: Vec<&str> = run.split(' ').chain([by]).collect();
        let mut server = start(&router, &s, &args);
        let address = address_in(&server.complains("metrics at "));
        assert_eq!(manager.other(), ["READY=1", "STATUS=2 interfaces"], "{by}");
        let done = client.run_for(&ping, LIMIT);
        assert!(done.status.success(), "{by}: {done:?}");
        // The program forwards as soon as it has learnt the routes.
        let verdict = match by {
            "resolver" => "resolved",
            "cache" => "cached",
            _ => by,
        };
        let packets = "sapwood_bpf_route_packets_total";
        let forwarded = |text: &str| value(text, packets, &[("verdict", verdict)]);
        let until = Instant::now() + LIMIT;
        let text = loop {
            let text = router.inside(|| scrape(address));
            if forwarded(&text) >= Some(1.0) {
                break text;
            }
            assert!(
                Instant::now() < until,
                "{by}: nothing is forwarded in:\n{text}"
            );
            let done = client.run_for(&ping, LIMIT);
            assert!(done.status.success(), "{by}: {done:?}");
        };
        check(&text, lists, &[]);
        assert_eq!(value(&text, "sapwood_bpf_route_interfaces", &[]), Some(2.0));
        match by {
            "cache" => {
                let hits = [("event", "hit")];
                assert!(value(&text, "sapwood_bpf_route_cache_events_total", &hits) >= Some(1.0));
                let entries = value(&text, "sapwood_bpf_route_cache_entries", &[]);
                assert!(entries >= Some(1.0), "{text}");
                assert_eq!(
                    value(&text, "sapwood_bpf_route_cache_slots", &[]),
                    Some(65536.0)
                );
            }
            "table" => {
                assert!(value(&text, "sapwood_bpf_route_mirror_routes", &[]) >= Some(2.0));
                assert_eq!(
                    value(&text, "sapwood_bpf_route_mirror_failing", &[]),
                    Some(0.0)
                );
            }
            _ => {}
        }
        end(&s, &server, Signal::INT);
        assert_eq!(manager.other(), ["STOPPING=1"], "{by}");
        assert_eq!(server.ends(), Some(0), "{by}");
        if s.path("trace").exists() {
            allows_what_was_called(&s, "sapwood-bpf-route@.service");
        }
    }
}
