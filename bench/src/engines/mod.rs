//! The maps that the suite `names` compares: byte strings to `u64`, one thread.
//!
//! # To add an engine
//!
//! Write a file here that implements [`Engine`], and name the type in [`lanes`]. An engine that looks keys up
//! sixteen at a time overrides [`Engine::lookups`]; one that wants to be compacted before it is read does so
//! in [`Engine::finish`], which is not timed; one whose memory is not malloc's says how much it has in
//! [`Engine::mapped_bytes`]. Two ways to use one map are two engines: a second type around the first.

mod art;
mod btree;
mod hash;
mod indexed;
mod masstree;
mod points;
mod qp_trie;
mod sapwood;
mod scc;
mod shared;
mod skiplist;

use std::marker::PhantomData;
use std::time::{Duration, Instant};

use crate::keylist::{Form, KeyList, ScanSum, Tally};

/// A map from byte strings to `u64` as the benchmark uses it.
pub trait Engine: Sized + 'static {
    /// The name in tables and records.
    const NAME: &'static str;
    /// Whether [`scan`](Self::scan) comes in the order of the keys. The scan of others is not timed.
    const ORDERED: bool = true;
    /// A known defect by which [`get`](Self::get) may miss a few keys that were inserted. Such a map is measured all
    /// the same while it misses at most one in ten thousand, and each miss is reported. Any other wrong answer,
    /// and any at all of a map without this, ends the run.
    const LOSES_KEYS: Option<&'static str> = None;

    /// The form in which it takes these keys, or why it cannot hold them.
    fn form(keys: &KeyList) -> Result<Form, String> {
        let _ = keys;
        Ok(Form::Plain)
    }

    /// A map with these pairs, inserted one by one in the order of the list. This is timed.
    fn build(pairs: &KeyList) -> Self;

    /// Builds once more with a clock around each insertion: the longest. `None` where nobody asked.
    fn worst_insert(pairs: &KeyList) -> Option<Duration> {
        let _ = pairs;
        None
    }

    /// What is done between building and reading; not timed.
    fn finish(&mut self) {}

    /// The value at a key.
    fn get(&self, key: &[u8]) -> Option<u64>;

    /// Looks all keys up in their order; override to look up many at once, or under one guard.
    fn lookups(&self, keys: &KeyList) -> Tally {
        Tally::of(keys, |key| self.get(key))
    }

    /// Looks all keys up in their order, each when the answer to the one before is known; `None` for an engine
    /// that takes many at once.
    fn chained(&self, keys: &KeyList) -> Option<Tally> {
        Some(Tally::chained(keys, |key| self.get(key)))
    }

    /// Reads all entries, key bytes too, in order.
    fn scan(&self) -> ScanSum;

    /// Bytes it holds beside those of malloc, such as mappings.
    fn mapped_bytes(&self) -> usize {
        0
    }
}

/// An engine whose type is forgotten; one call is a whole pass.
pub trait Lane {
    /// [`Engine::NAME`].
    fn name(&self) -> &'static str;
    /// [`Engine::ORDERED`].
    fn ordered(&self) -> bool;
    /// [`Engine::LOSES_KEYS`].
    fn loses_keys(&self) -> Option<&'static str>;
    /// [`Engine::form`].
    fn form(&self, keys: &KeyList) -> Result<Form, String>;
    /// [`Engine::build`].
    fn build(&self, pairs: &KeyList) -> Box<dyn Built>;
    /// [`Engine::worst_insert`].
    fn worst_insert(&self, pairs: &KeyList) -> Option<Duration>;
}

/// A built map of an engine whose type is forgotten; methods as in [`Engine`].
#[allow(missing_docs)] // They have the names and the meaning of the methods of `Engine`.
pub trait Built {
    fn finish(&mut self);
    fn get(&self, key: &[u8]) -> Option<u64>;
    fn lookups(&self, keys: &KeyList) -> Tally;
    fn chained(&self, keys: &KeyList) -> Option<Tally>;
    fn scan(&self) -> ScanSum;
    fn mapped_bytes(&self) -> usize;
}

