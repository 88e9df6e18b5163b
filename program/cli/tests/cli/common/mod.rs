//! Runs the program in a folder of its own.
#![allow(dead_code)]

use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// The path of the program under test.
pub const PROGRAM: &str = match (
    option_env!("CARGO_BIN_EXE_sapwood"),
    option_env!("CARGO_BIN_EXE_sapwood-tour"),
    option_env!("CARGO_BIN_EXE_sapwood-bench"),
) {
    (Some(program), ..) | (_, Some(program), _) | (.., Some(program)) => program,
    _ => panic!("cargo names the program of the package"),
};

/// A temporary folder, removed when dropped.
pub struct Scratch(TempDir);

impl Scratch {
    /// A new empty folder.
    pub fn new() -> Self {
        Scratch(tempfile::tempdir().unwrap())
    }

    /// The path of a file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file.
    pub fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, contents).unwrap();
        path
    }

    /// Copies the program into the folder, for users who cannot reach the original.
    pub fn copy_of_program(&self) -> PathBuf {
        // By a process of its own: a file that this process writes could be open in a child of
        // another test, and then it cannot be run.
        let path = self.path("sapwood");
        let copied = Command::new("cp").arg(PROGRAM).arg(&path).status();
        assert!(copied.unwrap().success());
        path
    }

    /// The names of all files in the folder, sorted.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// Runs the program in the folder.
    pub fn run<A: AsRef<OsStr>>(&self, args: &[A]) -> Ran {
        self.run_with(args, b"")
    }

    /// Runs the program in the folder with these bytes on stdin.
    pub fn run_with<A: AsRef<OsStr>>(&self, args: &[A], stdin: &[u8]) -> Ran {
        let mut command = Command::new(PROGRAM);
        command.args(args);
        self.go(command, stdin)
    }

    /// Runs a shell script in the folder; `$0` is the program.
    pub fn shell(&self, script: &str) -> Ran {
        let mut command = Command::new("sh");
        command.args(["-c", script, PROGRAM]);
        self.go(command, b"")
    }

    fn go(&self, mut command: Command, stdin: &[u8]) -> Ran {
        let mut child = command
            .current_dir(self.0.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pipe = child.stdin.take().unwrap();
        let stdin = stdin.to_vec();
        let feeder = std::thread::spawn(move || drop(pipe.write_all(&stdin)));
        let output = child.wait_with_output().unwrap();
        feeder.join().unwrap();
        Ran(output)
    }

    /// Builds the map `name` from a text, and expects exit code 0.
    pub fn build(&self, name: &str, text: impl AsRef<[u8]>) -> Ran {
        let ran = self.run_with(&["names", "build", "-", "-o", name], text.as_ref());
        ran.code(0);
        ran
    }
}

/// The outcome of a run of the program.
pub struct Ran(pub Output);

impl Ran {
    /// Expects an exit code.
    #[track_caller]
    pub fn code(&self, code: i32) -> &Self {
        assert_eq!(self.0.status.code(), Some(code), "{self}");
        self
    }

    /// Expects exactly this on stdout.
    #[track_caller]
    pub fn out(&self, text: impl AsRef<[u8]>) -> &Self {
        let (ours, theirs) = (&self.0.stdout, text.as_ref());
        assert!(ours == theirs, "{self}\nwanted: {}", theirs.escape_ascii());
        self
    }

    /// Expects this text in stdout.
    #[track_caller]
    pub fn says(&self, text: &str) -> &Self {
        let out = String::from_utf8_lossy(&self.0.stdout);
        assert!(out.contains(text), "no \"{text}\" in:\n{self}");
        self
    }

    /// Expects this text in stderr.
    #[track_caller]
    pub fn complains(&self, text: &str) -> &Self {
        assert!(self.stderr().contains(text), "no \"{text}\" in:\n{self}");
        self
    }

    /// Expects nothing on stderr.
    #[track_caller]
    pub fn quiet(&self) -> &Self {
        assert_eq!(self.stderr(), "", "{self}");
        self
    }

    /// All of stderr.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }

    /// The documents on stdout, one in each line.
    #[track_caller]
    pub fn documents(&self) -> Vec<serde_json::Value> {
        let text = std::str::from_utf8(&self.0.stdout).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Output {
            status,
            stdout,
            stderr,
        } = &self.0;
        let [out, err] = [stdout, stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        write!(f, "{status}\nstdout: {out}\nstderr: {err}")
    }
}
