//! `sync` over etcd: users and TLS, lost leases, a full database, and followers that are slow.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use sapwood_sync::{Changes, Error, Kind, Log, Publisher, PublisherOptions, Report, Snapshots};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::cluster::{Cluster, Setup};
use crate::common::{Ran, Scratch};
use crate::operations::{allows_what_was_called, end, traced};
use crate::server::{LIMIT, Server, wait_for};
use crate::sync::{LIST, has, prints};

/// The longest time that a lease and what comes after it take.
const LONG: Duration = Duration::from_secs(60);
const PUBLISH: [&str; 6] = ["sync", "publish", "names", "list", "--values", "text"];
const FOLLOW: [&str; 3] = ["sync", "follow", "--live"];
const STATUS: [&str; 2] = ["sync", "status"];

/// A runtime for what tests ask etcd themselves.
fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
}

/// Nodes of etcd, and a directory with a list.
pub struct Lab {
    pub cluster: Cluster,
    pub s: Scratch,
    runtime: Runtime,
    /// Where the map is, as arguments.
    place: Vec<String>,
}

impl Lab {
    /// `None` if etcd is not installed.
    pub fn new(setup: Setup) -> Option<Lab> {
        let runtime = runtime();
        let cluster = runtime.block_on(Cluster::start(setup))?;
        let s = Scratch::new();
        s.file("list", LIST);
        let urls = cluster.addresses().join(",");
        let place = ["--map", "blocked", "--snapshots", "snapshots", "--etcd"];
        let mut place = place.map(String::from).to_vec();
        place.push(urls);
        Some(Lab {
            cluster,
            s,
            runtime,
            place,
        })
    }

    /// More about the place.
    fn with(mut self, more: &[&str]) -> Lab {
        self.place.extend(more.iter().map(|one| (*one).to_owned()));
        self
    }

    pub fn args<'a>(&'a self, command: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
        let place = self.place.iter().map(|word| &**word);
        let words = command.iter().copied().chain(place);
        words.chain(more.iter().copied()).collect()
    }

    /// Starts a publisher, and waits until it leads.
    #[track_caller]
    pub fn publish(&self, more: &[&str]) -> Server {
        let server = Server::spawn(&self.s, &self.args(&PUBLISH, more));
        server.complains(" in term ");
        server
    }

    /// Starts a follower into the live directory of its name.
    pub fn follow(&self, name: &str, more: &[&str]) -> Server {
        let command = [&FOLLOW[..], &[name, "--name", name]].concat();
        Server::spawn(&self.s, &self.args(&command, more))
    }

    fn run(&self, command: &[&str], more: &[&str]) -> Ran {
        self.s.run(&self.args(command, more))
    }

    /// What `sync status` says as a document, and its exit code.
    pub fn status(&self, more: &[&str]) -> (Option<i32>, Value) {
        let ran = self.run(&STATUS, &[&["--json"], more].concat());
        (ran.0.status.code(), ran.documents().remove(0))
    }
}

