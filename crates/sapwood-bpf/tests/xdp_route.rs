//! The program `xdp-route` on real packets between network namespaces, and on malformed frames.
#![cfg(feature = "kernel")]

mod common;

use std::net::{IpAddr, UdpSocket};
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::netns::Netns;
use libbpf_rs::ProgramInput;
use sapwood_bpf::layout::route::RouteVerdict::{self, *};
use sapwood_bpf::{
    BpfArena, IpMap, NextHop, ProgramRouteCache, RouteCounts, RouteMirror, RouteMode, XdpRoute,
};
use zerocopy::IntoBytes;

fn can() -> bool {
    match sapwood_bpf::check() {
        Ok(()) => true,
        Err(why) => {
            println!("skipped: {why}");
            false
        }
    }
}

/// A client, a router, and two servers that have the same addresses, behind different cables.
struct Network {
    client: Netns,
    router: Netns,
    first: Netns,
    second: Netns,
}

impl Network {
    fn new() -> Option<Network> {
        let [client, router, first, second] = Netns::some(["client", "router", "first", "second"])?;
        Netns::veth(
            (&client, "c0", &["10.81.1.2/24", "fd81:1::2/64"]),
            (&router, "r0", &["10.81.1.1/24", "fd81:1::1/64"]),
        );
        for (server, far, near, net) in [(&first, "s1", "r1", 2), (&second, "s2", "r2", 3)] {
            let theirs = [format!("10.81.{net}.2/24"), format!("fd81:{net}::2/64")];
            let ours = [format!("10.81.{net}.1/24"), format!("fd81:{net}::1/64")];
            Netns::veth(
                (&router, near, &[&ours[0], &ours[1]]),
                (server, far, &[&theirs[0], &theirs[1]]),
            );
            server.ip(&["addr", "add", "10.81.9.1/32", "dev", "lo"]);
            server.ip(&["addr", "add", "fd81:9::1/128", "dev", "lo", "nodad"]);
            server.ip(&["route", "add", "default", "via", &format!("10.81.{net}.1")]);
            server.ip(&["route", "add", "default", "via", &format!("fd81:{net}::1")]);
        }
        client.ip(&["route", "add", "default", "via", "10.81.1.1"]);
        client.ip(&["route", "add", "default", "via", "fd81:1::1"]);
        for key in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
            let out = router.run(&["sysctl", "-qw", &format!("{key}=1")]);
            assert!(out.status.success(), "{out:?}");
        }
        // Redirected packets lack what a veth leaves to its hardware, such as checksums.
        for (namespace, interface) in [(&client, "c0"), (&first, "s1"), (&second, "s2")] {
            let out = namespace.run(&["ethtool", "-K", interface, "tx", "off"]);
            assert!(out.status.success(), "{out:?}");
        }
        let network = Network {
            client,
            router,
            first,
            second,
        };
        network.route_by(2);
        Some(network)
    }

    /// Makes the router forward packets for the servers' common addresses by this net.
    fn route_by(&self, net: u8) {
        let (v4, v6) = (format!("10.81.{net}.2"), format!("fd81:{net}::2"));
        self.router
            .ip(&["route", "replace", "10.81.9.0/24", "via", &v4]);
        self.router
            .ip(&["route", "replace", "fd81:9::/64", "via", &v6]);
    }

    /// Attaches the program to all of the router's interfaces, and the passing program to the other
    /// ends.
    fn attach(&self, program: &mut XdpRoute) {
        let mut attach = |namespace: &Netns, interface: &str, is_router: bool| {
            let index = namespace.index(interface);
            namespace.inside(|| {
                let link = match is_router {
                    true => program.attach(index, None),
                    false => program.attach_pass(index, None),
                };
                let link = link.unwrap();
                println!("{interface}: {} {:?}", link.mode(), link.native_refused());
            });
        };
        for interface in ["r0", "r1", "r2"] {
            attach(&self.router, interface, true);
        }
        attach(&self.client, "c0", false);
        attach(&self.first, "s1", false);
        attach(&self.second, "s2", false);
    }

    /// Sends this many pings, two milliseconds apart. Returns whether all were answered, and ping's
    /// output.
    fn try_ping(&self, to: &str, count: u32) -> (bool, String) {
        let count = count.to_string();
        let out = self
            .client
            .run(&["ping", "-q", "-i", "0.002", "-c", &count, "-W", "2", to]);
        let said = text(&out);
        let all = out.status.success() && said.contains(&format!(" {count} received"));
        (all, said)
    }

    fn ping(&self, to: &str, count: u32) {
        let (all, said) = self.try_ping(to, count);
        assert!(all, "{said}");
    }

    /// Waits until all hosts on the path have resolved their neighbours.
    fn reach(&self, to: &str) {
        let begin = Instant::now();
        loop {
            let (all, said) = self.try_ping(to, 2);
            if all {
                return;
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "{said}");
        }
    }
}

