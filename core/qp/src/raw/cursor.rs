//! Cursors, which move in key order: the branches from the root to a leaf or cluster, and a place
//! in that.

use smallvec::SmallVec;

use super::inline::EntryRef;
use super::mem::{Mem, byte_of};
use super::node::{Cluster, INLINE, KIND, is_leaf};
use super::path::Adding;
use super::view::{Near, Subtree, View, prefetch};
use crate::raw::leaf::Value;
use sapwood_format::cluster::cells_at;

/// The number of leaves that are prefetched before a search reads its first leaf. A search that
/// reads a few entries needs no more, and more prefetches would delay the next search.
const AHEAD: u32 = 8;

/// Cache lines of an inline cluster that are prefetched when the walk enters the one before it.
const INLINE_LINES: usize = 6;

#[derive(Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) cell: u32,
    /// Index of the child that the path goes to.
    pub(crate) index: u16,
    /// Least offset of the branch: its parent's plus one.
    min: u16,
}

/// A place in a trie: on an entry, or nowhere.
///
/// Inside a cluster it stays in that cluster, even if writers have replaced it by another.
#[derive(Clone)]
pub struct Cursor {
    pub(crate) stack: SmallVec<[Frame; 16]>,
    /// The leaf or cluster below the last branch.
    end: u32,
    /// The place where the cells of a cluster of cells begin, in units of 4 bytes from the memory's
    /// beginning; otherwise 0.
    cells: u32,
    /// The number of the cursor's entry in the leaf or cluster, and the numbers between which the
    /// cursor moves.
    at: u32,
    from: u32,
    to: u32,
    /// The leaves before this number were prefetched.
    fetched: u32,
    /// The entry that the cursor stands on.
    pub(crate) entry: EntryRef,
}

