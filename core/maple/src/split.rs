//! How the value of an entry is split when a change cuts the entry.

use crate::Word;

/// How a value is split when a change cuts its entry.
///
/// A store over a part of an entry leaves what lies before the range, behind it, or both. What lies
/// before keeps the entry's value.
///
/// ```
/// use sapwood::maple::{RangeMap, Split};
///
/// /// A mapping of a file, which begins at an offset in it.
/// #[derive(Debug, PartialEq)]
/// struct Mapping {
///     file: u32,
///     offset: u64,
/// }
/// let mut map = RangeMap::with_split(Split::at(|mapping: &Mapping, by| Mapping {
///     file: mapping.file,
///     offset: mapping.offset + by,
/// }));
/// map.store(0x1000..=0x4FFF, Mapping { file: 3, offset: 0 })?;
/// map.clear_range(0x2000..=0x2FFF)?;
/// assert_eq!(map.get(0x1000), Some(&Mapping { file: 3, offset: 0 }));
/// assert_eq!(map.get(0x3000), Some(&Mapping { file: 3, offset: 0x2000 }));
/// # Ok::<(), sapwood::maple::Error>(())
/// ```
pub struct Split<V, W = u64>(How<V, W>);

enum How<V, W> {
    Clone(fn(&V) -> V),
    At(fn(&V, W) -> V),
    Never,
}

impl<V, W: Word> Split<V, W> {
    /// Each part has the value; where both stay, the right one has a clone. The default of maps
    /// whose values are `Clone`.
    ///
    /// O(1).
    pub fn by_clone() -> Self
    where
        V: Clone,
    {
        Split(How::Clone(V::clone))
    }

    /// The right part has the value that the function makes of the entry's value and the distance
    /// from the entry's first index to the part's, also where no left part stays. For a distance of
    /// 0 that is the value itself. A map that joins neighbours joins those whose right value is
    /// what the function makes of the left one. If the function panics, the map is as it was.
    ///
    /// O(1).
    pub fn at(value: fn(&V, W) -> V) -> Self {
        Split(How::At(value))
    }

    /// No value is split: a change that would leave both parts of an entry is refused
    /// ([`Error::Split`](crate::Error)). For values that cannot be cloned, in maps whose entries
    /// are not cut in two.
    ///
    /// O(1).
    pub fn never() -> Self {
        Split(How::Never)
    }

    /// Whether a right part has another value than its entry.
    #[inline]
    pub(crate) fn shifts(&self) -> bool {
        matches!(self.0, How::At(_))
    }

    /// Whether an entry with the left value goes on, `by` indices behind its first one, as an entry
    /// with the right value: then both can be one entry.
    pub(crate) fn continues(&self, left: &V, by: W, right: &V) -> bool
    where
        V: PartialEq,
    {
        match self.0 {
            How::At(at) => at(left, by) == *right,
            How::Clone(_) | How::Never => left == right,
        }
    }

    /// Whether no value is split.
    #[cfg(feature = "std")]
    pub(crate) fn refuses(&self) -> bool {
        matches!(self.0, How::Never)
    }

    /// The value of the part that begins `by` indices behind the entry's first one.
    pub(crate) fn at_offset(&self, value: &V, by: W) -> Option<V> {
        match self.0 {
            How::Clone(clone) => Some(clone(value)),
            How::At(at) => Some(at(value, by)),
            How::Never => None,
        }
    }
}

impl<V, W: Copy> Clone for Split<V, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V, W: Copy> Copy for Split<V, W> {}

impl<V, W: Copy> Clone for How<V, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V, W: Copy> Copy for How<V, W> {}

impl<V, W> core::fmt::Debug for Split<V, W> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self.0 {
            How::Clone(_) => "Split::by_clone()",
            How::At(_) => "Split::at(..)",
            How::Never => "Split::never()",
        })
    }
}
