//! The types of indices, and the ranges of them.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::ops;

pub use sapwood_format::maple::word::Word;

use crate::{Error, Words};

/// A type whose values are a range map's indices: integers of 8 to 128 bits, with and without a
/// sign, addresses of both families, and what a program makes of these.
///
/// A map orders indices by their words, of 64 or 128 bits. Words of 64 bits take the same memory
/// whatever the type is. Where a map has words of 128 bits, the borders of entries still take as
/// few bytes as they need (`docs/maple.md`).
///
/// ```
/// use sapwood::maple::RangeMap;
/// use std::net::Ipv6Addr;
///
/// let mut owners: RangeMap<&str, Ipv6Addr> = RangeMap::default();
/// let address = |text: &str| text.parse::<Ipv6Addr>().unwrap();
/// owners.store(address("2001:db8::")..=address("2001:db8::ffff"), "lab")?;
/// assert_eq!(owners.get(address("2001:db8::53")), Some(&"lab"));
/// # Ok::<(), sapwood::maple::Error<Ipv6Addr>>(())
/// ```
///
/// A type of a program's own says which words its values have. A greater value has a greater word,
/// and there is a value for each word between those of [`MIN`](Self::MIN) and [`MAX`](Self::MAX):
///
/// ```
/// use sapwood::maple::{Index, RangeMap};
/// use std::fmt;
///
/// /// The number of a page.
/// #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
/// struct Page(u32);
///
/// impl fmt::Display for Page {
///     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
///         write!(f, "page {}", self.0)
///     }
/// }
///
/// impl Index for Page {
///     type Word = u64;
///     const MIN: Page = Page(0);
///     const MAX: Page = Page(u32::MAX);
///     fn to_word(self) -> u64 {
///         self.0.into()
///     }
///     fn from_word(word: u64) -> Page {
///         Page(word as u32)
///     }
/// }
///
/// let mut map: RangeMap<char, Page> = RangeMap::default();
/// map.store(Page(2)..Page(5), 'a')?;
/// assert_eq!(map.locate(Page(9)), (Page(5)..=Page::MAX, None));
/// let refused = map.insert_new(Page(4)..=Page(9), 'b').unwrap_err();
/// assert_eq!(refused.error.to_string(), "the entry page 2..=page 4 is in the way");
/// # Ok::<(), sapwood::maple::Error<Page>>(())
/// ```
pub trait Index: Copy + Ord + fmt::Debug + fmt::Display + Send + Sync + 'static {
    /// `u64` or `u128`.
    type Word: Word;
    /// The lowest index.
    const MIN: Self;
    /// The highest index.
    const MAX: Self;

    /// The number by which a map orders the index.
    fn to_word(self) -> Self::Word;

    /// The index that has a word. Maps ask only for words from that of [`MIN`](Self::MIN) to that
    /// of [`MAX`](Self::MAX).
    fn from_word(word: Self::Word) -> Self;
}

macro_rules! unsigned {
    ($($index:ty => $word:ty),*) => {$(
        impl Index for $index {
            type Word = $word;
            const MIN: Self = <$index>::MIN;
            const MAX: Self = <$index>::MAX;

            #[inline(always)]
            fn to_word(self) -> $word {
                self as $word
            }

            #[inline(always)]
            fn from_word(word: $word) -> Self {
                word as Self
            }
        }
    )*};
}

unsigned!(u8 => u64, u16 => u64, u32 => u64, u64 => u64, usize => u64, u128 => u128);

macro_rules! signed {
    ($($index:ty => $wide:ty => $word:ty),*) => {$(
        impl Index for $index {
            type Word = $word;
            const MIN: Self = <$index>::MIN;
            const MAX: Self = <$index>::MAX;

            #[inline(always)]
            fn to_word(self) -> $word {
                (<$wide>::from(self) as $word) ^ (1 << (<$word>::BITS - 1))
            }

            #[inline(always)]
            fn from_word(word: $word) -> Self {
                (word ^ (1 << (<$word>::BITS - 1))) as Self
            }
        }
    )*};
}

signed!(i8 => i64 => u64, i16 => i64 => u64, i32 => i64 => u64, i64 => i64 => u64);
signed!(i128 => i128 => u128);

macro_rules! addresses {
    ($($index:ty => $number:ty => $word:ty),*) => {$(
        impl Index for $index {
            type Word = $word;
            const MIN: Self = <$index>::UNSPECIFIED;
            const MAX: Self = <$index>::from_bits(<$number>::MAX);

            #[inline(always)]
            fn to_word(self) -> $word {
                self.to_bits().into()
            }

            #[inline(always)]
            fn from_word(word: $word) -> Self {
                <$index>::from_bits(word as $number)
            }
        }
    )*};
}

