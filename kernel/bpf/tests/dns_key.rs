//! Keys that C in user space makes of domain names, compared with the library's, and lookups by
//! these keys in a copy of an arena.
#![cfg(feature = "kernel")]

#[path = "common/user.rs"]
mod user;

use std::collections::BTreeMap;

use sapwood::key::{DnsNameError, dns_name_from_wire, dns_name_in_message};
use sapwood_bpf::{BpfArena, UserMap};
use user::Compiled;

/// The result of `sw_dns_key`.
fn expected(wire: &[u8]) -> i64 {
    let mut at = 0;
    while let Some(&length) = wire.get(at) {
        if at >= 255 {
            break;
        }
        match length {
            0 => return at as i64 + 1,
            1..=63 => at += 1 + usize::from(length),
            // EMLINK, EINVAL.
            192.. => return -31,
            _ => return -22,
        }
    }
    // ENAMETOOLONG, ENODATA.
    if wire.len() >= 255 { -36 } else { -61 }
}

#[test]
fn keys_and_ancestors_as_the_library_finds_them() {
    if let Err(why) = sapwood_bpf::check() {
        println!("skipped: {why}");
        return;
    }
    let mut rng = fastrand::Rng::with_seed(7);
    let mut wires: Vec<Vec<u8>> = Vec::new();
    for round in 0..6000 {
        let mut wire = Vec::new();
        let labels = rng.usize(0..if round % 9 == 0 { 130 } else { 6 });
        for _ in 0..labels {
            let most = if round % 7 == 0 { 66 } else { 4 };
            let length = rng.u8(1..most);
            wire.push(length);
            wire.extend((0..length).map(|_| match round % 5 {
                0 => rng.u8(..),
                1 => rng.u8(0..3),
                _ => rng.choice(*b"aAbBzZ@[`{").unwrap(),
            }));
        }
        wire.push(if round % 30 == 0 { rng.u8(..) } else { 0 });
        if round % 11 == 0 {
            wire.truncate(rng.usize(0..=wire.len()));
        }
        if round % 13 == 0 {
            wire.resize(wire.len() + 20, 9);
        }
        wire.truncate(256);
        wires.push(wire);
    }
    let arena = BpfArena::create(16 << 20).unwrap();
    let names = UserMap::<u64>::builder(&arena, "names").build().unwrap();
    assert_eq!(names.window().number, 0);
    let key_of = |wire: &[u8]| match expected(wire) {
        bytes if bytes > 0 => dns_name_from_wire(&wire[..bytes as usize]),
        _ => Err(DnsNameError::NotAKey),
    };
    let mut oracle = BTreeMap::new();
    for (value, wire) in (1u64..).zip(&wires) {
        if value % 3 == 0 {
            if let Ok(key) = key_of(wire) {
                names.insert(&key, value).unwrap();
                oracle.insert(key, value);
            }
        }
    }
    let mut questions = Vec::new();
    let (mut kinds, mut cut, mut further) = (BTreeMap::new(), 0, 0);
    // Names of the map, and names with another label, so that long keys occur.
    let below = wires
        .iter()
        .filter(|wire| wire.len() > 20 && wire.len() < 254);
    let below = below.map(|wire| [b"\x01x", wire.as_slice()].concat());
    let asked: Vec<_> = wires.iter().cloned().chain(below).collect();
    for wire in &asked {
        let result = expected(wire);
        let key = key_of(wire).unwrap_or_default();
        *kinds.entry(result.min(1)).or_insert(0) += 1;
        cut += usize::from(key.len() > 254);
        let found = |length: usize| {
            let ends = (0..=key.len().min(length)).rev();
            let mut found = ends.map(|end| oracle.get(&key[..end]).copied());
            found
                .find_map(|value| value)
                .map_or(-2, |value| value as i64)
        };
        further += usize::from(found(254) != found(512));
        questions.extend(result.to_ne_bytes());
        questions.extend((wire.len() as u32).to_ne_bytes());
        questions.extend((key.len() as u32).to_ne_bytes());
        questions.extend(found(512).to_ne_bytes());
        questions.extend(found(254).to_ne_bytes());
        let mut fixed = [0; 768];
        fixed[..key.len()].copy_from_slice(&key);
        fixed[512..512 + wire.len()].copy_from_slice(wire);
        questions.extend(fixed);
    }
    println!("{kinds:?}, {cut} long keys, {} in the map", oracle.len());
    // Each result of `sw_dns_key` occurs.
    assert_eq!(kinds.len(), 5, "{kinds:?}");
    assert!(
        cut > 10 && further > 10 && kinds.values().all(|&count| count > 10),
        "{kinds:?} {cut} {further}"
    );
    Compiled::new("dns").same_answers(&arena.image(), &questions);
}

/// Names in messages of labels and of pointers to places where something begins.
#[test]
fn names_in_messages_as_the_library_reads_them() {
    let mut rng = fastrand::Rng::with_seed(9);
    let mut questions = Vec::new();
    let mut results = BTreeMap::new();
    for round in 0..3000 {
        let mut message = Vec::new();
        let mut begins = vec![0];
        let most = rng.usize(1..500);
        while message.len() < most {
            begins.push(message.len());
            match rng.u8(..12) {
                0..=5 => {
                    // Some messages have names around the greatest length.
                    let length = match (round % 7, rng.u8(..8)) {
                        (0, _) => rng.u8(50..64),
                        (_, 0) => rng.u8(1..66),
                        _ => rng.u8(1..4),
                    };
                    message.push(length);
                    message.extend((0..length).map(|_| *rng.choice(b"aZ\0\x01").unwrap()));
                }
                6 | 7 if round % 7 > 0 || rng.bool() => message.push(0),
                8 => message.push(rng.u8(..)),
                _ => {
                    let place = *rng.choice(&begins).unwrap() as u16;
                    message.extend((0xc000 | (place + u16::from(round % 9 == 0))).to_be_bytes());
                }
            }
        }
        message.truncate(512);
        for _ in 0..8 {
            let at = match rng.u8(..10) {
                0 => rng.usize(..message.len() + 2),
                _ => *rng.choice(&begins).unwrap(),
            };
            let (result, key) = match dns_name_in_message(&message, at) {
                Ok((key, end)) => (end as i64, key),
                // EMLINK, ENAMETOOLONG, and 0 for other errors.
                Err(DnsNameError::BadPointer { .. }) => (-31, vec![]),
                Err(DnsNameError::NameTooLong { .. }) => (-36, vec![]),
                Err(_) => (0, vec![]),
            };
            *results.entry(result.min(1)).or_insert(0) += 1;
            questions.extend(result.to_ne_bytes());
            questions.extend((message.len() as u32).to_ne_bytes());
            questions.extend((at as u32).to_ne_bytes());
            questions.extend((key.len() as u64).to_ne_bytes());
            let mut fixed = [0; 1024];
            fixed[..key.len()].copy_from_slice(&key);
            fixed[512..512 + message.len()].copy_from_slice(&message);
            questions.extend(fixed);
        }
    }
    println!("{results:?}");
    assert!(
        results.len() == 4 && results.values().all(|&count| count > 20),
        "{results:?}"
    );
    Compiled::new("messages").same_answers(&[0; 4096], &questions);
}
