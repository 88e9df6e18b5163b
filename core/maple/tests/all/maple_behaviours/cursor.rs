//! The table of a cursor's behaviour: each position with each move, up to a limit and short of it.
//!
//! The table describes three entries, at 10 to 19, 20 to 29 and 40 to 49. It holds at every place
//! of a larger map, whose nodes begin and end wherever nodes can.

use sapwood::maple::{Cursor, MapleMap, Position};

use crate::support::ranges::{Checked, MAX, Range, each, steps, tiny};

use Move::*;
use Position::*;
use Stand::*;

/// The way in which a cursor reaches its position.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stand {
    /// At the start, just before an index.
    At(u64),
    /// On the entry or the gap that contains an index.
    On(u64),
    /// Before the first entry that a limit (5) allows.
    Before,
    /// After the last entry that a limit (60) allows.
    After,
}

#[derive(Clone, Copy, Debug)]
enum Move {
    Next(u64),
    Prev(u64),
    NextRange(u64),
    PrevRange(u64),
    Seek(u64),
    Set(u64),
    Reset,
    Store,
    Erase,
    /// Paused and resumed, then next.
    PauseNext,
    /// Paused and resumed, then prev.
    PausePrev,
}

/// The first and the last index of an entry or a gap, and its value.
type Thing = (u64, u64, Option<u64>);

const A: Thing = (10, 19, Some(0));
const B: Thing = (20, 29, Some(1));
const C: Thing = (40, 49, Some(2));
/// The value that is stored.
const NEW: u64 = 99;
/// The distance between two groups of three entries.
const STEP: u64 = 100;

/// The gap before A, the gap between B and C, and the gap after C. They are relative to the place
/// of the group, so the first begins below it.
const LEFT: (i64, i64) = (-50, 9);
const HOLE: Thing = (30, 39, None);
const RIGHT: Thing = (50, 109, None);

/// The answer of a move, and the position of the cursor after it.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// The cursor is on this entry or gap.
    Stands(Thing),
    /// The cursor is on the gap to the left of all three.
    StandsLeft,
    /// The move finds nothing.
    Ends(Position),
    /// The cursor is at the start again, at an index.
    Starts,
}

use Then::*;

const ENDS_AFTER: Then = Ends(AfterLast);
const ENDS_BEFORE: Then = Ends(BeforeFirst);

