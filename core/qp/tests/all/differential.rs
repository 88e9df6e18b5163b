//! Random operations on every kind of map; the naive oracle checks each answer.
//!
//! `SAPWOOD_OPS` sets the number of operations in each test (default 200,000), `SAPWOOD_SEED` the
//! first seed.

use sapwood::Builder;
use sapwood::arena::{ArenaOptions, Backing, DebugMode};
use sapwood::qp::{PointMap, QpMap, QpShared, QpStore, SharedMap};
use sapwood_model::keys::{KeyPool, Shape};
use sapwood_model::ops::{OpGen, Weights};
use zerocopy::{Immutable, IntoBytes};

use crate::support::maps::{loud, run_map, run_store};
use crate::support::values::Value;
use crate::support::writers::{Kind, run_writers};

fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name}={text}: not a number")),
        Err(_) => default,
    }
}

fn operations() -> u64 {
    setting("SAPWOOD_OPS", if cfg!(miri) { 300 } else { 200_000 })
}

fn first_seed() -> u64 {
    setting("SAPWOOD_SEED", 1)
}

/// Runs `one(seed)` until all operations are done; prints their number and the seeds.
fn seeds(what: &str, one: impl FnMut(u64) -> u64) {
    seeds_of(what, operations(), one);
}

/// Does the same for `all` operations.
fn seeds_of(what: &str, all: u64, mut one: impl FnMut(u64) -> u64) {
    let first = first_seed();
    let (mut done, mut seed) = (0, first);
    while done < all {
        done += one(seed);
        seed += 1;
    }
    println!("{what}: {done} operations, seeds {first}..{seed}");
}

/// The number of operations for each seed.
fn each() -> usize {
    match cfg!(miri) {
        true => operations().min(300) as usize,
        false => 5_000,
    }
}

#[test]
fn map_of_all_shapes() {
    seeds("map, all shapes", |seed| {
        run_map(&mut QpMap::<u64>::new(), OpGen::new(seed).take(each()), 40)
    });
    seeds("map of bytes, all shapes", |seed| {
        run_map(&mut QpMap::<[u8]>::new(), OpGen::new(seed).take(each()), 40)
    });
}

#[test]
fn map_small_and_dense() {
    seeds("map, small", |seed| {
        let keys = KeyPool::with_shapes(seed, 60, &[Shape::Tiny]);
        run_map(
            &mut QpMap::<u64>::new(),
            OpGen::with(keys, Weights::MIXED).take(each()),
            100,
        )
    });
}

#[test]
fn map_with_poisoned_memory() {
    fn run<V: ?Sized + Value>(what: &str) {
        seeds(what, |seed| {
            let keys = KeyPool::new(seed, 300);
            let mut map = QpMap::<V>::with_options(loud()).unwrap();
            run_map(&mut map, OpGen::with(keys, Weights::MIXED).take(each()), 20)
        });
    }
    run::<u64>("map, poisoned");
    run::<[u8]>("map of bytes, poisoned");
}

#[test]
fn map_with_whole_keys() {
    fn run<V: ?Sized + Value>(what: &str) {
        seeds(what, |seed| {
            let mut map = QpMap::<V>::with_whole_keys(loud()).unwrap();
            let n = run_map(&mut map, OpGen::new(seed).take(each()), 40);
            assert!(map.keys().all(|key| key.in_place().is_some()));
            n
        });
    }
    run::<u64>("map with whole keys");
    run::<[u8]>("map of bytes with whole keys");
}

#[test]
fn map_large() {
    seeds("map, large", |seed| {
        let shapes = [Shape::Text, Shape::Binary, Shape::Wide];
        let keys = KeyPool::with_shapes(seed, 20_000, &shapes);
        let weights = Weights {
            insert: 500,
            remove: 100,
            get: 300,
            prefix: 1,
            range: 0,
            longest_prefix: 1,
            ancestors: 1,
            ancestors_sep: 1,
            closest: 1,
            denial: 1,
            compact: 1,
            retain: 0,
            split_off: 0,
            clear: 0,
            remove_prefix: 0,
            ..Weights::MIXED
        };
        let each = if cfg!(miri) { 300 } else { 50_000 };
        run_map(
            &mut QpMap::<u64>::new(),
            OpGen::with(keys, weights).take(each),
            20,
        )
    });
}

#[test]
fn indexed_map_of_all_shapes() {
    seeds("map with an index, all shapes", |seed| {
        let mut map = QpMap::<u64>::with_index();
        let n = run_map(&mut map, OpGen::new(seed).take(each()), 40);
        assert!(map.has_index());
        n
    });
}

#[test]
fn indexed_map_small_and_poisoned() {
    fn run<V: ?Sized + Value>(what: &str) {
        seeds(what, |seed| {
            let keys = KeyPool::new(seed, 100);
            let mut map = QpMap::<V>::with_options(loud()).unwrap();
            map.add_index();
            run_map(&mut map, OpGen::with(keys, Weights::MIXED).take(each()), 60)
        });
    }
    run::<u64>("map with an index, poisoned");
    run::<[u8]>("map of bytes with an index, poisoned");
}

/// Where a store has its entries.
#[derive(Clone, Copy)]
enum Form {
    /// In leaves.
    Leaves,
    /// In clusters, without the prefix of their keys.
    Cut,
    /// In clusters, with whole keys.
    Whole,
}

const FORMS: [Form; 3] = [Form::Leaves, Form::Cut, Form::Whole];

