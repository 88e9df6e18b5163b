//! The programs that a test needs, and what AdGuard's library says.

use std::fs::{self, File};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use sapwood_model::systems::dns::{Answer, Question};
use sapwood_model::systems::servers;

/// Whether a test may not be skipped for want of a program.
const MUST_RUN: &str = "SAPWOOD_LISTS_MUST_RUN";

/// A program; `None`, and a line that says so, if it is not installed.
pub fn program(name: &str) -> Option<PathBuf> {
    let found = servers::program(name);
    if found.is_none() {
        missing(&format!("{name} is not installed"));
    }
    found
}

fn missing(what: &str) {
    assert!(std::env::var(MUST_RUN).is_err(), "{what}");
    println!("skipped: {what} (ci/packages.sh)");
}

/// What AdGuard's library says of the questions.
pub fn urlfilter(lists: &[PathBuf], folder: &Path, questions: &[Question]) -> Option<Vec<Answer>> {
    let go = program("go")?;
    let built = folder.join("urlfilter");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/urlfilter");
    let made = Command::new(go)
        .current_dir(sources)
        .args(["build", "-mod=readonly", "-o"])
        .arg(&built)
        .output()
        .unwrap();
    if !made.status.success() {
        missing(&format!(
            "Go cannot build the program with urlfilter: {}",
            String::from_utf8_lossy(&made.stderr)
        ));
        return None;
    }
    let text: String = questions
        .iter()
        .map(|question| format!("{} {}\n", question.rtype, question.name))
        .collect();
    let input = folder.join("questions");
    fs::write(&input, text).unwrap();
    let output = Command::new(built)
        .args(lists)
        .stdin(File::open(input).unwrap())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    let answers = text.lines().zip(questions).map(|(line, question)| {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (word, rest) {
            ("pass", "") => Answer::Upstream,
            ("block" | "code", "" | "3") => Answer::Nxdomain,
            ("code", "5") => Answer::Refused,
            ("name", name) => Answer::Name(name.into()),
            ("addresses", all) => {
                let all = all.split_ascii_whitespace();
                let all = all.map(|word| word.parse::<IpAddr>().unwrap());
                Answer::addresses(all, question.rtype)
            }
            _ => Answer::Other(line.into()),
        }
    });
    Some(answers.collect())
}
