//! Plain data, which a cache can store as whole words.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::raw::pair::pair;

/// A fixed number of 64-bit words: arrays of `u64`, and arrays and pairs of such.
///
/// It is implemented for everything that [`Plain`] needs, and for nothing else: the cache relies on
/// the number of words.
pub trait Words: Copy + sealed::Sealed {
    /// The number of words.
    const COUNT: usize;

    /// Calls `take` with each word, in order.
    fn each(&self, take: impl FnMut(u64));

    /// Makes a value of [`COUNT`](Self::COUNT) words, in order.
    fn fill(next: impl FnMut() -> u64) -> Self;
}

mod sealed {
    /// The types that are [`Words`](super::Words).
    pub trait Sealed {}

    impl<const N: usize> Sealed for [u64; N] {}
    impl<A: Sealed, B: Sealed> Sealed for (A, B) {}
    impl<W: super::Words, const N: usize> Sealed for [W; N] {}
}

impl<const N: usize> Words for [u64; N] {
    const COUNT: usize = N;

    #[inline(always)]
    fn each(&self, mut take: impl FnMut(u64)) {
        for word in self {
            take(*word);
        }
    }

    #[inline(always)]
    fn fill(mut next: impl FnMut() -> u64) -> Self {
        core::array::from_fn(|_| next())
    }
}

impl<W: Words, const N: usize> Words for [W; N] {
    const COUNT: usize = N * W::COUNT;

    #[inline(always)]
    fn each(&self, mut take: impl FnMut(u64)) {
        for words in self {
            words.each(&mut take);
        }
    }

    #[inline(always)]
    fn fill(mut next: impl FnMut() -> u64) -> Self {
        core::array::from_fn(|_| W::fill(&mut next))
    }
}

impl<A: Words, B: Words> Words for (A, B) {
    const COUNT: usize = A::COUNT + B::COUNT;

    #[inline(always)]
    fn each(&self, mut take: impl FnMut(u64)) {
        self.0.each(&mut take);
        self.1.each(take);
    }

    #[inline(always)]
    fn fill(mut next: impl FnMut() -> u64) -> Self {
        let first = A::fill(&mut next);
        (first, B::fill(next))
    }
}

/// Data that can be stored as words: keys and values of a route cache.
///
/// Readers of the cache copy an entry while a writer may be replacing it, and throw the copy away
/// if so. In Rust that is sound only for atomic words: bytes of padding must not be read as
/// numbers, and other types must not be torn. So every type says in safe code how it becomes words.
/// Numbers, `bool`, arrays of up to 64 bytes, IP addresses, options and tuples have an
/// implementation; a struct goes through a tuple of its fields:
///
/// ```
/// use std::net::Ipv6Addr;
/// use sapwood::route::Plain;
///
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// struct NextHop {
///     gateway: Ipv6Addr,
///     port: u32,
///     mac: [u8; 6],
/// }
///
/// impl Plain for NextHop {
///     type Words = <(Ipv6Addr, u32, [u8; 6]) as Plain>::Words;
///
///     fn to_words(self) -> Self::Words {
///         (self.gateway, self.port, self.mac).to_words()
///     }
///
///     fn from_words(words: Self::Words) -> Self {
///         let (gateway, port, mac) = Plain::from_words(words);
///         Self { gateway, port, mac }
///     }
/// }
///
/// let hop = NextHop { gateway: Ipv6Addr::LOCALHOST, port: 7, mac: [2, 0, 0, 0, 0, 1] };
/// assert_eq!(NextHop::from_words(hop.to_words()), hop);
/// ```
///
/// Two keys are the same key if their words are the same.
pub trait Plain: Copy + Send + Sync {
    /// The words that it is stored as.
    type Words: Words;

    /// The value as words.
    fn to_words(self) -> Self::Words;

    /// The value that had these words. They come from [`to_words`](Self::to_words).
    fn from_words(words: Self::Words) -> Self;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Plain for $number {
            type Words = [u64; 1];

            #[inline(always)]
            fn to_words(self) -> [u64; 1] {
                [self as u64]
            }

            #[inline(always)]
            fn from_words([word]: [u64; 1]) -> Self {
                word as $number
            }
        }
    )*};
}
numbers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

impl Plain for bool {
    type Words = [u64; 1];

    #[inline(always)]
    fn to_words(self) -> [u64; 1] {
        [u64::from(self)]
    }

    #[inline(always)]
    fn from_words([word]: [u64; 1]) -> Self {
        word != 0
    }
}

impl Plain for u128 {
    type Words = [u64; 2];

    #[inline(always)]
    fn to_words(self) -> [u64; 2] {
        [self as u64, (self >> 64) as u64]
    }

    #[inline(always)]
    fn from_words([low, high]: [u64; 2]) -> Self {
        u128::from(low) | u128::from(high) << 64
    }
}

impl<const N: usize> Plain for [u64; N] {
    type Words = Self;

    #[inline(always)]
    fn to_words(self) -> Self {
        self
    }

    #[inline(always)]
    fn from_words(words: Self) -> Self {
        words
    }
}

