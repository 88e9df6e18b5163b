//! This test program as other processes.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A directory for a map, in memory where the system has such a file system.
pub fn folder() -> (tempfile::TempDir, PathBuf) {
    let shm = Path::new("/dev/shm");
    let temp = match shm.is_dir() {
        true => tempfile::tempdir_in(shm).unwrap(),
        false => tempfile::tempdir().unwrap(),
    };
    let path = temp.path().join("map");
    (temp, path)
}

/// This test program as another process, which runs the test `child_process`. The drop kills it.
pub struct Beside {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Beside {
    pub fn start(task: &str, folder: &Path) -> Beside {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child_process", "--exact", "--ignored", "--nocapture"])
            .env("SAPWOOD_TASK", task)
            .env("SAPWOOD_FOLDER", folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Beside { child, out }
    }

    /// Waits for a line that begins so, and returns the rest.
    pub fn line(&mut self, start: &str) -> String {
        let mut said = String::new();
        loop {
            let mut line = String::new();
            assert!(
                self.out.read_line(&mut line).unwrap() > 0,
                "it ended: {said}"
            );
            // The harness prints before the first line of a test.
            if let Some(at) = line.find(start) {
                return line[at + start.len()..].trim().to_owned();
            }
            said += &line;
        }
    }

    /// Kills it, and returns all that it has printed since.
    pub fn kill(mut self) -> String {
        let ended = self.child.try_wait().unwrap();
        assert!(ended.is_none(), "it ended by itself: {ended:?}");
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let mut said = String::new();
        self.out.read_to_string(&mut said).unwrap();
        said
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The number in the last whole line of this kind.
pub fn last(said: &str, start: &str) -> Option<u64> {
    let whole = &said[..said.rfind('\n').map_or(0, |at| at + 1)];
    let numbers = whole.lines().filter_map(|line| line.strip_prefix(start));
    numbers
        .filter_map(|number| number.trim().parse().ok())
        .max()
}
