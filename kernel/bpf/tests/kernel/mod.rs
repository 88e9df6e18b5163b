//! Code that several tests of the kernel's side share.
#![allow(dead_code)]

#[path = "../common/beside.rs"]
mod beside;
pub mod maps;

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

pub use beside::*;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use sapwood_bpf::layout::key_image;
use sapwood_bpf::{BpfArena, Loader, PinnedProgram, Programs, WindowInfo, Words};

pub const LOOKUP: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/lookup.bpf.o"));
pub const WALK: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/walk.bpf.o"));
pub const CLOSEST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/closest.bpf.o"));
pub const STORE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/store.bpf.o"));
pub const PREFIX: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/prefix.bpf.o"));

/// Results of programs: no such key, no such window or cursor, no order.
pub const NO_ENTRY: i64 = -2;
pub const INVALID: i64 = -22;
pub const NO_ORDER: i64 = -95;

/// Loads the programs of an object.
pub fn load(arena: &BpfArena, object: &[u8]) -> Programs {
    Loader::open(arena, object).unwrap().load().unwrap()
}

/// The longest key that programs accept, and the longest key that `struct sw_key` holds itself.
pub const KEY_MAX: usize = 4096;
pub const SHORT_MAX: usize = 254;

/// A `struct sw_key`.
pub type Image = [u8; 256];

/// The image of a short key.
pub fn short(key: &[u8]) -> Image {
    assert!(key.len() <= SHORT_MAX, "a key of {} bytes", key.len());
    key_image(key, 0)
}

/// Memory in the arena for a long key.
pub struct Room(Words);

impl Room {
    const WORDS: usize = KEY_MAX / 8 + 2;

    pub fn new(arena: &BpfArena, name: &str) -> Room {
        Room(Words::create(arena, name, Room::WORDS).unwrap())
    }

    /// The place of the memory in the arena.
    pub fn at(&self) -> u64 {
        self.0.window().at as u64
    }

    /// The image of any key. A long key is written here, at a place of any alignment, with other
    /// bytes around it.
    pub fn image(&self, key: &[u8]) -> Image {
        if key.len() <= SHORT_MAX {
            return short(key);
        }
        let from = 1 + key.len() % 8;
        let mut bytes = vec![0xa5; Room::WORDS * 8];
        bytes[from..from + key.len()].copy_from_slice(key);
        for (at, bytes) in bytes.chunks_exact(8).enumerate() {
            self.0.set(at, word(bytes, 0));
        }
        key_image(key, self.at() + from as u64)
    }

    /// The key of an image. A program has copied the bytes of a long key here.
    pub fn key(&self, image: &[u8]) -> Vec<u8> {
        let len = usize::from(image[0]);
        if len <= SHORT_MAX {
            assert!(
                image[1 + len..].iter().all(|&byte| byte == 0),
                "zeros behind the key"
            );
            return image[1..=len].to_vec();
        }
        let len = word(image, 16) as usize;
        let bytes = (0..len.div_ceil(8)).flat_map(|at| self.0.get(at).to_ne_bytes());
        bytes.take(len).collect()
    }
}

/// A question of a test's program: two numbers, and the image of a key at this place.
pub fn question_of(words: [u32; 2], at: usize, key: &Image) -> Vec<u8> {
    let mut data = vec![0u8; at + 256];
    data[0..4].copy_from_slice(&words[0].to_ne_bytes());
    data[4..8].copy_from_slice(&words[1].to_ne_bytes());
    data[at..].copy_from_slice(key);
    data
}

/// A question with a short key.
pub fn question(words: [u32; 2], at: usize, key: &[u8]) -> Vec<u8> {
    question_of(words, at, &short(key))
}

/// Programs that write the answer over the question.
pub trait Answers {
    fn answer(&self, program: &str, data: &mut [u8]);
}

impl Answers for Programs {
    fn answer(&self, program: &str, data: &mut [u8]) {
        assert_eq!(self.run(program, data).unwrap(), 2);
    }
}

/// A pinned program ignores the name.
impl Answers for PinnedProgram {
    fn answer(&self, _: &str, data: &mut [u8]) {
        let given = data.to_vec();
        assert_eq!(self.run(&given, data).unwrap(), 2);
    }
}

pub fn word(data: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(data[at..at + 8].try_into().unwrap())
}

/// The value behind a result, if the result is a place, or the error.
pub fn result(data: &[u8], at: usize) -> Result<u64, i64> {
    match word(data, at) as i64 {
        code if code > 0 => Ok(word(data, at + 8)),
        code => Err(code),
    }
}

/// A lookup by a program: by the trie (0), by the index (1), or by either (2).
pub fn lookup(programs: &impl Answers, what: u32, window: u32, key: &[u8]) -> Result<u64, i64> {
    lookup_of(programs, what, window, &short(key))
}

/// A lookup of the image of a key.
pub fn lookup_of(programs: &impl Answers, what: u32, window: u32, key: &Image) -> Result<u64, i64> {
    let mut data = question_of([what, window], 24, key);
    programs.answer("sw_ask", &mut data);
    result(&data, 8)
}

