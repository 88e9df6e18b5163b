//! The suite `bpf`: maps that programs in the kernel read, measured there.
//!
//! Each round has every engine answer the same questions, in another order of engines. The loop,
//! the clock around it and the comparison with the expected answer are a BPF program; what is
//! subtracted is the same loop over the same questions that copies each key to where the lookup
//! would take it from, and looks nothing up. A loop is cut into calls of a thousand to four
//! thousand questions; the round counts with the median of its calls, and the report has the median
//! of the rounds. A wrong answer ends the run.
//!
//! Exact matches, cases `kallsyms`, `btf`, `paths`, `domains-1m`, `random-binary`, of the same
//! names as in the suite `names`:
//!
//! | metric | what it is |
//! |---|---|
//! | `lookup_ns` | a lookup of a random key that is there |
//! | `hot_ns` | the same, of a thousand keys over and over, in random orders |
//! | `miss_ns` | a lookup of a key that is not there: one of the keys with one byte changed, or a fresh random one |
//! | `walk_ns` | a walk over the whole map by a program, an entry: in order, with `sw_qp_walk_step`; of hash tables in whatever order, with `bpf_for_each_map_elem`; not of a map that has only an index |
//! | `walk_user_ns` | the same by this process, processor time, in order if there is one: of our maps |
//! | `insert_bpf_ns`, `update_bpf_ns` | a change by a program: insertions; the mean of insertions and overwriting |
//! | `update_user_ns` | a change by this process, processor time: the mean of removals, insertions and overwriting, random keys |
//! | `update_user_batch_ns` | the same by system calls that take 4,096 keys each |
//! | `memory_mb` | all in, in 10^6 bytes: by the arena's accounts, or what the kernel says of its map |
//!
//! Engines: `sapwood-bpf` (the trie alone, branches in depth-first order), `sapwood-bpf-index` (the
//! point index alone: `UserPointMap`) and `sapwood-bpf-both`, written by this process;
//! `kernel-hash` and `kernel-hash-noprealloc`, BPF_MAP_TYPE_HASH without and with
//! BPF_F_NO_PREALLOC, as large as the set. Their keys are a byte with the length, the key, and
//! zeros up to what the longest key takes in whole words of 8 bytes. Keys of more than 254 bytes
//! are left out. Programs change maps of their own, made for that (`ProgramMap`): with a trie, with
//! an index, and with both, in the rows of the same names. In records of before `sapwood-bpf-both`,
//! the map of this process called `sapwood-bpf-index` had both, and so had the map that programs
//! change called `sapwood-bpf`.
//!
//! The case `closest`: names of five labels, none of them stored, each below one of a million
//! domain names. `closest_ns`: engine `sapwood-bpf` asks `sw_qp_closest` (encloser, wildcard,
//! predecessor and all), `kernel-hash` looks the five names up that the name and its parents are;
//! the time that a program takes to cut the labels off is not counted.
//!
//! The cases `long-keys-64`, `-256`, `-1024`, `-4096`: keys of that many bytes, like paths, 64 MiB
//! of them (131,072 at most); a thousand are asked for over and over. `lookup_ns` and `miss_ns` (one
//! byte is another): each engine finds its key in memory as it takes it, and copies nothing.
//! `copied_lookup_ns`: the key's bytes are copied from the kernel's memory first (`sw_key_memory`,
//! `bpf_probe_read_kernel`). The hash table's keys are the bytes alone.
//!
//! The case `store`: a thousand keys get another value, by a transaction of a `UserStore`, or by
//! one system call that updates a hash table (`kernel-hash`). `commit_visible_us`: by the clock,
//! until the next run of a program sees all of it, which is asserted; `half_commits`: of the runs
//! of a program beside a writer without a pause, the share that saw values of two commits, or
//! missed a key. One such run of ours ends the suite.
//!
//! Longest prefixes, engines `sapwood-bpf` and `kernel-lpm-trie`: `lookup_ns` of addresses in a
//! random prefix, `hot_ns`, `miss_ns` (if a thousand random addresses or more are in no prefix),
//! `update_user_ns` (a removal or an insertion) and `memory_mb`. The kernel counts an LPM_TRIE's
//! prefixes alone; `memory_taken_mb` is what its allocations grew by. Cases: `lpm-100k` (random
//! IPv4 prefixes) and `lpm-full` (the global table, with `--data`), `lpm6-100k` and `lpm6-full` of
//! IPv6, and `lpm-bits`, of a network number and an IPv4 address: a `BitFib` in a window. There,
//! engine `sapwood-bpf-programs` is a table that a program wrote (a `ProgramMap` with a trie), and
//! `update_bpf_ns` a removal or an insertion by a program, with this process's service of that
//! table, by processor time.
//!
//! Packets that the program `xdp-route` forwards, by a router with 10,000 routes of each version,
//! made after the global table, to 64 neighbours on four veth cables; engines
//! `sapwood-xdp-resolver` (the kernel's table is asked for each packet, by `bpf_fib_lookup`),
//! `sapwood-xdp-cache` (the route cache in front of it) and `sapwood-xdp-fib` (tables in the arena
//! that mirror the kernel's). The namespaces have no names and end with this process, however it
//! ends.
//!
//! Cases `xdp-route-v4-1`, `-1k`, `-100k`, and the same of v6: this many flows to random addresses
//! within the routes, by `BPF_PROG_TEST_RUN`. Of one flow, a frame is forwarded 200 times in a
//! call; of more, each frame has a call of its own, one flow after the other, and the cache knows
//! all of them. Of every frame that comes out all bytes are compared: both link addresses, a hop
//! less for each time, the checksum; and the program's own counts. The interface shows by its link
//! address.
//!
//! | metric | what it is |
//! |---|---|
//! | `packet_ns` | by the clock that the kernel has around the program alone, less what a program takes that passes all frames |
//! | `mpps` | the same as millions of packets a second of one processor |
//! | `call_ns` | by this process's clock around the whole call, comparison included; not of one flow, whose calls wait for the kernel |
//!
//! Cases `xdp-route-netns-v4`, `-v6`: frames of 64 bytes of 1,000 flows from a namespace through
//! the router to a third, for a second. The sender is a program too, run by the kernel with live
//! frames; the programs are on the interfaces in native mode, and a program at the far end looks at
//! addresses, hops, checksum and interface of every frame before it counts it: `kpps`, thousands a
//! second of those that arrived, and `lost`, the share that did not. Sending and receiving are in
//! it, on the processor that forwards. Answers of the cache are fresh for 100 ms. The peer is
//! `kernel-forwarding`: the same frames, the same sender and receiver, no program on the router.
//!
//! The case `drop-1m`: a map with a million names goes, and its memory with it.
//!
//! | metric | what it is |
//! |---|---|
//! | `drop_ms` | processor time: of the thread that does it, and of the kernel's workers in the half second that follows |
//! | `held_us` | the longest that any processor kept a real-time thread waiting in that second; a thread on each sleeps a tenth of a millisecond at a time. The notes have the same of a second in which nothing goes |
//!
//! Engines: `sapwood-bpf-index`, whose map is dropped and its memory given back in pieces
//! (`BpfArena::reclaim`) before the arena is closed; `sapwood-bpf-at-once`, without that: the
//! kernel frees it all when it closes the arena; `kernel-hash`.

