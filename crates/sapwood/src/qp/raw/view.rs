//! Reading one version of a trie: exact lookups and the ways down.

use core::marker::PhantomData;

pub(crate) use sapwood_arena::prefetch;

use super::leaf::{LeafOf, mismatch};
use super::mem::{Mem, Trusted};
use super::node::{Branch, END, LEAF};
use super::order::Run;

/// One version of a trie: a root cell and the memory that it points into, readable for `'a`.
///
/// All methods are safe to call because a view is only made (unsafely) for a root whose nodes stay
/// alive and unchanged for `'a`.
pub(crate) struct View<'a, V, M = Trusted> {
    pub(crate) mem: M,
    pub(crate) root: u32,
    /// The leaves in order, when they lie so; else nothing.
    pub(crate) order: &'a [Run],
    alive: PhantomData<&'a V>,
}

impl<V, M: Copy> Clone for View<'_, V, M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<V, M: Copy> Copy for View<'_, V, M> {}

// SAFETY: a view gives out `&V` and `&[u8]` only.
unsafe impl<V: Sync, M> Send for View<'_, V, M> {}
// SAFETY: as above.
unsafe impl<V: Sync, M> Sync for View<'_, V, M> {}

/// What one step of an exact descent met.
pub(crate) enum Step {
    /// The next cell.
    Down(u32),
    /// The key is not there.
    Miss,
}

impl<V> View<'_, V> {
    /// The empty trie.
    pub(crate) fn nothing() -> Self {
        View {
            mem: Trusted {
                base: core::ptr::without_provenance_mut(64),
            },
            root: 0,
            order: &[],
            alive: PhantomData,
        }
    }
}

