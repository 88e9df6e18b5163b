//! The two families of addresses, and addresses as the bits that a table is walked by.

use core::fmt::{Debug, Display};
use core::hash::Hash;
use core::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::V4 {}
    impl Sealed for super::V6 {}
}

/// A family of addresses: [`V4`] or [`V6`]. The trait is sealed.
pub trait Family: sealed::Sealed + Copy + Debug + Send + Sync + 'static {
    /// An address.
    type Addr: Copy + Eq + Ord + Hash + Debug + Display + Send + Sync + 'static;
    /// A prefix.
    type Net: Copy + Eq + Ord + Hash + Debug + Display + Into<IpNet> + Send + Sync + 'static;
    /// Bits of an address.
    const WIDTH: u8;

    #[doc(hidden)]
    type Key: Key;

    /// The address as bits.
    #[doc(hidden)]
    fn key(addr: Self::Addr) -> Self::Key;

    /// The bits of a prefix, host bits included, and its length.
    #[doc(hidden)]
    fn parts(net: Self::Net) -> (Self::Key, u8);

    /// The prefix, if it is of this family.
    #[doc(hidden)]
    fn from_net(net: IpNet) -> Option<Self::Net>;

    /// The prefix of these bits; bits behind the length are cut off.
    #[doc(hidden)]
    fn net_of(key: Self::Key, len: u8) -> Self::Net;

    /// The address as a number.
    #[doc(hidden)]
    fn number(addr: Self::Addr) -> u128;

    /// The address of a number, which is one of the family's.
    #[doc(hidden)]
    fn addr_of(number: u128) -> Self::Addr;
}

/// IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum V4 {}

/// IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum V6 {}

/// The bits of an address, the first of them highest, with room behind them for a whole stride.
#[doc(hidden)]
pub trait Key: Copy + Eq + Ord + Debug + Send + Sync + 'static {
    /// Bits of the type.
    const BITS: u32;
    /// All zeros.
    const ZERO: Self;
    /// The first `n` bits, `1..=24`.
    fn top(self, n: u32) -> usize;
    /// The six bits after the first `at`; `at` is less than [`BITS`](Self::BITS).
    fn six(self, at: u32) -> usize;
    /// The 64 bits after the first `at`, with zeros behind the last one; `at` is less than
    /// [`BITS`](Self::BITS).
    fn word(self, at: u32) -> u64;
    /// 64 bits as those after the first `at`, with zeros before them; `at` is less than
    /// [`BITS`](Self::BITS).
    fn from_word(word: u64, at: u32) -> Self;
    /// The bits after the first `n`; 0 when there are none.
    fn skip(self, n: u32) -> Self;
    /// The bits after the first `n`, and those behind them, so that nothing is lost: see
    /// [`turn_back`](Self::turn_back).
    fn turn(self, n: u32) -> Self;
    /// The bits whose [`turn`](Self::turn) this is.
    fn turn_back(self, n: u32) -> Self;
    /// `value` as the `n` bits after the first `at`.
    fn put(self, at: u32, n: u32, value: usize) -> Self;
    /// The bits that either has.
    fn join(self, other: Self) -> Self;
    /// Only the first `n` bits.
    fn first(self, n: u32) -> Self;
    /// The first `width` bits as a number.
    fn number(self, width: u8) -> u128;
}

/// Six bits of one word.
#[inline(always)]
fn six_of(word: u64, at: u32) -> usize {
    (word << (at & 63) >> 58) as usize
}

macro_rules! key {
    ($type:ty, $six:expr) => {
        impl Key for $type {
            const BITS: u32 = <$type>::BITS;
            const ZERO: Self = 0;

            #[inline(always)]
            fn top(self, n: u32) -> usize {
                (self >> (Self::BITS - n)) as usize
            }

            #[inline(always)]
            fn six(self, at: u32) -> usize {
                $six(self, at)
            }

            #[inline(always)]
            fn word(self, at: u32) -> u64 {
                (self << at >> (Self::BITS - 64)) as u64
            }

            fn from_word(word: u64, at: u32) -> Self {
                <$type>::from(word) << (Self::BITS - 64) >> at
            }

            #[inline(always)]
            fn skip(self, n: u32) -> Self {
                self.checked_shl(n).unwrap_or(0)
            }

            #[inline(always)]
            fn turn(self, n: u32) -> Self {
                self.rotate_left(n)
            }

            #[inline(always)]
            fn turn_back(self, n: u32) -> Self {
                self.rotate_right(n)
            }

            fn put(self, at: u32, n: u32, value: usize) -> Self {
                // The last stride of a table may reach past the address: those bits are zeros.
                let value = (value as $type) << (Self::BITS - n);
                self | value.checked_shr(at).unwrap_or(0)
            }

            fn join(self, other: Self) -> Self {
                self | other
            }

            fn first(self, n: u32) -> Self {
                match Self::BITS - n {
                    Self::BITS => 0,
                    rest => self >> rest << rest,
                }
            }

            #[inline(always)]
            fn number(self, width: u8) -> u128 {
                u128::from(self >> (Self::BITS - u32::from(width)))
            }
        }
    };
}

