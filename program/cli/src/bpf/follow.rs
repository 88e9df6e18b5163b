//! The rules of a live map of lists, which a filter in the kernel follows.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use sapwood::key::dns_name;
use sapwood_bpf::{BpfArena, UserStore};
use sapwood_live::LiveStatus;
use sapwood_xdp::{NameRule, StoreRooms, XdpNames, closest_rule};

use super::list::entries;
use super::names::{WINDOW, attach, interfaces, list_bytes};
use crate::cli::bpf::FilterArgs;
use crate::cli::live::LiveArgs;
use crate::errors::{Error, complain};
use crate::live::serve::BUDGET;
use crate::span;

/// Bytes of the arena that the store leaves to others.
const ROOM: usize = 1 << 20;
/// The rules are read again after this time, whatever the directory says.
const ANYWAY: Duration = Duration::from_secs(60);
/// Reading rules takes one part in `REST` of the time.
const REST: u32 = 10;
/// The time between two attempts to read rules that cannot be read.
const PATIENCE: Duration = Duration::from_secs(1);

/// A filter that follows a live map of lists.
pub struct Followed {
    /// The program. It is dropped before its store, without which it would pass everything.
    pub filter: XdpNames<StoreRooms>,
    /// Its rules.
    pub store: UserStore<u64>,
    path: PathBuf,
    live: LiveArgs,
    /// What the directory had when its rules were read.
    seen: Mark,
    /// When it is looked at again, and when the rules are read again in any case.
    again: Instant,
    anyway: Instant,
    /// The last trouble, which was told.
    trouble: Option<String>,
}

/// What tells whether a live map has changed: each change ends with a grace period, and an owner
/// that takes the map over, or makes it anew, has other files.
#[derive(Debug, PartialEq, Eq)]
struct Mark {
    generation: u64,
    period: u64,
    files: Vec<(u64, u64)>,
}

impl Mark {
    fn read(path: &std::path::Path) -> Result<Self, Error> {
        let status = LiveStatus::read(path)?;
        let files = status.data.iter().map(|file| {
            let found = fs::metadata(file).map_err(Error::read(file))?;
            Ok((found.ino(), found.len()))
        });
        Ok(Mark {
            generation: status.generation,
            period: status.period,
            files: files.collect::<Result<_, Error>>()?,
        })
    }
}

impl Followed {
    /// Reads the rules of a live map and attaches the filter to its interfaces.
    pub fn start(args: &FilterArgs, live: &LiveArgs) -> Result<Self, Error> {
        sapwood_bpf::check()?;
        let (path, interfaces) = (&args.list, interfaces(args)?);
        let bytes = list_bytes(args)?;
        let load = span!(INFO, "load", list = %path.display());
        // It may not be there yet.
        drop(crate::lists::open(path, live)?);
        let seen = Mark::read(path)?;
        let entries = entries(path, live)?;
        drop(load);
        let arena = BpfArena::create(bytes + ROOM)?;
        let store = UserStore::builder(&arena, WINDOW).bytes(bytes).build()?;
        update(&store, &entries)?;
        let mut filter = XdpNames::of_store(&store)?;
        attach(&mut filter, &interfaces, args.generic, store.len())?;
        Ok(Followed {
            filter,
            store,
            path: path.clone(),
            live: live.clone(),
            seen,
            again: Instant::now(),
            anyway: Instant::now() + ANYWAY,
            trouble: None,
        })
    }

    /// Follows the live map, if it has changed. Until a whole change has been read, and while the
    /// map cannot be read, the rules stay as they are. Trouble is told when it changes.
    pub fn tick(&mut self) {
        self.store.reclaim(BUDGET);
        let begun = Instant::now();
        if begun < self.again {
            return;
        }
        let trouble = self.follow(begun).err().map(|error| error.to_string());
        if trouble != self.trouble {
            match &trouble {
                Some(why) => complain(&format!("the rules stay as they are: {why}")),
                None => complain("the rules can be read again"),
            }
        }
        let pause = match trouble {
            Some(_) => PATIENCE,
            None => Duration::ZERO,
        };
        self.trouble = trouble;
        self.again = Instant::now() + pause.max(begun.elapsed() * REST);
    }

    fn follow(&mut self, now: Instant) -> Result<(), Error> {
        // A change that comes after this look is seen at the next one.
        let mark = Mark::read(&self.path)?;
        if mark == self.seen && now < self.anyway {
            return Ok(());
        }
        let entries = entries(&self.path, &self.live)?;
        update(&self.store, &entries)?;
        (self.seen, self.anyway) = (mark, now + ANYWAY);
        Ok(())
    }

    /// The rule that counts for a name, and the name or the wildcard that has it.
    pub fn rule_for(&self, name: &str) -> Result<Option<(String, NameRule)>, Error> {
        let key = dns_name(name).map_err(|error| Error::Usage(error.to_string()))?;
        let snapshot = self.store.snapshot();
        Ok(closest_rule(&key, |key| {
            let (key, value) = snapshot.longest_prefix(key)?;
            Some((key.to_vec(), *value))
        }))
    }
}

/// Makes a store what the entries say, which ascend, in one commit. Packets meet all of it, or
/// none. Returns the number of entries that differed.
fn update(store: &UserStore<u64>, entries: &[(Vec<u8>, u64)]) -> Result<usize, Error> {
    let mut changes: Vec<(Vec<u8>, Option<u64>)> = Vec::new();
    let mut new = entries.iter().peekable();
    let snapshot = store.snapshot();
    for (key, value) in &snapshot {
        let key = key.to_vec();
        while let Some((before, value)) = new.next_if(|(other, _)| *other < key) {
            changes.push((before.clone(), Some(*value)));
        }
        match new.next_if(|(other, _)| *other == key) {
            Some((_, now)) if now == value => {}
            now => changes.push((key, now.map(|(_, value)| *value))),
        }
    }
    changes.extend(new.map(|(key, value)| (key.clone(), Some(*value))));
    drop(snapshot);
    let mut txn = store.begin();
    for (key, value) in &changes {
        let done = match value {
            Some(value) => txn.insert(key, *value).map(drop).map_err(Into::into),
            None => txn.remove(key).map(drop).map_err(Into::into),
        };
        done.map_err(|error: sapwood::Error| sapwood_bpf::Error::from(error))?;
    }
    txn.commit();
    Ok(changes.len())
}
