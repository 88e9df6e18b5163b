//! The program `xdp-route` on real packets between network namespaces, and on malformed frames.
#![cfg(feature = "kernel")]

mod common;

use std::net::{IpAddr, UdpSocket};
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use common::frames::checksum;
use common::netns::Netns;
use libbpf_rs::{MapCore, MapFlags, ProgramInput};
use netlink_sys::{Socket, protocols::NETLINK_ROUTE};
use sapwood::route::{FlowHasher, FlowKey};
use sapwood_bpf::{BpfArena, GroupMap, HopTables, IpMap, MirrorHop, NextHop, ProgramRouteCache};
use sapwood_routes::{RouteMirror, XdpRouter};
use sapwood_xdp::RouteVerdict::{self, *};
use sapwood_xdp::{RouteCounts, RouteMode, XdpRoute};
use zerocopy::IntoBytes;

/// The seed of the hash of flows.
const FLOW_SEED: u64 = 7;

/// The time that the machine may take when it is busy.
const PATIENCE: Duration = Duration::from_secs(20);

fn can() -> bool {
    match sapwood_bpf::check() {
        Ok(()) => true,
        Err(why) => {
            println!("skipped: {why}");
            false
        }
    }
}

/// A client, a router, and three servers that have the same addresses, behind different cables.
struct Network {
    client: Netns,
    router: Netns,
    first: Netns,
    second: Netns,
    third: Netns,
}

