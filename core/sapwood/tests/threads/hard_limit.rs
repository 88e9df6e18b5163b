//! Garbage never exceeds a hard limit: writers reserve room for garbage before they make it, so
//! that no two writers count on the same room.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use sapwood::Error;
use sapwood::lpm::Ipv4Fib;
use sapwood::maple::MapleMap;
use sapwood::qp::{Order, PointMap, QpShared, QpStore, SharedMap};
use sapwood::qsbr::{Domain, LimitPolicy};

use crate::support::shared::{both, builder, each_kind, steps};
use crate::support::values::Value;

/// Sets a flag when it is dropped, also by a panic.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Watches the garbage of a domain while `work` runs; returns the largest amount seen.
fn most_garbage(domain: &Domain, work: impl FnOnce()) -> usize {
    let (done, most) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                most.fetch_max(domain.garbage(), Ordering::Relaxed);
                std::hint::spin_loop();
            }
        });
        let _done = Done(&done);
        work();
    });
    most.into_inner()
}

fn is_limit<E: Clone + std::fmt::Display>(error: &E)
where
    Error: From<E>,
{
    assert!(
        Error::from(error.clone()).garbage_limit().is_some(),
        "{error}"
    );
}

/// Runs four writers, some of whose changes are refused; keys come and go, so that tables grow and
/// shrink.
fn four_writers<O: Order, V: ?Sized + Value>(map: &SharedMap<O, V>, rounds: u64) -> usize {
    let refused = AtomicUsize::new(0);
    thread::scope(|scope| {
        for writer in 0..4u64 {
            let (map, refused) = (map, &refused);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(writer);
                let mut reader = map.reader("a writer that reads").unwrap();
                for i in 0..rounds {
                    let wave = if i / 4096 % 2 == 0 { 3 } else { 1 };
                    let key = (rng.u64(..20_000) << 8 | writer).to_be_bytes();
                    let done = match rng.u64(..4) < wave {
                        true => V::insert(map, &key, i).map(drop),
                        false => map.remove(key).map(drop),
                    };
                    if let Err(error) = done {
                        is_limit(&error);
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                    if i % 64 == 0 {
                        reader.quiescent();
                    }
                }
            });
        }
    });
    refused.into_inner()
}

#[test]
fn four_writers_never_pass_it() {
    let mut refused = 0;
    for limit in [32 << 10, 256 << 10] {
        each_kind!(new => {
            let domain = Domain::builder().hard_limit(limit).build();
            let map: SharedMap<_, u64> = new().domain(&domain).build().unwrap();
            let most = most_garbage(&domain, || {
                refused += four_writers(&map, steps(60_000) as u64);
            });
            assert!(most <= limit, "{most} of {limit} bytes");
            map.verify().unwrap();
            map.reclaim(usize::MAX);
            assert_eq!(domain.garbage(), 0, "the reserved room was returned");
        });
    }
    assert!(refused > 0 || steps(8) < 8, "the limit was never reached");
}

/// A byte string counts with its own length, not with another one's.
#[test]
fn four_writers_of_byte_strings_never_pass_it() {
    fn run<O: Order>(new: impl Fn(&Domain) -> SharedMap<O, [u8]>) {
        let limit = 256 << 10;
        let domain = Domain::builder().hard_limit(limit).build();
        let map = new(&domain);
        let most = most_garbage(&domain, || {
            four_writers(&map, steps(30_000) as u64);
        });
        assert!(most <= limit, "{most} of {limit} bytes");
        map.verify().unwrap();
        map.reclaim(usize::MAX);
        assert_eq!(domain.garbage(), 0, "the reserved room was returned");
    }
    run(|domain| QpShared::builder().domain(domain).build().unwrap());
    run(|domain| PointMap::builder().domain(domain).build().unwrap());
}

