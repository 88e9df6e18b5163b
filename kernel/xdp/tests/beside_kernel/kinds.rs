//! The kinds of frames.

use std::collections::{BTreeSet, HashSet};
use std::net::Ipv6Addr;

use crate::common::frames::{Ip4, Ip6, ethernet, icmp, tcp, udp};
use crate::network::{HOST, REDIRECTED, ROUTER, V4, V6};

/// A frame of a kind, and what is known of it.
pub struct Kind {
    pub name: String,
    /// The number of the interface where it comes in.
    pub side: usize,
    pub frame: Vec<u8>,
    /// Whether the program that asks the kernel's table forwards it.
    pub is_fast: bool,
    /// The difference that is known and described in docs/bpf-programs.md.
    pub differs: Option<Difference>,
}

/// The differences between the program and the kernel, as docs/bpf-programs.md has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// The program leaves the padding of short frames, which the kernel cuts off.
    Padding,
    /// The tables choose among several paths by another hash than the kernel's.
    Paths,
}

pub fn packet4(to: [u8; 4], payload: Vec<u8>) -> Ip4 {
    Ip4 {
        first: 0x45,
        service: 0,
        total: None,
        id: 7,
        fragment: 0,
        hops: 64,
        protocol: 17,
        wrong: 0,
        from: [10, 82, 1, 2],
        to,
        options: Vec::new(),
        payload,
    }
}

fn packet6(to: &str, payload: Vec<u8>) -> Ip6 {
    Ip6 {
        first: 0x6000_0000,
        length: None,
        next: 17,
        hops: 64,
        from: address("fd82:1::2"),
        to: address(to),
        payload,
    }
}

fn address(text: &str) -> Ipv6Addr {
    text.parse().unwrap_or_else(|_| panic!("{text}"))
}

/// Collects kinds.
struct Kinds(Vec<Kind>);

impl Kinds {
    fn frame(&mut self, name: impl Into<String>, is_fast: bool, frame: Vec<u8>) -> &mut Kind {
        self.0.push(Kind {
            name: name.into(),
            side: 0,
            frame,
            is_fast,
            differs: None,
        });
        self.0.last_mut().unwrap()
    }

    /// A frame for the router with this packet.
    fn four(&mut self, name: impl Into<String>, is_fast: bool, ip: &Ip4) -> &mut Kind {
        let bytes = ip.bytes();
        let is_short = bytes.len() < 46;
        let kind = self.frame(name, is_fast, ethernet(ROUTER[0], HOST[0], V4, &bytes));
        if is_short && is_fast {
            // A cable carries no shorter frames. The veth does, so nothing is padded here.
            assert_eq!(kind.differs, None);
        }
        kind
    }

    fn six(&mut self, name: impl Into<String>, is_fast: bool, ip: &Ip6) -> &mut Kind {
        self.frame(name, is_fast, ethernet(ROUTER[0], HOST[0], V6, &ip.bytes()))
    }
}

/// A destination behind the router, by a gateway at r1.
const FAR4: [u8; 4] = [10, 82, 9, 1];
const FAR6: &str = "fd82:9::1";

/// The destinations of IPv4, with the name of each, and whether the program forwards to it.
const TO4: [(&str, [u8; 4], bool); 37] = [
    ("behind a gateway", FAR4, true),
    ("behind another gateway", [10, 82, 10, 1], true),
    ("a neighbour at r1", [10, 82, 2, 5], true),
    ("the gateway", [10, 82, 2, 2], true),
    ("a neighbour at r2", [10, 82, 3, 3], true),
    ("by an IPv6 gateway", [10, 82, 13, 1], true),
    ("by a link-local gateway", [10, 82, 25, 1], true),
    ("a network without a gateway", [10, 82, 18, 5], true),
    ("a route with metrics", [10, 82, 24, 1], true),
    ("a route with an MTU", [10, 82, 11, 1], true),
    ("a route with a locked MTU", [10, 82, 12, 1], true),
    ("blackhole", [10, 82, 14, 1], false),
    ("unreachable", [10, 82, 15, 1], false),
    ("prohibit", [10, 82, 16, 1], false),
    ("throw", [10, 82, 17, 1], false),
    ("no route", [192, 0, 2, 1], false),
    ("private, no route", [192, 168, 7, 7], false),
    ("the router at r0", [10, 82, 1, 1], false),
    ("the router at r1", [10, 82, 2, 1], false),
    ("the router at r2", [10, 82, 3, 1], false),
    ("broadcast at r0", [10, 82, 1, 255], false),
    ("broadcast at r1", [10, 82, 2, 255], false),
    ("limited broadcast", [255; 4], false),
    ("all systems", [224, 0, 0, 1], false),
    ("all routers", [224, 0, 0, 2], false),
    ("local multicast", [224, 0, 0, 251], false),
    ("organisation multicast", [239, 1, 1, 1], false),
    ("global multicast", [233, 252, 0, 1], false),
    ("loopback", [127, 0, 0, 1], false),
    ("another loopback", [127, 9, 9, 9], false),
    ("zero", [0; 4], false),
    ("in the zero network", [0, 1, 2, 3], false),
    ("class E", [240, 0, 0, 1], false),
    ("link-local", [169, 254, 1, 1], false),
    ("a neighbour of the sender", [10, 82, 1, 3], false),
    ("back to a gateway", [10, 82, 20, 1], false),
    ("a neighbour that may be the sender", [10, 82, 1, 2], false),
];

