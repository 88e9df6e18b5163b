//! Errors of lists.

use std::io;

use crate::format::Format;
use crate::looks::ListFormat;
use crate::value::NotRules;

/// Why lists cannot become a map.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// A list cannot be read.
    #[error("cannot read {list}: {source}")]
    Read {
        /// The list.
        list: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The beginning of a text is that of no list.
    #[error("{list}: this is no list: it looks like {looks_like}")]
    NoFormat {
        /// The list.
        list: String,
        /// What it looks like.
        looks_like: ListFormat,
    },
    /// Most lines of a list are not understood.
    #[error(
        "{list}: {refused} of {lines} lines are not those of {format}{}",
        looks_like.map_or(String::new(), |looks| format!("; it looks like {looks}"))
    )]
    NotAList {
        /// The list.
        list: String,
        /// The format that it was read as.
        format: Format,
        /// How many lines were refused.
        refused: u64,
        /// How many lines have anything but a comment.
        lines: u64,
        /// What the refused lines look like.
        looks_like: Option<ListFormat>,
    },
    /// A line is not understood, and the options allow none of these.
    #[error("{list}: line {line}: {what}")]
    Line {
        /// The list.
        list: String,
        /// The number of the line.
        line: u64,
        /// Why.
        what: String,
    },
    /// A list has no rule, and the options do not allow it.
    #[error("{list}: it has no rule; an empty list has to be allowed")]
    Empty {
        /// The list.
        list: String,
    },
    /// A list has less than half of the rules that it had, and the options do not allow it.
    #[error("{list}: it has {now} rules, and had {before}; that it shrinks so has to be allowed")]
    Shrunk {
        /// The list.
        list: String,
        /// Its rules.
        now: u64,
        /// Those of the reading before.
        before: u64,
    },
    /// A list changed while it was read.
    #[error("{list}: it changed while it was read")]
    Changed {
        /// The list.
        list: String,
    },
    /// There are more lists than a map can have.
    #[error("{lists} lists are too many: a map has {MAX_LISTS} at most")]
    TooMany {
        /// How many.
        lists: usize,
    },
    /// More names have `$badfilter` than are kept in memory.
    #[error("{list}: line {line}: more than {MAX_CANCELS} rules have $badfilter")]
    TooManyCancels {
        /// The list.
        list: String,
        /// The line of the first that is too much.
        line: u64,
    },
    /// A map that is to be filled has entries.
    #[error("the map has entries, so the lists cannot fill it")]
    NotEmpty,
    /// The map changed while lists were read.
    #[error("somebody else changed the map while the lists were read")]
    MapChanged,
    /// The map has other values than rules.
    #[error(transparent)]
    NotRules(#[from] NotRules),
    /// The map has no memory for the rules.
    #[error("cannot make the map of rules: {0}")]
    Map(#[from] sapwood::Error),
}

/// The most lists of a map.
pub const MAX_LISTS: usize = u16::MAX as usize;
/// The most rules with `$badfilter`.
pub const MAX_CANCELS: usize = 100_000;

sapwood::from_structures!(ListError::Map);

impl ListError {
    /// Makes an error of reading, for `map_err`.
    pub(crate) fn read(list: &str) -> impl FnOnce(io::Error) -> Self {
        move |source| ListError::Read {
            list: list.into(),
            source,
        }
    }
}
