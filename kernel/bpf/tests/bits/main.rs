//! Longest matches of bit strings by a BPF program: in tables that this process writes, and in
//! tables that programs write, against a naive oracle.
#![cfg(feature = "kernel")]

#[path = "../kernel/mod.rs"]
mod kernel;
mod storm;
#[path = "../common/user.rs"]
mod user;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kernel::{
    Answers, Beside, Ends, INVALID, NO_ENTRY, Pins, load, question, result, skipped, word,
};
use sapwood::lpm::BitString;
use sapwood_bpf::{BitFibMap, BpfArena, Error, ProgramMap, Programs, UserStore, Words, layout};
use user::Compiled;

const BITS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bits.bpf.o"));

/// Prefixes in the order of keys, with their values.
type Oracle = BTreeMap<BitString, u64>;

/// Asks a program about one table.
struct Asking {
    programs: Programs,
    window: u32,
    cursor: u64,
    _scratch: Words,
    /// All questions, each with its answer.
    asked: RefCell<Vec<u8>>,
}

/// The place of the key in a question, and the bytes of a question.
const KEY: usize = 40;
const QUESTION: usize = KEY + 256;

impl Asking {
    fn new(arena: &BpfArena, window: u32) -> Asking {
        let scratch = Words::create(arena, "cursors", layout::CURSOR_BYTES / 8).unwrap();
        Asking {
            programs: load(arena, BITS),
            window,
            cursor: scratch.window().at as u64,
            _scratch: scratch,
            asked: RefCell::default(),
        }
    }

    fn ask(&self, program: &str, what: u32, bits: u32, value: u64, key: &[u8]) -> Vec<u8> {
        let mut data = question([what, self.window], KEY, key);
        data[8..16].copy_from_slice(&self.cursor.to_ne_bytes());
        data[16..20].copy_from_slice(&bits.to_ne_bytes());
        data[32..40].copy_from_slice(&value.to_ne_bytes());
        let mut asked = self.asked.borrow_mut();
        asked.extend_from_slice(&data);
        self.programs.answer(program, &mut data);
        asked.extend_from_slice(&data);
        data
    }

    /// Asks a program and C in user space the same questions about a table. Then asks C about
    /// damaged copies, under a sanitizer that detects reads outside.
    fn same_in_user_space(
        &self,
        (arena, c): (&BpfArena, &Compiled),
        oracle: &Oracle,
        rng: &mut fastrand::Rng,
        most: usize,
    ) {
        self.asked.borrow_mut().clear();
        for _ in 0..100 {
            same_answers(self, oracle, rng, most);
        }
        let mut asked = self.asked.take();
        let mut image = arena.image();
        c.same_answers(&image, &asked);
        // The driver detects a wrong value.
        asked[QUESTION + 32] ^= 1;
        let caught = std::panic::catch_unwind(|| c.same_answers(&image, &asked));
        assert!(caught.is_err(), "a wrong answer was not seen");
        let window = arena
            .windows()
            .unwrap()
            .into_iter()
            .find(|window| window.number == self.window)
            .unwrap();
        for answer in asked.chunks_mut(QUESTION).skip(1).step_by(2) {
            answer[20] = 1;
        }
        // Damage lies behind the header page, in branches, clusters and leaves.
        let used = image.len().min(window.at + (256 << 10));
        for _ in 0..4 {
            for _ in 0..200 {
                let at = rng.usize(window.at + 4_096..used);
                image[at] = rng.u8(..);
            }
            c.same_answers(&image, &asked);
        }
    }

    /// The length and the value of the longest prefix.
    fn lookup(&self, query: &BitString) -> Result<(usize, u64), i64> {
        let data = self.ask("sw_ask_bits", 0, 0, 0, &query.key());
        let value = result(&data, 24)?;
        let bits = u32::from_ne_bytes(data[16..20].try_into().unwrap());
        Ok((bits as usize, value))
    }

    /// The number of prefixes of a walk, and a hash of their values.
    fn all(&self, what: u32, query: &BitString) -> (i64, u64) {
        let data = self.ask("sw_ask_bits", what, 0, 0, &query.key());
        (word(&data, 24) as i64, word(&data, 32))
    }

    /// A change by a program.
    fn change(&self, what: u32, prefix: &BitString, value: u64) -> i64 {
        let data = self.ask("sw_change_bits", what, 0, value, &prefix.key());
        word(&data, 24) as i64
    }
}

/// The first bits of a string.
fn cut(query: &BitString, bits: usize) -> BitString {
    BitString::truncated(query.as_bytes(), bits).unwrap()
}

