//! The log in etcd: one transaction a frame, fenced by the leader's key.

mod followers;
mod keys;
mod leader;
mod service;
mod tail;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use etcd_client::{KeyValue, Txn, TxnOp, TxnOpResponse};

use crate::log::{Meta, checked_name};
use crate::{Error, Head, Kind, Leadership, Log, Report, Tail, Term};
use keys::{Keys, Position, term_from_text};
use service::Service;

/// Where etcd is, and how to speak to it.
///
/// ```
/// use sapwood_sync::EtcdOptions;
///
/// let options = EtcdOptions::new(["http://192.0.2.1:2379", "http://192.0.2.2:2379"]);
/// assert_eq!(options.prefix, "/sapwood");
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct EtcdOptions {
    /// The addresses: `http://HOST:PORT` or `https://HOST:PORT`. One is used until it fails.
    pub endpoints: Vec<String>,
    /// The user's name and password.
    pub user: Option<(String, String)>,
    /// The certificate of the authority that signed etcd's, a PEM file. TLS needs it.
    pub authority: Option<PathBuf>,
    /// The client's certificate and its private key, two PEM files.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// How long an endpoint may take to connect or to answer before the next one is asked.
    pub timeout: Duration,
    /// How long a leader that does not answer stays the leader, in whole seconds. etcd has a lower
    /// limit of its own, of two seconds by default.
    pub lease: Duration,
    /// What the keys of all maps begin with.
    pub prefix: String,
    /// The most bytes of a frame. etcd takes requests of 1.5 MiB, unless it has another limit.
    pub frame_limit: usize,
    /// Whether [`Leadership::trim`] also compacts the history of this etcd, all its keys included.
    /// Without it, somebody else must: deleted frames take space until then.
    pub compact: bool,
}

impl EtcdOptions {
    /// The options for these endpoints, without a user and without TLS.
    pub fn new<A: Into<String>>(endpoints: impl IntoIterator<Item = A>) -> Self {
        EtcdOptions {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            user: None,
            authority: None,
            identity: None,
            timeout: Duration::from_secs(3),
            lease: Duration::from_secs(10),
            prefix: "/sapwood".into(),
            frame_limit: 1_500_000,
            compact: true,
        }
    }
}

impl std::fmt::Debug for EtcdOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the password.
        f.debug_struct("EtcdOptions")
            .field("endpoints", &self.endpoints)
            .field("user", &self.user.as_ref().map(|user| &user.0))
            .field("authority", &self.authority)
            .field("identity", &self.identity)
            .field("timeout", &self.timeout)
            .field("lease", &self.lease)
            .field("prefix", &self.prefix)
            .field("frame_limit", &self.frame_limit)
            .field("compact", &self.compact)
            .finish()
    }
}

/// The log of one map in etcd.
///
/// Each frame is one transaction, which etcd does only while the leader's key is the one of this
/// term and the head is the one before the frame. So a deposed leader writes nothing, and a
/// transaction that is sent twice is done once.
pub struct EtcdLog {
    shared: Arc<Shared>,
    reporters: followers::Reporters,
}

/// What a log, its leadership and its tails have in common.
struct Shared {
    map: String,
    keys: Keys,
    service: Service,
    options: EtcdOptions,
}

/// What the keys of a map said at one revision.
struct State {
    revision: i64,
    meta: Option<Meta>,
    /// The leader's key.
    leader: Option<KeyValue>,
    term: Term,
    position: Position,
}

impl State {
    /// How far the log was, and which one it was.
    fn head(&self) -> Head {
        Head {
            log: self.meta.as_ref().and_then(|meta| meta.log),
            term: self.term,
            epoch: self.position.epoch,
            commit: self.position.commit,
        }
    }
}

impl EtcdLog {
    /// Connects to etcd and looks at the map's keys.
    ///
    /// # Errors
    /// [`Error::Denied`] for a wrong user, password or certificate, or for a wrong choice of TLS;
    /// [`Error::Unavailable`] when no endpoint answers; [`Error::Newer`]; those of
    /// [`new`](Self::new).
    pub async fn connect(options: EtcdOptions, map: &str) -> Result<EtcdLog, Error> {
        let log = Self::new(options, map)?;
        match log.shared.state().await {
            Ok(_) => Ok(log),
            Err(error) => Err(log.shared.service.explained(error).await),
        }
    }

