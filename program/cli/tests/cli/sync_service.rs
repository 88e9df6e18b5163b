//! `sync publish` and `sync follow` as services: what they tell the service manager, and what their
//! units leave them.

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use sapwood_sync::{FolderLog, Log, Report};

use crate::common::{PROGRAM, Scratch};
use crate::notify::Manager;
use crate::operations::{allows_what_was_called, arguments_of, end, folders_of_readers, traced};
use crate::server::{Server, wait_for};
use crate::service::{address_in, scrape, value, wait_value};
use crate::sync::{LIST, follow, prints, publish, status};

const PUBLISH: [&str; 8] = [
    "sync", "publish", "names", "list", "--values", "text", "--map", "blocked",
];
const FOLLOW: [&str; 8] = [
    "sync", "follow", "--map", "blocked", "--folder", "log", "--live", "live",
];
/// The time in which the service manager of these tests wants a sign of life.
const WATCHDOG: Option<Duration> = Some(Duration::from_millis(300));

/// A publisher over the log in a directory, under a service manager.
fn publisher(s: &Scratch, more: &[&str]) -> Server {
    let args = [&PUBLISH[..], &["--folder", "log"], more].concat();
    Server::of(Manager::command(s, &args, WATCHDOG))
}

/// Expects three signs of life, among other messages.
#[track_caller]
fn lives(manager: &Manager) {
    for _ in 0..3 {
        manager.told("WATCHDOG=1");
    }
}

#[test]
fn a_publisher_tells_what_it_does() {
    let s = Scratch::new();
    s.file("list", LIST);
    let manager = Manager::new(&s);
    let mut leader = publisher(&s, &[]);
    let leads = |what: &str| format!("STATUS=leads in term 1: {what}");
    assert_eq!(
        manager.message(),
        [
            "READY=1".to_owned(),
            leads("3 names, commit 1, 0 followers")
        ]
    );
    assert_eq!(status(&s).1["commit"], 1);
    lives(&manager);
    leader.answers("add new.example block\n", &["added\tnew.example"]);
    manager.told(&leads("4 names, commit 2"));
    let mut follower = follow(&s, "live", &[]);
    manager.told(&leads("4 names, commit 2, 1 followers"));
    follower.signal(Signal::TERM);
    assert_eq!(follower.ends(), Some(0));
    // A reload: what the list does not say goes.
    leader.signal(Signal::HUP);
    manager.told("RELOADING=1");
    loop {
        let message = manager.other();
        if message[0] == "READY=1" {
            assert!(
                message[1].starts_with(&leads("3 names, commit 3")),
                "{message:?}"
            );
            break;
        }
    }
    leader.signal(Signal::TERM);
    manager.told("STOPPING=1");
    assert_eq!(leader.ends(), Some(0));
}

#[test]
fn a_standby_is_ready_and_tells_when_it_leads() {
    let s = Scratch::new();
    s.file("list", LIST);
    let mut first = publish(&s, &["--name", "first"]);
    let manager = Manager::new(&s);
    let more = ["--wait", "--metrics", "127.0.0.1:0"];
    let mut second = publisher(&s, &more);
    let address = address_in(&second.complains("metrics at "));
    assert_eq!(
        manager.message(),
        ["READY=1", "STATUS=waits while first leads"]
    );
    assert_eq!(value(&scrape(address), "sapwood_sync_term", &[]), Some(0.0));
    lives(&manager);
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    manager.told("STATUS=leads in term 2: 3 names, commit 1");
    wait_value(address, "sapwood_sync_term", &[], 2.0);
    lives(&manager);
    second.signal(Signal::TERM);
    manager.told("STOPPING=1");
    assert_eq!(second.ends(), Some(0));
    // One that never led.
    let _leader = publish(&s, &["--name", "third"]);
    let mut waits = publisher(&s, &more);
    assert_eq!(
        manager.message(),
        ["READY=1", "STATUS=waits while third leads"]
    );
    waits.signal(Signal::TERM);
    manager.told("STOPPING=1");
    assert_eq!(waits.ends(), Some(0));
}

#[test]
fn a_standby_tells_who_leads_now() {
    let s = Scratch::new();
    s.file("list", LIST);
    let mut first = publish(&s, &["--name", "first"]);
    let folders = [Scratch::new(), Scratch::new()];
    let managers = folders.each_ref().map(Manager::new);
    let _standbys: Vec<_> = ["second", "third"]
        .iter()
        .zip(&folders)
        .map(|(name, folder)| {
            let more = ["--folder", "log", "--wait", "--name", name];
            let mut command = Server::command(&s, &[&PUBLISH[..], &more].concat());
            command.env("NOTIFY_SOCKET", folder.path("notify"));
            Server::of(command)
        })
        .collect();
    for manager in &managers {
        assert_eq!(
            manager.message(),
            ["READY=1", "STATUS=waits while first leads"]
        );
    }
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    // Either may lead now.
    let told = |manager: &Manager, other: &str| loop {
        let status = manager.told("STATUS=");
        if status.starts_with("STATUS=leads in term 2: ") {
            return true;
        }
        if status == format!("STATUS=waits while {other} leads") {
            return false;
        }
    };
    let leads = [told(&managers[0], "third"), told(&managers[1], "second")];
    assert_ne!(leads[0], leads[1]);
}

