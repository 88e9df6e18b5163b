//! Ordered movement: a stack of branches from the root to a leaf.

use core::cmp::Ordering;

use smallvec::SmallVec;

use super::leaf::mismatch;
use super::mem::Mem;
use super::node::LEAF;
use super::view::View;

#[derive(Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) cell: u32,
    /// Index of the child that the way goes to.
    pub(crate) index: u16,
    /// Least offset of the branch: its parent's plus one.
    min: u16,
}

/// A place in a trie: on a leaf, or nowhere.
#[derive(Clone)]
pub(crate) struct Cursor {
    pub(crate) stack: SmallVec<[Frame; 16]>,
    /// The leaf that the cursor stands on, or 0.
    pub(crate) leaf: u32,
}

/// Where a key is, or would be, relative to the cursor's stack.
enum Near {
    /// The cursor stands on it.
    Equal,
    /// It would be the `rank`th child of the top branch.
    Gap { rank: usize },
    /// All keys below `cell`, which is where the top of the stack points (or the root), come after it, or
    /// all come before it.
    Beside {
        cell: u32,
        min: usize,
        greater: bool,
    },
}

impl Cursor {
    pub(crate) fn new() -> Self {
        Cursor {
            stack: SmallVec::new(),
            leaf: 0,
        }
    }

    /// Goes to the first leaf below a cell, pushing branches.
    #[inline]
    pub(crate) fn down_first<V, M: Mem>(&mut self, view: &View<'_, V, M>, cell: u32, min: usize) {
        self.down(view, cell, min, |_| 0);
    }

    /// Goes to the last leaf below a cell, pushing branches.
    #[inline]
    pub(crate) fn down_last<V, M: Mem>(&mut self, view: &View<'_, V, M>, cell: u32, min: usize) {
        self.down(view, cell, min, |children| children - 1);
    }

    #[inline(always)]
    fn down<V, M: Mem>(
        &mut self,
        view: &View<'_, V, M>,
        mut cell: u32,
        mut min: usize,
        pick: impl Fn(usize) -> usize,
    ) {
        while cell & LEAF == 0 {
            let Some(b) = view.branch(cell, min) else {
                return self.lose();
            };
            let index = pick(b.children());
            self.stack.push(Frame {
                cell,
                index: index as u16,
                min: min as u16,
            });
            let Some(next) = view.child(b, index) else {
                return self.lose();
            };
            // An offset is at most 65,534 (a branch needs a byte or an end there).
            min = b.offset() + 1;
            cell = next;
        }
        self.leaf = cell;
    }

    fn lose(&mut self) {
        self.stack.clear();
        self.leaf = 0;
    }

    pub(crate) fn first<V, M: Mem>(&mut self, view: &View<'_, V, M>) {
        self.lose();
        if view.root != 0 {
            self.down_first(view, view.root, 0);
        }
    }

    pub(crate) fn last<V, M: Mem>(&mut self, view: &View<'_, V, M>) {
        self.lose();
        if view.root != 0 {
            self.down_last(view, view.root, 0);
        }
    }

    /// To the next leaf in order.
    #[inline]
    pub(crate) fn next<V, M: Mem>(&mut self, view: &View<'_, V, M>) {
        while let Some(top) = self.stack.last_mut() {
            let Some(b) = view.branch(top.cell, usize::from(top.min)) else {
                return self.lose();
            };
            let i = usize::from(top.index) + 1;
            if i < b.children() {
                top.index = i as u16;
                let Some(cell) = view.child(b, i) else {
                    return self.lose();
                };
                if cell & LEAF != 0 {
                    self.leaf = cell;
                    return;
                }
                return self.down_first(view, cell, b.offset() + 1);
            }
            self.stack.pop();
        }
        self.leaf = 0;
    }

