//! Windows: where a search looks for a gap, and which gap it takes.

use sapwood_checked::maple::Within;

use super::gap::Fit;
use super::{Range, bounds};
use crate::Error;

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
pub struct Window {
    range: Range,
    align: u64,
    from_end: bool,
    near: Option<u64>,
}

impl Window {
    /// All places within a range.
    ///
    /// O(1).
    #[inline]
    pub fn new(range: Range) -> Self {
        Window {
            range,
            align: 1,
            from_end: false,
            near: None,
        }
    }

    /// Places whose first index is a multiple of `align`, a power of two.
    ///
    /// O(1).
    #[inline]
    pub fn aligned(self, align: u64) -> Self {
        Window { align, ..self }
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
    pub fn starting_at(self, index: u64) -> Self {
        Window {
            near: Some(index),
            ..self
        }
    }

    /// The search for `size` indices in this window.
    #[inline]
    pub(super) fn fit(&self, size: u64) -> Result<Fit, Error> {
        let (from, to) = bounds(&self.range)?;
        if size == 0 {
            return Err(Error::ZeroSize);
        }
        if !self.align.is_power_of_two() {
            return Err(Error::Alignment { align: self.align });
        }
        if to - from < size - 1 {
            return Err(Error::WindowTooSmall {
                size,
                start: from,
                end: to,
            });
        }
        Ok(Fit {
            size,
            align: self.align,
            from,
            to,
            highest: self.from_end,
            near: self.near,
        })
    }
}

impl Within for Window {
    fn fit(&self, size: u64) -> Option<Fit> {
        self.fit(size).ok()
    }
}

impl From<Range> for Window {
    #[inline]
    fn from(range: Range) -> Self {
        Window::new(range)
    }
}
