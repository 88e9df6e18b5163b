//! Independent copies of equal shape.

use sapwood::arena::ArenaOptions;
use sapwood::maple::Error;
use sapwood::maple::{MapleMap, Window};

use crate::support::ranges::{Checked, MAX, each, listed, loud, steps, tiny};

fn filled(map: MapleMap<u64>, n: u64) -> Checked<u64> {
    let mut map = Checked::new(map);
    let mut rng = fastrand::Rng::with_seed(n);
    for v in 0..n {
        let start = rng.u64(0..20 * n);
        map.quick_store(start..=start + rng.u64(0..30), v);
        if rng.u8(0..3) == 0 {
            map.quick_remove(rng.u64(0..20 * n));
        }
    }
    map.agree();
    map
}

#[test]
fn a_copy_has_the_same_shape_and_the_same_gaps() {
    each(|empty| {
        for n in [0, 1, 2, 9, 30, 100, 400] {
            let map = filled(empty.dup().unwrap(), n);
            let copy = map.map.dup().unwrap();
            copy.verify().unwrap();
            map.agree();
            assert_eq!(listed(&copy), map.oracle.to_vec());
            let (of, to) = (map.map.memory(), copy.memory());
            assert_eq!(
                (of.entries, of.height, of.leaves, of.inner, of.values),
                (to.entries, to.height, to.leaves, to.inner, to.values)
            );
            assert_eq!(to.waiting, (0, 0), "a copy has no garbage");
            for size in 1..60 {
                assert_eq!(
                    copy.find_gap(size, 0..=MAX),
                    map.map.find_gap(size, 0..=MAX)
                );
                let within = 0..=20 * n;
                assert_eq!(
                    copy.find_gap(size, Window::new(within.clone()).from_end()),
                    map.map.find_gap(size, Window::new(within).from_end())
                );
            }
        }
    });
}

#[test]
fn a_copy_and_its_original_leave_each_other_alone() {
    each(|map| {
        let mut map = filled(map, 120);
        let mut copy = Checked::new(map.map.dup().unwrap());
        let mut rng = fastrand::Rng::with_seed(4);
        for v in 0..steps(200) as u64 {
            let start = rng.u64(0..2_400);
            map.store(start..=start + 9, 1_000 + v);
            let start = rng.u64(0..2_400);
            copy.clear_range(start..=start + 15);
            map.agree();
        }
        drop(map);
        copy.agree();
    });
}

#[test]
fn a_copy_of_boxed_values() {
    let map: MapleMap<String> = tiny().build();
    for i in 0..100_u64 {
        map.store(10 * i..=10 * i + 5, format!("the {i}th"))
            .unwrap();
    }
    let copy = map.dup().unwrap();
    map.clear().unwrap();
    map.reclaim(usize::MAX);
    map.verify().unwrap();
    drop(map);
    copy.verify().unwrap();
    for i in 0..100_u64 {
        assert_eq!(copy.get(10 * i + 3), Some(format!("the {i}th")));
    }
}

/// The allocation of the copy's first, second, ... node fails: no copy is made, and no value is
/// lost.
#[test]
fn a_copy_that_fails_half_way_leaves_the_original_alone() {
    for every in 1..40 {
        let build = |options: ArenaOptions| {
            let options = options.fail_every(every);
            MapleMap::builder().nodes(128, 4).options(options).build()
        };
        let map: MapleMap<u64> = build(loud());
        // Refused stores are repeated as long as that helps.
        let (mut i, mut tries) = (0, 0);
        while i < 60 && tries < 200 {
            match map.store(10 * i..=10 * i + 5, i) {
                Ok(()) => i += 1,
                Err(rejected) => assert!(matches!(rejected.error, Error::ArenaFull(_))),
            }
            tries += 1;
        }
        let map = Checked::new(map);
        for _ in 0..3 {
            match map.map.dup() {
                Ok(copy) => {
                    copy.verify().unwrap();
                    assert_eq!(listed(&copy), map.oracle.to_vec());
                }
                Err(error) => assert!(matches!(error, Error::ArenaFull(_)), "{error}"),
            }
            map.agree();
            assert_eq!(map.map.memory().reserved, (0, 0));
        }
    }
}

#[test]
fn a_copy_that_has_no_room_leaves_the_original_alone() {
    // A map that fills its arena, with garbage that is reused: a second copy of its live nodes
    // fits, or does not.
    let options = loud().limit(20 << 10);
    let map: MapleMap<u64> = MapleMap::builder().nodes(128, 4).options(options).build();
    let mut i = 0;
    while map.store(10 * i..=10 * i + 5, i).is_ok() {
        i += 1;
    }
    assert!(i > 100, "{i}");
    let map = Checked::new(map);
    match map.map.dup() {
        Ok(copy) => assert_eq!(listed(&copy), map.oracle.to_vec()),
        Err(error) => assert!(matches!(error, Error::ArenaFull(_))),
    }
    map.agree();
    map.map.clear().unwrap();
    assert!(map.map.is_empty());
    map.map.verify().unwrap();
}
