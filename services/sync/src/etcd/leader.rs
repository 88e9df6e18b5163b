//! A term as leader: its lease, its frames, its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use etcd_client::{
    Compare, CompareOp, DeleteOptions, GetOptions, PutOptions, SortOrder, SortTarget, Txn, TxnOp,
    TxnOpResponse, TxnResponse,
};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::followers::{renew, seconds};
use super::keys::{Position, term_from_text, term_to_text};
use super::service::{Failure, Why};
use super::{Shared, State};
use crate::log::Meta;
use crate::{Error, Frame, Kind, Leadership, LogId, Term};

/// How often a process that waits for its term looks whether the leader is gone.
const POLL: Duration = Duration::from_millis(200);

/// A term as leader.
pub(super) struct Leader {
    shared: Arc<Shared>,
    kind: Kind,
    term: Term,
    id: Option<LogId>,
    /// The revision that created the leader's key. No later key has it, unless etcd is put back to
    /// an earlier state: then the key of the term tells.
    fence: i64,
    position: Position,
    lease: Arc<Lease>,
    /// Dropped when the term ends by this process's will; then the lease is revoked.
    _running: watch::Sender<()>,
}

/// The lease of a term.
struct Lease {
    id: i64,
    life: Duration,
    begin: Instant,
    /// When it ends, if it is not renewed: milliseconds after `begin`.
    ends: AtomicU64,
    has_ended: AtomicBool,
}

impl Lease {
    fn new(id: i64, life: Duration, asked: Instant) -> Self {
        let lease = Lease {
            id,
            life,
            begin: asked,
            ends: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
        };
        lease.renewed(asked);
        lease
    }

    /// The lease was renewed by a request that began at this time.
    fn renewed(&self, asked: Instant) {
        let ends = (asked + self.life).duration_since(self.begin).as_millis() as u64;
        self.ends.fetch_max(ends, Ordering::Relaxed);
    }

    /// When it ends, if it is not renewed.
    fn ends(&self) -> Instant {
        self.begin + Duration::from_millis(self.ends.load(Ordering::Relaxed))
    }

    fn holds(&self) -> bool {
        // Once ended, it stays so: also when a late answer says that it was renewed.
        if Instant::now() >= self.ends() {
            self.has_ended.store(true, Ordering::Relaxed);
        }
        !self.has_ended.load(Ordering::Relaxed)
    }

    fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }
}

impl Leader {
    /// Begins a term, when nobody leads or nobody leads any more.
    pub(super) async fn begin(
        shared: &Arc<Shared>,
        kind: Kind,
        name: &str,
        wait: bool,
    ) -> Result<Leader, Error> {
        let mut lease: Option<Lease> = None;
        let mut has_waited = false;
        loop {
            let state = match shared.state().await {
                // Whoever waits for the other leader's end waits for etcd, too.
                Err(Error::Unavailable { .. }) if has_waited => {
                    sleep(POLL).await;
                    continue;
                }
                state => state?,
            };
            if let Some(found) = state
                .meta
                .as_ref()
                .map(|meta| meta.kind)
                .filter(|found| *found != kind)
            {
                return Err(Error::Kind {
                    map: shared.map.clone(),
                    wanted: kind,
                    found,
                });
            }
            match (&state.leader, lease.take()) {
                // This process, also when etcd's answer to the transaction was lost.
                (Some(leader), Some(own)) if leader.lease() == own.id && own.holds() => {
                    return Ok(Self::start(
                        shared,
                        kind,
                        &state,
                        leader.create_revision(),
                        own,
                    ));
                }
                (Some(leader), own) => {
                    if let Some(own) = own {
                        revoke(shared, own.id).await;
                    }
                    if !wait {
                        return Err(Error::Led {
                            map: shared.map.clone(),
                            leader: String::from_utf8_lossy(leader.value()).into_owned(),
                        });
                    }
                    has_waited = true;
                    sleep(POLL).await;
                }
                (None, own) => {
                    let own = match own.filter(Lease::holds) {
                        Some(own) => own,
                        None => grant(shared).await?,
                    };
                    match claim(shared, kind, name, &state, own.id).await {
                        Ok(()) => lease = Some(own),
                        // The next turn of the loop shows what became of it.
                        Err(failure) if failure.why == Why::Unknown => lease = Some(own),
                        Err(failure) => {
                            revoke(shared, own.id).await;
                            return Err(failure.into());
                        }
                    }
                }
            }
        }
    }

