//! The maps that the suite `names` compares: from byte strings to `u64`, used by one thread.
//!
//! # To add an engine
//!
//! Write a file in `peers` that implements [`Engine`] and [`Built`], and name the type in
//! [`lanes`]. An engine with batched lookups overrides [`Built::lookups`]. An engine that should be
//! compacted before it is read does so in [`Built::finish`], which is not timed. An engine that
//! holds memory outside malloc's heap returns its size from [`Built::mapped_bytes`]. Two ways to
//! use one map are two engines: write a second type around the first.

mod native;
pub mod sapwood;
mod shared;
mod store;
pub mod texts;

pub use self::sapwood::qp_mapped_bytes;

use std::time::{Duration, Instant};

use crate::answer::AnswerSum;
use crate::keylist::{Form, KeyList, ScanSum, Tally};
use crate::peers;

/// A map from byte strings to `u64`: what tables say of it, and how it is made.
pub trait Engine: Built + Sized + 'static {
    /// The name in tables and records.
    const NAME: &'static str;
    /// Whether [`scan`](Built::scan) visits the entries in the order of the keys. The scans of
    /// other engines are not timed.
    const ORDERED: bool = true;
    /// A known defect by which [`get`](Built::get) may miss a few inserted keys. Such a map is
    /// measured as long as it misses at most one key in ten thousand, and each miss is reported.
    /// Any other wrong answer ends the run, and so does any miss of a map without this note.
    const LOSES_KEYS: Option<&'static str> = None;

    /// The form in which the engine takes these keys, or why it cannot hold them.
    fn form(keys: &KeyList) -> Result<Form, String> {
        let _ = keys;
        Ok(Form::Plain)
    }

    /// A map with these pairs, inserted one by one in the order of the list. The call is timed.
    fn build(pairs: &KeyList) -> Self;

    /// Builds the map once more with a clock around each insertion, and returns the longest time;
    /// `None` for engines whose longest insertion is not reported.
    fn worst_insert(pairs: &KeyList) -> Option<Duration> {
        let _ = pairs;
        None
    }
}

/// A map as the benchmark uses it; most calls are a whole pass.
pub trait Built {
    /// Prepares the map for reading, after the build; not timed.
    fn finish(&mut self) {}

    /// The value at a key.
    fn get(&self, key: &[u8]) -> Option<u64>;

    /// Looks all keys up in their order. Override it to look up several at once, or under one
    /// guard.
    fn lookups(&self, keys: &KeyList) -> Tally {
        Tally::of(keys, |key| self.get(key))
    }

    /// Looks all keys up in their order, each after the answer to the one before is known; `None`
    /// for an engine with batched lookups.
    fn chained(&self, keys: &KeyList) -> Option<Tally> {
        Some(Tally::chained(keys, |key| self.get(key)))
    }

    /// Reads all entries in order, key bytes included.
    fn scan(&self) -> ScanSum;

    /// For each key, reads the first `count` entries that are not less than it, their key bytes
    /// included. This method and those that follow return `None` for an engine without such a
    /// search.
    fn ranges(&self, starts: &KeyList, count: usize) -> Option<ScanSum> {
        let _ = (starts, count);
        None
    }

    /// For each key, reads the last entry that is less than it, key bytes included.
    fn predecessors(&self, keys: &KeyList) -> Option<ScanSum> {
        let _ = keys;
        None
    }

    /// For each key, reads the entry with the longest key that is a prefix of it, key bytes
    /// included.
    fn longest_prefixes(&self, keys: &KeyList) -> Option<ScanSum> {
        let _ = keys;
        None
    }

    /// For each name, the entries at and above it, and those beside it if the map keeps the order.
    fn closest(&self, names: &KeyList) -> Option<AnswerSum> {
        let _ = names;
        None
    }

    /// Removes a key of one list and inserts a pair of the other list, alternately, until both
    /// lists end.
    fn replace(&mut self, old: &KeyList, new: &KeyList);

    /// The bytes that the map holds outside malloc's heap, such as mappings.
    fn mapped_bytes(&self) -> usize {
        0
    }

    /// The bytes of a file in which the map is saved, for an engine that has such.
    fn saved_bytes(&self) -> Option<u64> {
        None
    }
}

/// An engine with its type erased.
#[derive(Clone, Copy)]
pub struct Lane {
    /// [`Engine::NAME`].
    pub name: &'static str,
    /// [`Engine::ORDERED`].
    pub ordered: bool,
    /// [`Engine::LOSES_KEYS`].
    pub loses_keys: Option<&'static str>,
    /// [`Engine::form`].
    pub form: fn(&KeyList) -> Result<Form, String>,
    /// [`Engine::build`].
    pub build: fn(&KeyList) -> Box<dyn Built>,
    /// [`Engine::worst_insert`].
    pub worst_insert: fn(&KeyList) -> Option<Duration>,
}

/// Calls `replace` with a key to remove and a pair to insert, for each place of both lists.
#[inline]
pub fn in_turns(old: &KeyList, new: &KeyList, mut replace: impl FnMut(&[u8], &[u8], u64)) {
    for ((old, _), (new, value)) in old.iter().zip(new.iter()) {
        replace(old, new, value);
    }
}

/// The longest time of one insertion, over the insertions of all pairs.
fn longest(pairs: &KeyList, mut insert: impl FnMut(&[u8], u64)) -> Duration {
    let mut longest = Duration::ZERO;
    for (key, value) in pairs.iter() {
        let start = Instant::now();
        insert(key, value);
        longest = longest.max(start.elapsed());
    }
    longest
}