fn store_of<V>(options: ArenaOptions, form: Form) -> QpStore<V>
where
    V: ?Sized + Value + IntoBytes + Immutable,
{
    let builder = QpStore::<V>::builder().options(options);
    match form {
        Form::Leaves => builder.build().unwrap(),
        Form::Cut => builder.build_inline().unwrap(),
        Form::Whole => builder.cut_prefixes(false).build_inline().unwrap(),
    }
}

#[test]
fn store_with_versions() {
    for form in FORMS {
        versions::<u64>("store", form);
        versions::<[u8]>("store of bytes", form);
    }
}

fn versions<V: ?Sized + Value + IntoBytes + Immutable>(what: &str, form: Form) {
    seeds(what, |seed| {
        let options = ArenaOptions::default().backing(Backing::Mmap { reserve: 1 << 30 });
        let store = store_of::<V>(options, form);
        let keys = KeyPool::new(seed, 200);
        let mut rng = fastrand::Rng::with_seed(seed ^ 0x5eed);
        let ops = OpGen::with(keys, Weights::MIXED).take(each());
        run_store(&store, ops, |n| rng.usize(..n), 30)
    });
}

#[test]
fn store_with_poisoned_memory() {
    for form in FORMS {
        poisoned_versions::<u64>("store, poisoned", form);
        poisoned_versions::<[u8]>("store of bytes, poisoned", form);
    }
}

fn poisoned_versions<V: ?Sized + Value + IntoBytes + Immutable>(what: &str, form: Form) {
    seeds(what, |seed| {
        let options = loud().backing(Backing::Mmap { reserve: 1 << 30 });
        let store = store_of::<V>(options, form);
        let keys = KeyPool::with_shapes(seed, 60, &[Shape::Tiny, Shape::Nested]);
        let mut rng = fastrand::Rng::with_seed(seed ^ 0x5eed);
        let ops = OpGen::with(keys, Weights::MIXED).take(each());
        run_store(&store, ops, |n| rng.usize(..n), 60)
    });
}

#[test]
#[cfg(all(unix, not(miri)))]
fn store_with_protected_memory() {
    for form in FORMS {
        protected_versions::<u64>("store", form);
        protected_versions::<[u8]>("store of bytes", form);
    }
}

#[cfg(all(unix, not(miri)))]
fn protected_versions<V: ?Sized + Value + IntoBytes + Immutable>(what: &str, form: Form) {
    let each = 2_000;
    let options = ArenaOptions::default()
        .backing(Backing::Mmap { reserve: 1 << 30 })
        .debug(DebugMode::Protect);
    let store = store_of::<V>(options, form);
    let keys = KeyPool::with_shapes(first_seed(), 60, &[Shape::Tiny]);
    let mut rng = fastrand::Rng::with_seed(first_seed());
    let n = run_store(
        &store,
        OpGen::with(keys, Weights::MIXED).take(each),
        |n| rng.usize(..n),
        60,
    );
    println!("{what}, protected: {n} operations");
    assert_eq!(n, each as u64);
}

/// Options for maps with many writers.
fn reserved(options: ArenaOptions) -> ArenaOptions {
    options.backing(Backing::Mmap { reserve: 1 << 30 })
}

/// Runs maps for many writers: with keys of all shapes; with a small set of short keys, and
/// poisoned freed memory; and with too little memory.
fn many_writers<O: Kind, V: ?Sized + Value>(
    what: &str,
    builder: impl Fn() -> Builder<SharedMap<O, V>>,
) {
    let part = operations().div_ceil(3);
    let run = |builder: Builder<SharedMap<O, V>>, seed, keys, small, scarce| {
        let mut rng = fastrand::Rng::with_seed(seed ^ 0x5eed);
        let ops = OpGen::with(keys, Weights::MIXED).take(each());
        run_writers(
            &builder.build().unwrap(),
            ops,
            |n| rng.usize(..n),
            small,
            scarce,
        )
    };
    seeds_of(&format!("{what}, all shapes"), part, |seed| {
        let mut builder = builder().options(reserved(ArenaOptions::default()));
        if seed % 4 == 0 {
            builder = builder.max_entries(150);
        }
        run(builder, seed, KeyPool::new(seed, 400), 30, false).0
    });
    seeds_of(&format!("{what}, small and poisoned"), part, |seed| {
        let keys = KeyPool::with_shapes(seed, 60, &[Shape::Tiny, Shape::Nested]);
        run(builder().options(reserved(loud())), seed, keys, 60, false).0
    });
    let mut failed = 0;
    seeds_of(&format!("{what}, with too little memory"), part, |seed| {
        let options = match seed % 3 {
            0 => reserved(ArenaOptions::default()).fail_every(2 + seed % 11),
            1 => loud().backing(Backing::HeapFixed((16 << 10) << (seed % 4))),
            _ => reserved(loud()).limit((16 << 10) << (seed % 4)),
        };
        let keys = KeyPool::new(seed, 200);
        let (n, f) = run(builder().options(options), seed, keys, 30, true);
        failed += f;
        n
    });
    assert!(failed > 0, "memory never ran out");
}

#[test]
fn shared_map() {
    many_writers("shared map", QpShared::<u64>::builder);
    many_writers("shared map of bytes", QpShared::<[u8]>::builder);
}

#[test]
fn shared_map_with_an_index() {
    many_writers("shared map with an index", || {
        QpShared::<u64>::builder().with_index()
    });
    many_writers("shared map of bytes with an index", || {
        QpShared::<[u8]>::builder().with_index()
    });
}

#[test]
fn point_map() {
    many_writers("point map", PointMap::<u64>::builder);
    many_writers("point map of bytes", PointMap::<[u8]>::builder);
}
