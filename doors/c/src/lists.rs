//! Block lists and response policies: the maps that `sapwood lists` makes, and what their rules say
//! about questions.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::ptr::null;

use ::sapwood_lists::names::asked_name;
use ::sapwood_lists::{
    Action, FINGERPRINTS_MAGIC, Fingerprints, ListInfo, Meta, NotRules, OpenListError, Verdict,
    verdict,
};
use sapwood::key::{dns_name_from_wire, dns_name_to_text};
use sapwood::qp::{OrderedRead, QpFile};

use crate::c_api::c_api;
use crate::domain::{SAPWOOD_CHECKED, known_flags};
use crate::error::{Failure, Outcome};
use crate::file::SAPWOOD_UNVERIFIED;
use crate::handle::{Body, Handle, free};
use crate::input::{self, bytes, extensible, place, size_of_extensible, text};
use crate::output::{as_int, hand_out, put_extensible, put_wanted};

/// The rule that answers a question, and the list that it came from.
pub type Found = Option<(Verdict, Option<ListInfo>)>;

/// A map of rules, wherever it lies.
pub trait Rules {
    /// The rule that answers a question.
    fn rule(&mut self, key: &[u8], rtype: u16) -> Outcome<Found>;
}

/// A rule of a map whose lists are known, and what its list is.
pub fn rule_of(
    map: &dyn OrderedRead<[u8]>,
    meta: &Meta,
    key: &[u8],
    rtype: u16,
) -> Result<Found, NotRules> {
    let found = verdict(map, meta, key, rtype)?;
    Ok(found.map(|found| with_list(found, meta)))
}

fn with_list(found: Verdict, meta: &Meta) -> (Verdict, Option<ListInfo>) {
    let list = meta.lists().get(usize::from(found.terms.list)).cloned();
    (found, list)
}

/// The failure of a map that has no rules.
pub fn no_rules(path: &Path, error: NotRules) -> Failure {
    let text = format!("{}: no map of \"sapwood lists\": {error}", path.display());
    Failure::new(libc::EPROTO, text)
}

struct Saved {
    path: Box<Path>,
    file: QpFile<[u8]>,
    meta: Meta,
}

impl Rules for Saved {
    fn rule(&mut self, key: &[u8], rtype: u16) -> Outcome<Found> {
        rule_of(&self.file, &self.meta, key, rtype).map_err(|error| no_rules(&self.path, error))
    }
}

impl Rules for Fingerprints {
    fn rule(&mut self, key: &[u8], rtype: u16) -> Outcome<Found> {
        let found = self.verdict(key, rtype);
        Ok(found.map(|found| with_list(found, self.meta())))
    }
}

fn open(path: &Path, trusting: bool) -> Outcome<Box<dyn Rules>> {
    let mut start = [0; FINGERPRINTS_MAGIC.len()];
    let is_small = path.is_file()
        && File::open(path).is_ok_and(|mut file| file.read_exact(&mut start).is_ok())
        && start == FINGERPRINTS_MAGIC;
    if is_small {
        let of = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let bytes = std::fs::read(path)
            .map_err(|error| Failure::new(error.raw_os_error().unwrap_or(libc::EIO), of(&error)))?;
        let small = Fingerprints::from_bytes(&bytes)
            .map_err(|error| Failure::new(libc::EPROTO, of(&error)))?;
        return Ok(Box::new(small));
    }
    let (file, meta) = match trusting {
        false => ::sapwood_lists::open(path).map_err(|error| match error {
            OpenListError::Open(error) => error.into(),
            OpenListError::NotRules(error) => no_rules(path, error),
            other => Failure::new(libc::EPROTO, other.to_string()),
        })?,
        true => {
            let file = QpFile::<[u8]>::open_unverified(path)?;
            let meta = Meta::of(&file).map_err(|error| no_rules(path, error))?;
            (file, meta)
        }
    };
    Ok(Box::new(Saved {
        path: path.into(),
        file,
        meta,
    }))
}

/// What was handed out of the last answer.
#[derive(Default)]
struct Told {
    found: Found,
    texts: [CString; 3],
    data: Vec<Vec<u8>>,
    records: Vec<sapwood_lists_record>,
}

/// The inside of a handle of lists.
pub struct ListsBody {
    rules: Box<dyn Rules>,
    told: Told,
}

impl ListsBody {
    /// That of an open map.
    pub fn new(rules: Box<dyn Rules>) -> Self {
        ListsBody {
            rules,
            told: Told::default(),
        }
    }

