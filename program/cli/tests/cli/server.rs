//! A process that serves a live map, and what it prints.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{PROGRAM, Scratch};

/// The longest time that anything takes.
pub const LIMIT: Duration = Duration::from_secs(120);

/// A process that serves a live map. It is killed when dropped.
pub struct Server {
    /// The process.
    pub child: Child,
    /// Its stdin; without it, closed.
    pub stdin: Option<ChildStdin>,
    /// The lines of its stdout.
    pub out: Receiver<String>,
    /// The lines of its stderr.
    pub errors: Receiver<String>,
}

fn lines(from: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines() {
            if line.is_err() || send.send(line.unwrap()).is_err() {
                return;
            }
        }
    });
    receive
}

impl Server {
    /// Starts a server in the directory, and waits until it serves.
    #[track_caller]
    pub fn start(s: &Scratch, args: &[&str]) -> Server {
        let server = Server::spawn(s, args);
        server.complains(", live");
        server
    }

    /// Starts a program in the directory.
    pub fn spawn(s: &Scratch, args: &[&str]) -> Server {
        Server::of(Server::command(s, args))
    }

    /// The program in the directory, with pipes.
    pub fn command(s: &Scratch, args: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .args(args)
            .current_dir(s.path("."))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Starts a command whose input and output are pipes.
    pub fn of(mut command: Command) -> Server {
        let mut child = command.spawn().unwrap();
        Server {
            stdin: child.stdin.take(),
            out: lines(child.stdout.take().unwrap()),
            errors: lines(child.stderr.take().unwrap()),
            child,
        }
    }

    /// Sends commands, and expects these lines.
    #[track_caller]
    pub fn answers(&mut self, commands: &str, lines: &[&str]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(commands.as_bytes()).unwrap();
        for line in lines {
            assert_eq!(self.out.recv_timeout(LIMIT).as_deref(), Ok(*line));
        }
    }

    /// Waits for a line on stderr that has this text.
    #[track_caller]
    pub fn complains(&self, text: &str) -> String {
        self.complains_within(LIMIT, text)
    }

    /// The same for what takes longer: no line may come later than this after the one before.
    #[track_caller]
    pub fn complains_within(&self, limit: Duration, text: &str) -> String {
        let mut seen = String::new();
        loop {
            match self.errors.recv_timeout(limit) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => seen = seen + &line + "\n",
                Err(_) => panic!("no \"{text}\" in:\n{seen}"),
            }
        }
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap();
    }

    /// Waits for the end, and returns the exit code.
    #[track_caller]
    pub fn ends(&mut self) -> Option<i32> {
        let until = Instant::now() + LIMIT;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the server does not end");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something holds.
#[track_caller]
pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < until, "not yet: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A figure of the command `stats`.
pub fn figure(server: &mut Server, name: &str) -> u64 {
    server.answers("stats\n", &[]);
    let mut found = None;
    for _ in 0..10 {
        let line = server.out.recv_timeout(LIMIT).unwrap();
        let (what, value) = line.split_once('\t').unwrap();
        if what == name {
            found = Some(value.parse().unwrap());
        }
    }
    found.unwrap()
}

/// The value of a figure in the file for Prometheus.
pub fn metric(path: &Path, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| {
        let rest = line
            .strip_prefix("sapwood_live_")
            .and_then(|l| l.strip_prefix(name));
        rest.is_some_and(|rest| rest.starts_with("{map="))
    })?;
    line.rsplit(' ').next()?.parse().ok()
}