#[test]
fn a_user_has_a_password() {
    let Some(lab) = Lab::new(Setup::default()) else {
        return;
    };
    let ctl = |args: &[&str]| lab.cluster.ctl(0, args);
    lab.run(&STATUS, &["--user", "root", "--password-file", "list"])
        .code(2)
        .complains("authentication is off");
    for (user, password, right) in [
        ("sapwood", "open sesame", "readwrite"),
        ("reader", "reads", "read"),
    ] {
        ctl(&["user", "add", &format!("{user}:{password}")]);
        ctl(&["role", "add", user]);
        let grant = ["role", "grant-permission", user, "--prefix=true", right];
        ctl(&[&grant[..], &["/sapwood/"]].concat());
        ctl(&["user", "grant-role", user, user]);
    }
    ctl(&["user", "add", "root:secret"]);
    ctl(&["user", "grant-role", "root", "root"]);
    ctl(&["auth", "enable"]);
    lab.s.file("password", "open sesame\nnot this line\n");
    lab.s.file("wrong", "open says me\n");
    lab.s.file("reads", "reads");
    let none = lab.run(&PUBLISH, &[]);
    none.code(2)
        .complains("etcd wants a user and a password, and none is given");
    let user = |name, file| ["--user", name, "--password-file", file];
    for command in [
        &PUBLISH[..],
        &["sync", "follow", "--live", "none"],
        &STATUS,
        &["sync", "snapshot"],
    ] {
        let wrong = lab.run(command, &user("sapwood", "wrong"));
        wrong.code(2).complains("wrong user or password");
        wrong.complains("http://127.0.0.1:");
        assert!(!wrong.stderr().contains("open says me"), "{wrong}");
    }
    lab.run(&STATUS, &user("sapwood", "absent"))
        .code(2)
        .complains("cannot read absent");
    lab.run(&STATUS, &["--user", "sapwood"])
        .code(2)
        .complains("--user needs a password");
    // One who may only read can neither lead nor report, but it can follow.
    lab.run(&PUBLISH, &user("reader", "reads"))
        .code(2)
        .complains("permission denied");
    let mut leader = lab.publish(&user("sapwood", "password"));
    let reader = lab.follow("read", &user("reader", "reads"));
    prints(&reader, "restored\t1\t3");
    // The password in the environment.
    let args = lab.args(
        &[&FOLLOW[..], &["live", "--name", "live"]].concat(),
        &["--user", "sapwood"],
    );
    let mut command = Server::command(&lab.s, &args);
    command.env("SAPWOOD_ETCD_PASSWORD", "open sesame");
    let mut follower = Server::of(command);
    prints(&follower, "restored\t1\t3");
    leader.answers("add new.example block\n", &["added\tnew.example"]);
    for live in ["read", "live"] {
        has(&lab.s, live, "new.example", "block");
    }
    follower.signal(Signal::TERM);
    assert_eq!(follower.ends(), Some(0));
    leader.answers("quit\n", &[]);
    assert_eq!(leader.ends(), Some(0));
}

#[test]
fn tls_is_used_or_its_lack_is_told() {
    let setup = Setup {
        tls: true,
        ..Setup::default()
    };
    let Some(lab) = Lab::new(setup) else { return };
    let Some(plain) = Lab::new(Setup::default()) else {
        return;
    };
    let file = |name: &str| lab.cluster.folder.path().join(name).display().to_string();
    let (ca, cert, key) = (file("ca.pem"), file("client.pem"), file("client.key"));
    let all = ["--ca", &ca, "--cert", &cert, "--key", &key];
    let mut leader = lab.publish(&all);
    lab.follow("live", &[&all[..], &["--once"]].concat())
        .out
        .recv_timeout(LIMIT)
        .map(|line| assert_eq!(line, "restored\t1\t3"))
        .unwrap();
    lab.run(&STATUS, &all).code(0).says("commit\t1\n");
    let fails = |url: &str, more: &[&str], what: &str| {
        let place = [
            "--map",
            "blocked",
            "--snapshots",
            "snapshots",
            "--etcd",
            url,
        ];
        let ran = lab.s.run(&[&STATUS[..], &place, more].concat());
        ran.code(2).complains(what);
    };
    let secure = &*lab.cluster.addresses()[0];
    fails(&secure.replace("https", "http"), &[], "etcd wants TLS here");
    fails(
        secure,
        &[],
        "https:// needs the certificate of the authority",
    );
    fails(secure, &["--ca", &ca], "client's certificate");
    let other = file("other.pem");
    fails(
        secure,
        &["--ca", &other, "--cert", &cert, "--key", &key],
        "certificate",
    );
    fails(secure, &["--ca", &key], "no certificate in PEM");
    fails(secure, &["--ca", "absent"], "absent: ");
    fails(secure, &["--ca", &ca, "--cert", &cert], "--key");
    let open = &*plain.cluster.addresses()[0];
    let as_tls = open.replace("http", "https");
    fails(&as_tls, &["--ca", &ca], "etcd does not speak it here");
    fails(open, &["--ca", &ca], "the address is not https://");
    leader.answers("quit\n", &[]);
    assert_eq!(leader.ends(), Some(0));
}

