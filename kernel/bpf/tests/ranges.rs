//! Range maps that this process writes: what a BPF program, and C in user space, find in them,
//! against a naive oracle, beside a writer, and in damaged memory.
#![cfg(feature = "kernel")]

#[path = "common/user.rs"]
mod user;

mod kernel;

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kernel::{Answers, Ends, INVALID, NO_ENTRY, Poke, load, skipped, word};
use sapwood::maple::PlainValue;
use sapwood_bpf::layout::{Kind, page, ranges};
use sapwood_bpf::{BpfArena, Programs, UserRanges, WindowInfo};
use sapwood_model::oracle::RangeMap;
use user::Compiled;

const RANGES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ranges.bpf.o"));

/// Bytes of a question, and the most in a packet.
const BYTES: usize = 72;
const MOST: usize = 40;
/// The results of damaged memory, and of loops that were ended.
const DAMAGED: i64 = -117;
const ENDED: i64 = -40;

/// A question of tests/bpf/ranges_ask.h.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Get(u64),
    Gap(u64, u64, u64),
}

/// An entry, or a gap, whose value is 0: the bounds, the value as a number, and its first bytes.
type Found = Result<(u64, u64, u64, u64), i64>;

/// The questions with their answers, as programs give them.
struct Asked {
    bytes: Vec<u8>,
}

impl Asked {
    fn new(programs: &Programs, window: u32, asks: &[Ask]) -> Asked {
        let mut bytes = Vec::new();
        for some in asks.chunks(MOST) {
            let mut data = Vec::new();
            for ask in some {
                let (what, words) = match *ask {
                    Ask::Get(index) => (0_u32, [index, 0, 0]),
                    Ask::Gap(size, from, to) => (1, [size, from, to]),
                };
                data.extend([what, window].map(u32::to_ne_bytes).concat());
                data.extend(words.map(u64::to_ne_bytes).concat());
                // The answer is not there yet.
                data.extend([0x55; BYTES - 32]);
            }
            programs.answer("sw_ask", &mut data);
            bytes.append(&mut data);
        }
        Asked { bytes }
    }

    fn answers(&self) -> impl Iterator<Item = Found> + '_ {
        self.bytes.chunks(BYTES).map(|one| {
            let words = [40, 48, 56, 64].map(|at| word(one, at));
            match word(one, 32) as i64 {
                0 => Ok(words.into()),
                error => Err(error),
            }
        })
    }
}

/// What the oracle answers.
fn expected(oracle: &RangeMap<u64>, ask: Ask) -> Found {
    match ask {
        Ask::Get(index) => {
            let entry = oracle.get_entry(index).ok_or(NO_ENTRY)?;
            Ok((*entry.0.start(), *entry.0.end(), *entry.1, *entry.1))
        }
        Ask::Gap(size, from, to) if size > 0 && from <= to => {
            let gap = oracle.find_gap(size, 1, from..=to).ok_or(NO_ENTRY)?;
            Ok((*gap.start(), 0, 0, 0))
        }
        Ask::Gap(..) => Err(NO_ENTRY),
    }
}

/// Asks a program, and compares with the oracle. Leaves the questions with their answers.
fn compare(
    programs: &Programs,
    window: u32,
    oracle: &RangeMap<u64>,
    asks: &[Ask],
    left: &mut Vec<u8>,
) {
    let mut asked = Asked::new(programs, window, asks);
    for (ask, answer) in asks.iter().zip(asked.answers()) {
        assert_eq!(answer, expected(oracle, *ask), "{ask:x?}");
    }
    left.append(&mut asked.bytes);
}

