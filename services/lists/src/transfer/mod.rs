//! Response policy zones from a primary, as a secondary has them: by AXFR (RFC 5936) and IXFR
//! (RFC 1995) over TCP, signed with TSIG (RFC 8945), at the times that the SOA says.
//!
//! A [`Secondary`] keeps a copy of its zone in a file, with a record in each line. The copy is
//! replaced when a new version has come as a whole; whatever goes wrong before leaves it as it is.
//! [`Secondary::source`] is the list that a [`Loader`](crate::Loader) reads. [`follow`] does it all
//! in a thread, and [`Notify`] listens for the primary's NOTIFY (RFC 1996).
//!
//! ```no_run
//! use sapwood::qp::QpStore;
//! use sapwood_lists::transfer::{Limits, Notify, Secondary, follow};
//! use sapwood_lists::{Loader, Options};
//! use std::sync::mpsc::channel;
//!
//! let zone = "rpz.example@192.0.2.1,key=rpz.key".parse()?;
//! let mut secondary = Secondary::new(zone, "copies".as_ref(), Limits::default())?;
//! secondary.refresh()?;
//! let store = QpStore::<[u8]>::builder().build_inline()?;
//! let mut loader = Loader::new(vec![secondary.source()], Options::default());
//! loader.reload(&store)?;
//!
//! let (news, changed) = channel();
//! let followed = follow(secondary, false, move |is_new, state| match &state.trouble {
//!     Some(trouble) => eprintln!("{trouble}"),
//!     None => drop(news.send(is_new)),
//! })?;
//! let _notify = Notify::listen("0.0.0.0:53".parse()?, &[followed])?;
//! while changed.recv()? {
//!     loader.reload(&store)?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod copy;
mod error;
mod follow;
mod item;
mod key;
mod notify;
mod stream;
mod wire;

use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::panic::resume_unwind;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use domain::base::Name;
use domain::base::iana::Rtype;

pub use error::TransferError;
pub use follow::{Followed, follow};
pub use key::TransferKey;
pub use notify::Notify;

use crate::format::Format;
use crate::source::{Kept, Source};
use item::{Item, Soa};
use stream::{Answer, Received, is_back};
use wire::Exchange;

/// A zone and its primary.
///
/// As text it is `NAME@ADDRESS`, `NAME@ADDRESS:PORT`, and with a key
/// `NAME@ADDRESS:PORT,key=FILE`. An address of IPv6 with a port is in brackets.
///
/// ```
/// use sapwood_lists::transfer::Zone;
///
/// let zone: Zone = "rpz.example@[2001:db8::1]:5353".parse()?;
/// assert_eq!(zone.to_string(), "rpz.example@[2001:db8::1]:5353");
/// let zone: Zone = "RPZ.example.@192.0.2.1".parse()?;
/// assert_eq!(zone.to_string(), "rpz.example@192.0.2.1:53");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug)]
pub struct Zone {
    name: Name<Vec<u8>>,
    primary: SocketAddr,
    key: Option<TransferKey>,
}

impl Zone {
    /// A zone of this name.
    ///
    /// # Errors
    /// It is no name, or that of the root.
    pub fn new(name: &str, primary: SocketAddr, key: Option<TransferKey>) -> Result<Self, String> {
        let wrong = |what: &str| format!("\"{}\" is no zone: {what}", name.escape_debug());
        let name = name.to_ascii_lowercase();
        let parsed: Name<Vec<u8>> = name.parse().map_err(|error| wrong(&format!("{error}")))?;
        if parsed.is_root() {
            return Err(wrong("it is the root"));
        }
        Ok(Zone {
            name: parsed,
            primary,
            key,
        })
    }

    /// Whether another one is of the same zone, perhaps from another primary: both would have the
    /// same copy.
    ///
    /// O(length of the names).
    ///
    /// ```
    /// use sapwood_lists::transfer::Zone;
    ///
    /// let one: Zone = "rpz.example@192.0.2.1".parse()?;
    /// assert!(one.is_same(&"RPZ.example@192.0.2.2".parse()?));
    /// assert!(!one.is_same(&"example@192.0.2.1".parse()?));
    /// # Ok::<(), String>(())
    /// ```
    pub fn is_same(&self, other: &Zone) -> bool {
        self.name == other.name
    }

    /// The name of its copy in a folder.
    fn file(&self) -> String {
        let name = item::name_text(self.name.as_slice());
        format!("{}zone", name.replace('\\', "%"))
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = item::name_text(self.name.as_slice());
        write!(f, "{}@{}", name.trim_end_matches('.'), self.primary)
    }
}

