//! The suite `sync`: one writer's commits on many machines, here followers in tasks of one process.
//!
//! | metric | what it is |
//! |---|---|
//! | `commits_per_s` | commits of 10 changes, as fast as it goes, until all followers show the last |
//! | `lag_p50_ms`, `lag_p99_ms` | at 1,000 commits a second: from when a commit was due until a follower showed it, over all followers and commits |
//! | `bytes_per_change` | bytes that a follower received in that time, for each change; from etcd, those of its connection |
//! | `recover_s` | until a follower that starts with nothing has a million names; for `sapwood`, from a snapshot and 1,000 commits after it |
//!
//! Engines: `sapwood-folder` (a log in a folder, made durable at each write), `sapwood-etcd`, and
//! `etcd-watch`: the same changes as plain keys of etcd, a transaction for each commit, 64 at once,
//! and a watch by each follower, which keeps what it sees in a hash map. The two with etcd start
//! one node of it, if it is installed, and need the feature `etcd`.

use std::path::Path;
use std::time::Duration;

use crate::live::Folder;
use crate::report::{Measure, Report, Samples};
use crate::suite::Options;
use crate::sync::logs::{self, FolderWay};
use crate::sync::{self, CHANGES, Ran};

const CASES: [&str; 4] = ["followers-1", "followers-4", "followers-16", "recover-1m"];
const ENGINES: [&str; 3] = ["sapwood-folder", "sapwood-etcd", "etcd-watch"];
/// Commits a second whose lag is measured.
const RATE: u64 = 1000;

/// What an engine measured, or why this machine does not have it.
type Measured = Result<Result<Vec<Measure>, String>, String>;

/// Runs the suite.
pub fn run(options: &Options) -> Result<Report, String> {
    let mut report = Report::new("sync");
    let cases = options.chosen(CASES);
    if cases.is_empty() {
        return Err(format!("no such case; cases: {}", CASES.join(", ")));
    }
    println!("{}", report.machine);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(sync::text)?;
    let paced = options.size(5000, 500) as u64;
    for (at, case) in cases.iter().enumerate() {
        let followers = case.strip_prefix("followers-");
        let followers = followers.and_then(|count| count.parse::<usize>().ok());
        let names = options.size(1_000_000, 20_000) as u64;
        report.begin(match followers {
            Some(count) => format!(
                "{case}: {count} followers; commits of {CHANGES} changes, whose keys and values \
                 have {:.1} bytes a change",
                sync::payload(paced)
            ),
            None => format!("{case}: {names} names"),
        });
        let mut samples = Samples::new(case, &ENGINES);
        for round in options.rounds(&format!("sync: {case}"), cases.len() - at) {
            let mut engines = ENGINES;
            engines.rotate_left(round as usize % ENGINES.len());
            for engine in engines {
                if !options.wants_engine(engine) {
                    continue;
                }
                let measured = runtime.block_on(async {
                    match followers {
                        Some(count) => follow(engine, count, paced).await,
                        None => recover(engine, names, paced.min(1000)).await,
                    }
                });
                match measured.map_err(|why| format!("{case}, {engine}: {why}"))? {
                    Ok(measures) => measures.iter().for_each(|m| samples.add(engine, m)),
                    Err(why) if round == 0 => report.note(format!("{engine}: {why}")),
                    Err(_) => (),
                }
            }
        }
        report.end(samples, &["etcd-watch"]);
    }
    Ok(report)
}

/// A folder for a log: on a disk, as far as this can be told.
fn folder() -> Result<Folder, String> {
    Folder::new(&std::env::temp_dir())
}