/// Ranges in order, of lengths and gaps of this shape, which end within the indices that there are.
fn entries(rng: &mut fastrand::Rng, shape: u8, count: usize) -> Vec<(u64, u64, u64)> {
    let mut all = Vec::new();
    let mut next = match shape {
        0 => 0,
        _ => rng.u64(0..1 << 20),
    };
    for number in 0..count {
        let (gap, length) = match shape {
            // Pages, whose borders have 2 bytes.
            0 => (0x1000 * rng.u64(0..4), 0x1000 * rng.u64(1..5)),
            // Single indices and short runs.
            1 => (rng.u64(0..3), rng.u64(1..4)),
            // Distances of all magnitudes, so that borders have all widths.
            2 => (
                rng.u64(..) >> rng.u32(22..64),
                1 + (rng.u64(..) >> rng.u32(22..64)),
            ),
            // Gaps whose sizes differ little, larger than codes are exact.
            _ => (rng.u64(5000..5004), 1),
        };
        let start: u64 = next + gap;
        all.push((start, start + (length - 1), rng.u64(..) | number as u64));
        next = start + length;
    }
    // The last entry may end with the last index.
    if let Some(last) = all.last_mut().filter(|_| shape == 2 && rng.bool()) {
        last.1 = u64::MAX;
    }
    all
}

/// Questions about all parts of a map.
fn questions(rng: &mut fastrand::Rng, oracle: &RangeMap<u64>, count: usize) -> Vec<Ask> {
    let all: Vec<(u64, u64)> = oracle.iter().map(|(r, _)| (*r.start(), *r.end())).collect();
    let last = all.last().map_or(100, |last| last.1);
    let near = |rng: &mut fastrand::Rng| match (rng.u8(0..8), rng.choice(&all)) {
        (0, _) | (_, None) => rng.u64(..) >> rng.u32(0..64),
        (1, _) => [0, 1, u64::MAX, u64::MAX - 1, last, last.saturating_add(1)][rng.usize(0..6)],
        (2..4, Some(entry)) => entry.0,
        (4..6, Some(entry)) => entry.1,
        (6, Some(entry)) => entry.0.wrapping_sub(1),
        (_, Some(entry)) => entry.1.wrapping_add(1),
    };
    let ask = |_| match rng.bool() {
        true => Ask::Get(near(rng)),
        false => {
            let size = match rng.u8(0..6) {
                0 => rng.u64(0..4),
                1 => 0x1000 * rng.u64(1..4),
                2 => rng.u64(4999..5005),
                3 => rng.u64(..) >> rng.u32(0..64),
                4 => u64::MAX,
                _ => rng.u64(1..100),
            };
            match rng.u8(0..3) {
                0 => Ask::Gap(size, 0, u64::MAX),
                1 => Ask::Gap(size, near(rng), near(rng)),
                _ => Ask::Gap(size, near(rng), u64::MAX),
            }
        }
    };
    (0..count).map(ask).collect()
}

fn to_range((start, end, value): (u64, u64, u64)) -> (RangeInclusive<u64>, u64) {
    (start..=end, value)
}

#[test]
fn as_the_oracle_in_the_kernel_and_in_user_space() {
    if skipped() {
        return;
    }
    let user = Compiled::new("ranges");
    let mut rng = fastrand::Rng::with_seed(11);
    for shape in 0..4 {
        let arena = BpfArena::create(32 << 20).unwrap();
        let domain = sapwood_bpf::kernel_domain().unwrap();
        let programs = load(&arena, RANGES);
        let mut left = Vec::new();
        let mut maps = Vec::new();
        for (count, asks) in [(0, 40), (1, 200), (50, 800), (5_000, 800), (100_000, 120)] {
            let all = entries(&mut rng, shape, count);
            let oracle = RangeMap::from_sorted(all.clone());
            let bytes = (256 << 10) + count * 64;
            let map = UserRanges::<u64>::builder(&arena, &format!("of {count}"));
            let map = map.bytes(bytes).domain(&domain);
            let map = map.build_sorted(all.into_iter().map(to_range)).unwrap();
            let asks = questions(&mut rng, &oracle, asks);
            compare(&programs, map.window().number, &oracle, &asks, &mut left);
            maps.push(map);
        }
        // No such window, and one that is no range map.
        let words = sapwood_bpf::Words::create(&arena, "words", 8).unwrap();
        for window in [29, words.window().number] {
            let mut asked = Asked::new(&programs, window, &[Ask::Get(1), Ask::Gap(1, 0, 9)]);
            assert!(asked.answers().all(|answer| answer == Err(INVALID)));
            left.append(&mut asked.bytes);
        }
        user.same_answers(&arena.image(), &left);
        // The drop of a map closes its window.
        let window = maps[4].window().number;
        drop(maps);
        let asked = Asked::new(&programs, window, &[Ask::Get(1)]);
        assert!(asked.answers().eq([Err(INVALID)]));
    }
}

