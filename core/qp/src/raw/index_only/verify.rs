//! The check of every invariant of a map that has only the index, while no writer is at work.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::IndexOnly;
use crate::raw::leaf::{LeafOf, Value};
use crate::raw::writers::accounts::is_used;
use crate::raw::writers::lock;
use crate::raw::writers::writer_pool::WriterPool;
use crate::sync::{self, Ordering};

impl<V: ?Sized + Value> IndexOnly<V> {
    /// Walks the whole map. It waits for changes under way; new writers wait meanwhile.
    pub(super) fn verify_all(&self) -> Result<(), String> {
        let shards = self.all_shards();
        let idle = |stripe: &sync::AtomicU32| lock::is_idle(stripe.load(Ordering::Relaxed));
        if !self.stripes.iter().all(|stripe| idle(stripe)) {
            return Err("a stripe is locked".into());
        }
        let base = self.depot.base();
        let mut leaves = Vec::new();
        // SAFETY: all shards are held, so there is no writer.
        unsafe { self.index.each_leaf(base, |leaf| leaves.push(leaf)) };
        let len = self.len();
        if leaves.len() != len {
            return Err(format!("{} leaves, but len is {len}", leaves.len()));
        }
        let mut keys = BTreeSet::new();
        let mut bytes = 0;
        for leaf in &leaves {
            // SAFETY: leaves that the index names are alive.
            let key = unsafe { LeafOf::<V>::key(self.pointer(*leaf)) };
            // SAFETY: as above.
            bytes += unsafe { LeafOf::<V>::block(self.pointer(*leaf)) };
            if !keys.insert(key) {
                return Err(format!("the key of leaf {leaf:#x} is there twice"));
            }
        }
        let (counts, ..) = WriterPool::sums(&shards);
        let found = [(0, 0), (0, 0), (len as isize, bytes as isize)];
        if counts.live != found || counts.waiting.0 < 0 || counts.waiting.1 < 0 {
            return Err(format!(
                "{len} leaves of {bytes} bytes, counted are {counts:?}"
            ));
        }
        // SAFETY: as above.
        let shape = unsafe { self.index.verify(base, leaves.iter().copied()) }?;
        if shape.keys != len || shape.sticky > 0 {
            return Err(format!("{len} keys, the index says {shape:?}"));
        }
        let taken = self.index.taken().bytes;
        if taken as isize != counts.index {
            return Err(format!(
                "the index took {taken} bytes, counted are {}",
                counts.index
            ));
        }
        let free = self.check_accounts(&shards)?;
        leaves.iter().try_for_each(|leaf| is_used(&free, *leaf))
    }
}
