//! Programs on all processors write at once, while this process services and reads the map.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore, MapFlags};
use sapwood_bpf::{BpfArena, ProgramMap, ProgramMapBuilder, ProgramMapService, Programs};

use crate::asks::Kernel;
pub use crate::kernel::pin;
use crate::kernel::{Answers, word};
use crate::{PARTS, can, with};

/// Keys are numbers below this.
pub const KEYS: u32 = 2000;
/// Operations of one run of a program.
const COUNT: u32 = 200;

/// As `struct storm` in the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub done: u64,
    pub found: u64,
    pub torn: u64,
    pub no_entry: u64,
    pub no_memory: u64,
    pub busy: u64,
    pub full: u64,
    pub other: u64,
    pub error: i64,
}

impl Counts {
    /// Those of a `struct storm`.
    pub fn of(storm: &[u8]) -> Counts {
        let number = |i: usize| {
            let at = 24 + 4 * i;
            u64::from(u32::from_ne_bytes(storm[at..at + 4].try_into().unwrap()))
        };
        Counts {
            done: number(0),
            found: number(1),
            torn: number(2),
            no_entry: number(3),
            no_memory: number(4),
            busy: number(5),
            full: number(6),
            other: number(7),
            error: word(storm, 56) as i64,
        }
    }

    pub fn add(&mut self, more: Counts) {
        self.done += more.done;
        self.found += more.found;
        self.torn += more.torn;
        self.no_entry += more.no_entry;
        self.no_memory += more.no_memory;
        self.busy += more.busy;
        self.full += more.full;
        self.other += more.other;
        if more.other > 0 {
            self.error = more.error;
        }
    }
}

