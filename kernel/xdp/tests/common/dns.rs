//! DNS queries as frames, and their verdicts by an independent parser.

use std::collections::BTreeMap;

use sapwood::key::{DnsNameError, dns_name_in_message};
use sapwood_xdp::NameRule;
use sapwood_xdp::NamesVerdict;

/// A name in wire form. Dots separate labels, and a backslash before three digits stands for a
/// byte.
pub fn wire(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        let mut bytes = Vec::new();
        let mut rest = label.as_bytes();
        while let Some((&byte, more)) = rest.split_first() {
            if byte == b'\\' {
                let digits = std::str::from_utf8(&more[..3]).unwrap();
                bytes.push(digits.parse::<u8>().unwrap());
                rest = &more[3..];
            } else {
                bytes.push(byte);
                rest = more;
            }
        }
        out.push(bytes.len() as u8);
        out.extend(bytes);
    }
    out.push(0);
    out
}

/// A message with one question: number, flags, and the question's name in wire form.
pub fn message(id: u16, flags: u16, name: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [id, flags, 1, 0, 0, 0] {
        out.extend(word.to_be_bytes());
    }
    out.extend(name);
    // A, IN.
    out.extend([0, 1, 0, 1]);
    out
}

/// A query as a resolver sends it.
pub fn query(name: &str) -> Vec<u8> {
    message(0x1234, 0x0100, &wire(name))
}

/// A UDP datagram.
pub fn udp(to: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [40000, to, 8 + payload.len() as u16, 0] {
        out.extend(word.to_be_bytes());
    }
    out.extend(payload);
    out
}

/// An IPv4 packet with options of this many bytes (a multiple of 4).
pub fn ipv4(protocol: u8, options: usize, payload: &[u8]) -> Vec<u8> {
    let header = 20 + options;
    let total = (header + payload.len()) as u16;
    let mut out = vec![0x40 | (header / 4) as u8, 0];
    out.extend(total.to_be_bytes());
    out.extend([0, 7, 0x40, 0, 64, protocol, 0, 0]);
    out.extend([10, 9, 0, 1, 10, 9, 0, 2]);
    out.resize(header, 1);
    out.extend(payload);
    out
}

/// An IPv6 packet with extension headers before its payload. Each header has its number and its
/// bytes (a multiple of 8).
pub fn ipv6(protocol: u8, extensions: &[(u8, usize)], payload: &[u8]) -> Vec<u8> {
    let bytes = payload.len() + extensions.iter().map(|(_, bytes)| bytes).sum::<usize>();
    let mut kinds: Vec<u8> = extensions.iter().map(|(kind, _)| *kind).collect();
    kinds.push(protocol);
    let mut out = vec![0x60, 0, 0, 0];
    out.extend((bytes as u16).to_be_bytes());
    out.extend([kinds[0], 64]);
    out.extend([0xfd; 32]);
    for (i, (_, bytes)) in extensions.iter().enumerate() {
        let mut extension = vec![0; *bytes];
        extension[0] = kinds[i + 1];
        extension[1] = match kinds[i] {
            51 => bytes / 4 - 2,
            _ => bytes / 8 - 1,
        } as u8;
        out.extend(extension);
    }
    out.extend(payload);
    out
}

/// A frame of this type.
pub fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    out.extend(kind.to_be_bytes());
    out.extend(payload);
    out
}

/// A frame with a VLAN tag of this type.
pub fn tagged(tag: u16, kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut inner = vec![0, 5];
    inner.extend(kind.to_be_bytes());
    inner.extend(payload);
    ethernet(tag, &inner)
}

/// The frame of a query over IPv4.
pub fn frame4(message: &[u8]) -> Vec<u8> {
    ethernet(0x0800, &ipv4(17, 0, &udp(53, message)))
}

/// The frame of a query over IPv6.
pub fn frame6(message: &[u8]) -> Vec<u8> {
    ethernet(0x86dd, &ipv6(17, &[], &udp(53, message)))
}

/// Rules by key.
pub type Rules = BTreeMap<Vec<u8>, NameRule>;

fn be16(bytes: &[u8], at: usize) -> Option<usize> {
    let pair = bytes.get(at..at + 2)?;
    Some(usize::from(pair[0]) << 8 | usize::from(pair[1]))
}

/// The expected verdict on a frame.
pub fn oracle(frame: &[u8], rules: &Rules) -> NamesVerdict {
    match carried(frame) {
        Ok((protocol, packet, length)) => {
            carries(protocol, packet, length, rules).unwrap_or(NamesVerdict::Malformed)
        }
        Err(verdict) => verdict,
    }
}

