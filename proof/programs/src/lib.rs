//! Programs in the kernel that the benchmarks and the tour time, and the runs of those that measure
//! names and prefixes.

#![cfg(feature = "kernel")]

use sapwood_bpf::layout::key_image;
use sapwood_bpf::layout::program_map::SHORT_KEY_MAX;
use sapwood_bpf::{Error, Programs};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The benchmark of names: lookups and changes in a timed loop.
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, Loader};
/// let arena = BpfArena::create(64 << 20)?;
/// let programs = Loader::open(&arena, sapwood_programs::BENCH_NAMES)?.load()?;
/// # let _ = programs;
/// # Ok::<(), sapwood_bpf::Error>(())
/// ```
pub const BENCH_NAMES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bench-names.bpf.o"));

/// The benchmark of maps that programs write.
pub const BENCH_WRITES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bench-writes.bpf.o"));

/// The benchmark of names below stored ones.
pub const BENCH_CLOSEST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bench-closest.bpf.o"));

/// The benchmark of keys of one length, up to 4,096 bytes.
pub const BENCH_LONG: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bench-long.bpf.o"));

/// The benchmark of commits: programs that look up all keys of a commit.
pub const BENCH_STORE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bench-store.bpf.o"));

/// The benchmark of queues: programs that take the first entry and insert another.
pub const BENCH_QUEUE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bench-queue.bpf.o"));

/// The benchmark of tables of prefixes.
pub const BENCH_PREFIXES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bench-prefixes.bpf.o"));

/// The benchmark of range maps.
pub const BENCH_RANGES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bench-ranges.bpf.o"));

/// Both ends of the benchmark of `XdpRoute` of `sapwood-xdp`: a sender of frames, and a receiver
/// that counts them.
pub const BENCH_FORWARD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bench-forward.bpf.o"));

/// The longest key of the programs in [`BENCH_NAMES`] and [`BENCH_WRITES`], in bytes.
pub const KEY_MAX: usize = SHORT_KEY_MAX;

/// The words of a key's image, whose number is the same for all questions of a run. An image has
/// the key's length, its bytes, and zeros up to the multiple of 32 bytes that the longest key
/// needs.
///
/// ```
/// assert_eq!(sapwood_programs::image_words(31), 4);
/// assert_eq!(sapwood_programs::image_words(32), 8);
/// ```
pub fn image_words(longest: usize) -> usize {
    (longest + 1).div_ceil(32) * 4
}

/// The words of a question: the expected value (0: none), and the image of the key, which has
/// `image` words.
///
/// ```
/// let words: Vec<u64> = sapwood_programs::question(b"\x07", 5, 4).collect();
/// assert_eq!(words, [5, u64::from_ne_bytes([1, 7, 0, 0, 0, 0, 0, 0]), 0, 0, 0]);
/// ```
///
/// # Panics
/// When the key has more than [`KEY_MAX`] bytes.
pub fn question(key: &[u8], expected: u64, image: usize) -> impl Iterator<Item = u64> {
    assert!(key.len() <= KEY_MAX, "a key of {} bytes", key.len());
    let bytes = key_image(key, 0);
    let word = move |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| bytes[8 * at + i]));
    std::iter::once(expected).chain((0..image).map(word))
}

/// A run of a program of [`BENCH_NAMES`], [`BENCH_WRITES`], [`BENCH_PREFIXES`] or [`BENCH_RANGES`]
/// over questions in the arena: `struct run` of `bpf/bench/run.h`.
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, Loader, UserMap, Words};
/// let arena = BpfArena::create(64 << 20)?;
/// let map = UserMap::<u64>::builder(&arena, "names").bytes(1 << 20).with_index().build()?;
/// let programs = Loader::open(&arena, sapwood_programs::BENCH_NAMES)?.load()?;
/// let image = sapwood_programs::image_words(3);
/// let words = Words::create(&arena, "questions", 1 + image)?;
/// for (at, word) in sapwood_programs::question(b"who", 0, image).enumerate() {
///     words.set(at, word);
/// }
/// let run = sapwood_programs::Run::new(words.window().at, 1, image, map.window().number, 1);
/// let done = run.by(&programs, "sw_run_index")?;
/// assert_eq!((done.wrong, done.left), (0, 0));
/// # Ok::<(), sapwood_bpf::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
#[non_exhaustive]
pub struct Run {
    /// The place of the questions, in bytes from the beginning of the arena.
    pub at: u64,
    /// The number of questions.
    pub questions: u32,
    /// The words of each key's image; 0 for prefixes.
    pub image: u32,
    /// The number of the map's window.
    pub map: u32,
    /// The number of lookups. After the last question comes the first.
    pub count: u32,
    /// In the answer: the nanoseconds of the run.
    pub ns: u64,
    /// In the answer: the number of wrong answers.
    pub wrong: u64,
    /// In the answer: the number of unanswered questions.
    pub left: u64,
}

impl Run {
    /// A run of `count` lookups in the map of this window, with the questions from place `at` on.
    ///
    /// # Panics
    /// When `questions`, `image` or `count` is 2^32 or more.
    pub fn new(at: usize, questions: usize, image: usize, map: u32, count: usize) -> Run {
        let short = |number: usize| u32::try_from(number).expect("less than 2^32");
        Run {
            at: at as u64,
            questions: short(questions),
            image: short(image),
            map,
            count: short(count),
            ..Run::default()
        }
    }

    /// Runs a program on this, and returns the answer.
    ///
    /// # Errors
    /// As [`Programs::run`]; [`Error::Damaged`] when the program ended early.
    pub fn by(mut self, programs: &Programs, program: &str) -> Result<Run, Error> {
        /// XDP_PASS.
        const DONE: u32 = 2;
        match programs.run(program, self.as_mut_bytes())? {
            DONE => Ok(self),
            other => Err(Error::Damaged(format!("{program} returned {other}"))),
        }
    }
}