impl<'a, V, M: Mem> View<'a, V, M> {
    /// # Safety
    /// When `M` is trusted: `root` is 0 or the root of a trie in `mem` with values `V`, all of whose
    /// nodes stay alive and unchanged for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn new(mem: M, root: u32) -> Self {
        View {
            mem,
            root,
            order: &[],
            alive: PhantomData,
        }
    }

    #[inline(always)]
    pub(crate) fn branch(&self, cell: u32, min: usize) -> Option<Branch> {
        // SAFETY: cells come from this view's root downwards; `new`'s promise.
        unsafe { self.mem.branch(cell, min) }
    }

    #[inline(always)]
    pub(crate) fn leaf(&self, cell: u32) -> Option<*mut u8> {
        // SAFETY: as above.
        unsafe { self.mem.leaf::<V>(cell) }
    }

    /// The child cell at `i`, when there is one.
    #[inline(always)]
    pub(crate) fn child(&self, b: Branch, i: usize) -> Option<u32> {
        if !M::TRUSTED && i >= b.children() {
            return None;
        }
        // SAFETY: in a trusted memory, indices come from `find` and from counting; else just checked.
        Some(unsafe { b.cell(i) })
    }

    /// The child that a key goes to.
    #[inline(always)]
    pub(crate) fn index(&self, b: Branch, key: &[u8]) -> Option<usize> {
        let offset = b.offset();
        if offset < key.len() {
            // SAFETY: a branch that `mem` returned is whole.
            unsafe { b.find(key[offset]) }
        } else {
            (offset == key.len() && b.h & END != 0).then_some(0)
        }
    }

    #[inline(always)]
    pub(crate) fn step(&self, cell: u32, min: usize, key: &[u8]) -> (Step, usize) {
        let Some(b) = self.branch(cell, min) else {
            return (Step::Miss, 0);
        };
        let offset = b.offset();
        let next = if M::TRUSTED && offset < key.len() {
            // SAFETY: a trusted branch is whole and well formed.
            unsafe { b.find_cell(key[offset]) }
        } else {
            self.index(b, key).and_then(|i| self.child(b, i))
        };
        match next {
            Some(next) => (Step::Down(next), offset + 1),
            None => (Step::Miss, 0),
        }
    }

    /// The leaf cell of a key.
    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Option<u32> {
        let mut cell = self.root;
        if cell == 0 {
            return None;
        }
        let mut min = 0;
        while cell & LEAF == 0 {
            let (step, next) = self.step(cell, min, key);
            match step {
                Step::Down(down) => cell = down,
                Step::Miss => return None,
            }
            min = next;
        }
        self.has_key(cell, key).then_some(cell)
    }

    /// Whether the leaf's key is this one.
    #[inline(always)]
    pub(crate) fn has_key(&self, cell: u32, key: &[u8]) -> bool {
        self.leaf(cell)
            // SAFETY: `leaf` returned a whole leaf.
            .is_some_and(|p| unsafe { LeafOf::<V>::is_key(p, key) })
    }

    /// The value of a key.
    #[cfg(feature = "std")]
    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Option<&'a V> {
        let cell = self.find(key)?;
        self.value(cell)
    }

    /// Value of a leaf cell.
    #[inline(always)]
    pub(crate) fn value(&self, cell: u32) -> Option<&'a V> {
        let p = self.leaf(cell)?;
        // SAFETY: a whole leaf that lives for 'a.
        Some(unsafe { &*LeafOf::<V>::value_ptr(p) })
    }

    /// Key and value of a leaf cell.
    #[inline(always)]
    pub(crate) fn entry(&self, cell: u32) -> Option<(&'a [u8], &'a V)> {
        let p = self.leaf(cell)?;
        // SAFETY: a whole leaf that lives for 'a.
        Some(unsafe { (LeafOf::<V>::key(p), &*LeafOf::<V>::value_ptr(p)) })
    }

    /// Key of a leaf cell.
    #[inline(always)]
    pub(crate) fn key(&self, cell: u32) -> Option<&'a [u8]> {
        let p = self.leaf(cell)?;
        // SAFETY: a whole leaf that lives for 'a.
        Some(unsafe { LeafOf::<V>::key(p) })
    }

    /// The first leaf below a cell.
    pub(crate) fn first_below(&self, mut cell: u32, mut min: usize) -> Option<u32> {
        while cell & LEAF == 0 {
            let b = self.branch(cell, min)?;
            min = b.offset() + 1;
            cell = self.child(b, 0)?;
        }
        Some(cell)
    }

    /// The stored keys that are prefixes of `key`, shortest first, as leaf cells. Returns the longest.
    ///
    /// Every stored prefix of `key` is an END child on the way down, or the last leaf itself: one leaf
    /// compared with `key` tells of all of them at once how far they agree.
    ///
    /// Beside writers the second way down may differ from the first. A key that is there throughout is still found, once; others may
    /// be no prefixes.
    pub(crate) fn prefixes_of(&self, key: &[u8], mut each: impl FnMut(u32)) -> Option<u32> {
        let mut cell = self.root;
        if cell == 0 {
            return None;
        }
        let mut min = 0;
        let mut ends = 0usize;
        // How far do the keys on the way agree with `key`?
        let last = loop {
            if cell & LEAF != 0 {
                break cell;
            }
            let b = self.branch(cell, min)?;
            ends += usize::from(b.h & END != 0);
            min = b.offset() + 1;
            cell = match self.index(b, key) {
                Some(i) => self.child(b, i)?,
                None => break self.first_below(self.child(b, 0)?, min)?,
            };
        };
        let last_key = self.key(last)?;
        let agree = mismatch(key, last_key).unwrap_or(key.len());
        let fits = last_key.len() == agree;
        let mut longest = None;
        let mut late = None;
        if ends > 0 {
            let mut cell = self.root;
            let mut min = 0;
            while cell & LEAF == 0 {
                let b = self.branch(cell, min)?;
                if b.offset() > agree {
                    break;
                }
                min = b.offset() + 1;
                if b.h & END != 0 {
                    let end = self.child(b, 0)?;
                    // At `agree` it is the last leaf's key, perhaps with another value.
                    if end != last && !(fits && b.offset() == agree) {
                        each(end);
                        longest = Some(end);
                    }
                }
                cell = match self.index(b, key) {
                    Some(i) => self.child(b, i)?,
                    None => break,
                };
            }
            // An END child of the first way is a leaf by itself when its siblings went.
            if cell & LEAF != 0 && cell != last {
                let own = self.key(cell)?;
                let new = key.starts_with(own) && !(fits && own.len() == agree);
                late = new.then_some((cell, own.len()));
            }
        }
        let before = late.filter(|(_, len)| *len < agree);
        let behind = late.filter(|(_, len)| *len >= agree);
        let leaves = [before, fits.then_some((last, agree)), behind];
        for (leaf, _) in leaves.into_iter().flatten() {
            each(leaf);
            longest = Some(leaf);
        }
        longest
    }

    /// The top cell of the subtree that holds exactly the keys that start with `prefix`, and the least
    /// offset that its branch may have.
    pub(crate) fn subtree(&self, prefix: &[u8]) -> Option<(u32, usize)> {
        let mut cell = self.root;
        if cell == 0 {
            return None;
        }
        let mut min = 0;
        while cell & LEAF == 0 {
            let b = self.branch(cell, min)?;
            if b.offset() >= prefix.len() {
                break;
            }
            cell = self.child(b, self.index(b, prefix)?)?;
            min = b.offset() + 1;
        }
        let leaf = self.first_below(cell, min)?;
        self.key(leaf)?.starts_with(prefix).then_some((cell, min))
    }
}
