//! `sync` over logs that are removed, emptied, put back or spoiled: it is told, and readers have
//! the old map until there is a sound newer log.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::common::Scratch;
use crate::notify::Manager;
use crate::server::{Server, wait_for};
use crate::service::{address_in, wait_value};
use crate::sync::{LIST, follow, has, prints, publish, status};

const STATUS: [&str; 6] = ["sync", "status", "--map", "blocked", "--folder", "log"];

fn copy(s: &Scratch, from: &str, to: &str) {
    let _ = std::fs::remove_dir_all(s.path(to));
    let mut command = Command::new("cp");
    let copied = command.arg("-a").arg(s.path(from)).arg(s.path(to)).status();
    assert!(copied.unwrap().success());
}

fn quit(leader: &mut Server) {
    leader.answers("quit\n", &[]);
    assert_eq!(leader.ends(), Some(0));
}

/// The text of the trouble that `sync status` knows of the only follower.
fn told(status: &Value) -> String {
    let trouble = &status["followers"][0]["trouble"];
    trouble.as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_removed_log_is_told_and_names_stay() {
    let s = Scratch::new();
    s.file("list", LIST);
    let mut leader = publish(&s, &[]);
    let follower = follow(&s, "live", &["--metrics", "127.0.0.1:0"]);
    let address = address_in(&follower.complains("metrics at "));
    prints(&follower, "restored\t1\t3");
    wait_value(address, "sapwood_sync_log_lost", &[], 0.0);
    std::fs::remove_dir_all(s.path("log/blocked")).unwrap();
    // The leader publishes nothing where its log is not.
    leader.complains("this publisher does not lead any more: the log was removed or replaced");
    assert_eq!(leader.ends(), Some(2));
    prints(
        &follower,
        "trouble\tblocked: the log is gone or empty, and commit 1 of term 1 was there",
    );
    wait_value(address, "sapwood_sync_log_lost", &[], 1.0);
    wait_value(address, "sapwood_sync_trouble", &[], 1.0);
    s.run(&STATUS)
        .code(2)
        .complains("there is no log of a map there");
    has(&s, "live", "spam.example", "block");
    // Its list is all of the map, whatever was there.
    s.file("list", "ads.example\tblock\nnew.example\tblock\n");
    let leader = publish(&s, &[]);
    prints(&follower, "restored\t1\t2");
    prints(&follower, "replaced\t1");
    has(&s, "live", "new.example", "block");
    has(&s, "live", "spam.example", "");
    wait_value(address, "sapwood_sync_log_lost", &[], 0.0);
    wait_value(address, "sapwood_sync_replaced_total", &[], 1.0);
    wait_for("a sound log", || status(&s).0 == Some(0));
    leader.signal(Signal::TERM);
}

#[test]
fn status_tells_of_followers_that_are_beyond_an_older_log() {
    let s = Scratch::new();
    s.file("list", LIST);
    let mut leader = publish(&s, &["--name", "one"]);
    let follower = follow(&s, "live", &[]);
    prints(&follower, "restored\t1\t3");
    quit(&mut leader);
    copy(&s, "log/blocked", "saved");
    s.file("list", format!("{LIST}late.example\tblock\n"));
    let mut leader = publish(&s, &["--name", "two"]);
    prints(&follower, "commit\t2\t4");
    quit(&mut leader);
    wait_for("the report", || status(&s).1["followers"][0]["commit"] == 2);
    copy(&s, "saved", "log/blocked");
    prints(
        &follower,
        "trouble\tblocked: the log was put back to an earlier state",
    );
    wait_for("the report of the trouble", || {
        let (code, now) = status(&s);
        code == Some(1) && now["behind"] == 1 && told(&now).contains("put back")
    });
    let (_, now) = status(&s);
    assert_eq!(
        (&now["beyond"], &now["commit"]),
        (&1.into(), &1.into()),
        "{now}"
    );
    assert!(
        now["log"].as_str().is_some_and(|log| log.len() == 16),
        "{now}"
    );
    has(&s, "live", "late.example", "block");
    let leader = Server::spawn(
        &s,
        &[
            "sync", "publish", "names", "list", "--values", "text", "--map", "blocked", "--folder",
            "log",
        ],
    );
    leader.complains("follower live has commit 2 of term 2, and the log ends with commit 1 of term 1; a new history of the map begins, with all of the list");
    leader.complains("4 names, commit 1 in term 3");
    prints(&follower, "replaced\t1");
    wait_for("a sound log", || status(&s).0 == Some(0));
    assert_ne!(status(&s).1["log"], now["log"]);
    has(&s, "live", "late.example", "block");
}

#[test]
fn status_tells_what_is_wrong_with_the_newest_entry() {
    let s = Scratch::new();
    s.file("list", LIST);
    let mut leader = publish(&s, &[]);
    leader.answers(
        "add a.example block\nadd b.example block\n",
        &["added\ta.example", "added\tb.example"],
    );
    assert_eq!(status(&s).0, Some(0));
    assert_eq!(status(&s).1["trouble"], Value::Null);
    let frame = |commit: u64| {
        s.path("log/blocked/log")
            .join(format!("{commit:016x}.1.0000.{commit:016x}"))
    };
    let whole = std::fs::read(frame(3)).unwrap();
    for (bytes, says) in [
        (&whole[..30], "too short"),
        (&whole[..whole.len() - 1], "checksum"),
    ] {
        std::fs::write(frame(3), bytes).unwrap();
        let (code, now) = status(&s);
        let trouble = now["trouble"].as_str().unwrap();
        assert!(
            code == Some(1) && trouble.contains(says) && trouble.contains("0003"),
            "{now}"
        );
    }
    std::fs::write(frame(3), whole).unwrap();
    std::fs::remove_file(frame(2)).unwrap();
    s.run(&STATUS)
        .code(1)
        .says("trouble\tblocked: the log does not have commit 2 any more\n");
}

#[test]
fn an_empty_log_empties_a_map_only_when_asked() {
    let s = Scratch::new();
    s.file("list", LIST);
    let mut leader = publish(&s, &[]);
    let keeps = follow(&s, "keeps", &[]);
    let adopts = follow(&s, "adopts", &["--adopt-empty"]);
    for follower in [&keeps, &adopts] {
        prints(follower, "restored\t1\t3");
    }
    quit(&mut leader);
    for frame in std::fs::read_dir(s.path("log/blocked/log")).unwrap() {
        std::fs::remove_file(frame.unwrap().path()).unwrap();
    }
    prints(&keeps, "trouble\tblocked: the log is gone or empty");
    prints(&adopts, "restored\t0\t0");
    has(&s, "adopts", "spam.example", "");
    has(&s, "keeps", "spam.example", "block");
    assert_eq!(status(&s).0, Some(1));
    // A follower that is started again knows no commit, but its map has entries.
    drop(keeps);
    let keeps = follow(&s, "keeps", &[]);
    prints(
        &keeps,
        "trouble\tblocked: the log is empty, and the map has entries: it is not adopted",
    );
    has(&s, "keeps", "spam.example", "block");
    // An empty list is a version of the map like any other.
    s.file("list", "");
    let leader = publish(&s, &[]);
    prints(&keeps, "restored\t1\t0");
    has(&s, "keeps", "spam.example", "");
    leader.signal(Signal::TERM);
}

#[test]
fn a_follower_that_finds_no_log_tells_it_when_its_map_is_there() {
    let s = Scratch::new();
    s.file("list", LIST);
    let mut leader = publish(&s, &[]);
    let mut follower = follow(&s, "live", &[]);
    prints(&follower, "restored\t1\t3");
    follower.signal(Signal::TERM);
    assert_eq!(follower.ends(), Some(0));
    quit(&mut leader);
    std::fs::remove_dir_all(s.path("log")).unwrap();
    let follower = follow(&s, "live", &["--metrics", "127.0.0.1:0"]);
    let address = address_in(&follower.complains("metrics at "));
    prints(
        &follower,
        "trouble\tblocked: the log is gone or empty: the live map stays as it was",
    );
    wait_value(address, "sapwood_sync_log_lost", &[], 1.0);
    has(&s, "live", "spam.example", "block");
    let _leader = publish(&s, &[]);
    prints(&follower, "restored\t1\t3");
    wait_value(address, "sapwood_sync_log_lost", &[], 0.0);
}

#[test]
fn the_service_manager_is_told_of_a_lost_log() {
    let s = Scratch::new();
    s.file("list", LIST);
    let mut leader = publish(&s, &[]);
    let manager = Manager::new(&s);
    let args = [
        "sync", "follow", "--map", "blocked", "--folder", "log", "--live", "live",
    ];
    let _follower = Server::of(Manager::command(&s, &args, None));
    manager.told("READY=1");
    quit(&mut leader);
    std::fs::remove_dir_all(s.path("log/blocked")).unwrap();
    manager.told("STATUS=3 entries, commit 1; blocked: the log is gone or empty");
}

/// The log belongs to root, and this follower does not.
#[test]
fn a_log_of_another_user_is_followed_without_reports() {
    use std::os::unix::process::CommandExt;
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can become another user");
        return;
    }
    let s = Scratch::new();
    s.file("list", LIST);
    let _leader = publish(&s, &[]);
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(s.path("."), mode).unwrap();
    let other = tempfile::tempdir().unwrap();
    let own = std::os::unix::fs::chown(other.path(), Some(65534), Some(65534));
    own.unwrap();
    let live = other.path().join("live").display().to_string();
    let run = |args: &[&str]| {
        let mut command = Command::new(s.copy_of_program());
        command
            .args(args)
            .current_dir(s.path("."))
            .uid(65534)
            .gid(65534)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    };
    let log = ["--map", "blocked", "--folder", "log"];
    let args = [&["sync", "follow", "--live", &live], &log[..]].concat();
    let follower = Server::of(run(&args));
    prints(&follower, "restored\t1\t3");
    let said = follower.complains("the leader does not know this follower");
    assert!(
        said.contains("log/blocked/followers: Permission denied"),
        "{said}"
    );
    drop(follower);
    let args = [
        &["sync", "publish", "names", "list", "--values", "text"],
        &log[..],
    ]
    .concat();
    let refused = crate::common::Ran(run(&args).output().unwrap());
    refused
        .code(2)
        .complains("log/blocked/leader: Permission denied");
}