    /// Answers a question, and fills what C gets.
    fn ask(&mut self, key: &[u8], rtype: u16) -> Outcome<(c_int, sapwood_verdict)> {
        let mut out = sapwood_verdict {
            action: SAPWOOD_LISTS_PASS,
            list: -1,
            ..Default::default()
        };
        self.told = Told::default();
        let Some((found, list)) = self.rules.rule(key, rtype)? else {
            return Ok((0, out));
        };
        let answer = found.answer(key, rtype).map_err(|error| {
            let text = format!("the other name with that of the question: {error}");
            Failure::new(libc::E2BIG, text)
        })?;
        let target = match &answer.name {
            Some(name) => dns_name_to_text(name).map_err(|error| {
                let text = format!("the other name of a rule: {error}");
                Failure::new(libc::EPROTO, text)
            })?,
            None => String::new(),
        };
        let name = list.as_ref().map(|list| list.name.clone());
        let texts = [found.name(), name.unwrap_or_default(), target];
        let told = &mut self.told;
        told.texts = texts.map(|text| CString::new(text).unwrap_or_default());
        for record in answer.records {
            told.records.push(sapwood_lists_record {
                rtype: record.rtype.into(),
                ttl: record.ttl,
                data: record.data.as_ptr().cast(),
                len: record.data.len(),
            });
            // The bytes stay where they are.
            told.data.push(record.data);
        }
        out.action = action_of(&found.terms.action);
        out.list = found.terms.list.into();
        out.rank = found.terms.class as c_int;
        out.others = as_int(found.others);
        let [rule, list_name, target] = told.texts.each_ref().map(|text| text.as_ptr());
        (out.rule, out.list_name) = (rule, list_name);
        out.target = if answer.name.is_some() {
            target
        } else {
            null()
        };
        out.records = told.records.as_ptr();
        out.count = told.records.len();
        told.found = Some((found, list));
        Ok((1, out))
    }
}

fn action_of(action: &Action) -> c_int {
    match action {
        Action::Nxdomain => SAPWOOD_LISTS_NXDOMAIN,
        Action::Nodata => SAPWOOD_LISTS_NODATA,
        Action::Refused => SAPWOOD_LISTS_REFUSED,
        Action::Drop => SAPWOOD_LISTS_DROP,
        Action::Truncate => SAPWOOD_LISTS_TRUNCATE,
        Action::Pass => SAPWOOD_LISTS_PASS,
        Action::Null => SAPWOOD_LISTS_NULL,
        Action::Addresses(_) => SAPWOOD_LISTS_ADDRESSES,
        Action::Name(_) => SAPWOOD_LISTS_NAME,
        Action::Records(_) => SAPWOOD_LISTS_RECORDS,
    }
}

impl Body for ListsBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swLi");
    const NAME: &'static str = "lists";

    fn leave(self) {
        // Files are copies, and readers of live maps know of forks.
        drop(self);
    }
}

extensible!(sapwood_verdict);

/// Answers a question for the name of a key.
///
/// # Safety
/// C.
unsafe fn ask(
    lists: *mut sapwood_lists,
    key: impl FnOnce() -> Outcome<Vec<u8>>,
    rtype: u16,
    out: *mut sapwood_verdict,
) -> Outcome {
    // SAFETY: C.
    let body = unsafe { Handle::exclusive(lists) }?;
    let out = place(out, "verdict")?;
    // The caller's mistake is found before what was told is lost.
    // SAFETY: C.
    unsafe { size_of_extensible(out) }?;
    let (result, made) = body.ask(&key()?, rtype)?;
    // SAFETY: C.
    unsafe { put_extensible(out, "verdict", &made) }?;
    Ok(result)
}