macro_rules! bytes {
    ($($n:literal)*) => {$(
        impl Plain for [u8; $n] {
            type Words = [u64; usize::div_ceil($n, 8)];

            #[inline(always)]
            fn to_words(self) -> Self::Words {
                core::array::from_fn(|i| {
                    let mut word = [0; 8];
                    let part = &self[8 * i..(8 * i + 8).min($n)];
                    word[..part.len()].copy_from_slice(part);
                    u64::from_le_bytes(word)
                })
            }

            #[inline(always)]
            fn from_words(words: Self::Words) -> Self {
                let mut bytes = [0; $n];
                for (at, part) in bytes.chunks_mut(16).enumerate() {
                    let high = words.get(2 * at + 1).copied().unwrap_or(0);
                    part.copy_from_slice(&pair(words[2 * at], high)[..part.len()]);
                }
                bytes
            }
        }
    )*};
}
bytes!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);
bytes!(33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64);

impl Plain for Ipv4Addr {
    type Words = [u64; 1];

    #[inline(always)]
    fn to_words(self) -> [u64; 1] {
        u32::from(self).to_words()
    }

    #[inline(always)]
    fn from_words(words: [u64; 1]) -> Self {
        u32::from_words(words).into()
    }
}

impl Plain for Ipv6Addr {
    type Words = [u64; 2];

    #[inline(always)]
    fn to_words(self) -> [u64; 2] {
        u128::from(self).to_words()
    }

    #[inline(always)]
    fn from_words(words: [u64; 2]) -> Self {
        u128::from_words(words).into()
    }
}

impl Plain for IpAddr {
    type Words = [u64; 3];

    #[inline(always)]
    fn to_words(self) -> [u64; 3] {
        match self {
            IpAddr::V4(address) => [4, u64::from(u32::from(address)), 0],
            IpAddr::V6(address) => {
                let [low, high] = address.to_words();
                [6, low, high]
            }
        }
    }

    #[inline(always)]
    fn from_words([family, low, high]: [u64; 3]) -> Self {
        match family {
            4 => IpAddr::V4(Ipv4Addr::from(low as u32)),
            _ => IpAddr::V6(Ipv6Addr::from_words([low, high])),
        }
    }
}

impl<T: Plain> Plain for Option<T> {
    type Words = ([u64; 1], T::Words);

    #[inline(always)]
    fn to_words(self) -> Self::Words {
        match self {
            None => ([0], Words::fill(|| 0)),
            Some(value) => ([1], value.to_words()),
        }
    }

    #[inline(always)]
    fn from_words(([there], words): Self::Words) -> Self {
        (there != 0).then(|| T::from_words(words))
    }
}

impl Plain for () {
    type Words = [u64; 0];

    #[inline(always)]
    fn to_words(self) -> [u64; 0] {
        []
    }

    #[inline(always)]
    fn from_words(_: [u64; 0]) -> Self {}
}

macro_rules! tuples {
    ($($first:ident $second:ident $($more:ident)*;)*) => {$(
        impl<$first: Plain, $second: Plain, $($more: Plain),*> Plain for ($first, $second, $($more),*) {
            type Words = ($first::Words, <tuples!(@rest $second $($more)*) as Plain>::Words);

            #[allow(non_snake_case)]
            #[inline(always)]
            fn to_words(self) -> Self::Words {
                let ($first, $second, $($more),*) = self;
                ($first.to_words(), tuples!(@rest $second $($more)*).to_words())
            }

            #[allow(non_snake_case)]
            #[inline(always)]
            fn from_words((first, rest): Self::Words) -> Self {
                let tuples!(@rest $second $($more)*) = Plain::from_words(rest);
                ($first::from_words(first), $second, $($more),*)
            }
        }
    )*};
    (@rest $only:ident) => { $only };
    (@rest $($many:ident)*) => { ($($many),*) };
}
tuples! {
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        fn same<T: Plain + PartialEq + core::fmt::Debug>(value: T, words: usize) {
            assert_eq!(T::from_words(value.to_words()), value);
            assert_eq!(T::Words::COUNT, words);
            let mut count = 0;
            value.to_words().each(|_| count += 1);
            assert_eq!(count, words);
        }
        same(-7i32, 1);
        same(i64::MIN, 1);
        same(true, 1);
        same(u128::MAX - 5, 2);
        same([1u64, 2, 3], 3);
        same([1u8, 2, 3, 4, 5, 6, 7, 8, 9], 2);
        same([9u8; 64], 8);
        same((), 0);
        same(IpAddr::from([10, 1, 2, 3]), 3);
        same(IpAddr::from([1u16, 2, 3, 4, 5, 6, 7, 8]), 3);
        same((Ipv4Addr::LOCALHOST, 5u16), 2);
        same((1u128, 2u32), 3);
        same((1u8, 2u16, (3u32, 4u64), Some(5u8), [6u8; 6], false), 8);
        same(None::<Ipv6Addr>, 3);
    }

    #[test]
    fn families_do_not_meet() {
        let short = IpAddr::from([0, 0, 0, 1]);
        let long = IpAddr::from(1u128.to_be_bytes());
        assert_ne!(short.to_words(), long.to_words());
    }
}
