//! The numbers that a range map's indices are: 64 bits, or 128.

use core::fmt::{Debug, Display};
use core::hash::Hash;
use core::ops::{Add, BitAnd, BitOr, Rem, Shl, Shr, Sub};

/// An unsigned number by which a range map orders its indices: `u64` or `u128`.
///
/// Nodes of both kinds have the same parts. Pivots and the bases of leaves are words; the borders
/// in leaves have 2, 4 or 8 bytes, and 16 where the word has them.
pub trait Word:
    Copy
    + Ord
    + Hash
    + Debug
    + Display
    + Default
    + Send
    + Sync
    + 'static
    + Add<Output = Self>
    + Sub<Output = Self>
    + Rem<Output = Self>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + Shl<u32, Output = Self>
    + Shr<u32, Output = Self>
    + sealed::Sealed
{
    /// The lowest number.
    const ZERO: Self;
    /// The number one.
    const ONE: Self;
    /// The highest number.
    const MAX: Self;
    /// Bits of a number.
    const BITS: u32;
    /// Bytes of a number.
    const BYTES: usize = size_of::<Self>();
    /// The width of the widest borders: 3 for 8 bytes, 4 for 16.
    const WIDEST: u32;
    /// Bits of precision in the code of a size, the leading one included.
    const PRECISION: u32;

    /// As the method of integers.
    fn wrapping_add(self, other: Self) -> Self;
    /// As the method of integers.
    fn wrapping_sub(self, other: Self) -> Self;
    /// As the method of integers.
    fn checked_add(self, other: Self) -> Option<Self>;
    /// As the method of integers.
    fn checked_sub(self, other: Self) -> Option<Self>;
    /// As the method of integers.
    fn saturating_add(self, other: Self) -> Self;
    /// As the method of integers.
    fn trailing_zeros(self) -> u32;
    /// As the method of integers.
    fn leading_zeros(self) -> u32;
    /// As the method of integers.
    fn is_power_of_two(self) -> bool;
    /// The number of 64 bits as a word.
    fn from_u64(number: u64) -> Self;
    /// The lowest 64 bits.
    fn low(self) -> u64;
    /// The number as 128 bits.
    fn to_u128(self) -> u128;
    /// The lowest bits of 128.
    fn from_u128(number: u128) -> Self;

    /// The distance between two numbers.
    #[inline(always)]
    fn abs_diff(self, other: Self) -> Self {
        match self < other {
            true => other - self,
            false => self - other,
        }
    }

    /// The number above, or 0 above the highest one.
    #[inline(always)]
    fn above(self) -> Self {
        self.wrapping_add(Self::ONE)
    }

    /// The number below, or the highest one below 0.
    #[inline(always)]
    fn below(self) -> Self {
        self.wrapping_sub(Self::ONE)
    }

    /// The highest number that has this many bits, which are fewer than a word has.
    #[inline(always)]
    fn ones(bits: u32) -> Self {
        (Self::ONE << bits) - Self::ONE
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for u64 {}
    impl Sealed for u128 {}
}

macro_rules! words {
    ($($word:ty, $widest:literal, $precision:literal;)*) => {$(
        impl Word for $word {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const MAX: Self = <$word>::MAX;
            const BITS: u32 = <$word>::BITS;
            const WIDEST: u32 = $widest;
            const PRECISION: u32 = $precision;

            #[inline(always)]
            fn wrapping_add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn wrapping_sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            #[inline(always)]
            fn checked_add(self, other: Self) -> Option<Self> {
                self.checked_add(other)
            }

            #[inline(always)]
            fn checked_sub(self, other: Self) -> Option<Self> {
                self.checked_sub(other)
            }

            #[inline(always)]
            fn saturating_add(self, other: Self) -> Self {
                self.saturating_add(other)
            }

            #[inline(always)]
            fn trailing_zeros(self) -> u32 {
                self.trailing_zeros()
            }

            #[inline(always)]
            fn leading_zeros(self) -> u32 {
                self.leading_zeros()
            }

            #[inline(always)]
            fn is_power_of_two(self) -> bool {
                self.is_power_of_two()
            }

            #[inline(always)]
            fn from_u64(number: u64) -> Self {
                number.into()
            }

            #[inline(always)]
            fn low(self) -> u64 {
                self as u64
            }

            #[inline(always)]
            fn to_u128(self) -> u128 {
                self.into()
            }

            #[inline(always)]
            fn from_u128(number: u128) -> Self {
                number as Self
            }
        }
    )*};
}

// A code has 16 bits: the exponent of the largest size, and these.
words! {
    u64, 3, 11;
    u128, 4, 10;
}
