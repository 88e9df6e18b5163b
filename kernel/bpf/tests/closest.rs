//! The closest entries to names by a BPF program, and what proves that names are not there,
//! compared with `closest` and `denial` in Rust, and beside a writer.
#![cfg(feature = "kernel")]

mod kernel;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kernel::maps::{Kind, Names, Stores, TextStores, Texts, Trie};
use kernel::{Answers, CLOSEST, INVALID, Room, load, name, question_of, skipped, word};
use sapwood::key::dns_name;
use sapwood::qp::{Closest, Denial, QpMap, ReadEntry};
use sapwood_bpf::{BpfArena, Programs, WindowMap, Words, layout};

/// A program's answer for a name, with values in place of entries; 0 for none.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    exact: u64,
    ancestor: u64,
    wildcard: u64,
    predecessor: u64,
    cut: u64,
    encloser: usize,
    exists: bool,
}

/// The same for a denial.
#[derive(Debug, PartialEq, Eq)]
struct Proof {
    closest: Found,
    wildcard_exists: bool,
    predecessor: u64,
    wildcard_predecessor: u64,
}

impl From<Denial<'_, u64>> for Proof {
    fn from(found: Denial<'_, u64>) -> Self {
        let value = |entry: Option<ReadEntry<'_, u64>>| entry.map_or(0, |(_, value)| *value);
        Proof {
            closest: found.closest.into(),
            wildcard_exists: found.wildcard_exists,
            predecessor: value(found.predecessor),
            wildcard_predecessor: value(found.wildcard_predecessor),
        }
    }
}

impl From<Closest<'_, u64>> for Found {
    fn from(found: Closest<'_, u64>) -> Self {
        let value = |entry: Option<ReadEntry<'_, u64>>| entry.map_or(0, |(_, value)| *value);
        Found {
            exact: value(found.exact),
            ancestor: value(found.ancestor),
            wildcard: value(found.wildcard),
            predecessor: value(found.predecessor),
            cut: value(found.cut),
            encloser: found.encloser,
            exists: found.exists,
        }
    }
}

/// The bits that mark a value as a cut.
const CUT: u64 = 6;

struct Asking {
    programs: Programs,
    window: u32,
    cursor: u64,
    _scratch: Words,
    room: Room,
    /// Memory for the key of a wildcard.
    wild: Room,
}

impl Asking {
    fn ask(&self, name: &[u8], cut_mask: u64) -> Result<Found, i64> {
        let mut data = question_of([self.window, 0], 88, &self.room.image(name));
        data[8..16].copy_from_slice(&self.cursor.to_ne_bytes());
        data[24..32].copy_from_slice(&cut_mask.to_ne_bytes());
        self.programs.answer("sw_ask_closest", &mut data);
        match word(&data, 16) as i64 {
            0 => Ok(found_in(&data)),
            error => Err(error),
        }
    }

    fn deny(&self, name: &[u8], cut_mask: u64, room: u64) -> Result<Proof, i64> {
        let mut data = question_of([self.window, 0], 112, &self.room.image(name));
        data[8..16].copy_from_slice(&self.cursor.to_ne_bytes());
        data[24..32].copy_from_slice(&cut_mask.to_ne_bytes());
        data[88..96].copy_from_slice(&room.to_ne_bytes());
        self.programs.answer("sw_ask_denial", &mut data);
        match word(&data, 16) as i64 {
            0 => Ok(Proof {
                closest: found_in(&data),
                wildcard_exists: word(&data, 0) >> 32 != 0,
                predecessor: word(&data, 96),
                wildcard_predecessor: word(&data, 104),
            }),
            error => Err(error),
        }
    }
}

/// The `struct sw_closest` of an answer.
fn found_in(data: &[u8]) -> Found {
    Found {
        exact: word(data, 32),
        ancestor: word(data, 40),
        wildcard: word(data, 48),
        predecessor: word(data, 56),
        cut: word(data, 64),
        encloser: (word(data, 72) >> 32) as usize,
        exists: word(data, 80) as u32 != 0,
    }
}

fn set_up<K: Kind>() -> (WindowMap<K::Map>, Asking) {
    let arena = BpfArena::create(64 << 20).unwrap();
    let names = K::builder(&arena, "names").bytes(32 << 20).build().unwrap();
    let scratch = Words::create(&arena, "cursors", 2 * layout::CURSOR_BYTES / 8).unwrap();
    let asking = Asking {
        programs: load(&arena, CLOSEST),
        window: names.window().number,
        cursor: (scratch.window().at + layout::CURSOR_BYTES) as u64,
        _scratch: scratch,
        room: Room::new(&arena, "room"),
        wild: Room::new(&arena, "wild"),
    };
    (names, asking)
}

