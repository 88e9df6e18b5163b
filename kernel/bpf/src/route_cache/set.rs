//! One set of the cache, read in place by atomics and in a bounded number of attempts.

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::fence;

use super::entry::{RouteEntry, RouteKey, RouteValue};
use super::shape::Shape;
use crate::layout::route::{
    KEY, LINE, PATIENCE, SEQUENCE, SET_GENERATION, SLOTS, STAMP, TAGS, VALUE,
};
use crate::raw::arena::Memory;

/// A set. It lies inside the window, because the shape was checked.
#[derive(Clone, Copy)]
pub(super) struct Set<'m> {
    memory: &'m Memory,
    at: usize,
    ways: usize,
}

/// A consistent copy of a set.
pub(super) struct Copied {
    pub generation: u64,
    /// The way, the tag and the entry of each slot that is taken.
    pub entries: Vec<(usize, u8, RouteEntry)>,
}

impl<'m> Set<'m> {
    pub fn new(memory: &'m Memory, window: usize, shape: &Shape, index: usize) -> Set<'m> {
        Set {
            memory,
            at: window + shape.set(index),
            ways: shape.ways_of(index),
        }
    }

    fn word(&self, at: usize) -> u64 {
        self.memory.u64(self.at + at).load(Relaxed)
    }

    fn slot(&self, way: usize, at: usize) -> u64 {
        self.word(LINE + way * LINE + at)
    }

    fn tag(&self, way: usize) -> u8 {
        self.word(TAGS + way / 8 * 8).to_le_bytes()[way % 8]
    }

    /// The number of slots in use.
    pub fn count(&self) -> usize {
        (0..SLOTS).filter(|&way| self.tag(way) != 0).count()
    }

    fn entry(&self, way: usize) -> RouteEntry {
        let stamp = self.slot(way, STAMP);
        let words = |at| move |i: usize| self.slot(way, at + 8 * i);
        let value = RouteValue {
            words: [0, 1, 2, 3].map(words(VALUE)),
        };
        RouteEntry {
            key: RouteKey::from_words([0, 1, 2].map(words(KEY))),
            value: (stamp & 1 == 0).then_some(value),
            time: stamp >> 1,
        }
    }

    /// Copies with `f` between two reads of the sequence that show no writer. `None` when writers
    /// disturb every attempt.
    fn between<R>(&self, mut f: impl FnMut() -> R) -> Option<R> {
        let sequence = self.memory.u64(self.at + SEQUENCE);
        for patience in 0..PATIENCE {
            let before = sequence.load(Acquire);
            if before & 1 == 0 {
                let copy = f();
                fence(Acquire);
                if sequence.load(Relaxed) == before {
                    return Some(copy);
                }
            }
            if patience % 16 == 15 {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
        None
    }

    /// The generation and the entry of a key.
    pub fn find(&self, tag: u8, key: &RouteKey) -> Option<(u64, RouteEntry)> {
        self.between(|| {
            let mut ways = (0..self.ways).filter(|&way| self.tag(way) == tag);
            let way = ways.find(|&way| {
                let words = [0, 1, 2].map(|i| self.slot(way, KEY + 8 * i));
                words == key.words()
            })?;
            Some((self.word(SET_GENERATION), self.entry(way)))
        })
        .flatten()
    }

    /// Copies the whole set, including words behind its last slot.
    pub fn copy(&self) -> Option<Copied> {
        self.between(|| {
            let taken = (0..SLOTS).filter(|&way| self.tag(way) != 0);
            let entries = taken.map(|way| match way < self.ways {
                true => (way, self.tag(way), self.entry(way)),
                false => (way, self.tag(way), RouteEntry::NONE),
            });
            Copied {
                entries: entries.collect(),
                generation: self.word(SET_GENERATION),
            }
        })
    }
}
