//! Test vectors: maps that Rust wrote, read by C in user space (gcc, clang), with the answers of a
//! `BTreeMap`; and a small set of them that is kept in `bpf/vectors`, for other implementations.
//! And damaged copies of maps, which C reads under a sanitizer: `SAPWOOD_OPS` of each kind of map
//! (default 24). The maps with their questions are left in the folder that `SAPWOOD_IMAGES` names,
//! for readers in other languages.
#![cfg(feature = "kernel")]

mod kernel;
#[path = "common/user.rs"]
mod user;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use kernel::maps::{
    Both, Kind, Names, Points, Stores, TextPoints, TextStores, Texts, TextsBoth, Trie,
};
use kernel::{KEY_MAX, NODES, name, skipped};
use sapwood::qp::{QpMap, ReadEntry};
use sapwood_bpf::{BpfArena, UserMap, WindowInfo};
use sapwood_checked::{Bytes, CheckedReader, Fixed, Trouble};
use user::Compiled;

type Oracle = BTreeMap<Vec<u8>, u64>;

/// Random numbers that do not depend on the version of a library.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn key(&mut self, most: u64) -> Vec<u8> {
        let (len, letters) = match self.below(8) {
            0 => (self.below(most), 3),
            1 => (self.below(4), 256),
            2 => (self.below(3), 60),
            _ => (self.below(9), 4),
        };
        (0..len).map(|_| self.below(letters) as u8).collect()
    }
}

