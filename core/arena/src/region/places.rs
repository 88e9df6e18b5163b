//! Places in the address space for regions that grow where they lie: far from each other, so that
//! the addresses behind each of them stay free.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// A part of the address space in which places lie: where it begins, and how long it is.
#[derive(Clone, Copy)]
struct Part {
    from: usize,
    span: usize,
}

/// 64 TiB in which Linux puts nothing unless a program asks for it. Programs, heaps, libraries and
/// stacks lie above it.
#[cfg(target_pointer_width = "64")]
const WIDE: Part = Part {
    from: 0x1000_0000_0000,
    span: 1 << 46,
};
/// 4 TiB that the thread sanitizer leaves to programs. It has all of the other part, and ends
/// programs that ask for memory there.
#[cfg(target_pointer_width = "64")]
const NARROW: Part = Part {
    from: 0x7a00_0000_0000,
    span: 1 << 42,
};

/// The part that this process uses: 0 before anybody has looked, then 1 for [`WIDE`], and 2 for
/// [`NARROW`].
#[cfg(target_pointer_width = "64")]
static CHOSEN: AtomicU32 = AtomicU32::new(0);

/// The part in which the places of this process lie.
#[cfg(target_pointer_width = "64")]
fn part() -> Option<Part> {
    let chosen = match CHOSEN.load(Ordering::Relaxed) {
        // Whoever looks at the same time sees the same.
        0 => {
            // Systems that answer as if everything were mapped tell nothing.
            let is_narrow = is_taken(WIDE) && !is_taken(NARROW);
            let chosen = if is_narrow { 2 } else { 1 };
            CHOSEN.store(chosen, Ordering::Relaxed);
            chosen
        }
        chosen => chosen,
    };
    Some(if chosen == 2 { NARROW } else { WIDE })
}

/// Small address spaces have no room for distances.
#[cfg(not(target_pointer_width = "64"))]
fn part() -> Option<Part> {
    None
}

/// Whether somebody has all of a part, as the thread sanitizer has for its notes about the memory
/// of the program. Its functions cannot be looked up in all programs that have it, but its mappings
/// can be seen. Other mappings do not lie at all of these addresses.
#[cfg(target_pointer_width = "64")]
fn is_taken(part: Part) -> bool {
    const LOOKS: usize = 16;
    (0..LOOKS).all(|look| {
        // In the middle between places that are far from each other.
        let address = part.from + part.span / LOOKS * look + part.span / LOOKS / 2 + (5 << 20);
        is_mapped(address)
    })
}

/// Whether a mapping has this address of a page of the system.
#[cfg(target_pointer_width = "64")]
fn is_mapped(address: usize) -> bool {
    use rustix::io::Errno;
    use rustix::mm::{Advice, madvise};
    let page = rustix::param::page_size();
    let address = core::ptr::without_provenance_mut(address);
    // SAFETY: the advice changes no memory. It begins to read a page, if there is a file to read it
    // from, which the system may do at any time.
    let advised = unsafe { madvise(address, page, Advice::WillNeed) };
    advised != Err(Errno::NOMEM)
}

/// Places are numbered by 20 bits, so that neighbours are 64 MiB apart when all are taken.
const BITS: u32 = 20;

/// The number of regions up to which each holds addresses that it does not use yet. Each such
/// region is two mappings, and systems limit their number (Linux: 65,530).
const FEW: usize = 8192;

static NEXT: AtomicU32 = AtomicU32::new(0);
static LIVE: AtomicUsize = AtomicUsize::new(0);
/// Some places that were given back, each as its number and one. A number that finds its cell taken
/// is lost until all numbers have been handed out.
static GIVEN_BACK: [AtomicU32; 64] = [const { AtomicU32::new(0) }; 64];

/// A place for a region. It is given back when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    number: u32,
    address: usize,
}

impl Place {
    /// A place that nobody else has been given lately. Another mapping may lie there.
    pub(super) fn take() -> Option<Place> {
        let part = part()?;
        let given = GIVEN_BACK.iter().find_map(|cell| {
            let there = cell.load(Ordering::Relaxed) != 0;
            let number = if there {
                cell.swap(0, Ordering::Relaxed)
            } else {
                0
            };
            number.checked_sub(1)
        });
        let number = given.unwrap_or_else(|| next() % (1 << BITS));
        LIVE.fetch_add(1, Ordering::Relaxed);
        Some(Place {
            number,
            address: part.address(number),
        })
    }

    /// The address.
    pub(super) fn address(&self) -> usize {
        self.address
    }
}

impl Part {
    /// The address of a number. The bits of the number are reversed, so that each new place halves
    /// the largest distance: in 64 TiB, any two of 8,192 places are 8 GiB apart.
    fn address(self, number: u32) -> usize {
        let turned = number.reverse_bits() >> (32 - BITS);
        self.from + turned as usize * (self.span >> BITS)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
        let cell = &GIVEN_BACK[self.number as usize % GIVEN_BACK.len()];
        cell.store(self.number + 1, Ordering::Relaxed);
    }
}

fn next() -> u32 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Whether there are [`FEW`] regions or more: then a new one holds only the addresses that it uses.
pub(super) fn are_many() -> bool {
    LIVE.load(Ordering::Relaxed) >= FEW
}

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use super::*;
    use crate::region::{MmapRegion, Region};

    #[test]
    fn places_are_far_from_each_other() {
        for part in [WIDE, NARROW] {
            let places: Vec<usize> = (0..8192).map(|number| part.address(number)).collect();
            let mut sorted = places.clone();
            sorted.sort_unstable();
            let distance = part.span / 8192;
            assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] == distance));
            assert!(sorted[0] == part.from && sorted[8191] < part.from + part.span);
            // The first ones are farther from each other.
            let mut first = places[..64].to_vec();
            first.sort_unstable();
            let distance = part.span / 64;
            assert!(first.windows(2).all(|pair| pair[1] - pair[0] == distance));
        }
    }

    /// Under the thread sanitizer, too, which has the wide part and would end this process.
    #[test]
    fn memory_can_be_mapped_at_a_place() {
        let place = Place::take().unwrap();
        let chosen = part().unwrap();
        assert!((chosen.from..chosen.from + chosen.span).contains(&place.address()));
        assert_eq!(chosen.from == NARROW.from, is_taken(WIDE));
        assert!(!is_taken(chosen));
        let page = rustix::param::page_size();
        assert!(is_mapped((&raw const chosen).addr() / page * page));
        let mut region = MmapRegion::growing(1 << 16, 1 << 30, false).unwrap();
        region.grow(1 << 20).unwrap();
        assert!(region.len() >= 1 << 20);
    }
}
