//! Published maps: after every step the same file, mapped a second time, a reader that checks every
//! node, and a map that a new owner makes of the file agree with the map and the oracle.
#![cfg(all(unix, not(miri)))]

use sapwood::Builder;
use sapwood::arena::{Arena, Backing, HEADER_LEN};
use sapwood::maple::Error;
use sapwood::maple::{MapleMap, MapleView, PlainValue, Window};
use sapwood::qp::OpenCause;
use sapwood_checked::maple::CheckedMaple;
use sapwood_checked::{Fixed, Trouble, Values};
use sapwood_model::oracle::RangeMap;
use sapwood_model::range_ops::{Domain, RangeOps};

use crate::placements::Wish;
use crate::support::attached::{Attached, options};
use crate::support::folder::Folder;
use crate::support::maple::{Number, Pair, Range};
use crate::support::steps::steps;
use crate::support::words::Words;

impl Number for [u64; 3] {
    fn number(&self) -> u64 {
        assert!(self.iter().all(|&part| part == self[0]));
        self[0]
    }
}

impl Number for u16 {
    fn number(&self) -> u64 {
        (*self).into()
    }
}

/// Bounds of entries, and their neighbours.
fn places(model: &RangeMap<u64>) -> Vec<u64> {
    let near = model.iter().flat_map(|(range, _)| {
        let (start, end) = range.into_inner();
        [start.saturating_sub(1), start, end, end.saturating_add(1)]
    });
    near.chain([0, u64::MAX]).collect()
}

/// Checks that a view answers as the model does.
fn view_agrees<V: Number>(seen: MapleView<'_, V>, model: &RangeMap<u64>) {
    let owned = |(range, value): (Range, &V)| (range, value.number());
    assert_eq!(
        (seen.len(), seen.is_empty()),
        (model.len(), model.is_empty())
    );
    assert_eq!(seen.iter().map(owned).collect::<Vec<_>>(), model.to_vec());
    assert!(
        seen.iter()
            .rev()
            .map(owned)
            .eq(model.to_vec().into_iter().rev())
    );
    for at in places(model).into_iter().step_by(7) {
        let (range, value) = model.locate(at);
        let (found, there) = seen.locate(at);
        assert_eq!((found, there.map(V::number)), (range, value.copied()));
        assert_eq!(seen.get(at).map(V::number), value.copied());
        for size in [1, at % 5000 + 1] {
            let gap = model.find_gap(size, 1, at..=u64::MAX);
            assert_eq!(seen.find_gap(size, at..=u64::MAX), gap);
        }
    }
}

/// Checks that a checked reader answers as the model does.
fn checked_agrees<V: Number + PlainValue, W: sapwood_format::Window + Clone>(
    memory: W,
    model: &RangeMap<u64>,
) {
    let seen = CheckedMaple::<_, V>::new(Fixed(memory)).unwrap();
    let owned = |(range, value): (Range, V)| (range, value.number());
    assert_eq!(seen.verify(), Ok(model.len()));
    let entries: Result<Vec<_>, Trouble> = seen.iter().map(|entry| entry.map(owned)).collect();
    assert_eq!(entries.unwrap(), model.to_vec());
    let mut rng = fastrand::Rng::with_seed(model.len() as u64);
    for _ in 0..3 {
        let wish = Wish::random(&mut rng);
        let found = seen.find_gap(wish.size, wish.window()).unwrap();
        let found = found.map(|range| *range.start());
        assert_eq!(found, wish.place(model), "{wish:?} in {model:?}");
    }
    for at in places(model).into_iter().step_by(5) {
        let there = model.get_entry(at).map(|(range, &value)| (range, value));
        assert_eq!(seen.get(at).unwrap().map(owned), there);
        let behind = model.range(at..=u64::MAX).next();
        let behind = behind.map(|(range, &value)| (range, value));
        assert_eq!(seen.at_or_after(at).unwrap().map(owned), behind);
        let few: Result<Vec<_>, Trouble> = seen.range(at..=at.saturating_add(999)).collect();
        let few: Vec<_> = few.unwrap().into_iter().map(owned).collect();
        let expected = model.range(at..=at.saturating_add(999));
        let expected: Vec<_> = expected.map(|(range, &value)| (range, value)).collect();
        assert_eq!(few, expected);
        let size = at % 5000 + 1;
        let window = Window::new(0..=at);
        assert_eq!(
            seen.find_gap(size, window.clone()).unwrap(),
            model.find_gap(size, 1, 0..=at)
        );
        assert_eq!(
            seen.find_gap(size, window.from_end()).unwrap(),
            model.find_gap_rev(size, 1, 0..=at)
        );
    }
}

