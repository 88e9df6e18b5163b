//! Tests by one thread, which compare every answer and check every invariant.

use std::collections::HashMap;
use std::vec::Vec;

use sapwood_arena::ArenaOptions;

use super::*;

/// Memory for an owned index, which refuses requests at times.
pub(super) struct Plain<'a> {
    arena: &'a mut Arena,
    fail: u32,
    asked: u32,
    /// Number of blocks that the operation under way has allocated and freed.
    pub(super) allocs: u32,
}

impl<'a> Plain<'a> {
    pub(super) fn new(arena: &'a mut Arena) -> Self {
        Plain {
            arena,
            fail: 0,
            asked: 0,
            allocs: 0,
        }
    }
}

impl Chunks for Plain<'_> {
    fn base(&self) -> *mut u8 {
        self.arena.base()
    }

    fn alloc(&mut self, bytes: usize) -> Option<Ref> {
        self.asked += 1;
        self.allocs += 1;
        if self.fail != 0 && self.asked % self.fail != 0 {
            return None;
        }
        alloc(self.arena, bytes)
    }

    unsafe fn free(&mut self, block: Ref, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { wipe(self.arena, block, bytes, INDEX_KIND) };
    }
}

/// An index, its arena, and the answers that it should give.
struct World {
    arena: Arena,
    index: Index<u64, false>,
    oracle: HashMap<Vec<u8>, u32>,
    /// One of this number of requests for memory succeeds; 0 if all do.
    fail: u32,
    asked: u32,
    most_allocs: u32,
    asks: usize,
}

impl World {
    fn new(mask: u64) -> Self {
        let options = ArenaOptions::default().backing(sapwood_arena::Backing::Heap);
        let mut index = Index::new(7);
        index.mask = mask;
        World {
            arena: Arena::new(options),
            index,
            oracle: HashMap::new(),
            fail: 0,
            asked: 0,
            most_allocs: 0,
            asks: 0,
        }
    }

    fn with<R>(&mut self, f: impl FnOnce(&Index<u64, false>, &mut Plain) -> R) -> R {
        let mut plain = Plain {
            arena: &mut self.arena,
            fail: self.fail,
            asked: self.asked,
            allocs: 0,
        };
        let result = f(&self.index, &mut plain);
        self.asked = plain.asked;
        self.most_allocs = self.most_allocs.max(plain.allocs);
        result
    }

    fn step(&mut self) {
        let len = self.oracle.len();
        let before = self.index.work.cursor.load(Ordering::Relaxed);
        // SAFETY: nobody but this test uses the index and the arena.
        self.with(|index, plain| unsafe { index.step(plain, len) });
        let after = self.index.work.cursor.load(Ordering::Relaxed);
        assert!(
            after <= before + 12,
            "{before} -> {after}: too many buckets"
        );
    }

    fn insert(&mut self, key: &[u8], value: u64) {
        let leaf = make_leaf(&mut self.arena, key, value);
        let hash = self.index.hash(key);
        match self.oracle.insert(key.to_vec(), leaf) {
            // SAFETY: as above; `old` was inserted with this key.
            Some(old) => unsafe {
                self.index.replace(self.arena.base(), hash, old, leaf);
                drop_leaf(&mut self.arena, old);
            },
            None => {
                // SAFETY: as above.
                self.with(|index, plain| unsafe { index.insert(plain, hash, leaf) });
            }
        }
        self.step();
    }

    fn remove(&mut self, key: &[u8]) {
        if let Some(old) = self.oracle.remove(key) {
            let hash = self.index.hash(key);
            // SAFETY: as above.
            unsafe {
                self.index.remove(self.arena.base(), hash, old);
                drop_leaf(&mut self.arena, old);
            }
            self.step();
        }
    }

    fn find(&mut self, key: &[u8]) {
        let hash = self.index.hash(key);
        // SAFETY: as above.
        let found = unsafe { self.index.find(self.arena.base(), hash, key) };
        self.check_answer(key, found);
    }

    fn check_answer(&mut self, key: &[u8], found: Found) {
        let expected = self.oracle.get(key).copied();
        match found {
            Found::Leaf(leaf) => assert_eq!(Some(leaf), expected),
            Found::Absent => assert_eq!(None, expected),
            Found::AskTrie => self.asks += 1,
        }
    }

