//! Reading a map that programs write, by its index: what is read may be anything.
//!
//! The caller has the owner, so nothing is freed meanwhile: what the index named is a leaf that keeps its bytes, unless programs that have gone
//! wrong write there.

use super::owner::Owner;
use crate::error::Error;
use crate::layout::kernel_map as k;

/// So many buckets are read at once, while service waits.
const BUCKETS: usize = 512;

/// A key and the bytes of its value.
pub(super) type Entry = (Vec<u8>, Vec<u8>);

/// What the index says of a key.
pub(super) enum Found {
    /// The bytes of its value.
    Value(Vec<u8>),
    Absent,
    AskTrie,
}

impl Owner {
    /// Whether so many units from a node on may be read.
    pub(super) fn inside(&self, at: u32, units: usize) -> Result<usize, String> {
        let end = at as usize + units;
        match at as usize >= k::FIRST && end <= self.blocks.frontier() as usize {
            true => Ok(at as usize * 8),
            false => Err(format!("a reference to {at}")),
        }
    }

    pub(super) fn byte(&self, at: usize) -> u8 {
        (self.u64(at & !7) >> (at % 8 * 8)) as u8
    }

    /// The key of a leaf.
    pub(super) fn key(&self, at: u32) -> Result<Vec<u8>, String> {
        let text = self.inside(at, self.plan.leaf_units(0))? + self.plan.value_bytes;
        let len = usize::from(self.byte(text));
        self.inside(at, self.plan.leaf_units(len))?;
        Ok((0..len).map(|i| self.byte(text + 1 + i)).collect())
    }

    /// The bytes of a leaf's value.
    fn value(&self, at: u32) -> Vec<u8> {
        let words = (0..self.plan.value_bytes / 8).map(|i| self.u64(at as usize * 8 + 8 * i));
        words.flat_map(u64::to_le_bytes).collect()
    }

    /// The hash of a key, as programs reckon it.
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        let mut bytes = vec![key.len() as u8];
        bytes.extend(key);
        // Programs take four words at a time.
        bytes.resize(bytes.len().next_multiple_of(32), 0);
        let mut sum = 0u64;
        for (word, secret) in bytes.chunks(8).zip(&self.secrets) {
            let word = word
                .iter()
                .rev()
                .fold(0u64, |all, byte| all << 8 | u64::from(*byte));
            let low = (word as u32).wrapping_add(*secret as u32);
            let high = ((word >> 32) as u32).wrapping_add((secret >> 32) as u32);
            sum = sum.wrapping_add(u64::from(low) * u64::from(high));
        }
        sum = (sum ^ sum >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        sum ^ sum >> 32
    }

    pub(super) fn home(&self, hash: u64) -> usize {
        (((hash >> 32) * self.homes as u64) >> 32) as usize
    }

    pub(super) fn words(&self, bucket: usize) -> (u64, u64) {
        let at = self.buckets_at + bucket * 64;
        (self.u64(at), self.u64(at + 8))
    }

    /// The leaves in a bucket: tag and reference.
    fn leaves(&self, bucket: usize) -> impl Iterator<Item = (u64, u32)> + '_ {
        let (low, high) = self.words(bucket);
        (0..12).filter_map(move |slot| {
            let word = if slot < 8 { low } else { high };
            let tag = (word >> (slot % 8 * 8)) & 0xff;
            let cell = || self.u32(self.buckets_at + bucket * 64 + 16 + 4 * slot);
            (tag != 0).then(|| (tag, cell() >> 1))
        })
    }

    /// What the index says of a key.
    pub(super) fn get(&self, key: &[u8]) -> Result<Found, Error> {
        let damaged = |why| Error::Damaged(format!("{}: {why}", self.window.name));
        if key.len() > k::KEY_MAX {
            return Ok(Found::Absent);
        }
        if self.plan.parts & k::INDEX != 0 {
            let hash = self.hash(key);
            let tag = (hash & 0xff) + u64::from(hash & 0xff == 0);
            let home = self.home(hash);
            let (_, state) = self.words(home);
            let reach = match (state >> (56 + (tag & 7))) & 1 {
                0 => 0,
                _ => (state >> 40) as usize & 0xff,
            };
            for bucket in home..=(home + reach).min(self.buckets - 1) {
                for (_, leaf) in self.leaves(bucket).filter(|(other, _)| *other == tag) {
                    if self.key(leaf).map_err(damaged)? == key {
                        return Ok(Found::Value(self.value(leaf)));
                    }
                }
            }
            if (state >> 48) & 0xff == 0 || self.plan.parts & k::TRIE == 0 {
                return Ok(Found::Absent);
            }
        }
        Ok(Found::AskTrie)
    }

    /// The entries in the next few buckets of the index, from this one on; `None` behind the last.
    pub(super) fn some(&self, bucket: &mut usize) -> Result<Option<Vec<Entry>>, Error> {
        if *bucket >= self.buckets {
            return Ok(None);
        }
        let end = (*bucket + BUCKETS).min(self.buckets);
        let mut entries = Vec::new();
        for (_, leaf) in (*bucket..end).flat_map(|bucket| self.leaves(bucket)) {
            let key = self.key(leaf);
            let key = key.map_err(|why| Error::Damaged(format!("{}: {why}", self.window.name)))?;
            entries.push((key, self.value(leaf)));
        }
        *bucket = end;
        Ok(Some(entries))
    }
}
