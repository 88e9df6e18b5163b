//! A region that counts the bytes that are given back, for tests that no step gives back too many.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use sapwood_arena::{HeapRegion, PAGE, Region};

/// What was given back since it was last asked.
#[derive(Clone, Default)]
pub struct GivenBack(Arc<Mutex<Vec<Range<usize>>>>);

/// How many times memory was taken: in pages of the least size, and otherwise.
#[derive(Clone, Default)]
pub struct Taken(Arc<[AtomicUsize; 2]>);

impl Taken {
    pub fn small(&self) -> usize {
        self.0[0].load(Relaxed)
    }

    pub fn large(&self) -> usize {
        self.0[1].load(Relaxed)
    }
}

impl GivenBack {
    /// The bytes in whole pages, and whether no page was given back twice.
    pub fn take(&self) -> usize {
        let mut ranges = std::mem::take(&mut *self.0.lock().unwrap());
        ranges.sort_by_key(|range| range.start);
        for pair in ranges.windows(2) {
            assert!(pair[0].end <= pair[1].start, "given back twice: {pair:?}");
        }
        ranges.iter().map(ExactSizeIterator::len).sum()
    }
}

/// Memory of the heap that does not move.
pub struct Counted {
    heap: HeapRegion,
    given: GivenBack,
    taken: Taken,
}

impl Counted {
    pub fn new(bytes: usize) -> (Self, GivenBack) {
        let given = GivenBack::default();
        let region = Counted {
            heap: HeapRegion::fixed(bytes).unwrap(),
            given: given.clone(),
            taken: Taken::default(),
        };
        (region, given)
    }

    pub fn taken(&self) -> Taken {
        self.taken.clone()
    }
}

// SAFETY: the heap's region keeps the trait's promises, and this one has the same memory. What is
// given back keeps its contents, which the trait allows.
unsafe impl Region for Counted {
    fn base(&self) -> NonNull<u8> {
        self.heap.base()
    }

    fn len(&self) -> usize {
        self.heap.len()
    }

    fn capacity(&self) -> usize {
        self.heap.capacity()
    }

    fn extend(&mut self, _: usize) -> bool {
        false
    }

    fn is_stable(&self) -> bool {
        true
    }

    fn release(&mut self, range: Range<usize>) -> bool {
        let pages = range.start.next_multiple_of(PAGE)..range.end / PAGE * PAGE;
        if pages.is_empty() {
            return false;
        }
        self.given.0.lock().unwrap().push(pages);
        true
    }

    fn will_use(&mut self, end: usize) -> usize {
        self.taken.0[1].fetch_add(1, Relaxed);
        end.next_multiple_of(PAGE)
    }

    fn will_use_small(&mut self, end: usize) -> usize {
        self.taken.0[0].fetch_add(1, Relaxed);
        end.next_multiple_of(PAGE)
    }
}
