//! Keys of 64 to 4,096 bytes.

use libbpf_rs::{MapCore, MapFlags};
use sapwood_bpf::{BpfArena, Loader, Programs, Words, layout};
use sapwood_programs as objects;

use crate::bpf::engines::{Engine, Ours, Parts};
use crate::bpf::rig;
use crate::keylist::KeyList;
use crate::report::{Measure, Report, Samples};
use crate::suite::Options;

pub const CASES: [&str; 4] = [
    "long-keys-64",
    "long-keys-256",
    "long-keys-1024",
    "long-keys-4096",
];

const HASH: &str = "kernel-hash";
const ENGINES: [&str; 3] = ["sapwood-bpf", "sapwood-bpf-index", HASH];

/// The number of questions in one call of a program.
const CALL: usize = 1024;

/// Runs the cases.
pub fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    for name in options.chosen(CASES) {
        let length = name.rsplit('-').next().and_then(|text| text.parse().ok());
        measure(
            name,
            length.expect("the name ends with a number"),
            options,
            report,
        )?;
    }
    Ok(())
}

/// Keys of this length, like paths: folders with a small set of names, and a unique name at the
/// end.
fn keys(count: usize, length: usize) -> KeyList {
    let mut rng = fastrand::Rng::with_seed(length as u64);
    let key = |at: usize| {
        let end = format!("/{:010}", at * 7919 % 1_000_003);
        let mut key = Vec::with_capacity(length);
        while key.len() < length - end.len() {
            key.push(b'/');
            let name = rng.u32(..200).wrapping_mul(0x9e37_79b9);
            key.extend(format!("{:x}", name >> rng.u32(..16)).into_bytes());
        }
        key.truncate(length - end.len());
        key.extend(end.into_bytes());
        key
    };
    let keys: Vec<_> = (0..count).map(key).collect();
    KeyList::new(
        keys.iter()
            .zip(1u64..)
            .map(|(key, value)| (&key[..], value)),
    )
}

/// The questions of a round, in the arrays of both kinds.
struct Asked<'a> {
    programs: &'a Programs,
    /// The bytes of the long keys for Sapwood's maps.
    bytes: Words,
    length: usize,
    count: usize,
}

impl Asked<'_> {
    fn set<'k>(&mut self, questions: impl Iterator<Item = (&'k [u8], u64)>) -> Result<(), String> {
        let ours = self.programs.map("sw_asked").map_err(|e| e.to_string())?;
        let theirs = self.programs.map("sw_asked_bytes");
        let theirs = theirs.map_err(|e| e.to_string())?;
        let words = self.length / 8;
        self.count = 0;
        for (key, value) in questions {
            for (i, word) in key.chunks_exact(8).enumerate() {
                let word = word.try_into().expect("a chunk has 8 bytes");
                self.bytes
                    .set(self.count * words + i, u64::from_ne_bytes(word));
            }
            let at = self.bytes.window().at + self.count * self.length;
            let mut question = value.to_ne_bytes().to_vec();
            question.extend(layout::key_image(key, at as u64));
            let number = (self.count as u32).to_ne_bytes();
            let bytes = [&value.to_ne_bytes()[..], key].concat();
            let put = ours.update(&number, &question, MapFlags::ANY);
            let put = put.and_then(|()| theirs.update(&number, &bytes, MapFlags::ANY));
            put.map_err(|e| e.to_string())?;
            self.count += 1;
        }
        Ok(())
    }

    /// Has a program answer the questions; returns nanoseconds per question, in the call with the
    /// median time.
    fn ask(&self, program: &str, window: u32, room: usize) -> Result<f64, String> {
        let mut times = Vec::new();
        for _ in 0..(self.count / CALL).max(4) {
            let run = objects::Run::new(room, self.count, self.length, window, CALL);
            let done = run.by(self.programs, program).map_err(|e| e.to_string())?;
            if done.left > 0 {
                return Err(format!("{program} left {} questions", done.left));
            }
            if done.wrong > 0 && !program.ends_with("empty") {
                return Err(format!("WRONG: {program}: {} answers", done.wrong));
            }
            times.push(done.ns as f64 / CALL as f64);
        }
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2])
    }
}