impl<E: Engine> Built for E {
    fn finish(&mut self) {
        Engine::finish(self);
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        Engine::get(self, key)
    }

    fn lookups(&self, keys: &KeyList) -> Tally {
        Engine::lookups(self, keys)
    }

    fn chained(&self, keys: &KeyList) -> Option<Tally> {
        Engine::chained(self, keys)
    }

    fn scan(&self) -> ScanSum {
        Engine::scan(self)
    }

    fn mapped_bytes(&self) -> usize {
        Engine::mapped_bytes(self)
    }
}

/// The longest of the insertions of all pairs.
fn longest(pairs: &KeyList, mut insert: impl FnMut(&[u8], u64)) -> Duration {
    let mut longest = Duration::ZERO;
    for (key, value) in pairs.iter() {
        let start = Instant::now();
        insert(key, value);
        longest = longest.max(start.elapsed());
    }
    longest
}

struct Of<E>(PhantomData<E>);

impl<E: Engine> Lane for Of<E> {
    fn name(&self) -> &'static str {
        E::NAME
    }

    fn ordered(&self) -> bool {
        E::ORDERED
    }

    fn loses_keys(&self) -> Option<&'static str> {
        E::LOSES_KEYS
    }

    fn form(&self, keys: &KeyList) -> Result<Form, String> {
        E::form(keys)
    }

    fn build(&self, pairs: &KeyList) -> Box<dyn Built> {
        Box::new(E::build(pairs))
    }

    fn worst_insert(&self, pairs: &KeyList) -> Option<Duration> {
        E::worst_insert(pairs)
    }
}

fn lane<E: Engine>() -> Box<dyn Lane> {
    Box::new(Of::<E>(PhantomData))
}

/// All engines, in the order in which tables list them.
pub fn lanes() -> Vec<Box<dyn Lane>> {
    vec![
        lane::<sapwood::Sapwood>(),
        lane::<sapwood::Compact>(),
        lane::<sapwood::Batch16>(),
        lane::<indexed::Indexed>(),
        lane::<indexed::IndexedBatch16>(),
        lane::<shared::Shared>(),
        lane::<shared::Indexed>(),
        lane::<points::Points>(),
        lane::<hash::Foldhash>(),
        lane::<hash::Std>(),
        lane::<btree::Btree>(),
        lane::<skiplist::Skiplist>(),
        lane::<scc::Scc>(),
        lane::<masstree::Masstree>(),
        lane::<qp_trie::QpTrie>(),
        lane::<art::Blart>(),
    ]
}

/// Lets memory that dropped engines have put off be freed, so that it is not counted for the next one.
pub fn settle() {
    for _ in 0..256 {
        crossbeam_epoch::pin().flush();
        sdd::Guard::new().accelerate();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let form = lane.form(&list).unwrap();
            let pairs = list.in_form(form);
            let mut built = lane.build(&pairs.shuffled(1));
            built.finish();
            let all = Tally {
                found: 7,
                sum: pairs.sum(),
            };
            assert_eq!(built.lookups(&pairs), all, "{}", lane.name());
            for (key, value) in pairs.iter() {
                assert_eq!(built.get(key), Some(value), "{}", lane.name());
            }
            let absent = KeyList::new([(&b"b"[..], 0), (b"a\0\0", 0), (b"ac", 0)]).in_form(form);
            assert_eq!(built.lookups(&absent), Tally::default(), "{}", lane.name());
            let (scan, sorted) = (built.scan(), ScanSum::of(pairs.sorted().iter()));
            assert_eq!(
                (scan.count, scan.sum),
                (sorted.count, sorted.sum),
                "{}",
                lane.name()
            );
            assert!(!lane.ordered() || scan == sorted, "{}", lane.name());
        }
    }
}
