//! Network namespaces with veth pairs between them, for programs on real packets. The end of a test
//! removes them, also after a panic. The next test removes those of a killed test.
//!
//! ```ignore
//! let Some([client, server]) = Netns::some(["client", "server"]) else { return };
//! Netns::veth((&client, "c0", &["10.9.0.1/24"]), (&server, "s0", &["10.9.0.2/24"]));
//! let out = client.run(&["ping", "-c1", "-W1", "10.9.0.2"]);
//! assert!(out.status.success());
//! let socket = server.inside(|| std::net::UdpSocket::bind("10.9.0.2:53").unwrap());
//! ```

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The default time limit of a command.
const LIMIT: Duration = Duration::from_secs(20);

/// The directory in which `ip netns` keeps its namespaces.
const RUN: &str = "/run/netns";

/// A network namespace of this test.
pub struct Netns {
    name: String,
    pid: u32,
}

impl Netns {
    /// Makes `N` namespaces, or prints "skipped: …" and returns `None` when the system does not
    /// allow them. The tags are parts of their names, for people who watch a test.
    pub fn some<const N: usize>(tags: [&str; N]) -> Option<[Netns; N]> {
        let mut all = Vec::new();
        for tag in tags {
            match Netns::new(tag) {
                Ok(one) => all.push(one),
                Err(why) => {
                    assert!(std::env::var_os("SAPWOOD_BPF_MUST_RUN").is_none(), "{why}");
                    println!("skipped: {why}");
                    return None;
                }
            }
        }
        all.try_into().ok()
    }

    /// Makes a namespace with its loopback up, or returns the reason why the system does not allow
    /// it.
    pub fn new(tag: &str) -> Result<Netns, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        if number == 0 {
            sweep();
        }
        let pid = std::process::id();
        let name = format!("sw-{pid}-{number}-{tag}");
        let made = bounded(Command::new("ip").args(["netns", "add", &name]), LIMIT)
            .map_err(|error| format!("no network namespaces: ip: {error}"))?;
        if !made.status.success() {
            let said = String::from_utf8_lossy(&made.stderr);
            return Err(format!("no network namespaces: {}", said.trim()));
        }
        let namespace = Netns { name, pid };
        namespace.ip(&["link", "set", "lo", "up"]);
        Ok(namespace)
    }

    /// The namespace's name, for `ip netns`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The namespace's file.
    pub fn path(&self) -> PathBuf {
        Path::new(RUN).join(&self.name)
    }

    /// A cable between two namespaces: for each end its namespace, the name of the interface, and
    /// addresses such as "10.9.0.1/24" or "fd00::1/64". Both ends are up, and addresses usable at
    /// once, when this returns.
    pub fn veth(a: (&Netns, &str, &[&str]), b: (&Netns, &str, &[&str])) {
        a.0.ip(&[
            "link", "add", "name", a.1, "type", "veth", "peer", "name", b.1, "netns", &b.0.name,
        ]);
        for (namespace, interface, addresses) in [a, b] {
            for address in addresses {
                // Without "nodad" an IPv6 address is tentative for a second or two.
                let nodad: &[&str] = if address.contains(':') {
                    &["nodad"]
                } else {
                    &[]
                };
                namespace.ip(&[&["addr", "add", address, "dev", interface], nodad].concat());
            }
        }
        for (namespace, interface, _) in [a, b] {
            namespace.ip(&["link", "set", interface, "up"]);
        }
        for (namespace, interface, _) in [a, b] {
            namespace.wait_until_up(interface);
        }
    }

    fn wait_until_up(&self, interface: &str) {
        let begin = Instant::now();
        loop {
            let shown = self.ip(&["-o", "link", "show", "dev", interface]);
            if shown.contains("LOWER_UP") && shown.contains("state UP") {
                return;
            }
            assert!(begin.elapsed() < LIMIT, "{interface} stays down: {shown}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Runs `ip` with these arguments in the namespace, and returns its output. The test fails when
    /// `ip` fails.
    #[track_caller]
    pub fn ip(&self, args: &[&str]) -> String {
        let mut command = Command::new("ip");
        command.args(["-n", &self.name]).args(args);
        let output = bounded(&mut command, LIMIT).unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "ip -n {} {args:?}: {said}",
            self.name
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The command that runs a program in the namespace.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).args(args);
        command
    }

    /// Runs a program in the namespace and waits for its end, 20 seconds at most.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Output {
        self.run_for(args, LIMIT)
    }

    /// As [`run`](Self::run), with another limit; a program that takes longer is killed, and the
    /// test fails.
    #[track_caller]
    pub fn run_for(&self, args: &[&str], limit: Duration) -> Output {
        bounded(&mut self.command(args), limit)
            .unwrap_or_else(|error| panic!("{} {args:?}: {error}", self.name))
    }

    /// Starts a program in the namespace. The drop of the result kills it.
    #[track_caller]
    pub fn start(&self, args: &[&str]) -> Running {
        Running::start(&mut self.command(args))
            .unwrap_or_else(|error| panic!("{} {args:?}: {error}", self.name))
    }

    /// Calls `f` on a thread in the namespace. Sockets that `f` makes belong to the namespace,
    /// wherever they are used.
    pub fn inside<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        let file = File::open(self.path()).unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                rustix::thread::move_into_link_name_space(file.as_fd(), None).unwrap();
                f()
            });
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// The number of an interface in the namespace.
    pub fn index(&self, interface: &str) -> u32 {
        let shown = self.ip(&["-o", "link", "show", "dev", interface]);
        let number = shown
            .split(':')
            .next()
            .and_then(|number| number.parse().ok());
        number.unwrap_or_else(|| panic!("no number in {shown}"))
    }

    /// The hardware address of an interface in the namespace.
    pub fn mac(&self, interface: &str) -> [u8; 6] {
        let shown = self.ip(&["-o", "link", "show", "dev", interface]);
        let mut words = shown.split_whitespace();
        let text = words.find(|&word| word == "link/ether").and(words.next());
        let bytes = text.unwrap_or_default().split(':');
        let bytes: Vec<u8> = bytes
            .filter_map(|byte| u8::from_str_radix(byte, 16).ok())
            .collect();
        bytes
            .try_into()
            .unwrap_or_else(|_| panic!("no hardware address in {shown}"))
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        // A forked process has copies of this process's values, which must remove nothing.
        if self.pid == std::process::id() {
            remove(&self.name);
        }
    }
}