/// Each change is seen by the next question, however nodes are split and joined.
#[test]
fn changes_of_all_kinds() {
    if skipped() {
        return;
    }
    let mut rng = fastrand::Rng::with_seed(12);
    let arena = BpfArena::create(8 << 20).unwrap();
    let programs = load(&arena, RANGES);
    let map = UserRanges::<u64>::builder(&arena, "map").build().unwrap();
    let window = map.window().number;
    let mut oracle = RangeMap::new();
    let mut left = Vec::new();
    for round in 0..3_000_u64 {
        // The map grows, and then it shrinks.
        let start = rng.u64(0..1 << 16) << [0, 4, 40][rng.usize(0..3)];
        let range = start..=start + (rng.u64(..) >> rng.u32(40..63));
        match rng.u64(0..3_000) < round {
            false => {
                map.store(range.clone(), round).unwrap();
                oracle.store(range, round);
            }
            true => {
                map.clear_range(range.clone()).unwrap();
                oracle.clear_range(range);
            }
        }
        let asks = questions(&mut rng, &oracle, 4);
        left.clear();
        compare(&programs, window, &oracle, &asks, &mut left);
    }
    // A transaction is seen with its commit.
    let ask = [Ask::Get(1 << 62), Ask::Gap(9, 1 << 62, (1 << 62) + 9)];
    let before = Asked::new(&programs, window, &ask).bytes;
    let mut txn = map.begin();
    txn.store(1 << 62..=(1 << 62) + 5, 7).unwrap();
    assert!(Asked::new(&programs, window, &ask).bytes == before);
    txn.commit();
    let first = 1 << 62;
    let after = Asked::new(&programs, window, &ask);
    assert!(
        after
            .answers()
            .eq([Ok((first, first + 5, 7, 7)), Err(NO_ENTRY)])
    );
    map.verify().unwrap();
}

/// Nodes that are smaller or larger than those of most maps: other numbers of pivots, and leaves of
/// more entries than three rounds of comparisons tell apart.
#[test]
fn nodes_of_other_sizes() {
    if skipped() {
        return;
    }
    let mut rng = fastrand::Rng::with_seed(13);
    let user = Compiled::new("ranges");
    for (leaf, fanout) in [(128, 4), (256, 9), (1024, 66), (2048, 128)] {
        let arena = BpfArena::create(32 << 20).unwrap();
        let domain = sapwood_bpf::kernel_domain().unwrap();
        let programs = load(&arena, RANGES);
        let mut left = Vec::new();
        let mut maps = Vec::new();
        for shape in 0..4 {
            let all = entries(&mut rng, shape, 20_000);
            let oracle = RangeMap::from_sorted(all.clone());
            let map = UserRanges::<u64>::builder(&arena, &format!("shape {shape}"));
            let map = map.bytes(4 << 20).domain(&domain).nodes(leaf, fanout);
            let map = map.build_sorted(all.into_iter().map(to_range)).unwrap();
            let asks = questions(&mut rng, &oracle, 400);
            compare(&programs, map.window().number, &oracle, &asks, &mut left);
            maps.push(map);
        }
        user.same_answers(&arena.image(), &left);
    }
}

/// Asks for all of a map of short ranges with values of one type.
fn values_of<V: PlainValue>(
    arena: &BpfArena,
    programs: &Programs,
    in_slots: bool,
    value: impl Fn(u64) -> V,
    left: &mut Vec<u8>,
) {
    let mut map = UserRanges::<V>::builder(arena, std::any::type_name::<V>()).bytes(1 << 20);
    if in_slots {
        map = map.values_in_slots();
    }
    let all = (0..3000).map(|i| (3 * i..=3 * i + 1, value(i)));
    let map = map.build_sorted(all).unwrap();
    let asks: Vec<Ask> = (0..3000).map(|i| Ask::Get(3 * i + 1)).collect();
    let mut asked = Asked::new(programs, map.window().number, &asks);
    for (i, answer) in (0..3000).zip(asked.answers()) {
        let (start, end, number, first) = answer.unwrap();
        assert_eq!((start, end), (3 * i, 3 * i + 1));
        let value = value(i);
        let bytes = value.as_bytes();
        let few = bytes.len().min(8);
        assert_eq!(first.to_ne_bytes()[..few], bytes[..few]);
        let mut wanted = [0; 8];
        if matches!(bytes.len(), 1 | 2 | 4 | 8) {
            wanted[..few].copy_from_slice(bytes);
        }
        assert_eq!(number.to_le(), u64::from_ne_bytes(wanted).to_le());
    }
    left.append(&mut asked.bytes);
    // C in user space reads the map, too.
    map.leave();
}