    /// To the previous leaf in order.
    #[inline]
    pub(crate) fn prev<V, M: Mem>(&mut self, view: &View<'_, V, M>) {
        while let Some(top) = self.stack.last_mut() {
            let Some(b) = view.branch(top.cell, usize::from(top.min)) else {
                return self.lose();
            };
            if top.index > 0 {
                top.index -= 1;
                let Some(cell) = view.child(b, usize::from(top.index)) else {
                    return self.lose();
                };
                if cell & LEAF != 0 {
                    self.leaf = cell;
                    return;
                }
                return self.down_last(view, cell, b.offset() + 1);
            }
            self.stack.pop();
        }
        self.leaf = 0;
    }

    /// Finds where `key` is or would be; leaves the stack at the deepest branch that tells.
    fn approach<V, M: Mem>(&mut self, view: &View<'_, V, M>, key: &[u8]) -> Option<Near> {
        self.lose();
        let mut cell = view.root;
        if cell == 0 {
            return None;
        }
        let mut min = 0;
        while cell & LEAF == 0 {
            let b = view.branch(cell, min)?;
            // Off the way, any leaf below tells where the key leaves the trie: take the first.
            let index = view.index(b, key).unwrap_or(0);
            self.stack.push(Frame {
                cell,
                index: index as u16,
                min: min as u16,
            });
            cell = view.child(b, index)?;
            min = b.offset() + 1;
        }
        let found = view.key(cell)?;
        let Some(at) = mismatch(key, found) else {
            self.leaf = cell;
            return Some(Near::Equal);
        };
        let mut below = cell;
        let mut below_min = min;
        while let Some(top) = self.stack.last() {
            let b = view.branch(top.cell, usize::from(top.min))?;
            match b.offset().cmp(&at) {
                Ordering::Greater => {
                    below = top.cell;
                    below_min = usize::from(top.min);
                    self.stack.pop();
                }
                Ordering::Equal => {
                    // SAFETY: `view.branch` returned a whole branch.
                    let rank = unsafe { b.rank(key.get(at).copied()) };
                    return Some(Near::Gap {
                        rank: rank.min(b.children()),
                    });
                }
                Ordering::Less => break,
            }
        }
        Some(Near::Beside {
            cell: below,
            min: below_min,
            // A key that ends sorts first: None < Some.
            greater: found.get(at) > key.get(at),
        })
    }

    /// To the least leaf whose key is `>= key`, or `> key` when `strict`.
    pub(crate) fn seek_ge<V, M: Mem>(&mut self, view: &View<'_, V, M>, key: &[u8], strict: bool) {
        match self.approach(view, key) {
            None => self.lose(),
            Some(Near::Equal) if !strict => {}
            Some(Near::Equal) => self.next(view),
            Some(Near::Gap { rank }) => {
                if let Some(top) = self.stack.last_mut() {
                    // `next` goes to the child after this index; the rank may be 0.
                    let (cell, min) = (top.cell, usize::from(top.min));
                    let Some(b) = view.branch(cell, min) else {
                        return self.lose();
                    };
                    if rank < b.children() {
                        top.index = rank as u16;
                        match view.child(b, rank) {
                            Some(cell) => self.down_first(view, cell, b.offset() + 1),
                            None => self.lose(),
                        }
                    } else {
                        self.stack.pop();
                        self.next(view);
                    }
                }
            }
            Some(Near::Beside { cell, min, greater }) => {
                if greater {
                    self.down_first(view, cell, min);
                } else {
                    self.next(view);
                }
            }
        }
    }

    /// To the greatest leaf whose key is `<= key`, or `< key` when `strict`.
    pub(crate) fn seek_le<V, M: Mem>(&mut self, view: &View<'_, V, M>, key: &[u8], strict: bool) {
        match self.approach(view, key) {
            None => self.lose(),
            Some(Near::Equal) if !strict => {}
            Some(Near::Equal) => self.prev(view),
            Some(Near::Gap { rank }) => {
                if let Some(top) = self.stack.last_mut() {
                    top.index = rank as u16;
                }
                // The child before the gap; the index may be one past the last.
                self.prev(view);
            }
            Some(Near::Beside { cell, min, greater }) => {
                if greater {
                    self.prev(view);
                } else {
                    self.down_last(view, cell, min);
                }
            }
        }
    }
}
