//! The log in etcd: who may write, and what readers get.

use std::time::{Duration, Instant};

use sapwood_sync::{
    Assembler, Changes, Commit, Digest, Error, EtcdLog, Frame, Kind, Leadership, Log, Report, Tail,
};
use tokio::time::{sleep, timeout};

use crate::cluster::{Cluster, Setup};

pub const LONG: Duration = Duration::from_secs(20);

/// A commit whose digest is its number.
pub fn commit(number: u64, bytes: usize) -> Commit {
    let mut changes = Changes::new();
    changes
        .put(format!("key{number}"), vec![number as u8; bytes])
        .unwrap();
    Commit {
        changes,
        digest: Digest(number.into()),
    }
}

/// The frames of some commits.
pub fn frames(leader: &dyn Leadership, first: u64, commits: &[Commit]) -> Vec<Frame> {
    let limit = leader.frame_limit();
    Frame::of_commits(Kind::Names, leader.epoch(), first, commits, limit).unwrap()
}

/// Appends commits of these numbers, each in a frame of its own.
pub async fn append(leader: &mut dyn Leadership, numbers: std::ops::RangeInclusive<u64>) {
    for number in numbers {
        for frame in frames(leader, number, &[commit(number, 20)]) {
            leader.append(&frame).await.unwrap();
        }
    }
}

/// The newest commit. A call that a paused node did not answer is made again.
async fn newest(log: &EtcdLog) -> u64 {
    let asking = async {
        loop {
            match log.head().await {
                Ok(head) => return head.commit,
                Err(error) => assert!(error.may_pass(), "{error}"),
            }
        }
    };
    timeout(LONG, asking).await.unwrap()
}

/// Reads until a commit has come, and returns the numbers (and digests) of all that came.
pub async fn read(tail: &mut dyn Tail, until: u64) -> Vec<u64> {
    let mut assembler = Assembler::default();
    let mut seen = Vec::new();
    while seen.last() != Some(&until) {
        let frame = timeout(LONG, tail.next()).await.unwrap().unwrap();
        let (first, commits) = assembler.push(&frame, "test").unwrap();
        for (number, commit) in (first..).zip(commits) {
            assert_eq!(commit.digest, Digest(number.into()));
            seen.push(number);
        }
    }
    seen
}

pub async fn lead(log: &EtcdLog) -> Box<dyn Leadership> {
    log.lead(Kind::Names, "test", false).await.unwrap()
}

