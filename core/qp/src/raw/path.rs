//! The path of a key from the root to the place where it is or would be, and the plan of an
//! insertion there. Path and plan are the same for all kinds of tries, which differ in how they
//! carry the plan out.

use core::marker::PhantomData;
use core::ptr;

use smallvec::SmallVec;

use super::inline::{Held, Inline};
use super::mem::Mem;
use super::node::{Branch, Cluster, KIND, is_leaf};
use super::slots::{Border, Slots, has_room, is_in_reach};
use super::view::{Near, View};
use crate::raw::leaf::Value;
use sapwood_format::cluster::{FILL_MAX, REACH, capacity_for};
use sapwood_format::inline;

/// A cluster with this number of leaves or fewer joins a sibling if it can.
pub(crate) const JOIN_AT: usize = FILL_MAX / 4;
/// The greatest number of leaves that are joined, so that neither the next insertion nor the next
/// removal undoes the join.
pub(crate) const JOIN_MAX: usize = FILL_MAX * 3 / 4;

/// A branch on a path.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) cell: u32,
    /// The index of the child that the path goes to.
    pub(crate) index: u16,
    /// The offset of the branch in the key.
    pub(crate) offset: u16,
}

impl Frame {
    pub(crate) fn index(self) -> usize {
        usize::from(self.index)
    }

    pub(crate) fn offset(self) -> usize {
        usize::from(self.offset)
    }
}

pub(crate) type Frames = SmallVec<[Frame; 16]>;

/// A stack of frames while a walk adds to it. It keeps in registers what the vector would read anew
/// for each frame.
pub(crate) struct Adding<'f, F> {
    // A pointer, not a reference: `p` points into the vector, too.
    frames: *mut SmallVec<[F; 16]>,
    p: *mut F,
    len: usize,
    room: usize,
    borrowed: PhantomData<&'f mut F>,
}

impl<'f, F: Copy> Adding<'f, F> {
    #[inline(always)]
    pub(crate) fn to(frames: &'f mut SmallVec<[F; 16]>) -> Self {
        let (len, room) = (frames.len(), frames.capacity());
        let frames = ptr::from_mut(frames);
        Adding {
            frames,
            // SAFETY: the vector is borrowed for `'f`. Nobody uses it while `p` is used.
            p: unsafe { (*frames).as_mut_ptr() },
            len,
            room,
            borrowed: PhantomData,
        }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, frame: F) {
        if self.len == self.room {
            // SAFETY: the vector is borrowed, and as many frames were written.
            (self.p, self.room) = unsafe { grow(self.frames, self.len) };
        }
        // SAFETY: there is room for a frame more.
        unsafe { self.p.add(self.len).write(frame) };
        self.len += 1;
    }

    /// The frames are those of the vector from now on.
    #[inline(always)]
    pub(crate) fn finish(self) {
        // SAFETY: the vector is borrowed, and as many frames were written.
        unsafe { (*self.frames).set_len(self.len) };
    }
}

/// Makes room for more frames than `len`; returns where they begin, and for how many there is room.
/// Its caller keeps all else in registers.
///
/// # Safety
/// Nobody else uses the vector, and as many frames were written.
#[cold]
#[inline(never)]
unsafe fn grow<F>(frames: *mut SmallVec<[F; 16]>, len: usize) -> (*mut F, usize) {
    // SAFETY: the caller's promise.
    let frames = unsafe {
        (*frames).set_len(len);
        &mut *frames
    };
    frames.reserve(1);
    let room = frames.capacity();
    (frames.as_mut_ptr(), room)
}

/// The path from the root to the leaf or cluster of a key, as it was when it was walked.
pub(crate) struct Path {
    pub(crate) frames: Frames,
    pub(crate) end: u32,
    pub(crate) near: Near,
}

/// The first step of the insertion of an absent key.
pub(crate) enum Plan {
    /// The leaf goes into the cluster at the end, as leaf number `at`. The new border is before it
    /// or behind it. With `anew` the cluster's base changes.
    Into {
        at: usize,
        border: Border,
        behind: bool,
        anew: bool,
    },
    /// The leaf and the leaf at the end become a cluster.
    Two { border: Border },
    /// The cluster at the end is split in two; then the insertion begins anew.
    Split,
    /// The leaf becomes a child of branch number `depth` of the path, beside the child that the
    /// path goes to.
    Label { depth: usize, border: Border },
    /// The leaf and the node below the first `depth` branches of the path become a branch.
    Pair { depth: usize, border: Border },
}

