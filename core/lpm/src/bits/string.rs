//! Bit strings, borrowed and owned, and the trait of the types that can be read as one.

use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};
use smallvec::SmallVec;

use super::code;
use crate::Error;

/// The longest bit string, in bits.
pub const MAX_BITS: usize = 2048;

/// A borrowed bit string: bytes, most significant bit first, and a number of bits.
///
/// ```
/// use sapwood::lpm::BitPrefix;
/// let prefix = BitPrefix::new(&[0x0a, 0x80], 9)?;
/// assert_eq!(prefix.to_string(), "0a8/9");
/// assert!(BitPrefix::new(&[0x0a, 0xc0], 9).is_err());
/// assert_eq!(BitPrefix::truncated(&[0x0a, 0xc0], 9)?, prefix);
/// # Ok::<(), sapwood::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct BitPrefix<'a> {
    /// As many bytes as the bits take. Bits of the last byte behind the length are ignored.
    bytes: &'a [u8],
    len: u16,
}

/// The bits of the last byte that a string of this length uses.
fn mask(len: usize) -> u8 {
    if len % 8 == 0 {
        0xff
    } else {
        !(0xff >> (len % 8))
    }
}

impl<'a> BitPrefix<'a> {
    /// The first `bits` bits of `bytes`, the rest of which is 0.
    ///
    /// O(length of `bytes`).
    ///
    /// # Errors
    /// [`Error::PrefixTooLong`] when `bytes` has fewer bits, or `bits` is over 2,048;
    /// [`Error::BitsBehindPrefix`] when a bit behind them is 1.
    pub fn new(bytes: &'a [u8], bits: usize) -> Result<Self, Error> {
        let prefix = Self::truncated(bytes, bits)?;
        let (used, rest) = bytes.split_at(prefix.bytes.len());
        let dirty = used.last().is_some_and(|last| last & !mask(bits) != 0);
        if dirty || rest.iter().any(|byte| *byte != 0) {
            return Err(Error::BitsBehindPrefix { bits });
        }
        Ok(prefix)
    }

    /// The first `bits` bits of `bytes`. Bits behind them are ignored.
    ///
    /// O(1).
    ///
    /// # Errors
    /// [`Error::PrefixTooLong`] when `bytes` has fewer bits, or `bits` is over 2,048.
    #[inline]
    pub fn truncated(bytes: &'a [u8], bits: usize) -> Result<Self, Error> {
        let limit = MAX_BITS.min(bytes.len().saturating_mul(8));
        if bits > limit {
            return Err(Error::PrefixTooLong { bits, limit });
        }
        Ok(BitPrefix {
            bytes: &bytes[..bits.div_ceil(8)],
            len: bits as u16,
        })
    }

    /// All bits of an array that is known to be short.
    #[inline(always)]
    fn whole<const N: usize>(bytes: &'a [u8; N]) -> Self {
        const { assert!(N * 8 <= MAX_BITS) };
        BitPrefix {
            bytes,
            len: N as u16 * 8,
        }
    }

    /// Number of bits.
    ///
    /// O(1).
    #[inline]
    pub fn len(self) -> usize {
        usize::from(self.len)
    }

    /// Whether there is no bit.
    ///
    /// O(1).
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The first `bits` bits, or all if there are no more.
    ///
    /// O(1).
    pub fn truncate(self, bits: usize) -> Self {
        let bits = bits.min(self.len());
        BitPrefix {
            bytes: &self.bytes[..bits.div_ceil(8)],
            len: bits as u16,
        }
    }

    /// The bit at a place, the most significant bit of the first byte being at 0.
    ///
    /// O(1).
    pub fn bit(self, at: usize) -> Option<bool> {
        (at < self.len()).then(|| self.bytes[at / 8] >> (7 - at % 8) & 1 == 1)
    }

    /// Whether `other` starts with these bits.
    ///
    /// O(bits of this prefix).
    pub fn covers(self, other: impl AsBits) -> bool {
        other.with_bits(|other| self.len <= other.len && self == other.truncate(self.len()))
    }

    /// The bytes, padded with zero bits.
    ///
    /// O(1); each step is O(1).
    pub fn bytes(self) -> impl ExactSizeIterator<Item = u8> + use<'a> {
        let last = self.bytes.len().wrapping_sub(1);
        let mask = mask(self.len());
        let bytes = self.bytes.iter().enumerate();
        bytes.map(move |(i, byte)| if i == last { byte & mask } else { *byte })
    }

    /// The bytes; bits behind the length may be anything.
    #[inline(always)]
    pub(super) fn raw(self) -> &'a [u8] {
        self.bytes
    }

    /// The prefix of IPv4 addresses, if there are 32 bits or less.
    ///
    /// O(1).
    pub fn to_ipv4_net(self) -> Option<Ipv4Net> {
        let bytes = self.padded::<4>()?;
        Ipv4Net::new(bytes.into(), self.len as u8).ok()
    }

    /// The prefix of IPv6 addresses, if there are 128 bits or less.
    ///
    /// O(1).
    pub fn to_ipv6_net(self) -> Option<Ipv6Net> {
        let bytes = self.padded::<16>()?;
        Ipv6Net::new(bytes.into(), self.len as u8).ok()
    }

    fn padded<const N: usize>(self) -> Option<[u8; N]> {
        let mut all = [0; N];
        all.get_mut(..self.bytes.len())?
            .iter_mut()
            .zip(self.bytes())
            .for_each(|(to, byte)| *to = byte);
        Some(all)
    }
}

