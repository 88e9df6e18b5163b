//! A map that follows its leader.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::applied::Applied;
use crate::lost::{Verdict, judge};
use crate::restored::{State, restore};
use crate::{
    Assembler, Digest, Error, Frame, Head, Kind, Log, LogId, Report, Snapshots, Tail, Target, Term,
};

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
    /// Whether the map becomes empty when the log is. Without this, a log that was emptied, or that
    /// has lost its identity, is a [trouble](FollowerStatus::trouble), and readers see the old
    /// data: what was lost there was not removed by the leader. A commit that removes all entries
    /// is followed in any case.
    pub adopt_empty: bool,
}

impl FollowerOptions {
    /// The usual ones: a report every second, an attempt at least every five seconds, an empty log
    /// is not adopted.
    pub fn new(name: impl Into<String>) -> Self {
        FollowerOptions {
            name: name.into(),
            report_every: Duration::from_secs(1),
            retry_at_most: Duration::from_secs(5),
            adopt_empty: false,
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
    /// The log from which it came.
    pub log: Option<LogId>,
    /// The newest term of that log which is known.
    pub term: Term,
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
    /// How often the log had become another one, or was written anew from an earlier state, and the
    /// map was made what it says.
    pub replaced: u64,
    /// How often the leader evicted this follower.
    pub evicted: u64,
    /// What holds the follower back; `None` while it follows. Readers see the old data meanwhile.
    pub trouble: Option<String>,
    /// Whether the trouble is that the log is gone, empty, or an earlier state of itself.
    pub lost: bool,
    /// Whether the trouble is that an entry of the log, or a snapshot, is missing or damaged. The
    /// follower then asks the leader for a snapshot.
    pub needs_snapshot: bool,
    /// Why the leader does not know of this follower: its reports cannot be written. It follows all
    /// the same.
    pub unreported: Option<String>,
}

impl FollowerStatus {
    /// The commits that are known to be in the log, and that readers do not see yet.
    pub fn lag(&self) -> u64 {
        self.head.saturating_sub(self.commit.unwrap_or(0))
    }

    /// Notes that nothing holds the follower back.
    fn follows(&mut self) {
        self.trouble = None;
        (self.lost, self.needs_snapshot) = (false, false);
    }

    /// The place of the map in its log.
    fn here(&self) -> Head {
        Head {
            log: self.log,
            term: self.term,
            epoch: self.epoch,
            commit: self.commit.unwrap_or(0),
        }
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
        let (to_heads, heads) = watch::channel(None);
        let reporter = report(log.clone(), options.clone(), to_status.clone(), to_heads);
        let reporter = tokio::spawn(reporter);
        let follow = Follow {
            log,
            snapshots,
            kind,
            options,
            status: to_status,
            applied: Applied {
                target,
                commit: 0,
                epoch: 0,
                digest: Digest::default(),
                entries: 0,
            },
            is_reset: false,
            heads,
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

    /// Waits until readers see a commit of the log that is followed then, or a later one.
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

/// What a look at the log has shown: how often the map had been restored and where it was before,
/// and the head.
type Look = (u64, Head, Result<Head, Error>);

/// Looks at the log's head and reports to the leader, until it is aborted.
async fn report(
    log: Arc<dyn Log>,
    options: FollowerOptions,
    status: Arc<watch::Sender<FollowerStatus>>,
    heads: watch::Sender<Option<Look>>,
) {
    let mut every = tokio::time::interval(options.report_every);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        let now = status.borrow().clone();
        let head = log.head().await;
        if let Ok(head) = &head {
            status.send_if_modified(|status| {
                let newest = head.commit.max(status.commit.unwrap_or(0));
                std::mem::replace(&mut status.head, newest) != newest
            });
        }
        heads.send_replace(Some((now.restored, now.here(), head)));
        let report = Report {
            follower: options.name.clone(),
            commit: now.commit.unwrap_or(0),
            epoch: now.epoch,
            log: now.log,
            trouble: now.trouble,
            needs_snapshot: now.needs_snapshot,
        };
        // A service that does not answer shows in the follower's own trouble.
        let unreported = match log.report(&report, options.report_every * 5).await {
            Err(Error::Evicted { .. }) => {
                status.send_modify(|status| status.evicted += 1);
                None
            }
            // So does a log that is gone.
            Err(Error::Lost { .. }) => None,
            Err(error) if !error.may_pass() => Some(error.to_string()),
            _ => None,
        };
        status.send_if_modified(|status| {
            let is_news = status.unreported != unreported;
            status.unreported = unreported;
            is_news
        });
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
    /// What the log's head was at the last look.
    heads: watch::Receiver<Option<Look>>,
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
            self.status.send_modify(|status| {
                status.trouble = Some(error.to_string());
                status.lost = matches!(error, Error::Lost { .. });
                status.needs_snapshot = !status.lost && error.is_about_history();
            });
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
        self.status.send_modify(FollowerStatus::follows);
        let mut assembler = Assembler::default();
        let mut reclaim = tokio::time::interval(RECLAIM);
        reclaim.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let frame = tokio::select! {
                frame = tail.next() => frame,
                looked = self.heads.changed() => match looked.map(|()| self.look()) {
                    Ok(Err(error)) => return error,
                    _ => continue,
                },
                _ = reclaim.tick() => {
                    self.applied.target.reclaim();
                    continue;
                }
            };
            let made = match frame {
                Ok(frame) => self.take(&mut assembler, &frame).await,
                Err(error) => Err(error),
            };
            if let Err(error) = made {
                return error;
            }
        }
    }

    /// Compares the log's head with the map, as both were when the reporter looked.
    fn look(&mut self) -> Result<(), Error> {
        let (restored, here, head) = match &*self.heads.borrow_and_update() {
            Some((restored, here, Ok(head))) => (*restored, *here, *head),
            // A service that does not answer shows when the next frame is awaited. What else is
            // wrong shows when the log is followed anew.
            Some((_, _, Err(error))) if !error.may_pass() => {
                let (place, what) = (self.log.map().into(), error.to_string());
                return Err(Error::Unavailable { place, what });
            }
            _ => return Ok(()),
        };
        // A look that began before the map was compared with the log says nothing.
        if restored != self.status.borrow().restored {
            return Ok(());
        }
        match judge(&here, &head) {
            Verdict::Same => {
                self.know(head.term);
                Ok(())
            }
            Verdict::Empty(what) | Verdict::Older(what) | Verdict::Other(what) => {
                Err(Error::lost(self.log.map(), what))
            }
        }
    }

    /// Whether a log with this head is another one than the map's, and may be adopted.
    fn is_another(&self, head: &Head) -> Result<bool, Error> {
        let here = self.status.borrow().here();
        match judge(&here, head) {
            Verdict::Same => Ok(false),
            Verdict::Other(_) => Ok(true),
            Verdict::Empty(_) if self.options.adopt_empty => Ok(true),
            Verdict::Empty(what) | Verdict::Older(what) => Err(Error::lost(self.log.map(), what)),
        }
    }

    /// The log after what the map has, which is made what the leader's is first, if it is not.
    async fn tail(&mut self) -> Result<Box<dyn Tail>, Error> {
        let head = self.log.head().await?;
        if self.is_another(&head)? {
            self.is_reset = false;
        }
        if self.is_reset {
            match self.log.follow(self.applied.commit).await {
                Err(Error::Gap { .. }) => self.is_reset = false,
                other => return other,
            }
        }
        let (state, head, tail) = restore(&*self.log, &self.snapshots, self.kind).await?;
        let is_another = self.is_another(&head)?;
        if !self.options.adopt_empty {
            self.refuse_nothing(&state, &head).await?;
        }
        // Readers never go back: the log has what this map has shown, or the log is another one.
        self.applied.adopt(&state)?;
        self.is_reset = true;
        self.status.send_modify(|status| {
            status.restored += 1;
            status.replaced += u64::from(is_another);
            status.follows();
            (status.log, status.term) = (head.log, head.term);
            status.head = self.applied.commit;
            self.applied.tell(status);
        });
        Ok(tail)
    }

    /// Refuses to empty a map because a log is empty or has no identity, whatever the map had
    /// before this process.
    async fn refuse_nothing(&mut self, state: &State, head: &Head) -> Result<(), Error> {
        let what = match (state.commit, head.log) {
            (0, _) => "the log is empty",
            (_, None) => "the log has no identity",
            _ => return Ok(()),
        };
        let mut has_entries = false;
        let end = self.applied.target.for_each(&mut |_, _| {
            has_entries = true;
            // One is enough.
            Err(Error::Closed(String::new()))
        });
        let had = match (has_entries, end) {
            (false, end) => {
                end?;
                let others = self.snapshots.newest_of_others(head.log).await?;
                match others.filter(|other| state.commit == 0 && other.commit > 0) {
                    Some(other) => format!("there is a snapshot of commit {}", other.commit),
                    None => return Ok(()),
                }
            }
            _ => "the map has entries".into(),
        };
        let what = format!("{what}, and {had}: it is not adopted");
        Err(Error::lost(self.log.map(), what))
    }

    /// Notes a term, if it is the newest one.
    fn know(&mut self, term: Term) {
        self.status.send_if_modified(|status| {
            if term.number > status.term.number {
                status.term = term;
            }
            false
        });
    }

    /// Applies a frame. The first one of a term waits until it is known which term that is.
    async fn take(&mut self, assembler: &mut Assembler, frame: &Frame) -> Result<(), Error> {
        if frame.epoch() > self.status.borrow().term.number {
            let head = self.log.head().await?;
            self.know(head.term);
        }
        self.apply(assembler, frame)
    }

    fn apply(&mut self, assembler: &mut Assembler, frame: &Frame) -> Result<(), Error> {
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
            self.applied.apply(map, (frame.epoch(), number), commit)?;
            self.status.send_modify(|status| {
                status.commits += 1;
                status.changes += commit.changes.len() as u64;
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
        status.epoch = self.epoch;
        status.head = status.head.max(self.commit);
        status.digest = self.digest;
        status.entries = self.entries;
    }
}
