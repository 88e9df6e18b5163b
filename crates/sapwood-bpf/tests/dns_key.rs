//! Keys that C in user space makes of domain names, compared with the library's, and lookups by
//! these keys in a copy of an arena.
#![cfg(feature = "kernel")]

#[path = "common/user.rs"]
mod user;

use std::collections::BTreeMap;

use sapwood::key::{DnsNameError, dns_name_from_wire};
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
