//! The suite `go`: what is asked of the maps, their files, and the benchmarks of the Go module,
//! which ask the same.

pub mod checked;
mod files;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use files::make;

/// An answer where there is none.
pub const NONE: u64 = u64::MAX;

/// An operation: what is asked, and what must be answered.
pub struct Asked {
    /// The metric.
    pub metric: &'static str,
    /// The questions, as texts.
    pub questions: Vec<String>,
    /// Their answers; [`NONE`] where there is none.
    pub answers: Vec<u64>,
}

impl Asked {
    /// Questions with their answers.
    pub fn new(metric: &'static str, all: impl IntoIterator<Item = (String, Option<u64>)>) -> Self {
        let all = all.into_iter();
        let (questions, answers) = all
            .map(|(question, answer)| (question, answer.unwrap_or(NONE)))
            .unzip();
        Self {
            metric,
            questions,
            answers,
        }
    }

    /// Writes them to a file with the name of the metric.
    pub fn write(&self, folder: &Path) -> Result<(), String> {
        let all = self.questions.iter().zip(&self.answers);
        write_pairs(&folder.join(self.metric), all)
    }
}

/// Writes texts and numbers, a line each.
pub fn write_pairs<'a>(
    file: &Path,
    all: impl Iterator<Item = (&'a String, &'a u64)>,
) -> Result<(), String> {
    let mut lines = String::new();
    for (text, number) in all {
        match *number {
            NONE => lines += &format!("{text}\t-\n"),
            number => lines += &format!("{text}\t{number}\n"),
        }
    }
    fs::write(file, lines).map_err(text)
}

/// An error as text.
pub fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The unit of a metric, and its value for an operation of so many nanoseconds.
pub fn value(metric: &str, ns: f64) -> (f64, &'static str) {
    match metric.rsplit('_').next() {
        Some("mops") => (1e3 / ns, "Mop/s"),
        Some("mlps") => (1e3 / ns, "M/s"),
        _ => (ns, "ns"),
    }
}

/// The benchmarks of the Go module, compiled.
pub struct Benchmarks {
    program: PathBuf,
    /// The version of Go.
    pub version: String,
}

/// A line of the output of a benchmark.
#[derive(Debug, PartialEq)]
pub struct Line {
    /// The engine.
    pub engine: String,
    /// The metric.
    pub metric: String,
    /// Nanoseconds of processor time for an operation.
    pub ns: f64,
    /// Allocations for an operation.
    pub allocs: f64,
}

impl Benchmarks {
    /// Compiles them into a folder.
    pub fn compile(go: &str, folder: &Path) -> Result<Self, String> {
        let missing = |why: String| {
            format!(
                "Go is missing: {go}: {why}. The suite needs Go 1.24 or newer in the path, or a \
                 program that SAPWOOD_GO names; ci/setup.sh installs one"
            )
        };
        let version = Command::new(go).args(["env", "GOVERSION"]).output();
        let version = version.map_err(|error| missing(text(error)))?;
        if !version.status.success() {
            return Err(missing(
                String::from_utf8_lossy(&version.stderr).trim().into(),
            ));
        }
        let program = folder.join("go.test");
        let built = Command::new(go)
            .args(["test", "-c", "-o"])
            .arg(&program)
            .arg(".")
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../doors/go/bench"))
            .output();
        let built = built.map_err(text)?;
        if !built.status.success() {
            let why = String::from_utf8_lossy(&built.stderr);
            return Err(format!("go test -c: {}", why.trim()));
        }
        let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
        Ok(Self { program, version })
    }

    /// Runs that of a case, whose files are in a folder of its name inside another folder, for so
    /// long an operation.
    pub fn run(&self, name: &str, folder: &Path, millis: usize) -> Result<Vec<Line>, String> {
        let output = Command::new(&self.program)
            .args(["-test.run", "^$", "-test.cpu", "1", "-test.bench"])
            .arg(format!("^Benchmark{}$", title(name)))
            .arg(format!("-test.benchtime={millis}ms"))
            .env("SAPWOOD_GO_BENCH", folder)
            .output()
            .map_err(text)?;
        let said = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            return Err(format!("the benchmark in Go failed: {}", said.trim()));
        }
        match lines(&said)? {
            none if none.is_empty() => Err(format!("the benchmark in Go says {:?}", said.trim())),
            lines => Ok(lines),
        }
    }
}

/// The name of a benchmark in Go: `routes-v4` is that of `BenchmarkRoutesV4`.
fn title(name: &str) -> String {
    let words = name.split('-').map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_uppercase() + rest
    });
    words.collect()
}

/// The results in the output of `go test -bench`.
fn lines(said: &str) -> Result<Vec<Line>, String> {
    let results = said.lines().filter(|line| line.starts_with("Benchmark"));
    // The name alone comes first where a benchmark prints something.
    let results = results.filter(|line| line.contains("ns/op"));
    let results = results.map(|line| parsed(line).ok_or_else(|| format!("Go said {line:?}")));
    results.collect()
}

/// A result: the name, how many times, and values with their units.
fn parsed(line: &str) -> Option<Line> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let mut name = words.first()?.splitn(3, '/').skip(1);
    let (engine, metric) = (name.next()?, name.next()?);
    let of = |unit: &str| {
        let mut values = words[2..].chunks_exact(2);
        values.find(|value| value[1] == unit)?[0].parse().ok()
    };
    Some(Line {
        engine: engine.to_owned(),
        metric: metric.to_owned(),
        ns: of("cpu-ns/op")?,
        allocs: of("allocs/op")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_go_are_read() {
        let said = "goos: linux\nBenchmarkNames\nBenchmarkNames/map[string]/hit_mops\n\
            BenchmarkNames/map[string]/hit_mops  \t 4321\t 120.5 ns/op\t 99.25 cpu-ns/op\t\
            16 B/op\t 2 allocs/op\nPASS\n";
        let wanted = Line {
            engine: "map[string]".into(),
            metric: "hit_mops".into(),
            ns: 99.25,
            allocs: 2.0,
        };
        assert_eq!(lines(said).unwrap(), [wanted]);
        let other = lines("BenchmarkNames/a/b 1 2 ns/op\n").unwrap_err();
        assert!(other.contains("BenchmarkNames/a/b"), "{other}");
        assert_eq!(
            (title("names"), title("routes-v4")),
            ("Names".into(), "RoutesV4".into())
        );
    }

    #[test]
    fn rates_and_times_have_their_units() {
        assert_eq!(value("hit_mops", 50.0), (20.0, "Mop/s"));
        assert_eq!(value("random_mlps", 100.0), (10.0, "M/s"));
        assert_eq!(value("load_ns", 7.0), (7.0, "ns"));
    }

    #[test]
    fn a_missing_go_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = Benchmarks::compile("no-such-go", folder.path())
            .err()
            .unwrap();
        assert!(
            error.starts_with("Go is missing: no-such-go: ") && error.contains("ci/setup.sh"),
            "{error}"
        );
    }

    #[test]
    fn questions_are_lines() {
        let folder = tempfile::tempdir().unwrap();
        let all = [("a.b".to_owned(), Some(3)), ("c".to_owned(), None)];
        let asked = Asked::new("hit_mops", all);
        asked.write(folder.path()).unwrap();
        let written = fs::read_to_string(folder.path().join("hit_mops")).unwrap();
        assert_eq!(written, "a.b\t3\nc\t-\n");
        assert_eq!(asked.answers, [3, NONE]);
    }
}