    fn start(shared: &Arc<Shared>, kind: Kind, state: &State, fence: i64, lease: Lease) -> Self {
        let lease = Arc::new(lease);
        let (running, ended) = watch::channel(());
        tokio::spawn(keep(shared.clone(), lease.clone(), ended));
        Leader {
            shared: shared.clone(),
            kind,
            term: state.term,
            id: state.head().log,
            fence,
            position: state.position,
            lease,
            _running: running,
        }
    }

    fn deposed(&self, what: impl Into<String>) -> Error {
        self.lease.end();
        Error::Deposed {
            map: self.shared.map.clone(),
            what: Some(what.into()),
        }
    }

    /// The transaction that appends a frame. When it does nothing, it tells why.
    fn transaction(&self, frame: &Frame, after: Position) -> Txn {
        let keys = &self.shared.keys;
        let (key, head) = (keys.frame(frame), keys.head());
        Txn::new()
            .when(
                self.holds()
                    .into_iter()
                    .chain([Compare::value(
                        &*head,
                        CompareOp::Equal,
                        self.position.to_text(),
                    )])
                    .collect::<Vec<_>>(),
            )
            .and_then([
                TxnOp::put(&*key, frame.bytes(), None),
                TxnOp::put(&*head, after.to_text(), None),
            ])
            .or_else([
                TxnOp::get(&*key, None),
                TxnOp::get(&*head, None),
                TxnOp::get(keys.leader(), None),
                TxnOp::get(keys.epoch(), None),
            ])
    }

    /// What holds while this is the newest term.
    fn holds(&self) -> [Compare; 2] {
        let keys = &self.shared.keys;
        [
            Compare::create_revision(keys.leader(), CompareOp::Equal, self.fence),
            Compare::value(keys.epoch(), CompareOp::Equal, term_to_text(self.term)),
        ]
    }

    /// What shows that the log is not the one that this term writes to.
    fn lost(&self, head: Option<Position>, term: Option<Term>) -> Option<String> {
        let Some(head) = head else {
            return Some("the log is gone from etcd".into());
        };
        let here = self.position.commit;
        let is_older = head.commit < here || term.is_none_or(|it| it.number < self.term.number);
        is_older.then(|| {
            format!(
                "the log was put back to an earlier state: it ends with commit {}, and commit \
                 {here} was there",
                head.commit
            )
        })
    }

    /// What a transaction tells that did nothing: `Ok` when the frame is there already, from an
    /// earlier transaction whose answer was lost.
    fn refused(&self, frame: &Frame, is_open: bool, answer: &TxnResponse) -> Result<(), Error> {
        let mut values = answer.op_responses().into_iter().map(|response| {
            let TxnOpResponse::Get(mut get) = response else {
                return None;
            };
            get.take_kvs().pop()
        });
        let mut next = || values.next().flatten();
        let (there, head, leader, term) = (next(), next(), next(), next());
        // The key has the term's number, so nobody but this term has written it.
        if there.is_some_and(|there| there.value() == frame.bytes()) {
            return Ok(());
        }
        let head = head.and_then(|head| Position::from_text(head.value()));
        let term = term.and_then(|term| term_from_text(term.value()));
        let own = leader
            .as_ref()
            .is_some_and(|leader| leader.create_revision() == self.fence);
        let mut what = match (&leader, self.lost(head, term)) {
            (Some(leader), _) if !own => {
                format!("{} leads", String::from_utf8_lossy(leader.value()))
            }
            (_, Some(what)) => what,
            (None, _) => "the lease has ended".into(),
            (Some(_), None) => {
                let here = self.position;
                format!("the head of the log is {head:?} instead of {here:?}")
            }
        };
        // The next leader may have deleted it, when its followers had it.
        if is_open && head.is_none_or(|head| head.commit >= frame.first()) {
            what += "; whether the frame was stored is not known";
        }
        Err(self.deposed(what))
    }
}

