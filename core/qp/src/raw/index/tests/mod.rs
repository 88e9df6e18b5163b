//! Tests of the index, beside a trie and alone, against a hash map of the standard library, by one
//! thread and by many.

#[cfg(not(shuttle))]
mod alone;
#[cfg(not(shuttle))]
mod owned;
#[cfg(shuttle)]
mod schedules;
#[cfg(not(shuttle))]
mod shared;
#[cfg(not(shuttle))]
mod slow;

use sapwood_arena::{Area, Arena, Kind, Ref};

use super::bucket::Words;
#[cfg(not(shuttle))]
use super::table::{self, WINDOW};
use super::*;
#[cfg(not(shuttle))]
use crate::raw::tree::ref_of;
use crate::raw::tree::{LEAF_KIND, leaf_cell};

const INDEX_KIND: Kind = Kind(5);

/// Makes a leaf with a key and a value.
fn make_leaf(arena: &mut Arena, key: &[u8], value: u64) -> u32 {
    let size = LeafOf::<u64>::size_with(key.len(), 0);
    let cell = leaf_cell(arena.alloc(size, LEAF_KIND, Area::Leaves).unwrap());
    // SAFETY: the block is new and has that size.
    unsafe { LeafOf::<u64>::write(arena.base().add(byte_of(cell)), key, value) };
    cell
}

#[test]
fn words_find_tags() {
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..if cfg!(miri) { 50 } else { 20_000 } {
        let mut words = Words {
            low: 0,
            high: random.u64(..) << 32,
        };
        let tags: [u8; 12] =
            core::array::from_fn(|_| [0, 1, 2, 127, 128, 129, 255][random.usize(..7)]);
        for (slot, tag) in tags.into_iter().enumerate() {
            words.set_tag(slot, tag);
        }
        for tag in [0, 1, 2, 127, 128, 129, 255, random.u8(..)] {
            let expected = (0..12)
                .filter(|slot| tags[*slot] == tag)
                .fold(0, |bits, slot| bits | 1 << slot);
            assert_eq!(words.matches(tag), expected, "{tags:?} {tag}");
            assert_eq!(words.slots_with(tag), expected, "{tags:?} {tag}");
        }
        assert_eq!(
            words.used().count_ones() as usize,
            tags.iter().filter(|t| **t != 0).count()
        );
    }
}

#[test]
fn words_count() {
    let mut words = Words { low: 7, high: 9 };
    for i in 0..bucket::OUT_MAX {
        assert_eq!((words.out(), words.reach()), (i, (i / 7).min(40)));
        words.go_out(((i + 1) / 7).min(40), 3 + (i % 2 * 8) as u8);
        assert!(words.may_be_behind(11) && !words.may_be_behind(4));
        assert_eq!(words.filter(), 1 << 3);
    }
    for i in (0..bucket::OUT_MAX).rev() {
        words.come_back();
        let reach = if i == 0 {
            0
        } else {
            (bucket::OUT_MAX / 7).min(40)
        };
        assert_eq!((words.out(), words.reach()), (i, reach));
        assert_eq!(words.may_be_behind(3), i > 0);
    }
    assert_eq!(words.filter(), 0);
    for i in 0..bucket::STICKY - 1 {
        assert_eq!(words.has_all(), i == 0);
        assert_eq!((words.out(), words.spilled()), (0, i));
        words.spill();
    }
    words.unspill();
    assert_eq!(words.spilled(), bucket::STICKY - 2);
    words.stick();
    words.spill();
    words.unspill();
    assert_eq!(words.spilled(), bucket::STICKY);
    assert!(!words.is_moved() && !words.is_locked());
    words.set_moved();
    assert!(words.is_moved() && words.out() == 0);
    assert_eq!((words.low, words.high as u32), (7, 9));
}

#[cfg(not(shuttle))]
#[test]
fn homes_are_in_the_order_of_the_hashes() {
    let mut arena = Arena::new(Default::default());
    let mut plain = owned::Plain::new(&mut arena);
    let mut taken = Taken::default();
    for homes in [1, 2, 3, 7, 8, 100, 1000, 70_001] {
        let at = table::make(&mut plain, homes, &mut taken).unwrap();
        // SAFETY: the table was made just now.
        let t = unsafe { Table::at(plain.base(), at) };
        assert!(t.chunks() >= 1 && t.total() - t.homes() < WINDOW);
        let mut before = None;
        for home in (0..homes).step_by(if cfg!(miri) { 97 } else { 1 }) {
            let (least, greatest) = t.hashes(home);
            assert_eq!((t.home(least), t.home(greatest)), (home, home));
            if let Some(before) = before.replace(greatest).filter(|_| !cfg!(miri)) {
                assert_eq!(least, before + 1);
            }
        }
        assert_eq!(t.hashes(homes - 1).1, u64::MAX);
        // SAFETY: nobody uses it.
        unsafe { table::free(&mut plain, at, &mut taken) };
    }
    assert_eq!(taken, Taken::default());
}

/// Allocates a block of an arena for an index.
fn alloc(arena: &mut Arena, bytes: usize) -> Option<Ref> {
    arena.alloc(bytes, INDEX_KIND, Area::Nodes).ok()
}

/// Frees a block. It is overwritten first, so that a late read is noticed.
///
/// # Safety
/// As for [`Arena::free`].
#[cfg(not(shuttle))]
unsafe fn wipe(arena: &mut Arena, block: Ref, bytes: usize, kind: Kind) {
    // SAFETY: the caller's promise.
    unsafe {
        let p = arena.base().add(block.byte_offset());
        p.write_bytes(0xdb, bytes);
        arena.free(block, bytes, kind);
    }
}

/// Frees a leaf that nothing should name any more.
///
/// # Safety
/// `leaf` is a leaf of the arena, and nobody uses it afterwards.
#[cfg(not(shuttle))]
unsafe fn drop_leaf(arena: &mut Arena, leaf: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        let size = LeafOf::<u64>::size(arena.base().add(byte_of(leaf)));
        wipe(arena, ref_of(leaf), size, LEAF_KIND);
    }
}
