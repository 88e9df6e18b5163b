//! `sapwood bpf`: filters of DNS queries on interfaces, pinned arenas, exit codes.

use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::common::{PROGRAM, Ran, Scratch};
use crate::netns::Netns;
use sapwood_bpf::{BpfArena, Pinned, UserPointMap};
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(20);

/// Whether the kernel part cannot be tested here; prints the reason.
pub fn skipped() -> bool {
    match sapwood_bpf::check() {
        Ok(()) => false,
        Err(why) => {
            assert!(std::env::var_os("SAPWOOD_BPF_MUST_RUN").is_none(), "{why}");
            println!("skipped: {why}");
            true
        }
    }
}

/// A client and a server in namespaces of their own, and a veth pair between them.
pub struct Lab {
    /// The namespace of the server.
    pub behind: Netns,
    server: UdpSocket,
    client: UdpSocket,
    _before: Netns,
}

impl Lab {
    /// Makes them; `None` where the test cannot run.
    pub fn new() -> Option<Lab> {
        if skipped() {
            return None;
        }
        let [before, behind] = Netns::some(["before", "behind"])?;
        Netns::veth(
            (&before, "c0", &["10.55.0.1/24"]),
            (&behind, "s0", &["10.55.0.2/24"]),
        );
        let server = behind.inside(|| UdpSocket::bind("10.55.0.2:53").unwrap());
        let client = before.inside(|| UdpSocket::bind("10.55.0.1:0").unwrap());
        server.set_read_timeout(Some(LIMIT)).unwrap();
        client.connect("10.55.0.2:53").unwrap();
        Some(Lab {
            behind,
            server,
            client,
            _before: before,
        })
    }

    /// Whether a query for each of these names arrives.
    #[track_caller]
    pub fn arrive(&self, names: &[&str]) -> Vec<bool> {
        let query = |name: &str| {
            let mut query = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
            for label in name.split('.') {
                query.push(label.len() as u8);
                query.extend(label.as_bytes());
            }
            query.extend([0, 0, 1, 0, 1]);
            query
        };
        for name in names.iter().chain(&["last"]) {
            self.client.send(&query(name)).unwrap();
        }
        let mut came = Vec::new();
        let mut buffer = [0; 600];
        while came.last() != Some(&query("last")) {
            let bytes = self.server.recv(&mut buffer).unwrap();
            came.push(buffer[..bytes].to_vec());
        }
        names
            .iter()
            .map(|name| came.contains(&query(name)))
            .collect()
    }

