//! The common parts of nodes: kinds, sizes, and addresses from references. `docs/maple.md` has the
//! layout.

use sapwood_arena::Kind;

pub(crate) use sapwood_format::maple::LEVELS;

pub(crate) use super::inner::{Inner, inner_size};
pub(crate) use super::leaf::{Encoding, LEAF_LEAST, Leaf, leaf_holds};

/// Leaves.
pub(crate) const LEAF: Kind = Kind(0);
/// Inner nodes.
pub(crate) const INNER: Kind = Kind(1);
/// Values that do not lie in leaves.
pub(crate) const VALUE: Kind = Kind(2);
/// Blocks of reservations.
pub(crate) const RESERVED: Kind = Kind(3);
/// Free blocks that the writer keeps.
pub(crate) const POOLED: Kind = Kind(4);

/// The arena's memory, which makes addresses of references.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mem(pub(crate) *mut u8);

impl Mem {
    #[inline(always)]
    pub(crate) fn at(self, r: u32) -> *mut u8 {
        self.0.wrapping_add(r as usize * 8)
    }
}
