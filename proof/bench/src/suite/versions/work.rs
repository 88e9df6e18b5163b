//! The work of the threads of a case, and its keys.

use std::time::Duration;

use crate::keylist::{KeyList, scramble};
use crate::stores::Txn;

/// The loops, transactions and operations of a thread.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Transactions in a loop; after each loop the thread pauses.
    pub transactions: usize,
    /// Operations in a transaction.
    pub operations: usize,
}

/// The work of a case on a store that holds all keys.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Some readers, and perhaps a writer, for a while.
    Threads {
        /// The number of reading threads.
        readers: usize,
        /// The plan of the readers.
        plan: Plan,
        /// The plan of the writer, if there is one.
        writer: Option<Plan>,
        /// The duration.
        window: Duration,
    },
    /// Memory, then reads, then writes, on one thread.
    Items {
        /// The plan of the reads and the writes.
        plan: Plan,
        /// The duration of the reads, and that of the writes.
        window: Duration,
    },
    /// One transaction after the other on one thread, each timed.
    Commits {
        /// Operations in a transaction.
        operations: usize,
        /// The duration.
        window: Duration,
    },
}

/// The keys of a case. The writer removes and inserts every second key, which has an odd value.
pub struct Keys {
    /// All keys in a random order: for building and, from several starting places, for readers.
    pub all: KeyList,
    /// The keys that the writer may change, in another random order.
    pub moving: KeyList,
}

impl Keys {
    /// Keys and their values.
    pub fn new(keys: &[Box<[u8]>]) -> Self {
        let value = |at: u64| scramble(at) & !1 | at & 1;
        let pairs = KeyList::new(keys.iter().zip(0..).map(|(key, at)| (&**key, value(at))));
        let moving = pairs.picked((1..keys.len()).step_by(2)).shuffled(7);
        Self {
            all: pairs.shuffled(11),
            moving,
        }
    }

    /// The number of items in a full store.
    pub fn len(&self) -> usize {
        self.all.len()
    }
}

/// The writer's endless sequence of operations: it removes a key, inserts the key that it removed
/// `lag` removals ago, and so on through all moving keys, over and over. The first `lag` inserts
/// replace a value by itself.
pub struct Churn<'k> {
    keys: &'k KeyList,
    lag: usize,
    step: usize,
    out: Vec<bool>,
}

impl<'k> Churn<'k> {
    /// Starts with a full store.
    pub fn new(keys: &'k KeyList) -> Self {
        Self {
            keys,
            lag: (keys.len() / 2).min(256),
            step: 0,
            out: vec![false; keys.len()],
        }
    }

    /// Runs some operations.
    pub fn apply(&mut self, txn: &mut impl Txn, operations: usize) {
        for _ in 0..operations {
            let turn = self.step / 2;
            if self.step.is_multiple_of(2) {
                let at = turn % self.keys.len();
                txn.remove(self.keys.key(at));
                self.out[at] = true;
            } else {
                let at = (turn + self.keys.len() - self.lag) % self.keys.len();
                txn.insert(self.keys.key(at), self.keys.value(at));
                self.out[at] = false;
            }
            self.step += 1;
        }
    }

    /// The number of keys that are removed at the moment.
    pub fn absent(&self) -> u64 {
        self.out.iter().filter(|out| **out).count() as u64
    }

    /// Whether the key at this place is removed at the moment.
    pub fn is_out(&self, at: usize) -> bool {
        self.out[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    struct Model<'m>(&'m mut BTreeMap<Vec<u8>, u64>);

    impl Txn for Model<'_> {
        fn insert(&mut self, key: &[u8], value: u64) {
            self.0.insert(key.to_vec(), value);
        }

        fn remove(&mut self, key: &[u8]) {
            self.0.remove(key);
        }

        fn commit(self) {}
    }

    #[test]
    fn churn_keeps_the_size_and_knows_what_is_out() {
        for count in [3, 10, 5000] {
            let set = sapwood_model::data::domains(count, 1);
            let keys = Keys::new(&set.keys);
            assert!(keys.moving.iter().all(|(_, value)| value & 1 == 1));
            let mut map: BTreeMap<_, _> = keys
                .all
                .iter()
                .map(|(key, value)| (key.to_vec(), value))
                .collect();
            let mut churn = Churn::new(&keys.moving);
            for _ in 0..50 {
                churn.apply(&mut Model(&mut map), 333);
                assert_eq!(map.len() as u64, count as u64 - churn.absent());
                assert!(churn.absent() as usize <= 257.min(count / 2 + 1));
                for (at, (key, _)) in keys.moving.iter().enumerate() {
                    assert_eq!(map.contains_key(key), !churn.is_out(at));
                }
            }
        }
    }
}