/// Grants the lease of a term.
async fn grant(shared: &Shared) -> Result<Lease, Error> {
    let (life, asked) = (shared.options.lease, Instant::now());
    let ttl = seconds(life);
    let granted = shared
        .service
        .call(|mut client| async move { client.lease_grant(ttl, None).await })
        .await?;
    // etcd may have granted a longer one; it grants no shorter one.
    Ok(Lease::new(granted.id(), life, asked))
}

/// Takes the leader's key and the next term's number, if both are as they were read.
async fn claim(
    shared: &Shared,
    kind: Kind,
    name: &str,
    state: &State,
    lease: i64,
) -> Result<(), Failure> {
    let keys = &shared.keys;
    let unchanged =
        |key: String| Compare::mod_revision(key, CompareOp::Less, state.revision.saturating_add(1));
    let term = Term::begin(state.term.number.max(state.position.epoch) + 1);
    // A log that has lost its identity gets another one.
    let known = state.meta.clone().filter(|meta| meta.log.is_some());
    let meta = known.unwrap_or_else(|| Meta::new(kind));
    let txn = Txn::new()
        .when([
            Compare::create_revision(keys.leader(), CompareOp::Equal, 0),
            unchanged(keys.epoch()),
            unchanged(keys.head()),
            unchanged(keys.meta()),
        ])
        .and_then([
            TxnOp::put(
                keys.leader(),
                name,
                Some(PutOptions::new().with_lease(lease)),
            ),
            TxnOp::put(keys.epoch(), term_to_text(term), None),
            TxnOp::put(keys.head(), state.position.to_text(), None),
            TxnOp::put(
                keys.meta(),
                serde_json::to_vec(&meta).expect("it is JSON"),
                None,
            ),
        ]);
    shared
        .service
        .once(|mut client| async move { client.txn(txn).await })
        .await?;
    Ok(())
}

/// Ends a lease, if etcd answers; it ends by itself otherwise.
async fn revoke(shared: &Shared, id: i64) {
    let _ = shared
        .service
        .once(|mut client| async move { client.lease_revoke(id).await })
        .await;
}

/// Renews the lease of a term until the term ends, and revokes it then.
async fn keep(shared: Arc<Shared>, lease: Arc<Lease>, mut running: watch::Receiver<()>) {
    let mut pause = (lease.life / 3).saturating_sub(lease.begin.elapsed());
    loop {
        tokio::select! {
            // The sender never sends: this is its drop.
            _ = running.changed() => break,
            () = sleep(pause) => {}
        }
        if !lease.holds() {
            break;
        }
        let asked = Instant::now();
        let renewal = async {
            match renew(&shared, lease.id).await {
                Ok(true) => lease.renewed(asked),
                Ok(false) => lease.end(),
                Err(_) => {}
            }
            lease.ends().duration_since(asked) > lease.life / 2
        };
        let is_renewed = tokio::select! {
            _ = running.changed() => break,
            is_renewed = renewal => is_renewed,
        };
        pause = if is_renewed {
            lease.life / 3
        } else {
            POLL.min(lease.life / 10)
        };
    }
    lease.end();
    revoke(&shared, lease.id).await;
}

#[async_trait]
impl Leadership for Leader {
    fn epoch(&self) -> u64 {
        self.term.number
    }

    fn frame_limit(&self) -> usize {
        self.shared.options.frame_limit
    }

