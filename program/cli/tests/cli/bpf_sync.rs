//! `sync follow --xdp`: names that follow into a filter in the kernel.

use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::bpf::Lab;
use crate::common::{PROGRAM, Scratch};
use crate::server::{LIMIT, Server, wait_for};

/// A directory for pins that does not exist, and goes with the value.
struct Pins(String);

impl Pins {
    fn new(what: &str) -> Pins {
        Pins(format!("/sys/fs/bpf/sapwood-{what}-{}", std::process::id()))
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        let _ = Command::new(PROGRAM)
            .args(["bpf", "names", "unload", &self.0])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

/// Starts a publisher of domain names.
fn publish(s: &Scratch) -> Server {
    let args = [
        "sync", "publish", "names", "--dns", "--values", "text", "list",
    ];
    let server = Server::spawn(
        s,
        &[&args, &["--map", "blocked", "--folder", "log"][..]].concat(),
    );
    server.complains(" in term ");
    server
}

fn follow(lab: &Lab, s: &Scratch, more: &[&str]) -> Server {
    let args = [
        "sync", "follow", "--map", "blocked", "--folder", "log", "--xdp", "s0",
    ];
    lab.serve(s, &[&args, more].concat())
}

#[test]
fn commits_stream_and_no_name_is_missed() {
    let Some(lab) = Lab::new() else { return };
    let s = Scratch::new();
    s.file("list", "stays.test\tblock\ngood.stays.test\tallow\n");
    let mut leader = publish(&s);
    let mut follower = follow(&lab, &s, &[]);
    let restored = follower.out.recv_timeout(LIMIT).unwrap();
    assert_eq!(restored, "restored\t1\t2");
    let names = ["www.stays.test", "good.stays.test", "stays.test"];
    assert_eq!(lab.arrive(&names), [false, true, false]);
    let mut commands = String::new();
    for i in 0..300 {
        commands += &format!("begin\nadd n{i}.test block\nadd m{i}.test block\n");
        if i > 2 {
            commands += &format!("remove n{}.test\n", i - 3);
        }
        commands += "commit\n";
    }
    leader.answers(&commands, &[]);
    let mut rounds = 0;
    loop {
        // Whatever is being committed, the answers for what stays are the same.
        assert_eq!(lab.arrive(&names), [false, true, false], "round {rounds}");
        rounds += 1;
        if follower
            .out
            .try_iter()
            .any(|line| line.starts_with("commit\t301\t"))
        {
            break;
        }
        assert!(rounds < 100_000);
    }
    assert!(rounds > 10, "{rounds} rounds");
    assert_eq!(
        lab.arrive(&["a.n299.test", "m0.test", "n0.test"]),
        [false, false, true]
    );
    follower.signal(Signal::TERM);
    assert_eq!(follower.ends(), Some(0));
    // Without a pin, the filter goes with its follower.
    assert_eq!(lab.arrive(&["stays.test"]), [true]);
}

#[test]
fn a_pinned_filter_outlives_its_follower() {
    let Some(lab) = Lab::new() else { return };
    let s = Scratch::new();
    s.file("list", "ads.test\tblock\n");
    let mut leader = publish(&s);
    let pins = Pins::new("sync");
    let mut follower = follow(&lab, &s, &["--pin", &pins.0]);
    wait_for("the filter", || lab.arrive(&["ads.test"]) == [false]);
    follower.child.kill().unwrap();
    follower.child.wait().unwrap();
    assert_eq!(lab.arrive(&["ads.test", "new.test"]), [false, true]);
    leader.answers(
        "add new.test block\nadd good.ads.test allow\nadd *.wild.test block\n",
        &[
            "added\tnew.test",
            "added\tgood.ads.test",
            "added\t*.wild.test",
        ],
    );
    assert_eq!(lab.arrive(&["ads.test", "new.test"]), [false, true]);
    let mut follower = follow(&lab, &s, &["--pin", &pins.0]);
    wait_for("the heir", || {
        let came = lab.arrive(&["ads.test", "new.test", "good.ads.test"]);
        assert!(!came[0], "a name that stays was missed");
        came == [false, false, true]
    });
    wait_for("the wildcard", || {
        lab.arrive(&["wild.test", "a.b.wild.test"]) == [true, false]
    });
    follower.signal(Signal::TERM);
    assert_eq!(follower.ends(), Some(0));
    assert_eq!(lab.arrive(&["ads.test", "new.test"]), [false, false]);

    // With --remove it is detached.
    let mut follower = follow(&lab, &s, &["--pin", &pins.0, "--remove"]);
    assert!(
        follower
            .out
            .recv_timeout(LIMIT)
            .unwrap()
            .starts_with("restored\t")
    );
    follower.signal(Signal::TERM);
    assert_eq!(follower.ends(), Some(0));
    assert_eq!(lab.arrive(&["ads.test"]), [true]);
    assert!(!std::path::Path::new(&pins.0).exists());
}

#[test]
fn what_a_filter_cannot_have_is_said() {
    let Some(lab) = Lab::new() else { return };
    let s = Scratch::new();
    s.file("list", "ads.test\tblock\nbad.test\tperhaps\n");
    let mut leader = publish(&s);
    let follower = follow(&lab, &s, &[]);
    let line = follower.out.recv_timeout(LIMIT).unwrap();
    assert!(
        line.starts_with("trouble\t") && line.contains("neither block nor allow"),
        "{line}"
    );
    leader.answers("add bad.test allow\n", &["replaced\tbad.test"]);
    wait_for("the filter", || {
        lab.arrive(&["ads.test", "bad.test"]) == [false, true]
    });
    let args = [
        "sync", "follow", "--map", "blocked", "--folder", "log", "--xdp", "none0",
    ];
    lab.run(&s, &args).code(2).complains("none0");
}
