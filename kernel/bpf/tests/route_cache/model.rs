//! A naive model of the route cache for one processor: the answer of each operation, and the
//! counts.

use std::collections::BTreeMap;

use sapwood_bpf::{RouteKey, RouteValue};

pub const ENOENT: i64 = -2;
pub const ENOSPC: i64 = -28;
pub const EOPNOTSUPP: i64 = -95;
pub const EHOSTUNREACH: i64 = -113;
pub const ESTALE: i64 = -116;
pub const ECANCELED: i64 = -125;

/// The contents of `struct sw_route_ticket`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticket {
    pub now: u64,
    pub generation: u64,
    pub disturbances: u64,
    pub hash: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: RouteKey,
    value: Option<RouteValue>,
    time: u64,
    hit: bool,
}

/// A set of slots, each with an entry or empty.
#[derive(Clone, Default)]
struct Set {
    slots: Vec<Option<Entry>>,
    hand: usize,
    generation: u64,
    disturbances: u64,
}

impl Set {
    fn find(&mut self, key: &RouteKey) -> Option<&mut Option<Entry>> {
        self.slots
            .iter_mut()
            .find(|slot| slot.is_some_and(|entry| entry.key == *key))
    }

    /// Empties the set if it is of another generation. Returns the number of its entries.
    fn restart(&mut self, generation: u64) -> u64 {
        if self.generation == generation {
            return 0;
        }
        self.generation = generation;
        let gone = self.slots.iter_mut().filter_map(Option::take);
        gone.count() as u64
    }

    /// The slot whose entry is evicted.
    fn victim(&mut self) -> usize {
        let ways = self.slots.len();
        let order: Vec<usize> = (0..ways).map(|i| (self.hand + i) % ways).collect();
        let is_hit = |way: &usize| self.slots[*way].is_some_and(|entry| entry.hit);
        let way = order.iter().copied().find(|way| !is_hit(way));
        if way.is_none() {
            for entry in self.slots.iter_mut().flatten() {
                entry.hit = false;
            }
        }
        let way = way.unwrap_or(order[0]);
        self.hand = (way + 1) % ways;
        way
    }
}

/// A cache without words, tags or locks.
pub struct Model {
    sets: Vec<Set>,
    fresh: u64,
    keep: u64,
    negative: Option<u64>,
    pub generation: u64,
    last: u64,
    cursor: usize,
    pub counts: BTreeMap<&'static str, u64>,
}

impl Model {
    pub fn new(capacity: usize, fresh: u64, keep: u64, negative: Option<u64>) -> Model {
        let sets = capacity.div_ceil(16);
        let ways = |set| capacity / sets + usize::from(set < capacity % sets);
        let set = |set| Set {
            slots: vec![None; ways(set)],
            ..Set::default()
        };
        Model {
            sets: (0..sets).map(set).collect(),
            fresh,
            keep,
            negative,
            generation: 0,
            last: 0,
            cursor: 0,
            counts: BTreeMap::new(),
        }
    }

    fn count(&mut self, what: &'static str, more: u64) {
        *self.counts.entry(what).or_default() += more;
    }

    pub fn counted(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or(0)
    }

    fn note(&mut self, now: u64) {
        if now > self.last {
            self.last = now;
        } else if self.last - now >= self.fresh.max(self.negative.unwrap_or(0)) {
            self.last = now;
            self.generation += 1;
            self.count("clock_back", 1);
        }
    }

    fn index(&self, hash: u64) -> usize {
        (((hash >> 32) * self.sets.len() as u64) >> 32) as usize
    }

    fn expired(&self, entry: &Entry, now: u64) -> bool {
        let back = now.wrapping_sub(entry.time) & (u64::MAX >> 1);
        let limit = match entry.value {
            Some(_) => self.keep,
            None => self.negative.unwrap_or(0),
        };
        back.min((1 << 63) - back) >= limit
    }

