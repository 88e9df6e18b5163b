//! The chapter on maps inside the kernel, where the kernel has arenas.

use sapwood_bpf::{BpfArena, Loader, Programs, UserMap, Words};
use sapwood_programs::{self as objects, KEY_MAX, Run};
use serde_json::{Value, json};

use crate::errors::Error;
use crate::figures::{figure, grouped, median, timed};
use crate::progress::Progress;
use crate::tour::Tour;
use crate::tour::data::Set;

/// How many questions one run of a program answers.
const RUN: usize = 4096;
/// How many questions of each kind are asked.
const QUESTIONS: usize = 65_536;
const ROUNDS: usize = 5;

/// Questions that are stored in the arena.
struct Questions {
    words: Words,
    count: usize,
    /// How many questions are about stored names.
    there: u64,
    /// The words of a key.
    image: usize,
}

impl Questions {
    fn new(
        arena: &BpfArena,
        name: &str,
        asked: &[(&[u8], u64)],
        longest: usize,
    ) -> Result<Self, sapwood_bpf::Error> {
        let image = objects::image_words(longest);
        let words = Words::create(arena, name, asked.len() * (1 + image))?;
        let all = asked
            .iter()
            .flat_map(|(key, value)| objects::question(key, *value, image));
        for (at, word) in all.enumerate() {
            words.set(at, word);
        }
        Ok(Questions {
            words,
            count: asked.len(),
            there: asked.iter().filter(|(_, value)| *value != 0).count() as u64,
            image,
        })
    }

    /// Runs a program on all questions; returns nanoseconds for each question, and the number of
    /// wrong answers.
    fn ask(
        &self,
        programs: &Programs,
        program: &str,
        window: u32,
    ) -> Result<(f64, u64), sapwood_bpf::Error> {
        let bytes = 8 * (1 + self.image);
        let (mut ns, mut wrong) = (0, 0);
        for from in (0..self.count).step_by(RUN) {
            let count = RUN.min(self.count - from);
            let at = self.words.window().at + from * bytes;
            let done = Run::new(at, count, self.image, window, count).by(programs, program)?;
            ns += done.ns;
            // A question that the program did not reach counts as a wrong answer.
            wrong += done.wrong + done.left;
        }
        Ok((ns as f64 / self.count.max(1) as f64, wrong))
    }
}

pub fn run(tour: &mut Tour) -> Result<Value, Error> {
    // Taken out, so that the sets and the counter of answers can be borrowed at once.
    let sets = std::mem::take(&mut tour.sets);
    let shown = show(tour, &sets[0]);
    tour.sets = sets;
    shown
}

fn failed(error: sapwood_bpf::Error) -> Error {
    Error::Wrong(format!("in the kernel: {error}"))
}

