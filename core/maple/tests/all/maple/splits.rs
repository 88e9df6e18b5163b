//! Values that depend on where their entries begin: a page array says what each page maps.

use crate::support::maple::{Pair, loud, run};
use crate::support::steps::steps;
use sapwood::maple::{MapleMap, Split};
use sapwood_model::range_ops::{Domain, RangeOps};

const PAGES: u64 = 300;

/// A value that is an offset in what it maps.
trait Offset: Clone + PartialEq + Send + Sync + 'static {
    fn new(at: u64) -> Self;
    fn at(&self) -> u64;
}

impl Offset for u64 {
    fn new(at: u64) -> Self {
        at
    }

    fn at(&self) -> u64 {
        *self
    }
}

/// A value that owns memory, apart from the leaf.
impl Offset for (Box<u64>, u64) {
    fn new(at: u64) -> Self {
        (Box::new(at), at)
    }

    fn at(&self) -> u64 {
        assert_eq!(*self.0, self.1);
        self.1
    }
}

fn offsets<V: Offset>(seed: u64) {
    let split = Split::at(|value: &V, by| V::new(value.at() + by));
    let builder = MapleMap::builder().options(loud()).nodes(128, 4);
    let map = builder.split(split).build();
    let mut pages = vec![None; PAGES as usize];
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut snapshots = Vec::new();
    for turn in 0..steps(2_500) {
        let from = rng.u64(..PAGES);
        let most = 1 << rng.u32(..6);
        let to = (from + rng.u64(..most)).min(PAGES - 1);
        let inside = from as usize..=to as usize;
        let flat = |removed: Vec<(std::ops::RangeInclusive<u64>, V)>| {
            let parts = removed.into_iter().flat_map(|(range, value)| {
                (0..=range.end() - range.start()).map(move |i| value.at() + i)
            });
            parts.collect::<Vec<u64>>()
        };
        match rng.u8(..9) {
            0 => {
                let there = pages[inside].iter_mut().filter_map(Option::take);
                assert_eq!(
                    flat(map.take_range(from..=to).unwrap()),
                    there.collect::<Vec<_>>()
                );
            }
            1 => {
                let there: Vec<_> = pages[inside.clone()].iter().copied().flatten().collect();
                assert_eq!(flat(map.replace(from..=to, V::new(7)).unwrap()), there);
                pages[inside]
                    .iter_mut()
                    .zip(7..)
                    .for_each(|(page, at)| *page = Some(at));
            }
            2 => {
                let aim = rng.u64(..PAGES - (to - from));
                map.move_range(from..=to, aim).unwrap();
                let moved = pages[inside.clone()].to_vec();
                pages[inside].fill(None);
                pages[aim as usize..][..moved.len()].copy_from_slice(&moved);
            }
            3 => {
                // By a plan, which counts the value of the right part.
                let plan = map.plan_clear(from..=to).unwrap();
                let nodes = plan.nodes() as u64;
                let before = map.memory().nodes_made;
                map.reserve_erase(plan).unwrap().erase();
                assert_eq!(map.memory().nodes_made - before, nodes);
                pages[inside].fill(None);
            }
            5 => {
                // Half of what is in the range moves on by a thousand pages in its file.
                let mut flags = Vec::new();
                let changed = |range: std::ops::RangeInclusive<u64>, value: &V| {
                    let on = value.at() % 2 * 1_000;
                    flags.push((range, on));
                    V::new(value.at() + on)
                };
                map.modify_range(from..=to, changed).unwrap();
                for (range, on) in flags {
                    let there = &mut pages[*range.start() as usize..=*range.end() as usize];
                    there.iter_mut().flatten().for_each(|page| *page += on);
                }
            }
            4 => {
                let mut unknown = map.reserve_unknown(1).unwrap();
                unknown.store(from..=to, V::new(9)).ok().unwrap();
                pages[inside]
                    .iter_mut()
                    .zip(9..)
                    .for_each(|(page, at)| *page = Some(at));
            }
            _ => {
                let at = rng.u64(..1 << 40);
                map.store(from..=to, V::new(at)).ok().unwrap();
                pages[inside]
                    .iter_mut()
                    .zip(at..)
                    .for_each(|(page, at)| *page = Some(at));
            }
        }
        match turn % 64 {
            3 => snapshots.push((map.snapshot(), pages.clone())),
            40 => snapshots.clear(),
            _ => {}
        }
        map.verify().unwrap();
        agree(&map.snapshot(), &pages);
        snapshots
            .iter()
            .for_each(|(snapshot, pages)| agree(snapshot, pages));
    }
}

fn agree<V: Offset>(snapshot: &sapwood::maple::MapleSnapshot<V>, pages: &[Option<u64>]) {
    let view = snapshot.view();
    for (i, page) in (0..).zip(pages) {
        let found = view.get_entry(i);
        let found = found.map(|(range, value)| value.at() + i - range.start());
        assert_eq!(found, *page, "page {i}");
    }
}

#[test]
fn offsets_in_slots() {
    offsets::<u64>(1);
}

#[test]
fn offsets_apart() {
    offsets::<(Box<u64>, u64)>(2);
}

/// A function that gives each part the same value is a clone.
#[test]
fn the_same_value_for_all_parts() {
    let builder = MapleMap::builder().options(loud()).nodes(128, 4);
    let split = Split::at(|value: &(Box<u64>, u64), _| value.clone());
    let mut pair = Pair::new(builder.split(split).build(), |n| (Box::new(n), n));
    run(
        &mut pair,
        RangeOps::new(Domain::Pages, 3).take(steps(1_500)),
        1,
    );
}

/// A split that panics leaves the map as it was.
#[test]
fn a_split_that_panics_changes_nothing() {
    let split = Split::at(|_: &String, _| panic!("no"));
    let map = MapleMap::builder().split(split).build();
    map.store(0..=99, "a".to_string()).unwrap();
    for range in [20..=30, 0..=30] {
        let changed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            map.store(range, String::new()).unwrap();
        }));
        assert!(changed.is_err());
        map.verify().unwrap();
    }
    assert!(map.iter().eq([(0..=99, "a".to_string())]));
}
