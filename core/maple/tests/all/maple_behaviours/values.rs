//! Values of every size, in slots and in separate memory; each is dropped once, also when a clone
//! or a drop panics.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use sapwood::maple::MapleMap;

use crate::support::ranges::{Checked, MAX, tiny};

/// Checks values of a type, in slots and in separate memory.
fn values<V: Clone + Send + Sync + PartialEq + Debug + 'static>(make: fn(u64) -> V) {
    let n = if cfg!(miri) { 12 } else { 60 };
    for builder in [MapleMap::builder(), tiny()] {
        let mut map = Checked::new(builder.build());
        for i in 0..n {
            map.quick_store(10 * i..=10 * i + 7, make(i));
            map.whole();
        }
        map.agree();
        for i in 0..n / 2 {
            map.store(20 * i + 4..=20 * i + 12, make(1_000 + i));
        }
        map.clear_range(105..=395);
        map.agree();
        let total = map.map.memory().total();
        assert!(total >= size_of::<V>(), "{}", map.map.memory());
    }
}

/// A value with an alignment of its own.
#[derive(Clone, Debug, PartialEq)]
#[repr(align(64))]
struct Wide(u8);

#[test]
fn values_of_many_kinds() {
    values::<u64>(|i| i);
    values::<i8>(|i| i as i8);
    values::<bool>(|i| i % 3 == 0);
    values::<char>(|i| char::from_u32(i as u32 + 32).unwrap());
    values::<f64>(|i| i as f64 / 3.0);
    values::<()>(|_| ());
    values::<u128>(|i| u128::from(i) << 70);
    values::<[u64; 5]>(|i| [i; 5]);
    values::<Wide>(|i| Wide(i as u8));
    values::<String>(|i| "x".repeat(i as usize % 50));
    values::<Arc<Vec<u64>>>(|i| Arc::new(vec![i; 3]));
    values::<Option<Box<u64>>>(|i| (i % 2 == 0).then(|| Box::new(i)));
}

#[test]
fn small_copies_lie_in_the_slots_when_asked() {
    #[derive(Clone, Copy, PartialEq, Debug)]
    struct Pair(u32, u16);
    let map: MapleMap<Pair> = tiny().values_in_slots().build();
    let mut map = Checked::new(map);
    for i in 0..100 {
        map.quick_store(10 * i..=10 * i + 3, Pair(i as u32, i as u16));
    }
    map.agree();
    assert_eq!(map.map.memory().values, (0, 0));
    assert_eq!(map.map.get(553), Some(Pair(55, 55)));
    let apart: MapleMap<Pair> = tiny().build();
    apart.store(0..=9, Pair(1, 2)).unwrap();
    assert_eq!(apart.get(5), Some(Pair(1, 2)));
    apart.verify().unwrap();
}

/// Each value is dropped once: replaced, cut, refused and remaining ones.
#[test]
fn values_are_dropped_once() {
    let value = Arc::new(());
    let map: MapleMap<Arc<()>> = tiny().build();
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..600 {
        let start = rng.u64(0..500);
        let range = start..=start + rng.u64(0..9);
        match rng.u8(0..8) {
            0..4 => map.store(range, value.clone()).unwrap(),
            4 => drop(map.insert_new(range, value.clone())),
            5 => map.clear_range(range).unwrap(),
            6 => drop(map.alloc_range(3, 0..=499, value.clone())),
            _ => drop(map.remove(start).unwrap()),
        }
    }
    map.verify().unwrap();
    map.reclaim(usize::MAX);
    assert_eq!(map.memory().waiting, (0, 0));
    assert!(Arc::strong_count(&value) > 1);
    let copy = map.dup().unwrap();
    drop(map);
    copy.verify().unwrap();
    assert!(Arc::strong_count(&value) > 1);
    copy.clear().unwrap();
    drop(copy);
    assert_eq!(Arc::strong_count(&value), 1);
}

/// A value whose clone panics when a count reaches zero.
struct Fragile {
    left: Arc<AtomicUsize>,
    tag: u64,
}

impl Clone for Fragile {
    fn clone(&self) -> Self {
        let left = self.left.load(Ordering::Relaxed);
        assert!(left != 0, "a clone panics");
        self.left.store(left - 1, Ordering::Relaxed);
        Fragile {
            left: Arc::clone(&self.left),
            tag: self.tag,
        }
    }
}

fn tags(map: &MapleMap<Fragile>) -> Vec<(u64, u64, u64)> {
    map.read(|view| {
        view.iter()
            .map(|(r, v)| (*r.start(), *r.end(), v.tag))
            .collect()
    })
}