#[rustfmt::skip]
const TABLE: &[(Stand, Move, Then)] = &[
    // At the start, before an index inside A.
    (At(15), Next(60),      Stands(A)),
    (At(15), Next(15),      Stands(A)),
    (At(15), Next(14),      ENDS_AFTER),
    (At(15), Prev(5),       Stands(A)),
    (At(15), Prev(14),      Stands(A)),
    (At(15), Prev(15),      ENDS_BEFORE),
    (At(15), NextRange(60), Stands(A)),
    (At(15), PrevRange(5),  Stands(A)),
    (At(15), Seek(25),      Stands(B)),
    (At(15), Seek(35),      Stands(HOLE)),
    (At(15), Set(25),       Starts),
    (At(15), Reset,         Starts),
    // At the start, before the first index of B.
    (At(20), Next(60),      Stands(B)),
    (At(20), Prev(5),       Stands(A)),
    (At(20), NextRange(60), Stands(B)),
    (At(20), PrevRange(5),  Stands(A)),
    // At the start, inside the hole.
    (At(35), Next(60),      Stands(C)),
    (At(35), Next(39),      ENDS_AFTER),
    (At(35), Prev(5),       Stands(B)),
    (At(35), Prev(30),      ENDS_BEFORE),
    (At(35), NextRange(60), Stands(HOLE)),
    (At(35), PrevRange(5),  Stands(HOLE)),
    (At(35), PauseNext,     Stands(C)),
    (At(35), PausePrev,     Stands(B)),
    // On an entry.
    (On(25), Next(60),      Stands(C)),
    (On(25), Next(40),      Stands(C)),
    (On(25), Next(39),      ENDS_AFTER),
    (On(25), Next(25),      ENDS_AFTER),
    (On(25), Prev(5),       Stands(A)),
    (On(25), Prev(19),      Stands(A)),
    (On(25), Prev(20),      ENDS_BEFORE),
    (On(25), NextRange(60), Stands(HOLE)),
    (On(25), NextRange(30), Stands(HOLE)),
    (On(25), NextRange(29), ENDS_AFTER),
    (On(25), PrevRange(5),  Stands(A)),
    (On(25), PrevRange(19), Stands(A)),
    (On(25), PrevRange(20), ENDS_BEFORE),
    (On(25), Seek(15),      Stands(A)),
    (On(25), Seek(5),       StandsLeft),
    (On(25), Set(15),       Starts),
    (On(25), Reset,         Starts),
    (On(25), Store,         Stands((20, 29, Some(NEW)))),
    (On(25), Erase,         Stands((20, 39, None))),
    (On(25), PauseNext,     Stands(C)),
    (On(25), PausePrev,     Stands(A)),
    (On(15), Store,         Stands((10, 19, Some(NEW)))),
    (On(15), PrevRange(9),  StandsLeft),
    (On(45), Store,         Stands((40, 49, Some(NEW)))),
    (On(45), Erase,         Stands((30, 109, None))),
    (On(45), NextRange(60), Stands(RIGHT)),
    // On a gap.
    (On(35), Next(60),      Stands(C)),
    (On(35), Next(39),      ENDS_AFTER),
    (On(35), Prev(5),       Stands(B)),
    (On(35), Prev(30),      ENDS_BEFORE),
    (On(35), NextRange(60), Stands(C)),
    (On(35), NextRange(39), ENDS_AFTER),
    (On(35), PrevRange(5),  Stands(B)),
    (On(35), PrevRange(30), ENDS_BEFORE),
    (On(35), Seek(25),      Stands(B)),
    (On(35), Set(35),       Starts),
    (On(35), Reset,         Starts),
    (On(35), Store,         Stands((30, 39, Some(NEW)))),
    (On(35), Erase,         Stands(HOLE)),
    (On(35), PauseNext,     Stands(C)),
    (On(35), PausePrev,     Stands(B)),
    (On(5),  NextRange(60), Stands(A)),
    (On(5),  Next(60),      Stands(A)),
    // Before the first entry that the limit, 5, allows.
    (Before, Next(60),      Stands(A)),
    (Before, Next(9),       ENDS_AFTER),
    (Before, Prev(5),       ENDS_BEFORE),
    (Before, PrevRange(5),  ENDS_BEFORE),
    (Before, NextRange(60), StandsLeft),
    (Before, Seek(25),      Stands(B)),
    (Before, Set(25),       Starts),
    (Before, Reset,         Starts),
    (Before, PauseNext,     Stands(A)),
    // After the last entry that the limit, 60, allows.
    (After,  Prev(5),       Stands(C)),
    (After,  Prev(50),      ENDS_BEFORE),
    (After,  Next(60),      ENDS_AFTER),
    (After,  NextRange(60), ENDS_AFTER),
    (After,  PrevRange(5),  Stands(RIGHT)),
    (After,  Seek(25),      Stands(B)),
    (After,  Set(25),       Starts),
    (After,  Reset,         Starts),
    (After,  PausePrev,     Stands(C)),
];

/// Groups of three entries, one after the other.
fn threes(map: MapleMap<u64>, n: u64) -> Checked<u64> {
    let mut map = Checked::new(map);
    for i in 0..n {
        for (start, end, v) in [A, B, C] {
            map.quick_store(STEP * i + start..=STEP * i + end, v.unwrap());
        }
    }
    map.agree();
    map
}

