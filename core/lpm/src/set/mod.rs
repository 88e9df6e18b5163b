//! Sets of addresses: sorted ranges that do not touch each other, for each family.

mod family;
mod text;

use core::fmt;
use core::net::IpAddr;

use ipnet::IpNet;

use super::family::{Family, V4, V6};

pub use family::{AddrSet, Prefixes, supernet};
pub use text::SetError;

/// A set of IPv4 addresses.
pub type Ipv4Set = AddrSet<V4>;
/// A set of IPv6 addresses.
pub type Ipv6Set = AddrSet<V6>;

/// A set of addresses of both families: an [`AddrSet`] of each. It is made of prefixes, ranges or a
/// text, and gives its fewest prefixes and its ranges.
///
/// `|`, `&`, `-`, `^` and `!` on references are the methods of these names. A set has sorted ranges
/// in memory: 8 bytes a range of IPv4, 32 of IPv6. Two sets are combined in one pass over their
/// ranges. A change moves the ranges behind it: to make a large set, collect it.
///
/// ```
/// use sapwood::lpm::IpSet;
/// let private: IpSet = "10.0.0.0/8
///     172.16.0.0/12   # a comment
///     192.168.0.0-192.168.255.255
///     fc00::/7".parse()?;
/// let lab: IpSet = ["10.1.0.0/16".parse()?, "192.0.2.0/24".parse()?].into_iter().collect();
/// assert!(private.contains("172.31.1.1".parse()?));
/// assert!(private.covers("192.168.4.0/22".parse()?));
/// assert_eq!((&lab - &private).to_string(), "192.0.2.0/24\n");
/// assert_eq!((&lab & &private).to_string(), "10.1.0.0/16\n");
/// assert_eq!((&private | &lab).prefixes().count(), 5);
/// let outside = !&private;
/// assert!(outside.v6().contains("2001:db8::1".parse()?) && !outside.contains("10.0.0.1".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct IpSet {
    v4: Ipv4Set,
    v6: Ipv6Set,
}

impl IpSet {
    /// The empty set.
    ///
    /// O(1).
    pub const fn new() -> Self {
        IpSet {
            v4: Ipv4Set::new(),
            v6: Ipv6Set::new(),
        }
    }

    /// All addresses of both families.
    ///
    /// O(1).
    pub fn all() -> Self {
        IpSet::from_sets(Ipv4Set::all(), Ipv6Set::all())
    }

    /// Joins a set of each family.
    ///
    /// O(1).
    pub const fn from_sets(v4: Ipv4Set, v6: Ipv6Set) -> Self {
        IpSet { v4, v6 }
    }

    /// The IPv4 addresses.
    ///
    /// O(1).
    pub const fn v4(&self) -> &Ipv4Set {
        &self.v4
    }

    /// The IPv6 addresses.
    ///
    /// O(1).
    pub const fn v6(&self) -> &Ipv6Set {
        &self.v6
    }

    /// The IPv4 addresses, to be changed.
    ///
    /// O(1).
    pub const fn v4_mut(&mut self) -> &mut Ipv4Set {
        &mut self.v4
    }

    /// The IPv6 addresses, to be changed.
    ///
    /// O(1).
    pub const fn v6_mut(&mut self) -> &mut Ipv6Set {
        &mut self.v6
    }

    /// Whether there is no address.
    ///
    /// O(1).
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// Whether the address is in the set.
    ///
    /// O(log n) of n ranges.
    pub fn contains(&self, addr: IpAddr) -> bool {
        match addr {
            IpAddr::V4(addr) => self.v4.contains(addr),
            IpAddr::V6(addr) => self.v6.contains(addr),
        }
    }

    /// Whether all addresses of the prefix are in the set; bits after its length are taken as
    /// zeros.
    ///
    /// O(log n) of n ranges.
    pub fn covers(&self, net: IpNet) -> bool {
        match net {
            IpNet::V4(net) => self.v4.covers(net),
            IpNet::V6(net) => self.v6.covers(net),
        }
    }

    /// Whether an address of the prefix is in the set; bits after its length are taken as zeros.
    ///
    /// O(log n) of n ranges.
    pub fn overlaps(&self, net: IpNet) -> bool {
        match net {
            IpNet::V4(net) => self.v4.overlaps(net),
            IpNet::V6(net) => self.v6.overlaps(net),
        }
    }

