//! The arena, the programs, and how they are asked.

use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::{MapHandle, ProgramInput};
pub use sapwood_bpf::objects::KEY_MAX;
use sapwood_bpf::{BpfArena, Loader, Programs, Words, objects};

use crate::keylist::KeyList;

/// Questions in one call of a program: a millisecond or so.
const CALL: usize = 4096;

/// Changes in one call, of all engines: between two calls, ours has what it took replaced.
pub const CHANGES: usize = 128;

/// What a program said about a list of questions.
pub struct Answers {
    /// Nanoseconds a question, of the call that is the median.
    pub each: f64,
    /// How many answers were not the expected ones.
    pub wrong: u64,
}

/// Questions in the arena, read by all programs: see [`objects::question`].
pub struct Questions {
    words: Words,
    /// Words of each image.
    image: usize,
    count: usize,
    /// How often each is asked.
    passes: usize,
}

impl Questions {
    /// Room for this many, with keys of this many bytes at most.
    pub fn room(
        arena: &BpfArena,
        name: &str,
        count: usize,
        longest: usize,
    ) -> Result<Self, String> {
        let image = objects::image_words(longest);
        let words = Words::create(arena, name, count * (1 + image)).map_err(|e| e.to_string())?;
        Ok(Self {
            words,
            image,
            count: 0,
            passes: 1,
        })
    }

    /// Room for this many questions, each of one word and this many more.
    pub fn room_of_words(
        arena: &BpfArena,
        name: &str,
        count: usize,
        more: usize,
    ) -> Result<Self, String> {
        let words = Words::create(arena, name, count * (1 + more)).map_err(|e| e.to_string())?;
        Ok(Self {
            words,
            image: more,
            count: 0,
            passes: 1,
        })
    }

    /// Writes other questions, of whose words as many are taken as there is room for.
    ///
    /// # Panics
    /// When there is no room for this many.
    pub fn set_words(&mut self, questions: impl IntoIterator<Item = [u64; 3]>) {
        self.count = 0;
        for question in questions {
            let at = self.count * (1 + self.image);
            for (i, word) in question.into_iter().take(1 + self.image).enumerate() {
                self.words.set(at + i, word);
            }
            self.count += 1;
        }
    }

    /// The same, to be asked over and over: four times in each call.
    pub fn again(self) -> Self {
        Self { passes: 4, ..self }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many there is room for.
    pub fn most(&self) -> usize {
        self.words.len() / (1 + self.image)
    }

    /// Writes other questions; keys that are not expected to be there have the value 0.
    ///
    /// # Panics
    /// When there is no room for this many.
    pub fn set<'a>(&mut self, questions: impl IntoIterator<Item = (&'a [u8], u64)>) {
        let mut at = 0;
        self.count = 0;
        for (key, value) in questions {
            for word in objects::question(key, value, self.image) {
                self.words.set(at, word);
                at += 1;
            }
            self.count += 1;
        }
    }
}

/// Bytes of a hash map's keys of a case: what the longest takes with its length, in whole words.
/// The length in front tells keys apart that differ only in zeros at the end.
pub fn hash_key(longest: usize) -> usize {
    (longest + 1).next_multiple_of(8)
}

/// The keys of a list as hash maps take them, one after the other.
pub fn hash_keys(list: &KeyList, bytes: usize) -> Vec<u8> {
    let mut all = vec![0; list.len() * bytes];
    for ((key, _), to) in list.iter().zip(all.chunks_exact_mut(bytes)) {
        to[0] = key.len() as u8;
        to[1..=key.len()].copy_from_slice(key);
    }
    all
}

/// Runs a program once over a packet of these words, and returns what it makes of them.
pub fn call(programs: &Programs, program: &str, packet: &[u64]) -> Result<Vec<u64>, String> {
    let fail = |why: String| format!("{program}: {why}");
    let found = programs.program(program).map_err(|e| e.to_string())?;
    let packet: Vec<u8> = packet.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let mut out = vec![0; packet.len()];
    let done = found
        .test_run(ProgramInput {
            data_in: Some(&packet),
            data_out: Some(&mut out),
            ..Default::default()
        })
        .map_err(|e| fail(e.to_string()))?
        .return_value;
    // XDP_PASS.
    if done != 2 {
        return Err(fail(format!("returned {done}")));
    }
    let words = out.chunks_exact(8);
    Ok(words
        .map(|word| u64::from_ne_bytes(word.try_into().expect("a chunk has 8 bytes")))
        .collect())
}