#[test]
fn a_follower_is_ready_when_readers_find_the_map() {
    let s = Scratch::new();
    s.file("list", LIST);
    let manager = Manager::new(&s);
    let mut follower = Server::of(Manager::command(&s, &FOLLOW, WATCHDOG));
    assert_eq!(manager.message(), ["STATUS=waits for the first leader"]);
    let mut leader = publish(&s, &[]);
    loop {
        let message = manager.message();
        if message[0] == "READY=1" {
            // The leader may not have published its list yet when the follower finds it.
            if message[1] != "STATUS=3 entries, commit 1" {
                assert_eq!(message[1], "STATUS=0 entries, commit 0");
                manager.told("STATUS=3 entries, commit 1");
            }
            break;
        }
        assert!(
            ["STATUS", "WATCHD"].contains(&&message[0][..6]),
            "{message:?}"
        );
    }
    s.run(&["names", "get", "--live", "live", "spam.example"])
        .code(0)
        .out("block\n");
    lives(&manager);
    leader.answers("add new.example block\n", &["added\tnew.example"]);
    manager.told("STATUS=4 entries, commit 2");
    follower.signal(Signal::TERM);
    manager.told("STOPPING=1");
    assert_eq!(follower.ends(), Some(0));
    // One that takes the map over is ready when it has what came meanwhile; a trouble is told.
    leader.answers("add late.example no\n", &["added\tlate.example"]);
    std::fs::remove_dir_all(s.path("live")).unwrap();
    let args = [&FOLLOW[..], &["--values", "numbers"]].concat();
    let mut follower = Server::of(Manager::command(&s, &args, WATCHDOG));
    let told = manager.told("STATUS=compares the map with the leader's, 3 behind; ");
    assert!(told.contains("is not a number"), "{told}");
    follower.signal(Signal::TERM);
    manager.told("STOPPING=1");
    assert_eq!(follower.ends(), Some(0));
}

/// The service manager must not end a leader for what a follower does.
#[test]
fn a_leader_that_waits_for_a_follower_shows_life() {
    let s = Scratch::new();
    s.file("list", LIST);
    let manager = Manager::new(&s);
    let mut leader = publisher(&s, &["--max-lag", "1", "--slowest", "wait"]);
    manager.told("STATUS=leads in term 1: 3 names, commit 1, 0 followers");
    // A follower that does not move, but whose report does not expire.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let log = FolderLog::new(s.path("log"), "blocked").unwrap();
    let report = |commit| {
        let report = Report {
            follower: "slow".into(),
            commit,
            ..Default::default()
        };
        let reported = log.report(&report, Duration::from_secs(600));
        runtime.block_on(reported).unwrap();
    };
    report(1);
    leader.answers(
        "add a.example block\nadd b.example block\n",
        &["added\ta.example", "added\tb.example"],
    );
    leader.complains("blocked: waits for slow, which is over 1 commits behind");
    // The first of these may go through, the second does not.
    leader.answers("add c.example block\nadd d.example block\n", &[]);
    while !manager
        .told("STATUS=leads in term 1: ")
        .contains("; waits for slow, ")
    {}
    std::thread::sleep(Duration::from_millis(600));
    manager.forget();
    lives(&manager);
    let came: Vec<_> = leader.out.try_iter().collect();
    assert!(came.is_empty() || came == ["added\tc.example"], "{came:?}");
    report(4);
    prints(&leader, "added\td.example");
    manager.told("STATUS=leads in term 1: 7 names, commit 5, 1 followers");
    leader.signal(Signal::TERM);
    manager.told("STOPPING=1");
    assert_eq!(leader.ends(), Some(0));
}

const PUBLISHES: &str = "sapwood-sync-publish@.service";
const FOLLOWS: &str = "sapwood-sync-follow@.service";

/// Runs what an instance of a unit for the map "blocked" runs, without capabilities.
fn as_unit(s: &Scratch, unit: &str, set: &[(&str, &str)]) -> Server {
    let mut command = Command::new("setpriv");
    command
        .args(["--bounding-set", "-all", "--no-new-privs", PROGRAM])
        .args(arguments_of(unit, "blocked", set));
    with_pipes(s, command)
}

fn with_pipes(s: &Scratch, mut command: Command) -> Server {
    command
        .current_dir(s.path("."))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Server::of(command)
}

/// A kind of list, its entries, and a question of a reader with its answer.
type Asked = (&'static str, &'static str, &'static str, [&'static str; 3]);