impl FromStr for Zone {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text
            .split_once('@')
            .ok_or("a zone is NAME@ADDRESS[:PORT][,key=FILE]")?;
        let (address, key) = match rest.split_once(',') {
            None => (rest, None),
            Some((address, option)) => match option.strip_prefix("key=") {
                Some(file) if !file.is_empty() => (address, Some(file)),
                _ => return Err(format!("\"{}\" is not key=FILE", option.escape_debug())),
            },
        };
        let alone = address.parse::<IpAddr>();
        let primary = alone.map(|address| SocketAddr::new(address, 53));
        let primary = primary.or_else(|_| address.parse::<SocketAddr>());
        let primary =
            primary.map_err(|_| format!("\"{}\" is no ADDRESS[:PORT]", address.escape_debug()))?;
        let key = key.map(|file| TransferKey::read(Path::new(file)));
        let key = key.transpose().map_err(|error| error.to_string())?;
        Zone::new(name, primary, key)
    }
}

/// What a transfer may take. The network is not trusted.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How long the primary may say nothing.
    pub answer: Duration,
    /// How long a transfer may last.
    pub whole: Duration,
    /// The most bytes of a copy.
    pub bytes: u64,
    /// The most bytes of changes in memory; with more, the whole zone is transferred.
    pub changes: u64,
    /// The least and the most time between two questions, whatever the SOA says.
    pub pause: (Duration, Duration),
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            answer: Duration::from_secs(10),
            whole: Duration::from_secs(1800),
            bytes: 4 << 30,
            changes: 32 << 20,
            pause: (Duration::from_secs(10), Duration::from_secs(86400)),
        }
    }
}

/// What is known of a zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneState {
    /// The serial of the copy.
    pub serial: Option<u32>,
    /// When the primary said that the copy is its last version.
    pub checked: Option<SystemTime>,
    /// Whether that is longer ago than the SOA allows.
    pub is_expired: bool,
    /// What went wrong at the last question.
    pub trouble: Option<String>,
    /// How many versions came as a whole, and how many as changes, since the process began.
    pub transfers: (u64, u64),
}

/// A copy of a zone, and how it follows its primary.
pub struct Secondary {
    zone: Zone,
    limits: Limits,
    kept: Arc<Kept>,
    soa: Option<Soa>,
    checked: Option<SystemTime>,
    trouble: Option<String>,
    transfers: (u64, u64),
    due: Instant,
}

/// Asks the primaries of several zones, all at the same time. Returns what
/// [`Secondary::refresh`] says of each zone. It takes as long as the slowest one, and a primary
/// that hangs holds no other zone up.
///
/// It takes a thread for each zone but one.
///
/// ```
/// use sapwood_lists::transfer::refresh_all;
///
/// assert!(refresh_all(&mut Vec::new()).is_empty());
/// ```
///
/// # Panics
/// When the system makes no thread.
pub fn refresh_all<'z>(
    zones: impl IntoIterator<Item = &'z mut Secondary>,
) -> Vec<Result<bool, TransferError>> {
    let mut zones = zones.into_iter();
    let Some(first) = zones.next() else {
        return Vec::new();
    };
    thread::scope(|scope| {
        let others: Vec<_> = zones.map(|zone| scope.spawn(|| zone.refresh())).collect();
        let mut all = vec![first.refresh()];
        let done = others.into_iter().map(|other| other.join());
        all.extend(done.map(|done| done.unwrap_or_else(|fault| resume_unwind(fault))));
        all
    })
}

