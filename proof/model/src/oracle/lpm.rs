//! [`Lpm`] and [`LpmByLength`]: longest-prefix match over addresses, as its definition, and fast
//! enough for a full table.

use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, Ipv6Addr};

/// A prefix of an address space of up to 128 bits.
///
/// Prefixes are ordered as in tables: by address, and for the same address by length, so that a
/// prefix comes before the prefixes that it covers.
///
/// ```
/// use sapwood_model::oracle::Prefix;
///
/// let net = Prefix::v4([10, 1, 0, 0].into(), 16);
/// assert!(net.contains(u128::from(u32::from_be_bytes([10, 1, 2, 3])) << 96));
/// assert!(Prefix::v4([10, 0, 0, 0].into(), 8).covers(net));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    /// The address, left-aligned: bit 127 is its first bit. All bits after the first `len` are
    /// zero.
    pub bits: u128,
    /// The number of bits of the prefix.
    pub len: u8,
}

impl Prefix {
    /// The prefix of the first `len` bits of an address; its other bits are cleared.
    ///
    /// # Panics
    ///
    /// If `len` is above 128.
    #[must_use]
    pub fn truncated(address: u128, len: u8) -> Self {
        Self {
            bits: address & mask(len),
            len,
        }
    }

    /// The IPv4 prefix; bits after the first `len` are cleared.
    #[must_use]
    pub fn v4(address: Ipv4Addr, len: u8) -> Self {
        Self::truncated(v4_address(address), len)
    }

    /// The IPv6 prefix; bits after the first `len` are cleared.
    #[must_use]
    pub fn v6(address: Ipv6Addr, len: u8) -> Self {
        Self::truncated(address.to_bits(), len)
    }

    /// The address of an IPv4 prefix.
    #[must_use]
    pub fn v4_addr(self) -> Ipv4Addr {
        to_v4(self.bits)
    }

    /// The address of an IPv6 prefix.
    #[must_use]
    pub fn v6_addr(self) -> Ipv6Addr {
        self.bits.into()
    }

    /// Whether a left-aligned address starts with this prefix.
    #[must_use]
    pub fn contains(self, address: u128) -> bool {
        address & mask(self.len) == self.bits
    }

    /// Whether `other` is this prefix or is inside it.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        self.len <= other.len && self.contains(other.bits)
    }
}

/// An IPv4 address, left-aligned in 128 bits.
#[must_use]
pub fn v4_address(address: Ipv4Addr) -> u128 {
    u128::from(address.to_bits()) << 96
}

/// The IPv4 address in the first 32 bits.
#[must_use]
pub fn to_v4(address: u128) -> Ipv4Addr {
    Ipv4Addr::from_bits((address >> 96) as u32)
}

/// The first `len` of 128 bits.
fn mask(len: u8) -> u128 {
    assert!(len <= 128, "at most 128 bits");
    u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0)
}

/// A naive table of prefixes.
///
/// A `BTreeMap` gives the storage and the order. Each query is the definition of its answer, and
/// looks at all prefixes. `width` is the number of bits of an address: 32 for IPv4, 128 for IPv6,
/// less for tests that try a whole address space. Addresses are left-aligned at every width.
///
/// ```
/// use sapwood_model::oracle::{Lpm, Prefix};
///
/// let mut table = Lpm::new(32);
/// let (wide, narrow) = (Prefix::v4([10, 0, 0, 0].into(), 8), Prefix::v4([10, 1, 0, 0].into(), 16));
/// table.insert(wide, 1);
/// table.insert(narrow, 2);
/// assert_eq!(table.lookup(10 << 120 | 1 << 112), Some((narrow, &2)));
/// assert_eq!(table.lookup(10 << 120 | 2 << 112), Some((wide, &1)));
/// assert_eq!(table.children(wide), [(narrow, &2)]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lpm<V> {
    width: u8,
    map: BTreeMap<Prefix, V>,
}

impl<V> Lpm<V> {
    /// The empty table over addresses of `width` bits.
    ///
    /// # Panics
    ///
    /// If `width` is above 128.
    #[must_use]
    pub fn new(width: u8) -> Self {
        assert!(width <= 128, "at most 128 bits");
        Self {
            width,
            map: BTreeMap::new(),
        }
    }

    /// The number of bits of an address.
    #[must_use]
    pub fn width(&self) -> u8 {
        self.width
    }

    /// The number of prefixes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether there are no prefixes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Stores `value` at `prefix`; returns the value before.
    ///
    /// # Panics
    ///
    /// If the prefix is longer than an address, or has bits set after its length.
    pub fn insert(&mut self, prefix: Prefix, value: V) -> Option<V> {
        check(prefix, self.width);
        self.map.insert(prefix, value)
    }

