//! Live maps of rules: what `sapwood lists serve` keeps.

use std::ffi::{c_char, c_int, c_uint};
use std::mem;
use std::path::Path;
use std::time::Duration;

use ::sapwood_lists::{META_KEY, Meta, NotRules};
use sapwood::qp::{OrderedRead, QpStore};
use sapwood_live::{CheckedLiveReader, CheckedNames, Error, LiveIdle, LiveReader};

use crate::c_api::c_api;
use crate::domain::{SAPWOOD_CHECKED, known_flags};
use crate::error::{Failure, Outcome};
use crate::handle;
use crate::input::{self, place};
use crate::lists::{Found, ListsBody, Rules, no_rules, rule_of, sapwood_lists};
use crate::live_reader::SAPWOOD_LIVE_CHECKED;
use crate::output::hand_out;

type Store = QpStore<[u8]>;

/// The attempts to read rules and lists of one version.
const TRIES: usize = 64;

/// A reader that holds nothing back between two questions.
enum Reader {
    Trusting(LiveIdle<Store>),
    Checking(CheckedNames<Store>),
}

struct LiveRules {
    path: Box<Path>,
    reader: Reader,
    /// What the map said of its lists when it was read last, and what that means.
    said: Vec<u8>,
    meta: Meta,
}

/// Why a question to a live map has no answer.
enum Trouble {
    Live(Error),
    NotRules(NotRules),
    /// Rules and lists are of two versions.
    Changed,
}

impl LiveRules {
    fn open(path: &Path, wait: Duration, checks: bool) -> Result<Self, Error> {
        let checking = || -> Result<Reader, Error> {
            let reader = match CheckedLiveReader::<Store>::open_within(path, wait) {
                Err(Error::Unregistered { .. }) => CheckedLiveReader::open_unregistered(path)?,
                opened => opened?,
            };
            Ok(Reader::Checking(CheckedNames::new(reader)))
        };
        let reader = match checks {
            true => checking()?,
            false => match LiveReader::<Store>::open_within(path, wait) {
                Ok(reader) => Reader::Trusting(reader.idle()),
                Err(Error::Unregistered { .. } | Error::Foreign { .. }) => checking()?,
                Err(error) => return Err(error),
            },
        };
        Ok(LiveRules {
            path: path.into(),
            reader,
            said: Vec::new(),
            meta: Meta::default(),
        })
    }

    fn reopen(&mut self) -> Result<(), Error> {
        match &mut self.reader {
            Reader::Trusting(reader) => reader.reopen(),
            Reader::Checking(names) => names.reader().reopen(),
        }
    }

    fn attempt(&mut self, key: &[u8], rtype: u16) -> Result<Found, Trouble> {
        let (said, meta) = (&mut self.said, &mut self.meta);
        let mut answer = |map: &dyn OrderedRead<[u8]>| -> Result<Found, Trouble> {
            let now = map.get(META_KEY).ok_or(Trouble::NotRules(NotRules))?;
            if now != said.as_slice() {
                *meta = Meta::of(map).map_err(Trouble::NotRules)?;
                *said = now.to_vec();
            }
            let found = rule_of(map, meta, key, rtype).map_err(Trouble::NotRules)?;
            // A reader that checks may find two versions.
            match map.get(META_KEY) == Some(said.as_slice()) {
                true => Ok(found),
                false => Err(Trouble::Changed),
            }
        };
        match &mut self.reader {
            Reader::Trusting(reader) => reader.read(|view| answer(&view)).map_err(Trouble::Live)?,
            Reader::Checking(names) => {
                let asked = names.ask(|map| answer(map));
                // It is online again at its next question.
                mem::forget(names.reader().offline());
                asked.map_err(Trouble::Live)?
            }
        }
    }
}

impl Rules for LiveRules {
    fn rule(&mut self, key: &[u8], rtype: u16) -> Outcome<Found> {
        let mut has_reopened = false;
        for _ in 0..TRIES {
            match self.attempt(key, rtype) {
                Ok(found) => return Ok(found),
                // Another map may be in its place.
                Err(Trouble::Live(Error::Removed { .. })) if !has_reopened => {
                    has_reopened = true;
                    self.reopen()?;
                }
                Err(Trouble::Live(error)) => return Err(error.into()),
                Err(Trouble::NotRules(error)) => return Err(no_rules(&self.path, error)),
                Err(Trouble::Changed) => std::thread::yield_now(),
            }
        }
        let text = format!("{}: changes disturbed each attempt", self.path.display());
        Err(Failure::new(libc::EAGAIN, text))
    }
}

c_api!(
    /// Opens the live map of "sapwood lists serve" in a directory, and waits up to (wait_ms)
    /// milliseconds for one that is not there yet; then -ENOENT. UINT64_MAX: as long as it takes.
    /// Each question sees the newest map, and all of one version; between two questions, the handle
    /// holds nothing back. A map that another process has taken over, or that was removed and made
    /// again, is followed.
    ///
    /// Without SAPWOOD_LIVE_CHECKED, the reader trusts a map that no other user than root can
    /// write. Others it checks at each step, as all with this flag. Where this process may not
    /// register, the reader writes no file, and asks again when memory was used again meanwhile.
    /// -EPROTO: it is another map. The child of a fork opens the map anew.
    fn sapwood_lists_open_live(
        folder: *const c_char,
        flags: c_uint,
        wait_ms: u64,
        out: *mut *mut sapwood_lists,
    ) -> c_int {
        let out = place(out, "out")?;
        known_flags(flags, SAPWOOD_CHECKED | SAPWOOD_LIVE_CHECKED)?;
        let path = input::path(folder)?;
        let wait = Duration::from_millis(wait_ms);
        let mut rules = LiveRules::open(path, wait, flags & SAPWOOD_LIVE_CHECKED != 0)?;
        // Another map is refused here, and not at the first question.
        rules.rule(&[], 1)?;
        let checked = flags & SAPWOOD_CHECKED != 0;
        let of = handle::Rules::of_this_process(checked);
        hand_out(out, ListsBody::new(Box::new(rules)), of)
    }
);
