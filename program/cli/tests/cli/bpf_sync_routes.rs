//! `sync follow --xdp` of routes: packets are forwarded as a leader elsewhere says.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::bpf::skipped;
use crate::common::Scratch;
use crate::netns::Netns;
use crate::server::{LIMIT, Server, wait_for};

/// How long a packet may take that does arrive, on a busy machine; and how long a test waits for
/// one that must not.
const ARRIVES: Duration = Duration::from_secs(5);
const GONE: Duration = Duration::from_millis(300);

/// A client, a router whose kernel knows its own networks only, and two machines behind it.
struct Net {
    client: UdpSocket,
    left: UdpSocket,
    right: UdpSocket,
    router: Netns,
    behind: [Netns; 2],
    before: Netns,
}

/// Where a packet arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Left,
    Right,
}

impl Net {
    fn new() -> Option<Net> {
        if skipped() {
            return None;
        }
        let [before, router, left, right] = Netns::some(["client", "router", "left", "right"])?;
        for (namespace, end, port, number) in [
            (&before, "c0", "r0", 1),
            (&left, "s0", "r1", 2),
            (&right, "t0", "r2", 3),
        ] {
            let [far, near] = [1, 2].map(|last| format!("10.6{number}.0.{last}/24"));
            Netns::veth((namespace, end, &[&far]), (&router, port, &[&near]));
            let gateway = format!("10.6{number}.0.2");
            namespace.ip(&["route", "add", "default", "via", &gateway]);
        }
        for namespace in [&left, &right] {
            // Both machines take packets for all addresses behind them.
            for net in [
                "10.90.0.0/16",
                "10.91.0.0/16",
                "10.92.0.0/16",
                "10.93.0.0/16",
            ] {
                namespace.ip(&["route", "add", "local", net, "dev", "lo"]);
            }
        }
        // A neighbour that is silent is noticed in seconds.
        for setting in [
            "base_reachable_time_ms=500",
            "delay_first_probe_time=1",
            "retrans_time_ms=200",
        ] {
            let setting = format!("net.ipv4.neigh.r1.{setting}");
            let done = router.run(&["sysctl", "-q", "-w", &setting]);
            assert!(done.status.success(), "{done:?}");
        }
        let open = |namespace: &Netns, address: &str| {
            namespace.inside(|| UdpSocket::bind(address).unwrap())
        };
        Some(Net {
            client: open(&before, "10.61.0.1:0"),
            left: open(&left, "0.0.0.0:7000"),
            right: open(&right, "0.0.0.0:7000"),
            router,
            behind: [left, right],
            before,
        })
    }

    /// Starts a follower on the router.
    fn follow(&self, s: &Scratch) -> Server {
        let mut args =
            "sync follow --map edge --folder log --name edge --generic --metrics figures"
                .split(' ')
                .collect::<Vec<_>>();
        args.extend(["--xdp", "r0", "--xdp", "r1", "--xdp", "r2"]);
        self.router.inside(|| Server::spawn(s, &args))
    }

