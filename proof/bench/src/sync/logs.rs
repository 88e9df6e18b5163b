//! A map of `sapwood-sync` and its followers.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sapwood::qp::QpStore;
use sapwood_sync::{
    Changes, FolderLog, Follower, FollowerOptions, Kind, Log, Publisher, PublisherOptions,
    Snapshots, StoreTarget, Submitted,
};
use tokio::task::JoinHandle;

use super::{CHANGES, Ran, change, due, key, text};

type Store = Arc<QpStore<[u8]>>;

/// A way to a log: the publisher's, or a follower's of its own.
pub trait Way {
    /// Opens the log.
    fn open(&self) -> impl Future<Output = Result<Arc<dyn Log>, String>>;

    /// The bytes that came this way so far; `None` when nothing counts them.
    fn bytes(&self) -> Option<u64> {
        None
    }
}

/// The way to a log in a folder.
pub struct FolderWay<'a>(pub &'a Path);

impl Way for FolderWay<'_> {
    async fn open(&self) -> Result<Arc<dyn Log>, String> {
        let log = FolderLog::new(self.0, "bench").map_err(text)?;
        Ok(Arc::new(log))
    }
}

/// A publisher of a new log.
pub async fn lead(way: &impl Way, folder: &Path) -> Result<(Publisher, Snapshots), String> {
    let snapshots = Snapshots::in_folder(folder.join("snapshots"), "bench").map_err(text)?;
    let options = PublisherOptions::new("bench");
    let log = way.open().await?;
    let publisher = Publisher::lead(log, snapshots.clone(), Kind::Names, options).await;
    Ok((publisher.map_err(text)?, snapshots))
}

/// A follower, its map, and when it showed each commit.
pub struct One<'w, W> {
    follower: Follower<StoreTarget<Store>>,
    store: Store,
    way: &'w W,
    before: u64,
    seen: JoinHandle<Vec<Instant>>,
}

impl<'w, W: Way> One<'w, W> {
    /// Begins to follow, and to watch for commits up to a number.
    pub async fn start(
        way: &'w W,
        snapshots: &Snapshots,
        name: &str,
        last: u64,
    ) -> Result<Self, String> {
        let store: Store = Arc::new(QpStore::new().map_err(text)?);
        let log = way.open().await?;
        let follower = Follower::start(
            log,
            snapshots.clone(),
            Kind::Names,
            StoreTarget(store.clone()),
            FollowerOptions::new(name),
        );
        let mut status = follower.watch();
        let seen = tokio::spawn(async move {
            let mut seen = Vec::new();
            while (seen.len() as u64) < last && status.changed().await.is_ok() {
                let (commit, now) = (status.borrow().commit.unwrap_or(0), Instant::now());
                seen.resize(commit as usize, now);
            }
            seen
        });
        let mut one = One {
            follower,
            store,
            way,
            before: 0,
            seen,
        };
        one.follower.reached(0).await.map_err(text)?;
        one.before = way.bytes().unwrap_or(0);
        Ok(one)
    }
}

/// Publishes commits at a rate, or as fast as it goes, to followers.
pub async fn run<W: Way>(
    publisher: &Publisher,
    snapshots: &Snapshots,
    ways: &[W],
    commits: u64,
    rate: Option<u64>,
) -> Result<Ran, String> {
    let first = publisher.status().commit;
    let last = first + commits;
    let mut followers = Vec::new();
    for (at, way) in ways.iter().enumerate() {
        let name = format!("follower-{at}");
        followers.push(One::start(way, snapshots, &name, last).await?);
    }
    for one in &mut followers {
        one.follower.reached(first).await.map_err(text)?;
    }
    let (waiting, mut stored) = tokio::sync::mpsc::unbounded_channel::<Submitted>();
    let acknowledged = tokio::spawn(async move {
        let mut last = 0;
        while let Some(submitted) = stored.recv().await {
            last = submitted.stored().await.map_err(text)?;
        }
        Ok::<u64, String>(last)
    });
    let begin = Instant::now();
    for number in 0..commits {
        let mut changes = Changes::new();
        for at in 0..CHANGES {
            let (key, value) = change(first + number, at);
            changes.put(key, value).map_err(text)?;
        }
        tokio::time::sleep_until(due(begin, number, rate).into()).await;
        let submitted = publisher.submit(changes).await.map_err(text)?;
        waiting.send(submitted).map_err(|_| "the log failed")?;
    }
    drop(waiting);
    let acknowledged = acknowledged.await.map_err(text)??;
    if acknowledged != last {
        return Err(format!("commit {acknowledged} instead of {last}"));
    }
    let (mut lags, mut bytes) = (Vec::new(), 0);
    let wanted = publisher.status();
    for mut one in followers {
        one.follower.reached(last).await.map_err(text)?;
        let status = one.follower.status();
        let is_same = (status.digest, status.entries) == (wanted.digest, wanted.entries);
        if !is_same || one.store.len() as u64 != wanted.entries {
            return Err("a follower has another map than the leader".into());
        }
        let seen = one.seen.await.map_err(text)?;
        lags.extend((0..commits).map(|number| {
            let due = due(begin, number, rate);
            seen[(first + number) as usize].saturating_duration_since(due)
        }));
        bytes += match one.way.bytes() {
            Some(bytes) => bytes - one.before,
            None => status.bytes,
        };
        one.follower.stop().await.map_err(text)?;
    }
    Ok(Ran {
        time: begin.elapsed(),
        lags,
        bytes: bytes as f64 / ways.len() as f64,
    })
}

/// Publishes names, saves a snapshot, publishes more commits, and starts a follower with an empty
/// map; returns the time until the follower has the newest commit.
pub async fn recover(
    way: &impl Way,
    folder: &Path,
    names: u64,
    commits: u64,
) -> Result<Duration, String> {
    let (publisher, snapshots) = lead(way, folder).await?;
    let mut all: Vec<_> = (0..names).map(key).collect();
    all.sort_unstable();
    let list = all.iter().map(|key| (key, "192.0.2.1 and some more"));
    publisher.replace(list).await.map_err(text)?;
    publisher.snapshot().await.map_err(text)?;
    for number in 0..commits {
        let mut changes = Changes::new();
        for at in 0..CHANGES {
            let (key, value) = change(number, at);
            changes.put(key, value).map_err(text)?;
        }
        let last = publisher.submit(changes).await.map_err(text)?;
        if number + 1 == commits {
            last.stored().await.map_err(text)?;
        }
    }
    let wanted = publisher.status();
    let begin = Instant::now();
    let mut one = One::start(way, &snapshots, "recovering", 0).await?;
    one.follower.reached(wanted.commit).await.map_err(text)?;
    let time = begin.elapsed();
    if one.follower.status().digest != wanted.digest || one.store.len() as u64 != wanted.entries {
        return Err("the follower has another map than the leader".into());
    }
    one.follower.stop().await.map_err(text)?;
    publisher.close().await.map_err(text)?;
    Ok(time)
}
