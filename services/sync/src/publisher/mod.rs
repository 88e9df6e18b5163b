//! The leader: one writer's commits, in order.

mod options;
mod sound;

use std::sync::Arc;
use std::time::{Duration, Instant};

use sapwood::qp::{QpSnapshot, QpStoreMemory};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

pub use options::{PublisherOptions, PublisherStatus, Slowest};
use sound::{newest_term, sound};

use crate::overlay::Overlay;
use crate::restored::{State, restore};
use crate::targets::difference;
use crate::{
    Changes, Commit, Error, Frame, Head, Kind, Leadership, Log, LogId, Manifest, Snapshots,
    StoreTarget, Target, Term,
};

/// The one writer of a map that others follow.
///
/// [`Follower`](crate::Follower) has an example.
pub struct Publisher {
    requests: mpsc::Sender<Request>,
    status: watch::Receiver<PublisherStatus>,
    state: Arc<sapwood::qp::QpStore<[u8]>>,
    task: JoinHandle<Result<(), Error>>,
    map: String,
    kind: Kind,
}

enum Request {
    Commit(Changes, oneshot::Sender<Result<u64, Error>>),
    Snapshot(oneshot::Sender<Result<Manifest, Error>>),
}

impl Publisher {
    /// Becomes the leader of a map, and reads its newest state.
    ///
    /// # Errors
    /// [`Error::Led`] when another process leads and the options say not to wait; [`Error::Kind`];
    /// [`Error::Gap`] when the log is there but the snapshots before it are not; [`Error::Lost`]
    /// when followers or snapshots have later commits than the log; [`Error::Damaged`] and
    /// [`Error::Digest`] for what is not as it was written; those of the services. With
    /// [`PublisherOptions::anew`], a new history begins after these last four.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn lead(
        log: Arc<dyn Log>,
        snapshots: Snapshots,
        kind: Kind,
        options: PublisherOptions,
    ) -> Result<Self, Error> {
        let mut leadership = log.lead(kind, &options.name, options.wait).await?;
        let mut anew = None;
        let (state, head) = match sound(&*log, &snapshots, kind).await {
            Err(error) if options.anew && error.is_about_history() => {
                let above = newest_term(&*log, &snapshots).await?;
                leadership.renew(above).await?;
                anew = Some(error.to_string());
                let (state, head, _) = restore(&*log, &snapshots, kind).await?;
                (state, head)
            }
            sound => sound?,
        };
        let newest = snapshots.newest(head.log).await?;
        let status = PublisherStatus {
            epoch: leadership.epoch(),
            log: head.log,
            anew,
            commit: state.commit,
            digest: state.digest,
            entries: state.entries,
            snapshot: newest.map_or(0, |newest| newest.commit),
            ..PublisherStatus::default()
        };
        let (to_status, status) = watch::channel(status);
        let (requests, waiting) = mpsc::channel(options.queue.max(1));
        let map = log.map().to_owned();
        let store = state.target.0.clone();
        let publish = Publish {
            log,
            snapshots,
            kind,
            options,
            leadership,
            id: head.log,
            has_written: false,
            state,
            status: to_status,
            since: (0, 0),
            saving: None,
            asked: Vec::new(),
            looked: Instant::now() - LOOK,
            healed: None,
            tells_wait: false,
        };
        Ok(Publisher {
            requests,
            status,
            state: store,
            task: tokio::spawn(publish.run(waiting)),
            map,
            kind,
        })
    }

    /// Publishes changes as one commit; returns its number when it is stored for good.
    ///
    /// # Errors
    /// [`Error::Deposed`] when this process leads no more; what was waiting is not in the log then,
    /// unless its answer was lost, which the text says. [`Error::NoSpace`]: nothing was written.
    /// [`Error::Change`] for changes that a map of this kind cannot have ([`Kind::check`]).
    pub async fn commit(&self, changes: Changes) -> Result<u64, Error> {
        self.submit(changes).await?.stored().await
    }

    /// Puts changes into the queue as one commit, without waiting until it is stored. Commits are
    /// numbered in the order of these calls. What waits at once travels together, so this is the
    /// way to many commits a second. It waits only while the queue is full.
    ///
    /// # Errors
    /// [`Error::Deposed`] when this process leads no more; [`Error::Change`] for changes that a map
    /// of this kind cannot have ([`Kind::check`]).
    pub async fn submit(&self, changes: Changes) -> Result<Submitted, Error> {
        self.kind.check(&changes)?;
        let (reply, answer) = oneshot::channel();
        let request = Request::Commit(changes, reply);
        if self.requests.send(request).await.is_err() {
            return Err(self.ended());
        }
        Ok(Submitted {
            answer,
            status: self.status.clone(),
            map: self.map.clone(),
        })
    }

    /// Makes the map what a sorted list of entries says, by one commit of the differences. Returns
    /// the number of the newest commit, and how many differences there were.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn replace<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        sorted: impl IntoIterator<Item = (K, V)>,
    ) -> Result<(u64, usize), Error> {
        let differences = difference(&StoreTarget(self.state.clone()), sorted)?;
        match differences.len() {
            0 => Ok((self.status.borrow().commit, 0)),
            count => Ok((self.commit(differences).await?, count)),
        }
    }

    /// The map, as it was after the newest commit in the log.
    pub fn entries(&self) -> QpSnapshot<[u8]> {
        self.state.snapshot()
    }

    /// Saves a snapshot now.
    ///
    /// # Errors
    /// Those of the object store; [`Error::Deposed`].
    pub async fn snapshot(&self) -> Result<Manifest, Error> {
        let (reply, answer) = oneshot::channel();
        if self.requests.send(Request::Snapshot(reply)).await.is_err() {
            return Err(self.ended());
        }
        answer.await.unwrap_or_else(|_| Err(self.ended()))
    }

    /// The memory of the leader's own map.
    pub fn memory(&self) -> QpStoreMemory {
        self.state.memory()
    }

    /// Whether the term has ended, so that nothing can be published any more. The status has what
    /// ended it.
    pub fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    /// How far it is.
    pub fn status(&self) -> PublisherStatus {
        self.status.borrow().clone()
    }

    /// Each change of the status.
    pub fn watch(&self) -> watch::Receiver<PublisherStatus> {
        self.status.clone()
    }

    /// Writes what waits, and ends the term.
    ///
    /// # Errors
    /// [`Error::Deposed`] when the term had ended before; those of the service.
    pub async fn close(self) -> Result<(), Error> {
        let Publisher {
            requests,
            task,
            map,
            ..
        } = self;
        drop(requests);
        task.await.unwrap_or(Err(Error::Closed(map)))
    }

    fn ended(&self) -> Error {
        ended(&self.map, &self.status)
    }
}