    /// Removes exactly this prefix; returns its value.
    pub fn remove(&mut self, prefix: Prefix) -> Option<V> {
        self.map.remove(&prefix)
    }

    /// Removes all prefixes.
    pub fn clear(&mut self) {
        self.map.clear();
    }

    /// The value of exactly this prefix.
    #[must_use]
    pub fn get(&self, prefix: Prefix) -> Option<&V> {
        self.map.get(&prefix)
    }

    /// The longest prefix that contains the address.
    #[must_use]
    pub fn lookup(&self, address: u128) -> Option<(Prefix, &V)> {
        self.iter()
            .filter(|(prefix, _)| prefix.contains(address))
            .max_by_key(|(prefix, _)| prefix.len)
    }

    /// All prefixes that contain the address, the shortest first.
    #[must_use]
    pub fn matches(&self, address: u128) -> Vec<(Prefix, &V)> {
        let mut found: Vec<_> = self
            .iter()
            .filter(|(prefix, _)| prefix.contains(address))
            .collect();
        found.sort_by_key(|(prefix, _)| prefix.len);
        found
    }

    /// The stored prefixes that `prefix` covers, itself included, in order.
    #[must_use]
    pub fn covered_by(&self, prefix: Prefix) -> Vec<(Prefix, &V)> {
        self.iter()
            .filter(|(inside, _)| prefix.covers(*inside))
            .collect()
    }

    /// The stored prefixes directly inside `prefix`, which need not be stored: those that it
    /// covers, without itself and without those that another of them covers. In order.
    #[must_use]
    pub fn children(&self, prefix: Prefix) -> Vec<(Prefix, &V)> {
        let inside = |child: Prefix| child != prefix && prefix.covers(child);
        let between = |child: Prefix| {
            self.map
                .keys()
                .any(|other| inside(*other) && *other != child && other.covers(child))
        };
        self.iter()
            .filter(|(child, _)| inside(*child) && !between(*child))
            .collect()
    }

    /// All prefixes in order of address, then length.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (Prefix, &V)> {
        self.map.iter().map(|(prefix, value)| (*prefix, value))
    }
}

fn check(prefix: Prefix, width: u8) {
    assert!(
        prefix.len <= width && prefix == Prefix::truncated(prefix.bits, prefix.len),
        "{prefix:?}: not a prefix of {width} bits"
    );
}

/// A simple table that is fast enough for a million prefixes: one hash map for each length. A
/// lookup tries the lengths from the longest to the shortest.
///
/// It is the oracle for full tables. Its own tests compare it with [`Lpm`].
#[derive(Clone, Debug)]
pub struct LpmByLength<V> {
    width: u8,
    maps: Vec<HashMap<u128, V>>,
}

impl<V> LpmByLength<V> {
    /// The empty table over addresses of `width` bits.
    ///
    /// # Panics
    ///
    /// If `width` is above 128.
    #[must_use]
    pub fn new(width: u8) -> Self {
        assert!(width <= 128, "at most 128 bits");
        Self {
            width,
            maps: (0..=width).map(|_| HashMap::new()).collect(),
        }
    }

    /// The number of prefixes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.maps.iter().map(HashMap::len).sum()
    }

    /// Whether there are no prefixes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Stores `value` at `prefix`; returns the value before.
    ///
    /// # Panics
    ///
    /// If the prefix is longer than an address, or has bits set after its length.
    pub fn insert(&mut self, prefix: Prefix, value: V) -> Option<V> {
        check(prefix, self.width);
        self.maps[usize::from(prefix.len)].insert(prefix.bits, value)
    }

    /// Removes exactly this prefix; returns its value.
    pub fn remove(&mut self, prefix: Prefix) -> Option<V> {
        self.maps
            .get_mut(usize::from(prefix.len))?
            .remove(&prefix.bits)
    }

    /// The value of exactly this prefix.
    #[must_use]
    pub fn get(&self, prefix: Prefix) -> Option<&V> {
        self.maps.get(usize::from(prefix.len))?.get(&prefix.bits)
    }

    /// The longest prefix that contains the address.
    #[must_use]
    pub fn lookup(&self, address: u128) -> Option<(Prefix, &V)> {
        (0..=self.width).rev().find_map(|len| {
            let map = &self.maps[usize::from(len)];
            let prefix = Prefix::truncated(address, len);
            // Most lengths of a real table have no prefixes, so the hash of the bits is not needed.
            let found = (!map.is_empty()).then(|| map.get(&prefix.bits)).flatten();
            Some((prefix, found?))
        })
    }
}

