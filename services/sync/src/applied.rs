//! A map that follows, at a commit of its leader.

use std::collections::BTreeMap;

use crate::restored::State;
use crate::targets::difference;
use crate::{Changes, Commit, Digest, Error, Target};

/// A map at a commit, with the digest of its contents.
pub struct Applied<T> {
    pub target: T,
    pub commit: u64,
    /// The number of the term in which the commit was written.
    pub epoch: u64,
    pub digest: Digest,
    pub entries: u64,
}

impl<T: Target> Applied<T> {
    /// Applies the commit of a number, which a term wrote: the one after the present commit, or an
    /// earlier one, which changes nothing.
    ///
    /// # Errors
    /// [`Error::Gap`] for another one; [`Error::Digest`] when the map would not be what the
    /// leader's is: it is not changed then.
    pub fn apply(
        &mut self,
        map: &str,
        (epoch, number): (u64, u64),
        commit: &Commit,
    ) -> Result<(), Error> {
        if number <= self.commit {
            return Ok(());
        }
        if number > self.commit + 1 {
            return Err(Error::Gap {
                map: map.into(),
                wanted: self.commit + 1,
            });
        }
        let (digest, entries) = self.after(&commit.changes);
        if digest != commit.digest {
            return Err(Error::Digest {
                map: map.into(),
                commit: number,
                found: digest.0,
                wanted: commit.digest.0,
            });
        }
        self.target.commit(&commit.changes)?;
        (self.commit, self.digest, self.entries) = (number, digest, entries);
        self.epoch = epoch;
        Ok(())
    }

    /// The digest and the number of entries after changes.
    pub fn after(&self, changes: &Changes) -> (Digest, u64) {
        let last: BTreeMap<&[u8], Option<&[u8]>> = changes
            .iter()
            .map(|change| (change.key, change.value))
            .collect();
        let (mut digest, mut entries) = (self.digest, self.entries);
        for (key, value) in last {
            if let Some(old) = self.target.get(key) {
                digest.remove(key, &old);
                entries -= 1;
            }
            if let Some(value) = value {
                digest.add(key, value);
                entries += 1;
            }
        }
        (digest, entries)
    }

    /// Makes the map what another one is, in one commit that has the differences only, removals
    /// included.
    ///
    /// # Errors
    /// Those of the map, which is not changed then.
    pub fn adopt(&mut self, state: &State) -> Result<(), Error> {
        let snapshot = state.target.0.snapshot();
        let differences = difference(&self.target, snapshot.iter())?;
        if !differences.is_empty() {
            self.target.commit(&differences)?;
        }
        self.commit = state.commit;
        self.epoch = state.epoch;
        self.digest = state.digest;
        self.entries = state.entries;
        Ok(())
    }
}
