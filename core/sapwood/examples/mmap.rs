//! The `mmap` of an operating system: mappings of files and of memory, their protection, moves, a
//! stack that grows down, guards, huge pages. Readers look addresses up meanwhile, as page faults
//! do. An array of pages says what each page must be, after every operation.
//!
//! `cargo run --release -p sapwood --example mmap -- 1000000`

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};

use sapwood::maple::{Error, MapleMap, MapleTxn, MapleView, Removed, Split, Window};

type Range = RangeInclusive<u64>;

/// The number of pages in the address space.
const PAGES: u64 = 600;
/// The number of pages in a huge page.
const HUGE: u64 = 64;
/// Free pages between a stack and what lies below it.
const GUARD: u64 = 2;

/// A mapping, in the eight bytes of a slot: the file (0: memory), the page in it, what is allowed,
/// and whether it grows down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapping {
    page: u32,
    file: u16,
    allowed: u8,
    grows: bool,
}

impl Mapping {
    /// The mapping that begins `by` pages behind this one.
    fn behind(&self, by: u64) -> Mapping {
        let page = match self.file {
            0 => 0,
            _ => self.page + by as u32,
        };
        Mapping { page, ..*self }
    }
}

/// The file of a mapping that is moved about: each version of the map has it exactly once.
const MOVER: u16 = u16::MAX;

/// An address space. Every call is a transaction, or one change.
struct Space(MapleMap<Mapping>);

impl Space {
    fn new() -> Space {
        let builder = MapleMap::builder().values_in_slots();
        Space(builder.split(Split::at(Mapping::behind)).build())
    }

    /// Makes a change as a transaction: readers with a frozen view see one version.
    fn change<T>(
        &self,
        make: impl FnOnce(&mut MapleTxn<'_, Mapping>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut txn = self.0.begin();
        let made = make(&mut txn)?;
        txn.commit();
        Ok(made)
    }

    /// The window of a placement from the top down.
    fn window() -> Window {
        Window::new(0..=PAGES - 1).from_end()
    }

    /// Maps pages at the highest place (`mmap` without an address).
    fn map(&self, pages: u64, mapping: Mapping) -> Result<Range, Error> {
        self.change(|txn| Ok(txn.alloc_range(pages, Space::window(), mapping)?))
    }

    /// Maps pages near an address (`mmap` with a hint).
    fn map_near(&self, hint: u64, pages: u64, mapping: Mapping) -> Result<Range, Error> {
        let window = Space::window().nearest_to(hint);
        self.change(|txn| Ok(txn.alloc_range(pages, window, mapping)?))
    }

    /// Maps a file so that huge pages of it fall on huge pages of memory.
    fn map_huge(&self, pages: u64, mapping: Mapping) -> Result<Range, Error> {
        let window = Space::window().congruent_to(mapping.page.into(), HUGE);
        self.change(|txn| Ok(txn.alloc_range(pages, window, mapping)?))
    }

    /// Maps pages over what is there (`MAP_FIXED`). What continues its neighbour becomes one
    /// mapping with it.
    fn map_fixed(&self, range: Range, mapping: Mapping) -> Result<Range, Error> {
        self.change(|txn| Ok(txn.store_coalescing(range, mapping)?))
    }

    /// Unmaps pages; returns what was mapped there, for the owners of the files (`munmap`).
    fn unmap(&self, range: Range) -> Result<Removed<Mapping>, Error> {
        self.change(|txn| txn.take_range(range))
    }

    /// Changes what is allowed (`mprotect`).
    fn protect(&self, range: Range, allowed: u8) -> Result<(), Error> {
        let change = |_, mapping: &Mapping| Mapping {
            allowed,
            ..*mapping
        };
        self.change(|txn| txn.modify_range(range, change))
    }

    /// Makes a range of pages longer or shorter, and moves it to another place if there is no room
    /// (`mremap` with `MREMAP_MAYMOVE`). Only a range within one mapping. Returns where it is.
    fn remap(&self, range: Range, pages: u64) -> Result<Option<Range>, Error> {
        let (start, end) = range.clone().into_inner();
        let mut txn = self.0.begin();
        let found = txn
            .view()
            .get_entry(start)
            .map(|(entry, value)| (entry, *value));
        let Some((entry, mapping)) = found.filter(|(entry, _)| entry.contains(&end)) else {
            return Ok(None);
        };
        let mapping = mapping.behind(start - entry.start());
        let last = start + pages - 1;
        let shorter = last <= end;
        let there = if shorter {
            if last < end {
                txn.clear_range(last + 1..=end)?;
            }
            start..=last
        } else if last < PAGES && txn.view().range(end + 1..=last).next().is_none() {
            txn.store(start..=last, mapping)?;
            start..=last
        } else {
            // The old place may be part of the new one.
            txn.clear_range(range)?;
            match txn.alloc_range(pages, Space::window(), mapping) {
                Ok(place) => place,
                // Dropped, the transaction has changed nothing.
                Err(_) => return Ok(None),
            }
        };
        txn.commit();
        Ok(Some(there))
    }

    /// Lets a stack grow down to a page, if guard pages are left below (a page fault).
    fn grow(&self, to: u64) -> Result<bool, Error> {
        let mut txn = self.0.begin();
        let view = txn.view();
        let Some((stack, mapping)) = view.next_after(to) else {
            return Ok(false);
        };
        let (stack, mapping) = (stack, *mapping);
        let free = to.saturating_sub(GUARD)..=stack.start() - 1;
        if !mapping.grows || view.range(free).next().is_some() {
            return Ok(false);
        }
        txn.store_coalescing(to..=*stack.end(), mapping)?;
        txn.commit();
        Ok(true)
    }
}

/// What a page must be.
type Page = Option<Mapping>;

/// The array of pages, and the same calls.
struct Array(Vec<Page>);

impl Array {
    fn pages(&mut self, range: &Range) -> &mut [Page] {
        &mut self.0[*range.start() as usize..=*range.end() as usize]
    }

