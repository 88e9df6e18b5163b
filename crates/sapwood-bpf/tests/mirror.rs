//! The mirror of the kernel's routes, in network namespaces, compared with `ip route`.
#![cfg(feature = "kernel")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use common::netns::Netns;
use ipnet::IpNet;
use sapwood_bpf::layout::MirrorHop;
use sapwood_bpf::{BpfArena, FibMap, IpMap, RouteMirror};

/// The time that the mirror may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// The next hop of each prefix: interface and gateway, or `None` for a route that is left to the
/// kernel.
type Table = BTreeMap<IpNet, Option<(u32, Option<IpAddr>)>>;

/// A router with two cables, its mirror, and the namespaces at the other ends.
struct Setup {
    router: Netns,
    _ends: [Netns; 2],
    mirror: RouteMirror,
    ports: [u32; 2],
}

fn setup(buffer: usize) -> Option<Setup> {
    setup_with(buffer, |arena| {
        IpMap::new(arena, "routes", 16 << 20).unwrap()
    })
}

fn setup_with(buffer: usize, map: impl FnOnce(&BpfArena) -> IpMap<MirrorHop>) -> Option<Setup> {
    if let Err(why) = sapwood_bpf::check() {
        println!("skipped: {why}");
        return None;
    }
    let [router, left, right] = Netns::some(["router", "left", "right"])?;
    Netns::veth(
        (&router, "r0", &["10.1.0.1/24", "fd01::1/64"]),
        (&left, "l0", &["10.1.0.2/24", "fd01::2/64"]),
    );
    Netns::veth(
        (&router, "r1", &["10.2.0.1/24", "fd02::1/64"]),
        (&right, "e0", &["10.2.0.2/24", "fd02::2/64"]),
    );
    let arena = BpfArena::create(64 << 20).unwrap();
    let builder = RouteMirror::builder(map(&arena)).receive_buffer(buffer);
    let mirror = router.inside(|| builder.start().unwrap());
    Some(Setup {
        ports: [router.index("r0"), router.index("r1")],
        router,
        _ends: [left, right],
        mirror,
    })
}

fn hop(mirror: &RouteMirror, address: &str) -> Option<MirrorHop> {
    let found = mirror.map().lookup(address.parse().unwrap());
    found.map(|(_, hop)| hop)
}

