//! `sync status` shows which process leads a map, which followers are behind, and whether the log
//! is what they follow.

use std::time::Duration;

use sapwood_sync::{Error as SyncError, Head, Log, Manifest, Report, Snapshots};
use serde_json::{Value, json};

use super::place;
use crate::cli::sync::StatusArgs;
use crate::errors::{Answer, Outcome};
use crate::output::Output;

/// The longest wait for an entry that the log should have.
const LIMIT: Duration = Duration::from_secs(10);
/// How often a log may be trimmed while it is looked at.
const TRIES: usize = 5;

/// Prints the state of a log; the answer is whether a process leads, the log is sound, and no
/// follower is behind or has what the log has not.
pub fn run(args: &StatusArgs) -> Outcome {
    let runtime = place::runtime()?;
    let (log, snapshots) = place::find(&runtime, &args.place)?;
    let (kind, leader, head, followers, newest, trouble) = runtime.block_on(async {
        let followers = log.followers().await?;
        // The head comes after the reports, so that no lag is negative.
        let (kind, leader, head) = (log.kind().await?, log.leader().await?, log.head().await?);
        let newest = snapshots.newest(head.log).await?;
        let trouble = trouble(&*log, &snapshots).await?;
        Ok::<_, SyncError>((kind, leader, head, followers, newest, trouble))
    })?;
    let lag = |commit: u64| head.commit.saturating_sub(commit);
    let beyond = |report: &Report| {
        let another = report.is_of_another(&head);
        report
            .beyond(&head)
            .or_else(|| another.then(|| format!("follower {} has another log", report.follower)))
    };
    // A follower may not have noticed yet that its log is another one.
    let trouble_of = |report: &Report| report.trouble.clone().or_else(|| beyond(report));
    let behind = followers
        .iter()
        .filter(|report| trouble_of(report).is_some() || lag(report.commit) > args.max_lag);
    let behind = behind.count();
    let count = followers.iter().filter(|it| beyond(it).is_some()).count();
    let mut out = Output::lines(args.json);
    if args.json {
        let followers: Vec<Value> = followers
            .iter()
            .map(|follower| {
                json!({
                    "name": follower.follower,
                    "commit": follower.commit,
                    "lag": lag(follower.commit),
                    "trouble": trouble_of(follower),
                })
            })
            .collect();
        out.document(&json!({
            "map": args.place.map,
            "kind": kind,
            "leader": leader,
            "term": head.epoch,
            "commit": head.commit,
            "behind": behind,
            "beyond": count,
            "log": head.log,
            "trouble": trouble,
            "snapshot": newest,
            "followers": followers,
        }))?;
    } else {
        let none = || "-".to_owned();
        let snapshot = newest.as_ref();
        let of = |figure: fn(&Manifest) -> u64| {
            snapshot.map_or_else(none, |newest| figure(newest).to_string())
        };
        for (name, value) in [
            ("map", args.place.map.clone()),
            ("kind", kind.map_or_else(none, |kind| kind.to_string())),
            ("leader", leader.clone().unwrap_or_else(none)),
            ("term", head.epoch.to_string()),
            ("commit", head.commit.to_string()),
            ("followers", followers.len().to_string()),
            ("behind", behind.to_string()),
            ("snapshot", of(|newest| newest.commit)),
            ("snapshot-entries", of(|newest| newest.entries)),
            ("snapshot-bytes", of(|newest| newest.bytes)),
            ("log", head.log.map_or_else(none, |log| log.to_string())),
            ("beyond", count.to_string()),
            ("trouble", trouble.clone().unwrap_or_default()),
        ] {
            out.fields(&[name.as_bytes(), value.as_bytes()])?;
        }
        for follower in &followers {
            let [commit, lag] = [follower.commit, lag(follower.commit)].map(|n| n.to_string());
            let trouble = trouble_of(follower).unwrap_or_default();
            out.fields(&[
                b"follower",
                follower.follower.as_bytes(),
                commit.as_bytes(),
                lag.as_bytes(),
                trouble.as_bytes(),
            ])?;
        }
    }
    out.flush()?;
    let is_well = leader.is_some() && behind == 0 && trouble.is_none();
    Ok(Answer::from_bool(is_well))
}

/// What is wrong with a log, if anything is. A service that does not answer is an error.
async fn trouble(log: &dyn Log, snapshots: &Snapshots) -> Result<Option<String>, SyncError> {
    let mut tries = 0;
    loop {
        tries += 1;
        match look(log, snapshots).await {
            Err(SyncError::Gap { .. }) if tries < TRIES => {}
            Err(error) if error.may_pass() => return Err(error),
            Err(error) => return Ok(Some(error.to_string())),
            Ok(trouble) => return Ok(trouble),
        }
    }
}

/// Looks whether the log goes back to its newest snapshot, and reads its newest entry.
async fn look(log: &dyn Log, snapshots: &Snapshots) -> Result<Option<String>, SyncError> {
    let head = log.head().await?;
    let newest = snapshots.newest(head.log).await?;
    let Head { commit, .. } = head;
    if commit == 0 {
        let others = snapshots.newest_of_others(head.log).await?;
        let others = others.filter(|other| other.commit > 0);
        return Ok(others.map(|other| {
            format!(
                "the log is empty, and there is a snapshot of commit {}",
                other.commit
            )
        }));
    }
    if head.log.is_none() {
        return Ok(Some("the log has lost its identity".into()));
    }
    let first = newest.map_or(0, |newest| newest.commit);
    log.follow(first).await?;
    if first == commit {
        return Ok(None);
    }
    let mut tail = log.follow(commit - 1).await?;
    let read = async {
        loop {
            let frame = tail.next().await?;
            if frame.last() >= commit {
                return Ok::<_, SyncError>(());
            }
        }
    };
    match tokio::time::timeout(LIMIT, read).await {
        Ok(read) => read.map(|()| None),
        Err(_) => Ok(Some(format!("commit {commit} cannot be read"))),
    }
}
