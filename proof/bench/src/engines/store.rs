//! Sapwood's `QpStore`: transactions write, and lookups read a view of the newest version.

use std::ops::Bound;

use sapwood::qp::QpStore;

use super::{Built, Engine};
use crate::answer::{Answer, AnswerSum, SEPARATOR, is_cut};
use crate::keylist::{KeyList, ScanSum, Tally};

/// `QpStore`. One guard covers a pass of lookups or searches, as a reader has it.
/// If `INLINE`, its clusters hold their entries.
pub struct Store<const INLINE: bool>(QpStore<u64>);

/// The number of changes in a transaction.
const CHANGES: usize = 256;

impl<const INLINE: bool> Engine for Store<INLINE> {
    const NAME: &'static str = match INLINE {
        true => "sapwood-store-inline",
        false => "sapwood-store",
    };

    fn build(pairs: &KeyList) -> Self {
        let store = match INLINE {
            true => QpStore::builder().build_inline(),
            false => QpStore::new(),
        };
        let store = store.expect("there is address space");
        for from in (0..pairs.len()).step_by(CHANGES) {
            let mut txn = store.begin();
            for (key, value) in pairs.run(from, CHANGES.min(pairs.len() - from)) {
                txn.insert(key, value).expect("the key fits");
            }
            txn.commit();
        }
        Self(store)
    }
}

impl<const INLINE: bool> Built for Store<INLINE> {
    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.read(|view| view.get(key).copied())
    }

    fn lookups(&self, keys: &KeyList) -> Tally {
        self.0
            .read(|view| Tally::of(keys, |key| view.get(key).copied()))
    }

    fn chained(&self, keys: &KeyList) -> Option<Tally> {
        let read = |keys| {
            self.0
                .read(|view| Tally::chained(keys, |key| view.get(key).copied()))
        };
        Some(read(keys))
    }

    fn scan(&self) -> ScanSum {
        let mut sum = ScanSum::default();
        self.0.read(|view| {
            let _ = view.for_each::<[u8], _, ()>(.., sum.each(None, u64::clone));
        });
        sum
    }

    fn ranges(&self, starts: &KeyList, count: usize) -> Option<ScanSum> {
        let mut sum = ScanSum::default();
        self.0.read(|view| {
            for (start, _) in starts.iter() {
                let bounds = (Bound::Included(start), Bound::Unbounded);
                let _ = view.for_each::<[u8], _, ()>(bounds, sum.each(Some(count), u64::clone));
            }
        });
        Some(sum)
    }

    fn predecessors(&self, keys: &KeyList) -> Option<ScanSum> {
        Some(self.0.read(|view| {
            let entry = |key: &[u8]| view.predecessor(key).into_iter();
            ScanSum::ranges(keys, 1, |key| entry(key).map(|(key, value)| (key, *value)))
        }))
    }

    fn longest_prefixes(&self, keys: &KeyList) -> Option<ScanSum> {
        Some(self.0.read(|view| {
            let entry = |key: &[u8]| view.longest_prefix(key).into_iter();
            ScanSum::ranges(keys, 1, |key| entry(key).map(|(key, value)| (key, *value)))
        }))
    }

    fn closest(&self, names: &KeyList) -> Option<AnswerSum> {
        Some(self.0.read(|view| {
            AnswerSum::of(names, |name| {
                Answer::of(&view.closest(name, SEPARATOR, is_cut))
            })
        }))
    }

    fn replace(&mut self, old: &KeyList, new: &KeyList) {
        for from in (0..old.len()).step_by(CHANGES) {
            let count = CHANGES.min(old.len() - from);
            let mut txn = self.0.begin();
            for ((old, _), (new, value)) in old.run(from, count).zip(new.run(from, count)) {
                txn.remove(old).expect("there is memory");
                txn.insert(new, value).expect("the key fits");
            }
            txn.commit();
        }
    }

    fn mapped_bytes(&self) -> usize {
        self.0.memory().map.arena.committed
    }
}
