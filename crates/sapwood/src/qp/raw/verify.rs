//! Every invariant of a trie, walked.

use alloc::format;
use alloc::string::String;

use smallvec::SmallVec;

use super::cursor::Cursor;
use super::leaf::{LeafOf, mismatch};
use super::mem::Mem;
use super::node::{self, BIG, LEAF};
use super::order::Along;
use super::tree::Tree;
use super::view::View;

/// Counts of a walk, to be compared with the arena's accounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Walked {
    pub(crate) leaves: usize,
    pub(crate) leaf_bytes: usize,
    pub(crate) key_bytes: usize,
    pub(crate) small: usize,
    pub(crate) small_bytes: usize,
    pub(crate) big: usize,
    pub(crate) big_bytes: usize,
    /// Sum over leaves of the branches above them.
    pub(crate) depth_sum: usize,
    pub(crate) depth_max: usize,
}

/// Walks a trie in order and checks every branch and leaf. At most `limit` leaves are visited, so that
/// a hostile file that shares subtrees cannot keep the walk going for ever.
pub(crate) fn walk<V, M: Mem>(view: &View<'_, V, M>, limit: usize) -> Result<Walked, String> {
    let mut seen = Walked::default();
    if view.root == 0 {
        return Ok(seen);
    }
    let mut cursor = Cursor::new();
    cursor.first(view);
    // Branches of the stack that were counted and checked already.
    let mut counted = 0;
    let mut before: SmallVec<[u32; 16]> = SmallVec::new();
    let mut last: Option<&[u8]> = None;
    let mut along = Along::new(view.order);
    while cursor.leaf != 0 {
        seen.leaves += 1;
        if seen.leaves > limit {
            return Err(format!(
                "more than the {limit} entries that there should be"
            ));
        }
        let key = view
            .key(cursor.leaf)
            .ok_or_else(|| format!("leaf cell {:#x} is outside the memory", cursor.leaf))?;
        if !view.order.is_empty() && along.next(view) != Some(cursor.leaf) {
            return Err(format!("leaf {key:?} is not where its order says"));
        }
        seen.leaf_bytes += (LeafOf::<V>::size(key.len()) + 7) & !7;
        seen.key_bytes += key.len();
        seen.depth_sum += cursor.stack.len();
        seen.depth_max = seen.depth_max.max(cursor.stack.len());
        let mut fork = None;
        let mut min = 0;
        for (depth, frame) in cursor.stack.iter().enumerate() {
            let b = view
                .branch(frame.cell, min)
                .ok_or_else(|| format!("branch cell {:#x} is not well formed", frame.cell))?;
            if depth >= counted {
                check_branch(b, frame.cell)?;
                let bytes = node::block_of(b.h);
                if b.h & BIG == 0 {
                    seen.small += 1;
                    seen.small_bytes += bytes;
                } else {
                    seen.big += 1;
                    seen.big_bytes += bytes;
                }
            }
            if b.offset() < min {
                return Err(format!("offset {} under offset {min}", b.offset()));
            }
            min = b.offset() + 1;
            // SAFETY: the view returned a whole branch, and the index was followed.
            let label = unsafe { b.label(usize::from(frame.index)) };
            if key.len() < b.offset() || key.get(b.offset()).copied() != label {
                return Err(format!(
                    "a key of {} bytes under label {label:?} at offset {}",
                    key.len(),
                    b.offset()
                ));
            }
            if depth + 1 == counted {
                fork = Some(b.offset());
            }
        }
        if let Some(last) = last {
            if last >= key {
                return Err(format!("keys out of order: {last:?} then {key:?}"));
            }
            if mismatch(last, key) != fork {
                return Err(format!(
                    "{last:?} and {key:?} part elsewhere than at {fork:?}"
                ));
            }
        }
        last = Some(key);
        // What stays on the stack after the step was counted; what is pushed was not.
        before.clear();
        before.extend(cursor.stack.iter().map(|frame| frame.cell));
        cursor.next(view);
        counted = cursor
            .stack
            .iter()
            .zip(&before)
            .take_while(|(frame, cell)| frame.cell == **cell)
            .count();
    }
    if along.next(view).is_some() {
        return Err("more leaves in order than in the trie".into());
    }
    Ok(seen)
}

fn check_branch(b: node::Branch, cell: u32) -> Result<(), String> {
    let n = node::labels_of(b.h);
    if b.h != node::header(b.offset(), n, b.h & node::END != 0) || b.children() < 2 {
        return Err(format!(
            "branch {cell:#x} has {} children, header {:#x}",
            b.children(),
            b.h
        ));
    }
    let mut last = None;
    for i in 0..b.children() {
        // SAFETY: i is below the number of children of a whole branch.
        let (label, child) = unsafe { (b.label(i), b.cell(i)) };
        if (label.is_none()) != (i == 0 && node::end_of(b.h) == 1) || (i > 0 && label <= last) {
            return Err(format!("branch {cell:#x}: label {label:?} after {last:?}"));
        }
        if child == 0 || child == LEAF {
            return Err(format!("branch {cell:#x}: child {i} is empty"));
        }
        if let Some(byte) = label {
            // SAFETY: as above.
            let found = unsafe { b.find(byte) };
            if found != Some(i) {
                return Err(format!(
                    "branch {cell:#x}: label {byte} found at {found:?}, is {i}"
                ));
            }
        }
        last = label;
    }
    Ok(())
}

/// Checks a trie, and the arena's accounts against what the walk found. `retired` are blocks that are
/// unlinked but not freed yet: (bytes, kind) sums per kind.
pub(crate) fn tree<V>(tree: &Tree<V>, retired: &[(usize, usize)]) -> Result<(), String> {
    let seen = walk(&tree.owned_view(), usize::MAX)?;
    if seen.leaves != tree.len {
        return Err(format!("{} leaves, but len is {}", seen.leaves, tree.len));
    }
    tree.arena.verify()?;
    tree.verify_points()?;
    let memory = tree.arena.memory();
    let found = [
        (seen.small, seen.small_bytes),
        (seen.big, seen.big_bytes),
        (seen.leaves, seen.leaf_bytes),
    ];
    for (kind, &(count, bytes)) in found.iter().enumerate() {
        let (more, more_bytes) = retired.get(kind).copied().unwrap_or_default();
        let account = &memory.kinds[kind];
        if (account.count, account.bytes) != (count + more, bytes + more_bytes) {
            return Err(format!(
                "kind {kind}: the walk found {count} blocks of {bytes} bytes, the accounts say {} of {}",
                account.count, account.bytes
            ));
        }
    }
    Ok(())
}
