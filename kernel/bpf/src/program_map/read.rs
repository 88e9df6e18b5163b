//! Lookups by the index in a map that programs write. The window may hold anything.
//!
//! The caller holds the owner's lock, so no block is freed meanwhile: a leaf that the index names
//! keeps its bytes, unless a faulty program writes there.

use sapwood_checked::Trouble;
use sapwood_checked::parts::{Copied, Index, Look, Nodes, Seen};

use super::owner::Owner;
use crate::checked::{WindowMemory, error_of};
use crate::error::Error;
use crate::layout::program_map as k;

/// The buckets that are read under one lock, while service waits.
const BUCKETS: u32 = 512;

/// The result of a lookup by the index.
pub(super) enum Found {
    /// The bytes of its value.
    Value(Vec<u8>),
    Absent,
    AskTrie,
}

impl Owner {
    /// A checked reader of the part of the window that is in use.
    pub(super) fn nodes(&self) -> Nodes<WindowMemory> {
        let len = self.blocks.frontier() as usize * 8;
        let place = WindowMemory::new(&self.memory, self.window.at, len);
        Nodes::new(place, self.plan.value_bytes).of_programs()
    }

    /// Looks a key up by the index.
    pub(super) fn get(&self, key: &[u8]) -> Result<Found, Error> {
        if key.len() > self.plan.longest {
            return Ok(Found::Absent);
        }
        let Some(table) = self.table else {
            return Ok(Found::AskTrie);
        };
        let nodes = self.nodes();
        let index = Index::with_secrets(&nodes, self.secrets);
        let look = index.look(table, index.hash(key), key, &mut Seen::default());
        match look.map_err(|trouble| error_of(trouble, &self.window.name))? {
            Look::Found(leaf) => Ok(Found::Value(nodes.value(&leaf))),
            Look::Absent(known) if known || self.plan.parts & k::TRIE == 0 => Ok(Found::Absent),
            _ => Ok(Found::AskTrie),
        }
    }

    /// The entries of the next [`BUCKETS`] buckets of the index. `from` is the first of them, and
    /// moves on. `None` behind the last bucket.
    pub(super) fn some(&self, from: &mut u32) -> Result<Option<Vec<Copied>>, Error> {
        let Some(table) = self.table.filter(|table| *from < table.total) else {
            return Ok(None);
        };
        let buckets = *from..(*from + BUCKETS).min(table.total);
        *from = buckets.end;
        let nodes = self.nodes();
        let index = Index::with_secrets(&nodes, self.secrets);
        let read = || -> Result<Vec<Copied>, Trouble> {
            let mut entries = Vec::new();
            for number in buckets {
                let bucket = index.bucket(table, number)?.ok_or(Trouble::Changed)?;
                for slot in index.slots(bucket) {
                    entries.push(nodes.entry(&nodes.leaf(slot.cell)?));
                }
            }
            Ok(entries)
        };
        let read = read().map_err(|trouble| error_of(trouble, &self.window.name));
        read.map(Some)
    }
}
