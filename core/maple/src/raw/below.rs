//! Walks over all nodes below one.

use sapwood_format::maple::word::Word;

use super::node::{Inner, Leaf, Mem};

/// All leaves below a node, in order, each with its reference.
///
/// # Safety
/// The node is live, of this level, and not changed meanwhile.
pub(super) unsafe fn leaves_below<W: Word>(
    mem: Mem,
    node: u32,
    level: usize,
    each: &mut impl FnMut(u32, Leaf<W>),
) {
    // SAFETY: the caller's promise.
    unsafe {
        if level == 0 {
            each(node, Leaf::<W>::at(mem.at(node)));
            return;
        }
        let inner = Inner::<W>::at(mem.at(node));
        for i in 0..inner.len() {
            leaves_below(mem, inner.child(i), level - 1, each);
        }
    }
}

/// All nodes from one downward, each with its level.
///
/// # Safety
/// The node is live, and of this level.
pub(super) unsafe fn subtree<W: Word>(
    mem: Mem,
    node: u32,
    level: usize,
    each: &mut impl FnMut(u32, usize),
) {
    each(node, level);
    if level > 0 {
        // SAFETY: the caller's promise, and what levels say of nodes.
        unsafe {
            let inner = Inner::<W>::at(mem.at(node));
            for i in 0..inner.len() {
                subtree::<W>(mem, inner.child(i), level - 1, each);
            }
        }
    }
}