#[test]
fn four_writers_and_a_compaction_never_pass_it() {
    both(|index| {
        let limit = 128 << 10;
        let domain = Domain::builder().hard_limit(limit).build();
        let map: QpShared<u64> = builder(index).domain(&domain).build().unwrap();
        for i in 0..steps(20_000) as u64 {
            map.insert((i << 8).to_be_bytes(), i).unwrap();
        }
        let most = most_garbage(&domain, || {
            let done = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        // More than there is room for.
                        if let Err(error) = map.compact_step(100_000) {
                            is_limit(&error);
                        }
                    }
                });
                let _done = Done(&done);
                four_writers(&map, steps(40_000) as u64);
            });
        });
        assert!(most <= limit, "{most} of {limit} bytes");
        map.verify().unwrap();
        map.reclaim(usize::MAX);
        assert_eq!(domain.garbage(), 0);
    });
}

/// A compaction under a limit completes in small steps.
#[test]
fn a_compaction_goes_on_as_there_is_room() {
    let limit = 16 << 10;
    let domain = Domain::builder().hard_limit(limit).build();
    let map = QpShared::builder().domain(&domain).build().unwrap();
    let n = steps(20_000) as u64;
    for i in 0..n {
        map.insert((i * 7919 % n).to_be_bytes(), i).unwrap();
    }
    let mut done = 0;
    let most = most_garbage(&domain, || {
        while map.compact_step(usize::MAX).unwrap() {
            done += 1;
            map.reclaim(usize::MAX);
            assert!(done < 1_000_000);
        }
    });
    assert!(
        most <= limit && (done > 4 || steps(8) < 8),
        "{most}, {done}"
    );
    map.verify().unwrap();
    assert_eq!(map.len() as u64, n);
}

#[test]
fn writers_that_wait_for_room_all_go_on() {
    each_kind!(new => {
        let limit = 96 << 10;
        let domain = Domain::builder()
            .hard_limit(limit)
            .policy(LimitPolicy::Block)
            .build();
        let map = new().domain(&domain).build().unwrap();
        let most = most_garbage(&domain, || {
            thread::scope(|scope| {
                for writer in 0..4u64 {
                    let map = &map;
                    scope.spawn(move || {
                        for i in 0..steps(10_000) as u64 {
                            let key = ((i % 3_000) << 8 | writer).to_be_bytes();
                            map.insert(key, i).unwrap();
                        }
                    });
                }
            });
        });
        assert!(most <= limit, "{most} of {limit} bytes");
        map.verify().unwrap();
    });
}

/// Structures of every kind share one domain, each with its own writer.
#[test]
fn structures_that_share_a_domain_never_pass_it_together() {
    let limit = 64 << 10;
    let domain = Domain::builder().hard_limit(limit).build();
    let store = QpStore::builder().domain(&domain).build().unwrap();
    let fib = Ipv4Fib::builder()
        .root_bits(6)
        .domain(&domain)
        .build()
        .unwrap();
    let ranges = MapleMap::builder().domain(&domain).build();
    let rounds = steps(20_000) as u64;
    let most = most_garbage(&domain, || {
        thread::scope(|scope| {
            scope.spawn(|| {
                for i in 0..rounds {
                    let mut txn = store.begin();
                    for j in 0..4 {
                        if let Err(no) = txn.insert(((i * 31 + j * 7) & 1023).to_be_bytes(), i) {
                            is_limit(&no.error);
                        }
                    }
                    match i % 5 {
                        0 => txn.rollback(),
                        _ => drop(txn.commit()),
                    }
                    if i % 16 == 0 {
                        if let Err(error) = store.compact_step(200) {
                            is_limit(&error);
                        }
                    }
                }
            });
            scope.spawn(|| {
                for i in 0..rounds {
                    let address = (i as u32 & 1023).wrapping_mul(2_654_435_761).into();
                    let net = ipnet::Ipv4Net::new_assert(address, 32);
                    let done = match i % 3 {
                        0 => fib.remove(net).map(drop),
                        _ => fib.insert(net, i).map(drop).map_err(|no| no.error),
                    };
                    if let Err(error) = done {
                        is_limit(&error);
                    }
                }
            });
            scope.spawn(|| {
                for i in 0..rounds {
                    let start = i * 37 % 4096;
                    if let Err(no) = ranges.store(start..=start + i % 50, i) {
                        is_limit(&no.error);
                    }
                }
            });
            scope.spawn(|| {
                for _ in 0..rounds {
                    let pin = domain.pin();
                    std::hint::black_box(&pin);
                }
            });
        });
    });
    assert!(most <= limit, "{most} of {limit} bytes");
    store.verify().unwrap();
    fib.verify().unwrap();
    ranges.verify().unwrap();
    store.reclaim(usize::MAX);
    fib.reclaim(usize::MAX);
    ranges.reclaim(usize::MAX);
    assert_eq!(domain.garbage(), 0, "the reserved room was returned");
}

