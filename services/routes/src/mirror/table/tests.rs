//! Changes of a model, and the entries that follow from them.

use super::*;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn route(metric: u32, ifindex: u32, gateway: &str) -> Route {
    Route {
        rank: (true, true, metric),
        target: Target::Via {
            ifindex,
            gateway: gateway.parse().ok(),
        },
    }
}

fn model() -> Model {
    let mut model = Model::default();
    let link = |last| Link {
        mac: Some([2, 0, 0, 0, 1, last]),
        mtu: 1500,
        up: true,
        carrier: true,
        vlan: None,
    };
    model.replace([
        Event::Link(
            1,
            Link {
                mac: None,
                ..link(1)
            },
        ),
        Event::Link(2, link(2)),
        Event::Link(3, link(3)),
        Event::Route(net("10.1.0.0/16"), route(0, 2, ""), How::First),
        Event::Route(net("0.0.0.0/0"), route(0, 2, "10.1.0.1"), How::First),
    ]);
    model
}

fn asked(model: &Model, text: &str) -> Option<(u8, u32, [u8; 6])> {
    let Entry::Hop(hop) = model.wanted(net(text))? else {
        panic!("{text} has a group");
    };
    Some((hop.action, hop.ifindex, hop.dmac))
}

#[test]
fn gateways_become_known_and_are_forgotten() {
    let mut model = model();
    model.take_dirty();
    assert_eq!(
        asked(&model, "0.0.0.0/0"),
        Some((MirrorHop::RESOLVE, 2, [0; 6]))
    );
    assert!(model.note(Event::Neighbour(2, address("10.1.0.1"), Some(MAC), false)));
    let mut dirty = model.take_dirty();
    dirty.sort();
    assert_eq!(dirty, [net("0.0.0.0/0"), net("10.1.0.1/32")]);
    assert_eq!(
        asked(&model, "0.0.0.0/0"),
        Some((MirrorHop::FORWARD, 2, MAC))
    );
    // The gateway is a neighbour itself.
    assert_eq!(
        asked(&model, "10.1.0.1/32"),
        Some((MirrorHop::FORWARD, 2, MAC))
    );
    assert_eq!(asked(&model, "10.1.0.2/32"), None);
    assert!(model.note(Event::Neighbour(2, address("10.1.0.1"), Some(MAC), false)));
    assert!(model.take_dirty().is_empty());
    assert!(model.note(Event::Neighbour(2, address("10.1.0.1"), None, false)));
    assert_eq!(
        asked(&model, "0.0.0.0/0"),
        Some((MirrorHop::RESOLVE, 2, [0; 6]))
    );
    assert_eq!(asked(&model, "10.1.0.1/32"), None);
}

#[test]
fn a_neighbour_is_reached_as_its_longest_prefix_says() {
    let mut model = model();
    let known = Event::Neighbour(2, address("10.1.2.3"), Some(MAC), false);
    assert!(model.note(known));
    assert_eq!(
        asked(&model, "10.1.2.3/32"),
        Some((MirrorHop::FORWARD, 2, MAC))
    );
    model.take_dirty();
    // A longer prefix with another path: the neighbour does not belong to it.
    let other = route(0, 3, "10.9.9.9");
    let add = |route: &Route| Event::Route(net("10.1.2.0/24"), route.clone(), How::First);
    assert!(model.note(add(&other)));
    assert!(model.take_dirty().contains(&net("10.1.2.3/32")));
    assert_eq!(asked(&model, "10.1.2.3/32"), None);
    // The same network on another interface.
    assert!(model.note(Event::NoRoute(net("10.1.2.0/24"), other)));
    let other = route(0, 3, "");
    assert!(model.note(add(&other)));
    assert_eq!(asked(&model, "10.1.2.3/32"), None);
    assert!(model.note(Event::NoRoute(net("10.1.2.0/24"), other)));
    assert_eq!(
        asked(&model, "10.1.2.3/32"),
        Some((MirrorHop::FORWARD, 2, MAC))
    );
}