impl<V> FromIterator<(Prefix, V)> for LpmByLength<V> {
    /// A table over 128 bits, which can have prefixes of every narrower space.
    fn from_iter<I: IntoIterator<Item = (Prefix, V)>>(pairs: I) -> Self {
        let mut table = Self::new(128);
        for (prefix, value) in pairs {
            table.insert(prefix, value);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    /// A prefix of four bits at most, from text; "" is the prefix of length 0.
    fn p(bits: &str) -> Prefix {
        let number = u128::from_str_radix(bits, 2).unwrap_or(0);
        Prefix {
            bits: number.checked_shl(128 - bits.len() as u32).unwrap_or(0),
            len: bits.len() as u8,
        }
    }

    #[test]
    fn a_small_table_by_hand() {
        let mut table = Lpm::new(4);
        for (value, bits) in ["10", "", "1011", "100", "0", "1010"]
            .into_iter()
            .enumerate()
        {
            assert_eq!(table.insert(p(bits), value), None);
        }
        assert_eq!(table.insert(p("100"), 7), Some(3));
        assert_eq!(table.lookup(p("1011").bits), Some((p("1011"), &2)));
        assert_eq!(table.lookup(p("1001").bits), Some((p("100"), &7)));
        assert_eq!(table.lookup(p("11").bits), Some((p(""), &1)));
        let nets = |found: Vec<(Prefix, &usize)>| -> Vec<Prefix> {
            found.into_iter().map(|(prefix, _)| prefix).collect()
        };
        assert_eq!(
            nets(table.matches(p("1010").bits)),
            ["", "10", "1010"].map(p)
        );
        assert_eq!(
            nets(table.covered_by(p("10"))),
            ["10", "100", "1010", "1011"].map(p)
        );
        assert_eq!(
            nets(table.children(p("10"))),
            ["100", "1010", "1011"].map(p)
        );
        assert_eq!(nets(table.children(p(""))), ["0", "10"].map(p));
        assert_eq!(nets(table.children(p("1"))), [p("10")]);
        let all = table.iter().map(|(prefix, _)| prefix);
        let order = ["", "0", "10", "100", "1010", "1011"].map(p);
        assert!(all.eq(order));
        assert_eq!(table.remove(p("10")), Some(0));
        assert_eq!(table.remove(p("10")), None);
        assert_eq!(
            nets(table.children(p(""))),
            ["0", "100", "1010", "1011"].map(p)
        );
        assert_eq!((table.get(p("10")), table.len()), (None, 5));
    }

    #[test]
    #[should_panic(expected = "not a prefix of 8 bits")]
    fn bits_after_the_length_are_refused() {
        let prefix = Prefix {
            bits: 3 << 120,
            len: 7,
        };
        Lpm::new(8).insert(prefix, ());
    }

    #[test]
    fn by_length_agrees_with_the_definition() {
        for (width, seed) in [(10_u8, 1), (32, 2), (128, 3)] {
            let mut rng = Rng::with_seed(seed);
            let (mut slow, mut fast) = (Lpm::new(width), LpmByLength::new(width));
            // Few distinct first bits, so that prefixes nest and repeat at every width.
            let address = |rng: &mut Rng| {
                let low = rng.u128(..) & 0x8000_0001;
                (rng.u128(..) & (7 << 125 | 1 << 118)) | low << (128 - u32::from(width.max(32)))
            };
            for step in 0..400 {
                let prefix = Prefix::truncated(address(&mut rng), rng.u8(0..=width));
                if rng.u8(..) < 80 {
                    assert_eq!(slow.remove(prefix), fast.remove(prefix));
                } else {
                    assert_eq!(slow.insert(prefix, step), fast.insert(prefix, step));
                }
                assert_eq!(slow.get(prefix), fast.get(prefix));
                assert_eq!(slow.len(), fast.len());
                for _ in 0..10 {
                    let address = address(&mut rng);
                    let found = slow.lookup(address);
                    assert_eq!(found, fast.lookup(address));
                    assert_eq!(found, slow.matches(address).pop());
                }
            }
            assert!(slow.len() > 20, "{} prefixes of {width} bits", slow.len());
        }
    }

    #[test]
    fn addresses_go_both_ways() {
        let net = Prefix::v4([192, 168, 255, 1].into(), 24);
        assert_eq!(net.v4_addr(), Ipv4Addr::from([192, 168, 255, 0]));
        let net: Prefix = Prefix::v6("2001:db8::1".parse().unwrap(), 127);
        assert_eq!(net.v6_addr(), "2001:db8::".parse::<Ipv6Addr>().unwrap());
        assert!(net.contains(net.bits | 1) && !net.contains(net.bits | 2));
    }
}
