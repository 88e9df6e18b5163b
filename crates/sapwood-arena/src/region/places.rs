//! Places in the address space for regions that grow where they lie: far from each other, so that
//! the addresses behind each of them stay free.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// The part of the address space in which the places lie: 64 TiB, in which Linux puts nothing
/// unless a program asks for it. Programs, heaps, libraries and stacks lie above it.
#[cfg(all(target_pointer_width = "64", not(sapwood_exact_loads)))]
const FROM: usize = 0x1000_0000_0000;
#[cfg(all(target_pointer_width = "64", not(sapwood_exact_loads)))]
const SPAN: usize = 1 << 46;
/// The thread sanitizer, for which the loads are exact, ends programs that map memory there. It
/// leaves these 4 TiB to them.
#[cfg(all(target_pointer_width = "64", sapwood_exact_loads))]
const FROM: usize = 0x7a00_0000_0000;
#[cfg(all(target_pointer_width = "64", sapwood_exact_loads))]
const SPAN: usize = 1 << 42;
/// Small address spaces have no room for distances.
#[cfg(not(target_pointer_width = "64"))]
const FROM: usize = 0;
#[cfg(not(target_pointer_width = "64"))]
const SPAN: usize = 0;

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

/// A place for a region, by its number. It is given back when this is dropped.
#[derive(Debug)]
pub(super) struct Place(u32);

impl Place {
    /// A place that nobody else has been given lately. Another mapping may lie there.
    pub(super) fn take() -> Option<Place> {
        if SPAN == 0 {
            return None;
        }
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
        Some(Place(number))
    }

    /// The address. The bits of the number are reversed, so that each new place halves the largest
    /// distance: of 8,192 places any two are 8 GiB apart.
    pub(super) fn address(&self) -> usize {
        let turned = self.0.reverse_bits() >> (32 - BITS);
        FROM + turned as usize * (SPAN >> BITS)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
        GIVEN_BACK[self.0 as usize % GIVEN_BACK.len()].store(self.0 + 1, Ordering::Relaxed);
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

    #[test]
    fn places_are_far_from_each_other() {
        let places: Vec<usize> = (0..8192)
            .map(|number| core::mem::ManuallyDrop::new(Place(number)).address())
            .collect();
        let mut sorted = places.clone();
        sorted.sort_unstable();
        assert!(
            sorted
                .windows(2)
                .all(|pair| pair[1] - pair[0] == SPAN / 8192)
        );
        assert!(sorted[0] == FROM && sorted[8191] < FROM + SPAN);
        // The first ones are farther from each other.
        let mut first = places[..64].to_vec();
        first.sort_unstable();
        assert!(first.windows(2).all(|pair| pair[1] - pair[0] == SPAN / 64));
    }
}