fn text(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr)
}

fn cached(arena: &BpfArena, fresh: Duration) -> XdpRoute {
    let cache = ProgramRouteCache::builder(arena, "flows")
        .capacity(1000)
        .fresh(fresh)
        .build()
        .unwrap();
    XdpRoute::cached(cache).unwrap()
}

/// Loads the program with tables that mirror the router's.
fn mirrored(arena: &BpfArena, router: &Netns) -> XdpRoute {
    let map = IpMap::new(arena, "routes", 4 << 20).unwrap();
    let mirror = router.inside(|| RouteMirror::start(map).unwrap());
    XdpRoute::mirrored(mirror).unwrap()
}

#[test]
fn real_tools() {
    if !can() {
        return;
    }
    let Some(network) = Network::new() else {
        return;
    };
    for mode in [RouteMode::Resolver, RouteMode::Cache, RouteMode::Table] {
        let arena = BpfArena::create(16 << 20).unwrap();
        let mut program = match mode {
            RouteMode::Table => mirrored(&arena, &network.router),
            RouteMode::Cache => cached(&arena, Duration::from_millis(100)),
            _ => XdpRoute::resolver(&arena).unwrap(),
        };
        assert_eq!(program.mode(), mode);
        network.attach(&mut program);
        assert_eq!(program.links().len(), 6);
        for to in ["10.81.9.1", "fd81:9::1"] {
            // The kernel resolves neighbours.
            network.reach(to);
            let before = program.counts().unwrap();
            network.ping(to, 200);
            let counts = program.counts().unwrap().since(&before);
            println!("{mode} {to} {counts:?}");
            // Both directions count. Some packets may pass to the kernel, which checks its
            // neighbours.
            assert!(counts.forwarded() >= 390, "{counts:?}");
            assert_eq!(counts.get(Malformed), 0);
            match mode {
                // 0.4 s or more, two flows, answers fresh for 100 ms: about ten answers at least,
                // and many hits.
                RouteMode::Cache => {
                    assert!(counts.get(Resolved) >= 6, "{counts:?}");
                    assert!(counts.get(Cached) >= 5 * counts.get(Resolved), "{counts:?}");
                }
                RouteMode::Table => assert_eq!(counts.forwarded(), counts.get(Table)),
                _ => assert_eq!(counts.forwarded(), counts.get(Resolved)),
            }
            // Packets to the router itself.
            network.ping(
                if to.contains(':') {
                    "fd81:1::1"
                } else {
                    "10.81.1.1"
                },
                5,
            );
            assert!(program.counts().unwrap().get(NoRoute) >= 5);
        }
        let server = network.first.start(&["iperf3", "-s", "-1", "--forceflush"]);
        let begin = Instant::now();
        let said = loop {
            let out = network.client.run_for(
                &["iperf3", "-c", "10.81.9.1", "-n", "4M", "-J"],
                Duration::from_secs(30),
            );
            let said = text(&out);
            if said.contains("sum_received") {
                break said;
            }
            // The server may need a moment until it listens.
            assert!(begin.elapsed() < Duration::from_secs(20), "{said}");
            std::thread::sleep(Duration::from_millis(50));
        };
        assert!(said.contains("4194304"), "{said}");
        drop(server);
        let counts = program.counts().unwrap();
        println!("{mode} {counts:?}");
        // 4 MiB are 2,897 full segments. On a busy machine, fewer acknowledgements come back, and
        // the kernel joins segments.
        assert!(counts.forwarded() > 1000, "{counts:?}");
        if let Some(cache) = program.cache() {
            // The counters of the program and of the cache agree.
            let stats = cache.stats();
            assert_eq!(
                stats.hit,
                counts.get(Cached) + counts.get(Negative) + counts.get(TooLong)
            );
            let asked = [Resolved, NoRoute, NoNeighbour].map(|verdict| counts.get(verdict));
            assert_eq!(stats.miss, asked.iter().sum::<u64>());
            assert_eq!(stats.error, counts.get(NoRoute));
            assert_eq!(
                stats.insert + stats.refresh + stats.overtaken + stats.busy,
                counts.get(Resolved)
            );
            cache.verify().unwrap();
            let hops: Vec<NextHop> = cache
                .iter()
                .filter_map(|entry| Some(entry.value?.into()))
                .collect();
            let (mac, index) = (network.first.mac("s1"), network.router.index("r1"));
            assert!(
                hops.iter()
                    .any(|hop| (hop.dmac, hop.ifindex, hop.mtu) == (mac, index, 1500))
            );
            assert!(
                cache
                    .sweep(ProgramRouteCache::now() + 2_000_000_000, 1000)
                    .unwrap()
                    > 0
            );
            assert_eq!(cache.occupancy(), 0);
        }
    }
}

