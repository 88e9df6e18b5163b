//! Programs that may sleep and change maps: no change is preempted, so nobody waits for a lock of a
//! writer that does not run.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags, ProgramInput, UprobeOpts};
use sapwood_bpf::{BpfArena, Error, Loader, ProgramMap, ProgramMapBuilder, Programs};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

use crate::c_library;
use crate::kernel::{Answers, load, pin, short, skipped};

pub const CHANGES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sleepy-changes.bpf.o"));

/// `struct ask` of the program.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Ask {
    what: u32,
    window: u32,
    flags: u64,
    result: i64,
    user: u64,
    value: [u64; 8],
    key: [u8; 256],
    count: u32,
    done: u32,
    refused: u32,
    busy: u32,
    short_of: u32,
    other: u32,
    longest: u64,
    first: u64,
}

const LOOKUP: u32 = 0;
const INSERT: u32 = 1;
const INSERT_VALUE: u32 = 2;
const REMOVE: u32 = 3;
const TAKE: u32 = 4;
const GET_OR_INSERT: u32 = 5;
const POP_FIRST: u32 = 6;

fn put(programs: &Programs, index: u32, ask: &Ask) {
    programs
        .update("asks", &index.to_ne_bytes(), ask.as_bytes())
        .unwrap();
}

fn get(programs: &Programs, index: u32) -> Ask {
    let asks = programs.map("asks").unwrap();
    let found = asks.lookup(&index.to_ne_bytes(), MapFlags::ANY).unwrap();
    Ask::read_from_bytes(&found.unwrap()).unwrap()
}

/// Runs a program of type `syscall` over a question.
fn run(programs: &Programs, program: &str, index: u32, ask: &Ask) -> Ask {
    put(programs, index, ask);
    let mut number = [0; 8];
    number[..4].copy_from_slice(&index.to_ne_bytes());
    let done = programs.program(program).unwrap().test_run(ProgramInput {
        context_in: Some(&mut number),
        ..Default::default()
    });
    assert_eq!(done.unwrap().return_value, 0);
    get(programs, index)
}

fn arena() -> (BpfArena, Programs) {
    let arena = BpfArena::create(64 << 20).unwrap();
    arena.allow_sleepable().unwrap();
    let programs = load(&arena, CHANGES);
    (arena, programs)
}

/// Maps with an index, a trie, and both.
fn maps<const WORDS: usize>(arena: &BpfArena) -> [ProgramMap<[u64; WORDS]>; 3]
where
    [u64; WORDS]: sapwood_bpf::StoredValue,
{
    let builder = |name: &str| {
        let builder = ProgramMap::builder(arena, &format!("{name}{WORDS}"));
        builder.max_entries(500).bytes(8 << 20)
    };
    let build = |builder: ProgramMapBuilder<_>| builder.build().unwrap();
    [
        build(builder("index").with_index()),
        build(builder("trie").with_trie()),
        build(builder("both").with_index().with_trie()),
    ]
}