    /// Sends a packet to an address, and tells where it arrives.
    fn send(&self, address: &str, wait: Duration) -> Option<At> {
        let at = [(At::Left, &self.left), (At::Right, &self.right)];
        let mut buffer = [0; 64];
        for (_, socket) in at {
            // What came late.
            socket.set_nonblocking(true).unwrap();
            while socket.recv(&mut buffer).is_ok() {}
        }
        let sent = self.client.send_to(address.as_bytes(), (address, 7000));
        assert_eq!(sent.unwrap(), address.len());
        let until = Instant::now() + wait;
        while Instant::now() < until {
            for (at, socket) in at {
                if let Ok(bytes) = socket.recv(&mut buffer) {
                    assert_eq!(&buffer[..bytes], address.as_bytes());
                    return Some(at);
                }
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        None
    }
}

/// Starts a publisher of routes.
fn publish(s: &Scratch, list: &str) -> Server {
    s.file("list", list);
    let args = [
        "sync", "publish", "routes", "list", "--map", "edge", "--folder", "log",
    ];
    let server = Server::spawn(s, &args);
    server.complains(" in term ");
    server
}

/// Waits for lines of a program, in any order.
#[track_caller]
fn until(server: &Server, wanted: &[&str]) {
    let (mut wanted, mut seen) = (wanted.to_vec(), Vec::new());
    while !wanted.is_empty() {
        let Ok(line) = server.out.recv_timeout(LIMIT) else {
            panic!("no {wanted:?} in {seen:?}");
        };
        wanted.retain(|one| *one != line);
        seen.push(line);
    }
}

/// The packets that the program has forwarded by its tables.
fn forwarded(s: &Scratch) -> u64 {
    let text = std::fs::read_to_string(s.path("figures")).unwrap_or_default();
    let mut lines = text.lines();
    let line = lines.find(|line| {
        line.starts_with("sapwood_bpf_route_packets_total{") && line.contains("\"table\"")
    });
    let count = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    count.unwrap_or(0)
}

const LIST: &str = "10.90.0.0/16 10.62.0.1
10.91.0.0/16 10.62.0.1
10.92.0.0/16 somewhere
10.93.0.0/16 10.99.0.1
10.61.0.0/16 10.63.0.1
10.60.0.0/15 10.63.0.1
";

#[test]
fn packets_go_as_the_followed_routes_say() {
    let Some(net) = Net::new() else { return };
    let s = Scratch::new();
    let mut leader = publish(&s, LIST);
    assert_eq!(net.send("10.90.0.1", GONE), None);
    let mut follower = net.follow(&s);
    // The next hops that the kernel does not know are asked for.
    until(&follower, &["restored\t1\t6", "unresolved\t2\t1"]);
    assert_eq!(net.send("10.90.0.1", ARRIVES), Some(At::Left));
    assert_eq!(net.send("10.92.0.1", GONE), None);
    assert_eq!(net.send("10.93.0.1", GONE), None);
    // The router's own addresses and networks come before followed routes.
    let ping = [
        "ping",
        "-n",
        "-q",
        "-c",
        "3",
        "-i",
        "0.05",
        "-W",
        "5",
        "10.61.0.2",
    ];
    let done = net.before.run(&ping);
    assert!(done.status.success(), "{done:?}");

    // A commit moves prefixes; a longer prefix comes; what becomes an address is forwarded.
    let commit = "begin\nadd 10.90.0.0/16 10.63.0.1\nadd 10.90.7.0/24 10.62.0.1
add 10.92.0.0/16 10.63.0.1\nremove 10.93.0.0/16\ncommit\n";
    leader.answers(commit, &[]);
    until(&follower, &["commit\t2\t6", "unresolved\t0\t0"]);
    assert_eq!(net.send("10.90.0.1", ARRIVES), Some(At::Right));
    assert_eq!(net.send("10.90.7.1", ARRIVES), Some(At::Left));
    assert_eq!(net.send("10.91.0.1", ARRIVES), Some(At::Left));
    assert_eq!(net.send("10.92.0.1", ARRIVES), Some(At::Right));
    assert_eq!(net.send("10.93.0.1", GONE), None);
    wait_for("the program's counters", || forwarded(&s) >= 5);

    // A neighbour that falls silent is found out, and comes back.
    net.behind[0].ip(&["link", "set", "dev", "s0", "arp", "off"]);
    until(&follower, &["unresolved\t2\t0"]);
    assert_eq!(net.send("10.91.0.1", GONE), None);
    assert_eq!(net.send("10.90.0.1", ARRIVES), Some(At::Right));
    net.behind[0].ip(&["link", "set", "dev", "s0", "arp", "on"]);
    until(&follower, &["unresolved\t0\t0"]);
    assert_eq!(net.send("10.91.0.1", ARRIVES), Some(At::Left));

    // The router ends with its follower. The next one has what was committed meanwhile.
    follower.child.kill().unwrap();
    follower.child.wait().unwrap();
    assert_eq!(net.send("10.91.0.1", GONE), None);
    leader.answers("add 10.91.0.0/16 10.63.0.1\n", &[]);
    until(&leader, &["replaced\t10.91.0.0/16"]);
    let mut follower = net.follow(&s);
    until(&follower, &["restored\t3\t6"]);
    wait_for("the router", || {
        net.send("10.91.0.1", GONE) == Some(At::Right)
    });
    assert_eq!(net.send("10.90.7.1", ARRIVES), Some(At::Left));
    follower.signal(Signal::TERM);
    follower.complains(" of them forwarded");
    assert_eq!(follower.ends(), Some(0));
    assert_eq!(net.send("10.91.0.1", GONE), None);
}

#[test]
fn commits_stream_and_no_route_that_stays_is_missed() {
    let Some(net) = Net::new() else { return };
    let s = Scratch::new();
    let mut leader = publish(&s, LIST);
    let follower = net.follow(&s);
    until(&follower, &["unresolved\t2\t1"]);
    let mut commands = String::new();
    for i in 0..300 {
        // Beside and below the prefix that stays, and for all that it covers.
        let gateway = if i % 2 == 0 { "10.63.0.1" } else { "10.62.0.1" };
        commands += &format!(
            "begin\nadd 10.90.0.0/16 {gateway}\nadd 10.91.{}.0/24 {gateway}\n",
            i % 200 + 1
        );
        commands += &format!("add 0.0.0.0/0 {gateway}\n");
        if i > 2 {
            commands += &format!("remove 10.91.{}.0/24\n", (i - 3) % 200 + 1);
        }
        commands += "commit\n";
    }
    leader.answers(&commands, &[]);
    let (mut rounds, until) = (0, Instant::now() + LIMIT);
    while !follower
        .out
        .try_iter()
        .any(|line| line.starts_with("commit\t301\t"))
    {
        // The kernel has no route, so a lookup that misses is a packet that is lost.
        assert_eq!(
            net.send("10.91.0.1", ARRIVES),
            Some(At::Left),
            "round {rounds}"
        );
        assert!(net.send("10.90.0.1", ARRIVES).is_some(), "round {rounds}");
        rounds += 1;
        assert!(Instant::now() < until, "{rounds} rounds");
    }
    assert!(rounds > 10, "{rounds} rounds");
    assert_eq!(net.send("10.90.0.1", ARRIVES), Some(At::Left));
    assert_eq!(net.send("10.91.100.1", ARRIVES), Some(At::Left));
    assert_eq!(net.send("10.91.101.1", ARRIVES), Some(At::Left));
}

#[test]
fn what_a_router_cannot_have_is_said() {
    let Some(net) = Net::new() else { return };
    let s = Scratch::new();
    let _leader = publish(&s, LIST);
    let run = |map: &str, more: &[&str]| {
        let args = ["sync", "follow", "--map", map, "--folder", "log", "--xdp"];
        let mut server = net
            .router
            .inside(|| Server::spawn(&s, &[&args, more].concat()));
        let line = server.complains("sapwood: ");
        assert_eq!(server.ends(), Some(2), "{line}");
        line
    };
    let line = run("edge", &["r0", "--pin", "/sys/fs/bpf/none"]);
    assert!(line.contains("a router ends with its follower"), "{line}");
    let line = run("edge", &["none0"]);
    assert!(line.contains("none0"), "{line}");
    s.file("ports", "1 9 a\n");
    let args = [
        "sync", "publish", "ranges", "ports", "--map", "ports", "--folder", "log",
    ];
    let server = Server::spawn(&s, &args);
    server.complains(" in term 1");
    let line = run("ports", &["r0"]);
    assert!(line.contains("names or of routes, not of ranges"), "{line}");
}