#[test]
fn values_of_all_sizes() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(16 << 20).unwrap();
    let programs = load(&arena, RANGES);
    let mut left = Vec::new();
    values_of(&arena, &programs, false, |i| i << 40 | !i, &mut left);
    values_of(&arena, &programs, false, |i| !(i as u32), &mut left);
    values_of(&arena, &programs, false, |i| i as u16, &mut left);
    values_of(&arena, &programs, false, |i| i as u8, &mut left);
    values_of(&arena, &programs, true, |i| [i as u8; 3], &mut left);
    values_of(&arena, &programs, true, |i| [i as u16; 4], &mut left);
    values_of(&arena, &programs, false, |i| [i as u8; 7], &mut left);
    values_of(&arena, &programs, false, |i| [i as u32; 2], &mut left);
    values_of(&arena, &programs, false, |i| [i, !i, i], &mut left);
    Compiled::new("ranges").same_answers(&arena.image(), &left);
}

/// The value of a version of the entry that begins at `start`.
fn whole(start: u64, version: u64) -> u64 {
    (start / 64) << 40 | (version & 0xF_FFFF) << 20 | (version & 0xF_FFFF)
}

/// Programs find an entry as it was or as it is, and never miss a gap that stays.
#[test]
fn readers_beside_a_writer() {
    if skipped() {
        return;
    }
    const SLOTS: u64 = 4000;
    let seconds = std::env::var("SAPWOOD_SOAK").map_or(2, |text| text.parse().unwrap());
    let arena = BpfArena::create(4 << 20).unwrap();
    let map = UserRanges::<u64>::builder(&arena, "map").build().unwrap();
    let programs = load(&arena, RANGES);
    // Entries of two kinds that stay, with a gap of 50 between them.
    let stays = 64 * SLOTS;
    map.store(stays..=stays + 49, whole(stays, 0)).unwrap();
    map.store(stays + 100..=u64::MAX, whole(stays + 64, 0))
        .unwrap();
    let ends = AtomicBool::new(false);
    let until = Instant::now() + Duration::from_secs(seconds);
    let (mut hits, mut gaps) = (0_u64, 0_u64);
    let changes = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut rng = fastrand::Rng::with_seed(7);
            let mut changes = 0_u64;
            while !ends.load(Ordering::Relaxed) {
                let start = 64 * rng.u64(0..SLOTS);
                // A gap of 20 remains before and behind each entry, so 50 are free only where
                // entries are missing.
                let done = match rng.u8(0..4) {
                    0 => map.clear_range(start..=start + 63).is_ok(),
                    1 => {
                        let many = start..=(start + 64 * rng.u64(1..200)).min(stays) - 1;
                        map.clear_range(many).is_ok()
                    }
                    _ => {
                        let mut txn = map.begin();
                        let range = start + 20..=start + 43;
                        let done = txn.store(range, whole(start, changes)).is_ok();
                        txn.commit();
                        done
                    }
                };
                if !done {
                    std::thread::sleep(Duration::from_millis(1));
                    map.reclaim(usize::MAX);
                }
                changes += 1;
            }
            changes
        });
        let _ends = Ends(&ends);
        let mut rng = fastrand::Rng::with_seed(8);
        while Instant::now() < until {
            let asks: Vec<Ask> = (0..MOST)
                .map(|i| match i % 2 {
                    0 => Ask::Get(rng.u64(0..stays + 200)),
                    _ => Ask::Gap(50, 64 * rng.u64(0..SLOTS), u64::MAX),
                })
                .collect();
            let asked = Asked::new(&programs, map.window().number, &asks);
            for (ask, answer) in asks.iter().zip(asked.answers()) {
                match (*ask, answer) {
                    (Ask::Get(index), Ok((start, end, value, _))) => {
                        hits += 1;
                        assert!(start <= index && index <= end, "{ask:?}: {start} to {end}");
                        if index >= stays {
                            assert!(start == stays || start == stays + 100);
                            continue;
                        }
                        assert_eq!((start % 64, end - start), (20, 23), "{ask:?}");
                        let version = value & 0xF_FFFF;
                        assert_eq!(value, whole(start - 20, version), "{ask:?}");
                    }
                    (Ask::Get(index), answer) => {
                        assert_eq!(answer, Err(NO_ENTRY), "{ask:?}");
                        assert!(index < stays || (50..100).contains(&(index - stays)));
                    }
                    (Ask::Gap(_, from, _), Ok((start, ..))) => {
                        gaps += u64::from(start < stays);
                        assert!(start >= from && start <= stays + 50, "{ask:?}: {start}");
                    }
                    (Ask::Gap(..), Err(error)) => panic!("{ask:?}: {error}"),
                }
            }
        }
        drop(_ends);
        writer.join().unwrap()
    });
    assert!(
        changes > 100 && hits > 100 && gaps > 100,
        "{changes}, {hits}, {gaps}"
    );
    map.verify().unwrap();
    println!("{changes} changes, {hits} entries and {gaps} gaps found");
}

