//! Tests of an index without a trie: every key has a slot, whether there is memory or not.

use std::collections::HashMap;
use std::vec::Vec;

use sapwood_arena::{ArenaOptions, Backing};

use super::super::alone::Together;
use super::*;

/// A memory that refuses requests at times, and overwrites blocks that are freed.
struct Fickle<'a> {
    arena: &'a mut Arena,
    /// Number of requests that succeed before one is refused.
    left: &'a mut u32,
    /// Whether whole tables must not be freed for now.
    held: bool,
}

impl Chunks for Fickle<'_> {
    fn base(&self) -> *mut u8 {
        self.arena.base()
    }

    fn alloc(&mut self, bytes: usize) -> Option<Ref> {
        *self.left = self.left.checked_sub(1)?;
        alloc(self.arena, bytes)
    }

    fn may_free(&mut self, bytes: usize) -> bool {
        !self.held || bytes <= 8192
    }

    unsafe fn free(&mut self, block: Ref, bytes: usize) {
        // SAFETY: the caller's promise, and there are no readers.
        unsafe { wipe(self.arena, block, bytes, INDEX_KIND) };
    }
}

struct World {
    arena: Arena,
    index: Index<u64, true>,
    oracle: HashMap<Vec<u8>, u32>,
    left: u32,
    held: bool,
    refused: usize,
}

impl World {
    fn new(mask: u64) -> Self {
        let options = ArenaOptions::default().backing(Backing::HeapFixed(32 << 20));
        let mut index = Index::new(5).without_trie();
        index.mask = mask;
        World {
            arena: Arena::new(options),
            index,
            oracle: HashMap::new(),
            left: u32::MAX,
            held: false,
            refused: 0,
        }
    }

    fn step(&mut self) {
        let mut chunks = Fickle {
            arena: &mut self.arena,
            left: &mut self.left,
            held: self.held,
        };
        // SAFETY: nobody but this test uses the index and the arena.
        unsafe { self.index.step(&mut chunks, self.oracle.len()) };
    }

    fn set(&mut self, key: &[u8], there: bool) {
        let hash = self.index.hash(key);
        let old = self.oracle.remove(key);
        if there {
            let leaf = make_leaf(&mut self.arena, key, 1);
            let mut chunks = Fickle {
                arena: &mut self.arena,
                left: &mut self.left,
                held: self.held,
            };
            let len = self.oracle.len() + usize::from(old.is_some());
            // SAFETY: as above; `old` was inserted with this key.
            let done = unsafe {
                match old {
                    Some(old) => {
                        self.index.replace(chunks.base(), hash, old, leaf);
                        true
                    }
                    None => self.index.insert_alone(&mut chunks, hash, leaf, || len),
                }
            };
            if done {
                self.oracle.insert(key.to_vec(), leaf);
            } else {
                self.refused += 1;
                // SAFETY: as above.
                unsafe { drop_leaf(&mut self.arena, leaf) };
            }
        } else if let Some(old) = old {
            // SAFETY: as above.
            unsafe { self.index.remove(self.arena.base(), hash, old) };
        }
        if let Some(old) = old {
            // SAFETY: as above.
            unsafe { drop_leaf(&mut self.arena, old) };
        }
        self.step();
    }

    /// The number of tables in use.
    fn tables(&self) -> usize {
        let mut at = self.index.table.load(Ordering::Relaxed);
        let mut tables = 0;
        while at != 0 {
            tables += 1;
            // SAFETY: the table is in the chain of tables in use.
            let table = unsafe { Table::at(self.arena.base(), at) };
            at = table.next().load(Ordering::Relaxed);
        }
        tables
    }

    /// Checks that each key is found, that walks meet each leaf once, and that every count is
    /// right.
    fn check(&self) {
        let base = self.arena.base();
        let mut seen = HashMap::new();
        let mut from = Some(0);
        let mut out = Together::new();
        while let Some(at) = from {
            // SAFETY: as above.
            from = unsafe { self.index.leaves_from(base, at, &mut out) };
            for (_, leaf) in &out {
                *seen.entry(*leaf).or_insert(0) += 1;
            }
        }
        assert_eq!(seen.len(), self.oracle.len());
        for (key, leaf) in &self.oracle {
            // SAFETY: as above.
            let found = unsafe { self.index.find(base, self.index.hash(key), key) };
            assert_eq!(found, Found::Leaf(*leaf));
            assert_eq!(seen.get(leaf), Some(&1));
        }
        let mut all = Vec::new();
        // SAFETY: as above.
        let shape = unsafe {
            self.index.each_leaf(base, |leaf| all.push(leaf));
            self.index.verify(base, self.oracle.values().copied())
        };
        let shape = shape.unwrap();
        assert_eq!((shape.keys, shape.sticky), (self.oracle.len(), 0));
        all.sort_unstable();
        let mut expected: Vec<u32> = self.oracle.values().copied().collect();
        expected.sort_unstable();
        assert_eq!(all, expected);
    }
}