#[cfg(feature = "bpf")]
mod closest;
#[cfg(feature = "bpf")]
mod closing;
#[cfg(feature = "bpf")]
mod forward;
#[cfg(feature = "bpf")]
mod long;
#[cfg(feature = "bpf")]
mod names;
#[cfg(feature = "bpf")]
mod prefixes;
#[cfg(feature = "bpf")]
mod store;

use super::Options;
use crate::report::Report;

/// Runs the suite, or says why it cannot.
pub fn run(options: &Options) -> Result<Report, String> {
    let mut report = Report::new("bpf");
    match ready() {
        Ok(()) => measure(options, &mut report)?,
        Err(why) => {
            println!("skipped: {why}");
            report.skipped = Some(why);
        }
    }
    Ok(report)
}

#[cfg(feature = "bpf")]
fn ready() -> Result<(), String> {
    sapwood_bpf::check().map_err(|why| why.to_string())
}

#[cfg(not(feature = "bpf"))]
fn ready() -> Result<(), String> {
    Err("built without the feature `bpf`".into())
}

#[cfg(feature = "bpf")]
fn measure(options: &Options, report: &mut Report) -> Result<(), String> {
    let all = || {
        let maps = names::CASES.into_iter().chain(closest::CASES);
        let maps = maps.chain(store::CASES).chain(long::CASES);
        let maps = maps.chain(prefixes::CASES);
        maps.chain(forward::CASES).chain(closing::CASES)
    };
    if !all().any(|case| options.wants_case(case)) {
        let all: Vec<_> = all().collect();
        return Err(format!("no such case; cases: {}", all.join(", ")));
    }
    println!("{}", report.machine);
    names::run(options, report)?;
    closest::run(options, report)?;
    store::run(options, report)?;
    long::run(options, report)?;
    prefixes::run(options, report)?;
    forward::run(options, report)?;
    closing::run(options, report)
}

#[cfg(not(feature = "bpf"))]
fn measure(_: &Options, _: &mut Report) -> Result<(), String> {
    Ok(())
}