/// The error of a publisher whose term has ended.
fn ended(map: &str, status: &watch::Receiver<PublisherStatus>) -> Error {
    Error::Deposed {
        map: map.into(),
        what: status.borrow().trouble.clone(),
    }
}

/// A commit that waits for the log; from [`Publisher::submit`].
#[must_use = "the commit may fail"]
pub struct Submitted {
    answer: oneshot::Receiver<Result<u64, Error>>,
    status: watch::Receiver<PublisherStatus>,
    map: String,
}

impl Submitted {
    /// Waits until the commit is stored for good; returns its number.
    ///
    /// # Errors
    /// As [`Publisher::commit`].
    pub async fn stored(self) -> Result<u64, Error> {
        let Submitted {
            answer,
            status,
            map,
        } = self;
        answer.await.unwrap_or_else(|_| Err(ended(&map, &status)))
    }
}

/// The most commits, and about the most bytes, that are written at once.
const BATCH: (usize, usize) = (4096, 4 << 20);
/// The time between two looks at the followers.
const LOOK: Duration = Duration::from_millis(500);
/// The shortest and the longest time between two snapshots for followers that need one. It doubles
/// while that does not help them.
const HEAL: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(600));

/// What publishes.
struct Publish {
    log: Arc<dyn Log>,
    snapshots: Snapshots,
    kind: Kind,
    options: PublisherOptions,
    leadership: Box<dyn Leadership>,
    id: Option<LogId>,
    /// Whether this term has written a commit.
    has_written: bool,
    state: State,
    status: watch::Sender<PublisherStatus>,
    /// Commits and bytes since the newest snapshot was begun.
    since: (u64, u64),
    saving: Option<Saving>,
    /// Who waits for the snapshot after that.
    asked: Vec<oneshot::Sender<Result<Manifest, Error>>>,
    looked: Instant,
    /// When a snapshot was saved last for a follower that needs it still, and the time until the
    /// next.
    healed: Option<(Instant, Duration)>,
    /// Whether the status tells that it waits for a follower.
    tells_wait: bool,
}

