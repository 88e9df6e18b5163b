//! Keys that programs make of packets, memory, dynptrs and strings.
#![cfg(feature = "kernel")]

mod kernel;

use std::collections::BTreeMap;

use kernel::{Answers, INVALID, KEY_MAX, NO_ENTRY, SHORT_MAX, load, skipped, word};
use sapwood_bpf::{BpfArena, Programs, UserMap, WindowMap, Words, layout};

const KEYS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/keys.bpf.o"));
/// The bytes of a question before the bytes of which keys are made.
const HEAD: usize = 48;
const TOO_LONG: i64 = -7;

/// The sources of a key: for each, a program and the program's number for it.
const PACKET: (&str, u32) = ("sw_ask_key", 0);
const MEMORY: (&str, u32) = ("sw_ask_key", 1);
const STACK: (&str, u32) = ("sw_ask_key_stack", 2);
const DYNPTR: (&str, u32) = ("sw_ask_key_dynptr", 3);
const STRING: (&str, u32) = ("sw_ask_key", 4);
const SKB: (&str, u32) = ("sw_ask_key_skb", 5);

struct Asking {
    programs: Programs,
    window: u32,
    room: u64,
    _room: Words,
}

impl Asking {
    /// The results of the key's maker and of the lookup, for `length` bytes behind `before` others.
    fn ask(
        &self,
        (program, what): (&str, u32),
        before: usize,
        bytes: &[u8],
        length: usize,
    ) -> Answer {
        let mut data = vec![0u8; HEAD];
        data[0..4].copy_from_slice(&what.to_ne_bytes());
        data[4..8].copy_from_slice(&self.window.to_ne_bytes());
        data[32..40].copy_from_slice(&self.room.to_ne_bytes());
        data[40..44].copy_from_slice(&((HEAD + before) as u32).to_ne_bytes());
        data[44..48].copy_from_slice(&(length as u32).to_ne_bytes());
        data.extend(std::iter::repeat_n(0xee, before));
        data.extend_from_slice(bytes);
        self.programs.answer(program, &mut data);
        let found = match (word(&data, 8) as i64, word(&data, 16) as i64) {
            (0, found) if found > 0 => Ok(word(&data, 24)),
            (0, found) => Err(found),
            (error, _) => return Err(error),
        };
        let length = u32::from_ne_bytes(data[44..48].try_into().unwrap());
        Ok((length as usize, found))
    }
}

/// The key's length and the result of the lookup, or the error of the key's maker.
type Answer = Result<(usize, Result<u64, i64>), i64>;

fn set_up() -> (WindowMap<sapwood::qp::QpShared<u64>>, Asking) {
    let arena = BpfArena::create(64 << 20).unwrap();
    let room = Words::create(&arena, "rooms", layout::KEY_ROOM_BYTES / 8).unwrap();
    let names = UserMap::<u64>::builder(&arena, "names").with_index();
    let names = names.build().unwrap();
    let asking = Asking {
        programs: load(&arena, KEYS),
        window: names.window().number,
        room: room.window().at as u64,
        _room: room,
    };
    (names, asking)
}

#[test]
fn keys_of_all_lengths_from_everywhere() {
    if skipped() {
        return;
    }
    let (names, asking) = set_up();
    let mut rng = fastrand::Rng::with_seed(16);
    let mut oracle = BTreeMap::new();
    let parts = [
        248,
        254,
        255,
        256,
        2 * 247,
        2 * 248,
        4000,
        KEY_MAX - 1,
        KEY_MAX,
    ];
    let around = parts.into_iter().flat_map(|at| [at - 1, at, at + 1]);
    let lengths: Vec<_> = (0..70)
        .chain(around)
        .filter(|len| *len <= KEY_MAX)
        .collect();
    for (value, &len) in lengths.iter().enumerate() {
        let key: Vec<u8> = (0..len).map(|_| rng.u8(1..)).collect();
        names.insert(&key, value as u64 + 1).unwrap();
        oracle.insert(key, value as u64 + 1);
    }
    for (key, value) in &oracle {
        let mut other = key.clone();
        if let Some(at) = (!key.is_empty()).then(|| rng.usize(0..key.len())) {
            other[at] ^= 0x80;
            other[at] = other[at].max(1);
        }
        for source in [PACKET, SKB, MEMORY, DYNPTR, STRING, STACK] {
            // The limits are the bytes on that program's stack, and the kernel's limit for a test's
            // packet.
            if key.len() > 64 && source == STACK || key.len() > 3000 && source == SKB {
                continue;
            }
            for (key, want) in [
                (key, Ok(*value)),
                (&other, oracle.get(&other).copied().ok_or(NO_ENTRY)),
            ] {
                let mut bytes = key.clone();
                // Other bytes follow the key. A string ends with a zero.
                bytes.extend([0; 64]);
                let said = asking.ask(source, rng.usize(0..20), &bytes, key.len());
                assert_eq!(
                    said,
                    Ok((key.len(), want)),
                    "{source:?} {} bytes",
                    key.len()
                );
            }
        }
    }
}

#[test]
fn what_is_no_key() {
    if skipped() {
        return;
    }
    let (_names, mut asking) = set_up();
    let bytes = vec![7; KEY_MAX + 2];
    for source in [PACKET, MEMORY, STRING] {
        assert_eq!(
            asking.ask(source, 0, &bytes, KEY_MAX + 1),
            Err(TOO_LONG),
            "{source:?}"
        );
    }
    // The packet is shorter than the key.
    for source in [PACKET, SKB] {
        for length in [1, SHORT_MAX, 1000] {
            let said = asking.ask(source, 0, &bytes[..length - 1], length);
            assert!(
                matches!(said, Err(error) if error < 0),
                "{source:?} {length}: {said:?}"
            );
        }
    }
    // There is no place for a long key. A short key needs none.
    for room in [0, asking.room + 4] {
        asking.room = room;
        for source in [PACKET, SKB, MEMORY, DYNPTR, STRING] {
            let mut bytes = bytes[..SHORT_MAX + 1].to_vec();
            bytes.push(0);
            let said = asking.ask(source, 0, &bytes, SHORT_MAX + 1);
            assert_eq!(said, Err(INVALID), "{source:?}");
            bytes[SHORT_MAX] = 0;
            let said = asking.ask(source, 0, &bytes, SHORT_MAX);
            assert_eq!(said, Ok((SHORT_MAX, Err(NO_ENTRY))), "{source:?}");
        }
    }
}