const FROM4: [(&str, [u8; 4], bool); 22] = [
    ("a neighbour", [10, 82, 1, 3], true),
    ("an unknown neighbour", [10, 82, 1, 200], true),
    ("zero", [0; 4], false),
    ("in the zero network", [0, 1, 2, 3], false),
    ("loopback", [127, 0, 0, 1], false),
    ("another loopback", [127, 200, 0, 1], false),
    ("multicast", [224, 0, 0, 5], false),
    ("administrative multicast", [239, 1, 1, 1], false),
    ("limited broadcast", [255; 4], false),
    ("class E", [240, 0, 0, 1], false),
    ("the router at r0", [10, 82, 1, 1], false),
    ("the router at r1", [10, 82, 2, 1], false),
    ("the router at r2", [10, 82, 3, 1], false),
    ("broadcast at r0", [10, 82, 1, 255], false),
    ("broadcast at r1", [10, 82, 2, 255], false),
    ("where packets go", [10, 82, 9, 2], true),
    ("elsewhere", [10, 82, 10, 2], true),
    ("in a blackhole", [10, 82, 14, 1], true),
    ("unreachable", [10, 82, 15, 1], true),
    ("prohibited", [10, 82, 16, 1], true),
    ("without a route", [192, 0, 2, 9], false),
    ("link-local", [169, 254, 9, 9], false),
];

const TO6: [(&str, &str, bool); 36] = [
    ("behind a gateway", FAR6, true),
    ("behind another gateway", "fd82:10::1", true),
    ("a neighbour at r1", "fd82:2::5", true),
    ("the gateway", "fd82:2::2", true),
    ("a neighbour at r2", "fd82:3::3", true),
    ("by a link-local gateway", "fd82:25::1", true),
    ("a network without a gateway", "fd82:18::5", true),
    ("a route with metrics", "fd82:24::1", true),
    ("a route with an MTU", "fd82:11::1", true),
    ("a route with a locked MTU", "fd82:12::1", true),
    ("blackhole", "fd82:14::1", false),
    ("unreachable", "fd82:15::1", false),
    ("prohibit", "fd82:16::1", false),
    ("throw", "fd82:17::1", false),
    ("no route", "2001:db8::1", false),
    ("unique local, no route", "fdff::1", false),
    ("site-local, no route", "fec0::1", false),
    ("the router at r0", "fd82:1::1", false),
    ("the router at r1", "fd82:2::1", false),
    ("the router at r2", "fd82:3::1", false),
    ("the router's link-local", "fe80::1", false),
    ("a link-local neighbour", "fe80::2", false),
    ("anycast of routers at r0", "fd82:1::", false),
    ("anycast of routers at r1", "fd82:2::", false),
    ("all nodes", "ff02::1", false),
    ("all routers", "ff02::2", false),
    ("mDNS", "ff02::fb", false),
    ("interface multicast", "ff01::1", false),
    ("site multicast", "ff05::2", false),
    ("global multicast", "ff0e::1234", false),
    ("unspecified", "::", false),
    ("loopback", "::1", false),
    ("mapped", "::ffff:10.82.9.1", false),
    ("compatible", "::10.82.9.1", false),
    ("a neighbour of the sender", "fd82:1::3", false),
    ("back to a gateway", "fd82:20::1", false),
];

const FROM6: [(&str, &str, bool); 20] = [
    ("a neighbour", "fd82:1::3", true),
    ("an unknown neighbour", "fd82:1::200", true),
    ("unspecified", "::", false),
    ("loopback", "::1", false),
    ("mapped", "::ffff:10.82.1.2", false),
    ("compatible", "::10.82.1.2", false),
    ("multicast", "ff02::1", false),
    ("global multicast", "ff0e::7", false),
    ("link-local", "fe80::2", false),
    ("link-local of the router", "fe80::1", false),
    ("site-local", "fec0::2", true),
    ("the router at r0", "fd82:1::1", true),
    ("the router at r1", "fd82:2::1", true),
    ("anycast of routers", "fd82:1::", true),
    ("where packets go", "fd82:9::2", true),
    ("elsewhere", "fd82:10::2", true),
    ("in a blackhole", "fd82:14::1", true),
    ("without a route", "2001:db8::9", true),
    ("6to4", "2002:a52:102::1", true),
    ("translated", "64:ff9b::a52:102", true),
];

