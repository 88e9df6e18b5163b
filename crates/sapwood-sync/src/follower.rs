//! A map that follows its leader.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::applied::Applied;
use crate::restored::restore;
use crate::{Assembler, Digest, Error, Kind, Log, Report, Snapshots, Tail, Target};

/// How a follower behaves.
#[derive(Debug, Clone)]
pub struct FollowerOptions {
    /// Its name, unique among the followers of the map.
    pub name: String,
    /// The time between two reports to the leader. A report counts for five times as long.
    pub report_every: Duration,
    /// The longest time between two attempts to reach a service that does not answer. The first
    /// attempts come sooner.
    pub retry_at_most: Duration,
}

impl FollowerOptions {
    /// The usual ones: a report every second, an attempt at least every five seconds.
    pub fn new(name: impl Into<String>) -> Self {
        FollowerOptions {
            name: name.into(),
            report_every: Duration::from_secs(1),
            retry_at_most: Duration::from_secs(5),
        }
    }
}

/// How far a follower is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FollowerStatus {
    /// The commit that readers see; `None` before the first one.
    pub commit: Option<u64>,
    /// The leader's term in which it was written.
    pub epoch: u64,
    /// The digest of the map.
    pub digest: Digest,
    /// The entries of the map, as the log counts them.
    pub entries: u64,
    /// The log's newest commit, as far as this follower knows.
    pub head: u64,
    /// Commits applied since the start.
    pub commits: u64,
    /// Changes in them.
    pub changes: u64,
    /// Bytes of frames read since the start.
    pub bytes: u64,
    /// How often the map was made anew from a snapshot.
    pub restored: u64,
    /// How often the leader evicted this follower.
    pub evicted: u64,
    /// What holds the follower back; `None` while it follows. Readers see the old data meanwhile.
    pub trouble: Option<String>,
}

impl FollowerStatus {
    /// The commits that are known to be in the log, and that readers do not see yet.
    pub fn lag(&self) -> u64 {
        self.head.saturating_sub(self.commit.unwrap_or(0))
    }
}

/// A map that follows its leader, in tasks of a tokio runtime.
///
/// Readers see the leader's commits in order, each at once. After a start, and when the log has
/// moved on too far, they see the newest commit next, by the differences to what the map has.
///
/// ```
/// use std::sync::Arc;
///
/// use sapwood::qp::QpStore;
/// use sapwood_sync::{
///     Changes, FolderLog, Follower, FollowerOptions, Kind, Publisher, PublisherOptions, Snapshots,
///     StoreTarget,
/// };
///
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// let log = Arc::new(FolderLog::new(folder, "blocked")?);
/// let snapshots = Snapshots::in_folder(folder.join("snapshots"), "blocked")?;
/// let options = PublisherOptions::new("primary");
/// let publisher = Publisher::lead(log.clone(), snapshots.clone(), Kind::Names, options).await?;
///
/// let store = Arc::new(QpStore::<[u8]>::new()?);
/// let target = StoreTarget(store.clone());
/// let options = FollowerOptions::new("edge-1");
/// let mut follower = Follower::start(log, snapshots, Kind::Names, target, options);
///
/// let mut changes = Changes::new();
/// changes.put("ads.example", "block")?;
/// let commit = publisher.commit(changes).await?;
/// follower.reached(commit).await?;
/// assert_eq!(store.get("ads.example").as_deref(), Some(&b"block"[..]));
/// # publisher.close().await?;
/// # drop(follower.stop().await);
/// # Ok(()) }
/// ```
pub struct Follower<T> {
    status: watch::Receiver<FollowerStatus>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<T>,
    reporter: JoinHandle<()>,
    map: String,
}

impl<T: Target> Follower<T> {
    /// Begins to follow. What goes wrong is in the [`status`](Self::status), and is tried again.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(
        log: Arc<dyn Log>,
        snapshots: Snapshots,
        kind: Kind,
        target: T,
        options: FollowerOptions,
    ) -> Self {
        let (to_status, status) = watch::channel(FollowerStatus::default());
        let to_status = Arc::new(to_status);
        let (stop, stopped) = oneshot::channel();
        let map = log.map().to_owned();
        let reporter = tokio::spawn(report(log.clone(), options.clone(), to_status.clone()));
        let follow = Follow {
            log,
            snapshots,
            kind,
            options,
            status: to_status,
            applied: Applied {
                target,
                commit: 0,
                digest: Digest::default(),
                entries: 0,
            },
            is_reset: false,
        };
        Follower {
            status,
            stop: Some(stop),
            task: tokio::spawn(follow.run(stopped)),
            reporter,
            map,
        }
    }

    /// How far it is now.
    pub fn status(&self) -> FollowerStatus {
        self.status.borrow().clone()
    }

    /// Each change of the status.
    pub fn watch(&self) -> watch::Receiver<FollowerStatus> {
        self.status.clone()
    }

    /// Waits until readers see a commit.
    ///
    /// # Errors
    /// [`Error::Closed`] when the follower's task has ended.
    pub async fn reached(&mut self, commit: u64) -> Result<(), Error> {
        let reached = self.status.wait_for(|status| status.commit >= Some(commit));
        match reached.await {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::Closed(self.map.clone())),
        }
    }

    /// Ends following; the map stays as it is.
    ///
    /// # Errors
    /// [`Error::Closed`] when the follower's task has ended by a panic.
    pub async fn stop(mut self) -> Result<T, Error> {
        drop(self.stop.take());
        self.reporter.abort();
        self.task.await.map_err(|_| Error::Closed(self.map.clone()))
    }
}