    async fn append(&mut self, frame: &Frame) -> Result<(), Error> {
        let after = self.position.after(frame);
        let Some(after) =
            after.filter(|_| frame.epoch() == self.term.number && frame.kind() == self.kind)
        else {
            return Err(Error::Change(format!(
                "{}: a frame of {}, term {}, commit {}, piece {} does not follow on {:?} in term {}",
                self.shared.map,
                frame.kind(),
                frame.epoch(),
                frame.first(),
                frame.piece(),
                self.position,
                self.term.number
            )));
        };
        // Whether an earlier transaction may be done yet.
        let mut is_open = false;
        let mut pause = Duration::from_millis(10);
        loop {
            if !self.lease.holds() {
                let open = "whether the frame is stored is not known";
                return Err(self.deposed(if is_open {
                    format!("the lease has ended without an answer, and {open}")
                } else {
                    "the lease has ended".into()
                }));
            }
            let txn = self.transaction(frame, after);
            let answer = self
                .shared
                .service
                .once(|mut client| async move { client.txn(txn).await })
                .await;
            match answer {
                Ok(answer) if answer.succeeded() => break,
                Ok(answer) => {
                    self.refused(frame, is_open, &answer)?;
                    break;
                }
                Err(failure) if failure.why == Why::Unknown => {
                    is_open = true;
                    sleep(pause).await;
                    pause = (pause * 2).min(POLL);
                }
                // etcd says so before a transaction, and after one that it has done: it sees that
                // the database is full after others have filled it. The key shows which it was.
                Err(failure) if failure.why == Why::NoSpace && !is_open => {
                    match self.is_stored(frame).await {
                        Ok(true) => break,
                        Ok(false) => return Err(failure.into()),
                        Err(_) => {
                            self.settled(frame, failure.error).await?;
                            break;
                        }
                    }
                }
                Err(failure) if is_open => {
                    // An earlier transaction may come late. The end of the term decides.
                    self.settled(frame, failure.error).await?;
                    break;
                }
                Err(failure) => return Err(failure.into()),
            }
        }
        self.position = after;
        Ok(())
    }

    async fn trim(&mut self, commit: u64) -> Result<(), Error> {
        if !self.leads() {
            return Err(self.deposed("the lease has ended"));
        }
        let keys = &self.shared.keys;
        let service = &self.shared.service;
        let mut bound = keys.start_of(commit.saturating_add(1));
        // A frame goes when all of its commits may.
        let log = keys.log();
        let mut found = service
            .call(|mut client| {
                let options = GetOptions::new()
                    .with_range(&*bound)
                    .with_sort(SortTarget::Key, SortOrder::Descend)
                    .with_limit(1);
                let log = &*log;
                async move { client.get(log, Some(options)).await }
            })
            .await?;
        let Some(newest) = found.take_kvs().pop() else {
            return Ok(());
        };
        let (key, value) = newest.into_key_value();
        let place = self.shared.place(&String::from_utf8_lossy(&key));
        let newest = Frame::from_bytes(value, &place)?;
        if newest.last() > commit {
            bound = keys.start_of(newest.first());
        }
        let delete = DeleteOptions::new().with_range(&*bound);
        let deleted = service
            .call(|mut client| {
                let txn = Txn::new()
                    .when(self.holds())
                    .and_then([TxnOp::delete(&*log, Some(delete.clone()))]);
                async move { client.txn(txn).await }
            })
            .await;
        let revision = match deleted {
            Ok(answer) if !answer.succeeded() => {
                return Err(self.deposed("another term has begun"));
            }
            Ok(answer) => answer.header().map(|header| header.revision()),
            Err(failure) if failure.why == Why::NoSpace => {
                // A full etcd takes no transactions, but it deletes.
                let answer = service
                    .call(|mut client| {
                        let (log, delete) = (&*log, delete.clone());
                        async move { client.delete(log, Some(delete)).await }
                    })
                    .await?;
                answer.header().map(|header| header.revision())
            }
            Err(failure) => return Err(failure.into()),
        };
        let Some(revision) = revision.filter(|_| self.shared.options.compact) else {
            return Ok(());
        };
        let compacted = service
            .call(|mut client| async move { client.compact(revision, None).await })
            .await;
        match compacted {
            // Somebody else was faster.
            Err(failure) if failure.why == Why::Compacted => Ok(()),
            result => result.map(drop).map_err(Error::from),
        }
    }