impl Network {
    fn new() -> Option<Network> {
        let [client, router, first, second, third] =
            Netns::some(["client", "router", "first", "second", "third"])?;
        Netns::veth(
            (&client, "c0", &["10.81.1.2/24", "fd81:1::2/64"]),
            (&router, "r0", &["10.81.1.1/24", "fd81:1::1/64"]),
        );
        for (server, far, near, net) in [
            (&first, "s1", "r1", 2),
            (&second, "s2", "r2", 3),
            (&third, "s3", "r3", 4),
        ] {
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
        // The address to which the frames of the tests go.
        router.ip(&["link", "set", "dev", "r0", "address", "02:00:00:00:00:02"]);
        client.ip(&["route", "add", "default", "via", "10.81.1.1"]);
        client.ip(&["route", "add", "default", "via", "fd81:1::1"]);
        for key in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
            let out = router.run(&["sysctl", "-qw", &format!("{key}=1")]);
            assert!(out.status.success(), "{out:?}");
        }
        // Redirected packets lack what a veth leaves to its hardware, such as checksums.
        let ends = [
            (&client, "c0"),
            (&first, "s1"),
            (&second, "s2"),
            (&third, "s3"),
        ];
        for (namespace, interface) in ends {
            let out = namespace.run(&["ethtool", "-K", interface, "tx", "off"]);
            assert!(out.status.success(), "{out:?}");
        }
        let network = Network {
            client,
            router,
            first,
            second,
            third,
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
    fn attach(&self, program: &mut XdpRouter) {
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
        for interface in ["r0", "r1", "r2", "r3"] {
            attach(&self.router, interface, true);
        }
        attach(&self.client, "c0", false);
        attach(&self.first, "s1", false);
        attach(&self.second, "s2", false);
        attach(&self.third, "s3", false);
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

fn cached(arena: &BpfArena, fresh: Duration) -> XdpRouter {
    let cache = ProgramRouteCache::builder(arena, "flows")
        .capacity(1000)
        .fresh(fresh)
        .build()
        .unwrap();
    XdpRoute::cached(cache).unwrap().into()
}

/// Loads the program with tables that mirror the router's.
fn mirrored(arena: &BpfArena, router: &Netns) -> XdpRouter {
    let tables = Arc::new(HopTables::new(
        IpMap::new(arena, "routes", 4 << 20).unwrap(),
    ));
    let mirror = router.inside(|| RouteMirror::start(tables).unwrap());
    XdpRouter::mirrored(mirror, 0).unwrap()
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
            _ => XdpRoute::resolver(&arena).unwrap().into(),
        };
        assert_eq!(program.mode(), mode);
        network.attach(&mut program);
        assert_eq!(program.links().len(), 8);
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

fn change_routes(network: &Network, mut program: XdpRouter) {
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
    match program.tables() {
        Some(tables) => tables.map().verify().unwrap(),
        None => program.cache().unwrap().verify().unwrap(),
    }
}

/// The client's flows to the servers' common address, and the server that each reaches.
struct Flows {
    /// A connected socket for each flow.
    sockets: Vec<UdpSocket>,
    /// The servers' sockets.
    servers: [UdpSocket; 3],
}

impl Flows {
    const COUNT: usize = 240;

    fn new(network: &Network, to: IpAddr) -> Flows {
        let any = if to.is_ipv4() { "0.0.0.0" } else { "::" };
        let flow = |_| {
            let socket = UdpSocket::bind((any, 0)).unwrap();
            socket.connect((to, 9999)).unwrap();
            socket
        };
        let sockets = network
            .client
            .inside(|| (0..Self::COUNT).map(flow).collect());
        let servers = [&network.first, &network.second, &network.third];
        let servers = servers.map(|server| {
            let socket = server.inside(|| UdpSocket::bind((to, 9999)).unwrap());
            socket.set_nonblocking(true).unwrap();
            socket
        });
        Flows { sockets, servers }
    }

    /// Each flow sends datagrams until one has arrived, whose server is returned.
    fn go(&self) -> Vec<usize> {
        static ROUND: AtomicU32 = AtomicU32::new(0);
        let round = ROUND.fetch_add(1, Ordering::Relaxed);
        let ports: Vec<u16> = (self.sockets.iter())
            .map(|socket| socket.local_addr().unwrap().port())
            .collect();
        let mut found = vec![None; self.sockets.len()];
        let begin = Instant::now();
        while found.contains(&None) {
            assert!(begin.elapsed() < Duration::from_secs(20), "{found:?}");
            for (socket, found) in self.sockets.iter().zip(&found) {
                if found.is_none() {
                    // The send may fail while the client resolves its neighbour.
                    let _ = socket.send(&round.to_ne_bytes());
                }
            }
            std::thread::sleep(Duration::from_millis(5));
            for (at, server) in self.servers.iter().enumerate() {
                let mut said = [0; 4];
                while let Ok((_, from)) = server.recv_from(&mut said) {
                    let flow = ports.iter().position(|port| *port == from.port());
                    if u32::from_ne_bytes(said) == round {
                        found[flow.unwrap()] = Some(at);
                    }
                }
            }
        }
        found.into_iter().map(Option::unwrap).collect()
    }

    /// The server to which the router's groups send each flow.
    fn meant(&self, tables: &HopTables, from: IpAddr, to: IpAddr, ports: &[u32]) -> Vec<usize> {
        let (_, hop) = tables.map().lookup(to).unwrap();
        assert_eq!(hop.action, MirrorHop::GROUP);
        let hasher = FlowHasher::new(FLOW_SEED);
        let server = |socket: &UdpSocket| {
            let port = socket.local_addr().unwrap().port();
            let key = FlowKey::new((from, port).into(), (to, 9999).into(), FlowKey::UDP);
            let flow = hasher.hash(&key);
            let member = tables.groups().unwrap().member(hop.ifindex as usize, flow);
            let link = member.unwrap().link;
            ports.iter().position(|port| *port == link).unwrap()
        };
        self.sockets.iter().map(server).collect()
    }
}

/// A route has three gateways. One link goes down: only its flows move. It comes up: the same flows
/// return.
#[test]
fn a_link_of_three_goes_down() {
    if !can() {
        return;
    }
    let Some(network) = Network::new() else {
        return;
    };
    let router = &network.router;
    for (net, gateways) in [
        ("10.81.9.0/24", ["10.81.2.2", "10.81.3.2", "10.81.4.2"]),
        ("fd81:9::/64", ["fd81:2::2", "fd81:3::2", "fd81:4::2"]),
    ] {
        let mut args = vec!["route", "replace", net];
        for (gateway, weight) in gateways.iter().zip(["1", "1", "2"]) {
            args.extend(["nexthop", "via", gateway, "weight", weight]);
        }
        router.ip(&args);
    }
    // The addresses of IPv6 stay when their link is down.
    let out = router.run(&["sysctl", "-qw", "net.ipv6.conf.all.keep_addr_on_down=1"]);
    assert!(out.status.success(), "{out:?}");
    let arena = BpfArena::create(16 << 20).unwrap();
    let map = IpMap::new(&arena, "routes", 4 << 20).unwrap();
    let groups = GroupMap::builder(&arena, "groups").build().unwrap();
    let tables = Arc::new(HopTables::new(map).with_groups(groups));
    let mirror = router.inside(|| RouteMirror::start(Arc::clone(&tables)).unwrap());
    let mut program = XdpRouter::mirrored(mirror, FLOW_SEED).unwrap();
    network.attach(&mut program);
    let mirror = program.mirror().unwrap();
    let ports = ["r1", "r2", "r3"].map(|name| router.index(name));
    let is_up = |at: usize| tables.groups().unwrap().is_up(ports[at]);
    for (to, from) in [("10.81.9.1", "10.81.1.2"), ("fd81:9::1", "fd81:1::2")] {
        let (to, from): (IpAddr, IpAddr) = (to.parse().unwrap(), from.parse().unwrap());
        let flows = Flows::new(&network, to);
        // Until the router knows all neighbours, the kernel forwards some flows.
        let settled = || {
            let begin = Instant::now();
            loop {
                let (seen, meant) = (flows.go(), flows.meant(&tables, from, to, &ports));
                if seen == meant {
                    return seen;
                }
                let stats = mirror.stats();
                assert!(begin.elapsed() < PATIENCE, "{stats:?} {seen:?} {meant:?}");
            }
        };
        let before = settled();
        let counts = program.counts().unwrap();
        assert_eq!(flows.go(), before);
        let counts = program.counts().unwrap().since(&counts);
        assert!(counts.get(Table) >= Flows::COUNT as u64, "{counts:?}");
        // A quarter, a quarter and a half.
        let share = |map: &[usize], at| map.iter().filter(|server| **server == at).count();
        let shares = [0, 1, 2].map(|at| share(&before, at));
        println!("{to}: {shares:?} flows");
        assert!(
            shares[0] > 30 && shares[1] > 30 && shares[2] > 75,
            "{shares:?}"
        );
        for down in [1, 2] {
            let name = ["r1", "r2", "r3"][down];
            router.ip(&["link", "set", name, "down"]);
            wait("the link's bit", || !is_up(down));
            let after = settled();
            for (before, after) in before.iter().zip(&after) {
                match *before == down {
                    true => assert_ne!(*after, down),
                    false => assert_eq!(before, after, "a flow of another member moved"),
                }
            }
            router.ip(&["link", "set", name, "up"]);
            wait("the link's bit", || is_up(down));
            assert_eq!(settled(), before, "the same flows return");
        }
    }
    // The carrier goes with the other end.
    network.second.ip(&["link", "set", "s2", "down"]);
    wait("no carrier", || !is_up(1));
    network.second.ip(&["link", "set", "s2", "up"]);
    wait("a carrier", || is_up(1));
    // How long it takes from the kernel's notification until the bit is clear.
    let mut heard = router.inside(Notices::new);
    let mut measure = || {
        let mut times: Vec<Duration> = (0..16)
            .map(|round| {
                let up = round % 2 == 1;
                let state = if up { "up" } else { "down" };
                std::thread::scope(|scope| {
                    let change = scope.spawn(|| router.ip(&["link", "set", "r2", state]));
                    let told = heard.wait_for(ports[1], up);
                    while is_up(1) != up {
                        assert!(told.elapsed() < PATIENCE);
                        std::hint::spin_loop();
                    }
                    let time = told.elapsed();
                    change.join().unwrap();
                    time
                })
            })
            .collect();
        times.sort();
        println!("from the notification to the bit: {times:?}");
        times[8]
    };
    // Others may have the processors for milliseconds.
    let quick = (0..5).any(|_| measure() < Duration::from_millis(1));
    assert!(quick, "the bit takes more than a millisecond");
    assert!(mirror.stats().links >= 10 + 16);
    assert_eq!(mirror.stats().failure, None);
    tables.map().verify().unwrap();
}

/// The kernel's notifications about links.
struct Notices(Socket);

impl Notices {
    fn new() -> Notices {
        let mut socket = Socket::new(NETLINK_ROUTE).unwrap();
        socket.bind_auto().unwrap();
        socket.add_membership(1).unwrap();
        Notices(socket)
    }

    /// Waits for the notification that a link can be used, or that it cannot. Returns its time.
    fn wait_for(&mut self, index: u32, usable: bool) -> Instant {
        /// The link is up, and has a carrier.
        const BOTH: u32 = 0x1_0001;
        loop {
            let (message, _) = self.0.recv_from_full().unwrap();
            let now = Instant::now();
            let word = |at: usize| u32::from_ne_bytes(message[at..at + 4].try_into().unwrap());
            // Behind the header: the family, the number of the interface, and its flags.
            if word(20) == index && (word(24) & BOTH == BOTH) == usable {
                return now;
            }
        }
    }
}

fn wait(what: &str, done: impl Fn() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(1));
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

/// An IPv4 packet with the right checksum.
fn summed(mut ip: Vec<u8>) -> Vec<u8> {
    ip[10..12].fill(0);
    let sum = checksum(&ip[..20]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip
}

/// An IPv4 packet from another source.
fn from(mut ip: Vec<u8>, source: [u8; 4]) -> Vec<u8> {
    ip[12..16].copy_from_slice(&source);
    summed(ip)
}

/// Frames with their expected verdicts.
fn frames() -> Vec<(RouteVerdict, Vec<u8>)> {
    let (v4, v6) = (0x0800, 0x86dd);
    let (there, net) = ([10, 81, 9, 1], [0xfd, 0x81]);
    let with = |mut packet: Vec<u8>, at: usize, byte: u8| {
        packet[at] = byte;
        packet
    };
    let icmp_error = summed(with(with(ipv4(there, 64, 8), 9, 1), 20, 11));
    let mut all = vec![
        (Resolved, frame(v4, &ipv4(there, 64, 8))),
        (Resolved, frame(v4, &ipv4(there, 2, 1480))),
        (Resolved, frame(v6, &ipv6(net, net, 17, 64, 8))),
        (Resolved, frame(v6, &ipv6(net, net, 59, 2, 1460))),
        (IcmpError, frame(v6, &ipv6(net, net, 58, 2, 100))),
        (IcmpError, frame(v4, &icmp_error)),
        // A later fragment of one has no type.
        (Resolved, frame(v4, &summed(with(icmp_error.clone(), 7, 9)))),
        // Padded to the minimum of Ethernet.
        (
            Resolved,
            frame(v4, &[ipv4(there, 64, 0), vec![0; 26]].concat()),
        ),
        // A later fragment, whose bytes are no ports.
        (Resolved, frame(v4, &summed(with(ipv4(there, 64, 8), 7, 9)))),
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
        // Sources that no host has.
        (NotUnicast, frame(v4, &from(ipv4(there, 64, 8), [0; 4]))),
        (
            NotUnicast,
            frame(v4, &from(ipv4(there, 64, 8), [127, 0, 0, 1])),
        ),
        (
            NotUnicast,
            frame(v4, &from(ipv4(there, 64, 8), [224, 0, 0, 5])),
        ),
        (NotUnicast, frame(v4, &from(ipv4(there, 64, 8), [255; 4]))),
        (NotUnicast, frame(v6, &ipv6([0xff, 2], net, 17, 64, 8))),
        (NotUnicast, frame(v6, &ipv6([0, 0], net, 17, 64, 8))),
        // A wrong checksum of the header.
        (Malformed, frame(v4, &with(ipv4(there, 64, 8), 5, 8))),
        // Bytes behind the packet, which the kernel cuts off.
        (
            Other,
            frame(v4, &[ipv4(there, 64, 100), vec![0; 150]].concat()),
        ),
        (
            Other,
            frame(v6, &[ipv6(net, net, 17, 64, 100), vec![0; 1]].concat()),
        ),
        (NotUnicast, with(frame(v4, &ipv4(there, 64, 8)), 0, 1)),
        (OtherHost, with(frame(v4, &ipv4(there, 64, 8)), 0, 6)),
        (OtherHost, with(frame(v6, &ipv6(net, net, 17, 64, 8)), 5, 3)),
        // Addresses of the router, and a source without a route.
        (Source, frame(v4, &from(ipv4(there, 64, 8), [10, 81, 1, 1]))),
        (Source, frame(v4, &from(ipv4(there, 64, 8), [10, 81, 3, 1]))),
        (SameInterface, frame(v4, &ipv4([10, 81, 1, 3], 64, 8))),
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

/// Has the program forward a frame that comes from an interface. Returns what it answers, and the
/// frame afterwards.
fn forward(router: &Netns, program: &XdpRoute, from: u32, sent: &[u8]) -> (u32, Vec<u8>) {
    let mut got = vec![0; sent.len() + 64];
    // `struct xdp_md`, with the incoming interface.
    let mut context = [0, sent.len() as u32, 0, from, 0, 0];
    let answer = router.inside(|| {
        let xdp = program.programs().program("sw_xdp_route").unwrap();
        let run = ProgramInput {
            data_in: Some(sent),
            data_out: Some(&mut got),
            context_in: Some(context.as_mut_bytes()),
            ..ProgramInput::default()
        };
        let ran = xdp.test_run(run).unwrap();
        (ran.return_value, ran.data.map_or(0, |data| data.len()))
    });
    got.truncate(answer.1);
    (answer.0, got)
}

/// A frame with a tag.
fn tagged(tag: u16, frame: &[u8]) -> Vec<u8> {
    let tag = [0x81, 0, (tag >> 8) as u8, tag as u8];
    [&frame[..12], &tag, &frame[12..]].concat()
}

/// The test's own map of VLANs, for kernels that have none: r3 stands for the VLAN 7 of r0, and r2
/// for the VLAN 9 of r1.
#[test]
fn tags_of_vlans() {
    if !can() {
        return;
    }
    let Some(network) = Network::new() else {
        return;
    };
    let router = &network.router;
    let [r0, r1, r2, r3] = ["r0", "r1", "r2", "r3"].map(|name| router.index(name));
    let far = [2, 0, 0, 0, 7, 2];
    for (via, interface) in [("10.81.2.2", "r1"), ("10.81.3.2", "r2")] {
        let mut args = vec!["neigh", "replace", via, "lladdr", "02:00:00:00:07:02"];
        args.extend(["dev", interface, "nud", "permanent"]);
        router.ip(&args);
    }
    router.ip(&["route", "add", "10.81.10.0/24", "via", "10.81.3.2"]);
    let arena = BpfArena::create(16 << 20).unwrap();
    for mut program in [
        XdpRoute::resolver(&arena).unwrap().into(),
        cached(&arena, Duration::from_secs(60)),
        mirrored(&arena, router),
    ] {
        let mode = program.mode();
        router
            .inside(|| program.attach(r0, None).map(drop))
            .unwrap();
        let vlans = program.programs().map("sw_xdp_vlans").unwrap();
        let set = |key: u64, value: u64| {
            let (key, value) = (key.to_ne_bytes(), value.to_ne_bytes());
            vlans.update(&key, &value, MapFlags::ANY).unwrap();
        };
        let id = |of: u32, id: u64| u64::from(of) << 16 | id;
        set(1 << 63 | id(r0, 7), r3.into());
        set(r2.into(), id(r1, 9));
        if let Some(tables) = program.tables() {
            let (net, mut hop) = tables.map().lookup([10, 81, 10, 1].into()).unwrap();
            assert_eq!((hop.action, hop.ifindex), (MirrorHop::FORWARD, r2));
            hop.action = MirrorHop::TAGGED;
            tables.map().insert(net, hop).unwrap();
        }
        let plain = frame(0x0800, &ipv4([10, 81, 9, 1], 64, 8));
        let other = frame(0x0800, &ipv4([10, 81, 10, 1], 64, 8));
        for (tag, priority) in [
            (None, 0),
            // The VLAN 7 with the priority 5.
            (Some(0xa007), 0xa000),
            // A tag that has only a priority.
            (Some(0x6000), 0x6000),
        ] {
            for (frame, near, vlan) in [(&plain, "r1", None), (&other, "r2", Some(9))] {
                // A VLAN's packets have sources that are reached by it.
                let source = if tag == Some(0xa007) { 4 } else { 1 };
                let ip = from(frame[14..].to_vec(), [10, 81, source, 2]);
                let frame = &[&frame[..14], &ip].concat();
                let sent = tag.map_or(frame.clone(), |tag| tagged(tag, frame));
                let (answer, got) = forward(router, &program, r0, &sent);
                assert_eq!(answer, 4, "{mode} {tag:x?} {vlan:?}");
                let mut wanted = frame.clone();
                wanted[..6].copy_from_slice(&far);
                wanted[6..12].copy_from_slice(&router.mac(near));
                wanted[22] -= 1;
                wanted[24..26].fill(0);
                let sum = checksum(&wanted[14..34]);
                wanted[24..26].copy_from_slice(&sum.to_be_bytes());
                if let Some(vlan) = vlan {
                    wanted = tagged(vlan | priority, &wanted);
                }
                assert_eq!(got, wanted, "{mode} {tag:x?} {vlan:?}");
            }
        }
        let passes = |verdict, sent: Vec<u8>| {
            let before = program.counts().unwrap();
            let (answer, got) = forward(router, &program, r0, &sent);
            let counts = program.counts().unwrap().since(&before);
            assert_eq!((answer, counts.get(verdict)), (2, 1), "{mode} {counts:?}");
            assert_eq!(got, sent);
        };
        // Packets to the source leave elsewhere, and rp_filter of a VLAN is not known.
        passes(Source, tagged(7, &plain));
        // A VLAN that this machine does not have, two tags, and a tag without a packet.
        passes(Other, tagged(8, &plain));
        passes(Other, tagged(7, &tagged(7, &plain)));
        passes(Malformed, tagged(7, &plain)[..16].to_vec());
        passes(Malformed, tagged(7, &plain)[..30].to_vec());
        // A VLAN to which programs cannot send.
        set(r2.into(), 0);
        if mode != RouteMode::Cache {
            passes(NoRoute, other.clone());
        }
        // There is no VLAN in truth.
        assert_eq!(router.inside(|| program.update_vlans()).unwrap(), 0);
        assert_eq!(vlans.keys().count(), 0);
        passes(Other, tagged(7, &plain));
        if mode == RouteMode::Table {
            passes(NoRoute, other.clone());
        }
    }
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
    let mut args = vec![
        "neigh",
        "replace",
        "10.81.1.3",
        "lladdr",
        "02:00:00:00:07:03",
    ];
    args.extend(["dev", "r0", "nud", "permanent"]);
    router.ip(&args);
    for mode in [RouteMode::Resolver, RouteMode::Cache, RouteMode::Table] {
        let cache = mode == RouteMode::Cache;
        let mut program = match mode {
            RouteMode::Cache => cached(&arena, Duration::from_secs(60)),
            RouteMode::Table => mirrored(&arena, router),
            _ => XdpRoute::resolver(&arena).unwrap().into(),
        };
        let index = router.index("r0");
        router
            .inside(|| program.attach(index, None).map(|link| link.mode()))
            .unwrap();
        let mut wanted = RouteCounts::default();
        for (round, (verdict, sent)) in
            (0..3).flat_map(|n| frames().into_iter().map(move |f| (n, f)))
        {
            let before = program.counts().unwrap();
            let (answer, got) = forward(router, &program, index, &sent);
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
                assert_eq!(checksum(&got[14..34]), 0);
            }
            let same = |from: usize, to: usize| got[from..to] == sent[from..to];
            match is_v4 {
                true => assert!(same(12, 22) && same(23, 24) && same(26, sent.len())),
                false => assert!(same(12, 21) && same(22, sent.len())),
            }
        }
        assert_eq!(wanted.total(), 3 * frames().len() as u64);
        assert_eq!(wanted.forwarded(), 3 * 7);
        assert!(if cache {
            wanted.get(Resolved) == 5
        } else {
            wanted.get(Cached) == 0
        });
        let names: Vec<_> = wanted.iter().map(|(verdict, _)| verdict.name()).collect();
        assert_eq!(names.len(), RouteVerdict::ALL.len());
    }
}

/// Routes get an MTU of their own and lose it, and the program hears of it.
#[test]
fn routes_get_an_mtu() {
    if !can() {
        return;
    }
    let Some(network) = Network::new() else {
        return;
    };
    let router = &network.router;
    let index = router.index("r0");
    for via in ["10.81.2.2", "fd81:2::2"] {
        let mut args = vec!["neigh", "replace", via, "lladdr", "02:00:00:00:07:02"];
        args.extend(["dev", "r1", "nud", "permanent"]);
        router.ip(&args);
    }
    let arena = BpfArena::create(16 << 20).unwrap();
    let resolver: XdpRouter = XdpRoute::resolver(&arena).unwrap().into();
    for mut program in [resolver, cached(&arena, Duration::from_secs(60))] {
        let attached = router.inside(|| program.attach(index, None).map(drop));
        attached.unwrap();
        let net = [0xfd, 0x81];
        let frames = [1300, 1301].map(|bytes: usize| {
            let four = frame(0x0800, &ipv4([10, 81, 9, 1], 64, bytes - 20));
            let six = frame(0x86dd, &ipv6(net, net, 17, 64, bytes - 40));
            [four, six]
        });
        let update = || router.inside(|| program.update_mtus()).unwrap();
        let forwarded = |bytes: usize| {
            let both = frames[bytes - 1300].each_ref();
            both.map(|frame| forward(router, &program, index, frame).0 == 4)
        };
        assert_eq!(update(), 0);
        assert_eq!((forwarded(1300), forwarded(1301)), ([true; 2], [true; 2]));
        for (prefix, via, count) in [
            ("10.81.9.0/24", "10.81.2.2", 1),
            ("fd81:9::/64", "fd81:2::2", 2),
        ] {
            router.ip(&["route", "replace", prefix, "via", via, "mtu", "1300"]);
            assert_eq!(update(), count);
            assert_eq!(forwarded(1300), [true; 2]);
            assert_eq!(forwarded(1301), [false, count == 1]);
        }
        // Another route, and one that replaces the first.
        router.ip(&["route", "add", "10.81.77.0/24", "via", "10.81.2.2"]);
        assert_eq!(update(), 2);
        let plain = ["route", "replace", "10.81.9.0/24", "via", "10.81.2.2"];
        router.ip(&plain);
        assert_eq!(update(), 1);
        assert_eq!(forwarded(1301), [true, false]);
        router.ip(&["route", "del", "fd81:9::/64"]);
        assert_eq!(update(), 0);
        let six = ["route", "add", "fd81:9::/64", "via", "fd81:2::2"];
        router.ip(&six);
        assert_eq!((update(), forwarded(1301)), (0, [true; 2]));
        router.ip(&["route", "del", "10.81.77.0/24"]);
        assert_eq!(program.counts().unwrap().get(TooLong), 4);
    }
}
