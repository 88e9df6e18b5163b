//! Whether a log is the one that a map has followed.

use crate::Head;

/// What a log is to a map that has followed one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The same one, perhaps further on.
    Same,
    /// Empty, or without an identity. Whoever asks for that may adopt it.
    Empty(String),
    /// An earlier state of it, in which nothing newer was written yet.
    Older(String),
    /// Another one, or one that was written anew from an earlier state. It may be adopted.
    Other(String),
}

/// Compares the place of a map in its log with a head that was read later. `here.term` is the
/// newest term that was seen; `here.epoch` and `here.commit` are those of the map.
pub(crate) fn judge(here: &Head, now: &Head) -> Verdict {
    if here.commit == 0 {
        return Verdict::Same;
    }
    let had = format!("commit {} of term {} was there", here.commit, here.epoch);
    if now.commit == 0 {
        let what = format!("the log is gone or empty, and {had}: it is not adopted");
        return Verdict::Empty(what);
    }
    let ends = format!(
        "the log ends with commit {} of term {}, and {had}",
        now.commit, now.epoch
    );
    match (here.log, now.log) {
        (Some(_), None) => {
            let what = format!("the log has lost its identity, and {had}: it is not adopted");
            return Verdict::Empty(what);
        }
        (Some(old), Some(new)) if old != new => {
            return Verdict::Other(format!("this is log {new}, and it was {old} before"));
        }
        _ => {}
    }
    // A term that has the number of a known one began after the log was put back.
    let is_again = now.term.number == here.term.number && now.term.mark != here.term.mark;
    let is_before = now.term.number < here.term.number;
    let is_further = now.commit > here.commit;
    let is_mine = (now.epoch, now.commit) == (here.epoch, here.commit);
    if !is_before && !is_again && (is_further || is_mine) {
        return Verdict::Same;
    }
    let is_newer = match is_again {
        true => now.epoch == now.term.number,
        false => !is_before && now.epoch > here.epoch,
    };
    match is_newer {
        true => Verdict::Other(format!(
            "the log was written anew from an earlier state: {ends}"
        )),
        false => Verdict::Older(format!("the log was put back to an earlier state: {ends}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LogId, Term};

    fn head(log: u64, term: (u64, u64), epoch: u64, commit: u64) -> Head {
        Head {
            log: (log > 0).then_some(LogId(log)),
            term: Term {
                number: term.0,
                mark: term.1,
            },
            epoch,
            commit,
        }
    }

    #[test]
    fn a_log_is_known_by_its_identity_its_terms_and_its_head() {
        use Verdict::{Empty, Older, Other, Same};
        let here = head(1, (3, 33), 3, 10);
        let is = |now: Head, wanted: fn(String) -> Verdict| {
            let found = judge(&here, &now);
            let wanted = wanted(String::new());
            let same = std::mem::discriminant(&found) == std::mem::discriminant(&wanted);
            assert!(same, "{now:?}: {found:?}");
        };
        let same = |now| assert_eq!(judge(&here, &now), Same);
        same(here);
        same(head(1, (3, 33), 3, 11));
        same(head(1, (4, 44), 3, 10));
        same(head(1, (4, 44), 3, 12));
        same(head(1, (4, 44), 4, 11));
        is(Head::default(), Empty);
        is(head(1, (3, 33), 0, 0), Empty);
        is(head(2, (3, 33), 0, 0), Empty);
        is(head(0, (3, 33), 3, 10), Empty);
        is(head(0, (0, 0), 9, 99), Empty);
        is(head(2, (1, 11), 1, 1), Other);
        is(head(2, (3, 33), 3, 10), Other);
        // Put back, within the term or to an earlier one; then a leader comes, and writes.
        is(head(1, (3, 33), 3, 9), Older);
        is(head(1, (2, 22), 2, 4), Older);
        is(head(1, (2, 22), 2, 14), Older);
        is(head(1, (3, 34), 2, 4), Older);
        is(head(1, (3, 34), 3, 5), Other);
        is(head(1, (3, 34), 3, 10), Other);
        is(head(1, (3, 34), 3, 15), Other);
        is(head(1, (4, 44), 3, 9), Older);
        is(head(1, (4, 44), 4, 9), Other);
        is(head(1, (4, 44), 4, 10), Other);
        // Whoever has nothing takes what is there.
        assert_eq!(judge(&head(1, (3, 33), 0, 0), &Head::default()), Same);
    }
}
