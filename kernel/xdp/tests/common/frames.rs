//! Frames of IPv4 and IPv6 packets, field by field.

/// The checksum of the internet (RFC 1071) over these bytes.
pub fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// An IPv4 packet.
#[derive(Clone, Debug)]
pub struct Ip4 {
    pub first: u8,
    pub service: u8,
    /// The length in the header; `None`: the right one.
    pub total: Option<u16>,
    pub id: u16,
    /// Flags, and the offset of a fragment.
    pub fragment: u16,
    pub hops: u8,
    pub protocol: u8,
    /// Added to the checksum of the header.
    pub wrong: u16,
    pub from: [u8; 4],
    pub to: [u8; 4],
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
}

impl Ip4 {
    pub fn bytes(&self) -> Vec<u8> {
        let header = 20 + self.options.len();
        let total = (self.total).unwrap_or((header + self.payload.len()) as u16);
        let first = match self.first {
            0x45 => 0x40 | (header / 4) as u8,
            other => other,
        };
        let mut all = vec![first, self.service];
        for word in [total, self.id, self.fragment] {
            all.extend(word.to_be_bytes());
        }
        all.extend([self.hops, self.protocol, 0, 0]);
        all.extend(self.from);
        all.extend(self.to);
        all.extend(&self.options);
        let sum = checksum(&all).wrapping_add(self.wrong);
        all[10..12].copy_from_slice(&sum.to_be_bytes());
        all.extend(&self.payload);
        all
    }
}

/// An IPv6 packet. Extension headers are a part of its payload.
#[derive(Clone, Debug)]
pub struct Ip6 {
    /// Version, traffic class and flow label.
    pub first: u32,
    /// The length in the header; `None`: the right one.
    pub length: Option<u16>,
    pub next: u8,
    pub hops: u8,
    pub from: std::net::Ipv6Addr,
    pub to: std::net::Ipv6Addr,
    pub payload: Vec<u8>,
}

impl Ip6 {
    pub fn bytes(&self) -> Vec<u8> {
        let mut all = self.first.to_be_bytes().to_vec();
        let length = self.length.unwrap_or(self.payload.len() as u16);
        all.extend(length.to_be_bytes());
        all.extend([self.next, self.hops]);
        all.extend(self.from.octets());
        all.extend(self.to.octets());
        all.extend(&self.payload);
        all
    }

    /// The packet with the checksum of its transport at this byte of the payload, over the payload
    /// from `begin` on.
    pub fn summed(mut self, protocol: u8, begin: usize, at: usize) -> Ip6 {
        let carried = &self.payload[begin..];
        let mut all = [self.from.octets(), self.to.octets()].concat();
        all.extend((carried.len() as u32).to_be_bytes());
        all.extend([0, 0, 0, protocol]);
        all.extend(carried);
        let sum = match checksum(&all) {
            0 => 0xffff,
            sum => sum,
        };
        self.payload[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        self
    }
}

/// A UDP datagram without a checksum.
pub fn udp(from: u16, to: u16, bytes: usize) -> Vec<u8> {
    let mut all = Vec::new();
    for word in [from, to, 8 + bytes as u16, 0] {
        all.extend(word.to_be_bytes());
    }
    all.extend((0..bytes).map(|at| at as u8));
    all
}

/// A TCP segment that opens a connection.
pub fn tcp(from: u16, to: u16) -> Vec<u8> {
    let mut all = Vec::new();
    for word in [from, to, 0, 7, 0, 0, 0x5002, 1000, 0, 0] {
        all.extend(word.to_be_bytes());
    }
    all
}

/// A message of ICMP, for IPv4 with its checksum.
pub fn icmp(kind: u8, code: u8, rest: &[u8]) -> Vec<u8> {
    let mut all = vec![kind, code, 0, 0];
    all.extend(rest);
    let sum = checksum(&all);
    all[2..4].copy_from_slice(&sum.to_be_bytes());
    all
}

/// A frame.
pub fn ethernet(to: [u8; 6], from: [u8; 6], kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut all = [to, from].concat();
    all.extend(kind.to_be_bytes());
    all.extend(payload);
    all
}