async fn follow(engine: &str, count: usize, paced: u64) -> Measured {
    let folder = folder()?;
    let (flood, paced) = match engine {
        "sapwood-folder" => {
            let ways: Vec<_> = (0..count).map(|_| FolderWay(folder.path())).collect();
            both(&ways[0], &ways, folder.path(), paced).await?
        }
        _ => match follow_etcd(engine, count, paced, folder.path()).await? {
            Ok(ran) => ran,
            Err(why) => return Ok(Err(why)),
        },
    };
    let mut lags = paced.1.lags;
    lags.sort_unstable();
    let at = |share: f64| {
        let place = ((lags.len() - 1) as f64 * share) as usize;
        lags[place].as_secs_f64() * 1e3
    };
    let changes = (paced.0 * CHANGES as u64) as f64;
    let rate = flood.0 as f64 / flood.1.time.as_secs_f64();
    Ok(Ok(vec![
        Measure::new("commits_per_s", rate, "1/s"),
        Measure::new("lag_p50_ms", at(0.5), "ms"),
        Measure::new("lag_p99_ms", at(0.99), "ms"),
        Measure::new("bytes_per_change", paced.1.bytes / changes, "B"),
    ]))
}

/// Commits, and what their run gave.
type Counted = (u64, Ran);

/// A run as fast as it goes, and one at the rate.
async fn both<W: logs::Way>(
    leader: &W,
    ways: &[W],
    folder: &Path,
    paced: u64,
) -> Result<(Counted, Counted), String> {
    let (publisher, snapshots) = logs::lead(leader, folder).await?;
    let flood = logs::run(&publisher, &snapshots, ways, 2 * paced, None).await?;
    let rated = logs::run(&publisher, &snapshots, ways, paced, Some(RATE)).await?;
    publisher.close().await.map_err(sync::text)?;
    Ok(((2 * paced, flood), (paced, rated)))
}

async fn recover(engine: &str, names: u64, commits: u64) -> Measured {
    let folder = folder()?;
    let time = match engine {
        "sapwood-folder" => {
            let way = FolderWay(folder.path());
            logs::recover(&way, folder.path(), names, commits).await?
        }
        _ => match recover_etcd(engine, names, commits, folder.path()).await? {
            Ok(time) => time,
            Err(why) => return Ok(Err(why)),
        },
    };
    Ok(Ok(vec![Measure::new("recover_s", time.as_secs_f64(), "s")]))
}

#[cfg(not(feature = "etcd"))]
const WITHOUT: &str = "built without the feature etcd";

#[cfg(not(feature = "etcd"))]
async fn follow_etcd(
    _engine: &str,
    _count: usize,
    _paced: u64,
    _folder: &Path,
) -> Result<Result<(Counted, Counted), String>, String> {
    Ok(Err(WITHOUT.into()))
}

#[cfg(not(feature = "etcd"))]
async fn recover_etcd(
    _engine: &str,
    _names: u64,
    _commits: u64,
    _folder: &Path,
) -> Result<Result<Duration, String>, String> {
    Ok(Err(WITHOUT.into()))
}

#[cfg(feature = "etcd")]
async fn follow_etcd(
    engine: &str,
    count: usize,
    paced: u64,
    folder: &Path,
) -> Result<Result<(Counted, Counted), String>, String> {
    use crate::sync::etcd::{Node, plain};

    let node = match Node::start(folder).await? {
        Ok(node) => node,
        Err(why) => return Ok(Err(why)),
    };
    let leader = node.way().await?;
    let mut ways = Vec::new();
    for _ in 0..count {
        ways.push(node.way().await?);
    }
    if engine == "sapwood-etcd" {
        return both(&leader, &ways, folder, paced).await.map(Ok);
    }
    let flood = plain::run(&leader, &ways, 0, 2 * paced, None).await?;
    let rated = plain::run(&leader, &ways, 2 * paced, paced, Some(RATE)).await?;
    Ok(Ok(((2 * paced, flood), (paced, rated))))
}

#[cfg(feature = "etcd")]
async fn recover_etcd(
    engine: &str,
    names: u64,
    commits: u64,
    folder: &Path,
) -> Result<Result<Duration, String>, String> {
    use crate::sync::etcd::{Node, plain};

    let node = match Node::start(folder).await? {
        Ok(node) => node,
        Err(why) => return Ok(Err(why)),
    };
    let way = node.way().await?;
    match engine {
        "sapwood-etcd" => logs::recover(&way, folder, names, commits).await.map(Ok),
        _ => plain::recover(&way, names).await.map(Ok),
    }
}
