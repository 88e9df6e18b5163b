//! Tests that run themselves again in a process of their own, because they limit or measure it.

use std::process::Command;

const TASK: &str = "SAPWOOD_SPACE_TASK";

/// The task of a child process, if this is one.
pub fn task() -> Option<String> {
    std::env::var(TASK).ok()
}

/// Runs a test of this program with a task, in a process of its own; returns what it printed.
#[track_caller]
pub fn child(test: &str, task: &str) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "--test-threads=1", test])
        .env(TASK, task)
        // An arena of the heap for each thread takes addresses, too.
        .env("MALLOC_ARENA_MAX", "1")
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "{task}: {}\n{text}", output.status);
    text
}
