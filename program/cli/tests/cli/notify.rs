//! What the commands that run until a signal tell the service manager: a socket of the test stands
//! for it.

use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::common::{PROGRAM, Scratch};
use crate::server::{LIMIT, Server, figure, wait_for};

/// A socket that stands for the service manager.
pub struct Manager(UnixDatagram);

impl Manager {
    /// Binds the socket in a directory.
    pub fn new(s: &Scratch) -> Self {
        let socket = UnixDatagram::bind(s.path("notify")).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        Manager(socket)
    }

    /// The command, in the directory, under this manager. It wants to hear from it within this
    /// time.
    pub fn command(s: &Scratch, args: &[&str], watchdog: Option<Duration>) -> Command {
        let mut command = Server::command(s, args);
        command.env("NOTIFY_SOCKET", s.path("notify"));
        if let Some(time) = watchdog {
            command.env("WATCHDOG_USEC", time.as_micros().to_string());
        }
        command
    }

    /// The next message, as lines.
    #[track_caller]
    pub fn message(&self) -> Vec<String> {
        let mut bytes = [0; 4096];
        let len = self.0.recv(&mut bytes).unwrap();
        let text = std::str::from_utf8(&bytes[..len]).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    /// The next message that is no sign of life.
    #[track_caller]
    pub fn other(&self) -> Vec<String> {
        loop {
            match self.message() {
                alive if alive == ["WATCHDOG=1"] => {}
                other => return other,
            }
        }
    }

    /// Waits for a message with a line that begins with this text, and returns the line.
    #[track_caller]
    pub fn told(&self, text: &str) -> String {
        let mut seen = Vec::new();
        let until = Instant::now() + LIMIT;
        while Instant::now() < until {
            let message = self.message();
            if let Some(line) = message.iter().find(|line| line.starts_with(text)) {
                return line.clone();
            }
            seen.push(message);
        }
        panic!("no \"{text}\" in {seen:?}");
    }

    /// Forgets the messages that have come.
    pub fn forget(&self) {
        self.0.set_nonblocking(true).unwrap();
        let mut bytes = [0; 4096];
        while self.0.recv(&mut bytes).is_ok() {}
        self.0.set_nonblocking(false).unwrap();
    }

    /// Expects some signs of life, one after another.
    #[track_caller]
    pub fn lives(&self) {
        for _ in 0..3 {
            assert_eq!(self.message(), ["WATCHDOG=1"]);
        }
    }
}

#[test]
fn the_service_manager_is_told() {
    let s = Scratch::new();
    s.file("list", "oak\t1\nelm\t2\n");
    let manager = Manager::new(&s);
    let args = ["names", "serve", "list", "--live", "map", "--no-commands"];
    let command = Manager::command(&s, &args, Some(Duration::from_millis(300)));
    let mut server = Server::of(command);
    let ready = |status: &str| ["READY=1".to_owned(), format!("STATUS={status}")];
    assert_eq!(manager.message(), ready("2 entries, 0 readers"));
    // Readers find the map by now.
    s.run(&["names", "get", "--live", "map", "oak"])
        .code(0)
        .out("1\n");
    manager.lives();
    s.file("list", "oak\t1\n");
    std::thread::sleep(Duration::from_millis(20));
    let before = monotonic_usec();
    server.signal(Signal::HUP);
    let reloading = manager.other();
    assert_eq!(reloading[0], "RELOADING=1");
    let time = reloading[1].strip_prefix("MONOTONIC_USEC=").unwrap();
    let time: u64 = time.parse().unwrap();
    assert!((before..=monotonic_usec()).contains(&time));
    assert_eq!(manager.other(), ready("1 entries, 0 readers"));
    s.run(&["names", "has", "--live", "map", "elm"]).code(1);
    // A reload that fails ends as well, and says why.
    std::fs::remove_file(s.path("list")).unwrap();
    server.signal(Signal::HUP);
    assert_eq!(manager.other()[0], "RELOADING=1");
    let said = manager.other();
    assert_eq!(said[0], "READY=1");
    assert!(said[1].starts_with("STATUS=cannot read list: "), "{said:?}");
    manager.lives();
    server.signal(Signal::TERM);
    assert_eq!(manager.other(), ["STOPPING=1"]);
    assert_eq!(server.ends(), Some(0));
}

/// The clock that the service manager compares with.
fn monotonic_usec() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

#[test]
fn a_command_that_stands_still_shows_no_life() {
    let s = Scratch::new();
    s.file("list", "oak\t1\n");
    let manager = Manager::new(&s);
    let args = ["names", "serve", "list", "--live", "map"];
    let command = Manager::command(&s, &args, Some(Duration::from_millis(300)));
    let server = Server::of(command);
    assert_eq!(manager.message()[0], "READY=1");
    manager.lives();
    server.signal(Signal::STOP);
    std::thread::sleep(Duration::from_millis(200));
    manager.forget();
    manager.0.set_nonblocking(true).unwrap();
    let mut bytes = [0; 100];
    std::thread::sleep(Duration::from_millis(500));
    assert!(
        manager.0.recv(&mut bytes).is_err(),
        "who stands still shows no life"
    );
    manager.0.set_nonblocking(false).unwrap();
    server.signal(Signal::CONT);
    manager.lives();
}

#[test]
fn without_a_service_manager_nothing_is_said() {
    let s = Scratch::new();
    s.file("list", "oak\t1\n");
    let manager = Manager::new(&s);
    // Without a watchdog there is no sign of life.
    let args = ["ranges", "serve", "list", "--live", "map"];
    s.file("list", "1 5 one\n");
    let mut server = Server::of(Manager::command(&s, &args, None));
    assert_eq!(
        manager.message(),
        ["READY=1", "STATUS=1 entries, 0 readers"]
    );
    server.answers("quit\n", &[]);
    assert_eq!(manager.message(), ["STOPPING=1"]);
    assert_eq!(server.ends(), Some(0));
    // A socket that is gone is no error of the command.
    std::fs::remove_file(s.path("notify")).unwrap();
    let mut server = Server::of(Manager::command(
        &s,
        &args,
        Some(Duration::from_millis(100)),
    ));
    server.complains(", live");
    server.answers("stats\n", &["entries\t1"]);
}

#[test]
fn a_service_needs_no_capabilities() {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root has capabilities to lose");
        return;
    }
    for (kind, list, ask, asked, answer, change) in [
        ("names", "oak\t1\n", "get", "oak\n", "oak\t1", "add elm 2\n"),
        (
            "routes",
            "10.0.0.0/8 a\n",
            "lookup",
            "10.0.0.1\n",
            "10.0.0.1\t10.0.0.0/8\ta",
            "add ::/0 b\n",
        ),
        (
            "ranges",
            "1 5 one\n",
            "get",
            "3\n",
            "1\t5\tone",
            "add 7 9 two\n",
        ),
    ] {
        let s = Scratch::new();
        s.file("list", list);
        let mode = |path: &str, mode| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(s.path(path), mode).unwrap();
        };
        mode(".", 0o755);
        // As the unit does when READERS is 1777: processes of other users are readers.
        let unit = format!("sapwood-{kind}@.service");
        for folder in crate::operations::folders_of_readers(&unit) {
            std::fs::create_dir_all(s.path("map").join(&folder)).unwrap();
            mode(&format!("map/{folder}"), 0o1777);
        }
        let mut command = Command::new("setpriv");
        command
            .args(["--bounding-set", "-all", "--no-new-privs", PROGRAM])
            .args([kind, "serve", "list", "--live", "map"])
            .current_dir(s.path("."))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut server = Server::of(command);
        server.complains(", live");
        let mut reader = Command::new(s.copy_of_program());
        reader
            .args([kind, ask, "--live", "map", "-"])
            .current_dir(s.path("."))
            .uid(65534)
            .gid(65534)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut reader = Server::of(reader);
        if kind == "ranges" {
            // This command reads all of its stdin first.
            reader
                .stdin
                .as_mut()
                .unwrap()
                .write_all(asked.as_bytes())
                .unwrap();
            reader.stdin = None;
            let line = reader.out.recv_timeout(LIMIT).unwrap();
            assert!(line.ends_with(answer), "{line}");
        } else {
            reader.answers(asked, &[answer]);
            assert_eq!(figure(&mut server, "readers"), 1);
        }
        server.answers(change, &[]);
        // The server removes the file of a reader of another user that was killed.
        reader.child.kill().unwrap();
        reader.ends();
        wait_for("the reader's end", || figure(&mut server, "readers") == 0);
        let left = std::fs::read_dir(s.path("map/readers")).unwrap().count();
        assert_eq!(left, 0, "{kind}");
        server.answers("quit\n", &[]);
        assert_eq!(server.ends(), Some(0), "{kind}");
    }
}