/// Checks a new owner's map.
fn heir_agrees<V: Number + PlainValue>(
    builder: &Builder<MapleMap<V>>,
    memory: impl sapwood_format::Window,
    model: &RangeMap<u64>,
) -> MapleMap<V> {
    let options = options::<V>(Backing::Mmap { reserve: 1 << 26 });
    let heir = builder
        .clone()
        .restore_in(Arena::create(options).unwrap(), memory)
        .unwrap();
    assert_eq!(heir.verify(), Ok(()));
    heir.read(|view| view_agrees(view, model));
    heir
}

/// Runs over every domain, and compares after every step.
fn every_domain<V: Number + PlainValue>(
    name: &str,
    builder: &Builder<MapleMap<V>>,
    make: impl Fn(u64) -> V + Copy,
    ops: usize,
) {
    let folder = Folder::quick(name);
    let mut height = 0;
    for domain in Domain::ALL {
        let attached = Attached::new(builder.clone(), &folder.file(&format!("{domain:?}")));
        let mut pair = Pair::new(attached.map.clone(), make);
        for (turn, op) in RangeOps::new(domain, 11).take(steps(ops)).enumerate() {
            pair.step(&op);
            if !op.writes() {
                continue;
            }
            pair.agree();
            attached.read(|view| view_agrees(view, &pair.model));
            checked_agrees::<V, _>(attached.memory.window(), &pair.model);
            let heir = heir_agrees(builder, attached.memory.window(), &pair.model);
            if turn % 50 == 0 {
                // The new owner goes on.
                let mut next = Pair::new(MapleMap::builder().build(), make);
                (next.map, next.model) = (heir, pair.model.clone());
                for op in RangeOps::new(domain, turn as u64).take(20) {
                    next.step(&op);
                    next.agree();
                }
            }
            height = height.max(pair.map.memory().height);
        }
    }
    assert!(height > 0 || steps(ops) < ops);
}

#[test]
fn all_agree_in_tiny_nodes() {
    let builder = MapleMap::<u64>::builder().nodes(128, 4);
    every_domain("maple-published-tiny", &builder, |n| n, 400);
}

#[test]
fn all_agree_in_usual_nodes() {
    let builder = MapleMap::<u64>::builder();
    every_domain("maple-published-usual", &builder, |n| n, 400);
}

#[test]
fn values_apart_agree() {
    let builder = MapleMap::<[u64; 3]>::builder().nodes(128, 4);
    every_domain("maple-published-apart", &builder, |n| [n; 3], 200);
}

#[test]
fn short_slots_agree() {
    let folder = Folder::quick("maple-published-short");
    let builder = MapleMap::<u16>::builder().nodes(192, 5);
    let attached = Attached::new(builder.clone(), &folder.file("map"));
    let mut model = RangeMap::new();
    let mut rng = fastrand::Rng::with_seed(5);
    for n in 0..steps(600) as u64 {
        let start = rng.u64(0..5000);
        let range = start..=start + rng.u64(0..40);
        if rng.u8(0..3) == 0 {
            attached.map.clear_range(range.clone()).unwrap();
            model.clear_range(range);
        } else {
            attached.map.store(range.clone(), n as u16).unwrap();
            model.store(range, n);
        }
        attached.read(|view| view_agrees(view, &model));
        checked_agrees::<u16, _>(attached.memory.window(), &model);
        heir_agrees(&builder, attached.memory.window(), &model);
    }
    assert!(model.len() > 50 || steps(600) < 600);
}

