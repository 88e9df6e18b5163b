//! The adaptive radix tree of the crate blart.

use std::ops::Bound;

use blart::TreeMap;

use crate::engines::{Built, Engine, in_turns};
use crate::keylist::{Form, KeyList, ScanSum};

/// `blart::TreeMap` with owned keys. No key may be a prefix of another. Keys of different lengths
/// therefore get a zero byte at the end, as C strings have, or are escaped if they contain zeros.
pub struct Blart(TreeMap<Box<[u8]>, u64>);

impl Engine for Blart {
    const NAME: &'static str = "blart";

    fn form(keys: &KeyList) -> Result<Form, String> {
        Ok(Form::prefix_free(keys))
    }

    fn build(pairs: &KeyList) -> Self {
        let mut map = TreeMap::new();
        for (key, value) in pairs.iter() {
            map.try_insert(Box::from(key), value)
                .expect("the form is free of prefixes");
        }
        Self(map)
    }
}

impl Built for Blart {
    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get(key).copied()
    }

    fn scan(&self) -> ScanSum {
        ScanSum::of(self.0.iter().map(|(key, value)| (&**key, *value)))
    }

    fn ranges(&self, starts: &KeyList, count: usize) -> Option<ScanSum> {
        Some(ScanSum::ranges(starts, count, |start| {
            let bounds = (Bound::Included(start), Bound::Unbounded);
            let entries = self.0.range::<[u8], _>(bounds);
            entries.map(|(key, value)| (&**key, *value))
        }))
    }

    fn predecessors(&self, keys: &KeyList) -> Option<ScanSum> {
        Some(ScanSum::ranges(keys, 1, |key| {
            let bounds = (Bound::Unbounded, Bound::Excluded(key));
            let entries = self.0.range::<[u8], _>(bounds);
            entries.rev().map(|(key, value)| (&**key, *value))
        }))
    }

    fn replace(&mut self, old: &KeyList, new: &KeyList) {
        in_turns(old, new, |old, new, value| {
            self.0.remove(old);
            self.0
                .try_insert(Box::from(new), value)
                .expect("the form is free of prefixes");
        });
    }
}