addresses!(Ipv4Addr => u32 => u64, Ipv6Addr => u128 => u128);

/// A range of indices: `a..=b`, `a..b`, `a..`, `..b`, `..=b`, `..`.
///
/// ```
/// use sapwood::maple::{Error, RangeMap};
/// let mut map = RangeMap::new();
/// map.store(10..20, 'a')?;
/// assert_eq!(map.get_entry(19), Some((10..=19, &'a')));
/// map.clear_range(15..)?;
/// assert_eq!(map.last(), Some((10..=14, &'a')));
/// assert!(matches!(map.clear_range(7..7), Err(Error::EmptyRange { .. })));
/// # Ok::<(), Error>(())
/// ```
pub trait IndexRange<K: Index>: sealed::Sealed<K> {}

impl<K: Index, R: sealed::Sealed<K>> IndexRange<K> for R {}

mod sealed {
    use super::{Index, Words};

    pub trait Sealed<K: Index> {
        /// The words of the first index and of the last one; those that the range gives where it
        /// has none.
        fn words(self) -> Result<Words<K>, Words<K>>;
    }
}

/// These words, if there are any indices.
#[inline(always)]
fn some<K: Index>(start: K::Word, end: K::Word) -> Result<Words<K>, Words<K>> {
    match start <= end {
        true => Ok((start, end)),
        false => Err((start, end)),
    }
}

/// The indices from a word to the one before another.
#[inline(always)]
fn before<K: Index>(start: K::Word, behind: K::Word) -> Result<Words<K>, Words<K>> {
    match behind > K::MIN.to_word() {
        true => some::<K>(start, behind.below()),
        // Nothing is before the lowest index.
        false => Err((behind.above(), behind)),
    }
}

impl<K: Index> sealed::Sealed<K> for ops::RangeInclusive<K> {
    #[inline(always)]
    fn words(self) -> Result<Words<K>, Words<K>> {
        let words = (self.start().to_word(), self.end().to_word());
        // A range that was iterated to its end is empty, too.
        match self.is_empty() {
            true => Err(words),
            false => some::<K>(words.0, words.1),
        }
    }
}

impl<K: Index> sealed::Sealed<K> for ops::Range<K> {
    #[inline(always)]
    fn words(self) -> Result<Words<K>, Words<K>> {
        before::<K>(self.start.to_word(), self.end.to_word())
    }
}

impl<K: Index> sealed::Sealed<K> for ops::RangeFrom<K> {
    #[inline(always)]
    fn words(self) -> Result<Words<K>, Words<K>> {
        some::<K>(self.start.to_word(), K::MAX.to_word())
    }
}

impl<K: Index> sealed::Sealed<K> for ops::RangeTo<K> {
    #[inline(always)]
    fn words(self) -> Result<Words<K>, Words<K>> {
        before::<K>(K::MIN.to_word(), self.end.to_word())
    }
}

impl<K: Index> sealed::Sealed<K> for ops::RangeToInclusive<K> {
    #[inline(always)]
    fn words(self) -> Result<Words<K>, Words<K>> {
        some::<K>(K::MIN.to_word(), self.end.to_word())
    }
}

impl<K: Index> sealed::Sealed<K> for ops::RangeFull {
    #[inline(always)]
    fn words(self) -> Result<Words<K>, Words<K>> {
        Ok((K::MIN.to_word(), K::MAX.to_word()))
    }
}

/// The words of a range that has at least one index.
#[inline(always)]
pub(crate) fn bounds<K: Index>(range: impl IndexRange<K>) -> Result<Words<K>, Error<K>> {
    range.words().map_err(|(start, end)| Error::EmptyRange {
        start: K::from_word(start),
        end: K::from_word(end),
    })
}

/// The range from the first index to the last one; an empty range where there are none.
#[inline(always)]
pub(crate) fn given<K: Index>(range: impl IndexRange<K>) -> super::Range<K> {
    match range.words() {
        Ok(words) | Err(words) => span::<K>(words),
    }
}

/// The words of a range, if it has any indices.
#[inline(always)]
pub(crate) fn open<K: Index>(range: impl IndexRange<K>) -> Option<Words<K>> {
    range.words().ok()
}

/// The range between two words.
#[inline(always)]
pub(crate) fn span<K: Index>((start, end): Words<K>) -> super::Range<K> {
    K::from_word(start)..=K::from_word(end)
}
