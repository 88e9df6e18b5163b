//! References into an arena, and the kinds and areas of blocks.

use core::fmt;
use core::num::NonZeroU32;

/// Bytes of a unit. References count units, and every size is a whole number of them.
pub const UNIT: usize = 8;

/// The most units an arena may have: 2^30, which is 8 GiB. A structure's 32-bit cell keeps two tag
/// bits beside a reference.
pub const MAX_UNITS: u32 = 1 << 30;

/// The same in bytes, or less in a smaller address space.
pub(crate) const MAX_BYTES: usize = {
    let all = MAX_UNITS as u64 * UNIT as u64;
    let most = (isize::MAX as u64) / 65536 * 65536;
    if all < most {
        all as usize
    } else {
        most as usize
    }
};

/// A reference to a block: its distance from the arena's base, in units of [`UNIT`] bytes.
///
/// It is not zero, because the first units are the header's. So `Option<Ref>` has four bytes.
///
/// ```
/// use sapwood_arena::Ref;
/// let r = Ref::new(3).unwrap();
/// assert_eq!(r.byte_offset(), 24);
/// assert_eq!(Ref::new(0), None);
/// assert_eq!(Ref::new(1 << 30), None);
/// assert_eq!(size_of::<Option<Ref>>(), 4);
/// ```
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ref(NonZeroU32);

impl Ref {
    /// A reference to the block at `units`; `None` for 0 and for [`MAX_UNITS`] or more.
    #[inline]
    pub const fn new(units: u32) -> Option<Ref> {
        if units >= MAX_UNITS {
            return None;
        }
        match NonZeroU32::new(units) {
            Some(n) => Some(Ref(n)),
            None => None,
        }
    }

    /// The distance from the base in units.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// The distance from the base in bytes.
    #[inline]
    pub const fn byte_offset(self) -> usize {
        self.0.get() as usize * UNIT
    }
}

impl fmt::Debug for Ref {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ref({})", self.0)
    }
}

/// A structure's number for a kind of block, below [`Kind::COUNT`]. The accounts count each kind by
/// itself.
///
/// ```
/// # use sapwood_arena::{Arena, ArenaOptions, Area, Kind};
/// const BRANCH: Kind = Kind(0);
/// let mut arena = Arena::new(ArenaOptions::default());
/// arena.alloc(40, BRANCH, Area::Nodes).unwrap();
/// assert_eq!(arena.memory().kinds[0].bytes, 40);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind(pub u8);

impl Kind {
    /// Kinds are below this number.
    pub const COUNT: usize = 16;

    /// The index of the kind's account. Kinds of 16 and more are counted as one of the first
    /// sixteen, which is wrong but within bounds.
    #[inline]
    pub(crate) const fn index(self) -> usize {
        self.0 as usize % Kind::COUNT
    }
}

/// The area that a block lies in. The two areas have separate runs of memory, so that the blocks
/// that every walk passes lie close together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Area {
    /// Inner nodes: many small blocks, which walks pass.
    Nodes = 0,
    /// Leaves: keys and values, which a walk reads once, at its end.
    Leaves = 1,
}

impl Area {
    /// Both areas.
    pub const ALL: [Area; 2] = [Area::Nodes, Area::Leaves];
}