    /// A log that connects when it is used first, for those who go on while etcd is away.
    ///
    /// # Errors
    /// [`Error::Options`] for options that cannot work, [`Error::Change`] for a name that cannot be
    /// one, [`Error::Io`] and [`Error::Damaged`] for files of certificates.
    pub fn new(options: EtcdOptions, map: &str) -> Result<EtcdLog, Error> {
        checked_name(map)?;
        if options.lease < Duration::from_secs(1) || options.timeout.is_zero() {
            return Err(Error::Options(format!(
                "etcd: a lease of {:?} and a timeout of {:?}: the lease must be a second at least, \
                 and the timeout more than zero",
                options.lease, options.timeout
            )));
        }
        let shared = Shared {
            map: map.into(),
            keys: Keys::new(&options.prefix, map),
            service: Service::new(&options)?,
            options,
        };
        Ok(EtcdLog {
            shared: Arc::new(shared),
            reporters: followers::Reporters::default(),
        })
    }
}

impl Shared {
    /// The name of the map's keys, for errors.
    fn place(&self, key: &str) -> String {
        format!("etcd: {key}")
    }

    /// The map's keys besides the log, at one revision.
    async fn state(&self) -> Result<State, Error> {
        let keys = [
            self.keys.meta(),
            self.keys.leader(),
            self.keys.epoch(),
            self.keys.head(),
        ];
        let answer = self
            .service
            .call(|mut client| {
                let gets: Vec<_> = keys
                    .iter()
                    .map(|key| TxnOp::get(key.as_str(), None))
                    .collect();
                async move { client.txn(Txn::new().and_then(gets)).await }
            })
            .await?;
        let values: Vec<_> = answer
            .op_responses()
            .into_iter()
            .map(|response| match response {
                TxnOpResponse::Get(mut get) => get.take_kvs().pop(),
                _ => None,
            })
            .collect();
        let Ok([meta, leader, epoch, head]) = <[_; 4]>::try_from(values) else {
            return Err(Error::damaged(
                self.service.place(),
                "not the keys asked for",
            ));
        };
        let damaged =
            |key: &str| Error::damaged(self.place(key), "the value is not what was written");
        let place = self.place(&keys[0]);
        let meta = meta
            .map(|meta| Meta::parse(meta.value(), &place))
            .transpose()?;
        let term = match &epoch {
            None => Term::default(),
            Some(epoch) => term_from_text(epoch.value()).ok_or_else(|| damaged(&keys[2]))?,
        };
        let position = match &head {
            None => Position::default(),
            Some(head) => Position::from_text(head.value()).ok_or_else(|| damaged(&keys[3]))?,
        };
        Ok(State {
            revision: answer.header().map_or(0, |header| header.revision()),
            meta,
            leader,
            term,
            position,
        })
    }
}

#[async_trait]
impl Log for EtcdLog {
    fn map(&self) -> &str {
        &self.shared.map
    }

    async fn kind(&self) -> Result<Option<Kind>, Error> {
        Ok(self.shared.state().await?.meta.map(|meta| meta.kind))
    }

    async fn lead(&self, kind: Kind, name: &str, wait: bool) -> Result<Box<dyn Leadership>, Error> {
        let leader = leader::Leader::begin(&self.shared, kind, name, wait).await?;
        Ok(Box::new(leader))
    }

    async fn leader(&self) -> Result<Option<String>, Error> {
        let leader = self.shared.state().await?.leader;
        Ok(leader.map(|leader| String::from_utf8_lossy(leader.value()).into_owned()))
    }

    async fn head(&self) -> Result<Head, Error> {
        Ok(self.shared.state().await?.head())
    }

    async fn follow(&self, commit: u64) -> Result<Box<dyn Tail>, Error> {
        let tail = tail::EtcdTail::begin(&self.shared, commit).await?;
        Ok(Box::new(tail))
    }

    async fn report(&self, report: &Report, life: Duration) -> Result<(), Error> {
        self.reporters.report(&self.shared, report, life).await
    }

    async fn followers(&self) -> Result<Vec<Report>, Error> {
        followers::list(&self.shared).await
    }

    async fn evict(&self, follower: &str, at: u64, why: &str) -> Result<(), Error> {
        followers::evict(&self.shared, follower, at, why).await
    }
}
