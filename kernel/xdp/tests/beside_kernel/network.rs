//! The network: a router with three interfaces, and the ends of their cables.

use std::collections::HashSet;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use sapwood_routes::XdpRouter;

use crate::common::frames::{Ip4, checksum, ethernet, icmp, udp};
use crate::common::netns::Netns;
use crate::ends;
use crate::kinds::{Kind, packet4};

/// The time that the machine may take when it is busy.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// What frames that belong to no kind have in them.
const MARK: &[u8] = b"SENTINEL";

/// The link addresses of the router's interfaces r0, r1, r2, and of the hosts there.
pub const ROUTER: [[u8; 6]; 3] = [
    [2, 0, 0, 0, 0, 0x10],
    [2, 0, 0, 0, 0, 0x11],
    [2, 0, 0, 0, 0, 0x12],
];
pub const HOST: [[u8; 6]; 3] = [
    [2, 0, 0, 0, 1, 0x10],
    [2, 0, 0, 0, 1, 0x11],
    [2, 0, 0, 0, 1, 0x12],
];

/// The first of the hosts to which the router tells shorter ways: each time another one, because
/// the kernel tells no host twice in a short time.
pub const REDIRECTED: u8 = 30;

pub const V4: u16 = 0x0800;
pub const V6: u16 = 0x86dd;

fn mac(bytes: [u8; 6]) -> String {
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}

/// A router with three interfaces, and the sockets at the other ends of their cables.
pub struct Network {
    pub router: Netns,
    outside: Netns,
    ends: [UdpSocket; 3],
    sentinels: u32,
}

