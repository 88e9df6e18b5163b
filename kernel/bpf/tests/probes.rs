//! The USDT probes of the route cache, observed by a BPF program while the cache is used: they fire
//! as often as the cache's own counters say.
#![cfg(feature = "kernel")]

mod kernel;

use kernel::skipped;
use libbpf_rs::{MapCore, MapFlags, UprobeMultiOpts};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSegment};
use sapwood::route::RouteCache;
use sapwood_bpf::{BpfArena, Loader};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/probes.bpf.o"));

const NAMES: [&str; 5] = ["hit", "insert", "refresh", "delete", "full"];

/// The places of this program's probes in its file, each with the number of its name.
fn probes(program: &[u8]) -> Vec<(usize, usize)> {
    let file = ElfFile64::<object::Endianness>::parse(program).unwrap();
    let notes = file.section_by_name(".note.stapsdt").expect("probes");
    let notes = notes.data().unwrap();
    let word = |at: usize| u32::from_ne_bytes(notes[at..at + 4].try_into().unwrap()) as usize;
    let (mut at, mut all) = (0, Vec::new());
    while at < notes.len() {
        // The sizes of the name ("stapsdt") and of the description, and the type.
        let (name, bytes) = (word(at), word(at + 4));
        let from = at + 12 + name.next_multiple_of(4);
        let note = &notes[from..from + bytes];
        // The address, the base, a semaphore; the provider, the probe, and its arguments.
        let address = u64::from_ne_bytes(note[..8].try_into().unwrap());
        let mut texts = note[24..].split(|byte| *byte == 0);
        let provider = texts.next().unwrap();
        let probe = std::str::from_utf8(texts.next().unwrap()).unwrap();
        if provider == b"sapwood" {
            let segment = file.segments().find(|segment| {
                (segment.address()..segment.address() + segment.size()).contains(&address)
            });
            let segment = segment.expect("the probe's segment");
            let place = address - segment.address() + segment.file_range().0;
            let number = NAMES.iter().position(|name| *name == probe).expect(probe);
            all.push((place as usize, number));
        }
        at = from + bytes.next_multiple_of(4);
    }
    all
}

#[test]
fn probes_fire_as_the_counters_count() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(1 << 20).unwrap();
    let programs = Loader::open(&arena, OBJECT).unwrap().load().unwrap();
    let program = programs.program("sw_hit").unwrap();
    let path = std::env::current_exe().unwrap();
    let all = probes(&std::fs::read(&path).unwrap());
    for (number, name) in NAMES.iter().enumerate() {
        assert!(all.iter().any(|(_, of)| *of == number), "{name}");
    }
    // One link for all: its end waits for the programs once.
    let opts = UprobeMultiOpts {
        offsets: all.iter().map(|(place, _)| *place).collect(),
        cookies: all.iter().map(|(_, number)| *number as u64).collect(),
        ..UprobeMultiOpts::default()
    };
    let pid = std::process::id() as i32;
    let link = program.attach_uprobe_multi_with_opts(pid, &path, "", opts);
    let link = link.unwrap();

    let cache = RouteCache::<u64, u64>::builder().capacity(64).build();
    let mut rng = fastrand::Rng::with_seed(1);
    let second = 1_000_000_000;
    for step in 0..2000u64 {
        let (key, now) = (rng.u64(..120), second + step * 1_000_000);
        let hash = cache.hash(&key);
        if cache.get(&key, now).is_none() {
            cache.insert(&key, hash, now, key);
        }
        match step % 50 {
            7 => drop(cache.invalidate(&key)),
            9 => drop(cache.sweep(now, 8)),
            _ => (),
        }
    }
    // All slots: a few might be empty.
    assert!(cache.sweep(second * 100, 64) > 0);
    let stats = cache.stats();
    drop(link);
    // Nobody traces these any more.
    for key in 0..10 {
        cache.get(&key, second * 3);
    }
    let map = programs.map("hits").unwrap();
    let hits = [0, 1, 2, 3, 4].map(|number: u32| {
        let count = map.lookup(&number.to_ne_bytes(), MapFlags::ANY).unwrap();
        u64::from_ne_bytes(count.unwrap().try_into().unwrap())
    });
    println!("{hits:?} {stats:?}");
    let gone = stats.evict + stats.swept + stats.invalidated;
    let counted = [stats.hit, stats.insert, stats.refresh, gone, stats.full];
    assert_eq!(hits, counted);
    assert!(counted.iter().all(|count| *count > 0), "{counted:?}");
}
