//! Maps read from outside their owner's process, whole and damaged ones. `SAPWOOD_OPS` sets how
//! many damaged windows each kind of map is asked in (default 400).
#![cfg(feature = "kernel")]

mod kernel;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use kernel::maps::{
    Both, Kind, Names, Number, Points, Stores, TextPoints, TextStores, Texts, TextsBoth, Trie, all,
};
use kernel::{Beside, Damage, LOOKUP, NODES, Pins, key, load, lookup, skipped, value_of};
use sapwood_bpf::{BpfArena, CheckedReader, Error};
use sapwood_format::{self as format, branch, bucket, cluster, inline};

tests_of_maps! {
    trie: Trie {
        written_by_another_process_until_it_is_killed damaged_maps damaged_tries damaged_clusters
    }
    both: Both {
        written_by_another_process_until_it_is_killed damaged_maps damaged_clusters damaged_indexes
    }
    points: Points { written_by_another_process_until_it_is_killed damaged_maps damaged_indexes }
    stores: Stores { damaged_maps damaged_tries damaged_clusters }
    texts: Texts { damaged_maps damaged_tries damaged_clusters }
    text_stores: TextStores { damaged_maps damaged_clusters }
    texts_both: TextsBoth { written_by_another_process_until_it_is_killed damaged_indexes }
    text_points: TextPoints { damaged_maps damaged_indexes }
}

/// A key that stays, and its value.
fn staying(i: u32) -> (String, u64) {
    let key = format!("stays/{:x}/{i}", i.wrapping_mul(0x9e37_79b9) >> 20);
    (key, u64::from(i) << 32 | 7)
}

const STAYING: u32 = 2000;

#[test]
#[ignore = "a part of other tests, in a process of its own"]
fn child_process() {
    let Some((kind, path)) = Beside::order() else {
        return;
    };
    let arena = BpfArena::open(path).unwrap();
    match &*kind {
        Trie::NAME => churn::<Trie>(&arena),
        Both::NAME => churn::<Both>(&arena),
        Points::NAME => churn::<Points>(&arena),
        TextsBoth::NAME => churn::<TextsBoth>(&arena),
        other => panic!("{other}"),
    }
}

fn churn<K: Kind>(arena: &BpfArena) {
    let map = K::builder(arena, "names").build().unwrap();
    for (key, value) in (0..STAYING).map(staying) {
        map.put(key.as_bytes(), value);
    }
    println!("ready");
    let mut rng = fastrand::Rng::with_seed(11);
    let mut grows = true;
    for round in 0u64.. {
        // Tables grow and shrink.
        if round % 4000 == 0 {
            grows = rng.bool();
        }
        let place = ["goes", "stays", "x"][rng.usize(0..3)];
        let key = format!("{place}/{:x}", rng.u32(0..5000));
        if rng.u8(..4) > u8::from(grows) * 2 {
            map.take(key.as_bytes());
        } else {
            map.put(key.as_bytes(), value_of(key.as_bytes()));
        }
        if round % 64 == 0 {
            map.tidy(16);
        }
        // The garbage of all threads is freed as soon as possible.
        map.rest();
    }
}

/// A walk beside the writer finds no key twice, finds each key with its value, and finds all keys
/// that stay. Returns whether no change disturbed it.
fn is_walked(
    entries: impl Iterator<Item = Result<(Vec<u8>, Number), Error>>,
    mut each: impl FnMut(&[u8]),
) -> bool {
    let mut seen = BTreeSet::new();
    let mut stay = 0;
    for entry in entries {
        let (key, Number(value)) = match entry {
            Ok(entry) => entry,
            Err(Error::Busy(_)) => return false,
            Err(error) => panic!("{error}"),
        };
        if value != value_of(&key) {
            assert_eq!(value & 0xffff_ffff, 7, "{key:?} {value}");
            assert_eq!(staying((value >> 32) as u32).0.as_bytes(), key);
            stay += 1;
        }
        each(&key);
        assert!(seen.insert(key), "a key twice");
    }
    assert_eq!(stay, STAYING);
    true
}