fn stand(cursor: &mut Cursor<'_, '_, u64>, base: u64, stand: Stand) {
    match stand {
        At(i) => {
            cursor.set(base + i);
            assert_eq!(cursor.position(), Start);
            assert_eq!(cursor.value(), None);
        }
        On(i) => {
            let there = cursor.seek(base + i).is_some();
            let wanted = if there { OnEntry } else { OnGap };
            assert_eq!(cursor.position(), wanted);
            assert!(cursor.range().unwrap().contains(&(base + i)));
        }
        Before => {
            cursor.seek(base + 12);
            assert_eq!(cursor.prev(base + 5), None);
            assert_eq!(cursor.position(), BeforeFirst);
            assert_eq!(cursor.value(), None);
        }
        After => {
            cursor.seek(base + 45);
            assert_eq!(cursor.next(base + 60), None);
            assert_eq!(cursor.position(), AfterLast);
            assert_eq!(cursor.value(), None);
        }
    }
}

/// Checks one row of the table at one place of a map.
fn row(map: &mut Checked<u64>, base: u64, (from, step, then): (Stand, Move, Then)) {
    let what = format!("{from:?}, {step:?} at {base}");
    let handle = map.map.clone();
    let mut writer = handle.write();
    let mut cursor = writer.cursor();
    stand(&mut cursor, base, from);
    let stood = cursor.range();
    let copied = |found: Option<(Range, &u64)>| found.map(|(r, v)| (r, Some(*v)));
    let either = |found: Option<(Range, Option<&u64>)>| found.map(|(r, v)| (r, v.copied()));
    // The range that the move returns, if it returns one.
    let mut answer = None;
    let mut resumed = None;
    match step {
        Next(limit) => answer = Some(copied(cursor.next(base + limit))),
        Prev(limit) => answer = Some(copied(cursor.prev(base + limit))),
        NextRange(limit) => answer = Some(either(cursor.next_range(base + limit))),
        PrevRange(limit) => answer = Some(either(cursor.prev_range(base + limit))),
        Seek(i) => {
            let found = cursor.seek(base + i).copied();
            assert_eq!(found, map.oracle.get(base + i).copied(), "{what}");
        }
        Set(i) => {
            cursor.set(base + i);
            resumed = Some(base + i);
        }
        Reset => {
            cursor.set(0);
            resumed = Some(0);
        }
        Store => {
            cursor.store(NEW).unwrap();
            map.oracle.store(stood.clone().unwrap(), NEW);
        }
        Erase => {
            let erased = cursor.remove().unwrap();
            let wanted = map.oracle.remove(*stood.clone().unwrap().start());
            assert_eq!(erased, wanted, "{what}");
        }
        PauseNext | PausePrev => {
            let paused = cursor.pause();
            let mut cursor = writer.resume(paused);
            let found = match step {
                PauseNext => cursor.next(base + 60),
                _ => cursor.prev(base + 5),
            };
            check(copied(found), &cursor, base, then, &what);
            return;
        }
    }
    if let Some(answer) = answer {
        check(answer, &cursor, base, then, &what);
        return;
    }
    match (then, resumed) {
        (Starts, Some(at)) => {
            assert_eq!((cursor.position(), cursor.value()), (Start, None), "{what}");
            let (range, v) = map.oracle.locate(at);
            assert_eq!(cursor.next_range(MAX), Some((range, v)), "{what}");
        }
        (then, None) => {
            let found = cursor.range().map(|r| (r, cursor.value().copied()));
            check(found, &cursor, base, then, &what);
        }
        (then, at) => panic!("{what}: {then:?}, {at:?}"),
    }
}

fn check(
    found: Option<(Range, Option<u64>)>,
    cursor: &Cursor<'_, '_, u64>,
    base: u64,
    then: Then,
    what: &str,
) {
    let stands = |start: u64, end: u64, v: Option<u64>| {
        let range = start..=end;
        assert_eq!(found, Some((range.clone(), v)), "{what}");
        assert_eq!(cursor.range(), Some(range), "{what}");
        assert_eq!(cursor.value().copied(), v, "{what}");
        let wanted = if v.is_some() { OnEntry } else { OnGap };
        assert_eq!(cursor.position(), wanted, "{what}");
    };
    match then {
        Stands((start, end, v)) => stands(base + start, base + end, v),
        StandsLeft => {
            let at = |i: i64| base.checked_add_signed(i).unwrap();
            stands(at(LEFT.0), at(LEFT.1), None);
        }
        Ends(position) => {
            assert_eq!(found, None, "{what}");
            assert_eq!(cursor.position(), position, "{what}");
            assert_eq!(cursor.value(), None, "{what}");
        }
        Starts => panic!("{what}: not a range"),
    }
}