fn key(i: u32) -> Vec<u8> {
    format!("key {i}").into_bytes()
}

#[test]
fn memory_that_comes_and_goes() {
    let (rounds, keys) = if cfg!(miri) { (6, 200) } else { (60, 4000) };
    for mask in [u64::MAX, !(0x00ff_ffff << 32), 0xffff_ffff_0000_0000] {
        let mut world = World::new(mask);
        let mut random = fastrand::Rng::with_seed(mask);
        for round in 0..rounds {
            // No requests succeed, a few, or all.
            world.left = [0, random.u32(0..40), u32::MAX][random.usize(..3)];
            let up = random.u8(0..=8);
            for _ in 0..random.u32(1..keys * 2) {
                let there = random.u8(..8) < up;
                world.set(&key(random.u32(..keys)), there);
            }
            if round % 5 == 0 || cfg!(miri) {
                world.check();
            }
        }
        world.check();
        assert!(cfg!(miri) || world.refused > 100, "{}", world.refused);
        // A removal needs no memory.
        world.left = 0;
        for i in 0..keys {
            world.set(&key(i), false);
        }
        world.check();
    }
}

#[test]
fn a_next_table_that_is_too_small() {
    too_small(false);
}

/// A limit of garbage keeps both old tables after all keys were moved to the third one.
#[test]
fn a_next_table_that_is_too_small_and_stays() {
    too_small(true);
}

fn too_small(stays: bool) {
    let n = if cfg!(miri) { 150 } else { 8000 };
    let mut world = World::new(u64::MAX);
    for i in 0..n {
        world.set(&key(i), true);
    }
    // So few keys that the table shrinks; then there is no memory, when the smaller table has only
    // some of its chunks.
    let mut i = 0;
    // SAFETY: nobody but this test uses the table.
    let moves = |world: &World| unsafe {
        let at = world.index.table.load(Ordering::Relaxed);
        let table = Table::at(world.arena.base(), at);
        let next = table.next().load(Ordering::Relaxed);
        next != 0 && Table::at(world.arena.base(), next).homes() < table.homes()
    };
    while !moves(&world) {
        world.set(&key(i), false);
        i += 1;
    }
    world.left = 0;
    let mut j = n;
    while world.refused < 20 {
        world.set(&key(j), true);
        j += 1;
    }
    world.check();
    let before = world.oracle.len();
    // Without memory for a third table, nothing is changed.
    for left in [0, 1, 3] {
        world.left = left;
        world.set(&key(j), true);
        world.check();
    }
    world.left = u32::MAX;
    let (mut most, refused) = (0, world.refused);
    for more in 0..n {
        world.held = stays && more < 100;
        world.set(&key(j + more), true);
        if more < 40 || more % (n / 8) == 0 {
            world.check();
        }
        most = most.max(world.tables());
    }
    assert_eq!(world.tables(), 1);
    assert!(cfg!(miri) || most == if stays { 3 } else { 2 }, "{most}");
    // While the tables stay, some keys find no slot.
    let refused = world.refused - refused;
    assert!(refused == 0 || stays, "{refused}");
    assert!(world.oracle.len() + refused >= before + n as usize);
    // Small tables are made in whole chunks, and become full in another way.
    assert!(cfg!(miri) || world.index.moved_both.load(Ordering::Relaxed) > 0);
}

#[test]
fn equal_hashes_are_refused_when_no_table_helps() {
    let mut world = World::new(0);
    for i in 0..100 {
        world.set(&key(i), true);
    }
    // Twelve keys lie at home, and 63 elsewhere.
    assert_eq!(world.oracle.len(), 75);
    assert_eq!(world.refused, 25);
    world.check();
    assert!(
        world.index.taken().bytes < 1 << 20,
        "the table did not grow without end"
    );
    for i in 0..100 {
        world.set(&key(i), false);
    }
    world.check();
}
