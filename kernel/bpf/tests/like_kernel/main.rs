//! The kernel's own maps and ours, side by side: programs do the same to both, and both answers are
//! stated. What differs is in the table of `docs/guides/ebpf.md` ("What is alike, and what is
//! not").
#![cfg(feature = "kernel")]

mod changes;
#[path = "../kernel/mod.rs"]
mod kernel;
mod prefixes;
mod walks;
mod writers;

use std::collections::BTreeSet;

use kernel::{Answers, short};
use libbpf_rs::MapCore;
use sapwood_bpf::{BpfArena, Loader, ProgramMap, ProgramMapBuilder, Programs};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/like_kernel.bpf.o"));

/// The kernel's flags, which are ours, too.
const ANY: u64 = 0;
const NOEXIST: u64 = 1;
const EXIST: u64 = 2;

const ENOENT: i64 = -2;
const E2BIG: i64 = -7;
const ENOMEM: i64 = -12;
const EEXIST: i64 = -17;
const EINVAL: i64 = -22;
const ENOSPC: i64 = -28;
const EOPNOTSUPP: i64 = -95;

/// What is done to one key. The numbers are the program's.
#[derive(Clone, Copy)]
enum What {
    Lookup = 0,
    Insert = 1,
    Remove = 2,
    Take = 3,
    Next = 4,
}

/// The map that is asked: one of the kernel's, or a window of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Hash,
    Lru,
    /// A HASH whose keys have 4,096 bytes.
    Large,
    Ours(u32),
}

impl Of {
    fn numbers(self) -> [u32; 2] {
        match self {
            Of::Hash => [0, 0],
            Of::Lru => [1, 0],
            Of::Large => [2, 0],
            Of::Ours(window) => [3, window],
        }
    }
}

/// `struct ask` of the program.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Ask {
    what: u32,
    map: [u32; 2],
    unused: u32,
    flags: u64,
    number: u64,
    result: i64,
    value: u64,
    key: [u8; 256],
}

/// The programs, with the kernel's maps of this many entries.
struct Asking(Programs);

impl Asking {
    fn new(arena: &BpfArena, entries: u32) -> Asking {
        let mut loader = Loader::open(arena, OBJECT).unwrap();
        let sizes = [
            ("hash", 8),
            ("lru", 8),
            ("large", 4096),
            ("lpm4", 8),
            ("lpm6", 20),
        ];
        for (name, key) in sizes {
            loader = loader.size_map(name, key, 8, entries).unwrap();
        }
        Asking(loader.load().unwrap())
    }

    /// Runs a program over a question, which becomes the answer.
    fn run<T: FromBytes + IntoBytes + Immutable>(&self, program: &str, question: &mut T) {
        self.0.answer(program, question.as_mut_bytes());
    }

    /// The result of an operation, and the value that it found.
    fn ask(&self, of: Of, what: What, number: u64, flags: u64, value: u64) -> (i64, u64) {
        let answer = self.ask_key(of, what, number, short(&number.to_ne_bytes()), flags, value);
        (answer.result, answer.value)
    }

    /// The same with any key of ours.
    fn ask_key(
        &self,
        of: Of,
        what: What,
        number: u64,
        key: [u8; 256],
        flags: u64,
        value: u64,
    ) -> Ask {
        let mut ask = Ask {
            what: what as u32,
            map: of.numbers(),
            unused: 0,
            flags,
            number,
            result: 0,
            value,
            key,
        };
        self.run("sw_like", &mut ask);
        ask
    }

    fn insert(&self, of: Of, number: u64, flags: u64, value: u64) -> i64 {
        self.ask(of, What::Insert, number, flags, value).0
    }

    fn remove(&self, of: Of, number: u64) -> i64 {
        self.ask(of, What::Remove, number, 0, 0).0
    }

    fn lookup(&self, of: Of, number: u64) -> Result<u64, i64> {
        match self.ask(of, What::Lookup, number, 0, 0) {
            (1, value) => Ok(value),
            (error, _) => Err(error),
        }
    }

    /// The keys of HASH by a walk of system calls, which ends after this many.
    fn kernels_keys(&self, most: usize) -> Vec<u64> {
        let map = self.0.map("hash").unwrap();
        map.keys().take(most).map(|key| number(&key)).collect()
    }

    /// The keys of a map of ours with a trie, each by the key before it.
    fn our_keys(&self, window: u32, most: usize) -> Vec<u64> {
        let mut keys = Vec::new();
        // The empty key comes before all others.
        let mut next = self.ask_key(Of::Ours(window), What::Next, 0, [0; 256], 0, 0);
        while next.result == 1 && keys.len() < most {
            keys.push(next.number);
            next = self.ask_key(Of::Ours(window), What::Next, 0, next.key, 0, 0);
        }
        keys
    }
}

/// The number of a key of eight bytes.
fn number(key: &[u8]) -> u64 {
    u64::from_ne_bytes(key.try_into().unwrap())
}

fn set(numbers: impl IntoIterator<Item = u64>) -> BTreeSet<u64> {
    numbers.into_iter().collect()
}

/// Maps of programs with an index, a trie, and both; all keys have 8 bytes.
fn ours(arena: &BpfArena, entries: usize) -> [ProgramMap<u64>; 3] {
    let builder = |name: &str| {
        let builder = ProgramMap::<u64>::builder(arena, &format!("{name} {entries}"));
        builder.max_entries(entries).mean_key(8).bytes(8 << 20)
    };
    let build = |builder: ProgramMapBuilder<u64>| builder.build().unwrap();
    [
        build(builder("index").with_index()),
        build(builder("trie").with_trie()),
        build(builder("both").with_index().with_trie()),
    ]
}

fn window(map: &ProgramMap<u64>) -> Of {
    Of::Ours(map.window().number)
}

/// A struct of a program's question, of zeros.
fn zeros<T: FromZeros>() -> T {
    T::new_zeroed()
}