/// The prefixes of a query, the longest first.
fn matches<'a>(
    oracle: &'a Oracle,
    query: &'a BitString,
) -> impl Iterator<Item = (usize, u64)> + 'a {
    let lengths = (0..=query.len()).rev();
    lengths.filter_map(|bits| Some((bits, *oracle.get(&cut(query, bits))?)))
}

/// The prefixes that a prefix covers, in order.
fn covered<'a>(
    oracle: &'a Oracle,
    prefix: &'a BitString,
) -> impl Iterator<Item = (&'a BitString, &'a u64)> {
    oracle.range(prefix.clone()..).take_while(|(inside, _)| {
        inside.len() >= prefix.len() && cut(inside, prefix.len()) == *prefix
    })
}

/// A string with one of few beginnings, so that prefixes nest, or of random bits.
fn string(rng: &mut fastrand::Rng, most: usize) -> BitString {
    let bits = match rng.u8(..4) {
        0 => rng.usize(..=most),
        1 => rng.usize(..=most.min(40)),
        _ => rng.usize(..=most.min(12)),
    };
    let mut bytes: Vec<u8> = (0..bits.div_ceil(8)).map(|_| rng.u8(..)).collect();
    if rng.bool() {
        // Long strings with equal beginnings.
        let agree = rng.usize(..=bytes.len());
        bytes[..agree].fill(0xa5);
    }
    BitString::truncated(&bytes, bits).unwrap()
}

/// A string that begins with this many bits, as all of a table do.
fn string_behind(begin: usize, rng: &mut fastrand::Rng, most: usize) -> BitString {
    let first = BitString::truncated(&[0x36; 20], begin).unwrap();
    first.join(string(rng, most - begin)).unwrap()
}

/// Compares the program's answers to some queries with the oracle's.
fn same_answers(
    asking: &Asking,
    oracle: &Oracle,
    rng: &mut fastrand::Rng,
    most: usize,
) -> [u32; 2] {
    let mut kinds = [0; 2];
    for _ in 0..4 {
        let query = match (
            rng.u8(..4),
            oracle.keys().nth(rng.usize(..oracle.len().max(1))),
        ) {
            (0, Some(stored)) => stored.clone(),
            (1, Some(stored)) => {
                let tail = string(rng, most - stored.len());
                stored.clone().join(tail).unwrap()
            }
            (2, Some(stored)) => {
                let agree = rng.usize(..=stored.len());
                let tail = string(rng, most - agree);
                cut(stored, agree).join(tail).unwrap()
            }
            _ => string(rng, most),
        };
        let wanted = matches(oracle, &query).next().ok_or(NO_ENTRY);
        assert_eq!(asking.lookup(&query), wanted, "{query} of {oracle:?}");
        kinds[usize::from(wanted.is_ok())] += 1;
        let up = matches(oracle, &query).fold((0, 0u64), |(count, sum), (bits, value)| {
            let sum = sum.wrapping_add(value).wrapping_add(bits as u64);
            (count + 1, sum.wrapping_mul(31))
        });
        assert_eq!(asking.all(2, &query), up, "{query}");
        let mut top = query.clone();
        if rng.bool() {
            top = cut(&query, rng.usize(..=query.len().min(9)));
        }
        let down = covered(oracle, &top).fold((0, 0u64), |(count, sum), (_, value)| {
            (count + 1, sum.wrapping_add(*value).wrapping_mul(31))
        });
        assert_eq!(asking.all(3, &top), down, "{top}");
    }
    kinds
}