c_api!(
    const SECTION: &str = "Block lists and response policies";

    /// The maps of "sapwood lists build" and "sapwood lists serve": docs/lists.md says what their
    /// rules are, and which of them wins. A handle is for one thread at a time; each thread opens
    /// its own. The pages of the map are in memory once.
    pub type sapwood_lists = Handle<ListsBody>;

    /// What happens to a question.
    pub enum sapwood_lists_action {
        /// the name does not exist
        SAPWOOD_LISTS_NXDOMAIN = 0,
        /// the name has no records of this type
        SAPWOOD_LISTS_NODATA = 1,
        SAPWOOD_LISTS_REFUSED = 2,
        /// there is no answer
        SAPWOOD_LISTS_DROP = 3,
        /// the answer is truncated, so that the client asks by TCP
        SAPWOOD_LISTS_TRUNCATE = 4,
        /// the question is answered as without lists
        SAPWOOD_LISTS_PASS = 5,
        /// 0.0.0.0 or ::
        SAPWOOD_LISTS_NULL = 6,
        SAPWOOD_LISTS_ADDRESSES = 7,
        /// the name is another name for `target`
        SAPWOOD_LISTS_NAME = 8,
        SAPWOOD_LISTS_RECORDS = 9,
    }

    /// The rank of a rule, the first one first.
    pub enum sapwood_lists_rank {
        SAPWOOD_LISTS_REWRITING = 0,
        SAPWOOD_LISTS_IMPORTANT_EXCEPTION = 1,
        SAPWOOD_LISTS_IMPORTANT = 2,
        SAPWOOD_LISTS_EXCEPTION = 3,
        SAPWOOD_LISTS_ORDINARY = 4,
    }

    /// A record of an answer: type, time to live in seconds, data in wire form. Addresses for which
    /// a list has no time to live have 300 seconds.
    pub struct sapwood_lists_record {
        pub rtype: u32,
        pub ttl: u32,
        pub data: *const c_void,
        pub len: usize,
    }

    /// The rule that answers a question. All that it points to belongs to the handle, and is valid
    /// until its next question or its end.
    pub struct sapwood_verdict {
        pub size: usize,
        /// enum sapwood_lists_action
        pub action: c_int,
        /// the number of the list, from 0; -1 if no rule applies
        pub list: c_int,
        /// enum sapwood_lists_rank
        pub rank: c_int,
        /// how many other rules apply
        pub others: c_int,
        /// the rule's name, with "*." in front if it is for the names below alone; NULL if none
        pub rule: *const c_char,
        /// the list's name: the path of its file
        pub list_name: *const c_char,
        /// of SAPWOOD_LISTS_NAME: the other name
        pub target: *const c_char,
        /// of 0.0.0.0 or ::, addresses and records: those of the type of the question. If there are
        /// none, the name has no records of this type.
        pub records: *const sapwood_lists_record,
        pub count: usize,
    }

    /// Opens a map of rules, or a table of fingerprints. All of it is checked, in O(bytes); with
    /// SAPWOOD_UNVERIFIED a map opens at once, and what is damaged is -EPROTO when it is read.
    /// -EPROTO: it is damaged, or another file. Other errors are those of the system. The file may
    /// be replaced by a rename, but not be changed or cut.
    fn sapwood_lists_open(
        path: *const c_char,
        flags: c_uint,
        out: *mut *mut sapwood_lists,
    ) -> c_int {
        let out = place(out, "out")?;
        known_flags(flags, SAPWOOD_CHECKED | SAPWOOD_UNVERIFIED)?;
        let path = input::path(path)?;
        let rules = open(path, flags & SAPWOOD_UNVERIFIED != 0)?;
        hand_out(out, ListsBody::new(rules), flags & SAPWOOD_CHECKED != 0)
    }

    fn sapwood_lists_free(lists: *mut sapwood_lists) {
        free(lists)
    }

    /// What happens to a question for a name in text, of this type. Returns 1 if a rule answers it,
    /// which (*verdict) says then; 0 if no rule applies: then the action is SAPWOOD_LISTS_PASS. O(
    /// rules of the name and of those above it).
    ///
    /// What cannot be told is an error, and never "no rule applies": -EINVAL, it is no name;
    /// -E2BIG, the name is too long for the place of an asterisk in a rule; -EPROTO, the map is
    /// damaged; of a live map also -ENOENT, it was removed, -EAGAIN and -ESTALE, changes disturbed
    /// each attempt. *verdict is unchanged then. Who takes an error for 0 lets names pass that
    /// somebody has made for that.
    fn sapwood_lists_ask(
        lists: *mut sapwood_lists,
        name: *const c_char,
        rtype: u16,
        verdict: *mut sapwood_verdict,
    ) -> c_int {
        let key = || {
            let name = text(name, "the name")?.to_bytes();
            Ok(asked_name(name).map_err(Failure::invalid)?.key)
        };
        ask(lists, key, rtype, verdict)
    }

    /// The same for a name in wire form without compression, and nothing behind it.
    fn sapwood_lists_ask_wire(
        lists: *mut sapwood_lists,
        wire: *const c_void,
        wire_len: usize,
        rtype: u16,
        verdict: *mut sapwood_verdict,
    ) -> c_int {
        let key = || {
            let wire = bytes(wire, wire_len, "the name")?;
            dns_name_from_wire(wire).map_err(|error| Failure::invalid(error.to_string()))
        };
        ask(lists, key, rtype, verdict)
    }

    /// The same for a key, as sapwood_key_dns_message makes it of a whole message.
    fn sapwood_lists_ask_key(
        lists: *mut sapwood_lists,
        key: *const c_void,
        key_len: usize,
        rtype: u16,
        verdict: *mut sapwood_verdict,
    ) -> c_int {
        let key = || {
            let key = bytes(key, key_len, "the key")?;
            dns_name_to_text(key).map_err(|error| Failure::invalid(error.to_string()))?;
            Ok(key.to_vec())
        };
        ask(lists, key, rtype, verdict)
    }

    /// Stores the number of the line, in the list's file as it is now, of the rule that answered
    /// the last question. -ENOENT: no rule answered it, the file has no such line any more, or
    /// there is no such file. -EPROTO: it is no such list any more. O(bytes of the file).
    fn sapwood_lists_line(lists: *mut sapwood_lists, line: *mut u64) -> c_int {
        let body = Handle::exclusive(lists)?;
        let line = place(line, "line")?;
        let Some((found, Some(list))) = &body.told.found else {
            return Ok(-libc::ENOENT);
        };
        let is_there = std::fs::metadata(&list.name);
        is_there.map_err(|error| {
            let code = error.raw_os_error().unwrap_or(libc::EIO);
            Failure::new(code, format!("{}: {error}", list.name))
        })?;
        let at = list.line_of(&found.key, &found.terms);
        let at = at.map_err(|error| Failure::new(libc::EPROTO, error.to_string()))?;
        let Some(at) = at else {
            return Ok(-libc::ENOENT);
        };
        put_wanted(line, at);
        Ok(0)
    }
);