impl Network {
    /// The network, with these settings of the router's kernel.
    pub fn new(settings: &[&str]) -> Option<Network> {
        let [router, outside] = Netns::some(["router", "outside"])?;
        let set = |space: &Netns, keys: &[&str]| {
            let out = space.run(&[&["sysctl", "-qw"], keys].concat());
            assert!(out.status.success(), "{out:?}");
        };
        // The hosts have no addresses, so that their kernel says nothing.
        set(&outside, &["net.ipv6.conf.default.disable_ipv6=1"]);
        let common = [
            "net.ipv4.ip_forward=1",
            "net.ipv6.conf.all.forwarding=1",
            "net.ipv4.conf.all.rp_filter=0",
            "net.ipv4.conf.default.rp_filter=0",
            "net.ipv4.conf.all.send_redirects=1",
            "net.ipv4.conf.default.send_redirects=1",
            // The same link-local addresses in all networks.
            "net.ipv6.conf.default.addr_gen_mode=1",
            "net.ipv6.conf.default.accept_dad=0",
            "net.ipv6.auto_flowlabels=0",
            // Each frame has its own answer.
            "net.ipv4.icmp_ratelimit=0",
            "net.ipv4.icmp_msgs_per_sec=1000000",
            "net.ipv4.icmp_msgs_burst=100000",
            "net.ipv6.icmp.ratelimit=0",
            "net.ipv4.icmp_echo_ignore_broadcasts=1",
        ];
        set(&router, &[&common[..], settings].concat());
        for (side, mtu) in [2000, 1500, 1400].into_iter().enumerate() {
            let (near, far) = (&format!("r{side}"), &format!("h{side}"));
            Netns::veth((&router, near, &[]), (&outside, far, &[]));
            for (space, name, address) in
                [(&router, near, ROUTER[side]), (&outside, far, HOST[side])]
            {
                let args = [
                    "link",
                    "set",
                    "dev",
                    name,
                    "address",
                    &mac(address),
                    "mtu",
                    "2000",
                ];
                space.ip(&args);
            }
            router.ip(&["link", "set", "dev", near, "mtu", &mtu.to_string()]);
            let net = side + 1;
            for address in [
                format!("10.82.{net}.1/24"),
                format!("fd82:{net}::1/64"),
                "fe80::1/64".into(),
            ] {
                let nodad: &[&str] = if address.contains(':') {
                    &["nodad"]
                } else {
                    &[]
                };
                router.ip(&[&["addr", "add", &address, "dev", near], nodad].concat());
            }
            // A neighbour that does not answer is given up soon.
            for version in ["ipv4", "ipv6"] {
                let key = |name: &str| format!("net.{version}.neigh.{near}.{name}");
                let probes = key("mcast_solicit=1");
                set(&router, &[&probes, &key("retrans_time_ms=150")]);
            }
            // One host by several addresses.
            for host in [2, 3, 5].into_iter().chain(REDIRECTED..REDIRECTED + 13) {
                for address in [
                    format!("10.82.{net}.{host}"),
                    format!("fd82:{net}::{host}"),
                    format!("fe80::{host}"),
                ] {
                    let args = ["neigh", "replace", &address, "lladdr", &mac(HOST[side])];
                    router.ip(&[&args[..], &["dev", near, "nud", "permanent"]].concat());
                }
            }
        }
        for (net, rest) in [
            (9, "via {2}::2"),
            (10, "via {3}::2"),
            (11, "via {2}::2 mtu 1300"),
            (12, "via {2}::2 mtu lock 1300"),
            (18, "dev r1"),
            (19, "via {2}::77"),
            (20, "via {1}::3"),
            (21, "nexthop via {2}::2 nexthop via {3}::2"),
            (22, "via {2}::2 mtu 1600"),
            (23, "via {2}::2 mtu lock 1600"),
            (24, "via {3}::2 advmss 1000 window 5000"),
        ] {
            for (prefix, begin, end) in [
                (format!("10.82.{net}.0/24"), "10.82.", "."),
                (format!("fd82:{net}::/64"), "fd82:", "::"),
            ] {
                let mut text = rest.to_owned();
                for side in 1..=3 {
                    let gateway = format!("{begin}{side}{end}");
                    text = text.replace(&format!("{{{side}}}::"), &gateway);
                }
                let words: Vec<&str> = text.split(' ').collect();
                router.ip(&[&["route", "add", &prefix], &words[..]].concat());
            }
        }
        router.ip(&["route", "add", "10.82.13.0/24", "via", "inet6", "fd82:2::2"]);
        router.ip(&[
            "route",
            "add",
            "10.82.25.0/24",
            "via",
            "inet6",
            "fe80::2",
            "dev",
            "r2",
        ]);
        router.ip(&[
            "route",
            "add",
            "fd82:25::/64",
            "via",
            "fe80::2",
            "dev",
            "r2",
        ]);
        for (kind, net) in [
            ("blackhole", 14),
            ("unreachable", 15),
            ("prohibit", 16),
            ("throw", 17),
        ] {
            router.ip(&["route", "add", kind, &format!("10.82.{net}.0/24")]);
            router.ip(&["route", "add", kind, &format!("fd82:{net}::/64")]);
        }
        // A host whose neighbour is known, on a network without a gateway.
        for address in ["10.82.18.5", "fd82:18::5"] {
            let args = ["neigh", "replace", address, "lladdr", &mac(HOST[1])];
            router.ip(&[&args[..], &["dev", "r1", "nud", "permanent"]].concat());
        }
        let ends = [0, 1, 2].map(|side| {
            let index = outside.index(&format!("h{side}"));
            let end = outside.inside(|| ends::end_of(index).unwrap());
            end.set_nonblocking(true).unwrap();
            end
        });
        Some(Network {
            router,
            outside,
            ends,
            sentinels: 0,
        })
    }

    /// Attaches the program to the router, and the passing one to the hosts.
    pub fn attach(&self, program: &mut XdpRouter) {
        for side in 0..3 {
            let near = self.router.index(&format!("r{side}"));
            self.router
                .inside(|| program.attach(near, None).map(drop).unwrap());
            let far = self.outside.index(&format!("h{side}"));
            self.outside
                .inside(|| program.attach_pass(far, None).map(drop).unwrap());
        }
    }

    /// All frames that came out so far, and whether all of these sentinels did.
    pub fn drain(&self, out: &mut Vec<(usize, Vec<u8>)>, sentinels: &mut HashSet<(usize, u32)>) {
        let mut buffer = vec![0; 4096];
        for (side, end) in self.ends.iter().enumerate() {
            while let Ok(bytes) = end.recv(&mut buffer) {
                let frame = &buffer[..bytes];
                if let Some(at) = frame.windows(MARK.len()).position(|part| part == MARK) {
                    let number = frame[at + MARK.len()..][..4].try_into().unwrap();
                    sentinels.remove(&(side, u32::from_be_bytes(number)));
                } else if !is_noise(frame) {
                    out.push((side, normal(frame)));
                }
            }
        }
    }