fn written_by_another_process_until_it_is_killed<K: Kind>() {
    let pins = Pins::new("checked");
    let arena = BpfArena::create(64 << 20).unwrap();
    arena.pin(pins.path("arena")).unwrap();
    let mut child = Beside::start(K::NAME, &pins.path("arena"));
    child.wait_for("ready");
    let reader = arena.reader::<Number>("names").unwrap();
    let until = Instant::now() + Duration::from_secs(2);
    let (mut gets, mut walks, mut busy, mut rng) = (0, 0, 0, fastrand::Rng::with_seed(3));
    while Instant::now() < until || walks < 3 {
        for _ in 0..200 {
            let (key, value) = staying(rng.u32(0..STAYING));
            match reader.get(&key) {
                Ok(found) => assert_eq!(found, Some(Number(value)), "{key}"),
                Err(Error::Busy(_)) => busy += 1,
                Err(error) => panic!("{key}: {error}"),
            }
            gets += 1;
        }
        let mut whole = is_walked(reader.unordered(), |_| {});
        if K::HAS_TRIE {
            let mut before = Vec::new();
            whole &= is_walked(reader.iter(), |key| {
                assert!(&before[..] < key, "{before:?} before {key:?}");
                before = key.to_vec();
            });
        }
        walks += u32::from(whole);
    }
    child.kill();
    println!("{gets} lookups, {walks} walks beside a writer, {busy} given up");
    assert!(busy <= gets / 100);
    // The dead owner's map is intact, whatever the owner was doing.
    let there = reader.verify().unwrap();
    assert_eq!(there, reader.len().unwrap());
    let entries = reader.unordered().map(|entry| entry.unwrap());
    let stay = entries
        .filter(|(key, Number(value))| key.starts_with(b"stays/") && value & 0xffff_ffff == 7);
    assert_eq!(stay.count(), STAYING as usize);
}

fn name(rng: &mut fastrand::Rng) -> Vec<u8> {
    key(rng, 600, 250..260)
}

/// Calls all methods. Any answer is right, and none may take long.
fn ask_all<K: Kind>(map: &CheckedReader<Number>, rng: &mut fastrand::Rng, most: usize) -> usize {
    let mut errors = 0;
    for _ in 0..20 {
        errors += usize::from(map.get(name(rng)).is_err());
    }
    let entries = map.unordered();
    let walked = entries.inspect(|entry| errors += usize::from(entry.is_err()));
    assert!(
        walked.count() <= most,
        "more entries than there is room for"
    );
    if K::HAS_TRIE {
        let walked = map
            .iter()
            .inspect(|entry| errors += usize::from(entry.is_err()));
        assert!(
            walked.count() <= most,
            "more entries than there is room for"
        );
        let mut before: Option<Vec<u8>> = None;
        for (key, _) in map.from_key(name(rng)).map_while(Result::ok) {
            assert!(before.is_none_or(|before| before < key));
            before = Some(key);
        }
    }
    errors + usize::from(map.verify().is_err())
}

/// The root words with the places of trie and index, and a word of the secrets.
const ROOT: usize = 8;
const TABLE: usize = 9;
const SECRET: usize = 128;

/// Bytes of a window with a damaged map.
const BYTES: usize = 2 << 20;

/// A map, a reader of it, a `Damage` of its window, and the number of entries.
fn filled<K: Kind>(arena: &BpfArena) -> (impl Sized, CheckedReader<Number>, Damage, usize) {
    let map = K::builder(arena, "names").bytes(BYTES).build().unwrap();
    let mut rng = fastrand::Rng::with_seed(8);
    for i in 0..1500 {
        map.put(&name(&mut rng), i);
    }
    let reader = arena.reader::<Number>("names").unwrap();
    let entries = reader.verify().unwrap();
    assert_eq!(entries, map.count());
    let damage = Damage::new(arena, map.window());
    (map, reader, damage, entries)
}

fn damaged_maps<K: Kind>() {
    let arena = BpfArena::create(8 << 20).unwrap();
    let (_map, reader, damage, entries) = filled::<K>(&arena);
    let programs = load(&arena, LOOKUP);
    let mut rng = fastrand::Rng::with_seed(9);
    let most = BYTES / 8 + 2;
    let (last, table) = (damage.last, damage.whole[TABLE] as usize);
    let rounds = std::env::var("SAPWOOD_OPS").map_or(400, |ops| ops.parse().unwrap());
    let mut caught = 0;
    for round in 0..rounds {
        // Nodes, leaves and buckets; and the header and directory of the table.
        let at = match round % 4 {
            0 if K::HAS_INDEX => table + rng.usize(0..12),
            _ => rng.usize(NODES..last),
        };
        let len = damage.spoil(&mut rng, at);
        if round % 8 == 0 {
            // The root, the table or the secrets are changed, too.
            let root = match rng.bool() {
                true => rng.u64(..),
                false => (rng.usize(NODES..last) * 4) as u64 | rng.u64(0..4),
            };
            damage.words(ROOT, &[root]);
            damage.words(TABLE, &[rng.u64(..last as u64)]);
            damage.words(SECRET, &[rng.u64(..)]);
        }
        caught += usize::from(ask_all::<K>(&reader, &mut rng, most) > 0);
        // Programs answer something and end.
        let asked = key(&mut rng, 255, 250..255);
        let code = lookup(&programs, 2, reader.source().window().number, &asked);
        assert!(code.is_ok() || code.is_err_and(|code| (-95..0).contains(&code)));
        damage.put_back(at, len);
        damage.put_back(ROOT, 2);
        damage.put_back(SECRET, 1);
    }
    println!(
        "{}: {rounds} damaged windows, {caught} with errors",
        K::NAME
    );
    assert!(caught > rounds / 4, "{caught} of {rounds}");
    assert_eq!(reader.verify().unwrap(), entries);
    // The window, with its header page, has only random bytes.
    for _ in 0..10 {
        let noise = damage.noise(&mut rng);
        damage.words(NODES, &noise[NODES..]);
        ask_all::<K>(&reader, &mut rng, most);
        damage.words(2, &noise[..100]);
        assert!(reader.get("a").is_err());
        damage.put_back(0, damage.whole.len());
    }
    assert_eq!(reader.verify().unwrap(), entries);
}