/// A map whose memory the test owns after its drop.
fn abandoned(arena: &BpfArena, poke: &Poke, count: usize, shape: u8) -> (WindowInfo, usize) {
    let mut rng = fastrand::Rng::with_seed(shape.into());
    let map = UserRanges::<u64>::builder(arena, &format!("shape {shape}")).bytes(1 << 20);
    let all = entries(&mut rng, shape, count);
    let map = map.build_sorted(all.into_iter().map(to_range)).unwrap();
    let (info, used) = (map.window().clone(), map.memory().arena.frontier);
    drop(map);
    let entry = page::WINDOWS_AT + page::WINDOW_BYTES * info.number as usize;
    poke.words(entry as u64, &[Kind::Ranges as u64]);
    (info, used)
}

/// A program that meets bytes that are no map gives some answer or an error, and ends. C in user
/// space gives the same one, and reads nothing outside.
#[test]
fn damaged_maps() {
    if skipped() {
        return;
    }
    let mut rng = fastrand::Rng::with_seed(9);
    let user = Compiled::new("ranges");
    let mut sorts = [0; 4];
    for shape in 0..4 {
        let arena = BpfArena::create(4 << 20).unwrap();
        let poke = Poke::new(&arena);
        let programs = load(&arena, RANGES);
        let (info, used) = abandoned(&arena, &poke, 5_000, shape);
        let nodes = used / 8 - 512;
        let words = |rng: &mut fastrand::Rng, count: usize| {
            let image = arena.image();
            for _ in 0..count {
                let place = info.at + 4096 + 8 * rng.usize(0..nodes);
                let word = match rng.u8(0..5) {
                    0 => rng.u64(..),
                    // Bytes that look like two references into the map.
                    1 => rng.u64(..) & 0x0001_ffff_0001_ffff,
                    2 => u64::MAX,
                    3 => 0,
                    // A copy of another word of the map.
                    _ => word(&image[info.at + 4096 + 8 * rng.usize(0..nodes)..], 0),
                };
                poke.words(place as u64, &[word]);
            }
        };
        let mut go = |rng: &mut fastrand::Rng| {
            let oracle = RangeMap::from_sorted(entries(rng, shape, 5_000));
            let asks = questions(rng, &oracle, 400);
            let mut asked = Asked::new(&programs, info.number, &asks);
            for answer in asked.answers() {
                sorts[match answer {
                    Ok(_) => 0,
                    Err(NO_ENTRY) => 1,
                    Err(DAMAGED) => 2,
                    Err(ENDED) => 3,
                    Err(error) => panic!("{error}"),
                }] += 1;
            }
            // The kernel ends loops sooner than C in user space does.
            let ended = |one: &[u8]| word(one, 32) as i64 == ENDED;
            let mut kept = Vec::new();
            for one in asked.bytes.chunks_mut(BYTES).filter(|one| !ended(one)) {
                kept.extend_from_slice(one);
            }
            user.same_answers(&arena.image(), &kept);
        };
        for count in [10, 100, 1000, 10_000] {
            words(&mut rng, count);
            go(&mut rng);
        }
        // The root word: outside, in the middle of a node, with too many levels.
        for root in [
            u64::MAX,
            1,
            21 << 32 | 512,
            20 << 32 | 520,
            0xffff_ffff,
            info.len as u64 / 8 - 1,
        ] {
            poke.words((info.at + ranges::ROOT) as u64, &[root]);
            go(&mut rng);
        }
    }
    assert!(sorts[..3].iter().all(|&count| count > 0), "{sorts:?}");
}