fn lane<E: Engine>() -> Lane {
    Lane {
        name: E::NAME,
        ordered: E::ORDERED,
        loses_keys: E::LOSES_KEYS,
        form: E::form,
        build: |pairs| Box::new(E::build(pairs)),
        worst_insert: E::worst_insert,
    }
}

/// All engines, in the order in which tables list them.
pub fn lanes() -> Vec<Lane> {
    use sapwood::{AS_BUILT, BATCH16, COMPACT, Sapwood};
    vec![
        lane::<Sapwood<false, AS_BUILT>>(),
        lane::<Sapwood<false, COMPACT>>(),
        lane::<Sapwood<false, BATCH16>>(),
        lane::<Sapwood<true, AS_BUILT>>(),
        lane::<Sapwood<true, BATCH16>>(),
        lane::<store::Store<false>>(),
        lane::<store::Store<true>>(),
        lane::<shared::Shared>(),
        lane::<shared::Indexed>(),
        lane::<shared::Points>(),
        lane::<peers::owned::Foldhash>(),
        lane::<peers::owned::Std>(),
        lane::<peers::owned::Btree>(),
        lane::<peers::skiplist::Skiplist>(),
        lane::<peers::scc::Tree>(),
        lane::<peers::masstree::Masstree>(),
        lane::<peers::owned::QpTrie>(),
        lane::<peers::blart::Blart>(),
        lane::<native::Native<native::Absl>>(),
        lane::<native::Native<native::JudySl>>(),
    ]
}

/// Has the memory freed that dropped engines have retired, so that it does not count for the next
/// engine.
pub fn settle() {
    for _ in 0..256 {
        crossbeam_epoch::pin().flush();
        sdd::Guard::new().accelerate();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::{SEPARATOR, of_list};

    #[test]
    fn every_engine_answers() {
        let keys: [&[u8]; 7] = [
            b"",
            b"a",
            b"R",
            b"a\0",
            b"ab",
            b"b\0\xff",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        ];
        let list = KeyList::numbered(&keys.map(Box::from));
        for lane in lanes() {
            let form = match (lane.form)(&list) {
                Ok(form) => form,
                // The library is not installed, or the engine takes no keys with zeros.
                Err(_) if lane.name == "absl-btree" || lane.name == "judysl" => continue,
                Err(reason) => panic!("{}: {reason}", lane.name),
            };
            let pairs = list.in_form(form);
            let mut built = (lane.build)(&pairs.shuffled(1));
            built.finish();
            let all = Tally {
                found: 7,
                sum: pairs.sum(),
            };
            assert_eq!(built.lookups(&pairs), all, "{}", lane.name);
            for (key, value) in pairs.iter() {
                assert_eq!(built.get(key), Some(value), "{}", lane.name);
            }
            let absent = KeyList::new([(&b"b"[..], 0), (b"a\0\0", 0), (b"ac", 0)]).in_form(form);
            assert_eq!(built.lookups(&absent), Tally::default(), "{}", lane.name);
            let (scan, sorted) = (built.scan(), ScanSum::of(pairs.sorted().iter()));
            assert_eq!(
                (scan.count, scan.sum),
                (sorted.count, sorted.sum),
                "{}",
                lane.name
            );
            assert!(!lane.ordered || scan == sorted, "{}", lane.name);
            // Two keys are removed, and two are inserted.
            let (old, new) = (pairs.picked([1, 3]), absent.picked([0, 2]));
            built.replace(&old, &new);
            let left = pairs.picked([0, 2, 4, 5, 6]);
            let left = KeyList::new(left.iter().chain(new.iter())).sorted();
            assert_eq!(built.lookups(&left).found, 7, "{}", lane.name);
            assert_eq!(built.lookups(&old), Tally::default(), "{}", lane.name);
            assert!(
                !lane.ordered || built.scan() == ScanSum::of(left.iter()),
                "{}",
                lane.name
            );
        }
    }

    #[test]
    fn engines_that_answer_for_names_agree() {
        let mut rng = fastrand::Rng::with_seed(8);
        let mut name = |least: usize| {
            let labels = (0..rng.usize(least..=5)).map(|_| [b"ab*"[rng.usize(..3)], SEPARATOR]);
            labels.flatten().collect::<Box<[u8]>>()
        };
        let mut stored: Vec<_> = (0..90).map(|_| name(1)).collect();
        stored.sort();
        stored.dedup();
        let pairs = KeyList::numbered(&stored);
        let asked = KeyList::numbered(&std::array::from_fn::<_, 300, _>(|_| name(0)));
        let wanted = AnswerSum::of(&asked, |name| of_list(&pairs, name));
        let mut engines = Vec::new();
        for lane in lanes() {
            if (lane.form)(&pairs) != Ok(Form::Plain) {
                continue;
            }
            let mut built = (lane.build)(&pairs.shuffled(1));
            built.finish();
            if let Some(answers) = built.closest(&asked) {
                assert!(answers.agrees_with(wanted), "{}", lane.name);
                engines.push(lane.name);
            }
        }
        assert_eq!(
            engines,
            [
                "sapwood",
                "sapwood-index",
                "sapwood-store",
                "sapwood-store-inline",
                "sapwood-shared",
                "sapwood-shared-index",
                "sapwood-points",
                "hashbrown-foldhash",
                "std-btreemap"
            ]
        );
    }
}
