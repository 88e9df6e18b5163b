//! Windows: where a search looks for a gap, and which gap it takes.

use core::ops;

#[cfg(feature = "std")]
use sapwood_checked::maple::Within;

use super::gap::{Fit, Near};
use super::{Index, IndexRange, Range, Word};
use crate::Error;
use crate::index::{bounds, given};

/// The range in which a search looks for a gap, and which gap it takes: by default the lowest that
/// fits.
///
/// Searches take `impl Into<Window>`, so a range alone will do.
///
/// ```
/// use sapwood::maple::{MapleMap, Window};
/// let map = MapleMap::from_iter([(0..=9, 'a'), (15..=99, 'b')]);
/// assert_eq!(map.find_gap(5, 0..=200), Some(10..=14));
/// let window = Window::new(0..=200);
/// assert_eq!(map.find_gap(6, window.clone().from_end()), Some(195..=200));
/// assert_eq!(map.find_gap(4, window.clone().aligned(64)), Some(128..=131));
/// assert_eq!(map.find_gap(4, window.aligned(64).from_end()), Some(192..=195));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window<K: Index = u64> {
    range: Range<K>,
    align: K::Word,
    /// Whether the alignment has to be a power of two.
    power: bool,
    offset: K::Word,
    guard: K::Word,
    from_end: bool,
    tightest: bool,
    near: Option<Near<K::Word>>,
}

impl<K: Index> Window<K> {
    /// All places within a range.
    ///
    /// O(1).
    #[inline]
    pub fn new(range: impl IndexRange<K>) -> Self {
        Window {
            range: given(range),
            align: K::Word::ONE,
            power: true,
            offset: K::Word::ZERO,
            guard: K::Word::ZERO,
            from_end: false,
            tightest: false,
            near: None,
        }
    }

    /// Places whose first index is a multiple of `align`, a power of two.
    ///
    /// O(1).
    #[inline]
    pub fn aligned(self, align: K::Word) -> Self {
        Window {
            align,
            power: true,
            offset: K::Word::ZERO,
            ..self
        }
    }

    /// Places whose first index leaves the rest `rest` when it is divided by `modulus`, which is
    /// any number but 0: with a modulus of 2 MiB and the rest of a physical address, a mapping can
    /// have huge pages; with a rest of 0, the first index is a multiple of `modulus`. What is
    /// divided is the index's [word](Index::to_word), which for types with a sign is the distance
    /// from the lowest index. O(1).
    ///
    /// ```
    /// use sapwood::maple::{RangeMap, Window};
    /// let map = RangeMap::from_iter([(0..=9, 'a')]);
    /// assert_eq!(map.find_gap(4, Window::new(0..=99).congruent_to(5, 16)), Some(21..=24));
    /// assert_eq!(map.find_gap(4, Window::new(0..=99).congruent_to(0, 7)), Some(14..=17));
    /// ```
    #[inline]
    pub fn congruent_to(self, rest: K::Word, modulus: K::Word) -> Self {
        let whole = modulus == K::Word::ZERO;
        Window {
            align: modulus,
            power: false,
            offset: if whole { modulus } else { rest % modulus },
            ..self
        }
    }

    /// A place has at least `guard` free indices between it and the entries on both sides. Two
    /// neighbours share what lies between them: for guards that are not shared, ask for the sum.
    /// O(1).
    ///
    /// ```
    /// use sapwood::maple::{RangeMap, Window};
    /// let map = RangeMap::from_iter([(0..=9, 'a'), (20..=29, 'b')]);
    /// assert_eq!(map.find_gap(6, Window::new(0..=99).guarded(2)), Some(12..=17));
    /// assert_eq!(map.find_gap(7, Window::new(0..=99).guarded(2)), Some(32..=38));
    /// ```
    #[inline]
    pub fn guarded(self, guard: K::Word) -> Self {
        Window { guard, ..self }
    }

