//! The suite `lists`: the names of a generated list, its texts, and engines, each in a process of
//! its own.

pub mod here;
pub mod servers;

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use sapwood_model::data::domains_gz;
use sapwood_model::lists::{Format, Names, head, line};

use crate::report::Measure;

/// How many real names are among those of a list.
const REAL: usize = 20_000;
/// The name that is the last one of the first text, and of the second.
pub const LAST: [&str; 2] = ["last-0.example", "last-1.example"];

/// The names of a list before and after a change of one in a hundred.
pub struct Set {
    pub before: Vec<String>,
    pub after: Vec<String>,
}

impl Set {
    /// So many names, those of a folder of data sets among them.
    pub fn new(count: usize, data: Option<&Path>) -> Result<Set, String> {
        let mut names = Names::new(11);
        let mut known = HashSet::new();
        let mut before = Vec::with_capacity(count);
        if let Some(folder) = data {
            let real = domains_gz(&folder.join("domains-opendns.txt.gz"));
            let real = real.map_err(|missing| missing.to_string())?;
            let texts = real
                .keys
                .iter()
                .filter_map(|key| std::str::from_utf8(key).ok());
            let texts = texts
                .filter(|name| name.contains('.'))
                .take(REAL.min(count / 2));
            before.extend(texts.map(str::to_owned));
            known.extend(before.iter().cloned());
        }
        let mut next = || loop {
            let name = names.next().unwrap_or_default();
            if known.insert(name.clone()) {
                return name;
            }
        };
        while before.len() < count - 1 {
            before.push(next());
        }
        let mut after = before.clone();
        for name in after.iter_mut().step_by(100) {
            *name = next();
        }
        before.push(LAST[0].to_owned());
        after.push(LAST[1].to_owned());
        Ok(Set { before, after })
    }

    /// Writes the names, and the texts of the format.
    pub fn write(&self, format: Format, folder: &Path) -> Result<(), String> {
        let mut random = fastrand::Rng::with_seed(5);
        for (place, names) in [("before", &self.before), ("after", &self.after)] {
            fs::write(folder.join(format!("{place}.names")), names.join("\n")).map_err(text)?;
            let file = File::create(folder.join(format!("{place}.list"))).map_err(text)?;
            let mut file = BufWriter::new(file);
            file.write_all(head(format).as_bytes()).map_err(text)?;
            for name in names {
                let line = line(format, name, &mut random, usize::MAX);
                // What dnsmasq reads again has this option alone.
                let line = line.replacen("local=", "server=", 1);
                writeln!(file, "{line}").map_err(text)?;
            }
            file.flush().map_err(text)?;
        }
        Ok(())
    }
}

/// Questions with what the list says: whether the name is blocked.
pub struct Questions {
    /// Of the second text.
    pub all: Vec<(String, bool)>,
    /// Names that only the first text blocks.
    pub gone: Vec<String>,
    /// Names of the first text and of the second one, among them those that it alone has.
    pub some: [Vec<String>; 2],
    /// How many names the second text has.
    pub names: usize,
}

impl Questions {
    /// Of the names in a folder.
    pub fn read(folder: &Path, count: usize) -> Result<Questions, String> {
        let read = |name: &str| fs::read_to_string(folder.join(name)).map_err(text);
        let (before, after) = (read("before.names")?, read("after.names")?);
        let listed: Vec<&str> = after.lines().collect();
        let set: HashSet<&str> = listed.iter().copied().collect();
        let mut random = fastrand::Rng::with_seed(9);
        let question = |at: usize| {
            let name = listed[random.usize(..listed.len())];
            match at % 3 {
                0 => (name.to_owned(), true),
                1 => (format!("zz9.{name}"), true),
                _ => (
                    format!("n{at}.{}.zz9", &name[..name.find('.').unwrap_or(0)]),
                    false,
                ),
            }
        };
        let all = (0..count).map(question).collect();
        let gone = before
            .lines()
            .step_by(100)
            .filter(|name| !is_blocked(&set, name));
        let some = [&before, &after].map(|text| {
            let changed = text.lines().step_by(100).take(500);
            changed.map(str::to_owned).collect()
        });
        Ok(Questions {
            all,
            some,
            gone: gone.take(1000).map(str::to_owned).collect(),
            names: listed.len(),
        })
    }
}

/// Whether a set has a name or one above it.
pub fn is_blocked<S: std::hash::BuildHasher>(set: &HashSet<&str, S>, name: &str) -> bool {
    above(name).any(|name| set.contains(name))
}

/// A name and those above it.
pub fn above(name: &str) -> impl Iterator<Item = &str> {
    let starts = name.match_indices('.').map(|(at, _)| at + 1);
    std::iter::once(0).chain(starts).map(|at| &name[at..])
}