impl Path {
    /// A path of no key.
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Path {
            frames: Frames::new(),
            end: 0,
            near: Near::NONE,
        }
    }

    /// Whether the key sorts before the leaf nearest to it.
    pub(crate) fn before(&self) -> bool {
        self.near.before
    }

    /// The cell of the node below the first `depth` branches of the path.
    pub(crate) fn cell(&self, depth: usize) -> u32 {
        self.frames.get(depth).map_or(self.end, |frame| frame.cell)
    }

    /// A new leaf and a node of the path in the order of their keys.
    pub(crate) fn beside(&self, leaf: u32, there: u32) -> (u32, u32) {
        match self.before() {
            true => (leaf, there),
            false => (there, leaf),
        }
    }

    /// The offset of the last branch.
    #[inline(always)]
    pub(crate) fn parent(&self) -> Option<usize> {
        self.frames.last().map(|frame| frame.offset())
    }
}

impl<V: ?Sized + Value, M: Mem> View<'_, V, M> {
    /// The path of a key; `None` if the trie is empty.
    #[inline]
    pub(crate) fn path(&self, key: &[u8]) -> Option<Path> {
        let mut path = Path::new();
        self.path_to(key, &mut path)?;
        Some(path)
    }

    /// Makes a new path that of a key; `None` if the trie is empty. A path is large: it is not
    /// moved where that counts.
    #[inline(never)]
    pub(crate) fn path_to(&self, key: &[u8], path: &mut Path) -> Option<()> {
        if self.root == 0 {
            return None;
        }
        path.end = self.walk_on(&mut path.frames, self.root, key)?;
        path.near = self.near(path.end, key)?;
        Some(())
    }

    /// The path of a key that is there; `None` if it is absent. It finds the leaf by its tag, as
    /// lookups do. This takes less time than a search for the place of a key that may be new.
    #[inline]
    pub(crate) fn path_of_present(&self, key: &[u8]) -> Option<Path> {
        let (frames, end) = self.walk(key)?;
        let (index, entry) = self.place_in(end, key)?;
        let near = Near {
            entry,
            index,
            ..Near::NONE
        };
        Some(Path { frames, end, near })
    }

    /// Walks down by the bytes of a key to a leaf or cluster; `None` if the trie is empty.
    #[inline(always)]
    pub(crate) fn walk(&self, key: &[u8]) -> Option<(Frames, u32)> {
        let mut frames = Frames::new();
        if self.root == 0 {
            return None;
        }
        let end = self.walk_on(&mut frames, self.root, key)?;
        Some((frames, end))
    }

    /// Walks down from a cell below these branches, as `walk` does from the root.
    #[inline(always)]
    pub(crate) fn walk_on(&self, frames: &mut Frames, mut end: u32, key: &[u8]) -> Option<u32> {
        let mut min = frames.last().map_or(0, |frame| frame.offset() + 1);
        let mut adding = Adding::to(frames);
        while end & KIND == 0 {
            let b = self.branch(end, min)?;
            let (index, child) = self.choose(b, key)?;
            adding.push(frame(end, b, index));
            end = child;
            min = b.offset() + 1;
        }
        adding.finish();
        Some(end)
    }

    /// The branches above a cell that is on a key's path.
    pub(crate) fn frames_to(&self, key: &[u8], top: u32) -> Option<Frames> {
        let mut frames = Frames::new();
        let mut cell = self.root;
        while cell != top {
            let b = self.branch(cell, 0)?;
            let index = self.index(b, key);
            frames.push(frame(cell, b, index));
            cell = self.child(b, index)?;
            if cell != top && cell & KIND != 0 {
                return None;
            }
        }
        Some(frames)
    }

    /// The first step of the insertion of an absent key, whose path this is. In an inline cluster,
    /// its value takes `behind` bytes behind the key.
    #[inline]
    pub(crate) fn plan(&self, path: &Path, key: &[u8], behind: usize) -> Option<Plan> {
        let part = path.near.part?;
        let (mine, found) = (key.get(part).copied(), path.near.theirs);
        let border = match path.before() {
            true => Border::of(mine, found, part),
            false => Border::of(found, mine, part),
        };
        let parent = path.parent();
        if parent.is_some_and(|parent| part < parent) {
            let depth = path
                .frames
                .iter()
                .position(|frame| frame.offset() >= part)?;
            return Some(match path.frames[depth].offset() == part {
                true => Plan::Label { depth, border },
                false => Plan::Pair { depth, border },
            });
        }
        if is_leaf(path.end) {
            return Some(Plan::Two { border });
        }
        let c = self.cluster(path.end)?;
        // SAFETY: a cluster that `cluster` returned is whole.
        let fits = is_in_reach(c, part) || unsafe { fits_anew(c, part) };
        // SAFETY: as above.
        let fits =
            fits && (!c.is_inline() || unsafe { has_bytes::<V>(c, part, key.len(), behind) });
        if has_room(c) && fits {
            return Some(Plan::Into {
                // SAFETY: as above; the near leaf is in it.
                at: unsafe { c.place(path.near.index, part, path.before()) },
                border,
                behind: path.before(),
                anew: !is_in_reach(c, part),
            });
        }
        // SAFETY: as above.
        let is_least = (1..c.leaves()).all(|i| unsafe { c.border(i) } > part);
        Some(match is_least {
            false => Plan::Split,
            // The key differs from all leaves of the cluster at a lesser offset than they do among
            // themselves.
            true if parent == Some(part) => Plan::Label {
                depth: path.frames.len() - 1,
                border,
            },
            true => Plan::Pair {
                depth: path.frames.len(),
                border,
            },
        })
    }
}