#[test]
fn the_best_of_several_routes() {
    let mut model = model();
    let prefix = net("10.2.0.0/16");
    let (near, far) = (route(10, 2, "10.1.0.1"), route(20, 3, "10.1.0.1"));
    let add = |route: &Route, how| Event::Route(prefix, route.clone(), how);
    let gone = |route: &Route| Event::NoRoute(prefix, route.clone());
    assert!(model.note(add(&far, How::First)));
    assert_eq!(asked(&model, "10.2.0.0/16").unwrap().1, 3);
    assert!(model.note(add(&near, How::First)));
    assert_eq!(asked(&model, "10.2.0.0/16").unwrap().1, 2);
    // It replaces only the route with the same metric.
    let again = route(10, 3, "10.1.0.2");
    assert!(model.note(add(&again, How::Instead)));
    assert!(!model.note(gone(&near)));
    assert!(model.note(add(&near, How::Last)));
    let wanted = model.wanted(prefix);
    assert!(matches!(wanted, Some(Entry::Hop(hop)) if hop.gateway[3] == 2));
    assert!(model.note(gone(&again)));
    assert_eq!(asked(&model, "10.2.0.0/16").unwrap().1, 2);
    // Addresses of this machine come before all others.
    let local = Route {
        rank: (false, true, 0),
        target: Target::Kernel(KernelReason::Other),
    };
    assert!(model.note(add(&local, How::First)));
    assert_eq!(asked(&model, "10.2.0.0/16").unwrap().0, MirrorHop::KERNEL);
    for route in [local, near, far] {
        assert!(model.note(gone(&route)));
    }
    assert_eq!(asked(&model, "10.2.0.0/16"), None);
}

#[test]
fn what_programs_cannot_do_is_the_kernels() {
    let mut model = model();
    let prefix = net("10.3.0.0/16");
    for ifindex in [1, 9] {
        assert!(model.note(Event::Route(prefix, route(0, ifindex, ""), How::Instead)));
        assert_eq!(asked(&model, "10.3.0.0/16").unwrap().0, MirrorHop::KERNEL);
    }
    let local = net("fe80::/64");
    assert!(model.note(Event::Route(local, route(0, 2, ""), How::First)));
    assert!(model.note(Event::Neighbour(2, address("fe80::1"), Some(MAC), false)));
    assert_eq!(asked(&model, "fe80::/64").unwrap().0, MirrorHop::KERNEL);
    assert_eq!(asked(&model, "fe80::1/128"), None);
    let by = Event::Route(net("::/0"), route(0, 2, "fe80::1"), How::First);
    assert!(model.note(by));
    assert_eq!(asked(&model, "::/0"), Some((MirrorHop::FORWARD, 2, MAC)));
    // A link that goes down.
    let down = Link {
        up: false,
        ..model.links[&2]
    };
    assert!(!model.note(Event::Link(2, down)));
    assert_eq!(asked(&model, "::/0").unwrap().0, MirrorHop::KERNEL);
}

fn path(ifindex: u32, gateway: &str, weight: u32) -> Path {
    Path {
        ifindex,
        gateway: address(gateway),
        weight,
    }
}

fn to(target: Target) -> Route {
    Route {
        rank: (true, true, 0),
        target,
    }
}

fn group(model: &Model, text: &str) -> Option<(GroupKey, Vec<GroupMember>)> {
    match model.wanted(net(text))? {
        Entry::Group(key) => Some((key.clone(), model.members(&key).unwrap())),
        Entry::Hop(_) => None,
    }
}

#[test]
fn several_paths_are_a_group() {
    let mut model = model();
    let paths = [path(2, "10.1.0.1", 1), path(3, "10.9.0.1", 2)];
    let several = to(Target::Paths(paths.into()));
    let add = |route: &Route, text| Event::Route(net(text), route.clone(), How::First);
    assert!(model.note(add(&several, "10.5.0.0/16")));
    assert!(model.note(add(&several, "fd05::/16")));
    let (key, members) = group(&model, "10.5.0.0/16").unwrap();
    // Routes with the same paths share a group.
    assert_eq!(group(&model, "fd05::/16").unwrap().0, key);
    let seen: Vec<_> = members
        .iter()
        .map(|m| (m.link, m.weight, m.hop.action))
        .collect();
    let unknown = [(2, 1, MirrorHop::RESOLVE), (3, 2, MirrorHop::RESOLVE)];
    assert_eq!(seen, unknown);
    assert!(model.take_groups_dirty() && !model.take_groups_dirty());
    assert!(model.note(Event::Neighbour(3, address("10.9.0.1"), Some(MAC), false)));
    assert!(model.take_groups_dirty());
    let members = model.members(&key).unwrap();
    assert_eq!(
        (members[1].hop.action, members[1].hop.dmac),
        (MirrorHop::FORWARD, MAC)
    );
    // A member stays while its link is down.
    let down = Link {
        up: false,
        ..model.links[&2]
    };
    assert!(!model.note(Event::Link(2, down)));
    assert_eq!(model.members(&key).unwrap().len(), 2);
    // The same path twice has both weights.
    let twice = GroupKey::Paths([path(2, "10.1.0.1", 3), path(2, "10.1.0.1", 4)].into());
    assert_eq!(model.members(&twice).unwrap()[0].weight, 7);
    // The loopback has no hardware address, and there is no interface 9.
    for other in [1, 9] {
        let paths = [path(2, "10.1.0.1", 1), path(other, "10.9.0.1", 2)];
        let several = to(Target::Paths(paths.into()));
        assert!(model.note(Event::Route(net("10.5.0.0/16"), several, How::Instead)));
        assert_eq!(asked(&model, "10.5.0.0/16").unwrap().0, MirrorHop::KERNEL);
    }
    let link_local = add(&several, "fe80::/64");
    assert!(model.note(link_local));
    assert_eq!(asked(&model, "fe80::/64").unwrap().0, MirrorHop::KERNEL);
}

