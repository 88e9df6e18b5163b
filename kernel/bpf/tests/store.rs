//! A store that this process changes in transactions and BPF programs read: programs see whole
//! commits, and one version throughout a run. `SAPWOOD_SOAK` sets how many seconds they are asked,
//! while the memory is looked at all the time.
#![cfg(feature = "kernel")]

mod kernel;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kernel::{Answers, Ends, LOOKUP, NO_ENTRY, STORE, load, lookup, skipped, word};
use sapwood_bpf::{BpfArena, KernelGrace, Programs, UserMap, UserStore, Words, layout};
use sapwood_qsbr::{Domain, LimitPolicy};

/// How many keys each commit changes.
const KEYS: u32 = 1_000;

/// The most bytes that may wait for programs: more than a commit makes, and less than the commits
/// of one grace period would.
const GARBAGE_MAX: usize = 512 << 10;
/// The most bytes of pages in use: the garbage, two versions, and what lies free between them.
const PAGES_MAX: usize = 1 << 20;

/// The most memory that was seen in use.
#[derive(Debug, Default)]
struct Most {
    /// Bytes that waited for programs.
    garbage: usize,
    /// Bytes of pages.
    pages: usize,
}

impl Most {
    /// Looks at the memory of a store.
    ///
    /// # Panics
    /// When it is above its bounds.
    fn see(&mut self, store: &UserStore<u64>) {
        let memory = store.memory();
        let arena = &memory.map.arena;
        self.garbage = self.garbage.max(memory.waiting.1).max(arena.retired);
        self.pages = self.pages.max(arena.committed);
        assert!(self.garbage <= GARBAGE_MAX, "{memory}");
        assert!(self.pages <= PAGES_MAX, "{memory}");
    }
}

struct Asking {
    programs: Programs,
    window: u32,
    cursor: u64,
    _scratch: Words,
}

impl Asking {
    fn new(arena: &BpfArena, name: &str, window: u32) -> Self {
        let scratch = Words::create(arena, name, layout::CURSOR_BYTES / 8).unwrap();
        Asking {
            programs: load(arena, STORE),
            window,
            cursor: scratch.window().at as u64,
            _scratch: scratch,
        }
    }

    /// The results of the lookups and of the walk in one run: the number of keys, and their common
    /// value.
    fn ask(&self) -> [(i64, u64); 2] {
        let mut data = vec![0; 64];
        data[0..4].copy_from_slice(&self.window.to_ne_bytes());
        data[4..8].copy_from_slice(&KEYS.to_ne_bytes());
        data[8..16].copy_from_slice(&self.cursor.to_ne_bytes());
        self.programs.answer("sw_ask_version", &mut data);
        [16, 32].map(|at| (word(&data, at) as i64, word(&data, at + 8)))
    }
}

fn commit(store: &UserStore<u64>, value: u64) {
    let mut txn = store.begin();
    for key in 0..KEYS {
        txn.insert(key.to_be_bytes(), value).unwrap();
    }
    txn.commit();
}