    /// Whether the sets have no address in common.
    ///
    /// O(n + m) for n and m ranges.
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.v4.is_disjoint(&other.v4) && self.v6.is_disjoint(&other.v6)
    }

    /// Whether all addresses of this set are in the other one.
    ///
    /// O(n + m) for n and m ranges.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.v4.is_subset(&other.v4) && self.v6.is_subset(&other.v6)
    }

    /// Inserts all addresses of a prefix; bits after its length are taken as zeros.
    ///
    /// O(n) of n ranges at worst, as those behind it move.
    pub fn insert(&mut self, net: IpNet) {
        match net {
            IpNet::V4(net) => self.v4.insert(net),
            IpNet::V6(net) => self.v6.insert(net),
        }
    }

    /// Removes all addresses of a prefix; bits after its length are taken as zeros.
    ///
    /// O(n) of n ranges at worst, as those behind it move.
    pub fn remove(&mut self, net: IpNet) {
        match net {
            IpNet::V4(net) => self.v4.remove(net),
            IpNet::V6(net) => self.v6.remove(net),
        }
    }

    /// Inserts the addresses from `first` to `last`, both included.
    ///
    /// O(n) of n ranges at worst, as those behind it move.
    ///
    /// ```
    /// use sapwood::lpm::IpSet;
    /// let mut set = IpSet::new();
    /// set.insert_range("192.0.2.1".parse()?, "192.0.2.6".parse()?)?;
    /// let nets: Vec<_> = set.prefixes().map(|net| net.to_string()).collect();
    /// assert_eq!(nets, ["192.0.2.1/32", "192.0.2.2/31", "192.0.2.4/31", "192.0.2.6/32"]);
    /// let wrong = set.insert_range("192.0.2.1".parse()?, "::1".parse()?).unwrap_err();
    /// assert_eq!(wrong.to_string(), "192.0.2.1 and ::1 are of different families");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SetError::Families`], and [`SetError::Backwards`] when the last address is before the
    /// first.
    pub fn insert_range(&mut self, first: IpAddr, last: IpAddr) -> Result<(), SetError> {
        self.put_range(first, last, true)
    }

    /// Removes the addresses from `first` to `last`, both included.
    ///
    /// O(n) of n ranges at worst, as those behind it move.
    ///
    /// # Errors
    /// As [`insert_range`](Self::insert_range).
    pub fn remove_range(&mut self, first: IpAddr, last: IpAddr) -> Result<(), SetError> {
        self.put_range(first, last, false)
    }

    fn put_range(&mut self, first: IpAddr, last: IpAddr, insert: bool) -> Result<(), SetError> {
        match (first, last) {
            _ if last < first && first.is_ipv4() == last.is_ipv4() => {
                return Err(SetError::Backwards { first, last });
            }
            (IpAddr::V4(first), IpAddr::V4(last)) if insert => self.v4.insert_range(first..=last),
            (IpAddr::V6(first), IpAddr::V6(last)) if insert => self.v6.insert_range(first..=last),
            (IpAddr::V4(first), IpAddr::V4(last)) => self.v4.remove_range(first..=last),
            (IpAddr::V6(first), IpAddr::V6(last)) => self.v6.remove_range(first..=last),
            _ => return Err(SetError::Families { first, last }),
        }
        Ok(())
    }

    /// The fewest prefixes with exactly these addresses, in order, IPv4 first.
    ///
    /// O(1) for each.
    pub fn prefixes(&self) -> impl Iterator<Item = IpNet> {
        let v4 = self.v4.prefixes().map(IpNet::V4);
        v4.chain(self.v6.prefixes().map(IpNet::V6))
    }

    /// The ranges of addresses, first and last ones, in order, IPv4 first. Between two ranges of a
    /// family is at least one address that is not in the set.
    ///
    /// O(1) for each.
    pub fn ranges(&self) -> impl Iterator<Item = (IpAddr, IpAddr)> {
        let v4 = self.v4.ranges().map(|range| range.into_inner());
        let v6 = self.v6.ranges().map(|range| range.into_inner());
        let v4 = v4.map(|(first, last)| (IpAddr::V4(first), IpAddr::V4(last)));
        v4.chain(v6.map(|(first, last)| (IpAddr::V6(first), IpAddr::V6(last))))
    }
}

/// The operations of sets, and their operators.
macro_rules! operations {
    ($($doc:literal $name:ident $trait:ident $method:ident;)*) => {
        impl IpSet {
            $(
                #[doc = $doc]
                ///
                /// O(n + m) for n and m ranges.
                #[must_use]
                pub fn $name(&self, other: &Self) -> Self {
                    IpSet::from_sets(self.v4.$name(&other.v4), self.v6.$name(&other.v6))
                }
            )*

            /// The addresses that are not in this set, of both families.
            ///
            /// O(n) for n ranges.
            #[must_use]
            pub fn complement(&self) -> Self {
                IpSet::from_sets(self.v4.complement(), self.v6.complement())
            }
        }

        $(
            impl core::ops::$trait for &IpSet {
                type Output = IpSet;

                fn $method(self, other: &IpSet) -> IpSet {
                    self.$name(other)
                }
            }

            impl<F: Family> core::ops::$trait for &AddrSet<F> {
                type Output = AddrSet<F>;

                fn $method(self, other: &AddrSet<F>) -> AddrSet<F> {
                    self.$name(other)
                }
            }
        )*
    };
}

operations!(
    "The addresses that are in either set." union BitOr bitor;
    "The addresses that are in both sets." intersection BitAnd bitand;
    "The addresses of this set that are not in the other." difference Sub sub;
    "The addresses that are in one of the sets only." symmetric_difference BitXor bitxor;
);

impl core::ops::Not for &IpSet {
    type Output = IpSet;

    fn not(self) -> IpSet {
        self.complement()
    }
}

impl<F: Family> core::ops::Not for &AddrSet<F> {
    type Output = AddrSet<F>;

    fn not(self) -> AddrSet<F> {
        self.complement()
    }
}

impl FromIterator<IpNet> for IpSet {
    fn from_iter<I: IntoIterator<Item = IpNet>>(nets: I) -> Self {
        let mut set = IpSet::new();
        set.extend(nets);
        set
    }
}

impl Extend<IpNet> for IpSet {
    /// Inserts all prefixes; bits after their lengths are taken as zeros.
    fn extend<I: IntoIterator<Item = IpNet>>(&mut self, nets: I) {
        let (mut v4, mut v6) = (alloc::vec::Vec::new(), alloc::vec::Vec::new());
        for net in nets {
            match net {
                IpNet::V4(net) => v4.push(net),
                IpNet::V6(net) => v6.push(net),
            }
        }
        self.v4.extend(v4);
        self.v6.extend(v6);
    }
}

impl fmt::Debug for IpSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.prefixes()).finish()
    }
}