    async fn renew(&mut self, epoch: u64) -> Result<(), Error> {
        let keys = &self.shared.keys;
        let (term, meta) = (
            Term::begin(self.term.number.max(epoch) + 1),
            Meta::new(self.kind),
        );
        let id = meta.log;
        let meta = serde_json::to_vec(&meta).expect("it is JSON");
        let (log, end, position) = (keys.log(), keys.log_end(), Position::default());
        let renewed = self
            .shared
            .service
            .call(|mut client| {
                let delete = DeleteOptions::new().with_range(&*end);
                // The second one is there when an answer was lost.
                let mark = Compare::value(keys.epoch(), CompareOp::Equal, term_to_text(term));
                let txn = Txn::new()
                    .when(self.holds())
                    .and_then([
                        TxnOp::put(keys.epoch(), term_to_text(term), None),
                        TxnOp::put(keys.head(), position.to_text(), None),
                        TxnOp::put(keys.meta(), &*meta, None),
                        TxnOp::delete(&*log, Some(delete)),
                    ])
                    .or_else([TxnOp::txn(Txn::new().when([mark]))]);
                async move { client.txn(txn).await }
            })
            .await?;
        let is_done = renewed.succeeded()
            || renewed
                .op_responses()
                .iter()
                .any(|it| matches!(it, TxnOpResponse::Txn(txn) if txn.succeeded()));
        if !is_done {
            return Err(self.deposed("another term has begun"));
        }
        (self.term, self.position) = (term, position);
        self.id = id;
        Ok(())
    }

    fn leads(&self) -> bool {
        self.lease.holds()
    }

    async fn look(&mut self) -> Option<String> {
        // Nobody else writes while this term goes on, and it writes nothing now.
        let state = self.shared.state().await.ok()?;
        let head = (state.term.number > 0).then_some(state.position);
        let lost = self.lost(head, Some(state.term));
        lost.or_else(|| match state.head().log {
            id if id == self.id => None,
            None => Some("the log has lost its identity".into()),
            Some(_) => Some("another log has taken the place of this one".into()),
        })
    }

    async fn resign(self: Box<Self>) -> Result<(), Error> {
        self.lease.end();
        let id = self.lease.id;
        let revoked = self
            .shared
            .service
            .call(|mut client| async move { client.lease_revoke(id).await })
            .await;
        match revoked {
            Err(failure) if failure.why != Why::NoLease => Err(failure.into()),
            _ => Ok(()),
        }
    }
}

impl Leader {
    /// Ends the term, and then finds out whether a frame is stored whose answer was lost.
    async fn settled(&self, frame: &Frame, error: Error) -> Result<(), Error> {
        self.lease.end();
        let open = format!("{error}; whether the frame is stored is not known");
        let id = self.lease.id;
        let revoked = self
            .shared
            .service
            .call(|mut client| async move { client.lease_revoke(id).await })
            .await;
        if revoked.is_err_and(|failure| failure.why != Why::NoLease) {
            return Err(self.deposed(open));
        }
        match self.is_stored(frame).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.deposed(error.to_string())),
            Err(_) => Err(self.deposed(open)),
        }
    }

    /// Whether a frame's key is there.
    async fn is_stored(&self, frame: &Frame) -> Result<bool, Failure> {
        let key = self.shared.keys.frame(frame);
        let found = self
            .shared
            .service
            .call(|mut client| {
                let key = &*key;
                async move { client.get(key, None).await }
            })
            .await?;
        Ok(!found.kvs().is_empty())
    }
}