#[test]
fn a_leader_that_was_paused_ends() {
    let Some(lab) = Lab::new(Setup::default()) else {
        return;
    };
    let mut first = lab.publish(&["--name", "first"]);
    let args = lab.args(&PUBLISH, &["--wait", "--name", "second"]);
    let mut second = Server::spawn(&lab.s, &args);
    second.complains("blocked: first leads; waiting");
    let follower = lab.follow("live", &[]);
    prints(&follower, "restored\t1\t3");
    first.signal(Signal::STOP);
    lab.s.file("list", "other.example\tblock\n");
    // The lease has ten seconds.
    let said = second.complains_within(LONG, " in term ");
    assert!(
        said.contains("1 names, commit 2 in term 2; 1 added, 3 removed"),
        "{said}"
    );
    has(&lab.s, "live", "other.example", "block");
    // What it is asked for when it goes on is not published.
    use std::io::Write;
    let stdin = first.stdin.as_mut().unwrap();
    stdin.write_all(b"add late.example block\n").unwrap();
    first.signal(Signal::CONT);
    assert_eq!(first.ends(), Some(2));
    let deposed = "sapwood: blocked: this publisher does not lead any more: the lease has ended";
    first.complains(deposed);
    assert_eq!(first.out.recv_timeout(LIMIT).ok(), None);
    second.answers(
        "get late.example\nadd new.example block\n",
        &["absent\tlate.example", "added\tnew.example"],
    );
    prints(&follower, "commit\t3\t2");
    assert_eq!(lab.status(&[]).1["leader"], "second");
}

#[test]
fn a_leader_that_nobody_asks_notices_that_its_lease_has_ended() {
    let Some(lab) = Lab::new(Setup::default()) else {
        return;
    };
    let mut first = lab.publish(&["--name", "first"]);
    let leases = lab.cluster.ctl(0, &["lease", "list"]);
    let lease = leases.lines().last().unwrap().to_owned();
    lab.cluster.ctl(0, &["lease", "revoke", &lease]);
    let _second = lab.publish(&["--name", "second"]);
    first.complains(
        "sapwood: blocked: this publisher does not lead any more: the lease has ended, and second \
         leads",
    );
    assert_eq!(first.ends(), Some(2));
}

#[test]
fn a_full_etcd_takes_no_commits_and_followers_go_on() {
    let setup = Setup {
        quota: Some(16 << 20),
        ..Setup::default()
    };
    let Some(lab) = Lab::new(setup) else { return };
    let mut leader = lab.publish(&["--name", "one"]);
    let follower = lab.follow("live", &[]);
    prints(&follower, "restored\t1\t3");
    // Another map fills it.
    lab.runtime.block_on(async {
        let log = Arc::new(lab.cluster.log("big").await);
        let snapshots = Snapshots::in_folder(lab.s.path("big"), "big").unwrap();
        let options = PublisherOptions::new("big");
        let big = Publisher::lead(log, snapshots, Kind::Names, options).await;
        let big = big.unwrap();
        for number in 0.. {
            assert!(number < 100, "etcd is not full");
            let mut changes = Changes::new();
            changes.put("key", vec![number; 1_000_000]).unwrap();
            match big.commit(changes).await {
                Ok(_) => {}
                Err(Error::NoSpace { .. }) => break,
                Err(error) => panic!("{error}"),
            }
        }
    });
    leader.answers(
        "add new.example block\nget new.example\n",
        &["absent\tnew.example"],
    );
    leader.complains("database space exceeded: compact, defragment, and disarm the alarm");
    // Followers serve what they have, and the term goes on.
    has(&lab.s, "live", "good.ads.example", "allow");
    let (_, status) = lab.status(&[]);
    assert_eq!(
        (&status["leader"], &status["commit"]),
        (&json!("one"), &json!(1))
    );
    // A map that nobody leads cannot be led.
    let place = ["--map", "new", "--snapshots", "snapshots", "--etcd"];
    let url = lab.cluster.addresses().join(",");
    lab.s
        .run(&[&PUBLISH[..], &place, &[&*url]].concat())
        .code(2)
        .complains("no space: ");
    let deleted = lab
        .cluster
        .ctl(0, &["del", "--prefix", "/sapwood/big/log/", "-w", "json"]);
    let revision = deleted.split("\"revision\":").nth(1).unwrap();
    let revision: String = revision.chars().take_while(char::is_ascii_digit).collect();
    lab.cluster.ctl(0, &["compact", &revision]);
    lab.cluster.disarm();
    leader.answers("add new.example block\n", &["added\tnew.example"]);
    prints(&follower, "commit\t2\t4");
    has(&lab.s, "live", "new.example", "block");
}

