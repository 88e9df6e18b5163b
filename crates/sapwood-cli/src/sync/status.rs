//! `sync status` shows which process leads a map, and which followers are behind.

use serde_json::{Value, json};

use super::place;
use crate::cli::sync::StatusArgs;
use crate::errors::{Answer, Outcome};
use crate::output::Output;

/// Prints the state of a log; the answer is whether a process leads and no follower is behind.
pub fn run(args: &StatusArgs) -> Outcome {
    let runtime = place::runtime()?;
    let (log, snapshots) = place::find(&runtime, &args.place)?;
    let (kind, leader, head, followers, newest) = runtime.block_on(async {
        let followers = log.followers().await?;
        // The head comes after the reports, so that no lag is negative.
        let (kind, leader, head) = (log.kind().await?, log.leader().await?, log.head().await?);
        Ok::<_, sapwood_sync::Error>((kind, leader, head, followers, snapshots.newest().await?))
    })?;
    let lag = |commit: u64| head.commit.saturating_sub(commit);
    let behind = followers
        .iter()
        .filter(|follower| follower.trouble.is_some() || lag(follower.commit) > args.max_lag);
    let behind = behind.count();
    let mut out = Output::lines(args.json);
    if args.json {
        let followers: Vec<Value> = followers
            .iter()
            .map(|follower| {
                json!({
                    "name": follower.follower,
                    "commit": follower.commit,
                    "lag": lag(follower.commit),
                    "trouble": follower.trouble,
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
            "snapshot": newest,
            "followers": followers,
        }))?;
    } else {
        let none = || "-".to_owned();
        let snapshot = newest.as_ref();
        let of = |figure: fn(&sapwood_sync::Manifest) -> u64| {
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
        ] {
            out.fields(&[name.as_bytes(), value.as_bytes()])?;
        }
        for follower in &followers {
            let [commit, lag] = [follower.commit, lag(follower.commit)].map(|n| n.to_string());
            out.fields(&[
                b"follower",
                follower.follower.as_bytes(),
                commit.as_bytes(),
                lag.as_bytes(),
                follower.trouble.as_deref().unwrap_or_default().as_bytes(),
            ])?;
        }
    }
    out.flush()?;
    Ok(Answer::from_bool(leader.is_some() && behind == 0))
}
