//! Walking forward: a stack of cells that are still to come, the next one on top.
//!
//! Children go onto the stack all at once. Over text most branches have two to four, and for those it is
//! one 16-byte copy without a branch of the program: scans are bound by mispredicted branches.

use alloc::vec::Vec;

use super::cursor::Cursor;
use super::mem::Mem;
use super::node::{self, Branch, LEAF};
use super::view::View;

/// Room for a branch with all children.
const ROOM: usize = 257;

/// The leaves from a place on, in order.
#[derive(Clone)]
pub(crate) struct Forward {
    /// Grows downward: the next cell is at `top`. Beside each cell, in checked memories only, the least offset
    /// that its branch may have.
    cells: Vec<u32>,
    mins: Vec<u32>,
    top: usize,
}

impl Forward {
    pub(crate) fn nothing() -> Self {
        Forward {
            cells: Vec::new(),
            mins: Vec::new(),
            top: 0,
        }
    }

    /// The leaf that the cursor stands on, and all that come after it.
    pub(crate) fn from_cursor<V, M: Mem>(view: &View<'_, V, M>, cursor: &Cursor) -> Self {
        let mut forward = Forward::nothing();
        if cursor.leaf == 0 {
            return forward;
        }
        for frame in &cursor.stack {
            if let Some(b) = view.branch(frame.cell, 0) {
                forward.push_children(view, b, usize::from(frame.index) + 1);
            }
        }
        forward.reserve::<M>(1);
        forward.top -= 1;
        forward.set::<M>(forward.top, cursor.leaf, 0);
        forward
    }

    #[inline(always)]
    fn set<M: Mem>(&mut self, at: usize, cell: u32, min: usize) {
        self.cells[at] = cell;
        if !M::TRUSTED {
            self.mins[at] = min as u32;
        }
    }

    /// Makes room for `more` cells below the top.
    #[inline(always)]
    fn reserve<M: Mem>(&mut self, more: usize) {
        if self.top < more {
            self.grow::<M>();
        }
    }

    #[cold]
    fn grow<M: Mem>(&mut self) {
        fn moved(old: &[u32], top: usize, by: usize) -> Vec<u32> {
            let mut new = Vec::with_capacity(old.len() + by);
            new.resize(top + by, 0);
            new.extend_from_slice(&old[top..]);
            new
        }
        let by = ROOM.max(self.cells.len());
        self.cells = moved(&self.cells, self.top, by);
        if !M::TRUSTED {
            self.mins = moved(&self.mins, self.top, by);
        }
        self.top += by;
    }

    /// Pushes the children of a branch from the `from`th on.
    #[inline(always)]
    fn push_children<V, M: Mem>(&mut self, view: &View<'_, V, M>, b: Branch, from: usize) {
        let n = b.children() - from.min(b.children());
        self.reserve::<M>(ROOM);
        if M::TRUSTED && n <= 4 {
            // SAFETY: a branch with two children and more has at least 16 bytes before the end of its
            // cells, and there is room for more than four cells below the top. What comes before the wanted
            // cells lands below the new top, where nothing is.
            unsafe {
                let last_four = b.p.add(node::size_of(b.h) - 16).cast::<[u32; 4]>();
                let to = self.cells.as_mut_ptr().add(self.top - 4).cast::<[u32; 4]>();
                to.write_unaligned(last_four.read_unaligned());
            }
            self.top -= n;
            return;
        }
        let top = self.top - n;
        for i in 0..n {
            let cell = view.child(b, from + i).unwrap_or(0);
            self.set::<M>(top + i, cell, b.offset() + 1);
        }
        self.top = top;
    }

    /// The next leaf.
    #[inline(never)]
    pub(crate) fn next<V, M: Mem>(&mut self, view: &View<'_, V, M>) -> Option<u32> {
        loop {
            if self.top >= self.cells.len() {
                return None;
            }
            // SAFETY: in bounds, as checked just now.
            let cell = unsafe { *self.cells.get_unchecked(self.top) };
            let min = if M::TRUSTED {
                0
            } else {
                self.mins[self.top] as usize
            };
            self.top += 1;
            if cell & LEAF != 0 {
                return Some(cell);
            }
            let b = view.branch(cell, min)?;
            self.push_children(view, b, 0);
        }
    }
}