/// Frames of IPv4 packets.
fn four(all: &mut Kinds) {
    let plain = || packet4(FAR4, udp(4000, 9, 26));
    let mut redirected = REDIRECTED..;
    for (name, to, is_fast) in TO4 {
        let mut ip = Ip4 { to, ..plain() };
        let is_back = to[..3] == [10, 82, 1] || to[..3] == [10, 82, 20];
        if is_back {
            ip.from[3] = redirected.next().unwrap();
        }
        all.four(format!("IPv4 to {name}"), is_fast, &ip);
        if is_back {
            ip.from[3] = redirected.next().unwrap();
        }
        ip.protocol = 1;
        ip.payload = icmp(8, 0, &[7; 30]);
        all.four(format!("IPv4 echo to {name}"), is_fast, &ip);
    }
    assert!(redirected.next().unwrap() <= REDIRECTED + 10);
    for (name, from, is_fast) in FROM4 {
        all.four(
            format!("IPv4 from {name}"),
            is_fast,
            &Ip4 { from, ..plain() },
        );
    }
    for (name, protocol, payload) in [
        ("TCP", 6, tcp(4000, 80)),
        ("IGMP", 2, vec![0x16, 0, 0, 0, 224, 1, 1, 1]),
        ("IP in IP", 4, plain().bytes()),
        ("IPv6 in IP", 41, packet6(FAR6, udp(1, 2, 3)).bytes()),
        ("GRE", 47, vec![0; 30]),
        ("ESP", 50, vec![1; 30]),
        ("AH", 51, vec![17; 30]),
        ("OSPF", 89, vec![2; 30]),
        ("SCTP", 132, vec![0; 30]),
        ("UDP-Lite", 136, vec![0; 30]),
        ("an unknown protocol", 253, vec![9; 30]),
        ("protocol 0", 0, vec![9; 30]),
        ("protocol 255", 255, vec![9; 30]),
        (
            "an ICMP error",
            1,
            icmp(3, 1, &[&[0; 4], &plain().bytes()[..28]].concat()),
        ),
        (
            "an ICMP redirect",
            1,
            icmp(5, 1, &[&[10, 82, 9, 9], &plain().bytes()[..28]].concat()),
        ),
    ] {
        let ip = Ip4 {
            protocol,
            payload,
            ..plain()
        };
        all.four(format!("IPv4 with {name}"), !name.contains("ICMP"), &ip);
        all.four(
            format!("IPv4 with {name}, one hop left"),
            false,
            &Ip4 {
                hops: 1,
                ..ip.clone()
            },
        );
        let to = [10, 82, 1, 1];
        all.four(
            format!("IPv4 with {name} to the router"),
            false,
            &Ip4 { to, ..ip },
        );
    }
    for hops in [0, 1, 2, 3, 255] {
        all.four(
            format!("IPv4 with {hops} hops"),
            hops > 1,
            &Ip4 { hops, ..plain() },
        );
        let later = Ip4 {
            hops,
            fragment: 20,
            ..plain()
        };
        all.four(
            format!("a later IPv4 fragment with {hops} hops"),
            hops > 1,
            &later,
        );
        for (name, to) in [("no route", [192, 0, 2, 1]), ("the router", [10, 82, 1, 1])] {
            all.four(
                format!("IPv4 with {hops} hops to {name}"),
                false,
                &Ip4 {
                    hops,
                    to,
                    ..plain()
                },
            );
        }
    }
    for service in [1, 2, 3, 0x10, 0x2e, 0xb8, 0xc0, 0xff] {
        all.four(
            format!("IPv4 of service {service:#x}"),
            true,
            &Ip4 { service, ..plain() },
        );
    }
    for (name, fragment) in [
        ("DF", 0x4000),
        ("the reserved bit", 0x8000),
        ("MF", 0x2000),
        ("DF and MF", 0x6000),
        ("a later fragment", 3),
        ("a middle fragment", 0x2003),
        ("the last place", 0x1fff),
    ] {
        all.four(
            format!("IPv4 with {name}"),
            true,
            &Ip4 {
                fragment,
                ..plain()
            },
        );
        let payload = udp(4000, 9, 1600);
        all.four(
            format!("a long IPv4 packet with {name}"),
            false,
            &Ip4 {
                fragment,
                payload,
                ..plain()
            },
        );
    }
    let routes: [(u8, &str, u16, u16); 7] = [
        (9, "r1", 1500, 1500),
        (10, "r2", 1400, 1400),
        (11, "an MTU", 1300, 1300),
        (12, "a locked MTU", 1300, 1300),
        (13, "an IPv6 gateway", 1500, 1500),
        (22, "a larger MTU", 1600, 1500),
        (23, "a larger locked MTU", 1600, 1500),
    ];
    for (net, name, mtu, known) in routes {
        for bytes in BTreeSet::from([1200, mtu - 1, mtu, mtu + 1, 1501, 1601, 1990]) {
            for (flag, fragment) in [("", 0), (" with DF", 0x4000)] {
                let ip = Ip4 {
                    to: [10, 82, net, 1],
                    fragment,
                    payload: udp(4000, 9, usize::from(bytes) - 28),
                    ..plain()
                };
                all.four(
                    format!("{bytes} bytes of IPv4{flag} by {name}"),
                    bytes <= known,
                    &ip,
                );
            }
        }
    }
    for bytes in [0, 1, 2, 7, 8, 17, 18, 19, 30, 31] {
        let ip = Ip4 {
            payload: vec![6; bytes],
            ..plain()
        };
        all.four(format!("IPv4 with {bytes} bytes"), true, &ip);
    }
    for wrong in [1, 0x100, 0xffff, 0x8000] {
        all.four(
            format!("IPv4 with a checksum wrong by {wrong:#x}"),
            false,
            &Ip4 { wrong, ..plain() },
        );
    }
    // The checksum's edges: what one hop less makes of it.
    for sum in [0, 1, 0xfe, 0xff, 0x100, 0xfefe, 0xfeff, 0xff00, 0xfffe] {
        let mut ip = plain();
        ip.id = 0;
        let has = ip.bytes();
        let has = u16::from_be_bytes([has[10], has[11]]);
        // The number of the packet makes up for the difference, in the sum of the internet.
        let id = u32::from(has) + u32::from(!sum);
        ip.id = ((id & 0xffff) + (id >> 16)) as u16;
        let bytes = ip.bytes();
        let got = u16::from_be_bytes([bytes[10], bytes[11]]);
        assert!(
            got == sum || sum == 0 && got == 0xffff || got ^ sum == 0xffff,
            "{got:#x} {sum:#x}"
        );
        all.four(format!("IPv4 with the checksum {sum:#x}"), true, &ip);
    }
    let mut ip = ethernet(ROUTER[0], HOST[0], V4, &plain().bytes());
    let right = u16::from_be_bytes([ip[24], ip[25]]);
    assert_ne!(right, 0);
    ip[24..26].fill(0);
    all.frame("IPv4 without a checksum", false, ip);
    for (name, options) in [
        ("no operation", vec![1; 4]),
        ("an end of options", vec![0; 4]),
        ("forty bytes", vec![1; 40]),
        ("router alert", vec![148, 4, 0, 0]),
        (
            "a record of the route",
            vec![7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ),
        ("a full record of the route", vec![7, 7, 8, 1, 1, 1, 1, 0]),
        ("timestamps without room", vec![68, 8, 9, 0, 0, 0, 0, 7]),
        ("a loose source route", vec![131, 7, 4, 10, 82, 10, 1, 0]),
        ("a strict source route", vec![137, 7, 4, 10, 82, 10, 1, 0]),
        (
            "a security option",
            vec![130, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ),
        ("an unknown option", vec![99, 4, 1, 2]),
        ("an option that is too long", vec![7, 40, 4, 0]),
        ("an option without a length", vec![1, 1, 1, 7]),
    ] {
        let ip = Ip4 { options, ..plain() };
        all.four(format!("IPv4 with {name}"), false, &ip);
        let ip = Ip4 { hops: 1, ..ip };
        all.four(format!("IPv4 with {name}, one hop left"), false, &ip);
    }
    for flow in 0..6 {
        let mut ip = plain();
        ip.to = [10, 82, 21, flow];
        ip.from[3] = [2, 3, 5][usize::from(flow) % 3];
        all.four(format!("IPv4 by several paths, flow {flow}"), true, &ip)
            .differs = Some(Difference::Paths);
        ip.protocol = 6;
        ip.payload = tcp(4000 + u16::from(flow), 80);
        all.four(format!("TCP by several paths, flow {flow}"), true, &ip)
            .differs = Some(Difference::Paths);
    }
    for inner in 0..4 {
        let mut ip = plain();
        ip.to = [10, 82, 21, 1];
        ip.protocol = 1;
        let quoted = Ip4 {
            from: [10, 82, 21, 1],
            to: [10, 82, 1, inner],
            ..plain()
        };
        ip.payload = icmp(3, 1, &[&[0; 4], &quoted.bytes()[..28]].concat());
        all.four(
            format!("an ICMP error by several paths, flow {inner}"),
            false,
            &ip,
        );
        ip.payload = icmp(11, 0, &[&[0; 4], &quoted.bytes()[..28]].concat());
        all.four(
            format!("an ICMP message of time by several paths, flow {inner}"),
            false,
            &ip,
        );
    }
}

/// An extension header of IPv6 of eight bytes and more.
fn extension(next: u8, bytes: &[u8]) -> Vec<u8> {
    assert_eq!(bytes.len() % 8, 6);
    [&[next, (bytes.len() / 8) as u8], bytes].concat()
}

/// Frames of IPv6 packets.
fn six(all: &mut Kinds) {
    let datagram = |to: &str| packet6(to, udp(4000, 9, 26)).summed(17, 0, 6);
    let plain = || datagram(FAR6);
    let echo = |mut ip: Ip6| {
        ip.next = 58;
        ip.payload = [&[128, 0, 0, 0], &[7; 30][..]].concat();
        ip.summed(58, 0, 2)
    };
    let mut redirected = REDIRECTED..;
    for (name, to, is_fast) in TO6 {
        let mut ip = packet6(to, udp(4000, 9, 26));
        let is_back = ["fd82:1::", "fd82:20::"].map(|net| to.starts_with(net));
        let mut change = |ip: &mut Ip6| {
            if is_back.contains(&true) {
                ip.from = address(&format!("fd82:1::{}", redirected.next().unwrap()));
            }
        };
        change(&mut ip);
        all.six(
            format!("IPv6 to {name}"),
            is_fast,
            &ip.clone().summed(17, 0, 6),
        );
        change(&mut ip);
        all.six(format!("IPv6 echo to {name}"), is_fast, &echo(ip));
    }
    assert!(redirected.next().unwrap() <= REDIRECTED + 10);
    for (name, from, is_fast) in FROM6 {
        let ip = Ip6 {
            from: address(from),
            ..plain()
        }
        .summed(17, 0, 6);
        all.six(format!("IPv6 from {name}"), is_fast, &ip);
    }
    for (name, next, payload) in [
        ("TCP", 6, tcp(4000, 80)),
        ("IPv4 in IPv6", 4, packet4(FAR4, udp(1, 2, 3)).bytes()),
        ("IPv6 in IPv6", 41, plain().bytes()),
        ("GRE", 47, vec![0; 30]),
        ("SCTP", 132, vec![0; 30]),
        ("an unknown protocol", 253, vec![9; 30]),
        ("protocol 255", 255, vec![9; 30]),
        ("no next header", 59, Vec::new()),
        ("no next header, and bytes", 59, vec![9; 30]),
        (
            "destination options",
            60,
            extension(17, &[1, 4, 0, 0, 0, 0]),
        ),
        (
            "an unknown option",
            60,
            extension(17, &[0xde, 4, 0, 0, 0, 0]),
        ),
        (
            "the first routing header",
            43,
            extension(17, &[[0, 1, 0, 0, 0, 0].as_slice(), &[0xfd; 16]].concat()),
        ),
        (
            "a routing header of type 2",
            43,
            extension(17, &[[2, 1, 0, 0, 0, 0].as_slice(), &[0xfd; 16]].concat()),
        ),
        (
            "segments",
            43,
            extension(17, &[[4, 0, 0, 0, 0, 0].as_slice(), &[0xfd; 16]].concat()),
        ),
        ("a routing header that is done", 43, extension(17, &[0; 6])),
        ("a first fragment", 44, vec![17, 0, 0, 1, 0, 0, 0, 9]),
        ("a later fragment", 44, vec![17, 0, 0, 0x80, 0, 0, 0, 9]),
        (
            "a whole packet in a fragment",
            44,
            vec![17, 0, 0, 0, 0, 0, 0, 9],
        ),
        (
            "AH",
            51,
            vec![
                17, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
            ],
        ),
        ("ESP", 50, vec![1; 40]),
        ("mobility", 135, extension(59, &[0; 6])),
        ("HIP", 139, extension(59, &[0; 6])),
        ("shim6", 140, extension(59, &[0; 6])),
        (
            "hop-by-hop options in second place",
            60,
            [
                extension(0, &[1, 4, 0, 0, 0, 0]),
                extension(17, &[1, 4, 0, 0, 0, 0]),
            ]
            .concat(),
        ),
    ] {
        let is_last = ![60, 43, 44, 51].contains(&next);
        let behind = if is_last {
            Vec::new()
        } else {
            udp(4000, 9, 18)
        };
        let ip = Ip6 {
            next,
            payload: [payload, behind].concat(),
            ..plain()
        };
        all.six(format!("IPv6 with {name}"), true, &ip);
        all.six(
            format!("IPv6 with {name}, one hop left"),
            false,
            &Ip6 {
                hops: 1,
                ..ip.clone()
            },
        );
        let to = address("fd82:1::1");
        all.six(
            format!("IPv6 with {name} to the router"),
            false,
            &Ip6 { to, ..ip },
        );
    }
    for (name, options) in [
        ("padding", vec![1, 4, 0, 0, 0, 0]),
        ("router alert", vec![5, 2, 0, 0, 1, 0]),
        ("a jumbogram", vec![0xc2, 4, 0, 1, 0, 0]),
        ("an option to be skipped", vec![0x1e, 4, 0, 0, 0, 0]),
        ("an option to be dropped", vec![0x5e, 4, 0, 0, 0, 0]),
        ("an option to be told", vec![0x9e, 4, 0, 0, 0, 0]),
        ("an option to be told to one", vec![0xde, 4, 0, 0, 0, 0]),
        ("an option that is too long", vec![0x1e, 40, 0, 0, 0, 0]),
    ] {
        for hops in [1, 64] {
            let payload = [extension(17, &options), udp(4000, 9, 18)].concat();
            let ip = Ip6 {
                next: 0,
                hops,
                payload,
                ..plain()
            };
            all.six(format!("hop-by-hop, {name}, {hops} hops"), false, &ip);
        }
    }
    let cut = Ip6 {
        next: 0,
        payload: vec![17, 9, 1, 4, 0, 0, 0, 0],
        ..plain()
    };
    all.six("hop-by-hop options beyond the end", false, &cut);
    for hops in [0, 1, 2, 3, 255] {
        all.six(
            format!("IPv6 with {hops} hops"),
            hops > 1,
            &Ip6 { hops, ..plain() },
        );
        for (name, to) in [("no route", "2001:db8::1"), ("the router", "fd82:1::1")] {
            let ip = Ip6 {
                hops,
                ..datagram(to)
            };
            all.six(format!("IPv6 with {hops} hops to {name}"), false, &ip);
        }
    }
    for (name, kind) in [
        ("unreachable", 1),
        ("too big", 2),
        ("time exceeded", 3),
        ("parameter problem", 4),
        ("echo reply", 129),
        ("solicitation of routers", 133),
        ("advertisement of a router", 134),
        ("solicitation of neighbours", 135),
        ("redirect", 137),
    ] {
        for hops in [1, 64] {
            let body = [&[kind, 0, 0, 0, 0, 0, 5, 0][..], &plain().bytes()].concat();
            let ip = Ip6 {
                next: 58,
                hops,
                payload: body,
                ..plain()
            }
            .summed(58, 0, 2);
            let is_fast = hops > 1 && kind >= 128;
            all.six(format!("ICMPv6 {name} with {hops} hops"), is_fast, &ip);
        }
    }
    for (name, to, target) in [
        ("the router", "ff02::1:ff00:1", "fd82:1::1"),
        ("the router, to itself", "fd82:1::1", "fd82:1::1"),
        ("the router's link-local", "ff02::1:ff00:1", "fe80::1"),
        ("an address of r1", "ff02::1:ff00:1", "fd82:2::1"),
        ("another host", "ff02::1:ff00:9", "fd82:1::9"),
    ] {
        let mut body = vec![135, 0, 0, 0, 0, 0, 0, 0];
        body.extend(address(target).octets());
        body.extend([1, 1]);
        body.extend(HOST[0]);
        let ip = Ip6 {
            next: 58,
            hops: 255,
            ..packet6(to, body)
        }
        .summed(58, 0, 2);
        all.six(format!("a question for {name}"), false, &ip);
    }
    for first in [
        0x6010_0000_u32,
        0x6ff0_0000,
        0x6001_2345,
        0x6b8f_ffff,
        0x6030_0001,
    ] {
        all.six(
            format!("IPv6 with the first word {first:#x}"),
            true,
            &Ip6 { first, ..plain() },
        );
    }
    let routes: [(u8, &str, u16, u16); 6] = [
        (9, "r1", 1500, 1500),
        (10, "r2", 1400, 1400),
        (11, "an MTU", 1300, 1300),
        (12, "a locked MTU", 1300, 1300),
        (22, "a larger MTU", 1600, 1500),
        (23, "a larger locked MTU", 1600, 1500),
    ];
    for (net, name, mtu, known) in routes {
        for bytes in BTreeSet::from([1280, mtu - 1, mtu, mtu + 1, 1501, 1601, 1990]) {
            let mut ip = packet6(
                &format!("fd82:{net}::1"),
                udp(4000, 9, usize::from(bytes) - 48),
            );
            ip = ip.summed(17, 0, 6);
            let name = format!("{bytes} bytes of IPv6 by {name}");
            all.six(name, bytes <= known, &ip);
        }
    }
    for bytes in [0, 1, 2, 7, 8, 9, 10, 11, 30, 31] {
        let ip = Ip6 {
            payload: vec![6; bytes],
            ..plain()
        };
        all.six(format!("IPv6 with {bytes} bytes"), true, &ip);
    }
    for flow in 0..6u16 {
        let mut ip = datagram(&format!("fd82:21::{flow:x}"));
        ip.first |= u32::from(flow / 3);
        all.six(format!("IPv6 by several paths, flow {flow}"), true, &ip)
            .differs = Some(Difference::Paths);
        ip.next = 6;
        ip.payload = tcp(4000 + flow, 80);
        all.six(
            format!("TCP over IPv6 by several paths, flow {flow}"),
            true,
            &ip,
        )
        .differs = Some(Difference::Paths);
    }
    for inner in 0..4 {
        let quoted = Ip6 {
            from: address("fd82:21::1"),
            to: address(&format!("fd82:1::{inner}")),
            ..plain()
        };
        for kind in [1, 3] {
            let body = [&[kind, 0, 0, 0, 0, 0, 0, 0][..], &quoted.bytes()].concat();
            let ip = Ip6 {
                next: 58,
                ..packet6("fd82:21::1", body)
            }
            .summed(58, 0, 2);
            all.six(
                format!("ICMPv6 error {kind} by several paths, flow {inner}"),
                false,
                &ip,
            );
        }
    }
}

/// Frames that are no packets, or that differ in their link layer.
fn frames(all: &mut Kinds) {
    let (four, six) = (
        packet4(FAR4, udp(4000, 9, 26)),
        packet6(FAR6, udp(4000, 9, 26)).summed(17, 0, 6),
    );
    let packets = [("IPv4", V4, four.bytes()), ("IPv6", V6, six.bytes())];
    for (version, kind, packet) in &packets {
        for (name, to, from, is_fast) in [
            ("another host", [2, 0, 0, 0, 9, 9], HOST[0], false),
            ("nearly the router", [2, 0, 0, 0, 0, 0x18], HOST[0], false),
            ("the router's other interface", ROUTER[1], HOST[0], false),
            ("all", [0xff; 6], HOST[0], false),
            ("a group of IPv4", [1, 0, 0x5e, 0, 0, 1], HOST[0], false),
            ("a group of IPv6", [0x33, 0x33, 0, 0, 0, 1], HOST[0], false),
            ("the bridges", [1, 0x80, 0xc2, 0, 0, 0], HOST[0], false),
            ("nobody", [0; 6], HOST[0], false),
            ("the router, from itself", ROUTER[0], ROUTER[0], true),
            ("the router, from nobody", ROUTER[0], [0; 6], true),
            (
                "the router, from a group",
                ROUTER[0],
                [3, 0, 0, 0, 0, 1],
                true,
            ),
            ("the router, from all", ROUTER[0], [0xff; 6], true),
        ] {
            let frame = ethernet(to, from, *kind, packet);
            all.frame(format!("{version} in a frame for {name}"), is_fast, frame);
        }
        let other = if *kind == V4 { V6 } else { V4 };
        for kind in [
            other, 0, 46, 1500, 0x0600, 0x0842, 0x22f0, 0x6558, 0x8035, 0x8847, 0x8848, 0x8863,
            0x8864, 0x888e, 0x88cc, 0x88e5, 0x9000, 0xffff,
        ] {
            let frame = ethernet(ROUTER[0], HOST[0], kind, packet);
            all.frame(
                format!("{version} in a frame of type {kind:#x}"),
                false,
                frame,
            );
        }
        // Tags of VLANs, outermost first. The router has no VLAN.
        let tags: [(&[(u16, u16)], bool); 12] = [
            (&[(0x8100, 0)], true),
            (&[(0x8100, 0xe000)], true),
            (&[(0x8100, 7)], false),
            (&[(0x8100, 0xa007)], false),
            (&[(0x8100, 4095)], false),
            (&[(0x88a8, 0)], false),
            (&[(0x88a8, 7)], false),
            (&[(0x8100, 0), (0x8100, 0)], false),
            (&[(0x88a8, 0), (0x8100, 0)], false),
            (&[(0x88a8, 7), (0x8100, 7)], false),
            (&[(0x8100, 0), (0x8100, 7)], false),
            (&[(0x8100, 0), (0x8100, 0), (0x8100, 0)], false),
        ];
        for (tags, is_fast) in tags {
            let mut payload = packet.clone();
            let mut inner = *kind;
            for (outer, tag) in tags.iter().rev() {
                payload = [&tag.to_be_bytes()[..], &inner.to_be_bytes(), &payload].concat();
                inner = *outer;
            }
            let frame = ethernet(ROUTER[0], HOST[0], inner, &payload);
            all.frame(
                format!("{version} behind the tags {tags:x?}"),
                is_fast,
                frame,
            );
        }
        // The packet's end, and bytes behind it.
        let whole = ethernet(ROUTER[0], HOST[0], *kind, packet);
        for bytes in [0, 1, 8, 19, 20, 24, 27, 39, 40, 47, packet.len() - 1] {
            if bytes < packet.len() {
                let frame = whole[..14 + bytes].to_vec();
                all.frame(format!("{version} cut after {bytes} bytes"), false, frame);
            }
        }
        for more in [1, 2, 10, 50, 150, 1000] {
            let frame = [&whole[..], &vec![0xee; more]].concat();
            all.frame(format!("{version} with {more} bytes behind"), false, frame);
        }
    }
    let short = Ip4 {
        payload: udp(4000, 9, 2),
        ..four.clone()
    };
    for more in [1, 16, 20] {
        let whole = ethernet(ROUTER[0], HOST[0], V4, &short.bytes());
        let frame = [&whole[..], &vec![0; more]].concat();
        all.frame(
            format!("a short IPv4 packet with padding of {more} bytes"),
            true,
            frame,
        )
        .differs = Some(Difference::Padding);
    }
    let short = Ip6 {
        payload: vec![1; 2],
        ..six.clone()
    };
    let frame = [ethernet(ROUTER[0], HOST[0], V6, &short.bytes()), vec![0; 4]].concat();
    all.frame("a short IPv6 packet with padding", true, frame)
        .differs = Some(Difference::Padding);
    for first in [0x05, 0x35, 0x55, 0x65, 0xf5, 0x40, 0x44, 0x46, 0x4f] {
        all.four(
            format!("IPv4 that begins with {first:#x}"),
            false,
            &Ip4 {
                first,
                ..four.clone()
            },
        );
    }
    for total in [0, 1, 19, 20, 21, 27, 28, 53, 55, 60, 1500, 65535] {
        // A shorter packet has bytes behind it.
        let ip = Ip4 {
            total: Some(total),
            ..four.clone()
        };
        all.four(format!("IPv4 that says {total} bytes"), false, &ip);
    }
    for first in [0, 0x4000_0000, 0x5000_0000, 0x7000_0000, 0xf000_0000] {
        all.six(
            format!("IPv6 that begins with {first:#x}"),
            false,
            &Ip6 {
                first,
                ..six.clone()
            },
        );
    }
    for length in [0, 1, 8, 33, 35, 40, 1460, 65535] {
        let ip = Ip6 {
            length: Some(length),
            ..six.clone()
        };
        all.six(format!("IPv6 that says {length} bytes"), false, &ip);
    }
    let arp = |code: u8, from: [u8; 4], to: [u8; 4]| {
        let mut all = vec![0, 1, 8, 0, 6, 4, 0, code];
        all.extend(HOST[0]);
        all.extend(from);
        all.extend([0; 6]);
        all.extend(to);
        all
    };
    for (name, packet) in [
        (
            "question for the router",
            arp(1, [10, 82, 1, 2], [10, 82, 1, 1]),
        ),
        (
            "question for an address of r1",
            arp(1, [10, 82, 1, 2], [10, 82, 2, 1]),
        ),
        (
            "question for another host",
            arp(1, [10, 82, 1, 2], [10, 82, 1, 77]),
        ),
        ("probe", arp(1, [0; 4], [10, 82, 1, 1])),
        ("announcement", arp(1, [10, 82, 1, 2], [10, 82, 1, 2])),
        ("answer", arp(2, [10, 82, 1, 2], [10, 82, 1, 1])),
        (
            "question that is cut",
            arp(1, [10, 82, 1, 2], [10, 82, 1, 1])[..20].to_vec(),
        ),
    ] {
        for (how, to) in [("", ROUTER[0]), (" to all", [0xff; 6])] {
            let frame = ethernet(to, HOST[0], 0x0806, &packet);
            all.frame(format!("ARP {name}{how}"), false, frame);
        }
    }
    // The other way.
    for side in [1, 2] {
        let net = side as u8 + 1;
        for (name, from) in [
            ("its host", [10, 82, net, 2]),
            ("behind it", [10, 82, 8 + net - 1, 1]),
        ] {
            let ip = Ip4 {
                from,
                to: [10, 82, 1, 2],
                ..four.clone()
            };
            let frame = ethernet(ROUTER[side], HOST[side], V4, &ip.bytes());
            all.frame(format!("IPv4 by r{side} from {name}"), true, frame)
                .side = side;
        }
        let mut ip = packet6("fd82:1::2", udp(9, 4000, 100));
        ip.from = address(&format!("fd82:{net}::2"));
        let frame = ethernet(ROUTER[side], HOST[side], V6, &ip.summed(17, 0, 6).bytes());
        all.frame(format!("IPv6 by r{side}"), true, frame).side = side;
    }
}

/// Frames to neighbours that do not answer. The kernel asks for them, and tells the sender later.
pub fn lost() -> Vec<Kind> {
    let mut all = Kinds(Vec::new());
    for (at, hops) in [64, 2, 1].into_iter().enumerate() {
        let last = 100 + at as u8;
        for to in [[10, 82, 2, last], [10, 82, 18, last], [10, 82, 1, last]] {
            let mut ip = Ip4 {
                hops,
                to,
                ..packet4(FAR4, udp(4000, 9, 26))
            };
            ip.from[3] = REDIRECTED + 10 + at as u8;
            all.four(
                format!("IPv4 to the unknown {to:?} with {hops} hops"),
                false,
                &ip,
            );
        }
        for net in [2, 18, 1] {
            let mut ip = packet6(&format!("fd82:{net}::{last}"), udp(4000, 9, 26));
            ip.from = address(&format!("fd82:1::{}", REDIRECTED + 10 + at as u8));
            let ip = Ip6 {
                hops,
                ..ip.summed(17, 0, 6)
            };
            all.six(
                format!("IPv6 to the unknown {net}::{last} with {hops} hops"),
                false,
                &ip,
            );
        }
    }
    let ip = packet4([10, 82, 19, 1], udp(4000, 9, 26));
    all.four("IPv4 by an unknown gateway", false, &ip);
    let ip = packet6("fd82:19::1", udp(4000, 9, 26)).summed(17, 0, 6);
    all.six("IPv6 by an unknown gateway", false, &ip);
    all.0
}

pub fn kinds() -> Vec<Kind> {
    let mut all = Kinds(Vec::new());
    four(&mut all);
    six(&mut all);
    frames(&mut all);
    // Each name once.
    let names: HashSet<&str> = all.0.iter().map(|kind| &*kind.name).collect();
    let mut seen = HashSet::new();
    let twice: Vec<_> = all
        .0
        .iter()
        .filter(|kind| !seen.insert(&*kind.name))
        .map(|kind| &kind.name)
        .collect();
    assert_eq!(names.len(), all.0.len(), "{twice:?}");
    all.0
}
