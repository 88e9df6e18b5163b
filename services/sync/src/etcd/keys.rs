//! The keys of a map in etcd.
//!
//! | key, below `/sapwood/<map>/` | value |
//! |---|---|
//! | `meta` | the format, the kind of the map and the identity of the log, as JSON |
//! | `leader` | how the leader calls itself; it goes with the leader's lease |
//! | `epoch` | the newest term: its number, and a random one |
//! | `head` | the newest commit: its term, its number, and how many pieces of the next are there |
//! | `log/<commit>.<term>` | a frame with whole commits, of which this is the first |
//! | `log/<commit>.<term>.<piece>` | a frame with a piece of a commit |
//! | `followers/<name>` | a follower's report, as JSON; it goes with the follower's lease |
//! | `evicted/<name>` | why a follower was evicted, as JSON |
//!
//! Numbers in keys are hexadecimal, behind one digit that counts their digits less one. So keys are
//! short, and their order is the numbers' order.

use crate::{Frame, Term};

/// The keys of one map.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    /// What all of them begin with, with a slash at its end.
    base: String,
}

impl Keys {
    pub(super) fn new(prefix: &str, map: &str) -> Self {
        let prefix = prefix.trim_end_matches('/');
        Keys {
            base: format!("{prefix}/{map}/"),
        }
    }

    pub(super) fn meta(&self) -> String {
        self.base.clone() + "meta"
    }

    pub(super) fn leader(&self) -> String {
        self.base.clone() + "leader"
    }

    pub(super) fn epoch(&self) -> String {
        self.base.clone() + "epoch"
    }

    pub(super) fn head(&self) -> String {
        self.base.clone() + "head"
    }

    pub(super) fn followers(&self) -> String {
        self.base.clone() + "followers/"
    }

    pub(super) fn evicted(&self) -> String {
        self.base.clone() + "evicted/"
    }

    /// What the keys of all frames begin with.
    pub(super) fn log(&self) -> String {
        self.base.clone() + "log/"
    }

    /// A key that is behind those of all frames.
    pub(super) fn log_end(&self) -> String {
        self.base.clone() + "log0"
    }

    /// Not behind the key of any frame that begins with this commit or a later one, and behind
    /// those of all earlier ones.
    pub(super) fn start_of(&self, commit: u64) -> String {
        format!("{}log/{}", self.base, ordered(commit))
    }

    /// The key of a frame.
    pub(super) fn frame(&self, frame: &Frame) -> String {
        let (first, term) = (ordered(frame.first()), ordered(frame.epoch()));
        let mut key = format!("{}log/{first}.{term}", self.base);
        if frame.is_piece() {
            key = format!("{key}.{}", ordered(frame.piece().into()));
        }
        key
    }
}

/// A number as text whose order is the numbers' order.
fn ordered(number: u64) -> String {
    let digits = format!("{number:x}");
    format!("{:x}{digits}", digits.len() - 1)
}

/// The value of the key `epoch`.
pub(super) fn term_to_text(term: Term) -> String {
    format!("{} {:x}", term.number, term.mark)
}

/// The term that the key `epoch` tells.
pub(super) fn term_from_text(text: &[u8]) -> Option<Term> {
    let text = std::str::from_utf8(text).ok()?;
    let (number, mark) = text.split_once(' ').unwrap_or((text, "0"));
    Some(Term {
        number: number.parse().ok()?,
        mark: u64::from_str_radix(mark, 16).ok()?,
    })
}

/// The value of the key `head`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Position {
    /// The term in which the newest commit was written.
    pub(super) epoch: u64,
    /// The newest commit.
    pub(super) commit: u64,
    /// How many pieces of the next commit are there, and in which term they were written.
    pub(super) pieces: (u64, u32),
}

impl Position {
    /// The position behind a frame, or `None` if the frame does not belong here.
    pub(super) fn after(self, frame: &Frame) -> Option<Position> {
        let Position { commit, pieces, .. } = self;
        let epoch = frame.epoch();
        if frame.first() != commit.checked_add(1)? {
            return None;
        }
        let there = if pieces.0 == epoch { pieces.1 } else { 0 };
        let piece = u32::from(frame.piece());
        // A term does not begin a commit twice.
        if piece != there {
            return None;
        }
        Some(if frame.last() > commit {
            Position {
                epoch,
                commit: frame.last(),
                pieces: (epoch, 0),
            }
        } else {
            Position {
                pieces: (epoch, piece + 1),
                ..self
            }
        })
    }

