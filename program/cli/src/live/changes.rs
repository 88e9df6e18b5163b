//! Changes of a live map that a server is asked for, and what came of them.

use std::fmt;

use tracing::field::Empty;

use crate::span;

/// How an entry changes.
pub enum Change<E> {
    /// The entry is added, or replaces one.
    Add(E),
    /// An entry is removed.
    Remove,
}

/// A change of an entry that a command asks for.
pub struct Asked<E> {
    /// The key of the entry, as the map has it.
    pub key: Vec<u8>,
    /// What becomes of it.
    pub change: Change<E>,
}

/// What came of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// A new entry.
    Added,
    /// An entry in place of another one.
    Replaced,
    /// The entry was there and is gone.
    Removed,
    /// The entry was not there.
    Absent,
}

impl Made {
    /// What came of an entry that was added, or of one that was removed.
    pub fn new(adds: bool, was_there: bool) -> Self {
        match (adds, was_there) {
            (true, false) => Made::Added,
            (true, true) => Made::Replaced,
            (false, true) => Made::Removed,
            (false, false) => Made::Absent,
        }
    }

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Made::Added => "added",
            Made::Replaced => "replaced",
            Made::Removed => "removed",
            Made::Absent => "absent",
        }
    }
}

/// How many entries a reading of the list changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Entries that only the list had.
    pub added: u64,
    /// Entries that only the map had.
    pub removed: u64,
    /// Entries whose values differed.
    pub changed: u64,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference {
            added,
            removed,
            changed,
        } = self;
        write!(f, "{added} added, {removed} removed, {changed} changed")
    }
}

impl Difference {
    /// Whether the map already was what the list says.
    pub fn is_empty(self) -> bool {
        self == Difference::default()
    }

    /// The span in which a map is compared with a list.
    pub fn span() -> tracing::span::EnteredSpan {
        span!(
            INFO,
            "difference",
            added = Empty,
            removed = Empty,
            changed = Empty
        )
    }

    /// Notes the counts in a span that has fields for them.
    pub fn note_in(self, span: &tracing::Span) {
        span.record("added", self.added);
        span.record("removed", self.removed);
        span.record("changed", self.changed);
    }

    /// Adds the counts of another difference.
    pub fn add(&mut self, more: Difference) {
        self.added += more.added;
        self.removed += more.removed;
        self.changed += more.changed;
    }
}