/// The protocol that an IP packet carries, the available part of its payload, and the payload's
/// length by the header.
fn carried(frame: &[u8]) -> Result<(u8, &[u8], usize), NamesVerdict> {
    let malformed = NamesVerdict::Malformed;
    let mut kind = be16(frame, 12).ok_or(malformed)?;
    let mut packet = &frame[14..];
    for _ in 0..2 {
        if kind == 0x8100 || kind == 0x88a8 {
            kind = be16(packet, 2).ok_or(malformed)?;
            packet = &packet[4..];
        }
    }
    match kind {
        0x0800 => {
            let header = packet.get(..20).ok_or(malformed)?;
            let (words, total) = (usize::from(header[0] & 15) * 4, be16(header, 2).unwrap());
            if header[0] >> 4 != 4 || words < 20 || total < words {
                return Err(malformed);
            }
            if be16(header, 6).unwrap() & 0x3fff != 0 {
                return Err(NamesVerdict::Fragment);
            }
            let rest = packet.get(words..).unwrap_or_default();
            skipped(&[51], header[9], rest, total - words)
        }
        0x86dd => {
            let header = packet.get(..40).ok_or(malformed)?;
            if header[0] >> 4 != 6 {
                return Err(malformed);
            }
            let length = be16(header, 4).unwrap();
            skipped(&[0, 43, 44, 51, 60], header[6], &packet[40..], length)
        }
        0x8100 | 0x88a8 | 0x9100 | 0x88e7 => Err(NamesVerdict::Tags),
        0x8863 | 0x8864 => Err(NamesVerdict::Pppoe),
        0x8847 | 0x8848 => Err(NamesVerdict::Mpls),
        0x88e5 => Err(NamesVerdict::Esp),
        _ => Err(NamesVerdict::Other),
    }
}

/// What comes behind these extension headers, 16 at most.
fn skipped<'p>(
    extensions: &[u8],
    mut next: u8,
    mut packet: &'p [u8],
    mut left: usize,
) -> Result<(u8, &'p [u8], usize), NamesVerdict> {
    let malformed = NamesVerdict::Malformed;
    for _ in 0..16 {
        if !extensions.contains(&next) {
            break;
        }
        let &[then, length, high, low] = packet.first_chunk().ok_or(malformed)?;
        if left < 8 {
            return Err(malformed);
        }
        // A fragment that is the whole packet has no offset, and none comes after it.
        if next == 44 && (high != 0 || low & 0xf9 != 0) {
            return Err(NamesVerdict::Fragment);
        }
        let bytes = match next {
            44 => 8,
            51 => usize::from(length) * 4 + 8,
            _ => usize::from(length) * 8 + 8,
        };
        left = left.checked_sub(bytes).ok_or(malformed)?;
        packet = packet.get(bytes..).unwrap_or_default();
        next = then;
    }
    match extensions.contains(&next) {
        true => Err(NamesVerdict::Extensions),
        false => Ok((next, packet, left)),
    }
}

fn carries(protocol: u8, packet: &[u8], length: usize, rules: &Rules) -> Option<NamesVerdict> {
    match protocol {
        6 | 17 => {}
        47 => return Some(NamesVerdict::Gre),
        4 | 41 | 97 | 115 => return Some(NamesVerdict::IpInIp),
        50 => return Some(NamesVerdict::Esp),
        137 => return Some(NamesVerdict::Mpls),
        _ => return Some(NamesVerdict::Other),
    }
    let header = packet.get(..8)?;
    match (be16(header, 2)?, protocol) {
        (53, _) => {}
        (853, _) => return Some(NamesVerdict::Encrypted),
        (4500, 17) => return Some(NamesVerdict::Esp),
        (1701 | 2152 | 4789 | 6081 | 6635 | 8472, 17) => return Some(NamesVerdict::UdpTunnel),
        _ => return Some(NamesVerdict::Other),
    }
    if protocol == 6 {
        return Some(NamesVerdict::Tcp);
    }
    let said = be16(header, 4)?;
    if said < 20 || said > length {
        return None;
    }
    let message = &packet[8..packet.len().min(said.max(8))];
    let header = message.get(..12)?;
    if header[2] & 0xf8 != 0 || be16(header, 4)? == 0 {
        return Some(NamesVerdict::NotQuery);
    }
    // The program reads as many bytes as the header claims.
    if packet.len() < 20 + (said - 20).min(255) {
        return None;
    }
    // Where the message ends by its header: the type and the class must be in it.
    question(message, said - 8, rules)
}

fn question(message: &[u8], said: usize, rules: &Rules) -> Option<NamesVerdict> {
    let (key, end) = match dns_name_in_message(message, 12) {
        Ok(read) => read,
        Err(DnsNameError::BadPointer { .. }) => return Some(NamesVerdict::Compressed),
        Err(_) => return None,
    };
    if end + 4 > said {
        return None;
    }
    let found = (0..=key.len()).rev().find_map(|end| {
        // A wildcard is for names below it, and closer than the name above it.
        let is_above = end < key.len() && (end == 0 || key[end - 1] == 0);
        let wildcard = rules.get(&[&key[..end], b"*\0"].concat());
        wildcard.filter(|_| is_above).or(rules.get(&key[..end]))
    });
    Some(match found {
        Some(NameRule::Block) => NamesVerdict::Dropped,
        Some(NameRule::Allow) => NamesVerdict::Passed,
        None => NamesVerdict::Passed,
    })
}