#[test]
fn every_position_and_every_move() {
    each(|map| {
        let n = 24;
        let map = threes(map, n);
        // Neither the first nor the last group, whose outer gaps differ.
        for i in (1..n - 1).step_by(if steps(8) == 8 { 1 } else { 7 }) {
            for entry in TABLE {
                let changes = matches!(entry.1, Store | Erase);
                let of = if changes {
                    map.map.dup().unwrap()
                } else {
                    map.map.clone()
                };
                let mut one = Checked {
                    map: of,
                    oracle: map.oracle.clone(),
                };
                row(&mut one, STEP * i, *entry);
                if changes {
                    one.agree();
                }
            }
        }
        map.agree();
    });
}

/// The table has each move for each position.
#[test]
fn the_table_is_whole() {
    let kind = |m: Move| core::mem::discriminant(&m);
    let stands: [fn(Stand) -> bool; 5] = [
        |s| matches!(s, At(_)),
        |s| matches!(s, On(i) if i != 35 && i != 5),
        |s| matches!(s, On(35 | 5)),
        |s| s == Before,
        |s| s == After,
    ];
    for (at, stand) in stands.iter().enumerate() {
        for step in [
            Next(0),
            Prev(0),
            NextRange(0),
            PrevRange(0),
            Seek(0),
            Set(0),
            Reset,
        ] {
            let there = |e: &&(Stand, Move, Then)| stand(e.0) && kind(e.1) == kind(step);
            assert!(TABLE.iter().any(|e| there(&e)), "{at}: {step:?}");
        }
    }
    for step in [Store, Erase, PauseNext, PausePrev] {
        for stand in &stands[1..3] {
            let there = |e: &&(Stand, Move, Then)| stand(e.0) && kind(e.1) == kind(step);
            assert!(TABLE.iter().any(|e| there(&e)), "{step:?}");
        }
    }
}

/// At the ends of the whole map, no entry lies beyond, and the cursor can turn back.
#[test]
fn the_ends_of_the_map() {
    each(|map| {
        let mut map = Checked::new(map);
        for (first, last) in [(0..=4, MAX - 4..=MAX), (5..=9, MAX - 9..=MAX - 5)] {
            map.clear_range(0..=MAX);
            map.store(first.clone(), 1);
            map.store(1_000..=1_999, 2);
            map.store(last.clone(), 3);
            let mut writer = map.map.write();
            let mut cursor = writer.cursor();
            assert_eq!(cursor.position(), Start);
            assert_eq!(cursor.prev(0), None);
            assert_eq!(cursor.position(), BeforeFirst);
            for _ in 0..2 {
                assert_eq!(cursor.next(MAX), Some((first.clone(), &1)));
                assert_eq!(cursor.next(MAX), Some((1_000..=1_999, &2)));
                assert_eq!(cursor.next(MAX), Some((last.clone(), &3)));
                for _ in 0..2 {
                    assert_eq!(cursor.next(MAX), None);
                    assert_eq!(cursor.position(), AfterLast);
                }
                assert_eq!(cursor.prev(0), Some((last.clone(), &3)));
                assert_eq!(cursor.prev(0), Some((1_000..=1_999, &2)));
                assert_eq!(cursor.prev(0), Some((first.clone(), &1)));
                for _ in 0..2 {
                    assert_eq!(cursor.prev(0), None);
                    assert_eq!(cursor.position(), BeforeFirst);
                }
            }
        }
    });
}