fn measure(
    name: &'static str,
    length: usize,
    options: &Options,
    report: &mut Report,
) -> Result<(), String> {
    let count = options
        .size((64 << 20) / length, (4 << 20) / length)
        .min(131_072);
    let all = keys(count, length);
    report.begin(format!("{name}: {count} keys of {length} bytes"));
    let fail = |e: sapwood_bpf::Error| e.to_string();
    let arena = BpfArena::create(4 << 30).map_err(fail)?;
    let mut loader = Loader::open(&arena, objects::BENCH_LONG).map_err(fail)?;
    for mut map in loader.object_mut().maps_mut() {
        let sized = match map.name().to_string_lossy().as_ref() {
            "sw_hash" => map
                .set_key_size(length as u32)
                .and_then(|()| map.set_max_entries(count as u32)),
            "sw_asked" => map.set_max_entries(CALL as u32),
            "sw_asked_bytes" => map
                .set_value_size(8 + length as u32)
                .and_then(|()| map.set_max_entries(CALL as u32)),
            _ => Ok(()),
        };
        sized.map_err(|e| e.to_string())?;
    }
    let programs = loader.load().map_err(fail)?;
    let bytes = Words::create(&arena, "keys", CALL * length / 8).map_err(fail)?;
    let room = Words::create(&arena, "room", layout::KEY_ROOM_BYTES / 8).map_err(fail)?;
    let trie = Ours::new(&arena, Parts::Trie, &all)?;
    let index = Ours::new(&arena, Parts::Index, &all)?;
    trie.tidy()?;
    let hash = rig::handle(&programs, "sw_hash")?;
    for (key, value) in all.iter() {
        hash.update(key, &value.to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| e.to_string())?;
    }
    let mut asked = Asked {
        programs: &programs,
        bytes,
        length,
        count: 0,
    };
    let mut samples = Samples::new(name, &ENGINES);
    for round in options.rounds(&format!("bpf: {name}"), 1) {
        let mut rng = fastrand::Rng::with_seed(u64::from(round));
        let some = all.shuffled(u64::from(round) + 3);
        let others: Vec<_> = (some.iter().take(CALL))
            .map(|(key, _)| {
                let mut other = key.to_vec();
                // No key of the set contains this byte.
                other[rng.usize(..length)] = b'~';
                other
            })
            .collect();
        for missing in [false, true] {
            match missing {
                false => asked.set(some.iter().take(CALL))?,
                true => asked.set(others.iter().map(|key| (&key[..], 0)))?,
            }
            let empty = asked.ask("sw_long_empty", 0, 0)?;
            let hash_empty = asked.ask("sw_long_hash_empty", 0, 0)?;
            let (trie, index) = (trie.window(), index.window());
            let asks = [
                (ENGINES[0], "sw_long_trie", "", empty, trie),
                (ENGINES[1], "sw_long_index", "sw_long_copied", empty, index),
                (HASH, "sw_long_hash", "sw_long_hash_copied", hash_empty, 0),
            ];
            for (engine, program, copied, empty, window) in asks {
                if !options.wants_engine(engine) {
                    continue;
                }
                let metric = if missing { "miss_ns" } else { "lookup_ns" };
                let each = (asked.ask(program, window, 0)? - empty).max(0.0);
                samples.add(engine, &Measure::new(metric, each, "ns"));
                if copied.is_empty() || missing {
                    continue;
                }
                let each = asked.ask(copied, window, room.window().at)? - hash_empty;
                samples.add(
                    engine,
                    &Measure::new("copied_lookup_ns", each.max(0.0), "ns"),
                );
            }
        }
    }
    report.end(samples, &[HASH]);
    Ok(())
}
