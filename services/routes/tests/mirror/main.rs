//! The mirror of the kernel's routes, in network namespaces, compared with `ip route`.
#![cfg(feature = "bpf")]

#[path = "../../../../kernel/bpf/tests/common/mod.rs"]
mod common;
mod injected;
mod own_table;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::netns::Netns;
use ipnet::IpNet;
use sapwood_bpf::{BpfArena, FibMap, GroupMap, HopTables, IpMap, MirrorHop};
use sapwood_routes::{MirrorTables, RouteMirror, RouteMirrorBuilder};

/// The time that the mirror may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// The next hop of each prefix: interface and gateway, or `None` for a route that is left to the
/// kernel.
type Table = BTreeMap<IpNet, Option<(u32, Option<IpAddr>)>>;

/// A router with two cables, its mirror, and the namespaces at the other ends.
struct Setup {
    router: Netns,
    _ends: [Netns; 2],
    mirror: RouteMirror<HopTables>,
    ports: [u32; 2],
}

fn setup(buffer: usize) -> Option<Setup> {
    setup_with(buffer, |arena| {
        IpMap::new(arena, "routes", 16 << 20).unwrap()
    })
}

/// A setup whose mirror writes groups into a map for this many, of three members at most.
fn setup_with_groups(groups: usize) -> Option<Setup> {
    setup_by(|arena| {
        let builder = GroupMap::builder(arena, "groups");
        let groups = builder.groups(groups).members(3).build().unwrap();
        let map = IpMap::new(arena, "routes", 16 << 20).unwrap();
        RouteMirror::builder(Arc::new(HopTables::new(map).with_groups(groups)))
    })
}

fn setup_with(buffer: usize, map: impl FnOnce(&BpfArena) -> IpMap<MirrorHop>) -> Option<Setup> {
    setup_by(|arena| {
        let tables = Arc::new(HopTables::new(map(arena)));
        RouteMirror::builder(tables).receive_buffer(buffer)
    })
}

fn setup_by(builder: impl FnOnce(&BpfArena) -> RouteMirrorBuilder<HopTables>) -> Option<Setup> {
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
    let builder = builder(&arena);
    let mirror = router.inside(|| builder.start().unwrap());
    Some(Setup {
        ports: [router.index("r0"), router.index("r1")],
        router,
        _ends: [left, right],
        mirror,
    })
}

fn hop(mirror: &RouteMirror<HopTables>, address: &str) -> Option<MirrorHop> {
    let found = mirror.tables().map().lookup(address.parse().unwrap());
    found.map(|(_, hop)| hop)
}

/// Waits until a condition holds.
#[track_caller]
fn soon<T: MirrorTables>(what: &str, mirror: &RouteMirror<T>, mut test: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !test() {
        assert!(begin.elapsed() < PATIENCE, "{what}: {:?}", mirror.stats());
        std::thread::sleep(Duration::from_millis(2));
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
        let known = found.map(|hop| (hop.ifindex, hop.gateway()));
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
        self.mirror.tables().map().verify().unwrap();
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
        let map = self.mirror.tables().map();
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
                known.insert(net, ours.then_some((hop.ifindex, hop.gateway())));
            }
        }
        (kernel, known)
    }
}

/// The members of a route with several paths: interface, gateway and weight.
type Paths = BTreeSet<(u32, IpAddr, u32)>;

impl Setup {
    /// The routes of the kernel's main table that have several paths.
    fn kernel_paths(&self) -> BTreeMap<IpNet, Paths> {
        let mut all = BTreeMap::new();
        for family in ["-4", "-6"] {
            let shown = self.router.ip(&["-o", family, "route", "show"]);
            for line in shown.lines() {
                let (net, paths) = line.split_once(' ').unwrap();
                let mut hops = paths.split("nexthop").skip(1).peekable();
                if hops.peek().is_none() {
                    continue;
                }
                let hops = hops.map(|hop| {
                    let words: Vec<&str> = hop.split_whitespace().collect();
                    let behind = |word| {
                        let at = words.iter().position(|w| *w == word).unwrap();
                        words[at + 1]
                    };
                    let port = usize::from(behind("dev") == "r1");
                    let weight = behind("weight").parse().unwrap();
                    (self.ports[port], behind("via").parse().unwrap(), weight)
                });
                all.insert(net.parse().unwrap(), hops.collect());
            }
        }
        all
    }

