//! Maps that programs write: the C code in the kernel and in user space, against a `BTreeMap`.
#![cfg(feature = "kernel")]

mod asks;
mod cases;
mod corrupt;
mod heirs;
#[path = "../kernel/mod.rs"]
mod kernel;
mod storm;
mod supply;

use std::collections::BTreeMap;

use asks::{
    E2BIG, EEXIST, ENODATA, ENOENT, ENOMEM, EOPNOTSUPP, EXIST, Kernel, NOEXIST, Side, User, What,
};
use sapwood_bpf::{BpfArena, KernelGrace, KernelMap, KernelMapBuilder};

/// Whether the kernel has what is needed; says why not.
fn can() -> bool {
    match sapwood_bpf::check() {
        Ok(()) => true,
        Err(why) => {
            println!("skipped: {why}");
            false
        }
    }
}

/// Keys that share prefixes, with few and with many labels at an offset, and of all lengths.
fn key(rng: &mut fastrand::Rng) -> Vec<u8> {
    let (len, letters) = match rng.u8(0..8) {
        0 => (rng.usize(..255), 255),
        1 => (rng.usize(..20), 2),
        2 => (rng.usize(..3), 255),
        3 => (rng.usize(..4), 40),
        _ => (rng.usize(..6), 4),
    };
    (0..len).map(|_| rng.u8(..=letters)).collect()
}

/// A map's map of the same contents, and how it is asked.
struct Pair<'a, V> {
    map: &'a KernelMap<V>,
    oracle: BTreeMap<Vec<u8>, [u64; 8]>,
    words: usize,
    most: usize,
    /// Whether the map has an index, and a trie.
    parts: (bool, bool),
    /// How often an operation found no memory.
    failed: usize,
}

impl<V> Pair<'_, V> {
    /// One operation on both. Errors that the oracle does not know change nothing.
    fn change(&mut self, side: &mut (impl Side + ?Sized), rng: &mut fastrand::Rng, key: &[u8]) {
        let window = self.map.window().number;
        let there = self.oracle.contains_key(key);
        if rng.u8(..8) < 3 {
            let (result, _) = side.ask(What::Remove, window, 0, key, &[]);
            match result {
                ENOMEM => self.failed += 1,
                _ => {
                    assert_eq!(result, if there { 0 } else { ENOENT }, "remove {key:?}");
                    self.oracle.remove(key);
                }
            }
        } else {
            let flags = rng.u64(..3);
            let value: [u64; 8] = std::array::from_fn(|i| match i < self.words {
                true => rng.u64(..),
                false => 0,
            });
            let what = match self.words {
                1 if rng.bool() => What::Insert,
                _ => What::InsertValue,
            };
            let (result, _) = side.ask(what, window, flags, key, &value);
            let wanted = match (there, flags) {
                (true, NOEXIST) => EEXIST,
                (false, EXIST) => ENOENT,
                (false, _) if self.oracle.len() == self.most => E2BIG,
                _ => 0,
            };
            match result {
                ENOMEM => {
                    assert_eq!(wanted, 0);
                    self.failed += 1;
                }
                _ => {
                    assert_eq!(result, wanted, "insert {key:?} {flags} {there}");
                    if result == 0 {
                        self.oracle.insert(key.to_vec(), value);
                    }
                }
            }
        }
    }

    /// Whether lookups say what the oracle says.
    fn look(&self, side: &mut (impl Side + ?Sized), key: &[u8]) {
        let window = self.map.window().number;
        let wanted = self.oracle.get(key);
        for what in [What::Trie, What::Index, What::Lookup] {
            let (result, value) = side.ask(what, window, 0, key, &[]);
            let has = match what {
                What::Trie => self.parts.1,
                What::Index => self.parts.0,
                _ => true,
            };
            if what == What::Trie && !has {
                assert_eq!(result, EOPNOTSUPP, "{key:?}");
                continue;
            }
            match wanted {
                Some(wanted) if has && !(what == What::Index && result == ENODATA) => {
                    assert!(result > 0, "{what:?} {key:?}: {result}");
                    assert_eq!(
                        value[..self.words],
                        wanted[..self.words],
                        "{what:?} {key:?}"
                    );
                }
                _ => assert!(
                    [ENOENT, ENODATA].contains(&result),
                    "{what:?} {key:?}: {result}"
                ),
            }
        }
    }

    fn check(&self) {
        let shape = self.map.verify().unwrap();
        assert_eq!(shape.entries, self.oracle.len());
        assert_eq!(self.map.len(), self.oracle.len());
        assert_eq!(shape.refused, 0);
        let m = self.map.memory().unwrap();
        assert_eq!(m.live, m.branches + m.leaves);
        assert_eq!(
            m.fixed + m.offered + m.live + m.retired + m.waiting + m.free,
            m.frontier
        );
    }
}

