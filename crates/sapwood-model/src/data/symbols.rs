//! Names of a kernel's symbols and types, made after a model.

use fastrand::Rng;

use super::domains::{word, zipf};
use super::{DataSet, random};

/// `count` distinct names that look like the symbols of a kernel, in the order in which they are
/// drawn.
///
/// The model:
///
/// 1. A *stem* is a subsystem and one to four words after it (two on average), joined by
///    underscores. Subsystems are drawn by Zipf's law from 600, so that few have very many names;
///    words by the same law from 4,000 of one to three syllables. One stem in six begins with one
///    or two underscores, one in 16 ends in a number.
/// 2. *Functions*, three stems in four: the stem, and the same after `__pfx_`, as compilers pad
///    them. *Trace points*, one in 30: the stem after each of eight usual beginnings, such as
///    `__traceiter_`. The rest are *data*, the stem alone.
///
/// That gives 25 bytes on average, two names in five after `__pfx_`, and long common prefixes: a
/// Linux 6.18 is alike (121,000 names of 24.4 bytes).
#[must_use]
pub fn symbols(count: usize, seed: u64) -> DataSet {
    let mut model = Model::new(seed);
    let names = std::iter::repeat_with(move || {
        let stem = model.stem(&[1, 1, 1, 2, 2, 2, 3, 3, 4]);
        match model.rng.u8(..30) {
            0 => TRACE_POINT.map(|start| format!("{start}{stem}")).to_vec(),
            1..=22 => vec![format!("__pfx_{stem}"), stem],
            _ => vec![stem],
        }
    });
    random::distinct(
        "symbols",
        format!("names made after a model of kernel symbols, seed {seed}"),
        count,
        names.flatten().map(bytes),
    )
}

/// `count` distinct names that look like the strings of a kernel's type information: functions and
/// types as in [`symbols`], but each once and with fewer words (half of them), members of one or
/// two words (a third), and constants in capital letters. 19 bytes on average; those of a Linux
/// 6.18 have 17.7.
#[must_use]
pub fn type_names(count: usize, seed: u64) -> DataSet {
    let mut model = Model::new(seed);
    let names = std::iter::repeat_with(move || match model.rng.u8(..30) {
        0 => {
            let stem = model.stem(&[1, 2, 2]);
            let starts = ["btf_trace_", "trace_event_raw_event_", "__traceiter_"];
            starts.map(|start| format!("{start}{stem}")).to_vec()
        }
        1..=15 => vec![model.stem(&[1, 1, 1, 2, 2, 3])],
        16..=25 => {
            let first = model.word();
            vec![match model.rng.bool() {
                true => first,
                false => first + "_" + &model.word(),
            }]
        }
        _ => vec![model.stem(&[1, 1, 1, 2, 3]).to_uppercase()],
    });
    random::distinct(
        "type-names",
        format!("names made after a model of a kernel's types, seed {seed}"),
        count,
        names.flatten().map(bytes),
    )
}

const TRACE_POINT: [&str; 8] = [
    "__traceiter_",
    "__probestub_",
    "__bpf_trace_",
    "__SCT__tp_func_",
    "__tracepoint_",
    "perf_trace_",
    "trace_event_raw_event_",
    "trace_raw_output_",
];

fn bytes(name: String) -> Box<[u8]> {
    name.into_bytes().into_boxed_slice()
}

struct Model {
    rng: Rng,
    subsystems: Vec<String>,
    words: Vec<String>,
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut some = |count| (0..count).map(|_| word(&mut rng)).collect();
        let (subsystems, words) = (some(600), some(4000));
        Self {
            rng,
            subsystems,
            words,
        }
    }

    fn word(&mut self) -> String {
        self.words[zipf(&mut self.rng, self.words.len())].clone()
    }

    /// A subsystem, and as many words as one of these numbers says.
    fn stem(&mut self, words: &[usize]) -> String {
        let start = ["", "", "", "", "", "", "", "", "", "", "_", "__"];
        let mut stem = start[self.rng.usize(..start.len())].to_owned();
        stem += &self.subsystems[zipf(&mut self.rng, self.subsystems.len())];
        for _ in 0..words[self.rng.usize(..words.len())] {
            stem += "_";
            stem += &self.word();
        }
        if self.rng.u8(..16) == 0 {
            stem += &zipf(&mut self.rng, 100).to_string();
        }
        stem
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(set: &DataSet) -> f64 {
        set.key_bytes() as f64 / set.keys.len() as f64
    }

    #[test]
    fn symbols_follow_the_model() {
        let set = symbols(50_000, 1);
        assert_eq!(set.keys.len(), 50_000);
        assert_eq!(set, symbols(50_000, 1));
        assert_ne!(set, symbols(50_000, 2));
        let padded = set.keys.iter().filter(|key| key.starts_with(b"__pfx_"));
        let padded = padded.count();
        assert!((17_500..25_000).contains(&padded), "{padded}");
        assert!((20.0..28.0).contains(&mean(&set)), "{}", mean(&set));
        let name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        assert!(set.keys.iter().all(|key| key.iter().all(name)));
        assert!(set.keys.iter().all(|key| key.len() < 128));
    }

    #[test]
    fn type_names_follow_the_model() {
        let set = type_names(50_000, 1);
        assert_eq!(set.keys.len(), 50_000);
        assert_eq!(set, type_names(50_000, 1));
        assert!((14.0..22.0).contains(&mean(&set)), "{}", mean(&set));
        let small = |key: &[u8]| key.iter().any(u8::is_ascii_lowercase);
        let capitals = set.keys.iter().filter(|key| !small(key)).count();
        assert!((4000..11_000).contains(&capitals), "{capitals}");
    }
}