pub fn numbers(range: std::ops::RangeInclusive<u64>) -> Vec<u64> {
    range.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_come_to_followers_in_order() {
    let Some(cluster) = Cluster::start(Setup::default()).await else {
        return;
    };
    let mut options = cluster.options();
    options.frame_limit = 1_000;
    let log = EtcdLog::connect(options, "zone").await.unwrap();
    assert_eq!(log.kind().await.unwrap(), None);
    assert_eq!(log.leader().await.unwrap(), None);
    let mut early = log.follow(0).await.unwrap();
    let mut leader = lead(&log).await;
    assert_eq!(log.kind().await.unwrap(), Some(Kind::Names));
    assert_eq!(log.leader().await.unwrap().as_deref(), Some("test"));
    append(&mut *leader, 1..=10).await;
    // Several in one frame, and one in many.
    let some: Vec<_> = (11..=14).map(|number| commit(number, 100)).collect();
    for frame in frames(&*leader, 11, &some) {
        leader.append(&frame).await.unwrap();
    }
    let pieces = frames(&*leader, 15, &[commit(15, 5_000)]);
    assert!(pieces.len() > 4);
    for frame in &pieces {
        // Repeated, as after a lost answer of which nobody knows.
        assert!(log.head().await.unwrap().commit < 15);
        leader.append(frame).await.unwrap();
    }
    append(&mut *leader, 16..=16).await;
    let head = log.head().await.unwrap();
    assert_eq!((head.epoch, head.commit), (1, 16));
    assert_eq!(read(&mut *early, 16).await, numbers(1..=16));
    for start in 0..16 {
        let mut tail = log.follow(start).await.unwrap();
        let seen = read(&mut *tail, 16).await;
        // A frame may begin earlier.
        assert!(seen[0] <= start + 1, "{start}: {seen:?}");
        assert_eq!(seen, numbers(seen[0]..=16));
    }
    // A frame that does not follow is refused, and does no harm.
    let wrong = frames(&*leader, 18, &[commit(18, 1)]);
    assert!(matches!(
        leader.append(&wrong[0]).await,
        Err(Error::Change(_))
    ));
    append(&mut *leader, 17..=17).await;
    assert_eq!(read(&mut *early, 17).await, [17]);
    // Beyond the head: somebody has restored an old etcd.
    let error = log.follow(99).await.err().unwrap();
    assert!(error.to_string().contains("ends with commit 17"), "{error}");
    let routes = log.lead(Kind::Routes, "other", false).await.err().unwrap();
    assert!(
        matches!(
            routes,
            Error::Kind {
                found: Kind::Names,
                ..
            }
        ),
        "{routes}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deposed_leader_writes_nothing() {
    let Some(cluster) = Cluster::start(Setup::default()).await else {
        return;
    };
    let log = cluster.log("zone").await;
    let mut first = lead(&log).await;
    append(&mut *first, 1..=3).await;
    let led = log.lead(Kind::Names, "second", false).await.err().unwrap();
    assert!(
        matches!(&led, Error::Led { leader, .. } if leader == "test"),
        "{led}"
    );
    // The first leader leaves half a commit behind.
    let long = Frame::of_commits(Kind::Names, 1, 4, &[commit(4, 3_000)], 1_000).unwrap();
    first.append(&long[0]).await.unwrap();
    first.append(&long[1]).await.unwrap();
    // Somebody takes its lease, as etcd does when its process is paused.
    let lease = cluster.ctl(0, &["lease", "list"]);
    let lease = lease.lines().last().unwrap().to_owned();
    cluster.ctl(0, &["lease", "revoke", &lease]);
    let mut second = log.lead(Kind::Names, "second", true).await.unwrap();
    assert_eq!(second.epoch(), 2);
    let refused = first.append(&long[2]).await.unwrap_err();
    assert!(
        matches!(&refused, Error::Deposed { what: Some(what), .. } if what == "second leads"),
        "{refused}"
    );
    assert!(!first.leads());
    assert!(matches!(first.trim(1).await, Err(Error::Deposed { .. })));
    let mut tail = log.follow(0).await.unwrap();
    append(&mut *second, 4..=6).await;
    assert_eq!(read(&mut *tail, 6).await, numbers(1..=6));
    let mut tail = log.follow(3).await.unwrap();
    assert_eq!(read(&mut *tail, 6).await, numbers(4..=6));
    // A term that is given up is free at once.
    second.resign().await.unwrap();
    assert_eq!(log.leader().await.unwrap(), None);
    let third = lead(&log).await;
    assert_eq!(third.epoch(), 3);
    drop(third);
    let begin = Instant::now();
    while log.leader().await.unwrap().is_some() {
        assert!(
            begin.elapsed() < Duration::from_secs(2),
            "a dropped term goes on"
        );
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_are_renewed_and_waited_for() {
    let Some(cluster) = Cluster::start(Setup::default()).await else {
        return;
    };
    let mut options = cluster.options();
    options.lease = Duration::from_secs(2);
    let log = EtcdLog::connect(options, "zone").await.unwrap();
    let mut first = lead(&log).await;
    sleep(Duration::from_secs(3)).await;
    assert!(first.leads(), "the lease was not renewed");
    append(&mut *first, 1..=1).await;
    let other = cluster.log("zone").await;
    let waiting = tokio::spawn(async move { other.lead(Kind::Names, "second", true).await });
    sleep(Duration::from_millis(500)).await;
    assert!(!waiting.is_finished());
    // The runtime's timer stands still with the process; here it is etcd that stands still.
    cluster.pause(0);
    let frame = frames(&*first, 2, &[commit(2, 1)]).remove(0);
    let lost = first.append(&frame).await.unwrap_err();
    assert!(
        matches!(&lost, Error::Deposed { what: Some(what), .. } if what.contains("not known")),
        "{lost}"
    );
    cluster.resume(0);
    // The other one has waited through the pause, too.
    let mut second = timeout(LONG, waiting).await.unwrap().unwrap().unwrap();
    // The paused etcd may have stored what it had read.
    let next = log.head().await.unwrap().commit + 1;
    append(&mut *second, next..=4).await;
    let mut tail = log.follow(0).await.unwrap();
    assert_eq!(read(&mut *tail, 4).await, numbers(1..=4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trimmed_commits_are_a_gap_for_those_who_lack_them() {
    let Some(cluster) = Cluster::start(Setup::default()).await else {
        return;
    };
    let log = cluster.log("zone").await;
    let mut leader = lead(&log).await;
    append(&mut *leader, 1..=20).await;
    let some: Vec<_> = (21..=30).map(|number| commit(number, 9)).collect();
    for frame in frames(&*leader, 21, &some) {
        leader.append(&frame).await.unwrap();
    }
    let mut slow = log.follow(2).await.unwrap();
    let mut synced = log.follow(30).await.unwrap();
    assert!(
        timeout(Duration::from_millis(200), synced.next())
            .await
            .is_err()
    );
    // Commits 21 to 30 are one frame, so it stays.
    leader.trim(25).await.unwrap();
    for start in [0, 2, 19] {
        let error = log.follow(start).await.err().unwrap();
        assert!(
            matches!(error, Error::Gap { wanted, .. } if wanted == start + 1),
            "{error}"
        );
    }
    for start in [20, 24, 25, 29] {
        let mut tail = log.follow(start).await.unwrap();
        assert_eq!(read(&mut *tail, 30).await, numbers(21..=30));
    }
    append(&mut *leader, 31..=31).await;
    assert_eq!(read(&mut *synced, 31).await, [31]);
    // The slow one has a page, at most, and then learns of the gap.
    let mut seen = 2;
    let error = loop {
        match timeout(LONG, slow.next()).await.unwrap() {
            Ok(frame) => seen = frame.last(),
            Err(error) => break Some(error),
        }
        if seen == 31 {
            break None;
        }
    };
    assert!(
        matches!(error, None | Some(Error::Gap { .. })),
        "{seen}: {error:?}"
    );
    leader.trim(31).await.unwrap();
    leader.trim(31).await.unwrap();
    assert!(matches!(
        log.follow(30).await,
        Err(Error::Gap { wanted: 31, .. })
    ));
    let mut tail = log.follow(31).await.unwrap();
    append(&mut *leader, 32..=33).await;
    assert_eq!(read(&mut *tail, 33).await, [32, 33]);
    assert_eq!(log.head().await.unwrap().commit, 33);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tail_outlives_its_node_and_a_compaction() {
    let Some(mut cluster) = Cluster::start(Setup {
        nodes: 3,
        ..Setup::default()
    })
    .await
    else {
        return;
    };
    // No term ends while a majority of nodes is there.
    let mut options = cluster.options();
    options.lease = Duration::from_secs(15);
    let log = EtcdLog::connect(options, "zone").await.unwrap();
    let mut leader = lead(&log).await;
    append(&mut *leader, 1..=5).await;
    // The first node is the one that this tail uses.
    let reader = cluster.log("zone").await;
    let mut tail = reader.follow(0).await.unwrap();
    assert_eq!(read(&mut *tail, 5).await, numbers(1..=5));
    // Killed in the middle of appends.
    let appending = tokio::spawn(async move {
        append(&mut *leader, 6..=200).await;
        leader
    });
    assert!(!read(&mut *tail, 20).await.is_empty());
    cluster.kill(0);
    assert_eq!(read(&mut *tail, 200).await, numbers(21..=200));
    let mut leader = appending.await.unwrap();
    // Paused: no connection ends, but nothing is heard.
    cluster.run(0);
    cluster.wait().await;
    for node in [1, 2] {
        cluster.pause(node);
        let next = newest(&log).await + 1;
        append(&mut *leader, next..=next + 20).await;
        assert_eq!(read(&mut *tail, next + 20).await, numbers(next..=next + 20));
        cluster.resume(node);
        cluster.wait().await;
    }
    // Compacted up to the newest revision while the tail is cut off.
    let next = log.head().await.unwrap().commit + 1;
    for node in [0, 1] {
        cluster.kill(node);
    }
    for node in [0, 1] {
        cluster.run(node);
    }
    cluster.wait().await;
    // The term may have ended meanwhile, or not.
    drop(leader);
    let leading = timeout(LONG, log.lead(Kind::Names, "test", true)).await;
    let mut leader = leading.unwrap().unwrap();
    append(&mut *leader, next..=next + 5).await;
    let state = cluster.ctl(2, &["get", "/sapwood/zone/head", "-w", "json"]);
    let revision = state.split("\"revision\":").nth(1).unwrap();
    let revision: String = revision.chars().take_while(char::is_ascii_digit).collect();
    cluster.ctl(2, &["compact", &revision]);
    append(&mut *leader, next + 6..=next + 7).await;
    assert_eq!(read(&mut *tail, next + 7).await, numbers(next..=next + 7));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_report_and_are_evicted() {
    let Some(cluster) = Cluster::start(Setup::default()).await else {
        return;
    };
    let (log, life) = (cluster.log("zone").await, Duration::from_secs(2));
    let report = |follower: &str, commit| Report {
        follower: follower.into(),
        commit,
        ..Default::default()
    };
    assert_eq!(log.followers().await.unwrap(), []);
    log.report(&report("b", 3), life).await.unwrap();
    log.report(&report("a", 1), life).await.unwrap();
    log.report(&report("a", 2), life).await.unwrap();
    assert_eq!(
        log.followers().await.unwrap(),
        [report("a", 2), report("b", 3)]
    );
    log.evict("a", 2, "too slow").await.unwrap();
    assert_eq!(log.followers().await.unwrap(), [report("b", 3)]);
    let evicted = log.report(&report("a", 2), life).await.unwrap_err();
    let is_told =
        |error: &Error| matches!(error, Error::Evicted { at: 2, why, .. } if why == "too slow");
    assert!(is_told(&evicted), "{evicted}");
    log.report(&report("a", 4), life).await.unwrap();
    assert_eq!(
        log.followers().await.unwrap(),
        [report("a", 4), report("b", 3)]
    );
    // One goes on, the other's report goes.
    let begin = Instant::now();
    while log.followers().await.unwrap().len() == 2 {
        assert!(begin.elapsed() < LONG);
        log.report(&report("a", 5), life).await.unwrap();
        sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(log.followers().await.unwrap(), [report("a", 5)]);
    // A report comes back after its lease has ended.
    log.report(&report("b", 6), life).await.unwrap();
    assert_eq!(log.followers().await.unwrap().len(), 2);
}

/// etcd 3.4 needs the key that is written after the alarm: see docs/sync.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_writes_stay_refused_after_a_crash() {
    use etcd_client::{AlarmAction, AlarmType, Client};
    let Some(mut cluster) = Cluster::start(Setup::default()).await else {
        return;
    };
    cluster.ctl(0, &["put", "some", "1"]);
    let mut client = Client::connect(cluster.addresses(), None).await.unwrap();
    let raised = client.alarm(AlarmAction::Activate, AlarmType::Nospace, None);
    raised.await.unwrap();
    cluster.ctl(0, &["del", "some"]);
    let refused = cluster.try_ctl(0, &["put", "refused", "1"]).unwrap_err();
    assert!(refused.contains("space exceeded"), "{refused}");
    cluster.ctl(0, &["alarm", "disarm"]);
    cluster.ctl(0, &["put", "disarmed", "1"]);
    tokio::time::sleep(Duration::from_millis(500)).await;
    cluster.kill(0);
    cluster.run(0);
    cluster.wait().await;
    assert_eq!(cluster.ctl(0, &["get", "refused"]), "");
    assert!(cluster.ctl(0, &["get", "disarmed"]).contains("disarmed"));
}