/// A snapshot that is being saved.
struct Saving {
    task: JoinHandle<Result<Manifest, Error>>,
    replies: Vec<oneshot::Sender<Result<Manifest, Error>>>,
}

/// A commit that waits, and who waits for it.
type Waiting = (Changes, oneshot::Sender<Result<u64, Error>>);

impl Publish {
    /// Publishes until nobody has the publisher any more, or the term has ended.
    async fn run(mut self, mut requests: mpsc::Receiver<Request>) -> Result<(), Error> {
        let mut tick = tokio::time::interval(LOOK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let request = tokio::select! {
                request = requests.recv() => request,
                _ = tick.tick() => {
                    self.look_after().await?;
                    continue;
                }
            };
            let Some(request) = request else { break };
            let mut next = Some(request);
            let (mut batch, mut bytes): (Vec<Waiting>, _) = (Vec::new(), 0);
            while let Some(request) = next.take() {
                match request {
                    Request::Snapshot(reply) => self.save(Some(reply)),
                    Request::Commit(changes, reply) => {
                        bytes += changes.bytes().len();
                        batch.push((changes, reply));
                    }
                }
                if batch.len() < BATCH.0 && bytes < BATCH.1 {
                    next = requests.try_recv().ok();
                }
            }
            self.publish(batch).await?;
            if self.looked.elapsed() >= LOOK {
                self.look_after().await?;
            }
            // Whoever closes the publisher does not wait for the slowest.
            while self.must_wait() && !requests.is_closed() {
                tokio::time::sleep(LOOK / 5).await;
                self.look_after().await?;
            }
        }
        while let Some(saving) = self.saving.take() {
            self.saved(saving).await;
        }
        self.leadership.resign().await
    }