impl Cursor {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Cursor {
            stack: SmallVec::new(),
            end: 0,
            cells: 0,
            at: 0,
            from: 0,
            to: 0,
            fetched: 0,
            entry: EntryRef::NONE,
        }
    }

    /// The leaf or cluster below the last branch.
    #[cfg(feature = "std")]
    pub(crate) fn end(&self) -> u32 {
        self.end
    }

    /// A cursor on the first leaf of a subtree, which it does not leave.
    #[inline(always)]
    pub(crate) fn first_of<V: ?Sized + Value, M: Mem>(
        view: &View<'_, V, M>,
        subtree: Subtree,
    ) -> Self {
        let mut cursor = Cursor::new();
        match subtree.cell & KIND {
            0 => cursor.down_first(view, subtree.cell, subtree.min),
            _ => cursor.enter_part(view, subtree, subtree.from),
        }
        cursor
    }

    /// A cursor on the last leaf of a subtree, which it does not leave.
    #[inline(always)]
    pub(crate) fn last_of<V: ?Sized + Value, M: Mem>(
        view: &View<'_, V, M>,
        subtree: Subtree,
    ) -> Self {
        let mut cursor = Cursor::new();
        match subtree.cell & KIND {
            0 => cursor.down_last(view, subtree.cell, subtree.min),
            _ => cursor.enter_part(view, subtree, subtree.to - 1),
        }
        cursor
    }

    fn enter_part<V: ?Sized + Value, M: Mem>(
        &mut self,
        view: &View<'_, V, M>,
        part: Subtree,
        index: usize,
    ) {
        if self.enter(view, part.cell) {
            // A file may have changed since the subtree was found.
            self.to = self.to.min(part.to as u32);
            self.from = (part.from as u32).min(self.to - 1);
            self.fetched = self.from;
            self.go(view, (index as u32).min(self.to - 1));
            self.fetch(view, AHEAD);
        }
    }

    fn lose(&mut self) {
        self.stack.clear();
        self.entry = EntryRef::NONE;
        (self.at, self.from, self.to) = (0, 0, 0);
    }

    /// Enters a leaf or cluster, without a place in it; returns whether there is a whole one.
    #[inline(always)]
    fn enter<V: ?Sized + Value, M: Mem>(&mut self, view: &View<'_, V, M>, end: u32) -> bool {
        if is_leaf(end) {
            self.enter_leaf(end);
            return true;
        }
        match view.cluster(end) {
            Some(c) => self.enter_cluster(end, c),
            None => self.lose(),
        }
        self.to != 0
    }

    #[inline(always)]
    fn enter_leaf(&mut self, end: u32) {
        self.end = end;
        (self.cells, self.to) = (0, 1);
        (self.from, self.fetched) = (0, 0);
    }

    #[inline(always)]
    fn enter_cluster(&mut self, end: u32, c: Cluster) {
        self.enter_leaf(end);
        if !c.is_inline() {
            self.cells = ((byte_of(end) + cells_at(c.h)) / 4) as u32;
        }
        self.to = c.leaves() as u32;
    }

    /// The entry with a number.
    #[inline(always)]
    fn nth<V: ?Sized + Value, M: Mem>(&self, view: &View<'_, V, M>, i: u32) -> EntryRef {
        match self.cells {
            0 => EntryRef::held(self.end, i as usize),
            // SAFETY: the cluster was whole when the cursor entered it, and had such a leaf;
            // clusters do not get smaller under readers.
            cells => EntryRef::leaf(unsafe { view.mem.cell_at(cells + i) }),
        }
    }

    #[inline(always)]
    fn go<V: ?Sized + Value, M: Mem>(&mut self, view: &View<'_, V, M>, i: u32) {
        self.at = i;
        self.entry = self.nth(view, i);
    }

    /// Moves from a dead slot to the next one that is not, before `limit`; returns whether there is
    /// one. The last slot of a cluster is never dead.
    #[inline(always)]
    fn skip_up<V: ?Sized + Value, M: Mem>(&mut self, view: &View<'_, V, M>, limit: u32) -> bool {
        while M::DEAD && !self.entry.is_some() {
            if self.at + 1 >= limit {
                return false;
            }
            self.go(view, self.at + 1);
        }
        true
    }

    /// Moves from a dead slot to the last one before it that is not, or out of the cluster.
    #[inline(always)]
    fn skip_down<V: ?Sized + Value, M: Mem>(&mut self, view: &View<'_, V, M>) {
        while M::DEAD && !self.entry.is_some() {
            if self.at <= self.from {
                return self.leave_down(view);
            }
            self.go(view, self.at - 1);
        }
    }

    /// Prefetches up to `most` leaves, from the cursor's place on.
    #[inline(always)]
    fn fetch<V: ?Sized + Value, M: Mem>(&mut self, view: &View<'_, V, M>, most: u32) {
        if self.cells == 0 {
            return;
        }
        let from = self.fetched.max(self.at);
        let to = self.to.min(self.at + most);
        self.fetch_between(view, from, to);
        self.fetched = to;
    }

    #[inline(always)]
    fn fetch_between<V: ?Sized + Value, M: Mem>(&self, view: &View<'_, V, M>, from: u32, to: u32) {
        if self.cells != 0 {
            for i in from..to {
                fetch_leaf(view, self.nth(view, i).cell());
            }
        }
    }

    /// Goes to the first leaf below a cell, pushing branches.
    #[inline]
    pub(crate) fn down_first<V: ?Sized + Value, M: Mem>(
        &mut self,
        view: &View<'_, V, M>,
        cell: u32,
        min: usize,
    ) {
        if self.down(view, cell, min, |_| 0) {
            self.fetch_all(view);
            self.go(view, 0);
            self.skip_up(view, self.to);
        }
    }

    /// Goes to the last leaf below a cell, pushing branches.
    #[inline]
    pub(crate) fn down_last<V: ?Sized + Value, M: Mem>(
        &mut self,
        view: &View<'_, V, M>,
        cell: u32,
        min: usize,
    ) {
        if self.down(view, cell, min, |children| children - 1) {
            self.fetch_all(view);
            self.go(view, self.to - 1);
        }
    }

    /// Prefetches all leaves of a cluster that a walk enters.
    #[inline(always)]
    fn fetch_all<V: ?Sized + Value, M: Mem>(&mut self, view: &View<'_, V, M>) {
        self.fetch_between(view, self.from, self.to);
        self.fetched = self.to;
        self.fetch_next(view);
    }

    /// Prefetches the next cluster.
    #[inline(always)]
    fn fetch_next<V: ?Sized + Value, M: Mem>(&self, view: &View<'_, V, M>) {
        let Some(top) = self.stack.last() else { return };
        let Some(b) = view.branch(top.cell, usize::from(top.min)) else {
            return;
        };
        let next = usize::from(top.index) + 1;
        if next < b.children() {
            if let Some(cell) = view.child(b, next) {
                let p = view.mem.hint(cell);
                prefetch(p);
                prefetch(p.wrapping_add(64));
                if cell & KIND == INLINE {
                    view.fetch_behind(cell, INLINE_LINES);
                }
            }
        }
    }

    /// Prefetches the next cluster if few leaves come before it.
    #[inline(always)]
    fn fetch_further<V: ?Sized + Value, M: Mem>(&self, view: &View<'_, V, M>) {
        if self.to < self.at + AHEAD {
            self.fetch_next(view);
        }
    }

    #[inline(always)]
    fn down<V: ?Sized + Value, M: Mem>(
        &mut self,
        view: &View<'_, V, M>,
        mut cell: u32,
        mut min: usize,
        pick: impl Fn(usize) -> usize,
    ) -> bool {
        while cell & KIND == 0 {
            let Some(b) = view.branch(cell, min) else {
                self.lose();
                return false;
            };
            let index = pick(b.children());
            self.stack.push(frame(cell, index, min));
            let Some(next) = view.child(b, index) else {
                self.lose();
                return false;
            };
            min = b.offset() + 1;
            cell = next;
        }
        self.enter(view, cell)
    }

    pub(crate) fn first<V: ?Sized + Value, M: Mem>(&mut self, view: &View<'_, V, M>) {
        self.lose();
        if view.root != 0 {
            self.down_first(view, view.root, 0);
        }
    }

    pub(crate) fn last<V: ?Sized + Value, M: Mem>(&mut self, view: &View<'_, V, M>) {
        self.lose();
        if view.root != 0 {
            self.down_last(view, view.root, 0);
        }
    }

    /// Moves to the next leaf of the cluster, if its place is before `limit`; returns whether it
    /// moved.
    #[inline(always)]
    pub(crate) fn next_before<V: ?Sized + Value, M: Mem>(
        &mut self,
        view: &View<'_, V, M>,
        limit: u32,
    ) -> bool {
        let next = self.at + 1;
        if next >= limit {
            return false;
        }
        if next + 4 == self.fetched {
            self.fetch(view, u32::from(u8::MAX));
        }
        self.go(view, next);
        self.skip_up(view, limit)
    }

    /// Moves to another entry of the inline cluster.
    #[inline(always)]
    pub(crate) fn skip_to(&mut self, i: usize) {
        self.at = i as u32;
        self.entry = EntryRef::held(self.end, i);
    }

    /// The place behind the last leaf of the cluster.
    pub(crate) fn limit(&self) -> u32 {
        self.to
    }

    /// The place of another cursor if it is in the same cluster, otherwise the place behind the
    /// last leaf.
    pub(crate) fn limit_before(&self, other: &Cursor) -> u32 {
        match self.end == other.end {
            true => self.to.min(other.at),
            false => self.to,
        }
    }

    /// Moves to the next leaf in order.
    #[inline(always)]
    pub(crate) fn next<V: ?Sized + Value, M: Mem>(&mut self, view: &View<'_, V, M>) {
        if !self.next_before(view, self.to) {
            self.leave_up(view);
        }
    }

    /// Moves to the previous leaf in order.
    #[inline(always)]
    pub(crate) fn prev<V: ?Sized + Value, M: Mem>(&mut self, view: &View<'_, V, M>) {
        if self.at > self.from {
            self.at -= 1;
            if self.cells != 0 && self.at >= self.from + 4 {
                fetch_leaf(view, self.nth(view, self.at - 4).cell());
            }
            self.entry = self.nth(view, self.at);
            self.skip_down(view);
        } else {
            self.leave_down(view);
        }
    }

    /// Moves to the first leaf behind the cluster.
    #[inline(never)]
    pub(crate) fn leave_up<V: ?Sized + Value, M: Mem>(&mut self, view: &View<'_, V, M>) {
        while let Some(top) = self.stack.last_mut() {
            let Some(b) = view.branch(top.cell, usize::from(top.min)) else {
                return self.lose();
            };
            let i = usize::from(top.index) + 1;
            if i < b.children() {
                top.index = i as u16;
                return match view.child(b, i) {
                    Some(cell) => self.down_first(view, cell, b.offset() + 1),
                    None => self.lose(),
                };
            }
            self.stack.pop();
        }
        self.lose();
    }

    /// Moves to the last leaf before the cluster.
    #[inline(never)]
    fn leave_down<V: ?Sized + Value, M: Mem>(&mut self, view: &View<'_, V, M>) {
        while let Some(top) = self.stack.last_mut() {
            let Some(b) = view.branch(top.cell, usize::from(top.min)) else {
                return self.lose();
            };
            if top.index > 0 {
                top.index -= 1;
                return match view.child(b, usize::from(top.index)) {
                    Some(cell) => self.down_last(view, cell, b.offset() + 1),
                    None => self.lose(),
                };
            }
            self.stack.pop();
        }
        self.lose();
    }

    /// Descends to the place where a key is or would be. `None` if the trie is empty or the file is
    /// damaged.
    #[inline(always)]
    fn seek<V: ?Sized + Value, M: Mem>(
        &mut self,
        view: &View<'_, V, M>,
        key: &[u8],
        ahead: u32,
    ) -> Option<Sought> {
        self.stack.clear();
        self.at = 0;
        let mut cell = view.root;
        if cell == 0 {
            return None;
        }
        let mut min = 0;
        let mut adding = Adding::to(&mut self.stack);
        while cell & KIND == 0 {
            let b = view.branch(cell, min)?;
            let (index, child) = view.choose(b, key)?;
            adding.push(frame(cell, index, min));
            cell = child;
            min = b.offset() + 1;
        }
        adding.finish();
        let mut cluster = None;
        let near = if is_leaf(cell) {
            self.enter_leaf(cell);
            self.go(view, 0);
            view.compare(0, self.entry, key)?
        } else {
            view.fetch_behind(cell, 2);
            let c = view.cluster(cell)?;
            cluster = Some(c);
            self.enter_cluster(cell, c);
            // SAFETY: `view.cluster` returned a whole cluster.
            self.at = unsafe { c.blind(key) } as u32;
            self.fetch(view, ahead);
            self.go(view, self.at);
            if M::DEAD && !self.entry.is_some() {
                // SAFETY: as above; the last slot is not dead.
                let (index, cell, _) = unsafe { c.beside_dead(self.at as usize) };
                (self.at, self.entry) = (index as u32, EntryRef::leaf(cell));
            }
            view.beside(c, self.at as usize, self.entry, key)?
        };
        let Near { part, before, .. } = near;
        let Some(part) = part else {
            return Some(Sought::Here);
        };
        if min == 0 || part + 1 >= min {
            let near = near.index;
            // SAFETY: as above.
            let place = cluster.map_or(usize::from(!before), |c| unsafe {
                c.place(near, part, before)
            });
            return Some(Sought::Before(place as u32));
        }
        // All keys below the highest branch whose offset is greater come after it, or before it.
        let mut below = (cell, min);
        while let Some(top) = self.stack.last() {
            let b = view.branch(top.cell, usize::from(top.min))?;
            if b.offset() <= part {
                break;
            }
            below = (top.cell, usize::from(top.min));
            self.stack.pop();
        }
        Some(Sought::Beside {
            cell: below.0,
            min: below.1,
            before,
        })
    }

    /// Moves to the least leaf whose key is `>= key`, or `> key` if `strict`.
    #[inline]
    pub fn seek_ge<V: ?Sized + Value, M: Mem>(
        &mut self,
        view: &View<'_, V, M>,
        key: &[u8],
        strict: bool,
    ) {
        match self.seek(view, key, AHEAD) {
            None => self.lose(),
            Some(Sought::Here) if !strict => self.fetch_further(view),
            Some(Sought::Here) => self.next(view),
            Some(Sought::Before(place)) if place < self.to => {
                self.go(view, place);
                self.skip_up(view, self.to);
                self.fetch(view, AHEAD);
                self.fetch_further(view);
            }
            Some(Sought::Beside {
                cell,
                min,
                before: true,
            }) => self.down_first(view, cell, min),
            Some(_) => self.leave_up(view),
        }
    }

    /// Moves to the greatest leaf whose key is `<= key`, or `< key` if `strict`.
    #[inline]
    pub(crate) fn seek_le<V: ?Sized + Value, M: Mem>(
        &mut self,
        view: &View<'_, V, M>,
        key: &[u8],
        strict: bool,
    ) {
        match self.seek(view, key, 0) {
            None => self.lose(),
            Some(Sought::Here) if !strict => {}
            Some(Sought::Here) => self.prev(view),
            Some(Sought::Before(place)) if place > self.from => {
                self.go(view, place - 1);
                self.skip_down(view);
            }
            Some(Sought::Beside {
                cell,
                min,
                before: false,
            }) => self.down_last(view, cell, min),
            Some(_) => self.leave_down(view),
        }
    }
}

#[inline(always)]
fn frame(cell: u32, index: usize, min: usize) -> Frame {
    // An offset is at most 65,535, and no branch lies below such a one, so `min` fits.
    Frame {
        cell,
        index: index as u16,
        min: min as u16,
    }
}

/// The result of a search for a key.
enum Sought {
    /// The cursor is on the key's leaf.
    Here,
    /// The key is absent. It would be in this leaf or cluster, before the entry with this number.
    Before(u32),
    /// The key sorts before all leaves below this cell, or behind all of them. The stack ends above
    /// the cell.
    Beside { cell: u32, min: usize, before: bool },
}

/// Prefetches the first two cache lines of a leaf: the value and the beginning of the key.
#[inline(always)]
fn fetch_leaf<V: ?Sized + Value, M: Mem>(view: &View<'_, V, M>, leaf: u32) {
    let p = view.mem.hint(leaf);
    prefetch(p);
    prefetch(p.wrapping_add(32));
}
