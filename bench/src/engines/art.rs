//! The adaptive radix tree of the crate blart.

use blart::TreeMap;

use super::Engine;
use crate::keylist::{Form, KeyList, ScanSum};

/// `blart::TreeMap` with owned keys. No key may be a prefix of another: where the keys differ in length it gets
/// them with a zero at the end, as C strings, or escaped if they have zeros themselves.
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

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get(key).copied()
    }

    fn scan(&self) -> ScanSum {
        ScanSum::of(self.0.iter().map(|(key, value)| (&**key, *value)))
    }
}