    /// The same in the mirror's tables and groups.
    fn mirror_paths(&self) -> BTreeMap<IpNet, Paths> {
        let (map, groups) = (
            self.mirror.tables().map(),
            self.mirror.tables().groups().unwrap(),
        );
        let (four, six) = (map.v4().snapshot(), map.v6().snapshot());
        let four = four.iter().map(|(net, hop)| (IpNet::from(net), *hop));
        let six = six.iter().map(|(net, hop)| (IpNet::from(net), *hop));
        let several = four
            .chain(six)
            .filter(|(_, hop)| hop.action == MirrorHop::GROUP);
        let paths = |hop: MirrorHop| {
            let members = groups.members(hop.ifindex as usize).unwrap_or_default();
            let path = |m: &sapwood_bpf::GroupMember| {
                assert_eq!(m.link, m.hop.ifindex);
                (m.link, m.hop.gateway().unwrap(), m.weight)
            };
            members.iter().map(path).collect()
        };
        several.map(|(net, hop)| (net, paths(hop))).collect()
    }
}

#[test]
fn several_paths_become_groups() {
    let Some(setup) = setup_with_groups(100) else {
        return;
    };
    let groups = setup.mirror.tables().groups().unwrap();
    for (change, routes) in [
        (
            "route add 10.9.0.0/16 nexthop via 10.1.0.2 nexthop via 10.2.0.2 weight 3",
            1,
        ),
        (
            "route add 10.8.0.0/16 nexthop via 10.1.0.2 nexthop via 10.2.0.2 weight 3",
            2,
        ),
        (
            "-6 route add fd09::/16 nexthop via fd01::2 nexthop via fd02::2",
            3,
        ),
        ("-6 route append fd09::/16 via fd02::3", 3),
        ("-6 route del fd09::/16 via fd01::2", 3),
        ("-6 route add fd08::/16 via fd01::2", 3),
        ("-6 route append fd08::/16 via fd01::7", 4),
        ("-6 route del fd08::/16 via fd01::2", 3),
        (
            "route replace 10.9.0.0/16 nexthop via 10.1.0.2 nexthop via 10.2.0.9",
            3,
        ),
        (
            "route append 10.9.0.0/16 nexthop via 10.1.0.5 nexthop via 10.1.0.6",
            3,
        ),
        ("nexthop add id 1 via 10.1.0.2 dev r0", 3),
        ("nexthop add id 2 via 10.2.0.2 dev r1", 3),
        ("nexthop add id 9 group 1/2,5", 3),
        ("route add 10.7.0.0/16 nhid 9", 4),
        ("nexthop replace id 2 via 10.2.0.7 dev r1", 4),
        ("nexthop add id 3 via 10.2.0.8 dev r1", 4),
        ("nexthop replace id 9 group 1,4/3,2", 4),
        ("route add 10.6.0.0/16 nhid 3", 4),
        ("nexthop add id 4 via fd01::2 dev r0", 4),
        ("nexthop add id 5 via fd02::2 dev r1", 4),
        ("nexthop add id 8 group 4,200/5,50", 4),
        ("-6 route add fd07::/16 nhid 8", 5),
        // The kernel removes the next-hop objects of the link.
        ("link set r1 mtu 1400", 5),
    ] {
        setup.ip(change);
        soon(change, &setup.mirror, || {
            let (kernel, ours) = (setup.kernel_paths(), setup.mirror_paths());
            // A route of IPv4 that was appended is behind the other one.
            kernel.len() == routes
                && kernel.iter().all(|(net, hops)| {
                    ours.get(net)
                        .is_some_and(|ours| ours == hops || net.to_string() == "10.9.0.0/16")
                })
                && ours.len() == routes
        });
        setup.mirror.tables().map().verify().unwrap();
    }
    assert_eq!(setup.mirror.stats().groups, 5);
    let of = |text: &str| hop(&setup.mirror, text).unwrap();
    let one = of("10.6.1.1");
    assert_eq!(
        (one.ifindex, one.gateway()),
        (setup.ports[1], "10.2.0.8".parse().ok())
    );
    // The kernel resolves the gateways, although no packet has come.
    let mac = setup._ends[0].mac("l0");
    soon("a gateway", &setup.mirror, || {
        let members = groups.members(of("10.7.1.1").ifindex as usize).unwrap();
        members
            .iter()
            .any(|m| m.hop.action == MirrorHop::FORWARD && m.hop.dmac == mac)
    });
    // Objects whose routes the kernel announces without their paths.
    let out = setup
        .router
        .run(&["sysctl", "-qw", "net.ipv4.nexthop_compat_mode=0"]);
    assert!(out.status.success(), "{out:?}");
    let paths = |text: &str| {
        setup
            .mirror_paths()
            .get(&text.parse::<IpNet>().unwrap())
            .cloned()
    };
    let is = |text: &str, hops: &[(usize, &str, u32)]| {
        let hops = hops
            .iter()
            .map(|(port, via, weight)| (setup.ports[*port], via.parse().unwrap(), *weight));
        let hops: Paths = hops.collect();
        soon(text, &setup.mirror, || paths(text).as_ref() == Some(&hops));
    };
    setup.ip("nexthop replace id 9 group 1,7/2,8");
    is("10.7.0.0/16", &[(0, "10.1.0.2", 7), (1, "10.2.0.7", 8)]);
    setup.ip("nexthop replace id 1 via 10.1.0.77 dev r0");
    is("10.7.0.0/16", &[(0, "10.1.0.77", 7), (1, "10.2.0.7", 8)]);
    setup.ip("nexthop replace id 3 via 10.1.0.3 dev r0");
    soon("one path", &setup.mirror, || {
        of("10.6.1.1").gateway() == "10.1.0.3".parse().ok()
    });
    // An object that grows beyond the room of a group, and shrinks.
    setup.ip("nexthop add id 11 via 10.1.0.11 dev r0");
    setup.ip("nexthop add id 12 via 10.1.0.12 dev r0");
    setup.ip("nexthop replace id 9 group 1/2/11/12");
    soon("too many", &setup.mirror, || paths("10.7.0.0/16").is_none());
    setup.ip("nexthop replace id 9 group 1,7/2,8");
    is("10.7.0.0/16", &[(0, "10.1.0.77", 7), (1, "10.2.0.7", 8)]);
    setup.ip("nexthop del id 2");
    is("10.7.0.0/16", &[(0, "10.1.0.77", 7)]);
    // More members than the map has room for, a path without gateway, and a blackhole.
    setup.ip("route add 10.5.0.0/16 nexthop via 10.1.0.2 nexthop via 10.1.0.3 nexthop via 10.1.0.4 nexthop via 10.1.0.5");
    setup.ip("route add 10.4.0.0/16 nexthop via 10.1.0.2 nexthop dev r1");
    setup.ip("nexthop add id 6 blackhole");
    setup.ip("route add 10.3.0.0/16 nhid 6");
    for address in ["10.5.1.1", "10.4.1.1", "10.3.1.1"] {
        soon(address, &setup.mirror, || {
            hop(&setup.mirror, address).is_some_and(|hop| hop.action == MirrorHop::KERNEL)
        });
    }
    // The kernel removes routes with their objects.
    setup.ip("nexthop del id 9");
    soon("no route", &setup.mirror, || {
        hop(&setup.mirror, "10.7.1.1").is_none()
    });
    for gone in [
        "route flush 10.9.0.0/16",
        "route flush 10.8.0.0/16",
        "-6 route flush fd09::/16",
        "-6 route flush fd07::/16",
    ] {
        setup.ip(gone);
    }
    soon("no groups", &setup.mirror, || {
        setup.mirror.stats().groups == 0
    });
    assert_eq!(setup.mirror_paths(), BTreeMap::new());
    assert!((0..100).all(|group| groups.members(group).is_none()));
    assert_eq!(setup.mirror.stats().failure, None);
}

