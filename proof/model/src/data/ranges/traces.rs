//! Generated changes of the address spaces of three programs while they start, after the system
//! calls of real programs.

use std::ops::RangeInclusive;

use fastrand::Rng;

use super::{Change, LAST, PAGE, span};
use crate::oracle::RangeMap;

/// The changes of one address space, which is empty at first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The name of the program.
    pub name: &'static str,
    /// Its changes: [`Change::Store`] and [`Change::Clear`].
    pub changes: Vec<Change>,
}

/// Three traces, which are the same in each run:
///
/// - `static`: a program without libraries. It has its image, a heap that grows step by step, and a
///   stack that grows down.
/// - `dynamic`: a program with 24 libraries. Each library is reserved whole, and then mapped piece
///   by piece over the reservation. Large blocks of memory are mapped and unmapped, and libraries
///   are unloaded.
/// - `threads`: the same with 64 threads. Each has a stack after a guard page, and some have a heap
///   that is cut to its alignment. Threads end, and others take their places.
#[must_use]
pub fn traces() -> [Trace; 3] {
    [
        Trace {
            name: "static",
            changes: {
                let mut space = Space::new(1);
                space.exec(0x400, &[1, 150, 40, 6]);
                space.grow_heap(30);
                space.grow_stack(12);
                space.changes
            },
        },
        Trace {
            name: "dynamic",
            changes: {
                let mut space = Space::new(2);
                space.start_with_libraries();
                space.grow_heap(60);
                space.large_blocks(120);
                space.grow_stack(8);
                space.changes
            },
        },
        Trace {
            name: "threads",
            changes: {
                let mut space = Space::new(3);
                space.start_with_libraries();
                space.threads(64);
                space.grow_heap(20);
                space.large_blocks(60);
                space.changes
            },
        },
    ]
}

/// An address space and its changes. All numbers are pages.
struct Space {
    mapped: RangeMap<()>,
    changes: Vec<Change>,
    rng: Rng,
    /// The first page of the heap, and the page after its end.
    heap: (u64, u64),
    /// The lowest page of the stack.
    stack: u64,
}

/// The page after the last one of the stack.
const STACK_END: u64 = LAST / PAGE - 0x1000;
/// The page above all mappings, which are placed at the highest gap below it.
const MAPS_END: u64 = STACK_END - 0x2_0000;
/// The pages of a thread's heap, whose start is a multiple of this number.
const THREAD_HEAP: u64 = 0x4000;

impl Space {
    fn new(seed: u64) -> Self {
        Self {
            mapped: RangeMap::new(),
            changes: Vec::new(),
            rng: Rng::with_seed(seed),
            heap: (0, 0),
            stack: STACK_END,
        }
    }

    fn store(&mut self, page: u64, pages: u64) {
        self.mapped.store(span(page, pages), ());
        self.changes.push(Change::Store(span(page, pages)));
    }

    fn clear(&mut self, page: u64, pages: u64) {
        self.mapped.clear_range(span(page, pages));
        self.changes.push(Change::Clear(span(page, pages)));
    }

    /// The highest free place for a mapping.
    fn place(&self, pages: u64) -> u64 {
        let within: RangeInclusive<u64> = 0..=MAPS_END * PAGE - 1;
        let found = self.mapped.find_gap_rev(pages * PAGE, PAGE, within);
        found.expect("47 bits have room").start() / PAGE
    }

    fn map(&mut self, pages: u64) -> u64 {
        let page = self.place(pages);
        self.store(page, pages);
        page
    }

    /// Starts a program: its stack, its segments, the kernel's pages, and the begin of the heap.
    fn exec(&mut self, image: u64, segments: &[u64]) {
        self.grow_stack(1);
        self.segments(image, segments);
        let kernel = self.place(6);
        self.store(kernel, 4);
        self.store(kernel + 4, 2);
        let end = image + segments.iter().sum::<u64>();
        let from = end + self.rng.u64(1..0x2000);
        self.heap = (from, from + 33);
        self.store(from, 33);
    }

