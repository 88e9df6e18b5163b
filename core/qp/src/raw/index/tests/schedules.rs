//! A table that is moved beside a writer and readers, in orders that a scheduler chooses:
//! `RUSTFLAGS="--cfg shuttle" cargo test -p sapwood-qp --lib --release -- index::tests::schedules`.
//!
//! Nothing is freed before the end, so no guard is needed.

use std::sync::{Arc, Mutex};
use std::vec::Vec;

use sapwood_arena::{ArenaOptions, Backing};
use shuttle::thread;

use super::*;

struct World {
    arena: Mutex<Arena>,
    base: usize,
    index: Index<u64, true>,
}

/// Memory that is not freed before the end.
struct Kept<'a>(&'a World);

impl Chunks for Kept<'_> {
    fn base(&self) -> *mut u8 {
        core::ptr::with_exposed_provenance_mut(self.0.base)
    }

    fn alloc(&mut self, bytes: usize) -> Option<Ref> {
        alloc(&mut self.0.arena.lock().unwrap(), bytes)
    }

    unsafe fn free(&mut self, _: Ref, _: usize) {}
}

impl World {
    fn new(mask: u64, alone: bool) -> Self {
        let options = ArenaOptions::default().backing(Backing::HeapFixed(1 << 17));
        let mut arena = Arena::new(options);
        alloc(&mut arena, 8).unwrap();
        let mut index = Index::new(3);
        if alone {
            index = index.without_trie();
        }
        index.mask = mask;
        World {
            base: arena.base().expose_provenance(),
            arena: Mutex::new(arena),
            index,
        }
    }

    fn leaf(&self, key: &[u8], value: u64) -> u32 {
        make_leaf(&mut self.arena.lock().unwrap(), key, value)
    }

    fn insert(&self, key: &[u8], value: u64) -> u32 {
        let leaf = self.leaf(key, value);
        // SAFETY: no other thread changes the key; nothing is freed.
        unsafe { (self.index).insert(&mut Kept(self), self.index.hash(key), leaf) };
        leaf
    }

    fn remove(&self, key: &[u8], leaf: u32) {
        // SAFETY: as above.
        unsafe { (self.index).remove(Kept(self).base(), self.index.hash(key), leaf) };
    }

    fn replace(&self, key: &[u8], old: u32, value: u64) -> u32 {
        let new = self.leaf(key, value);
        // SAFETY: as above.
        unsafe { (self.index).replace(Kept(self).base(), self.index.hash(key), old, new) };
        new
    }

    fn step(&self, len: usize) {
        // SAFETY: as above.
        unsafe { self.index.step(&mut Kept(self), len) };
    }

    /// The value of a key; `None` if it is absent, 0 if the answer is to ask the trie.
    fn find(&self, key: &[u8]) -> Option<u64> {
        let base = Kept(self).base();
        // SAFETY: as above.
        match unsafe { self.index.find(base, self.index.hash(key), key) } {
            // SAFETY: the leaf is not freed.
            Found::Leaf(leaf) => Some(unsafe { *base.add(byte_of(leaf)).cast::<u64>() }),
            Found::Absent => None,
            Found::AskTrie => Some(0),
        }
    }
}

fn key(i: usize) -> Vec<u8> {
    format!("key {i}").into_bytes()
}

/// `here` keys are there throughout; others come and go while the table is moved for `len` keys.
fn moved_beside_all(mask: u64, here: usize, len: usize) {
    let world = Arc::new(World::new(mask, false));
    let mut leaves: Vec<u32> = (0..here).map(|i| world.insert(&key(i), 1)).collect();
    let mover = {
        let world = world.clone();
        thread::spawn(move || (0..3).for_each(|_| world.step(len)))
    };
    let writer = {
        let (world, old) = (world.clone(), leaves.pop().unwrap());
        thread::spawn(move || {
            let last = key(here - 1);
            let new = world.replace(&last, old, 2);
            assert!(matches!(world.find(&last), Some(0 | 2)));
            world.step(len);
            let leaf = world.insert(b"new", 1);
            assert!(matches!(world.find(b"new"), Some(0 | 1)));
            world.remove(b"new", leaf);
            assert!(matches!(world.find(b"new"), None | Some(0)));
            world.replace(&last, new, 3)
        })
    };
    let reader = {
        let world = world.clone();
        thread::spawn(move || {
            let mut newest = 1;
            for i in [here - 1, here - 2, 0, here - 1, here / 2, here - 1] {
                let value = world.find(&key(i)).expect("it is always there");
                if i == here - 1 && value > 0 {
                    assert!(value >= newest, "{value} after {newest}");
                    newest = value;
                }
            }
            assert!(matches!(world.find(b"never"), None | Some(0)));
        })
    };
    mover.join().unwrap();
    leaves.push(writer.join().unwrap());
    reader.join().unwrap();
    // SAFETY: all other threads have ended.
    unsafe {
        world
            .index
            .verify(Kept(&world).base(), leaves.iter().copied())
    }
    .unwrap();
}

