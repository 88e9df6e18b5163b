//! Objects of BPF programs that are compiled with this crate.

/// What the benchmarks measure of names: lookups and changes in a loop, with the clock around them.
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, Loader, objects};
/// let arena = BpfArena::create(64 << 20)?;
/// let programs = Loader::open(&arena, objects::BENCH_NAMES)?.load()?;
/// # let _ = programs;
/// # Ok::<(), sapwood_bpf::Error>(())
/// ```
pub const BENCH_NAMES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bench-names.bpf.o"));

/// The same of maps that programs write.
pub const BENCH_WRITES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bench-writes.bpf.o"));

/// The same of tables of prefixes.
pub const BENCH_PREFIXES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bench-prefixes.bpf.o"));

/// Both ends of what the benchmark measures of [`XdpRoute`](crate::XdpRoute): a sender of frames, and a receiver that counts them.
pub const BENCH_FORWARD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bench-forward.bpf.o"));