/// Waits until the last retired blocks have come back, ends the service, and checks the map.
pub fn settle(map: &ProgramMap<[u64; 4]>, service: ProgramMapService) {
    let until = Instant::now() + Duration::from_secs(10);
    while Instant::now() < until {
        let m = map.memory().unwrap();
        if m.retired + m.waiting == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    service.stop().unwrap();
    let shape = map.verify().unwrap();
    let m = map.memory().unwrap();
    assert_eq!((shape.refused, m.retired, m.waiting), (0, 0, 0));
    assert_eq!(m.live, m.branches + m.clusters + m.leaves);
    let mut entries = 0;
    map.for_each(|key, value| {
        assert!(is_whole(key, value), "{key:?}");
        entries += 1;
    })
    .unwrap();
    assert_eq!(entries, shape.entries);
    println!("{shape:?}; {m:?}");
}

/// The bytes of a `struct storm` with no counts.
pub fn question(window: u32, (keys, count): (u32, u32), seed: u64, removals: u32) -> Vec<u8> {
    let mut data = vec![0u8; 64 + 64 + 256];
    data[0..4].copy_from_slice(&window.to_ne_bytes());
    data[4..8].copy_from_slice(&keys.to_ne_bytes());
    data[8..16].copy_from_slice(&seed.to_ne_bytes());
    data[16..20].copy_from_slice(&count.to_ne_bytes());
    data[20..24].copy_from_slice(&removals.to_ne_bytes());
    data
}

pub fn run(programs: &Programs, window: u32, seed: u64, removals: u32) -> Counts {
    let mut data = question(window, (KEYS, COUNT), seed, removals);
    programs.answer("sw_storm", &mut data);
    Counts::of(&data)
}

/// The changes that a program makes in interrupts, on all processors.
pub struct Interrupts {
    programs: Programs,
    link: Option<libbpf_rs::Link>,
}

impl Interrupts {
    const CPUS: u32 = 64;

    /// From now on, each timer that expires changes one of these maps.
    pub fn start(arena: &BpfArena, windows: &[u32]) -> Interrupts {
        let Kernel(programs) = Kernel::new(arena);
        let map = programs.map("interrupts").unwrap();
        for cpu in 0..Self::CPUS {
            let mut mine = question(0, (KEYS, COUNT), u64::from(cpu) << 32, 100);
            for i in 0..4 {
                mine.extend(windows[i % windows.len()].to_ne_bytes());
            }
            mine.extend([0; 8]);
            map.update(&cpu.to_ne_bytes(), &mine, MapFlags::ANY)
                .unwrap();
        }
        let program = programs.program("sw_storm_interrupt").unwrap();
        let link = Some(program.attach().unwrap());
        Interrupts { programs, link }
    }

    /// Ends it, and returns the counts of all processors.
    pub fn stop(mut self) -> Counts {
        drop(self.link.take());
        let map = self.programs.map("interrupts").unwrap();
        let mut all = Counts::default();
        for cpu in 0..Self::CPUS {
            let mine = map.lookup(&cpu.to_ne_bytes(), MapFlags::ANY).unwrap();
            all.add(Counts::of(&mine.unwrap()));
        }
        all
    }
}

fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// The key of a number, as the program makes it.
pub fn key(number: u32) -> Vec<u8> {
    let mut key: Vec<u8> = (0..7)
        .map(|i| b'a' + (number >> (2 * i) & 3) as u8)
        .collect();
    key.resize(7 + number as usize % 8, b'x');
    key
}

/// A value for the key of a number.
pub fn value(number: u32, random: u64) -> [u64; 4] {
    let number = u64::from(number);
    [random, number, !random, mix(random ^ number)]
}

pub fn is_whole(key_of: &[u8], value: [u64; 4]) -> bool {
    value[1] < u64::from(KEYS)
        && key(value[1] as u32) == key_of
        && value[2] == !value[0]
        && value[3] == mix(value[0] ^ value[1])
}

/// The duration, which the environment may extend.
fn time() -> Duration {
    let soak = std::env::var("SAPWOOD_SOAK").ok();
    let seconds = soak.and_then(|text| text.parse::<u64>().ok());
    seconds.map_or(Duration::from_millis(700), |seconds| {
        Duration::from_secs(seconds) / PARTS.len() as u32
    })
}

/// Runs until the time is over, and programs have made this many changes and found this many
/// values, which may take longer on a busy machine.
fn storm(
    arena: &BpfArena,
    builder: ProgramMapBuilder<[u64; 4]>,
    parts: (bool, bool),
    least: u64,
) -> Counts {
    let map: ProgramMap<[u64; 4]> = with(builder, parts)
        .max_entries(KEYS as usize)
        .build()
        .unwrap();
    let window = map.window().number;
    let service = map.spawn_service(Duration::from_micros(200)).unwrap();
    let ends = AtomicBool::new(false);
    let (done, found) = (AtomicU64::new(0), AtomicU64::new(0));
    let cpus = std::thread::available_parallelism().map_or(2, |n| n.get());
    let mut all = Counts::default();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cpus)
            .map(|cpu| {
                let (ends, arena, done, found) = (&ends, &arena, &done, &found);
                scope.spawn(move || {
                    pin(cpu);
                    let Kernel(programs) = Kernel::new(arena);
                    let mut rng = fastrand::Rng::with_seed(cpu as u64);
                    let mut counts = Counts::default();
                    while !ends.load(Ordering::Relaxed) {
                        // The map grows at times, and shrinks at others.
                        let removals = [20, 60, 120, 250][rng.usize(..4)];
                        for _ in 0..20 {
                            let more = run(&programs, window, rng.u64(..), removals);
                            done.fetch_add(more.done, Ordering::Relaxed);
                            found.fetch_add(more.found, Ordering::Relaxed);
                            counts.add(more);
                        }
                    }
                    counts
                })
            })
            .collect();
        let until = Instant::now() + time();
        let mut rng = fastrand::Rng::with_seed(99);
        let (mut seen, mut walks) = (0, 0);
        let late = until + Duration::from_secs(30);
        let enough = || {
            done.load(Ordering::Relaxed)
                .min(found.load(Ordering::Relaxed))
                > least
        };
        while Instant::now() < until || (!enough() && Instant::now() < late) {
            for _ in 0..100 {
                let key = key(rng.u32(..KEYS));
                if let Some(value) = map.get(&key).unwrap_or(None) {
                    assert!(is_whole(&key, value), "{key:?} {value:x?}");
                    seen += 1;
                }
            }
            let walked = map.for_each(|key, value| assert!(is_whole(key, value), "{key:?}"));
            walks += u32::from(walked.is_ok());
            assert!(map.len() <= KEYS as usize);
        }
        ends.store(true, Ordering::Relaxed);
        for thread in threads {
            all.add(thread.join().unwrap());
        }
        assert!(walks > 0, "{seen} values, {walks} walks");
    });
    println!("{parts:?}: {all:?}");
    settle(&map, service);
    all
}

#[test]
fn all_processors_write() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(128 << 20).unwrap();
    for (i, parts) in PARTS.into_iter().enumerate() {
        let builder = ProgramMap::builder(&arena, &format!("usual{i}"));
        let counts = storm(&arena, builder.bytes(16 << 20), parts, 1000);
        assert_eq!(
            (counts.torn, counts.other, counts.full),
            (0, 0, 0),
            "{counts:?}"
        );
        assert!(counts.done > 1000 && counts.found > 1000, "{counts:?}");
        // A window that runs full, and requests for blocks that fail.
        let builder = ProgramMap::builder(&arena, &format!("short{i}"));
        let builder = builder.bytes(200 << 10).grow(true).ring(2).fail_every(3);
        let counts = storm(&arena, builder, parts, 10);
        assert_eq!(
            (counts.torn, counts.other, counts.full),
            (0, 0, 0),
            "{counts:?}"
        );
        assert!(counts.done > 0 && counts.no_memory > 0, "{counts:?}");
    }
}
