//! Questions to programs, for the tests of the route cache.

use std::fs::File;
use std::os::unix::fs::FileExt;

use libbpf_rs::{MapCore, ProgramInput};
use sapwood_bpf::{Programs, RouteKey, RouteValue};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub const SELFTEST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/route.bpf.o"));
pub const MS: u64 = 1_000_000;
pub const FRESH: u64 = 100 * MS;
pub const KEEP: u64 = 1000 * MS;

/// `struct ask` of tests/bpf/route_ask.h.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Ask {
    pub what: u32,
    pub window: u32,
    pub now: u64,
    pub flags: u32,
    pub budget: u32,
    pub result: i64,
    pub key: RouteKey,
    pub value: RouteValue,
    pub ticket: [u64; 4],
}

pub const GET: u32 = 0;
pub const PUT: u32 = 1;
pub const SWEEP: u32 = 2;
pub const INVALIDATE: u32 = 3;
pub const INVALIDATE_ALL: u32 = 4;
pub const NEGATIVE: u32 = 1;

/// `struct storm` of tests/bpf/route.bpf.c.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Storm {
    pub window: u32,
    pub keys: u32,
    pub random: u64,
    pub rounds: u64,
    pub least: u64,
    pub hits: u64,
    pub misses: u64,
    pub failures: u64,
    pub stored: u64,
    pub overtaken: u64,
    pub refused: u64,
    pub wrong: u64,
    pub old: u64,
    pub longest: u64,
}

pub fn can() -> bool {
    match sapwood_bpf::check() {
        Ok(()) => true,
        Err(why) => {
            println!("skipped: {why}");
            false
        }
    }
}

pub fn run<T: IntoBytes + FromBytes + Immutable + Copy>(
    programs: &Programs,
    name: &str,
    ask: T,
) -> T {
    let mut answer = ask;
    let input = ProgramInput {
        data_in: Some(ask.as_bytes()),
        data_out: Some(answer.as_mut_bytes()),
        ..ProgramInput::default()
    };
    let done = programs.program(name).unwrap().test_run(input).unwrap();
    assert_eq!(done.return_value, 2, "{name} is XDP_PASS");
    answer
}

pub fn key(n: u64) -> RouteKey {
    let mut key = RouteKey::default();
    key.address[..8].copy_from_slice(&n.to_le_bytes());
    key.flow = (n * 7) as u32;
    key
}

pub fn pin_to(processor: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(processor);
    rustix::thread::sched_setaffinity(None, &set).unwrap();
}

/// The bytes of the arena in this process.
pub struct Bytes {
    file: File,
    base: u64,
}

impl Bytes {
    pub fn of(programs: &Programs) -> Bytes {
        let map = programs.map("sw_arena").unwrap();
        let base = map.info().unwrap().info.map_extra;
        let file = File::options()
            .read(true)
            .write(true)
            .open("/proc/self/mem")
            .unwrap();
        Bytes { file, base }
    }

    pub fn read(&self, at: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.file
            .read_exact_at(&mut bytes, self.base + at as u64)
            .unwrap();
        bytes
    }

    pub fn write(&self, at: usize, bytes: &[u8]) {
        self.file
            .write_all_at(bytes, self.base + at as u64)
            .unwrap();
    }
}
