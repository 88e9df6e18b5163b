//! Programs on all processors push to and pop from one queue by time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use sapwood_bpf::{BpfArena, Error, ProgramMap, Programs, Write, WriteError};

use crate::kernel::{Answers, load, word};
use crate::side::{EAGAIN, EBUSY, ENOENT, ENOMEM, Side, What};
use crate::{Kernel, can, with};

const FIRST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/first.bpf.o"));

/// Times are numbers below this.
const TIMES: u32 = 500;

/// What a processor did.
#[derive(Default)]
struct Done {
    /// The numbers of its entries go up to this.
    pushed: u64,
    /// Times, sequence numbers and values that it took.
    taken: Vec<(u64, u64, u64)>,
    /// Whether its last run found the queue empty.
    empty: bool,
}

/// Has a program push and pop. `pushes` of 256 steps are pushes.
fn run(programs: &Programs, window: u32, pushes: u32, cpu: u64, seed: u64, done: &mut Done) {
    let mut data = vec![0u8; 64 + 64 + 256 + 64 * 24];
    data[0..4].copy_from_slice(&window.to_ne_bytes());
    data[4..8].copy_from_slice(&64u32.to_ne_bytes());
    data[8..12].copy_from_slice(&pushes.to_ne_bytes());
    data[12..16].copy_from_slice(&TIMES.to_ne_bytes());
    data[16..24].copy_from_slice(&seed.to_ne_bytes());
    data[24..32].copy_from_slice(&(cpu << 40 | done.pushed).to_ne_bytes());
    programs.answer("sw_run_queue", &mut data);
    let number = |at: usize| u32::from_ne_bytes(data[at..at + 4].try_into().unwrap());
    let [pushed, taken, empty, other] = [32, 36, 40, 52].map(number);
    assert_eq!(other, 0, "{}", word(&data, 56) as i64);
    done.pushed += u64::from(pushed);
    done.empty = empty > 0;
    for at in 0..taken as usize {
        let words = [0, 8, 16].map(|more| word(&data, 384 + at * 24 + more));
        assert_eq!(words[2] >> 48, words[0], "the value belongs to the key");
        done.taken.push((words[0], words[1], words[2]));
    }
}

/// Pushes and pops by all processors, then only pops.
fn all_at_once(parts: (bool, bool)) {
    let arena = BpfArena::create(64 << 20).unwrap();
    let map: ProgramMap<u64> = with(ProgramMap::builder(&arena, "queue"), parts)
        .max_entries(20_000)
        .longest_key(16)
        .bytes(32 << 20)
        .ring(4096)
        .build()
        .unwrap();
    let window = map.window().number;
    let service = map.spawn_service(Duration::from_micros(200)).unwrap();
    let cpus = std::thread::available_parallelism().map_or(2, |n| n.get());
    let met = Barrier::new(cpus);
    let until = Instant::now() + Duration::from_millis(700);
    let late = until + Duration::from_secs(60);
    let all: Vec<Done> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cpus)
            .map(|cpu| {
                let (arena, met) = (&arena, &met);
                scope.spawn(move || {
                    let mut set = rustix::thread::CpuSet::new();
                    set.set(cpu);
                    // Where the first processors are not available, threads run on any.
                    let _ = rustix::thread::sched_setaffinity(None, &set);
                    let programs = load(arena, FIRST);
                    let mut rng = fastrand::Rng::with_seed(cpu as u64);
                    let mut done = Done::default();
                    let enough = |done: &Done| done.pushed > 2000 && done.taken.len() > 1000;
                    while Instant::now() < until || (!enough(&done) && Instant::now() < late) {
                        // Short queues, in which processors meet, and long ones.
                        let pushes = [100, 128, 140][rng.usize(..3)];
                        run(
                            &programs,
                            window,
                            pushes,
                            cpu as u64,
                            rng.u64(..),
                            &mut done,
                        );
                    }
                    assert!(enough(&done), "{} {}", done.pushed, done.taken.len());
                    met.wait();
                    // Without pushes, each processor takes entries in order.
                    let before = done.taken.len();
                    done.empty = false;
                    while !done.empty {
                        assert!(Instant::now() < late);
                        run(&programs, window, 0, cpu as u64, rng.u64(..), &mut done);
                    }
                    assert!(done.taken[before..].is_sorted(), "in order");
                    done
                })
            })
            .collect();
        let threads = threads.into_iter().map(|thread| thread.join().unwrap());
        threads.collect()
    });
    let mut taken = BTreeSet::new();
    for (_, _, value) in all.iter().flat_map(|done| &done.taken) {
        assert!(taken.insert(value & ((1 << 48) - 1)), "{value:x} twice");
    }
    let pushed = all.iter().zip(0u64..);
    let pushed = pushed.flat_map(|(done, cpu)| (0..done.pushed).map(move |i| cpu << 40 | i));
    let pushed: BTreeSet<u64> = pushed.collect();
    assert!(taken == pushed, "{} of {}", taken.len(), pushed.len());
    assert_eq!(map.len(), 0);
    service.stop().unwrap();
    assert_eq!(map.verify().unwrap().entries, 0);
    println!("{parts:?}: {} entries", taken.len());
}

#[test]
fn each_entry_is_taken_once() {
    if can() {
        all_at_once((false, true));
        all_at_once((true, true));
    }
}

