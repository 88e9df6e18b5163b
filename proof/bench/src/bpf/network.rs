//! A router between a sender and a receiver, with many routes; and frames for it, with their
//! expected results.

use std::fmt::Write;
use std::net::{IpAddr, Ipv6Addr};
use std::process::Command;

use sapwood_model::data::routes as model;
use sapwood_model::oracle::lpm::to_v4;
use sapwood_model::oracle::{LpmByLength, Prefix};

use super::space::{self, Space};

/// The number of cables to the receiver, and that of the neighbours at the end of each.
const CABLES: usize = 4;
const NEIGHBOURS: usize = 16;

/// The number of bytes of a frame: the least that Ethernet carries.
pub const FRAME: usize = 64;

/// The interface where packets enter, as the sender and the router see it.
const SENDER: &str = "02:00:00:00:03:02";
const ENTRY: &str = "02:00:00:00:03:01";

/// IPv4 or IPv6.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Version {
    V4,
    V6,
}

impl Version {
    fn width(self) -> u8 {
        match self {
            Version::V4 => 32,
            Version::V6 => 128,
        }
    }

    fn address(self, bits: u128) -> IpAddr {
        match self {
            Version::V4 => to_v4(bits).into(),
            Version::V6 => Ipv6Addr::from(bits).into(),
        }
    }

    /// Whether such an address is neither one of the test network's own nor special.
    fn is_far(self, bits: u128) -> bool {
        let first = (bits >> 120) as u8;
        match self {
            Version::V4 => (1..=223).contains(&first) && first != 10 && first != 127,
            Version::V6 => (0x20..0x40).contains(&first),
        }
    }

    /// The router's own address (0), or a neighbour's address, on a cable to the receiver.
    fn near(self, cable: usize, neighbour: usize) -> String {
        let neighbour = match neighbour {
            0 => 1,
            other => 15 + other,
        };
        match self {
            Version::V4 => format!("10.82.{cable}.{neighbour}"),
            Version::V6 => format!("fd82:{cable}::{neighbour:x}"),
        }
    }
}

/// A frame, and the expected result of the router.
pub struct Frame {
    pub sent: [u8; FRAME],
    pub forwarded: [u8; FRAME],
}

/// The namespaces, with the routes of both versions.
pub struct Network {
    pub sender: Space,
    pub router: Space,
    pub receiver: Space,
    routes: [Routes; 2],
    /// For each cable, the number of the receiver's interface.
    ends: Vec<u8>,
}

/// Prefixes, each with its neighbour.
struct Routes {
    prefixes: Vec<Prefix>,
    hops: LpmByLength<usize>,
}

impl Network {
    /// A network whose router has this number of routes of each version.
    pub fn new(routes: usize) -> Result<Self, String> {
        let [sender, router, receiver] = [Space::new()?, Space::new()?, Space::new()?];
        router.set("ipv4.ip_forward", "1")?;
        router.set("ipv6.conf.all.forwarding", "1")?;
        router.cable(("in0", ENTRY), &sender, ("send0", SENDER))?;
        router
            .ip_lines("addr add 10.82.255.1/24 dev in0\naddr add fd82:ff::1/64 dev in0 nodad\n")?;
        let mut lines = String::new();
        let mut ends = Vec::new();
        for cable in 0..CABLES {
            let (near, far) = (format!("out{cable}"), format!("receive{cable}"));
            router.cable(
                (&near, &mac(exit(cable))),
                &receiver,
                (&far, &mac(exit(cable + 16))),
            )?;
            let index = receiver.index(&far)?;
            ends.push(u8::try_from(index).map_err(|_| format!("{far} has number {index}"))?);
            for (version, more) in [(Version::V4, "/24"), (Version::V6, "/64")] {
                let own = version.near(cable, 0);
                let nodad = if version == Version::V6 { " nodad" } else { "" };
                _ = writeln!(lines, "addr add {own}{more} dev {near}{nodad}");
                for neighbour in 0..NEIGHBOURS {
                    let at = version.near(cable, neighbour + 1);
                    let mac = mac(neighbour_mac(ends[cable], neighbour));
                    _ = writeln!(
                        lines,
                        "neigh add {at} lladdr {mac} dev {near} nud permanent"
                    );
                }
            }
        }
        let routes = [Version::V4, Version::V6].map(|version| Routes::new(version, routes));
        for (version, routes) in [Version::V4, Version::V6].into_iter().zip(&routes) {
            for prefix in &routes.prefixes {
                let hop = routes.hops.get(*prefix).copied().unwrap_or(0);
                let via = version.near(hop / NEIGHBOURS, hop % NEIGHBOURS + 1);
                let address = version.address(prefix.bits);
                _ = writeln!(lines, "route add {address}/{} via {via}", prefix.len);
            }
        }
        router.ip_lines(&lines)?;
        Ok(Self {
            sender,
            router,
            receiver,
            routes,
            ends,
        })
    }

    /// The number of routes.
    pub fn routes(&self, version: Version) -> usize {
        self.routes[version as usize].prefixes.len()
    }

    /// The names of the cables' ends: at the router, where packets leave, and at the receiver.
    pub fn cables() -> impl Iterator<Item = (String, String)> {
        (0..CABLES).map(|cable| (format!("out{cable}"), format!("receive{cable}")))
    }