key!(u64, six_of);
key!(u128, |key: u128, at: u32| match at {
    0..59 => six_of((key >> 64) as u64, at),
    59..64 => (key << at >> 122) as usize,
    _ => six_of(key as u64, at),
});

impl Family for V4 {
    type Addr = Ipv4Addr;
    type Net = Ipv4Net;
    type Key = u64;
    const WIDTH: u8 = 32;

    #[inline(always)]
    fn key(addr: Ipv4Addr) -> u64 {
        u64::from(u32::from(addr)) << 32
    }

    fn parts(net: Ipv4Net) -> (u64, u8) {
        (Self::key(net.addr()), net.prefix_len())
    }

    fn from_net(net: IpNet) -> Option<Ipv4Net> {
        match net {
            IpNet::V4(net) => Some(net),
            IpNet::V6(_) => None,
        }
    }

    fn net_of(key: u64, len: u8) -> Ipv4Net {
        let addr = (key.first(u32::from(len)) >> 32) as u32;
        Ipv4Net::new_assert(addr.into(), len)
    }

    #[inline(always)]
    fn number(addr: Ipv4Addr) -> u128 {
        u32::from(addr).into()
    }

    #[inline(always)]
    fn addr_of(number: u128) -> Ipv4Addr {
        (number as u32).into()
    }
}

impl Family for V6 {
    type Addr = Ipv6Addr;
    type Net = Ipv6Net;
    type Key = u128;
    const WIDTH: u8 = 128;

    #[inline(always)]
    fn key(addr: Ipv6Addr) -> u128 {
        addr.into()
    }

    fn parts(net: Ipv6Net) -> (u128, u8) {
        (Self::key(net.addr()), net.prefix_len())
    }

    fn from_net(net: IpNet) -> Option<Ipv6Net> {
        match net {
            IpNet::V4(_) => None,
            IpNet::V6(net) => Some(net),
        }
    }

    fn net_of(key: u128, len: u8) -> Ipv6Net {
        Ipv6Net::new_assert(key.first(u32::from(len)).into(), len)
    }

    #[inline(always)]
    fn number(addr: Ipv6Addr) -> u128 {
        addr.into()
    }

    #[inline(always)]
    fn addr_of(number: u128) -> Ipv6Addr {
        number.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_taken_from_the_front() {
        let key = V4::key(Ipv4Addr::new(0b1100_0000, 0, 0, 1));
        assert_eq!((key.top(1), key.top(2), key.top(3)), (1, 3, 6));
        assert_eq!(key.skip(26).top(6), 1);
        assert_eq!(key.skip(30).top(6), 0b01_0000);
        assert!((0..32).all(|at| key.six(at) == key.skip(at).top(6)));
        assert!((0..32).all(|at| (key.word(at) >> 58) as usize == key.skip(at).top(6)));
        assert_eq!(u64::from_word(key, 3), key >> 3);
        assert_eq!(V4::net_of(key, 2).to_string(), "192.0.0.0/2");
        assert_eq!(V4::net_of(key, 0).to_string(), "0.0.0.0/0");
        assert_eq!(V4::net_of(key, 32).to_string(), "192.0.0.1/32");
        assert_eq!(u64::ZERO.put(0, 2, 3).put(30, 6, 0b01_0000), key);
    }

    #[test]
    fn a_stride_may_reach_past_the_end() {
        let key = V6::key("ffff::1".parse().unwrap());
        assert_eq!(key.skip(126).top(6), 0b01_0000);
        let other = V6::key("2001:db8:1234:5678:9abc:def0:1357:9bdf".parse().unwrap());
        assert!((0..128).all(|at| other.six(at) == other.skip(at).top(6)));
        assert!((0..128).all(|at| (other.word(at) >> 58) as usize == other.skip(at).top(6)));
        assert_eq!(other.word(60), 0x89ab_cdef_0135_79bd);
        assert_eq!(key.skip(128), 0);
        assert_eq!(u128::ZERO.put(126, 6, 0b01_0000), 1);
        assert_eq!(V6::net_of(key, 128).to_string(), "ffff::1/128");
        assert_eq!(V6::net_of(key, 64).to_string(), "ffff::/64");
    }
}
