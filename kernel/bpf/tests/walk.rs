//! Ordered walks and neighbours of keys, by a BPF program in maps that this process writes.
#![cfg(feature = "kernel")]

mod kernel;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kernel::maps::{Kind, LooseStores, Names, Stores, TextStores, Texts, Trie, WideStores};
use kernel::{
    Answers, KEY_MAX, LOOKUP, NO_ENTRY, PREFIX, Room, SHORT_MAX, WALK, key, load, lookup_of,
    question_of, result, skipped, word,
};
use sapwood_bpf::{BpfArena, KernelGrace, ProgramMap, Programs, WindowMap, Words, Write, layout};
use sapwood_format::cluster;
use sapwood_qsbr::{Domain, LimitPolicy};

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
    // On a busy machine, grace periods of the kernel take longer than a writer needs to fill the
    // window with what it replaces. So it waits.
    let domain = Domain::builder().source(KernelGrace::new().unwrap());
    let domain = domain
        .hard_limit(8 << 20)
        .policy(LimitPolicy::Block)
        .build();
    let names = K::builder(&arena, "names").bytes(32 << 20).domain(&domain);
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
    trie: Trie { as_the_oracle walks_beside_a_writer keys_of_any_length any_length_beside_a_writer }
    texts: Texts { as_the_oracle walks_beside_a_writer keys_of_any_length any_length_beside_a_writer }
    stores: Stores {
        as_the_oracle walks_beside_a_writer keys_of_any_length any_length_beside_a_writer
        a_difference_in_each_byte
    }
    text_stores: TextStores {
        as_the_oracle walks_beside_a_writer keys_of_any_length any_length_beside_a_writer
        a_difference_in_each_byte
    }
    wide_stores: WideStores {
        keys_of_any_length any_length_beside_a_writer a_difference_in_each_byte
    }
    loose_stores: LooseStores {
        keys_of_any_length any_length_beside_a_writer a_difference_in_each_byte
    }
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

/// Lengths of keys at the edges of words, of tails in blocks, of blocks' prefixes and of short
/// keys.
const LENGTHS: [usize; 27] = [
    0, 1, 7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 32, 33, 63, 64, 65, 66, 127, 128, 129, 190, 253,
    254, 255, 256, 700,
];

/// A key of one of these lengths, of which others share any part.
fn edge_key(rng: &mut fastrand::Rng, most: usize) -> Vec<u8> {
    let lengths = LENGTHS.partition_point(|len| *len <= most);
    let len = LENGTHS[rng.usize(..lengths)];
    let mut key = vec![b"ab"[rng.usize(..2)]; len];
    let from = match rng.u8(..4) {
        0 => rng.usize(..=len),
        1 => len - len.min(rng.usize(..3)),
        _ => len - len.min(rng.usize(..10)),
    };
    key[from..].fill_with(|| rng.u8(b'a'..b'd'));
    key
}

/// All operations on a store whose keys have lengths at edges.
fn keys_of_any_length<K: Kind>() {
    let (names, asking) = set_up::<K>();
    let [lookups, prefixes] = [LOOKUP, PREFIX].map(|object| load(names.arena(), object));
    let room = Room::new(names.arena(), "room");
    let mut oracle = Oracle::new();
    let mut rng = fastrand::Rng::with_seed(31);
    let rounds = 2_000;
    for round in 1..rounds {
        let name = edge_key(&mut rng, 700);
        if rng.u64(..rounds) < round / 2 {
            assert_eq!(names.take(&name), oracle.remove(&name).is_some());
        } else {
            names.put(&name, round);
            oracle.insert(name, round);
        }
        let asked = match (
            rng.bool(),
            oracle.keys().nth(rng.usize(..oracle.len().max(1))),
        ) {
            (true, Some(stored)) => stored.clone(),
            _ => edge_key(&mut rng, 700),
        };
        let image = room.image(&asked);
        for what in K::WHATS {
            let found = lookup_of(&lookups, *what, names.window().number, &image);
            assert_eq!(
                found,
                oracle.get(&asked).copied().ok_or(NO_ENTRY),
                "{asked:?}"
            );
        }
        let mut data = question_of([names.window().number, 0], 24, &image);
        prefixes.answer("sw_ask_prefix", &mut data);
        let ends = (0..=asked.len()).rev();
        let longest = ends
            .filter_map(|end| Some((*oracle.get(&asked[..end])?, end)))
            .next();
        let length = u32::from_ne_bytes(data[4..8].try_into().unwrap()) as usize;
        let there = result(&data, 8).map(|value| (value, length));
        assert_eq!(there, longest.ok_or(NO_ENTRY), "{asked:?}");
        let mut after = oracle
            .range(asked.clone()..)
            .filter(|(key, _)| **key != asked);
        assert_eq!(
            asking.entry(What::Next, &asked),
            after.next().map(known),
            "{asked:?}"
        );
        let before = oracle.range(..asked.clone()).next_back();
        assert_eq!(
            asking.entry(What::Prev, &asked),
            before.map(known),
            "{asked:?}"
        );
        assert_eq!(asking.ask(What::From, &asked).0, 0);
        for want in oracle.range(asked.clone()..).take(3) {
            assert_eq!(
                asking.entry(What::Step, b""),
                Some(known(want)),
                "{asked:?}"
            );
        }
        if round % 16 == 0 {
            let prefix = &asked[..rng.usize(..=asked.len())];
            assert_eq!(asking.ask(What::Prefix, prefix).0, 0);
            let want = oracle.range(prefix.to_vec()..);
            let want = want
                .take_while(|(key, _)| key.starts_with(prefix))
                .map(known);
            assert!(asking.rest().into_iter().eq(want), "{prefix:?}");
        }
        if round % 512 == 0 {
            names.check();
            assert_eq!(asking.ask(What::Begin, b"").0, 0);
            assert!(asking.rest().into_iter().eq(oracle.iter().map(known)));
        }
    }
    assert!(oracle.len() > 300, "{}", oracle.len());
}