tests_of_maps! {
    trie: Trie { as_in_rust what_stays_is_found_beside_a_writer }
    texts: Texts { as_in_rust what_stays_is_found_beside_a_writer }
    stores: Stores { as_in_rust what_stays_is_found_beside_a_writer }
    text_stores: TextStores { as_in_rust }
}

fn as_in_rust<K: Kind>() {
    let (names, asking) = set_up::<K>();
    let mut oracle = QpMap::<u64>::new();
    let mut rng = fastrand::Rng::with_seed(16);
    let mut kinds = [0u32; 9];
    for round in 1..4_000u64 {
        let stored = name(&mut rng, 6);
        // The map is small, then large, then small again.
        if rng.u64(..4_000) < round {
            assert_eq!(names.take(&stored), oracle.remove(&stored).is_some());
        } else {
            names.put(&stored, round);
            oracle.insert(&stored, round).unwrap();
        }
        for _ in 0..4 {
            let name = name(&mut rng, 6);
            let cut_mask = if rng.bool() { CUT } else { 0 };
            let proof = oracle.denial(&name, 0, |_, value| value & cut_mask != 0);
            let wanted = Found::from(proof.closest.clone());
            let proof = Proof::from(proof);
            let seen = [
                wanted.exact,
                wanted.ancestor,
                wanted.wildcard,
                wanted.predecessor,
                wanted.cut,
                u64::from(wanted.exists && wanted.exact == 0),
                u64::from(proof.wildcard_exists && wanted.wildcard == 0),
                u64::from(proof.predecessor != wanted.predecessor),
                proof.wildcard_predecessor,
            ];
            for (kind, seen) in kinds.iter_mut().zip(seen) {
                *kind += u32::from(seen != 0);
            }
            assert_eq!(asking.ask(&name, cut_mask), Ok(wanted), "{round} {name:?}");
            let denied = asking.deny(&name, cut_mask, asking.wild.at());
            assert_eq!(denied, Ok(proof), "{round} {name:?}");
        }
    }
    // A wildcard whose key is long needs a room, and a short one does not.
    let long = [vec![b'l'; 252], vec![0], b"x\0".to_vec()].concat();
    names.put(&long, 8);
    let below = [&long[..], b"y\0"].concat();
    assert_eq!(asking.deny(&below, 0, 0), Err(INVALID));
    let denied = asking.deny(&below, 0, asking.wild.at()).unwrap();
    assert_eq!((denied.predecessor, denied.wildcard_predecessor), (8, 8));
    assert!(asking.deny(b"none\0", 0, 0).is_ok());
    assert!(kinds.iter().all(|kind| *kind > 300), "{kinds:?}");
    let no_map = Asking {
        window: 17,
        ..asking
    };
    assert_eq!(no_map.ask(b"a\0", 0), Err(INVALID));
    let no_cursor = Asking {
        cursor: 0,
        window: names.window().number,
        ..no_map
    };
    assert_eq!(no_cursor.ask(b"a\0", 0), Err(INVALID));
}

fn what_stays_is_found_beside_a_writer<K: Kind>() {
    let (names, asking) = set_up::<K>();
    for (name, value) in [
        ("org", 2),
        ("*.org", 1),
        ("a.org", 8),
        ("www.example.org", 4),
    ] {
        names.put(&dns_name(name).unwrap(), value);
    }
    let end = Instant::now() + Duration::from_secs_f64(kernel_seconds());
    let stop = AtomicBool::new(false);
    let mut asked = 0;
    let changes = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut rng = fastrand::Rng::with_seed(5);
            let mut changes = 0u64;
            while !stop.load(Ordering::Relaxed) {
                let labels = [
                    "b.a",
                    "mail.example",
                    "example",
                    "*.example",
                    "z",
                    "c.d.a",
                    "0.www.example",
                ];
                let name = dns_name(format!("{}.org", rng.choice(labels).unwrap())).unwrap();
                match rng.bool() {
                    true => names.put(&name, 1),
                    false => drop(names.take(&name)),
                }
                changes += 1;
            }
            changes
        });
        while Instant::now() < end {
            let found = asking
                .ask(&dns_name("x.www.example.org").unwrap(), CUT)
                .unwrap();
            assert_eq!(
                (found.ancestor, found.cut, found.exact),
                (4, 2, 0),
                "{found:?}"
            );
            let found = asking.ask(&dns_name("b.org").unwrap(), CUT).unwrap();
            assert_eq!(
                (found.ancestor, found.cut, found.wildcard),
                (2, 2, 1),
                "{found:?}"
            );
            assert!(matches!(found.predecessor, 1 | 8), "{found:?}");
            asked += 1;
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap()
    });
    assert!(asked > 100 && changes > 100, "{asked} {changes}");
}

/// How long tests with a writer beside take.
fn kernel_seconds() -> f64 {
    std::env::var("SAPWOOD_SOAK").map_or(1.0, |text| text.parse().unwrap())
}
