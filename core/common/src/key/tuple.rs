//! Tuples of numbers, strings and addresses as keys, in an encoding that keeps their order.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{push_escaped, take_escaped};

/// A type whose values can be parts of a tuple's key.
///
/// Encodings sort like the values, and none is a prefix of another of the same type.
pub trait Part {
    /// Appends the encoding.
    fn push(&self, key: &mut Vec<u8>);
}

macro_rules! integers {
    ($($unsigned:ty, $signed:ty);*) => {$(
        impl Part for $unsigned {
            fn push(&self, key: &mut Vec<u8>) {
                key.extend_from_slice(&self.to_be_bytes());
            }
        }

        impl Part for $signed {
            fn push(&self, key: &mut Vec<u8>) {
                // With the sign bit inverted, negative numbers sort first.
                key.extend_from_slice(&(self ^ <$signed>::MIN).to_be_bytes());
            }
        }
    )*};
}
integers!(u8, i8; u16, i16; u32, i32; u64, i64; u128, i128);

impl Part for bool {
    fn push(&self, key: &mut Vec<u8>) {
        key.push(u8::from(*self));
    }
}

impl Part for f64 {
    /// Keys sort in the order of [`f64::total_cmp`].
    fn push(&self, key: &mut Vec<u8>) {
        let bits = self.to_bits();
        let turned = if bits >> 63 == 0 {
            bits | 1 << 63
        } else {
            !bits
        };
        key.extend_from_slice(&turned.to_be_bytes());
    }
}

impl Part for [u8] {
    fn push(&self, key: &mut Vec<u8>) {
        push_escaped(key, self.iter().copied());
    }
}

impl Part for str {
    fn push(&self, key: &mut Vec<u8>) {
        self.as_bytes().push(key);
    }
}

impl<const N: usize> Part for [u8; N] {
    /// The bytes unchanged, since all arrays of the type have the same length.
    fn push(&self, key: &mut Vec<u8>) {
        key.extend_from_slice(self);
    }
}

impl Part for Vec<u8> {
    fn push(&self, key: &mut Vec<u8>) {
        self.as_slice().push(key);
    }
}

impl Part for String {
    fn push(&self, key: &mut Vec<u8>) {
        self.as_bytes().push(key);
    }
}

impl Part for Ipv4Addr {
    fn push(&self, key: &mut Vec<u8>) {
        key.extend_from_slice(&self.octets());
    }
}

impl Part for Ipv6Addr {
    fn push(&self, key: &mut Vec<u8>) {
        key.extend_from_slice(&self.octets());
    }
}

impl Part for IpAddr {
    /// A byte 4 or 6, then the address.
    fn push(&self, key: &mut Vec<u8>) {
        match self {
            IpAddr::V4(address) => {
                key.push(4);
                address.push(key);
            }
            IpAddr::V6(address) => {
                key.push(6);
                address.push(key);
            }
        }
    }
}

impl<P: Part + ?Sized> Part for &P {
    fn push(&self, key: &mut Vec<u8>) {
        (**self).push(key);
    }
}

/// A tuple of parts.
pub trait Parts {
    /// Appends all of them.
    fn push_all(&self, key: &mut Vec<u8>);
}

macro_rules! tuples {
    ($($name:ident)+; $($rest:tt)*) => {
        impl<$($name: Part),+> Parts for ($($name,)+) {
            #[allow(non_snake_case)]
            fn push_all(&self, key: &mut Vec<u8>) {
                let ($($name,)+) = self;
                $($name.push(key);)+
            }
        }
        tuples!($($rest)*);
    };
    () => {};
}
tuples!(A; A B; A B C; A B C D; A B C D E; A B C D E F; A B C D E F G; A B C D E F G H;);

/// The key of a tuple. Tuples of the same types sort like their keys, and the key of a shorter
/// tuple is a prefix of the keys of longer tuples that begin with it.
///
/// O(length of the key).
///
/// ```
/// use sapwood::key::{tuple, TupleReader};
/// let key = tuple(("tenant", -5i32, [10, 0, 0, 1]));
/// assert!(key < tuple(("tenant", 7i32, [10, 0, 0, 0])));
/// assert!(key.starts_with(&tuple(("tenant",))));
///
/// let mut parts = TupleReader::new(&key);
/// assert_eq!(parts.read::<String>()?, "tenant");
/// assert_eq!(parts.read::<i32>()?, -5);
/// assert_eq!(parts.read::<[u8; 4]>()?, [10, 0, 0, 1]);
/// parts.end()?;
/// # Ok::<(), sapwood::key::TupleError>(())
/// ```
pub fn tuple(parts: impl Parts) -> Vec<u8> {
    let mut key = Vec::new();
    parts.push_all(&mut key);
    key
}

/// The reason why a tuple cannot be read from a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no {wanted} at byte {at} of the key")]
pub struct TupleError {
    /// The part that was asked for.
    pub wanted: &'static str,
    /// Position in the key.
    pub at: usize,
}

/// A reader of the parts of a tuple's key, in order. The caller knows their types.
#[derive(Clone, Debug)]
pub struct TupleReader<'a> {
    key: &'a [u8],
    rest: &'a [u8],
}

impl<'a> TupleReader<'a> {
    /// A reader that begins at the first part.
    ///
    /// O(1).
    pub fn new(key: &'a [u8]) -> Self {
        TupleReader { key, rest: key }
    }

    fn error(&self, wanted: &'static str) -> TupleError {
        TupleError {
            wanted,
            at: self.key.len() - self.rest.len(),
        }
    }

