//! Gaps between entries: their sizes in 16 bits, and what fits into one.
//!
//! The code of a size is a float that grows with the size, rounded up.
//! Sizes below 2048 are their own codes. The code of a larger size is an exponent and the ten bits
//! behind the leading one, rounded up. So codes never understate a size, and a larger size never
//! has a smaller code. Where sizes have 128 bits, the precision is one bit less.

use super::word::Word;

/// The code of a size. A larger size has the same code or a larger one.
#[inline(always)]
pub fn code<W: Word>(size: W) -> u16 {
    let exponent = (W::BITS - size.leading_zeros()).saturating_sub(W::PRECISION);
    // At most 2^11, when rounding carries: the exponent's bits then grow by one, as they should.
    let mantissa = (size >> exponent).low() + u64::from(size & W::ones(exponent) != W::ZERO);
    ((u64::from(exponent) << (W::PRECISION - 1)) + mantissa) as u16
}

/// The conditions of a search for a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit<W = u64> {
    /// Number of indices, at least 1.
    pub size: W,
    /// The first index leaves the rest `offset` when it is divided by this, which is at least 1.
    pub align: W,
    /// Less than `align`.
    pub offset: W,
    /// The first index that may be used.
    pub from: W,
    /// The last index that may be used.
    pub to: W,
    /// Indices that stay free between the place and the entries on both sides of it.
    pub guard: W,
    /// Whether the search is for the highest place, not the lowest.
    pub highest: bool,
    /// Whether the search is for a place in the smallest gap that has one.
    pub tightest: bool,
    /// Which places come first.
    pub near: Option<Near<W>>,
    /// The lowest index and the highest one. A gap has no indices beyond them.
    pub all: (W, W),
}

/// The places that come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Near<W = u64> {
    /// Those from this index on, in the direction of the search.
    From(W),
    /// Those that begin nearest to this index; of two that are equally near, the higher one.
    Around(W),
}

impl<W: Word> Fit<W> {
    /// The search for the lowest `size` indices, at least 1, in a window.
    pub fn lowest_in(size: W, (from, to): (W, W)) -> Fit<W> {
        Fit {
            size,
            align: W::ONE,
            offset: W::ZERO,
            from,
            to,
            guard: W::ZERO,
            highest: false,
            tightest: false,
            near: None,
            all: (W::ZERO, W::MAX),
        }
    }

    /// This search in another window, if that has room.
    fn within(self, from: W, to: W) -> Option<Fit<W>> {
        let fits = from <= to && to - from >= self.size - W::ONE;
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
        mut place: impl FnMut(&Fit<W>) -> Result<Option<W>, E>,
    ) -> Result<Option<W>, E> {
        let Fit { size, from, to, .. } = *self;
        let mut try_in = |fit: Option<Fit<W>>| match fit {
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
                let last = near.saturating_add(size - W::ONE);
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
    pub fn place(&self, start: W, end: W) -> Option<W> {
        match self.highest {
            false => self.lowest(start, end),
            true => self.highest(start, end),
        }
    }

    /// The part of a gap that may be used. A guard is kept towards entries only.
    #[inline(always)]
    fn usable(&self, start: W, end: W) -> Option<(W, W)> {
        let (mut start, mut end) = (start, end);
        if self.guard > W::ZERO {
            if start > W::ZERO {
                start = start.checked_add(self.guard)?;
            }
            if end < W::MAX {
                end = end.checked_sub(self.guard)?;
            }
        }
        Some((start.max(self.from), end.min(self.to)))
    }

    /// By how much an index lies above one that a place may begin with.
    #[inline(always)]
    fn excess(&self, index: W) -> W {
        let align = self.align;
        if align.is_power_of_two() {
            return index.wrapping_sub(self.offset) & (align - W::ONE);
        }
        let rest = index % align;
        match rest >= self.offset {
            true => rest - self.offset,
            false => rest + (align - self.offset),
        }
    }

    /// The lowest first index in a gap.
    #[inline(always)]
    pub fn lowest(&self, start: W, end: W) -> Option<W> {
        let (start, end) = self.usable(start, end)?;
        let start = match self.excess(start) {
            excess if excess == W::ZERO => start,
            excess => start.checked_add(self.align - excess)?,
        };
        (start <= end && end - start >= self.size - W::ONE).then_some(start)
    }

    /// The highest first index in a gap.
    #[inline(always)]
    pub fn highest(&self, start: W, end: W) -> Option<W> {
        let (start, end) = self.usable(start, end)?;
        let last = end.checked_sub(self.size - W::ONE)?;
        let last = last.checked_sub(self.excess(last))?;
        (start <= end && last >= start).then_some(last)
    }
}

/// A search that looks at gaps one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Search<'f, W = u64> {
    fit: &'f Fit<W>,
    /// The smallest gap so far that has a place: its number of indices less one, and the place.
    tightest: Option<(W, W)>,
}

impl<'f, W: Word> Search<'f, W> {
    /// A search that has looked at no gap.
    pub const fn new(fit: &'f Fit<W>) -> Self {
        Search {
            fit,
            tightest: None,
        }
    }

    /// What is searched for.
    pub const fn fit(&self) -> &'f Fit<W> {
        self.fit
    }

    /// Looks at a gap. Returns the place if no later gap can have a better one. Gaps come in the
    /// order of the search.
    #[inline(always)]
    pub fn look(&mut self, start: W, end: W) -> Option<W> {
        let place = match self.fit.highest {
            false => self.fit.lowest(start, end)?,
            true => self.fit.highest(start, end)?,
        };
        if !self.fit.tightest {
            return Some(place);
        }
        let (first, last) = self.fit.all;
        let length = end.min(last) - start.max(first);
        if length == self.fit.size - W::ONE {
            return Some(place);
        }
        if self.tightest.is_none_or(|(least, _)| length < least) {
            self.tightest = Some((length, place));
        }
        None
    }

    /// The place, when `found` is what the last look returned.
    pub fn end(self, found: Option<W>) -> Option<W> {
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
        for size in 0..2048_u64 {
            assert_eq!(u64::from(code(size)), size);
        }
        assert_eq!(code(2049_u64), code(2050_u64));
        assert_eq!(u32::from(code(u64::MAX)), (53 << 10) + 2048);
        assert_eq!(u32::from(code(u128::MAX)), (118 << 9) + 1024);
        assert_eq!(code(1023_u128), 1023);
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
            for shift in [0, 3, 64] {
                let [low, high] = [pair[0], pair[1]].map(|size| u128::from(size) << shift);
                assert!(code(low) <= code(high), "{pair:?} << {shift}");
            }
        }
    }
}
