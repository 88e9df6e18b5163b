//! Programs on all processors write at once: no element is lost, and none is counted twice.

use std::time::Duration;

use sapwood_bpf::{BpfArena, ProgramMap};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::kernel::{pin, skipped};
use crate::{Asking, E2BIG, ENOMEM, NOEXIST, Of, ours, set, window, zeros};

/// What a program does with each of many keys.
pub const INSERT: u32 = 0;
pub const REMOVE: u32 = 1;
pub const ADD: u32 = 2;
pub const INSERT_AND_REMOVE: u32 = 3;

/// `struct many` of the program.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Many {
    map: [u32; 2],
    what: u32,
    count: u32,
    first: u64,
    stride: u64,
    pub done: u32,
    exists: u32,
    absent: u32,
    full: u32,
    pub busy: u32,
    other: u32,
    pub error: i64,
    key: [u8; 256],
}

/// Runs on one processor.
pub fn pinned<R>(cpu: usize, f: impl FnOnce() -> R) -> R {
    pin(cpu);
    f()
}

impl Asking {
    /// A program changes `count` keys, `first` and every `stride`th behind it. Its counts.
    pub fn many(&self, of: Of, what: u32, (first, stride): (u64, u64), count: u32) -> Many {
        let mut many = Many {
            map: of.numbers(),
            what,
            count,
            first,
            stride,
            ..zeros()
        };
        self.run("sw_many", &mut many);
        // Without service in time, ours may have no memory for a change.
        assert!(many.other == 0 || many.error == ENOMEM, "{of:?} {many:?}");
        many
    }

    /// All processors do this at once, each from `first` of its number on. The sums of their
    /// counts: done, exists, absent, full, busy, others.
    fn at_once(
        &self,
        of: Of,
        what: u32,
        first: impl Fn(u64) -> u64 + Sync,
        stride: u64,
        count: u32,
    ) -> [u64; 6] {
        let each = std::thread::scope(|scope| {
            let (first, asking) = (&first, self);
            let one = |cpu: usize| {
                scope.spawn(move || {
                    pinned(cpu, || {
                        asking.many(of, what, (first(cpu as u64), stride), count)
                    })
                })
            };
            let threads: Vec<_> = (0..cpus()).map(one).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Many>| thread.join().unwrap();
            threads.into_iter().map(join).collect::<Vec<_>>()
        });
        let sum = |of: fn(&Many) -> u32| each.iter().map(|many| u64::from(of(many))).sum();
        [
            sum(|many| many.done),
            sum(|many| many.exists),
            sum(|many| many.absent),
            sum(|many| many.full),
            sum(|many| many.busy),
            sum(|many| many.other),
        ]
    }

    /// The same again until no change met a lock that was held for too long, as on a processor of
    /// a virtual machine that stops. How many were done.
    fn until_done(
        &self,
        of: Of,
        what: u32,
        first: impl Fn(u64) -> u64 + Sync,
        stride: u64,
        count: u32,
    ) -> u64 {
        let mut done = 0;
        for _ in 0..100 {
            let sums = self.at_once(of, what, &first, stride, count);
            done += sums[0];
            assert_eq!(sums[5], 0, "{of:?}: no memory");
            if sums[4] == 0 {
                return done;
            }
        }
        panic!("{of:?}: always busy");
    }
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(2, |n| n.get())
}