    fn fixed<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (part, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*part)
    }

    /// Reads a number, a `bool`, an array of bytes, a byte string (`Vec<u8>`), a string or an
    /// address. After an error, the part is the next one still.
    ///
    /// O(length of the part).
    ///
    /// # Errors
    /// When the next part is something else, the key ends before its end, or a string has a bad
    /// escape or is not UTF-8.
    pub fn read<P: ReadPart>(&mut self) -> Result<P, TupleError> {
        let before = self.rest;
        let error = self.error(P::NAME);
        P::read(self).ok_or_else(|| {
            self.rest = before;
            error
        })
    }

    /// Checks that no part is left.
    ///
    /// O(1).
    ///
    /// # Errors
    /// When the key has more bytes.
    pub fn end(&self) -> Result<(), TupleError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(self.error("end"))
        }
    }
}

/// A type whose values can be read as parts of a tuple's key.
pub trait ReadPart: Sized {
    /// What errors call such a part.
    const NAME: &'static str;

    /// Reads the next part, if it is of this type.
    fn read(parts: &mut TupleReader<'_>) -> Option<Self>;
}

macro_rules! read_parts {
    ($($type:ty, $name:expr, |$parts:ident| $read:expr;)*) => {$(
        impl ReadPart for $type {
            const NAME: &'static str = $name;

            fn read($parts: &mut TupleReader<'_>) -> Option<Self> {
                $read
            }
        }
    )*};
}

macro_rules! read_integers {
    ($($unsigned:ident, $signed:ident);*) => {read_parts! {$(
        $unsigned, stringify!($unsigned), |parts| parts.fixed().map(<$unsigned>::from_be_bytes);
        $signed, stringify!($signed), |parts| {
            Some(parts.fixed().map(<$signed>::from_be_bytes)? ^ <$signed>::MIN)
        };
    )*}};
}
read_integers!(u8, i8; u16, i16; u32, i32; u64, i64; u128, i128);

read_parts! {
    bool, "bool", |parts| match parts.fixed()? {
        [byte @ 0..=1] => Some(byte == 1),
        _ => None,
    };
    f64, "f64", |parts| {
        let turned = parts.fixed().map(u64::from_be_bytes)?;
        Some(f64::from_bits(if turned >> 63 == 1 {
            turned & !(1 << 63)
        } else {
            !turned
        }))
    };
    Vec<u8>, "byte string", |parts| {
        let (bytes, rest) = take_escaped(parts.rest)?;
        parts.rest = rest;
        Some(bytes)
    };
    String, "string", |parts| String::from_utf8(ReadPart::read(parts)?).ok();
    Ipv4Addr, "IPv4 address", |parts| parts.fixed::<4>().map(Self::from);
    Ipv6Addr, "IPv6 address", |parts| parts.fixed::<16>().map(Self::from);
    IpAddr, "address", |parts| match parts.fixed()? {
        [4] => Ipv4Addr::read(parts).map(Self::from),
        [6] => Ipv6Addr::read(parts).map(Self::from),
        _ => None,
    };
}

impl<const N: usize> ReadPart for [u8; N] {
    const NAME: &'static str = "array";

    fn read(parts: &mut TupleReader<'_>) -> Option<Self> {
        parts.fixed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_like_their_parts() {
        let ints = [i64::MIN, -2, -1, 0, 1, 2, i64::MAX];
        assert!(ints.map(|i| tuple((i,))).is_sorted());
        let floats = [
            f64::NEG_INFINITY,
            -1.5,
            -0.0,
            0.0,
            1e-300,
            2.5,
            f64::INFINITY,
        ];
        assert!(floats.map(|f| tuple((f,))).is_sorted());
        for f in floats {
            let back = TupleReader::new(&tuple((f,))).read::<f64>().unwrap();
            assert_eq!(back.to_bits(), f.to_bits());
        }
        let strings: [&[u8]; 9] = [
            b"", b"\0", b"\0\0", b"\0\x01", b"\x01", b"\x02", b"a", b"a\0", b"b",
        ];
        for (i, a) in strings.iter().enumerate() {
            for (j, b) in strings.iter().enumerate() {
                for x in [0u8, 1, 255] {
                    for y in [0u8, 1, 255] {
                        let (ka, kb) = (tuple((*a, x)), tuple((*b, y)));
                        assert_eq!(ka.cmp(&kb), (i, x).cmp(&(j, y)), "{a:?} {x} {b:?} {y}");
                    }
                }
            }
            assert_eq!(
                TupleReader::new(&tuple((*a,))).read::<Vec<u8>>().unwrap(),
                *a
            );
        }
        let addresses =
            ["1.2.3.4", "9.0.0.1", "::1", "fe80::1"].map(|a| a.parse::<IpAddr>().unwrap());
        assert!(addresses.map(|a| tuple((a,))).is_sorted());
        for a in addresses {
            assert_eq!(TupleReader::new(&tuple((a,))).read::<IpAddr>(), Ok(a));
        }
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        let mut r = TupleReader::new(&[0, 0, 7]);
        assert_eq!(r.read::<u16>(), Ok(0));
        assert_eq!(
            r.read::<u16>(),
            Err(TupleError {
                wanted: "u16",
                at: 2
            })
        );
        assert_eq!(
            r.read::<bool>(),
            Err(TupleError {
                wanted: "bool",
                at: 2
            })
        );
        assert_eq!(
            r.read::<IpAddr>(),
            Err(TupleError {
                wanted: "address",
                at: 2
            })
        );
        assert!(r.end().is_err());
        assert_eq!(r.read::<u8>(), Ok(7));
        assert!(r.end().is_ok());
        assert!(TupleReader::new(&[1, 9, 0]).read::<Vec<u8>>().is_err());
        assert!(TupleReader::new(&[0xff, 0]).read::<String>().is_err());
    }
}