    pub(super) fn to_text(self) -> String {
        let Position {
            epoch,
            commit,
            pieces: (term, pieces),
        } = self;
        if pieces == 0 {
            format!("{epoch} {commit}")
        } else {
            format!("{epoch} {commit} {term} {pieces}")
        }
    }

    pub(super) fn from_text(text: &[u8]) -> Option<Position> {
        let text = std::str::from_utf8(text).ok()?;
        let mut numbers = text.split(' ').map(|number| number.parse::<u64>().ok());
        let (epoch, commit) = (numbers.next()??, numbers.next()??);
        let pieces = match numbers.next() {
            None => (epoch, 0),
            Some(term) => (term?, u32::try_from(numbers.next()??).ok()?),
        };
        numbers.next().is_none().then_some(Position {
            epoch,
            commit,
            pieces,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Changes, Commit, Digest, Kind};

    #[test]
    fn the_order_of_keys_is_that_of_numbers() {
        let numbers = [0, 1, 9, 10, 15, 16, 255, 256, 1 << 20, 1 << 60, u64::MAX];
        for pair in numbers.windows(2) {
            assert!(ordered(pair[0]) < ordered(pair[1]), "{pair:?}");
        }
        let keys = Keys::new("/sapwood/", "zone");
        assert_eq!(keys.head(), "/sapwood/zone/head");
        assert!(keys.start_of(u64::MAX) < keys.log_end());
        assert!(keys.log() < keys.start_of(0));
    }

    #[test]
    fn terms_come_back_from_their_texts() {
        for term in [Term::default(), Term::begin(7), Term::begin(u64::MAX)] {
            assert_eq!(term_from_text(term_to_text(term).as_bytes()), Some(term));
        }
        for text in ["", "x", "1 ", "1 x", "1 2 3", " 1"] {
            assert_eq!(term_from_text(text.as_bytes()), None, "{text}");
        }
    }

    fn frames(epoch: u64, first: u64, bytes: usize) -> Vec<Frame> {
        let mut changes = Changes::new();
        changes.put("key", vec![7; bytes]).unwrap();
        let commit = Commit {
            changes,
            digest: Digest(1),
        };
        Frame::of_commits(Kind::Names, epoch, first, &[commit], 100).unwrap()
    }

    #[test]
    fn frames_lie_between_the_bounds_of_their_commits() {
        let keys = Keys::new("/sapwood", "zone");
        let mut all = Vec::new();
        for (epoch, first, bytes) in [(1, 1, 5), (1, 2, 900), (2, 2, 1_500), (2, 3, 5), (2, 16, 5)]
        {
            for frame in frames(epoch, first, bytes) {
                let key = keys.frame(&frame);
                assert!(keys.start_of(first) <= key && key < keys.start_of(first + 1));
                all.push(key);
            }
        }
        assert!(all.is_sorted(), "{all:?}");
    }

    #[test]
    fn positions_take_only_the_next_frame() {
        let start = Position::default();
        let whole = &frames(3, 1, 5)[0];
        let one = start.after(whole).unwrap();
        assert_eq!((one.epoch, one.commit, one.pieces), (3, 1, (3, 0)));
        assert_eq!(one.after(whole), None);
        let pieces = frames(3, 2, 150);
        assert_eq!(one.after(&pieces[1]), None);
        let mut at = one;
        for piece in &pieces {
            assert_eq!(Position::from_text(at.to_text().as_bytes()), Some(at));
            at = at.after(piece).unwrap();
        }
        assert_eq!((at.commit, at.pieces), (2, (3, 0)));
        // A new term begins the commit anew.
        let half = one.after(&pieces[0]).unwrap();
        let again = frames(4, 2, 150);
        assert_eq!(half.after(&again[1]), None);
        assert_eq!(half.after(&pieces[0]), None);
        assert_eq!(half.after(&again[0]).unwrap().pieces, (4, 1));
        for text in ["", "1", "1 2 3", "1 2 3 4 5", "1 x", "-1 2"] {
            assert_eq!(Position::from_text(text.as_bytes()), None, "{text}");
        }
    }
}