    /// Maps segments one after the other. The first page of the last segment becomes read-only
    /// after its relocation.
    fn segments(&mut self, mut page: u64, segments: &[u64]) {
        for pages in segments {
            self.store(page, *pages);
            page += pages;
        }
        let last = segments.last().expect("an image has segments");
        self.store(page - last, 1);
    }

    /// Maps a library: first all of its pages as a reservation, then its segments over that.
    fn library(&mut self) -> (u64, u64) {
        let mut segment = |most: u64| self.rng.u64(1..=most);
        let segments = [segment(12), segment(200), segment(60), 1 + segment(8)];
        let pages = segments.iter().sum();
        let page = self.map(pages);
        self.segments(page, &segments);
        (page, pages)
    }

    fn start_with_libraries(&mut self) {
        self.exec(0x5_5555_5554, &[2, 60, 14, 5]);
        self.segments(STACK_END - 0x1_0000, &[1, 38, 11, 4]);
        let cache = self.map(21);
        for _ in 0..24 {
            self.library();
            if self.rng.u8(..4) == 0 {
                self.map(2);
            }
        }
        self.clear(cache, 21);
    }

    /// Grows the heap at its end, and sometimes shrinks it.
    fn grow_heap(&mut self, times: usize) {
        for _ in 0..times {
            let (from, end) = self.heap;
            let by = self.rng.u64(1..=64);
            if self.rng.u8(..5) == 0 && end - from > 2 * by {
                self.clear(end - by, by);
                self.heap.1 = end - by;
            } else {
                self.store(from, end + by - from);
                self.heap.1 = end + by;
            }
        }
    }

    fn grow_stack(&mut self, times: usize) {
        for _ in 0..times {
            self.stack -= self.rng.u64(1..=33);
            self.store(self.stack, STACK_END - self.stack);
        }
    }

    /// Maps, shortens and unmaps large blocks, and loads and unloads libraries between.
    fn large_blocks(&mut self, times: usize) {
        let mut blocks = Vec::new();
        for _ in 0..times {
            match self.rng.u8(..10) {
                0..5 => {
                    let pages = self.rng.u64(33..=1024);
                    blocks.push((self.map(pages), pages));
                }
                5 => blocks.push(self.library()),
                _ if blocks.is_empty() => {}
                6 => {
                    let at = self.rng.usize(..blocks.len());
                    let (page, pages) = blocks[at];
                    self.clear(page + pages / 2, pages - pages / 2);
                    blocks[at].1 = pages / 2;
                }
                _ => {
                    let at = self.rng.usize(..blocks.len());
                    let (page, pages) = blocks.swap_remove(at);
                    self.clear(page, pages);
                }
            }
        }
    }

    /// Starts a thread: maps 8 MiB of stack after a guard page, and sometimes a heap, which is cut
    /// from a mapping of twice its size and opened step by step.
    fn thread(&mut self) -> u64 {
        let stack = self.map(2049);
        self.store(stack + 1, 2048);
        if self.rng.u8(..4) == 0 {
            let all = self.map(2 * THREAD_HEAP);
            let heap = all.next_multiple_of(THREAD_HEAP);
            if heap > all {
                self.clear(all, heap - all);
            }
            let end = heap + THREAD_HEAP;
            if end < all + 2 * THREAD_HEAP {
                self.clear(end, all + 2 * THREAD_HEAP - end);
            }
            let mut open = 33;
            for _ in 0..self.rng.usize(1..6) {
                self.store(heap, open);
                open += self.rng.u64(1..=33);
            }
        }
        stack
    }

    fn threads(&mut self, count: usize) {
        let mut stacks: Vec<_> = (0..count).map(|_| self.thread()).collect();
        self.rng.shuffle(&mut stacks);
        for stack in stacks.drain(..count / 2) {
            self.clear(stack, 2049);
        }
        for _ in 0..count / 4 {
            self.thread();
        }
    }
}