    /// Starts the program in the namespace of the server.
    fn spawn(&self, scratch: &Scratch, args: &[&str]) -> Child {
        self.behind.inside(|| {
            Command::new(PROGRAM)
                .args(args)
                .current_dir(scratch.path("."))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
    }

    /// Starts the program in the namespace of the server, with lines of its output.
    pub fn serve(&self, scratch: &Scratch, args: &[&str]) -> crate::server::Server {
        self.behind
            .inside(|| crate::server::Server::spawn(scratch, args))
    }

    /// Runs the program in the namespace of the server to its end.
    pub fn run(&self, scratch: &Scratch, args: &[&str]) -> Ran {
        Ran(self.spawn(scratch, args).wait_with_output().unwrap())
    }
}

/// A running program with its commands and answers. Dropping this kills it.
struct Session {
    child: Child,
    lines: Receiver<String>,
}

impl Session {
    fn new(mut child: Child) -> Session {
        let (send, lines) = channel();
        let out = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        Session { child, lines }
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(LIMIT).unwrap()
    }

    /// Sends a command; returns its answer.
    fn tell(&mut self, command: &str) -> String {
        writeln!(self.child.stdin.as_mut().unwrap(), "{command}").unwrap();
        self.line()
    }

    /// Closes stdin; returns the remaining lines until the program ends.
    fn rest(mut self) -> Vec<String> {
        drop(self.child.stdin.take());
        let rest = self.lines.iter().collect();
        assert!(self.child.wait().unwrap().success());
        rest
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A directory for pins, removed with the pins when dropped.
pub struct Pins(pub PathBuf);

impl Pins {
    /// A directory of this name that does not exist yet; `None` where the test cannot run.
    pub fn new(name: &str) -> Option<Pins> {
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
        if !mounts.contains(" /sys/fs/bpf bpf ") {
            assert!(
                std::env::var_os("SAPWOOD_BPF_MUST_RUN").is_none(),
                "/sys/fs/bpf"
            );
            println!("skipped: no BPF file system under /sys/fs/bpf");
            return None;
        }
        let pid = std::process::id();
        Some(Pins(format!("/sys/fs/bpf/sw-cli-{pid}-{name}").into()))
    }

    /// Its path.
    pub fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const LIST: &str = "# Two lists in one.
ads.example
!good.ads.example   # an exception
0.0.0.0 one.test two.test\r
a..b
";

#[test]
fn bpf_help_and_errors() {
    let s = Scratch::new();
    s.run(&["bpf", "--help"]).code(0).says("names").says("dump");
    s.run(&["bpf", "names", "run", "--help"])
        .code(0)
        .says("as in a hosts file")
        .says("block NAME");
    s.run(&["man", "bpf", "names", "load"]).code(0).says(".TH");
    s.run(&["bpf", "names", "run", "list"])
        .code(2)
        .complains("--interface");
    if skipped() {
        s.run(&["bpf", "list"]).code(2);
        return;
    }
    s.file("list", LIST);
    s.run(&["bpf", "names", "run", "list", "-i", "none-such-0"])
        .code(2)
        .complains("sapwood: network interface none-such-0: No such device");
    s.run(&["bpf", "names", "run", "list", "-i", "lo", "--strict"])
        .code(2)
        .complains("list: line 5: \"a..b\" is not a domain name: empty label at byte 2");
    s.run(&["bpf", "names", "run", "absent", "-i", "lo"])
        .code(2)
        .complains("cannot read absent");
    s.run(&["bpf", "names", "run", "list", "-i", "lo", "--bytes", "8G"])
        .code(2)
        .complains("8 KiB to 4 GiB");
    s.run(&["bpf", "names", "stats", "/sys/fs/bpf/none-such"])
        .code(2)
        .complains("/sys/fs/bpf/none-such/counts");
    s.run(&["bpf", "dump", "/sys/fs/bpf/none-such", "x"])
        .code(2)
        .complains("opening /sys/fs/bpf/none-such");
    s.run(&["bpf", "list", "none-such"]).code(2);
    // Other users get an error, if they may run the program at all.
    let other = Command::new(PROGRAM)
        .args(["bpf", "list"])
        .uid(65534)
        .output();
    if let Ok(output) = other {
        Ran(output).code(2).complains("this process lacks CAP_BPF");
    }
}

#[test]
fn bpf_names_run() {
    let Some(lab) = Lab::new() else { return };
    let s = Scratch::new();
    s.file("list", LIST);
    let asked = ["ads.example", "x.GOOD.ads.example", "a.two.test", "org"];
    let mut run = Session::new(lab.spawn(&s, &["bpf", "names", "run", "list", "-i", "s0"]));
    // The program answers once the filter is attached.
    assert_eq!(
        run.tell("rule www.ads.example"),
        "block\twww.ads.example\tads.example"
    );
    assert_eq!(lab.arrive(&asked), [false, true, false, true]);
    assert_eq!(run.tell("block org"), "blocked\torg");
    assert_eq!(run.tell("free two.test"), "freed\ttwo.test");
    assert_eq!(run.tell("free two.test"), "absent\ttwo.test");
    assert_eq!(run.tell("rule two.test"), "none\ttwo.test\t");
    assert_eq!(lab.arrive(&asked), [false, true, true, false]);
    assert_eq!(run.tell("allow org"), "allowed\torg");
    // Bad commands are reported, and the program goes on.
    writeln!(run.child.stdin.as_mut().unwrap(), "block a..b\nnonsense\n").unwrap();
    assert_eq!(run.tell("rule org"), "allow\torg\torg");
    assert_eq!(lab.arrive(&asked), [false, true, true, true]);
    let counters = sapwood_xdp::NamesVerdict::ALL.len();
    let stats: Vec<_> = std::iter::once(run.tell("stats"))
        .chain((0..counters).map(|_| run.line()))
        .collect();
    assert_eq!(stats[..2], ["dropped\t5", "passed\t10"]);
    assert!(stats[counters].starts_with("packets\t"));
    let rest = run.rest();
    assert_eq!(rest.len(), counters + 1);
    assert_eq!(rest[0], "dropped\t5");
    // The filter is detached from the interface.
    assert_eq!(lab.arrive(&asked), [true; 4]);
}

/// The rules of a map of lists, with their precedence: exceptions come before longer blocks.
#[test]
fn bpf_names_take_a_map_of_lists() {
    let Some(lab) = Lab::new() else { return };
    let s = Scratch::new();
    s.file(
        "ads",
        "||ads.example^\n||a.good.ads.example^\n@@||good.ads.example^\n*.below.test\n\
         ||typed.test^$dnstype=AAAA\n||renamed.test^$dnsrewrite=192.0.2.1\n",
    );
    s.file("zone", "local-zone: \"dropped.test\" deny\n");
    s.file(
        "rpz",
        "$ORIGIN rpz.\n@ 60 SOA a. b. 1 2 3 4 5\ntcp.test CNAME rpz-tcp-only.\n",
    );
    s.run(&["lists", "build", "ads", "zone", "rpz", "-o", "map"])
        .code(0);
    let mut run = Session::new(lab.spawn(&s, &["bpf", "names", "run", "map", "-i", "s0"]));
    assert_eq!(
        run.tell("rule www.ads.example"),
        "block\twww.ads.example\tads.example"
    );
    let asked = [
        ("ads.example", false),
        ("a.good.ads.example", true),
        ("bad.ads.example", false),
        ("below.test", true),
        ("x.below.test", false),
        ("x.dropped.test", false),
        ("tcp.test", false),
        ("x.tcp.test", true),
        // The resolver knows the type and the answer.
        ("typed.test", true),
        ("renamed.test", true),
        ("org", true),
    ];
    assert_eq!(
        lab.arrive(&asked.map(|(name, _)| name)),
        asked.map(|it| it.1)
    );
    run.rest();
    // Another saved map has no rules.
    s.file("names", "ads.example\t1\n");
    s.run(&["names", "build", "--dns", "names", "-o", "other"])
        .code(0);
    let ran = lab.run(&s, &["bpf", "names", "run", "other", "-i", "s0"]);
    ran.code(2).complains("map of rules");
}

/// A filter follows the live map of lists. While the lists are read again, no name that stays is
/// missed; while there is no map, the rules stay.
#[test]
fn bpf_names_follow_a_live_map_of_lists() {
    let Some(lab) = Lab::new() else { return };
    let s = Scratch::new();
    let list = |round: usize| {
        let many: String = (0..3000)
            .filter(|i| i % 5 != round % 5)
            .map(|i| format!("||n{i}.stays.test^\n"))
            .collect();
        s.file(
            "new",
            format!("{many}||ads.example^\n||round{round}.test^\n"),
        );
        std::fs::rename(s.path("new"), s.path("ads")).unwrap();
    };
    list(0);
    s.file(
        "zone",
        "$ORIGIN rpz.\n@ 60 SOA a. b. 1 2 3 4 5\ntcp.example CNAME rpz-tcp-only.\n",
    );
    let serve = ["lists", "serve", "ads", "zone", "--live", "map", "--watch"];
    let serve = [&serve[..], &["--remove", "--allow-shrunk"]].concat();
    let mut lists = crate::server::Server::start(&s, &serve);
    let names = "bpf names run map --live -i s0 --bytes 64M";
    let names: Vec<&str> = names.split(' ').collect();
    let mut run = lab.serve(&s, &names);
    run.complains("2403 names");
    let tell = |run: &mut crate::server::Server, command: &str| -> String {
        writeln!(run.stdin.as_mut().unwrap(), "{command}").unwrap();
        run.out.recv_timeout(LIMIT).unwrap()
    };
    assert_eq!(
        tell(&mut run, "rule tcp.example"),
        "truncate\ttcp.example\ttcp.example"
    );
    for round in 1..=10 {
        list(round);
        let wanted = format!("block\tround{round}.test\tround{round}.test");
        let mut tries = 0;
        loop {
            let asked = ["www.ads.example", "ads.example", "org"];
            assert_eq!(lab.arrive(&asked), [false, false, true]);
            if tell(&mut run, &format!("rule round{round}.test")) == wanted {
                break;
            }
            tries += 1;
            assert!(tries < 2000, "the lists are not followed");
            std::thread::sleep(Duration::from_millis(10));
        }
        // All of the change came with it.
        let gone = format!("n{round}.stays.test");
        let there = format!("n{}.stays.test", round + 1);
        let before = format!("round{}.test", round - 1);
        let asked = [&*gone, &there, &before];
        assert_eq!(lab.arrive(&asked), [true, false, true], "{round}");
    }
    writeln!(run.stdin.as_mut().unwrap(), "block other.example").unwrap();
    run.complains("rules come from the live map");
    // Without the map the rules stay; another one in its place is followed.
    writeln!(lists.stdin.as_mut().unwrap(), "quit").unwrap();
    run.complains("the rules stay as they are");
    assert!(!s.path("map").exists());
    assert_eq!(lab.arrive(&["ads.example", "org"]), [false, true]);
    s.file("ads", "||second.example^\n");
    let lists = crate::server::Server::start(&s, &serve);
    run.complains("the rules can be read again");
    assert_eq!(
        lab.arrive(&["ads.example", "second.example"]),
        [true, false]
    );
    drop((run, lists));
    assert_eq!(lab.arrive(&["second.example"]), [true]);
    // A directory without such a map.
    std::fs::create_dir(s.path("empty")).unwrap();
    let ran = lab.run(&s, &["bpf", "names", "run", "empty", "--live", "-i", "s0"]);
    ran.code(2).complains("empty");
}

#[test]
fn bpf_names_run_ends_by_a_signal() {
    let Some(lab) = Lab::new() else { return };
    let s = Scratch::new();
    s.file("list", "ads.example\n");
    let args = [
        "bpf",
        "names",
        "run",
        "list",
        "-i",
        "s0",
        "--generic",
        "--no-commands",
        "--json",
    ];
    let mut child = lab.spawn(&s, &args);
    let mut begun = String::new();
    BufReader::new(child.stderr.take().unwrap())
        .read_line(&mut begun)
        .unwrap();
    assert_eq!(begun, "sapwood: s0: 1 names, generic mode\n");
    assert_eq!(lab.arrive(&["ads.example", "org"]), [false, true]);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let ran = Ran(child.wait_with_output().unwrap());
    let documents = ran.code(0).documents();
    assert_eq!(documents[0]["dropped"], json!(1));
    assert_eq!(documents[0]["passed"], json!(2));
    assert_eq!(documents[0]["error"], json!(0));
    assert_eq!(lab.arrive(&["ads.example"]), [true]);
}

/// The arguments that load a filter on an interface and pin it.
fn load(pins: &Pins) -> [&str; 10] {
    let head = "bpf names load list -i s0 --bytes 64M --pin";
    let mut words = head.split(' ').chain([pins.text()]);
    std::array::from_fn(|_| words.next().unwrap())
}

#[test]
fn bpf_names_stay_when_they_are_pinned() {
    let Some(lab) = Lab::new() else { return };
    let Some(pins) = Pins::new("stay") else {
        return;
    };
    let s = Scratch::new();
    s.file("list", LIST);
    let load = load(&pins);
    lab.run(&s, &load)
        .code(0)
        .out("")
        .complains("list: line 5: \"a..b\" is not a domain name: empty label at byte 2; left out")
        .complains("s0: 4 names, native mode");
    let asked = ["ads.example", "good.ads.example", "one.test", "org"];
    assert_eq!(lab.arrive(&asked), [false, true, false, true]);
    // A second filter fits neither the directory nor the interface.
    lab.run(&s, &load).code(2);
    let other = format!("{}-other", pins.text());
    let load = ["bpf", "names", "load", "list", "-i", "s0", "--pin", &other];
    lab.run(&s, &load).code(2).complains("busy");
    assert!(!PathBuf::from(&other).exists());
    assert_eq!(lab.arrive(&asked), [false, true, false, true]);
    let ran = s.run(&["bpf", "names", "stats", pins.text(), "--json"]);
    let documents = ran.code(0).documents();
    assert_eq!(documents[0]["dropped"], json!(4));
    assert_eq!(documents[0]["passed"], json!(6));
    let arena = format!("{}/arena", pins.text());
    // Programs make long keys in a window of one page; the list has the rest.
    let bytes = (64 << 20) - 2 * 4096;
    s.run(&["bpf", "list", pins.text()]).code(0).out(format!(
        "{arena}\t0\tblocked/keys\twords\t4096\n{arena}\t1\tblocked\tqp\t{bytes}\n"
    ));
    let ran = s.run(&["bpf", "list", "--json"]);
    let documents = ran.code(0).documents();
    let ours = documents.iter().find(|one| one["arena"] == json!(arena));
    assert_eq!(ours.unwrap()["windows"][1]["name"], json!("blocked"));
    s.run(&["bpf", "dump", &arena, "blocked", "--dns"])
        .code(0)
        .out("ads.example\t1\ngood.ads.example\t0\none.test\t1\ntwo.test\t1\n");
    s.run(&[
        "bpf", "dump", &arena, "blocked", "--dns", "--prefix", "test", "-n1", "--json",
    ])
    .code(0)
    .out("{\"key\":\"one.test\",\"value\":1}\n");
    s.run(&["bpf", "dump", &arena, "other"])
        .code(2)
        .complains("it has \"blocked/keys\" (words), \"blocked\" (qp)");
    s.run(&["bpf", "verify", &arena, "blocked"])
        .code(0)
        .out("blocked: 4 entries, sound\n");
    // The owner has ended, so other processes may change the list, one after the other.
    let change = |what: &str, names: &[&str]| {
        s.run_with(
            &[&["bpf", "names", what, pins.text()], names].concat(),
            b"org\n\nnet\n",
        )
    };
    change("block", &["mil", "-"])
        .code(0)
        .out("blocked\tmil\nblocked\torg\nblocked\tnet\n")
        .quiet();
    change("free", &["one.test", "three.test"])
        .code(1)
        .out("freed\tone.test\nabsent\tthree.test\n");
    change("allow", &["www.ads.example", "--json"])
        .code(0)
        .out("{\"done\":\"allowed\",\"name\":\"www.ads.example\"}\n");
    change("block", &["a..b"])
        .code(2)
        .complains("empty label at byte 2");
    change("rule", &["a.www.ads.example", "ads.example", "one.test", "x.org"])
        .code(0)
        .out("allow\ta.www.ads.example\twww.ads.example\nblock\tads.example\tads.example\nnone\tone.test\t\nblock\tx.org\torg\n");
    assert_eq!(lab.arrive(&asked), [false, true, true, false]);
    assert_eq!(lab.arrive(&["www.ads.example", "net"]), [true, false]);
    s.run(&["bpf", "verify", &arena, "blocked"])
        .code(0)
        .out("blocked: 7 entries, sound\n");
    // A bad name is left out; with --strict, nothing is changed.
    let text = "||x.example^\nb\u{fc}cher.example # note\n*.wild.example\n".as_bytes();
    let batch = |args: &[&str]| {
        let args = [&["bpf", "names", args[0], pins.text(), "-"], &args[1..]].concat();
        s.run_with(&args, text)
    };
    batch(&["block", "--strict"])
        .code(2)
        .out("")
        .complains("standard input: line 1: \"||x.example^\" is not a domain name");
    batch(&["block"])
        .code(2)
        .out("blocked\txn--bcher-kva.example\nblocked\t*.wild.example\n")
        .complains("standard input: line 1: \"||x.example^\" is not a domain name")
        .complains("bad queries: 1 of 3");
    change("rule", &["www.b\u{fc}cher.example", "a b", "net"])
        .code(2)
        .out("block\twww.xn--bcher-kva.example\txn--bcher-kva.example\nblock\tnet\tnet\n")
        .complains("\"a b\" is more than one name");
    change("rule", &["wild.example", "a.b.wild.example"])
        .code(0)
        .out("none\twild.example\t\nblock\ta.b.wild.example\t*.wild.example\n");
    s.run(&["bpf", "verify", &arena, "blocked"])
        .code(0)
        .out("blocked: 9 entries, sound\n");
    let wild = ["wild.example", "a.b.wild.example", "xwild.example"];
    assert_eq!(lab.arrive(&wild), [true, false, true]);
    // The program is detached when the command ends, also while another process holds its link.
    let index = || sapwood_xdp::interface_index("s0").unwrap().to_string();
    let held = Pinned::open(&pins.0).unwrap();
    let held = held.link(&lab.behind.inside(index)).unwrap();
    s.run(&["bpf", "names", "unload", pins.text()])
        .code(0)
        .says("dropped\t8\n");
    assert!(!pins.0.exists());
    assert_eq!(lab.arrive(&asked), [true; 4]);
    drop(held);
    s.run(&["bpf", "names", "unload", pins.text()]).code(2);
}

#[test]
fn bpf_unload_takes_everything_down() {
    let Some(lab) = Lab::new() else { return };
    let Some(pins) = Pins::new("unload") else {
        return;
    };
    let s = Scratch::new();
    s.run(&["bpf", "unload", "--help"])
        .code(0)
        .says("sapwood bpf unload /sys/fs/bpf/names");
    s.run(&["man", "bpf", "unload"]).code(0).says(".TH");
    s.run(&["bpf", "unload", pins.text()])
        .code(2)
        .complains("No such file or directory");
    // The command removes only pins, and only beside an arena of Sapwood.
    s.run(&["bpf", "unload", "."])
        .code(2)
        .complains("not in a BPF file system");
    std::fs::create_dir(&pins.0).unwrap();
    s.run(&["bpf", "unload", pins.text()])
        .code(2)
        .complains("there is no arena in it");
    std::fs::remove_dir(&pins.0).unwrap();
    s.file("list", LIST);
    let load = load(&pins);
    lab.run(&s, &load).code(0);
    assert_eq!(lab.arrive(&["ads.example"]), [false]);
    let inside = pins.0.join("folder");
    std::fs::create_dir(&inside).unwrap();
    s.run(&["bpf", "unload", pins.text()])
        .code(2)
        .complains("it holds \"folder\", which is no pin");
    assert_eq!(lab.arrive(&["ads.example"]), [false], "all is as it was");
    std::fs::remove_dir(&inside).unwrap();
    s.run(&["bpf", "unload", "/sys/fs/bpf"]).code(2);
    assert_eq!(lab.arrive(&["ads.example"]), [false]);
    let number = lab
        .behind
        .inside(|| sapwood_xdp::interface_index("s0"))
        .unwrap();
    s.run(&["bpf", "unload", pins.text()]).code(0).out(format!(
        "link\tlink-{number}\nprogram\tprogram\nmap\tcounts\narena\tarena\n"
    ));
    assert!(!pins.0.exists());
    assert_eq!(lab.arrive(&["ads.example"]), [true]);
    // The program is detached also while another process holds its link.
    lab.run(&s, &load).code(0);
    let held = Pinned::open(&pins.0).unwrap().link(&number.to_string());
    let held = held.unwrap();
    let ran = s.run(&["bpf", "unload", pins.text(), "--json"]);
    let documents = ran.code(0).documents();
    assert_eq!(documents[0]["folder"], json!(pins.text()));
    assert_eq!(documents[0]["gone"][0]["kind"], json!("link"));
    assert_eq!(
        documents[0]["gone"][3],
        json!({ "name": "arena", "kind": "arena" })
    );
    assert_eq!(lab.arrive(&["ads.example"]), [true]);
    drop(held);
}

#[test]
fn a_map_without_order() {
    if skipped() {
        return;
    }
    let Some(pins) = Pins::new("points") else {
        return;
    };
    let s = Scratch::new();
    let pinned = Pinned::create(&pins.0).unwrap();
    let arena = BpfArena::create(1 << 20).unwrap();
    pinned.pin_arena(&arena).unwrap();
    let map = UserPointMap::<u64>::builder(&arena, "points").build();
    let map = map.unwrap();
    for (i, key) in ["one", "two", "three"].into_iter().enumerate() {
        map.insert(key, i as u64 + 1).unwrap();
    }
    let arena = format!("{}/arena", pins.text());
    s.run(&["bpf", "list", pins.text()])
        .code(0)
        .out(format!("{arena}\t0\tpoints\tqp\t{}\n", (1 << 20) - 4096));
    s.run(&["bpf", "dump", &arena, "points", "--prefix", "tw"])
        .code(0)
        .out("two\t2\n");
    let ran = s.run(&["bpf", "dump", &arena, "points", "--json"]);
    let mut documents = ran.code(0).documents();
    documents.sort_by_key(|one| one["value"].as_u64());
    assert_eq!(
        documents,
        [
            json!({ "key": "one", "value": 1 }),
            json!({ "key": "two", "value": 2 }),
            json!({ "key": "three", "value": 3 }),
        ]
    );
    s.run(&["bpf", "verify", &arena, "points"])
        .code(0)
        .out("points: 3 entries, sound\n");
}