/// Metrics with their values.
pub type Values = Vec<(&'static str, f64)>;

/// An error as text.
pub fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Resident memory of a process, and the most since it was last asked to forget, in MB.
pub fn memory(id: u32) -> Result<(f64, f64), String> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).map_err(text)?;
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let words = line.and_then(|line| line.split_ascii_whitespace().nth(1));
        words
            .and_then(|kib| kib.parse::<f64>().ok())
            .map(|kib| kib * 1024.0 / 1e6)
    };
    of("VmRSS")
        .zip(of("VmHWM"))
        .ok_or_else(|| format!("process {id} has no memory"))
}

/// Forgets the most memory that a process had; the kernel then counts from now on.
pub fn forget_peak(id: u32) -> Result<(), String> {
    fs::write(format!("/proc/{id}/clear_refs"), "5").map_err(text)
}

/// The longest time between answers, which are asked for one after the other until `is_over`.
pub fn longest_gap(
    mut ask: impl FnMut() -> Result<(), String>,
    is_over: impl Fn() -> bool,
) -> Result<f64, String> {
    let (mut last, mut gap) = (Instant::now(), 0_f64);
    while !is_over() {
        ask()?;
        let now = Instant::now();
        gap = gap.max(now.duration_since(last).as_secs_f64() * 1e3);
        last = now;
    }
    Ok(gap)
}

/// Runs an engine in a process of its own; the inner error says why this machine lacks it.
pub fn run(
    engine: &str,
    folder: &Path,
    count: usize,
) -> Result<Result<Vec<Measure>, String>, String> {
    let me = std::env::current_exe().map_err(text)?;
    let output = Command::new(me)
        .args(["lists-child", engine])
        .arg(folder)
        .arg(count.to_string())
        .output()
        .map_err(text)?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    let told = String::from_utf8(output.stdout).map_err(text)?;
    if let Some(why) = told.strip_prefix("absent: ") {
        return Ok(Err(why.trim().to_owned()));
    }
    measures(&told).map(Ok)
}

/// The lines that a child writes: metric, value, unit.
const METRICS: [(&str, &str); 8] = [
    ("load_s", "s"),
    ("reload_s", "s"),
    ("reload_gap_ms", "ms"),
    ("rss_mb", "MB"),
    ("peak_mb", "MB"),
    ("bytes_per_rule", "B"),
    ("file_mb", "MB"),
    ("ask_mops", "Mop/s"),
];

fn measures(told: &str) -> Result<Vec<Measure>, String> {
    let line = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        let (metric, unit) = METRICS.iter().find(|(metric, _)| *metric == name)?;
        Some(Measure::new(metric, value.parse().ok()?, unit))
    };
    let all = told
        .lines()
        .map(|text| line(text).ok_or(format!("a child said {text:?}")));
    all.collect()
}

/// What the process of an engine does.
pub fn child(engine: &str, folder: &Path, count: usize) -> Result<(), String> {
    let questions = Questions::read(folder, count)?;
    let told = match engine {
        "unbound" | "bind-rpz" | "dnsmasq" => servers::measure(engine, folder, &questions)?,
        _ => Ok(here::measure(engine, folder, &questions)?),
    };
    match told {
        Ok(all) => all
            .iter()
            .for_each(|(metric, value)| println!("{metric} {value}")),
        Err(why) => println!("absent: {why}"),
    }
    Ok(())
}

/// The files of the two texts.
pub fn texts(folder: &Path) -> [PathBuf; 2] {
    ["before.list", "after.list"].map(|name| folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_have_the_answers_of_the_second_text() {
        let folder = tempfile::tempdir().unwrap();
        let set = Set::new(2000, None).unwrap();
        assert_eq!((set.before.len(), set.after.len()), (2000, 2000));
        let changed = set.before.iter().zip(&set.after).filter(|(a, b)| a != b);
        assert_eq!(changed.count(), 21);
        set.write(Format::Dnsmasq, folder.path()).unwrap();
        let [before, _] = texts(folder.path()).map(|file| fs::read_to_string(file).unwrap());
        assert!(before.ends_with("server=/last-0.example/\n"));
        let questions = Questions::read(folder.path(), 300).unwrap();
        let set: HashSet<&str> = set.after.iter().map(String::as_str).collect();
        for (name, blocked) in &questions.all {
            assert_eq!(is_blocked(&set, name), *blocked, "{name}");
        }
        assert!(questions.gone.iter().all(|name| !is_blocked(&set, name)));
        assert!(questions.gone.len() > 5, "{:?}", questions.gone);
    }

    #[test]
    fn children_say_metrics_that_are_known() {
        let all = measures("load_s 0.5\nask_mops 2\n").unwrap();
        assert_eq!(
            (all[0].metric, all[0].value, all[1].unit),
            ("load_s", 0.5, "Mop/s")
        );
        assert!(measures("load_s x").is_err() && measures("what 1").is_err());
    }

    #[test]
    fn memory_is_read_and_its_peak_is_forgotten() {
        let id = std::process::id();
        let (rss, peak) = memory(id).unwrap();
        assert!(rss > 0.0 && peak >= rss * 0.9, "{rss} {peak}");
        assert!(memory(u32::MAX).is_err());
    }
}