/// Snapshots make changes copy inner nodes; plans and reservations hold blocks that no reader
/// finds. Neither shows in the memory that others read.
#[test]
fn snapshots_and_reservations_do_not_show() {
    let folder = Folder::quick("maple-published-snapshots");
    let builder = MapleMap::<u64>::builder().nodes(128, 4);
    let attached = Attached::new(builder.clone(), &folder.file("map"));
    let mut pair = Pair::new(attached.map.clone(), |n: u64| n);
    let mut snapshots = Vec::new();
    let held = attached.map.reserve_unknown(3).unwrap();
    for (turn, op) in RangeOps::new(Domain::ALL[0], 4)
        .take(steps(300))
        .enumerate()
    {
        if turn % 7 == 0 {
            snapshots.push((attached.map.snapshot(), pair.model.clone()));
        }
        if turn % 11 == 0 {
            snapshots.pop();
        }
        pair.step(&op);
        attached.read(|view| view_agrees(view, &pair.model));
        checked_agrees::<u64, _>(attached.memory.window(), &pair.model);
        heir_agrees(&builder, attached.memory.window(), &pair.model);
    }
    for (snapshot, model) in &snapshots {
        assert_eq!(snapshot.view().len(), model.len());
        let seen = snapshot.view();
        assert!(seen.iter().map(|(range, v)| (range, *v)).eq(model.to_vec()));
    }
    drop(held);
}

#[test]
fn a_copy_of_a_published_map_is_not_published() {
    let folder = Folder::quick("maple-published-dup");
    let attached = Attached::new(MapleMap::<u64>::builder(), &folder.file("map"));
    attached.map.store(5..=9, 1).unwrap();
    let copy = attached.map.dup().unwrap();
    copy.store(20..=29, 2).unwrap();
    attached.map.store(7..=7, 3).unwrap();
    attached.read(|view| {
        assert_eq!((view.len(), view.get(7), view.get(20)), (3, Some(&3), None));
    });
    assert_eq!((copy.len(), copy.get(7)), (2, Some(1)));
    assert_eq!(folder.names(), ["map"]);
}

#[test]
fn a_map_outlives_its_writer_in_the_file() {
    let folder = Folder::quick("maple-published-left");
    let path = folder.file("map");
    let attached = Attached::new(MapleMap::<[u64; 3]>::builder(), &path);
    for n in 0..500 {
        attached.map.store(n * 10..=n * 10 + 4, [n; 3]).unwrap();
    }
    let mut model = RangeMap::new();
    (0..500).for_each(|n| model.store(n * 10..=n * 10 + 4, n));
    drop(attached);
    checked_agrees::<[u64; 3], _>(Words::of(&path), &model);
    heir_agrees(&MapleMap::<[u64; 3]>::builder(), Words::of(&path), &model);
}

#[test]
fn a_full_arena_leaves_the_map_as_it_was() {
    let folder = Folder::quick("maple-published-full");
    let path = folder.file("map");
    let options = options::<u64>(Backing::File(path.clone())).limit(64 << 10);
    let map = MapleMap::builder()
        .build_in(Arena::create(options).unwrap())
        .unwrap();
    let mut model = RangeMap::new();
    let refused = (0..100_000_u64).find_map(|n| {
        let range = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20 << 8;
        let range = range..=range + 99;
        match map.store(range.clone(), n) {
            Ok(()) => model.store(range, n),
            Err(refused) => return Some(refused.error),
        }
        None
    });
    assert!(matches!(refused, Some(Error::ArenaFull(_))), "{refused:?}");
    assert!(model.len() > 1000);
    checked_agrees::<u64, _>(Words::of(&path), &model);
    heir_agrees(&MapleMap::<u64>::builder(), Words::of(&path), &model);

    // A new owner's arena that is too small is an error, too.
    let options = self::options::<u64>(Backing::Mmap { reserve: 1 << 26 }).limit(16 << 10);
    let small =
        MapleMap::<u64>::builder().restore_in(Arena::create(options).unwrap(), Words::of(&path));
    let refused = small.unwrap_err();
    assert!(
        matches!(refused, OpenCause::Table(sapwood::TableError::ArenaFull(_))),
        "{refused}"
    );
}