#[test]
fn tables_of_this_process() {
    if skipped() {
        return;
    }
    let c = Compiled::new("bits");
    for (most, rounds, seed, begin) in [
        (14, 1_500, 1, 0),
        (70, 1_500, 2, 0),
        (1_016, 1_200, 3, 0),
        (40, 600, 4, 9),
        (70, 600, 5, 30),
        (200, 600, 6, 128),
    ] {
        let arena = BpfArena::create(16 << 20).unwrap();
        let table = BitFibMap::<u64>::builder(&arena, "bits").bytes(4 << 20);
        let table = table.build().unwrap();
        let asking = Asking::new(&arena, table.window().number);
        let mut oracle = Oracle::new();
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut kinds = [0; 2];
        assert_eq!(asking.lookup(&BitString::new()), Err(NO_ENTRY));
        for round in 1..rounds {
            let prefix = string_behind(begin, &mut rng, most);
            if rng.u64(..rounds) < round {
                let old = oracle.keys().nth(rng.usize(..oracle.len().max(1))).cloned();
                let old = old.unwrap_or(prefix);
                assert_eq!(table.remove(&old).unwrap(), oracle.remove(&old));
            } else {
                assert_eq!(
                    table.insert(&prefix, round).unwrap(),
                    oracle.insert(prefix, round)
                );
            }
            if round % 400 == 0 {
                table.compact().unwrap();
            }
            let seen = same_answers(&asking, &oracle, &mut rng, most);
            if round == rounds / 2 {
                asking.same_in_user_space((&arena, &c), &oracle, &mut rng, most);
            }
            kinds = [kinds[0] + seen[0], kinds[1] + seen[1]];
        }
        assert!(kinds.iter().all(|kind| *kind > 100), "{kinds:?}");
        // Programs cannot look this long prefix up. It is only a neighbour of others.
        let long = BitString::truncated(&[0xa5; 200], 1_400).unwrap();
        table.insert(&long, 7).unwrap();
        table.insert(cut(&long, 1_015), 8).unwrap();
        assert_eq!(asking.lookup(&cut(&long, 1_016)), Ok((1_015, 8)));
        table.verify().unwrap();
        let elsewhere = Asking {
            window: 9,
            ..asking
        };
        assert_eq!(elsewhere.lookup(&BitString::new()), Err(INVALID));
    }
}

/// A table deeper than a search remembers, with the match at each depth in turn.
#[test]
fn matches_far_above() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let table = BitFibMap::<u64>::builder(&arena, "deep")
        .bytes(32 << 20)
        .build()
        .unwrap();
    let asking = Asking::new(&arena, table.window().number);
    let ones = |bits: usize| BitString::truncated(&[0xff; 127], bits).unwrap();
    let zero = BitString::from_number(0, 1).unwrap();
    for bits in (0..800).step_by(4) {
        // A branch at each group of four, whose other child does not match.
        table.insert(ones(bits).join(&zero).unwrap(), 1).unwrap();
    }
    table.insert(ones(1_000), 2).unwrap();
    let query = ones(800)
        .join(BitString::from_number(0b0111, 4).unwrap())
        .unwrap();
    let query = query.join(&zero).unwrap();
    assert_eq!(asking.lookup(&query), Err(NO_ENTRY));
    for top in [
        0, 1, 2, 3, 4, 5, 62, 63, 64, 65, 399, 400, 797, 798, 799, 800,
    ] {
        table.insert(ones(top), 10 + top as u64).unwrap();
        assert_eq!(asking.lookup(&query), Ok((top, 10 + top as u64)));
        table.remove(ones(top)).unwrap();
    }
}

#[test]
fn tables_of_programs() {
    if skipped() {
        return;
    }
    let c = Compiled::new("bits");
    for (most, index, seed, begin) in [
        (14, false, 1, 0),
        (70, true, 2, 0),
        (300, false, 3, 0),
        (60, false, 4, 21),
    ] {
        let arena = BpfArena::create(16 << 20).unwrap();
        let table = ProgramMap::<u64>::builder(&arena, "bits")
            .bytes(8 << 20)
            .max_entries(4_000)
            .with_trie();
        let table = if index { table.with_index() } else { table };
        let table = table.build().unwrap();
        let asking = Asking::new(&arena, table.window().number);
        let mut oracle = Oracle::new();
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut kinds = [0; 2];
        let rounds = 1_500;
        for round in 1..rounds {
            let prefix = string_behind(begin, &mut rng, most);
            if rng.u64(..rounds) < round {
                let old = oracle.keys().nth(rng.usize(..oracle.len().max(1))).cloned();
                let old = old.unwrap_or(prefix);
                let wanted = if oracle.remove(&old).is_some() {
                    0
                } else {
                    NO_ENTRY
                };
                assert_eq!(asking.change(1, &old, 0), wanted);
            } else {
                assert_eq!(asking.change(0, &prefix, round), 0);
                oracle.insert(prefix, round);
            }
            table.service().unwrap();
            let seen = same_answers(&asking, &oracle, &mut rng, most);
            if round == rounds / 2 {
                asking.same_in_user_space((&arena, &c), &oracle, &mut rng, most);
            }
            kinds = [kinds[0] + seen[0], kinds[1] + seen[1]];
        }
        assert!(kinds.iter().all(|kind| *kind > 100), "{kinds:?}");
        // Rust reads the entries that programs wrote.
        let reader = arena.reader::<u64>("bits").unwrap();
        let there = reader.iter().map(|entry| {
            let (key, value) = entry.unwrap();
            (BitString::from_key(&key).unwrap(), value)
        });
        assert!(there.eq(oracle));
        table.verify().unwrap();
    }
}