    fn find_many(&mut self, keys: &[Vec<u8>]) {
        let mut all = Vec::new();
        // SAFETY: as above.
        unsafe {
            self.index
                .find_many(self.arena.base(), keys, |i, _, found| all.push((i, found)));
        }
        assert_eq!(all.len(), keys.len());
        for (at, (i, found)) in all.into_iter().enumerate() {
            assert_eq!(at, i);
            self.check_answer(&keys[i], found);
        }
    }

    fn verify(&self) -> verify::Shape {
        let leaves = self.oracle.values().copied();
        // SAFETY: as above.
        let shape = unsafe { self.index.verify(self.arena.base(), leaves) };
        let memory = self.arena.memory();
        let account = &memory.kinds[usize::from(INDEX_KIND.0)];
        let taken = self.index.taken();
        assert_eq!((account.count, account.bytes), (taken.blocks, taken.bytes));
        shape.unwrap()
    }
}

fn key(i: usize) -> Vec<u8> {
    format!("key {i} {}", "x".repeat(i % 23)).into_bytes()
}

/// Random changes in waves of growth and shrinking.
fn churn(world: &mut World, seed: u64, most: usize, rounds: usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut keys = most;
    for round in 0..rounds {
        let growing = round % 2 == 0;
        for i in 0..keys * 2 {
            let k = key(random.usize(..keys));
            match random.u8(..8) {
                0..4 if growing => world.insert(&k, i as u64),
                0..4 => world.remove(&k),
                4 if growing => world.remove(&k),
                4 => world.insert(&k, i as u64),
                5 => world.find(&key(most + random.usize(..most))),
                _ => world.find(&k),
            }
            if random.usize(..most + 20) == 0 {
                world.verify();
            }
        }
        world.verify();
        let all: Vec<_> = (0..keys.min(100)).map(key).collect();
        world.find_many(&all);
        keys = 1 + random.usize(..most);
    }
}

fn empty(world: &mut World) {
    let mut keys: Vec<_> = world.oracle.keys().cloned().collect();
    keys.sort();
    for (i, key) in keys.iter().enumerate() {
        world.remove(key);
        if i % 1000 == 0 {
            world.verify();
        }
    }
    assert_eq!(world.index.taken(), Taken::default());
    world.verify();
}

#[test]
fn tiny_tables() {
    let mut world = World::new(u64::MAX);
    world.find(b"nothing yet");
    for most in 1..if cfg!(miri) { 20 } else { 60 } {
        churn(&mut world, most as u64, most, 4);
    }
    empty(&mut world);
    assert_eq!(world.asks, 0);
}

#[test]
fn growing_and_shrinking() {
    let mut world = World::new(u64::MAX);
    let (most, rounds) = if cfg!(miri) { (300, 3) } else { (30_000, 8) };
    churn(&mut world, 11, most, rounds);
    empty(&mut world);
    assert_eq!(world.asks, 0, "nothing was spilled");
    assert!(world.most_allocs <= 20, "{}", world.most_allocs);
    // The memory that was freed is used again.
    churn(&mut world, 12, most / 10, 2);
    empty(&mut world);
}

#[test]
fn steady_growth_stays_within_its_bytes() {
    let mut world = World::new(u64::MAX);
    let n = if cfg!(miri) { 400 } else { 60_000 };
    for i in 0..n {
        world.insert(&key(i), i as u64);
        let most = if i < 20_000 { 99 } else { 94 };
        assert!(i < 10_000 || world.index.taken().bytes <= (i + 1) * most / 10);
    }
    let shape = world.verify();
    assert_eq!((shape.keys, shape.spilled, shape.sticky), (n, 0, 0));
    for i in 0..n {
        world.find(&key(i));
        world.find(&key(i + n));
    }
    assert_eq!(world.asks, 0);
}