/// Lengths of the prefix of a block, up to where a tail can still follow, and of tails that it
/// holds, at the edges of the words and groups of words that are compared at once.
const PREFIXES: [usize; 24] = [
    0, 1, 7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 32, 33, 63, 64, 65, 127, 128, 190, 222, 223, 224,
    253,
];
const TAILS: [usize; 18] = [
    0, 1, 6, 7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 32, 33, 47, 63, 64,
];

/// A key that differs from a stored one in one byte is not found, although it has the same tag, so
/// that programs compare it with the stored one.
fn a_difference_in_each_byte<K: Kind>() {
    let (names, _) = set_up::<K>();
    let lookups = load(names.arena(), LOOKUP);
    let find = |key: &[u8]| {
        let image = layout::key_image(key, 0);
        lookup_of(&lookups, 0, names.window().number, &image)
    };
    let mut compared = 0;
    for prefix in PREFIXES {
        names.empty();
        let tails = TAILS.into_iter().filter(|tail| prefix + tail <= SHORT_MAX);
        // The tails part in their first byte.
        let keys: Vec<Vec<u8>> = (1..)
            .zip(tails)
            .map(|(first, tail)| {
                let tail = std::iter::once(first).chain(2..).take(tail);
                std::iter::repeat_n(b'p', prefix).chain(tail).collect()
            })
            .collect();
        for (value, key) in keys.iter().enumerate() {
            names.put(key, value as u64);
        }
        names.check();
        for (value, key) in keys.iter().enumerate() {
            assert_eq!(find(key), Ok(value as u64), "{key:?}");
            for at in 0..key.len() {
                let mut other = key.clone();
                for byte in (0..=255).filter(|byte| *byte != key[at]) {
                    other[at] = byte;
                    if cluster::tag(&other) == cluster::tag(key) && !keys.contains(&other) {
                        assert_eq!(find(&other), Err(NO_ENTRY), "{key:?} at {at}: {byte}");
                        compared += 1;
                    }
                }
            }
        }
    }
    assert!(compared > 10_000, "{compared}");
}

/// Keys that stay have their values and their order while a writer commits others.
fn any_length_beside_a_writer<K: Kind>() {
    let (names, asking) = set_up::<K>();
    let lookups = load(names.arena(), LOOKUP);
    let mut rng = fastrand::Rng::with_seed(32);
    let stay: Vec<Vec<u8>> = (0..600).map(|_| edge_key(&mut rng, SHORT_MAX)).collect();
    let stay: std::collections::BTreeSet<_> = stay.into_iter().collect();
    for key in &stay {
        names.put(key, 0);
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = kernel::Ends(&stop);
        scope.spawn(|| {
            let mut rng = fastrand::Rng::with_seed(33);
            while !stop.load(Ordering::Relaxed) {
                let key = edge_key(&mut rng, SHORT_MAX);
                if stay.contains(&key) {
                    names.put(&key, 0);
                } else if rng.bool() {
                    names.put(&key, 1 << 32);
                } else {
                    names.take(&key);
                }
            }
        });
        for round in 0..100 {
            let (count, _, _) = asking.ask(What::Whole, b"");
            assert!(
                count >= 0 && count as u32 == stay.len() as u32,
                "{count:#x}"
            );
            for key in stay.iter().skip(round % 7).step_by(7) {
                let image = layout::key_image(key, 0);
                let found = lookup_of(&lookups, 0, names.window().number, &image);
                assert_eq!(found, Ok(0), "{key:?}");
            }
        }
    });
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