const KINDS: [Asked; 3] = [
    ("names", "oak\t1\n", "elm\t2\n", ["get", "oak", "1\n"]),
    (
        "routes",
        "10.0.0.0/8 a\n",
        "::/0 b\n",
        ["lookup", "10.0.0.1", "10.0.0.0/8\ta\n"],
    ),
    (
        "ranges",
        "1 5 one\n",
        "7 9 two\n",
        ["get", "3", "1\t5\tone\n"],
    ),
];

#[test]
fn services_of_many_machines_need_no_capabilities() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root has capabilities to lose");
        return;
    }
    for (kind, list, more, [ask, key, answer]) in KINDS {
        let s = Scratch::new();
        s.file("list", list);
        let mode = |path: &str, mode| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(s.path(path), mode).unwrap();
        };
        mode(".", 0o755);
        std::fs::create_dir(s.path("live")).unwrap();
        for folder in folders_of_readers(FOLLOWS) {
            std::fs::create_dir_all(s.path("live").join(&folder)).unwrap();
            mode(&format!("live/{folder}"), 0o1777);
        }
        let options = ("OPTIONS", "--folder log");
        let set = [("KIND", kind), ("LIST", "list"), options];
        let leader = as_unit(&s, PUBLISHES, &set);
        leader.complains(" in term 1");
        let live = s.path("live").display().to_string();
        let set = [("LIVE", &*live), options];
        let mut follower = as_unit(&s, FOLLOWS, &set);
        prints(&follower, "restored\t1\t1");
        leader.signal(Signal::USR1);
        leader.complains("a snapshot of commit 1 is saved");
        let mut reader = Command::new(s.copy_of_program());
        reader
            .args([kind, ask, "--live", "live", key])
            .current_dir(s.path("."))
            .uid(65534)
            .gid(65534);
        let ran = crate::common::Ran(reader.output().unwrap());
        ran.code(0).out(answer);
        s.file("list", format!("{list}{more}"));
        leader.signal(Signal::HUP);
        leader.complains("list: 1 added, 0 removed, 0 changed");
        wait_for("the change", || {
            let (code, status) = status(&s);
            code == Some(0) && status["followers"][0]["commit"] == 2
        });
        assert_eq!(status(&s).1["followers"][0]["name"], "machine");
        s.run(&[kind, "verify", "--live", "live"]).code(0);
        for mut server in [follower, leader] {
            server.signal(Signal::TERM);
            assert_eq!(server.ends(), Some(0), "{kind}");
        }
        // A new owner, which deletes the map at its end.
        let set = [("LIVE", &*live), ("OPTIONS", "--folder log --remove")];
        follower = as_unit(&s, FOLLOWS, &set);
        prints(&follower, "restored\t2\t2");
        follower.signal(Signal::TERM);
        assert_eq!(follower.ends(), Some(0), "{kind}");
        assert!(!s.path("live/control").exists(), "{kind}");
    }
}

#[test]
fn units_of_many_machines_allow_the_calls_of_their_commands() {
    for (kind, list, more, _) in KINDS {
        let s = Scratch::new();
        s.file("list", list);
        let follows = Scratch::new();
        let log = s.path("log").display().to_string();
        let options = format!("--folder {log} --watch --metrics 127.0.0.1:0");
        let set = [("KIND", kind), ("LIST", "list"), ("OPTIONS", &*options)];
        let Some(mut command) = traced(&s, &[]) else {
            return;
        };
        command.args(arguments_of(PUBLISHES, "blocked", &set));
        let mut leader = with_pipes(&s, command);
        let address = address_in(&leader.complains("metrics at "));
        leader.complains(" in term 1");
        let options = format!("--folder {log} --metrics 127.0.0.1:0");
        let set = [("LIVE", "live"), ("OPTIONS", &*options)];
        let follow = || {
            let mut command = traced(&follows, &[]).unwrap();
            command.args(arguments_of(FOLLOWS, "blocked", &set));
            with_pipes(&follows, command)
        };
        let mut follower = follow();
        prints(&follower, "restored\t1\t1");
        s.file("list", format!("{list}{more}"));
        leader.complains("list: 1 added, 0 removed, 0 changed");
        wait_value(address, "sapwood_sync_followers", &[], 1.0);
        wait_value(address, "sapwood_sync_lag_commits", &[], 0.0);
        end(&s, &leader, Signal::USR1);
        leader.complains("a snapshot of commit 2 is saved");
        // The second one is a new owner, and begins with the snapshot.
        for round in 0..2 {
            end(&follows, &follower, Signal::TERM);
            assert_eq!(follower.ends(), Some(0));
            allows_what_was_called(&follows, FOLLOWS);
            if round == 0 {
                follower = follow();
                prints(&follower, "restored\t2\t2");
            }
        }
        end(&s, &leader, Signal::TERM);
        assert_eq!(leader.ends(), Some(0));
        allows_what_was_called(&s, PUBLISHES);
    }
}