/// The SOA of a copy, if there is one.
fn soa_of(path: &Path, zone: &Zone) -> Result<Option<Soa>, TransferError> {
    match copy::soa(path, zone.name.as_slice()) {
        Ok(soa) => Ok(Some(soa)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(TransferError::copy(path)(error)),
    }
}

/// How long to wait for a zone that never came.
const RETRY: Duration = Duration::from_secs(60);

impl Secondary {
    /// Keeps a zone in a folder, which no other process may use. A copy that is there is taken.
    ///
    /// # Errors
    /// [`TransferError::Copy`]: there is a file that is no copy of the zone.
    pub fn new(zone: Zone, folder: &Path, limits: Limits) -> Result<Self, TransferError> {
        let path = folder.join(zone.file());
        // What a process left that was killed.
        let _ = fs::remove_file(path.with_extension("part"));
        let soa = soa_of(&path, &zone)?;
        let written = fs::metadata(&path).and_then(|metadata| metadata.modified());
        Ok(Secondary {
            zone,
            limits,
            kept: Arc::new(Kept::new(path)),
            checked: soa.is_some().then_some(written.ok()).flatten(),
            soa,
            trouble: None,
            transfers: (0, 0),
            due: Instant::now(),
        })
    }

    /// The list of the zone. It cannot be read before the zone has come once.
    ///
    /// O(1).
    pub fn source(&self) -> Source {
        Source::kept(self.zone.to_string(), Arc::clone(&self.kept)).format(Format::Rpz)
    }

    /// The zone and its primary.
    ///
    /// O(1).
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// When the primary is to be asked.
    ///
    /// O(1).
    pub fn due(&self) -> Instant {
        self.due
    }

    /// What is known of the zone.
    ///
    /// O(length of the last fault).
    pub fn state(&self) -> ZoneState {
        ZoneState {
            serial: self.soa.as_ref().map(|soa| soa.serial),
            checked: self.checked,
            is_expired: self.is_expired(),
            trouble: self.trouble.clone(),
            transfers: self.transfers,
        }
    }

    fn is_expired(&self) -> bool {
        let (Some(soa), Some(checked)) = (&self.soa, self.checked) else {
            return false;
        };
        // A clock that goes back makes nothing old.
        let age = SystemTime::now().duration_since(checked);
        age.is_ok_and(|age| age > soa.expire)
    }

    /// How long it takes until the zone expires, if it has not.
    pub(crate) fn expires_in(&self) -> Option<Duration> {
        let (soa, checked) = (self.soa.as_ref()?, self.checked?);
        let age = SystemTime::now().duration_since(checked);
        let left = soa.expire.checked_sub(age.unwrap_or_default())?;
        Some(left + Duration::from_millis(1))
    }

    /// Takes the rules of the zone away, or gives them back. Returns whether that is a change.
    pub(crate) fn withdraw(&self, withdraw: bool) -> bool {
        self.kept.withdraw(withdraw)
    }

    /// Asks the primary, and takes a new version if there is one. Returns whether the copy is new.
    ///
    /// O(bytes of the zone) if it is new, in memory for one message and the changes.
    ///
    /// # Errors
    /// [`TransferError`]: the copy is as it was.
    pub fn refresh(&mut self) -> Result<bool, TransferError> {
        let done = self.ask();
        let pause = match (&done, &self.soa) {
            (Ok(_), Some(soa)) => soa.refresh,
            (Err(_), Some(soa)) => soa.retry,
            (_, None) => RETRY,
        };
        let (least, most) = self.limits.pause;
        self.due = Instant::now() + pause.max(least).min(most);
        match &done {
            Ok(_) => {
                self.checked = Some(SystemTime::now());
                self.trouble = None;
                self.kept.touch();
            }
            Err(error) => self.trouble = Some(error.to_string()),
        }
        done
    }

    fn ask(&mut self) -> Result<bool, TransferError> {
        // The copy may have been deleted, so that all of the zone comes.
        self.soa = soa_of(self.kept.path(), &self.zone)?;
        let had = self.soa.as_ref().map(|soa| soa.serial);
        let has = self.serial()?;
        if let Some(had) = had {
            if had == has {
                return Ok(false);
            }
            if is_back(had, has) {
                return Err(TransferError::Back { had, has });
            }
            match self.transfer(true) {
                Err(error) if error.is_of_changes() => {}
                done => return done,
            }
        }
        self.transfer(false)
    }

    /// The serial that the primary has.
    fn serial(&self) -> Result<u32, TransferError> {
        let mut exchange = self.question(Rtype::SOA, None)?;
        let message = exchange.next()?;
        exchange.end()?;
        let wrong = |what: &str| TransferError::Wrong(what.into());
        if !message.header().aa() {
            return Err(wrong("the server is no authority for the zone"));
        }
        let mut found = None;
        Item::each(&message, &self.zone.name, |item| {
            found = found.take().or(item.soa());
            Ok(())
        })?;
        let soa = found.ok_or_else(|| wrong("there is no SOA in it"))?;
        Ok(soa.serial)
    }

    fn question(&self, rtype: Rtype, since: Option<&Soa>) -> Result<Exchange, TransferError> {
        let Zone { name, primary, key } = &self.zone;
        Exchange::begin(*primary, name, (rtype, since), key.as_ref(), &self.limits)
    }

    /// Transfers the zone, or its changes.
    fn transfer(&mut self, changes: bool) -> Result<bool, TransferError> {
        let had = self.soa.as_ref().map(|soa| soa.serial);
        let mut exchange = match changes {
            true => self.question(Rtype::IXFR, self.soa.as_ref())?,
            false => self.question(Rtype::AXFR, None)?,
        };
        let limits = (self.limits.bytes, self.limits.changes);
        let mut answer = Answer::new(self.kept.path(), (had, changes), limits);
        while !answer.has_ended() {
            let message = exchange.next()?;
            Item::each(&message, &self.zone.name, |item| answer.take(item))?;
        }
        exchange.end()?;
        match answer.received()? {
            Received::Same => Ok(false),
            Received::Copy(copy, is_of_changes) => {
                self.soa = Some(copy.finish()?);
                match is_of_changes {
                    true => self.transfers.1 += 1,
                    false => self.transfers.0 += 1,
                }
                Ok(true)
            }
        }
    }
}
