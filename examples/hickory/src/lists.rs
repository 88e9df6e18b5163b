//! Questions to a live map of rules, or to a file of them.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use sapwood::qp::{OrderedRead, QpFile, QpStore};
use sapwood_lists::{Action, Answer, Meta, NotRules, verdict};
use sapwood_live::{CheckedLiveReader, CheckedNames, Error as LiveError, LiveIdle, LiveReader};

/// Why a name could not be looked up.
pub type AskError = Box<dyn Error + Send + Sync>;

type Rules = QpStore<[u8]>;

/// What the rules say about a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What happens.
    pub action: Action,
    /// What the answer has, if the rule answers.
    pub answer: Answer,
}

/// The rules of lists: a live map that `sapwood lists serve` keeps, or a file of `sapwood lists
/// build`.
pub struct Lists {
    path: PathBuf,
    saved: Option<(QpFile<[u8]>, Meta)>,
    /// The readers of a live map that no question uses now. Each is for one question at a time.
    idle: Mutex<Vec<Reader>>,
}

/// A reader of a live map.
enum Reader {
    /// The writer of the map knows it, and waits for it.
    Known(LiveIdle<Rules>),
    /// This user may not write the directory.
    Checked(CheckedNames<Rules>),
}

impl Reader {
    fn open(path: &Path) -> Result<Self, LiveError> {
        match LiveReader::<Rules>::open(path) {
            Ok(reader) => Ok(Reader::Known(reader.idle())),
            Err(LiveError::Unregistered { .. } | LiveError::Foreign { .. }) => {
                let reader = CheckedLiveReader::open_unregistered(path)?;
                Ok(Reader::Checked(CheckedNames::new(reader)))
            }
            Err(error) => Err(error),
        }
    }

    fn ask(
        &mut self,
        key: &[u8],
        rtype: u16,
    ) -> Result<Result<Option<Found>, AskError>, LiveError> {
        let ask = |map: &dyn OrderedRead<[u8]>| found(map, &Meta::of(map)?, key, rtype);
        match self {
            Reader::Known(reader) => reader.read(|view| ask(&view)),
            Reader::Checked(reader) => reader.ask(|map| ask(map)),
        }
    }
}

impl Lists {
    /// Opens a live map, which is a directory, or a file.
    ///
    /// # Errors
    /// The path has no map of rules, or it cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, AskError> {
        let path = path.as_ref().to_owned();
        let mut lists = Lists {
            path,
            saved: None,
            idle: Mutex::default(),
        };
        if lists.path.is_dir() {
            // A map of another kind is refused now, and not at each question.
            lists.ask(b"", 1)?;
        } else {
            lists.saved = Some(sapwood_lists::open(&lists.path)?);
        }
        Ok(lists)
    }

    /// What the rules say about a question for the name of a key, as
    /// [`dns_name`](sapwood::key::dns_name) makes it; `None` if no rule applies.
    ///
    /// A live map is found again when it was removed and made anew.
    ///
    /// # Errors
    /// The rules cannot be read: for example, the live map was removed. This does not mean that the
    /// name has no rule.
    pub fn ask(&self, key: &[u8], rtype: u16) -> Result<Option<Found>, AskError> {
        if let Some((map, meta)) = &self.saved {
            return found(map, meta, key, rtype);
        }
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle().pop();
        if let Some(mut reader) = kept {
            // A reader of a map that was removed is dropped.
            if let Ok(answer) = reader.ask(key, rtype) {
                idle().push(reader);
                return answer;
            }
        }
        let mut reader = Reader::open(&self.path)?;
        let answer = reader.ask(key, rtype)?;
        idle().push(reader);
        answer
    }
}

fn found(
    map: &dyn OrderedRead<[u8]>,
    meta: &Meta,
    key: &[u8],
    rtype: u16,
) -> Result<Option<Found>, AskError> {
    let found = verdict(map, meta, key, rtype).map_err(|error: NotRules| error.to_string())?;
    let Some(found) = found else { return Ok(None) };
    Ok(Some(Found {
        answer: found.answer(key, rtype)?,
        action: found.terms.action,
    }))
}
