//! Tests of slow readers: writers move whole tables while they search.

use std::vec::Vec;

use sapwood_arena::{ArenaOptions, Backing};

use super::super::alone::Together;
use super::*;

/// Memory that is not freed, so that old tables stay readable.
struct Kept<'a>(&'a mut Arena);

impl Chunks for Kept<'_> {
    fn base(&self) -> *mut u8 {
        self.0.base()
    }

    fn alloc(&mut self, bytes: usize) -> Option<Ref> {
        alloc(self.0, bytes)
    }

    unsafe fn free(&mut self, _: Ref, _: usize) {}
}

struct World {
    arena: Arena,
    index: Index<u64, true>,
    leaves: Vec<u32>,
}

fn key(i: usize) -> Vec<u8> {
    format!("key {i}").into_bytes()
}

impl World {
    fn new(alone: bool) -> Self {
        let options = ArenaOptions::default().backing(Backing::HeapFixed(32 << 20));
        let index = Index::new(7);
        World {
            arena: Arena::new(options),
            index: if alone { index.without_trie() } else { index },
            leaves: Vec::new(),
        }
    }

    fn insert(&mut self) {
        let key = key(self.leaves.len());
        let leaf = make_leaf(&mut self.arena, &key, 1);
        let (hash, len) = (self.index.hash(&key), self.leaves.len());
        let chunks = &mut Kept(&mut self.arena);
        // SAFETY: nobody but this test uses the index, and nothing is freed.
        unsafe {
            match self.index.alone {
                true => assert!(self.index.insert_alone(chunks, hash, leaf, || len)),
                false => self.index.insert(chunks, hash, leaf),
            }
            self.index.step(chunks, len + 1);
        }
        self.leaves.push(leaf);
    }

    /// The number of tables from this one to the last.
    fn tables_from(&self, at: u32) -> usize {
        // SAFETY: as above.
        let next = unsafe { Table::at(self.arena.base(), at) }
            .next()
            .load(Ordering::Acquire);
        1 + if next == 0 { 0 } else { self.tables_from(next) }
    }
}

#[test]
fn a_lookup_ends_however_many_tables_were_moved() {
    for alone in [false, true] {
        let mut world = World::new(alone);
        world.insert();
        let first = world.index.table.load(Ordering::Acquire);
        while world.tables_from(first) < HOPS + 3 {
            world.insert();
        }
        let base = world.arena.base();
        for (i, leaf) in world.leaves.iter().enumerate() {
            let (key, hash) = (key(i), world.index.hash(&key(i)));
            // SAFETY: as above; the first table is still there.
            unsafe {
                let late = Table::at(base, first);
                assert_eq!(world.index.follow(late, hash, &key, HOPS), None);
                let all = world.index.follow(late, hash, &key, usize::MAX);
                assert_eq!(all, Some(Found::Leaf(*leaf)));
                let expected = match alone {
                    true => Found::Leaf(*leaf),
                    false => Found::AskTrie,
                };
                assert_eq!(world.index.find_late(base, hash, &key), expected);
                let absent = world.index.find_late(base, hash, b"absent");
                assert!(matches!(
                    (alone, absent),
                    (true, Found::Absent) | (false, Found::AskTrie)
                ));
            }
        }
        // The turn is free again.
        world.insert();
    }
}

#[test]
fn a_step_of_a_walk_ends_however_many_tables_were_moved() {
    let mut world = World::new(true);
    world.insert();
    let first = world.index.table.load(Ordering::Acquire);
    while world.tables_from(first) < HOPS + 3 {
        world.insert();
    }
    // Lookups begin in the first table again.
    let newest = world.index.table.swap(first, Ordering::AcqRel);
    let mut out = Together::new();
    let base = world.arena.base();
    assert!(world.index.work.turn.swap(1, Ordering::AcqRel) == 0);
    std::thread::scope(|scope| {
        let (index, base) = (&world.index, base.expose_provenance());
        let walk = scope.spawn(move || {
            let base = core::ptr::with_exposed_provenance_mut(base);
            let mut out = Together::new();
            // SAFETY: nothing is freed.
            let next = unsafe { index.leaves_from(base, 0, &mut out) };
            (next, out.len())
        });
        // The step waits for the turn, and then reads the table that is current.
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!walk.is_finished());
        index.table.store(newest, Ordering::Release);
        index.end_turn();
        let (next, found) = walk.join().unwrap();
        assert!(next.is_some() && found > 0);
    });
    let (mut from, mut seen) = (Some(0), 0);
    while let Some(at) = from {
        // SAFETY: as above.
        from = unsafe { world.index.leaves_from(base, at, &mut out) };
        seen += out.len();
    }
    assert_eq!(seen, world.leaves.len());
}
