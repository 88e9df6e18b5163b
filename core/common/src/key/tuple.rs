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
/// assert_eq!(parts.string()?, "tenant");
/// assert_eq!(parts.i32()?, -5);
/// assert_eq!(parts.array::<4>()?, [10, 0, 0, 1]);
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

macro_rules! read_integers {
    ($($unsigned:ident, $signed:ident);*) => {$(
        #[doc = concat!("A `", stringify!($unsigned), "`.")]
        ///
        /// # Errors
        /// When the key ends before that.
        pub fn $unsigned(&mut self) -> Result<$unsigned, TupleError> {
            self.fixed(stringify!($unsigned)).map(<$unsigned>::from_be_bytes)
        }

        #[doc = concat!("An `", stringify!($signed), "`.")]
        ///
        /// # Errors
        /// When the key ends before that.
        pub fn $signed(&mut self) -> Result<$signed, TupleError> {
            let turned = self.fixed(stringify!($signed)).map(<$signed>::from_be_bytes)?;
            Ok(turned ^ <$signed>::MIN)
        }
    )*};
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

    fn fixed<const N: usize>(&mut self, wanted: &'static str) -> Result<[u8; N], TupleError> {
        let (part, rest) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or_else(|| self.error(wanted))?;
        self.rest = rest;
        Ok(*part)
    }

    read_integers!(u8, i8; u16, i16; u32, i32; u64, i64; u128, i128);

    /// Reads a `bool`.
    ///
    /// O(1).
    ///
    /// # Errors
    /// When the next part is something else.
    pub fn bool(&mut self) -> Result<bool, TupleError> {
        match self.rest.split_first() {
            Some((&byte @ 0..=1, rest)) => {
                self.rest = rest;
                Ok(byte == 1)
            }
            _ => Err(self.error("bool")),
        }
    }

    /// Reads an `f64`.
    ///
    /// O(1).
    ///
    /// # Errors
    /// When the key ends before that.
    pub fn f64(&mut self) -> Result<f64, TupleError> {
        let turned = self.fixed("f64").map(u64::from_be_bytes)?;
        Ok(f64::from_bits(if turned >> 63 == 1 {
            turned & !(1 << 63)
        } else {
            !turned
        }))
    }

    /// Reads a known number of bytes.
    ///
    /// O(number of the bytes).
    ///
    /// # Errors
    /// When the key ends before that.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], TupleError> {
        self.fixed("array")
    }

    /// Reads a byte string of any length.
    ///
    /// O(length of the byte string).
    ///
    /// # Errors
    /// When the key ends before that, or has a bad escape.
    pub fn bytes(&mut self) -> Result<Vec<u8>, TupleError> {
        let (bytes, rest) = take_escaped(self.rest).ok_or_else(|| self.error("byte string"))?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Reads a string.
    ///
    /// O(length of the string).
    ///
    /// # Errors
    /// When the key ends before that, has a bad escape, or is not UTF-8 there.
    pub fn string(&mut self) -> Result<String, TupleError> {
        let error = self.error("string");
        String::from_utf8(self.bytes()?).map_err(|_| error)
    }

    /// Reads an address.
    ///
    /// O(1).
    ///
    /// # Errors
    /// When the next part is something else.
    pub fn ip(&mut self) -> Result<IpAddr, TupleError> {
        let error = self.error("address");
        let before = self.rest;
        let read = match self.u8()? {
            4 => self.fixed::<4>("address").map(IpAddr::from),
            6 => self.fixed::<16>("address").map(IpAddr::from),
            _ => Err(error),
        };
        read.map_err(|_| {
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
            let back = TupleReader::new(&tuple((f,))).f64().unwrap();
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
            assert_eq!(TupleReader::new(&tuple((*a,))).bytes().unwrap(), *a);
        }
        let addresses =
            ["1.2.3.4", "9.0.0.1", "::1", "fe80::1"].map(|a| a.parse::<IpAddr>().unwrap());
        assert!(addresses.map(|a| tuple((a,))).is_sorted());
        for a in addresses {
            assert_eq!(TupleReader::new(&tuple((a,))).ip(), Ok(a));
        }
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        let mut r = TupleReader::new(&[0, 0, 7]);
        assert_eq!(r.u16(), Ok(0));
        assert_eq!(
            r.u16(),
            Err(TupleError {
                wanted: "u16",
                at: 2
            })
        );
        assert_eq!(
            r.bool(),
            Err(TupleError {
                wanted: "bool",
                at: 2
            })
        );
        assert_eq!(
            r.ip(),
            Err(TupleError {
                wanted: "address",
                at: 2
            })
        );
        assert!(r.end().is_err());
        assert_eq!(r.u8(), Ok(7));
        assert!(r.end().is_ok());
        assert!(TupleReader::new(&[1, 9, 0]).bytes().is_err());
        assert!(TupleReader::new(&[0xff, 0]).string().is_err());
    }
}