    /// Writes commits that waited, and then makes them in the leader's own map, one by one.
    async fn publish(&mut self, batch: Vec<Waiting>) -> Result<(), Error> {
        let mut commits = Vec::new();
        let mut replies = Vec::new();
        let mut overlay = Overlay::new(&self.state);
        for (changes, reply) in batch {
            overlay.add(&changes);
            commits.push(Commit {
                changes,
                digest: overlay.digest,
            });
            replies.push(reply);
        }
        let mut replies = replies.into_iter();
        let mut commits = commits.into_iter();
        let (epoch, first) = (self.leadership.epoch(), self.state.commit + 1);
        let limit = self.leadership.frame_limit();
        let frames = Frame::of_commits(self.kind, epoch, first, commits.as_slice(), limit);
        let frames = match frames {
            Ok(frames) => frames,
            Err(error) => {
                for reply in replies {
                    drop(reply.send(Err(Error::Change(error.to_string()))));
                }
                return Ok(());
            }
        };
        let mut is_torn = false;
        for frame in frames {
            if let Err(error) = self.leadership.append(&frame).await {
                let text = match &error {
                    Error::Deposed {
                        what: Some(what), ..
                    } => what.clone(),
                    error => error.to_string(),
                };
                let is_over = is_torn || !matches!(error, Error::NoSpace { .. });
                self.status
                    .send_modify(|status| status.trouble = Some(text.clone()));
                let map = self.log.map();
                for reply in replies {
                    drop(reply.send(Err(match &error {
                        Error::NoSpace { place, what } => Error::NoSpace {
                            place: place.clone(),
                            what: what.clone(),
                        },
                        _ => Error::Deposed {
                            map: map.into(),
                            what: Some(text.clone()),
                        },
                    })));
                }
                return if is_over { Err(error) } else { Ok(()) };
            }
            is_torn = frame.last() < frame.first();
            self.has_written |= !is_torn;
            let bytes = frame.bytes().len() as u64;
            self.since.1 += bytes;
            let before = self.state.commit;
            for number in before + 1..=frame.last() {
                let commit = commits
                    .next()
                    .expect("a frame has the commits it was made of");
                // The leader's own map never differs from what was written.
                self.state.apply(self.log.map(), (epoch, number), &commit)?;
            }
            let count = self.state.commit - before;
            self.since.0 += count;
            self.status.send_modify(|status| {
                status.commits += count;
                status.commit = self.state.commit;
                status.digest = self.state.digest;
                status.entries = self.state.entries;
                status.bytes += bytes;
                status.trouble = None;
            });
            // Who hears of a commit finds it in the status.
            for (number, reply) in (before + 1..=self.state.commit).zip(replies.by_ref()) {
                drop(reply.send(Ok(number)));
            }
        }
        let (commits, bytes) = self.since;
        if commits >= self.options.snapshot_commits || bytes >= self.options.snapshot_bytes {
            self.save(None);
        }
        Ok(())
    }

    /// Looks at the followers, at the term, and at the snapshot that is being saved.
    async fn look_after(&mut self) -> Result<(), Error> {
        self.looked = Instant::now();
        self.state.target.reclaim();
        if self
            .saving
            .as_ref()
            .is_some_and(|saving| saving.task.is_finished())
        {
            let saving = self.saving.take().expect("looked at above");
            self.saved(saving).await;
        }
        let ended = self.leadership.look().await;
        if ended.is_some() || !self.leadership.leads() {
            let mut what = ended.unwrap_or_else(|| "the lease has ended".into());
            let leader = self.log.leader().await.ok().flatten();
            if let Some(leader) = leader.filter(|leader| *leader != self.options.name) {
                what = format!("{what}, and {leader} leads");
            }
            self.status
                .send_modify(|status| status.trouble = Some(what.clone()));
            return Err(Error::Deposed {
                map: self.log.map().into(),
                what: Some(what),
            });
        }
        // A service that does not answer shows when something is written.
        let Ok(followers) = self.log.followers().await else {
            return Ok(());
        };
        let head = self.head();
        if let Some(what) = followers.iter().find_map(|report| report.beyond(&head)) {
            self.is_beyond(what).await?;
        }
        match followers.iter().any(|report| report.needs_snapshot) {
            true => self.heal(),
            false => self.healed = None,
        }
        let head = self.state.commit;
        let (mut lag, mut slowest, mut count) = (0, None, followers.len());
        for follower in followers {
            let behind = head.saturating_sub(follower.commit);
            if behind > self.options.max_lag && self.options.slowest == Slowest::Evict {
                let why = format!("{behind} commits behind, {} allowed", self.options.max_lag);
                if self
                    .log
                    .evict(&follower.follower, follower.commit, &why)
                    .await
                    .is_ok()
                {
                    self.status.send_modify(|status| status.evicted += 1);
                    count -= 1;
                    continue;
                }
            }
            if behind > lag {
                (lag, slowest) = (behind, Some(follower.follower));
            }
        }
        let most = self.options.max_lag;
        let waits_for = slowest.filter(|_| self.options.slowest == Slowest::Wait && lag > most);
        let tells_wait = std::mem::replace(&mut self.tells_wait, waits_for.is_some());
        self.status.send_modify(|status| {
            status.lag = lag;
            status.followers = count;
            match waits_for {
                Some(name) => {
                    let what = format!("waits for {name}, which is over {most} commits behind");
                    status.trouble = Some(what);
                }
                None if tells_wait => status.trouble = None,
                None => {}
            }
        });
        Ok(())
    }

