//! Changes of a published map that are not in the log yet, over what is.

use std::collections::BTreeMap;

use sapwood::qp::{Key, QpSnapshot};
use sapwood_sync::{Changes, Error};

/// The entries of a map with changes.
pub struct Draft {
    entries: QpSnapshot<[u8]>,
    changed: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl Draft {
    /// No changes of these entries.
    pub fn new(entries: QpSnapshot<[u8]>) -> Self {
        Draft {
            entries,
            changed: BTreeMap::new(),
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        match self.changed.get(key) {
            Some(changed) => changed.as_deref(),
            None => self.entries.get(key),
        }
    }

    /// The entry with the greatest key up to this one.
    pub fn at_or_before(&self, key: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
        let mut old = match self.entries.get_key_value(key) {
            Some(entry) => Some(entry),
            None => self.entries.predecessor(key),
        };
        while let Some((found, _)) = &old
            && self.changed.contains_key(&**found)
        {
            old = self.entries.predecessor(found);
        }
        let mut new = self.changed.range(..=key.to_vec()).rev();
        let new = new.find_map(|(key, value)| Some((Key::from(&key[..]), value.as_deref()?)));
        let found = old.into_iter().chain(new).max();
        found.map(|(key, value)| (key.into(), value.to_vec()))
    }

    /// Gives a key a value; returns whether it had one.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> bool {
        let had = self.get(key).is_some();
        self.changed.insert(key.into(), Some(value.into()));
        had
    }

    /// Removes a key; returns whether it had a value.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        let had = self.get(key).is_some();
        self.changed.insert(key.into(), None);
        had
    }

    /// The changes that make a difference.
    pub fn changes(&self) -> Result<Changes, Error> {
        let mut changes = Changes::new();
        for (key, value) in &self.changed {
            match (self.entries.get(key), value) {
                (Some(old), Some(new)) if old == new => {}
                (None, None) => {}
                (_, Some(new)) => changes.put(key, new)?,
                (Some(_), None) => changes.remove(key)?,
            }
        }
        Ok(changes)
    }
}

#[cfg(test)]
mod tests {
    use sapwood::qp::QpStore;

    use super::*;

    #[test]
    fn changes_lie_over_entries() {
        let store = QpStore::<[u8]>::new().unwrap();
        let mut txn = store.begin();
        for key in ["b", "d", "f"] {
            txn.insert(key, key.as_bytes()).unwrap();
        }
        txn.commit();
        let mut draft = Draft::new(store.snapshot());
        let before = |draft: &Draft, key: &str| {
            let found = draft.at_or_before(key.as_bytes());
            found.map(|(key, _)| String::from_utf8(key).unwrap())
        };
        assert_eq!(before(&draft, "a"), None);
        assert_eq!(before(&draft, "d").as_deref(), Some("d"));
        assert!(draft.remove(b"d") && draft.remove(b"b") && !draft.remove(b"b"));
        assert_eq!(before(&draft, "e"), None);
        assert!(!draft.put(b"c", b"new"));
        assert_eq!(before(&draft, "e").as_deref(), Some("c"));
        assert_eq!(before(&draft, "g").as_deref(), Some("f"));
        assert!(draft.put(b"f", b"f") && !draft.put(b"b", b"b"));
        assert!(!draft.put(b"x", b"x") && draft.remove(b"x"));
        let changes = draft.changes().unwrap();
        let changes: Vec<_> = changes.iter().map(|c| (c.key, c.value)).collect();
        assert_eq!(changes, [(&b"c"[..], Some(&b"new"[..])), (b"d", None)]);
    }
}