#[test]
fn a_cursor_over_an_empty_map() {
    each(|map| {
        let mut map = Checked::new(map);
        {
            let mut writer = map.map.write();
            let mut cursor = writer.cursor();
            assert_eq!(cursor.next(MAX), None);
            assert_eq!(cursor.position(), AfterLast);
            assert_eq!(cursor.prev(0), None);
            assert_eq!(cursor.position(), BeforeFirst);
            assert_eq!(cursor.seek(7), None);
            assert_eq!((cursor.position(), cursor.range()), (OnGap, Some(0..=MAX)));
            assert_eq!(cursor.remove().unwrap(), None);
            cursor.store(5).unwrap();
            assert_eq!(cursor.position(), OnEntry);
            assert_eq!(cursor.range(), Some(0..=MAX));
        }
        map.oracle.store(0..=MAX, 5);
        map.agree();
        assert_eq!(map.map.write().cursor().next(MAX), Some((0..=MAX, &5)));
    });
}

#[test]
fn a_cursor_stores_over_a_range_of_its_own() {
    each(|map| {
        let mut map = threes(map, 20);
        {
            let handle = map.map.clone();
            let mut writer = handle.write();
            let mut cursor = writer.cursor();
            for (i, range) in [(3, 305..=344), (7, 725..=731), (9, 950..=1_009), (0, 0..=4)] {
                cursor.seek(100 * i + 25);
                cursor.set_range(range.clone()).unwrap();
                cursor.store(1_000 + i).unwrap();
                map.oracle.store(range.clone(), 1_000 + i);
                assert_eq!(cursor.range(), Some(range));
                assert_eq!(cursor.position(), OnEntry);
                assert_eq!(cursor.value(), Some(&(1_000 + i)));
            }
        }
        map.agree();
    });
}

/// A long walk of random moves; each must agree with a cursor that searches from the root.
#[test]
fn a_random_walk() {
    for seed in 0..3 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut map = threes(tiny().build(), 30);
        let handle = map.map.clone();
        let mut writer = handle.write();
        let mut cursor = writer.cursor();
        let end = 30 * STEP;
        cursor.seek(rng.u64(0..end));
        for v in 0..steps(3_000) as u64 {
            let on = cursor.range().unwrap();
            assert_eq!(cursor.value(), map.oracle.get(*on.start()));
            let limit = rng.u64(0..end);
            match rng.u8(0..9) {
                0 | 1 => {
                    let next = map.oracle.next_after(*on.end());
                    let next = next.filter(|(r, _)| *r.start() <= limit);
                    assert_eq!(cursor.next(limit), next);
                }
                2 | 3 => {
                    let prev = map.oracle.prev_before(*on.start());
                    let prev = prev.filter(|(r, _)| *r.end() >= limit);
                    assert_eq!(cursor.prev(limit), prev);
                }
                4 => {
                    let next = on.end().checked_add(1).filter(|i| *i <= limit);
                    let next = next.map(|i| map.oracle.locate(i));
                    assert_eq!(cursor.next_range(limit), next);
                }
                5 => {
                    let prev = on.start().checked_sub(1).filter(|i| *i >= limit);
                    let prev = prev.map(|i| map.oracle.locate(i));
                    assert_eq!(cursor.prev_range(limit), prev);
                }
                6 if on.end() - on.start() < 1_000 => {
                    cursor.store(v).unwrap();
                    map.oracle.store(on.clone(), v);
                    assert_eq!((cursor.range(), cursor.value()), (Some(on), Some(&v)));
                }
                7 => {
                    let erased = cursor.remove().unwrap();
                    assert_eq!(erased, map.oracle.remove(*on.start()));
                    let gap = map.oracle.locate(*on.start()).0;
                    if erased.is_some() {
                        assert_eq!((cursor.range(), cursor.value()), (Some(gap), None));
                    }
                }
                _ => {
                    let start = rng.u64(0..end);
                    let range = start..=start + rng.u64(0..9);
                    cursor.set_range(range.clone()).unwrap();
                    cursor.store(v).unwrap();
                    map.oracle.store(range, v);
                }
            }
            if matches!(cursor.position(), BeforeFirst | AfterLast) || rng.u8(0..8) == 0 {
                let i = rng.u64(0..end);
                assert_eq!(cursor.seek(i), map.oracle.get(i));
            }
        }
        drop(writer);
        map.agree();
    }
}