/// The datagrams that a server receives, with their times.
fn receive(server: &Netns, address: IpAddr, stop: &AtomicBool) -> Vec<Instant> {
    let socket = server.inside(|| UdpSocket::bind((address, 9999)).unwrap());
    socket
        .set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    let mut times = Vec::new();
    let mut buffer = [0; 64];
    while !stop.load(Ordering::Relaxed) {
        if socket.recv(&mut buffer).is_ok() {
            times.push(Instant::now());
        }
    }
    times
}

/// Routes change while packets arrive. The program uses an old route no longer than answers are
/// fresh, and never after an invalidation.
#[test]
fn routes_that_change() {
    if !can() {
        return;
    }
    let Some(network) = Network::new() else {
        return;
    };
    let arena = BpfArena::create(16 << 20).unwrap();
    let program = cached(&arena, Duration::from_millis(100));
    change_routes(&network, program);
    // A mirror is no slower, and only the kernel notifies it.
    change_routes(&network, mirrored(&arena, &network.router));
}

fn change_routes(network: &Network, mut program: XdpRoute) {
    let fresh = Duration::from_millis(100);
    network.attach(&mut program);
    for to in ["10.81.9.1", "fd81:9::1"] {
        let address: IpAddr = to.parse().unwrap();
        network.route_by(2);
        network.reach(to);
        network.route_by(3);
        std::thread::sleep(fresh);
        network.reach(to);
        network.route_by(2);
        std::thread::sleep(fresh);
        let stop = AtomicBool::new(false);
        let (changes, first, second) = std::thread::scope(|scope| {
            let first = scope.spawn(|| receive(&network.first, address, &stop));
            let second = scope.spawn(|| receive(&network.second, address, &stop));
            let any = if address.is_ipv4() { "0.0.0.0" } else { "::" };
            let sender = network.client.inside(|| UdpSocket::bind((any, 0)).unwrap());
            let stop_sending = &stop;
            let sending = scope.spawn(move || {
                while !stop_sending.load(Ordering::Relaxed) {
                    // The send fails while a server has no socket yet.
                    let _ = sender.send_to(b"where to", (address, 9999));
                    std::thread::sleep(Duration::from_micros(500));
                }
            });
            let pause = || std::thread::sleep(fresh * 5);
            pause();
            // The route changes in the kernel only.
            network.route_by(3);
            let late = Instant::now();
            pause();
            // The route changes, and the cache is invalidated.
            network.route_by(2);
            if let Some(cache) = program.cache() {
                cache.invalidate_all();
            }
            let at_once = Instant::now();
            pause();
            // The route is withdrawn.
            network.router.ip(&["route", "del", "10.81.9.0/24"]);
            network.router.ip(&["route", "del", "fd81:9::/64"]);
            let gone = Instant::now();
            pause();
            stop.store(true, Ordering::Relaxed);
            sending.join().unwrap();
            let (first, second) = (first.join().unwrap(), second.join().unwrap());
            ([late, at_once, gone], first, second)
        });
        let [late, at_once, gone] = changes;
        // A packet that was forwarded still has to be received; the machine may be busy.
        let slack = Duration::from_millis(60);
        let between = |times: &[Instant], from: Instant, to: Instant| {
            times
                .iter()
                .filter(|&&time| time > from && time < to)
                .count()
        };
        let end = gone + fresh * 100;
        println!("{to}: {} and {} datagrams", first.len(), second.len());
        assert!(between(&first, late - fresh * 3, late) > 20);
        assert!(between(&second, late + fresh, at_once) > 20);
        assert_eq!(
            between(&first, late + fresh + slack, at_once - fresh / 2),
            0
        );
        assert!(between(&first, at_once, gone) > 20);
        assert_eq!(between(&second, at_once + slack, end), 0);
        assert_eq!(between(&first, gone + fresh + slack, end), 0);
    }
    match program.mirror() {
        Some(mirror) => mirror.map().verify().unwrap(),
        None => program.cache().unwrap().verify().unwrap(),
    }
}

fn ipv4(to: [u8; 4], hops: u8, more: usize) -> Vec<u8> {
    let total = 20 + more as u16;
    let mut ip = vec![0x45, 0];
    ip.extend(total.to_be_bytes());
    ip.extend([0, 7, 0, 0, hops, 17, 0, 0, 10, 81, 1, 2]);
    ip.extend(to);
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip.resize(20 + more, 0x5a);
    ip
}

