//! Values that are replaced.

use sapwood_arena::ArenaFull;

use crate::raw::inline::{Held, Inline};
use crate::raw::leaf::Value;
use crate::raw::node::is_leaf;
use crate::raw::path::Path;
use crate::raw::tree::{Owned, Policy, Tree};
use sapwood_format::cluster::capacity_for;
use sapwood_format::inline;

use super::rows::{IN_PLACE, New, Source, write_outside};

impl<V: ?Sized + Value> Tree<V> {
    /// Replaces the value of an entry whose path this is; returns the old one.
    pub(crate) fn overwrite_inline<'v>(
        &mut self,
        key: &[u8],
        path: Path,
        value: V::New<'v>,
    ) -> Result<V::Taken, (V::New<'v>, ArenaFull)> {
        // SAFETY: the path is the key's, and nobody else uses the trie. Memory may move with an
        // allocation, so pointers are made anew.
        unsafe {
            match self.block_at(path.end, IN_PLACE).held::<V>(path.near.index) {
                Held::Here { tail, len } => {
                    let slot = Inline::slot::<V>(tail, len);
                    let value = match V::slot_overwrite(slot, value) {
                        Ok(old) => return Ok(old),
                        Err(value) => value,
                    };
                    // Only byte strings have another length, and taking one copies it.
                    let old = V::slot_take_value(slot);
                    self.rewrite_inline(&mut Owned, key, path, value)
                        .map(|()| old)
                }
                Held::Leaf(leaf) => {
                    let value = match V::overwrite(self.pointer(leaf), value) {
                        Ok(old) => return Ok(old),
                        Err(value) => value,
                    };
                    self.rewrite_outside(&mut Owned, key, &path, value)?;
                    Ok(self.take_value(leaf))
                }
            }
        }
    }

    /// Gives an entry that is a leaf of its own another leaf with this value. The old one stays.
    ///
    /// # Safety
    /// The path is the key's, and ends at such an entry.
    pub(crate) unsafe fn rewrite_outside<'v, P: Policy>(
        &mut self,
        policy: &mut P,
        key: &[u8],
        path: &Path,
        value: V::New<'v>,
    ) -> Result<(), (V::New<'v>, ArenaFull)> {
        let spare = V::spare(&value);
        let leaf = self.make_leaf(key, value)?;
        // SAFETY: the caller's promise; the leaf is linked once.
        unsafe {
            match self.own_end(policy, path) {
                Ok(end) => {
                    let place = self.block_at(end, IN_PLACE).place::<V>(path.near.index);
                    write_outside::<V>(place, leaf);
                    policy.made(leaf);
                    Ok(())
                }
                Err(full) => Err((V::again(spare, self.take_leaf(leaf)), full)),
            }
        }
    }

    /// Makes the block at the end of a path changeable; returns its cell.
    ///
    /// # Safety
    /// The path is that of the trie as it is now.
    pub(super) unsafe fn own_end<P: Policy>(
        &mut self,
        policy: &mut P,
        path: &Path,
    ) -> Result<u32, ArenaFull> {
        // SAFETY: the caller's promise.
        unsafe {
            let link = self.own_path(policy, &path.frames)?;
            self.own(policy, link, path.end)
        }
    }

    /// Writes another value over that of an entry in a block, which has as many bytes.
    ///
    /// # Safety
    /// The path is the key's, and ends at such an entry, whose value needs no drop.
    #[cfg(feature = "std")]
    pub(crate) unsafe fn write_over<'v, P: Policy>(
        &mut self,
        policy: &mut P,
        path: &Path,
        value: V::New<'v>,
    ) -> Result<(), (V::New<'v>, ArenaFull)> {
        // SAFETY: the caller's promise.
        unsafe {
            let end = match self.own_end(policy, path) {
                Ok(end) => end,
                Err(full) => return Err((value, full)),
            };
            if let Held::Here { tail, len } =
                self.block_at(end, IN_PLACE).held::<V>(path.near.index)
            {
                V::slot_write(Inline::slot::<V>(tail, len), value);
            }
        }
        Ok(())
    }

    /// Writes the block of an entry anew, with a value of another length.
    ///
    /// # Safety
    /// The path is the key's, which is there, and ends at an entry in a block. Its old value needs
    /// no drop.
    pub(crate) unsafe fn rewrite_inline<'v, P: Policy>(
        &mut self,
        policy: &mut P,
        key: &[u8],
        mut path: Path,
        value: V::New<'v>,
    ) -> Result<(), (V::New<'v>, ArenaFull)> {
        let spare = V::spare(&value);
        let behind = V::slot_behind(&value);
        let mut new = New {
            key,
            value: Some(value),
            behind,
        };
        let mut leaf = 0;
        // SAFETY: the caller's promise. A block of one entry becomes its leaf.
        let alone = unsafe { self.cluster(path.end) }.leaves() == 1;
        if alone || behind > inline::HELD_MAX + 1 {
            leaf = self.leaf_of(&mut new)?;
        }
        let replaced = loop {
            let mut rows = self.rows_of(path.end);
            let row = &mut rows[path.near.index];
            row.source = match leaf {
                0 => Source::New,
                leaf => Source::Outside(leaf),
            };
            row.behind = behind;
            self.settle::<P>(&mut rows);
            let prefix = self.prefix_of_rows(&rows);
            let end: usize = rows.iter().map(|row| row.bytes::<V>(prefix)).sum();
            let capacity = capacity_for(rows.len());
            if end + V::ENTRIES.heap_at(capacity, prefix) <= inline::END_MAX {
                // SAFETY: the path is that of the trie as it is now.
                break unsafe {
                    let block = (&path.frames, path.end);
                    self.replace_block(policy, block, &mut rows, &mut new)
                };
            }
            if let Err(full) = self.split_block(policy, &path) {
                break Err(full);
            }
            let Some(anew) = self.view().path_of_present(key) else {
                unreachable!("the key is there")
            };
            path = anew;
            if is_leaf(path.end) {
                // The entry was parted from all others, so it is a leaf now.
                if leaf == 0 {
                    leaf = self.leaf_of(&mut new)?;
                }
                // SAFETY: as above; afterwards the old leaf is linked nowhere.
                break unsafe {
                    self.replace(policy, &path, leaf)
                        .map(|()| self.free_bits(policy, path.end))
                };
            }
        };
        if leaf != 0 && replaced.is_ok() {
            policy.made(leaf);
        }
        replaced.map_err(|full| {
            let value = match new.value.take() {
                Some(value) => value,
                // SAFETY: the leaf was never linked.
                None => V::again(spare, unsafe { self.take_leaf(leaf) }),
            };
            (value, full)
        })
    }

    /// Makes the leaf of a new entry, which is not linked yet.
    pub(super) fn leaf_of<'v>(
        &mut self,
        new: &mut New<'_, 'v, V>,
    ) -> Result<u32, (V::New<'v>, ArenaFull)> {
        let Some(value) = new.value.take() else {
            unreachable!("the value is not used yet")
        };
        self.make_leaf(new.key, value)
    }
}