#[test]
fn programs_see_whole_commits_and_one_version_a_run() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let domain = Domain::builder()
        .source(KernelGrace::new().unwrap())
        .hard_limit(GARBAGE_MAX)
        .policy(LimitPolicy::Block)
        .build();
    let store = UserStore::<u64>::builder(&arena, "store").bytes(32 << 20);
    let store = store.domain(&domain).build().unwrap();
    let asking = ["one", "two"].map(|name| Asking::new(&arena, name, store.window().number));
    assert_eq!(asking[0].ask(), [(NO_ENTRY, 0), (0, 0)]);
    commit(&store, 1);
    let seconds = std::env::var("SAPWOOD_SOAK").map_or(1.0, |text| text.parse().unwrap());
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let stop = AtomicBool::new(false);
    let (commits, most, runs) = std::thread::scope(|scope| {
        let _ends = Ends(&stop);
        let askers = asking.each_ref().map(|asking| {
            let stop = &stop;
            scope.spawn(move || {
                let (mut runs, mut last) = (0u64, 0);
                while !stop.load(Ordering::Relaxed) {
                    let [(found, value), (walked, walked_value)] = asking.ask();
                    assert_eq!((found, walked), (KEYS.into(), KEYS.into()));
                    // The walk came later in the same run.
                    assert!(last <= value && value <= walked_value, "{last} {value}");
                    last = walked_value;
                    runs += 1;
                }
                runs
            })
        });
        // What waits is looked at in the middle of commits, too.
        let watch = scope.spawn(|| {
            let mut looks = 0u64;
            while !stop.load(Ordering::Relaxed) {
                assert!(domain.garbage() <= GARBAGE_MAX, "{}", domain.garbage());
                looks += 1;
                std::thread::sleep(Duration::from_micros(100));
            }
            looks
        });
        let (mut commits, mut most) = (1, Most::default());
        while Instant::now() < end {
            commits += 1;
            commit(&store, commits);
            most.see(&store);
        }
        stop.store(true, Ordering::Relaxed);
        assert!(watch.join().unwrap() > 20);
        (commits, most, askers.map(|asker| asker.join().unwrap()))
    });
    println!(
        "{commits} commits, {} runs of programs; at most {} KiB of garbage, {} KiB of pages",
        runs.iter().sum::<u64>(),
        most.garbage >> 10,
        most.pages >> 10
    );
    assert!(
        commits > 20 && runs.iter().all(|runs| *runs > 20),
        "{commits} {runs:?}"
    );
    // Retired blocks are freed when programs have ended.
    let snapshot = store.snapshot();
    commit(&store, commits + 1);
    assert_eq!(snapshot.get([0, 0, 0, 0]), Some(&commits));
    assert!(store.memory().waiting.0 > 0);
    drop(snapshot);
    let end = Instant::now() + Duration::from_secs(20);
    while store.memory().waiting.0 > 0 && Instant::now() < end {
        store.reclaim(usize::MAX);
    }
    assert_eq!(store.memory().waiting.0, 0, "memory is bounded");
    store.verify().unwrap();
}

#[test]
fn as_the_oracle_and_checked() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let store = UserStore::<u64>::builder(&arena, "store").bytes(32 << 20);
    let store = store.build().unwrap();
    let programs = load(&arena, LOOKUP);
    let window = store.window().number;
    let mut oracle = BTreeMap::new();
    let mut rng = fastrand::Rng::with_seed(7);
    let key = |rng: &mut fastrand::Rng| -> Vec<u8> {
        (0..rng.usize(0..9)).map(|_| rng.u8(b'a'..b'd')).collect()
    };
    for round in 0..400u64 {
        let before = oracle.clone();
        let mut txn = store.begin();
        for _ in 0..rng.usize(0..40) {
            let key = key(&mut rng);
            if rng.u8(..3) == 0 {
                assert_eq!(txn.remove(&key).unwrap().copied(), oracle.remove(&key));
            } else {
                txn.insert(&key, round + 1).unwrap();
                oracle.insert(key, round + 1);
            }
        }
        let asked = key(&mut rng);
        let seen = before.get(&asked).copied().ok_or(NO_ENTRY);
        assert_eq!(
            lookup(&programs, 2, window, &asked),
            seen,
            "not committed yet"
        );
        match rng.u8(..4) {
            0 => {
                txn.rollback();
                oracle = before;
            }
            _ => drop(txn.commit()),
        }
        for _ in 0..4 {
            let asked = key(&mut rng);
            let wanted = oracle.get(&asked).copied().ok_or(NO_ENTRY);
            assert_eq!(lookup(&programs, 2, window, &asked), wanted);
        }
        if round % 50 == 0 {
            store.verify().unwrap();
            let reader = arena.reader::<u64>("store").unwrap();
            reader.verify().unwrap();
            let read: Vec<_> = reader.iter().map(Result::unwrap).collect();
            assert!(read.into_iter().eq(oracle.clone()));
        }
    }
    // A store and a shared map have the same format, so each can take over the other.
    drop(store);
    let map = UserMap::<u64>::builder(&arena, "store")
        .bytes(8 << 20)
        .build()
        .unwrap();
    map.insert("a", 1).unwrap();
    assert_eq!(lookup(&programs, 2, map.window().number, b"a"), Ok(1));
}
