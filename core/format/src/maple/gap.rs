//! Gaps between entries: their sizes in 16 bits, and what fits into one.
//!
//! The code of a size is a float that grows with the size, rounded up.
//! Sizes below 2048 are their own codes. The code of a larger size is an exponent and the ten bits
//! behind the leading one, rounded up. So codes never understate a size, and a larger size never
//! has a smaller code.

/// Bits of precision, the leading one included.
const BITS: u32 = 11;

/// The code of a size. A larger size has the same code or a larger one.
#[inline(always)]
pub const fn code(size: u64) -> u16 {
    let exponent = (u64::BITS - size.leading_zeros()).saturating_sub(BITS);
    // At most 2^11, when rounding carries: the exponent's bits then grow by one, as they should.
    let mantissa = (size >> exponent) + (size & ((1 << exponent) - 1) != 0) as u64;
    (((exponent as u64) << (BITS - 1)) + mantissa) as u16
}

/// The conditions of a search for a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Number of indices, at least 1.
    pub size: u64,
    /// The first index leaves the rest `offset` when it is divided by this, which is at least 1.
    pub align: u64,
    /// Less than `align`.
    pub offset: u64,
    /// The first index that may be used.
    pub from: u64,
    /// The last index that may be used.
    pub to: u64,
    /// Indices that stay free between the place and the entries on both sides of it.
    pub guard: u64,
    /// Whether the search is for the highest place, not the lowest.
    pub highest: bool,
    /// Whether the search is for a place in the smallest gap that has one.
    pub tightest: bool,
    /// Which places come first.
    pub near: Option<Near>,
}

/// The places that come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Near {
    /// Those from this index on, in the direction of the search.
    From(u64),
    /// Those that begin nearest to this index; of two that are equally near, the higher one.
    Around(u64),
}

impl Fit {
    /// The search for the lowest `size` indices, at least 1, in a window.
    pub const fn lowest_in(size: u64, (from, to): (u64, u64)) -> Fit {
        Fit {
            size,
            align: 1,
            offset: 0,
            from,
            to,
            guard: 0,
            highest: false,
            tightest: false,
            near: None,
        }
    }

    /// This search in another window, if that has room.
    fn within(self, from: u64, to: u64) -> Option<Fit> {
        let fits = from <= to && to - from >= self.size - 1;
        fits.then_some(Fit {
            from,
            to,
            near: None,
            ..self
        })
    }

    /// Searches as often as it takes to find the first index of the place. `place` searches where
    /// no places come first.
    ///
    /// # Errors
    /// Those of `place`.
    pub fn search<E>(
        &self,
        mut place: impl FnMut(&Fit) -> Result<Option<u64>, E>,
    ) -> Result<Option<u64>, E> {
        let Fit { size, from, to, .. } = *self;
        let mut try_in = |fit: Option<Fit>| match fit {
            Some(fit) => place(&fit),
            None => Ok(None),
        };
        match self.near {
            None => try_in(Some(*self)),
            Some(Near::From(near)) => {
                let first = match self.highest {
                    false => self.within(from.max(near), to),
                    true => self.within(from, to.min(near)),
                };
                match try_in(first)? {
                    Some(found) => Ok(Some(found)),
                    None => try_in(self.within(from, to)),
                }
            }
            Some(Near::Around(near)) => {
                let side = |highest| Fit { highest, ..*self };
                let above = try_in(side(false).within(from.max(near), to))?;
                let last = near.saturating_add(size - 1);
                let below = try_in(side(true).within(from, to.min(last)))?;
                Ok(match (above, below) {
                    (Some(above), Some(below)) if above.abs_diff(near) > near.abs_diff(below) => {
                        Some(below)
                    }
                    (above, below) => above.or(below),
                })
            }
        }
    }

    /// The lowest first index in a gap, or the highest one, as the search is.
    #[inline(always)]
    pub fn place(&self, start: u64, end: u64) -> Option<u64> {
        match self.highest {
            false => self.lowest(start, end),
            true => self.highest(start, end),
        }
    }