fn damaged_tries<K: Kind>() {
    let arena = BpfArena::create(8 << 20).unwrap();
    let (_map, reader, damage, entries) = filled::<K>(&arena);
    // Branches that refer to each other, and a comb as deep as offsets allow.
    let mut comb = vec![0u64; damage.whole.len()];
    for (i, pair) in comb[NODES..].chunks_exact_mut(2).enumerate() {
        let header = branch::header(i.min(0xffff), 1);
        let next = cell_of(NODES + 2 * (i + 1));
        pair[0] = u64::from(header) | 0x0101_0101 << 32;
        pair[1] = next | next << 32;
    }
    damage.words(NODES, &comb[NODES..]);
    damage.words(ROOT, &[cell_of(NODES)]);
    let began = Instant::now();
    for answer in [reader.len(), reader.verify()] {
        assert!(matches!(answer, Err(Error::Damaged(_))), "{answer:?}");
    }
    assert!(began.elapsed() < Duration::from_secs(20));
    // A branch that is its own child.
    comb[NODES + 1] = cell_of(NODES) | cell_of(NODES) << 32;
    damage.words(NODES, &comb[NODES..NODES + 8]);
    let answer = reader.verify();
    assert!(matches!(answer, Err(Error::Damaged(_))), "{answer:?}");
    damage.put_back(0, damage.whole.len());
    assert_eq!(reader.verify().unwrap(), entries);
}

/// The cell of a branch at a word.
fn cell_of(word: usize) -> u64 {
    u64::from(format::branch_cell(word as u32))
}

/// Reads a window as it was.
struct Bytes<'a>(&'a [u64]);

impl Bytes<'_> {
    fn u8(&self, at: usize) -> u8 {
        (self.0[at / 8] >> (at % 8 * 8)) as u8
    }

    fn u32(&self, at: usize) -> u32 {
        (self.0[at / 8] >> (at % 8 * 8)) as u32
    }

    /// Finds the cells of the clusters below a cell.
    fn clusters(&self, cell: u32, found: &mut Vec<u32>) {
        let at = format::byte_of(cell);
        if cell & format::CLUSTER != 0 {
            found.push(cell);
        } else if format::is_branch(cell) {
            let header = self.u32(at);
            let cells = at + branch::cells_at(header);
            for child in 0..branch::children_of(header) {
                self.clusters(self.u32(cells + 4 * child), found);
            }
        }
    }
}

