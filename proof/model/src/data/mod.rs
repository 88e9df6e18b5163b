//! Key sets for benchmarks: real ones of this machine, and generated ones. Routing tables are in
//! [`routes`], workloads of range maps in [`ranges`].
//!
//! A source of real keys returns [`Missing`] with the reason if this machine does not have them.

mod btf;
mod domains;
mod files;
mod random;
pub mod ranges;
pub mod routes;
mod symbols;

pub use btf::btf_strings;
pub use domains::domains;
pub use files::{domains_gz, kallsyms, paths};
pub use random::{random_binary, random_u64};
pub use symbols::{symbols, type_names};

use std::collections::HashSet;
use std::fmt;

use fastrand::Rng;

/// A set of distinct keys, in the order in which they were found or generated.
#[derive(Clone, PartialEq, Eq)]
pub struct DataSet {
    /// A short name, which is also the name of the benchmark case.
    pub name: &'static str,
    /// The keys; no two are equal.
    pub keys: Vec<Box<[u8]>>,
    /// The source of the keys, for reports.
    pub how: String,
}

impl DataSet {
    /// A set of the distinct keys of a list, in the order of their first occurrences.
    pub fn distinct(
        name: &'static str,
        how: String,
        keys: impl IntoIterator<Item = Box<[u8]>>,
    ) -> Self {
        let mut seen = HashSet::new();
        let keys = keys
            .into_iter()
            .filter(|key| seen.insert(key.clone()))
            .collect();
        Self { name, keys, how }
    }

    /// The sum of the lengths of the keys.
    #[must_use]
    pub fn key_bytes(&self) -> usize {
        self.keys.iter().map(|key| key.len()).sum()
    }

    /// Keeps `limit` keys, spread evenly over the whole set, in their order; all keys if the set
    /// has no more.
    pub fn thin(&mut self, limit: usize) {
        let total = self.keys.len();
        if total > limit {
            let mut at = 0;
            self.keys.retain(|_| {
                at += 1;
                // A key is kept where this quotient changes.
                at * limit / total != (at - 1) * limit / total
            });
            self.how = format!("{}; {limit} of {total} keys", self.how);
        }
    }

    /// Returns `count` keys that are not in the set but look like its keys: each is a key of the
    /// set in which one byte, at a random place, is replaced by a byte of some key. They may
    /// repeat.
    ///
    /// # Panics
    ///
    /// If the set is so dense that it has nearly all such keys.
    #[must_use]
    pub fn mutated(&self, count: usize, seed: u64) -> Vec<Box<[u8]>> {
        let absent = self.mutated_within(count, 100 * (count + 10), seed);
        assert_eq!(absent.len(), count, "{}: too dense for misses", self.name);
        absent
    }

    /// As [`mutated`](Self::mutated), but stops after `tries` tries, with fewer keys.
    #[must_use]
    pub fn mutated_within(&self, count: usize, tries: usize, seed: u64) -> Vec<Box<[u8]>> {
        let mut rng = Rng::with_seed(seed);
        let present: HashSet<&[u8]> = self.keys.iter().map(|key| &**key).collect();
        let mut absent = Vec::with_capacity(count);
        for _ in 0..tries {
            if absent.len() == count {
                break;
            }
            let mut key = self.keys[rng.usize(..self.keys.len())].clone();
            let donor = &self.keys[rng.usize(..self.keys.len())];
            if key.is_empty() || donor.is_empty() {
                continue;
            }
            let at = rng.usize(..key.len());
            key[at] = donor[rng.usize(..donor.len())];
            if !present.contains(&*key) {
                absent.push(key);
            }
        }
        absent
    }
}

impl fmt::Debug for DataSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} keys, {} bytes ({})",
            self.name,
            self.keys.len(),
            self.key_bytes(),
            self.how
        )
    }
}

/// The reason why this machine does not have a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The name of the data set.
    pub name: &'static str,
    /// The thing that is missing or wrong.
    pub reason: String,
}

impl Missing {
    fn new(name: &'static str, reason: impl fmt::Display) -> Self {
        Self {
            name,
            reason: reason.to_string(),
        }
    }

    /// Returns another set in place of the missing one, with this reason in its description.
    #[must_use]
    pub fn instead(&self, mut set: DataSet) -> DataSet {
        set.how = format!("{self}; {}", set.how);
        set
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no {}: {}", self.name, self.reason)
    }
}

impl std::error::Error for Missing {}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: u32) -> DataSet {
        let keys = (0..count).map(|i| i.to_string().into_bytes().into_boxed_slice());
        DataSet::distinct("numbers", "counted".into(), keys)
    }

    #[test]
    fn thinning_keeps_the_count_and_the_spread() {
        let mut set = numbers(1000);
        set.thin(70);
        assert_eq!(set.keys.len(), 70);
        assert!(set.keys.last().is_some_and(|key| **key >= b"98"[..]));
        set.thin(100);
        assert_eq!(set.keys.len(), 70);
    }

    #[test]
    fn what_stands_in_says_so() {
        let missing = Missing::new("kallsyms", "the file has no names");
        let set = missing.instead(symbols(10, 1));
        assert_eq!(set.keys, symbols(10, 1).keys);
        assert!(
            set.how
                .starts_with("no kallsyms: the file has no names; names made after a model")
        );
    }

    #[test]
    fn misses_miss() {
        let set = numbers(5000);
        let absent = set.mutated(1000, 1);
        assert_eq!(absent.len(), 1000);
        assert!(absent.iter().all(|key| !set.keys.contains(key)));
        assert_eq!(absent, set.mutated(1000, 1));
    }
}
