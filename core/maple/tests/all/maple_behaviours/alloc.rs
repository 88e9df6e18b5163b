//! The search for gaps, and allocation in gaps.

use sapwood::maple::Error;
use sapwood::maple::{MapleMap, Window};

use sapwood_model::oracle::RangeMap;

use crate::support::ranges::{Checked, MAX, each, steps, tiny};

/// Makes every query about gaps of the map and of the oracle.
fn ask(map: &MapleMap<u64>, oracle: &RangeMap<u64>, size: u64, align: u64, start: u64, end: u64) {
    let within = || start..=end;
    let at = format!("{size} in {start}..={end}, aligned to {align}");
    let fits = size > 0 && start <= end && end - start >= size - 1;
    let (low, high) = match fits {
        true => (
            oracle.find_gap(size, align, within()),
            oracle.find_gap_rev(size, align, within()),
        ),
        false => (None, None),
    };
    let found = map.find_gap(size, Window::new(within()).aligned(align));
    assert_eq!(found, low, "lowest {at}");
    let found = map.find_gap(size, Window::new(within()).aligned(align).from_end());
    assert_eq!(found, high, "highest {at}");
    if align == 1 {
        assert_eq!(map.find_gap(size, within()), low, "lowest {at}");
        assert_eq!(
            map.find_gap(size, Window::new(within()).from_end()),
            high,
            "highest {at}"
        );
        map.read(|view| {
            assert_eq!(view.find_gap(size, within()), low);
            assert_eq!(view.find_gap(size, Window::new(within()).from_end()), high);
        });
    }
}

#[test]
fn lowest_and_highest_fit() {
    each(|map| {
        let mut map = Checked::new(map);
        // Gaps of 1, 2, 3, ... 40 between entries of 10.
        let mut at = 0;
        for i in 0..41 {
            map.quick_store(at..=at + 9, i);
            at += 10 + i + 1;
        }
        map.agree();
        let end = at - 42;
        for size in 1..=40 {
            // Gap i begins after entry i - 1: its place is the sum of the lengths before it.
            let place = |i: u64| 10 * i + i * (i - 1) / 2;
            let (low, high) = (place(size), place(40) + 40 - size);
            let lowest = map.map.find_gap(size, 0..=end);
            assert_eq!(lowest, Some(low..=low + size - 1), "{size}");
            let highest = map.map.find_gap(size, Window::new(0..=end).from_end());
            assert_eq!(highest, Some(high..=high + size - 1), "{size}");
        }
        assert_eq!(map.map.find_gap(41, 0..=end), None);
        assert_eq!(map.map.find_gap(41, 0..=MAX), Some(end + 1..=end + 41));
        let top = map.map.find_gap(41, Window::new(0..=MAX).from_end());
        assert_eq!(top, Some(MAX - 40..=MAX));
    });
}

#[test]
fn gap_searches_agree_with_the_oracle() {
    for seed in 0..4 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut map = Checked::new(tiny().build());
        let shift = [0, 12, 0, 40][seed as usize];
        for v in 0..steps(400) as u64 {
            let start = rng.u64(0..500);
            let range = start << shift..=((start + rng.u64(1..9)) << shift) - 1;
            match rng.u8(0..8) {
                0..6 => drop(map.quick_store(range, v)),
                _ => drop(map.quick_remove(*range.start())),
            }
            map.whole();
            for _ in 0..6 {
                let (a, b) = (rng.u64(0..520) << shift, rng.u64(0..520) << shift);
                let size = match rng.u8(0..4) {
                    0 => rng.u64(0..20),
                    1 => rng.u64(1..9) << shift,
                    2 => (rng.u64(1..9) << shift) + rng.u64(0..3),
                    _ => rng.u64(0..100) << shift,
                };
                let align = 1 << rng.u32(0..5) << if rng.bool() { shift } else { 0 };
                ask(&map.map, &map.oracle, size, align, a, b);
                ask(&map.map, &map.oracle, size, 1, a.min(b), a.max(b));
                ask(&map.map, &map.oracle, size, 1, 0, MAX);
                ask(&map.map, &map.oracle, size, align, a, MAX);
            }
        }
        map.agree();
    }
}

