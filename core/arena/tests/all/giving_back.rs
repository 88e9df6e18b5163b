//! Memory goes back to the system in pieces: no step gives back more than [`STEP_MOST`] bytes, and
//! all steps together give back what one call would.

use sapwood_arena::{Area, Arena, ArenaOptions, Kind, PAGE, Ref, STEP_MOST};

use crate::counted::{Counted, GivenBack};

const BLOCK: usize = 64;
/// Bytes of blocks.
const BYTES: usize = 36 << 20;

fn filled() -> (Arena, GivenBack, Vec<Ref>) {
    let (region, given) = Counted::new(2 * BYTES + (4 << 20));
    let mut arena = Arena::with_region(Box::new(region), ArenaOptions::default()).unwrap();
    let block = |_| arena.alloc(BLOCK, Kind(0), Area::Nodes).unwrap();
    let blocks = (0..BYTES / BLOCK).map(block).collect();
    (arena, given, blocks)
}

fn free(arena: &mut Arena, r: Ref) {
    // SAFETY: the test allocated the block, and forgets it.
    unsafe { arena.free(r, BLOCK, Kind(0)) };
}

#[test]
fn no_step_of_an_evacuation_gives_back_more_than_its_bound() {
    for budget in [4096, u32::MAX] {
        let (mut arena, given, blocks) = filled();
        assert!(arena.begin_evacuation(Area::Nodes));
        // One of 64 is moved, so that the old memory is free.
        for (i, r) in blocks.into_iter().enumerate() {
            if i % 64 == 0 {
                arena.alloc(BLOCK, Kind(0), Area::Nodes).unwrap();
            }
            free(&mut arena, r);
        }
        assert_eq!(given.take(), 0);
        let (mut steps, mut sum) = (0, 0);
        loop {
            let step = arena.evacuation_step(Area::Nodes, budget);
            let bytes = given.take();
            assert_eq!(step.released, bytes);
            assert!(bytes <= STEP_MOST, "{bytes} bytes in step {steps}");
            (steps, sum) = (steps + 1, sum + bytes);
            if step.done {
                break;
            }
        }
        assert!(steps >= BYTES / STEP_MOST, "{steps}");
        // All but the pages of the header and of the last fragment's end.
        assert!(sum + 4 * PAGE >= BYTES, "{sum} of {BYTES}");
        assert_eq!(arena.memory().released, sum);
        arena.verify().unwrap();
    }
}

/// Gives all memory back that it can, in pieces; returns the sum.
fn in_pieces(arena: &mut Arena, given: &GivenBack) -> usize {
    let mut sum = 0;
    for _ in 0..arena.high().div_ceil(STEP_MOST) {
        let bytes = arena.release_free(STEP_MOST / PAGE);
        assert!(bytes <= STEP_MOST, "{bytes} bytes");
        // Above the frontier, the last page counts, of which a part was in use.
        let pages = given.take();
        assert!(pages <= bytes && bytes < pages + PAGE);
        sum += bytes;
        arena.verify().unwrap();
    }
    assert_eq!(arena.release_free(usize::MAX), 0);
    sum
}

#[test]
fn free_memory_goes_back_in_pieces_of_the_budget() {
    for falls in [false, true] {
        let (mut arena, given, mut blocks) = filled();
        // The first block stays. The frontier falls if the last ones become free first.
        let stays = blocks.remove(0);
        if falls {
            blocks.reverse();
        }
        for &r in &blocks {
            free(&mut arena, r);
        }
        assert_eq!(arena.frontier() < BYTES / 2, falls);
        assert!(arena.high() >= BYTES);
        let sum = in_pieces(&mut arena, &given);
        // What the next blocks are cut from stays.
        assert!(sum + (BYTES / 16) >= BYTES, "{sum} of {BYTES}");
        let memory = arena.memory();
        assert!(memory.committed <= BYTES / 16, "{memory:?}");
        // It is used again.
        for _ in &blocks {
            arena.alloc(BLOCK, Kind(0), Area::Nodes).unwrap();
        }
        arena.verify().unwrap();
        assert!(arena.memory().committed >= BYTES);
        assert_eq!(arena.area_of(stays), Area::Nodes);
    }
}

#[test]
fn memory_comes_in_small_pages_when_told() {
    let (region, _) = Counted::new(8 << 20);
    let taken = region.taken();
    let mut arena = Arena::with_region(Box::new(region), ArenaOptions::default()).unwrap();
    for small in [true, false] {
        arena.use_small_pages(small);
        let before = (taken.small(), taken.large());
        arena.alloc(1 << 20, Kind(0), Area::Nodes).unwrap();
        let more = (taken.small() - before.0, taken.large() - before.1);
        assert_eq!(more, if small { (1, 0) } else { (0, 1) });
    }
}