/// Bit strings are ordered by their bits padded with zeros, and then by length: the order of
/// prefixes in a table.
impl Ord for BitPrefix<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bytes()
            .cmp(other.bytes())
            .then(self.len.cmp(&other.len))
    }
}

impl PartialOrd for BitPrefix<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for BitPrefix<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.bytes().eq(other.bytes())
    }
}

impl Eq for BitPrefix<'_> {}

impl Hash for BitPrefix<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.len.hash(state);
        self.bytes().for_each(|byte| byte.hash(state));
    }
}

/// The bits as hexadecimal digits, the last of them padded with zero bits, and their number:
/// `0a8/9`.
impl fmt::Display for BitPrefix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.bytes().enumerate() {
            if self.len() - 8 * i > 4 {
                write!(f, "{byte:02x}")?;
            } else {
                write!(f, "{:x}", byte >> 4)?;
            }
        }
        write!(f, "/{}", self.len)
    }
}

impl fmt::Debug for BitPrefix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An owned bit string of up to 2,048 bits. A string of up to 192 bits needs no allocation.
///
/// Addresses, numbers and bytes can be joined to one:
///
/// ```
/// use std::net::Ipv4Addr;
/// use sapwood::lpm::BitString;
///
/// // A network number of 24 bits, and a prefix of addresses in that network.
/// let mut prefix = BitString::from_number(0x00_1234, 24)?;
/// prefix.push(BitString::try_from("10.0.0.0/8".parse::<ipnet::Ipv4Net>()?)?)?;
/// assert_eq!(prefix.to_string(), "0012340a/32");
///
/// let address = BitString::from_number(0x00_1234, 24)?.join(Ipv4Addr::new(10, 1, 2, 3))?;
/// assert!(prefix.as_prefix().covers(&address));
/// # use sapwood::lpm::ipnet;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct BitString {
    /// As many bytes as the bits take, padded with zeros.
    bytes: SmallVec<[u8; 24]>,
    len: u16,
}

impl BitString {
    /// The empty string.
    ///
    /// O(1).
    pub fn new() -> Self {
        Self::default()
    }

    /// The first `bits` bits of `bytes`, the rest of which is 0.
    ///
    /// O(bits), which are copied.
    ///
    /// # Errors
    /// As [`BitPrefix::new`].
    pub fn from_bytes(bytes: &[u8], bits: usize) -> Result<Self, Error> {
        BitPrefix::new(bytes, bits).map(Self::from)
    }

    /// The first `bits` bits of `bytes`. Bits behind them are ignored.
    ///
    /// O(bits), which are copied.
    ///
    /// # Errors
    /// As [`BitPrefix::truncated`].
    pub fn truncated(bytes: &[u8], bits: usize) -> Result<Self, Error> {
        BitPrefix::truncated(bytes, bits).map(Self::from)
    }

    /// A number as `bits` bits, the most significant first.
    ///
    /// O(1).
    ///
    /// # Errors
    /// [`Error::PrefixTooLong`] when `bits` is over 128; [`Error::BitsBehindPrefix`] when the
    /// number needs more.
    pub fn from_number(number: u128, bits: usize) -> Result<Self, Error> {
        if bits > 128 {
            return Err(Error::PrefixTooLong { bits, limit: 128 });
        }
        if number.checked_shr(bits as u32).unwrap_or(0) != 0 {
            return Err(Error::BitsBehindPrefix { bits });
        }
        let first = number.checked_shl(128 - bits as u32).unwrap_or(0);
        Self::truncated(&first.to_be_bytes(), bits)
    }

    /// The bit string of a key that [`key`](Self::key) made; `None` of other bytes.
    ///
    /// O(length of the key).
    pub fn from_key(key: &[u8]) -> Option<Self> {
        code::decode(key)
    }

    /// The bytes that stand for this prefix in ordered maps over byte strings, such as one that
    /// BPF programs write: a byte for each four bits. Keys are in the order of prefixes.
    /// `docs/lpm.md` describes them.
    ///
    /// O(bits), and an allocation.
    ///
    /// ```
    /// use sapwood::lpm::BitString;
    /// let prefix = BitString::from_number(0b1010_01, 6)?;
    /// assert_eq!(prefix.key(), [22, 9]);
    /// assert_eq!(BitString::from_key(&[22, 9]), Some(prefix));
    /// assert_eq!(BitString::from_key(b"elm"), None);
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    pub fn key(&self) -> Vec<u8> {
        code::encode(self.as_prefix()).to_vec()
    }