    /// This number of frames, each of another flow, to random addresses within the routes, with
    /// `hops` hops left.
    pub fn frames(&self, version: Version, count: usize, hops: u8, seed: u64) -> Vec<Frame> {
        let Routes { prefixes, hops: to } = &self.routes[version as usize];
        let addresses = model::addresses_within(prefixes, version.width(), count, seed);
        let frames = addresses.into_iter().enumerate().map(|(flow, bits)| {
            let hop = to.lookup(bits).map_or(0, |(_, hop)| *hop);
            let (cable, neighbour) = (hop / NEIGHBOURS, hop % NEIGHBOURS);
            let to = neighbour_mac(self.ends[cable], neighbour);
            let sent = frame(version, flow, bits, hops, to);
            let mut forwarded = sent;
            forwarded[..6].copy_from_slice(&to);
            forwarded[6..12].copy_from_slice(&exit(cable));
            Frame { sent, forwarded }
        });
        frames.collect()
    }

    /// Has the router's entry interface accept whole frames from the sender also without a program.
    pub fn without_program(&self) -> Result<(), String> {
        let mut command = Command::new("ethtool");
        command.args(["-K", "in0", "gro", "on"]);
        self.router
            .inside(|| space::run(&mut command, ""))
            .map(drop)
    }
}

impl Frame {
    /// The frame as it leaves the router, after this many hops.
    pub fn after(&self, hops: u8) -> [u8; FRAME] {
        let mut frame = self.forwarded;
        if frame[12] == 0x08 {
            frame[22] -= hops;
            frame[24..26].fill(0);
            let sum = checksum(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        } else {
            frame[21] -= hops;
        }
        frame
    }
}

impl Routes {
    fn new(version: Version, count: usize) -> Self {
        let mut prefixes = match version {
            Version::V4 => model::routes_v4(count, 1),
            Version::V6 => model::routes_v6(count, 1),
        };
        prefixes.retain(|prefix| version.is_far(prefix.bits));
        let mut hops = LpmByLength::new(version.width());
        let drawn = model::next_hops(prefixes.len(), 1);
        for (prefix, hop) in prefixes.iter().zip(drawn) {
            hops.insert(*prefix, hop as usize % (CABLES * NEIGHBOURS));
        }
        Self { prefixes, hops }
    }
}

/// The router's hardware address on a cable to the receiver.
fn exit(cable: usize) -> [u8; 6] {
    [2, 0, 0, 0, 2, cable as u8]
}

/// The hardware address of a neighbour. The receiver compares its last two bytes.
fn neighbour_mac(end: u8, neighbour: usize) -> [u8; 6] {
    [2, 0, 0, 1, end, neighbour as u8]
}

fn mac(bytes: [u8; 6]) -> String {
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}

/// A UDP packet of its own flow, as the sender sends it. Its last bytes are those of the neighbour
/// that must receive it.
fn frame(version: Version, flow: usize, to: u128, hops: u8, neighbour: [u8; 6]) -> [u8; FRAME] {
    let mut frame = Vec::with_capacity(FRAME);
    let byte = |text: &str| u8::from_str_radix(text, 16).unwrap_or(0);
    for mac in [ENTRY, SENDER] {
        frame.extend(mac.split(':').map(byte));
    }
    let port = [(flow >> 8) as u8, flow as u8];
    match version {
        Version::V4 => {
            frame.extend([0x08, 0x00, 0x45, 0, 0, 50, 0, 0, 0x40, 0, hops, 17, 0, 0]);
            frame.extend([10, 82, 255, 2]);
            frame.extend(to_v4(to).octets());
            let sum = checksum(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
            // A UDP header without a checksum.
            frame.extend([port[0], port[1], 0, 9, 0, 30, 0, 0]);
            frame.resize(FRAME - 2, 0);
            frame.extend(&neighbour[4..]);
        }
        Version::V6 => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 10, 17, hops]);
            frame.extend([0xfd, 0x82, 0, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
            frame.extend(to.to_be_bytes());
            frame.extend([port[0], port[1], 0, 9, 0, 10, 0, 0]);
            frame.extend(&neighbour[4..]);
            // The checksum covers the addresses, the length, the protocol, and the whole UDP
            // packet.
            let sum = checksum(&[&frame[22..], &[0, 10, 0, 17]].concat());
            frame[60..62].copy_from_slice(&sum.to_be_bytes());
        }
    }
    frame.try_into().expect("frames of 64 bytes")
}

fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2);
    let mut sum: u32 = words
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_packets_with_right_checksums() {
        let to = [2, 0, 0, 1, 7, 8];
        let v4 = frame(Version::V4, 0x102, 0x0102_0304 << 96, 64, to);
        assert_eq!(checksum(&v4[14..34]), 0);
        assert_eq!(v4[30..38], [1, 2, 3, 4, 1, 2, 0, 9]);
        assert_eq!(v4[62..], [7, 8]);
        let v6 = frame(Version::V6, 3, 0x2001 << 112, 64, to);
        assert_eq!(checksum(&[&v6[22..], &[0, 10, 0, 17]].concat()), 0);
        assert_eq!((v6[38], v6[39], &v6[62..]), (0x20, 1, &[7, 8][..]));
        let both = [v4, v6].map(|sent| {
            let frame = Frame {
                sent,
                forwarded: sent,
            };
            frame.after(3)
        });
        assert_eq!((both[0][22], both[1][21]), (61, 61));
        assert_eq!(checksum(&both[0][14..34]), 0);
    }

    #[test]
    fn routes_are_of_far_networks_and_spread() {
        for version in [Version::V4, Version::V6] {
            let routes = Routes::new(version, 2000);
            assert!(routes.prefixes.len() > 1900);
            assert!(routes.prefixes.iter().all(|one| version.is_far(one.bits)));
            let mut by = [0; CABLES * NEIGHBOURS];
            for prefix in &routes.prefixes {
                by[*routes.hops.get(*prefix).unwrap()] += 1;
            }
            assert!(by.iter().filter(|count| **count > 0).count() > CABLES);
        }
    }
}