#[test]
fn growing() {
    // Two homes are in use, so most keys lie behind them.
    shuttle::check_random(|| moved_beside_all(!(0x7fff_ffff << 32), 30, 60), 3000);
    shuttle::check_pct(|| moved_beside_all(!(0x7fff_ffff << 32), 30, 60), 3000, 3);
}

#[test]
fn one_home() {
    // All hashes are equal: keys lie at home and behind it, and soon they are spilled.
    shuttle::check_random(|| moved_beside_all(0, 20, 60), 3000);
    shuttle::check_pct(|| moved_beside_all(0, 74, 60), 300, 3);
}

#[test]
fn appearing_and_vanishing() {
    // The first table is made and freed beside other threads.
    let run = || {
        let world = Arc::new(World::new(u64::MAX, false));
        let threads: Vec<_> = (0..3)
            .map(|i| {
                let world = world.clone();
                thread::spawn(move || {
                    for _ in 0..2 {
                        let leaf = world.insert(&key(i), 1);
                        world.step(1);
                        assert!(matches!(world.find(&key(i)), Some(0 | 1)));
                        world.remove(&key(i), leaf);
                        assert!(matches!(world.find(&key(i)), None | Some(0)));
                        world.step(0);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        world.step(0);
        assert_eq!(world.index.taken(), Taken::default());
    };
    shuttle::check_random(run, 3000);
    shuttle::check_pct(run, 3000, 3);
}

#[test]
fn alone_while_tables_run_over() {
    // Only writers that find no slot move the table, beside a walk and lookups.
    let run = |mask: u64, steady: usize, more: usize| {
        let world = Arc::new(World::new(mask, true));
        let len = Arc::new(AtomicUsize::new(0));
        let add = |world: &World, len: &AtomicUsize, i: usize| {
            let leaf = world.leaf(&key(i), 1);
            let hash = world.index.hash(&key(i));
            let count = || len.load(Ordering::Relaxed);
            // SAFETY: no other thread changes the key; nothing is freed.
            let done = unsafe { (world.index).insert_alone(&mut Kept(world), hash, leaf, count) };
            assert!(done, "there is memory");
            len.fetch_add(1, Ordering::Relaxed);
            leaf
        };
        let mut leaves: Vec<u32> = (0..steady).map(|i| add(&world, &len, i)).collect();
        let writers: Vec<_> = (0..2)
            .map(|w| {
                let (world, len) = (world.clone(), len.clone());
                thread::spawn(move || {
                    let mut leaves = Vec::new();
                    for i in 0..more {
                        let i = steady + w * more + i;
                        leaves.push(add(&world, &len, i));
                        assert_eq!(world.find(&key(i)), Some(1));
                    }
                    world.remove(&key(steady + w * more), leaves.swap_remove(0));
                    assert_eq!(world.find(&key(steady + w * more)), None);
                    leaves
                })
            })
            .collect();
        let base = Kept(&world).base();
        let (mut from, mut seen) = (Some(0), Vec::new());
        let mut out = super::super::alone::Together::new();
        while let Some(at) = from {
            // SAFETY: nothing is freed.
            from = unsafe { world.index.leaves_from(base, at, &mut out) };
            seen.extend(out.iter().map(|(_, leaf)| *leaf));
        }
        for (i, leaf) in leaves.iter().enumerate() {
            let times = seen.iter().filter(|there| *there == leaf).count();
            assert_eq!(times, 1, "key {i}");
            assert_eq!(world.find(&key(i)), Some(1));
        }
        seen.sort_unstable();
        assert!(seen.windows(2).all(|two| two[0] < two[1]));
        for writer in writers {
            leaves.extend(writer.join().unwrap());
        }
        // SAFETY: all other threads have ended.
        let shape = unsafe { world.index.verify(base, leaves.iter().copied()) }.unwrap();
        assert_eq!(
            (shape.keys, shape.spilled, shape.sticky),
            (leaves.len(), 0, 0)
        );
    };
    // The smallest table has room for 72 keys, with the buckets behind its homes.
    shuttle::check_random(move || run(u64::MAX, 66, 8), 1000);
    shuttle::check_pct(move || run(u64::MAX, 66, 8), 1000, 3);
    // Two homes have room for 75 keys each, most of them behind the home.
    shuttle::check_random(move || run(!(0x7fff_ffff << 32), 64, 8), 300);
}