#[test]
fn allocation_of_the_lowest_and_the_highest_fit() {
    for highest in [false, true] {
        each(|map| {
            let mut map = Checked::new(map);
            for i in 0..50 {
                map.quick_store(100 * i..=100 * i + 49 + i, i);
            }
            map.agree();
            let within = 0..=4_999;
            let mut rng = fastrand::Rng::with_seed(5);
            let mut given = 0;
            loop {
                let size = rng.u64(1..8);
                let plan = map.map.plan_alloc(size, within.clone(), &given);
                let before = map.map.memory().nodes_made;
                let wanted = match highest {
                    false => map.oracle.find_gap(size, 1, within.clone()),
                    true => map.oracle.find_gap_rev(size, 1, within.clone()),
                };
                let found = match highest {
                    false => map.map.alloc_range(size, within.clone(), given),
                    true => {
                        map.map
                            .alloc_range(size, Window::new(within.clone()).from_end(), given)
                    }
                };
                let Some(wanted) = wanted else {
                    let rejected = found.unwrap_err();
                    assert_eq!(rejected.error, Error::NoGap { size });
                    assert_eq!(rejected.value, given);
                    assert!(matches!(plan, Err(Error::NoGap { .. })));
                    break;
                };
                assert_eq!(found.unwrap(), wanted);
                let plan = plan.unwrap();
                if !highest {
                    let made = map.map.memory().nodes_made - before;
                    assert_eq!((plan.nodes() as u64, plan.range()), (made, wanted.clone()));
                }
                map.oracle.store(wanted, given);
                map.whole();
                given += 1;
            }
            map.agree();
            assert!(given > 200, "{given}");
        });
    }
}

#[test]
fn no_gap() {
    each(|map| {
        let mut map = Checked::new(map);
        map.store(0..=MAX, 1);
        for size in [1, 2, 1 << 40, MAX] {
            let no = Error::NoGap { size };
            let rejected = map.map.alloc_range(size, 0..=MAX, 7).unwrap_err();
            assert_eq!((rejected.error, rejected.value), (no.clone(), 7));
            let rejected = map
                .map
                .alloc_range(size, Window::new(0..=MAX).from_end(), 7)
                .unwrap_err();
            assert_eq!(rejected.error, no);
            let rejected = map
                .map
                .alloc_range(size, Window::new(0..=MAX).aligned(1), 7);
            assert_eq!(rejected.unwrap_err().error, no);
            let rejected = map
                .map
                .alloc_range(size, Window::new(0..=MAX).aligned(1).from_end(), 7);
            assert_eq!(rejected.unwrap_err().error, no);
            let window = Window::new(0..=MAX).starting_at(5);
            let rejected = map.map.alloc_range(size, window, 7);
            assert_eq!(rejected.unwrap_err().error, no);
            assert_eq!(map.map.plan_alloc(size, 0..=MAX, &7).unwrap_err(), no);
            map.agree();
        }
        // A gap that is one too small, and one that is misaligned.
        map.clear_range(1_001..=1_009);
        let rejected = map.map.alloc_range(10, 0..=MAX, 7).unwrap_err();
        assert_eq!(rejected.error, Error::NoGap { size: 10 });
        let rejected = map
            .map
            .alloc_range(8, Window::new(0..=MAX).aligned(8), 7)
            .unwrap_err();
        assert_eq!(rejected.error, Error::NoGap { size: 8 });
        let rejected = map.map.alloc_range(9, 0..=1_008, 7).unwrap_err();
        assert_eq!(rejected.error, Error::NoGap { size: 9 });
        map.agree();
        assert_eq!(map.map.alloc_range(9, 0..=MAX, 7).unwrap(), 1_001..=1_009);
    });
}

