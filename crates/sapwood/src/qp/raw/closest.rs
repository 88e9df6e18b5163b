//! The answer of a zone for a name, in one descent.

use smallvec::SmallVec;

use super::leaf::Value;
use super::mem::Mem;
use super::node::{KIND, LEAF};
use super::path::Frame;
use super::view::{Near, View};

/// The answer for a name, as leaf cells; 0 where there is none.
#[derive(Default)]
pub(crate) struct Found {
    /// The name's own leaf.
    pub(crate) exact: u32,
    /// Whether a stored key begins with the name.
    pub(crate) exists: bool,
    /// The length of the closest encloser in bytes. It is the longest prefix of the name with which
    /// a stored key begins, among the empty prefix, those that end with a separator, and the name
    /// itself.
    pub(crate) encloser: usize,
    /// The leaf of the wildcard below the closest encloser, when the name does not exist.
    pub(crate) wildcard: u32,
    /// The last leaf before the name.
    pub(crate) before: u32,
    /// The leaves of the names at or above the name, the longest first.
    pub(crate) above: SmallVec<[u32; 8]>,
}

/// The key of the wildcard below an encloser.
fn wildcard_of(encloser: &[u8], separator: u8) -> SmallVec<[u8; 264]> {
    let mut name = SmallVec::from_slice(encloser);
    name.extend_from_slice(&[b'*', separator]);
    name
}

/// Whether the prefix of this length of a name is the name itself or a name above it.
pub(crate) fn is_name(name: &[u8], length: usize, separator: u8) -> bool {
    length == 0 || length == name.len() || name[length - 1] == separator
}

impl<V: ?Sized + Value, M: Mem> View<'_, V, M> {
    /// The answer for a name whose labels end with a separator.
    ///
    /// It descends once, to a leaf that shares the longest prefix with the name. The names above
    /// lie beside the path, and the predecessor lies beside its end. The search for the wildcard
    /// begins at the branch of the path at which the wildcard first differs from the name.
    pub(crate) fn closest(&self, name: &[u8], separator: u8) -> Option<Found> {
        let path = self.path(name)?;
        let Near { leaf, part, .. } = path.near;
        let agree = part.unwrap_or(name.len());
        let encloser = (0..=agree)
            .rev()
            .find(|length| is_name(name, *length, separator))?;
        let mut found = Found {
            exact: if part.is_none() { leaf } else { 0 },
            exists: agree == name.len(),
            encloser,
            before: self.before(&path.frames, path.end, path.near).unwrap_or(0),
            ..Found::default()
        };
        if !found.exists {
            let wildcard = wildcard_of(&name[..encloser], separator);
            let parts_at = path.frames.iter().find(|frame| frame.offset() >= encloser);
            let top = parts_at.map_or(path.end, |frame| frame.cell);
            found.wildcard = self.find_below(top, &wildcard).unwrap_or(0);
        }
        self.prefixes_beside(name, &path.frames, path.end, path.near, |leaf| {
            let length = self.key(leaf).map_or(0, <[u8]>::len);
            if length <= agree && is_name(name, length, separator) {
                found.above.push(leaf);
            }
            false
        })?;
        Some(found)
    }

    /// The leaf of a key that can only be below this cell.
    fn find_below(&self, mut cell: u32, key: &[u8]) -> Option<u32> {
        let mut min = 0;
        while cell & KIND == 0 {
            (cell, min) = self.step(cell, min, key)?;
        }
        self.find_in(cell, key)
    }

    /// The last leaf before the key of this path.
    fn before(&self, frames: &[Frame], end: u32, near: Near) -> Option<u32> {
        let mut left = frames.len();
        let at_end = match (near.part, frames.last()) {
            (Some(part), Some(last)) => part >= last.offset(),
            _ => true,
        };
        if at_end {
            let place = match near.part {
                None => near.index,
                // SAFETY: a cluster that `cluster` returned is whole, and has the leaf.
                Some(part) if end & LEAF == 0 => unsafe {
                    self.cluster(end)?.place(near.index, part, near.before)
                },
                Some(_) => usize::from(!near.before),
            };
            if place > 0 {
                return match end & LEAF {
                    0 => {
                        let c = self.cluster(end)?;
                        // SAFETY: a whole cluster, which has a leaf before that place.
                        (place <= c.leaves()).then(|| unsafe { c.cell(place - 1) })
                    }
                    _ => Some(end),
                };
            }
        } else {
            // All keys below the highest branch whose offset is greater come after it, or before.
            let part = near.part?;
            while left > 0 && frames[left - 1].offset() > part {
                left -= 1;
            }
            if !near.before {
                return self.last_below(frames.get(left).map_or(end, |frame| frame.cell));
            }
        }
        let above = frames[..left]
            .iter()
            .rev()
            .find(|frame| frame.index() > 0)?;
        let b = self.branch(above.cell, 0)?;
        self.last_below(self.child(b, above.index() - 1)?)
    }

    /// The last leaf below a cell.
    fn last_below(&self, mut cell: u32) -> Option<u32> {
        let mut min = 0;
        while cell & KIND == 0 {
            let b = self.branch(cell, min)?;
            min = b.offset() + 1;
            cell = self.child(b, b.children() - 1)?;
        }
        if cell & LEAF != 0 {
            return Some(cell);
        }
        let c = self.cluster(cell)?;
        // SAFETY: a cluster that `mem` returned is whole.
        Some(unsafe { c.cell(c.leaves() - 1) })
    }
}
