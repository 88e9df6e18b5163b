//! The search for an order of one key's operations: the algorithm of Wing and Gong (1993), with
//! Lowe's set of situations that were tried.
//!
//! At a *cut* no operation is running, so all operations before it precede all operations after it.
//! The search goes from cut to cut, with all values that the key may have at each. Within a piece
//! it goes from *situation* to situation. A situation is the set of operations that are done, and
//! the value of the key. An operation may come next if no operation that is not done returned
//! before its call. An operation that only reads, and whose answer fits the value, comes next at
//! once: every order that has it at a later place is also an order with it here.

use std::collections::{BTreeSet, HashSet};

use super::Event;

/// The figures of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The number of keys with operations.
    pub keys: usize,
    /// The number of operations on all keys.
    pub operations: usize,
    /// The number of pieces between cuts. If pieces have few operations, threads hardly overlapped.
    pub pieces: usize,
    /// The number of operations of the longest piece.
    pub longest: usize,
    /// The number of situations that the search reached.
    pub situations: usize,
}

/// Operations of one key that have no order.
pub(super) struct Offence {
    /// The values that the key may have had before them.
    pub held: BTreeSet<Option<u64>>,
    /// The operations in the order of their calls.
    pub events: Vec<Event>,
    /// The place of the operation at whose return no order is left.
    pub culprit: usize,
    /// How many operations of the piece are left out, because the rest has no order without them.
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

/// The number of operations before the next cut; at least one.
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

/// Removes operations from a piece while the rest still has no order. The operations that returned
/// up to the moment `stuck` have no order, whatever comes later. Those that were still running then
/// may have been done or not.
fn smallest(piece: &[Event], held: BTreeSet<Option<u64>>, stuck: u64) -> Offence {
    let called_before = piece.iter().filter(|event| event.called < stuck);
    let mut events: Vec<Event> = called_before.copied().collect();
    // An order of all operations is also an order without the reads, so a removed read cannot be
    // the reason why the rest has none.
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

/// The largest number of operations of a piece that is minimized, as each step costs a search.
const MINIMIZED: usize = 2000;

/// The operations that are done, and the value of the key. All operations before `first` are done,
/// `first` is not, and those after it are done whose bit is set.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Situation {
    first: usize,
    /// The bits from the place `first + 1` on. The last word is not zero.
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
        // The first operation is done now, and so are those that follow it without a gap.
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

/// The state of the search in a piece.
struct Search {
    seen: HashSet<Situation>,
    /// The values that the key may have when all is done; empty if there is no order.
    ends: BTreeSet<Option<u64>>,
    /// The latest moment up to which there is an order. It is the return of an operation that has
    /// no place in any order.
    stuck: u64,
}

/// A moment later than every return.
const ALL: u64 = u64::MAX - 1;

impl Search {
    /// Searches for orders of all operations that returned up to the moment `until`, with any of
    /// the others.
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

/// Writes the operations that may come next to `next`, with the value after each. Returns the first
/// return among the operations that are not done, and a read that may come next, if there is one.
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
            // Each operation stays near its place, or moves far from it.
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