fn checksum(header: &[u8]) -> u16 {
    let words = header
        .chunks(2)
        .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn ipv6(from: [u8; 2], to: [u8; 2], next: u8, hops: u8, more: usize) -> Vec<u8> {
    let mut ip = vec![0x60, 0, 0, 0];
    ip.extend((more as u16).to_be_bytes());
    ip.extend([next, hops]);
    for ([a, b], net) in [(from, 1), (to, 9)] {
        let mut address = [0; 16];
        address[..4].copy_from_slice(&[a, b, 0, net]);
        address[15] = 1;
        ip.extend(address);
    }
    ip.resize(40 + more, 0x5a);
    ip
}

fn frame(kind: u16, packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    frame.extend(kind.to_be_bytes());
    frame.extend(packet);
    frame
}

/// Frames with their expected verdicts.
fn frames() -> Vec<(RouteVerdict, Vec<u8>)> {
    let (v4, v6) = (0x0800, 0x86dd);
    let (there, net) = ([10, 81, 9, 1], [0xfd, 0x81]);
    let with = |mut packet: Vec<u8>, at: usize, byte: u8| {
        packet[at] = byte;
        packet
    };
    let mut all = vec![
        (Resolved, frame(v4, &ipv4(there, 64, 8))),
        (Resolved, frame(v4, &ipv4(there, 2, 1480))),
        (Resolved, frame(v6, &ipv6(net, net, 17, 64, 8))),
        (Resolved, frame(v6, &ipv6(net, net, 58, 2, 1460))),
        // Padded to the minimum of Ethernet.
        (
            Resolved,
            frame(v4, &[ipv4(there, 64, 0), vec![0; 26]].concat()),
        ),
        // A later fragment, whose bytes are no ports.
        (Resolved, frame(v4, &with(ipv4(there, 64, 8), 7, 9))),
        (NoRoute, frame(v4, &ipv4([10, 81, 1, 1], 64, 8))),
        (NoRoute, frame(v4, &ipv4([192, 0, 2, 1], 64, 8))),
        (NoRoute, frame(v6, &ipv6(net, [0x20, 0x01], 17, 64, 8))),
        (NoNeighbour, frame(v4, &ipv4([10, 81, 3, 77], 64, 8))),
        (TooLong, frame(v4, &ipv4(there, 64, 1481))),
        (TooLong, frame(v6, &ipv6(net, net, 17, 64, 1461))),
        (Expired, frame(v4, &ipv4(there, 1, 8))),
        (Expired, frame(v4, &ipv4(there, 0, 8))),
        (Expired, frame(v6, &ipv6(net, net, 17, 1, 8))),
        (Options, frame(v4, &with(ipv4(there, 64, 8), 0, 0x46))),
        (Options, frame(v6, &ipv6(net, net, 0, 64, 8))),
        (NotUnicast, frame(v4, &ipv4([224, 0, 0, 5], 64, 8))),
        (NotUnicast, frame(v4, &ipv4([255; 4], 64, 8))),
        (NotUnicast, frame(v4, &ipv4([127, 0, 0, 1], 64, 8))),
        (NotUnicast, frame(v6, &ipv6(net, [0xff, 2], 17, 64, 8))),
        (NotUnicast, frame(v6, &ipv6(net, [0xfe, 0x80], 17, 64, 8))),
        (NotUnicast, frame(v6, &ipv6([0xfe, 0x80], net, 17, 64, 8))),
        (NotUnicast, frame(v6, &ipv6(net, [0, 0], 17, 64, 8))),
        (NotUnicast, with(frame(v4, &ipv4(there, 64, 8)), 0, 1)),
        (Malformed, frame(v4, &ipv4(there, 64, 8)[..19])),
        (Malformed, frame(v4, &with(ipv4(there, 64, 8), 3, 40))),
        (Malformed, frame(v4, &with(ipv4(there, 64, 8), 3, 19))),
        (Malformed, frame(v4, &with(ipv4(there, 64, 8), 0, 0x65))),
        (Malformed, frame(v4, &with(ipv4(there, 64, 8), 0, 0x44))),
        (Malformed, frame(v6, &ipv6(net, net, 17, 64, 8)[..39])),
        (Malformed, frame(v6, &with(ipv6(net, net, 17, 64, 8), 5, 9))),
        (
            Malformed,
            frame(v6, &with(ipv6(net, net, 17, 64, 8), 0, 0x45)),
        ),
        (Malformed, frame(v4, &[])),
        (Other, frame(0x0806, &[0; 28])),
        (Other, frame(0x8100, &ipv4(there, 64, 8))),
    ];
    for (_, frame) in &mut all {
        // The minimum of a test run, with headers.
        assert!(frame.len() >= 14);
    }
    all
}

#[test]
fn every_kind_of_frame() {
    if !can() {
        return;
    }
    let Some(network) = Network::new() else {
        return;
    };
    let arena = BpfArena::create(16 << 20).unwrap();
    let (near, far) = ([2, 0, 0, 0, 7, 1], [2, 0, 0, 0, 7, 2]);
    let text = |mac: [u8; 6]| mac.map(|byte| format!("{byte:02x}")).join(":");
    let router = &network.router;
    // Only the test may send on the cable where the program counts. IPv6 hosts send packets on
    // their own.
    let key = "net.ipv6.conf.c0.disable_ipv6=1";
    let out = network.client.run(&["sysctl", "-qw", key]);
    assert!(out.status.success(), "{out:?}");
    router.ip(&["link", "set", "dev", "r1", "address", &text(near)]);
    for via in ["10.81.2.2", "fd81:2::2"] {
        router.ip(&[
            "neigh",
            "replace",
            via,
            "lladdr",
            &text(far),
            "dev",
            "r1",
            "nud",
            "permanent",
        ]);
    }
    for mode in [RouteMode::Resolver, RouteMode::Cache, RouteMode::Table] {
        let cache = mode == RouteMode::Cache;
        let mut program = match mode {
            RouteMode::Cache => cached(&arena, Duration::from_secs(60)),
            RouteMode::Table => mirrored(&arena, router),
            _ => XdpRoute::resolver(&arena).unwrap(),
        };
        let index = router.index("r0");
        router
            .inside(|| program.attach(index, None).map(|link| link.mode()))
            .unwrap();
        let mut wanted = RouteCounts::default();
        for (round, (verdict, sent)) in
            (0..3).flat_map(|n| frames().into_iter().map(move |f| (n, f)))
        {
            let mut got = vec![0; sent.len() + 64];
            let before = program.counts().unwrap();
            // `struct xdp_md`, with the incoming interface.
            let mut context = [0, sent.len() as u32, 0, index, 0, 0];
            let answer = router.inside(|| {
                let xdp = program.programs().program("sw_xdp_route").unwrap();
                let run = ProgramInput {
                    data_in: Some(&sent),
                    data_out: Some(&mut got),
                    context_in: Some(context.as_mut_bytes()),
                    ..ProgramInput::default()
                };
                xdp.test_run(run).unwrap().return_value
            });
            let counts = program.counts().unwrap().since(&before);
            let verdict = match verdict {
                // Two of the frames may belong to one flow.
                Resolved if cache && (round > 0 || counts.get(Cached) == 1) => Cached,
                Resolved if mode == RouteMode::Table => Table,
                other => other,
            };
            assert_eq!(
                (counts.get(verdict), counts.total()),
                (1, 1),
                "{verdict:?} {counts:?}"
            );
            assert_eq!(verdict.is_forwarded(), answer == 4);
            assert_eq!(!verdict.is_forwarded(), answer == 2);
            wanted = program.counts().unwrap();
            got.truncate(sent.len());
            if answer == 2 {
                assert_eq!(got, sent, "what passes is as it came");
                continue;
            }
            // The link addresses and the hop limit are new, and the checksum is right.
            assert_eq!((&got[..6], &got[6..12]), (&far[..], &near[..]));
            let is_v4 = sent[12] == 8;
            let hops = if is_v4 { 22 } else { 21 };
            assert_eq!(got[hops], sent[hops] - 1);
            if is_v4 {
                let mut header = got[14..34].to_vec();
                // The checksum of the sent frame may be wrong by the fragment's offset.
                header[7] = 0;
                assert_eq!(checksum(&header), 0);
            }
            let same = |from: usize, to: usize| got[from..to] == sent[from..to];
            match is_v4 {
                true => assert!(same(12, 22) && same(23, 24) && same(26, sent.len())),
                false => assert!(same(12, 21) && same(22, sent.len())),
            }
        }
        assert_eq!(wanted.total(), 3 * frames().len() as u64);
        assert_eq!(wanted.forwarded(), 3 * 6);
        assert!(if cache {
            wanted.get(Resolved) == 4
        } else {
            wanted.get(Cached) == 0
        });
        let names: Vec<_> = wanted.iter().map(|(verdict, _)| verdict.name()).collect();
        assert_eq!(names.len(), RouteVerdict::ALL.len());
    }
}