#[test]
fn keys_are_made_and_cut_as_in_rust() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(16 << 20).unwrap();
    let asking = Asking::new(&arena, 0);
    let mut rng = fastrand::Rng::with_seed(9);
    for round in 0..400 {
        let bytes: [u8; 8] = std::array::from_fn(|_| rng.u8(..));
        let all = [1, 24, 28, 32, 35, 61, 64][round % 7];
        let bits = rng.u32(..=all);
        let wanted = BitString::truncated(&bytes, bits as usize).unwrap().key();
        let value = u64::from_ne_bytes(bytes);
        let data = asking.ask("sw_make_key", all, bits, value, b"");
        assert_eq!(word(&data, 24), 0);
        assert_eq!(usize::from(data[KEY]), wanted.len());
        assert_eq!(data[KEY + 1..][..wanted.len()], wanted);
        assert!(data[KEY + 1 + wanted.len()..].iter().all(|byte| *byte == 0));
    }
    // The key has fewer bits than it claims.
    for (bits, more) in [
        (0, 1),
        (3, 4),
        (4, 5),
        (5, 6),
        (8, 9),
        (61, 62),
        (61, 2_000),
    ] {
        let key = cut(&BitString::from_number(u128::MAX, 128).unwrap(), bits).key();
        let data = asking.ask("sw_ask_bits", 1, more, 0, &key);
        assert_eq!(word(&data, 24) as i64, INVALID, "{more} of {bits}");
    }
}

/// Programs see whole commits: both prefixes have values of one version.
#[test]
fn what_stays_is_found_beside_a_writer() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let table = BitFibMap::<u64>::builder(&arena, "bits")
        .bytes(32 << 20)
        .build()
        .unwrap();
    let asking = Asking::new(&arena, table.window().number);
    let number = |n: u128, bits| BitString::from_number(n, bits).unwrap();
    table.insert(number(5, 3), 1).unwrap();
    table.insert(number(5 << 9 | 3, 12), 1).unwrap();
    let stop = AtomicBool::new(false);
    let commits = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut rng = fastrand::Rng::with_seed(8);
            let mut commits = 0u64;
            while !stop.load(Ordering::Relaxed) {
                let mut txn = table.begin();
                for _ in 0..20 {
                    // Other prefixes between and beside these two, never of three or twelve bits.
                    let bits = [2, 4, 5, 7, 11, 13, 20][rng.usize(..7)];
                    let prefix = number(rng.u128(..1 << bits), bits);
                    match rng.bool() {
                        true => drop(txn.insert(prefix, 1_000 + bits as u64).unwrap()),
                        false => drop(txn.remove(prefix).unwrap()),
                    }
                }
                txn.commit();
                commits += 1;
            }
            commits
        });
        let _ends = Ends(&stop);
        let until = std::time::Instant::now() + Duration::from_millis(700);
        while std::time::Instant::now() < until {
            let (bits, value) = asking.lookup(&number(5 << 9 | 3, 12)).unwrap();
            assert_eq!((bits, value), (12, 1));
            let (bits, value) = asking.lookup(&number(5, 3)).unwrap();
            assert_eq!((bits, value), (3, 1));
            let (bits, value) = asking.lookup(&number(0b101_0110, 7)).unwrap();
            assert!(bits >= 3 && (value == 1 || value == 1_000 + bits as u64));
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap()
    });
    assert!(commits > 10, "{commits}");
}