fn remove(name: &str) {
    // Interfaces go with the namespace, and a cable with either of its ends.
    let _ = bounded(Command::new("ip").args(["netns", "del", name]), LIMIT);
}

/// Removes namespaces of tests that were killed.
fn sweep() {
    let Ok(entries) = std::fs::read_dir(RUN) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name
            .strip_prefix("sw-")
            .and_then(|rest| rest.split('-').next());
        let pid = pid.and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            remove(&name);
        }
    }
}

/// A running program. The drop kills it.
pub struct Running {
    child: Child,
    readers: Vec<JoinHandle<Vec<u8>>>,
}

impl Running {
    /// Starts a program and collects its output. Its standard input is empty, unless the command
    /// sets another.
    pub fn start(command: &mut Command) -> std::io::Result<Running> {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let readers = vec![
            collect(child.stdout.take().unwrap()),
            collect(child.stderr.take().unwrap()),
        ];
        Ok(Running { child, readers })
    }

    /// The process's number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The child, to write to it and to ask for its state.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Waits for the program's end; `None` when it has not ended within the limit.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let begin = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(status);
            }
            if begin.elapsed() > limit {
                return None;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }

    /// Waits for the program's end, and returns its output. A program that takes longer is killed,
    /// which is an error.
    pub fn end(mut self, limit: Duration) -> std::io::Result<Output> {
        let status = self.wait(limit);
        self.kill();
        let mut printed = std::mem::take(&mut self.readers)
            .into_iter()
            .map(|reader| reader.join().unwrap());
        let (stdout, stderr) = (printed.next().unwrap(), printed.next().unwrap());
        match status {
            Some(status) => Ok(Output {
                status,
                stdout,
                stderr,
            }),
            None => Err(std::io::Error::other(format!(
                "has not ended after {limit:?}; it said: {}{}",
                String::from_utf8_lossy(&stdout),
                String::from_utf8_lossy(&stderr)
            ))),
        }
    }

    /// Kills the program, if it has not ended.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

fn collect(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        let _ = from.read_to_end(&mut all);
        all
    })
}

/// Runs a command to its end, or kills it at the limit.
pub fn bounded(command: &mut Command, limit: Duration) -> std::io::Result<Output> {
    Running::start(command.stdin(Stdio::null()))?.end(limit)
}