fn hex(key: &[u8]) -> String {
    key.iter().fold(".".to_owned(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// The count and the sum of a walk.
fn walked<'a>(entries: impl Iterator<Item = (&'a Vec<u8>, &'a u64)>) -> String {
    let (count, sum) = entries.fold((0, 0u64), |(count, sum), (_, value)| {
        (count + 1, sum.wrapping_mul(31).wrapping_add(*value))
    });
    format!("{count} {sum}")
}

/// Questions about these keys, and their answers.
fn questions(
    oracle: &Oracle,
    window: u32,
    keys: impl Iterator<Item = Vec<u8>>,
    walks: usize,
) -> String {
    let mut text = format!("window . {window}\n");
    let value = |entry: Option<(&Vec<u8>, &u64)>| entry.map_or(0, |(_, value)| *value);
    writeln!(text, "first . {}", value(oracle.iter().next())).unwrap();
    writeln!(text, "last . {}", value(oracle.iter().next_back())).unwrap();
    for (i, key) in keys.enumerate() {
        let name = hex(&key);
        let get = oracle.get(&key).copied().unwrap_or(0);
        let next = oracle
            .range(key.clone()..)
            .find(|(there, _)| **there != key);
        let prev = oracle.range(..key.clone()).next_back();
        writeln!(text, "get {name} {get}").unwrap();
        writeln!(text, "next {name} {}", value(next)).unwrap();
        writeln!(text, "prev {name} {}", value(prev)).unwrap();
        if i % walks == 0 {
            let from = walked(oracle.range(key.clone()..));
            writeln!(text, "from {name} {from}").unwrap();
        }
        let prefix = &key[..key.len().min(i % 4)];
        let below = oracle
            .range(prefix.to_vec()..)
            .take_while(|(key, _)| key.starts_with(prefix));
        writeln!(text, "prefix {} {}", hex(prefix), walked(below)).unwrap();
    }
    text
}

tests_of_maps! {
    trie: Trie { what_rust_wrote_is_read_by_c }
    both: Both { what_rust_wrote_is_read_by_c }
    texts: Texts { what_rust_wrote_is_read_by_c }
    stores: Stores { what_rust_wrote_is_read_by_c }
    text_stores: TextStores { what_rust_wrote_is_read_by_c }
    texts_both: TextsBoth { what_rust_wrote_is_read_by_c }
}

fn what_rust_wrote_is_read_by_c<K: Kind>() {
    let c = Compiled::new("qp_vectors");
    for most in MOST {
        let (image, asked) = random_map::<K>(most);
        c.same_answers(&image, asked.as_bytes());
        // The driver detects a wrong answer.
        let changed = asked.replacen("\nlast . ", "\nlast . 9", 1);
        let caught = std::panic::catch_unwind(|| c.same_answers(&image, changed.as_bytes()));
        assert!(caught.is_err(), "a wrong answer was not seen");
    }
}

/// The lengths of the longest keys of random maps.
const MOST: [u64; 2] = [255, 2];

/// An arena with a random map, and questions about it.
fn random_map<K: Kind>(most: u64) -> (Vec<u8>, String) {
    let arena = BpfArena::create(16 << 20).unwrap();
    let other = UserMap::<u64>::builder(&arena, "other")
        .bytes(1 << 20)
        .build()
        .unwrap();
    let names = K::builder(&arena, "names").bytes(4 << 20).build().unwrap();
    other.insert("other", 1).unwrap();
    let (mut numbers, mut oracle) = (Numbers(most), Oracle::new());
    for i in 1..3000u64 {
        let key = numbers.key(most);
        if numbers.below(5) == 0 {
            names.take(&key);
            oracle.remove(&key);
        } else {
            names.put(&key, i);
            oracle.insert(key, i);
        }
    }
    let some: Vec<_> = oracle.keys().step_by(3).cloned().collect();
    let others: Vec<_> = (0..400).map(|_| numbers.key(255)).collect();
    let keys = some.into_iter().chain(others);
    let asked = questions(&oracle, names.window().number, keys, 50);
    (arena.image(), asked)
}

/// What names lead to, mixed as the driver does it, and their longest prefixes.
fn questions_of_names(oracle: &QpMap<u64>, names: &[Vec<u8>], rng: &mut fastrand::Rng) -> String {
    let mut text = String::new();
    for name in names {
        let cuts = if rng.bool() { 6 } else { 0 };
        let proof = oracle.denial(name, 0, |_, value| value & cuts != 0);
        let found = proof.closest;
        let value = |entry: Option<ReadEntry<'_, u64>>| entry.map_or(0, |(_, value)| *value);
        let sum = [
            value(found.exact),
            value(found.ancestor),
            value(found.wildcard),
            value(found.predecessor),
            value(found.cut),
            found.encloser as u64,
            found.exists.into(),
        ];
        let mix = |sum: u64, next| sum.wrapping_mul(31).wrapping_add(next);
        let sum = sum.into_iter().fold(0, mix);
        let more = [
            value(proof.predecessor),
            value(proof.wildcard_predecessor),
            proof.wildcard_exists.into(),
        ];
        let all = more.into_iter().fold(sum, mix);
        let longest = value(oracle.longest_prefix(name));
        let name = hex(name);
        writeln!(
            text,
            "closest {name} {sum} {cuts}\ndenial {name} {all} {cuts}\nlongest {name} {longest}"
        )
        .unwrap();
    }
    text
}

/// Changes bytes of a window whose used part is this: of nodes, leaves and values, or of the header
/// page, too.
fn spoil(window: &mut [u8], rng: &mut fastrand::Rng, round: usize) {
    let nodes = NODES * 8;
    let len = window.len();
    match round % 4 {
        0 => (0..1_000).for_each(|_| window[rng.usize(nodes..len)] = rng.u8(..)),
        1 => (0..400).for_each(|_| {
            let (from, to) = (rng.usize(NODES..len / 8) * 8, rng.usize(NODES..len / 8) * 8);
            window.copy_within(from..from + 8, to);
        }),
        2 => {
            // Root, table, secrets, kind of values: what the header page says.
            (0..4).for_each(|_| window[rng.usize(48..nodes)] = rng.u8(..));
            (0..600).for_each(|_| window[rng.usize(nodes..len)] ^= 1 << rng.u8(..8));
        }
        _ => rng.fill(&mut window[nodes..]),
    }
}

#[test]
fn names_and_damaged_copies() {
    if skipped() {
        return;
    }
    let c = Compiled::new("qp_vectors");
    let strange = [
        names_of::<Trie>(&c),
        names_of::<Both>(&c),
        names_of::<Points>(&c),
        names_of::<Stores>(&c),
        names_of::<Texts>(&c),
        names_of::<TextsBoth>(&c),
        names_of::<TextPoints>(&c),
        names_of::<TextStores>(&c),
    ];
    println!("{strange:?} strange answers of damaged copies");
}

/// An arena with a map of names, and questions about it.
struct NamesMap {
    image: Vec<u8>,
    window: WindowInfo,
    asked: String,
    rng: fastrand::Rng,
}

fn names_map<K: Kind>() -> NamesMap {
    let arena = BpfArena::create(4 << 20).unwrap();
    let map = K::builder(&arena, "names").bytes(2 << 20).build().unwrap();
    let mut oracle = QpMap::<u64>::new();
    let mut rng = fastrand::Rng::with_seed(18);
    for i in 1..1_500u64 {
        let name = name(&mut rng, 6);
        map.put(&name, i);
        oracle.insert(&name, i).unwrap();
    }
    // The longest key that programs know.
    let longest = vec![7; KEY_MAX];
    map.put(&longest, 1_500);
    oracle.insert(&longest, 1_500).unwrap();
    // Keys that the header page would have if it were a leaf, and neighbours behind them.
    let info = map.window();
    let page = &arena.image()[info.at..];
    let of_page = [0, 8].map(|at| page[at + 1..][..usize::from(page[at])].to_vec());
    for key in &of_page {
        for name in [key.clone(), [key, &b"behind"[..]].concat()] {
            map.put(&name, 1_501);
            oracle.insert(&name, 1_501).unwrap();
        }
    }
    // Two of five are removed again, which leaves dead slots in the clusters of shared maps.
    let mut removed: Vec<_> = oracle.keys().map(Vec::from).collect();
    removed.retain(|name| {
        of_page.contains(name) || *name != longest && !name.ends_with(b"behind") && rng.u8(..5) < 2
    });
    for name in &removed {
        assert!(map.take(name) && oracle.remove(name).is_some());
    }
    let stored = oracle.keys().step_by(12).map(Vec::from);
    let removed = removed.into_iter().step_by(5).chain(of_page);
    let mut names: Vec<_> = stored.chain(removed).chain([longest]).collect();
    names.extend((0..100).map(|_| name(&mut rng, 6)));
    let all = oracle.iter().map(|(name, value)| (name.to_vec(), *value));
    let asked = questions(
        &all.collect(),
        map.window().number,
        names.iter().cloned(),
        20,
    );
    let asked = asked + &questions_of_names(&oracle, &names, &mut rng);
    NamesMap {
        image: arena.image(),
        window: info.clone(),
        asked,
        rng,
    }
}

/// Asks C about a map of names, then about damaged copies of it: how many strange answers those
/// gave.
fn names_of<K: Kind>(c: &Compiled) -> u64 {
    let NamesMap {
        image,
        window: info,
        asked,
        mut rng,
    } = names_map::<K>();
    if K::HAS_TRIE {
        c.same_answers(&image, asked.as_bytes());
    }
    let window = &image[info.at..image.len().min(info.at + info.len)];
    let used = window.iter().rposition(|byte| *byte != 0).unwrap() / 8 * 8 + 8;
    let calm = c.answers_of_damaged(&image, asked.as_bytes());
    let rounds = std::env::var("SAPWOOD_OPS").map_or(24, |ops| ops.parse().unwrap());
    let mut strange = Vec::new();
    for round in 0..rounds {
        let mut copy = image.clone();
        spoil(&mut copy[info.at..info.at + used], &mut rng, round);
        strange.push(c.answers_of_damaged(&copy, asked.as_bytes()));
    }
    // Damage was met, and was not taken for what is there.
    let met = strange.iter().any(|count| *count != calm);
    assert!(met, "{strange:?}, {calm} of the whole copy of {}", K::NAME);
    strange.iter().sum()
}

/// A number made of bytes.
fn mixed(sum: u64, bytes: &[u8]) -> u64 {
    let mix = |sum: u64, byte: &u8| sum.wrapping_mul(31).wrapping_add(u64::from(*byte));
    bytes.iter().fold(sum.wrapping_add(bytes.len() as u64), mix)
}

fn mixed_entry(sum: u64, (key, Bytes(value)): &(Vec<u8>, Bytes)) -> u64 {
    mixed(mixed(sum, key), value)
}

fn named(trouble: Trouble) -> &'static str {
    match trouble {
        Trouble::Damaged(..) => "damaged",
        Trouble::Changed => "busy",
        Trouble::NoOrder => "no-order",
        _ => "layout",
    }
}

type Walked = Result<(Vec<u8>, Bytes), Trouble>;

/// The number of a walk's entries, a number made of them, and how it ends.
fn walked_through(entries: impl Iterator<Item = Walked>) -> String {
    let (mut count, mut sum, mut end) = (0, 0, "end");
    for entry in entries {
        match entry {
            Ok(entry) => (count, sum) = (count + 1, mixed_entry(sum, &entry)),
            Err(trouble) => end = named(trouble),
        }
    }
    format!("{count} {sum} {end}")
}

/// The answers of the checked reader about damaged copies of a map: for each copy the words that
/// differ, then what was asked, with a number made of what was found.
fn answers_of_damaged(names: &mut NamesMap) -> String {
    let (at, rng) = (names.window.at, &mut names.rng);
    let window = &names.image[at..at + names.window.len];
    let words = window.chunks_exact(8);
    let words: Vec<_> = words
        .map(|word| word.try_into().map_or(0, u64::from_ne_bytes))
        .collect();
    let used = words.iter().rposition(|word| *word != 0).unwrap() + 1;
    let asked = names
        .asked
        .lines()
        .filter_map(|line| line.strip_prefix("get ."));
    let keys: Vec<_> = asked.filter_map(|line| line.split(' ').next()).collect();
    let mut text = String::new();
    for round in 0..66 {
        let mut copy = words.clone();
        text += "copy\n";
        for _ in 0..1 << (round % 11) {
            let i = match rng.u8(..64) {
                0 => rng.usize(2..14),
                _ => rng.usize(NODES..used),
            };
            copy[i] = match rng.u8(..3) {
                0 => copy[i] ^ 1 << rng.u8(..64),
                1 => copy[rng.usize(NODES..used)],
                _ => copy[i] & !0xff | u64::from(rng.u8(..)),
            };
            writeln!(text, "word {} {}", at + 8 * i, copy[i]).unwrap();
        }
        let reader = match CheckedReader::<_, Bytes>::new(Fixed(&copy[..])) {
            Ok(reader) => reader,
            Err(trouble) => {
                writeln!(text, "map . {}", named(trouble)).unwrap();
                continue;
            }
        };
        let mut say = |what: &str, key: &str, entry: Result<Option<(Vec<u8>, Bytes)>, Trouble>| {
            let said = match entry {
                Ok(Some(entry)) => mixed_entry(0, &entry).to_string(),
                Ok(None) => "none".to_owned(),
                Err(trouble) => named(trouble).to_owned(),
            };
            writeln!(text, "{what} .{key} {said}").unwrap();
        };
        say("first", "", reader.first());
        say("last", "", reader.last());
        for hex in keys.iter().skip(round % 7).step_by(keys.len() / 12) {
            let digits = hex.as_bytes().chunks_exact(2);
            let byte =
                |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
            let key: Vec<u8> = digits.map(byte).collect();
            let value = reader.get(&key);
            say(
                "get",
                hex,
                value.map(|value| value.map(|value| (key.clone(), value))),
            );
            say("next", hex, reader.successor(&key));
            say("prev", hex, reader.predecessor(&key));
            say("longest", hex, reader.longest_prefix(&key));
        }
        let some = keys[round];
        let start: Vec<u8> = vec![u8::from_str_radix(some.get(..2).unwrap_or("61"), 16).unwrap()];
        writeln!(text, "all . {}", walked_through(reader.unordered())).unwrap();
        let from = walked_through(reader.from_key(&start));
        writeln!(text, "from {} {from}", hex(&start)).unwrap();
    }
    text
}

/// Leaves maps of all kinds, with questions and their answers, in the folder that `SAPWOOD_IMAGES`
/// names; and the answers of the checked reader about damaged copies.
#[test]
fn images_for_other_languages() {
    let Some(folder) = std::env::var_os("SAPWOOD_IMAGES").map(PathBuf::from) else {
        return;
    };
    if skipped() {
        return;
    }
    fn leave<K: Kind>(folder: &Path) {
        let write = |name: String, image: &[u8], asked: &str| {
            std::fs::write(folder.join(format!("{name}.image")), image).unwrap();
            std::fs::write(folder.join(format!("{name}.questions")), asked).unwrap();
        };
        let mut names = names_map::<K>();
        write(format!("{}-names", K::NAME), &names.image, &names.asked);
        let file = folder.join(format!("{}-names.damaged", K::NAME));
        std::fs::write(file, answers_of_damaged(&mut names)).unwrap();
        for most in MOST {
            let (image, asked) = random_map::<K>(most);
            write(format!("{}-{most}", K::NAME), &image, &asked);
        }
    }
    leave::<Trie>(&folder);
    leave::<Both>(&folder);
    leave::<Points>(&folder);
    leave::<Stores>(&folder);
    leave::<Texts>(&folder);
    leave::<TextsBoth>(&folder);
    leave::<TextPoints>(&folder);
    leave::<TextStores>(&folder);
}

/// The small vectors: the words of an arena that are not zero, and questions.
fn small() -> String {
    let arena = BpfArena::create(1 << 20).unwrap();
    let mut numbers = Numbers(6);
    let mut oracle = Oracle::new();
    // Each layout of a branch: a few labels, up to 8, up to 32, a bitmap; with END and without.
    for first in 0..40u8 {
        oracle.insert(vec![b'w', first * 5], u64::from(first) + 1);
    }
    for first in 0..20u8 {
        oracle.insert(vec![b'm', first * 9], u64::from(first) + 101);
    }
    oracle.insert(b"w".to_vec(), 200);
    oracle.insert(Vec::new(), 201);
    oracle.insert(vec![b'l'; 254], 202);
    oracle.insert(vec![b'l'; 300], 203);
    for i in 0..40 {
        oracle.insert(numbers.key(12), 300 + i);
    }
    let names = UserMap::<u64>::builder(&arena, "small")
        .bytes(64 << 10)
        .build_sorted(oracle.clone())
        .unwrap();
    let mut text = "# Test vectors of sapwood's ordered maps: the words of an arena that are not zero (place, value), and questions \
                    with answers\n# (tests/bpf/user/qp_vectors.c). Written by SAPWOOD_WRITE=1 cargo test -p sapwood-bpf --features kernel --test vectors\n"
        .to_owned();
    let window = names.window();
    for (i, word) in arena.image().chunks_exact(8).enumerate() {
        let (at, word) = (8 * i, u64::from_ne_bytes(word.try_into().unwrap()));
        // The owner's words differ between runs, and readers do not use them.
        let page = at < 32 || (64..4096).contains(&at);
        if word != 0 && (page || at >= window.at) {
            writeln!(text, "word {at} {word:#x}").unwrap();
        }
    }
    let keys: Vec<_> = oracle.keys().step_by(5).cloned().collect();
    let others = [
        &b"x"[..],
        b"ww",
        b"m\x01",
        b"l",
        b"lll",
        b"\x00",
        b"\xff\xff",
    ];
    let keys = keys.into_iter().filter(|key| key.len() < 255);
    let keys = keys.chain(others.iter().map(|key| key.to_vec()));
    text + &questions(&oracle, window.number, keys, 8)
}

#[test]
fn the_kept_vectors_are_those_of_today() {
    if skipped() {
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf/vectors/qp.txt");
    let wanted = small();
    if std::env::var_os("SAPWOOD_WRITE").is_some() {
        std::fs::write(&path, &wanted).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    assert!(
        kept == wanted,
        "bpf/vectors/qp.txt has drifted: the layout of maps was changed, or what makes the vectors. \
         Write it anew: SAPWOOD_WRITE=1 cargo test -p sapwood-bpf --features kernel --test vectors"
    );
    // The kept vectors are right, and C reads them.
    let mut image = vec![0u8; 4096 + (64 << 10)];
    for line in kept.lines() {
        if let Some(word) = line.strip_prefix("word ") {
            let (at, word) = word.split_once(' ').unwrap();
            let at: usize = at.parse().unwrap();
            let word = u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap();
            image[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        }
    }
    Compiled::new("qp_vectors").same_answers(&image, kept.as_bytes());
    assert!(kept.len() < 20_000, "{} bytes", kept.len());
}