    /// The part of a gap that may be used. A guard is kept towards entries only.
    #[inline(always)]
    fn usable(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let (mut start, mut end) = (start, end);
        if self.guard > 0 {
            if start > 0 {
                start = start.checked_add(self.guard)?;
            }
            if end < u64::MAX {
                end = end.checked_sub(self.guard)?;
            }
        }
        Some((start.max(self.from), end.min(self.to)))
    }

    /// By how much an index lies above one that a place may begin with.
    #[inline(always)]
    fn excess(&self, index: u64) -> u64 {
        let align = self.align;
        if align.is_power_of_two() {
            return index.wrapping_sub(self.offset) & (align - 1);
        }
        let rest = index % align;
        match rest >= self.offset {
            true => rest - self.offset,
            false => rest + (align - self.offset),
        }
    }

    /// The lowest first index in a gap.
    #[inline(always)]
    pub fn lowest(&self, start: u64, end: u64) -> Option<u64> {
        let (start, end) = self.usable(start, end)?;
        let start = match self.excess(start) {
            0 => start,
            excess => start.checked_add(self.align - excess)?,
        };
        (start <= end && end - start >= self.size - 1).then_some(start)
    }

    /// The highest first index in a gap.
    #[inline(always)]
    pub fn highest(&self, start: u64, end: u64) -> Option<u64> {
        let (start, end) = self.usable(start, end)?;
        let last = end.checked_sub(self.size - 1)?;
        let last = last.checked_sub(self.excess(last))?;
        (start <= end && last >= start).then_some(last)
    }
}

/// A search that looks at gaps one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Search<'f> {
    fit: &'f Fit,
    /// The smallest gap so far that has a place: its number of indices less one, and the place.
    tightest: Option<(u64, u64)>,
}

impl<'f> Search<'f> {
    /// A search that has looked at no gap.
    pub const fn new(fit: &'f Fit) -> Self {
        Search {
            fit,
            tightest: None,
        }
    }

    /// What is searched for.
    pub const fn fit(&self) -> &'f Fit {
        self.fit
    }

    /// Looks at a gap. Returns the place if no later gap can have a better one. Gaps come in the
    /// order of the search.
    #[inline(always)]
    pub fn look(&mut self, start: u64, end: u64) -> Option<u64> {
        let place = match self.fit.highest {
            false => self.fit.lowest(start, end)?,
            true => self.fit.highest(start, end)?,
        };
        if !self.fit.tightest {
            return Some(place);
        }
        let length = end - start;
        if length == self.fit.size - 1 {
            return Some(place);
        }
        if self.tightest.is_none_or(|(least, _)| length < least) {
            self.tightest = Some((length, place));
        }
        None
    }

    /// The place, when `found` is what the last look returned.
    pub fn end(self, found: Option<u64>) -> Option<u64> {
        found.or(self.tightest.map(|(_, place)| place))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    #[test]
    fn small_sizes_are_exact_and_the_largest_fits() {
        for size in 0..2048 {
            assert_eq!(u64::from(code(size)), size);
        }
        assert_eq!(code(2049), code(2050));
        assert_eq!(u32::from(code(u64::MAX)), (53 << 10) + 2048);
    }

    #[test]
    fn codes_never_fall() {
        let near = (0..64).flat_map(|bit| {
            let power = 1_u64 << bit;
            [
                power.wrapping_sub(2),
                power - 1,
                power,
                power + 1,
                power | 3,
            ]
        });
        let mixed = (0..2000_u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (n % 64));
        let mut sizes: Vec<u64> = near.chain(mixed).collect();
        sizes.sort_unstable();
        for pair in sizes.windows(2) {
            assert!(code(pair[0]) <= code(pair[1]), "{pair:?}");
            // The error of rounding stays within one part in 1024.
            assert!(pair[1] / 1000 * 999 <= pair[0] || code(pair[0]) < code(pair[1]));
        }
    }
}
