//! The report of a history that is not linearizable.

use std::fmt;

use super::Event;
use super::check::Offence;

/// The error of a history whose operations on one key are not linearizable.
///
/// `Display` lists the operations in the order of their calls, one in each line: the thread, the
/// stamps of the call and the return, the operation and its answer. An arrow marks the operation at
/// whose return no order is left.
#[derive(Clone, PartialEq, Eq)]
pub struct NotLinearizable {
    /// The key.
    pub key: Vec<u8>,
    /// The values that the key may have had before the operations.
    pub held: Vec<Option<u64>>,
    /// The operations.
    pub events: Vec<Event>,
    /// The place in `events` of the marked operation.
    pub culprit: usize,
    /// How many other operations ran between the same two cuts.
    pub left_out: usize,
}

/// The largest number of operations that are shown; the first ones of more are left out.
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

// `unwrap` prints this.
impl fmt::Debug for NotLinearizable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for NotLinearizable {}