/// Keys of at most `most` bytes: short ones of few letters, long ones, and some of random bytes, so
/// that branches have all sizes. Some keys have lengths around an edge.
pub fn key(rng: &mut fastrand::Rng, most: usize, edge: Range<usize>) -> Vec<u8> {
    let (len, letters) = match rng.u8(0..9) {
        0 => (rng.usize(0..most), 3),
        1 => (rng.usize(0..4), 255),
        2 => (rng.usize(edge), 2),
        3 => (rng.usize(0..most), 100),
        _ => (rng.usize(0..8), 4),
    };
    (0..len).map(|_| rng.u8(0..letters)).collect()
}

/// A name of up to this many labels out of few, so that names meet.
pub fn name(rng: &mut fastrand::Rng, labels: usize) -> Vec<u8> {
    let (long, longer) = ([b'l'; 40], [b'm'; 140]);
    let choice: [&[u8]; 9] = [b"a", b"b", b"*", b"ab", b"-", b"xn", &long, &longer, b"~"];
    let mut name = Vec::new();
    for _ in 0..rng.usize(..=labels) {
        match rng.u8(..8) {
            0 => name.extend((0..rng.usize(1..4)).map(|_| rng.u8(2..))),
            _ => name.extend(choice[rng.usize(..choice.len())]),
        }
        name.push(0);
    }
    name.truncate(700);
    name
}

/// The value of a key that comes and goes.
pub fn value_of(key: &[u8]) -> u64 {
    let sum = key.iter().fold(5u64, |sum, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    sum >> 32
}

/// Sets a flag on drop, so that threads end even when a test fails.
pub struct Ends<'a>(pub &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Makes this thread run on a processor. Where the first processors are not available, it runs on
/// any.
pub fn pin(cpu: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

/// Timers that expire on the processor of the thread that sets them.
pub struct Timers(Vec<OwnedFd>);

impl Timers {
    pub fn new(count: usize) -> Timers {
        let timer = |_| timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::empty()).unwrap();
        Timers((0..count).map(timer).collect())
    }

    /// Makes them expire one after the other, every `step` nanoseconds from soon on.
    pub fn set(&self, step: u64) {
        for (i, timer) in self.0.iter().enumerate() {
            let once = Itimerspec {
                it_interval: Timespec::default(),
                it_value: Timespec {
                    tv_sec: 0,
                    tv_nsec: (20_000 + step * (i as u64 + 1)) as _,
                },
            };
            timerfd_settime(timer, TimerfdTimerFlags::empty(), &once).unwrap();
        }
    }
}

/// Writes words anywhere into an arena.
pub struct Poke(Programs);

impl Poke {
    const WORDS: usize = 256;

    pub fn new(arena: &BpfArena) -> Poke {
        let object = include_bytes!(concat!(env!("OUT_DIR"), "/poke.bpf.o"));
        Poke(load(arena, object))
    }

    pub fn words(&self, at: u64, words: &[u64]) {
        for (i, part) in words.chunks(Self::WORDS).enumerate() {
            let mut data = Vec::with_capacity(16 + 8 * Self::WORDS);
            data.extend((at + (i * Self::WORDS * 8) as u64).to_ne_bytes());
            data.extend((part.len() as u64).to_ne_bytes());
            data.extend(part.iter().flat_map(|word| word.to_ne_bytes()));
            data.resize(16 + 8 * Self::WORDS, 0);
            self.0.answer("sw_poke", &mut data);
        }
    }
}

/// A window whose words the tests damage and restore.
pub struct Damage {
    poke: Poke,
    info: WindowInfo,
    /// The original words of the window, and the last word in use.
    pub whole: Vec<u64>,
    pub last: usize,
}

/// The first word behind the header page.
pub const NODES: usize = 512;

impl Damage {
    pub fn new(arena: &BpfArena, info: &WindowInfo) -> Damage {
        let image = arena.image();
        let end = (info.at + info.len).min(image.len());
        let bytes = image[info.at..end].chunks_exact(8);
        let whole: Vec<u64> = bytes.map(|bytes| word(bytes, 0)).collect();
        Damage {
            poke: Poke::new(arena),
            info: info.clone(),
            last: whole.iter().rposition(|&word| word != 0).unwrap(),
            whole,
        }
    }

    /// Writes words from word `at` of the window on.
    pub fn words(&self, at: usize, words: &[u64]) {
        self.poke.words((self.info.at + at * 8) as u64, words);
    }

    pub fn put_back(&self, at: usize, len: usize) {
        self.words(at, &self.whole[at..at + len]);
    }

    /// Changes some words from word `at` on: a bit, a byte, or all; or overwrites them with other
    /// words of the window. Returns their number.
    pub fn spoil(&self, rng: &mut fastrand::Rng, at: usize) -> usize {
        let len = [1, 1, 1, 8, 64][rng.usize(0..5)].min(self.last - at);
        let kind = rng.u8(0..4);
        let from = rng.usize(NODES..self.last - 64);
        let words: Vec<u64> = (0..len)
            .map(|i| match kind {
                0 => self.whole[at + i] ^ 1 << rng.u32(0..64),
                1 => self.whole[at + i] ^ u64::from(rng.u8(1..)) << (8 * rng.u32(0..8)),
                2 => self.whole[from + i],
                _ => rng.u64(..),
            })
            .collect();
        self.words(at, &words);
        len
    }

    /// Random words, as many as the window has.
    pub fn noise(&self, rng: &mut fastrand::Rng) -> Vec<u64> {
        (0..self.whole.len()).map(|_| rng.u64(..)).collect()
    }
}