#[test]
fn status_tells_who_is_behind() {
    let Some(mut lab) = Lab::new(Setup::default()) else {
        return;
    };
    // Nobody has led yet.
    let (code, status) = lab.status(&[]);
    assert_eq!((code, &status["leader"]), (Some(1), &Value::Null));
    assert_eq!(
        (&status["kind"], &status["commit"]),
        (&Value::Null, &json!(0))
    );
    let mut leader = lab.publish(&["--name", "one"]);
    leader.answers(
        "add a.example block\nadd b.example block\n",
        &["added\ta.example", "added\tb.example"],
    );
    let _follower = lab.follow("near", &[]);
    wait_for("the report", || {
        lab.status(&[]).1["followers"][0]["commit"] == 3
    });
    lab.run(&STATUS, &["--max-lag", "0"])
        .code(0)
        .says("leader\tone\n")
        .says("followers\t1\nbehind\t0\nsnapshot\t-\n")
        .says("follower\tnear\t3\t0\t\n");
    // One that is far, and says what holds it back.
    lab.runtime.block_on(async {
        let report = Report {
            follower: "far".into(),
            commit: 1,
            ..Default::default()
        };
        let log = lab.cluster.log("blocked").await;
        log.report(&report, LONG).await.unwrap();
        let trouble = Some("no room".into());
        let troubled = Report {
            follower: "sick".into(),
            commit: 3,
            trouble,
            ..Default::default()
        };
        log.report(&troubled, LONG).await.unwrap();
    });
    let (code, status) = lab.status(&["--max-lag", "2"]);
    assert_eq!((code, &status["behind"]), (Some(1), &json!(1)));
    let followers = json!([
        {"name": "far", "commit": 1, "lag": 2, "trouble": null},
        {"name": "near", "commit": 3, "lag": 0, "trouble": null},
        {"name": "sick", "commit": 3, "lag": 0, "trouble": "no room"},
    ]);
    assert_eq!(status["followers"], followers);
    assert_eq!(
        (&status["leader"], &status["term"], &status["kind"]),
        (&json!("one"), &json!(1), &json!("names"))
    );
    lab.run(&STATUS, &["--max-lag", "1"])
        .code(1)
        .says("behind\t2\n")
        .says("follower\tfar\t1\t2\t\n")
        .says("follower\tsick\t3\t0\tno room\n");
    leader.signal(Signal::USR1);
    leader.complains("a snapshot of commit 3 is saved");
    let (_, status) = lab.status(&[]);
    assert_eq!(status["snapshot"]["entries"], 5);
    leader.answers("quit\n", &[]);
    assert_eq!(leader.ends(), Some(0));
    lab.run(&STATUS, &[]).code(1).says("leader\t-\n");
    // Without etcd there is no answer.
    lab.cluster.kill(0);
    lab.run(&STATUS, &[]).code(2).complains("http://127.0.0.1:");
}

/// Pauses a follower, lets its leader commit names, and waits until the leader has noticed. The
/// report of a paused follower expires after some seconds, so this is tried again when the machine
/// was too slow for that.
#[track_caller]
fn fall_behind(leader: &mut Server, follower: &Server, noticed: &str) -> usize {
    use std::io::Write;
    for attempt in 0..10 {
        follower.signal(Signal::STOP);
        let commands: String = (0..4)
            .map(|number| format!("add n{attempt}-{number}.example block\n"))
            .collect();
        let stdin = leader.stdin.as_mut().unwrap();
        stdin.write_all(commands.as_bytes()).unwrap();
        let until = Instant::now() + Duration::from_secs(8);
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            let line = leader.errors.recv_timeout(left);
            if line.is_ok_and(|line| line.contains(noticed)) {
                return attempt;
            }
        }
        follower.signal(Signal::CONT);
        std::thread::sleep(Duration::from_secs(2));
    }
    panic!("the leader never says {noticed}");
}