/// Reports to the leader, until it is aborted.
async fn report(
    log: Arc<dyn Log>,
    options: FollowerOptions,
    status: Arc<watch::Sender<FollowerStatus>>,
) {
    let mut every = tokio::time::interval(options.report_every);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        let now = status.borrow().clone();
        if let Ok(head) = log.head().await {
            status.send_if_modified(|status| {
                let is_news = status.head < head.commit;
                status.head = status.head.max(head.commit);
                is_news
            });
        }
        let report = Report {
            follower: options.name.clone(),
            commit: now.commit.unwrap_or(0),
            trouble: now.trouble,
        };
        // A service that does not answer shows in the follower's own trouble.
        if let Err(Error::Evicted { .. }) = log.report(&report, options.report_every * 5).await {
            status.send_modify(|status| status.evicted += 1);
        }
    }
}

/// The time between two calls of a map's `reclaim`.
const RECLAIM: Duration = Duration::from_millis(200);

/// What follows.
struct Follow<T> {
    log: Arc<dyn Log>,
    snapshots: Snapshots,
    kind: Kind,
    options: FollowerOptions,
    status: Arc<watch::Sender<FollowerStatus>>,
    applied: Applied<T>,
    /// Whether the map is what the leader's was at `applied.commit`.
    is_reset: bool,
}

impl<T: Target> Follow<T> {
    /// Follows until it is stopped.
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) -> T {
        let mut pause = Duration::ZERO;
        loop {
            let began = Instant::now();
            let error = tokio::select! {
                _ = &mut stopped => return self.applied.target,
                error = self.follow() => error,
            };
            // The map can be at another commit than the log thinks: it is compared as a whole.
            if !error.may_pass() {
                self.is_reset = false;
            }
            self.status
                .send_modify(|status| status.trouble = Some(error.to_string()));
            // Whoever followed well for some time starts again at once.
            pause = match began.elapsed() > self.options.retry_at_most {
                true => Duration::from_millis(20),
                false => (pause * 2).max(Duration::from_millis(20)),
            };
            pause = pause.min(self.options.retry_at_most);
            tokio::select! {
                _ = &mut stopped => return self.applied.target,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Follows until something goes wrong.
    async fn follow(&mut self) -> Error {
        let mut tail = match self.tail().await {
            Ok(tail) => tail,
            Err(error) => return error,
        };
        self.status.send_modify(|status| status.trouble = None);
        let mut assembler = Assembler::default();
        let mut reclaim = tokio::time::interval(RECLAIM);
        reclaim.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let frame = tokio::select! {
                frame = tail.next() => frame,
                _ = reclaim.tick() => {
                    self.applied.target.reclaim();
                    continue;
                }
            };
            let made = frame.and_then(|frame| self.apply(&mut assembler, &frame));
            if let Err(error) = made {
                return error;
            }
        }
    }

    /// The log after what the map has, which is made what the leader's is first, if it is not.
    async fn tail(&mut self) -> Result<Box<dyn Tail>, Error> {
        if self.is_reset {
            match self.log.follow(self.applied.commit).await {
                Err(Error::Gap { .. }) => self.is_reset = false,
                other => return other,
            }
        }
        let (state, tail) = restore(&*self.log, &self.snapshots, self.kind).await?;
        // Readers never go back: the log has what this map has shown, or the log is another one.
        self.applied.adopt(&state)?;
        self.is_reset = true;
        self.status.send_modify(|status| {
            status.restored += 1;
            status.trouble = None;
            self.applied.tell(status);
        });
        Ok(tail)
    }

    fn apply(&mut self, assembler: &mut Assembler, frame: &crate::Frame) -> Result<(), Error> {
        let map = self.log.map();
        if frame.kind() != self.kind {
            return Err(Error::Kind {
                map: map.into(),
                wanted: self.kind,
                found: frame.kind(),
            });
        }
        if frame.is_old(self.applied.commit) {
            return Ok(());
        }
        let (first, commits) = assembler.push(frame, map)?;
        for (number, commit) in (first..).zip(&commits) {
            self.applied.apply(map, number, commit)?;
            self.status.send_modify(|status| {
                status.commits += 1;
                status.changes += commit.changes.len() as u64;
                status.epoch = frame.epoch();
                self.applied.tell(status);
            });
        }
        self.status
            .send_modify(|status| status.bytes += frame.bytes().len() as u64);
        Ok(())
    }
}

impl<T> Applied<T> {
    /// Writes into a status how far the map is.
    fn tell(&self, status: &mut FollowerStatus) {
        status.commit = Some(self.commit);
        status.head = status.head.max(self.commit);
        status.digest = self.digest;
        status.entries = self.entries;
    }
}