    pub fn get(
        &mut self,
        key: &RouteKey,
        hash: u64,
        now: u64,
    ) -> (Result<RouteValue, i64>, Ticket) {
        self.note(now);
        let (generation, fresh, negative) = (self.generation, self.fresh, self.negative);
        let index = self.index(hash);
        let mut ticket = Ticket {
            now,
            generation,
            hash,
            disturbances: 0,
        };
        let mut answer = Err(ENOENT);
        if let Some(set) = self.sets.get_mut(index) {
            ticket.disturbances = set.disturbances;
            let valid = set.generation == generation;
            if let Some(Some(entry)) = set.find(key).filter(|_| valid) {
                let age = now.wrapping_sub(entry.time) & (u64::MAX >> 1);
                answer = match entry.value {
                    Some(value) if age < fresh => Ok(value),
                    None if age < negative.unwrap_or(0) => Err(EHOSTUNREACH),
                    _ => Err(ESTALE),
                };
                entry.hit |= answer != Err(ESTALE);
            }
        }
        match answer {
            Ok(_) => self.count("hit", 1),
            Err(EHOSTUNREACH) => {
                self.count("hit", 1);
                self.count("negative", 1);
            }
            Err(error) => {
                self.count("miss", 1);
                self.count("stale", u64::from(error == ESTALE));
            }
        }
        (answer, ticket)
    }

    pub fn put(&mut self, key: &RouteKey, ticket: Ticket, value: Option<RouteValue>) -> i64 {
        if value.is_none() {
            self.count("error", 1);
            if self.negative.is_none() {
                return EOPNOTSUPP;
            }
        }
        let (index, fresh) = (self.index(ticket.hash), self.fresh);
        let Some(set) = self.sets.get_mut(index) else {
            return ENOSPC;
        };
        if ticket.generation != self.generation || ticket.disturbances != set.disturbances {
            self.count("overtaken", 1);
            return ECANCELED;
        }
        let invalidated = set.restart(ticket.generation);
        let new = Entry {
            key: *key,
            value,
            time: ticket.now & (u64::MAX >> 1),
            hit: false,
        };
        if let Some(Some(entry)) = set.find(key) {
            let ahead = entry.time.wrapping_sub(new.time) & (u64::MAX >> 1);
            let overtaken = ahead > 0 && ahead < fresh;
            if !overtaken {
                *entry = Entry { hit: true, ..new };
            }
            self.count("invalidated", invalidated);
            self.count(if overtaken { "overtaken" } else { "refresh" }, 1);
            return if overtaken { ECANCELED } else { 0 };
        }
        let vacant = set.slots.iter().position(Option::is_none);
        let way = vacant.unwrap_or_else(|| set.victim());
        let old = set.slots[way].replace(new);
        let full = old.is_some_and(|old| !self.expired(&old, ticket.now));
        self.count("invalidated", invalidated);
        self.count("evict", u64::from(old.is_some()));
        self.count("full", u64::from(full));
        self.count("insert", 1);
        0
    }

    pub fn invalidate(&mut self, key: &RouteKey, hash: u64) -> i64 {
        let (index, generation) = (self.index(hash), self.generation);
        let Some(set) = self.sets.get_mut(index) else {
            return 0;
        };
        set.disturbances += 1;
        let valid = set.generation == generation;
        if set.find(key).and_then(Option::take).is_none() {
            return 0;
        }
        self.count("invalidated", 1);
        i64::from(valid)
    }

    pub fn sweep(&mut self, now: u64, budget: u32) -> i64 {
        let some = (budget as usize).div_ceil(16).min(self.sets.len());
        let (mut swept, mut invalidated) = (0, 0);
        for i in 0..some {
            let index = (self.cursor + i) % self.sets.len();
            let mut set = std::mem::take(&mut self.sets[index]);
            if set.slots.iter().any(Option::is_some) {
                invalidated += set.restart(self.generation);
                for slot in &mut set.slots {
                    if slot.is_some_and(|entry| self.expired(&entry, now)) {
                        *slot = None;
                        swept += 1;
                    }
                }
            }
            self.sets[index] = set;
        }
        self.cursor += some;
        self.count("swept", swept);
        self.count("invalidated", invalidated);
        (swept + invalidated) as i64
    }

    /// Keys, times and values of all valid entries, in order.
    pub fn entries(&self) -> Vec<([u8; 16], u64, Option<[u64; 4]>)> {
        let sets = self.sets.iter();
        let valid = sets.filter(|set| set.generation == self.generation);
        let entries = valid.flat_map(|set| set.slots.iter().flatten());
        let mut all: Vec<_> = entries
            .map(|entry| (entry.key.address, entry.time, entry.value.map(|v| v.words)))
            .collect();
        all.sort_unstable();
        all
    }

    pub fn occupancy(&self) -> usize {
        let slots = self.sets.iter().flat_map(|set| &set.slots);
        slots.filter(|slot| slot.is_some()).count()
    }
}
