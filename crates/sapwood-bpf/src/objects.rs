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
pub const BENCH_NAMES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/names.bpf.o"));