    pub(super) fn from_parts(bytes: SmallVec<[u8; 24]>, len: u16) -> Self {
        debug_assert_eq!(bytes.len(), usize::from(len).div_ceil(8));
        BitString { bytes, len }
    }

    /// Number of bits.
    ///
    /// O(1).
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Whether there is no bit.
    ///
    /// O(1).
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The string, borrowed.
    ///
    /// O(1).
    #[inline]
    pub fn as_prefix(&self) -> BitPrefix<'_> {
        BitPrefix {
            bytes: &self.bytes,
            len: self.len,
        }
    }

    /// The bytes, padded with zero bits.
    ///
    /// O(1).
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends bits.
    ///
    /// O(bits of `more`).
    ///
    /// # Errors
    /// [`Error::PrefixTooLong`] when there would be more than 2,048; the string is unchanged.
    pub fn push(&mut self, more: impl AsBits) -> Result<(), Error> {
        more.with_bits(|more| {
            let bits = self.len() + more.len();
            if bits > MAX_BITS {
                let limit = MAX_BITS;
                return Err(Error::PrefixTooLong { bits, limit });
            }
            let shift = self.len % 8;
            for byte in more.bytes() {
                match self.bytes.last_mut() {
                    Some(last) if shift != 0 => {
                        *last |= byte >> shift;
                        self.bytes.push(byte << (8 - shift));
                    }
                    _ => self.bytes.push(byte),
                }
            }
            self.len = bits as u16;
            self.bytes.truncate(bits.div_ceil(8));
            Ok(())
        })
    }

    /// The string with bits appended.
    ///
    /// O(bits of both).
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn join(mut self, more: impl AsBits) -> Result<Self, Error> {
        self.push(more)?;
        Ok(self)
    }
}

impl Ord for BitString {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_prefix().cmp(&other.as_prefix())
    }
}

impl PartialOrd for BitString {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for BitString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_prefix(), f)
    }
}

impl fmt::Debug for BitString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_prefix(), f)
    }
}

impl From<BitPrefix<'_>> for BitString {
    fn from(prefix: BitPrefix<'_>) -> Self {
        BitString {
            bytes: prefix.bytes().collect(),
            len: prefix.len,
        }
    }
}

/// A type that can be read as a bit string: bit strings, and addresses with all of their bits.
pub trait AsBits {
    /// Calls `f` with the bits.
    fn with_bits<R>(&self, f: impl FnOnce(BitPrefix<'_>) -> R) -> R;
}

impl AsBits for BitPrefix<'_> {
    #[inline(always)]
    fn with_bits<R>(&self, f: impl FnOnce(BitPrefix<'_>) -> R) -> R {
        f(*self)
    }
}

impl AsBits for BitString {
    #[inline(always)]
    fn with_bits<R>(&self, f: impl FnOnce(BitPrefix<'_>) -> R) -> R {
        f(self.as_prefix())
    }
}

impl<T: AsBits + ?Sized> AsBits for &T {
    #[inline(always)]
    fn with_bits<R>(&self, f: impl FnOnce(BitPrefix<'_>) -> R) -> R {
        (**self).with_bits(f)
    }
}

impl AsBits for Ipv4Addr {
    #[inline(always)]
    fn with_bits<R>(&self, f: impl FnOnce(BitPrefix<'_>) -> R) -> R {
        f(BitPrefix::whole(&self.octets()))
    }
}

impl AsBits for Ipv6Addr {
    #[inline(always)]
    fn with_bits<R>(&self, f: impl FnOnce(BitPrefix<'_>) -> R) -> R {
        f(BitPrefix::whole(&self.octets()))
    }
}

macro_rules! from_address {
    ($($address:ty),*) => {$(
        impl From<$address> for BitString {
            fn from(address: $address) -> Self {
                address.with_bits(|bits| bits.into())
            }
        }
    )*};
}

from_address!(Ipv4Addr, Ipv6Addr);

macro_rules! try_from_prefix {
    ($($prefix:ty),*) => {$(
        /// Converts a prefix of one family. `0.0.0.0/0` and `::/0` are the same string of no bits,
        /// so a table of both families needs bits in front that tell them apart.
        ///
        /// # Errors
        /// [`Error::HostBitsSet`]; `trunc` of the prefix has none.
        impl TryFrom<$prefix> for BitString {
            type Error = Error;

            fn try_from(prefix: $prefix) -> Result<Self, Error> {
                if prefix.addr() != prefix.network() {
                    return Err(Error::HostBitsSet { prefix: prefix.into() });
                }
                let len = usize::from(prefix.prefix_len());
                Ok(prefix.addr().with_bits(|bits| bits.truncate(len).into()))
            }
        }
    )*};
}

try_from_prefix!(Ipv4Net, Ipv6Net);
