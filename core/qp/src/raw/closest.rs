//! The answer of a zone for a name, in one descent.

use smallvec::SmallVec;

use super::inline::EntryRef;
use super::leaf::Value;
use super::mem::Mem;
use super::node::{KIND, is_leaf};
use super::path::{Frame, Frames, Path};
use super::view::{Near, View};

/// The answer for a name.
pub(crate) struct Found {
    /// The name's own leaf.
    pub(crate) exact: EntryRef,
    /// Whether a stored key begins with the name.
    pub(crate) exists: bool,
    /// The length of the closest encloser in bytes. It is the longest prefix of the name with which
    /// a stored key begins, among the empty prefix, those that end with a separator, and the name
    /// itself.
    pub(crate) encloser: usize,
    /// The leaf of the wildcard below the closest encloser, when the name does not exist.
    pub(crate) wildcard: EntryRef,
    /// The last entry before the name.
    pub(crate) before: EntryRef,
    /// The leaves of the names at or above the name, the longest first.
    pub(crate) above: SmallVec<[EntryRef; 8]>,
}

impl Default for Found {
    fn default() -> Self {
        Found {
            exact: EntryRef::NONE,
            exists: false,
            encloser: 0,
            wildcard: EntryRef::NONE,
            before: EntryRef::NONE,
            above: SmallVec::new(),
        }
    }
}

/// The key of the wildcard below an encloser.
pub(crate) fn wildcard_of(encloser: &[u8], separator: u8) -> SmallVec<[u8; 264]> {
    let mut name = SmallVec::from_slice(encloser);
    name.extend_from_slice(&[b'*', separator]);
    name
}

/// The number of branches on a path that all keys have on theirs which begin with as many bytes of
/// its key.
#[inline(always)]
fn parting(path: &Path, bytes: usize) -> usize {
    let there = path.frames.iter().position(|frame| frame.offset() >= bytes);
    there.unwrap_or(path.frames.len())
}

/// Whether the prefix of this length of a name is the name itself or a name above it.
pub(crate) fn is_name(name: &[u8], length: usize, separator: u8) -> bool {
    length == 0 || length == name.len() || name[length - 1] == separator
}

/// What lies beside the wildcard below the closest encloser of a name that does not exist.
pub(crate) struct Beside {
    /// Whether a stored key begins with the wildcard.
    pub(crate) exists: bool,
    /// The last entry before the wildcard, if there is one.
    pub(crate) before: EntryRef,
}

impl Default for Beside {
    fn default() -> Self {
        Beside {
            exists: false,
            before: EntryRef::NONE,
        }
    }
}