    /// How far the log is.
    fn head(&self) -> Head {
        Head {
            log: self.id,
            term: Term::default(),
            epoch: self.state.epoch,
            commit: self.state.commit,
        }
    }

    /// A follower has what the log has not: it was put back before this term, or emptied.
    async fn is_beyond(&mut self, what: String) -> Result<(), Error> {
        if !self.options.anew {
            self.status
                .send_modify(|status| status.trouble = Some(what.clone()));
            return Err(Error::lost(self.log.map(), what));
        }
        // What a term has written shows followers that its log is the newer one. An empty log waits
        // for its first commit.
        if self.has_written || self.state.commit == 0 {
            return Ok(());
        }
        let (reply, _) = oneshot::channel();
        self.publish(vec![(Changes::new(), reply)]).await
    }

    /// Saves a snapshot for a follower that cannot read the log, or the newest snapshot. The state
    /// of this term is whole, whatever befell what it was written to.
    fn heal(&mut self) {
        let (is_due, pause) = match self.healed {
            None => (true, HEAL.0),
            Some((last, pause)) => (last.elapsed() >= pause, (pause * 2).min(HEAL.1)),
        };
        if self.saving.is_none() && is_due {
            self.healed = Some((Instant::now(), pause));
            self.save(None);
        }
    }

    /// Whether a follower is so far behind that the leader waits.
    fn must_wait(&self) -> bool {
        let lag = self.status.borrow().lag;
        self.options.slowest == Slowest::Wait && lag > self.options.max_lag
    }

    /// Begins to save a snapshot. While one is being saved, those who ask wait for the next, which
    /// has what was published before they asked.
    fn save(&mut self, reply: Option<oneshot::Sender<Result<Manifest, Error>>>) {
        self.asked.extend(reply);
        if self.saving.is_some() {
            return;
        }
        let (snapshots, snapshot) = (self.snapshots.clone(), self.state.target.0.snapshot());
        let (kind, digest) = (self.kind, self.state.digest);
        let head = Head {
            epoch: self.leadership.epoch(),
            ..self.head()
        };
        let task = tokio::spawn(async move { snapshots.save(kind, head, digest, snapshot).await });
        self.since = (0, 0);
        self.saving = Some(Saving {
            task,
            replies: std::mem::take(&mut self.asked),
        });
    }

    /// Ends a snapshot: trims the log, and answers who asked for it.
    async fn saved(&mut self, saving: Saving) {
        let map = || self.log.map().to_owned();
        let result = saving
            .task
            .await
            .unwrap_or_else(|_| Err(Error::Closed(map())));
        match &result {
            Ok(manifest) => {
                self.status
                    .send_modify(|status| status.snapshot = manifest.commit);
                if let Err(error) = self.leadership.trim(manifest.before).await {
                    self.status
                        .send_modify(|status| status.trouble = Some(error.to_string()));
                }
            }
            Err(error) => self
                .status
                .send_modify(|status| status.trouble = Some(error.to_string())),
        }
        for reply in saving.replies {
            let answer = match &result {
                Ok(manifest) => Ok(manifest.clone()),
                Err(error) => Err(Error::Unavailable {
                    place: self.log.map().into(),
                    what: error.to_string(),
                }),
            };
            drop(reply.send(answer));
        }
        if !self.asked.is_empty() {
            self.save(None);
        }
    }
}