#[test]
fn sorted_entries_make_a_map_at_once() {
    let mut rng = fastrand::Rng::with_seed(3);
    let arena = || {
        let options = options::<u64>(Backing::Mmap { reserve: 1 << 26 });
        Arena::create(options).unwrap()
    };
    for round in 0..steps(300) {
        let (leaf, fanout) = [(128, 4), (512, 36), (192, 5), (1024, 128)][round % 4];
        let count = rng.usize(0..[3, 30, 400, 3000][round / 4 % 4]);
        let most = 1_u64 << rng.u32(1..50);
        let mut at = rng.u64(0..most);
        let mut entries = Vec::new();
        let mut model = RangeMap::new();
        for n in 0..count as u64 {
            let Some(end) = at.checked_add(rng.u64(0..most)) else {
                break;
            };
            entries.push((at..=end, n));
            model.store(at..=end, n);
            let Some(next) = end.checked_add(1 + rng.u64(0..3) * rng.u64(0..most)) else {
                break;
            };
            at = next;
        }
        if round % 5 == 0 {
            entries.retain(|(range, _)| *range.end() < u64::MAX - 1);
            model.clear_range(u64::MAX - 1..=u64::MAX);
            entries.push((u64::MAX..=u64::MAX, 7));
            model.store(u64::MAX..=u64::MAX, 7);
            entries.sort_by_key(|(range, _)| *range.start());
        }
        let builder = MapleMap::builder().nodes(leaf, fanout);
        let map = builder.build_sorted_in(arena(), entries).unwrap();
        assert_eq!(map.verify(), Ok(()));
        map.read(|view| view_agrees(view, &model));
        let mut pair = Pair::new(MapleMap::new(), |n: u64| n);
        (pair.map, pair.model) = (map, model);
        for op in RangeOps::new(Domain::ALL[round % Domain::ALL.len()], round as u64).take(5) {
            pair.step(&op);
            pair.agree();
        }
    }
    let whole = MapleMap::builder().build_sorted_in(arena(), [(0..=u64::MAX, 1)]);
    assert_eq!(whole.unwrap().get_entry(9), Some((0..=u64::MAX, 1)));
    for entries in [[(5..=9, 1), (9..=12, 2)], [(5..=9, 1), (1..=2, 2)]] {
        let refused = MapleMap::builder().build_sorted_in(arena(), entries);
        assert_eq!(refused.unwrap_err(), Error::Occupied { start: 5, end: 9 });
    }
    #[allow(clippy::reversed_empty_ranges)]
    let refused = MapleMap::builder().build_sorted_in(arena(), [(5..=4, 1)]);
    assert_eq!(refused.unwrap_err(), Error::EmptyRange { start: 5, end: 4 });
}

#[test]
fn a_header_of_something_else_is_refused() {
    let folder = Folder::quick("maple-published-header");
    let path = folder.file("map");
    let attached = Attached::new(MapleMap::<u64>::builder(), &path);
    attached.map.store(5..=9, 1).unwrap();
    let whole = Words::of(&path);
    let refused = |words: &Words| {
        let arena = Arena::create(options::<u64>(Backing::Mmap { reserve: 1 << 20 })).unwrap();
        let heir = MapleMap::<u64>::builder().restore_in(arena, words.clone());
        heir.unwrap_err().to_string()
    };
    let other = CheckedMaple::<_, [u64; 3]>::new(Fixed(whole.clone())).err();
    assert_eq!(other, Some(Trouble::Values(Values::Bytes(8))));
    let short = Words(whole.0[..HEADER_LEN / 8 - 1].to_vec());
    assert!(refused(&short).contains("too short"));
    let hash = whole.0[2] ^ 0x100;
    for (word, said, trouble) in [
        (0, "not a sapwood memory", None),
        (1, "format version", None),
        (
            2,
            "layout",
            Some(Trouble::Values(Values::Layout { bytes: 8, hash })),
        ),
        (
            6,
            "bytes a value",
            Some(Trouble::Values(Values::Bytes(264))),
        ),
        (
            9,
            "a slot",
            Some(Trouble::Damaged("slots that no map has", 72)),
        ),
        (
            10,
            "apart",
            Some(Trouble::Damaged("slots that no map has", 72)),
        ),
    ] {
        let mut words = whole.clone();
        words.0[word] ^= 0x100;
        assert!(refused(&words).contains(said), "{}", refused(&words));
        assert_eq!(CheckedMaple::<_, u64>::new(Fixed(words)).err(), trouble);
    }
    // The root word is checked when it is used.
    for (root, what) in [
        (1, "a reference leads out of the memory"),
        (u64::from(u32::MAX), "a reference leads out of the memory"),
        (512 | 21 << 32, "a tree has more levels than there can be"),
    ] {
        let mut words = whole.clone();
        words.0[8] = root;
        let reader = CheckedMaple::<_, u64>::new(Fixed(words)).unwrap();
        assert_eq!(reader.get(5), Err(Trouble::Damaged(what, 64)));
        assert_eq!(reader.verify(), Err(Trouble::Damaged(what, 64)));
    }
}

