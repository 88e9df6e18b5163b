//! The records of an answer, in their order: a whole zone (RFC 5936), or changes (RFC 1995).

use std::mem;
use std::path::Path;

use super::TransferError;
use super::copy::{Changes, NewCopy};
use super::item::{Item, Soa, is_later};

/// What an answer was.
pub enum Received {
    /// The version that is here is the last one.
    Same,
    /// All of a new version, not in its place yet, and whether it came as changes.
    Copy(NewCopy, bool),
}

/// How far an answer is.
enum State {
    Nothing,
    /// The SOA of the new version came.
    Begun(Item, Soa),
    Whole(NewCopy, Soa),
    /// Records go: those of this version.
    Going(Item, Soa, Changes, u32),
    /// Records come: those of this version.
    Coming(Item, Soa, Changes, u32),
    WholeEnd(NewCopy),
    ChangesEnd(Item, Changes),
}

/// Reads an answer, record by record.
pub struct Answer<'a> {
    place: &'a Path,
    /// The version that is here; it allows changes.
    had: Option<u32>,
    has_changes: bool,
    limits: (u64, u64),
    state: State,
}

impl<'a> Answer<'a> {
    /// `limits` are those of bytes of the zone and of changes.
    pub fn new(
        place: &'a Path,
        (had, has_changes): (Option<u32>, bool),
        limits: (u64, u64),
    ) -> Self {
        Answer {
            place,
            had,
            has_changes,
            limits,
            state: State::Nothing,
        }
    }

    pub fn take(&mut self, item: Item) -> Result<(), TransferError> {
        let wrong = |what: String| Err(TransferError::Wrong(what));
        let soa = item.soa();
        self.state = match (mem::replace(&mut self.state, State::Nothing), soa) {
            (State::Nothing, Some(soa)) => {
                if let Some(had) = self.had.filter(|had| is_back(*had, soa.serial)) {
                    let has = soa.serial;
                    return Err(TransferError::Back { had, has });
                }
                State::Begun(item, soa)
            }
            (State::Nothing, None) => return wrong("it does not begin with a SOA".into()),
            (State::Begun(first, new), Some(old))
                if self.has_changes && Some(old.serial) == self.had =>
            {
                State::Going(first, new, Changes::new(self.limits.1), old.serial)
            }
            (State::Begun(first, new), Some(last)) if last.serial == new.serial => {
                State::WholeEnd(NewCopy::begin(self.place, &first, self.limits.0)?)
            }
            (State::Begun(_, new), Some(other)) => {
                let (new, other) = (new.serial, other.serial);
                return wrong(format!("the serial {other} comes behind {new}"));
            }
            (State::Begun(first, new), None) => {
                let mut copy = NewCopy::begin(self.place, &first, self.limits.0)?;
                copy.put(&item)?;
                State::Whole(copy, new)
            }
            (State::Whole(mut copy, new), None) => {
                copy.put(&item)?;
                State::Whole(copy, new)
            }
            (State::Whole(copy, new), Some(last)) if last == new => State::WholeEnd(copy),
            (State::Whole(..), Some(_)) => {
                return wrong("its last SOA is not its first one".into());
            }
            (State::Going(first, new, mut changes, from), None) => {
                changes.take(&item, false)?;
                State::Going(first, new, changes, from)
            }
            (State::Going(first, new, changes, from), Some(to)) => {
                if !is_later(to.serial, from) {
                    return wrong(format!("the serial {} comes behind {from}", to.serial));
                }
                State::Coming(first, new, changes, to.serial)
            }
            (State::Coming(first, new, mut changes, at), None) => {
                changes.take(&item, true)?;
                State::Coming(first, new, changes, at)
            }
            (State::Coming(first, new, changes, at), Some(next)) if next.serial == at => {
                match at == new.serial {
                    true => State::ChangesEnd(first, changes),
                    false => State::Going(first, new, changes, at),
                }
            }
            (State::Coming(.., at), Some(next)) => {
                return wrong(format!("changes of {} come behind {at}", next.serial));
            }
            (State::WholeEnd(_) | State::ChangesEnd(..), _) => {
                return wrong("records come behind its end".into());
            }
        };
        Ok(())
    }

    /// Whether it has ended, at the end of a message.
    pub fn has_ended(&self) -> bool {
        match &self.state {
            State::WholeEnd(_) | State::ChangesEnd(..) => true,
            State::Begun(_, soa) => self.has_changes && Some(soa.serial) == self.had,
            _ => false,
        }
    }

    pub fn received(self) -> Result<Received, TransferError> {
        match self.state {
            State::WholeEnd(copy) => Ok(Received::Copy(copy, false)),
            State::ChangesEnd(item, changes) => {
                let copy = changes.apply(self.place, &item, self.limits.0)?;
                Ok(Received::Copy(copy, true))
            }
            State::Begun(..) => Ok(Received::Same),
            _ => Err(TransferError::Cut),
        }
    }
}

/// Whether a serial is neither the one that is here, nor later.
pub fn is_back(had: u32, has: u32) -> bool {
    had != has && !is_later(has, had)
}
