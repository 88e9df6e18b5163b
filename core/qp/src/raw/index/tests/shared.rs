//! Tests of readers beside writers, while tables grow and shrink, with memory that is used again
//! after a grace period.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread;
use std::vec::Vec;

use sapwood_arena::{ArenaOptions, Backing, DebugMode};
use sapwood_qsbr::{Domain, RetireQueue};

use super::*;

/// What a writer retires: a block of the index or a leaf.
type Retired = (Ref, usize, Kind);

/// Memory that several threads share.
struct Memory {
    arena: Mutex<Arena>,
    base: *mut u8,
}

// SAFETY: threads use the base only as an address; the memory there is atomic, or published and not
// changed.
unsafe impl Sync for Memory {}

struct Plain<'a> {
    memory: &'a Memory,
    queue: &'a mut RetireQueue<Retired>,
}

impl Chunks for Plain<'_> {
    fn base(&self) -> *mut u8 {
        self.memory.base
    }

    fn alloc(&mut self, bytes: usize) -> Option<Ref> {
        alloc(&mut self.memory.arena.lock().unwrap(), bytes)
    }

    unsafe fn free(&mut self, block: Ref, bytes: usize) {
        self.queue.push((block, bytes, INDEX_KIND), bytes);
    }
}

/// Frees blocks that no reader can hold any more; the arena poisons them.
fn reclaim(memory: &Memory, queue: &mut RetireQueue<Retired>) {
    queue.seal();
    queue.reclaim(usize::MAX, |(block, bytes, kind)| {
        // SAFETY: retired once, and the grace period is over.
        unsafe { memory.arena.lock().unwrap().free(block, bytes, kind) };
    });
}

fn key(thread: usize, i: usize) -> Vec<u8> {
    format!("{thread}/{i}").into_bytes()
}

struct Plan {
    writers: usize,
    readers: usize,
    /// Number of keys of each writer that are always there, and are replaced.
    steady: usize,
    /// Number of keys of each writer that come and go.
    coming: usize,
    rounds: usize,
    mask: u64,
    /// A writer counts the keys after this many operations.
    count_every: u64,
}

fn run(plan: Plan) {
    let options = ArenaOptions::default()
        .backing(Backing::HeapFixed(if cfg!(miri) {
            1 << 20
        } else {
            64 << 20
        }))
        .debug(DebugMode::Poison);
    let mut arena = Arena::new(options);
    // The first block makes the arena take its memory.
    let first = alloc(&mut arena, 8).unwrap();
    let base = arena.base();
    let memory = &Memory {
        arena: Mutex::new(arena),
        base,
    };
    let mut index = Index::<u64, true>::new(99);
    index.mask = plan.mask;
    let (index, plan) = (&index, &plan);
    let domain = &Domain::new();
    let (len, stop, ready) = (
        &AtomicUsize::new(0),
        &AtomicBool::new(false),
        &AtomicUsize::new(0),
    );
    let left: Vec<_> = thread::scope(|s| {
        for r in 0..plan.readers {
            s.spawn(move || {
                let base = memory.base;
                let mut reader = domain.register("reader").unwrap();
                let mut random = fastrand::Rng::with_seed(r as u64);
                let mut newest = HashMap::new();
                while ready.load(Ordering::Acquire) < plan.writers {
                    reader.quiescent();
                    thread::yield_now();
                }
                let (mut asks, mut all) = (0, 0);
                while !stop.load(Ordering::Acquire) {
                    for _ in 0..20 {
                        let _guard = reader.guard();
                        let there = key(random.usize(..plan.writers), random.usize(..plan.steady));
                        // SAFETY: the guard.
                        match unsafe { index.find(base, index.hash(&there), &there) } {
                            Found::Absent => panic!("{there:?} is always there"),
                            Found::AskTrie => asks += 1,
                            Found::Leaf(leaf) => {
                                // SAFETY: the guard keeps the leaf.
                                let value = unsafe { *base.add(byte_of(leaf)).cast::<u64>() };
                                let before = newest.insert(there, value).unwrap_or(0);
                                assert!(before <= value, "the newest value is not forgotten");
                            }
                        }
                        let away = key(plan.writers + 1, random.usize(..100));
                        // SAFETY: the guard.
                        let found = unsafe { index.find(base, index.hash(&away), &away) };
                        assert!(!matches!(found, Found::Leaf(_)));
                        all += 1;
                    }
                    reader.quiescent();
                }
                if plan.mask == u64::MAX {
                    // While a writer waits for a processor in the middle of a change, lookups in
                    // its bucket ask the trie.
                    assert!(asks * 4 <= all, "{asks} of {all} lookups asked the trie");
                }
            });
        }
        let writers: Vec<_> = (0..plan.writers)
            .map(|w| s.spawn(move || write(w, plan, memory, index, domain, len, ready)))
            .collect();
        let left = writers.into_iter().map(|w| w.join());
        let left: Vec<_> = left.collect();
        stop.store(true, Ordering::Release);
        left.into_iter().flat_map(|w| w.unwrap()).collect()
    });
    // SAFETY: all threads have ended.
    let shape = unsafe { index.verify(base, left.iter().copied()) }.unwrap();
    assert_eq!(shape.keys + shape.spilled, left.len());
    let mut queue = RetireQueue::new(domain);
    let mut plain = Plain {
        memory,
        queue: &mut queue,
    };
    for (i, &leaf) in left.iter().enumerate() {
        // SAFETY: nobody else uses the index.
        unsafe {
            index.remove(base, index.hash_of(base, leaf), leaf);
            index.step(&mut plain, left.len() - i - 1);
        }
    }
    for _ in 0..if plan.mask == u64::MAX { 100_000 } else { 0 } {
        // Moves go on until only the smallest table is there, which is then freed.
        if index.taken() != Taken::default() {
            // SAFETY: as above.
            unsafe { index.step(&mut plain, 0) };
        }
    }
    if plan.mask != u64::MAX {
        // SAFETY: as above.
        unsafe { index.clear(&mut plain) };
    }
    assert_eq!(index.taken(), Taken::default());
    // SAFETY: as above.
    unsafe { index.verify(base, []) }.unwrap();
    reclaim(memory, &mut queue);
    let mut arena = memory.arena.lock().unwrap();
    for leaf in left {
        // SAFETY: nothing names the leaf any more.
        unsafe {
            let size = LeafOf::<u64>::size(base.add(byte_of(leaf)));
            arena.free(ref_of(leaf), size, LEAF_KIND);
        }
    }
    // SAFETY: as above.
    unsafe { arena.free(first, 8, INDEX_KIND) };
    assert_eq!(arena.memory().live, 0);
    arena.verify().unwrap();
}