#[test]
fn objects_change_without_their_routes() {
    let mut model = model();
    let object = |ifindex, gateway: &str| Object::Path {
        ifindex,
        gateway: gateway.parse().ok(),
    };
    assert!(model.note(Event::Object(1, object(2, "10.1.0.1"))));
    assert!(model.note(Event::Object(2, object(3, "10.9.0.1"))));
    assert!(model.note(Event::Object(9, Object::Group(vec![(1, 1), (2, 5)]))));
    let (one, both) = (to(Target::Object(1)), to(Target::Object(9)));
    let add = |route: &Route, text| Event::Route(net(text), route.clone(), How::First);
    assert!(model.note(add(&one, "10.5.0.0/16")));
    assert!(model.note(add(&both, "10.6.0.0/16")));
    assert_eq!(asked(&model, "10.5.0.0/16").unwrap().1, 2);
    let (key, members) = group(&model, "10.6.0.0/16").unwrap();
    assert_eq!(key, GroupKey::Object(9));
    assert_eq!(members.iter().map(|m| m.weight).collect::<Vec<_>>(), [1, 5]);
    model.take_dirty();
    model.take_groups_dirty();
    // The objects change, and no route is announced.
    assert!(model.note(Event::Object(1, object(3, "10.9.0.7"))));
    assert_eq!(model.take_dirty(), [net("10.5.0.0/16")]);
    assert!(model.take_groups_dirty());
    assert_eq!(asked(&model, "10.5.0.0/16").unwrap().1, 3);
    let links: Vec<_> = model
        .members(&key)
        .unwrap()
        .iter()
        .map(|m| m.link)
        .collect();
    assert_eq!(links, [3, 3]);
    assert!(model.note(Event::Object(9, object(2, "10.1.0.1"))));
    assert_eq!(asked(&model, "10.6.0.0/16").unwrap().1, 2);
    for other in [
        Object::Other,
        Object::Group(vec![(77, 1)]),
        Object::Group(vec![]),
    ] {
        assert!(model.note(Event::Object(9, other)));
        assert_eq!(asked(&model, "10.6.0.0/16").unwrap().0, MirrorHop::KERNEL);
    }
    // An object that is not known.
    assert!(model.note(add(&to(Target::Object(8)), "10.7.0.0/16")));
    assert_eq!(asked(&model, "10.7.0.0/16").unwrap().0, MirrorHop::KERNEL);
}

#[test]
fn everything_anew_looks_at_old_and_new() {
    let mut model = model();
    assert!(model.note(Event::Neighbour(2, address("10.1.0.1"), Some(MAC), false)));
    model.take_dirty();
    model.replace([Event::Route(
        net("10.4.0.0/16"),
        route(0, 2, ""),
        How::First,
    )]);
    let mut dirty = model.take_dirty();
    dirty.sort();
    let all = ["0.0.0.0/0", "10.1.0.0/16", "10.1.0.1/32", "10.4.0.0/16"];
    assert_eq!(dirty, all.map(net));
    assert_eq!(model.len(), 1);
}

fn gateways(all: &[(&str, u32, bool)]) -> Arc<[Gateway]> {
    let all = all.iter().map(|(text, weight, backup)| Gateway {
        address: address(text),
        weight: *weight,
        backup: *backup,
    });
    all.collect()
}

