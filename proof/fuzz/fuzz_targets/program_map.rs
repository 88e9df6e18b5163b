//! Maps that programs write, in an arena of plain memory. The headers for programs, compiled for
//! user space, change and query the maps. A `BTreeMap` checks each answer, and all invariants are
//! checked repeatedly. Then words of the window are overwritten: whatever they contain, readers and
//! the verifier end with an error or an answer.
#![no_main]

#[path = "../../../kernel/bpf/tests/program_map/pair.rs"]
mod pair;
#[path = "../../../kernel/bpf/tests/program_map/side.rs"]
mod side;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use pair::{PARTS, against_the_oracle, key, with, wrong_word};
use sapwood_bpf::{BpfArena, CheckedReader, KernelGrace, ProgramMap, UserMap};
use sapwood_fuzz::{Input, headers};
use sapwood_model::choices::Choices;
use sapwood_qsbr::Domain;
use side::{ANY, ASK, Side, What};

const BYTES: usize = 2 << 20;

/// The headers, run in this process.
struct InProcess<'a>(&'a BpfArena);

impl Side for InProcess<'_> {
    fn exchange(&mut self, question: &[u8; ASK]) -> [u8; ASK] {
        headers::ask(self.0, question)
    }
}

fn grace() -> &'static Arc<KernelGrace> {
    static GRACE: OnceLock<Arc<KernelGrace>> = OnceLock::new();
    GRACE.get_or_init(|| KernelGrace::new().unwrap())
}

/// Overwrites words of a window after the first words of its header page; returns the old words,
/// for [`mend`].
fn spoil(arena: &BpfArena, at: usize, len: usize, input: &mut Input<'_>) -> Vec<(u64, [u8; 8])> {
    let memory = File::from(arena.try_clone_fd().unwrap());
    let count = 1 + input.below(40);
    let one = |_| {
        // Often the root, the counts and the rings, otherwise nodes.
        let reach = [len, len.min(16 << 10), len.min(512)][input.below(3)];
        let place = (at + 48 + input.below((reach - 48) / 8) * 8) as u64;
        let word = wrong_word(input, (len / 8) as u32);
        let mut old = [0; 8];
        memory.read_exact_at(&mut old, place).unwrap();
        memory.write_all_at(&word.to_ne_bytes(), place).unwrap();
        (place, old)
    };
    (0..count).map(one).collect()
}

/// Restores the overwritten words of a window.
fn mend(arena: &BpfArena, spoilt: &[(u64, [u8; 8])]) {
    let memory = File::from(arena.try_clone_fd().unwrap());
    for (place, old) in spoilt.iter().rev() {
        memory.write_all_at(old, *place).unwrap();
    }
}

/// Calls every method. Any answer is right, but each call must end.
fn ask_all(map: &CheckedReader<u64>, keys: &[Vec<u8>]) {
    for key in keys {
        let _ = map.get(key);
        let mut before: Option<Vec<u8>> = None;
        for (key, _) in map.from_key(key).map_while(Result::ok) {
            assert!(before.is_none_or(|before| before < key), "not in order");
            before = Some(key);
        }
        assert!(map.prefix(key).count() <= BYTES / 8);
    }
    assert!(map.unordered().count() <= BYTES / 8 + 1);
    let _ = (map.len(), map.is_empty(), map.has_order(), map.verify());
}

fn by_programs(arena: &BpfArena, input: &mut Input<'_>) {
    let parts = PARTS[input.below(3)];
    let most = [60, 400][input.below(2)];
    let mut builder = with(ProgramMap::<u64>::builder(arena, "map"), parts)
        .max_entries(most)
        .ring(16)
        .grace(grace());
    if input.below(4) == 0 {
        builder = builder.fail_every([2, 3, 5, 11][input.below(4)]);
    }
    let map = builder.build().unwrap();
    let mut side = InProcess(arena);
    against_the_oracle(&map, &mut side, parts, most, input, 60, 1);
    let (window, keys) = (map.window(), keys(input));
    for key in &keys {
        side.ask(What::Insert, window.number, ANY, key, &[1]);
        let _ = map.service();
    }
    map.verify().unwrap();
    let frontier = map.memory().unwrap().frontier;
    for _ in 0..4 {
        spoil(arena, window.at, frontier, input);
        for key in &keys {
            let _ = map.get(key);
            let what = [What::InsertValue, What::Remove, What::Lookup][input.below(3)];
            side.ask(what, window.number, ANY, key, &[5]);
            let _ = map.service();
        }
        let _ = (map.verify(), map.memory(), map.len());
        let _ = map.for_each(|_, _| ());
        if let Ok(reader) = map.reader() {
            ask_all(&reader, &keys);
        }
    }
}

fn by_user_space(arena: &BpfArena, input: &mut Input<'_>) {
    let domain = Domain::builder().build();
    let mut builder = UserMap::<u64>::builder(arena, "names").domain(&domain);
    if input.flip() {
        builder = builder.with_index();
    }
    let names = builder.build().unwrap();
    let keys = keys(input);
    for (key, value) in keys.iter().zip(0..) {
        names.insert(key, value).unwrap();
    }
    let reader = arena.reader::<u64>("names").unwrap();
    for key in &keys {
        assert_eq!(reader.get(key).unwrap(), names.get(key));
    }
    assert_eq!(reader.verify().unwrap(), names.len());
    let (at, used) = (names.window().at, names.memory().arena.frontier);
    let mut spoilt = Vec::new();
    for _ in 0..4 {
        spoilt.extend(spoil(arena, at, used, input));
        ask_all(&reader, &keys);
    }
    // Unlike its readers, the owner of such a map trusts what it wrote.
    mend(arena, &spoilt);
    assert_eq!(reader.verify().unwrap(), names.len());
}

fn keys(input: &mut Input<'_>) -> Vec<Vec<u8>> {
    (0..1 + input.below(20)).map(|_| key(input)).collect()
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let arena = BpfArena::create(BYTES).unwrap();
    match input.below(3) {
        0 => by_user_space(&arena, &mut input),
        _ => by_programs(&arena, &mut input),
    }
});