/// Random changes by a program that may sleep, and by a `BTreeMap`.
fn as_the_oracle<const WORDS: usize>(
    programs: &Programs,
    map: &ProgramMap<[u64; WORDS]>,
    ordered: bool,
) where
    [u64; WORDS]: sapwood_bpf::StoredValue + sapwood_bpf::CheckedValue,
{
    let mut rng = fastrand::Rng::with_seed(WORDS as u64);
    let mut oracle = BTreeMap::<Vec<u8>, [u64; 8]>::new();
    for step in 1..1500u64 {
        let len = rng.usize(..9);
        let key: Vec<u8> = (0..len).map(|_| rng.u8(..3)).collect();
        let what = match rng.u32(..7) {
            POP_FIRST if !ordered || rng.u8(..4) > 0 => INSERT_VALUE,
            GET_OR_INSERT if WORDS > 1 => LOOKUP,
            what => what,
        };
        let mut value = [0; 8];
        value[..WORDS].fill(step);
        let ask = Ask {
            what,
            window: map.window().number,
            flags: rng.u64(..3),
            value,
            key: short(&key),
            ..Ask::new_zeroed()
        };
        let answer = run(programs, "sw_change", 0, &ask);
        // The other words of a value that is given as one become 0.
        let mut stored = value;
        if what == INSERT {
            stored[1..].fill(0);
        }
        let old = oracle.get(&key).copied();
        let (mut wanted, mut found) = (0, None);
        match (what, old) {
            (LOOKUP | TAKE, Some(old)) => (wanted, found) = (1, Some(old)),
            (GET_OR_INSERT, old) => (wanted, found) = (1, Some(old.unwrap_or(value))),
            (LOOKUP | TAKE | REMOVE, None) => wanted = -2,
            (INSERT | INSERT_VALUE, Some(_)) if ask.flags == 1 => wanted = -17,
            (INSERT | INSERT_VALUE, None) if ask.flags == 2 => wanted = -2,
            (POP_FIRST, _) => match oracle.first_key_value() {
                Some((first, value)) => {
                    assert_eq!(answer.key, short(first));
                    found = Some(*value);
                }
                None => wanted = -2,
            },
            _ => {}
        }
        assert_eq!(answer.result, wanted, "{what} of {key:?}");
        if let Some(found) = found {
            assert_eq!(answer.value[..WORDS], found[..WORDS], "{what} of {key:?}");
        }
        match what {
            REMOVE | TAKE => drop(oracle.remove(&key)),
            POP_FIRST => drop(oracle.pop_first()),
            INSERT | INSERT_VALUE if wanted == 0 => drop(oracle.insert(key, stored)),
            GET_OR_INSERT => drop(oracle.entry(key).or_insert(stored)),
            _ => {}
        }
        map.service().unwrap();
    }
    let mut entries = 0;
    map.for_each(|key, value| {
        assert_eq!(oracle[key][..WORDS], value[..]);
        entries += 1;
    })
    .unwrap();
    assert_eq!(entries, oracle.len());
    assert_eq!(map.verify().unwrap().entries, entries);
}

#[test]
fn sleepable_programs_change_maps() {
    if skipped() {
        return;
    }
    let (arena, programs) = arena();
    for (part, map) in maps::<1>(&arena).iter().enumerate() {
        as_the_oracle(&programs, map, part > 0);
    }
    for (part, map) in maps::<4>(&arena).iter().enumerate() {
        as_the_oracle(&programs, map, part > 0);
    }
}

/// More threads than processors insert and remove the same keys by programs that may sleep, beside
/// programs that may not. Threads lose their processor all the time, but not during a change.
#[test]
fn sleepable_writers_beside_others() {
    if skipped() {
        return;
    }
    let (arena, programs) = arena();
    let cpus = std::thread::available_parallelism().map_or(2, |n| n.get()) as u32;
    for map in maps::<1>(&arena) {
        let service = map.spawn_service(Duration::from_millis(1)).unwrap();
        let asks = std::thread::scope(|scope| {
            let (programs, map) = (&programs, &map);
            let threads: Vec<_> = (0..4 * cpus)
                .map(|i| {
                    scope.spawn(move || {
                        pin((i % cpus) as usize);
                        let mut sum = Ask::new_zeroed();
                        for round in 0..30 {
                            let ask = Ask {
                                window: map.window().number,
                                count: 50,
                                first: round % 5 * 20,
                                ..Ask::new_zeroed()
                            };
                            let answer = if i < cpus {
                                put(programs, i, &ask);
                                let mut packet = [0; 64];
                                packet[..4].copy_from_slice(&i.to_ne_bytes());
                                programs.answer("sw_storm_xdp", &mut packet);
                                get(programs, i)
                            } else {
                                run(programs, "sw_storm_sleepable", i, &ask)
                            };
                            sum.done += answer.done;
                            sum.refused += answer.refused;
                            sum.busy += answer.busy;
                            sum.short_of += answer.short_of;
                            sum.other += answer.other;
                            sum.longest = sum.longest.max(answer.longest);
                            std::thread::sleep(Duration::from_millis(1));
                        }
                        sum
                    })
                })
                .collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Ask>| thread.join().unwrap();
            threads.into_iter().map(join).collect::<Vec<_>>()
        });
        service.stop().unwrap();
        let sum = |of: fn(&Ask) -> u32| asks.iter().map(|ask| u64::from(of(ask))).sum::<u64>();
        let [done, refused, busy, short_of] = [
            sum(|ask| ask.done),
            sum(|ask| ask.refused),
            sum(|ask| ask.busy),
            sum(|ask| ask.short_of),
        ];
        let longest = asks.iter().map(|ask| ask.longest).max();
        println!("{done} done, {refused} refused, {busy} busy, {short_of} short, {longest:?} ns");
        assert_eq!(sum(|ask| ask.other), 0);
        let all = u64::from(4 * cpus) * 30 * 100;
        assert_eq!(done + refused + busy + short_of, all);
        assert!(done > all / 10, "{done} of {all}");
        // A processor of a virtual machine may stop while it has a lock.
        assert!(
            busy * 100 <= all,
            "{busy} of {all} met a lock that was held for too long"
        );
        let drops: u64 = map.drops().iter().map(|drops| drops.busy).sum();
        assert_eq!(drops, busy, "every drop is counted");
        let shape = map.verify().unwrap();
        assert_eq!((shape.entries, shape.refused), (map.len(), 0));
    }
}