#[test]
fn equal_hashes_ask_the_trie() {
    let n = if cfg!(miri) { 90 } else { 2000 };
    // The masks: all hashes are equal, all homes, all tags, and few homes.
    for mask in [0, 0xffff_ffff, !0xff, 0xc000_0000_0000_0000] {
        if cfg!(miri) && mask == !0xff {
            continue;
        }
        let mut world = World::new(mask);
        for i in 0..n {
            world.insert(&key(i), 1);
            if i % (n / 10) == 0 {
                world.verify();
                (0..n).step_by(7).for_each(|i| world.find(&key(i)));
            }
        }
        if mask == 0 {
            let shape = world.verify();
            assert_eq!((shape.keys, shape.spilled), (75, n - 75));
            assert!(world.asks > 0);
        }
        for i in 0..n {
            world.insert(&key(i), 2);
            world.find(&key(i));
            if i % 3 > 0 {
                world.remove(&key(i));
                world.find(&key(i));
            }
        }
        world.verify();
        empty(&mut world);
        // The answers are exact again.
        world.asks = 0;
        churn(&mut world, 5, 12, 2);
        assert_eq!(world.asks, 0);
    }
}

#[test]
fn removal_brings_spilled_buckets_back() {
    let mut world = World::new(0);
    let mut first = None;
    let count = if cfg!(miri) { 110 } else { 300 };
    // `step` is not called, so nothing is moved.
    for i in 0..count {
        let leaf = make_leaf(&mut world.arena, &key(i), 0);
        let hash = world.index.hash(&key(i));
        world.oracle.insert(key(i), leaf);
        // SAFETY: nobody but this test uses the index and the arena.
        world.with(|index, plain| unsafe {
            if i == 0 {
                index.reserve(plain, 1000);
            }
            index.insert(plain, hash, leaf)
        });
        first = first.or((i == 75).then(|| world.verify()));
    }
    let shape = world.verify();
    assert_eq!(
        (shape.keys, shape.displaced, shape.spilled),
        (75, 63, count - 75)
    );
    assert_eq!(first.map(|s| s.spilled), Some(1));
    for i in (0..count).rev() {
        let leaf = world.oracle.remove(&key(i)).unwrap();
        // SAFETY: as above.
        unsafe { world.index.remove(world.arena.base(), 0, leaf) };
        world.asks = 0;
        world.find(&key(i));
        world.find(&key(i + 1));
        assert_eq!(world.asks > 0, i > 75, "{i}");
    }
    world.verify();
}

#[test]
fn without_memory_answers_stay_right() {
    for fail in [2, 3, 7, 50, 1000] {
        let mut world = World::new(u64::MAX);
        world.fail = fail;
        let (most, rounds) = if cfg!(miri) { (60, 3) } else { (3000, 4) };
        churn(&mut world, u64::from(fail), most, rounds);
        world.fail = 0;
        churn(&mut world, u64::from(fail), most, 1);
        empty(&mut world);
        churn(&mut world, u64::from(fail), most, 2);
        empty(&mut world);
    }
}

#[test]
fn no_memory_at_all() {
    let mut world = World::new(u64::MAX);
    world.fail = u32::MAX;
    churn(&mut world, 3, if cfg!(miri) { 20 } else { 500 }, 4);
    assert_eq!(world.index.taken(), Taken::default());
    assert!(world.asks > 0);
    let keys: Vec<_> = world.oracle.keys().cloned().collect();
    keys.iter().for_each(|key| world.remove(key));
    world.asks = 0;
    world.find(&key(0));
    assert_eq!(world.asks, 0, "exact without keys");
}

#[test]
fn reserved_room_needs_no_moves() {
    for n in [1, 10, 11, 100, if cfg!(miri) { 200 } else { 50_000 }] {
        let mut world = World::new(u64::MAX);
        // SAFETY: nobody but this test uses the index and the arena.
        world.with(|index, plain| unsafe { index.reserve(plain, n) });
        let taken = world.index.taken();
        for i in 0..n {
            world.insert(&key(i), 0);
        }
        assert_eq!(world.index.taken(), taken, "{n}");
        let shape = world.verify();
        assert_eq!((shape.keys, shape.spilled), (n, 0));
        // SAFETY: as above.
        world.with(|index, plain| unsafe { index.clear(plain) });
        world.oracle.clear();
        world.verify();
    }
}