/// Inserts and removes a writer's keys; returns the leaves that are left.
fn write(
    w: usize,
    plan: &Plan,
    memory: &Memory,
    index: &Index<u64, true>,
    domain: &Domain,
    len: &AtomicUsize,
    ready: &AtomicUsize,
) -> Vec<u32> {
    let mut reader = domain.register("writer").unwrap();
    let mut queue = RetireQueue::new(domain);
    let mut random = fastrand::Rng::with_seed(100 + w as u64);
    let mut leaves = HashMap::new();
    let mut version = 0;
    let mut about = 0;
    let mut turn = |i: usize, there: Option<bool>, queue: &mut RetireQueue<Retired>| {
        let _guard = reader.guard();
        let k = key(w, i);
        let hash = index.hash(&k);
        version += 1;
        let old = leaves.get(&i).copied();
        if there != Some(false) {
            let leaf = make_leaf(&mut memory.arena.lock().unwrap(), &k, version);
            leaves.insert(i, leaf);
            // SAFETY: the guard; the key is this thread's.
            unsafe {
                match old {
                    Some(old) => index.replace(memory.base, hash, old, leaf),
                    None => {
                        index.insert(&mut Plain { memory, queue }, hash, leaf);
                        len.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        } else if let Some(old) = old {
            leaves.remove(&i);
            // SAFETY: as above.
            unsafe { index.remove(memory.base, hash, old) };
            len.fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(old) = old {
            let size = LeafOf::<u64>::size_with(k.len(), 0);
            queue.push((ref_of(old), size, LEAF_KIND), size);
        }
        // SAFETY: as above.
        unsafe {
            if version % plan.count_every == 0 {
                about = len.load(Ordering::Relaxed);
            }
            index.step(&mut Plain { memory, queue }, about);
            match (index.find(memory.base, hash, &k), leaves.get(&i)) {
                (Found::AskTrie, _) => {}
                (Found::Leaf(leaf), expected) => assert_eq!(Some(&leaf), expected),
                (Found::Absent, expected) => assert_eq!(None, expected),
            }
        }
        reader.quiescent();
    };
    for i in 0..plan.steady {
        turn(i, Some(true), &mut queue);
    }
    ready.fetch_add(1, Ordering::Release);
    for round in 0..plan.rounds {
        let growing = round % 2 == 0;
        for _ in 0..plan.coming * 2 {
            let i = plan.steady + random.usize(..plan.coming);
            turn(i, Some(growing != (random.u8(..4) == 0)), &mut queue);
            if random.u8(..4) == 0 {
                turn(random.usize(..plan.steady), None, &mut queue);
            }
            if random.u8(..32) == 0 {
                reclaim(memory, &mut queue);
            }
        }
        if !growing {
            for i in plan.steady..plan.steady + plan.coming {
                turn(i, Some(false), &mut queue);
            }
        }
    }
    reader.set_offline();
    while !queue.is_empty() {
        reclaim(memory, &mut queue);
        thread::yield_now();
    }
    leaves.into_values().collect()
}

#[test]
fn readers_beside_writers() {
    let (steady, coming, rounds) = if cfg!(miri) {
        (8, 60, 2)
    } else {
        (100, 4000, 8)
    };
    run(Plan {
        writers: 2,
        readers: 2,
        steady,
        coming,
        rounds,
        mask: u64::MAX,
        count_every: 1,
    });
}

#[test]
fn many_writers_in_a_small_table() {
    let (coming, rounds) = if cfg!(miri) { (10, 4) } else { (12, 2000) };
    run(Plan {
        writers: if cfg!(miri) { 2 } else { 4 },
        readers: 1,
        steady: 1,
        coming,
        rounds,
        mask: u64::MAX,
        count_every: 1,
    });
}

#[test]
fn displaced_and_spilled_beside_writers() {
    let (coming, rounds) = if cfg!(miri) { (30, 2) } else { (300, 40) };
    // There are few different homes, all of them far apart.
    run(Plan {
        writers: 2,
        readers: 2,
        steady: 10,
        coming,
        rounds,
        mask: !(0x3fff_ffff << 32),
        count_every: 1,
    });
}

#[test]
fn counts_out_of_date() {
    let (steady, coming, rounds) = if cfg!(miri) {
        (8, 60, 2)
    } else {
        (100, 4000, 8)
    };
    run(Plan {
        writers: 2,
        readers: 1,
        steady,
        coming,
        rounds,
        mask: u64::MAX,
        count_every: 64,
    });
}

/// Memory in which an allocation may last until another writer has inserted keys.
struct Slow<'a> {
    plain: Plain<'a>,
    /// Whether the next allocation is slow.
    slow: &'a AtomicBool,
    /// The number of keys that the other writer has inserted.
    others: &'a AtomicUsize,
}

impl Chunks for Slow<'_> {
    fn base(&self) -> *mut u8 {
        self.plain.base()
    }

    fn alloc(&mut self, bytes: usize) -> Option<Ref> {
        if self.slow.swap(false, Ordering::AcqRel) {
            // The other writer may have to wait for this one.
            for _ in 0..300 {
                if self.others.load(Ordering::Acquire) >= 1300 {
                    break;
                }
                thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        self.plain.alloc(bytes)
    }

    unsafe fn free(&mut self, block: Ref, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.plain.free(block, bytes) };
    }
}

/// A writer is about to shrink the table when another one inserts many keys.
#[cfg(not(miri))]
#[test]
fn keys_that_come_while_the_table_shrinks() {
    let backing = Backing::HeapFixed(8 << 20);
    let mut arena = Arena::new(ArenaOptions::default().backing(backing));
    alloc(&mut arena, 8).unwrap();
    let base = arena.base();
    let memory = &Memory {
        arena: Mutex::new(arena),
        base,
    };
    let index = &Index::<u64, true>::new(7);
    let domain = &Domain::new();
    let (slow, others) = (&AtomicBool::new(false), &AtomicUsize::new(0));
    let mut queue = RetireQueue::new(domain);
    let mut chunks = Slow {
        plain: Plain {
            memory,
            queue: &mut queue,
        },
        slow,
        others,
    };
    let make = |thread, i| make_leaf(&mut memory.arena.lock().unwrap(), &key(thread, i), 0);
    let mut leaves = Vec::new();
    for i in 0..1400 {
        leaves.push(make(0, i));
        // SAFETY: the other writer changes other keys, and nothing is freed.
        unsafe {
            index.insert(&mut chunks, index.hash(&key(0, i)), leaves[i]);
            index.step(&mut chunks, leaves.len());
        }
    }
    let added = thread::scope(|s| {
        slow.store(true, Ordering::Release);
        let other = s.spawn(|| {
            while slow.load(Ordering::Acquire) {
                thread::yield_now();
            }
            let mut queue = RetireQueue::new(domain);
            let mut plain = Plain {
                memory,
                queue: &mut queue,
            };
            let mut added = Vec::new();
            for i in 0..1300 {
                added.push(make(1, i));
                // SAFETY: as above.
                unsafe {
                    index.insert(&mut plain, index.hash(&key(1, i)), added[i]);
                    index.step(&mut plain, 400 + added.len());
                }
                others.store(added.len(), Ordering::Release);
            }
            added
        });
        while slow.load(Ordering::Acquire) {
            let i = leaves.len() - 1;
            let leaf = leaves.pop().unwrap();
            // SAFETY: as above.
            unsafe {
                index.remove(base, index.hash(&key(0, i)), leaf);
                index.step(&mut chunks, i);
            }
        }
        other.join().unwrap()
    });
    let left = leaves.into_iter().chain(added);
    // SAFETY: all threads have ended.
    let shape = unsafe { index.verify(base, left) }.unwrap();
    assert_eq!((shape.spilled, shape.sticky), (0, 0), "{shape:?}");
}