#[test]
fn all_processors_write() {
    if skipped() {
        return;
    }
    let cpus = cpus() as u64;
    let each = 2000;
    let n = cpus * u64::from(each);
    let arena = BpfArena::create(128 << 20).unwrap();
    let asking = Asking::new(&arena, n as u32);
    let maps = ours(&arena, n as usize);
    for (i, of) in [Of::Hash]
        .into_iter()
        .chain(maps.iter().map(window))
        .enumerate()
    {
        // Each inserts keys of its own, until the map is full: all have room, and no more.
        assert_eq!(
            asking.until_done(of, INSERT, |cpu| cpu, cpus, each),
            n,
            "{of:?}"
        );
        assert_eq!(asking.insert(of, n, NOEXIST, 0), E2BIG, "{of:?}");
        let [_, exists, _, full, ..] = asking.at_once(of, INSERT, |cpu| cpu * 100 + n - 50, 1, 100);
        assert_eq!((exists, full), (50, cpus * 100 - 50), "{of:?}");
        assert!(
            (0..n).all(|key| asking.lookup(of, key) == Ok(key)),
            "{of:?}"
        );
        // All add to all values.
        for _ in 0..5 {
            assert_eq!(asking.at_once(of, ADD, |_| 0, 1, n as u32)[0], n * cpus);
        }
        let sum = |key| asking.lookup(of, key) == Ok(key + 5 * cpus);
        assert!((0..n).all(sum), "{of:?}");
        // All remove all keys: each is removed once.
        assert_eq!(
            asking.until_done(of, REMOVE, |_| 0, 1, n as u32),
            n,
            "{of:?}"
        );
        assert_eq!(asking.lookup(of, 1), Err(crate::ENOENT));
        // What was removed comes back after a grace period.
        if i > 0 {
            let service = maps[i - 1].spawn_service(Duration::from_millis(1)).unwrap();
            std::thread::sleep(Duration::from_millis(500));
            service.stop().unwrap();
            assert_eq!(maps[i - 1].verify().unwrap().entries, 0);
        } else {
            assert_eq!(asking.kernels_keys(10), []);
        }
        // All insert the same keys: each is inserted once.
        assert_eq!(
            asking.until_done(of, INSERT, |_| 0, 1, n as u32),
            n,
            "{of:?}"
        );
        assert!(
            (0..n).all(|key| asking.lookup(of, key) == Ok(key)),
            "{of:?}"
        );
    }
    assert_eq!(set(asking.kernels_keys(2 * n as usize)), set(0..n));
    for map in &maps {
        assert_eq!(map.verify().unwrap().entries, n as usize);
    }
}

/// Keys come and go on all processors, in a map that is nearly full, beside keys that stay.
#[test]
fn what_stays_is_not_lost() {
    if skipped() {
        return;
    }
    let cpus = cpus() as u64;
    let arena = BpfArena::create(128 << 20).unwrap();
    let stays = 200u64;
    let entries = stays + cpus;
    let asking = Asking::new(&arena, entries as u32);
    let map = |name: &str| {
        let map = ProgramMap::<u64>::builder(&arena, name).max_entries(entries as usize);
        map.mean_key(8).bytes(16 << 20)
    };
    let maps = [
        map("index").with_index().build().unwrap(),
        map("trie").with_trie().build().unwrap(),
    ];
    for of in [Of::Hash].into_iter().chain(maps.iter().map(window)) {
        for key in 0..stays {
            assert_eq!(asking.insert(of, key, NOEXIST, key), 0);
        }
        let mut sums = [0; 6];
        for round in 0..40 {
            // Each processor has one entry more for the time of a change.
            let first = |cpu: u64| 1_000_000 * (cpu + 1) + round * 50;
            let more = asking.at_once(of, INSERT_AND_REMOVE, first, 1, 50);
            sums = std::array::from_fn(|i| sums[i] + more[i]);
            for map in &maps {
                map.service().unwrap();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let [done, exists, absent, full, busy, short] = sums;
        println!(
            "{of:?}: {done} done, {full} found the map full, {busy} a lock, {short} no memory"
        );
        assert_eq!(exists, 0, "{of:?}");
        // What was not inserted could not be removed.
        assert!(full + busy + short >= absent, "{of:?}: {sums:?}");
        assert_eq!(sums.iter().sum::<u64>(), 40 * 100 * cpus, "{of:?}");
        assert!(done > 40 * 90 * cpus, "{of:?}: {sums:?}");
        assert!(
            (0..stays).all(|key| asking.lookup(of, key) == Ok(key)),
            "{of:?}"
        );
    }
    // A removal that met a lock leaves its entry.
    for map in &maps {
        assert!(map.verify().unwrap().entries >= stays as usize);
    }
}
