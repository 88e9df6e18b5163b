//! Ordered walks and neighbours of keys, by a BPF program in maps that this process writes.
#![cfg(feature = "kernel")]

mod kernel;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use kernel::maps::{Kind, Names, TextStores, Texts, Trie};
use kernel::{Answers, KEY_MAX, Room, WALK, key, load, question_of, skipped, word};
use sapwood_bpf::{BpfArena, Programs, WindowMap, Words, layout};

type Oracle = BTreeMap<Vec<u8>, u64>;

#[derive(Clone, Copy)]
#[repr(u32)]
enum What {
    First,
    Last,
    Next,
    Prev,
    Begin,
    From,
    Prefix,
    Step,
    Sum,
    Whole,
}

/// A map, and the state for questions about it.
fn set_up<K: Kind>() -> (WindowMap<K::Map>, Asking) {
    let arena = BpfArena::create(64 << 20).unwrap();
    let names = K::builder(&arena, "names").bytes(32 << 20);
    let names = names.build().unwrap();
    let asking = Asking::new(&arena, names.window().number);
    (names, asking)
}

/// The programs, one map's window, one cursor.
struct Asking {
    programs: Programs,
    window: u32,
    cursor: u64,
    _scratch: Words,
    /// The places for the key of a question and of an answer.
    rooms: [Room; 2],
}

impl Asking {
    fn new(arena: &BpfArena, window: u32) -> Asking {
        let scratch = Words::create(arena, "cursors", 2 * layout::CURSOR_BYTES / 8).unwrap();
        Asking {
            programs: load(arena, WALK),
            window,
            // The second cursor, so that its place differs from the window's.
            cursor: (scratch.window().at + layout::CURSOR_BYTES) as u64,
            _scratch: scratch,
            rooms: ["asked", "answered"].map(|name| Room::new(arena, name)),
        }
    }

    /// The program's answer: a code, a value, and a key (`None` for a key that is too long for
    /// programs).
    fn ask(&self, what: What, key: &[u8]) -> (i64, u64, Option<Vec<u8>>) {
        let [asked, answered] = &self.rooms;
        let mut out = question_of([what as u32, self.window], 40, &asked.image(key));
        out[8..16].copy_from_slice(&self.cursor.to_ne_bytes());
        out[32..40].copy_from_slice(&answered.at().to_ne_bytes());
        self.programs.answer("sw_ask", &mut out);
        let (code, value, room) = (word(&out, 16) as i64, word(&out, 24), word(&out, 32));
        // 0 means that the key is too long.
        let key = (room != 0).then(|| match code > 0 {
            true => answered.key(&out[40..]),
            false => Vec::new(),
        });
        (code, value, key)
    }

    /// As `ask`, for an answer that is an entry or nothing.
    fn entry(&self, what: What, key: &[u8]) -> Option<(Option<Vec<u8>>, u64)> {
        let (code, value, key) = self.ask(what, key);
        assert!(code >= 0, "{code}");
        (code > 0).then_some((key, value))
    }

    /// The remaining entries of a walk.
    fn rest(&self) -> Vec<(Option<Vec<u8>>, u64)> {
        std::iter::from_fn(|| self.entry(What::Step, b"")).collect()
    }
}

fn known((key, value): (&Vec<u8>, &u64)) -> (Option<Vec<u8>>, u64) {
    ((key.len() <= KEY_MAX).then(|| key.clone()), *value)
}

tests_of_maps! {
    trie: Trie { as_the_oracle walks_beside_a_writer }
    texts: Texts { as_the_oracle walks_beside_a_writer }
    text_stores: TextStores { as_the_oracle }
}

