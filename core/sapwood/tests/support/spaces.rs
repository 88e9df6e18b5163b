//! The model's indices as those of other types: one model serves maps of all.
#![allow(dead_code)] // Each program uses only a part of it.

use std::ops::RangeInclusive;

use sapwood::maple::Index;

type Range = RangeInclusive<u64>;

/// A way in which the model's numbers are a map's indices. It keeps order and what touches.
pub trait Space: Copy {
    type Key: Index;

    /// An index inside of a number's.
    fn index(number: u64) -> Self::Key;

    /// The lowest index of a number's.
    fn first(number: u64) -> Self::Key {
        *Self::range(&(number..=number)).start()
    }

    /// All indices of a range of numbers.
    fn range(range: &Range) -> RangeInclusive<Self::Key>;

    /// The number of indices for a number of the model's. An alignment has as many, too.
    fn size(numbers: u64) -> <Self::Key as Index>::Word;

    /// The numbers whose indices these are.
    fn back(range: RangeInclusive<Self::Key>) -> Range;

    /// Whether the lowest index of an aligned number is as aligned.
    const ALIGNS: bool = true;
}

/// The numbers themselves.
#[derive(Clone, Copy)]
pub struct Plain;

impl Space for Plain {
    type Key = u64;

    fn index(number: u64) -> u64 {
        number
    }

    fn range(range: &Range) -> Range {
        range.clone()
    }

    fn size(numbers: u64) -> u64 {
        numbers
    }

    fn back(range: Range) -> Range {
        range
    }
}

/// Numbers with a sign, of which the middle one is 0.
#[derive(Clone, Copy)]
pub struct Signed;

impl Space for Signed {
    type Key = i64;

    fn index(number: u64) -> i64 {
        (number ^ 1 << 63) as i64
    }

    fn range(range: &Range) -> RangeInclusive<i64> {
        Self::index(*range.start())..=Self::index(*range.end())
    }

    fn size(numbers: u64) -> u64 {
        numbers
    }

    fn back(range: RangeInclusive<i64>) -> Range {
        let number = |index: i64| index as u64 ^ 1 << 63;
        number(*range.start())..=number(*range.end())
    }
}

/// All numbers of 128 bits: 2^64 of them for each number.
#[derive(Clone, Copy)]
pub struct Scaled;

const LOW: u128 = u64::MAX as u128;

impl Space for Scaled {
    type Key = u128;

    fn index(number: u64) -> u128 {
        u128::from(number) << 64 | (u128::from(number) * 0x9e37_79b9_7f4a_7c15) & LOW
    }

    fn range(range: &Range) -> RangeInclusive<u128> {
        u128::from(*range.start()) << 64..=u128::from(*range.end()) << 64 | LOW
    }

    fn size(numbers: u64) -> u128 {
        u128::from(numbers) << 64
    }

    fn back(range: RangeInclusive<u128>) -> Range {
        let (start, end) = range.into_inner();
        assert_eq!((start & LOW, end & LOW), (0, LOW), "{start:x}..={end:x}");
        (start >> 64) as u64..=(end >> 64) as u64
    }
}

/// Numbers of 128 bits whose distances have no bits in common: borders need all of their bytes.
#[derive(Clone, Copy)]
pub struct Odd;

const EACH: u128 = (1 << 63) + 3;

impl Space for Odd {
    type Key = u128;

    fn index(number: u64) -> u128 {
        u128::from(number) * EACH + u128::from(number) % EACH
    }

    fn range(range: &Range) -> RangeInclusive<u128> {
        let behind = (u128::from(*range.end()) + 1) * EACH;
        u128::from(*range.start()) * EACH..=behind - 1
    }

    fn size(numbers: u64) -> u128 {
        u128::from(numbers) * EACH
    }

    fn back(range: RangeInclusive<u128>) -> Range {
        let (start, end) = range.into_inner();
        let last = match end {
            // What lies behind the highest number belongs to the gap there.
            u128::MAX => u64::MAX,
            end => ((end + 1) / EACH - 1) as u64,
        };
        let whole = start % EACH == 0 && (end == u128::MAX || (end + 1) % EACH == 0);
        assert!(whole, "{start:x}..={end:x}");
        (start / EACH) as u64..=last
    }

    const ALIGNS: bool = false;
}
