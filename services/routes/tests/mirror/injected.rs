//! Routes that a process injects beside the kernel's.

use std::sync::atomic::{AtomicBool, Ordering};

use sapwood_routes::Gateway;

use super::*;

type Change = (IpNet, Option<Arc<[Gateway]>>);

/// A change: a prefix, and gateways such as "10.1.0.5 10.2.0.5*3 10.2.0.6!" (with a weight; a
/// backup), or "-" for a removal, or "" for a route without any.
fn change(net: &str, gateways: &str) -> Change {
    let gateway = |text: &str| {
        let backup = text.ends_with('!');
        let text = text.trim_end_matches('!');
        let (address, weight) = text.split_once('*').unwrap_or((text, "1"));
        Gateway {
            address: address.parse().unwrap(),
            weight: weight.parse().unwrap(),
            backup,
        }
    };
    let all = (gateways != "-").then(|| gateways.split_whitespace().map(gateway).collect());
    (net.parse().unwrap(), all)
}

impl Setup {
    fn inject(&self, changes: &[(&str, &str)]) {
        let changes = changes.iter().map(|(net, gateways)| change(net, gateways));
        self.mirror.injector().inject(changes).unwrap();
    }

    fn neighbour(&self, address: &str, port: &str) {
        self.ip(&format!(
            "neigh replace {address} lladdr 02:00:00:00:00:05 dev {port}"
        ));
    }

    /// Waits until an address has this action and this gateway.
    #[track_caller]
    fn has(&self, address: &str, action: u8, gateway: Option<&str>) {
        let gateway = gateway.map(|text| text.parse().unwrap());
        soon(&format!("{address}: {action}"), &self.mirror, || {
            hop(&self.mirror, address)
                .is_some_and(|hop| hop.action == action && hop.gateway() == gateway)
        });
    }

    fn unresolved(&self) -> (u64, u64) {
        let stats = self.mirror.stats();
        (stats.injected, stats.unresolved)
    }
}

#[test]
fn injected_routes_follow_their_neighbours() {
    let Some(setup) = setup(1 << 20) else { return };
    const FORWARD: u8 = MirrorHop::FORWARD;
    setup.ip("route add default via 10.1.0.9");
    setup.inject(&[
        ("0.0.0.0/0", "10.1.0.2"),
        ("10.80.1.1/16", "10.2.0.2"),
        ("10.81.0.0/16", "10.2.0.77"),
        ("10.82.0.0/16", "192.0.2.1"),
        ("10.83.0.0/16", ""),
        ("10.84.0.0/16", "10.1.0.1"),
        ("fd80::/16", "fd02::2"),
        ("10.85.0.0/16", "fd01::2"),
        ("10.1.0.0/24", "10.2.0.2"),
        ("10.1.0.1/32", "10.2.0.2"),
        ("10.2.0.128/25", "10.1.0.2"),
        ("10.86.0.0/16", "10.2.0.2 10.1.0.2"),
    ]);
    // They are there at once, and the mirror asks for the hardware addresses of their gateways.
    assert_eq!(setup.mirror.stats().injected, 12);
    for (address, gateway) in [
        ("198.51.100.1", "10.1.0.2"),
        ("10.80.0.1", "10.2.0.2"),
        ("fd80::1", "fd02::2"),
        ("10.85.0.1", "fd01::2"),
        ("10.2.0.200", "10.1.0.2"),
    ] {
        setup.has(address, FORWARD, Some(gateway));
    }
    // No answer, not reached directly, without a gateway, an own address, several without groups.
    setup.has("10.81.0.1", MirrorHop::RESOLVE, Some("10.2.0.77"));
    for address in ["10.82.0.1", "10.83.0.1", "10.84.0.1", "10.86.0.1"] {
        setup.has(address, MirrorHop::KERNEL, None);
    }
    assert_eq!(setup.unresolved(), (12, 5));
    // Own addresses and networks come first.
    setup.has("10.1.0.1", MirrorHop::KERNEL, None);
    setup.has("10.1.0.9", MirrorHop::RESOLVE, None);
    // Neighbours, links and networks come and go.
    setup.neighbour("10.2.0.77", "r1");
    setup.has("10.81.0.1", FORWARD, Some("10.2.0.77"));
    setup.ip("neigh del 10.2.0.77 dev r1");
    setup.has("10.81.0.1", MirrorHop::RESOLVE, Some("10.2.0.77"));
    setup.ip("addr add 192.0.2.7/24 dev r0");
    setup.neighbour("192.0.2.1", "r0");
    setup.has("10.82.0.1", FORWARD, Some("192.0.2.1"));
    setup.ip("link set r1 down");
    setup.has("10.80.0.1", MirrorHop::KERNEL, None);
    setup.has("198.51.100.1", FORWARD, Some("10.1.0.2"));
    setup.ip("link set r1 up");
    setup.has("10.80.0.1", FORWARD, Some("10.2.0.2"));
    // What goes leaves what the kernel has.
    setup.inject(&[
        ("10.80.0.0/16", "10.1.0.2"),
        ("10.81.0.0/16", "10.1.0.2"),
        ("0.0.0.0/0", "-"),
        ("10.82.0.0/16", "-"),
        ("10.81.0.0/16", "-"),
    ]);
    assert_eq!(
        hop(&setup.mirror, "10.80.0.1").unwrap().gateway(),
        "10.1.0.2".parse().ok()
    );
    for address in ["198.51.100.1", "10.81.0.1", "10.82.0.1"] {
        setup.has(address, MirrorHop::RESOLVE, Some("10.1.0.9"));
    }
    setup.mirror.tables().map().verify().unwrap();
    assert_eq!(setup.mirror.stats().failure, None);
    let injector = setup.mirror.injector();
    drop(setup);
    let late = injector.inject([change("10.9.0.0/16", "10.1.0.2")]);
    assert!(
        late.unwrap_err()
            .to_string()
            .contains("the mirror has ended")
    );
}