/// A map that programs write, whose removals leave dead slots.
fn of_programs(arena: &BpfArena) -> ProgramMap<u64> {
    let map = ProgramMap::builder(arena, "written").with_trie();
    let map = map.max_entries(3000).bytes(32 << 20).user_writes();
    map.build().unwrap()
}

#[test]
fn walks_in_a_map_of_programs() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let map = of_programs(&arena);
    let asking = Asking::new(&arena, map.window().number);
    let mut oracle = Oracle::new();
    let mut rng = fastrand::Rng::with_seed(22);
    for round in 1..400u64 {
        // Times of growing and of shrinking.
        let removals = [1, 5][round as usize / 40 % 2];
        for value in 0..12 {
            let mut name = key(&mut rng, 250, 240..250);
            if rng.u8(..6) < removals {
                let there = oracle.range(name.clone()..).next();
                name = there.map_or(name, |(there, _)| there.clone());
                let done = map.remove(&name).unwrap();
                assert_eq!(done.is_ok(), oracle.remove(&name).is_some(), "{done:?}");
            } else {
                assert_eq!(map.insert(&name, value).unwrap(), Ok(()));
                oracle.insert(name, value);
            }
        }
        map.service().unwrap();
        let mut asked = key(&mut rng, 250, 240..250);
        if !oracle.is_empty() && rng.bool() {
            let there = oracle.keys().nth(rng.usize(..oracle.len()));
            asked = there.expect("one of them").clone();
        }
        let next = oracle.range((Bound::Excluded(asked.clone()), Bound::Unbounded));
        let prev = oracle.range(..asked.clone()).next_back();
        assert_eq!(
            asking.entry(What::Next, &asked),
            next.clone().next().map(known)
        );
        assert_eq!(asking.entry(What::Prev, &asked), prev.map(known));
        assert_eq!(
            asking.entry(What::First, b""),
            oracle.iter().next().map(known)
        );
        assert_eq!(
            asking.entry(What::Last, b""),
            oracle.iter().next_back().map(known)
        );
        assert_eq!(asking.ask(What::From, &asked).0, 0);
        let from = oracle.range(asked.clone()..).map(known);
        assert!(asking.rest().into_iter().eq(from));
        asked.truncate(rng.usize(..4));
        assert_eq!(asking.ask(What::Prefix, &asked).0, 0);
        let prefixed = oracle.iter().filter(|(key, _)| key.starts_with(&asked));
        assert!(asking.rest().into_iter().eq(prefixed.map(known)));
    }
    assert_eq!(map.verify().unwrap().entries, oracle.len());
}

#[test]
fn walks_beside_programs_that_write() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let map = of_programs(&arena);
    let asking = Asking::new(&arena, map.window().number);
    let name = |i: u32| format!("s/{i:04x}").into_bytes();
    // Every eighth key stays. Clusters have some of these, and some that come and go.
    for i in (0..4000).step_by(8) {
        assert_eq!(map.insert(name(i), 0).unwrap(), Ok(()));
    }
    let service = map.spawn_service(Duration::from_millis(1)).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut rng = fastrand::Rng::with_seed(2);
            while !stop.load(Ordering::Relaxed) {
                let numbers = (0..200).map(|_| rng.u32(..4000)).filter(|i| i % 8 != 0);
                let names: Vec<_> = numbers.map(name).collect();
                let changes = names.iter().map(|name| match rng.u8(..3) {
                    0 => Write::Insert(name, 1 << 32),
                    _ => Write::Remove(name),
                });
                map.write_many(&changes.collect::<Vec<_>>()).unwrap();
            }
        });
        let mut rng = fastrand::Rng::with_seed(3);
        let mut wrong = None;
        for _ in 0..2000 {
            let (count, _, _) = asking.ask(What::Whole, b"");
            let i = rng.u32(..3990);
            let neighbours = [What::Prev, What::Next].map(|what| asking.ask(what, &name(i)));
            let [before, behind] = neighbours
                .clone()
                .map(|(code, _, key)| (code > 0).then_some(key).flatten());
            // What stays is not passed over.
            let fits = count >= 0
                && count & 0xffff_ffff == 500
                && (i == 0
                    || before.is_some_and(|key| key >= name((i - 1) / 8 * 8) && key < name(i)))
                && behind.is_some_and(|key| key <= name(i / 8 * 8 + 8) && key > name(i));
            if !fits {
                wrong = Some((i, count, neighbours));
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(wrong, None);
    });
    service.stop().unwrap();
    map.verify().unwrap();
}