#[test]
fn groups_without_room_are_the_kernels() {
    let Some(setup) = setup_with_groups(2) else {
        return;
    };
    let add = |net: u32| {
        setup.ip(&format!(
            "route add 10.9.{net}.0/24 nexthop via 10.1.0.2 nexthop via 10.2.0.{net}"
        ));
    };
    let several = |net: u32| {
        let found = hop(&setup.mirror, &format!("10.9.{net}.1"));
        found.is_some_and(|hop| hop.action == MirrorHop::GROUP)
    };
    for net in 2..5 {
        add(net);
        soon("a route", &setup.mirror, || {
            hop(&setup.mirror, &format!("10.9.{net}.1")).is_some()
        });
    }
    assert!(several(2) && several(3) && !several(4));
    setup.ip("route del 10.9.2.0/24");
    setup.ip("route del 10.9.4.0/24");
    soon("a route less", &setup.mirror, || {
        setup.mirror.stats().groups == 1
    });
    add(5);
    soon("the free number", &setup.mirror, || several(5));
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
        hop(&setup.mirror, "fd0a::1").unwrap().gateway(),
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
    setup.mirror.tables().map().verify().unwrap();
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
    setup.mirror.tables().map().verify().unwrap();
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
    setup.mirror.tables().map().verify().unwrap();
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
    setup.mirror.tables().map().verify().unwrap();
}