/// The entries of the map in the kernel, and the questions about them.
struct Course<'a> {
    /// The entries in random order. A value is a place, from 1.
    entries: Vec<(&'a [u8], u64)>,
    hits: Vec<(&'a [u8], u64)>,
    misses: Vec<(&'a [u8], u64)>,
    longest: usize,
}

impl<'a> Course<'a> {
    fn new(set: &'a Set, most: usize) -> Self {
        let short = |key: &[u8]| key.len() <= KEY_MAX;
        let entries = (1..).zip(&set.keys).filter(|(_, key)| short(key));
        let entries: Vec<_> = entries.map(|(value, key)| (&**key, value)).collect();
        let misses = set.misses.iter().filter(|key| short(key)).take(most);
        Course {
            hits: entries.iter().take(most).copied().collect(),
            misses: misses.map(|key| (&**key, 0)).collect(),
            longest: entries.iter().map(|(key, _)| key.len()).max().unwrap_or(0),
            entries,
        }
    }

    /// Loads the programs with an empty hash map of the kernel.
    fn programs(&self, arena: &BpfArena) -> Result<Programs, sapwood_bpf::Error> {
        let (key, most) = (self.padded() as u32, self.entries.len() as u32);
        Loader::open(arena, objects::BENCH_NAMES)?
            .size_map("sw_hash", key, 8, most)?
            .size_map("sw_hash_noprealloc", key, 8, 1)?
            .load()
    }

    /// The bytes of a key in that hash map: its length, the key, and zeros.
    fn padded(&self) -> usize {
        (self.longest + 1).next_multiple_of(8)
    }

    /// Fills that hash map.
    fn fill(&self, programs: &Programs) -> Result<(), sapwood_bpf::Error> {
        let mut padded = vec![0u8; self.padded()];
        for (key, value) in &self.entries {
            padded.fill(0);
            padded[0] = key.len() as u8;
            padded[1..=key.len()].copy_from_slice(key);
            programs.update("sw_hash", &padded, &value.to_ne_bytes())?;
        }
        Ok(())
    }

    /// Measures the nanoseconds of a lookup by the index, by the trie and in the kernel's hash map:
    /// first of stored names, then of others.
    fn ask(
        &self,
        tour: &mut Tour,
        arena: &BpfArena,
        programs: &Programs,
        window: u32,
    ) -> Result<[[f64; 3]; 2], Error> {
        let mut times = [const { [const { Vec::new() }; 3] }; 2];
        let lists = [
            Questions::new(arena, "hits", &self.hits, self.longest).map_err(failed)?,
            Questions::new(arena, "misses", &self.misses, self.longest).map_err(failed)?,
        ];
        for _ in 0..ROUNDS {
            for (list, times) in lists.iter().zip(&mut times) {
                let (empty, wrong) = list.ask(programs, "sw_run_empty", window).map_err(failed)?;
                // This program looks nothing up, so its answer is wrong for every stored name. The
                // count of wrong answers proves that it was asked all questions.
                tour.check(wrong == list.there, || {
                    format!("{wrong} of {} questions were asked", list.there)
                })?;
                let engines = ["sw_run_index", "sw_run_trie", "sw_run_hash"];
                for (program, times) in engines.into_iter().zip(times) {
                    let (ns, wrong) = list.ask(programs, program, window).map_err(failed)?;
                    tour.check(wrong == 0, || format!("{program}: {wrong} wrong answers"))?;
                    times.push((ns - empty).max(0.0));
                }
            }
        }
        Ok(times.map(|times| times.map(median)))
    }

    /// Removes a name and inserts it again, without a system call, and checks that programs see
    /// both.
    fn change(
        &self,
        tour: &mut Tour,
        arena: &BpfArena,
        programs: &Programs,
        map: &UserMap<u64>,
    ) -> Result<(), Error> {
        let (key, value) = self.hits[0];
        let answer = |expected: u64| {
            let list = Questions::new(arena, "one", &[(key, expected)], self.longest)?;
            let answered = list.ask(programs, "sw_run_index", map.window().number);
            answered.map(|(_, wrong)| wrong == 0)
        };
        let changed = |done: Result<bool, String>| {
            done.map_err(|why| Error::Wrong(format!("a change of a map in the kernel: {why}")))
        };
        changed(map.remove(key).map_err(|e| e.to_string()))?;
        let gone = answer(0).map_err(failed)?;
        changed(map.insert(key, value).map_err(|e| e.to_string()))?;
        let back = answer(value).map_err(failed)?;
        tour.check(gone && back, || {
            "a change was not seen in the kernel".into()
        })
    }
}

fn show(tour: &mut Tour, set: &Set) -> Result<Value, Error> {
    let course = Course::new(set, if tour.quick { RUN } else { QUESTIONS });
    let mut progress = Progress::new("kernel", Some(4), false);
    let arena = BpfArena::create(1 << 30).map_err(failed)?;
    let mut sorted = course.entries.clone();
    sorted.sort_unstable();
    let builder = UserMap::<u64>::builder(&arena, "names").bytes(768 << 20);
    let (map, build) = timed(|| builder.with_index().build_sorted(sorted));
    let map = map.map_err(failed)?;
    progress.step();
    let programs = course.programs(&arena).map_err(failed)?;
    let (filled, fill) = timed(|| course.fill(&programs));
    filled.map_err(failed)?;
    progress.step();
    let [hit, miss] = course.ask(tour, &arena, &programs, map.window().number)?;
    progress.step();
    course.change(tour, &arena, &programs, &map)?;
    progress.step();
    drop(progress);

    tour.say(format!(
        "{}: {} names in memory that a BPF program shares with this process. The map was built in \
         {:.0} ms. The kernel's hash map was filled in {:.0} ms, by a system call for each name. \
         The next lookup of the program saw the removal of a name, and then its insertion.",
        set.name,
        grouped(course.entries.len()),
        build.as_secs_f64() * 1e3,
        fill.as_secs_f64() * 1e3,
    ))?;
    tour.say("Nanoseconds of a lookup inside the kernel, without the copy of the key:")?;
    let rows = ["UserMap, index", "UserMap, trie alone", "kernel's HASH"];
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .enumerate()
        .map(|(i, name)| vec![name.into(), figure(hit[i]), figure(miss[i])])
        .collect();
    tour.table(&["", "hit", "miss"], &rows)?;
    Ok(json!({
        "names": course.entries.len(),
        "build_ms": build.as_secs_f64() * 1e3,
        "hash_fill_ms": fill.as_secs_f64() * 1e3,
        "lookup_ns": { "index": hit[0], "trie": hit[1], "kernel_hash": hit[2] },
        "miss_ns": { "index": miss[0], "trie": miss[1], "kernel_hash": miss[2] },
    }))
}