fn frame(cell: u32, b: Branch, index: usize) -> Frame {
    // An offset is at most 65,535, and a branch has at most 257 children.
    Frame {
        cell,
        index: index as u16,
        offset: b.offset() as u16,
    }
}

/// Whether a border at this offset fits into a cluster that is written with another base.
///
/// # Safety
/// The cluster is whole.
unsafe fn fits_anew(c: Cluster, at: usize) -> bool {
    // SAFETY: these borders are between leaves of the cluster.
    let borders = (1..c.leaves()).map(|i| unsafe { c.border(i) });
    let (low, high) = borders.fold((at, at), |(low, high), at| (low.min(at), high.max(at)));
    high - low <= REACH
}

/// Whether an inline cluster has the bytes for one entry more, which first differs from the others
/// at this offset; perhaps it is written anew, with another prefix.
///
/// # Safety
/// The cluster is whole, inline, and has values of type `V`.
unsafe fn has_bytes<V: ?Sized + Value>(c: Cluster, at: usize, len: usize, behind: usize) -> bool {
    let n = c.leaves() + 1;
    // SAFETY: the caller's promise.
    let old = unsafe { Inline::of(c) };
    let prefix = old.extent.prefix.min(at).min(c.base());
    let longer = old.extent.prefix - prefix;
    let mut bytes = match is_outside(len, prefix, behind) {
        true => V::ENTRIES.outside(),
        false => V::ENTRIES.entry(len - prefix, behind),
    };
    if longer == 0 {
        let heap = V::ENTRIES.heap_at(old.capacity, prefix);
        bytes += old.extent.end - heap - old.extent.dead;
    } else {
        for i in 0..c.leaves() {
            // SAFETY: the cluster has this entry.
            match unsafe { old.held::<V>(i) } {
                Held::Leaf(_) => bytes += V::ENTRIES.outside(),
                Held::Here { len, .. } if len + longer > inline::TAIL_MAX => return false,
                Held::Here { tail, len } => {
                    // SAFETY: what lies behind a tail is a value.
                    let behind = unsafe { V::slot_len(tail.add(len)) };
                    bytes += V::ENTRIES.entry(len + longer, behind);
                }
            }
        }
    }
    fits_block::<V>(n, prefix, bytes)
}

/// Whether entries that take this many bytes in the heap fit into one block.
pub(crate) fn fits_block<V: ?Sized + Value>(n: usize, prefix: usize, bytes: usize) -> bool {
    let capacity = capacity_for(n);
    let end = V::ENTRIES.heap_at(capacity, prefix) + bytes;
    // Two or three long entries cannot be parted with a gain. A block that is written with a longer
    // prefix may take some bytes more, by rounding.
    let most = match n {
        ..4 => inline::END_MAX - SLACK,
        _ => inline::END_FULL,
    };
    end <= most
}

/// Bytes of a block that are left free where its size is estimated.
const SLACK: usize = 64;

/// The length of the prefix of a block whose keys share `all` bytes that may be cut: all of them. A
/// prefix saves nothing for a single key in the block, or for none (leaves of their own have theirs
/// whole): then it is as short as the tail allows.
pub(crate) fn prefix_of(all: usize, held: impl Iterator<Item = usize>) -> usize {
    let mut held = held;
    match (held.next(), held.next()) {
        (None, _) => 0,
        (Some(len), None) => all.min(len.saturating_sub(inline::HELD_MAX)),
        _ => all,
    }
}

/// Whether an entry that is inserted below a prefix of this length, with a key of `len` bytes and
/// this many bytes behind it, is a leaf of its own.
#[inline(always)]
pub(crate) fn is_outside(len: usize, prefix: usize, behind: usize) -> bool {
    len > inline::KEY_MAX || len - prefix > inline::HELD_MAX || behind > inline::HELD_MAX + 1
}

/// The leaves of two neighbours in a branch as one cluster, if they may be joined. `left` and
/// `right` are the leaves of the children, and the border is between them.
pub(crate) fn joined(left: &Slots, border: Border, right: &Slots) -> Option<Slots> {
    if left.len() + right.len() > JOIN_MAX {
        return None;
    }
    let mut all = left.clone();
    all.append(border, right);
    all.fits(0, all.len()).then_some(all)
}
