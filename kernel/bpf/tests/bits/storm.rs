//! All processors insert, remove and look up prefixes in one table at once, from programs. Each
//! processor owns lengths of prefixes, which no other changes: so it knows the answer of each of
//! its changes, and the least answer of each lookup. Afterwards the table is compared with all that
//! they know. `SAPWOOD_SOAK` sets how many seconds it takes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sapwood::lpm::BitString;
use sapwood_bpf::{BpfArena, ProgramMap, ProgramMapBuilder, Programs};

use crate::kernel::{Answers, Ends, NO_ENTRY, load, skipped, word};
use crate::{Asking, Oracle, cut, same_answers};

const STORM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bits_storm.bpf.o"));

/// Operations of one run of the program, and the bits of an address: as in the program.
const COUNT: usize = 64;
const BITS: usize = 61;
/// There are fewer prefixes: of each length the one, and those that differ from it in one bit.
const PREFIXES: usize = 2_000;
/// Where the results are in `struct storm`, and how long it is.
const RESULTS: usize = 40 + 256;
const STORM_BYTES: usize = RESULTS + 2 * COUNT;

const NO_MEMORY: i64 = -12;
const BUSY: i64 = -16;

fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// What values of a prefix begin with.
fn proof(address: u64, bits: usize) -> u64 {
    let prefix = address.checked_shr(64 - bits as u32).unwrap_or(0);
    let prefix = prefix.checked_shl(64 - bits as u32).unwrap_or(0);
    mix(prefix.wrapping_add(bits as u64)) & !0xffff
}

/// A processor that changes the table, and what it knows of it.
struct Processor {
    number: usize,
    of: usize,
    /// The prefixes of its lengths.
    oracle: Oracle,
    changes: u64,
    /// Lookups that found something.
    found: u64,
    /// Changes for which there was no memory.
    starved: u64,
}

impl Processor {
    fn new(number: usize, of: usize) -> Processor {
        Processor {
            number,
            of,
            oracle: Oracle::new(),
            changes: 0,
            found: 0,
            starved: 0,
        }
    }

    fn owns(&self, bits: usize) -> bool {
        bits % self.of == self.number
    }

    /// Runs the program once, and compares what it did with what is known.
    fn run(&mut self, programs: &Programs, window: u32, seed: u64, removals: u32) {
        let mut data = vec![0; STORM_BYTES];
        let words = [window, self.number as u32, self.of as u32, removals];
        for (to, word) in data.chunks_mut(4).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        data[16..24].copy_from_slice(&seed.to_ne_bytes());
        programs.answer("sw_storm_bits", &mut data);
        assert_eq!(word(&data, 24), 0, "values of other prefixes");
        let mut random = seed;
        for result in data[RESULTS..].chunks(2) {
            random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let [changed, found] = [result[0], result[1]].map(|byte| i64::from(byte as i8));
            self.compare(mix(random), removals, changed, found);
        }
    }

    /// One operation, as the program makes it of a random number, and its answers.
    fn compare(&mut self, random: u64, removals: u32, changed: i64, found: i64) {
        let mut address = 0xa5a5_a5a5_a5a5_a5a5u64;
        if random >> 20 & 1 == 1 {
            address ^= 1 << (random >> 32 & 63);
        }
        let lengths = BITS / self.of;
        let length = self.number + (random >> 40) as usize % lengths * self.of;
        let query = BitString::truncated(&address.to_be_bytes(), BITS).unwrap();
        let prefix = cut(&query, length);
        let removes = random & 0xff < removals.into();
        let inserts = !removes && random & 0x100 != 0;
        match changed {
            0 if removes => assert!(self.oracle.remove(&prefix).is_some(), "{prefix}"),
            NO_ENTRY if removes => assert!(!self.oracle.contains_key(&prefix), "{prefix}"),
            0 if inserts => {
                let value = proof(address, length) | random >> 48;
                self.oracle.insert(prefix, value);
            }
            NO_MEMORY | BUSY if removes || inserts => self.starved += 1,
            1 if !removes && !inserts => {}
            other => panic!("{other}: {prefix}, {removes} {inserts}"),
        }
        self.changes += u64::from(changed == 0);
        let known = (0..=BITS).rev().filter(|bits| self.owns(*bits));
        let mut known = known.filter(|bits| self.oracle.contains_key(&cut(&query, *bits)));
        let least = known.next().map_or(NO_ENTRY, |bits| bits as i64);
        // Others may have a longer one there.
        assert!(found >= least, "{query}: {found}, not {least}");
        if found >= 0 && self.owns(found as usize) {
            assert_eq!(found, least, "{query}");
        }
        self.found += u64::from(found >= 0);
    }
}