/// A probe that may sleep inserts an entry for each thread that calls a function, and adds what it
/// reads in the thread's memory.
#[test]
fn a_sleepable_probe_counts() {
    if skipped() {
        return;
    }
    let (arena, programs) = arena();
    let [index, _, both] = maps::<1>(&arena);
    let options = || UprobeOpts {
        func_name: Some("getppid".into()),
        ..Default::default()
    };
    for map in [index, both] {
        let word = 7u64;
        let ask = Ask {
            window: map.window().number,
            user: (&raw const word).addr() as u64,
            ..Ask::new_zeroed()
        };
        put(&programs, 0, &ask);
        let probe = programs.program("sw_counts").unwrap();
        let me = std::process::id() as i32;
        let link = probe.attach_uprobe_with_opts(me, c_library(), 0, options());
        let link = link.unwrap();
        // One thread after the other: the question has one key.
        let threads: Vec<i32> = (1..20u32)
            .map(|calls| {
                let calls = move || {
                    for _ in 0..calls {
                        assert_ne!(std::os::unix::process::parent_id(), 0);
                    }
                    rustix::thread::gettid().as_raw_nonzero().get()
                };
                std::thread::spawn(calls).join().unwrap()
            })
            .collect();
        drop(link);
        let mut sums = BTreeMap::new();
        for (thread, calls) in threads.iter().zip(1..20) {
            *sums.entry(*thread).or_insert(0) += calls * word;
        }
        assert_eq!(map.len(), sums.len());
        for (thread, sum) in sums {
            assert_eq!(map.get(thread.to_ne_bytes()).unwrap(), Some([sum]));
        }
        map.verify().unwrap();
    }
}

#[test]
fn changes_need_the_permission() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(1 << 20).unwrap();
    let refused = Loader::open(&arena, CHANGES).unwrap().load();
    assert!(matches!(refused.err(), Some(Error::Sleepable(_))));
}

/// What the compiler says of a source, as the programs are compiled.
fn compiled(source: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("object.bpf.c");
    std::fs::write(&path, source).unwrap();
    let done = Command::new("clang-19")
        .args(["-O2", "-target", "bpf", "-mcpu=v4", "-fsyntax-only"])
        .args(["-D__TARGET_ARCH_x86", "-I"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf/include"))
        .args(["-I", "/usr/include/x86_64-linux-gnu"])
        .args(["-I", "/usr/include/aarch64-linux-gnu"])
        .arg(&path)
        .output()
        .unwrap();
    String::from_utf8_lossy(&done.stderr).into_owned()
}

/// Nothing of an object with the header for sleepable programs changes a map in another way.
#[test]
fn there_is_no_way_around_the_header() {
    if skipped() {
        return;
    }
    let header = "#include <linux/bpf.h>\n#include \"sapwood/qp_write_sleepable.bpf.h\"\n";
    assert_eq!(compiled(header), "");
    for call in ["sw_kqp_claim(0, 0)", "sw_awake_remove(0, 0)"] {
        let said = compiled(&format!("{header}long change(void) {{ return {call}; }}\n"));
        assert!(said.contains("poisoned identifier"), "{said}");
    }
    let late = "#include <linux/bpf.h>\n#include \"sapwood/qp_first.bpf.h\"\n\
                #include \"sapwood/qp_write_sleepable.bpf.h\"\n";
    let said = compiled(late);
    assert!(
        said.contains("include qp_write_sleepable.bpf.h before"),
        "{said}"
    );
}
