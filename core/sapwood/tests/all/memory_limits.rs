//! Every builder limits memory: the limit holds, further entries are refused, and accepted entries
//! stay.

use std::panic::{AssertUnwindSafe, catch_unwind};

use sapwood::Error;
use sapwood::arena::{ArenaOptions, Backing};
use sapwood::lpm::{BitFib, BitString, Ipv4Fib};
use sapwood::maple::MapleMap;
use sapwood::qp::{QpMap, QpStore};

use crate::support::shared::each_kind;

const LIMITS: [usize; 3] = [16 << 10, 100_000, 1 << 20];

/// Inserts numbers until twenty are refused for lack of memory; checks that all accepted numbers
/// are present.
fn fill<M>(
    limit: usize,
    map: &mut M,
    mut insert: impl FnMut(&mut M, u64) -> Result<(), Error>,
    get: impl Fn(&M, u64) -> Option<u64>,
    frontier: impl Fn(&M) -> usize,
) {
    let (mut accepted, mut refused) = (Vec::new(), 0);
    for i in 0.. {
        match insert(map, i) {
            Ok(()) => accepted.push(i),
            Err(error) => {
                assert!(error.arena_full().is_some(), "{error}");
                refused += 1;
                if refused == 20 {
                    break;
                }
            }
        }
        assert!(i < 1 << 20, "{limit} bytes did not limit the map");
    }
    let used = frontier(map);
    assert!(used <= limit, "{used} of {limit} bytes");
    assert!(used > limit / 2, "{used} of {limit} bytes, and refused");
    assert!(accepted.len() > limit / 400);
    assert!(accepted.iter().all(|&i| get(map, i) == Some(i)));
}

#[test]
fn a_limit_holds_in_an_owned_map() {
    for limit in LIMITS {
        let mut map = QpMap::with_memory_limit(limit).unwrap();
        fill(
            limit,
            &mut map,
            |map, i| Ok(map.insert(i.to_be_bytes(), i).map(drop)?),
            |map, i| map.get(i.to_be_bytes()).copied(),
            |map| map.memory().arena.frontier,
        );
        map.verify().unwrap();
    }
    assert!(matches!(
        QpMap::<u8>::with_memory_limit(8),
        Err(sapwood::qp::Error::ArenaFull(_))
    ));
}

#[test]
fn a_limit_holds_in_a_store() {
    for limit in LIMITS {
        let mut store = QpStore::builder().memory_limit(limit).build().unwrap();
        fill(
            limit,
            &mut store,
            |store, i| {
                let mut txn = store.begin();
                txn.insert(i.to_be_bytes(), i).map(drop)?;
                txn.commit();
                Ok(())
            },
            |store, i| store.read(|view| view.get(i.to_be_bytes()).copied()),
            |store| store.memory().map.arena.frontier,
        );
        store.verify().unwrap();
    }
}

#[test]
fn a_limit_holds_in_maps_for_many_writers() {
    each_kind!(new => {
        for limit in LIMITS {
            let mut map = new().memory_limit(limit).build().unwrap();
            fill(
                limit,
                &mut map,
                |map, i| Ok(map.insert(i.to_be_bytes(), i).map(drop)?),
                |map, i| map.get(i.to_be_bytes()),
                |map| map.memory().arena.frontier,
            );
            map.verify().unwrap();
        }
    });
}

#[test]
fn a_limit_holds_in_tables() {
    for limit in LIMITS {
        let mut fib = Ipv4Fib::builder()
            .root_bits(6)
            .memory_limit(limit)
            .build()
            .unwrap();
        let address = |i: u64| (i as u32).wrapping_mul(2_654_435_761);
        let net = |i: u64| ipnet::Ipv4Net::new_assert(address(i).into(), 32);
        fill(
            limit,
            &mut fib,
            |fib, i| Ok(fib.insert(net(i), i).map(drop)?),
            |fib, i| fib.get(net(i)),
            |fib| fib.memory().arena.frontier,
        );
        fib.verify().unwrap();

        let mut fib = BitFib::builder().memory_limit(limit).build().unwrap();
        let bits = |i: u64| BitString::from_number(i.into(), 40).unwrap();
        fill(
            limit,
            &mut fib,
            |fib, i| Ok(fib.insert(bits(i), i).map(drop)?),
            |fib, i| fib.get(bits(i)),
            |fib| fib.memory().map.arena.frontier,
        );
        fib.verify().unwrap();
    }
    let root_only = Ipv4Fib::<u8>::builder().root_bits(18);
    let root_only = root_only.memory_limit(1 << 20).build();
    assert!(
        matches!(root_only, Err(sapwood::lpm::Error::ArenaFull(_))),
        "a root of 2 MiB"
    );
}

#[test]
fn a_limit_holds_in_a_range_map() {
    for limit in LIMITS {
        let mut map = MapleMap::builder().memory_limit(limit).build();
        fill(
            limit,
            &mut map,
            |map, i| Ok(map.store(3 * i..=3 * i + 1, i).map(drop)?),
            |map, i| map.get(3 * i + 1),
            |map| map.memory().arena.frontier,
        );
        map.verify().unwrap();
    }
}

#[test]
fn a_limit_holds_beside_options() {
    let options = || ArenaOptions::default().backing(Backing::Mmap { reserve: 1 << 26 });
    each_kind!(new => {
        for map in [
            new().options(options()).memory_limit(64 << 10).build().unwrap(),
            new().memory_limit(64 << 10).options(options()).build().unwrap(),
            new().options(options().limit(64 << 10)).memory_limit(1 << 20).build().unwrap(),
        ] {
            let refused = (0..100_000u64).find_map(|i| map.insert(i.to_be_bytes(), i).err());
            assert!(Error::from(refused.unwrap().error.clone()).arena_full().is_some());
            assert!(map.memory().arena.frontier <= 64 << 10);
        }
    });
}

#[test]
fn memory_that_moves_is_refused_with_what_to_do() {
    let says_so = |build: &dyn Fn()| {
        let panic = catch_unwind(AssertUnwindSafe(build)).unwrap_err();
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text
            .or(panic.downcast_ref::<&str>().copied())
            .unwrap_or_default();
        assert!(text.contains("base that stays"), "{text}");
        assert!(text.contains("`memory_limit`"), "{text}");
    };
    for options in [
        ArenaOptions::default().limit(1 << 20),
        ArenaOptions::default().backing(Backing::Heap),
    ] {
        let options = || options.clone();
        each_kind!(new => {
            says_so(&|| drop(new().options(options()).build().map(|map| map.insert("a", 1))));
        });
        says_so(&|| drop(QpStore::<u8>::builder().options(options()).build()));
        says_so(&|| drop(Ipv4Fib::<u8>::builder().options(options()).build()));
        says_so(&|| drop(BitFib::<u8>::builder().options(options()).build()));
        says_so(&|| drop(MapleMap::<u8>::builder().options(options()).build()));
    }
}
