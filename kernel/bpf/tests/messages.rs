//! Names in DNS messages, read by programs from packets of both kinds and from dynptrs.
#![cfg(feature = "kernel")]

mod kernel;

use kernel::{Answers, load, skipped, word};
use sapwood::key::{DnsNameError, dns_name_in_message};
use sapwood_bpf::BpfArena;
use sapwood_model::oracle::name_in_message;

const MESSAGES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/messages.bpf.o"));

/// The bytes of a question before the message, and the place of the name in it.
const HEAD: usize = 288;
const WIRE: usize = 32;

/// A pointer to this place.
fn to(place: usize) -> [u8; 2] {
    (0xc000 | place as u16).to_be_bytes()
}

/// Messages that somebody has made for a reader to fail: circles, chains, and the longest names.
fn hostile() -> Vec<(Vec<u8>, usize)> {
    let label = |length: u8, byte| [vec![length], vec![byte; length.into()]].concat();
    let mut all: Vec<(Vec<u8>, usize)> = vec![
        (b"\xc0\x00".to_vec(), 0),
        (b"\xc0\x02\xc0\x00".to_vec(), 2),
        (b"\x01a\xc0\x00".to_vec(), 0),
        (b"\x01a\xc0\x04\x01b\xc0\x00".to_vec(), 4),
        (b"\x00\x3fabc".to_vec(), 1),
        (b"\x00\xc0".to_vec(), 1),
        (b"\x00\x40a\x00".to_vec(), 1),
        (b"\x00\x80a\x00".to_vec(), 1),
        (b"\x00".to_vec(), 1),
        (b"\x00".to_vec(), 0),
    ];
    for pointers in [126, 127, 128] {
        let mut message = vec![0];
        message.extend((0..pointers).flat_map(|n| to(if n == 0 { 0 } else { 2 * n - 1 })));
        all.push((message, 2 * pointers - 1));
        let (mut message, mut last) = (vec![0], 0);
        for _ in 0..pointers {
            let here = message.len();
            message.extend(b"\x01a");
            message.extend(to(last));
            last = here;
        }
        all.push((message, last));
    }
    for (last, byte) in [(61, b'x'), (61, 0), (62, b'x'), (63, 1)] {
        let long = [label(63, byte), label(63, byte), label(63, byte)].concat();
        let whole = [&long[..], &label(last, byte), &[0]].concat();
        let parts = [&label(last, byte)[..], &[0], &long, &to(0)].concat();
        all.push((whole, 0));
        all.push((parts, usize::from(last) + 2));
    }
    all.push((label(1, b'y').repeat(200), 0));
    all
}

#[test]
fn programs_read_names_as_the_definition_says() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(1 << 20).unwrap();
    let programs = load(&arena, MESSAGES);
    let mut rng = fastrand::Rng::with_seed(3);
    let mut cases = hostile();
    for _ in 0..300 {
        let mut message = Vec::new();
        let mut begins = vec![0];
        while message.len() < 200 {
            begins.push(message.len());
            match rng.u8(..8) {
                0..=3 => {
                    let longest = if rng.bool() { 3 } else { 63 };
                    let length = rng.u8(1..=longest);
                    message.push(length);
                    message.extend((0..length).map(|_| *rng.choice(b"aZ\0\x01").unwrap()));
                }
                4 => message.push(0),
                5 => message.push(rng.u8(..)),
                _ => message.extend(to(*rng.choice(&begins).unwrap())),
            }
        }
        message.truncate(rng.usize(1..=message.len()));
        cases.extend(begins.into_iter().map(|at| (message.clone(), at)));
    }
    let (mut read, mut refused) = (0, 0);
    for (message, at) in &cases {
        for program in ["sw_ask_name", "sw_ask_name_dynptr", "sw_ask_name_skb"] {
            let mut data = vec![0u8; HEAD];
            data[0..4].copy_from_slice(&(*at as u32).to_ne_bytes());
            data[4..8].copy_from_slice(&(message.len() as u32).to_ne_bytes());
            data.extend_from_slice(message);
            programs.answer(program, &mut data);
            let end = word(&data, 8) as i64;
            let shown = || format!("{program}, {at} of {message:x?}: {end}");
            match name_in_message(message, *at, 127) {
                Some((wire, behind)) => {
                    read += 1;
                    assert_eq!(end, behind as i64, "{}", shown());
                    assert_eq!(data[WIRE..WIRE + wire.len()], wire, "{}", shown());
                    assert_eq!(word(&data, 16) as usize, wire.len(), "{}", shown());
                    let key = dns_name_in_message(message, *at).unwrap().0;
                    assert_eq!(word(&data, 24) as u32 as usize, key.len(), "{}", shown());
                }
                None => {
                    refused += 1;
                    let error = dns_name_in_message(message, *at).unwrap_err();
                    let is_pointer = matches!(error, DnsNameError::BadPointer { .. });
                    // EMLINK, or one of EINVAL, ENAMETOOLONG and ENODATA.
                    let wanted = if is_pointer {
                        &[-31][..]
                    } else {
                        &[-22, -36, -61]
                    };
                    assert!(wanted.contains(&end), "{}: {error}", shown());
                }
            }
        }
    }
    assert!(read > 500 && refused > 500, "{read} {refused}");
}