#[test]
fn an_injected_route_is_between_the_near_and_the_far_routes() {
    let mut model = model();
    assert!(model.note(Event::Neighbour(2, address("10.1.0.1"), Some(MAC), false)));
    assert!(model.note(Event::Neighbour(2, address("10.1.0.9"), Some(MAC), false)));
    let one = || Some(gateways(&[("10.1.0.1", 1, false)]));
    let gateway = |model: &Model, text: &str| match model.wanted(net(text)) {
        Some(Entry::Hop(hop)) => hop.gateway(),
        other => panic!("{other:?}"),
    };
    // After a network of this machine and its addresses, before other routes.
    let local = Route {
        rank: (false, true, 0),
        target: Target::Kernel(KernelReason::Other),
    };
    let own = net("10.1.0.77/32");
    assert!(model.note(Event::Route(own, local.clone(), How::First)));
    let far = Event::Route(net("10.2.0.0/16"), route(0, 2, "10.1.0.9"), How::First);
    assert!(model.note(far));
    for text in ["10.1.0.0/16", "10.1.0.77/32", "10.2.0.0/16", "10.3.0.0/16"] {
        assert_eq!(model.inject(net(text), one()), None);
    }
    assert_eq!(gateway(&model, "10.1.0.0/16"), None);
    assert_eq!(asked(&model, "10.1.0.77/32").unwrap().0, MirrorHop::KERNEL);
    assert!(!model.is_injected(own));
    for text in ["10.2.0.0/16", "10.3.0.0/16"] {
        assert!(model.is_injected(net(text)));
        assert_eq!(gateway(&model, text), Some(address("10.1.0.1")));
    }
    assert!(model.note(Event::NoRoute(own, local)));
    assert_eq!(
        asked(&model, "10.1.0.77/32"),
        Some((MirrorHop::FORWARD, 2, MAC))
    );
    // A neighbour behind an injected prefix has no entry of its own.
    assert_eq!(
        asked(&model, "10.1.0.9/32"),
        Some((MirrorHop::FORWARD, 2, MAC))
    );
    model.take_dirty();
    assert_eq!(model.inject(net("10.1.0.8/29"), one()), None);
    assert!(model.take_dirty().contains(&net("10.1.0.9/32")));
    assert_eq!(asked(&model, "10.1.0.9/32"), None);
    assert_eq!(model.inject(net("10.2.0.0/16"), None), one());
    assert_eq!(gateway(&model, "10.2.0.0/16"), Some(address("10.1.0.9")));
}

#[test]
fn what_a_gateway_depends_on_marks_its_prefixes() {
    let mut model = model();
    let both = gateways(&[("10.1.0.1", 1, false), ("10.9.0.1", 2, true)]);
    let (one, several) = (net("10.3.0.0/16"), net("10.4.0.0/16"));
    model.inject(one, Some(gateways(&[("10.9.0.1", 1, false)])));
    model.inject(several, Some(Arc::clone(&both)));
    model.take_dirty();
    model.take_groups_dirty();
    let dirty = |model: &mut Model| {
        let mut dirty = model.take_dirty();
        dirty.retain(|net| net.prefix_len() == 16 && net.addr() != address("10.9.0.0"));
        dirty.sort();
        (dirty, model.take_groups_dirty())
    };
    // The kernel does not reach the gateway, or not directly.
    assert_eq!(asked(&model, "10.3.0.0/16").unwrap().0, MirrorHop::KERNEL);
    assert_eq!(asked(&model, "10.4.0.0/16").unwrap().0, MirrorHop::KERNEL);
    let network = route(0, 3, "");
    let add = Event::Route(net("10.9.0.0/24"), network.clone(), How::First);
    assert!(model.note(add));
    assert_eq!(dirty(&mut model), (vec![one, several], true));
    assert_eq!(asked(&model, "10.3.0.0/16").unwrap().0, MirrorHop::RESOLVE);
    assert_eq!(asked(&model, "10.4.0.0/16").unwrap().0, MirrorHop::KERNEL);
    assert!(model.note(Event::Neighbour(3, address("10.9.0.1"), Some(MAC), false)));
    assert_eq!(dirty(&mut model), (vec![one, several], true));
    assert_eq!(
        asked(&model, "10.3.0.0/16"),
        Some((MirrorHop::FORWARD, 3, MAC))
    );
    let (key, members) = group(&model, "10.4.0.0/16").unwrap();
    assert_eq!(key, GroupKey::Injected(both));
    let shown: Vec<_> = members
        .iter()
        .map(|m| (m.link, m.weight, m.backup))
        .collect();
    assert_eq!(shown, [(3, 2, true)]);
    assert!(model.note(Event::Neighbour(2, address("10.1.0.1"), Some(MAC), false)));
    assert_eq!(dirty(&mut model), (vec![several], true));
    assert_eq!(group(&model, "10.4.0.0/16").unwrap().1.len(), 2);
    // What was set by hand is known as such.
    let fixed = |model: &Model| model.is_fixed(2, address("10.1.0.1"));
    assert!(!fixed(&model));
    for set in [true, false] {
        let same = Event::Neighbour(2, address("10.1.0.1"), Some(MAC), set);
        assert!(model.note(same));
        assert_eq!((fixed(&model), dirty(&mut model).0), (set, vec![]));
    }
    // A dump keeps what was injected.
    model.replace([]);
    assert_eq!(model.injected().len(), 2);
    let (marked, _) = dirty(&mut model);
    assert!(marked.contains(&one) && marked.contains(&several));
    assert_eq!(asked(&model, "10.3.0.0/16").unwrap().0, MirrorHop::KERNEL);
    // Without prefixes, no address is left.
    model.inject(one, None);
    assert_eq!(model.injected().addresses().count(), 2);
    model.inject(several, None);
    assert_eq!(model.injected().addresses().count(), 0);
}