#[cfg(feature = "etcd")]
#[test]
fn an_etcd_that_has_lost_everything_empties_no_map() {
    let Some(mut lab) = crate::sync_etcd::Lab::new(crate::cluster::Setup::default()) else {
        return;
    };
    let mut leader = lab.publish(&[]);
    let follower = lab.follow("live", &["--metrics", "127.0.0.1:0"]);
    let address = address_in(&follower.complains("metrics at "));
    prints(&follower, "restored\t1\t3");
    lab.cluster.wipe(0);
    prints(
        &follower,
        "trouble\tblocked: the log is gone or empty, and commit 1 of term 1 was there",
    );
    wait_value(address, "sapwood_sync_log_lost", &[], 1.0);
    has(&lab.s, "live", "spam.example", "block");
    assert_eq!(leader.ends(), Some(2));
    wait_for("the report of the trouble", || {
        let (code, now) = lab.status(&[]);
        code == Some(1) && now["beyond"] == 1 && told(&now).contains("gone or empty")
    });
    lab.s
        .file("list", "ads.example\tblock\nnew.example\tblock\n");
    let leader = Server::spawn(
        &lab.s,
        &lab.args(
            &["sync", "publish", "names", "list", "--values", "text"],
            &[],
        ),
    );
    leader.complains("follower live has commit 1 of term 1, and the log is empty; a new history");
    prints(&follower, "replaced\t1");
    has(&lab.s, "live", "new.example", "block");
    has(&lab.s, "live", "spam.example", "");
    wait_value(address, "sapwood_sync_replaced_total", &[], 1.0);
    wait_for("a sound log", || lab.status(&[]).0 == Some(0));
}