#[test]
fn injected_groups_use_known_members() {
    let Some(setup) = setup_with_groups(2) else {
        return;
    };
    let groups = setup.mirror.tables().groups().unwrap();
    let members = |address: &str| {
        let found = hop(&setup.mirror, address).unwrap();
        let members = match found.action {
            MirrorHop::GROUP => groups.members(found.ifindex as usize).unwrap(),
            _ => Vec::new(),
        };
        let mut shown: Vec<_> = members
            .iter()
            .map(|m| (m.hop.gateway().unwrap().to_string(), m.weight, m.backup))
            .collect();
        shown.sort();
        shown
    };
    let of = |all: &[(&str, u32, bool)]| -> Vec<_> {
        let all = all
            .iter()
            .map(|(text, weight, backup)| ((*text).to_owned(), *weight, *backup));
        all.collect()
    };
    setup.inject(&[
        ("10.80.0.0/16", "10.1.0.5 10.2.0.5*3 10.2.0.6!"),
        ("fd80::/16", "10.1.0.5 10.2.0.5*3 10.2.0.6!"),
        ("10.81.0.0/16", "10.1.0.5 10.1.0.6 10.1.0.7 10.2.0.5"),
    ]);
    assert!(members("10.80.0.1").is_empty());
    assert_eq!(setup.unresolved(), (3, 3));
    setup.neighbour("10.2.0.5", "r1");
    soon("one member", &setup.mirror, || {
        members("10.80.0.1") == of(&[("10.2.0.5", 3, false)])
    });
    setup.neighbour("10.1.0.5", "r0");
    setup.neighbour("10.2.0.6", "r1");
    let all = of(&[
        ("10.1.0.5", 1, false),
        ("10.2.0.5", 3, false),
        ("10.2.0.6", 1, true),
    ]);
    soon("all members", &setup.mirror, || members("10.80.0.1") == all);
    assert_eq!(members("fd80::1"), all);
    setup.ip("neigh del 10.1.0.5 dev r0");
    soon("a member less", &setup.mirror, || {
        members("10.80.0.1") == all[1..]
    });
    // Four known members have no room in a group.
    for (last, port) in [(5, 0), (6, 0), (7, 0)] {
        setup.neighbour(&format!("10.1.0.{last}"), &format!("r{port}"));
    }
    soon("too many", &setup.mirror, || {
        setup.unresolved() == (3, 1) && members("10.80.0.1") == all
    });
    assert!(members("10.81.0.1").is_empty());
    setup.inject(&[
        ("10.80.0.0/16", "-"),
        ("fd80::/16", "10.1.0.5"),
        ("10.81.0.0/16", "-"),
    ]);
    assert_eq!(hop(&setup.mirror, "10.80.0.1"), None);
    setup.has("fd80::1", MirrorHop::FORWARD, Some("10.1.0.5"));
    soon("no groups", &setup.mirror, || {
        setup.mirror.stats().groups == 0
    });
    assert_eq!(setup.unresolved(), (1, 0));
}

#[test]
fn a_commit_without_room_changes_nothing() {
    let Some(setup) = setup_with(1 << 20, |arena| {
        let domain = sapwood_bpf::kernel_domain().unwrap();
        let four = FibMap::builder(arena, "four")
            .root_bits(12)
            .bytes(512 << 10);
        let six = FibMap::builder(arena, "six").root_bits(12).bytes(512 << 10);
        let (four, six) = (four.domain(&domain).build(), six.domain(&domain).build());
        IpMap::from_maps(four.unwrap(), six.unwrap())
    }) else {
        return;
    };
    setup.neighbour("10.1.0.5", "r0");
    setup.inject(&[("10.80.0.0/16", "10.1.0.5"), ("10.99.0.0/16", "10.1.0.5")]);
    setup.has("10.80.0.1", MirrorHop::FORWARD, Some("10.1.0.5"));
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0u64;
            while !ended.load(Ordering::Relaxed) {
                let found = hop(&setup.mirror, "10.80.0.1").expect("a route that stays");
                assert_eq!(found.gateway(), "10.1.0.5".parse().ok());
                reads += 1;
            }
            reads
        });
        let all = (0..100_000u32).map(|i| {
            let net = format!("11.{}.{}.{}/32", i >> 16, i >> 8 & 255, i & 255);
            change(&net, ["10.1.0.5", "10.1.0.6"][i as usize % 2])
        });
        let removed = [change("10.99.0.0/16", "-")];
        let injector = setup.mirror.injector();
        let refused = injector.inject(removed.into_iter().chain(all));
        let after = ["11.0.0.1", "10.99.0.1"].map(|address| hop(&setup.mirror, address));
        let counts = setup.unresolved();
        // Smaller commits go on.
        let small = [
            change("10.99.0.0/16", "-"),
            change("11.0.0.0/8", "10.1.0.5"),
        ];
        let small = injector.inject(small);
        ended.store(true, Ordering::Relaxed);
        let error = refused.unwrap_err();
        assert!(
            matches!(error, sapwood_routes::MirrorError::Table(_)),
            "{error}"
        );
        assert_eq!((after[0], counts), (None, (2, 0)));
        assert_eq!(after[1].unwrap().action, MirrorHop::FORWARD);
        small.unwrap();
        assert_eq!(hop(&setup.mirror, "10.99.0.1"), None);
        assert!(reader.join().unwrap() > 0);
    });
    setup.mirror.tables().map().verify().unwrap();
}
