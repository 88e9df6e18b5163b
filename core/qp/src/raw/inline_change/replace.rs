//! Values that are replaced.

use sapwood_arena::ArenaFull;

use crate::raw::inline::{Held, Inline};
use crate::raw::leaf::Value;
use crate::raw::node::is_leaf;
use crate::raw::path::Path;
use crate::raw::tree::{Owned, Tree};
use sapwood_format::cluster::capacity_for;
use sapwood_format::inline;

use super::rows::{New, Source, base_of, prefix_of_rows, write_outside};

impl<V: ?Sized + Value> Tree<V> {
    /// Replaces the value of an entry whose path this is; returns the old one.
    pub(crate) fn overwrite_inline<'v>(
        &mut self,
        key: &[u8],
        mut path: Path,
        value: V::New<'v>,
    ) -> Result<V::Taken, (V::New<'v>, ArenaFull)> {
        // SAFETY: the path is the key's, and nobody else uses the trie.
        let held = unsafe { self.block_at(path.end, None).held::<V>(path.near.index) };
        let Held::Here { tail, len } = held else {
            return self.overwrite_outside(key, &path, value);
        };
        // SAFETY: as above.
        let slot = unsafe { Inline::slot::<V>(tail, len) };
        // SAFETY: as above.
        let value = match unsafe { V::slot_overwrite(slot, value) } {
            Ok(old) => return Ok(old),
            Err(value) => value,
        };
        // The new value has another length: the block is written anew with it.
        let spare = V::spare(&value);
        let behind = V::slot_behind(&value);
        let mut new = New {
            key,
            value: Some(value),
        };
        let mut leaf = 0;
        // SAFETY: as above. A block of one entry becomes its leaf.
        let alone = unsafe { self.cluster(path.end) }.leaves() == 1;
        if alone || behind > inline::HELD_MAX + 1 {
            let Some(value) = new.value.take() else {
                unreachable!("the value is not used yet")
            };
            leaf = self.make_leaf(key, value)?;
        }
        let replaced = loop {
            let mut rows = self.rows_of(path.end);
            let row = &mut rows[path.near.index];
            // SAFETY: the path is the key's as it is now, and the entry is in its block.
            let slot = unsafe { self.source(row, None).1 }.cast_mut();
            row.source = match leaf {
                0 => Source::New,
                leaf => Source::Outside(leaf),
            };
            row.behind = behind;
            Self::settle(&mut rows);
            let prefix = prefix_of_rows(&rows, base_of(&rows));
            let end: usize = rows.iter().map(|row| row.bytes::<V>(prefix)).sum();
            let capacity = capacity_for(rows.len());
            let end = end + V::ENTRIES.heap_at(capacity, prefix);
            if end > inline::END_MAX {
                if let Err(full) = self.split_block(&path) {
                    break Err(full);
                }
                let Some(anew) = self.view().path_of_present(key) else {
                    unreachable!("the key is there")
                };
                path = anew;
                if is_leaf(path.end) {
                    // The entry was parted from all others, so it is a leaf now.
                    return self.overwrite_leaf(key, &path, new.value.take(), leaf);
                }
                continue;
            }
            // SAFETY: as above.
            let old = unsafe { V::slot_take_value(slot) };
            // SAFETY: the path is that of the trie as it is now. On failure nothing was moved.
            match unsafe { self.replace_block(&path, &mut rows, &mut new) } {
                Ok(()) => return Ok(old),
                Err(full) => break Err(full),
            }
        };
        replaced.map_err(|full| {
            let value = match new.value.take() {
                Some(value) => value,
                // SAFETY: the leaf was never linked.
                None => V::again(spare, unsafe { self.take_leaf(leaf) }),
            };
            (value, full)
        })
    }

    /// Replaces the leaf at the end of a path.
    fn overwrite_leaf<'v>(
        &mut self,
        key: &[u8],
        path: &Path,
        value: Option<V::New<'v>>,
        leaf: u32,
    ) -> Result<V::Taken, (V::New<'v>, ArenaFull)> {
        let new = match value {
            Some(value) => self.make_leaf(key, value)?,
            None => leaf,
        };
        // SAFETY: the path is the key's, which is there; a change in place needs no memory.
        Ok(unsafe {
            let replaced = self.replace(&mut Owned, path, new);
            debug_assert!(replaced.is_ok());
            self.take_value(path.end)
        })
    }

    /// Replaces the value of an entry that is a leaf of its own.
    fn overwrite_outside<'v>(
        &mut self,
        key: &[u8],
        path: &Path,
        value: V::New<'v>,
    ) -> Result<V::Taken, (V::New<'v>, ArenaFull)> {
        // SAFETY: the path is the key's, and nobody else uses the trie. Memory may move with the
        // allocation, so pointers are made anew.
        unsafe {
            let Held::Leaf(old) = self.block_at(path.end, None).held::<V>(path.near.index) else {
                unreachable!("the entry is a leaf of its own")
            };
            let value = match V::overwrite(self.pointer(old), value) {
                Ok(old) => return Ok(old),
                Err(value) => value,
            };
            let new = self.make_leaf(key, value)?;
            let place = self.block_at(path.end, None).place::<V>(path.near.index);
            write_outside::<V>(place, new);
            Ok(self.take_value(old))
        }
    }
}