fn damaged_clusters<K: Kind>() {
    let arena = BpfArena::create(8 << 20).unwrap();
    let (_map, reader, damage, entries) = filled::<K>(&arena);
    let whole = Bytes(&damage.whole);
    let mut clusters = Vec::new();
    whole.clusters(damage.whole[ROOT] as u32, &mut clusters);
    assert!(clusters.len() > 10, "{}", clusters.len());
    // The result of `verify` when these bytes are at this place.
    let verified = |at: usize, bytes: &[u8]| {
        let (from, to) = (at / 8, (at + bytes.len()).div_ceil(8));
        let old = &damage.whole[from..to];
        let mut new: Vec<u8> = old.iter().flat_map(|word| word.to_le_bytes()).collect();
        new[at % 8..at % 8 + bytes.len()].copy_from_slice(bytes);
        let new = new.chunks_exact(8);
        let new: Vec<u64> = new
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
            .collect();
        damage.words(from, &new);
        let answer = reader.verify();
        damage.put_back(from, to - from);
        answer
    };
    let mut rng = fastrand::Rng::with_seed(12);
    for cell in clusters {
        let (at, is_inline) = (format::byte_of(cell), cell & format::KIND == format::INLINE);
        let header = whole.u32(at);
        let leaves = cluster::leaves_of(header);
        if leaves == 1 {
            continue;
        }
        let slot = rng.usize(1..leaves);
        let slots = cluster::capacity_of(header);
        let [tag, distance] = match is_inline {
            true => {
                let prefix = inline::Extent::of(whole.u32(at + 4)).prefix;
                [inline::TAGS_AT, inline::borders_at(slots, prefix)]
            }
            false => [cluster::TAGS_AT, cluster::borders_at(header)],
        }
        .map(|from| at + from + slot);
        let byte = distance + slots;
        let other = if whole.u8(byte) == 0 { rng.u8(1..) } else { 0 };
        for (what, at, bytes) in [
            ("no tag", tag, &[whole.u8(tag) ^ 1 << rng.u8(0..8)][..]),
            (
                "no border",
                distance,
                &[whole.u8(distance) ^ 1 << rng.u8(0..8)],
            ),
            ("no byte", byte, &[other]),
            ("another base", at, &[whole.u8(at) ^ 1 << rng.u8(0..8)]),
            ("a leaf less", at + 2, &[leaves as u8 - 1]),
            ("a leaf more", at + 2, &[leaves as u8 + 1]),
        ] {
            let answer = verified(at, bytes);
            assert!(
                matches!(answer, Err(Error::Damaged(_))),
                "{what}: {answer:?}"
            );
        }
        // What the entries are: places in the block, or cells.
        let (entry, width) = match is_inline {
            true => (at + inline::places_at(slots) + slot, 1),
            false => (at + cluster::cells_at(header) + 4 * slot, 4),
        };
        let before: Vec<u8> = (entry - width..entry).map(|at| whole.u8(at)).collect();
        for (what, bytes) in [
            ("an entry twice", &before[..]),
            ("no entry", &[0; 4][..width]),
            ("an entry of another kind", &[whole.u8(entry) ^ 3]),
        ] {
            let answer = verified(entry, bytes);
            // A slot of a cluster of cells may be dead, unless it is the last one.
            if what == "no entry" && !is_inline && slot + 1 < leaves {
                assert_eq!(answer.unwrap(), entries - 1);
                continue;
            }
            assert!(
                matches!(answer, Err(Error::Damaged(_))),
                "{what}: {answer:?}"
            );
        }
        // A dead writer may have left the cluster locked.
        let locked = header | branch::FRESH;
        assert_eq!(verified(at, &locked.to_le_bytes()).unwrap(), entries);
    }
    assert_eq!(reader.verify().unwrap(), entries);
}

fn damaged_indexes<K: Kind>() {
    // Each map has other random hashes, so a map may have no home with one key behind it.
    let tested = (0..20).any(|_| damaged_index::<K>());
    assert!(tested, "no home with one key behind it in 20 maps");
}

/// False when the map has no home with exactly one key behind it: nothing was tested of such.
fn damaged_index<K: Kind>() -> bool {
    let arena = BpfArena::create(8 << 20).unwrap();
    let (_map, reader, damage, entries) = filled::<K>(&arena);
    let whole = &damage.whole;
    // A header with another word on the parts that the map has.
    for says in [3, 0, u64::MAX] {
        damage.words(7, &[says]);
        let answer = reader.verify();
        assert!(says == 0 || answer.is_err(), "{says} {answer:?}");
    }
    damage.put_back(7, 1);
    // A key in a wrong slot.
    let table = whole[TABLE] as usize;
    let (total, shift) = (whole[table] >> 32, whole[table + 1] as u32);
    let place = |b: u64| {
        let chunk = (b >> shift) as usize;
        let entry = (whole[table + 2 + chunk / 2] >> (chunk % 2 * 32)) as u32;
        let inside = (b as usize & ((1 << shift) - 1)) * 8;
        (entry != 0).then_some((entry & !7) as usize + inside)
    };
    // Readers ignore the contents of a bucket that was moved.
    let is_used = |at: &usize| whole[*at] as u8 & 0xa5 != 0 && whole[at + 1] >> 33 & 1 == 0;
    let used = (0..total).filter_map(place).find(is_used).unwrap();
    damage.words(used, &[whole[used] ^ 0x5a]);
    let answer = reader.verify();
    assert!(matches!(answer, Err(Error::Damaged(_))), "{answer:?}");
    damage.put_back(used, 1);
    assert_eq!(reader.verify().unwrap(), entries);
    // An owner that died before the home counted a key that it had put into a bucket behind.
    let one_behind = |at: &usize| whole[at + 1] >> 34 & 0x3f == 1 && whole[at + 1] >> 33 & 1 == 0;
    let Some(home) = (0..total).filter_map(place).find(one_behind) else {
        return false;
    };
    damage.words(
        home + 1,
        &[whole[home + 1] & !(0xff00_fffc << 32) | bucket::LOCK],
    );
    let left = entries - usize::from(!K::HAS_TRIE);
    assert_eq!(reader.verify().unwrap(), left);
    assert_eq!(all(&reader).len(), left);
    true
}