/// Two threads run programs that insert and remove prefixes while a third looks prefixes up. Each
/// answer is a prefix of the query with its own value. The prefixes that stay are found, unless a
/// longer one is.
#[test]
fn programs_change_a_table_while_programs_look_up() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let table = ProgramMap::<u64>::builder(&arena, "bits")
        .bytes(32 << 20)
        .max_entries(10_000)
        .with_trie()
        .build()
        .unwrap();
    let window = table.window().number;
    let number = |n: u128, bits| BitString::from_number(n, bits).unwrap();
    let value = |prefix: &BitString| {
        let bytes = prefix.as_bytes().iter();
        bytes.fold(prefix.len() as u64 + 1, |sum, byte| {
            sum << 8 | u64::from(*byte)
        })
    };
    let query = number(0xa5_a5a5_a5a5, 40);
    let stay = [3, 12, 17].map(|bits| cut(&query, bits));
    let asking = Asking::new(&arena, window);
    for prefix in &stay {
        assert_eq!(asking.change(0, prefix, value(prefix)), 0);
    }
    let stop = AtomicBool::new(false);
    let (done, longest) = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|seed| {
                let (query, stay, stop) = (&query, &stay, &stop);
                let programs = load(&arena, BITS);
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(seed);
                    let mut done = 0u64;
                    while !stop.load(Ordering::Relaxed) {
                        let bits = rng.usize(..=40);
                        let mut prefix = cut(query, bits);
                        if rng.bool() {
                            // A prefix that differs from the query at some bit.
                            let mut bytes = prefix.as_bytes().to_vec();
                            if let Some(byte) = rng.choice(bytes.iter_mut()) {
                                *byte ^= 1 << rng.u8(..8);
                            }
                            prefix = BitString::truncated(&bytes, bits).unwrap();
                        }
                        if stay.contains(&prefix) {
                            continue;
                        }
                        let mut data =
                            question([u32::from(rng.bool()), window], KEY, &prefix.key());
                        data[32..40].copy_from_slice(&value(&prefix).to_ne_bytes());
                        programs.answer("sw_change_bits", &mut data);
                        done += u64::from(word(&data, 24) == 0);
                    }
                    done
                })
            })
            .collect();
        let ends = Ends(&stop);
        let until = std::time::Instant::now() + Duration::from_secs(1);
        let mut longest = 0u64;
        while std::time::Instant::now() < until {
            table.service().unwrap();
            for _ in 0..50 {
                let (bits, found) = asking.lookup(&query).unwrap();
                assert_eq!(found, value(&cut(&query, bits)), "{bits}");
                assert!(bits >= 17, "{bits}");
                longest += u64::from(bits > 17);
            }
            asking.asked.borrow_mut().clear();
        }
        drop(ends);
        let done: u64 = writers.into_iter().map(|one| one.join().unwrap()).sum();
        (done, longest)
    });
    assert!(done > 1_000 && longest > 100, "{done} {longest}");
    table.service().unwrap();
    table.verify().unwrap();
}

#[test]
#[ignore = "a part of other tests, in a process of its own"]
fn child_process() {
    let Some((_, path)) = Beside::order() else {
        return;
    };
    let arena = BpfArena::open(path).unwrap();
    let table = BitFibMap::<u64>::builder(&arena, "bits").bytes(16 << 20);
    let table = table.build().unwrap();
    let other = UserStore::<u64>::builder(&arena, "other").bytes(1 << 20);
    let other = other.build().unwrap();
    let mut txn = other.begin();
    txn.insert("no prefix", 1).unwrap();
    txn.commit();
    let mut rng = fastrand::Rng::with_seed(12);
    for commit in 1.. {
        let mut txn = table.begin();
        for _ in 0..100 {
            txn.insert(string(&mut rng, 40), commit).unwrap();
        }
        txn.insert(BitString::new(), commit).unwrap();
        txn.commit();
        if commit % 20 == 0 {
            println!("ready.");
        }
    }
}

#[test]
fn a_table_is_taken_over() {
    if skipped() {
        return;
    }
    let pins = Pins::new("bits");
    let arena = BpfArena::create(64 << 20).unwrap();
    arena.pin(pins.path("arena")).unwrap();
    let mut child = Beside::start("bits", &pins.path("arena"));
    child.wait_for("ready");
    child.kill();
    let reader = arena.reader::<u64>("bits").unwrap();
    let entries = reader.iter().map(|entry| {
        let (key, value) = entry.unwrap();
        (BitString::from_key(&key).unwrap(), value)
    });
    let oracle: Oracle = entries.collect();
    // The last commit is there, whole.
    let last = oracle[&BitString::new()];
    assert!(last >= 20 && oracle.values().all(|value| *value <= last));
    let table = BitFibMap::<u64>::builder(&arena, "bits").bytes(16 << 20);
    let table = table.take_over().unwrap();
    table.verify().unwrap();
    assert!(
        table
            .snapshot()
            .iter()
            .map(|(p, v)| (p, *v))
            .eq(oracle.clone())
    );
    let asking = Asking::new(&arena, table.window().number);
    let mut rng = fastrand::Rng::with_seed(13);
    for _ in 0..50 {
        same_answers(&asking, &oracle, &mut rng, 60);
    }
    // A map with other keys is no table of prefixes, and stays as it is.
    let refused = BitFibMap::<u64>::builder(&arena, "other").bytes(1 << 20);
    let refused = refused.take_over().unwrap_err();
    assert!(matches!(refused, Error::Damaged(_)), "{refused}");
    assert!(refused.to_string().contains("no prefix"), "{refused}");
    assert_eq!(arena.reader::<u64>("other").unwrap().len().unwrap(), 1);
    let other = UserStore::<u64>::builder(&arena, "other").bytes(1 << 20);
    assert_eq!(other.take_over().unwrap().get("no prefix"), Some(1));
}