/// Has the program answer all questions, about the map in this window.
pub fn ask(
    programs: &Programs,
    program: &str,
    questions: &Questions,
    window: u32,
) -> Result<Answers, String> {
    ask_between(programs, program, questions, window, CALL, || Ok(()))
}

/// As [`ask`], as many questions in a call as there are changes.
pub fn ask_changes(
    programs: &Programs,
    program: &str,
    questions: &Questions,
    window: u32,
) -> Result<Answers, String> {
    ask_between(programs, program, questions, window, CHANGES, || Ok(()))
}

/// As [`ask`], this many questions in a call, and after each call something else is done.
pub fn ask_between(
    programs: &Programs,
    program: &str,
    questions: &Questions,
    window: u32,
    at_once: usize,
    mut between: impl FnMut() -> Result<(), String>,
) -> Result<Answers, String> {
    let question = 8 * (1 + questions.image);
    let mut times = Vec::new();
    let mut wrong = 0;
    let calls: Vec<usize> = match questions.passes {
        1 => (0..questions.count).step_by(at_once).collect(),
        _ => vec![0; 8],
    };
    for from in calls {
        let count = match questions.passes {
            1 => at_once.min(questions.count - from),
            _ => questions.count,
        };
        let asked = count * questions.passes;
        let at = questions.words.window().at + from * question;
        let done = objects::Run::new(at, count, questions.image, window, asked)
            .by(programs, program)
            .map_err(|e| format!("{program}: {e}"))?;
        if done.left != 0 {
            return Err(format!(
                "{program}: {} of {asked} questions not answered",
                done.left
            ));
        }
        times.push(done.ns as f64 / asked as f64);
        wrong += done.wrong;
        between()?;
    }
    times.sort_by(f64::total_cmp);
    Ok(Answers {
        each: times[times.len() / 2],
        wrong,
    })
}

/// Loads an object whose maps are made for this many entries, its hash tables for keys of this many
/// bytes.
pub fn load(
    arena: &BpfArena,
    object: &[u8],
    key_bytes: usize,
    entries: usize,
) -> Result<Programs, String> {
    let mut loader = Loader::open(arena, object).map_err(|e| e.to_string())?;
    for mut map in loader.object_mut().maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let sized = match name.as_str() {
            "sw_hash" | "sw_hash_noprealloc" => map
                .set_key_size(key_bytes as u32)
                .and_then(|()| map.set_max_entries(entries as u32)),
            tries if tries.starts_with("sw_lpm_trie") => map.set_max_entries(entries as u32),
            _ => Ok(()),
        };
        sized.map_err(|e| e.to_string())?;
    }
    loader.load().map_err(|e| e.to_string())
}

/// A map of the object, by a handle of its own.
pub fn handle(programs: &Programs, name: &str) -> Result<MapHandle, String> {
    let map = programs.map(name).map_err(|e| e.to_string())?;
    MapHandle::try_from(&map).map_err(|e| e.to_string())
}

/// Bytes of the kernel's allocations (`kmalloc`) that are in use, for each size.
pub fn slabs() -> Result<Vec<u64>, String> {
    let file = "/proc/slabinfo";
    let text = std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
    let lines = text.lines().filter(|line| line.starts_with("kmalloc-"));
    let bytes = lines.filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let active: u64 = words.next()?.parse().ok()?;
        let size: u64 = words.nth(1)?.parse().ok()?;
        Some(active * size)
    });
    Ok(bytes.collect())
}

/// By how much the allocations of one size grew that grew most: those of a map all of whose nodes
/// have one size. Other processes allocate meanwhile, mostly of other sizes.
pub fn grown(before: &[u64], after: &[u64]) -> u64 {
    let pairs = before.iter().zip(after);
    let grown = pairs.map(|(before, after)| after.saturating_sub(*before));
    grown.max().unwrap_or(0)
}

/// Bytes that the kernel says a map of its own takes. Of an LPM_TRIE these are the prefixes alone,
/// without the nodes between them and without what their allocations are rounded up to.
pub fn memlock(map: &MapHandle) -> Result<u64, String> {
    let file = format!("/proc/self/fdinfo/{}", map.as_fd().as_raw_fd());
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{file}: {e}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("memlock:"));
    line.and_then(|bytes| bytes.trim().parse().ok())
        .ok_or_else(|| format!("{file}: no line memlock"))
}
