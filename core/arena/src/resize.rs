//! Shrinking of blocks.

use crate::arena::Arena;
use crate::reference::{Kind, Ref, UNIT};

impl Arena {
    /// Bytes from the base to the highest granule in use. Constant time, a single load.
    #[inline]
    pub fn frontier(&self) -> usize {
        self.frontier as usize * UNIT
    }

    /// Shrinks a live block in place, and can change its kind. The tail becomes free. It cannot
    /// fail.
    ///
    /// ```
    /// # use sapwood_arena::{Arena, ArenaOptions, Area, Kind};
    /// # let mut arena = Arena::new(ArenaOptions::default());
    /// let r = arena.alloc(64, Kind(1), Area::Nodes)?;
    /// // SAFETY: nobody uses the tail.
    /// unsafe { arena.shrink(r, (64, Kind(1)), (40, Kind(0))) };
    /// let memory = arena.memory();
    /// assert_eq!((memory.kinds[0].bytes, memory.kinds[1].bytes), (40, 0));
    /// # Ok::<(), sapwood_arena::ArenaFull>(())
    /// ```
    ///
    /// # Safety
    ///
    /// `r` is a live block of `old.0` bytes and kind `old.1`; `new.0` is at least 1 and at most
    /// `old.0`; nobody reads or writes the bytes behind the first `new.0`, rounded up to whole
    /// units.
    #[inline]
    pub unsafe fn shrink(&mut self, r: Ref, old: (usize, Kind), new: (usize, Kind)) {
        let units = |bytes: usize| (bytes.div_ceil(UNIT) as u32).max(1);
        let (from, to) = (units(old.0), units(new.0));
        debug_assert!(to <= from, "a block can only shrink");
        if from == to && old.1 == new.1 {
            return;
        }
        self.uncount(from, old.1);
        self.counted(r.get(), to, new.1);
        if from == to {
            return;
        }
        if self.guard.is_some() {
            self.guard_shrink(r.get(), from, to);
            return;
        }
        if self.special {
            self.free_special(r.get() + to, from - to);
        } else {
            self.put(r.get() + to, from - to);
        }
    }
}