/// Damage of known kinds gives an error.
#[test]
fn damage_is_an_error() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(4 << 20).unwrap();
    let poke = Poke::new(&arena);
    let programs = load(&arena, RANGES);
    let (info, _) = abandoned(&arena, &poke, 5_000, 0);
    let image = arena.image();
    let at = |place: usize| word(&image[info.at..], place);
    let root_word = at(ranges::ROOT);
    let height = root_word >> 32;
    let root = root_word as u32 as usize * 8;
    assert!(height >= 2, "{height} levels");
    let head = at(root);
    let (n, filled) = (head as usize & 0xff, (head >> 8) as usize & 0xff);
    let cells = root + 8 + 8 * filled;
    // The leftmost leaf.
    let mut leaf = root;
    for _ in 0..height {
        let filled = (at(leaf) >> 8) as usize & 0xff;
        leaf = at(leaf + 8 + 8 * filled) as u32 as usize * 8;
    }
    let leaf_head = at(leaf);
    let reference = root_word & 0xffff_ffff;
    // Where, which word, and whether an index at the beginning notices it.
    let damages: Vec<(&str, usize, u64)> = vec![
        ("levels", ranges::ROOT, 21 << 32 | reference),
        (
            "a root out of the window",
            ranges::ROOT,
            height << 32 | 0xffff_ffff,
        ),
        (
            "a level too few",
            ranges::ROOT,
            (height - 1) << 32 | reference,
        ),
        (
            "a level too many",
            ranges::ROOT,
            (height + 1) << 32 | reference,
        ),
        ("slots of 9 bytes", ranges::SLOT, 9),
        ("no children", root, head & !0xff),
        ("one child", root, head & !0xff | 1),
        ("more children than pivots", root, head & !0xff | 200),
        ("bits that are 0", root, head | 1 << 20),
        ("more lines", root, head + (1 << 24)),
        (
            "a root that is its own child",
            cells,
            reference << 32 | reference,
        ),
        ("a child out of the window", cells, 0xffff_fff0),
        ("pivots in wrong order", root + 8, u64::MAX),
        ("a leaf without entries", leaf, leaf_head & !0xff),
        ("a width", leaf, leaf_head & !0xff00 | 4 << 8),
        ("a shift", leaf, leaf_head | 0xff << 16),
        ("starts", leaf, leaf_head ^ 1 << 36),
        ("values", leaf, leaf_head ^ 1 << 52),
        ("a leaf's base", leaf + 8, u64::MAX),
        ("a leaf's first end", leaf + 16, 0),
    ];
    assert!(n >= 2);
    let asks = [Ask::Get(at(leaf + 8)), Ask::Gap(0x2800, 0, u64::MAX)];
    for (what, place, word) in damages {
        poke.words((info.at + place) as u64, &[word]);
        let asked = Asked::new(&programs, info.number, &asks);
        let errors = asked.answers().filter(|answer| *answer == Err(DAMAGED));
        assert!(
            errors.count() > 0,
            "{what}: {:?}",
            asked.answers().collect::<Vec<_>>()
        );
        poke.words((info.at + place) as u64, &[at(place)]);
        let asked = Asked::new(&programs, info.number, &asks);
        assert!(asked.answers().all(|answer| answer.is_ok()), "{what}");
    }
}