/// Every call of a reader over damaged memory ends, and what it returns is in order. `Words` panics
/// when it is asked for a word outside.
fn use_all<V: Number + PlainValue>(words: &Words, rng: &mut fastrand::Rng) -> (usize, usize) {
    let Ok(reader) = CheckedMaple::<_, V>::new(Fixed(words.clone())) else {
        return (0, 1);
    };
    let mut wrong = usize::from(reader.verify().is_err());
    let mut next = Some(0);
    let mut places = vec![0, u64::MAX, rng.u64(..), rng.u64(0..100_000)];
    for entry in reader.iter() {
        match entry {
            Ok((range, _)) => {
                assert!(range.start() <= range.end());
                assert!(next.is_some_and(|next| next <= *range.start()));
                next = range.end().checked_add(1);
                if rng.u8(0..20) == 0 {
                    places.push(*range.start());
                }
            }
            Err(_) => wrong += 1,
        }
    }
    for at in places {
        match reader.get(at) {
            Ok(found) => assert!(found.is_none_or(|(range, _)| range.contains(&at))),
            Err(_) => wrong += 1,
        }
        for size in [1, 1 << rng.u32(0..64)] {
            for window in [Window::new(at..=u64::MAX), Window::new(0..=at).from_end()] {
                match reader.find_gap(size, window) {
                    Ok(found) => {
                        assert!(found.is_none_or(|gap| gap.end() - gap.start() == size - 1));
                    }
                    Err(_) => wrong += 1,
                }
            }
        }
    }
    let options = options::<V>(Backing::Mmap { reserve: 1 << 24 });
    let heir = MapleMap::<V>::builder().restore_in(Arena::create(options).unwrap(), words.clone());
    match heir {
        Ok(heir) => {
            assert_eq!(heir.verify(), Ok(()));
            (1, usize::from(wrong > 0))
        }
        Err(cause) => {
            assert!(cause.to_string().contains("at byte"), "{cause}");
            assert!(wrong > 0);
            (0, 1)
        }
    }
}

fn damage<V: Number + PlainValue>(name: &str, leaf: usize, make: impl Fn(u64) -> V) {
    let folder = Folder::quick(name);
    let path = folder.file("map");
    let options = options::<V>(Backing::File(path.clone())).chunk(4096);
    let map = MapleMap::builder()
        .nodes(leaf, 4)
        .build_in(Arena::create(options).unwrap())
        .unwrap();
    let mut rng = fastrand::Rng::with_seed(8);
    for n in 0..300 {
        let start = rng.u64(0..20_000);
        map.store(start..=start + rng.u64(0..50), make(n)).unwrap();
    }
    let whole = Words::of(&path);
    // Words beyond the map are zeros.
    let used = whole.0.iter().rposition(|&word| word != 0).unwrap() + 1;
    let whole = Words(whole.0[..used].to_vec());
    let mut rng = fastrand::Rng::with_seed(9);
    assert_eq!(use_all::<V>(&whole, &mut rng), (1, 0));
    let (mut heirs, mut wrong) = (0, 0);
    for turn in 0..steps(2000) {
        let mut words = whole.clone();
        match turn % 4 {
            0 => words.0.truncate(rng.usize(512..used)),
            1 => {
                let at = rng.usize(6..used);
                words.0[at] = rng.u64(..);
            }
            _ => {
                for _ in 0..rng.usize(1..4) {
                    let at = match rng.bool() {
                        true => rng.usize(6..14),
                        false => rng.usize(512..used),
                    };
                    words.0[at] ^= 1 << rng.u32(0..64);
                }
            }
        }
        let (made, found) = use_all::<V>(&words, &mut rng);
        heirs += made;
        wrong += found;
    }
    // Some of the damage is in free memory or in values.
    assert!(wrong > steps(2000) / 4 && heirs > 0, "{heirs}, {wrong}");
}

#[test]
fn damaged_memory_ends_no_reader() {
    damage("maple-published-damage", 128, |n| n);
}

#[test]
fn damaged_memory_with_values_apart_ends_no_reader() {
    damage("maple-published-damage-apart", 192, |n| [n; 3]);
}
