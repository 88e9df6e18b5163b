//! How a history that is not linearizable is shown to a human.

use std::fmt;

use super::Event;
use super::check::Offence;

/// Operations on one key that no map can have answered so.
///
/// Displayed, it lists them by their calls, one to a line: the thread, the stamps of the call and
/// the return, the operation and its answer. An arrow marks the first to return for which there is
/// no place in any order of those before it and those beside it.
#[derive(Clone, PartialEq, Eq)]
pub struct NotLinearizable {
    /// The key.
    pub key: Vec<u8>,
    /// What it may have held before.
    pub held: Vec<Option<u64>>,
    /// The operations.
    pub events: Vec<Event>,
    /// The place in `events` of the one that is marked.
    pub culprit: usize,
    /// How many more there were between the same two moments of rest.
    pub left_out: usize,
}

/// Of longer windows the beginning is not shown.
const SHOWN: usize = 60;

impl NotLinearizable {
    pub(super) fn new(key: Vec<u8>, offence: Offence) -> Self {
        Self {
            key,
            held: offence.held.into_iter().collect(),
            events: offence.events,
            culprit: offence.culprit,
            left_out: offence.left_out,
        }
    }
}

impl fmt::Display for NotLinearizable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held: Vec<_> = self
            .held
            .iter()
            .map(|held| held.map_or("nothing".to_owned(), |value| value.to_string()))
            .collect();
        writeln!(
            f,
            "no order of these operations on the key \"{}\" explains their answers",
            self.key.escape_ascii()
        )?;
        writeln!(f, "  before them it held {}", held.join(" or "))?;
        let from = self.events.len().saturating_sub(SHOWN);
        if from > 0 {
            writeln!(f, "  ({from} operations come first)")?;
        }
        for (at, event) in self.events.iter().enumerate().skip(from) {
            let mark = if at == self.culprit { "->" } else { "  " };
            writeln!(
                f,
                "{mark} thread {}  [{}, {}]  {} = {}",
                event.thread, event.called, event.returned, event.op, event.answer
            )?;
        }
        write!(f, "  ({} more beside them do not matter)", self.left_out)
    }
}

// What `unwrap` shows.
impl fmt::Debug for NotLinearizable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for NotLinearizable {}