/// Replaces values of a store until the limit refuses a change.
fn fill(store: &QpStore<u64>) {
    let refused = (0..1_000_000u64).find_map(|i| {
        let mut txn = store.begin();
        let refused = txn.insert((i & 63).to_be_bytes(), i).err();
        txn.commit();
        refused
    });
    is_limit(&refused.unwrap().error);
}

/// A reservation keeps the room that its store needs, also while another structure takes the rest.
#[test]
fn a_reserved_store_does_not_pass_it() {
    let limit = 32 << 10;
    let domain = Domain::builder().hard_limit(limit).build();
    let ranges = MapleMap::builder().domain(&domain).build();
    for i in 0..500u64 {
        ranges.store(10 * i..=10 * i + 4, i).unwrap();
    }
    ranges.reclaim(usize::MAX);
    assert_eq!(domain.garbage(), 0);
    let store = QpStore::builder().domain(&domain).build().unwrap();
    let snapshots = (store.snapshot(), ranges.snapshot());
    for stored in [false, true] {
        // A range over many leaves, which all become garbage.
        let plan = ranges.plan_store(100..=4_000, &7).unwrap();
        let before = domain.garbage();
        let reservation = ranges.reserve(plan).unwrap();
        assert!(domain.garbage() > before + 1_000);
        if stored {
            fill(&store);
            assert!(domain.garbage() > limit - 1_000);
            reservation.store(7);
        } else {
            drop(reservation);
            assert_eq!(domain.garbage(), before);
        }
        ranges.reclaim(0);
        assert!(domain.garbage() <= limit, "{}", domain.garbage());
    }
    let waiting = ranges.memory().waiting.1 + store.memory().waiting.1;
    assert_eq!(domain.garbage(), waiting);
    drop(snapshots);
    ranges.reclaim(usize::MAX);
    store.reclaim(usize::MAX);
    assert_eq!(domain.garbage(), 0);
    ranges.verify().unwrap();
}

/// A change by a reservation of unknown ranges cannot fail, so its garbage is counted but not
/// limited.
#[test]
fn reserved_changes_of_unknown_ranges_only_count() {
    let limit = 4 << 10;
    let domain = Domain::builder().hard_limit(limit).build();
    let ranges = MapleMap::builder().domain(&domain).build();
    for i in 0..1_000u64 {
        ranges.store(10 * i..=10 * i + 4, i).unwrap();
    }
    ranges.reclaim(usize::MAX);
    let snapshot = ranges.snapshot();
    let mut unknown = ranges.reserve_unknown(2).unwrap();
    is_limit(&ranges.clear_range(0..=u64::MAX).unwrap_err());
    assert_eq!(ranges.len(), 1_000);
    unknown.clear_range(0..=u64::MAX).unwrap();
    unknown.store(0..=9, 1).unwrap();
    drop(unknown);
    ranges.reclaim(0);
    assert!(domain.garbage() > limit, "{}", domain.garbage());
    is_limit(&ranges.store(5..=5, 2).unwrap_err().error);
    drop(snapshot);
    ranges.store(5..=5, 2).unwrap();
    ranges.reclaim(usize::MAX);
    assert_eq!(domain.garbage(), 0);
    ranges.verify().unwrap();
}