#[test]
fn a_slow_follower_is_waited_for() {
    let Some(lab) = Lab::new(Setup::default()) else {
        return;
    };
    let mut leader = lab.publish(&["--max-lag", "2", "--slowest", "wait"]);
    let follower = lab.follow("slow", &[]);
    prints(&follower, "restored\t1\t3");
    wait_for("the report", || lab.status(&[]).1["followers"] != json!([]));
    let attempt = fall_behind(
        &mut leader,
        &follower,
        "blocked: waits for slow, which is over 2 commits behind",
    );
    let last = format!("n{attempt}-3.example");
    // The follower goes on before its report expires, or after that: it is never evicted.
    follower.signal(Signal::CONT);
    prints(&leader, &format!("added\t{last}"));
    has(&lab.s, "slow", &last, "block");
    let lines: Vec<_> = follower.out.try_iter().collect();
    assert!(
        !lines.iter().any(|line| line.starts_with("evicted")),
        "{lines:?}"
    );
}

#[test]
fn a_slow_follower_is_evicted() {
    let Some(lab) = Lab::new(Setup::default()) else {
        return;
    };
    let more = ["--max-lag", "2", "--slowest", "evict"];
    let mut leader = lab.publish(&more);
    let mut follower = lab.follow("slow", &[]);
    prints(&follower, "restored\t1\t3");
    wait_for("the report", || lab.status(&[]).1["followers"] != json!([]));
    let attempt = fall_behind(
        &mut leader,
        &follower,
        "blocked: evicted a follower that was over 2 commits behind",
    );
    let last = format!("n{attempt}-3.example");
    prints(&leader, &format!("added\t{last}"));
    follower.signal(Signal::CONT);
    prints(&follower, "evicted\t1");
    has(&lab.s, "slow", &last, "block");
    wait_for("a follower that is near", || {
        let (code, status) = lab.status(&["--max-lag", "0"]);
        code == Some(0) && status["followers"][0]["name"] == "slow"
    });
    follower.signal(Signal::TERM);
    assert_eq!(follower.ends(), Some(0));
}

/// With TLS, a password, and an address that is a name.
#[test]
fn units_allow_the_calls_of_etcds_client() {
    let setup = Setup {
        tls: true,
        ..Setup::default()
    };
    let Some(mut lab) = Lab::new(setup) else {
        return;
    };
    let ctl = |args: &[&str]| lab.cluster.ctl(0, args);
    ctl(&["user", "add", "root:secret"]);
    ctl(&["user", "grant-role", "root", "root"]);
    ctl(&["auth", "enable"]);
    lab.s.file("password", "secret\n");
    let url = lab.place.last_mut().unwrap();
    *url = url.replace("127.0.0.1", "localhost");
    let file = |name: &str| lab.cluster.folder.path().join(name).display().to_string();
    let (ca, cert, key) = (file("ca.pem"), file("client.pem"), file("client.key"));
    let password = lab.s.path("password").display().to_string();
    let snapshots = lab.s.path("snapshots").display().to_string();
    lab.place[3] = snapshots;
    let lab = lab.with(&["--ca", &ca, "--cert", &cert, "--key", &key]);
    let lab = lab.with(&["--user", "root", "--password-file", &password]);
    let follows = Scratch::new();
    let (Some(mut publish), Some(mut follow)) = (traced(&lab.s, &[]), traced(&follows, &[])) else {
        return;
    };
    publish.args(lab.args(&PUBLISH, &["--wait", "--watch"]));
    let mut leader = Server::of(publish);
    leader.complains(" in term 1");
    follow.args(lab.args(&[&FOLLOW[..], &["live", "--name", "a"]].concat(), &[]));
    let mut follower = Server::of(follow);
    prints(&follower, "restored\t1\t3");
    leader.answers("add new.example block\n", &["added\tnew.example"]);
    prints(&follower, "commit\t2\t4");
    end(&lab.s, &leader, Signal::USR1);
    leader.complains("a snapshot of commit 2 is saved");
    end(&follows, &follower, Signal::TERM);
    assert_eq!(follower.ends(), Some(0));
    allows_what_was_called(&follows, "sapwood-sync-follow@.service");
    leader.answers("quit\n", &[]);
    assert_eq!(leader.ends(), Some(0));
    allows_what_was_called(&lab.s, "sapwood-sync-publish@.service");
}
