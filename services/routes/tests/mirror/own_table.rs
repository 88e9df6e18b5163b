//! A mirror in a table of this process, without BPF.

use sapwood::lpm::IpFib;

use super::*;

/// The table has the kernel's routes and their changes, and routes with two gateways are the
/// kernel's, because there are no groups.
#[test]
fn a_table_of_this_process_follows() {
    let Some([router, peer]) = Netns::some(["router", "peer"]) else {
        return;
    };
    Netns::veth(
        (&router, "r0", &["10.1.0.1/24", "fd01::1/64"]),
        (&peer, "p0", &["10.1.0.2/24", "fd01::2/64"]),
    );
    let ip = |text: &str| router.ip(&text.split_whitespace().collect::<Vec<_>>());
    ip("route add 10.7.0.0/16 via 10.1.0.2");
    ip("neigh replace 10.1.0.2 lladdr 02:00:00:00:00:05 dev r0");
    let table = Arc::new(IpFib::new().unwrap());
    let mirror = router.inside(|| RouteMirror::start(Arc::clone(&table)).unwrap());
    let found = |address: &str| Some(table.lookup(address.parse().unwrap())?.1);
    let hop = found("10.7.1.1").expect("routes are there when the mirror has started");
    assert_eq!(hop.gateway(), Some("10.1.0.2".parse().unwrap()));
    assert_eq!(hop.ifindex, router.index("r0"));
    assert_eq!(
        (hop.action, hop.dmac),
        (MirrorHop::FORWARD, [2, 0, 0, 0, 0, 5])
    );
    ip("route add fd07::/32 via fd01::2");
    ip("route add 10.8.0.0/16 nexthop via 10.1.0.2 nexthop via 10.1.0.3");
    let gateway = Some("fd01::2".parse().unwrap());
    soon("a new route", &mirror, || {
        found("fd07::1").is_some_and(|hop| hop.gateway() == gateway)
    });
    soon("two gateways", &mirror, || {
        found("10.8.0.1").is_some_and(|hop| hop.action == MirrorHop::KERNEL)
    });
    ip("route del 10.7.0.0/16");
    soon("a removal", &mirror, || found("10.7.1.1").is_none());
    assert_eq!(mirror.stats().failure, None);
    drop(mirror);
    table.verify().unwrap();
}