#[test]
#[allow(clippy::reversed_empty_ranges)]
fn invalid_arguments() {
    each(|map| {
        map.store(100..=199, 1).unwrap();
        let small = Error::WindowTooSmall {
            size: 11,
            start: 0,
            end: 9,
        };
        let empty = Error::EmptyRange { start: 9, end: 8 };
        let odd = |align| Error::Alignment { align };
        let alloc = |size, align, within| {
            let up = map.alloc_range(size, Window::new(within).aligned(align), 7);
            up.unwrap_err().error
        };
        assert_eq!(map.alloc_range(11, 0..=9, 7).unwrap_err().error, small);
        assert_eq!(
            map.alloc_range(11, Window::new(0..=9).from_end(), 7)
                .unwrap_err()
                .error,
            small
        );
        assert_eq!(alloc(11, 1, 0..=9), small);
        assert_eq!(
            map.alloc_range(0, 0..=9, 7).unwrap_err().error,
            Error::ZeroSize
        );
        assert_eq!(alloc(0, 8, 0..=9), Error::ZeroSize);
        assert_eq!(map.alloc_range(1, 9..=8, 7).unwrap_err().error, empty);
        for align in [0, 3, 6, 1 << 40 | 1] {
            assert_eq!(alloc(1, align, 0..=9), odd(align));
            let down = map.alloc_range(1, Window::new(0..=9).aligned(align).from_end(), 7);
            assert_eq!(down.unwrap_err().error, odd(align));
            assert_eq!(map.find_gap(1, Window::new(0..=9).aligned(align)), None);
            assert_eq!(
                map.find_gap(1, Window::new(0..=9).aligned(align).from_end()),
                None
            );
        }
        let window = Window::new(0..=9).starting_at(0);
        let cyclic = map.alloc_range(0, window, 7).unwrap_err();
        assert_eq!(cyclic.error, Error::ZeroSize);
        assert_eq!(map.plan_alloc(0, 0..=9, &7).unwrap_err(), Error::ZeroSize);
        assert_eq!(map.plan_alloc(11, 0..=9, &7).unwrap_err(), small);
        for (size, within) in [(0, 0..=9), (11, 0..=9), (1, 9..=8)] {
            assert_eq!(map.find_gap(size, within.clone()), None);
            assert_eq!(map.find_gap(size, Window::new(within).from_end()), None);
        }
        map.verify().unwrap();
        assert_eq!(map.len(), 1);
    });
}

#[test]
fn a_window_of_5_to_90() {
    each(|map| {
        let mut map = Checked::new(map);
        // Full.
        map.store(0..=MAX, 1);
        let full = map.map.alloc_range(10, 5..=90, 2).unwrap_err().error;
        assert_eq!(full, Error::NoGap { size: 10 });
        let full = map
            .map
            .alloc_range(10, Window::new(5..=90).from_end(), 2)
            .unwrap_err()
            .error;
        assert_eq!(full, Error::NoGap { size: 10 });
        // Indices 5 to 9 are free: five, no more.
        map.clear_range(5..=9);
        assert_eq!(map.map.find_gap(5, 5..=90), Some(5..=9));
        assert_eq!(
            map.map.find_gap(5, Window::new(5..=90).from_end()),
            Some(5..=9)
        );
        assert_eq!(map.map.find_gap(5, 5..=9), Some(5..=9));
        assert_eq!(map.map.find_gap(6, 5..=90), None);
        assert_eq!(map.map.find_gap(6, Window::new(5..=90).from_end()), None);
        assert_eq!(map.map.find_gap(5, 6..=90), None);
        assert_eq!(map.map.find_gap(4, 6..=90), Some(6..=9));
        assert_eq!(
            map.map.find_gap(4, Window::new(0..=8).from_end()),
            Some(5..=8)
        );
        // A window smaller than the size.
        let wanted = Error::WindowTooSmall {
            size: 6,
            start: 5,
            end: 9,
        };
        let small = map.map.alloc_range(6, 5..=9, 2).unwrap_err().error;
        assert_eq!(small, wanted);
        assert_eq!(map.map.alloc_range(5, 5..=9, 2).unwrap(), 5..=9);
        map.map.verify().unwrap();
        assert_eq!(map.map.get_entry(7), Some((5..=9, 2)));
        let full = map.map.alloc_range(5, 5..=9, 2).unwrap_err().error;
        assert_eq!(full, Error::NoGap { size: 5 });
    });
}