#[test]
fn a_clone_that_panics_changes_nothing() {
    let left = Arc::new(AtomicUsize::new(0));
    let value = |tag| Fragile {
        left: Arc::clone(&left),
        tag,
    };
    let map: MapleMap<Fragile> = tiny().build();
    for tag in 0..60 {
        map.store(100 * tag..=100 * tag + 49, value(tag)).unwrap();
    }
    let before = tags(&map);
    // Cutting an entry in two needs a clone; cutting one end does not.
    for cut in [2_010..=2_020, 1..=1, 5_948..=5_948] {
        let stored = catch_unwind(AssertUnwindSafe(|| map.store(cut.clone(), value(99))));
        assert!(stored.is_err());
        map.verify().unwrap();
        let cleared = catch_unwind(AssertUnwindSafe(|| map.clear_range(cut.clone())));
        assert!(cleared.is_err());
        map.verify().unwrap();
        let plan = map.plan_store(cut.clone(), &value(98)).unwrap();
        let reservation = map.reserve(plan).unwrap();
        let stored = catch_unwind(AssertUnwindSafe(|| reservation.store(value(98))));
        assert!(stored.is_err());
        map.verify().unwrap();
        assert_eq!(map.memory().reserved, (0, 0));
        let plan = map.plan_clear(cut.clone()).unwrap();
        let reservation = map.reserve_erase(plan).unwrap();
        let cleared = catch_unwind(AssertUnwindSafe(|| reservation.erase()));
        assert!(cleared.is_err());
        map.verify().unwrap();
        assert_eq!(map.memory().reserved, (0, 0));
        let mut unknown = map.reserve_unknown(1).unwrap();
        let stored = catch_unwind(AssertUnwindSafe(|| unknown.store(cut, value(97))));
        assert!(stored.is_err());
        drop(unknown);
        map.verify().unwrap();
        assert_eq!(map.memory().reserved, (0, 0));
    }
    assert_eq!(tags(&map), before);
    map.store(2_000..=2_010, value(70)).unwrap();
    map.store(2_040..=2_049, value(71)).unwrap();
    map.verify().unwrap();
    // The copy fails at its twentieth value.
    left.store(20, Ordering::Relaxed);
    let copied = catch_unwind(AssertUnwindSafe(|| map.dup().map(drop)));
    assert!(copied.is_err());
    map.verify().unwrap();
    left.store(1_000, Ordering::Relaxed);
    let copy = map.dup().unwrap();
    copy.verify().unwrap();
    assert_eq!(tags(&copy), tags(&map));
    drop((map, copy));
    assert_eq!(Arc::strong_count(&left), 1, "each value was dropped");
}

/// Values are dropped after the map's lock is released: their drop may use the map.
#[test]
fn a_drop_may_use_the_map() {
    static MAP: OnceLock<MapleMap<Guest>> = OnceLock::new();
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    #[derive(Clone)]
    struct Guest;
    impl Drop for Guest {
        fn drop(&mut self) {
            let map = MAP.get().expect("made before any value");
            assert!(map.try_write().is_some(), "the lock is free");
            map.clear_range(5_000..=5_009).unwrap();
            DROPS.fetch_add(1, Ordering::Relaxed);
        }
    }
    let map = MAP.get_or_init(|| tiny().build());
    for i in 0..200 {
        map.store(10 * (i % 20)..=10 * (i % 20) + 9, Guest).unwrap();
        if i % 5 == 0 {
            map.remove(10 * (i % 7)).unwrap();
            let plan = map.plan_store(0..=55, &Guest).unwrap();
            map.reserve(plan).unwrap().store(Guest);
            drop(map.insert_new(0..=MAX, Guest));
            map.reserve_unknown(1).unwrap().store(3..=4, Guest).unwrap();
        }
    }
    map.clear().unwrap();
    map.reclaim(usize::MAX);
    map.verify().unwrap();
    assert_eq!(map.memory().waiting, (0, 0));
    assert!(DROPS.load(Ordering::Relaxed) > 200);
}

/// The drop of one value panics: the others are dropped, and the map stays usable.
#[test]
fn a_drop_that_panics_loses_nothing_else() {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    #[derive(Clone)]
    struct Bomb(bool);
    impl Drop for Bomb {
        fn drop(&mut self) {
            DROPS.fetch_add(1, Ordering::Relaxed);
            assert!(!self.0, "a drop panics");
        }
    }
    let map: MapleMap<Bomb> = tiny().build();
    for i in 0..40 {
        map.store(10 * i..=10 * i + 9, Bomb(i == 17)).unwrap();
    }
    let mut panics = 0;
    let mut attempt =
        |change: &dyn Fn()| panics += usize::from(catch_unwind(AssertUnwindSafe(change)).is_err());
    attempt(&|| map.clear().unwrap());
    attempt(&|| {
        map.reclaim(usize::MAX);
    });
    map.verify().unwrap();
    assert_eq!((panics, DROPS.load(Ordering::Relaxed)), (1, 40));
    assert!(map.is_empty());
    map.store(0..=9, Bomb(false)).unwrap();
    assert_eq!(map.len(), 1);
    map.verify().unwrap();
}