fn as_the_oracle<K: Kind>() {
    let (names, asking) = set_up::<K>();
    let mut oracle = Oracle::new();
    let mut rng = fastrand::Rng::with_seed(21);
    for what in [What::First, What::Last, What::Next, What::Prev] {
        assert_eq!(asking.entry(what, b"x"), None);
    }
    for what in [What::Begin, What::From, What::Prefix] {
        assert_eq!(asking.ask(what, b"x").0, 0);
        assert_eq!(asking.rest(), []);
    }
    for round in 1..2500u64 {
        // A walk also passes keys that are too long for programs.
        let name = match round % 32 {
            0 => key(&mut rng, KEY_MAX + 8, KEY_MAX - 8..KEY_MAX + 8),
            _ => key(&mut rng, 300, 290..300),
        };
        if rng.u8(0..5) == 0 {
            assert_eq!(names.take(&name), oracle.remove(&name).is_some());
        } else {
            names.put(&name, round);
            oracle.insert(name.clone(), round);
        }
        let mut asked = match rng.bool() {
            true => key(&mut rng, 300, 245..265),
            false => oracle
                .keys()
                .nth(rng.usize(0..oracle.len().max(1)))
                .cloned()
                .unwrap_or_default(),
        };
        asked.truncate(KEY_MAX);
        let after = oracle
            .range(asked.clone()..)
            .find(|(key, _)| **key != asked)
            .map(known);
        assert_eq!(asking.entry(What::Next, &asked), after, "{asked:?}");
        let before = oracle.range(..asked.clone()).next_back().map(known);
        assert_eq!(asking.entry(What::Prev, &asked), before, "{asked:?}");
        assert_eq!(asking.ask(What::From, &asked).0, 0);
        for want in oracle.range(asked.clone()..).take(3) {
            assert_eq!(
                asking.entry(What::Step, b""),
                Some(known(want)),
                "{asked:?}"
            );
        }
        if !asked.is_empty() {
            let shorter = match rng.u8(0..4) {
                0 => rng.usize(0..asked.len()),
                _ => rng.usize(0..4),
            };
            asked.truncate(shorter);
        }
        if round % 8 == 0 {
            assert_eq!(asking.ask(What::Prefix, &asked).0, 0);
            let want = oracle
                .range(asked.clone()..)
                .take_while(|(key, _)| key.starts_with(&asked));
            assert!(asking.rest().into_iter().eq(want.map(known)), "{asked:?}");
        }
        if round % 512 == 1 {
            assert_eq!(
                asking.entry(What::First, b""),
                oracle.iter().next().map(known)
            );
            assert_eq!(
                asking.entry(What::Last, b""),
                oracle.iter().next_back().map(known)
            );
            assert_eq!(asking.ask(What::Begin, b"").0, 0);
            assert!(asking.rest().into_iter().eq(oracle.iter().map(known)));
        }
    }
    while names.tidy(1000) {}
    assert_eq!(asking.ask(What::Begin, b"").0, 0);
    assert!(asking.rest().into_iter().eq(oracle.iter().map(known)));
    assert_eq!(asking.ask(What::Begin, b"").0, 0);
    let sum = oracle
        .values()
        .fold(0u64, |sum, value| sum.wrapping_mul(31).wrapping_add(*value));
    let (count, there, _) = asking.ask(What::Sum, b"");
    assert_eq!((count as usize, there), (oracle.len(), sum));
}

#[test]
fn what_cannot_be_walked() {
    if skipped() {
        return;
    }
    let (names, mut asking) = set_up::<Trie>();
    // A window that does not exist, a cursor without memory, and a cursor that is not in use.
    asking.window = 9;
    for what in [
        What::First,
        What::Next,
        What::Begin,
        What::From,
        What::Prefix,
    ] {
        assert_eq!(asking.ask(what, b"a").0, -22);
    }
    asking.window = names.window().number;
    assert_eq!(asking.ask(What::Step, b"").0, -22);
    let cursor = asking.cursor;
    asking.cursor = (60 << 20) as u64;
    assert_eq!(asking.ask(What::Begin, b"").0, -22);
    asking.cursor = cursor;
    // A walk passes the deepest trie of keys of 254 bytes. A deeper trie gives an error.
    let name = |len: usize| [vec![7; len], vec![8]].concat();
    let mut oracle = Oracle::new();
    for len in 0..254usize {
        names.insert(name(len), len as u64 + 1).unwrap();
        oracle.insert(name(len), len as u64 + 1);
    }
    assert_eq!(asking.ask(What::Begin, b"").0, 0);
    assert!(asking.rest().into_iter().eq(oracle.iter().map(known)));
    assert_eq!(asking.ask(What::From, &name(1)).0, 0);
    assert_eq!(asking.rest(), [(Some(name(1)), 2), (Some(name(0)), 1)]);
    for len in 254..600usize {
        names.insert(name(len), len as u64 + 1).unwrap();
    }
    assert_eq!(asking.ask(What::Begin, b"").0, 0);
    assert_eq!(asking.ask(What::Step, b"").0, -7);
    assert_eq!(asking.ask(What::From, &[7; 400]).0, -7);
    let longest = Some((Some(name(599)), 600));
    assert_eq!(asking.entry(What::First, b""), longest);
    assert_eq!(asking.entry(What::Next, &[7; 254]), longest);
    assert_eq!(asking.entry(What::Next, &[7; 500]), longest);
    assert_eq!(
        asking.entry(What::Prev, &[7, 7, 8]),
        Some((Some(name(3)), 4))
    );
}

fn walks_beside_a_writer<K: Kind>() {
    let (names, asking) = set_up::<K>();
    for i in 0..500u64 {
        names.put(format!("s/{i:x}").as_bytes(), 0);
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut rng = fastrand::Rng::with_seed(2);
            while !stop.load(Ordering::Relaxed) {
                let key = format!(
                    "{}/{:x}",
                    ["s", "t", "sa"][rng.usize(0..3)],
                    rng.u32(500..2000)
                );
                match rng.bool() {
                    true => names.put(key.as_bytes(), 1 << 32),
                    false => drop(names.take(key.as_bytes())),
                }
                if rng.u8(..) == 0 {
                    names.tidy(16);
                }
            }
        });
        // A run that begins a walk also ends it.
        let mut wrong = None;
        for _ in 0..300 {
            let (count, _, _) = asking.ask(What::Whole, b"");
            if count < 0 || count & 0xffff_ffff != 500 {
                wrong = Some(count);
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(wrong, None);
    });
}