#[test]
fn filled_until_full() {
    each(|map| {
        let mut map = Checked::new(map);
        let within = 1_000..=1_999;
        let mut n = 0;
        while let Ok(range) = map.map.alloc_range(3, within.clone(), n) {
            assert_eq!(range, 1_000 + 3 * n..=1_002 + 3 * n);
            map.oracle.store(range, n);
            map.whole();
            n += 1;
        }
        assert_eq!(n, 333);
        map.agree();
        // One index is left; freed indices are found again.
        assert_eq!(map.map.find_gap(1, within.clone()), Some(1_999..=1_999));
        for i in [0, 100, 332, 166] {
            map.remove(1_000 + 3 * i);
            let hole = 1_000 + 3 * i..=1_002 + 3 * i + u64::from(i == 332);
            let lowest = map.map.find_gap(3, within.clone()).unwrap();
            assert_eq!(lowest.start(), hole.start());
            assert_eq!(map.map.alloc_range(3, within.clone(), i).unwrap(), lowest);
            map.oracle.store(lowest, i);
            map.agree();
        }
        assert_eq!(map.map.find_gap(2, within), None);
    });
}

#[test]
fn aligned_fits() {
    each(|map| {
        let mut map = Checked::new(map);
        map.store(0..=0, 1);
        map.store(4_000..=4_999, 2);
        let aligned = |size, align| {
            map.map
                .find_gap(size, Window::new(0..=10_000).aligned(align))
        };
        assert_eq!(aligned(16, 1), Some(1..=16));
        assert_eq!(aligned(16, 16), Some(16..=31));
        assert_eq!(aligned(3_984, 16), Some(16..=3_999));
        assert_eq!(aligned(3_985, 16), Some(5_008..=8_992));
        assert_eq!(aligned(1, 4_096), Some(8_192..=8_192));
        assert_eq!(aligned(1, 1 << 40), None);
        let down = |size, align| {
            map.map
                .find_gap(size, Window::new(0..=10_000).aligned(align).from_end())
        };
        assert_eq!(down(16, 16), Some(9_984..=9_999));
        assert_eq!(down(1, 4_096), Some(8_192..=8_192));
        let top = map
            .map
            .find_gap(1, Window::new(0..=MAX).aligned(1 << 63).from_end());
        assert_eq!(top, Some(1 << 63..=1 << 63));
        assert_eq!(
            map.map
                .alloc_range(16, Window::new(0..=MAX).aligned(16), 3)
                .unwrap(),
            16..=31
        );
        assert_eq!(
            map.map
                .alloc_range(16, Window::new(0..=MAX).aligned(32).from_end(), 4)
                .unwrap(),
            MAX - 31..=MAX - 16
        );
        map.map.verify().unwrap();
        assert_eq!(map.map.len(), 4);
    });
}

#[test]
fn cyclic_allocation_goes_on_and_wraps() {
    each(|map| {
        let mut map = Checked::new(map);
        let from = |next| Window::new(10..=109).starting_at(next);
        let mut next = 0;
        for i in 0..10 {
            let range = map.map.alloc_range(10, from(next), i).unwrap();
            assert_eq!(range, 10 * i + 10..=10 * i + 19);
            next = range.end() + 1;
            map.oracle.store(10 * i + 10..=10 * i + 19, i);
            map.agree();
        }
        let full = map.map.alloc_range(10, from(next), 99);
        assert_eq!(full.unwrap_err().error, Error::NoGap { size: 10 });
        // The range freed last is not taken first: the search continues from its last place.
        map.remove(30);
        map.remove(70);
        // From the end, the gap at or before the index comes first.
        assert_eq!(map.map.find_gap(10, from(50).from_end()), Some(30..=39));
        assert_eq!(map.map.find_gap(10, from(79).from_end()), Some(70..=79));
        assert_eq!(map.map.find_gap(10, from(20).from_end()), Some(70..=79));
        assert_eq!(map.map.find_gap(4, from(37).aligned(4)), Some(72..=75));
        let found = map.map.alloc_range(10, from(50), 1).unwrap();
        assert_eq!(found, 70..=79);
        let found = map.map.alloc_range(10, from(80), 2).unwrap();
        assert_eq!(found, 30..=39, "wrapped");
        map.map.verify().unwrap();
        let all = || Window::new(0..=MAX);
        let found = map
            .map
            .alloc_range(4, all().starting_at(MAX - 3), 3)
            .unwrap();
        assert_eq!(found, MAX - 3..=MAX);
        let next = found.end().wrapping_add(1);
        let found = map.map.alloc_range(5, all().starting_at(next), 4).unwrap();
        assert_eq!(found, 0..=4, "wrapped behind the last index");
        map.map.verify().unwrap();
    });
}
