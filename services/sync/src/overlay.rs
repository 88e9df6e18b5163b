//! Commits that wait for the log, over the leader's own map.

use std::collections::HashMap;

use crate::restored::State;
use crate::{Change, Changes, Digest, Target};

/// Changes that are not in the leader's map yet, and the digest after them.
pub(crate) struct Overlay<'a> {
    state: &'a State,
    changed: HashMap<Vec<u8>, Option<Vec<u8>>>,
    pub(crate) digest: Digest,
}

impl<'a> Overlay<'a> {
    /// No changes of this map.
    pub(crate) fn new(state: &'a State) -> Self {
        Overlay {
            state,
            changed: HashMap::new(),
            digest: state.digest,
        }
    }

    /// Adds the changes of the next commit.
    pub(crate) fn add(&mut self, changes: &Changes) {
        for Change { key, value } in changes.iter() {
            let old = match self.changed.get(key) {
                Some(changed) => changed.clone(),
                None => self.state.target.get(key),
            };
            if let Some(old) = old {
                self.digest.remove(key, &old);
            }
            if let Some(value) = value {
                self.digest.add(key, value);
            }
            self.changed.insert(key.into(), value.map(<[u8]>::to_vec));
        }
    }
}