/// Runs the storm until the time is over and `done` has reached `least`, also on a busy machine.
/// Returns what all processors did.
fn storm(arena: &BpfArena, builder: ProgramMapBuilder<u64>, least: u64) -> Vec<Processor> {
    let table = builder.max_entries(PREFIXES).build();
    let table = table.unwrap();
    let asking = Asking::new(arena, table.window().number);
    let service = table.spawn_service(Duration::from_micros(200)).unwrap();
    let processors = std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 16));
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let seconds = std::env::var("SAPWOOD_SOAK").map_or(1.4, |text| text.parse::<f64>().unwrap());
    let time = Duration::from_secs_f64(seconds / 4.0);
    let all: Vec<_> = std::thread::scope(|scope| {
        let ends = Ends(&stop);
        let threads: Vec<_> = (0..processors)
            .map(|number| {
                let (stop, done, window) = (&stop, &done, table.window().number);
                let programs = load(arena, STORM);
                scope.spawn(move || {
                    let mut set = rustix::thread::CpuSet::new();
                    set.set(number);
                    // Where there are fewer processors, threads run where they may.
                    let _ = rustix::thread::sched_setaffinity(None, &set);
                    let mut rng = fastrand::Rng::with_seed(number as u64);
                    let mut processor = Processor::new(number, processors);
                    while !stop.load(Ordering::Relaxed) {
                        // Times of growing and of shrinking.
                        let removals = [20, 60, 120, 250][rng.usize(..4)];
                        for _ in 0..20 {
                            let before = processor.changes;
                            processor.run(&programs, window, rng.u64(..), removals);
                            done.fetch_add(processor.changes - before, Ordering::Relaxed);
                        }
                    }
                    processor
                })
            })
            .collect();
        let until = Instant::now() + time;
        let late = until + Duration::from_secs(30);
        let enough = || done.load(Ordering::Relaxed) > least || Instant::now() > late;
        let failed = || threads.iter().any(|thread| thread.is_finished());
        while (Instant::now() < until || !enough()) && !failed() {
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(ends);
        threads.into_iter().map(|one| one.join().unwrap()).collect()
    });
    service.stop().unwrap();
    let oracle: Oracle = all.iter().flat_map(|one| one.oracle.clone()).collect();
    assert_eq!(table.verify().unwrap().entries, oracle.len());
    let there = table.reader().unwrap();
    let there = there.iter().map(|entry| {
        let (key, value) = entry.unwrap();
        (BitString::from_key(&key).unwrap(), value)
    });
    assert!(there.eq(oracle.clone()));
    let mut rng = fastrand::Rng::with_seed(21);
    for _ in 0..100 {
        same_answers(&asking, &oracle, &mut rng, BITS);
        asking.asked.borrow_mut().clear();
    }
    let sum = |count: fn(&Processor) -> u64| all.iter().map(count).sum::<u64>();
    println!(
        "{} changes of prefixes, {} found, {} starved; {} are left",
        sum(|one| one.changes),
        sum(|one| one.found),
        sum(|one| one.starved),
        oracle.len()
    );
    all
}

#[test]
fn all_processors_change_prefixes() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(128 << 20).unwrap();
    for (i, index) in [false, true].into_iter().enumerate() {
        let builder = |name| {
            let builder = ProgramMap::builder(&arena, &format!("{name}{i}")).with_trie();
            if index { builder.with_index() } else { builder }
        };
        for one in storm(&arena, builder("usual").bytes(16 << 20), 1_000) {
            assert!(one.changes > 100 && one.found > 100, "{}", one.number);
        }
        // A window that runs full, and blocks that cannot be had.
        let short = builder("short")
            .bytes(150 << 10)
            .grow(true)
            .ring(2)
            .fail_every(3);
        let all = storm(&arena, short, 10);
        assert!(all.iter().any(|one| one.starved > 0));
    }
}