/// The parts of a map: index, trie.
fn with<V>(builder: KernelMapBuilder<V>, parts: (bool, bool)) -> KernelMapBuilder<V>
where
    V: zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::Immutable + 'static,
{
    let builder = if parts.0 {
        builder.with_index()
    } else {
        builder
    };
    if parts.1 {
        builder.with_trie()
    } else {
        builder
    }
}

/// Random operations on one map, how many found no memory.
fn against_the_oracle<V>(
    map: &KernelMap<V>,
    side: &mut (impl Side + ?Sized),
    parts: (bool, bool),
    most: usize,
    steps: usize,
    seed: u64,
) -> usize {
    let mut pair = Pair {
        map,
        oracle: BTreeMap::new(),
        words: size_of::<V>() / 8,
        most,
        parts,
        failed: 0,
    };
    let mut rng = fastrand::Rng::with_seed(seed);
    for step in 0..steps {
        let mut key = key(&mut rng);
        if rng.bool() && !pair.oracle.is_empty() {
            // One that is there.
            let at = pair.oracle.range(key.clone()..).next();
            key = at.map_or(Vec::new(), |(key, _)| key.clone());
        }
        pair.change(side, &mut rng, &key);
        pair.look(side, &key);
        if step % 4 == 0 {
            map.service().unwrap();
        }
        if step % 64 == 0 || step < 50 {
            pair.check();
        }
    }
    for key in pair.oracle.keys() {
        pair.look(side, key);
    }
    pair.check();
    // Everything goes.
    let keys: Vec<_> = pair.oracle.keys().cloned().collect();
    for key in keys {
        let mut result = ENOMEM;
        for _ in 0..10_000 {
            result = side.ask(What::Remove, map.window().number, 0, &key, &[]).0;
            if result != ENOMEM {
                break;
            }
            map.service().unwrap();
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
        assert_eq!(result, 0);
        pair.oracle.remove(&key);
        map.service().unwrap();
    }
    pair.check();
    assert_eq!(map.memory().unwrap().live, 0);
    pair.failed
}

const PARTS: [(bool, bool); 3] = [(true, false), (false, true), (true, true)];

/// Maps of all parts, with values of one word and of four.
fn all_parts(arena: &BpfArena, side: &mut impl Side, steps: usize, seed: u64) {
    let grace = KernelGrace::new().unwrap();
    for (i, parts) in PARTS.into_iter().enumerate() {
        let seed = seed + i as u64;
        let map = with(KernelMap::<u64>::builder(arena, &format!("word{i}")), parts)
            .max_entries(1000)
            .bytes(8 << 20)
            .grace(&grace)
            .build()
            .unwrap();
        against_the_oracle(&map, side, parts, 1000, steps, seed);
        let map = with(
            KernelMap::<[u64; 4]>::builder(arena, &format!("words{i}")),
            parts,
        )
        .max_entries(100)
        .bytes(8 << 20)
        .grace(&grace)
        .build()
        .unwrap();
        against_the_oracle(&map, side, parts, 100, steps / 2, seed + 10);
    }
}

#[test]
fn in_user_space() {
    if !can() {
        return;
    }
    for compiler in ["gcc", "clang-19"] {
        let arena = BpfArena::create(64 << 20).unwrap();
        match User::new(&arena, compiler) {
            Some(mut side) => all_parts(&arena, &mut side, 600, 1),
            None => println!("skipped: no {compiler}"),
        }
    }
}

#[test]
fn in_the_kernel() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let mut side = Kernel::new(&arena);
    for program in libbpf_rs::query::ProgInfoIter::default() {
        if program.name.to_string_lossy() == "sw_ask_kqp" {
            // A million is the limit. Authors add their own.
            assert!(
                program.verified_insns < 100_000,
                "{}",
                program.verified_insns
            );
        }
    }
    all_parts(&arena, &mut side, 4000, 100);
}

#[test]
#[ignore = "a part of other tests, in a process of its own"]
fn child_process() {
    heirs::child();
}
