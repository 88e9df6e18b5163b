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
    let verdict = match carried(frame) {
        Ok((protocol, packet, length)) => {
            carries(protocol, packet, length, rules).unwrap_or(NamesVerdict::Malformed)
        }
        Err(verdict) => verdict,
    };
    match verdict {
        NamesVerdict::Truncated if truncated(frame).is_none() => NamesVerdict::Dropped,
        verdict => verdict,
    }
}

/// The checksum of words of 16 bits.
fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    let mut sum = 0u32;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |byte| u32::from(*byte));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

/// The frame that answers the query of a frame with the bit TC; `None` if it cannot be answered.
pub fn truncated(frame: &[u8]) -> Option<Vec<u8>> {
    let (mut at, mut kind) = (14, be16(frame, 12)?);
    while kind == 0x8100 || kind == 0x88a8 {
        kind = be16(frame, at + 2)?;
        at += 4;
    }
    let is_v6 = kind == 0x86dd;
    let (header, protocol) = if is_v6 { (40, 6) } else { (20, 9) };
    let ip = frame.get(at..at + header)?;
    let is_one = |address: &[u8]| match address.len() {
        4 => address[0] != 0 && address[0] != 127 && address[0] < 224,
        _ => {
            let zeros = address[..15].iter().all(|byte| *byte == 0);
            address[0] != 0xff && !(zeros && address[15] < 2)
        }
    };
    let (from, to) = match is_v6 {
        true => (&ip[8..24], &ip[24..40]),
        false => (&ip[12..16], &ip[16..20]),
    };
    let has_options = !is_v6 && ip[0] != 0x45;
    let of_group = (frame[0] | frame[6]) & 1 == 1;
    if ip[protocol] != 17 || has_options || of_group || !is_one(from) || !is_one(to) {
        return None;
    }
    let udp = frame.get(at + header..)?;
    let (said, message) = (be16(udp, 4)?, udp.get(8..)?);
    if be16(udp, 0)? == 0 {
        return None;
    }
    // The question, without compression.
    let mut end = 12;
    while message.get(end)? & 0xc0 == 0 && message[end] != 0 {
        end += 1 + usize::from(message[end]);
    }
    if message[end] != 0 {
        return None;
    }
    let question = message.get(12..end + 5)?;
    let opt = message.get(end + 5..end + 16);
    let opt = opt.filter(|_| message[4..12] == [0, 1, 0, 0, 0, 0, 0, 1] && said - 8 >= end + 16);
    let opt = opt.filter(|opt| opt[..3] == [0, 0, 41] && opt[6] == 0);
    let mut answer = message[..2].to_vec();
    let recursion = message[2] & 1;
    answer.extend([0x82 | recursion, recursion << 7 | message[3] & 0x10]);
    answer.extend([0, 1, 0, 0, 0, 0, 0, opt.is_some().into()]);
    answer.extend(question);
    if let Some(opt) = opt {
        answer.extend([0, 0, 41, 0x04, 0xd0, 0, 0, opt[7] & 0x80, 0, 0, 0]);
    }
    let length = ((8 + answer.len()) as u16).to_be_bytes();
    let mut datagram = [&udp[2..4], &udp[..2], &length, &[0, 0], &answer[..]].concat();
    let sum = match checksum(&[from, to, &[0, 17], &length, &datagram]) {
        [0, 0] => [0xff; 2],
        sum => sum,
    };
    datagram[6..8].copy_from_slice(&sum);
    let head = match is_v6 {
        true => [&[0x60, 0, 0, 0], &length[..], &[17, 64], to, from].concat(),
        false => {
            let total = ((28 + answer.len()) as u16).to_be_bytes();
            let part = [&[0x45, 0], &total[..], &ip[4..8], &[64, 17]].concat();
            let sum = checksum(&[&part, to, from]);
            [&part, &sum[..], to, from].concat()
        }
    };
    let link = [&frame[6..12], &frame[..6], &frame[12..at]].concat();
    let mut all = [link, head, datagram].concat();
    // A frame on a cable has 60 bytes at least.
    all.extend(
        frame
            .get(all.len()..frame.len().min(60))
            .unwrap_or_default(),
    );
    Some(all)
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
        Some(NameRule::Truncate) => NamesVerdict::Truncated,
        Some(NameRule::Allow) | None => NamesVerdict::Passed,
    })
}
