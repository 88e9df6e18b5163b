//! The search for an order of one key's operations (Wing and Gong 1993, with Lowe's memory of what
//! was tried).
//!
//! At a *cut* no operation is running; all before it come before all after it. So the history is
//! searched from cut to cut, with all values that the key may hold at each. Within a piece the
//! search goes from one *situation*, which operations are done and what the key holds, to the next:
//! an operation may come next if none that is not done returned before it was called. An operation
//! that only reads, and whose answer fits now, is done at once: if there is an order with it at a
//! later place, there is the same one with it here.

use std::collections::{BTreeSet, HashSet};

use super::Event;

/// How much there was to check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Keys with operations.
    pub keys: usize,
    /// Operations on all of them.
    pub operations: usize,
    /// Pieces between cuts. Few operations a piece mean that threads hardly met.
    pub pieces: usize,
    /// The operations of the longest piece.
    pub longest: usize,
    /// Situations that the search came to.
    pub situations: usize,
}

/// Operations that no order explains.
pub(super) struct Offence {
    /// What the key may have held before them.
    pub held: BTreeSet<Option<u64>>,
    /// The operations, by their calls.
    pub events: Vec<Event>,
    /// The place of the one that was the first to return with no order left.
    pub culprit: usize,
    /// How many of the piece are left out, as the rest has no order without them either.
    pub left_out: usize,
}

/// Checks the operations of one key, sorted by their calls.
pub(super) fn key(events: &[Event], held: Option<u64>, stats: &mut Stats) -> Result<(), Offence> {
    stats.keys += 1;
    stats.operations += events.len();
    let mut held = BTreeSet::from([held]);
    let mut rest = events;
    while !rest.is_empty() {
        let (piece, others) = rest.split_at(cut(rest));
        rest = others;
        let search = Search::run(piece, &held, ALL);
        stats.pieces += 1;
        stats.longest = stats.longest.max(piece.len());
        stats.situations += search.seen.len();
        if search.ends.is_empty() {
            return Err(smallest(piece, held, search.stuck));
        }
        held = search.ends;
    }
    Ok(())
}

/// How many operations there are before the next cut; at least one.
fn cut(events: &[Event]) -> usize {
    let mut latest = events[0].returned;
    for (at, event) in events.iter().enumerate().skip(1) {
        if event.called > latest {
            return at;
        }
        latest = latest.max(event.returned);
    }
    events.len()
}

/// Leaves out of a piece what is not needed to see that it has no order. Up to the moment `stuck`
/// the piece is at fault, whatever comes later; what was still running then may have been done or
/// not.
fn smallest(piece: &[Event], held: BTreeSet<Option<u64>>, stuck: u64) -> Offence {
    let called_before = piece.iter().filter(|event| event.called < stuck);
    let mut events: Vec<Event> = called_before.copied().collect();
    // An order of all would be one without the reads: leaving out a read cannot make an order
    // impossible.
    let mut at = events.len();
    while at > 0 && events.len() <= MINIMIZED {
        at -= 1;
        let event = events[at];
        if event.op.only_reads(event.answer) {
            events.remove(at);
            if !Search::run(&events, &held, stuck).ends.is_empty() {
                events.insert(at, event);
            }
        }
    }
    let culprit = events.iter().position(|event| event.returned == stuck);
    Offence {
        held,
        culprit: culprit.expect("without it there is an order"),
        left_out: piece.len() - events.len(),
        events,
    }
}

/// Longer pieces are shown as they are, since each read that is left out costs a search.
const MINIMIZED: usize = 2000;

/// Which operations are done: all before `first`, which is not, and those after it whose bit is
/// set.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Situation {
    first: usize,
    /// Bits from the place `first + 1` on; no zero word at the end.
    done: Vec<u64>,
    held: Option<u64>,
}

impl Situation {
    fn is_done(&self, at: usize) -> bool {
        at < self.first
            || at > self.first && {
                let bit = at - self.first - 1;
                self.done
                    .get(bit / 64)
                    .is_some_and(|word| word >> (bit % 64) & 1 == 1)
            }
    }

