//! The arena, the programs, and the calls that have programs query maps.

use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::{MapHandle, ProgramInput};
use sapwood_bpf::{BpfArena, Loader, Programs, Words};
use sapwood_programs as objects;
pub use sapwood_programs::KEY_MAX;

use crate::keylist::KeyList;

/// The number of questions in one call of a program, which then takes about a millisecond.
const CALL: usize = 4096;

/// The number of changes in one call, for all engines. Between two calls, Sapwood's service
/// replaces what the programs took.
pub const CHANGES: usize = 128;

/// A program's results for a list of questions.
pub struct Answers {
    /// Nanoseconds per question, in the call with the median time.
    pub each: f64,
    /// The number of unexpected answers.
    pub wrong: u64,
}

/// Questions in the arena, which all programs read: see [`objects::question`].
pub struct Questions {
    words: Words,
    /// The number of words of each image.
    image: usize,
    count: usize,
    /// How often each question is asked.
    passes: usize,
}

impl Questions {
    /// Room for this number of questions, with keys of at most this many bytes.
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

    /// Room for this number of questions, each of one word and this many more.
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

    /// Writes new questions; each takes as many of its words as there is room for.
    ///
    /// # Panics
    /// When there is no room for all questions.
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

    /// The same questions, asked repeatedly: four times in each call.
    pub fn again(self) -> Self {
        Self { passes: 4, ..self }
    }

    /// The number of questions.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The number of questions that there is room for.
    pub fn most(&self) -> usize {
        self.words.len() / (1 + self.image)
    }

    /// Writes new questions; keys that should be absent have the value 0.
    ///
    /// # Panics
    /// When there is no room for all questions.
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

/// The bytes of a hash map's keys in a case: the longest key with its length, in whole words. The
/// length in front distinguishes keys that differ only in zeros at the end.
pub fn hash_key(longest: usize) -> usize {
    (longest + 1).next_multiple_of(8)
}

/// The keys of a list in the form of hash maps, one after the other.
pub fn hash_keys(list: &KeyList, bytes: usize) -> Vec<u8> {
    let mut all = vec![0; list.len() * bytes];
    for ((key, _), to) in list.iter().zip(all.chunks_exact_mut(bytes)) {
        to[0] = key.len() as u8;
        to[1..=key.len()].copy_from_slice(key);
    }
    all
}

/// Runs a program once over a packet of these words; returns the packet that the program wrote.
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

/// Has the program answer all questions about the map in this window.
pub fn ask(
    programs: &Programs,
    program: &str,
    questions: &Questions,
    window: u32,
) -> Result<Answers, String> {
    ask_between(programs, program, questions, window, CALL, || Ok(()))
}

/// Does the same as [`ask`], with [`CHANGES`] questions per call.
pub fn ask_changes(
    programs: &Programs,
    program: &str,
    questions: &Questions,
    window: u32,
) -> Result<Answers, String> {
    ask_between(programs, program, questions, window, CHANGES, || Ok(()))
}

/// Does the same as [`ask`], with this number of questions per call, and calls `between` after
/// each.
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

/// Loads an object whose maps have room for this many entries, and whose hash tables have keys of
/// this many bytes.
pub fn load(
    arena: &BpfArena,
    object: &[u8],
    key_bytes: usize,
    entries: usize,
) -> Result<Programs, String> {
    load_with(arena, object, key_bytes, entries, &[])
}

/// Does the same, with these maps in the places of the object's maps of the same names.
pub fn load_with(
    arena: &BpfArena,
    object: &[u8],
    key_bytes: usize,
    entries: usize,
    maps: &[(&str, MapHandle)],
) -> Result<Programs, String> {
    let mut loader = Loader::open(arena, object).map_err(|e| e.to_string())?;
    for mut map in loader.object_mut().maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let given = maps.iter().find(|(given, _)| *given == name);
        if let Some((_, handle)) = given {
            map.reuse_fd(handle.as_fd()).map_err(|e| e.to_string())?;
            continue;
        }
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

/// A separate handle for a map of the object.
pub fn handle(programs: &Programs, name: &str) -> Result<MapHandle, String> {
    let map = programs.map(name).map_err(|e| e.to_string())?;
    MapHandle::try_from(&map).map_err(|e| e.to_string())
}

/// The bytes of the kernel's allocations (`kmalloc`) in use, for each size.
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

/// The growth of the allocations of the size that grew most: those of a map whose nodes all have
/// one size. Other processes allocate meanwhile, mostly other sizes.
pub fn grown(before: &[u64], after: &[u64]) -> u64 {
    let pairs = before.iter().zip(after);
    let grown = pairs.map(|(before, after)| after.saturating_sub(*before));
    grown.max().unwrap_or(0)
}

/// The bytes that the kernel reports for a map of its own. For an LPM_TRIE these are only the
/// prefixes, without the nodes between them and without the rounding of their allocations.
pub fn memlock(map: &MapHandle) -> Result<u64, String> {
    let file = format!("/proc/self/fdinfo/{}", map.as_fd().as_raw_fd());
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{file}: {e}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("memlock:"));
    line.and_then(|bytes| bytes.trim().parse().ok())
        .ok_or_else(|| format!("{file}: no line memlock"))
}