    /// Sends a frame by each way that the kernel alone takes, and waits until they have come out.
    pub fn flush(&mut self, out: &mut Vec<(usize, Vec<u8>)>) {
        self.sentinels += 1;
        let number = self.sentinels;
        let payload = [MARK, &number.to_be_bytes()].concat();
        for side in 0..3 {
            let mut ip = Ip4 {
                // Programs pass packets with options.
                options: vec![1; 4],
                ..packet4([10, 82, side + 1, 2], Vec::new())
            };
            match side {
                // The router's own answer.
                0 => {
                    ip.to = [10, 82, 1, 1];
                    ip.protocol = 1;
                    ip.payload = icmp(8, 0, &[&[0, 1, 0, 1], &payload[..]].concat());
                }
                _ => ip.payload = [&udp(1, 9, payload.len())[..8], &payload].concat(),
            }
            let frame = ethernet(ROUTER[0], HOST[0], V4, &ip.bytes());
            self.ends[0].send(&frame).unwrap();
        }
        let mut missing = HashSet::from([(0, number), (1, number), (2, number)]);
        let begin = Instant::now();
        while !missing.is_empty() {
            self.drain(out, &mut missing);
            assert!(begin.elapsed() < PATIENCE, "sentinels {missing:?}");
            if begin.elapsed() > Duration::from_millis(1) {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }

    /// Sends a frame, and returns all that comes out. Waits until there are as many frames as are
    /// wanted, or none can come any more.
    pub fn send(&mut self, kind: &Kind, wanted: usize) -> Vec<(usize, Vec<u8>)> {
        let mut out = Vec::new();
        self.ends[kind.side].send(&kind.frame).unwrap();
        self.flush(&mut out);
        // Frames of the program and of the kernel go by different queues.
        self.flush(&mut out);
        let begin = Instant::now();
        while out.len() < wanted && begin.elapsed() < Duration::from_secs(3) {
            std::thread::sleep(Duration::from_millis(1));
            self.drain(&mut out, &mut HashSet::new());
        }
        out.sort();
        out
    }

    /// Sends all frames at once, and returns all that comes out: at least for this time, and until
    /// there are as many frames as are wanted and no more come.
    pub fn send_all(
        &mut self,
        kinds: &[Kind],
        time: Duration,
        wanted: usize,
    ) -> Vec<(usize, Vec<u8>)> {
        let mut out = Vec::new();
        for kind in kinds {
            self.ends[kind.side].send(&kind.frame).unwrap();
        }
        let begin = Instant::now();
        let mut last = begin;
        loop {
            std::thread::sleep(Duration::from_millis(10));
            let before = out.len();
            self.drain(&mut out, &mut HashSet::new());
            if out.len() > before {
                last = Instant::now();
            }
            let is_quiet = begin.elapsed() > time && last.elapsed() > time / 2;
            if is_quiet && (out.len() >= wanted || begin.elapsed() > PATIENCE) {
                break;
            }
        }
        out.sort();
        out
    }
}

/// Whether the router's kernel sends a frame on its own, at any time: reports of its multicast
/// groups.
fn is_noise(frame: &[u8]) -> bool {
    // Behind the IPv6 header come a hop-by-hop header of eight bytes and the report's type.
    frame.len() > 62 && frame[12..14] == [0x86, 0xdd] && frame[20] == 0 && frame[62] == 143
}

/// A frame without what differs each time: the number of an IPv4 packet that the router makes.
fn normal(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let is_made = frame.len() >= 34
        && frame[12..14] == V4.to_be_bytes()
        && frame[26..28] == [10, 82]
        && frame[29] == 1;
    if is_made {
        let header = usize::from(frame[14] & 15) * 4;
        assert_eq!(checksum(&frame[14..14 + header]), 0);
        frame[18..20].fill(0);
        frame[24..26].fill(0);
    }
    frame
}
