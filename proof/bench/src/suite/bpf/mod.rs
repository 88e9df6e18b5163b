//! The suite `bpf`: maps that programs in the kernel read, measured there.
//!
//! In each round every engine answers the same questions, and the order of the engines changes. A
//! BPF program has the loop, the clock around it and the comparison with the expected answer. The
//! report subtracts the time of an empty loop: the same loop over the same questions, which copies
//! each key to the place where a lookup would read it, and looks nothing up. A loop is cut into
//! calls of one to four thousand questions. The result of a round is the median of its calls, and
//! that of the report the median of the rounds. A wrong answer ends the run.
//!
//! Exact matches, in the cases `kallsyms`, `btf`, `paths`, `domains-1m` and `random-binary`, which
//! have the names of the cases of the suite `names`:
//!
//! | metric | what it is |
//! |---|---|
//! | `lookup_ns` | a lookup of a random present key |
//! | `hot_ns` | the same for a thousand keys over and over, in random orders |
//! | `miss_ns` | a lookup of an absent key: one of the keys with one byte changed, or a new random one |
//! | `walk_ns` | a walk over the whole map by a program, per entry: in order, with `sw_qp_walk_step`; over hash tables in any order, with `bpf_for_each_map_elem`; not over a map that has only an index |
//! | `walk_user_ns` | the same by this process, in processor time, in order if there is one: only Sapwood's maps |
//! | `insert_bpf_ns`, `update_bpf_ns` | a change by a program: insertions; the mean of insertions and overwriting |
//! | `update_user_ns` | a change by this process, in processor time: the mean of removals, insertions and overwriting of random keys |
//! | `update_user_batch_ns` | the same by calls that take 4,096 keys each: a system call of the kernel's, or `write_many` of a `ProgramMap`, with its service |
//! | `memory_mb` | all memory in 10^6 bytes: by the arena's accounts, or by the kernel's report about its map |
//!
//! Engines: `sapwood-bpf` (the trie alone, branches in depth-first order), `sapwood-bpf-store` (a
//! `UserStore`, whose clusters hold their entries; each change of this process is a commit),
//! `sapwood-bpf-index` (the point index alone: `UserPointMap`) and `sapwood-bpf-both`, written by
//! this process; `kernel-hash` and `kernel-hash-noprealloc`, BPF_MAP_TYPE_HASH without and with
//! BPF_F_NO_PREALLOC, as large as the set. The keys of the kernel's tables are a byte with the
//! length, the key, and zeros up to the size of the longest key in whole words of 8 bytes. Keys of
//! more than 254 bytes are omitted. Programs change separate maps (`ProgramMap`): with a trie, with
//! an index, and with both, in the rows of the same names. In records from before
//! `sapwood-bpf-both`, the map of this process called `sapwood-bpf-index` had both parts, and so
//! had the map called `sapwood-bpf` that programs change.
//!
//! The case `closest`: names of five labels, none of them stored, each below one of a million
//! stored domain names. For `closest_ns`, the engine `sapwood-bpf` calls `sw_qp_closest` (encloser,
//! wildcard, predecessor and all). `kernel-hash` looks up five names: the name and its parents. The
//! time for cutting the labels off is not counted.
//!
//! The cases `long-keys-64`, `-256`, `-1024`, `-4096`: keys of this number of bytes, like paths,
//! 64 MiB of them (131,072 keys at most). A thousand keys are looked up over and over. For
//! `lookup_ns` and `miss_ns` (one byte differs) each engine reads the key from memory in its own
//! form, and copies nothing. For `copied_lookup_ns` the program first copies the key's bytes from
//! the kernel's memory (`sw_key_memory`, `bpf_probe_read_kernel`). The hash table's keys are the
//! bytes alone.
//!
//! The case `store`: a thousand keys get another value, by a transaction of a `UserStore`, or by
//! one system call that updates a hash table (`kernel-hash`). `commit_visible_us` is the wall-clock
//! time until the next run of a program sees the whole commit, which the suite asserts.
//! `half_commits` is, beside a writer without a pause, the share of the runs of a program that saw
//! values of two commits, or missed a key. One such run with Sapwood's store ends the suite.
//!
//! The cases `writers-1`, `-2`, `-4`, `-8`: programs on this number of processors write to one map
//! of kernel symbols (`writers-btf-1` and so on: of the other sets), in millions of operations a
//! second of all together, by the wall clock. Each has keys of its own, for `insert_bpf_mops`,
//! `update_bpf_mops` (overwriting), `lookup_mops` and `remove_bpf_mops`; in `same_keys_mops` all
//! overwrite the same keys, each in its own order. After each 1,024 operations, the thread that
//! runs the program services the map, and that time is included, as are the loop and its copies of
//! keys. `dropped_share` is the share of the operations that were refused. `memory_mb` is the
//! memory in use when all keys are present, free blocks and rings included.
//!
//! The cases `queue-1k` and `queue-64k`: a queue of this number of entries, ordered by time. In a
//! step, a program takes the first entry, and inserts one that is due up to 2^20 later. The engines
//! are `sapwood-bpf` (`sw_qp_pop_first`, `sw_qp_push_due`), `kernel-queue` (BPF_MAP_TYPE_QUEUE,
//! which knows no order but that of the insertions) and `kernel-rbtree` (`bpf_rbtree` under a
//! `bpf_spin_lock`; each entry is a `bpf_obj_new`). `push_pop_ns` is a step by one processor,
//! `push_pop_by_two_ns` a step by one of two that run at once. Both include this process's service
//! of Sapwood's map, in processor time. `dropped_share` is the share of the steps of two processors
//! that failed. The suite asserts the order of `sapwood-bpf` and `kernel-rbtree` for one processor.
//!
//! Longest prefixes, engines `sapwood-bpf` and `kernel-lpm-trie`: `lookup_ns` of addresses in a
//! random prefix, `hot_ns`, `miss_ns` (if at least a thousand random addresses are in no prefix),
//! `update_user_ns` (a removal or an insertion) and `memory_mb`. The kernel counts only the
//! prefixes of an LPM_TRIE; `memory_taken_mb` is the growth of its allocations. Cases: `lpm-100k`
//! (random IPv4 prefixes) and `lpm-full` (the global table, with `--data`), `lpm6-100k` and
//! `lpm6-full` of IPv6, and `lpm-bits`, of a network number and an IPv4 address: a `BitFib` in a
//! window. In `lpm-bits` the engine `sapwood-bpf-programs` is a table that a program wrote (a
//! `ProgramMap` with a trie), and `update_bpf_ns` is a removal or an insertion by a program, in
//! processor time, with this process's service of that table.
//!
//! Range maps, in the cases `ranges-1k`, `-100k` and `-1m`: this number of ranges of whole pages.
//! The engines are `sapwood-bpf-ranges` (a `UserRanges`, asked for any index of an entry), and the
//! kernel's hash tables, which have the first index of each range, and are asked for it. So they
//! answer less. `lookup_ns`, `hot_ns`, `miss_ns` (an index between two ranges), `update_user_ns` (a
//! removal or an insertion by this process) and `memory_mb` are as above. `gap_ns` is a search for
//! the lowest gap of two pages from an index on, which hash tables cannot do.
//!
//! Packets that the program `xdp-route` forwards, on a router with 10,000 routes of each version,
//! generated after the global table, to 64 neighbours on four veth cables. The engines are
//! `sapwood-xdp-resolver` (queries the kernel's table for each packet, by `bpf_fib_lookup`),
//! `sapwood-xdp-cache` (the route cache in front of it) and `sapwood-xdp-fib` (tables in the arena
//! that mirror the kernel's). The namespaces have no names and disappear with this process, for
//! whatever reason it ends.
//!
//! Cases `xdp-route-v4-1`, `-1k`, `-100k`, and the same of v6: this number of flows to random
//! addresses within the routes, by `BPF_PROG_TEST_RUN`. Each frame has its own call, one flow after
//! the other, and the cache contains all of them. All bytes of every resulting frame are compared:
//! both link addresses, one hop less, and the checksum; and so are the program's own counts. The
//! link address shows the interface.
//!
//! | metric | what it is |
//! |---|---|
//! | `packet_ns` | by the kernel's clock around the program alone, less the time of a program that passes all frames |
//! | `mpps` | the same as millions of packets a second of one processor |
//! | `call_ns` | by this process's clock around the whole call, comparison included |
//!
//! Cases `xdp-route-netns-v4`, `-v6`: frames of 64 bytes of 1,000 flows from a namespace through
//! the router to a third, for a second. The sender is a program, too, which the kernel runs with
//! live frames. The programs are on the interfaces in native mode. A program at the far end checks
//! addresses, hops, checksum and interface of every frame before it counts it. `kpps` is thousands
//! a second of the frames that arrived, and `lost` the share that did not. Both include sending and
//! receiving, which run on the processor that forwards. Cached answers are fresh for 100 ms. The
//! peer is `kernel-forwarding`: the same frames, the same sender and receiver, no program on the
//! router.
//!
//! The case `drop-1m`: a map with a million names is dropped, and its memory is freed.
//!
//! | metric | what it is |
//! |---|---|
//! | `drop_ms` | processor time: of the thread that drops the map, and of the kernel's workers in the half second that follows |
//! | `held_us` | the longest that any processor kept a real-time thread waiting in that second; a thread on each processor sleeps a tenth of a millisecond at a time. The notes have the same for a second without a drop |
//!
//! Engines: `sapwood-bpf-index`, whose map is dropped and its memory freed in pieces
//! (`BpfArena::reclaim`) before the arena is closed; `sapwood-bpf-at-once`, without that: the
//! kernel frees all memory when it closes the arena; `kernel-hash`.

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
mod queue;
#[cfg(feature = "bpf")]
mod ranges;
#[cfg(feature = "bpf")]
mod store;
#[cfg(feature = "bpf")]
mod writers;

use super::Options;
use crate::report::Report;

/// Runs the suite, or says why it cannot run.
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
        let maps = maps.chain(writers::CASES).chain(queue::CASES);
        let maps = maps.chain(prefixes::CASES).chain(ranges::CASES);
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
    writers::run(options, report)?;
    queue::run(options, report)?;
    prefixes::run(options, report)?;
    ranges::run(options, report)?;
    forward::run(options, report)?;
    closing::run(options, report)
}

#[cfg(not(feature = "bpf"))]
fn measure(_: &Options, _: &mut Report) -> Result<(), String> {
    Ok(())
}