/// A limit that the cursor has passed already does not bring it back over what it has passed, in
/// any method and at any limit.
#[test]
fn a_limit_never_moves_a_cursor_over_what_it_has_passed() {
    const D: [(u64, u64, char); 3] = [
        (0x1000, 0x1500, 'a'),
        (0x2000, 0x2500, 'b'),
        (0x3000, 0x3500, 'c'),
    ];
    let map = MapleMap::from_iter(D.map(|(start, end, value)| (start..=end, value)));
    let mut writer = map.write();
    let found = |entry: Option<(Range, &char)>| entry.map(|(_, value)| *value);

    let mut cursor = writer.cursor();
    assert_eq!(found(cursor.next(0x1200)), Some('a'));
    assert_eq!(found(cursor.next(0x1200)), None);
    assert_eq!(cursor.position(), AfterLast);
    assert_eq!(found(cursor.next(MAX)), Some('b'));

    // Every limit that was passed, short of the entry, inside it and at its end, many times.
    for limit in [0, 0x500, 0x1500, 0x1800, 0x2000, 0x2300, 0x24ff, 0x2500] {
        let mut cursor = writer.cursor();
        cursor.seek(0x2100);
        for _ in 0..3 {
            assert_eq!(found(cursor.next(limit)), None, "{limit:#x}");
            assert_eq!(cursor.next_range(limit), None, "{limit:#x}");
        }
        assert_eq!(found(cursor.next(MAX)), Some('c'), "{limit:#x}");
        cursor.seek(0x2100);
        assert_eq!(cursor.next_range(limit), None, "{limit:#x}");
        let gap = cursor.next_range(MAX);
        assert_eq!(gap, Some((0x2501..=0x2fff, None)), "{limit:#x}");
        // Behind the entry, so the step back finds the entry itself.
        cursor.seek(0x2100);
        assert_eq!(found(cursor.next(limit)), None, "{limit:#x}");
        assert_eq!(found(cursor.prev(0)), Some('b'), "{limit:#x}");
    }
    for limit in [MAX, 0x9000, 0x3500, 0x3000, 0x2800, 0x2500, 0x2100, 0x2000] {
        let mut cursor = writer.cursor();
        cursor.seek(0x2100);
        for _ in 0..3 {
            assert_eq!(found(cursor.prev(limit)), None, "{limit:#x}");
            assert_eq!(cursor.prev_range(limit), None, "{limit:#x}");
        }
        assert_eq!(cursor.position(), BeforeFirst);
        assert_eq!(found(cursor.prev(0)), Some('a'), "{limit:#x}");
        cursor.seek(0x2100);
        assert_eq!(cursor.prev_range(limit), None, "{limit:#x}");
        let gap = cursor.prev_range(0);
        assert_eq!(gap, Some((0x1501..=0x1fff, None)), "{limit:#x}");
        cursor.seek(0x2100);
        assert_eq!(found(cursor.prev(limit)), None, "{limit:#x}");
        assert_eq!(found(cursor.next(MAX)), Some('b'), "{limit:#x}");
    }
    // A place that was set is not passed, and a limit before it does not move it back.
    let mut cursor = writer.cursor();
    cursor.set(0x2800);
    assert_eq!(found(cursor.next(0x1000)), None);
    assert_eq!(found(cursor.next(MAX)), Some('c'));
    cursor.set(0x2800);
    assert_eq!(found(cursor.prev(0x3200)), None);
    assert_eq!(found(cursor.prev(0)), Some('b'));
    // The ends of all indices.
    assert_eq!(found(cursor.next(MAX)), Some('c'));
    assert_eq!(cursor.next_range(MAX), Some((0x3501..=MAX, None)));
    assert_eq!(found(cursor.next(0)), None);
    assert_eq!(found(cursor.next(MAX)), None);
    assert_eq!(cursor.prev_range(0), Some((0x3501..=MAX, None)));
    cursor.seek(0);
    assert_eq!(found(cursor.prev(MAX)), None);
    assert_eq!(found(cursor.prev(0)), None);
    assert_eq!(cursor.next_range(MAX), Some((0..=0xfff, None)));
}