    fn is_free(&self, from: u64, pages: u64) -> bool {
        let pages = &self.0[from as usize..(from + pages) as usize];
        pages.iter().all(Option::is_none)
    }

    fn map(&mut self, range: &Range, mapping: Mapping) {
        for (by, page) in (0..).zip(self.pages(range)) {
            *page = Some(mapping.behind(by));
        }
    }

    /// The place that a search from the top down takes, among those that `take` wants.
    fn place(&self, pages: u64, mut take: impl FnMut(u64) -> bool) -> Option<u64> {
        let places = (0..=PAGES - pages).rev();
        places
            .into_iter()
            .find(|from| take(*from) && self.is_free(*from, pages))
    }

    fn nearest(&self, hint: u64, pages: u64) -> Option<u64> {
        let free = |from: &u64| *from <= PAGES - pages && self.is_free(*from, pages);
        (0..=PAGES).find_map(|by| {
            let (above, below) = (hint + by, hint.checked_sub(by));
            Some(above).filter(free).or(below.filter(free))
        })
    }
}

/// Compares a place with the array's, and maps it there.
fn mapped(array: &mut Array, place: Result<Range, Error>, wanted: Option<u64>, mapping: Mapping) {
    let place = place.ok();
    assert_eq!(place.as_ref().map(|range| *range.start()), wanted);
    if let Some(range) = place {
        array.map(&range, mapping);
    }
}

/// Makes one operation on both.
fn step(space: &Space, array: &mut Array, rng: &mut fastrand::Rng) -> Result<(), Error> {
    let pages = rng.u64(1..=24);
    let from = rng.u64(..=PAGES - pages);
    let range = from..=from + pages - 1;
    // The mover is not for them.
    let hit = array
        .pages(&range)
        .iter()
        .flatten()
        .any(|page| page.file == MOVER);
    let mapping = Mapping {
        file: rng.u16(..4),
        allowed: rng.u8(..4),
        page: 0,
        grows: rng.u8(..4) == 0,
    };
    let mapping = match mapping.file {
        0 => mapping,
        _ => Mapping {
            page: rng.u32(..1 << 20),
            grows: false,
            ..mapping
        },
    };
    match rng.u8(..13) {
        0 => {
            let wanted = array.place(pages, |_| true);
            mapped(array, space.map(pages, mapping), wanted, mapping);
        }
        1 => {
            let wanted = array.nearest(from, pages);
            mapped(array, space.map_near(from, pages, mapping), wanted, mapping);
        }
        2 => {
            let rest = u64::from(mapping.page) % HUGE;
            let wanted = array.place(pages, |from| from % HUGE == rest);
            mapped(array, space.map_huge(pages, mapping), wanted, mapping);
        }
        3 | 4 if !hit => {
            space.map_fixed(range.clone(), mapping)?;
            array.map(&range, mapping);
        }
        5..=7 if !hit => {
            let removed = space.unmap(range.clone())?;
            let removed = removed.into_iter().flat_map(|(part, mapping)| {
                (0..=part.end() - part.start()).map(move |by| mapping.behind(by))
            });
            let there = array.pages(&range).iter_mut().filter_map(Option::take);
            assert!(removed.eq(there), "{range:?}");
        }
        8 | 9 => {
            space.protect(range.clone(), mapping.allowed)?;
            let there = array.pages(&range).iter_mut().flatten();
            there.for_each(|page| page.allowed = mapping.allowed);
        }
        10 if !hit => {
            let wanted = rng.u64(1..=24);
            if let Some(there) = space.remap(range.clone(), wanted)? {
                let first = array.pages(&range)[0].expect("it is mapped");
                let moved = there.start() != range.start();
                array.pages(&range).fill(None);
                let place = array.place(wanted, |_| true);
                assert!(
                    !moved || place == Some(*there.start()),
                    "{there:?}, {place:?}"
                );
                assert!(array.is_free(*there.start(), wanted), "{there:?}");
                array.map(&there, first);
            }
        }
        11 if !hit => {
            let to = from;
            let above = (to + 1..PAGES).find(|page| array.0[*page as usize].is_some());
            let grown = space.grow(to)?;
            let low = to.saturating_sub(GUARD);
            let wanted = above
                .and_then(|page| array.0[page as usize].filter(|_| array.is_free(low, page - low)));
            assert_eq!(grown, wanted.is_some_and(|page| page.grows), "{to}");
            if let (true, Some(page), Some(above)) = (grown, wanted, above) {
                array.map(&(to..=above - 1), page);
            }
        }
        _ => {
            // The mover goes to another place, whole.
            let there = array
                .0
                .iter()
                .position(|page| page.is_some_and(|p| p.file == MOVER));
            let old = there.expect("it is somewhere") as u64;
            let len = array
                .0
                .iter()
                .flatten()
                .filter(|page| page.file == MOVER)
                .count() as u64;
            if array.is_free(from, len.min(PAGES - from)) && from + len <= PAGES {
                space.0.move_range(old..=old + len - 1, from)?;
                let moved: Vec<Page> = array.pages(&(old..=old + len - 1)).to_vec();
                array.pages(&(old..=old + len - 1)).fill(None);
                array
                    .pages(&(from..=from + len - 1))
                    .copy_from_slice(&moved);
            }
        }
    }
    Ok(())
}

/// What is true of every version of the address space.
fn check(view: MapleView<'_, Mapping>) {
    let (mut next, mut mover) = (0, 0);
    for (range, mapping) in view {
        assert!(*range.start() >= next && *range.end() < PAGES, "{range:?}");
        next = range.end() + 1;
        if mapping.file == MOVER {
            mover += range.end() - range.start() + 1;
            // A page fault anywhere in it finds it.
            let middle = range.start() + (range.end() - range.start()) / 2;
            assert_eq!(view.get_entry(middle), Some((range.clone(), mapping)));
        }
    }
    assert_eq!(mover, 5, "pages of the mapping that moves");
}

/// So many random operations, beside two readers.
pub fn operations(count: u64) -> Result<(), Error> {
    let (space, mut array) = (Space::new(), Array(vec![None; PAGES as usize]));
    let mover = Mapping {
        page: 100,
        file: MOVER,
        allowed: 0,
        grows: false,
    };
    let place = space.map(5, mover)?;
    array.map(&place, mover);
    let over = AtomicBool::new(false);
    /// Ends the readers, also when an operation is wrong.
    struct End<'a>(&'a AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    std::thread::scope(|scope| {
        let _end = End(&over);
        for _ in 0..2 {
            scope.spawn(|| {
                let mut reader = space.0.reader("faults").expect("a slot for a reader");
                while !over.load(Ordering::Relaxed) {
                    // Moves are transactions, so a frozen view is one version of the mover.
                    check(reader.view().freeze().view());
                    reader.quiescent();
                }
            });
        }
        let mut rng = fastrand::Rng::with_seed(1);
        (0..count).try_for_each(|turn| {
            step(&space, &mut array, &mut rng)?;
            if turn % 64 == 0 {
                let view = space.0.snapshot();
                for (index, page) in (0..).zip(&array.0) {
                    let found = view.view().get_entry(index);
                    let found = found.map(|(range, m)| m.behind(index - range.start()));
                    assert_eq!(found, *page, "page {index} after {turn} operations");
                }
            }
            Ok::<(), Error>(())
        })
    })?;
    if let Err(wrong) = space.0.verify() {
        panic!("{wrong}");
    }
    println!("{count} operations, {} mappings, none wrong", space.0.len());
    Ok(())
}

/// Makes as many operations as the first argument says, or 20,000.
pub fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok());
    Ok(operations(count.unwrap_or(20_000))?)
}