    /// Takes a place in the smallest gap that has one (best fit); of equally small gaps, the first
    /// one in the direction of the search. It looks at all gaps in the window that are large
    /// enough, unless one has exactly the size. O(1).
    ///
    /// ```
    /// use sapwood::maple::{RangeMap, Window};
    /// let map = RangeMap::from_iter([(0..=9, 'a'), (40..=49, 'b'), (56..=59, 'c')]);
    /// assert_eq!(map.find_gap(4, Window::new(0..=99).tightest()), Some(50..=53));
    /// ```
    #[inline]
    pub fn tightest(self) -> Self {
        Window {
            tightest: true,
            ..self
        }
    }

    /// Takes the place that begins nearest to an index, on either side; of two that are equally
    /// near, the higher one. This replaces [`starting_at`](Self::starting_at) and
    /// [`from_end`](Self::from_end). O(1).
    ///
    /// ```
    /// use sapwood::maple::{RangeMap, Window};
    /// let map = RangeMap::from_iter([(40..=59, 'a')]);
    /// assert_eq!(map.find_gap(4, Window::new(0..=99).nearest_to(45)), Some(36..=39));
    /// assert_eq!(map.find_gap(4, Window::new(0..=99).nearest_to(55)), Some(60..=63));
    /// ```
    #[inline]
    pub fn nearest_to(self, index: K) -> Self {
        Window {
            near: Some(Near::Around(index.to_word())),
            ..self
        }
    }

    /// Takes the highest place, not the lowest.
    ///
    /// O(1).
    #[inline]
    pub fn from_end(self) -> Self {
        Window {
            from_end: true,
            ..self
        }
    }

    /// Prefers places at or after an index; with [`from_end`](Self::from_end), those that end at or
    /// before it. All other places come after them. O(1).
    ///
    /// An allocator of identifiers begins behind the identifier that it gave out last, so that it
    /// does not soon reuse those that were given back:
    ///
    /// ```
    /// use sapwood::maple::{MapleMap, Window};
    /// let map = MapleMap::new();
    /// let mut next = 0;
    /// let mut id = |value| {
    ///     let id = map.alloc_range(1, Window::new(1..=3).starting_at(next), value)?;
    ///     next = id.end().wrapping_add(1);
    ///     Ok::<_, sapwood::Error>(id)
    /// };
    /// assert_eq!(id('a')?, 1..=1);
    /// assert_eq!(id('b')?, 2..=2);
    /// map.remove(1)?;
    /// assert_eq!(id('c')?, 3..=3);
    /// assert_eq!(id('d')?, 1..=1);
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    #[inline]
    pub fn starting_at(self, index: K) -> Self {
        Window {
            near: Some(Near::From(index.to_word())),
            ..self
        }
    }

    /// The search for `size` indices in this window.
    #[inline]
    pub(super) fn fit(&self, size: K::Word) -> Result<Fit<K::Word>, Error<K>> {
        let (from, to) = bounds(self.range.clone())?;
        if size == K::Word::ZERO {
            return Err(Error::ZeroSize);
        }
        let align = self.align;
        if align == K::Word::ZERO || (self.power && !align.is_power_of_two()) {
            return Err(Error::Alignment { align });
        }
        if to - from < size - K::Word::ONE {
            return Err(Error::WindowTooSmall {
                size,
                start: K::from_word(from),
                end: K::from_word(to),
            });
        }
        Ok(Fit {
            align,
            offset: self.offset,
            guard: self.guard,
            highest: self.from_end,
            tightest: self.tightest,
            near: self.near,
            all: (K::MIN.to_word(), K::MAX.to_word()),
            ..Fit::lowest_in(size, (from, to))
        })
    }
}

#[cfg(feature = "std")]
impl Within for Window {
    fn fit(&self, size: u64) -> Option<Fit> {
        self.fit(size).ok()
    }
}

macro_rules! windows {
    ($($range:ty),*) => {$(
        impl<K: Index> From<$range> for Window<K> {
            #[inline]
            fn from(range: $range) -> Self {
                Window::new(range)
            }
        }
    )*};
}

windows!(
    ops::RangeInclusive<K>,
    ops::Range<K>,
    ops::RangeFrom<K>,
    ops::RangeTo<K>,
    ops::RangeToInclusive<K>,
    ops::RangeFull
);