/// Waits until a condition holds.
#[track_caller]
fn soon(what: &str, mirror: &RouteMirror, mut test: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !test() {
        assert!(begin.elapsed() < PATIENCE, "{what}: {:?}", mirror.stats());
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn gateway(hop: &MirrorHop) -> Option<IpAddr> {
    match hop.family {
        2 => Some(IpAddr::from(
            <[u8; 4]>::try_from(&hop.gateway[..4]).unwrap(),
        )),
        10 => Some(IpAddr::from(hop.gateway)),
        _ => None,
    }
}

impl Setup {
    fn ip(&self, text: &str) {
        self.router.ip(&text.split_whitespace().collect::<Vec<_>>());
    }

    /// The answer of `ip route get` for an address, as the mirror should have it: interface and
    /// gateway, or `None` for a route that is left to the kernel.
    fn kernel_says(&self, address: &str) -> Option<(u32, Option<IpAddr>)> {
        let output = self.router.run(&["ip", "-o", "route", "get", address]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut words = text.split_whitespace();
        let other = ["local", "unreachable", "prohibit", "blackhole", "broadcast"];
        if !output.status.success() || words.next().is_none_or(|word| other.contains(&word)) {
            return None;
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let behind = |word| {
            words
                .iter()
                .position(|w| *w == word)
                .map(|at| words[at + 1])
        };
        let index = match behind("dev")? {
            "r0" => self.ports[0],
            "r1" => self.ports[1],
            _ => return None,
        };
        Some((index, behind("via").map(|text| text.parse().unwrap())))
    }

    /// Whether the mirror agrees with the kernel.
    fn agree(&self, address: &str) -> bool {
        let found = hop(&self.mirror, address).filter(|hop| hop.action != MirrorHop::KERNEL);
        let known = found.map(|hop| (hop.ifindex, gateway(&hop)));
        known == self.kernel_says(address)
    }

    #[track_caller]
    fn all_agree(&self, what: &str) {
        let addresses = [
            "10.1.0.1",
            "10.1.0.2",
            "10.1.0.9",
            "10.2.0.77",
            "10.9.0.1",
            "10.9.1.1",
            "10.9.1.200",
            "192.0.2.1",
            "198.51.100.9",
            "fd01::1",
            "fd01::2",
            "fd02::99",
            "fd09::1",
            "fd09:1::1",
            "2001:db8::1",
        ];
        for address in addresses {
            soon(&format!("{what}: {address}"), &self.mirror, || {
                self.agree(address)
            });
        }
        self.mirror.map().verify().unwrap();
    }

    /// The best route of each prefix in the kernel's tables, or `None` where it is left to the
    /// kernel.
    fn kernel_tables(&self) -> Table {
        let mut all = BTreeMap::new();
        for (family, table) in [
            ("-4", "local"),
            ("-6", "local"),
            ("-4", "main"),
            ("-6", "main"),
        ] {
            let every = if family == "-4" { "0.0.0.0/0" } else { "::/0" };
            let shown = self
                .router
                .ip(&["-o", family, "route", "show", "table", table]);
            for line in shown.lines() {
                let words: Vec<&str> = line.split_whitespace().collect();
                let net = words.iter().take(2).find_map(|word| match *word {
                    "default" => every.parse().ok(),
                    _ => word
                        .parse::<IpNet>()
                        .ok()
                        .or(word.parse().map(IpAddr::into).ok()),
                });
                let net = net.unwrap_or_else(|| panic!("no prefix in {line}"));
                // Other lines begin with their type: "local", "unreachable".
                let plain = words[0] == "default" || words[0].contains(['.', ':']);
                let ours = plain && !words.contains(&"nexthop") && !words[0].starts_with("fe80");
                let behind = |word| {
                    words
                        .iter()
                        .position(|w| *w == word)
                        .map(|at| words[at + 1])
                };
                let port = ["r0", "r1"]
                    .iter()
                    .position(|name| Some(*name) == behind("dev"));
                let port = port.filter(|_| ours);
                let via = behind("via").map(|text| text.parse().unwrap());
                let hop = port.map(|port| (self.ports[port], via));
                let rank = (table, behind("metric").map(str::to_owned));
                let (before, best) = all.entry(net).or_insert_with(|| (rank.clone(), hop));
                // Several IPv6 routes of one rank count as one route with several next hops.
                if *before == rank && *best != hop && family == "-6" {
                    *best = None;
                }
            }
        }
        all.into_iter().map(|(net, (_, hop))| (net, hop)).collect()
    }

    /// Whether the tables are equal, except for the mirror's neighbours.
    fn same_tables(&self) -> bool {
        let (kernel, known) = self.both_tables();
        known == kernel
    }

    /// The differences, for people.
    fn difference(&self) -> String {
        let (kernel, known) = self.both_tables();
        let nets: BTreeSet<&IpNet> = kernel.keys().chain(known.keys()).collect();
        let differs = nets.iter().filter(|net| kernel.get(net) != known.get(net));
        differs.fold(String::new(), |text, net| {
            text + &format!(
                "{net}: kernel {:?}, mirror {:?}\n",
                kernel.get(net),
                known.get(net)
            )
        })
    }

    /// The kernel's tables, and the mirror's.
    fn both_tables(&self) -> (Table, Table) {
        let kernel = self.kernel_tables();
        let map = self.mirror.map();
        let four = map.v4().snapshot();
        let six = map.v6().snapshot();
        let four = four.iter().map(|(net, hop)| (IpNet::from(net), *hop));
        let six = six.iter().map(|(net, hop)| (IpNet::from(net), *hop));
        let mut known = BTreeMap::new();
        for (net, hop) in four.chain(six) {
            let host = net.prefix_len() == net.max_prefix_len();
            let neighbour = host && hop.action == MirrorHop::FORWARD && hop.family == 0;
            if kernel.contains_key(&net) || !neighbour {
                let ours = hop.action != MirrorHop::KERNEL;
                known.insert(net, ours.then_some((hop.ifindex, gateway(&hop))));
            }
        }
        (kernel, known)
    }
}

#[test]
fn routes_come_and_go() {
    let Some(setup) = setup(1 << 20) else { return };
    setup.all_agree("at first");
    assert!(setup.same_tables());
    // After each change, the mirror is compared with the kernel.
    for change in [
        "route add default via 10.1.0.2",
        "route add 10.9.0.0/16 via 10.2.0.2",
        "route add 10.9.1.0/24 via 10.1.0.2",
        "route replace 10.9.1.0/24 via 10.2.0.2",
        "route add 10.9.1.0/25 via 10.1.0.7",
        "route add 192.0.2.0/24 via 10.1.0.2 metric 100",
        "route add 192.0.2.0/24 via 10.2.0.2 metric 50",
        "route append 192.0.2.0/24 via 10.1.0.3 metric 50",
        "route prepend 192.0.2.0/24 via 10.1.0.4 metric 50",
        "route del 192.0.2.0/24 via 10.1.0.4 metric 50",
        "route del 192.0.2.0/24 via 10.2.0.2 metric 50",
        "route del 192.0.2.0/24 metric 50",
        "route add unreachable 198.51.100.0/24",
        "route replace 198.51.100.0/24 dev r1",
        "route del 10.9.1.0/24",
        "route del 10.9.0.0/16",
        "route del default",
        "-6 route add default via fd01::2",
        "-6 route add fd09::/32 via fd02::2",
        "-6 route add fd09:1::/64 via fd01::2",
        "-6 route replace fd09:1::/64 via fd02::2",
        "-6 route add 2001:db8::/32 via fd01::2 metric 10",
        "-6 route add 2001:db8::/32 via fd02::2 metric 5",
        "-6 route del 2001:db8::/32 metric 5",
        "-6 route add prohibit 2001:db8::/48",
        "-6 route del default",
        "addr add 10.9.0.1/24 dev r1",
        "addr del 10.9.0.1/24 dev r1",
        "link set r0 down",
        "link set r0 up",
        "link set r1 mtu 1400",
    ] {
        setup.ip(change);
        soon(change, &setup.mirror, || setup.same_tables());
    }
    setup.all_agree("at last");
    let right = hop(&setup.mirror, "10.2.0.88").unwrap();
    assert_eq!((right.mtu, right.action), (1400, MirrorHop::RESOLVE));
    assert_eq!(right.smac, setup.router.mac("r1"));
    // Routes with several next hops are left to the kernel.
    setup.ip("route add 10.9.0.0/16 nexthop via 10.1.0.2 nexthop via 10.2.0.2");
    soon("two next hops", &setup.mirror, || {
        hop(&setup.mirror, "10.9.3.3").is_some_and(|hop| hop.action == MirrorHop::KERNEL)
    });
    // A second next hop, which the kernel announces and withdraws separately.
    let is = |action: u8| {
        soon("several next hops", &setup.mirror, || {
            hop(&setup.mirror, "fd0a::1").is_some_and(|hop| hop.action == action)
        });
    };
    setup.ip("-6 route add fd0a::/16 via fd02::2");
    is(MirrorHop::RESOLVE);
    setup.ip("-6 route append fd0a::/16 via fd02::3");
    is(MirrorHop::KERNEL);
    setup.ip("-6 route del fd0a::/16 via fd02::2");
    is(MirrorHop::RESOLVE);
    assert_eq!(
        gateway(&hop(&setup.mirror, "fd0a::1").unwrap()),
        "fd02::3".parse().ok()
    );
    let stats = setup.mirror.stats();
    assert!(stats.notices > 20 && stats.changes > 20, "{stats:?}");
    assert_eq!((stats.lost, stats.failure), (0, None));
}

#[test]
fn neighbours_come_and_go() {
    let Some(setup) = setup(1 << 20) else { return };
    let is = |address: &str, action: u8, dmac: [u8; 6]| {
        let what = format!("{address} {action} {dmac:?}");
        soon(&what, &setup.mirror, || {
            hop(&setup.mirror, address).is_some_and(|hop| hop.action == action && hop.dmac == dmac)
        });
    };
    let unknown = [0; 6];
    setup.ip("route add 10.9.0.0/16 via 10.1.0.5");
    setup.ip("-6 route add fd09::/16 via fd01::5");
    for address in ["10.1.0.5", "10.9.1.1", "fd01::5", "fd09::1"] {
        is(address, MirrorHop::RESOLVE, unknown);
    }
    for (address, also) in [("10.1.0.5", "10.9.1.1"), ("fd01::5", "fd09::1")] {
        let mac = [2, 0, 0, 0, 0, 5];
        setup.ip(&format!(
            "neigh add {address} lladdr 02:00:00:00:00:05 dev r0"
        ));
        is(also, MirrorHop::FORWARD, mac);
        is(address, MirrorHop::FORWARD, mac);
        setup.ip(&format!(
            "neigh replace {address} lladdr 02:00:00:00:00:06 dev r0"
        ));
        is(also, MirrorHop::FORWARD, [2, 0, 0, 0, 0, 6]);
        is(address, MirrorHop::FORWARD, [2, 0, 0, 0, 0, 6]);
        setup.ip(&format!("neigh del {address} dev r0"));
        is(also, MirrorHop::RESOLVE, unknown);
        is(address, MirrorHop::RESOLVE, unknown);
    }
    // A neighbour that the kernel resolves by itself.
    let mac = setup._ends[1].mac("e0");
    for address in ["10.2.0.2", "fd02::2"] {
        let output = setup.router.run(&["ping", "-c1", "-W2", address]);
        assert!(output.status.success());
        is(address, MirrorHop::FORWARD, mac);
    }
    // Neighbours of a network are none for a longer prefix with another path.
    setup.ip("route add 10.2.0.0/30 via 10.1.0.9");
    soon("by another way", &setup.mirror, || {
        hop(&setup.mirror, "10.2.0.2").is_some_and(|hop| hop.ifindex == setup.ports[0])
    });
    setup.ip("route del 10.2.0.0/30");
    is("10.2.0.2", MirrorHop::FORWARD, mac);
    setup.mirror.map().verify().unwrap();
}

#[test]
fn lost_notifications_are_made_up_for() {
    // The kernel grants the smallest buffer, so a burst does not fit.
    let Some(setup) = setup(1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("batch");
    for round in 0..5 {
        let mut batch = String::new();
        for number in 0..2000 {
            let (high, low) = (100 + number / 250, number % 250);
            let (verb, via) = match (round, number % 3) {
                (0, _) => ("add", "via 10.1.0.2"),
                (4, _) => ("del", ""),
                (_, 0) => ("replace", "via 10.2.0.2"),
                (_, which) => ("replace", ["", "via 10.1.0.3", "via 10.2.0.9"][which]),
            };
            writeln!(batch, "route {verb} 10.{high}.{low}.0/24 {via}").unwrap();
            writeln!(
                batch,
                "route {verb} fd10:{high}:{low}::/48 {}",
                via.replace("10.1.0.", "fd01::")
                    .replace("10.2.0.", "fd02::")
            )
            .unwrap();
        }
        std::fs::write(&file, batch).unwrap();
        setup.router.ip(&["-batch", file.to_str().unwrap()]);
        soon("all are there", &setup.mirror, || setup.same_tables());
        for address in [
            "10.100.0.1",
            "10.104.7.7",
            "10.107.249.1",
            "fd10:100:1::1",
            "fd10:103:200::",
        ] {
            soon(address, &setup.mirror, || setup.agree(address));
        }
    }
    let stats = setup.mirror.stats();
    assert!(stats.lost > 0 && stats.dumps > 1, "{stats:?}");
    assert_eq!(stats.failure, None);
    setup.mirror.map().verify().unwrap();
    println!("{stats:?}");
}

/// After any changes of the kernel's routes in any order, the mirror has the kernel's routes.
#[test]
fn random_changes() {
    let Some(setup) = setup(1 << 20) else { return };
    let seed = std::env::var("SAPWOOD_SEED").map_or(6, |text| text.parse().unwrap());
    let mut rng = fastrand::Rng::with_seed(seed);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("batch");
    for round in 0..20 {
        let mut batch = String::new();
        for _ in 0..40 {
            let six = rng.bool();
            let net = match six {
                true => format!("fd0{}:{}::/{}", rng.u8(3..5), rng.u8(0..3), rng.u8(30..36)),
                false => format!(
                    "10.{}.{}.0/{}",
                    rng.u8(3..5),
                    rng.u8(0..3) * 4,
                    rng.u8(20..25)
                ),
            };
            let by = |rng: &mut fastrand::Rng| match (six, rng.u8(1..3), rng.u8(2..5)) {
                (true, port, host) => format!("via fd0{port}::{host}"),
                (false, port, host) => format!("via 10.{port}.0.{host}"),
            };
            let via = match rng.u8(0..8) {
                0 => format!("nexthop {} nexthop {}", by(&mut rng), by(&mut rng)),
                1 => format!("dev r{}", rng.u8(0..2)),
                _ => by(&mut rng),
            };
            let verbs = [
                "add", "append", "prepend", "replace", "change", "del", "del",
            ];
            let verb = verbs[rng.usize(0..verbs.len())];
            let metric = rng.u8(1..4);
            match (verb, rng.u8(0..6)) {
                (_, 0) => writeln!(batch, "route {verb} unreachable {net} metric {metric}"),
                ("del", 1..4) => writeln!(batch, "route del {net}"),
                _ => writeln!(batch, "route {verb} {net} {via} metric {metric}"),
            }
            .unwrap();
        }
        if rng.u8(0..4) == 0 {
            writeln!(batch, "link set r1 down\nlink set r1 up").unwrap();
            writeln!(batch, "addr replace fd02::1/64 dev r1 nodad").unwrap();
        }
        std::fs::write(&file, batch).unwrap();
        // The kernel refuses some of the changes, which are skipped.
        setup
            .router
            .run(&["ip", "-force", "-batch", file.to_str().unwrap()]);
        let begin = Instant::now();
        while !setup.same_tables() {
            let told = std::fs::read_to_string(&file).unwrap();
            let stats = setup.mirror.stats();
            assert!(
                begin.elapsed() < PATIENCE,
                "seed {seed}, round {round}: {told}{}{stats:?}\n{}",
                setup.router.ip(&["-o", "route"]),
                setup.difference()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    setup.mirror.map().verify().unwrap();
    println!("{:?}", setup.mirror.stats());
}

/// Tables that are full refuse routes until there is room again.
#[test]
fn full_tables() {
    let small = |arena: &BpfArena| {
        let domain = sapwood_bpf::kernel_domain().unwrap();
        let four = FibMap::builder(arena, "four").root_bits(6).bytes(48 << 10);
        let six = FibMap::builder(arena, "six").root_bits(6).bytes(48 << 10);
        let (four, six) = (four.domain(&domain).build(), six.domain(&domain).build());
        IpMap::from_maps(four.unwrap(), six.unwrap())
    };
    let Some(setup) = setup_with(1 << 20, small) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("batch");
    for verb in ["add", "del"] {
        let mut batch = String::new();
        for number in 0..2000u32 {
            let [.., high, low] = (number * 29).to_be_bytes();
            writeln!(batch, "route {verb} 10.{high}.{low}.192/27 via 10.1.0.2").unwrap();
        }
        std::fs::write(&file, batch).unwrap();
        setup.router.ip(&["-batch", file.to_str().unwrap()]);
        match verb {
            "add" => soon("it is full", &setup.mirror, || {
                setup.mirror.stats().failure.is_some()
            }),
            _ => soon("there is room", &setup.mirror, || {
                setup.mirror.stats().failure.is_none() && setup.same_tables()
            }),
        }
    }
    assert!(setup.mirror.stats().refused > 0);
    setup.mirror.map().verify().unwrap();
}
