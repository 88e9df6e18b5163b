//! Every state in which a killed writer can leave a published map: the memory is read before each
//! store that others see. And published maps without files, for Miri.

use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use sapwood_arena::{Arena, ArenaOptions, Backing, HeaderMode};
use sapwood_checked::Fixed;
use sapwood_checked::maple::CheckedMaple;
use sapwood_format::Window;
use sapwood_format::maple::header;
use sapwood_model::oracle::RangeMap;
use sapwood_model::range_ops::{Domain, RangeOp, RangeOps};

use super::published::MaplePublished;
use crate::Builder;
use crate::sync::stores;
use crate::{MapleMap, PlainValue, Range};

/// Bytes of an arena.
const BYTES: usize = 1 << 20;

fn arena<V: PlainValue>() -> Arena {
    let options = ArenaOptions::default()
        .backing(Backing::HeapFixed(BYTES))
        .header(HeaderMode::Page)
        .layout_hash(MapleMap::<V>::layout_hash());
    Arena::create(options).unwrap()
}

/// The memory of an arena of `BYTES` bytes, which lives as long as this is used.
#[derive(Clone, Copy)]
struct Live(NonNull<u8>);

impl Live {
    fn of<V: PlainValue>(map: &MapleMap<V>) -> Live {
        Live(NonNull::new(map.shared().write().space.arena.base()).unwrap())
    }

    fn root(self, index: usize) -> u64 {
        self.u64(sapwood_arena::ROOTS_AT + 8 * index)
    }
}

impl Window for Live {
    fn len(&self) -> usize {
        BYTES
    }

    fn u32(&self, at: usize) -> u32 {
        assert!(at % 4 == 0 && at + 4 <= BYTES, "byte {at}");
        // SAFETY: inside the arena, aligned, loaded as an atomic; the only thread that changes the
        // memory is this one.
        unsafe { AtomicU32::from_ptr(self.0.as_ptr().add(at).cast()) }.load(Ordering::Acquire)
    }

    fn u64(&self, at: usize) -> u64 {
        assert!(at % 8 == 0 && at + 8 <= BYTES, "byte {at}");
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(self.0.as_ptr().add(at).cast()) }.load(Ordering::Acquire)
    }
}

/// A change by the map's methods and by the model's, if it is one of these. Plans and reservations
/// end in the same stores.
fn change<V: PlainValue + PartialEq>(
    map: &MapleMap<V>,
    model: &mut RangeMap<u64>,
    op: &RangeOp,
    make: impl Fn(u64) -> V,
    look: impl FnOnce(&RangeMap<u64>),
) {
    let mut after = model.clone();
    op.apply(&mut after);
    look(&after);
    match op {
        RangeOp::Store(range, value) => drop(map.store(range.clone(), make(*value))),
        RangeOp::StoreCoalescing(range, value) => {
            drop(map.store_coalescing(range.clone(), make(*value)));
        }
        RangeOp::Insert(range, value) => drop(map.insert_new(range.clone(), make(*value))),
        RangeOp::Erase(index) => drop(map.remove(*index)),
        RangeOp::ClearRange(range) => drop(map.clear_range(range.clone())),
        RangeOp::Clear => drop(map.clear()),
        _ => return,
    }
    *model = after;
}

/// What was seen before stores.
#[derive(Default)]
struct Counts {
    stores: Cell<usize>,
    /// The number of entries in the header was not that of the entries.
    other_len: Cell<usize>,
    /// The change was visible before it had returned.
    visible: Cell<usize>,
}

fn count(cell: &Cell<usize>, yes: bool) {
    cell.set(cell.get() + usize::from(yes));
}

/// Looks at the map before every store of `ops` changes. With `together`, a transaction has that
/// many changes; with 0, each change is made alone.
fn every_store<V: PlainValue + PartialEq>(
    builder: &Builder<MapleMap<V>>,
    make: fn(u64) -> V,
    number: fn(V) -> u64,
    (ops, together): (usize, usize),
) {
    let counts = Rc::new(Counts::default());
    for (seed, domain) in Domain::ALL.into_iter().enumerate() {
        let map = builder.clone().build_in(arena::<V>()).unwrap();
        let live = Live::of(&map);
        let states = Rc::new(RefCell::new((RangeMap::new(), RangeMap::new())));
        stores::set(Some(Box::new({
            let (states, counts) = (Rc::clone(&states), Rc::clone(&counts));
            let builder = builder.clone();
            move || look(live, &states.borrow(), &counts, &builder, number)
        })));
        let mut model = RangeMap::new();
        let mut snapshot = None;
        let ops = RangeOps::new(domain, seed as u64)
            .filter(|op| op.writes() && !op.is_bad())
            .take(ops);
        let ops: Vec<_> = ops.collect();
        for (turn, group) in ops.chunks(together.max(1)).enumerate() {
            match turn % 32 {
                4 => snapshot = Some(map.snapshot()),
                12 => drop(snapshot.take()),
                _ => (),
            }
            let before = model.clone();
            if together == 0 {
                change(&map, &mut model, &group[0], make, |after| {
                    *states.borrow_mut() = (before, after.clone());
                });
                continue;
            }
            // Until the end, only what was there before is seen.
            *states.borrow_mut() = (before.clone(), before.clone());
            let mut txn = map.begin();
            for op in group {
                match op {
                    RangeOp::Store(range, value) | RangeOp::StoreCoalescing(range, value) => {
                        txn.store(range.clone(), make(*value)).unwrap();
                    }
                    RangeOp::Erase(index) => drop(txn.remove(*index)),
                    RangeOp::ClearRange(range) => txn.clear_range(range.clone()).unwrap(),
                    _ => (),
                }
            }
            model = RangeMap::new();
            for (range, value) in txn.view() {
                model.store(range, number(*value));
            }
            *states.borrow_mut() = (before, model.clone());
            txn.commit();
        }
        stores::set(None);
        map.verify().unwrap();
        assert_eq!(map.len(), model.len());
    }
    let counts = [&counts.stores, &counts.other_len, &counts.visible].map(Cell::get);
    assert!(counts.iter().all(|&count| count > 100), "{counts:?}");
}

