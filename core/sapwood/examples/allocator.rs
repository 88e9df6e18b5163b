//! The address space of a process: gaps are found, stores are planned, and their memory is
//! reserved, so that the store itself cannot fail.
//!
//! `cargo run --release -p sapwood --example allocator`

use std::ops::RangeInclusive;
use std::thread;

use sapwood::maple::Error;
use sapwood::maple::{MapleMap, Window};

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Range = RangeInclusive<u64>;

const PAGE: u64 = 4096;
/// The addresses that a process may use.
const SPACE: Range = 0x1_0000..=0x7FFF_FFFF;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mapping {
    File(u32),
    Anonymous,
    Guard,
}

struct AddressSpace {
    mappings: MapleMap<Mapping>,
}

impl AddressSpace {
    /// Maps pages at the lowest gap that has room for them.
    fn map(&self, pages: u64, mapping: Mapping) -> Result<Range, Error> {
        Ok(self
            .mappings
            .alloc_range(pages * PAGE, Window::new(SPACE).aligned(PAGE), mapping)?)
    }

    /// Maps a range that the caller chooses, and replaces what it overlaps. All steps that can fail
    /// come first. Then `commit` may take locks and change page tables, because no later step
    /// fails.
    fn map_fixed(
        &self,
        range: Range,
        mapping: Mapping,
        commit: impl FnOnce(),
    ) -> Result<(), Error> {
        let plan = self.mappings.plan_store(range, &mapping)?;
        // This is the only step that takes memory. It holds the writers' lock until the store.
        let reservation = self.mappings.reserve(plan)?;
        commit();
        reservation.store(mapping);
        Ok(())
    }

    fn unmap(&self, range: Range) -> Result<(), Error> {
        self.mappings.clear_range(range)
    }
}

/// Maps, reserves and unmaps ranges of an address space.
pub fn main() -> Result<(), Failure> {
    let space = AddressSpace {
        mappings: MapleMap::new(),
    };
    let text = space.map(16, Mapping::File(3))?;
    let heap = space.map(64, Mapping::Anonymous)?;
    assert_eq!(text, 0x1_0000..=0x1_FFFF);
    assert_eq!(*heap.start(), text.end() + 1);

    // A guard page in the middle of the heap makes three entries of one.
    let middle = heap.start() + 32 * PAGE;
    let mut committed = false;
    space.map_fixed(middle..=middle + PAGE - 1, Mapping::Guard, || {
        committed = true
    })?;
    assert!(committed);
    assert_eq!(space.mappings.len(), 4);
    assert_eq!(space.mappings.get(middle - 1), Some(Mapping::Anonymous));
    assert_eq!(space.mappings.get(middle), Some(Mapping::Guard));

    // A snapshot does not change, as a forked process or a core dump needs it.
    let before = space.mappings.snapshot();

    // A reservation for two changes of ranges that are not known yet takes memory for the worst
    // case.
    let mut later = space.mappings.reserve_unknown(2)?;
    let reader = thread::scope(|scope| {
        // Meanwhile a reader serves page faults without a lock.
        scope
            .spawn(|| space.mappings.read(|view| view.get(*text.start()).copied()))
            .join()
            .expect("no thread panics")
    });
    assert_eq!(reader, Some(Mapping::File(3)));
    later.store(0x4000_0000..=0x4000_FFFF, Mapping::File(4))?;
    later.clear_range(0x4000_8000..=0x4000_FFFF)?;
    assert!(matches!(
        later.clear_range(SPACE).unwrap_err(),
        Error::ReservationUsedUp
    ));
    drop(later);
    assert_eq!(
        space.mappings.get_entry(0x4000_0000),
        Some((0x4000_0000..=0x4000_7FFF, Mapping::File(4)))
    );

    assert_eq!(before.view().len(), 4);
    assert_eq!(before.view().get(0x4000_0000), None);
    drop(before);

    // A stack is at the highest gap.
    let top = Window::new(SPACE).aligned(PAGE).from_end();
    let plan = space
        .mappings
        .plan_alloc(8 * PAGE, top, &Mapping::Anonymous)?;
    let reservation = space.mappings.reserve(plan)?;
    assert_eq!(reservation.range(), 0x7FFF_8000..=0x7FFF_FFFF);
    reservation.store(Mapping::Anonymous);

    // The unmapped range is the lowest gap again. A request that does not fit is an error.
    space.unmap(text.clone())?;
    assert_eq!(
        space.mappings.find_gap(16 * PAGE, SPACE),
        Some(text.clone())
    );
    assert_eq!(space.map(8, Mapping::Anonymous)?.start(), text.start());
    let refused = space.map(0x8_0000, Mapping::Anonymous).unwrap_err();
    println!("refused: {refused}");
    space.mappings.verify()?;
    Ok(())
}
