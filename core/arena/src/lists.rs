//! Free lists of fragments by size, in which a good fit is found in a few steps, whatever their
//! number.
//!
//! The classes are those of TLSF (Masmano, Ripoll, Crespo, Real, "TLSF: a new dynamic memory
//! allocator for real-time systems", 2004): exact for small sizes, four to a power of two above.
//!
//! A fragment keeps its links in its own memory. In 32-bit words, native byte order:
//!
//! ```text
//! unit 0     | previous | next |       units of the list's neighbours, 0 for none
//! unit 1     | size     | -    |  \    only in fragments of `TAGGED` units and more, so that a
//! last unit  | -        | size |  /    neighbour finds their other end without a long scan
//! ```

use crate::reference::UNIT;
use alloc::collections::TryReserveError;
use alloc::vec::Vec;

/// Sizes below this have a class each.
pub(crate) const EXACT: u32 = 160;
/// Fragments from this size on carry their size at both ends.
pub(crate) const TAGGED: u32 = 64;
const CLASSES: usize = 256;

/// The class of a fragment of `n` units.
#[inline]
pub(crate) fn class_of(n: u32) -> usize {
    if n < EXACT {
        n as usize
    } else {
        let log = 31 - n.leading_zeros();
        let quarter = n >> (log - 2) & 3;
        // 160 is in the second quarter of 128..256, and begins class 160.
        (EXACT + (log - 7) * 4 + quarter - 1) as usize
    }
}

/// The smallest fragment of a class.
pub(crate) fn class_floor(class: usize) -> u32 {
    let class = class as u32;
    if class < EXACT {
        return class;
    }
    let k = class - EXACT + 1;
    (4 + k % 4) << (7 + k / 4 - 2)
}

/// The arena's memory, as 32-bit words in units.
#[derive(Clone, Copy)]
pub(crate) struct Mem(pub(crate) *mut u8);

impl Mem {
    /// # Safety
    /// The unit lies in the arena and belongs to a free fragment.
    #[inline]
    pub(crate) unsafe fn read(self, unit: u32, half: usize) -> u32 {
        // SAFETY: by the caller's promise; units are aligned to 8 bytes.
        unsafe {
            self.0
                .add(unit as usize * UNIT)
                .cast::<u32>()
                .add(half)
                .read()
        }
    }

    /// # Safety
    /// As for `read`.
    #[inline]
    pub(crate) unsafe fn write(self, unit: u32, half: usize, value: u32) {
        // SAFETY: by the caller's promise; units are aligned to 8 bytes.
        unsafe {
            self.0
                .add(unit as usize * UNIT)
                .cast::<u32>()
                .add(half)
                .write(value)
        }
    }
}

/// The free fragments of one area.
#[derive(Debug)]
pub(crate) struct Lists {
    heads: Vec<u32>,
    nonempty: [u64; CLASSES / 64],
    /// Units in all lists.
    pub(crate) units: u32,
}

impl Lists {
    pub(crate) const fn new() -> Lists {
        Lists {
            heads: Vec::new(),
            nonempty: [0; CLASSES / 64],
            units: 0,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.heads.capacity() * 4
    }

    /// Makes room for fragments of up to `units` units.
    #[inline]
    pub(crate) fn ensure(&mut self, units: u32) -> Result<(), TryReserveError> {
        let need = class_of(units) + 1;
        if need > self.heads.len() {
            self.heads.try_reserve_exact(need - self.heads.len())?;
            self.heads.resize(need, 0);
        }
        Ok(())
    }

    /// Empties all lists.
    pub(crate) fn reset(&mut self) {
        self.heads.fill(0);
        self.nonempty = [0; CLASSES / 64];
        self.units = 0;
    }

    #[inline]
    pub(crate) fn head(&self, class: usize) -> u32 {
        self.heads.get(class).copied().unwrap_or(0)
    }

    /// The smallest class of at least `class` that has a fragment.
    #[inline]
    pub(crate) fn first_from(&self, class: usize) -> Option<usize> {
        let mut w = class / 64;
        let mut bits = *self.nonempty.get(w)? & u64::MAX << (class % 64);
        loop {
            if bits != 0 {
                return Some(w * 64 + bits.trailing_zeros() as usize);
            }
            w += 1;
            bits = *self.nonempty.get(w)?;
        }
    }

    /// The largest class that has a fragment.
    pub(crate) fn last(&self) -> Option<usize> {
        let w = self.nonempty.iter().rposition(|&w| w != 0)?;
        Some(w * 64 + 63 - self.nonempty[w].leading_zeros() as usize)
    }

    /// The size of the listed fragment at `start`.
    ///
    /// # Safety
    /// There is a fragment of class `class` at `start`.
    #[inline]
    pub(crate) unsafe fn size(&self, mem: Mem, start: u32, class: usize) -> u32 {
        if class < EXACT as usize {
            class as u32
        } else {
            // SAFETY: such fragments carry their size in unit 1.
            unsafe { mem.read(start + 1, 0) }
        }
    }

    /// Links the fragment of `n` units at `start` into its list.
    ///
    /// # Safety
    /// These units are free, in no list, and `ensure` was called with at least `n`.
    #[inline]
    pub(crate) unsafe fn link(&mut self, mem: Mem, start: u32, n: u32) {
        let class = class_of(n);
        let next = self.heads[class];
        // SAFETY: all are units of free fragments.
        unsafe {
            mem.write(start, 0, 0);
            mem.write(start, 1, next);
            if next != 0 {
                mem.write(next, 0, start);
            } else {
                self.nonempty[class / 64] |= 1 << (class % 64);
            }
            if n >= TAGGED {
                mem.write(start + 1, 0, n);
                mem.write(start + n - 1, 1, n);
            }
        }
        self.heads[class] = start;
        self.units += n;
    }

    /// Unlinks the fragment of `n` units at `start` from its list.
    ///
    /// # Safety
    /// It is in this area's list.
    #[inline]
    pub(crate) unsafe fn unlink(&mut self, mem: Mem, start: u32, n: u32) {
        let class = class_of(n);
        // SAFETY: the fragment and its list neighbours are free fragments.
        unsafe {
            let (prev, next) = (mem.read(start, 0), mem.read(start, 1));
            if next != 0 {
                mem.write(next, 0, prev);
            }
            if prev != 0 {
                mem.write(prev, 1, next);
            } else {
                self.heads[class] = next;
                if next == 0 {
                    self.nonempty[class / 64] &= !(1 << (class % 64));
                }
            }
        }
        self.units -= n;
    }

    /// All classes and their first fragments, for `verify`.
    pub(crate) fn classes(&self) -> impl Iterator<Item = (usize, u32, bool)> + '_ {
        (0..CLASSES).map(|c| (c, self.head(c), self.nonempty[c / 64] >> (c % 64) & 1 == 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_monotone_and_their_floors_right() {
        let large = (0..31).map(|i| 1 << i).chain([(1 << 31) - 1]);
        for n in (1..70_000).chain(large) {
            let c = class_of(n);
            assert!(c < CLASSES && class_floor(c) <= n);
            assert_eq!(class_of(class_floor(c)), c);
            assert!(matches!(class_of(n + 1) - c, 0 | 1), "{n}");
        }
    }
}