#[test]
fn what_is_due_leaves_in_order() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let mut side = Kernel::new(&arena);
    let map: ProgramMap<u64> = with(ProgramMap::builder(&arena, "timers"), (false, true))
        .max_entries(1000)
        .longest_key(16)
        .build()
        .unwrap();
    let window = map.window().number;
    let times = [
        0,
        1,
        255,
        256,
        u64::from(u32::MAX),
        1 << 40,
        1 << 63,
        u64::MAX,
    ];
    let mut wanted = Vec::new();
    for round in 0..3u64 {
        for (i, &due) in times.iter().rev().enumerate() {
            let value = round << 8 | i as u64;
            // All with one number: what was pushed later gets a later one.
            let (error, _) = side.ask(What::PushDue, window, due, &[], &[value, 7]);
            assert_eq!(error, 0);
            wanted.push((due, round, value));
        }
        map.service().unwrap();
    }
    // As many numbers as an insertion tries are taken: the next ones of 7 are 10 to 70.
    for number in 10..71 {
        let (error, _) = side.ask(What::PushDue, window, 256, &[], &[0, number]);
        assert_eq!(error, 0);
        map.service().unwrap();
    }
    let (full, _) = side.ask(What::PushDue, window, 256, &[], &[0, 7]);
    assert_eq!(full, crate::side::EEXIST);
    for number in 10..71u64 {
        let key = [256u64.to_be_bytes(), number.to_be_bytes()].concat();
        let (error, _) = side.ask(What::Remove, window, 0, &key, &[]);
        assert_eq!(error, 0);
        map.service().unwrap();
    }
    wanted.sort();
    for (due, round, value) in wanted {
        if due > 0 {
            let (early, _, key) = side.ask_for_key(What::PopDue, window, due - 1, &[], &[]);
            assert_eq!(early, EAGAIN, "{due}");
            assert_eq!(key[1..9], due.to_be_bytes());
        }
        let (error, words, key) = side.ask_for_key(What::PopDue, window, due, &[], &[]);
        assert_eq!((error, words[0]), (0, value), "{due}");
        assert_eq!(key[0], 16);
        assert_eq!(key[1..9], due.to_be_bytes());
        assert_eq!(key[9..17], (7 + round).to_be_bytes());
        map.service().unwrap();
    }
    let (empty, _) = side.ask(What::PopDue, window, u64::MAX, &[], &[]);
    assert_eq!(empty, ENOENT);
    assert_eq!(map.verify().unwrap().entries, 0);
}

/// This process and a program take entries of one map at once.
#[test]
fn user_space_takes_the_first_beside_a_program() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    for parts in [(false, true), (true, true)] {
        let map = with(ProgramMap::<u64>::builder(&arena, "queue"), parts);
        let map = map.max_entries(40_000).bytes(16 << 20).user_writes();
        let map = map.build().unwrap();
        assert_eq!(map.pop_first().unwrap(), Ok(None));
        let mut rng = fastrand::Rng::with_seed(8);
        let mut oracle = BTreeMap::new();
        for number in 0..20_000u64 {
            let length = if number % 9 == 0 {
                100
            } else {
                rng.usize(0..8)
            };
            let key: Vec<u8> = (0..length).map(|_| rng.u8(..)).collect();
            oracle.insert(key, number);
        }
        let all: Vec<_> = oracle
            .iter()
            .map(|(key, n)| Write::Insert(key, *n))
            .collect();
        assert!(map.write_many(&all).unwrap().iter().all(Result::is_ok));
        let window = map.window().number;
        let service = map.spawn_service(Duration::from_micros(200)).unwrap();
        let (mut here, mut there) = (Vec::new(), Vec::new());
        let start = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut side = Kernel::new(&arena);
                start.wait();
                loop {
                    let (result, value, image) =
                        side.ask_for_key(What::PopFirst, window, 0, &[], &[]);
                    match result {
                        0 => there.push((image[1..][..image[0].into()].to_vec(), value[0])),
                        ENOENT => break,
                        result => assert!(result == EBUSY || result == ENOMEM, "{result}"),
                    }
                }
            });
            start.wait();
            loop {
                match map.pop_first().unwrap() {
                    Ok(Some(entry)) => here.push(entry),
                    Ok(None) => break,
                    Err(WriteError::Busy | WriteError::NoMemory) => (),
                    Err(refused) => panic!("{refused}"),
                }
            }
        });
        service.stop().unwrap();
        println!("{} here, {} there", here.len(), there.len());
        assert!(!here.is_empty() && !there.is_empty());
        for taken in [&here, &there] {
            assert!(taken.is_sorted(), "the least one each time");
        }
        let both: BTreeMap<_, _> = here.iter().chain(&there).cloned().collect();
        assert_eq!(here.len() + there.len(), oracle.len());
        assert_eq!(both, oracle);
        assert_eq!(map.verify().unwrap().entries, 0);
    }
    let index = ProgramMap::<u64>::builder(&arena, "index").with_index();
    let index = index.bytes(4 << 20).user_writes().build().unwrap();
    assert_eq!(index.insert("a", 1).unwrap(), Ok(()));
    let refused = index.pop_first();
    assert!(matches!(refused, Err(Error::Setting { .. })), "{refused:?}");
}