impl<V: ?Sized + Value, M: Mem> View<'_, V, M> {
    /// The answer for a name whose labels end with a separator.
    ///
    /// It descends once, to a leaf that shares the longest prefix with the name. The names above
    /// lie beside the path, and the predecessor lies beside its end. The search for the wildcard
    /// begins at the branch of the path at which the wildcard first differs from the name.
    pub(crate) fn closest(&self, name: &[u8], separator: u8) -> Option<Found> {
        let path = self.path_and_fetch(name)?;
        let mut found = self.nearest(name, separator, &path)?;
        if !found.exists {
            let wildcard = wildcard_of(&name[..found.encloser], separator);
            let top = path.cell(parting(&path, found.encloser));
            found.wildcard = self.find_below(top, &wildcard).unwrap_or(EntryRef::NONE);
        }
        self.add_above(name, separator, &path, &mut found)?;
        Some(found)
    }

    /// The same, with what lies beside the wildcard. This takes the place of the wildcard in the
    /// order of keys, which `closest` does not look for.
    pub(crate) fn denial(&self, name: &[u8], separator: u8) -> Option<(Found, Beside)> {
        let path = self.path_and_fetch(name)?;
        let mut found = self.nearest(name, separator, &path)?;
        let mut beside = Beside::default();
        if !found.exists {
            let wildcard = wildcard_of(&name[..found.encloser], separator);
            let depth = parting(&path, found.encloser);
            let other = self.path_from(&path, depth, &wildcard)?;
            let Near { entry, part, .. } = other.near;
            if part.is_none() {
                found.wildcard = entry;
            }
            beside.exists = part.is_none_or(|part| part == wildcard.len());
            let before = self.before(&other.frames, other.end, other.near);
            beside.before = before.unwrap_or(EntryRef::NONE);
        }
        self.add_above(name, separator, &path, &mut found)?;
        Some((found, beside))
    }

    /// The leaves of the names above a name that have more than this many bytes, the longest first.
    pub(crate) fn names_above(
        &self,
        name: &[u8],
        bytes: usize,
        separator: u8,
    ) -> Option<SmallVec<[EntryRef; 8]>> {
        let path = self.path(name)?;
        let mut above = SmallVec::new();
        let wanted =
            |length| bytes < length && length < name.len() && name[length - 1] == separator;
        self.prefixes_beside(name, &path, wanted, |entry| {
            above.push(entry);
            false
        })?;
        Some(above)
    }

    /// The part of the answer that lies at the end of the name's path.
    #[inline(always)]
    fn nearest(&self, name: &[u8], separator: u8, path: &Path) -> Option<Found> {
        let Near { entry, part, .. } = path.near;
        let agree = part.unwrap_or(name.len());
        let encloser = (0..=agree)
            .rev()
            .find(|length| is_name(name, *length, separator))?;
        let found = Found {
            exact: if part.is_none() {
                entry
            } else {
                EntryRef::NONE
            },
            exists: agree == name.len(),
            encloser,
            before: self
                .before(&path.frames, path.end, path.near)
                .unwrap_or(EntryRef::NONE),
            ..Found::default()
        };
        self.fetch(found.before);
        Some(found)
    }

    /// Adds the names at or above a name to its answer.
    #[inline(always)]
    fn add_above(&self, name: &[u8], separator: u8, path: &Path, found: &mut Found) -> Option<()> {
        let wanted = |length| is_name(name, length, separator);
        self.prefixes_beside(name, path, wanted, |entry| {
            found.above.push(entry);
            false
        })
    }

    /// The path of a key that leaves another path below the first `depth` branches of it.
    fn path_from(&self, other: &Path, depth: usize, key: &[u8]) -> Option<Path> {
        let mut frames = Frames::from_slice(other.frames.get(..depth)?);
        let end = self.walk_on(&mut frames, other.cell(depth), key)?;
        let near = self.near(end, key)?;
        Some(Path { frames, end, near })
    }

    /// The path of a key. The predecessor is most often the leaf before the one that is compared
    /// with the key, so it is prefetched before that comparison.
    #[inline(always)]
    fn path_and_fetch(&self, key: &[u8]) -> Option<Path> {
        let (frames, end) = self.walk(key)?;
        let (index, entry) = self.blind(end, key)?;
        if index > 0 {
            let c = self.cluster(end)?;
            // SAFETY: a cluster that `cluster` returned is whole, and has the leaf before that one.
            self.fetch(unsafe { c.entry(index - 1) });
        }
        let near = self.compare(index, entry, key)?;
        Some(Path { frames, end, near })
    }

    /// The leaf of a key that can only be below this cell.
    fn find_below(&self, mut cell: u32, key: &[u8]) -> Option<EntryRef> {
        let mut min = 0;
        while cell & KIND == 0 {
            (cell, min) = self.step(cell, min, key)?;
        }
        self.find_in(cell, key)
    }

    /// The last leaf before the key of this path.
    fn before(&self, frames: &[Frame], end: u32, near: Near) -> Option<EntryRef> {
        let mut left = frames.len();
        let at_end = match (near.part, frames.last()) {
            (Some(part), Some(last)) => part >= last.offset(),
            _ => true,
        };
        if at_end {
            let place = match near.part {
                None => near.index,
                // SAFETY: a cluster that `cluster` returned is whole, and has the leaf.
                Some(part) if !is_leaf(end) => unsafe {
                    self.cluster(end)?.place(near.index, part, near.before)
                },
                Some(_) => usize::from(!near.before),
            };
            if place > 0 {
                if is_leaf(end) {
                    return Some(EntryRef::leaf(end));
                }
                let c = self.cluster(end)?;
                if place > c.leaves() {
                    return None;
                }
                // SAFETY: a whole cluster, which has an entry before that place.
                let before = unsafe {
                    match M::DEAD {
                        false => Some(c.entry(place - 1)),
                        true => c.alive_until(place).map(|(_, cell)| EntryRef::leaf(cell)),
                    }
                };
                if before.is_some() {
                    return before;
                }
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
    fn last_below(&self, mut cell: u32) -> Option<EntryRef> {
        let mut min = 0;
        while cell & KIND == 0 {
            let b = self.branch(cell, min)?;
            min = b.offset() + 1;
            cell = self.child(b, b.children() - 1)?;
        }
        if is_leaf(cell) {
            return Some(EntryRef::leaf(cell));
        }
        let c = self.cluster(cell)?;
        // SAFETY: a cluster that `mem` returned is whole.
        Some(unsafe { c.entry(c.leaves() - 1) })
    }
}