/// Checks what a writer leaves that is killed here.
fn look<V: PlainValue>(
    live: Live,
    (before, after): &(RangeMap<u64>, RangeMap<u64>),
    counts: &Counts,
    builder: &Builder<MapleMap<V>>,
    number: fn(V) -> u64,
) {
    let reader = CheckedMaple::<_, V>::new(Fixed(live)).unwrap();
    let entries = reader.iter().map(|entry| {
        let (range, value) = entry.unwrap();
        (range, number(value))
    });
    let entries: Vec<(Range, u64)> = entries.collect();
    let now = match (entries == before.to_vec(), entries == after.to_vec()) {
        (true, _) => before,
        (_, true) => after,
        _ => panic!("{entries:?}, neither {before:?} nor {after:?}"),
    };
    // No gap word says too little, so no gap is missed.
    assert_eq!(reader.verify(), Ok(entries.len()));
    for size in [1, 7, 4096, 1 << 40] {
        let gap = now.find_gap(size, 1, 0..=u64::MAX);
        assert_eq!(reader.find_gap(size, 0..=u64::MAX), Ok(gap));
    }
    if counts.stores.get() % 16 == 0 {
        // The new owner's own stores are not looked at, as this look is under way.
        let heir = builder.clone().restore_in(arena::<V>(), live).unwrap();
        heir.verify().unwrap();
        assert!(
            heir.iter()
                .map(|(range, v)| (range, number(v)))
                .eq(entries.iter().cloned())
        );
    }
    count(&counts.stores, true);
    count(
        &counts.other_len,
        live.root(header::LEN) != entries.len() as u64,
    );
    count(&counts.visible, before != after && now == after);
}

#[test]
fn a_map_is_whole_before_every_store() {
    let builder = MapleMap::<u64>::builder().nodes(128, 4);
    every_store(&builder, |n| n, |n| n, (400, 0));
}

#[test]
fn a_map_with_values_apart_is_whole_before_every_store() {
    let builder = MapleMap::<[u64; 3]>::builder().nodes(192, 5);
    every_store(&builder, |n| [n; 3], |[a, b, c]| (a + b + c) / 3, (200, 0));
}

/// A reader, and whoever takes over after a writer was killed, sees a transaction whole or not at
/// all.
#[test]
fn transactions_are_whole_before_every_store() {
    let builder = MapleMap::<u64>::builder().nodes(128, 4);
    every_store(&builder, |n| n, |n| n, (600, 5));
    let builder = MapleMap::<[u64; 3]>::builder().nodes(192, 5);
    let number = |[a, b, c]: [u64; 3]| (a + b + c) / 3;
    every_store(&builder, |n| [n; 3], number, (300, 7));
}

/// A published map without a file: the attached view, the checked reader and the new owner.
#[test]
fn attached_to_the_heap() {
    let map = MapleMap::<[u64; 3]>::builder()
        .nodes(128, 4)
        .build_in(arena::<[u64; 3]>())
        .unwrap();
    let live = Live::of(&map);
    // SAFETY: the arena lives as long as the map.
    let published = unsafe { MaplePublished::<[u64; 3]>::new(live.0) }.unwrap();
    let mut model = RangeMap::new();
    // Miri takes a second for each of the last ones.
    let steps = if cfg!(miri) { 20 } else { 60 };
    for n in 0..steps {
        let start = n * 37 % 60 * 10;
        map.store(start..=start + 7, [n; 3]).unwrap();
        model.store(start..=start + 7, n);
        if n % 3 == 0 {
            map.remove(start / 2).unwrap();
            model.remove(start / 2);
        }
        map.read(|_| {
            // SAFETY: the memory is that of a map with these values, and stays; the pin holds
            // grace periods back.
            let view = unsafe { published.view() };
            let owned = |(range, v): (Range, &[u64; 3])| (range, v[0]);
            assert_eq!(view.len(), model.len());
            assert!(view.iter().map(owned).eq(model.to_vec()));
            assert_eq!(
                view.find_gap(3, 0..=u64::MAX),
                model.find_gap(3, 1, 0..=u64::MAX)
            );
        });
    }
    let reader = CheckedMaple::<_, [u64; 3]>::new(Fixed(live)).unwrap();
    assert_eq!(reader.verify(), Ok(model.len()));
    let heir = MapleMap::<[u64; 3]>::builder()
        .restore_in(arena::<[u64; 3]>(), live)
        .unwrap();
    assert!(
        heir.iter()
            .map(|(range, v)| (range, v[0]))
            .eq(model.to_vec())
    );
}

#[test]
fn a_page_of_something_else_is_refused() {
    let map = MapleMap::<u64>::builder().build_in(arena::<u64>()).unwrap();
    let live = Live::of(&map);
    // SAFETY: the arena lives as long as the map.
    let other = unsafe { MaplePublished::<u32>::new(live.0) }.unwrap_err();
    assert!(other.to_string().contains("values of 8 bytes"), "{other}");
    let page = [const { AtomicU64::new(0) }; 512];
    // SAFETY: a page of words, which nobody changes.
    let nothing = unsafe { MaplePublished::<u64>::new(NonNull::from(&page).cast()) }.unwrap_err();
    assert!(
        nothing.to_string().contains("not a sapwood memory"),
        "{nothing}"
    );
}