    /// The situation after the operation at this place.
    fn after(&self, at: usize, held: Option<u64>) -> Self {
        let mut next = self.clone();
        next.held = held;
        if at > self.first {
            let bit = at - self.first - 1;
            if next.done.len() <= bit / 64 {
                next.done.resize(bit / 64 + 1, 0);
            }
            next.done[bit / 64] |= 1 << (bit % 64);
            return next;
        }
        // The first one is done now, and so are those that follow it without a gap.
        let ones: usize = {
            let full = next.done.iter().take_while(|word| **word == u64::MAX);
            let words = full.count();
            let tail = next.done.get(words).map_or(0, |word| word.trailing_ones());
            words * 64 + tail as usize
        };
        next.first += 1 + ones;
        next.shift(ones + 1);
        next
    }

    /// Drops the lowest bits.
    fn shift(&mut self, bits: usize) {
        let (words, bits) = (bits / 64, bits % 64);
        self.done.drain(..words.min(self.done.len()));
        if bits > 0 {
            for at in 0..self.done.len() {
                let above = self.done.get(at + 1).copied().unwrap_or_default();
                self.done[at] = self.done[at] >> bits | above << (64 - bits);
            }
        }
        while self.done.last() == Some(&0) {
            self.done.pop();
        }
    }
}

/// All situations of a piece.
struct Search {
    seen: HashSet<Situation>,
    /// What the key may hold when all is done; empty if there is no order.
    ends: BTreeSet<Option<u64>>,
    /// The latest moment up to which there is an order: the return of an operation that has no
    /// place in any.
    stuck: u64,
}

/// Later than every return.
const ALL: u64 = u64::MAX - 1;

impl Search {
    /// Looks for orders of all that returned up to the moment `until`, and of any of the rest.
    fn run(events: &[Event], held: &BTreeSet<Option<u64>>, until: u64) -> Self {
        let mut search = Self {
            seen: HashSet::new(),
            ends: BTreeSet::new(),
            stuck: 0,
        };
        let mut open: Vec<_> = held
            .iter()
            .map(|held| Situation {
                first: 0,
                done: Vec::new(),
                held: *held,
            })
            .collect();
        let mut next = Vec::new();
        while let Some(situation) = open.pop() {
            if search.seen.contains(&situation) {
                continue;
            }
            let (returns, read) = candidates(events, &situation, &mut next);
            if returns > until {
                search.ends.insert(situation.held);
            } else {
                search.stuck = search.stuck.max(returns);
                match read {
                    Some(at) => open.push(situation.after(at, situation.held)),
                    None => open.extend(next.iter().map(|(at, held)| situation.after(*at, *held))),
                }
            }
            search.seen.insert(situation);
        }
        search
    }
}

/// Writes what may come next to `next`, with what the key holds after it. Returns the first return
/// among what is not done, and a read among what may come next, if there is one.
fn candidates(
    events: &[Event],
    situation: &Situation,
    next: &mut Vec<(usize, Option<u64>)>,
) -> (u64, Option<usize>) {
    next.clear();
    let mut returns = u64::MAX;
    let mut read = None;
    for (at, event) in events.iter().enumerate().skip(situation.first) {
        if event.called > returns {
            break;
        }
        if situation.is_done(at) {
            continue;
        }
        returns = returns.min(event.returned);
        if let Some(after) = event.op.step(situation.held, event.answer) {
            if event.op.only_reads(event.answer) {
                read = read.or(Some(at));
            }
            next.push((at, after));
        }
    }
    (returns, read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn situations_remember_what_is_done() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..200 {
            let mut situation = Situation {
                first: 0,
                done: Vec::new(),
                held: None,
            };
            let mut order: Vec<usize> = (0..300).collect();
            // Near to its place, or far from it.
            let reach = [2, 70, 300][rng.usize(..3)];
            for part in order.chunks_mut(reach) {
                rng.shuffle(part);
            }
            let mut done = [false; 300];
            for at in order {
                assert!(!situation.is_done(at));
                situation = situation.after(at, Some(at as u64));
                done[at] = true;
                let first = done.iter().position(|done| !done).unwrap_or(300);
                assert_eq!(situation.first, first);
                assert_ne!(situation.done.last(), Some(&0));
                for (at, done) in done.iter().enumerate() {
                    assert_eq!(situation.is_done(at), *done, "{at}");
                }
            }
            assert!(situation.done.is_empty());
        }
    }
}
